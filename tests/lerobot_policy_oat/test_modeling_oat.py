"""The policy type `oat`: training, acting, and the folder that LeRobot and oatkit both open."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import oatkit
from oatkit.data import Dataset
from oatkit.errors import ArtifactError
from oatkit.evaluation.action_plan import ActionPlan
from oatkit.jobs.policy_calibration import calibrate_policy
from oatkit.policies.generation.auto_execution import AutoExecution
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.types import Execution, Sampling
from tests.jobs.mixed_robots import trained_policies, two_robots
from tests.lerobot_policy_oat.sharding import sharded
from tests.lerobot_policy_oat.small_oat import (
    CAMERA,
    batch,
    frames,
    make_config,
    make_policy,
    meta,
    reopen,
    stats,
)
from tests.policies import tiny
from tests.policies.tiny import ACTION_DIM, HORIZON, TASKS


@pytest.mark.parametrize("camera", [None, CAMERA])
def test_training_lowers_the_loss(
    dataset: Dataset, tokenizer_path: str, camera: str | None
) -> None:
    policy = make_policy(dataset, make_config(tokenizer_path, camera))
    preset = policy.config.get_optimizer_preset()
    optimizer = torch.optim.AdamW(policy.get_optim_params(), lr=1e-2, betas=preset.betas)
    given = batch(dataset)
    policy.train()
    losses = []
    for _ in range(8):
        loss, log = policy.forward(given)
        assert log == {"loss": loss.item()}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_the_loss_is_that_of_the_light_policy(dataset: Dataset, tokenizer_path: str) -> None:
    policy = make_policy(dataset, make_config(tokenizer_path, CAMERA)).eval()
    given = batch(dataset)
    light = policy.light
    known = {key: given[key] for key in ("observation.state", CAMERA, "task")}
    observations = light.read(known)
    tokens = light.tokenizer.encode(given["action"])
    expected = light.loss(observations, tokens, given["action"], None).total
    torch.testing.assert_close(policy.forward(given)[0], expected)


def test_dropout_is_for_training_only(dataset: Dataset, tokenizer_path: str) -> None:
    net = tiny.LightConfig(width=16, num_layers=1, num_heads=2, dropout=0.5)
    policy = make_policy(dataset, make_config(tokenizer_path, net=net))
    given = batch(dataset)
    for mode, is_same in ((policy.train, False), (policy.eval, True)):
        mode()
        losses = {policy.forward(given)[0].item() for _ in range(3)}
        assert (len(losses) == 1) == is_same


def chunk_at(policy: Any, steps: list[dict[str, Any]], now: int, **given: Any) -> Tensor:
    """What the light policy predicts at a step of an episode, (B, T, A)."""
    states = [steps[t]["observation.state"] for t in (max(0, now - 1), now)]
    known = {"observation.state": torch.stack(states, dim=1), "task": steps[now]["task"]}
    sampling = policy.config.sampling
    return policy.light.predict_action_chunk(known, sampling=sampling, **given).chunk


@pytest.mark.parametrize("number", [1, 3, 8, None])
def test_a_number_of_steps_of_each_chunk_and_history_from_every_step(
    dataset: Dataset, tokenizer_path: str, number: int | None
) -> None:
    settings = {"n_action_steps": number, "temperature": 1.0, "seed": 3}
    policy = make_policy(dataset, make_config(tokenizer_path, **settings))
    steps = frames(dataset, 10)
    every = number or HORIZON // 2
    random = torch.Generator().manual_seed(3)
    chunks = [chunk_at(policy, steps, t, generator=random)[:, :every] for t in range(0, 10, every)]
    expected = torch.cat(chunks, dim=1)[:, :10]
    for _ in range(2):
        policy.reset()
        chosen = torch.stack([policy.select_action(step) for step in steps], dim=1)
        assert torch.equal(chosen, expected)


def test_a_blend_is_the_mean_of_all_chunks_of_a_moment(
    dataset: Dataset, tokenizer_path: str
) -> None:
    policy = make_policy(dataset, make_config(tokenizer_path, n_action_steps=3, blend=0.5))
    steps = frames(dataset, 12)
    chunks = {t: chunk_at(policy, steps, t) for t in range(0, 12, 3)}
    for now, step in enumerate(steps):
        acting = [t for t in chunks if 0 <= now - t < HORIZON]
        weights = torch.tensor([math.exp(-0.5 * (now - t)) for t in acting])
        planned_BAC = torch.stack([chunks[t][:, now - t] for t in acting], dim=-1)
        expected = planned_BAC @ (weights / weights.sum())
        torch.testing.assert_close(policy.select_action(step), expected)


def test_auto_asks_for_each_environment_when_it_is_due(
    dataset: Dataset, tokenizer_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = make_policy(dataset, make_config(tokenizer_path, n_action_steps="auto", blend=0.1))
    steps = frames(dataset, 9, num_rows=3)
    entropy_B = first_entropy(policy, steps)
    unsure, sure = (1.0,) * HORIZON, (0.1,) * HORIZON  # 2 steps and 4
    policy.light.execution = AutoExecution((entropy_B.median().item(),), (sure, unsure))
    asked: list[int] = []
    predict = policy.light.predict_action_chunk

    def counting(observation: Any, **given: Any) -> Any:
        asked.append(len(observation["task"]))
        return predict(observation, **given)

    monkeypatch.setattr(policy.light, "predict_action_chunk", counting)
    together = torch.stack([policy.select_action(step) for step in steps])
    assert asked[:2] == [3, 1], "at first all of them, then the one that was unsure"
    assert sum(asked) < 3 * len(steps)
    for row in range(3):
        policy.reset()
        alone = [
            policy.select_action({key: value[row : row + 1] for key, value in step.items()})
            for step in steps
        ]
        torch.testing.assert_close(torch.cat(alone), together[:, row])


def first_entropy(policy: Any, steps: list[dict[str, Any]]) -> Tensor:
    """Mean entropy of the tokens of each environment's first chunk."""
    state = steps[0]["observation.state"]
    known = {"observation.state": torch.stack([state, state], dim=1), "task": steps[0]["task"]}
    return policy.light.predict_action_chunk(known, sampling=Sampling(0)).entropy_bits.mean(dim=1)


def test_a_checkpoint_is_calibrated_for_auto(
    dataset: Dataset, tokenizer_path: str, tmp_path: Path
) -> None:
    config = make_config(tokenizer_path, n_action_steps="auto", blend=0.1)
    make_policy(dataset, config).save_pretrained(tmp_path)
    lerobots = (tmp_path / "config.json").read_bytes()
    (step,) = frames(dataset, 1)
    with pytest.raises(ValueError, match=r"n_action_steps is 'auto', but .* or give a number$"):
        reopen(tmp_path).select_action(step)
    calibrate_policy(oatkit.load_policy(tmp_path), tmp_path, dataset, split="all")
    assert (tmp_path / "config.json").read_bytes() == lerobots
    policy = reopen(tmp_path)
    assert policy.config.execution == Execution("auto", 0.1)
    assert policy.select_action(step).shape == (2, ACTION_DIM)


def test_sampling_is_as_configured(
    dataset: Dataset, tokenizer_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"budget": 2, "temperature": 0.5, "top_k": 3, "top_p": 0.9}
    policy = make_policy(dataset, make_config(tokenizer_path, **settings))
    found = []

    def predict(observation: Any, **given: Any) -> Any:
        wanted = {"budget": 2, "sampling": Sampling(0.5, 3, 0.9), "generator": None}
        assert given == {**wanted, "draws": 1, "committed": None}
        found.append(type(policy.light).predict_action_chunk(policy.light, observation, **given))
        return found[-1]

    monkeypatch.setattr(policy.light, "predict_action_chunk", predict)
    (step,) = frames(dataset, 1)
    assert policy.predict_action_chunk(step).shape == (2, HORIZON, ACTION_DIM)
    assert found[0].ids.shape == (2, 2)


def test_budget_auto_stops_where_the_policy_does(dataset: Dataset, tokenizer_path: str) -> None:
    policy = make_policy(dataset, make_config(tokenizer_path, budget="auto"))
    (step,) = frames(dataset, 1)
    with pytest.raises(ValueError, match="budget 'auto' has no thresholds: `oatkit policy calib"):
        policy.select_action(step)
    policy.light.auto = AutoThresholds((2,), (64.0,))
    two = make_policy(dataset, make_config(tokenizer_path, budget=2))
    policy.reset()
    assert torch.equal(policy.select_action(step), two.select_action(step))


def test_the_draw_that_goes_on_best_is_executed(dataset: Dataset, tokenizer_path: str) -> None:
    settings = {"n_action_steps": 3, "draws": 4, "seed": 1, "temperature": 1.0}
    policy = make_policy(dataset, make_config(tokenizer_path, **settings))
    found: list[Any] = []
    predict = type(policy.light).predict_action_chunk

    def noting(observation: Any, **given: Any) -> Any:
        found.append(predict(policy.light, observation, **given))
        return found[-1]

    policy.light.predict_action_chunk = noting
    actions = torch.stack([policy.select_action(step) for step in frames(dataset, 6)], dim=1)
    plans = [
        ActionPlan(Execution(3, draws=4), policy.light.tokenizer.normalizer.scale) for _ in "ab"
    ]
    for number, one in enumerate(found):
        assert one.draws.shape == (2, 4, HORIZON, ACTION_DIM)
        for row, plan in enumerate(plans):
            plan.add(one.draws[row].numpy())
            expected = plan.take(3)[0]
            np.testing.assert_array_equal(actions[row, 3 * number : 3 * number + 3], expected)
    assert len(found) == 2


def test_lerobots_real_time_chunking(dataset: Dataset, tokenizer_path: str) -> None:
    """What is executed meanwhile is committed, and the rest of the older chunk is not."""
    policy = make_policy(dataset, make_config(tokenizer_path))
    (step,) = frames(dataset, 1)

    def chunk(**given: Any) -> Tensor:
        policy.reset()
        return policy.predict_action_chunk(step, **given)

    def expected(committed: Tensor) -> Tensor:
        state = step["observation.state"]
        known = {"observation.state": torch.stack([state, state], dim=1), "task": step["task"]}
        return policy.light.predict_action_chunk(
            known, sampling=Sampling(0), committed=committed
        ).chunk

    left = 3 * chunk()[:, 3:] + 1
    told = chunk(prev_chunk_left_over=left, inference_delay=2, execution_horizon=4)
    assert torch.equal(told, expected(left[:, :2]))
    assert not torch.equal(told, chunk())
    assert torch.equal(
        chunk(prev_chunk_left_over=left[0], inference_delay=1), expected(left[0, :1])
    )
    for nothing in ({"inference_delay": 0}, {"inference_delay": None}):
        assert torch.equal(chunk(prev_chunk_left_over=left, **nothing), chunk())
    assert torch.equal(chunk(prev_chunk_left_over=None, inference_delay=2), chunk())


@pytest.mark.parametrize("kind", ["bin", "quest", "acodec"])
def test_real_time_chunking_of_tokens_without_prefixes_warns_once(
    dataset: Dataset, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tiny.make_tokenizer(kind, dataset).save_pretrained(tmp_path / kind)
    policy = make_policy(dataset, make_config(str(path)))
    (step,) = frames(dataset, 1)
    plain = policy.predict_action_chunk(step)
    for delay, num_warnings in ((0, 0), (None, 0), (2, 1), (3, 1)):
        policy.reset()
        told = {"prev_chunk_left_over": plain, "inference_delay": delay}
        assert torch.equal(policy.predict_action_chunk(step, **told), plain)
        assert len(caplog.messages) == num_warnings
    assert caplog.messages[0] == (
        f"chunks of {kind} do not go on from the one under way, since its tokens have no "
        "prefixes: expect jumps, or take a tokenizer such as oat"
    )


def test_an_episode_repeats_with_a_seed(dataset: Dataset, tokenizer_path: str) -> None:
    config = make_config(tokenizer_path, temperature=1.0, n_action_steps=1, seed=3)
    policy = make_policy(dataset, config)

    def episode() -> Tensor:
        policy.reset()
        (step,) = frames(dataset, 1)
        return torch.stack([policy.select_action(step) for _ in range(4)])

    first = episode()
    assert torch.equal(first, episode())
    assert not torch.equal(first[2], first[3]), "two predictions have different random numbers"


@pytest.mark.parametrize("camera", [CAMERA, "observation.image"])
def test_one_folder_for_lerobot_and_oatkit(
    dataset: Dataset, tokenizer_path: str, tmp_path: Path, camera: str
) -> None:
    policy = make_policy(dataset, make_config(tokenizer_path, camera))
    policy.save_pretrained(tmp_path)
    given = batch(dataset, 2)
    frame = {"observation.state": given["observation.state"][:, -1], "task": given["task"]}
    frame[camera] = given[CAMERA][:, -1]
    expected = policy.predict_action_chunk(frame)

    again = reopen(tmp_path)
    torch.testing.assert_close(again.predict_action_chunk(frame), expected)
    assert again.config.image_features.keys() == {camera}
    assert again.config.net == tiny.CONFIG

    name = "front" if camera == CAMERA else "image"
    light = oatkit.load_policy(tmp_path)
    known = {
        "observation.state": frame["observation.state"][:, None].expand(-1, 2, -1),
        f"observation.images.{name}": frame[camera][:, None].expand(-1, 2, -1, -1, -1),
        "task": frame["task"],
    }
    chunk = light.predict_action_chunk(known, sampling=Sampling(0)).chunk
    torch.testing.assert_close(chunk, expected)
    assert light.extras["data"]["state_names"] == ["0", "1", "2", "3", "4"]
    assert {"oatkit.json", "config.json", "model.safetensors"} <= {
        p.name for p in tmp_path.iterdir()
    }


@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module .* returned a view")  # nothing changes it
@pytest.mark.parametrize("head", ["tokens", "flow"])
def test_a_sharded_policy_trains_alike_and_saves_what_was_gathered(
    dataset: Dataset, tokenizer_path: str, tmp_path: Path, head: str
) -> None:
    policy = make_policy(dataset, make_config(tokenizer_path, CAMERA, head=head)).eval()
    given, weights = batch(dataset), {k: v.clone() for k, v in policy.state_dict().items()}
    loss, _ = policy(given)
    loss.backward()
    expected = {name: p.grad for name, p in policy.named_parameters() if p.grad is not None}
    policy.zero_grad()
    with sharded(policy) as shards:
        again, _ = shards(given)
        again.backward()
        grads = {name: p.grad for name, p in shards.named_parameters() if name in expected}
        for name, grad in grads.items():
            torch.testing.assert_close(grad.full_tensor(), expected[name])
        shards._save_pretrained(tmp_path, state_dict=weights)
    torch.testing.assert_close(again, loss)
    saved = {f"net.{k}": v for k, v in oatkit.load_policy(tmp_path).net.state_dict().items()}
    torch.testing.assert_close(saved, weights)


def test_the_folder_names_no_path_of_the_machine(
    dataset: Dataset, tokenizer_path: str, tmp_path: Path
) -> None:
    make_policy(dataset, make_config(tokenizer_path)).save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["tokenizer_path"] is None
    assert tokenizer_path not in (tmp_path / "oatkit.json").read_text()


def test_what_oatkit_saves_over_a_checkpoint_is_what_it_opens(
    dataset: Dataset, tokenizer_path: str, tmp_path: Path
) -> None:
    make_policy(dataset, make_config(tokenizer_path)).save_pretrained(tmp_path)
    light = oatkit.load_policy(tmp_path)
    light.extras = {"note": "changed"}
    light.save_pretrained(tmp_path)
    assert oatkit.load_policy(tmp_path).extras == {"note": "changed"}


def test_a_checkpoint_learns_further_tasks(
    dataset: Dataset, tokenizer_path: str, tmp_path: Path
) -> None:
    make_policy(dataset, make_config(tokenizer_path)).save_pretrained(tmp_path)
    more = meta(dataset, tasks=SimpleNamespace(index=[*TASKS[::-1], "knock"]))
    policy = reopen(tmp_path, dataset_meta=more)
    assert policy.light.spec.tasks == (*TASKS, "knock")
    assert policy.light.extras["data"]["state_keys"] == ["observation.state"]
    given = batch(dataset, 2) | {"task": ["knock", TASKS[0]]}
    assert torch.isfinite(policy.forward(given)[0])


def test_mistakes_are_answered_in_a_sentence(
    dataset: Dataset, tokenizer_path: str, tmp_path: Path
) -> None:
    from lerobot.configs.types import NormalizationMode
    from lerobot_policy_oat.modeling_oat import OATPolicy

    with pytest.raises(ValueError, match=r"name its folder with --policy\.tokenizer_path"):
        _ = make_config(None).action_delta_indices
    with pytest.raises(ArtifactError, match="nowhere is no folder here"):
        _ = make_config("nowhere").action_delta_indices
    with pytest.raises(ValueError, match="a new oat policy needs a dataset"):
        OATPolicy(make_config(tokenizer_path))
    with pytest.raises(ValueError, match="chunk_size is 50, the tokenizer's horizon is 8"):
        make_policy(dataset, make_config(tokenizer_path, chunk_size=50))
    twice = {"ACTION": NormalizationMode.MEAN_STD}
    with pytest.raises(ValueError, match=r"oat normalizes for itself, but .* MEAN_STD for ACTION"):
        make_policy(dataset, make_config(tokenizer_path, normalization_mapping=twice))
    wider = meta(dataset)
    wider.features["action"] = {"shape": (7,), "names": None}
    with pytest.raises(ValueError, match="for 3 action dimensions, the dataset has 7: train a"):
        OATPolicy(make_config(tokenizer_path), stats(dataset), wider)

    make_policy(dataset, make_config(tokenizer_path)).save_pretrained(tmp_path)
    known = {"chunk_size": HORIZON, "n_action_steps": 4}
    with pytest.raises(ValueError, match=r"has its own tokenizer: leave --policy\.tokenizer_path"):
        reopen(tmp_path, config=make_config(tokenizer_path, **known))
    with pytest.raises(ValueError, match="n_obs_steps is 1, the policy reads 2 frames"):
        reopen(tmp_path, config=make_config(None, n_obs_steps=1, **known))
    other = tiny.LightConfig()
    with pytest.raises(ValueError, match="the policy has its own network"):
        reopen(tmp_path, config=make_config(None, net=other, **known))


@pytest.mark.parametrize("kind", ["light", "light-flow"])
def test_a_robot_out_of_a_mixture(tmp_path: Path, kind: str) -> None:
    """What was trained for several robots acts, trains further and is saved for one of them."""
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot_policy_oat.configuration_oat import OATConfig
    from lerobot_policy_oat.modeling_oat import OATPolicy

    mixture = two_robots()
    light = trained_policies(mixture, tmp_path / "robots", kind)["small"]
    config = OATConfig(
        input_features={"observation.state": PolicyFeature(FeatureType.STATE, (3,))},
        output_features={"action": PolicyFeature(FeatureType.ACTION, (2,))},
        head=light.head,
        net=light.net.config if kind == "light" else light.net.config.sizes,
        n_obs_steps=light.spec.history,
        device="cpu",
        temperature=0.0,
    )
    policy = OATPolicy(config, light=light)
    rows = mixture["small"].chunks(light.tokenizer.horizon, history=light.spec.history)
    given = rows.batch([0, 5])
    frames = {"observation.state": torch.from_numpy(given["observation.state"][:, -1])}
    expected = policy.predict_action_chunk(frames)
    assert expected.shape == (2, light.tokenizer.horizon, 2)
    states = torch.from_numpy(given["observation.state"])
    loss, _ = policy.forward(
        {"observation.state": states, "action": torch.from_numpy(given["action"])}
    )
    assert loss.isfinite()
    policy.save_pretrained(tmp_path / "saved")
    torch.testing.assert_close(reopen(tmp_path / "saved").predict_action_chunk(frames), expected)
