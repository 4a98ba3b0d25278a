#!/usr/bin/env python3
"""An NVIDIA GPU beside PyTorch on the same GPU, eager and compiled, and beside our own cpu:
products, bandwidth, attention, training, the host's part; and every elementwise function of ours.

use: python bench/cuda.py [--quick] [--only PART ...] [--rounds 3] [--seconds S] [--batch 32]
[--eager] [--cases TEXT] [--device cuda]        prints JSON

A case is the same line of Python in both libraries, on random numbers (zeros would draw less power
and so run at a higher clock). Each library has a process of its own, and they take turns; a sample
is a loop of about ten milliseconds that the GPU is waited for once, at its end. --quick: sizes for
a simulated GPU.  --device cpu: both libraries on the cpu, which tries the whole without a GPU.
--seconds: no case begins later."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PARTS = (
    "host",
    "matmul",
    "attention",
    "train",
    "cpu",
    "bandwidth",
    "sizes",
    "kernels",
)  # the quickest first: --seconds may end it
DTYPES = {"bf16": "bfloat16", "f16": "float16"}  # others: float32, its products as PRECISION says
PRECISION = {"tf32": "high"}  # of set_float32_matmul_precision
TRAINING = ("train", "sizes")  # dtype mixed: autocast to bf16, weights in f32
ANSWER = 120  # seconds: a case that takes longer has failed (torch.compile of a whole model is the longest)
LOOP, SAMPLED = 0.01, 0.1  # seconds: of one sample, of all in one turn
COMPILED = ("bandwidth", *TRAINING)  # where PyTorch compiled is another program than PyTorch
BACKENDS = {"PyTorch flash": "FLASH_ATTENTION", "PyTorch cuDNN": "CUDNN_ATTENTION"}  # of attention, each forced


@dataclass(frozen=True)
class Case:
    part: str
    name: str
    dtype: str
    call: str  # over the operands, F (nn.functional) and lib
    operands: dict[str, tuple[int, ...]]  # shapes of normal numbers; target (M, V): M integers below V
    work: float  # of one call: unit is work a second
    unit: str
    gradients: str = ""  # of which operands; their time is then in the case's
    places: dict[str, str] = field(
        default_factory=dict
    )  # column -> device; empty: "chainrule" on the GPU, beside the peers
    drawn: tuple[float, float] | None = None  # operands are uniform numbers between the two


def product(part: str, dtype: str, m: int, n: int, k: int, what: str = "", **more: Any) -> Case:
    return Case(
        part,
        f"{m} x {n} x {k}{what}",
        dtype,
        "F.linear(a, b)",
        {"a": (m, k), "b": (n, k)},
        2e-12 * m * n * k,
        "TFLOP/s",
        **more,
    )


def matmul_cases(quick: bool) -> list[Case]:
    shapes = [(n, n, n) for n in ((64,) if quick else (1024, 2048, 4096, 8192))]
    tokens = 64 if quick else 8192
    shapes += (
        []
        if quick
        else [(tokens, 2304, 768), (tokens, 768, 768), (tokens, 3072, 768), (tokens, 768, 3072), (tokens, 50257, 768)]
    )  # GPT-2's
    return [product("matmul", dtype, *shape) for dtype in ("bf16", "tf32", "f32") for shape in shapes]


def bandwidth_cases(quick: bool) -> list[Case]:
    """64M elements; bytes count each operand and result once."""
    m, n = (64, 64) if quick else (1 << 16, 1 << 10)
    v = 101 if quick else 50257
    rows, table = {"a": (m, n)}, {"a": (m * n // v, v), "target": (m * n // v, v)}
    norm, normed = "F.layer_norm(a, w.shape, w, b)", {**rows, "w": (n,), "b": (n,)}
    found = []
    for dtype in ("f32", "bf16"):
        for name, call, operands, passes, gradients in (
            ("copy", "a.clone()", rows, 2, ""),
            ("add", "a + c", {**rows, "c": (m, n)}, 3, ""),
            ("add a row", "a + w", {**rows, "w": (n,)}, 2, ""),
            ("add a column", "a + w", {**rows, "w": (m, 1)}, 2, ""),
            ("transpose", "a.T.contiguous()", rows, 2, ""),
            ("add a transpose", "a + c.T", {**rows, "c": (n, m)}, 3, ""),
            ("gelu", "F.gelu(a)", rows, 2, ""),
            ("sum", "a.sum()", rows, 1, ""),
            ("row sums", "a.sum(1)", rows, 1, ""),
            ("column sums", "a.sum(0)", rows, 1, ""),
            ("softmax", "F.softmax(a, -1)", rows, 2, ""),
            ("layer norm", norm, normed, 2, ""),
            ("layer norm and gradients", norm, normed, 5, "awb"),  # x and y; x, dy and dx
            ("cross-entropy", "F.cross_entropy(a, target)", table, 1, ""),
            ("cross-entropy and gradient", "F.cross_entropy(a, target)", table, 3, "a"),
        ):
            size = operands["a"]
            found.append(
                Case(
                    "bandwidth",
                    name,
                    dtype,
                    call,
                    operands,
                    passes * (4 if dtype == "f32" else 2) * 1e-9 * size[0] * size[1],
                    "GB/s",
                    gradients,
                )
            )
    return found


def attention_cases(quick: bool) -> list[Case]:
    """16k tokens with 16 heads whatever their length; a visible pair counts once, 4 D forward and 10 D backward."""
    found = []
    for d in (64, 128):
        for t in (64,) if quick else (1024, 2048, 4096, 8192, 16384):
            shape = (1 if quick else 16384 // t, 2 if quick else 16, t, d)
            operands = dict.fromkeys("qkv", shape)
            pairs = shape[0] * shape[1] * t * (t + 1) / 2
            for what, each, gradients in (("forward", 4, ""), ("forward and backward", 14, "qkv")):
                call = "F.scaled_dot_product_attention(q, k, v, is_causal=True)"
                found.append(
                    Case(
                        "attention",
                        f"D={d} T={t} {what}",
                        "bf16",
                        call,
                        operands,
                        each * d * pairs * 1e-12,
                        "TFLOP/s",
                        gradients,
                    )
                )
    return found


def train_case(part: str, quick: bool, rows: int, padded: bool, dtype: str) -> Case:
    """GPT-2 124M, 1024 tokens a row: forward, backward, gradients clipped at 1, AdamW.  padded: the vocabulary is a
    multiple of 64, as users of PyTorch make it."""
    model = (65, 16, 1, 2, 16) if quick else (50257, 1024, 12, 12, 768)  # vocabulary, context, layers, heads, width
    name, time = f"{rows} x {model[1]}", model[1]
    if padded:
        model = (-(-model[0] // 64) * 64, *model[1:])
        name += f", vocabulary {model[0]}"
    operands = {"model": model, "tokens": (rows, time)}
    return Case(part, name, dtype, "", operands, float(rows * time), "tokens/s")


def train_cases(quick: bool, batch: int) -> list[Case]:
    return [train_case("train", quick, 2 if quick else batch, False, dtype) for dtype in ("mixed", "bf16")]


def size_cases(quick: bool, batch: int) -> list[Case]:
    """Other batches, and a padded vocabulary."""
    found = [(2 if quick else batch, True)] + [(n, False) for n in ((1, 3) if quick else (16, 64)) if n != batch]
    return [train_case("sizes", quick, *size, dtype) for size in found for dtype in ("mixed", "bf16")]


def host_cases(quick: bool) -> list[Case]:
    calls = {"add": "a + b", "matmul": "a @ b", "softmax": "F.softmax(a, -1)"}
    return [Case("host", name, "f32", call, {"a": (8, 8), "b": (8, 8)}, 1, "calls/s") for name, call in calls.items()]


def cpu_cases(quick: bool) -> list[Case]:
    """Beside our own cpu, beside a loop as plain as ref's, and attention beside the products and
    the softmax that it is made of."""
    n, plain, rows, t = (48, 48, 64, 64) if quick else (2048, 256, 1 << 13, 2048)
    places = {"chainrule": "gpu", "cpu": "cpu"}
    shape = (1, 2, t, 64) if quick else (2, 12, t, 64)
    heads, work = dict.fromkeys("qkv", shape), 4e-12 * shape[0] * shape[1] * 64 * t * (t + 1) / 2
    attention = {
        "fused": "F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        "composed": (
            f"F.softmax((q @ k.transpose(-2, -1) * 0.125).masked_fill(lib.ones({t}, {t}, device=q.device).triu(1) > 0,"
            " -1e30), -1) @ v"
        ),
    }
    return [
        product("cpu", "f32", n, n, n, places=places),
        product("cpu", "f32", plain, plain, plain, " by a plain loop", places={"ref": "ref"}),
        Case("cpu", "gelu", "f32", "F.gelu(a)", {"a": (rows, 1024)}, 8e-9 * rows * 1024, "GB/s", places=places),
        *(
            Case("cpu", f"attention T={t} {how}", "f32", call, heads, work, "TFLOP/s", places={"chainrule": "gpu"})
            for how, call in attention.items()
        ),
    ]


CALLS = {  # of functions that are called otherwise in Python
    "clamp": "lib.clamp(a, -1, 1)",
    "geglu": "F.geglu(a, b)",
    "gelu_tanh": "F.gelu(a, approximate='tanh')",
    "left_shift": "a << b",
    "right_shift": "a >> b",
    "swiglu": "F.swiglu(a, b)",
    "trunc_divide": "lib.div(a, b, rounding_mode='trunc')",
}


def kernel_cases(quick: bool) -> list[Case]:
    """Every row of ops.def on 64M elements, f32 or int32, between the bounds that its tests have,
    and a copy; bytes count each operand and result once."""
    sys.path.insert(0, str(ROOT / "tools"))
    gen_ops = importlib.import_module("gen_ops")
    shape = (61, 67) if quick else (1 << 16, 1 << 10)
    found = [
        Case(
            "kernels",
            "copy",
            "f32",
            "a.clone()",
            {"a": shape},
            8e-9 * shape[0] * shape[1],
            "GB/s",
            places={"chainrule": "gpu"},
        )
    ]
    for row in gen_ops.read_source((ROOT / gen_ops.SOURCE).read_text(encoding="utf-8"))[1]:
        where, whole = row.rule == "WHERE", row.rule == "BITS"
        names = ["condition", "a", "b"] if where else list("abc"[: len(row.inputs)])
        call = CALLS.get(row.name, f"lib.{row.name}({', '.join(names)})")
        each = 9 if where else 4 * len(names)  # a condition takes one byte
        work = (each + (1 if row.rule == "TEST" else 4)) * 1e-9 * shape[0] * shape[1]
        drawn, dtype = ((1, 7), "int32") if whole else ((row.low, row.high), "f32")
        found.append(
            Case(
                "kernels",
                row.name,
                dtype,
                call,
                dict.fromkeys(names, shape),
                work,
                "GB/s",
                places={"chainrule": "gpu"},
                drawn=drawn,
            )
        )
    return found


def cases_of(part: str, quick: bool, batch: int) -> list[Case]:
    if part in TRAINING:
        return (train_cases if part == "train" else size_cases)(quick, batch)
    makers = {
        "bandwidth": bandwidth_cases,
        "matmul": matmul_cases,
        "attention": attention_cases,
        "host": host_cases,
        "cpu": cpu_cases,
        "kernels": kernel_cases,
    }
    return makers[part](quick)


# ---- in the process of one library


def trainer(lib: Any, case: Case, device: str, how: str) -> Callable[[], object]:
    model_of, tokens = case.operands["model"], case.operands["tokens"]
    x, y = (lib.randint(0, model_of[0], tokens, device=device) for _ in range(2))
    half = case.dtype == "bf16"
    if lib.__name__ == "chainrule":
        model = lib.models.GPT(*model_of, device=device, dtype=lib.bfloat16 if half else None)
        optimizer = lib.optim.AdamW(model.parameters(), lr=1e-4)

        def step() -> None:
            with lib.autocast(device.split(":")[0], lib.bfloat16, enabled=not half):
                loss = model.loss(x, y)
            loss.backward()
            optimizer.step_clipped(1.0)
            optimizer.zero_grad()

        return step
    from torch_gpt import GPT, adamw

    peer = GPT(*model_of).to(device, lib.bfloat16 if half else lib.float32)
    theirs = adamw(peer, 1e-4)
    forward = lib.compile(peer) if how == "compiled" else peer

    def peer_step() -> None:
        with lib.autocast(device.split(":")[0], lib.bfloat16, enabled=not half):
            loss = forward(x, y)
        loss.backward()
        lib.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        theirs.step()
        theirs.zero_grad(set_to_none=True)

    return peer_step


def operand(lib: Any, case: Case, name: str, device: str) -> Any:
    """Normal numbers, or what its name or its case says."""
    shape, dtype = case.operands[name], getattr(lib, DTYPES.get(case.dtype, "float32"))
    if name == "target":
        return lib.randint(0, shape[1], (shape[0],), device=device)
    if name == "condition":
        return lib.rand(*shape, device=device) < 0.5
    if case.dtype == "int32":
        return lib.randint(*case.drawn, shape, dtype=lib.int32, device=device)
    if case.drawn:
        return lib.rand(*shape, dtype=dtype, device=device) * (case.drawn[1] - case.drawn[0]) + case.drawn[0]
    return lib.randn(*shape, dtype=dtype, device=device)


def runner(lib: Any, case: Case, device: str, how: str) -> Callable[[], object]:
    functional = importlib.import_module(f"{lib.__name__}.nn.functional")
    made = {name: operand(lib, case, name, device) for name in case.operands}
    f = eval(f"lambda {', '.join(made)}: {case.call}", {"F": functional, "lib": lib})
    if how == "compiled":
        f = lib.compile(f)
    operands = list(made.values())
    if not case.gradients:
        return lambda: f(*operands)
    inputs = [made[name].requires_grad_() for name in case.gradients]
    y = f(*operands)
    cotangent = lib.randn_like(y.detach())
    return lambda: lib.autograd.grad(f(*operands), inputs, cotangent)


def measure(run: Callable[[], object], wait: Callable[[], object], seconds: float, host: bool) -> dict[str, float]:
    """Milliseconds of one call; host: of asking for it, the GPU's part left out."""

    def sample(times: int) -> float:
        wait()
        start = time.perf_counter()
        for _ in range(times):
            run()
        if not host:
            wait()
        return (time.perf_counter() - start) / times

    sample(2)  # kernels are compiled, memory is taken
    times = max(1, min(500, int(LOOP / sample(1))))
    found, stop = [], time.perf_counter() + seconds
    while len(found) < 3 or (time.perf_counter() < stop and len(found) < 100):
        found.append(sample(times))
    wait()
    return {"min_ms": min(found) * 1e3, "median_ms": statistics.median(found) * 1e3}


def backend(how: str) -> Any:
    """PyTorch's attention by this backend; other words: as it likes."""
    if how not in BACKENDS.values():
        return contextlib.nullcontext()
    attention = importlib.import_module("torch.nn.attention")
    return attention.sdpa_kernel(getattr(attention.SDPBackend, how))


def work(library: str, pipe: Any) -> None:
    """Answers (case, device, how, seconds) with milliseconds and peak bytes, or in words why it failed."""
    lib = importlib.import_module(library)
    ours = library == "chainrule"
    pipe.send(f"{'chainrule' if ours else 'PyTorch'} {lib.__version__.split('+')[0]}")
    while request := pipe.recv():
        case, device, how, seconds = request
        on_gpu = device not in ("cpu", "ref")
        wait = (lambda d=device: lib.synchronize(d)) if ours else lib.cuda.synchronize if on_gpu else lambda: None
        try:
            lib.set_float32_matmul_precision(PRECISION.get(case.dtype, "highest"))
            train = case.part in TRAINING
            with contextlib.nullcontext() if case.gradients or train else lib.no_grad(), backend(how):
                run = (trainer if train else runner)(lib, case, device, how)
                found: Any = measure(run, wait, seconds, case.part == "host")
            del run
            if on_gpu:
                found["peak_bytes"] = lib.cuda.max_memory_allocated()
                lib.cuda.empty_cache()
        except Exception as problem:
            found = f"{type(problem).__name__}: {problem}".splitlines()[0][:300]
        pipe.send(found)


class Worker:
    """One library in a process of its own, begun when it is first asked."""

    def __init__(self, library: str) -> None:
        self.library, self.version, self.process = library, "", None

    def begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(self.library, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.version = self.pipe.recv()

    def ask(self, *request: Any, within: float = ANSWER) -> Any:
        try:
            if self.process is None:
                self.begin()
            self.pipe.send(request)
            if self.pipe.poll(within):
                return self.pipe.recv()
            problem = f"no answer in {within:.0f} s"
        except (EOFError, OSError):
            problem = "the process ended"
        self.end()
        return problem

    def end(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


# ---- all of them


def why_no_peer(device: str) -> str:
    """Why PyTorch's columns are absent; empty: they are not."""
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed"
    return "" if device == "cpu" or torch.cuda.is_available() else "this PyTorch sees no CUDA device"


def error_of_product(n: int, device: str) -> float:
    """The GPU's (n, n) by (n, n) in f32 against double on ref: the largest difference over the largest magnitude."""
    import chainrule as cr

    a, b = cr.randn(n, n), cr.randn(n, n)
    exact = a.to("ref").double() @ b.to("ref").double()
    return float(((a.to(device) @ b.to(device)).to("ref").double() - exact).abs().max() / exact.abs().max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3600, help="no case begins later than this")
    parser.add_argument("--batch", type=int, default=32, help="rows of 1024 tokens in a training step")
    parser.add_argument("--eager", action="store_true", help="without PyTorch compiled")
    parser.add_argument("--cases", default="", help="only those with this in their names")
    parser.add_argument("--device", default="cuda")
    o = parser.parse_args()
    import chainrule as cr

    device = cr.Device(o.device)  # an error here says in one line why there is none
    sys.path.insert(0, str(Path(__file__).parent))
    stop, missing = time.monotonic() + o.seconds, why_no_peer(o.device)
    ours, theirs = Worker("chainrule"), Worker("torch")

    def columns(case: Case) -> dict[str, tuple[Worker, str, str]]:
        """Column -> who, on which device, and how."""
        if case.places:
            return {name: (ours, o.device if device == "gpu" else device, "") for name, device in case.places.items()}
        peers = {"PyTorch": ""}
        if not o.eager and case.part in COMPILED:
            peers["PyTorch compiled"] = "compiled"
        if case.part == "attention":
            peers |= BACKENDS
        found = {"chainrule": (ours, o.device, "")}
        return found if missing else found | {name: (theirs, o.device, how) for name, how in peers.items()}

    def answers(case: Case) -> dict[str, Any]:
        """Column -> milliseconds and bytes over all rounds, or in words why not."""
        found: dict[str, list[Any]] = {name: [] for name in columns(case)}
        for _ in range(1 if o.quick or case.part in TRAINING else o.rounds):
            for name, (worker, device, how) in columns(case).items():
                within = min(ANSWER, max(10, stop - time.monotonic()))
                found[name].append(worker.ask(case, device, how, 0 if o.quick else SAMPLED, within=within))
                if case.part in TRAINING:
                    worker.end()  # so that the peak counts only this case
        return {
            name: (
                next((a for a in got if isinstance(a, str)), None)
                or {
                    "min_ms": min(a["min_ms"] for a in got),
                    "median_ms": statistics.median(a["median_ms"] for a in got),
                    "peak_bytes": got[-1].get("peak_bytes", 0),
                }
            )
            for name, got in found.items()
        }

    rows, left_out = [], []
    for case in (
        case for part in PARTS if part in o.only for case in cases_of(part, o.quick, o.batch) if o.cases in case.name
    ):
        if time.monotonic() > stop:
            left_out.append(f"{case.part} {case.name} {case.dtype}")
        else:
            rows.append(
                {
                    **{key: getattr(case, key) for key in ("part", "name", "dtype", "unit", "work")},
                    "columns": answers(case),
                }
            )
    ours.end()
    theirs.end()
    error = error_of_product(48 if o.quick else 1024, o.device) if "cpu" in o.only else None
    versions = [worker.version for worker in (ours, theirs) if worker.version]
    print(
        json.dumps(
            {
                "device": str(device),
                "versions": versions,
                "missing": missing,
                "error": error,
                "left_out": left_out,
                "rows": rows,
            }
        )
    )


if __name__ == "__main__":
    main()
