"""`oatkit policy train`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import oatkit
from oatkit import cli
from oatkit.storage.records import record_from_json
from oatkit.tokenizers import KINDS
from oatkit.types import PolicyMeasurement
from tests.commands.running import train_policy as train
from tests.policies import tiny


def test_a_policy_reads_the_one_frame_a_robot_sends_unless_it_is_told_otherwise(
    data: Path, tokenizers: Path, tmp_path: Path
) -> None:
    where = ("--tokenizer", str(tokenizers / "klt"), "--steps", "1", "--batch-size", "2")
    for history, flags in ((1, ()), (2, ("--history", "2"))):
        out = tmp_path / str(history)
        assert train(data, out, *where, "--preset", "small", *flags) == 0
        assert oatkit.load_policy(out).spec.history == history


def test_targets_around_the_true_tokens_are_a_flag(
    data: Path, tokenizers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--tokenizer", str(tokenizers / "oat"), "--steps", "1", "--batch-size", "2")
    for width in (0.0, 0.5):
        out = tmp_path / str(width)
        assert train(data, out, *where, "--code-smoothing", str(width)) == 0
        assert oatkit.load_policy(out).net.config.code_smoothing == width
    assert train(data, tmp_path / "no", *where, "--code-smoothing", "-1") == 2
    assert "--code-smoothing is -1.0, expected 0 or more levels" in capsys.readouterr().err
    flow = ("--policy", "light-flow", "--code-smoothing", "1")
    assert train(data, tmp_path / "flow", *where, *flow) == 2
    assert "light-flow has no tokens: leave --code-smoothing out" in capsys.readouterr().err


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_policy_on_every_kind_is_trained_and_measured(
    kind: str,
    data: Path,
    tokenizers: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "p"
    assert train(data, out, "--tokenizer", str(tokenizers / kind), "--steps", "25") == 0
    assert f"next: oatkit policy measure {out} --data {data}" in capsys.readouterr().out
    log = [json.loads(line) for line in (out / "train.jsonl").read_text().splitlines()]
    assert log[-1]["loss"] < log[0]["loss"]
    assert 0 <= log[-1]["val_accuracy"] <= 1
    policy = oatkit.load_policy(out)
    assert policy.tokenizer.kind == kind
    assert (policy.auto is not None) == policy.tokenizer.codec.has_prefixes
    assert policy.spec.tasks == tiny.TASKS

    record = tmp_path / "m.json"
    where = ("--data", str(data), "--out", str(record))
    assert cli.main(["policy", "measure", str(out), *where]) == 0
    (rows,) = json.loads(record.read_text())
    found = record_from_json(PolicyMeasurement, rows)
    assert (found.kind, found.split, found.num_chunks) == (kind, "val", 20)
    assert found.loss == pytest.approx(log[-1]["val_loss"], rel=1e-3)
    assert [b.budget for b in found.budgets] == list(policy.tokenizer.budgets)
    assert found.slots[0].share == 1
    assert 0 <= found.slots[0].accuracy <= 1
    assert found.slots[0].entropy_bits > 0
    if kind == "fast":
        assert 0 <= found.invalid <= 1
        assert found.slots[-1].share < 1
    else:
        assert found.invalid == 0
        assert len(found.slots) == policy.tokenizer.max_tokens
        assert len(found.variance) == len(found.budgets[-1].mae) == tiny.ACTION_DIM
        assert found.budgets[-1].mse > 0
    assert (found.auto is None) == (policy.auto is None)
    assert "the mean absolute error with so many tokens" in capsys.readouterr().out


def test_what_can_be_predicted_is_learnt(data: Path, tokenizers: Path, tmp_path: Path) -> None:
    """Actions follow from the state and not from the images, which are noise."""
    shared = ("--tokenizer", str(tokenizers / "bin"), "--steps", "60")
    assert train(data, tmp_path / "with", *shared) == 0
    assert train(data, tmp_path / "without", *shared, "--no-state", "--cameras", "front") == 0
    losses = [
        json.loads((tmp_path / name / "train.jsonl").read_text().splitlines()[-1])
        for name in ("with", "without")
    ]
    assert losses[0]["val_loss"] < losses[1]["val_loss"]


def test_flags_reach_the_policy(data: Path, tokenizers: Path, tmp_path: Path) -> None:
    flags = (
        *("--tokenizer", str(tokenizers / "oat"), "--endpoints", "2", "6", "--history", "3"),
        *("--cameras", "front", "--dropout", "0.2", "--steps", "2", "--batch-size", "4"),
        *("--learning-rate", "1e-4", "--ema", "0.5", "--seed", "7", "--checkpoint-every", "1"),
        *("--accumulate", "2", "--held-out", "0.2", "--split-seed", "5"),
        *("--cache", str(tmp_path / "cache")),
    )
    assert train(data, tmp_path / "p", *flags) == 0
    config = json.loads((tmp_path / "p/config.json").read_text())
    assert (config["net"]["endpoints"], config["net"]["dropout"]) == ([2, 6], 0.2)
    assert (config["observation"]["history"], config["split"]) == (
        3,
        {"held_out": 0.2, "seed": 5},
    )
    assert list(config["observation"]["cameras"]) == ["front"]
    made = config["train"]
    wanted = {"steps": 2, "batch_size": 4, "learning_rate": 1e-4, "ema": 0.5, "seed": 7}
    assert {k: made[k] for k in wanted} == wanted
    assert list((tmp_path / "cache/tokens").iterdir())


def test_a_policy_on_fast_keeps_how_it_decodes_until_an_evaluation_says_otherwise(
    data: Path, tokenizers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, flags = tmp_path / "p", ("--decoding", "relaxed", "--steps", "1", "--batch-size", "2")
    assert train(data, out, "--tokenizer", str(tokenizers / "fast"), *flags) == 0
    policy = oatkit.load_policy(out)
    assert policy.tokenizer.codec.config.decoding == "relaxed"
    state = np.zeros(policy.spec.state_dim, np.float32)
    observation = {"observation.state": state, "task": policy.spec.tasks[0]}
    assert int(policy.predict_action_chunk(observation).attempts) == 1  # the first one decodes
    assert policy.tokenizer.codec.num_mended > 0
    capsys.readouterr()
    assert train(data, tmp_path / "x", "--tokenizer", str(tokenizers / "bin"), *flags) == 2
    assert "strict or relaxed decoding is for fast, not for bin" in capsys.readouterr().err
    assert train(data, tmp_path / "x", "--init", str(out), *flags) == 2
    assert "has its own decoding: leave --decoding out" in capsys.readouterr().err


def test_another_schedule_is_said(
    data: Path, tokenizers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--tokenizer", str(tokenizers / "oat"), "--endpoints", "6", "--steps", "1")
    assert train(data, tmp_path / "p", *flags) == 0
    out = capsys.readouterr().out
    assert "note: oat is meant to be generated up to [1, 2, 3, 4, 5, 6] tokens stage by" in out


def test_resuming_equals_one_run(data: Path, tokenizers: Path, tmp_path: Path) -> None:
    """Stopped after a checkpoint: the rest is the same bit for bit, images and crops included."""
    flags = ("--tokenizer", str(tokenizers / "oat-pow2"), "--cameras", "front", "--steps", "4")
    every = ("--checkpoint-every", "2", "--batch-size", "4")
    for name in ("whole", "parts"):
        assert train(data, tmp_path / name, *flags, *every) == 0
    last = tmp_path / "parts/checkpoints/step-00000004"
    for file in last.iterdir():
        file.unlink()
    last.rmdir()
    assert train(data, tmp_path / "parts", *flags, *every) == 0
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert models[0] == models[1]


def test_fine_tuning_keeps_what_was_learnt_and_adds_tasks(
    data: Path, tokenizers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(data, tmp_path / "a", "--tokenizer", str(tokenizers / "klt")) == 0
    other = tmp_path / "other"
    other.mkdir()
    for path in sorted(data.iterdir()):
        with np.load(path) as file:
            np.savez(other / path.name, **{**file, "task": "knock on the door"})
    assert train(other, tmp_path / "b", "--init", str(tmp_path / "a"), "--steps", "1") == 0
    assert train(data, tmp_path / "c", "--tokenizer", str(tokenizers / "klt"), "--steps", "1") == 0
    rows = [
        json.loads((tmp_path / name / "train.jsonl").read_text().splitlines()[-1]) for name in "bc"
    ]
    assert rows[0]["loss"] < 0.9 * rows[1]["loss"]
    policy = oatkit.load_policy(tmp_path / "b")
    assert policy.spec.tasks == (*tiny.TASKS, "knock on the door")
    capsys.readouterr()
    both = ("--init", str(tmp_path / "a"), "--tokenizer", str(tokenizers / "klt"))
    assert train(data, tmp_path / "d", *both) == 2
    assert "has its own tokenizer: leave --tokenizer out" in capsys.readouterr().err
    assert train(data, tmp_path / "d", "--init", str(tmp_path / "a"), "--history", "3") == 2
    assert "has its own history: leave --history out" in capsys.readouterr().err
    assert train(data, tmp_path / "d", "--init", str(tmp_path / "a"), "--action-dims", "0") == 2
    assert "is for 3 action dimensions" in capsys.readouterr().err


def test_wrong_tokenizers(
    data: Path, tokenizers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(data, tmp_path / "p") == 2
    assert "name a tokenizer artifact with --tokenizer" in capsys.readouterr().err
    klt = ("--tokenizer", str(tokenizers / "klt"))
    assert train(data, tmp_path / "p", *klt, "--action-dims", "0", "1") == 2
    assert "the tokenizer is for 3 action dimensions" in capsys.readouterr().err
    assert train(data, tmp_path / "p", *klt, "--cameras", "frnt") == 2
    assert "unknown camera 'frnt'; known, closest first: front" in capsys.readouterr().err
    assert train(data, tmp_path / "p", *klt, "--steps", "1") == 0
    assert train(data, tmp_path / "p", *klt, "--steps", "1", "--history", "1") == 2
    assert "belongs to a run with another observation" in capsys.readouterr().err
    where = ("--data", str(data), "--action-dims", "0")
    assert cli.main(["policy", "measure", str(tmp_path / "p"), *where]) == 2
    assert "is for 3 action dimensions" in capsys.readouterr().err
    assert cli.main(["policy", "measure", "--data", str(data)]) == 2
    assert "name at least one policy artifact" in capsys.readouterr().err


def test_a_dataset_that_drifted_is_refused_or_noted(
    data: Path, tokenizers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for path in sorted(data.iterdir()):
        with np.load(path) as file:
            np.savez(other / path.name, **{**file, "action": 3 * file["action"]})
    flags = ("--tokenizer", str(tokenizers / "bin"), "--steps", "1")
    assert train(other, tmp_path / "p", *flags) == 2
    error = capsys.readouterr().err
    assert "is not what the tokenizer was fitted on (dimension 0 ('action_0') drifted" in error
    assert "; and 2 more): train a tokenizer on this data, or go on with --allow-drift" in error
    assert not (tmp_path / "p").exists()
    assert train(other, tmp_path / "p", *flags, "--allow-drift") == 0
    assert "note: bin: dimension 0 ('action_0') drifted" in capsys.readouterr().out


def test_flags_of_the_expert_are_settings_of_the_recipe(
    data: Path, tokenizers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They arrive where the optimizer is made; a light policy has no expert."""
    flags = ("--expert-start", "3", "--expert-learning-rate", "1e-3")
    assert train(data, tmp_path, "--tokenizer", str(tokenizers / "klt"), *flags) != 0
    assert "no flow expert to train apart" in capsys.readouterr().err
