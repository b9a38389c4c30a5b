"""What differs between versions of LeRobot, on whichever the tests run."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers", reason="pi0_fast needs transformers")
from tests.lerobot_policy_oat.small_pi0_fast import LEAD, make_config, make_policy, observation


@pytest.mark.usefixtures("small_network")
def test_a_generated_token_is_embedded_as_in_training(folders: dict[str, str]) -> None:
    from lerobot_policy_oat.versions import embed_text

    policy, batch = make_policy(make_config(folders)), observation()
    lead = torch.tensor([LEAD] * 3)
    inputs_BLD = policy.model.embed_prefix_fast(
        *policy._preprocess_images(batch),
        batch["observation.language.tokens"],
        batch["observation.language.attention_mask"],
        lead,
        torch.ones_like(lead, dtype=torch.bool),
    )[0]
    embedded_BLD = embed_text(policy.model.paligemma_with_expert, lead)
    torch.testing.assert_close(embedded_BLD, inputs_BLD[:, -3:])
