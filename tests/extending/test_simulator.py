"""A simulator is added as `docs/adding_a_simulator.md` says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.extending.harness import Extended, extend

MAKE_POLICY = """
import sys, oatkit
from oatkit.policies import LightConfig, policy_for_dataset
dataset = oatkit.open_dataset(sys.argv[1])
tokenizer = oatkit.train_tokenizer(dataset, "klt", horizon=4, num_tokens=2)
net = LightConfig(width=16, num_layers=1, num_heads=2, image_size=36, crop_size=33)
policy = policy_for_dataset(net, tokenizer, dataset, cameras=("front", "wrist"))
policy.save_pretrained(sys.argv[2])
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Extended:
    return extend("adding_a_simulator.md", tmp_path_factory.mktemp("simulator"))


def test_a_simulator_is_one_file_and_one_row(extended: Extended) -> None:
    assert len(extended.new) == 1
    assert len(extended.changed) == 1


def test_a_policy_with_two_cameras_is_evaluated(extended: Extended, tmp_path: Path) -> None:
    """Untrained: it pushes one way as in the data, so that most carts arrive in 20 steps."""
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "pushes.npz",
        **{
            "action": rng.uniform(0.4, 1, size=(60, 1)),
            "observation.state": rng.normal(size=(60, 1)),
            "observation.images.front": np.zeros((60, 16, 24, 3), np.uint8),
            "observation.images.wrist": np.zeros((60, 8, 8, 3), np.uint8),
        },
        episode_ends=[20, 40, 60],
        task="Push the cart to the end.",
    )
    extended.run("-c", MAKE_POLICY, str(tmp_path / "pushes.npz"), str(tmp_path / "policy"))
    out = tmp_path / "eval"
    asked = ("--env", "cart", "--episodes", "3", "--workers", "1", "--videos", "1")
    extended.oatkit("policy", "eval", str(tmp_path / "policy"), *asked, "--out", str(out))
    record = json.loads((out / "evaluation.json").read_text())
    assert (record["settings"]["env"], record["settings"]["max_steps"]) == ("cart", 20)
    assert set(record["settings"]["packages"]) == {"numpy"}
    assert [episode["task"] for episode in record["episodes"]] == ["cart"] * 3
    assert all(episode["is_success"] for episode in record["episodes"])
    assert [video["task"] for video in record["videos"]] == ["cart"]
    assert (out / record["videos"][0]["path"]).stat().st_size > 0


def test_help_and_errors_name_it(extended: Extended) -> None:
    assert "{cart,metaworld,pusht," in extended.oatkit("policy", "eval", "--help")
    code = "from oatkit.envs.simulator_table import simulator_kind\nsimulator_kind('cat')"
    with pytest.raises(AssertionError, match="unknown simulator 'cat'; known, closest first: cart"):
        extended.run("-c", code)
