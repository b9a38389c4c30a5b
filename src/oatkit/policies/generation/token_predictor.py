"""Predicts chunks with a network that generates tokens.

observation ── read ── encode ── generate, stage by stage ── decode ── chunk
                                    ^── again, where a sequence does not decode
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from oatkit.errors import DecodeError
from oatkit.policies.generation.budget_limits import can_stop_early, resolve_budget
from oatkit.policies.generation.committed_actions import (
    CommittedActions,
    read_committed,
    require_prefixes,
)
from oatkit.policies.generation.deadline import Deadline, Latency, ms_between
from oatkit.policies.generation.early_stop import AutoThresholds, require_thresholds
from oatkit.policies.generation.latency_measurement import measure_latency
from oatkit.policies.generation.prediction import PredictionOptions, to_prediction
from oatkit.policies.generation.random_rows import (
    Generators,
    random_draws,
    random_rows,
    start_generators,
)
from oatkit.policies.generation.threshold_calibration import calibrate_thresholds
from oatkit.policies.generation.token_generation import (
    ChunkDecoder,
    Correct,
    GeneratedChunks,
    GenerationSettings,
    generate_chunks,
)
from oatkit.policies.generation.token_net import TokenNet
from oatkit.policies.observation.episode_reader import EpisodeReader
from oatkit.policies.observation.observation_spec import ObservationSpec, blank_observation
from oatkit.policies.observation.observations import Observations
from oatkit.policies.tokenizer_checks import reads_start_state
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Prediction, Sampling, Schedule

MAX_ATTEMPTS = 10
"""How often a sequence is generated until it decodes (`fast`, strict)."""


class TokenPredictor:
    """Predicts chunks by generating tokens and decoding them.

    Args:
        net: Encodes observations and generates tokens.
        tokenizer: Decodes the tokens.
        schedule: Blocks in which the network was trained to generate.
        spec: What the policy observes, to measure latencies with.
        episode: Reads the observations.
        correct: What the network does to decoded chunks; nothing by default.
    """

    def __init__(
        self,
        net: TokenNet,
        tokenizer: ActionTokenizer,
        schedule: Schedule,
        spec: ObservationSpec,
        episode: EpisodeReader,
        correct: Correct | None = None,
    ) -> None:
        self._net = net
        self._tokenizer = tokenizer
        self._schedule = schedule
        self._spec = spec
        self._episode = episode
        self._correct = correct
        self._needs_state = reads_start_state(tokenizer.normalizer, spec)
        self._warned: set[str] = set()
        self._latencies: dict[tuple[int, Schedule, torch.device, bool], Latency] = {}

    def predict(
        self, observation: Mapping[str, Any] | Observations, options: PredictionOptions
    ) -> Prediction:
        """Generate tokens and decode them; see `Policy.predict_action_chunk`."""
        began = time.perf_counter()
        if options.deadline_ms is not None and not options.deadline_ms > 0:
            raise ValueError(f"deadline_ms is {options.deadline_ms}, expected more than 0")
        schedule = self._choose_schedule(options.schedule)
        settings = GenerationSettings(
            schedule,
            resolve_budget(self._tokenizer, schedule, options.budget),
            options.sampling,
            require_thresholds(options.thresholds) if options.budget == "auto" else None,
        )
        batch, is_single_frame = self._episode.batch(observation)
        if options.committed is not None:
            told = self._committed(batch, settings.budget, options)
            settings = replace(settings, committed=told)
        if options.deadline_ms is not None and self._can_stop_early():
            before = time.perf_counter()
            is_committed = settings.committed is not None
            latency = self._latency_of_draws(len(batch), options.draws, schedule, is_committed)
            began += time.perf_counter() - before  # measuring is not part of the prediction
            deadline = Deadline(began + options.deadline_ms / 1000, latency, self._net.device)
            settings = replace(settings, deadline=deadline)
        generator = None
        if options.generator is not None or options.sampling.seed is not None:
            generator = start_generators(options.generator, options.sampling.seed)
        generated = self._generate(batch, settings, generator, options.draws)
        return to_prediction(
            generated,
            observation,
            is_single_frame=is_single_frame,
            began=began,
            options=options,
        )

    def _committed(
        self, batch: Observations, budget: int, options: PredictionOptions
    ) -> CommittedActions | None:
        """Actions that the chunks of all draws have to agree with, if there are any."""
        if not options.has_committed:
            return None
        require_prefixes(self._tokenizer)
        state_BS = self._start_state(batch)
        actions_BPA = read_committed(self._tokenizer, options.committed, len(batch), state_BS)
        actions_NPA = actions_BPA.repeat(options.draws, 1, 1).to(self._net.device)
        return CommittedActions(self._tokenizer, actions_NPA, budget)

    @torch.inference_mode()
    def _generate(
        self,
        batch: Observations,
        settings: GenerationSettings,
        generator: Generators,
        num_draws: int,
    ) -> GeneratedChunks:
        """Generate and decode draw after draw, in one batch; a sequence that does not decode is
        generated again, then sampled."""
        device = self._net.device
        context = self._net.encode(batch.to(device))
        packing = self._net.pack(settings.schedule, device)
        batch_size, num_slots = batch.task.shape[0], len(packing.positions)
        rows_N = torch.arange(num_draws * batch_size, device=device)
        state_BS = self._start_state(batch)
        own = context if num_draws == 1 else self._net.select_rows(context, rows_N % batch_size)
        uniform_NK = random_draws(torch.rand, generator, batch_size, num_draws, num_slots)
        if num_draws > 1 and settings.sampling.is_greedy:
            uniform_NK[:batch_size] = 0  # which chooses the likeliest id by rules that sample
            settings = replace(settings, sampling=settings.sampling.for_redraw)
        generated: GeneratedChunks | None = None
        for _ in range(MAX_ATTEMPTS):
            new = generate_chunks(
                self._net.start(own, len(rows_N), num_slots),
                packing.stages,
                uniform_NK.to(device),
                ChunkDecoder(self._tokenizer, self._correct, own),
                settings,
                mask_id=self._net.mask_id,
                end_id=self._net.end_id,
                state_NS=None if state_BS is None else state_BS[rows_N.cpu() % batch_size],
            )
            generated = new if generated is None else generated.with_rows(rows_N, new)
            if not generated.undecodable:
                return generated
            settings = replace(settings, sampling=settings.sampling.for_redraw)
            rows_N = torch.tensor(list(generated.undecodable), device=device)
            own = self._net.select_rows(context, rows_N % batch_size)
            generators = generator
            if isinstance(generator, list | tuple):
                generators = [generator[row % batch_size] for row in rows_N.tolist()]
            uniform_NK = random_rows(torch.rand, generators, len(rows_N), num_slots)
        assert generated is not None
        raise DecodeError(
            f"{len(rows_N)} of {num_draws * batch_size} sequences did not decode in {MAX_ATTEMPTS} "
            f"attempts; the last: {next(iter(generated.undecodable.values()))}"
        )

    @torch.inference_mode()
    def generate_once(
        self,
        observations: Observations,
        generator: Generators = None,
        thresholds: AutoThresholds | None = None,
        sampling: Sampling = Sampling(),
    ) -> GeneratedChunks:
        """One attempt at all tokens, as policies are measured."""
        net, schedule, num_slots = self._net, self._schedule, self._schedule.num_tokens
        context = net.encode(observations.to(net.device))
        return generate_chunks(
            net.start(context, len(observations), num_slots),
            net.pack(schedule, net.device).stages,
            random_rows(torch.rand, generator, len(observations), num_slots).to(net.device),
            ChunkDecoder(self._tokenizer, self._correct, context),
            GenerationSettings(schedule, num_slots, sampling, thresholds),
            mask_id=net.mask_id,
            end_id=net.end_id,
            state_NS=self._start_state(observations),
        )

    def _start_state(self, batch: Observations) -> Tensor | None:
        """The raw state at which chunks start, where actions are relative to it."""
        return self._spec.start_state(batch) if self._needs_state else None

    def latency(
        self,
        batch_size: int = 1,
        schedule: Schedule | None = None,
        *,
        is_committed: bool = False,
    ) -> Latency:
        """How long each stage and decoding take here; measured when it is first asked for."""
        key = self._latency_key(batch_size, schedule, is_committed)
        if key not in self._latencies:
            blank = self._episode.read(blank_observation(self._spec, batch_size))
            parts = (self._net, self._tokenizer, key[1], blank, self._correct)
            self._latencies[key] = measure_latency(*parts, is_committed=is_committed)
        return self._latencies[key]

    def _latency_of_draws(
        self, batch_size: int, draws: int, schedule: Schedule, is_committed: bool
    ) -> Latency:
        """The latency of a batch, or of so many draws of it: where as many rows were never
        measured, it lies between those of fewer and of more rows; where there are none of more,
        every draw counts as long as the batch alone, which is the most that it takes."""
        key = self._latency_key(batch_size * draws, schedule, is_committed)
        if key in self._latencies:
            return self._latencies[key]
        measured = {
            size: (*latency.stages_ms, latency.decode_ms)
            for (size, *how), latency in self._latencies.items()
            if tuple(how) == key[1:]
        }
        between = ms_between(measured, batch_size * draws)
        if between is not None:
            return Latency(tuple(between[:-1]), between[-1])
        return self.latency(batch_size, schedule, is_committed=is_committed).scaled(draws)

    def _latency_key(
        self, batch_size: int, schedule: Schedule | None, is_committed: bool
    ) -> tuple[int, Schedule, torch.device, bool]:
        return batch_size, schedule or self._schedule, self._net.device, is_committed

    def calibrate(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        generator: Generators,
        rows_at_once: int,
        margin: float | None = None,
    ) -> AutoThresholds | None:
        """Thresholds of `budget="auto"`; see `calibrate_thresholds`."""
        return calibrate_thresholds(
            self._net,
            self._tokenizer,
            self._schedule,
            observations,
            actions_BTA,
            generator=generator,
            rows_at_once=rows_at_once,
            margin=margin,
            state_BS=self._start_state(observations),
            correct=self._correct,
        )

    def _choose_schedule(self, schedule: Schedule | None) -> Schedule:
        own = self._schedule
        if schedule is None or schedule == own:
            return own
        self._warn_once(
            f"the policy was trained to generate {list(own.endpoints)} tokens stage by "
            f"stage, now {list(schedule.endpoints)}: expect worse chunks"
        )
        return schedule

    def _can_stop_early(self) -> bool:
        if not can_stop_early(self._tokenizer):
            kind = self._tokenizer.kind
            self._warn_once(f"{kind} decodes only all of its tokens: deadline_ms is ignored")
            return False
        return True

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, stacklevel=5)
