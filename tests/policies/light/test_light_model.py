"""The light policy on every kind of tokenizer: what it predicts, and training it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.policies import LightConfig, Policy, policy_for_dataset
from oatkit.tokenizers import KINDS
from oatkit.types.observation_keys import IMAGES, STATE
from tests.policies import tiny
from tests.policies.tiny import seeded


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "fast"])
def test_every_kind_predicts_raw_chunks(
    kind: str, policies: dict[str, Policy], dataset: Dataset
) -> None:
    policy = policies[kind]
    observation = tiny.batch(policy, dataset)
    found = policy.predict_action_chunk(observation, generator=seeded())
    tokenizer = policy.tokenizer
    assert found.chunk.shape == (3, tiny.HORIZON, tiny.ACTION_DIM)
    assert found.ids.shape == found.entropy_bits.shape == (3, tokenizer.max_tokens)
    assert 0 <= found.ids.min() <= found.ids.max() < tokenizer.vocab_size
    np.testing.assert_array_equal(found.chunk, tokenizer.decode(found.ids))
    assert (found.entropy_bits > 0).all()
    assert found.budget.tolist() == [tokenizer.max_tokens] * 3
    assert found.calls.tolist() == [tokenizer.schedule.calls] * 3
    assert found.attempts.tolist() == [1] * 3
    again = policy.predict_action_chunk(observation, generator=seeded())
    np.testing.assert_array_equal(again.ids, found.ids)
    other = policy.predict_action_chunk(observation, generator=seeded(1))
    assert (other.ids != found.ids).any()


def test_bin_is_generated_in_blocks_of_an_action(policies: dict[str, Policy]) -> None:
    assert set(policies["bin"].schedule.block_sizes) == {tiny.ACTION_DIM}


@pytest.mark.parametrize("kind", ["oat", "oat-pow2", "bin"])
def test_a_batch_is_its_rows(kind: str, policies: dict[str, Policy], dataset: Dataset) -> None:
    policy = policies[kind]
    observation = tiny.batch(policy, dataset, 4)
    together = policy.predict_action_chunk(observation, generator=[seeded(i) for i in range(4)])
    for i in range(4):
        alone = policy.predict_action_chunk(tiny.row(observation, i), generator=[seeded(i)])
        np.testing.assert_array_equal(alone.ids[0], together.ids[i])


def test_what_is_observed_matters(policies: dict[str, Policy], dataset: Dataset) -> None:
    policy = policies["oat-pow2"]
    observation = tiny.row(tiny.batch(policy, dataset), 0)
    found = policy.predict_action_chunk(observation, generator=seeded())
    other_state = observation | {STATE: observation[STATE] + 1}
    other_task = observation | {"task": [tiny.TASKS[1]]}
    assert observation["task"] == [tiny.TASKS[0]]
    for other in (other_state, other_task):
        changed = policy.predict_action_chunk(other, generator=seeded())
        assert np.abs(changed.entropy_bits - found.entropy_bits).max() > 1e-4


@pytest.mark.parametrize("reads_state", [True, False])
def test_images_are_read(dataset: Dataset, reads_state: bool) -> None:
    policy = tiny.make_policy("klt", dataset, cameras=("front",), reads_state=reads_state)
    observation = tiny.row(tiny.batch(policy, dataset), 0)
    if not reads_state:
        observation.pop(STATE)
    found = policy.predict_action_chunk(observation, generator=seeded())
    key = f"{IMAGES}front"
    dark = observation | {key: observation[key] // 2}
    changed = policy.predict_action_chunk(dark, generator=seeded())
    assert np.abs(changed.entropy_bits - found.entropy_bits).max() > 1e-5
    as_lerobot = {
        **observation,
        key: torch.from_numpy(observation[key]).movedim(-1, -3).float() / 255,
    }
    same = policy.predict_action_chunk(as_lerobot, generator=seeded())
    assert isinstance(same.chunk, torch.Tensor)
    np.testing.assert_allclose(same.chunk.numpy(), found.chunk, rtol=1e-5)


def test_one_frame_at_a_time_is_a_batch_with_history(
    policies: dict[str, Policy], dataset: Dataset
) -> None:
    policy = policies["oat-pow2"]
    chunks = dataset.chunks(tiny.HORIZON, history=2)
    wanted = chunks.batch([0, 1, 2, 3])
    policy.reset()
    for frame in range(4):
        now = {STATE: wanted[STATE][frame, -1], "task": wanted["task"][frame]}
        if frame == 2:
            policy.observe(now)
            continue
        found = policy.predict_action_chunk(now, generator=seeded(frame))
        batch = policy.predict_action_chunk(tiny.row(wanted, frame), generator=seeded(frame))
        assert found.chunk.shape == (tiny.HORIZON, tiny.ACTION_DIM)
        assert (found.budget, found.calls) == (8, 4)
        np.testing.assert_allclose(found.entropy_bits, batch.entropy_bits[0], atol=1e-5)
    policy.reset()
    with pytest.raises(ValueError, match=r"observe\(\) takes one frame"):
        policy.observe(tiny.row(wanted, 0))


def test_a_policy_acts_by_its_latest_weights(dataset: Dataset) -> None:
    policy = tiny.make_policy("klt", dataset)
    observation = tiny.batch(policy, dataset)
    before = policy.predict_action_chunk(observation, generator=seeded())
    frozen = policy.net._backend._frozen
    policy.predict_action_chunk(observation, generator=seeded())
    assert policy.net._backend._frozen is frozen
    with torch.no_grad():
        policy.net.decoder.bias += torch.randn_like(policy.net.decoder.bias)
    after = policy.predict_action_chunk(observation, generator=seeded())
    assert np.abs(after.entropy_bits - before.entropy_bits).max() > 1e-3
    with torch.inference_mode():
        copy = tiny.make_policy("klt", dataset)
        copy.predict_action_chunk(observation)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_loss_falls(kind: str, dataset: Dataset) -> None:
    policy = tiny.make_policy(kind, dataset)
    observation = tiny.batch(policy, dataset, 16)
    tokens = policy.tokenizer.encode(observation["action"])
    read, actions = policy.read(observation), torch.from_numpy(observation["action"])
    optimizer = torch.optim.Adam(policy.net.parameters(), 1e-2)
    losses = []
    for _ in range(15):
        loss = policy.loss(read, tokens, actions, None).total
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    unused = [name for name, p in policy.net.named_parameters() if p.grad is None]
    assert unused == []


def test_the_default_has_about_five_million_parameters(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("oat-pow2", dataset, levels=(8, 5, 5, 5))
    policy = policy_for_dataset(LightConfig(), tokenizer, dataset)
    count = sum(p.numel() for p in policy.net.parameters())
    assert 4.5e6 < count < 5.5e6
    assert f"{count:,} parameters" in repr(policy)


def test_what_a_light_policy_cannot_be_made_of(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("bin", dataset)
    other = oatkit.open_dataset(dataset.path, action_dims=[0, 1])
    with pytest.raises(ValueError, match=r"the tokenizer is for 3 action dimensions, .* has 2"):
        policy_for_dataset(tiny.CONFIG, tokenizer, other)
    with pytest.raises(ValueError, match="unknown camera 'frnt'"):
        policy_for_dataset(tiny.CONFIG, tokenizer, dataset, cameras=("frnt",))
    with pytest.raises(ValueError, match="reads neither state nor cameras observes nothing"):
        policy_for_dataset(tiny.CONFIG, tokenizer, dataset, reads_state=False)
    with pytest.raises(ValueError, match="the schedule ends at 8 tokens, bin has 24"):
        policy_for_dataset(replace(tiny.CONFIG, endpoints=(8,)), tokenizer, dataset)
    with pytest.raises(ValueError, match="width 16 is not divisible by 3 heads"):
        replace(tiny.CONFIG, num_heads=3)
    with pytest.raises(ValueError, match="crop_size 36 exceeds image_size 20"):
        replace(tiny.CONFIG, image_size=20)
    with pytest.raises(ValueError, match="crop_size is 32, expected at least 33"):
        replace(tiny.CONFIG, crop_size=32)
