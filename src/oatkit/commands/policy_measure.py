"""`oatkit policy measure`: tokens and actions of held-out episodes, without a simulator."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.text import Text
from tyro.conf import Positional, arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.device_options import DeviceFlag, DtypeFlag, announce_device
from oatkit.commands.dimension_errors import dimension_errors
from oatkit.commands.record_output import write_result
from oatkit.commands.sampling_options import SamplingFlags
from oatkit.commands.text_output import print_differences, print_lines, table_row, titled
from oatkit.jobs.artifact_split import SplitName, select_episodes
from oatkit.measure.baselines import BASELINES
from oatkit.measure.policy_metrics import measure_policy
from oatkit.measure.reports.policy_findings import policy_cautions
from oatkit.policies import load_policy
from oatkit.tokenizers.data_facts import DataFacts
from oatkit.types import PolicyMeasurement, Sampling, budget_name

MAX_SLOTS_SHOWN = 16
ERRORS_LEGEND = (
    "no tail: MSE without the steps past an episode's end; true ids: MSE of the true tokens, which "
    "the tokenizer itself leaves"
)
BASELINES_LEGEND = "; to beat, without a network: " + ", ".join(
    f"{words} ({name})" for name, words in BASELINES.items()
)
SLOTS_LEGEND = (
    "reached: share of sequences with so many tokens; right: how often the likeliest id is the "
    "true one; entropy: bits of uncertainty; surprise: bits that the true id costs, where less is "
    "better and more than the entropy is too sure\n"
)


@dataclass(frozen=True)
class MeasurePolicy:
    """Measure policies on episodes they were not trained on.

    Example:
        oatkit policy measure out/policy --data out/metaworld --out out/policy.json
        oatkit policy measure out/policy --data out/metaworld --temperature 0
    """

    policies: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR [DIR ...]")]
    """Artifacts, one or several."""
    data: Annotated[str, arg(metavar="PATH")]
    """Dataset: file, folder or hub id."""
    split: SplitName = "val"
    """Which episodes; `val` are those each policy held out."""
    sampling: SamplingFlags = Sampling(seed=0)
    device: DeviceFlag = "auto"
    dtype: DtypeFlag = None
    out: Annotated[Path | None, arg(metavar="FILE.json")] = None
    """Also write the measurements as JSON."""
    columns: Columns = DatasetOptions()


def run(options: MeasurePolicy, console: Console) -> int:
    if not options.policies:
        raise ValueError("name at least one policy artifact")
    device = announce_device(console, options.device, options.dtype)
    found = []
    for path in options.policies:
        policy = load_policy(path, dtype=options.dtype, device=device)
        dataset = options.columns.open_for(policy, options.data, console)
        print_differences(console, path, policy.tokenizer.check(dataset))
        part = select_episodes(policy.extras, dataset, options.split)
        knows_split = "split" in policy.extras
        train_set = select_episodes(policy.extras, dataset, "train") if knows_split else None
        found.append(
            measure_policy(
                policy,
                part,
                train_set=train_set,
                path=str(path),
                split=options.split,
                sampling=options.sampling,
            )
        )
        console.print(render_policy(found[-1], policy.tokenizer.data), soft_wrap=True)
    write_result(found, options.out, console)
    print_lines(console, f"next: oatkit serve {shlex.quote(str(options.policies[0]))}")
    return 0


def render_policy(measured: PolicyMeasurement, facts: DataFacts) -> Text:
    """Errors by budget and by dimension, then the first slots."""
    text = titled(
        f"\n{measured.path}",
        f"on {measured.kind} tokens, {measured.num_parameters:,} parameters, "
        f"{measured.num_chunks:,} chunks, loss {measured.loss:.3f}",
    )
    text.append(table_row("budget", "tokens", "calls", "MSE", "no tail", "true ids"), style="dim")
    budgets = [*measured.budgets, *([measured.auto] if measured.auto else [])]
    for b in budgets:
        errors = (_number(b.mse), _number(b.mse_without_padding), _number(b.tokenizer_mse))
        text.append(table_row(budget_name(b.budget), f"{b.tokens:.3g}", f"{b.calls:.3g}", *errors))
    for baseline in measured.baselines:
        errors = (_number(baseline.mse), _number(baseline.mse_without_padding), "-")
        text.append(table_row(baseline.name, "-", "-", *errors))
    baselines = BASELINES_LEGEND if measured.baselines else ""
    text.append(f"{ERRORS_LEGEND}{baselines}\n", style="dim")
    mae = {budget_name(b.budget): b.mae for b in budgets}
    text.append_text(dimension_errors(facts, mae, measured.variance))
    text.append(table_row("slot", "reached", "right", "entropy", "surprise"), style="dim")
    for number, slot in enumerate(measured.slots[:MAX_SLOTS_SHOWN], start=1):
        bits = (f"{slot.entropy_bits:.2f}", f"{slot.loss_bits:.2f}")
        text.append(table_row(str(number), f"{slot.share:.0%}", f"{slot.accuracy:.0%}", *bits))
    if len(measured.slots) > MAX_SLOTS_SHOWN:
        left = len(measured.slots) - MAX_SLOTS_SHOWN
        text.append(f"... and {left} more slots in the JSON\n", style="dim")
    text.append(SLOTS_LEGEND, style="dim")
    text.append(f"sequences that do not decode: {measured.invalid:.1%}", style="dim")
    for caution in policy_cautions(measured):
        text.append(f"\nnote: {caution}", style="yellow")
    return text


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2e}"
