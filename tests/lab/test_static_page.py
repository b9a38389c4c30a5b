"""The built page, and the page with chosen chunks inside."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from oatkit.lab import Lab
from oatkit.lab.static_page import EMPTY_ANSWERS, choose_places, live_page, static_page
from tests.lab import small

ROOT = Path(__file__).parents[2]


def test_the_built_page_is_that_of_the_sources() -> None:
    """What `lab/build.mjs` notes in the page; `make lab` builds it anew."""
    folder = ROOT / "lab"
    names = [f"src/{path.name}" for path in (folder / "src").iterdir()]
    names += ["build.mjs", "package.json", "package-lock.json", "tsconfig.json"]
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(f"{name}\n".encode())
        digest.update((folder / name).read_bytes())
    (noted,) = re.findall('name="oatkit-lab-source" content="([0-9a-f]+)"', live_page())
    assert noted == digest.hexdigest(), "the page is older than its sources: run `make lab`"


def test_the_built_page_needs_nothing_else() -> None:
    page = live_page()
    assert page.count(EMPTY_ANSWERS) == 1
    assert "http:" not in page
    assert "https:" not in page
    assert "@import" not in page
    assert len(page) < 100_000


def test_the_lock_file_names_no_host() -> None:
    text = (ROOT / "lab/package-lock.json").read_text()
    assert '"resolved"' not in text
    assert '"integrity"' in text


def test_an_export_holds_the_answers_about_its_chunks(lab: Lab) -> None:
    places = [(2, 0), (2, 16), (5, 8)]
    page = static_page(lab, places)
    (text,) = re.findall('<script id="chosen" type="application/json">(.*?)</script>', page)
    chosen = json.loads(text)
    assert [(c["episode"], c["frame"]) for c in chosen["chunks"]] == places
    assert sorted(chosen["episodes"]) == ["2", "5"]
    first = chosen["chunks"][0]
    assert first["chunk"] == json.loads(json.dumps(lab.chunk(2, 0)))
    assert len(first["influence"]) == len(lab.tokenizers)
    (image,) = first["images"].values()
    assert image.startswith("data:image/jpeg;base64,")


def test_markup_in_a_task_does_not_end_the_script(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = lab.facts() | {"tasks": ["</script><script>alert(1)</script>"]}
    monkeypatch.setattr(lab, "facts", lambda: facts)
    page = static_page(lab, [(0, 0)])
    assert "<script>alert" not in page
    (text,) = re.findall('<script id="chosen" type="application/json">(.*?)</script>', page)
    assert json.loads(text)["facts"]["tasks"] == facts["tasks"]


def test_chosen_chunks_lie_along_held_out_episodes(lab: Lab) -> None:
    places = choose_places(lab, 4)
    assert len(places) == 4
    assert {episode for episode, _ in places} <= set(lab.held_out())
    frames = [frame for _, frame in places]
    assert min(frames) == 0
    assert max(frames) == small.LENGTH - small.HORIZON
