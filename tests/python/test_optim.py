"""chainrule.optim: with PyTorch the same weights over 100 steps, state dicts both ways, the same
rates; without it the formulas of a few."""

from __future__ import annotations

import copy
import math
import pickle
import re
from typing import Any

import chainrule as cr
import pytest
from chainrule import nn, optim
from compare import kinds, numbers
from table import X

try:
    import torch as _torch
except ImportError:
    _torch = None
torch: Any = _torch
needs_torch = pytest.mark.skipif(
    torch is None, reason="PyTorch is not installed: optimizers are tested against a few formulas only"
)

SHAPES = [(3, 5), (5,), (), (2, 3)]
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.05}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.5}),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.001, "maximize": True}),
    ("Adam", {"lr": 0.05}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-3}),
    ("Adam", {"lr": 0.05, "amsgrad": True}),
    ("Adam", {"lr": 0.05, "decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.01, "maximize": True}),
    ("AdamW", {"lr": 0.05}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True}),
    ("AdamW", {"lr": 0.01, "maximize": True}),
    ("NAdam", {"lr": 0.05}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RMSprop", {}),
    ("RMSprop", {"weight_decay": 0.1, "momentum": 0.5}),
    ("RMSprop", {"centered": True}),
    ("RMSprop", {"centered": True, "momentum": 0.5, "alpha": 0.9}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.05, "weight_decay": 0.1, "initial_accumulator_value": 0.2}),
    ("Adamax", {"lr": 0.05}),
    ("Adamax", {"lr": 0.05, "weight_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-3}),
    ("Adamax", {"lr": 0.01, "maximize": True}),
    ("RAdam", {"lr": 0.05}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-3}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("ASGD", {"lr": 0.05}),
    ("ASGD", {"lr": 0.05, "lambd": 0.1, "alpha": 0.6, "t0": 10, "weight_decay": 0.1}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.4, 1.5), "step_sizes": (1e-3, 0.5)}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.5, "beta2_decay": -0.5, "eps": (1e-3, 0.1), "d": 1.5, "weight_decay": 0.1}),
    ("Adafactor", {"lr": 0.01, "maximize": True}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1}),
]


def parameters(lib: Any, dtype: str = "float64") -> list[Any]:
    return [X(s, dtype, seed=i).make(lib).requires_grad_() for i, s in enumerate(SHAPES)]


def loss_of(ps: list[Any], step: int, lib: Any) -> Any:
    """Bowls whose bottoms move, one of them curved; parameter 1 takes part in every third step only."""
    total: Any = 0
    for i, p in enumerate(ps):
        if i != 1 or step % 3 == 0:
            total = total + ((p - math.sin(step + i)) ** 2 * (i + 1)).sum() + (p**4).sum() * 0.01
    return total


def walk(lib: Any, ps: list[Any], opt: Any, first: int, last: int) -> None:
    for step in range(first, last):
        opt.zero_grad()
        loss_of(ps, step, lib).backward()
        opt.step()


def close(ours: list[Any], theirs: list[Any], tolerance: float) -> None:
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        for x, y in zip(numbers(a.detach().tolist()), numbers(b.detach().tolist()), strict=True):
            assert abs(x - y) <= tolerance * max(1, abs(y)), f"tensor {i}: {x}, PyTorch's {y}"


def converted(x: Any, lib: Any) -> Any:
    """A state dict with the tensors of another library."""
    if isinstance(x, dict):
        return {k: converted(v, lib) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(converted(v, lib) for v in x)
    return (
        lib.tensor(x.tolist(), dtype=getattr(lib, str(x.dtype).split(".")[1])).reshape(tuple(x.shape))
        if hasattr(x, "tolist")
        else x
    )


@needs_torch
@pytest.mark.parametrize("name, options", KINDS, ids=str)
def test_hundred_steps_are_pytorchs(name: str, options: dict[str, Any]) -> None:
    mine, theirs = parameters(cr), parameters(torch)
    ours, other = getattr(optim, name)(mine, **options), getattr(torch.optim, name)(theirs, **options)
    walk(cr, mine, ours, 0, 50)
    walk(torch, theirs, other, 0, 50)
    tolerance = {"NAdam": 1e-8, "ASGD": 1e-7}.get(name, 1e-11)  # PyTorch keeps mu_product and eta in float32
    close(mine, theirs, tolerance)
    # Both go on from the other's state.
    state, foreign = ours.state_dict(), other.state_dict()
    assert {k: sorted(v) for k, v in state["state"].items()} == {k: sorted(v) for k, v in foreign["state"].items()}
    assert state["param_groups"][0]["params"] == foreign["param_groups"][0]["params"]
    assert set(state["param_groups"][0]) <= set(foreign["param_groups"][0])
    ours = getattr(optim, name)(mine, lr=9.0)
    ours.load_state_dict(foreign)
    other = getattr(torch.optim, name)(theirs, lr=9.0)
    other.load_state_dict(converted(state, torch))
    walk(cr, mine, ours, 50, 100)
    walk(torch, theirs, other, 50, 100)
    close(mine, theirs, tolerance)


@pytest.mark.parametrize("name, options", [*KINDS, ("Lion", {"weight_decay": 0.1})], ids=str)
def test_clipped_step(name: str, options: dict[str, Any]) -> None:
    """It is clip_grad_norm_ and step; those that scale while they read leave the gradients as they were."""
    mine, theirs = parameters(cr), parameters(cr)
    ours, other = getattr(optim, name)(mine, **options), getattr(optim, name)(theirs, **options)
    for step in range(20):
        limit = 1.0 if step % 4 else 1e9
        ours.zero_grad()
        other.zero_grad()
        loss_of(mine, step, cr).backward()
        loss_of(theirs, step, cr).backward()
        before = [p.grad.tolist() for p in mine if p.grad is not None]
        norm = ours.step_clipped(limit)
        assert abs(norm - cr.nn.utils.clip_grad_norm_(theirs, limit).item()) < 1e-5 * norm
        assert limit > 1 or ours._scales == (before == [p.grad.tolist() for p in mine if p.grad is not None])
        other.step()
    close(mine, theirs, 1e-5)
    for bad in (-1.0, math.nan):
        with pytest.raises(ValueError, match="max_norm"):
            ours.step_clipped(bad)


@needs_torch
@pytest.mark.parametrize("name", sorted({name for name, _ in KINDS}))
def test_float32(name: str) -> None:
    mine, theirs = parameters(cr, "float32"), parameters(torch, "float32")
    walk(cr, mine, getattr(optim, name)(mine, lr=0.01), 0, 100)
    walk(torch, theirs, getattr(torch.optim, name)(theirs, lr=0.01), 0, 100)
    close(mine, theirs, 2e-4)


@needs_torch
@pytest.mark.parametrize(
    "options", [{}, {"line_search_fn": "strong_wolfe"}, {"history_size": 3, "lr": 0.5}, {"max_eval": 3}], ids=str
)
def test_lbfgs(options: dict[str, Any]) -> None:
    found: list[tuple[list[Any], list[float]]] = []
    for lib in (cr, torch):
        ps = [X(s, seed=i).make(lib).requires_grad_() for i, s in enumerate([(6,), (2, 3)])]
        opt = lib.optim.LBFGS(ps, max_iter=7, **options)
        losses = []

        def closure(ps: list[Any] = ps, opt: Any = opt) -> Any:
            opt.zero_grad()
            x = ps[0] + ps[1].reshape(6)
            loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() * 1e-3 + (ps[1] ** 2).sum()
            loss.backward()
            return loss

        for half in range(2):
            losses += [float(opt.step(closure)) for _ in range(5)]
            if half == 0:
                state = opt.state_dict()
                opt = lib.optim.LBFGS(ps, max_iter=7, **options)
                opt.load_state_dict(state)
        found.append((ps, losses))
    close(found[0][0], found[1][0], 1e-7)
    assert all(abs(a - b) <= 1e-8 * max(1, abs(b)) for a, b in zip(found[0][1], found[1][1], strict=True)), found
    assert found[0][1][-1] < found[0][1][0]


def orthogonal(u: list[list[float]], steps: int = 5) -> list[list[float]]:
    """Muon's iteration in plain loops, for a matrix that is not tall."""

    def times(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
        return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in zip(*b, strict=True)] for row in a]

    norm = math.sqrt(sum(v * v for row in u for v in row))
    x = [[v / norm for v in row] for row in u]
    for _ in range(steps):
        gram = times(x, [list(c) for c in zip(*x, strict=True)])
        square = times(gram, gram)
        mixed = [
            [-4.7750 * g + 2.0315 * s for g, s in zip(gs, ss, strict=True)] for gs, ss in zip(gram, square, strict=True)
        ]
        x = [[3.4445 * v + w for v, w in zip(vs, ws, strict=True)] for vs, ws in zip(x, times(mixed, x), strict=True)]
    return x


@pytest.mark.parametrize("adjust, ratio", [(None, 1.0), ("match_rms_adamw", 0.2 * math.sqrt(5))])
def test_muon_is_its_definition(adjust: str | None, ratio: float) -> None:
    p = X((3, 5)).make(cr).requires_grad_()
    p.grad = X((3, 5), seed=1).make(cr)
    start, g = p.tolist(), p.grad.tolist()
    optim.Muon([p], lr=0.1, momentum=0.9, adjust_lr_fn=adjust).step()
    ahead = [[0.9 * 0.1 * v + 0.1 * v for v in row] for row in g]
    wanted = [
        [(1 - 0.01) * x - 0.1 * ratio * u for x, u in zip(xs, us, strict=True)]
        for xs, us in zip(start, orthogonal(ahead), strict=True)
    ]
    assert max(abs(a - b) for a, b in zip(numbers(p.tolist()), numbers(wanted), strict=True)) < 1e-12


@needs_torch
@pytest.mark.parametrize("shape", [(3, 5), (7, 4)])
def test_muon_is_near_pytorchs(shape: tuple[int, int]) -> None:
    """PyTorch's iteration is in bfloat16: three digits."""
    found = []
    for lib in (cr, torch):
        p = X(shape, "float32").make(lib).requires_grad_()
        opt = lib.optim.Muon([p], lr=0.02)
        for step in range(10):
            p.grad = X(shape, "float32", seed=step + 1).make(lib)
            opt.step()
        found.append([p])
    close(found[0], found[1], 0.02)


def test_lion_is_its_definition() -> None:
    p = cr.tensor([1.0, -2.0, 3.0], dtype=cr.float64, requires_grad=True)
    opt = optim.Lion([p], lr=0.1, weight_decay=0.5)
    x, m = p.tolist(), [0.0] * 3
    for step in range(20):
        g = [math.sin(3 * step + i + 0.5) for i in range(3)]
        p.grad = cr.tensor(g, dtype=cr.float64)
        opt.step()
        x = [0.95 * v - 0.1 * math.copysign(1, 0.9 * a + 0.1 * b) for v, a, b in zip(x, m, g, strict=True)]
        m = [0.99 * a + 0.01 * b for a, b in zip(m, g, strict=True)]
    assert max(abs(a - b) for a, b in zip(p.tolist(), x, strict=True)) < 1e-12


def test_sgd_and_adam_are_their_definitions() -> None:
    p = cr.tensor(2.0, dtype=cr.float64, requires_grad=True)
    sgd, x, v = optim.SGD([p], lr=0.1, momentum=0.5), 2.0, 0.0
    for _ in range(5):
        sgd.zero_grad()
        (p**2).backward()
        sgd.step()
        v = 0.5 * v + 2 * x
        x -= 0.1 * v
    assert abs(p.item() - x) < 1e-14
    adam, m, v = optim.Adam([p], lr=0.1), 0.0, 0.0
    for t in range(1, 6):
        adam.zero_grad()
        (p**2).backward()
        adam.step()
        m, v = 0.9 * m + 0.1 * 2 * x, 0.999 * v + 0.001 * (2 * x) ** 2
        x -= 0.1 * (m / (1 - 0.9**t)) / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
    assert abs(p.item() - x) < 1e-14


def test_groups_closures_and_gradients() -> None:
    a, b, c = (cr.ones(2, requires_grad=True) for _ in range(3))
    opt = optim.SGD([{"params": [a]}, {"params": b, "lr": 1.0}], lr=0.5)
    opt.add_param_group({"params": c, "lr": 0.0})

    def closure() -> cr.Tensor:
        assert cr.is_grad_enabled()
        opt.zero_grad()
        loss = (a + b + c).sum()
        loss.backward()
        return loss

    with cr.no_grad():
        assert opt.step(closure).item() == 6
    assert a.tolist() == [0.5] * 2 and b.tolist() == [0, 0] and c.tolist() == [1, 1]
    grad = a.grad
    opt.zero_grad(set_to_none=False)
    assert a.grad is grad and grad is not None and grad.tolist() == [0, 0]
    opt.zero_grad()
    assert a.grad is None
    opt.step()
    assert a.tolist() == [0.5] * 2, "no gradient, no step"
    (a * a).sum().backward(create_graph=True)
    grad = a.grad
    opt.zero_grad(set_to_none=False)
    assert a.grad is not None and not a.grad.requires_grad and a.grad.tolist() == [0, 0]
    assert grad is not None and grad.tolist() == [0, 0]  # the same memory, as in PyTorch
    opt.zero_grad()
    assert "lr: 1.0" in repr(opt) and repr(opt).startswith("SGD (")
    rate: Any = cr.tensor(0.1)
    assert optim.SGD(nn.Linear(2, 3).named_parameters(), lr=rate).param_groups[0]["lr"] == pytest.approx(0.1)


def test_half_precision_keeps_wide_moments() -> None:
    p = cr.ones(3, dtype=cr.bfloat16, requires_grad=True)
    opt = optim.AdamW([p], lr=0.1)
    p.sum().backward()
    opt.step()
    assert opt.state[p]["exp_avg"].dtype == cr.float32 and p.dtype == cr.bfloat16 and p[0].item() < 1


@pytest.mark.parametrize("half", [cr.float16, cr.bfloat16])
def test_master_weights(half: cr.dtype) -> None:
    """The steps of a float32 parameter that gets the same gradients, rounded; also replayed, and after a load."""
    x = cr.randn(40, 7, generator=cr.Generator().manual_seed(1)).to(half)

    def begin(p: Any, **how: Any) -> tuple[Any, Any]:
        return p.requires_grad_(), optim.AdamW([p], lr=1e-3, weight_decay=0.1, **how)

    p, opt = begin(x.clone(), master_weights=True)
    w, wide = begin(x.float(), master_weights=True)
    coarse, rounded = begin(x.clone())

    @cr.compile
    def step(g: Any) -> None:
        p.grad = g.to(half)
        opt.step()

    for i in range(6):
        g = cr.randn(40, 7, generator=cr.Generator().manual_seed(2 + i)).to(half)
        step(g)
        w.grad, coarse.grad = g.float(), g
        wide.step()
        rounded.step()
        assert "master" not in wide.state[w] and opt.state[p]["master"].dtype == cr.float32
        assert opt.state[p]["master"].tolist() == w.tolist() and p.tolist() == w.detach().to(half).tolist(), i
        if i == 3:
            saved = opt.state_dict()
            p, opt = begin(p.detach().clone(), master_weights=True)
            opt.load_state_dict(saved)
    assert coarse.tolist() != p.tolist(), "small steps are lost without a master"
    with pytest.raises(ValueError, match="missing 'master' of parameter 0"):
        opt.load_state_dict(rounded.state_dict())
    with pytest.raises(ValueError, match="unexpected 'master' of parameter 0"):
        rounded.load_state_dict(opt.state_dict())
    with pytest.raises(ValueError, match="master_weights cannot be combined with amsgrad"):
        optim.AdamW([p], master_weights=True, amsgrad=True)


def test_copies_and_pickles_go_on() -> None:
    def model() -> tuple[nn.Module, Any]:
        cr.manual_seed(1)
        net = nn.Linear(3, 2)
        return net, optim.Adam(net.parameters(), lr=0.1)

    def train(net: nn.Module, opt: Any) -> list[Any]:
        for _ in range(3):
            opt.zero_grad()
            net(cr.ones(1, 3)).square().sum().backward()
            opt.step()
        return net.weight.tolist()  # type: ignore[no-any-return]

    net, opt = model()
    train(net, opt)
    twin, twin_opt = pickle.loads(pickle.dumps((net, opt)))
    other, other_opt = copy.deepcopy((net, opt))
    assert train(net, opt) == train(twin, twin_opt) == train(other, other_opt)


def of_two(lib: Any, p: Any) -> list[Any]:
    return [lib.optim.lr_scheduler.StepLR(lib.optim.SGD([p]), 1) for _ in range(2)]


BAD: list[tuple[str, Any]] = [
    ("nothing", lambda lib, p: lib.optim.SGD([], lr=0.1)),
    ("one tensor", lambda lib, p: lib.optim.SGD(p, lr=0.1)),
    ("numbers", lambda lib, p: lib.optim.SGD([1, 2], lr=0.1)),
    ("a set", lambda lib, p: lib.optim.SGD([{"params": {p}}], lr=0.1)),
    ("no leaf", lambda lib, p: lib.optim.SGD([p * 2], lr=0.1)),
    ("shared between groups", lambda lib, p: lib.optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1)),
    ("negative lr", lambda lib, p: lib.optim.SGD([p], lr=-0.1)),
    ("negative momentum", lambda lib, p: lib.optim.SGD([p], lr=0.1, momentum=-1)),
    ("nesterov without momentum", lambda lib, p: lib.optim.SGD([p], lr=0.1, nesterov=True)),
    ("no leaf for Adam", lambda lib, p: lib.optim.Adam([p * 1.0], lr=0.1)),
    ("Adamax's betas", lambda lib, p: lib.optim.Adamax([p], betas=(1.0, 0.9))),
    ("RAdam's eps", lambda lib, p: lib.optim.RAdam([p], eps=-1)),
    ("Rprop's etas", lambda lib, p: lib.optim.Rprop([p], etas=(1.1, 1.2))),
    ("Adafactor's decay", lambda lib, p: lib.optim.Adafactor([p], beta2_decay=0.5)),
    ("a polynomial", lambda lib, p: lib.optim.lr_scheduler.ConstantLR(lib.optim.SGD([p]), 2.0)),
    ("restarts", lambda lib, p: lib.optim.lr_scheduler.CosineAnnealingWarmRestarts(lib.optim.SGD([p]), 0)),
    ("a cycle", lambda lib, p: lib.optim.lr_scheduler.CyclicLR(lib.optim.SGD([p]), 0.1, 0.2, mode="square")),
    ("momentum", lambda lib, p: lib.optim.lr_scheduler.CyclicLR(lib.optim.Adagrad([p]), 0.1, 0.2)),
    ("no schedules", lambda lib, p: lib.optim.lr_scheduler.ChainedScheduler([])),
    ("a strategy", lambda lib, p: lib.optim.swa_utils.SWALR(lib.optim.SGD([p]), 0.1, anneal_strategy="up")),
    ("a decay", lambda lib, p: lib.optim.swa_utils.get_ema_avg_fn(2.0)),
    ("betas", lambda lib, p: lib.optim.Adam([p], betas=(1.0, 0.9))),
    ("eps", lambda lib, p: lib.optim.AdamW([p], eps=-1.0)),
    ("decay", lambda lib, p: lib.optim.AdamW([p], weight_decay=-1.0)),
    ("rho", lambda lib, p: lib.optim.Adadelta([p], rho=1.1)),
    ("alpha", lambda lib, p: lib.optim.RMSprop([p], alpha=-1)),
    ("Muon of a vector", lambda lib, p: lib.optim.Muon([p])),
    ("Muon's adjustment", lambda lib, p: lib.optim.Muon([lib.ones(2, 2)], adjust_lr_fn="none")),
    ("two groups of LBFGS", lambda lib, p: lib.optim.LBFGS([{"params": [p]}, {"params": [lib.ones(2)]}])),
    ("other groups", lambda lib, p: lib.optim.SGD([p]).load_state_dict({"state": {}, "param_groups": []})),
    (
        "another size",
        lambda lib, p: lib.optim.SGD([p]).load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]}),
    ),
    ("no optimizer", lambda lib, p: lib.optim.lr_scheduler.StepLR(3, 1)),
    ("lambdas", lambda lib, p: lib.optim.lr_scheduler.LambdaLR(lib.optim.SGD([p]), [abs, abs])),
    ("resuming without a start", lambda lib, p: lib.optim.lr_scheduler.StepLR(lib.optim.SGD([p]), 1, last_epoch=3)),
    ("one cycle of nothing", lambda lib, p: lib.optim.lr_scheduler.OneCycleLR(lib.optim.SGD([p]), 0.1)),
    ("one cycle without momentum", lambda lib, p: lib.optim.lr_scheduler.OneCycleLR(lib.optim.Adagrad([p]), 0.1, 10)),
    ("plateau's factor", lambda lib, p: lib.optim.lr_scheduler.ReduceLROnPlateau(lib.optim.SGD([p]), factor=1.5)),
    ("plateau's mode", lambda lib, p: lib.optim.lr_scheduler.ReduceLROnPlateau(lib.optim.SGD([p]), mode="mid")),
    ("linear's start", lambda lib, p: lib.optim.lr_scheduler.LinearLR(lib.optim.SGD([p]), start_factor=0)),
    ("a group that is none", lambda lib, p: lib.optim.SGD([p]).add_param_group([lib.ones(2)])),
    ("linear's end", lambda lib, p: lib.optim.lr_scheduler.LinearLR(lib.optim.SGD([p]), end_factor=2)),
    ("one cycle of -1", lambda lib, p: lib.optim.lr_scheduler.OneCycleLR(lib.optim.Adam([p]), 0.1, -1)),
    (
        "one cycle's start",
        lambda lib, p: lib.optim.lr_scheduler.OneCycleLR(lib.optim.Adam([p]), 0.1, 10, pct_start=1.5),
    ),
    (
        "one cycle's curve",
        lambda lib, p: lib.optim.lr_scheduler.OneCycleLR(lib.optim.Adam([p]), 0.1, 10, anneal_strategy="square"),
    ),
    ("one cycle's rates", lambda lib, p: lib.optim.lr_scheduler.OneCycleLR(lib.optim.Adam([p]), [0.1, 0.2], 10)),
    ("schedulers of two", lambda lib, p: lib.optim.lr_scheduler.SequentialLR(lib.optim.SGD([p]), of_two(lib, p), [2])),
    (
        "too few milestones",
        lambda lib, p: lib.optim.lr_scheduler.SequentialLR(
            s := lib.optim.SGD([p]), [lib.optim.lr_scheduler.StepLR(s, 1)] * 2, []
        ),
    ),
    (
        "plateau's threshold",
        lambda lib, p: lib.optim.lr_scheduler.ReduceLROnPlateau(lib.optim.SGD([p]), threshold_mode="high"),
    ),
    ("plateau of no optimizer", lambda lib, p: lib.optim.lr_scheduler.ReduceLROnPlateau(3)),
    (
        "plateau's least rates",
        lambda lib, p: lib.optim.lr_scheduler.ReduceLROnPlateau(lib.optim.SGD([p]), min_lr=[0.1, 0.2]),
    ),
    ("no schedulers", lambda lib, p: lib.optim.lr_scheduler.SequentialLR(lib.optim.SGD([p]), [], [])),
    (
        "too many milestones",
        lambda lib, p: lib.optim.lr_scheduler.SequentialLR(
            s := lib.optim.SGD([p]), [lib.optim.lr_scheduler.StepLR(s, 1)] * 2, [1, 2]
        ),
    ),
    (
        "a parameter of the first group",
        lambda lib, p: lib.optim.SGD([{"params": [p]}, {"params": [lib.ones(1)]}]).add_param_group({"params": [p]}),
    ),
]


@needs_torch
@pytest.mark.parametrize("what, call", BAD, ids=[b[0] for b in BAD])
def test_refuses_as_pytorch(what: str, call: Any) -> None:
    raised = []
    for lib in (cr, torch):
        with pytest.raises(Exception) as e:  # noqa: B017,PT011  which one is what is compared
            call(lib, lib.ones(2, requires_grad=True))
        raised.append(e.value)
    assert kinds(raised[1]) <= kinds(raised[0]) and isinstance(raised[0], (type(raised[1]), RuntimeError)), raised


@pytest.mark.parametrize("lr", [math.nan, math.inf, -math.inf, -1.0])
@pytest.mark.parametrize(
    "name", ["SGD", "Adam", "AdamW", "NAdam", "RMSprop", "Adagrad", "Adadelta", "LBFGS", "Lion", "Muon"]
)
def test_refuses_rates(name: str, lr: float) -> None:
    with pytest.raises(ValueError, match="lr"):
        getattr(optim, name)([cr.ones(2, 2, requires_grad=True)], lr=lr)


def test_refuses_what_pytorch_takes() -> None:
    p = cr.ones(2, requires_grad=True)
    optim.Adadelta([p], rho=1.0)  # the largest
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        optim.LBFGS([p], line_search_fn="wolfe")
    with pytest.raises(ValueError, match="exactly 3"):
        optim.Muon([cr.ones(2, 2)], ns_coefficients=(1.0, 2.0))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="closure"):
        optim.LBFGS([p]).step()
    with pytest.raises(ValueError, match="duplicate"):
        optim.SGD([p, p], lr=0.1)
    with pytest.raises(ValueError, match="int64"):
        optim.SGD([cr.tensor([1, 2])], lr=0.1)
    muon = optim.Muon([cr.ones(2, 2, requires_grad=True)])
    with pytest.raises(ValueError, match="2D"):
        muon.add_param_group({"params": [p]})
    assert len(muon.param_groups) == 1, "a group that is refused is not kept"
    opt = optim.Adam([p])
    for groups, why in (
        ([], "different number of parameter groups: 0, here 1"),
        ([{"params": [0, 1]}], "group 0 has 2 parameters, here 1"),
    ):
        with pytest.raises(ValueError, match=why):
            opt.load_state_dict({"state": {}, "param_groups": groups})
    with pytest.raises(ValueError, match="lr"):
        opt.load_state_dict({"state": {}, "param_groups": [{"params": [0], "lr": math.nan}]})
    assert opt.param_groups[0]["lr"] == 1e-3 and not opt.state


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "NAdam", "RMSprop", "Adagrad", "Adadelta", "Lion", "Muon"])
def test_load_names_everything_at_once(name: str) -> None:
    options: dict[str, Any] = {"momentum": 0.9} if name == "SGD" else {}
    ps = [cr.ones(2, 3, requires_grad=True) for _ in range(6)]
    opt = getattr(optim, name)(ps, lr=0.1, **options)
    sum((p * p).sum() for p in ps).backward()  # type: ignore[union-attr]
    opt.step()
    good = opt.state_dict()
    moments = [k for k, v in good["state"][0].items() if v.ndim]
    bad = {n: dict(entries) for n, entries in good["state"].items()}
    bad[0]["odd"] = bad[0].pop(moments[0])
    bad[1] |= {moments[0]: cr.ones(3, 2)}
    bad[2][moments[-1]] = "text"
    bad[3] = [1, 2]  # type: ignore[assignment]
    bad[4] = {}  # has not stepped
    bad[9] = bad[5]
    wanted = [
        "9 is not a parameter",
        f"missing '{moments[0]}' of parameter 0",
        "unexpected 'odd' of parameter 0",
        f"'{moments[0]}' with the shape (3, 2) in place of (2, 3) of parameter 1",
        f"'{moments[-1]}', a str, not a tensor, of parameter 2",
        "a list, not a dict, of parameter 3",
    ]
    if "step" in bad[5]:
        bad[5]["step"] = cr.ones(2)
        wanted.append("'step', which is not a number, of parameter 5")
    before = {k: v.tolist() for k, v in opt.state[ps[0]].items() if isinstance(v, cr.Tensor)}
    with pytest.raises(ValueError) as e:
        opt.load_state_dict({**good, "state": bad})
    assert all(part in str(e.value) for part in wanted) and str(e.value).count(";") == len(wanted) - 1, str(e.value)
    assert {k: v.tolist() for k, v in opt.state[ps[0]].items() if isinstance(v, cr.Tensor)} == before, (
        "a state that is refused changes nothing"
    )
    opt.load_state_dict(good)


# ---- optimizers of a user's ----


def written(lib: Any) -> Any:
    """An optimizer with state of many kinds, on either library."""

    class Kinds(lib.optim.Optimizer):  # type: ignore[misc]
        def __init__(self, params: Any, rho: float = 0.05, decay: Any = None) -> None:
            super().__init__(params, {"rho": rho, "decay": decay})

        def step(self, closure: Any = None) -> Any:
            loss = None if closure is None else closure()
            with lib.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        state = self.state[p]
                        if not state:
                            state["step"], state["count"] = 0, lib.tensor(0, dtype=lib.int64)
                            state["none"], state["pair"] = None, (lib.zeros(2), 3)
                            state["history"], state["inner"] = [], {"step": lib.tensor(0.0), "m": lib.zeros_like(p)}
                        state["step"] += 1
                        state["count"] += 1
                        state["history"].append(p.detach().clone())
                        state["inner"]["m"].mul_(0.5).add_(p.grad)
                        p.sub_(group["rho"] * state["inner"]["m"] * state["step"])
            self.state["all"] = {"calls": self.state["all"].get("calls", 0) + 1}
            return loss

        def __setstate__(self, state: Any) -> None:
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("late", True)

    return Kinds


def described(x: Any) -> Any:
    """A value with all types in it, in both libraries alike."""
    if isinstance(x, dict):
        return type(x).__name__, {k: described(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        return type(x).__name__, [described(v) for v in x]
    if hasattr(x, "tolist"):
        return "tensor", str(x.dtype).rpartition(".")[2], x.tolist()
    return type(x).__name__, x


def lived(lib: Any, dtype: str = "float64") -> list[Any]:
    """What a user-written optimizer shows in a life with a checkpoint, a copy and a pickle."""
    make = written(lib)

    def begin(values: Any) -> Any:
        ps = [lib.nn.Parameter(lib.tensor(v, dtype=getattr(lib, dtype))) for v in values]
        return ps, make([{"params": ps[:1], "rho": 0.1}, {"params": ps[1:]}])

    def walk(ps: Any, opt: Any, n: int) -> Any:
        for _ in range(n):
            for i, p in enumerate(ps):
                p.grad = p.detach() * (i + 1)
            assert opt.step(lambda: 7) == 7
        return [p.tolist() for p in ps]

    ps, opt = begin([[1.0, 2.0], [3.0]])
    out = [walk(ps, opt, 2), described(opt.state_dict()), repr(opt)]
    qs, other = begin([p.tolist() for p in ps])
    other.load_state_dict(copy.deepcopy(opt.state_dict()))  # PyTorch's load shares tensors
    out += [described(other.state_dict()), repr(other), other.state[qs[0]]["inner"]["m"] is None]
    out.append(walk(qs, other, 2))
    twins, twin = copy.deepcopy((ps, opt))
    out += [walk(ps, opt, 2), walk(twins, twin, 2), described(twin.state_dict())]
    return out


@needs_torch
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_state_of_any_kind_is_kept_as_pytorch_keeps_it(dtype: str) -> None:
    assert lived(cr, dtype) == lived(torch, dtype)


def test_loaded_state_is_a_copy_in_the_dtype_of_the_parameter() -> None:
    make = written(cr)
    p, q = cr.nn.Parameter(cr.ones(2)), cr.nn.Parameter(cr.ones(2, dtype=cr.float64))
    p.grad = cr.ones(2)
    one, two = make([p]), make([q])
    one.step()
    one.state[p]["name"] = "slow"  # PyTorch makes a str of a generator of it
    two.load_state_dict(one.state_dict())
    state = two.state[q]
    assert state["name"] == "slow"
    assert (
        state["inner"]["m"].dtype == state["count"].dtype == cr.float64 and state["inner"]["step"].dtype == cr.float32
    )
    assert type(state["step"]) is int and state["pair"][1] == 3 and two.param_groups[0]["late"] is True
    q.grad = cr.ones(2, dtype=cr.float64)
    two.step()
    r = cr.nn.Parameter(cr.ones(2))
    three = make([r])
    three.load_state_dict(one.state_dict())
    r.grad = cr.ones(2)
    three.step()
    assert one.state[p]["inner"]["m"].tolist() == [1, 1] and len(one.state[p]["history"]) == 1
    assert one.state[p]["count"].item() == 1 and three.state[r]["count"].item() == 2


class Described(optim.Optimizer):
    """The least that an optimizer of a user's is."""

    def __init__(self, params: Any, **defaults: Any) -> None:
        super().__init__(params, defaults)

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for p in group["params"]:
                p.data.sub_(p.grad)
        return closure and closure()


@pytest.mark.parametrize(
    "defaults", [{}, {"rho": 0.05}, {"lr": None}, {"lr": 0.1, "weight_decay": -1.0}, {"lr": "fast"}]
)
def test_any_options(defaults: dict[str, Any]) -> None:
    ps = [cr.nn.Parameter(cr.ones(2)), cr.nn.Parameter(cr.tensor([1, 2]), requires_grad=False)]
    opt = Described(ps, **defaults)
    assert {k: v for k, v in opt.param_groups[0].items() if k != "params"} == defaults
    assert pickle.loads(pickle.dumps(opt)).param_groups[0]["params"][1].tolist() == [1, 2]


def test_required_options_and_names() -> None:
    from chainrule.optim.optimizer import required

    p, q = cr.nn.Parameter(cr.ones(2)), cr.nn.Parameter(cr.ones(2))
    with pytest.raises(ValueError, match="required optimization parameter lr"):
        Described([p], lr=required)
    assert Described([{"params": [p], "lr": 1}], lr=required).param_groups[0]["lr"] == 1
    with pytest.raises(ValueError, match="Some param names are missing"):
        Described([("p", p), q])
    opt = Described([("p", p)])
    with pytest.raises(ValueError, match="cannot add param group without names"):
        opt.add_param_group({"params": [q]})
    group = {"params": iter([("q", q)]), "extra": 1}
    opt.add_param_group(group)
    assert opt.param_groups[1] is group and group["params"] == [q] and group["param_names"] == ["q"]
    with pytest.warns(UserWarning, match="duplicate"):
        Described([p, p])


def test_step_hooks() -> None:
    from chainrule.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    said: list[str] = []

    def note(text: str, found: Any = None) -> Any:
        said.append(text)
        return found

    class Twice(optim.SGD):
        def step(self, closure: Any = None) -> Any:
            note("step")
            return super().step(closure)

    for make in (optim.SGD, Twice, lambda ps, lr: Described(ps, lr=lr)):
        p = cr.nn.Parameter(cr.ones(2))
        opt: Any = make([p], lr=1.0)
        other: Any = make([cr.nn.Parameter(cr.ones(1))], lr=1.0)
        p.grad = cr.ones(2)
        handles = [
            register_optimizer_step_pre_hook(lambda o, a, k: note("all before")),
            opt.register_step_pre_hook(lambda o, a, k: note("before", ((*a, lambda: 5), k))),
            opt.register_step_post_hook(lambda o, a, k: note(f"after {len(a)} {a[0] is o}")),
            register_optimizer_step_post_hook(lambda o, a, k: note("all after")),
        ]
        assert opt.step() == 5
        assert [s for s in said if s != "step"] == ["all before", "before", "after 2 True", "all after"]
        for handle in handles:
            handle.remove()
        said.clear()
        other.param_groups[0]["params"][0].grad = cr.ones(1)
        assert opt.step() is None and other.step() is None and not [s for s in said if s != "step"]
        said.clear()
        assert p.tolist() == [-1, -1], "one step each time"
    opt.register_step_pre_hook(lambda o, a, k: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        opt.step()
    assert not opt._stepping


def test_a_loaded_group_is_a_copy() -> None:
    p = cr.ones(2, requires_grad=True)
    saved = optim.SGD([{"params": [p], "marks": [1]}], 0.1).state_dict()
    twin = optim.SGD([p], 0.1)
    twin.load_state_dict(saved)
    twin.param_groups[0]["marks"].append(2)
    assert saved["param_groups"][0]["marks"] == [1]


def test_hooks_of_state_dicts() -> None:
    opt = optim.SGD([cr.nn.Parameter(cr.ones(2))], lr=1.0)
    said: list[Any] = []
    opt.register_state_dict_pre_hook(lambda o: said.append(1))
    opt.register_state_dict_pre_hook(lambda o: said.append(0), prepend=True)
    opt.register_state_dict_post_hook(lambda o, d: {**d, "more": 1})
    saved = opt.state_dict()
    assert said == [0, 1] and saved["more"] == 1
    saved["param_groups"][0]["lr"] = 2.0
    drop = opt.register_load_state_dict_pre_hook(lambda o, d: d.pop("more") and None)
    opt.register_load_state_dict_pre_hook(lambda o, d: {"state": {}, "param_groups": [{"params": [0], "lr": 3.0}]})
    opt.register_load_state_dict_post_hook(lambda o: said.append(o.param_groups[0]["lr"]))
    opt.load_state_dict(saved)
    assert said[-1] == 3.0 and saved["more"] == 1, "the hook has a shallow copy"
    drop.remove()
    twin = copy.deepcopy(opt)
    twin.load_state_dict(saved)
    assert len(said) == 3, "hooks are not copied"


def test_wrappers() -> None:
    """SAM, which shares its groups with another optimizer; one that forwards; a subclass with state of its own."""

    class SAM(optim.Optimizer):
        def __init__(self, params: Any, base: Any, rho: float = 0.05, **options: Any) -> None:
            super().__init__(params, {"rho": rho, **options})
            self.base_optimizer = base(self.param_groups, **options)
            self.param_groups = self.base_optimizer.param_groups
            self.defaults.update(self.base_optimizer.defaults)

        @cr.no_grad()
        def step(self, closure: Any = None) -> Any:
            for p in self.param_groups[0]["params"]:
                self.state[p]["old_p"] = p.data.clone()
                p.add_(p.grad * self.param_groups[0]["rho"])
            with cr.enable_grad():
                loss = closure()
            for p in self.param_groups[0]["params"]:
                p.data = self.state[p]["old_p"]
            self.base_optimizer.step()
            return loss

        def load_state_dict(self, state_dict: Any) -> None:
            super().load_state_dict(state_dict)
            self.base_optimizer.param_groups = self.param_groups

    class Forwarding(optim.Optimizer):
        def __init__(self, inner: Any) -> None:
            self.optimizer = inner

        param_groups = property(lambda self: self.optimizer.param_groups)
        state = property(lambda self: self.optimizer.state)
        defaults = property(lambda self: self.optimizer.defaults)

        def step(self, closure: Any = None) -> Any:
            return self.optimizer.step(closure)

    p = cr.nn.Parameter(cr.ones(2))
    sam = SAM([p], optim.SGD, rho=0.5, lr=0.1, momentum=0.9)
    forwarding = Forwarding(sam)
    schedule = optim.lr_scheduler.StepLR(forwarding, 1, 0.5)

    def closure() -> cr.Tensor:
        forwarding.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    closure()
    forwarding.step(closure)
    assert p.tolist() == pytest.approx([1 - 0.1 * 4] * 2) and sam.param_groups is sam.base_optimizer.param_groups
    schedule.step()
    assert sam.base_optimizer.param_groups[0]["lr"] == 0.05
    twin_p, twin = copy.deepcopy((p, sam))
    assert twin.param_groups is twin.base_optimizer.param_groups and twin.param_groups[0]["params"][0] is twin_p
    q = cr.nn.Parameter(p.detach().clone())
    other = SAM([q], optim.SGD, rho=0.5, lr=0.1, momentum=0.9)
    other.load_state_dict(sam.state_dict())
    assert other.param_groups[0]["lr"] == 0.05 and other.base_optimizer.param_groups[0]["params"][0] is q

    class Counted(optim.Adam):
        def step(self, closure: Any = None) -> Any:
            for p in self.param_groups[0]["params"]:
                self.state[p]["seen"] = self.state[p].get("seen", 0) + 1

    counted = Counted([p])
    counted.step()
    another = Counted([q])
    another.load_state_dict(counted.state_dict())
    assert another.state[q] == {"seen": 1}
    adam = optim.Adam([p])
    closure()
    adam.step()
    adam.state[p]["slow"] = [cr.ones(2), "text"]
    further = optim.Adam([q])
    further.load_state_dict(adam.state_dict())
    assert further.state[q]["slow"][0].tolist() == [1, 1] and further.state[q]["slow"][1] == "text"


# ---- schedulers ----


def averages(schedulers: Any) -> Any:
    """swa_utils of the library of these schedulers"""
    return (cr if schedulers is optim.lr_scheduler else torch).optim.swa_utils


SCHEDULES: dict[str, Any] = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda n: 0.95**n),
    "LambdaLR, two": lambda s, o: s.LambdaLR(o, [lambda n: 0.95**n, lambda n: 1 / (n + 1)]),
    "StepLR": lambda s, o: s.StepLR(o, 7, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [3, 3, 20], 0.5),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.25, total_iters=9),
    "LinearLR, down": lambda s, o: s.LinearLR(o, 1.0, 0.1, 20),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 13, 0.001),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, [lambda n: 0.95, lambda n: 1 - 1 / (n + 2)]),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.25, 9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 30, 1.7),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 7, 1, 0.001),
    "CosineAnnealingWarmRestarts, longer": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, 2),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 7),
    "CyclicLR, halves": lambda s, o: s.CyclicLR(o, [0.01, 0.02], [0.1, 0.3], 7, 11, mode="triangular2"),
    "CyclicLR, power": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 7, mode="exp_range", gamma=0.98, base_momentum=0.7),
    "CyclicLR, a function": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, 5, scale_fn=lambda c: 1 / c, scale_mode="cycle", cycle_momentum=False
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]),
    "SWALR": lambda s, o: averages(s).SWALR(o, 0.05, 9),
    "SWALR, straight": lambda s, o: averages(s).SWALR(o, [0.05, 0.2], 5, "linear"),
    "SWALR at once": lambda s, o: averages(s).SWALR(o, 0.05, 0),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.3, 41),
    "OneCycleLR, three phases": lambda s, o: s.OneCycleLR(
        o, [0.3, 0.2], epochs=10, steps_per_epoch=5, three_phase=True, anneal_strategy="linear", pct_start=0.2
    ),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=5), s.CosineAnnealingLR(o, 20), s.ExponentialLR(o, 0.9)], [5, 25]
    ),
    "SequentialLR of others": lambda s, o: s.SequentialLR(
        o, [s.LambdaLR(o, lambda n: n + 1), s.StepLR(o, 3), s.MultiStepLR(o, [2])], [4, 15]
    ),
}


STEPS = {"OneCycleLR": 40, "OneCycleLR, three phases": 40}  # one more than all is an error


def rates(lib: Any, name: str, optimizer: str, resume: bool) -> list[tuple[Any, ...]]:
    """Rates and momenta over 40 steps; with `resume` both objects are made anew in the middle."""
    options = {"SGD": {"momentum": 0.9}, "Adam": {}}[optimizer]

    def made() -> tuple[Any, Any]:
        groups = [
            {"params": [lib.ones(2, requires_grad=True)]},
            {"params": [lib.ones(3, requires_grad=True)], "lr": 0.02},
        ]
        opt = getattr(lib.optim, optimizer)(groups, lr=0.1, **options)
        return opt, SCHEDULES[name](lib.optim.lr_scheduler, opt)

    opt, schedule = made()
    found: list[tuple[Any, ...]] = []
    for step in range(STEPS.get(name, 200)):
        found.append(tuple((g["lr"], g.get("momentum"), g.get("betas")) for g in opt.param_groups))
        assert list(schedule.get_last_lr()) == [g["lr"] for g in opt.param_groups]
        opt.step()
        schedule.step()
        if resume and step == 11:
            states = opt.state_dict(), schedule.state_dict()
            opt, schedule = made()
            opt.load_state_dict(states[0])
            schedule.load_state_dict(states[1])
    return found


@needs_torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_is_pytorchs(name: str, optimizer: str) -> None:
    ours, theirs = rates(cr, name, optimizer, False), rates(torch, name, optimizer, False)
    for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        flat = [
            [x for lr, momentum, betas in groups for x in (lr, momentum or 0, (betas or (0,))[0])] for groups in (a, b)
        ]
        assert flat[0] == pytest.approx(flat[1], rel=1e-12), step
    assert rates(cr, name, optimizer, True) == ours


@needs_torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [n for n in SCHEDULES if not n.startswith(("Chained", "Sequential", "Multiplicative"))]
)
def test_schedule_by_epoch(name: str) -> None:
    """step(epoch) has PyTorch's rates, which are those of a formula where there is one."""
    found: list[list[float]] = []
    for lib in (cr, torch):
        opt = lib.optim.SGD([{"params": [lib.ones(2)]}, {"params": [lib.ones(3)], "lr": 0.02}], lr=0.1, momentum=0.9)
        schedule = SCHEDULES[name](lib.optim.lr_scheduler, opt)
        rates: list[float] = []
        for epoch in (3, 5, 7, 9, 8, 13, 14, 30, 31, 40, 1, 0):
            schedule.step(epoch)
            rates += schedule.get_last_lr()
        found.append(rates)
    assert found[0] == pytest.approx(found[1], rel=1e-12)


def rounded(x: Any) -> Any:
    """A state with floats to 9 digits, in the order of its entries."""
    if isinstance(x, dict):
        return [(k, rounded(v)) for k, v in sorted(x.items())]
    if isinstance(x, (list, tuple)):
        return [rounded(v) for v in x]
    return float(f"{x:.9g}") if isinstance(x, float) else x


class Halving:
    """A function of a schedule that is an object with state."""

    def __init__(self, base: float) -> None:
        self.base = base

    def __call__(self, n: float) -> float:
        return float(self.base**n)


STATES: dict[str, Any] = {
    **SCHEDULES,
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, "max", cooldown=2),
    "ReduceLROnPlateau of each": lambda s, o: s.ReduceLROnPlateau(o, min_lr=[0.1, 0.2]),
    "an object": lambda s, o: s.LambdaLR(o, [Halving(0.5), lambda n: 1.0]),
    "CyclicLR, an object": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 5, scale_fn=Halving(0.5)),
}


@needs_torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", STATES)
def test_states_of_schedules(name: str, kind: str) -> None:
    """The state dict and the groups' options have PyTorch's names and values."""
    found = []
    for lib in (cr, torch):
        opt = getattr(lib.optim, kind)([{"params": [lib.ones(2, requires_grad=True)]} for _ in range(2)], lr=0.1)
        schedule = STATES[name](lib.optim.lr_scheduler, opt)
        for _ in range(7):
            opt.step()
            schedule.step(*[1.0] * name.startswith("Reduce"))
        options = [{k: v for k, v in g.items() if re.search("lr|momentum|betas", k)} for g in opt.param_groups]
        found.append((rounded(schedule.state_dict()), rounded(options)))
    assert found[0] == found[1]


def test_state_of_a_schedules_object() -> None:
    for name in ("an object", "CyclicLR, an object"):
        kept, fresh = (
            STATES[name](
                cr.optim.lr_scheduler, cr.optim.SGD([{"params": [cr.ones(1)]}, {"params": [cr.ones(1)]}], 0.1, 0.9)
            )
            for _ in range(2)
        )
        f, g = (s._scale_fn_custom if hasattr(s, "_scale_fn_custom") else s.lr_lambdas[0] for s in (kept, fresh))
        f.base = 0.25
        fresh.load_state_dict(kept.state_dict())
        assert g.base == 0.25 and g is not f


def test_plateau_of_added_groups() -> None:
    def made(least: Any) -> tuple[Any, Any]:
        opt = cr.optim.SGD([cr.ones(1)], 1.0)
        schedule = cr.optim.lr_scheduler.ReduceLROnPlateau(opt, patience=0, min_lr=least)
        opt.add_param_group({"params": [cr.ones(2)], "lr": 0.5})
        schedule.step(1.0)
        return opt, schedule

    opt, schedule = made(0.2)
    schedule.step(1.0)
    assert [g["lr"] for g in opt.param_groups] == [0.2, 0.2]
    with pytest.raises(RuntimeError, match="min_lrs"):
        made([0.2])[1].step(1.0)


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_schedules_multiply() -> None:
    found = []
    for lib in (cr, torch):
        opt = lib.optim.SGD([lib.ones(2, requires_grad=True)], lr=0.1)
        schedules = [
            lib.optim.lr_scheduler.ExponentialLR(opt, 0.9),
            lib.optim.lr_scheduler.CosineAnnealingLR(opt, 10),
            lib.optim.lr_scheduler.StepLR(opt, 4),
        ]
        each = []
        for _ in range(25):
            for s in schedules:
                s.step()
            each.append(opt.param_groups[0]["lr"])
        found.append(each)
    assert found[0] == pytest.approx(found[1], rel=1e-12)


class Decay:
    """rate^n"""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, n: int) -> float:
        return float(self.rate**n)


def test_the_state_of_a_function_goes_with_the_schedule() -> None:
    for lib in [cr, torch] if torch else [cr]:
        opt = lib.optim.SGD([lib.ones(2, requires_grad=True)], lr=1.0)
        schedule = lib.optim.lr_scheduler.LambdaLR(opt, Decay(0.5))
        state = schedule.state_dict()
        other = Decay(0.25)
        schedule = lib.optim.lr_scheduler.LambdaLR(opt, other)
        schedule.load_state_dict(state)
        opt.step()
        schedule.step()
        assert other.rate == 0.5 and opt.param_groups[0]["lr"] == 0.5


PLATEAUS = [
    {},
    {"mode": "max", "patience": 1, "cooldown": 2},
    {"threshold_mode": "abs", "threshold": 0.3, "min_lr": [0.01, 0.0], "patience": 2},
    {"patience": 1, "eps": 0.02},
]


@pytest.mark.parametrize("options", PLATEAUS, ids=str)
def test_plateau(options: dict[str, Any]) -> None:
    metrics = [math.sin(k * k) / (1 + 0.1 * k) for k in range(60)] + [math.nan, 0.0]
    found = []
    for lib in [cr, torch] if torch else [cr]:
        opt = lib.optim.SGD(
            [{"params": [lib.ones(2, requires_grad=True)]}, {"params": [lib.ones(2, requires_grad=True)], "lr": 0.2}],
            lr=0.1,
        )
        schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, **options)
        each = []
        for k, metric in enumerate(metrics):
            schedule.step(lib.tensor(metric))
            each += schedule.get_last_lr()
            if k == 20:
                state = schedule.state_dict()
                schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(opt)
                schedule.load_state_dict(state)
        found.append(each)
    assert found[0][-1] < 0.2 and (len(found) == 1 or found[0] == found[1])


def test_one_step_too_many() -> None:
    opt = optim.SGD([cr.ones(2, requires_grad=True)], momentum=0.5)
    schedule = optim.lr_scheduler.OneCycleLR(opt, 0.1, 3)
    for _ in range(3):
        schedule.step()
    with pytest.raises(ValueError, match="total steps"):
        schedule.step()


def test_options_of_numpy() -> None:
    numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
    p, q = (cr.ones(3, requires_grad=True) for _ in range(2))
    p.grad = q.grad = cr.ones(3)
    optim.SGD([p], lr=numpy.float32(0.5)).step()
    optim.SGD([q], lr=0.5).step()
    assert p.tolist() == q.tolist() == [0.5] * 3


@needs_torch
def test_sparse_adam() -> None:
    """PyTorch's with sparse gradients that name every row."""
    found = []
    for lib in (cr, torch):
        p = X((3, 5)).make(lib).requires_grad_()
        opt = lib.optim.SparseAdam([p], lr=0.05, eps=1e-3)
        for step in range(20):
            grad = X((3, 5), seed=step + 1).make(lib)
            p.grad = grad if lib is cr else grad.to_sparse()
            opt.step()
        found.append([p])
    close(found[0], found[1], 1e-12)


@needs_torch
@pytest.mark.parametrize("kind", ["mean", "decay", "decay of all"])
def test_averaged_model(kind: str) -> None:
    found = []
    for lib in (cr, torch):
        swa = lib.optim.swa_utils
        options = {
            "mean": {},
            "decay": {"avg_fn": swa.get_ema_avg_fn(0.9)},
            "decay of all": {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.9), "use_buffers": True},
        }[kind]
        net = lib.nn.Linear(5, 3)
        mean = swa.AveragedModel(net, **options)
        for step in range(4):
            for i, p in enumerate(net.parameters()):
                p.data.copy_(X(tuple(p.shape), "float32", seed=step + i).make(lib))
            mean.update_parameters(net)
        x = X((2, 5), "float32").make(lib)
        found.append([mean(x), *mean.parameters()])
        assert int(mean.n_averaged) == 4 and "module.weight" in mean.state_dict()
    close(found[0], found[1], 1e-6)


def test_statistics_of_an_average() -> None:
    net = nn.Sequential(nn.BatchNorm1d(2, momentum=0.3), nn.Identity()).eval()
    batches = [X((4, 2), "float32", seed=i).make(cr) for i in range(3)]
    optim.swa_utils.update_bn(((x, 0) for x in batches), net)
    assert net[0].momentum == 0.3 and not net.training and not net[0].training
    mean = cr.stack(batches).mean((0, 1))
    assert (net[0].running_mean - mean).abs().max().item() < 1e-6 and int(net[0].num_batches_tracked) == 3


def test_restarts_take_fractions() -> None:
    found = []
    for lib in [cr, torch] if torch else [cr]:
        opt = lib.optim.SGD([lib.ones(2, requires_grad=True)], lr=0.1)
        schedule = lib.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, 3, 2)
        each = []
        for k in range(60):
            schedule.step(k / 4)
            each.append(opt.param_groups[0]["lr"])
        found.append(each)
    assert max(found[0]) == 0.1 and found[0] == pytest.approx(found[-1], rel=1e-12)


def test_a_recorded_step_is_refused() -> None:
    for name in ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "ASGD", "Rprop", "RMSprop", "Adagrad", "Adadelta"):
        p = cr.ones(2, requires_grad=True)
        getattr(optim, name)([p], foreach=True)
        with pytest.raises(ValueError, match="differentiable=True is not supported"):
            getattr(optim, name)([p], differentiable=True)


# ---- what others read of optimizers and schedulers

EVERY = """SGD Adam AdamW Adamax RAdam NAdam RMSprop Adagrad Adadelta ASGD Rprop LBFGS Adafactor Muon""".split()


@needs_torch
@pytest.mark.parametrize("name", EVERY)
def test_groups_and_state_dicts_have_pytorchs_entries(name: str) -> None:
    shown = []
    for lib in (cr, torch):
        p = lib.nn.Parameter(lib.ones(2, 2))
        opt = getattr(lib.optim, name)([p])
        p.grad = lib.ones(2, 2)
        opt.step(lambda lib=lib: lib.tensor(1.0))
        saved = opt.state_dict()
        shown.append((sorted(opt.defaults), saved["param_groups"], sorted(saved["state"].get(0, {})), repr(opt)))
    assert shown[0] == shown[1]


def test_a_schedule_of_a_users() -> None:
    shown = []
    for lib in [cr] if torch is None else [cr, torch]:

        class Warm(lib.optim.lr_scheduler.LRScheduler):  # type: ignore[misc, name-defined]
            seen: list[bool] = []

            def get_lr(self) -> list[float]:
                self.seen.append(self._get_lr_called_within_step)
                return [lr * min(1, (self.last_epoch + 1) / 4) for lr in self.base_lrs]

            def _get_closed_form_lr(self) -> list[float]:
                return [lr * 100 for lr in self.base_lrs]

        opt = plain(lib)([lib.nn.Parameter(lib.ones(1))], lr=1.0)
        warm = Warm(opt)
        rates = [warm.get_last_lr()]
        for _ in range(2):
            opt.step()
            warm.step()
            rates.append(warm.get_last_lr())
        warm.get_lr()
        warm.step(7)
        shown.append((rates, warm.get_last_lr(), Warm.seen, sorted(warm.state_dict()), opt.param_groups[0]["lr"]))
    assert shown[0] == shown[-1] and shown[0][0] == [[0.25], [0.5], [0.75]] and shown[0][1] == [100.0]


def plain(lib: Any) -> Any:
    class Plain(lib.optim.Optimizer):  # type: ignore[misc]
        def __init__(self, params: Any, **defaults: Any) -> None:
            super().__init__(params, defaults)

        def step(self, closure: Any = None) -> None:
            pass

    return Plain
