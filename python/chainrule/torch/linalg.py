"""``chainrule.linalg``, and the norms and products that are compositions of the core's functions."""

from __future__ import annotations

from typing import Any

import chainrule as cr

from . import _names

__getattr__ = _names.forward(__name__, "chainrule.linalg")
if not hasattr(cr, "linalg"):

    def vector_norm(
        x: cr.Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: cr.dtype | None = None
    ) -> cr.Tensor:
        """sum(|x|^ord)^(1/ord) over the axes ``dim``, all when absent."""
        return cr.norm(x, ord, dim, keepdim, dtype)

    def matrix_norm(
        A: cr.Tensor,  # noqa: N803, PyTorch's name
        ord: float | str = "fro",
        dim: Any = (-2, -1),
        keepdim: bool = False,
        *,
        dtype: cr.dtype | None = None,
    ) -> cr.Tensor:
        """Of matrices in the axes ``dim``: "fro", or the largest (-: smallest) sum of |a| of a column (1) or row (inf).
        NotImplementedError: "nuc", 2 and -2, which need singular values."""
        if ord == "fro":
            return cr.norm(A, 2, dim, keepdim, dtype)
        if ord not in (1, -1, float("inf"), -float("inf")):
            raise NotImplementedError(f"linalg.matrix_norm: ord={ord!r} needs singular values; use numpy.linalg.norm")
        rows, columns = (d % A.ndim for d in dim)
        x = (A if dtype is None else A.to(dtype)).abs()
        inner, outer = (rows, columns) if abs(float(ord)) == 1 else (columns, rows)
        sums = x.sum(inner, keepdim=True)
        most = sums.amax(outer, keepdim=True) if float(ord) > 0 else sums.amin(outer, keepdim=True)
        return most if keepdim else most.squeeze((rows, columns))

    def norm(
        A: cr.Tensor,  # noqa: N803, PyTorch's name
        ord: Any = None,
        dim: Any = None,
        keepdim: bool = False,
        *,
        dtype: cr.dtype | None = None,
    ) -> cr.Tensor:
        """A vector's or a matrix's norm, by the number of axes; the 2-norm of all elements without ``ord``."""
        if ord is None:
            return vector_norm(A, 2, dim, keepdim, dtype=dtype)
        axes = tuple(range(A.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
        if len(axes) == 2:
            return matrix_norm(A, ord, axes, keepdim, dtype=dtype)
        return vector_norm(A, ord, axes, keepdim, dtype=dtype)

    def cross(input: cr.Tensor, other: cr.Tensor, *, dim: int = -1) -> cr.Tensor:
        """The cross products along an axis of size 3."""
        return cr.cross(input, other, dim)

    def vander(x: cr.Tensor, *, N: int | None = None) -> cr.Tensor:  # noqa: N803, PyTorch's name
        """The powers 0 ... N - 1 of a vector's elements as columns."""
        return cr.vander(x, N, True)

    matmul, diagonal = cr.matmul, cr.diagonal
