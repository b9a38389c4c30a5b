"""How good a policy is without a robot or simulator: tokens and actions of held-out episodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.data import Dataset
from oatkit.measure.baselines import measure_baselines
from oatkit.measure.held_out_losses import measure_losses
from oatkit.policies import Policy
from oatkit.policies.generation.early_stop import AutoThresholds
from oatkit.policies.observation.observations import Observations
from oatkit.types import Baseline, Budget, PolicyBudget, PolicyMeasurement, Sampling, Tokens

MAX_CHUNKS = 2048
"""Maximum number of chunks that are measured; they are spread evenly over a larger dataset."""
MAX_TRAINING_CHUNKS = 256
"""Maximum number of chunks of training episodes whose loss is measured, spread evenly."""
READ_AT_ONCE = 32
"""Number of chunks whose full images are in memory at once."""
CONSTANT = 1e-12
"""A variance below which a dimension does not move."""


@dataclass(frozen=True)
class _Truth:
    """What followed the observations, and its tokens.

    Attributes:
        actions: The true chunks (B, T, A), raw units.
        is_pad: Which steps (B, T) lie past the end of an episode.
        tokens: The tokens of the true chunks.
    """

    actions: Tensor
    is_pad: NDArray[np.bool_]
    tokens: Tokens


@dataclass(frozen=True)
class _Sampled:
    """What the policy made of the observations.

    Attributes:
        chunks: The predicted chunks (B, T, A), raw units; NaN where a sequence does not decode.
        tokens: The tokens that they are decoded from.
        calls: Mean number of calls of the network.
        num_undecodable: Number of sequences that do not decode.
    """

    chunks: Tensor
    tokens: Tokens
    calls: float
    num_undecodable: int


def measure_policy(
    policy: Policy,
    dataset: Dataset,
    *,
    train_set: Dataset | None = None,
    path: str = "",
    split: str = "all",
    sampling: Sampling = Sampling(seed=0),
    max_chunks: int = MAX_CHUNKS,
) -> PolicyMeasurement:
    """Measure the accuracy and entropy of every slot, and the errors of every trained budget.

    Args:
        policy: Trained policy.
        dataset: Held-out episodes.
        train_set: Episodes that it was trained on, for baselines and the loss on them; neither is
            measured without.
        path: Path of the artifact, for the record.
        split: Name of the part of the dataset, for the record.
        sampling: Rules by which tokens are chosen.
        max_chunks: Maximum number of chunks; they are spread evenly over a larger dataset.
    """
    observations, wanted_BTA, is_pad_BT = observations_to_measure(policy, dataset, max_chunks)
    truth = _Truth(wanted_BTA, is_pad_BT, _encode(policy, observations, wanted_BTA))
    losses = measure_losses(policy, observations, truth.tokens, wanted_BTA, is_pad_BT)
    generator = _seeded(sampling)
    sampled = _sample(policy, observations, generator, sampling)
    auto = None
    if policy.auto is not None and policy.head != "flow":
        stopped = _sample(policy, observations, generator, sampling, policy.auto)
        auto = _measure_budget(policy, stopped, truth, "auto")
    baselines: tuple[Baseline, ...] = ()
    if train_set is not None:
        sizes = {"horizon": policy.tokenizer.horizon, "history": policy.spec.history}
        baselines = measure_baselines(train_set, dataset, **sizes, max_chunks=max_chunks)
    return PolicyMeasurement(
        path=path,
        kind=policy.tokenizer.kind,
        data=str(dataset.path),
        split=split,
        num_chunks=len(observations),
        num_parameters=sum(p.numel() for p in policy.net.parameters()),
        loss=losses.tokens + losses.flow,
        slots=losses.slots,
        budgets=tuple(
            _measure_budget(
                policy, _at_budget(policy, observations, sampled, k, sampling), truth, k
            )
            for k in policy.budgets
        ),
        auto=auto,
        invalid=sampled.num_undecodable / len(observations),
        variance=_variance_ratio(sampled.chunks, wanted_BTA),
        baselines=baselines,
        train_loss=None if train_set is None else _training_loss(policy, train_set),
        sampling=sampling,
    )


def _encode(policy: Policy, observations: Observations, actions_BTA: Tensor) -> Tokens:
    return policy.tokenizer.encode(actions_BTA, policy.spec.start_state(observations))


def _seeded(sampling: Sampling) -> torch.Generator:
    """Random numbers of the seed; of none in particular without."""
    generator = torch.Generator()
    if sampling.seed is None:
        generator.seed()
        return generator
    return generator.manual_seed(sampling.seed)


def _training_loss(policy: Policy, train_set: Dataset) -> float:
    """The loss on some chunks that the policy was trained on."""
    observations, actions_BTA, is_pad_BT = observations_to_measure(
        policy, train_set, MAX_TRAINING_CHUNKS
    )
    tokens = _encode(policy, observations, actions_BTA)
    losses = measure_losses(policy, observations, tokens, actions_BTA, is_pad_BT)
    return losses.tokens + losses.flow


def observations_to_measure(
    policy: Policy, dataset: Dataset, max_chunks: int
) -> tuple[Observations, Tensor, NDArray[np.bool_]]:
    """Observations that are spread evenly over a dataset, and what followed them.

    Gives the observations, the raw chunks (B, T, A) and which of their steps (B, T) are padding.
    """
    spec = policy.spec
    chunks = dataset.chunks(
        policy.tokenizer.horizon, history=spec.history, cameras=tuple(spec.cameras)
    )
    indices = chunks.spread(max_chunks)
    parts = []
    for some in np.split(indices, range(READ_AT_ONCE, len(indices), READ_AT_ONCE)):
        observations = policy.read(chunks.batch(some))
        parts.append(policy.net.shrink_images(observations))
    actions_BTA, is_pad_BT = chunks.actions(indices)
    return Observations.cat(parts), torch.from_numpy(actions_BTA), is_pad_BT


def _sample(
    policy: Policy,
    observations: Observations,
    generator: torch.Generator,
    sampling: Sampling,
    thresholds: AutoThresholds | None = None,
) -> _Sampled:
    """Chunks of all observations, part by part."""
    blocks = observations.split(policy.rows_at_once)
    parts = [policy.generate_once(block, generator, thresholds, sampling) for block in blocks]
    most = max(part.tokens.ids.shape[1] for part in parts)
    ids_BK = torch.cat([F.pad(p.tokens.ids, (0, most - p.tokens.ids.shape[1])) for p in parts])
    return _Sampled(
        chunks=torch.cat([part.chunk for part in parts]).cpu(),
        tokens=Tokens(
            ids_BK,
            torch.cat([part.tokens.lengths for part in parts]),
            state=policy.spec.start_state(observations),
        ),
        calls=float(torch.cat([part.calls for part in parts]).cpu().double().mean()),
        num_undecodable=sum(len(part.undecodable) for part in parts),
    )


def _at_budget(
    policy: Policy, observations: Observations, sampled: _Sampled, budget: int, sampling: Sampling
) -> _Sampled:
    """What was sampled, of which tokens are a prefix; a flow expert does so many Euler steps."""
    if policy.head == "tokens" or budget == sampled.calls:
        return sampled
    how: dict[str, Any] = {"sampling": sampling, "generator": _seeded(sampling)}
    blocks = observations.split(policy.rows_at_once)
    found = [policy.predict_action_chunk(block, budget=budget, **how) for block in blocks]
    chunks_BTA = torch.cat([torch.from_numpy(part.chunk) for part in found])
    return replace(sampled, chunks=chunks_BTA, calls=float(budget))


def _measure_budget(
    policy: Policy, sampled: _Sampled, truth: _Truth, budget: Budget
) -> PolicyBudget:
    """Errors of the chunks that the first tokens decode to; with "auto" of all that there are."""
    tokenizer = policy.tokenizer
    chunk_BTA, kept_B, calls = sampled.chunks, sampled.tokens.lengths, sampled.calls
    limit = budget if isinstance(budget, int) and policy.head == "tokens" else None
    if limit is not None and limit < tokenizer.max_tokens:
        chunk_BTA = tokenizer.decode(sampled.tokens, budget=limit).cpu()
        kept_B = kept_B.clamp(max=limit)
        calls = float(policy.schedule.calls_for(limit))
    best_BTA = tokenizer.decode(truth.tokens, budget=limit).cpu()
    error_BTA = (chunk_BTA - truth.actions).double()
    is_valid_B = torch.isfinite(error_BTA).all(dim=(1, 2))
    valid_BTA = error_BTA[is_valid_B]
    is_real_BT = ~torch.from_numpy(truth.is_pad)[is_valid_B]
    has_any = len(valid_BTA) > 0
    return PolicyBudget(
        budget=budget,
        tokens=float(kept_B.cpu().double().mean()),
        calls=calls,
        mse=float(valid_BTA.square().mean()) if has_any else None,
        mse_without_padding=float(valid_BTA[is_real_BT].square().mean()) if has_any else None,
        tokenizer_mse=float((best_BTA - truth.actions).double().square().mean()),
        mae=tuple(valid_BTA.abs().mean(dim=(0, 1)).tolist()) if has_any else (),
    )


def _variance_ratio(chunk_BTA: Tensor, wanted_BTA: Tensor) -> tuple[float | None, ...]:
    """Variance of each predicted dimension over that of the true one, for chunks that decode.

    Empty where no chunk decodes; None where the true dimension is constant.
    """
    is_valid_B = torch.isfinite(chunk_BTA).all(dim=(1, 2))
    if not is_valid_B.any():
        return ()
    found, wanted = (
        x_BTA[is_valid_B].double().flatten(0, 1).var(dim=0, correction=0)
        for x_BTA in (chunk_BTA, wanted_BTA)
    )
    pairs = zip(found.tolist(), wanted.tolist(), strict=True)
    return tuple(mine / true if true > CONSTANT else None for mine, true in pairs)
