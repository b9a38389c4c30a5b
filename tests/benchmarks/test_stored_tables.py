"""The page says what of every table is stored, and what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import record
from benchmarks.stored_tables import LIGHT, Asked, all_asked, stored_tables, trainings


def asked(table: str, data: str) -> Asked:
    (found,) = (one for one in all_asked() if (one.table, one.data) == (table, data))
    return found


def write(name: str, results: dict[str, Any]) -> None:
    record.write_result(name, seed=0, settings={}, results=results)


def test_without_results_everything_is_lacking(results: Path) -> None:
    assert all(one.lacking == list(one.rows) and not one.stored for one in all_asked())
    assert "python -m benchmarks.policy_table --images --only bin fast quest oat oat-pow2" in (
        stored_tables()
    )


def test_trainings_of_a_row_are_counted_and_others_named(results: Path) -> None:
    write("policy_table", {"state": {"oat": {}, "oat, seed 1": {}, "oat, temperature 1": {}}})
    light = asked("light-policies", "MetaWorld, state")
    assert light.stored == {"oat": 2, "oat, temperature 1": 1}
    assert light.lacking == [row for row in LIGHT.all_rows if row != "oat"]
    assert "| light-policies | MetaWorld, state | `oat` 2 | `bin`, `fast`," in stored_tables()


def test_what_policies_saw_is_part_of_the_label(results: Path) -> None:
    rows: dict[str, Any] = {"oat": {}, "quest, keypoints": {}, "quest, keypoints, seed 1": {}}
    write("policy_pusht", rows)
    assert trainings(rows, ", keypoints") == {"quest": 2}
    assert "oat" not in asked("pusht", "PushT, state").lacking
    assert "quest" in asked("pusht", "PushT, state").lacking
    keypoints = asked("pusht", "PushT, keypoints")
    assert keypoints.stored == {"quest": 2}
    assert keypoints.command.startswith("python -m benchmarks.policy_pusht --zarr PATH --only oat")


def test_errors_are_asked_by_dataset(results: Path) -> None:
    write("tokenizer_rate_distortion", {"cr5": {"fast, fitted": {}, "oat": {}}})
    cr5 = asked("rate-distortion", "CR5")
    assert cr5.lacking == ["cr5/bin", "cr5/quest", "cr5/acodec", "cr5/oat-pow2"]
    assert len(asked("rate-distortion", "PushT").lacking) == 6
