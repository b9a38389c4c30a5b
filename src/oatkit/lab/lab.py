"""Answers to the questions of the page, computed with the public API; HTTP is in `app.py`.

Answers are JSON values. Arrays are base64 of little-endian float32, so that the page shows exactly
what `decode` gave.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from oatkit.data import Dataset
from oatkit.errors import DecodeError, MissingExtraError, unknown_name
from oatkit.tokenizers import KINDS, ActionTokenizer
from oatkit.tokenizers.codec import doubling
from oatkit.types import Tokens

MAX_PREFIXES = 64
"""Maximum number of tokens of which every prefix is decoded; of more only the doubling ones."""
MAX_OVERVIEW = 600
"""Maximum number of points of an episode in the time line."""
MAX_IMAGE = 480
"""Maximum number of pixels of the longer side of an image."""
NUM_REPLACEMENTS = 4
"""Number of random ids that replace each token to see what it changes."""


class Lab:
    """Tokenizers of one horizon on one dataset.

    Args:
        tokenizers: Tokenizers by the names that the page shows.
        dataset: Dataset whose chunks are shown.
    """

    def __init__(self, tokenizers: Mapping[str, ActionTokenizer], dataset: Dataset) -> None:
        if not tokenizers:
            raise ValueError("name at least one tokenizer artifact")
        for name, tokenizer in tokenizers.items():
            if tokenizer.action_dim != dataset.action_dim:
                raise ValueError(
                    f"{name} is for {tokenizer.action_dim} action dimensions, {dataset.path} has "
                    f"{dataset.action_dim}: give the dataset it was made from, or choose columns "
                    "with --action-key and --action-dims"
                )
        horizons = {name: tokenizer.horizon for name, tokenizer in tokenizers.items()}
        if len(set(horizons.values())) > 1:
            named = ", ".join(f"{name} {horizon}" for name, horizon in horizons.items())
            raise ValueError(f"chunks differ in length ({named}): give tokenizers of one horizon")
        self.tokenizers = dict(tokenizers)
        self.dataset = dataset
        self.horizon = next(iter(horizons.values()))
        self._chunks = dataset.chunks(self.horizon)
        self._state_BS: torch.Tensor | None = None
        self._statistics = dataset.action_statistics()
        self._scale_A = np.maximum(self._statistics.std, 1e-12)

    def facts(self) -> dict[str, Any]:
        """Everything that stays the same while the page is open."""
        data, s = self.dataset, self._statistics
        return {
            "version": version("oatkit"),
            "data": str(data.path),
            "format": data.format,
            "fps": data.fps,
            "horizon": self.horizon,
            "dimensions": [
                {"name": name, "low": float(low), "high": float(high), "std": float(std)}
                for name, low, high, std in zip(data.action.names, s.min, s.max, s.std, strict=True)
            ],
            "cameras": [
                {"name": name, "height": camera.height, "width": camera.width}
                for name, camera in data.cameras.items()
                if camera.missing is None
            ],
            "episode_numbers": data.episode_numbers.tolist(),
            "episode_lengths": data.episode_lengths.tolist(),
            "tasks": list(data.tasks),
            "episode_tasks": data.task_index[data.episode_starts].tolist(),
            "held_out": self.held_out(),
            "tokenizers": [self._tokenizer_facts(name) for name in self.tokenizers],
        }

    def held_out(self) -> list[int]:
        """Episodes that no tokenizer was trained on, as far as the artifacts say."""
        sides: dict[tuple[float, int], tuple[Dataset, Dataset]] = {}
        common: set[int] | None = None
        for tokenizer in self.tokenizers.values():
            made = tokenizer.extras.get("split")
            if made is None:
                continue
            key = (made["held_out"], made["seed"])
            try:
                sides[key] = sides.get(key) or self.dataset.split(key[0], seed=key[1])
            except ValueError:  # a single episode cannot be split: another dataset was used
                return []
            train, held_out = sides[key]
            if train.fingerprint != tokenizer.data.fingerprint:
                return []
            mine = set(held_out.episode_ids.tolist())
            common = mine if common is None else common & mine
        places = {number: place for place, number in enumerate(self.dataset.episode_ids.tolist())}
        return sorted(places[episode] for episode in common or ())

    def episode(self, episode: int) -> dict[str, Any]:
        """The actions of an episode, (points, A), at most `MAX_OVERVIEW` points."""
        self._check_place(episode, 0)
        actions_TA = self.dataset[episode].actions
        step = -(-len(actions_TA) // MAX_OVERVIEW)
        return {"step": step, "actions": packed(actions_TA[::step])}

    def chunk(self, episode: int, frame: int) -> dict[str, Any]:
        """A chunk, its tokens from every tokenizer, and what their prefixes decode to."""
        index = self._index(episode, frame)
        actions_BTA, is_pad_BT = self._chunks.actions([index])
        state_BS = self._chunks.start_states([index])
        # what is decoded next is of the chunk that the page shows
        self._state_BS = None if state_BS is None else torch.from_numpy(state_BS)
        return {
            "actions": packed(actions_BTA[0]),
            "num_padded": int(is_pad_BT.sum()),
            "encoded": [self._encode(name, actions_BTA) for name in self.tokenizers],
        }

    def decode(self, name: str, ids: Sequence[int]) -> dict[str, Any]:
        """What the prefixes of any ids decode to, (budgets, T, A), or why they do not decode."""
        tokenizer, row = self._tokenizer(name), _checked_ids(ids)
        budgets = shown_budgets(tokenizer, len(row))
        tokens = Tokens(row.repeat(len(budgets), 1), torch.tensor(budgets))
        try:
            chunks_BTA = tokenizer.decode(tokens, state=self._state_BS).numpy()
        except DecodeError as error:
            return {"budgets": budgets, "chunks": "", "error": str(error)}
        return {"budgets": budgets, "chunks": packed(chunks_BTA), "error": None}

    def influence(self, name: str, ids: Sequence[int]) -> dict[str, Any]:
        """How much each token changes each dimension, (K, A).

        The change is the root mean square over random replacements of the token, in standard
        deviations of the dimension; NaN where no replacement decodes.
        """
        tokenizer, row = self._tokenizer(name), _checked_ids(ids)
        (truth,) = tokenizer.try_decode(self._tokens(row[None]))
        count = len(row)
        if truth is None:
            nothing = np.full((count, tokenizer.action_dim), np.nan)
            return {"influence": packed(nothing), "undecodable": 1.0}
        generator = torch.Generator().manual_seed(0)
        size = (count, NUM_REPLACEMENTS)
        shift = torch.randint(1, tokenizer.vocab_size, size, generator=generator)
        ids_KRK = row.expand(*size, count).clone()
        slots = torch.arange(count)
        ids_KRK[slots, :, slots] = (row[:, None] + shift) % tokenizer.vocab_size
        found = tokenizer.try_decode(self._tokens(ids_KRK.reshape(-1, count)))
        lost = torch.full_like(truth, torch.nan)
        moved = [(lost if chunk is None else chunk) - truth for chunk in found]
        moved_NTA = torch.stack(moved).double().numpy() / self._scale_A
        squared_KRA = np.square(moved_NTA).mean(axis=1).reshape(*size, -1)
        is_lost_KR = np.isnan(squared_KRA[..., 0])
        kept_K1 = np.maximum((~is_lost_KR).sum(axis=1), 1)[:, None]
        mean_KA = np.where(is_lost_KR[..., None], 0.0, squared_KRA).sum(axis=1) / kept_K1
        mean_KA[is_lost_KR.all(axis=1)] = np.nan
        return {"influence": packed(np.sqrt(mean_KA)), "undecodable": float(is_lost_KR.mean())}

    def image(self, episode: int, frame: int, camera: str) -> bytes:
        """A camera's image as JPEG."""
        try:
            from PIL import Image
        except ImportError as error:
            raise MissingExtraError("lab") from error
        self._check_place(episode, frame)
        shown = Image.fromarray(self.dataset[episode].images(camera, [frame])[0])
        shown.thumbnail((MAX_IMAGE, MAX_IMAGE))
        file = io.BytesIO()
        shown.save(file, "JPEG", quality=85)
        return file.getvalue()

    def _tokenizer_facts(self, name: str) -> dict[str, Any]:
        t = self.tokenizers[name]
        return {
            "name": name,
            "kind": t.kind,
            "color": KINDS[t.kind].color,
            "vocab_size": t.vocab_size,
            "max_tokens": t.max_tokens,
            "budgets": t.budgets,
            "endpoints": t.schedule.endpoints,
            "has_prefixes": t.codec.has_prefixes,
            "is_total": t.is_total,
            "is_fixed_length": t.is_fixed_length,
            "curve": [
                {"tokens": row["budget"], "bits": row["bits"], "mse": row["mse"]}
                for row in t.extras.get("rate_distortion", ())
            ],
        }

    def _encode(self, name: str, actions_BTA: NDArray[np.float32]) -> dict[str, Any]:
        (ids,) = self.tokenizers[name](actions_BTA, self._state_BS)
        return {"ids": ids, "decoded": self.decode(name, ids)}

    def _tokens(self, ids_BK: torch.Tensor) -> Tokens:
        """Ids with the state at the start of the chunk that the page shows."""
        state = self._state_BS
        return replace(
            Tokens.full(ids_BK), state=None if state is None else state.expand(len(ids_BK), -1)
        )

    def _tokenizer(self, name: str) -> ActionTokenizer:
        if name not in self.tokenizers:
            raise ValueError(unknown_name("tokenizer", name, self.tokenizers))
        return self.tokenizers[name]

    def _check_place(self, episode: int, frame: int) -> None:
        if not 0 <= episode < len(self.dataset):
            raise ValueError(f"episode {episode} does not exist: there are {len(self.dataset)}")
        length = int(self.dataset.episode_lengths[episode])
        if not 0 <= frame < length:
            raise ValueError(f"frame {frame} of episode {episode} does not exist: it has {length}")

    def _index(self, episode: int, frame: int) -> int:
        self._check_place(episode, frame)
        return int(self.dataset.episode_lengths[:episode].sum()) + frame


def shown_budgets(tokenizer: ActionTokenizer, num_tokens: int) -> list[int]:
    """Lengths of the prefixes of a sequence that are decoded."""
    if not tokenizer.codec.has_prefixes:
        return [num_tokens]
    if num_tokens <= MAX_PREFIXES:
        return list(range(1, num_tokens + 1))
    return list(doubling(num_tokens))


def packed(array: NDArray[Any]) -> str:
    """Base64 of little-endian float32."""
    return b64encode(np.ascontiguousarray(array, "<f4").tobytes()).decode()


def _checked_ids(ids: Any) -> torch.Tensor:
    """The ids (K,) of a request; the tokenizer itself checks that they are in its vocabulary."""
    is_list = isinstance(ids, Sequence) and not isinstance(ids, str)
    if not is_list or not ids or not all(type(i) is int and abs(i) < 2**62 for i in ids):
        raise ValueError("ids are not a list of whole numbers")
    return torch.tensor(ids)
