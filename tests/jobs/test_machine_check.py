"""What is tried on this machine, and the remedies."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from oatkit.envs.libero import ASSETS_VARIABLE
from oatkit.jobs import machine_check
from oatkit.jobs.machine_check import EXTRAS, Diagnosis, diagnose

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


def with_versions(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str]
) -> dict[str, Diagnosis]:
    """What is found of robosuite and LIBERO where these packages are installed."""

    def version(name: str) -> str:
        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    kept = {extra: EXTRAS[extra] for extra in ("robosuite", "libero")}
    monkeypatch.setattr(machine_check, "EXTRAS", kept)
    monkeypatch.setattr(machine_check, "version", version)
    monkeypatch.setattr(machine_check, "_video_round_trip", str)
    monkeypatch.setattr(machine_check, "_rendering", lambda: Diagnosis("rendering", "works"))
    return {diagnosis.what: diagnosis for diagnosis in diagnose()}


def test_a_version_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = with_versions(monkeypatch, {"robosuite": "1.5.2", "mujoco": "4.0.0"})["extra robosuite"]
    assert found.detail == (
        "mujoco is 4.0.0, expected 3.3; the extra libero needs another environment"
    )
    assert found.remedy == "pip install 'oatkit[robosuite]'"


LIBERO = {"hf-libero": "0.1.4", "robosuite": "1.4.0", "mujoco": "3.3.7", "bddl": "1.0.1"}


def test_the_installed_robosuite_decides_which_extra_is_told_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The remedy of one would replace the robosuite of the other."""
    monkeypatch.setenv(ASSETS_VARIABLE, str(tmp_path))
    found = with_versions(monkeypatch, LIBERO)
    assert "extra robosuite" not in found
    libero = found["extra libero"]
    assert libero.detail.startswith("hf-libero 0.1.4, robosuite 1.4.0, mujoco 3.3.7, bddl 1.0.1; ")
    assert libero.detail.endswith("; the extra robosuite needs another environment")
    assert libero.remedy == ""
    found = with_versions(monkeypatch, {**LIBERO, "robosuite": "1.5.2"})
    assert {"extra libero", "LIBERO's assets"}.isdisjoint(found)
    assert found["extra robosuite"].remedy == ""
    found = with_versions(monkeypatch, {"mujoco": "3.3.7", "robosuite": "1.3"})
    for extra in ("robosuite", "libero"):
        line = f"pip install 'oatkit[{extra}]'  # in an environment of its own"
        assert found[f"extra {extra}"].remedy == line


def test_what_libero_needs_beside_its_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(ASSETS_VARIABLE, str(tmp_path))
    without = {name: number for name, number in LIBERO.items() if name != "bddl"}
    found = with_versions(monkeypatch, without)
    assert ", no bddl" in found["extra libero"].detail
    assert found["extra libero"].remedy == "pip install bddl==1.0.1"
    assets = found["LIBERO's assets"]
    assert assets.detail == f"LIBERO's assets are not in {tmp_path}"
    assert assets.remedy.startswith("`hf download lerobot/libero-assets --repo-type dataset ")
    assert assets.remedy.endswith(f"{ASSETS_VARIABLE}=DIR says where they are")
    (tmp_path / "scenes").mkdir()
    assert with_versions(monkeypatch, LIBERO)["LIBERO's assets"].detail == str(tmp_path)
