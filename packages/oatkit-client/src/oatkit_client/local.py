"""What `oatkit export` wrote, run on the robot by ONNX Runtime: no torch, no oatkit.

from oatkit_client import Client, LocalDecoder

decoder = LocalDecoder("out/onnx")
decoder.decode([811, 4, 1203, 77], budget=2)  # (horizon, action_dim), raw units

with Client("ws://127.0.0.1:8000", decoder=decoder) as client:  # only tokens travel
    client.infer({"observation/state": state})["actions"]

Shape letters: B batch, K token slot, G slot of a call, V vocabulary, T step, A action dimension.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

EXPORT = "export.json"
STATE, IMAGES, TASK = "observation.state", "observation.images.", "task"
REPEATS = 3
"""Of measuring what a stage takes, where there is a deadline."""


class LocalDecoder:
    """Tokens to raw actions.

    Args:
        folder: What `oatkit export` wrote.

    Attributes:
        facts: Its `export.json`: `horizon`, `action_dim`, `budgets`, `max_tokens` and more.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.facts = _facts(folder)
        self._session = _session(Path(folder) / self.facts["decoder"]["file"])

    @property
    def fingerprint(self) -> str:
        """Of the tokenizer; a server's metadata has that of its own."""
        return str(self.facts["fingerprint"])

    @property
    def has_prefixes(self) -> bool:
        """Whether any number of tokens is a chunk."""
        return "lengths" in self.facts["decoder"]["inputs"]

    def decode(self, tokens: Any, budget: int | None = None) -> Any:
        """Raw actions, (horizon, action_dim), or (B, horizon, action_dim) of several sequences.

        Args:
            tokens: The ids of a chunk, or a list of such; may be shorter than all of its tokens
                where the kind has prefixes.
            budget: Only the first so many tokens count; all by default.
        """
        rows = [np.asarray(row) for row in _rows(tokens)]
        inputs = self._inputs(rows, budget)
        (chunks_BTA,) = self._session.run(["actions"], inputs)
        return chunks_BTA if _is_batch(tokens) else chunks_BTA[0]

    def _inputs(self, rows: Sequence[Any], budget: int | None) -> dict[str, Any]:
        most, vocab_size = self.facts["max_tokens"], self.facts["vocab_size"]
        if budget is not None and not 1 <= budget <= most:
            raise ValueError(f"budget {budget} is outside 1 .. {most}")
        tokens_BK = np.zeros((len(rows), most), np.int64)
        lengths_B = np.zeros(len(rows), np.int64)
        for number, row in enumerate(rows):
            ids = row[:budget]
            if ids.ndim != 1 or (ids.dtype.kind not in "iu" and len(ids)):
                raise ValueError(f"tokens are {row.dtype} {row.shape}, expected whole numbers")
            if len(ids) > most:
                raise ValueError(f"a sequence has {len(ids)} tokens, this decoder has {most}")
            bad = ids[(ids < 0) | (ids >= vocab_size)]
            if len(bad):
                raise ValueError(f"id {bad[0]} is outside the vocabulary 0 .. {vocab_size - 1}")
            tokens_BK[number, : len(ids)] = ids
            lengths_B[number] = len(ids)
        if self.has_prefixes:
            return {"tokens": tokens_BK, "lengths": lengths_B}
        if (lengths_B < most).any():
            kind = self.facts["kind"]
            raise ValueError(f"{kind} decodes only all of its {most} tokens, got {lengths_B.min()}")
        return {"tokens": tokens_BK}


class LocalPolicy:
    """The light policy itself on the robot; `ChunkQueue` and `RealTimeChunks` take it as a client.

    Args:
        folder: What `oatkit export` wrote for a light policy.
        temperature: Of sampling; 0 takes the likeliest ids.
        top_k: Only so many of the likeliest ids; None for all.
        seed: Of the draws.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        temperature: float = 1.0,
        top_k: int | None = 10,
        seed: int | None = None,
    ) -> None:
        self.decoder = LocalDecoder(folder)
        if self.decoder.facts["policy"] is None:
            raise ValueError(
                f"{folder} holds a tokenizer's decoder, expected a light policy's files"
            )
        self.facts: dict[str, Any] = self.decoder.facts["policy"]
        self._encoder = _session(Path(folder) / self.facts["encoder"]["file"])
        self._stage = _session(Path(folder) / self.facts["stage"]["file"])
        self._temperature = temperature
        self._top_k = top_k
        self._rng = np.random.default_rng(seed)
        self._times_s: list[float] = []
        self._names = _names(self.facts)

    def infer(
        self,
        obs: Mapping[str, Any],
        *,
        budget: int | str | None = None,
        deadline_ms: float | None = None,
    ) -> dict[str, Any]:
        """A reply as a server's: `actions`, `tokens`, `entropy`, `budget_used`, `calls`.

        Args:
            obs: openpi's or LeRobot's keys. A policy with history takes a leading time axis;
                otherwise the frame is repeated.
            budget: The most tokens, or "auto"; all by default.
            deadline_ms: Stop at the last trained budget that fits, at the first at the latest; a
                kind without prefixes cannot, and the reply warns.
        """
        began = time.perf_counter()
        most, auto = self._limits(budget)
        if deadline_ms is not None and not deadline_ms > 0:
            raise ValueError(f"deadline_ms is {deadline_ms}, expected more than 0")
        folded = dict(zip(("into", "back"), self._encoder.run(None, self._observation(obs))))
        at = None
        if deadline_ms is not None and self.decoder.has_prefixes:
            at = began + self._measure(folded) + deadline_ms / 1000
        reply = self._generate(folded, most, auto, at)
        if at is not None:
            reply["deadline_met"] = time.perf_counter() <= at
        elif deadline_ms is not None:
            reply["warning"] = "this policy cannot stop early: deadline_ms is ignored"
        return reply

    def _generate(
        self,
        folded: Mapping[str, Any],
        most: int,
        auto: Mapping[str, float] | None,
        at: float | None,
    ) -> dict[str, Any]:
        """Stage after stage, up to `most` tokens, until `auto` is content or `at` is near."""
        tokens: list[int] = []
        entropy: list[float] = []
        chunk_TA: Any = None
        cache, calls, reached = self._empty_cache(), 0, 0
        while reached < most:
            logits_GV = self._feed(self.facts["stages"][calls], tokens, folded, cache)
            bits_G = _entropy_bits(logits_GV)
            tokens += self._sample(logits_GV).tolist()
            entropy += bits_G.tolist()
            reached = min(self.facts["endpoints"][calls], most)
            calls += 1
            if auto is not None:
                before_TA, chunk_TA = chunk_TA, self.decoder.decode(tokens, reached)
                if self._is_settled(auto, before_TA, chunk_TA, bits_G):
                    break
            if at is not None and reached < most and not self._fits(calls, reached, most, at):
                budgets = [b for b in self.decoder.facts["budgets"] if b <= reached]
                reached, chunk_TA = max(budgets, default=reached), None
                break
        return {
            "actions": self.decoder.decode(tokens, reached) if chunk_TA is None else chunk_TA,
            "tokens": tokens[:reached],
            "entropy": entropy[:reached],
            "budget_used": reached,
            "calls": calls,
        }

    def _limits(self, budget: int | str | None) -> tuple[int, dict[str, float] | None]:
        """The most tokens, and the thresholds of `budget="auto"`."""
        most: int = self.facts["endpoints"][-1]
        if budget is None:
            return most, None
        if isinstance(budget, str):
            if budget != "auto":
                raise ValueError(f"budget is {budget!r}, expected a number of tokens or 'auto'")
            if self.facts["auto"] is None:
                raise ValueError(
                    "budget 'auto' has no thresholds: `oatkit policy train` finds them"
                )
            return most, self.facts["auto"]
        if not 1 <= budget <= most:
            raise ValueError(f"budget {budget} is outside 1 .. {most}")
        return budget, None

    def _is_settled(
        self, auto: Mapping[str, float], before_TA: Any, now_TA: Any, bits_G: Any
    ) -> bool:
        """Whether the chunk no longer moves or the tokens are near certain."""
        change = np.inf
        if before_TA is not None:
            scale_A = np.array(self.decoder.facts["normalization"]["scale"])
            change = np.sqrt(np.mean(((now_TA - before_TA) / scale_A) ** 2))
        return bool(change <= auto["change"] or bits_G.mean() <= auto["entropy_bits"])

    def _measure(self, folded: Mapping[str, Any]) -> float:
        """How long stages and decoding take here, the first time; gives the seconds it took."""
        if self._times_s:
            return 0.0
        began = time.perf_counter()
        rows = []
        for _ in range(REPEATS + 1):
            tokens: list[int] = []
            cache, times = self._empty_cache(), [time.perf_counter()]
            for stage in self.facts["stages"]:
                tokens += self._sample(self._feed(stage, tokens, folded, cache)).tolist()
                times.append(time.perf_counter())
            self.decoder.decode(tokens)
            rows.append(np.diff([*times, time.perf_counter()]))
        self._times_s = np.median(rows[1:], axis=0).tolist()
        return time.perf_counter() - began

    def _fits(self, calls: int, reached: int, most: int, at: float) -> bool:
        """Whether the stages up to the next trained budget, and decoding, are done by then."""
        larger = [b for b in self.decoder.facts["budgets"] if reached < b < most]
        goal = min(larger, default=most)
        needed = 1 + sum(end < goal for end in self.facts["endpoints"])
        return time.perf_counter() + sum(self._times_s[calls:needed]) + self._times_s[-1] <= at

    def reset(self) -> None:
        """An episode begins; nothing is remembered of the one before."""

    def _observation(self, obs: Mapping[str, Any]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for key, value in obs.items():
            if key not in self._names:
                expected = ", ".join(sorted(self._names))
                raise ValueError(f"the observation has the key {key!r}, expected {expected}")
            if self._names[key] in given:
                raise ValueError(f"the observation has {self._names[key]} twice, also as {key!r}")
            given[self._names[key]] = value
        return {
            name: self._task(given) if name == TASK else _array(name, given, port)
            for name, port in self.facts["encoder"]["inputs"].items()
        }

    def _task(self, given: Mapping[str, Any]) -> Any:
        tasks = self.facts["tasks"]
        if len(tasks) < 2 and TASK not in given:
            return np.zeros(1, np.int64)
        if given.get(TASK) not in tasks:
            raise ValueError(f"the task is {given.get(TASK)!r}, expected one of {tasks}")
        return np.array([tasks.index(given[TASK])])

    def _empty_cache(self) -> dict[str, Any]:
        facts = self.facts
        empty = np.empty((facts["num_layers"], facts["num_heads"], 0, facts["head_width"]), "f4")
        return {"keys": empty, "values": empty}

    def _feed(
        self,
        stage: Mapping[str, Any],
        tokens: Sequence[int],
        folded: Mapping[str, Any],
        cache: dict[str, Any],
    ) -> Any:
        """One call: the block before, then masks; its tokens stay in the cache."""
        num_slots, num_kept = len(stage["positions"]), stage["num_kept"]
        num_before = cache["keys"].shape[2]
        symbols = [*tokens[len(tokens) - num_kept :], *[self.facts["mask_id"]] * num_slots]
        bias_GS = np.zeros((num_slots, num_before + num_slots), np.float32)
        if stage["is_seen"] is not None:
            bias_GS[~np.array(stage["is_seen"], bool)] = self.facts["hidden"]
        logits_BGV, keys, values = self._stage.run(
            ["logits", "new_keys", "new_values"],
            {
                "symbols": np.array([symbols[:num_slots]], np.int64),
                "positions": np.array(stage["positions"], np.int64),
                "bias": bias_GS,
                **folded,
                **cache,
            },
        )
        num_seen = num_before + num_kept
        cache["keys"] = np.ascontiguousarray(keys[:, :, :num_seen])
        cache["values"] = np.ascontiguousarray(values[:, :, :num_seen])
        return logits_BGV[0]

    def _sample(self, logits_GV: Any) -> Any:
        """One id for each slot."""
        if self._temperature == 0:
            return logits_GV.argmax(axis=-1)
        num_ids = min(self._top_k or logits_GV.shape[-1], logits_GV.shape[-1])
        ids_GC = np.argsort(-logits_GV, axis=-1)[:, :num_ids]
        likeliest_GC = np.take_along_axis(logits_GV, ids_GC, axis=-1) / self._temperature
        below_GC = np.exp(likeliest_GC - likeliest_GC[:, :1]).cumsum(axis=-1)
        drawn_G1 = self._rng.random((len(ids_GC), 1)) * below_GC[:, -1:]
        chosen_G1 = (below_GC <= drawn_G1).sum(axis=-1, keepdims=True)
        return np.take_along_axis(ids_GC, np.minimum(chosen_G1, num_ids - 1), axis=-1)[:, 0]


def _facts(folder: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((Path(folder) / EXPORT).read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} holds no {EXPORT} of `oatkit export` ({error})") from error
    if facts.get("schema") != "oatkit/export" or facts["version"] > 1:
        raise ValueError(f"{folder} is of another oatkit: {facts.get('schema')} is not known here")
    return facts


def _session(file: Path) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError("this needs ONNX Runtime: pip install 'oatkit-client[onnx]'") from error
    options = onnxruntime.SessionOptions()
    # waiting threads would take the cores from what moves the robot
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def _is_batch(tokens: Any) -> bool:
    return any(np.ndim(row) > 0 for row in tokens)


def _rows(tokens: Any) -> Any:
    return tokens if _is_batch(tokens) else [tokens]


def _names(facts: Mapping[str, Any]) -> dict[str, str]:
    """How an observation may name what the encoder reads: LeRobot's keys and openpi's."""
    names = {TASK: TASK, "prompt": TASK}
    for known in facts["encoder"]["inputs"]:
        names[known] = known
        if known == STATE:
            names["observation/state"] = known
        elif known != TASK:
            names["observation/" + known[len(IMAGES) :]] = known
    for known in facts["encoder"]["inputs"]:  # after: `wrist_image` is the camera of that name
        if known.startswith(IMAGES):
            names.setdefault("observation/" + known[len(IMAGES) :] + "_image", known)
    return names


def _array(name: str, given: Mapping[str, Any], port: Mapping[str, Any]) -> Any:
    """A part of an observation with its history, as a batch of one."""
    if name not in given:
        raise ValueError(f"the observation has no {name}")
    array = np.asarray(given[name])
    _, history, *frame = port["shape"]
    if array.shape == tuple(frame):
        array = np.repeat(array[None], history, axis=0)
    if array.shape != (history, *frame):
        raise ValueError(f"{name} is {array.shape}, expected {tuple(frame)}, or {history} of them")
    if port["dtype"] == "uint8" and array.dtype != np.uint8:
        raise ValueError(f"{name} is {array.dtype}, expected uint8")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} holds {array.dtype}, expected numbers")
    with np.errstate(over="ignore"):  # what is too large is not finite then
        batch = np.ascontiguousarray(array[None], port["dtype"])
    if not np.isfinite(batch).all():
        raise ValueError(f"{name} is not finite")
    return batch


def _entropy_bits(logits_GV: Any) -> Any:
    """How uncertain each token is."""
    shifted_GV = logits_GV - logits_GV.max(axis=-1, keepdims=True)
    total_G1 = np.exp(shifted_GV).sum(axis=-1, keepdims=True)
    log_GV = shifted_GV - np.log(total_G1)
    return -(np.exp(log_GV) * log_GV).sum(axis=-1) / np.log(2)
