"""Trains a policy of LeRobot and answers for it: the half of `benchmarks.neighbors` that runs in
LeRobot's environment, whose torch is another one. It imports nothing of oatkit.

    python neighbors_worker.py train DATA.npz SETTINGS.json OUT
    python neighbors_worker.py serve OUT FILE_DESCRIPTOR

Shape letters: N frames of all episodes, B batch, F observed frames, T steps of a chunk, S state,
A action.
"""

from __future__ import annotations

import io
import json
import math
import sys
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

STATE, ENVIRONMENT_STATE, ACTION = "observation.state", "observation.environment_state", "action"
NUM_ARM = 4
"""Leading numbers of MetaWorld's state that are the arm's own: the hand's place and the gripper."""
MEASURED = 512
"""Held-out observations whose chunks are compared with the expert's."""
WARMUP, AVERAGE = 0.03, 0.995

Arrays = Mapping[str, NDArray[Any]]
Tensors = tuple[Tensor, ...] | list[Tensor]


def pack(arrays: Arrays) -> bytes:
    """Arrays as bytes that any numpy reads; the inverse of `unpack`."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack(packed: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(packed), allow_pickle=False) as arrays:
        return dict(arrays)


class Frames:
    """Frames of demonstrations, normalized by LeRobot's own processor, in memory.

    Args:
        arrays: `state` (N, S), `task` (N,), `action` (N, A), and the `first` and `last` frame (N,)
            of every frame's episode.
        num_tasks: Number of known tasks.
    """

    def __init__(self, arrays: Arrays, num_tasks: int) -> None:
        self.inputs = observed(arrays["state"], arrays["task"], num_tasks)
        self.actions = torch.as_tensor(arrays["action"])
        self._first, self._last = (torch.as_tensor(arrays[key]) for key in ("first", "last"))

    def __len__(self) -> int:
        return len(self.actions)

    def statistics(self) -> dict[str, dict[str, Tensor]]:
        """What LeRobot normalizes by."""
        columns = {**self.inputs, ACTION: self.actions}
        return {key: _statistics(column) for key, column in columns.items()}

    def normalize(self, preprocessor: Any) -> None:
        """Normalize all frames at once, which costs a step of training nothing."""
        done = preprocessor({**self.inputs, ACTION: self.actions})
        self.inputs = {key: done[key] for key in self.inputs}
        self.actions = done[ACTION]

    def left(self) -> Tensor:
        """Number of frames that follow each frame in its episode, (N,)."""
        return self._last - torch.arange(len(self))

    def batch(self, rows_B: Tensor, config: Any) -> dict[str, Tensor]:
        """Observations and the actions that LeRobot trains to predict after them."""
        seen = config.observation_delta_indices
        found = {}
        for key, column in self.inputs.items():
            found[key] = column[self._at(rows_B, seen)] if seen else column[rows_B]
        steps_T = torch.tensor(config.action_delta_indices)
        found[ACTION] = self.actions[self._at(rows_B, config.action_delta_indices)]
        place_BT = rows_B[:, None] + steps_T
        is_past = (place_BT > self._last[rows_B, None]) | (place_BT < self._first[rows_B, None])
        return {**found, "action_is_pad": is_past}

    def _at(self, rows_B: Tensor, offsets: list[int]) -> Tensor:
        """Rows of the frames around some frames; an episode's ends are repeated."""
        places = rows_B[:, None] + torch.tensor(offsets)
        return places.clamp(self._first[rows_B, None], self._last[rows_B, None])


def observed(state: NDArray[Any], task: NDArray[Any], num_tasks: int) -> dict[str, Tensor]:
    """What LeRobot's policies read: the arm's state, and the whole state with the task one-hot.

    Args:
        state: (..., S) raw state.
        task: (...) index of the task.
        num_tasks: Number of known tasks.
    """
    values, one_hot = torch.as_tensor(state), torch.eye(num_tasks)[torch.as_tensor(task)]
    return {
        STATE: values[..., :NUM_ARM].clone(),
        ENVIRONMENT_STATE: torch.cat([values, one_hot], dim=-1),
    }


def _statistics(column: Tensor) -> dict[str, Tensor]:
    exact = column.double()
    found = {
        "mean": exact.mean(0),
        "std": exact.std(0, correction=0),
        "min": exact.amin(0),
        "max": exact.amax(0),
    }
    return {name: value.float() for name, value in found.items()}


def make_config(kind: str, options: Mapping[str, Any], frames: Frames) -> Any:
    """LeRobot's config for what the frames hold.

    LeRobot leaves an environment's state as it is; here it is normalized like a robot's state.
    """
    from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
    from lerobot.policies.factory import make_policy_config

    types = {STATE: FeatureType.STATE, ENVIRONMENT_STATE: FeatureType.ENV}
    mode = NormalizationMode.MEAN_STD if kind == "act" else NormalizationMode.MIN_MAX
    return make_policy_config(
        kind,
        **options,
        device="cpu",
        push_to_hub=False,
        normalization_mapping={"STATE": mode, "ENV": mode, "ACTION": mode},
        input_features={
            key: PolicyFeature(types[key], (column.shape[-1],))
            for key, column in frames.inputs.items()
        },
        output_features={ACTION: PolicyFeature(FeatureType.ACTION, (frames.actions.shape[-1],))},
    )


def train(data: Path, settings: Mapping[str, Any], out: Path) -> None:
    """Train for the steps of the settings or else their CPU seconds; write the policy and what it
    took."""
    from lerobot import __version__
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors

    torch.set_num_threads(1)
    torch.manual_seed(settings["seed"])
    with np.load(data) as arrays:
        num_tasks = int(arrays["num_tasks"])
        sets = {
            name: {
                key: arrays[f"{name}_{key}"] for key in ("state", "task", "action", "first", "last")
            }
            for name in ("train", "held_out")
        }
    frames, held_out = (Frames(part, num_tasks) for part in sets.values())
    raw_actions = held_out.actions
    config = make_config(settings["kind"], settings["config"], frames)
    policy = get_policy_class(settings["kind"])(config)
    pre, post = make_pre_post_processors(config, dataset_stats=frames.statistics())
    for part in (frames, held_out):
        part.normalize(pre)
    steps, losses, cpu_s = _train_for(settings, config, policy, frames)
    policy.save_pretrained(out)
    pre.save_pretrained(out)
    post.save_pretrained(out)
    facts = {
        "kind": settings["kind"],
        "num_tasks": num_tasks,
        "parameters": sum(p.numel() for p in policy.parameters()),
        "steps": steps,
        "cpu_s": round(cpu_s, 1),
        "loss": sum(losses[-100:]) / len(losses[-100:]),
        "held_out": _held_out_error(policy, post, held_out, raw_actions),
        "lerobot": __version__,
        "torch": torch.__version__,
    }
    (out / "facts.json").write_text(json.dumps(facts, indent=2))


def _train_for(
    settings: Mapping[str, Any], config: Any, policy: Any, frames: Frames
) -> tuple[int, list[float], float]:
    """Train a policy and leave it with the mean of its weights; steps, losses and CPU seconds."""
    preset = config.get_optimizer_preset()
    preset.lr = settings["learning_rate"]
    optimizer = preset.build(policy.get_optim_params())
    rates = [group["lr"] for group in optimizer.param_groups]
    average = AveragedModel(policy, multi_avg_fn=_add_to_mean)
    usable = torch.nonzero(frames.left() >= getattr(config, "drop_n_last_frames", 0)).flatten()
    losses: list[float] = []
    steps = settings.get("steps")
    policy.train()
    began, share = time.process_time(), 0.0
    while share < 1:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * _rate(share)
        rows_B = usable[torch.randint(len(usable), (settings["batch_size"],))]
        loss, _ = policy.forward(frames.batch(rows_B, config))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), preset.grad_clip_norm)
        optimizer.step()
        average.update_parameters(policy)
        losses.append(loss.item())
        if steps is None:
            share = (time.process_time() - began) / settings["cpu_s"]
        else:
            share = len(losses) / steps
        if len(losses) % 200 == 0:
            print(f"step {len(losses)}, {share:.0%}: {sum(losses[-200:]) / 200:.4f}", flush=True)
    policy.load_state_dict(average.module.state_dict())
    policy.eval()
    return len(losses), losses, time.process_time() - began


@torch.no_grad()
def _add_to_mean(means: Tensors, new: Tensors, number: Tensor | int) -> None:
    """Move the mean of the weights towards new ones.

    The mean forgets faster in the beginning: otherwise a trial of some hundred steps would be
    judged by the weights that it began with.
    """
    count = int(number)
    torch._foreach_lerp_(means, new, 1 - min(AVERAGE, (1 + count) / (10 + count)))


def _rate(share: float) -> float:
    """A linear warm-up, then a cosine to 0, by the share of the training that is over."""
    return min(share / WARMUP, 0.5 + 0.5 * math.cos(math.pi * share))


def _held_out_error(policy: Any, post: Any, frames: Frames, actions: Tensor) -> dict[str, float]:
    """Errors of the chunks after held-out observations, raw units, over the steps that exist."""
    config = policy.config
    rows_B = torch.linspace(0, len(frames) - 1, MEASURED).long()
    batch = frames.batch(rows_B, config)
    noise = torch.randn(batch[ACTION].shape, generator=torch.Generator().manual_seed(0))
    chunks_BTA = predict(policy, post, batch, noise)
    start = config.n_obs_steps - 1
    frames.actions = actions
    after = frames.batch(rows_B, config)
    is_there = ~after["action_is_pad"][:, start:]
    errors = (chunks_BTA.clamp(-1, 1) - after[ACTION][:, start:])[is_there]
    return {"mse": errors.square().mean().item(), "mae": errors.abs().mean().item()}


@torch.no_grad()
def predict(policy: Any, post: Any, batch: dict[str, Tensor], noise: Tensor) -> Tensor:
    """Chunks of raw actions from the current step on, (B, T, A), of normalized observations.

    Args:
        policy: LeRobot's policy.
        post: LeRobot's processor of actions.
        batch: Normalized observations.
        noise: (B, horizon, A) normal numbers that a diffusion starts from.
    """
    inputs = {key: batch[key] for key in (STATE, ENVIRONMENT_STATE)}
    if policy.config.type == "diffusion":
        condition = policy.diffusion._prepare_global_conditioning(inputs)
        chunks = policy.diffusion.conditional_sample(len(noise), condition, noise=noise)
        return post(chunks[:, policy.config.n_obs_steps - 1 :])
    return post(policy.predict_action_chunk(inputs))


def serve(folder: Path, connection: Connection) -> None:
    """Answer observations with chunks until the other end closes."""
    from lerobot.policies.factory import get_policy_class, make_pre_post_processors

    torch.set_num_threads(1)
    facts = json.loads((folder / "facts.json").read_text())
    policy = get_policy_class(facts["kind"]).from_pretrained(folder)
    policy.eval()
    pre, post = make_pre_post_processors(policy.config, pretrained_path=str(folder))
    while True:
        try:
            asked = unpack(connection.recv_bytes())
        except EOFError:
            return
        began = time.perf_counter()
        inputs = observed(asked["state"], asked["task"], facts["num_tasks"])
        if policy.config.n_obs_steps == 1:
            inputs = {key: value[:, -1] for key, value in inputs.items()}
        chunks = predict(policy, post, pre(inputs), torch.as_tensor(asked["noise"]))
        elapsed_ms = 1000 * (time.perf_counter() - began)
        connection.send_bytes(pack({"chunk": chunks.numpy(), "ms": np.array(elapsed_ms)}))


if __name__ == "__main__":
    task, first, *others = sys.argv[1:]
    if task == "train":
        train(Path(first), json.loads(Path(others[0]).read_text()), Path(others[1]))
    else:
        serve(Path(first), Connection(int(others[0])))
