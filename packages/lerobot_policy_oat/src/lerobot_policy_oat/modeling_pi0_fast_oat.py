"""LeRobot's `pi0_fast` that generates a fixed number of action tokens and decodes them all.

    images, prompt ── <bos> "Action: " ── token ── token ── ... ── token ──> tokenizer.decode
                                          only ids of the action vocabulary

`pi0_fast` samples any ids for hundreds of steps, looks for the text around the tokens and decodes
FAST by hand, with zeros where that fails. Here the text is given, nothing but action ids can be
sampled, and every sequence of them is a chunk.

Shape letters: B batch, L slots, K token slot, N text vocabulary, V action vocabulary, D width.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.pi0_fast.modeling_pi0_fast import PI0FastPolicy, PI0FastPytorch
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.utils.constants import (
    OBS_LANGUAGE_ATTENTION_MASK,
    OBS_LANGUAGE_TOKENS,
    OPENPI_ATTENTION_MASK_VALUE,
)
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoTokenizer
from transformers.utils import cached_file

from lerobot_policy_oat.checkpoints import checkpoint_folder
from lerobot_policy_oat.configuration_pi0_fast_oat import PI0FastOATConfig
from lerobot_policy_oat.processor_pi0_fast_oat import ACTION_LEAD
from lerobot_policy_oat.versions import PALIGEMMA_LAYERS, embed_text

TOKENIZER_FOLDER = "action_tokenizer"
"""Folder of a checkpoint in which the tokenizer travels with the policy."""


class PI0FastOATPolicy(PI0FastPolicy):
    """The policy type `pi0_fast_oat`.

    Args:
        config: Configuration with the features of the dataset.
        kwargs: Further arguments that LeRobot gives to all policies.
    """

    config_class = PI0FastOATConfig
    name = "pi0_fast_oat"
    _fsdp_wrap_modules: ClassVar[list[str]] = PALIGEMMA_LAYERS

    def __init__(self, config: PI0FastOATConfig, **kwargs: Any) -> None:
        # not PI0FastPolicy's own, which loads a FAST tokenizer
        PreTrainedPolicy.__init__(self, config)
        config.validate_features()
        self.action_tokenizer = config.open_tokenizer()
        self._paligemma_tokenizer = AutoTokenizer.from_pretrained(
            config.text_tokenizer_name, add_eos_token=True, add_bos_token=False
        )
        self._require_room()
        self.init_rtc_processor()
        self.model = PI0FastPytorch(
            config,
            rtc_processor=self.rtc_processor,
            paligemma_tokenizer=self._paligemma_tokenizer,
        )
        if config.gradient_checkpointing:
            self.model.gradient_checkpointing_enable()
        if config.weights_path is not None:
            self._take_weights(config.weights_path)
            config.weights_path = None
        self.model.to(config.device)
        self.reset()

    def reset(self) -> None:
        """An episode begins: its actions and the random numbers of a seed begin again."""
        super().reset()
        seed = self.config.seed
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)

    @torch.no_grad()
    def predict_action_chunk(self, batch: dict[str, Any], **kwargs: Any) -> Tensor:
        """The chunks that follow an observation, (B, chunk_size, action_dim)."""
        self.eval()
        images, image_masks = self._preprocess_images(batch)
        ids_BK = self._generate(
            images, image_masks, batch[OBS_LANGUAGE_TOKENS], batch[OBS_LANGUAGE_ATTENTION_MASK]
        )
        self.action_tokenizer.to(ids_BK.device)
        return self.action_tokenizer.decode(ids_BK)

    def _generate(
        self, images: list[Tensor], image_masks: list[Tensor], prompt_BL: Tensor, mask_BL: Tensor
    ) -> Tensor:
        """Action ids, (B, K)."""
        num_rows, device = len(prompt_BL), prompt_BL.device
        lead = [self._paligemma_tokenizer.bos_token_id]
        lead += self._paligemma_tokenizer.encode(ACTION_LEAD, add_special_tokens=False)
        lead_BL = torch.tensor(lead, device=device).expand(num_rows, -1)
        inputs_BLD, is_real_BL, mask_BLL, _, _ = self.model.embed_prefix_fast(
            images,
            image_masks,
            prompt_BL,
            mask_BL,
            fast_action_tokens=lead_BL,
            fast_action_masks=torch.ones_like(lead_BL, dtype=torch.bool),
        )
        positions_BL = torch.cumsum(is_real_BL, dim=1) - 1
        vlm, cache, ids = self.model.paligemma_with_expert, None, []
        num_tokens = self.config.budget or self.action_tokenizer.max_tokens
        dtype = vlm.paligemma.lm_head.weight.dtype
        for k in range(num_tokens):
            (hidden_BLD, _), cache = vlm.forward(
                attention_mask=torch.where(mask_BLL[:, None], 0.0, OPENPI_ATTENTION_MASK_VALUE).to(
                    dtype
                ),
                position_ids=positions_BL,
                past_key_values=cache,
                inputs_embeds=[inputs_BLD.to(dtype), None],
                use_cache=True,
                adarms_cond=[None, None],
            )
            ids.append(self._choose(vlm.paligemma.lm_head(hidden_BLD[:, -1])))
            if k + 1 < num_tokens:
                inputs_BLD = embed_text(vlm, self._text_id(ids[-1])[:, None])
                is_real_BL = torch.cat([is_real_BL, is_real_BL.new_ones(num_rows, 1)], dim=1)
                mask_BLL, positions_BL = is_real_BL[:, None], positions_BL[:, -1:] + 1
        return torch.stack(ids, dim=1)

    def _choose(self, logits_BN: Tensor) -> Tensor:
        """One action id of every row, (B,), from logits over the text vocabulary."""
        first = self._text_id(self.action_tokenizer.vocab_size - 1)
        logits_BV = logits_BN[:, first : self._text_id(0) + 1].flip(-1).float()
        uniform_B1 = torch.rand(len(logits_BV), 1, generator=self._generator).to(logits_BV.device)
        return self.config.sampling.choose(logits_BV[:, None], uniform_B1)[:, 0]

    def _text_id(self, action_id: Any) -> Any:
        """The id of the text vocabulary for an action id: counted from its end backwards, as in
        `pi0_fast`, so that the same function gives the action id of a text id."""
        return self._paligemma_tokens_to_act_tokens(action_id)

    def _require_room(self) -> None:
        num_ids = self.action_tokenizer.vocab_size
        if self._text_id(num_ids - 1) < 0:
            raise ValueError(
                f"{num_ids} action ids do not fit into the {self._paligemma_tokenizer.vocab_size} "
                f"ids of {self.config.text_tokenizer_name}"
            )
        budget = self.config.budget
        if budget is not None:
            self.action_tokenizer.decode([[0] * budget])  # raises where it is impossible

    # The artifact

    def _take_weights(self, checkpoint: str) -> None:
        state = load_file(cached_file(checkpoint, "model.safetensors"))
        named = {k if k.startswith("model.") else f"model.{k}": v for k, v in state.items()}
        self.load_state_dict(self._fix_pytorch_state_dict_keys(named, self.config))

    def _save_pretrained(
        self, save_directory: Path, state_dict: dict[str, Tensor] | None = None
    ) -> None:
        """Write the weights, or those that LeRobot 0.6 gathered from several processes."""
        gathered = {} if state_dict is None else {"state_dict": state_dict}
        super()._save_pretrained(save_directory, **gathered)
        self.action_tokenizer.save_pretrained(save_directory / TOKENIZER_FOLDER)

    @classmethod
    def from_pretrained(
        cls, pretrained_name_or_path: str | Path, *, config: Any = None, **options: Any
    ) -> PI0FastOATPolicy:
        """Open a checkpoint of this type with its tokenizer.

        The weights must fit, whatever `strict` is: LeRobot's own method goes on with random ones.
        """
        folder = checkpoint_folder(pretrained_name_or_path, options)
        kind = json.loads((folder / "config.json").read_text()).get("type")
        if kind != cls.name:
            raise ValueError(
                f"{pretrained_name_or_path} is of type {kind}, whose pipelines have other tokens: "
                f"start from its weights with --policy.weights_path={pretrained_name_or_path}"
            )
        config = config or PreTrainedConfig.from_pretrained(folder)
        config.action_tokenizer_name = str(folder / TOKENIZER_FOLDER)
        policy = cls(config)
        policy._take_weights(str(folder))
        return policy.eval()
