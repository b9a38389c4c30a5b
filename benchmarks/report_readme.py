"""The numbers of the README, from `benchmarks/results/`: no number is typed."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.closed_loop import pooled
from benchmarks.control_findings import cells_of, with_all_tokens
from benchmarks.record import read_result, read_results
from benchmarks.report_control import trained_minutes
from oatkit.types import Budget

README = Path(__file__).parent.parent / "README.md"
BEGIN = "<!-- numbers: written by python -m benchmarks.report -->\n"
END = "<!-- end of numbers -->"
LIGHT = {
    "oat": "light, on 8 ordered tokens of `oat`",
    "oat-pow2": "light, on 8 tokens of `oat-pow2`, in 4 calls",
    "quest": "light, on 16 unordered tokens of `quest`",
    "klt": "light, on 8 ordered tokens of `klt`",
    "acodec": "light, on 8 unordered tokens of `acodec`, in one call",
    "fast, relaxed, 2500 steps": "light, on tokens of `fast`, relaxed, a quarter of the steps",
    "bin, 1000 steps": "light, on 128 tokens of `bin`, a tenth of the steps",
    "light-flow": "light, with a flow head, a quarter of the steps",
}
"""Rows of `benchmarks.control` to what the README calls them."""
LEROBOT = {"act": "ACT", "diffusion": "Diffusion Policy"}
"""The same for kinds of `benchmarks.neighbors`."""


def render() -> str:
    """The README with its numbers as they were measured."""
    text = README.read_text()
    before, rest = text.split(BEGIN)
    return before + BEGIN + numbers() + END + rest.split(END)[1]


def numbers() -> str:
    """A line each about the tokens, the policy, human demonstrations and the server, and a table of
    all policies."""
    lines = "".join(f"- {line}\n" for line in (_tokens(), _policy(), _pusht(), _serving()))
    return f"{lines}\n{_policies()}\n"


def _tokens() -> str:
    budgets = read_results("tokenizer_rate_distortion")["metaworld"]["klt"]["budgets"]
    first = next(b for b in budgets if b["budget"] == 1)
    share = first["mse_normalized"] / first["gaussian_mse_normalized"]
    return (
        f"**One token of {first['bits']:.0f} bits** stands for 32 MetaWorld actions and leaves "
        f"{100 * share:.0f} % of the error that an ideal linear code of a Gaussian source leaves "
        "at the same bits (`klt`, held-out episodes, fitted without training)."
    )


def _policy() -> str:
    cells = read_results("control")["cells"]
    by_budget = " / ".join(f"{_success(cells, 'oat', '8', budget):g}" for budget in (1, 2, 4, 8))
    own = [cell for cell in cells.values() if cell["row"] == "oat"]
    minutes = fmean((cell["seconds"] + cell["tokenizer_seconds"]) / 60 for cell in own)
    return (
        f"**{_success(cells, 'oat', 'auto', 8):g} % success** on the paper's four MetaWorld tasks "
        f"from 50 demonstrations each, after {minutes:.0f} minutes of training on one busy CPU "
        "core: a light policy on `oat` tokens that corrects decoded chunks by what it sees and "
        f"decides itself when to look again ({_trainings(cells, 'auto')}). Where it looks after "
        f"every 8 steps, 1 / 2 / 4 / 8 tokens solve {by_budget} % ({_trainings(cells, '8')}). The "
        "table below has it beside other policies."
    )


def _trainings(cells: dict[str, Any], rule: str) -> str:
    """How many trainings of `oat` a rule was tried with, in words."""
    count = len({c["seed"] for c in cells.values() if (c["row"], c["rule"]) == ("oat", rule)})
    return f"{count} training{'s' * (count > 1)} of 200 episodes"


def _pusht() -> str:
    row = read_results("policy_pusht")["oat, offset"]
    scores = [budget["score"] for budget in row["budgets"]]
    episodes = row["settings"]["episodes"]
    return (
        f"**{scores[-1]:.2f} of 1 on PushT** from the state and human demonstrations, by the same "
        f"policy after {row['steps']:,} steps; {' / '.join(f'{score:.2f}' for score in scores)} "
        f"with 1 / 2 / 4 / 8 tokens, half of every chunk executed ({episodes} episodes, one "
        "training)."
    )


def _policies() -> str:
    """What every policy solves of the four tasks, by how often it looks."""
    cells = read_results("control")["cells"]
    neighbors = read_result("neighbors")
    minutes, trained = neighbors["settings"]["cpu_minutes"], neighbors["results"]["rows"].values()
    own_cells = [*cells.values()]
    table = {_named(own_cells, row): _by_rule(own_cells, row) for row in LIGHT}
    for kind, what in LEROBOT.items():
        own = [row for row in trained if row["kind"] == kind]
        table[f"LeRobot's {what}, {minutes:g} CPU minutes"] = _by_steps(own)
    plain = [*read_results("regression").values()]
    table["a plain network that regresses chunks"] = _by_steps(plain)
    measured = {what: rates for what, rates in table.items() if any(rates)}
    rules = zip(*measured.values(), strict=True)
    best = [max(rate[0] for rate in rates if rate is not None) for rates in rules]
    lines = [
        "Episodes solved on these tasks in percent, by the number of steps after which a policy "
        "looks again; in parentheses the number of trainings, of 200 episodes each "
        "([intervals](docs/results.md#how-chunks-are-executed)):\n",
        "| policy | half a chunk | 8 | 4 | decides itself |",
        "|---|---|---|---|---|",
    ]
    for what, rates in measured.items():
        shown = (_rate(*pair) for pair in zip(rates, best, strict=True))
        lines.append(f"| {what} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def _named(cells: list[dict[str, Any]], row: str) -> str:
    """What the table calls a row; of one that took longer for fewer steps also its minutes."""
    took = [trained_minutes(cells, name) for name in (row, "oat")]
    if row != "light-flow" or not all(took):
        return LIGHT[row]
    return f"{LIGHT[row]}, trained for {took[0]} minutes where `oat` took {took[1]}"


def _rate(rate: tuple[float, int] | None, best: float) -> str:
    """A rate with its number of trainings, as the table shows it."""
    if rate is None:
        return ""
    percent = f"**{rate[0]:.1f}**" if rate[0] == best else f"{rate[0]:.1f}"
    return f"{percent} ({rate[1]})"


def _by_rule(cells: list[dict[str, Any]], row: str) -> list[tuple[float, int] | None]:
    """Success of a row of `benchmarks.control` with all tokens under each rule."""
    return [
        _of_trainings([with_all_tokens(cell)["success"] for cell in cells_of(cells, row, rule)])
        for rule in ("half", "8", "4", "auto")
    ]


def _by_steps(rows: list[dict[str, Any]]) -> list[tuple[float, int] | None]:
    """The same of policies whose rules are named by their steps, and which have no "auto"."""
    rules = ("16 steps", "8 steps", "4 steps")
    found = [
        [row["rules"][rule]["success"] for row in rows if rule in row["rules"]] for rule in rules
    ]
    return [*map(_of_trainings, found), None]


def _of_trainings(rates: list[dict[str, Any]]) -> tuple[float, int] | None:
    """Percent of all trainings together, and their number; None without any."""
    return (_together(rates), len(rates)) if rates else None


def _success(cells: dict[str, Any], row: str, rule: str, budget: Budget) -> float:
    """Success in percent over the seeds of a row."""
    return _together(
        [
            found["success"]
            for cell in cells.values()
            if (cell["row"], cell["rule"]) == (row, rule)
            for found in cell["budgets"]
            if found["budget"] == budget
        ]
    )


def _together(rates: list[dict[str, Any]]) -> float:
    """The percentage of all successes, to a tenth."""
    return round(100 * pooled(rates)["rate"], 1)


def _serving() -> str:
    found = read_results("serve_load")
    batched = found["batched"]
    in_time = [row["in_time"] for row in found["deadlines_ms"].values()]
    return (
        f"**{batched['clients']} clients, {batched['errors']} errors** on two CPU cores, "
        f"{found['times_faster']:.1f} times the throughput of one request at a time, and "
        f"{100 * min(in_time):.1f} % or more of the deadlines met (`oatkit serve`)."
    )
