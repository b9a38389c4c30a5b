"""The page `docs/reproduction.md`: the paper's claims, what was found here, and the commands.

It is written by `benchmarks.report`: claims are decided by `benchmarks.claims` from the JSON files
in `benchmarks/results/`, tables and commands come from `oatkit.jobs.paper_tables`.
"""

from __future__ import annotations

from typing import Any

from benchmarks.claims import CLAIMS
from benchmarks.markdown import paragraph, table
from benchmarks.record import read_results
from oatkit.commands.reproduce import needs
from oatkit.jobs.paper_tables import PAPER_TABLES, PaperTable

INTRODUCTION = """\
# Reproduction

This page sets each claim of the paper "Ordered Action Tokens for Visuomotor Policy Learning" beside
what was measured here. It is written by `python -m benchmarks.report` from the JSON files in
`benchmarks/results/`; the ends of 95 % intervals decide the last column. All numbers are in
[Results](results.md).

**The scale here** is two CPU cores. Light policies act in MetaWorld: the paper's four tasks, 50
demonstrations each by scripted experts, from state, preset `small`. Vision-language policies have
small backbones with random weights and lock or unlock a door. So the numbers themselves are not the
paper's; what is compared is which of two is better. Errors of tokenizers on MetaWorld are not
comparable either: our actions are clipped to [-1, 1]. The real-robot half of the paper is absent.

- **agrees:** the 95 % interval of our difference lies on the paper's side of zero; where the paper
  finds no difference, it lies within 5 points of zero. Errors of tokenizers and numbers of calls
  have no intervals, their values decide.
- **does not:** it lies on the other side, or further away.
- **too few episodes to tell:** neither.
- **cannot be run here:** for the reason that is given.
- **not measured:** the command of its table does it, but no result is stored.

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
universal tokenizer, which the paper uses, is named by `--published`.

```bash
oatkit reproduce
oatkit reproduce light-policies --out out/reproduction
oatkit reproduce light-policies --only oat quest --images
oatkit reproduce light-policies --scale paper --data light-libero=path/to/libero_10
```
"""


def reproduction_page() -> str:
    """The page as Markdown."""
    rows = []
    for claim in CLAIMS:
        found = claim.find()
        name = f"[{claim.table}](#{claim.table})"
        rows.append((name, claim.says, claim.paper, found.ours, found.status))
    claims = table(("table", "the paper says", "the paper", "here", "status"), rows)
    sections = "".join(_section(name, one) for name, one in PAPER_TABLES.items())
    return f"{INTRODUCTION}\n{claims}\n{_light_rows()}{RUNNING}{sections}"


def _light_rows() -> str:
    """How each row of the light table was trained and evaluated."""
    rows = read_results("policy_table").get("state", {})
    if not rows:
        return ""
    words = paragraph(
        "How the rows of the light table were made here. The paper states neither its numbers of "
        "steps nor its sampling temperature; the paired comparisons above are with `oat` at 8 "
        "tokens and temperature 0."
    )
    cells = [_light_row(name, row) for name, row in rows.items()]
    names = ("row", "steps", "tokenizer's steps", "temperature", "episodes a task")
    return f"\n{words}\n\n{table(names, cells)}\n"


def _light_row(name: str, row: dict[str, Any]) -> tuple[str, ...]:
    temperature = row["protocol"]["sampling"]["temperature"]
    steps = (str(row["steps"]), str(row["tokenizer_steps"]))
    return f"`{name}`", *steps, f"{temperature:g}", str(row["settings"]["episodes"])


def _section(name: str, one: PaperTable) -> str:
    parts = [f"\n### {name}\n\n{one.title}. {one.shows}\n"]
    if one.work == "nothing":
        return "".join([*parts, f"\nNothing to run: {one.instead}.\n"])
    small, large = needs(one)
    parts.append(f"\n```bash\noatkit reproduce {name}\n```\n")
    parts.append(f"\n- **small:** {small}.\n- **paper:** {large.replace(' --', ' `--', 1)}`.\n")
    return "".join(parts)
