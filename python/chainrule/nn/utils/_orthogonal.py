"""Orthogonal matrices from free parameters, and back, by differentiable ops: for ``parametrizations.orthogonal``."""

from __future__ import annotations

import math

from ... import _core
from ..._core import Tensor
from ...autograd import no_grad


def _eye(n: int, like: Tensor) -> Tensor:
    return _core.eye(n, dtype=like.dtype, device=like.device)


def matrix_exp(a: Tensor) -> Tensor:
    """e^A = (e^(A / 2^s))^(2^s), by Taylor's series where the norm is below 1/2 : (..., n, n)"""
    norm = float(a.detach().abs().sum(-1).max().item()) if a.numel() else 0.0
    squarings = max(0, math.ceil(math.log2(norm)) + 1) if norm > 0.5 else 0
    scaled = a / 2**squarings
    total = term = _eye(a.size(-1), a).expand(a.shape)
    for k in range(1, 17):  # 0.5^17 / 17! < 1e-19
        term = term @ scaled / k
        total = total + term
    for _ in range(squarings):
        total = total @ total
    return total


def cayley(a: Tensor) -> Tensor:
    """(I - A/2)^-1 (I + A/2) of a skew-symmetric A : (..., n, n).  By elimination without pivots:
    the symmetric part of the matrix is I, so that no pivot is below 1."""
    eye = _eye(a.size(-1), a).expand(a.shape)
    left, right = eye - a / 2, eye + a / 2
    n = a.size(-1)
    for i in range(n):
        pivot = left[..., i : i + 1, i : i + 1]
        row, value = left[..., i : i + 1, :] / pivot, right[..., i : i + 1, :] / pivot
        others = left[..., :, i : i + 1] - eye[..., :, i : i + 1]  # row i keeps row / pivot
        left, right = left - others @ row, right - others @ value
    return right


def householder(a: Tensor) -> Tensor:
    """The first columns of the product of the reflections I - 2 v v^T / |v|^2, v column i of A below
    the diagonal and 1 on it : (..., n, k) -> (..., n, k)"""
    n, k = a.shape[-2:]
    vectors = a.tril(-1) + _eye(n, a)[:, :k]
    q = _eye(n, a)[:, :k].expand(a.shape)
    for i in reversed(range(k)):
        v = vectors[..., i : i + 1]
        q = q - 2 / v.square().sum((-2, -1), keepdim=True) * v @ (v.mT @ q)
    return q


@no_grad()
def orthonormal(a: Tensor) -> Tensor:
    """Q of A = Q R, R with a diagonal that is not negative, by Gram and Schmidt, twice : (..., n, k), k <= n"""
    columns: list[Tensor] = []
    for i in range(a.size(-1)):
        v = a[..., i : i + 1]
        for _ in range(2):
            for q in columns:
                v = v - q * (q * v).sum(-2, keepdim=True)
        columns.append(v / v.norm(2, -2, keepdim=True))
    return _core.cat(columns, -1) if columns else a


@no_grad()
def reflections(q: Tensor) -> Tensor:
    """Undoes ``householder`` of an orthonormal Q: below the diagonal the vectors, on it the signs
    that the columns have : (..., n, k)"""
    rest, out = q.clone(), _core.zeros_like(q)
    for i in range(q.size(-1)):
        x = rest[..., i:, i : i + 1]
        norm, first = x.norm(2, -2, keepdim=True), x[..., :1, :]
        sign = _core.where(first >= 0, 1.0, -1.0).to(q.dtype)
        v = x.clone()
        v[..., :1, :] += sign * norm
        v = v / v[..., :1, :]
        rest[..., i:, :] -= 2 / v.square().sum(-2, keepdim=True) * v @ (v.mT @ rest[..., i:, :])
        out[..., i:, i : i + 1] = v
        out[..., i, i] = -sign[..., 0, 0]
    return out
