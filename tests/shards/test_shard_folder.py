from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.errors import ShardError
from oatkit.shards import ShardFolder, ShardPlan
from tests.shards.toy_work import Squares


def test_a_plan_is_of_settings_and_units_not_of_facts() -> None:
    plan = ShardPlan.of(Squares())
    elsewhere = Squares()
    elsewhere.facts = {"where": "there"}
    assert ShardPlan.of(elsewhere).fingerprint == plan.fingerprint
    assert ShardPlan.of(Squares(power=3)).fingerprint != plan.fingerprint
    assert ShardPlan.of(Squares(9)).fingerprint != plan.fingerprint


def test_another_run_is_refused(tmp_path: Path) -> None:
    ShardFolder.begin(tmp_path, Squares())
    ShardFolder.begin(tmp_path, Squares())
    with pytest.raises(ShardError, match=r"holds another run \(power was 2, is 3\)"):
        ShardFolder.begin(tmp_path, Squares(power=3))
    other = Squares()
    other.name = "cubes"
    with pytest.raises(ShardError, match="it is of squares, not of cubes"):
        ShardFolder.begin(tmp_path, other)


@pytest.mark.parametrize("key", ["a/b", "../../up", "x y", "ü%2F", "a" * 100, "."])
def test_any_key_is_a_file_of_the_folder(key: str, tmp_path: Path) -> None:
    folder = ShardFolder.begin(tmp_path / "d", Squares())
    assert not folder.has(key)
    folder.write(key, {"x": [1, "é"]})
    assert folder.has(key)
    assert len(list((tmp_path / "d/units").iterdir())) == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "d"]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    folder = ShardFolder.begin(tmp_path, Squares(12))
    folder.write("n/3", 9)
    with pytest.raises(ShardError, match=r"lacks 11 of 12 units: n/0, n/1, n/2, n/4, .* and 3 mo"):
        folder.results()


def test_a_record_of_another_run_is_refused(tmp_path: Path) -> None:
    for name, power in (("a", 2), ("b", 3)):
        folder = ShardFolder.begin(tmp_path / name, Squares(1, power=power))
        folder.write("n/0", 0)
    stranger = next((tmp_path / "b/units").iterdir())
    (tmp_path / "a/units" / stranger.name).write_bytes(stranger.read_bytes())
    with pytest.raises(ShardError, match=rf"{stranger.name} is of another run than plan.json"):
        ShardFolder(tmp_path / "a").results()


def test_a_record_under_the_name_of_another_is_refused(tmp_path: Path) -> None:
    folder = ShardFolder.begin(tmp_path, Squares(2))
    folder.write("n/0", 0)
    (tmp_path / "units/n%2F0.json").rename(tmp_path / "units/n%2F1.json")
    folder.write("n/0", 0)
    with pytest.raises(ShardError, match=r"n%2F1.json is of another run"):
        folder.results()


@pytest.mark.parametrize("content", ["", "[1]", '{"work": "squares"}', "null"])
def test_a_broken_plan_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(content)
    with pytest.raises(ShardError, match=r"plan\.json (cannot be read|is no plan)"):
        ShardFolder(tmp_path)


def test_a_folder_without_a_plan(tmp_path: Path) -> None:
    with pytest.raises(ShardError, match=r"has no plan.json: expected the folder \(--out\)"):
        ShardFolder(tmp_path)
