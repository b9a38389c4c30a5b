"""Rows of the paper among policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.jobs.paper_rows import is_paper_row
from oatkit.policies import LightConfig, Policy, policy_for_dataset
from oatkit.tokenizers import ActionTokenizer, make_config
from oatkit.tokenizers.codec import FittedCodec
from oatkit.types import Budget, Schedule
from tests.policies import tiny

SMALL = {"width": 16, "num_layers": 1, "num_heads": 2}
OAT: dict[str, Any] = {"num_tokens": 8, "levels": (8, 5, 5, 5), **SMALL}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for index in range(3):
        actions, states = rng.uniform(-1, 1, (60, 4)), rng.normal(size=(60, 4))
        columns: dict[str, Any] = {"action": actions, "observation.state": states}
        np.savez(folder / f"{index}.npz", **columns, task="tidy up")
    return oatkit.open_dataset(folder, cache_dir=tmp_path_factory.mktemp("cache"))


def light(dataset: Dataset, kind: str, config: LightConfig = tiny.CONFIG, **options: Any) -> Policy:
    made = make_config(kind, horizon=32, action_dim=4, **options)
    tokenizer = ActionTokenizer.for_dataset(made, dataset)
    if isinstance(tokenizer.codec, FittedCodec):
        chunks = torch.rand(50, 32, 4, generator=torch.Generator().manual_seed(0))
        tokenizer.codec.fit(lambda: iter([chunks]))
    return policy_for_dataset(config, tokenizer, dataset)


@pytest.mark.parametrize(
    ("kind", "options", "budget", "expected"),
    [
        ("oat", OAT, None, True),
        ("oat", OAT, 8, True),
        ("oat", OAT, 1, True),
        ("oat", OAT, 3, False),
        ("oat", OAT, "auto", False),
        ("oat", {**OAT, "num_tokens": 4}, None, False),
        ("oat", {**OAT, "levels": (4, 4, 4)}, 8, False),
        ("oat", {**OAT, "nested_dropout": False}, None, False),
        ("oat-pow2", OAT, 8, False),  # the paper has it on vision-language backbones alone
        ("bin", {}, None, True),
        ("klt", {"num_tokens": 8, "levels": (8, 5, 5, 5)}, 8, False),
        ("fast", {"decoding": "strict"}, None, True),
        ("fast", {"decoding": "relaxed"}, None, False),
    ],
)
def test_rows_of_the_light_table(
    dataset: Dataset, kind: str, options: dict[str, Any], budget: Budget, expected: bool
) -> None:
    policy = light(dataset, kind, **options)
    assert is_paper_row(policy, "light-metaworld", budget) == expected
    assert not is_paper_row(policy, "vlm-libero", budget)
    assert not is_paper_row(policy, "light-real", budget)


def test_another_schedule_is_another_row(dataset: Dataset) -> None:
    policy = light(dataset, "oat", **OAT)
    assert is_paper_row(policy, "light-libero", 8, policy.schedule)
    assert not is_paper_row(policy, "light-libero", 8, Schedule.pow2(8))


def test_the_paper_corrects_no_chunks(dataset: Dataset) -> None:
    policy = light(dataset, "oat", replace(tiny.CONFIG, offset_layers=1), **OAT)
    assert not is_paper_row(policy, "light-libero", 8)
