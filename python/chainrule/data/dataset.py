"""Datasets: samples by number or one after another, and datasets made of others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

from .. import _core
from .._core import Generator, Tensor

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]


class Dataset:
    """Samples by number.  A subclass defines ``__getitem__(i)`` and ``__len__()``, and may define
    ``__getitems__(numbers)``, which gives the samples of a batch at once."""

    def __class_getitem__(cls, kind: Any) -> Any:
        return cls  # Dataset[Tensor]

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")

    def __add__(self, other: Any) -> Dataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Samples one after another.  A subclass defines ``__iter__()``.  Each worker of a loader goes over
    all of it, unless ``__iter__`` asks ``get_worker_info()`` for its part."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")

    def __add__(self, other: Any) -> Dataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Sample i is (t[i] for each tensor t); all have the same first size.  A DataLoader takes a
    batch of them at once."""

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors or any(not t.ndim or len(t) != len(tensors[0]) for t in tensors):
            raise AssertionError(
                f"Size mismatch between tensors: {', '.join(str(tuple(t.shape)) for t in tensors) or 'there is none'}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])

    def batch(self, indices: Tensor) -> list[Tensor]:
        """The samples of those numbers : (B) -> (B, ...) of each tensor"""
        return [t.index_select(0, indices) for t in self.tensors]


class Subset(Dataset):
    """The samples of ``dataset`` with these numbers, in their order."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """The samples of a batch."""
        numbers = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(numbers)  # type: ignore[no-any-return]
        return [self.dataset[i] for i in numbers]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """The samples of several datasets, one dataset after another."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(accumulate(map(len, self.datasets)))

    def __getitem__(self, index: int) -> Any:
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"sample {index} of a dataset of {size}")
        index %= size
        which = bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset):
    """The samples of several iterable datasets, one dataset after another."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class StackDataset(Dataset):
    """Sample i is (d[i] for each dataset d), or {name: d[i]} of datasets given by name; all have the same length."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset takes datasets, or datasets by name, and at least one of them")
        self.datasets: Any = args or kwargs
        self._length = len((args or tuple(kwargs.values()))[0])
        if any(len(d) != self._length for d in args or kwargs.values()):
            raise ValueError("Size mismatch between datasets")

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.datasets, dict):
            return {name: d[index] for name, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __len__(self) -> int:
        return self._length


def random_split(dataset: Any, lengths: Sequence[int | float], generator: Generator | None = None) -> list[Subset]:
    """Parts of a dataset without common samples, in random order.  lengths: of the parts; or fractions
    whose sum is 1: a part then has floor(fraction n) samples, and the rest goes to the first parts,
    one each.  ValueError: their sum is another."""
    n = len(dataset)
    sizes = [*lengths]
    if all(0 <= s <= 1 for s in sizes) and abs(sum(sizes) - 1) < 1e-9 and any(isinstance(s, float) for s in sizes):
        sizes = [int(n * s) for s in sizes]
        for i in range(n - int(sum(sizes))):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != n or any(not isinstance(s, int) or s < 0 for s in sizes):
        raise ValueError(
            f"Sum of input lengths does not equal the length of the input dataset: lengths {list(lengths)}, {n} samples"
        )
    order = _core.randperm(n, generator=generator or _core.default_generator).tolist()
    ends = [0, *accumulate(int(s) for s in sizes)]
    return [Subset(dataset, order[a:b]) for a, b in zip(ends[:-1], ends[1:], strict=True)]
