"""A tokenizer's decoder that `oatkit export` wrote, run on the robot by ONNX Runtime.

from oatkit_client import Client, LocalDecoder

decoder = LocalDecoder("out/onnx")
decoder.decode([811, 4, 1203, 77], budget=2)  # (horizon, action_dim), raw units

with Client("ws://127.0.0.1:8000", decoder=decoder) as client:  # only tokens travel
    client.infer({"observation/state": state})["actions"]

Shape letters: B batch, K token slot, T step in the chunk, A action dimension.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from oatkit_client.exported_files import open_model, read_description


class LocalDecoder:
    """Decodes tokens to raw actions.

    Args:
        folder: Folder that `oatkit export` wrote.

    Attributes:
        facts: Content of its `export.json`: `horizon`, `action_dim`, `budgets`, `max_tokens` and
            more.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.facts = read_description(folder)
        if self.facts["decoder"] is None:
            raise ValueError(f"{folder} holds a policy that has no tokens: open it as LocalPolicy")
        self._model = open_model(Path(folder) / self.facts["decoder"]["file"])

    @property
    def fingerprint(self) -> str:
        """Digest of the tokenizer, which the metadata of its server has too."""
        return str(self.facts["fingerprint"])

    @property
    def has_prefixes(self) -> bool:
        """Whether any number of leading tokens decodes to a chunk."""
        return "lengths" in self.facts["decoder"]["inputs"]

    @property
    def state_dim(self) -> int:
        """Number of dimensions of the state that chunks are relative to; 0 where they are not."""
        inputs = self.facts["decoder"]["inputs"]
        return int(inputs["state"]["shape"][1]) if "state" in inputs else 0

    @property
    def reads_context(self) -> bool:
        """Whether chunks are corrected by what the policy sees: tokens alone do not decode."""
        return "context" in self.facts["decoder"]["inputs"]

    def decode(
        self, tokens: Any, budget: int | None = None, state: Any = None, context: Any = None
    ) -> Any:
        """Raw actions, (horizon, action_dim), or (B, horizon, action_dim) of several sequences.

        Args:
            tokens: Ids of a chunk, or a list of such; fewer than all of a chunk where the kind of
                tokenizer has prefixes.
            budget: Number of leading tokens that count; all by default.
            state: State at the start of the chunk, (state_dim,) or (B, state_dim) in raw units,
                where actions are relative to it.
            context: What the policy's encoder gave, where `reads_context`; `LocalPolicy` has it.
        """
        is_batch = any(np.ndim(row) > 0 for row in tokens)
        rows = [np.asarray(row) for row in (tokens if is_batch else [tokens])]
        inputs = {**self._inputs(rows, budget), **self._state_input(state, len(rows))}
        if self.reads_context:
            if context is None:
                raise ValueError(
                    "this policy corrects its chunks by what it sees: let the server decode, or "
                    "open the folder as LocalPolicy"
                )
            inputs["context"] = context
        (chunks_BTA,) = self._model.run(["actions"], inputs)
        return chunks_BTA if is_batch else chunks_BTA[0]

    def _state_input(self, state: Any, num_rows: int) -> dict[str, Any]:
        """The state as an input, where the decoder has one."""
        if not self.state_dim:
            return {}
        if state is None:
            raise ValueError(
                "this decoder's actions are relative to the state at the start of their chunk: "
                f"give state=, {self.state_dim} numbers in raw units"
            )
        state_BS = np.atleast_2d(np.asarray(state, np.float32))
        if state_BS.shape not in ((num_rows, self.state_dim), (1, self.state_dim)):
            raise ValueError(
                f"the state is {state_BS.shape}, expected ({num_rows}, {self.state_dim})"
            )
        return {"state": np.repeat(state_BS, num_rows // len(state_BS), axis=0)}

    def _inputs(self, rows: Sequence[Any], budget: int | None) -> dict[str, Any]:
        max_tokens, vocab_size = self.facts["max_tokens"], self.facts["vocab_size"]
        if budget is not None and not 1 <= budget <= max_tokens:
            raise ValueError(f"budget {budget} is outside 1 .. {max_tokens}")
        tokens_BK = np.zeros((len(rows), max_tokens), np.int64)
        lengths_B = np.zeros(len(rows), np.int64)
        for number, row in enumerate(rows):
            ids = row[:budget]
            if ids.ndim != 1 or (ids.dtype.kind not in "iu" and len(ids)):
                raise ValueError(f"tokens are {row.dtype} {row.shape}, expected whole numbers")
            if len(ids) > max_tokens:
                raise ValueError(f"a sequence has {len(ids)} tokens, this decoder has {max_tokens}")
            bad = ids[(ids < 0) | (ids >= vocab_size)]
            if len(bad):
                raise ValueError(f"id {bad[0]} is outside the vocabulary 0 .. {vocab_size - 1}")
            tokens_BK[number, : len(ids)] = ids
            lengths_B[number] = len(ids)
        if self.has_prefixes:
            return {"tokens": tokens_BK, "lengths": lengths_B}
        if (lengths_B < max_tokens).any():
            raise ValueError(
                f"{self.facts['kind']} decodes only all of its {max_tokens} tokens, got "
                f"{lengths_B.min()}"
            )
        return {"tokens": tokens_BK}
