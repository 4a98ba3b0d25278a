"""Runs a program with each module that it calls compiled, as if its author had written ``cr.compile(module)``.

use: python compiled.py PROGRAM [ARGUMENT...]        a program below examples/torch runs on chainrule.torch

Modules that another module calls run inside the plan of that one.  The last line of the error output is
``compiled {"replays": 12, "backward": 3, "refused": {"Net": "why"}}``: the replays of forward passes, how many
of their results have a backward pass, and the modules that run without a plan."""

from __future__ import annotations

import atexit
import json
import os
import re
import runpy
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import chainrule as cr
from chainrule._compile import Compiled

# Programs that train no module, and the modules that run without a plan, with the file that reads a value.
NO_MODULE = {
    "gradients": "weights in a tensor",
    "tensor": "weights in tensors",
    "value": "numbers, no tensors",
    "moons_tensor": "weights in a list",
    "moons_value": "numbers, no tensors",
    "bayes": "distributions of weights, in functions",
    "attention": "its one module keeps its weights for the reader",
}
REFUSED = {
    "dcgan": {"BCELoss": "loss.py"},  # checks that the probabilities lie in [0, 1]
    "attention": {"Lookup": "the step changes .*weights"},  # keeps its weights for the reader
    "text_classifier": {"Classifier": "rnn.py"},  # packs sequences by their lengths
    "transformer_translation": {"Translator": "transformer.py"},  # looks whether a mask is causal
}


def compiled_run(path: Path, *arguments: Any, folder: Path | None = None) -> str:
    """What the program prints with its modules compiled; AssertionError: it failed or replayed nothing."""
    environment = {**os.environ, "PYTHONPATH": str(Path(cr.__file__).resolve().parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), str(path), *map(str, arguments)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stderr.splitlines()[-1].removeprefix("compiled "))
    name = Path(arguments[-1]).stem if path.stem == "check_pages" else path.stem
    expected = REFUSED.get(name, {})
    assert said["refused"].keys() == expected.keys(), said
    assert all(re.search(expected[module], why) for module, why in said["refused"].items()), said
    assert name in NO_MODULE or said["backward"] > 5, f"{name} replayed no training: {said}"
    assert name not in NO_MODULE or said["replays"] == 0, f"{name} replays: not without modules ({NO_MODULE[name]})"
    return done.stdout


# ---- the process that runs the program ----


class Inside(threading.local):
    module: cr.nn.Module | None = None  # that is being called


class Watch:
    """Stands between the program and chainrule: each outermost call of a module goes through a plan, counted."""

    def __init__(self) -> None:
        self.replays = self.backward = 0
        self.refused: dict[str, str] = {}
        self.plans: WeakKeyDictionary[cr.nn.Module, Compiled] = WeakKeyDictionary()
        self.inside = Inside()

    def install(self) -> None:
        module_class: Any = cr.nn.Module
        plans_class: Any = Compiled
        core: Any = cr._core
        call, refuse, plan_run = module_class.__call__, plans_class._refuse, core._plan_run

        def compiled_call(module: cr.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self.inside.module is not None or cr._core._recording():
                return call(module, *args, **kwargs)
            if module not in self.plans:
                self.plans[module] = Compiled(module.__call__, fullgraph=False)
            self.inside.module = module
            try:
                return self.plans[module](*args, **kwargs)
            finally:
                self.inside.module = None

        def counted_refuse(plans: Compiled, found: Any, why: str) -> None:
            self.refused[type(plans.f.__self__).__name__] = why  # type: ignore[attr-defined]
            refuse(plans, found, why)

        def counted_run(*args: Any) -> Any:
            made = plan_run(*args)
            self.replays += made is not None
            self.backward += made is not None and any(t.grad_fn is not None for t in made)
            return made

        module_class.__call__, plans_class._refuse, core._plan_run = compiled_call, counted_refuse, counted_run
        warnings.simplefilter("ignore")
        atexit.register(self.report)

    def report(self) -> None:
        found = {"replays": self.replays, "backward": self.backward, "refused": self.refused}
        print("compiled", json.dumps(found), file=sys.stderr)


def main() -> None:
    Watch().install()
    sys.argv = sys.argv[1:]
    path = Path(sys.argv[0]).resolve()
    if path.parent.name == "torch":
        from chainrule.torch import install
        from chainrule.torch.__main__ import run_script

        install()
        run_script(str(path))
    else:
        sys.path[0] = str(path.parent)
        runpy.run_path(str(path), run_name="__main__")


if __name__ == "__main__":
    main()
