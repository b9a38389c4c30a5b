from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oatkit.shards.launchers.torch_nodes import PORTS, TorchNodes, job_port

TRAIN = ("policy", "train", "--out", "d")


def test_every_node_knows_the_head_and_its_number() -> None:
    from torch.distributed.run import get_args_parser

    for node, task in enumerate(TorchNodes(TRAIN, 2, 8).here()):
        assert task.words[:2] == ("-m", "torch.distributed.run")
        read = get_args_parser().parse_args(list(task.words[2:]))
        assert (read.nnodes, read.nproc_per_node, read.node_rank) == ("2", "8", node)
        assert (read.master_addr, read.module) == ("127.0.0.1", True)
        assert (read.training_script, *read.training_script_args) == ("oatkit.cli", *TRAIN)
        assert task.is_shown == (node == 0)
    ports = {
        task.words[task.words.index("--master-port") + 1] for task in TorchNodes(TRAIN, 3, 1).here()
    }
    assert len(ports) == 1


def test_nodes_on_one_machine_share_out_its_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    seen = [task.environment for task in TorchNodes(TRAIN, 2, 2).here()]
    assert seen == [{"CUDA_VISIBLE_DEVICES": "0,1"}, {"CUDA_VISIBLE_DEVICES": "2,3"}]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,3,7,1")
    assert [
        task.environment["CUDA_VISIBLE_DEVICES"] for task in TorchNodes(TRAIN, 4, 1).here()
    ] == [*("5", "3", "7", "1")]
    with pytest.raises(
        ValueError, match="--nodes 2 --gpus 8 on this machine needs 16 GPUs, and it"
    ):
        TorchNodes(TRAIN, 2, 8).here()
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert [task.environment for task in TorchNodes(TRAIN, 2, 8).here()] == [{}, {}]


def test_settings_of_accelerate_go_through_its_launcher() -> None:
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser

    config = Path("configs/accelerate/fsdp.yaml")
    task = TorchNodes(TRAIN, 2, 8, config).task(1, "head", 29500)
    assert task.words[:2] == ("-m", "accelerate.commands.launch")
    read, *_ = _validate_launch_command(launch_command_parser().parse_args(list(task.words[2:])))
    assert (read.num_processes, read.num_machines, read.machine_rank) == (16, 2, 1)
    assert (read.main_process_ip, read.main_process_port) == ("head", 29500)
    assert (read.use_fsdp, read.module) == (True, True)
    assert (read.training_script, *read.training_script_args) == ("oatkit.cli", *TRAIN)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ((0, 8), "--nodes is 0, expected 1 or more"),
        ((2, 0), "--gpus is 0, expected 1 or more"),
        ((2, 8, Path("no.yaml")), "--config is no.yaml, which does not exist"),
    ],
)
def test_wrong_numbers(given_: tuple[int, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TorchNodes(TRAIN, *given_)


@given(st.integers(0, 10**12), st.integers(0, 10**6))
def test_all_nodes_of_a_job_compute_one_port(job: int, array: int) -> None:
    for name in (str(job), f"{job}_{array}"):
        assert job_port(name) == job_port(name)
        assert job_port(name) in PORTS
