"""What a server tells every client first: the facts about its policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oatkit_client.key_map import KeyMap
from oatkit_client.protocol import Metadata

from oatkit.nn.device import describe_device
from oatkit.policies import Policy
from oatkit.policies.generation.committed_actions import takes_committed
from oatkit.serve.latency_table import LatencyTable
from oatkit.types.observation_keys import STATE


def server_metadata(
    policies: Mapping[str | None, Policy],
    keys: Mapping[str | None, KeyMap],
    latencies: LatencyTable,
) -> Metadata:
    """The first message of a server.

    Args:
        policies: Policy of each robot that is served, by its name; None for a robot without one.
        keys: Keys of requests of each robot.
        latencies: Measured durations of predictions.
    """
    told = {name: _policy_facts(policy, keys[name], latencies) for name, policy in policies.items()}
    return {
        **next(iter(told.values())),  # type: ignore[typeddict-item]
        "embodiments": {name: facts for name, facts in told.items() if name is not None},
    }


def _policy_facts(policy: Policy, keys: KeyMap, latencies: LatencyTable) -> dict[str, Any]:
    """What is told of one robot's policy."""
    spec, tokenizer = policy.spec, policy.tokenizer
    data = policy.extras.get("data", {})
    return {
        "horizon": tokenizer.horizon,
        "action_dim": tokenizer.action_dim,
        "action_names": list(tokenizer.data.action_names),
        "fps": tokenizer.data.fps,
        "cameras": {name: list(size) for name, size in spec.cameras.items()},
        "state_dim": spec.state_dim,
        "state_names": list(data.get("state_names", [])),
        "tasks": list(spec.tasks),
        "history": spec.history,
        "keys": dict(keys.preferred),
        "head": policy.head,
        "tokenizer": tokenizer.kind,
        "tokenizer_fingerprint": tokenizer.digest,
        "budgets": list(policy.budgets),
        "latency_ms": {
            str(budget or policy.budgets[-1]): latencies.table_ms[1, budget]
            for budget in latencies.budgets or (None,)
        },
        "normalization": {
            "action": tokenizer.raw_normalizer.to_json(),
            "state": spec.state.to_json() if spec.state else None,
        },
        "fingerprint": policy.digest,
        "has_execute_steps": policy.execution is not None,
        "heads": list(policy.heads),
        "state_keys": list(data.get("state_keys", [STATE])),
        "device": describe_device(policy.device),
        "actions": str(tokenizer.normalizer.transform or "absolute"),
        "takes_committed": takes_committed(policy),
    }
