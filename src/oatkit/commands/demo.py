"""`oatkit demo`: from demonstrations to a policy in the simulator, and a report of it all."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from oatkit.commands.choices import DemoSimulatorName
from oatkit.commands.command_line import command_line
from oatkit.commands.data_make_metaworld import MakeMetaWorld
from oatkit.commands.data_make_robosuite import MakeRobosuite
from oatkit.commands.dataset_options import DatasetOptions
from oatkit.commands.device_options import DeviceFlag, announce_device
from oatkit.commands.policy_eval import EvalPolicy, render_evaluation
from oatkit.commands.policy_train import TrainPolicy
from oatkit.commands.text_output import print_lines
from oatkit.commands.tokenizer_compare import CompareTokenizers, render_comparison
from oatkit.commands.train_options import TrainOptions
from oatkit.evaluation.worker_processes import num_cores
from oatkit.jobs.demo_plan import LEVELS, POLICY_KIND, DemoPlan, plan_for
from oatkit.jobs.demo_run import DemoRun
from oatkit.jobs.metaworld_demonstrations import Demonstrations
from oatkit.jobs.policy_evaluation import RECORD
from oatkit.jobs.robosuite_demonstrations import RobosuiteDemonstrations
from oatkit.measure.reports.demo_report import STAGES, findings
from oatkit.types.observation_keys import ENVIRONMENT_STATE


@dataclass(frozen=True)
class Demo:
    """Demonstrations, tokenizers, a policy, its success in the simulator, and a report of it all.

    Example:
        oatkit demo --minutes 10
        oatkit demo --env robosuite --out out/demo-robosuite
    """

    out: Path = Path("out/demo")
    """Folder for everything the demo writes; the same command again goes on where it stopped."""
    minutes: float = 10.0
    """How long it takes on two idle cores, 6 or more; longer means more of everything."""
    env: DemoSimulatorName = "metaworld"
    """Simulator of the tasks; robosuite takes longer, because a step of it does."""
    device: DeviceFlag = "auto"


def run(options: Demo, console: Console) -> int:
    plan = plan_for(options.minutes, options.env)
    demo = DemoRun(
        options.out,
        options.minutes,
        plan,
        device=announce_device(console, options.device),
        describe=lambda stage: describe(stage, options, plan),
        show_progress=not console.quiet,
    )
    print_lines(
        console,
        f"about {options.minutes:g} minutes on two idle cores; the same command again goes on "
        "where it stopped",
        *busy_note(os.getloadavg()[0], num_cores()),
    )
    _announce("demonstrations", console)
    demo.make_demonstrations()
    _announce("tokenizers", console)
    comparison = demo.compare_tokenizers()
    console.print(render_comparison(comparison), soft_wrap=True)
    _announce("policy", console)
    demo.train_policy()
    _announce("half chunks", console)
    half_chunks = demo.evaluate_half_chunks()
    _announce("simulator", console)
    evaluation = demo.evaluate_policy(half_chunks)
    console.print(render_evaluation(evaluation), soft_wrap=True)
    page = demo.write_report(comparison, evaluation)
    minutes = sum(stage.seconds for stage in demo.record.stages) / 60
    console.rule("in short")
    for finding in (*findings(comparison, evaluation), f"{minutes:.1f} minutes in all"):
        print_lines(console, f"- {finding}")
    print_lines(console, "", f"open {page} in a browser")
    return 0


def busy_note(load: float, num_cores: int) -> list[str]:
    """What to expect of a machine that others use too; nothing where it is idle.

    Args:
        load: Number of processes that ran or waited lately.
        num_cores: Number of cores.
    """
    if load < 0.5 * num_cores:
        return []
    return [
        f"this machine is busy (load {load:.1f} on {num_cores} cores), so it takes longer: the "
        "steps of the trainings are the same"
    ]


def _announce(stage: str, console: Console) -> None:
    console.rule(f"part {list(STAGES).index(stage) + 1} of {len(STAGES)}: {stage}")


def describe(stage: str, options: Demo, plan: DemoPlan) -> str:
    """The command that does a stage of the demo by hand."""
    out, data = options.out, str(options.out / plan.simulator)
    if stage == "demonstrations" and plan.simulator == "robosuite":
        demonstrations = RobosuiteDemonstrations(plan.tasks, plan.demonstrations)
        return command_line("data make robosuite", MakeRobosuite(Path(data), demonstrations))
    if stage == "demonstrations":
        wanted = Demonstrations(plan.tasks, plan.demonstrations)
        return command_line("data make metaworld", MakeMetaWorld(Path(data), wanted))
    if stage == "tokenizers":
        comparison = CompareTokenizers(
            data=data,
            out=out / "compared",
            kinds=plan.kinds,
            preset=plan.preset,
            steps=plan.tokenizer_steps,
            horizon=plan.horizon,
            num_tokens=plan.num_tokens,
            levels=LEVELS,
            device=options.device,
        )
        return command_line("tokenizer compare", comparison)
    if stage == "policy":
        training = TrainPolicy(
            data=data,
            out=out / "policy",
            tokenizer=out / "compared" / POLICY_KIND,
            preset=plan.preset,
            device=options.device,
            training=TrainOptions(steps=plan.policy_steps),
            columns=DatasetOptions(state_key=(ENVIRONMENT_STATE,)),
        )
        return command_line("policy train", training)
    evaluation = EvalPolicy(
        policy=out / "policy",
        env=plan.simulator,
        out=out / "eval-half",
        episodes=plan.episodes,
        device=options.device,
    )
    if stage == "simulator":
        evaluation = replace(
            evaluation,
            out=out / "eval",
            budgets=plan.budgets,
            execute=plan.execute,
            videos=plan.videos,
            against=(out / "eval-half" / RECORD,),
        )
    return command_line("policy eval", evaluation, positional="policy")
