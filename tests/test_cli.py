"""The commands as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from oatkit import cli
from oatkit.commands import doctor
from oatkit.commands.data_info import sparkline
from oatkit.commands.doctor import Doctor
from tests.data import datasets
from tests.data.datasets import make_demos


def run(args: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        code = cli.main(args)
    except SystemExit as stop:  # tyro's --help and parse errors
        code = int(stop.code or 0)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def leaves(node: cli.Group | cli.Command, words: list[str]) -> list[list[str]]:
    if isinstance(node, cli.Command):
        return [words]
    return [leaf for name, child in node.commands.items() for leaf in leaves(child, [*words, name])]


def command(words: list[str]) -> cli.Command:
    node: cli.Group | cli.Command = cli.OATKIT
    for word in words:
        assert isinstance(node, cli.Group)
        node = node.commands[word]
    assert isinstance(node, cli.Command)
    return node


COMMANDS = leaves(cli.OATKIT, [])


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_shows_a_real_example(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run([*words, "--help"], capsys)
    assert code == 0
    assert "Example:" in out
    assert f"oatkit {' '.join(words)}" in out.split("Example:")[1]


@pytest.mark.parametrize("words", [[], ["data"], ["data", "make"]], ids=" ".join)
def test_every_group_lists_its_commands(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run([*words, "--help"], capsys)
    assert code == 0
    assert "example:\n  oatkit" in out
    assert run(words, capsys)[0] == 2, "no command is an error"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"], capsys)[:2] == (0, "oatkit 0.1.0\n")


def test_a_mistyped_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(["data", "inof"], capsys)
    assert code == 2
    assert err.startswith("error: unknown command 'oatkit data inof'; known, closest first: info")


def test_errors_are_one_line_unless_debugging(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(["data", "info", str(tmp_path)], capsys)
    assert (code, err) == (2, f"error: {tmp_path} is an empty folder, expected a dataset\n")
    (tmp_path / "notes.txt").write_text("hello")
    code, out, err = run(["data", "info", str(tmp_path)], capsys)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {tmp_path} is of no known dataset format")
    assert err.count("\n") == 1
    with pytest.raises(Exception, match="is of no known dataset format"):
        cli.main(["data", "info", str(tmp_path), "--debug"])


def test_a_wrong_flag_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, _ = run(["data", "check", "x", "--horizn", "3"], capsys)
    assert code == 2


def test_data_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = datasets.write_lerobot_v3(tmp_path / "d", make_demos(), codec="h264")
    record = tmp_path / "records" / "info.json"
    code, out, _ = run(["data", "info", str(root), "--out", str(record)], capsys)
    assert code == 0
    for text in (
        "LeRobot v3.0",
        "39  (3.9 seconds)",
        "7 / 10 / 12 / 16 / 20",
        "front  48x64",
        "3 x stack the cups",
        f"next: oatkit data check {root}",
    ):
        assert text in out
    lines = {
        line.split()[1]: line.split() for line in out.splitlines() if line[:3].strip().isdigit()
    }
    actions = np.concatenate([d.actions for d in make_demos()])
    assert lines["z"][2] == f"{actions[:, 2].min():.3g}"
    assert lines["z"][6] == f"{actions[:, 2].max():.3g}"
    saved = json.loads(record.read_text())
    assert (saved["schema"], saved["version"]) == ("oatkit/dataset-info", 1)
    assert sum(saved["action"][0]["histogram"]) == 39


def test_data_info_of_chosen_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = datasets.write_robomimic(tmp_path / "d.hdf5", make_demos())
    cache = tmp_path / "elsewhere"
    flags = ["--action-key", "obs/object", "states", "--state-key", "actions", "--action-dims"]
    more = [*flags, "0", "states_1", "--fps", "25", "--cache", str(cache)]
    code, out, _ = run(["data", "info", str(path), *more], capsys)
    assert code == 0
    assert "action  obs/object + states" in out
    assert "states_1" in out
    assert "states_0" not in out
    assert "fps            25" in out
    assert list(cache.rglob("actions.npy"))


def test_data_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    demos = make_demos((40, 40))
    demos[1].actions[5, 2] = np.nan
    path = str(datasets.write_npz_folder(tmp_path / "d", demos))
    record = tmp_path / "check.json"
    code, out, _ = run(["data", "check", path, "--out", str(record)], capsys)
    assert code == 1
    assert "non-finite" in out
    assert "episode 1 frame 5" in " ".join(out.replace("│", " ").split())
    assert "1 finding\n" in out
    (finding,) = json.loads(record.read_text())["findings"]
    assert (finding["kind"], finding["episode"], finding["frame"]) == ("non-finite", 1, 5)

    code, out, _ = run(["data", "check", path, "--ignore", "non-finite"], capsys)
    assert (code, out.splitlines()[-2]) == (0, "nothing wrong found, 1 ignored")
    assert out.splitlines()[-1].startswith(f"next: oatkit tokenizer train --data {path}")
    code, out, _ = run(["data", "check", path, "--ignore", "non-finite", "--horizon", "41"], capsys)
    assert code == 1
    assert "short-episode" in out


def test_doctor_names_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", {"data": ("h5py",), "fancy": ("no-such-package",)})
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = run(["doctor"], capsys)
    assert code == 0
    assert "2.13.0" in out or "torch" in out
    assert "no no-such-package" in out
    assert "pip install 'oatkit[fancy]'" in out
    assert out.count("encodes and decodes") == 2


def test_sparklines_show_everything_above_zero() -> None:
    assert sparkline([0, 1, 500, 1000]) == " ▁▄█"


def test_paths_with_brackets_and_spaces_are_shown_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = datasets.write_npz_file(tmp_path / "my [v1] data.npz", make_demos((40, 40)))
    record = tmp_path / "o [x].json"
    _, out, _ = run(["data", "info", str(path), "--out", str(record)], capsys)
    assert f"next: oatkit data check '{path}'" in out
    assert f"wrote {record}" in out


def test_warnings_are_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import warnings

    def warn(options: Doctor, console: Console) -> int:
        warnings.simplefilter("always")
        warnings.warn("this has no effect", stacklevel=2)
        return 0

    monkeypatch.setattr(doctor, "run", warn)
    assert run(["doctor"], capsys) == (0, "", "warning: this has no effect\n")


def test_a_former_name_of_a_command_still_works(capsys: pytest.CaptureFixture[str]) -> None:
    former, present = (run(["vlm", word], capsys) for word in ("cells", "combinations"))
    assert former == present
    assert former[0] == 0
    assert "cells" not in run(["vlm", "--help"], capsys)[1]


@pytest.mark.parametrize("words", [[], ["policy"]], ids=" ".join)
def test_the_help_of_a_group_is_instant(words: list[str]) -> None:
    code = (
        "import sys\n"
        "from oatkit import cli\n"
        f"cli.main([*{words}, '--help'])\n"
        "assert not {'torch', 'numpy', 'transformers'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_file_of_a_command_has_its_name(words: list[str]) -> None:
    """All but one: `lab.py` is the name of the lab itself."""
    module = command(words).module
    assert module == {"lab": "lab_page"}.get("_".join(words), "_".join(words))
    assert (Path(cli.__file__).parent / "commands" / f"{module}.py").exists()
