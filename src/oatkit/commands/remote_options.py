"""The flags of a policy on another machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import UseAppendAction, arg

from oatkit.evaluation.queried_policy import OPENPI_SIZE

if TYPE_CHECKING:
    from oatkit.evaluation.remote_policy import RemotePolicy


@dataclass(frozen=True)
class RemoteOptions:
    """A policy on another machine, in place of an artifact here."""

    remote: Annotated[str | None, arg(metavar="ws://HOST:PORT")] = None
    """Server that has the policy: `oatkit serve`, or any that speaks openpi's protocol. Only the
    episodes run here, without torch."""
    api_key_file: Annotated[Path | None, arg(metavar="FILE")] = None
    """File with the key that the server asks for."""
    map: UseAppendAction[tuple[str, ...]] = ()
    """KEY=observation.images.X (or observation.state, task) sends that part as KEY, to a server
    that does not tell what its policy reads, as those of openpi do not."""
    image_size: tuple[int, int] = OPENPI_SIZE
    """Height and width of the images for such a server."""
    embodiment: str | None = None
    """Name of the robot, where the server acts for several."""


RemoteFlags = Annotated[RemoteOptions, arg(name="")]
"""A field of this type adds `--remote` and its companions to a command."""


def open_remote(options: RemoteOptions, timeout_s: float) -> RemotePolicy | None:
    """The policy that the flags name; None where they name none, and other flags are then wrong.

    Args:
        options: The flags.
        timeout_s: Longest time of a query.
    """
    if options.remote is None:
        for name in ("api_key_file", "map", "image_size", "embodiment"):
            if getattr(options, name) != getattr(RemoteOptions(), name):
                raise ValueError(f"--{name.replace('_', '-')} is for --remote: leave it out")
        return None
    from oatkit.evaluation.remote_policy import RemotePolicy

    key = None if options.api_key_file is None else options.api_key_file.read_text()
    return RemotePolicy(
        options.remote,
        key,
        keys=options.map,
        image_size=options.image_size,
        timeout_s=timeout_s,
        embodiment=options.embodiment,
    )
