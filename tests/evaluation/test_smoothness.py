from __future__ import annotations

import numpy as np
import pytest

from oatkit.evaluation.smoothness import mean_jumps


def test_jumps_at_seams_and_elsewhere() -> None:
    actions_NA = np.array([[0, 0], [3, 4], [3, 4], [9, 12]], np.float32)
    seam, inner = mean_jumps(actions_NA, [True, False, False, True], 1.0)
    assert seam == pytest.approx(np.sqrt((36 + 64) / 2))
    assert inner == pytest.approx(np.sqrt((9 + 16) / 2) / 2)
    halved, _ = mean_jumps(actions_NA, [True, False, False, True], np.array([2.0, 2.0]))
    assert halved == pytest.approx(seam / 2)


def test_there_may_be_none() -> None:
    actions_NA = np.zeros((3, 2), np.float32)
    assert mean_jumps(actions_NA, [True] * 3, 1.0) == (0.0, None)
    assert mean_jumps(actions_NA, [True, False, False], 1.0) == (None, 0.0)
    assert mean_jumps(actions_NA[:1], [True], 1.0) == (None, None)
    assert mean_jumps(actions_NA[:0], [], 1.0) == (None, None)
