"""`fast`: cosine transform, rounding and byte-pair encoding, after FAST.

    chunk (T,A) ── DCT over time ── x scale, round ── flatten, lowest frequency of all
    dimensions first ── one character per coefficient ── BPE ── ids of variable length

The published FAST artifact can be read from a folder; ours is fitted on the data, under the same
normalizer it encodes with. The only file that imports tokenizers and scipy.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import scipy.fft
import tokenizers
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from oatkit.errors import ArtifactError, DecodeError
from oatkit.storage.digest import digest
from oatkit.tokenizers.codec import no_progress, not_fitted, spread_blocks, tokens_of_lists
from oatkit.types import Decoding, Schedule, Tokens

BPE_FILE = "tokenizer.json"
PUBLISHED_FILE = "processor_config.json"
PROCESSOR_CLASS = "OatkitFastTokenizer"
"""Name by which `AutoProcessor` finds the class that the LeRobot plugin registers."""
FIRST_SURROGATE = 0xD800
"""First code point that is no character: coefficients of a wider range cannot become text."""
MAX_CHUNKS = 131_072
"""Largest number of chunks that byte pairs are counted in, evenly spread: all of them are in memory
at once. The range of coefficients is that of all chunks."""


@dataclass(frozen=True)
class FastConfig:
    """Frequency-space tokens."""

    horizon: int
    action_dim: int
    kind: Literal["fast"] = "fast"
    vocab_size: int = 2048
    """Largest number of ids; the BPE of small data has fewer."""
    scale: float = 10.0
    """Coefficients are multiplied by this before rounding: larger is finer and longer."""
    decoding: Decoding = "strict"
    """What happens to a sequence that is not exactly one chunk: `strict` raises an error, `relaxed`
    pads or cuts it, and counts it."""
    lowest: int | None = None
    """The smallest coefficient of the fitted range; known after fitting."""
    highest: int | None = None
    """The largest coefficient of the fitted range; known after fitting."""

    def __post_init__(self) -> None:
        for name in ("horizon", "action_dim", "vocab_size", "scale"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected more than 0")
        if self.decoding not in get_args(Decoding):
            raise ValueError(f"decoding is {self.decoding!r}, expected 'strict' or 'relaxed'")


class Fast(nn.Module):
    """The codec.

    Attributes:
        num_mended: Sequences that relaxed decoding padded, cut or dropped characters of.
        num_clipped: Coefficients outside the fitted range that encoding moved to its edge.
    """

    is_ordered = True
    is_total = False
    is_fixed_length = False

    def __init__(self, config: FastConfig) -> None:
        super().__init__()
        self.config = config
        self.num_mended = 0
        self.num_clipped = 0
        self._bpe: tokenizers.Tokenizer | None = None
        self._bytes: list[bytes] = []

    @property
    def has_prefixes(self) -> bool:
        """Missing coefficients are padded under relaxed decoding only."""
        return self.config.decoding == "relaxed"

    @property
    def num_coefficients(self) -> int:
        return self.config.horizon * self.config.action_dim

    @property
    def vocab_size(self) -> int:
        return self.bpe.get_vocab_size()

    @property
    def max_tokens(self) -> int:
        """Upper bound: every coefficient in as many tokens as its character has bytes."""
        lowest, highest = self._bounds
        widest = chr(highest - lowest).encode()
        return self.num_coefficients * len(widest)

    @property
    def _bounds(self) -> tuple[int, int]:
        """The smallest and largest coefficient, which are found when it is fitted."""
        lowest, highest = self.config.lowest, self.config.highest
        if lowest is None or highest is None:
            raise not_fitted("fast")
        return lowest, highest

    @property
    def budgets(self) -> tuple[int, ...]:
        return (self.max_tokens,)

    @property
    def schedule(self) -> Schedule:
        return Schedule.tokenwise(self.max_tokens)

    @property
    def bpe(self) -> tokenizers.Tokenizer:
        if self._bpe is None:
            raise not_fitted("fast")
        return self._bpe

    def use(self, bpe: tokenizers.Tokenizer) -> None:
        """Take a trained BPE, and note the bytes behind each of its ids."""
        self._bpe = bpe
        byte_of = {symbol: byte for byte, symbol in _byte_symbols().items()}
        texts = [bpe.id_to_token(i) or "" for i in range(bpe.get_vocab_size())]
        self._bytes = [bytes(byte_of[symbol] for symbol in text) for text in texts]

    def with_decoding(self, decoding: Decoding) -> Fast:
        """The same fitted codec with strict or relaxed decoding."""
        codec = Fast(replace(self.config, decoding=decoding))
        codec.use(self.bpe)
        return codec

    def learned_files(self) -> dict[str, bytes]:
        """The BPE."""
        return {BPE_FILE: self.bpe.to_str(pretty=True).encode()}

    def other_files(self) -> dict[str, bytes]:
        """The settings as FAST publishes them, which transformers' `AutoProcessor` and
        `read_published` read."""
        facts = {
            "processor_class": PROCESSOR_CLASS,
            "scale": self.config.scale,
            "vocab_size": self.vocab_size,
            "min_token": self.config.lowest,
            "time_horizon": self.config.horizon,
            "action_dim": self.config.action_dim,
        }
        return {PUBLISHED_FILE: (json.dumps(facts, indent=2) + "\n").encode()}

    def read_files(self, folder: Path) -> None:
        try:
            self.use(tokenizers.Tokenizer.from_file(str(folder / BPE_FILE)))
        except Exception as error:  # the library raises plain Exceptions
            raise ArtifactError(f"{folder / BPE_FILE} cannot be read ({error})") from error

    def fit(
        self,
        chunks: Callable[[], Iterator[Tensor]],
        on_progress: Callable[[float], None] = no_progress,
    ) -> None:
        lowest, highest, total = self._range(chunks())
        if highest - lowest >= FIRST_SURROGATE:
            raise ValueError(
                f"coefficients from {lowest} to {highest} are too many for text: use a smaller "
                f"scale than {self.config.scale}, or another normalization"
            )
        self.config = replace(self.config, lowest=lowest, highest=highest)
        bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
        bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        bpe.decoder = tokenizers.decoders.ByteLevel()
        symbols = _byte_symbols()
        used = {byte for code in range(highest - lowest + 1) for byte in chr(code).encode()}
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=self.config.vocab_size,
            min_frequency=2,
            show_progress=False,
            special_tokens=[],
            initial_alphabet=[symbols[byte] for byte in sorted(used)],
            max_token_length=10_000,
        )
        some = spread_blocks(chunks(), -(-total // MAX_CHUNKS))
        texts = (text for block in some for text in self._texts(self._coefficients(block)))
        bpe.train_from_iterator(texts, trainer)
        self.use(bpe)

    def _range(self, blocks: Iterator[Tensor]) -> tuple[int, int, int]:
        """Smallest and largest coefficient of all chunks, and how many chunks there are."""
        lowest, highest, total = sys.maxsize, -sys.maxsize, 0
        for block in blocks:
            found = self._coefficients(block)
            lowest, highest = min(lowest, int(found.min())), max(highest, int(found.max()))
            total += len(block)
        return lowest, highest, total

    def encode(self, actions_BTA: Tensor) -> Tokens:
        texts = self._texts(self._coefficients(actions_BTA))
        rows = [e.ids for e in self.bpe.encode_batch(texts, add_special_tokens=False)]
        return tokens_of_lists(rows, device=actions_BTA.device)

    def decode(self, tokens: Tokens) -> Tensor:
        rows = [
            self._decode_row(ids[:length])
            for ids, length in zip(tokens.ids.tolist(), tokens.lengths.tolist(), strict=True)
        ]
        shape = (-1, self.config.horizon, self.config.action_dim)
        coefficients_BTA = np.array(rows, np.float64).reshape(shape) / self.config.scale
        chunks_BTA = scipy.fft.idct(coefficients_BTA, axis=1, norm="ortho")
        return torch.from_numpy(chunks_BTA.astype(np.float32)).to(tokens.ids.device)

    def _coefficients(self, actions_BTA: Tensor) -> NDArray[np.int64]:
        """Rounded, lowest frequency of all dimensions first, (B, T * A)."""
        values_BTA = actions_BTA.detach().cpu().double().numpy()
        spectrum_BTA = scipy.fft.dct(values_BTA, axis=1, norm="ortho")
        rounded = np.around(spectrum_BTA * self.config.scale).astype(np.int64)
        return rounded.reshape(len(rounded), -1)

    def _texts(self, coefficients_BN: NDArray[np.int64]) -> list[str]:
        """One character per coefficient."""
        lowest, highest = self._bounds
        kept_BN = coefficients_BN.clip(lowest, highest)
        self.num_clipped += int((kept_BN != coefficients_BN).sum())
        points = (kept_BN - lowest).astype("<u4")
        return [row.tobytes().decode("utf-32-le") for row in points]

    def _decode_row(self, ids: Sequence[int]) -> list[int]:
        """The coefficients of one sequence, exactly as many as a chunk has."""
        data = b"".join(self._bytes[i] for i in ids)
        lowest, highest = self._bounds
        text = data.decode("utf-8", errors="replace")
        found = [ord(c) + lowest for c in text if ord(c) <= highest - lowest]
        num_invalid = len(text) - len(found)
        if num_invalid or len(found) != self.num_coefficients:
            if self.config.decoding == "strict":
                raise DecodeError(
                    f"{len(ids)} fast tokens gave {len(found)} coefficients and {num_invalid} "
                    f"invalid characters, expected {self.num_coefficients} coefficients"
                )
            self.num_mended += 1
        found = found[: self.num_coefficients]
        return found + [0] * (self.num_coefficients - len(found))


def read_published(folder: Path, *, horizon: int, action_dim: int) -> Fast:
    """A FAST artifact as its authors publish it, without running its code.

    Args:
        folder: Folder with `tokenizer.json` and `processor_config.json`.
        horizon: Number of actions in the chunks to tokenize; the published tokenizer fits any.
        action_dim: Number of dimensions of their actions; it fits any as well.
    """
    try:
        facts = json.loads((folder / PUBLISHED_FILE).read_text())
        lowest, scale = int(facts["min_token"]), float(facts["scale"])
        vocab_size = int(facts["vocab_size"])
    except (OSError, ValueError, KeyError) as error:
        raise ArtifactError(f"{folder} is no published FAST tokenizer ({error})") from error
    # Its range is not published; fitting refuses one wider than the vocabulary.
    config = FastConfig(horizon, action_dim, vocab_size=vocab_size, scale=scale)
    codec = Fast(replace(config, lowest=lowest, highest=lowest + vocab_size))
    codec.read_files(folder)
    return codec


def published_digest(folder: Path) -> str:
    """What names a FAST artifact by its contents, as 8 hexadecimal digits.

    Args:
        folder: Folder as `read_published` takes it.
    """
    try:
        parts = [(folder / name).read_bytes() for name in (BPE_FILE, PUBLISHED_FILE)]
    except OSError as error:
        raise ArtifactError(f"{folder} is no published FAST tokenizer ({error})") from error
    return digest(*parts)[:8]


def _byte_symbols() -> dict[int, str]:
    """The printable character that byte-level BPE writes for each byte.

    Printable Latin-1 bytes stand for themselves, the others count up from 256.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
