"""The words by which a user says how actions are represented, read and printed.

    relative:0-5               less the state at the start of the chunk, of the same name or place
    relative:0-5@2-7           of the named state dimensions instead
    delta:0-5                  less the action before; the first one of a chunk stays
    absolute:6                 as it is, which every dimension is that is not named
    unwrap:3-5                 angles from -pi to pi that go on past a full turn
    unwrap:3-5@-180,180        angles in another unit
    quaternion-to-6d:3-6       a rotation (x, y, z, w) in another form, see `oatkit.data.rotations`
    binary:6                   the nearer one of the smallest and the largest value of the data
    binary:6@0,1               of two other values

Dimensions are indices, ranges of them, or names: `delta:shoulder,elbow`. `delta` and `relative`
without dimensions are for all that can be so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from oatkit.data.action_steps import (
    HALF_TURN,
    ActionStep,
    Binary,
    Delta,
    Reference,
    Relative,
    Turn,
    Unwrap,
)
from oatkit.data.rotations import FORMS
from oatkit.errors import unknown_name

REFERENCES: tuple[Reference, ...] = ("absolute", "delta", "relative")
TURNS = {f"{one}-to-{other}": (one, other) for one in FORMS for other in FORMS}
NAMES = (*REFERENCES, "unwrap", "binary", *TURNS)


@dataclass(frozen=True)
class _Word:
    """One step as it was typed: its name, its dimensions, and what follows the @."""

    text: str
    name: str
    dims: tuple[int, ...] | None
    detail: str | None


def read_actions(
    words: str | Sequence[str], action_names: tuple[str, ...], state_names: tuple[str, ...]
) -> tuple[tuple[ActionStep, ...], tuple[Turn, ...]]:
    """The steps of words, in the order in which they are done, and the rotations after them.

    Args:
        words: One step each, or a text of them.
        action_names: Names of the action dimensions.
        state_names: Names of the state dimensions.
    """
    texts = (words if isinstance(words, str) else " ".join(words)).split()
    read = [_read_word(text.strip(","), action_names) for text in texts if text.strip(",")]
    for name in {word.name for word in read}:
        _require_once([word for word in read if word.name == name], action_names)
    binary = {dim for word in read if word.name == "binary" for dim in word.dims or ()}
    reference, state_of = _references(read, binary, action_names, state_names)
    turns = [_turn(word, reference, state_of) for word in read if word.name in TURNS]
    turned = [dim for turn in turns for dim in turn.dims]
    for word in read:
        _require_number(word, turned, reference, action_names)
    if len(set(turned)) < len(turned):
        raise ValueError(f"two rotations share dimensions in {' '.join(texts)!r}")
    relative = tuple(d for d, what in reference.items() if what == "relative" and d not in turned)
    delta = tuple(d for d, what in reference.items() if what == "delta" and d not in turned)
    steps: list[ActionStep] = []
    for (name, values), dims in _by_values(read).items():
        if name == "unwrap":
            steps += _unwraps(dims, values or (-HALF_TURN, HALF_TURN), state_of)
        else:
            steps.append(Binary(dims, values))
    if relative:
        steps.append(Relative(relative, tuple(state_of[d] for d in relative)))
    if delta:
        steps.append(Delta(delta))
    return tuple(steps), tuple(sorted(turns, key=lambda turn: min(turn.dims)))


def print_actions(steps: Sequence[ActionStep], turns: Sequence[Turn]) -> str:
    """The words of steps and rotations, which `read_actions` reads; "absolute" of none."""
    state_of: dict[int, int] = {}
    delta: list[int] = []
    words = []
    for step in steps:
        if isinstance(step, Unwrap):
            is_usual = (step.low, step.high) == (-HALF_TURN, HALF_TURN)
            words.append(("unwrap", step.dims, "" if is_usual else _numbers(step.low, step.high)))
        elif isinstance(step, Binary):
            words.append(("binary", step.dims, _numbers(*step.values) if step.values else ""))
        elif isinstance(step, Relative):
            state_of |= dict(zip(step.dims, step.state_dims, strict=True))
        elif isinstance(step, Delta):
            delta += step.dims
    for turn in turns:
        name = f"{turn.source}-to-{turn.target}"
        words.append((name, turn.dims, _numbers(*turn.center) if turn.center else ""))
        if turn.reference == "relative":
            state_of |= dict(zip(turn.dims, turn.state_dims, strict=True))
        elif turn.reference == "delta":
            delta += turn.dims
    first: list[tuple[str, tuple[int, ...], str]] = []
    if state_of:
        dims = tuple(sorted(state_of))
        own = tuple(state_of[dim] for dim in dims)
        first.append(("relative", dims, _ranges(own)))
    if delta:
        first.append(("delta", tuple(sorted(delta)), ""))
    joined = [*first, *_joined(words)]
    texts = [f"{name}:{_ranges(dims)}" + (f"@{end}" if end else "") for name, dims, end in joined]
    return " ".join(texts) or "absolute"


def _joined(
    words: Sequence[tuple[str, tuple[int, ...], str]],
) -> list[tuple[str, tuple[int, ...], str]]:
    """Words that differ only in their dimensions as one; rotations stay apart."""
    found: dict[tuple[str, str, tuple[int, ...]], tuple[int, ...]] = {}
    for name, dims, detail in words:
        key = (name, detail, dims if name in TURNS else ())
        found[key] = (*found.get(key, ()), *dims)
    return [
        (name, dims if name in TURNS else tuple(sorted(dims)), detail)
        for (name, detail, _), dims in found.items()
    ]


def _read_word(text: str, names: tuple[str, ...]) -> _Word:
    name, has_dims, rest = text.partition(":")
    if name not in NAMES:
        raise ValueError(unknown_name("way to represent actions", name, NAMES))
    places, has_detail, detail = rest.partition("@")
    if not has_dims and name in ("delta", "relative", "absolute"):
        return _Word(text, name, None, None)
    if not places:
        raise ValueError(f"{text!r} names no dimensions: {name}:0-2, or {name}:{names[0]}")
    dims = _read_dims(text, places, names, "action")
    return _Word(text, name, dims, detail if has_detail else None)


def _read_dims(text: str, places: str, names: tuple[str, ...], what: str) -> tuple[int, ...]:
    """Indices of dimensions that are given by index, range or name."""
    dims: list[int] = []
    for place in places.split(","):
        span = re.fullmatch(r"(\d+)(?:-(\d+))?", place)
        if place in names and not (span and span[2] is None):
            dims.append(names.index(place))
        elif span:
            first, last = int(span[1]), int(span[2] or span[1])
            if not first <= last < len(names):
                raise ValueError(
                    f"{text!r} names {what} dimension {place}, there are {len(names)}: 0 to "
                    f"{len(names) - 1}"
                )
            dims += range(first, last + 1)
        else:
            raise ValueError(f"{text!r}: {unknown_name(f'{what} dimension', place, names)}")
    return tuple(dims)


def _require_once(words: Sequence[_Word], names: tuple[str, ...]) -> None:
    """Refuse a dimension that the words of one name have twice."""
    dims = [dim for word in words for dim in word.dims or ()]
    twice = next((dim for place, dim in enumerate(dims) if dim in dims[:place]), None)
    if twice is not None:
        typed = " ".join(word.text for word in words)
        raise ValueError(f"dimension {twice} ('{names[twice]}') is named twice in {typed!r}")


def _references(
    words: Sequence[_Word],
    binary: set[int],
    action_names: tuple[str, ...],
    state_names: tuple[str, ...],
) -> tuple[dict[int, Reference], dict[int, int]]:
    """What each dimension is relative to, and the state dimension of those that are so."""
    reference: dict[int, Reference] = {}
    state_of: dict[int, int] = {}
    own = [word for word in words if word.name in REFERENCES]
    for word in sorted(own, key=lambda word: word.dims is None):  # those without dimensions last
        dims = word.dims
        known = _state_places(action_names, state_names)
        if dims is None:
            free = [d for d in range(len(action_names)) if d not in reference and d not in binary]
            dims = tuple(d for d in free if word.name != "relative" or d in known)
        for dim in dims:
            if dim in reference:
                raise ValueError(
                    f"dimension {dim} ('{action_names[dim]}') is both {reference[dim]} and "
                    f"{word.name}: name it once"
                )
            reference[dim] = next(name for name in REFERENCES if name == word.name)
        if word.name == "relative":
            state_of |= _states(word, dims, known, action_names, state_names)
    return dict(sorted(reference.items())), state_of


def _state_places(action_names: tuple[str, ...], state_names: tuple[str, ...]) -> dict[int, int]:
    """The state dimension of an action dimension: that of its name, or of its place where action
    and state are equally many."""
    found = {d: state_names.index(n) for d, n in enumerate(action_names) if n in state_names}
    if not found and len(action_names) == len(state_names):
        return {dim: dim for dim in range(len(action_names))}
    return found


def _states(
    word: _Word,
    dims: tuple[int, ...],
    known: dict[int, int],
    action_names: tuple[str, ...],
    state_names: tuple[str, ...],
) -> dict[int, int]:
    if not state_names:
        raise ValueError(
            f"{word.text!r} needs the state, and there is none: name its columns with --state-key "
            "(state_key=)"
        )
    if word.detail is not None:
        states = _read_dims(word.text, word.detail, state_names, "state")
        if len(states) != len(dims):
            raise ValueError(
                f"{word.text!r} names {len(dims)} action and {len(states)} state dimensions"
            )
        return dict(zip(dims, states, strict=True))
    lost = next((dim for dim in dims if dim not in known), None)
    if lost is not None or not dims:
        named = f"action '{action_names[lost or 0]}' has no state of its name"
        raise ValueError(
            f"{word.text!r}: {named}, and there are {len(action_names)} actions and "
            f"{len(state_names)} states: say which state belongs to it, as in relative:0-2@0-2"
        )
    return {dim: known[dim] for dim in dims}


def _turn(word: _Word, reference: dict[int, Reference], state_of: dict[int, int]) -> Turn:
    (source, target), dims = TURNS[word.name], word.dims or ()
    if len(dims) != FORMS[source]:
        raise ValueError(
            f"{word.text!r} names {len(dims)} dimensions, a rotation as {source} has "
            f"{FORMS[source]}"
        )
    own = {reference.get(dim, "absolute") for dim in dims}
    if len(own) > 1:
        raise ValueError(
            f"{word.text!r} is a rotation of which only a part is {' or '.join(sorted(own))}: a "
            "rotation is so as a whole"
        )
    turn = Turn(dims, source, target, own.pop())
    if word.detail is not None:
        turn = replace(turn, center=_values(word, len(dims)))
    if turn.reference == "relative":
        turn = replace(turn, state_dims=tuple(state_of[dim] for dim in dims))
    return turn


def _require_number(
    word: _Word, turned: Sequence[int], reference: dict[int, Reference], names: tuple[str, ...]
) -> None:
    """Refuse to unwrap or binarize what is a rotation, and to binarize what is a difference."""
    if word.name not in ("unwrap", "binary"):
        return
    for dim in word.dims or ():
        other = reference.get(dim, "absolute") if word.name == "binary" else "absolute"
        if dim in turned or other != "absolute":
            what = "part of a rotation" if dim in turned else other
            raise ValueError(
                f"dimension {dim} ('{names[dim]}') cannot be {word.name} and {what}: name it once"
            )


def _by_values(
    words: Sequence[_Word],
) -> dict[tuple[str, tuple[float, float] | None], tuple[int, ...]]:
    """The dimensions of each way to unwrap and to binarize, in order."""
    found: dict[tuple[str, tuple[float, float] | None], tuple[int, ...]] = {}
    for word in words:
        if word.name in ("unwrap", "binary"):
            key = (word.name, _two_values(word))
            found[key] = tuple(sorted((*found.get(key, ()), *(word.dims or ()))))
    return found


def _unwraps(
    dims: tuple[int, ...], ends: tuple[float, float], state_of: dict[int, int]
) -> list[Unwrap]:
    low, high = ends
    near = tuple(dim for dim in dims if dim in state_of)
    far = tuple(dim for dim in dims if dim not in state_of)
    found = [Unwrap(near, low, high, tuple(state_of[dim] for dim in near))] if near else []
    return [*found, *([Unwrap(far, low, high)] if far else [])]


def _two_values(word: _Word) -> tuple[float, float] | None:
    if word.detail is None:
        return None
    low, high = _values(word, 2)
    if not low < high:
        raise ValueError(f"{word.text!r}: {low:g} is not below {high:g}")
    return low, high


def _values(word: _Word, count: int) -> tuple[float, ...]:
    try:
        values = tuple(float(value) for value in (word.detail or "").split(","))
    except ValueError:
        values = ()
    if len(values) != count or not all(abs(value) < float("inf") for value in values):
        raise ValueError(f"{word.text!r} has {word.detail!r} after the @, expected {count} numbers")
    return values


def _ranges(dims: Sequence[int]) -> str:
    """Indices as typed: `0-2,5`, in their order."""
    spans: list[list[int]] = []
    for dim in dims:
        if spans and dim == spans[-1][-1] + 1:
            spans[-1].append(dim)
        else:
            spans.append([dim])
    return ",".join(str(s[0]) if len(s) == 1 else f"{s[0]}-{s[-1]}" for s in spans)


def _numbers(*values: float) -> str:
    return ",".join(f"{value:.9g}" for value in values)
