"""Sequences of different lengths in one batch: padded, or packed.

Letters in shapes: B sequences, T the longest length, N the sum of all lengths.  A packed batch holds
the steps of all sequences at time 0, then those at time 1, and so on.  The longest sequence is the
first, so ``batch_sizes`` never grows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ... import _core
from ..._core import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Packed(NamedTuple):
    data: Tensor  # (N, ...)
    batch_sizes: Tensor  # (T) int64 on the cpu: how many sequences have a step at this time
    sorted_indices: Tensor | None  # (B): the sequence at each position
    unsorted_indices: Tensor | None  # (B): the position of each sequence


class PackedSequence(_Packed):
    """The steps of B sequences, time by time: what ``pack_padded_sequence`` makes and recurrent layers take."""

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            data, batch_sizes = data  # a pair
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually, but"
                " by pack_padded_sequence and pack_sequence"
            )
        return super().__new__(
            cls,
            data,
            batch_sizes,
            sorted_indices,
            invert_permutation(sorted_indices) if unsorted_indices is None else unsorted_indices,
        )

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With ``data.to(...)``, and the indices on its device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        order = [None if i is None else i.to(data.device) for i in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(data, self.batch_sizes, *order)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """``to("cuda")``"""
        return self.to("cuda", *args, **kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """``to("cpu")``"""
        return self.to("cpu", *args, **kwargs)

    def double(self) -> PackedSequence:
        """``to(float64)``"""
        return self.to(_core.float64)

    def float(self) -> PackedSequence:
        """``to(float32)``"""
        return self.to(_core.float32)

    def half(self) -> PackedSequence:
        """``to(float16)``"""
        return self.to(_core.float16)

    @property
    def is_cuda(self) -> bool:
        """Is data on an NVIDIA GPU?"""
        return self.data.device.type == "cuda"

    def is_pinned(self) -> bool:
        """Never."""
        return False

    def pin_memory(self) -> PackedSequence:
        """Itself: no memory is pinned."""
        return self


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """y with y[permutation[i]] = i; None of None."""
    if permutation is None:
        return None
    return _core.empty_like(permutation).scatter_(
        0, permutation, _core.arange(len(permutation), device=permutation.device)
    )


def _flat_indices(sizes: list[int], batch: int) -> list[int]:
    """Where the rows of a packed batch lie in a padded one, (T, B) flattened."""
    return [t * batch + b for t, size in enumerate(sizes) for b in range(size)]


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The steps within ``lengths`` : (T, B, ...), (B) -> data (N, ...); with ``batch_first`` (B, T, ...).

    enforce_sorted: lengths never grow; otherwise sequences are sorted first, and ``pad_packed_sequence`` and recurrent
    layers undo that."""
    each = [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    order = None
    if not enforce_sorted:
        order = _core.tensor(sorted(range(len(each)), key=lambda i: -each[i]), dtype=_core.int64, device=input.device)
        if input.ndim > (0 if batch_first else 1) and len(each) == input.shape[0 if batch_first else 1]:
            input = input.index_select(0 if batch_first else 1, order)
        each = sorted(each, reverse=True)
    if batch_first:
        input = input.transpose(0, 1)
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if len(each) != input.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(each)} (batch_size={input.shape[1]})"
        )
    if each[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(a < b for a, b in zip(each, each[1:], strict=False)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass"
            " `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you"
            " do not need ONNX exportability."
        )
    if each[0] > len(input):
        raise RuntimeError(f"Expected lengths of at most {len(input)} steps, the input's, but got {each[0]}")
    sizes = [sum(n > t for n in each) for t in range(each[0])]
    batch = _core.tensor(sizes, dtype=_core.int64)
    if sizes[-1] == len(each):  # all of one length
        return PackedSequence(input[: each[0]].flatten(0, 1), batch, order)
    indices = _core.tensor(_flat_indices(sizes, len(each)), dtype=_core.int64, device=input.device)
    return PackedSequence(input.flatten(0, 1).index_select(0, indices), batch, order)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The opposite of ``pack_padded_sequence``: data (N, ...) -> (T, B, ...) with ``padding_value`` behind the ends,
    and the lengths (B).  total_length: T, where it is larger than the longest length."""
    data, batch_sizes, _, unsorted = sequence
    sizes: list[int] = batch_sizes.tolist()
    steps, batch = len(sizes), sizes[0]
    if total_length is not None and total_length < steps:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got"
            f" total_length={total_length} and max sequence length being {steps}"
        )
    padded = _core.full(
        ((total_length or steps) * batch, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device
    )
    indices = _core.tensor(_flat_indices(sizes, batch), dtype=_core.int64, device=data.device)
    padded = padded.index_copy(0, indices, data).unflatten(0, (-1, batch))
    lengths = _core.tensor([sum(size > b for size in sizes) for b in range(batch)], dtype=_core.int64)
    if unsorted is not None:
        padded, lengths = padded.index_select(1, unsorted), lengths[unsorted.cpu()]
    return padded.transpose(0, 1) if batch_first else padded, lengths


def pad_sequence(
    sequences: Tensor | Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences (L_b, ...) as one batch (T, B, ...), or (B, T, ...), with ``padding_value`` on one side."""
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"padding_side should be one of 'left' or 'right', but got {padding_side}")
    if not isinstance(sequences, Tensor) and not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    each = list(sequences)
    if not each:
        raise RuntimeError("received an empty list of sequences")
    steps = max(len(s) for s in each)
    rows = []
    for s in each:
        gap = s.new_full((steps - len(s), *s.shape[1:]), padding_value)
        rows.append(s if len(s) == steps else _core.cat([s, gap] if padding_side == "right" else [gap, s]))
    return _core.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences (L_b, ...) of a padded batch (T, B, ...), or (B, T, ...)."""
    each = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [s[: int(n)] for s, n in zip(each, lengths.tolist(), strict=False)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences (L_b, ...) as one packed batch."""
    lengths = _core.tensor([len(s) for s in sequences], dtype=_core.int64)
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences (L_b, ...) of a packed batch."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))
