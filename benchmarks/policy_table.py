"""The paper's lightweight table on MetaWorld: the same small policy on each tokenizer's tokens.

    python -m benchmarks.policy_table [--only oat ...] [--images] [--preset small] [--steps N]
        [--minutes 15] [--episodes 50] [--temperature 0] [--data PATH]

Policies are evaluated on four tasks, with goals that no demonstration has; the first half of a
chunk is executed. The default rows are `bin`, `quest`, `oat` and `oat-pow2` in the paper's light
recipe: 32 actions, 8 tokens, FSQ levels 8 5 5 5 (`quest` halves the steps, so it has 16 tokens).
They take the likeliest tokens; two more rows sample the tokens of the ordered kinds. All other rows
run only if `--only` names them; those of 16 tokens use the tokenizers of
`benchmarks.tokenizer_rate_distortion`. Missing artifacts are trained, each within the minutes. Rows
are saved one by one: the same command again resumes, also within a row, and skips finished rows;
`--again` measures them again.
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
    paired,
    read_evaluation,
    ready_policy,
    ready_tokenizer,
    row_numbers,
    settings,
)
from benchmarks.record import read_results, write_result
from benchmarks.tokenizer_rate_distortion import OUT, SEED, metaworld
from oatkit.envs.metaworld import CAMERA
from oatkit.jobs.metaworld_demonstrations import Demonstrations, make_metaworld
from oatkit.tokenizers.fast import Decoding
from oatkit.types import Sampling, Schedule
from oatkit.types.observation_keys import ENVIRONMENT_STATE

NAME = "policy_table"
HORIZON = 32
IMAGE_SIZE = (96, 96)
REFERENCE = ("oat", 8)
"""Row and budget that all others are compared with, pair by pair."""

LIGHT: dict[str, Any] = {"num_tokens": 8, "levels": (8, 5, 5, 5)}


@dataclass(frozen=True)
class Row:
    """One scheme of the table.

    Attributes:
        kind: Kind of the tokenizer.
        budgets: Budgets to evaluate; all tokens if empty.
        options: Settings of the tokenizer.
        tokenizer_of: Row of `tokenizer_rate_distortion` whose tokenizer is used instead.
        endpoints: Schedule that the policy is trained under; the tokenizer's own if empty.
        policy_of: Row whose policy is used, instead of training one.
        evaluate_by: Schedule that evaluation forces on the policy.
        decoding: What `fast` does with sequences that do not decode; strict if None.
        temperature: Sampling temperature, where it is not that of all rows.
    """

    kind: str
    budgets: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    tokenizer_of: str | None = None
    endpoints: tuple[int, ...] = ()
    policy_of: str | None = None
    evaluate_by: tuple[int, ...] = ()
    decoding: Decoding | None = None
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
    "oat, 16 tokens": Row("oat", UP_TO_16, tokenizer_of="oat"),
    "oat-pow2, 16 tokens": Row("oat-pow2", (*UP_TO_16, "auto"), tokenizer_of="oat-pow2"),
    "oat, 16 tokens, long": Row("oat", UP_TO_16, tokenizer_of="oat, long"),
    "fast": Row("fast"),
    "fast, relaxed": Row("fast", policy_of="fast", decoding="relaxed"),
    "acodec": Row("acodec", options={"num_tokens": LIGHT["num_tokens"]}),
    "klt": Row("klt", UP_TO_8, LIGHT),
    "oat, no nesting": Row("oat", options={**LIGHT, "nested_dropout": False}),
    "oat, 16 tokens, policy by powers of two": Row(
        "oat", UP_TO_16, tokenizer_of="oat", endpoints=POW2_16
    ),
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
    """Save the row beside the others, and compare all rows whose episodes are known."""
    results = read_results(NAME)  # another process may have added to them
    rows = {**results.get(observed, {}), name: row}
    records = {
        other: record
        for other in rows
        if (record := read_evaluation(evaluation_dir(observed, other, args))) is not None
    }
    for other, pairs in paired(REFERENCE, records).items():
        rows[other] = {**rows[other], "against": pairs}
    rows = {other: rows[other] for other in ROWS if other in rows}
    found = {**results, observed: rows}
    write_result(NAME, seed=SEED, settings={"reference": list(REFERENCE)}, results=found)


def measure_row(observed: str, name: str, args: Namespace) -> dict[str, Any]:
    row = ROWS[name]
    trained_in = ready_row(observed, row.policy_of or name, args)
    record = oatkit.evaluate(
        trained_in,
        "metaworld",
        out=evaluation_dir(observed, name, args),
        episodes=args.episodes,
        budgets=row.budgets,
        sampling=Sampling(temperature(row, args), seed=SEED),
        schedule=Schedule(row.evaluate_by) if row.evaluate_by else None,
        decoding=row.decoding,
        show_progress=True,
    )
    return {**row_numbers(record, trained_in), "settings": settings(args, row.options)}


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
        oatkit.open_dataset(data) if observed == "images" else open_with_full_state(data),
        tokenizer,
        policy_dir(observed, name),
        args.minutes,
        preset=args.preset,
        steps=args.steps,
        seed=SEED,
        endpoints=row.endpoints,
        cameras=(CAMERA,) if observed == "images" else (),
    )


def open_with_full_state(path: Path) -> oatkit.Dataset:
    """Demonstrations with the state that MetaWorld's own policies see, the goal included."""
    return oatkit.open_dataset(path, state_key=(ENVIRONMENT_STATE,))


def tokenizer_dir(name: str) -> Path:
    other = ROWS[name].tokenizer_of
    if other is not None:
        return OUT / "metaworld" / folder_name(other)
    return OUT / NAME / "tokenizers" / folder_name(name)


def policy_dir(observed: str, name: str) -> Path:
    return OUT / NAME / observed / folder_name(name)


def evaluation_dir(observed: str, name: str, args: Namespace) -> Path:
    return policy_dir(observed, name) / f"evaluation-temperature-{temperature(ROWS[name], args):g}"


def temperature(row: Row, args: Namespace) -> float:
    return float(args.temperature if row.temperature is None else row.temperature)


def metaworld_images() -> Path:
    """The demonstrations of `metaworld()` with images; the same seeds give the same actions."""
    folder = OUT / "data" / "metaworld-images"
    wanted = Demonstrations(seed=SEED, images=True, image_size=IMAGE_SIZE)
    return make_metaworld(folder, wanted, show_progress=True)


if __name__ == "__main__":
    main()
