"""`oatkit doctor`: what is missing, and how to get it."""

from __future__ import annotations

import pytest

from oatkit.jobs import machine_check
from tests.commands.running import run_command


def test_doctor_names_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_check, "EXTRAS", {"data": ("h5py",), "fancy": ("no-such-package",)})
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = run_command(["doctor"], capsys)
    assert code == 0
    assert "2.13.0" in out or "torch" in out
    assert "no no-such-package" in out
    assert "pip install 'oatkit[fancy]'" in out
    assert out.count("encodes and decodes") == 2
