"""LeRobot's own commands find the plugin, train it, go on from a checkpoint and evaluate it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import oatkit
from oatkit.data.lerobot_writer import LeRobotWriter
from oatkit.data.source import Feature
from oatkit.data.video import VideoWriter
from oatkit.tokenizers import ActionTokenizer, make_config

pytest.importorskip("lerobot", reason="LeRobot lives in an environment of its own")

HORIZON, SIZE, CAMERA = 8, 96, "observation.image"
SMALL = {
    "net.width": 16,
    "net.num_layers": 1,
    "net.num_heads": 2,
    "net.image_channels": 4,
    "net.image_size": 48,
    "net.crop_size": 40,
}


def lerobot(command: str, folder: Path, *flags: str) -> str:
    """What a command of LeRobot printed; it runs in `folder`, without a network."""
    program = Path(sys.executable).with_name(f"lerobot-{command}")
    settings = {"HF_HUB_OFFLINE": "1", "SDL_VIDEODRIVER": "dummy", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [program, *flags],
        cwd=folder,
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=1800,
    )
    assert not done.returncode, done.stdout[-6000:]
    return done.stdout


def write_pusht(root: Path) -> Path:
    """Random walks of PushT's agent, seen by a camera that sees nothing."""
    rng = np.random.default_rng(0)
    names = ("x", "y")
    features = {"observation.state": Feature((2,), names), "action": Feature((2,), names)}
    writer = LeRobotWriter(root, fps=10, features=features, cameras={CAMERA: (SIZE, SIZE)})
    for index in range(4):
        walk = 256 + 20 * rng.normal(size=(30, 2)).cumsum(axis=0).astype(np.float32)
        path = root.with_name(f"{index}.mp4")
        with VideoWriter(path, fps=10, height=SIZE, width=SIZE, codec="h264") as video:
            for shade in range(30):
                video.add(np.full((SIZE, SIZE, 3), 4 * shade, np.uint8))
        columns = {"observation.state": walk, "action": np.roll(walk, -1, axis=0)}
        writer.add_episode(columns, task="push the T", videos={CAMERA: path})
    writer.close()
    return root


def write_tokenizer(folder: Path, dataset: oatkit.Dataset) -> None:
    config = make_config("klt", horizon=HORIZON, action_dim=2, num_tokens=4, levels=(5, 4))
    tokenizer = ActionTokenizer.for_dataset(config, dataset)
    actions = dataset.chunks(HORIZON).actions(np.arange(dataset.num_frames))[0]
    chunks = torch.from_numpy(tokenizer.normalizer.normalize(actions))
    tokenizer.codec.fit(lambda: iter([chunks]))
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module", params=["tokens", "flow"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which `lerobot-train` trained the plugin for a few steps; a flow head has no
    tokenizer."""
    folder = tmp_path_factory.mktemp("run")
    data = write_pusht(folder / "data")
    settings: dict[str, Any] = {**SMALL, "head": request.param}
    if request.param == "tokens":
        write_tokenizer(folder / "tokenizer", oatkit.open_dataset(data))
        settings["tokenizer_path"] = "tokenizer"
    else:
        settings |= {"chunk_size": HORIZON, "mask_padding": True}
    said = lerobot(
        "train",
        folder,
        "--policy.type=oat",
        "--policy.push_to_hub=false",
        "--policy.device=cpu",
        *(f"--policy.{name}={value}" for name, value in settings.items()),
        "--dataset.repo_id=local/data",
        "--dataset.root=data",
        "--dataset.video_backend=pyav",
        "--batch_size=4",
        "--num_workers=0",
        "--steps=4",
        "--log_freq=2",
        "--output_dir=out",
    )
    assert "loss:" in said
    return folder


def checkpoint(run: Path, name: str = "last") -> Path:
    return run / "out/checkpoints" / name / "pretrained_model"


def test_lerobot_train_writes_a_policy_that_oatkit_opens(run: Path) -> None:
    policy = oatkit.load_policy(checkpoint(run))
    assert policy.spec.tasks == ("push the T",)
    assert policy.spec.cameras == {"image": (SIZE, SIZE)}
    assert getattr(policy.net.config, "sizes", policy.net.config).width == 16
    observation = {
        "observation.state": np.array([256, 256], np.float32),
        "observation.images.image": np.zeros((SIZE, SIZE, 3), np.uint8),
    }
    chunk = policy.predict_action_chunk(observation).chunk
    assert chunk.shape == (HORIZON, 2)
    assert np.isfinite(chunk).all()


def test_lerobot_train_goes_on(run: Path) -> None:
    before = oatkit.load_policy(checkpoint(run)).net.state_dict()
    config = checkpoint(run) / "train_config.json"
    lerobot("train", run, f"--config_path={config}", "--resume=true", "--steps=6")
    after = oatkit.load_policy(checkpoint(run, "000006")).net.state_dict()
    assert any(not torch.equal(before[key], after[key]) for key in before)


def test_lerobot_eval_rolls_the_policy_out(run: Path) -> None:
    lerobot(
        "eval",
        run,
        f"--policy.path={checkpoint(run)}",
        "--policy.device=cpu",
        "--policy.budget=2",
        "--env.type=pusht",
        "--env.episode_length=20",
        "--eval.n_episodes=2",
        "--eval.batch_size=2",
        "--eval.use_async_envs=false",  # in 0.6.1 the processes of PushT do not know it
        "--output_dir=eval",
    )
    found = json.loads((run / "eval/eval_info.json").read_text())
    assert found["overall"]["n_episodes"] == 2
