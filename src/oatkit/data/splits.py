"""Decides which episodes are held out, by their content and a seed, never by their position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oatkit.storage.digest import digest_bytes


def split_episodes(digests: Sequence[bytes], *, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Which episodes are held out, (episodes,) bool.

    Episodes are ranked by a hash of (seed, digest) and the lowest are held out, until
    `fraction` of all is reached; at least one, never all. Equal episodes share a rank, so
    that none is both trained on and held out.

    Args:
        digests: Hash of each episode's content.
        fraction: Share of episodes to hold out, between 0 and 1.
        seed: Seed of the split.
    """
    if not 0 < fraction < 1:
        raise ValueError(f"--held-out (held_out) is {fraction}, expected between 0 and 1")
    groups: dict[bytes, list[int]] = {}
    for episode, digest in enumerate(digests):
        groups.setdefault(digest, []).append(episode)
    if len(groups) < 2:
        raise ValueError(
            f"a split needs two different episodes, here are {len(digests)}"
            + (", all alike" if len(digests) > 1 else "")
        )
    ranked = sorted(groups, key=lambda digest: _rank(seed, digest))
    wanted = max(1, round(fraction * len(digests)))
    is_held_out = np.zeros(len(digests), bool)
    for digest in ranked[:-1]:
        if is_held_out.sum() >= wanted:
            break
        is_held_out[groups[digest]] = True
    return is_held_out


def _rank(seed: int, digest: bytes) -> bytes:
    return digest_bytes(digest, key=str(seed).encode())
