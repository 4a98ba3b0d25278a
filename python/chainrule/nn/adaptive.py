"""The softmax of very many classes in clusters by frequency (Grave et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .. import _core
from .._core import Device, Tensor
from .containers import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class ASMoutput(NamedTuple):
    """Result of ``AdaptiveLogSoftmaxWithLoss``: log-probabilities of the targets (N), and minus their mean ()."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """log softmax over ``n_classes``, sorted from frequent to rare : (N, in_features), classes (N).
    The classes below cutoffs[0] have logits of their own in ``head``, which has one more for each
    cluster cutoffs[i] ... cutoffs[i + 1] - 1; cluster i has its logits through a layer of width
    in_features / div_value^(i + 1)."""

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Device | str | None = None,
        dtype: _core.dtype | None = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(set(cutoffs))
            or cutoffs[0] <= 0
            or cutoffs[-1] > n_classes - 1
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each"
                " value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width, size = int(in_features // div_value ** (i + 1)), self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(Linear(in_features, width, False, device, dtype), Linear(width, size, False, device, dtype))
            )

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        self.head.reset_parameters()
        for into, out in self.tail:
            into.reset_parameters()
            out.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> ASMoutput:
        """The log-probabilities of the targets, and minus their mean : (N, in_features), (N), or (in_features), ()"""
        if input.ndim not in (1, 2) or target.ndim != input.ndim - 1 or input.shape[:-1] != target.shape:
            raise RuntimeError(
                "Input and target should have the same size in the batch dimension, and target one axis less, but got"
                f" {list(input.shape)} and {list(target.shape)}"
            )
        rows, classes = (input, target) if input.ndim == 2 else (input.unsqueeze(0), target.unsqueeze(0))
        if classes.numel() and (int(classes.min()) < 0 or int(classes.max()) >= self.n_classes):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{int(classes.min())},"
                f" {int(classes.max())}] were found. "
            )
        cluster, output = classes, _core.zeros(len(rows), dtype=input.dtype, device=input.device)
        for i, layer in enumerate(self.tail):
            low, high = self.cutoffs[i], self.cutoffs[i + 1]
            mine = (classes >= low).logical_and(classes < high)
            at = mine.nonzero().squeeze(1)
            if at.numel():
                logs = layer(rows.index_select(0, at)).log_softmax(1)
                own = logs.gather(1, (classes.index_select(0, at) - low).unsqueeze(1)).squeeze(1)
                output = output.index_add(0, at, own)
                cluster = cluster.masked_fill(mine, self.shortlist_size + i)
        output = output + self.head(rows).log_softmax(1).gather(1, cluster.unsqueeze(1)).squeeze(1)
        loss = -output.mean()
        return ASMoutput(output if input.ndim == 2 else output.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes : (N, in_features) -> (N, n_classes)"""
        head = self.head(input).log_softmax(-1)
        parts = [head[:, : self.shortlist_size]]
        for i, layer in enumerate(self.tail):
            parts.append(layer(input).log_softmax(-1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return _core.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class : (N, in_features) -> (N)"""
        return self.log_prob(input).argmax(1)
