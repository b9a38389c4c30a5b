"""Raw chunks as a network computes with them.

Shape letters: B chunk, T step in the chunk, A action dimension.
"""

from __future__ import annotations

import torch
from torch import Tensor

from oatkit.data import Normalizer
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.observation.observations import Observations
from oatkit.tokenizers.codec import to_shape


def normalized_actions(
    actions: Normalizer,
    spec: ObservationSpec,
    observations: Observations,
    actions_BTA: Tensor,
    is_pad_BT: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """Normalized chunks and which of their steps are padding; those of a robot among others have
    as many steps as the network's.

    Args:
        actions: Raw to normalized actions.
        spec: What the policy observes.
        observations: What was observed before the chunks.
        actions_BTA: The chunks, raw units.
        is_pad_BT: bool, steps past the end of an episode; None if there are none.
    """
    normal_BTA = actions.normalize(actions_BTA, spec.start_state(observations))
    if spec.embodiment is None:
        return normal_BTA, is_pad_BT
    num_steps = spec.embodiment.chunk_shape[0]
    if is_pad_BT is not None:
        ends = torch.linspace(0, is_pad_BT.shape[1] - 1, num_steps)
        is_pad_BT = is_pad_BT[:, ends.round().long().to(is_pad_BT.device)]
    return to_shape(normal_BTA, (num_steps, normal_BTA.shape[2])), is_pad_BT
