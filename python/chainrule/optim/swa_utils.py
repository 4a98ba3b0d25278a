"""``chainrule.optim.swa_utils``: models whose parameters are means over training (Izmailov et al. 2018)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from .. import _core
from .._core import Device, Tensor
from ..autograd import no_grad
from ..nn import Module
from .lr_scheduler import LRScheduler, _cosine, _straight
from .optimizer import Optimizer

__all__ = ["SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "update_bn"]

Average = Callable[[Tensor, Tensor, Any], Tensor]


def get_swa_avg_fn() -> Average:
    """mean + (p - mean) / (n + 1)"""

    @no_grad
    def average(mean: Tensor, p: Tensor, n: Any) -> Tensor:
        y: Tensor = mean + (p - mean) / (n + 1)
        return y

    return average


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """decay mean + (1 - decay) p; ValueError: a decay outside of [0, 1]"""
    if not 0 <= decay <= 1:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    @no_grad
    def average(mean: Tensor, p: Tensor, n: Any) -> Tensor:
        return decay * mean + (1 - decay) * p

    return average


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[list[Tensor], list[Tensor], Any], None]:
    """``get_ema_avg_fn`` for lists, in place"""
    one = get_ema_avg_fn(decay)

    @no_grad
    def average(means: list[Tensor], ps: list[Tensor], n: Any) -> None:
        for mean, p in zip(means, ps, strict=True):
            mean.copy_(one(mean, p, n) if mean.is_floating_point() else p)

    return average


class AveragedModel(Module):
    """A copy of ``model`` whose parameters are means of the model's at each ``update_parameters``: of equal weights, or
    by avg_fn(mean, p, n_averaged), or by multi_avg_fn over lists of all.  use_buffers: buffers too; else they are
    copied."""

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Device | str | None = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Callable[[list[Tensor], list[Tensor], Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", _core.tensor(0, dtype=_core.int64))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @no_grad
    def update_parameters(self, model: Module) -> None:
        """One more model for the means."""
        means: list[Tensor] = [*self.module.parameters()]
        values: list[Tensor] = [*model.parameters()]
        if self.use_buffers:
            means, values = means + list(self.module.buffers()), values + list(model.buffers())
        values = [v.detach().to(m.device) for m, v in zip(means, values, strict=True)]
        n = int(self.n_averaged)
        if n == 0:
            for m, v in zip(means, values, strict=True):
                m.copy_(v)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(means, values, n)
        else:
            one = self.avg_fn or get_swa_avg_fn()
            for m, v in zip(means, values, strict=True):
                m.copy_(one(m.detach(), v, n) if m.is_floating_point() else v)
        if not self.use_buffers:
            for own, other in zip(self.module.buffers(), model.buffers(), strict=True):
                own.copy_(other.detach().to(own.device))
        self.n_averaged += 1


@no_grad
def update_bn(loader: Iterable[Any], model: Module, device: Device | str | None = None) -> None:
    """Runs the model over ``loader``, whose items are inputs or tuples that begin with them, to compute the running
    statistics of its batch normalizations anew: equal weights for all batches."""
    norms = [m for m in model.modules() if getattr(m, "running_mean", None) is not None and hasattr(m, "momentum")]
    if not norms:
        return
    kept = [m.momentum for m in norms]
    mode = model.training
    for m in norms:
        m.reset_running_stats()
        m.momentum = None
    model.train()
    for batch in loader:
        x = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(x if device is None else x.to(device))
    for m, momentum in zip(norms, kept, strict=True):
        m.momentum = momentum
    model.train(mode)


class SWALR(LRScheduler):
    """From the rate in force to ``swa_lr`` over ``anneal_epochs``, along a cosine or a straight line; then swa_lr."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(f"swa_lr must have the same length as optimizer.param_groups: {len(rates)}, {len(groups)}")
        for rate, group in zip(rates, groups, strict=True):
            group["swa_lr"] = rate
        self.anneal_epochs, self._anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _part(self, n: int) -> float:
        """How much of the way is done after n steps."""
        t = max(0.0, min(1.0, n / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else 1 - _cosine(1.0, 0.0, t)

    def get_lr(self) -> list[float]:
        n = self._step_count - 1
        if self.anneal_epochs == 0:
            n = max(1, n)
        before, now, rates = self._part(max(0, n - 1)), self._part(n), []
        for group in self.optimizer.param_groups:
            lr, last = group["lr"], group["swa_lr"]
            start = last if before == 1 else (lr - before * last) / (1 - before)
            rates.append(_straight(start, last, now))
        return rates
