"""What makes `oat` converge faster: one change at a time, with the same steps and chunks.

    python -m benchmarks.oat_convergence [--steps 300]

The `small` size on MetaWorld; the learning rate falls to zero within the steps, so that every run
is a finished one. Errors are those of the averaged weights on held-out episodes. `docs/log.md` says
which changes were kept.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import oatkit
from benchmarks.record import read_results, write_result
from benchmarks.tokenizer_rate_distortion import metaworld
from oatkit.data import Dataset
from oatkit.nn.sample_random import SampleRandom, sample_keys
from oatkit.nn.training_loss import TrainingLoss
from oatkit.nn.transformer import Mlp
from oatkit.tokenizers.klt import Klt, KltConfig
from oatkit.tokenizers.oat import Oat, OatConfig
from oatkit.train.soap import Soap

NAME = "oat_convergence"
SEED = 0
HORIZON, BATCH_SIZE, WARMUP = 32, 128, 50
BUDGETS = (1, 2, 4, 8, 16)


class SmoothMlp(Mlp):
    def forward(self, x_BQD: Tensor) -> Tensor:
        return self.narrow(F.gelu(self.widen(self.norm(x_BQD)), approximate="tanh"))


class Smooth(Oat):
    """GELU instead of ReLU."""

    def __init__(self, config: OatConfig) -> None:
        super().__init__(config)
        for module in self.modules():
            if isinstance(module, Mlp):
                module.__class__ = SmoothMlp


class WithoutRounding(Oat):
    """Real numbers instead of levels, which shows what quantization costs."""

    def loss(
        self,
        actions_BTA: Tensor,
        random: SampleRandom,
        weight_BA: Tensor | None = None,
        embodiment_B: Tensor | None = None,
    ) -> TrainingLoss:
        codes_BKC = torch.tanh(self._latents(actions_BTA))
        rebuilt_BTA = self._reconstruct(codes_BKC, random.choose(self.budgets))
        return TrainingLoss(F.mse_loss(rebuilt_BTA, actions_BTA))

    def prefix_errors(self, actions_BTA: Tensor) -> list[float]:
        return errors(self, torch.tanh(self._latents(actions_BTA)), actions_BTA)


class RelativeLoss(Oat):
    """Errors relative to the present error of their budget, so that small ones count as much."""

    def loss(
        self,
        actions_BTA: Tensor,
        random: SampleRandom,
        weight_BA: Tensor | None = None,
        embodiment_B: Tensor | None = None,
    ) -> TrainingLoss:
        codes_BKC, _ = self.quantizer(self._latents(actions_BTA))
        budget_B = random.choose(self.budgets)
        decoded_BTA = self._reconstruct(codes_BKC, budget_B)
        error_B = (decoded_BTA - actions_BTA).square().mean(dim=(1, 2))
        is_budget_KB = torch.tensor(self.budgets)[:, None] == budget_B
        mean_K = (is_budget_KB * error_B.detach()).sum(1) / is_budget_KB.sum(1).clamp_min(1)
        relative_B = error_B / (is_budget_KB * mean_K[:, None]).sum(0)
        return TrainingLoss(0.05 * relative_B.mean())


class FourierCodes(Oat):
    """The decoder sees sines and cosines of the codes too."""

    def __init__(self, config: OatConfig) -> None:
        super().__init__(config)
        self.from_code = nn.Linear(7 * len(config.levels), config.width)

    def _reconstruct(
        self,
        codes_BKC: Tensor,
        budget_B: Tensor,
        random: SampleRandom | None = None,
        embodiment_B: Tensor | None = None,
    ) -> Tensor:
        angles = [codes_BKC * math.pi * 2.0**i / 2 for i in range(3)]
        features = [codes_BKC, *map(torch.sin, angles), *map(torch.cos, angles)]
        return super()._reconstruct(torch.cat(features, dim=-1), budget_B, random)


class WholeChunkRead(Oat):
    """Registers start from a linear map of the whole chunk."""

    def __init__(self, config: OatConfig) -> None:
        super().__init__(config)
        self.read = nn.Linear(config.horizon * config.action_dim, config.width)

    def _latents(
        self,
        actions_BTA: Tensor,
        random: SampleRandom | None = None,
        embodiment_B: Tensor | None = None,
    ) -> Tensor:
        registers_BKD = self.registers + self.read(actions_BTA.flatten(1))[:, None]
        source_BTD = self.embed(actions_BTA) + self.positions
        return self.to_latent(self.encoder(registers_BKD, source_BTD, random))


class PrincipalStart(Oat):
    """Linear paths around encoder and decoder that start from principal directions, with residual
    quantization: the linear part of a token reads what those of earlier tokens leave."""

    def __init__(self, config: OatConfig) -> None:
        super().__init__(config)
        size = config.horizon * config.action_dim
        shape = (config.num_tokens, len(config.levels), size)
        self.mean = nn.Parameter(torch.zeros(size))
        self.read, self.write = nn.Parameter(torch.zeros(shape)), nn.Parameter(torch.zeros(shape))
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.to_latent.weight)

    @torch.no_grad()
    def start(self, chunks_NTA: Tensor) -> None:
        left_ND = chunks_NTA.flatten(1) - chunks_NTA.flatten(1).mean(0)
        self.mean.copy_(chunks_NTA.flatten(1).mean(0))
        for read_CD, write_CD in zip(self.read, self.write, strict=True):
            values, vectors = torch.linalg.eigh(left_ND.T @ left_ND / len(left_ND))
            count = len(read_CD)
            spread_C = 1.6 * values[-count:].flip(0).sqrt().clamp_min(1e-6)
            read_CD.copy_(vectors[:, -count:].flip(1).T / spread_C[:, None])
            codes_NC, _ = self.quantizer(left_ND @ read_CD.T)
            write_CD.copy_(torch.linalg.lstsq(codes_NC, left_ND).solution)
            left_ND = left_ND - codes_NC @ write_CD

    def loss(
        self,
        actions_BTA: Tensor,
        random: SampleRandom,
        weight_BA: Tensor | None = None,
        embodiment_B: Tensor | None = None,
    ) -> TrainingLoss:
        codes_BKC = self.codes(actions_BTA)
        rebuilt_BTA = self._reconstruct(codes_BKC, random.choose(self.budgets))
        return TrainingLoss(F.mse_loss(rebuilt_BTA, actions_BTA))

    def prefix_errors(self, actions_BTA: Tensor) -> list[float]:
        return errors(self, self.codes(actions_BTA), actions_BTA)

    def codes(self, actions_BTA: Tensor) -> Tensor:
        latents_BKC, left_BD = self._latents(actions_BTA), actions_BTA.flatten(1) - self.mean
        found = []
        for slot, (read_CD, write_CD) in enumerate(zip(self.read, self.write, strict=True)):
            found.append(self.quantizer(latents_BKC[:, slot] + left_BD @ read_CD.T)[0])
            left_BD = left_BD - found[-1] @ write_CD
        return torch.stack(found, dim=1)

    def _reconstruct(
        self,
        codes_BKC: Tensor,
        budget_B: Tensor,
        random: SampleRandom | None = None,
        embodiment_B: Tensor | None = None,
    ) -> Tensor:
        is_kept_BK = torch.arange(self.max_tokens) < budget_B[:, None]
        linear_BD = torch.einsum("bkc,kcd->bd", codes_BKC * is_kept_BK[..., None], self.write)
        learned_BTA = super()._reconstruct(codes_BKC, budget_B, random)
        return learned_BTA + (self.mean + linear_BD).view_as(learned_BTA)


VARIANTS: dict[str, tuple[type[Oat], dict[str, Any]]] = {
    "as it is": (Oat, {}),
    "learning rate 5e-3": (Oat, {"learning_rate": 5e-3}),
    "learning rate 2e-2": (Oat, {"learning_rate": 2e-2}),
    "AdamW, learning rate 4e-3": (Oat, {"optimizer": "adamw", "learning_rate": 4e-3}),
    "AdamW, learning rate 8e-3": (Oat, {"optimizer": "adamw", "learning_rate": 8e-3}),
    "Muon, learning rate 2e-2": (Oat, {"optimizer": "muon", "learning_rate": 2e-2}),
    "GELU": (Smooth, {}),
    "8 heads": (Oat, {"num_heads": 8}),
    "two budgets a chunk": (Oat, {"budgets_per_chunk": 2}),
    "registers and masks started small": (Oat, {"start": 0.1}),
    "no nested dropout": (Oat, {"nested_dropout": False}),
    "oat-pow2": (Oat, {"kind": "oat-pow2"}),
    "without rounding": (WithoutRounding, {}),
    "relative loss": (RelativeLoss, {}),
    "Fourier features of codes": (FourierCodes, {}),
    "registers read the whole chunk": (WholeChunkRead, {}),
    "principal directions, residual": (PrincipalStart, {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps
    results = read_results(NAME)
    train_set, held_out = oatkit.open_dataset(metaworld()).split(0.1, seed=0)
    chunks, held_out_chunks = all_chunks(train_set), all_chunks(held_out)
    settings = {"steps": steps, "batch_size": BATCH_SIZE, "size": "small", "budgets": BUDGETS}
    for name, (codec, changes) in VARIANTS.items():
        if name not in results:
            print(name, flush=True)
            results[name] = measure(codec, changes, chunks, held_out_chunks, steps)
            write_result(NAME, seed=SEED, settings=settings, results=results)
    if "klt" not in results:
        results["klt"] = measure_klt(chunks, held_out_chunks)
        write_result(NAME, seed=SEED, settings=settings, results=results)


def all_chunks(dataset: Dataset) -> Tensor:
    chunks = dataset.chunks(HORIZON)
    return torch.from_numpy(chunks.actions(np.arange(len(chunks)))[0])


def measure(
    kind: type[Oat], changes: dict[str, Any], chunks: Tensor, held_out: Tensor, steps: int
) -> dict[str, Any]:
    """Train a variant on chunks, which need no normalizer because MetaWorld's are in [-1, 1]."""
    torch.manual_seed(SEED)
    rate = changes.get("learning_rate", 1e-2)
    other = ("learning_rate", "start", "optimizer")
    own = {k: v for k, v in changes.items() if k not in other}
    size = {"width": 64, "num_layers": 2, "num_heads": 4, "kind": "oat", **own}
    codec = kind(OatConfig(HORIZON, chunks.shape[2], **size))
    if isinstance(codec, PrincipalStart):
        codec.start(chunks)
    with torch.no_grad():
        for parameter in (codec.registers, codec.slots, codec.masks):
            parameter.mul_(changes.get("start", 1.0))
    optimizers = make_optimizers(codec, changes.get("optimizer", "soap"))
    average = [p.detach().clone() for p in codec.parameters()]
    random = torch.Generator().manual_seed(SEED)
    begun = time.perf_counter()
    for step in range(steps):
        batch = chunks[torch.randint(len(chunks), (BATCH_SIZE,), generator=random)]
        keys = sample_keys(SEED, step, torch.arange(BATCH_SIZE))
        torch.autograd.backward(codec.loss(batch, SampleRandom(keys)).total)
        torch.nn.utils.clip_grad_norm_(codec.parameters(), 1.0)
        falling = 0.5 * (1 + math.cos(math.pi * step / steps))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * min(1.0, (step + 1) / WARMUP) * falling
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        decay = min(0.99, (1 + step) / (10 + step))
        torch._foreach_lerp_(average, list(codec.parameters()), 1 - decay)
    seconds = time.perf_counter() - begun
    with torch.inference_mode():
        for parameter, mean in zip(codec.parameters(), average, strict=True):
            parameter.copy_(mean)
        if isinstance(codec, WithoutRounding | PrincipalStart):
            found = codec.prefix_errors(held_out)
        else:
            found = errors(codec, codec.quantizer(codec._latents(held_out))[0], held_out)
    return {"mse": found, "seconds": round(seconds, 1)}


def make_optimizers(codec: Oat, name: str) -> list[torch.optim.Optimizer]:
    if name == "soap":
        return [Soap(codec.parameters(), 0.0)]
    if name == "adamw":
        return [torch.optim.AdamW(codec.parameters(), weight_decay=0.0, fused=True)]
    # matrices between layers; all else by AdamW, as is usual with Muon
    inner = [p for p in codec.parameters() if p.ndim == 2 and min(p.shape) >= 16]
    outer = [p for p in codec.parameters() if p.ndim != 2 or min(p.shape) < 16]
    muon = torch.optim.Muon(inner, weight_decay=0.0, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW(outer, weight_decay=0.0, fused=True)]


def errors(codec: Oat, codes_BKC: Tensor, wanted_BTA: Tensor) -> list[float]:
    count = len(wanted_BTA)
    return [
        float(F.mse_loss(codec._reconstruct(codes_BKC, torch.full((count,), k)), wanted_BTA))
        for k in BUDGETS
    ]


def measure_klt(chunks: Tensor, held_out: Tensor) -> dict[str, Any]:
    codec = Klt(KltConfig(HORIZON, chunks.shape[2]))
    begun = time.perf_counter()
    codec.fit(lambda: iter([chunks]))
    seconds = time.perf_counter() - begun
    tokens = codec.encode(held_out)
    found = [float(F.mse_loss(codec.decode(tokens.prefix(k)), held_out)) for k in BUDGETS]
    return {"mse": found, "seconds": round(seconds, 1)}


if __name__ == "__main__":
    main()
