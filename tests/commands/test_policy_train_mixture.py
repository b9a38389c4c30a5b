"""A policy for several robots as it is typed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oatkit
from tests.commands.running import run_command
from tests.jobs.mixed_robots import robot_on_disk

TINY = ["--preset", "tiny", "--steps", "2", "--batch-size", "8", "--device", "cpu"]


@pytest.fixture
def data(tmp_path: Path) -> dict[str, str]:
    for name, dim in (("a", 2), ("b", 3)):
        robot_on_disk(tmp_path / name, dim)
    return {name: str(tmp_path / name) for name in ("a", "b")}


def test_a_mixture_is_trained_and_each_robot_is_reached_by_its_name(
    data: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, mixed = tmp_path / "robots", f"{data['a']}=0.7,{data['b']}=0.3"
    train = ["policy", "train", "--data", mixed, "--policy", "light-flow", "--horizon", "8"]
    code, text, errors = run_command([*train, "--out", str(out), *TINY], capsys)
    assert (code, errors.count("error")) == (0, 0)
    assert f"wrote {out}/a: 8 x 2 actions" in text
    assert f"next: oatkit policy measure {out}/a --data {data['a']}" in text
    frame = {"observation.state": np.zeros(3, np.float32)}
    policy = oatkit.load_policy(out, embodiment="b")
    assert policy.predict_action_chunk(frame).chunk.shape == (8, 3)
    code, text, _ = run_command(["policy", "measure", f"{out}/b", "--data", data["b"]], capsys)
    assert code == 0
    code, _, errors = run_command(["policy", "measure", str(out), "--data", data["b"]], capsys)
    said = " ".join(errors.split())
    assert (code, "is a policy for several robots, a, b: name one" in said) == (2, True)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--init", "x"], "--init is for one dataset, not for a mixture: leave it out"),
        (["--minutes", "1"], "--minutes is for one dataset, not for a mixture: leave it out"),
        ([], "name the folder of the mixture's tokenizers with --tokenizer"),
        (["--tokenizer", "missing"], "has no tokenizer of 'a', only of none"),
    ],
)
def test_what_a_mixture_cannot_have_is_refused(
    data: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    message: str,
) -> None:
    mixed = f"{data['a']}=1,{data['b']}=1"
    args = ["policy", "train", "--data", mixed, "--out", str(tmp_path / "m"), *flags]
    code, _, errors = run_command(args, capsys)
    assert (code, message in " ".join(errors.split())) == (2, True)


def test_weights_that_sum_to_0_are_refused(
    data: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["policy", "train", "--data", f"{data['a']}=0,{data['b']}=0", "--out", str(tmp_path)]
    code, _, errors = run_command(args, capsys)
    assert (code, "the weights of a, b sum to 0" in errors) == (2, True)
