"""The checks of a vision-language policy: a sound one passes them, a broken one does not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="vision-language policies need oatkit[vlm]")

import oatkit
from oatkit.data import Dataset
from oatkit.measure.invariants import check_insulation, check_tokens
from oatkit.policies import Policy
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.loading import write_scratch
from oatkit.types import Invariant, Schedule
from tests.policies import tiny
from tests.policies.vlm import tiny_vlm


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data")
    return oatkit.open_dataset(tiny.write_dataset(folder / "npz"), cache_dir=folder / "cache")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backbone")
    return write_scratch("paligemma2", folder / "b", ScratchSize(), tiny.TASKS)


def sample(policy: Policy, dataset: Dataset) -> tuple[Any, Any, Any]:
    batch = tiny_vlm.batch(policy, dataset, 2)
    actions = torch.from_numpy(batch["action"])
    return policy.read(batch), policy.tokenizer.encode(actions), actions


def broken(found: Sequence[Invariant]) -> list[str]:
    return [invariant.name for invariant in found if not invariant.holds]


def test_the_token_head(
    checkpoint: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny_vlm.make_policy("vlm-ar", checkpoint, "oat-pow2", dataset)
    observations, tokens, _ = sample(policy, dataset)
    checked = (policy, observations, tokens.ids, Schedule.pow2(8))
    found = check_tokens(*checked)
    assert len(found) == 5
    assert broken(found) == []
    real = policy.net.logits

    def leaking(ids_BK: Any, *rest: Any) -> Any:
        logits_BKV = real(ids_BK, *rest)
        return logits_BKV + 10 * ids_BK[..., None]

    monkeypatch.setattr(policy.net, "logits", leaking)
    assert "no slot sees its own block in 4 calls" in broken(check_tokens(*checked))
    assert "each stage alone is the packed pass in 4 calls" in broken(check_tokens(*checked))


def test_the_flow_expert(
    checkpoint: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tiny_vlm.make_policy("vlm-tc", checkpoint, "oat-pow2", dataset)
    observations, tokens, actions = sample(policy, dataset)
    assert broken(check_insulation(policy, observations, tokens, actions)) == []
    real = policy.flow_loss

    def leaking(*args: Any) -> Any:
        logits = policy.net.logits(tokens.ids, policy.schedule, policy.net.encode(observations))
        return real(*args) + logits.square().mean()

    monkeypatch.setattr(policy, "flow_loss", leaking)
    assert broken(check_insulation(policy, observations, tokens, actions)) == [
        "the flow loss gives the VLM no gradient"
    ]
