"""Samplers: the order in which a loader takes samples, as iterables of numbers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any

from .. import _core
from .._core import Generator, Tensor

__all__ = [
    "BatchSampler",
    "DistributedSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]


def _positive(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} should be a boolean value, but got {name}={value}")
    return value


class Sampler:
    """An order of samples.  A subclass defines ``__iter__()``, which gives numbers, and may define ``__len__()``."""

    def __init__(self, data_source: Any = None) -> None:
        pass

    def __class_getitem__(cls, kind: Any) -> Any:
        return cls  # Sampler[int]

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """The numbers in random order; ``replacement``: ``num_samples`` independent draws.  More
    ``num_samples`` than samples without replacement: several orders, one after another."""

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source, self.generator = data_source, generator
        self.replacement = _flag("replacement", replacement)
        self._num_samples = None if num_samples is None else _positive("num_samples", num_samples)

    @property
    def num_samples(self) -> int:
        """How many numbers an iteration gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, count, generator = len(self.data_source), self.num_samples, self.generator or _core.default_generator
        if self.replacement:
            while count > 0:  # in parts: a sampler without end is one with a very large num_samples
                yield from _core.randint(n, (min(count, 4096),), generator=generator).tolist()
                count -= 4096
            return
        while count > 0 < n:
            yield from _core.randperm(n, generator=generator)[:count].tolist()
            count -= n

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """These numbers in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        order = _core.randperm(len(self.indices), generator=self.generator or _core.default_generator)
        return (self.indices[i] for i in order.tolist())

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """``num_samples`` numbers, i with a probability proportional to ``weights[i]``."""

    def __init__(
        self,
        weights: Sequence[float] | Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        self.num_samples, self.generator = _positive("num_samples", num_samples), generator
        self.replacement = _flag("replacement", replacement)
        self.weights = _core.as_tensor(weights, dtype=_core.float64)
        if self.weights.ndim != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )

    def __iter__(self) -> Iterator[int]:
        generator = self.generator or _core.default_generator
        drawn = _core.multinomial(self.weights, self.num_samples, self.replacement, generator=generator)
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of ``batch_size`` numbers of another sampler; ``drop_last``: no last list that is shorter."""

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        self.sampler = sampler
        self.batch_size, self.drop_last = _positive("batch_size", batch_size), drop_last
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")

    def __iter__(self) -> Iterator[list[int]]:
        source = iter(self.sampler)
        while batch := list(islice(source, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


class DistributedSampler(Sampler):
    """The part of one process: each ``num_replicas``-th number from ``rank`` on, of an order that the
    processes share.  It depends on ``seed`` and on the epoch: call ``set_epoch`` before each.  Parts
    have equal lengths: the last numbers are left out (``drop_last``), or the first ones are repeated.
    num_replicas, rank: of ``chainrule.distributed`` where they are not given, else of the environment
    (WORLD_SIZE, RANK); 1 and 0 without."""

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.dataset, self.shuffle, self.seed, self.drop_last, self.epoch = dataset, shuffle, seed, drop_last, 0
        here, size, *_ = _core._world_info() or (int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)))
        self.num_replicas = size if num_replicas is None else num_replicas
        self.rank = here if rank is None else rank
        _positive("num_replicas", self.num_replicas)
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"Invalid rank {self.rank}, rank should be in the interval [0, {self.num_replicas - 1}]")
        n = len(dataset)
        self.num_samples = n // self.num_replicas if drop_last else -(-n // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        order: list[int] = [*range(n)]
        if self.shuffle:
            order = _core.randperm(n, generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        repeated = [order[i % n] for i in range(self.total_size)] if n else []
        return iter(repeated[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next iteration, the same in all processes."""
        self.epoch = epoch
