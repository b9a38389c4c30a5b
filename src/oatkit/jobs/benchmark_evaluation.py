"""A policy on a benchmark of the paper, by way of praxis-eval's drivers.

    evaluate_benchmark("out/policy", "light-libero", out="out/libero")

`oatkit policy eval --benchmark` calls this.

out/benchmark.json       the record; grows as parts of the benchmark end
out/libero_10/           what praxis-eval writes about a part
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from oatkit.envs import metaworld, robosuite
from oatkit.errors import MissingExtraError, OatkitError
from oatkit.evaluation.action_plan import cannot_commit, not_calibrated
from oatkit.evaluation.benchmark_presets import BenchmarkPreset, benchmark_preset
from oatkit.evaluation.praxis import PraxisPolicy, QueryCounts
from oatkit.evaluation.success_statistics import success_rate
from oatkit.jobs.paper_rows import is_paper_row
from oatkit.nn.device import Device
from oatkit.policies import Policy
from oatkit.policies.generation.committed_actions import takes_committed
from oatkit.policies.policy_table import open_policy
from oatkit.storage.package_versions import package_versions
from oatkit.storage.records import read_or_begin, write_record
from oatkit.types import (
    BenchmarkEvaluation,
    BenchmarkPart,
    Budget,
    Decoding,
    Dtype,
    ExecuteSteps,
    Execution,
    Head,
    Sampling,
    Schedule,
    SuccessRate,
    TaskResult,
)
from oatkit.types.observation_keys import STATE

RECORD = "benchmark.json"
ROBOMIMIC_WORDS = {
    "Lift the cube.": "lift",
    "Pick up the can and place it in the target bin.": "can",
    "Fit the square nut onto its matching peg.": "square",
}
"""What praxis-eval says in a task of RoboMimic to our name of that task."""
RULES = ("blend", "delay", "draws", "commit")
"""How chunks follow one another, beside the number of steps that are executed."""


class EvaluateByPraxis(Protocol):
    """What praxis-eval's `evaluate` takes and returns."""

    def __call__(self, env: str, *, policy: Any, config: Any) -> Any:
        """Run a driver; the result has `overall` and `per_task`."""


def evaluate_benchmark(
    policy: Policy | str | os.PathLike[str],
    benchmark: str,
    *,
    out: str | os.PathLike[str],
    budget: Budget = None,
    sampling: Sampling = Sampling(seed=0),
    schedule: Schedule | None = None,
    execute: ExecuteSteps = None,
    blend: float | None = None,
    delay: int = 0,
    draws: int = 1,
    commit: bool = False,
    episodes: int | None = None,
    state_keys: Sequence[str] = (STATE,),
    num_parallel: int = 1,
    env_kwargs: Mapping[str, Any] | None = None,
    head: Head | None = None,
    decoding: Decoding | None = None,
    device: Device = "auto",
    dtype: Dtype | None = None,
    command: str = "",
    evaluate: EvaluateByPraxis | None = None,
) -> BenchmarkEvaluation:
    """Evaluate a policy on a benchmark as the paper does; the same call again goes on in `out`.

    Args:
        policy: A policy, or the folder or hub id of one.
        benchmark: Name of a preset of `oatkit.evaluation.benchmark_presets`.
        out: Folder of the record and of what praxis-eval writes.
        budget: Number of tokens to generate, "auto", or None for all.
        sampling: Rules by which ids are chosen; its seed, or 0, is that of the simulator too.
        schedule: Generation schedule; the policy's own by default.
        execute, blend, delay, draws, commit: How chunks become actions: see `Execution`; the
            preset's steps by default.
        episodes: Number of episodes of each task; the preset's by default.
        state_keys: Parts of the observation that are joined to the policy's state.
        num_parallel: Number of simulators at a time.
        env_kwargs: Arguments for praxis-eval's simulator, such as its image size.
        head: What acts of a co-trained policy: its flow expert by default, or its tokens.
        decoding: What `fast` does with sequences that are no chunk; as trained by default.
        device: Where a policy that is opened here runs, or a given one if named; `resolve_device`.
        dtype: Type of the weights of a policy that is opened here; as trained by default.
        command: What the record says was typed.
        evaluate: What runs a driver; praxis-eval's own by default.
    """
    opened = open_policy(policy, device, dtype).choose_decoder(head, decoding)
    execution = _checked(opened, benchmark, Execution(execute, blend, delay, draws, commit))
    settings = {
        "episodes": episodes or benchmark_preset(benchmark).episodes,
        "budget": budget,
        "sampling": asdict(replace(sampling, seed=sampling.seed or 0)),
        "state_keys": list(state_keys),
        "env_kwargs": dict(env_kwargs or {}),
        "digest": opened.digest,
        **_chosen(execution, schedule, head),
    }
    name = opened.kind if opened is policy else str(policy)
    begun = BenchmarkEvaluation(name, benchmark, settings, package_versions(), command=command)
    return _run(opened, schedule, begun, Path(out) / RECORD, num_parallel, evaluate)


def _chosen(execution: Execution, schedule: Schedule | None, head: Head | None) -> dict[str, Any]:
    """Settings of execution and generation; what is the paper's or the policy's own is left out, so
    that older records go on."""
    rules = {name: getattr(execution, name) for name in RULES}
    plain = Execution(execution.steps)
    return {
        "execute": execution.steps,
        **{name: value for name, value in rules.items() if value != getattr(plain, name)},
        **({"endpoints": list(schedule.endpoints)} if schedule else {}),
        **({"head": head} if head else {}),
    }


def own_instruction(
    policy: Policy, driver: str | None, selector: str
) -> str | dict[str, str] | None:
    """Our words for a task of MetaWorld, or praxis-eval's words for each task of RoboMimic to ours,
    where the policy was trained on those.

    praxis-eval says MetaWorld's in LeRobot's words and RoboMimic's in its own, which a policy with
    several tasks refuses if its demonstrations come from `oatkit data make`.
    """
    if driver == "robomimic":
        own = {words: robosuite.TASKS[task] for words, task in ROBOMIMIC_WORDS.items()}
        return {words: ours for words, ours in own.items() if ours in policy.spec.tasks}
    ours = metaworld.TASKS.get(selector.removesuffix("-v3"))
    return ours if ours in policy.spec.tasks else None


def _run(
    policy: Policy,
    schedule: Schedule | None,
    begun: BenchmarkEvaluation,
    path: Path,
    num_parallel: int,
    evaluate: EvaluateByPraxis | None,
) -> BenchmarkEvaluation:
    """Run the parts that the record at `path` lacks."""
    preset, settings = benchmark_preset(begun.benchmark), begun.settings
    is_row = is_paper_row(policy, begun.benchmark, settings["budget"], schedule)
    rules = {name: settings[name] for name in RULES if name in settings}
    is_row = is_row and settings["execute"] == preset.execute and not rules
    record = replace(read_or_begin(path, begun), is_paper_row=is_row)
    for selector in preset.selectors[len(record.parts) :]:
        # a new one for each part, so that random numbers do not depend on what ran before
        acting = PraxisPolicy(
            policy,
            execute=settings["execute"],
            **rules,
            budget=settings["budget"],
            schedule=schedule,
            sampling=Sampling(**settings["sampling"]),
            state_keys=settings["state_keys"],
            instruction=own_instruction(policy, preset.driver, selector),
        )
        config = {"output_dir": path.parent / selector, "num_parallel_env": num_parallel}
        part = _run_part(preset, selector, acting, settings, config, evaluate)
        record = _with_part(record, part)
        write_record(path, record)
    return record


def _checked(policy: Policy, name: str, execution: Execution) -> Execution:
    """How chunks become actions, by the preset's steps where none are given; a policy that does not
    fit the benchmark or the rules is a `ValueError`."""
    tokenizer, preset = policy.tokenizer, benchmark_preset(name)
    if preset.driver is None:
        raise ValueError(f"{name} is a real robot: `oatkit serve` is the way there")
    if tokenizer.action_dim != preset.action_dim:
        raise ValueError(
            f"the policy is for {tokenizer.action_dim} action dimensions, {name} has "
            f"{preset.action_dim}"
        )
    if execution.steps == "auto" and policy.execution is None:
        raise ValueError(not_calibrated())
    if execution.commit and not takes_committed(policy):
        raise ValueError(cannot_commit(policy.kind))
    steps = preset.execute if execution.steps is None else execution.steps
    return replace(execution, steps=steps).within(tokenizer.horizon)


def _run_part(
    preset: BenchmarkPreset,
    selector: str,
    policy: PraxisPolicy,
    settings: Mapping[str, Any],
    config: Mapping[str, Any],
    evaluate: EvaluateByPraxis | None,
) -> BenchmarkPart:
    try:
        import praxis_eval
    except ImportError as error:
        raise MissingExtraError("praxis") from error
    wanted = praxis_eval.EvalConfig(
        task=selector,
        num_eval_per_task=settings["episodes"],
        seed=settings["sampling"]["seed"],
        env_kwargs=settings["env_kwargs"],
        **config,
    )
    try:
        result = (evaluate or praxis_eval.evaluate)(
            str(preset.driver), policy=policy, config=wanted
        )
    except ImportError as error:
        raise OatkitError(
            f"{preset.benchmark} needs a simulator of praxis-eval that is not installed "
            f"({error}): pip install 'praxis-eval[{preset.driver}]'"
        ) from error
    return _part(selector, result, settings["episodes"], policy.counts)


def _part(selector: str, result: Any, episodes: int, counts: QueryCounts) -> BenchmarkPart:
    """What praxis-eval found, with at most as many solved as had a chunk for every query."""
    words = {task: _task_words(found) for task, found in result.per_task.items()}
    known = set().union(*words.values()) if len(words) > 1 else set()
    nameless = sum(n for said, n in counts.failed.items() if said not in known)
    tasks = []
    for task, found in result.per_task.items():
        failed = nameless + sum(counts.failed[said] for said in words[task] & known)
        tasks.append(TaskResult(task, _success(found, episodes, failed), score=None))
    total = counts.failed.total()
    return BenchmarkPart(
        selector,
        tuple(tasks),
        _success(result.overall, episodes, total),
        counts.queries,
        counts.redrawn,
        total,
        counts.error,
    )


def _task_words(found: Mapping[str, Any]) -> set[str]:
    """What a task of praxis-eval's result was called in its observations."""
    return {str(found.get("task_description", "")), *found.get("task_descriptions", ())} - {""}


def _success(found: Mapping[str, Any], episodes: int, failed: int) -> SuccessRate:
    """The rate that praxis-eval found, with its interval.

    It tells neither which episodes it counts as solved nor when one was over, so that all that can
    be held is that no more are solved than had a chunk for every query.
    """
    count = int(found.get("n_episodes", episodes))
    solved = round(found["success_rate"] * count)
    return success_rate(max(0, min(solved, count - failed)), count)


def _with_part(record: BenchmarkEvaluation, part: BenchmarkPart) -> BenchmarkEvaluation:
    parts = (*record.parts, part)
    rates = [task.success.rate for one in parts for task in one.tasks]
    return replace(record, parts=parts, mean_success=fmean(rates))
