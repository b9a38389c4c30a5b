"""Progressive information allocation: what each token adds, and how hard training presses on it.

With epsilon(K) the error of the first K tokens and Delta_i = epsilon(i - 1) - epsilon(i):

    E_K[epsilon(K)] = epsilon(0) - sum over i of Pr(K >= i) * Delta_i

because epsilon(K) is epsilon(0) less the first K gains, and gain i is among them when K >= i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from oatkit.measure.encoded_chunks import EncodedChunks, decode_prefix
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Allocation, TokenizerMeasurement


def survival_weights(budgets: Sequence[int], num_tokens: int) -> NDArray[np.float64]:
    """Pr(K >= i) for tokens i = 1 .. num_tokens, K uniform over the budgets."""
    token_K = np.arange(1, num_tokens + 1)
    return (np.asarray(budgets) >= token_K[:, None]).mean(axis=1)


def expanded_error(errors: ArrayLike, survival: ArrayLike) -> float:
    """Right side of the identity, from epsilon(0) .. epsilon(K) and the weights of 1 .. K."""
    errors_K = np.asarray(errors, np.float64)
    return float(errors_K[0] - np.dot(survival, -np.diff(errors_K)))


def measure_allocation(
    tokenizer: ActionTokenizer, encoded: EncodedChunks, measured: TokenizerMeasurement
) -> Allocation:
    """Both sides of the identity on the chunks that were measured.

    Args:
        tokenizer: Tokenizer that decodes prefixes.
        encoded: The chunks that were measured.
        measured: Errors of the tokenizer at every budget from 0 on.
    """
    errors = tuple(b.mse_normalized for b in measured.budgets)
    weights = survival_weights(tokenizer.budgets, tokenizer.max_tokens)
    return Allocation(
        budgets=tokenizer.budgets,
        errors=errors,
        gains=tuple((-np.diff(errors)).tolist()),
        survival=tuple(weights.tolist()),
        expected_error=_expected_error(tokenizer, encoded),
        expanded_error=expanded_error(errors, weights),
    )


def _expected_error(tokenizer: ActionTokenizer, encoded: EncodedChunks) -> float:
    """Mean over chunks and K of the normalized error; rows of one batch differ in K."""
    count = len(tokenizer.budgets)
    kept_N = torch.tensor(tokenizer.budgets).repeat(len(encoded.tokens))
    prefixes = replace(
        encoded.tokens.rows(torch.arange(len(encoded.tokens)).repeat_interleave(count)),
        lengths=kept_N,
    )
    wanted_NTA = encoded.actions.repeat_interleave(count, dim=0)
    error_NTA = decode_prefix(tokenizer, prefixes) - wanted_NTA
    return float(np.square(error_NTA.double().numpy() / tokenizer.raw_normalizer.scale).mean())
