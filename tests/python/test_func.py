"""chainrule.func: transforms in each other against PyTorch's, aux and nests, random numbers, wrong use, compiled."""

# Lambdas without annotations keep the tables of functions short.
# mypy: disable-error-code="no-untyped-call, func-returns-value, attr-defined"

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import product
from typing import Any

import chainrule as cr
import chainrule.nn.functional as F
import pytest
from chainrule import func, nn
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
theirs = torch.func


def T(x: Any) -> Any:  # noqa: N802, as torch.T
    """The same numbers in PyTorch."""
    if isinstance(x, cr.Tensor):
        return torch.tensor(x.detach().tolist(), dtype=getattr(torch, str(x.dtype).rpartition(".")[2]))
    if isinstance(x, dict):
        return {k: T(v) for k, v in x.items()}
    return type(x)(map(T, x)) if isinstance(x, (list, tuple)) else x


def same(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        a, b = [a[k] for k in a], [b[k] for k in a]
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b) and type(a) is type(b)
        for x, y in zip(a, b, strict=True):
            same(x, y, tolerance)
        return
    assert tuple(a.shape) == tuple(b.shape), (a.shape, b.shape)
    assert str(a.dtype).rpartition(".")[2] == str(b.dtype).rpartition(".")[2]
    assert torch.allclose(T(a), b.detach(), tolerance, tolerance), (a, b)


@pytest.fixture(autouse=True)
def seeded() -> None:
    cr.manual_seed(0)


def of(lib: Any) -> Callable[[Any], Any]:
    """A function of a vector, in one of the libraries, that is not linear and not diagonal."""
    return lambda x: (lib.sin(x) * x.sum()).sum() + (x**3).prod() + lib.logsumexp(x * x, 0)


def lines(lib: Any) -> Callable[[Any], Any]:
    return lambda x: lib.cumsum(lib.softmax(x, -1) * x.flip(0), 0) + x[:1] * lib.tanh(x).norm()


def squared(g: Any) -> Any:
    return lambda x: (g(x) * g(x)).sum()


TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, lib: f.grad(lib),
    "jacrev": lambda f, lib: f.jacrev(lib),
    "jacfwd": lambda f, lib: f.jacfwd(lib),
    "jvp": lambda f, lib: lambda x: f.jvp(lib, (x,), (x.flip(-1),))[1],
    "vjp": lambda f, lib: lambda x: (lambda y, back: back(y * y)[0])(*f.vjp(lib, x)),
    "vmap": lambda f, lib: lambda x: f.vmap(lib)(x[None] * x[:3, None]).sum(0),
}


@pytest.mark.parametrize("outer,inner", list(product(TRANSFORMS, TRANSFORMS)))
def test_two_transforms(outer: str, inner: str) -> None:
    """Each transform of each, and both inside vmap."""
    x = cr.randn(4, dtype=cr.float64)

    def found(f: Any, lib: Any, x: Any) -> list[Any]:
        g = TRANSFORMS[inner](f, of(lib) if inner in ("grad", "vmap") else lines(lib))
        if outer == "grad" or inner == "vmap":
            g = squared(g)
        h = TRANSFORMS[outer](f, g)
        return [h(x), f.vmap(h)(lib.stack([x, x * 0.5, x - 1]))]

    same(found(func, cr, x), found(theirs, torch, T(x)))


@pytest.mark.parametrize("first,second,third", list(product(("grad", "jvp", "vmap"), repeat=3)))
def test_three_transforms(first: str, second: str, third: str) -> None:
    x = cr.randn(4, dtype=cr.float64)
    results = []
    for f, lib in ((func, cr), (theirs, torch)):
        g: Any = of(lib)
        for name in (third, second, first):
            g = TRANSFORMS[name](f, squared(g))
        results.append(g(x if lib is cr else T(x)))
    same(results[0], results[1])


def test_hessians() -> None:
    x = cr.randn(5, dtype=cr.float64)
    want = theirs.hessian(of(torch))(T(x))
    ways: list[Any] = [func.jacrev, func.jacfwd]
    for a, b in product(ways, repeat=2):
        same(a(b(of(cr)))(x), want)
    same(func.hessian(of(cr))(x), want)
    same(func.jacfwd(func.jacrev(func.jacfwd(of(cr))))(x), theirs.jacfwd(theirs.jacrev(theirs.jacfwd(of(torch))))(T(x)))


def test_outer_graph() -> None:
    """Gradients reach leaves of the graph around a transform, also those that the function captures."""

    def found(f: Any, lib: Any) -> list[Any]:
        w, x = (lib.tensor([0.5, -1.0, 2.0], dtype=lib.float64, requires_grad=True) for _ in range(2))
        g = f.grad(lambda y: (lib.sin(y * w) * y).sum())(x)
        h = f.jvp(lambda y: (y * y * w).sum(), (x,), (lib.ones(3, dtype=lib.float64),))[1]
        v = f.vmap(lambda y: (y * w).sum() ** 2)(lib.stack([x, x * 2]))
        (g.sum() + h + v.sum()).backward()
        return [w.grad, x.grad]

    same(found(func, cr), found(theirs, torch))
    assert not func.grad(lambda y: (y * y).sum())(cr.ones(3)).requires_grad
    w0 = cr.ones(3, requires_grad=True)
    assert func.grad(lambda y: (y * y * w0).sum())(cr.ones(3)).requires_grad
    with cr.no_grad():
        assert not func.grad(lambda y: (y * y * w0).sum())(cr.ones(3)).requires_grad


def test_nests_and_aux() -> None:
    p = {"a": cr.randn(3, 2, dtype=cr.float64), "b": [cr.randn(3, dtype=cr.float64)]}
    x = cr.randn(4, 2, dtype=cr.float64)
    for has_aux in (False, True):
        results = []
        for f, lib, q, y in ((func, cr, p, x), (theirs, torch, T(p), T(x))):

            def loss(q: Any, y: Any, lib: Any = lib, has_aux: bool = has_aux) -> Any:
                out = lib.tanh(q["a"] @ y + q["b"][0])
                return (out.sum(), {"out": out}) if has_aux else out.sum()

            found = [
                f.grad(loss, has_aux=has_aux)(q, y[0]),
                f.grad_and_value(loss, argnums=(0, 1), has_aux=has_aux)(q, y[0]),
                f.jacrev(loss, argnums=1, has_aux=has_aux)(q, y[0]),
                f.jacfwd(loss, argnums=(1,), has_aux=has_aux)(q, y[0]),
                f.vmap(f.grad(loss, has_aux=has_aux), in_dims=(None, 0))(q, y),
                f.vmap(f.grad(loss, has_aux=has_aux), in_dims=(None, 0), chunk_size=3)(q, y),
            ]
            results.append(found)
        same(results[0], results[1])
    gradient, value = func.grad_and_value(lambda y: (y * y).sum())(x)
    again, first = func.value_and_grad(lambda y: (y * y).sum())(x)
    assert cr.equal(again, value) and cr.equal(first, gradient)


def test_dims() -> None:
    x, y = cr.randn(3, 4, 5, dtype=cr.float64), cr.randn(5, 3, dtype=cr.float64)
    for in_dims, out_dims in product(((0, 1), (2, 0), (-3, -1), ((1), None)), (0, 1, -1)):
        args = (x, y) if in_dims[1] is not None else (x, y[0])
        f = lambda a, b: a[..., None] * b.sum() + 0 * a.sum()  # noqa: E731
        same(func.vmap(f, in_dims, out_dims)(*args), theirs.vmap(f, in_dims, out_dims)(*T(args)))
    nest = ({"x": x}, [y])
    dims = ({"x": 0}, [1])
    g = lambda a, b: {"s": a["x"].sum(0), "t": (b[0], a["x"])}  # noqa: E731
    outs = {"s": 1, "t": (0, 2)}
    same(func.vmap(g, dims, outs)(*nest), theirs.vmap(g, dims, outs)(*T(nest)))
    assert func.vmap(lambda a: (a, y), out_dims=(0, None))(x)[1].shape == y.shape
    same(func.vmap(lambda a: y)(x), theirs.vmap(lambda a: T(y))(T(x)))


def test_in_place() -> None:
    """Writes into tensors that are mapped, and into views of them, as in a loop."""

    def f(a: Any) -> Any:
        b = a.clone()
        b[0] += a[1]
        b[1:].mul_(a[0])
        c = a.new_zeros(2, *a.shape)
        c[1] = b
        d = cr.zeros_like(a) if isinstance(a, cr.Tensor) else torch.zeros_like(a)
        d.add_(a).clamp_(-0.5, 0.5)
        return c.sum(0) + d

    x = cr.randn(4, 3, 2, dtype=cr.float64)
    same(func.vmap(f)(x), theirs.vmap(f)(T(x)))
    same(
        func.vmap(func.grad(lambda a: (f(a) ** 2).sum()))(x),
        theirs.vmap(theirs.grad(lambda a: (f(a) ** 2).sum()))(T(x)),
    )
    y = x.clone()
    func.vmap(lambda a: a.mul_(2))(y)
    assert cr.equal(y, x * 2)


def test_random_numbers() -> None:
    x = cr.zeros(64, 3)
    draws: list[Callable[[cr.Tensor], cr.Tensor]] = [
        lambda a: a + cr.rand(3), lambda a: cr.randn_like(a), lambda a: a.clone().normal_(),
        lambda a: a.clone().bernoulli_(0.5), lambda a: cr.randint(0, 1000, (3,)), lambda a: F.dropout(a + 1, 0.5),
        lambda a: a.clone().random_(0, 100), lambda a: cr.bernoulli(cr.full((3,), 0.5)), lambda a: cr.normal(a, 1.0),
    ]  # fmt: skip
    for draw in draws:
        with pytest.raises(RuntimeError, match="randomness="):
            func.vmap(draw)(x)
        alike = func.vmap(draw, randomness="same")(x)
        assert all(cr.equal(row, alike[0]) for row in alike)
        other = func.vmap(draw, randomness="different")(x)
        assert len({tuple(row.tolist()) for row in other}) > 4
    nested = func.vmap(func.vmap(draws[0], randomness="different"), randomness="different")(cr.zeros(5, 7, 3))
    assert len({tuple(r.tolist()) for r in nested.reshape(-1, 3)}) == 35
    with pytest.raises(RuntimeError, match="randperm"):
        func.vmap(lambda a: cr.randperm(3), randomness="different")(x)
    with pytest.raises(RuntimeError, match="Only allowed values"):
        func.vmap(draws[0], randomness="none")


X = cr.ones(3, 4)
KEPT: list[cr.Tensor] = []
WRONG: list[tuple[str, Callable[[], Any], Any, str]] = [
    ("write to a captured tensor", lambda: func.vmap(lambda a: X.clone()[0].add_(a))(X), RuntimeError, "not mapped"),
    ("copy into a captured tensor", lambda: func.vmap(lambda a: cr.zeros(4).copy_(a))(X), RuntimeError, r"\[copy_\]"),
    ("item", lambda: func.vmap(lambda a: a * a.sum().item())(X), RuntimeError, r"\[item\].*inside vmap"),
    ("a branch", lambda: func.vmap(lambda a: a if a.sum() > 0 else -a)(X), RuntimeError, "inside vmap"),
    ("tolist", lambda: func.vmap(lambda a: a.tolist())(X), RuntimeError, "inside vmap"),
    ("nonzero", lambda: func.vmap(lambda a: a.nonzero())(X), RuntimeError, r"\[nonzero\]"),
    ("a mask as index", lambda: func.vmap(lambda a: a[a > 0])(X), RuntimeError, "inside vmap"),
    ("sizes that differ", lambda: func.vmap(lambda a, b: a)(X, cr.ones(4)), ValueError, "same size"),
    ("an axis of 0", lambda: func.vmap(lambda a: a)(cr.ones(0, 2)), ValueError, "0 elements"),
    ("no axis", lambda: func.vmap(lambda a: a)(cr.ones(())), ValueError, "dimensionality 0"),
    ("an axis too far", lambda: func.vmap(lambda a: a, in_dims=2)(X), ValueError, "in_dim=2"),
    ("nothing mapped", lambda: func.vmap(lambda a: a, in_dims=None)(X), ValueError, "in_dims"),
    ("all None", lambda: func.vmap(lambda a: a, in_dims=(None,))(X), ValueError, "at least one"),
    ("a number mapped", lambda: func.vmap(lambda a, b: a)(X, 3), ValueError, "non-Tensor"),
    ("in_dims of another form", lambda: func.vmap(lambda a: a, in_dims=(0, 0))(X), ValueError, "structure"),
    ("no arguments", lambda: func.vmap(lambda: X)(), ValueError, "no inputs"),
    ("a result that is no tensor", lambda: func.vmap(lambda a: 3)(X), ValueError, "must only return Tensors"),
    ("out_dims None of a batch", lambda: func.vmap(lambda a: a, out_dims=None)(X), ValueError, "out_dims=None"),
    ("out_dims of another form", lambda: func.vmap(lambda a: a, out_dims=(0, 1))(X), ValueError, "out_dims"),
    ("out_dims too far", lambda: func.vmap(lambda a: a, out_dims=3)(X), (ValueError, IndexError), "axis|range"),
    ("chunks of 0", lambda: func.vmap(lambda a: a, chunk_size=0), ValueError, "chunk_size"),
    ("a tensor behind its vmap", lambda: (func.vmap(lambda a: KEPT.append(a) or a)(X), KEPT[-1] + 1), RuntimeError,
     "has ended"),
    ("a tensor behind its jvp", lambda: (func.jvp(lambda a: KEPT.append(a) or a, (X,), (X,)), KEPT[-1].sum()),
     RuntimeError, "has ended"),
    ("backward inside", lambda: func.vmap(lambda a: a.requires_grad_())(X), RuntimeError, "func.grad"),
    ("a vector's gradient", lambda: func.grad(lambda a: a)(X), RuntimeError, "scalar tensor"),
    ("argnums too far", lambda: func.grad(lambda a: a.sum(), argnums=1)(X), RuntimeError, "argnum=1"),
    ("integers", lambda: func.grad(lambda a: a.sum())(cr.arange(3)), TypeError, "float"),
    ("no aux", lambda: func.grad(lambda a: a.sum(), has_aux=True)(X), RuntimeError, "aux"),
    ("tangents of another shape", lambda: func.jvp(cr.sin, (X,), (cr.ones(3),)), (ValueError, RuntimeError), "tangent"),
    ("tangents of another dtype", lambda: func.jvp(cr.sin, (X,), (X.double(),)), (ValueError, RuntimeError), "tangent"),
    ("primals that are no tuple", lambda: func.jvp(cr.sin, X, X), RuntimeError, "tuples"),
    ("cotangents of another form", lambda: func.vjp(lambda a: (a, a), X)[1](X), RuntimeError, "structure"),
    ("more levels than there are", lambda: deep(20)(cr.ones((1,) * 7)), (RuntimeError, ValueError), "axis|levels|dim"),
]  # fmt: skip


def deep(n: int) -> Callable[..., Any]:
    return func.grad(deep(n - 1)) if n % 2 else (lambda a: func.jvp(deep(n - 1), (a,), (a,))[1]) if n else (
        lambda a: a.sum())  # fmt: skip


@pytest.mark.parametrize("name,wrong,kind,text", WRONG, ids=[w[0] for w in WRONG])
def test_wrong_use(name: str, wrong: Callable[[], Any], kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        wrong()
    assert cr._core._transform_depth() == 0
    assert func.vmap(lambda a: a.sum())(X).tolist() == [4.0] * 3


def test_repr() -> None:
    seen: list[str] = []
    func.vmap(lambda a: seen.append(repr(a)) or a)(X)
    func.jvp(lambda a: seen.append(repr(a)) or a, (X,), (X,))
    assert all(text.startswith("tensor(..., level=") for text in seen) and "size=(4,)" in seen[0]


def test_other_threads() -> None:
    """A tensor of one thread's vmap is refused in another, and two threads transform at the same time."""
    found: list[Any] = []

    def inside(a: cr.Tensor) -> cr.Tensor:
        def use() -> None:
            try:
                a.sum()
            except RuntimeError as e:
                found.append(str(e))
            found.append(func.vmap(lambda b: b.sum())(X).tolist())

        t = threading.Thread(target=use)
        t.start()
        t.join()
        return a.sum()

    assert func.vmap(inside)(X).tolist() == [4.0] * 3
    assert "another thread" in found[0] and found[1] == [4.0] * 3


def test_modules() -> None:
    """An ensemble by stack_module_state, and per-sample gradients of a CNN, against each model and sample."""
    models = [nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 2)) for _ in range(3)]
    params, buffers = func.stack_module_state(models)
    x = cr.randn(4, 5)
    y = func.vmap(lambda p, b, x: func.functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(
        params, buffers, x
    )
    assert cr.allclose(y, cr.stack([m(x) for m in models]), 1e-5, 1e-6)
    assert all(p.requires_grad and p.is_leaf for p in params.values())
    net = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.GroupNorm(3, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 4)
    )
    images, labels = cr.randn(5, 2, 4, 4), cr.randint(0, 4, (5,))
    named = {k: p.detach() for k, p in net.named_parameters()}

    def loss(p: Any, image: cr.Tensor, label: cr.Tensor) -> cr.Tensor:
        return F.cross_entropy(func.functional_call(net, p, (image[None],)), label[None])

    grads = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(named, images, labels)
    for i in range(5):
        net.zero_grad()
        F.cross_entropy(net(images[i : i + 1]), labels[i : i + 1]).backward()
        for name, p in net.named_parameters():
            assert p.grad is not None and cr.allclose(grads[name][i], p.grad, 1e-4, 1e-5), name
    with pytest.raises(RuntimeError, match="same class"):
        func.stack_module_state([models[0], nn.Linear(5, 2)])


def test_compiled() -> None:
    """cr.compile of a transformed function gives the bits of eager calls."""
    w, x, y = cr.randn(4, 3), cr.randn(8, 3), cr.randint(0, 4, (8,))
    transformed = {
        "per sample": lambda x: func.vmap(func.grad(lambda w, x, y: F.cross_entropy(cr.tanh(w @ x)[None], y[None])),
                                          in_dims=(None, 0, 0))(w, x, y),
        "jvp": lambda x: func.jvp(lambda a: cr.softmax(a @ w.T, -1), (x,), (x.cos(),))[1],
        "hessian": lambda x: func.hessian(lambda a: (a.sin() * a.sum()).sum())(x[0]),
        "jacrev": lambda x: func.jacrev(lambda a: cr.softmax(a, -1))(x[1]),
    }  # fmt: skip
    for name, f in transformed.items():
        compiled = cr.compile(f)
        for k in range(4):
            assert cr.equal(compiled(x + k), f(x + k)), (name, k)


FAST = ["tanh", "sigmoid", "gelu", "silu", "gelu tanh"]  # rows of ops.def with a second gradient, for f32 and below


@pytest.mark.parametrize("name", FAST)
def test_forward_mode_has_the_bits_of_the_backward_pass(name: str) -> None:
    given: dict[str, Any] = {"gelu": F.gelu, "silu": F.silu, "gelu tanh": lambda x: F.gelu(x, approximate="tanh")}
    f = given.get(name) or getattr(cr, name)
    x = cr.linspace(-9, 9, 4001)
    pushed = func.jvp(f, (x,), (cr.ones_like(x),))[1]
    assert cr.equal(pushed, func.grad(lambda x: f(x).sum())(x))
    mapped = func.vmap(lambda x: func.jvp(f, (x,), (cr.ones_like(x),))[1])(x)
    assert cr.equal(mapped, pushed)
    wide = func.jvp(f, (x.double(),), (cr.ones_like(x.double()),))[1]
    assert float((pushed - wide).abs().max()) < 1e-6
    further = func.jvp(lambda x: func.jvp(f, (x,), (cr.ones_like(x),))[1], (x,), (cr.ones_like(x),))[1]
    exact = func.grad(lambda x: func.grad(lambda x: f(x).sum())(x).sum())(x.double())
    assert float((further - exact).abs().max()) < 1e-5


def test_linearize() -> None:
    """The function runs once; what is made of its record can be mapped and differentiated."""
    runs = []

    def f(x: Any, y: Any) -> Any:
        runs.append(x)
        square = x @ x.mT
        return {"a": square.sin() * y, "b": cr.linalg.solve(square + 1.5, y.expand(3, 3)), "c": cr.ones(2)}

    x, y = cr.randn(3, 3, dtype=cr.float64), cr.randn((), dtype=cr.float64)
    output, push = func.linearize(f, x, y)
    assert len(runs) == 1
    many = cr.randn(4, 3, 3, dtype=cr.float64), cr.randn(4, dtype=cr.float64)
    mapped = func.vmap(push)(*many)
    found = [push(t, u) for t, u in zip(*many, strict=True)]
    assert len(runs) == 1
    for i, (t, u) in enumerate(zip(*many, strict=True)):
        value, tangent = func.jvp(f, (x, y), (t, u))
        for key in "abc":
            assert cr.equal(output[key], value[key])
            assert cr.allclose(found[i][key], tangent[key], 1e-12, 1e-12)
            assert cr.allclose(mapped[key][i], tangent[key], 1e-12, 1e-12)
    pair = func.jvp(lambda *t: push(*t)["a"], (x, y), (many[0][0], many[1][0]))
    assert cr.allclose(pair[0], push(x, y)["a"]) and cr.allclose(pair[1], found[0]["a"], 1e-12, 1e-12)
    along = [lambda x: func.linearize(f, x, y)[1](x, y)["b"], lambda x: func.jvp(f, (x, y), (x, y))[1]["b"]]
    for outer in (lambda g: func.grad(lambda x: g(x).sum())(x), lambda g: func.jvp(g, (x,), (x,))[1]):
        assert cr.allclose(outer(along[0]), outer(along[1]), 1e-10, 1e-10)
    with pytest.raises(RuntimeError, match="linearize: .* the same argument pytree structure"):
        push(x)
    with pytest.raises(RuntimeError, match=r"tangent 1 is chainrule.float64 \(3, 3\), the primal"):
        push(x, x)


def functions() -> tuple[Any, Any]:
    """x^k y and 2 y by hand, with a generated rule for vmap and with one of its own; both know forward mode."""

    class Generated(cr.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, y: Any, k: int) -> Any:
            return x**k * y, y * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            x, y, ctx.k = inputs
            ctx.save_for_backward(x, y)
            ctx.save_for_forward(x, y)

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * y * ctx.k * x ** (ctx.k - 1), g * x**ctx.k + 2 * h, None

        @staticmethod
        def jvp(ctx: Any, tx: Any, ty: Any, _: Any) -> Any:
            x, y = ctx.saved_tensors
            return tx * y * ctx.k * x ** (ctx.k - 1) + ty * x**ctx.k, ty * 2

    class Own(Generated):
        generate_vmap_rule = False

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any, y: Any, k: int) -> Any:
            x = x.movedim(in_dims[0], 0) if in_dims[0] is not None else x.expand(info.batch_size, *x.shape)
            y = y.movedim(in_dims[1], 0) if in_dims[1] is not None else y.expand(info.batch_size, *y.shape)
            return Own.apply(x, y, k), (0, 0)

    return Generated, Own


@pytest.mark.parametrize("which", range(2), ids=["generated", "own"])
def test_custom_functions(which: int) -> None:
    """Against the same written with ops: PyTorch's generated rule gives other gradients for what samples share."""
    x, y = cr.randn(4, 3, dtype=cr.float64), cr.randn(3, dtype=cr.float64)

    def found(f: Any, forward: Any, x: Any, y: Any) -> list[Any]:
        def both(a: Any, b: Any) -> Any:
            u, v = forward(a, b)
            return (u * u).sum() + (v * a).sum()

        return [
            f.vmap(forward, (0, None))(x, y),
            f.vmap(forward, (None, 1))(y, x.T.clone()),
            f.grad(both, (0, 1))(x[0], y),
            f.vmap(f.grad(both, (0, 1)), (0, None))(x, y),
            f.grad(lambda b: f.vmap(both, (0, None))(x, b).sum())(y),
            f.vmap(f.vmap(both, (0, None)), (None, 0))(x, x),
            f.jvp(both, (x[0], y), (x[1], x[2])),
            f.vmap(lambda a: f.jvp(lambda a: both(a, y), (a,), (a * a,)))(x),
            f.jacrev(both)(x[0], y),
            f.jvp(lambda a: f.vmap(both, (0, None))(a, y), (x,), (x.cos(),)),
            f.hessian(both)(x[0], y),
        ]

    apply = functions()[which].apply
    plain = lambda a, b: (a**3 * b, b * 2)  # noqa: E731
    same(found(func, lambda a, b: apply(a, b, 3), x, y), found(theirs, plain, T(x), T(y)))


def test_custom_functions_refused() -> None:
    class Bare(cr.autograd.Function):
        @staticmethod
        def forward(x: cr.Tensor) -> cr.Tensor:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

    class Old(cr.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: cr.Tensor) -> cr.Tensor:
            return x * 2

    x = cr.ones(3)
    with pytest.raises(RuntimeError, match="does not have vmap support"):
        func.vmap(Bare.apply)(x)
    with pytest.raises(RuntimeError, match="no jvp"):
        func.jvp(Bare.apply, (x,), (x,))
    with pytest.raises(RuntimeError, match="setup_context"):
        func.vmap(Old.apply)(x)


def test_cotangents_of_inner_transforms() -> None:
    """A gradient's function that is called inside further transforms."""
    x, v, t = (cr.randn(3, 4, dtype=cr.float64) for _ in range(3))

    def found(f: Any, lib: Any, x: Any, v: Any, t: Any) -> list[Any]:
        def inner(x: Any, v: Any, t: Any) -> Any:
            back = f.vjp(lines(lib), x)[1]
            return f.jvp(lambda v: back(v)[0].sin(), (v,), (t,))[1], f.vmap(lambda k: back(k * v)[0])(t)

        back = f.vjp(f.vmap(lines(lib)), x)[1]
        return [
            *f.vmap(inner)(x, v, t),
            f.jvp(lambda v: f.vmap(lambda k: back(k * v)[0])(t[:, 0]), (v,), (t,))[1],
            f.jvp(lambda x: f.vmap(lambda k: f.vjp(lines(lib), x)[1](k * v[0])[0])(t[:, 0]), (x[0],), (t[0],))[1],
        ]

    same(found(func, cr, x, v, t), found(theirs, torch, T(x), T(v), T(t)))


def absolute(factors: Any) -> tuple[cr.Tensor, ...]:
    """The signs of vectors are anything."""
    return tuple(x.abs() for x in factors)


SYMMETRIC = lambda a: a @ a.mT + 3 * cr.eye(a.shape[-1], dtype=a.dtype)  # noqa: E731
MATRICES: dict[str, Callable[[cr.Tensor], Any]] = {
    "cholesky": lambda a: cr.linalg.cholesky(SYMMETRIC(a)),
    "eigh": lambda a: absolute(cr.linalg.eigh(SYMMETRIC(a))),
    "svd": lambda a: absolute(cr.linalg.svd(a, full_matrices=False)),
    "svd of tall": lambda a: absolute(cr.linalg.svd(a[:, :2], full_matrices=False)),
    "qr": lambda a: tuple(cr.linalg.qr(a)),
    "qr of tall": lambda a: tuple(cr.linalg.qr(a[:, :2])),
    "lu": lambda a: cr.linalg.lu_factor(a)[0],
    "lu of tall": lambda a: cr.linalg.lu_factor(a[:, :2])[0],
    "lu of wide": lambda a: cr.linalg.lu_factor(a[:2])[0],
    "solve": lambda a: cr.linalg.solve(SYMMETRIC(a), a),
    "triangular": lambda a: cr.linalg.solve_triangular(SYMMETRIC(a), a, upper=True),
    "unit triangular": lambda a: cr.linalg.solve_triangular(a, a.mT, upper=False, unitriangular=True),
    "inv": lambda a: cr.linalg.inv(SYMMETRIC(a)),
    "det": lambda a: cr.linalg.det(a),
    "slogdet": lambda a: cr.linalg.slogdet(a)[1],
    "matrix_norm": lambda a: cr.linalg.matrix_norm(a),
    "matrix_power": lambda a: cr.linalg.matrix_power(a, 3),
    "pinv": lambda a: cr.linalg.pinv(a[:, :2]),
}


def both_ways(f: Callable[..., Any], x: cr.Tensor, tolerance: float = 1e-8) -> None:
    """vmap against a loop along two axes, and forward mode and mapped gradients against reverse mode."""
    flat = lambda a: tuple(y) if isinstance(y := f(a), tuple) else (y,)  # noqa: E731
    loop = [cr.stack(ys) for ys in zip(*map(flat, x), strict=True)]
    for dim in (0, 1):
        found = func.vmap(flat, in_dims=dim)(x.movedim(0, dim).contiguous())
        for a, b in zip(found, loop, strict=True):
            assert cr.allclose(a, b, tolerance, tolerance)
    t = cr.randn(*x.shape, dtype=x.dtype)
    for a, b in zip(x, t, strict=True):
        ys, pushed = func.jvp(flat, (a,), (b,))
        cotangents = tuple(cr.randn(*y.shape, dtype=y.dtype) for y in ys)
        (pulled,) = func.vjp(flat, a)[1](cotangents)
        forward = sum(float((p * c).sum()) for p, c in zip(pushed, cotangents, strict=True))
        assert abs(forward - float((pulled * b).sum())) < 1e-6 * (1 + abs(forward))
    total = lambda a: sum((y * y).sum() for y in flat(a))  # noqa: E731
    assert cr.allclose(func.vmap(func.grad(total))(x), cr.stack([func.grad(total)(a) for a in x]), 1e-7, 1e-7)


@pytest.mark.parametrize("name", MATRICES)
def test_linear_algebra(name: str) -> None:
    both_ways(MATRICES[name], cr.randn(3, 4, 4, dtype=cr.float64))


LAYERS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(4, 3), (5, 4)),
    "lstm": (lambda: nn.LSTM(4, 3, num_layers=2, bidirectional=True), (5, 2, 4)),
    "gru": (lambda: nn.GRU(4, 3, batch_first=True), (2, 5, 4)),
    "rnn": (lambda: nn.RNN(4, 3), (5, 2, 4)),
    "attention": (lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), (2, 5, 4)),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), (2, 4, 7)),
    "conv2d": (lambda: nn.Conv2d(2, 3, (3, 2), dilation=(2, 1)), (2, 2, 7, 5)),
    "conv transposed": (lambda: nn.ConvTranspose2d(2, 4, 3, stride=2, groups=2, output_padding=1), (2, 2, 4, 3)),
    "unbatched conv": (lambda: nn.Conv2d(2, 3, 3), (2, 5, 5)),
    "batch norm": (lambda: nn.BatchNorm2d(3, track_running_stats=False), (4, 3, 2, 2)),
    "batch norm in use": (lambda: nn.BatchNorm1d(3).eval(), (4, 3)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (2, 4, 3, 3)),
    "layer norm": (lambda: nn.LayerNorm((3, 4)), (2, 3, 4)),
    "rms norm": (lambda: nn.RMSNorm(4), (2, 3, 4)),
    "max pool": (lambda: nn.MaxPool2d(2, padding=1), (2, 3, 5, 5)),
    "avg pool": (lambda: nn.AdaptiveAvgPool2d(2), (2, 3, 5, 5)),
    "upsampling": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (2, 3, 4, 4)),
}


def drawn(make: Callable[[], Any]) -> Any:
    """A layer whose weights are not zeros or ones."""
    layer = make().double()
    with cr.no_grad():
        for p in layer.parameters():
            p.normal_(std=0.7)
    return layer


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    """Layers with one set of weights for all samples, and with weights of their own for each."""
    make, shape = LAYERS[name]
    layer = drawn(make)
    first = lambda y: y[0] if isinstance(y, tuple) else y  # noqa: E731
    x = cr.randn(3, *shape, dtype=cr.float64)
    both_ways(lambda a: first(layer(a)), x)
    models = [drawn(make) for _ in range(3)]
    params, buffers = func.stack_module_state(models)
    params = {k: p.detach() for k, p in params.items()}
    call = lambda p, b, a: first(func.functional_call(models[0], (p, b), (a,)))  # noqa: E731
    each = func.vmap(call)(params, buffers, x)
    assert cr.allclose(each, cr.stack([first(m(a)) for m, a in zip(models, x, strict=True)]), 1e-9, 1e-9)
    if not params:
        return
    grads = func.vmap(func.grad(lambda p, b, a: call(p, b, a).square().sum()))(params, buffers, x)
    for i, m in enumerate(models):
        first(m(x[i])).square().sum().backward()
        for k, p in m.named_parameters():
            assert cr.allclose(grads[k][i], p.grad, 1e-7, 1e-7), k
    tangents = {k: cr.randn(*p.shape[1:], dtype=cr.float64) for k, p in params.items()}
    one = {k: p[0] for k, p in params.items()}
    of = lambda p: call(p, {k: b[0] for k, b in buffers.items()}, x[0])  # noqa: E731
    y, t = func.jvp(of, (one,), (tangents,))
    v = cr.randn(*y.shape, dtype=cr.float64)
    (pulled,) = func.vjp(of, one)[1](v)
    reverse = sum(float((pulled[k] * tangents[k]).sum()) for k in pulled)
    assert abs(float((t * v).sum()) - reverse) < 1e-7 * (1 + abs(reverse))


def test_padding() -> None:
    """The number around a padded tensor is a constant."""
    x, t = cr.randn(2, 3, dtype=cr.float64), cr.randn(2, 3, dtype=cr.float64)
    assert cr.equal(func.jvp(lambda a: F.pad(a, (1, 2), value=3.0), (x,), (t,))[1], F.pad(t, (1, 2)))
    padded = func.vmap(lambda a: F.pad(a, (1, 2), value=3.0))(x)
    assert cr.equal(padded, F.pad(x, (1, 2), value=3.0))


STEPS: list[Callable[[Any, Any], Any]] = [
    lambda lib, a: lib.sin(a) @ a.T,
    lambda lib, a: a * a.sum(0, keepdim=True),
    lambda lib, a: lib.softmax(a, 1) + a[:1],
    lambda lib, a: lib.cumsum(a, 0).flip(1),
    lambda lib, a: lib.where(a > 0, a * a, -a),
    lambda lib, a: lib.cat([a[1:], lib.tanh(a[:1])], 0),
    lambda lib, a: a.T.contiguous().reshape(a.shape),
    lambda lib, a: lib.logsumexp(a, 1)[:, None] * lib.exp(-a * a),
    lambda lib, a: a.index_select(0, lib.tensor([2, 0, 1, 0])[: a.shape[0]]),
    lambda lib, a: (a - a.mean(1, keepdim=True)) / (1 + a.var(1, keepdim=True)),
    lambda lib, a: lib.stack([a.amax(0), *a[1:]]),
]


@given(
    st.lists(st.integers(0, len(STEPS) - 1), min_size=1, max_size=4),
    st.lists(st.sampled_from(["grad", "jvp", "vmap", "vjp", "jacrev"]), min_size=1, max_size=3),
    st.integers(0, 2),
    st.integers(0, 2**20),
)
def test_drawn_programs(steps: list[int], names: list[str], dim: int, seed: int) -> None:
    """Programs of a few steps on a square matrix, under transforms in each other, mapped along each axis."""
    cr.manual_seed(seed)
    x = cr.randn(3, 3, 3, dtype=cr.float64)

    def found(f: Any, lib: Any, x: Any) -> Any:
        def program(a: Any) -> Any:
            for k in steps:
                a = STEPS[k](lib, a)
            return a

        transforms: dict[str, Callable[[Any], Any]] = {
            "grad": lambda g: f.grad(lambda a: (g(a) * g(a)).mean()),
            "jvp": lambda g: lambda a: f.jvp(g, (a,), (a.T.cos(),))[1],
            "vjp": lambda g: lambda a: (lambda y, back: back(y.cos())[0])(*f.vjp(g, a)),
            "vmap": lambda g: lambda a: f.vmap(lambda row: g(a * row))(a).sum(0),
            "jacrev": lambda g: lambda a: f.jacrev(g)(a).sum((0, 1)),
        }
        g: Any = program
        for name in names:
            g = transforms[name](g)
        return f.vmap(g, dim)(x)

    same(found(func, cr, x), found(theirs, torch, T(x)), 1e-7)
