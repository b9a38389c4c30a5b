"""The three numbers of the README, from `benchmarks/results/`: no number is typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.record import read_result, read_results

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
    """A line each about the tokens, the policy and the server."""
    return "".join(f"- {line}\n" for line in (_tokens(), _policy(), _serving()))


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
    by_budget, plain = (_by_budget(cells, row) for row in ("oat", "oat, no offset"))
    oat, half = _success(cells, "oat", "auto", 8), _success(cells, "oat", "half", 8)
    seeds = len({cell["seed"] for cell in cells.values() if cell["row"] == "oat"})
    return (
        f"**{oat:g} % success** on the paper's four MetaWorld tasks from 50 demonstrations each, "
        "by a light policy on 8 `oat` tokens that is trained on two CPU cores, corrects decoded "
        "chunks by what it sees (an offset head) and decides itself when to look again "
        f"({half:g} % where it looks after half a chunk, the paper's rule). "
        f"After every 8 steps 1 / 2 / 4 / 8 tokens solve {by_budget} % ({_number(seeds)} of 200 "
        f"episodes each), without the offset head {plain} %. {_rivals(cells)}"
    )


def _by_budget(cells: dict[str, Any], row: str) -> str:
    """Success in percent where a row looks again after 8 steps, at each budget."""
    return " / ".join(f"{_success(cells, row, '8', budget):g}" for budget in (1, 2, 4, 8))


def _number(seeds: int) -> str:
    return "one training" if seeds == 1 else f"{seeds} trainings"


def _rivals(cells: dict[str, Any]) -> str:
    """What other policies solve where they look again after 8 steps."""
    oat = _success(cells, "oat", "8", 8)
    rivals = {"`quest` with 16 unordered tokens and no such head": _success(cells, QUEST, "8", 16)}
    flow = "the same light policy with a flow head in place of tokens"
    rivals[flow] = _success(cells, "light-flow", "8", 10)
    neighbors = read_result("neighbors")
    trained = neighbors["results"]["rows"].values()
    act = [row["rules"]["8 steps"]["success"] for row in trained if row["kind"] == "act"]
    minutes = neighbors["settings"]["cpu_minutes"]
    rivals[f"LeRobot's ACT, trained for {minutes:g} CPU minutes,"] = _together(act)
    rules = [row["rules"]["8 steps"]["success"] for row in read_results("regression").values()]
    rivals["a plain network that regresses chunks"] = _together(rules)
    *first, last = (f"{name} solves {rate:g} %" for name, rate in rivals.items())
    named = f"{', '.join(first)} and {last}"
    is_ahead = oat > max(rivals.values())
    return (
        f"Under that rule {named}: ordered tokens are {'' if is_ahead else 'not '}ahead in closed "
        "loop."
    )


def _success(cells: dict[str, Any], row: str, rule: str, budget: int) -> float:
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
    successes, episodes = (sum(rate[name] for rate in rates) for name in ("successes", "episodes"))
    return round(100 * successes / episodes, 1)


def _serving() -> str:
    found = read_results("serve_load")
    batched = found["batched"]
    in_time = [row["in_time"] for row in found["deadlines_ms"].values()]
    return (
        f"**{batched['clients']} clients, {batched['errors']} errors** on two CPU cores, "
        f"{found['times_faster']:.1f} times the throughput of one request at a time, and "
        f"{100 * min(in_time):.1f} % or more of the deadlines met (`oatkit serve`)."
    )
