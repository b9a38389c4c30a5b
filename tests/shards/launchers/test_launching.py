from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.errors import ShardError
from oatkit.shards import ShardNumber, run_shard
from oatkit.shards.launchers.launching import Engine, finished_units, wait_for
from oatkit.shards.launchers.torch_nodes import TorchNodes
from tests.shards.toy_work import Squares


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("moon:1", "--on: unknown engine 'moon'"),
        ("ray", "--on is 'ray', expected local:PROCESSES, slurm:FILE.toml or ray:ADDRESS"),
        ("local:many", "--on is 'local:many', expected a number of processes"),
    ],
)
def test_wrong_engines(on: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Engine.parse(on)


def test_the_number_of_shards() -> None:
    assert Engine.parse("local:3").num_shards(None) == 3
    assert Engine.parse("local:3").num_shards(8) == 8
    assert Engine.parse("ray:host:6379").num_shards(8) == 8
    with pytest.raises(ValueError, match="--shards is None, expected 1 or more for ray:auto"):
        Engine.parse("ray:auto").num_shards(None)
    with pytest.raises(ValueError, match="--shards is 0, expected 1 or more"):
        Engine.parse("local:2").num_shards(0)


def test_nodes_are_not_for_ray(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="--nodes is for local and slurm, not for ray"):
        Engine.parse("ray:auto").start_nodes(TorchNodes(("policy", "train"), 2, 1), tmp_path)


class Polled:
    """Gives what it is told to, one after the other, and notes that it was stopped."""

    def __init__(self, *found: list[str | None]) -> None:
        self.found, self.is_stopped = list(found), False

    def poll(self) -> list[str | None]:
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]

    def stop(self) -> None:
        self.is_stopped = True


def test_what_failed_is_told_when_the_others_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oatkit.shards.launchers.launching.POLL_S", 0)
    launcher, shown = Polled([None, "why"], [None, "why"], ["", "why"]), []
    with pytest.raises(ShardError, match=r"^1 of 2 shards failed: shard 1 \(why\); then this$"):
        wait_for(launcher, "shard", "then this", lambda: shown.append(1))
    assert launcher.is_stopped
    assert len(shown) == 2
    wait_for(Polled(["", ""]), "shard", "", lambda: shown.append(1))
    assert len(shown) == 3


def test_what_cannot_go_on_alone_is_ended() -> None:
    """A machine of a training may wait for hours for one that is gone."""
    launcher = Polled([None, "gone"])
    with pytest.raises(ShardError, match=r"^1 of 2 nodes failed: node 1 \(gone\); kept$"):
        wait_for(launcher, "node", "kept", together=True)
    assert launcher.is_stopped


def test_finished_units_are_counted(tmp_path: Path) -> None:
    assert finished_units(tmp_path) == (0, 0)
    run_shard(Squares(7), ShardNumber(1, 2), tmp_path)
    assert finished_units(tmp_path) == (3, 7)
