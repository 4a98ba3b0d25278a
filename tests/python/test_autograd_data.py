"""Gradients and tensors that change: .data, versions, writes in place, retained gradients, functions
that save and write their inputs, modes on generators, checkpoints, deep copies."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections import namedtuple
from collections.abc import AsyncIterator, Iterator
from typing import Any

import chainrule as cr
import pytest
from chainrule import autograd, nn


class DropIn:
    """chainrule.torch, imported by the first test that uses it: it adds methods to Tensor."""

    def __getattr__(self, name: str) -> Any:
        import chainrule.torch

        return getattr(chainrule.torch, name)


torch: Any = DropIn()


def checkpoint(*args: Any, **kwargs: Any) -> Any:
    return torch.utils.checkpoint.checkpoint(*args, **kwargs)


def leaf(*values: float) -> cr.Tensor:
    return cr.tensor(list(values), dtype=cr.float64, requires_grad=True)


def accumulator(y: cr.Tensor) -> Any:
    """The node of the leaf that y was made of."""
    assert y.grad_fn is not None
    return y.grad_fn.next_functions[0][0]


def grads(y: cr.Tensor, *x: cr.Tensor, create_graph: bool = False, retain_graph: bool | None = None) -> Any:
    return autograd.grad(y, x, create_graph=create_graph, retain_graph=retain_graph)


def gradient(x: cr.Tensor) -> Any:
    assert x.grad is not None
    return x.grad.tolist()


# ---- other memory ----


@pytest.mark.parametrize("when", ["before the forward pass", "between the passes"])
def test_a_leaf_with_other_data_keeps_its_place(when: str) -> None:
    w, seen = leaf(1.0, 2.0), []
    w.register_hook(lambda g: g * 10)
    w.register_post_accumulate_grad_hook(lambda p: seen.append(p is w))
    if when.startswith("before"):
        w.data = cr.tensor([5.0, 6.0], dtype=cr.float64)
    y = w * w
    node = accumulator(y)
    if when.startswith("between"):
        w.data = w.data * 0 + 7
    y.sum().backward()
    assert gradient(w) == ([100.0, 120.0] if when.startswith("before") else [140.0, 140.0])  # 2 w 10
    assert seen == [True] and w.is_leaf and w._version == 0
    assert accumulator(w * w) is node


@pytest.mark.parametrize("how", ["double", "to", "type", "cpu", "bfloat16"])
def test_a_module_that_is_converted_keeps_hooks_and_gradients(how: str) -> None:
    m = nn.Linear(2, 2)
    with cr.no_grad():
        m.weight.fill_(1.0)
    params, mask, late = [*m.parameters()], cr.tensor([[1.0, 0.0], [0.0, 1.0]]), []
    m.weight.register_hook(lambda g: g * mask.to(g.dtype))
    m.weight.register_post_accumulate_grad_hook(lambda p: late.append(p is m.weight))
    y = m(cr.ones(1, 2)).sum()
    y.backward(retain_graph=True)
    grad = m.weight.grad
    assert grad is not None
    convert: Any = getattr(m, how)
    convert(*[cr.float64] if how in ("to", "type") else [])
    assert all(p is q for p, q in zip(params, m.parameters(), strict=True))
    assert m.weight.grad is grad and grad.dtype == m.weight.dtype and grad.tolist() == mask.tolist()
    y.backward()  # in the dtype of before
    m(cr.ones(1, 2, dtype=m.weight.dtype)).sum().backward()
    assert gradient(m.weight) == (3 * mask).tolist() and late == [True] * 3


@pytest.mark.parametrize("retain", [False, True])
def test_backward_reads_the_memory_that_a_leaf_has_then(retain: bool) -> None:
    """As PyTorch: a leaf itself is looked up, and a view or a copy of it was saved as it was."""
    w, x = leaf(2, 3), leaf(5, 7)
    y, turned, other = w * x, w[None].t() * x[:, None], w.exp() * x
    w.data = cr.tensor([11.0, 13.0], dtype=cr.float64)
    assert [g.tolist() for g in grads(y.sum(), w, x, retain_graph=retain)] == [[5, 7], [11, 13]]
    assert grads(turned.sum(), x, retain_graph=retain)[0].tolist() == [2, 3]
    assert grads(other.sum(), x)[0].tolist() == cr.tensor([2.0, 3.0], dtype=cr.float64).exp().tolist()
    if retain:  # what the leaf has now, in each pass, and in derivatives of derivatives
        w.data = cr.tensor([1.0, 4.0], dtype=cr.float64)
        assert grads(y.sum(), x, retain_graph=True)[0].tolist() == [1, 4]
        dw, dx = grads((y * y).sum(), w, x, create_graph=True)
        assert grads(dx.sum(), w)[0].requires_grad is False and dx.requires_grad
    w.data = cr.tensor([1.0, 2.0, 3.0], dtype=cr.float64)  # of another shape: what was saved
    z = w * cr.tensor([2.0, 2.0, 2.0], dtype=cr.float64)
    assert grads(z.sum(), w)[0].tolist() == [2, 2, 2]


def test_a_leaf_of_another_dtype_is_what_was_saved() -> None:
    w, x = leaf(2, 3), leaf(5, 7)
    y = (w * x).sum()
    w.data = w.data.float() * 2
    assert grads(y, x)[0].tolist() == [2, 3]


def test_data_of_a_gradient_is_its_tensors_gradient() -> None:
    w = leaf(1.0, 2.0)
    g = w.grad = cr.ones(2, dtype=cr.float64)
    assert w.grad is g
    g.data = g.data * 5
    assert w.grad is g and grads((w * 2).sum(), w)[0].tolist() == [2.0, 2.0]
    (w * 2).sum().backward()
    assert w.grad is g and g.tolist() == [7.0, 7.0]
    cr.optim.SGD([w], lr=1.0).step()
    assert w.tolist() == [-6.0, -5.0]


def test_a_leaf_that_is_frozen_for_a_while_keeps_hooks_and_gradient() -> None:
    w, late = leaf(1.0, 2.0), []
    handle = w.register_hook(lambda g: g * 10)
    w.register_post_accumulate_grad_hook(lambda p: late.append(p is w))
    for freeze in (lambda: w.requires_grad_(False), lambda: setattr(w, "requires_grad", False), w.detach_):
        w.grad = None
        (w * 2).sum().backward()
        freeze()
        assert not w.requires_grad and not (w * 2).requires_grad and gradient(w) == [20.0, 20.0]
        w.requires_grad_()
    assert late == [True] * 3
    w.requires_grad_(False)
    handle.remove()
    w.requires_grad_().sum().backward()
    assert gradient(w) == [21.0, 21.0]


def test_gradients_are_zeroed_in_place() -> None:
    m = nn.Linear(2, 1, bias=False)
    flat = cr.zeros(2)
    m.weight.grad = grad = flat.view(1, 2)
    for zero in (m.zero_grad, cr.optim.SGD(m.parameters(), lr=0.1).zero_grad):
        m(cr.ones(1, 2)).sum().backward()
        assert flat.tolist() == [1.0, 1.0]
        zero(set_to_none=False)
        assert m.weight.grad is grad and flat.tolist() == [0.0, 0.0]


def test_data_refused() -> None:
    w = leaf(1.0, 2.0)
    y = w * 2
    with pytest.raises(RuntimeError, match="of a result of mul"):
        y.data = cr.zeros(3, dtype=cr.float64)
    z = (w * 3).sum()
    w.data = cr.zeros(3, dtype=cr.float64)
    with pytest.raises(RuntimeError, match=r"used with shape \(2,\) and has shape \(3,\) now"):
        z.backward()
    y.data = cr.zeros(2, dtype=cr.float64)
    assert y.tolist() == [0.0, 0.0] and y.grad_fn is not None


def test_versions() -> None:
    w = leaf(1.0, 2.0)
    x = w * 1
    data, plain, view = x.data, x.detach(), x[:1]
    assert x._version == data._version == 0
    y = (x * x).sum()
    data.mul_(3)
    assert (x._version, data._version, x.data._version) == (0, 1, 0)
    y.backward(retain_graph=True)
    plain.add_(1)
    view.add_(1)
    assert x._version == plain._version == view._version == 2
    with pytest.raises(RuntimeError, match="modified in place"):
        y.backward()


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_cotangent_of_the_user_stays_apart(shape: tuple[int, ...]) -> None:
    w, g = leaf(1.0, 2.0, 3.0, 4.0), cr.ones(*shape, dtype=cr.float64)
    (w if len(shape) == 1 else w.view(2, 2)).backward(g)
    g.fill_(7)
    assert gradient(w) == [1.0] * 4


def test_leaf_that_is_frozen_between_the_passes() -> None:
    w, v = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = (w * v).sum()
    w.requires_grad_(False)
    y.backward()
    assert w.grad is None and gradient(v) == [1.0, 2.0]


def test_retained_gradient_behind_asked_ones() -> None:
    w = leaf(1.0, 2.0)
    h = w * 2
    h.retain_grad()
    assert grads((h * h).sum(), w)[0].tolist() == [8.0, 16.0]
    assert gradient(h) == [4.0, 8.0] and w.grad is None


def test_version_of_a_tensor_whose_data_is_replaced() -> None:
    x = cr.ones(2).add_(1)
    x.data = cr.zeros(3).add_(1).add_(1)
    assert x._version == 1
    x.add_(1)
    assert x._version == 2


def test_data_is_replaced_while_other_threads_read() -> None:
    """No thread sees half of the old tensor and half of the new one."""
    w, stop, wrong = cr.ones(300, 300, requires_grad=True), [False], []

    def read() -> None:
        while not stop[0]:
            total = float((w * 1).sum())
            if total not in (90000.0, 180000.0, 40000.0, 20000.0):
                wrong.append(total)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for t in threads:
        t.start()
    for i in range(300):
        w.data = cr.full((300, 300) if i % 2 else (200, 100), 1.0 + (i % 4 > 1))
    stop[0] = True
    for t in threads:
        t.join()
    assert not wrong


RESHAPES: dict[str, Any] = {
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "swapaxes_": lambda x: x.swapaxes_(0, 1),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "squeeze_": lambda x: x.squeeze_(0),
}


@pytest.mark.parametrize("how", RESHAPES)
def test_a_leaf_that_changes_its_shape(how: str) -> None:
    x, seen = cr.arange(6.0).reshape(1, 6).requires_grad_(), []
    x.register_hook(lambda g: seen.append(tuple(g.shape)))
    (x * 2).sum().backward()
    before = x.grad
    with cr.no_grad():
        RESHAPES[how](x)
    assert x.grad is before and x.is_leaf and x.requires_grad
    x.grad = None
    (x * x).sum().backward()
    assert gradient(x) == (2 * x).tolist() and seen == [(1, 6), tuple(x.shape)]
    w = leaf(3.0)
    y = w.reshape(1, 1) * cr.ones(1, 4, dtype=cr.float64)
    y.retain_grad()
    with cr.no_grad():
        RESHAPES[how](y)  # a result keeps its graph
    (y * y).sum().backward()
    assert gradient(w) == [24.0] and y.grad is not None and y.grad.shape == y.shape


@pytest.mark.parametrize(
    "same",
    [
        lambda x: x.contiguous(),
        lambda x: x.float(),
        lambda x: x.to("cpu"),
        lambda x: x.positive(),
        lambda x: cr.atleast_2d(x),
        lambda x: x.type_as(x),
    ],
)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_what_changes_nothing_is_the_tensor(same: Any, requires_grad: bool) -> None:
    x = cr.ones(2, 3, requires_grad=requires_grad)
    assert same(x) is x and x.t().contiguous() is not x


# ---- writes in place ----


CONSTANTS: dict[str, Any] = {
    "fill_": lambda y: y.fill_(3.0),
    "zero_": lambda y: y.zero_(),
    "copy_": lambda y: y.copy_(cr.ones(2)),
    "setitem": lambda y: y.__setitem__(..., 4.0),
    "uniform_": lambda y: y.uniform_(),
}


@pytest.mark.parametrize("write", CONSTANTS)
def test_the_gradient_behind_a_constant_is_zero(write: str) -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    CONSTANTS[write](y)
    y.sum().backward()
    assert gradient(x) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("write", "want"),
    [
        (lambda b: b.mul_(3), [30.0, 30.0]),
        (lambda b: b.__setitem__(0, 0.0), [0.0, 10.0]),
        (lambda b: b[1:].mul_(3), [10.0, 30.0]),
        (lambda b: nn.functional.relu(b, inplace=True), [10.0, 10.0]),
        (lambda b: b.unsqueeze_(0), [10.0, 10.0]),
    ],
)
def test_retained_gradients_follow_writes(write: Any, want: list[float]) -> None:
    a = leaf(1.0, 2.0)
    b = a * 2
    view = b.view(-1)
    b.retain_grad()
    view.retain_grad()
    assert b.retains_grad and not a.retains_grad
    write(b)
    assert b.retains_grad
    (b * 5).sum().backward()
    assert gradient(a) == want and b.grad is not None and set(b.grad.flatten().tolist()) == {5.0}
    assert view.retains_grad


def test_views_made_under_no_grad() -> None:
    a = leaf(1.0, 2.0, 3.0)
    x = a * 1
    with cr.no_grad():
        v = x[:2]
        v.mul_(2)
    for written in (v, v[:1]):
        with pytest.raises(RuntimeError, match="while the gradient mode was off"):
            written.mul_(2)
    assert not (v * 2).requires_grad
    x.mul_(2)
    with pytest.raises(RuntimeError, match="take it again"):
        _ = v * 2
    with cr.no_grad():
        assert (v * 1).tolist() == [4.0, 8.0]
    x.sum().backward()
    assert gradient(a) == [2.0, 2.0, 2.0]
    buffer = cr.zeros(2, 3)  # in no graph: as before
    with cr.no_grad():
        row = buffer[0]
    row.add_(1)
    assert buffer.tolist() == [[1.0] * 3, [0.0] * 3]


# ---- functions ----


class Keeps(autograd.Function):
    """x y, which keeps its inputs and its result."""

    seen: list[Any] = []

    @staticmethod
    def forward(ctx: Any, x: cr.Tensor, y: cr.Tensor) -> cr.Tensor:
        z = x * y
        ctx.save_for_backward(x, None, y, z)
        return z

    @staticmethod
    def backward(ctx: Any, g: cr.Tensor) -> tuple[cr.Tensor, cr.Tensor]:
        x, none, y, z = ctx.saved_tensors
        Keeps.seen.append((x, none, y, z.requires_grad, z.is_leaf))
        return g * y, g * x


def test_saved_tensors_are_what_was_saved() -> None:
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    x = a * 1
    Keeps.seen.clear()
    (g,) = grads((Keeps.apply(x, b) ** 2).sum(), a, create_graph=True)
    ((saved, none, y, requires_grad, is_leaf),) = Keeps.seen
    assert saved is x and none is None and y is b and requires_grad and not is_leaf
    (h,) = grads(g.sum(), b)
    assert g.tolist() == [18.0, 64.0] and h.tolist() == [12.0, 32.0]


def test_saved_tensors_in_a_graph_of_their_own() -> None:
    """As an adjoint solver has it: backward differentiates with respect to what it saved."""

    class Square(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: cr.Tensor, w: cr.Tensor) -> cr.Tensor:
            ctx.save_for_backward(x, w)
            return (x * w) ** 2

        @staticmethod
        def backward(ctx: Any, g: cr.Tensor) -> Any:
            x, w = ctx.saved_tensors
            with cr.enable_grad():
                return autograd.grad((x * w) ** 2, (x, w), g)

    a, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    Square.apply(a * 1, w).sum().backward()
    assert gradient(a) == [18.0, 64.0] and gradient(w) == [6.0, 32.0]


def test_saved_tensors_that_are_gone_or_written() -> None:
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    x = a * 1
    y = Keeps.apply(x, b).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time|freed"):
        y.backward()
    y = Keeps.apply(x, b).sum()
    x.add_(1)
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
        y.backward()
    with pytest.raises(TypeError, match="can only save variables"):
        torch.autograd.function.FunctionCtx().save_for_backward(3)


class Doubles(autograd.Function):
    """x, doubled in place."""

    @staticmethod
    def forward(ctx: Any, x: cr.Tensor, give: bool = True) -> cr.Tensor:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x if give else x * 1

    @staticmethod
    def backward(ctx: Any, g: cr.Tensor) -> tuple[cr.Tensor, None]:
        return g * 2, None


def test_functions_that_write_their_input() -> None:
    a = leaf(1.0, 2.0)
    b = a * 1
    assert Doubles.apply(b) is b and b.grad_fn is not None and b.grad_fn.name() == "DoublesBackward"
    Doubles.apply(b[1:])
    (b * b).sum().backward()
    assert gradient(a) == [8.0, 64.0]
    with pytest.raises(RuntimeError, match="a leaf that requires grad"):
        Doubles.apply(a)
    with pytest.raises(RuntimeError, match="were not returned"):
        Doubles.apply(a * 1, give=False)
    plain = cr.ones(2)
    assert Doubles.apply(plain) is plain and plain.tolist() == [2.0, 2.0]


def test_once_differentiable() -> None:
    class Once(autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: cr.Tensor) -> cr.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, g: cr.Tensor) -> Any:
            return g * 2 * ctx.saved_tensors[0]

    x = leaf(3.0)
    (g,) = grads((Once.apply(x) ** 2).sum(), x, create_graph=True)
    assert g.tolist() == [108.0] and g.requires_grad
    with pytest.raises(RuntimeError, match="once_differentiable"):
        g.sum().backward()
    y = Once.apply(x).sum()
    y.backward()
    assert gradient(x) == [6.0]
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


# ---- the walk ----


@pytest.mark.parametrize("dtype", [cr.float32, cr.float16, cr.bfloat16, cr.int64])
def test_a_cotangent_of_another_dtype_is_cast(dtype: cr.dtype) -> None:
    x = leaf(1.0, 2.0)
    (x * 2).backward(cr.ones(2, dtype=dtype))
    assert gradient(x) == [2.0, 2.0]


def test_a_hook_ends_with_its_block() -> None:
    x = leaf(1.0)
    with x.register_hook(lambda g: g * 5):
        x.sum().backward()
    x.sum().backward()
    assert gradient(x) == [6.0]


@pytest.mark.parametrize("axes", [2, 3])
def test_the_grid_of_nearest_pixels_has_gradient_zero(axes: int) -> None:
    image = cr.arange(2.0**axes).reshape(1, 1, *[2] * axes).requires_grad_()
    grid = cr.full((1, *[2] * axes, axes), float("inf")).requires_grad_()
    nn.functional.grid_sample(image, grid, mode="nearest", padding_mode="border", align_corners=False).sum().backward()
    assert image.grad is not None and not cr.tensor(gradient(grid)).any()


# ---- modes ----


@pytest.mark.parametrize("mode", [cr.no_grad, lambda: cr.set_grad_enabled(False), cr.inference_mode])
def test_modes_of_generators_and_coroutines(mode: Any) -> None:
    @mode()
    def numbers() -> Iterator[Any]:
        try:
            got = yield cr.is_grad_enabled()
            yield got, cr.is_grad_enabled()
        except KeyError:
            yield "caught", cr.is_grad_enabled()
        finally:
            ends.append(cr.is_grad_enabled())

    @mode()
    async def waits() -> bool:
        await asyncio.sleep(0)
        return cr.is_grad_enabled()

    @mode()
    async def stream() -> AsyncIterator[bool]:
        yield cr.is_grad_enabled()
        await asyncio.sleep(0)
        yield cr.is_grad_enabled()

    async def both() -> list[Any]:
        elsewhere = asyncio.ensure_future(watch())
        return [
            await waits(),
            cr.is_grad_enabled(),
            [(x, cr.is_grad_enabled()) async for x in stream()],
            *await elsewhere,
        ]

    async def watch() -> list[bool]:
        seen = []
        for _ in range(3):
            seen.append(cr.is_grad_enabled())
            await asyncio.sleep(0)
        return seen

    ends: list[bool] = []
    assert cr.is_grad_enabled()  # a decorator changes nothing
    g = numbers()
    assert [next(g), cr.is_grad_enabled(), g.send("x"), cr.is_grad_enabled()] == [False, True, ("x", False), True]
    g.close()
    g = numbers()
    next(g)
    assert g.throw(KeyError()) == ("caught", False)
    assert list(numbers()) == [False, (None, False)] and cr.is_grad_enabled()
    del g
    assert not any(ends) and len(ends) == 3
    assert asyncio.run(both()) == [False, True, [(False, True), (False, True)], True, True, True]


# ---- checkpoints ----

Pair = namedtuple("Pair", ["x", "y"])


@pytest.mark.parametrize(
    "f",
    [
        lambda t: t.sin() * t,
        lambda t: {"x": t * 2, "y": [t.exp(), 5]},
        lambda t: Pair(t * t, (t * 3, None)),
        lambda t: checkpoint(lambda u: u.sin() * u, t * 2, use_reentrant=False) * t,
        lambda t: (t * 2).mul_(3).relu_() * t,
        lambda t: (t, t * t),
    ],
)
def test_derivatives_through_checkpoints(f: Any) -> None:
    def total(x: Any) -> Any:
        if isinstance(x, cr.Tensor):
            return (x * x).sum()
        items = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else ()
        return sum(total(item) for item in items)

    orders = []
    for run in (f, lambda t: checkpoint(f, t, use_reentrant=False)):
        x = leaf(0.3, -1.0, 2.0)
        y = run(x * 1)
        (g,) = grads(total(y), x, create_graph=True)
        (h,) = grads((g * g).sum(), x, create_graph=True)
        orders.append((type(y), g.tolist() + h.tolist() + grads(h.sum(), x)[0].tolist()))
    assert orders[0][0] is orders[1][0] and orders[0][1] == pytest.approx(orders[1][1], rel=1e-12)


def test_hooks_modes_and_parameters_in_checkpoints() -> None:
    w, modes = leaf(3.0, 4.0), []

    def f(t: cr.Tensor, k: Any = None) -> cr.Tensor:
        modes.append(cr.is_grad_enabled())
        y: cr.Tensor = t * w * k
        y.register_hook(lambda g: g * 10)
        return y

    x, k = leaf(1.0, 2.0), leaf(1.0, 1.0)
    y = checkpoint(f, x, k=k, use_reentrant=False)
    assert [g.tolist() for g in grads(y.sum(), w, x, k, retain_graph=True)] == [
        [10.0, 20.0],
        [30.0, 40.0],
        [30.0, 80.0],
    ]
    y.sum().backward()
    assert gradient(w) == [10.0, 20.0] and all(modes) and len(modes) == 3
    b = x * 1
    y = checkpoint(lambda t: t * t, b, use_reentrant=False)
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    sizes = iter((2, 3))
    y = checkpoint(lambda t: t.repeat(next(sizes)), x, use_reentrant=False)
    with pytest.raises(RuntimeError, match="the first time"):
        y.sum().backward()


# ---- copies ----


def test_deep_copies() -> None:
    base = cr.zeros(2, 5)
    row, column, grad = base[1], base[:, 2], leaf(1.0, 2.0)
    (grad * 2).sum().backward()
    twins = copy.deepcopy([base, row, column, base.t()])
    twins[1][2] = 7.0
    assert twins[0].tolist() == [[0.0] * 5, [0.0, 0.0, 7.0, 0.0, 0.0]] and twins[2].tolist() == [0.0, 7.0]
    assert base.tolist() == [[0.0] * 5] * 2 and [t.stride() for t in twins] == [(5, 1), (1,), (5,), (1, 5)]
    twin = copy.deepcopy(grad)
    assert gradient(twin) == [2.0, 2.0] and twin.grad is not grad.grad and twin.is_leaf
    m = nn.Linear(2, 2)
    m(cr.ones(1, 2)).sum().backward()
    net = copy.deepcopy(nn.Sequential(m, m))
    assert net[0].weight is net[1].weight and net[0].weight.grad is None
    assert copy.deepcopy(base.flip(0)[:1]).tolist() == [[0.0] * 5]


def test_a_hook_that_is_gone_is_removed() -> None:
    node: Any
    y = cr.ones(3, requires_grad=True) * 2
    handle = y.register_hook(lambda g: g)
    node = (cr.ones(3, requires_grad=True) * cr.ones(3)).grad_fn
    y.detach_()
    handle.remove()
    assert node.next_functions[1] == (None, 0)  # no error is left for what is asked next
    handle.remove()


def gradient_of(x: cr.Tensor) -> list[float]:
    assert x.grad is not None
    found: list[float] = x.grad.tolist()
    return found


def test_a_gradient_outlives_its_tensor() -> None:
    for i in range(20):
        x = cr.ones(3, requires_grad=True)
        x.sum().backward()
        g = x.grad
        assert g is not None
        if i % 2:
            x.grad = None
        del x
        others = [cr.ones(3, requires_grad=True) for _ in range(3)]
        for y in others:
            y.grad = cr.zeros(3)
        g.data = cr.full((2,), 5.0)  # the gradient of no tensor any more
        assert g.tolist() == [5, 5] and all(gradient_of(y) == [0, 0, 0] for y in others)
