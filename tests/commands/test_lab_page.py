"""`oatkit lab`, as a user runs it."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest

from oatkit import cli
from oatkit.data import open_dataset
from tests.lab import small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`demos`, and an artifact of two kinds."""
    folder = tmp_path_factory.mktemp("lab")
    dataset = open_dataset(small.write_demos(folder))
    for kind in ("klt", "bin"):
        small.make_tokenizer(kind, dataset).save_pretrained(folder / kind)
    return folder


def run(folder: Path, *flags: str) -> int:
    named = [str(folder / "klt"), str(folder / "bin")]
    return cli.main(["lab", *named, "--data", str(folder / "demos"), *flags])


def test_an_export_is_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lab"
    assert run(folder, "--export", str(out), "--chunks", "3:0", "3:8") == 0
    assert f"wrote {out / 'index.html'}, 2 chunks" in capsys.readouterr().out
    page = (out / "index.html").read_text()
    assert '"episode":3,"frame":8' in page
    assert page.count("data:image/jpeg") == 2
    assert run(folder, "--export", str(out)) == 0
    assert "8 chunks" in capsys.readouterr().out


def test_a_port_in_use_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("starlette", reason="needs the extra lab")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(folder, "--port", str(port)) == 2
    assert f"port {port} cannot be used (Address already in use)" in capsys.readouterr().err


def test_what_cannot_be_shown_is_an_error(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def error(*args: str) -> str:
        assert cli.main(["lab", *args]) == 2
        return capsys.readouterr().err

    klt, demos = str(folder / "klt"), str(folder / "demos")
    flat = tmp_path / "flat.npz"
    np.savez(flat, action=np.zeros((40, 2)), episode_ends=[20, 40])
    assert "klt is for 3 action dimensions" in error(klt, "--data", str(flat))
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{")
    assert "is no readable tokenizer artifact" in error(str(broken), "--data", demos)
    (tmp_path / "broken.npz").write_bytes(b"PK")
    assert "broken.npz" in error(klt, "--data", str(tmp_path / "broken.npz"))
    assert "is given twice" in error(klt, klt, "--data", demos)
    assert "give both" in error(klt, "--data", demos, "--chunks", "1:2")
    export = ("--export", str(tmp_path / "x"), "--chunks")
    assert "chunk '1-2' is no EPISODE:FRAME" in error(klt, "--data", demos, *export, "1-2")
    assert "episode 99 does not exist" in error(klt, "--data", demos, *export, "99:0")
    assert "name at least one tokenizer artifact" in error("--data", demos)
    assert not (tmp_path / "x").exists()
