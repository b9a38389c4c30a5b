from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import av
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


def one(reader: VideoReader, frame: int) -> float:
    (image,) = reader.frames_at([frame / FPS], tolerance_s=0.5 / FPS)
    return float(image.mean())


def test_a_jump_decodes_from_the_key_frame_and_nothing_more(clip: Path) -> None:
    """Key frames are two apart: an even frame is one, an odd one needs the one before it."""
    reader = VideoReader(clip)
    for frame, count in ((0, 1), (54, 1), (21, 2), (22, 1), (33, 2)):
        before = reader.num_decoded
        assert abs(one(reader, frame) - shades(NUM_FRAMES)[frame]) < 2
        assert reader.num_decoded - before <= count


def test_frames_of_one_call_are_decoded_once(clip: Path) -> None:
    reader = VideoReader(clip)
    images = list(reader.frames_at(np.arange(20) / FPS, tolerance_s=0.5 / FPS))
    assert reader.num_decoded == 20
    found = np.array([image.mean() for image in images])
    assert np.abs(found - shades(20)).max() < 2
    one(reader, 19)
    assert reader.num_decoded == 20, "it is still there"


@pytest.fixture(scope="module", params=[0, 3])
def long_clip(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video with one key frame, with frames that are stored in another order than shown or not:
    not what LeRobot writes, but what a camera may."""
    path = tmp_path_factory.mktemp("video") / "long.mp4"
    with av.open(str(path), "w") as container:
        options = {"g": "250", "crf": "10", "bf": str(request.param), "b_strategy": "0"}
        stream = container.add_stream("libx264", rate=FPS, options=options)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for shade in shades(NUM_FRAMES):
            image = np.full((32, 32, 3), shade, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    return path


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(calls=st.lists(st.lists(st.integers(0, NUM_FRAMES - 1), min_size=1), min_size=1, max_size=4))
def test_few_key_frames(long_clip: Path, calls: list[list[int]]) -> None:
    for frames in calls:
        found = read_frames(long_clip, np.array(frames) / FPS, fps=FPS).mean(axis=(1, 2, 3))
        assert np.abs(found - shades(NUM_FRAMES)[frames]).max() < 3


def test_reading_on_decodes_little_again(long_clip: Path) -> None:
    """A conversion reads so: some frames, then those that follow."""
    reader = VideoReader(long_clip)
    for start in range(0, NUM_FRAMES, 20):
        times = np.arange(start, start + 20) / FPS
        assert len(list(reader.frames_at(times, tolerance_s=0.5 / FPS))) == 20
    assert reader.num_decoded == NUM_FRAMES


def test_without_an_index_the_distance_of_key_frames_is_learned(
    clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyAV before version 17 has no index."""
    monkeypatch.setattr(VideoReader, "_has_index", False)
    reader = VideoReader(clip)
    for frame in (0, 3, 10, 20, 59, 6):
        assert abs(one(reader, frame) - shades(NUM_FRAMES)[frame]) < 2
    before = reader.num_decoded
    one(reader, 10)
    assert reader.num_decoded - before == 1


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists threads")
def test_a_reader_starts_no_threads(clip: Path) -> None:
    """On a machine with many cores dav1d would start as many, in each process of each GPU."""
    tasks = Path("/proc/self/task")
    before = len(list(tasks.iterdir()))
    one(VideoReader(clip), 7)
    assert len(list(tasks.iterdir())) == before


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
