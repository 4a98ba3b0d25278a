"""The default generator, by PyTorch's names; ``fork_rng`` puts it back."""

from __future__ import annotations

from ._core import Tensor, default_generator
from ._core import manual_seed as manual_seed

TYPE_CHECKING = False  # in place of typing's: importing typing takes longer than importing chainrule
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


def seed() -> int:
    """Seeds the default generator so that nobody can foretell its numbers; returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that was set last."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Seed and position of the default generator as a uint8 tensor of 16 elements."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Continues where ``get_rng_state()`` was taken."""
    default_generator.set_state(new_state)


class fork_rng:
    """``with fork_rng():`` draws inside do not change the default generator outside.  One generator
    serves all devices, so ``devices`` has no effect."""

    def __init__(self, devices: Iterable[object] | None = None, enabled: bool = True) -> None:
        self._enabled = enabled

    def __enter__(self) -> None:
        self._state = get_rng_state()

    def __exit__(self, *exception: object) -> None:
        if self._enabled:
            set_rng_state(self._state)
