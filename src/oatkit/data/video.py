"""Reads single frames of an mp4 by their time, without decoding all of it, and writes mp4 files.

This is the only file that imports PyAV.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
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
    from av.video.reformatter import VideoReformatter
except ImportError as error:
    raise MissingExtraError("data") from error

os.environ.setdefault("SVT_LOG", "1")  # the AV1 encoder prints its settings otherwise

MAX_OPEN_VIDEOS = 32
"""Files that a thread keeps open; each takes two to four megabytes."""
MAX_FRAMES_TO_DECODE_FORWARD = 32
"""Frames ahead up to which decoding goes on in a file without an index; a target further away is
sought from a key frame."""
MAX_FRAMES_TO_DECODE_AGAIN = 16
"""Frames after a key frame up to which a decoder that holds frames back is emptied and begins again
from the key frame; further on it is fed what follows."""
ONE_THREAD = {"threads": 1} if int(av.__version__.split(".")[0]) >= 17 else {}
"""How to convert colors in the calling thread; before version 17 PyAV had no other way."""

ENCODERS = {"av1": "libsvtav1", "h264": "libx264"}


class VideoReader:
    """One open mp4, addressed by time.

    Keeps its place: frames asked in order are decoded once, a jump seeks the key frame before
    the target and decodes from there.

    Attributes:
        num_decoded: Number of packets, one a frame, that the decoder was given.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _errors_name(path):
            self._container = av.open(str(path))
            if not self._container.streams.video:
                raise DatasetError(f"{path} holds no video stream")
            self._stream = self._container.streams.video[0]
        self._stream.thread_type = "NONE"
        # dav1d would start a thread for every core, in every process that reads
        self._stream.codec_context.thread_count = 1
        self._converter: Any = VideoReformatter()
        self._packets: Iterator[Any] = iter(())
        self._fed_s: list[float] = []
        self._decoded: deque[Any] = deque()
        self._is_drained = False
        self._last_s: float | None = None
        self._last_frame: Any = None
        self._key_distance = MAX_FRAMES_TO_DECODE_FORWARD
        self.num_decoded = 0

    def frames_at(
        self, times_s: Sequence[float], *, tolerance_s: float
    ) -> Iterator[NDArray[np.uint8]]:
        """The frames shown at ascending times, each (height, width, 3) RGB.

        A file that has no frame within `tolerance_s` of a time is a `DatasetError`.
        """
        for time_s, next_s in zip(times_s, [*times_s[1:], None], strict=True):
            with _errors_name(self.path, f"at {time_s:.3f} s"):
                is_last = next_s is None or not self._is_near(time_s, next_s, tolerance_s)
                self._move_to(time_s, tolerance_s, is_last=is_last)
                rgb = self._converter.reformat(self._last_frame, format="rgb24", **ONE_THREAD)
            yield rgb.to_ndarray()

    def _move_to(self, time_s: float, tolerance_s: float, *, is_last: bool) -> None:
        """Decode until the frame at a time is the last one.

        Args:
            time_s: Seconds from the start of the file.
            tolerance_s: How far from it the frame may lie.
            is_last: Whether the next frame that is wanted will be sought, so that the decoder may
                be emptied.
        """
        if self._needs_seek(time_s, tolerance_s):
            self._seek(time_s + tolerance_s / 2)
        while self._last_s is None or self._last_s < time_s - tolerance_s:
            if self._decoded:
                self._last_frame = self._decoded.popleft()
                self._last_s = self._time_of(self._last_frame)
            elif is_last and self._is_fed(time_s, tolerance_s):
                self._decoded.extend(self._stream.codec_context.decode(None))
                self._is_drained = True
            elif not self._feed():
                end = "no frame" if self._last_s is None else f"{self._last_s:.3f} s"
                self._last_s = None
                raise DatasetError(
                    f"{self.path} ends at {end} but the dataset asks for {time_s:.3f} s: "
                    "the file is truncated or belongs to another dataset"
                )
        if self._last_s > time_s + tolerance_s:
            raise DatasetError(
                f"{self.path} has no frame within {tolerance_s:.4f} s of {time_s:.3f} s; "
                f"the nearest is at {self._last_s:.3f} s: do the fps of video and data agree?"
            )

    def _needs_seek(self, time_s: float, tolerance_s: float) -> bool:
        if self._last_s is None or self._last_s > time_s + tolerance_s:
            return True
        reached_s = self._time_of(self._decoded[-1]) if self._decoded else self._last_s
        if reached_s >= time_s - tolerance_s:
            return False
        return self._is_drained or not self._is_near(self._last_s, time_s, tolerance_s)

    def _is_near(self, time_s: float, later_s: float, tolerance_s: float) -> bool:
        """Whether no key frame lies between two frames, so that decoding goes on from the first;
        without an index, whether they are closer than key frames were so far."""
        if self._has_index:
            first, second = (self._key_before(s + tolerance_s / 2) for s in (time_s, later_s))
            return first == second
        return later_s - time_s <= 2 * tolerance_s * self._key_distance

    @property
    def _has_index(self) -> bool:
        """Whether this version of PyAV gives the index of this file."""
        return len(getattr(self._stream, "index_entries", ())) > 0

    def _key_before(self, time_s: float) -> int:
        """Number of the last key frame until a time, as the file's index has it."""
        entries = self._stream.index_entries
        # the index has times of decoding, which lie before those of showing by a constant
        shift = (self._stream.start_time or 0) - entries[0].timestamp
        found: int = entries.search_timestamp(int(time_s / self._stream.time_base) - shift)
        return found

    def _seek(self, time_s: float) -> None:
        target = max(0, int(time_s / self._stream.time_base))
        self._container.seek(target, stream=self._stream, backward=True)
        self._packets = self._container.demux(self._stream)
        self._decoded.clear()
        self._fed_s.clear()
        self._is_drained = False
        self._last_s = None

    def _feed(self) -> bool:
        """Give the decoder the next packet; False where there is none."""
        packet = None if self._is_drained else next(self._packets, None)
        if packet is None:
            return False
        if packet.is_keyframe and self._fed_s:
            self._key_distance = min(self._key_distance, len(self._fed_s))
        self._decoded.extend(packet.decode())
        if packet.pts is None:  # the end of the file
            self._is_drained = True
        else:
            self.num_decoded += 1
            self._fed_s.append(float(packet.pts * self._stream.time_base))
        return True

    def _is_fed(self, time_s: float, tolerance_s: float) -> bool:
        """Whether the decoder has a frame, and few would have to be decoded again if it was
        emptied to give it and more were wanted."""
        if self._is_drained or len(self._fed_s) > MAX_FRAMES_TO_DECODE_AGAIN:
            return False
        return any(abs(fed_s - time_s) <= tolerance_s for fed_s in self._fed_s)

    def _time_of(self, frame: Any) -> float:
        return float(frame.pts * self._stream.time_base)

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
    ascending = [float(times_s[i]) for i in order]
    frames: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)] * len(order)
    for i, frame in zip(order, reader.frames_at(ascending, tolerance_s=0.5 / fps), strict=True):
        frames[i] = frame
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
