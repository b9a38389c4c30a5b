"""What `tokenizer train` and `policy train` say about their data first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.commands.running import run_command

TINY = ("--preset", "tiny", "--steps", "1", "--horizon", "8")


@pytest.fixture
def spoiled(tmp_path: Path) -> Path:
    """Wrapped angles, idle joints and an action that is the state."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data"
    folder.mkdir()
    for index in range(6):
        angle = (np.linspace(0, 7, 40) + index) % (2 * np.pi)
        moved = np.sin(np.linspace(index, 5 + index, 40))[:, None] * [1, 2]
        idle = 1e-5 * rng.uniform(-1, 1, (40, 5))
        np.savez(
            folder / f"{index}.npz",
            **{
                "action": np.column_stack([angle, moved, moved, moved, idle]).astype(np.float32),
                "observation.state": moved.astype(np.float32),
            },
        )
    return folder


def test_training_says_what_would_ruin_it(
    spoiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "tokenizer"
    train = ["tokenizer", "train", "--data", str(spoiled), "--out", str(out), *TINY]
    code, text, _ = run_command(train, capsys)
    assert code == 0
    assert "caution: action 'action_0' jumps by a full turn (6.283) at" in text
    assert "  unwrap it: --actions unwrap:" in text
    assert text.count("in all, between") == 3
    assert "  and 2 more: `oatkit data check` lists them" in text
    assert "equals state" not in text, "a tokenizer reads no state"
    train = ["policy", "train", "--data", str(spoiled), "--tokenizer", str(out), *TINY[:4]]
    code, text, _ = run_command([*train, "--out", str(tmp_path / "policy")], capsys)
    assert code == 0
    assert "caution: action 'action_1' equals state 'state_0' of the same frame" in text


def test_good_data_are_trained_on_without_a_word(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["tokenizer", "train", "--data", str(data), "--out", str(tmp_path / "t"), *TINY]
    code, text, _ = run_command(train, capsys)
    assert code == 0
    assert "caution" not in text


def test_a_policy_that_would_see_the_robot_alone_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "data").mkdir()
    for index in range(4):
        walk = rng.normal(size=(30, 3)).cumsum(axis=0).astype(np.float32)
        columns = {"action": walk, "observation.state": walk + rng.normal(size=(30, 3))}
        columns["observation.environment_state"] = rng.normal(size=(30, 5))
        np.savez(tmp_path / f"data/{index}.npz", **columns)
    data, out = ("--data", str(tmp_path / "data")), str(tmp_path / "tokenizer")
    train = ["tokenizer", "train", "--kind", "bin", *data, "--out", out, *TINY[:2], *TINY[4:]]
    code, text, _ = run_command(train, capsys)
    assert (code, "sees the robot alone" in text) == (0, False)
    train = ["policy", "train", *data, "--tokenizer", out, *TINY[:4]]
    code, text, _ = run_command([*train, "--out", str(tmp_path / "a")], capsys)
    assert code == 0
    assert "caution: the policy sees the robot alone, and neither objects nor goal" in text
    seen = ("--state-key", "observation.state", "observation.environment_state")
    assert f"let it read them with {' '.join(seen)}, or images" in text
    code, text, _ = run_command([*train, *seen, "--out", str(tmp_path / "b")], capsys)
    assert (code, "sees the robot alone" in text) == (0, False)
