"""A tokenizer's decoder, and the light policies, as ONNX files and a JSON about them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from oatkit.errors import ArtifactError
from oatkit.nn.frozen_decoder import FrozenDecoder
from oatkit.nn.onnx.graph import open_session, ports
from oatkit.nn.onnx.stage_decoder import OnnxDecoder
from oatkit.policies import Policy, load_policy
from oatkit.policies.generation.packing import pack
from oatkit.policies.generation.token_generation import ChunkDecoder
from oatkit.policies.light.light_flow_model import LightFlowModel
from oatkit.policies.light.light_flow_onnx import (
    flow_encoder_model,
    flow_facts,
    flow_step_model,
)
from oatkit.policies.light.light_model import LightModel
from oatkit.policies.light.light_net import LightContext
from oatkit.policies.light.light_onnx import (
    CONTEXT,
    encoder_model,
    generation_facts,
    policy_decoder_model,
    stage_model,
)
from oatkit.policies.observation.observation_spec import ObservationSpec, blank_observation
from oatkit.storage.artifact import local_folder
from oatkit.storage.atomic_write import atomic_write
from oatkit.tokenizers import ActionTokenizer, load_tokenizer
from oatkit.tokenizers.codec_onnx import decoder_model
from oatkit.types import Tokens
from oatkit.types.observation_keys import IMAGES, STATE, TASK

EXPORT = "export.json"
VERSION = 1
TOLERANCE = 1e-3
"""Largest difference of ONNX Runtime from torch that is accepted, in normalized units."""
BATCH_SIZES = (1, 3)
"""Sizes of the batches with which the files are compared with torch."""


@dataclass(frozen=True)
class ModelExport:
    """What was exported.

    Attributes:
        file_bytes: Paths of the ONNX files to their sizes.
        facts_path: Path of the JSON that says what they are.
        difference: Largest difference from torch, in normalized units or relative.
        left_out: Kind of the policy of which only the decoder was written, if so.
    """

    file_bytes: Mapping[Path, int]
    facts_path: Path
    difference: float
    left_out: str | None = None


def export_model(
    artifact: Policy | ActionTokenizer | str | os.PathLike[str], out: Path
) -> ModelExport:
    """Write a tokenizer's decoder, or a light policy, as ONNX files that agree with torch.

    Args:
        artifact: A policy or a tokenizer, or the folder or hub id of one.
        out: Folder for the files and `export.json`.
    """
    opened = _open(local_folder(artifact)) if isinstance(artifact, str | os.PathLike) else artifact
    policy = None if isinstance(opened, ActionTokenizer) else opened
    tokenizer = opened if isinstance(opened, ActionTokenizer) else opened.tokenizer
    model = None if policy is None else policy.model
    own: dict[str, bytes] = {}
    generation: dict[str, Any] = {}
    if isinstance(model, LightFlowModel):
        _require_raw(model)
        own = {"encoder": flow_encoder_model(model), "step": flow_step_model(model)}
        differences, generation = _flow_differences(model, own), flow_facts(model)
        models = own
    else:
        light = model if isinstance(model, LightModel) else None
        models = {"decoder": policy_decoder_model(light) if light else decoder_model(tokenizer)}
        differences = {"decoder": _decoder_difference(tokenizer, models["decoder"], light)}
        if light is not None:
            own = {"encoder": encoder_model(light), "stage": stage_model(light)}
            differences["encoder"] = _encoder_difference(light, own["encoder"])
            differences["stage"] = _stage_difference(light, own["stage"])
            generation = generation_facts(light)
            models |= own
    for name, difference in differences.items():
        if not difference <= TOLERANCE:
            raise ArtifactError(f"{name}.onnx differs from torch by {difference:g}")
    facts = {
        **_tokenizer_facts(tokenizer),
        "decoder": _file("decoder", models) if "decoder" in models else None,
        "policy": _policy_facts(policy, generation, own) if policy and own else None,
        "difference_from_torch": differences,
    }
    return ModelExport(
        _write(out, models, facts),
        out / EXPORT,
        max(differences.values()),
        left_out=policy.kind if policy and not own else None,
    )


def _write(out: Path, models: Mapping[str, bytes], facts: dict[str, Any]) -> dict[Path, int]:
    """Write all files; returns the sizes of those that are not JSON.

    While they are written there is no JSON, so that nobody opens files of two exports together.
    """
    out.mkdir(parents=True, exist_ok=True)
    (out / EXPORT).unlink(missing_ok=True)
    paths = {name: out / f"{name}.onnx" for name in models}
    for name, path in paths.items():
        path.write_bytes(models[name])
    with atomic_write(out / EXPORT) as aside:
        aside.write_text(json.dumps(facts, indent=2) + "\n")
    return {path: len(models[name]) for name, path in paths.items()}


def _open(folder: Path) -> Policy | ActionTokenizer:
    """The policy or the tokenizer in a folder."""
    try:
        schema = json.loads((folder / "config.json").read_text()).get("schema")
    except (OSError, ValueError, AttributeError) as error:
        raise ArtifactError(f"{folder} is no readable artifact ({error})") from error
    return load_tokenizer(folder) if schema == "oatkit/tokenizer" else load_policy(folder)


def _require_raw(flow: LightFlowModel) -> None:
    """Refuse actions that the client, which integrates in numpy, could not turn back."""
    transform = flow.tokenizer.normalizer.transform
    if transform is not None:
        raise ValueError(
            f"a {flow.kind} policy whose actions are {transform} cannot be exported: serve it, "
            "or train it on actions as they are"
        )
    if flow.tokenizer.horizon != flow.net.chunk_shape[0]:
        raise ValueError(
            f"a {flow.kind} policy whose chunks are stretched in time has no ONNX files: serve it"
        )


def _tokenizer_facts(tokenizer: ActionTokenizer) -> dict[str, Any]:
    return {
        "schema": "oatkit/export",
        "version": VERSION,
        "format": "onnx",
        "fingerprint": tokenizer.digest,
        "kind": tokenizer.kind,
        "horizon": tokenizer.horizon,
        "action_dim": tokenizer.action_dim,
        "action_names": list(tokenizer.data.action_names),
        "fps": tokenizer.data.fps,
        "vocab_size": tokenizer.vocab_size,
        "max_tokens": tokenizer.max_tokens,
        "budgets": list(tokenizer.budgets),
        "schedule": list(tokenizer.schedule.endpoints),
        "normalization": tokenizer.normalizer.to_json(),
        "action_scale": tokenizer.raw_normalizer.scale.tolist(),
    }


def _policy_facts(
    policy: Policy, generation: Mapping[str, Any], models: Mapping[str, bytes]
) -> dict[str, Any]:
    return {
        **policy.spec.to_json(),
        "state_names": list(policy.extras.get("data", {}).get("state_names", [])),
        "auto": None if policy.auto is None else asdict(policy.auto),
        "execution": None if policy.execution is None else policy.execution.summary(),
        **generation,
        **{name: _file(name, models) for name in models},
    }


def _file(name: str, models: Mapping[str, bytes]) -> dict[str, Any]:
    return {"file": f"{name}.onnx", **ports(models[name])}


@torch.inference_mode()
def _decoder_difference(
    tokenizer: ActionTokenizer, model: bytes, light: LightModel | None = None
) -> float:
    """Largest difference for random tokens of every budget, in normalized units; for random
    contexts too, where a policy has an offset head."""
    rng, largest = np.random.default_rng(0), 0.0
    session, transform = open_session(model), tokenizer.normalizer.transform
    state_dim = 0 if transform is None else transform.state_dim
    names = [value.name for value in session.get_inputs()]
    for batch_size in BATCH_SIZES:
        for budget in tokenizer.budgets:
            shape = (batch_size, tokenizer.max_tokens)
            inputs = {
                "tokens": rng.integers(tokenizer.vocab_size, size=shape),
                "lengths": np.full(batch_size, budget),
                "state": rng.normal(size=(batch_size, state_dim)).astype(np.float32),
            }
            tokens = Tokens.full(torch.from_numpy(inputs["tokens"])).prefix(budget)
            tokens = replace(tokens, state=torch.from_numpy(inputs["state"]))
            decoder = ChunkDecoder(tokenizer)
            if light is not None and light.net.offset is not None:
                context_shape = (batch_size, len(light.net.slots), light.net.config.width)
                inputs[CONTEXT] = rng.normal(size=context_shape).astype(np.float32)
                context = LightContext([], torch.from_numpy(inputs[CONTEXT]))
                decoder = ChunkDecoder(tokenizer, light.net.corrected, context)
            (found,) = session.run(None, {name: inputs[name] for name in names})
            wanted, _ = decoder.decode(tokens)
            scaled = (found - wanted.numpy()) / tokenizer.raw_normalizer.scale
            largest = max(largest, float(np.abs(scaled).max()))
    return largest


@torch.inference_mode()
def _encoder_difference(light: LightModel, model: bytes) -> float:
    """Largest difference for random observations, relative to the largest number."""
    rng, largest = np.random.default_rng(0), 0.0
    session, frozen = open_session(model), FrozenDecoder(light.net.decoder)
    read = light.episode_reader().read
    for batch_size in BATCH_SIZES:
        observation = _random_observation(light.spec, batch_size, rng)
        observations = read(observation)
        context = light.net.encode(observations)
        into, back = frozen.fold(context.pairs, batch_size).unbind(dim=1)
        wanted = [into.transpose(2, 3).flatten(0, 1).numpy(), back.flatten(0, 1).numpy()]
        if light.net.offset is not None:
            wanted.append(context.encoded.numpy())
        inputs = {name: value for name, value in observation.items() if name != TASK}
        found = session.run(None, {TASK: np.zeros(batch_size, np.int64), **inputs})
        for one, other in zip(found, wanted, strict=True):
            largest = max(largest, _relative(one, other))
    return largest


@torch.inference_mode()
def _stage_difference(light: LightModel, model: bytes) -> float:
    """Largest difference of the logits of all stages, relative to the largest logit."""
    rng, largest = np.random.default_rng(0), 0.0
    frozen, read = FrozenDecoder(light.net.decoder), light.episode_reader().read
    decoder = OnnxDecoder(frozen, model)
    for batch_size in BATCH_SIZES:
        observations = read(_random_observation(light.spec, batch_size, rng))
        context = light.net.encode(observations)
        feeds = [
            one.start(context.pairs, batch_size, 2 * light.schedule.num_tokens).feed
            for one in (decoder, frozen)
        ]
        for stage in pack(light.schedule).stages:
            shape = (batch_size, len(stage.positions))
            symbols_BG = torch.from_numpy(rng.integers(light.tokenizer.vocab_size, size=shape))
            found, wanted = (
                feed(symbols_BG, stage.positions, stage.mask, stage.num_kept).numpy()
                for feed in feeds
            )
            largest = max(largest, _relative(found, wanted))
    return largest


@torch.inference_mode()
def _flow_differences(flow: LightFlowModel, models: Mapping[str, bytes]) -> dict[str, float]:
    """Largest difference of contexts and of velocities, relative to the largest number."""
    rng, head, read = np.random.default_rng(0), flow.net.head, flow.episode_reader().read
    encoder, step = (open_session(models[name]) for name in ("encoder", "step"))
    largest = {"encoder": 0.0, "step": 0.0}
    for batch_size in BATCH_SIZES:
        observation = _random_observation(flow.spec, batch_size, rng)
        observations = read(observation)
        pairs = flow.net.encode(observations)
        context = [torch.cat(parts).numpy() for parts in zip(*pairs, strict=True)]
        inputs = {name: value for name, value in observation.items() if name != TASK}
        found = encoder.run(None, {TASK: np.zeros(batch_size, np.int64), **inputs})
        off = max(_relative(one, other) for one, other in zip(found, context, strict=True))
        largest["encoder"] = max(largest["encoder"], off)
        shape = (batch_size, flow.net.chunk_shape[0], flow.actions.dim)
        point = rng.normal(size=shape).astype(np.float32)
        now = rng.uniform(size=batch_size).astype(np.float32)
        encoded = head.encode_time(torch.from_numpy(now))
        wanted = head(torch.from_numpy(point), encoded, pairs).numpy()
        given = {"point": point, "time": now, "keys": context[0], "values": context[1]}
        (velocity,) = step.run(None, given)
        largest["step"] = max(largest["step"], _relative(velocity, wanted))
    return largest


def _random_observation(
    spec: ObservationSpec, batch_size: int, rng: np.random.Generator
) -> dict[str, Any]:
    observation = blank_observation(spec, batch_size)
    for key, value in observation.items():
        if key == STATE:
            observation[key] = value + rng.uniform(-1, 1, value.shape).astype(np.float32)
        elif key.startswith(IMAGES):
            observation[key] = rng.integers(256, size=value.shape, dtype=np.uint8)
    return observation


def _relative(found: Any, wanted: Any) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())
