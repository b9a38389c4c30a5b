"""`oatkit doctor`: what is missing, and how to get it."""

from __future__ import annotations

import subprocess
import sys

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


def test_doctor_says_what_works_without_torch() -> None:
    """As in the environments of simulators, which need none."""
    code = (
        "import sys\n"
        "class Without:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Without())\n"
        "from oatkit.cli import main\n"
        "sys.exit(main(['doctor']))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    (index,) = (index for index, line in enumerate(lines) if line.startswith("--  torch "))
    assert "not installed; what works without it: policy eval --remote, data make" in lines[index]
    assert lines[index + 1].strip() == "pip install torch"
