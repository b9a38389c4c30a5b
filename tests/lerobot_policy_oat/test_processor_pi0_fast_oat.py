"""The pipelines of `pi0_fast_oat`: tokens between text."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import oatkit

pytest.importorskip("transformers", reason="pi0_fast needs transformers")
from tests.lerobot_policy_oat.small_pi0_fast import FIRST_ACTION_ID, LEAD, make_config


def make_step(folders: dict[str, str], **settings: Any) -> Any:
    from lerobot_policy_oat.processor_pi0_fast_oat import OATActionTokenizerProcessorStep

    return OATActionTokenizerProcessorStep(
        action_tokenizer_name=folders["klt"],
        paligemma_tokenizer_name=folders["text"],
        **{"max_action_tokens": 16, **settings},
    )


@pytest.mark.parametrize("normalized_input", [False, True])
def test_the_step_writes_tokens_between_text(
    folders: dict[str, str], chunks: Any, normalized_input: bool
) -> None:
    ours = oatkit.load_tokenizer(folders["klt"])
    step = make_step(folders, normalized_input=normalized_input)
    given = ours.normalizer.normalize(chunks) if normalized_input else chunks
    tokens, mask = step._tokenize_action(torch.from_numpy(given))
    for row, is_real, ids in zip(tokens.tolist(), mask.tolist(), ours(chunks), strict=True):
        expected = [*LEAD, *(FIRST_ACTION_ID - i for i in ids), 6, 2]
        assert row == expected + [0] * (16 - len(expected))
        assert sum(is_real) == len(expected)


def test_the_step_comes_back_as_it_was(folders: dict[str, str], chunks: Any) -> None:
    step = make_step(folders, fast_skip_tokens=64)
    again = type(step)(**json.loads(json.dumps(step.get_config())))
    actions = torch.from_numpy(chunks)
    assert torch.equal(again._tokenize_action(actions)[0], step._tokenize_action(actions)[0])


def test_the_pipelines_have_our_step(folders: dict[str, str]) -> None:
    from lerobot_policy_oat.processor_pi0_fast_oat import make_pi0_fast_oat_pre_post_processors

    before, after = make_pi0_fast_oat_pre_post_processors(make_config(folders))
    names = [type(step).__name__ for step in before.steps]
    assert names.index("NormalizerProcessorStep") < names.index("OATActionTokenizerProcessorStep")
    assert before.steps[names.index("NormalizerProcessorStep")].norm_map["ACTION"] == "IDENTITY"
    assert type(after.steps[0]).__name__ == "UnnormalizerProcessorStep"


def test_tokens_that_do_not_fit_are_an_error_not_cut(folders: dict[str, str], chunks: Any) -> None:
    step = make_step(folders, max_action_tokens=10)
    with pytest.raises(ValueError, match=r"take 11 slots: give --policy\.max_action_tokens=11"):
        step._tokenize_action(torch.from_numpy(chunks))
