"""Data in batches: datasets, a loader with threads, tokenizers and token files.

The order of a shuffled loader depends only on its seed and epoch, so ``state_dict()`` is a few
numbers, and a resumed run sees the batches that the uninterrupted one would have seen."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import Any, TypeAlias

from . import _core
from ._core import Device, Generator, Tensor

Text: TypeAlias = str | bytes
Bytes: TypeAlias = bytes  # where a method has that name

__all__ = ["DataLoader", "Dataset", "TensorDataset", "TokenFile", "Tokenizer", "default_collate"]


class Dataset:
    """Samples by number.  A subclass defines ``__getitem__(i)`` and ``__len__()``."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define __getitem__")


class TensorDataset(Dataset):
    """Sample i is (t[i] for each tensor t); all have the same first size.  A DataLoader takes a
    batch of them at once."""

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors or any(not t.ndim or len(t) != len(tensors[0]) for t in tensors):
            raise AssertionError(
                f"Size mismatch between tensors: {', '.join(str(tuple(t.shape)) for t in tensors) or 'there is none'}"
            )
        self.tensors = tensors

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])

    def batch(self, indices: Tensor) -> list[Tensor]:
        """The samples of those numbers : (B) -> (B, ...) of each tensor"""
        return [t.index_select(0, indices) for t in self.tensors]


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


class DataLoader:
    """Goes over a dataset in batches: ``for x, y in DataLoader(dataset, 32, shuffle=True): ...``.

    batch_size: None gives the samples themselves.  shuffle: another order in every epoch.  sampler:
    the order as an iterable of numbers; batch_sampler: one of lists of them.  num_workers: threads
    that load ahead, ``prefetch_factor`` (2) batches each; 0: none. collate_fn: makes a batch of a
    list of samples.  drop_last: no last batch that is smaller.  generator: draws the seed of all
    orders. pin_memory is taken and changes nothing. An exception in a thread is raised where its
    batch is asked for, with its own trace."""

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        *,
        generator: Generator | None = None,
        prefetch_factor: int | None = None,
    ) -> None:
        if not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__"):
            raise TypeError(f"DataLoader: a dataset has __getitem__ and __len__; {type(dataset).__name__} does not")
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if prefetch_factor is not None and (num_workers == 0 or prefetch_factor < 1):
            raise ValueError("prefetch_factor needs workers, and is at least 1")
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
        self.dataset, self.batch_size, self.shuffle, self.sampler, self.batch_sampler = (
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
        )
        self.num_workers, self.collate_fn, self.drop_last, self.generator = (
            num_workers,
            collate_fn or default_collate,
            drop_last,
            generator,
        )
        self.prefetch_factor = prefetch_factor or 2
        self._seed: int | None = None  # drawn when it is first needed
        self._epoch = self._given = 0  # where the next epoch begins, or the one under way is: batches given
        self._current: object = None  # the iteration under way

    def __len__(self) -> int:
        """Batches in an epoch."""
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]
        n = len(self.dataset if self.sampler is None else self.sampler)  # type: ignore[arg-type]
        size = self.batch_size or 1
        return n // size if self.drop_last else -(-n // size)

    # ---- the order ----

    def _order(self, epoch: int) -> Any:
        """All numbers of an epoch, in order: a tensor where it is shuffled."""
        if self.sampler is not None:
            return self.sampler
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

    def _batches(self, epoch: int, first: int) -> Iterator[Any]:
        """The numbers of each batch from ``first`` on: a sequence, or one number where there are no batches."""
        if self.batch_sampler is not None:
            return islice(self.batch_sampler, first, None)
        order, size = self._order(epoch), self.batch_size or 1
        if not isinstance(order, Tensor | range):  # another's sampler: read as it is needed
            source = iter(order)
            groups = iter(lambda: list(islice(source, size)), [])
            batches: Iterator[Any] = (group for group in groups if len(group) == size or not self.drop_last)
            batches = islice(batches, first, None)
        else:
            stop = len(order) // size * size if self.drop_last else len(order)
            batches = (order[i : i + size] for i in range(first * size, stop, size))
        return batches if self.batch_size is not None else (int(group[0]) for group in batches)

    def _load(self, numbers: Any) -> Any:
        """One batch."""
        if self.batch_size is None:
            return self.dataset[numbers]
        if isinstance(self.dataset, TensorDataset) and self.collate_fn is default_collate:
            if isinstance(numbers, range):
                return [t[numbers.start : numbers.stop].clone() for t in self.dataset.tensors]
            return self.dataset.batch(
                numbers if isinstance(numbers, Tensor) else _core.tensor([*numbers], dtype=_core.int64)
            )
        samples = [self.dataset[i] for i in (numbers.tolist() if isinstance(numbers, Tensor) else numbers)]
        return self.collate_fn(samples)

    # ---- going over it ----

    def __iter__(self) -> Iterator[Any]:
        if self._current is not None:  # an epoch that was left: the next one
            self._epoch, self._given = self._epoch + 1, 0
        self._current = mine = object()
        return self._run(mine, self._epoch, self._batches(self._epoch, self._given))

    def _run(self, mine: object, epoch: int, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in map(self._load, batches) if self.num_workers == 0 else self._ahead(batches):
            if self._current is mine:
                self._given += 1
            yield batch
        if self._current is mine:
            self._epoch, self._given, self._current = epoch + 1, 0, None

    def _ahead(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The batches in order, loaded by threads."""
        from concurrent.futures import ThreadPoolExecutor  # here: it takes as long to import as all of this

        pool = ThreadPoolExecutor(self.num_workers, thread_name_prefix="DataLoader")
        try:
            waiting = deque(
                pool.submit(self._load, b) for b in islice(batches, self.num_workers * self.prefetch_factor)
            )
            while waiting:
                batch = waiting.popleft().result()
                waiting.extend(pool.submit(self._load, b) for b in islice(batches, 1))
                yield batch
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def state_dict(self) -> dict[str, int]:
        """Where it is: seed, epoch, and how many of its batches were given.  A sampler's own state is not in it."""
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


class Tokenizer:
    """Text to token numbers and back, as the program's: ``Tokenizer.chars(text)`` has a token for
    each character of a text, in the order of their code points, ``Tokenizer.bytes()`` one for each
    of the 256 bytes.  ``len(t)`` is the vocabulary.

    ``Tokenizer.load("run/tokenizer.json")`` is that of a run of ``chainrule train``; in C it is cr_tokenizer.
    """

    def __init__(self, source: Any) -> None:
        self._source = source  # made by one of the three below

    @classmethod
    def bytes(cls) -> Tokenizer:
        """One token for each byte: any text is known."""
        return cls(_core._tokenizer_bytes())

    @classmethod
    def chars(cls, text: Text) -> Tokenizer:
        """One token for each character (code point) of this text, which is a str or UTF-8.
        ValueError: it is empty, or not UTF-8."""
        return cls(_core._tokenizer_chars(text))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """The tokenizer in a file that ``save`` or the program wrote.  OSError: there is none."""
        return cls(_core._tokenizer_load(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a small JSON file."""
        _core._tokenizer_save(self._source, os.fspath(path))

    def encode(self, text: Text) -> list[int]:
        """The tokens of a str, or of UTF-8 (with ``bytes()``, of any bytes).  ValueError names a
        character that has no token, and its place."""
        return self.tensor(text).tolist()  # type: ignore[no-any-return]

    def tensor(self, text: Text) -> Tensor:
        """The same as a tensor, int64 (T): quicker for a long text."""
        return _core._tokenizer_encode(self._source, text)

    def decode(self, tokens: Sequence[int] | Tensor, errors: str = "replace") -> str:
        """The text of tokens, (T).  errors: the handling of bytes that are not UTF-8, as in
        ``bytes.decode``.  IndexError: a token outside of the vocabulary."""
        return self.decode_bytes(tokens).decode("utf-8", errors)

    def decode_bytes(self, tokens: Sequence[int] | Tensor) -> Bytes:
        """The same as UTF-8, or with ``bytes()`` as the bytes that they are."""
        numbers = (
            tokens if isinstance(tokens, Tensor) else _core.tensor(list(tokens) or _core.empty(0, dtype=_core.int64))
        )
        return _core._tokenizer_decode(self._source, numbers)

    def __len__(self) -> int:
        return _core._tokenizer_size(self._source)

    def __repr__(self) -> str:
        return f"Tokenizer({len(self)} tokens)"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.decode_bytes([len(self) - 1]) == b"\xff":  # no UTF-8: the last of the bytes
            return type(self).bytes, ()
        return type(self).chars, (self.decode_bytes(_core.arange(len(self))),)


class TokenFile:
    """A memory-mapped token file, which ``save`` or ``chainrule tokenize`` wrote, as batches of
    windows: ``for x, y in TokenFile("train.tok", 16, 256): ...``. x and y are int64 (batch_size,
    context), y one token later.  Iterating goes to the end of the epoch; the next iteration is the
    next one, in another order where ``shuffle``: each token is a target once an epoch, except those
    after the last window.  start, stop: a part of the file.  A thread prepares the next batch.
    OSError: no such file, or no token file.  ValueError: too few tokens."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        batch_size: int = 8,
        context: int = 64,
        *,
        shuffle: bool = True,
        seed: int = 0,
        start: int = 0,
        stop: int | None = None,
        device: Device | str | None = None,
    ) -> None:
        whole = _core._tokens_open(os.fspath(path))
        first, last, _ = slice(start, stop).indices(_core._tokens_info(whole)[0])
        tokens = _core._tokens_slice(whole, first, max(first, last))
        self.tokens, self.vocabulary = _core._tokens_info(tokens)  # how many, of how many kinds
        self.batch_size, self.context, self.shuffle, self.seed = batch_size, context, shuffle, seed
        self._loader = _core._loader_new(tokens, batch_size, context, seed, shuffle, device)
        self._lock = Lock()  # over the loader

    @staticmethod
    def save(path: str | os.PathLike[str], tokens: Sequence[int] | Tensor, vocabulary: int) -> None:
        """Writes tokens, (T), as a token file, in the narrowest of 1, 2 and 4 bytes that holds the
        vocabulary.  IndexError: a token outside of it."""
        _core._tokens_save(
            os.fspath(path),
            tokens if isinstance(tokens, Tensor) else _core.tensor(tokens, dtype=_core.int64),
            vocabulary,
        )

    def __len__(self) -> int:
        """Batches in an epoch."""
        return _core._loader_place(self._loader)[1]

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        cursor, batches = _core._loader_place(self._loader)
        for _ in range(batches - cursor % batches):
            yield self.next()

    def next(self) -> tuple[Tensor, Tensor]:
        """The next batch, also of the next epoch."""
        with self._lock:
            return _core._loader_next(self._loader)

    def state_dict(self) -> dict[str, int]:
        """Where it is: seed, and how many batches were given."""
        return {"seed": self.seed, "cursor": _core._loader_place(self._loader)[0]}

    def load_state_dict(self, state_dict: Mapping[str, int]) -> None:
        """Goes on where ``state_dict`` was taken.  ValueError: that one has another seed, hence another order."""
        if state_dict["seed"] != self.seed:
            raise ValueError(
                f"the state is of a TokenFile with the seed {state_dict['seed']}, this one has {self.seed}"
            )
        with self._lock:
            _core._loader_seek(self._loader, state_dict["cursor"])
