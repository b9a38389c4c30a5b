"""An untrained policy for a dataset of LeRobot, by what LeRobot says about it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from lerobot.utils.constants import ACTION, OBS_STATE
from oatkit import load_tokenizer
from oatkit.data import Normalizer, Statistics
from oatkit.policies import LightConfig, LightFlowConfig, Policy
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.policy_table import policy_kind
from oatkit.tokenizers import ActionTokenizer, make_codec, make_config
from oatkit.tokenizers.data_facts import DataFacts
from oatkit.types.observation_keys import IMAGES

from lerobot_policy_oat.configuration_oat import OATConfig

logger = logging.getLogger(__name__)


def new_policy(
    config: OATConfig, stats: Mapping[str, Mapping[str, Any]], dataset_meta: Any
) -> Policy:
    """An untrained policy for a dataset."""
    if dataset_meta is None:
        raise ValueError(
            "a new oat policy needs a dataset, for its tasks and statistics: train one with "
            "lerobot-train, or name a trained one with --policy.path"
        )
    tokenizer = _tokenizer(config, stats[ACTION], dataset_meta)
    state = None
    if config.robot_state_feature is not None:
        state = Normalizer.fit(_statistics(stats[OBS_STATE]))
    cameras = {
        camera_key(key).removeprefix(IMAGES): (feature.shape[1], feature.shape[2])
        for key, feature in config.image_features.items()
    }
    spec = ObservationSpec(config.n_obs_steps, state, cameras, dataset_tasks(dataset_meta))
    policy = make_light(config.light_config, tokenizer, spec)
    has_state = state is not None
    policy.extras = {
        "data": {
            "fps": dataset_meta.fps,
            "state_keys": [OBS_STATE] if has_state else [],
            "state_names": _names(dataset_meta, OBS_STATE) if has_state else [],
        }
    }
    return policy


def make_light(
    settings: LightConfig | LightFlowConfig, tokenizer: ActionTokenizer, spec: ObservationSpec
) -> Policy:
    """An untrained policy, with the head that the settings are for."""
    return Policy(policy_kind(settings.kind).make(settings, tokenizer, spec))


def _tokenizer(config: OATConfig, stats: Mapping[str, Any], dataset_meta: Any) -> ActionTokenizer:
    """The tokenizer; for a flow head without one, a `bin` that only says how long chunks are and
    how they are normalized."""
    if not config.needs_no_tokenizer:
        tokenizer = load_tokenizer(config.require_tokenizer_path())
        _compare_actions(tokenizer, stats, dataset_meta)
        return tokenizer
    statistics, names = _statistics(stats), tuple(_names(dataset_meta, ACTION))
    codec = make_codec(make_config("bin", horizon=config.horizon, action_dim=statistics.dim))
    facts = DataFacts(statistics, action_names=names, fps=dataset_meta.fps, action_keys=(ACTION,))
    normalizer = Normalizer.fit(statistics, holds_constants=True)
    return ActionTokenizer(codec, normalizer, facts)


def _compare_actions(
    tokenizer: ActionTokenizer, stats: Mapping[str, Any], dataset_meta: Any
) -> None:
    """Raise where the tokenizer cannot encode the dataset's actions; warn where it was fitted on
    other ones."""
    (action_dim,) = dataset_meta.features[ACTION]["shape"]
    if action_dim != tokenizer.action_dim:
        raise ValueError(
            f"the tokenizer is for {tokenizer.action_dim} action dimensions, the dataset has "
            f"{action_dim}: train a tokenizer on this dataset"
        )
    if "q01" in stats:
        names = _names(dataset_meta, ACTION)
        for difference in tokenizer.data.drift(_statistics(stats), names, dataset_meta.fps):
            logger.warning("the tokenizer was fitted on other actions: %s", difference)


def camera_key(key: str) -> str:
    """oatkit's key for LeRobot's `observation.image` or `observation.images.X`."""
    return IMAGES + key.removeprefix(IMAGES).removeprefix("observation.")


def dataset_tasks(dataset_meta: Any) -> tuple[str, ...]:
    """The instructions of a dataset; LeRobot has them as the index of a table."""
    return tuple(str(task) for task in dataset_meta.tasks.index)


def _names(dataset_meta: Any, key: str) -> list[str]:
    """Names of the dimensions of a feature."""
    feature = dataset_meta.features[key]
    names = feature.get("names") or []
    if isinstance(names, dict):
        names = [name for group in names.values() for name in group]
    (count,) = feature["shape"]
    return list(names) if len(names) == count else [str(i) for i in range(count)]


def _statistics(stats: Mapping[str, Any]) -> Statistics:
    """LeRobot's statistics; a dataset of a version before 0.4 has no quantiles, and gets its
    extremes instead."""
    complete = {"q01": stats["min"], "q99": stats["max"], **stats}
    return Statistics.from_json({key: np.asarray(v).tolist() for key, v in complete.items()})
