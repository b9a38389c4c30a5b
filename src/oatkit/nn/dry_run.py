"""A pass of a module whose weights have no memory: what it would hold, and what it would compute.

`without_memory` gives a module weights that have a shape, a type and a device, but no numbers. All
that is computed from them is as empty; what is computed from real numbers alone, such as masks and
positions, stays real. So the code that runs is the one that trains. `DryRun` watches it, and what
is computed for real as well:

    weights ── copies that autocast makes ──┐
    batch ───────────────────────────────── activations ── gradients, as they are finished
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

ATEN = torch.ops.aten
INDEXED = (ATEN.index.Tensor, ATEN.index_put.default, ATEN.index_put_.default)
"""Operations whose result has a size that a mask decides, unless the mask becomes indices."""


def without_memory(module: nn.Module) -> nn.Module:
    """Take the numbers of a module's weights and buffers away; returns the module."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        return module.to_empty(device="cpu")


class DryRun(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes and the operations of passes while it is entered.

    Args:
        module: Module whose weights are not counted, because they are there all the time.

    Attributes:
        activations: Most bytes that were held at once beside weights, their copies and finished
            gradients: what the backward pass needs, and what it computes with meanwhile.
        copies: Most bytes of copies of weights that autocast made, at once.
        peak: Most bytes of activations, copies and gradients at once.
        flops: Number of floating-point operations; a multiplication with its addition counts two.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.activations = self.copies = self.peak = self.flops = 0
        self._module = module
        self._bytes = {"activation": 0, "copy": 0, "gradient": 0}
        self._kinds: dict[int, tuple[str, int]] = {}
        self._own = {_key(t) for t in (*module.parameters(), *module.buffers())}
        self._hooks: list[Any] = []

    def __enter__(self) -> DryRun:
        for parameter in self._module.parameters():
            if parameter.requires_grad:
                hook = parameter.register_post_accumulate_grad_hook(self._finish)  # type: ignore[no-untyped-call]
                self._hooks.append(hook)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call an operation of torch and count what it makes."""
        if func in INDEXED:
            args = (args[0], _as_indices(args[1]), *args[2:])
        found = func(*args, **(kwargs or {}))
        count = _FLOPS.get(func.overloadpacket)
        if count is not None:
            self.flops += count(*args, **(kwargs or {}), out_val=found)
        is_cast = func is ATEN._to_copy.default and _key(args[0]) in self._own
        for leaf in tree_leaves(found):
            if isinstance(leaf, Tensor):
                self._add(leaf, "copy" if is_cast else "activation")
        return found

    def _add(self, tensor: Tensor, kind: str) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._own or key in self._kinds:
            return
        self._kinds[key] = (kind, storage.nbytes())
        weakref.finalize(storage, self._drop, key).atexit = False
        self._bytes[kind] += storage.nbytes()
        self.activations = max(self.activations, self._bytes["activation"])
        self.copies = max(self.copies, self._bytes["copy"])
        self.peak = max(self.peak, sum(self._bytes.values()))

    def _drop(self, key: int) -> None:
        kind, size = self._kinds.pop(key)
        self._bytes[kind] -= size

    def _finish(self, parameter: Tensor) -> None:
        """Count a gradient as such from now on."""
        assert parameter.grad is not None
        key = _key(parameter.grad)
        kind, size = self._kinds[key]
        self._kinds[key] = ("gradient", size)
        self._bytes[kind] -= size
        self._bytes["gradient"] += size


def _key(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _as_indices(places: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Indices that mean the same as masks, whose number is known only with their values."""
    found: list[Tensor | None] = []
    for place in places:
        is_mask = place is not None and place.dtype == torch.bool
        found += place.nonzero().unbind(dim=1) if is_mask and place is not None else [place]
    return found


def _attention_flops(query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(query.shape, key.shape, value.shape))  # type: ignore[no-untyped-call]


def _attention_backward_flops(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any, **__: Any
) -> int:
    shapes = (gradient.shape, query.shape, key.shape, value.shape)
    return int(sdpa_backward_flop_count(*shapes))  # type: ignore[no-untyped-call]


_FLOPS: dict[Any, Callable[..., int]] = {
    **flop_registry,
    ATEN._scaled_dot_product_flash_attention_for_cpu: _attention_flops,
    ATEN._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward_flops,
}
"""Operations by how they are counted: torch's own table, and the fused attention of a CPU."""
