"""`quest`: latents in the order of time, which see nothing later."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from oatkit.tokenizers.quest import CausalConvolution, Quest, QuestConfig
from oatkit.types import Tokens
from tests.tokenizers.small_tokenizers import loss_of

SMALL = {"horizon": 8, "action_dim": 3, "width": 32, "num_layers": 1, "num_heads": 4}


def small(**settings: object) -> Quest:
    torch.manual_seed(0)
    return Quest(QuestConfig(**{**SMALL, "levels": (5, 4), **settings}))  # type: ignore[arg-type]


def test_a_convolution_sees_no_later_step() -> None:
    torch.manual_seed(0)
    layer = CausalConvolution(8, kernel=5, stride=2)
    x = torch.randn(1, 8, 12, requires_grad=True)
    before_norm = layer.convolution(F.pad(x, (layer.past, 0)))
    assert before_norm.shape == (1, 8, 6)
    for step in range(6):
        (gradient,) = torch.autograd.grad(before_norm[0, :, step].sum(), x, retain_graph=True)
        seen = gradient.abs().amax(dim=(0, 1)) > 0
        assert seen.nonzero().max() == 2 * step


def test_queries_read_earlier_queries_and_all_codes() -> None:
    codec = small()
    tokens = Tokens.full(torch.randint(0, codec.vocab_size, (2, 4)))
    before = codec.decode(tokens)
    changed = tokens.ids.clone()
    changed[:, 3] = (changed[:, 3] + 7) % codec.vocab_size
    moved = (codec.decode(Tokens.full(changed)) - before).abs().amax(dim=(0, 2)) > 1e-7
    assert moved.all()


@pytest.mark.parametrize("reconstruction", ["mse", "l1"])
def test_the_loss_is_the_error_of_the_reconstruction(reconstruction: str) -> None:
    codec = small(reconstruction=reconstruction)
    chunks = torch.rand(6, 8, 3) * 2 - 1
    distance = F.mse_loss if reconstruction == "mse" else F.l1_loss
    decoded = codec.decode(codec.encode(chunks))
    torch.testing.assert_close(loss_of(codec, chunks), distance(decoded, chunks))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"horizon": 7}, "quest halves the horizon: 7 is not even"),
        ({"width": 36}, "width 36 is not divisible by 4 heads and 8 groups"),
        ({"reconstruction": "l3"}, "reconstruction is 'l3', expected 'mse' or 'l1'"),
    ],
)
def test_wrong_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QuestConfig(**{**SMALL, **settings})  # type: ignore[arg-type]
