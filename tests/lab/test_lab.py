"""What the page is told is what the public API gives."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oatkit.data import open_dataset
from oatkit.lab import Lab
from oatkit.lab.lab import shown_budgets
from oatkit.tokenizers import ActionTokenizer
from tests.lab import small

WITH_PREFIXES = ("klt", "oat-pow2")


def unpacked(text: str, *shape: int) -> NDArray[np.float32]:
    return np.frombuffer(b64decode(text), "<f4").reshape(shape)


def ids_of(lab: Lab, name: str, episode: int = 2, frame: int = 5) -> list[int]:
    chunk = lab.chunk(episode, frame)
    return list(chunk["encoded"][list(lab.tokenizers).index(name)]["ids"])


@pytest.mark.parametrize("name", small.SETTINGS)
def test_a_chunk_is_encoded_and_decoded_as_the_tokenizer_does(lab: Lab, name: str) -> None:
    chunk = lab.chunk(2, 5)
    truth_TA = lab.dataset[2].actions[5 : 5 + small.HORIZON]
    np.testing.assert_array_equal(unpacked(chunk["actions"], small.HORIZON, 3), truth_TA)
    assert chunk["num_padded"] == 0

    tokenizer = lab.tokenizers[name]
    encoded = chunk["encoded"][list(lab.tokenizers).index(name)]
    assert [encoded["ids"]] == tokenizer(truth_TA)
    decoded = encoded["decoded"]
    assert decoded["error"] is None
    count = len(encoded["ids"])
    assert decoded["budgets"] == (list(range(1, 9)) if name in WITH_PREFIXES else [count])
    found_BTA = unpacked(decoded["chunks"], -1, small.HORIZON, 3)
    for budget, found_TA in zip(decoded["budgets"], found_BTA, strict=True):
        (expected_TA,) = tokenizer.decode([encoded["ids"][:budget]])
        np.testing.assert_allclose(found_TA, expected_TA, rtol=1e-5, atol=1e-5)


def test_a_chunk_past_the_end_says_how_much_of_it_is_padding(lab: Lab) -> None:
    chunk = lab.chunk(1, small.LENGTH - 3)
    assert chunk["num_padded"] == small.HORIZON - 3
    last = lab.dataset[1].actions[-1]
    np.testing.assert_array_equal(unpacked(chunk["actions"], small.HORIZON, 3)[-1], last)


def test_a_token_of_bin_moves_its_own_number_only(lab: Lab) -> None:
    ids = ids_of(lab, "bin")
    found = lab.influence("bin", ids)
    influence_KA = unpacked(found["influence"], len(ids), 3)
    assert found["undecodable"] == 0
    is_own_KA = np.arange(len(ids))[:, None] % 3 == np.arange(3)
    assert (influence_KA[is_own_KA] > 0).all()
    assert (influence_KA[~is_own_KA] == 0).all()


def test_the_first_token_moves_most(lab: Lab) -> None:
    influence_KA = unpacked(lab.influence("klt", ids_of(lab, "klt"))["influence"], 8, 3)
    assert influence_KA[0].max() > 3 * influence_KA[-1].max()


def test_fast_says_why_tokens_do_not_decode(lab: Lab) -> None:
    ids = ids_of(lab, "fast")
    broken = lab.decode("fast", ids[:-1])
    assert "expected 24 coefficients" in broken["error"]
    assert broken["chunks"] == ""
    found = lab.influence("fast", ids)
    lost_KA = np.isnan(unpacked(found["influence"], len(ids), 3))
    assert 0 < found["undecodable"] <= 1
    assert (lost_KA.all(axis=1) == lost_KA.any(axis=1)).all()
    assert np.isnan(unpacked(lab.influence("fast", ids[:-1])["influence"], -1, 3)).all()


def test_held_out_episodes_are_those_of_the_split(lab: Lab) -> None:
    _, held_out = lab.dataset.split(0.25, seed=0)
    assert lab.held_out() == held_out.episode_ids.tolist() == lab.facts()["held_out"]
    assert len(lab.held_out()) == 3
    others = lab.dataset.subset(range(6))
    assert Lab(lab.tokenizers, others).held_out() == []


def test_facts_name_what_there_is(lab: Lab) -> None:
    facts = lab.facts()
    assert [d["name"] for d in facts["dimensions"]] == ["action_0", "action_1", "action_2"]
    (camera,) = facts["cameras"]
    assert (camera["height"], camera["width"]) == (48, 64)
    assert facts["episode_lengths"] == [small.LENGTH] * small.EPISODES
    pow2 = facts["tokenizers"][1]
    assert (pow2["kind"], pow2["endpoints"], pow2["has_prefixes"]) == (
        *("oat-pow2", (1, 2, 4, 8)),
        True,
    )
    assert pow2["curve"] == [{"tokens": 1, "bits": 4.3, "mse": 0.5}]


def test_an_image_is_the_frame_s(lab: Lab) -> None:
    import io

    from PIL import Image

    camera = lab.facts()["cameras"][0]["name"]
    shown = np.asarray(Image.open(io.BytesIO(lab.image(0, 7, camera))))
    assert shown.shape == (48, 64, 3)
    assert abs(shown.mean() - (20 + 3 * 7)) < 3
    with pytest.raises(ValueError, match="unknown camera 'top'"):
        lab.image(0, 7, "top")


def test_long_sequences_are_decoded_at_doubling_budgets() -> None:
    class Long:
        class codec:  # noqa: N801
            has_prefixes = True

    budgets = shown_budgets(Long(), 100)  # type: ignore[arg-type]
    assert budgets == [1, 2, 4, 8, 16, 32, 64, 100]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([99999] * 8, "id 99999 at slot 0 of sequence 0 is outside the vocabulary 0 .. 19"),
        ([-1] * 8, "id -1 at slot 0"),
        ([0] * 9, "a sequence has 9 tokens, klt has 8"),
        ([], "ids are not a list of whole numbers"),
        ([1.5], "ids are not a list of whole numbers"),
        ([True], "ids are not a list of whole numbers"),
        ("12", "ids are not a list of whole numbers"),
        (None, "ids are not a list of whole numbers"),
    ],
)
def test_bad_ids_are_refused(lab: Lab, ids: Any, message: str) -> None:
    for ask in (lab.decode, lab.influence):
        with pytest.raises(ValueError, match=message):
            ask("klt", ids)


def test_places_and_names_that_do_not_exist_are_refused(lab: Lab) -> None:
    with pytest.raises(ValueError, match="episode 12 does not exist: there are 12"):
        lab.chunk(12, 0)
    with pytest.raises(ValueError, match="frame 40 of episode 0 does not exist: it has 40"):
        lab.chunk(0, 40)
    with pytest.raises(
        ValueError, match="unknown tokenizer 'oat'; known, closest first: fast, oat-pow2"
    ):
        lab.decode("oat", [1])


def test_what_does_not_fit_together_is_refused(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "two.npz"
    np.savez(path, action=np.random.default_rng(0).normal(size=(60, 2)), episode_ends=[20, 40, 60])
    with pytest.raises(ValueError, match=r"klt is for 3 action dimensions, .*two.npz has 2"):
        Lab(lab.tokenizers, open_dataset(path))
    longer: dict[str, ActionTokenizer] = {
        "bin": lab.tokenizers["bin"],
        "long": small.make_tokenizer("bin", lab.dataset, horizon=16),
    }
    with pytest.raises(ValueError, match=r"chunks differ in length .bin 8, long 16."):
        Lab(longer, lab.dataset)
    with pytest.raises(ValueError, match="name at least one tokenizer"):
        Lab({}, lab.dataset)
