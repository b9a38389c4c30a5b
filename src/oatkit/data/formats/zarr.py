"""Diffusion-policy replay buffers: zarr stores with `data/*` and `meta/episode_ends`.

Folders and `.zarr.zip` files, store format 2. This is the only file that imports zarr.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oatkit.data.formats.reading_errors import errors_naming
from oatkit.data.source import Camera, Feature
from oatkit.data.well_known import ACTION_NAMES
from oatkit.errors import DatasetError, MissingExtraError

try:
    import zarr
    from zarr.storage import ZipStore
except ImportError as error:
    raise MissingExtraError("data") from error

ROWS_PER_BATCH = 16_384
STATE_KEYS = (
    ("state",),
    ("agent_pos",),
    ("robot_eef_pose",),
    ("robot0_eef_pos", "robot0_eef_rot_axis_angle", "robot0_gripper_width"),
)


class Zarr:
    """A replay buffer; see `oatkit.data.source.Source`."""

    format = "diffusion-policy zarr"
    fps: float | None = None

    def __init__(self, root: Path) -> None:
        self.root = root
        with errors_naming(root):
            store = ZipStore(root, mode="r") if root.is_file() else str(root)
            group = zarr.open_group(store, mode="r")
            ends = np.asarray(group["meta"]["episode_ends"][:], np.int64)
            members = {key: group["data"][key] for key in sorted(group["data"])}
            # Arrays of another length are no columns of the replay buffer.
            self._arrays = {
                key: member
                for key, member in members.items()
                if getattr(member, "ndim", 0) and member.shape[0] == ends[-1]
            }
            for key in ACTION_NAMES:
                if key not in self._arrays and key in members:
                    raise DatasetError(
                        f"{root}: data/{key} has {members[key].shape[0]} rows but "
                        f"meta/episode_ends says {ends[-1]}"
                    )
        self.episode_lengths = np.diff(ends, prepend=0)
        if (self.episode_lengths <= 0).any():
            bad = int(np.argmax(self.episode_lengths <= 0))
            raise DatasetError(f"{root}: meta/episode_ends does not grow at episode {bad}")
        self.episode_numbers = np.arange(len(ends))
        self.tasks = [root.name.split(".")[0]]
        self.cameras = {
            key: Camera(*array.shape[1:3])
            for key, array in self._arrays.items()
            if _is_image(array)
        }
        self.features = {
            key: Feature(tuple(array.shape[1:]) or (1,))
            for key, array in self._arrays.items()
            if key not in self.cameras and array.dtype.kind in "fiub"
        }
        self.action_keys: tuple[str, ...] = ("action",)
        self.state_keys: tuple[str, ...] = next(
            (keys for keys in STATE_KEYS if all(k in self.features for k in keys)), ()
        )
        self._starts = ends - self.episode_lengths

    def files(self) -> Sequence[Path]:
        if self.root.is_file():
            return [self.root]
        folders = [self.root / "data" / key for key in self.features]
        folders.append(self.root / "meta" / "episode_ends")
        return sorted(p for folder in folders for p in folder.rglob("*") if p.is_file())

    def file_of(self, episode: int) -> Path:
        return self.root

    def read(self, key: str) -> Iterator[NDArray[np.float32]]:
        array = self._arrays[key]
        self._require_chunks(key, np.arange(array.shape[0]))
        for start in range(0, array.shape[0], ROWS_PER_BATCH):
            with errors_naming(self.root, f"data/{key} from row {start}"):
                rows = array[start : start + ROWS_PER_BATCH].astype(np.float32)
            yield rows.reshape(len(rows), -1)

    def read_task_index(self) -> Iterator[NDArray[np.int32]]:
        yield np.zeros(int(self.episode_lengths.sum()), np.int32)

    def read_images(
        self, camera: str, episode: int, frames: NDArray[np.int64]
    ) -> NDArray[np.uint8]:
        wanted, inverse = np.unique(self._starts[episode] + frames, return_inverse=True)
        self._require_chunks(camera, wanted)
        with errors_naming(self.root, f"camera {camera!r} of episode {episode}"):
            images = np.asarray(self._arrays[camera].oindex[wanted])
        if images.dtype.kind == "f" and 0 < images.max() <= 1:
            raise DatasetError(
                f"{self.root}: data/{camera} holds images in 0 .. 1, expected 0 .. 255"
            )
        return images.round().astype(np.uint8)[inverse]

    def _require_chunks(self, key: str, rows: NDArray[np.int64]) -> None:
        """Refuse chunks that are not there, or not all there.

        zarr reads a missing chunk as zeros, and blosc reads past the end of a truncated one and
        gives whatever lies there. A failure must not become data.
        """
        array = self._arrays[key]
        if array.nchunks_initialized != array.nchunks:
            raise DatasetError(
                f"{self.root}: data/{key} has {array.nchunks_initialized} of its {array.nchunks} "
                "chunks: the copy is incomplete, or zarr left out chunks of only zeros, which "
                "cannot be told apart; write it with write_empty_chunks=True"
            )
        described = self.root / "data" / key / ".zarray"
        if not described.is_file():  # a zip file, which has checksums
            return
        facts = json.loads(described.read_text())
        if (facts.get("compressor") or {}).get("id") != "blosc":
            return
        (_, *shape), (num_rows, *chunk_shape) = facts["shape"], facts["chunks"]
        others = [range(-(-s // c)) for s, c in zip(shape, chunk_shape, strict=True)]
        separator = facts.get("dimension_separator", ".")
        for place in itertools.product(np.unique(rows // num_rows), *others):
            path = described.parent / separator.join(str(i) for i in place)
            stated, found = _blosc_size(path), path.stat().st_size
            if stated != found:
                raise DatasetError(f"{path} cannot be read: it has {found} of {stated} bytes")


def _blosc_size(path: Path) -> int:
    """The size that a blosc chunk states in its own header."""
    with path.open("rb") as file:
        header = file.read(16)
    return int.from_bytes(header[12:16], "little") if len(header) == 16 else 16


def _is_image(array: Any) -> bool:
    return array.ndim == 4 and array.shape[-1] == 3 and array.dtype.kind in "uf"
