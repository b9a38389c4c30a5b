"""A light policy on the robot, where torch is not: the same tokens and actions as with torch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import oatkit_client
import pytest
from oatkit_client import (
    ChunkQueue,
    LocalPolicy,
    RealTimeChunks,
    Sampling,
)

import oatkit
from oatkit.cli import main
from oatkit.data import Dataset
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.light.light_model import LightModel
from oatkit.types import Sampling as PolicySampling
from tests.policies import tiny

GREEDY = Sampling(temperature=0)
OBSERVATION = {"observation/state": np.zeros(5), "prompt": tiny.TASKS[0]}
ALONE = """
import json, sys

class NoTorch:
    def find_spec(self, name, *rest):
        if name.split(".")[0] in ("torch", "oatkit", "onnx"):
            raise ImportError(name + " is not on the robot")

sys.meta_path.insert(0, NoTorch())
import numpy as np
from oatkit_client import LocalDecoder, LocalPolicy, Sampling
folder, tokens, state = json.loads(sys.stdin.read())
decoder = LocalDecoder(folder)
policy = LocalPolicy(folder, sampling=Sampling(temperature=0))
reply = policy.infer({"observation/state": np.array(state), "prompt": "open the door"})
print(json.dumps({
    "decoded": decoder.decode(tokens, 2).tolist(),
    "tokens": reply["tokens"],
    "actions": reply["actions"].tolist(),
    "modules": [name for name in sys.modules if name.split(".")[0] in ("torch", "oatkit")],
}))
"""


def test_a_robot_without_torch(exported: tuple[Path, Path]) -> None:
    folder, files = exported
    policy = oatkit.load_policy(folder)
    tokens = [3, 14, 1, 5, 9, 2, 6, 5]
    state = [0.1, -0.2, 0.3, 0.4, -0.5]
    client = Path(oatkit_client.__file__).parents[1]
    ran = subprocess.run(
        [sys.executable, "-c", ALONE],
        input=json.dumps([str(files), tokens, state]),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(client)},
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["modules"] == []
    decoded = policy.tokenizer.decode([tokens], budget=2)[0]
    np.testing.assert_allclose(found["decoded"], decoded, atol=1e-3)
    observation = {"observation.state": np.array(state, np.float32), "task": "open the door"}
    predicted = policy.predict_action_chunk(observation, sampling=PolicySampling(0))
    assert found["tokens"] == predicted.ids.tolist()
    np.testing.assert_allclose(found["actions"], predicted.chunk, atol=1e-3)


@pytest.mark.parametrize("offset_layers", [0, 2])
def test_images_history_and_every_budget(
    offset_layers: int, dataset: Dataset, tmp_path: Path
) -> None:
    policy = tiny.make_policy(
        "oat-pow2", dataset, offset_layers=offset_layers, history=2, cameras=("front",)
    )
    policy.save_pretrained(tmp_path / "policy")
    assert main(["export", str(tmp_path / "policy"), "--out", str(tmp_path / "onnx")]) == 0
    local = LocalPolicy(tmp_path / "onnx", sampling=GREEDY)
    batch = tiny.batch(policy, dataset, 2)
    names = {
        "observation/state": "observation.state",
        "observation/front_image": "observation.images.front",
        "prompt": "task",
    }
    for row in range(2):
        observation = {key: batch[name][row] for key, name in names.items()}
        for budget in (1, 3, 8):
            predicted = policy.predict_action_chunk(
                tiny.row({name: batch[name] for name in names.values()}, row),
                budget=budget,
                sampling=PolicySampling(0),
            )
            reply = local.infer(observation, budget=budget)
            assert reply["tokens"] == predicted.ids[0][:budget].tolist()
            assert reply["calls"] == predicted.calls[0]
            np.testing.assert_allclose(reply["actions"], predicted.chunk[0], atol=1e-3)
            entropy = predicted.entropy_bits[0][:budget]
            np.testing.assert_allclose(reply["entropy"], entropy, atol=1e-4)
    last = {key: batch[name][0][-1] for key, name in names.items() if key != "prompt"}
    last["observation/front"] = last.pop("observation/front_image")  # as a server takes it too
    alone = local.infer({**last, "prompt": batch["task"][0]})["actions"]
    assert alone.shape == (8, 3), "one frame is repeated"
    assert local.decoder.reads_context == (offset_layers > 0)


def test_tokens_alone_are_not_the_actions_of_a_policy_that_corrects_them(
    dataset: Dataset, tmp_path: Path
) -> None:
    policy = tiny.make_policy("quest", dataset, offset_layers=1)
    policy.save_pretrained(tmp_path / "policy")
    assert main(["export", str(tmp_path / "policy"), "--out", str(tmp_path / "onnx")]) == 0
    local = LocalPolicy(tmp_path / "onnx", sampling=GREEDY)
    batch = tiny.batch(policy, dataset, 2)
    observation = {"observation/state": batch["observation.state"][0], "prompt": batch["task"][0]}
    reply = local.infer(observation)
    predicted = policy.predict_action_chunk(tiny.row(batch, 0), sampling=PolicySampling(0))
    np.testing.assert_allclose(reply["actions"], predicted.chunk[0], atol=1e-3)
    with pytest.raises(ValueError, match="let the server decode, or open the folder as LocalPol"):
        local.decoder.decode(reply["tokens"])


@pytest.mark.parametrize(
    ("observation", "problem"),
    [
        ({"other": 1}, "has the key 'other', expected observation/state, prompt"),
        ({"prompt": "open the door"}, "the observation has no observation.state"),
        ({"observation/state": np.zeros(5)}, "the task is None, expected one of"),
        (
            {"observation/state": np.full(5, np.nan), "prompt": tiny.TASKS[0]},
            "observation.state is not finite",
        ),
        (
            {"observation/state": np.full(5, 1e300), "prompt": tiny.TASKS[0]},
            "observation.state is not finite",
        ),
        (
            {"observation/state": np.array(list("doors")), "prompt": tiny.TASKS[0]},
            "holds <U1, expected numbers",
        ),
        (
            {"observation/state": np.zeros(5), "observation.state": np.zeros(5)},
            "has observation.state twice",
        ),
        (
            {"observation/state": np.zeros(4), "prompt": tiny.TASKS[0]},
            r"is \(4,\), expected \(5,\)",
        ),
    ],
)
def test_observations_that_are_none(
    exported: tuple[Path, Path], observation: Any, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        LocalPolicy(exported[1]).infer(observation)


def test_committed_actions_are_for_a_server(exported: tuple[Path, Path]) -> None:
    problem = "takes no committed actions: ask a server for chunks that go on from them"
    with pytest.raises(ValueError, match=problem):
        LocalPolicy(exported[1]).infer(OBSERVATION, committed=np.zeros((1, 3)))


@pytest.mark.parametrize("draws", [0, -1, 1.5, True, "2", None])
def test_numbers_of_draws_that_are_none(exported: tuple[Path, Path], draws: Any) -> None:
    with pytest.raises(ValueError, match=f"draws is {draws!r}, expected a whole number from 1 on"):
        LocalPolicy(exported[1]).infer(OBSERVATION, draws=draws)


@pytest.mark.parametrize("budget", [None, 2])
@pytest.mark.parametrize("rules", [GREEDY, Sampling(top_k=5, seed=3)], ids=["greedy", "sampled"])
def test_the_first_draw_is_as_it_would_be_alone(
    exported: tuple[Path, Path], rules: Sampling, budget: int | None
) -> None:
    """Query after query, with whatever the draws beside it take; and draws differ."""
    alone, several = (LocalPolicy(exported[1], sampling=rules) for _ in range(2))
    for _ in range(4):
        wanted = alone.infer(OBSERVATION, budget=budget)
        found = several.infer(OBSERVATION, budget=budget, draws=4)
        draws = found.pop("draws")
        assert {**found, "actions": 0} == {**wanted, "actions": 0}
        np.testing.assert_array_equal(found["actions"], wanted["actions"])
        np.testing.assert_array_equal(draws[0], wanted["actions"])
        assert np.shape(draws) == (4, *wanted["actions"].shape)
        assert len({chunk.tobytes() for chunk in draws}) > 1
    assert "draws" not in several.infer(OBSERVATION, draws=1)


def test_draws_begin_again_with_an_episode(exported: tuple[Path, Path]) -> None:
    local = LocalPolicy(exported[1], sampling=Sampling(seed=3))
    first = [local.infer(OBSERVATION, draws=3)["draws"] for _ in range(2)]
    local.reset()
    again = [local.infer(OBSERVATION, draws=3)["draws"] for _ in range(2)]
    np.testing.assert_array_equal(first, again)
    assert (np.array(first[0]) != np.array(first[1])).any()


def test_draws_share_a_deadline(exported: tuple[Path, Path]) -> None:
    local = LocalPolicy(exported[1], sampling=GREEDY)
    local.infer(OBSERVATION, deadline_ms=60_000)  # measures
    local._times_s = [0.0, 10.0, 20.0, 10.0, 0.0]
    alone = local.infer(OBSERVATION, deadline_ms=35_000)
    assert alone["budget_used"] == 8
    shared = local.infer(OBSERVATION, deadline_ms=35_000, draws=3)
    assert (shared["budget_used"], shared["stopped"]) == (2, "deadline")
    assert shared["deadline_met"]


@pytest.mark.parametrize("execution", [ChunkQueue, RealTimeChunks])
def test_a_robot_executes_one_of_several_draws(
    exported: tuple[Path, Path], dataset: Dataset, execution: Any
) -> None:
    local = LocalPolicy(exported[1], sampling=Sampling(seed=0))
    scale = oatkit.load_policy(exported[0]).tokenizer.raw_normalizer.scale
    np.testing.assert_array_equal(local.action_scale, scale)
    with execution(local, execute=3, draws=4) as chunks:
        assert np.shape([chunks.step(OBSERVATION) for _ in range(7)]) == (7, 3)
        assert len(chunks.reply["draws"]) == 4


def test_committing_nothing_is_no_commitment(exported: tuple[Path, Path]) -> None:
    """As on a server: a client that has nothing to commit need not leave the argument out."""
    local = LocalPolicy(exported[1], sampling=GREEDY)
    observation = {"observation/state": np.zeros(5), "prompt": tiny.TASKS[0]}
    told = local.infer(observation, committed=np.zeros((0, 3), np.float32))
    np.testing.assert_array_equal(told["actions"], local.infer(observation)["actions"])


def test_ids_are_sampled_as_asked_for(exported: tuple[Path, Path]) -> None:
    """Only the likeliest ids, repeatable by their seed, and not always the same; an episode begins
    the random numbers again, as on a server."""
    observation = {"observation/state": np.zeros(5), "prompt": tiny.TASKS[0]}
    first, again = (LocalPolicy(exported[1], sampling=Sampling(top_k=2, seed=3)) for _ in range(2))
    sampled = [first.infer(observation)["tokens"] for _ in range(20)]
    assert sampled == [again.infer(observation)["tokens"] for _ in range(20)]
    assert len({tokens[0] for tokens in sampled}) == 2
    again.reset()
    assert sampled == [again.infer(observation)["tokens"] for _ in range(20)]
    likeliest = again.infer(observation, sampling=GREEDY)["tokens"]
    assert likeliest == LocalPolicy(exported[1], sampling=GREEDY).infer(observation)["tokens"]
    queue = ChunkQueue(first, execute=3)
    assert np.shape([queue.step(observation) for _ in range(7)]) == (7, 3)


def test_a_local_policy_stops_as_the_policy_does(
    exported: tuple[Path, Path], dataset: Dataset, tmp_path: Path
) -> None:
    """By thresholds that stop some chunks early, and others not at all."""
    policy = oatkit.load_policy(exported[0])
    assert isinstance(policy.model, LightModel)
    observation = {"observation.state": np.zeros(5, np.float32), "task": tiny.TASKS[0]}
    whole = policy.predict_action_chunk(observation, sampling=PolicySampling(0))
    local = LocalPolicy(exported[1])
    for former in (None, {"change": 0.1, "entropy_bits": 2.0}):
        local.facts["auto"] = former
        with pytest.raises(ValueError, match="budget 'auto' has no thresholds: `oatkit policy cal"):
            local.infer(observation, budget="auto")
    used = set()
    so_far = [float(whole.entropy_bits[:number].mean()) for number in (1, 2, 4)]
    for bits in ((-1.0, -1.0, -1.0), (-1.0, so_far[1] + 1e-4, -1.0), (so_far[0] - 1e-4,) * 3):
        policy.auto = AutoThresholds((1, 2, 4), bits)
        policy.save_pretrained(tmp_path / "policy")
        assert main(["export", str(tmp_path / "policy")]) == 0
        local = LocalPolicy(tmp_path / "policy" / "onnx", sampling=GREEDY)
        reply = local.infer(observation, budget="auto")
        wanted = policy.predict_action_chunk(observation, budget="auto", sampling=PolicySampling(0))
        assert reply["budget_used"] == wanted.budget
        assert reply["calls"] == wanted.calls
        assert reply["stopped"] == wanted.stopped == ("all" if wanted.budget == 8 else "auto")
        np.testing.assert_allclose(reply["actions"], wanted.chunk, atol=1e-3)
        used.add(reply["budget_used"])
    assert {2, 8} <= used


def test_a_local_policy_says_how_much_to_execute_as_the_policy_does(
    exported: tuple[Path, Path], dataset: Dataset, tmp_path: Path
) -> None:
    policy = oatkit.load_policy(exported[0])
    assert isinstance(policy.model, LightModel)
    frames = [
        {"observation.state": episode.state[step], "task": episode.task}
        for episode in (dataset[0], dataset[1])
        for step in range(0, 20, 2)
    ]
    assert "execute_steps" not in LocalPolicy(exported[1]).infer(frames[0])

    def predicted(budget: int) -> list[Any]:
        rules: dict[str, Any] = {"budget": budget, "sampling": PolicySampling(0)}
        return [policy.predict_action_chunk(frame, **rules) for frame in frames]

    entropies = sorted(float(found.entropy_bits.mean()) for found in predicted(8))
    policy.execution = table = tiny.two_lengths(edge_bits=sum(entropies[9:11]) / 2)
    policy.save_pretrained(tmp_path / "policy")
    assert main(["export", str(tmp_path / "policy")]) == 0
    local = LocalPolicy(tmp_path / "policy" / "onnx", sampling=GREEDY)
    for budget in (1, 4, 8):
        steps = [local.infer(frame, budget=budget)["execute_steps"] for frame in frames]
        assert steps == [found.execute_steps for found in predicted(budget)]
    assert sorted(steps) == sorted(table.bin_steps * 10)
    assert type(steps[0]) is int
    queue = ChunkQueue(local, "auto", blend=0.1)
    assert np.shape([queue.step(frames[0]) for _ in range(9)]) == (9, 3)


def test_an_older_export_says_nothing_about_execution(
    exported: tuple[Path, Path], tmp_path: Path
) -> None:
    shutil.copytree(exported[1], tmp_path / "onnx")
    path = tmp_path / "onnx" / "export.json"
    facts = json.loads(path.read_text())
    del facts["policy"]["execution"]
    path.write_text(json.dumps(facts))
    local = LocalPolicy(tmp_path / "onnx")
    observation = {"observation/state": np.zeros(5), "prompt": tiny.TASKS[0]}
    assert "execute_steps" not in local.infer(observation)
    with pytest.raises(ValueError, match="the reply has no execute_steps"):
        ChunkQueue(local, "auto").step(observation)


def test_a_local_policy_keeps_deadlines(exported: tuple[Path, Path]) -> None:
    local = LocalPolicy(exported[1], sampling=GREEDY)
    observation = {"observation/state": np.zeros(5), "prompt": tiny.TASKS[0]}
    hard = local.infer(observation, deadline_ms=1e-3)
    assert (hard["budget_used"], hard["calls"], hard["deadline_met"]) == (1, 1, False)
    assert hard["stopped"] == "deadline"
    easy = local.infer(observation, deadline_ms=60_000)
    assert (easy["budget_used"], easy["deadline_met"], easy["stopped"]) == (8, True, "all")
    assert local.infer(observation, budget=2)["stopped"] == "budget"
    assert easy["tokens"] == local.infer(observation)["tokens"]
    local._times_s = [0.0, 0.0, 3600.0, 0.0, 0.0]
    assert local.infer(observation, deadline_ms=60_000)["budget_used"] == 2, "the third is slow"
    assert local.infer(observation, budget=1, deadline_ms=60_000)["budget_used"] == 1
    with pytest.raises(ValueError, match="deadline_ms is 0, expected more than 0"):
        local.infer(observation, deadline_ms=0)
    for budget in ("all", 2.5):
        with pytest.raises(ValueError, match=f"budget is {budget!r}, expected a number of tokens"):
            local.infer(observation, budget=budget)  # type: ignore[arg-type]
    with RealTimeChunks(local, execute=3, rate_hz=1000) as chunks:
        assert np.shape([chunks.step(observation) for _ in range(7)]) == (7, 3)


def test_a_local_policy_that_cannot_stop_says_so(dataset: Dataset, tmp_path: Path) -> None:
    tiny.make_policy("quest", dataset, history=1).save_pretrained(tmp_path / "policy")
    assert main(["export", str(tmp_path / "policy"), "--out", str(tmp_path / "onnx")]) == 0
    observation = {"observation/state": np.zeros(5), "prompt": tiny.TASKS[0]}
    reply = LocalPolicy(tmp_path / "onnx").infer(observation, deadline_ms=1e-3)
    assert reply["actions"].shape == (8, 3)
    assert reply["warning"] == "this policy cannot stop early: deadline_ms is ignored"


def test_a_local_policy_warns_once_of_a_state_far_off(exported: tuple[Path, Path]) -> None:
    local = LocalPolicy(exported[1], sampling=GREEDY)
    state = np.zeros(tiny.STATE_DIM, np.float32)
    assert "warning" not in local.infer({"observation/state": state, "prompt": tiny.TASKS[0]})
    far = {"observation/state": state + np.float32(1e6), "prompt": tiny.TASKS[0]}
    assert "is 1e+06, in training it was -" in local.infer(far)["warning"]
    assert "warning" not in local.infer(far)
