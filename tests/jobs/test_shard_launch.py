"""`oatkit.launch`: commands and works in shards, and one training on two machines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oatkit
from oatkit.errors import ShardError
from oatkit.serve import ServeConfig, serving
from oatkit.shards import ShardFolder
from tests.commands.test_remote_options import REFUSE_TORCH
from tests.evaluation.plane import PLANE
from tests.evaluation.plane_policy import save_plane_policy
from tests.jobs.plane_evaluations import outcomes, read
from tests.jobs.processes import needs_proc, processes_with, words_of
from tests.jobs.walks import write_walks
from tests.shards.launchers.evaluating import NUM_UNITS as NUM_EPISODES
from tests.shards.launchers.evaluating import evaluate_in_the_plane, evaluating
from tests.shards.launchers.tokenizing import NUM_UNITS, tokenizing
from tests.shards.toy_work import Squares, merge_squares

ROOT = Path(__file__).parents[2]


def test_processes_give_the_same_bytes_as_one(tmp_path: Path) -> None:
    one, three = tokenizing(tmp_path, "one"), tokenizing(tmp_path, "three")
    oatkit.launch(" ".join(["oatkit", *one.words]), on="local:1")
    seen: list[tuple[int, int]] = []
    path = oatkit.launch(
        three.words, on="local:2", shards=3, progress=lambda *now: seen.append(now)
    )
    assert path.parent == three.cache / "tokens"
    assert one.tokens() == three.tokens()
    assert seen[-1] == (NUM_UNITS, NUM_UNITS)


def test_work_of_ones_own(tmp_path: Path) -> None:
    paths = [
        oatkit.launch(
            Squares(6), on=on, shards=shards, out=tmp_path / f"{shards}", merge=merge_squares
        )
        for on, shards in (("local:1", 1), ("local:2", 3))
    ]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_class_of_a_script(tmp_path: Path) -> None:
    """It has no module that another process could import."""
    page = (ROOT / "docs/scaling.md").read_text()
    code = page.split("<!-- a script -->\n```python\n")[1].split("```")[0]
    (tmp_path / "squares.py").write_text(code)
    path = os.pathsep.join(map(str, (ROOT / "src", *sys.path)))
    ran = subprocess.run(
        [sys.executable, "squares.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "out/squares/squares.txt").read_text() == "0 1 4 9"


def test_what_failed_is_told(tmp_path: Path) -> None:
    words = [*tokenizing(tmp_path, "run").words, "--action-key", "nothing"]
    with pytest.raises(ShardError, match=r"2 of 2 shards failed: shard 0 \(exit code 2: .*nothing"):
        oatkit.launch(words, on="local:2")


def test_simulators_here_and_the_policy_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards ask one server at once, without torch, and write what one process would."""
    evaluate_in_the_plane(tmp_path, monkeypatch, before=REFUSE_TORCH)
    policy = oatkit.load_policy(save_plane_policy(tmp_path))
    with serving(policy, ServeConfig(port=0, max_batch=1)) as url:
        one, two = (
            oatkit.launch(evaluating(url, tmp_path / str(count)), on=f"local:{count}")
            for count in (1, 2)
        )
    assert one.read_bytes() == two.read_bytes()
    here = oatkit.evaluate(policy, PLANE, tasks=("near", "far"), episodes=2, workers=1)
    assert outcomes(read(two)) == outcomes(here)


def test_a_server_that_is_gone_is_told_and_units_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate_in_the_plane(tmp_path, monkeypatch)
    words = evaluating("ws://127.0.0.1:9", tmp_path / "out")
    with pytest.raises(
        ShardError, match=r"2 of 2 shards failed: shard 0 \(exit code 2: .*:9.*kept"
    ):
        oatkit.launch(words, on="local:2")


@needs_proc
def test_a_shard_that_disappears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed from outside: the other shard ends, and the same command again goes on."""
    evaluate_in_the_plane(tmp_path, monkeypatch)
    out = tmp_path / "out"
    words, killed = evaluating(str(save_plane_policy(tmp_path)), out), []

    def kill_first(*_: int) -> None:
        found = [] if killed else processes_with("--shard", "0/2", str(out))
        for process in found:
            os.kill(process, signal.SIGKILL)
            killed.append(process)

    with pytest.raises(
        ShardError, match=r"1 of 2 shards failed: shard 0 \(killed by SIGKILL: .*kept"
    ):
        oatkit.launch(words, on="local:2", progress=kill_first)
    folder = ShardFolder(out)
    assert {"near/budget-4/0001", "far/budget-4/0001"} <= set(filter(folder.has, folder.plan.units))
    record = read(oatkit.launch(words, on="local:1"))
    assert len(record.episodes) == NUM_EPISODES


def test_two_nodes_train_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes on one node, and one on each of two: losses and weights, bit for bit."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT, *sys.path))))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    data, cache, rng = tmp_path / "d.npz", tmp_path / "cache", np.random.default_rng(0)
    columns = {key: rng.normal(size=(400, 2)) for key in ("action", "observation.state")}
    np.savez(data, **columns, episode_ends=np.arange(40, 401, 40), fps=10)  # type: ignore[arg-type]
    dataset = oatkit.open_dataset(data, cache_dir=cache)
    oatkit.train_tokenizer(dataset, "bin", tmp_path / "bin", preset="tiny", horizon=8)
    words = f"policy train --data {data} --tokenizer {tmp_path / 'bin'} --preset tiny --steps 3 "
    words += f"--batch-size 8 --device cpu --cache {cache} --out "
    weights, losses = [], []
    for nodes, gpus in ((1, 2), (2, 1)):
        out = tmp_path / f"{nodes}-nodes"
        assert oatkit.launch(f"{words}{out}", on="local:2", nodes=nodes, gpus=gpus) == out
        weights.append((out / "model.safetensors").read_bytes())
        rows = [json.loads(row) for row in (out / "train.jsonl").read_text().splitlines()]
        losses.append([row["loss"] for row in rows if "loss" in row])
    assert losses[0]
    assert losses[0] == losses[1]
    assert weights[0] == weights[1]


@needs_proc
@pytest.mark.slow
def test_a_node_that_disappears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one ends, too, after a checkpoint, and the same command goes on from there."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT, *sys.path))))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    data, out = write_walks(tmp_path / "walks.npz"), tmp_path / "out"
    words = f"tokenizer train --data {data} --kind oat-pow2 --preset tiny --horizon 8 --device cpu "
    words += f"--batch-size 8 --cache {tmp_path / 'cache'} --out {out} --steps "

    def kill_the_second() -> None:
        while not (out / "train.jsonl").exists():
            time.sleep(0.1)
        for process in processes_with("--node-rank", str(out)):
            words = words_of(process)
            if words[words.index(b"--node-rank") + 1] == b"1":
                os.kill(process, signal.SIGKILL)

    killer = threading.Thread(target=kill_the_second, daemon=True)
    killer.start()
    failed = r"1 of 2 nodes failed: node 1 \(killed by SIGKILL: .*; checkpoints in .* are kept"
    with pytest.raises(ShardError, match=failed):
        oatkit.launch(f"{words}100000", on="local:2", nodes=2)
    killer.join()
    reached = max(int(path.name.split("-")[-1]) for path in (out / "checkpoints").iterdir())
    assert reached > 0


def test_a_training_that_fails_on_its_nodes(tmp_path: Path) -> None:
    words = f"tokenizer train --data {tmp_path / 'no.npz'} --kind bin --out {tmp_path / 'out'}"
    with pytest.raises(
        ShardError, match=r"1 of 1 nodes failed: node 0 .*no\.npz.*the same command"
    ):
        oatkit.launch(words, on="local:1", nodes=1)


@pytest.mark.parametrize(
    ("work", "how", "message"),
    [
        ("policy eval x --out d", {"on": "moon:1"}, "--on: unknown engine 'moon'"),
        ("policy eval x --out", {}, "name the folder with --out"),
        ("policy eval x --shard 0/2 --out d", {}, "leave --shard out"),
        ("policy eval x --out d", {"shards": 0}, "--shards is 0, expected 1 or more"),
        ("policy eval x --out d", {"out": "d"}, "out and merge are for work of your own"),
        ("policy evaluate x --out d", {}, "'policy evaluate x' is not cut into shards; these are"),
        ("data info x --out=d", {"nodes": 2}, "'data info' is no training; --nodes is for tokeniz"),
        ("policy train", {"nodes": 2}, "name the folder with --out"),
        ("policy train --out d", {"nodes": 2, "shards": 2}, "--nodes and --shards are two things"),
        ("policy eval x --out d", {"gpus": 8}, "--gpus and --config are for --nodes"),
        (Squares(), {}, "work of your own needs out, its folder, and merge"),
    ],
)
def test_wrong_arguments(work: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        oatkit.launch(work, **how)
