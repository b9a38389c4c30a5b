"""Every key that travels between a robot and its policy server, with its type and its meaning.

    robot                                 server
                                     <--  Metadata, once a connection is open
    observation and RequestOptions   -->
                                     <--  Reply, or one sentence of text where that is impossible

Server, client and local policy are written against these types, and the tables of the docs page on
serving are made of the texts below. How a request names the parts of an observation is in
`key_map`, how messages become bytes is in `wire`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Mapping, TypedDict, Union

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Budget = Union[int, Literal["auto"]]
"""Number of tokens; "auto" where the policy decides when to stop."""
BUSY = "busy"
"""First word of the text that a server sends while it takes no more requests: ask again."""
NO_CHUNK = "no chunk"
"""First words of the text that a server sends where the generated tokens do not decode."""
StopReason = Literal["all", "budget", "auto", "deadline"]
"""Why no more tokens were generated."""
KEY_SCHEME = "Api-Key"
"""Word before the key in the header `Authorization`."""


class RequestOptions(TypedDict, total=False):
    """What a request may hold beside the observation."""

    budget: Budget | None
    """Maximum number of tokens, or `"auto"`; the server's own choice by default."""
    deadline_ms: float | None
    """Time until the reply must leave; as many tokens are decoded as fit."""
    sampling: Mapping[str, Any] | None
    """Rules to sample tokens by, named like the fields of `Sampling`; those that are left out are
    the server's own."""
    reset: bool
    """Whether this is the first request of an episode, with which the random numbers of a seed
    begin again."""
    embodiment: str | None
    """Name of the robot, where the server acts for several."""
    tokens_only: bool
    """Whether the reply holds no `actions`, because the robot decodes the tokens itself."""
    draws: int | None
    """Number of chunks to generate, 1 by default; where there are several the reply has `draws`."""
    committed: Any
    """Actions that are executed before the chunk acts, (steps, action_dim) in raw units from the
    moment of the observation on; the chunk begins with them, as near as its tokens come. None or no
    steps for nothing."""


class ServerTiming(TypedDict, total=False):
    """Where the time of a request went."""

    infer_ms: float
    """Duration of the prediction."""
    queue_ms: float
    """Time from the arrival of the message until its prediction began."""
    prev_total_ms: float
    """Time that the previous request of this connection took in all; missing in the first reply."""


class _SometimesInReply(TypedDict, total=False):
    execute_steps: int
    """Number of first steps of the chunk that are worth executing, as the policy finds; missing
    where it was not calibrated for that."""
    server_timing: ServerTiming
    """Where the time went; missing in the replies of a local policy."""
    stopped: StopReason
    """Why generation stopped: `all` tokens are there (a sequence that ends by itself included), the
    `budget` was spent, `auto` found the tokens certain enough by their entropy, or the `deadline`
    came near. Euler steps of a flow expert count as tokens. Servers of before send none."""
    attempts: int
    """How often the tokens were generated until they decoded, 1 for most; servers of before and
    local policies send none."""
    deadline_met: bool
    """Whether the deadline was met; only where the request had one that the policy can keep."""
    warning: str
    """Something the robot's programmer should know; a server says it once a connection."""
    draws: list[NDArray[np.float32]]
    """All chunks of a request with `draws`, (horizon, action_dim) each in raw units; the first is
    `actions`, and all else is of it."""
    stale: bool
    """Whether the connection was lost and opened again meanwhile, so that the observation may be
    old; true or missing, and added by our client."""


class TokensReply(_SometimesInReply):
    """The answer to a request with `tokens_only`."""

    tokens: list[int]
    """Ids that the chunk is decoded from."""
    budget_used: int
    """Number of those tokens."""
    entropy: list[float]
    """Entropy in bits of the network's distribution for each token, before temperature, top-k and
    top-p."""
    calls: int
    """Number of stages that the network was run for."""


class Reply(TokensReply):
    """The answer to a request.

    Only the actions are an array: openpi's `ActionChunkBroker` takes one step out of every array
    that it finds.
    """

    actions: NDArray[np.float32]
    """The chunk, (horizon, action_dim) in raw units; left out with `tokens_only`."""


class Normalization(TypedDict):
    """How raw values become normalized ones: `mode`, `offset` and `scale`; `is_held` where actions
    have dimensions that are always their offset."""

    action: dict[str, Any]
    """Normalizer of the actions."""
    state: dict[str, Any] | None
    """Normalizer of the state; None for a policy that reads no state."""


class Metadata(TypedDict):
    """The first message of a server: what a client should know about its policy."""

    horizon: int
    """Number of steps in a chunk."""
    action_dim: int
    """Number of values in an action."""
    action_names: list[str]
    """Names of the action dimensions."""
    fps: float | None
    """Steps per second in the training data; None where they are unknown."""
    cameras: dict[str, list[int]]
    """Height and width of each camera's images, by the camera's name."""
    state_dim: int
    """Number of values in a state; 0 for a policy that reads none."""
    state_names: list[str]
    """Names of the state dimensions; empty where they are unknown."""
    tasks: list[str]
    """Instructions that the policy was trained on."""
    history: int
    """Number of frames that the policy reads, the current one included."""
    keys: dict[str, str]
    """Key of a request for each part of the observation, by LeRobot's name of the part."""
    head: str
    """Part of the policy that acts: `tokens` or `flow`."""
    tokenizer: str
    """Kind of the tokenizer."""
    tokenizer_fingerprint: str
    """Digest of the tokenizer, to compare with that of an exported decoder."""
    budgets: list[int]
    """Numbers of tokens that the policy was trained to stop at, or of Euler steps where `head` is
    `flow`."""
    latency_ms: dict[str, float]
    """Duration of a prediction for one request, by budget."""
    normalization: Normalization
    """Normalizers of actions and state."""
    fingerprint: str
    """Digest of the policy, which changes when it would act otherwise."""
    has_execute_steps: bool
    """Whether replies hold `execute_steps`."""
    heads: list[str]
    """All parts of the policy that could act, of which `head` does."""
    state_keys: list[str]
    """Parts of an observation that were joined to the state in training, by LeRobot's names."""
    device: str
    """Where the policy runs, in words."""
    actions: str
    """How the policy represents actions inside; those that it takes and gives are raw."""
    takes_committed: bool
    """Whether requests may hold `committed`."""
    embodiments: dict[str, dict[str, Any]]
    """What is each robot's own of all this, by its name, where the policy was trained on several;
    the rest of the metadata is the first one's."""


REQUEST_KEYS = tuple(RequestOptions.__annotations__)
"""All keys of a request that are not part of the observation."""
