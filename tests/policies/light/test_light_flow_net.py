"""The network of `light-flow`: its size, its loss and what it shares with the light one."""

from __future__ import annotations

from dataclasses import replace

import torch

from oatkit.data import Dataset
from oatkit.nn.sample_random import SampleRandom
from oatkit.policies import Policy, policy_for_dataset
from oatkit.policies.light.light_flow_net import LightFlowNet
from oatkit.policies.light.light_model import LightModel
from oatkit.policies.observation.observations import Observations
from tests.policies import tiny


def sample(dataset: Dataset, *cameras: str) -> tuple[LightFlowNet, Observations, torch.Tensor]:
    policy = tiny.make_flow_policy(dataset, cameras=cameras)
    batch = tiny.batch(policy, dataset, 6)
    actions = policy.tokenizer.normalizer.normalize(torch.from_numpy(batch["action"]))
    return policy.net, policy.read(batch), actions


def test_the_encoder_is_that_of_the_light_policy(dataset: Dataset) -> None:
    """The same parts, made of the same random numbers, and the same weights for a context."""
    flow = tiny.make_flow_policy(dataset, cameras=("front",))
    torch.manual_seed(1)
    light = policy_for_dataset(
        tiny.CONFIG, tiny.make_tokenizer("bin", dataset), dataset, cameras=("front",)
    )
    torch.manual_seed(1)
    light = Policy(LightModel.make(tiny.CONFIG, light.tokenizer, light.spec))
    own, other = flow.net.state_dict(), light.net.state_dict()
    shared = [name for name in own if not name.startswith("head.")]
    assert shared == [name for name in other if not name.startswith("decoder.")]
    assert all(torch.equal(own[name], other[name]) for name in shared)


def test_the_loss_falls(dataset: Dataset) -> None:
    net, observations, actions = sample(dataset)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    losses = []
    for step in range(150):
        found = net.loss(observations, actions, SampleRandom(torch.arange(6) + 100 * step))
        optimizer.zero_grad()
        found.total.backward()
        optimizer.step()
        losses.append(found.total.item())
    assert sum(losses[-20:]) < 0.5 * sum(losses[:20])
    assert found.parts["flow_loss"] is found.total
    with torch.no_grad():
        chunk = net.flow(net.encode(observations), torch.zeros_like(actions), 10)
    assert (chunk - actions).abs().mean() < 0.5 * actions.abs().mean()


def test_every_parameter_learns(dataset: Dataset) -> None:
    net, observations, actions = sample(dataset, "front")
    net.loss(observations, actions, SampleRandom(torch.arange(6))).total.backward()
    assert [name for name, p in net.named_parameters() if p.grad is None] == []


def test_padding_is_left_out_where_it_is_asked_for(dataset: Dataset) -> None:
    net, observations, actions = sample(dataset)
    context, keys = net.encode(observations), torch.arange(6)
    masked = torch.zeros(actions.shape[:2], dtype=torch.bool)
    masked[:, 4:] = True
    whole = net.flow_loss(context, actions, SampleRandom(keys))
    part = net.flow_loss(context, actions, SampleRandom(keys), masked)
    assert 0 < part.item() < whole.item()


def test_draws_are_a_setting(dataset: Dataset) -> None:
    net, observations, actions = sample(dataset)
    context, keys = net.encode(observations), torch.arange(6)
    losses = set()
    for draws in (1, 4):
        net.config = replace(net.config, flow_draws=draws)
        losses.add(net.flow_loss(context, actions, SampleRandom(keys)).item())
    assert len(losses) == 2
