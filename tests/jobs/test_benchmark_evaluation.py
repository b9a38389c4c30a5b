"""The paper's benchmarks through praxis-eval's protocol, with a driver in place of simulators."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.envs.metaworld import METAWORLD
from oatkit.envs.robosuite import ROBOSUITE, SCENES
from oatkit.errors import ArtifactError, DecodeError, MissingExtraError
from oatkit.evaluation.benchmark_presets import benchmark_preset
from oatkit.evaluation.praxis import PraxisPolicy
from oatkit.jobs import benchmark_evaluation
from oatkit.jobs.benchmark_evaluation import (
    RECORD,
    ROBOMIMIC_WORDS,
    evaluate_benchmark,
    own_instruction,
)
from oatkit.measure.reports.benchmark_report import benchmark_page
from oatkit.policies import Policy, load_policy, policy_for_dataset
from oatkit.policies.generation.auto_execution import AutoExecution
from oatkit.storage.records import read_record
from oatkit.tokenizers import ActionTokenizer, make_config
from oatkit.types import BenchmarkEvaluation, Sampling
from tests.evaluation.benchmark_policy import save_policy
from tests.policies import tiny

praxis_eval = pytest.importorskip("praxis_eval", reason="needs the extra praxis")

PRESET = benchmark_preset("light-metaworld")
STEPS = 20
SMALL = {"width": 16, "num_layers": 1, "num_heads": 2}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for index in range(4):
        columns = {
            "action": rng.uniform(-2, 2, (60, 4)),
            "observation.state": rng.normal(size=(60, 4)),
        }
        np.savez(folder / f"{index}.npz", **columns, task="tidy up")
    return oatkit.open_dataset(folder, cache_dir=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def policy(dataset: Dataset) -> Policy:
    config = make_config("oat-pow2", horizon=32, action_dim=4, num_tokens=4, **SMALL)
    tokenizer = ActionTokenizer.for_dataset(config, dataset)
    return policy_for_dataset(tiny.CONFIG, tokenizer, dataset)


class Driver:
    """What praxis-eval's `evaluate` does, with observations that say nothing."""

    def __init__(self, queries: int = 2) -> None:
        self.queries = queries
        self.configs: list[Any] = []
        self.actions: list[np.ndarray] = []

    def __call__(self, env: str, *, policy: PraxisPolicy, config: Any) -> Any:
        self.configs.append((env, config))
        spec = praxis_eval.get_driver(env).contract.action
        rng = np.random.default_rng(config.seed)
        policy.reset()
        for _ in range(STEPS):
            states = rng.normal(size=(config.num_parallel_env, 4))
            observations = [{"observation.state": state, "pixels": None} for state in states]
            actions = policy.act(observations, action_spec=spec)
            self.actions.append(spec.validate_batch(actions, batch_size=config.num_parallel_env))
        assert len(policy.consume_inference_info()) == self.queries * config.num_parallel_env
        found = {"success_rate": 0.75, "n_episodes": float(config.num_eval_per_task)}
        return praxis_eval.EvalResult(
            overall=found, per_task={f"{config.task}/0": {**found, "video_paths": []}}
        )


def test_every_task_of_the_preset_is_run_as_the_paper_does(
    policy: Policy, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    driver = Driver()
    record = evaluate_benchmark(
        policy,
        "light-metaworld",
        out=tmp_path,
        num_parallel=3,
        sampling=Sampling(seed=5),
        evaluate=driver,
    )
    assert [env for env, _ in driver.configs] == ["metaworld"] * 4
    assert tuple(config.task for _, config in driver.configs) == PRESET.selectors
    for _, config in driver.configs:
        assert (config.num_eval_per_task, config.num_parallel_env, config.seed) == (50, 3, 5)
        assert config.output_dir == tmp_path / config.task
    assert [part.selector for part in record.parts] == list(PRESET.selectors)
    for part in record.parts:
        assert (part.success.successes, part.success.episodes) == (38, 50)
        assert part.success.low < part.success.rate < part.success.high
    assert record.mean_success == 0.76
    assert record.settings["execute"] == 16
    assert record.is_paper_row is False  # the paper has no light policy on oat-pow2
    assert read_record(tmp_path / RECORD, BenchmarkEvaluation) == record
    assert capsys.readouterr() == ("", "")


def test_the_policy_decides_how_much_is_executed_where_it_knows(
    policy: Policy, tmp_path: Path
) -> None:
    """All steps are as good as the first, so that an eighth is executed: 5 queries in 20 steps."""
    table = AutoExecution((), ((1.0,) * 32,))
    knows = Policy(policy.model, execution=table)
    how: dict[str, Any] = {"execute": "auto", "evaluate": Driver(queries=5)}
    record = evaluate_benchmark(knows, "light-metaworld", out=tmp_path, **how)
    assert record.settings["execute"] == "auto"
    assert "as many steps as the policy finds worth it of a chunk" in benchmark_page([record], ())
    with pytest.raises(ValueError, match="execute 'auto' needs a policy that knows"):
        evaluate_benchmark(policy, "light-metaworld", out=tmp_path / "b", execute="auto")


RULES: dict[str, Any] = {"execute": 4, "blend": 0.1, "delay": 2, "draws": 2, "commit": True}


def test_chunks_follow_one_another_by_the_same_rules_as_in_our_simulators(
    policy: Policy, tmp_path: Path
) -> None:
    driver = Driver(queries=5)
    record = evaluate_benchmark(
        policy, "light-metaworld", out=tmp_path / "a", evaluate=driver, **RULES
    )
    assert {name: record.settings[name] for name in RULES} == RULES
    words = "4 steps of a chunk executed, averaged with older chunks (decay 0.1), 2 steps late, "
    assert f"{words}committed, the best of 2 draws, temperature" in benchmark_page([record], ())
    plain = {"blend": None, "delay": 0, "draws": 1, "commit": False}
    assert set(plain).isdisjoint(
        evaluate_benchmark(
            policy, "light-metaworld", out=tmp_path / "b", evaluate=Driver(), **plain
        ).settings
    ), "older records go on"
    with pytest.raises(ArtifactError, match="made with another blend"):
        evaluate_benchmark(
            policy, "light-metaworld", out=tmp_path / "a", evaluate=driver, **RULES | {"blend": 0.2}
        )


def test_a_row_by_other_rules_is_not_the_papers(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark_evaluation, "is_paper_row", lambda *_: True)
    for name, rules, is_papers in (("a", {}, True), ("b", {"blend": 0.1}, False)):
        record = evaluate_benchmark(
            policy, "light-metaworld", out=tmp_path / name, evaluate=Driver(), **rules
        )
        assert record.is_paper_row is is_papers


def test_it_goes_on_where_it_stopped_and_repeats_itself(policy: Policy, tmp_path: Path) -> None:
    class Stopping(Driver):
        def __call__(self, env: str, *, policy: PraxisPolicy, config: Any) -> Any:
            if len(self.configs) == 2:
                raise KeyboardInterrupt
            return super().__call__(env, policy=policy, config=config)

    straight, stopping, rest = Driver(), Stopping(), Driver()
    one = evaluate_benchmark(policy, "light-metaworld", out=tmp_path / "a", evaluate=straight)
    with pytest.raises(KeyboardInterrupt):
        evaluate_benchmark(policy, "light-metaworld", out=tmp_path / "b", evaluate=stopping)
    two = evaluate_benchmark(policy, "light-metaworld", out=tmp_path / "b", evaluate=rest)
    assert len(rest.configs) == 2
    assert two == one
    np.testing.assert_array_equal(stopping.actions + rest.actions, straight.actions)
    with pytest.raises(ArtifactError, match="made with another sampling"):
        evaluate_benchmark(
            policy, "light-metaworld", out=tmp_path / "b", sampling=Sampling(0), evaluate=rest
        )


@pytest.mark.parametrize(
    ("words", "solved"),
    [
        ({"box": "close it", "door": "open it"}, {"box": 2, "door": 4}),
        ({"box": "shut the box", "door": "open the door"}, {"box": 2, "door": 2}),  # nobody knows
        ({"box": "shut the box"}, {"box": 2}),
    ],
)
def test_an_episode_without_a_chunk_is_not_solved(
    policy: Policy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: dict[str, str],
    solved: dict[str, int],
) -> None:
    def mute(self: Policy, *_: Any, **__: Any) -> Any:
        raise DecodeError("1 of 1 sequences did not decode in 10 attempts")

    def driver(env: str, *, policy: PraxisPolicy, config: Any) -> Any:
        spec = praxis_eval.get_driver(env).contract.action
        for _ in range(2):
            policy.reset()
            policy.act([{"observation.state": np.zeros(4), "task": "close it"}], action_spec=spec)
        found = {"success_rate": 1.0, "n_episodes": 4.0}
        tasks = {name: {**found, "task_description": said} for name, said in words.items()}
        return praxis_eval.EvalResult(
            overall={**found, "n_episodes": 4.0 * len(tasks)}, per_task=tasks
        )

    monkeypatch.setattr(Policy, "predict_action_chunk", mute)
    record = evaluate_benchmark(policy, "light-metaworld", out=tmp_path, evaluate=driver)
    part = record.parts[0]
    assert {task.task: task.success.successes for task in part.tasks} == solved
    assert part.success.successes == part.success.episodes - 2
    assert (part.queries, part.redrawn, part.failed) == (2, 0, 2)
    assert part.error == "1 of 1 sequences did not decode in 10 attempts"
    assert read_record(tmp_path / RECORD, BenchmarkEvaluation) == record


def test_a_policy_of_our_demonstrations_is_told_in_their_words(tmp_path: Path) -> None:
    """praxis-eval has LeRobot's words for a task, which our demonstrations do not."""
    own = tuple(METAWORLD.tasks[name] for name in METAWORLD.default_tasks)
    policy = load_policy(save_policy(tmp_path / "ours", 32, 4, tasks=own))
    found = [own_instruction(policy, PRESET.driver, selector) for selector in PRESET.selectors]
    assert tuple(found) == own
    seen = {"observation.state": np.zeros(4), "task": "Grasp the cover"}

    def driver(env: str, *, policy: PraxisPolicy, config: Any) -> Any:
        policy.reset()
        policy.act([seen], action_spec=praxis_eval.get_driver(env).contract.action)
        found = {"success_rate": 0.0, "n_episodes": 1.0}
        return praxis_eval.EvalResult(overall=found, per_task={f"{config.task}/0": found})

    how: dict[str, Any] = {"evaluate": driver, "episodes": 1}
    record = evaluate_benchmark(policy, "light-metaworld", out=tmp_path / "a", **how)
    assert len(record.parts) == 4
    others = load_policy(save_policy(tmp_path / "others", 32, 4, tasks=("lift it", "drop it")))
    with pytest.raises(ValueError, match="unknown task 'Grasp the cover'"):
        evaluate_benchmark(others, "light-metaworld", out=tmp_path / "b", **how)


def test_praxis_evals_words_for_robomimic_are_known() -> None:
    tasks = pytest.importorskip("praxis_eval.envs.robomimic.tasks")
    assert {words: SCENES[task].name for words, task in ROBOMIMIC_WORDS.items()} == {
        tasks.TASK_INSTRUCTIONS[name]: name for name in tasks.MT_TASKS["mt3"]
    }


def test_a_policy_of_several_robosuite_tasks_hears_each_as_in_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks of RoboMimic run in one part, so that each observation says which one it is of."""
    trained = tuple(ROBOSUITE.tasks[name] for name in ("lift", "square"))
    policy = load_policy(save_policy(tmp_path / "ours", 32, 7, tasks=trained))
    seen = [{"observation.state": np.zeros(4), "task": words} for words in ROBOMIMIC_WORDS]
    lift, can, square = seen
    heard: list[str] = []
    read = Policy.read

    def listen(self: Policy, observation: Any, **how: Any) -> Any:
        heard.append(observation["task"])
        return read(self, observation, **how)

    def driver(env: str, *, policy: PraxisPolicy, config: Any) -> Any:
        spec = praxis_eval.get_driver(env).contract.action
        policy.act([lift, square], action_spec=spec)
        with pytest.raises(ValueError, match="unknown task 'Pick up the can and place it in the"):
            policy.act([can], action_spec=spec)
        found = {"success_rate": 0.0, "n_episodes": 1.0}
        return praxis_eval.EvalResult(overall=found, per_task={f"{config.task}/0": found})

    monkeypatch.setattr(Policy, "read", listen)
    evaluate_benchmark(policy, "light-robomimic", out=tmp_path, evaluate=driver, episodes=1)
    assert heard == [*trained, can["task"]]


@pytest.mark.parametrize(
    ("benchmark", "changed", "message"),
    [
        ("metaworld", {}, "unknown benchmark 'metaworld'; known, closest first: light-metaworld"),
        ("light-real", {}, "light-real is a real robot: `oatkit serve` is the way there"),
        ("light-libero", {}, "the policy is for 4 action dimensions, light-libero has 7"),
        ("light-metaworld", {"execute": 33}, "execute is 33, expected 1 to 32, a whole chunk"),
        ("light-metaworld", {"execute": 0}, "execute is 0, expected a whole number from 1 on"),
        ("light-metaworld", {"delay": 17}, "delay is 17, expected at most 16"),
        ("light-metaworld", {"commit": True}, "commit is for chunks that act late, and delay is 0"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_runs(
    policy: Policy, tmp_path: Path, benchmark: str, changed: dict[str, Any], message: str
) -> None:
    driver = Driver()
    with pytest.raises(ValueError, match=message):
        evaluate_benchmark(policy, benchmark, out=tmp_path / "o", evaluate=driver, **changed)
    assert not driver.configs
    assert not (tmp_path / "o").exists()


def test_commit_is_for_tokens_whose_prefixes_decode(dataset: Dataset, tmp_path: Path) -> None:
    config = make_config("bin", horizon=32, action_dim=4)
    unable = policy_for_dataset(tiny.CONFIG, ActionTokenizer.for_dataset(config, dataset), dataset)
    with pytest.raises(ValueError, match="light takes no committed actions, which are for tokens"):
        evaluate_benchmark(unable, "light-metaworld", out=tmp_path, delay=2, commit=True)
    with pytest.raises(ValueError, match="light takes no committed actions, which are for tokens"):
        PraxisPolicy(unable, delay=2, commit=True)


def test_without_praxis_eval_its_extra_is_named(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "praxis_eval", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[praxis\]'"):
        evaluate_benchmark(policy, "light-metaworld", out=tmp_path)
