"""Which device a name means on machines with and without GPUs, and when clocks may be read."""

from __future__ import annotations

import pytest
import torch

from oatkit.nn.device import describe_device, resolve_device, synchronize, to_float64
from tests.nn.pretended_devices import pretend_cuda, pretend_mps


def test_auto_takes_the_fastest_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve_device() == torch.device("cpu")
    pretend_mps(monkeypatch)
    assert resolve_device("auto") == torch.device("mps")
    pretend_cuda(monkeypatch)
    assert resolve_device("auto") == torch.device("cuda:0")


def test_names_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_cuda(monkeypatch)
    assert resolve_device("cuda") == torch.device("cuda:0")
    assert resolve_device("cuda:1") == torch.device("cuda:1")
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device(torch.device("meta")) == torch.device("meta")


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "mps", "gpu", "meta"])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(ValueError, match=f"there is no device '{name}' here, only cpu"):
        resolve_device(name)


def test_the_refusal_names_all_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_cuda(monkeypatch)
    with pytest.raises(ValueError, match="no device 'cuda:2' here, only cuda:0, cuda:1, cpu"):
        resolve_device("cuda:2")


def test_a_launcher_gives_each_process_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """On eight GPUs a number would put all eight processes on one of them."""
    pretend_cuda(monkeypatch, count=8)
    monkeypatch.setenv("WORLD_SIZE", "16")
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert resolve_device("auto") == resolve_device("cuda") == torch.device("cuda:3")
    assert resolve_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="leave --device cuda:1 out, or give cuda or cpu"):
        resolve_device("cuda:1")


def test_processes_of_a_launcher_on_a_mac_use_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """MPS has no collectives."""
    pretend_mps(monkeypatch)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert resolve_device("auto") == torch.device("cpu")


def test_descriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_cuda(monkeypatch)
    assert describe_device(torch.device("cuda:1")) == "cuda:1 (NVIDIA A100)"
    assert describe_device(torch.device("cpu")) == "the CPU"
    assert describe_device(torch.device("mps")) == "the GPU of this Mac (mps)"


def test_only_asynchronous_devices_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: waited.append(str(device)))
    monkeypatch.setattr(torch.mps, "synchronize", lambda: waited.append("mps"))
    for name in ("cpu", "meta", "cuda:1", "mps"):
        synchronize(torch.device(name))
    assert waited == ["cuda:1", "mps"]


def test_float64() -> None:
    values = to_float64(torch.tensor([1.5]))
    assert values.dtype == torch.float64
    assert values.tolist() == [1.5]


def test_a_device_without_a_number_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """`torch.cuda.set_device` wants one, and every process of a launcher has its own."""
    pretend_cuda(monkeypatch, count=8)
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert resolve_device(torch.device("cuda")) == torch.device("cuda", 3)
    assert resolve_device(torch.device("cuda", 5)) == torch.device("cuda", 5)


def test_a_launcher_that_is_told_to_use_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """`accelerate launch --cpu` computes there; a line that names a GPU would be wrong."""
    pretend_cuda(monkeypatch)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "True")
    assert resolve_device("auto") == torch.device("cpu")
    with pytest.raises(ValueError, match="only cpu, because the launcher was told to use the CPU"):
        resolve_device("cuda")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "False")
    assert resolve_device("auto") == torch.device("cuda:0")
