"""The tools that judge others, judged: check_layers must see a forbidden arrow, run_tests must not count a lost or skipped
test and must run every stage in five runs, check_pages must notice what a page shows wrongly, reference must find all that the header declares."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import check_layers  # noqa: E402
import check_pages  # noqa: E402
import reference  # noqa: E402
import run_tests  # noqa: E402

GOOD = {
    "src/core/core.h": "#include <stdint.h>\n#include <chainrule.h>",
    "src/core/os.h": "",
    "src/core/os.c": '#include "os.h"\n#include <unistd.h>',
    "src/core/status.h": "",
    "src/dev/dev.h": '#include "../core/core.h"',
    "src/dev/cpu/cpu.h": '#include "../dev.h"\n#include <immintrin.h>',
    "src/dev/cpu/a.c": '#include "cpu.h"',
    "src/dev/ref/ref.h": '#include "dev/dev.h"',
    "src/ops/op.h": '#include "../dev/dev.h"',
    "src/grad/graph.h": '#include "../ops/op.h"',
    "src/io/json.h": '#include "../core/status.h"',
    "src/text/a.c": '#include "../io/json.h"\n# include <string.h>',
    "python/src/extension.h": "#define PY_SSIZE_T_CLEAN\n#include <Python.h>\n#include <chainrule.h>",
    "python/src/a.c": '#include "extension.h"\n#include <string.h>\n#include <structmember.h>',
    "src/cli/main.c": '#include <chainrule.h>\n#include "../core/os.h"',
}
BAD = [  # one more file, and the line of it that must be named
    ("src/core/a.c", '\n#include "../dev/dev.h"', 2),
    ("src/core/b.c", "#include <pthread.h>", 1),
    ("src/dev/a.c", '#include "cpu/cpu.h"', 1),
    ("src/dev/ref/a.c", '#include "../cpu/cpu.h"', 1),
    ("src/dev/cpu/b.c", '#include "../../ops/op.h"', 1),
    ("src/ops/a.c", '#include "../grad/graph.h"', 1),
    ("src/ops/b.c", '#include "../dev/cpu/cpu.h"', 1),
    ("src/io/a.c", '#include "../text/a.c"', 1),
    ("src/nn/a.c", '#include "../core/core.h"', 1),
    ("src/cli/a.c", '#include "../io/safetensors.h"', 1),
    ("src/models/a.c", '#include "io/json.h"', 1),
    ("src/cli/b.c", "#include <sys/stat.h>", 1),
    ("src/cli/c.c", '#include "nowhere.h"', 1),
    ("src/cli/d.c", '#include "../../outside.h"', 1),
    ("src/cli/e.c", "#include <immintrin.h>", 1),
    ("src/attic/a.c", '#include "../core/os.h"', 1),
    ("src/io/b.c", "#include <Python.h>", 1),
    ("python/src/b.c", '#include "../../src/core/core.h"', 1),
    ("python/src/c.c", "#include <frameobject.h>", 1),
    ("python/src/d.c", "#include <unistd.h>", 1),
]

OUTPUTS = [  # status, output, passed, failed, skipped
    (0, "result: 3 passed, 0 failed, 1 skipped; cpu 12, ref 5", 3, 0, 1),
    (1, "FAILED x: 2 checks\nresult: 3 passed, 1 failed, 0 skipped", 3, 1, 0),
    (1, "result: 3 passed, 0 failed, 0 skipped", 3, 1, 0),  # a leak found after main has ended
    (139, "a crash", 0, 1, 0),
    (None, "result: 3 passed, 0 failed, 0 skipped", 3, 1, 0),  # out of time
    (0, "no line at all", 1, 0, 0),
    (77, "there is no PyTorch", 0, 0, 1),
    (2, "", 0, 1, 0),
]

SHOWN = [  # what a page shows, what is printed, and is it the same?
    ("loss 0.1234\n", "loss 0.1234", True),
    ("loss 0.1234", "loss 0.1235", True),  # the last of four decimals
    ("loss 0.1234", "loss 0.1236", False),
    ("[1.0000e-04, -2.0000]", "[1.0001e-04, -1.9999]", True),
    ("loss 0.12", "loss 0.13", False),  # as few digits as these are meant
    ("3 of 4", "4 of 4", False),
    ("it took ... ms\nend", "it took 3.25 ms\nend", True),
    ("it took ... ms", "it took 3 s", False),
    ("a\nb", "a", False),
    ("", "something", False),
    ("a (b) [c]*", "a (b) [c]*", True),
]
HEADER = """/* x.h - a card.
 *
 * Errors   what
 *          goes wrong
 */
#define CR_VERSION "1"
#define CR_LIST(...) 1, 2  /* a list */
/* ---- make: things that
 * are made -------- */
typedef struct cr_pair { int a, b; } cr_pair;   /* two */
cr_tensor *cr_f(int n,
                void (*done)(void *ctx));       /* f_ of *n* */
cr_pair   cr_g(void);
                                                /* below */
"""
ENTRIES = ["**Errors**: what goes wrong\n", "{c:macro} CR_VERSION", "{c:macro} CR_LIST(...)\na list", "## Make\n\nthings that are made", "} cr_pair;   /* two */",
           "{c:function} cr_tensor *cr_f(int n, void (*done)(void *ctx))\nf\\_ of \\*n\\*", "{c:function} cr_pair cr_g(void)\nbelow"]  # fmt: skip


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def layers() -> list[str]:
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "outside.h").write_text("")
        write(root, GOOD)
        found, count = check_layers.problems(root)
        if found or count != len(GOOD):
            wrong.append(f"a good tree of {len(GOOD)} files: {count} files, {found}")
        for file, text, line in BAD:
            write(root, {file: text})
            found, _ = check_layers.problems(root)
            if len(found) != 1 or not found[0].startswith(f"{file}:{line}: "):
                wrong.append(f"{file} with {text!r}: {found}")
            (root / file).unlink()
    return wrong


def results() -> list[str]:
    wrong: list[str] = []
    for status, output, *wanted in OUTPUTS:
        total = run_tests.judge("x", status, output)
        got = [total.passed, total.failed, total.skipped]
        if got != wanted:
            wrong.append(f"status {status}, {output!r}: {got}, wanted {wanted}")
    checks = run_tests.judge("x", 0, str(OUTPUTS[0][1])).checks
    if checks != {"cpu": 12, "ref": 5}:
        wrong.append(f"counts of devices: {checks}")
    return wrong


def stages() -> list[str]:
    """Every stage runs in five runs of continuous integration, whatever changed, though each takes all of its budget."""
    wrong: list[str] = []
    for changed in ([], ["README.md"], ["src/grad/backward.c"], ["src/dev/cuda/gpu.c", "python/src/call.c", "docs/index.md"], ["src/core/os.c", "Makefile"]):
        missed: dict[str, int] = {}
        ran: set[str] = set()
        for run in range(5):
            left = run_tests.CI_MINUTES - run_tests.STAGES["test"].minutes
            order = run_tests.ci_order(f"{changed} {run}", changed, missed)
            for name in order:
                missed[name] = missed.get(name, 0) + 1
                if run_tests.STAGES[name].minutes <= left:
                    left -= run_tests.STAGES[name].minutes
                    missed[name] = 0
                    ran.add(name)
        if never := set(run_tests.STAGES) - ran - {"test"}:
            wrong.append(f"after a change of {changed} these stages do not run in five runs: {sorted(never)}")
    first = {run_tests.ci_order(str(seed), [], {})[0] for seed in range(50)}
    if len(first) < 10 or run_tests.ci_order("x", ["docs/index.md"], {})[0] != "docs":
        wrong.append(f"the seed draws {first}, and a page touches {run_tests.ci_order('x', ['docs/index.md'], {})[0]}")
    return wrong


def pages() -> list[str]:
    wrong = [f"{shown!r} and {printed!r}: not {same}" for shown, printed, same in SHOWN if check_pages.same(shown, printed) != same]
    made = reference.header(HEADER)
    return wrong + [f"{entry!r} is not in\n{made}" for entry in ENTRIES if entry not in made]


def main() -> int:
    wrong = layers() + results() + pages() + stages()
    for line in wrong:
        print(line)
    cases = 1 + len(BAD) + len(OUTPUTS) + 1 + len(SHOWN) + len(ENTRIES) + 6
    print(f"result: {cases - len(wrong)} passed, {len(wrong)} failed, 0 skipped")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
