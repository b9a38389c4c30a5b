"""What is tried on this machine, and the remedies."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from oatkit.jobs import machine_check
from oatkit.jobs.machine_check import EXTRAS, diagnose

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_every_extra_is_tried() -> None:
    (section,) = re.findall(
        r"\[project\.optional-dependencies\]\n(.*?)\n\[", PROJECT.read_text(), re.DOTALL
    )
    assert {*EXTRAS, "dev", "all"} == set(re.findall(r"^(\w+) = \[", section, re.MULTILINE))


def test_a_video_that_comes_back_wrong_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(codec: str) -> str:
        raise ValueError(f"frames of {codec} came back off by 9 of 255")

    monkeypatch.setattr(machine_check, "EXTRAS", {})
    monkeypatch.setattr(machine_check, "_video_round_trip", broken)
    found = {diagnosis.what: diagnosis for diagnosis in diagnose()}
    assert found["video h264"].detail == "ValueError: frames of h264 came back off by 9 of 255"
    assert found["video h264"].remedy == "pip install 'oatkit[data]'"
    assert found["python"].remedy == ""


def test_a_version_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_check, "EXTRAS", {"robosuite": ("robosuite", "mujoco")})
    versions = {"robosuite": "1.5.2", "mujoco": "4.0.0"}
    monkeypatch.setattr(machine_check, "version", versions.__getitem__)
    found = {diagnosis.what: diagnosis for diagnosis in diagnose()}["extra robosuite"]
    assert found.detail == "mujoco is 4.0.0, expected 3.3"
    assert found.remedy == "pip install 'oatkit[robosuite]'"
