"""`fast` artifacts in LeRobot's pi0_fast, and the policy type `pi0_fast_oat`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.fft
import torch
from torch import Tensor

import oatkit
from oatkit.data import Dataset
from oatkit.errors import ArtifactError, DecodeError
from oatkit.tokenizers.fast import read_published
from tests.lerobot_policy_oat.conftest import HAS_LEROBOT
from tests.lerobot_policy_oat.text import NUM_IDS, write_text_tokenizer
from tests.policies import tiny
from tests.policies.tiny import ACTION_DIM, HORIZON

pytest.importorskip("transformers", reason="pi0_fast needs transformers")
CAMERA = "observation.images.front"
LEAD = [1, 4, 5]
"""`<bos> Action :`"""
FIRST_ACTION_ID = NUM_IDS - 1 - 128


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return oatkit.open_dataset(tiny.write_dataset(tmp_path_factory.mktemp("data") / "npz"))


@pytest.fixture(scope="module")
def folders(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Artifacts by kind, and the text tokenizer."""
    root = tmp_path_factory.mktemp("tokenizers")
    for kind in ("fast", "klt"):
        tiny.make_tokenizer(kind, dataset).save_pretrained(root / kind)
    write_text_tokenizer(root / "text")
    return {path.name: str(path) for path in root.iterdir()}


@pytest.fixture(scope="module")
def chunks(dataset: Dataset) -> np.ndarray:
    return dataset.chunks(HORIZON).actions(np.arange(0, 100, 20))[0]


# LeRobot's own pi0_fast


def load_as_pi0_fast_does(folder: str) -> Any:
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(folder, trust_remote_code=True)


def decode_as_pi0_fast_does(tok: Any, ids: list[int]) -> np.ndarray:
    """By hand, from three attributes."""
    text = tok.bpe_tokenizer.decode(torch.tensor(ids))
    coefficients = np.array([ord(character) for character in text]) + tok.min_token
    by_step = coefficients.reshape(HORIZON, ACTION_DIM)
    return scipy.fft.idct(by_step / tok.scale, axis=0, norm="ortho")


def test_pi0_fast_loads_a_fast_artifact_as_it_is(folders: dict[str, str], chunks: Any) -> None:
    ours = oatkit.load_tokenizer(folders["fast"])
    tok = load_as_pi0_fast_does(folders["fast"])
    normalized = ours.normalizer.normalize(chunks)
    rows = tok(torch.from_numpy(normalized).float())
    assert rows == ours(chunks)  # normalized once, not twice
    for ids, chunk in zip(rows, ours.decode(rows), strict=True):
        by_hand = decode_as_pi0_fast_does(tok, ids)
        np.testing.assert_allclose(ours.normalizer.unnormalize(by_hand), chunk, rtol=1e-4)
        np.testing.assert_allclose(tok.decode([ids])[0], by_hand, atol=1e-5)


def test_a_fast_processor_saves_itself(
    folders: dict[str, str], chunks: Any, tmp_path: Path
) -> None:
    tok = load_as_pi0_fast_does(folders["fast"])
    tok.save_pretrained(tmp_path)
    assert load_as_pi0_fast_does(str(tmp_path))(chunks) == tok(chunks)
    published = json.loads((tmp_path / "processor_config.json").read_text())
    assert published["scale"] == tok.scale
    assert published["min_token"] == tok.min_token
    codec = read_published(tmp_path, horizon=HORIZON, action_dim=ACTION_DIM)
    assert codec.vocab_size == tok.vocab_size


def test_a_fast_processor_refuses_what_it_cannot_do(folders: dict[str, str], chunks: Any) -> None:
    tok = load_as_pi0_fast_does(folders["fast"])
    with pytest.raises(ValueError, match=r"chunks of 50 x 3 were asked for, .* is for 8 x 3"):
        tok.decode(tok(chunks), time_horizon=50, action_dim=ACTION_DIM)
    with pytest.raises(DecodeError, match="expected 24 coefficients"):
        tok.decode([tok(chunks)[0][:2]])
    with pytest.raises(ArtifactError, match=r"not klt: use --policy\.type=pi0_fast_oat"):
        type(tok).from_pretrained(folders["klt"])


# pi0_fast_oat


def make_config(folders: dict[str, str], **settings: Any) -> Any:
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot_policy_oat.configuration_pi0_fast_oat import PI0FastOATConfig

    settings = {
        "action_tokenizer_name": folders["klt"],
        "text_tokenizer_name": folders["text"],
        "chunk_size": HORIZON,
        "n_action_steps": 4,
        "tokenizer_max_length": 12,
        "device": "cpu",
        **settings,
    }
    observed = {
        CAMERA: PolicyFeature(FeatureType.VISUAL, (3, 224, 224)),
        "observation.state": PolicyFeature(FeatureType.STATE, (5,)),
    }
    done = {"action": PolicyFeature(FeatureType.ACTION, (ACTION_DIM,))}
    return PI0FastOATConfig(input_features=observed, output_features=done, **settings)


@pytest.fixture
def small_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in has one; LeRobot's PaliGemma is made small."""
    if HAS_LEROBOT:
        from tests.lerobot.small_pi0_fast import make_small

        make_small(monkeypatch)


def make_policy(config: Any) -> Any:
    from lerobot_policy_oat.modeling_pi0_fast_oat import PI0FastOATPolicy

    torch.manual_seed(0)
    return PI0FastOATPolicy(config, dataset_stats=None, dataset_meta=None)


def observation(num_rows: int = 3) -> dict[str, Tensor]:
    rng = np.random.default_rng(0)
    mask = np.arange(12) < np.array([12, 7, 9])[:num_rows, None]
    ids = rng.integers(7, NUM_IDS, size=(num_rows, 12)) * mask
    return {
        CAMERA: torch.from_numpy(rng.random((num_rows, 3, 224, 224), np.float32)),
        "observation.language.tokens": torch.from_numpy(ids),
        "observation.language.attention_mask": torch.from_numpy(mask),
    }


def likeliest(policy: Any, batch: dict[str, Tensor], num_tokens: int) -> Tensor:
    """Greedy ids without a cache: every step reads the whole sequence as training does."""
    tokenizer, model = policy.action_tokenizer, policy.model
    images, image_masks = policy._preprocess_images(batch)
    prompt = batch["observation.language.tokens"]
    mask = batch["observation.language.attention_mask"]
    suffix = torch.tensor([LEAD] * len(prompt))
    for _ in range(num_tokens):
        inputs, is_real, allowed, _, _ = model.embed_prefix_fast(
            images, image_masks, prompt, mask, suffix, torch.ones_like(suffix, dtype=torch.bool)
        )
        (hidden, _), _ = model.paligemma_with_expert.forward(
            attention_mask=model._prepare_attention_masks_4d(allowed, dtype=torch.float32),
            position_ids=torch.cumsum(is_real, dim=1) - 1,
            past_key_values=None,
            inputs_embeds=[inputs, None],
            use_cache=False,
            adarms_cond=[None, None],
        )
        logits = model.paligemma_with_expert.paligemma.lm_head(hidden[:, -1])
        ids_of_actions = FIRST_ACTION_ID - torch.arange(tokenizer.vocab_size)
        best = logits[:, ids_of_actions].argmax(dim=-1)
        suffix = torch.cat([suffix, FIRST_ACTION_ID - best[:, None]], dim=1)
    return FIRST_ACTION_ID - suffix[:, len(LEAD) :]


@pytest.mark.usefixtures("small_network")
def test_a_fixed_number_of_action_ids_is_decoded(folders: dict[str, str]) -> None:
    policy = make_policy(make_config(folders))
    batch = observation()
    chunk = policy.predict_action_chunk(batch)
    ids = likeliest(policy, batch, policy.action_tokenizer.max_tokens)
    torch.testing.assert_close(chunk, policy.action_tokenizer.decode(ids))
    assert chunk.shape == (3, HORIZON, ACTION_DIM)


@pytest.mark.usefixtures("small_network")
def test_the_budget_is_how_many_tokens_are_generated(folders: dict[str, str]) -> None:
    policy = make_policy(make_config(folders, budget=2))
    batch = observation()
    ids = likeliest(policy, batch, 2)
    torch.testing.assert_close(
        policy.predict_action_chunk(batch), policy.action_tokenizer.decode(ids)
    )


@pytest.mark.usefixtures("small_network")
@pytest.mark.parametrize("temperature", [0.0, 50.0])
def test_whatever_the_network_prefers_it_is_a_chunk(
    folders: dict[str, str], temperature: float
) -> None:
    policy = make_policy(make_config(folders, temperature=temperature))
    with torch.no_grad():  # text and the end of the sequence are far likelier than actions
        policy.model.paligemma_with_expert.paligemma.lm_head.weight[:7] *= 1000
    chunk = policy.predict_action_chunk(observation())
    assert torch.isfinite(chunk).all()
    data = policy.action_tokenizer.data.statistics
    assert (chunk.double() < torch.from_numpy(data.max + (data.max - data.min))).all()


@pytest.mark.usefixtures("small_network")
def test_actions_are_executed_one_by_one(folders: dict[str, str]) -> None:
    policy = make_policy(make_config(folders))
    batch = observation()
    chunk = policy.predict_action_chunk(batch)
    chosen = torch.stack([policy.select_action(batch) for _ in range(4)], dim=1)
    torch.testing.assert_close(chosen, chunk[:, :4])


@pytest.mark.usefixtures("small_network")
def test_a_checkpoint_has_its_tokenizer(folders: dict[str, str], tmp_path: Path) -> None:
    from lerobot_policy_oat.modeling_pi0_fast_oat import PI0FastOATPolicy

    policy = make_policy(make_config(folders))
    policy.save_pretrained(tmp_path)
    again = PI0FastOATPolicy.from_pretrained(tmp_path)
    assert again.config.action_tokenizer_name == str(tmp_path / "action_tokenizer")
    batch = observation()
    chunk = policy.predict_action_chunk(batch)
    torch.testing.assert_close(again.predict_action_chunk(batch), chunk)

    other = make_policy(make_config(folders, weights_path=str(tmp_path)))
    assert other.config.weights_path is None
    torch.testing.assert_close(other.predict_action_chunk(batch), chunk)

    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"type": "pi0_fast"}))
    with pytest.raises(ValueError, match=r"of type pi0_fast, .*--policy\.weights_path="):
        PI0FastOATPolicy.from_pretrained(tmp_path)


def make_step(folders: dict[str, str], **settings: Any) -> Any:
    from lerobot_policy_oat.processor_pi0_fast_oat import OATActionTokenizerProcessorStep

    return OATActionTokenizerProcessorStep(
        action_tokenizer_name=folders["klt"],
        paligemma_tokenizer_name=folders["text"],
        **{"max_action_tokens": 16, **settings},
    )


@pytest.mark.parametrize("normalized_input", [False, True])
def test_the_step_writes_tokens_between_text(
    folders: dict[str, str], chunks: Any, normalized_input: bool
) -> None:
    ours = oatkit.load_tokenizer(folders["klt"])
    step = make_step(folders, normalized_input=normalized_input)
    given = ours.normalizer.normalize(chunks) if normalized_input else chunks
    tokens, mask = step._tokenize_action(torch.from_numpy(given))
    for row, is_real, ids in zip(tokens.tolist(), mask.tolist(), ours(chunks), strict=True):
        expected = [*LEAD, *(FIRST_ACTION_ID - i for i in ids), 6, 2]
        assert row == expected + [0] * (16 - len(expected))
        assert sum(is_real) == len(expected)


def test_the_step_comes_back_as_it_was(folders: dict[str, str], chunks: Any) -> None:
    step = make_step(folders, fast_skip_tokens=64)
    again = type(step)(**json.loads(json.dumps(step.get_config())))
    actions = torch.from_numpy(chunks)
    assert torch.equal(again._tokenize_action(actions)[0], step._tokenize_action(actions)[0])


def test_the_pipelines_have_our_step(folders: dict[str, str]) -> None:
    from lerobot_policy_oat.processor_pi0_fast_oat import make_pi0_fast_oat_pre_post_processors

    before, after = make_pi0_fast_oat_pre_post_processors(make_config(folders))
    names = [type(step).__name__ for step in before.steps]
    assert names.index("NormalizerProcessorStep") < names.index("OATActionTokenizerProcessorStep")
    assert before.steps[names.index("NormalizerProcessorStep")].norm_map["ACTION"] == "IDENTITY"
    assert type(after.steps[0]).__name__ == "UnnormalizerProcessorStep"


def test_tokens_that_do_not_fit_are_an_error_not_cut(folders: dict[str, str], chunks: Any) -> None:
    step = make_step(folders, max_action_tokens=10)
    with pytest.raises(ValueError, match=r"take 11 slots: give --policy\.max_action_tokens=11"):
        step._tokenize_action(torch.from_numpy(chunks))


def test_mistakes_are_answered_in_a_sentence(folders: dict[str, str], tmp_path: Path) -> None:
    from lerobot.configs.types import NormalizationMode

    def mapping(mode: str) -> dict[str, Any]:
        return {"STATE": NormalizationMode.QUANTILES, "ACTION": NormalizationMode(mode)}

    with pytest.raises(ValueError, match=r"its folder with --policy\.action_tokenizer_name"):
        make_config(folders, action_tokenizer_name="").open_tokenizer()
    with pytest.raises(ValueError, match=r"fast has none such: use LeRobot's --policy\.type=pi0_f"):
        make_config(folders, action_tokenizer_name=folders["fast"]).open_tokenizer()
    with pytest.raises(ValueError, match=r"chunk_size is 50, .* horizon is 8: .*chunk_size=8 and"):
        make_config(folders, chunk_size=50).open_tokenizer()
    twice = make_config(folders, normalization_mapping=mapping("MEAN_STD"))
    with pytest.raises(ValueError, match=r"normalized by mean_std, .* fitted on min_max: let"):
        twice.open_tokenizer()
    once = make_config(folders, normalization_mapping=mapping("MIN_MAX")).open_tokenizer()
    assert once.normalized_input
    assert not make_config(folders).open_tokenizer().normalized_input
    small = str(write_text_tokenizer(tmp_path, num_ids=140))
    with pytest.raises(ValueError, match="20 action ids do not fit into the 140 ids"):
        make_policy(make_config(folders, text_tokenizer_name=small))
    with pytest.raises(ValueError, match="a sequence has 7 tokens, klt has 6"):
        make_policy(make_config(folders, budget=7))
