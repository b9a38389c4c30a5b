"""A policy in praxis-eval, by that package's own classes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oatkit.errors import DecodeError
from oatkit.evaluation.episode_runner import EpisodeRunner
from oatkit.evaluation.praxis import PraxisPolicy
from oatkit.types import ExecuteSteps, Execution, Sampling
from oatkit.types.observation_keys import STATE
from tests.evaluation.pilot import Mute, Pilot
from tests.evaluation.plane import HORIZON, MAX_STEPS, PLANE, TASKS, Plane
from tests.evaluation.plane_episodes import ROLLOUT, plans

praxis_eval = pytest.importorskip("praxis_eval", reason="needs the extra praxis")

SPEC = praxis_eval.ActionSpec(shape=(2,), minimum=-1.0, maximum=1.0)
DRIVERS = ("libero", "robomimic", "robocasa", "simpler", "metaworld")


def frame(*state: float, **more: Any) -> dict[str, Any]:
    """What a simulator shows, more than is read: of a policy in the plane at x, y with a goal."""
    return {
        STATE: np.array(state, np.float32),
        "observation.state.gripper": np.zeros(2),
        "observation.images.wrist": np.zeros((3, 4, 4), np.float32),
        "task": TASKS["near"],
        **more,
    }


def numbered(chunks: Sequence[float]) -> Pilot:
    """Answers its n-th query with chunks n + 0, n + 0.01, n + 0.02, ..."""

    class Numbered(Pilot):
        def spoil(self, chunk_BTA: np.ndarray) -> np.ndarray:
            start = chunks[len(self.asked) - 1]
            return np.broadcast_to(start + 0.01 * np.arange(HORIZON)[:, None], chunk_BTA.shape)

    return Numbered()


def made(pilot: Pilot | None = None, **settings: Any) -> PraxisPolicy:
    return PraxisPolicy(pilot or Pilot(), **{"budget": 4, **settings})


def acted(policy: PraxisPolicy, ids: Sequence[str] | None = None, number: int = 1) -> list[float]:
    """The first number of every episode's action."""
    observations = [frame(0, 0, 1, 1) for _ in ids or range(number)]
    actions = policy.act(observations, action_spec=SPEC, episode_ids=ids)
    assert SPEC.validate_batch(actions, batch_size=len(observations)) is actions
    return [round(float(action), 3) for action in actions[:, 0]]


def test_half_a_chunk_is_executed_before_the_next_query() -> None:
    policy = made(numbered([0.1, 0.2, 0.3]))
    firsts = [acted(policy)[0] for _ in range(9)]
    assert firsts == [0.1, 0.11, 0.12, 0.13, 0.2, 0.21, 0.22, 0.23, 0.3]
    every = made(numbered([0.1, 0.2, 0.3]), execute=1)
    assert [acted(every)[0] for _ in range(3)] == [0.1, 0.2, 0.3]


def test_as_many_steps_as_the_policy_finds_worth_it() -> None:
    pilot = numbered([0.1, 0.2, 0.3])
    pilot.worth = 3
    policy = made(pilot, execute="auto")
    assert [acted(policy)[0] for _ in range(4)] == [0.1, 0.11, 0.12, 0.2]
    with pytest.raises(ValueError, match="execute 'auto' needs a policy that knows how many steps"):
        acted(made(numbered([0.1]), execute="auto"))


def test_every_episode_has_its_own_queue() -> None:
    policy = made(numbered([0.1, 0.2, 0.3]))
    assert acted(policy, ["a"]) == [0.1]
    assert acted(policy, ["a", "b"]) == [0.11, 0.2]  # a goes on, b is asked for
    assert acted(policy, ["b", "a"]) == [0.21, 0.12]
    policy.reset(["a"])
    assert acted(policy, ["a", "b"]) == [0.3, 0.22]


def test_without_ids_the_place_is_the_episode() -> None:
    policy = made(numbered([0.1, 0.2]))
    assert acted(policy, number=2) == [0.1, 0.1]
    assert acted(policy, number=2) == [0.11, 0.11]
    policy.reset()
    assert acted(policy, number=2) == [0.2, 0.2]


def test_those_that_wait_are_asked_for_at_once() -> None:
    pilot = Pilot()
    policy = made(pilot)
    acted(policy, ["a", "b", "c"])
    (asked,) = pilot.asked
    assert asked[STATE].shape == (3, 2, 4)
    assert asked["task"] == [TASKS["near"]] * 3
    assert set(asked) == {STATE, "task", "budget", "committed"}
    assert asked["committed"] is None


def test_history_is_of_successive_frames_and_starts_again() -> None:
    pilot = Pilot(history=3)
    policy = made(pilot, execute=2)
    for x in (1, 2, 3):
        policy.act([frame(x, 0, 1, 1)])
    policy.reset()
    policy.act([frame(9, 0, 1, 1)])
    seen = [asked[STATE][0, :, 0].tolist() for asked in pilot.asked]
    assert seen == [[1, 1, 1], [1, 2, 3], [9, 9, 9]]


def test_random_numbers_depend_on_the_episode_alone() -> None:
    together = made().act([frame(0, 0, 1, 1)] * 2, episode_ids=["a", "b"])
    alone = [made().act([frame(0, 0, 1, 1)], episode_ids=[name])[0] for name in "ab"]
    np.testing.assert_array_equal(together, alone)
    assert (together[0] != together[1]).any()
    policy = made()
    waves = []
    for _ in range(2):
        policy.reset()
        waves.append(policy.act([frame(0, 0, 1, 1)]))
    assert (waves[0] != waves[1]).any()
    assert (made(sampling=Sampling(seed=1)).act([frame(0, 0, 1, 1)]) != waves[0]).any()


def test_the_state_may_be_of_several_parts() -> None:
    pilot = Pilot()
    policy = made(pilot, state_keys=("observation.position", "observation.goal"))
    parts = {"observation.position": np.array([1.0, 2.0]), "observation.goal": np.array([3, 4])}
    policy.act([{**parts, "task": TASKS["far"]}])
    assert pilot.asked[0][STATE][0, -1].tolist() == [1, 2, 3, 4]
    with pytest.raises(ValueError, match=r"unknown part of the observation 'observation\.goal'"):
        policy.act([{"observation.position": np.zeros(2), "task": TASKS["far"]}])


def test_images_may_have_their_channels_first() -> None:
    image_CHW = np.arange(48, dtype=np.uint8).reshape(3, 4, 4)
    for image in (image_CHW, image_CHW.transpose(1, 2, 0)):
        pilot = Pilot(cameras={"wrist": (4, 4)})
        made(pilot).act([frame(0, 0, 1, 1, **{"observation.images.wrist": image})])
        seen = pilot.asked[0]["observation.images.wrist"]
        assert seen.shape == (1, 2, 4, 4, 3)
        np.testing.assert_array_equal(seen[0, 1], image_CHW.transpose(1, 2, 0))


def test_each_camera_arrives_under_its_name() -> None:
    pilot = Pilot(cameras={"wrist": (4, 4), "front": (2, 6)})
    front = np.full((2, 6, 3), 7, np.uint8)
    wrist = np.full((4, 4, 3), 9, np.uint8)
    images = {"observation.images.front": front, "observation.images.wrist": wrist}
    made(pilot).act([frame(0, 0, 1, 1, **images)])
    np.testing.assert_array_equal(pilot.asked[0]["observation.images.front"][0, 0], front)
    np.testing.assert_array_equal(pilot.asked[0]["observation.images.wrist"][0, 1], wrist)


def test_the_seed_can_be_changed_for_a_query() -> None:
    changed = made().act([frame(0, 0, 1, 1)], policy_kwargs={"seed": 1})
    np.testing.assert_array_equal(changed, made(sampling=Sampling(seed=1)).act([frame(0, 0, 1, 1)]))


def test_bounds_are_kept_and_what_was_clipped_is_counted() -> None:
    policy = made(numbered([0.98, 0.5]), action_spec=SPEC)
    local = praxis_eval.LocalPolicy(policy)  # tells the policy no bounds, and is strict about them
    actions = [local.act([frame(0, 0, 1, 1)], action_spec=SPEC)[0, 0] for _ in range(5)]
    assert actions == pytest.approx([0.98, 0.99, 1.0, 1.0, 0.5])
    first, second = policy.consume_inference_info()
    assert (first["calls"], first["tokens"], first["clipped"]) == (4, 4, 0.25)
    assert second["clipped"] == 0
    assert policy.consume_inference_info() == []


def test_sampling_can_be_changed_by_praxis_eval() -> None:
    pilot = Pilot()
    policy = made(pilot)
    policy.act([frame(0, 0, 1, 1)], policy_kwargs={"budget": 2})
    assert pilot.asked[0]["budget"] == 2
    policy.reset()
    with pytest.raises(ValueError, match="unknown entry of policy_kwargs 'budgets'; known, clos"):
        policy.act([frame(0, 0, 1, 1)], policy_kwargs={"budgets": 2})


def test_an_episode_without_a_chunk_stands_still_and_is_counted() -> None:
    policy = made(Mute())
    seen = [frame(0, 0, 0.5, 1), frame(0, 0, 1, 1, task=TASKS["far"])]
    with_failed = [policy.act(seen, action_spec=SPEC) for _ in range(6)]
    alone = made(Mute())
    for actions in with_failed:  # the other episode is as if it were alone
        np.testing.assert_array_equal(actions[0], alone.act(seen[:1], action_spec=SPEC)[0])
        assert actions[1].tolist() == [0, 0]
    counts = policy.counts
    assert (counts.queries, counts.redrawn, dict(counts.failed)) == (3, 0, {TASKS["far"]: 1})
    assert counts.error == "1 of 1 sequences did not decode in 10 attempts"
    assert len(policy.consume_inference_info()) == 2
    policy.reset()
    assert policy.act([frame(0, 0, 0.5, 1)] * 2, action_spec=SPEC)[1].any()


def test_who_stands_still_keeps_the_bounds() -> None:
    narrow = replace(SPEC, minimum=0.25)
    assert made(Mute()).act([frame(0, 0, 1, 1)], action_spec=narrow).tolist() == [[0.25, 0.25]]
    for unknown in (None, replace(SPEC, shape=None)):
        with pytest.raises(DecodeError, match="did not decode in 10 attempts"):
            made(Mute()).act([frame(0, 0, 1, 1)], action_spec=unknown)


def test_queries_that_generated_again_are_counted() -> None:
    class Stuttering(Pilot):
        def predict_action_chunk(self, observation: Any, **rest: Any) -> Any:
            found = super().predict_action_chunk(observation, **rest)
            return replace(found, attempts=np.array([1, 3]))

    policy = made(Stuttering())
    policy.act([frame(0, 0, 1, 1)] * 2, action_spec=SPEC)
    assert (policy.counts.queries, policy.counts.redrawn) == (2, 1)
    assert [info["attempts"] for info in policy.consume_inference_info()] == [1, 3]


@pytest.mark.parametrize("name", DRIVERS)
def test_actions_satisfy_the_contracts(name: str) -> None:
    """By the handler that SimplerEnv's process talks to, with each benchmark's own contract."""
    from praxis_eval.envs.subprocess_runtime import _EvalPolicyHandler

    action_spec = praxis_eval.get_driver(name).contract.action

    class Wild(Pilot):
        def spoil(self, chunk_BTA: np.ndarray) -> np.ndarray:
            return np.full((len(chunk_BTA), HORIZON, *action_spec.shape), 1.5)

    handler = _EvalPolicyHandler(made(Wild()), action_spec=action_spec)
    handler.reset(episode_ids=["a", "b"])
    actions = handler.predict_action([frame(0, 0, 1, 1)] * 2, episode_ids=["a", "b"])
    found = action_spec.validate_batch(actions, batch_size=2)
    assert (found == (1.5 if action_spec.maximum is None else 1)).all()


@pytest.mark.parametrize(
    ("observation", "settings", "message"),
    [
        ({"task": TASKS["near"]}, {}, r"the observation has no 'observation\.state'; it has"),
        (frame(0, 0), {}, r"observation\.state is \(2,\), expected \(4,\) for one frame"),
        (frame(0, 0, 1, np.nan), {}, r"observation\.state is not finite"),
        (frame(0, 0, 1, 1, task="Fly."), {}, r"unknown task 'Fly\.'; known, closest first"),
        ({**frame(), STATE: np.zeros((1, 2, 4))}, {}, "act.. takes one frame of every episode"),
        (frame(0, 0, 1, 1), {"execute": 9}, r"episode 'place 0' is \(8, 2\), expected \(9 or more"),
    ],
)
def test_wrong_observations(observation: Any, settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(**settings).act([observation], action_spec=SPEC)


def test_wrong_calls() -> None:
    with pytest.raises(ValueError, match="execute is 0, expected a whole number from 1 on"):
        made(execute=0)
    with pytest.raises(ValueError, match=r"delay is 1\.5, expected a whole number from 0 on"):
        made(delay=1.5)
    policy = made()
    with pytest.raises(ValueError, match="there are no observations"):
        policy.act([])
    for ids in (["a"], ["a", "a"]):
        with pytest.raises(ValueError, match="for 2 observations, expected one each, no two equal"):
            policy.act([frame(0, 0, 1, 1)] * 2, episode_ids=ids)
    wide = replace(SPEC, shape=(7,))
    with pytest.raises(ValueError, match=r"is \(8, 2\), expected \(1 or more, 7\)"):
        policy.act([frame(0, 0, 1, 1)], action_spec=wide)
    nan = numbered([np.nan])
    with pytest.raises(ValueError, match="the chunk for episode 'place 0' is not finite"):
        made(nan).act([frame(0, 0, 1, 1)], action_spec=SPEC)


class PlaneDriver:
    """A benchmark of praxis-eval: all episodes of a task side by side."""

    contract = praxis_eval.EnvContract("plane", (), SPEC)

    def evaluate(self, *, policy: Any, config: Any) -> Any:
        from praxis_eval.metrics import EpisodeResult, summarize_episodes

        began, ended = time.time(), {}
        planes = {f"{config.task}-{i}": Plane(config.task) for i in range(config.num_eval_per_task)}
        seen = {name: plane.reset(index) for index, (name, plane) in enumerate(planes.items())}
        policy.reset(list(planes))
        for step in range(1, MAX_STEPS + 1):
            names = [name for name in planes if name not in ended]
            if not names:
                break
            states = [np.concatenate(list(seen[name].values())) for name in names]
            actions = policy.act(
                [frame(*state, task=TASKS[config.task]) for state in states],
                action_spec=SPEC,
                policy_kwargs=config.policy_kwargs,
                episode_ids=names,
            )
            SPEC.validate_batch(actions, batch_size=len(names))
            for name, action in zip(names, actions, strict=True):
                result = planes[name].step(action)
                seen[name] = result.observation
                if result.is_success or result.is_over:
                    ended[name] = EpisodeResult(config.task, result.is_success, step)
        return praxis_eval.EvalResult(**summarize_episodes(list(ended.values()), start_time=began))


@pytest.mark.parametrize(
    "rules",
    [
        {"blend": 0.1},
        {"delay": 2},
        {"draws": 3},
        {"blend": 0.1, "delay": 2, "draws": 3},
        {"delay": 2, "commit": True},
    ],
)
@pytest.mark.parametrize("execute", [3, "auto"])
def test_a_benchmark_does_what_our_simulators_do(
    execute: ExecuteSteps, rules: dict[str, Any]
) -> None:
    """The same actions, and the same committed ones told, where chance plays no part."""
    sampling, (ours, theirs) = Sampling(temperature=0.0), (Astray(), Astray())
    ours.worth = theirs.worth = 2
    wanted = plans(2, tasks=("never",), budgets=(4,))
    rollout = replace(ROLLOUT, execution=Execution(execute, **rules), sampling=sampling)
    runner = EpisodeRunner(ours, PLANE, rollout, is_alone=True)
    found = {e.episode: e.score for e in runner.run(wanted)}
    policy = PraxisPolicy(theirs, budget=4, execute=execute, sampling=sampling, **rules)
    planes = [Plane("never") for _ in wanted]
    seen = [
        plane.reset(rollout.goal_seed(plan)) for plane, plan in zip(planes, wanted, strict=True)
    ]
    best = [0.0] * len(planes)
    for _ in range(MAX_STEPS):
        states = [np.concatenate(list(each.values())) for each in seen]
        actions = policy.act(
            [frame(*state, task=TASKS["never"]) for state in states], action_spec=SPEC
        )
        results = [plane.step(action) for plane, action in zip(planes, actions, strict=True)]
        seen = [result.observation for result in results]
        best = [max(score, r.score or 0.0) for score, r in zip(best, results, strict=True)]
    assert dict(enumerate(best)) == found
    told = [
        sorted(each.tolist() for asked in pilot.asked for each in _told(asked))
        for pilot in (ours, theirs)
    ]
    assert told[0] == told[1]
    assert bool(told[0]) == ("commit" in rules)


class Astray(Pilot):
    """Turns away from its goal as time goes by, so that older chunks plan something else."""

    def spoil(self, chunk_BTA: np.ndarray) -> np.ndarray:
        return chunk_BTA * np.linspace(1, -0.5, HORIZON)[:, None]

    def more(self, chunk_BTA: np.ndarray, draws: int) -> np.ndarray:
        """The first draw lies between the others, which differ from row to row."""
        aside_D = np.array([0.0, 0.3, -0.3])[:draws]
        return chunk_BTA[:, None] + aside_D[:, None, None]


def _told(asked: dict[str, Any]) -> list[np.ndarray]:
    """What each row of a query committed."""
    return [] if asked["committed"] is None else list(asked["committed"])


def test_commit_tells_what_will_be_executed_within_the_bounds() -> None:
    pilot = numbered([0.98, 0.5])
    policy = made(pilot, execute=2, delay=2, commit=True)
    for _ in range(3):
        acted(policy)
    first, second = (asked["committed"] for asked in pilot.asked)
    assert first is None, "the first chunk of an episode is waited for"
    np.testing.assert_allclose(second[0][:, 0], [1.0, 1.0])


def test_episodes_that_commit_as_much_are_asked_for_at_once() -> None:
    pilot = Pilot()
    policy = made(pilot, execute=2, delay=1, commit=True)
    for _ in range(3):
        acted(policy, ["a", "b"])
    policy.reset(["a"])
    for _ in range(2):
        acted(policy, ["a", "b"])
    told = [None if a["committed"] is None else len(a["committed"]) for a in pilot.asked]
    assert told == [None, 2, None, 1]


def test_an_evaluation_by_praxis_eval(tmp_path: Path) -> None:
    pilot = Pilot()
    pilot.noise = 0.1

    def success(task: str, **policy_kwargs: Any) -> float:
        config = praxis_eval.EvalConfig(5, tmp_path, task, policy_kwargs=policy_kwargs)
        found = praxis_eval.evaluate(PlaneDriver(), policy=made(pilot), config=config)
        assert found.per_task[task]["n_episodes"] == 5
        return float(found.overall["success_rate"])

    assert success("near") == 1
    assert success("never") == 0
    assert success("far", budget=1) < success("far")
