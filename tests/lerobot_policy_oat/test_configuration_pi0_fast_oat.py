"""The configuration of the policy type `pi0_fast_oat`, and tokenizers that do not fit it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oatkit.types import Execution
from tests.lerobot_policy_oat.text import write_text_tokenizer

pytest.importorskip("transformers", reason="pi0_fast needs transformers")
from tests.lerobot_policy_oat.small_pi0_fast import make_config, make_policy


def test_mistakes_are_answered_in_a_sentence(folders: dict[str, str], tmp_path: Path) -> None:
    from lerobot.configs.types import NormalizationMode

    def mapping(mode: str) -> dict[str, Any]:
        return {"STATE": NormalizationMode.QUANTILES, "ACTION": NormalizationMode(mode)}

    with pytest.raises(ValueError, match=r"its folder with --policy\.action_tokenizer_name"):
        make_config(folders, action_tokenizer_name="").open_tokenizer()
    with pytest.raises(ValueError, match=r"those of fast are not: use LeRobot's --policy\.type="):
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
    relative = make_config(folders)
    relative.use_relative_actions = True  # LeRobot 0.4.4 has no such setting
    with pytest.raises(ValueError, match=r"leave --policy\.use_relative_actions out"):
        relative.open_tokenizer()


def test_execution_is_one_object(folders: dict[str, str]) -> None:
    config = make_config(folders, n_action_steps=3, blend=0.1, draws=4)
    assert config.execution == Execution(3, 0.1, draws=4)
    assert make_config(folders).execution == Execution(4)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"n_action_steps": 0}, "n_action_steps is 0, expected 1 to 8, the chunk's steps"),
        ({"n_action_steps": 9}, "n_action_steps is 9, expected 1 to 8, the chunk's steps"),
        (
            {"n_action_steps": "auto"},
            "n_action_steps is 'auto', expected a number of steps: '",
        ),
        ({"budget": "auto"}, "budget is 'auto', .* not those of pi0_fast_oat"),
        ({"draws": 0}, "draws is 0, expected a whole number from 1 on"),
        ({"blend": -0.1}, r"blend is -0\.1, expected a finite number from 0 on"),
    ],
)
def test_executions_that_are_none(
    folders: dict[str, str], settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        make_config(folders, **settings)
