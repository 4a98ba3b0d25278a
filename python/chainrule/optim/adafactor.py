"""``Adafactor``: second moments of a matrix from the means of its rows and columns.  Its means and norms of whole
matrices are reductions, so it is not a fused update: a step is a few operations for each parameter."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from .. import _core
from .._core import Tensor
from .._dtypes import finfo
from ..autograd import no_grad
from .fused import Fused, State, moment
from .optimizer import Group, Params

__all__ = ["Adafactor"]


class Adafactor(Fused):
    """v = r c / mean(r), r and c the running means of g^2 over the columns and the rows of a matrix, or v that of g^2
    itself for other parameters; their weight of a new value is t^beta2_decay.  u = g / sqrt(v), divided by
    max(1, rms(u) / d);  p = (1 - lr weight_decay) p - max(eps[1], rms(p)) min(lr, 1 / sqrt(t)) u (Shazeer and Stern
    2018). eps[0]: v is at least eps[0]^2; None: the spacing of the dtype's numbers at 1."""

    _ranges = (
        *Fused._ranges,
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
        options: dict[str, Any] = {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "foreach": foreach}
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
        for p in group["params"]:
            if p.grad is None:
                continue
            state = self.state[p]
            if not state:
                state.update(self._fresh(group, p))
                if _core._recording():
                    self._refuse("the first step makes moments: run a step before")
            state["step"] += 1
            if _core._recording():
                _core._record_replay(partial(self._count, state))
            self._step_one(group, p, -p.grad if group["maximize"] else p.grad, state)

    @staticmethod
    def _count(state: State, plan: object) -> None:
        """Before a replay, or after one that failed."""
        state["step"] += -1 if plan is None else 1

    def _step_one(self, group: Group, p: Tensor, grad: Tensor, state: State) -> None:
        least, floor = group["eps"]
        wide = _core.float64 if p.dtype is _core.float64 else _core.float32
        g, size = grad.to(wide), _rms(p.to(wide)).clamp(min=floor)
        least = finfo(p.dtype).eps if least is None else least
        number = lambda: {"t": state["step"]}
        squares = g * g
        if p.dim() > 1:
            row, column = state["row_var"], state["col_var"]
            self._update("adafactor_mean", [row], [row, squares.mean(-1, keepdim=True)], number, group)
            self._update("adafactor_mean", [column], [column, squares.mean(-2, keepdim=True)], number, group)
            v = row * column / row.mean(-2, keepdim=True).clamp(min=least)
        else:
            v = state["variance"]
            self._update("adafactor_mean", [v], [v, squares], number, group)
        update = v.clamp(min=least * least).rsqrt() * g
        direction = update * (size / (_rms(update) / group["d"]).clamp(min=1))
        rate = lambda: {"rate": min(group["lr"], 1 / math.sqrt(state["step"]))}
        self._update("adafactor", [p], [p, direction.to(p.dtype)], rate, group)


def _rms(x: Tensor) -> Tensor:
    return (x * x).mean().sqrt()
