"""The library from Python: small ops and the import, nn and optim, every op, whole networks, recorded steps."""

from __future__ import annotations

import statistics
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from cases import CASES

from .base import (
    BUILD,
    PROGRAM,
    Bench,
    Times,
    has,
    has_extension,
    isas,
    least,
    merge,
    python,
    run_json,
    some,
    stripped_copy,
)
from .lines import median_and_least, percent, reached, table, verdict, within
from .training import compare_steps, steps

PYTHON_BARS = {
    "x * y": 120,
    "x * y, recorded": 220,
    "x[1:, 2]": 200,
    "(100,) + (100,)": 150,
    "chain, an op": 450,
    "two-moons step": 60_000,
}  # ns


# ---- small ops, the import, and the C benches called from Python


def small(bench: Bench) -> None:
    bench.section("Python")
    if not has_extension():
        bench.say("Went without: no Python extension in this build (make deps).", "")
        return
    libraries = ["chainrule", *(name for name in ("torch", "numpy") if has(name))]
    calls: dict[str, list[Any]] = {name: [] for name in libraries}
    cost: dict[str, list[Any]] = {name: [] for name in libraries}
    for _ in range(bench.rounds):
        for name in libraries:
            calls[name].append(bench.script("small.py", name, *bench.quick_option))
            cost[name].append(run_json(python("import_cost.py", name, 3), bench.threads))
    inside, outside = inside_and_outside(bench)
    if not all(map(all, [*calls.values(), *cost.values(), inside, outside])):
        return
    ns = {name: least(got, "ns") for name, got in calls.items()}
    load = {name: {unit: min(c[unit] for c in got) for unit in ("ms", "mb")} for name, got in cost.items()}
    bench.data["python"] = {"ns": ns, "import": load}
    cell = lambda name, what: f"{ns[name][what]:,.0f}" if what in ns[name] else "-"
    rows = [[what, *(cell(name, what) for name in libraries)] for what in PYTHON_BARS]
    rows += [[f"import, {unit}", *(f"{load[name][unit]:.1f}" for name in libraries)] for unit in ("ms", "mb")]
    bench.say(table(["ns, least of all rounds", *(calls[name][0]["version"] for name in libraries)], rows), "")
    for what, bar in PYTHON_BARS.items():
        bench.say(f"* {what}: {within(ns['chainrule'][what], bar, 'ns')}.")
    bench.say(f"* import: {within(load['chainrule']['ms'], 30, 'ms')}, {within(load['chainrule']['mb'], 20, 'MB')}.")
    bench.say(f"* wheel: {within(wheel_bytes() / 1e6, 4, 'MB')}.", "")
    if inside:
        called_from_python(bench, merge_parts(inside), merge_parts(outside))


def inside_and_outside(bench: Bench) -> tuple[list[Any], list[Any]]:
    """Products and elementwise operations called from C, and the same from Python; none without NumPy,
    which makes the operands. Where results lie in the cache differs from process to process: many rounds."""
    inside: list[Any] = []
    outside: list[Any] = []
    for _ in range(3 * bench.rounds if has("numpy") else 0):
        for part in ("products", "elementwise"):
            inside.append(bench.ours(part, quick=True))
            outside.append(bench.script("peers.py", "chainrule", "--quick", "--only", part))
    return inside, outside


def merge_parts(results: list[Any]) -> dict[str, Times]:
    """merge() over results of several parts in turn, whose rows differ."""
    names = dict.fromkeys(row["name"] for r in results for row in r["rows"])
    return {name: merge([r for r in results if any(row["name"] == name for row in r["rows"])])[name] for name in names}


def called_from_python(bench: Bench, c: dict[str, Times], outside: dict[str, Times]) -> None:
    """The same cases beside each other: the least times, of calls above 100 us."""
    names = [name for name in c if name in outside and c[name]["min_ms"] > 0.1]
    ratios = {name: outside[name]["min_ms"] / c[name]["min_ms"] for name in names}
    bench.data["python"]["against C"] = ratios
    rows = [
        [name, f"{c[name]['min_ms']:.3f}", f"{outside[name]['min_ms']:.3f}", f"{ratio:.2f}x"]
        for name, ratio in ratios.items()
    ]
    bench.say(table(["least ms", "C", "from Python", "ratio"], rows), "")
    worst, mean = max(ratios, key=lambda name: ratios[name]), statistics.geometric_mean(ratios.values())
    bench.say(
        f"Called from Python: geometric mean {verdict(mean, 1.03)}, worst {ratios[worst]:.2f}x ({worst}).",
        "",
    )


def wheel_bytes() -> int:
    """The size of a wheel's files, stripped and zipped; make test-all builds the true one."""
    package = BUILD / "python" / "chainrule"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with zipfile.ZipFile(folder / "wheel", "w", zipfile.ZIP_DEFLATED) as archive:
            for file in [PROGRAM, *(f for f in package.rglob("*") if f.is_file() and f.suffix != ".pyc")]:
                stripped = stripped_copy(file, folder) if file == PROGRAM or file.suffix == ".so" else file
                archive.write(stripped, str(file.relative_to(BUILD)))
        return (folder / "wheel").stat().st_size


# ---- nn, optim, data, models


def nn(bench: Bench) -> None:
    bench.section(
        "nn, optim, data and models",
        "Training steps with models.GPT and optim.AdamW, clipped by step_clipped or by nn.utils.clip_grad_norm_,",
        "next to the C trainer; milliseconds, median (least).",
    )
    from_python = ("chainrule from Python", "chainrule from Python, clip_grad_norm_")
    for name in ("gpt2", "char"):
        case, got = CASES[name], steps(bench, name, ("chainrule", *from_python, "PyTorch"), bench.threads)
        bench.data[f"{case.name} from Python"] = got
        rows = [[v, median_and_least(t)] for v, t in got.items()]
        bench.say(table([f"{case.name}, {case.batch} x {case.time}", "ms a step"], rows), "")
        for ours in from_python:
            compare_steps(bench, ours, got, ours, ("chainrule",), 1.05)
        bench.say("")
    moons_and_epoch(bench)


def moons_and_epoch(bench: Bench) -> None:
    """A small training step, and an epoch of a DataLoader."""
    libraries = ["chainrule", *(["torch"] if has("torch") else [])]
    calls: dict[str, list[Any]] = {name: [] for name in libraries}
    epoch: dict[str, list[Any]] = {name: [] for name in libraries}
    for _ in range(bench.rounds):
        for name in libraries:
            calls[name].append(bench.script("small.py", name, *bench.quick_option))
            epoch[name].append(bench.script("loader.py", name, *bench.quick_option))
    if not all(map(all, [*calls.values(), *epoch.values()])):
        return
    step, samples = "two-moons step, nn and optim", epoch["chainrule"][0]["samples"]
    us = {name: least(got, "ns")[step] / 1e3 for name, got in calls.items()}
    seconds = {name: least(got, "seconds") for name, got in epoch.items()}
    bench.data["nn"] = {"us": us, "epoch": seconds}
    rows = [[f"{step}, us", *(f"{us[name]:.1f}" for name in libraries)]]
    rows += [
        [f"DataLoader, {samples:,} samples of a {what}, s", *(f"{seconds[name][what]:.3f}" for name in libraries)]
        for what in seconds["chainrule"]
    ]
    bench.say(
        table(["least of all rounds", *(calls[name][0]["version"] for name in libraries)], rows),
        "",
        f"* {step}: {within(us['chainrule'], 90, 'us')}.",
    )
    # the other kinds of data set spend their time in __getitem__
    plain = {name: row["TensorDataset"] for name, row in seconds.items()}
    bench.compare("an epoch of a TensorDataset", plain.pop("chainrule"), plain, 0.2)
    bench.say("")


# ---- every op


def everyday(bench: Bench) -> None:
    bench.section(
        "Every op, from Python",
        "The same line in both libraries: time over PyTorch's, the median of rounds, on about 100, 64 thousand",
        "and 4 million elements (`bench/everyday.py` defines the letters).",
    )
    got = bench.script("everyday.py", *bench.quick_option) if has("torch") else None
    if not got:
        bench.say("Went without: PyTorch is not installed (make oracle)." if not has("torch") else "Failed.", "")
        return
    bench.data["everyday"] = got
    sizes = ("small", "medium", "large")
    failures = {row["call"]: [row[size] for size in sizes if isinstance(row[size], str)] for row in got["rows"]}
    ratios = {row["call"]: [row[size][2] for size in sizes] for row in got["rows"] if not failures[row["call"]]}
    rows = [[f"`{call}`", *(f"{x:.2f}" for x in r)] for call, r in ratios.items()]
    bench.say(table([f"ours / {got['versions'][1]}", *sizes], rows), "")
    for call, why in failures.items():
        if why:
            bench.say(f"* Went without `{call}`: {why[0]}")
    by_size = [statistics.geometric_mean(column) for column in zip(*ratios.values(), strict=True)]
    means = ", ".join(f"{size} {mean:.2f}x" for size, mean in zip(sizes, by_size, strict=True))
    all_of_them = statistics.geometric_mean(x for r in ratios.values() for x in r)
    bench.say(f"* All {len(ratios)}: geometric mean {verdict(all_of_them, 0.8)}; {means}.")
    above = [(x, call, size) for call, r in ratios.items() for size, x in zip(sizes, r, strict=True) if x > 1.5]
    bench.say(f"* Above 1.5x: {len(above) or 'none'}.")
    for x, call, size in sorted(above, reverse=True):
        bench.say(f"  * `{call}` {size} {x:.2f}x: {got['reasons'].get(call, '**no reason is known**')}")
    if not isinstance(got["sort"], str):
        bench.say(f"* A million f32 sorted in {got['sort'][0] / 1e6:.1f} ms: {verdict(got['sort'][2], 0.3)}.")
    bench.say(f"* A sum of 10^8 f32 is wrong by {within(got['sum_error'], 1e-6, 'of the sum of magnitudes')}.", "")


# ---- whole networks and recorded steps


def peers_of(ms: dict[str, float]) -> dict[str, float]:
    """The times of the other libraries."""
    return {library: t for library, t in ms.items() if not library.startswith("chainrule")}


def scripts(bench: Bench) -> None:
    bench.section(
        "Training steps of whole networks",
        f"{bench.turns_words()}; `bench/nets.py`, which is written for PyTorch, runs with PyTorch's",
        "`torch` and with `chainrule.torch`; `bench/nets_jax.py` has the same steps in JAX. Losses of the first",
        "step agree.",
    )
    for isa, got in bench.turns_by_isa("scripts.py").items():
        bench.data[f"scripts, {isa}"] = got
        libraries = max((list(r["ms"]) for r in got["rows"]), key=len)
        shown = lambda ms, library: f"{ms[library]:.1f}" if library in ms else "fails"
        rows = [[r["name"], *(shown(r["ms"], library) for library in libraries)] for r in got["rows"]]
        bench.say(table([f"ms a step, {isa}", *got["versions"]], rows), "")
        for r in got["rows"]:
            ours = min(ms for library, ms in r["ms"].items() if library.startswith("chainrule"))
            name = f"{r['name'].split(',')[0]}, {isa}"
            bench.compare(name, ours, some(r["ms"], "PyTorch compiled") or some(r["ms"], "PyTorch"), 0.8)
        for name, peaks in got["memory_mb"].items():
            bench.peak_memory(f"the step of {name.split(',')[0]}, {isa}", peaks, ("PyTorch",), "chainrule", 1)
        bench.say("")


# Of a step of GPT-2 124M, 4 x 64: 6 for each weight of a product and each token, and attention.
GPT2_FLOPS = 6 * (12 * 12 * 768**2 + 50257 * 768) * 256 + 3 * 12 * 4 * 256 * 64 * 768


def least_of(got: Any) -> dict[str, float]:
    """The rows of `chainrule bench` by their last word, the least of each in ms."""
    return {r["name"].split()[-1]: r["min_ms"] for r in got["rows"]} if got else {}


def replays(bench: Bench) -> None:
    """Recorded steps of the program, in turns with the same step op by op, and with a loop of multiply-adds."""
    bench.section(
        "Replays",
        "Recorded steps of `chainrule bench`, the least of three runs in turn: f32, gradients clipped at 1, AdamW.",
        "Recording: the step while it is recorded, and making the plan. Share: of a loop of multiply-adds.",
    )
    rows: list[list[str]] = []
    bars: list[str] = []
    for isa, env in isas().items():
        for case in ("char", "char6", "gpt2"):
            runs: dict[str, list[float]] = {"eager": [], "step": [], "recording": [], "peak": []}
            for _ in range(bench.rounds):
                eager, recorded = (least_of(bench.ours(case, *words, env=env)) for words in ((), ("--compile",)))
                loop = bench.program("products", "--json", "--quick", bench.threads, env=env)
                if not eager or not recorded or not loop:
                    bench.say("Failed.", "")
                    return
                runs["eager"].append(eager["step"])
                runs["step"].append(recorded["step"])
                runs["recording"].append(recorded["recording"])
                runs["peak"].append(-max(r["peak"] for r in loop["rows"] if "peak" in r))
            best = {name: min(values) for name, values in runs.items()}
            share = GPT2_FLOPS / (1e6 * best["step"]) / -best["peak"] if case == "gpt2" else None
            numbers = [f"{best[name]:.1f}" for name in ("eager", "step", "recording")]
            rows.append([f"{isa}, {case}", *numbers, "" if share is None else percent(share)])
            bars.append(f"* {isa}, {case}, recording: {verdict(best['recording'] / best['eager'], 3)} a step op by op.")
            if share is None:
                bars.append(f"* {isa}, {case}, against op by op: {verdict(best['step'] / best['eager'], 0.8)}.")
            else:
                bar = 0.85 if isa == "AVX2" else 0.8
                bars.append(reached(f"{isa}, {case}, share of the peak", share, bar, "%"))
    bench.say(table(["ms", "op by op", "replay", "recording", "share"], rows), "", *bars)
    cost = bench.program("plan", "--json")
    if cost:
        each = cost["plan_ns"]
        what = f"* A replay of {cost['kernels']} sums of two numbers, with the sums"
        bench.say(f"{what}: {within(each['sums'], 60, 'ns')} each; products of 1 x 1: {each['products of 1 x 1']} ns.")
    bench.say("")


def compile(bench: Bench) -> None:
    bench.section(
        "Recorded steps",
        f"{bench.turns_words()}, from Python: the same lines op by op and compiled (`cr.compile`,",
        "`torch.compile`, `jax.jit`). Elementwise steps are of 4 M elements; `bench/compile.py` has the lines.",
    )
    bench.data["compile"] = by_isa = bench.turns_by_isa("compile.py")
    for isa, got in by_isa.items():
        compiled_steps(bench, isa, got)
    ours = "chainrule compiled"
    for k, when in enumerate(("from the start", "of the steps that follow the first five")):
        peaks = {library: both[k] / 1e6 for got in list(by_isa.values())[:1] for library, both in got["memory"].items()}
        if peaks:
            bench.peak_memory(f"GPT-2, {when}", peaks, ("torch", "torch compiled"), ours, 0.8)
    bench.say(
        "",
        "The first two calls of a compiled function run op by op, so all gradients exist beside the moments once.",
        "",
    )


def compiled_steps(bench: Bench, isa: str, got: Any) -> None:
    number = lambda ms: "" if ms is None else f"{ms:.1f}" if ms > 100 else f"{ms:.3f}"
    rows = [[r["name"], *(number(r["ms"].get(library)) for library in got["rows"][0]["ms"])] for r in got["rows"]]
    bench.say(table([f"{isa}, ms", *got["versions"]], rows), "")
    ours, elementwise = "chainrule compiled", []
    for r in got["rows"]:
        ms, name, peers = r["ms"], r["name"], peers_of(r["ms"])
        moons, gpt = name.startswith("two moons"), name.startswith("GPT-2")
        if moons or gpt:
            ratio = ms[ours] / ms["chainrule"]
            bench.say(f"* {name}, against the step op by op: {verdict(ratio, 0.5 if moons else 1)}.")
        elif peers:
            elementwise.append(ms[ours] / min(peers.values()))
        bench.compare(name, ms[ours], peers, 0.2 if moons else 1)
    if elementwise:
        mean = statistics.geometric_mean(elementwise)
        bench.say(f"* Elementwise steps, geometric mean against the best peer of each: {mean:.2f}x the time.")
    bench.say("")
