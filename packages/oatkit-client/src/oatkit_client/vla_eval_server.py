"""A policy server as a model server of vla-eval, which brings benchmarks in containers.

    python -m oatkit_client.vla_eval_server --args.url ws://gpu:8000 --port 8001
    vla-eval run --config libero.yaml --server-url ws://127.0.0.1:8001

    benchmark --> vla-eval's protocol --> this bridge --> openpi's protocol --> oatkit serve

It needs the package vla-eval (0.8) beside this one. Chunks are executed here, as on a robot, and
vla-eval gets one action for each observation.
"""

from __future__ import annotations

import sys
from collections import deque
from functools import partial
from typing import Any, Mapping, Sequence

import numpy as np

from oatkit_client.chunks import ChunkQueue
from oatkit_client.client import Client
from oatkit_client.errors import ClientError, Refused
from oatkit_client.key_map import IMAGES, STATE, TASK
from oatkit_client.planned_actions import AUTO, Execute
from oatkit_client.protocol import Budget, Metadata, Reply, RequestOptions

try:
    from PIL import Image
    from vla_eval.model_servers.base import SessionContext
    from vla_eval.model_servers.predict import PredictModelServer
    from vla_eval.model_servers.serve import run_server
    from vla_eval.specs import IMAGE_RGB, LANGUAGE, RAW, DimSpec
except ImportError as error:
    message = f"this needs the package vla-eval ({error}): pip install 'oatkit-client[vla-eval]'"
    if __name__ != "__main__":
        raise ImportError(message) from error
    sys.stderr.write(f"error: {message}\n")
    sys.exit(2)

NEEDED = ("horizon", "history", "cameras", "keys", "state_dim")
"""What the bridge must be told of a policy."""


class VlaEvalServer(PredictModelServer):
    """Answers vla-eval's observations with the chunks of a policy server.

    Args:
        url: Address of `oatkit serve`.
        api_key: Key that it asks for.
        cameras: `POLICY=BENCHMARK` where a camera of the policy has another name in the benchmark,
            such as `front=agentview`.
        execute: Steps of a chunk that are executed before the next query, or "auto" for as many as
            the policy finds worth it; half of it by default.
        blend: Averages what all chunks planned for a step, with weights exp(-blend * age); by
            default the newest chunk acts alone.
        draws: Number of chunks to generate, of which the one nearest to the plan under way is
            taken.
        embodiment: Name of the robot, where the server acts for several.
        budget: Maximum number of tokens, or "auto"; the server's choice by default.
        seed: Seed of the random numbers, which begin again with every episode.
    """

    def __init__(
        self,
        url: str = "ws://127.0.0.1:8000",
        api_key: str | None = None,
        cameras: Sequence[str] = (),
        execute: Execute = None,
        blend: float | None = None,
        draws: int = 1,
        embodiment: str | None = None,
        budget: Budget | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self._client = Client(url, api_key, embodiment=embodiment)
        self._metadata = _own_metadata(self._client)
        self._names = {name: name for name in self._metadata["cameras"]}
        for change in cameras:
            name, _, theirs = change.partition("=")
            if name not in self._names or not theirs:
                known = ", ".join(self._names)
                raise ValueError(f"cameras has {change!r}, expected POLICY=BENCHMARK of: {known}")
            self._names[name] = theirs
        _require_execution(self._metadata, execute, draws)
        options: RequestOptions = {"budget": budget, "draws": draws, "embodiment": embodiment}
        how: dict[str, Any] = {"seed": seed, "execute": execute, "blend": blend}
        self._begin = partial(_Episode, self._client, self._metadata, options, **how)
        self._begin()  # what is wrong with the rest is said before anything is served
        self._episodes: dict[str, _Episode] = {}

    def get_action_spec(self) -> dict[str, DimSpec]:
        """What the policy was trained to give, whose meaning only its data know."""
        return {"actions": RAW}

    def get_observation_spec(self) -> dict[str, DimSpec]:
        """The cameras, the state and the instruction that the policy reads."""
        spec = dict.fromkeys(self._names.values(), IMAGE_RGB)
        return {**spec, **({"state": RAW} if self._reads_state else {}), "language": LANGUAGE}

    def get_observation_params(self) -> dict[str, Any]:
        """What a benchmark is asked to send beside its first camera."""
        params = {"send_wrist_image": len(self._names) > 1, "send_state": self._reads_state}
        return {name: True for name, is_asked in params.items() if is_asked}

    async def on_episode_start(self, config: dict[str, Any], ctx: SessionContext) -> None:
        """Forget the frames and the plan of the episode before."""
        self._episodes[ctx.session_id] = self._begin()
        await super().on_episode_start(config, ctx)

    async def on_observation(self, obs: dict[str, Any], ctx: SessionContext) -> None:
        """Keep every frame, also while a chunk is executed: the policy may read several."""
        self._episodes[ctx.session_id].frames.append(self._read(obs))
        await super().on_observation(obs, ctx)

    async def on_episode_end(self, result: dict[str, Any], ctx: SessionContext) -> None:
        """Free the frames and the plan of the episode."""
        self._episodes.pop(ctx.session_id, None)
        await super().on_episode_end(result, ctx)

    def predict(self, obs: dict[str, Any], ctx: SessionContext) -> dict[str, Any]:
        """The next action of a session."""
        return {"actions": self._episodes[ctx.session_id].act(obs)}

    @property
    def _reads_state(self) -> bool:
        return self._metadata["state_dim"] > 0

    def _read(self, obs: Mapping[str, Any]) -> dict[str, Any]:
        """What the policy reads of an observation, images in the size of its training."""
        images = obs.get("images", {})
        found: dict[str, Any] = {}
        for name, theirs in self._names.items():
            if theirs not in images:
                raise ValueError(
                    f"the benchmark has no camera {theirs!r}, only {sorted(images)}: name the "
                    f"policy's {name} with --args.cameras '[{name}=CAMERA]'"
                )
            height, width = self._metadata["cameras"][name]
            found[IMAGES + name] = _resized(np.asarray(images[theirs]), height, width)
        if self._reads_state:
            state = obs.get("states", obs.get("state"))
            if state is None:
                raise ValueError("the policy reads a state, the benchmark sends none")
            found[STATE] = np.asarray(state, np.float32)
        return found


class _Episode:
    """What is seen and planned in an episode.

    Args:
        client: What asks the server.
        metadata: What the server tells of its policy.
        options: What all requests hold.
        seed: Seed of the random numbers of the first step, those of others being counted from it.
        execute: Steps of a chunk that are executed.
        blend: How chunks are averaged.
    """

    def __init__(
        self,
        client: Client,
        metadata: Metadata,
        options: RequestOptions,
        *,
        seed: int,
        execute: Execute,
        blend: float | None,
    ) -> None:
        self._client = client
        self._metadata = metadata
        self._seed = seed
        self._options = options
        self._queue = ChunkQueue(self, execute, blend=blend)
        self._num_actions = 0
        self.action_scale = client.action_scale
        self.frames: deque[dict[str, Any]] = deque(maxlen=metadata["history"])

    def act(self, obs: Mapping[str, Any]) -> Any:
        """The next action, (action_dim,)."""
        action = self._queue.step(lambda: self._message(obs))
        self._num_actions += 1
        return action

    def infer(self, obs: Mapping[str, Any], **request: Any) -> Reply:
        """The server's reply; its random numbers do not depend on which sessions ask beside it."""
        options: RequestOptions = {
            "sampling": {"seed": self._seed + self._num_actions},
            "reset": True,
        }
        return self._client.ask({**obs, **self._options, **options, **request})

    def reset(self) -> None:
        """Nothing is to be forgotten: an episode has an object of its own."""

    def _message(self, obs: Mapping[str, Any]) -> dict[str, Any]:
        """The last frames as a request has them."""
        frames = [self.frames[0]] * (self._metadata["history"] - len(self.frames))
        frames += self.frames
        keys = self._metadata["keys"]
        message: dict[str, Any] = {
            keys[part]: np.stack([frame[part] for frame in frames]) for part in frames[-1]
        }
        return {**message, keys[TASK]: str(obs.get("task_description", ""))}


def _require_execution(metadata: Metadata, execute: Execute, draws: int) -> None:
    """Raise where the policy's chunks cannot be executed like that."""
    horizon = metadata["horizon"]
    if isinstance(execute, int) and execute > horizon:
        raise ValueError(f"execute is {execute}, expected 1 to {horizon}, the steps of a chunk")
    if execute == AUTO and not metadata.get("has_execute_steps", False):
        raise ValueError(
            "execute is 'auto', but the policy does not know how many steps are worth executing: "
            "find out with `oatkit policy calibrate` where it lies, or give a number of steps"
        )
    if draws < 1:
        raise ValueError(f"draws is {draws}, expected 1 or more")


def _own_metadata(client: Client) -> Metadata:
    """What `oatkit serve` tells; a server of openpi tells none of what the bridge must know."""
    metadata = client.metadata
    missing = [key for key in NEEDED if key not in metadata]
    if missing:
        raise Refused(
            f"{client.url} does not tell its {', '.join(missing)}, as servers of openpi do not: "
            "give the address of `oatkit serve`"
        )
    return metadata


def _resized(image_HWC: Any, height: int, width: int) -> Any:
    if image_HWC.shape[:2] == (height, width):
        return image_HWC
    return np.asarray(Image.fromarray(image_HWC).resize((width, height), Image.Resampling.BILINEAR))


def main() -> None:
    """Serve until stopped; what keeps it from that is one sentence, and 2 the exit code."""
    try:
        run_server(VlaEvalServer)
    except (ClientError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
