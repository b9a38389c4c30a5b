"""What works on this machine, found by trying it, and the line that mends what does not."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from oatkit.envs.simulator_table import SIMULATORS

SIMULATOR_OF = {kind.extra: kind for kind in SIMULATORS.values()}
EXTRAS: dict[str, tuple[str, ...]] = {
    "data": ("h5py", "zarr", "av", "pillow", "google-crc32c"),
    **{extra: kind.packages for extra, kind in SIMULATOR_OF.items()},
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
    for extra, packages in EXTRAS.items():
        yield _extra(extra, packages)
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


def _extra(extra: str, packages: tuple[str, ...]) -> Diagnosis:
    found, missing = {}, []
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            missing.append(package)
    misfits = SIMULATOR_OF[extra].misfits(found) if extra in SIMULATOR_OF else ""
    remedy = f"pip install 'oatkit[{extra}]'" if missing or misfits else ""
    versions = [misfits] if misfits else [f"{name} {number}" for name, number in found.items()]
    detail = ", ".join([*versions, *(f"no {package}" for package in missing)])
    return Diagnosis(f"extra {extra}", detail, remedy)


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
