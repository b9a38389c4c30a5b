"""The slots of a context: text, images, the instruction and the robot's state in a row.

A family says in which order they come; positions follow from what is there. A slot that does not
count (padding of the instruction, a camera that is missing) is seen by no slot and takes no
position, so the others are as if it were not there.

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
        kind: `task` is the instruction, whose ids come with every sample.
        ids: What text slots hold, in the backbone's vocabulary.
        num_slots: Of images and states.
        image: The image that the slots belong to: they count where it is seen. Text around an
            image has it too.
        grid: Rows and columns of an image's slots, where positions are two-dimensional.
    """

    kind: Literal["text", "task", "image", "state"]
    ids: tuple[int, ...] = ()
    num_slots: int = 0
    image: int | None = None
    grid: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.ids) or self.num_slots


def question(
    ids_of: Callable[[str], tuple[int, ...]],
    image_slots: Sequence[tuple[int, tuple[int, int] | None]],
    num_states: int,
    *,
    opening: str,
    user: str,
    around_image: tuple[str, str],
    answer: str,
) -> list[Part]:
    """The parts of a chat template with one question, the state after its text.

    Args:
        ids_of: Text to ids.
        image_slots: Slots of every image, and their grid.
        num_states: State slots.
        opening: Of the message.
        user: Who asks; without images the instruction's text says it.
        around_image: Text before and after every image.
        answer: Text that ends the question and opens the answer.
    """
    parts = [Part("text", ids_of(opening + user if image_slots else opening))]
    before, after = around_image
    for number, (slots, grid) in enumerate(image_slots):
        parts += [
            Part("text", ids_of(before), image=number),
            Part("image", num_slots=slots, image=number, grid=grid),
            Part("text", ids_of(after), image=number),
        ]
    parts.append(Part("task"))
    parts += [Part("state", num_slots=num_states)] if num_states else []
    return [*parts, Part("text", ids_of(answer))]


@dataclass(frozen=True, eq=False)
class Slots:
    """Which slots of a context count, and where they are.

    Attributes:
        is_real: (B, S) bool.
        is_image: (S,) bool.
        positions: (3, B, S) int64: time, row, column; all the same outside images.
        length: (B,) the position after the last.
    """

    is_real: Tensor
    is_image: Tensor
    positions: Tensor
    length: Tensor


def lay_out(parts: Sequence[Part], task_BL: Tensor, is_seen_BN: Tensor, first: int) -> Slots:
    """The slots of a batch.

    Args:
        parts: Of the prompt, in order.
        task_BL: Ids of the instructions, -1 where there is none.
        is_seen_BN: bool, which images are there.
        first: The position of the first slot.
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
