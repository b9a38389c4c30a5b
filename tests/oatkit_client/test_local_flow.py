"""A light policy with a flow head on the robot: the same actions as with torch."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from oatkit_client import ChunkQueue, LocalDecoder, LocalPolicy, Sampling

from oatkit.cli import main
from oatkit.data import Dataset
from oatkit.policies import Policy
from oatkit.policies.generation.auto_execution import AutoExecution
from oatkit.types import Sampling as PolicySampling
from tests.policies import tiny

GREEDY = Sampling(temperature=0)
OBSERVATION = {"observation/state": np.zeros(5), "prompt": tiny.TASKS[0]}


@pytest.fixture(scope="module")
def policy(dataset: Dataset) -> Policy:
    return tiny.make_flow_policy(dataset, history=1)


@pytest.fixture(scope="module")
def files(policy: Policy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = Path(tmp_path_factory.mktemp("flow"))
    policy.save_pretrained(folder / "policy")
    assert main(["export", str(folder / "policy")]) == 0
    return folder / "policy/onnx"


def test_what_is_exported(
    policy: Policy, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sorted(path.name for path in files.iterdir()) == [
        "encoder.onnx",
        "export.json",
        "step.onnx",
    ]
    facts = json.loads((files / "export.json").read_text())
    assert facts["decoder"] is None
    assert facts["policy"]["step"]["inputs"]["point"] == {"dtype": "float32", "shape": ["B", 8, 3]}
    assert facts["normalization"] == policy.tokenizer.normalizer.to_json()
    assert max(facts["difference_from_torch"].values()) < 1e-4
    with pytest.raises(ValueError, match="has no tokens: open it as LocalPolicy"):
        LocalDecoder(files)
    policy.save_pretrained(tmp_path)
    assert main(["export", str(tmp_path)]) == 0
    assert f"next: oatkit_client.LocalPolicy('{tmp_path / 'onnx'}').infer" in (
        capsys.readouterr().out.replace("\n", "")
    )


def test_images_history_and_every_budget(dataset: Dataset, tmp_path: Path) -> None:
    policy = tiny.make_flow_policy(dataset, history=2, cameras=("front",))
    policy.save_pretrained(tmp_path)
    assert main(["export", str(tmp_path)]) == 0
    local = LocalPolicy(tmp_path / "onnx", sampling=GREEDY)
    batch = tiny.batch(policy, dataset, 2)
    names = {
        "observation/state": "observation.state",
        "observation/front_image": "observation.images.front",
        "prompt": "task",
    }
    scale = policy.tokenizer.normalizer.scale
    for row in range(2):
        observation = {key: batch[name][row] for key, name in names.items()}
        for budget in (None, 1, 2, 5, 10):
            wanted = policy.predict_action_chunk(
                tiny.row({name: batch[name] for name in names.values()}, row),
                budget=budget,
                sampling=PolicySampling(0),
            )
            reply = local.infer(observation, budget=budget)
            off = (reply["actions"] - wanted.chunk[0]) / scale
            assert np.abs(off).max() < 1e-4
            assert reply["budget_used"] == reply["calls"] == wanted.calls[0]
            assert (reply["tokens"], reply["entropy"]) == ([], [])


def test_what_never_changed_in_training_is_exact(dataset: Dataset, tmp_path: Path) -> None:
    policy = tiny.make_flow_policy(dataset, history=1)
    tokenizer = policy.tokenizer
    tokenizer.normalizer = replace(tokenizer.normalizer, is_held=np.arange(3) == 1)
    policy.save_pretrained(tmp_path)
    assert main(["export", str(tmp_path)]) == 0
    actions = LocalPolicy(tmp_path / "onnx").infer(OBSERVATION)["actions"]
    assert (actions[:, 1] == np.float32(tokenizer.normalizer.offset[1])).all()
    assert np.ptp(actions[:, 0]) > 0


def test_noise_is_that_of_the_seed(files: Path) -> None:
    """Repeatable by its seed, another at every query, scaled by the temperature; an episode begins
    it again."""
    first, again = (LocalPolicy(files, sampling=Sampling(seed=3)) for _ in range(2))
    sampled = [first.infer(OBSERVATION)["actions"] for _ in range(2)]
    np.testing.assert_array_equal(sampled[0], again.infer(OBSERVATION)["actions"])
    assert (sampled[0] != sampled[1]).any()
    first.reset()
    np.testing.assert_array_equal(sampled[0], first.infer(OBSERVATION)["actions"])
    greedy = first.infer(OBSERVATION, sampling=GREEDY)["actions"]
    np.testing.assert_array_equal(greedy, first.infer(OBSERVATION, sampling=GREEDY)["actions"])
    spread = []
    for temperature in (0.1, 1.0):
        first.reset()
        sampling = Sampling(temperature=temperature, seed=3)
        found = first.infer(OBSERVATION, sampling=sampling)["actions"]
        spread.append(np.abs(found - greedy).max())
    assert 0 < spread[0] < spread[1]
    queue = ChunkQueue(first, execute=3)
    assert np.shape([queue.step(OBSERVATION) for _ in range(7)]) == (7, 3)


def test_deadlines_choose_the_steps_that_fit(files: Path) -> None:
    local = LocalPolicy(files, sampling=GREEDY)
    hard = local.infer(OBSERVATION, deadline_ms=1e-3)
    assert (hard["budget_used"], hard["deadline_met"], hard["stopped"]) == (1, False, "deadline")
    easy = local.infer(OBSERVATION, deadline_ms=60_000)
    assert (easy["budget_used"], easy["deadline_met"], easy["stopped"]) == (10, True, "all")
    assert local.infer(OBSERVATION, budget=3)["stopped"] == "budget"
    assert local._flow is not None
    local._flow._step_s = 100.0
    used = [
        local.infer(OBSERVATION, budget=budget, deadline_ms=1000 * (100 * steps + 50))
        for steps, budget in ((1, None), (4, None), (9, None), (10, None), (9, 7), (4, 1))
    ]
    assert [reply["budget_used"] for reply in used] == [1, 2, 5, 10, 7, 1]


@pytest.mark.parametrize("rules", [GREEDY, Sampling(temperature=0.5, seed=3)], ids=str)
def test_the_first_draw_is_as_it_would_be_alone(files: Path, rules: Sampling) -> None:
    alone, several = (LocalPolicy(files, sampling=rules) for _ in range(2))
    for _ in range(3):
        wanted = alone.infer(OBSERVATION)["actions"]
        found = several.infer(OBSERVATION, draws=3)
        np.testing.assert_array_equal(found["actions"], wanted)
        np.testing.assert_array_equal(found["draws"][0], wanted)
        assert len({chunk.tobytes() for chunk in found["draws"]}) == 3


def test_draws_share_a_deadline(files: Path) -> None:
    local = LocalPolicy(files, sampling=GREEDY)
    local.infer(OBSERVATION, deadline_ms=60_000)  # measures
    assert local._flow is not None
    local._flow._step_s = 100.0
    found = local.infer(OBSERVATION, deadline_ms=1_050_000, draws=2)
    assert (found["budget_used"], found["stopped"]) == (5, "deadline")


@pytest.mark.parametrize("budget", [0, 101, 2.5, "auto", True])
def test_budgets_that_are_none(files: Path, budget: object) -> None:
    with pytest.raises(ValueError, match="expected a number of Euler steps from 1 to 100"):
        LocalPolicy(files).infer(OBSERVATION, budget=budget)  # type: ignore[arg-type]


def test_what_else_is_refused(files: Path) -> None:
    local = LocalPolicy(files)
    with pytest.raises(ValueError, match="deadline_ms is 0, expected more than 0"):
        local.infer(OBSERVATION, deadline_ms=0)
    with pytest.raises(ValueError, match="the observation has no"):
        local.infer({"prompt": tiny.TASKS[0]})


def test_it_says_how_much_to_execute_as_the_policy_does(dataset: Dataset, tmp_path: Path) -> None:
    policy = tiny.make_flow_policy(dataset, history=1)
    policy.execution = AutoExecution((), (tuple(0.1 for _ in range(tiny.HORIZON)),))
    policy.save_pretrained(tmp_path)
    assert main(["export", str(tmp_path)]) == 0
    wanted = policy.predict_action_chunk(tiny.batch(policy, dataset, 1)).execute_steps[0]
    local = LocalPolicy(tmp_path / "onnx", sampling=GREEDY)
    assert local.infer(OBSERVATION)["execute_steps"] == wanted == tiny.HORIZON // 2
    actions = ChunkQueue(local, execute="auto")
    assert actions.step(OBSERVATION).shape == (3,)
