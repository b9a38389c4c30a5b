"""`oatkit vlm combinations`: every policy there is, with the command that trains it."""

from __future__ import annotations

import pytest
import tyro

from oatkit import cli
from oatkit.commands.policy_train import TrainPolicy
from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.policies.vlm.combinations import combinations
from oatkit.tokenizers import KINDS


def test_combinations_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["vlm", "combinations"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(combinations()) == (2 * len(KINDS) + 1) * len(FAMILIES)
    papers = {"oat", "oat-pow2", "bin", "fast", "quest", "acodec"}
    assert sum(one.kind in papers or one.kind is None for one in combinations()) >= 36
    assert any(line.startswith("vlm-tc/fast/paligemma2 ") for line in lines)
    assert "--policy vlm-flow --backbone Qwen/Qwen3-VL-2B-Instruct" in "\n".join(lines)
    for one in combinations():
        cli_options = tyro.cli(TrainPolicy, args=one.command.split()[3:])
        assert one.name.replace("/", "-") == cli_options.out.name
        assert cli_options.preset == "paper"  # the checkpoints of the list are published ones
