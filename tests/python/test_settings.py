"""Switches, the profiler, devices' memory, and Ctrl-C in long calls."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import chainrule as cr
import pytest


def test_config() -> None:
    before = cr.get_num_threads()
    assert "num_threads" in list(cr.config) and "num_threads" in repr(cr.config)
    try:
        cr.config.num_threads = 1
        assert cr.config.num_threads == "1" and cr.get_num_threads() == 1
        for wrong in ("x", 0, -1):
            with pytest.raises(ValueError, match="NUM_THREADS"):
                cr.config.num_threads = wrong
    finally:
        cr.config.num_threads = None
    assert cr.get_num_threads() == before
    with pytest.raises(AttributeError, match="no switch"):
        cr.config.thread_count = 1
    with pytest.raises(AttributeError, match="no switch"):
        print(cr.config.thread_count)


def test_config_too_late() -> None:
    cr.ones(2).add(1)
    with pytest.raises(RuntimeError, match="too late"):
        cr.config.isa = "v2"


def test_profile(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    x = cr.randn(30, 20, requires_grad=True)
    with cr.profile(path):
        (x @ cr.ones(20, 10)).relu().sum().backward()
    events = json.loads(path.read_text())["traceEvents"]
    names = [e["name"] for e in events]
    assert {"matmul", "relu", "sum"} <= set(names) and any("backward" in n for n in names)
    (product,) = [e for e in events if e["name"] == "matmul" and e["args"]["result"] == "float32 (30, 10)"]
    assert product["args"]["inputs"] == ["float32 (30, 20)", "float32 (20, 10)"] and product["args"]["device"] == "cpu"
    assert "test_settings.py:" in product["args"]["source"] and product["dur"] >= 0
    with pytest.raises(OSError), cr.profile(tmp_path / "no" / "such" / "folder"):
        pass


def test_memory_and_devices() -> None:
    before = cr.memory_stats()[0]
    x = cr.zeros(1 << 20)
    assert cr.memory_stats()[0] >= before + 4 * x.numel() and cr.memory_stats()[1] >= cr.memory_stats()[0]
    peak = cr.memory_stats()[1]
    del x
    cr.reset_peak_memory_stats()
    assert cr.memory_stats()[1] <= peak - (3 << 20)
    y = cr.zeros(1 << 19)
    assert cr.memory_stats()[1] >= cr.memory_stats()[0] >= before + 4 * y.numel()
    cr.synchronize()
    cr.empty_cache("cpu")
    assert cr.cuda.device_count() == 0 or cr.cuda.is_available()
    if not cr.cuda.is_available():
        with pytest.raises(RuntimeError, match="CUDA"):
            cr.cuda.memory_allocated()


LONG = {
    "products": "a = cr.ones(2000, 2000)\nwhile True: a @ a",
    "one elementwise call after the other": "a = cr.ones(5000000)\nwhile True: a.exp().sin()",
    "small calls": "a = cr.ones(1)\nwhile True: a + a",
    "one walk": (
        "y = x = cr.ones(1, requires_grad=True)\nfor _ in range(400000): y = y * 1.0\nwhile True:"
        " y.backward(retain_graph=True)"
    ),
}


@pytest.mark.parametrize("work", LONG.values(), ids=LONG.keys())
def test_interrupt(work: str) -> None:
    """Ctrl-C ends work that would never end by itself, as KeyboardInterrupt, and the library works on."""
    program = "import chainrule as cr, sys\nprint('ready', flush=True)\ntry:\n" + textwrap.indent(work, "    ")
    program += (
        "\nexcept KeyboardInterrupt:\n    print('interrupted', (cr.ones(300, 300) @ cr.ones(300, 300)).sum().item())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(cr.__file__).parent.parent)}
    default = functools.partial(
        signal.signal, signal.SIGINT, signal.SIG_DFL
    )  # where the tests were started with it ignored, as by `make test &`
    child = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=default
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    timer = threading.Timer(0.7, child.send_signal, [signal.SIGINT])
    timer.start()
    output, _ = child.communicate(timeout=60)
    assert output == "interrupted 27000000.0\n" and child.returncode == 0
