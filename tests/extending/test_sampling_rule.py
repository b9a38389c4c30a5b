"""A sampling rule is added as `docs/policies.md` says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evaluation.plane_policy import save_plane_policy
from tests.extending.harness import Extended, extend

RULE = """
import json, sys, torch
from oatkit.types import Sampling

logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(1, 999, 4)
uniform = torch.linspace(0, 1, 999)[None]
counts = [torch.bincount(rules.choose(logits, uniform).flatten(), minlength=4).tolist()
          for rules in (Sampling(), Sampling(min_p=0.5))]
print(json.dumps(counts))
"""
EVALUATE = """
import sys
from oatkit import cli
from oatkit.envs.simulator_table import SIMULATORS
from tests.evaluation.plane import PLANE

if __name__ == "__main__":
    SIMULATORS["pusht"] = PLANE
    sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Extended:
    return extend("policies.md", tmp_path_factory.mktemp("rule"), "How to add a sampling rule")


def test_a_sampling_rule_is_one_file_and_one_flag(extended: Extended) -> None:
    assert extended.new == ()
    in_source = [path for path in extended.changed if path.startswith("src/")]
    assert in_source == ["src/oatkit/types/sampling.py"]
    client = "packages/oatkit-client/src/oatkit_client/sampling.py"
    assert [path for path in extended.changed if path not in in_source] == [client]
    for command in (("policy", "eval"), ("serve",)):
        assert extended.oatkit(*command, "--help").count("--min-p ") == 1
    every, likely = json.loads(extended.run("-c", RULE))
    assert min(every) > 0
    assert likely[2:] == [0, 0]
    assert likely[0] / likely[1] == pytest.approx(5 / 3, rel=0.02)


def test_the_flag_reaches_the_policy_that_samples(extended: Extended, tmp_path: Path) -> None:
    """So high a bar leaves only the likeliest id: the same episodes as without any sampling."""
    policy = str(save_plane_policy(tmp_path))
    (extended.root / "evaluate.py").write_text(EVALUATE)
    found = {}
    for name, flag in {"likely": ("--min-p", "1"), "greedy": ("--temperature", "0")}.items():
        where = ("--env", "pusht", "--tasks", "near", "--out", str(tmp_path / name))
        few = ("--episodes", "2", "--workers", "1")
        extended.run("evaluate.py", "policy", "eval", policy, *where, *few, *flag)
        record = json.loads((tmp_path / name / "evaluation.json").read_text())
        found[name] = [(e["steps"], e["is_success"], e["clipped"]) for e in record["episodes"]]
        assert record["settings"]["sampling"]["min_p"] == (1.0 if name == "likely" else 0.0)
    assert found["likely"] == found["greedy"]
