"""`oatkit policy calibrate`: when a trained policy stops early, by the clock of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.device_options import DeviceFlag, DtypeFlag, announce_device
from oatkit.commands.text_output import print_differences, print_lines
from oatkit.jobs.artifact_split import SplitName
from oatkit.jobs.policy_calibration import calibrate_policy
from oatkit.policies import load_policy
from oatkit.policies.generation.auto_execution import AutoExecution
from oatkit.policies.generation.early_stop import AutoThresholds


@dataclass(frozen=True)
class CalibratePolicy:
    """Find anew, without training, when `--budget auto` stops: what is fastest differs by machine.

    Example:
        oatkit policy calibrate out/policy --data out/metaworld
    """

    policy: Annotated[Positional[Path], arg(metavar="DIR")]
    """Artifact, whose settings are changed."""
    data: Annotated[str, arg(metavar="PATH")]
    """Dataset that it was trained on: file, folder or hub id."""
    split: SplitName = "val"
    """Which episodes; `val` are those that the policy held out."""
    seed: int = 0
    """Seed of the sampled tokens."""
    device: DeviceFlag = "auto"
    dtype: DtypeFlag = None
    columns: Columns = DatasetOptions()


def run(options: CalibratePolicy, console: Console) -> int:
    device = announce_device(console, options.device, options.dtype)
    policy = load_policy(options.policy, dtype=options.dtype, device=device)
    dataset = options.columns.open_for(policy, options.data, console)
    print_differences(console, options.policy, policy.tokenizer.check(dataset))
    calibrate_policy(policy, options.policy, dataset, split=options.split, seed=options.seed)
    print_lines(
        console,
        *([describe_thresholds(policy.auto)] if "tokens" in policy.heads else []),
        *([] if policy.execution is None else [describe_execution(policy.execution)]),
        f"wrote {options.policy}",
    )
    return 0


def describe_thresholds(thresholds: AutoThresholds | None) -> str:
    """When generation stops, in words."""
    if thresholds is None:
        return "auto: these tokens are decoded all together, so nothing can stop early"
    if not thresholds.num_tokens:
        return "auto: all tokens, because stopping early would not be faster here"
    pairs = zip(thresholds.num_tokens, thresholds.entropy_bits, strict=True)
    limits = ", ".join(
        f"after {number} token{'s' if number > 1 else ''} if at most {bits:.2f} bits"
        for number, bits in pairs
    )
    return (
        "auto: stops early where the policy is sure, which is where the mean entropy of the tokens "
        f"so far is low: {limits}; otherwise it generates all tokens"
    )


def describe_execution(execution: AutoExecution) -> str:
    """How much of a chunk is worth executing, in words."""
    steps = execution.bin_steps
    few = f", {min(steps)} where the policy is unsure" if min(steps) < max(steps) else ""
    return f"execute auto: {max(steps)} steps of a chunk{few}"
