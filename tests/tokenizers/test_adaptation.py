"""A codec around which another robot's normalizer is put."""

from __future__ import annotations

import numpy as np

import oatkit
from oatkit.tokenizers import ActionTokenizer, make_codec, make_config
from oatkit.tokenizers.adaptation import embodied


def test_chunks_are_padded_and_stretched_for_the_codec() -> None:
    codec = make_codec(make_config("bin", horizon=9, action_dim=4, num_bins=256))
    line = np.linspace(0, 1, 30)[:, None] * [1.0, -10.0]
    dataset = oatkit.open_dataset(line)
    tokenizer = embodied(ActionTokenizer, codec, dataset, "min_max", horizon=5)
    assert tokenizer.coded_shape == (5, 2)
    chunks = dataset.chunks(5).actions([0, 10, 20])[0]
    tokens = tokenizer.encode(chunks)
    assert tokens.ids.shape == (3, 9 * 4)
    np.testing.assert_allclose(tokenizer.decode(tokens), chunks, atol=0.1)
