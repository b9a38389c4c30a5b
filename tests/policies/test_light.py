"""The light policy on every kind of tokenizer: predictions, budgets, artefacts, errors."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import oatkit
from oatkit.data import Dataset
from oatkit.errors import ArtefactError, DecodeError
from oatkit.policies import LightConfig, LightPolicy, auto, prediction
from oatkit.policies.bar import Stage
from oatkit.policies.observation import IMAGES, STATE
from oatkit.tokenizers import KINDS
from oatkit.types import Schedule, Tokens
from tests.policies import tiny

PREFIXED = ("oat", "oat-pow2", "klt")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data")
    return oatkit.open_dataset(tiny.write_dataset(folder / "npz"), cache_dir=folder / "cache")


@pytest.fixture(scope="module")
def policies(dataset: Dataset) -> dict[str, LightPolicy]:
    return {kind: tiny.make_policy(kind, dataset) for kind in KINDS}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def saying(tokens: Tokens, policy: LightPolicy) -> Any:
    """In place of a policy's feed: one that says these tokens, each row with its end."""
    wanted = torch.full((len(tokens), policy.tokenizer.max_tokens), policy.net.end_id)
    for row, ids, length in zip(wanted, tokens.ids, tokens.lengths, strict=True):
        row[:length] = ids[:length]
    slots = iter(range(policy.tokenizer.max_tokens))

    def feed(inputs: Tensor, stage: Stage) -> Tensor:
        num_outputs = policy.tokenizer.vocab_size + 1
        return torch.nn.functional.one_hot(wanted[:, next(slots), None], num_outputs) * 50.0

    return feed


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "fast"])
def test_every_kind_predicts_raw_chunks(
    kind: str, policies: dict[str, LightPolicy], dataset: Dataset
) -> None:
    policy = policies[kind]
    observation = tiny.batch(policy, dataset)
    found = policy.predict_action_chunk(observation, generator=seeded())
    tokenizer = policy.tokenizer
    assert found.chunk.shape == (3, tiny.HORIZON, tiny.ACTION_DIM)
    assert found.ids.shape == found.entropy_bits.shape == (3, tokenizer.max_tokens)
    assert 0 <= found.ids.min() <= found.ids.max() < tokenizer.vocab_size
    np.testing.assert_array_equal(found.chunk, tokenizer.decode(found.ids))
    assert (found.entropy_bits > 0).all()
    assert found.budget.tolist() == [tokenizer.max_tokens] * 3
    assert found.calls.tolist() == [tokenizer.schedule.calls] * 3
    assert found.draws.tolist() == [1] * 3
    again = policy.predict_action_chunk(observation, generator=seeded())
    np.testing.assert_array_equal(again.ids, found.ids)
    other = policy.predict_action_chunk(observation, generator=seeded(1))
    assert (other.ids != found.ids).any()


def test_bin_is_generated_in_blocks_of_an_action(policies: dict[str, LightPolicy]) -> None:
    assert set(policies["bin"].schedule.block_sizes) == {tiny.ACTION_DIM}


@pytest.mark.parametrize("kind", ["oat", "oat-pow2", "bin"])
def test_a_batch_is_its_rows(kind: str, policies: dict[str, LightPolicy], dataset: Dataset) -> None:
    policy = policies[kind]
    observation = tiny.batch(policy, dataset, 4)
    together = policy.predict_action_chunk(observation, generator=[seeded(i) for i in range(4)])
    for i in range(4):
        alone = policy.predict_action_chunk(tiny.row(observation, i), generator=[seeded(i)])
        np.testing.assert_array_equal(alone.ids[0], together.ids[i])


def test_what_is_observed_matters(policies: dict[str, LightPolicy], dataset: Dataset) -> None:
    policy = policies["oat-pow2"]
    observation = tiny.row(tiny.batch(policy, dataset), 0)
    found = policy.predict_action_chunk(observation, generator=seeded())
    other_state = observation | {STATE: observation[STATE] + 1}
    other_task = observation | {"task": [tiny.TASKS[1]]}
    assert observation["task"] == [tiny.TASKS[0]]
    for other in (other_state, other_task):
        changed = policy.predict_action_chunk(other, generator=seeded())
        assert np.abs(changed.entropy_bits - found.entropy_bits).max() > 1e-4


@pytest.mark.parametrize("reads_state", [True, False])
def test_images_are_read(dataset: Dataset, reads_state: bool) -> None:
    policy = tiny.make_policy("klt", dataset, cameras=("front",), reads_state=reads_state)
    observation = tiny.row(tiny.batch(policy, dataset), 0)
    if not reads_state:
        observation.pop(STATE)
    found = policy.predict_action_chunk(observation, generator=seeded())
    key = f"{IMAGES}front"
    dark = observation | {key: observation[key] // 2}
    changed = policy.predict_action_chunk(dark, generator=seeded())
    assert np.abs(changed.entropy_bits - found.entropy_bits).max() > 1e-5
    as_lerobot = {
        **observation,
        key: torch.from_numpy(observation[key]).movedim(-1, -3).float() / 255,
    }
    same = policy.predict_action_chunk(as_lerobot, generator=seeded())
    assert isinstance(same.chunk, torch.Tensor)
    np.testing.assert_allclose(same.chunk.numpy(), found.chunk, rtol=1e-5)


def test_one_frame_at_a_time_is_a_batch_with_history(
    policies: dict[str, LightPolicy], dataset: Dataset
) -> None:
    policy = policies["oat-pow2"]
    chunks = dataset.chunks(tiny.HORIZON, history=2)
    wanted = chunks.batch([0, 1, 2, 3])
    policy.reset()
    for frame in range(4):
        now = {STATE: wanted[STATE][frame, -1], "task": wanted["task"][frame]}
        if frame == 2:
            policy.observe(now)
            continue
        found = policy.predict_action_chunk(now, generator=seeded(frame))
        batch = policy.predict_action_chunk(tiny.row(wanted, frame), generator=seeded(frame))
        assert found.chunk.shape == (tiny.HORIZON, tiny.ACTION_DIM)
        assert (found.budget, found.calls) == (8, 4)
        np.testing.assert_allclose(found.entropy_bits, batch.entropy_bits[0], atol=1e-5)
    policy.reset()
    with pytest.raises(ValueError, match=r"observe\(\) takes one frame"):
        policy.observe(tiny.row(wanted, 0))


# Budgets


@pytest.mark.parametrize("kind", PREFIXED)
def test_budgets_nest(kind: str, policies: dict[str, LightPolicy], dataset: Dataset) -> None:
    """The same draws at every budget; inside a block the surplus is dropped."""
    policy = policies[kind]
    observation = tiny.batch(policy, dataset)
    full = policy.predict_action_chunk(observation, generator=seeded())
    for budget in np.arange(1, policy.tokenizer.max_tokens + 1):
        found = policy.predict_action_chunk(observation, budget=budget, generator=seeded())
        np.testing.assert_array_equal(found.ids[:, :budget], full.ids[:, :budget])
        wanted = policy.tokenizer.decode(full.ids, budget=budget)
        np.testing.assert_allclose(found.chunk, wanted, rtol=1e-4, atol=1e-5)
        assert found.budget.tolist() == [budget] * 3
        assert found.calls.tolist() == [policy.schedule.calls_for(budget)] * 3
        assert found.ids.shape[1] == policy.schedule.endpoints[found.calls[0] - 1]


def test_auto_stops_by_its_rules_and_never_looks_ahead(
    policies: dict[str, LightPolicy], dataset: Dataset
) -> None:
    policy = policies["oat-pow2"]
    observation = tiny.batch(policy, dataset, 16)
    tokenizer, endpoints = policy.tokenizer, policy.schedule.endpoints
    full = policy.predict_action_chunk(observation, generator=seeded())
    chunks = [tokenizer.decode(full.ids, budget=b) for b in endpoints]
    scale = tokenizer.normalizer.scale
    change = np.stack(
        [np.full(16, np.inf)]
        + [np.sqrt(np.square((b - a) / scale).mean(axis=(1, 2))) for a, b in pairwise(chunks)],
        axis=1,
    )
    blocks = pairwise((0, *endpoints))
    entropy = np.stack([full.entropy_bits[:, a:b].mean(axis=1) for a, b in blocks], axis=1)
    # between two rows, so that rounding decides nothing
    most_change, most_entropy = np.quantile(change[:, 1:], 0.503), np.quantile(entropy, 0.103)
    limits = auto.AutoThresholds(float(most_change), float(most_entropy))
    policy.auto = limits
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    stops = (change <= limits.change) | (entropy <= limits.entropy_bits)
    stops[:, -1] = True
    stage = stops.argmax(axis=1)
    assert len(set(stage.tolist())) > 1, "rows stop at different stages"
    assert found.calls.tolist() == (stage + 1).tolist()
    assert found.budget.tolist() == [endpoints[s] for s in stage]
    for i, s in enumerate(stage):
        np.testing.assert_allclose(found.chunk[i], chunks[s][i], rtol=1e-4, atol=1e-5)
        alone = policy.predict_action_chunk(
            tiny.row(observation, i), budget="auto", generator=seeded()
        )
        assert alone.ids.shape[1] == alone.budget[0], "no stage is run past the stop"
    policy.auto = auto.AutoThresholds(-1.0, -1.0)
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    np.testing.assert_array_equal(found.ids, full.ids)


def test_thresholds_are_the_cheapest_that_are_allowed() -> None:
    rng = np.random.default_rng(0)
    excess = np.sort(rng.random((200, 4)), axis=1)[:, ::-1] * [1, 1, 1, 0]
    excess[:100, 1:] = 0  # half of the rows are finished after stage 2
    change = np.concatenate([np.full((200, 1), np.inf), -np.diff(excess, axis=1)], axis=1)
    change[:100, 1] = 0
    entropy = rng.random((200, 4)) + 1

    def mean_calls_and_excess(allowed: float) -> tuple[float, float]:
        found = auto.calibrate(change, entropy, excess, allowed)
        stops = (change <= found.change) | (entropy <= found.entropy_bits)
        stops[:, -1] = True
        stage = stops.argmax(axis=1)
        return float(stage.mean()) + 1, float(excess[np.arange(200), stage].mean())

    none, some, much = (mean_calls_and_excess(allowed) for allowed in (0.0, 0.1, 0.3))
    assert none == (3, 0), "two calls for one half, four for the other"
    assert none[0] > some[0] > much[0]
    assert some[1] <= 0.1
    assert much[1] <= 0.3
    flat = auto.calibrate(change[:, :1], entropy[:, :1], excess[:, :1], 1.0)
    assert flat == auto.AutoThresholds(-1.0, -1.0)


def test_a_policy_calibrates_itself(dataset: Dataset) -> None:
    policy = tiny.make_policy("klt", dataset)
    observation = tiny.batch(policy, dataset, 32)
    with pytest.raises(ValueError, match="budget 'auto' has no thresholds"):
        policy.predict_action_chunk(observation, budget="auto")
    read, _ = policy.spec.read(observation)
    policy.calibrate(read, torch.from_numpy(observation["action"]), seeded())
    assert policy.auto is not None
    found = policy.predict_action_chunk(observation, budget="auto", generator=seeded())
    assert (found.calls <= policy.schedule.calls).all()
    whole = tiny.make_policy("bin", dataset)
    whole.calibrate(read, torch.from_numpy(observation["action"]), seeded())
    assert whole.auto is None


def test_a_deadline_takes_the_last_trained_budget_that_fits(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that ticks 1 ms a stage, and a table that says so."""
    policy = tiny.make_policy("oat", dataset)  # token-wise, trained at 1, 2, 4 and 6
    observation = tiny.row(tiny.batch(policy, dataset), 0)
    policy.acting.latencies[1, policy.schedule] = prediction.Latency((1.0,) * 6, 0.5)
    now = [0.0]
    real = prediction.generate

    def ticking(*args: Any, **kwargs: Any) -> Any:
        for stage in real(*args, **kwargs):
            now[0] += 0.001
            yield stage

    monkeypatch.setattr(prediction, "generate", ticking)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    for deadline_ms, budget in (
        (0.1, 1),
        (1.6, 1),
        (2.6, 2),
        (3.6, 2),
        (4.6, 4),
        (6.6, 6),
        (99, 6),
    ):
        found = policy.predict_action_chunk(observation, deadline_ms=deadline_ms)
        assert (found.budget[0], found.calls[0]) == (budget, budget), deadline_ms
    found = policy.predict_action_chunk(observation, deadline_ms=99, budget=3)
    assert found.budget[0] == 3


def test_latency_is_measured_once(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat-pow2", dataset)
    latency = policy.latency()
    assert len(latency.stages_ms) == policy.schedule.calls
    assert min(*latency.stages_ms, latency.decode_ms) > 0
    assert policy.latency() is latency
    observation = tiny.row(tiny.batch(policy, dataset), 0)
    assert policy.predict_action_chunk(observation, deadline_ms=1e6).budget[0] == 8
    assert policy.predict_action_chunk(observation, deadline_ms=1e-3).budget[0] == 1
    whole = tiny.make_policy("bin", dataset)
    with pytest.warns(UserWarning, match="bin decodes only all of its tokens: deadline_ms is ig"):
        whole.predict_action_chunk(observation, deadline_ms=1)


def test_another_schedule_warns_once(dataset: Dataset) -> None:
    policy = tiny.make_policy("oat-pow2", dataset)
    observation = tiny.batch(policy, dataset)
    with pytest.warns(UserWarning, match=r"trained to generate \[1, 2, 4, 8\] tokens stage by"):
        found = policy.predict_action_chunk(observation, schedule=Schedule.one_shot(8))
    assert found.calls.tolist() == [1, 1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy.predict_action_chunk(observation, schedule=Schedule.one_shot(8))
        policy.predict_action_chunk(observation, schedule=Schedule.pow2(8))
    with pytest.warns(UserWarning, match="stage by stage"):
        found = policy.predict_action_chunk(observation, schedule=Schedule((1, 3)))
    assert found.budget.tolist() == [3, 3, 3]


# FAST


def test_fast_ends_with_its_symbol(dataset: Dataset) -> None:
    policy = tiny.make_policy("fast", dataset)
    observation = tiny.batch(policy, dataset)
    tokens = policy.tokenizer.encode(observation["action"])
    lengths = tokens.lengths
    policy.start = lambda *_: saying(tokens, policy)  # type: ignore[method-assign]
    found = policy.predict_action_chunk(observation)
    assert found.budget.tolist() == lengths.tolist()
    assert found.calls.tolist() == [min(n + 1, policy.schedule.calls) for n in lengths.tolist()]
    wanted = policy.tokenizer.decode(tokens).numpy()
    np.testing.assert_allclose(found.chunk, wanted, atol=1e-5)


def test_fast_draws_again_and_then_says_so(dataset: Dataset) -> None:
    policy = tiny.make_policy("fast", dataset)
    observation = tiny.batch(policy, dataset)
    with pytest.raises(DecodeError, match=r"3 of 3 sequences did not decode in 10 draws; the last"):
        policy.predict_action_chunk(observation, generator=seeded())
    real = policy.tokenizer.decode
    calls: list[int] = []

    def decode(tokens: Tokens, budget: int | None = None) -> Tensor:
        calls.append(1)
        if len(calls) in (2, 4):  # row 1 twice
            raise DecodeError("short")
        return torch.zeros(1, tiny.HORIZON, tiny.ACTION_DIM)

    policy.tokenizer.decode = decode  # type: ignore[assignment, method-assign]
    found = policy.predict_action_chunk(observation, generator=[seeded(i) for i in range(3)])
    assert found.draws.tolist() == [1, 3, 1]
    assert len(calls) == 5
    assert found.chunk.shape == (3, tiny.HORIZON, tiny.ACTION_DIM)
    policy.tokenizer.decode = real  # type: ignore[method-assign]


def test_relaxed_fast_mends_instead(dataset: Dataset) -> None:
    policy = tiny.make_policy("fast", dataset)
    policy.tokenizer.codec = policy.tokenizer.codec.relaxed()
    found = policy.predict_action_chunk(tiny.batch(policy, dataset), generator=seeded())
    assert found.draws.tolist() == [1, 1, 1]
    assert np.isfinite(found.chunk).all()
    prefix = policy.predict_action_chunk(tiny.batch(policy, dataset), budget=3, generator=seeded())
    assert (prefix.budget <= 3).all()
    assert prefix.ids.shape == prefix.entropy_bits.shape
    with pytest.raises(ValueError, match="fast decodes only all of its tokens: budget auto"):
        policy.predict_action_chunk(tiny.batch(policy, dataset), budget="auto")
    assert len(policy.latency().stages_ms) == policy.schedule.calls


# Training


def test_a_policy_acts_by_its_latest_weights(dataset: Dataset) -> None:
    policy = tiny.make_policy("klt", dataset)
    observation = tiny.batch(policy, dataset)
    before = policy.predict_action_chunk(observation, generator=seeded())
    frozen = policy._frozen
    policy.predict_action_chunk(observation, generator=seeded())
    assert policy._frozen is frozen
    with torch.no_grad():
        policy.net.decoder.bias += torch.randn_like(policy.net.decoder.bias)
    after = policy.predict_action_chunk(observation, generator=seeded())
    assert np.abs(after.entropy_bits - before.entropy_bits).max() > 1e-3
    with torch.inference_mode():
        copy = tiny.make_policy("klt", dataset)
        copy.predict_action_chunk(observation)


@pytest.mark.parametrize("kind", list(KINDS))
def test_the_loss_falls(kind: str, dataset: Dataset) -> None:
    policy = tiny.make_policy(kind, dataset)
    observation = tiny.batch(policy, dataset, 16)
    tokens = policy.tokenizer.encode(observation["action"])
    read, _ = policy.spec.read(observation)
    optimizer = torch.optim.Adam(policy.net.parameters(), 1e-2)
    losses = []
    for _ in range(15):
        loss = policy.net.loss(read, tokens, policy.schedule)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    unused = [name for name, p in policy.net.named_parameters() if p.grad is None]
    assert unused == []


def test_the_default_has_about_five_million_parameters(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("oat-pow2", dataset, levels=(8, 5, 5, 5))
    policy = LightPolicy.for_dataset(LightConfig(), tokenizer, dataset)
    count = sum(p.numel() for p in policy.net.parameters())
    assert 4.5e6 < count < 5.5e6
    assert f"{count:,} parameters" in repr(policy)


# The artefact


@pytest.mark.parametrize("kind", list(KINDS))
def test_an_artefact_is_the_same_policy(
    kind: str, policies: dict[str, LightPolicy], dataset: Dataset, tmp_path: Path
) -> None:
    policy = policies[kind]
    policy.extras = {"note": "kept"}
    policy.save_pretrained(tmp_path / "p")
    back = oatkit.load_policy(tmp_path / "p")
    assert back.to_json() == policy.to_json()
    assert (back.extras, back.auto, back.schedule) == (policy.extras, policy.auto, policy.schedule)
    names = {"config.json", "model.safetensors", "README.md", "tokenizer"}
    assert {p.name for p in (tmp_path / "p").iterdir()} == names
    if kind != "fast":
        observation = tiny.batch(policy, dataset)
        a, b = (p.predict_action_chunk(observation, generator=seeded()) for p in (policy, back))
        np.testing.assert_array_equal(a.ids, b.ids)
        np.testing.assert_array_equal(a.chunk, b.chunk)


def test_an_artefact_keeps_schedule_and_cameras(dataset: Dataset, tmp_path: Path) -> None:
    tokenizer = tiny.make_tokenizer("oat", dataset)
    config = replace(tiny.CONFIG, endpoints=(2, 6))
    policy = LightPolicy.for_dataset(config, tokenizer, dataset, history=3, cameras=("front",))
    policy.auto = auto.AutoThresholds(0.5, 0.25)
    policy.save_pretrained(tmp_path)
    back = oatkit.load_policy(tmp_path)
    assert back.schedule == Schedule((2, 6))
    assert back.spec.cameras == {"front": (tiny.HEIGHT, tiny.WIDTH)}
    assert (back.spec.history, back.spec.tasks) == (3, tiny.TASKS)
    assert back.auto == policy.auto
    assert "camera `front`, 20 x 24" in (tmp_path / "README.md").read_text()


def test_broken_artefacts(dataset: Dataset, tmp_path: Path) -> None:
    policy = tiny.make_policy("bin", dataset)
    policy.save_pretrained(tmp_path / "p")
    with pytest.raises(ArtefactError, match="is of the kind 'tokenizer', expected a policy"):
        oatkit.load_policy(tmp_path / "p/tokenizer")
    config = json.loads((tmp_path / "p/config.json").read_text())
    config["net"]["width"] = 32
    (tmp_path / "p/config.json").write_text(json.dumps(config))
    with pytest.raises(ArtefactError, match=r"model.safetensors is of another config"):
        oatkit.load_policy(tmp_path / "p")
    (tmp_path / "p/model.safetensors").write_bytes(b"short")
    with pytest.raises(ArtefactError, match="is no readable policy artefact"):
        oatkit.load_policy(tmp_path / "p")


# Bad input


def _bad(**changes: Any) -> Any:
    return lambda o: {k: v for k, v in (o | changes).items() if v is not None}


FRONT = f"{IMAGES}front"
BAD = {
    "no state": (_bad(**{STATE: None}), r"the observation has no 'observation.state'; it has \["),
    "no image": (_bad(**{FRONT: None}), r"the observation has no 'observation.images.front'"),
    "no task": (_bad(task=None), "the observation has no 'task'"),
    "task None": (lambda o: o | {"task": None}, "the observation has no 'task'; it has"),
    "task number": (_bad(task=3), "unknown task '3'; known, closest first"),
    "ragged": (_bad(**{STATE: [[0.0], [1.0, 2.0]]}), "observation.state is no array: setting an"),
    "empty": (
        _bad(**{STATE: np.zeros((0, 2, 5)), FRONT: np.zeros((0, 2, 20, 24, 3), np.uint8)}),
        "the batch of observations is empty",
    ),
    "state dim": (
        _bad(**{STATE: np.zeros((2, 2, 4))}),
        r"observation.state is \(2, 2, 4\), expected \(5,\) for one frame or \(batch, 2, 5\)",
    ),
    "history": (_bad(**{STATE: np.zeros((2, 3, 5))}), r"observation.state is \(2, 3, 5\)"),
    "rank": (_bad(**{STATE: np.zeros((2, 5))}), r"observation.state is \(2, 5\)"),
    "NaN": (_bad(**{STATE: np.full((2, 2, 5), np.nan)}), "observation.state is not finite"),
    "text": (_bad(**{STATE: [["a"]]}), "observation.state holds <U1, expected numbers"),
    "image size": (
        _bad(**{FRONT: np.zeros((2, 2, 20, 25, 3), np.uint8)}),
        r"observation.images.front is \(2, 2, 20, 25, 3\), expected \(20, 24, 3\) for one frame",
    ),
    "image range": (
        _bad(**{FRONT: np.full((2, 2, 20, 24, 3), 200.0)}),
        "observation.images.front has values from 200 to 200, expected floats from 0 to 1",
    ),
    "image type": (
        _bad(**{FRONT: np.zeros((2, 2, 20, 24, 3), np.int64)}),
        "observation.images.front is torch.int64, expected uint8 or floats from 0 to 1",
    ),
    "image NaN": (
        _bad(**{FRONT: np.full((2, 2, 20, 24, 3), np.nan)}),
        "observation.images.front is not finite",
    ),
    "batch": (
        _bad(**{STATE: np.zeros((3, 2, 5))}),
        r"batch and history differ between parts of the observation: observation.state \(3, 2\)",
    ),
    "camera": (
        _bad(**{f"{IMAGES}frnt": np.zeros((2, 2, 20, 24, 3))}),
        "unknown camera 'frnt'; known, closest first: front",
    ),
    "task": (
        _bad(task=["open the dor", tiny.TASKS[0]]),
        "unknown task 'open the dor'; known, closest first: open the door, close the door",
    ),
    "tasks": (_bad(task=[tiny.TASKS[0]]), "there are 1 tasks for 2 observations"),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_observations(case: str, dataset: Dataset) -> None:
    policy = tiny.make_policy("klt", dataset, cameras=("front",))
    change, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        policy.predict_action_chunk(change(tiny.batch(policy, dataset, 2)))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("oat-pow2", {"budget": 0}, "budget 0 is outside 1 .. 8"),
        ("oat-pow2", {"budget": 9}, "budget 9 is outside 1 .. 8"),
        ("oat-pow2", {"budget": "all"}, "budget is 'all', expected a number of tokens or 'auto'"),
        ("oat-pow2", {"schedule": Schedule.one_shot(9)}, "the schedule ends at 9 tokens, oat-pow2"),
        (
            "oat-pow2",
            {"schedule": Schedule.pow2(4), "budget": 5},
            r"budget 5 is outside 1 \.\. 4, where the schedule ends at 4",
        ),
        ("oat-pow2", {"temperature": -1.0}, "temperature is -1.0, expected 0 or more"),
        ("oat-pow2", {"top_k": 0}, "top_k is 0, expected at least 1"),
        ("oat-pow2", {"deadline_ms": 0}, "deadline_ms is 0, expected more than 0"),
        ("bin", {"budget": 5}, r"bin decodes only all of its tokens: budget 5 is none of \[24\]"),
        ("quest", {"budget": "auto"}, "quest decodes only all of its tokens: budget auto is none"),
        ("fast", {"budget": 3}, "fast decodes only all of its tokens: budget 3 is none of"),
    ],
)
@pytest.mark.filterwarnings("ignore:the policy was trained")
def test_bad_options(
    kind: str,
    options: dict[str, Any],
    message: str,
    policies: dict[str, LightPolicy],
    dataset: Dataset,
) -> None:
    policy = policies[kind]
    with pytest.raises(ValueError, match=message):
        policy.predict_action_chunk(tiny.batch(policy, dataset), **options)


def test_a_tokenizer_of_another_action_dim(dataset: Dataset) -> None:
    tokenizer = tiny.make_tokenizer("bin", dataset)
    other = oatkit.open_dataset(dataset.path, action_dims=[0, 1])
    with pytest.raises(ValueError, match=r"the tokenizer is for 3 action dimensions, .* has 2"):
        LightPolicy.for_dataset(tiny.CONFIG, tokenizer, other)
    with pytest.raises(ValueError, match="unknown camera 'frnt'"):
        LightPolicy.for_dataset(tiny.CONFIG, tokenizer, dataset, cameras=("frnt",))
    with pytest.raises(ValueError, match="reads neither state nor cameras observes nothing"):
        LightPolicy.for_dataset(tiny.CONFIG, tokenizer, dataset, reads_state=False)
    with pytest.raises(ValueError, match="the schedule ends at 8 tokens, bin has 24"):
        LightPolicy.for_dataset(replace(tiny.CONFIG, endpoints=(8,)), tokenizer, dataset)
    with pytest.raises(ValueError, match="width 16 is not divided by 3 heads"):
        replace(tiny.CONFIG, num_heads=3)
    with pytest.raises(ValueError, match="crop_size 36 exceeds image_size 20"):
        replace(tiny.CONFIG, image_size=20)
    with pytest.raises(ValueError, match="crop_size is 32, expected at least 33"):
        replace(tiny.CONFIG, crop_size=32)
