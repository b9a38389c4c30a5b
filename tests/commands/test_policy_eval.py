"""`oatkit policy eval` as a user runs it: in a fast simulator, in MetaWorld and in PushT."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from oatkit import cli
from oatkit.commands.policy_eval import render_evaluation
from oatkit.envs.simulator_table import SIMULATORS
from oatkit.jobs.policy_evaluation import RECORD
from tests.evaluation.plane import PLANE
from tests.evaluation.plane_policy import save_plane_policy
from tests.jobs.plane_evaluations import read
from tests.measure.reports.records import evaluation


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An untrained policy for the plane, which takes the place of PushT."""
    monkeypatch.setitem(SIMULATORS, "pusht", PLANE)
    monkeypatch.setenv("COLUMNS", "40")
    return str(save_plane_policy(tmp_path))


def test_the_table_the_record_and_the_page(
    policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "e"
    where = ("--env", "pusht", "--out", str(out), "--workers", "1", "--tasks", "near", "far")
    few = ("--episodes", "2", "--budgets", "1", "None", "--temperature", "0", "--top-k", "0")
    command = ["policy", "eval", policy, *where, *few]
    assert cli.main(command) == 0
    shown = capsys.readouterr().out
    heading = "budget   success     95 % interval  tokens   calls      ms   acted   seams    else"
    assert heading in shown
    assert f"wrote {out / RECORD}\nopen {out / 'report.html'}\n" in shown
    record = read(out / RECORD)
    assert record.settings["sampling"] == {
        "temperature": 0.0,
        "top_k": None,
        "top_p": 1.0,
        "seed": 0,
    }
    assert [b.budget for b in record.budgets] == [1, 4]
    assert record.command.startswith(f"oatkit policy eval {policy} --out {out} --env pusht")
    assert cli.main(command) == 0
    assert "8 episodes were finished before" in capsys.readouterr().out
    assert read(out / RECORD).episodes == record.episodes


def test_queries_that_had_to_generate_again_are_counted() -> None:
    record = evaluation({8: [True, False]})
    assert "generate" not in str(render_evaluation(record))
    some = tuple(replace(e, redrawn=1) for e in record.episodes)
    shown = str(render_evaluation(replace(record, episodes=some)))
    assert shown.endswith("2 of 8 queries had to generate their tokens again")


def test_other_records_to_compare_with(
    policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ("--env", "pusht", "--tasks", "near", "--episodes", "2", "--workers", "1")
    assert cli.main(["policy", "eval", policy, *few, "--out", str(tmp_path / "a")]) == 0
    against = ("--against", str(tmp_path / "a" / RECORD))
    more = ("--top-p", "0.5", *against)
    assert cli.main(["policy", "eval", policy, *few, *more, "--out", str(tmp_path / "b")]) == 0
    assert f"{policy} at 4 against {policy} at 4: " in capsys.readouterr().out
    (pair,) = read(tmp_path / "b" / RECORD).comparisons
    assert pair.episodes == 2
    none = (*few, "--seed", "1", *against)
    assert cli.main(["policy", "eval", policy, *none, "--out", str(tmp_path / "c")]) == 2
    assert "has no episode of the same seed" in capsys.readouterr().err
    (tmp_path / "no.json").write_text("{}")
    broken = (*few, "--against", str(tmp_path / "no.json"))
    assert cli.main(["policy", "eval", policy, *broken, "--out", str(tmp_path / "d")]) == 2
    assert "no.json has no schema and version" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--temperature", "-1"), "temperature is -1"),
        (("--top-k", "-1"), "--top-k is -1, expected 0 or more"),
        (("--top-p", "2"), "--top-p is 2.0, expected more than 0 and at most 1"),
        (("--execute", "0"), "execute is 0, expected a whole number from 1 on"),
        (("--execute", "33"), "execute is 33, expected 1 to 8, a whole chunk"),
        (("--execute", "auto"), "execute 'auto' needs a policy that knows how many steps"),
        (("--delay", "-1"), "delay is -1, expected a whole number from 0 on"),
        (("--execute", "6", "--delay", "3"), "delay is 3, expected at most 2"),
        (("--blend", "-1"), "blend is -1.0, expected a finite number from 0 on"),
        (("--draws", "0"), "draws is 0, expected a whole number from 1 on"),
        (("--decoding", "relaxed"), "strict or relaxed decoding is for fast, not for "),
        (("--no-shadows",), "--no-shadows is for policies that read images of metaworld"),
    ],
)
def test_wrong_flags(
    policy: str,
    flags: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = ("--env", "pusht", "--out", str(tmp_path / "e"))
    assert cli.main(["policy", "eval", policy, *where, *flags]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "e").exists()


def test_a_word_that_is_no_number_of_steps(
    policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--env", "pusht", "--out", str(tmp_path / "e"), "--execute", "often")
    with pytest.raises(SystemExit):
        cli.main(["policy", "eval", policy, *flags])
    assert "Error parsing --execute" in capsys.readouterr().err


def test_execution_is_chosen_by_flags(
    policy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ("--env", "pusht", "--tasks", "never", "--episodes", "1", "--workers", "1")
    how = ("--execute", "3", "--blend", "0.1", "--delay", "2", "--draws", "2", "--commit")
    assert cli.main(["policy", "eval", policy, *few, *how, "--out", str(tmp_path / "a")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "3 of 8 steps executed, averaged with older chunks (decay 0.1), 2 steps late" in shown
    record = read(tmp_path / "a" / RECORD)
    named = {
        name: record.settings[name] for name in ("execute", "blend", "delay", "draws", "commit")
    }
    assert named == {"execute": 3, "blend": 0.1, "delay": 2, "draws": 2, "commit": True}
    (episode,), (result,) = record.episodes, record.budgets
    assert (episode.steps, episode.queries, result.steps_per_query) == (30, 10, 3)
    assert episode.seam_jump is not None
    assert result.calls_per_s is not None
    # other settings are other episodes: the same folder refuses them
    assert cli.main(["policy", "eval", policy, *few, "--out", str(tmp_path / "a")]) == 2


def train(data: Path, folder: Path, kind: str, horizon: int, *flags: str) -> None:
    """A tokenizer and a policy, trained for seconds."""
    where = ("--data", str(data), "--preset", "tiny")
    sizes = ("--kind", kind, "--horizon", str(horizon), "--num-tokens", "4")
    assert cli.main(["tokenizer", "train", *where, *sizes, "--out", str(folder / "t")]) == 0
    more = ("--tokenizer", str(folder / "t"), "--out", str(folder / "p"), *flags)
    assert cli.main(["policy", "train", *where, *more]) == 0


def test_from_demonstrations_to_success_in_metaworld(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("metaworld", reason="needs the extra metaworld")
    data, out = tmp_path / "data", tmp_path / "e"
    few = ("--tasks", "drawer-close", "--episodes", "8", "--workers", "1")
    assert cli.main(["data", "make", "metaworld", *few, "--out", str(data)]) == 0
    state = ("--state-key", "observation.environment_state", "--steps", "200")
    train(data, tmp_path, "klt", 32, *state)
    few = ("--tasks", "drawer-close-v3", "--episodes", "2", "--budgets", "4", "auto")
    where = ("--env", "metaworld", "--out", str(out))
    assert cli.main(["policy", "eval", str(tmp_path / "p"), *where, *few]) == 0
    shown = capsys.readouterr().out
    assert f"wrote {out / RECORD}" in shown
    assert f"open {out / 'report.html'}" in shown
    assert "<h1>A policy in the simulator</h1>" in (out / "report.html").read_text()
    assert "16 of 32 steps executed" in shown
    record = read(out / RECORD)
    assert {e.task for e in record.episodes} == {"drawer-close"}
    assert {e.seed for e in record.episodes} == {1, 3}
    assert [b.budget for b in record.budgets] == [4, "auto"]
    assert record.settings["state_keys"] == ["observation.environment_state"]
    assert sum(e.is_success for e in record.episodes) >= 1
    auto = ("--tasks", "drawer-close", "--episodes", "1", "--execute", "auto")
    where = ("--env", "metaworld", "--out", str(tmp_path / "auto"))
    assert cli.main(["policy", "eval", str(tmp_path / "p"), *where, *auto]) == 0
    (episode,) = read(tmp_path / "auto" / RECORD).episodes
    assert 2 * (episode.queries - 1) < episode.steps <= 4 * episode.queries


def test_pusht(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gym_pusht", reason="needs the extra pusht", exc_type=ImportError)
    rng = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    for index in range(5):
        state = rng.uniform(50, 450, (30, 5))
        columns = {
            "action": state[:, :2] + rng.normal(size=(30, 2)),
            "observation.state": state[:, :2],
            "observation.environment_state": state[:, 2:],
        }
        np.savez(tmp_path / f"data/{index}.npz", **columns, task="push", fps=10)
    state_keys = ("observation.state", "observation.environment_state")
    train(tmp_path / "data", tmp_path, "klt", 16, "--steps", "5", "--state-key", *state_keys)
    few = ("--env", "pusht", "--episodes", "2", "--out", str(tmp_path / "e"))
    assert cli.main(["policy", "eval", str(tmp_path / "p"), *few]) == 0
    assert "score" in capsys.readouterr().out
    record = read(tmp_path / "e" / RECORD)
    assert len(record.episodes) == 2
    for e in record.episodes:
        assert e.score is not None
        assert 0 <= e.score <= 1
