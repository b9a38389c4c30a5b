"""Every vision-language policy there is: an objective, the tokenizer that supervises, a backbone.

A new tokenizer or family adds its cells by being in its own list.
"""

from __future__ import annotations

from dataclasses import dataclass

from oatkit.policies.vlm.backbones.family_table import FAMILIES
from oatkit.policies.vlm.vlm_config import HEADS
from oatkit.tokenizers import KINDS


@dataclass(frozen=True)
class Cell:
    """One combination; `kind` is None where no tokens are used."""

    objective: str
    kind: str | None
    family: str

    @property
    def name(self) -> str:
        return "/".join(part for part in (self.objective, self.kind, self.family) if part)

    @property
    def command(self) -> str:
        """How it is trained."""
        tokenizer = f" --tokenizer out/{self.kind}" if self.kind else ""
        checkpoint = FAMILIES[self.family].example
        return (
            f"oatkit policy train --policy {self.objective} --backbone {checkpoint}{tokenizer} "
            f"--data out/metaworld --cameras corner2 --out out/{self.name.replace('/', '-')}"
        )


def cells() -> list[Cell]:
    """All of them, backbone by backbone."""
    return [
        Cell(objective, kind, family)
        for family in FAMILIES
        for objective, heads in HEADS.items()
        for kind in (KINDS if "tokens" in heads else (None,))
    ]
