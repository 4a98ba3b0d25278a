"""The version of PyTorch whose names are followed."""

from __future__ import annotations

from typing import Any


class TorchVersion(str):
    """A version that compares with text and tuples by its numbers."""

    @staticmethod
    def _numbers(version: Any) -> tuple[int, ...]:
        parts = version.partition("+")[0].split(".") if isinstance(version, str) else version
        return tuple(int("".join(c for c in str(part) if c.isdigit()) or 0) for part in parts)

    def _compared(self, other: Any) -> int:
        a, b = self._numbers(self), self._numbers(other)
        width = max(len(a), len(b))
        a, b = a + (0,) * (width - len(a)), b + (0,) * (width - len(b))
        return (a > b) - (a < b)

    def __lt__(self, other: Any) -> bool:
        return self._compared(other) < 0

    def __le__(self, other: Any) -> bool:
        return self._compared(other) <= 0

    def __gt__(self, other: Any) -> bool:
        return self._compared(other) > 0

    def __ge__(self, other: Any) -> bool:
        return self._compared(other) >= 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str | tuple | list) and self._compared(other) == 0

    __hash__ = str.__hash__


__version__ = TorchVersion("2.13.0")
cuda = hip = xpu = None
git_version = "chainrule"
debug = False
