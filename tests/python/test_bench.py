"""The list of bench/everyday.py: every name is timed, or it is said why not; every line runs in
both libraries.  bench/cuda.py and the parts of bench/run.py that need no peer run, small."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from conftest import BUILD, ROOT

sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "cudasim")]
import gen_ops  # noqa: E402
import gen_python  # noqa: E402
from environment import simulated  # noqa: E402

BENCH: dict[str, Any] = runpy.run_path(str(ROOT / "bench" / "everyday.py"), run_name="bench")
CALLS: list[str] = BENCH["CALLS"]


def names_in(call: str) -> set[str]:
    return set(re.findall(r"\b([a-z]\w*)\(", call))


def known() -> set[str]:
    kinds = ("builtin_function_or_method", "method_descriptor")
    return {
        n
        for owner in (cr, cr.Tensor)
        for n in dir(owner)
        if not n.startswith("_") and type(getattr(owner, n)).__name__ in kinds
    }


def test_every_name() -> None:
    """In-place forms run the kernels of the others: a few stand for all."""
    untimed = set(" ".join(BENCH["UNTIMED"].values()).split())
    timed = {name for call in CALLS for name in names_in(call)}
    assert not untimed & timed
    missing = {
        n
        for n in known() - timed - untimed - set(gen_python.ALIASES)
        if n.removesuffix("_") not in timed | set(gen_python.ALIASES)
    }
    assert not missing, f"neither in CALLS nor in UNTIMED of bench/everyday.py: {' '.join(sorted(missing))}"


def test_reasons() -> None:
    """Each stands for a line that there is."""
    assert not set(BENCH["REASONS"]) - set(CALLS)


@pytest.mark.parametrize("library", ["chainrule", "torch"])
def test_every_line(library: str) -> None:
    lib = pytest.importorskip(library, reason=f"{library} is not installed")
    names = {**BENCH["functions"](lib), **BENCH["operands"](lib, 10)}
    absent = []
    with lib.no_grad():
        for call in CALLS:
            try:
                exec(call, dict(names))
            except (NameError, AttributeError, TypeError) as e:
                absent_there = (
                    call in BENCH["DERIVED"] if library == "torch" else not names_in(call) <= known() or "yet" in str(e)
                )
                if not absent_there:
                    raise AssertionError(call) from e
                absent.append(call)
    if absent:
        pytest.skip(f"not in {library}: {', '.join(absent)}")


# ---- bench/cuda.py

CUDA: dict[str, Any] = runpy.run_path(str(ROOT / "bench" / "cuda.py"), run_name="bench")


def test_cuda_peer() -> None:
    """Every case is right for PyTorch too: on the cpu, small."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for part in set(CUDA["PARTS"]) - {*CUDA["TRAINING"], "kernels"}:
        for case in CUDA["cases_of"](part, True, 2):
            if case.operands:
                CUDA["runner"](torch, case, "cpu", "")()


def test_every_elementwise_kernel() -> None:
    """Part kernels has every row of ops.def, and each runs."""
    rows = gen_ops.read_source((ROOT / gen_ops.SOURCE).read_text())[1]
    cases = {case.name: case for case in CUDA["cases_of"]("kernels", True, 2)}
    assert set(cases) == {"copy"} | {row.name for row in rows} and len(cases) > 100
    for row in rows:
        case = cases[row.name]
        CUDA["runner"](cr, case, "cpu", "")()
        operands = [CUDA["operand"](cr, case, name, "cpu") for name in case.operands]
        size = sum(x.numel() * x.element_size() for x in operands) + operands[0].numel() * (
            1 if row.rule == "TEST" else 4
        )
        assert abs(case.work * 1e9 / size - 1) < 1e-9, (
            f"{row.name}: {case.work * 1e9} bytes, its operands and result have {size}"
        )


@pytest.mark.full
def test_cuda_on_the_simulator(tmp_path: Path) -> None:
    """bench/run.py's part as it stands, on small sizes: no case fails, and the page has a table for each part."""
    environment = simulated(BUILD)
    if not environment:
        pytest.skip("this build has no simulated GPU")
    command = [
        sys.executable,
        str(ROOT / "bench/run.py"),
        "--quick",
        "--only",
        "cuda",
        "--write",
        str(tmp_path / "cuda.json"),
        "--cuda",
        "--eager",
        "--only",
    ]
    some = subprocess.run(
        [*command, "kernels", "--cases", "co"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (
        "| copy, f32 | GB/s |" in some.stdout
        and "| cosh, f32 | GB/s |" in some.stdout
        and "| exp, f32 |" not in some.stdout
    ), some.stdout + some.stderr
    others = [part for part in CUDA["PARTS"] if part != "kernels"]
    done = subprocess.run(
        [*command, *others], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300
    )
    assert not done.returncode, done.stderr
    rows = json.loads((tmp_path / "cuda.json").read_text())["cuda"]["rows"]
    failed = [f"{row['what']}: {row['missing']}" for row in rows if "missing" in row]
    error = rows.pop()
    assert not failed and error["what"] == "CUDA, error of a product in f32" and error["ours"] < 1e-5, (failed, error)
    groups = {row["group"].removesuffix(", memory") for row in rows}
    assert len(groups) == len(others), groups
    assert all(f"| {title} | unit |" in done.stdout for title in groups), done.stdout


def test_serve() -> None:
    """One, four and sixteen requests at once through the engine."""
    words = [sys.executable, str(ROOT / "bench" / "serve.py"), "--quick"]
    environment = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["at once"] for row in rows] == [1, 4, 16] and all(row["tokens/s"] > 0 for row in rows)


# ---- bench/run.py


def test_parts_without_peers(tmp_path: Path) -> None:
    """Products by size with their filter and picture, attention and generation with and without,
    files: numbers in every cell."""
    if not (BUILD / "bench" / "naive").exists():
        pytest.skip("this build has no benches (CHAINRULE_EXAMPLES)")
    written, parts = tmp_path / "a.json", ["sizes", "fused", "generation", "files"]
    rest = {"size": {"date": "1970-01-01", "peers": {}, "rows": [{"what": "kept", "unit": "MB", "ours": 1.5}]}}
    written.write_text(json.dumps(rest | {"files": rest["size"]}))
    options = ["--sizes", "48", "96", "--write", str(written), "--pictures", str(tmp_path)]
    command = [sys.executable, str(ROOT / "bench/run.py"), "--quick", "--only", *parts, *options]
    done = subprocess.run(
        command, env={**os.environ, "CHAINRULE_BUILD": str(BUILD)}, capture_output=True, text=True, timeout=300
    )
    assert not done.returncode, done.stdout + done.stderr
    got = json.loads(written.read_text())
    assert set(got) == {*parts, "size"} and got["size"] == rest["size"], "the other parts stay"
    assert [row["what"] for row in got["sizes"]["rows"] if row["what"].endswith("cpu")] == ["48 on cpu", "96 on cpu"]
    assert len([row for row in got["files"]["rows"] if row["unit"] == "ms"]) == 6
    for row in (row for part in parts for row in got[part]["rows"]):
        assert row["ours"] > 0 and all(value > 0 for value in row.get("peers", {}).values()), row
        assert f"| {row['what']} | {row['unit']} |" in done.stdout
    drawn = (tmp_path / "product-sizes.svg").exists()
    assert drawn == bool(importlib.util.find_spec("matplotlib"))
    if drawn:
        assert "three plain loops" in (tmp_path / "product-sizes.svg").read_text()


def test_before_and_after(tmp_path: Path) -> None:
    """A line that became slower is measured again and listed; a rate counts as the time of its work."""
    for tree, ns, rate in (("before", 100, 50), ("after", 120, 40)):
        for part, key, value in (("dispatch", "ns", ns), ("products", "ours", rate)):
            program = tmp_path / tree / "build/release/bench" / part
            program.parent.mkdir(parents=True, exist_ok=True)
            rows = [{"name": "add", key: value}, {"name": "mul", key: 30}]
            program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps({'rows': rows})}\nEND\n")
            program.chmod(0o755)
    command = f"{ROOT}/bench/before_after.py {tmp_path}/before {tmp_path}/after --rounds 1".split()
    done = subprocess.run(
        [sys.executable, *command, "--only", "dispatch", "product shapes"], check=True, capture_output=True, text=True
    )
    listed = [line.split() for line in done.stdout.splitlines() if line.startswith("  ")]
    assert [(line[0], line[1]) for line in listed] == [("1.200", "add,"), ("1.250", "add,")]
    assert "4 lines, geometric mean 1.107, 2 above 1.03" in done.stdout


def test_cuda_host() -> None:
    """The host's part of a step on the driver that launches nothing: as many launches in every step, some time each."""
    if not (BUILD / "cudasim/null/libcuda.so.1").exists() or not list((ROOT / "build/nvrtc").glob("nvidia/cu13/lib/*")):
        pytest.skip("no NVRTC, or no driver that launches nothing (tests/cudasim)")
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench/cuda_host.py"), "--quick", "--steps", "3"],
        env={**os.environ, "CHAINRULE_BUILD": str(BUILD), "PYTHONPATH": str(BUILD / "python")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)["steps"]
    assert set(steps) == {"bf16", "f32", "bf16, recorded", "f32, recorded"}
    for name, found in steps.items():
        recorded = "recorded" in name  # a graph, in which the update is noted anew
        assert found["graphs"] == recorded, found
        assert found["launches"] == int(found["launches"]), found
        assert 0 < found["launches"] < 20 if recorded else 40 < found["launches"] < 400, found
        assert 0 < found["min_us"] <= found["median_us"], found
