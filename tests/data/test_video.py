from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oatkit.data import video
from oatkit.data.video import VideoReader, VideoWriter, concatenate_videos, read_frames

FPS = 10
NUM_FRAMES = 60


def shades(count: int) -> NDArray[np.uint8]:
    return (10 + 4 * np.arange(count)).astype(np.uint8)


def write(path: Path, values: NDArray[np.uint8], codec: str) -> Path:
    with VideoWriter(path, fps=FPS, height=32, width=32, codec=codec) as writer:
        for shade in values:
            writer.add(np.full((32, 32, 3), shade, np.uint8))
    return path


@pytest.fixture(scope="module", params=["av1", "h264"])
def clip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    return write(path, shades(NUM_FRAMES), request.param)


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(frames=st.lists(st.integers(0, NUM_FRAMES - 1), min_size=1, max_size=12))
def test_any_frames_in_any_order(clip: Path, frames: list[int]) -> None:
    images = read_frames(clip, np.array(frames) / FPS, fps=FPS)
    found = images.mean(axis=(1, 2, 3))
    assert np.abs(found - shades(NUM_FRAMES)[frames]).max() < 2


def test_a_jump_seeks_instead_of_decoding_everything(clip: Path) -> None:
    reader = VideoReader(clip)
    reader.frame_at(0.0, tolerance_s=0.05)
    decoded = 0
    real = reader._container.decode

    def counting(stream: object):
        nonlocal decoded
        for frame in real(stream):
            decoded += 1
            yield frame

    class Counting:
        """The container, counting what leaves its decoder."""

        seek = reader._container.seek
        decode = staticmethod(counting)

    reader._container = Counting()
    reader.frame_at(5.5, tolerance_s=0.05)
    assert decoded <= 3, "key frames are two apart"


def test_joined_videos_keep_every_frame_at_its_time(tmp_path: Path) -> None:
    values = shades(30)
    paths = [
        write(tmp_path / f"{i}.mp4", part, "av1")
        for i, part in enumerate((values[:7], values[7:8], values[8:]))
    ]
    concatenate_videos(paths, tmp_path / "all.mp4", num_frames=[7, 1, 22])
    images = read_frames(tmp_path / "all.mp4", np.arange(30) / FPS, fps=FPS)
    assert np.abs(images.mean(axis=(1, 2, 3)) - values).max() < 2


def test_few_files_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(video, "MAX_OPEN_VIDEOS", 2)
    video._open_videos.readers.clear()
    for i in range(4):
        path = write(tmp_path / f"{i}.mp4", shades(3) + i, "h264")
        read_frames(path, [0.1], fps=FPS)
    assert [key[0].name for key in video._open_videos.readers] == ["2.mp4", "3.mp4"]


def test_a_rewritten_file_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mp4", shades(3), "h264")
    before = read_frames(path, [0.0], fps=FPS).mean()
    write(path, shades(4) + 100, "h264")
    assert read_frames(path, [0.0], fps=FPS).mean() - before > 90


def test_a_frame_of_another_size(tmp_path: Path) -> None:
    writer = VideoWriter(tmp_path / "a.mp4", fps=FPS, height=32, width=32)
    with pytest.raises(ValueError, match=r"uint8 \(16, 32, 3\), expected uint8 \(32, 32, 3\)"):
        writer.add(np.zeros((16, 32, 3), np.uint8))


@pytest.mark.parametrize("codec", ["av1", "h264"])
def test_a_forked_child_reads_after_its_parent_did(codec: str, tmp_path: Path) -> None:
    """As a data loader's worker does; an inherited decoder would wait forever."""
    path = write(tmp_path / "a.mp4", shades(20), codec)
    code = (
        "import os, sys, signal\n"
        "from pathlib import Path\n"
        "from oatkit.data.video import read_frames\n"
        "path = Path(sys.argv[1])\n"
        "read_frames(path, [0.1], fps=10)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    signal.alarm(20)\n"
        "    print(round(read_frames(path, [1.2, 0.3], fps=10)[0].mean()))\n"
        "    sys.stdout.flush(); os._exit(0)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert abs(int(ran.stdout) - int(shades(20)[12])) <= 2


@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="only Linux has schedulers")
def test_encoding_leaves_the_priority_of_its_thread(tmp_path: Path) -> None:
    """SVT-AV1 run by root would make the thread a real-time one, which starves all others."""
    before = os.sched_getscheduler(0)
    with VideoWriter(tmp_path / "a.mp4", fps=FPS, height=32, width=32) as writer:
        writer.add(np.zeros((32, 32, 3), np.uint8))
        assert os.sched_getscheduler(0) == before
    assert os.sched_getscheduler(0) == before
