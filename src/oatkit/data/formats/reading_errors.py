"""Turns whatever a damaged or strange file raises into a `DatasetError` that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oatkit.errors import DatasetError, OatkitError


@contextmanager
def errors_naming(path: Path, part: str = "") -> Iterator[None]:
    """Name the file in any error that is raised while it is read.

    The libraries behind the formats raise all sorts of exceptions on malformed input, so all are
    caught; the original stays attached for `--debug`.

    Args:
        path: File or folder that is read.
        part: Part of it that is read, for the message.
    """
    where = f" ({part})" if part else ""
    try:
        yield
    except OatkitError:
        raise
    except FileNotFoundError as error:
        raise DatasetError(f"{error.filename or path} does not exist") from error
    except KeyError as error:
        raise DatasetError(f"{path} has no {_first_line(error)}{where}") from error
    except Exception as error:
        raise DatasetError(
            f"{path} cannot be read{where} ({type(error).__name__}: {_first_line(error)}): "
            "it is truncated, damaged or not of this format"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["no message"])[0][:200]
