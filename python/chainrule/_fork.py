"""A fork waits until other threads have imported the parts of this package that they need: its child would wait for
ever for a module that a thread of its parent was importing."""

import sys
from _thread import get_ident
from time import monotonic, sleep

MOST_SECONDS = 10.0


def _importing() -> bool:
    """Does another thread?  importlib has a lock for each module that is being imported."""
    locks = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    owners = [getattr(lock(), "owner", None) for name, lock in [*locks.items()] if name.startswith("chainrule.")]
    return any(owner not in (None, get_ident()) for owner in owners)


def _wait() -> None:
    end = monotonic() + MOST_SECONDS
    while _importing() and monotonic() < end:
        sleep(0.001)


try:
    from posix import register_at_fork  # os needs 8 modules more
except ImportError:
    pass
else:
    register_at_fork(before=_wait)
