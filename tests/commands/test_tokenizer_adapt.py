"""Mixtures and new robots as they are typed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oatkit
from tests.commands.running import run_command


@pytest.fixture
def robots(tmp_path: Path) -> dict[str, str]:
    rng = np.random.default_rng(0)
    paths = {}
    for name, dim in (("a", 3), ("b", 5), ("c", 2)):
        folder = tmp_path / name
        folder.mkdir()
        for episode in range(4):
            walk = np.cumsum(rng.normal(size=(20, dim)), axis=0)
            np.savez(folder / f"{episode}.npz", action=walk, fps=10)
        paths[name] = str(folder)
    return paths


def test_a_mixture_is_trained_and_adapted(
    robots: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "mixed")
    data = f"{robots['a']}=0.7,{robots['b']}=0.3"
    shared = ["--kind", "klt", "--horizon", "8", "--preset", "tiny", "--held-out", "0.25"]
    code, text, errors = run_command(
        ["tokenizer", "train", "--data", data, "--out", out, *shared], capsys
    )
    assert (code, errors.count("error")) == (0, 0)
    assert f"wrote {out}/a: 8 x 3 actions, MSE" in text
    assert f"next: oatkit tokenizer measure {out}/a --data {robots['a']}" in text
    new = str(tmp_path / "new")
    adapt = ["tokenizer", "adapt", f"{out}/a", "--data", robots["c"], "--out", new]
    code, text, _ = run_command(adapt, capsys)
    assert code == 0
    assert "of the variance of actions" in text
    assert oatkit.load_tokenizer(new).action_dim == 2


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--init", "x"], "--init is for one dataset, not for a mixture: leave it out"),
        (["--minutes", "1"], "--minutes is for one dataset, not for a mixture: leave it out"),
    ],
)
def test_flags_of_one_dataset_are_refused(
    robots: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    message: str,
) -> None:
    data = f"{robots['a']}=1,{robots['b']}=1"
    args = ["tokenizer", "train", "--data", data, "--out", str(tmp_path / "m"), *flags]
    code, _, errors = run_command(args, capsys)
    assert (code, message in " ".join(errors.split())) == (2, True)


def test_weights_that_sum_to_0_and_a_lone_duration_are_refused(
    robots: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = ["tokenizer", "train", "--out", str(tmp_path / "m"), "--data"]
    code, _, errors = run_command([*shared, f"{robots['a']}=0,{robots['b']}=0"], capsys)
    assert (code, "the weights of a, b sum to 0" in errors) == (2, True)
    code, _, errors = run_command([*shared, robots["a"], "--duration", "1"], capsys)
    assert (code, "--duration is for a mixture of robots" in errors) == (2, True)
