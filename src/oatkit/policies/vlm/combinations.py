"""Every vision-language policy there is: an objective, the tokenizer that supervises, a backbone.

A new tokenizer or family adds its combinations by being in its own table.
"""

from __future__ import annotations

from dataclasses import dataclass

from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.policies.vlm.vlm_config import OBJECTIVES
from oatkit.tokenizers import KINDS


@dataclass(frozen=True)
class Combination:
    """An objective, a kind of tokenizer (None where no tokens are used) and a backbone family."""

    objective: str
    kind: str | None
    family: str

    @property
    def name(self) -> str:
        return "/".join(part for part in (self.objective, self.kind, self.family) if part)

    @property
    def command(self) -> str:
        """Command that trains it on a published checkpoint, which takes the paper's recipe."""
        tokenizer = f" --tokenizer out/{self.kind}" if self.kind else ""
        checkpoint = FAMILIES[self.family].example
        return (
            f"oatkit policy train --policy {self.objective} --backbone {checkpoint}{tokenizer} "
            f"--preset paper --data out/metaworld --cameras corner2 "
            f"--out out/{self.name.replace('/', '-')}"
        )


def combinations() -> list[Combination]:
    """Every combination, backbone by backbone."""
    return [
        Combination(name, kind, family)
        for family in FAMILIES
        for name, objective in OBJECTIVES.items()
        for kind in (KINDS if "tokens" in objective.heads else (None,))
    ]
