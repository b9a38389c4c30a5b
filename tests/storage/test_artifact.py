"""An artifact that is written over another one is there completely or not at all."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from oatkit.errors import ArtifactError
from oatkit.storage.artifact import (
    COMPLETE,
    CONFIG_BESIDE_LEROBOT,
    WRITING,
    change_config,
    config_file,
    finish_replacing,
    local_folder,
    read_artifact,
    read_unchanged,
    replacing,
    require_free,
    weights_file,
    weights_folder,
    write_artifact,
)
from tests.storage.killed_writer import names_in, write

CONFIG = {"schema": "oatkit/policy", "version": 1}
STATE = {"w": torch.zeros(3, dtype=torch.bfloat16), "b": torch.ones(2, 2).T}


def test_an_artifact_comes_back(tmp_path: Path) -> None:
    write_artifact(tmp_path / "a", CONFIG, STATE, "# card", {"more.txt": b"more"})
    config, state = read_artifact(tmp_path / "a", "policy", 1)
    assert config == CONFIG
    assert all(torch.equal(state[name], tensor) for name, tensor in STATE.items())
    assert {p.name for p in (tmp_path / "a").iterdir()} == {
        *("config.json", "model.safetensors", "README.md", "more.txt")
    }
    assert weights_file(STATE) == (tmp_path / "a/model.safetensors").read_bytes()


def test_a_writer_that_is_killed_at_any_moment_leaves_one_whole_artifact(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.storage.killed_writer", str(tmp_path / "a"), "40"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found.get("first", 0) + found.get("second", 0) == 40
    assert found["half written"] > 0  # kills did hit writers at work


def test_a_crash_at_any_step_leaves_one_whole_artifact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every rename that a save makes is, in turn, the one that never happens."""
    folder, steps, states = tmp_path / "a", 0, set()
    real = {name: getattr(Path, name) for name in ("rename", "replace", "rmdir")}
    write(folder, "first")
    names, crash_at = ["second", "first"], 0

    def counted(name: str) -> Any:
        def call(path: Path, *args: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == crash_at:
                raise KeyboardInterrupt
            return real[name](path, *args)

        return call

    while True:
        crash_at, steps = crash_at + 1, 0
        with monkeypatch.context() as patched:
            for name in real:
                patched.setattr(Path, name, counted(name))
            try:
                write(folder, names[crash_at % 2])
            except KeyboardInterrupt:
                pass
            else:
                break
        states.add((folder / COMPLETE).exists())
        assert len(names_in(folder)) == 1
        assert not (folder / COMPLETE).exists()
    assert crash_at > 10
    assert states == {True, False}  # crashes before and after the new one counts


def test_an_error_while_writing_leaves_the_old_artifact(tmp_path: Path) -> None:
    write(tmp_path, "first")

    def fail() -> None:
        with replacing(tmp_path) as aside:
            (aside / "config.json").write_text("{}")
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert names_in(tmp_path) == {"first"}
    assert not list(tmp_path.glob(".*"))


def test_leftovers_of_killed_writers_go_with_the_next_save(tmp_path: Path) -> None:
    write(tmp_path, "first")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for name in (f"{WRITING}{gone.pid}", f"{WRITING}1"):
        (tmp_path / name).mkdir()
    write(tmp_path, "second")
    assert [p.name for p in tmp_path.glob(".*")] == [f"{WRITING}1"]  # which is running


def test_a_reader_never_gets_parts_of_two_artifacts(tmp_path: Path) -> None:
    """One thread writes, another reads; without the check, reads are mixtures now and then."""
    write(tmp_path, "first")
    is_over, found = threading.Event(), []

    def write_on() -> None:
        while not is_over.is_set():
            write(tmp_path, "second")
            write(tmp_path, "first")
            is_over.wait(0.005)

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        found += [read_unchanged(tmp_path, names_in) for _ in range(60)]
    finally:
        is_over.set()
        writer.join()
    assert all(len(names) == 1 for names in found)


def test_a_reader_gives_up_on_what_never_rests(tmp_path: Path) -> None:
    write(tmp_path, "first")

    def read(path: Path) -> None:
        write(path, "second")

    with pytest.raises(ArtifactError, match="is replaced faster than it can be read"):
        read_unchanged(tmp_path, read)
    with pytest.raises(ArtifactError, match="never mind"):
        read_unchanged(tmp_path, lambda _: (_ for _ in ()).throw(ArtifactError("never mind")))


def test_a_half_moved_artifact_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "first")
    (tmp_path / COMPLETE).mkdir()
    (tmp_path / COMPLETE / "README.md").write_text("second")

    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "read-only")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(ArtifactError, match=r"not moved to its place .*open it once where it can"):
        finish_replacing(tmp_path)


def test_the_config_beside_that_of_lerobot_is_ours(tmp_path: Path) -> None:
    with replacing(tmp_path) as aside:
        write_artifact(aside, CONFIG, STATE, "")
        (aside / "config.json").rename(aside / CONFIG_BESIDE_LEROBOT)
        (aside / "config.json").write_text('{"type": "oat"}')
    assert config_file(tmp_path) == tmp_path / CONFIG_BESIDE_LEROBOT
    write_artifact(tmp_path, CONFIG, STATE, "")
    assert config_file(tmp_path) == tmp_path / "config.json"
    assert not (tmp_path / CONFIG_BESIDE_LEROBOT).exists()
    (tmp_path / CONFIG_BESIDE_LEROBOT).write_text("{}")  # as a crash would leave it
    assert config_file(tmp_path) == tmp_path / "config.json"


def test_a_changed_config_is_as_if_written_so_and_the_weights_stay(tmp_path: Path) -> None:
    write_artifact(tmp_path / "whole", CONFIG | {"auto": {"a": 1}}, STATE, "")
    path = tmp_path / "changed"
    write_artifact(path, CONFIG | {"auto": None}, STATE, "")
    weights = (path / "model.safetensors").stat()
    change_config(path, {"auto": {"a": 1}})
    assert (path / "config.json").read_bytes() == (tmp_path / "whole/config.json").read_bytes()
    assert (path / "model.safetensors").stat() == weights
    assert sorted(p.name for p in path.iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
    ]


def test_a_changed_config_beside_that_of_lerobot_is_ours(tmp_path: Path) -> None:
    write_artifact(tmp_path, CONFIG | {"auto": None}, STATE, "")
    (tmp_path / "config.json").rename(tmp_path / CONFIG_BESIDE_LEROBOT)
    (tmp_path / "config.json").write_text('{"type": "oat"}')
    change_config(tmp_path, {"auto": {"a": 1}})
    assert (tmp_path / "config.json").read_text() == '{"type": "oat"}'
    config, _ = read_artifact(tmp_path, "policy", 1)
    assert config["auto"] == {"a": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "oatkit/tokenizer"}, "holds oatkit/tokenizer, expected oatkit/policy"),
        (
            {"version": 7},
            "holds oatkit/policy in version 7, this oatkit reads versions up to 1",
        ),
        ({"version": None}, "version is None"),
    ],
)
def test_other_artifacts_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    write_artifact(tmp_path, CONFIG | change, STATE, "")
    with pytest.raises(ArtifactError, match=message):
        read_artifact(tmp_path, "policy", 1)


def test_a_folder_without_artifact_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ArtifactError, match=r"it has no config\.json: `oatkit policy train` writes"
    ):
        read_artifact(tmp_path, "policy", 1)
    with pytest.raises(ArtifactError, match="is no folder here and could not be fetched"):
        local_folder(tmp_path / "none")
    (tmp_path / "quick-policy").mkdir()
    with pytest.raises(ArtifactError, match=r"hub: did you mean .*/quick-policy\?$"):
        local_folder(tmp_path / "quick-polic")
    (tmp_path / "quick-policy").rmdir()
    require_free(tmp_path, tmp_path / "a.json")
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(ArtifactError, match=r"holds an artifact, but .*a\.json does not say"):
        require_free(tmp_path, tmp_path / "a.json")


def test_only_robots_that_an_artifact_names_share_its_weights(tmp_path: Path) -> None:
    write_artifact(tmp_path, {"schema": "oatkit/x", "embodiments": ["arm"]}, STATE, "")
    for name in ("arm", "other"):
        write_artifact(tmp_path / name, {"schema": "oatkit/x", "version": 1}, None, "")
    assert weights_folder(tmp_path / "arm") == tmp_path.resolve()
    assert weights_folder(tmp_path) == tmp_path
    assert weights_folder(tmp_path / "other") == tmp_path / "other"
    _, state = read_artifact(tmp_path / "arm", "x", 1)
    assert set(state) == set(STATE)
    with pytest.raises(ArtifactError, match="is no readable x artifact"):
        read_artifact(tmp_path / "other", "x", 1)


def test_a_training_that_was_stopped_is_no_artifact_yet(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(ArtifactError, match="no policy artifact yet, its training was stopped"):
        read_artifact(tmp_path, "policy", 1)
