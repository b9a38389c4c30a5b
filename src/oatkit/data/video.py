"""Reads single frames of an mp4 by their time, without decoding all of it, and writes mp4 files.

This is the only file that imports PyAV.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.errors import DatasetError, MissingExtraError

try:
    import av
except ImportError as error:
    raise MissingExtraError("data") from error

os.environ.setdefault("SVT_LOG", "1")  # the AV1 encoder prints its settings otherwise

MAX_OPEN_VIDEOS = 8
MAX_FRAMES_TO_DECODE_FORWARD = 32
"""Frames ahead up to which decoding goes on; a target further away is sought from a key frame."""

ENCODERS = {"av1": "libsvtav1", "h264": "libx264"}


class VideoReader:
    """One open mp4, addressed by time.

    Keeps its place: frames asked in order are decoded once, a jump seeks the key frame before
    the target and decodes from there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _errors_name(path):
            self._container = av.open(str(path))
            if not self._container.streams.video:
                raise DatasetError(f"{path} holds no video stream")
            self._stream = self._container.streams.video[0]
        self._stream.thread_type = "NONE"
        self._decoder: Iterator[Any] = iter(())
        self._last_s: float | None = None
        self._last_frame: Any = None

    def frame_at(self, time_s: float, *, tolerance_s: float) -> NDArray[np.uint8]:
        """The frame shown at `time_s`, (height, width, 3) RGB.

        A file that has no frame within `tolerance_s` of it is a `DatasetError`.
        """
        with _errors_name(self.path, f"at {time_s:.3f} s"):
            if self._needs_seek(time_s, tolerance_s):
                self._seek(time_s)
            while self._last_s is None or self._last_s < time_s - tolerance_s:
                frame = next(self._decoder, None)
                if frame is None:
                    end = "no frame" if self._last_s is None else f"{self._last_s:.3f} s"
                    self._last_s = None
                    raise DatasetError(
                        f"{self.path} ends at {end} but the dataset asks for {time_s:.3f} s: "
                        "the file is truncated or belongs to another dataset"
                    )
                self._last_frame, self._last_s = frame, float(frame.pts * self._stream.time_base)
            if self._last_s > time_s + tolerance_s:
                raise DatasetError(
                    f"{self.path} has no frame within {tolerance_s:.4f} s of {time_s:.3f} s; "
                    f"the nearest is at {self._last_s:.3f} s: do the fps of video and data agree?"
                )
            rgb: NDArray[np.uint8] = self._last_frame.to_ndarray(format="rgb24")
        return rgb

    def _needs_seek(self, time_s: float, tolerance_s: float) -> bool:
        if self._last_s is None or self._last_s > time_s + tolerance_s:
            return True
        return time_s - self._last_s > 2 * tolerance_s * MAX_FRAMES_TO_DECODE_FORWARD

    def _seek(self, time_s: float) -> None:
        target = max(0, int(time_s / self._stream.time_base))
        self._container.seek(target, stream=self._stream, backward=True)
        self._decoder = self._container.decode(self._stream)
        self._last_s = None

    def close(self) -> None:
        self._container.close()


class _OpenVideos(threading.local):
    """A few readers per thread, most recently used last. Decoders are not shared by threads."""

    def __init__(self) -> None:
        self.readers: OrderedDict[tuple[Path, int, int], VideoReader] = OrderedDict()


_open_videos = _OpenVideos()
_abandoned: list[VideoReader] = []


def _forget_readers_of_parent() -> None:
    """After a fork: inherited decoders wait for threads that do not exist in the child."""
    _abandoned.extend(_open_videos.readers.values())  # closing them would wait too
    _open_videos.readers = OrderedDict()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_readers_of_parent)


def read_frames(
    path: Path, times_s: Sequence[float] | NDArray[np.float64], *, fps: float
) -> NDArray[np.uint8]:
    """The frames shown at `times_s`, (frames, height, width, 3), in the order asked.

    Args:
        path: An mp4 file.
        times_s: Seconds from the start of the file.
        fps: Nominal frames a second; a frame may lie half a period from the asked time.
    """
    reader = _reader(path)
    order = np.argsort(times_s, kind="stable")
    frames: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)] * len(order)
    for i in order:
        frames[i] = reader.frame_at(float(times_s[i]), tolerance_s=0.5 / fps)
    return np.stack(frames)


def _reader(path: Path) -> VideoReader:
    try:
        stat = path.stat()
    except OSError as error:
        raise DatasetError(f"the video {path} cannot be read: {error.strerror}") from error
    key = (path, stat.st_mtime_ns, stat.st_size)
    readers = _open_videos.readers
    if key not in readers:
        readers[key] = VideoReader(path)
        if len(readers) > MAX_OPEN_VIDEOS:
            readers.popitem(last=False)[1].close()
    readers.move_to_end(key)
    return readers[key]


class VideoWriter:
    """Encodes frames to an mp4 as LeRobot does: AV1, a key frame every second frame, crf 30.

    Args:
        path: File to write.
        fps: Frames a second.
        height: Height of every frame in pixels.
        width: Width of every frame in pixels.
        codec: "av1", or "h264" for viewers without AV1.
    """

    def __init__(
        self, path: Path, *, fps: int, height: int, width: int, codec: str = "av1"
    ) -> None:
        self._shape = (height, width, 3)
        self._container = av.open(str(path), "w", format="mp4")
        options = {"g": "2", "crf": "30"}
        if codec == "av1":  # one thread: the caller decides what runs in parallel
            options["svtav1-params"] = "lp=1"
        stream = self._container.add_stream(ENCODERS[codec], rate=fps, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        with _unchanged_priority():
            stream.codec_context.open()
        self._stream: Any = stream

    def add(self, frame_HWC: NDArray[np.uint8]) -> None:
        """Append one RGB frame, (height, width, 3) uint8."""
        if frame_HWC.shape != self._shape or frame_HWC.dtype != np.uint8:
            raise ValueError(
                f"a frame is {frame_HWC.dtype} {frame_HWC.shape}, expected uint8 {self._shape}"
            )
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(frame_HWC), format="rgb24")
        self._container.mux(self._stream.encode(frame))

    def close(self) -> None:
        """Finish the file; frames still in the encoder are written."""
        self._container.mux(self._stream.encode())
        self._container.close()

    def __enter__(self) -> VideoWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._container.close()


@contextmanager
def _unchanged_priority() -> Iterator[None]:
    """Take back the real-time priority that SVT-AV1 gives the calling thread where it may, as for
    root; the thread would never again let others run."""
    if not hasattr(os, "sched_getscheduler"):  # only Linux has it
        yield
        return
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    yield
    if os.sched_getscheduler(0) != policy:
        os.sched_setscheduler(0, policy, priority)


def concatenate_videos(paths: Sequence[Path], out: Path, *, num_frames: Sequence[int]) -> None:
    """Join mp4 files of one codec and size without encoding them again.

    Args:
        paths: Files to join, in order.
        out: File to write.
        num_frames: Number of frames of each file.
    """
    with av.open(str(out), "w", format="mp4", options={"movflags": "faststart"}) as container:
        stream: Any = None
        start = 0
        for path, count in zip(paths, num_frames, strict=True):
            with _errors_name(path), av.open(str(path)) as episode:
                source = episode.streams.video[0]
                if stream is None:
                    stream = container.add_stream_from_template(source, opaque=True)
                    stream.time_base = source.time_base
                for packet in episode.demux(source):
                    if packet.dts is None:
                        continue
                    packet.pts += start
                    packet.dts += start
                    packet.stream = stream
                    container.mux(packet)
                start += round(count / Fraction(source.average_rate) / source.time_base)


def describe_video(path: Path) -> dict[str, object]:
    """What LeRobot's `info.json` says of a video."""
    with _errors_name(path), av.open(str(path)) as container:
        stream = container.streams.video[0]
        return {
            "video.height": stream.height,
            "video.width": stream.width,
            "video.codec": stream.codec.canonical_name,
            "video.pix_fmt": stream.pix_fmt,
            "video.is_depth_map": False,
            "video.fps": round(stream.average_rate),
            "video.channels": 3,
            "has_audio": bool(container.streams.audio),
        }


@contextmanager
def _errors_name(path: Path, where: str = "") -> Iterator[None]:
    """Turn a decoder's error into one that names the file."""
    try:
        yield
    except (av.FFmpegError, EOFError) as error:
        raise DatasetError(
            f"the video {path} cannot be read{' ' + where if where else ''} ({error}): "
            "it is truncated or damaged"
        ) from error
