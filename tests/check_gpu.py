"""A GPU as its users meet it: the program trains and writes on it, Python does, and both follow the cpu.

use: python tests/check_gpu.py        CHAINRULE_BUILD: where the program and the package are (build/release)

Without a GPU it is skipped; CHAINRULE_TEST_GPU=1 makes that a failure.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from check_cli import PROGRAM, SMALL, corpus, losses, run, weights

CLOSE = 1e-5  # of a loss after 50 steps; rounding alone was 4e-7 on lavapipe and on SwiftShader


def follow(there: list[float], here: list[float]) -> None:
    wrong = [f"step {i}: {a} on the GPU, {b} on the cpu" for i, (a, b) in enumerate(zip(there, here, strict=True)) if not abs(a - b) <= CLOSE * b]
    assert not wrong and there[-1] < there[0], wrong or there
    print(f"  losses of {len(here)} steps: off by {max(abs(a - b) / b for a, b in zip(there, here, strict=True)):.1g} at most")


def the_program(folder: Path) -> None:
    """Trains beside the cpu, stops and goes on with the same bits, writes the same text from either's weights on either."""
    text = corpus(folder)
    train = ["train", "--data", text, *SMALL, "--steps", 50, "--dropout", "0.1", "--lr", "0.01"]
    for device in ("cpu", "webgpu"):
        said = run(folder, *train, "--device", device, "--out", device).stdout
        assert f"device  {device}" in said, said
    follow(list(losses(folder / "webgpu").values()), list(losses(folder / "cpu").values()))
    run(folder, *train, "--device", "webgpu", "--out", "again", "--stop-at", 20)
    run(folder, "train", "--resume", "again", "--device", "webgpu")
    assert losses(folder / "again") == losses(folder / "webgpu") and weights(folder / "again") == weights(folder / "webgpu"), "resumed with other bits"
    write = ["generate", "--prompt", "line 1", "--tokens", 40]
    texts = {run(folder, *write, "--model", model, "--device", device).stdout for model in ("cpu", "webgpu") for device in ("cpu", "webgpu")}
    assert len(texts) == 1, texts
    for command in (train, [*write, "--model", "cpu"]):
        assert "no GPU 'webgpu:77' here; there are: cpu, ref, webgpu:0" in run(folder, *command, "--device", "webgpu:77", code=1).stderr


def python_losses(cr: Any, device: str) -> list[float]:
    model = cr.models.GPT(41, 16, layers=1, heads=2, width=16, dropout=0.1, generator=cr.Generator().manual_seed(3), device=device)
    optimizer = cr.optim.AdamW(model.parameters(), lr=1e-2)
    tokens = cr.tensor([i * i % 41 for i in range(33)], device=device)
    x, y = tokens[:-1].view(2, 16), tokens[1:].view(2, 16)
    found = []
    for _ in range(50):
        loss = model.loss(x, y)
        assert loss.device == cr.Device(device) and all(p.device == loss.device for p in model.parameters())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def from_python(_: Path) -> None:
    cr = importlib.import_module("chainrule")
    follow(python_losses(cr, "webgpu"), python_losses(cr, "cpu"))
    first = cr.Device("webgpu:0")
    assert cr.Device.is_gpu_available() is True and first.is_gpu() and not first.is_cpu() and (first.type, first.index) == ("webgpu", 0)
    best = cr.Device.cuda() if cr.Device.is_cuda_available() else first  # CUDA comes before what WebGPU reaches
    assert cr.Device.gpu() == cr.Device.gpu(0) == cr.Device("gpu") == best and cr.Device("webgpu") == cr.Device("webgpu", 0) == first
    x = cr.ones(2, 3, device="webgpu")
    assert x.device == first and x.cpu().device == cr.Device.cpu() and x.cpu().gpu().device == best and (x @ x.T).sum().item() == 12
    for name in ("gpu:77", "webgpu:77"):
        try:
            cr.Device(name)
        except RuntimeError as error:
            assert f"no GPU '{name}' here; there are: cpu, ref, webgpu:0" in str(error), error
        else:
            raise AssertionError(f"there is a {name}")


def main() -> int:
    tried = subprocess.run([PROGRAM, "train", "--data", "/", "--device", "webgpu"], capture_output=True, text=True).stderr
    missing = re.search(r"\[\w+\] no GPU 'webgpu' here.*", tried)
    if missing:  # as tests/test.h
        wanted = "CHAINRULE_TEST_GPU" in os.environ
        print(f"{'FAILED' if wanted else 'skipped'} tests on GPUs: {missing[0]}\nresult: 0 passed, {wanted:d} failed, {not wanted:d} skipped")
        return int(wanted)
    sys.path.insert(0, str(PROGRAM.parent / "python"))
    tests = [the_program, from_python] if list((PROGRAM.parent / "python/chainrule").glob("_core*.so")) else [the_program]
    failed = 0
    for test in tests:
        print(test.__name__)
        with tempfile.TemporaryDirectory() as folder:
            try:
                test(Path(folder))
            except Exception:
                failed += 1
                print(f"FAILED {test.__name__}")
                traceback.print_exc(limit=-2, file=sys.stdout)
    print(f"result: {len(tests) - failed} passed, {failed} failed, 0 skipped; webgpu:0 {len(tests)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
