"""The exceptions users meet, and how a wrong name is answered.

    OatkitError
    ├── DatasetError        a dataset is broken, unreadable or not what was asked for
    ├── ArtifactError       a saved tokenizer or policy is broken or not what was asked for
    ├── TrainingError       a run that cannot go on
    │   └── DivergedError   a run whose loss is not finite, which all its processes see
    ├── ShardError          records of shards that are missing, or of different runs
    ├── DecodeError         tokens that are no whole chunk (`fast`, strict decoding)
    ├── RemoteError         a policy server that cannot be asked, or is not what it was
    └── MissingExtraError   an optional package is not installed (also an ImportError)

Wrong arguments are plain `ValueError`s. The command line prints any of these as one
sentence and exits with 2.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from pathlib import Path


class OatkitError(Exception):
    """Anything oatkit refuses to do, with a message made for the user."""


class DatasetError(OatkitError):
    """A dataset that cannot be read; the message names file, episode and frame where known."""


class ArtifactError(OatkitError):
    """A saved tokenizer or policy that cannot be used; the message names its folder."""


class TrainingError(OatkitError):
    """A run that cannot go on; the message names the step and the last good checkpoint."""


class DivergedError(TrainingError):
    """A run whose loss is not finite; all processes of a launcher raise it together."""


class ShardError(OatkitError):
    """Records of shards that cannot be joined; the message names what is missing or different."""


class DecodeError(OatkitError):
    """Tokens that do not decode; only `fast` has such, and only under strict decoding."""


class RemoteError(OatkitError):
    """A policy server that cannot be asked or gives no chunk; the message names its address."""


class MissingExtraError(OatkitError, ImportError):
    """An optional package is missing; the message holds the line that installs it.

    Args:
        extra: Extra of oatkit that installs it.
        package: What pip calls it, where an environment may hold some packages of the extra alone.
    """

    def __init__(self, extra: str, package: str = "") -> None:
        self.extra, self.package = extra, package
        line = f"pip install 'oatkit[{extra}]'"
        message = f"this needs optional packages: {line}"
        if package:
            message = (
                f"this needs {package}, which is not installed: pip install {package}, or "
                f"everything at once: {line}"
            )
        super().__init__(message)

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        return type(self), (self.extra, self.package)


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """The message for a `name` that is not among `known`: the closest ones come first."""
    names = sorted(known)
    if not names:
        return f"unknown {kind} {name!r}: there are none"
    ratio = {n: difflib.SequenceMatcher(None, name.lower(), n.lower()).ratio() for n in names}
    closest = sorted(names, key=lambda n: -ratio[n])
    shown = closest[:8]
    rest = f" and {len(closest) - len(shown)} more" if len(closest) > len(shown) else ""
    return f"unknown {kind} {name!r}; known, closest first: {', '.join(shown)}{rest}"


def similar_path(path: str | os.PathLike[str]) -> str:
    """The end of the message for a path that does not exist: which one may have been meant.

    Empty where the folder it would be in has nothing of a similar name.
    """
    missing = Path(path)
    names = [found.name for found in missing.parent.iterdir()] if missing.parent.is_dir() else []
    closest = difflib.get_close_matches(missing.name, names, n=1)
    return f": did you mean {missing.with_name(closest[0])}?" if closest else ""
