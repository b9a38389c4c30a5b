"""What the section on reading video says of results."""

from __future__ import annotations

from typing import Any

from benchmarks.report_feeding import feeding

SETTINGS: dict[str, Any] = {
    "batch_size": 32,
    "rounds": 3,
    "cameras": 2,
    "run_length": 8,
    "image_sizes": {"light": 96, "paligemma2": 224},
    "before": "0123456789",
    "torchcodec": None,
}


def test_gains_and_workers() -> None:
    rows = {
        f"{policy}, {video}, h264, {history}": {"before": 20.0, "now": 60.0 / history, "runs": 90.0}
        for policy in ("light", "paligemma2")
        for video in ("480 x 640", "96 x 96")
        for history in (1, 2)
    }
    text = " ".join(feeding({"settings": SETTINGS, "results": rows}).split())
    assert "| light | 480 x 640 | h264 | 1 | 20 | 60 | 3.0 | 90 | |" in text
    assert "Reading is 1.5 to 3.0 times as fast as before" in text
    assert "torchcodec was not installed" in text
    # 8 x 0.4 x 312e12 operations a second, 6 x (2e9 x 544 + 0.4e9 x 512) for a sample
    assert "A100, history 1: 129 samples a second (a step takes 2.0 s)" in text
    assert "the work of 2.1 cores like this one, so 1 worker for each GPU" in text


def test_torchcodec_beside_it() -> None:
    rates = {"before": 20.0, "now": 60.0, "runs": 90.0, "torchcodec": 1234.0}
    rows = {f"paligemma2, 480 x 640, av1, {history}": rates for history in (1, 2)}
    text = feeding({"settings": SETTINGS | {"torchcodec": "0.13.0"}, "results": rows})
    assert "| PaliGemma 2 | 480 x 640 | av1 | 1 | 20 | 60 | 3.0 | 90 | 1,234 |" in text
    text = " ".join(text.split())
    assert "torchcodec 0.13.0 decodes and resizes" in text
    assert "from 480 x 640 pixels it reaches 0.0 to 0.0 times as much" in text
