"""Runs the tests and says the result in one last line.

    run_tests.py                make test: the C tests of build/release, then the checks in Python
    run_tests.py --all          make test-all: every stage below
    run_tests.py --ci           make test-ci: `make test`, then the stages that the change touches and others in
                                turn, within 45 minutes
    run_tests.py --stage NAME   one of them; may be repeated
    run_tests.py --list         says which there are

Each C test program ends with "result: 12 passed, 0 failed, 1 skipped; cpu 1200, ref 300"
(tests/test.h); a check in Python may end with such a line too, else its exit status counts as one
test: 0 passed, 77 skipped (its last line says why), anything else failed. A program that ends
without its line, or with a bad exit status, has failed.  Skipped is never passed."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
RESULT = re.compile(r"^result: (\d+) passed, (\d+) failed, (\d+) skipped(?:; (.*))?$", re.MULTILINE)
SECONDS = re.compile(r"^seconds (\S+) ([\d.]+)$", re.MULTILINE)
SKIPPED = 77  # exit status
CHECK_TIMEOUT = 1500  # seconds for one check in Python


@dataclass
class Total:
    """Counts of tests; several results add up."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    checks: Counter[str] = field(default_factory=Counter)  # device -> checks that truly ran on it
    without: list[str] = field(default_factory=list)  # "name: why it was skipped"
    broken: list[str] = field(default_factory=list)  # "name: exit status and last lines" of what failed
    seconds: dict[str, float] = field(default_factory=dict)  # of each program, and of each file of tests/python

    def add(self, other: Total) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.checks.update(other.checks)
        self.without += [line for line in other.without if line not in self.without]
        self.broken += other.broken
        self.seconds |= other.seconds

    def line(self) -> str:
        checks = ", ".join(f"{device} {n} checks" for device, n in sorted(self.checks.items()))
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped" + (f"; {checks}" if checks else "")


PACKAGE = re.compile(r"could not import '([\w.]+)'|no Python package ([\w.]+)|([\w.-]+) is not installed")
USUAL = {"torch": "PyTorch", "numpy": "NumPy", "scipy": "SciPy", "scipy.special": "SciPy"}  # names of packages
WIDTH = 160  # columns of a line of the summary


def reason(line: str) -> tuple[str, str]:
    """ "name: why" -> a reason that many tests share, and the test."""
    name, _, why = line.partition(": ")
    if found := PACKAGE.match(why):
        package = next(filter(None, found.groups()))
        return f"{USUAL.get(package, package)} is not installed", name
    if full := re.search(r"CHAINRULE_TEST_FULL=\d", why):
        return f"{full[0]} is not set", name
    return why, name


def summary(without: list[str]) -> list[str]:
    """A line for each reason: how many tests it concerns, and the first of them."""
    tests: dict[str, list[str]] = {}
    for why, name in map(reason, without):
        tests.setdefault(why, []).append(name)
    lines = []
    for why, names in sorted(tests.items(), key=lambda item: -len(item[1])):
        line = f"went without, {len(names)}: {why} ({', '.join(dict.fromkeys(names))})"
        lines.append(line if len(line) <= WIDTH else line[: WIDTH - 4] + "...)")
    return lines


def skip(name: str, why: str) -> Total:
    return Total(skipped=1, without=[f"{name}: {why}"])


def judge(name: str, status: int | None, output: str) -> Total:
    """The result of one program.  status None: it did not end in time."""
    found = list(RESULT.finditer(output))
    total = Total()
    if found:
        passed, failed, skipped, devices = found[-1].groups()
        total = Total(int(passed), int(failed), int(skipped))
        for part in (devices or "").split(", "):
            device, _, n = part.rpartition(" ")
            if device:
                total.checks[device] += int(n)
        total.without = [line[len("skipped ") :] for line in output.splitlines() if line.startswith("skipped ")]
    elif status == 0:
        total = Total(passed=1)
    elif status == SKIPPED:
        return skip(name, output.strip().splitlines()[-1] if output.strip() else "no reason given")
    if status != 0 and total.failed == 0:
        total.failed = 1
    total.seconds = {name: float(seconds) for name, seconds in SECONDS.findall(output)}
    return total


def show(name: str, total: Total, status: int | None, output: str) -> None:
    """The report lines of a program that succeeded; all output of one that failed."""
    for line in output.splitlines():
        if line.startswith("report "):
            print("     " + line[len("report ") :], flush=True)
    if total.failed:
        end = "out of time" if status is None else f"exit status {status}"
        print(f"---- {name} failed ({end})\n{output.rstrip()}\n----", flush=True)
        lines = output.splitlines()
        named = [line for line in lines if re.search("fail|error|survivor", line, re.IGNORECASE)] or lines[-3:]
        total.broken.append(f"{name}: {end}; " + " | ".join(named)[:400])


def run(name: str, command: list[str], environment: dict[str, str], timeout: float = CHECK_TIMEOUT) -> Total:
    status: int | None
    start = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            timeout=timeout,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as stopped:
        status, output = (
            None,
            (stopped.output or b"").decode(errors="replace")
            if isinstance(stopped.output, bytes)
            else str(stopped.output),
        )
    except OSError as problem:
        status, output = 1, str(problem)
    total = judge(name, status, output)
    total.seconds = total.seconds or {name: time.monotonic() - start}
    show(name, total, status, output)
    return total


# ---- the C tests of one build ----


def memory_folder() -> str | None:
    """Where files are written without waiting for a disk: the tests of files synchronise thousands of them."""
    folder = Path("/dev/shm")
    roomy = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK) and shutil.disk_usage(folder).free > 1 << 30
    return str(folder) if roomy else None


def ctest(build: Path, environment: dict[str, str], exclude: str = "", timeout: float = 1500, only: str = "") -> Total:
    """Every test program of a build, through ctest, as many at a time as there are processors."""
    total = Total()
    with tempfile.TemporaryDirectory(prefix="chainrule-", dir=memory_folder()) as folder:
        report = Path(folder) / "report.xml"
        environment = {**environment, "TMPDIR": folder}
        command = [
            "ctest",
            "--test-dir",
            str(build),
            "--output-junit",
            str(report),
            "--timeout",
            str(timeout),
            "--quiet",
        ]
        command += ["--test-output-size-passed", "10000000", "--test-output-size-failed", "10000000"]
        command += (
            ["-j", str(len(os.sched_getaffinity(0)))]
            + (["-E", exclude] if exclude else [])
            + (["-R", only] if only else [])
        )
        if "tsan" in build.name and shutil.which(
            "setarch"
        ):  # the thread sanitizer of older compilers needs a plain address space
            command = ["setarch", platform.machine(), "-R"] + command
        done = subprocess.run(
            command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if not report.is_file():
            print(done.stdout)
            return Total(failed=1)
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    for case in cases:
        name, output = case.get("name", "?"), case.findtext("system-out") or ""
        ran, failure = case.get("status") == "run", case.find("failure")
        reason = failure.get("message", "") if failure is not None else ""
        status = 0 if ran else None if "imeout" in reason else 1
        one = judge(name, status, output + (f"\n{reason}" if reason else ""))
        if ran and not RESULT.search(output):
            one = Total(failed=1)
            output += "\nended without its result line"
        one.seconds = {name: float(case.get("time", 0))}
        show(name, one, status, output + (f"\n{reason}" if reason else ""))
        total.add(one)
    if not cases:
        print(f"no test program in {build}")
        total.failed += 1
    return total


# ---- the checks in Python ----


def generated_files() -> list[str]:
    return [sys.executable, "tools/gen_ops.py", "--check"]


Job = partial[Total]


def checks(environment: dict[str, str]) -> list[Job]:
    """The repository itself, our tools, and every tests/**/check_*.py but those that take long."""
    mypy = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", "build/mypy"]
    tools, tests = sorted((ROOT / "tools").glob("*.py")), sorted((ROOT / "tests").rglob("check_*.py"))
    # in other stages
    long = (
        "check_dry.py",
        "check_fatbin.py",
        "check_families.py",
        "check_hopper.py",
        "check_null.py",
        "check_wgsl.py",
        "check_browser.py",
        "check_page.py",
    )
    commands = {
        "layers": [sys.executable, "tools/check_layers.py"],
        "generated files are current": generated_files(),
        "generated files of the JavaScript package are current": [sys.executable, "tools/gen_web.py", "--check"],
        "generated files of the extension are current": [sys.executable, "tools/gen_python.py", "--check"],
        "notebooks are current": [sys.executable, "tools/notebooks.py", "--check"],
        "ruff": [sys.executable, "-m", "ruff", "check", "--quiet", "tools", "tests", "bench", "docs", "python"],
        "mypy": [*mypy, "--strict", *map(str, tools + tests)],
        "mypy of the package": [*mypy, "--strict", "--python-version", "3.11", "python/chainrule"],
        "mypy of its tests": [
            *mypy,
            "--strict",
            "--allow-untyped-decorators",
            "--python-version",
            "3.11",
            "--exclude",
            "tests/python/torch_scripts/",  # plain scripts, written for PyTorch
            "tests/python",
        ],  # hypothesis may be absent
        # silent: the package as if it were installed, with or without what it imports when it needs it
        "mypy of a user's script": [*mypy, "--config-file=", "--follow-imports=silent", "tests/python/user_script.py"],
    }
    for path in tests:
        if path.name in long:
            continue
        commands[str(path.relative_to(ROOT))] = [sys.executable, str(path)]
    environment = {**environment, "MYPYPATH": "python"}
    return [partial(run, name, command, environment) for name, command in commands.items()]


def python_tests(environment: dict[str, str]) -> list[Job]:
    """tests/python through pytest (its conftest.py prints the result line), on the extension of this build: on two
    processes that take about as long by the record of the last run, else by the sizes of the files."""
    if missing := without_extension("tests/python"):
        return [partial(lambda: missing)]
    environment = {"CHAINRULE_WGPU": "off", "CHAINRULE_CUDA": "off", **environment}  # the results are those of the cpu
    took = durations()
    seconds = lambda path: took.get(path.name, path.stat().st_size / 5000)
    parts: list[list[Path]] = [[], []]
    for file in sorted((ROOT / "tests" / "python").glob("test_*.py"), key=seconds, reverse=True):
        min(parts, key=lambda part: sum(map(seconds, part))).append(file)
    commands = [[sys.executable, "-m", "pytest", *map(str, sorted(part))] for part in parts]
    return [partial(run, "tests/python", command, environment, timeout=3000) for command in commands]


def side_by_side(jobs: list[Job], lanes: int = 0) -> Total:
    """As many at a time as there are lanes (processors), in this order."""
    total = Total()
    with ThreadPoolExecutor(lanes or len(os.sched_getaffinity(0))) as several:
        for one in several.map(lambda job: job(), jobs):
            total.add(one)
    return total


def without_extension(name: str) -> Total | None:
    if list((ROOT / "build" / "release").glob("python/chainrule/_core*.so")):
        return None
    return skip(name, "no Python extension in this build: Python.h of CPython 3.11 or newer was not found (make deps)")


# ---- stages ----


def plain_environment(**more: str) -> dict[str, str]:
    runtime = os.environ.get("XDG_RUNTIME_DIR", tempfile.gettempdir())  # without it Mesa's drivers complain on stderr
    usual = {"XDG_RUNTIME_DIR": runtime}
    if "CHAINRULE_TEST_FULL" not in more:  # Mesa's driver of software runs a text once or twice: it need not optimize
        usual["GALLIVM_PERF"] = "nopt"
    return {**usual, **os.environ, "CHAINRULE_BUILD": str(ROOT / "build" / "release"), **more}


SIMULATED = "^test_cuda_.*$"  # minutes of a simulated GPU: in `make test` and the stage cudasim
GPUS = "^test_(cuda|webgpu).*$"


def everything(environment: dict[str, str], exclude: str = "") -> Total:
    """The C tests beside those in Python, of which the short ones come last, so that no processor waits at the end."""
    took = durations()
    with ThreadPoolExecutor(1) as beside:
        in_c = beside.submit(ctest, ROOT / "build" / "release", environment, exclude)
        short = sorted(checks(environment), key=lambda job: -took.get(job.args[0], 0))
        total = side_by_side(python_tests(environment) + short, 2)
        total.add(in_c.result())
    return total


# ---- the record of durations: of the last run in this folder


def record() -> Path:
    return ROOT / "build" / "durations.json"


def durations() -> dict[str, float]:
    """Program, or file of tests/python -> its seconds in the last run."""
    try:
        found = json.loads(record().read_text())
    except (OSError, ValueError):
        return {}
    return {name: float(seconds) for name, seconds in found.items()}


def keep(seconds: dict[str, float]) -> None:
    """Writes the record, and says what took longest."""
    longest = sorted(seconds.items(), key=lambda item: -item[1])
    record().write_text(json.dumps(dict(longest), indent=1))
    print("     slowest: " + ", ".join(f"{name} {time:.0f} s" for name, time in longest[:6]), flush=True)


def stage_test() -> Total:
    total = everything(plain_environment())
    keep(total.seconds)
    return total


def stage_full() -> Total:
    return ctest(ROOT / "build" / "release", plain_environment(CHAINRULE_TEST_FULL="1"), SIMULATED)


def stage_python() -> Total:
    return side_by_side(python_tests(plain_environment(CHAINRULE_TEST_FULL="1")), 2)


def has_sanitizer(names: str) -> bool:
    """Can the compiler link and run a program with it?  The runtimes are packages of their own on some systems."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "a.c"
        source.write_text("int main(void) { return 0; }\n")
        command = [os.environ.get("CC", "cc"), f"-fsanitize={names}", str(source), "-o", f"{folder}/a"]
        return subprocess.run(command, capture_output=True).returncode == 0


def build(preset: str) -> bool:
    folder = f"build/{preset}"
    made = subprocess.run(["make", "--no-print-directory", f"{folder}/build.ninja"], cwd=ROOT).returncode == 0
    return made and subprocess.run(["ninja", "-C", folder, "--quiet"], cwd=ROOT).returncode == 0


def sanitized(preset: str, names: str, options: dict[str, str], exclude: str = "") -> Total:
    if not has_sanitizer(names):
        return skip(f"sanitizers {names}", "the compiler has no runtime for them here")
    if not build(preset):
        return Total(failed=1)
    return ctest(
        ROOT / "build" / preset, plain_environment(CHAINRULE_BUILD=str(ROOT / "build" / preset), **options), exclude
    )


def stage_address() -> Total:
    return sanitized(
        "sanitize",
        "address,undefined",
        {
            "ASAN_OPTIONS": "detect_stack_use_after_return=1:allocator_may_return_null=1",
            "LSAN_OPTIONS": f"suppressions={ROOT / 'tests' / 'leaks.txt'}:print_suppressions=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        },
        SIMULATED,
    )


def stage_thread() -> Total:
    # minutes of small tensors that no second thread ever sees; and the sanitizer does not see how
    # wgpu-native's and the driver's threads wait for each other
    without = f"^test_(grad|half)$|{GPUS}"
    options = {
        "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
        "CHAINRULE_WGPU": "off",
        "CHAINRULE_CUDA": "off",
    }
    total = sanitized("tsan", "thread", options, without)
    if has_sanitizer("thread") and not total.failed:
        ranks = ("variants", "sharded", "slow_gather", "pieces", "resume", "killed", "killed_at_calls", "disk_full")
        plain = ["setarch", platform.machine(), "-R"] if shutil.which("setarch") else []
        command = [*plain, sys.executable, "tests/mpi_ranks.py", *ranks]
        options["CHAINRULE_BUILD"] = str(ROOT / "build" / "tsan")
        total.add(run("tests/mpi_ranks.py under the thread sanitizer", command, plain_environment(**options)))
    return total


def stage_debug() -> Total:
    """Our own invariants (CR_ASSERT) are on in this build only."""
    return ctest(ROOT / "build" / "debug", plain_environment(), SIMULATED) if build("debug") else Total(failed=1)


def stage_clang() -> Total:
    """The whole is built with Clang, without a warning; the C tests run on each instruction set
    that this processor has."""
    if not shutil.which("clang"):
        return skip("a build with Clang", "clang is not installed (make deps)")
    made = subprocess.run(["make", "--no-print-directory", "build/clang/build.ninja"], cwd=ROOT).returncode == 0
    ninja = ["ninja", "-C", "build/clang", "--quiet"]
    done = subprocess.run(ninja, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if not made or done.returncode or "warning:" in done.stdout:
        print(done.stdout)
        return Total(failed=1, broken=["clang: the build"])
    total = Total()
    x86 = platform.machine() in ("x86_64", "AMD64")
    for level in (2, 3, 4) if x86 else (0,):
        if not x86 or processor_has(level):
            switch = {"CHAINRULE_ISA": f"v{level}"} if x86 else {}
            environment = plain_environment(CHAINRULE_BUILD=str(ROOT / "build" / "clang"), **switch)
            total.add(ctest(ROOT / "build" / "clang", environment, GPUS + "|cudasim"))
    builds = ["build/release", "build/clang"]
    if x86 and all((ROOT / build / "tests/test_bits").is_file() for build in builds):
        command = [sys.executable, "tools/same_bits.py", *builds]
        total.add(run("bits of GCC and of Clang", command, plain_environment(), timeout=1200))
    return total


def stage_swiftshader() -> Total:
    """It rounds and flushes otherwise than lavapipe, which is what the other stages find."""
    folders = (
        ROOT / "build" / "swiftshader",
        Path("/usr/lib/chromium"),
    )  # tools/deps.sh; Debian's package chromium-common
    driver = next(
        (str(f / "vk_swiftshader_icd.json") for f in folders if (f / "vk_swiftshader_icd.json").is_file()), None
    )
    if driver is None:
        total = skip("tests on a second driver", "no SwiftShader here (make deps)")
        return Total(failed=1, without=total.without) if os.environ.get("CHAINRULE_TEST_GPU") else total
    environment = plain_environment(
        VK_DRIVER_FILES=driver, VK_ICD_FILENAMES=driver, CHAINRULE_TEST_FULL="1"
    )  # the new name and the old
    total = ctest(ROOT / "build" / "release", environment, only="^test_(tiny|webgpu.*)$")
    total.add(run("tests/check_gpu.py", [sys.executable, "tests/check_gpu.py", "webgpu"], environment))
    return total


def stage_chrome() -> Total:
    total = run("tests/check_wgsl.py", [sys.executable, "tests/check_wgsl.py"], plain_environment())
    total.add(run("tests/check_browser.py", [sys.executable, "tests/check_browser.py"], plain_environment()))
    return total


def processor_has(level: int) -> bool:
    needed = {3: {"avx2", "fma", "bmi2", "f16c"}, 4: {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}}
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    flags = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return (
        bool(flags) and all(needed[i] <= set(flags.group(1).split()) for i in range(3, level + 1)) if flags else False
    )


def stage_isa() -> Total:
    """The instruction sets below the processor's own, on which `make test` runs."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return skip("CHAINRULE_ISA", f"this is {platform.machine()}")
    total = Total()
    for level in (2, 3):
        if processor_has(level + 1):
            total.add(ctest(ROOT / "build" / "release", plain_environment(CHAINRULE_ISA=f"v{level}"), GPUS))
    return (
        total
        if total.passed or total.failed
        else skip("CHAINRULE_ISA", "this processor has the lowest instruction set")
    )


def stage_onednn_off() -> Total:
    return ctest(ROOT / "build" / "release", plain_environment(CHAINRULE_ONEDNN="off"), GPUS)


def stage_mutate() -> Total:
    return run("mutate", [sys.executable, "tools/mutate.py"], plain_environment(), timeout=3000)


def stage_fuzz_compile() -> Total:
    if missing := without_extension("fuzz-compile"):
        return missing
    # continuous integration repeats the same programs; others look for new ones
    total, seed = Total(), "1" if os.environ.get("CI") else str(int(git("rev-parse", "HEAD")[:6] or "0", 16))
    kinds: list[tuple[list[str], int, dict[str, str]]] = [
        ([], 300, {}),
        (["--threads"], 120, {}),
        ([], 120, {"CHAINRULE_CC": "cc"}),  # with loops of the system's compiler
    ]
    for k, (words, seconds, environment) in enumerate(kinds):
        command = [sys.executable, "tests/python/fuzz_compile.py", "--seed", f"{seed}{k}", "--seconds", str(seconds)]
        total.add(run(" ".join(["fuzz-compile", *words]), [*command, *words], plain_environment(**environment)))
    return total


def simulated(name: str, program: str, **environment: str) -> Total:
    """One of the programs that use the simulated NVIDIA GPU (tests/cudasim)."""
    path = ROOT / "build" / "release" / "tests" / program
    if not path.exists():
        return skip(name, "the simulated GPU needs Linux on x86-64 or aarch64, a C++ compiler and its sanitizers")
    plain = ["setarch", platform.machine(), "-R"] if program.endswith("_thread") and shutil.which("setarch") else []
    return run(f"{name}: {program}", [*plain, str(path)], plain_environment(**environment), timeout=3000)


KERNEL_TESTS = (
    "test_cuda_ops",
    "test_cuda_kernels",
    "test_cuda_order",
    "test_cuda_attention",
    "test_cuda_factor",
    "test_cuda_hopper",
    "test_cuda_packed",
)


def all_simulated(runs: list[tuple[str, str, dict[str, str]]]) -> Total:
    """Programs on the simulated GPU: (name, program, environment)."""
    return side_by_side([partial(simulated, name, program, **more) for name, program, more in runs])


def stage_cudasim() -> Total:
    every = sorted(path.stem for path in (ROOT / "tests").glob("test_cuda_*.c"))
    # All there is, but for the ops: every dtype and shape of those would be more kernels than a process may load.
    runs = [("all", name, {} if name == "test_cuda_ops" else {"CHAINRULE_TEST_FULL": "1"}) for name in every]
    return all_simulated(
        sorted(runs, key=lambda r: r[1] not in ("test_cuda_ops", "test_cuda_grad"))
    )  # the longest first


def stage_cudasim_orders() -> Total:
    with tempfile.TemporaryDirectory(
        prefix="chainrule-", dir=memory_folder()
    ) as texts:  # all that is compiled, for the true NVRTC
        older = {"CUDASIM_ORDER": "2", "CUDASIM_CC": "75", "CUDASIM_KEEP": texts, "CHAINRULE_CACHE": "off"}
        runs = [("CUDASIM_CC=75", "test_cuda_ops", older)]
        runs += [(f"CUDASIM_CC={cc}", "test_cuda_hopper", {"CUDASIM_CC": cc}) for cc in ("80", "100")]
        runs += [("CUDASIM_ORDER=3", "test_cuda_hopper", {"CUDASIM_ORDER": "3"})]
        runs += [
            ("CUDASIM_ORDER=reverse", program, {"CUDASIM_ORDER": "reverse", "CHAINRULE_CUBLASLT": "off"})
            for program in KERNEL_TESTS
        ]
        total = all_simulated(runs)
        total.add(
            run(
                "the list of kernels for a build with nvcc",
                [sys.executable, "tests/cudasim/check_fatbin.py"],
                plain_environment(),
            )
        )
        total.add(
            run(
                "kernels that sanitizers see",
                [sys.executable, "tests/cudasim/check_families.py"],
                plain_environment(),
                timeout=1200,
            )
        )
        total.add(
            run(
                "kernels by NVRTC",
                [sys.executable, "tests/cudasim/check_cuda.py", "--nvrtc", texts],
                plain_environment(),
            )
        )
        return total


def stage_nvrtc() -> Total:
    total = run(
        "kernels for every architecture",
        [sys.executable, "tests/cudasim/check_null.py"],
        plain_environment(),
        timeout=1200,
    )
    total.add(run("kernels for sm_90a", [sys.executable, "tests/cudasim/check_hopper.py"], plain_environment()))
    return total


def stage_gpu_check() -> Total:
    return run(
        "dry run of tools/gpu_check.sh",
        [sys.executable, "tests/cudasim/check_dry.py"],
        plain_environment(),
        timeout=2400,
    )


def cudasim_sanitized(sanitizer: str) -> Total:
    """The simulator knows nothing of the cpu's threads: there is one."""
    environment = {
        "CHAINRULE_NUM_THREADS": "1",
        {"thread": "TSAN_OPTIONS", "address": "ASAN_OPTIONS"}[sanitizer]: "halt_on_error=1",
    }
    if sanitizer == "address":
        environment["CHAINRULE_GPU_POOL"] = "off"  # an access beyond a tensor does not end in the next one
    return all_simulated(
        [
            (f"kernels under the {sanitizer} sanitizer", f"{program}_{sanitizer}", environment)
            for program in KERNEL_TESTS
        ]
    )


def stage_barriers() -> Total:
    return run("tools/drop_barriers.py", [sys.executable, "tools/drop_barriers.py"], plain_environment(), timeout=3000)


def stage_install() -> Total:
    return run("tools/test_install.py", [sys.executable, "tools/test_install.py"], plain_environment())


def stage_wheel() -> Total:
    return run("tools/test_wheel.py", [sys.executable, "tools/test_wheel.py"], plain_environment())


def stage_free_threaded() -> Total:
    return run("tools/test_free_threaded.py", [sys.executable, "tools/test_free_threaded.py"], plain_environment())


def stage_debian() -> Total:
    return run("tools/test_debian.py", [sys.executable, "tools/test_debian.py"], plain_environment(), timeout=2000)


def stage_release() -> Total:
    python = ROOT / "build/release-venv/bin/python"
    if not python.is_file():
        return skip("release", "ziglang is not installed (make build/.for-release)")
    words = ["tools/release.py", "--twice", "--target", "musl-x86_64", "--out", "build/dist-twice"]
    return run("tools/release.py", [str(python), *words], plain_environment(), timeout=3000)


def stage_targets() -> Total:
    return run("tools/test_targets.py", [sys.executable, "tools/test_targets.py"], plain_environment(), timeout=3000)


def stage_web() -> Total:
    total = run("tools/test_web.py", [sys.executable, "tools/test_web.py"], plain_environment())
    total.add(run("tests/check_web_gpu.py", [sys.executable, "tests/check_web_gpu.py"], plain_environment()))
    for check in ("tests/check_page.py", "tests/check_firefox.py"):
        total.add(run(check, [sys.executable, check], plain_environment()))
    return total


def stage_mpi() -> Total:
    return run("tests/mpi_ranks.py", [sys.executable, "tests/mpi_ranks.py"], plain_environment())


def stage_libraries() -> Total:
    return without_extension("libraries") or run(
        "tests/torch_libraries.py", [sys.executable, "tests/torch_libraries.py"], plain_environment()
    )


def stage_suites() -> Total:
    if without := without_extension("suites"):
        return without
    total = run("tests/torch_opinfo.py", [sys.executable, "tests/torch_opinfo.py"], plain_environment())
    total.add(run("tests/array_api_suite.py", [sys.executable, "tests/array_api_suite.py"], plain_environment()))
    return total


def stage_docs() -> Total:
    return without_extension("docs") or run("docs", ["make", "--no-print-directory", "docs"], plain_environment())


@dataclass(frozen=True)
class Stage:
    run: Callable[[], Total]
    what: str
    minutes: float  # its budget on two slow cores (AVX2, 2.5 GHz), with what it has to build
    paths: str  # a change of files that this pattern matches touches the stage


SOURCES = r"src/|include/|cmake/|CMake|tests/[^/]+\.[ch]$"
CUDA = r"src/dev/cuda/|src/dev/[^/]+$|tests/cudasim/|tests/.*cuda|cmake/cudasim"
STAGES: dict[str, Stage] = {
    "test": Stage(stage_test, "the C tests, the checks in Python and tests/python: what `make test` runs", 5, "."),
    "full": Stage(stage_full, "the C tests with CHAINRULE_TEST_FULL=1", 9, SOURCES),
    "python": Stage(
        stage_python,
        "tests/python with CHAINRULE_TEST_FULL=1",
        7,
        "python/|tests/python/|include/|src/(ops|grad|core)/",
    ),
    "swiftshader": Stage(
        stage_swiftshader,
        "the tests on GPUs with a second driver, SwiftShader's",
        7,
        r"src/dev/webgpu/|src/dev/[^/]+$|tests/.*webgpu",
    ),
    "chrome": Stage(
        stage_chrome,
        "the op suite in Chromium: every WGSL text by its compiler, every call repeated (apt-get install chromium)",
        14,
        r"src/dev/webgpu/|src/dev/[^/]+$|tests/.*(webgpu|wgsl|browser|replay|keep_calls)",
    ),
    "isa": Stage(stage_isa, "the C tests on the instruction sets below the processor's own", 5, "src/dev/cpu/"),
    "onednn-off": Stage(stage_onednn_off, "the C tests on our own products", 3, "src/dev/cpu/"),
    "clang": Stage(stage_clang, "the C tests of a build with Clang", 10, "src/dev/cpu/|cmake/|CMake|src/core/os"),
    "debug": Stage(stage_debug, "the C tests with invariants checked", 6, SOURCES),
    "address": Stage(stage_address, "the C tests under the address and undefined-behaviour sanitizers", 13, SOURCES),
    "thread": Stage(
        stage_thread,
        "the C tests, and processes that train together, under the thread sanitizer",
        17,
        r"src/(core|grad|text|io|dist)/|src/dev/cpu/|src/dev/[^/]+$|tests/[^/]+\.[ch]$",
    ),
    "mutate": Stage(
        stage_mutate,
        "every broken gradient and pass over plans is noticed",
        4,
        r"src/(ops|grad|plan)/|src/dev/(cpu|ref)/|tests/test_(grad|plan)|tools/(mutate|plan_mutants)",
    ),
    "fuzz-compile": Stage(
        stage_fuzz_compile,
        "random programs around compiled functions, eager and compiled, with new seeds in each commit",
        10,
        r"src/(plan|grad|ops)/|python/src/plan\.c|python/chainrule/(_(compile|guards|trace)\.py|nn/|optim/)|"
        r"tests/python/fuzz_",
    ),
    "cudasim": Stage(stage_cudasim, "a simulated NVIDIA GPU: the whole of its tests", 9, CUDA),
    "cudasim-orders": Stage(
        stage_cudasim_orders, "kernels with other orders of threads, for an older GPU, compiled by NVRTC", 8, CUDA
    ),
    "nvrtc": Stage(
        stage_nvrtc, "the kernels of tests by the true NVRTC, for sm_80, 90, 100 and 120, without a GPU", 8, CUDA
    ),
    "gpu-check": Stage(
        stage_gpu_check,
        "a dry run of tools/gpu_check.sh on the simulated GPU: every step, every row",
        7,
        r"tools/gpu_|bench/cuda|bench/parts/|tests/check_gpu|tests/test_(cuda|tiny)|tests/cudasim/",
    ),
    "cudasim-thread": Stage(lambda: cudasim_sanitized("thread"), "kernels under the thread sanitizer", 5, CUDA),
    "cudasim-address": Stage(lambda: cudasim_sanitized("address"), "kernels under the address sanitizer", 4, CUDA),
    "barriers": Stage(
        stage_barriers,
        "every barrier that a CUDA kernel lacks is noticed",
        4,
        r"src/dev/cuda/|tests/cudasim/|tools/drop_barriers",
    ),
    "install": Stage(
        stage_install,
        "an installed library is found by pkg-config and CMake",
        6,
        "cmake/|CMake|Makefile|tools/test_install",
    ),
    "wheel": Stage(
        stage_wheel,
        "source distribution and wheel, in a fresh virtual environment",
        3,
        "pyproject|cmake/|tools/(test_wheel|build_backend)",
    ),
    "free-threaded": Stage(
        stage_free_threaded,
        "the extension in a CPython without a GIL: suites of threads and more",
        3,
        r"python/src/.*[.][ch]|cmake/python|tools/test_free_threaded",
    ),
    "debian": Stage(
        stage_debian,
        "Debian packages: built, read by lintian, used from an unpacked folder",
        4,
        "debian/|cmake/install|tools/test_debian",
    ),
    "release": Stage(
        stage_release,
        "wheel, static program and source distribution, twice the same bytes",
        15,
        "cmake/|tools/release|src/core/os",
    ),
    "targets": Stage(
        stage_targets,
        "programs and C tests for Windows, aarch64, musl and macOS, by wine and qemu (make build/.for-release)",
        25,
        r"src/core/os|cmake/|CMake|tools/(test_targets|release)|tests/posix",
    ),
    "web": Stage(
        stage_web,
        "the program and the JavaScript package in node, the page in browsers: the bits of x86-64-v2 (make deps)",
        6,
        r"web/|tests/(tab|browser|check_page|check_firefox|check_web_gpu)|cmake/|CMake|src/(core/os|cli/|io/|optim/|models/)|"
        r"src/dev/(cpu/vec|kernels|webgpu/)|tools/(build_web|gen_web|test_web)",
    ),
    "mpi": Stage(
        stage_mpi,
        "1 to 8 processes under mpirun of MPICH and Open MPI, and as torchrun starts them (make build/.for-mpi)",
        8,
        r"src/dist/|src/cli/|src/optim/|core/pending|cuda/(nccl|stream)|cudasim/nccl|tests/(mpi_|test_dist)|"
        r"tools/requirements-mpi",
    ),
    "libraries": Stage(
        stage_libraries,
        "programs of packages beside PyTorch print the same on chainrule.torch (make build/.for-libraries)",
        6,
        r"python/chainrule/(torch|nn|optim|data|vision|autograd)|python/src/|tests/torch_libraries|"
        r"tools/requirements-(libraries|oracle)",
    ),
    "suites": Stage(
        stage_suites,
        "PyTorch's samples of linear algebra with both derivatives; the array API's own tests (make"
        " build/.for-array-api)",
        4,
        r"python/chainrule/(linalg|array_api|torch/_linalg)\.py|src/ops/(factor|matmul)|src/dev/cpu/factor|"
        r"tests/(torch_opinfo|array_api_suite)",
    ),
    "docs": Stage(
        stage_docs, "the documentation builds without a warning", 2, r"docs/|\.md$|api\.def|include/|python/chainrule/"
    ),
}


# ---- continuous integration: `make test`, then as many stages as the time allows ----

CI_MINUTES = 40  # for all stages; the rest of 45 installs packages and builds


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, text=True, capture_output=True).stdout.strip()


def changed_files() -> list[str]:
    """Files that commits changed in the twelve hours before HEAD; all files where no older commit is known."""
    head = git("log", "-1", "--format=%ct")
    base = git("rev-list", "-1", f"--before={int(head) - 12 * 3600}", "HEAD") if head else ""
    return git(*(["diff", "--name-only", base, "HEAD"] if base else ["ls-files"])).splitlines()


def ci_order(seed: str, changed: list[str], missed: dict[str, int]) -> list[str]:
    """The stages after `test`: those that missed most of the last runs first, as if one that the
    change touches had missed one more; ties in an order drawn from the seed."""
    touched = {name for name, stage in STAGES.items() if any(re.search(stage.paths, path) for path in changed)}
    drawn = sorted(
        (name for name in STAGES if name != "test"), key=lambda name: sha256(f"{seed} {name}".encode()).digest()
    )
    return sorted(drawn, key=lambda name: missed.get(name, 0) + (name in touched), reverse=True)


def ci_record() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chainrule" / "stages.json"


def read_record() -> dict[str, int]:
    """How many runs each stage has missed since its last one on this machine."""
    try:
        record = json.loads(ci_record().read_text())
    except (OSError, ValueError):
        return {}
    return (
        {name: n for name, n in record.items() if name in STAGES and isinstance(n, int)}
        if isinstance(record, dict)
        else {}
    )


def write_record(missed: dict[str, int]) -> None:
    try:
        ci_record().parent.mkdir(parents=True, exist_ok=True)
        ci_record().write_text(json.dumps(missed))
    except OSError as problem:
        print(f"no record of the stages is kept: {problem}")


def ci() -> Total:
    seed, start, missed = git("rev-parse", "HEAD"), time.monotonic(), read_record()
    os.environ.setdefault(
        "CHAINRULE_TEST_SHARE", str(int(seed[:6] or "0", 16))
    )  # which of the many kernels a simulated GPU runs
    order = ci_order(seed, changed_files(), missed)
    print(f"after `test`, while {CI_MINUTES} minutes last: {', '.join(order)}", flush=True)
    total, left_out = stage("test"), list[str]()
    for name in order:
        if (time.monotonic() - start) / 60 + STAGES[name].minutes <= CI_MINUTES:
            total.add(stage(name))
        else:
            left_out.append(name)
    write_record({name: missed.get(name, 0) + 1 if name in left_out else 0 for name in order})
    print(f"stages that did not run this time: {', '.join(left_out) or 'none'}")
    return total


# ---- the command line ----


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def stage(name: str) -> Total:
    start, used, budget = time.monotonic(), processor_seconds(), STAGES[name].minutes
    print(f"==== {name}: {STAGES[name].what}", flush=True)
    total = STAGES[name].run()
    seconds = time.monotonic() - start
    print(f"     {total.line()} in {seconds:.0f} s ({processor_seconds() - used:.0f} s of processor time)", flush=True)
    if seconds > 60 * budget:
        print(f"     over the budget of {name}, {budget:g} minutes: split it, or make it faster", flush=True)
    return total


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs the tests; ends with one line that says the result.")
    parser.add_argument("--all", action="store_true", help="every stage")
    parser.add_argument(
        "--ci",
        action="store_true",
        help="`test`, then as many of the others as fit into the time of continuous integration",
    )
    parser.add_argument("--stage", action="append", choices=list(STAGES), default=[], help="one stage; may be repeated")
    parser.add_argument("--list", action="store_true", help="lists the stages")
    return parser.parse_args()


def main() -> int:
    given, total = arguments(), Total()
    if given.list:
        for name, one in STAGES.items():
            print(f"{name:16} {one.minutes:2.0f} min  {one.what}")
        return 0
    if given.ci:
        total = ci()
    else:
        for name in STAGES if given.all else given.stage or ["test"]:
            total.add(stage(name))
    print(*summary(total.without), sep="\n", end="\n" if total.without else "")
    for line in total.broken:
        print(f"failed {line}")
    print(total.line())
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
