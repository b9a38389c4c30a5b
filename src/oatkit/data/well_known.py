"""Names under which datasets keep their actions and states, where they have no names of their own.

A name is taken only where it is the one that is known: of several, a user says which.
"""

from __future__ import annotations

from collections.abc import Collection

from oatkit.errors import DatasetError, unknown_name

ACTION_NAMES = ("action", "actions")
STATE_NAMES = tuple(
    f"{where}{name}"
    for where in ("observation.", "observation/", "observations/", "obs/", "")
    for name in (
        "state",
        "states",
        "qpos",
        "proprio",
        "robot_state",
        "joint_positions",
        "agent_pos",
    )
)


def find_action(keys: Collection[str], where: object) -> str:
    """The one column that is known as the action.

    Args:
        keys: Keys of the dataset's columns.
        where: Dataset or file, for errors.
    """
    known = [name for name in ACTION_NAMES if name in keys]
    if not known:
        raise DatasetError(f"{where}: {unknown_name('key', 'action', keys)}")
    if len(known) > 1:
        raise DatasetError(
            f"{where} has {' and '.join(known)}: say which is the action with --action-key "
            "(action_key=)"
        )
    return known[0]


def find_state(keys: Collection[str]) -> tuple[str, ...]:
    """The one column that is known as the state; none where there is none, or more than one."""
    known = [name for name in STATE_NAMES if name in keys]
    return (known[0],) if len(known) == 1 else ()
