"""``DataLoader``: a dataset in batches, loaded by threads or processes.

Threads are the default: they start at once, need no pickles, and hand over tensors without copies;
tensor operations, reading and unpacking release Python's lock.  ``multiprocessing_context="fork"``
(or "spawn", "forkserver") asks for processes, for datasets whose work is Python code or whose state
threads may not share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any

from .. import _core
from .._core import Generator, Tensor
from .dataset import IterableDataset, TensorDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .worker import WorkerInfo, in_thread

__all__ = ["DataLoader", "default_collate", "default_convert"]


def default_convert(data: Any) -> Any:
    """Arrays as tensors, in dicts, tuples and lists too (tuples as lists); anything else as it is."""
    if isinstance(data, Tensor | str | bytes):
        return data
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple | list):
        parts = [default_convert(part) for part in data]
        return type(data)(*parts) if hasattr(data, "_fields") else parts
    return _core.asarray(data) if hasattr(data, "__array__") else data


def default_collate(batch: Sequence[Any]) -> Any:
    """Samples as one batch: tensors and arrays stacked, ints and floats (float64) as a tensor,
    strings as they are; dicts, tuples and lists of these element by element, tuples as lists, as
    PyTorch has it.  RuntimeError: samples differ in shape or length.  TypeError: they are something
    else."""
    first = batch[0]
    if isinstance(first, Tensor):
        return _core.stack(batch)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, int | float):
        return _core.tensor(batch, dtype=_core.float64 if isinstance(first, float) else None)
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, tuple | list):
        if len(set(map(len, batch))) > 1:
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [default_collate(part) for part in zip(*batch, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else parts  # a named tuple stays one
    if hasattr(first, "__array__"):
        return _core.stack([_core.asarray(sample) for sample in batch])
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found"
        f" {type(first).__name__}"
    )


class _Batches:
    """An epoch under way; ``len`` is that of the loader."""

    def __init__(self, batches: Any, loader: DataLoader) -> None:
        self._batches, self._loader = batches, loader

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._batches)

    def __len__(self) -> int:
        return len(self._loader)

    def close(self) -> None:
        """Ends the epoch; workers load nothing more for it."""
        self._batches.close()


class DataLoader:
    """Goes over a dataset in batches: ``for x, y in DataLoader(dataset, 32, shuffle=True): ...``.

    batch_size: None gives the samples themselves.  shuffle: another order in every epoch.  sampler:
    the order as an iterable of numbers; batch_sampler: one of lists of them.  num_workers: threads
    that load ahead, ``prefetch_factor`` (2) batches each; 0: none.  multiprocessing_context: "fork",
    "spawn", "forkserver" or a context of ``multiprocessing`` makes them processes, which send large
    tensors as shared memory; worker i is seeded with the ``seed`` of its WorkerInfo.  "spawn" and
    "forkserver" pickle the dataset.  Each worker goes over an
    IterableDataset on its own; batches are taken from the workers in turn.  collate_fn: makes a
    batch of a list of samples.  drop_last: no last batch that is smaller.  timeout: seconds to wait
    for a batch, 0: no limit.  worker_init_fn(number): called first in each worker.
    persistent_workers: the workers stay for the next epoch.  generator: draws the seed of all
    orders.  pin_memory, pin_memory_device and in_order are taken and change nothing.  An exception in
    a worker is raised where its batch is asked for, with its own trace and a note that names the
    worker.  RuntimeError: a process ended by a signal or a call of exit."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self._iterable = isinstance(dataset, IterableDataset)
        if not self._iterable and (not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__")):
            raise TypeError(f"DataLoader: a dataset has __getitem__ and __len__; {type(dataset).__name__} does not")
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if prefetch_factor is not None and (num_workers == 0 or prefetch_factor < 1):
            raise ValueError("prefetch_factor needs workers, and is at least 1")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        if multiprocessing_context is not None and num_workers == 0:
            raise ValueError("multiprocessing_context can only be used with num_workers > 0, but got num_workers=0")
        for name, value in {"shuffle": shuffle, "sampler": sampler, "batch_sampler": batch_sampler}.items():
            if self._iterable and value:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
        if batch_size is not None and (not isinstance(batch_size, int) or batch_size <= 0):
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        self.dataset, self.batch_size, self.shuffle = dataset, batch_size, bool(shuffle)
        self._sampler, self._batch_sampler = sampler, batch_sampler  # those that were given
        self.num_workers, self.drop_last, self.generator = num_workers, drop_last, generator
        self.collate_fn = collate_fn or (default_convert if batch_size is None else default_collate)
        self.timeout, self.worker_init_fn, self.persistent_workers = timeout, worker_init_fn, persistent_workers
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.multiprocessing_context = _context(multiprocessing_context)
        self.prefetch_factor = prefetch_factor or (2 if num_workers else None)
        self._pool: Any = None  # of persistent workers
        self._seed: int | None = None  # drawn when it is first needed
        self._epoch = self._given = 0  # where the next epoch begins, or the one under way is: batches given
        self._current: object = None  # the iteration under way

    @property
    def _depth(self) -> int:
        """How many batches each worker loads ahead."""
        return self.prefetch_factor or 2

    @property
    def sampler(self) -> Any:
        """The order: the sampler that was given, or one of the same meaning."""
        if self._sampler is not None or self._iterable:
            return self._sampler
        kind: type[Any] = RandomSampler if self.shuffle else SequentialSampler
        return kind(self.dataset, generator=self.generator) if self.shuffle else kind(self.dataset)

    @property
    def batch_sampler(self) -> Any:
        """The batches of numbers: the sampler that was given, or one of the same meaning; None without batches."""
        if self._batch_sampler is not None or self.batch_size is None or self._iterable:
            return self._batch_sampler
        return BatchSampler(self.sampler, self.batch_size, self.drop_last)

    def __len__(self) -> int:
        """Batches in an epoch."""
        if self._batch_sampler is not None:
            return len(self._batch_sampler)  # type: ignore[arg-type]
        n = len(self.dataset if self._sampler is None else self._sampler)  # type: ignore[arg-type]
        size = self.batch_size or 1
        return n // size if self.drop_last else -(-n // size)

    # ---- the order ----

    def _order(self, epoch: int) -> Any:
        """All numbers of an epoch, in order: a tensor where it is shuffled."""
        if self._sampler is not None:
            return self._sampler
        n = len(self.dataset)
        if not self.shuffle:
            return range(n)
        return _core.randperm(n, generator=Generator().manual_seed(self.seed + epoch))

    @property
    def seed(self) -> int:
        """The seed of all orders."""
        if self._seed is None:
            self._seed = int(_core.randint(2**62, (), generator=self.generator or _core.default_generator))
        return self._seed

    def _grouped(self, items: Iterable[Any]) -> Iterator[list[Any]]:
        return iter(BatchSampler(items, self.batch_size or 1, self.drop_last))

    def _batches(self, epoch: int, first: int) -> Iterator[Any]:
        """The numbers of each batch from ``first`` on: a sequence, or one number where there are no batches."""
        if self._batch_sampler is not None:
            return islice(self._batch_sampler, first, None)
        order, size = self._order(epoch), self.batch_size or 1
        if not isinstance(order, Tensor | range):  # another's sampler: read as it is needed
            batches: Iterator[Any] = islice(self._grouped(order), first, None)
        else:
            stop = len(order) // size * size if self.drop_last else len(order)
            batches = (order[i : i + size] for i in range(first * size, stop, size))
        return batches if self.batch_size is not None else (int(group[0]) for group in batches)

    def _load(self, numbers: Any) -> Any:
        """One batch."""
        dataset = self.dataset
        if self.batch_size is None and self._batch_sampler is None:
            return self.collate_fn(dataset[numbers])
        if isinstance(dataset, TensorDataset) and self.collate_fn is default_collate:
            if type(dataset).__getitem__ is TensorDataset.__getitem__:
                if isinstance(numbers, range):
                    return [t[numbers.start : numbers.stop].clone() for t in dataset.tensors]
                return dataset.batch(
                    numbers if isinstance(numbers, Tensor) else _core.tensor([*numbers], dtype=_core.int64)
                )
        wanted = numbers.tolist() if isinstance(numbers, Tensor) else [*numbers]
        several = getattr(dataset, "__getitems__", None)
        return self.collate_fn(several(wanted) if callable(several) else [dataset[i] for i in wanted])

    def _streamed(self) -> Iterator[Any]:
        """The batches of an iterable dataset."""
        yield from map(self.collate_fn, self.dataset if self.batch_size is None else self._grouped(self.dataset))

    # ---- going over it ----

    def __iter__(self) -> Iterator[Any]:
        if self._current is not None:  # an epoch that was left: the next one
            self._epoch, self._given = self._epoch + 1, 0
        self._current = mine = object()
        given = None if self._iterable else self._batches(self._epoch, self._given)
        if self.multiprocessing_context is not None:
            loaded = self._in_processes(given)
        elif given is None:
            loaded = self._in_turn() if self.num_workers else self._streamed()
        else:
            loaded = self._ahead(given) if self.num_workers else map(self._load, given)
        rest = islice(loaded, self._given, None) if given is None else loaded
        return _Batches(self._run(mine, self._epoch, rest), self)

    def _run(self, mine: object, epoch: int, loaded: Iterator[Any]) -> Iterator[Any]:
        for batch in loaded:
            if self._current is mine:
                self._given += 1
            yield batch
        if self._current is mine:
            self._epoch, self._given, self._current = epoch + 1, 0, None

    # ---- workers ----

    def _in_processes(self, batches: Iterator[Any] | None) -> Iterator[Any]:
        """The batches, loaded by processes; None: of an iterable dataset."""
        from copy import copy

        from .processes import Processes

        pool = self._pool
        if pool is None:
            lean = copy(self)  # what a worker needs
            lean.generator = lean.multiprocessing_context = lean._sampler = lean._current = None
            lean._batch_sampler = None if self._batch_sampler is None else ()
            seed = (self.seed + self._epoch * self.num_workers) % 2**63
            pool = Processes(self, lean, self.multiprocessing_context, seed)
            if self.persistent_workers:
                self._pool = pool
        try:
            depth = self._depth
            yield from pool.in_turn(depth) if batches is None else pool.ahead(batches, depth)
        finally:
            if pool is not self._pool:
                pool.close()

    def _threads(self, n: int, numbers: Iterator[int]) -> Any:
        """A pool of n threads that know which workers they are."""
        from concurrent.futures import ThreadPoolExecutor  # here: it takes as long to import as all of this

        seed = self.seed

        def begin() -> None:
            number = next(numbers)
            in_thread.info, in_thread.failed = WorkerInfo(number, self.num_workers, seed + number, self.dataset), None
            try:
                if self.worker_init_fn is not None:
                    self.worker_init_fn(number)
            except Exception as error:  # raised for every batch of this worker
                in_thread.failed = error

        return ThreadPoolExecutor(n, thread_name_prefix="DataLoader", initializer=begin)

    def _workers(self) -> Any:
        pool = self._pool or self._threads(self.num_workers, count())
        if self.persistent_workers:
            self._pool = pool
        return pool

    def _done_with(self, pool: Any, waiting: Iterable[Any]) -> None:
        for future in waiting:
            future.cancel()
        if pool is not self._pool:
            pool.shutdown(wait=False, cancel_futures=True)

    def __del__(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.close() if hasattr(pool, "close") else pool.shutdown(wait=False, cancel_futures=True)

    def _result(self, future: Any) -> Any:
        from concurrent.futures import TimeoutError as TimedOut

        try:
            return future.result(self.timeout or None)
        except TimedOut:
            if future.done():  # the dataset's own
                raise
            raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds") from None

    def _ahead(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches in order, loaded by threads."""
        pool = self._workers()
        waiting: deque[Any] = deque()
        try:
            waiting.extend(pool.submit(_named, self._load, b) for b in islice(batches, self.num_workers * self._depth))
            while waiting:
                batch = self._result(waiting.popleft())
                waiting.extend(pool.submit(_named, self._load, b) for b in islice(batches, 1))
                yield batch
        finally:
            self._done_with(pool, waiting)

    def _in_turn(self) -> Iterator[Any]:
        """The batches of an iterable dataset: each worker goes over it, one batch of each in turn."""
        ended = object()
        pools = [self._threads(1, iter((number,))) for number in range(self.num_workers)]
        streams = [self._streamed() for _ in pools]

        def ask(worker: int) -> Any:
            return pools[worker].submit(_named, lambda stream: next(stream, ended), streams[worker])

        try:
            turns = deque((w, deque(ask(w) for _ in range(self._depth))) for w in range(self.num_workers))
            while turns:
                worker, pending = turns.popleft()
                batch = self._result(pending.popleft())
                if batch is not ended:
                    pending.append(ask(worker))
                    turns.append((worker, pending))
                    yield batch
        finally:
            for pool in pools:
                pool.shutdown(wait=False, cancel_futures=True)

    def state_dict(self) -> dict[str, int]:
        """The position: seed, epoch, and the number of its batches that were given.  It lacks a sampler's state."""
        return {"seed": self.seed, "epoch": self._epoch, "batch": self._given}

    def load_state_dict(self, state_dict: Mapping[str, int]) -> None:
        """The next iteration goes on where ``state_dict`` was taken.  ValueError: something is
        missing, or no number from 0 up."""
        seed, epoch, batch = (state_dict.get(name) for name in ("seed", "epoch", "batch"))
        if not all(isinstance(x, int) and x >= 0 for x in (seed, epoch, batch)):
            raise ValueError(
                f"a DataLoader's state is seed, epoch and batch, numbers from 0 up, not {dict(state_dict)}"
            )
        self._seed, self._epoch, self._given, self._current = seed, epoch or 0, batch or 0, None


def _context(wanted: Any) -> Any:
    """A context of multiprocessing, or None for threads."""
    if wanted is None or wanted == "thread":
        return None
    import multiprocessing
    from multiprocessing.context import BaseContext

    if isinstance(wanted, str):
        methods = multiprocessing.get_all_start_methods()
        if wanted not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods}, or 'thread',"
                f" but got multiprocessing_context={wanted!r}"
            )
        return multiprocessing.get_context(wanted)
    if not isinstance(wanted, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start"
            f" method, but got multiprocessing_context={wanted!r}"
        )
    return wanted


def _named(load: Callable[[Any], Any], numbers: Any) -> Any:
    """``load(numbers)`` in a worker; its exception says which worker it was."""
    try:
        if in_thread.failed is not None:
            raise in_thread.failed
        return load(numbers)
    except Exception as error:
        error.add_note(f"in DataLoader worker {in_thread.info.id} of {in_thread.info.num_workers}")
        raise
