"""New policies for a dataset of LeRobot."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from oatkit.data import Dataset
from tests.lerobot_policy_oat.small_oat import make_config, meta, stats


def test_a_drifted_dataset_is_told(
    dataset: Dataset, tokenizer_path: str, caplog: pytest.LogCaptureFixture
) -> None:
    from lerobot_policy_oat.modeling_oat import OATPolicy

    moved = stats(dataset)
    moved["action"] = {k: 3 * np.asarray(v) for k, v in moved["action"].items()}
    with caplog.at_level(logging.WARNING):
        OATPolicy(make_config(tokenizer_path), dataset_stats=moved, dataset_meta=meta(dataset))
    assert "dimension 0 ('x') drifted" in caplog.text
    caplog.clear()
    for key in ("q01", "q99"):  # older datasets have none
        del moved["action"][key], moved["observation.state"][key]
    with caplog.at_level(logging.WARNING):
        OATPolicy(make_config(tokenizer_path), dataset_stats=moved, dataset_meta=meta(dataset))
    assert "drifted" not in caplog.text
