"""Adam, AdamW, NAdam, RMSprop, Adagrad, Adadelta: steps divided by how large the gradients of each element have been.

g is the gradient plus weight_decay p, but for AdamW, whose weights shrink by themselves; t counts steps.  ``maximize``: up the gradient.
``foreach`` and ``fused`` change nothing: every step here is fused.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

from .. import _core
from .._core import Tensor
from .optimizer import Group, Optimizer, Params, State, moment

_BETAS = (*Optimizer._ranges, ("eps", 0, math.inf), ("betas[0]", 0, 1), ("betas[1]", 0, 1))


class Adam(Optimizer):
    """m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p = p - lr m' / (sqrt(v') + eps), m' = m / (1 - b1^t), v' = v / (1 - b2^t) (Kingma and Ba 2015).
    amsgrad: the largest v so far divides (Reddi et al. 2018).  decoupled_weight_decay: AdamW's.  offload: m and v lie in the host's memory, where a CUDA device
    reaches them: 8 bytes of its memory less for each parameter, slower steps, the same bits; without effect on the cpu, a RuntimeError on webgpu."""

    _ranges, _scales = _BETAS, True

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
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
        offload: bool = False,
    ) -> None:
        self._offload = offload
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize}
        super().__init__(params, {**options, "decoupled_weight_decay": decoupled_weight_decay})

    def _fresh(self, group: Group, p: Tensor) -> State:
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")
        return {"step": 0, **{name: moment(p, self._offload) for name in names}}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        state["step"] += 1
        return int(state["step"])

    def _rule(self, group: Group, t: int) -> tuple[str, tuple[str, ...], tuple[float, ...]]:
        """Both corrections are in lr and eps: lr m' / (sqrt(v') + eps) = (lr root / (1 - b1^t)) m / (sqrt(v) + root eps), root = sqrt(1 - b2^t)"""
        lr, decay, (b1, b2), scale = group["lr"], group["weight_decay"], group["betas"], self._scale
        root = math.sqrt(1 - b2**t)
        moments = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")
        step, eps, behind = lr * root / (1 - b1**t), group["eps"] * root, "_amsgrad" if group["amsgrad"] else ""
        if group["decoupled_weight_decay"]:
            return "adamw" + behind, moments, (step, eps, 1 - lr * decay, b1, (1 - b1) * scale, b2, (1 - b2) * scale * scale)
        return "adam" + behind, moments, (step, eps, decay, b1, 1 - b1, b2, 1 - b2, scale)


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
        foreach: bool | None = None,
        fused: bool | None = None,
        offload: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True, offload=offload)


class NAdam(Optimizer):
    """Adam with Nesterov's momentum: p = p - lr ((1 - u) g / (1 - U) + u' m / (1 - U u')) / (sqrt(v') + eps),  u = b1 (1 - 0.96^(t momentum_decay) / 2),
    u' that of the next step, U the product of all u so far (Dozat 2016)."""

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
    ) -> None:
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay, "maximize": maximize}
        super().__init__(params, {**options, "decoupled_weight_decay": decoupled_weight_decay})

    @staticmethod
    def _momentum(group: Group, t: int) -> float:
        """u at step t"""
        return group["betas"][0] * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"]))  # type: ignore[no-any-return]

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"step": 0, "mu_product": 1.0, "exp_avg": moment(p), "exp_avg_sq": moment(p)}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        if group["decoupled_weight_decay"] and group["weight_decay"]:
            _core._update("scale", [p], [p], (1 - group["lr"] * group["weight_decay"],))
        state["step"] += 1
        state["mu_product"] *= self._momentum(group, state["step"])
        return state["step"], state["mu_product"]

    def _rule(self, group: Group, key: tuple[int, float]) -> tuple[str, tuple[str, ...], tuple[float, ...]]:
        (t, product), lr, (b1, b2) = key, group["lr"], group["betas"]
        now, then, root = self._momentum(group, t), self._momentum(group, t + 1), math.sqrt(1 - b2**t)
        decay = 0 if group["decoupled_weight_decay"] else group["weight_decay"]
        of_gradient, of_mean = lr * root * (1 - now) / (1 - product), lr * root * then / (1 - product * then)
        return "nadam", ("exp_avg", "exp_avg_sq"), (of_gradient, of_mean, group["eps"] * root, decay, b1, 1 - b1, b2, 1 - b2)


class RMSprop(Optimizer):
    """v = alpha v + (1 - alpha) g^2;  d = g / (sqrt(v) + eps);  p = p - lr d, or p - lr m with m = momentum m + d (Tieleman and Hinton 2012).
    centered: the variance divides, v - h^2, h = alpha h + (1 - alpha) g (Graves 2013)."""

    _ranges = (*Optimizer._ranges, ("eps", 0, math.inf), ("momentum", 0, math.inf), ("alpha", 0, math.inf))

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
    ) -> None:
        options: dict[str, Any] = {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered, "weight_decay": weight_decay}
        super().__init__(params, {**options, "maximize": maximize})

    @staticmethod
    def _moments(group: Group) -> tuple[str, ...]:
        return ("square_avg", *(["grad_avg"] if group["centered"] else []), *(["momentum_buffer"] if group["momentum"] else []))

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"step": 0, **{name: moment(p) for name in self._moments(group)}}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        state["step"] += 1
        return None

    def _rule(self, group: Group, key: object) -> tuple[str, tuple[str, ...], tuple[float, ...]]:
        alpha, momentum = group["alpha"], group["momentum"]
        name = "rmsprop" + ("_centered" if group["centered"] else "") + ("_momentum" if momentum else "")
        return name, self._moments(group), (group["lr"], group["eps"], group["weight_decay"], alpha, 1 - alpha, *([momentum] if momentum else []))


class Adagrad(Optimizer):
    """v = v + g^2, from ``initial_accumulator_value`` on;  p = p - lr / (1 + (t - 1) lr_decay) g / (sqrt(v) + eps) (Duchi et al. 2011)"""

    _ranges = (*Optimizer._ranges, ("eps", 0, math.inf), ("lr_decay", 0, math.inf), ("initial_accumulator_value", 0, math.inf))

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
        fused: bool | None = None,
    ) -> None:
        options = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay, "initial_accumulator_value": initial_accumulator_value}
        super().__init__(params, {**options, "maximize": maximize})

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"step": 0, "sum": moment(p).fill_(group["initial_accumulator_value"])}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        state["step"] += 1
        return int(state["step"])

    def _rule(self, group: Group, t: int) -> tuple[str, tuple[str, ...], tuple[float, ...]]:
        return "adagrad", ("sum",), (group["lr"] / (1 + (t - 1) * group["lr_decay"]), group["eps"], group["weight_decay"])


class Adadelta(Optimizer):
    """v = rho v + (1 - rho) g^2;  d = sqrt(u + eps) / sqrt(v + eps) g;  u = rho u + (1 - rho) d^2;  p = p - lr d (Zeiler 2012)"""

    _ranges = (*Optimizer._ranges, ("eps", 0, math.inf), ("rho", 0, 1 + 2**-52))

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
    ) -> None:
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize})

    def _fresh(self, group: Group, p: Tensor) -> State:
        return {"step": 0, "square_avg": moment(p), "acc_delta": moment(p)}

    def _advance(self, group: Group, p: Tensor, state: State) -> Hashable:
        state["step"] += 1
        return None

    def _rule(self, group: Group, key: object) -> tuple[str, tuple[str, ...], tuple[float, ...]]:
        rho = group["rho"]
        return "adadelta", ("square_avg", "acc_delta"), (group["lr"], group["eps"], group["weight_decay"], rho, 1 - rho)
