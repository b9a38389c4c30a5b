"""Our tokenizers in LeRobot's pi0_fast: its pipeline, its decoding by hand, its training step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import oatkit
from oatkit.data import Dataset
from tests.lerobot_policy_oat.text import write_text_tokenizer
from tests.policies import tiny
from tests.policies.tiny import ACTION_DIM, HORIZON, STATE_DIM

pytest.importorskip("lerobot", reason="LeRobot lives in an environment of its own")
pytest.importorskip("transformers", reason="pi0_fast needs transformers")

CAMERA = "observation.images.front"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return oatkit.open_dataset(tiny.write_dataset(tmp_path_factory.mktemp("data") / "npz"))


def artifact(kind: str, dataset: Dataset, folder: Path) -> str:
    import lerobot_policy_oat  # noqa: F401  # LeRobot's commands import it by its name

    return str(tiny.make_tokenizer(kind, dataset).save_pretrained(folder / kind))


def make_config(made: Any, dataset: Dataset, folder: Path, kind: str, **settings: Any) -> Any:
    from lerobot.configs.types import FeatureType, PolicyFeature

    return made(
        input_features={
            CAMERA: PolicyFeature(FeatureType.VISUAL, (3, 224, 224)),
            "observation.state": PolicyFeature(FeatureType.STATE, (STATE_DIM,)),
        },
        output_features={"action": PolicyFeature(FeatureType.ACTION, (ACTION_DIM,))},
        action_tokenizer_name=artifact(kind, dataset, folder),
        text_tokenizer_name=str(write_text_tokenizer(folder / "text")),
        chunk_size=HORIZON,
        n_action_steps=HORIZON,
        **{"max_action_tokens": 128, "tokenizer_max_length": 48, "device": "cpu", **settings},
    )


def batch(dataset: Dataset) -> dict[str, Any]:
    """As LeRobot's loader gives it."""
    rows = dataset.chunks(HORIZON, history=1).batch(np.array([0, 30, 61]))
    return {
        CAMERA: torch.rand(3, 3, 224, 224),
        "observation.state": torch.from_numpy(rows["observation.state"][:, 0]).float(),
        "action": torch.from_numpy(rows["action"]).float(),
        "task": list(rows["task"]),
    }


def stats(dataset: Dataset) -> dict[str, Any]:
    by_key = {
        "action": dataset.action_statistics(),
        "observation.state": dataset.state_statistics(),
    }
    return {
        key: {name: torch.tensor(values) for name, values in found.to_json().items()}
        for key, found in by_key.items()
    }


def test_pi0_fast_encodes_with_our_fast_and_decodes_by_hand(
    dataset: Dataset, tmp_path: Path
) -> None:
    """All of LeRobot's own: pipeline, tokenizer step, detokenization. It normalizes, once."""
    from lerobot.configs.types import NormalizationMode
    from lerobot.policies.factory import make_pre_post_processors
    from lerobot.policies.pi0_fast.configuration_pi0_fast import PI0FastConfig
    from lerobot.policies.pi0_fast.modeling_pi0_fast import PI0FastPolicy
    from lerobot.utils.constants import ACTION_TOKEN_MASK, ACTION_TOKENS
    from transformers import AutoProcessor, AutoTokenizer

    mapping = {
        "VISUAL": NormalizationMode.IDENTITY,
        "STATE": NormalizationMode.QUANTILES,
        "ACTION": NormalizationMode.QUANTILES,
    }
    config = make_config(PI0FastConfig, dataset, tmp_path, "fast", normalization_mapping=mapping)
    before, after = make_pre_post_processors(config, dataset_stats=stats(dataset))
    given = batch(dataset)
    found = before(dict(given))
    ours = oatkit.load_tokenizer(config.action_tokenizer_name)
    lengths = [len(ids) for ids in ours(given["action"])]
    assert found[ACTION_TOKEN_MASK].sum(dim=1).tolist() == [3 + n + 2 for n in lengths]

    # its network takes gigabytes; what decodes is in the policy
    policy = PI0FastPolicy.__new__(PI0FastPolicy)
    torch.nn.Module.__init__(policy)
    policy.config = config
    policy.action_tokenizer = AutoProcessor.from_pretrained(
        config.action_tokenizer_name, trust_remote_code=True
    )
    policy._paligemma_tokenizer = AutoTokenizer.from_pretrained(config.text_tokenizer_name)
    chunk = policy.detokenize_actions(found[ACTION_TOKENS][:, 1:], HORIZON, ACTION_DIM)
    raw = torch.stack([after(chunk[:, t]) for t in range(HORIZON)], dim=1)
    expected = ours.decode(ours.encode(given["action"]))
    span = torch.from_numpy(ours.data.statistics.max - ours.data.statistics.min).float()
    assert ((raw - expected).abs() < 1e-4 * span).all()
    assert ((raw - given["action"]).abs() < 0.2 * span).all()


def test_pi0_fast_oat_trains_on_a_small_paligemma(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LeRobot's pipeline with our step, LeRobot's loss, our decoding."""
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors
    from lerobot.utils.constants import ACTION_TOKENS
    from lerobot_policy_oat.configuration_pi0_fast_oat import PI0FastOATConfig

    from tests.lerobot.small_pi0_fast import make_small

    make_small(monkeypatch)
    config = make_config(PI0FastOATConfig, dataset, tmp_path, "klt", max_action_tokens=11)
    torch.manual_seed(0)
    policy = get_policy_class("pi0_fast_oat")(config)
    assert set(policy._fsdp_wrap_modules) <= {type(module).__name__ for module in policy.modules()}
    before, after = make_pre_post_processors(config, dataset_stats=stats(dataset))
    given = batch(dataset)
    found = before(dict(given))
    optimizer = torch.optim.AdamW(policy.get_optim_params(), lr=5e-3)
    for _ in range(400):
        loss, _ = policy.forward(found)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss < 0.05:
            break
    assert loss < 0.05

    # three examples learned by heart come back as their own tokens
    chunk = policy.predict_action_chunk(found)
    tokenizer = policy.action_tokenizer
    expected = tokenizer.decode(tokenizer.encode(given["action"]))
    torch.testing.assert_close(after(chunk), expected)
    assert (found[ACTION_TOKENS][:, 0] == 1).all()

    # the pipeline of a checkpoint needs neither the dataset nor the tokenizer's old place to act
    before.save_pretrained(tmp_path / "checkpoint")
    after.save_pretrained(tmp_path / "checkpoint")
    (tmp_path / "klt").rename(tmp_path / "elsewhere")
    again, _ = make_pre_post_processors(config, pretrained_path=str(tmp_path / "checkpoint"))
    seen = {key: value for key, value in given.items() if key != "action"}
    key = "observation.language.tokens"
    assert torch.equal(again(dict(seen))[key], found[key])
