"""Vision-language policies as artifacts, and how they act by their tokens."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import oatkit
from oatkit.data import Dataset
from oatkit.errors import ArtifactError
from oatkit.policies import Policy, VlmConfig
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions
from oatkit.policies.vlm.vlm_config import ExpertConfig, keep_precision
from oatkit.policies.vlm.vlm_model import VlmModel
from oatkit.types.observation_keys import IMAGES, STATE
from tests.policies import tiny
from tests.policies.tiny import seeded
from tests.policies.vlm import tiny_vlm
from tests.policies.vlm.tiny_vlm import families


@pytest.mark.parametrize(
    ("objective", "family", "options"),
    [
        ("vlm-ar", "paligemma2", {}),
        ("vlm-tc", "qwen3-vl", {"lora_rank": 2, "freeze_vision": True}),
        ("vlm-flow", "smolvlm", {"dtype": "bfloat16"}),
    ],
)
def test_an_artifact_is_the_same_policy(
    objective: str,
    family: str,
    options: dict[str, Any],
    checkpoints: dict[str, Path],
    dataset: Dataset,
    tmp_path: Path,
) -> None:
    """It holds the weights of the backbone: the checkpoint may be gone."""
    policy = tiny_vlm.make_policy(
        objective, checkpoints[family], "oat-pow2", dataset, backbone=BackboneOptions(**options)
    )
    policy.extras = {"note": "kept"}
    path = policy.save_pretrained(tmp_path / "p")
    names = {"config.json", "model.safetensors", "README.md", "tokenizer", "backbone"}
    assert {file.name for file in path.iterdir()} == names
    assert not list((path / "backbone").glob("*.safetensors"))
    back = oatkit.load_policy(path)
    assert isinstance(back.model, VlmModel)
    assert back.to_json() == policy.to_json()
    assert back.kind == objective
    observation = tiny_vlm.batch(policy, dataset)
    wanted = policy.predict_action_chunk(observation, generator=seeded())
    found = back.predict_action_chunk(observation, generator=seeded())
    np.testing.assert_array_equal(found.chunk, wanted.chunk)
    np.testing.assert_array_equal(found.entropy_bits, wanted.entropy_bits)
    text = back.net.backbone.processor.tokenizer
    assert ("<|action_mask|>" in text.get_vocab()) == ("tokens" in policy.heads)
    trained = [{n for n, p in x.net.named_parameters() if p.requires_grad} for x in (policy, back)]
    assert trained[0] == trained[1]


def test_another_tokenizer_is_refused(
    autoregressive: dict[str, Policy], dataset: Dataset, tmp_path: Path
) -> None:
    autoregressive["qwen3-vl"].save_pretrained(tmp_path / "p")
    tiny.make_tokenizer("oat", dataset, levels=(5, 5)).save_pretrained(tmp_path / "p/tokenizer")
    with pytest.raises(ArtifactError, match="trained on 20 action tokens, its tokenizer has 25"):
        oatkit.load_policy(tmp_path / "p")
    same_size = tiny.make_tokenizer("oat-pow2", dataset)
    with torch.no_grad():
        next(same_size.codec.parameters()).add_(1)
    same_size.save_pretrained(tmp_path / "p/tokenizer")
    with pytest.raises(ArtifactError, match="trained on other tokens than those of"):
        oatkit.load_policy(tmp_path / "p")


def test_an_unknown_kind_is_named(autoregressive: dict[str, Policy], tmp_path: Path) -> None:
    path = autoregressive["qwen3-vl"].save_pretrained(tmp_path / "p")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"kind": "vlm-arr"}))
    with pytest.raises(ArtifactError, match=r"unknown policy kind 'vlm-arr'; known, .* vlm-ar"):
        oatkit.load_policy(path)


@families
@pytest.mark.parametrize("text", ["open the door", "a far longer instruction than the other one"])
def test_a_batch_is_its_rows(
    family: str, text: str, autoregressive: dict[str, Policy], dataset: Dataset
) -> None:
    policy = autoregressive[family]
    observation = tiny_vlm.batch(policy, dataset, 3) | {"task": [text, "close it", text]}
    generators = [seeded(i) for i in range(3)]
    together = policy.predict_action_chunk(observation, generator=generators)
    for i in range(3):
        alone = policy.predict_action_chunk(tiny.row(observation, i), generator=[seeded(i)])
        np.testing.assert_array_equal(alone.ids[0], together.ids[i])
        np.testing.assert_allclose(alone.entropy_bits[0], together.entropy_bits[i], atol=1e-3)


def test_chunks_go_on_from_committed_actions(
    autoregressive: dict[str, Policy], dataset: Dataset
) -> None:
    policy = autoregressive["smolvlm"]
    observation = tiny_vlm.batch(policy, dataset, 3)
    plain = policy.predict_action_chunk(observation, generator=seeded())
    nothing = np.zeros((0, tiny.ACTION_DIM))
    same = policy.predict_action_chunk(observation, generator=seeded(), committed=nothing)
    np.testing.assert_array_equal(same.chunk, plain.chunk)
    far = np.asarray(policy.tokenizer.normalizer.unnormalize(np.full((2, tiny.ACTION_DIM), 30.0)))
    told = policy.predict_action_chunk(observation, generator=seeded(), committed=far)
    assert (told.ids != plain.ids).any()
    scale = policy.tokenizer.normalizer.scale
    away, before = (np.square((found.chunk[:, :2] - far) / scale).mean() for found in (told, plain))
    assert away < before


@families
def test_what_is_observed_matters(
    family: str, autoregressive: dict[str, Policy], dataset: Dataset
) -> None:
    policy = autoregressive[family]
    observation = tiny.row(tiny_vlm.batch(policy, dataset), 0)
    found = policy.predict_action_chunk(observation, generator=seeded())
    key = f"{IMAGES}front"
    for change in (
        {STATE: observation[STATE] + 1},
        {"task": ["do something else"]},
        {key: 255 - observation[key]},
        {key: None},
    ):
        other = policy.predict_action_chunk(observation | change, generator=seeded())
        assert np.abs(other.entropy_bits - found.entropy_bits).max() > 1e-4, change.keys()


@families
def test_budgets_nest(family: str, autoregressive: dict[str, Policy], dataset: Dataset) -> None:
    policy = autoregressive[family]
    observation = tiny_vlm.batch(policy, dataset)
    full = policy.predict_action_chunk(observation, generator=seeded())
    assert 0 <= full.ids.min() <= full.ids.max() < policy.tokenizer.vocab_size
    np.testing.assert_array_equal(full.chunk, policy.tokenizer.decode(full.ids))
    for budget in (1, 2, 3, 5, 8):
        found = policy.predict_action_chunk(observation, budget=budget, generator=seeded())
        assert found.budget.tolist() == [budget] * 3
        assert found.calls.tolist() == [policy.schedule.calls_for(budget)] * 3
        np.testing.assert_array_equal(found.ids[:, :budget], full.ids[:, :budget])
        np.testing.assert_array_equal(found.chunk, policy.tokenizer.decode(full.ids, budget=budget))


def test_auto_and_deadlines_as_in_the_light_policy(
    checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints["qwen3-vl"], "oat-pow2", dataset)
    observation = tiny_vlm.batch(policy, dataset, 5)
    with pytest.raises(ValueError, match="budget 'auto' has no thresholds"):
        policy.predict_action_chunk(observation, budget="auto")
    policy.rows_at_once = 2
    read = policy.read(observation)
    policy.calibrate(read, torch.from_numpy(observation["action"]), seeded())
    assert policy.auto is not None
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    assert set(found.budget.tolist()) <= {1, 2, 4, 8}
    assert policy.predict_action_chunk(observation, deadline_ms=1e6).budget[0] == 8
    assert policy.predict_action_chunk(observation, deadline_ms=1e-3).budget[0] == 1


def test_the_tokens_of_a_cotrained_policy_stop_early_too(
    checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    policy = tiny_vlm.make_policy("vlm-tc", checkpoints["qwen3-vl"], "oat-pow2", dataset)
    observation = tiny_vlm.batch(policy, dataset)
    read = policy.read(observation)
    policy.calibrate(read, torch.from_numpy(observation["action"]), seeded())
    assert policy.auto is not None
    with pytest.raises(ValueError, match="expected a number of Euler steps"):
        policy.predict_action_chunk(observation, budget="auto")
    policy.head = "tokens"
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    assert found.budget.tolist() == found.calls.tolist()


@families
def test_fast_ends_where_it_says_so(
    family: str, checkpoints: dict[str, Path], dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is sampled like any id; what follows it is not decoded."""
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints[family], "fast", dataset)
    observation = tiny_vlm.batch(policy, dataset)
    tokens, end = policy.tokenizer.encode(torch.from_numpy(observation["action"])), 300
    assert policy.net.end_id == end
    ends = torch.full((3, 1), end)
    told = torch.cat([tokens.ids, ends], dim=1)
    told[torch.arange(told.shape[1]) >= tokens.lengths[:, None]] = end
    start, width = policy.net.start, told.shape[1]

    class Telling:
        def __init__(self, *args: Any) -> None:
            self._generation, self._slot = start(*args), -1

        def feed(self, *args: Any) -> Tensor:
            self._slot += 1
            logits = self._generation.feed(*args)
            assert logits.shape[-1] == end + 1
            wanted = told[:, min(self._slot, width - 1)]
            return torch.full_like(logits, -99).index_put(
                (torch.arange(3), wanted * 0, wanted), torch.tensor(99.0)
            )

    monkeypatch.setattr(policy.net, "start", Telling)
    found = policy.predict_action_chunk(observation)
    assert found.budget.tolist() == tokens.lengths.tolist()
    assert found.calls.tolist() == (tokens.lengths + 1).clamp(max=24).tolist()
    np.testing.assert_array_equal(found.chunk, policy.tokenizer.decode(tokens))


def test_one_frame_at_a_time_is_a_batch_with_history(
    checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints["qwen3-vl"], "oat-pow2", dataset, history=2)
    key = f"{IMAGES}front"
    wanted = dataset.chunks(tiny.HORIZON, history=2, cameras=("front",)).batch([0, 1, 2])
    policy.reset()
    for frame in range(3):
        now = {k: wanted[k][frame, -1] for k in (STATE, key)} | {"task": wanted["task"][frame]}
        if frame == 1:
            policy.observe(now)
            continue
        found = policy.predict_action_chunk(now, generator=seeded(frame))
        whole = policy.predict_action_chunk(tiny.row(wanted, frame), generator=seeded(frame))
        np.testing.assert_allclose(found.entropy_bits, whole.entropy_bits[0], atol=1e-4)


def test_both_heads_of_one_model(cotrained: dict[str, Policy], dataset: Dataset) -> None:
    policy = cotrained["paligemma2"]
    observation = tiny_vlm.batch(policy, dataset)
    assert policy.budgets == (1, 2, tiny_vlm.EXPERT.num_steps)
    assert policy.predict_action_chunk(observation, budget=1).calls.tolist() == [1] * 3
    with pytest.raises(ValueError, match="a flow expert acts, which has no schedules"):
        policy.predict_action_chunk(observation, schedule=policy.schedule)
    policy.head = "tokens"
    try:
        found = policy.predict_action_chunk(observation, budget=4, generator=seeded())
        assert found.budget.tolist() == found.calls.tolist() == [4] * 3
        np.testing.assert_array_equal(found.chunk, policy.tokenizer.decode(found.ids))
    finally:
        policy.head = "flow"


def test_actions_are_normalized_inside(cotrained: dict[str, Policy], dataset: Dataset) -> None:
    policy = cotrained["qwen3-vl"]
    statistics = dataset.action_statistics()
    ends = policy.actions.normalize(np.stack([statistics.min, statistics.max]))
    np.testing.assert_allclose(ends, [[-1] * 3, [1] * 3], atol=1e-6)


def with_config(policy: Policy, config: VlmConfig) -> Policy:
    """The policy under another config."""
    assert isinstance(policy.model, VlmModel)
    return policy.with_model(policy.model.with_config(config))


def test_a_policy_goes_on_with_another_objective(
    checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    """What both have is kept: the backbone, the action tokens, the state; the expert is new."""
    before = tiny_vlm.make_policy("vlm-ar", checkpoints["paligemma2"], "oat", dataset)
    kept = {name: tensor.clone() for name, tensor in before.net.state_dict().items()}
    config = replace(before.net.config, objective="vlm-tc")
    cotrained = with_config(before, config)
    assert cotrained.heads == ("flow", "tokens")
    found = cotrained.net.state_dict()
    assert {name for name in found if name not in kept} == {
        name for name in found if name.startswith("expert.")
    }
    assert all(torch.equal(found[name], kept[name]) for name in kept)
    alone = with_config(cotrained, replace(config, expert_only=True))
    again = with_config(alone, config)
    assert {n for n, p in again.net.named_parameters() if p.requires_grad} == {
        n for n, p in cotrained.net.named_parameters() if p.requires_grad
    }
    flow = with_config(again, replace(config, objective="vlm-flow"))
    half = replace(config, backbone=replace(config.backbone, dtype="bfloat16"))
    assert keep_precision(half, half) == half
    assert keep_precision(half, replace(half, expert_only=True)).backbone.dtype == "float32"
    with pytest.raises(ValueError, match="vlm-flow has no action tokens that vlm-tc could"):
        with_config(flow, config)
    with pytest.raises(ValueError, match="only what is frozen may change"):
        with_config(again, replace(config, backbone=BackboneOptions(lora_rank=2)))
    with pytest.raises(ValueError, match="has a flow expert with"):
        with_config(again, replace(config, expert=ExpertConfig(width=8)))


def test_what_was_calibrated_stays_as_far_as_the_heads_do(
    checkpoints: dict[str, Path], dataset: Dataset
) -> None:
    policy = tiny_vlm.make_policy("vlm-ar", checkpoints["smolvlm"], "oat", dataset)
    policy.auto, policy.execution = AutoThresholds((1,), (0.5,)), tiny.two_lengths(1.0)
    policy.extras = {"note": 1}
    same = policy.with_tasks(["fold the cloth"])
    assert same.spec.tasks == (*tiny.TASKS, "fold the cloth")
    assert (same.net, same.auto, same.execution) == (policy.net, policy.auto, policy.execution)
    cotrained = with_config(policy, replace(policy.net.config, objective="vlm-tc"))
    assert (cotrained.head, cotrained.auto, cotrained.execution) == ("flow", policy.auto, None)
    cotrained.execution = policy.execution
    flow = with_config(cotrained, replace(cotrained.net.config, objective="vlm-flow"))
    assert (flow.auto, flow.execution) == (None, policy.execution)
    assert same.extras is cotrained.extras is flow.extras is policy.extras
