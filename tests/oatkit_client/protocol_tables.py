"""The tables of docs/serving.md, made of what `protocol.py` says about its keys.

python -m tests.oatkit_client.protocol_tables
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

from oatkit_client import protocol

PAGE = Path(__file__).parents[2] / "docs/serving.md"
TABLES = {
    "metadata": ("Metadata",),
    "request": ("RequestOptions",),
    "reply": ("Reply", "TokensReply", "_SometimesInReply"),
    "timing": ("ServerTiming",),
}
"""Classes whose keys each table lists."""


def meanings(name: str) -> dict[str, str]:
    """The text below each key of a class."""
    (found,) = (
        node
        for node in ast.parse(inspect.getsource(protocol)).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    texts = {}
    for key, text in zip(found.body, found.body[1:], strict=False):
        if isinstance(key, ast.AnnAssign) and isinstance(key.target, ast.Name):
            assert isinstance(text, ast.Expr), f"{key.target.id} of {name} is not documented"
            assert isinstance(text.value, ast.Constant)
            texts[key.target.id] = " ".join(str(text.value.value).split())
    return texts


def rows(table: str) -> str:
    """The rows of a table of the page."""
    found = [(key, text) for name in TABLES[table] for key, text in meanings(name).items()]
    return "".join(f"| `{key}` | {text} |\n" for key, text in found)


if __name__ == "__main__":
    for each in TABLES:
        sys.stdout.write(f"{each}\n{rows(each)}\n")
