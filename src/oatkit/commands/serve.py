"""`oatkit serve`: a policy behind a websocket, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from tyro.conf import Positional, UseAppendAction, arg

from oatkit.commands.sampling_options import SamplingFlags
from oatkit.policies import load_policy
from oatkit.policies.policy_table import choose_head
from oatkit.serve import PolicyServer, ServeConfig
from oatkit.serve.access import check_free, exposure, read_api_key, tls_context
from oatkit.serve.event_log import logging_to_stderr
from oatkit.storage.artifact import local_folder
from oatkit.types import Sampling

PARTS = ("config.json", "oatkit.json", "*.safetensors", "tokenizer/**/*", "backbone/**/*")
SWITCH_INTERVAL_S = 0.0005
"""How long inference may hold the interpreter while the event loop waits for it."""


@dataclass(frozen=True)
class Serve:
    """Serve a policy by openpi's websocket protocol: any openpi client drives it.

    Example:
        oatkit serve out/policy --port 8000 --budget auto
    """

    policy: Positional[Path]
    """Artifact: folder or hub id."""
    host: str = "127.0.0.1"
    """Address to listen on; only this machine by default."""
    port: int = 8000
    """0 for any that is free."""
    api_key_file: Annotated[Path | None, arg(metavar="FILE")] = None
    """Clients must send the key in this file as `Authorization: Api-Key ...`."""
    tls_cert: Annotated[Path | None, arg(metavar="FILE.pem")] = None
    """Certificate, for wss://."""
    tls_key: Annotated[Path | None, arg(metavar="FILE.pem")] = None
    """Its private key."""
    budget: int | Literal["auto"] | None = None
    """The most tokens where a request names none; all by default."""
    head: Literal["flow", "tokens"] | None = None
    """What acts, where a policy has both: its flow expert by default."""
    sampling: SamplingFlags = Sampling()
    map: UseAppendAction[tuple[str, ...]] = ()
    """KEY=observation.images.X (or observation.state, task) reads KEY as that; KEY= ignores it."""
    device: str | None = None
    """Where the policy runs: cuda where there is one, else cpu."""
    max_batch: int = 8
    """The most requests that are answered together."""
    max_queue: int = 64
    """The most requests that wait; others are told that the server is busy."""
    max_connections: int = 128
    """The most clients at a time."""
    max_message_mb: float = 32.0
    """The largest request."""
    timeout_s: float = 60.0
    """The longest a prediction may take."""
    idle_timeout_s: float = 600.0
    """A client that is silent for longer is disconnected."""
    drain_s: float = 30.0
    """How long requests may take to finish after SIGTERM."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Of the JSON lines on stderr; `debug` has one for every request."""


def run(options: Serve, console: Console) -> int:
    """Load, warm up, listen until SIGTERM or SIGINT, finish what was taken."""
    import torch

    config = ServeConfig(
        host=options.host,
        port=options.port,
        api_key=None if options.api_key_file is None else read_api_key(options.api_key_file),
        tls=tls_context(options.tls_cert, options.tls_key),
        max_batch=options.max_batch,
        max_queue=options.max_queue,
        max_connections=options.max_connections,
        max_message_bytes=int(options.max_message_mb * 2**20),
        timeout_s=options.timeout_s,
        idle_timeout_s=options.idle_timeout_s,
        drain_s=options.drain_s,
        budget=options.budget,
        sampling=options.sampling,
        key_map=options.map,
    )
    danger = exposure(
        config.host, has_key=config.api_key is not None, has_tls=config.tls is not None
    )
    if danger is not None:
        Console(stderr=True).print(f"[bold red]WARNING: {danger}[/]", soft_wrap=True)
    check_free(config.host, config.port)
    folder = local_folder(options.policy)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    policy = load_policy(folder).to(device)
    choose_head(policy, options.head)
    server = PolicyServer(policy, config, artifact_fingerprint(folder))
    console.print(f"warming up {policy}", markup=False, soft_wrap=True)

    def is_ready(url: str) -> None:
        console.print(
            f"serving {options.policy} at {url}\n"
            f"next: oatkit_client.Client({url!r}).infer(...), or any openpi client; ctrl-C stops",
            markup=False,
            soft_wrap=True,
        )

    with logging_to_stderr(options.log_level):
        server.start()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        gc.collect()
        gc.freeze()  # what is loaded stays: looking through it again costs deadlines
        asyncio.run(_until_signal(server, is_ready))
    console.print("stopped")
    return 0


async def _until_signal(server: PolicyServer, is_ready: Callable[[str], None]) -> None:
    """A second signal does not wait for what was taken."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def finish() -> None:
        stop.set()
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, finish)
    await server.run(stop, is_ready)


def artifact_fingerprint(folder: str | os.PathLike[str]) -> str:
    """Changes with every byte of what the policy is loaded from."""
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(file for part in PARTS for file in Path(folder).glob(part)):
        if file.is_file() and file.name != "README.md":
            digest.update(str(file.relative_to(folder)).encode())
            with file.open("rb") as data:
                while block := data.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()
