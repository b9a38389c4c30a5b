"""Policies are opened without random weights, on any device and in any type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import oatkit
from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.types import Dtype, Sampling
from tests.policies import tiny
from tests.policies.vlm.tiny_vlm import families, make_policy

TOLERANCE = {"bfloat16": 0.06, "float16": 0.02}
"""Root mean square difference of chunks from those of float32, as a share of the range of actions;
a weight of bfloat16 has 8 bits, one of float16 has 11."""
HEADS: list[tuple[str, str, Dtype]] = [
    ("vlm-ar", "tokens", "bfloat16"),
    ("vlm-tc", "tokens", "bfloat16"),
    ("vlm-tc", "flow", "bfloat16"),
    ("vlm-tc", "flow", "float16"),
    ("vlm-flow", "flow", "bfloat16"),
]
heads = pytest.mark.parametrize(("objective", "head", "dtype"), HEADS)


def saved(folder: Path, checkpoint: Path, dataset: Dataset, objective: str, **loading: Any) -> Path:
    options = BackboneOptions(**loading)
    policy = make_policy(objective, checkpoint, "oat-pow2", dataset, backbone=options)
    return policy.save_pretrained(folder / "policy")


@pytest.mark.parametrize("rank", [0, 2])
@families
def test_opening_initializes_nothing_and_leaves_nothing_without_numbers(
    family: str, rank: int, checkpoints: dict[str, Path], dataset: Dataset, tmp_path: Path
) -> None:
    """At 3 billion parameters random weights take tens of seconds and their memory a second time;
    a buffer that stayed on the meta device would have no numbers."""
    folder = saved(tmp_path, checkpoints[family], dataset, "vlm-tc", lora_rank=rank)
    wanted = make_policy(
        "vlm-tc", checkpoints[family], "oat-pow2", dataset, backbone=BackboneOptions(lora_rank=rank)
    )
    torch.manual_seed(0)
    before = torch.get_rng_state()
    net = oatkit.load_policy(folder).net
    assert torch.equal(torch.get_rng_state(), before)
    for kind in ("parameters", "buffers"):
        found = dict(getattr(net, f"named_{kind}")())
        for name, tensor in getattr(wanted.net, f"named_{kind}")():
            torch.testing.assert_close(found[name], tensor, rtol=0, atol=0, msg=name)
            assert found[name].requires_grad == tensor.requires_grad
        assert {tensor.device.type for tensor in found.values()} == {"cpu"}


class _Allocations(TorchDispatchMode):
    """Counts the bytes of weights that are made, by type."""

    def __init__(self) -> None:
        super().__init__()
        self.most: dict[torch.dtype, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        name = func.overloadpacket._qualified_op_name
        if name in ("aten::empty", "aten::_to_copy", "aten::clone", "aten::randn"):
            size = 0 if found.device.type == "meta" else found.nbytes
            self.most[found.dtype] = self.most.get(found.dtype, 0) + size
        return found


@families
def test_weights_are_made_once_and_in_their_type(
    family: str, checkpoints: dict[str, Path], dataset: Dataset, tmp_path: Path
) -> None:
    folder = saved(tmp_path, checkpoints[family], dataset, "vlm-flow")
    with _Allocations() as counted:
        net = oatkit.load_policy(folder, dtype="bfloat16").net
    size = sum(p.nbytes for p in net.parameters() if p.dtype == torch.bfloat16)
    assert counted.most[torch.bfloat16] == size
    assert counted.most.get(torch.float32, 0) < size, "no float32 copy of the weights"


def _chunks(policy: Policy, dataset: Dataset, head: Any) -> Any:
    policy.head = head
    given: Any = policy
    greedy = Sampling(temperature=0.0)
    return policy.predict_action_chunk(
        tiny.batch(given, dataset), sampling=greedy, generator=tiny.seeded()
    )


@heads
@families
def test_a_policy_of_float32_acts_in_fewer_bits(
    family: str,
    objective: str,
    head: str,
    dtype: Dtype,
    checkpoints: dict[str, Path],
    dataset: Dataset,
    tmp_path: Path,
) -> None:
    folder = saved(tmp_path, checkpoints[family], dataset, objective)
    policy = oatkit.load_policy(folder, dtype=dtype)
    wanted_type = getattr(torch, dtype)
    types = {name: p.dtype for name, p in policy.net.named_parameters()}
    kept = {name for name, found in types.items() if found != wanted_type}
    assert kept == {"state.weight", "state.bias"}
    assert {p.dtype for p in policy.tokenizer.codec.state_dict().values()} == {torch.float32}
    wanted = _chunks(oatkit.load_policy(folder), dataset, head)
    found = _chunks(policy, dataset, head)
    assert found.chunk.dtype == np.float32
    if head == "tokens":
        entropy = np.abs(found.entropy_bits[:, 0] - wanted.entropy_bits[:, 0])
        assert entropy.max() < 0.5, "bits, of the first token"
        return
    scale = np.ptp(wanted.chunk)
    difference = np.sqrt(np.square(found.chunk - wanted.chunk).mean()) / scale
    assert difference < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_light_policy_acts_in_fewer_bits(dtype: Dtype, dataset: Dataset, tmp_path: Path) -> None:
    tiny.make_policy("oat-pow2", dataset, cameras=("front",)).save_pretrained(tmp_path)
    policy, plain = oatkit.load_policy(tmp_path, dtype=dtype), oatkit.load_policy(tmp_path)
    assert {p.dtype for n, p in policy.net.named_parameters() if not n.startswith("state.")} == {
        getattr(torch, dtype)
    }
    found, wanted = (_chunks(p, dataset, "tokens") for p in (policy, plain))
    assert np.abs(found.entropy_bits[:, 0] - wanted.entropy_bits[:, 0]).max() < 0.5


def test_an_unknown_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown dtype 'bf16'; known, closest first: bfloat16"):
        oatkit.load_policy(tmp_path, dtype="bf16")  # type: ignore[arg-type]
