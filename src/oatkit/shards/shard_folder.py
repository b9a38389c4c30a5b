"""The folder that all shards of a run share.

plan.json                  the work, its settings, their fingerprint, and the keys of all units
units/<key>.json           the result of a unit, with the fingerprint; whole or not at all
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from oatkit.errors import ShardError
from oatkit.shards.work import Work
from oatkit.storage.atomic_write import atomic_write
from oatkit.storage.digest import digest, settings_part

PLAN = "plan.json"
UNITS = "units"
MAX_NAMED = 8


@dataclass(frozen=True)
class ShardPlan:
    """What a run consists of.

    Attributes:
        work: Name of the function that joins the results.
        settings: What decides every result.
        facts: What joining needs beside these.
        units: Keys of all units.
        fingerprint: Digest of work, settings and units; every record has it.
    """

    work: str
    settings: dict[str, Any]
    facts: dict[str, Any]
    units: tuple[str, ...]
    fingerprint: str

    @classmethod
    def of(cls, work: Work) -> ShardPlan:
        """The plan of some work."""
        settings, facts = json.loads(json.dumps([work.settings, work.facts]))
        units = tuple(work.units())
        if len(set(units)) < len(units):
            raise AssertionError("two units have one key")
        part = settings_part({"work": work.name, "settings": settings, "units": units})
        return cls(work.name, settings, facts, units, digest(part))


class ShardFolder:
    """The plan and the records of a run.

    Args:
        path: Folder, which has a plan.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not (path / PLAN).is_file():
            raise ShardError(
                f"{path} has no {PLAN}: expected the folder (--out) of a command with --shard"
            )
        values = _read(path / PLAN)
        try:
            self.plan = ShardPlan(**values | {"units": tuple(values["units"])})
        except (KeyError, TypeError) as error:
            raise ShardError(f"{path / PLAN} is no plan of shards: {error}") from error

    @classmethod
    def begin(cls, path: Path, work: Work) -> ShardFolder:
        """The folder of some work; a folder with another plan is refused."""
        wanted = ShardPlan.of(work)
        (path / UNITS).mkdir(parents=True, exist_ok=True)
        if not (path / PLAN).exists():
            _write(path / PLAN, asdict(wanted))
        folder = cls(path)
        if not folder.is_of(work):
            raise ShardError(
                f"{path} holds another run ({_difference(folder.plan, wanted)}): use the same "
                "options, or another --out"
            )
        return folder

    def is_of(self, work: Work) -> bool:
        """Whether the plan is that of some work."""
        return self.plan.fingerprint == ShardPlan.of(work).fingerprint

    def has(self, key: str) -> bool:
        """Whether a unit is finished."""
        return self.record_path(key).exists()

    def write(self, key: str, result: Any) -> None:
        """Write the record of a finished unit."""
        record = {"key": key, "fingerprint": self.plan.fingerprint, "result": result}
        _write(self.record_path(key), record)

    def results(self) -> dict[str, Any]:
        """The result of every unit; one that is missing, or of another run, is an error."""
        missing = [key for key in self.plan.units if not self.has(key)]
        if missing:
            named = ", ".join(missing[:MAX_NAMED])
            rest = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
            raise ShardError(
                f"{self.path} lacks {len(missing)} of {len(self.plan.units)} units: {named}{rest}; "
                "run the shards that have them again, finished units are skipped"
            )
        return {key: self._result(key) for key in self.plan.units}

    def _result(self, key: str) -> Any:
        record = _read(self.record_path(key))
        if record.get("fingerprint") != self.plan.fingerprint or record.get("key") != key:
            raise ShardError(
                f"{self.record_path(key)} is of another run than {PLAN} (fingerprint "
                f"{record.get('fingerprint')}, expected {self.plan.fingerprint}): remove it and "
                "run its shard again"
            )
        return record["result"]

    def record_path(self, key: str) -> Path:
        """Where the record of a unit is, once it is finished."""
        return self.path / UNITS / f"{quote(key, safe=' ,=')}.json"


def _difference(found: ShardPlan, wanted: ShardPlan) -> str:
    """What a plan has different, in words."""
    if found.work != wanted.work:
        return f"it is of {found.work}, not of {wanted.work}"
    names = [
        f"{name} was {found.settings.get(name)}, is {wanted.settings.get(name)}"
        for name in sorted({*found.settings, *wanted.settings})
        if found.settings.get(name) != wanted.settings.get(name)
    ]
    return "; ".join(names) or f"it has {len(found.units)} units, not {len(wanted.units)}"


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ShardError(f"{path} cannot be read: {error}") from error


def _write(path: Path, values: Any) -> None:
    with atomic_write(path) as aside:
        aside.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", "utf-8")
