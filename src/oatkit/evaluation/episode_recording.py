"""Episodes under way as a recording for Rerun: what the policy saw, predicted and did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oatkit.evaluation.queried_policy import EvaluatedPolicy
from oatkit.evaluation.running_episode import RunningEpisode
from oatkit.types import Prediction, budget_name
from oatkit.types.observation_keys import IMAGES, STATE

if TYPE_CHECKING:
    from oatkit.data.rerun_recording import RerunRecording


class EpisodeRecorder:
    """Adds the queries of episodes, and the episodes themselves, to a recording.

    Args:
        recording: Recording to add to.
        policy: What acts; where it runs here, the first of its ids are decoded for each budget.
    """

    def __init__(self, recording: RerunRecording, policy: EvaluatedPolicy) -> None:
        self._recording = recording
        self._policy = policy

    def add_query(self, episode: RunningEpisode, found: Prediction, row: int) -> None:
        """What the policy read, and the chunk and tokens that it predicted, before execution."""
        name, step, recording = self._name(episode), episode.steps, self._recording
        frame = episode.history.frames()[-1]
        for key, values in frame.items():
            if key.startswith(IMAGES):
                recording.add_image(name, key.removeprefix(IMAGES), values, step=step)
            elif key == STATE:
                dimensions = [f"state_{i}" for i in range(len(values))]
                recording.add_curves(name, "state", values[None], dimensions, steps=[step])
        dimensions = self._dimensions(found.chunk.shape[-1])
        recording.add_chunk(name, "predicted", found.chunk[row], dimensions, step=step)
        ids = [] if found.ids is None else found.ids[row][: int(found.budget[row])].tolist()
        if ids:  # a flow expert has none
            recording.add_text(name, "tokens", " ".join(map(str, ids)), step=step)
        if ids and self._policy.prefix_chunks is not None:
            for budget, decoded_TA in self._policy.prefix_chunks(ids, frame.get(STATE)).items():
                what = f"budget-{budget}"
                recording.add_chunk(name, what, decoded_TA, dimensions, step=step)

    def add_end(self, episode: RunningEpisode) -> None:
        """The executed actions, and whether the episode was a success."""
        name, executed_NA = self._name(episode), episode.executed
        outcome = "success" if episode.is_success else episode.error or "no success"
        self._recording.add_text(name, "outcome", f"{outcome} after {episode.steps} steps")
        if len(executed_NA):
            dimensions = self._dimensions(executed_NA.shape[1])
            self._recording.add_curves(name, "action", executed_NA, dimensions)

    def _dimensions(self, count: int) -> list[str]:
        names = self._policy.action_names
        return list(names) if len(names) == count else [f"action_{i}" for i in range(count)]

    def _name(self, episode: RunningEpisode) -> str:
        plan = episode.plan
        return f"{plan.task}-budget-{budget_name(plan.budget)}-{plan.episode:03d}"
