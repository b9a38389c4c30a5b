"""The keys of requests to a policy, with the changes that the flag `--map` makes."""

from __future__ import annotations

from collections.abc import Sequence

from oatkit_client.key_map import KeyMap
from oatkit_client.protocol import REQUEST_KEYS

from oatkit.errors import unknown_name
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.types.observation_keys import IMAGES, STATE


def request_keys(spec: ObservationSpec, changes: Sequence[str] = ()) -> KeyMap:
    """openpi's and LeRobot's own names of what a policy reads, with some changes.

    Args:
        spec: What the policy reads.
        changes: `A=B` reads A of a request as LeRobot's B; `A=` leaves A unread.
    """
    state = [] if spec.state is None else [STATE]
    keys = KeyMap.for_parts([*state, *(f"{IMAGES}{camera}" for camera in spec.cameras)])
    names, preferred = dict(keys.names), dict(keys.preferred)
    for change in changes:
        key, is_change, name = change.partition("=")
        if not key or not is_change or key in REQUEST_KEYS:
            raise ValueError(f"--map {change}: expected KEY=OBSERVATION, or KEY= to ignore KEY")
        if name and name not in preferred:
            raise ValueError(f"--map {change}: {unknown_name('key', name, preferred)}")
        names[key] = name or None
        if name:
            preferred[name] = key
    return KeyMap(names, preferred)
