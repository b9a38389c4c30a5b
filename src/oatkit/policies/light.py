"""`light`: the small policy as an artefact, and how it acts; the network is in `light_net`."""

from __future__ import annotations

import os
import time
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oatkit.data import Dataset
from oatkit.nn.frozen_decoder import FrozenDecoder
from oatkit.policies.auto import MARGIN, AutoThresholds, calibrate, chunk_change
from oatkit.policies.bar import (
    Feed,
    Generators,
    generate,
    uniforms,
)
from oatkit.policies.light_net import Context, LightConfig, LightNet, cached_feed
from oatkit.policies.observation import Observations, ObservationSpec
from oatkit.policies.prediction import (
    Budget,
    Deadline,
    Drawing,
    Drawn,
    Latency,
    Prediction,
    can_stop,
    draw,
    predict,
    resolve_budget,
)
from oatkit.tokenizers import ActionTokenizer, load_tokenizer
from oatkit.tokenizers.artefact import (
    load_state,
    local_folder,
    read_artefact,
    upload,
    write_artefact,
)
from oatkit.types import Schedule

FORMAT_VERSION = 1
LATENCY_REPEATS = 5


class LightPolicy:
    """The network with its tokenizer and all that reading observations takes: the artefact.

    Args:
        net: Trained or not.
        tokenizer: Frozen.
        spec: What is observed.
        auto: Thresholds of `budget="auto"`; None until they are calibrated.
        extras: Further JSON for `config.json`, such as how it was trained.
    """

    def __init__(
        self,
        net: LightNet,
        tokenizer: ActionTokenizer,
        spec: ObservationSpec,
        auto: AutoThresholds | None = None,
        extras: dict[str, Any] | None = None,
    ) -> None:
        self.net = net
        self.tokenizer = tokenizer
        self.spec = spec
        self.auto = auto
        self.extras = extras or {}
        self._frames: deque[Observations] = deque(maxlen=spec.history)
        self._warned: set[object] = set()
        self._frozen: FrozenDecoder | None = None
        self._latencies: dict[tuple[int, Schedule], Latency] = {}

    @classmethod
    def make(
        cls, config: LightConfig, tokenizer: ActionTokenizer, spec: ObservationSpec
    ) -> LightPolicy:
        """An untrained policy."""
        if config.endpoints is not None and config.endpoints[-1] != tokenizer.max_tokens:
            raise ValueError(
                f"the schedule ends at {config.endpoints[-1]} tokens, {tokenizer.kind} has "
                f"{tokenizer.max_tokens}"
            )
        net = LightNet(
            config,
            spec,
            vocab_size=tokenizer.vocab_size,
            num_tokens=tokenizer.max_tokens,
            has_end=not tokenizer.is_fixed_length,
        )
        return cls(net.eval(), tokenizer, spec)

    @classmethod
    def for_dataset(
        cls,
        config: LightConfig,
        tokenizer: ActionTokenizer,
        dataset: Dataset,
        *,
        history: int = 2,
        cameras: Sequence[str] = (),
        reads_state: bool = True,
    ) -> LightPolicy:
        """An untrained policy that observes what `dataset` has."""
        if tokenizer.action_dim != dataset.action_dim:
            raise ValueError(
                f"the tokenizer is for {tokenizer.action_dim} action dimensions, {dataset.path} "
                f"has {dataset.action_dim}"
            )
        spec = ObservationSpec.for_dataset(
            dataset, history=history, cameras=cameras, reads_state=reads_state
        )
        return cls.make(config, tokenizer, spec)

    @property
    def schedule(self) -> Schedule:
        """What the policy was trained under."""
        endpoints = self.net.config.endpoints
        return self.tokenizer.schedule if endpoints is None else Schedule(endpoints)

    @property
    def device(self) -> torch.device:
        return self.net.slots.device

    def with_tasks(self, tasks: Sequence[str]) -> LightPolicy:
        """The same policy with further tasks, whose embeddings are yet to be trained."""
        known = self.spec.tasks
        spec = replace(self.spec, tasks=(*known, *(t for t in tasks if t not in known)))
        policy = self.make(self.net.config, self.tokenizer, spec)
        state = self.net.state_dict()
        table = policy.net.task.weight.detach().clone()
        table[: len(state["task.weight"])] = state["task.weight"]
        policy.net.load_state_dict({**state, "task.weight": table})
        return policy

    def __repr__(self) -> str:
        count = sum(p.numel() for p in self.net.parameters())
        return f"LightPolicy({count:,} parameters, {self.tokenizer})"

    def to(self, device: torch.device | str) -> LightPolicy:
        """Move network and tokenizer to a device; gives itself."""
        self.net.to(device)
        self.tokenizer.to(device)
        self._latencies.clear()
        return self

    # Acting

    def read(self, observation: Mapping[str, Any]) -> tuple[Observations, bool]:
        """The tensors of an observation, and whether it was one frame."""
        return self.spec.read(observation)

    def reset(self) -> None:
        """Forget the frames of the episode; the next one is repeated as its own history."""
        self._frames.clear()

    def observe(self, observation: Mapping[str, Any]) -> None:
        """Note one frame without predicting: call it at the steps between two predictions."""
        frame, is_single = self.spec.read(observation)
        if not is_single:
            raise ValueError("observe() takes one frame; a batch brings its history with it")
        self._frames.append(frame)

    def predict_action_chunk(
        self,
        observation: Mapping[str, Any],
        *,
        budget: Budget = None,
        schedule: Schedule | None = None,
        temperature: float = 1.0,
        top_k: int | None = 10,
        generator: Generators = None,
        deadline_ms: float | None = None,
    ) -> Prediction:
        """Generate tokens and decode them.

        Args:
            observation: LeRobot's keys. One frame, whose history the policy keeps since `reset`
                (see `observe`), or a batch with its history, of which nothing is kept.
            budget: The most tokens; all by default. Inside a block the block is run whole. "auto"
                stops when the chunk no longer moves or the tokens are near certain.
            schedule: Another than the policy was trained under, which warns once.
            temperature: Of sampling; 0 takes the likeliest ids.
            top_k: Only so many of the likeliest ids; None for all.
            generator: For the batch, or one for each row.
            deadline_ms: Stop at the last trained budget that fits, at the first at the latest.
        """
        began = time.perf_counter()
        if deadline_ms is not None and not deadline_ms > 0:
            raise ValueError(f"deadline_ms is {deadline_ms}, expected more than 0")
        schedule = self._resolve_schedule(schedule)
        most = resolve_budget(self.tokenizer, schedule, budget)
        drawing = Drawing(schedule, most, self.net.mask_id, self.net.end_id, temperature, top_k)
        if budget == "auto":
            drawing = replace(drawing, auto=self._thresholds())
        observations, is_single = self.spec.read(observation)
        if is_single:
            self._frames.append(observations)
            observations = self._with_history()
        if deadline_ms is not None:
            drawing = self._with_deadline(drawing, len(observations), began, deadline_ms)
        drawn = self._draw(observations, drawing, generator)
        given = [value for value in observation.values() if isinstance(value, Tensor)]

        def hand_out(values: Tensor) -> Any:
            values = values[0] if is_single else values
            return values.to(given[0].device) if given else values.cpu().numpy()

        return Prediction(
            chunk=hand_out(drawn.chunk),
            ids=hand_out(drawn.tokens.ids),
            entropy_bits=hand_out(drawn.entropy),
            budget=hand_out(drawn.tokens.lengths),
            calls=hand_out(drawn.calls),
            draws=hand_out(drawn.draws),
            elapsed_ms=1000 * (time.perf_counter() - began),
        )

    def _feed(self, context: Context, batch_size: int, schedule: Schedule) -> Feed:
        """The network with an empty cache."""
        if self._frozen is None or not self._frozen.is_current:
            self._frozen = FrozenDecoder(self.net.decoder)
        return cached_feed(self._frozen, context, batch_size, schedule)

    @torch.inference_mode()
    def _draw(
        self, observations: Observations, drawing: Drawing, generator: Generators = None
    ) -> Drawn:
        context = self.net.encode(observations.to(self.device))

        def start(rows_N: Tensor) -> Feed:
            own = context
            if len(rows_N) < len(observations):
                own = [(keys[rows_N], values[rows_N]) for keys, values in context]
            return self._feed(own, len(rows_N), drawing.schedule)

        return predict(
            start,
            self.tokenizer,
            drawing,
            batch_size=len(observations),
            device=self.device,
            generator=generator,
        )

    @torch.inference_mode()
    def draw_once(
        self,
        observations: Observations,
        generator: Generators = None,
        auto: AutoThresholds | None = None,
    ) -> tuple[Drawn, dict[int, str]]:
        """One draw of all tokens by the default settings, as policies are measured.

        Also says what is wrong with each row that does not decode; its chunk is NaN.
        """
        context = self.net.encode(observations.to(self.device))
        feed = self._feed(context, len(observations), self.schedule)
        most = self.schedule.num_tokens
        uniform_BK = uniforms(generator, len(observations), most).to(self.device)
        drawing = Drawing(self.schedule, most, self.net.mask_id, self.net.end_id, auto=auto)
        return draw(feed, self.tokenizer, drawing, uniform_BK)

    def _resolve_schedule(self, schedule: Schedule | None) -> Schedule:
        if schedule is None or schedule == self.schedule:
            return self.schedule
        self._warn_once(
            f"the policy was trained to generate {list(self.schedule.endpoints)} tokens stage by "
            f"stage, now {list(schedule.endpoints)}: expect worse chunks"
        )
        return schedule

    def _thresholds(self) -> AutoThresholds:
        if self.auto is None:
            raise ValueError(
                "budget 'auto' has no thresholds: `oatkit policy train` finds them, or calibrate()"
            )
        return self.auto

    def _with_history(self) -> Observations:
        """The last frames as a batch of one; the first is repeated at the episode's start."""
        missing = self.spec.history - len(self._frames)
        frames = [self._frames[0]] * missing + list(self._frames)
        return Observations(
            frames[-1].task,
            torch.cat([frame.state for frame in frames], dim=1),
            tuple(
                torch.cat(images, dim=1) for images in zip(*(f.images for f in frames), strict=True)
            ),
        )

    def _with_deadline(
        self, drawing: Drawing, batch_size: int, began: float, deadline_ms: float
    ) -> Drawing:
        if not can_stop(self.tokenizer):
            self._warn_once(
                f"{self.tokenizer.kind} decodes only all of its tokens: deadline_ms is ignored"
            )
            return drawing
        before = time.perf_counter()
        latency = self.latency(batch_size, drawing.schedule)
        began += time.perf_counter() - before  # measuring is not part of the first prediction
        if drawing.auto is not None:  # decodes after every stage
            slower = tuple(ms + latency.decode_ms for ms in latency.stages_ms)
            latency = replace(latency, stages_ms=slower)
        return replace(drawing, deadline=Deadline(began + deadline_ms / 1000, latency))

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, stacklevel=4)

    @torch.inference_mode()
    def latency(self, batch_size: int = 1, schedule: Schedule | None = None) -> Latency:
        """How long each stage and decoding take here; measured when first asked for."""
        schedule = schedule or self.schedule
        key = (batch_size, schedule)
        if key not in self._latencies:
            rows = []
            for _ in range(LATENCY_REPEATS + 1):
                context = self.net.encode(self._blank(batch_size))
                feed = self._feed(context, batch_size, schedule)
                drawn = torch.rand(batch_size, schedule.num_tokens, device=self.device)
                times, ids = [time.perf_counter()], []
                for stage in generate(feed, schedule, drawn, mask_id=self.net.mask_id):
                    ids.append(stage.ids)
                    times.append(time.perf_counter())
                if can_stop(self.tokenizer):  # else there is nothing to decide by it
                    self.tokenizer.decode(torch.cat(ids, dim=1))
                times.append(time.perf_counter())
                rows.append(np.diff(times))
            median = (1000 * np.median(rows[1:], axis=0)).tolist()
            self._latencies[key] = Latency(tuple(median[:-1]), median[-1])
        return self._latencies[key]

    def _blank(self, batch_size: int) -> Observations:
        shape = (batch_size, self.spec.history)
        images = (torch.zeros(*shape, 3, *size) for size in self.spec.cameras.values())
        task = torch.zeros(batch_size, dtype=torch.int64)
        blank = Observations(task, torch.zeros(*shape, self.spec.state_dim), tuple(images))
        return blank.to(self.device)

    @torch.inference_mode()
    def calibrate(
        self,
        observations: Observations,
        actions_BTA: Tensor,
        generator: torch.Generator | None = None,
    ) -> None:
        """Find the thresholds of `budget="auto"` on held-out observations and their raw actions.

        Nothing happens where generation cannot stop early.
        """
        tokenizer, schedule = self.tokenizer, self.schedule
        if not can_stop(tokenizer):
            return
        scale_A = torch.as_tensor(tokenizer.normalizer.scale, device=self.device)
        wanted_BTA = actions_BTA.to(self.device)
        context = self.net.encode(observations.to(self.device))
        feed = self._feed(context, len(observations), schedule)
        drawn = uniforms(generator, len(observations), schedule.num_tokens).to(self.device)
        ids: list[Tensor] = []
        chunks: list[Tensor] = []
        changes, entropies = [], []
        for stage in generate(feed, schedule, drawn, mask_id=self.net.mask_id):
            ids.append(stage.ids)
            chunk_BTA = tokenizer.decode(torch.cat(ids, dim=1))
            changes.append(chunk_change(chunk_BTA, chunks[-1] if chunks else None, scale_A))
            entropies.append(stage.entropy_bits.mean(dim=1))
            chunks.append(chunk_BTA)
        excess = [chunk_change(chunk_BTA, chunks[-1], scale_A).square() for chunk_BTA in chunks]
        change_NS, entropy_NS, excess_NS = (
            torch.stack(rows, dim=1).double().cpu().numpy() for rows in (changes, entropies, excess)
        )
        coded_BTA = tokenizer.decode(tokenizer.encode(wanted_BTA))
        lost = float(chunk_change(coded_BTA, wanted_BTA, scale_A).square().mean())
        self.auto = calibrate(change_NS, entropy_NS, excess_NS, MARGIN * lost)

    # The artefact

    def to_json(self) -> dict[str, Any]:
        """What `config.json` holds."""
        return {
            "schema": "oatkit/policy",
            "version": FORMAT_VERSION,
            "kind": "light",
            "net": asdict(self.net.config),
            "observation": self.spec.to_json(),
            "auto": None if self.auto is None else asdict(self.auto),
            **self.extras,
        }

    def save_pretrained(self, folder: str | os.PathLike[str]) -> Path:
        """Write the artefact: `config.json`, `model.safetensors`, `tokenizer/` and a model card."""
        path = Path(folder)
        self.tokenizer.save_pretrained(path / "tokenizer")
        write_artefact(path, self.to_json(), self.net.state_dict(), self._card())
        return path

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> LightPolicy:
        """Read an artefact from a folder or, by its id, from the Hugging Face hub."""
        path = local_folder(folder)
        config, state = read_artefact(path, "policy", FORMAT_VERSION)
        sizes = dict(config["net"])
        sizes["endpoints"] = None if sizes["endpoints"] is None else tuple(sizes["endpoints"])
        spec = ObservationSpec.from_json(config["observation"])
        policy = cls.make(LightConfig(**sizes), load_tokenizer(path / "tokenizer"), spec)
        load_state(policy.net.load_state_dict, state, path)
        if config["auto"] is not None:
            policy.auto = AutoThresholds(**config["auto"])
        known = {"schema", "version", "kind", "net", "observation", "auto"}
        policy.extras = {k: v for k, v in config.items() if k not in known}
        return policy

    def push_to_hub(self, repo_id: str, *, private: bool = False) -> str:
        """Upload the artefact to the Hugging Face hub; gives its address."""
        return upload(self.save_pretrained, repo_id, private=private)

    def _card(self) -> str:
        spec = self.spec
        reads = [f"state of {spec.state_dim}"] if spec.state_dim else []
        reads += [f"camera `{name}`, {h} x {w}" for name, (h, w) in spec.cameras.items()]
        lines = [
            "---",
            "library_name: oatkit",
            "tags: [robotics, action-policy]",
            "---",
            f"# light policy on {self.tokenizer.kind} tokens",
            "",
            f"Observes {', '.join(reads)}; {spec.history} frames; {len(spec.tasks)} tasks. Gives "
            f"chunks of {self.tokenizer.horizon} x {self.tokenizer.action_dim} actions.",
            "",
            "```python",
            "import oatkit",
            'policy = oatkit.load_policy("this folder or hub id")',
            "policy.reset()",
            "chunk = policy.predict_action_chunk(observation, budget=4).chunk",
            "```",
        ]
        return "\n".join(lines) + "\n"


def load_policy(folder: str | os.PathLike[str]) -> LightPolicy:
    """Open a trained policy from a folder or, by its id, from the Hugging Face hub."""
    return LightPolicy.from_pretrained(folder)
