"""`oatkit tokenizer train`, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import oatkit
from oatkit import cli
from oatkit.tokenizers import load_tokenizer
from oatkit.tokenizers.corrected import Corrected
from oatkit.tokenizers.klt import Klt
from tests.jobs.walks import write_walks


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_walks(tmp_path_factory.mktemp("data") / "walks.npz")


def train(data: Path, out: Path, *flags: str) -> int:
    shared = ("--data", str(data), "--out", str(out), "--preset", "tiny", "--horizon", "8")
    return cli.main(["tokenizer", "train", *shared, *flags])


@pytest.mark.parametrize("kind", ["oat", "oat-pow2", "bin", "fast", "quest", "acodec", "klt"])
def test_every_kind_is_trained_and_measured(
    kind: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(data, tmp_path / "t", "--kind", kind) == 0
    assert f"next: oatkit tokenizer measure {tmp_path / 't'}" in capsys.readouterr().out
    tokenizer = load_tokenizer(tmp_path / "t")
    assert (tokenizer.kind, tokenizer.horizon, tokenizer.action_dim) == (kind, 8, 3)
    assert tokenizer.check(oatkit.open_dataset(data)) == []
    rows = tokenizer.extras["rate_distortion"]
    assert len(rows) == len(tokenizer.budgets)
    assert (tmp_path / "t/README.md").read_text().count("\n| ") == len(rows) + 1

    out = tmp_path / "m.json"
    where = ("--data", str(data), "--out", str(out))
    assert cli.main(["tokenizer", "measure", str(tmp_path / "t"), *where]) == 0
    (found,) = json.loads(out.read_text())
    assert (found["kind"], found["split"], found["schema"]) == (
        kind,
        "val",
        "oatkit/tokenizer-measurement",
    )
    assert found["num_chunks"] == 2 * 60, "the two held-out episodes"
    assert "chunks/s" in capsys.readouterr().out
    measured = [b for b in found["budgets"] if b["is_trained"]]
    for row, budget in zip(rows, measured, strict=True):
        assert row["budget"] == pytest.approx(budget["tokens"])
        assert row["bits"] == pytest.approx(budget["bits"])
        assert row["mse"] == pytest.approx(budget["mse"], rel=1e-4)


def test_flags_reach_the_config(data: Path, tmp_path: Path) -> None:
    flags = (
        *("--kind", "oat", "--num-tokens", "6", "--levels", "5", "4", "--budgets", "2", "6"),
        *("--groups", "3", "6", "--no-nested-dropout", "--normalization", "mean_std"),
        *("--dropout", "0.1", "--steps", "3", "--batch-size", "16", "--learning-rate", "1e-4"),
        *("--ema", "0.5", "--seed", "7", "--checkpoint-every", "2", "--accumulate", "2"),
        *("--held-out", "0.2", "--split-seed", "5", "--action-dims", "0", "2"),
        *("--action-key", "action", "--precision", "float32", "--cache", str(tmp_path / "cache")),
        *("--early-weight", "4", "--overlap-weight", "0.2"),
    )
    assert train(data, tmp_path / "t", *flags) == 0
    config = json.loads((tmp_path / "t/config.json").read_text())
    codec = config["codec"]
    assert (codec["num_tokens"], codec["levels"], codec["groups"]) == (6, [5, 4], [3, 6])
    assert (codec["budgets"], codec["nested_dropout"], codec["dropout"]) == ([2, 6], False, 0.1)
    assert (codec["early_weight"], codec["overlap_weight"]) == (4.0, 0.2)
    assert config["normalization"]["mode"] == "mean_std"
    assert config["split"] == {"held_out": 0.2, "seed": 5}
    made = config["train"]
    wanted = {"steps": 3, "batch_size": 16, "learning_rate": 1e-4, "ema": 0.5, "seed": 7}
    assert {k: made[k] for k in wanted} == wanted
    assert (made["checkpoint_every"], made["accumulate"]) == (2, 2)
    assert codec["action_dim"] == 2
    assert (tmp_path / "cache").exists()


@pytest.mark.parametrize(("kind", "is_noted"), [("bin", True), ("oat", False)])
def test_a_kind_that_is_not_trained_says_which_flags_have_no_effect(
    kind: str, is_noted: bool, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--kind", kind, "--steps", "2", "--batch-size", "4", "--seed", "1")
    assert train(data, tmp_path / "t", *flags) == 0
    note = f"note: {kind} is not trained and ignores --steps, --batch-size\n"
    assert (note in capsys.readouterr().out) == is_noted


def test_flags_of_fast_and_quest(data: Path, tmp_path: Path) -> None:
    assert train(data, tmp_path / "f", "--kind", "fast", "--vocab-size", "300", "--scale", "5") == 0
    codec = json.loads((tmp_path / "f/config.json").read_text())["codec"]
    assert (codec["vocab_size"], codec["scale"], codec["decoding"]) == (300, 5.0, "strict")
    assert train(data, tmp_path / "q", "--kind", "quest", "--reconstruction", "l1") == 0
    assert json.loads((tmp_path / "q/config.json").read_text())["codec"]["reconstruction"] == "l1"


def test_the_published_fast_is_taken_as_it_is(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(data, tmp_path / "own", "--kind", "fast", "--scale", "5") == 0  # publishes itself
    flags = ("--kind", "fast", "--published", str(tmp_path / "own"), "--decoding", "relaxed")
    assert train(data, tmp_path / "f", *flags, "--horizon", "8") == 0
    own, taken = load_tokenizer(tmp_path / "own").codec, load_tokenizer(tmp_path / "f").codec
    assert taken.bpe.to_str() == own.bpe.to_str()
    assert (taken.config.horizon, taken.config.scale) == (8, 5.0)
    assert taken.config.decoding == "relaxed"
    capsys.readouterr()
    assert train(data, tmp_path / "x", *flags, "--scale", "3") == 2
    assert "own has its own scale: leave them out" in capsys.readouterr().err
    assert train(data, tmp_path / "x", "--kind", "bin", *flags[2:4]) == 2
    assert "--published is for fast, not for bin: leave it out" in capsys.readouterr().err
    assert train(data, tmp_path / "x", "--kind", "oat", *flags[4:]) == 2
    assert "--decoding is for fast, not for oat: leave it out" in capsys.readouterr().err


def test_a_learned_prefix_with_an_analytic_tail(data: Path, tmp_path: Path) -> None:
    flags = ("--kind", "oat-pow2", "--num-tokens", "2", "--refine", "6", "--levels", "8", "5")
    assert train(data, tmp_path / "t", *flags) == 0
    tokenizer = load_tokenizer(tmp_path / "t")
    assert (tokenizer.max_tokens, tokenizer.budgets) == (8, (1, 2, 4, 8))
    _, learned, *refined = (row["mse"] for row in tokenizer.extras["rate_distortion"])
    assert learned > refined[0] > refined[1]
    assert refined[1] < 0.5 * learned
    log = (tmp_path / "t/train.jsonl").read_text().splitlines()
    assert "mse@4" not in json.loads(log[-1]), "only learned tokens are trained"
    flags = ("--kind", "klt", "--cells", "scalar", "--paths", "5")
    assert train(data, tmp_path / "k", *flags) == 0
    written = json.loads((tmp_path / "k/config.json").read_text())["codec"]
    assert (written["cells"], written["paths"]) == ("scalar", 5)


def test_a_correction_is_fitted_and_its_worth_is_said(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("oatkit.tokenizers.corrected.STEPS", 40)
    monkeypatch.setattr("oatkit.tokenizers.corrected.EVALUATE_EVERY", 20)
    flags = ("--kind", "klt", "--correct", "--num-tokens", "2", "--levels", "4", "4")
    assert train(data, tmp_path / "c", *flags) == 0
    assert "the correction " in capsys.readouterr().out
    assert isinstance(load_tokenizer(tmp_path / "c").codec, Corrected)
    monkeypatch.setattr("oatkit.tokenizers.corrected.WORTH", 0.0)
    assert train(data, tmp_path / "k", *flags) == 0
    assert "it was left out" in capsys.readouterr().out
    assert isinstance(load_tokenizer(tmp_path / "k").codec, Klt)
    assert train(data, tmp_path / "b", "--kind", "bin", "--correct") == 2
    assert "--correct" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (("--kind", "oat", "--early-weight", "0"), "early_weight"),
        (("--kind", "oat", "--overlap-weight", "-1"), "overlap_weight"),
        (("--kind", "klt", "--early-weight", "2"), "early-weight"),
        (("--kind", "quest", "--overlap-weight", "0.1"), "overlap-weight"),
    ],
)
def test_weights_of_the_loss_that_cannot_be_are_said(
    flags: tuple[str, ...],
    wanted: str,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert train(data, tmp_path / "t", *flags) == 2
    said = capsys.readouterr().err
    assert (said[:7], said.count("\n")) == ("error: ", 1)
    assert wanted.replace("_", "-") in said or wanted in said
    assert not (tmp_path / "t/config.json").exists()


def test_a_flag_of_another_kind_is_an_error(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(data, tmp_path / "t", "--kind", "bin", "--num-tokens", "4") == 2
    assert (
        "--num-tokens is for oat, oat-pow2, acodec, klt, not for bin: leave it out"
        in capsys.readouterr().err
    )


def test_a_checkpoint_of_something_else_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(data, tmp_path / "t", "--kind", "oat", "--steps", "2") == 0
    assert train(data, tmp_path / "t", "--kind", "oat-pow2", "--steps", "2") == 2
    assert "belongs to a run with another kind" in capsys.readouterr().err
    assert train(data, tmp_path / "t", "--kind", "oat", "--steps", "2", "--split-seed", "1") == 2
    assert "belongs to a run with another data" in capsys.readouterr().err


def test_fine_tuning_starts_from_an_artifact(data: Path, tmp_path: Path) -> None:
    assert train(data, tmp_path / "a", "--kind", "oat") == 0
    assert train(data, tmp_path / "b", "--init", str(tmp_path / "a"), "--steps", "1") == 0
    assert train(data, tmp_path / "c", "--kind", "oat", "--steps", "1") == 0
    losses = [
        json.loads((tmp_path / name / "train.jsonl").read_text().splitlines()[-1])["loss"]
        for name in "bc"
    ]
    assert losses[0] < 0.7 * losses[1]
    assert load_tokenizer(tmp_path / "b").normalizer.to_json() == (
        load_tokenizer(tmp_path / "a").normalizer.to_json()
    )
