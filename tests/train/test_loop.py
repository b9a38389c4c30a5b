"""The loop: restarts are bit for bit, processes see the same, divergence stops."""

from __future__ import annotations

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn

from oatkit.errors import ArtifactError, TrainingError
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.train import TrainConfig, train
from oatkit.train.checkpoint import Checkpoints
from oatkit.train.loop import sample_indices

ROOT = Path(__file__).parents[2]
CONFIG = TrainConfig(
    steps=8,
    batch_size=16,
    learning_rate=1e-2,
    schedule="cosine",
    warmup_steps=2,
    ema=0.9,
    weight_decay=0.01,
    checkpoint_every=3,
    log_every=2,
    evaluate_every=4,
)


class Regression:
    """A small job with noise in its loss and a buffer that follows the data."""

    def __init__(self, fail_at: int | None = None, *, scale: float = 1.0) -> None:
        torch.manual_seed(0)
        self.module: nn.Module = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        self.module.register_buffer("seen", torch.zeros(3))
        self._inputs = torch.randn(100, 3)
        self._fail_at, self._scale = fail_at, scale
        self.steps = 0
        self.num_samples = 100
        self._batch: Tensor | None = None

    def batch(self, indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
        return (self._inputs[indices],)

    def loss(self, batch: tuple[Tensor, ...], random: SampleRandom) -> TrainingLoss:
        (inputs,) = batch
        self._batch = inputs
        noisy = inputs + 0.1 * random.uniform(3)
        errors = (self.module(noisy).squeeze(1) - inputs.sum(dim=1)).square()
        loss = errors.mean()
        parts = {
            "error": loss,
            "positive": torch.where(inputs[:, 0] > 0, errors, math.nan),
            "negative": torch.where(inputs[:, 0] > 0, math.nan, errors),
            "never": torch.full_like(errors, math.nan),
        }
        scale = math.nan if self.steps == self._fail_at else self._scale
        return TrainingLoss(loss * scale, parts)

    def after_step(self, gather: Callable[[Tensor], Tensor], random: SampleRandom) -> None:
        self.steps += 1
        assert self._batch is not None
        self.module.seen.lerp_(gather(self._batch).mean(dim=0), 0.1)

    def evaluate(self) -> dict[str, float]:
        return {"size": float(sum(p.detach().abs().sum() for p in self.module.parameters()))}


def trained(out: Path, config: TrainConfig = CONFIG) -> dict[str, Tensor]:
    job = Regression()
    train(job, config, out, show_progress=False)
    return {k: v.clone() for k, v in job.module.state_dict().items()}


def assert_equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


def test_training_lowers_the_loss_and_logs(tmp_path: Path) -> None:
    job = Regression()
    train(job, replace(CONFIG, steps=200), tmp_path, show_progress=False)
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(2, 201, 2))
    assert rows[-1]["loss"] < 0.2 * rows[0]["loss"]
    assert [row["step"] for row in rows if "size" in row] == list(range(4, 201, 4))
    assert rows[0]["learning_rate"] == CONFIG.learning_rate
    assert not job.module.training


def test_parts_of_the_loss_are_logged(tmp_path: Path) -> None:
    """A part that has no value in an interval is left out."""
    job = Regression()
    train(job, replace(CONFIG, trackers=("tensorboard",)), tmp_path, show_progress=False)
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    for number, row in enumerate(rows):
        assert list(row)[4:7] == ["error", "positive", "negative"]
        assert "never" not in row
        assert row["error"] == pytest.approx(row["loss"])
        steps = (2 * number, 2 * number + 1)
        indices = np.concatenate([sample_indices(0, step, 16, 100) for step in steps])
        share = float((job.batch(indices)[0][:, 0] > 0).float().mean())
        mean = share * row["positive"] + (1 - share) * row["negative"]
        assert mean == pytest.approx(row["loss"])
    events = next((tmp_path / "oatkit").rglob("*tfevents*")).read_bytes()
    assert all(name in events for name in (b"loss", b"positive", b"negative"))


def test_parts_of_a_batch_do_not_change_the_parts_of_the_loss(tmp_path: Path) -> None:
    train(Regression(), CONFIG, tmp_path / "whole", show_progress=False)
    train(Regression(), replace(CONFIG, accumulate=4), tmp_path / "parts", show_progress=False)
    assert_same_logs(tmp_path / "whole", tmp_path / "parts")


def assert_same_logs(*folders: Path) -> None:
    """All that was logged but the speed, to rounding."""
    logs = [
        [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]
        for folder in folders
    ]
    for rows in zip(*logs, strict=True):
        known = [{k: v for k, v in row.items() if k != "samples_per_s"} for row in rows]
        assert all(row == pytest.approx(known[0], rel=1e-4) for row in known)


def test_the_progress_line_shows_the_parts(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    train(Regression(), CONFIG, tmp_path)
    line = capsys.readouterr().err
    assert re.search(r"8/8 steps.*loss [\d.]+ .*samples/s", line)
    assert "error" in line


def test_part_of_a_run_then_the_rest_equals_the_whole(tmp_path: Path) -> None:
    """Constant schedule: asking for more steps later goes on."""
    config = replace(CONFIG, schedule="constant")
    whole = trained(tmp_path / "whole", config)
    trained(tmp_path / "parts", replace(config, steps=5))
    assert_equal(trained(tmp_path / "parts", config), whole)
    logs = [(tmp_path / name / "train.jsonl").read_text() for name in ("whole", "parts")]
    losses = [[json.loads(line)["loss"] for line in log.splitlines()] for log in logs]
    assert losses[1][:2] == losses[0][:2]
    assert losses[1][-1] == losses[0][-1]


@pytest.mark.parametrize("optimizer", ["adamw", "soap"])
def test_every_checkpoint_leads_to_the_same_end(
    tmp_path: Path, optimizer: Literal["adamw", "soap"]
) -> None:
    config = replace(CONFIG, optimizer=optimizer, checkpoint_every=1, keep_checkpoints=100)
    whole = trained(tmp_path, config)
    folders = sorted((tmp_path / "checkpoints").iterdir())
    assert [f.name for f in folders] == [f"step-{i:08d}" for i in range(1, 9)]
    for last_kept in (1, 4, 7):
        for folder in folders[last_kept:]:
            if folder.exists():
                for file in folder.iterdir():
                    file.unlink()
                folder.rmdir()
        assert_equal(trained(tmp_path, config), whole)


def test_accumulation_changes_nothing_but_rounding(tmp_path: Path) -> None:
    whole = trained(tmp_path / "whole")
    parts = trained(tmp_path / "parts", replace(CONFIG, accumulate=4))
    for name in whole:
        if name != "seen":
            torch.testing.assert_close(parts[name], whole[name], rtol=1e-4, atol=1e-5)


def test_seeds_differ(tmp_path: Path) -> None:
    a = trained(tmp_path / "a")
    b = trained(tmp_path / "b", replace(CONFIG, seed=1))
    assert not torch.equal(a["0.weight"], b["0.weight"])


def test_checkpoints_rotate_and_leftovers_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "checkpoints/.writing-step-00000003").mkdir(parents=True)
    (tmp_path / "checkpoints/.writing-step-00000003/model.safetensors").write_bytes(b"half")
    trained(tmp_path)
    names = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
    assert names == ["step-00000006", "step-00000008"]
    files = {p.name for p in (tmp_path / "checkpoints/step-00000008").iterdir()}
    assert files == {"model.safetensors", "ema.safetensors", "optimizer.safetensors", "state.json"}


def test_the_average_is_what_is_kept(tmp_path: Path) -> None:
    kept = trained(tmp_path)
    last = tmp_path / "checkpoints/step-00000008"
    assert_equal(kept, load_file(last / "ema.safetensors"))
    assert not torch.equal(kept["0.weight"], load_file(last / "model.safetensors")["0.weight"])


def test_other_options_do_not_continue_a_run(tmp_path: Path) -> None:
    trained(tmp_path)
    with pytest.raises(ArtifactError, match="a run with another batch_size, seed: use the same"):
        trained(tmp_path, replace(CONFIG, batch_size=32, seed=4))


def test_a_damaged_checkpoint_is_named(tmp_path: Path) -> None:
    trained(tmp_path)
    (tmp_path / "checkpoints/step-00000008/model.safetensors").write_bytes(b"short")
    with pytest.raises(ArtifactError, match="step-00000008 cannot be read"):
        trained(tmp_path)


def test_a_diverged_run_stops_and_says_where(tmp_path: Path) -> None:
    with pytest.raises(TrainingError) as caught:
        train(Regression(fail_at=4), CONFIG, tmp_path, show_progress=False)
    message = str(caught.value)
    assert "non-finite by step 6" in message
    assert f"learning rate of {CONFIG.learning_rate_at(5):g}" in message
    assert str(tmp_path / "checkpoints/step-00000003") in message


def test_learning_rates() -> None:
    config = TrainConfig(steps=110, learning_rate=1.0, schedule="cosine", warmup_steps=10)
    rates = [config.learning_rate_at(step) for step in range(110)]
    np.testing.assert_allclose(rates[:10], np.arange(1, 11) / 10)
    assert rates[10] == 1.0
    assert rates[60] == pytest.approx(0.55)
    assert rates[-1] == pytest.approx(0.1, abs=0.01)
    assert TrainConfig(learning_rate=0.5).learning_rate_at(10**6) == 0.5


def test_samples_depend_on_seed_and_step_and_cover_the_data() -> None:
    drawn = [sample_indices(seed, step, 64, 1000) for seed in (0, 1) for step in (0, 1)]
    assert len({tuple(d) for d in drawn}) == 4
    np.testing.assert_array_equal(sample_indices(0, 1, 64, 1000), drawn[1])
    many = np.concatenate([sample_indices(0, step, 512, 1000) for step in range(100)])
    assert len(np.unique(many)) == 1000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps is 0, expected at least 1"),
        ({"ema": 1.0}, "ema is 1.0, expected 0 or more and below 1"),
    ],
)
def test_wrong_settings(changes: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **changes)


def test_a_batch_that_cannot_be_parted(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="batch_size 16 is not divided by 1 processes times 3"):
        trained(tmp_path, replace(CONFIG, accumulate=3))


def test_trackers_log_and_a_missing_one_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path, replace(CONFIG, trackers=("tensorboard",)))
    assert list((tmp_path / "oatkit").rglob("*tfevents*"))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(TrainingError, match="wandb is not installed: pip install wandb"):
        trained(tmp_path / "again", replace(CONFIG, trackers=("wandb",)))


def test_bfloat16_computes_otherwise_and_learns(tmp_path: Path) -> None:
    full = trained(tmp_path / "full", CONFIG)
    half = trained(tmp_path / "half", replace(CONFIG, precision="bfloat16"))
    assert not torch.equal(half["0.weight"], full["0.weight"])
    torch.testing.assert_close(half["0.weight"], full["0.weight"], rtol=0, atol=0.05)


def test_saving_twice_is_harmless(tmp_path: Path) -> None:
    job = Regression()
    optimizer = torch.optim.AdamW(job.module.parameters())
    checkpoints = Checkpoints(tmp_path, {"a": 1})
    assert checkpoints.save(3, job.module, optimizer, None) == checkpoints.latest()
    assert checkpoints.save(3, job.module, optimizer, None).name == "step-00000003"


SCRIPT = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.train.test_loop import CONFIG, Regression
from oatkit.train import train
from safetensors.torch import save_file
config = replace(CONFIG, steps=int(sys.argv[2]), checkpoint_every=2, batch_size=16)
job = Regression()
train(job, config, Path(sys.argv[1]), show_progress=False)
save_file(job.module.state_dict(), Path(sys.argv[1]) / "end.safetensors")
"""


SOAP_SCRIPT = SCRIPT.replace("batch_size=16", "batch_size=16, optimizer='soap'")


def start(out: Path, steps: int, script: str = SCRIPT) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, str(out), str(steps)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def end(process: subprocess.Popen[str]) -> int:
    """Wait for a process; gives its return code and shows what it said if that is no signal."""
    _, errors = process.communicate(timeout=120)
    assert process.returncode <= 0, errors
    return process.returncode


def test_runs_killed_at_random_moments_end_bit_for_bit_the_same(tmp_path: Path) -> None:
    steps, rng = 1500, random.Random(0)
    checkpoints = Checkpoints(tmp_path / "killed/checkpoints", {})
    for _ in range(3):
        before = checkpoints.latest()
        process = start(tmp_path / "killed", steps, SOAP_SCRIPT)
        while checkpoints.latest() == before and process.poll() is None:
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        assert end(process) == -signal.SIGKILL, "it ended before it was killed"
    for name in ("killed", "whole"):
        process = start(tmp_path / name, steps, SOAP_SCRIPT)
        assert end(process) == 0
    ends = [load_file(tmp_path / name / "end.safetensors") for name in ("whole", "killed")]
    assert_equal(*ends)


def test_a_run_killed_while_it_writes_a_checkpoint(tmp_path: Path) -> None:
    """The process dies between the files of its third checkpoint."""
    killer = SCRIPT.replace(
        "config =",
        "import os, oatkit.train.checkpoint as c\n"
        "real, calls = c.optimizer_tensors, []\n"
        "def deadly(*args):\n"
        "    calls.append(1)\n"
        "    return real(*args) if len(calls) < 3 else os.kill(os.getpid(), 9)\n"
        "c.optimizer_tensors = deadly\n"
        "config =",
    )
    process = start(tmp_path / "killed", 8, killer)
    assert end(process) == -signal.SIGKILL
    left = sorted(p.name for p in (tmp_path / "killed/checkpoints").iterdir())
    assert left == [".writing-step-00000006", "step-00000002", "step-00000004"]
    for name in ("killed", "whole"):
        process = start(tmp_path / name, 8)
        assert end(process) == 0
    ends = [load_file(tmp_path / name / "end.safetensors") for name in ("whole", "killed")]
    assert_equal(*ends)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = start(tmp_path, 100_000)
    while not (tmp_path / "checkpoints").exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert "KeyboardInterrupt: stopped after step" in errors
    assert "the same command again continues" in errors
    stopped_at = int(errors.split("stopped after step ")[1].split(";")[0])
    latest = Checkpoints(tmp_path / "checkpoints", {}).latest()
    assert latest is not None
    assert int(latest.name.split("-")[1]) == stopped_at


def test_what_cannot_be_sharded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    job = Regression()
    with pytest.raises(TrainingError, match="Sequential is too small to be sharded"):
        train(job, CONFIG, tmp_path, show_progress=False)
    job.module.blocks = []  # type: ignore[assignment]
    with pytest.raises(TrainingError, match="soap needs whole matrices"):
        train(job, replace(CONFIG, optimizer="soap"), tmp_path, show_progress=False)


def test_two_processes_equal_one(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    ends = []
    for count in (1, 2):
        out = tmp_path / str(count)
        launch = ("launch", "--cpu", "--num_processes", str(count), "--num_machines", "1")
        more = ("--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0")
        command = [sys.executable, "-m", "accelerate.commands.accelerate_cli", *launch, *more]
        ran = subprocess.run(
            [*command, str(tmp_path / "script.py"), str(out), "12"],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, *sys.path)))},
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert ran.returncode == 0, ran.stderr
        ends.append(load_file(out / "end.safetensors"))
    for name in ends[0]:
        torch.testing.assert_close(ends[1][name], ends[0][name], rtol=1e-4, atol=1e-6)
    assert_same_logs(tmp_path / "1", tmp_path / "2")
