"""Views: steps backwards, in-place work on recorded ones against PyTorch, and what they are to other libraries."""

from __future__ import annotations

from typing import Any

import chainrule as cr
import pytest


def line_by_line(lib: Any, x: Any) -> Any:
    y = lib.zeros(4, 3, dtype=lib.float64)
    y[0] = x[0] * 2
    for i in range(1, 4):
        y[i] = y[i - 1].clone() * x[i] + y[i - 1]  # what mul saves is not written to again
    return y


def scaled(lib: Any, x: Any) -> Any:
    y = x * 2
    y[0].mul_(x[1])
    y[:, 1] += 1
    y[1:3, ::2] *= x[:2, ::2]
    return y * x


def views_before(lib: Any, x: Any) -> Any:
    y = x * x
    v, w = y[1], y.t()
    y.mul_(x)
    v.add_(w[:, 2])
    return v.sum() * w


def masked_corner(lib: Any, x: Any) -> Any:
    y = x.exp() * 1
    y[2:, 1:] = 0
    y[..., 0].clamp_(0.5, 1.5)
    y.t()[1:].fill_(2)
    return y


def diagonal(lib: Any, x: Any) -> Any:
    y = x * 3
    y.diagonal().add_(x[0])
    y.view(-1)[::5].mul_(x.reshape(-1)[:3])
    return y


def kept(lib: Any, x: Any) -> Any:
    y = x * 3
    part = [y[i] for i in range(4)]
    for i, p in enumerate(part):
        p.mul_(x[3 - i])
    return part[0] * part[3] + y[1]


def into_transposed(lib: Any, x: Any) -> Any:
    y = (x * 2).t()
    y[1].copy_(x.reshape(-1)[3:7])
    y.add_(x.t())
    y[:2].sigmoid_()
    return y


STORIES = [line_by_line, scaled, views_before, masked_corner, diagonal, kept, into_transposed]


@pytest.mark.parametrize("story", STORIES, ids=lambda f: f.__name__)
def test_in_place_as_pytorch(story: Any) -> None:
    torch = pytest.importorskip(
        "torch", reason="PyTorch is not installed: in-place work on views is compared in C only"
    )
    values = [[0.1 * (i * 3 + j) + 0.2 for j in range(3)] for i in range(4)]
    found = []
    for lib in (cr, torch):
        x = lib.tensor(values, dtype=lib.float64, requires_grad=True)
        y = story(lib, x)
        cotangent = lib.arange(y.numel(), dtype=lib.float64).reshape(y.shape) - 3
        (g,) = lib.autograd.grad((y * cotangent).sum(), [x], create_graph=True)
        (h,) = lib.autograd.grad((g * g).sum(), [x], allow_unused=True)
        found.append([t.detach().reshape(-1).tolist() for t in (y, g, h)])
    for ours, theirs in zip(*found, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-10, abs=1e-10)


def test_refused_as_pytorch() -> None:
    leaf = cr.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        leaf[0] = 1
    with pytest.raises(RuntimeError, match="view of a leaf"):
        leaf[0].mul_(2)
    with pytest.raises(RuntimeError, match="a leaf"):
        leaf += 1
    with pytest.raises(RuntimeError, match="share memory"):
        cr.ones(1).expand(3).add_(1)
    with pytest.raises(RuntimeError, match="share memory"):
        cr.ones(5).unfold(0, 3, 1).zero_()
    with cr.no_grad():
        leaf[0] = 5
        view = (leaf * 1)[0]
    assert leaf.tolist() == [[5, 5, 5], [1, 1, 1]] and leaf.is_leaf
    with pytest.raises(RuntimeError, match="gradient mode was off"):
        view.add_(leaf[0])
    y = leaf.exp()
    y[0] = 0
    with pytest.raises(RuntimeError, match="modified in place"):
        y.sum().backward()


def test_views_of_a_users_gradient() -> None:
    """A view that a function's backward makes knows its base, as one made anywhere else without gradients."""
    p = cr.ones(3, requires_grad=True)

    class Twice(cr.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            return a * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x = cr.ones(3)
            part = x[:2]
            with cr.enable_grad():
                x.mul_(p)
                part * 1
            return g * 2

    with pytest.raises(RuntimeError, match="gradient mode was off"):
        Twice.apply(cr.ones(2, requires_grad=True)).sum().backward()


def test_a_tensor_joins_the_graph() -> None:
    y = cr.zeros(2, 3)
    w = cr.ones(3, requires_grad=True)
    assert y.is_leaf and not y.requires_grad
    y[1] = w
    assert y.requires_grad and not y.is_leaf and y.grad_fn
    y.sum().backward()
    assert w.grad is not None and w.grad.tolist() == [1, 1, 1]


def test_layout() -> None:
    """Strides equal a list, as a shape does; where a view begins in its storage."""
    x = cr.zeros(2, 3)
    assert (
        x.strides == [3, 1]
        and x.T.strides == [1, 3]
        and x.strides == (3, 1)
        and x.strides != [3]
        and isinstance(x.strides, cr.Size)
    )
    assert x.stride() == (3, 1) and type(x.stride()) is tuple  # as PyTorch's
    assert (x.storage_offset(), x[1].storage_offset(), x[1, 2:].storage_offset(), x[::-1].storage_offset()) == (
        0,
        3,
        5,
        3,
    )


def test_shape_of_data() -> None:
    x = cr.Tensor([1, 2, 3, 4, 5, 6], shape=[2, 3], device=cr.Device.Cpu)
    assert (
        x.tolist() == [[1, 2, 3], [4, 5, 6]]
        and x.shape == [2, 3]
        and x.strides == [3, 1]
        and x.is_leaf
        and x.requires_grad
    )
    (x * x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[2, 4, 6], [8, 10, 12]]
    assert (
        cr.Tensor([[1, 2], [3, 4]], shape=[-1]).tolist() == [1, 2, 3, 4]
        and cr.Tensor(7, shape=1).shape == [1]
        and cr.Tensor([], shape=(0, 3)).shape == [0, 3]
    )
    assert cr.Tensor([1, 2], shape=2, dtype=cr.int32).dtype == cr.int32 and cr.Tensor(
        cr.ones(4), shape=[2, 2]
    ).shape == [2, 2]
    with pytest.raises(RuntimeError, match=r"cannot view 3 elements as \(2, 2\)"):
        cr.Tensor([1, 2, 3], shape=[2, 2])
    with pytest.raises(TypeError, match="argument 'shape' must be ints, not str"):
        cr.Tensor([1, 2, 3], shape="3")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        pow(cr.ones(2), 2, 3)  # type: ignore[misc]


def test_names_of_devices() -> None:
    assert (
        cr.Device.Cpu == cr.Device.cpu() == cr.ones(2, device=cr.Device.Cpu).device and cr.device.Cpu is cr.Device.Cpu
    )
    with pytest.raises(AttributeError, match="no GPU 'gpu' here"):
        print(cr.Device.Gpu)  # the tests of Python see none; check_gpu.py has one
    assert not hasattr(cr.Device, "Gpu")
    assert cr.Device("auto") == cr.Device.Cpu and cr.ones(2, device="auto").device == cr.Device.Cpu
    cr.set_default_device("ref")
    try:
        assert cr.ones(2).device == cr.Device.ref()
        cr.set_default_device("auto")
        assert cr.ones(2).device == cr.Device.Cpu
    finally:
        cr.set_default_device("cpu")


def test_backwards() -> None:
    x = cr.arange(12).reshape(3, 4)
    assert x[::-1].tolist() == [[8, 9, 10, 11], [4, 5, 6, 7], [0, 1, 2, 3]]
    assert (
        x[::-1, ..., None, 2:0:-1].shape == (3, 1, 2)
        and x[::-1].strides == (-4, 1)
        and x[::-1].data_ptr() == x[2].data_ptr()
    )
    assert x.slice(1, step=-2).tolist() == [[3, 1], [7, 5], [11, 9]] and x.slice(1, 2, None, -1).tolist() == [
        [2, 1, 0],
        [6, 5, 4],
        [10, 9, 8],
    ]
    x[::-2, ::-3] = cr.tensor([[1, 2], [3, 4]])
    assert x.tolist() == [[4, 1, 2, 3], [4, 5, 6, 7], [2, 9, 10, 1]]
    x[::-1] += x
    assert x.tolist() == [[6, 10, 12, 4], [8, 10, 12, 14], [6, 10, 12, 4]]
    assert (x[::-1].float() @ x.t()[::-1, ::-1].float()).shape == (3, 3)
    with pytest.raises(ValueError, match="zero"):
        x[::0]


def test_backwards_to_other_libraries() -> None:
    x = cr.arange(6).reshape(2, 3)[:, ::-1]
    view: Any = memoryview(x)
    assert view.strides == (24, -8) and view.tolist() == [[2, 1, 0], [5, 4, 3]]
    assert cr.from_dlpack(x).tolist() == x.tolist() and cr.from_dlpack(x).data_ptr() != x.data_ptr()
    with pytest.raises(BufferError, match="negative strides"):
        x.__dlpack__(copy=False)
    numpy = pytest.importorskip("numpy", reason="NumPy is not installed")
    a = x.numpy()
    assert a.strides == (24, -8) and a.tolist() == x.tolist()
    a[0, 0] = 9
    assert x[0, 0] == 9 and numpy.asarray(x[::-1]).tolist() == [[5, 4, 3], [9, 1, 0]]


def test_backwards_saved(tmp_path: Any) -> None:
    x = cr.arange(6).reshape(2, 3)[::-1, ::-1]
    cr.save({"x": x}, tmp_path / "x.safetensors")
    assert cr.load(tmp_path / "x.safetensors")["x"].tolist() == [[5, 4, 3], [2, 1, 0]]
