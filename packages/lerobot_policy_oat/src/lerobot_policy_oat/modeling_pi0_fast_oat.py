"""LeRobot's `pi0_fast` that generates a fixed number of action tokens and decodes them all.

    images, prompt ── <bos> "Action: " ── token ── token ── ... ── token ──> tokenizer.decode
                                          only ids of the action vocabulary

`pi0_fast` samples any ids for hundreds of steps, looks for the text around the tokens and decodes
FAST by hand, with zeros where that fails. Here the text is given, nothing but action ids can be
sampled, and every sequence of them is a chunk.

Shape letters: B batch, R row that is generated (draw after draw), L slots, K token slot, N text
vocabulary, V action vocabulary, D width.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.pi0_fast.modeling_pi0_fast import PI0FastPolicy, PI0FastPytorch
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.utils.constants import (
    OBS_LANGUAGE_ATTENTION_MASK,
    OBS_LANGUAGE_TOKENS,
    OPENPI_ATTENTION_MASK_VALUE,
)
from oatkit.policies.generation.committed_actions import (
    CommittedActions,
    can_commit,
    read_committed,
)
from oatkit.policies.generation.random_rows import random_draws
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoTokenizer
from transformers.utils import cached_file

from lerobot_policy_oat.batch_plans import BatchPlans, committed_by_lerobot, warning_of_jumps
from lerobot_policy_oat.checkpoints import checkpoint_folder
from lerobot_policy_oat.configuration_pi0_fast_oat import PI0FastOATConfig
from lerobot_policy_oat.processor_pi0_fast_oat import ACTION_LEAD
from lerobot_policy_oat.versions import PALIGEMMA_LAYERS, embed_text

logger = logging.getLogger(__name__)

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
        self._has_warned = False
        self.reset()

    def reset(self) -> None:
        """An episode begins: its chunks and the random numbers of a seed begin again."""
        super().reset()
        self._plans: BatchPlans | None = None
        seed = self.config.seed
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)

    @torch.no_grad()
    def predict_action_chunk(self, batch: dict[str, Any], **kwargs: Any) -> Tensor:
        """The chunks that follow an observation, (B, chunk_size, action_dim).

        Under LeRobot's real-time chunking (see `committed_by_lerobot`) they begin with what is
        executed before they act, as near as their tokens come. With a tokenizer whose prefixes do
        not decode they do not, and the policy warns once. The draws of the configuration are for
        `select_action`.
        """
        committed = committed_by_lerobot(kwargs)
        if committed is not None and not can_commit(self.action_tokenizer):
            if not self._has_warned:
                logger.warning(warning_of_jumps(self.action_tokenizer.kind))
            self._has_warned, committed = True, None
        return self._predict(batch, 1, committed)[0]

    @torch.no_grad()
    def select_action(self, batch: dict[str, Tensor], **kwargs: Any) -> Tensor:
        """The next action of every environment, (B, action_dim)."""
        if getattr(self.config.rtc_config, "enabled", False):
            raise ValueError(
                "rtc_config is for predict_action_chunk, which real-time chunking calls: leave it "
                "out where actions are asked for one by one"
            )
        prompt_BL = batch[OBS_LANGUAGE_TOKENS]
        if self._plans is None:
            tokenizer = self.action_tokenizer
            scale_A = 1.0 if tokenizer.normalized_input else tokenizer.raw_normalizer.scale
            self._plans = BatchPlans(self.config.execution, scale_A, len(prompt_BL))
        if self._plans.due:  # all of them, since they execute as many steps
            self._plans.add(self._predict(batch, self.config.draws).transpose(0, 1))
        return self._plans.take().to(prompt_BL.device)

    def _predict(
        self, batch: dict[str, Tensor], num_draws: int, committed: Tensor | None = None
    ) -> Tensor:
        """Chunks that follow an observation, (num_draws, B, chunk_size, action_dim).

        Args:
            batch: What is observed.
            num_draws: Number of chunks; the first is as it would be alone, the others have random
                numbers of their own, and sample where the configuration is greedy.
            committed: Actions that chunks begin with, (steps, action_dim) for every row, or
                (B, steps, action_dim).
        """
        self.eval()
        prompt_BL = batch[OBS_LANGUAGE_TOKENS]
        tokenizer, num_rows = self.action_tokenizer.to(prompt_BL.device), len(prompt_BL)
        told = None
        if committed is not None:
            actions_BPA = read_committed(tokenizer, committed, num_rows, None)
            actions_RPA = actions_BPA.repeat(num_draws, 1, 1).to(prompt_BL.device)
            told = CommittedActions(tokenizer, actions_RPA, self._num_tokens)
        context = self._read(batch, num_draws)
        chunks_RTA = tokenizer.decode(self._generate(*context, num_rows, told))
        return chunks_RTA.reshape(num_draws, num_rows, *chunks_RTA.shape[1:])

    def _read(self, batch: dict[str, Tensor], num_draws: int) -> tuple[Tensor, Tensor, Tensor]:
        """The network's inputs (R, L, D), which of them are real (R, L), and which may see which,
        (R, L, L). Images are encoded once for all draws."""
        images, image_masks = self._preprocess_images(batch)
        prompt_BL, mask_BL = batch[OBS_LANGUAGE_TOKENS], batch[OBS_LANGUAGE_ATTENTION_MASK]
        lead = [self._paligemma_tokenizer.bos_token_id]
        lead += self._paligemma_tokenizer.encode(ACTION_LEAD, add_special_tokens=False)
        lead_BL = torch.tensor(lead, device=prompt_BL.device).expand(len(prompt_BL), -1)
        inputs_BLD, is_real_BL, mask_BLL, _, _ = self.model.embed_prefix_fast(
            images,
            image_masks,
            prompt_BL,
            mask_BL,
            fast_action_tokens=lead_BL,
            fast_action_masks=torch.ones_like(lead_BL, dtype=torch.bool),
        )
        return (
            inputs_BLD.repeat(num_draws, 1, 1),
            is_real_BL.repeat(num_draws, 1),
            mask_BLL.repeat(num_draws, 1, 1),
        )

    def _generate(
        self,
        inputs_RLD: Tensor,
        is_real_RL: Tensor,
        mask_RLL: Tensor,
        num_rows: int,
        committed: CommittedActions | None,
    ) -> Tensor:
        """Action ids, (R, K).

        Args:
            inputs_RLD: Inputs of the network, draw after draw.
            is_real_RL: Which of them are no padding.
            mask_RLL: Which of them may see which.
            num_rows: Number of rows of a draw.
            committed: Actions that the chunks of the ids have to agree with.
        """
        positions_RL = torch.cumsum(is_real_RL, dim=1) - 1
        vlm, cache = self.model.paligemma_with_expert, None
        ids_RK = positions_RL[:, :0]
        dtype = vlm.paligemma.lm_head.weight.dtype
        for k in range(self._num_tokens):
            (hidden_RLD, _), cache = vlm.forward(
                attention_mask=torch.where(mask_RLL[:, None], 0.0, OPENPI_ATTENTION_MASK_VALUE).to(
                    dtype
                ),
                position_ids=positions_RL,
                past_key_values=cache,
                inputs_embeds=[inputs_RLD.to(dtype), None],
                use_cache=True,
                adarms_cond=[None, None],
            )
            logits_RV = self._action_logits(vlm.paligemma.lm_head(hidden_RLD[:, -1]))
            ids_R1 = self._choose(ids_RK, logits_RV, num_rows, committed)
            ids_RK = torch.cat([ids_RK, ids_R1], dim=1)
            if k + 1 < self._num_tokens:
                inputs_RLD = embed_text(vlm, self._text_id(ids_R1))
                is_real_RL = torch.cat([is_real_RL, torch.ones_like(is_real_RL[:, :1])], dim=1)
                mask_RLL, positions_RL = is_real_RL[:, None], positions_RL[:, -1:] + 1
        return ids_RK

    def _choose(
        self, ids_RK: Tensor, logits_RV: Tensor, num_rows: int, committed: CommittedActions | None
    ) -> Tensor:
        """The next action id of every row, (R, 1)."""
        sampling, num_draws = self.config.sampling, len(logits_RV) // num_rows
        uniform_R1 = random_draws(torch.rand, self._generator, num_rows, num_draws, 1)
        if num_draws > 1 and sampling.is_greedy:
            uniform_R1[:num_rows] = 0  # which chooses the likeliest id by rules that sample
            sampling = sampling.for_redraw
        given = logits_RV[:, None], uniform_R1.to(logits_RV.device)
        if committed is None:
            return sampling.choose(*given)
        return committed.choose(ids_RK, *given, sampling)

    def _action_logits(self, logits_RN: Tensor) -> Tensor:
        """Logits over the action ids, (R, V), of those over the text vocabulary."""
        first = self._text_id(self.action_tokenizer.vocab_size - 1)
        return logits_RN[:, first : self._text_id(0) + 1].flip(-1).float()

    @property
    def _num_tokens(self) -> int:
        """Number of tokens to generate."""
        return cast(int, self.config.budget or self.action_tokenizer.max_tokens)

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
