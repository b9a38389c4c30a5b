"""The bar: what it shows, where, and that it can be left out."""

from __future__ import annotations

import io
import sys
import types

import pytest
from rich.console import Console

from oatkit.train.progress_bar import TrainingProgress, two_digits

PARTS = {"loss@1": 0.5, "loss@2": 0.25, "loss@4": 0.125, "loss@8": 0.0625, "loss@16": 0.03125}


def shown(parts: dict[str, float], *, is_shown: bool = True, waiting: float = 0.0) -> str:
    """What a terminal of 80 columns shows at the end."""
    file = io.StringIO()
    progress = TrainingProgress(2000, 500, is_shown=is_shown, console=Console(file=file, width=80))
    with progress.shown():
        progress.advance(1500)
        progress.update(0.0123456, 23456.7, parts, waiting)
        progress.report(1500, {"mse@8": 0.0042})
    return file.getvalue()


def test_loss_speed_and_parts_fit_into_80_columns() -> None:
    before, above, line, below = shown(PARTS).splitlines()
    assert before == "going on after step 500"
    assert above == "step 1,500, held out:  mse@8 0.0042"
    assert line.startswith("1,500/2,000 steps ━")
    assert "loss 0.01235  23,457 samples/s" in line
    assert (
        below.strip()
        == "training: loss@1 0.5  loss@2 0.25  loss@4 0.125  loss@8 0.0625  loss@16 0.0312"
    )


def test_waiting_for_data_is_shown_where_it_is_much() -> None:
    *_, line, _ = shown(PARTS, waiting=0.62).splitlines()
    assert "loss 0.01235  23,457 samples/s  62 % waiting" in line
    assert "waiting" not in shown(PARTS, waiting=0.04)


def test_a_caution_is_printed_once() -> None:
    file = io.StringIO()
    progress = TrainingProgress(10, console=Console(file=file, width=80))
    for _ in range(2):
        progress.caution("a long text " + 20 * "that is not broken ")
    assert file.getvalue().splitlines() == ["note: a long text " + 20 * "that is not broken "]


def test_a_single_part_is_the_loss_and_not_repeated() -> None:
    assert "token_loss" not in shown({"token_loss": 0.0123456})


def test_what_is_printed_next_begins_on_a_line_of_its_own() -> None:
    assert shown(PARTS).endswith("0.0312\n")
    file = io.StringIO()
    progress = TrainingProgress(10, console=Console(file=file, width=80))
    with pytest.raises(KeyboardInterrupt), progress.shown():
        raise KeyboardInterrupt
    assert file.getvalue().endswith("\n")


def test_a_run_that_has_ended_says_so_and_shows_no_bar() -> None:
    file = io.StringIO()
    progress = TrainingProgress(2000, 2000, console=Console(file=file, width=80))
    with progress.shown():
        pass
    assert file.getvalue() == "all 2,000 steps were done before\n"


def test_nothing_is_shown_unless_asked() -> None:
    assert shown(PARTS, is_shown=False) == ""


def test_a_notebook_shows_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins for the packages of a notebook, which rich draws by."""
    shown: list[object] = []

    class Output:
        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> None: ...

        def clear_output(self, **_: object) -> None: ...

    display = types.ModuleType("IPython.display")
    display.display = shown.append  # type: ignore[attr-defined]
    widgets = types.ModuleType("ipywidgets")
    widgets.Output = Output  # type: ignore[attr-defined]
    notebook = types.ModuleType("IPython")
    notebook.display = display  # type: ignore[attr-defined]
    for module in (notebook, display, widgets):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    console = Console(stderr=True, force_jupyter=True, width=80)
    progress = TrainingProgress(20, console=console)
    with progress.shown():
        progress.advance(20)
        progress.update(0.5, 12.0, {})
    assert any(isinstance(item, Output) for item in shown)
    texts = [item.text for item in shown if hasattr(item, "text")]
    assert any("20/20 steps" in text and "loss 0.5" in text for text in texts)


@pytest.mark.parametrize(("seconds", "said"), [(59.0, ""), (840.0, "about 14 minutes\n")])
def test_how_long_it_takes_is_said_once(seconds: float, said: str) -> None:
    file = io.StringIO()
    progress = TrainingProgress(2000, console=Console(file=file))
    for left in (seconds, 2 * seconds):
        progress.announce(left)
    assert file.getvalue() == said
    TrainingProgress(2000, is_shown=False, console=Console(file=file)).announce(seconds)
    assert file.getvalue() == said


def test_two_digits_of_a_number_count_and_none_is_a_power_of_ten() -> None:
    numbers = (0.01234, 0.5, 2.71, 27.1, 99.6, 118.3, 1234)
    assert [two_digits(n) for n in numbers] == ["0.012", "0.5", "2.7", "27", "100", "120", "1200"]
