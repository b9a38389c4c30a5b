"""A row is trained once, and evaluated as it says."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from oatkit import presets
from oatkit.errors import ArtifactError
from oatkit.jobs.policy_rows import PolicyRow
from oatkit.jobs.reproduction_scales import SCALES, Place
from oatkit.jobs.row_runs import RowRuns, folder_name
from oatkit.policies import load_policy
from oatkit.tokenizers import load_tokenizer
from oatkit.tokenizers.fast import published_digest
from oatkit.types.observation_keys import ENVIRONMENT_STATE
from tests.jobs.reproduction_places import plane_demonstrations

ROW = PolicyRow("oat", (1, 2), {"num_tokens": 2, "levels": (4, 4)}, tokenizer_steps=3)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    data = plane_demonstrations(tmp_path, monkeypatch)["metaworld"]
    return Place("metaworld", data, horizon=8, state_keys=(ENVIRONMENT_STATE,))


def test_a_row_is_trained_and_evaluated_as_it_says(place: Place, tmp_path: Path) -> None:
    runs = RowRuns(SCALES["tiny"].changed(2), "tiny", tmp_path / "out", workers=1)
    record = runs.evaluate("oat, grouped", ROW, place, seed=3, temperature=1.0)
    assert record.settings["sampling"]["temperature"] == 1
    assert record.settings["sampling"]["seed"] == 3
    assert [b.budget for b in record.budgets] == [1, 2]
    assert {b.success.episodes for b in record.budgets} == {4}  # of two tasks
    policy = runs.policy(ROW, place, 3)
    assert policy.name == "tiny-light-oat-horizon8-num_tokens2-levels44-steps3-policy_steps2-seed3"
    assert load_policy(policy).extras["train"]["seed"] == 3
    tokenizer = load_tokenizer(runs.tokenizer_dir(ROW, place))
    assert tokenizer.extras["train"]["steps"] == 3
    assert tokenizer.extras["train"]["seed"] == 0
    assert tokenizer.horizon == 8
    assert (
        runs.evaluation_dir("oat, grouped", ROW, place, 3, 1.0).name == "oat-grouped-temperature1"
    )

    changed = policy.stat().st_mtime_ns
    forced = replace(ROW, evaluate_by=(2,), budgets=(), execute=3)
    with pytest.warns(UserWarning, match="the policy was trained to generate"):
        record = runs.evaluate("forced", forced, place, seed=3)
    assert [b.calls for b in record.budgets] == [1]
    assert record.settings["execute"] == 3
    other = runs.evaluation_dir("forced", replace(forced, execute=4), place, 3, 0.0)
    assert other.name == "forced-execute4-temperature0"
    assert policy.stat().st_mtime_ns == changed


def test_a_policy_may_learn_another_schedule(place: Place, tmp_path: Path) -> None:
    runs = RowRuns(SCALES["tiny"], "tiny", tmp_path / "out", workers=1)
    record = runs.evaluate("one shot", replace(ROW, endpoints=(2,), budgets=()), place)
    assert [b.calls for b in record.budgets] == [1]


def test_rows_have_their_own_steps_and_heads(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps that are asked for count before those that a preset has for rows."""
    scale = replace(SCALES["tiny"], policy={"batch_size": 4})
    preset = replace(presets.POLICY_PRESETS["tiny"], row_steps=1)
    monkeypatch.setitem(presets.POLICY_PRESETS, "tiny", preset)
    row = replace(ROW, offset_layers=2)
    policy = load_policy(RowRuns(scale, "tiny", tmp_path / "own", workers=1).policy(row, place))
    assert policy.extras["train"]["steps"] == 1
    assert policy.net.config.offset_layers == 2
    asked = scale.changed(steps=3)
    policy = load_policy(RowRuns(asked, "tiny", tmp_path / "asked", workers=1).policy(ROW, place))
    assert policy.extras["train"]["steps"] == 3
    assert policy.net.config.offset_layers == 0


def test_other_steps_are_never_taken_for_those_that_are_asked_for(
    place: Place, tmp_path: Path
) -> None:
    """They have folders of their own, and a folder of other steps than its name says is refused."""
    row, scale = replace(ROW, tokenizer_steps=None), SCALES["tiny"]
    one = RowRuns(scale.changed(steps=2, tokenizer_steps=3), "tiny", tmp_path, workers=1)
    two = RowRuns(scale.changed(steps=2, tokenizer_steps=4), "tiny", tmp_path, workers=1)
    three = RowRuns(scale.changed(steps=3, tokenizer_steps=3), "tiny", tmp_path, workers=1)
    tokenizers = {runs.tokenizer_dir(row, place).name for runs in (one, two, three)}
    assert tokenizers == {f"tiny-oat-horizon8-num_tokens2-levels44-steps{n}" for n in (3, 4)}
    assert len({runs.policy_dir(row, place, 0) for runs in (one, two, three)}) == 3
    assert len({runs.evaluation_dir("oat", row, place, 0, 0.0) for runs in (one, three)}) == 2
    made = one.policy(row, place)
    assert load_policy(made).extras["train"]["steps"] == 2
    assert load_policy(made).tokenizer.extras["train"]["steps"] == 3
    made.rename(three.policy_dir(row, place, 0))
    with pytest.raises(ArtifactError, match=r"was trained for 2 steps and 3 are asked for: ask fo"):
        three.policy(row, place)
    three.policy_dir(row, place, 0).rename(two.policy_dir(row, place, 0))
    with pytest.raises(
        ArtifactError, match=r"tokenizer was trained for 3 steps and 4 are asked fo"
    ):
        two.policy(row, place)
    one.tokenizer_dir(row, place).rename(two.tokenizer_dir(row, place))
    with pytest.raises(ArtifactError, match=r"for 3 steps and 4 are asked for: ask for 3, or remo"):
        two.tokenizer(row, place)


def test_steps_of_the_preset_are_not_in_the_name() -> None:
    place, folder = Place("metaworld", Path()), Path("out")
    usual = RowRuns(SCALES["small"], "small", folder)
    own = presets.policy_preset("small").row_steps
    steps = presets.tokenizer_preset("small").train.steps
    asked = RowRuns(SCALES["small"].changed(steps=own, tokenizer_steps=steps), "small", folder)
    assert asked.policy_dir(ROW, place, 0) == usual.policy_dir(ROW, place, 0)
    assert usual.tokenizer_dir(PolicyRow("oat"), place).name == "small-oat-horizon32"
    fitted = RowRuns(SCALES["small"].changed(tokenizer_steps=9), "small", folder)
    assert fitted.tokenizer_dir(PolicyRow("bin"), place).name == "small-bin-horizon32"
    errors = RowRuns(SCALES["paper"], "paper-vlm", folder)
    assert errors.tokenizer_dir(PolicyRow("oat"), place).name == "paper-vlm-oat-horizon32"


def test_a_published_fast_is_not_taken_for_a_fitted_one(place: Place, tmp_path: Path) -> None:
    """Its folder names its contents, also where a fitted one is there already."""
    row, scale = PolicyRow("fast"), SCALES["tiny"]
    fitted = RowRuns(scale, "tiny", tmp_path / "out", workers=1)
    first = fitted.tokenizer(row, place)
    published = shutil.copytree(first, tmp_path / "published")
    facts = published / "processor_config.json"
    coarse = json.loads(facts.read_text()) | {"scale": 5.0}  # all numbers lie in its range
    facts.write_text(json.dumps(coarse))
    runs = replace(fitted, published=published)
    second = runs.tokenizer(row, place)
    assert second.name == f"tiny-fast-horizon8-published{published_digest(published)}"
    assert "fit" in load_tokenizer(first).extras
    assert "fit" not in load_tokenizer(second).extras
    assert runs.policy_dir(row, place, 0) != fitted.policy_dir(row, place, 0)
    assert runs.compared_dir(place) != fitted.compared_dir(place)
    assert runs.tokenizer_dir(ROW, place) == fitted.tokenizer_dir(ROW, place)
    facts.write_text(facts.read_text() + " ")
    assert runs.tokenizer_dir(row, place) != second
    facts.unlink()
    with pytest.raises(ArtifactError, match="is no published FAST tokenizer"):
        runs.tokenizer_dir(row, place)


def test_names_of_folders_have_no_spaces() -> None:
    assert folder_name("oat, no nesting") == "oat-no_nesting"
