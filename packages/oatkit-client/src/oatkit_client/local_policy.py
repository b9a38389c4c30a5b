"""A light policy that `oatkit export` wrote, run on the robot by ONNX Runtime: no torch, no oatkit.

from oatkit_client import ChunkQueue, LocalPolicy

policy = LocalPolicy("out/onnx")
policy.infer({"observation/state": state}, budget=4)["actions"]  # (horizon, action_dim), raw units

Shape letters: G slot of a stage, S slot that attention sees, V vocabulary, T step in the chunk,
A action dimension.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence, SupportsIndex

import numpy as np

from oatkit_client.exported_files import open_model, read_description
from oatkit_client.key_map import STATE, TASK, KeyMap
from oatkit_client.local_decoder import LocalDecoder
from oatkit_client.local_draws import DrawRule, choice, count_draws, rules_of_draws, share_until
from oatkit_client.local_flow import LocalFlow
from oatkit_client.protocol import Budget, Reply, StopReason
from oatkit_client.sampling import Sampling
from oatkit_client.training_range import TrainingRange

REPEATS = 3
"""How often the duration of a stage is measured, for deadlines."""


class LocalPolicy:
    """The light policy itself on the robot; `ChunkQueue` and `RealTimeChunks` take it as a client.

    Args:
        folder: Folder that `oatkit export` wrote for a light policy.
        sampling: How ids are chosen. With a seed, an episode of the same observations gets the same
            actions. The temperature scales the noise of a flow head.

    Attributes:
        facts: The policy's part of its `export.json`.
        decoder: Decodes the tokens; a policy with a flow head has none.
        action_scale: Raw units in a normalized one of each action dimension, (action_dim,), in
            which draws are compared; 1 for a folder that was exported earlier.
    """

    def __init__(self, folder: str | os.PathLike[str], *, sampling: Sampling = Sampling()) -> None:
        facts = read_description(folder)
        if facts["policy"] is None:
            raise ValueError(
                f"{folder} holds a tokenizer's decoder, expected a light policy's files"
            )
        self.facts: dict[str, Any] = facts["policy"]
        self._encoder = open_model(Path(folder) / self.facts["encoder"]["file"])
        self._flow = LocalFlow(folder, facts) if "step" in self.facts else None
        if self._flow is None:
            self.decoder = LocalDecoder(folder)
            self._stage = open_model(Path(folder) / self.facts["stage"]["file"])
        # folders that were exported earlier have no names
        self._range = TrainingRange(self.facts.get("state"), self.facts.get("state_names", ()))
        self._has_warned_of_range = False
        self.action_scale = np.asarray(facts.get("action_scale", 1.0))
        self._keys = KeyMap.for_parts(self.facts["encoder"]["inputs"])
        self._times_s: list[float] = []
        self._sampling = sampling
        self._rng: np.random.Generator | None = None
        self._seed: int | None = None

    def infer(
        self,
        obs: Mapping[str, Any],
        *,
        budget: Budget | None = None,
        deadline_ms: float | None = None,
        sampling: Sampling | None = None,
        draws: int = 1,
        committed: Any = None,
    ) -> Reply:
        """A reply like that of a server, with the chunk as `actions`.

        Args:
            obs: Observation by openpi's or LeRobot's keys. A policy with history takes a leading
                time axis; otherwise the frame is repeated.
            budget: Maximum number of tokens, or "auto"; all by default. Where a flow head acts, the
                number of Euler steps.
            deadline_ms: Time after which generation stops at the last trained budget that fits, at
                the first at the latest. A kind without prefixes cannot stop, and the reply warns.
            sampling: How ids are chosen, instead of what the policy was opened with.
            draws: Number of chunks to generate, one after the other; several are the reply's
                `draws`, and share the time of a deadline.
            committed: Must be None or empty: committed actions are for a server, since choosing
                tokens by them decodes many chunks for one.
        """
        num_draws = count_draws(draws)
        if committed is not None and np.size(committed):
            raise ValueError(
                "a policy on the robot takes no committed actions: ask a server for chunks that go "
                "on from them"
            )
        obs = self._of_this_robot(obs)
        if deadline_ms is not None and not deadline_ms > 0:
            raise ValueError(f"deadline_ms is {deadline_ms}, expected more than 0")
        sampling = self._sampling if sampling is None else sampling
        rules = rules_of_draws(sampling, self._random(sampling), num_draws)
        if self._flow is None:
            reply = self._speak(obs, budget, deadline_ms, rules)
        else:
            reply = self._integrate(self._flow, obs, budget, deadline_ms, rules)
        return self._with_range_warning(reply, obs)

    def reset(self) -> None:
        """An episode begins: the random numbers of a seed begin again."""
        self._rng = None

    def _of_this_robot(self, obs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The observation without the name of its robot, which must be this policy's."""
        if obs.get("embodiment") is None:
            return {key: value for key, value in obs.items() if key != "embodiment"}
        own = (self.facts.get("embodiment") or {}).get("name")
        if obs["embodiment"] != own:
            found = "a robot without a name" if own is None else f"the robot {own!r}"
            raise ValueError(f"this policy is for {found}, not for {obs['embodiment']!r}")
        return {key: value for key, value in obs.items() if key != "embodiment"}

    def _with_range_warning(self, reply: Reply, obs: Mapping[str, Any]) -> Reply:
        """The reply, with a warning of the first state that is far outside the training data."""
        if self._has_warned_of_range:
            return reply
        far = self._range.find_far(self._keys.translate(obs).get(STATE, ()))
        if far is not None:
            self._has_warned_of_range = True
            others = [reply["warning"]] if "warning" in reply else []
            reply["warning"] = "; ".join([*others, far.sentence])
        return reply

    def _start_state(self, obs: Mapping[str, Any]) -> Any:
        """The latest state, where actions are relative to it."""
        if not self.decoder.state_dim:
            return None
        state = np.asarray(self._keys.translate(obs)[STATE], np.float32)
        return state.reshape(-1, self.decoder.state_dim)[-1]

    def _random(self, sampling: Sampling) -> np.random.Generator:
        """The episode's random numbers."""
        if self._rng is None or self._seed != sampling.seed:
            self._rng, self._seed = np.random.default_rng(sampling.seed), sampling.seed
        return self._rng

    def _speak(
        self,
        obs: Mapping[str, Any],
        budget: Budget | None,
        deadline_ms: float | None,
        rules: Sequence[DrawRule],
    ) -> Reply:
        """Generate the tokens of each draw, and decode them."""
        began, (max_tokens, thresholds) = time.perf_counter(), self._limits(budget)
        context = self._encode(obs)
        deadline = None
        if deadline_ms is not None and self.decoder.has_prefixes:
            deadline = began + self._measure_once(context) + deadline_ms / 1000
        state_S = self._start_state(obs)
        found = []
        for draw, rule in enumerate(rules):
            share, choose = share_until(deadline, len(rules) - draw), choice(rule)
            found.append(self._generate(context, choose, max_tokens, thresholds, share, state_S))
        reply = found[0]
        if len(rules) > 1:
            reply["draws"] = [each["actions"] for each in found]
        execution = self.facts.get("execution")  # missing in folders that were exported earlier
        if execution is not None:
            entropy_bin = np.searchsorted(execution["entropy_bits"], np.mean(reply["entropy"]))
            reply["execute_steps"] = execution["steps"][entropy_bin]
        if deadline is not None:
            reply["deadline_met"] = time.perf_counter() <= deadline
        elif deadline_ms is not None:
            reply["warning"] = "this policy cannot stop early: deadline_ms is ignored"
        return reply

    def _integrate(
        self,
        flow: LocalFlow,
        obs: Mapping[str, Any],
        budget: Budget | None,
        deadline_ms: float | None,
        rules: Sequence[DrawRule],
    ) -> Reply:
        """Integrate the chunk of each draw from noise, in fewer steps where the deadline is
        near."""
        began, num_steps = time.perf_counter(), flow.resolve_steps(budget)
        context = self._encode(obs)
        deadline = None
        stopped: StopReason = "all" if num_steps >= flow.num_steps else "budget"
        if deadline_ms is not None:
            deadline = began + flow.measure_once(context) + deadline_ms / 1000
            share = share_until(deadline, len(rules))
            wanted, num_steps = num_steps, flow.steps_until(share, num_steps)
            stopped = "deadline" if num_steps < wanted else stopped
        chunks = []
        for sampling, rng in rules:
            noise_TA = rng.standard_normal(flow.chunk_shape)
            noise_TA = noise_TA * (0 if sampling.is_greedy else sampling.temperature)
            chunks.append(flow.integrate(context, noise_TA, num_steps))
        reply: Reply = {
            "actions": chunks[0],
            "tokens": [],
            "entropy": [],
            "budget_used": num_steps,
            "calls": num_steps,
            "stopped": stopped,
        }
        if len(rules) > 1:
            reply["draws"] = chunks
        execution = self.facts.get("execution")
        if execution is not None:
            reply["execute_steps"] = execution["steps"][0]  # without tokens there is one bin
        if deadline is not None:
            reply["deadline_met"] = time.perf_counter() <= deadline
        return reply

    def _generate(
        self,
        context: Mapping[str, Any],
        choose: Callable[[Any], list[int]],
        max_tokens: int,
        thresholds: Mapping[int, float],
        deadline: float | None,
        state_S: Any = None,
    ) -> Reply:
        """Generate stage after stage until there are `max_tokens`, a threshold of "auto" is met or
        the deadline is near; then decode."""
        tokens: list[int] = []
        entropy: list[float] = []
        cache, calls, reached = self._empty_cache(), 0, 0
        stopped: StopReason = "all" if max_tokens == self.facts["endpoints"][-1] else "budget"
        while reached < max_tokens:
            logits_GV = self._feed(self.facts["stages"][calls], tokens, context, cache)
            tokens += choose(logits_GV)
            entropy += _entropy_bits(logits_GV).tolist()
            reached = min(self.facts["endpoints"][calls], max_tokens)
            calls += 1
            if reached in thresholds and np.mean(entropy) <= thresholds[reached]:
                stopped = "auto"
                break
            if not self._is_time_left(calls, reached, max_tokens, deadline):
                budgets = [b for b in self.decoder.facts["budgets"] if b <= reached]
                reached, stopped = max(budgets, default=reached), "deadline"
                break
        return {
            "actions": self.decoder.decode(tokens, reached, state_S, context.get("context")),
            "tokens": tokens[:reached],
            "entropy": entropy[:reached],
            "budget_used": reached,
            "calls": calls,
            "stopped": stopped,
        }

    def _limits(self, budget: Budget | None) -> tuple[int, dict[int, float]]:
        """The maximum number of tokens, and for `budget="auto"` the largest mean entropy of so many
        tokens at which generation stops."""
        max_tokens: int = self.facts["endpoints"][-1]
        if budget is None:
            return max_tokens, {}
        if not isinstance(budget, SupportsIndex):
            if budget != "auto":
                raise ValueError(f"budget is {budget!r}, expected a number of tokens or 'auto'")
            auto = self.facts["auto"]
            if auto is None or "change" in auto:  # of a rule that decoded after every stage
                raise ValueError(
                    "budget 'auto' has no thresholds: `oatkit policy calibrate POLICY --data DATA` "
                    "finds them, then export the policy again"
                )
            return max_tokens, dict(zip(auto["num_tokens"], auto["entropy_bits"]))
        if not 1 <= budget <= max_tokens:
            raise ValueError(f"budget {budget} is outside 1 .. {max_tokens}")
        return budget, {}

    def _measure_once(self, context: Mapping[str, Any]) -> float:
        """Measure how long stages and decoding take here, the first time; gives the seconds that
        measuring took."""
        if self._times_s:
            return 0.0
        began = time.perf_counter()
        rows = []
        for _ in range(REPEATS + 1):
            tokens: list[int] = []
            cache, times = self._empty_cache(), [time.perf_counter()]
            for stage in self.facts["stages"]:
                tokens += self._feed(stage, tokens, context, cache).argmax(axis=-1).tolist()
                times.append(time.perf_counter())
            state_S = np.zeros(self.decoder.state_dim)
            self.decoder.decode(tokens, state=state_S, context=context.get("context"))
            rows.append(np.diff([*times, time.perf_counter()]))
        self._times_s = np.median(rows[1:], axis=0).tolist()
        return time.perf_counter() - began

    def _is_time_left(
        self, calls: int, reached: int, max_tokens: int, deadline: float | None
    ) -> bool:
        """Whether the stages up to the next trained budget, and decoding, end before the
        deadline."""
        if deadline is None or reached >= max_tokens:
            return True
        larger = [b for b in self.decoder.facts["budgets"] if reached < b < max_tokens]
        goal = min(larger, default=max_tokens)
        needed = 1 + sum(end < goal for end in self.facts["endpoints"])
        needed_s = sum(self._times_s[calls:needed]) + self._times_s[-1]
        return time.perf_counter() + needed_s <= deadline

    def _encode(self, obs: Mapping[str, Any]) -> dict[str, Any]:
        """What the encoder gives of an observation, by name."""
        names = list(self.facts["encoder"]["outputs"])
        return dict(zip(names, self._encoder.run(names, self._observation(obs))))

    def _observation(self, obs: Mapping[str, Any]) -> dict[str, Any]:
        given = self._keys.translate(obs)
        return {
            name: self._task(given) if name == TASK else _as_batch(name, given, port)
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
        context: Mapping[str, Any],
        cache: dict[str, Any],
    ) -> Any:
        """Logits of one stage, whose input is the block before it and masks; the block stays in the
        cache, the masks do not."""
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
                **{name: context[name] for name in ("into", "back")},
                **cache,
            },
        )
        num_seen = num_before + num_kept
        cache["keys"] = np.ascontiguousarray(keys[:, :, :num_seen])
        cache["values"] = np.ascontiguousarray(values[:, :, :num_seen])
        return logits_BGV[0]


def _as_batch(name: str, given: Mapping[str, Any], port: Mapping[str, Any]) -> Any:
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
    """Entropy of each slot's distribution, in bits."""
    shifted_GV = logits_GV - logits_GV.max(axis=-1, keepdims=True)
    total_G1 = np.exp(shifted_GV).sum(axis=-1, keepdims=True)
    log_GV = shifted_GV - np.log(total_G1)
    return -(np.exp(log_GV) * log_GV).sum(axis=-1) / np.log(2)
