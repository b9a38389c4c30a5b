"""Parts of Markdown pages."""

from __future__ import annotations

from benchmarks.markdown import WIDTH, paragraph, recipes, said, section, table


def test_a_table_keeps_empty_cells() -> None:
    assert table(("a", "b", "c"), [("1", "", "3")]) == "| a | b | c |\n|---|---|---|\n| 1 | | 3 |"


def test_a_paragraph_has_short_lines_and_all_words() -> None:
    words = [f"word-{number}" for number in range(60)]
    text = paragraph(" ".join(words[:30]), " ".join(words[30:]))
    assert text.split() == words
    assert max(map(len, text.splitlines())) <= WIDTH


def test_a_setting_of_rows_is_said_once_or_every_value_of_it() -> None:
    rows = [{"settings": {"steps": steps, "preset": "small"}} for steps in (500, 2500, 500)]
    assert said(rows, "preset") == "small"
    assert said(rows, "steps") == "500 or 2500"


def test_a_section_ends_with_its_script_and_has_no_empty_parts() -> None:
    assert section("Title", "text", "", script="fast_speed") == (
        "## Title\n\ntext\n\n(`benchmarks/fast_speed.py`)\n"
    )


def test_recipes_of_rows_are_said_once_each() -> None:
    first = {"history": 2, "code_smoothing": 0.0, "offset_layers": 0, "tokenizer_steps": 2000}
    later = {"history": 1, "code_smoothing": 1.0, "offset_layers": 3, "tokenizer_steps": 0}
    assert recipes({"oat": first, "bin": later, "quest": first}) == (
        "How rows were trained, whatever their preset is today: 2 frames, code smoothing 0, no "
        "offset head, tokenizer of 2000 steps (`oat`, `quest`); 1 frame, code smoothing 1, an "
        "offset head of 3 layers (`bin`)."
    )
