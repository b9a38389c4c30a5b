from __future__ import annotations

import subprocess
import sys

import pytest

import oatkit


def test_the_public_names_are_exactly_these() -> None:
    assert oatkit.__all__ == [
        "ActionTokenizer",
        "ArtifactError",
        "Chunks",
        "Dataset",
        "DatasetError",
        "DecodeError",
        "Episode",
        "MissingExtraError",
        "Mixture",
        "Normalizer",
        "OatkitError",
        "Policy",
        "Prediction",
        "Sampling",
        "Schedule",
        "Statistics",
        "Tokens",
        "TrainConfig",
        "TrainingError",
        "compare",
        "evaluate",
        "launch",
        "load_policies",
        "load_policy",
        "load_tokenizer",
        "open_dataset",
        "open_mixture",
        "train_mixture_policy",
        "train_mixture_tokenizer",
        "train_policy",
        "train_tokenizer",
    ]
    for name in oatkit.__all__:
        assert getattr(oatkit, name).__name__ == name
        assert name in dir(oatkit)
    with pytest.raises(AttributeError, match="no attribute 'open_datset'"):
        _ = oatkit.open_datset


def test_import_is_light() -> None:
    heavy = "transformers metaworld gymnasium mujoco h5py zarr av torch"
    code = (
        "import sys, oatkit, oatkit.cli; "
        f"print([m for m in '{heavy}'.split() if m in sys.modules]); "
        "import oatkit.data; oatkit.open_dataset; "
        f"print([m for m in '{heavy}'.split() if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["[]", "[]"]


def test_no_module_takes_the_place_of_a_function() -> None:
    """A package of the name of a public function would, as soon as it is imported."""
    code = (
        "import pkgutil, oatkit\n"
        "rooms = {module.name for module in pkgutil.iter_modules(oatkit.__path__)}\n"
        "print(sorted(rooms & set(oatkit.__all__)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
