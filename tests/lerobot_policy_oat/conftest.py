"""The plugin on LeRobot where it is installed, else on the stand-in of each version."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import nullcontext
from types import ModuleType

import numpy as np
import pytest

import oatkit
from oatkit.data import Dataset
from tests.lerobot_policy_oat import standin
from tests.lerobot_policy_oat.text import write_text_tokenizer
from tests.policies import tiny
from tests.policies.tiny import HORIZON

HAS_LEROBOT = importlib.util.find_spec("lerobot") is not None


@pytest.fixture(
    scope="module", autouse=True, params=["installed"] if HAS_LEROBOT else standin.VERSIONS
)
def plugin(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    with nullcontext() if HAS_LEROBOT else standin.installed(request.param):
        yield importlib.import_module("lerobot_policy_oat")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return oatkit.open_dataset(tiny.write_dataset(tmp_path_factory.mktemp("data") / "npz"))


@pytest.fixture(scope="module")
def tokenizer_path(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> str:
    tokenizer = tiny.make_tokenizer("klt", dataset)
    return str(tokenizer.save_pretrained(tmp_path_factory.mktemp("tokenizer") / "klt"))


@pytest.fixture(scope="module")
def folders(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Artifacts by kind, and the text tokenizer."""
    root = tmp_path_factory.mktemp("tokenizers")
    for kind in ("fast", "klt"):
        tiny.make_tokenizer(kind, dataset).save_pretrained(root / kind)
    write_text_tokenizer(root / "text")
    return {path.name: str(path) for path in root.iterdir()}


@pytest.fixture(scope="module")
def chunks(dataset: Dataset) -> np.ndarray:
    return dataset.chunks(HORIZON).actions(np.arange(0, 100, 20))[0]


@pytest.fixture
def small_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in has one; LeRobot's PaliGemma is made small."""
    if HAS_LEROBOT:
        from tests.lerobot.small_pi0_fast import make_small

        make_small(monkeypatch)
