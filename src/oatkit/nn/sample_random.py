"""Random numbers that belong to a sample, not to a process.

A number depends on the sample's key and on how many calls came before for that sample, on nothing
else. So a training step gives the same result on one process or many, and after any restart.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from oatkit.nn.device import to_float64

# splitmix64, in the two's complement of torch's int64
_INCREMENT = 0x9E3779B97F4A7C15 - 2**64
_MULTIPLY_1 = 0xBF58476D1CE4E5B9 - 2**64
_MULTIPLY_2 = 0x94D049BB133111EB - 2**64


class SampleRandom:
    """Random numbers for every sample of a batch.

    Args:
        keys: Keys of the samples, (B,) int64; see `sample_keys`.

    Attributes:
        is_finite: Whether all numbers until now were finite, a tensor so that nothing waits for it.
    """

    def __init__(self, keys: Tensor) -> None:
        self._keys = keys
        self._num_calls = 0
        self.is_finite = torch.ones((), dtype=torch.bool, device=keys.device)

    def uniform(self, *shape: int) -> Tensor:
        """Uniform numbers (B, *shape) in [0, 1); every call gives new ones."""
        self._num_calls += 1
        number = torch.tensor(self._num_calls, device=self._keys.device)
        stream_B = _mix(self._keys + number * _INCREMENT)
        count = torch.Size(shape).numel()
        counter_N = torch.arange(count, device=self._keys.device) * _INCREMENT
        bits_BN = _mix(stream_B[:, None] + counter_N)
        # the top 24 bits fill a float32 exactly
        top_BN = bits_BN.bitwise_right_shift_(40).bitwise_and_(0xFFFFFF)
        return top_BN.float().div_(2**24).reshape(-1, *shape)

    def choose(self, values: Sequence[int]) -> Tensor:
        """One of these numbers for every sample, (B,), all equally likely."""
        place_B = (self.uniform() * len(values)).long()
        return torch.tensor(tuple(values), device=place_B.device)[place_B]

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers (B, *shape); every call gives new ones."""
        normal = _normal(self.uniform(*shape))
        self.is_finite = self.is_finite & torch.isfinite(normal).all()
        return normal


def sample_keys(seed: int, step: int, indices: Tensor) -> Tensor:
    """Keys (B,) of the samples at places `indices` (B,) in the global batch of a step."""
    base = torch.tensor([seed, step], dtype=torch.int64, device=indices.device)
    mixed = _mix(_mix(base[:1]) + base[1:] * _INCREMENT)
    return _mix(mixed + (indices + 1) * _INCREMENT)


def _normal(uniform: Tensor) -> Tensor:
    """Normal numbers of uniform ones, by the middle of their cells of 2^-24: neither 0 nor 1.

    In float32 the middle of the last cell would round to 1, whose normal number is infinite: one in
    2^24 numbers. A device without float64 leaves it to the CPU.
    """
    middle = to_float64(uniform) + 2**-25
    return torch.special.ndtri(middle).float().to(uniform.device)


def _mix(x: Tensor) -> Tensor:
    """splitmix64's finalizer, in place: a bijection of 64-bit numbers that scatters their bits.

    Dropout asks for as many numbers as a network has activations; new tensors for every operation
    took twice the time.
    """
    shifted = torch.empty_like(x)
    for bits, multiplier in ((30, _MULTIPLY_1), (27, _MULTIPLY_2), (31, 1)):
        torch.bitwise_right_shift(x, bits, out=shifted)  # which keeps the sign
        x.bitwise_xor_(shifted.bitwise_and_((1 << (64 - bits)) - 1))
        if multiplier != 1:
            x.mul_(multiplier)
    return x
