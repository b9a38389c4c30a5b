from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from oatkit.evaluation.episode_recording import EpisodeRecorder
from oatkit.evaluation.queried_policy import EvaluatedPolicy
from oatkit.policies import Prediction
from oatkit.tokenizers import ActionTokenizer
from oatkit.tokenizers.prefix_chunks import prefix_chunks
from tests.evaluation.pilot import Pilot
from tests.evaluation.plane_episodes import plans, run
from tests.tokenizers.small_tokenizers import make


class Noted:
    """Keeps what a recording would be given, by episode and name."""

    def __init__(self) -> None:
        self.calls: dict[tuple[str, ...], list[Any]] = {}

    def _note(self, place: tuple[str, ...], step: int | None, value: Any) -> None:
        self.calls.setdefault(place, []).append((step, value))

    def add_text(self, episode: str, name: str, text: str, *, step: int | None = None) -> None:
        self._note((episode, name), step, text)

    def add_image(self, episode: str, camera: str, image: Any, *, step: int) -> None:
        self._note((episode, "camera", camera), step, image)

    def add_curves(
        self, episode: str, name: str, values: Any, dimensions: Any, *, steps: Any = None
    ) -> None:
        assert values.shape[1] == len(dimensions)
        self._note((episode, name), None if steps is None else steps[0], values)

    def add_chunk(
        self, episode: str, name: str, actions: Any, dimensions: Any, *, step: int
    ) -> None:
        self._note((episode, "chunk", name), step, actions)


def acting(tokenizer: ActionTokenizer | None = None) -> EvaluatedPolicy:
    """A pilot to be evaluated, with its tokenizer where that is here."""
    prefixes = None if tokenizer is None else partial(prefix_chunks, tokenizer)
    known = (Pilot(), "pilot", "oat", (4,), 8, 2, None)
    return EvaluatedPolicy(*known, prefix_chunks=prefixes)


class TokenPilot(Pilot):
    """A pilot whose predictions have ids, as those of a policy do."""

    def predict_action_chunk(self, *args: Any, **kwargs: Any) -> Prediction:
        found = super().predict_action_chunk(*args, **kwargs)
        ids = np.tile([3, 1, 4, 1], (len(found.chunk), 1))
        return replace(found, ids=ids)


def test_what_was_seen_predicted_and_done() -> None:
    noted, tokenizer = Noted(), make("oat")
    pilot = TokenPilot(cameras={"top": (16, 16)})
    wanted = plans(1, tasks=("near",), budgets=(4,))
    recorder = EpisodeRecorder(noted, acting(tokenizer))  # type: ignore[arg-type]  # same methods
    (result,) = run(wanted, pilot, recorder=recorder).values()
    name = "near-budget-4-000"
    queries = [0, 4, 8, 12][: result.queries]
    assert [step for step, _ in noted.calls[name, "chunk", "predicted"]] == queries
    assert [step for step, _ in noted.calls[name, "state"]] == queries
    assert [image.shape for _, image in noted.calls[name, "camera", "top"]] == [(16, 16, 3)] * len(
        queries
    )
    assert noted.calls[name, "tokens"] == [(step, "3 1 4 1") for step in queries]
    for budget in (1, 2, 4):
        expected = tokenizer.decode([[3, 1, 4, 1][:budget]])[0]
        for _, chunk in noted.calls[name, "chunk", f"budget-{budget}"]:
            np.testing.assert_array_equal(chunk, expected)
    ((_, executed),) = noted.calls[name, "action"]
    assert executed.shape == (result.steps, 2)
    assert noted.calls[name, "outcome"] == [(None, f"success after {result.steps} steps")]
    _, first = noted.calls[name, "chunk", "predicted"][0]
    np.testing.assert_allclose(executed[:4], np.clip(first[:4], -1, 1), rtol=1e-6)


def test_a_policy_without_tokens() -> None:
    noted = Noted()
    recorder = EpisodeRecorder(noted, acting(make("oat")))  # type: ignore[arg-type]  # same methods
    run(plans(1, tasks=("near",), budgets=(4,)), recorder=recorder)
    assert {place[1:] for place in noted.calls} == {
        ("state",),
        ("action",),
        ("outcome",),
        ("chunk", "predicted"),
    }


def test_ids_of_a_policy_elsewhere_are_shown_and_not_decoded() -> None:
    noted = Noted()
    recorder = EpisodeRecorder(noted, acting())  # type: ignore[arg-type]  # same methods
    run(plans(1, tasks=("near",), budgets=(4,)), TokenPilot(), recorder=recorder)
    names = {place[1:] for place in noted.calls}
    assert ("tokens",) in names
    assert [name for name in names if name[0] == "chunk"] == [("chunk", "predicted")]


def test_recording_changes_nothing() -> None:
    wanted = plans(2)
    recorder = EpisodeRecorder(Noted(), acting(make("oat")))  # type: ignore[arg-type]  # same methods
    assert run(wanted, TokenPilot(), recorder=recorder) == run(wanted, TokenPilot())
