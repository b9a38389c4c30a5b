"""Generation stage by stage, against plans that a fake network follows."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from oatkit.data import Dataset
from oatkit.policies.generation.packing import pack
from oatkit.policies.generation.token_generation import (
    ChunkDecoder,
    GeneratedChunks,
    cut_at_end,
    entropy_bits,
    generate_stages,
)
from oatkit.types import Sampling, Schedule, Tokens
from tests.policies import tiny
from tests.policies.generation.small_decoder import VOCAB


class Planned:
    """A generation that gives the ids of a plan, and keeps what it was fed."""

    def __init__(self, plan: Tensor) -> None:
        self._logits = torch.nn.functional.one_hot(plan, VOCAB + 1) * 100.0
        self.fed: list[list[list[int]]] = []

    def feed(
        self, inputs_BG: Tensor, positions_G: Tensor, mask_GS: Tensor | None, num_kept: int
    ) -> Tensor:
        start = sum(len(rows[0]) for rows in self.fed)
        self.fed.append(inputs_BG.tolist())
        return self._logits[:, start : start + inputs_BG.shape[1]]


def test_a_stage_is_fed_the_block_before_it_then_masks() -> None:
    plan = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8]])
    planned, mask = Planned(plan), VOCAB
    stages = generate_stages(planned, pack(Schedule.pow2(8)).stages, torch.rand(1, 8), mask_id=mask)
    ids = torch.cat([stage.ids for stage in stages], dim=1)
    assert ids.tolist() == plan.tolist()
    assert planned.fed == [[[mask]], [[1]], [[2, mask]], [[3, 4, mask, mask]]]


def test_generation_ends_when_every_row_has() -> None:
    planned = Planned(torch.tensor([[1, VOCAB, 2, 2], [3, 4, VOCAB, 2]]))
    stages = list(
        generate_stages(
            planned,
            pack(Schedule.tokenwise(4)).stages,
            torch.rand(2, 4),
            mask_id=VOCAB + 1,
            end_id=VOCAB,
        )
    )
    assert len(stages) == 3
    ids = torch.cat([stage.ids for stage in stages], dim=1)
    tokens = cut_at_end(ids, VOCAB, budget=4)
    assert tokens.lengths.tolist() == [1, 2]
    assert tokens.ids.tolist() == [[1, 0, 0], [3, 4, 0]]
    assert cut_at_end(ids, VOCAB, budget=1).lengths.tolist() == [1, 1]


def test_a_stage_is_computed_when_it_is_asked_for() -> None:
    planned = Planned(torch.zeros(1, 4, dtype=torch.int64))
    stages = generate_stages(
        planned,
        pack(Schedule.tokenwise(4)).stages,
        torch.rand(1, 4),
        mask_id=VOCAB,
        sampling=Sampling(temperature=0),
    )
    next(stages)
    assert len(planned.fed) == 1


def test_entropy_in_bits() -> None:
    assert entropy_bits(torch.zeros(1, 1, 8)).item() == pytest.approx(3)
    assert entropy_bits(torch.tensor([[[0.0, -math.inf]]]).clamp(-1e4)).item() == 0


def test_another_attempt_replaces_rows() -> None:
    def made(rows: int, slots: int, value: int, undecodable: dict[int, str]) -> GeneratedChunks:
        ids = torch.full((rows, slots), value)
        return GeneratedChunks(
            chunk=torch.full((rows, 2, 1), float(value)),
            tokens=Tokens.full(ids),
            entropy_bits=ids.float(),
            calls=torch.full((rows,), value),
            attempts=torch.ones(rows, dtype=torch.int64),
            undecodable=undecodable,
            stopped=torch.full((rows,), value),
        )

    first = made(3, 2, 1, {0: "short", 2: "long"})
    found = first.with_rows(torch.tensor([0, 2]), made(2, 4, 7, {1: "longer"}))
    assert found.tokens.ids.tolist() == [[7] * 4, [1, 1, 0, 0], [7] * 4]
    assert found.tokens.lengths.tolist() == [4, 2, 4]
    assert found.chunk[:, 0, 0].tolist() == [7, 1, 7]
    assert found.attempts.tolist() == [2, 1, 2]
    assert found.stopped.tolist() == [7, 1, 7]
    assert found.undecodable == {2: "longer"}, "by the row of the whole batch"


def shifted(context: Any, chunk_BTA: Tensor, lengths_B: Tensor) -> Tensor:
    return chunk_BTA + context + lengths_B[:, None, None]


def test_chunks_are_corrected_before_they_become_actions(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("klt", dataset)
    tokens = Tokens(torch.zeros(2, 6, dtype=torch.int64), torch.tensor([1, 4]))
    plain, reasons = ChunkDecoder(tokenizer).decode(tokens)
    assert reasons == {}
    torch.testing.assert_close(plain, tokenizer.decode(tokens))
    found, _ = ChunkDecoder(tokenizer, shifted, 0.5).decode(tokens)
    scale = torch.tensor(tokenizer.normalizer.scale, dtype=torch.float32)
    wanted = plain + scale * torch.tensor([1.5, 4.5])[:, None, None]
    torch.testing.assert_close(found, wanted)


def test_rows_that_do_not_decode_say_why_and_leave_the_others(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("fast", dataset)
    batch = dataset.chunks(tiny.HORIZON).batch([0, 1])
    tokens = tokenizer.encode(torch.from_numpy(batch["action"]))
    cut = Tokens(tokens.ids, tokens.lengths - torch.tensor([0, 1]))
    found, reasons = ChunkDecoder(tokenizer, shifted, 0.0).decode(cut)
    assert list(reasons) == [1]
    assert "coefficients" in reasons[1]
    assert found[1].isnan().all()
    assert found[0].isfinite().all()
    all_bad = Tokens(tokens.ids, tokens.lengths - 1)
    nothing, reasons = ChunkDecoder(tokenizer, shifted, 0.0).decode(all_bad)
    assert list(reasons) == [0, 1]
    assert nothing.shape == (2, tiny.HORIZON, tiny.ACTION_DIM)
    assert nothing.isnan().all()
