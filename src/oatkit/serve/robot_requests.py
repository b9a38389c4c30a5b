"""Messages of several robots: each names its own, whose policy reads it."""

from __future__ import annotations

from collections.abc import Mapping

from oatkit_client.errors import shortened

from oatkit.errors import unknown_name
from oatkit.serve.request import Request, RequestReader, read_message


class RobotRequests:
    """Reads messages for the robots of a server.

    Args:
        readers: Reads the messages of each robot, by its name; None for a robot without one.
    """

    def __init__(self, readers: Mapping[str | None, RequestReader]) -> None:
        self._readers = readers

    def read(self, data: bytes | str, received: float) -> Request:
        """The request in a message; a ValueError explains why there is none."""
        message = read_message(data)
        return self._readers[self._robot(message.get("embodiment"))].read(message, received)

    def _robot(self, name: object) -> str | None:
        """The robot that a message is of."""
        known = [robot for robot in self._readers if robot is not None]
        if name is None:
            if len(self._readers) > 1:
                raise ValueError(
                    "this server acts for several robots: name one of "
                    f"{', '.join(known)} under the key 'embodiment'"
                )
            return next(iter(self._readers))
        if not isinstance(name, str):
            raise ValueError(f"embodiment is {shortened(name)}, expected the name of a robot")
        if not known:
            raise ValueError("this policy is for one robot without a name: leave embodiment out")
        if name not in known:
            raise ValueError(unknown_name("embodiment", name[:80], known))
        return name
