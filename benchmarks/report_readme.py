"""The three numbers of the README, from `benchmarks/results/`: no number is typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.record import read_results

README = Path(__file__).parent.parent / "README.md"
BEGIN = "<!-- numbers: written by python -m benchmarks.report -->\n"
END = "<!-- end of numbers -->"


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
    oat, quest = (_rates(cells[f"{kind}/0/8"]) for kind in ("oat", "quest"))
    half = _rates(cells["oat/0/half"])
    shown = " / ".join(f"{oat[budget]:g}" for budget in (1, 2, 4, 8))
    return (
        f"**{shown} % success** on the paper's four MetaWorld tasks with 1 / 2 / 4 / 8 ordered "
        "tokens, from one light policy trained on two CPU cores that looks again after 8 of the 32 "
        f"steps of a chunk (`oat`, 200 episodes each; {half[8]:g} % after half a chunk). The "
        f"unordered `quest` reaches {max(quest.values()):g} % with its 16 tokens: ordered tokens "
        f"are{'' if oat[8] > max(quest.values()) else ' not'} ahead in closed loop (one training "
        "each)."
    )


def _rates(cell: dict[str, Any]) -> dict[Any, float]:
    """Budget to success in percent."""
    return {b["budget"]: round(100 * b["success"]["rate"], 1) for b in cell["budgets"]}


def _serving() -> str:
    found = read_results("serve_load")
    batched = found["batched"]
    in_time = [row["in_time"] for row in found["deadlines_ms"].values()]
    return (
        f"**{batched['clients']} clients, {batched['errors']} errors** on two CPU cores, "
        f"{found['times_faster']:.1f} times the throughput of one request at a time, and "
        f"{100 * min(in_time):.1f} % or more of the deadlines met (`oatkit serve`)."
    )
