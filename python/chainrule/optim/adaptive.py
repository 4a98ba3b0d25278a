"""Steps divided by how large the gradients of each element have been.

g is the gradient plus weight_decay p, except in AdamW, which scales the weights instead; t counts
steps.  ``maximize``: up the gradient. ``foreach``, ``fused`` and ``capturable`` change nothing: every
step here is fused.  ValueError: ``differentiable``, a step that is recorded."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

from .. import _core
from .._core import Tensor
from .fused import Fused, State, master, moment
from .optimizer import Group, Params

__all__ = ["Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "SparseAdam"]

_BETAS = (*Fused._ranges, ("eps", 0, math.inf), ("betas[0]", 0, 1), ("betas[1]", 0, 1))


class Adam(Fused):
    """m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p = p - lr m' / (sqrt(v') + eps), m' = m /
    (1 - b1^t), v' = v / (1 - b2^t) (Kingma and Ba 2015). amsgrad: the largest v so far divides
    (Reddi et al. 2018).  decoupled_weight_decay: AdamW's.  offload: m and v lie in the host's
    memory, where a CUDA device reaches them: 8 bytes of its memory less for each parameter, slower
    steps, the same bits; without effect on the cpu, a RuntimeError on webgpu. master_weights: the
    first step makes a float32 copy of each float16 and bfloat16 parameter, "master" in the state;
    steps change the master, and the parameter is its rounded value. The master does not see what
    else writes the parameter. ValueError: with amsgrad."""

    _ranges, _scales, _counts = _BETAS, True, True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
        offload: bool = False,
        master_weights: bool = False,
    ) -> None:
        self._offload, self._masters = offload, master_weights
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "differentiable": differentiable,
            "foreach": foreach,
            "capturable": capturable,
            "fused": fused,
        }
        super().__init__(params, {**options, "decoupled_weight_decay": decoupled_weight_decay})

    def _check(self, group: Group) -> None:
        super()._check(group)
        if self._masters and group["amsgrad"]:
            raise ValueError("master_weights cannot be combined with amsgrad")

    def _kept(self, group: Group) -> tuple[str, ...] | None:
        return None if group["amsgrad"] else self._moments(group)

    @staticmethod
    def _moments(group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")

    def _fresh(self, group: Group, p: Tensor) -> State:
        moments = {name: moment(p, self._offload) for name in self._moments(group)}
        return {"step": 0, **moments, **(master(p, self._offload) if self._masters else {})}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        state["step"] += 1
        return int(state["step"])

    def _rule(self, group: Group, t: int) -> tuple[str, tuple[str, ...], dict[str, float]]:
        name = ("adamw" if group["decoupled_weight_decay"] else "adam") + ("_amsgrad" if group["amsgrad"] else "")
        return name, self._moments(group), {"t": t}


class AdamW(Adam):
    """Adam, but p = (1 - lr weight_decay) p - ... in place of the decay in g (Loshchilov and Hutter 2019)."""

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
        offload: bool = False,
        master_weights: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
            offload=offload,
            master_weights=master_weights,
        )


class Adamax(Fused):
    """m = b1 m + (1 - b1) g;  v = max(b2 v, |g| + eps);  p = p - lr / (1 - b1^t) m / v (Kingma and Ba 2015)"""

    _ranges, _scales = _BETAS, True

    def __init__(
        self,
        params: Params,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
        }
        super().__init__(params, {**options, "differentiable": differentiable})

    def _kept(self, group: Group) -> tuple[str, ...]:
        return ("exp_avg", "exp_inf")

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"step": 0, "exp_avg": moment(p), "exp_inf": moment(p)}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        state["step"] += 1
        return int(state["step"])

    def _rule(self, group: Group, t: int) -> tuple[str, tuple[str, ...], dict[str, float]]:
        return "adamax", ("exp_avg", "exp_inf"), {"t": t}


class RAdam(Fused):
    """Adam whose steps are scaled by r = sqrt((q - 4) (q - 2) Q / ((Q - 4) (Q - 2) q)), Q = 2 / (1 - b2) - 1,
    q = Q - 2 t b2^t / (1 - b2^t), and not divided by sqrt(v) while q <= 5 (Liu et al. 2020)"""

    _ranges = _BETAS

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
        }
        super().__init__(
            params, {**options, "decoupled_weight_decay": decoupled_weight_decay, "differentiable": differentiable}
        )

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"step": 0, "exp_avg": moment(p), "exp_avg_sq": moment(p)}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        state["step"] += 1
        return int(state["step"])

    @staticmethod
    def _rate(group: Group, t: int) -> tuple[str, float]:
        """The update and what it multiplies m by."""
        b1, b2 = group["betas"]
        whole, decayed = 2 / (1 - b2) - 1, 1 - b2**t
        now = whole - 2 * t * b2**t / decayed
        lr: float = group["lr"] / (1 - b1**t)
        if now <= 5:
            return "radam_early", lr
        part = (now - 4) * (now - 2) * whole / ((whole - 4) * (whole - 2) * now)
        return "radam", lr * math.sqrt(part * decayed)

    def _rule(self, group: Group, t: int) -> tuple[str, tuple[str, ...], dict[str, float]]:
        name, rate = self._rate(group, t)
        if name == "radam_early":
            self._refuse("its first steps have another update: run a step before")
        keep = {"keep": 1.0}
        if group.get("decoupled_weight_decay"):
            keep = {"keep": 1 - group["lr"] * group["weight_decay"], "weight_decay": 0.0}
        return name, ("exp_avg", "exp_avg_sq"), {"rate": rate, **keep}


class SparseAdam(RAdam):
    """Adam without weight decay, p = p - lr sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + eps).  Gradients are dense
    here: the step takes every element, as if a sparse gradient named all rows."""

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        Fused.__init__(self, params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def _rule(self, group: Group, t: int) -> tuple[str, tuple[str, ...], dict[str, float]]:
        b1, b2 = group["betas"]
        rate = group["lr"] * math.sqrt(1 - b2**t) / (1 - b1**t)
        return "radam", ("exp_avg", "exp_avg_sq"), {"rate": rate, "keep": 1.0, "weight_decay": 0.0}


class NAdam(Fused):
    """Adam with Nesterov's momentum: p = p - lr ((1 - u) g / (1 - U) + u' m / (1 - U u')) /
    (sqrt(v') + eps),  u = b1 (1 - 0.96^(t momentum_decay) / 2), u' that of the next step, U the
    product of all u so far (Dozat 2016)."""

    _ranges = (*_BETAS, ("momentum_decay", 0, math.inf))

    def __init__(
        self,
        params: Params,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        options = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "maximize": maximize,
            "differentiable": differentiable,
            "foreach": foreach,
            "capturable": capturable,
        }
        super().__init__(params, {**options, "decoupled_weight_decay": decoupled_weight_decay})

    @staticmethod
    def _momentum(group: Group, t: int) -> float:
        """u at step t"""
        return group["betas"][0] * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"]))  # type: ignore[no-any-return]

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"step": 0, "mu_product": 1.0, "exp_avg": moment(p), "exp_avg_sq": moment(p)}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        if group["decoupled_weight_decay"] and group["weight_decay"]:
            if _core._recording():
                self._refuse("its weights decay in an update of their own")
            _core._update("scale", [p], [p], {"scale": 1 - group["lr"] * group["weight_decay"]})
        state["step"] += 1
        state["mu_product"] *= self._momentum(group, state["step"])
        return state["step"], state["mu_product"]

    def _rule(self, group: Group, key: tuple[int, float]) -> tuple[str, tuple[str, ...], dict[str, float]]:
        t, product = key
        more = {"t": t, "now": self._momentum(group, t), "then": self._momentum(group, t + 1), "product": product}
        return (
            "nadam",
            ("exp_avg", "exp_avg_sq"),
            {**more, "weight_decay": 0} if group["decoupled_weight_decay"] else more,
        )


class RMSprop(Fused):
    """v = alpha v + (1 - alpha) g^2;  d = g / (sqrt(v) + eps);  p = p - lr d, or p - lr m with m =
    momentum m + d (Tieleman and Hinton 2012). centered: the variance divides, v - h^2, h = alpha h
    + (1 - alpha) g (Graves 2013)."""

    _ranges = (*Fused._ranges, ("eps", 0, math.inf), ("momentum", 0, math.inf), ("alpha", 0, math.inf))

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        options: dict[str, Any] = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "capturable": capturable,
        }
        super().__init__(params, {**options, "maximize": maximize, "differentiable": differentiable})

    @staticmethod
    def _moments(group: Group) -> tuple[str, ...]:
        return (
            "square_avg",
            *(["grad_avg"] if group["centered"] else []),
            *(["momentum_buffer"] if group["momentum"] else []),
        )

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"step": 0, **{name: moment(p) for name in self._moments(group)}}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        state["step"] += 1
        return None

    def _rule(self, group: Group, key: object) -> tuple[str, tuple[str, ...], dict[str, float]]:
        name = "rmsprop" + ("_centered" if group["centered"] else "") + ("_momentum" if group["momentum"] else "")
        return name, self._moments(group), {}


class Adagrad(Fused):
    """v = v + g^2, from ``initial_accumulator_value`` on;  p = p - lr / (1 + (t - 1) lr_decay) g /
    (sqrt(v) + eps) (Duchi et al. 2011)"""

    _ranges = (
        *Fused._ranges,
        ("eps", 0, math.inf),
        ("lr_decay", 0, math.inf),
        ("initial_accumulator_value", 0, math.inf),
    )

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        options = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "fused": fused,
        }
        super().__init__(params, {**options, "maximize": maximize, "differentiable": differentiable})

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"step": 0, "sum": moment(p).fill_(group["initial_accumulator_value"])}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        state["step"] += 1
        return int(state["step"])

    def _rule(self, group: Group, t: int) -> tuple[str, tuple[str, ...], dict[str, float]]:
        return "adagrad", ("sum",), {"t": t}


class Adadelta(Fused):
    """v = rho v + (1 - rho) g^2;  d = sqrt(u + eps) / sqrt(v + eps) g;  u = rho u + (1 - rho) d^2;
    p = p - lr d (Zeiler 2012)"""

    _ranges = (*Fused._ranges, ("eps", 0, math.inf), ("rho", 0, 1 + 2**-52))

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        options = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
        }
        super().__init__(params, {**options, "differentiable": differentiable})

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"step": 0, "square_avg": moment(p), "acc_delta": moment(p)}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        state["step"] += 1
        return None

    def _rule(self, group: Group, key: object) -> tuple[str, tuple[str, ...], dict[str, float]]:
        return "adadelta", ("square_avg", "acc_delta"), {}
