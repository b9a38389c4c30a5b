"""A policy server as a model server of vla-eval, which brings benchmarks in containers.

    python -m oatkit_client.vla_eval_server --args.url ws://gpu:8000 --port 8001
    vla-eval run --config libero.yaml --server-url ws://127.0.0.1:8001

    benchmark --> vla-eval's protocol --> this bridge --> openpi's protocol --> oatkit serve

It needs the package vla-eval (0.8) beside this one.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any, Mapping, Sequence

import numpy as np
from PIL import Image
from vla_eval.model_servers.base import SessionContext
from vla_eval.model_servers.predict import PredictModelServer
from vla_eval.model_servers.serve import run_server
from vla_eval.specs import IMAGE_RGB, LANGUAGE, RAW, DimSpec

from oatkit_client.client import Client
from oatkit_client.errors import ClientError, Refused
from oatkit_client.key_map import IMAGES, STATE, TASK
from oatkit_client.protocol import Budget, Metadata, RequestOptions

NEEDED = ("horizon", "history", "cameras", "keys", "state_dim")
"""What the bridge must be told of a policy."""


class VlaEvalServer(PredictModelServer):
    """Answers vla-eval's observations with the chunks of a policy server.

    Args:
        url: Address of `oatkit serve`.
        api_key: Key that it asks for.
        cameras: `POLICY=BENCHMARK` where a camera of the policy has another name in the benchmark,
            such as `front=agentview`.
        execute: Steps of a chunk that are executed before the next query; half of it by default.
        budget: Maximum number of tokens, or "auto"; the server's choice by default.
        seed: Seed of the random numbers, which begin again with every episode.
    """

    def __init__(
        self,
        url: str = "ws://127.0.0.1:8000",
        api_key: str | None = None,
        cameras: Sequence[str] = (),
        execute: int | None = None,
        budget: Budget | None = None,
        seed: int = 0,
    ) -> None:
        self._client = Client(url, api_key)
        self._metadata = _own_metadata(self._client)
        horizon = self._metadata["horizon"]
        super().__init__(chunk_size=max(1, horizon // 2) if execute is None else execute)
        self._names = {name: name for name in self._metadata["cameras"]}
        for change in cameras:
            name, _, theirs = change.partition("=")
            if name not in self._names or not theirs:
                known = ", ".join(self._names)
                raise ValueError(f"cameras has {change!r}, expected POLICY=BENCHMARK of: {known}")
            self._names[name] = theirs
        self._budget = budget
        self._seed = seed
        self._frames: dict[str, deque[dict[str, Any]]] = {}

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
        """Forget the frames of the episode before."""
        self._frames[ctx.session_id] = deque(maxlen=self._metadata["history"])
        await super().on_episode_start(config, ctx)

    async def on_observation(self, obs: dict[str, Any], ctx: SessionContext) -> None:
        """Keep every frame, also while a chunk is executed: the policy may read several."""
        self._frames[ctx.session_id].append(self._read(obs))
        await super().on_observation(obs, ctx)

    async def on_episode_end(self, result: dict[str, Any], ctx: SessionContext) -> None:
        """Free the frames of the episode."""
        self._frames.pop(ctx.session_id, None)
        await super().on_episode_end(result, ctx)

    def predict(self, obs: dict[str, Any], ctx: SessionContext) -> dict[str, Any]:
        """The chunk that follows the last frames of a session."""
        seen = self._frames[ctx.session_id]
        frames = [seen[0]] * (self._metadata["history"] - len(seen)) + list(seen)
        keys = self._metadata["keys"]
        message: dict[str, Any] = {
            keys[part]: np.stack([frame[part] for frame in frames]) for part in frames[-1]
        }
        message[keys[TASK]] = str(obs.get("task_description", ""))
        options: RequestOptions = {
            "budget": self._budget,
            "sampling": {"seed": self._seed + ctx.step},  # not which sessions ask beside this one
            "reset": True,
        }
        return {"actions": self._client.ask({**message, **options})["actions"]}

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
    """Serve until stopped; what keeps it from that is one sentence."""
    try:
        run_server(VlaEvalServer)
    except ClientError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
