from __future__ import annotations

import pytest
import torch
from torch import nn

from oatkit.nn.image_encoder import ImageEncoder, SpatialSoftmax, resize_and_crop
from oatkit.nn.sample_random import SampleRandom


@pytest.mark.parametrize(("row", "column"), [(0, 0), (4, 2), (2, 8)])
def test_spatial_softmax_tells_where_something_is(row: int, column: int) -> None:
    """A bright pixel in a map of 5 x 9; right and down go from -1 to 1."""
    pool = SpatialSoftmax(1, 1)
    with torch.no_grad():
        pool.features.weight.fill_(100.0)
    image = torch.zeros(1, 1, 5, 9)
    image[0, 0, row, column] = 1
    right, down = pool(image)[0].tolist()
    assert right == pytest.approx(column / 4 - 1, abs=1e-5)
    assert down == pytest.approx(row / 2 - 1, abs=1e-5)


def test_the_encoder_is_a_resnet_18() -> None:
    """As many parameters as ResNet-18 without its last layer (11,176,512), and the head's."""
    encoder = ImageEncoder(64)
    assert sum(p.numel() for p in encoder.trunk.parameters()) == 11_176_512
    small = ImageEncoder(6, num_channels=4, num_points=3).eval()
    images = torch.rand(3, 3, 40, 48)
    together = small(images)
    assert together.shape == (3, 6)
    apart = torch.cat([small(image[None]) for image in images])
    torch.testing.assert_close(together, apart)


def test_crops_are_drawn_from_the_samples() -> None:
    images = torch.randint(256, (3, 2, 3, 32, 32), dtype=torch.uint8)
    keys = torch.tensor([1, 2, 1])
    cropped = resize_and_crop(images[[0, 1, 0]], 32, 28, SampleRandom(keys))
    assert cropped.shape == (3, 2, 3, 28, 28)
    assert torch.equal(cropped[0], cropped[2])
    middle = resize_and_crop(images, 32, 28, None)
    torch.testing.assert_close(middle, images[..., 2:30, 2:30] / 255)
    assert not torch.equal(cropped[:2], middle[:2])
    starts = {
        tuple(crop[0, 0, 0, :3].tolist())
        for seed in range(20)
        for crop in resize_and_crop(images[:1], 32, 28, SampleRandom(torch.tensor([seed])))
    }
    assert len(starts) > 10
    assert resize_and_crop(images, 16, 16, None).shape == (3, 2, 3, 16, 16)


def test_positions_keep_their_digits_under_autocast() -> None:
    """The second of 1001 columns lies at -0.998, between -1 and -0.996 of bfloat16."""
    encoder = ImageEncoder(1, num_channels=4, num_points=1)
    encoder.trunk = nn.Sequential()
    encoder.pool = SpatialSoftmax(3, 1)
    image = torch.full((1, 3, 1, 1001), 0.5)
    image[..., 1] = 1
    with torch.no_grad():
        encoder.pool.features.weight.fill_(100.0)
        encoder.project.weight.copy_(torch.tensor([[1.0, 0.0]]))
        encoder.project.bias.fill_(0)
        with torch.autocast("cpu", torch.bfloat16):
            points, found = encoder.pool(2 * image - 1), encoder(image)
    assert points[0, 0].item() == pytest.approx(-0.998, abs=1e-6)
    assert found.item() == pytest.approx(-0.998, abs=1e-6)
