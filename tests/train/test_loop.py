"""The loop: restarts are bit for bit, processes see the same, divergence stops."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import accelerate
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn

from oatkit.errors import ArtifactError, TrainingError
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.training_loss import TrainingLoss
from oatkit.train import loop, train
from oatkit.train.checkpoint import Checkpoints
from oatkit.train.loop import TrainingRun, sample_indices
from oatkit.train.train_config import Precision
from tests.nn.pretended_devices import pretend_cuda
from tests.train.regression import (
    CONFIG,
    ROOT,
    SCRIPT,
    SOAP_SCRIPT,
    Regression,
    assert_equal,
    assert_same_logs,
    end,
    start,
    start_two,
    trained,
)
from tests.train.two_ranks import run_two


def test_training_lowers_the_loss_and_logs(tmp_path: Path) -> None:
    job = Regression()
    train(job, replace(CONFIG, steps=200), tmp_path, show_progress=False)
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(2, 201, 2))
    assert rows[-1]["loss"] < 0.2 * rows[0]["loss"]
    assert [row["step"] for row in rows if "size" in row] == list(range(4, 201, 4))
    assert rows[0]["learning_rate"] == CONFIG.learning_rate
    assert not job.module.training


@pytest.mark.parametrize(
    ("device", "is_cpu", "current"),
    [("auto", False, ["cuda:0"]), ("cuda:1", False, ["cuda:1"]), ("cpu", True, [])],
)
def test_the_device_decides_where_accelerate_computes(
    device: str,
    is_cpu: bool,
    current: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Accelerate takes the current CUDA device, which was always the first."""
    made: dict[str, Any] = {}
    chosen: list[str] = []

    def accelerator(**settings: Any) -> None:
        made.update(settings)
        raise TrainingError("there is no GPU here")

    pretend_cuda(monkeypatch)
    monkeypatch.setattr(torch.cuda, "set_device", lambda to: chosen.append(str(to)))
    monkeypatch.setattr(accelerate, "Accelerator", accelerator)
    with pytest.raises(TrainingError, match="no GPU here"):
        train(Regression(), CONFIG, tmp_path, device=device, show_progress=False)
    assert (made["cpu"], chosen) == (is_cpu, current)


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


def test_the_average_is_what_is_kept(tmp_path: Path) -> None:
    kept = trained(tmp_path)
    last = tmp_path / "checkpoints/step-00000008"
    weights = load_file(last / "model.safetensors")
    assert_equal(kept, weights | load_file(last / "ema.safetensors"))
    assert not torch.equal(kept["0.weight"], weights["0.weight"])


def test_a_diverged_run_stops_and_says_where(tmp_path: Path) -> None:
    with pytest.raises(TrainingError) as caught:
        train(Regression(fail_at=4), CONFIG, tmp_path, show_progress=False)
    message = str(caught.value)
    assert "non-finite in step 5 at" in message  # it is logged after step 6
    assert f"learning rate of {CONFIG.learning_rate_at(4):g}" in message
    assert str(tmp_path / "checkpoints/step-00000003") in message
    assert "its samples and random numbers were finite" in message
    assert "lower learning rate" in message


class BadSample(Regression):
    """A job whose sample of the fifth step is not finite."""

    def batch(self, indices: NDArray[np.int64]) -> tuple[Tensor, ...]:
        (inputs,) = super().batch(indices)
        is_bad = np.array_equal(indices, sample_indices(0, 4, 16, 100))
        return (inputs * math.nan if is_bad else inputs,)


def test_a_run_goes_on_without_a_bad_step(tmp_path: Path) -> None:
    """The same step has the same samples in every attempt: without a way around it a run that met
    one that is not finite would die there after every restart."""
    for config in (CONFIG, replace(CONFIG, skip_steps=(2,))):
        out = tmp_path / str(len(config.skip_steps))
        with pytest.raises(TrainingError) as caught:
            train(BadSample(), config, out, show_progress=False)
        message = str(caught.value)
        assert "non-finite in step 5" in message
        assert "its samples or random numbers were not finite" in message
        assert "learning rate in" not in message
        flag = " ".join(map(str, (*config.skip_steps, 5)))
        assert f"the same command with --skip-steps {flag} goes on" in message
        going_on = replace(config, skip_steps=(*config.skip_steps, 5))
        ends = []
        for folder in (out, tmp_path / f"{out.name}-whole"):
            job = BadSample()
            train(job, going_on, folder, show_progress=False)
            ends.append(job.module.state_dict())
        assert_equal(*ends)
        rows = [json.loads(line) for line in (out / "train.jsonl").read_text().splitlines()]
        assert [row["step"] for row in rows] == [2, 4, 6, 8]


def test_two_processes_end_together_though_one_saw_the_bad_sample(tmp_path: Path) -> None:
    """If only one raised, the other would wait for it, on GPUs until NCCL's timeout."""
    script = SCRIPT.replace(
        "job = Regression()",
        "import os, tests.train.test_loop as t\n"
        "t.sample_indices = lambda *_: t.np.split(sample(0, 3, 16, 100), 2)[1]\n"
        "job = t.BadSample() if os.environ['RANK'] == '1' else Regression()",
    ).replace("config =", "from oatkit.train.loop import sample_indices as sample\nconfig =")
    processes = start_two(tmp_path, 8, script)
    try:
        errors = [process.communicate(timeout=90)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for text in errors:
        assert "non-finite in step 4 at" in text
        assert "its samples or random numbers were not finite" in text
        assert "step-00000002" in text


def test_a_step_that_was_done_cannot_be_skipped(tmp_path: Path) -> None:
    trained(tmp_path)
    trained(tmp_path, replace(CONFIG, skip_steps=(9,)))
    with pytest.raises(ArtifactError, match="a run with another skip_steps"):
        trained(tmp_path, replace(CONFIG, skip_steps=(8,)))


def test_a_skipped_step_without_a_row(tmp_path: Path) -> None:
    trained(tmp_path, replace(CONFIG, log_every=1, skip_steps=(1, 8)))
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [2, 3, 4, 5, 6, 7]


def test_random_numbers_that_are_not_finite_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Noisy(Regression):
        def loss(self, batch: tuple[Tensor, ...], random: SampleRandom) -> TrainingLoss:
            return super().loss((batch[0] + random.normal(3),), random)

    monkeypatch.setattr("oatkit.nn.sample_random._normal", lambda u: torch.full_like(u, math.inf))
    with pytest.raises(TrainingError, match=r"step 1 .* random numbers were not finite"):
        train(Noisy(), CONFIG, tmp_path, show_progress=False)


def test_a_gradient_that_is_not_finite_names_its_own_step(tmp_path: Path) -> None:
    """The loss of that step is finite; that of the next is not, and skipping it would not help."""

    class Root(Regression):
        def loss(self, batch: tuple[Tensor, ...], random: SampleRandom) -> TrainingLoss:
            found = super().loss(batch, random)
            if self.steps != 2:
                return found
            root = (0 * next(self.module.parameters()).sum()).sqrt()
            return TrainingLoss(found.total + root, found.parts)

    with pytest.raises(TrainingError, match="non-finite in step 3 "):
        train(Root(), CONFIG, tmp_path, show_progress=False)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_evaluation_computes_as_training_does(precision: Precision, tmp_path: Path) -> None:
    """A backbone of 3B parameters would otherwise be evaluated in float32 on a GPU."""
    job = Regression()
    train(job, replace(CONFIG, precision=precision), tmp_path, show_progress=False)
    assert job.evaluated_in == [precision == "bfloat16"] * 2


@pytest.mark.parametrize("count", [1, 4, 5])
def test_processes_share_an_evaluation_and_call_equally_often(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where weights are sharded every call gathers them from all processes: one call less on one
    GPU would leave the others waiting."""
    run = TrainingRun(Regression(), CONFIG, tmp_path, {})
    monkeypatch.setattr("accelerate.Accelerator.num_processes", 2)
    shares, calls = [], []
    for rank in (0, 1):
        monkeypatch.setattr("accelerate.Accelerator.process_index", rank)
        own: list[int] = []
        monkeypatch.setattr(run.accelerator, "gather", lambda x: shares.append(x) or x.repeat(2))
        run._spread(lambda number, own=own: own.append(number) or torch.tensor(number), count)
        calls.append(len(own))
    assert calls[0] == calls[1] == math.ceil(count / 2)
    monkeypatch.setattr(run.accelerator, "gather", lambda _: torch.cat(shares))
    assert [int(one) for one in run._spread(torch.tensor, count)] == list(range(count))


def test_gradients_are_views_of_the_buckets_of_ddp(tmp_path: Path) -> None:
    """On several GPUs this saves a copy of all gradients."""
    run = TrainingRun(Regression(), CONFIG, tmp_path, {})
    assert run.accelerator.ddp_handler.gradient_as_bucket_view


def test_samples_depend_on_seed_and_step_and_cover_the_data() -> None:
    drawn = [sample_indices(seed, step, 64, 1000) for seed in (0, 1) for step in (0, 1)]
    assert len({tuple(d) for d in drawn}) == 4
    np.testing.assert_array_equal(sample_indices(0, 1, 64, 1000), drawn[1])
    many = np.concatenate([sample_indices(0, step, 512, 1000) for step in range(100)])
    assert len(np.unique(many)) == 1000


def test_every_sample_alone_or_in_runs() -> None:
    """One by one is what it was before there were runs; each sample is as likely in both."""
    rng = np.random.Generator(np.random.Philox(key=[3, 7]))
    assert sample_indices(3, 7, 16, 100).tolist() == rng.integers(100, size=16).tolist()
    counts = np.zeros(20)
    for step in range(500):
        indices = sample_indices(0, step, 14, 20, run_length=4)
        assert len(indices) == 14
        steps = np.diff(indices.reshape(-1)) % 20
        assert (np.delete(steps, [3, 7, 11]) == 1).all(), "runs of four, and one of two"
        counts += np.bincount(indices, minlength=20)
    assert counts.min() > 250  # 350 expected, standard deviation 35


def test_a_training_on_runs_that_is_stopped_goes_on_with_other_workers(tmp_path: Path) -> None:
    config = replace(CONFIG, schedule="constant", run_length=3)
    whole = trained(tmp_path / "whole", config)
    trained(tmp_path / "parts", replace(config, steps=5))
    assert_equal(trained(tmp_path / "parts", replace(config, workers=2)), whole)
    with pytest.raises(ArtifactError, match="run_length"):
        trained(tmp_path / "parts", replace(config, run_length=2))


def test_a_batch_that_cannot_be_parted(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="batch_size 16 is not divisible by 1 processes times 3"):
        trained(tmp_path, replace(CONFIG, accumulate=3))


def test_bfloat16_computes_otherwise_and_learns(tmp_path: Path) -> None:
    full = trained(tmp_path / "full", CONFIG)
    half = trained(tmp_path / "half", replace(CONFIG, precision="bfloat16"))
    assert not torch.equal(half["0.weight"], full["0.weight"])
    torch.testing.assert_close(half["0.weight"], full["0.weight"], rtol=0, atol=0.05)


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
    with pytest.raises(TrainingError, match="Sequential has no `blocks` to shard"):
        train(job, CONFIG, tmp_path, show_progress=False)
    job.module.blocks = []  # type: ignore[assignment]
    with pytest.raises(TrainingError, match="soap needs whole matrices"):
        train(job, replace(CONFIG, optimizer="soap"), tmp_path, show_progress=False)


def test_weights_that_are_sharded_are_not_moved_as_a_whole_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that needs sharding has no room on one GPU."""

    class StopError(Exception):
        pass

    def shard(model: nn.Module, blocks: Any, *, is_bfloat16: bool) -> None:
        raise StopError({str(p.device) for p in model.parameters()})

    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    fake = SimpleNamespace(num_processes=2, device=torch.device("meta"))
    monkeypatch.setattr(loop, "_make_accelerator", lambda *given: fake)
    monkeypatch.setattr(loop, "shard", shard)
    job = Regression()
    job.module.blocks = []  # type: ignore[assignment]
    with pytest.raises(StopError, match=r"^{.cpu.}$"):
        train(job, CONFIG, tmp_path, show_progress=False)


def test_two_processes_equal_one(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    one = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "1"), "12"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, *sys.path)))},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert one.returncode == 0, one.stderr
    run_two(str(script), str(tmp_path / "2"), "12")
    ends = [load_file(tmp_path / name / "end.safetensors") for name in "12"]
    for name in ends[0]:
        torch.testing.assert_close(ends[1][name], ends[0][name], rtol=1e-4, atol=1e-6)
    assert_same_logs(tmp_path / "1", tmp_path / "2")
