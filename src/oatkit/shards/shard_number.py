"""Which part of some work is meant, as `--shard 3/8` says it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ShardNumber:
    """One of several shards.

    Attributes:
        index: Number of the shard, from 0.
        count: Number of shards.
    """

    index: int
    count: int

    def __post_init__(self) -> None:
        if self.count < 1 or not 0 <= self.index < self.count:
            last = max(self.count, 1) - 1
            raise ValueError(
                f"--shard is {self}, expected 0/{max(self.count, 1)} to {last}/{last + 1}: shards "
                "are counted from 0"
            )

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> ShardNumber:
        """The shard that a text such as `3/8` names."""
        matched = re.fullmatch(r"(\d+)/(\d+)", text)
        if matched is None:
            raise ValueError(f"--shard is {text!r}, expected NUMBER/COUNT such as 0/8")
        return cls(int(matched[1]), int(matched[2]))

    def of(self, keys: Sequence[str]) -> list[str]:
        """The keys of this shard: dealt one by one, so that all shards have as many, give or take
        one, of what lies side by side."""
        return list(keys[self.index :: self.count])
