"""A model of workgroup memory runs the tile kernels' texts: races between barriers, bank conflicts, loads.

The model follows WGSL's memory model: a store to a component of a vector may access the whole vector
(gpuweb issue 2112).  Banks are those of common hardware: 32 of one word, for 32 invocations at a time;
invocations that read the same word share one access.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType

import pytest

FOLDER = Path(__file__).parents[2] / "src" / "dev" / "webgpu"
LANES, SUBGROUP, BANKS = 256, 32, 32
LOOP = re.compile(r"for \(var (k0|tile) = ")  # over parts of the operands
TILES = {"TILE": 4, "SIDE": 16, "EDGE": 64, "DEPTH": 16, "PITCH": 66, "UNROLLED": 4, "COPIES": 4, "SIZE": LANES}
WORDS = {"f32": 1, "u32": 1, "T": 1, "vec4<f32>": 4, "vec4<i32>": 4}
CASES: dict[str, dict[str, int]] = {
    "matmul": {},
    "matmul, along k": {"ALONG_K_A": 1, "ALONG_K_B": 1},
    "matmul, 64 bits": {"WIDE": 1, "DEPTH": 8, "COPIES": 2},
    "conv": {"TILES": 1},
    "conv, weight": {"TILES": 1, "WEIGHT": 1},
}
KINDS = {"FORWARD": (1, 1), "DQ": (2, 1), "DKV": (2, 2)}  # of attention: products, sums


def constants_of(name: str) -> dict[str, int]:
    """Those of the tiles as the C file has them."""
    text = (FOLDER / f"{name}.c").read_text()
    values = {"SIZE": LANES, **TILES}
    for key in ("TILE", "SIDE", "DEPTH", "UNROLLED"):
        values[key] = int(re.search(rf"\b{key} = (\d+)[,\s]", text)[1])  # type: ignore[index]
    values["EDGE"] = values["TILE"] * values["SIDE"]
    values["PITCH"] = values["EDGE"] + int(re.search(r"PITCH = EDGE \+ (\d+)", text)[1])  # type: ignore[index]
    values["COPIES"] = values["DEPTH"] * values["EDGE"] // LANES
    values["ROW_PAIRS"], values["TWO"] = values["TILE"] // 2, 2
    return values


def constants_of_attention(kind: str, size: int) -> dict[str, int]:
    """As `write` of attention.c has them, for heads of this size."""
    text = (FOLDER / "attention.c").read_text()
    found = (re.search(rf"\b{key} = (\d+),", text) for key in ("FOUR", "EDGE", "UNROLLED"))
    four, edge, unrolled = (int(match[1]) for match in found if match)
    across = 32 if size > 128 else 16 if size > 64 else 8
    width, height, lanes = -(-size // (2 * across)) * 2 * across, edge, edge // four * across
    while height * width > edge * (edge + 1):
        height //= 2
    return {
        kind: 1,
        "PRODUCTS": KINDS[kind][0],
        "SUMS": KINDS[kind][1],
        "FOUR": four,
        "EDGE": edge,
        "PITCH": edge + int(re.search(r"PITCH = EDGE \+ (\d+)", text)[1]),  # type: ignore[index]
        "PITCH4": edge // four + int(re.search(r"PITCH4 = EDGE / FOUR \+ (\d+)", text)[1]),  # type: ignore[index]
        "UNROLLED": unrolled,
        "ACROSS": across,
        "X": edge // across,
        "PAIRS": width // (2 * across),
        "WIDTH": width,
        "HEIGHT": height,
        "SIZE": lanes,
    }


def expand(lines: list[str], values: dict[str, int], loops: dict[str, int] | None = None) -> list[str]:
    """The lines after #if, #else and #for."""
    out: list[str] = []
    loops = loops or {}
    i = 0
    while i < len(lines):
        line = lines[i]
        i += 1
        if not line.startswith(("#if", "#for")):
            out.append(re.sub(r"\$(\w)", lambda m: str(loops.get(m[1], m[0])), line))
            continue
        depth, begin, middle = 1, i, None
        while depth:
            depth += lines[i].startswith(("#if", "#for")) - lines[i].startswith("#end")
            if depth == 1 and lines[i].startswith("#else"):
                middle = i
            i += 1
        words = line.split()
        if words[0] == "#for":
            for k in range(values.get(words[2], 0)):
                out += expand(lines[begin : i - 1], values, {**loops, words[1]: k})
        elif values.get(words[1]):
            out += expand(lines[begin : middle if middle is not None else i - 1], values, loops)
        elif middle is not None:
            out += expand(lines[middle + 1 : i - 1], values, loops)
    return out


@dataclass
class Found:
    races: set[str] = field(default_factory=set)
    conflict: int = 1  # the most words of one bank that an access of a subgroup needs
    loads: int = 0  # words an invocation loads in the phase of the products


@cache
def compiled(text: str) -> CodeType | None:
    try:
        return compile(re.sub(r"\b(\d+)u\b", r"\1", text).replace("/", "//"), "<wgsl>", "eval")
    except SyntaxError:
        return None


def value(text: str, names: dict[str, int]) -> int | None:
    code = compiled(text)
    try:
        return int(eval(code, {}, names)) if code else None
    except (NameError, TypeError):
        return None  # depends on data


def run(text: str, values: dict[str, int]) -> Found:
    """Runs the kernel through its loops, for all invocations in step."""
    lines = expand(text.splitlines(), values)
    arrays = {}
    for name, kind in re.findall(r"var<workgroup> (\w+): array<([\w<>]+), ", "\n".join(lines)):
        arrays[name] = WORDS[kind] * (2 if kind == "T" and values.get("WIDE") else 1)
    start = next(k for k, line in enumerate(lines) if line.startswith("fn kernel"))
    lanes = [{**values, "lane": lane} for lane in range(values["SIZE"])]
    found, loads = Found(), 0
    phase: dict[tuple[str, int | None], set[tuple[int, bool]]] = {}  # (array, element) -> {(lane, stored)}
    loop = next(k for k, line in enumerate(lines) if LOOP.search(line))
    end = lines.index(lines[loop][: -len(lines[loop].lstrip())] + "}", loop)
    for line in lines[start:end] + lines[loop:]:  # two turns of the loop
        line = line.split("//")[0].strip()
        if line == "workgroupBarrier();":
            phase, found.loads, loads = {}, max(found.loads, loads), 0
            continue
        for name, index, component in re.findall(r"\b(\w+)\[([^\[\]]+)\](\[[^\]]*\])?", line):
            if name not in arrays:
                continue
            stored = re.match(rf"{name}\[[^=]*\] = ", line) is not None
            at = [value(index, names) for names in lanes]
            assert all(a is not None for a in at), f"the model cannot follow: {line}"
            part = [value(component[1:-1], names) if component else 0 for names in lanes]
            if line.startswith("if lane < "):
                continue
            for lane, a in enumerate(at):
                users = phase.setdefault((name, a), set())
                users.add((lane, stored))
                if any(wrote for _, wrote in users) and len({user for user, _ in users}) > 1:
                    found.races.add(line)
            words = arrays[name]
            loads += words if name.startswith("part_") and not stored else 0
            for first in range(0, len(lanes), SUBGROUP):
                banks: dict[int, set[int]] = {}
                for lane in range(first, first + SUBGROUP):
                    one = at[lane] * words + (part[lane] or 0)  # type: ignore[operator]
                    for word in [one] if component or words == 1 else range(one, one + words):
                        banks.setdefault(word % BANKS, set()).add(word)
                most = max(len(b) for b in banks.values())
                found.conflict = max(found.conflict, -(-most // (1 if component else words)))
        if match := re.match(r"(?:let|var) (\w+) = (.*);", line.replace("for (", "")):
            for names in lanes:
                got = value(match[2].split(";")[0], names)
                if got is not None:
                    names[match[1]] = got
    return found


def text_of(case: str) -> tuple[str, dict[str, int]]:
    name = case.split(",")[0]
    return (FOLDER / f"{name}.wgsl").read_text(), {**constants_of(name), **CASES[case]}


@pytest.mark.parametrize("case", CASES)
def test_tiles(case: str) -> None:
    text, values = text_of(case)
    found = run(text, values)
    assert not found.races
    assert found.conflict <= 2, found
    products = values["UNROLLED"] * values["TILE"] ** 2
    assert 0 < found.loads <= 0.5 * products * (2 if values.get("WIDE") else 1), found


@pytest.mark.parametrize("size", [32, 64, 96, 256])
@pytest.mark.parametrize("kind", KINDS)
def test_tiles_of_attention(kind: str, size: int) -> None:
    text, values = (FOLDER / "attention.wgsl").read_text(), constants_of_attention(kind, size)
    assert values["SIZE"] >= 64  # a full subgroup of any GPU
    found = run(text, values)
    assert not found.races
    assert found.conflict <= 2, found
    lines = expand(text.splitlines(), values)
    memory = sum(
        WORDS[kind] * 4 * eval(count, {}, values)
        for kind, count in re.findall(r"^var<workgroup> \w+: array<([\w<>]+), (.*)>;", "\n".join(lines), re.MULTILINE)
    )
    assert memory <= 16384  # what every GPU has


@pytest.mark.parametrize("kind", KINDS)
def test_every_barrier_of_attention_is_needed(kind: str) -> None:
    values = constants_of_attention(kind, 32)
    text = "\n".join(expand((FOLDER / "attention.wgsl").read_text().splitlines(), values))
    for barrier in re.finditer(r" +workgroupBarrier\(\);\n", text):
        assert run(text[: barrier.start()] + text[barrier.end() :], values).races, text[: barrier.start()][-300:]


def test_the_model_finds_a_race_and_conflicts() -> None:
    """The kernel as it was: four invocations store the components of one vector, 16 meet in a bank."""
    text, values = text_of("matmul, along k")
    for part in "ab":
        text = text.replace(f"part_{part}: array<T, DEPTH * PITCH>", f"part_{part}: array<vec4<f32>, DEPTH * SIDE>")
        text = text.replace(f"part_{part}[d * PITCH + e] =", f"part_{part}[d * SIDE + e / 4u][e % 4u] =")
    found = run(text, values)
    assert any("part_a" in line for line in found.races) and any("part_b" in line for line in found.races)
    assert found.conflict == 16


def test_the_model_finds_a_lost_barrier_and_a_bad_pitch() -> None:
    text, values = text_of("matmul")
    for barrier in re.finditer(r" +workgroupBarrier\(\);\n", text):
        assert run(text[: barrier.start()] + text[barrier.end() :], values).races
    text, values = text_of("matmul, along k")
    assert run(text, {**values, "PITCH": 64}).conflict == 16


def test_no_kernel_stores_a_component() -> None:
    """Into a vector of workgroup memory: other invocations may write its other components."""
    for path in sorted(FOLDER.glob("*.wgsl")):
        text = path.read_text()
        for name, _ in re.findall(r"var<workgroup> (\w+): array<(vec\d[^>]*>|four)", text):
            for line in text.splitlines():
                assert not re.match(rf"\s*(if .*\{{ )?{name}\[[^\]]*\](\[|\.[xyzw]\b)[^=;]*=[^=]", line), (path, line)


# ---- fast math: a compiler that adds in any order must not see two sums whose rounding matters

SEPARATE = ("two_sum", "two_product", "exp_rest", "quarters")


def functions(text: str) -> dict[str, str]:
    return {m[1]: m[2] for m in re.finditer(r"^fn (\w+)\(.*?\{(.*?)(?=^fn |\Z)", text, re.MULTILINE | re.DOTALL)}


def sums_together(expression: ast.expr) -> int:
    """The most sums of one region: the argument of `hidden`, or what is around such calls."""
    inner = [0]

    def count(node: ast.AST) -> int:
        if isinstance(node, ast.Call):
            most = [count(argument) for argument in node.args]
            inner.extend(most)
            return 0
        here = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub))
        return here + sum(count(child) for child in ast.iter_child_nodes(node))

    return max(count(expression), *inner)


def regions(body: str) -> list[int]:
    """Of each expression of floats.  Names that are not hidden are replaced by what they stand for."""
    found, known = [], dict[str, str]()
    body = re.sub(r"\b(bitcast|vec2)<[^>]*>", r"\1", body)
    for line in body.splitlines():
        match = re.match(r"\s*(?:let (\w+) = |return )(.*?);", line)
        if not match or "if " in line:
            continue
        text = re.sub(r"\b(\w+)u\b", r"\1", match[2])
        for name, meaning in known.items():
            text = re.sub(rf"\b{name}\b", f"({meaning})", text)
        if match[1] and not text.startswith(("hidden(", "bitcast(", "round(")):
            known[match[1]] = text
        found.append(sums_together(ast.parse(text, mode="eval").body))
    return found


def test_sums_are_kept_apart() -> None:
    all_of = functions((FOLDER / "library.wgsl").read_text())
    for name in SEPARATE:
        most = regions(all_of[name])
        assert most and max(most) <= 1, (name, most)
    assert "hidden(p *" in all_of["scale"]  # 2^a 2^b could be 0 or an infinity


def test_a_sum_that_is_not_kept_apart_is_found() -> None:
    body = functions((FOLDER / "library.wgsl").read_text())["two_sum"]
    for part in re.findall(r"= hidden\((.*?)\);", body):
        assert max(regions(body.replace(f"hidden({part})", f"({part})", 1))) > 1, part


def test_infinities_are_compared_by_bits() -> None:
    for path in sorted([*FOLDER.glob("*.wgsl"), *FOLDER.glob("*.c")]):
        assert not re.search(r"[=!]= -?inf\(\)|-?inf\(\) [=!<>]", path.read_text()), path
