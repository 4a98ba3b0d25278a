"""L-BFGS: Newton steps by the curvature that the last gradients show (Nocedal and Wright 2006,
algorithms 7.4, 3.5 and 3.6, with PyTorch's constants)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _core
from .._core import Tensor
from ..autograd import enable_grad, no_grad
from .fused import Fused
from .optimizer import Group, Params

SUFFICIENT, CURVATURE = 1e-4, 0.9  # c1 and c2 of the strong Wolfe conditions
TRIES = 25  # of a line search


class Point(NamedTuple):
    """Loss and gradient at the step length t along the direction."""

    t: float
    loss: float
    grad: Tensor
    slope: float  # of the loss along the direction


def _cubic(a: Point, b: Point, low: float, high: float) -> float:
    """The lowest point, within [low, high], of the cubic with the losses and slopes of a and b; the
    middle where it has none."""
    a, b = (a, b) if a.t <= b.t else (b, a)
    d = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d * d - a.slope * b.slope
    if square < 0:
        return (low + high) / 2
    root = math.sqrt(square)
    return min(max(b.t - (b.t - a.t) * (b.slope + root - d) / (b.slope - a.slope + 2 * root), low), high)


def _bracket(at: Callable[[float], Point], start: Point, t: float) -> tuple[list[Point], int]:
    """One point that meets the strong Wolfe conditions, or two with such a point between them; and
    how many tries it took."""
    before, here = start, at(t)
    for tries in range(TRIES):
        if here.loss > start.loss + SUFFICIENT * here.t * start.slope or (tries > 1 and here.loss >= before.loss):
            return [before, here], tries
        if abs(here.slope) <= -CURVATURE * start.slope:
            return [here], tries
        if here.slope >= 0:
            return [before, here], tries
        before, here = here, at(_cubic(before, here, here.t + 0.01 * (here.t - before.t), here.t * 10))
    return [start, here], TRIES


def _strong_wolfe(at: Callable[[float], Point], start: Point, t: float, reach: float, tolerance: float) -> Point:
    """A point along the direction that is low enough and flat enough, or the best that was found.
    reach: the largest element of the direction."""
    ends, tries = _bracket(at, start, t)
    if len(ends) == 1:
        return ends[0]
    low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
    stuck = False
    while tries < TRIES and abs(ends[1].t - ends[0].t) * reach >= tolerance:
        left, right = sorted((ends[0].t, ends[1].t))
        t = _cubic(ends[0], ends[1], left, right)
        margin = 0.1 * (right - left)
        close = min(right - t, t - left) < margin
        if close and (stuck or t >= right or t <= left):  # no progress at an end: away from it
            t = right - margin if abs(t - right) < abs(t - left) else left + margin
            close = False
        stuck = close
        here = at(t)
        tries += 1
        if here.loss > start.loss + SUFFICIENT * t * start.slope or here.loss >= ends[low].loss:
            ends[high] = here
            low, high = (0, 1) if ends[0].loss <= ends[1].loss else (1, 0)
            continue
        if abs(here.slope) <= -CURVATURE * start.slope:
            return here
        if here.slope * (ends[high].t - ends[low].t) >= 0:
            ends[high] = ends[low]
        ends[low] = here
    return ends[low]


class LBFGS(Fused):
    """Up to ``max_iter`` steps p = p + t d a call, d = -H g, H from the last ``history_size``
    differences of positions and gradients; ``step(closure)`` needs the closure, which computes loss
    and gradients anew.  t is lr (the first time min(1, 1 / sum(abs(g))) lr), or found by
    line_search_fn="strong_wolfe".  It ends early after max_eval (1.25 max_iter) losses, where no
    gradient is above tolerance_grad, and where step or loss change by less than tolerance_change.
    One group of parameters.  Memory: 2 history_size copies of them."""

    def __init__(
        self,
        params: Params,
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        options = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
        }
        super().__init__(
            params,
            {
                **options,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def _gradient(self) -> Tensor:
        """All gradients as one vector."""
        return _core.cat(
            [
                _core.zeros(p.numel(), dtype=p.dtype, device=p.device) if p.grad is None else p.grad.flatten()
                for p in self._params
            ]
        )

    def _move(self, t: float, direction: Tensor) -> None:
        at = 0
        for p in self._params:
            p.add_(direction[at : at + p.numel()].view_as(p), alpha=t)
            at += p.numel()

    @staticmethod
    def _direction(state: dict[str, Any], grad: Tensor, history: int) -> Tensor:
        """-H g by the two loops over the differences y of gradients and s of positions, after the
        last step's are added."""
        y, s = grad - state["prev_flat_grad"], state["d"] * state["t"]
        ys = y.dot(s).item()
        ys_known, ss, ro = state["old_dirs"], state["old_stps"], state["ro"]
        if ys > 1e-10:  # else the curvature is not positive: left out
            if len(ys_known) == history:
                for kept in (ys_known, ss, ro):
                    kept.pop(0)
            ys_known.append(y)
            ss.append(s)
            ro.append(1 / ys)
            state["H_diag"] = ys / y.dot(y).item()
        d, shares = -grad, []
        for yi, si, r in zip(reversed(ys_known), reversed(ss), reversed(ro), strict=True):
            shares.append(si.dot(d).item() * r)
            d.add_(yi, alpha=-shares[-1])
        d.mul_(state["H_diag"])
        for yi, si, r, share in zip(ys_known, ss, ro, reversed(shares), strict=True):
            d.add_(si, alpha=share - yi.dot(d).item() * r)
        return d

    def _fresh(self, group: Group, p: Tensor) -> None:
        return None

    @Fused.profile_hook_step
    @no_grad
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Several steps; returns the loss before them."""
        if closure is None:
            raise TypeError("LBFGS.step() needs a closure that computes the loss and its gradients")
        group, evaluate = self.param_groups[0], enable_grad(closure)
        lr, flat, still = group["lr"], group["tolerance_grad"], group["tolerance_change"]
        state = self.state[self._params[0]]
        if not state:
            state.update(
                func_evals=0,
                n_iter=0,
                d=None,
                t=None,
                old_dirs=[],
                old_stps=[],
                ro=[],
                H_diag=1.0,
                prev_flat_grad=None,
                prev_loss=None,
            )
        first = evaluate()
        loss, grad, evals = float(first), self._gradient(), 1
        state["func_evals"] += 1
        steps = 0
        while steps < group["max_iter"] and grad.abs().max().item() > flat:
            steps += 1
            state["n_iter"] += 1
            fresh = state["n_iter"] == 1
            d = -grad if fresh else self._direction(state, grad, group["history_size"])
            t = min(1.0, 1 / grad.abs().sum().item()) * lr if fresh else lr
            state.update(d=d, t=t, prev_flat_grad=grad, prev_loss=loss)
            slope = grad.dot(d).item()
            if slope > -still:
                break
            if group["line_search_fn"]:
                start, before = [p.clone() for p in self._params], evals

                def at(t: float, d: Tensor = d, start: list[Tensor] = start) -> Point:
                    nonlocal evals
                    evals += 1
                    for p, x in zip(self._params, start, strict=True):
                        p.copy_(x)
                    self._move(t, d)
                    found, g = float(evaluate()), self._gradient()
                    return Point(t, found, g, g.dot(d).item())

                end = _strong_wolfe(at, Point(0.0, loss, grad, slope), t, d.abs().max().item(), 1e-9)
                t, loss, grad = end.t, end.loss, end.grad
                for p, x in zip(self._params, start, strict=True):
                    p.copy_(x)
                self._move(t, d)
                state["func_evals"] += evals - before
                state["t"] = t
            else:
                self._move(t, d)
                if steps < group["max_iter"]:  # the last loss would not be used
                    loss, grad, evals = float(evaluate()), self._gradient(), evals + 1
                    state["func_evals"] += 1
            if (
                evals >= group["max_eval"]
                or (d * t).abs().max().item() <= still
                or abs(loss - state["prev_loss"]) < still
            ):
                break
        return first

    def _loaded(self, name: str, value: Any, p: Tensor) -> Any:
        """Vectors over all parameters, lists of them, numbers."""
        if isinstance(value, list):
            return [self._loaded(name, v, p) for v in value]
        if not hasattr(value, "__array__"):
            return value
        vector = (value if isinstance(value, Tensor) else _core.asarray(value)).to(p.device, p.dtype)
        return vector.clone() if vector.ndim else vector.item()

    def load_state_dict(self, state_dict: Any) -> None:
        super().load_state_dict(state_dict)
        self._params = self.param_groups[0]["params"]
