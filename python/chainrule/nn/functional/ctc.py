"""Connectionist temporal classification (Graves et al. 2006) as a function."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ... import _core
from ..._core import Tensor

__all__ = ["ctc_loss"]

NEVER = -1e30  # the logarithm of no chance: sums of infinities would be NaN


def _lengths(what: str, lengths: Tensor | Sequence[int], batch: int, most: int) -> Tensor:
    lengths = lengths if isinstance(lengths, Tensor) else _core.tensor([*lengths], dtype=_core.int64)
    if lengths.is_floating_point():
        raise RuntimeError(f"[ctc_loss] {what}_lengths must be integral, got {lengths.dtype}")
    lengths = lengths.to("cpu", _core.int64).reshape(-1)
    if lengths.numel() != batch:
        raise RuntimeError(f"[ctc_loss] {what}_lengths must be of size batch_size: {lengths.numel()} for {batch}")
    if batch and (int(lengths.min()) < 0 or int(lengths.max()) > most):
        raise RuntimeError(f"[ctc_loss] {what}_lengths must be between 0 and {most}, got {lengths.tolist()}")
    return lengths


def _rows(targets: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """One row a sequence, blanks behind its end : (N, S), or (sum of lengths) one behind the other -> (N, longest)"""
    at = _core.arange(max([0, *lengths.tolist()]), device="cpu")
    behind = at >= lengths.unsqueeze(1)
    if targets.ndim == 2:
        return targets[:, : len(at)].masked_fill(behind, blank)
    start = (lengths.cumsum(0) - lengths).unsqueeze(1)
    return (
        targets.take((start + at).masked_fill(behind, 0)).masked_fill(behind, blank) if len(targets) else behind.long()
    )


def _forward(x: Tensor, rows: Tensor, times: Tensor, sizes: Tensor, blank: int) -> Tensor:
    """-log of the sum of alpha, the chances of all alignments so far by the position s that they
    have reached among the labels with blanks around them : (N)"""
    steps, batch, _ = x.shape
    labels = _core.full((batch, 2 * rows.size(1) + 1), blank, device="cpu")
    labels[:, 1::2] = rows
    skips = _core.zeros_like(labels, dtype=_core.bool)  # from s - 2: past a blank between unequal labels
    skips[:, 3::2] = rows[:, 1:] != rows[:, :-1]
    barrier = _core.zeros_like(labels, dtype=x.dtype).masked_fill(~skips, NEVER).to(x.device)
    emitted = x.gather(2, labels.to(x.device).unsqueeze(0).expand(steps, -1, -1))
    alpha = _core.full_like(labels, NEVER, dtype=x.dtype)
    alpha[:, 0] = 0  # before the first step
    alpha = alpha.to(x.device)
    shortest = min(times.tolist(), default=0)
    for t, log_chance in enumerate(emitted.unbind(0)):
        before = _core.pad(alpha, (2, 0), value=NEVER)
        after = alpha.logaddexp(before[:, 1:-1]).logaddexp(before[:, :-2] + barrier) + log_chance
        alpha = after if t < shortest else _core.where((t < times).to(x.device).unsqueeze(1), after, alpha)
    last = (2 * sizes).to(x.device).unsqueeze(1)
    ends = alpha.gather(1, (last - 1).clamp(min=0)).masked_fill(last == 0, NEVER)
    return -alpha.gather(1, last).logaddexp(ends).squeeze(1)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the chance of the targets, summed over all alignments: a label may last several
    steps, blanks may stand between labels and must between equal ones : log_probs (T, N, C) or (T,
    C), targets (N, S) or (sum of target_lengths), lengths (N) -> () or (N).  "mean" divides each
    loss by its target's length first. zero_infinity: 0 where no alignment is long enough, else
    infinity."""
    if log_probs.ndim not in (2, 3):
        raise RuntimeError(f"[ctc_loss] log_probs must be (T, N, C) or (T, C), got {list(log_probs.shape)}")
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    single = log_probs.ndim == 2
    x = log_probs.unsqueeze(1) if single else log_probs
    steps, batch, classes = x.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"[ctc_loss] blank must be in label range 0 to {classes - 1}, got {blank}")
    if targets.is_floating_point() or targets.ndim not in (1, 2):
        raise RuntimeError(
            f"[ctc_loss] targets must be integral (N, S) or (sum of lengths), got {targets.dtype} {list(targets.shape)}"
        )
    targets = targets.to("cpu", _core.int64)
    times = _lengths("input", input_lengths, batch, steps)
    sizes = _lengths("target", target_lengths, batch, targets.size(-1))
    if targets.ndim == 2 and len(targets) != batch or targets.ndim == 1 and sum(sizes.tolist()) != len(targets):
        raise RuntimeError(
            f"[ctc_loss] targets {list(targets.shape)} do not have the batch {batch} and the lengths {sizes.tolist()}"
        )
    rows = _rows(targets, sizes, blank)
    if rows.numel() and not 0 <= rows.min().item() <= rows.max().item() < classes:
        raise IndexError(
            f"[ctc_loss] targets must be 0 ... {classes - 1}, the classes of log_probs {list(x.shape)}, got"
            f" {rows.min().item()} ... {rows.max().item()}"
        )
    wide = x if x.dtype in (_core.float32, _core.float64) else x.float()  # half precision has no logarithm of no chance
    loss = _forward(wide, rows, times, sizes, blank)
    loss = loss.masked_fill(loss > -0.5 * NEVER, 0.0 if zero_infinity else math.inf)
    if reduction == "mean":
        loss = (loss / sizes.clamp(min=1).to(x.device)).mean()
    elif reduction == "sum":
        loss = loss.sum()
    elif single:
        loss = loss.squeeze(0)
    return loss.to(x.dtype)
