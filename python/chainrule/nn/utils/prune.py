"""``chainrule.nn.utils.prune``: masks that hold elements of a parameter at zero.

The parameter becomes ``weight_orig``, the mask is the buffer ``weight_mask``, and ``weight`` is
their product, computed before each call.  Masks of several prunings multiply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from numbers import Integral, Real
from typing import Any

from ... import _core
from ..._core import Tensor
from ...autograd import no_grad
from ..module import Module

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod:
    """A way to choose what is pruned.  A subclass sets PRUNING_TYPE, "unstructured", "structured"
    (whole slices along ``dim``) or "global", and defines ``compute_mask``."""

    PRUNING_TYPE = "unstructured"
    _tensor_name: str

    def __call__(self, module: Module, args: tuple[Any, ...]) -> None:
        module.__dict__[self._tensor_name] = self.apply_mask(module)

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask, 0 where t is pruned, within the one that is there."""
        raise NotImplementedError("a pruning method defines compute_mask")

    def apply_mask(self, module: Module) -> Tensor:
        """The original times the mask."""
        name = self._tensor_name
        product: Tensor = getattr(module, f"{name}_orig") * getattr(module, f"{name}_mask").to(
            dtype=getattr(module, f"{name}_orig").dtype
        )
        return product

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """t times the mask that its importance, itself where there are no scores, asks for."""
        scores = _scores(t, importance_scores)
        return t * self.compute_mask(scores, _core.ones_like(t) if default_mask is None else default_mask)

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prunes a parameter of a module by ``cls(*args, **kwargs)``, in front of which may be others."""
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        found = _hook(module, name)
        if found is not None:
            before = found[1]
            container = before if isinstance(before, PruningContainer) else PruningContainer(before)
            container.add_pruning_method(method)
            container._tensor_name = name
            mask, orig = getattr(module, f"{name}_mask"), getattr(module, f"{name}_orig")
            new = container.compute_mask(_scores(orig, importance_scores), mask)
            found[0].remove()
            method = container
        else:
            orig = getattr(module, name)
            new = method.compute_mask(_scores(orig, importance_scores), _core.ones_like(orig, requires_grad=False))
            delattr(module, name)
            module.register_parameter(f"{name}_orig", orig)
        module.register_buffer(f"{name}_mask", new.detach())
        module.register_forward_pre_hook(method)
        method(module, ())
        return method

    def remove(self, module: Module) -> None:
        """Makes the pruned parameter a parameter again, with the zeros."""
        name = self._tensor_name
        orig = getattr(module, f"{name}_orig")
        orig.data = self.apply_mask(module).detach()
        delattr(module, f"{name}_orig")
        delattr(module, f"{name}_mask")
        module.__dict__.pop(name)
        module.register_parameter(name, orig)


def _scores(t: Tensor, scores: Tensor | None) -> Tensor:
    if scores is not None and scores.shape != t.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as the tensor, {t.shape}, got {scores.shape}"
        )
    return (t if scores is None else scores).detach()


def _hook(module: Module, name: str) -> tuple[Any, BasePruningMethod] | None:
    for handle, (hook, _) in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return handle, hook
    return None


def _count(amount: float, size: int) -> int:
    """How many of ``size`` an amount, a number or a share, is."""
    if not isinstance(amount, Integral):
        return round(amount * size)
    if amount > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return int(amount)


def _check_amount(amount: float) -> None:
    if not isinstance(amount, Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, Integral) and amount > 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask * self.mask.to(dtype=default_mask.dtype)


class _Amount(BasePruningMethod):
    """amount: how many elements, or slices along ``dim``, or which share of them."""

    def __init__(self, amount: float) -> None:
        _check_amount(amount)
        self.amount = amount

    def _without(self, order: Tensor, default_mask: Tensor) -> Tensor:
        """The mask without the first elements of an order : (numel)"""
        mask = default_mask.flatten().clone()
        mask[order[: _count(self.amount, mask.numel())]] = 0
        return mask.reshape(default_mask.shape)


class RandomUnstructured(_Amount):
    """Prunes elements at random."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return self._without(_core.randperm(t.numel()).to(t.device), default_mask)


class L1Unstructured(_Amount):
    """Prunes the elements of smallest absolute value."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return self._without(t.abs().flatten().sort(stable=True)[1], default_mask)


class _Structured(_Amount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def order(self, slices: Tensor) -> Tensor:
        """The slices (size, elements) in the order in which they are pruned : (size)"""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.ndim <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape"
                f" {t.shape} with {t.ndim} dims"
            )
        if not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"Invalid dim {self.dim} for tensor of shape {t.shape}")
        size = t.size(self.dim)
        count = _count(self.amount, size)
        kept = _core.ones(size, dtype=default_mask.dtype, device=t.device)
        kept[self.order(t.movedim(self.dim, 0).reshape(size, -1))[:count]] = 0
        shape = [1] * t.ndim
        shape[self.dim] = size
        return default_mask * kept.reshape(shape)


class RandomStructured(_Structured):
    """Prunes whole slices along ``dim`` at random."""

    def order(self, slices: Tensor) -> Tensor:
        """Any order."""
        return _core.randperm(len(slices)).to(slices.device)


class LnStructured(_Structured):
    """Prunes the whole slices along ``dim`` of smallest norm_n."""

    def __init__(self, amount: float, n: float, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def order(self, slices: Tensor) -> Tensor:
        """By norm."""
        return slices.norm(self.n, 1).sort(stable=True)[1]


class PruningContainer(BasePruningMethod):
    """Several prunings of one parameter, one after the other: each sees what those before have left."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods = args
        if args:
            self._tensor_name = args[0]._tensor_name

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Adds one at the end."""
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        self._pruning_methods = (*self._pruning_methods, method)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, i: int) -> BasePruningMethod:
        return self._pruning_methods[i]

    @no_grad()
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the last method, of the elements or slices that are left."""
        method, mask = self._pruning_methods[-1], default_mask.clone()
        if method.PRUNING_TYPE == "unstructured":
            left = default_mask == 1
            mask[left] = method.compute_mask(t[left], default_mask[left]).to(dtype=mask.dtype)
            return mask
        if method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim  # type: ignore[attr-defined]
            left = (default_mask.movedim(dim, 0).reshape(t.size(dim), -1).sum(1) != 0).nonzero().squeeze(1)
            part = method.compute_mask(t.index_select(dim, left), default_mask.index_select(dim, left))
            return mask.index_copy(dim, left, part.to(dtype=mask.dtype))
        if method.PRUNING_TYPE == "global":
            return method.compute_mask(t, default_mask)
        raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")


def identity(module: Module, name: str) -> Module:
    """``Identity`` of a parameter."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """``RandomUnstructured`` of a parameter."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """``L1Unstructured`` of a parameter, or of the scores of its elements."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """``RandomStructured`` of a parameter."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: float, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """``LnStructured`` of a parameter, or of the scores of its elements."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """``CustomFromMask`` of a parameter."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: dict[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prunes several parameters as one vector: ``[(module, "weight"), ...]``."""
    pairs, scores = [*parameters], importance_scores or {}
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise TypeError("global_unstructured(): parameters is not a list of tuples (module, name)")
    values = [scores.get((module, name), getattr(module, name)).detach() for module, name in pairs]
    masks = [getattr(module, f"{name}_mask", _core.ones_like(getattr(module, name))).detach() for module, name in pairs]
    container = PruningContainer()
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method'
            f" {pruning_method} of type {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    joint = container.compute_mask(_core.cat([v.flatten() for v in values]), _core.cat([m.flatten() for m in masks]))
    for (module, name), mask in zip(pairs, joint.split([m.numel() for m in masks]), strict=True):
        custom_from_mask(module, name, mask.reshape(getattr(module, name).shape))


def remove(module: Module, name: str) -> Module:
    """Makes the pruned parameter a parameter again, with the zeros."""
    found = _hook(module, name)
    if found is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    found[1].remove(module)
    found[0].remove()
    return module


def is_pruned(module: Module) -> bool:
    """Has the module, or one inside it, a pruned parameter?"""
    return any(
        isinstance(hook, BasePruningMethod) for part in module.modules() for hook, _ in part._forward_pre_hooks.values()
    )
