"""Mixed precision: the policy of each op against PyTorch's, regions, casts of parameters, training, loss scaling."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import Any

import chainrule as cr
import chainrule.nn.functional as F
import pytest
from chainrule import _core, amp, nn

HALF = cr.bfloat16


def values(lib: Any, *shape: int) -> Any:
    return (lib.arange(math.prod(shape)).reshape(shape) % 7 + 1).float() / 10


# name -> function of (library, its nn.functional, values of a shape, whether they are half precision already)
def named(T: Any, F: Any, name: str) -> Callable[..., Any]:
    found: Any = getattr(F, name, None)
    chosen: Callable[..., Any] = found if callable(found) else getattr(T, name)
    return chosen


def unary(name: str, *args: Any, shape: tuple[int, ...] = (3, 4), **kwargs: Any) -> Callable[..., Any]:
    return lambda T, F, v: named(T, F, name)(v(*shape), *args, **kwargs)


def binary(name: str, a: tuple[int, ...] = (3, 4), b: tuple[int, ...] = (3, 4)) -> Callable[..., Any]:
    return lambda T, F, v: named(T, F, name)(v(*a), v(*b))


IMAGE, VOLUME = (1, 2, 8, 8), (1, 2, 8, 8, 8)
OPS: dict[str, Callable[..., Any]] = {
    "linear": lambda T, F, v: F.linear(v(3, 4), v(5, 4), v(5)),
    "matmul": binary("matmul", (3, 4), (4, 5)),
    "mm": binary("mm", (3, 4), (4, 5)),
    "bmm": binary("bmm", (2, 3, 4), (2, 4, 5)),
    "addmm": lambda T, F, v: T.addmm(v(5), v(3, 4), v(4, 5)),
    "baddbmm": lambda T, F, v: T.baddbmm(v(2, 3, 5), v(2, 3, 4), v(2, 4, 5)),
    "addbmm": lambda T, F, v: T.addbmm(v(3, 5), v(2, 3, 4), v(2, 4, 5)),
    "mv": binary("mv", (3, 4), (4,)),
    "dot": binary("dot", (4,), (4,)),
    "outer": binary("outer", (4,), (4,)),
    "addmv": lambda T, F, v: T.addmv(v(3), v(3, 4), v(4)),
    "einsum": lambda T, F, v: T.einsum("ij,jk->ik", v(3, 4), v(4, 5)),
    "tensordot": lambda T, F, v: T.tensordot(v(3, 4), v(4, 5), 1),
    "conv1d": binary("conv1d", (1, 2, 8), (3, 2, 3)),
    "conv2d": binary("conv2d", IMAGE, (3, 2, 3, 3)),
    "conv_transpose2d": binary("conv_transpose2d", IMAGE, (2, 3, 3, 3)),
    "attention": lambda T, F, v: F.scaled_dot_product_attention(v(1, 2, 3, 4), v(1, 2, 3, 4), v(1, 2, 3, 4)),
    "prelu": binary("prelu", (3, 4), (1,)),
    "bilinear": lambda T, F, v: F.bilinear(v(3, 4), v(3, 4), v(5, 4, 4)),
    "multi-head attention": lambda T, F, v: T.nn.MultiheadAttention(4, 2)(v(3, 1, 4), v(3, 1, 4), v(3, 1, 4))[0],
    **{name: unary(name, -1) for name in ("softmax", "log_softmax", "logsumexp", "cumsum", "cumprod")},
    **{name: unary(name) for name in ("sum", "mean", "var", "std", "prod", "norm", "exp", "log", "rsqrt", "gelu")},
    **{name: unary(name) for name in ("tanh", "softplus", "relu", "erfinv", "normalize", "trace", "dropout")},
    "quantile": unary("quantile", 0.5),
    "nanquantile": unary("nanquantile", 0.5),
    "layer_norm": lambda T, F, v: F.layer_norm(v(3, 4), (4,), T.ones(4), T.zeros(4)),
    "rms_norm": lambda T, F, v: F.rms_norm(v(3, 4), (4,), T.ones(4)),
    "group_norm": lambda T, F, v: F.group_norm(v(3, 4), 2, T.ones(4), T.zeros(4)),
    "batch_norm": lambda T, F, v: F.batch_norm(v(3, 4), None, None, T.ones(4), T.zeros(4), True),
    "instance_norm": unary("instance_norm", shape=(3, 4, 5)),
    "cross_entropy": lambda T, F, v: F.cross_entropy(v(3, 4), T.tensor([0, 2, 1])),
    "cross_entropy, weighted": lambda T, F, v: F.cross_entropy(v(3, 4), T.tensor([0, 2, 1]), T.ones(4)),
    "cross_entropy, shares": lambda T, F, v: F.cross_entropy(v(3, 4), v(3, 4)),
    "nll_loss": lambda T, F, v: F.nll_loss(v(3, 4), T.tensor([0, 2, 1])),
    "multi_margin_loss": lambda T, F, v: F.multi_margin_loss(v(3, 4), T.tensor([0, 2, 1])),
    "multilabel_margin_loss": lambda T, F, v: F.multilabel_margin_loss(v(3, 4), T.zeros(3, 4).long()),
    "gaussian_nll_loss": lambda T, F, v: F.gaussian_nll_loss(v(3, 4), v(3, 4), v(3, 4)),
    "cosine_embedding_loss": lambda T, F, v: F.cosine_embedding_loss(v(3, 4), v(3, 4), T.ones(3)),
    "margin_ranking_loss": lambda T, F, v: F.margin_ranking_loss(v(3), v(3), T.ones(3)),
    "hinge_embedding_loss": lambda T, F, v: F.hinge_embedding_loss(v(3, 4), T.ones(3, 4)),
    "soft_margin_loss": lambda T, F, v: F.soft_margin_loss(v(3, 4), T.ones(3, 4)),
    "multilabel_soft_margin_loss": lambda T, F, v: F.multilabel_soft_margin_loss(v(3, 4), T.ones(3, 4)),
    "triplet_margin_loss": lambda T, F, v: F.triplet_margin_loss(v(3, 4), v(3, 4), v(3, 4)),
    "ctc_loss": lambda T, F, v: F.ctc_loss(v(5, 1, 4).log(), T.tensor([[1, 2]]), T.tensor([5]), T.tensor([2])),
    **{name: binary(name) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "poisson_nll_loss")},
    **{name: binary(name) for name in ("binary_cross_entropy", "binary_cross_entropy_with_logits")},
    "kl_div": lambda T, F, v: F.kl_div(v(3, 4), v(3, 4), reduction="sum"),
    "cdist": binary("cdist"),
    "pairwise_distance": binary("pairwise_distance"),
    "cosine_similarity": binary("cosine_similarity"),
    "avg_pool1d": unary("avg_pool1d", 2, shape=(1, 2, 8)),
    "avg_pool2d": unary("avg_pool2d", 2, shape=IMAGE),
    "avg_pool3d": unary("avg_pool3d", 2, shape=VOLUME),
    "max_pool2d": unary("max_pool2d", 2, shape=IMAGE),
    "max_pool3d": unary("max_pool3d", 2, shape=VOLUME),
    "adaptive_avg_pool2d": unary("adaptive_avg_pool2d", 2, shape=IMAGE),
    "adaptive_avg_pool3d": unary("adaptive_avg_pool3d", 2, shape=VOLUME),
    "adaptive_max_pool2d": unary("adaptive_max_pool2d", 2, shape=IMAGE),
    "adaptive_max_pool3d": unary("adaptive_max_pool3d", 2, shape=VOLUME),
    "fractional_max_pool2d": lambda T, F, v: F.fractional_max_pool2d(v(*IMAGE), 2, output_size=3),
    "fractional_max_pool3d": lambda T, F, v: F.fractional_max_pool3d(v(*VOLUME), 2, output_size=3),
    "max_unpool2d": lambda T, F, v: F.max_unpool2d(v(1, 2, 2, 2), T.tensor([[[[0, 2], [8, 10]]] * 2]), 2),
    "interpolate": lambda T, F, v: F.interpolate(v(*IMAGE), scale_factor=2.0, mode="bilinear"),
    "grid_sample": lambda T, F, v: F.grid_sample(v(*IMAGE), v(1, 4, 4, 2), align_corners=False),
    "pad": unary("pad", (1, 1)),
    "cat": lambda T, F, v: T.cat([v(3), v(3).float()]),
    "stack": lambda T, F, v: T.stack([v(3), v(3).float()]),
    "index_copy": lambda T, F, v: T.index_copy(v(3).float(), 0, T.tensor([0, 2, 1]), v(3)),
    "addcmul": lambda T, F, v: T.addcmul(v(3), v(3), v(3)),
    "add": lambda T, F, v: v(3) + v(3).float(),
    "embedding": lambda T, F, v: F.embedding(T.tensor([1, 0]), v(3, 4)),
}


def result_dtype(T: Any, F: Any, op: Callable[..., Any], low: Any, half: bool) -> str:
    def v(*shape: int) -> Any:
        return values(T, *shape).to(low) if half else values(T, *shape)

    with T.autocast("cpu", low):
        return str(op(T, F, v).dtype).partition(".")[2]


@pytest.mark.parametrize("name", OPS)
def test_policy(name: str) -> None:
    """The dtypes of results, from float32 and from half precision, are PyTorch's."""
    torch = pytest.importorskip("torch")
    low = "float16" if name == "linear" else "bfloat16"
    for half in (False, True):
        got = result_dtype(cr, F, OPS[name], getattr(cr, low), half)
        wanted = result_dtype(torch, torch.nn.functional, OPS[name], getattr(torch, low), half)
        assert got == wanted, f"{name}, half={half}"


def test_float64_and_integers_stay() -> None:
    a = cr.arange(4.0, dtype=cr.float64).reshape(2, 2)
    with cr.autocast("cpu"):
        assert (a @ a).dtype is cr.float64
        assert (a.long() @ a.long()).dtype is cr.int64
        assert F.mse_loss(a, a).dtype is cr.float64


# ---- regions


def product() -> cr.dtype:
    return (cr.ones(2, 2) @ cr.ones(2, 2)).dtype


def test_regions() -> None:
    """Nested, off inside, other dtypes, decorators, exceptions; other threads are not affected."""
    found: list[cr.dtype] = []
    with cr.autocast("cpu"):
        assert product() is cr.bfloat16 and amp.is_autocast_enabled("cpu") and amp.get_autocast_dtype("cpu") is HALF
        with cr.autocast("cpu", enabled=False):
            assert product() is cr.float32 and not amp.is_autocast_enabled("cpu")
            with cr.autocast("cpu", cr.float16):
                assert product() is cr.float16
            assert product() is cr.float32
        with cr.autocast("ref", cr.float16):
            assert product() is cr.bfloat16
            assert (cr.ones(2, 2, device="ref") @ cr.ones(2, 2, device="ref")).dtype is cr.float16
        assert (cr.ones(2, 2, device="ref") @ cr.ones(2, 2, device="ref")).dtype is cr.float32
        thread = threading.Thread(target=lambda: found.append(product()))
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError), cr.autocast("cpu", cr.float16):
            cr.ones(2, 3) @ cr.ones(2, 3)
        with pytest.raises(RuntimeError, match="shape"):
            F.mse_loss(cr.ones(2, dtype=HALF).reshape(3), cr.ones(3))
        assert product() is cr.bfloat16 and F.mse_loss(cr.ones(2, dtype=HALF), cr.ones(2)).dtype is cr.float32
    assert found == [cr.float32] and product() is cr.float32

    region = cr.autocast("cpu")

    @region
    def inside(depth: int) -> cr.dtype:
        return inside(depth - 1) if depth else product()

    assert inside(3) is cr.bfloat16 and inside.__name__ == "inside" and product() is cr.float32


def test_arguments() -> None:
    with pytest.warns(UserWarning, match="bfloat16 and float16, not"), cr.autocast("cpu", cr.float64):
        assert product() is cr.float32
    with pytest.raises(ValueError, match="`str`"):
        cr.autocast(3)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'fpga'"):
        cr.autocast("fpga")
    if not amp.is_autocast_available("cuda"):
        with pytest.warns(UserWarning, match="no such device"), cr.autocast("cuda"):
            assert product() is cr.float32
    with pytest.raises(RuntimeError, match="no region"):
        _core._autocast_end()


# ---- parameters


def test_casts_of_parameters() -> None:
    """A parameter is cast once in a region, again after it is written; other tensors each time."""
    w, x = nn.Parameter(cr.ones(2, 2)), cr.ones(2, 2)

    def same(t: cr.Tensor) -> bool:
        one, other = _core._autocast_cast(t, HALF), _core._autocast_cast(t, HALF)
        return one.data_ptr() == other.data_ptr()

    assert not same(w)
    with cr.autocast("cpu"):
        assert same(w) and not same(x)
        with cr.no_grad():
            assert not _core._autocast_cast(w, HALF).requires_grad
        assert _core._autocast_cast(w, HALF).requires_grad
        with cr.autocast("cpu", enabled=False):
            pass
        first = (x @ w).sum()
        with cr.no_grad():
            w.mul_(2)
        assert (x @ w).sum().item() == 2 * first.item()
        first.backward()
        with cr.autocast("cpu", cache_enabled=False):
            assert not same(w)
    assert not same(w) and w.grad is not None and w.grad.dtype is cr.float32


def tiny(dtype: cr.dtype | None, steps: int, scaler: amp.GradScaler | None = None) -> tuple[list[float], list[Any]]:
    """Losses and the last gradients of a model on made-up text."""
    cr.manual_seed(3)
    model = cr.models.GPT(17, 16, 2, 2, 32)
    optimizer = cr.optim.AdamW(model.parameters(), lr=3e-3)
    start = cr.arange(8).reshape(8, 1)
    losses = []
    for step in range(steps):
        tokens = (start * 5 + (cr.arange(17) + step) * 3) % 17
        with cr.autocast("cpu", dtype or HALF, enabled=dtype is not None):
            loss = model.loss(tokens[:, :-1], tokens[:, 1:])
        optimizer.zero_grad()
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        losses.append(loss.item())
    assert all(p.grad is not None and p.grad.dtype is p.dtype is cr.float32 for p in model.parameters())
    return losses, [p.grad for p in model.parameters()]


@pytest.mark.parametrize("dtype", [cr.bfloat16, cr.float16])
def test_training(dtype: cr.dtype) -> None:
    """Losses stay near float32's; the bits are the same for any number of threads."""
    steps = 300 if os.environ.get("CHAINRULE_TEST_FULL", "0") != "0" else 60
    scaler = amp.GradScaler("cpu", growth_interval=20) if dtype is cr.float16 else None
    (full, _), (half, grads) = tiny(None, steps), tiny(dtype, steps, scaler)
    assert full[-1] < 0.8 * full[0]
    for i in range(0, steps, 10):
        a, b = sum(half[i : i + 10]) / 10, sum(full[i : i + 10]) / 10
        assert abs(a - b) < 0.02 * b + 0.005, (i, a, b)
    if scaler is not None:
        assert scaler.get_scale() != 65536.0
    threads = cr.get_num_threads()
    try:
        cr.set_num_threads(1 if threads > 1 else 2)
        scaler = amp.GradScaler("cpu", growth_interval=20) if dtype is cr.float16 else None
        again, grads_again = tiny(dtype, steps, scaler)
    finally:
        cr.set_num_threads(threads)
    assert half == again and all((a == b).all() for a, b in zip(grads, grads_again, strict=True))


@pytest.mark.parametrize("dtype", [cr.bfloat16, cr.float16], ids=str)
def test_memory_kept_for_backward(dtype: cr.dtype) -> None:
    """A GPT keeps about half the bytes, beside the weights' copies."""
    model = cr.models.GPT(256, 64, 4, 4, 64)
    x, y = cr.randint(0, 256, (16, 64)), cr.randint(0, 256, (16, 64))

    def kept(enabled: bool) -> int:
        before = cr.memory_stats()[0]
        with cr.autocast("cpu", dtype, enabled=enabled):
            loss = model.loss(x, y)
        held = cr.memory_stats()[0] - before
        loss.backward()
        return held

    kept(False)
    copies = 2 * sum(p.numel() for p in model.parameters())
    assert kept(True) - copies <= 0.51 * kept(False)


def test_functions() -> None:
    """custom_fwd casts inputs and turns autocast off inside; custom_bwd runs in the forward's state."""
    seen: list[Any] = []

    class Square(cr.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu", cast_inputs=cr.float32)
        def forward(ctx: Any, x: cr.Tensor) -> cr.Tensor:
            seen.append((x.dtype, amp.is_autocast_enabled("cpu")))
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: cr.Tensor) -> cr.Tensor:
            seen.append(amp.is_autocast_enabled("cpu"))
            x: cr.Tensor = ctx.saved_tensors[0]
            return 2 * x * g

    class Product(cr.autograd.Function):
        @staticmethod
        @amp.custom_fwd(device_type="cpu")
        def forward(ctx: Any, x: cr.Tensor) -> cr.Tensor:
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: cr.Tensor) -> cr.Tensor:
            seen.append((amp.is_autocast_enabled("cpu"), product()))
            return g

    x = cr.ones(2, 2, dtype=HALF).requires_grad_()
    with cr.autocast("cpu"):
        y = Square.apply(x)
        z = Product.apply(x)
    y.sum().backward()
    z.sum().backward()
    assert seen == [(cr.float32, False), False, (True, cr.bfloat16)]


# ---- loss scaling


class Pretend:
    """An optimizer whose parameter has the gradients that the test says."""

    def __init__(self, lib: Any) -> None:
        self.p = lib.nn.Parameter(lib.zeros(2))
        self.optimizer = lib.optim.SGD([self.p], lr=1.0)


GOOD, BAD = [1.0, -2.0], [1.0, math.inf]


def scaled(lib: Any, scaler: Any) -> list[Any]:
    """Everything that a scaler shows over steps with good and bad gradients, of two optimizers."""
    shown: list[Any] = []
    one, two = Pretend(lib), Pretend(lib)
    scaler.scale(lib.ones(1))
    for gradients in ([GOOD, GOOD], [GOOD, BAD], [GOOD, GOOD], [GOOD, GOOD], [[math.nan, 0.0], GOOD], [GOOD], [GOOD]):
        for pretend, gradient in zip((one, two), gradients, strict=False):
            pretend.p.grad = lib.tensor(gradient)
            if gradient is gradients[0]:
                scaler.unscale_(pretend.optimizer)
                shown.append(pretend.p.grad.tolist()[0])
            scaler.step(pretend.optimizer)
        scaler.update()
        shown += [scaler.get_scale(), one.p.tolist(), two.p.tolist()]
    return [*shown, scaler.state_dict()]


SCALERS: list[dict[str, Any]] = [
    {},
    {"init_scale": 3.0, "growth_interval": 2},
    {"init_scale": 2.0**127, "growth_interval": 1},
    {"init_scale": 7.0, "growth_factor": 1.1, "backoff_factor": 0.3, "growth_interval": 1},
]


@pytest.mark.parametrize("options", SCALERS)
def test_scaler_against_pytorch(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = scaled(cr, amp.GradScaler("cpu", **options)), scaled(torch, torch.amp.GradScaler("cpu", **options))
    assert str(ours).replace("nan", "") == str(theirs).replace("nan", "") or ours == pytest.approx(theirs, rel=1e-6)


def test_scaler() -> None:
    scaler, pretend = amp.GradScaler("cpu", init_scale=4.0), Pretend(cr)
    one, pair = cr.ones(1), [cr.ones(1), (cr.ones(1), cr.ones(1))]
    assert scaler.scale(one).item() == 4 and scaler.scale(pair)[1][1].item() == 4
    with pytest.raises(ValueError, match="iterable"):
        scaler.scale(3)
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()
    pretend.p.grad = cr.tensor(GOOD)
    scaler.unscale_(pretend.optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(pretend.optimizer)
    scaler.step(pretend.optimizer)
    with pytest.raises(RuntimeError, match="already been called since"):
        scaler.step(pretend.optimizer)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(pretend.optimizer)
    with pytest.raises(RuntimeError, match="Closure"):
        scaler.step(pretend.optimizer, closure=lambda: None)
    scaler.update(new_scale=16.0)
    pretend.p.grad = cr.tensor([3e38, 3e38])  # finite, though its norm is not
    scaler.step(pretend.optimizer)
    scaler.update()
    assert scaler.get_scale() == 16.0 and pretend.p.tolist()[0] < -1e37

    other = amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() and other.get_scale() == 16.0
    with pytest.raises(RuntimeError, match="empty"):
        other.load_state_dict({})
    half = cr.nn.Parameter(cr.ones(2, dtype=cr.float16))
    half.grad = cr.ones(2, dtype=cr.float16)
    with pytest.raises(ValueError, match="FP16"):
        other.unscale_(cr.optim.SGD([half], lr=1.0))

    off = amp.GradScaler("cpu", enabled=False)
    assert off.scale(one) is one and off.get_scale() == 1.0 and off.state_dict() == {} and not off.is_enabled()
    off.step(pretend.optimizer)
    off.update()
    for wrong in ({"growth_factor": 1.0}, {"backoff_factor": 1.0}):
        with pytest.raises(ValueError, match="factor must be"):
            amp.GradScaler("cpu", **wrong)  # type: ignore[arg-type]
