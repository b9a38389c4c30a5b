from __future__ import annotations

import sys

import numpy as np
import pytest

from oatkit.envs.pusht import FPS, KEYPOINTS_KEY, MAX_STEPS, PushT
from oatkit.errors import MissingExtraError
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gym_pusht.envs", None)
    monkeypatch.setitem(sys.modules, "gym_pusht", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[pusht\]'"):
        PushT()


def test_unknown_task() -> None:
    with pytest.raises(ValueError, match="unknown pusht task 'push'; known, closest first: pusht"):
        PushT("push")


@pytest.fixture
def pusht() -> PushT:
    pytest.importorskip("gym_pusht", reason="needs the extra pusht", exc_type=ImportError)
    return PushT(cameras={"top": (64, 80)})


def play(environment: PushT, seed: int) -> list[np.ndarray]:
    """An episode that pushes the T around."""
    observation = environment.reset(seed)
    trace = []
    for step in range(30):
        block = observation[ENVIRONMENT_STATE][:2]
        result = environment.step(np.clip(block + 40 * np.sin(step), 0, 512))
        observation = result.observation
        trace += [*observation.values(), np.array([result.score, result.is_success])]
    return trace


def test_an_episode_depends_on_its_seed_and_actions_alone(pusht: PushT) -> None:
    first, other, again = play(pusht, 3), play(pusht, 5), play(pusht, 3)
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))


def test_observations_are_those_of_the_dataset(pusht: PushT) -> None:
    observation = pusht.reset(3)
    state, environment_state = observation[STATE], observation[ENVIRONMENT_STATE]
    assert (state.dtype, state.shape, environment_state.shape) == (np.float32, (2,), (3,))
    np.testing.assert_array_equal(state, [374, 84])  # where that seed puts the disc
    assert 0 <= environment_state[2] < 2 * np.pi


def test_keypoints_move_with_the_t(pusht: PushT) -> None:
    """Rigid: as complex numbers, a turn and a shift of the same nine points."""
    in_its_frame = []
    for seed in (3, 5):
        observation = pusht.reset(seed)
        x, y, angle = observation[ENVIRONMENT_STATE]
        points = observation[KEYPOINTS_KEY].reshape(9, 2)
        plane = points[:, 0] + 1j * points[:, 1]
        in_its_frame.append((plane - (x + 1j * y)) * np.exp(-1j * angle))
    np.testing.assert_allclose(in_its_frame[0], in_its_frame[1], atol=1e-3)
    np.testing.assert_allclose(in_its_frame[0][0], 9.27 + 90.03j, atol=1e-3)


def test_steps_score_and_limit(pusht: PushT) -> None:
    pusht.reset(3)
    results = [pusht.step([256, 256]) for _ in range(MAX_STEPS)]
    assert [r.is_over for r in results] == [False] * (MAX_STEPS - 1) + [True]
    assert all(r.score is not None and 0 <= r.score <= 1 for r in results)
    np.testing.assert_allclose(results[50].observation[STATE], 256, atol=5)
    with pytest.raises(RuntimeError, match="no episode is under way"):
        pusht.step([0, 0])


def test_covering_the_target_is_a_success(pusht: PushT) -> None:
    """The T is put on its outline, and the disc out of the way."""
    pusht.reset(0)
    inner = pusht._environment
    inner._set_state(np.array([50, 50, 256, 256, np.pi / 4]))
    # setting the angle turns the T about its center of mass, not about its position
    inner.block.position = (256, 256)
    result = pusht.step([50, 50])
    assert result.is_success
    assert result.score == 1


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ([0.0, 1.0, 2.0], r"an action has shape \(3,\), expected \(2,\)"),
        ([0.0, np.nan], "an action is not finite"),
        ([0.0, 513.0], r"an action is outside \[0, 512\]: \[0.0, 513.0\]; clip it first"),
    ],
)
def test_a_bad_action_is_refused(pusht: PushT, action: list[float], message: str) -> None:
    pusht.reset(0)
    with pytest.raises(ValueError, match=message):
        pusht.step(action)


def test_rendering(pusht: PushT) -> None:
    pusht.reset(0)
    (image_HWC,) = pusht.render().values()
    assert image_HWC.shape == (64, 80, 3)
    assert image_HWC.dtype == np.uint8
    assert image_HWC.std() > 10
    with pytest.raises(ValueError, match=r"cameras=\{name: \(height, width\)\}"):
        PushT().render()


def test_the_one_view_has_two_names_and_any_sizes(pusht: PushT) -> None:
    both = PushT(cameras={"image": (64, 80), "top": (32, 32)})
    for environment in (pusht, both):
        environment.reset(0)
    images = both.render()
    np.testing.assert_array_equal(images["image"], pusht.render()["top"])
    assert images["top"].shape == (32, 32, 3)


def test_rate_is_that_of_the_package(pusht: PushT) -> None:
    assert pusht._environment.metadata["render_fps"] == FPS
