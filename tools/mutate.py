"""Breaks every gradient and every pass over plans, one place at a time, and demands that a test notices.

    mutate.py             all of them
    mutate.py --quick     a fixed sample of the structured gradients, for make test
    mutate.py --plans     passes over plans only (tools/plan_mutants.py)
    mutate.py --list      says where they are

Rows of ops.def are broken in memory by tests/test_grad.c itself (row_mutants).  For gradients in C
this makes a copy of the sources under build/mutate, in which each place of interest becomes a
choice by a number:

    dx[0] = mul(y, g);      ->      dx[0] = MUTANT(7, mul(y, g));         as it is; 7 negates, 8
    multiplies by 1.5, 9 gives zeros sub(g, mean_last(h))    ->      (cr_mutant == 10 ? (g) : sub(g,
    mean_last(h)))                               10 drops a term

so that one build serves all mutants: the test program is linked once, and runs with
CHAINRULE_MUTANT=number for the ops concerned. Passes over plans are broken in the same way. Needs a
build with compile_commands.json (make build); CHAINRULE_BUILD says where, build/release otherwise."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from plan_mutants import PLAN_MUTANTS, PlanMutant

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
WORK = ROOT / "build" / "mutate"
TIMEOUT = 300.0  # seconds for one mutant; one that hangs has been noticed
QUICK = 10  # mutants of --quick
ISA = 2 if platform.machine() in ("x86_64", "AMD64") else 0  # the vector kernels of one instruction set stand for all

VIEWS = (
    "alias view reshape flatten squeeze unsqueeze permute transpose slice select index split expand sum mean unbind"
    " meshgrid"
)
ROWS = "softmax log_softmax layer_norm rms_norm cross_entropy"


@dataclass(frozen=True)
class Target:
    """A file, the functions in it that are gradients, and the ops whose tests must notice."""

    path: str
    functions: str  # a pattern for names
    places: str  # a pattern for the start of a statement whose right side is mutated: group 1 is kept
    ops: str
    nested: bool = False  # also drop operands of add, sub, mul, divide


ASSIGNED = r"(\bdx\[\w+\] = )(?!NULL|out\[|cr_fused\()"  # dx[0] = ...; cr_fused: memory without numbers
TARGETS = [
    Target("src/ops/views.c", r"\w+_grad", ASSIGNED, VIEWS, True),
    Target(
        "src/ops/strided_view.c",
        r"\w+_grad",
        ASSIGNED,
        "part embed_part replace_part index slice select split unbind diagonal unfold",
        True,
    ),
    Target("src/ops/arrange.c", r"\w+_grad", ASSIGNED, "roll pad", True),
    Target("src/ops/triangle.c", r"\w+_grad", ASSIGNED, "tril triu triangle", True),
    Target("src/ops/copy.c", r"\w+_grad", ASSIGNED, "clone contiguous cast transfer", True),
    Target("src/ops/cat.c", r"\w+_grad", ASSIGNED, "cat stack", True),
    Target("src/ops/reduce.c", r"\w+_grad", ASSIGNED, "sum sum_squares nansum mean nanmean max min aminmax", True),
    Target("src/ops/variance.c", r"\w+_grad", r"(\bdx\[\w+\] = |\bweight = )(?!NULL|widened)", "var std", True),
    Target("src/ops/vector_norm.c", r"\w+_grad", r"(\bdx\[\w+\] = |\breturn |\bwide = )(?!isinf|NULL)", "norm", True),
    Target("src/ops/logsumexp.c", r"\w+_grad", ASSIGNED, "logsumexp", True),
    Target(
        "src/ops/scan.c", r"\w+_grad", r"(\bdx\[\w+\] = |\bcr_tensor \*t = )", "cumsum logcumsumexp cummax cummin", True
    ),
    Target("src/ops/prod.c", r"\w+_grad", r"(\bdx\[\w+\] = |\breturn )(?=cast_to|mul)", "prod cumprod", True),
    Target(
        "src/ops/order.c",
        r"\w+_grad|spread",
        rf"(?:{ASSIGNED}|(\breturn ))",
        "sort kthvalue median nanmedian topk",
        True,
    ),
    Target("src/ops/matmul.c", r"\w+_grad", r"(\bdx\[\w+\] = |\bd[ab] = )", "matmul addmm", True),
    Target("src/ops/linear.c", r"\w+_grad|\w*gradient\w*", ASSIGNED, "linear", True),
    Target("src/ops/linear_packed.c", r"\w+_grad", ASSIGNED, "linear_packed", True),
    Target("src/ops/gather.c", r"\w+_grad", ASSIGNED, "gather scatter scatter_add scatter_reduce", True),
    Target(
        "src/ops/take.c",
        r"\w+_grad",
        ASSIGNED,
        "embedding take put index_select index_add index_copy index_get index_put",
        True,
    ),
    Target("src/ops/softmax.c", r"\w+_grad", ASSIGNED, "softmax log_softmax", True),
    Target("src/ops/norm.c", r"\w+_grad", ASSIGNED, "layer_norm rms_norm", True),
    Target("src/ops/cross_entropy.c", r"\w+_grad", ASSIGNED, "cross_entropy linear_cross_entropy", True),
    Target("src/ops/attention.c", r"\w+_grad", ASSIGNED, "attention attention_packed", True),
    Target("src/dev/ref/rows.c", r"\w+_bwd|norm_dx", r"(\bput\(&?[\w>-]+, [^,]*?, |\b\w+ \+= )", ROWS),
    Target(
        "src/dev/ref/attention.c",
        r"backward_\w+|dscore",
        r"(\bset\(\w+, a, [ts], d, |\bfor_[kv]\[d\] \+= |\brow\[d\] \+= |\breturn )",
        "attention",
    ),
    Target("src/dev/ref/index.c", r"add_to", r"(\bput\(y, at, )", "gather embedding"),
    Target("src/dev/cpu/rows.c", r"entropy_bwd_chunk", r"(\[t\] -= )", "cross_entropy"),
    Target("src/dev/cpu/rows_f64.c", r"\w+_bwd", r"(\bd[xwb]\[i\] \+?= |\b(?:s|sum_v|sum_vh) \+= |, c = )", ROWS),
    Target(
        "src/dev/cpu/rows_isa.c",
        r"\w+_bwd",
        r"(\bstore_part\(d[xwb] \+ i, |\bfloat [sa] = |, (?:c|shift|scale|less) = )",
        ROWS,
    ),
    Target("src/dev/cpu/fused.gen.h", r"fused_\d+", r"(\bSTORE\(out\[0\] \+ i, )", ""),
    Target(
        "src/dev/cpu/attention.c",
        r"backward_head_f64",
        r"(\bdouble p = |\bdouble ds = |\bd[qkv]\[d\] \+= )",
        "attention",
    ),
    Target(
        "src/dev/cpu/attention_isa.c",
        r"softmax_row_bwd",
        r"(\bSTORE\(p \+ i, (?=y)|\bSTORE\(ds \+ i, (?=d\b))",
        "attention",
    ),
    Target("src/dev/cpu/attention_isa.c", r"dots", r"(\bSTORE\(to \+ i, (?=sum))", "attention"),
]
# A row with a gradient in one input only: test_grad leaves it to tests/python/test_special.py.
ELSEWHERE = ["zeta"]
HEADER = """/* Included before each mutated source. */
#pragma once
#include <chainrule.h>
extern int cr_mutant;
#define MUTANT(n, e) (cr_mutant == (n) ? -(e) : cr_mutant == (n) + 1 ? (e) * 1.5f \
    : cr_mutant == (n) + 2 ? (e) * 0 : (e))
static inline cr_tensor *cr_mutate(int n, cr_tensor *t) {
    if (!t || cr_is_none(t) || cr_mutant < n || cr_mutant > n + 2) return t;
    return cr_mutant == n ? cr_neg(t) : cr_mul_scalar(t, cr_mutant == n + 1 ? 1.5 : 0);
}
static inline cr_tensor *cr_mutate_zero(int n, cr_tensor *t) { return cr_mutant == n && t ? cr_add_scalar(t, 1.5) : t; }
"""
CHOICE = """#include <stdlib.h>
int cr_mutant;
__attribute__((constructor)) static void choose(void) {
    const char *s = getenv("CHAINRULE_MUTANT");
    if (s) cr_mutant = atoi(s);
}
"""


@dataclass(frozen=True)
class Mutant:
    number: int
    where: str
    what: str
    ops: str


def closing(text: str, start: int, stops: str) -> int:
    """Where the expression that starts here ends: at one of `stops` outside of every bracket."""
    depth = 0
    for i in range(start, len(text)):
        if depth == 0 and text[i] in stops:
            return i
        depth += (text[i] in "([{") - (text[i] in ")]}")
    raise ValueError(f"no end: {text[start : start + 60]!r}")


def bodies(text: str, names: str) -> list[tuple[str, int, int]]:
    """Name, start and end of the body of each function whose name matches."""
    found = []
    for m in re.finditer(rf"^[a-z][\w \*]*?\b({names})\(", text, re.MULTILINE):
        after = closing(text, m.end(), ")") + 1
        if text[after : after + 2] == " {":
            found.append((m.group(1), after + 2, closing(text, after + 2, "}")))
    return found


class Mutator:
    def __init__(self) -> None:
        self.mutants: list[Mutant] = []

    def add(self, where: str, what: str, ops: str) -> int:
        self.mutants.append(Mutant(len(self.mutants) + 1, where, what, ops))
        return len(self.mutants)

    def three(self, where: str, expression: str, ops: str, tensor: bool) -> str:
        if expression.startswith("cr_zeros_like("):
            return f"cr_mutate_zero({self.add(where, f'not zero: {expression}', ops)}, {expression})"
        first = [self.add(where, f"{how}: {expression}", ops) for how in ("negated", "times 1.5", "zero")][0]
        return f"cr_mutate({first}, {expression})" if tensor else f"MUTANT({first}, {expression})"

    def drop(self, text: str, where: str, ops: str) -> str:
        """Every call of add, sub, mul, divide, mul_k inside may become one of its operands."""
        out, at = "", 0
        for m in re.finditer(r"\b(add|sub|mul|divide|mul_k)\(", text):
            if m.start() < at:
                continue
            comma, end = closing(text, m.end(), ","), closing(text, m.end(), ")")
            a, b = text[m.end() : comma].strip(), text[comma + 1 : end].strip()
            keep = [("the first operand", a)] + ([("the second operand", b)] if m.group(1) in ("add", "mul") else [])
            numbers = [
                (self.add(where, f"{what} alone: {text[m.start() : end + 1]}", ops), kept) for what, kept in keep
            ]
            inner = f"{m.group(1)}({self.drop(a, where, ops)}, {self.drop(b, where, ops)})"
            for number, kept in numbers:
                inner = f"(cr_mutant == {number} ? (cr_tensor *)({kept}) : {inner})"
            out += text[at : m.start()] + inner
            at = end + 1
        return out + text[at:]

    def file(self, target: Target, text: str) -> str:
        for name, start, end in reversed(bodies(text, target.functions)):
            body, out, at = text[start:end], "", 0
            head = text[: text.rfind("\nstatic ", 0, start)].splitlines()[-1]  # the comment before the function
            row = re.match(r"/\* gradient of (\w+)", head)
            ops = target.ops or (row.group(1) if row else "")
            if not ops:  # a kernel of fused.gen.h that is no gradient
                continue
            where, tensor = f"{target.path}, {name}", target.path.startswith("src/ops")
            for m in re.finditer(target.places, body):
                line = body[body.rfind("\n", 0, m.start()) + 1 : m.start()]
                if m.start() < at or "numel" in line:  # of an empty tensor nothing can be wrong
                    continue
                stop = closing(body, m.end(), ",;)")
                out += body[at : m.end()] + self.three(where, body[m.end() : stop], ops, tensor)
                at = stop
            out += body[at:]
            text = text[:start] + (self.drop(out, where, ops) if target.nested else out) + text[end:]
        return text


def mutate_tree(mutator: Mutator) -> set[str]:
    """A copy of include/ and src/ with a choice at each place; the files to compile."""
    shutil.rmtree(WORK, ignore_errors=True)
    for folder in ("include", "src"):
        shutil.copytree(ROOT / folder, WORK / folder)
    files: set[str] = set()
    for target in TARGETS:
        path, before = WORK / target.path, len(mutator.mutants)
        path.write_text(mutator.file(target, path.read_text()))
        if len(mutator.mutants) == before:
            sys.exit(f"mutate.py: nothing to break in {target.path}: does {target.functions} still exist there?")
        files.add("src/dev/cpu/elementwise_isa.c" if target.path.endswith(".gen.h") else target.path)
    (WORK / "mutant.h").write_text(HEADER)
    (WORK / "mutant.c").write_text(CHOICE)
    return files


def compile_file(path: str) -> str:
    """As the build does, but from the copy."""
    source, out = str(ROOT / path), str(WORK / (path.replace("/", "_") + ".o"))
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        command = shlex.split(entry["command"])
        if entry["file"] != source or (path.endswith("_isa.c") and f"-DCR_ISA={ISA}" not in command):
            continue
        command = [a.replace(f"{ROOT}/include", f"{WORK}/include") for a in command if a != source]
        command[command.index("-o") + 1] = out
        subprocess.run(
            [*command, "-w", "-include", str(WORK / "mutant.h"), str(WORK / path)], check=True, cwd=entry["directory"]
        )
        return out
    sys.exit(f"mutate.py: {path} is not in {BUILD}/compile_commands.json: make build")


def build_program(files: set[str], name: str = "test_grad") -> Path:
    """The test program over the mutated files; what they do not define comes from the library."""
    compiler = shlex.split(json.loads((BUILD / "compile_commands.json").read_text())[0]["command"])[0]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        objects = list(pool.map(compile_file, sorted(files)))
    subprocess.run([compiler, "-c", str(WORK / "mutant.c"), "-o", str(WORK / "mutant.o")], check=True)
    test, library = next(BUILD.rglob(f"{name}.c.o"), None), next(BUILD.rglob("libchainrule.a"), None)
    if not test or not library:
        sys.exit(f"mutate.py: no {name} or no library in {BUILD}: make build")
    program = WORK / name
    subprocess.run(
        [
            compiler,
            str(test),
            *objects,
            str(WORK / "mutant.o"),
            str(library),
            "-lm",
            "-lpthread",
            "-ldl",
            "-o",
            str(program),
        ],
        check=True,
    )
    return program


def passes(program: Path, number: int, ops: str) -> bool:
    """Do the gradient tests of these ops pass?  A crash, or no end, is noticed too."""
    environment = {"CHAINRULE_TEST_OPS": ",".join(ops.split()), "CHAINRULE_NUM_THREADS": "1"}
    if ISA:
        environment["CHAINRULE_ISA"] = f"v{ISA}"
    return run_tests(program, number, ["exact", "low", "golden"], environment)


def run_tests(program: Path, number: int, tests: list[str], more: dict[str, str]) -> bool:
    """Do these tests of the program pass with this mutant?"""
    environment = {**os.environ, "CHAINRULE_MUTANT": str(number), **more}
    environment.pop("CHAINRULE_TEST_SHARE", None)  # one sample of the tables, whatever the commit
    try:
        done = subprocess.run([str(program), *tests], cwd=ROOT, env=environment, capture_output=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def row_mutants() -> tuple[int, int, list[str]]:
    """test_grad's own count, and the survivors it names."""
    program = next((p for p in BUILD.rglob("test_grad") if p.is_file()), None)
    if not program:
        sys.exit(f"mutate.py: no test_grad in {BUILD}: make build")
    done = subprocess.run([str(program), "row_mutants"], cwd=ROOT, capture_output=True, text=True, timeout=1200)
    found = re.search(r"row mutants: (\d+) mutants, (\d+) caught", done.stdout)
    if not found:
        sys.exit(f"mutate.py: test_grad did not count its row mutants:\n{done.stdout}{done.stderr}")
    return int(found.group(1)), int(found.group(2)), re.findall(r"survivor: (.*)", done.stdout)


def structured_mutants(quick: bool, only: str) -> tuple[int, int, list[str]]:
    mutator = Mutator()
    program = build_program(mutate_tree(mutator))
    chosen = [m for m in mutator.mutants if only in m.where and m.ops.split() != ELSEWHERE]
    if quick:
        chosen = sorted(random.Random(1).sample(chosen, min(QUICK, len(chosen))), key=lambda m: m.number)
    for ops in sorted({m.ops for m in chosen}):
        if not passes(program, 0, ops):
            sys.exit(f"mutate.py: the gradient tests of {ops} fail before anything is broken")
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        alive = list(pool.map(lambda m: passes(program, m.number, m.ops), chosen))
    names = [
        f"{m.where}: {m.what} (CHAINRULE_MUTANT={m.number} CHAINRULE_TEST_OPS={','.join(m.ops.split())})"
        for m in chosen
    ]
    survivors = [name for name, lives in zip(names, alive, strict=True) if lives]
    return len(chosen), len(chosen) - len(survivors), survivors


# ---- plans ----


def span_of(text: str, m: PlanMutant) -> tuple[int, int]:
    """Where the expression of the mutant stands in the source."""
    before, _, rest = m.text.partition("«")
    expression, _, after = rest.partition("»")
    if text.count(before + expression + after) != 1:
        sys.exit(f"mutate.py: '{before + expression + after}' stands not once in {m.path}: see tools/plan_mutants.py")
    start = text.index(before + expression + after) + len(before)
    return start, start + len(expression)


def with_choices(path: str) -> str:
    """The source, in which each expression of a mutant is a choice between it and the other one."""
    text = (ROOT / path).read_text()
    numbered = [(*span_of(text, m), n, m.other) for n, m in enumerate(PLAN_MUTANTS, 1) if m.path == path]
    for start, end, number, other in sorted(numbered, reverse=True):
        text = f"{text[:start]}(cr_mutant == {number} ? ({other}) : ({text[start:end]})){text[end:]}"
    return text


def plan_tree() -> set[str]:
    """A copy of include/ and src/ with all choices; the files to compile."""
    shutil.rmtree(WORK, ignore_errors=True)
    for folder in ("include", "src"):
        shutil.copytree(ROOT / folder, WORK / folder)
    files = {m.path for m in PLAN_MUTANTS}
    for path in files:
        (WORK / path).write_text(with_choices(path))
    (WORK / "mutant.h").write_text("extern int cr_mutant;\n")
    (WORK / "mutant.c").write_text(CHOICE)
    return {"src/plan/kernels.c" if path.endswith(".def") else path for path in files}


def tests_of(m: PlanMutant) -> tuple[str, list[str]]:
    first, *rest = m.tests.split()
    return (first, rest) if first.startswith("test_") else ("test_plan", [first, *rest])


def plan_mutants() -> tuple[int, int, list[str]]:
    """Those that a simulated GPU must notice only where it was built."""
    files, simulator = plan_tree(), (BUILD / "cudasim" / "libcuda.so.1").exists()
    mutants = [
        (number, m)
        for number, m in enumerate(PLAN_MUTANTS, 1)
        if simulator or not tests_of(m)[0].startswith("test_cuda")
    ]
    programs = {name: build_program(files, name) for name in sorted({tests_of(m)[0] for _, m in mutants})}

    def lives(number: int, m: PlanMutant) -> bool:
        name, tests = tests_of(m)
        with tempfile.TemporaryDirectory() as folder:  # loops that a mutant makes are not kept
            cpu = {"CHAINRULE_CACHE": folder, "CHAINRULE_WGPU": "off", "CHAINRULE_CUDA": "off"}
            return run_tests(programs[name], number, tests, {} if name.startswith("test_cuda") else cpu)

    sets = sorted({m.tests for _, m in mutants})
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        whole = list(pool.map(lambda tests: lives(0, PlanMutant("", "", "", "", tests)), sets))
        if not all(whole):
            sys.exit(f"mutate.py: '{sets[whole.index(False)]}' fails before anything is broken")
        alive = list(pool.map(lambda numbered: lives(*numbered), mutants))
    survivors = [
        f"{m.kind}, {m.path}: {m.text} -> {m.other} (CHAINRULE_MUTANT={number})"
        for (number, m), lived in zip(mutants, alive, strict=True)
        if lived
    ]
    return len(alive), len(alive) - len(survivors), survivors


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Breaks gradients and plans, one place at a time, and demands that a test notices."
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} of the structured ones, always the same")
    parser.add_argument("--plans", action="store_true", help="passes over plans only")
    parser.add_argument("--only", default="", help="those whose file and function contain this text")
    parser.add_argument("--list", action="store_true", help="names every structured mutant, runs nothing")
    given = parser.parse_args()
    if given.list:
        mutator = Mutator()
        mutate_tree(mutator)
        for m in mutator.mutants:
            print(f"{m.number:4} {m.where}: {m.what}")
        for number, plan in enumerate(PLAN_MUTANTS, 1):
            print(f"{number:4} {plan.path}, pass {plan.kind}: {plan.text} -> {plan.other}")
        return 0
    for path in {m.path for m in PLAN_MUTANTS}:
        with_choices(path)  # also a quick run notices a table that is not current
    parts: list[tuple[int, int, list[str]]] = []
    if not given.plans:
        parts.append(structured_mutants(given.quick, given.only))
    if not given.plans and not given.quick and not given.only:
        parts.append(row_mutants())
    if not given.quick and not given.only:
        parts.append(plan_mutants())
    made, caught = sum(part[0] for part in parts), sum(part[1] for part in parts)
    survivors = [line for part in parts for line in part[2]]
    for line in survivors:
        print(f"survivor: {line}")
    print(f"{made} mutants, {caught} caught")
    return 0 if caught == made else 1


if __name__ == "__main__":
    sys.exit(main())
