"""`oatkit policy sweep` as a user runs it, in a fast simulator."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oatkit import cli
from oatkit.envs.simulator_table import SIMULATORS
from oatkit.jobs import policy_ablations
from oatkit.policies import load_policy
from oatkit.storage.records import record_from_json
from oatkit.types import PolicySweep
from tests.evaluation.plane import PLANE, TASKS

KEYS = ("observation.state", "observation.environment_state")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(SIMULATORS, "metaworld", PLANE)
    monkeypatch.setattr(policy_ablations, "HORIZONS", (8, 16))
    monkeypatch.setattr(policy_ablations, "NUM_TOKENS", (2,))
    monkeypatch.setattr(policy_ablations, "LEVELS", ((8, 6, 5),))
    rng = np.random.default_rng(0)
    for index in range(10):
        columns = {"action": rng.uniform(-1, 1, (40, 2))}
        columns |= {key: rng.uniform(0, 2, (40, 2)) for key in KEYS}
        np.savez(tmp_path / f"{index}.npz", **columns, task=TASKS["near"], fps=10)
    return tmp_path


def sweep(data: Path, out: Path, *flags: str) -> int:
    small = ("--preset", "tiny", "--steps", "2", "--tokenizer-steps", "2", "--episodes", "2")
    where = ("--data", str(data), "--out", str(out), "--workers", "1", "--state-key", *KEYS)
    return cli.main(["policy", "sweep", *where, *small, *flags])


def read(path: Path) -> PolicySweep:
    return record_from_json(PolicySweep, json.loads(path.read_text()))


def test_a_sweep_goes_on_after_a_kill_and_trains_nothing_twice(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "s.json"
    real, trained = policy_ablations.train_policy, []

    def dying(*args: Any, out: Path, **options: Any) -> Any:
        trained.append(out.parent.name)
        if len(trained) == 2:
            raise OSError("the power went out")
        return real(*args, out=out, **options)

    monkeypatch.setattr(policy_ablations, "train_policy", dying)
    assert sweep(data, out) == 2
    assert [row.horizon for row in read(out).rows] == [8]
    assert sweep(data, out) == 0
    short, long = "levels8555-horizon8-tokens2", "levels8555-horizon16-tokens2"
    assert trained == [short, long, long, "levels865-horizon32-tokens8"]
    found = read(out)
    assert [(row.ablation, row.horizon, row.execute) for row in found.rows] == [
        ("horizons-half", 8, 4),
        ("horizons-half", 16, 8),
        ("horizons-fixed", 8, 8),
        ("horizons-fixed", 16, 8),
        ("levels", 32, 16),
    ]
    for row in found.rows:
        assert row.result.success.episodes == 2
        assert row.result.tokens == row.num_tokens
    assert found.rows[1].result == found.rows[3].result  # half of 16 is 8
    assert found.rows[-1].vocab_size == 240
    shown = capsys.readouterr().out
    assert "8,6,5: 240 codes" in shown
    assert f"wrote {out}" in shown


def test_policies_read_the_cameras_that_are_named(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = tmp_path / "images"
    images.mkdir()
    for path in data.glob("*.npz"):
        frames = np.zeros((40, 16, 16, 3), np.uint8)
        np.savez(images / path.name, **np.load(path), **{"observation.images.top": frames})
    out = tmp_path / "s.json"
    assert sweep(images, out, "--only", "levels", "--cameras", "top") == 0
    assert read(out).settings["cameras"] == ["top"]
    policy = load_policy(tmp_path / "s" / "levels865-horizon32-tokens8" / "policy")
    assert list(policy.spec.cameras) == ["top"]
    assert sweep(images, out, "--only", "levels") == 2
    assert "made with another --cameras" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--env", "robosuite"), "for 2 action dimensions, robosuite has 7"),
        (("--tasks", "nearr"), "unknown plane task 'nearr'; known, closest first: near"),
        (("--tasks", "near", "near"), "tasks are [near, near], expected each once"),
        (("--tasks", "far"), "the policy was not trained on far"),
        (("--cameras", "top"), "unknown camera 'top': there are none"),
        (("--episodes", "0"), "episodes is 0, expected 1 or more"),
        (("--workers", "0"), "workers is 0, expected 1 or more"),
    ],
)
def test_what_cannot_be_evaluated_is_said_before_training(
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: tuple[str, ...],
    message: str,
) -> None:
    assert sweep(data, tmp_path / "s.json", *flags) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "s.json").exists()
    assert not (tmp_path / "s").exists()


def test_a_missing_simulator_is_said_before_training(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    absent = replace(PLANE, packages=("no-such-simulator",), extra="robosuite")
    monkeypatch.setitem(SIMULATORS, "metaworld", absent)
    assert sweep(data, tmp_path / "s.json") == 2
    assert "this needs optional packages: pip install 'oatkit[robosuite]'" in (
        capsys.readouterr().err
    )
    assert not (tmp_path / "s").exists()


def test_one_ablation_and_wrong_options(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "s.json"
    assert sweep(data, out, "--only", "levels") == 0
    assert [row.ablation for row in read(out).rows] == ["levels"]
    capsys.readouterr()
    assert sweep(data, out, "--only", "levels", "--temperature", "0") == 2
    assert "made with another --temperature (was 1.0, now 0.0)" in capsys.readouterr().err
    assert sweep(data, out, "--only", "levels", "--top-k", "3") == 2
    assert "made with another --top-k (was None, now 3)" in capsys.readouterr().err
    assert sweep(data, tmp_path / "s.txt") == 2
    assert "expected a name that ends in .json" in capsys.readouterr().err
    assert sweep(data, out, "--execute", "9") == 2
    assert "execute is 9, expected 1 to 8, the shortest chunk" in capsys.readouterr().err
    out.unlink()
    assert sweep(data, out, "--only", "levels") == 2
    assert "holds an artifact, but" in capsys.readouterr().err
