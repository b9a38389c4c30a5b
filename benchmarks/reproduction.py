"""The page `docs/reproduction.md`: the paper's claims, what was found here, and the commands.

It is written by `benchmarks.report`: claims are decided by `benchmarks.claims` from the JSON files
in `benchmarks/results/`, tables and commands come from `oatkit.jobs.paper_tables`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.claim_findings import SAME
from benchmarks.claims import CLAIMS
from benchmarks.large_findings import TAUGHT
from benchmarks.light_findings import control_rows, control_temperature
from benchmarks.markdown import paragraph, said, table
from benchmarks.record import read_results
from benchmarks.tokenizer_findings import COMPACT, TRACKS
from oatkit.commands.reproduce import needs
from oatkit.jobs.paper_tables import OWN_TABLES, PAPER_TABLES, PaperTable

INTRODUCTION = """\
# Reproduction

This page sets each claim of the paper "Ordered Action Tokens for Visuomotor Policy Learning" beside
what was measured here. It is written by `python -m benchmarks.report` from the JSON files in
`benchmarks/results/`, one of which each row names; the ends of 95 % intervals decide the last
column. All numbers are in [Results](results.md).

**The scale here** is two CPU cores. Light policies act in MetaWorld: the paper's four tasks, 50
demonstrations each by scripted experts, from state, preset `small`. Vision-language policies have
small backbones with random weights and lock or unlock a door. So the numbers themselves are not the
paper's; what is compared is which of two is better. RoboMimic's lift, can and square are played in
robosuite, from 50 demonstrations each by scripted experts of our own. Errors of tokenizers on
MetaWorld are not comparable either: our actions are clipped to [-1, 1]. The real-robot half of the
paper is absent.

- **agrees:** the 95 % interval of our difference lies on the paper's side of zero; where the paper
  finds no difference, it lies within {same} points of zero. Errors of tokenizers and numbers of
  tokens and calls have no intervals, their values decide, on every dataset that was measured: an
  error tracks another if it is within a factor of {tracks} at every budget, and is nearly lossless
  if it is the smallest of all kinds; a kind is compact if it has at most {compact} % as many tokens
  as `bin`.
- **does not:** it lies on the other side, or further away.
- **too few episodes to tell:** neither.
- **cannot be run here:** for the reason that is given.
- **not measured:** a command does it, but no result is stored, or the two policies or their
  tokenizers were trained for different numbers of steps.

Intervals count episodes. They do not hold how much one training differs from the next: a row with
one seed is one training.

## Claims
"""
RUNNING = """
## Commands

`oatkit reproduce` lists every table and figure with what it needs. `oatkit reproduce TABLE` makes
one again at the small scale: demonstrations, tokenizers, policies, evaluation, and a page with the
paper's numbers beside ours, and averages and mean ranks where there are several benchmarks.
`--scale paper` takes the paper's recipes and your copy of the demonstrations, and runs its
simulators by way of [praxis-eval](evaluation.md); `--scale tiny` shows in minutes that everything
runs. The same command again goes on, row by row, and tables share what was trained. FAST's
universal tokenizer, which the paper uses, is named by `--published`. `--seeds` and `--temperatures`
take several values; tokenizers are trained once for all of them.

Scripts of `benchmarks/` keep the numbers of this page. `policy_table`, `policy_sweep`,
`policy_pusht` and `tokenizer_rate_distortion` run the rows of `oatkit reproduce` by the same code;
`control` compares ways to execute chunks on the same demonstrations, and `vlm_pipeline` and
`vlm_expert` train vision-language policies. Each row is added to its JSON file with its own
settings.

```bash
oatkit reproduce
oatkit reproduce light-policies --out out/reproduction
oatkit reproduce light-policies --only oat quest --images
oatkit reproduce light-policies --only oat oat-pow2 --temperatures 0 1 --seeds 0 1 2
oatkit reproduce light-policies --scale paper --data light-libero=path/to/libero_10
```
"""


def reproduction_page() -> str:
    """The page as Markdown."""
    limits = {"same": round(100 * SAME), "tracks": TRACKS, "compact": round(100 * COMPACT)}
    introduction = INTRODUCTION.format(**limits)
    rows = []
    for claim in CLAIMS:
        found = claim.find()
        name = f"[{claim.table}](#{claim.table})"
        source = f"`{found.source}`" if found.source else ""
        rows.append((name, claim.says, claim.paper, found.ours, source, found.status))
    claims = table(("table", "the paper says", "the paper", "here", "JSON", "status"), rows)
    sections = "".join(_section(name, one) for name, one in PAPER_TABLES.items())
    own = "".join(_section(name, one) for name, one in OWN_TABLES.items())
    made = f"{_light_rows()}{_large_rows()}"
    return f"{introduction}\n{claims}\n{made}{RUNNING}{sections}\n## Not in the paper\n{own}"


def _light_rows() -> str:
    """How each row of the light tables was trained and evaluated."""
    tables = {
        "policy_table": read_results("policy_table").get("state", {}),
        "policy_table, from images": read_results("policy_table").get("images", {}),
        **{f"policy_sweep, {name}": rows for name, rows in read_results("policy_sweep").items()},
        "policy_pusht": read_results("policy_pusht"),
        "policy_robosuite": read_results("policy_robosuite"),
    }
    cells = [_control_row(name, rows) for name, rows in control_rows().items()]
    cells += [
        (name, *_light_row(label, row))
        for name, rows in tables.items()
        for label, row in rows.items()
    ]
    if not cells:
        return ""
    words = paragraph(
        "How the rows of light policies were made here. The paper states neither its numbers of "
        "steps nor its sampling temperature. Rows of `control` come first, where both that are "
        "compared are there: the episodes of all their seeds count. Those of `policy_table` are "
        "compared with `oat` at 8 tokens, pair by pair on the same episodes. The paper's `quest` "
        "has the levels 8 8 6 5. Levels are empty where a kind has none, or none were stored."
    )
    names = ("JSON", "row", "FSQ levels", "tokens", "steps", "tokenizer's steps", "temperature")
    return f"\n{words}\n\n{table((*names, 'episodes a task'), cells)}\n"


def _control_row(name: str, cells: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """How a row of `benchmarks.control` was made, with all of its seeds."""
    cell = cells[0]
    tokens = max(b["budget"] for b in cell["budgets"] if b["budget"] != "auto")
    steps = (str(tokens), str(cell["steps"]), str(cell["tokenizer_steps"] or 0))
    seeds = ", ".join(str(cell["seed"]) for cell in cells)
    made = (*steps, f"{control_temperature(cell):g}", str(cell["episodes"]))
    return "control", f"`{name}`, seeds {seeds}", "", *made


def _light_row(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    temperature = row["protocol"]["sampling"]["temperature"]
    sizes = (str(row["tokens"]), str(row["steps"]), str(row["tokenizer_steps"]))
    levels = (row["settings"]["tokenizer"] or {}).get("levels", ())
    cells = (" ".join(map(str, levels)), *sizes, f"{temperature:g}")
    return f"`{name}`", *cells, str(row["settings"]["episodes"])


def _large_rows() -> str:
    """How the vision-language policies that are compared were trained and evaluated."""
    sentences = []
    pipeline = read_results("vlm_pipeline").get("policies", {})
    if rows := [row for name, row in pipeline.items() if name.startswith("vlm-ar/")]:
        sentences.append(
            f"Vision-language policies that generate tokens have chunks of {said(rows, 'horizon')} "
            f"actions and {said(rows, 'tokens')} tokens, {said(rows, 'steps')} steps of batch "
            f"{said(rows, 'batch_size')}, seed {said(rows, 'seed')}, temperature "
            f"{rows[0]['settings']['temperature']:g} and {said(rows, 'episodes')} episodes a task."
        )
    experts = read_results("vlm_expert").get("rows", {}).values()
    if taught := [row for row in experts if row["recipe"] == TAUGHT]:
        first = taught[0]
        together, alone = (round(stage["share"] * first["steps"]) for stage in first["stages"])
        sentences.append(
            f"In co-training tokens and expert learn together for {together} steps of batch "
            f"{first['batch_size']}, then the expert alone for {alone}; it acts from zero noise, "
            f"{first['episodes']} episodes a task and seed."
        )
    return f"\n{paragraph(*sentences)}\n" if sentences else ""


def _section(name: str, one: PaperTable) -> str:
    parts = [f"\n### {name}\n\n{one.title}. {one.shows}\n"]
    if one.work == "nothing":
        return "".join([*parts, f"\nNothing to run: {one.instead}.\n"])
    parts.append(f"\n```bash\noatkit reproduce {name}\n```\n")
    if one.extras:
        listed = ", ".join(f'`"{row}"`' if " " in row else f"`{row}`" for row in one.extras)
        parts.append(f"\nMore rows, by `--only`: {listed}.\n")
    parts.append("\n")
    for scale, what in needs(one).items():
        code = f"{what.replace(' --', ' `--', 1)}`" if " --" in what else what
        parts.append(f"- **{scale}:** {code}.\n")
    return "".join(parts)
