"""Images of a small MuJoCo model."""

from __future__ import annotations

import numpy as np
import pytest

from oatkit.envs.mujoco_cameras import MujocoCameras, choose_graphics_library

SCENE = """
<mujoco><worldbody>
  <light pos="0 0 3"/>
  <geom size=".2" rgba="1 0 0 1" group="1"/>
  <geom size=".3" rgba="0 1 0 1" group="0" contype="0"/>
  <camera name="front" pos="0 -1 0" xyaxes="1 0 0 0 0 1"/>
</worldbody></mujoco>
"""


def test_cameras_show_what_is_not_hidden() -> None:
    choose_graphics_library()
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    seen = {}
    for hidden in ((), (0,)):
        cameras = MujocoCameras(model, {"front": (20, 30)}, hidden_groups=hidden)
        image = cameras.render(data)["front"]
        cameras.close()
        assert (image.shape, image.dtype) == ((20, 30, 3), np.uint8)
        seen[hidden] = image[10, 15].argmax()
    assert seen == {(): 1, (0,): 0}
    with pytest.raises(ValueError, match="make the simulator with cameras="):
        MujocoCameras(model, {}).render(data)
