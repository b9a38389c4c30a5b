"""The paper's lightweight table on MetaWorld: the same small policy on each tokenizer's tokens.

    python -m benchmarks.policy_table [--only oat ...] [--images] [--preset small] [--steps N]
        [--minutes 15] [--episodes 50] [--temperature 0] [--data PATH]

Four tasks, evaluation goals that no demonstration has, the first half of a chunk executed. The
default rows are `bin`, `quest`, `oat` and `oat-pow2` in the paper's light recipe: 32 actions, 8
tokens, FSQ levels 8 5 5 5 (`quest` halves the steps, so it has 16). The likeliest tokens are taken;
two more rows sample those of the ordered kinds. All others run where `--only` names them; those of
16 tokens use the tokenizers of `benchmarks.tokenizer_rate_distortion`. What is missing is trained,
each training within the minutes. Rows are saved one by one: the same command again goes on, within
a row too, and skips what is finished; `--again` reads and measures it anew.
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import oatkit
from benchmarks.closed_loop import (
    arguments,
    folder_name,
    in_numbers,
    paired,
    read_evaluation,
    ready_policy,
    ready_tokenizer,
    relaxed_copy,
    settings,
)
from benchmarks.record import read_results, write_result
from benchmarks.tokenizer_rate_distortion import OUT, SEED, metaworld
from oatkit.commands.dataset_options import DatasetOptions
from oatkit.envs.metaworld import CAMERA
from oatkit.jobs.metaworld_demonstrations import Demonstrations, make_metaworld
from oatkit.jobs.policy_evaluation import evaluate
from oatkit.types import Sampling, Schedule

NAME = "policy_table"
HORIZON = 32
IMAGE_SIZE = (96, 96)
REFERENCE = ("oat", 8)
"""Row and budget that all others are compared with, pair by pair."""

LIGHT: dict[str, Any] = {"num_tokens": 8, "levels": (8, 5, 5, 5)}
STATE = DatasetOptions(state_key=("observation.environment_state",))
"""All that MetaWorld's own policies see, the goal included; with images the policy sees only the
arm's state."""


@dataclass(frozen=True)
class Row:
    """One scheme of the table.

    Attributes:
        kind: Of the tokenizer.
        budgets: To evaluate at; all tokens where empty.
        options: Of the tokenizer's training.
        bench: The row of `tokenizer_rate_distortion` whose tokenizer is used instead.
        endpoints: The schedule that the policy is trained under; the tokenizer's own if empty.
        policy_of: The row whose policy is used, instead of training one.
        evaluate_by: The schedule that evaluation forces on it.
        is_relaxed: Whether `fast` mends sequences that do not decode.
        temperature: Of sampling, where it is not that of all rows.
    """

    kind: str
    budgets: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    bench: str | None = None
    endpoints: tuple[int, ...] = ()
    policy_of: str | None = None
    evaluate_by: tuple[int, ...] = ()
    is_relaxed: bool = False
    temperature: float | None = None


UP_TO_8, UP_TO_16 = (1, 2, 4, 8), (1, 2, 4, 8, 16)
POW2_16 = Schedule.pow2(16).endpoints
ROWS = {
    "bin": Row("bin"),
    "quest": Row("quest", options={"levels": LIGHT["levels"]}),
    "oat": Row("oat", UP_TO_8, LIGHT),
    "oat-pow2": Row("oat-pow2", (*UP_TO_8, "auto"), LIGHT),
    "oat, temperature 1": Row("oat", UP_TO_8, policy_of="oat", temperature=1.0),
    "oat-pow2, temperature 1": Row("oat-pow2", UP_TO_8, policy_of="oat-pow2", temperature=1.0),
    "oat, 16 tokens": Row("oat", UP_TO_16, bench="oat"),
    "oat-pow2, 16 tokens": Row("oat-pow2", (*UP_TO_16, "auto"), bench="oat-pow2"),
    "oat, 16 tokens, long": Row("oat", UP_TO_16, bench="oat, long"),
    "fast": Row("fast"),
    "fast, relaxed": Row("fast", policy_of="fast", is_relaxed=True),
    "acodec": Row("acodec", options={"num_tokens": LIGHT["num_tokens"]}),
    "klt": Row("klt", UP_TO_8, LIGHT),
    "oat, no nesting": Row("oat", options={**LIGHT, "nested_dropout": False}),
    "oat, 16 tokens, policy by powers of two": Row("oat", UP_TO_16, bench="oat", endpoints=POW2_16),
    "oat, 16 tokens, powers of two at inference": Row(
        "oat", UP_TO_16, policy_of="oat, 16 tokens", evaluate_by=POW2_16
    ),
}
DEFAULT = ("bin", "quest", "oat", "oat-pow2", "oat, temperature 1", "oat-pow2, temperature 1")


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__.splitlines()[0], list(ROWS), DEFAULT)
    parser.add_argument("--images", action="store_true", help="from the camera and the arm's state")
    parser.add_argument("--data", type=Path, help="other demonstrations than the default ones")
    args = parser.parse_args(argv)
    observed = "images" if args.images else "state"
    for name in args.only:
        if name in read_results(NAME).get(observed, {}) and not args.again:
            print(f"{observed}/{name} is finished")
            continue
        print(f"{observed}/{name}", flush=True)
        save(observed, name, measure_row(observed, name, args), args)


def save(observed: str, name: str, row: dict[str, Any], args: Namespace) -> None:
    """Put the row beside the others, and compare anew all whose episodes are known."""
    results = read_results(NAME)  # another process may have added to them
    rows = {**results.get(observed, {}), name: row}
    records = {
        other: record
        for other in rows
        if (record := read_evaluation(evaluation_dir(observed, other, args))) is not None
    }
    for other, pairs in paired(REFERENCE, records).items():
        rows[other] = {**rows[other], "against": pairs}
    asked = {**settings(args, HORIZON, LIGHT), "reference": list(REFERENCE)}
    rows = {other: rows[other] for other in ROWS if other in rows}
    write_result(NAME, seed=SEED, settings=asked, results={**results, observed: rows})


def measure_row(observed: str, name: str, args: Namespace) -> dict[str, Any]:
    row = ROWS[name]
    trained_in = ready_row(observed, row.policy_of or name, args)
    policy = trained_in
    if row.is_relaxed:
        policy = relaxed_copy(trained_in, policy_dir(observed, name))
    record = evaluate(
        policy,
        "metaworld",
        out=evaluation_dir(observed, name, args),
        episodes=args.episodes,
        budgets=row.budgets,
        sampling=Sampling(temperature(row, args), seed=SEED),
        schedule=Schedule(row.evaluate_by) if row.evaluate_by else None,
        show_progress=True,
    )
    return in_numbers(record, trained_in)


def ready_row(observed: str, name: str, args: Namespace) -> Path:
    """The trained policy of a row."""
    row = ROWS[name]
    data = args.data or (metaworld_images() if observed == "images" else metaworld())
    tokenizer = ready_tokenizer(
        oatkit.open_dataset(data),
        row.kind,
        tokenizer_dir(name),
        args.minutes,
        preset=args.tokenizer_preset,
        seed=SEED,
        horizon=HORIZON,
        **row.options,
    )
    return ready_policy(
        oatkit.open_dataset(data) if observed == "images" else STATE.open(str(data)),
        tokenizer,
        policy_dir(observed, name),
        args.minutes,
        preset=args.preset,
        steps=args.steps,
        seed=SEED,
        endpoints=row.endpoints,
        cameras=(CAMERA,) if observed == "images" else (),
    )


def tokenizer_dir(name: str) -> Path:
    bench = ROWS[name].bench
    if bench is not None:
        return OUT / "metaworld" / folder_name(bench)
    return OUT / NAME / "tokenizers" / folder_name(name)


def policy_dir(observed: str, name: str) -> Path:
    return OUT / NAME / observed / folder_name(name)


def evaluation_dir(observed: str, name: str, args: Namespace) -> Path:
    return policy_dir(observed, name) / f"evaluation-temperature-{temperature(ROWS[name], args):g}"


def temperature(row: Row, args: Namespace) -> float:
    return float(args.temperature if row.temperature is None else row.temperature)


def metaworld_images() -> Path:
    """The demonstrations of `metaworld()` with the camera: the same seeds, so the same actions."""
    folder = OUT / "data" / "metaworld-images"
    wanted = Demonstrations(seed=SEED, images=True, image_size=IMAGE_SIZE)
    return make_metaworld(folder, wanted, show_progress=True)


if __name__ == "__main__":
    main()
