"""What networks read of a state."""

from __future__ import annotations

import torch

from oatkit.policies.observation.state_embedding import STATE_LIMIT, embed_state


@torch.no_grad()
def test_a_dimension_that_hardly_moved_cannot_drown_the_others() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 8)
    seen = torch.tensor([[0.5, -1.0, 1.0]])
    assert torch.equal(embed_state(layer, seen), layer(seen))
    nudged, limit = torch.tensor([[0.5, -1.0, 1200.0]]), torch.tensor([[0.5, -1.0, STATE_LIMIT]])
    assert torch.equal(embed_state(layer, nudged), layer(limit))
