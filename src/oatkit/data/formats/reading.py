"""How a format turns whatever a damaged or strange file raises into a `DatasetError`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oatkit.errors import DatasetError, OatkitError


@contextmanager
def reading(path: Path, what: str = "") -> Iterator[None]:
    """Name the file in any error raised while it is read.

    The libraries behind the formats raise all sorts of exceptions on malformed input, so all are
    caught; the original stays attached for `--debug`.

    Args:
        path: The file or folder being read.
        what: Which part of it, for the message.
    """
    try:
        yield
    except OatkitError:
        raise
    except FileNotFoundError as error:
        raise DatasetError(f"{error.filename or path} does not exist") from error
    except KeyError as error:
        raise DatasetError(f"{path} has no {_first_line(error)}{_part(what)}") from error
    except Exception as error:
        raise DatasetError(
            f"{path} cannot be read{_part(what)} ({type(error).__name__}: {_first_line(error)}): "
            "it is truncated, damaged or not of this format"
        ) from error


def _part(what: str) -> str:
    return f" ({what})" if what else ""


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["no message"])[0][:200]
