"""The README of a policy's artifact."""

from __future__ import annotations

from dataclasses import dataclass

from oatkit.tokenizers import ActionTokenizer


@dataclass(frozen=True)
class PolicyCard:
    """What a README says that depends on the kind of the policy.

    Attributes:
        title: Heading.
        observes: What the policy observes, in words.
        call: Arguments of `predict_action_chunk` in the example.
        tags: Tags for the hub.
    """

    title: str
    observes: str
    call: str = "observation"
    tags: tuple[str, ...] = ("robotics", "action-policy")

    def text(self, tokenizer: ActionTokenizer) -> str:
        """The whole README of a policy with this tokenizer."""
        lines = [
            "---",
            "library_name: oatkit",
            f"tags: [{', '.join(self.tags)}]",
            "---",
            f"# {self.title}",
            "",
            f"Observes {self.observes}. Gives chunks of {tokenizer.horizon} x "
            f"{tokenizer.action_dim} actions.",
            "",
            "```python",
            "import oatkit",
            'policy = oatkit.load_policy("this folder or hub id")',
            "policy.reset()",
            f"chunk = policy.predict_action_chunk({self.call}).chunk",
            "```",
        ]
        return "\n".join(lines) + "\n"
