"""The parts that pages are made of."""

from __future__ import annotations

from pathlib import Path

from oatkit.measure.reports.chart import Chart, new_figure
from oatkit.measure.reports.html_page import (
    bullets,
    commands,
    figures,
    how_made,
    lab,
    page,
    table,
    video,
    warning,
)
from tests.measure.reports.pages import Page


def test_empty_sections_are_left_out_and_the_others_linked() -> None:
    text = page(
        "A & B",
        "<i>lead</i>",
        summary="said",
        figures={"Some chart": "drawn", "No chart": ""},
        tables={"Full": "numbers", "Empty": ""},
        made="so",
        after={"Later": "more"},
    )
    assert Page(text).addresses == [
        *("#in-short", "#some-chart", "#in-numbers", "#how-this-was-made", "#later")
    ]
    assert "<title>A &amp; B</title>" in text
    assert "No chart" not in text
    assert "Empty" not in text


def test_plain_texts_are_escaped() -> None:
    assert bullets(["a < b"]) == "<ul><li>a &lt; b</li></ul>"
    assert "<code>a &lt; b\nc</code>" in commands(["a < b", "c"])
    assert "<td>a &lt; b</td>" in table("", ["x"], [["a < b"]])
    assert "<td><b>1</b></td>" in table("", ["x"], [["<b>1</b>"]], is_html=True)
    assert "a &lt; b" in warning(["a < b"])
    assert warning([]) == ""


def test_a_chart_is_described_to_those_who_do_not_see_it() -> None:
    chart = Chart(new_figure(2, 1)[0], "empty", see='It is "empty".', caption="Look.")
    text = figures([chart, chart])
    assert text.count('role="img" aria-label="It is &quot;empty&quot;."') == 2
    assert "<figcaption><b>It is &quot;empty&quot;.</b> Look.</figcaption>" in text


def test_settings_are_written_as_words() -> None:
    text = how_made(["", "oatkit demo"], {"a": None, "b": [True, False], "c": {"d": 1.5}})
    for cells in ("<td>a</td><td>none</td>", "<td>b</td><td>yes, no</td>", "<td>c</td><td>d 1.5"):
        assert cells in text
    assert "<code>oatkit demo</code>" in text
    assert "<pre" not in how_made([""], {})


def test_files_are_stored_in_the_page(tmp_path: Path) -> None:
    (tmp_path / "v.mp4").write_bytes(b"film")
    assert 'src="data:video/mp4;base64,ZmlsbQ=="' in video(tmp_path / "v.mp4", "<b>caption</b>")
    assert lab(tmp_path) == ""
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/index.html").write_text('<p class="x">')
    assert 'srcdoc="&lt;p class=&quot;x&quot;&gt;"' in lab(tmp_path)
