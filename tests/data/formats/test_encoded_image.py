from __future__ import annotations

import io
import sys

import numpy as np
import pytest
from PIL import Image

from oatkit.data.formats.encoded_image import decode_image
from oatkit.errors import MissingExtraError


def encode(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def test_pixels_come_back() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    np.testing.assert_array_equal(decode_image(encode(Image.fromarray(pixels))), pixels)


def test_images_of_one_channel_or_four_become_rgb() -> None:
    for mode in ("L", "RGBA"):
        assert decode_image(encode(Image.new(mode, (7, 5)))).shape == (5, 7, 3)


def test_without_pillow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[data\]'"):
        decode_image(b"")
