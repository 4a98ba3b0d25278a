"""The program at a terminal: mistakes on the command line, the live line, help, runs by the clock and by a settings
file, what a run needs.  tests/check_cli.py has the rest."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from conftest import BUILD

PROGRAM = BUILD / "chainrule"
TEXT = "".join(f"line {i}: the quick brown fox & the lazy dog\n" for i in range(80))
SMALL = "--layers 1 --heads 2 --width 16 --context 8 --batch 4".split()
COMMANDS = "train finetune eval generate chat import export checkpoint quantize tokenize plot bench info".split()


def run(folder: Path, *words: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROGRAM), *map(str, words)],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
    )


def good(folder: Path, *words: object, stdin: str = "") -> str:
    done = run(folder, *words, stdin=stdin)
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, texts of several kinds, and what is no model."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "book.txt").write_text(TEXT)
    (folder / "mark.txt").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    (folder / "latin.txt").write_bytes(b"first\ncaf\xe9 " * 100)
    (folder / "wide.txt").write_bytes(TEXT.encode("utf-16"))
    (folder / "tiny.txt").write_text("abc")
    (folder / "none.txt").write_text("")
    (folder / "d.jsonl").write_text('{"text": "line 1: the fox"}\n' * 12)
    (folder / "odd.jsonl").write_text('{"text": 3}\n')
    (folder / "empty").mkdir()
    (folder / "loose.safetensors").write_bytes(b"x" * 40)
    (folder / "broken.gguf").write_bytes(b"GGUF\x03\x00")
    files = {"name": '{"layerz": 2}', "kind": '{"layers": "two"}', "flag": '{"best": 3}', "list": "[1]", "json": "{"}
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text)
    (folder / "range.json").write_text('{"lr": 0}')
    good(folder, "train", "--data", "book.txt", *SMALL, "--steps", 30, "--sample", 0, "--out", "run")
    return folder


THERE = "a model is a chainrule run, a Hugging Face folder, or a GGUF file"
MODELS = {
    "generate": "",
    "chat": "",
    "eval": " --data d.jsonl",
    "finetune": " --data d.jsonl --out tuned",
    "quantize": " --out x",
    "import": " --out x",
    "export": " --out x",
}
TRAIN = "train --data book.txt --out x "

# Command, exit status, what the one line says.
MISTAKES: list[tuple[str, int, str]] = [
    ("", 2, "no command was given"),
    ("trian", 2, "there is no command 'trian'; did you mean 'train'?"),
    ("generat", 2, "there is no command 'generat'; did you mean 'generate'?"),
    ("quantise", 2, "did you mean 'quantize'?"),
    ("evla", 2, "there is no command 'evla'"),
    ("fine", 2, "did you mean 'finetune'?"),
    ("tokenise", 2, "did you mean 'tokenize'?"),
    ("xyzzy", 2, "there is no command 'xyzzy'\n"),
    ("--data book.txt", 2, "there is no command '--data'"),
    ("train", 2, "nothing to train on: give --data FILE..."),
    ("train book.txt", 2, "unexpected argument 'book.txt'"),
    ("train --data", 2, "--data needs a value: FILE..."),
    ("train --data missing.txt --out x", 1, "cannot read 'missing.txt': No such file"),
    ("train --data empty --out x", 1, "'empty' is a folder: give the files in it"),
    ("train --data none.txt --out x", 1, ""),
    ("train --data tiny.txt --out x", 1, "the text has 3 tokens"),
    ("train --data latin.txt --out x", 1, "'latin.txt' line 2: the byte 0xe9 is not UTF-8"),
    ("train --data book.txt latin.txt --out x", 1, "'latin.txt' line 2"),
    ("train --data wide.txt --out x", 1, "'wide.txt' is UTF-16, not UTF-8"),
    ("train --data book.txt --out run", 1, "'run' already holds a run"),
    (TRAIN + "--tokens t.bin", 2, "--data and --tokens cannot be given together"),
    (TRAIN + "--tokenizer words", 2, "--tokenizer is one of chars|bytes"),
    (TRAIN + "--tokenizer book.txt", 1, "book.txt"),
    ("train --tokens missing.bin --out x", 1, "missing.bin"),
    ("train --tokens book.txt --out x", 1, "book.txt"),
    ("train --tokens nix_*.bin --out x", 1, "nix_*.bin"),
    ("train --tokens t.bin --tokenizer bytes", 2, "--tokenizer cannot be given with it"),
    (TRAIN + "--layer 3", 2, "there is no option --layer; did you mean --layers?"),
    (TRAIN + "--stpes 3", 2, "did you mean --steps?"),
    (TRAIN + "--weight 3", 2, "did you mean --weights?"),
    (TRAIN + "--micro 3", 2, "did you mean --microbatches?"),
    (TRAIN + "--nonsense 3", 2, "there is no option --nonsense (chainrule train --help lists them)"),
    (TRAIN + "--q 3", 2, "there is no option --q ("),
    (TRAIN + "-x", 2, "unexpected argument '-x'"),
    (TRAIN + "--layers", 2, "--layers needs a value: N"),
    (TRAIN + "--layers three", 2, "--layers needs a whole number, not 'three'"),
    (TRAIN + "--layers 2.5", 2, "--layers needs a whole number, not '2.5'"),
    (TRAIN + "--layers 0", 2, "--layers must be between 1 and"),
    (TRAIN + "--layers -1", 2, "--layers must be between 1 and"),
    (TRAIN + "--layers 99999999999999999999", 2, "--layers must be between 1 and"),
    (TRAIN + "--layers 2 --layers 3", 2, "--layers is given twice"),
    (TRAIN + "--heads 0", 2, "--heads must be between"),
    (TRAIN + "--heads 3 --width 16", 1, "width must be a multiple of heads: 16 is not one of 3"),
    (TRAIN + "--width x", 2, "--width needs a whole number"),
    (TRAIN + "--context 0", 2, "--context must be between"),
    (TRAIN + "--context 100000", 1, "a context of 100000 needs at least"),
    (TRAIN + "--batch 0", 2, "--batch must be between"),
    (TRAIN + "--accumulate 0", 2, "--accumulate must be between"),
    (TRAIN + "--steps 0", 2, "--steps must be at least 1, not 0"),
    (TRAIN + "--steps -5", 2, "--steps must be at least 0, not -5"),
    (TRAIN + "--steps many", 2, "--steps needs a whole number"),
    (TRAIN + "--minutes -1", 2, "--minutes must be at least 0, not -1"),
    (TRAIN + "--minutes soon", 2, "--minutes needs a number, not 'soon'"),
    (TRAIN + "--minutes 0 --steps 0", 2, "--steps must be at least 1"),
    (TRAIN + "--lr 0", 2, "--lr must be above 0, not 0"),
    (TRAIN + "--lr -1", 2, "--lr must be above 0, not -1"),
    (TRAIN + "--lr nan", 2, "--lr needs a number, not 'nan'"),
    (TRAIN + "--lr inf", 2, "--lr needs a number, not 'inf'"),
    (TRAIN + "--lr 1e30", 2, "--lr must be between 0 and"),
    (TRAIN + "--lr 1,5", 2, "--lr needs a number, not '1,5'"),
    (TRAIN + "--min-lr -1", 2, "--min-lr must be at least 0"),
    (TRAIN + "--warmup 10 --steps 10", 2, "--warmup must be below --steps: 10 of 10"),
    (TRAIN + "--dropout 1", 2, "--dropout must be between 0 and 0.999"),
    (TRAIN + "--beta1 1", 2, "--beta1 must be between"),
    (TRAIN + "--beta2 2", 2, "--beta2 must be between"),
    (TRAIN + "--clip -1", 2, "--clip must be at least 0"),
    (TRAIN + "--optimizer adamm", 2, "--optimizer must be one of sgd|adam|adamw"),
    (TRAIN + "--dtype fp16", 2, "--dtype must be one of f32|bf16|f16, not 'fp16'"),
    (TRAIN + "--weights f16", 2, "--weights must be one of f32|bf16"),
    (TRAIN + "--weights bf16 --dtype f16", 2, "--dtype f16 cannot be combined with --weights bf16"),
    (TRAIN + "--fuse-step", 2, "--fuse-step keeps no gradients: it needs --clip 0"),
    (TRAIN + "--fuse-step --clip 0 --dtype f16", 2, "--dtype f16 needs them to scale the loss"),
    (TRAIN + "--overwrite=yes", 2, "--overwrite takes no value"),
    (TRAIN + "--no-layers", 2, "there is no option --no-layers"),
    (TRAIN + "--keep 0", 2, "--keep must be between 1 and"),
    (TRAIN + "--eval-every -1", 2, "--eval-every must be at least 0"),
    (TRAIN + "--save-every -1", 2, "--save-every must be at least 0"),
    (TRAIN + "--sample -1", 2, "--sample must be at least 0"),
    (TRAIN + "--sample-every -1", 2, "--sample-every must be at least 0"),
    (TRAIN + "--stop-at x", 2, "--stop-at needs a whole number"),
    (TRAIN + "--seed x", 2, "--seed needs a whole number"),
    (TRAIN + "--threads 5000", 2, "--threads must be between 0 and 1024"),
    (TRAIN + "--device gpu9", 1, "gpu9"),
    (TRAIN + "--device nix", 1, "nix"),
    (TRAIN + "--exchange mpi", 2, "--exchange must be one of fixed|engine"),
    (TRAIN + "--gradients f16", 2, "--gradients must be one of f32|bf16"),
    (TRAIN + "--gpus 2", 2, "--gpus 2 needs --microbatches of at least 2"),
    (TRAIN + "--gpus 2 --microbatches 2 --device cpu", 2, "--device cannot be cpu"),
    (TRAIN + "--shard-optimizer", 2, "--shard-optimizer needs --microbatches"),
    (TRAIN + "--elastic", 2, "--elastic needs --microbatches"),
    (TRAIN + "--exchange engine", 2, "--exchange and --gradients need --microbatches"),
    (TRAIN + "--layers 4000 --width 8192 --heads 4", 1, "are free: make the model, --layers or --width smaller"),
    (TRAIN + "--batch 2000000000 --context 256", 1, "3159 tokens are too few"),
    ("train --data book.txt --out book.txt", 1, "book.txt"),
    ("train --data book.txt --out /proc/nowhere", 1, "/proc/nowhere"),
    ("train --resume nowhere", 1, "'nowhere' holds no checkpoint to resume"),
    ("train --resume empty", 1, "'empty' holds no checkpoint to resume"),
    ("train --resume run --out y", 2, "--out cannot be given with it"),
    ("train --resume run --width 32", 2, "--width cannot change when a run is resumed: it was 16, not 32"),
    ("train --resume run --lr 0.5", 2, "--lr cannot change"),
    ("train --resume run --config run", 2, "--config cannot be given with it"),
    ("train --resume run --data tiny.txt", 1, "the text has 3 tokens"),
    (TRAIN + "--config missing.json", 1, "cannot read 'missing.json'"),
    (TRAIN + "--config name.json", 1, 'there is no option "layerz"; did you mean --layers?'),
    (TRAIN + "--config kind.json", 1, "\"layers\" needs a whole number, not 'two'"),
    (TRAIN + "--config flag.json", 1, '"best" needs true or false'),
    (TRAIN + "--config list.json", 1, "'list.json' is not a JSON object"),
    (TRAIN + "--config json.json", 1, "is not valid JSON"),
    (TRAIN + "--config range.json", 1, '"lr" must be above 0, not 0'),
    (TRAIN + "--config empty", 1, "cannot read 'empty/run.jsonl'"),
    *((f"{command} --model nix{more}", 1, f"there is no 'nix': {THERE}") for command, more in MODELS.items()),
    *(
        (f"{command} --model book.txt{more}", 1, f"'book.txt' is not a model: {THERE}")
        for command, more in MODELS.items()
    ),
    *(
        (f"{command} --model empty{more}", 1, "'empty' holds no model: neither config.json")
        for command, more in MODELS.items()
    ),
    *(
        (f"{command} --model run/checkpoint/weights.safetensors{more}", 1, "give its folder, --model run/checkpoint")
        for command, more in MODELS.items()
    ),
    *((f"{command} --model broken.gguf{more}", 1, "broken.gguf") for command, more in MODELS.items()),
    ("generate --model loose.safetensors", 1, "'loose.safetensors' is not a safetensors file"),
    ("generate --model run/tokenizer.json", 1, "give its folder, --model run"),
    ("generate", 2, "--model is needed"),
    ("chat", 2, "--model is needed"),
    ("eval --data d.jsonl", 2, "--model"),
    ("eval --model run", 2, "--data"),
    ("eval --model run --data odd.jsonl", 1, "odd.jsonl line 1"),
    ("finetune --data d.jsonl", 2, "nothing to start from: give --model DIR"),
    ("finetune --model run", 2, "nothing to train on: give --data FILE..."),
    ("finetune --model run --data d.jsonl --lora 0", 2, "--lora must be a rank of at least 1, not 0"),
    ("finetune --model run --data d.jsonl --alpha 3", 2, "--alpha needs --lora"),
    ("finetune --model run --data d.jsonl --lora 2 --alpha 0", 2, "--alpha must be above 0, not 0"),
    ("finetune --model run --data d.jsonl --lora 2 --targets nix --truncate --out y", 1, "named 'nix'"),
    ("finetune --model run --data d.jsonl --context 99", 1, "--context is 99, the model takes at most 8"),
    ("finetune --model run --data missing.jsonl", 1, "cannot read 'missing.jsonl'"),
    ("finetune --resume run", 1, "'run' is not a run of chainrule finetune"),
    ("generate --model run --top-p 0", 2, "--top-p must be between"),
    ("generate --model run --top-k -1", 2, "--top-k must be between 0 and"),
    ("generate --model run --temperature -1", 2, "--temperature must be between 0 and"),
    ("generate --model run --min-p 2", 2, "--min-p must be between 0 and 1"),
    ("generate --model run --repeat-penalty 0", 2, "--repeat-penalty must be between"),
    ("generate --model run --cache-dtype f64", 2, "--cache-dtype must be one of"),
    ("generate --model run --tokens -1", 2, "--tokens must be at least 0"),
    ("generate --model run --beams 0", 2, "--beams must be between 1 and"),
    ("generate --model run --samples 0", 2, "--samples must be between 1 and"),
    ("generate --model run --samples 2 --beams 2", 2, "it takes no --samples"),
    ("generate --model run --prompt a --prompt-file book.txt", 2, "--prompt and --prompt-file cannot be given"),
    ("generate --model run --prompt-file missing.txt", 1, "cannot read 'missing.txt'"),
    ("generate --model run --prompt-file empty", 1, "'empty' is a folder"),
    ("generate --model run --prompt λ", 1, "λ"),
    ("generate --model run --adapter nix", 1, "nix"),
    ("generate --model run --draft nix", 1, "there is no 'nix'"),
    ("generate --model run --temp -1", 2, "did you mean --temperature?"),
    ("quantize --model run", 2, "--model and --out are needed"),
    ("quantize --model run --out x --bits 5", 2, "--bits must be 8 or 4, not 5"),
    ("quantize --model run --out x --type q6_k --bits 8", 2, "--type q6_k excludes --bits"),
    ("quantize --model run --out x --calibrate missing.txt", 1, "missing.txt"),
    ("import --out x", 2, "--model and --out are needed"),
    ("export --model run --out x --dtype q8_0", 2, "--dtype q8_0 needs --format gguf"),
    ("export --model run --out x --format onnx", 2, "--format must be one of safetensors|gguf"),
    ("checkpoint", 2, "expected: merge DIR"),
    ("checkpoint merge", 2, "expected: merge DIR"),
    ("checkpoint split run", 2, "expected: merge DIR"),
    ("checkpoint merge nix", 1, "nix"),
    ("tokenize --data book.txt", 2, "--out is needed"),
    ("tokenize --out x.bin", 2, "--data is needed"),
    ("tokenize --data latin.txt --out x.bin", 1, "'latin.txt' line 2: the byte 0xe9 is not UTF-8"),
    ("tokenize --data book.txt --out x.bin --tokenizer nix", 2, "--tokenizer is one of chars|bytes"),
    ("tokenize --data book.txt --out x.bin --tokenizer bytes --train-bpe 300", 2, "exclude each other"),
    ("tokenize --data book.txt --out /proc/x.bin", 1, "/proc"),
    ("plot", 2, "nothing to plot"),
    ("plot nix", 1, "cannot read 'nix'"),
    ("plot empty", 1, "cannot read 'empty/run.jsonl'"),
    ("plot book.txt", 1, "line 1"),
    ("plot run -o x.png", 2, "--out x.png: the picture is SVG, not png; give a name that ends in .svg"),
    ("plot run -o x.PDF", 2, "the picture is SVG, not pdf"),
    ("plot run --log z", 2, "--log must be one of none|x|y|xy"),
    ("plot run -o", 2, "--out needs a value"),
    ("bench --only everything", 2, "--only must be one of"),
    ("info --all", 2, "there is no option --all"),
    ("info now", 2, "unexpected argument 'now'"),
]


def test_mistakes(place: Path) -> None:
    """One line says what is wrong; a wrong option also brings the usage line, which stays within 80 columns."""
    assert len(MISTAKES) >= 140
    before = sorted(str(p) for p in place.rglob("*"))

    def one(row: tuple[str, int, str]) -> str:
        command, status, sentence = row
        done = run(place, *command.split())
        first, _, rest = done.stderr.partition("\n")
        right = done.returncode == status and first.startswith("chainrule: ") and sentence in first + "\n"
        usage = (
            rest.startswith("usage: chainrule ") and max(map(len, rest.splitlines())) <= 80 if status == 2 else not rest
        )
        return (
            "" if right and usage else f"{command}: {done.returncode}, not {status}; {done.stderr!r} lacks {sentence!r}"
        )

    wrong = [said for said in map(one, MISTAKES) if said]
    assert not wrong, "\n".join(wrong)
    after = sorted(str(p) for p in place.rglob("*"))
    assert after == before, set(after) - set(before)


def test_help_fits(place: Path) -> None:
    """At most 80 columns where there is no terminal, options in groups, and two examples for each command."""
    for command in COMMANDS:
        text = good(place, command, "--help")
        assert max(map(len, text.splitlines())) <= 80, text
        assert not re.search(r" $", text, re.M), text
        examples = text.partition("\nExamples:\n")[2].splitlines()
        assert len(examples) >= 2 and all(line.startswith(f"  chainrule {command}") for line in examples), text
    groups = re.findall(r"^(\w[\w ]*):$", good(place, "train", "--help"), re.M)
    assert groups == ["Text", "Model", "Batch and processes", "Updates", "Run", "Examples"]
    assert good(place, "help", "train") == good(place, "train", "--help")


def at_terminal(folder: Path, columns: int, *words: object) -> str:
    """What the program writes on a terminal of so many columns."""
    pid, end = pty.fork()
    if not pid:
        os.chdir(folder)
        os.execv(PROGRAM, [str(PROGRAM), *map(str, words)])
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    said = b""
    while True:
        try:
            part = os.read(end, 4096)
        except OSError:  # the terminal's other side is closed
            break
        if not part:
            break
        said += part
    _, status = os.waitpid(pid, 0)
    os.close(end)
    assert status == 0, said
    return said.decode()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_live_line(place: Path, columns: int) -> None:
    """Step, total and bar stay beside the validation loss, and the line never wraps."""
    words = ["--steps", 400, "--eval-every", 50, "--sample", 0, "--overwrite", "--out", f"live{columns}"]
    said = at_terminal(place, columns, "train", "--data", "book.txt", *SMALL, *words)
    lines = [line.split("\r\n")[0] for line in said.split("\r\033[K")[1:]]
    assert lines and all(len(line) < columns for line in lines), lines
    late = [line for line in lines if " val " in line]
    assert late and all(re.match(r" *\d+/400 \[[=> ]{5,}\] loss \d", line) for line in late), late
    assert ("tokens/s" in late[-1]) == (columns > 60) and " left" in late[-1], late[-1]


def test_help_follows_the_terminal(place: Path) -> None:
    for columns in (50, 80, 120):
        lines = at_terminal(place, columns, "plot", "--help").splitlines()
        text = [line for line in lines if not line.startswith("  chainrule")]
        assert columns - 20 < max(map(len, text)) <= columns or columns == 120, text


def rows(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "run.jsonl").read_text().splitlines()]


def test_minutes(place: Path) -> None:
    """A run by the clock ends in time, its rate falls to the least, and it goes on where it was stopped."""
    began = time.monotonic()
    words = ["--data", "book.txt", *SMALL, "--sample", 0, "--eval-every", 0]
    said = good(place, "train", *words, "--minutes", 0.03, "--out", "clock")
    assert 1.8 <= time.monotonic() - began < 30 and "validation loss" in said, said
    rates = [float(str(row["lr"])) for row in rows(place / "clock") if "lr" in row and "loss" in row]
    assert max(rates) > 9e-4 and rates[-1] < 2e-4 and rates[0] < 1e-4, (rates[0], max(rates), rates[-1])
    assert "done already" in good(place, "train", "--resume", "clock")
    stopped = good(place, "train", *words, "--minutes", 0.03, "--out", "halves", "--stop-at", 5)
    assert "stopped after step 5 and " in stopped and f"{PROGRAM} train --resume halves" in stopped, stopped
    assert "validation loss" in good(place, "train", "--resume", "halves")
    both = good(place, "train", *words, "--minutes", 5, "--steps", 3, "--warmup", 1, "--out", "both")
    assert "3 steps" in both and "mean of the last 3 steps" in both, both
    done = rows(place / "halves")[-1]["step"]
    assert f"{int(str(done)) + 3} steps" in good(place, "train", "--resume", "halves", "--steps", int(str(done)) + 3)


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--no-compile",
        "--layers 3 --width 64",
        "--dtype bf16",
        "--clip 0 --fuse-step",
        "--batch 40",
        "--layers 6 --width 64 --gradient-checkpointing --batch 40 --no-compile",
    ],
)
def test_what_a_run_needs(place: Path, options: str) -> None:
    """The estimate of the first lines against the most that tensors held."""
    base = "--heads 2 --context 32" if "layers" in options else "--layers 2 --width 48 --heads 2 --context 32"
    batch = "" if "batch" in options else "--batch 8"
    words = f"{base} {batch} {options} --steps 4 --warmup 1 --sample 0 --overwrite --out need".split()
    said = good(place, "train", "--data", "book.txt", *words)
    found = re.search(r"memory  about ([\d.]+) (kB|MB): parameters .*; free \d.*\n", said)
    held = re.search(r"at most ([\d.]+) MB held by tensors", said)
    assert found and held, said
    estimate = float(found[1]) / (1000 if found[2] == "kB" else 1)
    assert 0.85 < estimate / float(held[1]) < 1.25, (options, estimate, held[1])


def test_gradient_checkpointing(place: Path) -> None:
    """The same losses and weights, with dropout, in half precision and in a recorded step; less memory."""
    words = (
        "--layers 6 --heads 2 --width 32 --context 32 --batch 24 --steps 6 --warmup 1 --sample 0 --dropout 0.2".split()
    )
    for options in ("", "--no-compile", "--dtype bf16", "--accumulate 3", "--clip 0 --fuse-step"):
        peaks = []
        for name in ("kept", "again"):
            flag = ["--gradient-checkpointing"] if name == "again" else []
            good(place, "train", "--data", "book.txt", *words, *options.split(), *flag, "--overwrite", "--out", name)
            peaks.append(int(str(rows(place / name)[-1]["peak_bytes"])))
        kept, again = (
            [(row.get("loss"), row.get("norm"), row.get("val_loss")) for row in rows(place / name)]
            for name in ("kept", "again")
        )
        assert kept == again and len(kept) > 6, options
        assert peaks[1] < 0.75 * peaks[0], (options, peaks)
    good(place, "train", "--resume", "again", "--steps", 8, "--no-gradient-checkpointing")
    good(place, "train", "--resume", "kept", "--steps", 8, "--gradient-checkpointing")
    assert [row.get("loss") for row in rows(place / "again")] == [row.get("loss") for row in rows(place / "kept")]


def test_a_model_that_does_not_fit(place: Path) -> None:
    """Under `ulimit -v` the first lines come first, and nothing was allocated or written."""
    for options, smaller in (
        ("--layers 24 --width 2048", "the model, --layers or --width"),
        ("--layers 40 --width 512 --batch 85 --context 32", "--batch or --context"),
    ):
        command = f"ulimit -v 1500000; exec '{PROGRAM}' train --data book.txt --out big {options}"
        done = subprocess.run(["sh", "-c", command], cwd=place, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and "model   GPT of 1" in done.stdout and "memory  about " in done.stdout, done
        said = rf"chainrule: the run needs about [\d.]+ GB of memory, and [\d.]+ .B are free: make {smaller} smaller\n"
        assert re.fullmatch(said, done.stderr), done.stderr
        assert not (place / "big").exists()


def test_a_last_save_without_room(place: Path) -> None:
    """The moments do not fit below the limit of file sizes, the weights do: they are saved alone, and write text."""
    words = "--layers 1 --heads 2 --width 64 --context 8 --batch 4 --steps 3 --warmup 1 --sample 0 --out full"
    limited = f"ulimit -f 600; exec '{PROGRAM}' train --data book.txt {words}"  # blocks of 512 bytes
    done = subprocess.run(["sh", "-c", limited], cwd=place, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "the weights alone are saved" in done.stderr, done.stderr
    assert "full/checkpoint-weights" in done.stderr
    assert len(good(place, "generate", "--model", "full/checkpoint-weights", "--tokens", 9)) > 9
    good(place, "train", "--data", "book.txt", *words.split(), "--overwrite")
    assert not (place / "full" / "checkpoint-weights").exists()


def test_saves_with_validations(place: Path) -> None:
    words = ["--data", "book.txt", *SMALL, "--steps", 60, "--eval-every", 20, "--sample", 0]
    good(place, "train", *words, "--stop-at", 30, "--keep", 3, "--out", "saves")
    assert {"checkpoint", "checkpoint-20"} <= {p.name for p in (place / "saves").iterdir()}
    assert rows(place / "saves")[0]["save-every"] == 20


def test_settings_from_a_file(place: Path) -> None:
    """What a run wrote gives the same run again; the command line comes first."""
    words = ["train", "--data", "book.txt", *SMALL, "--steps", 20, "--sample", 0, "--no-compile", "--seed", 5]
    good(place, *words, "--out", "first")
    for name in ("first", "first/run.jsonl"):
        good(place, "train", "--config", name, "--data", "book.txt", "--out", "again", "--overwrite")
        assert [row.get("loss") for row in rows(place / "again")] == [row.get("loss") for row in rows(place / "first")]
    assert rows(place / "again")[0]["compile"] == ""
    (place / "own.json").write_text(
        json.dumps({"data": ["book.txt"], "width": 16, "heads": 2, "steps": 3, "best": True})
    )
    good(place, "train", "--config", "own.json", "--layers", 1, "--heads", 4, "--sample", 0, "--out", "own")
    start = rows(place / "own")[0]
    assert (start["width"], start["heads"], start["layers"], start["steps"], start["best"]) == (16, 4, 1, 3, "yes")


def test_prompts_and_samples(place: Path) -> None:
    """From a file and standard input, without the last line break; several texts, the first as when there is one."""
    words = ["generate", "--model", "run", "--tokens", 12]
    one = good(place, *words, "--prompt", "line 4")
    assert good(place, *words, "--prompt", "-", stdin="line 4\n") == one
    (place / "prompt").write_bytes(b"line 4\n")
    assert good(place, *words, "--prompt-file", "prompt") == one
    three = good(place, *words, "--prompt", "line 4", "--samples", 3)
    parts = re.split(r"(?:^|\n)--- sample \d of 3 ---\n", three)[1:]
    assert len(parts) == 3 and parts[0] == one and len(set(parts)) == 3, three


def test_samples_while_training(place: Path) -> None:
    """They are written, and change no loss."""
    words = ["train", "--data", "book.txt", *SMALL, "--steps", 40, "--dropout", 0.1, "--sample", 9]
    good(place, *words, "--out", "quiet")
    said = good(place, *words, "--sample-every", 10, "--out", "loud")
    assert [f"--- a sample after step {n} ---" in said for n in (10, 20, 30)] == [True] * 3, said
    assert [row.get("loss") for row in rows(place / "quiet")] == [row.get("loss") for row in rows(place / "loud")]


def test_texts_of_other_encodings(place: Path) -> None:
    """A byte-order mark is left out and named; the tokenizer of bytes takes any text."""
    for name in ("book", "mark"):
        done = run(place, "train", "--data", f"{name}.txt", *SMALL, "--steps", 3, "--sample", 0, "--out", f"of {name}")
        assert done.returncode == 0 and ("byte-order mark, which is left out" in done.stderr) == (name == "mark"), done
    assert rows(place / "of mark")[1]["loss"] == rows(place / "of book")[1]["loss"]
    for name in ("latin", "wide"):
        good(
            place, "train", "--data", f"{name}.txt", "--tokenizer", "bytes", *SMALL, "--steps", 3, "--out", f"of {name}"
        )


def test_a_run_is_a_model(place: Path) -> None:
    """quantize, import and export take a run, or a checkpoint in it, with its tokenizer."""
    for model in ("run", "run/checkpoint"):
        for command, more in (("quantize", ["--bits", 8]), ("import", []), ("export", [])):
            out = f"{command} of {model.replace('/', ' ')}"
            done = run(place, command, "--model", model, "--out", out, *more)
            if command == "quantize" and "blocks of 32" in done.stderr:
                continue  # the width is no multiple of a block
            assert done.returncode == 0, done.stderr
            assert len(good(place, "generate", "--model", out, "--tokens", 5)) > 5
    assert f"{PROGRAM} generate --model 'two words' --prompt" in good(
        place, "train", "--data", "book.txt", *SMALL, "--steps", 3, "--sample", 0, "--out", "two words"
    )


def test_ctrl_c_while_the_server_imports(place: Path) -> None:
    """At any moment before it serves, Ctrl-C ends it without a word."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(BUILD / "python"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    for seconds in (0.01, 0.03, 0.06, 0.1, 0.15):
        with subprocess.Popen(
            [str(PROGRAM), "serve", "--port", "0", "--model", "run"],
            cwd=place,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            time.sleep(seconds)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)[1]
        assert "Traceback" not in said and "KeyboardInterrupt" not in said, (seconds, said)
    done = subprocess.run(
        [str(PROGRAM), "serve", "--model", "nix"],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1 and f"there is no 'nix': {THERE}" in done.stderr, done


def test_the_package_has_the_program(tmp_path: Path) -> None:
    """The script of a wheel calls the extension: exit codes, arguments as bytes, the weights of the program."""
    code = "import sys; from chainrule._program import main; sys.exit(main())"
    package = str(BUILD / "python")

    def script(*words: bytes, **more: str) -> subprocess.CompletedProcess[bytes]:
        command: list[str | bytes] = [sys.executable, "-c", code, *words]
        return subprocess.run(
            command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": package, **more}, capture_output=True
        )

    assert script(b"--version").stdout.decode() == good(tmp_path, "--version")
    mistake = script(b"trian")
    assert mistake.returncode == 2 and b"did you mean 'train'?" in mistake.stderr
    missing = script(b"train", b"--data", b"caf\xe9.txt")
    assert missing.returncode == 1 and b"caf\xe9.txt': No such file" in missing.stderr, missing.stderr
    (tmp_path / "book.txt").write_text(TEXT)
    words = [word.encode() for word in [*SMALL, "--data", "book.txt", "--steps", "3", "--out", "run"]]
    assert script(b"train", *words).returncode == 0
    good(tmp_path, "train", *SMALL, "--data", "book.txt", "--steps", "3", "--out", "other")
    files = [(tmp_path / name / "checkpoint/weights.safetensors").read_bytes() for name in ("run", "other")]
    tensors = [data[8 + struct.unpack_from("<Q", data)[0] :] for data in files]  # the header has times
    assert tensors[0] == tensors[1] and tensors[0]
