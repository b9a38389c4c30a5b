"""Resizes frames as they come from a decoder, in the processes that read data.

Bytes stay bytes: torch has kernels for them that are several times as fast as Pillow and, rounding
aside, give the same.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F  # noqa: N812


def resize_frames(
    images_NHWC: NDArray[np.uint8],
    *,
    sizes: Mapping[tuple[int, int], tuple[int, int]],
    mode: str,
) -> NDArray[np.uint8]:
    """The same images in another size, antialiased.

    Args:
        images_NHWC: Images of one size, uint8.
        sizes: Height and width that images get, by those that they have; images of other sizes stay
            as they are.
        mode: How pixels are weighted: "bilinear", "bicubic" or "lanczos".
    """
    given = (images_NHWC.shape[1], images_NHWC.shape[2])
    size = sizes.get(given, given)
    if size == given:
        return images_NHWC
    if not images_NHWC.flags.writeable:
        images_NHWC = images_NHWC.copy()  # torch warns of what it must not write to
    images_NCHW = torch.from_numpy(images_NHWC).permute(0, 3, 1, 2)
    found_NCHW = F.interpolate(images_NCHW, size, mode=mode, antialias=True)
    resized: NDArray[np.uint8] = found_NCHW.permute(0, 2, 3, 1).contiguous().numpy()
    return resized
