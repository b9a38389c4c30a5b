"""PNG and JPEG bytes that lie inside another file. This is the only reader that imports Pillow."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from oatkit.errors import MissingExtraError


def decode_image(data: bytes) -> NDArray[np.uint8]:
    """An image as (height, width, 3)."""
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("data") from error
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))
