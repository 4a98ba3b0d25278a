"""Training steps of whole networks, eager and compiled, beside PyTorch's and JAX's: milliseconds, the least of rounds
in turn, and the peak memory of some.
use: scripts.py [--quick] [--threads 2] [--cpu] [--only part-of-a-name] [--no-memory] [--eager]        prints JSON

bench/nets.py has the networks; chainrule runs that file as `python -m chainrule.torch` does. bench/nets_jax.py has
them for JAX. The losses of the first step must agree. --cpu: processor time instead of elapsed time, for one thread on
a busy machine; --eager: without PyTorch compiled, which takes minutes to compile."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from turns import Runs, Turns, arguments, prepared, start

MEMORY = "ResNet-18"  # the networks whose peak memory is measured
WARM_UP = "LeNet"  # runs before: what a library loads and starts once is not counted
STEPS = 3
AGREE = 1e-3  # of the largest loss


def titles() -> list[str]:
    """The keys of NETS, which is not imported here: it needs a torch."""
    source = Path(__file__).with_name("nets.py").read_text()
    return re.findall(r'^    "(.*)":', source[source.index("NETS") :], re.MULTILINE)


def open_nets(library: str, threads: int) -> tuple[str, Callable[[str], Callable[[], Any]]]:
    """The version, and what makes the step of a network by a part of its name."""
    if library == "JAX":
        lib, nets = prepared("jax", threads), importlib.import_module("nets_jax")
        return f"JAX {lib.__version__}", lambda part: next(net() for title, net in nets.NETS.items() if part in title)
    ours = library.startswith("chainrule")
    lib = prepared("chainrule" if ours else "torch", threads)
    if ours:
        importlib.import_module("chainrule.torch").install()
    torch, nets = importlib.import_module("torch"), importlib.import_module("nets")
    # shapes stay: PyTorch 2.13 would compile a second time for any shape, which fails for one of the networks
    compiled = (
        (lambda model: torch.compile(model, dynamic=False)) if library.endswith("compiled") else lambda model: model
    )
    return f"{library} {lib.__version__}", lambda part: next(
        net(compiled) for title, net in nets.NETS.items() if part in title
    )


def open_library(library: str, threads: int) -> tuple[str, Callable[[str], Runs]]:
    version, make = open_nets(library, threads)
    return version, lambda name: {"step": make(name)}


def losses(library: str, names: list[str], threads: int, pipe: Any) -> None:
    """Sends the loss of each network's first step."""
    _, make = open_nets(library, threads)
    pipe.send([make(name)().item() for name in names])


def own_memory(field: str) -> int:
    """Bytes of this process: VmRSS, or VmHWM, the most since its start."""
    return int(re.search(rf"{field}:\s*(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024


def memory(library: str, name: str, threads: int, pipe: Any) -> None:
    """Sends the most bytes during the network's first steps and its compilation, beyond those before it was made."""
    _, make = open_nets(library, threads)
    for part in (WARM_UP, name):
        before = own_memory("VmRSS")
        step = make(part)
        for _ in range(STEPS):
            step()
    pipe.send(own_memory("VmHWM") - before)


def main() -> None:
    parser = arguments()
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--eager", action="store_true")
    o = parser.parse_args()
    libraries = ["chainrule", "chainrule compiled"]
    if importlib.util.find_spec("torch"):
        libraries += ["PyTorch"] + ["PyTorch compiled"] * bool(shutil.which("c++") and not o.eager)
    libraries += ["JAX"] * bool(importlib.util.find_spec("jax"))
    names = [name for name in titles() if o.only in name]
    found = [start(losses, library, names, o.threads) for library in libraries if not library.endswith("compiled")]
    for name, *each in zip(names, *(pipe.recv() for pipe in found), strict=True):
        if not max(each) - min(each) <= AGREE * max(map(abs, each)):
            sys.exit(f"{name}: the losses of the first step differ: {each}")
    turns = Turns(open_library, libraries, o)
    rows = [{"name": name, "ms": turns.least(name, "step", 2, 5)} for name in names]
    turns.end()
    peaks = {
        name: {library: start(memory, library, name, o.threads).recv() / 1e6 for library in libraries}
        for name in names
        if MEMORY in name and not o.no_memory
    }
    json.dump({"versions": turns.versions, "rows": rows, "memory_mb": peaks}, sys.stdout)


if __name__ == "__main__":
    main()
