"""Signals of a prediction: what each of them is, and the benchmark on tiny policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import record, report, signal_statistics
from benchmarks.execution_signals import (
    DRAWS,
    ERROR_STEPS,
    GAP,
    SETS,
    SIGNAL_STEPS,
    Options,
    folders,
    main,
    signals_and_errors,
)
from benchmarks.policy_table import open_with_full_state
from benchmarks.report_signals import execution_signals
from oatkit.jobs.artifact_split import select_episodes
from oatkit.policies import load_policy
from oatkit.types import Sampling

LENGTH, HORIZON = 40, 32


@pytest.fixture(autouse=True)
def few_resamplings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal_statistics, "NUM_RESAMPLINGS", 5)


@pytest.fixture
def more_data(folder: Path) -> Path:
    """So many episodes that several are held out."""
    rng = np.random.default_rng(1)
    for index in range(12, 40):
        columns = {
            "action": rng.uniform(-1, 1, (LENGTH, 2)),
            "observation.state": rng.uniform(0, 2, (LENGTH, 2)),
            "observation.environment_state": rng.uniform(0, 2, (LENGTH, 2)),
        }
        np.savez(folder / f"data/{index:02d}.npz", **columns, task="go near", fps=10)
    return Path("data")


def test_signals_of_tokens_and_of_a_flow_are_measured_once_and_shown(
    more_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = Options(rows=("oat", "light-flow"), data=more_data, tiny=True)
    main(options)
    found = record.read_results("execution_signals")
    assert list(found) == ["oat/0", "light-flow/0"]
    for row in found.values():
        assert row["observations"] == row["episodes"] * (LENGTH - GAP - max(ERROR_STEPS) + 1)
        assert list(row["by_steps"]) == [str(steps) for steps in ERROR_STEPS]
        assert set(row["ms"]) == {"1", str(DRAWS)}
        assert all(2 <= each["steps"] <= 4 for each in row["executed"])
        for by_steps in row["by_steps"].values():
            sets = [tuple(each["signals"]) for each in by_steps["explained"]]
            assert sets == list(SETS[row["head"]])
            assert list(by_steps["correlation"]) == list(row["signals"])
    assert list(found["oat/0"]["signals"]) == ["entropy", "agreement", "consensus"]
    assert list(found["light-flow/0"]["signals"]) == ["agreement", "consensus"]
    text = report.section("execution_signals")
    assert "| `oat` | 0 | entropy + agreement |" in text
    assert "| `light-flow` | 0 | consensus |" in text
    capsys.readouterr()
    main(options)
    assert "oat/0 is finished" in capsys.readouterr().out
    assert record.read_results("execution_signals") == found
    check_signals(options, more_data)


def check_signals(options: Options, data: Path) -> None:
    """Signals and errors of one chunk, asked for by hand."""
    trained = Options(rows=("oat",), policies=options.policies / "tiny", tiny=True)
    ((_, _, folder),) = folders(trained)
    policy = load_policy(folder)
    held_out = select_episodes(policy.extras, open_with_full_state(data), "val")
    found = signals_and_errors(policy, held_out)
    frame, scale = 9, np.asarray(policy.tokenizer.raw_normalizer.scale)
    place = LENGTH - GAP - max(ERROR_STEPS) + 1 + frame - GAP  # in the second episode
    chunks = held_out.chunks(HORIZON, history=policy.spec.history)
    wanted = chunks.batch([LENGTH + frame])
    earlier, now = (
        policy.predict_action_chunk(
            policy.read(chunks.batch([LENGTH + at])), sampling=Sampling(temperature=0.0)
        )
        for at in (frame - GAP, frame)
    )
    away = (now.chunk[0, :SIGNAL_STEPS] - earlier.chunk[0, GAP : GAP + SIGNAL_STEPS]) / scale
    assert found.signals["agreement"][place] == pytest.approx(rms(away), rel=1e-3)
    assert found.signals["entropy"][place] == pytest.approx(now.entropy_bits.mean(), rel=1e-4)
    for steps in ERROR_STEPS:
        off = (now.chunk - wanted["action"])[0, :steps] / scale
        assert found.error(steps)[place] == pytest.approx(rms(off), rel=1e-3)
    assert found.episode[place] == 1
    assert found.signals["consensus"].min() > 0


def rms(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def test_policies_that_are_not_trained_are_left_out(tmp_path: Path) -> None:
    assert list(folders(Options(policies=tmp_path))) == []


def test_the_page_says_what_signals_add_and_cost() -> None:
    def number(value: float) -> dict[str, float]:
        return {"value": value, "low": value - 0.1, "high": value + 0.1}

    def explained(*signals: str, share: float, beyond: float) -> dict[str, Any]:
        return {"signals": signals, "value": number(share), "beyond_first": number(beyond)}

    by_steps: dict[str, Any] = {
        "error": 0.125,
        "correlation": {"entropy": number(0.5), "agreement": number(0.25)},
        "explained": [
            explained("entropy", share=0.3, beyond=0),
            explained("entropy", "agreement", share=0.4, beyond=0.1),
        ],
    }
    row = {
        **{"row": "oat", "seed": 1, "episodes": 20, "observations": 1797},
        **{"ms": {"1": 3.5, "8": 7.0}, "signals": {"entropy": 5.0, "agreement": 0.1}},
        "by_steps": {"2": by_steps, "4": by_steps},
        "executed": [{**each, "steps": 2.5} for each in by_steps["explained"]],
    }
    settings = {"gap": 4, "signal_steps": 8, "draws": 8, "temperature_of_draws": 1.0}
    other = {**row, "seed": 0}
    text = execution_signals({"settings": settings, "results": {"oat/1": row, "oat/0": other}})
    assert text.index("| `oat` | 0 |") < text.index("| `oat` | 1 |")
    assert "| `oat` | 1 | agreement | 0.25 (0.15 to 0.35) | 0.25 (0.15 to 0.35) |" in text
    assert "| `oat` | 1 | entropy | 0.30 (0.20 to 0.40) |" in text
    assert "| `oat` | 1 | entropy + agreement | 0.40; +0.10 (+0.00 to +0.20) |" in text
    assert "| `oat` | 1 | entropy | 2.50 | +30.0 (+20.0 to +40.0) | |" in text
    assert "| entropy + agreement | 2.50 | +40.0 (+30.0 to +50.0) | +10.0 (+0.0 to +20.0) |" in text
    assert "| `oat` | 1 | 1,797 | 0.125 | 0.125 | 2.0 times |" in text
