"""Images of a small model of our own; those of whole simulators are tested with them."""

from __future__ import annotations

import numpy as np
import pytest

from oatkit.envs.mujoco_cameras import MujocoCameras, choose_graphics_library
from oatkit.errors import OatkitError

pytest.importorskip("mujoco", reason="needs the extra metaworld or robosuite")

BALL = """
<mujoco><worldbody>
  <light pos="0 0 3"/>
  <geom size=".3" group="3" rgba="1 0 0 1"/>
  <geom size=".2" pos="0 .6 0" group="1" rgba="0 1 0 1"/>
  <camera name="front" pos="3 0 0" xyaxes="0 1 0 0 0 1"/>
</worldbody></mujoco>
"""


def redness(hidden_groups: tuple[int, ...]) -> float:
    choose_graphics_library()
    import mujoco

    model = mujoco.MjModel.from_xml_string(BALL)
    model.geom_group[0] = 0
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    cameras = MujocoCameras(model, {"front": (32, 48)}, hidden_groups=hidden_groups)
    try:
        image_HWC = cameras.render(data)["front"].astype(int)
    except OatkitError as error:
        pytest.skip(str(error))
    finally:
        cameras.close()
    assert image_HWC.shape == (32, 48, 3)
    return float((image_HWC[..., 0] - image_HWC[..., 1]).max())


def test_groups_can_be_hidden() -> None:
    assert redness(()) > 50
    assert redness((0,)) < 20


def test_no_camera_is_an_error() -> None:
    with pytest.raises(ValueError, match="to render, make the simulator with cameras="):
        MujocoCameras(None, {}).render(np.zeros(0))
