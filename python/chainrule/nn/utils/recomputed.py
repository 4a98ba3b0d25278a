"""``weight_norm`` and ``spectral_norm`` by their old ways: the weight is computed anew before each call.
``parametrizations`` has those that compute it whenever it is read."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..._core import Tensor
from ...autograd import no_grad
from .. import functional as F
from ..module import Module
from ..parameter import Parameter
from .parametrizations import _norm_except, _output_axis

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


class _Recomputed:
    """A hook in front of calls that writes ``compute(module)`` into an attribute."""

    def __init__(self, name: str, kind: str, compute: Callable[[Module], Tensor]) -> None:
        self.name, self.kind, self.compute = name, kind, compute

    def __call__(self, module: Module, args: tuple[Any, ...]) -> None:
        module.__dict__[self.name] = self.compute(module)


def _hook(module: Module, name: str, kind: str) -> tuple[Any, _Recomputed]:
    for handle, (hook, _) in module._forward_pre_hooks.items():
        if isinstance(hook, _Recomputed) and (hook.name, hook.kind) == (name, kind):
            return handle, hook
    raise ValueError(f"{kind} of '{name}' not found in {module}")


def _install(module: Module, hook: _Recomputed) -> Module:
    try:
        _hook(module, hook.name, hook.kind)
    except ValueError:
        module.register_forward_pre_hook(hook)
        return module
    raise RuntimeError(f"Cannot register two {hook.kind} hooks on the same parameter {hook.name}")


def _remove(module: Module, name: str, kind: str, *parts: str) -> Module:
    """The attribute becomes a parameter of the value that it has."""
    handle, hook = _hook(module, name, kind)
    value = hook.compute(module).detach()
    handle.remove()
    for part in parts:
        delattr(module, f"{name}_{part}")
    module.__dict__.pop(name)
    module.register_parameter(name, Parameter(value))
    return module


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """weight = g v / norm(v), the norm over all axes but ``dim``, or all with None; the parameters
    are ``weight_g`` and ``weight_v`` (Salimans and Kingma 2016)"""
    warnings.warn(
        "`nn.utils.weight_norm` is deprecated in favor of `nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    axis = -1 if dim is None else dim

    def compute(module: Module) -> Tensor:
        g, v = getattr(module, f"{name}_g"), getattr(module, f"{name}_v")
        product: Tensor = v * (g / _norm_except(v, axis))
        return product

    hook = _Recomputed(name, "weight_norm", compute)
    _install(module, hook)
    weight = getattr(module, name)
    delattr(module, name)
    module.register_parameter(f"{name}_g", Parameter(_norm_except(weight.detach(), axis)))
    module.register_parameter(f"{name}_v", Parameter(weight.detach()))
    hook(module, ())
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Undoes ``weight_norm``; the weight keeps its value."""
    return _remove(module, name, "weight_norm", "g", "v")


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """weight / sigma, sigma the largest singular value of the weight as a matrix (dim, rest), by the
    power method, a step a call in training; the parameter is ``weight_orig`` (Miyato et al. 2018)"""
    if n_power_iterations <= 0:
        raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
    weight = getattr(module, name)
    axis = _output_axis(module) if dim is None else dim

    def compute(module: Module) -> Tensor:
        orig, u, v = (getattr(module, f"{name}_{part}") for part in ("orig", "u", "v"))
        matrix = orig.movedim(axis, 0).flatten(1)
        if module.training:
            with no_grad():
                for _ in range(n_power_iterations):
                    v = F.normalize(matrix.mT @ u, dim=0, eps=eps)
                    u = F.normalize(matrix @ v, dim=0, eps=eps)
            setattr(module, f"{name}_u", u)
            setattr(module, f"{name}_v", v)
        normed: Tensor = orig / (u * (matrix @ v)).sum()
        return normed

    hook = _Recomputed(name, "spectral_norm", compute)
    _install(module, hook)
    delattr(module, name)
    module.register_parameter(f"{name}_orig", weight)
    module.__dict__[name] = weight.detach()
    matrix = weight.detach().movedim(axis, 0).flatten(1)
    for part, size in zip(("u", "v"), matrix.shape, strict=True):
        start = matrix.new_empty(size).normal_(0, 1)
        module.register_buffer(f"{name}_{part}", F.normalize(start, dim=0, eps=eps))
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undoes ``spectral_norm``; the weight keeps the value that it has in use."""
    training = module.training
    module.eval()
    try:
        return _remove(module, name, "spectral_norm", "orig", "u", "v")
    finally:
        module.train(training)
