"""The robot's side of an oatkit server: numpy, msgpack and websockets only; ONNX Runtime to decode.

from oatkit_client import ChunkQueue, Client

with Client("ws://127.0.0.1:8000") as client:
    queue = ChunkQueue(client, budget="auto")
    action = queue.step({"observation/state": state, "prompt": "open the door"})
"""

from oatkit_client.chunks import ChunkQueue, RealTimeChunks
from oatkit_client.client import Client
from oatkit_client.errors import (
    ClientError,
    ConnectionFailed,
    NoChunk,
    Refused,
    RequestTimeout,
    ServerBusy,
    ServerError,
    StepLate,
)
from oatkit_client.local_decoder import LocalDecoder
from oatkit_client.local_policy import LocalPolicy
from oatkit_client.protocol import Metadata, Reply, RequestOptions
from oatkit_client.sampling import Sampling
from oatkit_client.wire import WireError, pack, unpack

__version__ = "0.1.0"

__all__ = [
    "ChunkQueue",
    "Client",
    "ClientError",
    "ConnectionFailed",
    "LocalDecoder",
    "LocalPolicy",
    "Metadata",
    "NoChunk",
    "RealTimeChunks",
    "Refused",
    "Reply",
    "RequestOptions",
    "RequestTimeout",
    "Sampling",
    "ServerBusy",
    "ServerError",
    "StepLate",
    "WireError",
    "pack",
    "unpack",
]
