"""GPUs as their users meet them: the program trains and writes on them, Python does, and both
follow the cpu; examples/cuda_demo.c.

use: python tests/check_gpu.py [webgpu] [cuda]        CHAINRULE_BUILD: where the program and the
package are (build/release)

cuda is the simulated one, with CHAINRULE_TEST_CUDA=1 a true one. Without a GPU of a kind it is
skipped; CHAINRULE_TEST_GPU=1 makes that a failure for webgpu."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from check_cli import PROGRAM, ROOT, SMALL, corpus, losses, run, weights
from check_examples import compiled

sys.path.insert(0, str(ROOT / "tests" / "cudasim"))
from environment import simulated  # noqa: E402

Test = Callable[[Path, str], None]  # in a folder, on a kind of GPU
CLOSE = 1e-5  # of a loss after 50 steps; rounding was 4e-7 on lavapipe and on SwiftShader


def follow(there: list[float], here: list[float]) -> None:
    wrong = [
        f"step {i}: {a} on the GPU, {b} on the cpu"
        for i, (a, b) in enumerate(zip(there, here, strict=True))
        if not abs(a - b) <= CLOSE * b
    ]
    assert not wrong and there[-1] < there[0], wrong or there
    print(
        f"  losses of {len(here)} steps: off by {max(abs(a - b) / b for a, b in zip(there, here, strict=True)):.1g} at"
        " most"
    )


UNKNOWN = {"webgpu": "no GPU 'webgpu:77' here; there are: cpu, ref, webgpu:0", "cuda": "device 77 does not exist: "}


def the_program(folder: Path, kind: str) -> None:
    """Trains beside the cpu, stops and goes on with the same bits, writes the same text from
    either's weights on either."""
    text = corpus(folder)
    train = ["train", "--data", text, *SMALL, "--steps", 50, "--dropout", "0.1", "--lr", "0.01"]
    for device in ("cpu", kind):
        said = run(folder, *train, "--device", device, "--out", device).stdout
        assert f"device  {device}" in said and "--- a sample ---" in said, said
    follow(list(losses(folder / kind).values()), list(losses(folder / "cpu").values()))
    run(folder, *train, "--device", kind, "--out", "again", "--stop-at", 20)
    run(folder, "train", "--resume", "again", "--device", kind)
    assert losses(folder / "again") == losses(folder / kind) and weights(folder / "again") == weights(folder / kind), (
        "resumed with other bits"
    )
    write = ["generate", "--prompt", "line 1", "--tokens", 40]
    texts = {
        run(folder, *write, "--model", model, "--device", device).stdout
        for model in ("cpu", kind)
        for device in ("cpu", kind, "gpu", "auto")
    }
    assert len(texts) == 1, texts
    for command in (train, [*write, "--model", "cpu"]):
        assert UNKNOWN[kind] in run(folder, *command, "--device", f"{kind}:77", code=1).stderr


def python_losses(cr: Any, device: str) -> list[float]:
    model = cr.models.GPT(
        41, 16, layers=1, heads=2, width=16, dropout=0.1, generator=cr.Generator().manual_seed(3), device=device
    )
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


def from_python(_: Path, kind: str) -> None:
    cr = importlib.import_module("chainrule")
    follow(python_losses(cr, kind), python_losses(cr, "cpu"))
    first = cr.Device(f"{kind}:0")
    assert (
        cr.Device.is_gpu_available() is True
        and first.is_gpu()
        and not first.is_cpu()
        and (first.type, first.index) == (kind, 0)
    )
    best = cr.Device.cuda() if cr.Device.is_cuda_available() else first  # CUDA comes before what WebGPU reaches
    assert (
        cr.Device.gpu() == cr.Device.gpu(0) == cr.Device("gpu") == best
        and cr.Device(kind) == cr.Device(kind, 0) == first
    )
    assert cr.Device.Gpu == best == cr.ones(2, device=cr.Device.Gpu).device
    auto = cr.Device("auto")
    hardware = best.type == "cuda" or "software" not in device_lines()[str(best)]
    assert auto == (best if hardware else cr.Device.Cpu), auto
    x = cr.ones(2, 3, device=kind)
    assert (
        x.device == first
        and x.cpu().device == cr.Device.cpu()
        and x.cpu().gpu().device == best
        and (x @ x.T).sum().item() == 12
    )
    for name, why in (("gpu:77", "no GPU 'gpu:77' here; there are: cpu, ref, "), (f"{kind}:77", UNKNOWN[kind])):
        try:
            cr.Device(name)
        except (RuntimeError, ValueError) as error:
            assert why in str(error), error
        else:
            raise AssertionError(f"there is a {name}")


def device_lines() -> dict[str, str]:
    """The program's description of each device."""
    lines = subprocess.run([PROGRAM, "info"], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[0]: line for line in lines if line.startswith("  ")}


def host_floats(_: Path, kind: str) -> None:
    """Python's floats reach a GPU that has no float64, in tensors of every float dtype, in places
    of them, and as Values."""
    cr = importlib.import_module("chainrule")
    for dtype in (cr.float32, cr.float16, cr.bfloat16, cr.int32):
        assert (
            cr.tensor([[1.5, -2.0], [0.25, 3.0]], dtype=dtype, device=kind).tolist()
            == cr.tensor([[1.5, -2.0], [0.25, 3.0]], dtype=dtype).tolist()
        )
    x = cr.tensor([1.0, 2.0], device=kind)
    x[0] = 1.5
    assert (
        (x * 2).tolist() == [3, 4]
        and cr.Tensor([[1.0]], device=cr.Device(kind)).requires_grad
        and cr.asarray([0.5], device=kind).item() == 0.5
    )
    x[:] = [0.5, 2.5]
    x[1:] = cr.tensor([4.0], dtype=cr.float64)  # of the host's
    assert x.tolist() == [0.5, 4.0] and (x.new_tensor([3.25]) + 1).item() == 4.25
    exact = cr.float64 if kind == "cuda" else cr.float32
    here, there = cr.ValueBatch([1.0, -3.0]), cr.ValueBatch([1.0, -3.0], device=kind)
    for batch in (here, there):
        y = (batch * 2.0 + 1).tanh() * batch - 0.5 / batch
        y.backward()
    assert there.dtype == exact and y.dtype == exact and ("dtype=float32" in repr(y)) == (exact == cr.float32), y
    assert all(abs(a - b) < 1e-6 for a, b in zip(here.grad, there.grad, strict=True)) and here.dtype == cr.float64
    moved = here.to(kind)
    (moved * 3.0).to("cpu").backward()  # adds to what is there
    assert (
        moved.dtype == exact
        and moved.to("cpu").dtype == cr.float64
        and all(abs(a - b - 3) < 1e-6 for a, b in zip(here.grad, there.grad, strict=True))
    )
    there.data = [0.5, 0.75]
    there.grad = [0.0, 1.0]
    assert (there.data, there.grad) == ([0.5, 0.75], [0.0, 1.0])


def the_demo(folder: Path, _: str) -> None:
    """examples/cuda_demo.c, with little memory."""
    program = compiled((ROOT / "examples" / "cuda_demo.c").read_text(encoding="utf-8"), folder)
    done = subprocess.run(
        [str(program), "96"],
        env={**os.environ, "CHAINRULE_GPU_MEMORY": "256"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    wanted = (
        "cuda:0: ",
        "compute capability",
        "[[1, 2], [3, 4]] by [[5, 6], [7, 8]] = [[19, 22], [43, 50]]",
        "sum of 1000 zeros = 0",
        "; speed-up ",
        " 16.00 MiB in use",
        "(96, 96) by (96, 96)",
        "GFLOP/s",
        "device 99 does not exist",
        "[add] operands on two devices",
        "cuda:0 is out of memory",
        "[index_select] index 7 at position 0 is out of range for size 3",
    )
    missing = [text for text in wanted if text not in done.stdout]
    assert not done.returncode and not missing, (
        f"exit {done.returncode}, without {missing}:\n{done.stdout}{done.stderr}"
    )


def absent(kind: str) -> str:
    """Why there is no such GPU; empty: there is one."""
    said = subprocess.run([PROGRAM, "train", "--data", "/", "--device", kind], capture_output=True, text=True).stderr
    found = re.search(r"\[\w+\] no (GPU|CUDA device) .*", said)
    return found[0] if found else ""


def main() -> int:
    os.environ.update(simulated(PROGRAM.parent))
    sys.path.insert(0, str(PROGRAM.parent / "python"))
    python: list[Test] = (
        [from_python, host_floats] if list((PROGRAM.parent / "python/chainrule").glob("_core*.so")) else []
    )
    tests: dict[str, list[Test]] = {"webgpu": [the_program, *python], "cuda": [the_program, *python, the_demo]}
    failed = skipped = 0
    ran: dict[str, int] = {}
    for kind in sys.argv[1:] or tests:
        if missing := absent(kind):  # as tests/test.h
            wanted = kind == "webgpu" and "CHAINRULE_TEST_GPU" in os.environ
            print(f"{'FAILED' if wanted else 'skipped'} tests on {'GPUs' if kind == 'webgpu' else 'CUDA'}: {missing}")
            failed, skipped = failed + wanted, skipped + (not wanted)
            continue
        ran[kind] = len(tests[kind])
        for test in tests[kind]:
            print(f"{test.__name__} on {kind}")
            with tempfile.TemporaryDirectory() as folder:
                try:
                    test(Path(folder), kind)
                except Exception:
                    failed += 1
                    print(f"FAILED {test.__name__} on {kind}")
                    traceback.print_exc(limit=-2, file=sys.stdout)
    checks = ", ".join(f"{kind}:0 {n}" for kind, n in ran.items())
    print(
        f"result: {max(0, sum(ran.values()) - failed)} passed, {failed} failed, {skipped}"
        f" skipped{'; ' + checks if checks else ''}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
