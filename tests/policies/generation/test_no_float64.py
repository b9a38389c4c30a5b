"""Acting makes no float64 tensors, which a Mac's GPU (MPS) does not have."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from oatkit.data import Dataset
from tests.policies import tiny


class WithoutFloat64(TorchDispatchMode):
    """Refuses what MPS refuses: a tensor of float64."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        is_from_numpy = (
            func is torch.ops.aten.lift_fresh.default
        )  # on the CPU, to be cast and moved
        if isinstance(found, torch.Tensor) and found.dtype == torch.float64 and not is_from_numpy:
            raise TypeError(f"{func} makes float64, which MPS does not have")
        return found


def test_float64_would_be_noticed() -> None:
    with WithoutFloat64(), pytest.raises(TypeError, match="makes float64, which MPS does not"):
        torch.ones(1).double()


@pytest.mark.parametrize("kind", ["oat-pow2", "klt", "bin"])
def test_acting_makes_no_float64(kind: str, dataset: Dataset) -> None:
    """`budget="auto"` divided by a scale of float64, an error on MPS."""
    policy = tiny.make_policy(kind, dataset, cameras=("front",))
    observation = tiny.batch(policy, dataset)
    budgets: list[Any] = [None]
    if policy.tokenizer.codec.has_prefixes:
        policy.calibrate(policy.read(observation), torch.from_numpy(observation["action"]))
        budgets += [1, "auto"]
    for budget in budgets:
        with WithoutFloat64():
            policy.predict_action_chunk(observation, budget=budget)
