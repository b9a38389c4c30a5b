"""Text to ids and images to pixels, by the tokenizer and the image processor of a checkpoint.

Both run in the processes that read data. There, images are only resized and
stay uint8, a quarter of the bytes of floats; the backbone normalizes them on its device.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oatkit.nn.frame_resizing import resize_frames
from oatkit.policies.vlm.backbones.family import Family
from oatkit.policies.vlm.backbones.prompt import Part

MAX_TASK_TOKENS = 128
"""Maximum number of tokens of an instruction."""
RESIZING_MODES = {1: "lanczos", 2: "bilinear", 3: "bicubic"}
"""Pillow's numbers of filters to torch's names."""
MAX_RESIZING_ERROR = 2
"""Levels of 256 by which Pillow and torch may differ, which round at other places."""
MIDDLE_COLORS = (64, 192)
"""Levels from which no filter leads out of 0 to 255, which both would cut off at other places."""


class Processor:
    """A tokenizer and an image processor of `transformers`.

    Args:
        family: Family of the model.
        tokenizer: Tokenizer of the checkpoint.
        images: Image processor of the checkpoint, the implementation without torchvision.
        config: Config of the model.

    Attributes:
        num_text_tokens: Number of tokens of the checkpoint, before action tokens are added.
    """

    def __init__(self, family: Family, tokenizer: Any, images: Any, config: Any) -> None:
        self.family = family
        self.tokenizer = tokenizer
        self.images = images
        self.config = config
        self.num_text_tokens = len(tokenizer)

    def image_statistics(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the colors of uint8 images, (3, 1, 1) each."""
        scale = self.images.rescale_factor if self.images.do_rescale else 1.0
        mean, std = [0.0] * 3, [1.0] * 3
        if self.images.do_normalize:
            mean, std = self.images.image_mean, self.images.image_std
        mean_311, std_311 = (torch.tensor(colors).view(3, 1, 1) / scale for colors in (mean, std))
        return mean_311, std_311

    def add_action_tokens(self, vocab_size: int, *, has_end: bool) -> None:
        """Add the action tokens to the vocabulary, with consecutive ids."""
        names = action_token_names(vocab_size, has_end=has_end)
        known = self.tokenizer.get_vocab()
        taken = [name for name in names if name in known]
        if taken:
            raise ValueError(
                f"the backbone's vocabulary already has {taken[0]!r}: start from a checkpoint "
                "without action tokens"
            )
        self.tokenizer.add_tokens(names, special_tokens=True)

    def parts(self, sizes: Sequence[tuple[int, int]], num_states: int) -> list[Part]:
        """The prompt with an image of each size (height, width)."""
        images = [(self.num_image_slots(size), self.grid(size)) for size in sizes]
        return self.family.parts(self.tokenizer, images, num_states)

    def grid(self, size: tuple[int, int]) -> tuple[int, int] | None:
        """Rows and columns of the slots of an image of this size; see `Family.image_grid`."""
        return self.family.image_grid(self.images, size)

    def num_image_slots(self, size: tuple[int, int]) -> int:
        """Number of slots of an image of this size (height, width)."""
        blank = torch.zeros(1, 3, *size, dtype=torch.uint8)
        return self.family.num_image_slots(self.config, self.pixels(blank).shape[1:])

    def task_ids(self, tasks: Sequence[str], *, has_images: bool) -> Tensor:
        """Ids (B, L) of the instructions; -1 is padding behind the shorter ones.

        The name of a special token in an instruction is tokenized as plain text, so that it neither
        ends the message nor stands for an action.
        """
        texts = [self.family.task_text(task, has_images) for task in tasks]
        found = self.tokenizer(texts, add_special_tokens=False, split_special_tokens=True)
        lengths = [len(ids) for ids in found["input_ids"]]
        longest = max(lengths)
        if longest > MAX_TASK_TOKENS:
            raise ValueError(
                f"an instruction has {longest} tokens, expected at most {MAX_TASK_TOKENS}: it "
                f"begins {tasks[lengths.index(longest)][:40]!r}"
            )
        rows = [[*ids, *[-1] * (longest - len(ids))] for ids in found["input_ids"]]
        return torch.tensor(rows, dtype=torch.int64)

    def pixels(self, images_N3HW: Tensor) -> Tensor:
        """The images as the model sees them, (N, 3, height, width): still uint8, not normalized."""
        found = self.images(
            list(images_N3HW.numpy()),
            do_rescale=False,
            do_normalize=False,
            return_tensors="pt",
            input_data_format="channels_first",
            **self.family.image_options(),
        )
        return self.family.resized_images(self.images, found).to(torch.uint8)

    @property
    def resizing_mode(self) -> str:
        """How the image processor weights pixels, in torch's words; empty where torch cannot."""
        return RESIZING_MODES.get(int(getattr(self.images, "resample", None) or 0), "")

    def resized(self, size: tuple[int, int]) -> tuple[int, int] | None:
        """Height and width that images of a size get from `pixels`; None where resizing them by
        `resize_frames` gives something else."""
        rng = np.random.default_rng(0)
        noise = rng.integers(*MIDDLE_COLORS, size=(1, *size, 3), dtype=np.uint8)
        wanted_3HW = self.pixels(torch.from_numpy(noise).permute(0, 3, 1, 2))[0]
        made = (wanted_3HW.shape[1], wanted_3HW.shape[2])
        try:
            found_HWC = resize_frames(noise, sizes={size: made}, mode=self.resizing_mode)[0]
        except (NotImplementedError, ValueError):  # a mode that this version of torch lacks
            return None
        error = np.abs(found_HWC.astype(int) - wanted_3HW.permute(1, 2, 0).numpy())
        return made if error.max() <= MAX_RESIZING_ERROR else None

    def save_pretrained(self, folder: Path) -> None:
        """Write config, tokenizer and image processor: a checkpoint without weights."""
        for thing in (self.config, self.tokenizer, self.images):
            thing.save_pretrained(folder)


def action_token_names(vocab_size: int, *, has_end: bool) -> list[str]:
    """Names of the codes, then of the end symbol if there is one, then of the mask."""
    codes = [f"<|action_{code}|>" for code in range(vocab_size)]
    return [*codes, *(["<|action_end|>"] if has_end else []), "<|action_mask|>"]
