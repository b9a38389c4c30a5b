"""What the version before wrote is used by this one: policies, exports, evaluations that go on."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oatkit
from oatkit.data import Dataset
from oatkit.evaluation.episode_runner import EpisodeRunner
from oatkit.jobs.evaluation_plan import make_rollout, plan_evaluation
from oatkit.jobs.opened_policy import open_for_evaluation
from oatkit.jobs.policy_evaluation import RECORD
from oatkit.types import Execution, PolicyEvaluation, Sampling
from tests.evaluation.plane import PLANE, TASKS

HERE = Path(__file__).parent
POLICIES = HERE.parent / "policies/golden"
DIGESTS = json.loads((HERE / "digests_v1.json").read_text())["policies"]


def golden(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """An observation, and what the policy answered to it without sampling."""
    found = json.loads((POLICIES / name / "golden.json").read_text())
    observation = found["observation"]
    for key, values in observation.items():
        if key != "task":
            dtype = np.uint8 if key.startswith("observation.images") else np.float32
            observation[key] = np.array(values, dtype)
    return observation, found


@pytest.mark.parametrize("name", ["light", "vlm"])
def test_a_policy_acts_as_it_did(name: str) -> None:
    if name == "vlm":
        pytest.importorskip("transformers", reason="needs the extra vlm")
    policy = oatkit.load_policy(POLICIES / name)
    policy.head = "tokens"
    observation, wanted = golden(name)
    found = policy.predict_action_chunk(observation, sampling=Sampling(temperature=0.0))
    assert found.ids.tolist() == wanted["ids"]
    np.testing.assert_allclose(found.chunk, wanted["actions"], rtol=0, atol=1e-5)


def test_the_tokenizer_of_a_vision_language_policy_is_still_known_by_its_digest(
    tmp_path: Path,
) -> None:
    pytest.importorskip("transformers", reason="needs the extra vlm")
    policy = oatkit.load_policy(POLICIES / "vlm")
    stored = json.loads((POLICIES / "vlm/config.json").read_text())
    assert policy.tokenizer.digest == stored["tokenizer_digest"]
    policy.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert written == {"execution": None, **stored}


def test_an_export_acts_as_it_did() -> None:
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    import oatkit_client

    observation, wanted = golden("light")
    greedy = oatkit_client.Sampling(temperature=0.0)
    policy = oatkit_client.LocalPolicy(HERE / "export_v1", sampling=greedy)
    for row, chunk in enumerate(wanted["actions"]):
        one = {key: values[row] for key, values in observation.items()}
        np.testing.assert_allclose(policy.infer(one)["actions"], chunk, rtol=0, atol=1e-4)


def test_an_evaluation_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = json.loads((HERE / "records_v1/policy-evaluation.json").read_text())
    old["settings"]["packages"] = {"numpy": np.__version__}  # others than then may be installed
    (tmp_path / RECORD).write_text(json.dumps(old))
    real, ran = EpisodeRunner.run, []

    def noted(self: EpisodeRunner, plans: Any) -> Any:
        ran.extend((plan.task, plan.budget, plan.episode) for plan in plans)
        return real(self, plans)

    monkeypatch.setattr(EpisodeRunner, "run", noted)
    wanted = {"tasks": ("near", "far"), "budgets": (1, 4), "workers": 1}
    record = oatkit.evaluate(POLICIES / "light", PLANE, episodes=2, out=tmp_path, **wanted)
    assert ran == []
    episodes = [e for e in old["episodes"] if e["budget"] is not None]
    assert [e.is_success for e in record.episodes] == [e["is_success"] for e in old["episodes"]]
    record = oatkit.evaluate(POLICIES / "light", PLANE, episodes=3, out=tmp_path, **wanted)
    assert set(ran) == {(t, b, 2) for t in ("near", "far") for b in (1, 4)}
    assert record.version == PolicyEvaluation.version
    again = oatkit.evaluate(POLICIES / "light", PLANE, episodes=2, **wanted)
    assert [_outcome(asdict(e)) for e in again.episodes] == [_outcome(e) for e in episodes]
    # the thresholds of then belong to another rule
    with pytest.raises(ValueError, match="budget 'auto' has no thresholds"):
        oatkit.evaluate(POLICIES / "light", PLANE, episodes=2, out=tmp_path, budgets=("auto",))


def test_a_comparison_goes_on(tmp_path: Path) -> None:
    """The settings are those of the same call still; tokenizers that are gone are trained again."""
    old = (HERE / "records_v1/tokenizer-comparison.json").read_text()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/comparison.json").write_text(old)
    found = oatkit.compare(
        dataset_of_then(tmp_path / "data"),
        ["oat", "bin", "klt"],
        tmp_path / "out",
        preset="tiny",
        horizon=4,
        num_tokens=2,
        levels=(3, 2),
        train={"steps": 2},
    )
    assert [kind.measurement.kind for kind in found.kinds] == ["oat", "bin", "klt"]
    before = json.loads(old)["kinds"]
    for kind, values in zip(found.kinds[:2], before, strict=False):  # klt is fitted otherwise now
        assert kind.measurement.budgets[-1].mse == pytest.approx(
            values["measurement"]["budgets"][-1]["mse"], rel=1e-4
        )


def dataset_of_then(folder: Path) -> Dataset:
    """The dataset that the files beside were made from."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for index in range(6):
        walk = rng.uniform(-1, 1, (20, 2)).cumsum(axis=0) * 0.2
        columns = {"action": np.tanh(walk), "observation.state": rng.uniform(0, 2, (20, 4))}
        columns["observation.images.front"] = rng.integers(
            256, size=(20, 12, 16, 3), dtype=np.uint8
        )
        np.savez(folder / f"{index}.npz", **columns, task=list(TASKS.values())[index % 2])
    dataset = oatkit.open_dataset(folder, cache_dir=folder.parent)
    assert dataset.fingerprint == json.loads((HERE / "digests_v1.json").read_text())["data"]
    return dataset


LATER = ("latency_ms", "redrawn", "seam_jump", "inner_jump")


def _outcome(episode: dict[str, Any]) -> dict[str, Any]:
    """What decides a result: neither its time nor what was not yet counted then."""
    return {k: v for k, v in episode.items() if k not in LATER}


def test_the_digest_of_a_policy_in_an_evaluation_is_what_it_was() -> None:
    policy = oatkit.load_policy(POLICIES / "light")
    opened = open_for_evaluation(policy, (None,))
    rollout = make_rollout(opened, Execution(), Sampling(), (), None)
    plan = plan_evaluation(opened, PLANE, rollout, ("near",))
    assert plan.settings()["digest"] == DIGESTS["light"]
