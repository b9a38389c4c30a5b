"""Images of a MuJoCo model's cameras, also on a machine without a display.

    choose_graphics_library()  # before anything imports mujoco, if possible
    cameras = MujocoCameras(model, {"corner2": (480, 480)}, shadows=False)
    images = cameras.render(data)  # {"corner2": ...}

Shape letters: H W C image.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
import weakref
from collections.abc import Collection
from ctypes.util import find_library
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.envs.simulator import Cameras, ImageSize, require_cameras
from oatkit.errors import OatkitError


class MujocoCameras:
    """Renders the named cameras of a model; graphics contexts are made with the first image.

    Args:
        model: MuJoCo's model.
        cameras: Cameras of the model to render, each with height and width.
        shadows: Whether images have shadows, which take about three times as long on a CPU.
        reflections: Whether surfaces reflect, which takes about twice as long.
        hidden_groups: Groups of geoms that images do not show, such as collision shapes.
    """

    def __init__(
        self,
        model: Any,
        cameras: Cameras,
        *,
        shadows: bool = True,
        reflections: bool = True,
        hidden_groups: Collection[int] = (),
    ) -> None:
        self._model = model
        self._cameras = cameras
        self._shadows = shadows
        self._reflections = reflections
        self._hidden_groups = hidden_groups
        self._renderers: dict[ImageSize, Any] = {}

    def render(self, data: Any) -> dict[str, NDArray[np.uint8]]:
        """Camera to image, (H, W, 3) RGB, of MuJoCo's data as they are now."""
        require_cameras(self._cameras)
        return {name: self._render(data, name, size) for name, size in self._cameras.items()}

    def close(self) -> None:
        """Free the graphics contexts."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()

    def _render(self, data: Any, camera: str, size: ImageSize) -> NDArray[np.uint8]:
        import mujoco

        if size not in self._renderers:
            self._renderers[size] = self._make_renderer(size)
        renderer, option = self._renderers[size], mujoco.MjvOption()
        for group in self._hidden_groups:
            option.geomgroup[group] = 0
        renderer.update_scene(data, camera, option)
        image_HWC: NDArray[np.uint8] = renderer.render()
        return image_HWC

    def _make_renderer(self, size: ImageSize) -> Any:
        import mujoco

        renderer = _open_renderer(self._model, size)
        flags = mujoco.mjtRndFlag
        if not self._shadows:
            renderer.scene.flags[flags.mjRND_SHADOW] = 0
        if not self._reflections:
            renderer.scene.flags[flags.mjRND_REFLECTION] = 0
        return renderer


def choose_graphics_library() -> None:
    """Let MuJoCo render without a display, also where it was imported before."""
    has_display = "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    if sys.platform != "linux" or has_display or "MUJOCO_GL" in os.environ:
        return
    for name, library in (("egl", "EGL"), ("osmesa", "OSMesa")):
        if find_library(library):
            os.environ["MUJOCO_GL"] = name
            # It reads the variable once, when first imported.
            if chosen := sys.modules.get("mujoco.gl_context"):
                importlib.reload(chosen)
            return


def _open_renderer(model: Any, size: ImageSize) -> Any:
    import mujoco

    height, width = size
    frame = model.vis.global_
    frame.offheight, frame.offwidth = max(frame.offheight, height), max(frame.offwidth, width)
    try:
        renderer = mujoco.Renderer(model, height, width)
    except (mujoco.FatalError, AttributeError, RuntimeError) as error:
        raise OatkitError(
            f"MuJoCo cannot render here (MUJOCO_GL={os.environ.get('MUJOCO_GL', '')}): {error}; "
            "on a machine without a display set MUJOCO_GL=egl (apt-get install libegl1) or "
            "MUJOCO_GL=osmesa (apt-get install libosmesa6)"
        ) from error
    # After MuJoCo's own, so before it: a context that outlives the display ends with a traceback.
    atexit.register(_close_if_alive, weakref.ref(renderer))
    return renderer


def _close_if_alive(renderer: weakref.ref[Any]) -> None:
    alive = renderer()
    if alive is not None:
        alive.close()
