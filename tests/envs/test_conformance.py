"""What evaluation and demonstrations rely on, asked of every simulator of the table."""

from __future__ import annotations

import multiprocessing
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from oatkit.envs.simulator import (
    Simulator,
    SimulatorKind,
    demonstration_seed,
    evaluation_seed,
)
from oatkit.envs.simulator_table import SIMULATORS, simulator_kind
from oatkit.errors import OatkitError

Trace = list[np.ndarray]


@pytest.fixture(scope="module", params=SIMULATORS)
def kind(request: pytest.FixtureRequest) -> SimulatorKind:
    found = simulator_kind(request.param)
    try:
        found.package_versions()
        found.make(found.default_tasks[0], {}).close()
    except (OatkitError, ImportError) as error:
        pytest.skip(str(error))
    return found


@pytest.fixture(scope="module")
def simulator(kind: SimulatorKind) -> Iterator[Simulator]:
    made = kind.make(kind.default_tasks[0], {})
    yield made
    made.close()


def play(simulator: Simulator, kind: SimulatorKind, seed: int, num_steps: int = 12) -> Trace:
    """All that is seen in an episode of random actions, which the seed decides too."""
    observation = simulator.reset(seed)
    trace = list(observation.values())
    for action_A in np.random.default_rng(seed).uniform(
        *kind.bounds, (num_steps, len(kind.bounds[0]))
    ):
        result = simulator.step(action_A)
        trace += [*result.observation.values(), np.array([result.is_success, result.is_over])]
    return trace


def play_named(name: str, seed: int) -> Trace:
    kind = simulator_kind(name)
    simulator = kind.make(kind.default_tasks[0], {})
    trace = play(simulator, kind, seed)
    simulator.close()
    return trace


def are_identical(left: Trace, right: Trace) -> bool:
    return len(left) == len(right) and all(map(np.array_equal, left, right))


def test_an_episode_depends_on_its_seed_and_actions_alone(
    simulator: Simulator, kind: SimulatorKind
) -> None:
    fresh = play_named(kind.name, 8)
    for mess in (3, 5):
        play(simulator, kind, mess)
        np.random.seed(mess)
        assert are_identical(play(simulator, kind, 8), fresh)
    assert not are_identical(play(simulator, kind, 10), fresh)


@pytest.mark.parametrize("how", ["spawn", "fork"])
def test_an_episode_is_the_same_in_another_process(kind: SimulatorKind, how: str) -> None:
    if how not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {how} on this system")
    here = play_named(kind.name, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python, about threads that the child does not have
        pool = multiprocessing.get_context(how).Pool(1)
    with pool:
        assert are_identical(pool.apply(play_named, (kind.name, 6)), here)


def test_demonstrations_and_evaluations_start_differently(
    simulator: Simulator, kind: SimulatorKind
) -> None:
    seeds = [seed(0, index) for seed in (demonstration_seed, evaluation_seed) for index in range(5)]
    starts = {b"".join(part.tobytes() for part in simulator.reset(seed).values()) for seed in seeds}
    assert len(starts) == 10


def test_observations_are_float32_and_stay_as_they_were(
    simulator: Simulator, kind: SimulatorKind
) -> None:
    observation = simulator.reset(0)
    before = {key: part.copy() for key, part in observation.items()}
    result = simulator.step(kind.bounds[1])
    for key, part in observation.items():
        assert part.dtype == np.float32
        assert result.observation[key].shape == part.shape
        np.testing.assert_array_equal(part, before[key])


def test_actions_on_the_bounds_are_executed_and_others_refused(
    simulator: Simulator, kind: SimulatorKind
) -> None:
    simulator.reset(0)
    for bound_A, outside in zip(kind.bounds, (-0.01, 0.01), strict=True):
        simulator.step(bound_A)
        with pytest.raises(ValueError, match=r"an action is outside \[.*clip it first"):
            simulator.step(bound_A + outside)
    action_dim = len(kind.action_low)
    with pytest.raises(
        ValueError, match=rf"has shape \({action_dim + 1},\), expected \({action_dim},"
    ):
        simulator.step(np.zeros(action_dim + 1))
    with pytest.raises(ValueError, match="an action is not finite"):
        simulator.step(np.full(action_dim, np.nan))


def test_a_step_needs_a_reset(kind: SimulatorKind) -> None:
    with pytest.raises(RuntimeError, match="no episode is under way"):
        kind.make(kind.default_tasks[0], {}).step(kind.bounds[0])


def test_an_episode_is_over_at_the_limit(simulator: Simulator, kind: SimulatorKind) -> None:
    simulator.reset(0)
    middle_A = np.mean(kind.bounds, axis=0)
    are_over = [simulator.step(middle_A).is_over for _ in range(kind.max_steps)]
    assert are_over == [False] * (kind.max_steps - 1) + [True]
    with pytest.raises(RuntimeError, match="no episode is under way"):
        simulator.step(middle_A)


def test_an_unknown_task_or_camera_is_named(kind: SimulatorKind) -> None:
    with pytest.raises(ValueError, match=f"unknown {kind.name} task 'nothing'; known, closest"):
        kind.make("nothing", {})
    with pytest.raises(ValueError, match=f"unknown camera of {kind.name} 'eye'; known, closest"):
        kind.make(kind.default_tasks[0], {"eye": (8, 8)})


def test_rendering_needs_a_camera(simulator: Simulator, kind: SimulatorKind) -> None:
    with pytest.raises(ValueError, match=re.escape("cameras={name: (height, width)}")):
        simulator.render()


def test_every_camera_gives_an_image_in_its_size(kind: SimulatorKind) -> None:
    sizes = {camera: (24 + 8 * place, 40) for place, camera in enumerate(kind.cameras)}
    filmed = kind.make(kind.default_tasks[0], sizes)
    filmed.reset(0)
    try:
        images = filmed.render()
    except OatkitError as error:
        pytest.skip(str(error))
    assert {camera: image.shape[:2] for camera, image in images.items()} == sizes
    assert all(image.dtype == np.uint8 and image.std() > 5 for image in images.values())
    filmed.close()


def test_rendering_changes_nothing(simulator: Simulator, kind: SimulatorKind) -> None:
    filmed = kind.make(kind.default_tasks[0], {next(iter(kind.cameras)): (24, 24)})
    first, other = filmed.reset(2), simulator.reset(2)
    for _ in range(5):
        try:
            filmed.render()
        except OatkitError as error:
            pytest.skip(str(error))
        first, other = (s.step(kind.bounds[1]).observation for s in (filmed, simulator))
        assert are_identical(list(first.values()), list(other.values()))
    filmed.close()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_200_resets_leave_no_memory_behind(simulator: Simulator, kind: SimulatorKind) -> None:
    for number in range(50):
        play(simulator, kind, number, num_steps=1)
    before = resident_kilobytes()
    for number in range(200):
        play(simulator, kind, number, num_steps=1)
    assert resident_kilobytes() - before < 8_000


def resident_kilobytes() -> int:
    status = Path("/proc/self/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+)", status)
    assert found is not None
    return int(found[1])
