"""chainrule.nn.utils, hooks and methods of modules, lazy modules, initialisers: beside PyTorch's."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import chainrule as cr
import pytest
from cases import X
from chainrule import nn
from compare import differ
from test_nn import needs_torch, torch

LIBS = [cr, torch] if torch else [cr]
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def both(f: Any) -> None:
    """f of each library gives the same: tensors, numbers, text."""
    found = [f(lib) for lib in LIBS]
    if torch:
        assert len(found[0]) == len(found[1])
        for i, (ours, theirs) in enumerate(zip(*found, strict=True)):
            assert (wrong := differ(f"result {i}", ours, theirs, torch)) is None, wrong


def linear(lib: Any, inputs: int = 4, outputs: int = 3, bias: bool = True) -> Any:
    """A layer with the same weights in each library."""
    layer = lib.nn.Linear(inputs, outputs, bias).double()
    for i, p in enumerate(layer.parameters()):
        p.data.copy_(X(tuple(p.shape), seed=20 + i).make(lib))
    return layer


# ---- hooks


@pytest.mark.parametrize("kind", ["plain", "changed", "no gradient of the input", "two calls", "tuple"])
def test_backward_hooks(kind: str) -> None:
    def run(lib: Any) -> list[Any]:
        seen: list[Any] = []
        layer = linear(lib)
        if kind == "tuple":
            layer = lib.nn.Module()
            layer.forward = lambda x, n, y: (x * n, y * x)

        def after(module: Any, grad_input: Any, grad_output: Any) -> Any:
            given = [None if g is None or not g.any() else g for g in grad_input]  # PyTorch's may be zeros
            seen.append([len(grad_input), len(grad_output), *given, *grad_output])
            return tuple(None if g is None else g * 2 for g in grad_input) if kind == "changed" else None

        def before(module: Any, grad_output: Any) -> Any:
            seen.append([*grad_output])
            return tuple(g * 3 for g in grad_output) if kind == "changed" else None

        handles = [layer.register_full_backward_hook(after), layer.register_full_backward_pre_hook(before)]
        x = X((2, 4)).make(lib).requires_grad_(kind != "no gradient of the input")
        more = (2.0, X((2, 4), seed=1).make(lib)) if kind == "tuple" else ()
        y = layer(x, *more)
        total = sum(part.square().sum() for part in y) if kind == "tuple" else y.square().sum()
        total = total + layer(x).exp().sum() if kind == "two calls" else total
        total.backward()
        for handle in handles:
            handle.remove()
        count = len(seen)
        y = layer(x, *more)
        assert len(seen) == count and seen
        flat = [value for entry in seen for value in entry]
        return [f"{value}" if value is None else value for value in flat] + [
            g for g in [x.grad, *(p.grad for p in layer.parameters())] if g is not None
        ]

    both(run)


def test_hooks_of_all_modules() -> None:
    def run(lib: Any) -> list[Any]:
        seen: list[Any] = []
        home = nn if lib is cr else torch.nn.modules.module
        net = lib.nn.Sequential(linear(lib), lib.nn.Tanh())
        handles = [
            home.register_module_forward_pre_hook(lambda m, args: seen.append(f"pre {type(m).__name__}")),
            home.register_module_forward_hook(lambda m, args, y: seen.append(f"after {type(m).__name__}")),
            home.register_module_full_backward_hook(lambda m, i, o: seen.append(f"back {type(m).__name__}")),
            home.register_module_full_backward_pre_hook(lambda m, o: seen.append(f"go {type(m).__name__}")),
        ]
        net(X((2, 4)).make(lib).requires_grad_()).sum().backward()
        for handle in handles:
            handle.remove()
        count = len(seen)
        net(X((2, 4)).make(lib))
        assert len(seen) == count
        return seen

    both(run)


def test_hooks_of_calls_that_fail() -> None:
    def run(lib: Any) -> list[Any]:
        seen: list[Any] = []
        layer = linear(lib)
        layer.register_forward_hook(lambda m, args, y: seen.append(f"always {y is None}"), always_call=True)
        layer.register_forward_hook(lambda m, args, kwargs, y: seen.append("once"), with_kwargs=True)
        layer(X((2, 4)).make(lib))
        with pytest.raises(RuntimeError):
            layer(X((2, 3)).make(lib))
        return seen

    both(run)


def test_hooks_of_state_dicts() -> None:
    def run(lib: Any) -> list[Any]:
        seen: list[Any] = []
        net = lib.nn.Sequential(linear(lib), lib.nn.Sequential(linear(lib)))
        inner = net[1]
        inner.register_state_dict_pre_hook(lambda m, prefix, keep: seen.append(f"save {prefix} {keep}"))
        inner.register_state_dict_post_hook(lambda m, state, prefix, meta: (state.pop(prefix + "0.bias"), None)[1])
        state = net.state_dict()
        seen += list(state)

        def rename(m: Any, state: Any, prefix: str, *rest: Any) -> None:
            seen.append(f"load {prefix} {rest[1:]}")
            state[prefix + "0.bias"] = state.pop(prefix + "0.b")

        inner.register_load_state_dict_pre_hook(rename)
        net.register_load_state_dict_post_hook(lambda m, keys: seen.append(f"done {keys.missing_keys}"))
        given = {**state, "1.0.b": state["0.bias"] * 2}
        net.load_state_dict(given)
        assert "1.0.b" in given, "the given dict stays as it was"
        return [*seen, inner[0].bias.detach()]

    both(run)


def test_extra_state() -> None:
    def run(lib: Any) -> list[Any]:
        class Counter(lib.nn.Module):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.count = 0

            def get_extra_state(self) -> Any:
                return {"count": self.count}

            def set_extra_state(self, state: Any) -> None:
                self.count = state["count"]

        net = lib.nn.Sequential(Counter())
        net[0].count = 5
        other = lib.nn.Sequential(Counter())
        other.load_state_dict(net.state_dict())
        missing = other.load_state_dict({}, strict=False).missing_keys
        return [list(net.state_dict()), other[0].count, missing]

    both(run)


def test_module_methods() -> None:
    def run(lib: Any) -> list[Any]:
        net = lib.nn.Sequential(linear(lib), lib.nn.Sequential(lib.nn.ReLU()))
        net.set_submodule("1.0", lib.nn.Tanh())
        net.set_submodule("2", lib.nn.Identity())
        text = repr(net)
        errors = []
        for target, module, options in (
            ("", lib.nn.ReLU(), {}),
            ("1.0", 3, {}),
            ("9", lib.nn.ReLU(), {"strict": True}),
        ):
            with pytest.raises((ValueError, AttributeError)) as e:
                net.set_submodule(target, module, **options)
            errors.append(type(e.value).__name__)
        net.to_empty(device="cpu")
        assert lib is torch or net.compile() is None
        net.b = lib.nn.Buffer(lib.ones(2))
        net.t = lib.nn.Buffer(lib.ones(2), persistent=False)
        net.b = lib.zeros(2)
        return [text, errors, list(net.state_dict()), [n for n, _ in net.named_buffers()], net.b]

    both(run)
    assert isinstance(nn.Buffer(cr.ones(2)), cr.Tensor) and type(nn.Buffer(cr.ones(2)) + 1) is cr.Tensor
    assert not nn.Buffer(cr.ones(2), persistent=False).persistent
    with pytest.raises(NotImplementedError, match="share"):
        nn.Linear(2, 3).share_memory()


# ---- lazy modules

LAZY = [
    ("LazyLinear", (3,), {}, (2, 5)),
    ("LazyLinear", (3,), {"bias": False}, (2, 4, 5)),
    ("LazyBatchNorm1d", (), {}, (3, 4)),
    ("LazyBatchNorm2d", (), {"affine": False}, (3, 4, 2, 2)),
    ("LazyBatchNorm3d", (), {}, (3, 4, 2, 2, 2)),
    ("LazyInstanceNorm2d", (), {"affine": True}, (3, 4, 2, 3)),
    ("LazyConv1d", (6, 2), {}, (2, 4, 5)),
    ("LazyConv2d", (6, 3), {"groups": 2, "padding": 1}, (2, 4, 5, 5)),
    ("LazyConv3d", (6, 1), {}, (2, 4, 2, 3, 3)),
    ("LazyConvTranspose2d", (6, 3), {"stride": 2}, (2, 4, 3, 3)),
]


@needs_torch
@pytest.mark.parametrize("name, args, kwargs, shape", LAZY, ids=str)
def test_lazy_modules(name: str, args: Any, kwargs: Any, shape: tuple[int, ...]) -> None:
    if not hasattr(nn, name):
        pytest.skip(f"there is no {name.removeprefix('Lazy')}")

    def run(lib: Any) -> list[Any]:
        layer = getattr(lib.nn, name)(*args, **kwargs)
        texts = [repr(layer), list(layer.state_dict()), layer.has_uninitialized_params()]
        first = next(layer.parameters(), None)
        net = lib.nn.Sequential(layer).double()
        net(X(shape).make(lib))
        assert first is None or next(net.parameters()) is first, "an optimizer may have it"
        texts += [repr(net), type(layer).__name__, [tuple(p.shape) for p in layer.state_dict().values()]]
        return [*texts, [str(p.dtype).split(".")[1] for p in layer.state_dict().values()]]

    both(run)


def test_lazy_parameters() -> None:
    lazy: Any = nn  # its classes are made from a table
    layer = lazy.LazyLinear(3)
    with pytest.raises(RuntimeError, match="shape of an uninitialized"):
        layer.weight.size(0) + len(layer.weight.shape)
    assert repr(layer.weight) == "<UninitializedParameter>" and isinstance(layer.weight, nn.Parameter)
    layer.load_state_dict(nn.Linear(5, 3).state_dict())
    assert layer.weight.shape == [3, 5] and layer(cr.ones(2, 5)).shape == [2, 3] and layer.in_features == 5
    for twin in (copy.deepcopy(lazy.LazyLinear(3)), pickle.loads(pickle.dumps(lazy.LazyLinear(3)))):
        optimizer = cr.optim.SGD(twin.parameters(), 0.1)
        twin(cr.ones(2, 4)).sum().backward()
        before = twin.weight.tolist()
        optimizer.step()
        assert type(twin) is nn.Linear and twin.weight.tolist() != before
    p, b = nn.UninitializedParameter(requires_grad=False), nn.UninitializedBuffer()
    p.materialize((2, 3))
    b.materialize((4,), dtype=cr.float64)
    assert type(p) is nn.Parameter and not p.requires_grad and p.shape == [2, 3]
    assert type(b) is nn.Buffer and b.dtype == cr.float64


# ---- parametrizations


def symmetric(lib: Any) -> Any:
    class Symmetric(lib.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).mT

        def right_inverse(self, x: Any) -> Any:
            return x.triu()

    return Symmetric()


def twice(lib: Any) -> Any:
    class Twice(lib.nn.Module):  # type: ignore[misc]
        calls = 0

        def forward(self, x: Any) -> Any:
            type(self).calls += 1
            return 2 * x

        def right_inverse(self, x: Any) -> Any:
            return x / 2

    return Twice()


def parametrize_of(lib: Any) -> Any:
    return lib.nn.utils.parametrize if lib is cr else __import__("torch.nn.utils.parametrize").nn.utils.parametrize


def test_parametrize() -> None:
    def run(lib: Any) -> list[Any]:
        P, found = parametrize_of(lib), []
        layer = linear(lib, 3, 3)
        weight = layer.weight
        assert P.register_parametrization(layer, "weight", symmetric(lib)) is layer
        found += [repr(layer), list(layer.state_dict()), [n for n, _ in layer.named_parameters()], layer.weight]
        assert layer.parametrizations.weight.original is weight and P.is_parametrized(layer, "weight")
        P.register_parametrization(layer, "weight", twice(lib))
        x = X((2, 3)).make(lib)
        layer(x).square().sum().backward()
        found += [layer.weight, layer(x), weight.grad, P.type_before_parametrizations(layer).__name__]
        layer.weight = X((3, 3), seed=5).make(lib)
        found += [layer.weight, layer.parametrizations.weight.original]
        P.register_parametrization(layer, "bias", twice(lib))
        if lib is cr:  # PyTorch's copy shares the class, and breaks the first
            twin = copy.deepcopy(layer)
            P.remove_parametrizations(twin, "weight")
            assert twin.weight.tolist() == layer.weight.tolist() and "(weight)" not in repr(twin)
            assert P.is_parametrized(layer, "weight") and not P.is_parametrized(twin, "weight")
        kind = type(layer.parametrizations.bias[0])
        with P.cached():
            before = kind.calls
            assert layer.bias is layer.bias
            found.append(kind.calls - before)
        P.remove_parametrizations(layer, "weight", leave_parametrized=False)
        P.remove_parametrizations(layer, "bias")
        assert layer.weight is weight and type(layer) is lib.nn.Linear
        return [*found, layer.weight, layer.bias, list(layer.state_dict())]

    both(run)


def test_parametrize_refuses() -> None:
    def run(lib: Any) -> list[Any]:
        P, found = parametrize_of(lib), []
        layer = linear(lib)
        for f in (
            lambda: P.register_parametrization(layer, "heft", symmetric(lib)),
            lambda: P.register_parametrization(layer, "weight", lib.nn.Flatten(0)),
            lambda: P.remove_parametrizations(layer, "weight"),
            lambda: pickle.dumps(P.register_parametrization(layer, "bias", lib.nn.Identity())),
            lambda: setattr(layer, "bias", lib.ones(3)),
        ):
            with pytest.raises((ValueError, RuntimeError)) as e:
                f()
            found.append(type(e.value).__name__)
        return found

    both(run)


def test_weight_norm() -> None:
    def run(lib: Any) -> list[Any]:
        Z, found = lib.nn.utils.parametrizations, []
        x = X((2, 4)).make(lib)
        for make in (Z.weight_norm, lib.nn.utils.weight_norm):
            for dim in (0, 1, None):
                layer = make(linear(lib), dim=dim)
                layer(x).square().sum().backward()
                found += [repr(layer), list(layer.state_dict()), layer(x), layer.weight]
                found += [p.grad for p in layer.parameters()]
                layer.zero_grad()
        lib.nn.utils.remove_weight_norm(layer)
        old = lib.nn.utils.weight_norm(linear(lib)).state_dict()
        new = Z.weight_norm(linear(lib, bias=True))
        new.load_state_dict(old)
        with pytest.raises(ValueError, match="not found"):
            lib.nn.utils.remove_weight_norm(layer)
        return [*found, list(layer.state_dict()), layer(x), new(x)]

    both(run)


def test_spectral_norm() -> None:
    def run(lib: Any) -> list[Any]:
        Z, found = lib.nn.utils.parametrizations, []
        x = X((2, 4)).make(lib)
        for make, u, v in ((Z.spectral_norm, "_u", "_v"), (lib.nn.utils.spectral_norm, "weight_u", "weight_v")):
            layer = make(linear(lib))
            home = layer.parametrizations.weight[0] if u == "_u" else layer
            start = X((3,), seed=1).make(lib), X((4,), seed=2).make(lib)
            setattr(home, u, start[0] / start[0].norm())
            setattr(home, v, start[1] / start[1].norm())
            layer(x).square().sum().backward()
            found += [repr(layer), list(layer.state_dict()), *(p.grad for p in layer.parameters())]
            found += [getattr(home, u).clone(), layer.eval()(x)]
            for _ in range(200):
                layer.train()(x)
            found += [layer.eval()(x), layer.weight]
        lib.nn.utils.remove_spectral_norm(layer)
        for bad in ({"n_power_iterations": 0}, {"dim": 5}):
            with pytest.raises((ValueError, IndexError)):
                Z.spectral_norm(linear(lib), **bad)
        return [*found, list(layer.state_dict()), layer.weight]

    both(run)


def test_spectral_norm_is_one() -> None:
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 5).double())
    for _ in range(300):
        layer(cr.ones(1, 6, dtype=cr.float64))
    w = layer.weight.detach()
    x = cr.randn(6, 1, dtype=cr.float64)
    for _ in range(300):
        x = w.mT @ (w @ x)
        x = x / x.norm()
    assert abs((w @ x).norm().item() - 1) < 1e-6


@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("kind", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)], ids=str)
def test_orthogonal(kind: str, shape: tuple[int, int], trivial: bool) -> None:
    def gap(w: Any) -> float:
        w = w if w.shape[0] >= w.shape[1] else w.mT
        return float((w.mT @ w - cr.eye(w.shape[1], dtype=cr.float64)).abs().max().item())

    layer = nn.utils.parametrizations.orthogonal(
        linear(cr, shape[1], shape[0]), orthogonal_map=kind, use_trivialization=trivial
    )
    if kind == "householder" or trivial:
        wanted = nn.init.orthogonal_(cr.empty(shape, dtype=cr.float64))
        layer.weight = wanted
        assert (layer.weight - wanted).abs().max().item() < 1e-12
    optimizer = cr.optim.SGD(layer.parameters(), 0.05)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (layer(X((7, shape[1])).make(cr)) - X((7, shape[0]), seed=1).make(cr)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        assert gap(layer.weight.detach()) < 1e-12
    assert losses[-1] < losses[0]
    x = X(shape, low=-1, high=1).make(cr).requires_grad_()
    form = layer.parametrizations.weight[0]
    if kind != "householder" or not trivial:
        assert cr.autograd.gradcheck(form, (x,)) and cr.autograd.gradgradcheck(form, (x,))
    if torch and not trivial:
        theirs = torch.nn.utils.parametrizations.orthogonal(
            linear(torch, shape[1], shape[0]), orthogonal_map=kind, use_trivialization=False
        )
        start = X(shape, low=-1, high=1)
        values = [m.parametrizations.weight[0](start.make(lib)) for m, lib in ((layer, cr), (theirs, torch))]
        assert (wrong := differ("the matrix", values[0], values[1], torch)) is None, wrong


# ---- pruning


def test_prune() -> None:
    def run(lib: Any) -> list[Any]:
        if lib is torch:
            from torch.nn.utils import prune
        else:
            prune = nn.utils.prune
        found: list[Any] = []
        x = X((2, 4)).make(lib)
        mask = (X((3, 4), seed=3).make(lib) > 0).double()
        ways: list[Callable[[Any], Any]] = [
            lambda m: prune.l1_unstructured(m, "weight", 5),
            lambda m: prune.l1_unstructured(m, "weight", 0.25, importance_scores=X((3, 4), seed=8).make(lib)),
            lambda m: prune.ln_structured(m, "weight", 0.5, 2, 1),
            lambda m: prune.ln_structured(m, "weight", 1, math.inf, -2),
            lambda m: prune.custom_from_mask(m, "weight", mask),
            lambda m: prune.identity(m, "bias"),
            lambda m: prune.l1_unstructured(prune.l1_unstructured(m, "weight", 3), "weight", 4),
            lambda m: prune.l1_unstructured(prune.ln_structured(m, "weight", 1, 1, 0), "weight", 0.5),
            lambda m: prune.ln_structured(prune.ln_structured(m, "weight", 1, 1, 0), "weight", 1, 1, 0),
        ]
        for f in ways:
            net = lib.nn.Sequential(linear(lib))
            f(net[0])
            net(x).square().sum().backward()
            found += [repr(net), list(net.state_dict()), net[0].weight, prune.is_pruned(net)]
            found += [p.grad for p in net.parameters()]
            name = "bias" if "bias_mask" in net[0].state_dict() else "weight"
            prune.remove(net[0], name)
            found += [getattr(net[0], name), sorted(net.state_dict()), prune.is_pruned(net)]
        net = lib.nn.Sequential(linear(lib), linear(lib, 3, 5))
        prune.global_unstructured(
            [(net[0], "weight"), (net[1], "weight")], pruning_method=prune.L1Unstructured, amount=0.4
        )
        found += [net[0].weight, net[1].weight]
        bad: list[Callable[[], Any]] = [
            lambda: prune.l1_unstructured(linear(lib), "weight", 1.5),
            lambda: prune.l1_unstructured(linear(lib), "weight", -1),
            lambda: prune.l1_unstructured(linear(lib), "weight", 99),
            lambda: prune.l1_unstructured(linear(lib), "weight", "x"),
            lambda: prune.ln_structured(linear(lib), "bias", 1, 1, 0),
            lambda: prune.ln_structured(linear(lib), "weight", 1, 1, 5),
            lambda: prune.remove(linear(lib), "weight"),
            lambda: prune.global_unstructured([net[0]], prune.L1Unstructured, amount=1),
        ]
        for call in bad:
            with pytest.raises((ValueError, TypeError, IndexError)) as e:
                call()
            found.append(type(e.value).__name__)
        return found

    both(run)


def test_prune_at_random() -> None:
    cr.manual_seed(0)
    prune = nn.utils.prune
    layer = prune.random_unstructured(nn.Linear(20, 10), "weight", 0.3)
    assert (layer.weight == 0).sum().item() == 60 == (layer.weight_mask == 0).sum().item()
    layer = prune.random_structured(nn.Linear(20, 10), "weight", 4, 1)
    assert (layer.weight == 0).all(0).sum().item() == 4

    class Odd(prune.BasePruningMethod):
        def compute_mask(self, t: Any, default_mask: Any) -> Any:
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    layer = nn.Linear(2, 2)
    Odd.apply(layer, "weight")
    assert layer.weight_mask.flatten().tolist() == [0, 1, 0, 1]
    assert Odd().prune(cr.ones(4)).tolist() == [0, 1, 0, 1]


# ---- other parameters, first values


def test_functional_call() -> None:
    def run(lib: Any) -> list[Any]:
        call = nn.utils.stateless.functional_call if lib is cr else torch.func.functional_call
        net = lib.nn.Sequential(linear(lib), lib.nn.Tanh(), linear(lib, 3, 3))
        values = {k: X(tuple(v.shape), seed=50 + i).make(lib) for i, (k, v) in enumerate(net.state_dict().items())}
        x, leaf = X((2, 4)).make(lib), values["0.weight"].requires_grad_()
        y = call(net, values, (x,), strict=False)
        y.sum().backward()
        one = call(net, {"0.weight": leaf}, x)
        two = call(net, ({"0.weight": leaf}, {"0.bias": values["0.bias"]}), (x,))
        net[2].again = net[0].bias
        tied = [call(net, {"2.again": values["0.bias"]}, (x,), tie_weights=tie) for tie in (True, False)]
        errors = []
        bad: list[tuple[Any, dict[str, Any]]] = [
            ({"0.bias": values["0.bias"], "2.again": values["2.bias"]}, {}),
            ({"0.heft": x}, {"strict": True}),
            ({"0.weight": leaf}, {"strict": True}),
            (({"0.weight": leaf}, {"0.weight": leaf}), {}),
        ]
        for given, options in bad:
            with pytest.raises((RuntimeError, ValueError)) as e:
                call(net, given, (x,), **options)
            errors.append(type(e.value).__name__)
        return [y, leaf.grad, one, two, *tied, net(x), errors]

    both(run)


def test_fusion() -> None:
    def run(lib: Any) -> list[Any]:
        layer, norm = linear(lib), lib.nn.BatchNorm1d(3).double()
        norm(X((9, 3)).make(lib))
        norm.weight.data.copy_(X((3,), seed=4).make(lib))
        x = X((2, 4)).make(lib)
        fused = lib.nn.utils.fusion.fuse_linear_bn_eval(layer.eval(), norm.eval())
        assert (fused(x) - norm(layer(x))).abs().max().item() < 1e-12
        with pytest.raises(AssertionError):
            lib.nn.utils.fusion.fuse_linear_bn_eval(layer.train(), norm)
        return [fused.weight, fused.bias]

    both(run)


def test_other_utils() -> None:
    layer = nn.utils.skip_init(nn.Linear, 2, 3, bias=False)
    assert layer.weight.shape == [3, 2] and layer.bias is None
    with pytest.raises(RuntimeError, match="device"):
        nn.utils.skip_init(nn.ReLU)
    layer(cr.ones(1, 2)).sum().backward()
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        total = nn.utils.clip_grad_norm(layer.parameters(), 0.5)
    assert abs(total.item() - math.sqrt(6)) < 1e-6 and abs(layer.weight.grad.norm().item() - 0.5) < 1e-4
    nn.utils.clip_grads_with_norm_(layer.parameters(), 0.25, cr.tensor(0.5))
    assert abs(layer.weight.grad.norm().item() - 0.25) < 1e-4


def test_init() -> None:
    def run(lib: Any) -> list[Any]:
        init, found = lib.nn.init, []
        for shape, groups in (((4, 2, 3), 1), ((4, 2, 3), 2), ((2, 3, 3, 2), 1), ((2, 2, 1, 2, 3), 1)):
            found.append(init.dirac_(lib.ones(*shape), groups))
        found += [
            init._calculate_fan_in_and_fan_out(lib.ones(4, 2, 3)),
            init._calculate_correct_fan(lib.ones(4, 2), "fan_out"),
        ]
        bad: list[Callable[[], Any]] = [
            lambda: init.dirac_(lib.ones(2, 3)),
            lambda: init.dirac_(lib.ones(3, 2, 3), 2),
            lambda: init.sparse_(lib.ones(3), 0.1),
            lambda: init._calculate_fan_in_and_fan_out(lib.ones(3)),
        ]
        for f in bad:
            with pytest.raises(ValueError):
                f()
        for name in (
            "uniform",
            "normal",
            "xavier_uniform",
            "xavier_normal",
            "kaiming_uniform",
            "kaiming_normal",
            "orthogonal",
        ):
            w = lib.zeros(4, 5)
            with pytest.warns(FutureWarning, match=f"nn.init.{name}_"):
                assert getattr(init, name)(w) is w and w.abs().max().item() > 0
        for name, args in (("constant", (2.0,)), ("eye", ())):
            with pytest.warns(FutureWarning):
                found.append(getattr(init, name)(lib.zeros(2, 3), *args))
        return found

    with warnings.catch_warnings():
        both(run)
    w = nn.init.sparse_(cr.ones(50, 20), 0.3, 2.0)
    assert ((w == 0).sum(0) == 15).all().item() and abs(w[w != 0].std().item() - 2) < 0.2
