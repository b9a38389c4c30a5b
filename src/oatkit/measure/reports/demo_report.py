"""`report.html` of `oatkit demo`: the records of its parts as one story."""

from __future__ import annotations

import shlex
from html import escape
from pathlib import Path

from oatkit.measure.reports import evaluation_findings, prefix_chart
from oatkit.measure.reports.comparison_findings import share_left, trained, worse_than_analytic
from oatkit.measure.reports.evaluation_report import EVALUATION_CHARTS, videos
from oatkit.measure.reports.evaluation_tables import evaluation_tables
from oatkit.measure.reports.html_page import (
    bullets,
    commands,
    figures,
    how_made,
    lab,
    page,
    table,
    warning,
)
from oatkit.measure.reports.rate_distortion_chart import plot_rate_distortion
from oatkit.measure.reports.report_words import execution_words
from oatkit.types import DemoRecord, KindComparison, PolicyEvaluation, TokenizerComparison

STAGES = {
    "demonstrations": "scripted experts solve the tasks in the simulator",
    "tokenizers": "oat-pow2 is trained, others are fitted, all are measured on held-out episodes",
    "policy": "the light policy learns to predict the tokens from the state",
    "half chunks": "the policy acts as in the paper: half of each chunk, with all tokens",
    "simulator": "the policy acts at every budget and looks more often, on the same new goals",
}
"""What each part of the demo does."""
LEARNED = "oat quest"
"""Learned kinds that the demo leaves for later."""


def write_demo_report(
    demo: DemoRecord, comparison: TokenizerComparison, evaluation: PolicyEvaluation, folder: Path
) -> Path:
    """Write `report.html` into the demo's folder, whose `eval` has the videos."""
    path = folder / "report.html"
    path.write_text(demo_page(demo, comparison, evaluation, folder))
    return path


def demo_page(
    demo: DemoRecord, comparison: TokenizerComparison, evaluation: PolicyEvaluation, folder: Path
) -> str:
    """The page; the comparison and the evaluation are below `folder`."""
    seconds = sum(stage.seconds for stage in demo.stages)
    lead = (
        "Ordered action tokens, from demonstrations to a robot that acts on them: made on this "
        f"machine ({escape(demo.machine)}) in {seconds / 60:.1f} minutes."
    )
    own = _policy_kind(comparison, evaluation)
    by_budget = {title: figures(plot(evaluation)) for title, plot in EVALUATION_CHARTS.items()}
    return page(
        "oatkit demo",
        lead,
        summary=_summary(demo, comparison, evaluation),
        figures={
            **by_budget,
            "The robot at work": videos(evaluation, folder / "eval"),
            "Error against tokens and bits": figures(plot_rate_distortion(comparison)),
            "A chunk token by token": figures([prefix_chart.plot_kind(comparison, own)]),
            "Prefix lab": lab(folder / "compared"),
        },
        tables={**evaluation_tables(evaluation), "Tokenizers": _tokenizer_table(comparison)},
        made=_made(demo, evaluation),
        after={"What to try next": _next(demo, folder)},
    )


def _policy_kind(comparison: TokenizerComparison, evaluation: PolicyEvaluation) -> KindComparison:
    """The kind of tokenizer that the policy uses."""
    return next(k for k in comparison.kinds if k.measurement.kind == evaluation.kind)


def _summary(
    demo: DemoRecord, comparison: TokenizerComparison, evaluation: PolicyEvaluation
) -> str:
    tasks = ", ".join(demo.settings["tasks"])
    kinds = ", ".join(k.measurement.kind for k in comparison.kinds)
    first = comparison.kinds[0].measurement
    done = (
        f"{demo.num_episodes} demonstrations ({demo.num_frames:,} steps) of {tasks} were made in "
        f"{_simulator(demo)} by scripted experts. On chunks of {first.horizon} actions "
        f"these tokenizers were made and compared: {kinds}. A small policy learned to predict the "
        f"tokens of {evaluation.kind} from the simulator's state, for "
        f"{demo.settings['policy_steps']:,} steps, and then acted on {demo.settings['episodes']} "
        "new goals a task, with all of its tokens and with only the first of them. It looks again "
        f"after {demo.settings['execute']} steps of a chunk; half a chunk, the paper's protocol, "
        "is shown beside that with all tokens."
    )
    warned = [
        *evaluation_findings.cautions(evaluation),
        *worse_than_analytic(comparison),
        "Mostly easy tasks, a state that holds the goal, and minutes of training: this shows how "
        "things work, not how good they get.",
    ]
    return f"{bullets(findings(comparison, evaluation))}<p>{escape(done)}</p>{warning(warned)}"


def findings(comparison: TokenizerComparison, evaluation: PolicyEvaluation) -> list[str]:
    """What came out, one sentence each."""
    return [
        *evaluation_findings.sentences(evaluation),
        *_tokenizer_sentences(comparison, evaluation),
    ]


def _tokenizer_sentences(
    comparison: TokenizerComparison, evaluation: PolicyEvaluation
) -> list[str]:
    """What the policy's own tokens keep, and which kind keeps most with as many tokens."""
    rows = trained(_policy_kind(comparison, evaluation))
    left = ", ".join(f"{share_left(comparison, b.mse)} % with {b.budget}" for b in rows)
    said = [
        f"Of the variance of the actions, the tokens of {evaluation.kind} leave unexplained: "
        f"{left}. Every prefix is a chunk that can be executed."
    ]
    points = [(k.measurement.kind, b) for k in comparison.kinds for b in trained(k)]
    fair = [(name, b) for name, b in points if b.tokens <= rows[-1].tokens]
    name, best = min(fair, key=lambda point: point[1].mse)
    said.append(
        f"Least of all with at most {rows[-1].tokens:.0f} tokens: {name}, "
        f"{share_left(comparison, best.mse)} % with {best.tokens:.3g}. Little error is "
        "not all: a policy must also be able to predict the tokens."
    )
    return said


def _tokenizer_table(comparison: TokenizerComparison) -> str:
    rows = [_tokenizer_row(comparison, kind) for kind in comparison.kinds]
    headings = ("kind", "tokens", "bits", "MSE", "left of the variance", "made in")
    note = "With all tokens, on held-out episodes."
    return (
        table(note, headings, rows)
        + '<p class="soft">All results, with reconstructions of every kind, properties, cautions '
        'and diagnostics: <a href="compared/report.html">compared/report.html</a>.</p>'
    )


def _tokenizer_row(comparison: TokenizerComparison, kind: KindComparison) -> list[str]:
    b = trained(kind)[-1]
    how = "trained" if kind.losses else "fitted"
    return [
        kind.measurement.kind,
        f"{b.tokens:.3g}",
        f"{b.bits:.0f}",
        f"{b.mse:.2e}",
        f"{share_left(comparison, b.mse)} %",
        f"{how}, {kind.seconds:.0f} s",
    ]


def _made(demo: DemoRecord, evaluation: PolicyEvaluation) -> str:
    stages = [[stage.name, f"{stage.seconds:.0f} s", STAGES[stage.name]] for stage in demo.stages]
    rule = execution_words(evaluation)
    facts = {
        "seeds": "0 everywhere; goals of episodes never occur in demonstrations",
        "executed": rule,
        "machine": demo.machine,
    }
    return (
        table("", ("part", "time", "what"), stages, is_words=True)
        + "<p>The commands that do the same:</p>"
        + how_made([s.command for s in demo.stages], demo.settings, facts, demo.versions)
    )


def _next(demo: DemoRecord, folder: Path) -> str:
    out = shlex.quote(str(folder))
    simulator, execute = _simulator(demo), demo.settings["execute"]
    data, policy = f"{out}/{simulator}", f"{out}/policy"
    return (
        "<p>More of the same, and better: twice the time, into another folder.</p>"
        + commands([_longer(demo, out)])
        + "<p>Your own data (LeRobot, HDF5, zarr, npz, or a hub id): look, check, compare.</p>"
        + commands(
            [
                "oatkit data check PATH",
                "oatkit tokenizer compare --data PATH --out out/compared",
            ]
        )
        + "<p>Other learned kinds beside these, each trained for as many steps.</p>"
        + commands([_compare_learned(demo)])
        + "<p>The policy without a simulator, and on the paper's 50 episodes a task.</p>"
        + commands(
            [
                f"oatkit policy measure {policy} --data {data} "
                "--state-key observation.environment_state",
                f"oatkit policy eval {policy} --env {simulator} --episodes 50 "
                f"--budgets 1 2 4 8 auto --execute {execute} --out {out}/eval",
            ]
        )
        + "<p>Then a policy on another tokenizer, compared pair by pair on the same goals.</p>"
        + commands(
            [
                f"oatkit policy train --data {data} --tokenizer {out}/compared/quest --state-key "
                f"observation.environment_state --steps {demo.settings['policy_steps']} "
                f"--out {out}/policy-quest",
                f"oatkit policy eval {out}/policy-quest --env {simulator} "
                f"--episodes {demo.settings['episodes']} --execute {execute} "
                f"--against {out}/eval/evaluation.json --out {out}/eval-quest",
            ]
        )
    )


def _longer(demo: DemoRecord, out: str) -> str:
    """The command that spends twice the minutes."""
    env = "" if _simulator(demo) == "metaworld" else f"--env {_simulator(demo)} "
    return f"oatkit demo {env}--minutes {2 * demo.settings['minutes']:g} --out {out}-longer"


def _simulator(demo: DemoRecord) -> str:
    """Name of the demo's simulator; there was one alone when the first records were written."""
    return str(demo.settings.get("simulator", "metaworld"))


def _compare_learned(demo: DemoRecord) -> str:
    """The command that adds other learned kinds to the comparison."""
    (command,) = (stage.command for stage in demo.stages if stage.name == "tokenizers")
    return command.replace(" ".join(demo.settings["kinds"]), LEARNED)
