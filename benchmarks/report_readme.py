"""The numbers of the README, from `benchmarks/results/`: no number is typed."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.closed_loop import pooled
from benchmarks.record import read_result, read_results
from oatkit.types import Budget

README = Path(__file__).parent.parent / "README.md"
BEGIN = "<!-- numbers: written by python -m benchmarks.report -->\n"
END = "<!-- end of numbers -->"
QUEST = "quest, no offset, 2000 tokenizer steps"


def render() -> str:
    """The README with its numbers as they were measured."""
    text = README.read_text()
    before, rest = text.split(BEGIN)
    return before + BEGIN + numbers() + END + rest.split(END)[1]


def numbers() -> str:
    """A line each about the tokens, the policy, human demonstrations and the server."""
    return "".join(f"- {line}\n" for line in (_tokens(), _policy(), _pusht(), _serving()))


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
        f"decides itself when to look again ({_trainings(cells, 'auto')}); "
        f"{_success(cells, 'oat', '4', 8):g} % where it looks after every 4 steps "
        f"({_trainings(cells, '4')}), {_success(cells, 'oat', 'half', 8):g} % where it executes "
        f"half a chunk blindly, the paper's rule ({_trainings(cells, 'half')}). Where it looks "
        f"after every 8 steps, 1 / 2 / 4 / 8 tokens solve {by_budget} % "
        f"({_trainings(cells, '8')}). {_rivals(cells)}"
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


def _rivals(cells: dict[str, Any]) -> str:
    """What other policies solve where they look again after 8 steps."""
    neighbors = read_result("neighbors")
    trained = neighbors["results"]["rows"].values()
    act = [row["rules"]["8 steps"]["success"] for row in trained if row["kind"] == "act"]
    minutes = neighbors["settings"]["cpu_minutes"]
    rules = [row["rules"]["8 steps"]["success"] for row in read_results("regression").values()]
    rivals = {
        "the same policy on 16 unordered tokens of `quest`": _success(cells, "quest", "8", 16),
        "one with a flow head in place of tokens": _success(cells, "light-flow", "8", 10),
        f"LeRobot's ACT, trained for {minutes:g} CPU minutes,": _together(act),
        "a plain network that regresses chunks": _together(rules),
    }
    *first, last = (f"{name} solves {rate:g} %" for name, rate in rivals.items())
    is_ahead = _success(cells, "oat", "8", 8) > max(rivals.values())
    return (
        f"Under that rule {', '.join(first)} and {last}: ordered tokens are "
        f"{'' if is_ahead else 'not '}ahead in closed loop. {_often()}"
    )


def _often() -> str:
    """What the plain network solves where it looks again after 4 steps, beside `oat`."""
    rows = read_results("regression").values()
    rules = [row["rules"]["4 steps"]["success"] for row in rows if "4 steps" in row["rules"]]
    if not rules:
        return "After 4 steps these were not measured."
    return f"After every 4 steps the plain network solves {_together(rules):g} %."


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
