"""What the server answers to a request."""

from __future__ import annotations

import time
from collections.abc import Sequence

from oatkit_client.protocol import Reply, ServerTiming, TokensReply

from oatkit.serve.batcher import Answer
from oatkit.serve.request import Request


def make_reply(
    request: Request, answer: Answer, previous_ms: float | None, warnings: Sequence[str]
) -> Reply | TokensReply:
    """The message that leaves.

    Args:
        request: The client's request.
        answer: The prediction for it.
        previous_ms: Time that the previous request of this connection took in all, if there was
            one.
        warnings: Sentences that the client has not heard yet.
    """
    timing: ServerTiming = {"infer_ms": answer.infer_ms, "queue_ms": answer.queue_ms}
    if previous_ms is not None:
        timing["prev_total_ms"] = previous_ms
    reply: TokensReply = {
        "tokens": answer.tokens,
        "budget_used": answer.budget_used,
        "entropy": answer.entropy_bits,
        "calls": answer.calls,
        "attempts": answer.attempts,
        "server_timing": timing,
    }
    if answer.stopped is not None:
        reply["stopped"] = answer.stopped
    if answer.execute_steps is not None:
        reply["execute_steps"] = answer.execute_steps
    if request.deadline is not None:
        reply["deadline_met"] = time.perf_counter() <= request.deadline
    if warnings:
        reply["warning"] = "; ".join(warnings)
    if request.is_tokens_only:
        return reply
    if answer.draws is not None:
        reply["draws"] = answer.draws
    return {"actions": answer.actions, **reply}
