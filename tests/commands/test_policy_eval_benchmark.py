"""`oatkit policy eval --benchmark` as a user runs it, with drivers in place of simulators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oatkit import cli
from oatkit.evaluation.benchmark_presets import BENCHMARK_PRESETS, benchmark_preset
from oatkit.jobs.benchmark_evaluation import RECORD
from oatkit.storage.records import read_record
from oatkit.types import BenchmarkEvaluation
from tests.evaluation.benchmark_policy import save_policy

praxis_eval = pytest.importorskip("praxis_eval", reason="needs the extra praxis")
registry = pytest.importorskip("praxis_eval.registry", reason="needs the extra praxis")

SIMULATED = [name for name, preset in BENCHMARK_PRESETS.items() if preset.driver]


class Driver:
    """A driver that obeys praxis-eval's protocol; its observations say nothing."""

    def __init__(self, name: str) -> None:
        self.contract = praxis_eval.get_driver(name).contract
        self.configs: list[Any] = []

    def evaluate(self, *, policy: Any, config: Any) -> Any:
        self.configs.append(config)
        policy.reset()
        for _ in range(3):
            actions = policy.act(
                [{"observation.state": np.zeros(4)}], action_spec=self.contract.action
            )
            self.contract.action.validate_batch(actions, batch_size=1)
        episodes = float(config.num_eval_per_task)
        found = {"success_rate": 0.5, "n_episodes": episodes}
        tasks = {f"{config.task}/{i}": found for i in range(2)}
        return praxis_eval.EvalResult(overall={**found, "n_episodes": 2 * episodes}, per_task=tasks)


@pytest.fixture
def drivers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Driver]:
    """Fake drivers under the names of praxis-eval's own."""
    names = {str(preset.driver) for preset in BENCHMARK_PRESETS.values() if preset.driver}
    made = {name: Driver(name) for name in names}
    for name, driver in made.items():
        monkeypatch.setitem(registry._DRIVERS, name, driver)
    monkeypatch.setenv("COLUMNS", "400")
    return made


@pytest.mark.parametrize("benchmark", SIMULATED)
def test_every_simulated_row_of_the_papers_table_runs(
    benchmark: str,
    drivers: dict[str, Driver],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    preset = benchmark_preset(benchmark)
    policy = save_policy(tmp_path, preset.horizon, preset.action_dim)
    out = tmp_path / "out"
    command = ["policy", "eval", str(policy), "--benchmark", benchmark, "--out", str(out)]
    assert cli.main([*command, "--budgets", "1", "4", "--seed", "3"]) == 0
    shown = capsys.readouterr().out
    assert f"open {out / 'report.html'}" in shown
    configs = drivers[str(preset.driver)].configs
    assert [config.task for config in configs] == 2 * list(preset.selectors)
    assert {(config.num_eval_per_task, config.seed) for config in configs} == {(50, 3)}
    for budget in (1, 4):
        record = read_record(out / f"budget-{budget}" / RECORD, BenchmarkEvaluation)
        assert record.mean_success == 0.5
        assert record.settings["execute"] == preset.horizon // 2
        assert record.settings["budget"] == budget
        assert record.command.startswith(f"oatkit policy eval {policy} --out {out} --benchmark")
    assert cli.main([*command, "--budgets", "1", "4", "--seed", "3"]) == 0
    assert len(configs) == 2 * len(preset.selectors)  # nothing is run again


@pytest.mark.filterwarnings("default:the policy was trained to generate")
def test_flags_reach_the_simulator_and_the_policy(
    drivers: dict[str, Driver], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = save_policy(tmp_path, 8, 7)
    where = ["policy", "eval", str(policy), "--benchmark", "vlm-simpler", "--out"]
    rules = ["--execute", "2", "--blend", "0.1", "--delay", "1", "--draws", "3", "--commit"]
    first = [*where, str(tmp_path / "a"), "--episodes", "5", "--workers", "3", *rules]
    more = ["--env-option", "python_bin=env/python", "--env-option", "action_scale=2"]
    assert cli.main([*first, *more, "--endpoints", "1", "2", "4", "--temperature", "0"]) == 0
    assert "now [1, 2, 4]: expect worse chunks" in capsys.readouterr().err
    (config,) = drivers["simpler"].configs
    assert (config.num_eval_per_task, config.num_parallel_env) == (5, 3)
    assert config.env_kwargs == {"python_bin": "env/python", "action_scale": 2}
    record = read_record(tmp_path / "a" / RECORD, BenchmarkEvaluation)
    assert (record.settings["execute"], record.settings["endpoints"]) == (2, [1, 2, 4])
    named = {name: record.settings[name] for name in ("blend", "delay", "draws", "commit")}
    assert named == {"blend": 0.1, "delay": 1, "draws": 3, "commit": True}
    against = ["--against", str(tmp_path / "a" / RECORD)]
    assert cli.main([*where, str(tmp_path / "b"), *against]) == 0
    assert "mean rank" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--videos", "1"), "--videos is not for --benchmark: leave it out"),
        (("--no-shadows",), "--no-shadows is not for --benchmark: leave it out"),
        (("--execute", "auto"), "execute 'auto' needs a policy that knows how many"),
        (("--env-option", "size"), "--env-option 'size' is no KEY=VALUE"),
        (("--decoding", "strict"), "strict or relaxed decoding is for fast, not for oat"),
    ],
)
def test_what_does_not_fit_is_said(
    flags: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = save_policy(tmp_path, 8, 7)
    where = ("--benchmark", "vlm-simpler", "--out", str(tmp_path / "out"))
    assert cli.main(["policy", "eval", str(policy), *where, *flags]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_simulator_that_is_not_installed_is_one_sentence(
    drivers: dict[str, Driver],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def missing(*, policy: Any, config: Any) -> Any:
        raise ModuleNotFoundError("No module named 'libero'")

    monkeypatch.setattr(drivers["libero"], "evaluate", missing)
    policy = save_policy(tmp_path, 32, 7)
    where = ("--benchmark", "light-libero", "--out", str(tmp_path / "out"))
    assert cli.main(["policy", "eval", str(policy), *where]) == 2
    assert (
        "LIBERO needs a simulator of praxis-eval that is not installed (No module named 'libero'): "
        "pip install 'praxis-eval[libero]'"
    ) in capsys.readouterr().err
