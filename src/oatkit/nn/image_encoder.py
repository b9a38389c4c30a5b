"""One vector for each image: a ResNet-18 with group norm, and a spatial softmax.

Group norm, because batches are small and a policy is also called with one image. The spatial
softmax keeps the place where something is seen, which averaging would lose.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from oatkit.nn.sample_random import SampleRandom

CHANNELS_PER_GROUP = 16


class ResidualBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    def __init__(self, num_in: int, num_out: int, stride: int) -> None:
        super().__init__()
        self.convolve = nn.Sequential(
            nn.Conv2d(num_in, num_out, 3, stride, 1, bias=False),
            _norm(num_out),
            nn.ReLU(),
            nn.Conv2d(num_out, num_out, 3, 1, 1, bias=False),
            _norm(num_out),
        )
        self.shortcut = nn.Sequential()
        if stride > 1 or num_in != num_out:
            self.shortcut.extend(
                [nn.Conv2d(num_in, num_out, 1, stride, bias=False), _norm(num_out)]
            )

    def forward(self, x_NCHW: Tensor) -> Tensor:
        return F.relu(self.shortcut(x_NCHW) + self.convolve(x_NCHW))


class SpatialSoftmax(nn.Module):
    """Mean position in [-1, 1] of each of P learned features, (N, C, H, W) -> (N, 2 P).

    Positions are float32 also under autocast: bfloat16 has too few digits for them.
    """

    def __init__(self, num_channels: int, num_points: int) -> None:
        super().__init__()
        self.features = nn.Conv2d(num_channels, num_points, 1)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        maps_NPHW = self.features(x_NCHW)
        height, width = maps_NPHW.shape[2:]
        with torch.autocast(x_NCHW.device.type, enabled=False):  # which would multiply in bfloat16
            share_NPHW = maps_NPHW.flatten(2).float().softmax(dim=-1).view_as(maps_NPHW)
            rows_H = torch.linspace(-1, 1, height, device=x_NCHW.device)
            columns_W = torch.linspace(-1, 1, width, device=x_NCHW.device)
            down_NP = share_NPHW.sum(dim=3) @ rows_H
            right_NP = share_NPHW.sum(dim=2) @ columns_W
            return torch.cat([right_NP, down_NP], dim=1)


class ImageEncoder(nn.Module):
    """Encodes images with values from 0 to 1, (N, 3, H, W) -> (N, width).

    Args:
        width: Width of the vectors.
        num_channels: Number of channels of the first stage; each of the next three doubles it.
        num_points: Number of learned features whose mean position is encoded.
    """

    def __init__(self, width: int, *, num_channels: int = 64, num_points: int = 32) -> None:
        super().__init__()
        stem = [nn.Conv2d(3, num_channels, 7, 2, 3, bias=False), _norm(num_channels), nn.ReLU()]
        blocks: list[nn.Module] = [*stem, nn.MaxPool2d(3, 2, 1)]
        num_in = num_channels
        for stage in range(4):
            num_out = num_channels << stage
            blocks.append(ResidualBlock(num_in, num_out, 1 if stage == 0 else 2))
            blocks.append(ResidualBlock(num_out, num_out, 1))
            num_in = num_out
        self.trunk = nn.Sequential(*blocks)
        self.pool = SpatialSoftmax(num_in, num_points)
        self.project = nn.Linear(2 * num_points, width)

    def forward(self, images_NCHW: Tensor) -> Tensor:
        points_NP = self.pool(self.trunk(2 * images_NCHW - 1))
        with torch.autocast(images_NCHW.device.type, enabled=False):
            return self.project(points_NP.to(self.project.weight.dtype))


def resize_and_crop(
    images_BSCHW: Tensor, size: int, crop: int, random: SampleRandom | None
) -> Tensor:
    """Square images with values from 0 to 1, (B, S, 3, crop, crop).

    Args:
        images_BSCHW: Images as uint8, or as floats from 0 to 1.
        size: Height and width before the crop.
        crop: Height and width after the crop.
        random: Random numbers that place the crop, the same place for all frames S of a sample;
            None crops the middle.
    """
    images = resize(images_BSCHW, size)
    margin = size - crop
    if random is None:
        start = margin // 2
        return images[..., start : start + crop, start : start + crop]
    starts = (random.uniform(2) * (margin + 1)).long().tolist()
    return torch.stack(
        [
            image[..., down : down + crop, right : right + crop]
            for image, (down, right) in zip(images, starts, strict=True)
        ]
    )


def resize(images_BSCHW: Tensor, size: int) -> Tensor:
    """Square images with values from 0 to 1, (B, S, 3, size, size)."""
    flat = images_BSCHW.flatten(0, 1)
    flat = flat.float() / 255 if flat.dtype == torch.uint8 else flat
    if flat.shape[2:] != (size, size):
        flat = F.interpolate(flat, (size, size), mode="bilinear", antialias=True)
    return flat.view(*images_BSCHW.shape[:3], size, size)


def resize_to(images_BSCHW: Tensor, size: tuple[int, int]) -> Tensor:
    """Images of another height and width, in their own type."""
    if images_BSCHW.shape[-2:] == size:
        return images_BSCHW
    flat = images_BSCHW.flatten(0, 1).float()
    flat = F.interpolate(flat, size, mode="bilinear", antialias=True)
    if images_BSCHW.dtype == torch.uint8:
        flat = flat.round()
    return flat.to(images_BSCHW.dtype).view(*images_BSCHW.shape[:3], *size)


def _norm(num_channels: int) -> nn.GroupNorm:
    return nn.GroupNorm(max(1, num_channels // CHANNELS_PER_GROUP), num_channels)
