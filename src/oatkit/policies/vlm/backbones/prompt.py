"""The slots of a context: text, images, the instruction and the robot's state in a row.

A family decides their order; positions follow from what is there. A slot that is not real (padding
of the instruction, or an image of a missing camera) is seen by no slot and takes no position, so
the other slots are computed as if it did not exist.

    slot        <image> x4   bos  open  the  door  \\n   state
    advances    0 0 0 2      1    1     1    1     1    1        with two-dimensional positions
    position    0 0 0 0      2    3     4    5     6    7
    + row       0 0 1 1
    + column    0 1 0 1

Shape letters: B batch, S slot, L slot of the instruction, N image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812


@dataclass(frozen=True)
class Part:
    """Successive slots of one kind.

    Attributes:
        kind: What the slots hold; `task` is the instruction, whose ids come with every sample.
        ids: Ids of text slots, in the backbone's vocabulary.
        num_slots: Number of slots of an image or of states.
        image: Index of the image that the slots belong to, also of text around it; the slots are
            real where that image is there.
        grid: Rows and columns of an image's slots; None where positions are one-dimensional.
    """

    kind: Literal["text", "task", "image", "state"]
    ids: tuple[int, ...] = ()
    num_slots: int = 0
    image: int | None = None
    grid: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.ids) or self.num_slots


def chat_prompt(
    to_ids: Callable[[str], tuple[int, ...]],
    image_slots: Sequence[tuple[int, tuple[int, int] | None]],
    num_states: int,
    *,
    opening: str,
    user: str,
    around_image: tuple[str, str],
    answer: str,
) -> list[Part]:
    """Parts of a chat template with one message of the user: images, the instruction, states.

    Args:
        to_ids: Function that gives the ids of a text.
        image_slots: Number of slots and grid of every image.
        num_states: Number of state slots.
        opening: Text that opens the message.
        user: Text that names the user; without images it is left to `Family.task_text`.
        around_image: Text before and after every image.
        answer: Text that ends the message and opens the answer.
    """
    parts = [Part("text", to_ids(opening + user if image_slots else opening))]
    before, after = around_image
    for number, (slots, grid) in enumerate(image_slots):
        parts += [
            Part("text", to_ids(before), image=number),
            Part("image", num_slots=slots, image=number, grid=grid),
            Part("text", to_ids(after), image=number),
        ]
    parts.append(Part("task"))
    parts += [Part("state", num_slots=num_states)] if num_states else []
    return [*parts, Part("text", to_ids(answer))]


@dataclass(frozen=True, eq=False)
class Slots:
    """The slots of a batch of contexts.

    Attributes:
        is_real: (B, S) bool, whether a slot takes part in attention.
        is_image: (S,) bool, whether a slot belongs to an image.
        positions: (3, B, S) int64: time, row and column, equal outside of images.
        length: (B,) position after the last slot.
    """

    is_real: Tensor
    is_image: Tensor
    positions: Tensor
    length: Tensor


def lay_out(parts: Sequence[Part], task_BL: Tensor, is_seen_BN: Tensor, first: int) -> Slots:
    """The slots of a batch of contexts.

    Args:
        parts: Parts of the prompt, in order.
        task_BL: Ids of the instructions; -1 is padding.
        is_seen_BN: bool, whether an image is there.
        first: Position of the first slot.
    """
    device = task_BL.device
    real, advances, offsets, is_image = [], [], [], []
    for part in parts:
        num_slots = task_BL.shape[1] if part.kind == "task" else len(part)
        step_S = torch.ones(num_slots, dtype=torch.int64, device=device)
        offset_3S = torch.zeros(3, num_slots, dtype=torch.int64, device=device)
        if part.grid is not None:
            rows, columns = part.grid
            slot_S = torch.arange(num_slots, device=device)
            offset_3S = torch.stack([slot_S * 0, slot_S // columns, slot_S % columns])
            step_S = step_S * 0
            step_S[-1] = max(rows, columns)
        if part.kind == "task":
            real.append(task_BL >= 0)
        elif part.image is not None:
            real.append(is_seen_BN[:, part.image, None].expand(-1, num_slots))
        else:
            real.append(torch.ones(len(task_BL), num_slots, dtype=torch.bool, device=device))
        advances.append(step_S)
        offsets.append(offset_3S)
        is_image.append(torch.full((num_slots,), part.kind == "image", device=device))
    is_real_BS = torch.cat(real, dim=1)
    advance_BS = torch.cat(advances) * is_real_BS
    before_BS = F.pad(advance_BS, (1, 0)).cumsum(dim=1)[:, :-1]
    positions_3BS = first + before_BS + torch.cat(offsets, dim=1)[:, None]
    length_B = first + advance_BS.sum(dim=1)
    return Slots(is_real_BS, torch.cat(is_image), positions_3BS, length_B)
