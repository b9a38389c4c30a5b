"""The lab as a user sees it, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from oatkit.storage.records import record_from_json

pytest.importorskip("starlette", reason="needs the extra lab")

from oatkit.lab import Lab
from oatkit.lab.app import serving
from oatkit.lab.static_page import static_page
from oatkit.measure.reports import html_page as report
from oatkit.types import LabChunk
from tests.lab import small
from tests.lab.browser import CHROMIUM, Tab, open_browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt-get install chromium")

SCREENSHOTS = Path(__file__).parents[2] / "out/screenshots"
SETTLED = "window.oatkitLab?.isSettled()"
SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => shifts.push(...list.getEntries().map((e) => e.value)))
  .observe({type: "layout-shift", buffered: true});
"""


@pytest.fixture(scope="module")
def url(lab: Lab) -> Iterator[str]:
    with serving(lab) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Tab]:
    with open_browser() as tab:
        yield tab


@pytest.fixture
def tab(browser: Tab) -> Iterator[Tab]:
    """Whatever a test does: no complaints in the console, and no request leaves this machine."""
    browser.requests.clear()
    browser.complaints.clear()
    yield browser
    assert browser.complaints == []
    hosts = {urlsplit(url).hostname for url in browser.requests if ":" in url}
    assert hosts <= {"127.0.0.1", None}


@pytest.fixture
def page(tab: Tab, url: str) -> Tab:
    """The lab, opened."""
    tab.open(url)
    tab.until(SETTLED)
    return tab


def record(tab: Tab) -> Any:
    """What the page would download."""
    return tab.run("window.oatkitLab.record()")


def of(found: Any, name: str) -> Any:
    return next(t for t in found["tokenizers"] if t["name"] == name)


def set_range(tab: Tab, name: str, value: int) -> None:
    tab.run(
        f"(() => {{ const e = document.getElementById('{name}'); e.value = {value};"
        "e.dispatchEvent(new Event('input')); })()"
    )
    tab.until(SETTLED)


def curve(tab: Tab, lane: int) -> str:
    """The decoded curve of a lane's first dimension."""
    path = f"document.querySelectorAll('.lane')[{lane}].querySelector('.plot .decoded')"
    return str(tab.run(f"{path}.getAttribute('d')"))


def test_the_budget_changes_the_plot_and_the_error_falls(page: Tab, lab: Lab) -> None:
    curves, errors = [], []
    for budget in (1, 2, 4, 8):
        set_range(page, "budget", budget)
        curves.append(curve(page, 0))
        found = of(record(page), "klt")
        assert found["tokens"] == budget
        errors.append(found["mse"])
    assert len(set(curves)) == 4
    assert errors[-1] < errors[0], errors  # of one chunk: a token may cost what a later one wins
    view = page.run("window.oatkitLab.view()")
    truth_TA = lab.dataset[view["episode"]].actions[view["frame"] :][: small.HORIZON]
    (decoded_TA,) = lab.tokenizers["klt"].decode([found["ids"]])
    assert errors[-1] == pytest.approx(np.square(decoded_TA - truth_TA).mean(), rel=1e-4)
    assert of(record(page), "bin")["tokens"] == small.HORIZON * 3


def test_play_runs_through_the_budgets(page: Tab) -> None:
    set_range(page, "budget", 8)
    page.click("#play")
    page.until("window.oatkitLab.view().budget > 1")
    page.until("window.oatkitLab.view().budget === 8")
    page.until("document.querySelector('#play').textContent.trim() === 'Play'")


def test_an_edited_token_decodes_exactly_as_the_tokenizer_does(page: Tab, lab: Lab) -> None:
    set_range(page, "budget", 8)
    for name in ("klt", "oat-pow2", "quest", "bin"):
        lane = list(lab.tokenizers).index(name)
        before = of(record(page), name)
        page.click(f"#cell-{lane}-2")
        page.until(SETTLED)
        page.run(
            "(() => { const e = document.getElementById('token-id'); e.value = '7';"
            "e.dispatchEvent(new Event('change')); })()"
        )
        page.until(SETTLED)
        after = of(record(page), name)
        assert after["ids"] == [*before["ids"][:2], 7, *before["ids"][3:]]
        assert after["encoded_ids"] == before["ids"]
        (decoded_TA,) = lab.tokenizers[name].decode([after["ids"]])
        np.testing.assert_allclose(after["actions"], decoded_TA, rtol=1e-5, atol=1e-6)
        if before["ids"][2] != 7:
            assert after["actions"] != before["actions"]
    page.click("#undo")
    page.until(SETTLED)
    assert of(record(page), "bin")["ids"] == of(record(page), "bin")["encoded_ids"]


def test_randomize_mask_and_swap(page: Tab, lab: Lab) -> None:
    set_range(page, "budget", 8)
    page.click("#cell-0-1")
    before = of(record(page), "klt")
    page.click("#randomize")
    page.until(SETTLED)
    changed = of(record(page), "klt")["ids"]
    assert changed[1] != before["ids"][1]
    assert changed[2:] == before["ids"][2:]

    other = page.run("window.oatkitLab.view().other")
    page.click("#swap")
    page.until(SETTLED)
    theirs = lab.chunk(other["episode"], other["frame"])["encoded"][0]["ids"]
    assert of(record(page), "klt")["ids"][1] == theirs[1]

    page.click("#mask")
    page.until(SETTLED)
    masked = of(record(page), "klt")
    assert masked["tokens"] == 2
    (decoded_TA,) = lab.tokenizers["klt"].decode([masked["ids"]], budget=2)
    np.testing.assert_allclose(masked["actions"], decoded_TA, rtol=1e-5, atol=1e-6)
    assert of(record(page), "oat-pow2")["tokens"] == 8
    assert page.run("document.querySelectorAll('.lane')[0].querySelectorAll('.masked').length") == 6


def test_fast_shows_that_not_every_sequence_decodes(page: Tab, lab: Lab) -> None:
    lane = list(lab.tokenizers).index("fast")
    failure = f"document.querySelectorAll('.lane')[{lane}].querySelector('.failure')"
    assert page.run(f"{failure}.hidden")
    page.click(f"#cell-{lane}-0")
    for _ in range(20):
        page.press("r")
        page.until(SETTLED)
        if not page.run(f"{failure}.hidden"):
            break
    assert "expected 24 coefficients" in page.run(f"{failure}.textContent")
    assert of(record(page), "fast")["mse"] is None
    assert page.run("document.getElementById('mask').disabled")


def test_a_link_restores_the_view(page: Tab, url: str) -> None:
    set_range(page, "budget", 3)
    page.press("2")  # oat-pow2
    for key in (".", ".", "+", "m", "n"):  # edits belong to a chunk, so the last one drops them
        page.press(key)
    page.until(SETTLED)
    assert page.run("window.oatkitLab.view().masks.size") == 0
    for key in ("+", "+", "m", "ArrowUp", "1"):
        page.press(key)
        page.until(SETTLED)
    page.run("document.getElementById('rate-by').value = 'bits'")
    page.run("document.getElementById('rate-by').dispatchEvent(new Event('change'))")
    page.click("#sum")
    before = record(page)
    page.until("location.hash.includes('rate=bits') && location.hash.includes('sum=1')")
    page.until("location.hash.includes('focus=klt') && location.hash.includes('budget=4')")
    link = page.run("location.href")
    assert "edit.oat-pow2=3:" in link
    page.open("about:blank")
    page.open(link)
    page.until(SETTLED)
    assert record(page) == before
    assert page.run("location.href") == link
    view = page.run("window.oatkitLab.view()")
    assert (view["budget"], view["token"], view["rate"], view["isSum"]) == (4, 2, "bits", True)


def test_a_link_that_makes_no_sense_still_opens(tab: Tab, url: str) -> None:
    tab.open(f"{url}#episode=999&frame=-3&budget=1e9&focus=nobody&axes=7,8,9&edit.klt=a:b,1:2")
    tab.until(SETTLED)
    view = tab.run("window.oatkitLab.view()")
    assert (view["episode"], view["frame"], view["focus"]) == (0, 0, "klt")


def test_the_download_is_the_record(page: Tab) -> None:
    page.run(
        "void (window.saved = new Promise((done) => {"
        "URL.createObjectURL = (blob) => { blob.text().then(done); return 'data:,'; }; }))"
    )
    page.press("d")
    found = record_from_json(LabChunk, json.loads(page.run("window.saved")))
    assert json.loads(json.dumps(asdict(found))) == record(page)
    assert found.schema == "oatkit/lab-chunk"
    assert [t.name for t in found.tokenizers] == list(small.SETTINGS)


def test_dragging_along_the_time_line_encodes_the_chunk_there(page: Tab, lab: Lab) -> None:
    box = page.run(
        "(() => { const b = document.getElementById('frame').getBoundingClientRect();"
        "return [b.x, b.y + b.height / 2, b.width]; })()"
    )
    x, y, width = box
    page.drag([(x + width * share, y) for share in (0.1, 0.3, 0.5, 0.7)])
    page.until(SETTLED)
    view = page.run("window.oatkitLab.view()")
    assert view["frame"] == pytest.approx(0.7 * (small.LENGTH - 1), abs=1.5)
    truth_TA = lab.dataset[view["episode"]].actions[view["frame"] :][: small.HORIZON]
    assert [of(record(page), "klt")["ids"]] == lab.tokenizers["klt"](truth_TA)
    np.testing.assert_array_equal(np.float32(record(page)["actions"]), truth_TA)


def test_the_camera_shows_the_frame(page: Tab) -> None:
    assert not page.run("document.getElementById('camera').hidden")
    before = page.run("document.getElementById('frame-image').src")
    page.press("ArrowRight")
    page.until(f"document.getElementById('frame-image').src !== {json.dumps(before)}")
    page.until("document.getElementById('frame-image').complete")
    assert page.run("document.getElementById('frame-image').naturalWidth") == 64


def test_the_keyboard_does_it_all(page: Tab) -> None:
    start = page.run("window.oatkitLab.view()")
    page.press("ArrowRight", is_shift=True)
    page.press("ArrowLeft")
    page.press("ArrowUp")
    page.press("3")
    page.press(".")
    page.until(SETTLED)
    page.press("+")
    page.until(SETTLED)
    view = page.run("window.oatkitLab.view()")
    assert view["frame"] == start["frame"] + small.HORIZON // 2 - 1
    assert (view["budget"], view["focus"], view["token"]) == (start["budget"] + 1, "quest", 1)
    quest = of(record(page), "quest")
    assert quest["ids"][1] == (quest["encoded_ids"][1] + 1) % 20
    page.press("?")
    assert page.run("document.getElementById('keys').open")


def test_nothing_shifts(tab: Tab, url: str) -> None:
    tab.open(url)
    tab.run(SHIFTS)
    tab.until(SETTLED)
    for key in ("ArrowRight", "ArrowUp", "ArrowUp", "3", ".", "r", "4", "r", "n", "1", "m", "u"):
        tab.press(key)
        tab.until(SETTLED)
    set_range(tab, "frame", small.LENGTH - 1)
    tab.run("new Promise((done) => setTimeout(done, 400))")
    assert sum(tab.run("window.shifts")) < 0.01


def test_everything_has_a_name(page: Tab) -> None:
    """The page as assistive technology sees it."""
    nodes = page.ask("Accessibility.getFullAXTree")["nodes"]
    wanted = {
        "button",
        "slider",
        "combobox",
        "listbox",
        "option",
        "image",
        "spinbutton",
        "checkbox",
    }
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in nodes
        if not node.get("ignored") and node.get("role", {}).get("value") in wanted
    ]
    assert {role for role, _ in named} >= wanted - {"image"}
    assert [role for role, name in named if not name.strip()] == []


def test_the_server_s_refusal_is_shown(page: Tab) -> None:
    page.run("location.hash = location.hash + '&edit.klt=1:99999'")
    page.until("!document.getElementById('message').hidden")
    page.until(SETTLED)  # what else was asked succeeds, and the message stays
    text = page.run("document.getElementById('message').textContent")
    assert "id 99999 at slot 0 of sequence 0 is outside the vocabulary 0 .. 19" in text
    page.press("u")
    page.press("ArrowRight")
    page.until("document.getElementById('message').hidden")
    assert all("status of 400" in complaint for complaint in page.complaints)
    page.complaints.clear()


@pytest.mark.parametrize(("name", "width"), [("desktop", 1400), ("phone", 390)])
@pytest.mark.parametrize("is_dark", [False, True])
def test_screenshots(tab: Tab, url: str, name: str, width: int, *, is_dark: bool) -> None:
    tab.open(url, width=width, height=1000, is_dark=is_dark)
    tab.until(SETTLED)
    assert tab.run("document.documentElement.scrollWidth") <= width
    paper = tab.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper.strip("rgb()").split(","))) < 200) == is_dark
    theme = "dark" if is_dark else "light"
    shot = tab.screenshot(SCREENSHOTS / f"lab-{name}-{theme}.png")
    assert shot.stat().st_size > 20_000


def test_an_export_opens_from_disk(tab: Tab, lab: Lab, tmp_path: Path) -> None:
    places = [(2, 0), (2, 16), (5, 8)]
    path = tmp_path / "index.html"
    path.write_text(static_page(lab, places))
    tab.open(path.as_uri())
    tab.until(SETTLED)
    view = tab.run("window.oatkitLab.view()")
    assert (view["episode"], view["frame"]) in places
    set_range(tab, "budget", 1)
    first = of(record(tab), "klt")["mse"]
    set_range(tab, "budget", 8)
    assert of(record(tab), "klt")["mse"] < first
    seen = set()
    for key in ("n", "ArrowRight", "n", "ArrowLeft", "ArrowRight"):
        tab.press(key)
        tab.until(SETTLED)
        seen.add((record(tab)["episode"], record(tab)["frame"]))
    assert seen == set(places)
    assert tab.run("document.getElementById('randomize').disabled")
    tab.click("#cell-0-1")
    tab.click("#mask")
    tab.until(SETTLED)
    assert of(record(tab), "klt")["tokens"] == 2
    assert {urlsplit(u).scheme for u in tab.requests} <= {"file", "data", "about"}


def test_a_report_holds_it_at_its_full_height(tab: Tab, lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/index.html").write_text(static_page(lab, [(2, 0)], has_images=False))
    path = tmp_path / "report.html"
    figures = {"Prefix lab": report.lab(tmp_path)}
    path.write_text(report.page("Report", "", summary="", figures=figures, tables={}, made=""))
    tab.open(path.as_uri())
    inside = "document.querySelector('iframe').contentWindow"
    tab.until(f"{inside}.oatkitLab?.isSettled()")
    tab.until(
        f"document.querySelector('iframe').clientHeight >= {inside}.document.body.scrollHeight"
    )
    assert tab.run(f"{inside}.document.getElementById('link').hidden")
    assert tab.run(f"{inside}.document.getElementById('camera').hidden")


def test_curves_points_and_names_stay_in_their_panels(page: Tab) -> None:
    for _ in range(3):
        page.run("document.getElementById('randomize').click()")
        page.until(SETTLED)
    for inside in (
        "'.plot .curves', (c) => getComputedStyle(c).overflow === 'hidden'",
        "'.plot .curves', (c) => c.height.baseVal.value < 75 && !c.querySelector('.difference')",
        "'#rate-plot .now', (c) => c.cy.baseVal.value >= 8 && c.cy.baseVal.value <= 206",
        "'#path-plot text', (t) => t.getBBox().x >= 0",
    ):
        selector, is_inside = inside.split(", ", 1)
        found = f"[...document.querySelectorAll({selector})].map({is_inside})"
        assert set(page.run(found)) == {True}, selector
