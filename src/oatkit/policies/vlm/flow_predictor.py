"""Predicts chunks with a flow expert: one pass over the context, then Euler steps from noise."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import torch

from oatkit.data import Normalizer
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.generation.prediction import Prediction, PredictionOptions, to_prediction
from oatkit.policies.generation.random_rows import Generators, random_rows
from oatkit.policies.generation.token_generation import GeneratedChunks
from oatkit.policies.observation.episode_reader import EpisodeReader
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.vlm_net import VlmNet
from oatkit.types import Tokens


class FlowPredictor:
    """Predicts chunks by integrating a velocity.

    Args:
        net: Encodes observations and gives velocities.
        actions: Raw to normalized actions.
        num_tokens: The only budget that is accepted, beside none at all.
        episode: Reads the observations.
    """

    def __init__(
        self, net: VlmNet, actions: Normalizer, num_tokens: int, episode: EpisodeReader
    ) -> None:
        self._net = net
        self._actions = actions
        self._num_tokens = num_tokens
        self._episode = episode

    def predict(
        self, observation: Mapping[str, Any] | Observations, options: PredictionOptions
    ) -> Prediction:
        """Integrate the flow; see `Policy.predict_action_chunk`."""
        began = time.perf_counter()
        kind = self._net.config.objective
        if options.budget not in (None, self._num_tokens) or options.schedule is not None:
            raise ValueError(
                f"{kind} acts by its flow expert, which has neither budgets nor schedules"
            )
        if options.deadline_ms is not None:
            raise ValueError(f"{kind} acts by its flow expert, which cannot stop early")
        generator = options.generator
        if generator is None and options.sampling.seed is not None:
            generator = torch.Generator().manual_seed(options.sampling.seed)
        batch, is_single_frame = self._episode.batch(observation)
        generated = self.generate_once(batch, generator)
        return to_prediction(generated, observation, is_single_frame=is_single_frame, began=began)

    @torch.inference_mode()
    def generate_once(
        self,
        observations: Observations,
        generator: Generators = None,
        thresholds: AutoThresholds | None = None,
    ) -> GeneratedChunks:
        """Raw chunks; no tokens, and as many calls as there are Euler steps."""
        del thresholds  # there is nothing to stop
        net, count = self._net, len(observations)
        noise_BTA = random_rows(torch.randn, generator, count, *net.chunk_shape).to(net.device)
        context = net.encode(observations.to(net.device))
        chunk_BTA = self._actions.unnormalize(net.flow(context, noise_BTA))
        none_B0 = torch.zeros(count, 0, device=net.device)
        calls_B = torch.full((count,), net.config.expert.num_steps, device=net.device)
        tokens = Tokens(none_B0.long(), torch.zeros_like(calls_B))
        return GeneratedChunks(
            chunk_BTA, tokens, none_B0, calls_B, torch.ones_like(calls_B), undecodable={}
        )
