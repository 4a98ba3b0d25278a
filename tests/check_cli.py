"""Drives the program chainrule as its users do: trains, stops, resumes, writes; wrong options, files and folders.

use: python tests/check_cli.py [part of a test's name ...]        CHAINRULE_BUILD: where the program is (build/release)
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release")).resolve() / "chainrule"
TEXT = "".join(f"line {i}: the quick brown fox & the lazy dog — {i * i}\n" for i in range(60))
TESTS: list[Callable[[Path], None]] = []


def small(**changes: object) -> list[str]:
    """The options of a model that trains in no time."""
    options = {"layers": 1, "heads": 2, "width": 16, "context": 8, "batch": 4, "warmup": 2, "sample": 20, **changes}
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


SMALL = small()


def test(f: Callable[[Path], None]) -> Callable[[Path], None]:
    TESTS.append(f)
    return f


def run(
    folder: Path, *words: object, code: int = 0, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [str(PROGRAM), *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        env={**os.environ, **(environment or {})},
    )
    command = " ".join(map(str, words))
    assert done.returncode == code, (
        f"chainrule {command}: exit {done.returncode}, not {code}\n{done.stdout}{done.stderr}"
    )
    if code:
        assert done.stderr.startswith("chainrule: "), f"chainrule {command} said: {done.stderr!r}"
    if code == 2:
        assert "\nusage: chainrule " in done.stderr, f"no usage line: {done.stderr!r}"
    if code != 2:
        assert "usage:" not in done.stderr, done.stderr
    return done


def wait_until(true: Callable[[], bool], process: subprocess.Popen[str], what: str) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert process.poll() is None and time.monotonic() < deadline, f"{what} did not happen; exit {process.poll()}"
        time.sleep(0.005)


@contextmanager
def training(
    folder: Path, *words: object, ignored: tuple[signal.Signals, ...] = (), until: str = '"step":5,'
) -> Iterator[subprocess.Popen[str]]:
    """A run in the background whose log has this text.  Signals are as in a terminal, whatever
    these tests were started with."""

    def signals() -> None:
        for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(s, signal.SIG_IGN if s in ignored else signal.SIG_DFL)

    path = folder / (str(words[words.index("--out" if "--out" in words else "--resume") + 1])) / "run.jsonl"
    path.unlink(missing_ok=True)
    command = [str(PROGRAM), "train", *map(str, words)]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=signals
    ) as process:
        try:
            wait_until(lambda: path.is_file() and until in path.read_text(), process, f"{until!r} in {path}")
            yield process
        finally:
            process.kill()


def corpus(folder: Path) -> Path:
    path = folder / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def log(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "run.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def losses(folder: Path) -> dict[int, float]:
    return {r["step"]: r["loss"] for r in log(folder) if "loss" in r}


def weights(folder: Path, checkpoint: str = "checkpoint") -> dict[str, bytes]:
    """Every file of the checkpoint but what the clock has a part in: tensors alone, the header's metadata aside."""
    found = {}
    for path in sorted((folder / checkpoint).glob("*.safetensors")):
        data = path.read_bytes()
        found[path.name] = data[8 + int.from_bytes(data[:8], "little") :]
    assert found, f"no weights in {folder}"
    return found


@test
def help_and_version(folder: Path) -> None:
    version = re.search(r'#define CR_VERSION "(.*)"', (ROOT / "include" / "chainrule.h").read_text())
    assert version and run(folder, "--version").stdout == f"chainrule {version[1]}\n"
    assert "train" in run(folder, "--help").stdout
    commands = "train generate chat embed tokenize plot bench info import export quantize"
    for command in commands.split():
        text = run(folder, command, "--help").stdout
        assert text.startswith(f"usage: chainrule {command}"), text
    alone = run(folder, "serve", code=1, environment={"PATH": str(folder)})  # the other cases: test_serve.py
    assert "cannot start python3: " in alone.stderr and "pip install 'chainrule[serve]'" in alone.stderr
    text = run(folder, "train", "--help").stdout
    for name in (
        "data",
        "layers",
        "heads",
        "width",
        "context",
        "batch",
        "steps",
        "lr",
        "dropout",
        "seed",
        "out",
        "resume",
        "device",
        "threads",
    ):
        assert f"--{name} " in text, f"--{name} is not in the help"


@test
def wrong_usage(folder: Path) -> None:
    cases: list[tuple[list[str], str]] = [
        ([], "no command"),
        (["learn"], "no command 'learn'"),
        (["train"], "nothing to train on"),
        (["train", "text.txt"], "unexpected argument 'text.txt'"),
        (["train", "--data"], "--data needs a value"),
        (["train", "--data", "--steps", "3"], "--data needs a value"),
        (["train", "--layer", "3"], "did you mean --layers?"),
        (["train", "--nonsense", "3"], "no option --nonsense"),
        (["train", "--data", "a", "--layers", "three"], "whole number, not 'three'"),
        (["train", "--data", "a", "--layers", "2.5"], "whole number, not '2.5'"),
        (["train", "--data", "a", "--layers", "0"], "between 1 and"),
        (["train", "--data", "a", "--layers", "99999999999999999999"], "--layers"),
        (["train", "--data", "a", "--lr", "nan"], "needs a number"),
        (["train", "--data", "a", "--lr", "inf"], "--lr needs a number, not 'inf'"),
        (["train", "--data", "a", "--lr", "1e30"], "--lr must be between 0 and"),
        (["train", "--data", "a", "--dropout", "1"], "--dropout must be between"),
        (["train", "--data", "a", "--steps", "5", "--steps", "6"], "given twice"),
        (
            ["train", "--data", "a", "--tokenizer", "words"],
            "one of chars|bytes or the path of a tokenizer, not 'words'",
        ),
        (["train", "--data", "a", "--tokenizer", "char"], "one of chars|bytes"),
        (["train", "--data", "a", "--overwrite=yes"], "takes no value"),
        (["train", "--data", "a", "--tokens", "b"], "together"),
        (["train", "--tokens", "b", "--tokenizer", "bytes"], "--tokenizer cannot be given with it"),
        (["train", "--resume", "a", "--out", "b"], "--out cannot be given"),
        (["train", "--data", "a", "--steps", "10", "--warmup", "10"], "--warmup must be below"),
        (["generate"], "--model is needed"),
        (["generate", "--model", "x", "--top-p", "0"], "--top-p"),
        (["generate", "--model", "x", "--temperature", "-1"], "--temperature"),
        (["tokenize", "--data", "a"], "--out is needed"),
        (["tokenize", "--out", "a"], "--data is needed"),
        (["info", "--all"], "no option --all"),
        (["plot"], "nothing to plot"),
        (["plot", "a", "-o"], "--out needs a value"),
        (["plot", "-x", "a"], "unexpected argument '-x'"),
        (["plot", "a", "--log", "yx"], "one of none|x|y|xy, not 'yx'"),
        (["plot", *"abcdefghi"], "9 runs in one picture: 8 can be told apart"),
        (["bench", "--only", "everything"], "--only must be one of"),
    ]
    for words, message in cases:
        said = run(folder, *words, code=2).stderr
        assert message in said, f"{words}: {said!r} lacks {message!r}"


@test
def failures(folder: Path) -> None:
    text = corpus(folder)
    (folder / "empty.txt").write_bytes(b"")
    (folder / "short.txt").write_text("too short")
    (folder / "latin1.txt").write_bytes(b"caf\xe9 " * 200)
    (folder / "file").write_text("in the way")
    (folder / "bad" / "checkpoint").mkdir(parents=True)
    for path in (folder / "bad" / "checkpoint").parent, folder / "bad" / "checkpoint":
        (path / "tokenizer.json").write_text("{")
    (folder / "bad" / "checkpoint" / "weights.safetensors").write_bytes(b"\xff" * 40)
    cases: list[tuple[list[object], str]] = [
        (["train", "--data", "missing.txt"], "missing.txt"),
        (["train", "--data", "."], "folder"),
        (["train", "--data", "empty.txt"], ""),
        (["train", "--data", "short.txt"], "9 tokens"),
        (["train", "--data", "latin1.txt"], "UTF-8"),
        (["train", "--data", text, *small(width=15)], "15 is not one of 2"),
        (["train", "--data", text, *SMALL, "--device", "gpu9"], "gpu9"),
        (["train", "--data", text, *SMALL, "--out", "file"], "file"),
        (["train", "--data", text, *SMALL, "--out", "/proc/nowhere"], "/proc/nowhere"),
        (["train", "--data", text, *small(width=2000000000, layers=2000000000)], ""),
        (["train", "--resume", "nowhere"], "no checkpoint"),
        (["train", "--resume", "bad"], ""),
        (["train", "--tokens", "missing.bin"], "missing.bin"),
        (["train", "--tokens", text], ""),
        (["generate", "--model", "nowhere"], "there is no 'nowhere'"),
        (["generate", "--model", "bad"], ""),
        (["tokenize", "--data", "missing.txt", "--out", "x.bin"], "missing.txt"),
        (["tokenize", "--data", text, "--out", "/proc/x.bin"], "/proc"),
    ]
    for words, message in cases:
        said = run(folder, *words, code=1).stderr
        assert message in said and len(said.splitlines()) == 1, f"{words}: {said!r} lacks {message!r}"


@test
def a_run_from_text_to_text(folder: Path) -> None:
    text = corpus(folder)
    said = run(
        folder, "train", "--data", text, *SMALL, "--steps", 60, "--eval-every", 20, "--lr", "0.01", "--out", "a run"
    ).stdout
    for part in (
        "vocabulary",
        "parameters",
        "validation loss",
        "tokens/s",
        "--- a sample ---",
        "a run/curve.svg",
        "chainrule generate --model",
    ):
        assert part in said, f"the output lacks {part!r}:\n{said}"
    out = folder / "a run"
    steps = losses(out)
    assert sorted(steps) == list(range(1, 61)) and steps[60] < steps[1] - 0.5, steps
    assert [r["step"] for r in log(out) if "val_loss" in r] == [20, 40, 60]
    lr = {r["step"]: r["lr"] for r in log(out) if "lr" in r}
    assert abs(lr[60] - (0.001 + 0.009 * (1 + math.cos(math.pi * 57 / 58)) / 2)) < 1e-9, (
        f"not down to a tenth of --lr: {lr[60]}"
    )
    start = log(out)[0]
    assert (
        start["event"] == "start" and start["width"] == 16 and start["lr"] == 0.01 and start["tokenizer"] == "chars"
    ), start
    picture = ElementTree.parse(out / "curve.svg").getroot()
    assert picture.tag.endswith("svg") and "validation" in (out / "curve.svg").read_text()
    words = ["generate", "--model", "a run", "--prompt", "line 1", "--tokens", "30"]
    first = run(folder, *words).stdout
    assert first.startswith("line 1") and len(first) > 20 and first == run(folder, *words).stdout, first
    assert first != run(folder, *words, "--seed", "7").stdout
    assert run(folder, *words, "--temperature", "0").stdout == run(folder, *words, "--top-k", "1", "--seed", "3").stdout
    assert len(run(folder, "generate", "--model", "a run", "--tokens", "0", "--prompt", "fox").stdout) == 4
    for prompt, message in (("λ", "λ"), ("", "at least one token")):
        assert message in run(folder, "generate", "--model", "a run", "--prompt", prompt, code=1).stderr
    assert "already holds a run" in run(folder, "train", "--data", text, *SMALL, "--out", "a run", code=1).stderr
    run(folder, "train", "--data", text, *SMALL, "--out", "a run", "--overwrite", "--steps", 3)
    assert sorted(losses(out)) == [1, 2, 3]


def numbers(path: Path) -> list[list[tuple[float, float]]]:
    """The points of each line in a picture, as pixels; every coordinate has to be a number."""
    root = ElementTree.parse(path).getroot()
    lines = [e.get("points", "") for e in root.iter() if e.tag.endswith("polyline") and e.get("stroke") != "#98a2b3"]
    found = [[(float(x), float(y)) for x, y in (point.split(",") for point in points.split())] for points in lines]
    wide, high = float(root.get("width", 0)), float(root.get("height", 0))
    assert all(0 <= x <= wide and 0 <= y <= high for points in found for x, y in points), found
    return found


def texts(path: Path) -> list[str]:
    return [e.text or "" for e in ElementTree.parse(path).getroot().iter() if e.tag.endswith("text")]


@test
def pictures_of_runs(folder: Path) -> None:
    def write(name: str, *rows: object) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))

    steps = [
        {"event": "start", "step": 0},
        *({"step": i, "loss": 5 / i, "lr": 0.1} for i in range(1, 1001)),
        {"step": 1000, "val_loss": 0.25},
    ]
    write("a/run.jsonl", *steps)
    write("b<&>.jsonl", *steps[:500], {"step": 501, "loss": 1e308, "val_loss": 0.5}, {"step": 502, "loss": None})
    assert run(folder, "plot", "a", "-o", "a.svg", "--title", "a & b").stdout == "a.svg\n"
    assert {"a & b", "step", "loss", "training, last 0.0051", "validation, last 0.2500"} <= set(
        texts(folder / "a.svg")
    ), texts(folder / "a.svg")
    raw, mean, validation = numbers(folder / "a.svg")
    assert len(raw) == len(mean) == 334 and len(validation) == 1 and raw[0][1] < raw[-1][1], (
        "1000 steps are means of three"
    )
    run(
        folder, "plot", "a", "-o", "a.svg", "--title", "caf\udce9 \x01é" + 100 * "ä"
    )  # a byte that is no UTF-8, one that is no text, too many
    assert texts(folder / "a.svg")[0] == "…" + 45 * "ä", texts(folder / "a.svg")
    run(folder, "plot", "a", "-o", "a.svg", "--title", "caf\udce9 \x01é")
    assert texts(folder / "a.svg")[0] == "caf? é", texts(folder / "a.svg")
    run(folder, "plot", "a/run.jsonl", "b<&>.jsonl", "a/", "--log", "xy")
    assert {"a", "b<&>.jsonl", "training, last NaN", "100"} <= set(texts(folder / "curves.svg")), texts(
        folder / "curves.svg"
    )
    straight = numbers(folder / "curves.svg")[0]  # the logarithm of 5 / step over that of step
    slope = [(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in zip(straight[9::30], straight[39::30], strict=False)]
    assert max(slope) - min(slope) < 0.04 * max(slope), slope  # pixels have one decimal
    few: list[list[object]] = [[{"step": 7, "loss": 2}], [{"step": 0, "loss": 0}], [{"step": 1, "loss": None}]]
    few.append([{"step": -3, "loss": 1e20}, {"step": 2**52, "loss": 1e20 + 1e5}])
    for rows in few:
        write("few.jsonl", *rows)
        for axes in ("none", "x", "y", "xy"):
            run(folder, "plot", "few.jsonl", "--log", axes, "-o", "few.svg")
            numbers(folder / "few.svg")
    bad: list[tuple[list[object], str]] = [
        ([], "has no losses"),
        ([{"event": "start", "step": 0}], "has no losses"),
        (['{"step": 1, "loss": 2}', '{"step": 2, "loss":'], "line 2' is not valid JSON"),
        (['{"step": 1, "loss": NaN}'], "line 1' is not valid JSON"),
        (["[1, 2]"], "line 1 is not a JSON object"),
        (["", '{"loss": 2}'], "line 2 has a loss without a step"),
        ([{"step": None, "loss": 2}], "line 1 has a loss without a step"),
        ([{"step": 1e300, "loss": 2}], "line 1 has a loss without a step"),
        ([{"step": "one", "loss": 2}], 'line 1: "step" is not a number'),
        ([{"step": 1, "loss": [2]}], 'line 1: "loss" is not a number'),
    ]
    for rows, message in bad:
        write("bad.jsonl", *rows)
        said = run(folder, "plot", "bad.jsonl", code=1).stderr
        assert message in said and "bad.jsonl" in said and len(said.splitlines()) == 1, (
            f"{rows}: {said!r} lacks {message!r}"
        )
    (folder / "bytes.jsonl").write_bytes(bytes(range(256)) * 9)
    for words, message in (
        (["missing.jsonl"], "missing.jsonl"),
        (["bytes.jsonl"], "line 1"),
        (["a", "-o", "/proc/x.svg"], "/proc/x.svg"),
        (["/proc"], "/proc"),
    ):
        assert message in run(folder, "plot", *words, code=1).stderr


@test
def several_files_and_token_files(folder: Path) -> None:
    text = corpus(folder)
    half = len(TEXT) // 2
    (folder / "1.txt").write_text(TEXT[:half], encoding="utf-8")
    (folder / "2.txt").write_text(TEXT[half:], encoding="utf-8")
    run(folder, "train", "--data", text, *SMALL, "--steps", 5, "--out", "one")
    run(folder, "train", "--data", "1.txt", "2.txt", *SMALL, "--steps", 5, "--out", "two")
    said = run(folder, "tokenize", "--data", "1.txt", "--data", "2.txt", "--out", "t.bin").stdout
    assert f"{len(TEXT)} tokens from {len(TEXT.encode())} bytes" in said, said
    run(folder, "train", "--tokens", "t.bin", *SMALL, "--steps", 5, "--out", "three")
    assert losses(folder / "one") == losses(folder / "two") == losses(folder / "three")
    run(folder, "train", "--data", text, "--tokenizer", "bytes", *SMALL, "--steps", 3, "--out", "bytes")
    assert run(folder, "generate", "--model", "bytes", "--prompt", "λ", "--tokens", "2").stdout.startswith("λ")


@test
def resume_is_bit_exact(folder: Path) -> None:
    text = corpus(folder)
    words = ["train", "--data", text, *SMALL, "--dropout", "0.1", "--steps", "20"]
    run(folder, *words, "--out", "straight")
    stopped = run(folder, *words, "--out", "resumed", "--stop-at", "10").stdout
    assert "chainrule train --resume resumed" in stopped, stopped
    past = run(folder, "train", "--resume", "resumed", "--stop-at", "5").stdout
    assert "stopped after step 10 of 20" in past, past
    # lines that a crash may leave behind: a later step, and half a line
    with (folder / "resumed" / "run.jsonl").open("a") as f:
        f.write('{"step":11,"loss":99}\n{"step":12,"lo')
    run(folder, "train", "--resume", "resumed", "--threads", "1")
    assert losses(folder / "straight") == losses(folder / "resumed")
    assert weights(folder / "straight") == weights(folder / "resumed")
    assert "done already" in run(folder, "train", "--resume", "resumed").stdout
    assert "--width cannot change" in run(folder, "train", "--resume", "resumed", "--width", "32", code=2).stderr
    run(folder, "train", "--resume", "resumed", "--width", "16")
    run(folder, "train", "--resume", "resumed", "--steps", "25")
    assert sorted(losses(folder / "resumed")) == list(range(1, 26))
    text.write_text(TEXT + "fox", encoding="utf-8")
    said = run(folder, "train", "--resume", "resumed", code=1).stderr
    assert "data differ" in said, said
    text.unlink()
    assert "text.txt" in run(folder, "train", "--resume", "resumed", code=1).stderr


ENDLESS = ["--steps", "1000000", "--eval-every", "0", "--out", "run"]


@test
def a_recorded_step_changes_no_bit(folder: Path) -> None:
    text = corpus(folder)
    cases: dict[str, list[str]] = {
        "plain": [],
        "batches": ["--accumulate", "3", "--clip", "0.05"],
        "free": ["--clip", "0", "--optimizer", "lion"],
        "half": ["--dtype", "bf16", "--optimizer", "sgd"],
        "muon": ["--optimizer", "muon"],
        "masters": ["--weights", "bf16"],
    }
    for name, words in cases.items():
        words = ["train", "--data", str(text), *SMALL, *words, "--dropout", "0.2", "--steps", "8"]
        run(folder, *words, "--no-compile", "--out", f"{name} eager")
        run(folder, *words, "--out", name)
        run(folder, *words, "--stop-at", "4", "--out", f"{name} resumed")
        run(folder, "train", "--resume", f"{name} resumed")
        for other in (name, f"{name} resumed"):
            assert weights(folder / other) == weights(folder / f"{name} eager"), other
            rows, wanted = log(folder / other), log(folder / f"{name} eager")
            assert [(r.get("loss"), r.get("norm")) for r in rows if "loss" in r] == [
                (r.get("loss"), r.get("norm")) for r in wanted if "loss" in r
            ], other
        assert not any(r.get("event") == "no plan" for r in log(folder / name)), name


@test
def interrupt_saves_a_checkpoint(folder: Path) -> None:
    text = corpus(folder)
    INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    for sent, ignored in (
        ((INT,), ()),
        ((TERM,), ()),
        ((HUP,), ()),
        ((INT, TERM, HUP), ()),
        ((INT, TERM), (INT,)),
        ((HUP, TERM), (HUP,)),
    ):
        with training(folder, "--data", text, *SMALL, *ENDLESS, "--overwrite", ignored=ignored) as process:
            for one in sent:
                process.send_signal(one)
            out, err = process.communicate(timeout=60)
        assert process.returncode == 130, f"{sent}: exit {process.returncode}: {out}{err}"
        assert "chainrule train --resume run" in out and not err, out + err
        step = log(folder / "run")[-1]["step"]
        run(folder, "train", "--resume", "run", "--stop-at", step + 5)
        assert max(losses(folder / "run")) == step + 5


@test
def a_closed_pipe_saves_a_checkpoint(folder: Path) -> None:
    """chainrule train | tee log: Ctrl-C ends tee first."""
    endless = ["--steps", 1000000, "--eval-every", 20, "--out", "run"]  # each validation prints a line
    with training(folder, "--data", corpus(folder), *SMALL, *endless) as process:
        assert process.stdout
        process.stdout.close()
        assert process.wait(60) == 130
    assert log(folder / "run")[-1]["event"] == "stop"
    run(folder, "train", "--resume", "run", "--stop-at", log(folder / "run")[-1]["step"] + 1)


@test
def interrupt_before_the_last_validation(folder: Path) -> None:
    """All steps are done and the loss is not known: that is a stop, and the run that goes on measures it."""
    text = corpus(folder)
    words = ["--data", text, *small(accumulate=3000, warmup=0), "--steps", 1]
    with training(folder, *words, "--out", "run", until='"event":"start"') as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "stopped after step 1 of 1" in out and not err, (
        f"exit {process.returncode}: {out}{err}"
    )
    said = run(folder, "train", "--resume", "run").stdout
    run(folder, "train", *words, "--out", "straight")
    measured = [[r["val_loss"] for r in log(folder / name) if "val_loss" in r] for name in ("run", "straight")]
    assert len(measured[0]) == 1 and measured[0] == measured[1] and f"validation loss {measured[0][0]:.4f}" in said, (
        measured,
        said,
    )


@test
def names_of_files(folder: Path) -> None:
    for i, name in enumerate((b"caf\xe9.txt", b"two\nlines.txt", b"100%41.txt", "naïve.txt".encode())):
        path = os.fsencode(folder) + b"/" + name
        with open(path, "w", encoding="utf-8") as f:
            f.write(TEXT)
        run(folder, "train", "--data", os.fsdecode(name), *SMALL, "--steps", 4, "--stop-at", 2, "--out", i)
        run(folder, "train", "--resume", i)
        assert sorted(losses(folder / str(i))) == [1, 2, 3, 4], name
        run(folder, "tokenize", "--data", os.fsdecode(name), "--out", os.fsdecode(name + b".bin"))
        run(
            folder,
            "train",
            "--tokens",
            os.fsdecode(name + b".bin"),
            *SMALL,
            "--steps",
            4,
            "--stop-at",
            2,
            "--out",
            f"t{i}",
        )
        run(folder, "train", "--resume", f"t{i}")


@test
def overwrite_leaves_nothing_to_go_on_from(folder: Path) -> None:
    text = corpus(folder)
    run(
        folder,
        "train",
        "--data",
        text,
        *SMALL,
        "--steps",
        6,
        "--save-every",
        2,
        "--eval-every",
        2,
        "--keep",
        2,
        "--best",
        "--out",
        "run",
    )
    with training(folder, "--data", text, *SMALL, *ENDLESS, "--overwrite") as process:
        said = run(folder, "train", "--resume", "run", code=1).stderr
        assert "another process trains in 'run'" in said, said
        process.kill()
    assert "holds no checkpoint to resume" in run(folder, "train", "--resume", "run", code=1).stderr
    assert "'run' holds no model: neither config.json" in run(folder, "generate", "--model", "run", code=1).stderr
    assert sorted(p.name for p in (folder / "run").iterdir()) == ["curve.svg", "run.jsonl", "tokenizer.json"]


@test
def a_resumed_run_keeps_its_options(folder: Path) -> None:
    text = corpus(folder)
    options = {"save-every": 3, "eval-every": 4, "keep": 2, "sample": 7, "device": "ref", "threads": 1}
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    sizes = [w for pair in zip(SMALL[::2], SMALL[1::2], strict=True) if pair[0] != "--sample" for w in pair]
    words = ["train", "--data", str(text), *sizes, "--steps", "9", "--clip", "0", "--fuse-step", "--best", *words]
    run(folder, *words, "--out", "straight")
    run(folder, *words, "--out", "run", "--stop-at", 5)
    run(folder, "train", "--resume", "run")
    resumed = next(r for r in log(folder / "run") if r.get("event") == "resume")
    assert {name: resumed[name] for name in options} == options and resumed["fuse-step"] == resumed["best"] == "yes", (
        resumed
    )
    assert [r["step"] for r in log(folder / "run") if "val_loss" in r] == [4, 8, 9]
    assert folders(folder / "run") == ["checkpoint", "checkpoint-6", "checkpoint-best"]
    assert weights(folder / "run") == weights(folder / "straight")
    new = {"save-every": 5, "eval-every": 6, "keep": 1, "sample": 0, "device": "cpu", "threads": 2, "steps": 12}
    run(
        folder,
        "train",
        "--resume",
        "run",
        "--no-fuse-step",
        "--no-best",
        *[str(word) for name, value in new.items() for word in (f"--{name}", value)],
    )
    resumed = [r for r in log(folder / "run") if r.get("event") == "resume"][-1]
    assert {name: resumed[name] for name in new} == new and resumed["fuse-step"] == resumed["best"] == "", resumed
    assert "no option --no-layers" in run(folder, "train", "--resume", "run", "--no-layers", code=2).stderr


@test
def all_data_are_compared(folder: Path) -> None:
    """One letter of two million."""
    text = folder / "text.txt"
    letters = bytearray(b"abcdefg\n" * (1 << 18))
    text.write_bytes(letters)
    words = [*SMALL, "--steps", 3, "--stop-at", 1, "--out", "run"]
    run(folder, "train", "--data", text, *words)
    for at in (1_000_001, len(letters) - 1):
        changed = bytearray(letters)
        changed[at] = ord("a")
        text.write_bytes(changed)
        assert "data differ" in run(folder, "train", "--resume", "run", code=1).stderr, at


@test
def a_save_that_fails_is_tried_again(folder: Path) -> None:
    """A folder that cannot be made stands for a disk that is full: the run goes on, and the status
    says how the last save ended."""
    text = corpus(folder)
    blocked = folder / "run" / "checkpoint" / ".chainrule-new"
    run(
        folder,
        "train",
        "--data",
        text,
        *SMALL,
        "--steps",
        8,
        "--stop-at",
        2,
        "--save-every",
        2,
        "--best",
        "--eval-every",
        4,
        "--out",
        "run",
    )
    blocked.touch()
    said = run(folder, "train", "--resume", "run", code=1)
    for step in (4, 6, 8):
        assert f"chainrule: the checkpoint after step {step} was not saved\n" in said.stderr, said.stderr
    assert (
        said.stderr.count("is not a folder that a save made") == 3
        and "validation loss" in said.stdout
        and "resume with" not in said.stdout
    ), said
    assert sorted(losses(folder / "run")) == list(range(1, 9)) and step_of(folder / "run" / "checkpoint") == 2
    run(folder, "train", "--resume", "run", "--stop-at", 3, code=1)
    blocked.unlink()
    run(folder, "train", "--resume", "run", "--stop-at", 3)
    blocked.touch()
    with training(folder, "--resume", "run", "--steps", 1000000) as process:
        assert (
            process.stderr
            and "training_save" in process.stderr.readline()
            and "was not saved" in process.stderr.readline()
        )
        blocked.unlink()
        wait_until(lambda: step_of(folder / "run" / "checkpoint") > 3, process, "a save")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130, "the last save was good"
    blocked = folder / "run" / "checkpoint-best" / ".chainrule-new"
    run(
        folder,
        "train",
        "--data",
        text,
        *SMALL,
        "--steps",
        4,
        "--best",
        "--stop-at",
        3,
        "--eval-every",
        2,
        "--out",
        "run",
        "--overwrite",
        "--lr",
        "0.01",
    )
    blocked.touch()
    assert "the best model so far after step 4 was not saved" in run(folder, "train", "--resume", "run", code=1).stderr
    assert step_of(folder / "run" / "checkpoint") == 4 and step_of(folder / "run" / "checkpoint-best") == 2


@test
def temporary_files_are_removed(folder: Path) -> None:
    text = corpus(folder)
    run(
        folder,
        "train",
        "--data",
        text,
        *SMALL,
        "--steps",
        6,
        "--stop-at",
        3,
        "--eval-every",
        2,
        "--best",
        "--out",
        "run",
    )
    (folder / "run" / ".chainrule-1-0.tmp").write_text("half a log")
    (folder / "run" / "mine.tmp").write_text("mine")
    for name in ("checkpoint/.chainrule-new", ".chainrule-old", "checkpoint-best/.chainrule-new"):
        (folder / "run" / name).mkdir()
        (folder / "run" / name / ".chainrule-1-1.tmp").write_text("half a tensor")
    run(folder, "train", "--resume", "run", "--no-best")
    left = sorted(str(p.relative_to(folder / "run")) for p in (folder / "run").rglob("*") if p.is_file())
    checkpoint = [f"checkpoint/{name}" for name in ("optimizer.safetensors", "state.json", "weights.safetensors")]
    best = [name.replace("/", "-best/") for name in checkpoint[1:]]
    assert left == [*best, *checkpoint, "curve.svg", "mine.tmp", "run.jsonl", "tokenizer.json"], left


def folders(run: Path) -> list[str]:
    return sorted(p.name for p in run.iterdir() if p.is_dir())


def step_of(checkpoint: Path) -> int:
    return int(json.loads((checkpoint / "state.json").read_text())["step"])


@test
def checkpoints_that_are_kept(folder: Path) -> None:
    """--keep 3 --best, in one go and stopped twice: the same folders with the same weights; generate takes the best.
    The learning rate rises until the loss does, so that the newest is not the best."""
    text = corpus(folder)
    words = [
        "train",
        "--data",
        text,
        *small(warmup=19),
        "--lr",
        3,
        "--steps",
        20,
        "--save-every",
        4,
        "--eval-every",
        2,
        "--keep",
        3,
        "--best",
    ]
    said = run(folder, *words, "--out", "run").stdout
    run(folder, *words, "--out", "parts", "--stop-at", 7)
    run(folder, "train", "--resume", "parts", "--stop-at", 14)
    run(folder, "train", "--resume", "parts")
    val = {r["val_loss"]: r["step"] for r in reversed(log(folder / "run")) if "val_loss" in r}
    best = val[min(val)]
    assert best < 20, f"the newest is the best: {val}"
    assert folders(folder / "run") == ["checkpoint", "checkpoint-12", "checkpoint-16", "checkpoint-best"]
    assert folders(folder / "parts") == ["checkpoint", "checkpoint-14", "checkpoint-16", "checkpoint-best"]
    for name, step in {"checkpoint": 20, "checkpoint-16": 16, "checkpoint-best": best}.items():
        assert step_of(folder / "run" / name) == step_of(folder / "parts" / name) == step, name
        assert weights(folder / "run", name) == weights(folder / "parts", name), name
    assert step_of(folder / "run" / "checkpoint-12") == 12
    assert (
        f"run/checkpoint-best/weights.safetensors\n            (the best, of validation loss {min(val):.4f}, after step"
        f" {best})" in said
    ), said
    made = {
        m: run(folder, "generate", "--model", m).stdout
        for m in ("run", "run/checkpoint-best", "run/checkpoint", "run/checkpoint-12/")
    }
    assert made["run"] == made["run/checkpoint-best"] != made["run/checkpoint"], made
    (folder / "run" / "checkpoint-16").rename(folder / "elsewhere")
    run(folder, "train", "--resume", "run", "--keep", 1, "--steps", 24)
    assert folders(folder / "run") == ["checkpoint", "checkpoint-best"]
    (folder / "one").mkdir()
    (folder / "run" / "checkpoint").rename(folder / "one" / "checkpoint")
    assert "already holds a run" in run(folder, *words, "--out", "run", code=1).stderr, (
        "the best of a run is worth as much"
    )
    assert "no checkpoint to resume" in run(folder, "train", "--resume", "run", code=1).stderr


@test
def other_devices_threads_and_optimizers(folder: Path) -> None:
    text = corpus(folder)
    run(folder, "train", "--data", text, *SMALL, "--steps", 4, "--out", "one", "--threads", 1)
    run(folder, "train", "--data", text, *SMALL, "--steps", 4, "--out", "two", "--threads", 2)
    assert weights(folder / "one") == weights(folder / "two")
    run(folder, "train", "--data", text, *SMALL, "--steps", 4, "--out", "ref", "--device", "ref")
    a, b = losses(folder / "one"), losses(folder / "ref")
    assert all(abs(a[i] - b[i]) < 1e-3 for i in a), (a, b)
    for name, lr in (("adam", "0.003"), ("sgd", "0.1"), ("lion", "0.001"), ("muon", "0.01")):
        run(
            folder,
            "train",
            "--data",
            text,
            *SMALL,
            "--steps",
            30,
            "--lr",
            lr,
            "--optimizer",
            name,
            "--stop-at",
            15,
            "--out",
            name,
        )
        run(folder, "train", "--resume", name)
        found = losses(folder / name)
        assert found[30] < found[1] - 0.1, f"{name}: {found[1]} to {found[30]}"


@test
def steps_of_several_batches_and_inside_the_backward_pass(folder: Path) -> None:
    text = corpus(folder)
    words = ["train", "--data", text, *SMALL, "--steps", 20]
    run(folder, *words, "--clip", 0, "--out", "after")
    run(folder, *words, "--clip", 0, "--fuse-step", "--out", "inside")
    assert losses(folder / "after") == losses(folder / "inside") and weights(folder / "after") == weights(
        folder / "inside"
    )
    for wrong in (["--clip", 1], ["--clip", 0, "--accumulate", 2]):
        assert "keeps no gradients" in run(folder, *words, *wrong, "--fuse-step", "--out", "no", code=2).stderr
    run(folder, *words, "--accumulate", 3, "--out", "whole")
    run(folder, *words, "--accumulate", 3, "--stop-at", 7, "--out", "parts")
    run(folder, "train", "--resume", "parts")
    assert weights(folder / "whole") == weights(folder / "parts")
    # a step of one batch of 8 windows, and of two of 4, hold the same windows: the same first loss
    run(folder, "train", "--data", text, *small(batch=8), "--steps", 3, "--out", "one")
    run(folder, "train", "--data", text, *SMALL, "--steps", 3, "--accumulate", 2, "--out", "two")
    one, two = losses(folder / "one"), losses(folder / "two")
    assert all(abs(one[i] - two[i]) < 1e-4 for i in one), (one, two)


@test
def half_precision(folder: Path) -> None:
    """In bf16, in f16 and with bf16 weights, a run ends within 0.02 of the loss in f32, with other bits; resumed it has
    its own bits, the scale of f16's loss included, with one thread and with two."""
    text = corpus(folder)
    words = ["train", "--data", text, *small(width=32, layers=2), "--steps", 100]
    run(folder, *words, "--out", "f32")
    for what in ("--dtype bf16", "--dtype f16", "--weights bf16"):
        run(folder, *words, *what.split(), "--out", what, "--threads", 2)
        run(folder, *words, *what.split(), "--out", f"{what} resumed", "--stop-at", 50, "--threads", 1)
        run(folder, "train", "--resume", f"{what} resumed")
        assert weights(folder / what) == weights(folder / f"{what} resumed") != weights(folder / "f32"), what
        a, b = ([r["val_loss"] for r in log(folder / name) if "val_loss" in r][-1] for name in ("f32", what))
        assert abs(a - b) < 0.02, (what, a, b)
    state = json.loads((folder / "--dtype f16" / "checkpoint" / "state.json").read_text())["scaler"]
    assert state["scale"] <= 65536 and 0 <= state["growth_tracker"] <= 100, state
    again = run(folder, "train", "--resume", "--dtype f16 resumed", "--dtype", "f32", code=2).stderr
    assert "--dtype cannot change" in again, again
    again = run(folder, "train", "--resume", "f32", "--weights", "bf16", code=2).stderr
    assert "--weights cannot change when a run is resumed: it was f32, not bf16" in again, again
    both = run(folder, *words, "--weights", "bf16", "--dtype", "f16", "--out", "no", code=2).stderr
    assert "--dtype f16 cannot be combined with --weights bf16" in both, both
    held = {name: len(weights(folder / name)["weights.safetensors"]) for name in ("f32", "--weights bf16")}
    assert 0.5 <= held["--weights bf16"] / held["f32"] < 0.52, held
    halves = ["--weights", "bf16", "--clip", 0]
    run(folder, *words, *halves, "--out", "after")
    run(folder, *words, *halves, "--fuse-step", "--out", "inside")
    assert weights(folder / "after") == weights(folder / "inside")
    assert "fox" in run(folder, "generate", "--model", "inside", "--prompt", "fox", "--tokens", 5).stdout
    fused = run(folder, *words, "--dtype", "f16", "--out", "no", "--fuse-step", "--clip", 0, code=2).stderr
    assert "needs them to scale the loss" in fused, fused


def forget(checkpoint: Path, key: str) -> None:
    """Takes an entry out of the metadata of a checkpoint, as a version has it that did not know the entry."""
    file, state = checkpoint / "weights.safetensors", checkpoint / "state.json"
    whole = file.read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    header, kept = json.loads(whole[8:end]), json.loads(state.read_text())
    del header["__metadata__"][key], kept["metadata"][key]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write_bytes(len(text).to_bytes(8, "little") + text + whole[end:])
    state.write_text(json.dumps(kept))


@test
def a_run_of_an_older_version_goes_on(folder: Path) -> None:
    """Options that it did not know are as they were then; an option without such a value is missed."""
    words = ["train", "--data", corpus(folder), *SMALL, "--steps", 8]
    run(folder, *words, "--out", "straight")
    run(folder, *words, "--stop-at", 4, "--out", "old")
    for key in ("weights", "exchange", "compile"):
        forget(folder / "old" / "checkpoint", key)
    said = run(folder, "train", "--resume", "old", "--weights", "bf16", code=2).stderr
    assert "--weights cannot change when a run is resumed: it was f32, not bf16" in said, said
    run(folder, "train", "--resume", "old", "--weights", "f32", "--stop-at", 6)
    forget(folder / "old" / "checkpoint", "weights")
    run(folder, "train", "--resume", "old")
    assert weights(folder / "old") == weights(folder / "straight")
    assert losses(folder / "old") == losses(folder / "straight")
    forget(folder / "old" / "checkpoint", "dtype")
    said = run(folder, "train", "--resume", "old", "--steps", 9, code=1).stderr
    assert "is not a run of chainrule train: it does not record --dtype" in said, said


@test
def a_diverging_run_says_so(folder: Path) -> None:
    text = corpus(folder)
    words = [
        "train",
        "--data",
        text,
        *small(warmup=0),
        "--steps",
        50,
        "--optimizer",
        "sgd",
        "--lr",
        "1e12",
        "--clip",
        "0",
    ]
    said = run(folder, *words, code=1).stderr
    assert "the loss became" in said and "--lr" in said, said


def samples(folder: Path, name: str = "d.jsonl", n: int = 30) -> Path:
    rows = [{"prompt": f"line {i}:", "completion": f" the quick brown fox & {i}"} for i in range(n)]
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def base(folder: Path) -> Path:
    """A model to start from."""
    words = ["train", "--data", corpus(folder), *small(width=32, context=40), "--steps", 150, "--lr", "5e-3"]
    run(folder, *words, "--out", "base")
    return folder / "base"


def loss_of(folder: Path, *words: object) -> float:
    said = json.loads(run(folder, "eval", "--model", "base", "--data", "d.jsonl", "--json", *words).stdout)
    return float(said["loss"])


TUNE = ["--steps", 40, "--batch", 2, "--warmup", 2, "--eval-every", 20]


@test
def finetune_an_adapter_or_all_weights(folder: Path) -> None:
    """The loss falls; the base's files stay; generate, eval and export take the adapter; the whole model is a folder
    that they take."""
    base(folder)
    data, before = samples(folder), weights(folder / "base")
    first = loss_of(folder)
    words = ["finetune", "--model", "base", "--data", data, *TUNE, "--lr", "1e-2"]
    said = run(folder, *words, "--lora", 4, "--targets", "all-linear", "--out", "lora").stdout
    assert "generate --model base --adapter lora" in said and "parameters train" in said, said
    assert {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "curve.svg"} <= {
        path.name for path in (folder / "lora").iterdir()
    }
    alone = run(folder, "generate", "--model", "lora", code=1).stderr
    assert "'lora' is an adapter: give the model below it as --model, and --adapter lora" in alone, alone
    tuned = loss_of(folder, "--adapter", "lora")
    assert tuned < 0.5 * first and weights(folder / "base") == before, (first, tuned)
    run(folder, "generate", "--model", "base", "--adapter", "lora", "--prompt", "line 3:", "--tokens", 5)
    run(folder, "export", "--model", "base", "--adapter", "lora", "--out", "merged")
    merged = json.loads(run(folder, "eval", "--model", "merged", "--data", data, "--json").stdout)["loss"]
    assert abs(merged - tuned) < 1e-4, (merged, tuned)
    run(folder, *words, "--out", "all")
    whole = json.loads(run(folder, "eval", "--model", "all", "--data", data, "--json").stdout)["loss"]
    assert whole < 0.5 * first and (folder / "all" / "config.json").exists(), whole
    run(folder, "generate", "--model", "all", "--prompt", "line 3:", "--tokens", 5)
    text = run(folder, "eval", "--model", "all", "--data", folder / "text.txt").stdout
    assert all(word in text for word in ("loss", "perplexity", "bits/byte")), text
    vals = [line["val_loss"] for line in log(folder / "lora") if "val_loss" in line]
    assert len(vals) == 2 and vals[1] < vals[0] and losses(folder / "lora").keys() == set(range(1, 41))


@test
def a_resumed_fine_tuning_has_the_bits_of_an_uninterrupted_one(folder: Path) -> None:
    """Adapters with dropout, all weights in bf16 and f16, several batches a step; with one thread and with two."""
    base(folder)
    data = samples(folder)
    rows: list[list[object]] = [
        ["--lora", 4, "--dropout", 0.3, "--accumulate", 2],
        ["--lora", 2, "--dtype", "bf16"],
        ["--optimizer", "muon"],
        ["--dtype", "f16"],
    ]
    for i, options in enumerate(rows):
        words = ["finetune", "--model", "base", "--data", data, "--lr", "1e-3", "--steps", 24, "--batch", 2, *options]
        words += ["--warmup", 2, "--eval-every", 10, "--save-every", 8]
        run(folder, *words, "--out", f"{i}", "--threads", 1)
        run(folder, *words, "--out", f"{i} again", "--threads", 2, "--stop-at", 13)
        run(folder, "finetune", "--resume", f"{i} again")
        assert weights(folder / f"{i}") == weights(folder / f"{i} again"), options
        assert losses(folder / f"{i}") == losses(folder / f"{i} again"), options
    again = run(folder, "finetune", "--resume", "0", "--lora", 2, code=2).stderr
    assert "--lora cannot change" in again, again
    samples(folder, n=31)
    assert "the data differ" in run(folder, "finetune", "--resume", "0", "--steps", 30, code=1).stderr


@test
def fine_tuning_in_half_precision_and_over_codes(folder: Path) -> None:
    """All weights of a bf16 or f16 model, and adapters over such a model or a quantized one, with every --dtype: the
    loss falls, is a float32, and eval finds it again; a resumed run has the bits of an uninterrupted one."""
    base(folder)
    words: list[object] = ["--data", samples(folder), "--steps", 30, "--batch", 2, "--warmup", 2, "--lr", "1e-2"]
    for dtype in ("bf16", "f16"):
        run(folder, "export", "--model", "base", "--out", dtype, "--dtype", dtype)
    run(folder, "quantize", "--model", "bf16", "--bits", 8, "--out", "int8")
    adapter = ["--lora", 4, "--targets", "all-linear"]
    for model, options in (("bf16", []), ("f16", []), ("bf16", adapter), ("f16", adapter), ("int8", adapter)):
        for dtype in ("f32", "bf16", "f16"):
            run(folder, "finetune", "--model", model, *words, *options, "--dtype", dtype, "--out", "x", "--overwrite")
            vals = [line["val_loss"] for line in log(folder / "x") if "val_loss" in line]
            first, last = losses(folder / "x")[1], losses(folder / "x")[30]
            assert last < 0.8 * first and first * 2**12 % 1 and vals, (model, options, dtype, first, last)
            said = run(folder, "eval", *(["--model", model, "--adapter", "x"] if options else ["--model", "x"]),
                       "--data", "d.jsonl", "--dtype", dtype, "--json").stdout  # fmt: skip
            assert json.loads(said)["loss"] < 0.8 * first, (model, options, dtype)
    for options in ([], adapter):
        run(folder, "finetune", "--model", "bf16", *words, *options, "--out", "one", "--overwrite")
        run(folder, "finetune", "--model", "bf16", *words, *options, "--out", "two", "--overwrite", "--stop-at", 13)
        run(folder, "finetune", "--resume", "two", "--threads", 1)
        assert weights(folder / "one") == weights(folder / "two") and losses(folder / "one") == losses(folder / "two")
    run(folder, "finetune", "--model", "int8", *words, "--out", "y")  # its weights become floats
    assert losses(folder / "y")[30] < 0.8 * losses(folder / "y")[1]
    assert "quantization_config" not in json.loads((folder / "y" / "config.json").read_text())


@test
def export_by_the_name_and_a_padded_vocabulary(folder: Path) -> None:
    """--out m.gguf is a GGUF file.  Tokens that the model has and the tokenizer lacks have no text."""
    base(folder)
    run(folder, "export", "--model", "base", "--out", "m.gguf", "--dtype", "q8_0")
    assert (folder / "m.gguf").read_bytes()[:4] == b"GGUF"
    run(folder, "export", "--model", "base", "--out", "base2")
    config = json.loads((folder / "base2" / "config.json").read_text())
    rows = config["vocab_size"]
    assert config["bos_token_id"] is config["eos_token_id"] is None  # without these: transformers' 50256
    before = (folder / "base" / "tokenizer.json").read_text()
    (folder / "base2" / "tokenizer.json").write_text(
        json.dumps({"format": "chainrule-tokenizer", "version": 1, "kind": "chars", "characters": "eiln"})
    )
    assert (folder / "base" / "tokenizer.json").read_text() == before  # the export has files of its own
    words = ["--model", "base2", "--prompt", "line", "--tokens", 200, "--temperature", "1000000"]
    said = run(folder, "generate", *words).stdout.removesuffix("\n")
    assert rows > 20 and 4 < len(said) < 200 and set(said) <= set("eiln"), (rows, said)
    (folder / "empty").mkdir()
    said = run(folder, "generate", "--model", "empty", code=1).stderr
    assert "'empty' holds no model: neither config.json" in said, said
    said = run(folder, "generate", "--model", "base/run.jsonl", code=1).stderr
    assert "'base/run.jsonl' is one file of a model: give its folder, --model base" in said, said
    assert "'empty' holds no model" in run(folder, "import", "--model", "empty", "--out", "y", code=1).stderr


@test
def a_limit_of_file_sizes(folder: Path) -> None:
    """A file that grows beyond `ulimit -f` is a failed write with a message, and the program goes on."""
    words = ["train", "--data", corpus(folder), *small(width=64), "--steps", 3, "--out", "run"]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -f 20; exec "$@"', "sh", str(PROGRAM), *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "File too large" in done.stderr, (done.returncode, done.stderr)
    assert "the checkpoint after step 3 was not saved" in done.stderr and "validation loss" in done.stdout


@test
def fine_tuning_that_cannot_be(folder: Path) -> None:
    base(folder)
    data = samples(folder)
    run(folder, "finetune", "--data", data, code=2)
    run(folder, "finetune", "--model", "base", code=2)
    run(folder, "eval", "--model", "base", code=2)
    words = ["finetune", "--model", "base", "--data", data, "--out", "x"]
    for options, code, message in (
        (["--lora", 0], 2, "--lora must be a rank of at least 1, not 0"),
        (["--alpha", 3], 2, "--alpha needs --lora"),
        (["--lora", 2, "--targets", "c_atn"], 1, "named 'c_atn': there are c_attn,c_proj,c_fc"),
        (["--context", 41], 1, "--context is 41, the model takes at most 40"),
        (["--context", 8], 1, "d.jsonl line 1: the sample has"),
        (["--context", 3, "--truncate"], 1, "no token of the answer is within the context"),
        (["--lora", 2, "--fuse-step"], 2, "--fuse-step keeps no gradients"),
    ):
        said = run(folder, *words, *options, code=code).stderr
        assert message in said, said
    (folder / "one.jsonl").write_text('{"text": "line"}\n')
    (folder / "odd.jsonl").write_text('{"text": "line \\u2603"}\n')
    (folder / "empty.jsonl").write_text("\n")
    for name, message in (
        ("one", "the data have only one sample"),
        ("odd", "odd.jsonl line 1"),
        ("empty", "has no samples"),
        ("none", "cannot read"),
    ):
        said = run(folder, "finetune", "--model", "base", "--data", f"{name}.jsonl", "--out", "x", code=1).stderr
        assert message in said, said
    run(folder, "eval", "--model", "base", "--adapter", "base", "--data", data, code=1)
    assert not (folder / "x").exists()


@test
def a_fine_tuning_that_diverges_names_the_tensor(folder: Path) -> None:
    base(folder)
    words = ["finetune", "--model", "base", "--data", samples(folder), "--optimizer", "sgd", "--clip", 0, "--warmup", 0]
    said = run(folder, *words, "--lr", "1e12", "--steps", 30, "--out", "x", code=1).stderr
    found = re.search(r"the loss became (nan|inf) at step \d+; the largest weight is (\S+), in '(\S+\.weight)'", said)
    assert found and float(found[2]) > 1e6, said
    assert "the last good checkpoint: there is none yet" in said, said
    words += ["--lora", 2, "--lr", "1e12", "--steps", 30, "--save-every", 1]
    said = run(folder, *words, "--out", "y", code=1).stderr
    found = re.search(r"at step (\d+); .*'h\.0\.\S+lora_[AB].*checkpoint: y/checkpoint, after step (\d+)", said)
    assert found and int(found[2]) == int(found[1]) - 1, said


@test
def questions_with_choices(folder: Path) -> None:
    """A model that knows a text by heart finds its next words; the letter, the number and the text of an answer."""
    (folder / "t.txt").write_text("the cat sat. the dog ran. " * 40)
    run(folder, "train", "--data", "t.txt", *small(width=32, context=24), "--steps", 200, "--out", "base")
    rows: list[dict[str, object]] = [
        {"question": "the cat", "choices": ["ran.", "sat."], "answer": "B"},
        {"question": "the dog", "choices": ["ran.", "sat."], "answer": 0},
        {"question": "the cat ", "choices": ["ran.", "sat."], "answer": "sat."},
        {"question": "the dog", "choices": [" ran.", " sat."], "answer": 1},
    ]
    (folder / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = json.loads(run(folder, "eval", "--model", "base", "--data", "q.jsonl", "--json").stdout)
    assert said["questions"] == 4 and said["accuracy"] == said["accuracy_by_length"] == 0.75, said
    assert said["loss"] is None and said["samples"] == 0, said
    assert "accuracy    0.7500 of 4" in run(folder, "eval", "--model", "base", "--data", "q.jsonl").stdout
    said = json.loads(run(folder, "eval", "--model", "base", "--data", "t.txt", "q.jsonl", "--json").stdout)
    assert said["loss"] < 0.8 and abs(said["bits_per_byte"] - said["loss"] / math.log(2)) < 1e-6, said
    wrong: list[dict[str, object]] = [{"choices": ["a"]}, {"answer": 2}, {"answer": "C"}, {"choices": ["sat.", 5]}]
    for row in wrong:
        (folder / "bad.jsonl").write_text(json.dumps(rows[0] | row) + "\n")
        assert "bad.jsonl line 1" in run(folder, "eval", "--model", "base", "--data", "bad.jsonl", code=1).stderr


@test
def info_lists_what_there_is(folder: Path) -> None:
    said = run(folder, "info", environment={"CHAINRULE_NUM_THREADS": "1"}).stdout
    for part in ("chainrule ", "cpu ", "ref ", "(default)", "threads   1", "CHAINRULE_NUM_THREADS", "CHAINRULE_ONEDNN"):
        assert part in said, f"{part!r} is not in\n{said}"
    assert "ref" in run(folder, "info", environment={"CHAINRULE_DEVICE": "ref"}).stdout


@test
def what_the_program_did_not_write_stays(folder: Path) -> None:
    """--out with files of somebody else: an error names the first, before anything is written or removed."""
    base(folder)
    words: dict[str, list[object]] = {
        "train": ["train", "--data", folder / "text.txt", *small(warmup=1), "--steps", 2, "--overwrite"],
        "finetune": ["finetune", "--model", "base", "--data", samples(folder), "--steps", 2, "--lora", 2],
        "export": ["export", "--model", "base"],
        "quantize": ["quantize", "--model", "base2", "--bits", 8],
        "import": ["import", "--model", "base2"],
    }
    run(folder, *words["export"], "--out", "base2")
    foreign = {
        "train": ["checkpoint/thesis.txt", "checkpoint-best/model.pt", "checkpoint-7/x", ".chainrule-old/x",
                  "checkpoint/weights.safetensors", "tokenizer.json", "run.jsonl", "checkpoint/.chainrule-new/x",
                  "checkpoint"],
        "finetune": ["checkpoint/thesis.txt", "config.json", "adapter_config.json", "merges.txt"],
        "export": ["config.json", "tokenizer.json", "model-00001-of-00002.safetensors/x", "model.safetensors"],
        "quantize": ["config.json", "model.safetensors.index.json"],
        "import": ["checkpoint/thesis.txt", "tokenizer.json"],
    }  # fmt: skip
    for command, paths in foreign.items():
        for path in paths:
            if path.startswith("model-"):
                continue  # a folder of that name is in nobody's way
            out = folder / "out"
            (out / path).parent.mkdir(parents=True)
            (out / path).write_text("dear")
            (out / "notes.md").write_text("dear")
            before = sorted(str(p) for p in out.rglob("*"))
            said = run(folder, *words[command], "--out", "out", code=1).stderr
            name = path.rsplit("/", 1)[-1]
            assert name in said or path == "checkpoint/weights.safetensors", (command, path, said)
            assert sorted(str(p) for p in out.rglob("*")) == before, (command, path, said)
            assert (out / path).read_text() == "dear", (command, path)
            shutil.rmtree(out)
    (folder / "victim").mkdir()
    (folder / "victim" / "dear").write_text("dear")
    for link in ("checkpoint", "checkpoint-best", ".chainrule-old", "tokenizer.json"):
        (folder / "out").mkdir()
        (folder / "out" / link).symlink_to("../victim")
        assert link in run(folder, *words["train"], "--out", "out", code=1).stderr
        assert (folder / "victim" / "dear").exists() and (folder / "out" / link).is_symlink()
        shutil.rmtree(folder / "out")
    for command in words:  # what it wrote is replaced, and other files stay
        run(folder, *words[command], "--out", "again")
        (folder / "again" / "notes.md").write_text("dear")
        run(folder, *words[command], *(["--overwrite"] if command == "finetune" else []), "--out", "again")
        assert (folder / "again" / "notes.md").read_text() == "dear"
        shutil.rmtree(folder / "again")


@test
def output_that_cannot_be_written(folder: Path) -> None:
    if not Path("/dev/full").exists():
        return
    text = corpus(folder)
    with open("/dev/full", "w") as full:
        for words in (["info"], ["tokenize", "--data", str(text), "--out", "x.bin"]):
            done = subprocess.run(
                [str(PROGRAM), *words], cwd=folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
            )
            assert done.returncode == 1 and "standard output" in done.stderr, (
                f"{words}: {done.returncode} {done.stderr!r}"
            )


def main() -> int:
    if not PROGRAM.is_file():
        print(f"{PROGRAM} is not there: make build")
        return 1
    passed = failed = 0
    for f in TESTS:
        if len(sys.argv) > 1 and not any(word in f.__name__ for word in sys.argv[1:]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                f(Path(folder))
                passed += 1
            except (AssertionError, subprocess.TimeoutExpired, OSError, KeyError, ValueError, ElementTree.ParseError):
                failed += 1
                print(f"FAILED {f.__name__}")
                traceback.print_exc(limit=-2, file=sys.stdout)
    print(f"result: {passed} passed, {failed} failed, 0 skipped; program {passed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
