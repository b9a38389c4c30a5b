"""What worker processes get to read a policy's batches: little, and enough."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import oatkit
from oatkit.data import Dataset
from oatkit.jobs.policy_training import PolicyJob
from oatkit.jobs.tokenizer_training import TokenizerJob
from oatkit.policies import VlmConfig, policy_for_dataset
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.tokenizers import ActionTokenizer
from oatkit.train import prefetch
from tests.policies import tiny

PLAN = [np.array([3, 0]), np.array([5, 5, 1])]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data")
    return oatkit.open_dataset(tiny.write_dataset(folder / "npz"), cache_dir=folder / "cache")


@pytest.fixture(scope="module")
def tokenizer(dataset: Dataset) -> ActionTokenizer:
    return tiny.make_tokenizer("oat", dataset)


def make_job(dataset: Dataset, tokenizer: ActionTokenizer, width: int = 16) -> PolicyJob:
    config = replace(tiny.CONFIG, width=width)
    policy = policy_for_dataset(config, tokenizer, dataset, cameras=("front",))
    return PolicyJob(policy, dataset, dataset.split(0.1, seed=0)[1])


def make_vlm_job(
    name: str, width: int, dataset: Dataset, tokenizer: ActionTokenizer, folder: Path
) -> PolicyJob:
    pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")
    from oatkit.policies.vlm.backbones.loading import write_scratch

    size = ScratchSize(width=width, num_layers=1, vision_width=16, vision_layers=1)
    backbone = str(write_scratch(name, folder / f"{name}-{width}", size, tiny.TASKS))
    policy = policy_for_dataset(
        VlmConfig("vlm-ar"), tokenizer, dataset, backbone=backbone, cameras=("front",)
    )
    return PolicyJob(policy, dataset, dataset.split(0.1, seed=0)[1])


def test_its_size_does_not_depend_on_the_network(
    dataset: Dataset, tokenizer: ActionTokenizer
) -> None:
    small, large = (make_job(dataset, tokenizer, width) for width in (16, 64))
    sizes = [len(pickle.dumps(job.batch)) for job in (small, large)]
    assert sizes[0] == sizes[1] < 10_000
    assert len(pickle.dumps(large.module)) > 50 * sizes[1]
    codec = TokenizerJob(tokenizer, dataset, dataset.split(0.1, seed=0)[1])
    assert len(pickle.dumps(codec.batch)) < 10_000 < len(pickle.dumps(codec.module))


@pytest.mark.parametrize("name", FAMILIES)
def test_nor_on_the_backbone(
    name: str, dataset: Dataset, tokenizer: ActionTokenizer, tmp_path: Path
) -> None:
    """Every worker would get 12 GB of a backbone of 3 billion weights otherwise."""
    jobs = [make_vlm_job(name, width, dataset, tokenizer, tmp_path) for width in (16, 64)]
    sizes = [len(pickle.dumps(job.batch)) for job in jobs]
    assert abs(sizes[0] - sizes[1]) < 100, "the config of the backbone names its sizes"
    copied = pickle.loads(pickle.dumps(jobs[0].batch))
    for found, wanted in zip(copied(PLAN[0]), jobs[0].batch(PLAN[0]), strict=True):
        assert torch.equal(found, wanted)


def test_processes_that_are_not_forked_read_the_same(
    dataset: Dataset, tokenizer: ActionTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes are not forked on macOS, nor anywhere from Python 3.14 on."""
    spawn: Any = partial(DataLoader, multiprocessing_context="spawn")
    monkeypatch.setattr(prefetch, "DataLoader", spawn)
    held_out = dataset.split(0.1, seed=0)[1]
    for job in (make_job(dataset, tokenizer), TokenizerJob(tokenizer, dataset, held_out)):
        found = list(prefetch.read_ahead(job.batch, PLAN, 1))
        assert len(found) == len(PLAN)
        for batch, indices in zip(found, PLAN, strict=True):
            for tensor, wanted in zip(batch, job.batch(indices), strict=True):
                assert torch.equal(tensor, wanted)
