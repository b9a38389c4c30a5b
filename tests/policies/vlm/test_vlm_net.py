"""The network: who teaches whom, and what the flow expert reads."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from oatkit.data import Dataset
from oatkit.nn.flow import add_noise, flow_times
from oatkit.nn.image_augmentation import Augmentation
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import Policy
from oatkit.policies.generation.blockwise_loss import blockwise_loss
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.backbones.backbone import Context
from oatkit.policies.vlm.vlm_config import ExpertConfig, VlmConfig
from oatkit.tokenizers import KINDS
from oatkit.types import Tokens
from tests.policies import tiny
from tests.policies.vlm import tiny_vlm
from tests.policies.vlm.tiny_vlm import families, sample, sample_random


def gradients(policy: Policy, loss: Tensor) -> tuple[float, float]:
    """Largest gradient of the VLM (state and token rows with it) and of the expert."""
    policy.net.zero_grad(set_to_none=True)
    loss.backward()
    largest = {True: 0.0, False: 0.0}
    for name, p in policy.net.named_parameters():
        if p.grad is not None:
            key = name.startswith("expert.")
            largest[key] = max(largest[key], float(p.grad.abs().max()))
    return largest[False], largest[True]


def losses(policy: Policy, dataset: Dataset) -> tuple[Tensor, Tensor]:
    """Token loss and flow loss of one context, as training has them."""
    read, actions = sample(policy, dataset)
    tokens = policy.tokenizer.encode(actions)
    context = policy.net.encode(read)
    logits = policy.net.logits(tokens.ids, policy.schedule, context)
    normal = policy.actions.normalize(actions)
    flow = policy.net.flow_loss(context, normal, sample_random())
    return blockwise_loss(logits, tokens, policy.schedule, policy.net.end_id), flow


@families
def test_the_flow_loss_stops_at_the_vlm(
    family: str,
    cotrained: dict[str, Policy],
    dataset: Dataset,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = cotrained[family]
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


@families
def test_pure_flow_reaches_the_vlm(
    family: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    policy = tiny_vlm.make_policy("vlm-flow", checkpoints[family], "bin", dataset)
    assert policy.net.tokens is None
    assert policy.heads == ("flow",)
    read, actions = sample(policy, dataset)
    vlm, expert = gradients(policy, policy.flow_loss(read, actions, sample_random()))
    assert min(vlm, expert) > 1e-6
    trained = {n: p for n, p in policy.net.named_parameters() if p.requires_grad}
    assert [name for name, p in trained.items() if p.grad is None] == []


@families
def test_the_loss_is_the_sum(family: str, checkpoints: dict[str, Path], dataset: Dataset) -> None:
    policy = tiny_vlm.make_policy(
        "vlm-tc", checkpoints[family], "oat-pow2", dataset, flow_weight=0.5
    )
    read, actions = sample(policy, dataset)
    token, flow = losses(policy, dataset)
    found = policy.loss(read, policy.tokenizer.encode(actions), actions, sample_random())
    torch.testing.assert_close(found.total, token + 0.5 * flow)
    torch.testing.assert_close(dict(found.parts), {"token_loss": token, "flow_loss": flow})


@families
@torch.no_grad()
def test_the_expert_never_sees_tokens(
    family: str, cotrained: dict[str, Policy], dataset: Dataset
) -> None:
    policy = cotrained[family]
    read, actions = sample(policy, dataset)
    tokens = policy.tokenizer.encode(actions)
    outputs, found = [], []
    hook = policy.net.expert.register_forward_hook(lambda *call: outputs.append(call[-1]))
    for shift in (0, 1):
        ids = (tokens.ids + shift) % policy.tokenizer.vocab_size
        found.append(policy.loss(read, Tokens(ids, tokens.lengths), actions, sample_random()).total)
    hook.remove()
    assert torch.equal(*outputs)
    assert found[0] != found[1]


@families
@torch.no_grad()
def test_the_expert_reads_context_actions_and_time(
    family: str, cotrained: dict[str, Policy], dataset: Dataset
) -> None:
    policy = cotrained[family]
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


@pytest.mark.parametrize("kind", list(KINDS))
def test_any_kind_supervises(kind: str, checkpoints: dict[str, Path], dataset: Dataset) -> None:
    policy = tiny_vlm.make_policy("vlm-tc", checkpoints["smolvlm"], kind, dataset)
    read, actions = sample(policy, dataset)
    loss = policy.loss(read, policy.tokenizer.encode(actions), actions, sample_random()).total
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


def test_a_context_that_is_too_long_is_refused(
    checkpoints: dict[str, Path], dataset: Dataset, tmp_path: Path
) -> None:
    """Room is kept for the longest instruction."""
    short = shutil.copytree(checkpoints["qwen3-vl"], tmp_path / "short")
    config = json.loads((short / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = 128 + 8 + 4
    (short / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="an instruction up to 128 and tokens 8, more than the 14"):
        tiny_vlm.make_policy("vlm-ar", short, "oat-pow2", dataset)


@families
def test_tokens_are_learnt(family: str, checkpoints: dict[str, Path], dataset: Dataset) -> None:
    """And every part of the policy learns."""
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints[family], "oat-pow2", dataset)
    observation = tiny_vlm.batch(policy, dataset, 4)
    read = policy.read(observation)
    actions = torch.from_numpy(observation["action"])
    tokens = policy.tokenizer.encode(actions)
    optimizer = torch.optim.Adam(policy.net.parameters(), 3e-3)
    losses = []
    for _ in range(12):
        random = SampleRandom(sample_keys(0, 0, torch.arange(4)))
        loss = policy.loss(read, tokens, actions, random).total
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    unused = [name for name, p in policy.net.named_parameters() if p.grad is None]
    assert unused == []


@pytest.mark.parametrize("kind", ["fast", "bin", "quest"])
def test_a_short_row_is_trained_on_its_own_length(
    kind: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints["smolvlm"], kind, dataset)
    observation = tiny_vlm.batch(policy, dataset)
    read = policy.read(observation)
    actions = torch.from_numpy(observation["action"])
    tokens: Tokens = policy.tokenizer.encode(actions)
    keys = sample_keys(0, 0, torch.arange(3))
    together = policy.loss(read, tokens, actions, SampleRandom(keys)).total
    rows = [
        policy.loss(
            block,
            Tokens(tokens.ids[i : i + 1], tokens.lengths[i : i + 1]),
            actions[i : i + 1],
            SampleRandom(keys[i : i + 1]),
        ).total
        for i, block in enumerate(read.split(1))
    ]
    torch.testing.assert_close(together, torch.stack(rows).mean(), atol=1e-3, rtol=1e-3)


def test_flow_draws_share_a_context(checkpoints: dict[str, Path], dataset: Dataset) -> None:
    """The loss of two draws is the mean of the losses of each, on one pass of the backbone."""
    policy = tiny_vlm.make_policy("vlm-flow", checkpoints["qwen3-vl"], "oat", dataset)
    observations, actions = tiny_vlm.sample(policy, dataset)
    net = policy.net
    net.config = replace(net.config, flow_draws=2)
    context = net.encode(observations)
    normal = policy.actions.normalize(actions)
    found = net.flow_loss(context, normal, tiny_vlm.sample_random())
    random = tiny_vlm.sample_random()
    time_BN, noise_BNTA = flow_times(random.uniform(2)), random.normal(2, *net.chunk_shape)
    assert net.expert is not None
    alone = []
    for draw in range(2):
        noisy, velocity = add_noise(normal, noise_BNTA[:, draw], time_BN[:, draw])
        alone.append((net.expert(noisy, time_BN[:, draw], net.memory(context)) - velocity) ** 2)
    torch.testing.assert_close(found, torch.stack(alone).mean())


def test_only_the_expert_is_trained(checkpoints: dict[str, Path], dataset: Dataset) -> None:
    policy = tiny_vlm.make_policy(
        "vlm-tc", checkpoints["paligemma2"], "oat", dataset, expert_only=True
    )
    trained = {name.split(".")[0] for name, p in policy.net.named_parameters() if p.requires_grad}
    assert trained == {"expert"}
    observations, actions = tiny_vlm.sample(policy, dataset)
    loss = policy.loss(
        observations, policy.tokenizer.encode(actions), actions, tiny_vlm.sample_random()
    )
    assert set(loss.parts) == {"flow_loss"}
    torch.autograd.backward(loss.total)
    assert all((p.grad is not None) == p.requires_grad for p in policy.net.parameters())


@families
def test_images_are_augmented_in_the_loss_alone(
    family: str, checkpoints: dict[str, Path], dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What acting and held-out evaluation call sees images as they are."""
    policy = tiny_vlm.make_policy(
        "vlm-tc",
        checkpoints[family],
        "oat-pow2",
        dataset,
        history=2,
        augmentation=Augmentation(crop=0.7, color_jitter=0.5),
    )
    read, actions = sample(policy, dataset)
    tokens = policy.tokenizer.encode(actions)
    seen: list[Tensor] = []
    encode = policy.net.encode
    monkeypatch.setattr(
        policy.net, "encode", lambda some: seen.append(some.images[0]) or encode(some)
    )
    policy.loss(read, tokens, actions, sample_random())
    policy.loss(read, tokens, actions, sample_random())
    assert (seen[0].dtype, seen[0].shape) == (torch.uint8, read.images[0].shape)
    assert (seen[0] != read.images[0]).any()
    torch.testing.assert_close(seen[0], seen[1], atol=0, rtol=0)
    seen.clear()
    policy.flow_loss(read, actions, sample_random())
    policy.logits(read, tokens.ids, policy.schedule)
    policy.predict_action_chunk(tiny_vlm.batch(policy, dataset, 2))
    policy.head = "tokens"
    policy.predict_action_chunk(tiny_vlm.batch(policy, dataset, 2))
    assert len(seen) == 4
    for images in seen:
        torch.testing.assert_close(images, read.images[0], atol=0, rtol=0)


def test_parts_of_an_augmented_batch_have_the_loss_of_the_whole(
    checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    """Two devices that share a batch train on what one device would, padding masked or not."""
    policy = tiny_vlm.make_policy(
        "vlm-tc",
        checkpoints["paligemma2"],
        "oat-pow2",
        dataset,
        augmentation=Augmentation(crop=0.7, color_jitter=0.5),
        mask_padding=True,
    )
    read, actions = sample(policy, dataset, 4)
    tokens, keys = policy.tokenizer.encode(actions), sample_keys(0, 0, torch.arange(4))
    is_pad = torch.arange(tiny.HORIZON) >= torch.tensor([[8], [3], [8], [1]])

    def loss(part: slice) -> Tensor:
        observations = Observations.from_tensors([tensor[part] for tensor in read.tensors()])
        some = Tokens(tokens.ids[part], tokens.lengths[part])
        random = SampleRandom(keys[part])
        return policy.loss(observations, some, actions[part], random, is_pad[part]).total

    parts = (loss(slice(0, 2)) + loss(slice(2, 4))) / 2
    torch.testing.assert_close(parts, loss(slice(0, 4)), atol=1e-5, rtol=1e-5)


def test_masked_padding_neither_counts_nor_teaches(
    checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    policy = tiny_vlm.make_policy(
        "vlm-flow", checkpoints["smolvlm"], "bin", dataset, mask_padding=True
    )
    read, actions = sample(policy, dataset)
    is_pad = torch.zeros(2, tiny.HORIZON, dtype=torch.bool)
    is_pad[1, 3:] = True
    whole = policy.flow_loss(read, actions, sample_random())
    none = policy.flow_loss(read, actions, sample_random(), torch.zeros_like(is_pad))
    torch.testing.assert_close(none, whole, atol=0, rtol=0)
    real = policy.flow_loss(read, actions, sample_random(), is_pad)
    padded = policy.flow_loss(read, actions, sample_random(), ~is_pad)
    torch.testing.assert_close(real + padded, whole)
    everything = policy.flow_loss(read, actions, sample_random(), torch.ones_like(is_pad))
    assert gradients(policy, everything) == (0, 0)
    policy.net.config = replace(policy.net.config, mask_padding=False)
    unmasked = policy.flow_loss(read, actions, sample_random(), is_pad)
    torch.testing.assert_close(unmasked, whole, atol=0, rtol=0)


def test_a_camera_that_is_not_there_cannot_be_left_uncropped(
    checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    augmentation = Augmentation(crop=0.9, uncropped=("wrist",))
    with pytest.raises(ValueError, match="unknown camera 'wrist'"):
        tiny_vlm.make_policy(
            "vlm-ar", checkpoints["smolvlm"], "bin", dataset, augmentation=augmentation
        )


@families
def test_the_layer_whose_output_nobody_reads_is_not_gathered_alone(
    family: str, cotrained: dict[str, Policy]
) -> None:
    """FSDP would not gather its weights for the gradients of its keys and values."""
    net = cotrained[family].net
    language = net.backbone.family.language_model(net.backbone.model).layers
    assert net.expert is not None
    assert all(layer in net.blocks for layer in [*language[:-1], *net.expert.layers])
    assert language[-1] not in net.blocks


@families
def test_every_trained_parameter_gets_a_gradient(
    family: str, checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    """DDP takes a parameter without one for an error; without cameras the tower has none."""
    for objective in ("vlm-ar", "vlm-tc", "vlm-flow"):
        for cameras in ((), ("front",)):
            policy = tiny_vlm.make_policy(
                objective, checkpoints[family], "oat", dataset, cameras=cameras
            )
            observations, actions = sample(policy, dataset)
            tokens = policy.tokenizer.encode(actions)
            loss = policy.loss(observations, tokens, actions, sample_random()).total
            torch.autograd.backward(loss)
            trained = [(n, p) for n, p in policy.net.named_parameters() if p.requires_grad]
            assert [name for name, p in trained if p.grad is None] == []
