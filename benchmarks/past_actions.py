"""A state that ends with the last executed actions: in demonstrations, and in MetaWorld.

Nothing of oatkit knows of them: they are further numbers of the state. Where an episode begins they
are zero, which is an arm that stands still.

Shape letters: T step of an episode, P past action, A action, S number of the state.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

import oatkit
from oatkit.data.lerobot_writer import LeRobotWriter
from oatkit.data.source import Feature
from oatkit.envs.metaworld import METAWORLD, MetaWorld
from oatkit.envs.simulator import Cameras, Observation, SimulatorKind, StepResult
from oatkit.types import Sampling
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE, TASK

NUM_PAST = 7
"""Number of past actions."""
GREEDY = Sampling(temperature=0.0)


class Remembering:
    """A MetaWorld task whose state of everything ends with the last executed actions."""

    def __init__(self, task: str, cameras: Cameras) -> None:
        self._inner = MetaWorld(task, cameras)
        self._past_PA = np.zeros((NUM_PAST, len(METAWORLD.action_low)), np.float32)
        self.render = self._inner.render
        self.close = self._inner.close

    def reset(self, seed: int) -> Observation:
        self._past_PA = np.zeros_like(self._past_PA)
        return self._remembered(self._inner.reset(seed))

    def step(self, action: ArrayLike) -> StepResult:
        result = self._inner.step(action)
        self._past_PA = np.vstack([self._past_PA[1:], np.asarray(action, np.float32)])
        return replace(result, observation=self._remembered(result.observation))

    def _remembered(self, seen: Observation) -> Observation:
        state_S = np.concatenate([seen[ENVIRONMENT_STATE], self._past_PA.ravel()])
        return {**seen, ENVIRONMENT_STATE: state_S}


REMEMBERING: SimulatorKind = replace(METAWORLD, make=Remembering)


def with_past_actions(
    data: Path, out: Path, policy: oatkit.Policy | None = None, own_share: float = 0.0
) -> Path:
    """Folder of the demonstrations with past actions, which is written unless it is there.

    Args:
        data: Demonstrations of MetaWorld.
        out: Where to write them.
        policy: What plans the past actions of some frames, from what it saw before them and true
            past actions; needed where `own_share` is not 0.
        own_share: Share of the frames whose past actions it plans; the others have true ones.
    """
    if out.exists():
        return out
    dataset = oatkit.open_dataset(data)
    size, action_dim = dataset[0].column(ENVIRONMENT_STATE).shape[1], dataset.action_dim
    features = {
        ENVIRONMENT_STATE: Feature((size + NUM_PAST * action_dim,)),
        "action": Feature((action_dim,)),
    }
    rng = np.random.default_rng(0)
    writing = out.with_name(f"{out.name}.partial")
    writer = LeRobotWriter(writing, fps=METAWORLD.fps, features=features)
    for index in range(len(dataset)):
        episode = dataset[index]
        seen_TS, past_TPA = episode.column(ENVIRONMENT_STATE), past_actions(episode.actions)
        state_TS = joined(seen_TS, past_TPA)
        if policy is not None:
            planned_TPA = past_plans(policy, state_TS, episode.task, past_TPA)
            is_own_T11 = rng.random((len(state_TS), 1, 1)) < own_share
            state_TS = joined(seen_TS, np.where(is_own_T11, planned_TPA, past_TPA))
        columns = {ENVIRONMENT_STATE: state_TS, "action": episode.actions}
        writer.add_episode(columns, task=episode.task)
    writer.close()
    return writing.rename(out)


def past_actions(actions_TA: NDArray[np.float32]) -> NDArray[np.float32]:
    """The actions before every step, (T, P, A); zero before the first."""
    none_PA = np.zeros((NUM_PAST, actions_TA.shape[1]), np.float32)
    padded = np.vstack([none_PA, actions_TA[:-1]])
    return sliding_window_view(padded, NUM_PAST, axis=0).swapaxes(1, 2)


def joined(state_TS: NDArray[np.float32], past_TPA: NDArray[np.float32]) -> NDArray[np.float32]:
    """States that end with the past actions."""
    return np.hstack([state_TS, past_TPA.reshape(len(past_TPA), -1)])


def past_plans(
    policy: oatkit.Policy,
    state_TS: NDArray[np.float32],
    task: str,
    past_TPA: NDArray[np.float32],
) -> NDArray[np.float32]:
    """What the policy planned for the actions before every step, as many steps earlier as there are
    past actions; the true ones at the first steps."""
    seen = {STATE: state_TS[:, None], TASK: [task] * len(state_TS)}
    chunk_TPA = policy.predict_action_chunk(seen, sampling=GREEDY).chunk[:, :NUM_PAST]
    planned_TPA = chunk_TPA[:-NUM_PAST].clip(*METAWORLD.bounds)
    return np.concatenate([past_TPA[:NUM_PAST], planned_TPA]).astype(np.float32)
