"""`oatkit policy measure`: tokens and actions of held-out episodes, without a simulator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from rich.text import Text
from tyro.conf import Positional, arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.tokenizer_measure import select, write_measurements
from oatkit.measure.policy_metrics import measure_policy
from oatkit.policies import AnyPolicy, load_policy
from oatkit.types import PolicyMeasurement

MAX_SLOTS_SHOWN = 16


@dataclass(frozen=True)
class MeasurePolicy:
    """Measure policies on episodes they were not trained on.

    Example:
        oatkit policy measure out/policy --data out/metaworld --out out/policy.json
    """

    policies: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR [DIR ...]")]
    """Artifacts, one or several."""
    data: Annotated[str, arg(metavar="PATH")]
    """Dataset: file, folder or hub id."""
    split: Literal["val", "train", "all"] = "val"
    """Which episodes; `val` are those each policy held out."""
    seed: int = 0
    """Of sampling."""
    out: Annotated[Path | None, arg(metavar="FILE.json")] = None
    """Also write the measurements as JSON."""
    columns: Columns = DatasetOptions()


def run(options: MeasurePolicy, console: Console) -> int:
    if not options.policies:
        raise ValueError("name at least one policy artifact")
    found = []
    for path in options.policies:
        policy = load_policy(path)
        dataset = _columns(options, policy).open(options.data)
        if policy.tokenizer.action_dim != dataset.action_dim:
            raise ValueError(
                f"{path} is for {policy.tokenizer.action_dim} action dimensions, {options.data} "
                f"has {dataset.action_dim}"
            )
        for difference in policy.tokenizer.check(dataset):
            console.print(f"note: {path}: {difference}", markup=False, soft_wrap=True)
        part = select(policy.extras, dataset, options.split)
        found.append(
            measure_policy(policy, part, path=str(path), split=options.split, seed=options.seed)
        )
        console.print(draw(found[-1]))
    if options.out is not None:
        write_measurements(found, options.out, console)
    return 0


def _columns(options: MeasurePolicy, policy: AnyPolicy) -> DatasetOptions:
    """As named, else the state that the policy was trained on."""
    columns, known = options.columns, policy.extras.get("data", {})
    if columns.state_key or not policy.spec.state_dim:
        return columns
    return replace(columns, state_key=tuple(known.get("state_keys", ())))


def draw(measured: PolicyMeasurement) -> Text:
    """Errors by budget, then the first slots."""
    text = Text(overflow="fold")
    text.append(f"\n{measured.path}", style="bold")
    text.append(
        f"  on {measured.kind} tokens, {measured.num_parameters:,} parameters, "
        f"{measured.num_chunks:,} chunks, loss {measured.loss:.3f}\n",
        style="dim",
    )
    text.append(_row("budget", "tokens", "calls", "MSE", "no tail", "true ids"), style="dim")
    budgets = [*measured.budgets, *([measured.auto] if measured.auto else [])]
    for b in budgets:
        errors = (_number(b.mse), _number(b.mse_without_padding), _number(b.tokenizer_mse))
        text.append(_row(str(b.budget or "auto"), f"{b.tokens:.3g}", f"{b.calls:.3g}", *errors))
    text.append(_row("slot", "reached", "right", "entropy", "surprise"), style="dim")
    for number, slot in enumerate(measured.slots[:MAX_SLOTS_SHOWN], start=1):
        bits = (f"{slot.entropy_bits:.2f}", f"{slot.loss_bits:.2f}")
        text.append(_row(str(number), f"{slot.share:.0%}", f"{slot.accuracy:.0%}", *bits))
    if len(measured.slots) > MAX_SLOTS_SHOWN:
        left = len(measured.slots) - MAX_SLOTS_SHOWN
        text.append(f"... and {left} more slots in the JSON\n", style="dim")
    ratios = ("constant" if ratio is None else f"{ratio:.2f}" for ratio in measured.variance)
    spread = " ".join(ratios) or "nothing decodes"
    text.append(
        f"sequences that do not decode: {measured.invalid:.1%}\n"
        f"variance, predicted over true: {spread}",
        style="dim",
    )
    return text


def _row(*cells: str) -> str:
    return "".join(f"{cell:>10}" for cell in cells) + "\n"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2e}"
