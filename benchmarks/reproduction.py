"""The page `docs/reproduction.md`: the paper's claims, what was found here, and the commands.

It is written by `benchmarks.report`: claims are decided by `benchmarks.claims` from the JSON files
in `benchmarks/results/`, tables and commands come from `oatkit.jobs.paper_tables`.
"""

from __future__ import annotations

from benchmarks.claim_findings import SAME
from benchmarks.claims import CLAIMS
from benchmarks.made_rows import (
    large_rows,
    light_rows,
    other_recipe,
    repeated_goals,
    same_recipe,
    tokenizer_steps,
)
from benchmarks.markdown import paragraph, table
from benchmarks.policy_sweep import TABLES as SWEPT
from benchmarks.recipes_of_today import recipes_of_today
from benchmarks.record import read_results
from benchmarks.row_commands import LightScript, quoted, trained_hours
from benchmarks.stored_tables import stored_tables
from benchmarks.tokenizer_findings import COMPACT, TRACKS
from oatkit.commands.reproduce import needs
from oatkit.jobs.paper_tables import OWN_TABLES, PAPER_TABLES, PaperTable
from oatkit.jobs.reproduction_scales import SCALES

INTRODUCTION = """\
# Reproduction

This page sets each claim of the paper "Ordered Action Tokens for Visuomotor Policy Learning" beside
what was measured here. It is written by `python -m benchmarks.report` from the JSON files in
`benchmarks/results/`, which each row with numbers names; the ends of 95 % intervals decide
the last column. [Results](results.md) shows more of what these files hold.

**The scale here** is two CPU cores. Light policies act in MetaWorld: the paper's four tasks, from
{observed}; the recipe of each row stands under the claims. Vision-language policies have small
backbones with random weights and lock or unlock a door. So the numbers themselves are not the
paper's; what is compared is which of two is better. RoboMimic's lift, can and square are played in
robosuite. Demonstrations of all these are by scripted experts, in robosuite of our own. Scripts
that train light policies make {demonstrations} of each task by default, which no JSON file stores.
Errors of tokenizers on MetaWorld are not comparable either: our actions are clipped to [-1, 1]. The
real-robot half of the paper is absent.

- **agrees:** the 95 % interval of our difference lies on the paper's side of zero; where the paper
  finds no difference, it lies within {same} points of zero; where it finds a rate closer to one
  than to another, our rate lies on that side of their middle, and those two can be told apart. A
  trend agrees if no pair of rows that was measured lies on the other side and one at least lies on
  the paper's; the pairs are named. Errors of tokenizers and numbers of tokens and calls have no
  intervals, their values decide, on every dataset on which all that is compared was measured: an
  error tracks another if it is within a factor of {tracks} at every budget, and is nearly lossless
  if it is the smallest of all kinds with the training steps that each has; a kind is compact if it
  has at most {compact} % as many tokens as `bin`.
- **does not:** it lies on the other side, or further away.
- **too few episodes to tell:** neither.
- **cannot be run here:** for the reason that is given.
- **not measured:** no result is stored, or only of a part of the claim, or what is compared differs
  in more than its tokens: in steps of policies or tokenizers, batches, frames, smoothing, offset
  heads, temperature or the mix of tasks. Brackets say which. It could be measured here: each such
  row has the command that does it, and about how long that takes by the quickest stored training of
  its kind, in whatever simulator, or by estimate.

Intervals count episodes. They do not hold how much one training differs from the next: a row with
one seed is one training. Episodes that both rows had are compared pair by pair where the rows say
which they solved, or did when they were stored; others are unpaired, as if they were independent.
{repeated_goals}
## Claims
"""
RUNNING = """
## Commands

`oatkit reproduce` lists every table and figure with what it needs. `oatkit reproduce TABLE` makes
one again at the small scale: demonstrations, tokenizers, policies, evaluation, and a page with the
paper's numbers beside ours, and averages and mean ranks where there are several benchmarks. Numbers
of benchmarks that the small scale does not run have their benchmark's name; data, tasks and sizes
are not the same. Pages of comparisons link the report with prefixes and properties.
`--scale paper` takes the paper's recipes and your copy of the demonstrations, and runs its
simulators by way of [praxis-eval](evaluation.md); `--scale tiny` shows in minutes that everything
runs. `--env robosuite` makes RoboMimic's lift, can and square a column of the table at these two
scales, in the [environment of robosuite](evaluation.md#robosuite). The same command again goes on,
row by row, and tables share what was trained; with more `--episodes` rows go on from those that
they have; other `--steps`, `--data`, `--backbone` or `--published` take another `--out`. FAST's
universal tokenizer, which the paper uses, is named by `--published`.
`--seeds` and `--temperatures` take several values; tokenizers are trained once for all of them.

Scripts of `benchmarks/` keep the numbers of this page. `policy_table`, `policy_sweep`,
`policy_pusht`, `policy_robosuite` and `tokenizer_rate_distortion` share the code that runs the rows
of `oatkit reproduce`; `control` compares ways to execute chunks on the same demonstrations,
`vlm_pipeline` and `vlm_expert` train vision-language policies, and `prefix_picture`, `decodability`
and `policy_latency` measure one thing each. Each row is added to its JSON file with its own
settings.
"""
EXAMPLES = """
```bash
oatkit reproduce
oatkit reproduce light-policies --out out/reproduction
oatkit reproduce light-policies --only oat quest --images
oatkit reproduce light-policies --env robosuite
oatkit reproduce light-policies --only oat oat-pow2 --temperatures 0 1 --seeds 0 1 2
oatkit reproduce light-policies --scale paper --data light-libero=path/to/libero_10
```
"""


def reproduction_page() -> str:
    """The page as Markdown."""
    limits = {"same": round(100 * SAME), "tracks": TRACKS, "compact": round(100 * COMPACT)}
    limits["demonstrations"] = SCALES["small"].demonstrations
    introduction = INTRODUCTION.format(
        **limits, observed=_observed(), repeated_goals=repeated_goals()
    )
    rows = []
    for claim in CLAIMS:
        found = claim.found()
        name = f"[{claim.table}](#{claim.table})"
        source = ", ".join(f"`{name}`" for name in found.source.split(", ") if name)
        rows.append((name, claim.says, claim.paper, found.ours, source, found.status))
    claims = table(("table", "the paper says", "the paper", "here", "JSON", "status"), rows)
    sections = "".join(_section(name, one) for name, one in PAPER_TABLES.items())
    own = "".join(_section(name, one) for name, one in OWN_TABLES.items())
    made = f"{light_rows()}{same_recipe()}{tokenizer_steps()}{large_rows()}{stored_tables()}"
    run = f"{RUNNING}{recipes_of_today()}{EXAMPLES}{_deciding()}{sections}"
    return f"{introduction}\n{claims}\n{made}{run}\n## Not in the paper\n{own}"


def _observed() -> str:
    """What light policies read, of which rows are stored."""
    if read_results("policy_table").get("images"):
        return "state, on which the claims stand, and some rows from images too"
    return "state"


def deciding_rows(*tables: str) -> list[str]:
    """The rows of tables that decide a claim, where one need not run them all."""
    rows = (row for claim in CLAIMS if claim.table in tables for row in claim.rows)
    return list(dict.fromkeys(rows))


def _deciding() -> str:
    """The commands that run what decides the claims of the ablations, and nothing else."""
    cells = {name: deciding_rows(name) for name in SWEPT}
    policies = {PAPER_TABLES[name].rows[row].policy_name for name in SWEPT for row in cells[name]}
    words = paragraph(
        f"Claims about horizons and codebooks need {sum(map(len, cells.values()))} of "
        f"{sum(len(PAPER_TABLES[name].rows) for name in SWEPT)} cells, which share {len(policies)} "
        "policies. These commands run them one by one for this page, for as many steps as the "
        "stored ones have, and skip what is finished:"
    )
    scripts = {name: LightScript.named("policy_sweep", name) for name in SWEPT}
    commands = "\n".join(
        command for name, rows in cells.items() for command in scripts[name].commands(rows)
    )
    return f"\n{words}\n\n```bash\n{commands}\n```\n"


def _section(name: str, one: PaperTable) -> str:
    parts = [f"\n### {name}\n\n{one.title}. {one.shows}\n"]
    if one.work == "nothing":
        commands = "\n".join(one.shown_by)
        return f"{parts[0]}\nNothing to measure: {one.instead}.\n\n```bash\n{commands}\n```\n"
    parts.append(f"\n```bash\noatkit reproduce {name}\n```\n")
    if rows := deciding_rows(name):
        only = f"oatkit reproduce {name} --only {quoted(rows)}"
        words = "Only the rows that decide the claims, by the recipe of today:"
        parts.append(f"\n{words}\n\n```bash\n{only}\n```\n")
    parts.append(other_recipe(one))
    if one.extras:
        listed = ", ".join(f'`"{row}"`' if " " in row else f"`{row}`" for row in one.extras)
        parts.append(f"\nMore rows, by `--only`: {listed}.\n")
    parts.append("\n")
    for scale, what in needs(one).items():
        code = f"{what.replace(' --', ' `--', 1)}`" if " --" in what else what
        parts.append(f"- **{scale}:** {code}.\n")
    return "".join([*parts, trained_hours(one)])
