"""One training on several machines: `torchrun` on each, which starts a process for each GPU.

    node 0 (head)    torchrun --node-rank 0 --master-addr HEAD    ranks 0 to 7
    node 1           torchrun --node-rank 1 --master-addr HEAD    ranks 8 to 15

`torchrun` gives every process RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, from which
Accelerate makes one group of all; it takes NCCL on GPUs and Gloo on CPUs.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from oatkit.shards.launchers.launcher import CommandTask

VISIBLE = "CUDA_VISIBLE_DEVICES"
PORTS = range(20000, 30000)
"""Ports of jobs of a cluster, which all nodes compute from the job's number."""


@dataclass(frozen=True)
class TorchNodes:
    """The machines of one training.

    Attributes:
        words: The command, without `oatkit`.
        num_nodes: Number of machines.
        num_gpus: Number of GPUs, and so of processes, of each machine.
        config: File of Accelerate's settings, for FSDP; `torchrun` alone starts it without one.
    """

    words: tuple[str, ...]
    num_nodes: int
    num_gpus: int
    config: Path | None = None

    def __post_init__(self) -> None:
        for name, value in (("nodes", self.num_nodes), ("gpus", self.num_gpus)):
            if value < 1:
                raise ValueError(f"--{name} is {value}, expected 1 or more")
        if self.config is not None and not self.config.is_file():
            raise ValueError(f"--config is {self.config}, which does not exist")

    def task(self, node: int, head: str, port: int) -> CommandTask:
        """What runs on one of the machines.

        Args:
            node: Number of the machine, from 0.
            head: Address of the first machine, where all processes meet.
            port: Port there.
        """
        started = ("-m", "oatkit.cli", *self.words)
        module = "torch.distributed.run"
        how: dict[str, Any] = {
            **{"nnodes": self.num_nodes, "node-rank": node, "nproc-per-node": self.num_gpus},
            **{"master-addr": head, "master-port": port},
        }
        if self.config is not None:
            module = "accelerate.commands.launch"
            how = {
                **{"config_file": self.config, "num_machines": self.num_nodes},
                **{"num_processes": self.num_nodes * self.num_gpus, "machine_rank": node},
                **{"main_process_ip": head, "main_process_port": port},
            }
        flags = [word for name, value in how.items() for word in (f"--{name}", str(value))]
        # told to end, torchrun ends the processes of the GPUs, which write a checkpoint first
        ending = signal.SIGTERM
        return CommandTask(("-m", module, *flags, *started), is_shown=node == 0, ending=ending)

    def here(self) -> list[CommandTask]:
        """The tasks of all machines, all of them on this one, to try a command out."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        return [
            replace(self.task(node, "127.0.0.1", port), environment=own)
            for node, own in enumerate(self._shares(visible_gpus()))
        ]

    def _shares(self, visible: Sequence[str]) -> list[dict[str, str]]:
        """The GPUs of each node, where there are any on this machine."""
        if not visible:
            return [{}] * self.num_nodes
        needed = self.num_nodes * self.num_gpus
        if len(visible) < needed:
            raise ValueError(
                f"--nodes {self.num_nodes} --gpus {self.num_gpus} on this machine needs {needed} "
                f"GPUs, and it has {len(visible)}"
            )
        firsts = range(0, needed, self.num_gpus)
        return [{VISIBLE: ",".join(visible[i : i + self.num_gpus])} for i in firsts]


def visible_gpus() -> list[str]:
    """The GPUs that a process started here sees, as CUDA counts them."""
    import torch

    numbers = [str(number) for number in range(torch.cuda.device_count())]
    named = os.environ.get(VISIBLE, "")
    return named.split(",")[: len(numbers)] if named else numbers


def job_port(job: str) -> int:
    """The port of a cluster's job, the same on all its machines.

    Args:
        job: Number of the job, such as `1234` or `1234_7` in an array.
    """
    digits = "".join(filter(str.isdigit, job)) or "0"
    return PORTS[int(digits) % len(PORTS)]
