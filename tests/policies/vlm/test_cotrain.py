"""`vlm-tc` and `vlm-flow`: who teaches whom, what the expert reads, both heads of one model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from oatkit.data import Dataset
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import VlmPolicy
from oatkit.policies.generation.blockwise import bar_loss, generate, pack_shifted
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.backbones.backbone import Backbone, Context
from oatkit.policies.vlm.vlm_config import ExpertConfig, VlmConfig
from oatkit.tokenizers import KINDS
from oatkit.types import Schedule, Tokens
from oatkit.types.observation_keys import IMAGES
from tests.policies import tiny
from tests.policies.vlm import tiny_vlm

both = pytest.mark.parametrize("family", tiny_vlm.BACKBONES)


@pytest.fixture(scope="module")
def policies(checkpoints: dict[str, Path], dataset: Dataset) -> dict[str, VlmPolicy]:
    return {
        family: tiny_vlm.make_policy("vlm-tc", checkpoints[family], "oat-pow2", dataset)
        for family in checkpoints
    }


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sample(policy: VlmPolicy, dataset: Dataset, size: int = 2) -> tuple[Observations, Tensor]:
    observation = tiny_vlm.batch(policy, dataset, size)
    read = policy.read(observation)
    return read, torch.from_numpy(observation["action"])


def random(size: int = 2) -> SampleRandom:
    return SampleRandom(sample_keys(0, 0, torch.arange(size)))


def gradients(policy: VlmPolicy, loss: Tensor) -> tuple[float, float]:
    """Largest gradient of the VLM (state and token rows with it) and of the expert."""
    policy.net.zero_grad(set_to_none=True)
    loss.backward()
    largest = {True: 0.0, False: 0.0}
    for name, p in policy.net.named_parameters():
        if p.grad is not None:
            key = name.startswith("expert.")
            largest[key] = max(largest[key], float(p.grad.abs().max()))
    return largest[False], largest[True]


def losses(policy: VlmPolicy, dataset: Dataset) -> tuple[Tensor, Tensor]:
    """Token loss and flow loss of one context, as training has them."""
    read, actions = sample(policy, dataset)
    tokens = policy.tokenizer.encode(actions)
    context = policy.net.encode(read)
    logits = policy.net.logits(tokens.ids, policy.schedule, context)
    normal = policy.actions.normalize(actions)
    flow = policy.net.flow_loss(context, normal, random())
    return bar_loss(logits, tokens, policy.schedule, policy.net.end_id), flow


@both
def test_the_flow_loss_stops_at_the_vlm(
    family: str,
    policies: dict[str, VlmPolicy],
    dataset: Dataset,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = policies[family]
    token, flow = losses(policy, dataset)
    vlm, expert = gradients(policy, token)
    assert vlm > 1e-4
    assert expert == 0
    vlm, expert = gradients(policy, flow)
    assert vlm == 0
    assert expert > 1e-4
    monkeypatch.setattr(Context, "detached_pairs", lambda self: self.pairs)
    vlm, expert = gradients(policy, losses(policy, dataset)[1])
    assert vlm > 1e-6
    assert expert > 1e-4


@both
def test_pure_flow_reaches_the_vlm(
    family: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    policy = tiny_vlm.make_policy("vlm-flow", checkpoints[family], "bin", dataset)
    assert policy.net.tokens is None
    assert policy.heads == ("flow",)
    read, actions = sample(policy, dataset)
    vlm, expert = gradients(policy, policy.flow_loss(read, actions, random()))
    assert min(vlm, expert) > 1e-6
    trained = {n: p for n, p in policy.net.named_parameters() if p.requires_grad}
    assert [name for name, p in trained.items() if p.grad is None] == []


@both
def test_the_loss_is_the_sum(family: str, checkpoints: dict[str, Path], dataset: Dataset) -> None:
    policy = tiny_vlm.make_policy(
        "vlm-tc", checkpoints[family], "oat-pow2", dataset, flow_weight=0.5
    )
    read, actions = sample(policy, dataset)
    token, flow = losses(policy, dataset)
    found = policy.loss(read, policy.tokenizer.encode(actions), actions, random())
    torch.testing.assert_close(found.total, token + 0.5 * flow)
    torch.testing.assert_close(dict(found.parts), {"token_loss": token, "flow_loss": flow})


@both
@torch.no_grad()
def test_the_expert_never_sees_tokens(
    family: str, policies: dict[str, VlmPolicy], dataset: Dataset
) -> None:
    policy = policies[family]
    read, actions = sample(policy, dataset)
    tokens = policy.tokenizer.encode(actions)
    outputs, found = [], []
    hook = policy.net.expert.register_forward_hook(lambda *call: outputs.append(call[-1]))
    for shift in (0, 1):
        ids = (tokens.ids + shift) % policy.tokenizer.vocab_size
        found.append(policy.loss(read, Tokens(ids, tokens.lengths), actions, random()).total)
    hook.remove()
    assert torch.equal(*outputs)
    assert found[0] != found[1]


@both
@torch.no_grad()
def test_the_expert_reads_context_actions_and_time(
    family: str, policies: dict[str, VlmPolicy], dataset: Dataset
) -> None:
    policy = policies[family]
    read, _ = sample(policy, dataset)
    net, noise = policy.net, torch.randn(2, tiny.HORIZON, tiny.ACTION_DIM)
    memory = net.memory(net.encode(read))
    times = torch.tensor([0.3, 0.9])
    wanted = net.expert(noise, times, memory)
    moved = noise.clone()
    moved[:, -1] += 1
    assert (net.expert(moved, times, memory)[:, 0] - wanted[:, 0]).abs().max() > 1e-5
    assert (net.expert(noise, times.flip(0), memory) - wanted).abs().max() > 1e-5
    other = Observations.from_tensors([t.flip(0) for t in read.tensors()])
    assert (net.expert(noise, times, net.memory(net.encode(other))) - wanted).abs().max() > 1e-4


@both
def test_acting_prefills_once_and_samples_nothing(
    family: str,
    policies: dict[str, VlmPolicy],
    dataset: Dataset,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = policies[family]
    calls: list[str] = []
    for name in ("prefill", "run", "run_growing"):
        real = getattr(Backbone, name)

        def counted(*args: object, _real: object = real, _name: str = name, **kw: object) -> object:
            calls.append(_name)
            return _real(*args, **kw)  # type: ignore[operator]

        monkeypatch.setattr(Backbone, name, counted)
    observation = tiny_vlm.batch(policy, dataset)
    found = policy.predict_action_chunk(observation, generator=seeded())
    assert calls == ["prefill"]
    assert found.chunk.shape == (3, tiny.HORIZON, tiny.ACTION_DIM)
    assert found.ids.shape == (3, 0)
    assert found.budget.tolist() == [0] * 3
    assert found.calls.tolist() == [tiny_vlm.EXPERT.num_steps] * 3
    again = policy.predict_action_chunk(observation, generator=seeded())
    np.testing.assert_array_equal(again.chunk, found.chunk)


@both
def test_a_batch_is_its_rows(family: str, policies: dict[str, VlmPolicy], dataset: Dataset) -> None:
    policy = policies[family]
    observation = tiny_vlm.batch(policy, dataset) | {"task": ["open", "open it now please", "go"]}
    together = policy.predict_action_chunk(observation, generator=[seeded(i) for i in range(3)])
    for i in range(3):
        alone = policy.predict_action_chunk(tiny.row(observation, i), generator=[seeded(i)])
        np.testing.assert_allclose(alone.chunk[0], together.chunk[i], rtol=1e-3, atol=1e-3)


def test_actions_are_normalized_inside(policies: dict[str, VlmPolicy], dataset: Dataset) -> None:
    policy = policies["qwen3-vl"]
    statistics = dataset.action_statistics()
    ends = policy.actions.normalize(np.stack([statistics.min, statistics.max]))
    np.testing.assert_allclose(ends, [[-1] * 3, [1] * 3], atol=1e-6)


@both
@torch.no_grad()
def test_shifted_is_cached(family: str, policies: dict[str, VlmPolicy], dataset: Dataset) -> None:
    """MASK, T_1 .. T_7 in one causal pass is what sampling from a co-trained model feeds."""
    policy = policies[family]
    packing = pack_shifted(4)
    assert packing.inputs(torch.tensor([[5, 6, 7, 8]]), 99).tolist() == [[99, 5, 6, 7]]
    assert packing.positions.tolist() == [0, 1, 2, 3]
    read, _ = sample(policy, dataset)
    context = policy.net.encode(read)
    schedule = Schedule.tokenwise(8)
    fed: list[Tensor] = []
    feed = policy.net.start(context, schedule)

    def noting(inputs_BG: Tensor, stage: object) -> Tensor:
        fed.append(feed(inputs_BG, stage))  # type: ignore[arg-type]
        return fed[-1]

    stages = generate(noting, schedule, torch.rand(2, 8), mask_id=policy.net.mask_id)
    ids = torch.cat([stage.ids for stage in stages], dim=1)
    wanted = policy.net.logits(ids, schedule, context)
    torch.testing.assert_close(torch.cat(fed, dim=1), wanted, atol=3e-4, rtol=1e-4)


def test_both_heads_of_one_model(policies: dict[str, VlmPolicy], dataset: Dataset) -> None:
    policy = policies["paligemma2"]
    observation = tiny_vlm.batch(policy, dataset)
    with pytest.raises(ValueError, match="flow expert, which has neither budgets nor schedules"):
        policy.predict_action_chunk(observation, budget=4)
    with pytest.raises(ValueError, match="flow expert, which cannot stop early"):
        policy.predict_action_chunk(observation, deadline_ms=5)
    policy.head = "tokens"
    try:
        found = policy.predict_action_chunk(observation, budget=4, generator=seeded())
        assert found.budget.tolist() == found.calls.tolist() == [4] * 3
        np.testing.assert_array_equal(found.chunk, policy.tokenizer.decode(found.ids))
    finally:
        policy.head = "flow"


@pytest.mark.parametrize("kind", list(KINDS))
def test_any_kind_supervises(kind: str, checkpoints: dict[str, Path], dataset: Dataset) -> None:
    policy = tiny_vlm.make_policy("vlm-tc", checkpoints["smolvlm"], kind, dataset)
    read, actions = sample(policy, dataset)
    loss = policy.loss(read, policy.tokenizer.encode(actions), actions, random()).total
    vlm, expert = gradients(policy, loss)
    assert torch.isfinite(loss)
    assert min(vlm, expert) > 1e-6


def test_a_shallow_expert_reads_spread_layers(
    checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    policy = tiny_vlm.make_policy(
        "vlm-tc",
        checkpoints["qwen3-vl"],
        "oat-pow2",
        dataset,
        expert=ExpertConfig(width=16, num_layers=1),
    )
    read, _ = sample(policy, dataset)
    context = policy.net.encode(read)
    ((keys, _),) = policy.net.memory(context).pairs
    assert torch.equal(keys, context.pairs[-1][0])
    with pytest.raises(ValueError, match="the expert has 3 layers, the backbone only 2"):
        tiny_vlm.make_policy(
            "vlm-tc",
            checkpoints["qwen3-vl"],
            "oat-pow2",
            dataset,
            expert=ExpertConfig(width=16, num_layers=3),
        )
    with pytest.raises(ValueError, match="vlm-tc has no schedule"):
        VlmConfig("vlm-tc", endpoints=(8,))


def test_a_missing_camera_is_masked_for_the_expert_too(
    policies: dict[str, VlmPolicy], dataset: Dataset
) -> None:
    policy, key = policies["qwen3-vl"], f"{IMAGES}front"
    observation = tiny.row(tiny_vlm.batch(policy, dataset), 0)
    without = policy.predict_action_chunk(observation | {key: None}, generator=seeded())
    dark = policy.predict_action_chunk(
        observation | {key: 0 * observation[key]}, generator=seeded()
    )
    assert np.abs(without.chunk - dark.chunk).max() > 1e-4
