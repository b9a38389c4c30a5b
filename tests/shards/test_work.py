"""Every work of the table obeys the protocol; see the tests of each in `tests/jobs`."""

from __future__ import annotations

from typing import get_type_hints

from oatkit.shards import Work
from tests.shards.toy_work import Squares


def test_the_protocol_is_small() -> None:
    assert set(get_type_hints(Work)) == {"name", "settings", "facts"}
    work: Work = Squares()
    assert all(hasattr(work, name) for name in ("name", "settings", "facts", "units", "run"))
