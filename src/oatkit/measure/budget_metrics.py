"""The metrics that every tokenizer is measured by at every budget; `METRICS` lists them."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from oatkit.measure.decoded_budget import DecodedBudget
from oatkit.measure.gaussian import gaussian_distortion


def tokens(found: DecodedBudget) -> float:
    """Mean number of tokens."""
    return float(found.tokens.lengths.double().mean())


def bits(found: DecodedBudget) -> float:
    """Mean number of bits, if every id takes log2(vocabulary)."""
    return tokens(found) * math.log2(found.vocab_size)


def entropy_bits(found: DecodedBudget) -> float:
    """Sum of the entropies of the kept slots."""
    return sum(found.entropy_bits[: found.budget])


def mse(found: DecodedBudget) -> float:
    """Mean squared error in raw units, padding included."""
    return float(np.square(found.error).mean())


def mse_without_padding(found: DecodedBudget) -> float:
    """Mean squared error in raw units of the steps within episodes."""
    return float(np.square(found.error[~found.is_pad]).mean())


def mse_normalized(found: DecodedBudget) -> float:
    """Mean squared error in the tokenizer's normalized units."""
    return float(np.square(found.error / found.scale).mean())


def gaussian_mse(found: DecodedBudget) -> float:
    """Mean squared error that an ideal code of a Gaussian source leaves at the same bits."""
    return gaussian_distortion(found.eigenvalues, bits(found))


def overlap(found: DecodedBudget) -> float:
    """Share of the tokens that the chunk one step later has in the same place; NaN where no chunk
    is followed by that of the next step."""
    wanted_BTA, ids_BK = found.wanted, found.tokens.ids
    is_next_P = (wanted_BTA[:-1, 1:] == wanted_BTA[1:, :-1]).flatten(1).all(dim=1)
    slot_K = torch.arange(ids_BK.shape[1])
    is_token_BK = slot_K < found.tokens.lengths[:, None]
    is_token_PK = is_token_BK[:-1][is_next_P]
    is_same_PK = (ids_BK[:-1] == ids_BK[1:])[is_next_P] & is_token_BK[1:][is_next_P]
    return float((is_same_PK & is_token_PK).sum() / is_token_PK.sum())


def jerk_ratio(found: DecodedBudget) -> float:
    """Mean squared third difference of decoded over true chunks."""
    decoded, wanted = (_squared_jerk(x, found) for x in (found.decoded, found.wanted))
    return decoded / max(wanted, 1e-30)


def _squared_jerk(actions_BTA: Tensor, found: DecodedBudget) -> float:
    """Mean squared third difference over time, all dimensions on one scale."""
    if actions_BTA.shape[1] < 4:
        return 0.0
    scaled_BTA = actions_BTA.double() / torch.from_numpy(found.scale)
    return float(scaled_BTA.diff(n=3, dim=1).square().mean())
