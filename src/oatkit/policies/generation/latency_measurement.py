"""How long a policy takes here, measured with black images and zero states."""

from __future__ import annotations

import numpy as np
import torch

from oatkit.nn.device import read_clock
from oatkit.policies.generation.budget_limits import can_stop_early
from oatkit.policies.generation.deadline import Latency
from oatkit.policies.generation.token_generation import generate_stages
from oatkit.policies.generation.token_net import TokenNet
from oatkit.policies.observation.observations import Observations
from oatkit.tokenizers import ActionTokenizer
from oatkit.types import Schedule

REPEATS = 5


@torch.inference_mode()
def measure_latency(
    net: TokenNet, tokenizer: ActionTokenizer, schedule: Schedule, observations: Observations
) -> Latency:
    """Median time of every stage and of decoding, for a batch of this size."""
    batch, num_rows = observations.to(net.device), len(observations)
    stages = net.pack(schedule, net.device).stages
    rows = []
    for _ in range(REPEATS + 1):  # the first warms up
        context = net.encode(batch)
        generation = net.start(context, num_rows, schedule.num_tokens)
        uniform_BK = torch.rand(num_rows, schedule.num_tokens, device=net.device)
        times, ids = [read_clock(net.device)], []
        for stage in generate_stages(generation, stages, uniform_BK, mask_id=net.mask_id):
            ids.append(stage.ids)
            times.append(read_clock(net.device))
        if can_stop_early(tokenizer):  # otherwise nobody asks how long decoding takes
            tokenizer.decode(torch.cat(ids, dim=1))
        times.append(read_clock(net.device))
        rows.append(np.diff(times))
    median = (1000 * np.median(rows[1:], axis=0)).tolist()
    return Latency(tuple(median[:-1]), median[-1])
