"""Steps along the gradient, its sign or its running mean."""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import partial
from typing import Any

from .. import _core
from .._core import Tensor
from ..autograd import no_grad
from .fused import Fused, State, moment
from .optimizer import Group, Params

__all__ = ["ASGD", "SGD", "Lion", "Muon", "Rprop"]


class SGD(Fused):
    """d = g + weight_decay p;  m = momentum m + (1 - dampening) d, at first d;  p = p - lr m, or p
    - lr (d + momentum m) with ``nesterov``. maximize: up the gradient.  foreach and fused change
    nothing: every step here is fused."""

    _ranges, _scales = (*Fused._ranges, ("momentum", 0, math.inf)), True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        options = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "differentiable": differentiable,
            "foreach": foreach,
            "fused": fused,
        }
        super().__init__(params, options)

    def _kept(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"momentum_buffer": None} if group["momentum"] else {}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        if not group["momentum"]:
            return False
        first = state.get("momentum_buffer") is None
        if first:
            if _core._recording():
                self._refuse("the first step makes momentum: run a step before")
            state["momentum_buffer"] = moment(p)
        return first

    def _rule(self, group: Group, first: bool) -> tuple[str, tuple[str, ...], dict[str, float]]:
        if not group["momentum"]:
            return "sgd", (), {}
        name = "sgd_nesterov" if group["nesterov"] else "sgd_momentum"
        return name, ("momentum_buffer",), {"dampening": 0} if first else {}


class ASGD(Fused):
    """p = (1 - lambd eta) p - eta (g + weight_decay p);  ax = ax + mu (p - ax), the mean of the parameters, in the
    state;  then eta = lr / (1 + lambd lr t)^alpha and mu = 1 / max(1, t - t0) (Polyak and Juditsky 1992)"""

    _ranges = (*Fused._ranges, ("lambd", 0, math.inf), ("alpha", 0, math.inf), ("t0", 0, math.inf))

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        options = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "capturable": capturable,
        }
        super().__init__(params, {**options, "maximize": maximize, "differentiable": differentiable})

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"step": 0, "eta": float(group["lr"]), "mu": 1.0, "ax": moment(p)}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        key = state["eta"], state["mu"]
        state["step"] += 1
        t, lr = state["step"], group["lr"]
        state["eta"] = lr / (1 + group["lambd"] * lr * t) ** group["alpha"]
        state["mu"] = 1 / max(1, t - group["t0"])
        return key

    def _rule(self, group: Group, key: tuple[float, float]) -> tuple[str, tuple[str, ...], dict[str, float]]:
        return "asgd", ("ax",), {"eta": key[0], "mu": key[1]}


class Rprop(Fused):
    """p = p - sign(g) l for each element;  its step l grows by etas[1] while the sign of g stays, up to
    step_sizes[1], and shrinks by etas[0], down to step_sizes[0], where the sign changes, and p stays then
    (Riedmiller and Braun 1993)"""

    _ranges = (("lr", 0, math.inf),)

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        options = {"lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "capturable": capturable}
        super().__init__(params, {**options, "maximize": maximize, "differentiable": differentiable})

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"step": 0, "prev": moment(p), "step_size": moment(p).fill_(group["lr"])}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        state["step"] += 1
        return None

    def _rule(self, group: Group, key: object) -> tuple[str, tuple[str, ...], dict[str, float]]:
        (down, up), (least, most) = group["etas"], group["step_sizes"]
        return "rprop", ("prev", "step_size"), {"up": up, "down": down, "least": least, "most": most}


class Lion(Fused):
    """p = (1 - lr weight_decay) p - lr sign(b1 m + (1 - b1) g);  m = b2 m + (1 - b2) g (Chen et al.
    2023); lr is a third to a tenth of AdamW's."""

    _ranges, _scales = (*Fused._ranges, ("betas[0]", 0, 1), ("betas[1]", 0, 1)), True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})

    def _kept(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg",)

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"exp_avg": moment(p)}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        return None

    def _rule(self, group: Group, key: object) -> tuple[str, tuple[str, ...], dict[str, float]]:
        return "lion", ("exp_avg",), {}


class Muon(Fused):
    """For matrices: m = momentum m + (1 - momentum) g, looked ahead with ``nesterov``;  p = (1 - lr
    weight_decay) p - lr r orthogonal(m) (Jordan et al. 2024). orthogonal: m with singular values
    near 1, by ``ns_steps`` steps of x <- a x + (b A + c A A) x, A = x x^T, (a, b, c) =
    ns_coefficients, after division by the norm, at least ``eps``; in float32 (float64 for float64),
    where PyTorch rounds to bfloat16.  r: for a matrix (M, N) sqrt(max(1, M / N)) ("original"), or
    0.2 sqrt(max(M, N)) ("match_rms_adamw": one lr for this and AdamW).  ValueError: a parameter
    that is not a matrix."""

    _ranges = (*Fused._ranges, ("momentum", 0, math.inf))

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        if len(ns_coefficients) != 3:
            raise ValueError("Coefficients must be a tuple of exactly 3 values")
        options = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
        }
        super().__init__(params, {**options, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            if p.ndim != 2:
                self.param_groups.pop()
                raise ValueError(f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}")

    def _kept(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",)

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"momentum_buffer": moment(p)}

    @no_grad
    def _step(self, group: Group) -> None:
        for p in group["params"]:
            if p.grad is None:
                continue
            state = self.state[p]
            if not state:
                state.update(self._fresh(group, p))
                if _core._recording():
                    self._refuse("the first step makes momentum: run a step before")
            mean = state["momentum_buffer"]
            ahead = _core.empty_like(mean)
            name = "muon_nesterov" if group["nesterov"] else "muon"
            self._update(name, [mean, ahead], [mean, p.grad], dict, group)
            rows, columns = p.shape
            ratio = (
                0.2 * math.sqrt(max(rows, columns))
                if group["adjust_lr_fn"] == "match_rms_adamw"
                else math.sqrt(max(1, rows / columns))
            )
            a, b, c = group["ns_coefficients"]
            direction = _core._newton_schulz(ahead, a, b, c, group["eps"], group["ns_steps"])
            self._update("muon_apply", [p], [p, direction], partial(dict, ratio=ratio), group)
