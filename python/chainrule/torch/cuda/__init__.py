"""``chainrule.cuda``, and the calls that mean nothing where one device runs one op after the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import chainrule as cr
import chainrule.cuda as _cuda

from .. import _names, legacy

_NAMES = dict.fromkeys(("default_generator", "manual_seed", "initial_seed", "seed", "get_rng_state"), "chainrule")
_NAMES["OutOfMemoryError"] = "chainrule"
_forward = _names.forward(__name__, "chainrule.cuda", names=_NAMES)


def __getattr__(name: str) -> Any:
    if name in legacy.CUDA_TYPES:
        return legacy.CUDA_TYPES[name]
    return _forward(name)


def is_initialized() -> bool:
    """Is there a CUDA device?"""
    return _cuda.is_available()


def init() -> None:
    """Does nothing; a device is opened when it is first used."""


def manual_seed(seed: int) -> None:
    """Seeds the generator, which serves all devices."""
    cr.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generator, which serves all devices."""
    cr.manual_seed(seed)


def seed_all() -> None:
    """Seeds the generator so that nobody can foretell its numbers."""
    cr.seed()


def set_rng_state(new_state: cr.Tensor, device: Any = "cuda") -> None:
    """Continues where the state was taken."""
    cr.set_rng_state(new_state)


def get_rng_state(device: Any = "cuda") -> cr.Tensor:
    """Seed and position of the generator, which serves all devices."""
    return cr.get_rng_state()


def get_rng_state_all() -> list[cr.Tensor]:
    """The state for each device: one generator serves all."""
    return [cr.get_rng_state() for _ in range(_cuda.device_count())]


def set_rng_state_all(new_states: Any) -> None:
    """Continues where the states were taken."""
    for state in new_states:
        cr.set_rng_state(state)


def current_device() -> int:
    """The number of the device that "cuda" names."""
    _here()
    return 0


def set_device(device: Any) -> None:
    """Tensors go to the device that a call names, whatever is set here.  RuntimeError: there is no such device."""
    at = legacy.device(device)
    if at.type == "cuda":
        cr.Device(str.__str__(at))


def _here(device: Any = None) -> cr.Device:
    """The CUDA device of a number, a name or None.  RuntimeError: there is none."""
    return cr.Device(str.__str__(legacy.device("cuda" if device is None else device)))


def _properties(device: Any = None) -> tuple[str, int, int, int]:
    """Model, major and minor compute capability, and bytes of memory of a device."""
    from re import match

    found = match(r"(.*), compute capability (\d+)\.(\d+), ([\d.]+) GiB", _here(device).info)
    if not found:
        raise RuntimeError(f"no CUDA device: {_here(device)}")
    return found[1], int(found[2]), int(found[3]), int(float(found[4]) * 2**30)


def get_device_name(device: Any = None) -> str:
    """The model of a device."""
    return _properties(device)[0]


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a device."""
    return _properties(device)[1:3]


def get_device_properties(device: Any = None) -> SimpleNamespace:
    """name, major, minor and total_memory (bytes, to 0.1 GiB) of a device."""
    return SimpleNamespace(**dict(zip(("name", "major", "minor", "total_memory"), _properties(device), strict=True)))


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes that this process does not use, and bytes that there are."""
    total = _properties(device)[3]
    return total - memory_reserved(device), total


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Every device computes with bfloat16."""
    return _cuda.is_available()


def memory_reserved(device: Any = None) -> int:
    """Bytes in use and bytes kept for reuse."""
    used, _, kept = cr.memory_stats(_here(device))
    return used + kept


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that were ever in use."""
    return _cuda.max_memory_allocated(_here(device))


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Does nothing; the peak is that of the process."""


reset_max_memory_allocated = reset_max_memory_cached = reset_accumulated_memory_stats = reset_peak_memory_stats


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Bytes in use, the most ever, and bytes kept for reuse, as text."""
    used, most, kept = cr.memory_stats(_here(device))
    return f"in use {used} bytes, at most {most}, kept for reuse {kept}"


def ipc_collect() -> None:
    """Does nothing; no process shares memory of the GPU."""


class Stream:
    """Work runs in the order of the calls: one stream."""

    def __init__(self, device: Any = None, priority: int = 0, **options: Any) -> None:
        self.device = device

    def synchronize(self) -> None:
        """Waits until the device has done its work."""
        if _cuda.is_available():
            _cuda.synchronize()

    def wait_stream(self, stream: Any) -> None:
        """Does nothing; there is one stream."""

    def wait_event(self, event: Any) -> None:
        """Does nothing; there is one stream."""

    def record_event(self, event: Any = None) -> Event:
        """An event at this place of the work."""
        found = event or Event()
        found.record(self)
        return found

    def query(self) -> bool:
        """Is the work done?  It is waited for."""
        self.synchronize()
        return True

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        return None


class Event:
    """A moment, when the device has done its work until then."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self.time: float | None = None

    def record(self, stream: Any = None) -> None:
        """Waits for the device and takes the time."""
        from time import perf_counter

        if _cuda.is_available():
            _cuda.synchronize()
        self.time = perf_counter()

    def synchronize(self) -> None:
        """Does nothing; ``record`` has waited already."""

    def wait(self, stream: Any = None) -> None:
        """Does nothing; ``record`` has waited already."""

    def query(self) -> bool:
        """Is the work done?  record has waited."""
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from here to another event.  RuntimeError: one was not recorded."""
        if self.time is None or end_event.time is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end_event.time - self.time) * 1000


def stream(stream: Stream | None) -> Stream:
    """The stream as a context."""
    return stream or Stream()


def current_stream(device: Any = None) -> Stream:
    """The one stream."""
    return Stream(device)


default_stream = current_stream


class device:  # noqa: N801, PyTorch's name
    """``with device(i):`` tensors made inside with device "cuda" are on that device: the first is the only name."""

    def __init__(self, device: Any) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None and self.idx != -1:
            set_device(self.idx)

    def __exit__(self, *exception: object) -> None:
        return None


device_of = device
