"""``Adafactor``: second moments of a matrix from the means of its rows and columns.  Its means and norms of whole
matrices are reductions, so it is no fused update: a step is a few operations for each parameter."""

from __future__ import annotations

import math
from typing import Any

from .. import _core
from .._core import Tensor
from .._dtypes import finfo
from ..autograd import no_grad
from .optimizer import Group, Optimizer, Params, State, moment

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """v = r c / mean(r), r and c the running means of g^2 over the columns and the rows of a matrix, or v that of g^2
    itself for other parameters; their weight of a new value is t^beta2_decay.  u = g / sqrt(v), divided by
    max(1, rms(u) / d);  p = (1 - lr weight_decay) p - max(eps[1], rms(p)) min(lr, 1 / sqrt(t)) u (Shazeer and Stern
    2018). eps[0]: v is at least eps[0]^2; None: the spacing of the dtype's numbers at 1."""

    _ranges = (
        *Optimizer._ranges,
        ("d", 1, math.inf),
        ("eps[1]", 0, math.inf),
    )

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if beta2_decay > 0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        options: dict[str, Any] = {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d}
        super().__init__(params, {**options, "weight_decay": weight_decay, "maximize": maximize})

    def _fresh(self, group: Group, p: Tensor) -> State:
        if p.dim() < 2:
            return {"step": 0, "variance": moment(p)}
        return {"step": 0, "row_var": moment(p[..., :1]), "col_var": moment(p[..., :1, :])}

    def _loaded(self, name: str, value: Any, p: Tensor) -> Any:
        like = {"row_var": lambda: p[..., :1], "col_var": lambda: p[..., :1, :]}
        return super()._loaded(name, value, like[name]() if name in like else p)

    @no_grad
    def _step(self, group: Group) -> None:
        if _core._recording():
            self._refuse("its step counts are part of a chain of ops")
        for p in group["params"]:
            if p.grad is None:
                continue
            state = self.state[p]
            if not state:
                state.update(self._fresh(group, p))
            state["step"] += 1
            self._step_one(group, p, -p.grad if group["maximize"] else p.grad, state)

    @staticmethod
    def _step_one(group: Group, p: Tensor, grad: Tensor, state: State) -> None:
        t, (least, floor) = state["step"], group["eps"]
        wide = _core.float64 if p.dtype is _core.float64 else _core.float32
        g, share = grad.to(wide), t ** group["beta2_decay"]
        least = finfo(p.dtype).eps if least is None else least
        alpha = max(floor, _rms(p.to(wide))) * min(group["lr"], 1 / math.sqrt(t))
        if group["weight_decay"]:
            p.mul_(1 - group["lr"] * group["weight_decay"])
        if p.dim() > 1:
            row, column = state["row_var"], state["col_var"]
            row.lerp_((g * g).mean(-1, keepdim=True), share)
            column.lerp_((g * g).mean(-2, keepdim=True), share)
            v = row * column / row.mean(-2, keepdim=True).clamp(min=least)
        else:
            v = state["variance"].lerp_(g * g, share)
        update = v.clamp(min=least * least).rsqrt() * g
        p.add_((update * (-alpha / max(1.0, _rms(update) / group["d"]))).to(p.dtype))


def _rms(x: Tensor) -> float:
    return float((x * x).mean().sqrt()) if x.numel() else 0.0
