"""What a vision-language policy reads: any instruction, and cameras that may be missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.vlm_reader import resized_reading
from oatkit.types.observation_keys import IMAGES, STATE
from tests.policies import tiny
from tests.policies.tiny import seeded
from tests.policies.vlm import tiny_vlm
from tests.policies.vlm.tiny_vlm import families

FRONT = f"{IMAGES}front"


@pytest.fixture(scope="module")
def policy(checkpoints: dict[str, Path], dataset: Dataset) -> Policy:
    return tiny_vlm.make_policy("vlm-ar", checkpoints["qwen3-vl"], "oat-pow2", dataset)


def test_requests_that_were_read_one_by_one_are_a_batch(policy: Policy, dataset: Dataset) -> None:
    batch = tiny_vlm.batch(policy, dataset)
    batch["task"] = ["wave", "wave both hands slowly", "stop"]
    rows: list[dict[str, Any]] = [tiny.row(batch, index) for index in range(3)]
    rows[1][FRONT] = None
    together = Observations.cat([policy.read(row) for row in rows])
    assert together.is_seen[:, 0, 0].tolist() == [True, False, True]
    found = policy.predict_action_chunk(together, generator=[seeded(i) for i in range(3)])
    for index, row in enumerate(rows):
        alone = policy.predict_action_chunk(row, generator=[seeded(index)])
        np.testing.assert_allclose(alone.entropy_bits[0], found.entropy_bits[index], atol=1e-4)


def test_a_simulator_may_show_more(policy: Policy, dataset: Dataset) -> None:
    batch = tiny_vlm.batch(policy, dataset, 1) | {f"{IMAGES}wrist": np.zeros(3)}
    with pytest.raises(ValueError, match="unknown camera 'wrist'"):
        policy.read(batch)
    read = policy.read(batch | {"task": "an instruction never heard"}, allow_more=True)
    assert len(read.images) == 1
    assert read.task.shape[1] > 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({FRONT: np.zeros((3, 1, 10, 10, 3), np.uint8)}, r"front is \(3, 1, 10, 10, 3\), expected"),
        ({FRONT: np.zeros((3, 1, 20, 24, 4), np.uint8)}, r"front is \(3, 1, 20, 24, 4\), expected"),
        ({f"{IMAGES}wrist": np.zeros(3)}, "unknown camera 'wrist'"),
        ({"task": ["open", "", "close"]}, "the instruction is '', expected text"),
        ({"task": None}, "the instruction is None, expected text"),
        ({"task": 3}, "the instruction is 3, expected text"),
        ({"task": b"open"}, "the instruction is b'open', expected text"),
        ({"task": ["open"]}, "1 tasks for 3 observations"),
        ({"task": "door " * 200}, r"an instruction has \d+ tokens, expected at most 128"),
        ({STATE: np.full((3, 1, 5), np.nan)}, "observation.state is not finite"),
        ({FRONT: [None, np.zeros((1, 9, 9, 3), np.uint8), None]}, r"front is \(3, 1, 9, 9, 3\)"),
        ({FRONT: [None, np.full((1, 20, 24, 3), 200.0), None]}, "values from 0 to 200, expected"),
        ({FRONT: [None, np.full((1, 20, 24, 3), np.nan), None]}, "front is not finite"),
        (
            {FRONT: [None, np.zeros((1, 20, 24, 3)), np.zeros((1, 20, 24, 3), np.uint8)]},
            "images of several shapes or types",
        ),
    ],
)
def test_what_is_refused(
    change: dict[str, Any], message: str, policy: Policy, dataset: Dataset
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


@families
def test_a_camera_may_be_missing_for_some(
    family: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    """A row without the image is that row alone without it; the others are as they were."""
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints[family], "oat-pow2", dataset)
    observation = tiny_vlm.batch(policy, dataset)
    images = [observation[FRONT][0], None, observation[FRONT][2]]
    found = policy.predict_action_chunk(
        observation | {FRONT: images}, generator=[seeded(i) for i in range(3)]
    )
    for row, change in ((0, {}), (1, {FRONT: None}), (2, {})):
        alone = policy.predict_action_chunk(
            tiny.row(observation, row) | change, generator=[seeded(row)]
        )
        np.testing.assert_allclose(alone.entropy_bits[0], found.entropy_bits[row], atol=1e-3)
    single = {STATE: observation[STATE][1, 0], "task": observation["task"][1]}
    policy.reset()
    one = policy.predict_action_chunk(single, generator=[seeded(1)])
    np.testing.assert_allclose(one.entropy_bits, found.entropy_bits[1], atol=1e-3)


def test_text_alone_and_state_is_enough(checkpoints: dict[str, Path], dataset: Dataset) -> None:
    policy = tiny_vlm.make_policy(
        "vlm-ar", checkpoints["qwen3-vl"], "oat-pow2", dataset, cameras=()
    )
    observation = tiny_vlm.batch(policy, dataset)
    found = policy.predict_action_chunk(observation, generator=seeded())
    other = policy.predict_action_chunk(observation | {"task": "stop"}, generator=seeded())
    assert np.abs(found.entropy_bits - other.entropy_bits).max() > 1e-4


def test_images_as_lerobot_has_them(policy: Policy, dataset: Dataset) -> None:
    observation = tiny_vlm.batch(policy, dataset)
    wanted = policy.predict_action_chunk(observation, generator=seeded())
    floats = torch.from_numpy(observation[FRONT]).movedim(-1, -3).float() / 255
    found = policy.predict_action_chunk(observation | {FRONT: floats}, generator=seeded())
    assert isinstance(found.chunk, torch.Tensor)
    np.testing.assert_allclose(found.entropy_bits.numpy(), wanted.entropy_bits, atol=1e-5)


@families
def test_images_are_resized_when_they_are_decoded(
    family: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    """What is trained on is what the image processor makes of whole images."""
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints[family], "oat-pow2", dataset)
    reading = policy.episode.resized()
    assert reading.resize is not None
    chunks = {
        resize: dataset.chunks(
            policy.tokenizer.horizon,
            history=policy.spec.history,
            cameras=("front",),
            resize=resize,
        )
        for resize in (None, reading.resize)
    }
    wanted = policy.read(chunks[None].batch([0, 5, 2]))
    found = reading.read(chunks[reading.resize].batch([0, 5, 2]))
    for whole, resized in zip(wanted.tensors(), found.tensors(), strict=True):
        assert whole.shape == resized.shape
        assert whole.dtype == resized.dtype
        # the images are noise, which overshoots and is cut off at other places
        assert (whole.float() - resized.float()).abs().mean() < 1


def test_an_image_processor_that_does_more_than_resize(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The images of such a processor are read whole, so that it does all that it does."""
    processor = policy.net.backbone.processor
    real = processor.pixels
    monkeypatch.setattr(processor, "pixels", lambda images: 255 - real(images))
    assert resized_reading(policy.spec, processor) is None
    monkeypatch.setattr(processor, "pixels", real)
    monkeypatch.setattr(processor.images, "resample", 5)
    assert resized_reading(policy.spec, processor) is None
