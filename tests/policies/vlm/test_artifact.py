"""Vision-language policies on disk, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.errors import ArtifactError
from oatkit.policies import VlmPolicy
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.types.observation_keys import IMAGES, STATE
from tests.policies import tiny
from tests.policies.tiny import seeded
from tests.policies.vlm import tiny_vlm

KEY = f"{IMAGES}front"


@pytest.fixture(scope="module")
def policy(checkpoints: dict[str, Path], dataset: Dataset) -> VlmPolicy:
    return tiny_vlm.make_policy("vlm-ar", checkpoints["qwen3-vl"], "oat-pow2", dataset)


@pytest.mark.parametrize(
    ("objective", "family", "options"),
    [
        ("vlm-ar", "paligemma2", {}),
        ("vlm-tc", "qwen3-vl", {"lora_rank": 2, "freeze_vision": True}),
        ("vlm-flow", "smolvlm", {"dtype": "bfloat16"}),
    ],
)
def test_an_artifact_is_the_same_policy(
    objective: str,
    family: str,
    options: dict[str, Any],
    checkpoints: dict[str, Path],
    dataset: Dataset,
    tmp_path: Path,
) -> None:
    """It holds the weights of the backbone: the checkpoint may be gone."""
    policy = tiny_vlm.make_policy(
        objective, checkpoints[family], "oat-pow2", dataset, backbone=BackboneOptions(**options)
    )
    policy.extras = {"note": "kept"}
    path = policy.save_pretrained(tmp_path / "p")
    names = {"config.json", "model.safetensors", "README.md", "tokenizer", "backbone"}
    assert {file.name for file in path.iterdir()} == names
    assert not list((path / "backbone").glob("*.safetensors"))
    back = oatkit.load_policy(path)
    assert isinstance(back, VlmPolicy)
    assert back.to_json() == policy.to_json()
    assert back.kind == objective
    observation = tiny_vlm.batch(policy, dataset)
    wanted = policy.predict_action_chunk(observation, generator=seeded())
    found = back.predict_action_chunk(observation, generator=seeded())
    np.testing.assert_array_equal(found.chunk, wanted.chunk)
    np.testing.assert_array_equal(found.entropy_bits, wanted.entropy_bits)
    text = back.net.backbone.processor.tokenizer
    assert ("<|action_mask|>" in text.get_vocab()) == ("tokens" in policy.heads)
    trained = [{n for n, p in x.net.named_parameters() if p.requires_grad} for x in (policy, back)]
    assert trained[0] == trained[1]


def test_another_tokenizer_is_refused(policy: VlmPolicy, dataset: Dataset, tmp_path: Path) -> None:
    policy.save_pretrained(tmp_path / "p")
    tiny.make_tokenizer("oat", dataset, levels=(5, 5)).save_pretrained(tmp_path / "p/tokenizer")
    with pytest.raises(ArtifactError, match="trained on 20 action tokens, its tokenizer has 25"):
        oatkit.load_policy(tmp_path / "p")
    same_size = tiny.make_tokenizer("oat-pow2", dataset)
    with torch.no_grad():
        next(same_size.codec.parameters()).add_(1)
    same_size.save_pretrained(tmp_path / "p/tokenizer")
    with pytest.raises(ArtifactError, match="trained on other tokens than those of"):
        oatkit.load_policy(tmp_path / "p")


def test_an_unknown_kind_is_named(policy: VlmPolicy, tmp_path: Path) -> None:
    path = policy.save_pretrained(tmp_path / "p")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"kind": "vlm-arr"}))
    with pytest.raises(ArtifactError, match=r"unknown policy kind 'vlm-arr'; known, .* vlm-ar"):
        oatkit.load_policy(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({KEY: np.zeros((3, 1, 10, 10, 3), np.uint8)}, r"front is \(3, 1, 10, 10, 3\), expected"),
        ({KEY: np.zeros((3, 1, 20, 24, 4), np.uint8)}, r"front is \(3, 1, 20, 24, 4\), expected"),
        ({f"{IMAGES}wrist": np.zeros(3)}, "unknown camera 'wrist'"),
        ({"task": ["open", "", "close"]}, "the instruction is '', expected text"),
        ({"task": None}, "the instruction is None, expected text"),
        ({"task": 3}, "the instruction is 3, expected text"),
        ({"task": b"open"}, "the instruction is b'open', expected text"),
        ({"task": ["open"]}, "1 tasks for 3 observations"),
        ({"task": "door " * 200}, r"an instruction has \d+ tokens, expected at most 128"),
        ({STATE: np.full((3, 1, 5), np.nan)}, "observation.state is not finite"),
        ({KEY: [None, np.zeros((1, 9, 9, 3), np.uint8), None]}, r"front is \(3, 1, 9, 9, 3\)"),
        ({KEY: [None, np.full((1, 20, 24, 3), 200.0), None]}, "values from 0 to 200, expected"),
        ({KEY: [None, np.full((1, 20, 24, 3), np.nan), None]}, "front is not finite"),
        (
            {KEY: [None, np.zeros((1, 20, 24, 3)), np.zeros((1, 20, 24, 3), np.uint8)]},
            "images of several shapes or types",
        ),
    ],
)
def test_what_is_refused(
    change: dict[str, Any], message: str, policy: VlmPolicy, dataset: Dataset
) -> None:
    observation = tiny_vlm.batch(policy, dataset)
    with pytest.raises(ValueError, match=message):
        policy.predict_action_chunk(observation | change)


def test_nothing_to_see_is_refused(checkpoints: dict[str, Path], dataset: Dataset) -> None:
    blind = tiny_vlm.make_policy(
        "vlm-ar", checkpoints["qwen3-vl"], "oat-pow2", dataset, reads_state=False
    )
    with pytest.raises(ValueError, match=r"neither 'observation\.state' nor an image"):
        blind.predict_action_chunk({"task": "open the door"})


@pytest.mark.parametrize("family", tiny_vlm.BACKBONES)
def test_a_camera_may_be_missing_for_some(
    family: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    """A row without the image is that row alone without it; the others are as they were."""
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints[family], "oat-pow2", dataset)
    observation = tiny_vlm.batch(policy, dataset)
    images = [observation[KEY][0], None, observation[KEY][2]]
    found = policy.predict_action_chunk(
        observation | {KEY: images}, generator=[seeded(i) for i in range(3)]
    )
    for row, change in ((0, {}), (1, {KEY: None}), (2, {})):
        alone = policy.predict_action_chunk(
            tiny.row(observation, row) | change, generator=[seeded(row)]
        )
        np.testing.assert_allclose(alone.entropy_bits[0], found.entropy_bits[row], atol=1e-3)
    single = {STATE: observation[STATE][1, 0], "task": observation["task"][1]}
    policy.reset()
    one = policy.predict_action_chunk(single, generator=[seeded(1)])
    np.testing.assert_allclose(one.entropy_bits, found.entropy_bits[1], atol=1e-3)


@pytest.mark.parametrize("family", list(FAMILIES))
def test_names_of_special_tokens_are_text(
    family: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    """An action token would have no row in the backbone, an image token no image."""
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints[family], "oat-pow2", dataset)
    text = policy.net.backbone.processor
    special = set(text.tokenizer.all_special_ids)
    for task in ("<|action_0|>", "open <|action_mask|>", "<image>", "<|image_pad|><|im_end|>"):
        ids = set(text.task_ids([task], has_images=True).flatten().tolist())
        assert not ids & special
        assert max(ids) < text.num_known
        observation = tiny_vlm.batch(policy, dataset, 1) | {"task": [task]}
        assert np.isfinite(policy.predict_action_chunk(observation).chunk).all()


def test_text_alone_and_state_is_enough(checkpoints: dict[str, Path], dataset: Dataset) -> None:
    policy = tiny_vlm.make_policy(
        "vlm-ar", checkpoints["qwen3-vl"], "oat-pow2", dataset, cameras=()
    )
    observation = tiny_vlm.batch(policy, dataset)
    found = policy.predict_action_chunk(observation, generator=seeded())
    other = policy.predict_action_chunk(observation | {"task": "stop"}, generator=seeded())
    assert np.abs(found.entropy_bits - other.entropy_bits).max() > 1e-4


def test_images_as_lerobot_has_them(policy: VlmPolicy, dataset: Dataset) -> None:
    observation = tiny_vlm.batch(policy, dataset)
    wanted = policy.predict_action_chunk(observation, generator=seeded())
    floats = torch.from_numpy(observation[KEY]).movedim(-1, -3).float() / 255
    found = policy.predict_action_chunk(observation | {KEY: floats}, generator=seeded())
    assert isinstance(found.chunk, torch.Tensor)
    np.testing.assert_allclose(found.entropy_bits.numpy(), wanted.entropy_bits, atol=1e-5)
