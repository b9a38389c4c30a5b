"""The page `docs/reproduction.md`: the paper's tables and figures, how to make them, our results.

It is written by `benchmarks.report`, which reads the numbers from `benchmarks/results/`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.record import RESULTS, read_results

INTRODUCTION = """\
# Reproduction

This page lists each table and figure of the paper "Ordered Action Tokens for Visuomotor Policy
Learning": the command that makes it, what we measured here, at what scale, and what needs a GPU. It
is written by `python -m benchmarks.report` from `benchmarks/results/`; all numbers with their
intervals are in [Results](results.md).

**The scale here** is two CPU cores: the four MetaWorld tasks of the paper with 50 demonstrations
each, preset `small`. **The paper's scale** is its recipes on its demonstrations of LIBERO,
RoboMimic, RoboCasa and SimplerEnv. Simulators other
than MetaWorld and PushT run by way of praxis-eval ([Evaluation](evaluation.md)), whose settings for
every row of the paper's benchmark table are in `oatkit.presets.BENCHMARK_PRESETS`. `DATA` stands
for your copy of those demonstrations.

| in the paper | here | at the paper's scale |
|---|---|---|
"""
NOT_YET = "Not measured here yet."


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper.

    Attributes:
        name: Name in the paper.
        shows: What it shows, in a sentence.
        commands: Commands that make it.
        here: State of the reproduction, in a word or two.
        scale: What it takes at the paper's scale.
        measured: Function that gives the result here, in a sentence.
    """

    name: str
    shows: str
    commands: tuple[str, ...]
    here: str
    scale: str
    measured: Callable[[], str]


def reproduction_page() -> str:
    """The page as Markdown."""
    rows = [
        f"| [{item.name}](#{anchor(item.name)}) | {_status(item)} | {item.scale} |\n"
        for item in ITEMS
    ]
    return "".join([INTRODUCTION, *rows, *map(_section, ITEMS)])


def _status(item: Item) -> str:
    return "not yet" if item.measured() == NOT_YET else item.here


def anchor(name: str) -> str:
    """The anchor that Markdown gives a heading."""
    kept = "".join(c for c in name.lower() if c.isalnum() or c in " -")
    return "-".join(kept.split())


def _section(item: Item) -> str:
    parts = [f"\n## {item.name}\n\n{item.shows}\n"]
    if item.commands:
        lines = "\n".join(item.commands)
        parts.append(f"\n```bash\n{lines}\n```\n")
    parts.append(f"\n**Here:** {item.measured()}\n\n**At the paper's scale:** {item.scale}.\n")
    return "".join(parts)


# What was measured


def _rate_distortion() -> str:
    rows = read_results("tokenizer_rate_distortion").get("metaworld", {})
    kinds = ("oat", "oat-pow2", "oat, long", "klt", "quest", "acodec", "fast, fitted", "bin")
    shown = [f"`{name}` {_errors(rows[name]['budgets'])}" for name in kinds if name in rows]
    if not shown:
        return NOT_YET
    return (
        "held-out error x 1000 on MetaWorld at 1 / 2 / 4 / 8 / 16 tokens, or at all tokens of a "
        f"kind that decodes only with all of them: {'; '.join(shown)}. PushT and a real arm are in "
        "[Results](results.md)."
    )


def _errors(budgets: list[dict[str, Any]]) -> str:
    errors = " / ".join(f"{1e3 * b['mse_normalized']:.3g}" for b in budgets)
    return errors if len(budgets) > 1 else f"{errors} at {budgets[0]['tokens']:.3g}"


def _light_table() -> str:
    rows = read_results("policy_table").get("state", {})
    shown = [f"`{name}` {_success(row['budgets'])}" for name, row in rows.items()]
    if not shown:
        return NOT_YET
    return (
        "success in percent from MetaWorld's state, 50 episodes a task, by budget: "
        f"{'; '.join(shown)}."
    )


def _success(budgets: list[dict[str, Any]]) -> str:
    fixed = [b for b in budgets if b["budget"] != "auto"]
    rates = " / ".join(f"{100 * b['mean_success']:.0f}" for b in fixed)
    return f"{rates} at {' / '.join(str(b['budget']) for b in fixed)} tokens"


def _of_rows(*names: str) -> Callable[[], str]:
    """A function that gives the success of these rows of the light table, as far as measured."""

    def measured() -> str:
        rows = read_results("policy_table").get("state", {})
        shown = [f"`{name}` {_success(rows[name]['budgets'])}" for name in names if name in rows]
        left = [f"`{name}`" for name in names if name not in rows]
        said = f"success in percent on MetaWorld: {'; '.join(shown)}." if shown else NOT_YET
        return said + (f" Still to be measured: {', '.join(left)}." if shown and left else "")

    return measured


def _latency() -> str:
    found = read_results("policy_latency").get("schedules", {})
    if not found:
        return NOT_YET
    shown = [
        f"{name}: {row['calls']} calls, {row['generate_ms']:.1f} ms" for name, row in found.items()
    ]
    return f"from encoded observation to the last id on two cores: {'; '.join(shown)}."


def _recorded(said: dict[str, str]) -> Callable[[], str]:
    """A function that gives the sentences of the results that were measured, by their names."""

    def measured() -> str:
        found = [text for name, text in said.items() if (RESULTS / f"{name}.json").exists()]
        return " ".join(found) or NOT_YET

    return measured


VLM = {"vlm_pipeline": "the whole pipeline on small backbones: [Results](results.md)."}
SWEEPS = {
    "policy_sweep": "success in closed loop: [Results](results.md).",
    "tokenizer_sweep": "errors of the tokenizers: [Results](results.md).",
}


COMPARE = "oatkit tokenizer compare --data out/metaworld --out out/compared"
TABLE = "python -m benchmarks.policy_table"
SWEEP = "oatkit policy sweep --data out/metaworld --state-key observation.environment_state"
GPU = "a GPU for training"
BIG_GPU = "GPUs; `oatkit vlm check` says how much memory a step takes"
ITEMS = (
    Item(
        "Prefix reconstruction",
        "A chunk decoded from its first 1, 2, 4 and 8 tokens.",
        (
            COMPARE,
            "python -m benchmarks.tokenizer_rate_distortion --only 'metaworld/oat, long'",
            "python -m benchmarks.prefix_picture",
        ),
        "measured",
        "no GPU; the paper shows an iiwa arm",
        lambda: (
            "the picture in [Concepts](concepts.md#prefix-and-budget), and for every ordered kind "
            'in `report.html`, "A chunk token by token".'
        ),
    ),
    Item(
        "Action tokenizer comparison",
        "Which kinds are compact, total, ordered and block-compatible.",
        (COMPARE,),
        "measured",
        "no GPU",
        lambda: (
            'the table "Properties" of `report.html`: each mark with what decided it, which is a '
            "measurement of compactness, decodability and prefixes, and the schedule for blocks."
        ),
    ),
    Item(
        "Tokenizer pipeline, masks and block patterns",
        "How the tokenizer works, as drawings, and the algorithms of training and generation.",
        (),
        "drawn from the code",
        "nothing to measure",
        lambda: (
            "[Concepts](concepts.md) draws masks and schedules from the library's own functions; "
            "the algorithms are in `tokenizers/oat.py`, `policies/generation/packing.py` and "
            "`policies/generation/token_generation.py`."
        ),
    ),
    Item(
        "Benchmark setup and generation settings",
        "Tasks, horizons, episodes and calls of every scheme.",
        ("oatkit vlm combinations",),
        "as data",
        "nothing to measure",
        lambda: (
            "the table in [Evaluation](evaluation.md#libero-robomimic-robocasa-simplerenv); "
            "schedules are in [Concepts](concepts.md#schedule)."
        ),
    ),
    Item(
        "Rate-distortion curves",
        "Held-out error against tokens, of every kind; in the appendix as a table.",
        ("python -m benchmarks.tokenizer_rate_distortion", COMPARE),
        "measured on MetaWorld, PushT and a real arm",
        GPU,
        _rate_distortion,
    ),
    Item(
        "Lightweight policy results",
        "The same small policy on each tokenizer's tokens, in closed loop.",
        (TABLE, "python -m benchmarks.policy_table --images"),
        "measured on MetaWorld",
        GPU,
        _light_table,
    ),
    Item(
        "Autoregressive vision-language policies",
        "PaliGemma 2 and Qwen3-VL that generate tokens; in the appendix as a table.",
        (
            "oatkit policy train --data DATA --tokenizer out/oat-pow2 --policy vlm-ar "
            "--backbone google/paligemma2-3b-pt-224 --cameras image --preset paper --out out/vlm",
            "oatkit policy eval out/vlm --env metaworld --budgets 1 2 4 8 16 --out out/vlm-eval",
            "python -m benchmarks.vlm_pipeline",
        ),
        "pipeline on random weights",
        BIG_GPU,
        _recorded(VLM),
    ),
    Item(
        "Token co-training",
        "Tokens as supervision, a flow expert that acts.",
        (
            "oatkit policy train --data DATA --tokenizer out/oat-pow2 --policy vlm-tc "
            "--backbone google/paligemma2-3b-pt-224 --cameras image --preset paper --out out/tc",
            "oatkit policy eval out/tc --env metaworld --out out/tc-eval",
        ),
        "pipeline on random weights",
        BIG_GPU,
        _recorded(VLM),
    ),
    Item(
        "Token ordering ablation",
        "Success by budget, and of the same tokenizer without nested dropout.",
        (
            "python -m benchmarks.policy_table --only oat 'oat, no nesting'",
            "oatkit tokenizer sweep --data out/metaworld --only nesting --out out/nesting.json",
        ),
        "budgets alone",
        GPU,
        _of_rows("oat", "oat, no nesting"),
    ),
    Item(
        "Action and token horizons",
        "Success against the number of actions and of tokens, under two rules of execution.",
        (
            f"{SWEEP} --only horizons-half --out out/half.json",
            f"{SWEEP} --only horizons-fixed --out out/fixed.json",
        ),
        "only errors of the tokenizers",
        GPU,
        _recorded(SWEEPS),
    ),
    Item(
        "Codebook capacity",
        "Success against the FSQ levels.",
        (f"{SWEEP} --only levels --out out/levels.json",),
        "only errors of the tokenizers",
        GPU,
        _recorded(SWEEPS),
    ),
    Item(
        "Post-hoc grouped generation",
        "Powers of two forced on tokens that are ordered one by one.",
        (
            "python -m benchmarks.vlm_pipeline --only vlm-ar",
            "oatkit policy eval out/policy --endpoints 1 2 4 8 16 --out out/posthoc",
        ),
        "measured on random weights",
        BIG_GPU,
        _recorded(VLM),
    ),
    Item(
        "Calls and latency",
        "What a schedule saves.",
        ("python -m benchmarks.policy_latency",),
        "measured",
        "no GPU",
        _latency,
    ),
    Item(
        "Training recipes",
        "Optimizers, rates and batches of tokenizers and policies.",
        ("oatkit tokenizer train --data out/metaworld --preset paper --out out/paper-oat",),
        "as presets",
        GPU,
        lambda: "the `paper` presets in `oatkit.presets`, held to the paper's table by a test.",
    ),
)
