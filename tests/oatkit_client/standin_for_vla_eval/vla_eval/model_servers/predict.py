"""A model server that predicts for one observation at a time; without a chunk size it is asked for
each of them, and what it gives is sent as it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from vla_eval.model_servers.base import SessionContext


class PredictModelServer:
    def __init__(self, *, chunk_size: int | None = None) -> None:
        assert chunk_size is None, "chunks are executed by the bridge"

    async def on_episode_start(self, config: dict[str, Any], ctx: SessionContext) -> None:
        ctx.step = 0

    async def on_observation(self, obs: dict[str, Any], ctx: SessionContext) -> None:
        found = self.predict(obs, ctx)
        await ctx.send_action({**found, "actions": np.asarray(found["actions"], np.float32)})
        ctx.step += 1

    async def on_episode_end(self, result: dict[str, Any], ctx: SessionContext) -> None:
        pass

    def predict(self, obs: dict[str, Any], ctx: SessionContext) -> dict[str, Any]:
        raise NotImplementedError
