"""openpi's names, LeRobot's names, and names that are neither."""

from __future__ import annotations

import pytest
from oatkit_client.key_map import IMAGES, STATE, TASK, KeyMap

from oatkit.types import observation_keys


def test_the_keys_are_those_of_oatkit() -> None:
    assert (STATE, IMAGES, TASK) == (
        observation_keys.STATE,
        observation_keys.IMAGES,
        observation_keys.TASK,
    )


def test_openpis_and_lerobots_names_are_known() -> None:
    keys = KeyMap.for_parts([STATE, "observation.images.front"])
    for name, others in {
        STATE: ("observation/state", STATE),
        "observation.images.front": (
            "observation/front_image",
            "observation/front",
            "observation.images.front",
        ),
        TASK: ("prompt", TASK),
    }.items():
        for key in others:
            assert keys.translate({key: 1}) == {name: 1}
        assert keys.preferred[name] == others[0]


def test_a_camera_may_be_called_image() -> None:
    """`wrist_image` is the camera of that name, and not another name of `wrist`."""
    keys = KeyMap.for_parts(["observation.images.wrist", "observation.images.wrist_image"])
    assert keys.names["observation/wrist_image"] == "observation.images.wrist_image"
    assert keys.names["observation/wrist_image_image"] == "observation.images.wrist_image"
    assert keys.names["observation/wrist"] == "observation.images.wrist"


def test_a_policy_without_a_state_takes_none() -> None:
    keys = KeyMap.for_parts(["observation.images.front"])
    with pytest.raises(
        ValueError,
        match="has the key 'observation/state', expected observation/front_image, prompt",
    ):
        keys.translate({"observation/state": 1})


def test_unknown_and_repeated_keys() -> None:
    keys = KeyMap.for_parts([STATE])
    with pytest.raises(ValueError, match="has the key 'x', expected observation/state, prompt!"):
        keys.translate({"x": 1}, hint="!")
    with pytest.raises(ValueError, match=r"observation\.state twice, the second time as"):
        keys.translate({"observation/state": 1, STATE: 1})
    with pytest.raises(ValueError, match=r"\.\.\., expected"):
        keys.translate({"x" * 10_000: 1})


def test_sentences_are_about_the_keys_of_requests() -> None:
    keys = KeyMap.for_parts([STATE, "observation.images.front"])
    said = keys.in_words_of_requests("observation.images.front is dark, 'task' is not text")
    assert said == "observation/front_image is dark, 'prompt' is not text"
