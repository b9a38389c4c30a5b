"""What the sections on robosuite say of results."""

from __future__ import annotations

from benchmarks.report_robosuite import policy_robosuite, robosuite_experts, robosuite_replay

EXPERT = {
    "successes": 49,
    "episodes": 50,
    "interval": [0.895, 0.9965],
    "steps": [24, 26, 31],
    "steps_per_s": 170.4,
    "own_steps_per_s": 120.6,
    "reset_ms": 2.2,
    "images_per_s": 18.4,
    "images_without_shadows_per_s": 54.2,
    "robosuite_name": "Lift",
}
RATE = {"successes": 10, "episodes": 20, "rate": 0.5, "low": 0.3, "high": 0.7}
ROW = {
    "steps": 100,
    "tokenizer_steps": 80,
    **{"history": 1, "code_smoothing": 1.0, "offset_layers": 0},
    "protocol": {"horizon": 32, "execute": 16},
    "settings": {"preset": "small", "episodes": 20},
    "budgets": [{"budget": 8, "success": RATE, "tasks": [{"task": "lift", "success": RATE}]}],
}


def test_experts() -> None:
    record = {"results": {"lift": EXPERT}, "settings": {"image_size": [84, 84]}}
    text = robosuite_experts(record)
    assert "| `lift` | Lift | 49 of 50 | 90 to 100 | 24 / 26 / 31 | 170 | 121 | 18 | 54 |" in text
    assert "images of 84 x 84" in " ".join(text.split())


def test_recordings() -> None:
    text = robosuite_replay({"results": {"panda_lift": {**EXPERT, "recordings": 1}}})
    assert "| `panda_lift` | Lift | 1 | 49 of 50 | 90 to 100 | 24 / 26 / 31 |" in text


def test_the_table() -> None:
    text = policy_robosuite({"results": {"oat": ROW, "oat, images": ROW}})
    assert "| `oat` | 80 | 100 | 8 | 50 |" in text
    assert "| `oat, images` | 80 | 100 | 8 | 50 |" in text
    assert "preset `small`" in " ".join(text.split())
    assert "there are 20 episodes of each task" in " ".join(text.split())
    trained = (
        "1 frame, code smoothing 1, no offset head, tokenizer of 80 steps (`oat`, `oat, images`)"
    )
    assert trained in " ".join(text.split())
    budget = ROW["budgets"][0]  # type: ignore[index]
    more = {"task": "lift", "success": {**RATE, "episodes": 50}}
    other = {**ROW, "budgets": [{**budget, "tasks": [more]}]}
    text = policy_robosuite({"results": {"oat": ROW, "quest": other}})
    assert "there are 20 to 50 episodes of each task" in " ".join(text.split())
