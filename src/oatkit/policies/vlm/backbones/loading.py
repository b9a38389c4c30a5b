"""Backbones from checkpoints of `transformers`, and checkpoints with random weights.

The version of `transformers` is checked here: 5.4 moved the scale of Gemma's embeddings and changed
the caches, and the families are written for what came after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from oatkit.errors import ArtifactError, MissingExtraError, OatkitError
from oatkit.nn.weight_loading import WithoutWeights
from oatkit.policies.vlm.backbones.backbone_options import BackboneOptions

try:
    import transformers
    from transformers import AutoConfig, AutoImageProcessor, AutoTokenizer
except ImportError as error:
    raise MissingExtraError("vlm") from error

from oatkit.policies.vlm.backbones.backbone import Backbone
from oatkit.policies.vlm.backbones.family import Family, ScratchSize
from oatkit.policies.vlm.backbones.family_table import family_named, family_of_checkpoint
from oatkit.policies.vlm.backbones.processor import Processor
from oatkit.policies.vlm.backbones.published import ANY_SHAPE, PUBLISHED
from oatkit.policies.vlm.backbones.trained_parts import train_parts

OLDEST, TOO_NEW = (5, 4), (6, 0)
"""First version of `transformers` that is supported, and the first that is not any more."""


def require_version(found: str = transformers.__version__) -> None:
    """Raise an error for a version of `transformers` that the families are not written for."""
    release = tuple(int(part) for part in found.split(".")[:2])
    if not OLDEST <= release < TOO_NEW:
        raise OatkitError(
            f"transformers {found} is installed, vision-language policies need 5.4 or later and "
            "below 6: pip install 'oatkit[vlm]'"
        )


def load_backbone(checkpoint: str, options: BackboneOptions) -> Backbone:
    """A pretrained backbone from a folder or, by its id, from the Hugging Face hub."""
    require_version()
    family, _ = _read_family(checkpoint)
    attention = _attention(family, options)
    with _as_artifact_errors(checkpoint):
        model = family.model_class.from_pretrained(
            checkpoint,
            dtype=_loading_dtype(options),
            attn_implementation=attention,
            device_map=options.device_map,
        )
        processor = _load_processor(family, checkpoint, model.config)
    return _apply_options(Backbone(family, model.model, processor), options)


def build_backbone(folder: Path, options: BackboneOptions) -> Backbone:
    """A backbone from a folder that `Processor.save_pretrained` wrote.

    Its weights are random, or have no memory in `WithoutWeights`.
    """
    require_version()
    family, config = _read_family(str(folder))
    config._attn_implementation = _attention(family, options)
    with _as_artifact_errors(str(folder)):
        model = family.model_class._from_config(config, dtype=_loading_dtype(options))
        processor = _load_processor(family, str(folder), config)
    return _apply_options(Backbone(family, model.model, processor), options)


def empty_backbone(checkpoint: str, options: BackboneOptions) -> Backbone:
    """A backbone without memory for its weights, to count with.

    Its config is read from a folder, from the table of published checkpoints, or from the hub.
    Where that is all there is, a tokenizer and an image processor of the family stand for its own.
    """
    require_version()
    row = None if Path(checkpoint).exists() else PUBLISHED.get(checkpoint)
    if row is not None:
        family = family_named(row.family)
        config = family.model_class.config_class(**row.config)
        processor = _stand_in_processor(family, config)
    else:
        family, config = _read_known_family(checkpoint)
        try:
            processor = _load_processor(family, checkpoint, config)
        except (OSError, KeyError, ValueError):
            processor = _stand_in_processor(family, config)
    config._attn_implementation = _attention(family, options)
    with WithoutWeights(), _as_artifact_errors(checkpoint):
        model = family.model_class._from_config(config, dtype=_loading_dtype(options))
        return _apply_options(Backbone(family, model.model, processor), options)


def write_scratch(
    name: str, folder: Path, size: ScratchSize, corpus: Sequence[str], seed: int = 0
) -> Path:
    """Write a checkpoint of a family with random weights and a vocabulary trained on `corpus`."""
    require_version()
    family = family_named(name)
    config, tokenizer, images = family.scratch(size, corpus)
    torch.manual_seed(seed)
    family.model_class._from_config(config).save_pretrained(folder)
    for thing in (tokenizer, images):
        thing.save_pretrained(folder)
    return folder


def _read_family(checkpoint: str) -> tuple[Family, Any]:
    """The family of a checkpoint and its config."""
    path = Path(checkpoint)
    if (path / "config.json").exists() and (path / "tokenizer/config.json").exists():
        raise ArtifactError(f"{path} is a policy, not a backbone: start from it with --init {path}")
    if not path.exists() and (path.is_absolute() or len(path.parts) > 2):
        raise ArtifactError(f"{path} does not exist, and is no id of the Hugging Face hub")
    with _as_artifact_errors(checkpoint):
        config = AutoConfig.from_pretrained(checkpoint)
    return family_of_checkpoint(config.model_type, checkpoint), config


def _read_known_family(checkpoint: str) -> tuple[Family, Any]:
    """The same; if there is no config, the error says where one may come from."""
    try:
        return _read_family(checkpoint)
    except ArtifactError as error:
        raise ArtifactError(
            f"{error}; name a folder that holds its config.json, or one of "
            f"{', '.join(sorted(PUBLISHED))}"
        ) from error


def _stand_in_processor(family: Family, config: Any) -> Processor:
    """A processor that cuts images into as many slots as that of the checkpoint."""
    vision = config.vision_config
    side = getattr(vision, "image_size", None)
    size = ScratchSize(image_size=side or 256, patch_size=vision.patch_size)
    _, tokenizer, images = family.scratch(size, ("a",))
    if side is None:
        images = type(images)(**ANY_SHAPE, patch_size=vision.patch_size)
    return Processor(family, tokenizer, images, config)


def _load_processor(family: Family, where: str, config: Any) -> Processor:
    tokenizer = AutoTokenizer.from_pretrained(where)
    images = AutoImageProcessor.from_pretrained(where, backend="pil")
    return Processor(family, tokenizer, images, config)


def _attention(family: Family, options: BackboneOptions) -> dict[str, str]:
    """Attention implementations by the names that the config gives to the parts of a model."""
    if options.attention == "sdpa" and family.attention == "eager":
        raise ValueError(
            f"{family.name} caps its attention scores, which sdpa cannot: leave --attention out"
        )
    language, vision = options.attention or family.attention, options.attention or "sdpa"
    return {"": language, "text_config": language, "vision_config": vision}


def _loading_dtype(options: BackboneOptions) -> torch.dtype:
    """Type in which weights are read; `Backbone.set_types` then decides for each part."""
    is_frozen = options.is_vision_frozen and options.is_language_frozen
    return getattr(torch, options.dtype) if is_frozen else torch.float32


def _apply_options(backbone: Backbone, options: BackboneOptions) -> Backbone:
    if options.lora_rank:
        _add_adapters(backbone, options.lora_rank)
    train_parts(backbone, options)
    if options.save_memory:
        backbone.checkpoint_activations()
    backbone.use_onnx_mlps()
    return backbone.eval()


def _add_adapters(backbone: Backbone, rank: int) -> None:
    """Add adapters to every linear layer of the language model."""
    from peft import LoraConfig, inject_adapter_in_model

    language = backbone.family.language_model(backbone.model)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
    inject_adapter_in_model(config, language)


@contextmanager
def _as_artifact_errors(checkpoint: str) -> Iterator[None]:
    """Turn errors of `transformers` into one sentence that names the checkpoint."""
    try:
        yield
    except (OSError, KeyError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise ArtifactError(f"{checkpoint} is no readable backbone checkpoint ({why})") from error
