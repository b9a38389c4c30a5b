"""The layout that CONTRIBUTING promises: short files and functions, one name each, tests beside."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/oatkit"
FILES = sorted(
    [*SOURCE.rglob("*.py"), *(ROOT / "packages").glob("*/src/**/*.py")],
    key=str,
)
OURS = [path for path in FILES if path.is_relative_to(SOURCE)]
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
BARE = re.compile(r"(Of|As|Its|Whose|By|From|For|With|In|At|On) ")
"""How a docstring begins that is no sentence by itself."""
BRITISH = re.compile(
    r"artefact|normalis|colour|optimis|behaviour|\bcentre|summaris|recognis|tokenis|neighbour"
    r"|randomis|quantis|modelling|analyse\b|favour|initialis|generalis|serialis|realis(e|ing)",
    re.IGNORECASE,
)
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def long_files() -> Iterator[str]:
    for path in FILES:
        count = len(path.read_text().splitlines())
        if count > MAX_FILE_LINES:
            yield f"{name_of(path)}: {count} lines"


def long_functions() -> Iterator[str]:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = (node.end_lineno or node.lineno) - node.lineno + 1
                if count > MAX_FUNCTION_LINES:
                    yield f"{name_of(path)}:{node.lineno} {node.name}: {count} lines"


def files_of_one_name() -> Iterator[str]:
    """Two files of one name in different rooms."""
    found = defaultdict(list)
    for path in OURS:
        if path.name not in ("__init__.py", "__main__.py"):
            found[path.name].append(name_of(path))
    yield from (", ".join(paths) for paths in found.values() if len(paths) > 1)


def classes_and_tables_of_one_name() -> Iterator[str]:
    """Two public classes, or two tables in capitals of public use, that share a name."""
    found = defaultdict(list)
    for path in OURS:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{name_of(path)}:{node.lineno}")
    yield from (f"{name}: {', '.join(p)}" for name, p in found.items() if len(p) > 1)


def files_without_tests() -> Iterator[str]:
    """Files of `src/oatkit/x/y.py` for which there is no `tests/x/test_y.py`."""
    for path in OURS:
        if path.name in ("__init__.py", "__main__.py"):
            continue
        below = path.relative_to(SOURCE)
        test = ROOT / "tests" / below.parent / f"test_{below.name}"
        if not test.exists():
            yield f"{name_of(path)} has no {name_of(test)}"


def bare_docstrings() -> Iterator[str]:
    """Docstrings that begin with a bare genitive or preposition, those of attributes included."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                text = node.value.value
                if isinstance(text, str) and BARE.match(text):
                    yield f"{name_of(path)}:{node.lineno} {text[:60]!r}"


def bare_arguments() -> Iterator[str]:
    """Entries of `Args:` and `Attributes:` that are no sentence by themselves."""
    for path in FILES:
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            entry = re.match(r"\s{8,}\w+: (.+)$", line)
            if entry and BARE.match(entry[1]):
                yield f"{name_of(path)}:{number} {line.strip()[:70]}"


def british_spelling() -> Iterator[str]:
    code = [*FILES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").glob("*.py"), *PAGES]
    for path in code:
        if path == Path(__file__):
            continue
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if BRITISH.search(line):
                yield f"{name_of(path)}:{number} {line.strip()[:70]}"


RULES = [
    long_files,
    long_functions,
    files_of_one_name,
    classes_and_tables_of_one_name,
    files_without_tests,
    bare_docstrings,
    bare_arguments,
    british_spelling,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_layout(rule) -> None:  # type: ignore[no-untyped-def]
    assert list(rule()) == []


if __name__ == "__main__":  # python -m tests.test_layout src/oatkit/serve
    for each in RULES:
        for line in each():
            if not sys.argv[1:] or any(word in line for word in sys.argv[1:]):
                sys.stdout.write(f"{each.__name__}: {line}\n")
