"""The part of `lerobot.policies.factory` that the worker of `benchmarks.neighbors` touches.

Both kinds are one linear map from the observed numbers to a chunk, trained by ACT's loss.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn


@dataclass
class Adam:
    lr: float = 1e-4
    grad_clip_norm: float = 10.0

    def build(self, parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, self.lr)


class Config:
    """What both configs offer, from the options that they are given."""

    def __init__(self, kind: str, options: dict[str, Any]) -> None:
        self.type, self.options = kind, options
        self.n_obs_steps = 2 if kind == "diffusion" else 1
        self.horizon = options["horizon" if kind == "diffusion" else "chunk_size"]
        first = 1 - self.n_obs_steps
        self.action_delta_indices = list(range(first, first + self.horizon))
        self.observation_delta_indices = [-1, 0] if kind == "diffusion" else None

    def get_optimizer_preset(self) -> Adam:
        return Adam()


class Policy(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.map = nn.LazyLinear(config.horizon * config.options["action_dim"])
        width = config.n_obs_steps * config.options["state_dim"]
        self.map(torch.zeros(1, width))
        self.diffusion = SimpleNamespace(
            _prepare_global_conditioning=self.joined, conditional_sample=self.sample
        )

    def get_optim_params(self) -> Any:
        return self.parameters()

    def joined(self, batch: dict[str, Tensor]) -> Tensor:
        parts = [batch[key] for key in ("observation.state", "observation.environment_state")]
        return torch.cat(parts, dim=-1).flatten(1)

    def sample(self, batch_size: int, condition: Tensor, noise: Tensor) -> Tensor:
        assert noise.shape[:2] == (batch_size, self.config.horizon)
        return self.map(condition).reshape(noise.shape)

    def forward(self, batch: dict[str, Tensor]) -> tuple[Tensor, None]:
        actions = batch["action"]
        off = self.map(self.joined(batch)).reshape(actions.shape) - actions
        return (off.abs() * ~batch["action_is_pad"][..., None]).mean(), None

    def predict_action_chunk(self, batch: dict[str, Tensor]) -> Tensor:
        return self.map(self.joined(batch)).unflatten(-1, (self.config.horizon, -1))

    def save_pretrained(self, folder: Path) -> None:
        text = json.dumps([self.config.type, self.config.options])
        (folder / "standin.json").write_text(text)
        torch.save(self.state_dict(), folder / "standin.pt")

    @classmethod
    def from_pretrained(cls, folder: Path) -> Policy:
        found = cls(Config(*json.loads((folder / "standin.json").read_text())))
        found.load_state_dict(torch.load(folder / "standin.pt", weights_only=True))
        return found


class AsItIs:
    """A processor that normalizes nothing."""

    def __call__(self, values: Any) -> Any:
        return values

    def save_pretrained(self, folder: Path) -> None:
        pass


def make_policy_config(kind: str, **options: Any) -> Config:
    sizes = {
        "state_dim": sum(feature.shape[0] for feature in options["input_features"].values()),
        "action_dim": options["output_features"]["action"].shape[0],
    }
    kept = {key: options[key] for key in ("horizon", "chunk_size") if key in options}
    return Config(kind, {**kept, **sizes})


def get_policy_class(kind: str) -> type[Policy]:
    return Policy


def make_pre_post_processors(
    config: Config, pretrained_path: str | None = None, dataset_stats: Any = None
) -> tuple[AsItIs, AsItIs]:
    assert (pretrained_path is None) != (dataset_stats is None)
    return AsItIs(), AsItIs()
