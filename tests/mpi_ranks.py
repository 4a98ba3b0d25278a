"""Starts the tests and the program under mpirun of MPICH and Open MPI, and as torchrun does: the same bits for 1 to 8
processes, on the cpu and on simulated GPUs.

The packages are in build/mpi (make build/.for-mpi); without them this is skipped.

use: python tests/mpi_ranks.py          CHAINRULE_BUILD: where the program is (build/release)
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes.util import find_library
from pathlib import Path
from random import Random
from typing import Any

try:
    import yaml  # type: ignore[import-untyped,unused-ignore]
except ImportError:
    yaml = None

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release")).resolve()
PROGRAM, UNIT = BUILD / "chainrule", BUILD / "tests" / "test_dist"
SCRIPT = [sys.executable, ROOT / "tests" / "mpi_python.py"]
MPI = ROOT / "build" / "mpi"
ENGINES = {"mpich": [], "openmpi": ["--allow-run-as-root", "--oversubscribe"]}
LAUNCHER = re.compile(r"^((PMI|PMIX|OMPI|PRTE|HYDRA|MPI|MASTER)_|(RANK|WORLD_SIZE|LOCAL_RANK)$)")
sys.path.insert(0, str(ROOT / "tests" / "cudasim"))
from environment import simulated  # noqa: E402

GPUS = simulated(BUILD)  # empty: this build has no simulated GPU
# Under the thread sanitizer: without UCX's hooks into memory, and without PMIx's shared memory at a fixed address.
SANITIZED = {"UCX_MEM_EVENTS": "no", "UCX_TLS": "tcp,self", "PMIX_MCA_gds": "hash"} if "tsan" in BUILD.name else {}
TEXT = "".join(f"line {i}: the quick brown fox & the lazy dog {i * i}\n" for i in range(60))
OPTIONS = "--data text.txt --layers 1 --heads 2 --width 16 --context 8 --batch 2 --warmup 2 --sample 5".split()
LONG = ["train", *OPTIONS, "--steps", "1000000", "--save-every", "2"]
TRAIN = ["train", *OPTIONS, "--steps", "6", "--dropout", "0.1", "--threads", "1"]


def environment(engine: str | None, **more: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not LAUNCHER.match(name)}
    if engine:
        home = MPI / engine
        plain |= {"VIRTUAL_ENV": str(home), "PATH": f"{home / 'bin'}:{plain.get('PATH', '')}"}
    return {**plain, **GPUS, **SANITIZED, "CUDASIM_DEVICES": "8", "PYTHONPATH": str(BUILD / "python"), **more}


def launch(engine: str | None, ranks: int, *command: object, flags: Sequence[str] = ()) -> list[str]:
    words = [str(word) for word in command]
    if not engine:
        return words
    more = ENGINES.get(engine, ENGINES["openmpi"])
    return [str(MPI / engine / "bin" / "mpirun"), *more, *flags, "-n", str(ranks), *words]


def run(
    folder: Path,
    engine: str | None,
    ranks: int,
    *command: object,
    fails: bool = False,
    flags: Sequence[str] = (),
    **more: str,
) -> str:
    """What the launcher and then each rank printed; ranks write files of their own, because launchers mix lines."""
    with tempfile.TemporaryDirectory() as outputs:
        script = f'exec "$@" >{outputs}/${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}} 2>&1'
        words = launch(engine, ranks, *(("sh", "-c", script, "sh") if engine else ()), *command, flags=flags)
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment(engine, **more),
            text=True,
            errors="replace",  # a sample of bytes
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        threads = ""
        try:
            output, _ = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            threads = subprocess.run(
                ["ps", "-eLo", "pid,lwp,stat,time,wchan:30,comm"], capture_output=True, text=True
            ).stdout
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        for rank in sorted(Path(outputs).iterdir(), key=lambda path: int(path.name)):
            output += rank.read_text(errors="replace")
    waits = "\n".join(line for line in threads.splitlines() if "chainrule" in line)
    assert not threads, f"{' '.join(words)}: no end after 120 s\n{output}\n{waits}"
    assert (process.returncode != 0) == fails, f"{' '.join(words)}: exit {process.returncode}\n{output}"
    return output


@contextmanager
def started(
    folder: Path, engine: str, ranks: int, *command: object, flags: Sequence[str] = (), **more: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A run whose ranks write their process ids into pid.RANK, and their output into output.txt."""
    script = 'echo $$ > pid.${PMI_RANK:-$OMPI_COMM_WORLD_RANK}; exec "$@"'
    for old in folder.glob("pid.*"):
        old.unlink()
    words = launch(engine, ranks, "sh", "-c", script, "sh", *command, flags=flags)
    with open(folder / "output.txt", "w") as output:
        process = subprocess.Popen(
            words, cwd=folder, env=environment(engine, **more), stdout=output, stderr=output, start_new_session=True
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def await_file(folder: Path, process: subprocess.Popen[bytes], path: Path) -> str:
    limit = time.monotonic() + 60
    while not (path.exists() and path.read_text().strip()):
        assert process.poll() is None and time.monotonic() < limit, (folder / "output.txt").read_text()
        time.sleep(0.01)
    return path.read_text()


def kill(folder: Path, rank: int) -> bool:
    """Was it alive?"""
    try:
        os.kill(int((folder / f"pid.{rank}").read_text()), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def free_port() -> int:
    """A port whose successor, which the ranks use, is free too."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("", port + 1))
            except OSError:
                continue
            return port


def torchrun(
    folder: Path, ranks: int, *command: object, size: int | None = None, port: int | None = None, fails: bool = False,
    only: dict[int, dict[str, str]] | None = None, **more: str,
) -> str:  # fmt: skip
    """Starts processes with torchrun's variables; what all have printed.  only: variables of single ranks."""
    own = {"WORLD_SIZE": str(size or ranks), "MASTER_ADDR": "localhost", "MASTER_PORT": str(port or free_port())}
    started = [
        subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            env=environment(None, **{"RANK": str(r), "LOCAL_RANK": str(r), **own, **more, **(only or {}).get(r, {})}),
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        for r in range(ranks)
    ]
    limit = time.monotonic() + 120
    output = ""
    try:
        for process in started:
            output += process.communicate(timeout=max(limit - time.monotonic(), 1))[0]
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    codes = [process.returncode for process in started]
    assert all((code != 0) == fails for code in codes), f"{command}: exits {codes}\n{output}"
    return output


def tensors_of(path: Path) -> dict[str, bytes]:
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {
        f"{path.name} {name}": data[begin + row["data_offsets"][0] : begin + row["data_offsets"][1]]
        for name, row in header.items()
    }


def bits(run_folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """The tensors of the checkpoint, without the metadata, which has the time; losses and norms."""
    tensors: dict[str, bytes] = {}
    for name in ("weights.safetensors", "optimizer.safetensors"):
        tensors |= tensors_of(run_folder / "checkpoint" / name)
    log = [json.loads(line) for line in (run_folder / "run.jsonl").read_text().splitlines()]
    kept = ("step", "loss", "norm", "val_loss")
    return tensors, [str([line.get(key) for key in kept]) for line in log if "event" not in line]


def unit_tests(folder: Path) -> None:
    seen: dict[str, set[str]] = defaultdict(set)
    for engine in (None, *ENGINES):
        for ranks in (2, 3, 4, 6, 8) if engine else (1,):
            some = ["bits_do_not", "world_closes"] if ranks > 4 else []
            on_gpus = (engine, ranks) in ((None, 1), ("mpich", 4), ("openmpi", 3))
            more: Any = {} if on_gpus else {"CHAINRULE_CUDA": "off"}
            output = run(folder, engine, ranks, UNIT, *some, **more)
            assert len(re.findall(r"^result: \d+ passed, 0 failed", output, re.MULTILINE)) == ranks, output
            for m, value in re.findall(r"^bits (\w+) (\w+)$", output, re.MULTILINE):
                seen[m].add(value)
    for ranks in (2, 3, 4) if GPUS else ():
        output = torchrun(folder, ranks, UNIT)
        assert len(re.findall(r"^result: \d+ passed, 0 failed", output, re.MULTILINE)) == ranks, output
        for m, value in re.findall(r"^bits (\w+) (\w+)$", output, re.MULTILINE):
            seen[m].add(value)
    names = {"4", "6", "8", "muon", "bf16_4", "bf16_6", "bf16_muon", *(("gpu", "bf16_gpu") if GPUS else ())}
    assert set(seen) == names, seen
    assert all(len(values) == 1 for values in seen.values()), f"bits differ: {dict(seen)}"


def program(folder: Path) -> None:
    train = [PROGRAM, *TRAIN, "--microbatches", 6]
    run(folder, None, 1, *train, "--out", "one")
    expected = bits(folder / "one")
    for engine in ENGINES:
        for ranks in (2, 4):
            output = run(folder, engine, ranks, *train, "--out", f"{engine}{ranks}")
            assert output.count("validation loss") == 1, f"other ranks printed:\n{output}"
            assert bits(folder / f"{engine}{ranks}") == expected, f"other bits: {engine}, {ranks} ranks"


def gpus(folder: Path) -> None:
    """A GPU for each rank: the bits of one process, whichever stream of the simulated GPU runs ahead."""
    if not GPUS:
        print("skipped gpus: no simulated GPU in this build")
        return
    train = [PROGRAM, *TRAIN, "--microbatches", 4, "--device", "gpu"]
    run(folder, None, 1, *train, "--out", "one")
    expected = bits(folder / "one")
    for streams in ("0", "1", "2", "4"):
        torchrun(folder, 2, *train, "--out", f"eager{streams}", CUDASIM_EAGER=streams)
        assert bits(folder / f"eager{streams}") == expected, f"other bits: CUDASIM_EAGER={streams}"
    for engine in ENGINES:
        run(folder, engine, 3, *train, "--out", engine, "--stop-at", 3)
        torchrun(folder, 2, PROGRAM, "train", "--resume", engine)
        assert bits(folder / engine) == expected, f"other bits: {engine}"
    torchrun(folder, 3, *train, "--out", "parts", "--shard-optimizer", "--stop-at", 2)
    assert len(list((folder / "parts" / "checkpoint").glob("optimizer-*-of-00003*"))) == 3
    torchrun(folder, 2, PROGRAM, "train", "--resume", "parts", "--shard-optimizer", CUDASIM_EAGER="3")
    run(folder, None, 1, PROGRAM, "checkpoint", "merge", "parts")
    assert bits(folder / "parts") == expected, "other bits: --shard-optimizer"
    output = torchrun(folder, 2, PROGRAM, "info")
    assert re.search(r"processes 2, by NCCL 2.23.4 on cuda:1; this is rank 1", output), output
    output = run(folder, "mpich", 2, *train[:-1], "cuda:0", "--out", "bad", fails=True)
    assert re.search(r"\[parallel_new\] ranks 0 and 1 on \S+ have the same GPU, cuda:0: each rank", output), output
    output = torchrun(folder, 2, *train, "--out", "bad", fails=True, CUDASIM_DEVICES="1")
    assert "LOCAL_RANK 1: [cuda] device 1 does not exist: 1 device found" in output, output
    assert re.search(r"rank 1 on \S+ cannot be linked, and says why", output), output


def gpus_fail(folder: Path) -> None:
    """A call of NCCL fails, a message fails, a process vanishes: all ranks end soon, and one says why."""
    if not GPUS:
        print("skipped gpus_fail: no simulated GPU in this build")
        return
    train = [PROGRAM, *TRAIN, "--microbatches", 3, "--device", "gpu", "--overwrite", "--out", "bad"]
    for fault, text in {
        "link:1": r"NCCL error 2, unhandled system error",
        "link:9": r"NCCL error 2, unhandled system error",
        "message:2": r"NCCL error 1, unhandled cuda error",
        "message:40": r"NCCL error 1, unhandled cuda error",
        "message:43": r"NCCL error 1, unhandled cuda error",  # of the question whether to stop
        "vanish:3": r"rank 1 on \S+ was lost: its connection ended|NCCL error 6, remote process exited",
        "vanish:40": r"rank 1 on \S+ was lost.*: its connection ended",
    }.items():
        begun = time.monotonic()
        more: Any = {"CHAINRULE_PATIENCE": "0.5"} if fault == "link:1" else {}
        output = torchrun(folder, 3, *train, fails=True, only={1: {"CUDASIM_FAIL": fault}}, TMPDIR=str(folder), **more)
        took = time.monotonic() - begun
        assert re.search(text, output) and took < 15, f"{fault}: {took:.1f} s\n{output}"
    output = torchrun(folder, 2, *train, fails=True, CHAINRULE_NCCL="off")
    assert "[world_open] CHAINRULE_NCCL=off" in output, output
    output = torchrun(folder, 2, *train, size=3, fails=True, CHAINRULE_PATIENCE="0.3")
    assert "1 of 3 ranks have not connected to port" in output and "the first of them rank 2" in output, output
    wrong = {1: {"MASTER_ADDR": "host.invalid"}}
    output = torchrun(folder, 2, *train, fails=True, only=wrong, CHAINRULE_PATIENCE="0.3")
    assert "rank 1 cannot connect to rank 0 at host.invalid, port" in output, output
    output = torchrun(folder, 2, *train, fails=True, CHAINRULE_CUDA="off", CHAINRULE_PATIENCE="0.3")
    assert "RANK and WORLD_SIZE name 2 processes, which need a GPU each" in output, output
    with socket.socket() as taken:
        port = free_port()
        taken.bind(("", port + 1))
        taken.listen()
        output = torchrun(folder, 2, *train, port=port, fails=True, CHAINRULE_PATIENCE="0.3")
    assert f"rank 0 cannot listen at port {port + 1} (MASTER_PORT + 1): Address already in use" in output, output


@contextmanager
def as_torchrun(
    folder: Path, *command: object, before: Sequence[Sequence[object]] = ((), ()), **more: str
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A rank for each prefix of the command, with output in rank-R.txt."""
    own = {"WORLD_SIZE": str(len(before)), "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())} | more
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        for r, prefix in enumerate(before):
            with open(folder / f"rank-{r}.txt", "w") as output:
                ranks.append(
                    subprocess.Popen(
                        [str(word) for word in (*prefix, *command)],
                        cwd=folder,
                        env=environment(None, **({"RANK": str(r), "LOCAL_RANK": str(r)} | own)),
                        stdout=output,
                        stderr=output,
                        start_new_session=True,
                    )
                )
        yield ranks
    finally:
        for process in ranks:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def gpus_stopped(folder: Path) -> None:
    """A rank with a GPU that stops without dying: the others end, and name it."""
    if not GPUS:
        print("skipped gpus_stopped: no simulated GPU in this build")
        return
    for victim, more in ((1, []), (0, ["--shard-optimizer"])):
        name = f"run{victim}"
        train = [PROGRAM, *LONG, "--microbatches", 3, "--device", "gpu", "--out", name, *more]
        with as_torchrun(folder, *train, before=((), (), ()), CHAINRULE_PATIENCE="2", CUDASIM_PATIENCE="4") as ranks:
            await_file(folder, ranks[0], folder / name / "checkpoint" / "state.json")
            begun = time.monotonic()
            os.kill(ranks[victim].pid, signal.SIGSTOP)
            for r, process in enumerate(ranks):
                assert r == victim or process.wait(timeout=30) != 0
            took = time.monotonic() - begun
        output = "".join((folder / f"rank-{r}.txt").read_text() for r in range(3) if r != victim)
        assert re.search(rf"rank {victim} on \S+ was lost after step \d+: silent", output) and took < 15, (took, output)


@contextmanager
def hosts() -> Iterator[list[list[str]]]:
    """Prefixes of commands on two hosts: namespaces of network and name, with a cable between them."""
    holders: list[subprocess.Popen[bytes]] = []
    try:
        for i in (1, 2):
            words = ["unshare", "--net", "--uts", "sh", "-c", f"hostname 10.77.0.{i} && exec sleep 300"]
            holders.append(subprocess.Popen(words, stderr=subprocess.DEVNULL))
        time.sleep(0.5)
        a, b = (["nsenter", "--target", str(holder.pid), "--net", "--uts"] for holder in holders)
        first, second = (str(holder.pid) for holder in holders)
        words = ["ip", "link", "add", "cable", "netns", first, "type", "veth", "peer", "netns", second]
        commands = [[*words, "name", "cable"]]
        for i, host in ((1, a), (2, b)):
            commands += [[*host, "ip", "addr", "add", f"10.77.0.{i}/24", "dev", "cable"]]
            commands += [[*host, "ip", "link", "set", device, "up"] for device in ("cable", "lo")]
        for command in commands:
            subprocess.run(command, check=True, capture_output=True)
        yield [a, b]
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


def cut(a: Sequence[str], ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    """The cable is cut: all end, soon, and say so."""
    subprocess.run([*a, "ip", "link", "set", "cable", "down"], check=True)
    begun = time.monotonic()
    codes = [process.wait(timeout=30) for process in ranks]
    took = time.monotonic() - begun
    assert all(codes) and took < 15, (codes, took)
    subprocess.run([*a, "ip", "link", "set", "cable", "up"], check=True)


def two_hosts(folder: Path) -> None:
    """Ranks on two hosts train together; the cable is cut: both sides name the other one, and end.  Under MPI, whose
    bytes pass through shared memory here, only the beats use the cable."""
    lost = ((0, r"rank 1 on 10\.77\.0\.2"), (1, r"rank 0 on 10\.77\.0\.1"))
    state = Path("checkpoint") / "state.json"
    try:
        with hosts() as (a, b):
            train = [PROGRAM, *LONG, "--microbatches", 2]
            script = f'if [ $PMI_RANK = 0 ]; then exec {" ".join(a)} "$@"; else exec {" ".join(b)} "$@"; fi'
            words = ["sh", "-c", script, "sh", *train, "--out", "mpi"]
            with started(folder, "mpich", 2, *words, CHAINRULE_PATIENCE="2") as process:
                await_file(folder, process, folder / "mpi" / state)
                cut(a, [process])
            output = (folder / "output.txt").read_text()
            assert any(re.search(f"{other} was lost after step \\d+: silent", output) for _, other in lost), output
            if not GPUS:
                print("skipped two_hosts by NCCL: no simulated GPU in this build")
                return
            address = {"MASTER_ADDR": "10.77.0.1", "LOCAL_RANK": "0", "CHAINRULE_PATIENCE": "2"}
            with as_torchrun(folder, *train, "--device", "gpu", "--out", "run", before=(a, b), **address) as ranks:
                await_file(folder, ranks[0], folder / "run" / state)
                cut(a, ranks)
            for r, other in lost:
                output = (folder / f"rank-{r}.txt").read_text()
                assert re.search(rf"{other} was lost after step \d+: silent", output), output
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        print(f"skipped two_hosts: network namespaces are not permitted here ({error})")


def failing_mpi(folder: Path) -> dict[str, str]:
    """Variables for MPICH behind tests/mpi_fails.c."""
    library = folder / "libmpi_abi.so"
    source = str(ROOT / "tests" / "mpi_fails.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), source, "-ldl"], check=True)
    real = str(MPI / "mpich" / "lib" / "libmpi_abi.so.1")
    return {"CHAINRULE_MPI": str(library), "FAILS_REAL": real, "FAILS_ON": "1", "FAILS_AT": "0"}


def slow_gather(folder: Path) -> None:
    """New weights that arrive late: readers of each parameter wait for its bucket, and the bits are those of one
    process.  A rank that is lost meanwhile is named."""
    slow: Any = {**failing_mpi(folder), "FAILS_SLOW": "40", "CHAINRULE_CUDA": "off"}
    alone = run(folder, None, 1, UNIT, "bits_do_not", CHAINRULE_CUDA="off")
    expected = set(re.findall(r"^bits .*$", alone, re.MULTILINE))
    for ranks in (2, 3):
        output = run(folder, "mpich", ranks, UNIT, "weights_arrive", "world_closes", **slow)
        assert output.count("result: 2 passed, 0 failed, 0 skipped") == ranks, output
        output = run(folder, "mpich", ranks, UNIT, "bits_do_not", "world_closes", **{**slow, "FAILS_SLOW": "1"})
        assert set(re.findall(r"^bits .*$", output, re.MULTILINE)) == expected, output
    for number, rank in ((signal.SIGKILL, 1), (signal.SIGSTOP, 1), (signal.SIGKILL, 0)):
        name = f"{number.name}-{rank}"
        output, took = lose(folder, "mpich", name, number, rank, "--shard-optimizer", **{**slow, "FAILS_SLOW": "500"})
        ours = re.search(rf"rank {rank} on \S+ was lost after step \d+: (silent|its connection ended)", output)
        assert ours and took < 11, f"{name}: {took:.1f} s\n{output}"


def mpi_fails(folder: Path) -> None:
    """Call number k of MPI fails on one rank: all end soon, and a message says why."""
    train = [PROGRAM, *TRAIN, "--microbatches", 3, "--shard-optimizer", "--overwrite", "--out", "run"]
    more: Any = failing_mpi(folder)
    del more["FAILS_AT"]
    run(folder, "mpich", 2, *train, FAILS_AT="0", **more)
    output = run(folder, "mpich", 2, *train, fails=True, FAILS_AT="0", FAILS_FLIP="1000", **more)
    assert "rank 1 received other weights than rank 0 sent" in output, output
    # before call 4 a rank is not known to the launcher, which waits for it
    calls = range(4, 80) if os.environ.get("CHAINRULE_TEST_FULL") else (4, 5, 6, 9, 14, 21, 30, 45, 70)
    for k in calls:
        begun = time.monotonic()
        output = run(folder, "mpich", 2, *train, fails=True, FAILS_AT=str(k), **more)
        took = time.monotonic() - begun
        assert re.search(r"rank 1 on \S+: MPI error 16", output) and took < 20, f"call {k}: {took:.1f} s\n{output}"
    ends = set[str]()
    for k in (25, *range(34, 48)):  # in the making, then the calls of more than a step
        output = run(
            folder, "mpich", 2, UNIT, "never_arrive", fails=True, FAILS_AT=str(k), CHAINRULE_CUDA="off", **more
        )
        ends |= set(re.findall(r"^rank 1 (.*?):", output, re.MULTILINE))
    assert {"was refused", "failed in a step"} <= ends <= {"was refused", "failed in a step", "did not begin"}, ends
    # the launcher does not see the end of rank 1, whose shell outlives it: rank 0 waits for it in the opening
    script = 'if [ $PMI_RANK = 1 ]; then "$@"; sleep 25; else exec "$@"; fi'
    for k in (4, 5, 9):
        begun = time.monotonic()
        words = ["sh", "-c", script, "sh", *train]
        output = run(folder, "mpich", 2, *words, fails=True, FAILS_AT=str(k), CHAINRULE_PATIENCE="0.5", **more)
        took = time.monotonic() - begun
        late = r"rank 0 on \S+: not all ranks have opened the world within 4 s \(8 x CHAINRULE_PATIENCE\)"
        assert re.search(late, output) and took < 15, f"call {k}: {took:.1f} s\n{output}"
    # killed before the first step, in it, between two, and in the last save
    for k, step in ((20, ""), (60, ""), (100, " after step 3"), (138, " after step 6")):
        begun = time.monotonic()
        output = run(folder, "mpich", 2, *words, fails=True, FAILS_AT=str(k), FAILS_KILL="1", **more)
        took = time.monotonic() - begun
        assert re.search(rf"rank 1 on \S+ was lost{step}: its connection", output) and took < 11, f"call {k}: {output}"


def variants(folder: Path) -> None:
    """Mixed precision, another optimizer, more threads, and one microbatch for each rank."""
    kinds = (["--dtype", "bf16"], ["--optimizer", "muon"], ["--threads", "2"], ["--clip", "0"])
    for i, more in enumerate(kinds):
        train = [PROGRAM, *(TRAIN[:-2] if more[0] == "--threads" else TRAIN), "--microbatches", 3, *more]
        run(folder, None, 1, *train, "--out", f"one{i}")
        run(folder, "mpich", 3, *train, "--out", f"three{i}")
        assert bits(folder / f"three{i}") == bits(folder / f"one{i}"), f"other bits: {more}"


def accumulated(folder: Path) -> None:
    """--accumulate adds in the order of --microbatches: the same weights, as a recorded step and as it is."""
    train = [PROGRAM, "train", *OPTIONS, "--steps", 5, "--clip", 0, "--threads", 1]
    for m in (1, 2, 3, 4, 6, 7, 8):
        run(folder, None, 1, *train, "--microbatches", m, "--out", f"many{m}")
        run(folder, None, 1, *train, "--accumulate", m, "--out", f"plan{m}")
        run(folder, None, 1, *train, "--accumulate", m, "--no-compile", "--out", f"plain{m}")
        for name in ("plan", "plain"):
            assert bits(folder / f"{name}{m}")[0] == bits(folder / f"many{m}")[0], f"other weights: {name}, {m} batches"


def gpus_option(folder: Path) -> None:
    """--gpus N: a process for each GPU; one that fails is named; Ctrl-C stops all after one step."""
    if not GPUS:
        print("skipped gpus_option: no simulated GPU in this build")
        return
    train = [PROGRAM, *TRAIN, "--microbatches", 4]
    run(folder, None, 1, *train, "--device", "gpu", "--out", "one")
    output = run(folder, None, 1, *train, "--gpus", 3, "--out", "three")
    assert output.count("validation loss") == 1 and bits(folder / "three") == bits(folder / "one"), output
    bad = [*train, "--out", "bad", "--overwrite"]
    output = run(folder, None, 1, *bad, "--gpus", 3, fails=True, CUDASIM_DEVICES="2", CHAINRULE_PATIENCE="0.3")
    assert re.search(r"rank 2 of --gpus 3 \(process \d+\) failed, with exit code 1", output), output
    assert "device 2 does not exist: 2 devices found" in output, output
    output = run(folder, None, 1, *bad, "--gpus", 5, fails=True)
    assert "--gpus 5 needs --microbatches of at least 5" in output, output
    output = run(folder, None, 1, *bad, "--gpus", 2, "--device", "cpu", fails=True)
    assert "--device cannot be cpu" in output, output
    for number, text in ((signal.SIGKILL, r"was killed by signal 9"), (signal.SIGTERM, r"stopped after step \d+ of")):
        name = number.name
        words = [str(w) for w in (PROGRAM, *LONG, "--microbatches", 2, "--gpus", 2, "--out", name)]
        with open(folder / "output.txt", "w") as out:
            process = subprocess.Popen(
                words, cwd=folder, env=environment(None), stdout=out, stderr=out, start_new_session=True
            )
            try:
                limit = time.monotonic() + 60
                while not (folder / name / "checkpoint" / "state.json").exists():
                    assert process.poll() is None and time.monotonic() < limit, (folder / "output.txt").read_text()
                    time.sleep(0.01)
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                os.kill(int(children[1]) if number == signal.SIGKILL else process.pid, number)
                assert process.wait(timeout=40) != 0
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        output = (folder / "output.txt").read_text()
        assert re.search(text, output), output
        assert number == signal.SIGTERM or "rank 1 of --gpus 2" in output, output


def sharded(folder: Path) -> None:
    """--shard-optimizer: the bits of one process, also over 4, 2 and 3 ranks and one in one run.  Each rank writes its
    part of the moments, and any number of them reads these."""
    for name, more in {
        "adamw": [],
        "muon": ["--optimizer", "muon"],
        "bf16": ["--dtype", "bf16"],
        "masters": ["--weights", "bf16"],
    }.items():
        train = [PROGRAM, *TRAIN, "--microbatches", 4, *more]
        run(folder, None, 1, *train, "--out", f"whole-{name}")
        run(folder, "mpich", 4, *train, "--shard-optimizer", "--out", name, "--stop-at", 2)
        go_on = [PROGRAM, "train", "--resume", name]
        pieces = sorted(path.name for path in (folder / name / "checkpoint").glob("optimizer*"))
        assert pieces == [f"optimizer-0000{i}-of-00004.safetensors" for i in range(1, 5)], pieces
        run(folder, "mpich", 2, *go_on, "--shard-optimizer", "--stop-at", 3)
        run(folder, "openmpi", 3, *go_on, "--shard-optimizer", "--stop-at", 5)
        assert len(list((folder / name / "checkpoint").glob("optimizer-*-of-00003*"))) == 3
        if name != "adamw":
            run(folder, None, 1, PROGRAM, "checkpoint", "merge", name)
            assert [path.name for path in (folder / name / "checkpoint").glob("optim*")] == ["optimizer.safetensors"]
        run(folder, None, 1, *go_on)
        assert not list((folder / name / "checkpoint").glob("optimizer-*")), "parts of an older save are left"
        assert bits(folder / name) == bits(folder / f"whole-{name}"), f"other bits: {name}"


def part_names(ranks: int) -> list[str]:
    parts = [f"{kind}-{r:05}-of-{ranks:05}" for kind in ("optimizer", "weights") for r in range(1, ranks + 1)]
    return sorted([*(f"{part}.safetensors" for part in parts), "state.json", "weights.safetensors.index.json"])


def pieces(folder: Path) -> None:
    """With --shard-optimizer every rank writes a part of weights and moments.  Any number of ranks goes on with them,
    `checkpoint merge` makes single files, and a part that is missing or damaged is named."""
    train = [PROGRAM, *TRAIN, "--microbatches", 4]
    run(folder, None, 1, *train, "--out", "whole")
    run(folder, "mpich", 4, *train, "--shard-optimizer", "--out", "parts", "--stop-at", 2)
    go_on, home = [PROGRAM, "train", "--resume", "parts"], folder / "parts" / "checkpoint"
    for ranks, engine, stop in ((4, "", 2), (2, "openmpi", 3), (3, "mpich", 5)):
        if engine:
            run(folder, engine, ranks, *go_on, "--shard-optimizer", "--stop-at", stop)
        assert sorted(path.name for path in home.glob("[!.]*")) == part_names(ranks), sorted(home.iterdir())
        index = json.loads((home / "weights.safetensors.index.json").read_text())
        held = {name.split(" ", 1)[1]: path.name for path in home.glob("weights-*-of-*") for name in tensors_of(path)}
        assert index["weight_map"] == held, index
        total = sum(len(data) for path in home.glob("weights-*-of-*") for data in tensors_of(path).values())
        assert index["metadata"]["total_size"] == total, index
        most = total / ranks + max(len(data) for path in home.glob("weights-*") for data in tensors_of(path).values())
        assert all(sum(map(len, tensors_of(path).values())) <= most for path in home.glob("weights-*-of-*"))
    generate = [PROGRAM, "generate", "--prompt", "line", "--tokens", 8]
    from_parts = run(folder, None, 1, *generate, "--model", "parts")
    for name in (name for name in part_names(3) if not name.endswith(".json")):
        shutil.rmtree(folder / "bad", ignore_errors=True)
        shutil.copytree(folder / "parts", folder / "bad")
        part = folder / "bad" / "checkpoint" / name
        part.write_bytes(part.read_bytes()[:-1])
        for command in ([PROGRAM, "train", "--resume", "bad"], [PROGRAM, "checkpoint", "merge", "bad"]):
            output = run(folder, None, 1, *command, fails=True)
            assert f"/{name}'" in output, output
        part.unlink()
        output = run(folder, "mpich", 2, PROGRAM, "train", "--resume", "bad", fails=True)
        assert f"cannot read 'bad/checkpoint/{name}': No such file" in output, output
    shutil.copytree(folder / "parts", folder / "merged")
    run(folder, None, 1, PROGRAM, "checkpoint", "merge", "merged")
    assert run(folder, None, 1, *generate, "--model", "merged") == from_parts
    for name in ("parts", "merged"):
        run(folder, None, 1, PROGRAM, "train", "--resume", name)
        assert bits(folder / name) == bits(folder / "whole"), f"other bits: {name}"
    run(folder, "mpich", 3, *train, "--shard-optimizer", "--out", "end")
    for _ in range(2):  # the second time there is nothing to do
        run(folder, None, 1, PROGRAM, "checkpoint", "merge", "end")
        names = sorted(path.name for path in (folder / "end" / "checkpoint").glob("[!.]*"))
        assert names == ["optimizer.safetensors", "state.json", "weights.safetensors"], names
    assert bits(folder / "end") == bits(folder / "whole"), "other bits after merging"


def resume(folder: Path) -> None:
    """4 ranks, then 3, then 1 process, in the middle of a run; of a finished run, and at a step that was validated."""
    train = [PROGRAM, *TRAIN, "--microbatches", 4]
    run(folder, None, 1, *train, "--out", "whole")
    run(folder, "mpich", 4, *train, "--out", "parts", "--stop-at", 2)
    run(folder, "openmpi", 3, PROGRAM, "train", "--resume", "parts", "--stop-at", 4)
    run(folder, None, 1, PROGRAM, "train", "--resume", "parts")
    assert bits(folder / "parts") == bits(folder / "whole"), "other bits after resuming"
    run(folder, "mpich", 2, PROGRAM, "train", "--resume", "parts")
    assert bits(folder / "parts") == bits(folder / "whole"), "other bits of a finished run"
    run(folder, None, 1, *train, "--eval-every", 2, "--out", "whole-eval")
    run(folder, "mpich", 2, *train, "--eval-every", 2, "--out", "eval", "--stop-at", 2)
    run(folder, "openmpi", 2, PROGRAM, "train", "--resume", "eval")
    assert bits(folder / "eval") == bits(folder / "whole-eval"), "other bits after a step that was validated"


def engines(folder: Path) -> None:
    """The three ABIs by their names."""
    mpich = MPI / "mpich" / "lib" / "libmpi.so.12"
    for engine, name, library in (
        ("mpich", "MPI 5.0 standard ABI, MPICH", ""),
        ("mpich", "MPICH's ABI, MPICH", str(mpich)),
        ("openmpi", "Open MPI's ABI, Open MPI v", ""),
    ):
        output = run(folder, engine, 2, PROGRAM, "info", CHAINRULE_MPI=library)
        assert f"processes 2, by {name}" in output, output
    run(folder, "mpich", 2, UNIT, CHAINRULE_MPI=str(mpich))
    assert "processes 1: not started by mpirun" in run(folder, None, 1, PROGRAM, "info")


def system_engine(folder: Path) -> None:
    """The system's Open MPI, which is often a 4: the bits of one process."""
    found = shutil.which("mpirun.openmpi")
    if not found:
        print("skipped system_engine: the system has no mpirun.openmpi (apt-get install openmpi-bin)")
        return
    home = str(Path(found).parent.parent)
    print(re.findall(r"Open MPI v[\d.]+", run(folder, home, 2, PROGRAM, "info"))[0])
    train = [PROGRAM, *TRAIN, "--microbatches", 6]
    run(folder, None, 1, *train, "--out", "one")
    tests = ["bits_do_not", "world_closes"]
    lines = re.findall(r"^bits .*$", run(folder, None, 1, UNIT, *tests), re.MULTILINE)
    for ranks in (2, 3):
        run(folder, home, ranks, *train, "--shard-optimizer", "--overwrite", "--out", "run")
        run(folder, None, 1, PROGRAM, "checkpoint", "merge", "run")
        assert bits(folder / "run") == bits(folder / "one"), f"other bits: {ranks} ranks"
        output = run(folder, home, ranks, UNIT, *tests, CHAINRULE_CUDA="off")
        assert set(re.findall(r"^bits .*$", output, re.MULTILINE)) == set(lines), output


def mistakes(folder: Path) -> None:
    train = [PROGRAM, *TRAIN, "--out", "bad"]
    (folder / "other.txt").write_text(TEXT.replace("fox", "cat"))
    for engine in ENGINES:
        output = run(folder, engine, 3, *train, "--microbatches", 2, fails=True)
        assert output.count("fewer --microbatches than there are processes, 3") == 1, output
        output = run(folder, engine, 2, *train, fails=True)
        assert output.count("2 processes were started together: --microbatches") == 1, output
        both = [*train, "--microbatches", 4]
        output = run(folder, engine, 2, *both, ":", *ENGINES[engine], "-n", 1, *both, "--lr", 0.5, fails=True)
        assert "rank 0 and rank 2 were given another --lr" in output, output
        for name, value in (("--dtype", "bf16"), ("--weights", "bf16"), ("--seed", 2), ("--optimizer", "muon")):
            output = run(folder, engine, 1, *both, ":", *ENGINES[engine], "-n", 1, *both, name, value, fails=True)
            assert f"rank 0 and rank 1 were given another {name}" in output, output
        other = [PROGRAM, *(word if word != "text.txt" else "other.txt" for word in TRAIN), *both[len(TRAIN) + 1 :]]
        output = run(folder, engine, 1, *both, ":", *ENGINES[engine], "-n", 1, *other, fails=True)
        assert "rank 0 and rank 1 read another text or another tokenizer" in output, output
        for shard in ([], ["--shard-optimizer"]):
            bad = [*both, "--optimizer", "sgd", "--lr", "1e12", "--clip", 0, "--overwrite", *shard]
            output = run(folder, engine, 2, *bad, fails=True)
            text = r"the loss became (nan|inf) on rank \d at step \d; the largest weight is \S+, in '\S+'"
            assert len(re.findall(text, output)) == 1, output
        output = run(folder, engine, 2, *both, CHAINRULE_MPI="off", fails=True)
        assert "started by a launcher of MPI, but CHAINRULE_MPI is off" in output, output
    output = run(folder, "openmpi", 2, "env", "OMPI_COMM_WORLD_SIZE=3", *both, fails=True)
    assert "the launcher started 3 processes, but" in output and "sees 2" in output, output
    for more, text in {"2": "", "3": "--exchange engine"}.items():
        words = [PROGRAM, *TRAIN, "--microbatches", 3, *text.split()]
        run(folder, "mpich", int(more), *words, "--out", f"sum{more}")
    losses = [[float(line.split(", ")[1]) for line in bits(folder / f"sum{n}")[1][:6]] for n in "23"]
    assert all(abs(a - b) < 1e-3 for a, b in zip(*losses, strict=True)), f"the engine's sums: {losses}"
    output = run(folder, None, 1, *train, "--exchange", "engine", fails=True)
    assert "--exchange and --gradients need --microbatches" in output, output
    output = run(folder, "mpich", 2, *both, "--exchange", "engine", "--gradients", "bf16", fails=True)
    assert "option engine cannot be combined with option half or bfloat16 parameters" in output, output
    output = run(folder, "mpich", 2, *both, "--exchange", "engine", "--weights", "bf16", fails=True)
    assert "option engine cannot be combined with option half or bfloat16 parameters" in output, output
    version = re.search(r"\d+\.\d+\.\d+", run(folder, None, 1, PROGRAM, "--version"))
    assert version
    here = version[0].encode() + b"\0"
    parts = PROGRAM.read_bytes().split(here)
    assert len(parts) == 2, "the program has its version once"
    newer = folder / "newer"
    newer.write_bytes((here[:-2] + b"x\0").join(parts))
    newer.chmod(0o755)
    output = run(folder, "mpich", 1, *both, ":", "-n", 1, newer, *both[1:], fails=True)
    assert "rank 1 and rank 0 differ in the version of the library" in output, output
    output = run(folder, None, 1, *train, "--shard-optimizer", fails=True)
    assert "--shard-optimizer needs --microbatches" in output, output
    mpich, openmpi = MPI / "mpich" / "lib" / "libmpi_abi.so.1", MPI / "openmpi" / "lib" / "libmpi.so.40"
    output = run(folder, "openmpi", 2, *train, "--microbatches", 4, CHAINRULE_MPI=str(mpich), fails=True)
    assert "started by Open MPI's mpirun, but the MPI library is" in output, output
    output = run(folder, "mpich", 2, *train, "--microbatches", 4, CHAINRULE_MPI=str(openmpi), fails=True)
    assert "started by MPICH's mpirun, but the MPI library is" in output, output
    output = run(folder, "mpich", 2, *train, "--microbatches", 4, CHAINRULE_MPI="/nowhere/libmpi.so", fails=True)
    assert "'/nowhere/libmpi.so' (CHAINRULE_MPI) cannot be opened" in output, output
    if not any(find_library(name) for name in ("mpi", "mpich", "mpi_abi")):
        output = run(folder, "mpich", 2, *train, "--microbatches", 4, fails=True, VIRTUAL_ENV="/nowhere")
        assert "no MPI library was found: install MPICH (pip install mpich" in output, output


def python_package(folder: Path) -> None:
    """chainrule.distributed, DistributedDataParallel, ZeroRedundancyOptimizer; an exception on one rank ends all."""
    for engine, counts in ((None, (1,)), ("mpich", (2, 3, 4)), ("openmpi", (2,))):
        for ranks in counts:
            output = run(folder, engine, ranks, *SCRIPT)
            assert output.count("passed on rank") == ranks, output
    for ranks in (2, 3) if GPUS else ():
        output = torchrun(folder, ranks, *SCRIPT)
        assert output.count("passed on rank") == ranks, output
    begun = time.monotonic()
    output = run(folder, "mpich", 3, *SCRIPT, "fails", fails=True)
    assert "ZeroDivisionError: on rank 1" in output and time.monotonic() - begun < 15, output


def lose(
    folder: Path, engine: str, name: str, number: int, rank: int, *more: str, too: int = -1, **variables: str
) -> tuple[str, float]:
    """Sends a signal to one of three ranks in a run; what all printed, and how long it took them to end.  too: another
    one, while rank 0 is stopped."""
    # the shell outlives the rank: mpirun, which would end all at once and often name nobody, does not see it die
    script = '"$@" & echo $! > pid.${PMI_RANK:-$OMPI_COMM_WORLD_RANK}; wait; sleep 25'
    options = ["--microbatches", "4", "--out", name, *more]
    command = launch(engine, 3, "sh", "-c", script, "sh", PROGRAM, *LONG, *options)
    with open(folder / "output.txt", "w") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment(engine, **variables),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            limit = time.monotonic() + 60
            while not (folder / name / "checkpoint" / "state.json").exists():
                assert process.poll() is None and time.monotonic() < limit, (folder / "output.txt").read_text()
                time.sleep(0.01)
            begun = time.monotonic()
            sent = [(rank, number)]
            if too >= 0:
                sent = [(0, signal.SIGSTOP), (too, number), (rank, number), (0, signal.SIGCONT)]
            for one, what in sent:
                os.kill(int((folder / f"pid.{one}").read_text()), what)
                time.sleep(0.3 if too >= 0 else 0)
            assert process.wait(timeout=30) != 0
            took = time.monotonic() - begun
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return (folder / "output.txt").read_text(), took


def killed(folder: Path) -> None:
    """A rank that is killed or stopped ends all within ten seconds, with a message that names it, and the checkpoint
    goes on with another number."""
    for engine in ENGINES:
        for number, rank, more in (
            (signal.SIGKILL, 1, []),
            (signal.SIGKILL, 0, ["--shard-optimizer"]),
            (signal.SIGSTOP, 2, ["--shard-optimizer"]),
            (signal.SIGSTOP, 0, []),
        ):
            name = f"{number.name}-{engine}-{rank}"
            output, took = lose(folder, engine, name, number, rank, *more)
            assert took < 11, f"{name}: {took:.1f} s\n{output}"
            ours = re.search(rf"rank {rank} on \S+ was lost after step \d+: (silent|its connection ended)", output)
            assert ours, f"{name}: {output}"
            # a rank that goes on after SIGSTOP finds that the others have ended
            others = re.findall(rf"rank (?!{rank} )\d on \S+ was lost.*", output)
            wrong = [line for line in others if number == signal.SIGKILL or "silent" in line]
            assert not wrong, f"{name}: {wrong}\n{output}"
            if rank == 1:  # two at once: rank 0 says the one that it has found first
                output, _ = lose(folder, engine, f"both-{engine}", number, 1, too=2)
                assert re.search(r"^chainrule: .* rank 1 on \S+ was lost", output, re.MULTILINE), output
                assert "rank 2 on" not in output, output
            last = json.loads((folder / name / "checkpoint" / "state.json").read_text())["step"]
            last += 4  # a save that was cut off may be complete: two steps more
            output = run(folder, engine, 2, PROGRAM, "train", "--resume", name, "--stop-at", last)
            assert f"stopped after step {last} of" in output, output


FT = ("--with-ft", "ulfm")
ELASTIC = [*OPTIONS, "--dropout", "0.1", "--threads", "1", "--microbatches", "4"]


def same_end(folder: Path, name: str, why: str, undisturbed: str = "whole") -> None:
    """Weights, moments, losses and norms of the undisturbed run; a step may be in the log twice."""
    run(folder, None, 1, PROGRAM, "checkpoint", "merge", name)
    (tensors, log), (expected, whole) = bits(folder / name), bits(folder / undisturbed)
    assert tensors == expected, f"other weights or moments: {why}"
    assert set(log) == set(whole), f"other losses: {why}: {sorted(set(log) ^ set(whole))[:6]}"


def await_recovery(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Until the ranks that are left say that they go on, or have ended."""
    output, limit = folder / "output.txt", time.monotonic() + 60
    while process.poll() is None and "from step" not in output.read_text() and time.monotonic() < limit:
        time.sleep(0.002)


def elastic(folder: Path) -> None:
    """--elastic: the ranks that are left do the step again, and end with the bits of the undisturbed run."""
    train = [PROGRAM, "train", *ELASTIC, "--steps", 4000, "--save-every", 100]
    shard, masters = "--shard-optimizer", ["--weights", "bf16"]
    run(folder, None, 1, *train, "--out", "whole")
    run(folder, None, 1, *train, *masters, "--out", "whole-masters")
    for i, (ranks, losses, more, text) in enumerate(
        (
            (3, [[1]], [], "2 processes go on from step"),
            (3, [[2]], [shard, *masters], "2 processes go on from step"),
            (3, [[0], [2]], [], "1 process goes on from step"),
            (4, [[3], [0]], [shard], "2 processes go on from step"),
            (4, [[0, 1]], [shard], "2 processes go on from step|of the last checkpoint: two neighbours were lost"),
            (2, [[0]], [shard], "1 process goes on from step"),
        )
    ):
        name = f"run{i}"
        with started(folder, "openmpi", ranks, *train, "--elastic", *more, "--out", name, flags=FT) as process:
            await_file(folder, process, folder / name / "checkpoint" / "state.json")
            for lost in losses:
                for rank in lost:
                    assert kill(folder, rank), f"rank {rank} had ended already"
                await_recovery(folder, process)
            process.wait(timeout=100)
        output = (folder / "output.txt").read_text()
        assert re.search(text, output), f"{ranks} ranks, lost {losses}: {output}"
        undisturbed = "whole-masters" if masters[0] in more else "whole"
        same_end(folder, name, f"{ranks} ranks, lost {losses}, {more}\n{output}", undisturbed)
    for engine in ENGINES:
        output = run(folder, engine, 2, *train, "--elastic", "--out", "bad", fails=True)
        assert "option elastic needs Open MPI 5 or later, started by `mpirun --with-ft ulfm`" in output, output
    output = run(folder, None, 1, PROGRAM, *TRAIN, "--elastic", "--out", "bad", fails=True)
    assert "--elastic needs --microbatches" in output, output


def elastic_silent(folder: Path) -> None:
    """--elastic: a rank that stops without dying is no loss for MPI, whose survivors would wait for it: all end."""
    train = [PROGRAM, "train", *ELASTIC, "--steps", 100000, "--save-every", 10, "--elastic", "--out", "run"]
    with started(folder, "openmpi", 3, *train, flags=FT, CHAINRULE_PATIENCE="2") as process:
        await_file(folder, process, folder / "run" / "checkpoint" / "state.json")
        os.kill(int((folder / "pid.1").read_text()), signal.SIGSTOP)
        begun, says = time.monotonic(), re.compile(r"^chainrule: .*rank 1 on \S+ was lost .*silent", re.MULTILINE)
        while len(says.findall(text := (folder / "output.txt").read_text())) < 2:
            assert time.monotonic() < begun + 30, text
            time.sleep(0.1)
        assert kill(folder, 1), text


def elastic_gpus(folder: Path) -> None:
    """--elastic on GPUs: the ranks that are left link their GPUs anew, and end with the bits of the undisturbed run."""
    if not GPUS:
        print("skipped elastic_gpus: no simulated GPU in this build")
        return
    train = [PROGRAM, "train", *ELASTIC, "--device", "gpu", "--steps", 120, "--save-every", 10]
    run(folder, None, 1, *train, "--out", "whole")
    shard = "--shard-optimizer"
    for i, (ranks, losses, more, text) in enumerate(
        (
            (3, [[1]], [], "2 processes go on from step"),
            (3, [[0], [1]], [shard], "1 process goes on from step"),
            (4, [[2]], [shard], "3 processes go on from step"),
        )
    ):
        name = f"run{i}"
        words = [*train, "--elastic", *more, "--out", name]
        with started(folder, "openmpi", ranks, *words, flags=FT) as process:
            await_file(folder, process, folder / name / "checkpoint" / "state.json")
            for lost in losses:
                for rank in lost:
                    assert kill(folder, rank), f"rank {rank} had ended already"
                time.sleep(2.5)
            process.wait(timeout=100)
        output = (folder / "output.txt").read_text()
        assert re.search(text, output), f"{ranks} ranks, lost {losses}: {output}"
        same_end(folder, name, f"{ranks} ranks, lost {losses}, {more}\n{output}")
    train = [PROGRAM, "train", *ELASTIC, "--device", "gpu", "--steps", 8]
    run(folder, None, 1, *train, "--overwrite", "--out", "whole")
    for k in range(20, 40) if os.environ.get("CHAINRULE_TEST_FULL") else (22, 27, 31, 36):  # messages of NCCL
        name, victim = f"vanish{k}", k % 2
        script = f'if [ $OMPI_COMM_WORLD_RANK = {victim} ]; then export CUDASIM_FAIL=vanish:{k}; fi; exec "$@"'
        words = ["sh", "-c", script, "sh", *train, "--elastic", shard, "--out", name]
        output = run(folder, "openmpi", 3, *words, flags=FT)
        assert "processes go on from step" in output, output
        same_end(folder, name, f"rank {victim} killed in message {k}\n{output}")
    begun = time.monotonic()
    script = 'if [ $OMPI_COMM_WORLD_RANK = 1 ]; then export CUDASIM_FAIL=message:30; fi; exec "$@"'
    words = ["sh", "-c", script, "sh", *train, "--elastic", shard, "--out", "fails"]
    output = run(folder, "openmpi", 3, *words, fails=True, flags=FT)  # a GPU fails, whose process lives
    assert "NCCL error 1, unhandled cuda error" in output and time.monotonic() - begun < 20, output
    output = torchrun(folder, 2, *train, "--elastic", "--out", "bad", fails=True)
    assert "option elastic needs Open MPI 5 or later, started by `mpirun --with-ft ulfm`; the engine is NCCL" in output


def disk_full(folder: Path) -> None:
    """A rank that cannot write its part any more: the checkpoint before stays on all, and a run goes on from it."""
    # as under a full disk, a write fails: here of files beyond a size
    script = """trap '' XFSZ; echo $$ > pid.$PMI_RANK; exec "$@" """
    train = [PROGRAM, *LONG, "--microbatches", 4, "--shard-optimizer"]
    for rank in (1, 0):
        home = folder / f"run{rank}" / "checkpoint"
        words = launch("mpich", 2, "sh", "-c", script, "sh", *train, "--out", home.parent)
        with open(folder / "output.txt", "w") as out:
            process = subprocess.Popen(
                words, cwd=folder, env=environment("mpich"), stdout=out, stderr=out, start_new_session=True
            )
            try:
                limit = time.monotonic() + 60
                while not (home / "state.json").exists():
                    assert process.poll() is None and time.monotonic() < limit, (folder / "output.txt").read_text()
                    time.sleep(0.01)
                resource.prlimit(int((folder / f"pid.{rank}").read_text()), resource.RLIMIT_FSIZE, (4096, 4096))
                while "File too large" not in (text := (folder / "output.txt").read_text()):
                    assert process.poll() is None and time.monotonic() < limit, text
                    time.sleep(0.05)
                before = {path.name: path.read_bytes() for path in home.glob("[!.]*")}
                time.sleep(0.3)  # further saves fail
                process.send_signal(signal.SIGINT)
                assert process.wait(timeout=30) != 0
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        text = (folder / "output.txt").read_text()
        assert rank == 0 or "rank 1 could not write its part" in text, text
        after = {path.name: path.read_bytes() for path in home.glob("[!.]*")}
        assert after == before, f"the checkpoint changed: {sorted(after)}, not {sorted(before)}"
        step = json.loads(before["state.json"])["step"] + 2
        output = run(folder, "mpich", 3, PROGRAM, "train", "--resume", f"run{rank}", "--stop-at", step)
        assert f"stopped after step {step} of" in output, output


def killed_at_calls(folder: Path) -> None:
    """--elastic: a rank dies in its call number k of MPI, which meets every place of a step.  Where k is odd, the call
    that it ended last fails on one of the others, and succeeds on the third: they still agree on what comes next."""
    engine = MPI / "openmpi" / "lib"
    library = folder / "libmpi_kills.so"
    words = [
        "cc",
        "-shared",
        "-fPIC",
        "-o",
        library,
        ROOT / "tests" / "mpi_fails.c",
        f"-L{engine}",
        "-Wl,--no-as-needed",
    ]
    subprocess.run([str(word) for word in (*words, "-l:libmpi.so.40", f"-Wl,-rpath,{engine}", "-ldl")], check=True)
    train = [PROGRAM, "train", *ELASTIC, "--steps", 6]
    run(folder, None, 1, *train, "--out", "whole")
    more: Any = {"CHAINRULE_MPI": str(library), "FAILS_REAL": str(engine / "libmpi.so.40"), "FAILS_KILL": "1"}
    calls = range(60, 157) if os.environ.get("CHAINRULE_TEST_FULL") else (*range(97, 113), *range(148, 157))
    for k in calls:
        victim, name = k % 3, f"run{k}"
        other = "" if k % 2 == 0 else str((victim + 1 + k // 2 % 2) % 3)
        on: Any = {"FAILS_AT": str(k), "FAILS_ON": str(victim), "FAILS_TOO": other}
        words = [*train, "--elastic", "--shard-optimizer", "--out", name]
        alive = k > 61 and k % 14 == 5  # of 14 calls of a step: all agree before it, so nobody dies
        output = run(folder, "openmpi", 3, *words, flags=FT, fails=alive, **on, **more)
        if alive:
            assert re.search(r"rank was lost: MPI error 16|another rank has failed", output), f"call {k}: {output}"
            continue
        over = k == 156  # all have written the last checkpoint: the others end
        assert over or "processes go on from step" in output, f"rank {victim} killed in call {k}: {output}"
        same_end(folder, name, f"rank {victim} killed in call {k}\n{output}")


def killed_at_random(folder: Path) -> None:
    """CHAINRULE_TEST_FULL: ranks killed at random moments, and resumed in other numbers: the undisturbed run's bits."""
    if not os.environ.get("CHAINRULE_TEST_FULL"):
        print("skipped killed_at_random: CHAINRULE_TEST_FULL is not set")
        return
    seed = int(os.environ.get("CHAINRULE_TEST_SEED", time.time_ns() % 10**6))
    print(f"report killed_at_random: CHAINRULE_TEST_SEED={seed}")
    random = Random(seed)
    options = [*OPTIONS, "--steps", "3000", "--dropout", "0.1", "--threads", "1", "--microbatches", "4"]
    run(folder, None, 1, PROGRAM, "train", *options, "--out", "whole")
    start: list[object] = [PROGRAM, "train", *options, "--save-every", "7", "--out", "run"]
    kills, runs = {False: 0, True: 0}, 1  # elastic: 10 of them
    while kills[False] < 20 or kills[True] < 10:
        resumed = (folder / "run" / "checkpoint" / "state.json").exists()
        command = [PROGRAM, "train", "--resume", "run"] if resumed else [*start, "--overwrite"]
        goes_on = kills[True] < 10 and (kills[False] >= 20 or random.random() < 0.5)
        ranks, engine = random.choice((2, 3, 4)), "openmpi" if goes_on else random.choice(tuple(ENGINES))
        more = [*random.choice(([], ["--shard-optimizer"])), *(["--elastic"] if goes_on else [])]
        with started(folder, engine, ranks, *command, *more, flags=FT if goes_on else ()) as process:
            victims = random.sample(range(ranks), ranks if goes_on else 1)
            await_file(folder, process, folder / f"pid.{victims[0]}")
            for i, victim in enumerate(victims):
                time.sleep(random.uniform(0, 2.5))
                if process.poll() is None and (folder / f"pid.{victim}").exists():
                    kills[i < ranks - 1 and goes_on] += kill(folder, victim)
            process.wait(timeout=100)
        if "validation loss" in (folder / "output.txt").read_text():  # the end; an exit code of --with-ft says nothing
            same_end(folder, "run", f"{kills} kills, seed {seed}")
            shutil.rmtree(folder / "run")
            runs += 1
    print(f"report killed_at_random: {kills[False]} kills, {kills[True]} elastic, in {runs} runs")
    if (folder / "run" / "checkpoint" / "state.json").exists():
        run(folder, "mpich", 2, PROGRAM, "train", "--resume", "run")
        same_end(folder, "run", f"{kills} kills, seed {seed}")


def shards(folder: Path) -> None:
    """--tokens 'DIR/part_*.bin': the run of one file."""
    for i, part in enumerate((TEXT[:700], TEXT[700:800], TEXT[800:])):
        (folder / f"text{i}.txt").write_text(part)
        run(
            folder,
            None,
            1,
            PROGRAM,
            "tokenize",
            "--data",
            f"text{i}.txt",
            "--tokenizer",
            "bytes",
            "--out",
            f"part_{i}.bin",
        )
    run(folder, None, 1, PROGRAM, "tokenize", "--data", "text.txt", "--tokenizer", "bytes", "--out", "whole.bin")
    options = TRAIN[3:]
    run(folder, None, 1, PROGRAM, "train", "--tokens", "whole.bin", *options, "--out", "one")
    run(folder, None, 1, PROGRAM, "train", "--tokens", "part_*.bin", *options, "--out", "many", "--stop-at", 3)
    run(folder, None, 1, PROGRAM, "train", "--resume", "many")
    assert bits(folder / "many") == bits(folder / "one"), "other bits from parts"
    output = run(folder, None, 1, PROGRAM, "train", "--tokens", "no_*.bin", *options, "--out", "none", fails=True)
    assert "no file of tokens is named 'no_*.bin'" in output, output


def cluster_files(folder: Path) -> None:
    """The files of examples/cluster parse, and the program knows the options in them."""
    help_text = run(folder, None, 1, PROGRAM, "train", "--help")
    for path in sorted((ROOT / "examples" / "cluster").iterdir()):
        text = path.read_text()
        if path.suffix == ".sbatch":
            subprocess.run(["bash", "-n", str(path)], check=True)
            words = [line for line in text.splitlines() if not line.startswith("#")]
        elif yaml is None:
            print("skipped cluster_files: no PyYAML for the files of Kubernetes")
            continue
        else:
            job = yaml.safe_load(text)
            replicas = next(value for key, value in job["spec"].items() if key.endswith("ReplicaSpecs"))
            of = [pod["template"]["spec"]["containers"][0] for pod in replicas.values()]
            assert all("image" in container for container in of), job
            words = [
                str(word) for container in of for word in (*container.get("command", ()), *container.get("args", ()))
            ]
            assert "chainrule" in words and "train" in words, words
        options = set(re.findall(r"(?:^|[\s(])--([a-z-]+)", " ".join(words))) - {"mpi"}
        assert options, path
        for name in options:
            assert f"--{name}" in help_text, f"{path.name}: chainrule train has no --{name}"


def paused(folder: Path) -> None:
    """All ranks stop for longer than the patience, as on a machine that sleeps: nobody is lost.  Without beats
    (CHAINRULE_PATIENCE=off) also one of them may."""
    for patience, ranks, seconds in (("1", (0, 1, 2), 2.5), ("off", (1,), 10.0)):
        name = f"run-{patience}"
        train = [PROGRAM, *LONG, "--microbatches", 3, "--out", name]
        with started(folder, "mpich", 3, *train, CHAINRULE_PATIENCE=patience) as process:
            state = folder / name / "checkpoint" / "state.json"
            await_file(folder, process, state)
            ids = [int((folder / f"pid.{r}").read_text()) for r in ranks]
            for number, then in ((signal.SIGSTOP, seconds), (signal.SIGCONT, 0.5)):
                for one in ids:
                    os.kill(one, number)
                time.sleep(then)
            step = json.loads(state.read_text())["step"]
            limit = time.monotonic() + 60
            while json.loads(state.read_text())["step"] < step + 4:
                assert process.poll() is None and time.monotonic() < limit, (folder / "output.txt").read_text()
                time.sleep(0.05)


def interrupted(folder: Path) -> None:
    """Ctrl-C under MPICH, whose mpirun passes it on: all ranks stop after one step, and the run goes on from there."""
    train = launch("mpich", 3, PROGRAM, *LONG, "--microbatches", 3, "--out", "run")
    process = subprocess.Popen(
        train, cwd=folder, env=environment("mpich"), text=True, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        limit = time.monotonic() + 60
        while not (folder / "run" / "checkpoint" / "state.json").exists():
            assert process.poll() is None and time.monotonic() < limit
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    found = re.search(r"stopped after step (\d+) of", output)
    assert found, output
    state = json.loads((folder / "run" / "checkpoint" / "state.json").read_text())
    assert state["step"] == int(found[1]), state
    step = state["step"] + 2
    assert f"stopped after step {step}" in run(folder, None, 1, PROGRAM, "train", "--resume", "run", "--stop-at", step)


TESTS: tuple[Callable[[Path], None], ...] = (
    unit_tests,
    program,
    gpus,
    gpus_fail,
    gpus_stopped,
    two_hosts,
    gpus_option,
    variants,
    accumulated,
    sharded,
    pieces,
    resume,
    engines,
    system_engine,
    mistakes,
    mpi_fails,
    slow_gather,
    python_package,
    shards,
    killed,
    elastic,
    elastic_gpus,
    elastic_silent,
    killed_at_calls,
    killed_at_random,
    disk_full,
    cluster_files,
    interrupted,
    paused,
)


def main() -> int:
    missing = [name for name in ENGINES if not (MPI / name / "bin" / "mpirun").exists()]
    if missing:
        print(f"skipped mpirun: {', '.join(missing)} not in build/mpi (make build/.for-mpi)")
        print("result: 0 passed, 0 failed, 1 skipped")
        return 0
    failed = 0
    wanted = [test for test in TESTS if len(sys.argv) < 2 or test.__name__ in sys.argv[1:]]
    for test in wanted:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="chainrule-") as folder:
            (Path(folder) / "text.txt").write_text(TEXT)
            try:
                test(Path(folder))
            except Exception:
                failed += 1
                print(f"FAILED {test.__name__}\n{traceback.format_exc()}")
        print(f"report {test.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
    print(f"result: {len(wanted) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
