"""The docs are true: examples run, commands exist, links resolve, numbers are the measured ones."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from benchmarks import report
from oatkit import cli

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p, "python")], ids=lambda page: page.name
)
def test_python_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run in order, beside a small dataset of the shape of the demo's."""
    import oatkit.data.open

    monkeypatch.setattr(oatkit.data.open, "FORMATS", oatkit.data.open.FORMATS)
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    Path("out/metaworld").mkdir(parents=True)
    for index in range(20):
        np.savez(
            f"out/metaworld/{index:02d}.npz",
            **{
                "action": rng.normal(size=(20, 4)),
                "observation.state": rng.normal(size=(20, 4)),
                "observation.images.corner2": np.zeros((20, 8, 8, 3), np.uint8),
            },
            task="tidy up",
        )
    names: dict[str, object] = {}
    ran = blocks(page, "python")
    for block in ran:
        exec(compile(block, str(page), "exec"), names)
    assert ran


@pytest.mark.parametrize(
    ("page", "line"),
    [
        (page.name, line.split("#")[0].strip())
        for page in PAGES
        for block in blocks(page, "bash")
        for line in block.splitlines()
        if line.startswith("oatkit ")
    ],
)
def test_commands_parse(page: str, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command shown is one that exists, with flags that exist."""
    parsed: list[object] = []

    def stop_after_parsing(options: type, prog: str, args: list[str]) -> object:
        parsed.append(real_parse(options, prog, args))
        raise KeyboardInterrupt

    real_parse = cli._parse
    monkeypatch.setattr(cli, "_parse", stop_after_parsing)
    assert cli.main(shlex.split(line)[1:]) == 130
    assert len(parsed) == 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    local = [link for link in links if not link.startswith("http")]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_the_readme_starts_with_the_two_commands() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:25])
    assert "make demo" in first_screen
    assert "make test" in first_screen


def test_the_results_page_is_the_measured_numbers() -> None:
    assert (ROOT / "docs" / "results.md").read_text() == report.render()
