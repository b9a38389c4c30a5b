"""The README of a tokenizer's artifact."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oatkit.tokenizers.action_tokenizer import ActionTokenizer


def model_card(tokenizer: ActionTokenizer) -> str:
    """What the tokenizer is, how it is used, and its error at every budget."""
    transform = tokenizer.normalizer.transform
    lines = [
        "---",
        "library_name: oatkit",
        "tags: [robotics, action-tokenizer]",
        "---",
        f"# {tokenizer.kind} action tokenizer",
        "",
        f"Chunks of {tokenizer.horizon} x {tokenizer.action_dim} actions in up to "
        f"{tokenizer.max_tokens} tokens out of {tokenizer.vocab_size}; normalization "
        f"`{tokenizer.normalizer.mode}`.",
        *(() if transform is None else ("", f"Actions are represented as `{transform}`.")),
        "",
        "```python",
        "import oatkit",
        "",
        'tokenizer = oatkit.load_tokenizer("this folder or hub id")',
        *_calls(tokenizer.needs_state),
        "```",
    ]
    rows = tokenizer.extras.get("rate_distortion", [])
    if rows:
        lines += ["", "| budget | bits | MSE, raw units |", "|---|---|---|"]
        lines += [f"| {r['budget']:g} | {r['bits']:.0f} | {r['mse']:.3g} |" for r in rows]
    return "\n".join(lines) + "\n"


def _calls(needs_state: bool) -> tuple[str, str]:
    if needs_state:
        return (
            "tokens = tokenizer.encode(actions, state=state)  # at the start of each chunk",
            "actions = tokenizer.decode(tokens.ids, budget=4, state=state)",
        )
    return ("tokens = tokenizer.encode(actions)", "actions = tokenizer.decode(tokens, budget=4)")
