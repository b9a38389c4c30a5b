"""Vision-language policies as a user trains and measures them, every combination of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from oatkit.storage.records import record_from_json

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

import oatkit
from oatkit import cli
from oatkit.data import Dataset
from oatkit.jobs.policy_training import PolicyJob
from oatkit.policies import VlmConfig, policy_for_dataset
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.policies.vlm.backbones.loading import write_scratch
from oatkit.policies.vlm.combinations import Combination, combinations
from oatkit.policies.vlm.vlm_config import ExpertConfig
from oatkit.tokenizers import KINDS, ActionTokenizer
from oatkit.train import TrainConfig, read_log, train
from oatkit.types import PolicyMeasurement
from tests.policies import tiny
from tests.train.two_ranks import run_two

SIZE = ScratchSize(width=16, num_layers=2, vision_width=16, vision_layers=1)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("checkpoints")
    return {name: write_scratch(name, folder / name, SIZE, tiny.TASKS) for name in FAMILIES}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_dataset(tmp_path_factory.mktemp("data") / "npz")


@pytest.fixture(scope="module")
def dataset(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return oatkit.open_dataset(data, cache_dir=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def tokenizers(dataset: Dataset) -> dict[str, ActionTokenizer]:
    return {kind: tiny.make_tokenizer(kind, dataset) for kind in KINDS}


@pytest.mark.parametrize("combination", combinations(), ids=lambda one: one.name)
def test_every_combination_is_built_and_trained(
    combination: Combination,
    checkpoints: dict[str, Path],
    dataset: Dataset,
    tokenizers: dict[str, ActionTokenizer],
    tmp_path: Path,
) -> None:
    config = VlmConfig(combination.objective, expert=ExpertConfig(width=8, num_steps=2))  # type: ignore[arg-type]
    policy = policy_for_dataset(
        config,
        tokenizers[combination.kind or "bin"],
        dataset,
        backbone=str(checkpoints[combination.family]),
        cameras=("front",),
    )
    job = PolicyJob(policy, dataset, dataset.split(fraction=0.1, seed=0)[1])
    before = {name: p.detach().clone() for name, p in policy.net.named_parameters()}
    recipe = TrainConfig(steps=2, batch_size=2, learning_rate=1e-3, log_every=1, evaluate_every=9)
    train(job, recipe, tmp_path, show_progress=False)
    moved = {
        name.split(".")[0] for name, p in policy.net.named_parameters() if (p != before[name]).any()
    }
    wanted = {"backbone", "state"}
    wanted |= {"tokens"} if "tokens" in policy.heads else set()
    wanted |= {"expert"} if "flow" in policy.heads else set()
    assert moved == wanted


def run(data: Path, out: Path, backbone: Path, *flags: str) -> int:
    shared = ("--data", str(data), "--out", str(out), "--preset", "tiny", "--cameras", "front")
    return cli.main(["policy", "train", *shared, "--backbone", str(backbone), *flags])


@pytest.mark.parametrize(
    ("objective", "family", "kind"),
    [
        ("vlm-ar", "paligemma2", "oat-pow2"),
        ("vlm-tc", "qwen3-vl", "fast"),
        ("vlm-flow", "smolvlm", None),
    ],
)
def test_a_policy_is_trained_and_measured(
    objective: str,
    family: str,
    kind: str | None,
    data: Path,
    checkpoints: dict[str, Path],
    tokenizers: dict[str, ActionTokenizer],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ["--policy", objective, "--steps", "6", "--workers", "1"]
    if kind:
        tokenizers[kind].save_pretrained(tmp_path / "t")
        flags += ["--tokenizer", str(tmp_path / "t")]
    else:
        flags += ["--horizon", "8"]
    out = tmp_path / "p"
    assert run(data, out, checkpoints[family], *flags) == 0
    assert f"next: oatkit policy measure {out}" in capsys.readouterr().out
    log = [json.loads(line) for line in (out / "train.jsonl").read_text().splitlines()]
    assert ("val_flow_loss" in log[-1]) == (objective != "vlm-ar")
    assert ("val_accuracy" in log[-1]) == (objective != "vlm-flow")
    record = tmp_path / "m.json"
    where = ("--data", str(data), "--out", str(record))
    assert cli.main(["policy", "measure", str(out), *where]) == 0
    (rows,) = json.loads(record.read_text())
    found = record_from_json(PolicyMeasurement, rows)
    assert found.budgets[-1].mse is not None
    assert found.budgets[-1].calls == (4 if objective == "vlm-ar" else 10)
    assert bool(found.slots) == (objective != "vlm-flow")
    policy = oatkit.load_policy(out)
    assert policy.kind == objective
    assert policy.tokenizer.horizon == tiny.HORIZON
    assert (policy.auto is not None) == (objective == "vlm-ar")


def test_flags_reach_the_policy(
    data: Path,
    checkpoints: dict[str, Path],
    tokenizers: dict[str, ActionTokenizer],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tokenizers["oat-pow2"].save_pretrained(tmp_path / "t")
    flags = (
        *("--tokenizer", str(tmp_path / "t"), "--policy", "vlm-tc", "--history", "2"),
        *("--expert-width", "12", "--expert-layers", "1", "--flow-weight", "0.3"),
        *("--lora-rank", "2", "--freeze-vision", "--attention", "eager", "--save-memory"),
        *("--steps", "1", "--batch-size", "2", "--accumulate", "2", "--no-state"),
        *("--crop", "0.9", "--color-jitter", "0.3", "--uncropped", "front", "--mask-padding"),
    )
    assert run(data, tmp_path / "p", checkpoints["qwen3-vl"], *flags) == 0
    net = json.loads((tmp_path / "p/config.json").read_text())["net"]
    assert net["expert"]["width"] == 12
    assert net["expert"]["num_layers"] == 1
    assert net["flow_weight"] == 0.3
    assert net["augmentation"] == {"crop": 0.9, "color_jitter": 0.3, "uncropped": ["front"]}
    assert net["mask_padding"]
    assert net["backbone"]["lora_rank"] == 2
    assert net["backbone"]["freeze_vision"]
    assert net["backbone"]["save_memory"]
    assert net["backbone"]["attention"] == "eager"
    policy = oatkit.load_policy(tmp_path / "p")
    assert (policy.spec.history, policy.spec.state_dim) == (2, 0)
    more = ("--init", str(tmp_path / "p"), "--steps", "1", "--batch-size", "2")
    shared = ("--data", str(data), "--out", str(tmp_path / "q"), "--preset", "tiny")
    assert cli.main(["policy", "train", *shared, *more]) == 0
    assert oatkit.load_policy(tmp_path / "q").kind == "vlm-tc"
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in "pq")
    moved = {key for key in before if not torch.equal(before[key], after[key])}
    assert moved
    assert {key for key in moved if key.startswith("backbone.")} == {
        key for key in before if "lora_" in key and key in moved
    }
    assert any("lora_" in key for key in moved)
    for flags, name in ((("--lora-rank", "4"), "lora-rank"), (("--no-state",), "no-state")):
        assert cli.main(["policy", "train", *shared, *more, *flags]) == 2
        assert f"has its own {name}: leave --{name} out" in capsys.readouterr().err


def test_a_type_that_no_weight_gets_is_noted(
    data: Path, checkpoints: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--policy", "vlm-flow", "--steps", "1", "--batch-size", "2", "--dtype", "bfloat16")
    flags += ("--horizon", str(tiny.HORIZON))
    note = "--dtype bfloat16 is for weights that are not trained"
    assert run(data, tmp_path / "all", checkpoints["smolvlm"], *flags) == 0
    assert note in capsys.readouterr().out
    adapters = ("--lora-rank", "2")
    assert run(data, tmp_path / "adapters", checkpoints["smolvlm"], *flags, *adapters) == 0
    assert note not in capsys.readouterr().out
    stored = load_file(tmp_path / "adapters/model.safetensors")
    assert {value.dtype for key, value in stored.items() if "lora_" in key} == {torch.float32}
    assert torch.bfloat16 in {value.dtype for value in stored.values()}


def test_adapters_are_stored_resumed_and_merged(
    data: Path,
    checkpoints: dict[str, Path],
    tokenizers: dict[str, ActionTokenizer],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A checkpoint has what is trained; a run resumed from one ends bit for bit the same."""
    tokenizers["oat-pow2"].save_pretrained(tmp_path / "t")
    flags = ("--tokenizer", str(tmp_path / "t"), "--policy", "vlm-tc", "--batch-size", "2")
    assert run(data, tmp_path / "p", checkpoints["smolvlm"], *flags, "--merge-lora") == 2
    assert "vlm-tc has no adapters to merge: add them with --lora-rank" in capsys.readouterr().err
    flags += ("--steps", "4", "--checkpoint-every", "2", "--ema", "0.5", "--lora-rank", "2")
    assert run(data, tmp_path / "adapters", checkpoints["smolvlm"], *flags) == 0
    out = tmp_path / "merged"
    assert run(data, out, checkpoints["smolvlm"], *flags, "--merge-lora") == 0
    weights = (out / "model.safetensors").read_bytes()
    last = out / "checkpoints/step-00000004"
    stored = load_file(last / "model.safetensors")
    assert all("lora_" in key for key in stored if key.startswith("backbone."))
    assert {key.split(".")[0] for key in stored} == {"backbone", "state", "tokens", "expert"}
    assert stored.keys() == load_file(last / "ema.safetensors").keys()
    shutil.rmtree(last)  # as if it had been killed on the way
    assert run(data, out, checkpoints["smolvlm"], *flags, "--merge-lora") == 0
    assert (out / "model.safetensors").read_bytes() == weights
    apart, merged = (load_file(path / "model.safetensors") for path in (tmp_path / "adapters", out))
    assert json.loads((out / "config.json").read_text())["net"]["backbone"]["lora_rank"] == 0
    for key in merged:
        if not key.startswith("backbone."):
            assert torch.equal(merged[key], apart[key])
    assert oatkit.load_policy(out).kind == "vlm-tc"


def launch(data: Path, out: Path, backbone: Path, *flags: str, is_sharded: bool) -> None:
    """Train in two processes."""
    where = ("--data", str(data), "--out", str(out), "--backbone", str(backbone))
    shared = ("policy", "train", "--preset", "tiny", "--cameras", "front")
    run_two(*shared, *where, *flags, is_sharded=is_sharded)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_sharded", "more"),
    [(False, ()), (True, ()), (True, ("--lora-rank", "2", "--merge-lora"))],
    ids=["ddp", "fsdp", "fsdp-lora"],
)
def test_two_processes_equal_one(
    is_sharded: bool,
    more: tuple[str, ...],
    data: Path,
    checkpoints: dict[str, Path],
    tokenizers: dict[str, ActionTokenizer],
    tmp_path: Path,
) -> None:
    tokenizers["oat-pow2"].save_pretrained(tmp_path / "t")
    flags = (
        *("--tokenizer", str(tmp_path / "t"), "--policy", "vlm-tc", "--steps", "4"),
        *("--batch-size", "4", "--accumulate", "2", "--checkpoint-every", "2", "--ema", "0.5"),
        *("--crop", "0.8", "--color-jitter", "0.3", "--mask-padding"),
        *more,
    )
    one, two = tmp_path / "1", tmp_path / "2"
    assert run(data, one, checkpoints["qwen3-vl"], *flags) == 0
    launch(data, two, checkpoints["qwen3-vl"], *flags, is_sharded=is_sharded)
    shutil.rmtree(two / "checkpoints/step-00000004")  # as if it had been killed on the way
    (two / "config.json").unlink()
    launch(data, two, checkpoints["qwen3-vl"], *flags, is_sharded=is_sharded)
    for name in ("model.safetensors", "checkpoints/step-00000004/optimizer.safetensors"):
        wanted, found = load_file(one / name), load_file(two / name)
        assert wanted.keys() == found.keys()
        for key in wanted:
            torch.testing.assert_close(found[key], wanted[key], rtol=1e-3, atol=1e-5)
    logs = [read_log(folder)[-1] for folder in (one, two)]
    for name in ("val_loss", "val_flow_loss", "val_accuracy"):  # each process did its share
        assert logs[1][name] == pytest.approx(logs[0][name], rel=1e-3)
    assert oatkit.load_policy(two).kind == "vlm-tc"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--policy", "vlm-ar"), "name the checkpoint of vlm-ar with --backbone"),
        (("--policy", "vlm-ar", "--backbone", "none"), "none is no readable backbone checkpoint"),
        (("--backbone", "x"), "the light policy has no backbone"),
        (("--policy", "vlm-tc", "--backbone", "x", "--dropout", "0.1"), "vlm-tc has no dropout"),
        (("--crop", "0.9"), "light has its own crop: leave --crop, --color-jitter and --uncropped"),
    ],
)
def test_wrong_flags_are_explained(
    flags: tuple[str, ...],
    message: str,
    data: Path,
    tokenizers: dict[str, ActionTokenizer],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tokenizers["oat-pow2"].save_pretrained(tmp_path / "t")
    shared = ("--data", str(data), "--out", str(tmp_path / "p"), "--tokenizer", str(tmp_path / "t"))
    assert cli.main(["policy", "train", *shared, *flags]) == 2
    assert message in capsys.readouterr().err


def test_a_trained_policy_goes_on_in_stages(
    data: Path,
    checkpoints: dict[str, Path],
    tokenizers: dict[str, ActionTokenizer],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Tokens first, then an expert on the backbone that they trained, then pure flow."""
    tokenizers["oat"].save_pretrained(tmp_path / "t")
    names = ("ar", "tc", "expert", "flow")
    ar, tc, expert, flow = (tmp_path / name for name in names)
    short = ("--steps", "2", "--batch-size", "4", "--preset", "tiny", "--data", str(data))
    start = ("--policy", "vlm-ar", "--tokenizer", str(tmp_path / "t"))
    assert run(data, ar, checkpoints["smolvlm"], *start, "--steps", "2") == 0

    def go_on(init: Path, out: Path, *flags: str) -> int:
        return cli.main(["policy", "train", "--init", str(init), "--out", str(out), *short, *flags])

    assert go_on(ar, tc, "--policy", "vlm-tc", "--flow-draws", "2") == 0
    assert go_on(tc, expert, "--expert-only", "--flow-draws", "4") == 0
    assert "not inherited" not in capsys.readouterr().out
    assert go_on(tc, flow, "--policy", "vlm-flow", "--freeze-vision") == 0
    note = f"note: {tc} was trained with --flow-draws 2, which is not inherited: say so to train"
    assert note in capsys.readouterr().out
    before, after = (load_file(folder / "model.safetensors") for folder in (tc, expert))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed
    assert all(name.startswith("expert.") for name in changed)
    loaded = [oatkit.load_policy(folder) for folder in (tc, expert, flow)]
    assert [policy.kind for policy in loaded] == ["vlm-tc", "vlm-tc", "vlm-flow"]
    assert loaded[1].net.config.expert_only
    assert loaded[1].net.config.flow_draws == 4
    log = json.loads((expert / "train.jsonl").read_text().splitlines()[-1])
    assert "token_loss" not in log
    assert go_on(expert, tmp_path / "all") == 0  # a stage is not inherited
    assert not oatkit.load_policy(tmp_path / "all").net.config.expert_only
    assert go_on(expert, tmp_path / "tokens", "--policy", "vlm-ar") == 0
    capsys.readouterr()
    assert go_on(tc, tmp_path / "no", "--expert-only", "--expert-start", "1") == 2
    error = capsys.readouterr().err
    assert "--expert-only trains nothing in the steps before --expert-start: leave one" in error
    assert go_on(flow, tmp_path / "no", "--policy", "vlm-tc") == 2
    assert "has no action tokens that vlm-tc could start from" in capsys.readouterr().err


def test_frozen_weights_of_bfloat16_go_on_in_float32(
    data: Path, checkpoints: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FSDP shards float32 alone. How a policy was trained is not inherited, nor is `--dtype`."""
    flags = ("--policy", "vlm-flow", "--horizon", "4", "--steps", "1")
    frozen = ("--dtype", "bfloat16", "--freeze-language")
    first = tmp_path / "bfloat16"
    how = (*frozen, "--crop", "0.9", "--mask-padding")
    assert run(data, first, checkpoints["smolvlm"], *flags, *how) == 0
    go_on = ("--init", str(first), "--steps", "1", "--batch-size", "2", "--preset", "tiny")
    train = ["policy", "train", "--data", str(data), *go_on]
    assert cli.main([*train, "--out", str(tmp_path / "a"), "--crop", "0.8"]) == 0
    left = "--mask-padding --freeze-language --dtype bfloat16, which is not inherited"
    assert f"note: {first} was trained with {left}" in capsys.readouterr().out
    config = oatkit.load_policy(tmp_path / "a").net.config
    assert config.backbone == BackboneOptions()
    assert (config.augmentation.crop, config.mask_padding) == (0.8, False)
    weights = load_file(tmp_path / "a/model.safetensors")
    assert torch.bfloat16 not in {weight.dtype for weight in weights.values()}
    assert cli.main([*train, "--out", str(tmp_path / "b"), *frozen]) == 0
    assert oatkit.load_policy(tmp_path / "b").net.config.backbone.dtype == "bfloat16"
