"""Zip archives as PyTorch writes them: records that are stored as they are, each at a multiple of 64
bytes.

The writer needs ``write`` of its file and nothing else, because it knows each record before it
begins.  The reader trusts no length in the file: a record lies within the file, and all of them
together are not longer than it."""

from __future__ import annotations

import struct
import zlib
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import zipfile  # imported where it is used: it takes long

__all__ = ["ALIGNMENT", "Record", "Writer", "read_directory"]

ALIGNMENT = 64
LARGE = ELSEWHERE = 0xFFFFFFFF  # sizes and offsets from LARGE on need zip64, and ELSEWHERE stands in their place
MANY = UNCOUNTED = 0xFFFF  # the same for the number of records
UTF8 = 0x800  # flag: names are UTF-8
LOCAL = struct.Struct("<4s5H3L2H")
CENTRAL = struct.Struct("<4s6H3L5H2L")


class Record(NamedTuple):
    """Where a record lies in the file."""

    start: int
    size: int


def shown_as(n: int) -> int:
    """A size or an offset in a field of 4 bytes."""
    return ELSEWHERE if n >= LARGE else n


class Writer:
    """Writes the archive ``root``/... to a file object; ``close`` ends it."""

    def __init__(self, file: IO[bytes], root: str) -> None:
        self.file, self.root, self.at = file, root, 0
        self.entries: list[tuple[bytes, int, int, int]] = []  # name, CRC, size, offset

    def _write(self, data: Any) -> None:
        self.file.write(data)
        self.at += len(data)

    def record(self, name: str, data: bytes | memoryview) -> None:
        """One record; ``data`` are its bytes."""
        path, size, start = f"{self.root}/{name}".encode(), len(data), self.at
        crc = zlib.crc32(data)
        shown = shown_as(size)
        extra = struct.pack("<2H2Q", 1, 16, size, size) if size >= LARGE else b""
        padding = -(start + LOCAL.size + len(path) + len(extra) + 4) % ALIGNMENT
        extra += struct.pack("<2s H", b"FB", padding) + b"Z" * padding
        self._write(LOCAL.pack(b"PK\3\4", 0, UTF8, 0, 0, 0, crc, shown, shown, len(path), len(extra)))
        self._write(path + extra)
        self._write(data)
        self.entries.append((path, crc, size, start))

    def serialization_id(self) -> bytes:
        """40 digits: a hash of the names of the records, then one of their contents."""
        from hashlib import blake2b

        parts = (
            b"\0".join(e[0] for e in self.entries),
            struct.pack(f"<{len(self.entries)}L", *(e[1] for e in self.entries)),
        )
        numbers = [int.from_bytes(blake2b(part, digest_size=8).digest(), "little") for part in parts]
        return "".join(f"{n:020d}" for n in numbers).encode()

    def close(self) -> None:
        """Writes the directory."""
        start = self.at
        for path, crc, size, offset in self.entries:
            beyond = [n for n in (size, size, offset) if n >= LARGE]
            extra = struct.pack(f"<2H{len(beyond)}Q", 1, 8 * len(beyond), *beyond) if beyond else b""
            shown, at = shown_as(size), shown_as(offset)
            head = (b"PK\1\2", 0, 0, UTF8, 0, 0, 0, crc, shown, shown, len(path), len(extra), 0, 0, 0, 0, at)
            self._write(CENTRAL.pack(*head) + path + extra)
        size, count, end = self.at - start, len(self.entries), self.at
        if count >= MANY or start >= LARGE or size >= LARGE:
            self._write(struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start))
            self._write(struct.pack("<4sLQL", b"PK\6\7", 0, end, 1))
        few = UNCOUNTED if count >= MANY else count
        self._write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, few, few, shown_as(size), shown_as(start), 0))


def _record(file: IO[bytes], label: str, entry: zipfile.ZipInfo, total: int) -> Record:
    """Where the bytes of an entry lie: behind its local header, whose lengths may be other than the directory's."""
    if entry.compress_type or entry.compress_size != entry.file_size:
        raise RuntimeError(
            f"[load] '{label}': the record '{entry.filename}' is compressed; torch.save stores records as they are,"
            " and so does `zip -0`"
        )
    if entry.flag_bits & 1:
        raise RuntimeError(f"[load] '{label}': the record '{entry.filename}' is encrypted")
    file.seek(entry.header_offset)
    head = file.read(LOCAL.size)
    if len(head) < LOCAL.size or head[:4] != b"PK\3\4":
        raise RuntimeError(
            f"[load] '{label}': no record begins at byte {entry.header_offset}, where '{entry.filename}' should"
        )
    start = entry.header_offset + LOCAL.size + sum(LOCAL.unpack(head)[-2:])
    if start + entry.file_size > total:
        raise RuntimeError(
            f"[load] '{label}': the record '{entry.filename}' ends at byte {start + entry.file_size} of a file of"
            f" {total}"
        )
    return Record(start, entry.file_size)


class _Part:
    """The bytes of a file before ``end``, for reading."""

    def __init__(self, file: IO[bytes], end: int) -> None:
        self.file, self.end, self.at = file, end, 0

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = 0) -> int:
        at = offset + (0, self.at, self.end)[whence]
        if at < 0:
            raise OSError(f"seek to byte {at}")
        self.at = at
        return at

    def read(self, n: int = -1) -> bytes:
        left = max(0, self.end - self.at)
        self.file.seek(self.at)
        data = self.file.read(left if n < 0 else min(n, left))
        self.at += len(data)
        return data


def _first_archive(file: IO[bytes], begin: int, end: int) -> tuple[list[zipfile.ZipInfo], int]:
    """The entries of the archive that begins at ``begin``, and where it ends: others may follow.  A directory names its
    archive's first byte, so they are found from the last one to the first."""
    import zipfile

    found: tuple[list[zipfile.ZipInfo], int] | None = None
    while True:
        try:
            with zipfile.ZipFile(_Part(file, end)) as archive:
                entries = archive.infolist()
        except zipfile.BadZipFile:
            if found is None:
                raise
            return found
        found = entries, end
        start = min((entry.header_offset for entry in entries), default=begin)
        if start <= begin:
            return found
        end = start


def read_directory(file: IO[bytes], label: str, begin: int, total: int) -> tuple[dict[str, Record], int]:
    """The records of an archive by their names within its folder, and where it ends.  RuntimeError: a file that is cut
    short, whose lengths contradict each other, or with compressed records."""
    import zipfile

    try:
        entries, end = _first_archive(file, begin, total)
    except (zipfile.BadZipFile, NotImplementedError, struct.error, ValueError, OverflowError, OSError) as error:
        raise RuntimeError(f"[load] '{label}': failed reading zip archive: {error} (is the file cut short?)") from None
    if not entries:
        raise RuntimeError(f"[load] '{label}': an empty zip archive")
    declared = sum(entry.file_size for entry in entries)
    if declared > total:
        raise RuntimeError(f"[load] '{label}': its records declare {declared} bytes, the file has {total}")
    root = entries[0].filename.partition("/")[0]
    records: dict[str, Record] = {}
    for entry in entries:
        folder, _, name = entry.filename.partition("/")
        if folder != root or not name or name.endswith("/"):
            continue
        if name in records:
            raise RuntimeError(f"[load] '{label}': two records have the name '{entry.filename}'")
        records[name] = _record(file, label, entry, total)
    return records, end
