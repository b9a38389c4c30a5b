"""Presets of benchmarks against the paper's table, the simulators here and praxis-eval."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from oatkit.envs.metaworld import FPS, METAWORLD, PAPER_TASKS
from oatkit.evaluation.benchmark_presets import BENCHMARK_PRESETS, benchmark_preset

PAPER = """
light-libero    | Long suite | 10 | 32 x 7 | 10 | 259
light-robomimic | Lift; Square; Can | 3 | 32 x 7 | 20 | 114
light-metaworld | Box Close; Coffee Pull; Disassemble; Stick Pull | 4 | 32 x 4 | 80 | 72
light-robocasa  | Close Drawer; Coffee Press Button; Turn Off Microwave; Turn Off Sink Faucet \
| 4 | 32 x 12 | 20 | 184
light-real      | Pick-and-Place Ball; Stack Cups | 2 | 32 x 7 | 10 | 98
vlm-libero      | Long suite; Goal suite; Object suite; Spatial suite | 40 | 32 x 7 | 10 | 140
vlm-robomimic   | Lift; Square; Can; Tool Hang | 4 | 32 x 7 | 20 | 130
vlm-simpler     | WidowX+Bridge series | 4 | 8 x 7 | 5 | 37
vlm-robocasa365 | Close Toaster Oven Door; Open Drawer; Pick Place Drawer to Counter; \
Turn On Electric Kettle; Slide Dishwasher Rack | 5 | 32 x 12 | 20 | 194
"""
"""Tasks, their number, horizon x action dim, rate in Hz, median length, as printed."""


def test_the_presets_are_the_papers_table() -> None:
    rows = {}
    for line in PAPER.strip().splitlines():
        name, *cells = (cell.strip() for cell in line.split("|"))
        rows[name] = cells
    assert rows == {
        name: [
            "; ".join(p.tasks),
            str(p.num_tasks),
            f"{p.horizon} x {p.action_dim}",
            str(p.fps),
            str(p.median_steps),
        ]
        for name, p in BENCHMARK_PRESETS.items()
    }


def test_half_a_chunk_is_executed_and_there_are_fifty_episodes() -> None:
    assert {p.execute for n, p in BENCHMARK_PRESETS.items() if n != "vlm-simpler"} == {16}
    assert benchmark_preset("vlm-simpler").execute == 4
    episodes = {name: p.episodes for name, p in BENCHMARK_PRESETS.items()}
    assert episodes.pop("light-real") == 20
    assert set(episodes.values()) == {50}


def test_metaworld_is_the_simulator_here() -> None:
    preset = benchmark_preset("light-metaworld")
    assert tuple(METAWORLD.task_name(task) for task in preset.selectors) == PAPER_TASKS
    assert (preset.fps, preset.action_dim) == (FPS, len(METAWORLD.action_low))


def test_an_unknown_benchmark_is_answered_with_the_closest() -> None:
    with pytest.raises(ValueError, match="unknown benchmark 'libero'; known, closest first: vlm-l"):
        benchmark_preset("libero")


@pytest.mark.parametrize("name", [n for n, p in BENCHMARK_PRESETS.items() if p.driver])
def test_praxis_eval_has_the_benchmark(name: str) -> None:
    praxis_eval = pytest.importorskip("praxis_eval", reason="needs the extra praxis")
    preset = benchmark_preset(name)
    assert praxis_eval.get_driver(preset.driver).contract.action.shape == (preset.action_dim,)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("light-robomimic", "robomimic"),
        ("vlm-robomimic", "robomimic"),
        ("vlm-robocasa365", "robocasa"),
    ],
)
def test_groups_of_praxis_eval_are_the_papers_tasks(name: str, module: str) -> None:
    pytest.importorskip("praxis_eval", reason="needs the extra praxis")
    tasks = import_module(f"praxis_eval.envs.{module}.tasks")
    preset = benchmark_preset(name)
    found = [task.lower() for selector in preset.selectors for task in tasks.MT_TASKS[selector]]
    assert len(found) == preset.num_tasks
    for task in preset.tasks:  # Square is NutAssemblySquare there
        assert any(task.replace(" ", "").lower() in other for other in found)


def test_the_docs_show_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    for name, p in BENCHMARK_PRESETS.items():
        tasks = "; ".join(p.tasks) + ("" if len(p.tasks) == p.num_tasks else f" ({p.num_tasks})")
        praxis = f"`{p.driver}`: `{', '.join(p.selectors)}`" if p.driver else "-"
        cells = [f"`{name}`", p.benchmark, tasks, f"{p.horizon} x {p.action_dim}"]
        cells += [str(p.execute), str(p.fps), str(p.median_steps), str(p.episodes), praxis]
        assert f"| {' | '.join(cells)} |" in page
