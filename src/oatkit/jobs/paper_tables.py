"""The tables and figures of the paper: their rows, and what it takes to make them again.

    PAPER_TABLES["light-policies"].rows["oat"]

Data only; `paper_reproduction.py` runs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from oatkit.errors import unknown_name
from oatkit.jobs import paper_numbers as paper
from oatkit.jobs.policy_ablations import closed_loop_ablations
from oatkit.jobs.policy_rows import PolicyRow
from oatkit.jobs.tokenizer_ablations import HORIZONS, NUM_TOKENS
from oatkit.types import Budget, Decoding, PolicyAblation, Schedule, budget_name

PAPER_FAMILIES = ("paligemma2", "qwen3-vl")
"""Backbones of the paper."""
PAPER_KINDS = ("bin", "fast", "quest", "acodec", "oat", "oat-pow2")
"""Tokenizers of the paper."""
UP_TO_8: tuple[Budget, ...] = (1, 2, 4, 8)
UP_TO_16: tuple[Budget, ...] = (*UP_TO_8, 16)
LIGHT_OAT: dict[str, Any] = {"num_tokens": 8, "levels": (8, 5, 5, 5)}
LARGE_OAT: dict[str, Any] = {"num_tokens": 16, "levels": (8, 8, 6, 5)}
POW2_16 = Schedule.pow2(16).endpoints
LONG_STEPS = 11_000
"""Training steps of the tokenizers that are called long."""


Work = Literal["policies", "tokenizers", "comparison", "nothing"]


@dataclass(frozen=True)
class PaperTable:
    """A table or figure of the paper.

    Attributes:
        title: Title in the paper.
        shows: What it shows, in a sentence.
        work: What is run: policies in closed loop, errors of tokenizers, a comparison of the kinds
            with its own report, or nothing.
        benchmarks: Columns at the paper's scale, by the names of `BENCHMARK_PRESETS`.
        rows: Rows of the paper by name.
        extras: Rows that the paper's table does not have; they run only if they are named.
        numbers: Numbers of the paper.
        instead: Where it is found, where there is nothing to measure.
        shown_by: Commands that show or check it then.
        minutes: About how many minutes all rows of the small scale take on two cores, an estimate:
            of light policies the quickest stored trainings of their kinds in `benchmarks/results/`
            and a few minutes of episodes for every row and budget.
        simulator: Where policies act at the smaller scales.
        labels: Tables, figures and algorithms that it is, by their labels in the paper's source.
        ranks: Mean ranks of its rows as printed, each a mapping of one column.
        ranked_columns: Columns that those are over.
    """

    title: str
    shows: str
    work: Work
    benchmarks: tuple[str, ...] = ()
    rows: Mapping[str, PolicyRow] = field(default_factory=dict)
    numbers: paper.PaperNumbers = field(default_factory=dict)
    extras: Mapping[str, PolicyRow] = field(default_factory=dict)
    instead: str = ""
    shown_by: tuple[str, ...] = ()
    minutes: int = 0
    simulator: str = "metaworld"
    labels: tuple[str, ...] = ()
    ranks: paper.PaperNumbers = field(default_factory=dict)
    ranked_columns: tuple[str, ...] = ()

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of the rows that run by default: kinds of tokenizers where those are compared."""
        return PAPER_KINDS if self.work == "comparison" else tuple(self.rows)

    @property
    def all_rows(self) -> Mapping[str, PolicyRow]:
        """All rows that can run, the paper's first."""
        return {**self.rows, **self.extras}

    @property
    def known_names(self) -> tuple[str, ...]:
        """Names of all rows that can run."""
        return self.row_names if self.work == "comparison" else tuple(self.all_rows)

    def has_number(self, row: str, budget: Budget) -> bool:
        """Whether a row at a budget is one of the paper's table, or of ours where it has none."""
        if not self.numbers:
            return row in self.rows and budget != "auto"
        return (row, budget_name(budget)) in self.numbers

    @property
    def is_large(self) -> bool:
        """Whether its policies stand on vision-language backbones."""
        return any(row.family for row in self.rows.values())


def _large_options(kind: str) -> dict[str, Any]:
    return LARGE_OAT if kind in ("oat", "oat-pow2") else {}


def _large(policy: str, kind: str, family: str) -> PolicyRow:
    """A vision-language policy; `fast` mends what is no chunk, as the paper has it."""
    options = _large_options(kind)
    budgets = UP_TO_16 if options and policy == "vlm-ar" else ()
    decoding: Decoding | None = "relaxed" if kind == "fast" else None
    return PolicyRow(kind, budgets, options, policy=policy, family=family, decoding=decoding)


def _ablation(name: PolicyAblation) -> dict[str, PolicyRow]:
    """The rows that `oatkit policy sweep` has too."""
    rows = {}
    for row in closed_loop_ablations(name):
        options = {"horizon": row.horizon, "num_tokens": row.num_tokens, "levels": row.levels}
        label = f"{row.horizon} actions, {row.num_tokens} tokens"
        if name == "levels":
            label = f"levels {' '.join(map(str, row.levels))}"
        rows[label] = PolicyRow("oat", options=options, execute=row.execute)
    return rows


def _heatmap(rates: tuple[tuple[float, ...], ...]) -> paper.PaperNumbers:
    return {
        (f"{horizon} actions, {tokens} tokens", "all"): {"light-libero": rates[i][j]}
        for i, tokens in enumerate(NUM_TOKENS)
        for j, horizon in enumerate(HORIZONS)
    }


LIGHT_16 = PolicyRow("oat", UP_TO_16, LARGE_OAT)
LIGHT_ROW = PolicyRow("oat", UP_TO_8, LIGHT_OAT)
GROUPED_ROW = replace(_large("vlm-ar", "oat", "paligemma2"), budgets=(16,))
LIGHT_EXTRAS = {
    "oat-pow2": PolicyRow("oat-pow2", (*UP_TO_8, "auto"), LIGHT_OAT),
    "fast, relaxed": PolicyRow("fast", decoding="relaxed"),
    "acodec": PolicyRow("acodec", options={"num_tokens": LIGHT_OAT["num_tokens"]}),
    "klt": PolicyRow("klt", UP_TO_8, LIGHT_OAT),
    "oat, no nesting": PolicyRow("oat", options={**LIGHT_OAT, "nested_dropout": False}),
    "oat, 16 tokens": LIGHT_16,
    "oat-pow2, 16 tokens": PolicyRow("oat-pow2", (*UP_TO_16, "auto"), LARGE_OAT),
    "oat, 16 tokens, long": replace(LIGHT_16, tokenizer_steps=LONG_STEPS),
    "oat, 16 tokens, policy by powers of two": replace(LIGHT_16, endpoints=POW2_16),
    "oat, 16 tokens, powers of two at inference": replace(LIGHT_16, evaluate_by=POW2_16),
}
"""Light policies beside the paper's: other kinds, nesting, longer training, powers of two."""

PAPER_TABLES = {
    "prefix-reconstruction": PaperTable(
        "Prefix reconstruction on an iiwa arm",
        "A chunk decoded from its first 1, 2, 4 and 8 tokens, here of your data.",
        "comparison",
        paper.TOKENIZER_BENCHMARKS,
        minutes=75,
        labels=("fig:oat_prefix_reconstruction",),
    ),
    "tokenizer-comparison": PaperTable(
        "Action tokenizer comparison",
        "Which kinds are compact, total, ordered and block-compatible.",
        "comparison",
        paper.TOKENIZER_BENCHMARKS,
        minutes=75,
        labels=("tab:tokenizer_comparison",),
    ),
    "method": PaperTable(
        "Pipeline, attention masks, block patterns and algorithms",
        "How the tokenizer and block-wise generation work, as drawings.",
        "nothing",
        instead="docs/concepts.md draws masks and schedules from the library's own functions; in a "
        "checkout the command draws them anew",
        shown_by=("python -m benchmarks.report",),
        labels=(
            *("fig:oat_method", "fig:oat_attention_masks", "fig:bar_patterns"),
            *("algo:oat_tokenizer_training", "algo:oat_policy_inference"),
        ),
    ),
    "setup": PaperTable(
        "Evaluation environments, benchmark setup, policy backbones and generation settings",
        "Tasks, horizons and episodes of every benchmark, and the calls of every scheme.",
        "nothing",
        instead="the table in docs/evaluation.md; the command lists the policies, and calls are "
        "counted wherever one acts",
        shown_by=("oatkit vlm combinations",),
        labels=(
            *("fig:evaluation_envs", "tab:benchmark_setup", "tab:policy_backbones"),
            "tab:method_setup",
        ),
    ),
    "rate-distortion": PaperTable(
        "Rate-distortion curves for action tokenizers, and their table in the appendix",
        "Held-out error against tokens, of every kind.",
        "tokenizers",
        paper.TOKENIZER_BENCHMARKS,
        {kind: PolicyRow(kind, options=_large_options(kind)) for kind in PAPER_KINDS},
        paper.read_numbers(paper.TOKENIZER_BENCHMARKS, paper.RATE_DISTORTION),
        extras={
            "klt": PolicyRow("klt"),
            "klt, scalar cells": PolicyRow("klt", options={"cells": "scalar"}),
            "oat, 4 + 12 refined": PolicyRow("oat", options={"num_tokens": 4, "refine": 12}),
            "oat, no nesting": PolicyRow("oat", options={**LARGE_OAT, "nested_dropout": False}),
            "oat, long": PolicyRow("oat", options=LARGE_OAT, tokenizer_steps=LONG_STEPS),
        },
        minutes=75,
        labels=("fig:rate_distortion_curves", "appendix:tab:num_tokens"),
    ),
    "light-policies": PaperTable(
        "Lightweight policy simulation and real-world results",
        "The same small policy on each tokenizer's tokens; the real robot is not run.",
        "policies",
        paper.LIGHT_BENCHMARKS,
        {
            "bin": PolicyRow("bin"),
            "fast": PolicyRow("fast", decoding="strict"),
            "quest": PolicyRow("quest", options={"levels": (8, 8, 6, 5)}),
            "oat": LIGHT_ROW,
        },
        paper.read_numbers(paper.LIGHT_BENCHMARKS, paper.LIGHT),
        extras=LIGHT_EXTRAS,
        minutes=160,
        labels=("tab:oat_controlled_sim_real",),
        ranks=paper.read_numbers(("rank",), paper.LIGHT_RANKS),
        ranked_columns=paper.RANKED_LIGHT,
    ),
    "vlm-policies": PaperTable(
        "Closed-loop autoregressive VLM policy success rates, and their table in the appendix",
        "PaliGemma 2 and Qwen3-VL that generate tokens.",
        "policies",
        paper.VLM_BENCHMARKS,
        {
            f"{family}, {kind}": _large("vlm-ar", kind, family)
            for family in PAPER_FAMILIES
            for kind in PAPER_KINDS
        },
        paper.read_numbers(paper.VLM_BENCHMARKS, paper.VLM_AR),
        minutes=760,
        labels=("fig:vlm_bar_success_grid", "appendix:tab:simulation_benchmarking"),
        ranks=paper.read_numbers(("rank",), paper.VLM_AR_RANKS),
        ranked_columns=paper.VLM_BENCHMARKS,
    ),
    "co-training": PaperTable(
        "Closed-loop token co-training VLM policy success rates",
        "Tokens supervise the backbone, a flow expert acts.",
        "policies",
        paper.VLM_BENCHMARKS,
        {
            f"{family}, {kind}": _large("vlm-tc", kind, family)
            for family in PAPER_FAMILIES
            for kind in ("oat", "bin", "fast", "quest", "acodec")
        },
        paper.read_numbers(paper.VLM_BENCHMARKS, paper.CO_TRAINING),
        minutes=640,
        labels=("fig:vlm_tc_success_grid",),
    ),
    "ordering": PaperTable(
        "Token ordering ablation",
        "Success by budget, and of the same tokenizer without nested dropout.",
        "policies",
        paper.LIGHT_BENCHMARKS,
        {
            "oat": LIGHT_ROW,
            "oat, no nesting": LIGHT_EXTRAS["oat, no nesting"],
        },
        paper.read_numbers(paper.LIGHT_BENCHMARKS, paper.ORDERING),
        minutes=45,
        labels=("fig:oat_ordering_ablation_plot",),
    ),
    "horizons-half": PaperTable(
        "Action and token horizons (a)",
        "Success against actions and tokens of a chunk, half of which is executed.",
        "policies",
        paper.LIBERO_LONG,
        _ablation("horizons-half"),
        _heatmap(paper.HORIZONS_HALF),
        minutes=280,
        labels=("fig:oat_ha_hl_ablation",),
    ),
    "horizons-fixed": PaperTable(
        "Action and token horizons (b)",
        "The same where 8 actions are executed; it shares the policies of (a).",
        "policies",
        paper.LIBERO_LONG,
        _ablation("horizons-fixed"),
        _heatmap(paper.HORIZONS_FIXED),
        minutes=280,
        labels=("fig:oat_ha_hl_ablation",),
    ),
    "codebook": PaperTable(
        "Codebook capacity scaling",
        "Success against the FSQ levels.",
        "policies",
        paper.LIBERO_LONG,
        _ablation("levels"),
        paper.read_numbers(paper.LIBERO_LONG, paper.CODEBOOK),
        minutes=90,
        labels=("tab:oat_codebook_ablation",),
    ),
    "grouped-generation": PaperTable(
        "Grouped generation on LIBERO",
        "Powers of two forced on tokens that are ordered one by one.",
        "policies",
        paper.LIBERO,
        {
            "oat, 16 tokens": GROUPED_ROW,
            "oat, 16 tokens, powers of two at inference": replace(GROUPED_ROW, evaluate_by=POW2_16),
            "oat-pow2, 16 tokens": replace(GROUPED_ROW, kind="oat-pow2"),
        },
        paper.read_numbers(paper.LIBERO, paper.GROUPED),
        minutes=170,
        labels=("tab:oat_posthoc_bar",),
    ),
    "co-training-graph": PaperTable(
        "TC computation graph",
        "What tokens and the flow loss train, and what acts, as a drawing.",
        "nothing",
        instead="docs/vlm.md says it in words, on the flow expert; the commands check on a backbone"
        " that the flow loss gives it no gradient",
        shown_by=(
            "oatkit vlm scratch --family paligemma2 --out out/scratch",
            "oatkit vlm check out/scratch --image-size 48 --batch-size 2 --expert-width 64",
        ),
        labels=("appendix:fig:tc_training_interface",),
    ),
    "training-recipes": PaperTable(
        "Training recipes",
        "Optimizers, rates and batches of tokenizers and policies.",
        "nothing",
        instead="the presets `paper-light` and `paper-vlm`; in a checkout the command holds them to"
        " the table",
        shown_by=("python -m pytest tests/test_presets.py",),
        labels=("appendix:tab:training_recipes",),
    ),
}
"""Tables and figures by name, in the order of the paper."""

OWN_TABLES = {
    "pusht": PaperTable(
        "PushT from human demonstrations",
        "The same small policy from state and from keypoints; the paper has no such table.",
        "policies",
        rows={
            "oat": LIGHT_ROW,
            "oat-pow2": LIGHT_EXTRAS["oat-pow2"],
            "quest": PolicyRow("quest", options={"levels": (8, 8, 6, 5)}),
            "bin": PolicyRow("bin"),
            "fast": PolicyRow("fast", decoding="strict"),
        },
        extras={"oat, offset": replace(LIGHT_ROW, offset_layers=3)},
        minutes=180,
        simulator="pusht",
    ),
}
"""Tables that the paper does not have."""
TABLES = {**PAPER_TABLES, **OWN_TABLES}


def paper_table(name: str) -> PaperTable:
    """The table of a name."""
    if name not in TABLES:
        raise ValueError(unknown_name("table", name, TABLES))
    return TABLES[name]
