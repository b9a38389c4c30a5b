"""The simulators by name."""

from __future__ import annotations

from oatkit.envs.metaworld import METAWORLD
from oatkit.envs.pusht import PUSHT
from oatkit.envs.simulator import SimulatorKind
from oatkit.errors import unknown_name

SIMULATORS = {kind.name: kind for kind in (METAWORLD, PUSHT)}


def simulator_kind(name: str) -> SimulatorKind:
    if name not in SIMULATORS:
        raise ValueError(unknown_name("simulator", name, SIMULATORS))
    return SIMULATORS[name]
