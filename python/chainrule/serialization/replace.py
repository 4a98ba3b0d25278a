"""A file that takes the place of an older one when it is complete, as the C library writes files."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

__all__ = ["replaced"]

NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
TEMPORARY = re.compile(r"\.chainrule-[0-9]+-[0-9]+\.tmp")


# A temporary file belongs to a process that lives: on Windows as long as it is open, elsewhere as long as it is locked.
if sys.platform == "win32":

    def _locked(fd: int) -> bool:
        return True

    def _remove_stale(folder: str) -> None:
        """Removes temporary files of processes that were killed; an open file cannot be removed."""
        for name in filter(TEMPORARY.fullmatch, os.listdir(folder or ".")):
            with suppress(OSError):
                os.remove(os.path.join(folder, name))

    def _keep_owner(fd: int, old: os.stat_result) -> None:
        """A new file has the rights of its folder."""

else:
    import fcntl

    def _locked(fd: int) -> bool:
        """False: another process has the lock."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno != errno.EWOULDBLOCK  # a file system may have no locks
        return True

    def _remove_stale(folder: str) -> None:
        """Removes temporary files of processes that were killed."""
        for name in filter(TEMPORARY.fullmatch, os.listdir(folder or ".")):
            path = os.path.join(folder, name)
            with suppress(OSError):
                fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    state = os.fstat(fd)
                    if stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid():
                        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        os.remove(path)
                finally:
                    os.close(fd)

    def _keep_owner(fd: int, old: os.stat_result) -> None:
        with suppress(OSError):  # only root may
            os.fchown(fd, old.st_uid, old.st_gid)
        os.fchmod(fd, old.st_mode & 0o777)


def _create(folder: str, mode: int) -> tuple[int, str]:
    """A locked, empty file, and its path."""
    while True:
        number = int.from_bytes(os.urandom(4), "little")
        path = os.path.join(folder, f".chainrule-{os.getpid()}-{number}.tmp")
        fd = os.open(path, NEW, mode)
        if _locked(fd) and os.fstat(fd).st_nlink:
            return fd, path
        os.close(fd)  # another process took it for a stale one before it was locked


@contextmanager
def replaced(path: str, follow: bool = False) -> Iterator[IO[bytes]]:
    """A new file that takes the place of ``path``, and its mode, when it is complete; a device or a pipe is written to.
    follow: where ``path`` is a link, the file that it leads to is replaced, not the link."""
    target = os.path.realpath(path) if follow else path
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as file:
            yield file
        return
    old = os.stat(target) if os.path.exists(target) else None
    if old and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    folder, temporary = os.path.dirname(target), ""
    try:
        _remove_stale(folder)
        fd, temporary = _create(folder, 0o600 if old else 0o666)
        with os.fdopen(fd, "wb") as file:
            if old:
                _keep_owner(fd, old)
            yield file
            file.flush()
            os.fsync(fd)
            if sys.platform != "win32":
                os.replace(temporary, target)  # before closing ends the lock
        if sys.platform == "win32":
            os.replace(temporary, target)  # an open file cannot be moved
    except BaseException as error:
        if os.path.exists(temporary):
            os.remove(temporary)
        if isinstance(error, FileNotFoundError) and error.filename in (temporary, folder or "."):
            raise FileNotFoundError(error.errno, error.strerror, path) from None
        raise
