"""A disk that is full in the middle of a shard, told in one sentence."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oatkit.errors import ShardError

FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def full_disk_explained(folder: Path) -> Iterator[None]:
    """Say what to do when there is no room left for what a block writes.

    Libraries that write files wrap the system's error in one of their own, which has its words.
    """
    try:
        yield
    except Exception as error:
        words = [os.strerror(number) for number in FULL]
        is_full = isinstance(error, OSError) and error.errno in FULL
        if not is_full and not any(word in str(error) for word in words):
            raise
        raise ShardError(
            f"no room is left for {folder}: make room; finished units are kept, and the same "
            "command again goes on"
        ) from error
