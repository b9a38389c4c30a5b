"""A message becomes a request: its observation and its options are read and checked."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import NoneType
from typing import Any, cast, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray
from oatkit_client.errors import shortened
from oatkit_client.key_map import KeyMap
from oatkit_client.protocol import REQUEST_KEYS, RequestOptions
from oatkit_client.training_range import FarValue, TrainingRange
from oatkit_client.wire import unpack

from oatkit.errors import unknown_name
from oatkit.policies import Policy
from oatkit.policies.generation.budget_limits import policy_budget
from oatkit.policies.generation.committed_actions import takes_committed
from oatkit.policies.observation.episode_reader import EpisodeReader
from oatkit.policies.observation.observation_reading import as_array
from oatkit.policies.observation.observations import Observations
from oatkit.serve.latency_table import deadline_budgets
from oatkit.types import Budget, Sampling
from oatkit.types.observation_keys import IMAGES, STATE, TASK

MAX_PROMPT = 2000
"""Maximum number of characters of a prompt: to look for the task closest to a text takes more than
linear time."""
MAX_NAMES = 8
"""Maximum number of state dimensions that an error names one by one."""
MAX_DRAWS = 64
"""Maximum number of draws of a request, which must not keep a server busy."""
SAMPLING_RULES = get_type_hints(Sampling)
"""Type of each sampling rule, by its name."""
UNKNOWN_KEY_HINT = (
    f" and perhaps {', '.join(REQUEST_KEYS)}; `oatkit serve --map` renames or ignores keys"
)


@dataclass(eq=False)
class Request:
    """One observation and how it is to be answered.

    Attributes:
        observations: What the policy read of the message, a batch of one with its history.
        budget: Maximum number of tokens.
        deadline: When the reply must leave, on the clock of `time.perf_counter`; None where any
            time will do.
        received: When the message came, on that clock.
        sampling: How ids are chosen.
        is_reset: Whether an episode begins.
        is_tokens_only: Whether the client decodes, so that the reply holds no actions.
        warnings: Sentences that the client's programmer should read once.
        far: Value of the state that is far outside of the training data, if there is one.
        embodiment: Name of the robot; None for one without.
        draws: Number of chunks to generate.
        committed: (steps, action_dim) actions that are executed before the chunk acts, raw units;
            None where nothing is committed.
    """

    observations: Observations
    budget: Budget
    deadline: float | None
    received: float
    sampling: Sampling = Sampling()
    is_reset: bool = False
    is_tokens_only: bool = False
    warnings: tuple[str, ...] = ()
    far: FarValue | None = None
    embodiment: str | None = None
    draws: int = 1
    committed: NDArray[np.float32] | None = None

    @cached_property
    def batch_key(self) -> tuple[object, ...]:
        """Equal for requests that may be answered together.

        Seeds may differ, since every request of a batch has its own random numbers, but either all
        have one or none.
        """
        is_seeded = self.sampling.seed is not None
        rules = replace(self.sampling, seed=None)
        num_committed = 0 if self.committed is None else len(self.committed)
        shapes = (self.observations.signature, self.draws, num_committed)
        return (self.embodiment, self.budget, self.deadline is None, rules, is_seeded, shapes)

    @property
    def is_plain(self) -> bool:
        """Whether it takes as long as predictions that were timed: one draw, nothing committed."""
        return self.draws == 1 and self.committed is None


class RequestReader:
    """Reads messages for a policy.

    Args:
        policy: Policy that is to answer.
        keys: How messages name the parts of an observation.
        budget: Maximum number of tokens where a request names none.
        sampling: How ids are chosen where a request does not say.
    """

    def __init__(
        self,
        policy: Policy,
        keys: KeyMap,
        budget: Budget = None,
        sampling: Sampling = Sampling(),
    ) -> None:
        self._policy = policy
        self._keys = keys
        self._budget = budget
        self._sampling = sampling
        normalization = None if policy.spec.state is None else policy.spec.state.to_json()
        names = policy.extras.get("data", {}).get("state_names", ())
        self._range = TrainingRange(normalization, names)
        self._possible_budgets: set[Budget] = {budget, None}
        self._lock = threading.Lock()  # text tokenizers are not for several threads at once

    def read(self, message: Mapping[Any, Any], received: float) -> Request:
        """The request in a message; a ValueError explains why there is none."""
        options = cast(RequestOptions, message)
        given = {key: value for key, value in message.items() if key not in REQUEST_KEYS}
        translated = self._keys.translate(given, UNKNOWN_KEY_HINT)
        try:
            observations, is_repeated = self._observations(translated)
        except ValueError as error:
            raise ValueError(self._keys.in_words_of_requests(str(error))) from error
        deadline_ms = _read_deadline_ms(options.get("deadline_ms"))
        request = Request(
            observations=observations,
            budget=_read_budget(options.get("budget"), self._budget),
            deadline=None if deadline_ms is None else received + deadline_ms / 1000,
            received=received,
            sampling=_read_sampling(options.get("sampling"), self._sampling),
            is_reset=_read_flag("reset", options.get("reset", False)),
            is_tokens_only=_read_flag("tokens_only", options.get("tokens_only", False)),
            warnings=tuple(self._warnings(is_repeated, deadline_ms is not None)),
            far=self._range.find_far(translated.get(STATE, ())),
            embodiment=robot_name(self._policy),
            draws=_read_draws(options.get("draws")),
            committed=_read_committed(options.get("committed"), self._policy),
        )
        if request.is_tokens_only and request.draws > 1:
            raise ValueError("draws are chunks: ask without tokens_only, or for one draw")
        if request.is_tokens_only and self._policy.head != "tokens":
            raise ValueError("this policy gives no tokens: ask without tokens_only")
        if request.is_tokens_only and not self._policy.tokens_suffice:
            raise ValueError(
                "this policy corrects chunks by what it sees, so that its tokens alone are not its "
                "actions: ask without tokens_only"
            )
        if request.budget not in self._possible_budgets:
            policy_budget(self._policy, request.budget)
            self._possible_budgets.add(request.budget)
        return request

    def _warnings(self, is_repeated: bool, has_deadline: bool) -> Iterator[str]:
        if is_repeated:
            yield (
                f"the policy reads {self._policy.spec.history} frames and got one, which was "
                "repeated: send them with a leading time axis"
            )
        if has_deadline and not deadline_budgets(self._policy):
            yield "this policy cannot stop early: deadline_ms is ignored"

    def _observations(self, given: Mapping[str, Any]) -> tuple[Observations, bool]:
        """What the policy reads, with its history, and whether one frame was repeated for that.

        None is a part that is missing.
        """
        parts = {key: value for key, value in given.items() if key != TASK and value is not None}
        arrays = {key: _array(key, value) for key, value in parts.items()}
        if len({_is_frame(key, array) for key, array in arrays.items()}) > 1:
            raise ValueError("some parts of the observation have a leading time axis, others none")
        task = {TASK: _task(given[TASK])} if TASK in given else {}
        num_frames = self._policy.spec.history
        if STATE in arrays:
            self._check_state_dim(arrays[STATE])
        if not all(_is_frame(key, array) for key, array in arrays.items()):
            for key, array in arrays.items():
                if len(array) != num_frames:
                    raise ValueError(
                        f"{key} is {array.shape}: {len(array)} frames, the policy reads "
                        f"{num_frames}"
                    )
            arrays = {key: array[None] for key, array in arrays.items()}
        reader = EpisodeReader(self._policy.read, num_frames)  # nothing is kept between requests
        with self._lock:
            observations, is_frame = reader.batch(arrays | task)
        return observations, is_frame and num_frames > 1

    def _check_state_dim(self, state: Any) -> None:
        """Refuse a state of another size, with the shapes that a request may have."""
        spec = self._policy.spec
        if spec.state is None or state.shape[-1] == spec.state_dim:
            return
        frames = f" or ({spec.history}, {spec.state_dim})" if spec.history > 1 else ""
        data = self._policy.extras.get("data", {})
        keys, names = data.get("state_keys", ()), data.get("state_names", ())
        named = f", read from {' and '.join(keys)} in training" if keys else ""
        if names:
            shown = names if len(names) <= MAX_NAMES else [names[0], names[1], "...", names[-1]]
            named += f": {', '.join(shown)}"
        raise ValueError(f"{STATE} is {state.shape}, expected ({spec.state_dim},){frames}{named}")


def read_message(data: bytes | str) -> dict[Any, Any]:
    """The keys and values of a message."""
    if isinstance(data, str):
        raise ValueError("the message is a text frame, expected a binary one with msgpack")
    message = unpack(data)
    if not isinstance(message, dict):
        raise ValueError(f"the message is a {type(message).__name__}, expected a dict")
    return message


def robot_name(policy: Policy) -> str | None:
    """The name of the robot that a policy acts for; None where it has none."""
    place = policy.spec.embodiment
    return None if place is None else place.name


def _array(key: str, value: Any) -> Any:
    array = as_array(key, value)
    if key == STATE or array.dtype == np.float64:
        with np.errstate(over="ignore"):  # what is too large is not finite then, and refused
            array = array.astype(np.float32)
    return array if array.flags.writeable else array.copy()


def _is_frame(key: str, array: Any) -> bool:
    """Whether an array is one frame, without a leading time axis."""
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
        raise ValueError(f"the prompt is {shortened(value)}, expected text")
    if len(text) > MAX_PROMPT:
        raise ValueError(f"the prompt has {len(text)} characters, expected at most {MAX_PROMPT}")
    return str(text)


def _read_budget(value: Any, default: Budget) -> Budget:
    if value is None:
        return default
    if isinstance(value, str) and value == "auto":
        return "auto"
    if not _is_number(value) or value != int(value):
        raise ValueError(
            f"budget is {shortened(value)}, expected a number of tokens or Euler steps, or 'auto'"
        )
    return int(value)


def _read_deadline_ms(value: Any) -> float | None:
    if value is None:
        return None
    if not _is_number(value) or value <= 0:
        raise ValueError(f"deadline_ms is {shortened(value)}, expected more than 0 milliseconds")
    return float(value)


def _read_sampling(value: Any, default: Sampling) -> Sampling:
    """The rules of a request; those that it leaves out are the default's."""
    if value is None:
        return default
    if not isinstance(value, Mapping):
        names = ", ".join(SAMPLING_RULES)
        raise ValueError(f"sampling is {shortened(value)}, expected a dict with any of {names}")
    for name in value:
        if name not in SAMPLING_RULES:
            raise ValueError(unknown_name("sampling rule", str(name)[:80], SAMPLING_RULES))
    return replace(default, **{name: _read_rule(name, given) for name, given in value.items()})


def _read_rule(name: str, value: Any) -> Any:
    kind = SAMPLING_RULES[name]
    kinds = get_args(kind) or (kind,)
    if value is None and NoneType in kinds:
        return None
    if _is_number(value) and float in kinds:
        return float(value)
    if _is_number(value) and int in kinds and value == int(value):
        return int(value)
    expected = "a number" if float in kinds else "a whole number"
    or_none = " or None" if NoneType in kinds else ""
    raise ValueError(f"sampling has {name} {shortened(value)}, expected {expected}{or_none}")


def _read_draws(value: Any) -> int:
    if value is None:
        return 1
    if not _is_number(value) or value != int(value) or not 1 <= value <= MAX_DRAWS:
        raise ValueError(f"draws is {shortened(value)}, expected a number from 1 to {MAX_DRAWS}")
    return int(value)


def _read_committed(value: Any, policy: Policy) -> NDArray[np.float32] | None:
    """The committed actions of a request, (steps, action_dim); None where there are none."""
    if value is None:
        return None
    actions = _array("committed", value)
    if not actions.size:
        return None
    if not takes_committed(policy):
        raise ValueError(
            "this policy takes no committed actions, which are for tokens whose prefixes decode, "
            "such as those of oat: ask without committed"
        )
    horizon, dim = policy.tokenizer.horizon, policy.tokenizer.action_dim
    if actions.ndim != 2 or actions.shape[1] != dim or len(actions) > horizon:
        raise ValueError(
            f"committed is {actions.shape}, expected (steps, {dim}), and at most {horizon} steps"
        )
    if not np.isfinite(actions).all():
        raise ValueError("committed is not finite")
    return actions.astype(np.float32)


def _read_flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{key} is {shortened(value)}, expected true or false")
    return bool(value)


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, int | float | np.integer | np.floating)
    return is_real and not isinstance(value, bool) and math.isfinite(value)
