"""Presets of benchmarks against the paper's table, the simulators here and praxis-eval."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from oatkit.envs.metaworld import FPS, METAWORLD, PAPER_TASKS
from oatkit.presets import (
    BENCHMARK_PRESETS,
    POLICY_PRESETS,
    TOKENIZER_PRESETS,
    VLM_PRESETS,
    benchmark_preset,
)

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
    page = (Path(__file__).parent.parent / "docs" / "evaluation.md").read_text()
    for name, p in BENCHMARK_PRESETS.items():
        tasks = "; ".join(p.tasks) + ("" if len(p.tasks) == p.num_tasks else f" ({p.num_tasks})")
        praxis = f"`{p.driver}`: `{', '.join(p.selectors)}`" if p.driver else "-"
        cells = [f"`{name}`", p.benchmark, tasks, f"{p.horizon} x {p.action_dim}"]
        cells += [str(p.execute), str(p.fps), str(p.median_steps), str(p.episodes), praxis]
        assert f"| {' | '.join(cells)} |" in page


def test_the_papers_recipes_of_vision_language_policies() -> None:
    spoken, taught = (VLM_PRESETS["paper"][name].train for name in ("vlm-ar", "vlm-tc"))
    assert (spoken.learning_rate, spoken.batch_size) == (1e-4, 16)
    assert (spoken.schedule, spoken.min_ratio, spoken.weight_decay) == ("cosine", 0.1, 1e-6)
    assert (taught.learning_rate, taught.batch_size, taught.schedule) == (5e-5, 32, "constant")


def test_the_tokenizers_of_the_paper_are_trained_as_its_table_says() -> None:
    preset = TOKENIZER_PRESETS["paper"]
    recipe = preset.train
    assert (recipe.optimizer, recipe.learning_rate, recipe.batch_size) == ("adamw", 5e-5, 512)
    assert (recipe.schedule, recipe.weight_decay, recipe.clip) == ("constant", 0, 1.0)
    assert (recipe.warmup_steps, recipe.ema) == (0, 0)
    for kind in ("oat", "oat-pow2", "quest", "acodec"):
        found = preset.settings(kind)
        assert (found["num_layers"], found["num_heads"], found["width"]) == (6, 8, 256)
    assert (found["latent_dim"], found["codebook_size"]) == (512, 2048)


def test_rows_of_the_papers_tables_have_their_own_tokens() -> None:
    light, large = (TOKENIZER_PRESETS[name] for name in ("paper-light", "paper-vlm"))
    for kind in ("oat", "oat-pow2"):
        found = [preset.settings(kind) for preset in (light, large)]
        assert [own["num_tokens"] for own in found] == [8, 16]
        assert [own["levels"] for own in found] == [(8, 5, 5, 5), (8, 8, 6, 5)]
    assert light.settings("quest") == large.settings("quest")
    assert light.settings("quest")["levels"] == (8, 8, 6, 5)
    decoding = [preset.settings("fast")["decoding"] for preset in (light, large)]
    assert decoding == ["strict", "relaxed"]
    assert light.train == large.train == TOKENIZER_PRESETS["paper"].train


def test_the_policies_of_the_paper_are_trained_as_its_table_says() -> None:
    recipe = POLICY_PRESETS["paper"].train
    assert (recipe.learning_rate, recipe.batch_size, recipe.schedule) == (1e-4, 16, "cosine")
    assert (recipe.min_ratio, recipe.weight_decay, recipe.clip) == (0.1, 1e-6, 1.0)
