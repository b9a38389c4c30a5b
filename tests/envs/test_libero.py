"""LIBERO: what needs nothing, what needs the package, and what needs its assets too.

`make test-libero` runs these with the package; OATKIT_LIBERO_ASSETS names the folder of the assets.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oatkit.envs import libero, simulator
from oatkit.envs.libero import LIBERO, MAX_STEPS, TASKS, Libero, instruction_of, official_states
from oatkit.envs.simulator import demonstration_seed, evaluation_seed
from oatkit.errors import MissingExtraError, OatkitError
from oatkit.types.observation_keys import ENVIRONMENT_STATE, STATE

HAS_PACKAGE = importlib.util.find_spec("libero") is not None
TASK = "pick_up_the_milk_and_place_it_in_the_basket"


def _has_assets() -> bool:
    try:
        return HAS_PACKAGE and libero.assets_folder().is_dir()
    except OatkitError:
        return False


needs_package = pytest.mark.skipif(not HAS_PACKAGE, reason="needs hf-libero: make test-libero")
needs_assets = pytest.mark.skipif(
    not _has_assets(), reason="needs LIBERO's assets: OATKIT_LIBERO_ASSETS names their folder"
)


def test_there_are_four_suites_of_ten_tasks() -> None:
    assert list(LIBERO) == list(TASKS) == list(MAX_STEPS)
    assert {len(tasks) for tasks in TASKS.values()} == {10}
    assert len({task for tasks in TASKS.values() for task in tasks}) == 40
    for suite, kind in LIBERO.items():
        assert kind.name == suite
        assert kind.default_tasks == tuple(TASKS[suite])
        assert len(set(kind.tasks.values())) == 10, "no two instructions of a suite are equal"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (TASK, "pick up the milk and place it in the basket"),
        ("KITCHEN_SCENE8_put_both_moka_pots_on_the_stove", "put both moka pots on the stove"),
        ("KITCHEN_SCENE10_close_the_top_drawer", "close the top drawer"),
    ],
)
def test_the_instruction_is_in_the_name(name: str, words: str) -> None:
    assert instruction_of(name) == words


@pytest.mark.parametrize(
    ("package", "version", "expected"),
    [("hf-libero", "0.2.0", "0.1.4"), ("robosuite", "1.5.2", "1.4"), ("mujoco", "4.0.0", "3.3")],
)
def test_a_version_that_was_not_tested_does_not_fit(
    package: str, version: str, expected: str
) -> None:
    """The robosuite of the other extra, for example."""
    kind = LIBERO["libero-10"]
    tested = {"hf-libero": "0.1.4", "robosuite": "1.4.0", "mujoco": "3.3.7"}
    assert kind.misfits(tested) == ""
    assert kind.misfits({**tested, package: version}) == (
        f"{package} is {version}, expected {expected}"
    )


def test_another_robosuite_is_named_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions = {"hf-libero": "0.1.4", "robosuite": "1.5.2", "mujoco": "3.3.7"}
    monkeypatch.setattr(simulator, "version", versions.__getitem__)
    message = r"libero-object does not work here: robosuite is 1.5.2, expected 1.4; pip install"
    with pytest.raises(OatkitError, match=message):
        Libero("libero-object", TASK)


def test_wrong_names_are_answered() -> None:
    with pytest.raises(ValueError, match="unknown libero-object task 'pick_up_the_mlk"):
        Libero("libero-object", "pick_up_the_mlk_and_place_it_in_the_basket")
    with pytest.raises(ValueError, match="unknown camera of libero-object 'front'"):
        Libero("libero-object", TASK, {"front": (8, 8)})


@pytest.mark.skipif(HAS_PACKAGE, reason="is about a machine without hf-libero")
def test_a_missing_package_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'oatkit\[libero\]'"):
        Libero("libero-object", TASK)


@contextmanager
def libero_from(folder: Path) -> Iterator[None]:
    """The package in a folder in the place of an installed one."""

    def modules() -> list[str]:
        return [name for name in sys.modules if name.partition(".")[0] == "libero"]

    before = {name: sys.modules.pop(name) for name in modules()}
    sys.modules["libero"] = ModuleType("libero")
    sys.modules["libero"].__path__ = [str(folder)]
    try:
        yield
    finally:
        for name in modules():
            del sys.modules[name]
        sys.modules.update(before)


@pytest.mark.parametrize(
    ("module", "line"),
    [("bddl", "pip install bddl==1.0.1"), ("easydict", "easydict"), ("yaml", "pyyaml")],
)
@pytest.mark.parametrize("importing", ["libero", "libero/envs/env_wrapper"])
def test_a_package_that_libero_imports_is_named(
    package: Path, monkeypatch: pytest.MonkeyPatch, module: str, line: str, importing: str
) -> None:
    """As after the documented installation without dependencies."""
    versions = {"hf-libero": "0.1.4", "robosuite": "1.4.0", "mujoco": "3.3.7"}
    monkeypatch.setattr(simulator, "version", versions.__getitem__)
    monkeypatch.setenv(libero.ASSETS_VARIABLE, str(package))
    monkeypatch.setenv("LIBERO_CONFIG_PATH", "")
    (package / "scenes").mkdir()
    file = package / f"libero/{importing}"
    file = file / "__init__.py" if importing == "libero" else file.with_suffix(".py")
    file.parent.mkdir(parents=True)
    file.write_text(f"import {module}.part")
    monkeypatch.setitem(sys.modules, module, None)
    message = rf"{line}, or everything at once: pip install 'oatkit\[libero\]'"
    with libero_from(package / "libero"), pytest.raises(MissingExtraError, match=message):
        Libero("libero-object", TASK)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a package that has nothing."""
    monkeypatch.setattr(libero, "package_folder", lambda: tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(libero.ASSETS_VARIABLE, raising=False)
    return tmp_path


def test_missing_assets_are_said_in_one_sentence(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OatkitError, match=r"not in .*\.cache/libero/assets: `hf download lerobot"):
        libero.assets_folder()
    monkeypatch.setenv(libero.ASSETS_VARIABLE, str(package / "mine"))
    with pytest.raises(OatkitError, match=r"not in .*mine: .* OATKIT_LIBERO_ASSETS=DIR says where"):
        libero.assets_folder()
    (package / "mine/scenes").mkdir(parents=True)
    assert libero.assets_folder() == package / "mine"
    monkeypatch.chdir(package)  # robosuite looks for relative paths in its own folder
    monkeypatch.setenv(libero.ASSETS_VARIABLE, "mine")
    assert libero.assets_folder() == package / "mine"


def test_official_states_are_read_without_torch(package: Path) -> None:
    folder = package / "init_files/libero_object"
    folder.mkdir(parents=True)
    states = np.arange(6.0).reshape(2, 3)
    for value in (states, OrderedDict()):
        with zipfile.ZipFile(folder / f"{TASK}.pruned_init", "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps(value, protocol=2))
            archive.writestr("archive/version", "3")
        if value is states:
            np.testing.assert_array_equal(official_states("libero-object", TASK), states)
    with pytest.raises(pickle.UnpicklingError, match=r"OrderedDict is no part of an array"):
        official_states("libero-object", TASK)


@needs_package
@pytest.mark.parametrize("suite", TASKS)
def test_every_task_has_fifty_official_states(suite: str) -> None:
    for task in TASKS[suite]:
        assert official_states(suite, task).shape[0] == 50
        assert (libero.package_folder() / "bddl_files" / suite.replace("-", "_")).is_dir()


@pytest.fixture(scope="module")
def milk() -> Iterator[Libero]:
    made = Libero("libero-object", TASK)
    yield made
    made.close()


def play(environment: Libero, seed: int, steps: int = 4) -> list[dict[str, Any]]:
    actions = np.random.default_rng(0).uniform(-1, 1, (steps, 7))
    first = environment.reset(seed)
    return [first, *(environment.step(action).observation for action in actions)]


@needs_assets
def test_an_episode_is_a_function_of_its_seed_and_actions(milk: Libero) -> None:
    seed = evaluation_seed(0, 3)
    before = play(milk, seed)
    play(milk, demonstration_seed(0, 1))
    for one, other in zip(before, play(milk, seed), strict=True):
        assert one.keys() == other.keys() == {STATE, ENVIRONMENT_STATE}
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])
    assert (before[0][STATE].shape, before[0][ENVIRONMENT_STATE].shape) == ((8,), (28,))
    assert not before[0][ENVIRONMENT_STATE][14:].any(), "milk and basket alone matter"


@needs_assets
def test_episodes_begin_as_they_should(milk: Libero) -> None:
    places = [milk.reset(evaluation_seed(0, i))[ENVIRONMENT_STATE] for i in (0, 1, 50)]
    assert not np.array_equal(places[0], places[1])
    np.testing.assert_array_equal(places[0], places[2])  # there are fifty of them
    shown = milk.reset(demonstration_seed(0, 0))[ENVIRONMENT_STATE]
    assert not any(np.allclose(shown, place, atol=1e-3) for place in places)


@needs_assets
def test_the_arm_begins_as_varied_in_demonstrations_as_in_official_states(milk: Libero) -> None:
    def spread(seeds: Iterable[int]) -> NDArray[np.float64]:
        hands = np.stack([milk.reset(seed)[STATE][:3] for seed in seeds])
        return np.asarray(hands.std(axis=0), np.float64)

    demonstrated = spread(demonstration_seed(0, i) for i in range(12))
    official = spread(evaluation_seed(0, i) for i in range(12))
    assert (demonstrated > official / 3).all(), (demonstrated, official)
    assert (demonstrated < 3 * official).all(), (demonstrated, official)


@needs_assets
def test_wrong_actions_and_the_step_limit(milk: Libero, monkeypatch: pytest.MonkeyPatch) -> None:
    milk.reset(evaluation_seed(0, 0))
    for action, message in (
        (np.zeros(6), r"an action has shape \(6,\), expected \(7,\)"),
        (np.full(7, np.nan), "not finite"),
        (np.full(7, 1.5), "outside"),
    ):
        with pytest.raises(ValueError, match=message):
            milk.step(action)
    monkeypatch.setattr(milk, "_steps_left", 1)
    result = milk.step(np.zeros(7))
    assert (result.is_over, result.is_success, result.score) == (True, False, None)
    with pytest.raises(RuntimeError, match="no episode is under way"):
        milk.step(np.zeros(7))


@needs_assets
def test_images_of_both_cameras() -> None:
    environment = Libero(
        "libero-object", TASK, {"agentview": (32, 48), "robot0_eye_in_hand": (24, 24)}
    )
    environment.reset(evaluation_seed(0, 0))
    images = environment.render()
    assert {name: image.shape for name, image in images.items()} == {
        "agentview": (32, 48, 3),
        "robot0_eye_in_hand": (24, 24, 3),
    }
    assert all(image.std() > 5 for image in images.values())
    environment.reset(evaluation_seed(0, 1))  # which replaces the model
    assert environment.render().keys() == images.keys()
    environment.close()


@needs_assets
def test_nothing_is_printed_or_left_and_no_torch_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from oatkit.envs.libero import Libero; "
        f"Libero('libero-object', {TASK!r}).reset(1); print('torch' in sys.modules)"
    )
    how: dict[str, Any] = {"capture_output": True, "text": True, "check": True}
    ran = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, **how
    )
    assert (ran.stdout, ran.stderr) == ("False\n", "")
    assert not list(tmp_path.iterdir()), "the folder that told LIBERO where its files are is gone"


@needs_assets
@pytest.mark.slow
@pytest.mark.parametrize(
    ("suite", "task"), [(suite, task) for suite, tasks in TASKS.items() for task in tasks]
)
def test_every_task_begins_and_goes_on(suite: str, task: str) -> None:
    environment = Libero(suite, task)
    for observation in play(environment, evaluation_seed(0, 0), steps=3):
        assert all(np.isfinite(value).all() for value in observation.values())
        assert observation[ENVIRONMENT_STATE][:3].any()
    environment.close()
