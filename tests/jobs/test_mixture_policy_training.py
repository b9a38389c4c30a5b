"""One policy for several robots: how it is trained, and what each robot gets of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import oatkit
from oatkit.data.mixture import Mixture, open_mixture
from oatkit.jobs.mixture_policy_training import (
    MemberBatches,
    MixturePolicyBatches,
    train_mixture_policy,
)
from oatkit.jobs.mixture_training import train_mixture_tokenizer
from oatkit.jobs.policy_training import train_policy
from oatkit.measure.policy_metrics import measure_policy
from oatkit.nn.sample_random import SampleRandom
from oatkit.policies import Policy
from oatkit.policies.observation.observations import Observations
from oatkit.types import Sampling, Tokens
from tests.jobs.mixed_robots import (
    HORIZON,
    RECIPE,
    robot,
    robot_on_disk,
    trained_policies,
    two_robots,
)

GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module")
def mixture() -> Mixture:
    return two_robots()


@pytest.fixture(scope="module")
def folder(mixture: Mixture, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tokenizers and a light policy of both robots."""
    path = tmp_path_factory.mktemp("robots")
    trained_policies(mixture, path)
    return path


def batch_of(policy: Policy, mixture: Mixture, name: str) -> dict[str, Any]:
    spec = policy.spec
    chunks = mixture[name].chunks(
        policy.tokenizer.horizon, history=spec.history, cameras=tuple(spec.cameras)
    )
    return chunks.batch(np.array([0, 3]))


@pytest.mark.parametrize("kind", ["light", "light-flow"])
def test_each_robot_gets_chunks_of_its_own_size(
    kind: str, mixture: Mixture, folder: Path, tmp_path: Path
) -> None:
    tokenizers = folder / "tokenizers" if kind == "light" else None
    found = train_mixture_policy(
        mixture,
        tokenizers,
        kind,
        tmp_path / "p",
        preset="tiny",
        horizon=HORIZON,
        train=RECIPE,
        device="cpu",
    )
    again = oatkit.load_policies(tmp_path / "p")
    assert list(again) == ["small", "large"]
    assert again["small"].net is again["large"].net
    for name, dim in (("small", 2), ("large", 5)):
        policy = found[name]
        batch = batch_of(policy, mixture, name)
        chunk = policy.predict_action_chunk(batch, sampling=GREEDY).chunk
        assert chunk.shape == (2, HORIZON, dim)
        alone = oatkit.load_policy(tmp_path / "p" / name)
        for other in (again[name], alone, oatkit.load_policy(tmp_path / "p", embodiment=name)):
            same = other.predict_action_chunk(batch, sampling=GREEDY).chunk
            np.testing.assert_array_equal(same, chunk)
            assert other.digest == policy.digest
        assert policy.extras["mixture"] == {
            "embodiment": name,
            "shares": {"small": 0.7, "large": 0.3},
        }
        assert alone.execution is not None, "each robot is calibrated on its own episodes"
        frame = {key: value[0, -1] for key, value in batch.items() if key.startswith("obs")}
        alone.reset()
        assert alone.predict_action_chunk(frame).chunk.shape == (HORIZON, dim)
        measured = measure_policy(alone, mixture[name], max_chunks=8)
        assert len(measured.budgets[-1].mae) == dim


def test_a_robot_of_another_rate_has_another_number_of_steps(
    mixture: Mixture, tmp_path: Path
) -> None:
    how: dict[str, Any] = {"preset": "tiny", "device": "cpu"}
    train_mixture_tokenizer(
        mixture, "bin", tmp_path / "t", horizon=HORIZON, duration=0.8, preset="tiny"
    )
    for kind in ("light", "light-flow"):
        found = train_mixture_policy(mixture, tmp_path / "t", kind, train=RECIPE, **how)
        for name, shape in (("small", (8, 2)), ("large", (16, 5))):
            batch = batch_of(found[name], mixture, name)
            assert found[name].predict_action_chunk(batch).chunk.shape == (2, *shape)


def test_padding_counts_in_no_loss(mixture: Mixture, folder: Path) -> None:
    policies = trained_policies_of(folder, "light-flow", mixture)
    members = [MemberBatches(policies[m.name], m.dataset) for m in mixture.members]
    batch = MixturePolicyBatches(mixture, members)(np.arange(0, 2**32, 2**28))
    ids, lengths, actions, is_pad, weight, *tensors = batch
    assert (weight == 0).any(dim=1).float().mean() == pytest.approx(0.7, abs=0.1)
    assert weight.mean(dim=1).tolist() == pytest.approx([1.0] * len(weight))
    is_small = (weight == 0).any(dim=1)
    assert (actions[is_small][..., 2:] == 0).all()
    observations = Observations.from_tensors(tensors)
    assert (observations.state[is_small][..., 3:] == 0).all()
    policy, random = policies["small"], SampleRandom(torch.arange(len(ids)))
    how = (observations, Tokens(ids, lengths))
    padded = [
        policy.normalized_loss(*how, given, random, is_pad, weight).total
        for given in (actions, actions + (weight == 0)[:, None] * 7.0)
    ]
    padded[0].backward()
    columns = policy.net.head.out.weight.grad.abs().sum(dim=1)
    assert (columns > 0).all(), "the larger robot trains all dimensions"
    policy.net.zero_grad()
    alone = Observations.from_tensors([t[is_small] for t in tensors])
    tokens = Tokens(ids[is_small], lengths[is_small])
    keys = SampleRandom(torch.arange(len(ids))[is_small])
    rows = (is_pad[is_small], weight[is_small])
    policy.normalized_loss(alone, tokens, actions[is_small], keys, *rows).total.backward()
    columns = policy.net.head.out.weight.grad.abs().sum(dim=1)
    assert (columns[:2] > 0).all()
    assert (columns[2:] == 0).all(), "the smaller one trains its own"


def trained_policies_of(folder: Path, kind: str, mixture: Mixture) -> dict[str, Policy]:
    how: dict[str, Any] = {"preset": "tiny", "train": RECIPE, "device": "cpu"}
    return train_mixture_policy(mixture, folder / "tokenizers", kind, **how)


def test_a_batch_of_both_robots_is_each_of_them_alone(mixture: Mixture, folder: Path) -> None:
    policies = oatkit.load_policies(folder / "policy")
    members = [MemberBatches(policies[m.name], m.dataset) for m in mixture.members]  # type: ignore[arg-type]
    places = np.arange(2**26, 2**32, 2**28)
    both = MixturePolicyBatches(mixture, members)(places)
    member, chunk = mixture.locate(places, [one.num_chunks for one in members])
    for row, (number, index) in enumerate(zip(member, chunk, strict=True)):
        tokens, observations, others = members[number](np.array([index]))
        own = [tokens.ids, tokens.lengths, *others, *observations.tensors()]
        for whole, alone in zip(both, own, strict=True):
            torch.testing.assert_close(whole[row], alone[0], rtol=0, atol=0)


def test_a_stopped_training_goes_on_as_if_it_never_stopped(
    mixture: Mixture, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = {"steps": 4, "batch_size": 8, "checkpoint_every": 2}
    how: dict[str, Any] = {"preset": "tiny", "train": recipe, "device": "cpu"}
    whole = train_mixture_policy(mixture, folder / "tokenizers", **how)
    read, calls = MixturePolicyBatches.__call__, []

    def stop_at_the_last(self: MixturePolicyBatches, places: Any) -> Any:
        calls.append(places)
        if len(calls) == 4:
            raise RuntimeError("the power fails")
        return read(self, places)

    with monkeypatch.context() as patch:
        patch.setattr(MixturePolicyBatches, "__call__", stop_at_the_last)
        with pytest.raises(RuntimeError, match="the power fails"):
            train_mixture_policy(mixture, folder / "tokenizers", "light", tmp_path / "p", **how)
    again = train_mixture_policy(mixture, folder / "tokenizers", "light", tmp_path / "p", **how)
    for one, other in zip(
        whole["small"].net.state_dict().values(),
        again["small"].net.state_dict().values(),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_robots_may_have_other_cameras_or_none(tmp_path: Path) -> None:
    mixture = open_mixture(
        {
            "seeing": robot_on_disk(tmp_path / "a", 2, "front", 40, ("open", "shut")),
            "other": robot_on_disk(tmp_path / "b", 3, "top", 48, ("open",)),
            "blind": robot_on_disk(tmp_path / "c", 4),
        }
    )
    found = trained_policies(mixture, tmp_path, "light", cameras=("front", "top"))
    assert len(found["blind"].net.cameras) == 1, "robots share the camera's encoder"
    assert found["other"].spec.cameras == {"top": (48, 48)}
    for name in mixture.names:
        batch = batch_of(found[name], mixture, name)
        read = found[name].read(batch)
        assert [tuple(image.shape[2:]) for image in read.images] == [(3, 40, 40)]
        assert bool(read.is_seen.all()) == (name != "blind")
        asked = found[name].spec.network.tasks[int(read.task[0])]
        assert (
            asked == {"seeing": "seeing: open", "other": "other: open", "blind": "blind: c"}[name]
        )
        assert np.isfinite(found[name].predict_action_chunk(batch).chunk).all()
    with pytest.raises(ValueError, match="unknown camera 'side'; known, closest first: front, top"):
        trained_policies(mixture, tmp_path / "x", cameras=("side",))


def test_one_robot_is_trained_further_alone(mixture: Mixture, folder: Path, tmp_path: Path) -> None:
    policy = train_policy(
        mixture["small"],
        init=oatkit.load_policy(folder / "policy", embodiment="small"),
        out=tmp_path / "small",
        preset="tiny",
        train=RECIPE,
        device="cpu",
    )
    assert oatkit.load_policy(tmp_path / "small").digest == policy.digest
    assert (tmp_path / "small" / "model.safetensors").exists()


def test_what_is_missing_is_named(mixture: Mixture, folder: Path, tmp_path: Path) -> None:
    how: dict[str, Any] = {"preset": "tiny", "train": RECIPE, "device": "cpu"}
    more = open_mixture({"small": mixture["small"], "third": robot(3, 1.0, 10, 3)})
    with pytest.raises(oatkit.ArtifactError, match="no tokenizer of 'third', only of large, small"):
        train_mixture_policy(more, folder / "tokenizers", **how)
    with pytest.raises(ValueError, match="name the folder of the mixture's tokenizers"):
        train_mixture_policy(mixture, None, **how)
    own = oatkit.train_tokenizer(mixture["small"], "bin", horizon=HORIZON)
    mixed = {"small": own, "large": folder / "tokenizers/large"}
    with pytest.raises(ValueError, match="'small' and 'large' have different codecs"):
        train_mixture_policy(mixture, mixed, **how)
    taken = open_mixture({"tokenizer": mixture["small"]})
    with pytest.raises(ValueError, match="a robot cannot be called 'tokenizer'"):
        train_mixture_policy(taken, folder / "tokenizers", **how)
    other = open_mixture({"small": robot(2, 5.0, 10, 3), "large": mixture["large"]})
    with pytest.raises(ValueError, match="the data of 'small' are not what its tokenizer"):
        train_mixture_policy(other, folder / "tokenizers", **how)
    for name, message in (
        (None, "is a policy for several robots, small, large: name one with embodiment="),
        ("smal", "unknown embodiment 'smal'; known, closest first: small, large"),
    ):
        with pytest.raises(ValueError, match=message):
            oatkit.load_policy(folder / "policy", embodiment=name)
    with pytest.raises(ValueError, match="is a policy for 'small', not for 'large'"):
        oatkit.load_policy(folder / "policy/small", embodiment="large")
    with pytest.raises(ValueError, match="is not a policy for several robots"):
        oatkit.load_policies(folder / "policy/small")


def test_several_robots_have_no_offset_head(
    mixture: Mixture, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their chunks have several shapes; the preset that has one is taken without it."""
    policies = train_mixture_policy(
        mixture,
        folder / "tokenizers",
        "light",
        preset="small",
        train={**RECIPE, "steps": 1},
        show_progress=True,
    )
    assert all(policy.net.config.offset_layers == 0 for policy in policies.values())
    assert "there is no offset head" in capsys.readouterr().out
