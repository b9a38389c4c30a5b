"""Predicts chunks with a flow expert: one pass over the context, then Euler steps from noise."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from oatkit.data import Normalizer
from oatkit.nn.device import read_clock
from oatkit.nn.sample_random import SampleRandom
from oatkit.policies.generation.budget_limits import resolve_steps, step_choices
from oatkit.policies.generation.deadline import Deadline, Latency, ms_between
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.generation.prediction import PredictionOptions, to_prediction
from oatkit.policies.generation.random_rows import Generators, random_draws, start_generators
from oatkit.policies.generation.token_generation import ALL, BUDGET, DEADLINE, GeneratedChunks
from oatkit.policies.observation.episode_reader import EpisodeReader
from oatkit.policies.observation.observation_spec import ObservationSpec, blank_observation
from oatkit.policies.observation.observations import Observations
from oatkit.policies.tokenizer_checks import reads_start_state
from oatkit.tokenizers.codec import to_shape
from oatkit.types import Prediction, Sampling, Tokens

REPEATS = 5


class FlowNet(Protocol):
    """A network that integrates chunks from noise."""

    @property
    def device(self) -> torch.device: ...

    @property
    def chunk_shape(self) -> tuple[int, int]:
        """Number of steps of a chunk, and of action dimensions."""

    @property
    def num_steps(self) -> int:
        """Number of Euler steps where no budget is named."""

    @property
    def masks_padding(self) -> bool:
        """Whether steps past the end of an episode are left out of the flow loss."""

    def encode(self, observations: Observations) -> Any:
        """Contexts of a batch of observations."""

    def select_rows(self, context: Any, rows_N: Tensor) -> Any:
        """The context of some rows of the batch."""

    def flow(self, context: Any, noise_BTA: Tensor, num_steps: int) -> Tensor:
        """Normalized chunks (B, T, A), reached from noise in so many Euler steps."""

    def flow_loss(
        self,
        context: Any,
        actions_BTA: Tensor,
        random: SampleRandom,
        masked_BT: Tensor | None = None,
    ) -> Tensor:
        """Mean squared error of the velocity at random times, a scalar.

        Args:
            context: Context of the batch.
            actions_BTA: Normalized actions.
            random: Random numbers of the samples.
            masked_BT: bool, steps whose error counts as zero.
        """


class FlowPredictor:
    """Predicts chunks by integrating a velocity; a budget is a number of Euler steps.

    Args:
        net: Encodes observations and gives velocities.
        actions: Raw to normalized actions.
        spec: What the policy observes, to measure latencies with.
        episode: Reads the observations.
        horizon: Number of steps of the robot's chunks; the network's by default, from which they
            are stretched otherwise.
    """

    def __init__(
        self,
        net: FlowNet,
        actions: Normalizer,
        spec: ObservationSpec,
        episode: EpisodeReader,
        horizon: int | None = None,
    ) -> None:
        self._net = net
        self._actions = actions
        self._spec = spec
        self._episode = episode
        self._needs_state = reads_start_state(actions, spec)
        # a network for several robots has room for more dimensions, which are left out
        self._noise_shape = (net.chunk_shape[0], actions.dim)
        self._shape = (net.chunk_shape[0] if horizon is None else horizon, actions.dim)
        self._steps_ms: dict[tuple[int, torch.device], float] = {}

    def predict(
        self, observation: Mapping[str, Any] | Observations, options: PredictionOptions
    ) -> Prediction:
        """Integrate the flow; see `Policy.predict_action_chunk`."""
        began = time.perf_counter()
        if options.schedule is not None:
            raise ValueError("a flow expert acts, which has no schedules: leave the schedule out")
        if options.has_committed:
            raise ValueError(
                "a flow expert acts, which takes no committed actions: leave committed out"
            )
        num_steps = resolve_steps(options.budget, self._net.num_steps)
        batch, is_single_frame = self._episode.batch(observation)
        deadline = None
        if options.deadline_ms is not None:
            before = time.perf_counter()
            step_ms = self._step_ms_of_draws(len(batch), options.draws)
            latency = Latency((step_ms,) * num_steps, decode_ms=0.0)
            began += time.perf_counter() - before  # measuring is not part of the prediction
            at = began + options.deadline_ms / 1000
            deadline = Deadline(at, latency, self._net.device)
        generator = None
        if options.generator is not None or options.sampling.seed is not None:
            generator = start_generators(options.generator, options.sampling.seed)
        generated = self._integrate(batch, generator, options, num_steps, deadline)
        return to_prediction(
            generated,
            observation,
            is_single_frame=is_single_frame,
            began=began,
            options=options,
        )

    def generate_once(
        self,
        observations: Observations,
        generator: Generators = None,
        thresholds: AutoThresholds | None = None,
        sampling: Sampling = Sampling(),
    ) -> GeneratedChunks:
        """Raw chunks with all Euler steps; no tokens, and a call for every step."""
        del thresholds  # there is nothing to stop
        options = PredictionOptions(sampling=sampling)
        return self._integrate(observations, generator, options, self._net.num_steps)

    @torch.inference_mode()
    def _integrate(
        self,
        observations: Observations,
        generator: Generators,
        options: PredictionOptions,
        num_steps: int,
        deadline: Deadline | None = None,
    ) -> GeneratedChunks:
        net, count, sampling = self._net, len(observations), options.sampling
        noise = random_draws(torch.randn, generator, count, options.draws, *self._noise_shape)
        noise_NTA = noise.to(net.device)
        noise_NTA[:count] *= 0.0 if sampling.is_greedy else sampling.temperature
        noise_NTA[count:] *= sampling.for_redraw.temperature
        context = net.encode(observations.to(net.device))
        if options.draws > 1:
            rows_N = torch.arange(len(noise_NTA), device=net.device) % count
            context = net.select_rows(context, rows_N)
        reason = ALL if num_steps >= net.num_steps else BUDGET
        if deadline is not None:
            choices = step_choices(num_steps)
            fits = (steps for steps in reversed(choices) if deadline.allows(0, steps))
            num_steps = next(fits, choices[0])
            reason = DEADLINE if num_steps < choices[-1] else reason
        normal_NTA = to_shape(net.flow(context, noise_NTA, num_steps), self._shape)
        chunk_NTA = self._actions.unnormalize(
            normal_NTA, self._start_states(observations, noise_NTA)
        )
        none_N0 = torch.zeros(len(chunk_NTA), 0, device=net.device)
        calls_N = torch.full((len(chunk_NTA),), num_steps, device=net.device)
        tokens = Tokens(none_N0.long(), torch.zeros_like(calls_N))
        return GeneratedChunks(
            chunk_NTA,
            tokens,
            none_N0,
            calls_N,
            torch.ones_like(calls_N),
            undecodable={},
            stopped=torch.full_like(calls_N, reason),
        )

    def _start_states(self, observations: Observations, noise_NTA: Tensor) -> Tensor | None:
        """The raw state at which each chunk starts, where actions are represented by it."""
        state_BS = self._spec.start_state(observations) if self._needs_state else None
        if state_BS is None:
            return None
        return state_BS.repeat(len(noise_NTA) // len(observations), 1)

    def step_ms(self, batch_size: int = 1) -> float:
        """How long an Euler step takes here; measured when it is first asked for."""
        key = (batch_size, self._net.device)
        if key not in self._steps_ms:
            blank = self._episode.read(blank_observation(self._spec, batch_size))
            self._steps_ms[key] = self._measure_step(blank.to(self._net.device))
        return self._steps_ms[key]

    def _step_ms_of_draws(self, batch_size: int, draws: int) -> float:
        """How long an Euler step of a batch takes, or of so many draws of it: where as many rows
        were never measured, it lies between those of fewer and of more rows; where there are none
        of more, every draw counts as long as the batch alone."""
        device = self._net.device
        measured = {size: (ms,) for (size, where), ms in self._steps_ms.items() if where == device}
        between = ms_between(measured, batch_size * draws)
        return draws * self.step_ms(batch_size) if between is None else between[0]

    @torch.inference_mode()
    def _measure_step(self, observations: Observations) -> float:
        net = self._net
        num_steps = net.num_steps
        context = net.encode(observations)
        noise_BTA = torch.zeros(len(observations), *self._noise_shape, device=net.device)
        times = []
        for _ in range(REPEATS + 1):  # the first warms up
            began = read_clock(net.device)
            net.flow(context, noise_BTA, num_steps)
            times.append(read_clock(net.device) - began)
        return 1000 * float(np.median(times[1:])) / num_steps
