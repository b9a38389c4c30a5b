"""A small decoder in double precision, and schedules of all shapes, to compare ways to run it."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor

from oatkit.nn.decoder_backend import Frozen, Generation
from oatkit.nn.token_decoder import TokenDecoder
from oatkit.policies.generation.packing import pack
from oatkit.policies.generation.token_generation import generate_stages
from oatkit.types import Schedule

VOCAB, MASK, WIDTH, CONTEXT = 11, 11, 16, 3

schedules = st.lists(st.integers(1, 4), min_size=1, max_size=5).map(
    lambda sizes: Schedule(tuple(sum(sorted(sizes)[: i + 1]) for i in range(len(sizes))))
)


def model(num_positions: int, seed: int) -> TokenDecoder:
    """Weights large enough that everything a slot sees shows in its logits."""
    torch.manual_seed(seed)
    decoder = TokenDecoder(
        VOCAB + 1, VOCAB, num_positions, width=WIDTH, num_layers=2, num_heads=2
    ).double()
    for parameter in decoder.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return decoder.eval()


class Recorder:
    """A generation that keeps the logits it gives."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self.logits: list[Tensor] = []

    def feed(
        self, inputs_BG: Tensor, positions_G: Tensor, mask_GS: Tensor | None, num_kept: int
    ) -> Tensor:
        self.logits.append(self._generation.feed(inputs_BG, positions_G, mask_GS, num_kept))
        return self.logits[-1]


def assert_cached_is_packed(
    frozen: Frozen,
    decoder: TokenDecoder,
    context: list[tuple[Tensor, Tensor]],
    schedule: Schedule,
    budget: int,
    seed: int,
    **tolerance: float,
) -> None:
    """Cached generation, up to a budget: teacher-forced by what it samples itself."""
    batch_size = len(context[0][0])
    recorder = Recorder(frozen.start(context, batch_size, schedule.num_tokens))
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(batch_size, schedule.num_tokens, generator=generator)
    needed = pack(schedule).stages[: schedule.calls_for(budget)]
    stages = list(generate_stages(recorder, needed, uniform, mask_id=MASK))
    assert len(stages) == schedule.calls_for(budget) == len(recorder.logits)
    generated = torch.cat([stage.ids for stage in stages], dim=1)
    packing = pack(schedule.up_to(budget))
    again = decoder(packing.inputs(generated, MASK), packing.positions, packing.mask, context)
    torch.testing.assert_close(torch.cat(recorder.logits, dim=1), again, **tolerance)
