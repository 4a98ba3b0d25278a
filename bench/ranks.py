"""Many processes: the sum over all of them, and training steps of GPT-2 124M.

    all-reduce   500 MB of float32: in the fixed order, by the same MPI's MPI_Allreduce, and by PyTorch's gloo
    train        steps of chainrule train, two microbatches: 1 rank x 2 threads, 2 ranks x 1 thread, these with
                 --shard-optimizer, and with --weights bf16 too; the most bytes that tensors of rank 0 held
    step         the same steps in Python: DistributedDataParallel, then ZeroRedundancyOptimizer too

Starts itself under mpirun of build/mpi (make build/.for-mpi).  Each figure is the least of some rounds, in seconds; all
lines of a part run one after the other in each round.

use: python bench/ranks.py [--quick] [--only all-reduce|train|step] [--ranks N...] [--rounds N]"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release")).resolve()
MPI = ROOT / "build" / "mpi" / "mpich"
LIBRARY = MPI / "lib" / "libmpi.so.12"  # MPICH's own ABI, whose handles are below
WORLD, FLOAT, SUM, IN_PLACE = 0x44000000, 0x4C00040A, 0x58000003, ctypes.c_void_p(-1)
sys.path.insert(0, str(BUILD / "python"))


def launch(ranks: int, *words: object) -> list[dict[str, Any]]:
    """The lines that rank 0 of this script prints under mpirun."""
    environment = {**os.environ, "VIRTUAL_ENV": str(MPI), "CHAINRULE_MPI": str(LIBRARY)}
    command = [str(MPI / "bin" / "mpirun"), "-n", str(ranks), sys.executable, __file__, *map(str, words)]
    output = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def least(rounds: int, timed: dict[str, Callable[[], None]], meet: Callable[[], None]) -> dict[str, float]:
    """Seconds of each, from one meeting of all ranks to the next; the first round does not count."""
    found = dict.fromkeys(timed, float("inf"))
    for k in range(rounds + 1):
        for name, f in timed.items():
            meet()
            begun = time.perf_counter()
            f()
            meet()
            if k:
                found[name] = min(found[name], time.perf_counter() - begun)
    return found


def all_reduce(rounds: int, megabytes: int) -> None:
    import chainrule as cr
    import chainrule.distributed as dist

    cr.set_num_threads(1)
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    n = megabytes * 250_000
    x = cr.ones(n)
    mpi = ctypes.CDLL(str(LIBRARY))
    timed = {
        "fixed order": lambda: dist.all_reduce(x),
        "MPI_Allreduce": lambda: mpi.MPI_Allreduce(IN_PLACE, ctypes.c_void_p(x.data_ptr()), n, FLOAT, SUM, WORLD),
    }
    try:
        import torch
        import torch.distributed as theirs

        torch.set_num_threads(1)
        port = 20000 + os.getppid() % 20000  # of mpirun's: the same on all ranks
        theirs.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
        y = torch.ones(n)
        timed["gloo"] = lambda: theirs.all_reduce(y)
    except ImportError:
        pass
    found = least(rounds, timed, dist.barrier)  # type: ignore[arg-type]
    if rank == 0:
        print(json.dumps({"part": f"all-reduce {megabytes} MB", "ranks": size, **found}), flush=True)


def step(rounds: int, small: bool) -> None:
    import chainrule as cr
    import chainrule.distributed as dist
    from chainrule.models import GPT
    from chainrule.nn.parallel import DistributedDataParallel
    from chainrule.optim import AdamW, ZeroRedundancyOptimizer

    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    cr.set_num_threads(2 // size)
    cr.manual_seed(1)
    layers, width, vocabulary = (2, 64, 997) if small else (12, 768, 50257)
    model = GPT(vocabulary, 64, layers, width // 32 if small else 12, width)
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True)
    plain = AdamW(model.parameters(), lr=1e-4)
    sharded = ZeroRedundancyOptimizer(model.parameters(), AdamW, lr=1e-4) if size > 1 else None
    ids = cr.randint(vocabulary, (2, 4, 65))

    def once(optimizer: Any) -> None:
        optimizer.zero_grad()
        for k in range(2):
            if k % size != rank:
                continue
            x, y = ids[k, :, :-1], ids[k, :, 1:]
            if k + size < 2:
                with wrapped.no_sync():
                    cr.nn.functional.cross_entropy(wrapped(x).flatten(0, 1), y.flatten()).backward()
            else:
                cr.nn.functional.cross_entropy(wrapped(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()

    timed: dict[str, Callable[[], None]] = {f"{size} x {2 // size} threads": lambda: once(plain)}
    if sharded:
        timed["sharded"] = lambda: once(sharded)
    found = least(rounds, timed, dist.barrier)
    if rank == 0:
        print(json.dumps({"part": "GPT-2 124M step", "ranks": size, **found}), flush=True)


def train(rounds: int, small: bool) -> None:
    """Seconds of a step: the least time between two lines of run.jsonl."""
    layers, width, vocabulary = (2, 64, 997) if small else (12, 768, 50257)
    with tempfile.TemporaryDirectory(prefix="chainrule-") as folder:
        text = Path(folder) / "text"  # a token is a character: each once
        characters = [*map(chr, range(0x20000, 0x2A000)), *map(chr, range(0x4E00, 0x9F00))][:vocabulary]
        random.Random(1).shuffle(characters)
        text.write_text("".join(characters), encoding="utf-8")
        sizes = ["--layers", layers, "--heads", width // 32 if small else 12, "--width", width, "--context", 64]
        options = ["--batch", 4, "--microbatches", 2, "--steps", 6, "--eval-every", 0, "--save-every", 0, "--sample", 0]
        plain = [BUILD / "chainrule", "train", "--data", text, "--out", folder, "--overwrite", *sizes, *options]
        mpirun = [MPI / "bin" / "mpirun", "-n", 2]
        commands = {
            "1 x 2 threads": [*plain, "--threads", 2],
            "2 x 1 threads": [*mpirun, *plain, "--threads", 1],
            "sharded": [*mpirun, *plain, "--threads", 1, "--shard-optimizer"],
            "sharded, bf16 weights": [*mpirun, *plain, "--threads", 1, "--shard-optimizer", "--weights", "bf16"],
        }
        found: dict[str, float] = dict.fromkeys(commands, float("inf"))
        exposed, peak = dict(found), dict.fromkeys(commands, 0)
        for _ in range(rounds):
            for name, command in commands.items():
                environment = {**os.environ, "VIRTUAL_ENV": str(MPI), "CHAINRULE_MPI": str(LIBRARY)}
                subprocess.run(list(map(str, command)), env=environment, stdout=subprocess.DEVNULL, check=True)
                lines = [*map(json.loads, (Path(folder) / "run.jsonl").read_text().splitlines())]
                peak[name] = next(line["peak_bytes"] for line in lines if line.get("event") == "finish")
                steps = [line for line in lines if "loss" in line]
                pairs = list(itertools.pairwise(steps))[1:]  # the second step is recorded
                found[name] = min(found[name], *(b["seconds"] - a["seconds"] for a, b in pairs))
                exposed[name] = min(exposed[name], *(b.get("exposed_seconds", 0) for _, b in pairs))
        table = vocabulary * width  # the tied embedding, whose gradient comes last
        line = {"part": "chainrule train", "ranks": 2, "last": table, **found, "exposed": exposed, "peak": peak}
        print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["all-reduce", "train", "step"])
    parser.add_argument("--ranks", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--inside", choices=["all-reduce", "step"], help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.inside == "all-reduce":
        return all_reduce(o.rounds, 8 if o.quick else 500)
    if o.inside == "step":
        return step(o.rounds, o.quick)
    if not (MPI / "bin" / "mpirun").exists():
        raise SystemExit("bench/ranks.py: no mpirun in build/mpi (make build/.for-mpi)")
    words = ["--rounds", o.rounds, *(["--quick"] if o.quick else [])]
    if o.only in (None, "all-reduce"):
        for ranks in o.ranks:
            print(*map(json.dumps, launch(ranks, "--inside", "all-reduce", *words)), sep="\n", flush=True)
    if o.only in (None, "train"):
        train(o.rounds, o.quick)
    if o.only in (None, "step"):
        for ranks in (1, 2):
            print(*map(json.dumps, launch(ranks, "--inside", "step", *words)), sep="\n", flush=True)


if __name__ == "__main__":
    main()
