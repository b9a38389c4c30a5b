"""`oatkit serve`: a policy behind a websocket, until a signal stops it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Console
from tyro.conf import Positional, UseAppendAction, arg

from oatkit.commands.device_options import DeviceFlag, DtypeFlag, announce_device
from oatkit.commands.sampling_options import DecodingFlag, SamplingFlags
from oatkit.commands.text_output import print_lines
from oatkit.jobs.policy_serving import serve_until_stopped
from oatkit.nn.device import Device
from oatkit.policies import Policy, load_policies, load_policy
from oatkit.policies.policy_artifact import robots_of
from oatkit.policies.policy_table import use_cuda_graphs
from oatkit.serve import PolicyServer, ServeConfig
from oatkit.serve.access import check_free, exposure, read_api_key, tls_context
from oatkit.serve.event_log import logging_to_stderr
from oatkit.storage.artifact import local_folder
from oatkit.types import Budget, Head, Sampling


@dataclass(frozen=True)
class Serve:
    """Serve a policy by openpi's websocket protocol: any openpi client drives it.

    Example:
        oatkit serve out/policy --port 8000 --budget auto
        oatkit serve out/robots          (requests name their robot: "embodiment")
    """

    policy: Positional[Path]
    """Artifact: folder or hub id."""
    host: str = "127.0.0.1"
    """Address to listen on; only this machine by default."""
    port: int = 8000
    """Port to listen on; 0 for any that is free."""
    api_key_file: Annotated[Path | None, arg(metavar="FILE")] = None
    """Clients must send the key in this file as `Authorization: Api-Key ...`."""
    tls_cert: Annotated[Path | None, arg(metavar="FILE.pem")] = None
    """Certificate, for wss://."""
    tls_key: Annotated[Path | None, arg(metavar="FILE.pem")] = None
    """Private key of the certificate."""
    budget: Budget = None
    """Maximum number of tokens, or of Euler steps of a flow expert, where a request names none; all
    by default."""
    head: Head | None = None
    """What acts, where a policy has both: its flow expert by default."""
    decoding: DecodingFlag = None
    sampling: SamplingFlags = Sampling()
    map: UseAppendAction[tuple[str, ...]] = ()
    """KEY=observation.images.X (or observation.state, task) reads KEY as that; KEY= ignores it."""
    refuse_out_of_range: bool = False
    """Refuse a state far outside of the training data, such as degrees for radians; otherwise the
    client is warned once."""
    device: DeviceFlag = "auto"
    cuda_graphs: bool = False
    """Replay a vision-language policy as CUDA graphs, which spares the time of Python; compared on
    a CPU with the plain way, but not yet run on a GPU."""
    dtype: DtypeFlag = None
    max_batch: int = 8
    """Maximum number of requests that are answered together; each counts as often as it has
    draws."""
    max_queue: int = 64
    """Maximum number of requests that wait; others are answered that the server is busy."""
    max_connections: int = 128
    """Maximum number of clients at a time."""
    max_message_mb: float = 32.0
    """Maximum size of a request, in megabytes."""
    timeout_s: float = 60.0
    """Maximum time of a prediction."""
    idle_timeout_s: float = 600.0
    """A client that is silent for longer is disconnected."""
    drain_s: float = 30.0
    """How long requests may take to finish after SIGTERM."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Level of the JSON lines on stderr; `debug` has one for every request."""


def _open(options: Serve, device: Device, console: Console) -> Policy | dict[str, Policy]:
    """The policy, or those of all robots of an artifact for several."""
    how: dict[str, Any] = {"dtype": options.dtype, "device": device}
    if not robots_of(local_folder(options.policy)):
        policy = load_policy(options.policy, **how)
        robots = {"": policy}
    else:
        robots = load_policies(options.policy, **how)
        policy = next(iter(robots.values()))
    for one in robots.values():
        one.choose_decoder(options.head, options.decoding)
    if options.cuda_graphs:
        use_cuda_graphs(policy, options.max_batch)
    named = "" if "" in robots else f" for {', '.join(robots)}"
    print_lines(console, f"warming up {policy}{named}")
    return policy if "" in robots else robots


def run(options: Serve, console: Console) -> int:
    """Load, warm up, listen until SIGTERM or SIGINT, then answer the requests that wait."""
    if not options.max_message_mb * 2**20 >= 1:
        raise ValueError(f"max_message_mb is {options.max_message_mb:g}, expected a byte or more")
    device = announce_device(console, options.device, options.dtype)
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
        refuse_out_of_range=options.refuse_out_of_range,
    )
    danger = exposure(
        config.host, has_key=config.api_key is not None, has_tls=config.tls is not None
    )
    if danger is not None:
        Console(stderr=True).print(f"[bold red]WARNING: {danger}[/]", soft_wrap=True)
    check_free(config.host, config.port)
    server = PolicyServer(_open(options, device, console), config)

    def is_ready(url: str) -> None:
        arguments = repr(url)
        if options.api_key_file is not None:
            arguments += f", api_key=open({str(options.api_key_file)!r}).read()"
        print_lines(
            console,
            f"serving {options.policy} at {url}",
            f"next: oatkit_client.Client({arguments}).infer(...), or any openpi client; ctrl-C "
            "stops",
        )

    with logging_to_stderr(options.log_level):
        serve_until_stopped(server, is_ready)
    console.print("stopped")
    return 0
