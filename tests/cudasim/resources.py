"""What kernels take of a GPU, read from their machine code (ELF files of ptxas or NVRTC): registers, shared memory,
stack and how many warps a multiprocessor holds.

    resources.py CACHE            compares the kernels in a folder of cubins with the committed table (resources.txt)
    resources.py CACHE --write    writes the table

A row is a kernel's name; for each architecture it has registers/bytes of static shared memory/bytes of stack (arrays,
spilled registers)/per cent of the warps that a multiprocessor can hold: the worst of all texts with that name.  More
registers are no failure: a larger stack is, and a share of warps that falls to a quarter or less.
"""

from __future__ import annotations

import math
import struct
import sys
from pathlib import Path
from typing import NamedTuple

from check_families import kernels

COMMITTED = Path(__file__).with_name("resources.txt")
# Attributes of the sections .nv.info, as cuobjdump -elf names them.
MAX_THREADS, FRAME_SIZE, REGISTERS = 0x05, 0x11, 0x2F
BY_VALUE = 4  # the format of an attribute with bytes behind it; others fit in its header
WARPS = {"120": 48}  # of a multiprocessor (CUDA C Programming Guide, "Technical Specifications"); others: 64
ALL_REGISTERS, OF_WARP = 65536, 256  # of a multiprocessor; the unit in which a warp gets them
SHARED = {"80": 164, "90": 228, "100": 228, "120": 100}  # KiB of a multiprocessor
LOST = 1024  # bytes of it that each block takes for itself; machine code for sm_90 and later counts them


class Kernel(NamedTuple):
    name: str
    architecture: str
    registers: int
    shared: int
    stack: int
    warps: int  # per cent of a multiprocessor's


def sections(data: bytes) -> list[tuple[str, int, int, bytes]]:
    """Name, type, size and contents of each section of an ELF file of 64 bits."""
    at, each, count, names = (*struct.unpack_from("<Q", data, 40), *struct.unpack_from("<3H", data, 58))
    heads = [struct.unpack_from("<2I4Q", data, at + i * each) for i in range(count)]
    texts = data[heads[names][4] :]
    found = []
    for name, kind, _, _, offset, size in heads:
        label = texts[name : texts.index(b"\0", name)].decode()
        found.append((label, kind, size, b"" if kind == 8 else data[offset : offset + size]))
    return found


def attributes(data: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at + 4 <= len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        size = size if form == BY_VALUE else 0
        found.append((attribute, data[at + 4 : at + 4 + size]))
        at += 4 + size
    return found


def warps_of(architecture: str, threads: int, registers: int, shared: int) -> int:
    """Per cent of a multiprocessor's warps that blocks of so many threads can fill."""
    most, warps = WARPS.get(architecture, 64), (threads + 31) // 32
    per_warp = -(-registers * 32 // OF_WARP) * OF_WARP
    taken = shared + (LOST if int(architecture) < 90 else 0)
    blocks = min(ALL_REGISTERS // per_warp // warps, most // warps, SHARED[architecture] * 1024 // max(1, taken))
    return 100 * blocks * warps // most


def kernels_of(data: bytes) -> list[Kernel]:
    """Of a cubin; the architecture is in the flags of its ELF header."""
    parts = sections(data)
    flags = struct.unpack_from("<I", data, 48)[0]
    architecture = str(flags >> 8 & 0xFF if data[8] >= 8 else flags & 0xFF)
    symbols = next(contents for name, _, _, contents in parts if name == ".symtab")
    texts = next(contents for name, _, _, contents in parts if name == ".strtab")
    names = [
        texts[at : texts.index(b"\0", at)].decode()
        for at in (struct.unpack_from("<I", symbols, i)[0] for i in range(0, len(symbols), 24))
    ]
    registers: dict[str, int] = {}
    stack: dict[str, int] = {}
    for attribute, value in attributes(next((c for name, _, _, c in parts if name == ".nv.info"), b"")):
        if attribute in (REGISTERS, FRAME_SIZE):
            symbol, number = struct.unpack("<2I", value)
            (registers if attribute == REGISTERS else stack)[names[symbol]] = number
    shared = {name.removeprefix(".nv.shared."): size for name, _, size, _ in parts if name.startswith(".nv.shared.")}
    found = []
    for label, _, _, contents in parts:
        if not label.startswith(".nv.info."):
            continue
        name = label.removeprefix(".nv.info.")
        bounds = next((value for attribute, value in attributes(contents) if attribute == MAX_THREADS), None)
        if name in registers and bounds:
            threads, bytes_shared = math.prod(struct.unpack("<3I", bounds)), shared.get(name, 0)
            warps = warps_of(architecture, threads, registers[name], bytes_shared)
            found.append(Kernel(name, architecture, registers[name], bytes_shared, stack.get(name, 0), warps))
    return found


def table_of(folder: Path) -> tuple[int, dict[tuple[str, str], Kernel]]:
    """How many kernels there are, and the worst figures of each name and architecture."""
    own = {name for names in kernels().values() for name in names}  # tests have some too
    found = (kernel for path in sorted(folder.glob("*.cubin")) for kernel in kernels_of(path.read_bytes()))
    every = [kernel for kernel in found if kernel.name in own]
    rows: dict[tuple[str, str], Kernel] = {}
    for new in every:
        old = rows.get(new[:2], new)
        rows[new[:2]] = new._replace(
            registers=max(old.registers, new.registers),
            shared=max(old.shared, new.shared),
            stack=max(old.stack, new.stack),
            warps=min(old.warps, new.warps),
        )
    return len(every), dict(sorted(rows.items(), key=lambda row: (row[0][0], int(row[0][1]))))


def read_committed() -> dict[tuple[str, str], Kernel]:
    lines = COMMITTED.read_text(encoding="utf-8").splitlines() if COMMITTED.exists() else []
    rows: dict[tuple[str, str], Kernel] = {}
    for line in lines[1:]:
        name, *columns = line.split()
        for architecture, text in zip(SHARED, columns, strict=True):
            if text != "-":
                rows[name, architecture] = Kernel(name, architecture, *map(int, text.split("/")))
    return rows


def compared(rows: dict[tuple[str, str], Kernel]) -> list[str]:
    """What has become worse than the committed table, and kernels that it lacks."""
    said, known = [], read_committed()
    unknown = sorted({name for name, of in rows if (name, of) not in known})
    if unknown:
        said.append(f"kernels that {COMMITTED.name} lacks (resources.py CACHE --write): {', '.join(unknown)}")
    for key, new in rows.items():
        old = known.get(key, new)
        if new.stack > old.stack or new.warps < min(old.warps, 26):
            said.append(f"{new.name} for sm_{new.architecture} takes more: {new}, before {old}")
    return said


def write(rows: dict[tuple[str, str], Kernel]) -> None:
    lines = [" ".join(["kernel", *(f"sm_{architecture}" for architecture in SHARED)])]
    for name in dict.fromkeys(name for name, _ in rows):
        found = (rows.get((name, architecture)) for architecture in SHARED)
        lines.append(" ".join([name, *("/".join(map(str, kernel[2:])) if kernel else "-" for kernel in found)]))
    COMMITTED.write_text("\n".join(lines) + "\n", encoding="utf-8")


def summary(count: int, rows: dict[tuple[str, str], Kernel]) -> str:
    stacks = [kernel.stack for kernel in rows.values() if kernel.stack]
    few = sum(kernel.warps <= 25 for kernel in rows.values())
    return (
        f"{count} kernels, {len(rows)} rows by name and architecture: {len(stacks)} with a stack"
        f" (at most {max(stacks, default=0)} bytes), {few} with a quarter of the warps or fewer"
    )


def main() -> int:
    count, rows = table_of(Path(sys.argv[1]))
    if "--write" in sys.argv[2:]:
        write(rows)
    for line in (said := compared(rows)):
        print(line)
    print(summary(count, rows))
    return 1 if said or not count else 0


if __name__ == "__main__":
    sys.exit(main())
