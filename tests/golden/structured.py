#!/usr/bin/env python3
"""Writes tests/golden/structured.h: what PyTorch says about the values and gradients of the
structured ops of tests/ops_cases.h.

use: structured.py        (needs torch; the header is committed, so that the tests do not)

Inputs, cotangents and weights come from formulas that test_grad.c shares, so that one weighted sum
for each result is enough."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor


def weights(n: int, a: int, b: int, m: int) -> Tensor:
    return torch.tensor([((i * a + b) % m) / m - 0.5 for i in range(n)], dtype=torch.float64)


def make(text: str, k: int) -> Tensor:
    """One input from its entry in the C table: SHAPE(3, 5), .fill = INDEX, .hi = 5."""
    sizes = re.search(r"SHAPE\((.*?)\)", text)
    shape = [int(v) for v in sizes.group(1).split(",")] if sizes else []
    low, high = (
        float(m.group(1)) if (m := re.search(rf"\.{name} = (-?[\d.]+)", text)) else d
        for name, d in (("lo", -2.0), ("hi", 2.0))
    )
    n = math.prod(shape)
    if "INDEX" in text:
        return torch.tensor([(i * 7919 + k * 13) % int(high) for i in range(n)], dtype=torch.int64).reshape(shape)
    if "MASK" in text:
        return torch.tensor([(i * 7919) % 3 == 0 for i in range(n)], dtype=torch.bool).reshape(shape)
    x = [low + (high - low) * (((i * 7919 + k * 104729 + 31) % 1009) / 1009.0) for i in range(n)]
    if "STEPS" in text:
        x = [math.floor(v) for v in x]
    return torch.tensor(x, dtype=torch.float64).reshape(shape).requires_grad_()


def turned(x: Tensor) -> Tensor:
    return x.transpose(-1, -2)


def linear(act: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda x, w, b=None: act(F.linear(x, w, b))


def same(x: Tensor) -> Tensor:
    return x


def split(x: Tensor) -> Tensor:
    a, b, c = x.split(3, 1)
    return torch.cat([c, a, b], 1)


def cross(ignore: int, smoothing: float, reduction: str) -> Callable[..., Tensor]:
    def f(x: Tensor, t: Tensor) -> Tensor:
        y = F.cross_entropy(
            x.reshape(-1, x.shape[-1]),
            t.reshape(-1),
            ignore_index=ignore,
            label_smoothing=smoothing,
            reduction=reduction,
        )
        return y.reshape(t.shape) if reduction == "none" else y

    return f


def attention(
    causal: bool, scale: float | None = None, window: int | None = None, top: bool = False
) -> Callable[..., Tensor]:
    """top: query 0 sees key 0"""

    def f(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
        t, s = q.shape[2], k.shape[2]
        last = 0 if top else s - t
        score = q @ turned(k) * (scale or 1 / math.sqrt(q.shape[3]))
        sees = torch.ones(t, s, dtype=torch.bool).tril(last if causal else s)
        if window is not None:
            sees = sees.triu(last + 1 - window)
        if mask is not None and mask.dtype == torch.bool:
            sees = sees & mask
        elif mask is not None:
            score = score + mask
        lost = ~sees.any(-1, keepdim=True)  # a query that sees nothing gives 0
        return (torch.softmax(score.masked_fill(~sees & ~lost, -math.inf), -1) * ~lost) @ v

    return f


def heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attention(True)(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))


def packed(whole: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x: whole(*(x.select(2, i).transpose(1, 2) for i in range(3)))


def masked(causal: bool, window: int | None = None) -> Callable[..., Tensor]:
    return lambda q, kv, mask: attention(causal, window=window)(q, kv, kv, mask)


def rope(interleaved: bool) -> Callable[..., Tensor]:
    """Each pair as a complex number times cos + i sin."""

    def f(x: Tensor, table: Tensor) -> Tensor:
        n = table.shape[-1]
        turn = torch.complex(*table.tensor_split(2, -1))
        pairs = x[..., :n].unflatten(-1, (n // 2, 2) if interleaved else (2, n // 2))
        axis = -1 if interleaved else -2
        y = torch.complex(*pairs.unbind(axis)) * turn
        return torch.cat([torch.stack([y.real, y.imag], axis).flatten(-2), x[..., n:]], -1)

    return f


def unpacked(rows: int, C: int, bits: int, group: int = 32) -> Tensor:
    """A weight in q8_0 or q4_0 whose codes and scales follow the formulas of ops_cases.h."""
    byte = (torch.arange(rows)[:, None] * 37 + torch.arange(C * bits // 8) * 11 + 5) % 256
    scale = ((torch.arange(rows)[:, None] + 2 * torch.arange(C // group)) % 7 + 1) / (512 if bits == 8 else 32)
    if bits == 8:
        code = byte - 256 * (byte > 127)
    else:
        byte = byte.unflatten(1, (-1, 16))
        code = torch.cat([byte % 16, byte // 16], -1).flatten(1) - 8
    return code.double() * scale.double().repeat_interleave(group, 1)


def packed_rows(rows: int, bits: int, act: Callable[[Tensor], Tensor] = same) -> Callable[..., Tensor]:
    return lambda x, bias=None: act(F.linear(x, unpacked(rows, x.shape[-1], bits), bias))


Pairs = tuple[tuple[int, int], ...]  # of each axis, as in cr_conv_options


def framed(x: Tensor, n: int, pairs: Pairs, sign: int) -> Tensor:
    return F.pad(x, [sign * v for pair in reversed(pairs[:n]) for v in pair])


def conv(
    stride: tuple[int, ...] = (1, 1, 1), dilation: tuple[int, ...] = (1, 1, 1), pad: Pairs = (), groups: int = 1
) -> Callable[..., Tensor]:
    def f(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        n = w.ndim - 2
        run = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
        return run(framed(x, n, pad, 1), w, b, stride[:n], 0, dilation[:n], groups or x.shape[1])

    return f


def conv_transpose(
    stride: tuple[int, ...] = (1, 1, 1), dilation: tuple[int, ...] = (1, 1, 1), pad: Pairs = (), groups: int = 1
) -> Callable[..., Tensor]:
    """pad: what is cut off the result, output padding not"""

    def f(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        n = w.ndim - 2
        run = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
        y = framed(run(x, w, None, stride[:n], 0, 0, groups, dilation[:n]), n, pad, -1)
        return y + b.reshape([-1] + [1] * n)

    return f


PACKED = (0, 3, 6, 8, 10, 12, 13)  # the first row of each step, and their number
PACKED_MANY = (0, 17, 34, 44, 47)


def spread(x: Tensor) -> Tensor:
    """x / 4 with 3, 6, 9 ... added to the diagonal."""
    m, n = x.shape[-2:]
    return x * 0.25 + torch.eye(m, n, dtype=x.dtype) * torch.arange(3, 3 * n + 3, 3, dtype=x.dtype)


def symmetric(x: Tensor) -> Tensor:
    return spread(x) + spread(x).mT


def recurrent(
    kind: str, bias: bool = True, reverse: bool = False, packed: tuple[int, ...] = ()
) -> Callable[..., Tensor]:
    """PyTorch's cells, one step after the other; a projection is one more product."""
    cell = getattr(torch, kind + "_cell")

    def f(x: Tensor, w: Tensor, states: Tensor, projection: Tensor | None = None) -> Tensor:
        width, p = x.shape[-1], w.shape[1] - x.shape[-1] - 2
        h, c = states[:, :p], states[:, p:]
        biases = (w[:, -2], w[:, -1]) if bias else (None, None)
        y = [None] * (len(packed) - 1 if packed else len(x))
        for t in reversed(range(len(y))) if reverse else range(len(y)):
            rows = x[packed[t] : packed[t + 1]] if packed else x[t]
            n = len(rows)
            if kind == "lstm":
                before = (c[:n].new_zeros(n, len(w) // 4), c[:n]) if projection is not None else (h[:n], c[:n])
                shared = rows if projection is None else torch.cat([rows, h[:n]], 1)
                w_in = w[:, :width] if projection is None else w[:, : width + p]
                w_state = w[:, width : width + p] if projection is None else w.new_zeros(len(w), len(w) // 4)
                new, cells = cell(shared, before, w_in, w_state, *biases)
                c = torch.cat([cells, c[n:]])
                new = new if projection is None else new @ projection.T
            else:
                new = cell(rows, h[:n], w[:, :width], w[:, width : width + p], *biases)
            y[t] = new
            h = torch.cat([new, h[n:]])
        return torch.cat([*(v.reshape(-1) for v in y), h.reshape(-1), *([c.reshape(-1)] if kind == "lstm" else [])])

    return f


def norm(eps: float) -> Callable[..., Tensor]:
    return lambda x, w=None, b=None: F.layer_norm(x, x.shape[-1:], w, b, eps)


def rms(x: Tensor, w: Tensor | None = None) -> Tensor:
    return F.rms_norm(x, x.shape[-1:], w, 1e-6)


def batched(f: Callable[..., Tensor], *sizes: object, **options: object) -> Callable[[Tensor], Tensor]:
    """A function of (N, C, ...) as one of (C, ...)."""
    return lambda x: f(x[None], *sizes, **options)[0]


def resized(*size: int, **options: object) -> Callable[[Tensor], Tensor]:
    """(N, H, W), as N channels; none of them: an empty result"""

    def f(x: Tensor) -> Tensor:
        if x.numel():
            return F.interpolate(x[None], size, **options)[0]  # type: ignore[arg-type]
        return x.sum() + torch.zeros(len(x), *size, dtype=x.dtype)

    return f


def batch_norm_fixed(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    numbers = torch.linspace(0.5, 1.5, x.shape[1], dtype=x.dtype)
    return F.batch_norm(x, numbers, numbers.square(), w, b, False, eps=1e-2)


def batch_norm(eps: float) -> Callable[..., Tensor]:
    return lambda x, w=None, b=None: F.batch_norm(x, None, None, w, b, True, eps=eps)


def scatter(axis: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    return lambda x, index, src: x.scatter_add(axis, index, src)


def scatter_reduce(axis: int, kind: str, include_self: bool = True) -> Callable[..., Tensor]:
    return lambda x, index, src: x.scatter_reduce(axis, index, src, kind, include_self=include_self)


def places(*shape: int) -> Tensor:
    return torch.tensor([4, 0, 2, 1]).reshape(shape)


def embed(x: Tensor) -> Tensor:
    y = torch.zeros(3, 19, 2, dtype=x.dtype)
    y[:, 2:15:3, 1] = x
    return y


def chunked(x: Tensor) -> Tensor:
    a, b, c = x.chunk(3, 1)
    _, front, back = a.split([0, 2, 1], 1)
    return torch.cat([back, c, front, b], 1)


def replace(x: Tensor, v: Tensor) -> Tensor:
    y = x.clone()
    y[:2, 1:7:2] = v
    return y


def crossed(*x: Tensor) -> Tensor:
    a, b, c = torch.meshgrid(*x, indexing="xy")
    return a * b + c


def padded(mode: str, *sizes: int) -> Callable[[Tensor], Tensor]:
    return lambda x: F.pad(x[None], sizes, mode)[0]


def recurrence(x: Tensor, a: Tensor) -> Tensor:
    y = [x[:, 0]]
    for k in range(1, x.shape[1]):
        y.append(x[:, k] + a[:, k] * y[-1])
    return torch.stack(y, 1)


def recurrence_back(x: Tensor, a: Tensor) -> Tensor:
    y = [x[:, -1]]
    for k in range(x.shape[1] - 2, -1, -1):
        y.append(x[:, k] + a[:, k + 1] * y[-1])
    return torch.stack(y[::-1], 1)


def any_of(x: Tensor, dim: tuple[int, ...] | None = None, keepdim: bool = False) -> Tensor:
    return x.any(tuple(range(x.ndim)) if dim is None else dim, keepdim)


def vector_norm(
    p: float, dim: tuple[int, ...] | int | None = None, keepdim: bool = False
) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.linalg.vector_norm(x, p, dim, keepdim)


# The functions of tests/ops_cases.h, by their names there.
FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "sum_all": torch.sum,
    "sum_squares": lambda x: (x * x).sum(),
    "sum_0": lambda x: x.sum(0),
    "sum_1": lambda x: x.sum(1, keepdim=True),
    "sum_last": lambda x: x.sum(-1),
    "sum_0_2": lambda x: x.sum((2, 0)),
    "sum_0_2_kept": lambda x: x.sum((0, 2), keepdim=True),
    "mean_all": torch.mean,
    "mean_0_2": lambda x: x.mean((0, 2), keepdim=True),
    "max_all": lambda x: x.amax(tuple(range(x.ndim)), keepdim=True),
    "max_1": lambda x: x.amax(1),
    "max_last": lambda x: x.amax(-1, keepdim=True),
    "min_all": torch.amin,
    "min_0_2": lambda x: x.amin((0, 2)),
    "var_all": torch.var,
    "var_last": lambda x: x.var(-1, correction=0, keepdim=True),
    "var_0": lambda x: x.var(0, correction=1.5),
    "var_0_2": lambda x: x.var((0, 2)),
    "std_last": lambda x: x.std(-1),
    "std_0_2": lambda x: x.std((2, 0), correction=0, keepdim=True),
    "prod_all": torch.prod,
    "prod_1": lambda x: x.prod(1),
    "prod_0_2": lambda x: x.prod(2, keepdim=True).prod(0, keepdim=True),
    "nansum_1": lambda x: x.nansum(1),
    "nanmean_0_2": lambda x: x.nanmean((0, 2), keepdim=True),
    "any_all": lambda x: any_of(x, keepdim=True),
    "any_1": lambda x: x.any(1),
    "all_last": lambda x: x.all(-1),
    "all_0_2": lambda x: x.all((0, 2), keepdim=True),
    "count_all": torch.count_nonzero,
    "count_0_2": lambda x: x.count_nonzero((0, 2)),
    "norm_2": vector_norm(2),
    "norm_2_1": vector_norm(2, 1, True),
    "norm_1_last": vector_norm(1, -1),
    "norm_0_0": vector_norm(0, 0),
    "norm_inf_1": vector_norm(math.inf, 1),
    "norm_low_0_2": vector_norm(-math.inf, (0, 2)),
    "norm_3_0_2": vector_norm(3, (0, 2), True),
    "norm_half": vector_norm(0.5, -1),
    "norm_less": vector_norm(-1.5, -1),
    "both_ends": lambda x: 2 * x.amax(1) - x.amin(1),
    "max_along_1": lambda x: x.max(1).values,
    "min_along_last": lambda x: x.min(-1, keepdim=True).values,
    "logsumexp_0_2": lambda x: x.logsumexp((0, 2)),
    "recurrence": recurrence,
    "recurrence_back": recurrence_back,
    "cumsum_0": lambda x: x.cumsum(0),
    "cumsum_last": lambda x: x.cumsum(-1),
    "cumprod_1": lambda x: x.cumprod(1),
    "cumprod_0": lambda x: x.cumprod(0),
    "logcumsumexp_0": lambda x: x.logcumsumexp(0),
    "logcumsumexp_last": lambda x: x.logcumsumexp(-1),
    "cummax_1": lambda x: x.cummax(1).values,
    "cummin_last": lambda x: x.cummin(-1).values,
    "cummax_where": lambda x: x.cummax(0).indices,
    "cummin_where": lambda x: x.cummin(-1).indices,
    "diff_1": lambda x: x.diff(dim=1),
    "diff_twice": lambda x: x.diff(2),
    "logsumexp_all": lambda x: x.reshape(-1).logsumexp(0),
    "logsumexp_1": lambda x: x.logsumexp(1, keepdim=True),
    "argmax_0": lambda x: x.argmax(0),
    "argmax_last": lambda x: x.argmax(-1, keepdim=True),
    "argmin_1": lambda x: x.argmin(1),
    "sort_last": lambda x: x.sort(stable=True).values,
    "sort_0_down": lambda x: x.sort(stable=True, dim=0, descending=True).values,
    "argsort_last": lambda x: x.argsort(stable=True, dim=-1),
    "argsort_0_down": lambda x: x.argsort(stable=True, dim=0, descending=True),
    "topk_last": lambda x: x.topk(3).values,
    "topk_0_low": lambda x: x.topk(2, 0, False).values,
    "kthvalue_last": lambda x: x.kthvalue(5, keepdim=True).values,
    "kthvalue_0": lambda x: x.kthvalue(2, 0).values,
    "median_all": torch.median,
    "median_1": lambda x: x.median(1, True).values,
    "nanmedian_all": lambda x: x.nanmedian().reshape((1,) * x.ndim),
    "nanmedian_0": lambda x: x.nanmedian(0).values,
    "mode_1": lambda x: x.mode(1).values,
    "quantile_all": lambda x: x.quantile(0.3),
    "quantile_0": lambda x: x.quantile(0.75, 0, True, interpolation="midpoint"),
    "searchsorted": lambda x, v: torch.searchsorted(x.sort().values, v),
    "searchsorted_right": lambda x, v: torch.searchsorted(x.sort().values, v, right=True),
    "runs": lambda x: torch.unique_consecutive(x, return_inverse=True, dim=0)[1],
    "reshape_35": lambda x: x.reshape(5, -1, 7),
    "reshape_flat": lambda x: x.reshape(-1),
    "reshape_scalar": lambda x: x.reshape(()),
    "view_split": lambda x: x.reshape(3, 5, 7),
    "transpose_02": lambda x: x.transpose(0, 2),
    "permute_201": lambda x: x.permute(2, 0, 1),
    "slice_middle": lambda x: x[:, 1:-1:2],
    "slice_none": lambda x: x[2:2],
    "select_1": lambda x: x[:, -2],
    "expand_3": lambda x: x.expand(4, -1, 3, 5),
    "squeeze_all": torch.squeeze,
    "squeeze_1": lambda x: x.squeeze(1),
    "unsqueeze_1": lambda x: x.unsqueeze(1),
    "flatten_12": lambda x: x.flatten(1),
    "contiguous": lambda x: x.transpose(0, -1),
    "clone": torch.clone,
    "cat_0": lambda *x: torch.cat(x, 0),
    "cat_1": lambda *x: torch.cat(x, -1),
    "stack_1": lambda *x: torch.stack(x, 1),
    "split_middle": split,
    "cast": same,
    "cast_around": lambda x: x.to(torch.bfloat16).to(x.dtype),
    "transfer": same,
    "transfer_odd": lambda x: x.transpose(0, -1),
    "alias": same,
    "embed_inside": embed,
    "index_part": lambda x: x[1::2, -2, :-1],
    "index_one": lambda x: x[1, -1],
    "slice_back": lambda x: x.flip(1)[:, 1::3],
    "chunked": chunked,
    "unbound": lambda x: x[:, 2] - x[:, 0],
    "narrow_1": lambda x: x.narrow(1, -4, 3),
    "unflatten_1": lambda x: x.unflatten(1, (5, -1)),
    "movedim_02": lambda x: x.movedim((0, -1), (1, 0)),
    "diagonal_0": torch.diagonal,
    "diagonal_up": lambda x: x.diagonal(2, -1, 0),
    "diagonal_none": lambda x: x.diagonal(-3),
    "unfold_apart": lambda x: x.unfold(1, 2, 3),
    "unfold_shared": lambda x: x.unfold(0, 3, 2),
    "unfold_twice": lambda x: x.unfold(0, 3, 1).unfold(1, 2, 1),
    "unfold_scalar": lambda x: x.unfold(0, 1, 1),
    "part_backwards": lambda x: x.flip(1)[:, 1:8:3],
    "embed_shared": (
        lambda x: torch.zeros(13, dtype=x.dtype).index_add(
            0, torch.arange(20) // 5 * 2 + torch.arange(20) % 5 + 1, x.reshape(-1)
        )
    ),
    "replace_part": replace,
    "replace_inside": lambda x, v: -replace(x, v),
    "meshgrid_xy": crossed,
    "flip_all": lambda x: x.flip(tuple(range(x.ndim))),
    "flip_0": lambda x: x.flip(0),
    "roll_flat": lambda x: x.roll(-4),
    "roll_2": lambda x: x.roll((2, -1, 100), (0, 2, 0)),
    "repeat_3": lambda x: x.repeat(2, 3, 1, 2),
    "repeat_many": lambda x: x.repeat(2, 1, 3, 2, 2, 2),
    "repeat_none": lambda x: x.repeat(2, 0),
    "tile_1": lambda x: x.tile(3),
    "each_1": lambda x: x.repeat_interleave(3, 1),
    "each_last": lambda x: x.repeat_interleave(2, -1),
    "each_by": lambda x: x.repeat_interleave(torch.tensor([2, 0, 3]), 1),
    "pad_one": lambda x: F.pad(x, (1, 2, 0, 3), value=1),
    "pad_crop": lambda x: F.pad(x, (-1, 2, 4, -2)),
    "pad_reflect": padded("reflect", 2, 4, 1, 0),
    "pad_replicate": padded("replicate", 2, 7, 0, 1),
    "pad_circular": padded("circular", 2, 5, 1, 3),
    "pick_diagonal_low": lambda x: x.tril(-1),
    "pick_low": torch.tril,
    "pick_diagonal_high": lambda x: x.triu(1),
    "matmul": torch.matmul,
    "matmul_turned": lambda a, b: turned(a) @ turned(b),
    "addmm": torch.addmm,
    "addmm_scaled": lambda x, a, b: torch.addmm(x, a, b, beta=-2, alpha=3),
    "addmm_only": lambda x, a, b: torch.addmm(x, a, b, beta=0),
    "addmv": lambda x, a, v: torch.addmv(x, a, v, beta=2, alpha=-1),
    "addr": lambda x, u, v: torch.addr(x, u, v, alpha=3),
    "baddbmm": torch.baddbmm,
    "addbmm": lambda x, a, b: torch.addbmm(x, a, b, beta=2),
    "outer": torch.outer,
    "inner": torch.inner,
    "kron": torch.kron,
    "trace": torch.trace,
    "tensordot": lambda a, b: torch.tensordot(a, b, ([-1, 0], [0, 1])),
    "einsum_heads": lambda a, b: torch.einsum("bqhd,bkhd->bhqk", a, b),
    "einsum_three": lambda *x: torch.einsum("iji,jk,k", *x),
    "linear": linear(same),
    "linear_bare": linear(same),
    "linear_relu": linear(F.relu),
    "linear_gelu": linear(F.gelu),
    **dict.fromkeys(("linear_gelu_tanh", "linear_gelu_tanh_bare"), linear(lambda x: F.gelu(x, approximate="tanh"))),
    "linear_silu": linear(F.silu),
    "linear_tanh": linear(torch.tanh),
    "linear_sigmoid": linear(torch.sigmoid),
    "unpacked_8": lambda like: like + unpacked(*like.shape, 8),
    "unpacked_4": lambda like: like + unpacked(*like.shape, 4),
    "packed_8": packed_rows(7, 8),
    "packed_8_bare": packed_rows(5, 8, torch.tanh),
    "packed_8_long": packed_rows(131, 8),
    "packed_4": packed_rows(7, 4),
    "packed_4_gelu": packed_rows(7, 4, lambda y: F.gelu(y, approximate="tanh")),
    "packed_4_long": packed_rows(131, 4),
    "gather_0": lambda x, i: x.gather(0, i),
    "gather_1": lambda x, i: x.gather(1, i),
    "gather_narrow": lambda x, i: x.gather(-1, i),
    "scatter_add_0": scatter(0),
    "scatter_multiply_0": scatter_reduce(0, "prod"),
    "scatter_multiply_1": scatter_reduce(1, "prod"),
    "scatter_prod": scatter_reduce(0, "prod", False),
    "scatter_mean": scatter_reduce(1, "mean"),
    "scatter_mean_of": scatter_reduce(0, "mean", False),
    "scatter_amax": scatter_reduce(0, "amax"),
    "scatter_amax_of": scatter_reduce(1, "amax", False),
    "scatter_amin": scatter_reduce(1, "amin"),
    "scatter_amin_of": scatter_reduce(0, "amin", False),
    "scatter_add_1": scatter(1),
    "masked_fill": lambda x, m: x.masked_fill(m, -3.5),
    "masked_select": torch.masked_select,
    "masked_scatter": torch.masked_scatter,
    "nonzero": torch.nonzero,
    "one_hot": lambda i: F.one_hot(i, 7),
    "take_along_axis": lambda x, i: x.take_along_dim(i, 1),
    "take": lambda x, i: torch.take(x, i),
    "index_select_1": lambda x, i: x.index_select(1, i),
    "index_select_turned": lambda x, i: x.transpose(0, -1).index_select(0, i),
    "index_add_0": lambda x, i, s: x.index_add(0, i, s),
    "index_add_1": lambda x, i, s: x.index_add(1, i, s),
    "put_zeros": lambda g, i: torch.zeros(5, 7, dtype=g.dtype).index_add(0, i.reshape(-1), g.reshape(-1, 7)),
    "scatter_0": lambda x, s: x.scatter(0, places(4, 1).expand(4, 3), s),
    "scatter_value": lambda x, v: x.index_put((torch.arange(2)[:, None], places(2, 2)), v.reshape(())),
    "index_copy_1": lambda x, s: x.index_copy(1, places(4), s),
    "index_fill_1": lambda x, v: x.index_fill(1, places(4), v.reshape(())),
    "get_rows": lambda x, i: x[i],
    "get_twice": lambda x, i: x[i] * x[i].exp(),
    "get_pairs": lambda x, i, j: x[i, j[:, None]],
    "get_apart": lambda x, i, j: x[i, :, j],
    "get_mask": lambda x, m: x[:, m],
    "put_apart": lambda x, j, v: x.index_put((places(2, 2)[:, :, None], torch.arange(3), j[:, :, None]), v),
    "put_mask": lambda x, m, v: torch.where(m.reshape(m.shape + (1,) * (2 - m.ndim)), v, x),
    "ravel": lambda i, j: i % 5 * 11 + j % 11,
    "put_added": lambda x, i, v: x.index_put((i[0], i[1]), v, accumulate=True),
    "softmax_last": lambda x: x.softmax(-1),
    "softmax_0": lambda x: x.softmax(0),
    "log_softmax_last": lambda x: x.log_softmax(-1),
    "log_softmax_1": lambda x: x.log_softmax(1),
    "layer_norm": norm(1e-5),
    "layer_norm_w": norm(1e-3),
    "layer_norm_bare": norm(1e-5),
    "residual_layer_norm": lambda x, w, b: -(x + norm(1e-5)(x, w, b).tanh()),
    "residual_rms_norm": lambda x, w: -(x + rms(x, w).tanh()),
    "rms_norm": rms,
    "rms_norm_bare": rms,
    "embedding": lambda w, i: w[i],
    "embedding_narrow": lambda w, i: w[i],
    "cross_entropy": cross(-100, 0, "mean"),
    "cross_entropy_ignore": cross(2, 0, "mean"),
    "cross_entropy_smooth": cross(0, 0.1, "mean"),
    "cross_entropy_sum": cross(-1, 0, "sum"),
    "cross_entropy_each": cross(1, 0.2, "none"),
    "linear_cross_entropy": lambda x, w, t: cross(-100, 0, "mean")(F.linear(x, w), t),
    "linear_cross_entropy_each": lambda x, w, t: cross(1, 0.2, "none")(F.linear(x, w), t),
    "dropout_off": same,
    "conv": conv(),
    "conv_bare": conv(),
    "conv_uneven": conv((2, 1, 3), (1, 2, 1), ((1, 0), (2, 3), (0, 2))),
    "conv_groups": conv((2, 1), (1, 2), ((1, 1), (2, 2)), 3),
    "conv_same": conv(pad=((1, 1),) * 3),
    "conv_channels_last": lambda x, w, b: conv(pad=((1, 1),) * 3)(x.permute(0, 3, 1, 2), w, b),
    "conv_depthwise": conv(pad=((1, 1),) * 3, groups=0),
    "conv_transpose": conv_transpose(),
    "conv_transpose_uneven": conv_transpose((2, 3, 1), (2, 1, 1), ((1, 0), (0, 0), (1, 0))),
    "conv_transpose_groups": conv_transpose((2, 1), (1, 2), ((1, 1), (2, 2)), 3),
    "attention": attention(False),
    "attention_causal": attention(True),
    "attention_scaled": attention(True, 0.7),
    "attention_packed": packed(attention(False)),
    "attention_packed_window": packed(attention(True, 0.7, 3)),
    "attention_heads": heads,
    "rope": rope(False),
    "rope_interleaved": rope(True),
    "rope_heads": lambda x, table: rope(False)(x.transpose(1, 2), table),
    "attention_window": attention(True, window=3),
    "attention_shift": attention(True, window=4, top=True),
    "attention_mask_window": masked(True, 40),
    "attention_mask": masked(False),
    "attention_mask_causal": masked(True),
    "max_pool_2": lambda x: F.max_pool2d(x, 2),
    "max_pool_8": lambda x: F.max_pool2d(x, 8),
    "max_pool_8_where": lambda x: F.max_pool2d(x, 8, return_indices=True)[1],
    "max_pool_pairs": lambda x: F.max_pool1d(x, 2),
    "max_pool_3": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool_odd": lambda x: F.max_pool2d(x, (3, 2), (1, 3), (1, 0), (2, 1), True),
    "max_pool_line": lambda x: F.max_pool1d(x, 5, 3, 2, ceil_mode=True),
    "max_pool_box": batched(F.max_pool3d, (2, 3, 2), (1, 2, 3), (1, 0, 1), (1, 1, 2)),
    "max_pool_where": lambda x: F.max_pool2d(x, 3, (2, 1), (0, 1), return_indices=True)[1],
    "avg_pool_2": lambda x: F.avg_pool2d(x, 2),
    "avg_pool_pad": lambda x: F.avg_pool2d(x, (3, 5), (2, 3), (1, 2), True, False),
    "avg_pool_box": batched(F.avg_pool3d, (2, 3, 2), (1, 2, 2), 1, True, divisor_override=5),
    "adaptive_avg": lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
    "adaptive_one": lambda x: F.adaptive_avg_pool2d(x, 1),
    "adaptive_none": lambda x: x[:, :0],
    "adaptive_max": lambda x: F.adaptive_max_pool2d(x, (3, 2)),
    "adaptive_max_where": lambda x: F.adaptive_max_pool2d(x, (4, 3), True)[1],
    "resize_nearest": resized(10, 3),
    "resize_double": resized(10, 14),
    "resize_exact": resized(3, 11, mode="nearest-exact"),
    "resize_linear": resized(10, 3, mode="bilinear"),
    "resize_corners": resized(3, 14, mode="bilinear", align_corners=True),
    "resize_cubic": resized(11, 14, mode="bicubic"),
    "resize_smooth": resized(2, 3, mode="bicubic", antialias=True),
    "resize_line": lambda x: resized(1, 4, mode="bilinear", antialias=True)(x[:, None])[:, 0],
    "batch_norm": batch_norm(1e-5),
    "batch_norm_w": batch_norm(1e-3),
    "batch_norm_fixed": batch_norm_fixed,
    "batch_norm_bare": batch_norm(1e-5),
    "batch_norm_turned": lambda x, w, b: batch_norm(1e-5)(x.transpose(1, 2), w, b),
    "batch_norm_with": lambda x, m, v, w: (x - m[:, None]) * (v * v + 1e-2).rsqrt()[:, None] * w[:, None] + m[:, None],
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "group_norm_w": lambda x, w: F.group_norm(x, 3, w, eps=1e-3),
    "cholesky": lambda x: torch.linalg.cholesky(symmetric(x)),
    "lu_factor": lambda x: torch.linalg.lu_factor(spread(x))[0],
    "solve_upper": lambda a, b: torch.linalg.solve_triangular(spread(a), b, upper=True),
    "solve_unit": lambda a, b: torch.linalg.solve_triangular(a * 0.1, b, upper=False, unitriangular=True),
    "solve": lambda a, b: torch.linalg.solve(spread(a), b),
    "qr": lambda x: (lambda q, r: q.tanh() @ r.tanh())(*torch.linalg.qr(spread(x))),
    "eigh": lambda x: (lambda w, v: v * v + w.tanh()[..., None])(*torch.linalg.eigh(symmetric(x))),
    "svd": lambda x: (lambda u, s, vh: (u * u * s[..., None, :]) @ (vh * vh))(*torch.linalg.svd(spread(x), False)),
    "eigvalsh": lambda x: torch.linalg.eigvalsh(symmetric(x)),
    "svdvals": lambda x: torch.linalg.svdvals(spread(x)),
    "rnn_tanh": recurrent("rnn_tanh"),
    "rnn_relu": recurrent("rnn_relu", bias=False, reverse=True, packed=PACKED),
    "gru": recurrent("gru"),
    "gru_plain": recurrent("gru", bias=False, reverse=True),
    "gru_packed": recurrent("gru", packed=PACKED),
    "gru_packed_many": recurrent("gru", packed=PACKED_MANY),
    "lstm": recurrent("lstm"),
    "lstm_plain": recurrent("lstm", bias=False, reverse=True),
    "lstm_packed": recurrent("lstm", reverse=True, packed=PACKED),
    "lstm_packed_many": recurrent("lstm", reverse=True, packed=PACKED_MANY),
    "lstm_projected": recurrent("lstm", packed=PACKED),
}


def weighted(x: Tensor, a: int, b: int, m: int) -> float:
    return float((x.detach().to(torch.float64).reshape(-1) * weights(x.numel(), a, b, m)).sum())


def evaluate(name: str, texts: list[str]) -> tuple[float, list[float]]:
    inputs = [make(text, k) for k, text in enumerate(texts)]
    y = FUNCTIONS[name](*inputs)
    grads = [0.0] * max(3, len(inputs))
    if y.requires_grad:
        y.backward(weights(y.numel(), 613, 17, 499).reshape(y.shape))
        grads[: len(inputs)] = [0.0 if x.grad is None else weighted(x.grad, 389, 5, 251) for x in inputs]
    return weighted(y, 613, 17, 499), grads


def main() -> None:
    here = Path(__file__).parent
    out = [
        (
            "/* structured.h - what PyTorch says about every structured case of tests/ops_cases.h: weighted sums of the"
            " value and of each gradient."
        ),
        f" * Generated by tests/golden/structured.py with PyTorch {torch.__version__.split('+')[0]}. */",
        "",
        "typedef struct golden_case { const char *op, *what; double value, grad[4]; } golden_case;",
        "",
        "static const golden_case golden_cases[] = {",
    ]
    for op, what, name, rest in re.findall(
        r'^    \{"(\w+)",\s*"([^"]*)",\s*(\w+),\s*\w+,\s*\w+,\s*[\d <]+,\s*(\{\{.*?\}\})\},$',
        (here.parent / "ops_cases.h").read_text(),
        re.MULTILINE | re.DOTALL,
    ):
        if name == "dropout" or op in ("unpack", "linear_packed"):  # our mask; formats of GGUF files
            continue
        value, grads = evaluate(name, re.findall(r"\{([^{}]+)\}", rest))
        out.append(f'    {{"{op}", "{what}", {value!r}, {{{", ".join(map(repr, grads))}}}}},')
    (here / "structured.h").write_text("\n".join([*out, "};"]) + "\n")


if __name__ == "__main__":
    main()
