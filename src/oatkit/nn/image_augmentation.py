"""Random crops and colors of training images, from random numbers that belong to the sample.

Images are changed on the device of the network, as part of the loss. So one process or many, any
number of reading processes and a run that was resumed give the same images, no reading process
spends time on it, and neither acting nor held-out evaluation, which do not call the loss, changes
an image.

Shape letters: B batch, S observed frame, C color.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from oatkit.errors import unknown_name
from oatkit.nn.sample_random import SampleRandom

GRAY = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in the brightness of a color (ITU-R 601)."""


@dataclass(frozen=True)
class Augmentation:
    """How images are changed in training; at acting they never are."""

    crop: float = 1.0
    """Smallest share of height and width that a random crop of a training image keeps, such as 0.9;
    the crop is resized back. 1 crops nothing."""
    color_jitter: float = 0.0
    """Largest relative change of brightness, contrast and saturation of a training image, such as
    0.3; 0 changes nothing."""
    uncropped: tuple[str, ...] = ()
    """Cameras that are not cropped, such as one on the wrist; their colors change nevertheless."""

    def __post_init__(self) -> None:
        if not 0 < self.crop <= 1:
            raise ValueError(f"crop is {self.crop}, expected a share above 0 and at most 1")
        if not 0 <= self.color_jitter < 1:
            raise ValueError(f"color_jitter is {self.color_jitter}, expected 0 or more, below 1")

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Augmentation:
        """The inverse of `asdict`."""
        return cls(**{**values, "uncropped": tuple(values.get("uncropped", ()))})

    def smallest_shares(self, cameras: Sequence[str]) -> tuple[float, ...]:
        """The smallest share of the image that is kept, for each camera."""
        for camera in self.uncropped:
            if camera not in cameras:
                raise ValueError(unknown_name("camera", camera, cameras))
        return tuple(1.0 if camera in self.uncropped else self.crop for camera in cameras)


@torch.no_grad()
def augment_images(
    images: Sequence[Tensor],
    smallest_shares: Sequence[float],
    color_jitter: float,
    random: SampleRandom,
) -> tuple[Tensor, ...]:
    """The images of each camera, cropped and colored at random; all frames of a sample alike.

    Args:
        images: Images (B, S, 3, H, W) of each camera, uint8.
        smallest_shares: Smallest share of height and width that is kept, for each camera.
        color_jitter: Largest relative change of brightness, contrast and saturation.
        random: Random numbers of the samples; untouched where nothing is changed.
    """
    if color_jitter == 0 and all(share == 1 for share in smallest_shares):
        return tuple(images)
    crops_BN3 = random.uniform(len(images), 3)
    colors_BN3 = random.uniform(len(images), 3)
    changed = []
    for number, (camera, smallest) in enumerate(zip(images, smallest_shares, strict=True)):
        pixels = camera.float()
        if smallest < 1:
            shares_B = smallest + (1 - smallest) * crops_BN3[:, number, 0]
            pixels = crop(pixels, shares_B, crops_BN3[:, number, 1:])
        if color_jitter > 0:
            pixels = jitter(pixels, 1 + color_jitter * (2 * colors_BN3[:, number] - 1))
        changed.append(pixels.round().clamp(0, 255).to(torch.uint8))
    return tuple(changed)


def crop(images_BSCHW: Tensor, shares_B: Tensor, places_B2: Tensor) -> Tensor:
    """A part of every image, resized back to the size of the image.

    Args:
        images_BSCHW: Images of floats.
        shares_B: Share of height and width that is kept.
        places_B2: Where the part lies, right and down, from 0 (left, top) to 1 (right, bottom).
    """
    num_frames, _, height, width = images_BSCHW.shape[1:]
    # written out, because `affine_grid` multiplies matrices, which autocast does in bfloat16
    across, down = (
        shares_B[:, None] * _centers(size, shares_B) + ((1 - shares_B) * (2 * place_B - 1))[:, None]
        for size, place_B in zip((width, height), places_B2.unbind(1), strict=True)
    )
    grid_BHW2 = torch.stack(
        [across[:, None].expand(-1, height, -1), down[:, :, None].expand(-1, -1, width)], dim=-1
    )
    found = F.grid_sample(
        images_BSCHW.flatten(0, 1),
        grid_BHW2.repeat_interleave(num_frames, dim=0),
        padding_mode="border",
        align_corners=False,
    )
    return found.view_as(images_BSCHW)


def jitter(images_BSCHW: Tensor, factors_B3: Tensor) -> Tensor:
    """Images with brightness, contrast and saturation multiplied by a factor each."""
    brightness, contrast, saturation = factors_B3[:, :, None, None, None, None].unbind(1)
    images = images_BSCHW * brightness
    mean_B1111 = _gray(images).mean(dim=(1, 2, 3, 4), keepdim=True)
    images = mean_B1111 + contrast * (images - mean_B1111)
    gray_BS1HW = _gray(images)
    return gray_BS1HW + saturation * (images - gray_BS1HW)


def _centers(size: int, like: Tensor) -> Tensor:
    """Centers of pixels, from -1 to 1 between the outer edges of the image."""
    return (2 * torch.arange(size, device=like.device, dtype=like.dtype) + 1) / size - 1


def _gray(images_BSCHW: Tensor) -> Tensor:
    weights_C11 = images_BSCHW.new_tensor(GRAY)[:, None, None]
    return (images_BSCHW * weights_C11).sum(dim=2, keepdim=True)
