"""How a policy is served: addresses, limits and defaults of requests."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field

from oatkit.types import Budget, Sampling


@dataclass(frozen=True)
class ServeConfig:
    """How a policy is served."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = 8000
    """Port to listen on; 0 for any that is free."""
    api_key: str | None = field(default=None, repr=False)
    """Key that clients must send; None where everybody may connect."""
    tls: ssl.SSLContext | None = None
    """Certificate with its key, for `wss://`; None for `ws://`."""
    max_batch: int = 8
    """Maximum number of requests that are answered together; each counts as often as it has
    draws."""
    max_queue: int = 64
    """Maximum number of requests that wait; to others the server says that it is busy."""
    max_connections: int = 128
    """Maximum number of clients at a time."""
    max_message_bytes: int = 32 << 20
    """Maximum size of a message."""
    timeout_s: float = 60.0
    """Maximum time for a prediction, and for a client to take its reply."""
    idle_timeout_s: float = 600.0
    """Time after which a silent client is disconnected."""
    drain_s: float = 30.0
    """Maximum time that requests may take to finish once the server is to stop."""
    budget: Budget = None
    """Maximum number of tokens where a request names none."""
    sampling: Sampling = Sampling()
    """How ids are chosen where a request does not say. With a seed, an episode of the same
    observations gets the same actions."""
    refuse_out_of_range: bool = False
    """Whether a state far outside of the training data is an error; otherwise a warning."""
    key_map: tuple[str, ...] = ()
    """Changes of request keys, see `request_keys`."""

    def __post_init__(self) -> None:
        for name in ("max_batch", "max_queue", "max_connections", "max_message_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        for name in ("timeout_s", "idle_timeout_s", "drain_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected more than 0")
        if not 0 <= self.port < 65536:
            raise ValueError(f"port is {self.port}, expected 0 to 65535")
