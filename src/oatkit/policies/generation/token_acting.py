"""How a policy that speaks tokens acts: history, schedules, budgets, deadlines, thresholds.

Shape letters: B batch, N some rows of it, T step in the chunk, A action dimension.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from oatkit.policies.generation.blockwise import Feed, Generators, generate, uniforms
from oatkit.policies.generation.early_stop import MARGIN, AutoThresholds, calibrate, chunk_change
from oatkit.policies.generation.prediction import (
    Deadline,
    Drawing,
    Drawn,
    Latency,
    Prediction,
    can_stop,
    draw,
    predict,
    resolve_budget,
)
from oatkit.policies.observation.frame_history import FrameHistory
from oatkit.policies.observation.observation_spec import ObservationSpec, blank_observation
from oatkit.policies.observation.observations import Observations
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Budget, Sampling, Schedule

LATENCY_REPEATS = 5


class TokenNet(Protocol):
    """A network that gives logits of tokens."""

    @property
    def end_id(self) -> int | None: ...

    @property
    def mask_id(self) -> int: ...

    def encode(self, observations: Observations) -> Any:
        """What is computed once per observation."""


class Speaker(Protocol):
    """A policy that speaks tokens; what `encode` of its network gives is its context."""

    tokenizer: ActionTokenizer
    spec: ObservationSpec
    auto: AutoThresholds | None
    history: FrameHistory[Observations]
    rows_at_once: int
    """How many observations fit in memory together."""

    @property
    def net(self) -> TokenNet: ...

    @property
    def schedule(self) -> Schedule: ...

    @property
    def device(self) -> torch.device: ...

    def read(self, observation: Mapping[str, Any]) -> Observations:
        """The tensors of an observation."""

    def start(self, context: Any, batch_size: int, schedule: Schedule) -> Feed:
        """The network with an empty cache."""

    def rows(self, context: Any, rows_N: Tensor) -> Any:
        """The context of some rows of the batch."""


def handed_out(
    drawn: Drawn,
    observation: Mapping[str, Any] | Observations,
    *,
    is_single: bool,
    began: float,
) -> Prediction:
    """What was drawn as arrays like those of the observation, without a batch for one frame."""
    given: list[Tensor] = []
    if not isinstance(observation, Observations):
        given = [value for value in observation.values() if isinstance(value, Tensor)]

    def hand_out(values: Tensor) -> Any:
        values = values[0] if is_single else values
        return values.to(given[0].device) if given else values.cpu().numpy()

    return Prediction(
        chunk=hand_out(drawn.chunk),
        ids=hand_out(drawn.tokens.ids),
        entropy_bits=hand_out(drawn.entropy),
        budget=hand_out(drawn.tokens.lengths),
        calls=hand_out(drawn.calls),
        draws=hand_out(drawn.draws),
        elapsed_ms=1000 * (time.perf_counter() - began),
    )


def with_history(history: FrameHistory[Observations], read: Observations) -> Observations:
    """A batch with its history; one frame joins the frames of its episode."""
    if not read.is_single_frame:
        return read
    history.add(read)
    return Observations.from_frames(history.frames())


class TokenActing:
    """Acts for a policy that speaks tokens.

    Args:
        speaker: The policy.
    """

    def __init__(self, speaker: Speaker) -> None:
        self._speaker = speaker
        self._warned: set[object] = set()
        self.latencies: dict[tuple[int, Schedule], Latency] = {}

    def predict(
        self,
        observation: Mapping[str, Any] | Observations,
        *,
        budget: Budget = None,
        schedule: Schedule | None = None,
        sampling: Sampling = Sampling(),
        generator: Generators = None,
        deadline_ms: float | None = None,
    ) -> Prediction:
        """Generate tokens and decode them.

        Args:
            observation: LeRobot's keys, or what `read` made of them. One frame, whose history the
                policy keeps since `reset` (see `observe`), or a batch with its history, of which
                nothing is kept.
            budget: The most tokens; all by default. Inside a block the block is run whole. "auto"
                stops when the chunk no longer moves or the tokens are near certain.
            schedule: Another than the policy was trained under, which warns once.
            sampling: How ids are chosen.
            generator: One for the batch or one for each row, instead of the seed of `sampling`.
            deadline_ms: Stop at the last trained budget that fits, at the first at the latest.
        """
        began = time.perf_counter()
        if deadline_ms is not None and not deadline_ms > 0:
            raise ValueError(f"deadline_ms is {deadline_ms}, expected more than 0")
        schedule = self._resolve_schedule(schedule)
        most = resolve_budget(self._speaker.tokenizer, schedule, budget)
        drawing = Drawing(
            schedule, most, self._speaker.net.mask_id, self._speaker.net.end_id, sampling
        )
        if budget == "auto":
            drawing = replace(drawing, auto=self._thresholds())
        read = (
            observation
            if isinstance(observation, Observations)
            else self._speaker.read(observation)
        )
        observations = with_history(self._speaker.history, read)
        if deadline_ms is not None:
            drawing = self._with_deadline(drawing, len(observations), began, deadline_ms)
        if generator is None and sampling.seed is not None:
            generator = torch.Generator().manual_seed(sampling.seed)
        drawn = self._draw(observations, drawing, generator)
        return handed_out(drawn, observation, is_single=read.is_single_frame, began=began)

    @torch.inference_mode()
    def _draw(
        self, observations: Observations, drawing: Drawing, generator: Generators = None
    ) -> Drawn:
        context = self._speaker.net.encode(observations.to(self._speaker.device))

        def start(rows_N: Tensor) -> Feed:
            own = context
            if len(rows_N) < len(observations):
                own = self._speaker.rows(context, rows_N)
            return self._speaker.start(own, len(rows_N), drawing.schedule)

        return predict(
            start,
            self._speaker.tokenizer,
            drawing,
            batch_size=len(observations),
            device=self._speaker.device,
            generator=generator,
        )

    @torch.inference_mode()
    def draw_once(
        self,
        observations: Observations,
        generator: Generators = None,
        auto: AutoThresholds | None = None,
    ) -> tuple[Drawn, dict[int, str]]:
        """One draw of all tokens by the default settings, as policies are measured.

        Also says what is wrong with each row that does not decode; its chunk is NaN.
        """
        context = self._speaker.net.encode(observations.to(self._speaker.device))
        feed = self._speaker.start(context, len(observations), self._speaker.schedule)
        most = self._speaker.schedule.num_tokens
        uniform_BK = uniforms(generator, len(observations), most).to(self._speaker.device)
        drawing = Drawing(
            self._speaker.schedule,
            most,
            self._speaker.net.mask_id,
            self._speaker.net.end_id,
            auto=auto,
        )
        return draw(feed, self._speaker.tokenizer, drawing, uniform_BK)

    def _resolve_schedule(self, schedule: Schedule | None) -> Schedule:
        own = self._speaker.schedule
        if schedule is None or schedule == own:
            return own
        self._warn_once(
            f"the policy was trained to generate {list(own.endpoints)} tokens stage by "
            f"stage, now {list(schedule.endpoints)}: expect worse chunks"
        )
        return schedule

    def _thresholds(self) -> AutoThresholds:
        if self._speaker.auto is None:
            raise ValueError(
                "budget 'auto' has no thresholds: `oatkit policy train` finds them, or calibrate()"
            )
        return self._speaker.auto

    def _with_deadline(
        self, drawing: Drawing, batch_size: int, began: float, deadline_ms: float
    ) -> Drawing:
        if not can_stop(self._speaker.tokenizer):
            kind = self._speaker.tokenizer.kind
            self._warn_once(f"{kind} decodes only all of its tokens: deadline_ms is ignored")
            return drawing
        before = time.perf_counter()
        latency = self.latency(batch_size, drawing.schedule)
        began += time.perf_counter() - before  # measuring is not part of the first prediction
        if drawing.auto is not None:  # decodes after every stage
            slower = tuple(ms + latency.decode_ms for ms in latency.stages_ms)
            latency = replace(latency, stages_ms=slower)
        return replace(drawing, deadline=Deadline(began + deadline_ms / 1000, latency))

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, stacklevel=5)

    @torch.inference_mode()
    def latency(self, batch_size: int = 1, schedule: Schedule | None = None) -> Latency:
        """How long each stage and decoding take here; measured when first asked for."""
        schedule = schedule or self._speaker.schedule
        key = (batch_size, schedule)
        if key not in self.latencies:
            observations = self._speaker.read(blank_observation(self._speaker.spec, batch_size))
            blank, rows = observations.to(self._speaker.device), []
            for _ in range(LATENCY_REPEATS + 1):
                context = self._speaker.net.encode(blank)
                feed = self._speaker.start(context, batch_size, schedule)
                drawn = torch.rand(batch_size, schedule.num_tokens, device=self._speaker.device)
                times, ids = [time.perf_counter()], []
                for stage in generate(feed, schedule, drawn, mask_id=self._speaker.net.mask_id):
                    ids.append(stage.ids)
                    times.append(time.perf_counter())
                if can_stop(self._speaker.tokenizer):  # else there is nothing to decide by it
                    self._speaker.tokenizer.decode(torch.cat(ids, dim=1))
                times.append(time.perf_counter())
                rows.append(np.diff(times))
            median = (1000 * np.median(rows[1:], axis=0)).tolist()
            self.latencies[key] = Latency(tuple(median[:-1]), median[-1])
        return self.latencies[key]

    @torch.inference_mode()
    def calibrated(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        generator: torch.Generator | None = None,
    ) -> AutoThresholds | None:
        """Thresholds of `budget="auto"` from held-out observations and their raw actions.

        None where generation cannot stop early.
        """
        tokenizer, schedule = self._speaker.tokenizer, self._speaker.schedule
        if not can_stop(tokenizer):
            return None
        device, most = self._speaker.device, self._speaker.rows_at_once
        scale_A = torch.as_tensor(tokenizer.normalizer.scale, device=device)
        uniform_BK = uniforms(generator, len(observations), schedule.num_tokens).to(device)
        blocks = zip(observations.split(most), torch.split(uniform_BK, most), strict=True)
        found = [self._stages(block, uniform, scale_A) for block, uniform in blocks]
        change_BS, entropy_BS, excess_BS = (
            torch.cat(rows).double().cpu().numpy() for rows in zip(*found, strict=True)
        )
        wanted_BTA = actions_BTA.to(device)
        coded_BTA = tokenizer.decode(tokenizer.encode(wanted_BTA))
        lost = float(chunk_change(coded_BTA, wanted_BTA, scale_A).square().mean())
        return calibrate(change_BS, entropy_BS, excess_BS, MARGIN * lost)

    def _stages(
        self, observations: Observations, uniform_BK: Tensor, scale_A: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Change, mean entropy and squared distance to the last chunk after each stage, (B, S)."""
        tokenizer, schedule = self._speaker.tokenizer, self._speaker.schedule
        context = self._speaker.net.encode(observations.to(self._speaker.device))
        feed = self._speaker.start(context, len(observations), schedule)
        ids: list[Tensor] = []
        chunks: list[Tensor] = []
        changes, entropies = [], []
        for stage in generate(feed, schedule, uniform_BK, mask_id=self._speaker.net.mask_id):
            ids.append(stage.ids)
            chunk_BTA = tokenizer.decode(torch.cat(ids, dim=1))
            changes.append(chunk_change(chunk_BTA, chunks[-1] if chunks else None, scale_A))
            entropies.append(stage.entropy_bits.mean(dim=1))
            chunks.append(chunk_BTA)
        excess = [chunk_change(chunk_BTA, chunks[-1], scale_A).square() for chunk_BTA in chunks]
        change, entropy, distance = (
            torch.stack(rows, dim=1) for rows in (changes, entropies, excess)
        )
        return change, entropy, distance
