"""One codec for several robots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oatkit_client import LocalDecoder

import oatkit
from oatkit.data.mixture import Mixture, open_mixture
from oatkit.jobs.mixture_training import MixtureBatches, train_mixture_tokenizer
from oatkit.jobs.model_export import export_model
from oatkit.jobs.policy_training import train_policy
from oatkit.measure.tokenizer_metrics import measure_tokenizer
from oatkit.tokenizers import ActionTokenizer

HORIZON = 8
KINDS = ("oat", "oat-pow2", "quest", "acodec", "klt", "fast", "bin")


def robot(dim: int, scale: float, fps: float, length: int = 40) -> oatkit.Dataset:
    rng = np.random.default_rng(dim)
    walk = np.cumsum(rng.normal(size=(10, length, dim)), axis=1) * scale
    given = {"action": walk, "observation.state": walk + scale}
    return oatkit.open_dataset(given, fps=fps)


@pytest.fixture(scope="module")
def mixture() -> Mixture:
    """A small robot at 10 Hz, and a larger one at 20 Hz whose actions are relative."""
    large = robot(5, 100.0, 20).represented_as("relative:0-3")
    return open_mixture({"small": robot(2, 0.01, 10), "large": large}, weights=[0.7, 0.3])


def trained(
    mixture: Mixture, kind: str = "klt", out: Path | None = None, **how: object
) -> dict[str, ActionTokenizer]:
    settings = {
        "horizon": HORIZON,
        "preset": "tiny",
        "train": {"steps": 3, "batch_size": 16},
        **how,
    }
    return train_mixture_tokenizer(mixture, kind, out, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_serves_all_robots_by_one_vocabulary(
    kind: str, mixture: Mixture, tmp_path: Path
) -> None:
    found = trained(mixture, kind, tmp_path / "mixed")
    places = [
        [tensor.data_ptr() for tensor in tokenizer.codec.state_dict().values()]
        for tokenizer in found.values()
    ]
    assert places[0] == places[1], "all robots share the weights"
    for name, dim in (("small", 2), ("large", 5)):
        tokenizer = oatkit.load_tokenizer(tmp_path / "mixed" / name)
        assert (tokenizer.horizon, tokenizer.action_dim) == (HORIZON, dim)
        assert tokenizer.vocab_size == found["small"].vocab_size
        assert tokenizer.extras["mixture"]["shares"] == {"small": 0.7, "large": 0.3}
        chunks = mixture[name].chunks(HORIZON)
        actions, state = chunks.actions([0, 5])[0], chunks.start_states([0, 5])
        tokens = tokenizer.encode(actions, state)
        decoded = tokenizer.decode(tokens)
        assert decoded.shape == (2, HORIZON, dim)
        np.testing.assert_array_equal(decoded, found[name].decode(tokens))
    assert oatkit.load_tokenizer(tmp_path / "mixed/small").digest == found["small"].digest


def test_padding_counts_in_no_loss_and_no_measure(mixture: Mixture) -> None:
    found = trained(mixture, "oat")
    batches = MixtureBatches(mixture, found)
    actions, weight, member = batches(np.arange(0, 2**32, 2**27))
    is_small = (weight == 0).any(dim=1)
    assert is_small.float().mean() == pytest.approx(0.7, abs=0.05)
    assert torch.equal(member == 0, is_small)
    assert weight.mean(dim=1).tolist() == pytest.approx([1.0] * len(weight))
    assert (actions[is_small][..., 2:] == 0).all()
    codec = found["small"].codec
    assert codec.config.embodiment == "small"
    rebuilt = codec.decode(codec.encode(actions[is_small]))
    error = (rebuilt - actions[is_small])[..., :2].square().mean()
    whole = torch.nn.functional.mse_loss(rebuilt, actions[is_small], reduction="none")
    torch.testing.assert_close((whole * weight[is_small][:, None]).mean(), error)
    measured = measure_tokenizer(found["small"], mixture["small"])
    assert measured.action_dim == 2


def test_a_stopped_training_goes_on_as_if_it_never_stopped(
    mixture: Mixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = {"steps": 4, "batch_size": 8, "checkpoint_every": 2}
    whole = trained(mixture, "oat-pow2", train=recipe)
    locate, calls = Mixture.locate, []

    def stop_at_the_last(self: Mixture, *places: Any) -> Any:
        calls.append(places)
        if len(calls) == 4:
            raise RuntimeError("the power fails")
        return locate(self, *places)

    with monkeypatch.context() as patch:
        patch.setattr(Mixture, "locate", stop_at_the_last)
        with pytest.raises(RuntimeError, match="the power fails"):
            trained(mixture, "oat-pow2", tmp_path / "m", train=recipe)
    again = trained(mixture, "oat-pow2", tmp_path / "m", train=recipe)
    for one, other in zip(
        whole["small"].codec.state_dict().values(),
        again["small"].codec.state_dict().values(),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_overlap_is_not_for_mixtures(mixture: Mixture) -> None:
    with pytest.raises(ValueError, match="overlap_weight is for one robot"):
        trained(mixture, "oat", overlap_weight=0.1)


def test_a_common_duration_stretches_chunks(mixture: Mixture, tmp_path: Path) -> None:
    found = trained(mixture, "klt", tmp_path / "m", duration=0.8)
    assert {name: t.horizon for name, t in found.items()} == {"small": 8, "large": 16}
    large = oatkit.load_tokenizer(tmp_path / "m/large")
    chunks = mixture["large"].chunks(16)
    actions, state = chunks.actions([3])[0], chunks.start_states([3])
    assert large.decode(large.encode(actions, state)).shape == (1, 16, 5)
    with pytest.raises(ValueError, match=r"a chunk of 0\.1 s has 1 steps of 'small' at 10 fps"):
        trained(mixture, duration=0.1)
    unknown = open_mixture({"one": robot(2, 1.0, 10), "two": np.random.rand(4, 9, 2)})
    with pytest.raises(ValueError, match="--duration needs the frames a second of 'two'"):
        trained(unknown, duration=1.0)


def test_a_new_robot_needs_its_normalizer_only(mixture: Mixture) -> None:
    tokenizer = trained(mixture)["large"]
    before = {name: value.clone() for name, value in tokenizer.codec.state_dict().items()}
    new = tokenizer.adapt(robot(3, 7.0, 30))
    assert new.codec is tokenizer.codec, "klt is not told the robot"
    assert all(torch.equal(before[name], value) for name, value in new.codec.state_dict().items())
    assert (new.action_dim, new.normalizer.transform) == (3, None)
    errors = [row["mse"] for row in new.extras["rate_distortion"]]
    assert errors[-1] < errors[0]
    with pytest.raises(ValueError, match="has 6 action dimensions, the tokenizer has room for 5"):
        tokenizer.adapt(robot(6, 1.0, 30))


@pytest.mark.parametrize("kind", ["oat", "oat-pow2", "quest", "acodec"])
def test_learned_kinds_are_told_the_robot(kind: str, mixture: Mixture, tmp_path: Path) -> None:
    found = trained(mixture, kind, tmp_path / "told")
    rows = dict(found["small"].codec.embodiments.named_parameters())  # type: ignore[attr-defined]
    for name, rows_nd in rows.items():
        assert (rows_nd.abs().sum(dim=1) > 0).all(), f"{name} rows of both robots have learned"
    actions = mixture["small"].chunks(HORIZON).actions([0, 5])[0]
    tokens = found["small"].encode(actions)
    own = found["small"].decode(tokens)
    new = found["large"].adapt(mixture["small"])
    assert new.codec.config.embodiment is None
    assert not np.array_equal(new.decode(tokens), own), "a new robot has the mean of the rows"
    new.save_pretrained(tmp_path / "new")
    again = oatkit.load_tokenizer(tmp_path / "new")
    np.testing.assert_array_equal(again.decode(tokens), new.decode(tokens))
    assert oatkit.load_tokenizer(tmp_path / "told/small").codec.config.embodiment == "small"
    untold = trained(mixture, kind, embodiment_id=False)
    assert untold["small"].codec.config.embodiments == ()


def test_refined_and_fitted_kinds_are_not_told_the_robot(mixture: Mixture) -> None:
    assert trained(mixture, "oat", refine=2)["small"].codec.config.embodiments == ()
    assert not hasattr(trained(mixture, "klt")["small"].codec.config, "embodiments")


def test_a_policy_acts_on_the_tokens_of_its_robot(mixture: Mixture) -> None:
    tokenizer = trained(mixture)["large"]
    policy = train_policy(
        mixture["large"], tokenizer, "light", preset="tiny", train={"steps": 2, "batch_size": 8}
    )
    batch = mixture["large"].chunks(HORIZON, history=policy.spec.history).batch([0])
    assert policy.predict_action_chunk(batch).chunk.shape == (1, HORIZON, 5)


@pytest.mark.parametrize("kind", ["oat", "quest", "acodec", "bin"])
def test_a_robot_out_of_a_mixture_is_exported(kind: str, mixture: Mixture, tmp_path: Path) -> None:
    found = trained(mixture, kind, duration=0.8)
    chunks = mixture["large"].chunks(16)
    actions, state = chunks.actions([3])[0], chunks.start_states([3])
    tokens = found["large"].encode(actions, state)
    export_model(found["large"], tmp_path / "large")
    decoder = LocalDecoder(tmp_path / "large")
    decoded = decoder.decode(tokens.ids.tolist(), state=state)
    np.testing.assert_allclose(decoded, found["large"].decode(tokens), rtol=1e-3, atol=1e-2)
    assert export_model(found["small"], tmp_path / "small").difference < 1e-3
