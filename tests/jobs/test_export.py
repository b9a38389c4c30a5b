"""`oatkit export`, and the robot that runs what it wrote where torch is not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import oatkit_client
import pytest
from oatkit_client import (
    ChunkQueue,
    Client,
    LocalDecoder,
    LocalPolicy,
    RealTimeChunks,
    Refused,
)

import oatkit
from oatkit.cli import main
from oatkit.data import Dataset
from oatkit.policies import LightPolicy
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.serve import ServeConfig, serving
from oatkit.types import Sampling
from tests.policies import tiny

ALONE = """
import json, sys

class NoTorch:
    def find_spec(self, name, *rest):
        if name.split(".")[0] in ("torch", "oatkit", "onnx"):
            raise ImportError(name + " is not on the robot")

sys.meta_path.insert(0, NoTorch())
import numpy as np
from oatkit_client import LocalDecoder, LocalPolicy
folder, tokens, state = json.loads(sys.stdin.read())
decoder = LocalDecoder(folder)
policy = LocalPolicy(folder, temperature=0)
reply = policy.infer({"observation/state": np.array(state), "prompt": "open the door"})
print(json.dumps({
    "decoded": decoder.decode(tokens, 2).tolist(),
    "tokens": reply["tokens"],
    "actions": reply["actions"].tolist(),
    "modules": [name for name in sys.modules if name.split(".")[0] in ("torch", "oatkit")],
}))
"""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return oatkit.open_dataset(str(tiny.write_dataset(Path(tmp_path_factory.mktemp("d")) / "data")))


@pytest.fixture(scope="module")
def exported(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A policy from state, and its files."""
    folder = Path(tmp_path_factory.mktemp("export"))
    tiny.make_policy("oat-pow2", dataset, history=1).save_pretrained(folder / "policy")
    assert main(["export", str(folder / "policy"), "--out", str(folder / "onnx")]) == 0
    return folder / "policy", folder / "onnx"


def test_a_robot_without_torch(exported: tuple[Path, Path]) -> None:
    folder, files = exported
    policy = oatkit.load_policy(folder)
    tokens = [3, 14, 1, 5, 9, 2, 6, 5]
    state = [0.1, -0.2, 0.3, 0.4, -0.5]
    client = Path(oatkit_client.__file__).parents[1]
    ran = subprocess.run(
        [sys.executable, "-c", ALONE],
        input=json.dumps([str(files), tokens, state]),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(client)},
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["modules"] == []
    decoded = policy.tokenizer.decode([tokens], budget=2)[0]
    np.testing.assert_allclose(found["decoded"], decoded, atol=1e-3)
    observation = {"observation.state": np.array(state, np.float32), "task": "open the door"}
    predicted = policy.predict_action_chunk(observation, sampling=Sampling(0))
    assert found["tokens"] == predicted.ids.tolist()
    np.testing.assert_allclose(found["actions"], predicted.chunk, atol=1e-3)


def test_the_json_says_all_that_a_caller_needs(exported: tuple[Path, Path]) -> None:
    folder, files = exported
    facts = json.loads((files / "export.json").read_text())
    tokenizer = oatkit.load_policy(folder).tokenizer
    assert (facts["schema"], facts["kind"]) == ("oatkit/export", "oat-pow2")
    assert (facts["horizon"], facts["action_dim"], facts["max_tokens"]) == (8, 3, 8)
    assert facts["budgets"] == facts["schedule"] == [1, 2, 4, 8]
    assert facts["normalization"] == tokenizer.normalizer.to_json()
    assert facts["fingerprint"] == tokenizer.digest
    assert facts["decoder"]["inputs"]["tokens"] == {"dtype": "int64", "shape": ["B", 8]}
    assert facts["decoder"]["outputs"]["actions"] == {"dtype": "float32", "shape": ["B", 8, 3]}
    policy = facts["policy"]
    assert policy["tasks"] == list(tiny.TASKS)
    assert policy["encoder"]["inputs"]["observation.state"]["shape"] == ["B", 1, 5]
    assert [stage["num_kept"] for stage in policy["stages"]] == [0, 1, 1, 2]
    assert set(facts["difference_from_torch"]) == {"decoder", "encoder", "stage"}
    assert max(facts["difference_from_torch"].values()) < 1e-4
    for part in (facts["decoder"], policy["encoder"], policy["stage"]):
        assert (files / part["file"]).stat().st_size > 0


def test_images_history_and_every_budget(dataset: Dataset, tmp_path: Path) -> None:
    policy = tiny.make_policy("oat-pow2", dataset, history=2, cameras=("front",))
    policy.save_pretrained(tmp_path / "policy")
    assert main(["export", str(tmp_path / "policy"), "--out", str(tmp_path / "onnx")]) == 0
    local = LocalPolicy(tmp_path / "onnx", temperature=0)
    batch = tiny.batch(policy, dataset, 2)
    names = {
        "observation/state": "observation.state",
        "observation/front_image": "observation.images.front",
        "prompt": "task",
    }
    for row in range(2):
        observation = {key: batch[name][row] for key, name in names.items()}
        for budget in (1, 3, 8):
            predicted = policy.predict_action_chunk(
                tiny.row({name: batch[name] for name in names.values()}, row),
                budget=budget,
                sampling=Sampling(0),
            )
            reply = local.infer(observation, budget=budget)
            assert reply["tokens"] == predicted.ids[0][:budget].tolist()
            assert reply["calls"] == predicted.calls[0]
            np.testing.assert_allclose(reply["actions"], predicted.chunk[0], atol=1e-3)
            entropy = predicted.entropy_bits[0][:budget]
            np.testing.assert_allclose(reply["entropy"], entropy, atol=1e-4)
    last = {key: batch[name][0][-1] for key, name in names.items() if key != "prompt"}
    last["observation/front"] = last.pop("observation/front_image")  # as a server takes it too
    alone = local.infer({**last, "prompt": batch["task"][0]})["actions"]
    assert alone.shape == (8, 3), "one frame is repeated"


def test_a_tokenizers_decoder(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = tiny.make_tokenizer("klt", dataset)
    tokenizer.save_pretrained(tmp_path / "klt")
    assert main(["export", str(tmp_path / "klt"), "--out", str(tmp_path / "onnx")]) == 0
    assert "LocalDecoder(" in capsys.readouterr().out
    assert sorted(file.name for file in (tmp_path / "onnx").iterdir()) == [
        "decoder.onnx",
        "export.json",
    ]
    decoder = LocalDecoder(tmp_path / "onnx")
    ragged = [[1, 2, 3], [4], [5, 6, 7, 8, 9, 10]]
    np.testing.assert_allclose(decoder.decode(ragged), tokenizer.decode(ragged), atol=1e-3)
    assert decoder.decode(np.array([1, 2, 3])).shape == (8, 3)
    assert decoder.decode(np.zeros((5, 6), int)).shape == (5, 8, 3)
    with pytest.raises(ValueError, match="expected a light policy's files"):
        LocalPolicy(tmp_path / "onnx")


@pytest.mark.parametrize(
    ("tokens", "budget", "problem"),
    [
        ([20], None, r"id 20 is outside the vocabulary 0 \.\. 19"),
        ([-1], None, "id -1 is outside the vocabulary"),
        ([0] * 9, None, "a sequence has 9 tokens, this decoder has 8"),
        ([0], 9, r"budget 9 is outside 1 \.\. 8"),
        ([0.5], None, "expected whole numbers"),
    ],
)
def test_tokens_that_do_not_decode(
    exported: tuple[Path, Path], tokens: Any, budget: int | None, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        LocalDecoder(exported[1]).decode(tokens, budget)


def test_kinds_without_prefixes_say_so(dataset: Dataset, tmp_path: Path) -> None:
    tiny.make_tokenizer("bin", dataset).save_pretrained(tmp_path / "bin")
    assert main(["export", str(tmp_path / "bin"), "--out", str(tmp_path / "onnx")]) == 0
    with pytest.raises(ValueError, match="bin decodes only all of its 24 tokens, got 3"):
        LocalDecoder(tmp_path / "onnx").decode([1, 2, 3])


@pytest.mark.parametrize(
    ("observation", "problem"),
    [
        ({"other": 1}, "has the key 'other', expected observation.state, observation/state"),
        ({"prompt": "open the door"}, "the observation has no observation.state"),
        ({"observation/state": np.zeros(5)}, "the task is None, expected one of"),
        (
            {"observation/state": np.full(5, np.nan), "prompt": tiny.TASKS[0]},
            "observation.state is not finite",
        ),
        (
            {"observation/state": np.full(5, 1e300), "prompt": tiny.TASKS[0]},
            "observation.state is not finite",
        ),
        (
            {"observation/state": np.array(list("doors")), "prompt": tiny.TASKS[0]},
            "holds <U1, expected numbers",
        ),
        (
            {"observation/state": np.zeros(5), "observation.state": np.zeros(5)},
            "has observation.state twice",
        ),
        (
            {"observation/state": np.zeros(4), "prompt": tiny.TASKS[0]},
            r"is \(4,\), expected \(5,\)",
        ),
    ],
)
def test_observations_that_are_none(
    exported: tuple[Path, Path], observation: Any, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        LocalPolicy(exported[1]).infer(observation)


def test_what_cannot_be_exported(
    dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.make_tokenizer("fast", dataset).save_pretrained(tmp_path / "fast")
    assert main(["export", str(tmp_path / "fast"), "--out", str(tmp_path / "onnx")]) == 2
    assert "fast has no decoder in ONNX" in capsys.readouterr().err
    assert not (tmp_path / "onnx").exists()
    assert main(["export", str(tmp_path), "--out", str(tmp_path / "onnx")]) == 2
    assert "is no readable artifact" in capsys.readouterr().err
    assert main(["export", "someone/policy"]) == 2
    assert "is no folder here: name one for the files with --out" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"holds no export\.json of `oatkit export`"):
        LocalDecoder(tmp_path)


def test_missing_packages_are_named(
    exported: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, files = exported
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match=r"pip install 'oatkit-client\[onnx\]'"):
        LocalDecoder(files)
    assert main(["export", str(folder), "--out", str(tmp_path / "onnx")]) == 2
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert main(["export", str(folder), "--out", str(tmp_path / "onnx")]) == 2
    assert capsys.readouterr().err.count("pip install 'oatkit[onnx]'") == 2


def test_draws_are_the_policys(exported: tuple[Path, Path]) -> None:
    """Only the likeliest ids, repeatable by their seed, and not always the same."""
    observation = {"observation/state": np.zeros(5), "prompt": tiny.TASKS[0]}
    first, again = (LocalPolicy(exported[1], seed=3, top_k=2) for _ in range(2))
    drawn = [first.infer(observation)["tokens"] for _ in range(20)]
    assert drawn == [again.infer(observation)["tokens"] for _ in range(20)]
    assert len({tokens[0] for tokens in drawn}) == 2
    queue = ChunkQueue(first, execute=3)
    assert np.shape([queue.step(observation) for _ in range(7)]) == (7, 3)


def test_a_local_policy_stops_as_the_policy_does(
    exported: tuple[Path, Path], dataset: Dataset, tmp_path: Path
) -> None:
    """By thresholds that stop some chunks early, and others not at all."""
    policy = oatkit.load_policy(exported[0])
    assert isinstance(policy, LightPolicy)
    observation = {"observation.state": np.zeros(5, np.float32), "task": tiny.TASKS[0]}
    whole = policy.predict_action_chunk(observation, sampling=Sampling(0))
    with pytest.raises(ValueError, match="budget 'auto' has no thresholds"):
        LocalPolicy(exported[1]).infer(observation, budget="auto")
    used = set()
    for change, bits in ((-1.0, -1.0), (100.0, -1.0), (-1.0, float(whole.entropy_bits.min()))):
        policy.auto = AutoThresholds(change, bits + 1e-6)
        policy.save_pretrained(tmp_path / "policy")
        assert main(["export", str(tmp_path / "policy")]) == 0
        local = LocalPolicy(tmp_path / "policy" / "onnx", temperature=0)
        reply = local.infer(observation, budget="auto")
        wanted = policy.predict_action_chunk(observation, budget="auto", sampling=Sampling(0))
        assert reply["budget_used"] == wanted.budget
        assert reply["calls"] == wanted.calls
        np.testing.assert_allclose(reply["actions"], wanted.chunk, atol=1e-3)
        used.add(reply["budget_used"])
    assert {2, 8} <= used


def test_a_local_policy_keeps_deadlines(exported: tuple[Path, Path]) -> None:
    local = LocalPolicy(exported[1], temperature=0)
    observation = {"observation/state": np.zeros(5), "prompt": tiny.TASKS[0]}
    hard = local.infer(observation, deadline_ms=1e-3)
    assert (hard["budget_used"], hard["calls"], hard["deadline_met"]) == (1, 1, False)
    easy = local.infer(observation, deadline_ms=60_000)
    assert (easy["budget_used"], easy["deadline_met"]) == (8, True)
    assert easy["tokens"] == local.infer(observation)["tokens"]
    local._times_s = [0.0, 0.0, 3600.0, 0.0, 0.0]
    assert local.infer(observation, deadline_ms=60_000)["budget_used"] == 2, "the third is slow"
    assert local.infer(observation, budget=1, deadline_ms=60_000)["budget_used"] == 1
    with pytest.raises(ValueError, match="deadline_ms is 0, expected more than 0"):
        local.infer(observation, deadline_ms=0)
    with pytest.raises(ValueError, match="budget is 'all', expected a number of tokens or 'auto'"):
        local.infer(observation, budget="all")
    with RealTimeChunks(local, execute=3, rate_hz=1000) as chunks:
        assert np.shape([chunks.step(observation) for _ in range(7)]) == (7, 3)


def test_a_local_policy_that_cannot_stop_says_so(dataset: Dataset, tmp_path: Path) -> None:
    tiny.make_policy("quest", dataset, history=1).save_pretrained(tmp_path / "policy")
    assert main(["export", str(tmp_path / "policy"), "--out", str(tmp_path / "onnx")]) == 0
    observation = {"observation/state": np.zeros(5), "prompt": tiny.TASKS[0]}
    reply = LocalPolicy(tmp_path / "onnx").infer(observation, deadline_ms=1e-3)
    assert reply["actions"].shape == (8, 3)
    assert reply["warning"] == "this policy cannot stop early: deadline_ms is ignored"


def test_only_tokens_travel(exported: tuple[Path, Path]) -> None:
    folder, files = exported
    policy = oatkit.load_policy(folder)
    observation = {"observation/state": np.zeros(5), "prompt": tiny.TASKS[0]}
    with (
        serving(policy, ServeConfig(port=0, max_batch=2, sampling=Sampling(0))) as url,
        Client(url) as plain,
        Client(url, decoder=LocalDecoder(files)) as thin,
    ):
        for budget in (2, 8):
            whole = plain.infer(observation, budget=budget)
            decoded = thin.infer(observation, budget=budget)
            assert decoded["tokens"] == whole["tokens"]
            np.testing.assert_allclose(decoded["actions"], whole["actions"], atol=1e-3)
        bare = plain.infer({**observation, "tokens_only": True})
        assert "actions" not in bare
        assert len(bare["tokens"]) == 8


def test_a_decoder_of_another_tokenizer_is_refused(
    exported: tuple[Path, Path], dataset: Dataset, tmp_path: Path
) -> None:
    other = tiny.make_tokenizer("oat-pow2", dataset, num_layers=2)
    other.save_pretrained(tmp_path / "other")
    assert main(["export", str(tmp_path / "other"), "--out", str(tmp_path / "onnx")]) == 0
    policy = oatkit.load_policy(exported[0])
    with (
        serving(policy, ServeConfig(port=0, max_batch=1)) as url,
        Client(url, decoder=LocalDecoder(tmp_path / "onnx")) as client,
        pytest.raises(Refused, match="the decoder is not that of the policy"),
    ):
        client.infer({"observation/state": np.zeros(5), "prompt": tiny.TASKS[0]})
