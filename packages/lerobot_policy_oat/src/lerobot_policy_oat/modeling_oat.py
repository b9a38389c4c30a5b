"""oatkit's light policy, on tokens or with a flow head, as a policy of LeRobot: it trains, it
acts, and both open its folder.

    config.json          LeRobot's        oatkit.json   oatkit's
    model.safetensors    the weights      tokenizer/    with its normalizer

`oatkit.load_policy`, `oatkit serve` and `oatkit policy eval` open the same folder.

Shape letters: B batch, R row whose chunk is due, D draw, T step in the chunk, A action dimension.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.pretrained import PreTrainedPolicy
from lerobot.utils.constants import ACTION
from oatkit import load_policy
from oatkit.nn.sample_random import SampleRandom
from oatkit.nn.weight_loading import WithoutWeights, place_weights
from oatkit.policies import LightConfig, LightFlowConfig, Policy, Prediction
from oatkit.policies.generation.budget_limits import policy_budget
from oatkit.policies.generation.committed_actions import takes_committed
from oatkit.policies.observation.frame_history import FrameHistory
from oatkit.storage.artifact import CONFIG_BESIDE_LEROBOT, replacing
from oatkit.types import Execution, Tokens
from oatkit.types.observation_keys import STATE, TASK
from torch import Tensor, nn

from lerobot_policy_oat.batch_plans import BatchPlans, committed_by_lerobot, warning_of_jumps
from lerobot_policy_oat.checkpoints import checkpoint_folder
from lerobot_policy_oat.configuration_oat import FLOW_SETTINGS, OATConfig
from lerobot_policy_oat.new_policy import camera_key, dataset_tasks, make_light, new_policy

logger = logging.getLogger(__name__)

IS_PAD = f"{ACTION}_is_pad"
"""Key of LeRobot for which steps of a chunk lie past the end of an episode."""


class OATPolicy(PreTrainedPolicy):
    """The policy type `oat`.

    Args:
        config: Configuration with the features of the dataset.
        dataset_stats: Statistics of the dataset by feature, by which a new policy normalizes its
            state.
        dataset_meta: LeRobot's description of the dataset, from which a new policy has its tasks.
        light: Policy to wrap; a new one by default.
    """

    config_class = OATConfig
    name = "oat"
    _fsdp_wrap_modules: ClassVar[list[str]] = ["SelfAttention", "CrossAttention", "Mlp"]

    def __init__(
        self,
        config: OATConfig,
        dataset_stats: Mapping[str, Mapping[str, Any]] | None = None,
        dataset_meta: Any = None,
        *,
        light: Policy | None = None,
    ) -> None:
        super().__init__(config)
        config.validate_features()
        self.light = light or new_policy(config, dataset_stats or {}, dataset_meta)
        self.net: nn.Module = self.light.net
        self.config = _completed(config, self.light)
        self._keys = {camera_key(key): key for key in config.image_features}
        self._has_warned = False
        self.reset()

    def get_optim_params(self) -> Iterator[nn.Parameter]:
        return self.net.parameters()

    def reset(self) -> None:
        """An episode begins: frames and chunks of the one before are forgotten."""
        self._history: FrameHistory[dict[str, Any]] = FrameHistory(self.config.n_obs_steps)
        self._plans: BatchPlans | None = None
        seed = self.config.seed
        self._generator = None if seed is None else torch.Generator().manual_seed(seed)

    def forward(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, float]]:
        """The training loss, and what to log."""
        light, actions_BTA, is_pad_BT = self.light, batch[ACTION], batch.get(IS_PAD)
        device, count = actions_BTA.device, len(actions_BTA)
        observations = light.read(self._observation(batch))
        tokens = self._tokens(actions_BTA, light.spec.start_state(observations))
        observations = observations.to(device)
        if self.training:
            random = SampleRandom(torch.randint(2**62, (count,), device=device))
            loss = light.loss(observations, tokens, actions_BTA, random, is_pad_BT).total
        elif light.head == "tokens":
            loss = light.loss(observations, tokens, actions_BTA, None, is_pad_BT).total
        else:  # the same times and noises at every call
            random = SampleRandom(torch.arange(count, device=device))
            loss = light.flow_loss(observations, actions_BTA, random, is_pad_BT)
        return loss, {"loss": loss.item()}

    @torch.no_grad()
    def predict_action_chunk(self, batch: dict[str, Any], **kwargs: Any) -> Tensor:
        """The chunks that follow one frame of every environment, (B, T, A) in raw units.

        LeRobot's real-time chunking gives `prev_chunk_left_over`, what is left of the chunk under
        way, and `inference_delay`, how many steps of it are executed before the new chunk acts;
        the new chunk then begins with these. A policy that cannot do that warns once. The draws of
        the configuration are for `select_action`.
        """
        self._history.add(self._observation(batch))
        committed = committed_by_lerobot(kwargs)
        if committed is not None and not takes_committed(self.light):
            self._warn_of_jumps()
            committed = None
        return self._predict(committed=committed).chunk

    @torch.no_grad()
    def select_action(self, batch: dict[str, Any], **kwargs: Any) -> Tensor:
        """The next action of every environment, (B, A) in raw units."""
        observation = self._observation(batch)
        self._history.add(observation)
        tensor = next(value for value in observation.values() if isinstance(value, Tensor))
        if self._plans is None:
            scale_A = self.light.tokenizer.raw_normalizer.scale
            self._plans = BatchPlans(self._execution(), scale_A, len(tensor))
        if self._plans.due:
            found = self._predict(self._plans.due, draws=self.config.draws)
            draws_RDTA = found.chunk[:, None] if found.draws is None else found.draws
            worth = None if found.execute_steps is None else found.execute_steps.tolist()
            self._plans.add(draws_RDTA, worth)
        return self._plans.take().to(tensor.device)

    def _warn_of_jumps(self) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        if self.light.head == "flow":
            logger.warning(
                "chunks of a flow head do not go on from the one under way: expect jumps, or take "
                "head=tokens"
            )
        else:
            logger.warning(warning_of_jumps(self.light.tokenizer.kind))

    def _observation(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """What the policy reads of a batch, under oatkit's keys."""
        named = {key: batch[theirs] for key, theirs in self._keys.items() if theirs in batch}
        named |= {key: batch[key] for key in (STATE, TASK) if key in batch}
        return self.light.spec.select(named)

    def _tokens(self, actions_BTA: Tensor, state_BS: Tensor | None) -> Tokens:
        """The actions, encoded in full precision, as ordinary tensors that a loss can keep; no
        tokens for a flow head.

        Args:
            actions_BTA: Chunks in raw units.
            state_BS: Raw states at which they start, for actions that are relative to them.
        """
        if self.light.head == "flow":
            return Tokens.full(torch.zeros(len(actions_BTA), 0, dtype=torch.int64))
        self.light.tokenizer.to(actions_BTA.device)
        with torch.autocast(actions_BTA.device.type, enabled=False):
            tokens = self.light.tokenizer.encode(actions_BTA, state_BS)
        return Tokens(tokens.ids.clone(), tokens.lengths.clone())

    def _execution(self) -> Execution:
        """How chunks become actions; raises where that is up to a policy that does not know it."""
        execution = self.config.execution
        if execution.steps == "auto" and self.light.execution is None:
            raise ValueError(
                "n_action_steps is 'auto', but this policy does not know how many steps are worth "
                "executing: `oatkit policy calibrate CHECKPOINT --data DATA --split all` finds "
                "it, or give a number"
            )
        return execution

    def _predict(
        self, rows: Sequence[int] | None = None, draws: int = 1, committed: Tensor | None = None
    ) -> Prediction:
        """The chunks that follow the last frames of some environments, of all by default.

        Args:
            rows: Numbers of the environments.
            draws: Number of chunks for each.
            committed: Actions that are executed before the chunks act, (steps, action_dim), or
                (B, steps, action_dim), in raw units.
        """
        frames = self._history.frames()
        chosen = slice(None) if rows is None else list(rows)
        observation: dict[str, Any] = {
            key: torch.stack([frame[key][chosen] for frame in frames], dim=1)
            for key in frames[-1]
            if key != TASK
        }
        if TASK in frames[-1]:
            tasks = frames[-1][TASK]
            observation[TASK] = tasks if rows is None else [tasks[row] for row in rows]
        self.light.tokenizer.to(self.light.device)
        return self.light.predict_action_chunk(
            observation,
            budget=self.config.asked_budget,
            sampling=self.config.sampling,
            generator=self._generator,
            draws=draws,
            committed=committed,
        )

    # The artifact

    def _save_pretrained(
        self, save_directory: Path, state_dict: dict[str, Tensor] | None = None
    ) -> None:
        """Write the folder, with the weights that LeRobot 0.6 gathered from several processes where
        it did."""
        light = self.light if state_dict is None else self._light_with(state_dict)
        with replacing(Path(save_directory)) as aside:
            light.save_pretrained(aside)
            (aside / "config.json").rename(aside / CONFIG_BESIDE_LEROBOT)
            self.config._save_pretrained(aside)

    def _light_with(self, state_dict: dict[str, Tensor]) -> Policy:
        """A copy of the light policy with the weights of another state of this policy."""
        light = self.light
        with WithoutWeights():
            copy = make_light(self.config.light_config, light.tokenizer, light.spec)
        copy.auto, copy.execution, copy.extras = light.auto, light.execution, light.extras
        state = {key.removeprefix("net."): value for key, value in state_dict.items()}
        place_weights(copy.net, state, dtype=None, device=torch.device("cpu"))
        return copy

    @classmethod
    def from_pretrained(
        cls,
        pretrained_name_or_path: str | Path,
        *,
        config: OATConfig | None = None,
        dataset_stats: Mapping[str, Mapping[str, Any]] | None = None,
        dataset_meta: Any = None,
        **options: Any,
    ) -> OATPolicy:
        """Open a folder, or a repository of the hub by its id; further tasks of a dataset are added
        to those of the policy.

        The arguments are LeRobot's. The weights must always fit, whatever `strict` is.
        """
        folder = checkpoint_folder(pretrained_name_or_path, options)
        if config is None:
            config = PreTrainedConfig.from_pretrained(folder)
        if config.tokenizer_path is not None:
            raise ValueError(
                f"{pretrained_name_or_path} has its own tokenizer: leave "
                "--policy.tokenizer_path out"
            )
        light = load_policy(folder)
        if light.kind not in (LightConfig.kind, LightFlowConfig.kind):
            raise ValueError(f"{pretrained_name_or_path} is {light.kind}, expected a light policy")
        tasks = () if dataset_meta is None else dataset_tasks(dataset_meta)
        if not set(tasks) <= set(light.spec.tasks):
            extras, light = light.extras, light.with_tasks(tasks)
            light.extras = extras
        policy = cls(config, light=light)
        policy.to(config.device)
        policy.eval()
        return policy


def _completed(config: OATConfig, light: Policy) -> OATConfig:
    """The configuration with what the policy determines; raises where the two differ."""
    horizon = light.tokenizer.horizon
    if config.chunk_size not in (None, horizon):
        raise ValueError(
            f"chunk_size is {config.chunk_size}, the tokenizer's horizon is {horizon}: leave "
            "--policy.chunk_size out"
        )
    steps = max(1, horizon // 2) if config.n_action_steps is None else config.n_action_steps
    if isinstance(steps, int) and not 1 <= steps <= horizon:
        raise ValueError(f"n_action_steps is {steps}, expected 1 to {horizon}, the chunk's steps")
    if config.n_obs_steps != light.spec.history:
        raise ValueError(
            f"n_obs_steps is {config.n_obs_steps}, the policy reads {light.spec.history} frames"
        )
    if config.head != light.head:
        raise ValueError(
            f"head is {config.head!r}, the policy has {light.head!r}: leave --policy.head out"
        )
    if config.light_config != light.net.config:
        names = ["net", *(FLOW_SETTINGS if config.head == "flow" else ())]
        flags = ", ".join(f"--policy.{name}" for name in names)
        raise ValueError(f"the policy has its own network: leave {flags} out")
    config.tokenizer_path, config.chunk_size, config.n_action_steps = None, horizon, steps
    _ = config.execution, policy_budget(light, config.asked_budget)  # which raise if they are none
    return config
