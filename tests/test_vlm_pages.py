"""Every command of the pages on vision-language policies runs, on backbones with random weights.

The commands are those of the pages. A small backbone of the same family takes the place of a
published one, a small dataset that of demonstrations, few steps that of many, and a CPU that of a
GPU; nothing else is changed.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

import oatkit
from oatkit import cli
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.policies.vlm.backbones.loading import write_scratch
from oatkit.train import read_log
from tests.test_docs import ROOT, commands
from tests.train.two_ranks import launch_two

PAGES = (ROOT / "docs/vlm.md", ROOT / "docs/recipes/vlm.md")
SIZE = ScratchSize(width=16, num_layers=2, vision_width=16, vision_layers=1)
SHORT = ("--batch-size", "4", "--checkpoint-every", "2", "--workers", "0")
NOT_HERE = ("oatkit data make",)
"""Commands that only make demonstrations; `tests/jobs` runs them."""


def published(name: str) -> str | None:
    """The family that a published checkpoint belongs to; None for anything else."""
    return next((f for f, row in FAMILIES.items() if row.example == name), None)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with what the pages take for granted."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("out/metaworld", "out/images"):
        folder = Path(name)
        folder.mkdir(parents=True)
        for index in range(10):
            np.savez(
                folder / f"{index:02d}.npz",
                **{
                    "action": rng.uniform(-1, 1, size=(40, 4)),
                    "observation.state": rng.normal(size=(40, 4)),
                    "observation.images.corner2": rng.integers(
                        256, size=(40, 32, 32, 3), dtype=np.uint8
                    ),
                },
                task="Push the drawer shut.",
            )
    dataset = oatkit.open_dataset("out/metaworld")
    for family in FAMILIES:
        write_scratch(family, Path("backbones", family), SIZE, dataset.tasks)
    oatkit.train_tokenizer(
        dataset, "oat-pow2", "out/oat-pow2", preset="tiny", num_tokens=16, train={"steps": 2}
    )
    return tmp_path


def dry(line: str, steps: int = 4) -> list[str]:
    """The words of a command, made small enough for a CPU."""
    words = [w if published(w) is None else f"backbones/{published(w)}" for w in shlex.split(line)]
    if "--device" in words:
        words[words.index("--device") + 1] = "cpu"
    if "policy train" in line:
        words += ["--steps", str(steps), *SHORT]
        if "vlm-tc" in line or "--expert-only" in line:
            words += ["--expert-width", "16"]
    if "vlm check" in line and "--image-size" not in line:
        words += ["--image-size", "32", "--expert-width", "16", "--batch-size", "2"]
    if "policy eval" in line:
        words += ["--tasks", "drawer-close", "--episodes", "1", "--workers", "1"]
    return words


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_the_commands_of_a_page_run_in_order(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("metaworld", reason="needs the extra metaworld")
    lines = [line for line in commands(page) if line.startswith("oatkit ")]
    lines = [line for line in lines if not line.startswith(NOT_HERE)]
    assert len(lines) >= 6
    for line in lines:
        assert cli.main(dry(line)[1:]) == 0, (line, capsys.readouterr().err)


LAUNCHED = [line for line in commands(PAGES[0]) if line.startswith("accelerate launch ")]
STARTED = next(line for line in commands(PAGES[0]) if "--policy vlm-ar" in line)


def launch(line: str, steps: int, *more: str) -> subprocess.Popen[str]:
    """Start a command of several devices on two processes of a CPU, with the launcher's bf16."""
    asked = line.split("policy train")[1].replace("...", "")
    words = dry(f"{STARTED} {asked}".replace("vlm-ar", "vlm-tc"), steps)[1:]
    return launch_two(*words, *more, is_sharded="fsdp.yaml" in line, precision="bf16")


@pytest.mark.parametrize("line", LAUNCHED)
def test_two_processes_are_stopped_and_go_on(line: str, home: Path) -> None:
    """What Slurm does when it needs the machine: SIGTERM, and later the same command again."""
    out = home / "out/vlm"
    flags = ["--flow-draws", "2"]
    if "ddp" in line:
        flags += ["--lora-rank", "2", "--dtype", "bfloat16"]
    first = launch(line, 1000, *flags)
    began = time.monotonic()
    while not list((out / "checkpoints").glob("step-*")):
        assert first.poll() is None, first.communicate()[0]
        assert time.monotonic() - began < 240
        time.sleep(0.2)
    first.send_signal(signal.SIGTERM)
    said, _ = first.communicate(timeout=120)
    assert first.returncode != 0
    assert not (out / "config.json").exists(), said
    saved = max(int(p.name.split("-")[1]) for p in (out / "checkpoints").glob("step-*"))
    assert 0 < saved < 1000, said
    second = launch(line, saved + 2, *flags)
    said, _ = second.communicate(timeout=240)
    assert second.returncode == 0, said
    assert read_log(out)[-1]["step"] == saved + 2
    policy = oatkit.load_policy(out)
    assert policy.kind == "vlm-tc"
    assert cli.main(["policy", "measure", str(out), "--data", "out/metaworld"]) == 0
