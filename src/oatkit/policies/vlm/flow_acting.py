"""How a policy with a flow expert acts: one pass over the context, then Euler steps from noise."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from oatkit.data import Normalizer
from oatkit.policies.generation.blockwise import Generators
from oatkit.policies.generation.prediction import Drawn, Prediction
from oatkit.policies.generation.token_acting import handed_out, with_history
from oatkit.policies.observation.frame_history import FrameHistory
from oatkit.policies.observation.observations import Observations
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Tokens


class Flowing(Protocol):
    """A policy with a flow expert."""

    tokenizer: ActionTokenizer
    actions: Normalizer
    history: FrameHistory[Observations]

    @property
    def net(self) -> Any: ...

    def read(self, observation: Mapping[str, Any]) -> Observations:
        """The tensors of an observation."""

    @property
    def device(self) -> torch.device: ...


class FlowActing:
    """Acts for a policy with a flow expert.

    Args:
        policy: The policy.
    """

    def __init__(self, policy: Flowing) -> None:
        self._policy = policy

    def predict(
        self, observation: Mapping[str, Any] | Observations, generator: Generators = None
    ) -> Prediction:
        """A chunk for each observation; `generator` is of the noise."""
        began = time.perf_counter()
        read = (
            observation if isinstance(observation, Observations) else self._policy.read(observation)
        )
        observations = with_history(self._policy.history, read)
        drawn = self.draw_once(observations, generator)
        return handed_out(drawn, observation, is_single=read.is_single_frame, began=began)

    @torch.inference_mode()
    def draw_once(self, observations: Observations, generator: Generators = None) -> Drawn:
        """Raw chunks; no tokens, and as many calls as there are Euler steps."""
        policy, count = self._policy, len(observations)
        shape = (policy.tokenizer.horizon, policy.tokenizer.action_dim)
        noise_BTA = noises(generator, count, shape).to(policy.device)
        context = policy.net.encode(observations.to(policy.device))
        chunk_BTA = policy.actions.unnormalize(policy.net.flow(context, noise_BTA))
        none = torch.zeros(count, 0, device=policy.device)
        calls_B = torch.full((count,), policy.net.config.expert.num_steps, device=policy.device)
        tokens = Tokens(none.long(), torch.zeros_like(calls_B))
        return Drawn(chunk_BTA, tokens, none, calls_B, torch.ones_like(calls_B))


def noises(generators: Generators, batch_size: int, shape: tuple[int, int]) -> Tensor:
    """(B, *shape) standard normal, of the batch's or each row's generator."""
    if generators is None or isinstance(generators, torch.Generator):
        return torch.randn(batch_size, *shape, generator=generators)
    if len(generators) != batch_size:
        raise ValueError(f"there are {len(generators)} generators for {batch_size} rows")
    return torch.stack([torch.randn(*shape, generator=generator) for generator in generators])
