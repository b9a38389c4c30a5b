"""A message becomes a request: its observation checked, its budget and deadline known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from oatkit_client.wire import unpack

from oatkit.policies.generation.prediction import resolve_budget
from oatkit.policies.observation.observation_reading import as_array
from oatkit.serve.key_map import BUDGET, DEADLINE, RESET, TOKENS_ONLY, KeyMap
from oatkit.serve.served_policy import ServedPolicy, speaks_tokens
from oatkit.types import Budget
from oatkit.types.observation_keys import IMAGES, STATE, TASK

MAX_PROMPT = 2000
"""Characters; to look for the closest task to a text takes longer than its length."""


@dataclass(eq=False)
class Request:
    """One observation and how it is to be answered.

    Attributes:
        observation: LeRobot's keys; arrays with their history, (history, ...).
        budget: The most tokens.
        deadline: When the reply must leave, on the clock of `time.perf_counter`; None for no hurry.
        received: When the message came, on that clock.
        is_reset: Whether an episode begins.
        is_tokens_only: Whether the client decodes, so that the reply holds no actions.
        is_repeated: Whether one frame stands for the whole history.
        generator: Of the draws; torch's own where None.
    """

    observation: dict[str, Any]
    budget: Budget
    deadline: float | None
    received: float
    is_reset: bool = False
    is_tokens_only: bool = False
    is_repeated: bool = False
    generator: torch.Generator | None = field(default=None, repr=False)

    @cached_property
    def signature(self) -> tuple[Any, ...]:
        """Equal for observations that stack."""
        return tuple(
            (key, getattr(value, "shape", None), str(getattr(value, "dtype", "")))
            for key, value in sorted(self.observation.items())
        )


class RequestReader:
    """Reads messages for a policy.

    Args:
        policy: Checks the observations.
        keys: How messages name them.
        budget: Where the request names none.
    """

    def __init__(self, policy: ServedPolicy, keys: KeyMap, budget: Budget = None) -> None:
        self._policy = policy
        self._keys = keys
        self._budget = budget

    def read(self, data: bytes | str, received: float) -> Request:
        """The request in a message; a ValueError says what is wrong with it."""
        if isinstance(data, str):
            raise ValueError("the message is a text frame, expected a binary one with msgpack")
        message = unpack(data)
        if not isinstance(message, dict):
            raise ValueError(f"the message is a {type(message).__name__}, expected a dict")
        given = self._keys.translate(message)
        try:
            observation, is_repeated = self._observation(given)
        except ValueError as error:
            raise ValueError(self._keys.in_words_of_requests(str(error))) from error
        deadline_ms = _deadline_ms(message.get(DEADLINE))
        is_tokens_only = _flag(message, TOKENS_ONLY)
        if is_tokens_only and not speaks_tokens(self._policy):
            raise ValueError(f"this policy gives no tokens: ask without {TOKENS_ONLY}")
        budget = _budget(message.get(BUDGET), self._budget)
        if budget is not None:
            resolve_budget(self._policy.tokenizer, self._policy.schedule, budget)
        return Request(
            observation=observation,
            budget=budget,
            deadline=None if deadline_ms is None else received + deadline_ms / 1000,
            received=received,
            is_reset=_flag(message, RESET),
            is_tokens_only=is_tokens_only,
            is_repeated=is_repeated,
        )

    def _observation(self, given: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Arrays with their history, and whether one frame had to be repeated for it.

        None is a part that is missing.
        """
        parts = {key: value for key, value in given.items() if key != TASK and value is not None}
        arrays = {key: _array(key, value) for key, value in parts.items()}
        is_single = {_is_single(key, array) for key, array in arrays.items()}
        if len(is_single) > 1:
            raise ValueError("some parts of the observation have a leading time axis, others none")
        tasks = {TASK: _task(given[TASK])} if TASK in given else {}
        history = self._policy.spec.history
        if is_single == {False}:
            for key, array in arrays.items():
                if len(array) != history:
                    raise ValueError(
                        f"{key} is {array.shape}: {len(array)} frames, the policy reads {history}"
                    )
            batch = {key: array[None] for key, array in arrays.items()}
            self._policy.read(batch | {key: [task] for key, task in tasks.items()})
            return arrays | tasks, False
        self._policy.read(arrays | tasks)
        framed = {key: np.repeat(array[None], history, axis=0) for key, array in arrays.items()}
        return framed | tasks, history > 1


def _array(key: str, value: Any) -> Any:
    array = as_array(key, value)
    if key == STATE or array.dtype == np.float64:
        with np.errstate(over="ignore"):  # what is too large is not finite then, and refused
            array = array.astype(np.float32)
    return array if array.flags.writeable else array.copy()


def _is_single(key: str, array: Any) -> bool:
    frame_ndim = 3 if key.startswith(IMAGES) else 1
    if array.ndim not in (frame_ndim, frame_ndim + 1):
        what = "(height, width, 3)" if frame_ndim == 3 else "(state_dim,)"
        raise ValueError(
            f"{key} is {array.shape}, expected {what}, or that with a leading time axis"
        )
    return bool(array.ndim == frame_ndim)


def _task(value: Any) -> str:
    text = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if not isinstance(text, str):
        raise ValueError(f"the prompt is {_short(value)}, expected text")
    if len(text) > MAX_PROMPT:
        raise ValueError(f"the prompt has {len(text)} characters, expected at most {MAX_PROMPT}")
    return str(text)


def _budget(value: Any, default: Budget) -> Budget:
    if value is None:
        return default
    if isinstance(value, str) and value == "auto":
        return "auto"
    if not _is_number(value) or value != int(value):
        raise ValueError(f"{BUDGET} is {_short(value)}, expected a number of tokens or 'auto'")
    return int(value)


def _deadline_ms(value: Any) -> float | None:
    if value is None:
        return None
    if not _is_number(value) or value <= 0:
        raise ValueError(f"{DEADLINE} is {_short(value)}, expected more than 0 milliseconds")
    return float(value)


def _flag(message: Mapping[Any, Any], key: str) -> bool:
    value = message.get(key, False)
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{key} is {_short(value)}, expected true or false")
    return bool(value)


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, int | float | np.integer | np.floating)
    return is_real and not isinstance(value, bool) and math.isfinite(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
