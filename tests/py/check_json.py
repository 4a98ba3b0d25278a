"""The JSON reader and Python's: the same documents are accepted, with the same values, and the same refused.

A few hundred documents are made from a fixed seed (all of CHAINRULE_TEST_FULL=1: twenty thousand),
good ones and broken ones, and given to build/.../tests/fuzz_json --check.  Python's reader is made
as strict as ours: no NaN, no key twice, no lone surrogates, no infinity."""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DEPTH = 128  # CR_JSON_DEPTH
WORDS = [
    b"-",
    b".",
    b"e",
    b"0",
    b"1",
    b"\\",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\u12",
    b"\xff",
    b"\xc3",
    b"null",
    b"NaN",
    b"Infinity",
]
WORDS += [
    b"\x00",
    b"\x1f",
    b" ",
    b"\n",
    b"\v",
    b"\xef\xbb\xbf",
    b"\\ud800",
    b"\\udc00",
    b"\\ud83d\\ude00",
    b"//",
    b"'",
    b"truefalse",
    b"1e400",
    b"1e-400",
]
LITERALS = [
    "0",
    "-0",
    "-0.0",
    "1",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
]
LITERALS += [
    "0.1",
    "1e5",
    "1E+5",
    "12.5e-3",
    "1.7976931348623157e308",
    "1.8e308",
    "5e-324",
    "2e-324",
    "123456789012345678901234567890",
]
LITERALS += [
    "0." + "0" * 400 + "1e400",
    "1" + "0" * 400 + "e-400",
    "1e99999999999999999999",
    "1e-99999999999999999999",
    "0e99999999999999999999",
]
LITERALS += [
    "01",
    "+1",
    ".5",
    "5.",
    "1e",
    "1e+",
    "0x10",
    "-",
    "--1",
    "1_000",
    "NaN",
    "-Infinity",
    "tru",
    "nul",
    "",
    " ",
    "[1,]",
    '{"a":1,}',
    "[1 2]",
]
LITERALS += [
    '{"a" 1}',
    "{a: 1}",
    "['a']",
    '"\\x41"',
    '"\\u00g0"',
    '"\\U0041"',
    '"a\tb"',
    '"a\nb"',
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\ud83d\\ude00"',
]
LITERALS += [
    '"\\ud83dx"',
    '"\\ud83d\\u0041"',
    '"\x7f"',
    '"\u2028"',
    '{"a":1,"a":2}',
    '{"a":1,"\\u0061":2}',
    '{"":0}',
    "[][]",
    "{}x",
    "nulll",
    '"a',
    "[",
    '{"a":',
]


class Refused(Exception):
    pass


def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(items)) < len(items):
        raise Refused("a key twice")
    return dict(items)


def number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Refused("beyond a double")
    return value


def constant(text: str) -> None:
    raise Refused(text)


def integer(text: str) -> int | float:
    value = int(text)
    return value if -(2**63) <= value < 2**63 else number(text)


def form(value: Any) -> str:
    """As fuzz_json.c writes it."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{form(k)}:{form(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(form, value)) + "]"
    if isinstance(value, str):
        value.encode()  # refuses lone surrogates
        return '"' + "".join(f"\\u{ord(c):04x}" if c < " " else "\\" + c if c in '"\\' else c for c in value) + '"'
    if isinstance(value, float):
        return f"{value:.17e}"
    return (
        {True: "true", False: "false", None: "null"}[value] if value is None or isinstance(value, bool) else str(value)
    )


def python_says(document: bytes) -> str:
    try:
        text = document.decode()
        return form(
            json.loads(text, object_pairs_hook=pairs, parse_float=number, parse_int=integer, parse_constant=constant)
        )
    except (ValueError, Refused, RecursionError):  # of which JSONDecodeError and the Unicode errors are kinds
        return "refused"


def value(r: random.Random, depth: int) -> Any:
    kind = r.randrange(8 if depth else 5)
    if kind == 0:
        return r.choice([None, True, False])
    if kind == 1:
        return r.choice([r.randrange(-1000, 1000), r.getrandbits(63), -(2**63), 2**63 - 1])
    if kind == 2:
        return r.choice([r.random(), r.uniform(-1e6, 1e6), r.random() * 10 ** r.randrange(-320, 308)])
    if kind in (3, 4):
        return "".join(
            r.choice(["a", "B", "0", " ", '"', "\\", "/", "\n", "\x01", "\x7f", "é", "√", "😀", "\uffff"])
            for _ in range(r.randrange(8))
        )
    if kind in (5, 6):
        return [value(r, depth - 1) for _ in range(r.randrange(5))]
    return {f"{r.choice('abc')}{i}": value(r, depth - 1) for i in range(r.randrange(5))}


def document(r: random.Random) -> bytes:
    text = json.dumps(
        value(r, 4),
        ensure_ascii=r.random() < 0.5,
        indent=r.choice([None, None, 1]),
        separators=r.choice([None, (",", ":")]),
    )
    data = bytearray(text.encode())
    for _ in range(r.choice([0, 0, 1, 1, 2, 4])):
        at = r.randrange(len(data) + 1)
        change = r.randrange(4)
        if change == 0:
            data[at:at] = r.choice(WORDS)
        elif change == 1:
            data[at : at + r.randrange(4)] = b""
        elif change == 2:
            data[at : at + 1] = r.choice(WORDS)
        else:
            data[at : at + 1] = bytes([r.randrange(256)])
    return bytes(data)


def main() -> int:
    build = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
    program = Path(sys.argv[1]) if len(sys.argv) > 1 else build / "tests" / "fuzz_json"
    r = random.Random(20240607)
    documents = [text.encode() for text in LITERALS]
    documents += [b"[" * n + b"]" * n for n in (DEPTH, DEPTH + 1)] + [b"[" * 100000]
    documents += [document(r) for _ in range(20000 if os.environ.get("CHAINRULE_TEST_FULL") == "1" else 700)]
    stream = b"".join(b"%d\n" % len(d) + d for d in documents)
    answers = (
        subprocess.run([program, "--check"], input=stream, stdout=subprocess.PIPE, check=True)
        .stdout.decode()
        .split("\n")[:-1]
    )
    wrong = accepted = 0
    for d, ours in zip(documents, answers, strict=True):
        theirs = "refused" if d.startswith(b"[" * (DEPTH + 1)) else python_says(d)
        accepted += ours != "refused"
        if ours != theirs:
            wrong += 1
            print(f"{d[:200]!r}\n  chainrule {ours[:200]}\n  python    {theirs[:200]}")
    print(
        f"{len(documents)} documents, {accepted} accepted, {len(documents) - accepted} refused, {wrong} judged or read"
        " differently"
    )
    print(f"result: {int(not wrong)} passed, {int(wrong > 0)} failed, 0 skipped")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
