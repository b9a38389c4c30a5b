"""`oatkit policy train`: a dataset and a tokenizer in, a policy artifact out."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from tyro.conf import arg

from oatkit.commands.choices import PolicyName, PolicyPresetName, policy_help
from oatkit.commands.data_cautions import print_cautions, print_unseen
from oatkit.commands.dataset_options import Columns, DatasetOptions
from oatkit.commands.device_options import DeviceFlag, announce_device
from oatkit.commands.mixture_flags import measure_first, refuse_with_mixture
from oatkit.commands.sampling_options import DecodingFlag
from oatkit.commands.text_output import print_lines
from oatkit.commands.train_options import TrainFlags, TrainOptions
from oatkit.data import Dataset
from oatkit.data.mixture import Mixture, read_mixture
from oatkit.jobs.mixture_policy_training import train_mixture_policy
from oatkit.jobs.policy_training import train_policy
from oatkit.jobs.untrained_policy import policy_config
from oatkit.nn.device import Device
from oatkit.nn.image_augmentation import Augmentation
from oatkit.policies import LightFlowConfig, VlmConfig
from oatkit.policies.policy_table import POLICIES, policy_kind
from oatkit.policies.vlm.backbones.backbone_options import FREEZING, BackboneOptions
from oatkit.policies.vlm.vlm_config import STAGE
from oatkit.storage.artifact import config_file, local_folder
from oatkit.tokenizers import ActionTokenizer, load_tokenizer

OWN_FLAGS = (
    *("backbone", "tokenizer", "decoding", "cameras", "history", "horizon", "endpoints"),
    *("dropout", "code_smoothing", "offset_layers"),
)
"""Flags of what a policy to start from has already."""


@dataclass(frozen=True)
class TrainPolicy:
    """Train a policy on a tokenizer's tokens: light, or on a vision-language backbone.

    Example:
        oatkit policy train --data out/metaworld --tokenizer out/oat-pow2
            --state-key observation.environment_state --out out/policy
        oatkit policy train --data out/metaworld --tokenizer out/oat-pow2 --policy vlm-ar
            --backbone Qwen/Qwen3-VL-2B-Instruct --cameras corner2 --out out/vlm
        oatkit policy train --data out/metaworld=0.7,my_dataset=0.3 --tokenizer out/mixed
            --out out/robots
        oatkit policy train --data out/metaworld --init out/vlm --policy vlm-tc --expert-only
            --flow-draws 4 --out out/vlm-tc
    """

    data: Annotated[str, arg(metavar="PATH")]
    """Dataset: file, folder or hub id; or a mixture of several robots with the share of each,
    PATH=0.7,PATH=0.3, or a TOML file with a table for each."""
    out: Path
    """Where to write the artifact; a run that was stopped continues there."""
    tokenizer: Annotated[Path | None, arg(metavar="DIR")] = None
    """Tokenizer artifact; it is frozen and stored with the policy. For a mixture the folder with a
    tokenizer of each robot."""
    decoding: DecodingFlag = None
    policy: Annotated[PolicyName, arg(help=policy_help())] = "light"
    backbone: Annotated[str | None, arg(metavar="ID_OR_DIR")] = None
    """Vision-language checkpoint: folder or hub id."""
    preset: PolicyPresetName = "small"
    """Size and training recipe."""
    cameras: tuple[str, ...] = ()
    """Cameras to read; none by default. Of a mixture each robot reads those that it has."""
    state: Annotated[bool, arg(help_behavior_hint="(it is read by default)")] = True
    """Whether to read the state; use --no-state to leave it out."""
    history: int | None = None
    """Number of frames that are observed, the current one included; the preset's by default, which
    is 1, and 2 for the paper's light policy."""
    horizon: int = 32
    """Number of actions in a chunk, where no tokenizer says it (`light-flow`, `vlm-flow`)."""
    endpoints: tuple[int, ...] = ()
    """Generation schedule to train under; the tokenizer's own by default."""
    dropout: float | None = None
    """Share of each residual branch that training drops (light); the preset's by default."""
    code_smoothing: float | None = None
    """Standard deviation, in levels of a code, of the training targets around the true tokens
    (light on oat, quest and bin); 0 takes the true tokens alone. The preset's by default."""
    offset_layers: int | None = None
    """Number of layers of the head that corrects decoded chunks by what is observed (light); 0 acts
    by what the tokens decode to. The preset's by default."""
    held_out: float | None = None
    """Share of the episodes that is never trained on; the tokenizer's, else 0.1."""
    split_seed: int | None = None
    """Seed of which episodes those are; the tokenizer's, else 0."""
    workers: int | None = None
    """Number of processes that read and prepare batches ahead; the preset's by default."""
    run_length: int | None = None
    """Number of successive samples that are drawn together, so that their video is decoded once; 1
    by default. Neighbors are alike: a batch of runs teaches less than one of single samples."""
    init: Annotated[Path | None, arg(metavar="DIR")] = None
    """Start from this policy; its tokenizer, cameras, history, normalizer and adapters are kept. A
    vision-language policy may get another objective (`--policy`). How it was trained (flags such as
    --flow-draws, --crop, --freeze-vision and --dtype) is not inherited: say it again."""
    allow_drift: bool = False
    """Train even where the actions are not those that the tokenizer was fitted on."""
    merge_lora: bool = False
    """Add adapters (--lora-rank) to the weights when training ends; the policy is then float32 and
    has no adapters to train further."""
    flow_weight: float = 1.0
    """Weight of the flow loss beside the token loss (`vlm-tc`)."""
    flow_draws: int | None = None
    """Number of times and noises at which the flow loss of a chunk is computed, on one pass of the
    backbone, where 4 to 8 cost little; 1 by default, and 4 for `light-flow`."""
    expert_only: bool = False
    """Train the flow expert alone, on a backbone that stays as it is (`vlm-tc`, `vlm-flow`)."""
    expert_width: int | None = None
    """Width of the flow expert; the preset's by default."""
    expert_layers: int | None = None
    """Number of layers of the flow expert; as many as the backbone has by default."""
    expert_learning_rate: float | None = None
    """Learning rate of the flow expert; that of the rest by default."""
    expert_start: int | None = None
    """Number of first steps in which the flow expert does not learn, so that it starts on a
    backbone that tokens have trained (`vlm-tc`); 0 by default."""
    device: DeviceFlag = "auto"
    mask_padding: bool = False
    """Leave steps past the end of an episode out of the flow loss (`light-flow`, `vlm-tc`,
    `vlm-flow`)."""
    augmentation: Annotated[Augmentation, arg(name="")] = Augmentation()
    training: TrainFlags = TrainOptions()
    loading: Annotated[BackboneOptions, arg(name="")] = BackboneOptions()
    columns: Columns = DatasetOptions()

    def config(self) -> Any:
        """The preset's config of the policy, with what the flags change."""
        for name in ("expert_width", "expert_layers"):
            if (getattr(self, name) or 1) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        if policy_kind(self.policy).needs_backbone != (self.backbone is not None):
            if self.backbone is None:
                raise ValueError(f"name the checkpoint of {self.policy} with --backbone")
            others = ", ".join(name for name, kind in POLICIES.items() if kind.needs_backbone)
            raise ValueError(
                f"the {self.policy} policy has no backbone: name another --policy of {others}"
            )
        config = policy_config(self.policy, self.preset)
        changes: dict[str, Any] = {}
        if self.endpoints:
            changes["endpoints"] = self.endpoints
        if self.dropout is not None:
            changes["dropout"] = self.dropout
        if self.code_smoothing is not None:
            changes["code_smoothing"] = self.code_smoothing
        if self.offset_layers is not None:
            changes["offset_layers"] = self.offset_layers
        is_vlm = isinstance(config, VlmConfig)
        if self.augmentation != Augmentation() and not is_vlm:
            raise ValueError(
                f"{self.policy} has its own crop: leave --crop, --color-jitter and --uncropped out"
            )
        flow = {name: getattr(self, name) for name in STAGE if getattr(self, name) is not None}
        if isinstance(config, LightFlowConfig):
            own = {name: flow[name] for name in ("flow_draws", "mask_padding") if name in flow}
            return replace(config, sizes=replace(config.sizes, **changes), **own)
        for name in changes:
            if not hasattr(config, name):
                raise ValueError(f"{self.policy} has no {name}: leave --{name} out")
        if is_vlm:
            width = self.expert_width or config.expert.width
            changes |= {
                **flow,
                "expert": replace(config.expert, width=width, num_layers=self.expert_layers),
                "backbone": self.loading,
            }
        return replace(config, **changes)

    def changes(self) -> dict[str, Any] | None:
        """Settings of the policy to start from that the flags say; None if they say none."""
        default = TrainPolicy(self.data, self.out)
        named = [name for name in STAGE if getattr(self, name) != getattr(default, name)]
        found = {name: getattr(self, name) for name in named}
        if self.policy != default.policy:
            found["objective"] = self.policy
        sizes = {"width": self.expert_width, "num_layers": self.expert_layers}
        if any(sizes.values()):
            found["expert"] = {name: size for name, size in sizes.items() if size is not None}
        given, usual = asdict(self.loading), asdict(default.loading)
        loading = {n: given[n] for n in (*FREEZING, "dtype") if given[n] != usual[n]}
        return found | ({"backbone": loading} if loading else {}) or None

    def open_data(self, tokenizer: ActionTokenizer | None, console: Console) -> Dataset:
        """The dataset, with the columns of the tokenizer, or of the policy to start from, unless
        flags say others."""
        if self.init is not None:
            folder = local_folder(self.init)
            known = json.loads(config_file(folder).read_text()).get("data", {})
            tokenizer = load_tokenizer(folder / "tokenizer")
            keys = known.get("state_keys", ())
            return self.columns.open_like(tokenizer, self.data, console, keys)
        if tokenizer is not None:
            return self.columns.open_like(tokenizer, self.data, console)
        return self.columns.open(self.data, console)

    def open_tokenizer(self) -> ActionTokenizer | None:
        """The tokenizer, which decodes as the flags say."""
        if self.tokenizer is None:
            if self.decoding is not None:
                raise ValueError("--decoding is for a --tokenizer of the kind fast")
            return None
        tokenizer = load_tokenizer(self.tokenizer)
        tokenizer.choose_decoding(self.decoding)
        return tokenizer

    def start(self) -> dict[str, Any]:
        """What a new policy is made of, or the policy to start from, for `train_policy`."""
        if self.init is not None:
            default = _own(TrainPolicy(self.data, self.out))
            for name, value in _own(self).items():
                if value != default[name]:
                    flag = name.replace("_", "-")
                    raise ValueError(f"{self.init} has its own {flag}: leave --{flag} out")
            return {"init": self.init, "config": self.changes()}
        config = self.config()
        if "tokens" in policy_kind(self.policy).heads and self.tokenizer is None:
            raise ValueError("name a tokenizer artifact with --tokenizer, or a policy with --init")
        return {
            "tokenizer": self.open_tokenizer(),
            "config": config,
            "backbone": self.backbone,
            "cameras": self.cameras,
            "reads_state": self.state,
            "history": self.history,
            "horizon": self.horizon,
        }


def run(options: TrainPolicy, console: Console) -> int:
    device = announce_device(console, options.device)
    changes = options.training.changes()
    for name in ("workers", "run_length", "expert_learning_rate", "expert_start"):
        if getattr(options, name) is not None:
            changes[name] = getattr(options, name)
    mixture = read_mixture(options.data, **options.columns.arguments(console))
    if mixture is not None:
        return _train_on_mixture(options, mixture, changes, device, console)
    start = options.start()
    dataset = options.open_data(start.get("tokenizer"), console)
    print_cautions(console, dataset, reads_state=options.state)
    if options.init is None:
        print_unseen(console, dataset, options.cameras)
    train_policy(
        dataset,
        out=options.out,
        preset=options.preset,
        train=changes,
        minutes=options.training.minutes,
        held_out=options.held_out,
        split_seed=options.split_seed,
        allow_drift=options.allow_drift,
        merge_lora=options.merge_lora,
        device=device,
        show_progress=not console.quiet,
        **start,
    )
    out, data = shlex.quote(str(options.out)), shlex.quote(options.data)
    next_command = f"oatkit policy measure {out} --data {data}{options.columns.flags()}"
    print_lines(console, f"wrote {options.out}", f"next: {next_command}")
    return 0


def _train_on_mixture(
    options: TrainPolicy,
    mixture: Mixture,
    changes: dict[str, Any],
    device: Device,
    console: Console,
) -> int:
    """Train one policy on several robots, and say how each of them is reached."""
    own = {"init": options.init, "decoding": options.decoding}
    refuse_with_mixture({**own, "minutes": options.training.minutes})
    if "tokens" in policy_kind(options.policy).heads and options.tokenizer is None:
        raise ValueError("name the folder of the mixture's tokenizers with --tokenizer")
    policies = train_mixture_policy(
        mixture,
        options.tokenizer,
        options.config(),
        options.out,
        backbone=options.backbone,
        preset=options.preset,
        cameras=options.cameras,
        reads_state=options.state,
        history=options.history,
        horizon=options.horizon,
        train=changes,
        held_out=options.held_out,
        split_seed=options.split_seed,
        allow_drift=options.allow_drift,
        merge_lora=options.merge_lora,
        device=device,
        show_progress=not console.quiet,
    )
    for name, policy in policies.items():
        size = f"{policy.tokenizer.horizon} x {policy.tokenizer.action_dim} actions"
        print_lines(console, f"wrote {options.out / name}: {size}")
    print_lines(console, measure_first("policy measure", mixture, options.out))
    return 0


def _own(options: TrainPolicy) -> dict[str, Any]:
    """What the options say of the policy itself, by the name of the flag."""
    own = {name: getattr(options, name) for name in OWN_FLAGS}
    loading = {k: v for k, v in asdict(options.loading).items() if k not in (*FREEZING, "dtype")}
    return own | loading | {"no_state": not options.state}
