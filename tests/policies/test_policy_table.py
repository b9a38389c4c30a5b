"""The table of policies: what opens, trains and names them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import oatkit
from oatkit.data import Dataset
from oatkit.errors import ArtifactError
from oatkit.policies import LightFlowConfig, Policy, VlmConfig, policy_for_dataset, policy_table
from oatkit.policies.policy_table import (
    POLICIES,
    open_policy,
    policy_kind,
    use_cuda_graphs,
)
from tests.nn.pretended_devices import pretend_cuda
from tests.policies import tiny

GOLDEN = Path(__file__).parent / "golden/vlm"
CONFIG, FLOW_CONFIG = tiny.CONFIG, LightFlowConfig(tiny.CONFIG)
PAGE = Path(__file__).parent.parent.parent / "docs" / "policies.md"


@pytest.mark.parametrize("name", list(POLICIES))
def test_a_config_names_its_row(name: str) -> None:
    assert policy_kind(name).config().kind == name


def test_the_page_lists_the_table() -> None:
    rows = [f"| `{name}` | {kind.summary} |" for name, kind in POLICIES.items()]
    assert "\n".join(["| `--policy` | what it is |", "|---|---|", *rows, ""]) in PAGE.read_text()


def test_unknown_names_are_answered_with_the_closest(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown policy 'ligth'; known, closest first: light"):
        policy_kind("ligth")
    tiny.make_policy("bin", dataset).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"kind": "heavy"}))
    with pytest.raises(ArtifactError, match="unknown policy kind 'heavy'; known"):
        oatkit.load_policy(tmp_path)


@pytest.mark.parametrize(("name", "config"), [("light", CONFIG), ("light-flow", FLOW_CONFIG)])
def test_a_row_makes_a_policy_of_its_name(name: str, config: Any, dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("bin", dataset)
    policy = policy_for_dataset(config, tokenizer, dataset)
    assert (policy.kind, policy.heads) == (name, POLICIES[name].heads)
    assert policy.spec.history == POLICIES[name].history
    assert not policy.net.training
    other = oatkit.open_dataset(dataset.path, action_dims=[0, 1])
    with pytest.raises(ValueError, match=r"the tokenizer is for 3 action dimensions, .* has 2"):
        policy_for_dataset(config, tokenizer, other)
    with pytest.raises(ValueError, match="unknown camera 'frnt'"):
        policy_for_dataset(config, tokenizer, dataset, cameras=("frnt",))
    with pytest.raises(ValueError, match="reads neither state nor cameras observes nothing"):
        policy_for_dataset(config, tokenizer, dataset, reads_state=False)
    with pytest.raises(ValueError, match=f"the {name} policy has no backbone: name another pol"):
        policy_for_dataset(config, tokenizer, dataset, backbone="a/backbone")


def test_a_backbone_is_named_where_one_is_needed(dataset: Dataset) -> None:
    with pytest.raises(ValueError, match="vlm-ar needs a backbone: name its checkpoint"):
        policy_for_dataset(VlmConfig(), tiny.make_tokenizer("bin", dataset), dataset)


def test_robots_share_the_network_of_one(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("bin", dataset)
    for config in (CONFIG, FLOW_CONFIG):
        one = policy_for_dataset(config, tokenizer, dataset)
        assert policy_for_dataset(config, tokenizer, dataset, net=one.net).net is one.net


def test_cuda_graphs_are_for_vision_language_policies_on_a_gpu(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="for vision-language policies, not for light"):
        use_cuda_graphs(tiny.make_policy("bin", dataset))
    pytest.importorskip("transformers", reason="needs the extra vlm")
    policy = oatkit.load_policy(GOLDEN)
    with pytest.raises(ValueError, match="need a policy on CUDA, this one is on cpu"):
        use_cuda_graphs(policy)
    asked: list[int] = []
    monkeypatch.setattr(type(policy), "device", torch.device("cuda"))
    monkeypatch.setattr(policy.net, "use_graphs", asked.append)
    use_cuda_graphs(policy)
    use_cuda_graphs(policy, max_batch=32)  # or a server would capture again and again
    assert asked == [16, 64]


def test_a_policy_is_opened_on_a_device(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, moved = tiny.make_policy("bin", dataset).save_pretrained(tmp_path), list[str]()

    def load(path: Path, dtype: torch.dtype | None, device: torch.device) -> None:
        moved.append(f"{device} {dtype}")

    monkeypatch.setattr(policy_table, "_load", load)
    pretend_cuda(monkeypatch)
    oatkit.load_policy(folder)
    for device in ("auto", "cuda:1", "cpu"):
        open_policy(folder, device, "bfloat16")
    wanted = [f"{device} torch.bfloat16" for device in ("cuda:0", "cuda:1", "cpu")]
    assert moved == ["cpu None", *wanted]


def test_a_policy_that_is_given_stays_unless_a_device_is_named(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, moved = tiny.make_policy("bin", dataset), list[str]()
    monkeypatch.setattr(Policy, "to", lambda self, to: moved.append(str(to)) or self)
    pretend_cuda(monkeypatch)
    assert open_policy(policy) is policy
    assert open_policy(policy, "cuda") is policy
    assert moved == ["cuda:0"]
    with pytest.raises(ValueError, match="is open already: open it with load_policy"):
        open_policy(policy, dtype="float16")
