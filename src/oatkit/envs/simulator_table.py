"""The one list of simulators."""

from __future__ import annotations

from oatkit.envs.libero import LIBERO
from oatkit.envs.metaworld import METAWORLD
from oatkit.envs.pusht import PUSHT
from oatkit.envs.robosuite import ROBOSUITE
from oatkit.envs.simulator import SimulatorKind
from oatkit.errors import unknown_name

_KINDS = (
    METAWORLD,
    PUSHT,
    ROBOSUITE,
    *LIBERO.values(),
)

SIMULATORS = {kind.name: kind for kind in _KINDS}
"""Simulator by its name on the command line."""


def simulator_kind(name: str) -> SimulatorKind:
    """The simulator of a name; an unknown name is an error."""
    if name not in SIMULATORS:
        raise ValueError(unknown_name("simulator", name, SIMULATORS))
    return SIMULATORS[name]
