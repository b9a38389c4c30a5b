"""Linear maps that stay float32."""

from __future__ import annotations

import pytest
import torch

from oatkit.nn.float32_linear import linear_in_float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_it_is_float32_at_least_also_under_autocast(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(5, 3).to(dtype)
    x = torch.randn(2, 5).to(dtype)
    wanted = x.double() @ layer.weight.double().T + layer.bias.double()
    with torch.autocast("cpu", torch.bfloat16):
        found = linear_in_float32(x, layer.weight, layer.bias)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-6, atol=1e-6)
