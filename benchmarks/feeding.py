"""How many samples a second one worker process reads from video, before and after it was sped up.

    git worktree add out/before bee07d5
    python -m benchmarks.feeding --before out/before

Samples have two cameras and one or two frames of each, drawn at random. Datasets are LeRobot v3.0
with a key frame every second frame, as LeRobot writes them, of made-up images. What is timed is
what a worker process of training does: it decodes a batch, makes it what the policy reads and puts
it into shared memory. Rates are samples for a second of processor time, all threads of the process
counted, so that other work on the machine matters little.

"before" is an older checkout, run in a process of its own in turns with this version. "runs" draws
eight successive samples together (`--run-length 8`). torchcodec is measured where it is installed:
it decodes and resizes the same frames, camera by camera, and does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import oatkit
from benchmarks.record import write_result
from oatkit.data import Chunks
from oatkit.data.lerobot_writer import LeRobotWriter
from oatkit.data.source import Feature
from oatkit.data.video import VideoWriter
from oatkit.policies.light.light_config import LightConfig
from oatkit.policies.observation.observation_reading import read_observation
from oatkit.policies.observation.observation_spec import ObservationSpec
from oatkit.policies.vlm.backbones.family import ScratchSize
from oatkit.policies.vlm.backbones.paligemma import PaliGemma2
from oatkit.policies.vlm.backbones.processor import Processor
from oatkit.policies.vlm.vlm_reader import VlmReader

SEED = 0
FPS = 20
BATCH_SIZE = 16
HORIZON = 16
RUN_LENGTH = 8
FRAMES = 40
ENCODED_EPISODES = 2
EPISODES = 90
"""Episodes of a dataset; they share the videos of those that are encoded, to save time."""
CAMERAS = ("front", "wrist")
SOURCES = {"480 x 640": (480, 640), "96 x 96": (96, 96)}
CODECS = ("h264", "av1")
HISTORIES = (1, 2)
POLICIES = ("light", "paligemma2")
IMAGE_SIZES = {"light": LightConfig().image_size, "paligemma2": 224}

Read = Callable[[NDArray[np.int64]], Any]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path, required=True, help="checkout of an older version")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path("out/feeding"), help="kept for next time")
    parser.add_argument("--worker", type=Path, help="used by itself")
    given = parser.parse_args()
    if given.worker:
        work(given.worker)
        return
    folder = given.data.resolve()
    for codec in CODECS:
        for source, size in SOURCES.items():
            if not (folder / codec / source / "data/meta/info.json").exists():
                write_dataset(folder / codec / source, codec, size)
    with ExitStack() as stack:
        own = Path(__file__).parent.parent
        trees = {"before": given.before.resolve(), "now": own}
        asked = {key: stack.enter_context(worker(tree, folder)) for key, tree in trees.items()}
        found: dict[str, dict[str, list[float]]] = {}
        for number in range(given.rounds):
            for key in asked:
                for row, rates in asked[key](number).items():
                    for what, rate in rates.items():
                        what = key if what == "single" else what
                        found.setdefault(row, {}).setdefault(what, []).append(rate)
    rows = {row: {key: median(rates) for key, rates in of.items()} for row, of in found.items()}
    settings = {
        "batch_size": BATCH_SIZE,
        "rounds": given.rounds,
        "cameras": len(CAMERAS),
        "run_length": RUN_LENGTH,
        "frames_of_each_camera": FRAMES * EPISODES,
        "image_sizes": IMAGE_SIZES,
        "before": _commit_of(given.before),
        "torchcodec": _version_of("torchcodec"),
        "av": _version_of("av"),
    }
    write_result("feeding", seed=SEED, settings=settings, results=rows)


def write_dataset(root: Path, codec: str, size: tuple[int, int]) -> None:
    """A LeRobot dataset with two cameras that move over a picture, and a little noise."""
    rng = np.random.default_rng(SEED)
    features = {"observation.state": Feature((8,)), "action": Feature((7,))}
    keys = {camera: f"observation.images.{camera}" for camera in CAMERAS}
    writer = LeRobotWriter(
        root / "data", fps=FPS, features=features, cameras=dict.fromkeys(keys.values(), size)
    )
    videos = [
        {key: _write_video(root / f"{camera}-{number}.mp4", codec, size, rng)}
        for number in range(ENCODED_EPISODES)
        for camera, key in keys.items()
    ]
    encoded = [
        {key: path for video in videos[2 * n : 2 * n + 2] for key, path in video.items()}
        for n in range(ENCODED_EPISODES)
    ]
    for number in range(EPISODES):
        columns = {key: rng.normal(size=(FRAMES, f.size)) for key, f in features.items()}
        writer.add_episode(columns, task="walk", videos=encoded[number % ENCODED_EPISODES])
    writer.close()


def _write_video(path: Path, codec: str, size: tuple[int, int], rng: np.random.Generator) -> Path:
    height, width = size
    coarse = torch.from_numpy(rng.normal(size=(1, 3, height // 8 + 16, width // 8 + 16)))
    picture = torch.nn.functional.interpolate(coarse, scale_factor=8, mode="bicubic")[0]
    picture_HWC = (128 + 50 * picture).clamp(0, 255).permute(1, 2, 0).numpy()
    with VideoWriter(path, fps=FPS, height=height, width=width, codec=codec) as video:
        for frame in range(FRAMES):
            down, right = (int(50 + 50 * f(frame / 20)) for f in (np.sin, np.cos))
            seen = picture_HWC[down : down + height, right : right + width]
            noisy = seen + rng.integers(-3, 4, size=seen.shape)
            video.add(noisy.clip(0, 255).astype(np.uint8))
    return path


@contextmanager
def worker(tree: Path, folder: Path) -> Iterator[Callable[[int], dict[str, dict[str, float]]]]:
    """A process with the code of a checkout; called with the number of a round, it measures."""
    paths = [str(tree / "src"), str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, "-m", "benchmarks.feeding", "--before", ".", "--worker", str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        rounds, answers = process.stdin, process.stdout
        assert rounds is not None
        assert answers is not None

        def ask(number: int) -> dict[str, dict[str, float]]:
            print(number, file=rounds, flush=True)
            found: dict[str, dict[str, float]] = json.loads(answers.readline())
            return found

        yield ask
        rounds.close()


def work(folder: Path) -> None:
    """Answer each line, the number of a round, with rates."""
    torch.set_num_threads(1)
    family = PaliGemma2()
    config, text, images = family.scratch(ScratchSize(image_size=224, patch_size=14), ["walk"])
    processor = Processor(family, text, images, config)
    for line in sys.stdin:
        rates = {}
        for codec in CODECS:
            for source in SOURCES:
                dataset = oatkit.open_dataset(
                    folder / codec / source / "data", cache_dir=folder / "cache"
                )
                for policy in POLICIES:
                    for history in HISTORIES:
                        row = f"{policy}, {source}, {codec}, {history}"
                        rates[row] = measure(dataset, policy, history, processor, int(line))
        print(json.dumps(rates), flush=True)


def measure(
    dataset: oatkit.Dataset, policy: str, history: int, processor: Processor, number: int
) -> dict[str, float]:
    """Samples a second of processor time: drawn one by one, in runs, and by torchcodec."""
    spec = ObservationSpec.for_dataset(dataset, history=history, cameras=CAMERAS)
    chunks, read = reader(dataset, spec, policy, processor)
    rng = np.random.default_rng([SEED, number])
    single = rng.integers(len(chunks), size=BATCH_SIZE)

    def load(indices: NDArray[np.int64]) -> None:
        for tensor in read(chunks.batch(indices)).tensors():
            tensor.share_memory_()

    found = {"single": rate(load, single)}
    if hasattr(chunks, "resize"):  # this version, not an older one
        starts = rng.integers(len(chunks) - RUN_LENGTH, size=BATCH_SIZE // RUN_LENGTH)
        found["runs"] = rate(load, (starts[:, None] + np.arange(RUN_LENGTH)).ravel())
        if _version_of("torchcodec"):
            decode = torchcodec_reader(dataset, history, IMAGE_SIZES[policy])
            found["torchcodec"] = rate(decode, single)
    return found


def rate(load: Read, indices: NDArray[np.int64]) -> float:
    load(indices[:1])  # opens the files
    start = time.process_time()
    load(indices)
    return len(indices) / (time.process_time() - start)


def reader(
    dataset: oatkit.Dataset, spec: ObservationSpec, policy: str, processor: Processor
) -> tuple[Chunks, Callable[[Any], Any]]:
    """Chunks and what makes them observations, as training reads them."""
    settings: dict[str, Any] = {"history": spec.history, "cameras": CAMERAS}
    whole: Callable[[Any], Any] = VlmReader(spec, processor).read
    if policy == "light":
        whole = partial(read_observation, spec)
    try:
        from oatkit.policies.light.observation_encoder import resized_reading as light_reading
        from oatkit.policies.vlm.vlm_reader import resized_reading as vlm_reading
    except ImportError:  # an older version
        return dataset.chunks(HORIZON, **settings), whole
    if policy == "light":
        reading = light_reading(LightConfig(), spec)
    else:
        reading = vlm_reading(spec, processor)
    if reading is None:
        return dataset.chunks(HORIZON, **settings), whole
    return dataset.chunks(HORIZON, **settings, resize=reading.resize), reading.read


def torchcodec_reader(dataset: oatkit.Dataset, history: int, side: int) -> Read:
    """Reads the frames of samples by torchcodec, into shared memory."""
    from torchcodec.decoders import VideoDecoder
    from torchcodec.transforms import Resize

    transforms = [Resize((side, side))]
    if dataset.cameras[CAMERAS[0]].height == side:
        transforms = []
    decoders = [
        VideoDecoder(
            str(path), num_ffmpeg_threads=1, seek_mode="approximate", transforms=transforms
        )
        for path in sorted(dataset.path.glob("videos/*/*/*.mp4"))
    ]

    def read(indices: NDArray[np.int64]) -> None:
        frames_BS = np.maximum(indices[:, None] + np.arange(1 - history, 1), 0)
        for decoder in decoders:
            decoder.get_frames_at(frames_BS.ravel().tolist()).data.share_memory_()

    return read


def _version_of(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit_of(tree: Path) -> str:
    command = ["git", "-C", str(tree), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
