"""Finds problems of a dataset that would ruin a training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oatkit.data.action_steps import Unwrap
from oatkit.data.action_words import print_actions
from oatkit.data.columns import Table
from oatkit.data.dataset import Dataset
from oatkit.data.statistics import Statistics
from oatkit.types import DatasetCheck, Finding

OUTLIER_WIDTHS = 3.0
"""A value this many times the 1 % to 99 % range away from that range is an outlier."""
RARE_EVENT_SIZES = 100.0
"""Where 98 % of the values are equal, a value this many times the usual distance of the others away
from them is an outlier."""
NOISE_SHARE = 0.3
"""A dimension is noise where successive values differ by more than this share of what values of
independent frames would; motion differs by far less."""
IDLE_SHARE, IDLE_SURELY = 1e-2, 1e-3
"""A dimension whose range is below this share of that of dimensions which move is idle if it is
noise, or surely."""
FULL_TURNS = (2 * np.pi, 360.0)
TIMESTAMP_TOLERANCE = 0.1
"""Share of a frame period by which the distance of two timestamps may be wrong."""


def check_dataset(dataset: Dataset, *, horizon: int = 32) -> DatasetCheck:
    """Look for every problem that `CheckKind` names.

    Args:
        dataset: Dataset, opened with `allow_nonfinite=True`: otherwise opening stops at a NaN.
        horizon: Length of the chunks that will be used in training.
    """
    if horizon < 1:
        raise ValueError(f"horizon is {horizon}, expected at least 1")
    findings = [
        *_missing_videos(dataset),
        *_short_episodes(dataset, horizon),
        *_duplicate_episodes(dataset),
        *_timestamps(dataset),
    ]
    finite: dict[str, tuple[Table, Statistics]] = {}
    for word, table in (("action", dataset.action), ("state", dataset.state)):
        if table is None:
            continue
        broken = list(_nonfinite(dataset, word, table))
        findings += broken
        if not broken:
            finite[word] = (table, dataset.statistics(table))
    for word, (table, statistics) in finite.items():
        findings += _constant(word, table, statistics)
        findings += _outliers(dataset, word, table, statistics)
        findings += _wrapping_angles(dataset, word, table, statistics)
        findings += _idle(dataset, word, table, statistics)
    if len(finite) == 2:
        findings += _action_is_state(dataset, *(statistics for _, statistics in finite.values()))
    return DatasetCheck(str(dataset.path), dataset.format, horizon, tuple(findings))


def quick_check(dataset: Dataset, *, reads_state: bool) -> list[Finding]:
    """What ruins a training though its loss looks well: the part of the check that takes a pass
    over the numbers, which training makes anyway.

    Args:
        dataset: Dataset whose numbers are finite.
        reads_state: Whether the state is an input.
    """
    tables = {"action": dataset.action}
    if reads_state and dataset.state is not None:
        tables["state"] = dataset.state
    findings: list[Finding] = []
    known = {word: dataset.statistics(table) for word, table in tables.items()}
    for word, table in tables.items():
        findings += _wrapping_angles(dataset, word, table, known[word])
        findings += _idle(dataset, word, table, known[word])
    if "state" in known:
        findings += _action_is_state(dataset, known["action"], known["state"])
    return findings


@dataclass
class _Places:
    """The frames where something holds in one dimension: their number, and the first of them."""

    num_frames: int = 0
    num_episodes: int = 0
    episode: int = -1
    frame: int = -1

    def add(self, episode: int, frames: NDArray[np.int64]) -> None:
        if not self.num_frames:
            self.episode, self.frame = episode, int(frames[0])
        self.num_frames += len(frames)
        self.num_episodes += 1

    def __str__(self) -> str:
        if self.num_frames == 1:
            return f"at episode {self.episode} frame {self.frame}"
        episodes = "1 episode" if self.num_episodes == 1 else f"{self.num_episodes} episodes"
        return (
            f"at {self.num_frames} frames of {episodes}, first at episode {self.episode} "
            f"frame {self.frame}"
        )


def _places(
    dataset: Dataset, table: Table, holds: Callable[[NDArray[np.float32]], NDArray[np.bool_]]
) -> list[_Places]:
    """The places of each dimension where `holds`, given an episode's values (T, A), is True."""
    places = [_Places() for _ in table.names]
    for index, start in enumerate(dataset.episode_starts):
        hit_TA = holds(table.rows(start, start + dataset.episode_lengths[index]))
        for dim in np.flatnonzero(hit_TA.any(axis=0)):
            places[dim].add(int(dataset.episode_numbers[index]), np.flatnonzero(hit_TA[:, dim]))
    return places


def _nonfinite(dataset: Dataset, word: str, table: Table) -> Iterator[Finding]:
    if all(column.first_nonfinite_row is None for column in table.columns):
        return
    for name, at in zip(
        table.names, _places(dataset, table, lambda values: ~np.isfinite(values)), strict=True
    ):
        if at.num_frames:
            yield Finding(
                "non-finite",
                f"{word} '{name}' is NaN or infinite {at}",
                "leave these episodes out with --episodes, or repair the recording; training "
                "refuses them",
                at.episode,
                at.frame,
            )


def _constant(word: str, table: Table, statistics: Statistics) -> Iterator[Finding]:
    for dim in np.flatnonzero(statistics.is_constant):
        yield Finding(
            "constant",
            f"{word} '{table.names[dim]}' is always {statistics.min[dim]:g} (episode 0 frame 0 on)",
            "check that it was recorded; if it is meant, it does no harm: --ignore constant",
            0,
            0,
        )


def _outliers(
    dataset: Dataset, word: str, table: Table, statistics: Statistics
) -> Iterator[Finding]:
    width = statistics.q99 - statistics.q01
    room = np.where(width > 0, OUTLIER_WIDTHS * width, _sparse_room(dataset, table, statistics))
    low, high = statistics.q01 - room, statistics.q99 + room
    if ((statistics.min >= low) & (statistics.max <= high)).all():
        return
    places = _places(dataset, table, lambda values: (values < low) | (values > high))
    for dim, at in enumerate(places):
        if at.num_frames:
            yield Finding(
                "outlier",
                f"{word} '{table.names[dim]}' reaches {statistics.min[dim]:.4g} to "
                f"{statistics.max[dim]:.4g} while 98 % lie between {statistics.q01[dim]:.4g} and "
                f"{statistics.q99[dim]:.4g}; far out {at}",
                "remove them if they are glitches; if they are real, min_max squeezes all the rest "
                "into little room, and quantiles leave these far outside [-1, 1]",
                at.episode,
                at.frame,
            )


def _sparse_room(dataset: Dataset, table: Table, statistics: Statistics) -> NDArray[np.float64]:
    """(A,): how far a dimension may leave the value it nearly always has.

    A rare event, such as a gripper that closes once, is no glitch: many times the usual size of
    such events is.
    """
    room_A = np.full(table.dim, np.inf)
    sparse = np.flatnonzero((statistics.q01 == statistics.q99) & ~statistics.is_constant)
    for dim in sparse:
        usual = np.float32(statistics.q01[dim])
        events = [block[block[:, dim] != usual, dim] for block in dataset.blocks(table)]
        sizes = np.abs(np.concatenate(events).astype(np.float64) - usual)
        room_A[dim] = RARE_EVENT_SIZES * np.median(sizes)
    return room_A


def _wrapping_angles(
    dataset: Dataset, word: str, table: Table, statistics: Statistics
) -> Iterator[Finding]:
    span = statistics.max - statistics.min
    turn = np.full(table.dim, np.inf)
    for full_turn in FULL_TURNS:
        turn[(span > 0.9 * full_turn) & (span <= 1.01 * full_turn)] = full_turn
    if np.isinf(turn).all():
        return

    def jumps(values_TA: NDArray[np.float32]) -> NDArray[np.bool_]:
        return np.abs(np.diff(values_TA, axis=0, prepend=values_TA[:1])) > 0.9 * turn

    mended = _mended_dims(dataset) if word == "action" else set()
    places = {
        dim: at
        for dim, at in enumerate(_places(dataset, table, jumps))
        if at.num_frames and dim not in mended
    }
    remedy = "store its sine and cosine, or leave it out (--state-key with other columns)"
    if word == "action":
        remedy = f"unwrap it: --actions {_unwrap_words(statistics, turn, list(places))}"
    for dim, at in places.items():
        yield Finding(
            "wrapping-angle",
            f"{word} '{table.names[dim]}' jumps by a full turn ({turn[dim]:.4g}) {at}",
            remedy,
            at.episode,
            at.frame,
        )


def _mended_dims(dataset: Dataset) -> set[int]:
    """Action dimensions that are represented without jumps: unwrapped, or as rotations."""
    if dataset.transform is None:
        return set()
    unwrapped = [step.dims for step in dataset.transform.steps if isinstance(step, Unwrap)]
    turned = [turn.dims for turn in dataset.transform.turns]
    return {dim for dims in (*unwrapped, *turned) for dim in dims}


def _unwrap_words(statistics: Statistics, turn: NDArray[np.float64], dims: list[int]) -> str:
    """What to type for angles that jump: `unwrap:0-2`, with their range where it is not usual."""
    steps = []
    for dim in dims:
        is_positive = statistics.min[dim] > -0.05 * turn[dim]
        low = 0.0 if is_positive else -turn[dim] / 2
        is_usual = turn[dim] < 7 and not is_positive
        steps.append(Unwrap((dim,)) if is_usual else Unwrap((dim,), low, low + turn[dim]))
    return print_actions(steps, ())


def _idle(dataset: Dataset, word: str, table: Table, statistics: Statistics) -> Iterator[Finding]:
    """Dimensions that do nothing but tremble, which normalizing makes as large as the others."""
    span, squares = statistics.max - statistics.min, np.zeros(table.dim)
    for start, length in zip(dataset.episode_starts, dataset.episode_lengths, strict=True):
        values_TA = table.rows(start, start + length).astype(np.float64)
        squares += np.square(np.diff(values_TA, axis=0)).sum(axis=0)
    independent = 2 * np.square(statistics.std) * statistics.count
    is_noise = squares > NOISE_SHARE * independent
    moving = span[~is_noise & (span > 0)]
    if not len(moving):
        return
    usual = float(np.median(moving))
    limit = np.where(is_noise, IDLE_SHARE, IDLE_SURELY) * usual
    for dim in np.flatnonzero((span > 0) & (span < limit)):
        yield Finding(
            "idle",
            f"{word} '{table.names[dim]}' moves by {span[dim]:.2g} in all, between "
            f"{statistics.min[dim]:.4g} and {statistics.max[dim]:.4g}, while the others move by "
            f"{usual:.2g}: noise",
            "normalizing blows it up to the size of the others; leave it out (--action-dims, or "
            "--state-key with other columns), or record 0",
            0,
            0,
        )


def _action_is_state(dataset: Dataset, action: Statistics, state: Statistics) -> Iterator[Finding]:
    """Pairs (action dim, state dim) that are equal in every frame."""
    assert dataset.state is not None
    is_equal_AS = ~action.is_constant[:, None] & ~state.is_constant[None]
    is_equal_AS &= np.isclose(action.mean[:, None], state.mean[None], rtol=1e-4)
    for episode in dataset:
        if not is_equal_AS.any():
            return
        actions_TA, state_TS = episode.actions, episode.state
        assert state_TS is not None
        for a, s in np.argwhere(is_equal_AS):
            is_equal_AS[a, s] = np.allclose(actions_TA[:, a], state_TS[:, s], rtol=1e-6, atol=1e-7)
    for a, s in np.argwhere(is_equal_AS):
        yield Finding(
            "action-is-state",
            f"action '{dataset.action.names[a]}' equals state '{dataset.state.names[s]}' of the "
            "same frame, from episode 0 frame 0 to the end",
            "a policy learns to stand still from it: record commands, or take the next frame's "
            "action: oatkit data convert IN --out OUT --shift-actions 1",
            0,
            0,
        )


def _short_episodes(dataset: Dataset, horizon: int) -> Iterator[Finding]:
    short = np.flatnonzero(dataset.episode_lengths < horizon)
    if not len(short):
        return
    shortest = short[np.argmin(dataset.episode_lengths[short])]
    length = int(dataset.episode_lengths[shortest])
    number = int(dataset.episode_numbers[shortest])
    yield Finding(
        "short-episode",
        f"{len(short)} of {len(dataset)} episodes are shorter than a chunk of {horizon}; the "
        f"shortest is episode {number}, which ends at frame {length - 1}",
        "their chunks are mostly padding: remove them or use a smaller --horizon",
        number,
        length - 1,
    )


def _duplicate_episodes(dataset: Dataset) -> Iterator[Finding]:
    for group in dataset.duplicate_episodes():
        ids = [int(dataset.episode_numbers[i]) for i in group]
        shown = ", ".join(str(i) for i in ids[:6]) + (" ..." if len(ids) > 6 else "")
        yield Finding(
            "duplicate-episode",
            f"episodes {shown} have identical actions from frame 0 to the end",
            "keep one of them; copies weigh double and leak between splits",
            ids[1],
            0,
        )


def _timestamps(dataset: Dataset) -> Iterator[Finding]:
    if dataset.fps is None or "timestamp" not in dataset.columns:
        return
    fps, table = dataset.fps, dataset.table("timestamp")

    def off(seconds_T1: NDArray[np.float32]) -> NDArray[np.bool_]:
        periods = np.diff(seconds_T1.astype(np.float64), axis=0) * fps
        # One float32 step of a long recording may exceed the tolerance.
        slack = TIMESTAMP_TOLERANCE + 2 * np.spacing(np.abs(seconds_T1[1:])) * fps
        return np.concatenate([np.zeros((1, 1), bool), ~(np.abs(periods - 1) <= slack)])

    (at,) = _places(dataset, table, off)
    if at.num_frames:
        yield Finding(
            "timestamps",
            f"timestamps are not 1/{fps:g} s apart {at}",
            "frames were dropped or the fps is wrong: give the right --fps, or resample with "
            "oatkit data convert IN --out OUT --resample RATE",
            at.episode,
            at.frame,
        )


def _missing_videos(dataset: Dataset) -> Iterator[Finding]:
    for name, camera in dataset.cameras.items():
        if camera.missing is not None:
            yield Finding(
                "missing-video",
                f"camera '{name}' is declared but has no video from episode "
                f"{camera.missing_episode} frame 0 on: {camera.missing} does not exist",
                "copy the videos too, or train from state only",
                camera.missing_episode,
                0,
            )
