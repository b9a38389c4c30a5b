"""Actions in other representations, from training to the robot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oatkit_client import Client, LocalDecoder, LocalPolicy

import oatkit
from oatkit.data import Dataset
from oatkit.jobs.model_export import export_model
from oatkit.jobs.policy_training import train_policy
from oatkit.jobs.tokenizer_training import train_tokenizer
from oatkit.lab import Lab
from oatkit.measure.policy_metrics import measure_policy
from oatkit.measure.tokenizer_metrics import measure_tokenizer
from oatkit.policies import Policy
from oatkit.serve import ServeConfig, serving
from oatkit.tokenizers import ActionTokenizer
from oatkit.types.observation_keys import STATE

HORIZON = 8
REPRESENTATIONS = (
    "delta:0-6",
    "relative:0-6",
    "relative:0-6 quaternion-to-6d:3-6 binary:7",
    "delta:0-6 quaternion-to-axis-angle:3-6",
    "unwrap:2 relative:2 binary:7@0,1",
)


@pytest.fixture(scope="module")
def arrays() -> dict[str, Any]:
    """A hand that goes where it was told a moment ago: position, quaternion and gripper."""
    rng = np.random.default_rng(0)
    found: dict[str, Any] = {"action": [], "observation.state": []}
    for _ in range(10):
        place = np.cumsum(0.1 * rng.normal(size=(31, 3)), axis=0)
        place[:, 2] = (place[:, 2] + np.pi) % (2 * np.pi) - np.pi
        turn = np.cumsum(0.1 * rng.normal(size=(31, 4)), axis=0) + np.array([0, 0, 0, 3])
        turn /= np.linalg.norm(turn, axis=1, keepdims=True)
        pose = np.concatenate([place, turn, (place[:, :1] > 0)], axis=1).astype(np.float32)
        found["action"].append(pose[1:])
        found["observation.state"].append(pose[:-1])
    return found


def opened(arrays: dict[str, Any], words: str | None) -> Dataset:
    return oatkit.open_dataset(arrays, actions=words, fps=10)


def chunks_of(dataset: Dataset) -> tuple[Any, Any]:
    chunks = dataset.chunks(HORIZON)
    some = chunks.spread(20)
    return chunks.actions(some)[0], chunks.start_states(some)


def fitted(dataset: Dataset, out: Path | None = None, kind: str = "klt") -> ActionTokenizer:
    return train_tokenizer(
        dataset, kind, out, horizon=HORIZON, preset="tiny", train={"steps": 2, "batch_size": 8}
    )


@pytest.mark.parametrize("words", REPRESENTATIONS)
@pytest.mark.parametrize("kind", ["klt", "fast", "oat-pow2"])
def test_a_tokenizer_takes_raw_actions_and_gives_them_back(
    words: str, kind: str, arrays: dict[str, Any], tmp_path: Path
) -> None:
    dataset = opened(arrays, words)
    tokenizer = fitted(dataset, tmp_path / "made", kind)
    actions, state = chunks_of(dataset)
    tokens = tokenizer.encode(actions, state)
    decoded = tokenizer.decode(tokens)
    assert decoded.shape == actions.shape
    assert np.isfinite(decoded).all()
    if kind == "fast":  # fine enough to come back
        assert np.abs(decoded - actions).mean() < 0.1
    again = oatkit.load_tokenizer(tmp_path / "made")
    assert again.digest == tokenizer.digest
    np.testing.assert_array_equal(again.decode(tokens), decoded)
    np.testing.assert_array_equal(again.decode(again(actions, state), state=state), decoded)
    assert str(tokenizer.normalizer.transform) in (tmp_path / "made/README.md").read_text()
    measured = measure_tokenizer(again, dataset)
    assert measured.action_dim == 8


def test_the_same_rotation_comes_back_whatever_its_form(arrays: dict[str, Any]) -> None:
    dataset = opened(arrays, "relative:0-6 quaternion-to-6d:3-6")
    tokenizer = fitted(dataset, kind="fast")
    actions, state = chunks_of(dataset)
    decoded = tokenizer.decode(tokenizer.encode(actions, state))
    cosine = (decoded[..., 3:7] * actions[..., 3:7]).sum(axis=-1)
    assert cosine.min() > 0.98


def test_a_missing_state_is_an_error_both_ways(arrays: dict[str, Any]) -> None:
    dataset = opened(arrays, "relative:0-6")
    tokenizer = fitted(dataset)
    actions, state = chunks_of(dataset)
    with pytest.raises(ValueError, match=r"relative to the state at the start .* give state="):
        tokenizer.encode(actions)
    ids = tokenizer.encode(actions, state).ids
    with pytest.raises(ValueError, match=r"relative to the state at the start .* give state="):
        tokenizer.decode(ids)


def test_normalized_input_cannot_be_represented(arrays: dict[str, Any], tmp_path: Path) -> None:
    fitted(opened(arrays, "delta"), tmp_path / "made")
    with pytest.raises(ValueError, match="represented as delta:0-7 come in raw units"):
        oatkit.load_tokenizer(tmp_path / "made", normalized_input=True)


def trained(dataset: Dataset, kind: str, tokenizer: ActionTokenizer | None, **how: Any) -> Policy:
    return train_policy(
        dataset,
        tokenizer,
        kind,
        preset="tiny",
        horizon=HORIZON,
        train={"steps": 2, "batch_size": 8},
        **how,
    )


@pytest.mark.parametrize("words", ["relative:0-6 quaternion-to-6d:3-6", "delta:0-6"])
@pytest.mark.parametrize("kind", ["light", "light-flow"])
def test_a_policy_predicts_raw_actions(words: str, kind: str, arrays: dict[str, Any]) -> None:
    dataset = opened(arrays, words)
    policy = trained(dataset, kind, fitted(dataset) if kind == "light" else None)
    batch = dataset.chunks(HORIZON, history=policy.spec.history).batch([0, 50])
    found = policy.predict_action_chunk(batch, draws=2)
    assert found.chunk.shape == (2, HORIZON, 8)
    if "6d" in words:
        np.testing.assert_allclose(np.linalg.norm(found.chunk[..., 3:7], axis=-1), 1, atol=1e-5)
    if kind == "light":
        state = batch[STATE][:, -1]
        decoded = policy.tokenizer.decode(torch.from_numpy(found.ids), state=state)
        np.testing.assert_allclose(decoded, found.chunk, atol=1e-5)
    measured = measure_policy(policy, dataset, max_chunks=16)
    assert measured.budgets[-1].mse is not None


@pytest.mark.parametrize("words", [*REPRESENTATIONS, "quaternion-to-6d:3-6"])
@pytest.mark.parametrize("kind", ["klt", "oat-pow2"])
def test_a_policy_is_served_and_goes_on_from_committed_actions(
    words: str, kind: str, arrays: dict[str, Any]
) -> None:
    dataset = opened(arrays, words)
    policy = trained(dataset, "light", fitted(dataset, kind=kind), history=1)
    given = {"observation/state": arrays["observation.state"][0][3]}
    with serving(policy, ServeConfig(port=0, max_batch=1)) as url, Client(url) as client:
        first = client.infer(given, deadline_ms=10_000)["actions"]
        found = client.infer(given, deadline_ms=10_000, committed=first[:2])["actions"]
    assert found.shape == (HORIZON, 8)
    assert np.isfinite(found).all()


def test_a_prediction_moves_with_the_state_that_it_is_relative_to(arrays: dict[str, Any]) -> None:
    dataset = opened(arrays, "relative:0-2")
    policy = trained(dataset, "light", fitted(dataset))
    ids = torch.zeros(1, policy.tokenizer.max_tokens, dtype=torch.int64)
    here, there = (
        policy.tokenizer.decode(ids, state=torch.full((8,), value)).numpy() for value in (0.0, 2.0)
    )
    np.testing.assert_allclose((there - here)[..., :3], 2, atol=1e-5)
    np.testing.assert_allclose(there[..., 3:], here[..., 3:], atol=1e-5)


def test_a_policy_must_read_the_state_that_actions_are_relative_to(arrays: dict[str, Any]) -> None:
    dataset = opened(arrays, "relative:0-2")
    images = opened(arrays, None)
    with pytest.raises(ValueError, match="the dataset was opened with delta:0-7: open it alike"):
        trained(opened(arrays, "delta"), "light", fitted(dataset))
    policy = trained(images, "light", fitted(dataset))
    assert policy.tokenizer.needs_state
    other = oatkit.open_dataset(
        {
            "action": arrays["action"],
            "observation.state": [s[:, :5] for s in arrays["observation.state"]],
        }
    )
    with pytest.raises(ValueError, match="a state of 8 dimensions, and the policy reads 5"):
        trained(other, "light", fitted(dataset), allow_drift=True)


@pytest.mark.parametrize("words", ["delta", "unwrap:2 relative:2 binary:7", "relative:0-6"])
def test_an_exported_decoder_gives_the_same(
    words: str, arrays: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    dataset = opened(arrays, words)
    tokenizer = fitted(dataset)
    export_model(tokenizer, tmp_path / "onnx")
    decoder = LocalDecoder(tmp_path / "onnx")
    actions, state = chunks_of(dataset)
    tokens = tokenizer.encode(actions, state)
    found = decoder.decode(tokens.ids.numpy(), state=state)
    np.testing.assert_allclose(found, tokenizer.decode(tokens), atol=1e-4)
    assert decoder.state_dim == (8 if "relative" in words else 0)
    if decoder.state_dim:
        with pytest.raises(ValueError, match=r"relative to the state .* 8 numbers in raw units"):
            decoder.decode(tokens.ids.numpy())
        with pytest.raises(ValueError, match=r"the state is \(1, 7\), expected \(20, 8\)"):
            decoder.decode(tokens.ids.numpy(), state=np.zeros(7))


def test_an_exported_policy_reads_the_state_that_it_needs(
    arrays: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime")
    dataset = opened(arrays, "relative:0-6")
    policy = trained(dataset, "light", fitted(dataset), history=1)
    export_model(policy, tmp_path / "onnx")
    local = LocalPolicy(tmp_path / "onnx")
    state = arrays["observation.state"][0][3]
    reply = local.infer({"observation/state": state}, deadline_ms=1000)
    ids = np.array([reply["tokens"]])
    np.testing.assert_allclose(
        reply["actions"], policy.tokenizer.decode(ids, state=state)[0], atol=1e-4
    )


def test_what_cannot_be_exported_says_so(arrays: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    turned = opened(arrays, "quaternion-to-6d:3-6")
    with pytest.raises(ValueError, match="rotations are turned back where oatkit is"):
        export_model(fitted(turned), tmp_path / "onnx")
    flow = trained(opened(arrays, "delta"), "light-flow", None)
    with pytest.raises(
        ValueError, match="whose actions are delta:0-7 cannot be exported: serve it"
    ):
        export_model(flow, tmp_path / "onnx")


def test_the_lab_decodes_with_the_state_of_the_chunk_it_shows(arrays: dict[str, Any]) -> None:
    dataset = opened(arrays, "relative:0-6")
    tokenizer = fitted(dataset)
    lab = Lab({"klt": tokenizer}, dataset)
    shown = lab.chunk(2, 5)["encoded"][0]
    assert lab.decode("klt", shown["ids"]) == shown["decoded"]
    assert lab.influence("klt", shown["ids"])["undecodable"] == 0


def test_artifacts_without_a_representation_are_as_they_were(arrays: dict[str, Any]) -> None:
    tokenizer = fitted(opened(arrays, None))
    written = tokenizer.to_json()
    assert set(written["normalization"]) == {"mode", "offset", "scale"}
    assert "state_keys" not in written["data"]
