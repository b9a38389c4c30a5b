"""Which key of a request is which part of the observation: openpi's names to LeRobot's.

observation/state         observation.state
observation/front_image   observation.images.front
prompt                    task
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oatkit.errors import unknown_name
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.types.observation_keys import IMAGES, STATE, TASK

BUDGET, DEADLINE, RESET, TOKENS_ONLY = "budget", "deadline_ms", "reset", "tokens_only"
REQUEST_KEYS = (BUDGET, DEADLINE, RESET, TOKENS_ONLY)
"""What a request may hold beside the observation."""


@dataclass(frozen=True)
class KeyMap:
    """How requests name what the policy observes.

    Attributes:
        names: Key of a request to LeRobot's; None for one that is left unread.
        preferred: LeRobot's key to the one that messages and metadata show.
    """

    names: Mapping[str, str | None]
    preferred: Mapping[str, str]

    @classmethod
    def for_policy(cls, spec: ObservationSpec, changes: Sequence[str] = ()) -> KeyMap:
        """openpi's and LeRobot's own names, with some changes.

        Args:
            spec: What the policy reads.
            changes: `A=B` reads A of a request as LeRobot's B; `A=` leaves A unread.
        """
        names: dict[str, str | None] = {TASK: TASK, "prompt": TASK}
        preferred = {TASK: "prompt"}
        if spec.state is not None:
            names |= {STATE: STATE, "observation/state": STATE}
            preferred[STATE] = "observation/state"
        for camera in spec.cameras:
            known = f"{IMAGES}{camera}"
            names |= {known: known, f"observation/{camera}": known}
        for camera in spec.cameras:  # after the others: `wrist_image` is the camera of that name
            known = f"{IMAGES}{camera}"
            names.setdefault(f"observation/{camera}_image", known)
            preferred[known] = f"observation/{camera}_image"
        for change in changes:
            key, is_change, known = change.partition("=")
            if not key or not is_change or key in REQUEST_KEYS:
                raise ValueError(f"--map {change}: expected KEY=OBSERVATION, or KEY= to ignore KEY")
            if known and known not in preferred:
                raise ValueError(f"--map {change}: {unknown_name('key', known, preferred)}")
            names[key] = known or None
            if known:
                preferred[known] = key
        return cls(names, preferred)

    def translate(self, message: Mapping[Any, Any]) -> dict[str, Any]:
        """The observation by LeRobot's keys; an error names a key that is none."""
        observation: dict[str, Any] = {}
        for key, value in message.items():
            if key in REQUEST_KEYS:
                continue
            if key not in self.names:
                raise ValueError(
                    f"the request has the key {_short(key)}, expected {self.expected()} and "
                    f"perhaps {', '.join(REQUEST_KEYS)}; `oatkit serve --map` renames or ignores "
                    "keys"
                )
            known = self.names[key]
            if known is None:
                continue
            if known in observation:
                raise ValueError(f"the request has {known} twice, the second time as {key!r}")
            observation[known] = value
        return observation

    def in_words_of_requests(self, text: str) -> str:
        """A message about an observation by the keys that requests have."""
        for known in sorted(self.preferred, key=len, reverse=True):
            name = self.preferred[known]
            text = text.replace(f"'{known}'", f"'{name}'")
            text = text if known == TASK else text.replace(known, name)
        return text

    def expected(self) -> str:
        return ", ".join(sorted(self.preferred.values()))


def _short(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= 80 else text[:77] + "..."
