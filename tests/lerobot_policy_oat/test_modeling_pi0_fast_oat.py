"""The policy type `pi0_fast_oat`: a fixed number of action ids, whatever the network prefers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from oatkit.data import Dataset
from oatkit.evaluation.action_plan import ActionPlan
from oatkit.policies.generation.committed_actions import NUM_SLOTS, WIDTH
from oatkit.types import Execution
from tests.policies import tiny
from tests.policies.tiny import ACTION_DIM, HORIZON

pytest.importorskip("transformers", reason="pi0_fast needs transformers")
from tests.lerobot_policy_oat.small_pi0_fast import (
    FIRST_ACTION_ID,
    LEAD,
    make_config,
    make_policy,
    observation,
)


def likeliest(
    policy: Any, batch: dict[str, Tensor], num_tokens: int, committed: Tensor | None = None
) -> Tensor:
    """Greedy ids without a cache: every step reads the whole sequence as training does. Committed
    actions lower the logits of ids whose chunks begin otherwise."""
    tokenizer, model = policy.action_tokenizer, policy.model
    images, image_masks = policy._preprocess_images(batch)
    prompt = batch["observation.language.tokens"]
    mask = batch["observation.language.attention_mask"]
    suffix = torch.tensor([LEAD] * len(prompt))
    for _ in range(num_tokens):
        inputs, is_real, allowed, _, _ = model.embed_prefix_fast(
            images, image_masks, prompt, mask, suffix, torch.ones_like(suffix, dtype=torch.bool)
        )
        (hidden, _), _ = model.paligemma_with_expert.forward(
            attention_mask=torch.where(allowed[:, None], 0.0, -1e38),
            position_ids=torch.cumsum(is_real, dim=1) - 1,
            past_key_values=None,
            inputs_embeds=[inputs, None],
            use_cache=False,
            adarms_cond=[None, None],
        )
        logits = model.paligemma_with_expert.paligemma.lm_head(hidden[:, -1])
        ids_of_actions = FIRST_ACTION_ID - torch.arange(tokenizer.vocab_size)
        logits = logits[:, ids_of_actions]
        if committed is not None and suffix.shape[1] < len(LEAD) + NUM_SLOTS:
            so_far = FIRST_ACTION_ID - suffix[:, len(LEAD) :]
            logits = logits - misfit(tokenizer, so_far, committed)
        best = logits.argmax(dim=-1)
        suffix = torch.cat([suffix, FIRST_ACTION_ID - best[:, None]], dim=1)
    return FIRST_ACTION_ID - suffix[:, len(LEAD) :]


def misfit(tokenizer: Any, ids_BK: Tensor, committed_BPA: Tensor) -> Tensor:
    """How far the chunk of each next id is from committed actions, (B, V) in nats."""
    rows, next_V1 = [], torch.arange(tokenizer.vocab_size)[:, None]
    for ids_K, wanted_PA in zip(ids_BK, committed_BPA, strict=True):
        tried = torch.cat([ids_K.expand(len(next_V1), -1), next_V1], dim=1)
        chunks_VTA = tokenizer.normalizer.normalize(tokenizer.decode(tried))
        wanted_1TA = tokenizer.normalizer.normalize(wanted_PA[None])
        away_VPA = chunks_VTA[:, : len(wanted_PA)] - wanted_1TA
        rows.append(away_VPA.square().sum(dim=(1, 2)) / (2 * WIDTH**2))
    return torch.stack(rows)


@pytest.mark.usefixtures("small_network")
def test_a_fixed_number_of_action_ids_is_decoded(folders: dict[str, str]) -> None:
    policy = make_policy(make_config(folders))
    batch = observation()
    chunk = policy.predict_action_chunk(batch)
    ids = likeliest(policy, batch, policy.action_tokenizer.max_tokens)
    torch.testing.assert_close(chunk, policy.action_tokenizer.decode(ids))
    assert chunk.shape == (3, HORIZON, ACTION_DIM)


@pytest.mark.usefixtures("small_network")
def test_the_budget_is_how_many_tokens_are_generated(folders: dict[str, str]) -> None:
    policy = make_policy(make_config(folders, budget=2))
    batch = observation()
    ids = likeliest(policy, batch, 2)
    torch.testing.assert_close(
        policy.predict_action_chunk(batch), policy.action_tokenizer.decode(ids)
    )


@pytest.mark.usefixtures("small_network")
@pytest.mark.parametrize("temperature", [0.0, 50.0])
def test_whatever_the_network_prefers_it_is_a_chunk(
    folders: dict[str, str], temperature: float
) -> None:
    policy = make_policy(make_config(folders, temperature=temperature))
    with torch.no_grad():  # text and the end of the sequence are far likelier than actions
        policy.model.paligemma_with_expert.paligemma.lm_head.weight[:7] *= 1000
    chunk = policy.predict_action_chunk(observation())
    assert torch.isfinite(chunk).all()
    data = policy.action_tokenizer.data.statistics
    assert (chunk.double() < torch.from_numpy(data.max + 2 * (data.max - data.min))).all()


@pytest.mark.usefixtures("small_network")
def test_sampling_is_as_configured(folders: dict[str, str]) -> None:
    batch = observation()

    def chunks(**settings: Any) -> Tensor:
        """Two predictions of an episode."""
        policy = make_policy(make_config(folders, **settings))
        policy.reset()
        return torch.stack([policy.predict_action_chunk(batch) for _ in range(2)])

    likely = chunks()
    assert torch.equal(likely[0], likely[1])
    sampled = chunks(temperature=50.0, seed=3)
    assert not torch.equal(sampled[0], sampled[1])
    assert torch.equal(sampled, chunks(temperature=50.0, seed=3)), "a seed repeats an episode"
    assert not torch.equal(sampled, chunks(temperature=50.0, seed=4))
    assert torch.equal(likely, chunks(temperature=50.0, top_k=1))
    assert torch.equal(likely, chunks(temperature=50.0, top_p=1e-6))


@pytest.mark.usefixtures("small_network")
def test_actions_are_executed_one_by_one(folders: dict[str, str]) -> None:
    policy = make_policy(make_config(folders))
    batch = observation()
    chunk = policy.predict_action_chunk(batch)
    chosen = torch.stack([policy.select_action(batch) for _ in range(4)], dim=1)
    torch.testing.assert_close(chosen, chunk[:, :4])


@pytest.mark.usefixtures("small_network")
def test_a_blend_is_the_mean_of_all_chunks_of_a_moment(folders: dict[str, str]) -> None:
    policy = make_policy(make_config(folders, n_action_steps=3, blend=0.5))
    batches = [observation(2, seed) for seed in range(12)]
    chunks = {t: policy.predict_action_chunk(batches[t]) for t in range(0, 12, 3)}
    for now, batch in enumerate(batches):
        acting = [t for t in chunks if 0 <= now - t < HORIZON]
        weights = torch.tensor([math.exp(-0.5 * (now - t)) for t in acting])
        planned_BAC = torch.stack([chunks[t][:, now - t] for t in acting], dim=-1)
        expected = planned_BAC @ (weights / weights.sum())
        torch.testing.assert_close(policy.select_action(batch), expected)
    policy.reset()
    torch.testing.assert_close(policy.select_action(batches[3]), chunks[3][:, 0])


@pytest.mark.usefixtures("small_network")
@pytest.mark.parametrize("temperature", [0.0, 50.0])
def test_the_draw_that_goes_on_best_is_executed(
    folders: dict[str, str], temperature: float
) -> None:
    how = {"n_action_steps": 3, "temperature": temperature, "seed": 1}
    policy = make_policy(make_config(folders, draws=4, **how))
    found: list[Tensor] = []
    predict = policy._predict

    def noting(*given: Any) -> Tensor:
        found.append(predict(*given))
        return found[-1]

    policy._predict = noting
    batches = [observation(2, seed) for seed in range(6)]
    actions = torch.stack([policy.select_action(batch) for batch in batches], dim=1)
    scale = policy.action_tokenizer.raw_normalizer.scale
    plans = [ActionPlan(Execution(3, draws=4), scale) for _ in "ab"]
    for number, draws in enumerate(found):
        assert draws.shape == (4, 2, HORIZON, ACTION_DIM)
        assert len({tuple(one.flatten().tolist()) for one in draws}) > 1, "the others are sampled"
        for row, plan in enumerate(plans):
            plan.add(draws[:, row].numpy())
            expected = torch.from_numpy(plan.take(3)[0])
            assert torch.equal(actions[row, 3 * number : 3 * number + 3], expected)
    assert len(found) == 2
    alone = make_policy(make_config(folders, **how))
    torch.testing.assert_close(found[0][0], alone.predict_action_chunk(batches[0]))


@pytest.mark.usefixtures("small_network")
def test_lerobots_real_time_chunking(folders: dict[str, str]) -> None:
    """What is executed meanwhile is committed, and the rest of the older chunk is not."""
    policy = make_policy(make_config(folders))
    batch = observation(2)
    plain = policy.predict_action_chunk(batch)
    left = plain.flip(0)[:, 3:]  # what the other row is up to
    told = policy.predict_action_chunk(batch, prev_chunk_left_over=left, inference_delay=2)
    wild = torch.cat([left[:, :2], 9 * left[:, 2:]], dim=1)
    again = policy.predict_action_chunk(batch, prev_chunk_left_over=wild, inference_delay=2)
    assert torch.equal(told, again)
    ids = likeliest(policy, batch, policy.action_tokenizer.max_tokens, left[:, :2])
    torch.testing.assert_close(told, policy.action_tokenizer.decode(ids))
    assert not torch.equal(told, plain)
    for nothing in ({"inference_delay": 0}, {"inference_delay": None}):
        kept = policy.predict_action_chunk(batch, prev_chunk_left_over=left, **nothing)
        assert torch.equal(kept, plain)


@pytest.mark.usefixtures("small_network")
def test_real_time_chunking_of_tokens_without_prefixes_warns_once(
    folders: dict[str, str], dataset: Dataset, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tiny.make_tokenizer("bin", dataset).save_pretrained(tmp_path / "bin")
    policy = make_policy(make_config(folders, action_tokenizer_name=str(path)))
    batch = observation(2)
    plain = policy.predict_action_chunk(batch)
    for _ in range(2):
        policy.reset()
        told = policy.predict_action_chunk(batch, prev_chunk_left_over=plain, inference_delay=2)
        assert torch.equal(told, plain)
    (message,) = caplog.messages
    assert message.startswith("chunks of bin do not go on from the one under way")


@pytest.mark.usefixtures("small_network")
def test_real_time_chunking_asks_for_whole_chunks(folders: dict[str, str]) -> None:
    policy = make_policy(make_config(folders))
    policy.config.rtc_config = SimpleNamespace(enabled=True)
    with pytest.raises(ValueError, match="rtc_config is for predict_action_chunk, which real-time"):
        policy.select_action(observation())


@pytest.mark.usefixtures("small_network")
def test_a_checkpoint_has_its_tokenizer(folders: dict[str, str], tmp_path: Path) -> None:
    from lerobot_policy_oat.modeling_pi0_fast_oat import PI0FastOATPolicy
    from lerobot_policy_oat.versions import IS_BEFORE_0_6

    policy = make_policy(make_config(folders))
    policy.save_pretrained(tmp_path)
    again = PI0FastOATPolicy.from_pretrained(tmp_path)
    assert again.config.action_tokenizer_name == str(tmp_path / "action_tokenizer")
    batch = observation()
    chunk = policy.predict_action_chunk(batch)
    torch.testing.assert_close(again.predict_action_chunk(batch), chunk)

    other = make_policy(make_config(folders, weights_path=str(tmp_path)))
    assert other.config.weights_path is None
    torch.testing.assert_close(other.predict_action_chunk(batch), chunk)

    if not IS_BEFORE_0_6:  # it gathers the weights of a sharded policy
        gathered = {name: value.clone() for name, value in policy.state_dict().items()}
        other.save_pretrained(tmp_path / "gathered", state_dict=gathered)
        again = PI0FastOATPolicy.from_pretrained(tmp_path / "gathered")
        torch.testing.assert_close(again.predict_action_chunk(batch), chunk)

    weights = load_file(tmp_path / "model.safetensors")
    save_file(dict(list(weights.items())[1:]), tmp_path / "model.safetensors")
    with pytest.raises(RuntimeError, match="Missing key"):
        PI0FastOATPolicy.from_pretrained(tmp_path)

    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"type": "pi0_fast"}))
    with pytest.raises(ValueError, match=r"of type pi0_fast, .*--policy\.weights_path="):
        PI0FastOATPolicy.from_pretrained(tmp_path)
