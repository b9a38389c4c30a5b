"""Presets against what the paper states."""

from __future__ import annotations

from oatkit.presets import POLICY_PRESETS, TOKENIZER_PRESETS, VLM_PRESETS


def test_the_papers_recipes_of_vision_language_policies() -> None:
    spoken, taught = (VLM_PRESETS["paper"][name].train for name in ("vlm-ar", "vlm-tc"))
    assert (spoken.learning_rate, spoken.batch_size) == (1e-4, 16)
    assert (spoken.schedule, spoken.min_ratio, spoken.weight_decay) == ("cosine", 0.1, 1e-6)
    assert (taught.learning_rate, taught.batch_size, taught.schedule) == (5e-5, 32, "constant")
    assert taught.weight_decay == 1e-6
    for recipe in (spoken, taught):
        assert (recipe.optimizer, recipe.clip) == ("adamw", 1.0)


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
    assert recipe.optimizer == "adamw"
