"""Checks of what must hold for a vision-language policy whatever its weights.

Shape letters: B batch, K token slot, X input of a pass, G slot of a stage, V vocabulary, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from oatkit.nn.decoder_backend import Generation
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.policies import Policy
from oatkit.policies.generation.token_generation import generate_stages
from oatkit.policies.observation.observations import Observations
from oatkit.policies.vlm.backbones.backbone import Context
from oatkit.types import Invariant, Schedule, Tokens

TOLERANCES = {torch.float32: 2e-3, torch.float16: 5e-2, torch.bfloat16: 2e-1}
"""Largest difference, as a share of the largest logit, that rounding may make."""


@torch.inference_mode()
def check_tokens(
    policy: Policy, observations: Observations, ids_BK: Tensor, schedule: Schedule
) -> list[Invariant]:
    """What must hold for the token head under a schedule."""
    context = policy.net.encode(observations)
    before = [(keys.clone(), values.clone()) for keys, values in context.pairs]
    packed_BKV = policy.net.logits(ids_BK, schedule, context)
    cached_BKV, sampled_BK = _cached(policy, context, schedule)
    redone_BKV = policy.net.logits(sampled_BK, schedule, context)
    rows = [
        policy.net.logits(ids, schedule, policy.net.encode(block))
        for block, ids in zip(observations.split(1), torch.split(ids_BK, 1), strict=True)
    ]
    named = f"in {schedule.calls} calls"
    moved = max(
        float((new - old).abs().max())
        for pair, old_pair in zip(context.pairs, before, strict=True)
        for new, old in zip(pair, old_pair, strict=True)
    )
    alone_BKV = torch.cat(stages_alone(policy, context, ids_BK, schedule), dim=1)
    return [
        _close(policy, f"each stage alone is the packed pass {named}", alone_BKV, packed_BKV),
        _close(policy, f"cached generation is the packed pass {named}", cached_BKV, redone_BKV),
        _close(policy, f"a padded batch is its rows {named}", torch.cat(rows), packed_BKV),
        Invariant(f"the context does not notice the tokens {named}", moved == 0, moved),
        _check_own_block_unseen(policy, context, ids_BK, schedule, packed_BKV, named),
    ]


def check_insulation(
    policy: Policy, observations: Observations, tokens: Tokens, actions_BTA: Tensor
) -> list[Invariant]:
    """What must hold for a co-trained policy: each loss teaches its own part."""
    random = SampleRandom(sample_keys(0, 0, torch.arange(len(observations))).to(policy.device))
    flow = policy.flow_loss(observations, actions_BTA, random)
    vlm, expert = _gradients(policy, flow)
    context = policy.net.encode(observations)
    logits_BKV = policy.net.logits(tokens.ids, policy.schedule, context)
    vlm_2, expert_2 = _gradients(policy, logits_BKV.logsumexp(dim=-1).mean())
    change = _expert_change(policy, observations, tokens.ids)
    return [
        Invariant("the flow loss gives the VLM no gradient", vlm == 0, vlm),
        Invariant("the flow loss teaches the expert", expert > 0, expert),
        Invariant("the token loss gives the expert no gradient", expert_2 == 0, expert_2),
        Invariant("the token loss teaches the VLM", vlm_2 > 0, vlm_2),
        Invariant("the expert does not notice the tokens", change == 0, change),
    ]


@torch.inference_mode()
def _expert_change(policy: Policy, observations: Observations, ids_BK: Tensor) -> float:
    """How much the expert's chunk changes after tokens were predicted from the same context."""
    context = policy.net.encode(observations)
    shape = (len(ids_BK), policy.tokenizer.horizon, policy.tokenizer.normalizer.dim)
    noise_BTA = torch.zeros(shape, device=policy.device)
    before_BTA = policy.net.flow(context, noise_BTA)
    policy.net.logits(ids_BK, policy.schedule, context)
    return float((policy.net.flow(context, noise_BTA) - before_BTA).abs().max())


def stages_alone(
    policy: Policy, context: Context, ids_BK: Tensor, schedule: Schedule
) -> list[Tensor]:
    """Logits (B, G, V) of every stage of block-wise autoregression in a pass of its own.

    Written from the paper's X^(s): the tokens so far, then as many masks as the block has more
    tokens than the one before; tokens see blocks up to their own, masks also each other. There is
    no packing and no cache here, so that those can be compared with it.
    """
    head, found, before = policy.net.tokens, [], 0
    assert head is not None
    sizes = torch.tensor(schedule.block_sizes)
    block_of_K = torch.repeat_interleave(torch.arange(len(sizes)), sizes)
    for stage, size in enumerate(schedule.block_sizes):
        num_masks = size - (schedule.block_sizes[stage - 1] if stage else 0)
        masks = ids_BK.new_full((len(ids_BK), num_masks), head.mask_id)
        inputs_BX = torch.cat([ids_BK[:, :before], masks], dim=1)
        positions_X = torch.arange(inputs_BX.shape[1])
        is_mask_X = positions_X >= before
        block_X = torch.where(is_mask_X, stage, block_of_K[: len(positions_X)])
        sees_XX = block_X[None, :] <= block_X[:, None]
        sees_XX &= ~is_mask_X[None, :] | is_mask_X[:, None]
        hidden_BXD = policy.net.backbone.run(
            head.rows[inputs_BX],
            positions_X.to(ids_BK.device),
            sees_XX.to(ids_BK.device),
            context,
        )
        rows_VD = head.rows[: head.num_outputs]
        found.append(hidden_BXD[:, -size:].to(rows_VD.dtype) @ rows_VD.t())
        before += size
    return found


class _Recorder:
    """A generation that keeps the logits it gives."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self.logits: list[Tensor] = []

    def feed(
        self, inputs_BG: Tensor, positions_G: Tensor, mask_GS: Tensor | None, num_kept: int
    ) -> Tensor:
        self.logits.append(self._generation.feed(inputs_BG, positions_G, mask_GS, num_kept))
        return self.logits[-1]


def _cached(policy: Policy, context: Context, schedule: Schedule) -> tuple[Tensor, Tensor]:
    """Logits of cached generation and the ids that it sampled."""
    net, batch_size = policy.net, len(context.length)
    recorder = _Recorder(net.start(context, batch_size, schedule.num_tokens))
    uniform_BK = torch.rand(batch_size, schedule.num_tokens, device=policy.device)
    stages = net.pack(schedule, policy.device).stages
    generated = generate_stages(recorder, stages, uniform_BK, mask_id=net.mask_id)
    ids = [stage.ids for stage in generated]
    return torch.cat(recorder.logits, dim=1), torch.cat(ids, dim=1)


def _check_own_block_unseen(
    policy: Policy,
    context: Context,
    ids_BK: Tensor,
    schedule: Schedule,
    wanted_BKV: Tensor,
    named: str,
) -> Invariant:
    """Checks that other tokens in the last block change no logit of that block or before it."""
    start = schedule.num_tokens - schedule.block_sizes[-1]
    other_BK = ids_BK.clone()
    other_BK[:, start:] = (other_BK[:, start:] + 1) % policy.tokenizer.vocab_size
    found_BKV = policy.net.logits(other_BK, schedule, context)
    moved = float((found_BKV - wanted_BKV).abs().max())
    return Invariant(f"no slot sees its own block {named}", moved == 0, moved)


def _close(policy: Policy, name: str, found: Tensor, wanted: Tensor) -> Invariant:
    share = float((found - wanted).abs().max() / wanted.abs().max().clamp(min=1e-6))
    return Invariant(name, share <= TOLERANCES[policy.net.backbone.dtype], share)


def _gradients(policy: Policy, loss: Tensor) -> tuple[float, float]:
    """The largest gradient of the VLM, and that of the expert."""
    policy.net.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    largest = {False: 0.0, True: 0.0}
    for name, parameter in policy.net.named_parameters():
        if parameter.grad is not None:
            part = name.startswith("expert.")
            largest[part] = max(largest[part], float(parameter.grad.abs().max()))
    policy.net.zero_grad(set_to_none=True)
    return largest[False], largest[True]
