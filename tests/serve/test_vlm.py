"""Vision-language policies behind the server, and what of them is exported."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

from oatkit_client import Client, LocalDecoder, ServerError

import oatkit
from oatkit.cli import main
from oatkit.policies import Policy, VlmConfig, policy_for_dataset
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.loading import write_scratch
from oatkit.policies.vlm.vlm_config import ExpertConfig
from oatkit.serve import ServeConfig, serving
from tests.policies import tiny

OBSERVATION = {
    "observation/state": np.zeros(tiny.STATE_DIM, np.float32),
    "observation/front_image": np.zeros((tiny.HEIGHT, tiny.WIDTH, 3), np.uint8),
    "prompt": tiny.TASKS[0],
}


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    """Co-trained: it has both heads."""
    folder = Path(tmp_path_factory.mktemp("vlm"))
    size = ScratchSize(width=16, num_layers=1, vision_width=16, vision_layers=1)
    checkpoint = write_scratch("smolvlm", folder / "smolvlm", size, tiny.TASKS)
    dataset = oatkit.open_dataset(str(tiny.write_dataset(folder / "data")))
    return policy_for_dataset(
        VlmConfig("vlm-tc", expert=ExpertConfig(width=8, num_steps=2)),
        tiny.make_tokenizer("oat-pow2", dataset),
        dataset,
        backbone=str(checkpoint),
        cameras=("front",),
    )


def test_tokens_of_a_vlm(policy: Policy) -> None:
    policy.choose_head("tokens")
    with serving(policy, ServeConfig(port=0, max_batch=2)) as url, Client(url) as client:
        assert client.metadata["cameras"] == {"front": [tiny.HEIGHT, tiny.WIDTH]}
        assert client.metadata["head"] == "tokens"
        whole = client.infer(OBSERVATION)
        assert whole["actions"].shape == (8, 3)
        assert whole["budget_used"] == 8
        assert "warning" not in whole, "its history is 1"
        assert client.infer(OBSERVATION, budget=2)["budget_used"] == 2
        assert client.infer(OBSERVATION, deadline_ms=60_000)["deadline_met"]
        assert "actions" not in client.infer({**OBSERVATION, "tokens_only": True})
        unseen = {**OBSERVATION, "observation/front_image": None}
        left_out = {k: v for k, v in OBSERVATION.items() if not k.endswith("_image")}
        certain = [client.infer(request)["entropy"][0] for request in (unseen, left_out)]
        assert certain[0] == pytest.approx(certain[1], abs=1e-4)
        assert abs(certain[0] - whole["entropy"][0]) > 1e-6, "a dark image is seen"
        with pytest.raises(ServerError, match="the observation has no 'observation/state'"):
            client.infer({**OBSERVATION, "observation/state": None})
        with pytest.raises(ServerError, match="the instruction is '', expected text under"):
            client.infer({**OBSERVATION, "prompt": ""})
        with pytest.raises(
            ServerError, match=r"front_image is \(9, 9, 3\), expected \(20, 24, 3\)"
        ):
            client.infer({**OBSERVATION, "observation/front_image": np.zeros((9, 9, 3), np.uint8)})


@pytest.mark.parametrize("head", ["tokens", "flow"])
def test_images_and_text_are_processed_once(
    policy: Policy, head: Literal["tokens", "flow"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each image of a request and its instruction, however many requests share a batch."""
    policy.choose_head(head)
    processor = policy.net.backbone.processor
    seen = {"images": 0, "texts": 0}
    real_pixels, real_ids = processor.pixels, processor.task_ids

    def pixels(images: Any) -> Any:
        seen["images"] += len(images)
        return real_pixels(images)

    def task_ids(tasks: Any, **options: Any) -> Any:
        seen["texts"] += len(tasks)
        return real_ids(tasks, **options)

    with serving(policy, ServeConfig(port=0, max_batch=4)) as url:
        monkeypatch.setattr(processor, "pixels", pixels)
        monkeypatch.setattr(processor, "task_ids", task_ids)

        def work(number: int) -> None:
            with Client(url) as client:
                for _ in range(3):
                    client.infer({**OBSERVATION, "prompt": f"knock {number} times"})

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
    assert seen == {"images": 12, "texts": 12}


def test_the_flow_of_a_vlm(policy: Policy) -> None:
    policy.choose_head("flow")
    with serving(policy, ServeConfig(port=0, max_batch=2)) as url, Client(url) as client:
        assert client.metadata["head"] == "flow"
        assert client.metadata["budgets"] == [1, 2]
        assert list(client.metadata["latency_ms"]) == ["1", "2"]
        reply = client.infer(OBSERVATION, deadline_ms=1e5)
        assert "warning" not in reply
        assert reply["actions"].shape == (8, 3)
        assert (reply["tokens"], reply["budget_used"], reply["calls"]) == ([], 2, 2)
        assert client.infer(OBSERVATION, budget=1)["budget_used"] == 1
        with pytest.raises(ServerError, match="expected a number of Euler steps"):
            client.infer(OBSERVATION, budget="auto")
        with pytest.raises(ServerError, match="gives no tokens: ask without tokens_only"):
            client.infer({**OBSERVATION, "tokens_only": True})


def test_a_head_that_is_none(policy: Policy) -> None:
    with pytest.raises(ValueError, match=r"vlm-tc has no head 'words', only \['flow', 'tokens'\]"):
        policy.choose_head("words")  # type: ignore[arg-type]


def test_only_the_decoder_of_a_vlm_is_exported(
    policy: Policy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy.save_pretrained(tmp_path / "policy")
    assert main(["export", str(tmp_path / "policy"), "--out", str(tmp_path / "onnx")]) == 0
    assert "a vlm-tc policy stays where torch is" in capsys.readouterr().out
    assert json.loads((tmp_path / "onnx" / "export.json").read_text())["policy"] is None
    tokens = [[1, 2, 3, 4]]
    np.testing.assert_allclose(
        LocalDecoder(tmp_path / "onnx").decode(tokens), policy.tokenizer.decode(tokens), atol=1e-3
    )
