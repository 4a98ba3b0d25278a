"""Worker processes of a ``DataLoader``: each answers its tasks in order, and sends tensors as shared memory."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import queue
import random
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

from .. import _core
from .._core import Tensor
from .worker import WorkerInfo, in_process

__all__ = ["Processes"]

SHARED = 1 << 15  # bytes: a smaller tensor travels in the pickle
STOP = 2.0  # seconds that a worker has to end by itself
CODES = {
    _core.bool: "?", _core.uint8: "B", _core.uint16: "H", _core.uint32: "I", _core.uint64: "Q", _core.int8: "b",
    _core.int16: "h", _core.int32: "i", _core.int64: "q", _core.float16: "e", _core.float32: "f", _core.float64: "d",
}  # fmt: skip


# ---- messages: a pickle, and one piece of memory without a name that holds its larger tensors


class _Pickler(pickle.Pickler):
    """Tensors of at least SHARED bytes become (offset, shape, dtype) in a piece of shared memory."""

    def __init__(self, to: io.BytesIO) -> None:
        super().__init__(to, pickle.HIGHEST_PROTOCOL)
        self.tensors: list[tuple[int, Tensor]] = []
        self.size = 0

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) is not Tensor or obj.device.type != "cpu" or obj.requires_grad:
            return None
        if obj.nbytes < SHARED or obj.dtype not in CODES:
            return None
        at, self.size = self.size, self.size + -(-obj.nbytes // 64) * 64
        self.tensors.append((at, obj))
        return at, tuple(obj.shape), CODES[obj.dtype]


class _Unpickler(pickle.Unpickler):
    memory: memoryview

    def persistent_load(self, pid: Any) -> Tensor:
        at, shape, code = pid
        return _view(self.memory, at, shape, code)


def _view(memory: memoryview, at: int, shape: tuple[int, ...], code: Any) -> Tensor:
    """The tensor over a part of a piece of memory, which it keeps alive."""
    n = memoryview(b"\0" * 8).cast(code).itemsize
    for size in shape:
        n *= size
    return _core.asarray(memory[at : at + n].cast(code), copy=False).view(shape)


def _shares() -> bool:
    """Can memory without a name be sent to another process?"""
    return hasattr(os, "memfd_create") and reduction.HAVE_SEND_HANDLE


def _send(to: Connection, ok: bool, message: Any) -> None:
    text = io.BytesIO()
    pickler = _Pickler(text)
    if _shares():
        pickler.dump(message)
    else:
        text.write(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
    to.send_bytes(bytes((ok, pickler.size > 0)) + text.getbuffer())
    if not pickler.size:
        return
    handle = os.memfd_create("DataLoader")
    try:
        os.ftruncate(handle, pickler.size)
        memory = memoryview(mmap.mmap(handle, pickler.size))
        for at, tensor in pickler.tensors:
            _view(memory, at, tuple(tensor.shape), CODES[tensor.dtype]).copy_(tensor.detach())
        reduction.send_handle(to, handle, os.getppid())  # type: ignore[arg-type,unused-ignore]
    finally:
        os.close(handle)


def _receive(source: Connection) -> tuple[bool, Any]:
    text = source.recv_bytes()
    unpickler = _Unpickler(io.BytesIO(memoryview(text)[2:]))
    if text[1]:
        handle = reduction.recv_handle(source)  # type: ignore[arg-type,unused-ignore]
        try:
            unpickler.memory = memoryview(mmap.mmap(handle, 0))
        finally:
            os.close(handle)
    return bool(text[0]), unpickler.load()


# ---- in the worker


def _failure(error: BaseException, number: int, workers: int) -> tuple[Any, list[str]]:
    """The exception, or its text where it cannot be sent, and notes: which worker, and its traceback."""
    notes = [f"in DataLoader worker {number} of {workers}", *getattr(error, "__notes__", [])]
    notes.append("The worker's traceback:\n" + "".join(traceback.format_exception(error)).rstrip())
    try:
        sent = pickle.loads(pickle.dumps(error))
    except Exception:
        sent = RuntimeError(f"{type(error).__name__}: {error}")
    return sent, notes


def _work(connection: Connection, loader: Any, number: int, seed: int) -> None:
    """The main function of a worker: a task is an epoch's number (start a stream), or what to load."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that reads the batches gets it too, and ends this one
    _core.set_num_threads(1)
    _core.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def read() -> None:  # at once, so that the other side never waits to send
        try:
            while True:
                tasks.put(connection.recv())
        except (EOFError, OSError):  # the loader is gone
            os._exit(0)

    workers, stream = loader.num_workers, None
    in_process.append(WorkerInfo(number, workers, seed, loader.dataset))
    begun: BaseException | None = None
    try:
        if loader.worker_init_fn is not None:
            loader.worker_init_fn(number)
    except Exception as error:
        begun = error
    threading.Thread(target=read, daemon=True).start()
    while True:
        kind, what = tasks.get()
        if kind == "stop":
            break
        if kind == "start":
            stream = None
            continue
        try:
            if begun is not None:
                raise begun
            if kind == "next":
                stream = loader._streamed() if stream is None else stream
                batch = next(stream, Ended())
            else:
                batch = loader._load(what)
            _send(connection, True, batch)
        except Exception as error:
            _send(connection, False, _failure(error, number, workers))
    connection.close()


class Ended:
    """What a worker sends after the last batch of its stream."""


# ---- in the process that reads the batches


class Processes:
    """The workers of one loader."""

    def __init__(self, loader: Any, lean: Any, context: Any, seed: int) -> None:
        self.timeout, self.workers = loader.timeout, loader.num_workers
        self.turn: object = None  # the iteration under way
        self._connections: list[Connection] = []
        self._processes: list[Any] = []
        self._pending = [0] * self.workers  # answers on their way
        try:
            for number in range(self.workers):
                ours, theirs = context.Pipe(duplex=True)
                process = context.Process(
                    target=_started,
                    args=(theirs, [*self._connections, ours], lean, number, seed + number)
                    if context.get_start_method() == "fork"
                    else (theirs, [], lean, number, seed + number),
                    daemon=True,
                    name=f"DataLoader-{number}",
                )
                self._connections.append(ours)
                process.start()
                self._processes.append(process)
                theirs.close()
        except BaseException:
            self.close()
            raise

    def _ask(self, worker: int, kind: str, what: Any = None) -> None:
        try:
            self._connections[worker].send((kind, what))
        except OSError:
            raise self._died(worker) from None
        self._pending[worker] += kind != "start"

    def _died(self, worker: int) -> RuntimeError:
        process = self._processes[worker]
        process.join(STOP)
        code = process.exitcode
        how = (
            f"is killed by signal: {signal.Signals(-code).name}"
            if code is not None and code < 0
            else f"exited unexpectedly with exit code {code}"
        )
        return RuntimeError(f"DataLoader worker {worker} (pid {process.pid}) {how}")

    def _answer(self, worker: int) -> Any:
        connection = self._connections[worker]
        try:
            if self.timeout and not connection.poll(self.timeout):
                raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")
            ok, found = _receive(connection)
        except (EOFError, ConnectionError):
            raise self._died(worker) from None
        self._pending[worker] -= 1
        if ok:
            return found
        error, notes = found
        for note in notes:
            error.add_note(note)
        raise error

    def begin(self) -> object:
        """A new iteration: answers of the one before are dropped."""
        self.turn = mine = object()
        for worker in range(self.workers):
            while self._pending[worker]:
                try:
                    self._answer(worker)
                except Exception:
                    if self._pending[worker] and not self._processes[worker].is_alive():
                        raise
        return mine

    def _mine(self, turn: object) -> None:
        if self.turn is not turn:
            raise RuntimeError("DataLoader: its persistent workers serve a newer iteration of it")

    def ahead(self, tasks: Iterator[Any], depth: int) -> Iterator[Any]:
        """The batches of tasks in order; worker k % workers loads batch k."""
        turn = self.begin()
        asked = given = 0
        more = True
        while True:
            while more and asked - given < depth * self.workers:
                task = next(tasks, self)
                more = task is not self
                if more:
                    self._ask(asked % self.workers, "load", task)
                    asked += 1
            if given == asked:
                return
            batch = self._answer(given % self.workers)
            given += 1
            yield batch
            self._mine(turn)

    def in_turn(self, depth: int) -> Iterator[Any]:
        """The batches of an iterable dataset, one of each worker in turn."""
        turn = self.begin()
        for worker in range(self.workers):
            self._ask(worker, "start")
            for _ in range(depth):
                self._ask(worker, "next")
        alive = [*range(self.workers)]
        while alive:
            for worker in list(alive):
                batch = self._answer(worker)
                if isinstance(batch, Ended):
                    alive.remove(worker)
                    continue
                self._ask(worker, "next")
                yield batch
                self._mine(turn)

    def close(self) -> None:
        """Ends the workers: a task to stop, and after STOP seconds a signal."""
        for connection in self._connections:
            try:
                connection.send(("stop", None))
            except OSError:
                pass
            connection.close()
        for process in self._processes:
            process.join(STOP)
            if process.is_alive():
                process.terminate()
                process.join()
        self._connections, self._processes = [], []


def _started(mine: Connection, others: list[Connection], loader: Any, number: int, seed: int) -> None:
    """_work in a new process, which after a fork holds the ends of pipes that belong to its parent."""
    for other in others:
        other.close()
    try:
        _work(mine, loader, number, seed)
    except (BrokenPipeError, ConnectionError):  # the loader ended first
        os._exit(0)
