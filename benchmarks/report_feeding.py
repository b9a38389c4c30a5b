"""The section of the results page on how fast video is read for training."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.markdown import paragraph, section, table

GPUS = 8
BATCH_PER_GPU = 32
SHARE_OF_PEAK = 0.4
PEAK_FLOPS = {"A100": 312e12, "H100": 989e12}
"""What the makers say of bfloat16 without sparsity."""
LANGUAGE_PARAMETERS, VISION_PARAMETERS = 2.0e9, 0.4e9
"""PaliGemma 2 3B without its embeddings."""
SLOTS_OF_IMAGE, OTHER_SLOTS = 256, 32
NAMES = {"light": "light", "paligemma2": "PaliGemma 2"}


def feeding(record: dict[str, Any]) -> str:
    settings, rows = record["settings"], record["results"]
    sizes = settings["image_sizes"]
    return section(
        "Reading video for training",
        paragraph(
            "Samples that one worker process reads in a second of processor time, from "
            f"{settings['cameras']} cameras with a history of 1 or 2 frames, drawn at random "
            f"(median of {settings['rounds']} batches of {settings['batch_size']}).",
            "Videos have a key frame every second frame, as LeRobot writes them; light policies "
            f"read {sizes['light']} x {sizes['light']} pixels, PaliGemma 2 "
            f"{sizes['paligemma2']} x {sizes['paligemma2']}.",
            f'"Before" is commit {settings["before"][:7]}, measured in the same run;',
            f'"runs" is `--run-length {settings["run_length"]}`.',
            _about_torchcodec(settings["torchcodec"]),
        ),
        table(
            ("policy", "video", "codec", "history", "before", "now", "times", "runs", "torchcodec"),
            (_cells(name, rates) for name, rates in rows.items()),
        ),
        paragraph(_about_gain(rows), *_beside_torchcodec(rows)),
        paragraph(*_about_workers(rows, settings["cameras"])),
        script="feeding",
    )


def _cells(name: str, rates: dict[str, float]) -> tuple[str, ...]:
    policy, video, codec, history = name.split(", ")
    found = [_rate(rates.get(key)) for key in ("before", "now", "runs", "torchcodec")]
    gain = f"{rates['now'] / rates['before']:.1f}"
    return (NAMES[policy], video, codec, history, *found[:2], gain, *found[2:])


def _rate(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _about_torchcodec(version: str | None) -> str:
    if version is None:
        return "torchcodec was not installed."
    return (
        f"torchcodec {version} decodes and resizes the same frames with one thread, and does "
        "nothing else: no states, no tokens, no texts."
    )


def _about_gain(rows: dict[str, dict[str, float]]) -> str:
    gains = [rates["now"] / rates["before"] for rates in rows.values()]
    return (
        f"Reading is {min(gains):.1f} to {max(gains):.1f} times as fast as before: a frame is "
        "decoded from its key frame and no further, in one thread, and resized at once by torch's "
        "kernels for bytes, which give what Pillow gives."
    )


def _beside_torchcodec(rows: dict[str, dict[str, float]]) -> list[str]:
    """How this loader compares with torchcodec, for each size of videos."""
    ratios: dict[str, list[float]] = {}
    for name, rates in rows.items():
        if "torchcodec" in rates:
            ratios.setdefault(name.split(", ")[1], []).append(rates["now"] / rates["torchcodec"])
    return [
        f"Of what torchcodec alone reads from {video} pixels it reaches {min(found):.1f} to "
        f"{max(found):.1f} times as much."
        for video, found in ratios.items()
    ]


def _about_workers(rows: dict[str, dict[str, float]], cameras: int) -> list[str]:
    """How many worker processes feed eight GPUs, from the slower codec."""
    sentences = [
        f"How many workers feed {GPUS} GPUs that train PaliGemma 2 3B, all weights, at a batch of "
        f"{BATCH_PER_GPU} each?",
        "A sample costs 6 operations for every weight and slot, and a GPU does "
        f"{100 * SHARE_OF_PEAK:.0f} % of what its maker says.",
    ]
    for gpu, peak in PEAK_FLOPS.items():
        for history in (1, 2):
            demand = GPUS * SHARE_OF_PEAK * peak / _flops(cameras * history)
            rate = min(
                rates["now"]
                for name, rates in rows.items()
                if name.startswith("paligemma2, 480 x 640") and name.endswith(f", {history}")
            )
            step_s = BATCH_PER_GPU * GPUS / demand
            sentences.append(
                f"{gpu}, history {history}: {demand:,.0f} samples a second (a step takes "
                f"{step_s:.1f} s), which is the work of {demand / rate:.1f} cores like this one, "
                f"so {max(1, math.ceil(2 * demand / rate / GPUS))} worker for each GPU, with room "
                "for as much again."
            )
    return sentences


def _flops(images: int) -> float:
    """Floating point operations of a training step for one sample."""
    slots = images * SLOTS_OF_IMAGE
    return 6 * (LANGUAGE_PARAMETERS * (slots + OTHER_SLOTS) + VISION_PARAMETERS * slots)
