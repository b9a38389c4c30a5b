"""How a request names the parts of an observation: openpi's keys, or LeRobot's own.

openpi                    LeRobot
observation/state         observation.state
observation/front_image   observation.images.front
observation/front         observation.images.front
prompt                    task
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Mapping

from oatkit_client.errors import shortened

STATE, IMAGES, TASK = "observation.state", "observation.images.", "task"
"""LeRobot's keys; the name of a camera follows after `IMAGES`."""
OPENPI = "observation/"
PROMPT = "prompt"


@dataclass(frozen=True)
class KeyMap:
    """The keys of a request.

    Attributes:
        names: LeRobot's key for each key of a request; None for one that is left unread.
        preferred: The key of a request that messages and metadata show, for each of LeRobot's.
    """

    names: Mapping[str, str | None]
    preferred: Mapping[str, str]

    @classmethod
    def for_parts(cls, parts: Iterable[str]) -> KeyMap:
        """openpi's and LeRobot's own names of what a policy reads.

        Args:
            parts: LeRobot's keys of the state and of the images that the policy reads.
        """
        names: dict[str, str | None] = {TASK: TASK, PROMPT: TASK}
        preferred = {TASK: PROMPT}
        images = []
        for part in parts:
            names[part] = part
            if part == STATE:
                names[OPENPI + "state"] = part
                preferred[part] = OPENPI + "state"
            elif part != TASK:
                names[OPENPI + part[len(IMAGES) :]] = part
                images.append(part)
        for part in images:  # after the others: `wrist_image` is the camera of that name
            preferred[part] = OPENPI + part[len(IMAGES) :] + "_image"
            names.setdefault(preferred[part], part)
        return cls(names, preferred)

    def translate(self, observation: Mapping[Any, Any], hint: str = "") -> dict[str, Any]:
        """The same observation by LeRobot's keys.

        Args:
            observation: The keys of a request.
            hint: End of the sentence that refuses an unknown key.
        """
        translated: dict[str, Any] = {}
        for key, value in observation.items():
            if key not in self.names:
                expected = ", ".join(sorted(self.preferred.values()))
                raise ValueError(
                    f"the observation has the key {shortened(key)}, expected {expected}{hint}"
                )
            name = self.names[key]
            if name is None:
                continue
            if name in translated:
                raise ValueError(f"the observation has {name} twice, the second time as {key!r}")
            translated[name] = value
        return translated

    def in_words_of_requests(self, text: str) -> str:
        """A sentence about an observation, with LeRobot's keys replaced by those of requests."""
        for name in sorted(self.preferred, key=len, reverse=True):
            key = self.preferred[name]
            text = text.replace(f"'{name}'", f"'{key}'")
            text = text if name == TASK else text.replace(name, key)
        return text
