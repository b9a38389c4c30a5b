from __future__ import annotations

from oatkit.cli import OATKIT, Group
from oatkit.jobs.shard_table import MERGES


def test_works_are_named_like_their_commands() -> None:
    for name, merge in MERGES.items():
        node = OATKIT
        for word in name.split():
            assert isinstance(node, Group)
            node = node.commands[word]  # type: ignore[assignment]
        assert callable(merge())
