from __future__ import annotations

from pathlib import Path

import pytest

from oatkit.data.formats.reading_errors import errors_naming
from oatkit.errors import DatasetError, MissingExtraError

PATH = Path("some/file.bin")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("action"), "some/file.bin has no 'action' (row 3)"),
        (FileNotFoundError(2, "gone", "other.bin"), "other.bin does not exist"),
        (FileNotFoundError(), "some/file.bin does not exist"),
        (
            ValueError("bad\nsecond line"),
            "some/file.bin cannot be read (row 3) (ValueError: bad): it is truncated, damaged or "
            "not of this format",
        ),
        (
            RuntimeError(),
            "some/file.bin cannot be read (row 3) (RuntimeError: no message): it is truncated, "
            "damaged or not of this format",
        ),
    ],
)
def test_an_error_names_the_file_and_keeps_its_cause(error: Exception, message: str) -> None:
    with pytest.raises(DatasetError) as caught, errors_naming(PATH, "row 3"):
        raise error
    assert str(caught.value) == message
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [DatasetError("of our own"), MissingExtraError("data")])
def test_errors_of_oatkit_stay_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, errors_naming(PATH):
        raise error
    assert caught.value is error


def test_a_part_may_be_left_out() -> None:
    with pytest.raises(DatasetError, match=r"^some/file.bin has no 'x'$"), errors_naming(PATH):
        raise KeyError("x")
