"""The docs are true: examples run, commands exist, links resolve, numbers are the measured ones."""

from __future__ import annotations

import importlib.util
import re
import shlex
from dataclasses import fields
from importlib.metadata import metadata
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from benchmarks import report
from oatkit import cli
from oatkit.commands.tokenizer_compare import CompareTokenizers
from oatkit.commands.tokenizer_train import TrainTokenizer
from oatkit.tokenizers import KINDS

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
QUICK = ("data info", "data check", "doctor", "vlm combinations", "vlm scratch")
"""Commands that take seconds: these are run, others only parsed."""
PLACEHOLDERS = ("path/to/", "out/metaworld", "out/doors", "out/quick", "my_dataset")
"""Datasets that the docs name; a small one takes their place."""
NOT_RUN = re.compile(r"<!-- (?:not run: needs|new file:|row in:) .+ -->\n$")
"""What precedes a block that only hardware or weights could run, or that `tests/extending` puts
where it belongs."""


def blocks(page: Path, language: str) -> list[str]:
    """The blocks in a language, but for those that say why they cannot run here."""
    text = page.read_text()
    found = re.finditer(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [match[1] for match in found if not NOT_RUN.search(text[: match.start()])]


def commands(page: Path) -> list[str]:
    """The lines of the page's shell blocks, without comments, those that go on joined."""
    joined = [re.sub(r"\\\n\s*", "", block) for block in blocks(page, "bash")]
    lines = [line for block in joined for line in block.splitlines()]
    return [line for line in (re.split(r"\s#\s", f" {x}")[0].strip() for x in lines) if line]


OTHERS = ("oatkit", "cd", "git", "accelerate", "lerobot-train", "lerobot-eval")
OATKIT = sorted({line for page in PAGES for line in commands(page) if line.startswith("oatkit ")})


@pytest.fixture
def demonstrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small dataset of the shape of the demo's, below the working folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    folder = Path("out/metaworld")
    folder.mkdir(parents=True)
    for index in range(20):
        np.savez(
            folder / f"{index:02d}.npz",
            **{
                "action": rng.normal(size=(20, 4)),
                "observation.state": rng.normal(size=(20, 4)),
                "observation.images.corner2": np.zeros((20, 8, 8, 3), np.uint8),
            },
            task="tidy up",
        )
    return folder


@pytest.mark.usefixtures("demonstrations")
@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p, "python")], ids=lambda page: page.name
)
def test_python_examples_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run in order."""
    monkeypatch.setattr("oatkit.measure.tokenizer_metrics.SPEED_SECONDS", 0.01)
    names: dict[str, object] = {"__name__": "example"}
    with patch.dict(KINDS):  # an example may add one
        for block in blocks(page, "python"):
            exec(compile(block, str(page), "exec", dont_inherit=True), names)


@pytest.mark.parametrize("line", OATKIT)
def test_commands_parse(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command shown is one that exists, with flags that exist."""
    parsed: list[object] = []

    def stop_after_parsing(options: type, prog: str, args: list[str]) -> object:
        parsed.append(real_parse(options, prog, args))
        raise KeyboardInterrupt

    real_parse = cli._parse
    monkeypatch.setattr(cli, "_parse", stop_after_parsing)
    assert cli.main(shlex.split(line)[1:]) == 130
    assert len(parsed) == 1


@pytest.mark.parametrize(
    "line", [x for x in OATKIT if x.startswith(tuple(f"oatkit {name}" for name in QUICK))]
)
def test_quick_commands_run(
    line: str, demonstrations: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(demonstrations) if w.startswith(PLACEHOLDERS) else w for w in shlex.split(line)]
    if "--state-key" in words:  # columns of another dataset
        words = words[: words.index("--state-key")]
    assert cli.main(words[1:]) in (0, 1), capsys.readouterr().err


@pytest.mark.slow
def test_the_five_minutes_of_the_quickstart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command, in order, as it is written there."""
    pytest.importorskip("metaworld", reason="needs the extra metaworld")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/quickstart.md").read_text()
    (block,) = re.findall(r"## Five minutes\n.*?```bash\n(.*?)```", text, re.DOTALL)
    for line in block.splitlines():
        assert cli.main(shlex.split(line)[1:]) == 0, capsys.readouterr().err
    assert (tmp_path / "out/quick-eval/report.html").exists()


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda page: page.name)
def test_other_commands_exist(page: Path) -> None:
    """`make` has the target, `pip` the extra, `python -m` the module."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in commands(page):
        words = shlex.split(line)
        if words[0] == "make":
            assert words[1] in targets, line
        elif words[0] == "pip":
            for name, named in re.findall(r"([\w-]+|\.)\[(.*?)\]", line):
                extras = metadata("oatkit" if name == "." else name).get_all("Provides-Extra") or ()
                assert set(named.split(",")) <= set(extras), line
        elif words[:2] == ["python", "-m"]:
            assert importlib.util.find_spec(words[2]), line
        else:
            assert words[0] in OTHERS, line


@pytest.mark.parametrize("options", [TrainTokenizer, CompareTokenizers])
def test_the_page_of_tokenizers_has_every_option(options: type) -> None:
    """Those of the loop are in `training.md`, those of a dataset's columns in `data.md`."""
    page = (ROOT / "docs/tokenizers.md").read_text()
    own = [
        field for field in fields(options) if field.name not in ("device", "training", "columns")
    ]
    flags = [
        f"--{'no-' if each.default is True else ''}{each.name.replace('_', '-')}" for each in own
    ]
    assert [flag for flag in flags if not re.search(rf"{flag}\b(?!-)", page)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    local = [link for link in links if not link.startswith("http")]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_every_page_is_in_the_navigation() -> None:
    shown = re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text())
    there = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(shown) == sorted(there)


def test_the_readme_starts_with_a_picture_and_the_two_commands() -> None:
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:22])
    for shown in ("prefix.svg", "make demo", "make test", "report.html"):
        assert shown in first_screen


def test_pages_and_drawings_are_the_measured_numbers() -> None:
    different = [path for path, text in report.written().items() if path.read_text() != text]
    assert different == [], "python -m benchmarks.report writes them"
