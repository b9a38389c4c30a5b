from __future__ import annotations

import subprocess
import sys

import pytest

import oatkit
from oatkit import errors


def test_the_public_names_are_exactly_these() -> None:
    assert oatkit.__all__ == [
        "ActionTokenizer",
        "ArtifactError",
        "Chunks",
        "Dataset",
        "DatasetError",
        "DecodeError",
        "Episode",
        "LightPolicy",
        "MissingExtraError",
        "Normalizer",
        "OatkitError",
        "Prediction",
        "Sampling",
        "Schedule",
        "Statistics",
        "Tokens",
        "TrainConfig",
        "TrainingError",
        "VlmPolicy",
        "compare",
        "evaluate",
        "load_policy",
        "load_tokenizer",
        "open_dataset",
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


def test_a_missing_extra_says_how_to_install_it() -> None:
    code = (
        "import sys; sys.modules['h5py'] = None; sys.modules['av'] = None; import oatkit.errors\n"
        "for name in ('oatkit.data.formats.hdf5', 'oatkit.data.video'):\n"
        "    try: __import__(name)\n"
        "    except oatkit.errors.MissingExtraError as error: print(error)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    line = "this needs optional packages: pip install 'oatkit[data]'"
    assert ran.stdout.splitlines() == [line, line]


def test_unknown_names_come_closest_first() -> None:
    message = errors.unknown_name("task", "boxclose", ["assembly", "box-close", "door-close"])
    assert (
        message == "unknown task 'boxclose'; known, closest first: box-close, door-close, assembly"
    )
    many = errors.unknown_name("task", "x", [f"task-{i:02d}" for i in range(20)])
    assert many.endswith("and 12 more")
    assert errors.unknown_name("camera", "top", []) == "unknown camera 'top': there are none"


def test_errors_travel_between_processes() -> None:
    import pickle

    error = pickle.loads(pickle.dumps(errors.MissingExtraError("data")))
    assert "oatkit[data]" in str(error)


def test_no_module_takes_the_place_of_a_function() -> None:
    """A package of the name of a public function would, as soon as it is imported."""
    code = (
        "import pkgutil, oatkit\n"
        "rooms = {module.name for module in pkgutil.iter_modules(oatkit.__path__)}\n"
        "print(sorted(rooms & set(oatkit.__all__)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
