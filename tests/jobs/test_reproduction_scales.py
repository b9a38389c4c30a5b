"""Where the columns of a table come from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from oatkit.envs.robosuite import ROBOSUITE
from oatkit.envs.simulator_table import SIMULATORS
from oatkit.errors import MissingExtraError
from oatkit.jobs.paper_tables import PAPER_TABLES, paper_table
from oatkit.jobs.reproduction_scales import SCALES, find_places, ready_backbone, scale_named
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.presets import POLICY_PRESETS, TOKENIZER_PRESETS, VLM_PRESETS
from tests.jobs.reproduction_places import plane_demonstrations


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
def test_presets_of_every_table_exist(scale: object) -> None:
    for table in PAPER_TABLES.values():
        preset = scale.preset(table)  # type: ignore[attr-defined]
        assert preset in TOKENIZER_PRESETS
        if table.work == "policies":
            assert preset in (VLM_PRESETS if table.is_large else POLICY_PRESETS)


def test_the_papers_columns_are_benchmarks_whose_data_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = plane_demonstrations(tmp_path, monkeypatch)
    table, scale = paper_table("vlm-policies"), scale_named("paper")
    named = {"vlm-simpler": data["doors"], "vlm-libero": data["metaworld"]}
    keys = {"vlm-libero": ("a", "b")}
    libero, simpler = find_places(table, scale, tmp_path, named, simulator_keys=keys)
    assert (libero.name, libero.benchmark, libero.horizon) == ("vlm-libero", "vlm-libero", 32)
    assert (libero.simulator_keys, libero.cameras) == (("a", "b"), ())
    assert (simpler.horizon, simpler.cameras) == (8, ("top",))
    with pytest.raises(ValueError, match="unknown benchmark of this table 'light-libero'"):
        find_places(table, scale, tmp_path, {"light-libero": tmp_path})
    with pytest.raises(ValueError, match="name it by --data BENCHMARK=PATH, where BENCHMARK is"):
        find_places(table, scale, tmp_path, {})


def test_the_smaller_scales_have_one_column_of_their_own(tmp_path: Path) -> None:
    light, large, scale = paper_table("ordering"), paper_table("co-training"), SCALES["tiny"]
    named = {name: tmp_path / name for name in ("metaworld", "metaworld-images", "doors")}
    (state,) = find_places(light, scale, tmp_path, named)
    assert (state.name, state.cameras) == ("metaworld", ())
    assert state.state_keys == ("observation.environment_state",)
    (seen,) = find_places(light, scale, tmp_path, named, images=True)
    assert (seen.name, seen.cameras, seen.state_keys) == ("metaworld-images", ("corner2",), ())
    (doors,) = find_places(large, scale, tmp_path, named)
    assert (doors.name, doors.cameras) == ("doors", ("corner2",))


def test_robosuite_is_a_column_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = plane_demonstrations(tmp_path, monkeypatch)["metaworld"]
    light, scale = paper_table("light-policies"), SCALES["tiny"]
    named = dict.fromkeys(("metaworld", "robosuite", "robosuite-images"), data)
    both = find_places(light, scale, tmp_path, named, simulators=("metaworld", "robosuite"))
    assert [(place.name, place.simulator) for place in both] == [
        *(("metaworld", "metaworld"), ("robosuite", "robosuite")),
    ]
    assert both[1].state_keys == ("observation.environment_state",)
    how = {"simulators": ("robosuite",), "images": True}
    (seen,) = find_places(light, scale, tmp_path, named, **how)
    assert (seen.name, seen.state_keys) == ("robosuite-images", ())
    assert seen.cameras == ("agentview", "robot0_eye_in_hand")
    with pytest.raises(ValueError, match=r"data make robosuite --tasks lift can square --episodes"):
        find_places(light, scale, tmp_path, {}, simulators=("robosuite",), may_make=False)


@pytest.mark.parametrize(
    ("table", "scale", "simulator", "message"),
    [
        ("light-policies", "small", "libero", "unknown simulator of a table 'libero'"),
        ("light-policies", "paper", "robosuite", "at the paper's --data names the benchmarks"),
        ("vlm-policies", "small", "robosuite", "made in metaworld only, not in robosuite: leave"),
        ("pusht", "small", "robosuite", "made in pusht only, not in robosuite: leave --env out"),
    ],
)
def test_simulators_that_a_table_is_not_made_in(
    table: str, scale: str, simulator: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        find_places(paper_table(table), SCALES[scale], tmp_path, {}, simulators=(simulator,))


@pytest.mark.parametrize("named", [(), ("robosuite",)])
def test_a_missing_simulator_is_said_before_anything_is_made_or_trained(
    named: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = replace(ROBOSUITE, packages=("oatkit-has-no-such-package",))
    monkeypatch.setitem(SIMULATORS, "robosuite", absent)
    table, data = paper_table("light-policies"), dict.fromkeys(named, tmp_path)
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[robosuite\]'"):
        find_places(table, SCALES["tiny"], tmp_path, data, simulators=("robosuite",))
    assert not list(tmp_path.iterdir())


def test_a_named_checkpoint_counts_more_than_the_scales(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place,) = find_places(
        paper_table("co-training"),
        SCALES["tiny"],
        tmp_path,
        plane_demonstrations(tmp_path, monkeypatch),
    )
    dataset = place.open()
    paper, family = SCALES["paper"], "paligemma2"
    own = {family: "somewhere"}
    assert ready_backbone(family, paper, tmp_path, dataset, own) == "somewhere"
    assert ready_backbone(family, paper, tmp_path, dataset, {}) == FAMILIES[family].example


def test_an_unknown_scale_is_answered_with_the_closest() -> None:
    with pytest.raises(ValueError, match="unknown scale 'large'"):
        scale_named("large")
    changed = SCALES["tiny"].changed(3)
    assert (changed.episodes, changed.policy["steps"]) == (3, 2)
    assert SCALES["paper"].changed(steps=7).policy == {"steps": 7}
    tokenizer = SCALES["tiny"].changed(tokenizer_steps=9)
    assert tokenizer.tokenizer == {"steps": 9, "batch_size": 8}
    assert tokenizer.policy == SCALES["tiny"].policy


def test_pusht_is_read_from_the_pose_or_from_keypoints(tmp_path: Path) -> None:
    table, scale = paper_table("pusht"), SCALES["small"]
    named = {"pusht-keypoints": tmp_path / "b", "pusht": tmp_path / "a"}
    pose, points = find_places(table, scale, tmp_path, named)
    assert (pose.data, points.data) == (tmp_path / "a", tmp_path / "b")
    assert {(p.horizon, p.simulator, p.benchmark) for p in (pose, points)} == {(16, "pusht", None)}
    assert pose.state_keys == ("observation.state", "observation.environment_state")
    assert points.state_keys == ("observation.state", "observation.keypoints")
    with pytest.raises(ValueError, match="unknown dataset of PushT 'push'"):
        find_places(table, scale, tmp_path, {"push": tmp_path})
