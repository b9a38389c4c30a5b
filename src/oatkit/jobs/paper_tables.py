"""The tables and figures of the paper: their rows, and what it takes to make them again.

    PAPER_TABLES["light-policies"].rows["oat"]

Data only; `paper_reproduction.py` runs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from oatkit.errors import unknown_name
from oatkit.jobs import paper_numbers as paper
from oatkit.jobs.policy_ablations import closed_loop_ablations
from oatkit.jobs.tokenizer_ablations import HORIZONS, NUM_TOKENS
from oatkit.tokenizers.fast import Decoding
from oatkit.types import Budget, PolicyAblation, Schedule

PAPER_FAMILIES = ("paligemma2", "qwen3-vl")
"""Backbones of the paper."""
PAPER_KINDS = ("bin", "fast", "quest", "acodec", "oat", "oat-pow2")
"""Tokenizers of the paper."""
UP_TO_8: tuple[Budget, ...] = (1, 2, 4, 8)
UP_TO_16: tuple[Budget, ...] = (*UP_TO_8, 16)
LIGHT_OAT = {"num_tokens": 8, "levels": (8, 5, 5, 5)}
LARGE_OAT = {"num_tokens": 16, "levels": (8, 8, 6, 5)}


@dataclass(frozen=True)
class PolicyRow:
    """A policy of a table, from its tokenizer to its evaluation.

    Attributes:
        kind: Kind of the tokenizer.
        budgets: Budgets to evaluate; all tokens if empty.
        options: Settings of the tokenizer that are not the preset's.
        policy: Name of the policy.
        family: Family of its backbone, where it has one.
        evaluate_by: Schedule that evaluation forces on it.
        execute: Number of steps of a chunk that are executed; half by default.
        decoding: What `fast` does with sequences that are no chunk; as the preset says by default.
    """

    kind: str
    budgets: tuple[Budget, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    policy: str = "light"
    family: str | None = None
    evaluate_by: tuple[int, ...] = ()
    execute: int | None = None
    decoding: Decoding | None = None

    @property
    def tokenizer_name(self) -> str:
        """Name of the folder of its tokenizer, which rows with the same one share."""
        changed = [f"{name}{_word(value)}" for name, value in self.options.items()]
        return "-".join([self.kind, *changed])

    @property
    def policy_name(self) -> str:
        """Name of the folder of its policy, which rows that differ in evaluation alone share."""
        return "-".join([self.policy, *([self.family] if self.family else []), self.tokenizer_name])


Work = Literal["policies", "tokenizers", "nothing"]


@dataclass(frozen=True)
class PaperTable:
    """A table or figure of the paper.

    Attributes:
        title: Title in the paper.
        shows: What it shows, in a sentence.
        work: What is run: policies in closed loop, a comparison of tokenizers, or nothing.
        benchmarks: Columns at the paper's scale, by the names of `BENCHMARK_PRESETS`.
        rows: Policies by name.
        numbers: Numbers of the paper.
        instead: Where it is found, where there is nothing to run.
        minutes: About how many minutes the small scale takes on two cores.
    """

    title: str
    shows: str
    work: Work
    benchmarks: tuple[str, ...] = ()
    rows: Mapping[str, PolicyRow] = field(default_factory=dict)
    numbers: paper.PaperNumbers = field(default_factory=dict)
    instead: str = ""
    minutes: int = 0

    @property
    def row_names(self) -> tuple[str, ...]:
        """Names of its rows: policies, or the kinds of tokenizers that are compared."""
        return tuple(self.rows) if self.work == "policies" else PAPER_KINDS

    @property
    def is_large(self) -> bool:
        """Whether its policies stand on vision-language backbones."""
        return any(row.family for row in self.rows.values())


def _word(value: Any) -> str:
    return "".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _large(policy: str, kind: str, family: str) -> PolicyRow:
    is_oat = kind in ("oat", "oat-pow2")
    budgets = UP_TO_16 if is_oat and policy == "vlm-ar" else ()
    return PolicyRow(kind, budgets, LARGE_OAT if is_oat else {}, policy, family)


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


PAPER_TABLES = {
    "prefix-reconstruction": PaperTable(
        "Prefix reconstruction on an iiwa arm",
        "A chunk decoded from its first 1, 2, 4 and 8 tokens, here of your data.",
        "tokenizers",
        paper.TOKENIZER_BENCHMARKS,
        minutes=30,
    ),
    "tokenizer-comparison": PaperTable(
        "Action tokenizer comparison",
        "Which kinds are compact, total, ordered and block-compatible.",
        "tokenizers",
        paper.TOKENIZER_BENCHMARKS,
        minutes=30,
    ),
    "method": PaperTable(
        "Pipeline, attention masks, block patterns and algorithms",
        "How the tokenizer and block-wise generation work, as drawings.",
        "nothing",
        instead="docs/concepts.md draws masks and schedules from the library's own functions",
    ),
    "setup": PaperTable(
        "Evaluation environments, benchmark setup, policy backbones and generation settings",
        "Tasks, horizons and episodes of every benchmark, and the calls of every scheme.",
        "nothing",
        instead="the table in docs/evaluation.md; `oatkit vlm combinations` lists the policies",
    ),
    "rate-distortion": PaperTable(
        "Rate-distortion curves for action tokenizers, and their table in the appendix",
        "Held-out error against tokens, of every kind.",
        "tokenizers",
        paper.TOKENIZER_BENCHMARKS,
        numbers=paper.read_numbers(paper.TOKENIZER_BENCHMARKS, paper.RATE_DISTORTION),
        minutes=30,
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
            "oat": PolicyRow("oat", UP_TO_8, LIGHT_OAT),
        },
        paper.read_numbers(paper.LIGHT_BENCHMARKS, paper.LIGHT),
        minutes=300,
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
        minutes=720,
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
        minutes=600,
    ),
    "ordering": PaperTable(
        "Token ordering ablation",
        "Success by budget, and of the same tokenizer without nested dropout.",
        "policies",
        paper.LIGHT_BENCHMARKS,
        {
            "oat": PolicyRow("oat", UP_TO_8, LIGHT_OAT),
            "oat, no nesting": PolicyRow("oat", options={**LIGHT_OAT, "nested_dropout": False}),
        },
        paper.read_numbers(paper.LIGHT_BENCHMARKS, paper.ORDERING),
        minutes=90,
    ),
    "horizons-half": PaperTable(
        "Action and token horizons (a)",
        "Success against actions and tokens of a chunk, half of which is executed.",
        "policies",
        paper.LIBERO_LONG,
        _ablation("horizons-half"),
        _heatmap(paper.HORIZONS_HALF),
        minutes=600,
    ),
    "horizons-fixed": PaperTable(
        "Action and token horizons (b)",
        "The same where 8 actions are executed; it shares the policies of (a).",
        "policies",
        paper.LIBERO_LONG,
        _ablation("horizons-fixed"),
        _heatmap(paper.HORIZONS_FIXED),
        minutes=600,
    ),
    "codebook": PaperTable(
        "Codebook capacity scaling",
        "Success against the FSQ levels.",
        "policies",
        paper.LIBERO_LONG,
        _ablation("levels"),
        paper.read_numbers(paper.LIBERO_LONG, paper.CODEBOOK),
        minutes=200,
    ),
    "grouped-generation": PaperTable(
        "Grouped generation on LIBERO",
        "Powers of two forced on tokens that are ordered one by one.",
        "policies",
        paper.LIBERO,
        {
            "oat, 16 tokens": PolicyRow("oat", (16,), LARGE_OAT, "vlm-ar", "paligemma2"),
            "oat, 16 tokens, powers of two at inference": PolicyRow(
                *("oat", (16,), LARGE_OAT, "vlm-ar", "paligemma2"),
                evaluate_by=Schedule.pow2(16).endpoints,
            ),
            "oat-pow2, 16 tokens": PolicyRow("oat-pow2", (16,), LARGE_OAT, "vlm-ar", "paligemma2"),
        },
        paper.read_numbers(paper.LIBERO, paper.GROUPED),
        minutes=150,
    ),
    "training-recipes": PaperTable(
        "Training recipes",
        "Optimizers, rates and batches of tokenizers and policies.",
        "nothing",
        instead="the presets `paper-light` and `paper-vlm`, which a test holds to the table",
    ),
}
"""Tables and figures by name, in the order of the paper."""


def paper_table(name: str) -> PaperTable:
    """The table of a name."""
    if name not in PAPER_TABLES:
        raise ValueError(unknown_name("table", name, PAPER_TABLES))
    return PAPER_TABLES[name]
