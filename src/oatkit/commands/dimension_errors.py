"""The errors of each action dimension, by its name and in its own units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from oatkit.commands.text_output import table
from oatkit.tokenizers.data_facts import DataFacts

LEGEND = (
    "std: standard deviation in the training data; then the mean absolute error with so many "
    "tokens, all in the units of the data"
)


def dimension_errors(
    facts: DataFacts,
    mae: Mapping[str, Sequence[float]],
    variance: Sequence[float | None] = (),
) -> Text:
    """A dimension a line: its name, how much it moves, and its error at each budget.

    Args:
        facts: Facts about the data of the tokenizer.
        mae: Name of a budget to the mean absolute error of each dimension, raw units.
        variance: Variance of each predicted dimension over that of the true one; None where that
            is constant.
    """
    shown = {name: errors for name, errors in mae.items() if len(errors)}
    std = facts.statistics.std
    names = facts.action_names or tuple(f"action_{number}" for number in range(len(std)))
    rows = [("dimension", "std", *shown, *(("variance",) if variance else ()))]
    for dim, name in enumerate(names):
        numbers = [f"{std[dim]:.2g}", *(f"{errors[dim]:.2g}" for errors in shown.values())]
        if variance:
            ratio = variance[dim]
            numbers.append("constant" if ratio is None else f"{ratio:.2f}")
        rows.append((name, *numbers))
    text = table(rows)
    also = "; variance: that of the predicted actions over that of the true ones"
    text.append(f"{LEGEND}{also if variance else ''}\n", style="dim")
    return text
