"""How good a policy is without a robot or simulator: tokens and actions of held-out episodes."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.data import Dataset
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import Policy
from oatkit.policies.generation.blockwise_loss import blockwise_loss, fit_to_schedule, targets
from oatkit.policies.generation.token_generation import entropy_bits
from oatkit.policies.observation.observations import Observations
from oatkit.types import Budget, PolicyBudget, PolicyMeasurement, PolicySlot, Tokens

MAX_CHUNKS = 2048
"""Of a larger split so many are measured, evenly spread."""
READ = 32
"""Chunks whose full images are in memory at once."""
CONSTANT = 1e-12
"""A variance below which a dimension does not move."""


def measure_policy(
    policy: Policy, dataset: Dataset, *, path: str = "", split: str = "all", seed: int = 0
) -> PolicyMeasurement:
    """Token accuracy and entropy of every slot, action errors of every trained budget.

    Args:
        policy: Trained.
        dataset: Held-out episodes.
        path: Of the artifact, for the record.
        split: What the episodes are, for the record.
        seed: Of sampling.
    """
    observations, wanted_BTA, is_pad_BT = observations_to_measure(policy, dataset, MAX_CHUNKS)
    loss, slots = 0.0, list[PolicySlot]()
    if "tokens" in policy.heads:
        loss, slots = measure_slots(policy, observations, wanted_BTA)
    if "flow" in policy.heads:
        loss += measure_flow(policy, observations, wanted_BTA)
    generator = torch.Generator().manual_seed(seed)
    parts, num_invalid = [], 0
    for block in observations.split(policy.rows_at_once):
        generated = policy.generate_once(block, generator)
        num_invalid += len(generated.undecodable)
        parts.append(generated)
    full_BTA = torch.cat([part.chunk for part in parts]).cpu()
    most = max(part.tokens.ids.shape[1] for part in parts)
    ids_BK = torch.cat([F.pad(p.tokens.ids, (0, most - p.tokens.ids.shape[1])) for p in parts])
    sampled = Tokens(ids_BK, torch.cat([part.tokens.lengths for part in parts]))
    calls_B = torch.cat([part.calls for part in parts])
    tokenizer = policy.tokenizer
    true = tokenizer.encode(wanted_BTA)
    budgets = []
    for budget in policy.budgets:
        chunk_BTA, kept_B, num_calls = full_BTA, sampled.lengths, calls_B.double().mean()
        if budget < tokenizer.max_tokens:
            chunk_BTA = tokenizer.decode(sampled, budget=budget).cpu()
            kept_B = kept_B.clamp(max=budget)
            num_calls = torch.tensor(policy.schedule.calls_for(budget))
        floor_BTA = tokenizer.decode(true, budget=budget).cpu()
        budgets.append(
            _errors(chunk_BTA, wanted_BTA, is_pad_BT, floor_BTA, budget, kept_B, float(num_calls))
        )
    return PolicyMeasurement(
        path=path,
        kind=tokenizer.kind,
        data=str(dataset.path),
        split=split,
        num_chunks=len(observations),
        num_parameters=sum(p.numel() for p in policy.net.parameters()),
        loss=loss,
        slots=tuple(slots),
        budgets=tuple(budgets),
        auto=_measure_auto(policy, observations, wanted_BTA, is_pad_BT, true, generator),
        invalid=num_invalid / len(observations),
        variance=_variance_ratio(full_BTA, wanted_BTA),
    )


def observations_to_measure(
    policy: Policy, dataset: Dataset, most: int
) -> tuple[Observations, Tensor, NDArray[np.bool_]]:
    """Evenly spread observations, their raw chunks (B, T, A) and padding (B, T)."""
    spec = policy.spec
    chunks = dataset.chunks(
        policy.tokenizer.horizon, history=spec.history, cameras=tuple(spec.cameras)
    )
    indices = np.linspace(0, len(chunks) - 1, min(len(chunks), most)).astype(int)
    parts = []
    for some in np.split(indices, range(READ, len(indices), READ)):
        observations = policy.read(chunks.batch(some))
        parts.append(policy.net.shrink_images(observations))
    actions_BTA, is_pad_BT = chunks.actions(indices)
    return Observations.cat(parts), torch.from_numpy(actions_BTA), is_pad_BT


@torch.inference_mode()
def measure_flow(policy: Policy, observations: Observations, actions_BTA: Tensor) -> float:
    """The flow part of the training loss, at the same times and noise whenever it is asked."""
    most, total = policy.rows_at_once, 0.0
    blocks = zip(observations.split(most), torch.split(actions_BTA, most), strict=True)
    for number, (block, actions) in enumerate(blocks):
        keys = sample_keys(0, number, torch.arange(len(block))).to(policy.device)
        found = policy.flow_loss(
            block.to(policy.device), actions.to(policy.device), SampleRandom(keys)
        )
        total += len(block) * float(found)
    return total / len(observations)


@torch.inference_mode()
def measure_slots(
    policy: Policy, observations: Observations, actions_BTA: Tensor
) -> tuple[float, list[PolicySlot]]:
    """The training loss, and every slot that some sequence reaches; true tokens are fed."""
    net, tokenizer = policy.net, policy.tokenizer
    encoded = tokenizer.encode(actions_BTA)
    tokens, schedule = fit_to_schedule(encoded, policy.schedule, net.end_id)
    wanted_BK, counts_BK = targets(tokens, schedule.num_tokens, net.end_id)
    losses: list[float] = []
    rows: list[Tensor] = []
    done = 0
    for block in observations.split(policy.rows_at_once):
        part = slice(done, done + len(block))
        done += len(block)
        own = Tokens(tokens.ids[part].to(policy.device), tokens.lengths[part].to(policy.device))
        logits = policy.logits(block.to(policy.device), own.ids, schedule)
        losses.append(len(block) * float(blockwise_loss(logits, own, schedule, net.end_id)))
        wanted = wanted_BK[part].to(policy.device)
        surprise = F.cross_entropy(logits.transpose(1, 2), wanted, reduction="none") / math.log(2)
        is_right = (logits.argmax(dim=-1) == wanted).float()
        rows.append(torch.stack([is_right, entropy_bits(logits), surprise]).cpu())
    numbers_3BK = torch.cat(rows, dim=1) * counts_BK
    reached_K = counts_BK.sum(dim=0)
    means_3K = numbers_3BK.sum(dim=1) / reached_K.clamp(min=1)
    slots = [
        PolicySlot(int(reached) / len(observations), *means.tolist())
        for reached, means in zip(reached_K, means_3K.T, strict=True)
        if reached > 0
    ]
    return sum(losses) / len(observations), slots


def _measure_auto(
    policy: Policy,
    observations: Observations,
    wanted_BTA: Tensor,
    is_pad_BT: NDArray[np.bool_],
    true: Tokens,
    generator: torch.Generator,
) -> PolicyBudget | None:
    if policy.auto is None or policy.head == "flow":
        return None
    blocks = observations.split(policy.rows_at_once)
    parts = [policy.generate_once(block, generator, policy.auto) for block in blocks]
    chunk_BTA = torch.cat([part.chunk for part in parts]).cpu()
    kept_B = torch.cat([part.tokens.lengths for part in parts])
    calls = float(torch.cat([part.calls for part in parts]).double().mean())
    floor_BTA = policy.tokenizer.decode(true).cpu()
    return _errors(chunk_BTA, wanted_BTA, is_pad_BT, floor_BTA, "auto", kept_B, calls)


def _errors(
    chunk_BTA: Tensor,
    wanted_BTA: Tensor,
    is_pad_BT: NDArray[np.bool_],
    floor_BTA: Tensor,
    budget: Budget,
    kept_B: Tensor,
    calls: float,
) -> PolicyBudget:
    error_BTA = (chunk_BTA - wanted_BTA).double()
    is_valid_B = torch.isfinite(error_BTA).all(dim=(1, 2))
    valid_BTA = error_BTA[is_valid_B]
    is_real_BT = ~torch.from_numpy(is_pad_BT)[is_valid_B]
    has_any = len(valid_BTA) > 0
    return PolicyBudget(
        budget=budget,
        tokens=float(kept_B.double().mean()),
        calls=calls,
        mse=float(valid_BTA.square().mean()) if has_any else None,
        mse_without_padding=float(valid_BTA[is_real_BT].square().mean()) if has_any else None,
        tokenizer_mse=float((floor_BTA - wanted_BTA).double().square().mean()),
        mae=tuple(valid_BTA.abs().mean(dim=(0, 1)).tolist()) if has_any else (),
    )


def _variance_ratio(chunk_BTA: Tensor, wanted_BTA: Tensor) -> tuple[float | None, ...]:
    """Of each dimension over the chunks that decode; empty where none does, None where the true
    dimension is constant."""
    is_valid_B = torch.isfinite(chunk_BTA).all(dim=(1, 2))
    if not is_valid_B.any():
        return ()
    found, wanted = (
        x_BTA[is_valid_B].double().flatten(0, 1).var(dim=0, correction=0)
        for x_BTA in (chunk_BTA, wanted_BTA)
    )
    pairs = zip(found.tolist(), wanted.tolist(), strict=True)
    return tuple(mine / true if true > CONSTANT else None for mine, true in pairs)
