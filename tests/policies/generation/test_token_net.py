"""The networks of all policies are what generation needs."""

from __future__ import annotations

import pytest
import torch

from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.policies.generation.token_net import TokenNet
from oatkit.policies.light.light_net import LightNet
from oatkit.policies.vlm.vlm_net import VlmNet
from oatkit.types import Schedule
from tests.policies import tiny

DECLARED = [name for name in vars(TokenNet) if not name.startswith("_")]


@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.parametrize("net", [LightNet, VlmNet])
def test_a_network_has_what_the_protocol_declares(net: type, name: str) -> None:
    assert hasattr(net, name) or name in net.__init__.__code__.co_names  # type: ignore[misc]


def test_selected_rows_are_generated_as_in_the_batch(
    dataset: Dataset, policies: dict[str, Policy]
) -> None:
    policy = policies["oat"]
    net: TokenNet = policy.net
    schedule = Schedule.tokenwise(policy.tokenizer.max_tokens)
    stage = net.pack(schedule, net.device).stages[0]
    rows_N = torch.tensor([2, 0])
    masks_31 = torch.full((3, 1), net.mask_id)
    with torch.inference_mode():
        context = net.encode(policy.read(tiny.batch(policy, dataset)))
        whole = net.start(context, 3, schedule.num_tokens)
        some = net.start(net.select_rows(context, rows_N), 2, schedule.num_tokens)
        settings = (stage.positions, stage.mask, stage.num_kept)
        logits = whole.feed(masks_31, *settings)
        torch.testing.assert_close(some.feed(masks_31[:2], *settings), logits[rows_N])
