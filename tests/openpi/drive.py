"""What a robot with openpi's own client does; run by an interpreter that has it.

    python drive.py ws://127.0.0.1:8000 API_KEY out/onnx

Prints what came back as JSON. Then oatkit's client does the same, with the same numpy, and decodes
tokens by itself.
"""

import json
import sys

import numpy as np
from oatkit_client import ChunkQueue, Client, LocalDecoder
from openpi_client.action_chunk_broker import ActionChunkBroker
from openpi_client.image_tools import convert_to_uint8, resize_with_pad
from openpi_client.websocket_client_policy import WebsocketClientPolicy


def main(url: str, api_key: str, exported: str) -> None:
    host, port = url.rsplit(":", 1)
    policy = WebsocketClientPolicy(host, int(port), api_key)
    metadata = policy.get_server_metadata()
    picture = np.random.default_rng(0).integers(256, size=(40, 60, 3), dtype=np.uint8)
    observation = {
        "observation/state": np.arange(5.0),
        "observation/front_image": convert_to_uint8(resize_with_pad(picture, 20, 24)),
        "prompt": "open the door",
    }
    reply = policy.infer(observation)
    coarse = policy.infer({**observation, "budget": 2, "deadline_ms": 1000.0})
    broker = ActionChunkBroker(policy, metadata["horizon"])
    steps = [broker.infer(observation)["actions"] for _ in range(2 * metadata["horizon"])]
    broker.reset()
    try:
        policy.infer({**observation, "observation/state": np.zeros(3)})
        error = None
    except RuntimeError as raised:
        error = str(raised)
    with Client(url, api_key) as client:
        queue = ChunkQueue(client, execute=4)
        ours = [queue.step(observation) for _ in range(8)]
        whole = client.infer(observation, budget=1)
    with Client(url, api_key, decoder=LocalDecoder(exported)) as thin:
        decoded = thin.infer(observation, budget=1)
    closeness = np.abs(decoded["actions"] - whole["actions"]).max()
    report = {
        "numpy": np.__version__,
        "horizon": metadata["horizon"],
        "actions": reply["actions"].tolist(),
        "keys": sorted(reply),
        "budget_used": [reply["budget_used"], coarse["budget_used"]],
        "steps": np.shape(steps),
        "ours": np.shape(ours),
        "tokens": [whole["tokens"], decoded["tokens"]],
        "closeness": float(closeness),
        "error": error,
    }
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
