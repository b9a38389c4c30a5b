"""What the light policy refuses: options and configs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.policies import LightPolicy
from oatkit.types import Schedule
from tests.policies import tiny


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("oat-pow2", {"budget": 0}, "budget 0 is outside 1 .. 8"),
        ("oat-pow2", {"budget": 9}, "budget 9 is outside 1 .. 8"),
        ("oat-pow2", {"budget": "all"}, "budget is 'all', expected a number of tokens or 'auto'"),
        ("oat-pow2", {"schedule": Schedule.one_shot(9)}, "the schedule ends at 9 tokens, oat-pow2"),
        (
            "oat-pow2",
            {"schedule": Schedule.pow2(4), "budget": 5},
            r"budget 5 is outside 1 \.\. 4, where the schedule ends at 4",
        ),
        ("oat-pow2", {"deadline_ms": 0}, "deadline_ms is 0, expected more than 0"),
        ("bin", {"budget": 5}, r"bin decodes only all of its tokens: budget 5 is none of \[24\]"),
        ("quest", {"budget": "auto"}, "quest decodes only all of its tokens: budget auto is none"),
        ("fast", {"budget": 3}, "fast decodes only all of its tokens: budget 3 is none of"),
    ],
)
@pytest.mark.filterwarnings("ignore:the policy was trained")
def test_bad_options(
    kind: str,
    options: dict[str, Any],
    message: str,
    policies: dict[str, LightPolicy],
    dataset: Dataset,
) -> None:
    policy = policies[kind]
    with pytest.raises(ValueError, match=message):
        policy.predict_action_chunk(tiny.batch(policy, dataset), **options)


def test_a_tokenizer_of_another_action_dim(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("bin", dataset)
    other = oatkit.open_dataset(dataset.path, action_dims=[0, 1])
    with pytest.raises(ValueError, match=r"the tokenizer is for 3 action dimensions, .* has 2"):
        LightPolicy.for_dataset(tiny.CONFIG, tokenizer, other)
    with pytest.raises(ValueError, match="unknown camera 'frnt'"):
        LightPolicy.for_dataset(tiny.CONFIG, tokenizer, dataset, cameras=("frnt",))
    with pytest.raises(ValueError, match="reads neither state nor cameras observes nothing"):
        LightPolicy.for_dataset(tiny.CONFIG, tokenizer, dataset, reads_state=False)
    with pytest.raises(ValueError, match="the schedule ends at 8 tokens, bin has 24"):
        LightPolicy.for_dataset(replace(tiny.CONFIG, endpoints=(8,)), tokenizer, dataset)
    with pytest.raises(ValueError, match="width 16 is not divided by 3 heads"):
        replace(tiny.CONFIG, num_heads=3)
    with pytest.raises(ValueError, match="crop_size 36 exceeds image_size 20"):
        replace(tiny.CONFIG, image_size=20)
    with pytest.raises(ValueError, match="crop_size is 32, expected at least 33"):
        replace(tiny.CONFIG, crop_size=32)
