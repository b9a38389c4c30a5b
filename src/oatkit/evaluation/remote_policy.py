"""A policy on another machine, asked over openpi's websocket protocol: nothing here needs torch.

    episodes here                              policy there
    batch of observations --> one request for each, side by side --> answered together
    batch of chunks       <-- one reply for each

A request says all that decides its answer: the frames, the budget, the sampling rules and the seed
of its random numbers. So a chunk is the one that the same policy would predict here. A server that
does not tell its budgets, as those of openpi do not, gets the observation and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from queue import LifoQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.data import Normalizer
from oatkit.envs.simulator import ImageSize
from oatkit.errors import DecodeError, MissingExtraError, RemoteError, unknown_name
from oatkit.evaluation.queried_policy import OPENPI_SIZE, SCHEMES, EvaluatedPolicy
from oatkit.types import Budget, Prediction, Sampling, Schedule
from oatkit.types.observation_keys import IMAGES, STATE, TASK

try:
    from oatkit_client import Client, ClientError, NoChunk, WireError
    from oatkit_client.key_map import KeyMap
    from oatkit_client.protocol import NO_CHUNK
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("oatkit_client", "msgpack", "websockets"):
        raise
    raise MissingExtraError("serve") from error

MAX_CONNECTIONS = 8
"""Maximum number of requests that are under way at a time: as many as a server answers together."""
RECONNECT_S = 10.0
"""Time for which a server that cannot be reached is tried again: long enough for a restart."""


@dataclass(frozen=True)
class RemoteSpec:
    """What a policy elsewhere observes, as far as its server tells.

    Attributes:
        history: Number of frames, the current one included.
        state_dim: Number of values in a state; None where the server does not tell.
        cameras: Height and width of each camera, by its name.
        tasks: The known instructions.
    """

    history: int = 1
    state_dim: int | None = None
    cameras: dict[str, ImageSize] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()


class RemotePolicy:
    """A policy behind `oatkit serve`, or behind any server that speaks openpi's protocol.

    Args:
        url: Address of the server, `ws://host:port` or `wss://host:port`.
        api_key: Key that the server asks for.
        keys: `KEY=PART` sends LeRobot's PART as KEY, such as
            `observation/image=observation.images.corner2`; a server of openpi gets no image but
            those. Our own server says what it reads.
        image_size: Height and width of images for a server that does not tell them.
        timeout_s: Longest time of a query.
        embodiment: Name of the robot, where the server acts for several.

    Attributes:
        url: Address of the server.
        spec: What the policy observes.
        metadata: What the server tells about its policy.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        keys: Sequence[str] = (),
        image_size: ImageSize = OPENPI_SIZE,
        timeout_s: float = 300.0,
        embodiment: str | None = None,
    ) -> None:
        if not url.startswith(SCHEMES):
            raise ValueError(f"{url!r} is no address of a policy server, expected ws://host:port")
        self.url = url
        self._clients: LifoQueue[Client] = LifoQueue()
        for _ in range(MAX_CONNECTIONS):
            self._clients.put(
                Client(
                    url,
                    api_key,
                    timeout_s=timeout_s,
                    reconnect_s=RECONNECT_S,
                    embodiment=embodiment,
                )
            )
        self._pool = ThreadPoolExecutor(MAX_CONNECTIONS, thread_name_prefix="oatkit-remote")
        with self._explained(), self._client() as client:
            self.metadata: Mapping[str, Any] = client.metadata
        robots = self.metadata.get("embodiments", {})
        if embodiment is None and len(robots) > 1:
            raise ValueError(
                f"the server at {url} acts for several robots, {', '.join(robots)}: name one with "
                "--embodiment (embodiment=)"
            )
        self._robot = {} if embodiment is None else {"embodiment": embodiment}
        self._is_ours = "budgets" in self.metadata
        self._keys = self._request_keys(keys)
        self.spec = self._observed(image_size)

    def evaluated(self, budgets: Sequence[Budget]) -> EvaluatedPolicy:
        """What an evaluation has to know of the policy.

        Args:
            budgets: Budgets to evaluate; None for all tokens.
        """
        if not self._is_ours:
            if any(budget is not None for budget in budgets):
                raise ValueError(f"the server at {self.url} has no budgets: leave --budgets out")
            return EvaluatedPolicy(
                self, self.url, "openpi", (None,), None, None, None, head="server"
            )
        told = self.metadata
        normalizer = Normalizer.from_json(told["normalization"]["action"])
        return EvaluatedPolicy(
            acting=self,
            name=self.url,
            kind=told["tokenizer"],
            budgets=tuple(told["budgets"][-1] if b is None else b for b in budgets),
            horizon=told["horizon"],
            action_dim=told["action_dim"],
            digest=told["fingerprint"],
            scale=tuple(normalizer.scale.tolist()),
            state_keys=tuple(told.get("state_keys", ())),  # servers of before do not tell all
            fps=told["fps"],
            head=told["head"] if "flow" in told.get("heads", (told["head"],)) else None,
            has_execute_steps=told.get("has_execute_steps", False),
            takes_committed=told.get("takes_committed", False),
            device=told.get("device", ""),
            action_names=tuple(told["action_names"]),
        )

    def predict_action_chunk(
        self,
        observation: Mapping[str, Any],
        *,
        budget: Budget,
        schedule: Schedule | None,
        sampling: Sampling,
        generator: Sequence[int],
        draws: int,
        committed: NDArray[np.float32] | None,
    ) -> Prediction:
        """Chunks that follow a batch of observations; see `QueriedPolicy`."""
        if schedule is not None:
            raise ValueError("a server has its own schedule: leave the schedule out")
        if draws != 1 and not self._is_ours:
            raise ValueError(f"the server at {self.url} draws one chunk: leave --draws out")
        messages = [
            self._observation(observation, row)
            | self._options(budget, sampling, seed)
            | self._robot
            | ({} if draws == 1 else {"draws": draws})
            | ({} if committed is None else {"committed": committed[row]})
            for row, seed in enumerate(generator)
        ]
        began = time.perf_counter()
        with self._explained():
            replies = list(self._pool.map(self._ask, messages))
        elapsed_ms = 1000 * (time.perf_counter() - began)
        chunks = [self._chunk(reply) for reply in replies]
        tokens = [np.array(reply.get("tokens", ()), np.int64) for reply in replies]
        steps = [reply.get("execute_steps") for reply in replies]
        return Prediction(
            chunk=np.stack(chunks),
            ids=tokens,
            entropy_bits=None,
            budget=np.array([len(ids) for ids in tokens]),
            calls=np.array([reply.get("calls", 1) for reply in replies]),
            attempts=np.array([reply.get("attempts", 1) for reply in replies]),
            elapsed_ms=elapsed_ms,
            execute_steps=None if None in steps else np.array(steps),
            draws=None if draws == 1 else np.stack([self._draws(reply) for reply in replies]),
        )

    def close(self) -> None:
        """Close all connections; nothing can be asked afterwards."""
        self._pool.shutdown()
        for client in list(self._clients.queue):
            client.close()

    def _request_keys(self, changes: Sequence[str]) -> dict[str, str]:
        """The key of a request for each part of an observation."""
        openpi = dict(KeyMap.for_parts([STATE]).preferred)
        keys = dict(self.metadata["keys"]) if self._is_ours else openpi
        for change in changes:
            key, is_change, part = change.partition("=")
            if not key or not is_change or not part:
                raise ValueError(f"--map {change}: expected KEY=observation.images.X or the like")
            if self._is_ours and part not in keys:
                raise ValueError(f"--map {change}: {unknown_name('key', part, keys)}")
            keys[part] = key
        return keys

    def _observed(self, image_size: ImageSize) -> RemoteSpec:
        told = self.metadata
        if self._is_ours:
            cameras = {name: (height, width) for name, (height, width) in told["cameras"].items()}
            return RemoteSpec(told["history"], told["state_dim"], cameras, tuple(told["tasks"]))
        names = [part.removeprefix(IMAGES) for part in self._keys if part.startswith(IMAGES)]
        return RemoteSpec(cameras=dict.fromkeys(names, image_size))

    def _observation(self, observation: Mapping[str, Any], row: int) -> dict[str, Any]:
        """One row by the keys of the server; a policy that reads one frame gets no time axis."""
        message = {}
        for part, values in observation.items():
            is_frame = part != TASK and self.spec.history == 1
            message[self._keys[part]] = values[row][0] if is_frame else values[row]
        return message

    def _options(self, budget: Budget, sampling: Sampling, seed: int) -> dict[str, Any]:
        if not self._is_ours:
            return {}
        return {"budget": budget, "sampling": asdict(sampling) | {"seed": seed}, "reset": True}

    def _ask(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        with self._client() as client:
            reply = client.ask(message)
            if not isinstance(reply, dict):
                raise RemoteError(f"{self.url} replied with no dict, as openpi's servers do")
            told = client.metadata if reply.get("stale") else self.metadata
        if told.get("fingerprint") != self.metadata.get("fingerprint"):
            raise RemoteError(f"{self.url} serves another policy than when the evaluation began")
        return reply

    def _chunk(self, reply: Mapping[str, Any]) -> NDArray[np.float32]:
        if "actions" not in reply:
            raise RemoteError(f"the reply of {self.url} has no actions, only {sorted(reply)}")
        return np.asarray(reply["actions"], np.float32)

    def _draws(self, reply: Mapping[str, Any]) -> NDArray[np.float32]:
        if "draws" not in reply:
            raise RemoteError(f"the reply of {self.url} has no draws, only {sorted(reply)}")
        return np.asarray(reply["draws"], np.float32)

    @contextmanager
    def _client(self) -> Iterator[Client]:
        """A client that no other thread uses meanwhile; those in use before come first."""
        client = self._clients.get()
        try:
            yield client
        finally:
            self._clients.put(client)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What goes wrong there, in the words of evaluations here."""
        try:
            yield
        except NoChunk as error:
            raise DecodeError(str(error).removeprefix(f"{NO_CHUNK}: ")) from error
        except WireError as error:
            raise RemoteError(f"{self.url} does not speak openpi's protocol: {error}") from error
        except ClientError as error:
            said = str(error)
            raise RemoteError(said if self.url in said else f"{self.url} says: {said}") from error
