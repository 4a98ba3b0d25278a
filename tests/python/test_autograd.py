"""Gradients from Python: backward and grad with their options, hooks, functions, modes, checks."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import chainrule as cr
import pytest
from chainrule import autograd


def leaf(*values: float, dtype: cr.dtype = cr.float64) -> cr.Tensor:
    return cr.tensor(list(values), dtype=dtype, requires_grad=True)


def gradient(x: cr.Tensor) -> Any:
    assert x.grad is not None
    return x.grad.tolist()


class Cube(autograd.Function):
    """Two results, one of them with an argument that is no tensor; backward is differentiable itself."""

    @staticmethod
    def forward(ctx: Any, x: cr.Tensor, n: int) -> tuple[cr.Tensor, cr.Tensor]:
        ctx.save_for_backward(x)
        ctx.n = n
        return x * x * x * n, x + 1

    @staticmethod
    def backward(ctx: Any, g: cr.Tensor, h: cr.Tensor) -> tuple[cr.Tensor, None]:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g * ctx.n + h, None


# ---- the walk ----


def test_backward_adds_and_grad_is_one_object() -> None:
    x = leaf(2.0, 3.0)
    (x * x).sum().backward()
    assert x.grad is not None and x.grad is x.grad and x.grad.tolist() == [4.0, 6.0]
    (x * x).sum().backward()
    assert x.grad.tolist() == [8.0, 12.0]
    x.grad = None
    assert x.grad is None


def test_backward_options() -> None:
    x, z = leaf(2.0), leaf(5.0)
    y = x * x * z
    y.backward(inputs=[z], retain_graph=True)
    assert x.grad is None and z.grad is not None and z.grad.tolist() == [4.0]
    y.backward(cr.tensor([10.0], dtype=cr.float64))
    assert x.grad is not None and x.grad.tolist() == [200.0]
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.backward()
    with pytest.raises(RuntimeError, match="needs `gradient`"):
        (leaf(1.0, 2.0) * 2).backward()
    with pytest.raises(RuntimeError, match="does not depend"):
        cr.ones(1).backward()
    with pytest.raises(RuntimeError, match="empty"):
        (x * 2).backward(inputs=[])


def test_grad() -> None:
    x, unused = leaf(2.0, 3.0), leaf(1.0)
    (g,) = autograd.grad((x**3).sum(), x, create_graph=True)
    assert g is not None and g.tolist() == [12.0, 27.0] and x.grad is None
    (h,) = autograd.grad(g.sum(), [x])
    assert h is not None and h.tolist() == [12.0, 18.0]
    with pytest.raises(RuntimeError, match="allow_unused"):
        autograd.grad((x * 2).sum(), [x, unused])
    assert autograd.grad((x * 2).sum(), [x, unused], allow_unused=True)[1] is None
    zeros = autograd.grad((x * 2).sum(), [x, unused], materialize_grads=True)[1]
    assert zeros is not None and zeros.tolist() == [0.0]
    (two,) = autograd.grad([x * 2, x * 3], x, [cr.ones(2, dtype=cr.float64)] * 2)
    assert two is not None and two.tolist() == [5.0, 5.0]
    with pytest.raises(RuntimeError, match="does not require grad"):
        autograd.grad(x.sum(), cr.ones(2))
    with pytest.raises(ValueError):
        autograd.grad(x.sum(), x, allow_unused=False, materialize_grads=True)


def test_backward_of_several() -> None:
    x = leaf(2.0, 3.0)
    autograd.backward([(x * 2).sum(), x * x], [None, cr.tensor([1.0, 10.0], dtype=cr.float64)])
    assert x.grad is not None and x.grad.tolist() == [6.0, 62.0]


def test_overwritten_is_an_error_that_names_the_op() -> None:
    x = leaf(1.0)
    y = x.exp()
    z = y * y
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="mul"):
        z.backward()


def test_detach_() -> None:
    x = leaf(2.0)
    y = x * 2
    assert y.detach_() is y and not y.requires_grad and y.is_leaf


# ---- hooks ----


def test_hook_sees_and_replaces() -> None:
    x = leaf(1.0, 2.0)
    seen: list[Any] = []
    handle = x.register_hook(lambda g: seen.append(g.tolist()))
    y = x * 3
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert seen == [[30.0, 30.0]] and x.grad is not None and x.grad.tolist() == [30.0, 30.0]
    handle.remove()
    handle.remove()
    (x * 3).sum().backward()
    assert len(seen) == 1


def test_hook_errors_arrive() -> None:
    x = leaf(1.0)
    broken: Any = lambda g: 1 // 0
    handle = x.register_hook(broken)
    with pytest.raises(ZeroDivisionError):
        (x * 2).backward()
    handle.remove()
    wrong: Any = lambda g: "no"
    handle = x.register_hook(wrong)
    with pytest.raises(TypeError, match="a hook must return"):
        (x * 2).backward()
    handle.remove()
    with pytest.raises(TypeError, match="callable"):
        x.register_hook(wrong(0))
    (x * 2).backward()


def test_hook_behind_the_accumulation() -> None:
    """The optimizer inside the backward pass: the hook gets the very parameter, whose gradient is complete."""
    w, b = leaf(1.0, 2.0), leaf(3.0)
    seen: list[Any] = []

    def update(p: cr.Tensor) -> None:
        assert p is w or p is b
        assert p.grad is not None
        seen.append(p.grad.tolist())
        with cr.no_grad():
            p.sub_(p.grad * 0.5)
        p.grad = None

    handles = [p.register_post_accumulate_grad_hook(update) for p in (w, b)]
    (w * 2 + w + b).sum().backward()
    assert sorted(seen) == [[2.0], [3.0, 3.0]] and w.grad is None and b.grad is None
    assert w.tolist() == [-0.5, 0.5] and b.tolist() == [2.0]
    handles[0].remove()
    (w + b).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [1.0, 1.0] and b.grad is None
    (found,) = cr.autograd.grad((w + b).sum(), b)
    assert found.tolist() == [2.0] and len(seen) == 3  # a gradient that is returned is added to nothing


def test_hook_behind_the_accumulation_refused() -> None:
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="not a leaf"):
        (x * 2).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="does not require a gradient"):
        cr.ones(2).register_post_accumulate_grad_hook(print)
    wrong: Any = 3
    with pytest.raises(TypeError, match="callable"):
        x.register_post_accumulate_grad_hook(wrong)
    result: Any = lambda p: p
    handle = x.register_post_accumulate_grad_hook(result)
    with pytest.raises(TypeError, match="must return None, not Tensor"):
        (x * 2).backward()
    handle.remove()
    broken: Any = lambda p: 1 // 0
    x.register_post_accumulate_grad_hook(broken)
    with pytest.raises(ZeroDivisionError):
        (x * 2).backward()


def test_a_handle_outlives_its_hook() -> None:
    x = leaf(1.0)
    handle = x.register_hook(lambda g: g)
    x.requires_grad_(False)
    handle.remove()  # there is nothing to remove, and nothing to say about it
    with pytest.raises(RuntimeError, match=r"^\[matmul\]"):
        cr.ones(2, 3) @ cr.ones(2, 3)


def test_hooks_and_functions_are_given_back() -> None:
    class Thing:
        def __call__(self, g: cr.Tensor) -> None:
            return None

    x = leaf(1.0)
    on_result, on_leaf = Thing(), Thing()
    gone = weakref.ref(on_result), weakref.ref(on_leaf)
    y = x * 2
    y.register_hook(on_result)
    handle = x.register_hook(on_leaf)
    del on_result, on_leaf, y
    gc.collect()
    assert gone[0]() is None and gone[1]() is not None
    handle.remove()
    assert gone[1]() is None


# ---- functions ----


def test_function() -> None:
    x = leaf(2.0, 3.0)
    y, z = Cube.apply(x, 2)
    assert y.requires_grad and y.grad_fn is not None and y.grad_fn.name() == "CubeBackward"
    (y.sum() + 100 * z.sum()).backward()
    assert x.grad is not None and x.grad.tolist() == [124.0, 154.0]
    x.grad = None
    Cube.apply(x, 1)[1].sum().backward()
    assert gradient(x) == [1.0, 1.0]
    with cr.no_grad():
        assert not Cube.apply(x, 1)[0].requires_grad
    assert autograd.gradcheck(lambda t: Cube.apply(t, 2), x) and autograd.gradgradcheck(
        lambda t: Cube.apply(t, 2)[0], x
    )


def test_function_with_context_apart() -> None:
    class Scale(autograd.Function):
        @staticmethod
        def forward(x: cr.Tensor, by: float) -> cr.Tensor:
            return x * by

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.by = inputs[1]

        @staticmethod
        def backward(ctx: Any, g: cr.Tensor) -> tuple[cr.Tensor, None]:
            assert ctx.needs_input_grad == (True, False)
            return g * float(ctx.by), None

    x = leaf(1.0)
    Scale.apply(x, 7.0).backward()
    assert x.grad is not None and x.grad.tolist() == [7.0]


def test_function_results_without_gradient() -> None:
    class Split(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: cr.Tensor) -> tuple[cr.Tensor, cr.Tensor, str]:
            sign = x.sign()
            ctx.mark_non_differentiable(sign)
            ctx.set_materialize_grads(False)
            return x.abs(), sign, "text"

        @staticmethod
        def backward(ctx: Any, g: cr.Tensor | None, *others: Any) -> cr.Tensor | None:
            assert others == (None, None)
            return g

    x = leaf(-2.0)
    a, s, t = Split.apply(x)
    assert a.requires_grad and not s.requires_grad and t == "text"
    a.backward()


@pytest.mark.parametrize(
    ("answer", "error", "match"),
    [
        (lambda g: 1 // 0, ZeroDivisionError, "by zero"),
        (lambda g: (g, g), RuntimeError, "incorrect number of gradients"),
        (lambda g: "no", TypeError, "backward must return"),
        (lambda g: cr.ones(3), (RuntimeError, ValueError), "its gradient of input 0"),
    ],
)
def test_function_errors(answer: Any, error: Any, match: str) -> None:
    class Bad(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: cr.Tensor) -> cr.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: cr.Tensor) -> Any:
            return answer(g)

    with pytest.raises(error, match=match):
        Bad.apply(leaf(1.0, 2.0)).sum().backward()
    with pytest.raises(NotImplementedError):
        autograd.Function.apply(leaf(1.0))


def test_a_walk_that_failed_leaves_no_gradients_with_a_function() -> None:
    class Both(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: cr.Tensor) -> tuple[cr.Tensor, cr.Tensor]:
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, *grads: cr.Tensor) -> cr.Tensor:
            return 2 * grads[0] + 3 * grads[1]

    x = leaf(1.0)
    y, z = Both.apply(x)
    broken: Any = lambda g: 1 // 0
    handle = y.register_hook(broken)  # of the two results it comes last: the other's gradient has arrived
    total = (y + z).sum()
    with pytest.raises(ZeroDivisionError):
        total.backward(retain_graph=True)
    handle.remove()
    total.backward()
    assert x.grad is not None and x.grad.tolist() == [5]


def test_function_keeps_no_cycle() -> None:
    """A result that is saved is kept by the graph, not by the context: nothing waits for the collector."""

    class Exp(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: cr.Tensor) -> cr.Tensor:
            y = x.exp()
            ctx.save_for_backward(y)
            ctx.note = Note()
            notes.append(weakref.ref(ctx.note))
            return y

        @staticmethod
        def backward(ctx: Any, g: cr.Tensor) -> cr.Tensor:
            (y,) = ctx.saved_tensors
            return g.mul(y)

    class Note:
        pass

    notes: list[weakref.ref[Note]] = []
    x = leaf(0.0)
    gc.disable()
    try:
        y = Exp.apply(x)
        y.backward()
        del y
        assert notes[0]() is None
    finally:
        gc.enable()
    assert x.grad is not None and x.grad.tolist() == [1.0]


def test_grad_frees_the_graph() -> None:
    x = leaf(2.0)
    y = x.exp()
    autograd.grad(y, x, retain_graph=True)
    autograd.grad(y, x)
    with pytest.raises(RuntimeError, match="retain_graph"):
        autograd.grad(y, x)


# ---- modes ----


def test_inference_mode_off_records() -> None:
    """As PyTorch's, also within ``no_grad``; afterwards as before."""
    for outer in (cr.no_grad(), cr.enable_grad(), cr.inference_mode()):
        with outer:
            before = cr.is_grad_enabled()
            with cr.inference_mode(False):
                assert cr.is_grad_enabled()
            assert cr.is_grad_enabled() is before


def test_modes() -> None:
    x = leaf(1.0)

    @cr.no_grad
    def bare() -> bool:
        return (x * 2).requires_grad

    @cr.no_grad()
    def called() -> bool:
        with cr.enable_grad():
            assert (x * 2).requires_grad
        return (x * 2).requires_grad

    assert not bare() and not called() and cr.is_grad_enabled()
    with cr.inference_mode(), cr.set_grad_enabled(True):
        assert cr.is_grad_enabled()
    cr.set_grad_enabled(False)
    assert not cr.is_grad_enabled()
    with cr.set_grad_enabled(True):
        assert cr.is_grad_enabled()
    assert not cr.is_grad_enabled()
    cr.set_grad_enabled(True)
    with pytest.raises(KeyError), cr.no_grad():
        raise KeyError
    assert cr.is_grad_enabled()
    elsewhere: list[bool] = []
    with cr.no_grad():
        thread = threading.Thread(target=lambda: elsewhere.append(cr.is_grad_enabled()))
        thread.start()
        thread.join()
    assert elsewhere == [True]


def test_anomaly_names_op_and_line() -> None:
    x = leaf(0.0, 1.0)
    with autograd.detect_anomaly():
        y = x.sqrt()  # the line that is named
        with pytest.raises(RuntimeError, match=r"gradient of sqrt, made at .*test_autograd\.py:\d+"):
            (y * 0).sum().backward()
        with pytest.raises(RuntimeError, match=r"\[log\] anomaly"):
            leaf(-1.0).log()
    assert leaf(-1.0).log().isnan().item()


# ---- checks ----


def test_gradcheck_notices() -> None:
    class Wrong(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: cr.Tensor) -> cr.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: cr.Tensor) -> cr.Tensor:
            return g * 3

    x = leaf(0.3, -0.5)
    with pytest.raises(autograd.GradcheckError, match="central difference"):
        autograd.gradcheck(Wrong.apply, x)
    assert not autograd.gradcheck(Wrong.apply, x, raise_exception=False)
    assert autograd.gradcheck(lambda a, k, b: a * k + b, (x, 3.0, leaf(1.0, 2.0)))
    assert autograd.gradgradcheck(lambda a: a.exp() * a, x)
    with pytest.raises(ValueError, match="require gradient"):
        autograd.gradcheck(lambda a: a, cr.ones(2))
    with pytest.raises(KeyError):
        autograd.gradcheck(lambda a: vars()["x"], x)
    with pytest.raises(RuntimeError, match="inner dimensions"):
        autograd.gradcheck(lambda a: a @ cr.ones(3, 3, dtype=cr.float64), x)


# ---- nodes of the graph


def node_of(x: cr.Tensor) -> Any:
    assert x.grad_fn is not None
    return x.grad_fn


def names_below(node: Any) -> list[str]:
    """The names of the node and of its inputs, in depth-first order."""
    return [node.name()] + [
        name for following, _ in node.next_functions if following for name in names_below(following)
    ]


@pytest.mark.parametrize("device", ["cpu", "ref"])
def test_nodes_as_pytorch_has_them(device: str) -> None:
    def walked(lib: Any, **where: Any) -> list[str]:
        x = lib.ones(2, 3, requires_grad=True, **where)
        return names_below(((x * lib.ones(2, 3, **where)).exp().log_softmax(-1) + x).sum().grad_fn)

    found = walked(cr, device=device)
    assert found == [
        "SumBackward0",
        "AddBackward0",
        "LogSoftmaxBackward0",
        "ExpBackward0",
        "MulBackward0",
        "AccumulateGrad",
        "AccumulateGrad",
    ]
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make oracle)")
    assert [name.removeprefix("torch::autograd::") for name in walked(torch)] == found


@pytest.mark.parametrize("device", ["cpu", "ref"])
def test_nodes_are_objects_of_their_own(device: str) -> None:
    x = cr.ones(2, 3, requires_grad=True, device=device)
    h = x * 2
    y = h.sum()
    node = node_of(y)
    assert isinstance(y.grad_fn, cr.Node) and node_of(y) is node and node != h.grad_fn and {node: 1}[node] == 1
    assert repr(node).startswith("<SumBackward0 object at 0x") and node.shape == () and node.dtype is cr.float32
    assert x.grad_fn is None and (x * 2).detach().grad_fn is None and cr.ones(2).grad_fn is None
    leaf = node.next_functions[0][0].next_functions[0][0]
    assert (
        leaf.next_functions == ()
        and leaf.shape == (2, 3)
        and hasattr(leaf, "variable")
        and not hasattr(node, "variable")
    )
    y.backward()  # frees what was saved, but no node
    assert leaf.variable.grad.tolist() == x.grad.tolist() == [[2.0] * 3] * 2  # type: ignore[union-attr]
    del x, h, y
    gc.collect()
    assert node.next_functions[0][0].next_functions[0][0] is leaf and leaf.variable is None
    with pytest.raises(AttributeError, match="is not a leaf"):
        node.variable  # noqa: B018
    with pytest.raises(TypeError):
        type(node)()


@pytest.mark.parametrize("device", ["cpu", "ref"])
def test_nodes_of_functions_and_views(device: str) -> None:
    class MyPair(cr.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a * b, a + b

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads

    x, w = (cr.ones(3, requires_grad=True, device=device) for _ in "xw")
    for result in MyPair.apply(x, w):
        assert result.grad_fn.name() == "MyPairBackward" and "grad_fn=<MyPairBackward>" in repr(result)
        assert [n.variable.data_ptr() for n, _ in result.grad_fn.next_functions] == [x.data_ptr(), w.data_ptr()]
    y = x * 2
    before, view = y.grad_fn, y[1:]
    view.mul_(3)  # the graph of y is rewritten: it has another node
    assert y.grad_fn is not before and "MulBackward0" in names_below(y.grad_fn) and names_below(view.grad_fn)
    g: Any = cr.autograd.grad((x * x).sum(), x, create_graph=True)[0]
    assert "AccumulateGrad" in names_below(g.grad_fn)[1:]  # gradients have a graph as well


def test_a_node_frees_a_long_chain_without_recursion() -> None:
    y = cr.ones((), requires_grad=True)
    for _ in range(200_000):
        y = y * 1
    node = node_of(y)
    del y
    assert node.next_functions[0][0].name() == "MulBackward0"
    del node


def test_messages_name_the_argument() -> None:
    """Of backward() it is `gradient`, of grad() `grad_outputs`."""
    x = cr.randn(3, 4, requires_grad=True)
    y = x * 2
    calls: list[tuple[Any, str]] = [
        (y.backward, r"^\[backward\] a result of shape \(3, 4\) needs `gradient`: only one element has a default$"),
        (lambda: cr.autograd.backward([y]), "needs `gradient`"),
        (lambda: y.backward(cr.ones(2)), r"`gradient` is float32 \(2,\) on cpu, the result float32 \(3, 4\) on cpu$"),
        (lambda: cr.autograd.grad(y, x), r"a result of shape \(3, 4\) needs `grad_outputs`"),
        (lambda: cr.autograd.grad(y, x, cr.ones(2)), r"`grad_outputs` is float32 \(2,\)"),
    ]
    for call, message in calls:
        with pytest.raises(RuntimeError, match=message):
            call()
