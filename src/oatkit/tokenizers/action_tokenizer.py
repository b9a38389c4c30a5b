"""`ActionTokenizer`: raw action chunks to tokens and back, and the artifact on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from oatkit.data import Dataset, Normalizer
from oatkit.data.action_normalizer import fit_action_normalizer
from oatkit.nn.device import Device, resolve_device
from oatkit.nn.weight_loading import WithoutWeights, place_weights
from oatkit.storage.artifact import (
    UNTRAINED,
    WEIGHTS,
    load_state,
    local_folder,
    read_artifact,
    read_unchanged,
    upload,
    warn_of_random_weights,
    weights_file,
    write_artifact,
)
from oatkit.storage.digest import digest, file_parts, settings_part
from oatkit.tokenizers.adaptation import adapted
from oatkit.tokenizers.codec import (
    Codec,
    HasCodePositions,
    HasFiles,
    LearnedCodec,
    checked_chunks,
    decode_in_parts,
    encode_in_parts,
    written_settings,
)
from oatkit.tokenizers.data_facts import DataFacts
from oatkit.tokenizers.fast import Fast
from oatkit.tokenizers.kind_table import kind_named, make_codec, make_config
from oatkit.tokenizers.model_card import model_card
from oatkit.tokenizers.token_checks import checked_tokens, decode_each
from oatkit.types import Decoding, NormalizationMode, Schedule, Tokens

FORMAT_VERSION = 1


class ActionTokenizer:
    """A codec with its normalizer and facts about its data: everything that an artifact holds.

    Raw action units go in and come out. numpy arrays or lists give numpy arrays, torch tensors
    give torch tensors on the same device; tokens remember which of them they were encoded from.

    Args:
        codec: Codec of any kind, trained or not.
        normalizer: Raw to normalized units, made from the statistics of the same data.
        data: Facts about that data.
        extras: Further JSON for `config.json`, such as how it was trained.
        normalized_input: Actions come and go normalized, for pipelines that normalize first, such
            as LeRobot's; they must do so as `normalizer` does.
        horizon: Number of actions in a chunk; the codec's by default. Chunks of another length, and
            of fewer dimensions, are stretched and padded for the codec: see `oatkit.data.mixture`.
    """

    def __init__(
        self,
        codec: Codec,
        normalizer: Normalizer,
        data: DataFacts,
        extras: dict[str, Any] | None = None,
        *,
        normalized_input: bool = False,
        horizon: int | None = None,
    ) -> None:
        if normalizer.dim > codec.config.action_dim:
            raise ValueError(
                f"the normalizer has {normalizer.dim} dimensions and the codec "
                f"{codec.config.action_dim}"
            )
        if normalized_input and normalizer.transform is not None:
            raise ValueError(
                f"actions that are represented as {normalizer.transform} come in raw units: let "
                "the tokenizer normalize them"
            )
        self.codec = codec
        self.normalizer = normalizer
        self.data = data
        self.extras = extras or {}
        self.normalized_input = normalized_input
        self.horizon = codec.config.horizon if horizon is None else horizon
        self.coded_shape = (self.horizon, normalizer.dim)
        """Number of steps and of normalized dimensions of a chunk."""

    @classmethod
    def for_dataset(
        cls, config: Any, dataset: Dataset, normalization: NormalizationMode | None = None
    ) -> ActionTokenizer:
        """An untrained tokenizer whose normalizer and facts are those of `dataset`."""
        if config.action_dim != dataset.represented_dim:
            raise ValueError(
                f"the tokenizer is for {config.action_dim} action dimensions, {dataset.path} has "
                f"{dataset.represented_dim}"
            )
        facts = DataFacts.of_dataset(dataset)
        mode = normalization or kind_named(config.kind).normalization
        normalizer = fit_action_normalizer(
            dataset, facts.statistics, mode, dataset.transform, config.horizon
        )
        codec = make_codec(config)
        extras = {UNTRAINED: True} if isinstance(codec, LearnedCodec) else {}
        return cls(codec, normalizer, facts, extras)

    @property
    def kind(self) -> str:
        return str(self.codec.config.kind)

    @property
    def action_dim(self) -> int:
        """Number of raw action dimensions; a representation may have others."""
        return self.normalizer.raw_dim

    @property
    def needs_state(self) -> bool:
        """Whether actions are relative to the state at the start of their chunk."""
        transform = self.normalizer.transform
        return transform is not None and transform.needs_state

    @property
    def raw_normalizer(self) -> Normalizer:
        """The normalizer of raw actions, however they are represented; errors are in its units."""
        if self.normalizer.transform is None:
            return self.normalizer
        return Normalizer.fit(self.data.statistics, self.normalizer.mode)

    @property
    def vocab_size(self) -> int:
        return self.codec.vocab_size

    @property
    def max_tokens(self) -> int:
        return self.codec.max_tokens

    @property
    def budgets(self) -> tuple[int, ...]:
        """Budgets with direct supervision."""
        return self.codec.budgets

    @property
    def schedule(self) -> Schedule:
        """How this kind is meant to be generated."""
        return self.codec.schedule

    @property
    def is_ordered(self) -> bool:
        return self.codec.is_ordered

    @property
    def is_total(self) -> bool:
        return self.codec.is_total

    @property
    def is_fixed_length(self) -> bool:
        return self.codec.is_fixed_length

    @property
    def code_positions(self) -> Tensor | None:
        """Where the code of each id lies, (V, C), neighbors 1 apart; None where ids are no
        points."""
        return self.codec.code_positions() if isinstance(self.codec, HasCodePositions) else None

    @property
    def digest(self) -> str:
        """A short name that changes with whatever decides how chunks and ids are translated."""
        written = self.to_json()
        names = ("kind", "codec", "normalization", "horizon")
        settings = {name: written[name] for name in names if name in written}
        files = {WEIGHTS: weights_file(self.codec.state_dict())}
        if isinstance(self.codec, HasFiles):
            files |= self.codec.learned_files()
        return digest(settings_part(settings), *file_parts(files))

    def __repr__(self) -> str:
        size = f"{self.horizon} x {self.action_dim} actions"
        return (
            f"ActionTokenizer({self.kind}: {size}, {self.max_tokens} tokens of {self.vocab_size})"
        )

    @torch.inference_mode()
    def encode(self, actions: ArrayLike | Tensor, state: Any = None) -> Tokens:
        """Tokens of raw chunks, (B, horizon, action_dim).

        Args:
            actions: The chunks, in raw units.
            state: State at the start of each chunk, (B, state_dim) in raw units, where
                `needs_state`; the tokens keep it, so that they decode with it.
        """
        if UNTRAINED in self.extras:
            warn_of_random_weights(f"{self.kind} tokenizer", "train_tokenizer")
        actions_BTA = checked_chunks(actions, (self.horizon, self.action_dim))
        if not self.normalized_input:
            actions_BTA = self.normalizer.normalize(actions_BTA, state)
        tokens = encode_in_parts(self.codec, actions_BTA)
        if self.needs_state:
            tokens = replace(tokens, state=torch.as_tensor(state).expand(len(tokens), -1))
        return tokens if isinstance(actions, Tensor) else replace(tokens, is_numpy=True)

    @overload
    def decode(self, tokens: Tensor, budget: int | None = None, state: Any = None) -> Tensor: ...

    @overload
    def decode(self, tokens: Tokens, budget: int | None = None, state: Any = None) -> Any: ...

    @overload
    def decode(
        self,
        tokens: Sequence[Sequence[int]] | NDArray[np.integer],
        budget: int | None = None,
        state: Any = None,
    ) -> NDArray[np.float32]: ...

    @torch.inference_mode()
    def decode(self, tokens: Any, budget: int | None = None, state: Any = None) -> Any:
        """Raw chunks of tokens, (B, horizon, action_dim).

        Args:
            tokens: `Tokens`, an integer tensor or array (B, K), or a list of lists of ids. Tokens
                that were encoded from numpy, arrays and lists give numpy.
            budget: Number of leading tokens that count; all by default.
            state: State at the start of each chunk, (B, state_dim) in raw units, where
                `needs_state`; the one that `tokens` keep by default.
        """
        if UNTRAINED in self.extras:
            warn_of_random_weights(f"{self.kind} tokenizer", "train_tokenizer")
        is_torch = isinstance(tokens, Tensor)
        if isinstance(tokens, Tokens):
            is_torch = not tokens.is_numpy
        checked = checked_tokens(self.codec, tokens, budget)
        kept = checked.state if state is None else state
        chunks_BTA = self.to_raw(self.decode_normalized(checked), kept)
        return chunks_BTA if is_torch else chunks_BTA.cpu().numpy()

    def decode_normalized(self, tokens: Tokens) -> Tensor:
        """Chunks as the codec gives them, in float32 and without a gradient; `to_raw` makes actions
        of them."""
        with torch.no_grad(), torch.autocast(tokens.ids.device.type, enabled=False):
            return decode_in_parts(self.codec, tokens, self.coded_shape)

    def to_raw(self, chunks_BTA: Tensor, state: Any = None) -> Tensor:
        """Raw actions of normalized chunks; see `decode` for the state."""
        if self.normalized_input:
            return chunks_BTA
        return self.normalizer.unnormalize(chunks_BTA, state)

    @torch.inference_mode()
    def decode_rows(
        self, tokens: Tokens, correct: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, dict[int, str]]:
        """Raw chunks, (B, horizon, action_dim), and the reason for each row that does not decode.

        The chunk of such a row is NaN.

        Args:
            tokens: Sequences in the vocabulary.
            correct: What is done to normalized chunks before they become actions.
        """
        if UNTRAINED in self.extras:
            warn_of_random_weights(f"{self.kind} tokenizer", "train_tokenizer")
        reasons: dict[int, str] = {}
        if self.codec.is_total:
            chunks_BTA = self.decode_normalized(checked_tokens(self.codec, tokens))
        else:
            decode = self.decode_normalized
            chunks_BTA, reasons = decode_each(self.codec, tokens, self.coded_shape, decode)
        if correct is not None:
            chunks_BTA = correct(chunks_BTA)
        if not reasons:
            return self.to_raw(chunks_BTA, tokens.state), {}
        rows = [row for row in range(len(tokens)) if row not in reasons]
        state = None if tokens.state is None else tokens.state[rows]
        raw_BTA = chunks_BTA.new_full((len(tokens), self.horizon, self.action_dim), torch.nan)
        raw_BTA[rows] = self.to_raw(chunks_BTA[rows], state)
        return raw_BTA, reasons

    def try_decode(self, tokens: Tokens) -> list[Tensor | None]:
        """Raw chunks of tokens one by one; None where a sequence does not decode."""
        chunks_BTA, reasons = self.decode_rows(tokens)
        return [None if row in reasons else chunk for row, chunk in enumerate(chunks_BTA)]

    def __call__(self, actions: ArrayLike | Tensor, state: Any = None) -> list[list[int]]:
        """Ids as lists, one per chunk; a single chunk (horizon, action_dim) is a batch of one."""
        if np.ndim(actions) == 2:
            actions = actions[None] if isinstance(actions, Tensor) else np.asarray(actions)[None]
        tokens = self.encode(actions, state)
        rows = zip(tokens.ids.tolist(), tokens.lengths.tolist(), strict=True)
        return [ids[:length] for ids, length in rows]

    def choose_decoding(self, decoding: Decoding | None) -> None:
        """Let `fast` refuse sequences that are no chunk (strict), or pad and cut them (relaxed).

        Args:
            decoding: How it decodes from now on; None leaves it as it is.
        """
        if decoding is None:
            return
        if not isinstance(self.codec, Fast):
            raise ValueError(f"strict or relaxed decoding is for fast, not for {self.kind}")
        self.codec = self.codec.with_decoding(decoding)

    def to(self, device: torch.device | str) -> ActionTokenizer:
        """Move the codec to a device; returns this tokenizer."""
        assert isinstance(self.codec, nn.Module)
        self.codec.to(device)
        return self

    def check(self, dataset: Dataset) -> list[str]:
        """How `dataset` differs from the data of training, one sentence each."""
        return self.data.drift(dataset.action_statistics(), dataset.action.names, dataset.fps)

    def adapt(self, dataset: Dataset, horizon: int | None = None) -> ActionTokenizer:
        """The same codec for another robot: only its normalizer and mask are fitted, and its error
        is measured on held-out chunks (`extras["rate_distortion"]`)."""
        return adapted(self, dataset, horizon)

    # The artifact

    def to_json(self) -> dict[str, Any]:
        """The JSON values of `config.json`."""
        return {
            "schema": "oatkit/tokenizer",
            "version": FORMAT_VERSION,
            "kind": self.kind,
            "codec": written_settings(self.codec.config),
            "normalization": self.normalizer.to_json(),
            "data": self.data.to_json(),
            **({} if self.horizon == self.codec.config.horizon else {"horizon": self.horizon}),
            **self.extras,
        }

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the artifact: `config.json`, `model.safetensors`, and a model card."""
        path, files = Path(folder), {}
        if isinstance(self.codec, HasFiles):
            files = self.codec.learned_files() | self.codec.other_files()
        write_artifact(path, self.to_json(), self.codec.state_dict(), model_card(self), files)
        return path

    @classmethod
    def from_pretrained(
        cls, folder: str | os.PathLike[str], *, normalized_input: bool = False
    ) -> ActionTokenizer:
        """Read an artifact from a folder or, by its id, from the Hugging Face hub."""
        return read_unchanged(
            local_folder(folder), partial(cls._read, normalized_input=normalized_input)
        )

    @classmethod
    def _read(cls, path: Path, *, normalized_input: bool) -> ActionTokenizer:
        config, state = read_artifact(path, "tokenizer", FORMAT_VERSION)
        with WithoutWeights():
            codec = make_codec(make_config(config["kind"], **config["codec"]))
        assert isinstance(codec, nn.Module)
        if isinstance(codec, HasFiles):
            codec.read_files(path)
        place = partial(place_weights, codec, dtype=None, device=torch.device("cpu"))
        load_state(place, state, path)
        codec.eval()
        data = DataFacts.from_json(config["data"])
        known = {"schema", "version", "kind", "codec", "normalization", "data", "horizon"}
        extras = {k: v for k, v in config.items() if k not in known}
        normalizer = Normalizer.from_json(config["normalization"])
        how: dict[str, Any] = {"normalized_input": normalized_input}
        return cls(codec, normalizer, data, extras, **how, horizon=config.get("horizon"))

    def push_to_hub(self, repo_id: str, *, private: bool = False) -> str:
        """Upload the artifact to the Hugging Face hub; returns its address."""
        return upload(self.save_pretrained, repo_id, private=private)


def load_tokenizer(
    folder: str | os.PathLike[str], *, normalized_input: bool = False, device: Device = "cpu"
) -> ActionTokenizer:
    """Open a trained tokenizer from a folder or, by its id, from the Hugging Face hub.

    Args:
        folder: Folder, or id on the Hugging Face hub.
        normalized_input: Actions come and go normalized, for pipelines that normalize first.
        device: Where it runs: "cpu", "cuda", "cuda:1", "mps" or "auto".
    """
    place = resolve_device(device)
    return ActionTokenizer.from_pretrained(folder, normalized_input=normalized_input).to(place)
