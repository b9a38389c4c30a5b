"""Frames are resized as Pillow does it, which image processors and their training used."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from oatkit.nn.frame_resizing import resize_frames

MODES = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
SIDES = st.integers(8, 60)


def noise(
    count: int, height: int, width: int, colors: tuple[int, int] = (0, 256)
) -> NDArray[np.uint8]:
    shape = (count, height, width, 3)
    return np.random.default_rng(0).integers(*colors, size=shape, dtype=np.uint8)


@settings(deadline=None, max_examples=40)
@given(
    given=st.tuples(SIDES, SIDES),
    wanted=st.tuples(SIDES, SIDES),
    mode=st.sampled_from([*MODES]),
    colors=st.sampled_from([(64, 192), (0, 256)]),
)
def test_as_pillow(
    given: tuple[int, int], wanted: tuple[int, int], mode: str, colors: tuple[int, int]
) -> None:
    images = noise(2, *given, colors)
    found = resize_frames(images, sizes={given: wanted}, mode=mode)
    assert found.shape == (2, *wanted, 3)
    assert found.flags.c_contiguous
    for image, resized in zip(images, found, strict=True):
        pillow = Image.fromarray(image).resize(wanted[::-1], MODES[mode])
        error = np.abs(resized.astype(int) - np.asarray(pillow))
        # black and white noise overshoots, which both cut off between rows and columns
        assert error.mean() < 1.5 if colors == (0, 256) else error.max() <= 2


@pytest.mark.parametrize("sizes", [{}, {(20, 30): (20, 30)}, {(30, 20): (8, 8)}])
def test_images_of_other_sizes_stay(sizes: dict[tuple[int, int], tuple[int, int]]) -> None:
    images = noise(2, 20, 30)
    assert resize_frames(images, sizes=sizes, mode="bilinear") is images


def test_an_image_does_not_depend_on_those_beside_it() -> None:
    """So any number of processes reads the same."""
    resize = partial(resize_frames, sizes={(40, 50): (16, 16)}, mode="bicubic")
    images = noise(5, 40, 50)
    together = pickle.loads(pickle.dumps(resize))(images)
    for index in range(5):
        np.testing.assert_array_equal(resize(images[index : index + 1])[0], together[index])


def test_images_that_must_not_be_written_to() -> None:
    images = noise(2, 20, 30)
    images.flags.writeable = False
    found = resize_frames(images, sizes={(20, 30): (8, 8)}, mode="bilinear")
    assert found.shape == (2, 8, 8, 3)
