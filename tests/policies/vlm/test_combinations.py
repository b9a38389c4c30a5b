"""Every objective, tokenizer and backbone family that go together, once each."""

from __future__ import annotations

from collections import Counter

from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.policies.vlm.combinations import combinations
from oatkit.policies.vlm.vlm_config import OBJECTIVES
from oatkit.tokenizers import KINDS


def test_tokens_are_combined_with_every_kind_and_the_flow_with_none() -> None:
    found = combinations()
    assert len({one.name for one in found}) == len(found)
    wanted = {
        name: len(KINDS) if "tokens" in objective.heads else 1
        for name, objective in OBJECTIVES.items()
    }
    for family in FAMILIES:
        assert Counter(one.objective for one in found if one.family == family) == wanted
    assert all(one.kind is None for one in found if one.objective == "vlm-flow")


def test_a_command_names_what_it_trains() -> None:
    (one,) = [one for one in combinations() if one.name == "vlm-tc/fast/paligemma2"]
    assert one.command == (
        "oatkit policy train --policy vlm-tc --backbone google/paligemma2-3b-pt-224 "
        "--tokenizer out/fast --preset paper --data out/metaworld --cameras corner2 "
        "--out out/vlm-tc-fast-paligemma2"
    )
    (flow,) = [one for one in combinations() if one.name == "vlm-flow/smolvlm"]
    assert "--tokenizer" not in flow.command
