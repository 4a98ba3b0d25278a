"""``chainrule.optim.lr_scheduler``: learning rates over time, with PyTorch's numbers.

``step()`` after each epoch (or step) of the optimizer.  Rates are computed from the ones before, so
that several schedulers of one optimizer multiply; n is ``last_epoch``, which counts from 0, and lr0
the rate that the optimizer began with."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

from .. import _core
from .optimizer import Group, Optimizer

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


def _outside() -> None:
    """Refuses a plan to a recorded step that a scheduler's step is part of."""
    why = "a scheduler sets learning rates in Python, and a replay runs kernels only: call its step() after the step"
    _core._record_refuse("step", why)


class LRScheduler:
    """The base class of schedulers.  In a subclass, ``get_lr`` computes the next rates from the
    current ones, and ``_get_closed_form_lr`` the rates after n steps. last_epoch: -1 begins; another goes on,
    with the optimizer's "initial_lr".  KeyError: there is none."""

    _apart: tuple[str, ...] = ("optimizer",)  # attributes that the state dict leaves out
    _get_lr_called_within_step = False  # ``get_lr`` of a subclass may warn where it is not

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{i}] when resuming an optimizer")
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count, self._is_initial = 0, True
        self.step()
        self._is_initial = False

    def _unstep(self) -> None:
        """Takes the step of ``__init__`` back."""
        self.last_epoch -= 1

    def get_lr(self) -> list[float]:
        """The rate of each group at ``last_epoch``."""
        raise NotImplementedError

    def _get_closed_form_lr(self) -> list[float]:
        return self.get_lr()

    def step(self, epoch: int | None = None) -> None:
        """One epoch further, or to ``epoch``."""
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        _outside()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._apply(self.get_lr if epoch is None else self._get_closed_form_lr)

    def _apply(self, compute: Callable[[], list[float]]) -> None:
        """Sets the rates that ``compute`` gives."""
        self._get_lr_called_within_step = True
        try:
            rates = compute()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = lr
        self._last_lr = rates

    def get_last_lr(self) -> list[float]:
        """The rates set last."""
        return self._last_lr

    def _rates(self) -> list[float]:
        """The rates in force."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """All that it needs to go on, without the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k not in self._apart}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on where ``state_dict`` was taken."""
        self.__dict__.update(state_dict)


def _attributes(f: Any) -> dict[str, Any] | None:
    """What a state dict holds of a callable; None: a plain function."""
    return None if f is None or isinstance(f, FunctionType) else dict(f.__dict__)


def _load_attributes(f: Any, kept: dict[str, Any] | None) -> None:
    if kept is not None:
        f.__dict__.update(kept)


class LambdaLR(LRScheduler):
    """lr0 f(n); one f, or one a group.  The state dict holds the attributes of an f that is an
    object, not those that are plain functions."""

    _apart = ("optimizer", "lr_lambdas")

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        n = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, Sequence) else [lr_lambda] * n
        if len(self.lr_lambdas) != n:
            raise ValueError(f"Expected {n} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self.base_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "lr_lambdas": [_attributes(f) for f in self.lr_lambdas],
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for f, kept in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            _load_attributes(f, kept)


_LRScheduler = LRScheduler  # the name before PyTorch 2.0


class MultiplicativeLR(LambdaLR):
    """lr f(n) at each step n > 0; one f, or one a group"""

    def get_lr(self) -> list[float]:
        if self.last_epoch <= 0:
            return self._rates()
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self._rates(), strict=True)]


class ConstantLR(LRScheduler):
    """lr0 factor for total_iters steps, then lr0"""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._rates()]
        if self.last_epoch != self.total_iters:
            return self._rates()
        return [lr * (1 / self.factor) for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        return [lr * (self.factor if self.last_epoch < self.total_iters else 1) for lr in self.base_lrs]


class PolynomialLR(LRScheduler):
    """lr0 (1 - n / total_iters)^power, 0 from total_iters on"""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        n, total = self.last_epoch, self.total_iters
        if n == 0 or n > total:
            return self._rates()
        factor = ((1 - n / total) / (1 - (n - 1) / total)) ** self.power
        return [lr * factor for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        left = 1 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * left**self.power for lr in self.base_lrs]


class StepLR(LRScheduler):
    """lr0 gamma^(n // step_size)"""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._rates()
        return [lr * self.gamma for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        return [lr * self.gamma ** (self.last_epoch // self.step_size) for lr in self.base_lrs]


class MultiStepLR(LRScheduler):
    """lr0 gamma^k, k how many of the ``milestones`` are at most n"""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        return [
            lr * self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch) for lr in self.base_lrs
        ]


class ExponentialLR(LRScheduler):
    """lr0 gamma^n"""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [lr * self.gamma if self.last_epoch else lr for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        return [lr * self.gamma**self.last_epoch for lr in self.base_lrs]


class LinearLR(LRScheduler):
    """lr0 f, f in a straight line from start_factor to end_factor over total_iters steps"""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        rise, n = self.end_factor - self.start_factor, self.last_epoch
        if n == 0:
            return [lr * self.start_factor for lr in self._rates()]
        if n > self.total_iters:
            return self._rates()
        return [lr * (1 + rise / (self.total_iters * self.start_factor + (n - 1) * rise)) for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        rise, n = self.end_factor - self.start_factor, min(self.total_iters, self.last_epoch)
        return [lr * (self.start_factor + rise * n / self.total_iters) for lr in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """eta_min + (lr0 - eta_min) (1 + cos(pi n / T_max)) / 2 (Loshchilov and Hutter 2017)"""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        n, T, low = self.last_epoch, self.T_max, self.eta_min
        if n == 0:
            return self._rates()
        if self._step_count == 1:
            return self._get_closed_form_lr()
        if (n - 1 - T) % (2 * T) == 0:  # out of the lowest point, where there is nothing to multiply
            return [
                lr + (start - low) * (1 - math.cos(math.pi / T)) / 2
                for start, lr in zip(self.base_lrs, self._rates(), strict=True)
            ]
        return [
            (1 + math.cos(math.pi * n / T)) / (1 + math.cos(math.pi * (n - 1) / T)) * (lr - low) + low
            for lr in self._rates()
        ]

    def _get_closed_form_lr(self) -> list[float]:
        return [
            self.eta_min + (lr - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
            for lr in self.base_lrs
        ]


class CosineAnnealingWarmRestarts(LRScheduler):
    """eta_min + (lr0 - eta_min) (1 + cos(pi k / T)) / 2, k steps since the last restart; the first comes after T_0
    steps, each later one after T_mult times as many (Loshchilov and Hutter 2017).  ``step(epoch)`` takes fractions."""

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [
            self.eta_min + (lr - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
            for lr in self.base_lrs
        ]

    def step(self, epoch: float | None = None) -> None:  # PyTorch's: fractions
        """One epoch further, or to ``epoch``, which may be a fraction."""
        _outside()
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur - self.T_i, self.T_i * self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            at, length = epoch, self.T_0
            if self.T_mult == 1:
                at = epoch % length
            elif epoch >= length:
                n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
                at = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
                length = self.T_0 * self.T_mult**n
            self.T_cur, self.T_i = at, length
        self.last_epoch = math.floor(epoch)
        self._apply(self.get_lr)


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * part))


def _straight(start: float, end: float, part: float) -> float:
    return start + (end - start) * part


class OneCycleLR(LRScheduler):
    """From max_lr / div_factor up to max_lr over ``pct_start`` of all steps, then down to the
    start's final_div_factor-th part; momentum (or beta 1) the other way, from max_momentum to
    base_momentum and back (Smith and Topin 2018).  three_phase: down to the start first, as fast as
    it rose. The number of steps is ``total_steps`` or epochs times steps_per_epoch; ValueError: one
    step more, or an optimizer without momentum to cycle."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            total_steps = epochs * steps_per_epoch
        if not isinstance(total_steps, int) or total_steps <= 0:
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self.total_steps, self._anneal_func_type, self.cycle_momentum = total_steps, anneal_strategy, cycle_momentum
        top = pct_start * total_steps - 1
        up, down = ("max_momentum", "base_momentum"), ("base_momentum", "max_momentum")
        phases: list[tuple[float, str, str, tuple[str, str]]] = [(top, "initial_lr", "max_lr", up)]
        if three_phase:
            phases += [(2 * top, "max_lr", "initial_lr", down)]
            phases += [(total_steps - 1, "initial_lr", "min_lr", ("max_momentum", "max_momentum"))]
        else:
            phases += [(total_steps - 1, "max_lr", "min_lr", down)]
        self._schedule_phases: list[dict[str, Any]] = [
            {"end_step": end, "start_lr": lr0, "end_lr": lr1, "start_momentum": m0, "end_momentum": m1}
            for end, lr0, lr1, (m0, m1) in phases
        ]
        groups = optimizer.param_groups
        if cycle_momentum:
            self.use_beta1 = _cycles_beta1(optimizer)
        if last_epoch == -1:
            spread = [
                self._each(x, len(groups), name)
                for x, name in ((max_lr, "max_lr"), (base_momentum, "base_momentum"), (max_momentum, "max_momentum"))
            ]
            for group, high, low_momentum, high_momentum in zip(groups, *spread, strict=True):
                group.update(initial_lr=high / div_factor, max_lr=high, min_lr=high / div_factor / final_div_factor)
                if cycle_momentum:
                    group.update(base_momentum=low_momentum, max_momentum=high_momentum)
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _each(value: float | list[float], n: int, name: str) -> list[float]:
        if not isinstance(value, list | tuple):
            return [value] * n
        if len(value) != n:
            raise ValueError(f"expected {n} values for {name}, got {len(value)}")
        return list(value)

    def _annealed(self, group: Group) -> tuple[float, float | None]:
        """Rate and momentum at ``last_epoch``."""
        anneal, start, n = _cosine if self._anneal_func_type == "cos" else _straight, 0.0, self.last_epoch
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if n <= end or phase is self._schedule_phases[-1]:
                part = (n - start) / (end - start)
                return anneal(group[phase["start_lr"]], group[phase["end_lr"]], part), (
                    anneal(group[phase["start_momentum"]], group[phase["end_momentum"]], part)
                    if self.cycle_momentum
                    else None
                )
            start = end
        raise AssertionError  # the last phase takes all other steps

    def get_lr(self) -> list[float]:
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"Tried to step {self.last_epoch} times. The specified number of total steps is {self.total_steps}"
            )
        rates = []
        for group in self.optimizer.param_groups:
            lr, momentum = self._annealed(group)
            rates.append(lr)
            if momentum is not None:
                _set_momentum(group, momentum)
        return rates


class CyclicLR(LRScheduler):
    """Up from base_lr to max_lr in step_size_up steps and down again in step_size_down, over and over; the height of
    cycle c, or of step n with scale_mode "iterations", is scaled by scale_fn, or by ``mode``: 1 ("triangular"),
    2^(1 - c) ("triangular2"), gamma^n ("exp_range").  Momentum, or beta 1, goes the other way (Smith 2017).
    ValueError: an optimizer without momentum to cycle."""

    _apart = ("optimizer", "_scale_fn_custom")

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        groups = optimizer.param_groups
        lows = OneCycleLR._each(base_lr, len(groups), "base_lr")
        if last_epoch == -1:
            for low, group in zip(lows, groups, strict=True):
                group["lr"] = low
        self.max_lrs = OneCycleLR._each(max_lr, len(groups), "max_lr")
        up, down = float(step_size_up), float(step_size_up if step_size_down is None else step_size_down)
        self.total_size, self.step_ratio = up + down, up / (up + down)
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = scale_mode if scale_fn else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = _cycles_beta1(optimizer)
            self.base_momentums = OneCycleLR._each(base_momentum, len(groups), "base_momentum")
            self.max_momentums = OneCycleLR._each(max_momentum, len(groups), "max_momentum")
            if last_epoch == -1:
                for low, high, group in zip(self.base_momentums, self.max_momentums, groups, strict=True):
                    _set_momentum(group, high)
                    group.update(max_momentum=high, base_momentum=low)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def scale_fn(self, x: float) -> float:
        """The height of cycle, or at step, x."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            return float(self.gamma**x)
        return 1.0 if self.mode == "triangular" else float(1 / 2 ** (x - 1))

    def get_lr(self) -> list[float]:
        n = self.last_epoch
        cycle = math.floor(1 + n / self.total_size)
        x = 1 + n / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else n)
        if self.cycle_momentum:
            for low, high, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            ):
                _set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_scale_fn_custom": _attributes(self._scale_fn_custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        _load_attributes(self._scale_fn_custom, state_dict["_scale_fn_custom"])


def _cycles_beta1(optimizer: Optimizer) -> bool:
    """Is the momentum that a schedule cycles a beta?  ValueError: there is none."""
    if not {"momentum", "betas"} & set(optimizer.defaults):
        raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
    return "betas" in optimizer.defaults


def _set_momentum(group: Group, momentum: float) -> None:
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class ChainedScheduler(LRScheduler):
    """All of ``schedulers`` step one after the other: their factors multiply."""

    _apart = ("optimizer", "_schedulers")

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        for i, s in enumerate(schedulers):
            if s.optimizer is not optimizer:
                raise ValueError(
                    f"{type(self).__name__} expects all schedulers to belong to the same optimizer, but got scheduler"
                    f" {type(s).__name__} at index {i}"
                )
        self.optimizer, self._schedulers = optimizer, list(schedulers)
        self._last_lr = self._rates()

    def step(self, epoch: int | None = None) -> None:
        for s in self._schedulers:
            s.step()
        self._last_lr = self._rates()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for s, kept in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            s.load_state_dict(kept)


class SequentialLR(LRScheduler):
    """The first scheduler until the first of ``milestones``, then the second, which starts from 0, and so on."""

    _apart = ("optimizer", "_schedulers")

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if not schedulers:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        for i, s in enumerate(schedulers):
            if s.optimizer is not optimizer:
                raise ValueError(
                    f"{type(self).__name__} expects all schedulers to belong to the same optimizer, but got scheduler"
                    f" {type(s).__name__} at index {i}"
                )
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"{len(schedulers)} schedulers need {len(schedulers) - 1} milestones, got {len(milestones)}"
            )
        self.optimizer, self._schedulers, self._milestones = optimizer, schedulers, milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:  # as if no scheduler had begun yet
            group["lr"] = group["initial_lr"]
        for s in schedulers:
            s._unstep()
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def _unstep(self) -> None:
        super()._unstep()
        for s in self._schedulers:
            s._unstep()

    def _initial_step(self) -> None:
        self._schedulers[0]._initial_step()

    def step(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for s, kept in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            s.load_state_dict(kept)


class ReduceLROnPlateau(LRScheduler):
    """lr factor, but at least ``min_lr``, when ``step(metric)`` has not seen a better metric for
    more than ``patience`` steps; then ``cooldown`` steps do not count. Better: by the part
    ``threshold`` (threshold_mode "rel") or by that much ("abs") below (mode "min") or above ("max")
    the best."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        n = len(optimizer.param_groups)
        if isinstance(min_lr, list | tuple) and len(min_lr) != n:
            raise ValueError(f"expected {n} min_lrs, got {len(min_lr)}")
        self.optimizer, self.mode, self.factor, self.patience, self.threshold, self.threshold_mode = (
            optimizer,
            mode,
            factor,
            patience,
            threshold,
            threshold_mode,
        )
        self.cooldown, self.eps = cooldown, eps
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else min_lr
        self.min_lrs = list(min_lr) if isinstance(min_lr, list | tuple) else [min_lr] * n
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.last_epoch = 0
        self._last_lr = self._rates()
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Is it within ``cooldown`` steps of a reduction?"""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Is ``a`` better than the best by more than the threshold?"""
        sign = 1 if self.mode == "max" else -1
        bound = best * (1 + sign * self.threshold) if self.threshold_mode == "rel" else best + sign * self.threshold
        return a * sign > bound * sign

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]  # PyTorch's: it takes a metric
        """One epoch further, of which ``metrics``, a number or a tensor of one element, says how good it was."""
        _outside()
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates()

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):  # groups were added
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when"
                    f" `ReduceLROnPlateau` was initialized ({len(self.min_lrs)}): set the `min_lrs` field to as many"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            lr = max(group["lr"] * self.factor, least)
            if group["lr"] - lr > self.eps:
                group["lr"] = lr
