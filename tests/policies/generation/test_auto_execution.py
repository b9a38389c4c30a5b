"""How many steps of a chunk are worth executing, found on held-out observations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import oatkit
from oatkit.data import Dataset
from oatkit.policies.generation.auto_execution import (
    NUM_BINS,
    AutoExecution,
    calibrate_execution,
    mean_entropy,
    step_bounds,
)
from oatkit.policies.generation.token_generation import GeneratedChunks
from oatkit.types import Tokens
from tests.policies import tiny
from tests.policies.tiny import seeded


@given(
    st.integers(1, 150),
    st.integers(1, 40),
    st.integers(0, 3),
    st.integers(0, 1000),
)
def test_tables_are_whole_and_never_run_past_the_chunk(
    num_rows: int, horizon: int, digits: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    entropy_B = rng.random(num_rows).round(digits)  # few digits: many are equal
    table = AutoExecution.fit(entropy_B, rng.random((num_rows, horizon)))
    error_CT = np.asarray(table.error)
    assert error_CT.shape == (len(table.entropy_bits) + 1, horizon)
    assert len(error_CT) <= NUM_BINS
    assert np.isfinite(error_CT).all()
    assert (np.diff(error_CT, axis=1) >= 0).all()
    asked = torch.tensor([-1.0, *entropy_B, 99.0])
    steps_B = table.steps(asked)
    assert steps_B.dtype == torch.int64
    least, most = step_bounds(horizon)
    assert 1 <= least <= most <= horizon
    assert (steps_B >= least).all()
    assert (steps_B <= most).all()
    assert AutoExecution.from_json(json.loads(json.dumps(table.to_json()))) == table
    largest = error_CT[:, :least].mean()
    for steps, row_T in zip(table.bin_steps, error_CT, strict=True):
        assert steps in (most, least) or row_T[steps] > largest
        assert steps <= least or row_T[steps - 1] <= largest


def test_unsure_chunks_are_executed_for_fewer_steps() -> None:
    entropy_B = np.repeat([0.0, 1.0, 2.0, 3.0], 20)
    slope_B = np.repeat([0.0, 0.0, 0.02, 0.1], 20)
    table = AutoExecution.fit(entropy_B, 0.1 + slope_B[:, None] * np.arange(32))
    assert table.entropy_bits == (0.0, 1.0, 2.0)
    steps = table.steps(torch.tensor([0.0, 0.5, 1.5, 2.5, 7.0])).tolist()
    assert steps[:2] == [4, 4]
    assert steps[3] == steps[4] == 2


@pytest.mark.parametrize(
    ("horizon", "bounds"), [(1, (1, 1)), (3, (2, 3)), (8, (2, 4)), (100, (6, 12))]
)
def test_short_chunks_are_executed_for_a_few_steps(horizon: int, bounds: tuple[int, int]) -> None:
    assert step_bounds(horizon) == bounds


def test_only_tokens_that_are_decoded_count() -> None:
    entropy_BK = torch.tensor([[1.0, 3.0, 9.0], [2.0, 9.0, 9.0], [9.0, 9.0, 9.0]])
    tokens = Tokens(torch.zeros(3, 3, dtype=torch.int64), torch.tensor([2, 1, 0]))
    ones_B = torch.ones(3, dtype=torch.int64)
    generated = GeneratedChunks(
        torch.zeros(3, 4, 2), tokens, entropy_BK, ones_B, ones_B, {}, ones_B
    )
    assert mean_entropy(generated).tolist() == [2.0, 2.0, 0.0]


@pytest.mark.parametrize("kind", ["klt", "bin", "fast"])
def test_a_policy_says_how_many_steps(kind: str, dataset: Dataset, tmp_path: Path) -> None:
    policy = tiny.make_policy(kind, dataset)
    observation = tiny.batch(policy, dataset, 40)
    actions_BTA = torch.from_numpy(observation["action"])
    if kind == "fast":  # its random sequences never decode: there is nothing to learn from
        policy.calibrate(policy.read(observation), actions_BTA, seeded())
        assert policy.execution is None
        return
    assert policy.predict_action_chunk(observation).execute_steps is None
    before = policy.digest
    policy.calibrate(policy.read(observation), actions_BTA, seeded())
    assert policy.execution is not None
    assert policy.digest != before
    found = policy.predict_action_chunk(observation, generator=seeded())
    mean_B = torch.from_numpy(found.entropy_bits.mean(axis=1))
    assert found.execute_steps.tolist() == policy.execution.steps(mean_B).tolist()
    policy.save_pretrained(tmp_path)
    back = oatkit.load_policy(tmp_path)
    assert (back.execution, back.digest) == (policy.execution, policy.digest)
    frame = {key: values[0, -1] for key, values in observation.items() if "state" in key}
    one = back.predict_action_chunk(frame | {"task": tiny.TASKS[0]}, generator=seeded())
    assert 1 <= int(one.execute_steps) <= step_bounds(tiny.HORIZON)[1]


def test_the_error_is_in_normalized_units(dataset: Dataset) -> None:
    policy = tiny.make_policy("klt", dataset)
    observation = tiny.batch(policy, dataset, 12)
    read, scale_A = policy.read(observation), policy.tokenizer.normalizer.scale
    chunk_BTA = policy.generate_once(read, seeded()).chunk
    away_BTA = chunk_BTA + 0.5 * torch.from_numpy(scale_A).float()
    found = calibrate_execution(policy, read, away_BTA, seeded())
    assert found is not None
    np.testing.assert_allclose(found.error, 0.5, rtol=1e-4)
    policy.rows_at_once = 5  # type: ignore[misc]
    again = calibrate_execution(policy, read, away_BTA, seeded())
    assert again is not None
    np.testing.assert_allclose(again.error, 0.5, rtol=1e-4)


def test_an_artifact_from_before_opens_without_it(dataset: Dataset, tmp_path: Path) -> None:
    policy = tiny.make_policy("klt", dataset)
    policy.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    assert config.pop("execution", "missing") is None
    path.write_text(json.dumps(config))
    back = oatkit.load_policy(tmp_path)
    assert back.execution is None
    assert back.digest == policy.digest
    assert back.predict_action_chunk(tiny.batch(policy, dataset)).execute_steps is None
