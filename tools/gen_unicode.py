"""Writes src/text/unicode.gen.h, the tables of Unicode that tokenizers need, from the package
unicodedata2 (a wheel of the Unicode database, 16.0.0: the version of tiktoken and tokenizers):

* the characters that are younger than Unicode 14, with their categories, for a PCRE2 that lacks them
* decompositions, combining classes and compositions, for NFC, NFD, NFKC and NFKD
* lower case
* the category of each character

Decompositions, lower case and classes are bytes that unicode.c unpacks at their first use: code points are differences
to the one before, 7 bits in each byte, the low ones first; bit 7: more follow.

use: gen_unicode.py          with unicodedata2==16.0.0 and Python 3.11, whose own database is Unicode 14
"""

from __future__ import annotations

import unicodedata
from importlib import import_module
from pathlib import Path
from typing import Any

unicode: Any = import_module("unicodedata2")
OUT = Path(__file__).resolve().parent.parent / "src" / "text" / "unicode.gen.h"
POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)  # computed, not stored
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
PAGE = 128  # characters; the smallest sum of both tables
DOTTED = 0x130  # the one letter whose lower case has two characters: unicode.c has it


def wrapped(items: list[str], columns: int = 116) -> str:
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) + 2 > columns:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "\n".join([*lines, line])


def young() -> list[str]:
    ranges: list[tuple[int, int, str]] = []
    for c in POINTS:
        category = unicode.category(chr(c))
        if category == "Cn" or unicodedata.category(chr(c)) != "Cn":
            continue
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == category:
            ranges[-1] = (ranges[-1][0], c, category)
        else:
            ranges.append((c, c, category))
    return [f'{{0x{a:X}, 0x{b:X}, "{category}"}}' for a, b, category in ranges]


def bits7(n: int) -> list[int]:
    return [n] if n < 128 else [n & 127 | 128, *bits7(n >> 7)]


def signed(n: int) -> list[int]:
    """The sign in bit 0."""
    return bits7(2 * n if n >= 0 else -2 * n - 1)


def gaps(codes: list[int]) -> list[int]:
    """How many code points lie between each and the one before."""
    return [byte for before, c in zip([-1, *codes], codes, strict=False) for byte in bits7(c - before - 1)]


def decompositions() -> tuple[dict[str, list[int]], dict[str, int]]:
    """The columns of the table, and its counts: one level each, that of Unicode's own table."""
    codes, kinds, parts, counts = [], list[int](), list[int](), {"decomposed": 0, "mapped": 0, "composed": 0}
    before = [0] * 32
    for c in POINTS:
        words = unicode.decomposition(chr(c)).split()
        if not words or c in HANGUL:
            continue
        compatible = words[0].startswith("<")
        mapped = [int(word, 16) for word in words[compatible:]]
        composes = not compatible and len(mapped) == 2 and unicode.normalize("NFC", chr(c)) == chr(c)
        codes.append(c)
        kinds.append(4 * len(mapped) + 2 * compatible + composes)
        for k, m in enumerate(mapped):
            parts += signed(m - before[k])
            before[k] = m
        counts["mapped"] += len(mapped)
        counts["composed"] += composes
    counts["decomposed"] = len(codes)
    return {"decomposed_gaps": gaps(codes), "decomposed_kinds": kinds, "decomposed_parts": parts}, counts


def lower_case() -> tuple[dict[str, list[int]], int]:
    codes = [c for c in POINTS if chr(c).lower() != chr(c) and c != DOTTED]
    assert [c for c in POINTS if len(chr(c).lower()) > 1] == [DOTTED]
    steps = [byte for c in codes for byte in signed(ord(chr(c).lower()) - c)]
    return {"lower_gaps": gaps(codes), "lower_steps": steps}, len(codes)


def combining_classes() -> tuple[list[int], int]:
    """Of each range of one class: the gap before it, its length less 1, the class."""
    ranges: list[list[int]] = []
    for c in POINTS:
        ccc = unicode.combining(chr(c))
        if ccc and ranges and ranges[-1][1:] == [c - 1, ccc]:
            ranges[-1][1] = c
        elif ccc:
            ranges.append([c, c, ccc])
    ends = [-1, *(last for _, last, _ in ranges)]
    rows = [bits7(a - end - 1) + bits7(b - a) + [k] for end, (a, b, k) in zip(ends, ranges, strict=False)]
    return [byte for row in rows for byte in row], len(ranges)


def pages() -> tuple[list[int], list[str]]:
    """The page of each block of characters, and the categories of each page, a letter from "a" on each."""
    of_block, known = [], dict[str, int]()
    for start in range(0, 0x110000, PAGE):
        block = range(start, start + PAGE)
        page = "".join(chr(ord("a") + CATEGORIES.index(unicode.category(chr(c)))) for c in block)
        of_block.append(known.setdefault(page, len(known)))
    return of_block, list(known)


def main() -> None:
    assert unicode.unidata_version == "16.0.0", unicode.unidata_version
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    columns, counts = decompositions()
    lower, counts["lowered"] = lower_case()
    classes, counts["classed"] = combining_classes()
    packed = {**columns, **lower, "classes_packed": classes}
    assert counts["mapped"] < 65536
    names = ", ".join(f"{name.upper()} = {count}" for name, count in counts.items())
    tables = "\n".join(
        f"static const uint8_t {name}[] = {{\n{wrapped([str(byte) for byte in data])}\n}};"
        for name, data in packed.items()
    )
    of_block, known = pages()
    half = PAGE // 2
    OUT.write_text(
        f"""/* unicode.gen.h - tables of Unicode {unicode.unidata_version}.  Generated by tools/gen_unicode.py. */
/* first, last, category of the characters that are younger than Unicode 14 */
static const struct {{ uint32_t first, last; char category[3]; }} young[] = {{
{wrapped(young())}
}};
enum {{ {names} }};
/* Decompositions of one level: code points; 4 * length + 2 if compatible + 1 if it is composed again; the parts, each
 * as the difference to the part in this place before.  Lower case: code points, and the steps to their lower case.
 * Combining classes other than 0: gap, length less 1, class. */
{tables}
/* of each block of {PAGE} characters: its page below, with their categories, 'a' + cr_category */
enum {{ PAGE = {PAGE} }};
static const uint16_t pages[] = {{
{wrapped([str(p) for p in of_block])}
}};
static const char categories[][PAGE + 1] = {{
{"".join(f'    "{p[:half]}"{chr(10)}    "{p[half:]}",{chr(10)}' for p in known)}}};
""",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
