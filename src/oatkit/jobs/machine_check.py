"""What works on this machine, found by trying it, and the line that mends what does not."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from oatkit.envs.libero import PIP_NAMES, assets_folder
from oatkit.envs.simulator_table import SIMULATORS
from oatkit.errors import OatkitError

SIMULATOR_OF = {kind.extra: kind for kind in SIMULATORS.values()}
EXTRAS: dict[str, tuple[str, ...]] = {
    "data": ("h5py", "zarr", "av", "pillow", "google-crc32c"),
    **{extra: kind.packages for extra, kind in SIMULATOR_OF.items()},
    "libero": (*SIMULATOR_OF["libero"].packages, "bddl"),
    "praxis": ("praxis-eval",),
    "vlm": ("transformers", "peft"),
    "report": ("matplotlib",),
    "onnx": ("onnx", "onnxruntime"),
    "lab": ("starlette", "uvicorn", "pillow"),
    "rerun": ("rerun-sdk", "pillow"),
    "slurm": ("submitit",),
    "ray": ("ray",),
    "serve": ("oatkit-client", "websockets", "msgpack", "prometheus_client"),
}
ROBOSUITES = tuple(extra for extra, kind in SIMULATOR_OF.items() if "robosuite" in kind.works_with)
"""Extras that need a robosuite each of its own, so that an environment has one of them."""
RENDER = """
import mujoco
model = mujoco.MjModel.from_xml_string(
    "<mujoco><worldbody><light pos='0 0 3'/><geom size='.2'/></worldbody></mujoco>"
)
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = mujoco.Renderer(model, 32, 32)
renderer.update_scene(data)
assert renderer.render().max() > 0
"""
WITHOUT_TORCH = "what works without it: policy eval --remote, data make, launch, merge"
RENDER_PACKAGES = "libegl1 libegl-mesa0 libgl1-mesa-dri libosmesa6"


@dataclass(frozen=True)
class Diagnosis:
    """One thing that was tried.

    Attributes:
        what: Name of it.
        detail: What was found.
        remedy: Line that mends it; empty when it works.
    """

    what: str
    detail: str
    remedy: str = ""


def diagnose() -> Iterator[Diagnosis]:
    """Try everything that a user may need, one thing after the other."""
    yield Diagnosis("python", f"{platform.python_version()} on {platform.machine()}")
    yield _torch()
    elsewhere = _needing_another_robosuite()
    for extra, packages in EXTRAS.items():
        if extra not in elsewhere:
            yield _extra(extra, packages, elsewhere)
    if "libero" not in elsewhere and _versions(["hf-libero"]):
        yield _libero_assets()
    yield _attempted("video AV1", lambda: _video_round_trip("av1"), "pip install 'oatkit[data]'")
    yield _attempted("video h264", lambda: _video_round_trip("h264"), "pip install 'oatkit[data]'")
    yield _rendering()


def _torch() -> Diagnosis:
    try:
        import torch
    except ImportError as error:
        found = "not installed" if isinstance(error, ModuleNotFoundError) else str(error)
        return Diagnosis("torch", f"{found}; {WITHOUT_TORCH}", "pip install torch")
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return Diagnosis("torch", f"{torch.__version__}, {torch.get_num_threads()} threads, {device}")


def _extra(extra: str, packages: Sequence[str], elsewhere: Collection[str]) -> Diagnosis:
    found = _versions(packages)
    missing = [package for package in packages if package not in found]
    misfits = SIMULATOR_OF[extra].misfits(found) if extra in SIMULATOR_OF else ""
    versions = [misfits] if misfits else [f"{name} {number}" for name, number in found.items()]
    detail = ", ".join([*versions, *(f"no {package}" for package in missing)])
    remedy = ""
    if missing == ["bddl"] and not misfits:  # its environment may have been made without torch
        remedy = f"pip install {PIP_NAMES['bddl']}"
    elif missing or misfits:
        remedy = f"pip install 'oatkit[{extra}]'"
    if extra in ROBOSUITES:
        detail += "".join(f"; the extra {other} needs another environment" for other in elsewhere)
        remedy += "  # in an environment of its own" if remedy and not elsewhere else ""
    return Diagnosis(f"extra {extra}", detail, remedy)


def _versions(packages: Sequence[str]) -> dict[str, str]:
    """Those of the packages that are installed, each with its version."""
    found = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _needing_another_robosuite() -> set[str]:
    """Extras that the installed robosuite is not for, where it is the one of another extra."""
    found = _versions(["robosuite"])
    unfit = {extra for extra in ROBOSUITES if SIMULATOR_OF[extra].misfits(found)}
    return unfit if len(unfit) < len(ROBOSUITES) else set()


def _libero_assets() -> Diagnosis:
    try:
        return Diagnosis("LIBERO's assets", str(assets_folder()))
    except OatkitError as error:
        found, _, remedy = str(error).rpartition(": ")
        return Diagnosis("LIBERO's assets", found, remedy)


def _attempted(what: str, attempt: Callable[[], str], remedy: str) -> Diagnosis:
    try:
        return Diagnosis(what, attempt())
    except Exception as error:  # noqa: BLE001  any failure is the answer we are after
        return Diagnosis(what, f"{type(error).__name__}: {error}", remedy)


def _video_round_trip(codec: str) -> str:
    from oatkit.data.video import VideoWriter, read_frames

    shades = np.array([40, 120, 200])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "try.mp4"
        with VideoWriter(path, fps=10, height=64, width=64, codec=codec) as video:
            for shade in shades:
                video.add(np.full((64, 64, 3), shade, np.uint8))
        frames = read_frames(path, [0.2, 0.0, 0.1], fps=10)
    error = np.abs(frames.mean(axis=(1, 2, 3)) - shades[[2, 0, 1]]).max()
    if error > 8:
        raise ValueError(f"frames came back off by {error:.0f} of 255")
    return "encodes and decodes"


def _rendering() -> Diagnosis:
    chosen = os.environ.get("MUJOCO_GL")
    remedies = f"apt-get install {RENDER_PACKAGES}"
    failures = []
    for backend in (chosen,) if chosen else ("egl", "osmesa"):
        tried = subprocess.run(
            [sys.executable, "-c", RENDER],
            env=os.environ | {"MUJOCO_GL": backend},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if tried.returncode == 0:
            return Diagnosis("MuJoCo rendering", f"works with MUJOCO_GL={backend}")
        last_line = (tried.stderr.strip().splitlines() or ["no message"])[-1]
        failures.append(f"{backend}: {last_line}")
    if any("No module named 'mujoco'" in failure for failure in failures):
        remedies = "pip install 'oatkit[metaworld]'"
    return Diagnosis("MuJoCo rendering", "; ".join(failures), remedies)
