"""Small policies of the type `oat`, and what LeRobot gives them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from oatkit.data import Dataset
from tests.policies import tiny
from tests.policies.tiny import ACTION_DIM, HEIGHT, HORIZON, STATE_DIM, TASKS, WIDTH

CAMERA = "observation.images.front"


def stats(dataset: Dataset) -> dict[str, Any]:
    return {
        "action": dataset.action_statistics().to_json(),
        "observation.state": dataset.state_statistics().to_json(),
    }


def meta(dataset: Dataset, **changed: Any) -> Any:
    """What the plugin reads of LeRobot's description of a dataset."""
    features = {
        "action": {"shape": (ACTION_DIM,), "names": {"motors": ["x", "y", "z"]}},
        "observation.state": {"shape": (STATE_DIM,), "names": None},
    }
    facts = {"tasks": SimpleNamespace(index=TASKS), "features": features, "fps": dataset.fps}
    return SimpleNamespace(**{**facts, **changed})


def features(camera: str | None = None) -> dict[str, Any]:
    from lerobot.configs.types import FeatureType, PolicyFeature

    observed = {"observation.state": PolicyFeature(FeatureType.STATE, (STATE_DIM,))}
    if camera is not None:
        observed[camera] = PolicyFeature(FeatureType.VISUAL, (3, HEIGHT, WIDTH))
    done = {"action": PolicyFeature(FeatureType.ACTION, (ACTION_DIM,))}
    return {"input_features": observed, "output_features": done}


def make_config(tokenizer_path: str | None, camera: str | None = None, **settings: Any) -> Any:
    from lerobot_policy_oat.configuration_oat import OATConfig

    settings = {"net": tiny.CONFIG, "temperature": 0.0, "device": "cpu", **settings}
    return OATConfig(tokenizer_path=tokenizer_path, **features(camera), **settings)


def make_policy(dataset: Dataset, config: Any) -> Any:
    from lerobot_policy_oat.modeling_oat import OATPolicy

    torch.manual_seed(0)
    policy = OATPolicy(config, dataset_stats=stats(dataset), dataset_meta=meta(dataset))
    for parameter in policy.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return policy


def reopen(folder: Path, **given: Any) -> Any:
    from lerobot_policy_oat.modeling_oat import OATPolicy

    return OATPolicy.from_pretrained(folder, **given)


def batch(dataset: Dataset, size: int = 6) -> dict[str, Any]:
    """As LeRobot's loader gives it: tensors, images from 0 to 1 with their channels first."""
    chunks = dataset.chunks(HORIZON, history=2, cameras=("front",))
    rows = chunks.batch(np.linspace(0, len(chunks) - 1, size).astype(int))
    given = {k: v if k == "task" else torch.from_numpy(v) for k, v in rows.items()}
    given[CAMERA] = given[CAMERA].movedim(-1, -3).float() / 255
    return given | {"next.reward": torch.zeros(size)}


def frames(dataset: Dataset, num_frames: int, num_rows: int = 2) -> list[dict[str, Any]]:
    """Successive observations of some environments, as `lerobot-eval` gives them."""
    episodes = [dataset[i] for i in range(num_rows)]
    return [
        {
            "observation.state": torch.stack([torch.from_numpy(e.state[t]) for e in episodes]),
            "task": [e.task for e in episodes],
        }
        for t in range(num_frames)
    ]
