"""Random crops and colors: what they are, and that they belong to the sample."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from oatkit.nn.image_augmentation import Augmentation, augment_images, crop, jitter
from oatkit.nn.sample_random import SampleRandom, sample_keys


def images(size: int = 4, frames: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(256, (size, frames, 3, 20, 24), generator=generator, dtype=torch.uint8)


def keys(size: int = 4, *, seed: int = 0, step: int = 3) -> Tensor:
    return sample_keys(seed, step, torch.arange(size))


def changed(pixels: Tensor, keys_B: Tensor, *, share: float = 0.8, color: float = 0.3) -> Tensor:
    (found,) = augment_images([pixels], [share], color, SampleRandom(keys_B))
    return found


def test_a_key_decides_what_happens() -> None:
    pixels = images()
    found = changed(pixels, keys())
    assert (found.dtype, found.shape) == (torch.uint8, pixels.shape)
    torch.testing.assert_close(changed(pixels, keys()), found)
    for other in (keys(seed=1), keys(step=4)):
        assert (changed(pixels, other) != found).any()


def test_samples_differ_and_frames_of_a_sample_do_not() -> None:
    pixels = images(1, 1).expand(4, 2, -1, -1, -1)
    found = changed(pixels, keys())
    torch.testing.assert_close(found[:, 0], found[:, 1])
    assert len({row.numpy().tobytes() for row in found}) == 4


@pytest.mark.parametrize(("share", "color"), [(0.8, 0.0), (1.0, 0.3), (0.8, 0.3)])
def test_parts_of_a_batch_equal_the_whole(share: float, color: float) -> None:
    """Two devices, or two accumulated parts, see the images that one device sees."""
    pixels = images()
    whole = changed(pixels, keys(), share=share, color=color)
    for part in (slice(0, 2), slice(2, 4)):
        found = changed(pixels[part], keys()[part], share=share, color=color)
        torch.testing.assert_close(found, whole[part], atol=0, rtol=0)


def test_strength_zero_is_the_identity_and_takes_no_random_numbers() -> None:
    random = SampleRandom(keys())
    (found,) = augment_images([images()], [1.0], 0.0, random)
    torch.testing.assert_close(found, images(), atol=0, rtol=0)
    torch.testing.assert_close(random.uniform(3), SampleRandom(keys()).uniform(3), atol=0, rtol=0)


def test_a_crop_of_everything_is_the_image() -> None:
    pixels = images().float()
    found = crop(pixels, torch.ones(4), torch.rand(4, 2))
    torch.testing.assert_close(found, pixels, atol=1e-2, rtol=0)


@pytest.mark.parametrize(("right", "down"), [(0.0, 0.0), (1.0, 1.0), (0.3, 0.8)])
def test_a_crop_is_what_pillow_cuts_out(right: float, down: float) -> None:
    """A smooth image, because Pillow's weights at the edge of the box differ a little."""
    rows, columns = np.mgrid[0:40, 0:48]
    smooth = np.stack([rows * 5, columns * 4, 200 - rows * 2], axis=-1).astype(np.float32)
    share, (height, width) = 0.75, (40, 48)
    left, top = right * (1 - share) * width, down * (1 - share) * height
    box = (left, top, left + share * width, top + share * height)
    wanted = np.stack(
        [
            Image.fromarray(smooth[..., color]).resize(
                (width, height), Image.Resampling.BILINEAR, box=box
            )
            for color in range(3)
        ]
    )
    found = crop(
        torch.from_numpy(smooth).movedim(-1, 0)[None, None],
        torch.tensor([share]),
        torch.tensor([[right, down]]),
    )[0, 0]
    inner = (slice(None), slice(2, -2), slice(2, -2))
    torch.testing.assert_close(found[inner], torch.from_numpy(wanted)[inner], atol=0.05, rtol=0)


@pytest.mark.parametrize(
    ("number", "enhance"),
    [(0, ImageEnhance.Brightness), (1, ImageEnhance.Contrast), (2, ImageEnhance.Color)],
)
def test_colors_are_those_of_pillow(number: int, enhance: type) -> None:
    pixels = images(1, 1) // 2 + 40
    factors = torch.ones(1, 3)
    factors[0, number] = 1.2
    found = jitter(pixels.float(), factors)[0, 0]
    picture = Image.fromarray(pixels[0, 0].movedim(0, -1).numpy())
    wanted = torch.from_numpy(np.array(enhance(picture).enhance(1.2))).movedim(-1, 0)
    torch.testing.assert_close(found, wanted.float(), atol=1.5, rtol=0)


def test_values_stay_in_range() -> None:
    """Numbers beyond 255 would wrap around as uint8 and turn white black."""
    white, black = torch.full((4, 1, 3, 8, 8), 255, dtype=torch.uint8), images(4, 1) * 0
    assert changed(white, keys(), color=0.9).min() > 20
    assert changed(black, keys(), color=0.9).max() == 0


def test_autocast_changes_nothing() -> None:
    """On a GPU the loss runs under bfloat16, in which a coordinate has an error of two pixels."""
    plain = changed(images(), keys())
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(changed(images(), keys()), plain, atol=0, rtol=0)


def test_some_cameras_are_not_cropped() -> None:
    augmentation = Augmentation(crop=0.9, uncropped=("wrist",))
    shares = augmentation.smallest_shares(("front", "wrist"))
    assert shares == (0.9, 1.0)
    front, wrist = augment_images([images(), images()], shares, 0.0, SampleRandom(keys()))
    assert (front != images()).any()
    torch.testing.assert_close(wrist, images(), atol=0, rtol=0)
    with pytest.raises(ValueError, match="wrist"):
        augmentation.smallest_shares(("front",))


@pytest.mark.parametrize("settings", [{"crop": 0.0}, {"crop": 1.1}, {"color_jitter": 1.0}])
def test_impossible_strengths_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Augmentation(**settings)
