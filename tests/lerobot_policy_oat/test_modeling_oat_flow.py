"""The policy type `oat` with a flow head: training, acting, and the folder that both open."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.jobs.policy_calibration import calibrate_policy
from oatkit.nn.sample_random import SampleRandom
from oatkit.policies import LightFlowConfig
from oatkit.policies.light.light_flow_model import LightFlowModel
from oatkit.types import Sampling
from tests.lerobot_policy_oat.small_oat import (
    CAMERA,
    batch,
    frames,
    make_config,
    make_policy,
    meta,
    reopen,
)
from tests.policies import tiny
from tests.policies.tiny import ACTION_DIM, HORIZON, TASKS


def flow_config(**settings: Any) -> Any:
    return make_config(None, head="flow", chunk_size=HORIZON, **settings)


def chunk_at(policy: Any, steps: list[dict[str, Any]], now: int, **given: Any) -> Any:
    """What the light policy predicts at a step of an episode."""
    states = [steps[t]["observation.state"] for t in (max(0, now - 1), now)]
    known = {"observation.state": torch.stack(states, dim=1), "task": steps[now]["task"]}
    return policy.light.predict_action_chunk(known, sampling=policy.config.sampling, **given)


@pytest.mark.parametrize("camera", [None, CAMERA])
def test_training_lowers_the_loss(dataset: Dataset, camera: str | None) -> None:
    policy = make_policy(dataset, flow_config(camera=camera))
    optimizer = torch.optim.AdamW(policy.get_optim_params(), lr=1e-2)
    given = batch(dataset)
    policy.train()
    losses = []
    for _ in range(30):
        loss, log = policy.forward(given)
        assert log == {"loss": loss.item()}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


def test_the_loss_is_that_of_light_flow(dataset: Dataset) -> None:
    policy = make_policy(dataset, flow_config(camera=CAMERA)).eval()
    given, light = batch(dataset), policy.light
    observations = light.read({key: given[key] for key in ("observation.state", CAMERA, "task")})
    random = SampleRandom(torch.arange(len(given["action"])))
    expected = light.flow_loss(observations, given["action"], random)
    found = [policy.forward(given)[0] for _ in range(2)]
    assert torch.equal(found[0], found[1]), "nothing is random but in training"
    torch.testing.assert_close(found[0], expected)
    policy.train()
    assert len({policy.forward(given)[0].item() for _ in range(3)}) == 3


def test_padding_is_left_out_where_that_is_asked_for(dataset: Dataset) -> None:
    given = batch(dataset)
    padded = given | {"action_is_pad": torch.ones(len(given["action"]), HORIZON, dtype=torch.bool)}
    for is_masked in (False, True):
        policy = make_policy(dataset, flow_config(mask_padding=is_masked))
        for mode in (policy.train, policy.eval):
            mode()
            assert (policy.forward(padded)[0].item() == 0) == is_masked


@pytest.mark.parametrize("number", [1, 3, None])
def test_a_number_of_steps_of_each_chunk(dataset: Dataset, number: int | None) -> None:
    policy = make_policy(dataset, flow_config(n_action_steps=number, temperature=1.0, seed=3))
    steps, every = frames(dataset, 9), number or HORIZON // 2
    random = torch.Generator().manual_seed(3)
    chunks = [
        chunk_at(policy, steps, t, generator=random).chunk[:, :every] for t in range(0, 9, every)
    ]
    expected = torch.cat(chunks, dim=1)[:, :9]
    for _ in range(2):
        policy.reset()
        chosen = torch.stack([policy.select_action(step) for step in steps], dim=1)
        assert torch.equal(chosen, expected)


def test_a_budget_is_a_number_of_euler_steps(dataset: Dataset) -> None:
    (step,) = frames(dataset, 1)
    chunks = {}
    for budget in (None, 1, 2, 10):
        policy = make_policy(dataset, flow_config(budget=budget))
        chunks[budget] = policy.predict_action_chunk(step)
        found = chunk_at(policy, [step], 0, budget=budget)
        assert torch.equal(chunks[budget], found.chunk)
        assert found.calls.tolist() == [budget or 10] * 2
    assert torch.equal(chunks[None], chunks[10])
    assert not torch.equal(chunks[1], chunks[2])
    few = make_policy(dataset, flow_config(num_steps=2))
    assert torch.equal(few.predict_action_chunk(step), chunks[2])


def test_draws_and_blends(dataset: Dataset) -> None:
    """Several chunks are drawn for `select_action`; `predict_action_chunk` gives the first."""
    policy = make_policy(dataset, flow_config(draws=3, blend=0.1, n_action_steps=2, seed=1))
    found: list[Any] = []
    predict = policy.light.predict_action_chunk

    def noting(observation: Any, **given: Any) -> Any:
        found.append(predict(observation, **given))
        return found[-1]

    policy.light.predict_action_chunk = noting
    actions = torch.stack([policy.select_action(step) for step in frames(dataset, 5)])
    assert actions.shape == (5, 2, ACTION_DIM)
    assert [one.draws.shape for one in found] == [(2, 3, HORIZON, ACTION_DIM)] * 3
    policy.reset()
    policy.predict_action_chunk(frames(dataset, 1)[0])
    assert found[-1].draws is None


def test_real_time_chunking_warns_once(dataset: Dataset, caplog: pytest.LogCaptureFixture) -> None:
    policy = make_policy(dataset, flow_config())
    (step,) = frames(dataset, 1)
    plain = policy.predict_action_chunk(step)
    for delay, num_warnings in ((0, 0), (2, 1), (3, 1)):
        policy.reset()
        told = {"prev_chunk_left_over": plain, "inference_delay": delay}
        assert torch.equal(policy.predict_action_chunk(step, **told), plain)
        assert len(caplog.messages) == num_warnings
    assert caplog.messages[0] == (
        "chunks of a flow head do not go on from the one under way: expect jumps, or take "
        "head=tokens"
    )


def test_one_folder_for_lerobot_and_oatkit(dataset: Dataset, tmp_path: Path) -> None:
    policy = make_policy(dataset, flow_config(camera=CAMERA, num_steps=4, flow_draws=2))
    policy.save_pretrained(tmp_path)
    given = batch(dataset, 2)
    frame = {key: given[key][:, -1] for key in ("observation.state", CAMERA)}
    frame["task"] = given["task"]
    expected = policy.predict_action_chunk(frame)

    again = reopen(tmp_path)
    assert torch.equal(again.predict_action_chunk(frame), expected)
    assert (again.config.head, again.config.num_steps) == ("flow", 4)
    assert again.config.light_config == policy.config.light_config

    light = oatkit.load_policy(tmp_path)
    assert isinstance(light.model, LightFlowModel)
    known = {
        key: value if key == "task" else value[:, None].expand(-1, 2, *value.shape[1:])
        for key, value in frame.items()
    }
    chunk = light.predict_action_chunk(known, sampling=Sampling(0)).chunk
    torch.testing.assert_close(chunk, expected)


def test_an_artifact_of_oatkit_acts_in_lerobot(dataset: Dataset, tmp_path: Path) -> None:
    from lerobot_policy_oat.modeling_oat import OATPolicy

    tiny.make_flow_policy(dataset).save_pretrained(tmp_path)
    light = oatkit.load_policy(tmp_path)
    policy = OATPolicy(make_config(None, head="flow"), light=light)
    assert policy.config.chunk_size == HORIZON
    (step,) = frames(dataset, 1)
    expected = chunk_at(policy, [step], 0).chunk
    assert torch.equal(policy.predict_action_chunk(step), expected)


def test_a_checkpoint_is_calibrated_for_auto(dataset: Dataset, tmp_path: Path) -> None:
    make_policy(dataset, flow_config(n_action_steps="auto")).save_pretrained(tmp_path)
    steps = frames(dataset, 9)
    with pytest.raises(ValueError, match=r"n_action_steps is 'auto', but .* or give a number$"):
        reopen(tmp_path).select_action(steps[0])
    calibrate_policy(oatkit.load_policy(tmp_path), tmp_path, dataset, split="all")
    policy = reopen(tmp_path)
    (every,) = policy.light.execution.bin_steps
    assert 2 <= every <= 4
    chunks = [chunk_at(policy, steps, t).chunk[:, :every] for t in range(0, 9, every)]
    chosen = torch.stack([policy.select_action(step) for step in steps], dim=1)
    assert torch.equal(chosen, torch.cat(chunks, dim=1)[:, :9])


def test_a_checkpoint_learns_further_tasks(dataset: Dataset, tmp_path: Path) -> None:
    make_policy(dataset, flow_config()).save_pretrained(tmp_path)
    policy = reopen(tmp_path, dataset_meta=meta(dataset, tasks=SimpleNamespace(index=["knock"])))
    assert policy.light.spec.tasks == (*TASKS, "knock")
    given = batch(dataset, 2) | {"task": ["knock", TASKS[0]]}
    assert torch.isfinite(policy.forward(given)[0])


def test_a_checkpoint_keeps_its_head(dataset: Dataset, tokenizer_path: str, tmp_path: Path) -> None:
    make_policy(dataset, flow_config()).save_pretrained(tmp_path / "flow")
    make_policy(dataset, make_config(tokenizer_path)).save_pretrained(tmp_path / "tokens")
    known: dict[str, Any] = {"chunk_size": HORIZON, "n_action_steps": 4}
    for head, other in (("flow", "tokens"), ("tokens", "flow")):
        problem = rf"head is '{other}', the policy has '{head}': leave --policy\.head out"
        with pytest.raises(ValueError, match=problem):
            reopen(tmp_path / head, config=make_config(None, head=other, **known))
    with pytest.raises(
        ValueError, match=r"leave --policy\.net, --policy\.num_steps, .*mask_padding out"
    ):
        reopen(tmp_path / "flow", config=make_config(None, head="flow", flow_draws=1, **known))
    with pytest.raises(ValueError, match=r"has its own tokenizer: leave --policy\.tokenizer_path"):
        reopen(tmp_path / "flow", config=make_config(tokenizer_path, head="flow", **known))
    assert reopen(tmp_path / "flow").light.net.config == LightFlowConfig(tiny.CONFIG)
