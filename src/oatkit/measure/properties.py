"""The paper's properties of a tokenizer as a policy's interface.

Measurements decide what can be measured; blocks, and orders that a kind does not have, are read off
its schedule and its prefixes.
"""

from __future__ import annotations

from itertools import pairwise

from oatkit.measure.encoded_chunks import EncodedChunks
from oatkit.tokenizers import ActionTokenizer
from oatkit.tokenizers.codec import doubling
from oatkit.tokenizers.fast import Fast
from oatkit.types import Properties, Property, TokenizerMeasurement

COMPACT_SHARE = 0.5
"""A compact tokenizer needs at most so many tokens for each number of a chunk."""
CRITERIA = {
    "compact": f"mean tokens at most {COMPACT_SHARE:.0%} of the horizon x action_dim numbers",
    "total": "every random sequence of ids decodes to a finite chunk",
    "ordered": "the held-out error falls from each trained budget to the next; FAST, which has no "
    "budgets, is asked at doubling lengths, missing coefficients padded",
    "block_compatible": "the kind's own schedule emits several tokens in one call, and the encoder "
    "makes no token of such a block from another of it",
}


def measure_properties(
    tokenizer: ActionTokenizer, encoded: EncodedChunks, measured: TokenizerMeasurement
) -> Properties:
    """What holds of a tokenizer by `CRITERIA`, with the numbers that decided it."""
    return Properties(
        compact=_compact(measured),
        total=_total(measured),
        ordered=_ordered(tokenizer, encoded, measured),
        block_compatible=_block_compatible(tokenizer),
    )


def _compact(measured: TokenizerMeasurement) -> Property:
    tokens, numbers = measured.budgets[-1].tokens, measured.horizon * measured.action_dim
    evidence = f"{tokens:.3g} tokens for {numbers} numbers ({tokens / numbers:.0%})"
    return Property(tokens <= COMPACT_SHARE * numbers, evidence)


def _total(measured: TokenizerMeasurement) -> Property:
    share = measured.robustness.random_finite
    return Property(share == 1, f"{100 * share:.4g}% of random sequences decode")


def _ordered(
    tokenizer: ActionTokenizer, encoded: EncodedChunks, measured: TokenizerMeasurement
) -> Property:
    if tokenizer.schedule.calls == 1 and tokenizer.max_tokens > 1:
        return Property(None, "all tokens come in one call: there is no order to have")
    if isinstance(tokenizer.codec, Fast):
        budgets, errors = _relaxed_errors(tokenizer, tokenizer.codec, encoded)
        return _falling(budgets, errors)
    if len(measured.budgets) == 1:
        return Property(False, f"no prefix decodes, only all {tokenizer.max_tokens} tokens do")
    trained = [b for b in measured.budgets if b.is_trained]
    return _falling([b.budget for b in trained], [b.mse for b in trained])


def _falling(budgets: list[int], errors: list[float]) -> Property:
    falls = sum(after < before for before, after in pairwise(errors))
    steps = len(errors) - 1
    path = ", ".join(map(str, budgets))
    return Property(falls == steps, f"the error falls at {falls} of {steps} steps ({path} tokens)")


def _relaxed_errors(
    tokenizer: ActionTokenizer, codec: Fast, encoded: EncodedChunks
) -> tuple[list[int], list[float]]:
    """Errors of FAST's prefixes, up to its longest sequence."""
    relaxed = ActionTokenizer(codec.with_decoding("relaxed"), tokenizer.normalizer, tokenizer.data)
    budgets = list(doubling(int(encoded.tokens.lengths.max())))
    decoded = (relaxed.decode(encoded.tokens, budget=budget) for budget in budgets)
    return budgets, [float((x_BTA - encoded.actions).square().mean()) for x_BTA in decoded]


def _block_compatible(tokenizer: ActionTokenizer) -> Property:
    sizes = tokenizer.schedule.block_sizes
    if max(sizes) == 1:
        return Property(False, "one token a call: each is made from those before it")
    blocks = f"{len(sizes)} x {sizes[0]}" if len(set(sizes)) == 1 else ", ".join(map(str, sizes))
    return Property(True, f"tokens a call: {blocks}; peers do not see each other")
