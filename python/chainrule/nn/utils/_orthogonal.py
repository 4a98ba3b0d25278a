"""Orthogonal matrices from free parameters, and back, by differentiable ops: for ``parametrizations.orthogonal``."""

from __future__ import annotations

from ... import _core
from ..._core import Tensor
from ...autograd import no_grad
from ...linalg import householder_product, qr, solve


def _eye(n: int, like: Tensor) -> Tensor:
    return _core.eye(n, dtype=like.dtype, device=like.device)


def cayley(a: Tensor) -> Tensor:
    """(I - A/2)^-1 (I + A/2) of a skew-symmetric A : (..., n, n)"""
    eye = _eye(a.size(-1), a)
    return solve(eye - a / 2, eye + a / 2)


def householder(a: Tensor) -> Tensor:
    """The first columns of the product of the reflections I - 2 v v^T / |v|^2, v column i of A below
    the diagonal and 1 on it : (..., n, k) -> (..., n, k)"""
    return householder_product(a, 2 / (1 + a.tril(-1).square().sum(-2)))


@no_grad()
def orthonormal(a: Tensor) -> Tensor:
    """Q of A = Q R, R with a diagonal that is not negative : (..., n, k), k <= n"""
    q, r = qr(a)
    return q * _core.where(r.diagonal(0, -2, -1) < 0, -1.0, 1.0).to(q.dtype).unsqueeze(-2)


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
