"""Language models with random weights in real shapes, and the perplexity of a small one that is trained here.

use: llm.py [--threads N] [--quick] PART [--kinds f32 bf16 int8 int4]        prints JSON

124M         GPT-2's shape: {"read", "peer", "rows": [{"kind", "bytes", "ms", "peer_ms", "prompt_ms", "peer_prompt_ms",
             "read"}]}
135M         a Llama of 30 layers, 576 wide, 9 heads, 3 of keys, 1536 inside, 49152 tokens, a tied head; weights of 8
             and 4 bits in groups of 32 beside llama.cpp (xllamacpp) with Q8_0 and Q4_0 of the same numbers
lm           Llamas of 135M and 1.1B (22 layers, 2048 wide, 32 heads, 4 of keys, 5632 inside) in GGUF files as they lie,
             Q4_K_M, Q8_0 and Q4_0, beside llama.cpp over the same file, by one thread and by N: {"rows": [{"shape",
             "kind", "threads", "bytes", "read", "ms", "peer_ms", "prompts": {length: [ms, peer_ms]}}]}.  The files lie
             in --folder, and are written where they are missing
load         124M in f32 from a folder, in a process of its own: the bytes of the file, the least milliseconds until the
             model can take its first token, and the bytes in memory after a few tokens beyond those that Python had
perplexity   a GPT of 4 layers 256 wide over the bytes of a TEXT, its last tenth held out

ms: the median time of a token, batch 1, with a cache of 32 to 64 positions, greedy.  bytes: of the weights that a token
reads.  read: GB/s that a plain loop reads (bench/memory) of as many bytes, the best of before and after.  transformers,
where it is installed with PyTorch, runs the same shapes in the same turns; it has f32 and bf16 only."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import chainrule as cr
from chainrule import models, optim
from chainrule.data import Tokenizer
from chainrule.models import CausalLM

BUILD = Path(os.environ.get("CHAINRULE_BUILD", Path(__file__).resolve().parents[1] / "build" / "release"))
KINDS = ("f32", "bf16", "int8", "int4")
LLAMA = {"layers": 30, "heads": 9, "width": 576, "inner": 1536, "kv_heads": 3, "tied": True}
LLAMA_LARGE = {"layers": 22, "heads": 32, "width": 2048, "inner": 5632, "kv_heads": 4}
PROMPT, PREFILL = 32, 1000
TYPES, PROMPTS = ("q4_k_m", "q8_0", "q4_0"), (400, 1000)
SLOW = 10_000  # ms; a peer that took longer is not measured again


def made(name: str) -> CausalLM:
    cr.manual_seed(0)
    if name == "124M":
        return models.GPT(50257, 1024, 12, 12, 768).eval()
    vocabulary, shape = (32000, LLAMA_LARGE) if name == "1.1B" else (49152, LLAMA)
    return models.Llama(vocabulary, 2048, **shape).eval()  # type: ignore[arg-type]


def turned_into(model: CausalLM, kind: str) -> CausalLM:
    if kind == "bf16":
        return model.bfloat16()
    return model.quantize(int(kind[3:])) if kind.startswith("int") else model


def bytes_read(model: CausalLM) -> int:
    """Of the weights that every token needs: all but the rows of embeddings, which a tied head reads."""
    tables = ("wpe.", "" if model.output is getattr(model, "wte", getattr(model, "embed_tokens", None)) else "embed_")
    return sum(
        t.numel() * t.element_size()
        for name, t in model.state_dict().items()
        if not name.startswith(tuple(word for word in tables if word))
    )


def token_times(model: CausalLM, n: int) -> list[float]:
    """Milliseconds of each token behind a prompt, by ``CausalLM.stream``."""
    times, start = [], 0.0
    for _ in model.stream([(7 * i) % 1000 for i in range(PROMPT)], n + 1, 0):
        if start:  # behind the first, which reads the prompt
            times.append(1e3 * (time.perf_counter() - start))
        start = time.perf_counter()
    return times


def prompt_time(model: CausalLM, length: int = PREFILL) -> float:
    with cr.no_grad():
        ids = cr.tensor([[(7 * i) % 1000 for i in range(length)]])
        start = time.perf_counter()
        float(model.logits(model.hidden(ids)[:, -1:]).sum())
        return 1e3 * (time.perf_counter() - start)


class Peer:
    """transformers over PyTorch, GPT-2's shape."""

    def __init__(self, kind: str, threads: int) -> None:
        import torch
        import transformers

        torch.set_num_threads(threads)
        self.torch = torch
        made: Any = transformers.GPT2LMHeadModel(transformers.GPT2Config())
        self.model = made.eval().to(torch.bfloat16 if kind == "bf16" else torch.float32)

    def token_times(self, n: int) -> list[float]:
        times: list[float] = []
        with self.torch.no_grad():
            got = self.model(self.torch.tensor([[(7 * i) % 1000 for i in range(PROMPT)]]), use_cache=True)
            for _ in range(n):
                start = time.perf_counter()
                token = got.logits[:, -1:].argmax(-1)
                got = self.model(token, past_key_values=got.past_key_values, use_cache=True)
                times.append(1e3 * (time.perf_counter() - start))
        return times

    def prompt_time(self) -> float:
        with self.torch.no_grad():
            ids = self.torch.tensor([[(7 * i) % 1000 for i in range(PREFILL)]])
            start = time.perf_counter()
            self.model(ids, use_cache=True, logits_to_keep=1)
            return 1e3 * (time.perf_counter() - start)


class LlamaCpp:
    """llama.cpp with a GGUF file, by its own server, whose answer tells its own time of the tokens."""

    def __init__(self, file: Path, threads: int, context: int = 256) -> None:
        import xllamacpp

        p = xllamacpp.CommonParams()
        p.model.path, p.n_ctx, p.n_parallel, p.warmup, p.verbosity = str(file), context, 1, True, -1
        p.cpuparams.n_threads = p.cpuparams_batch.n_threads = threads
        self.server = xllamacpp.Server(p)

    def timings(self, prompt: int, n: int) -> dict[str, float]:
        body = {"prompt": [(7 * i) % 1000 for i in range(prompt)], "n_predict": n, "temperature": 0, "top_k": 1}
        data = json.dumps({**body, "ignore_eos": True, "cache_prompt": False}).encode()
        request = Request(self.server.listening_address + "/completion", data, {"Content-Type": "application/json"})
        with urlopen(request) as answer:
            found: dict[str, float] = json.load(answer)["timings"]
        return found

    def token_time(self, n: int) -> float:
        """Milliseconds a token."""
        return self.timings(PROMPT, n)["predicted_per_token_ms"]

    def prompt_time(self, length: int) -> float:
        return self.timings(length, 1)["prompt_ms"]


def read_rate(threads: int, size: int) -> float | None:
    """GB/s of a plain loop over so many bytes; None: bench/memory is not built."""
    program = BUILD / "bench" / "memory"
    if not program.exists():
        return None
    done = subprocess.run([program, str(threads), str(size)], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["rows"][-1]["read"])


def best(*rates: float | None) -> float | None:
    return max((rate for rate in rates if rate), default=None)


def beside_transformers(kind: str, o: argparse.Namespace, peers: bool) -> dict[str, Any]:
    model, n = turned_into(made("124M"), kind), 8 if o.quick else 32
    size = bytes_read(model)
    before = read_rate(o.threads, size)
    peer = Peer(kind, o.threads) if peers and not kind.startswith("int") else None
    ours, theirs, prompts, their_prompts = [], [], [], []
    for _ in range(1 if o.quick else 3):
        ours += token_times(model, n)
        prompts.append(prompt_time(model))
        if peer and sum(theirs) + sum(their_prompts) < SLOW:
            theirs += peer.token_times(n)
            their_prompts.append(peer.prompt_time())
    return {
        "kind": kind,
        "bytes": size,
        "ms": statistics.median(ours),
        "peer_ms": statistics.median(theirs) if theirs else None,
        "prompt_ms": min(prompts),
        "peer_prompt_ms": min(their_prompts) if their_prompts else None,
        "read": best(before, read_rate(o.threads, size)),
    }


def beside_llama_cpp(kind: str, o: argparse.Namespace, peers: bool) -> dict[str, Any]:
    model, n, theirs = made("135M"), 8 if o.quick else 64, []
    with tempfile.TemporaryDirectory() as folder:
        if peers:
            file = Path(folder) / "m.gguf"
            model.save_gguf(file, {"int8": "q8_0", "int4": "q4_0"}[kind], tokenizer=Tokenizer.bytes())
            peer = LlamaCpp(file, o.threads)
        model = turned_into(model, kind)
        size, ours = bytes_read(model), []
        before = read_rate(o.threads, size)
        for _ in range(1 if o.quick else 5):
            ours += [statistics.mean(token_times(model, n))]
            theirs += [peer.token_time(n)] if peers else []
    return {
        "kind": kind,
        "bytes": size,
        "ms": statistics.median(ours),
        "peer_ms": statistics.median(theirs) if theirs else None,
        "read": best(before, read_rate(o.threads, size)),
    }


def file_rows(file: Path, shape: str, kind: str, o: argparse.Namespace, peers: bool) -> list[dict[str, Any]]:
    """The least times of turns, so that a machine with other work is seen as well as it can be."""
    model, rows = models.from_pretrained(file), []
    size, prompts = bytes_read(model), [n for n in PROMPTS if not o.quick or n == PROMPTS[0]]
    for threads in sorted({1, o.threads}):
        cr.set_num_threads(threads)
        peer = LlamaCpp(file, threads, PROMPTS[-1] + 64) if peers else None
        ours: list[float] = []
        theirs: list[float] = []
        times: dict[int, list[list[float]]] = {n: [[], []] for n in prompts}
        read = read_rate(threads, size)
        for _ in range(1 if o.quick else 3):
            ours += [statistics.mean(token_times(model, 8 if o.quick else 32))]
            theirs += [peer.token_time(8 if o.quick else 32)] if peer else []
            for n, (own, other) in times.items():
                own += [prompt_time(model, n)]
                other += [peer.prompt_time(n)] if peer else []
        least = {n: [min(found, default=None) for found in both] for n, both in times.items()}
        row = {"shape": shape, "kind": kind, "threads": threads, "bytes": size, "read": read, "prompts": least}
        rows.append({**row, "ms": min(ours), "peer_ms": min(theirs, default=None)})
    return rows


def lm(o: argparse.Namespace, peers: bool) -> list[dict[str, Any]]:
    """By shape and type; --quick: the small one."""
    rows = []
    for shape in ("135M",) if o.quick else ("135M", "1.1B"):
        for kind in TYPES:
            file = Path(o.folder) / f"{shape}-{kind}.gguf"
            if not file.exists():
                made(shape).save_gguf(file, kind, tokenizer=Tokenizer.bytes())
            rows += file_rows(file, shape, kind, o, peers)
    return rows


def resident() -> int:
    """Bytes of this process in memory; those of mapped files too."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS")))


def loaded(folder: str) -> dict[str, float]:
    """What ``load`` says, of this process, which has loaded nothing yet."""
    before, times = resident(), []
    for _ in range(5):
        start = time.perf_counter()
        model = models.from_pretrained(folder)
        times.append(1e3 * (time.perf_counter() - start))
    model.generate([1, 2, 3], 4, temperature=0)
    return {
        "file": (Path(folder) / "model.safetensors").stat().st_size,
        "ms": min(times),
        "resident": resident() - before,
    }


def load() -> dict[str, float] | None:
    """None: no /proc."""
    if not Path("/proc/self/status").exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        made("124M").save_pretrained(folder)
        command = [sys.executable, __file__, "load", "--folder", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    got: dict[str, float] = json.loads(done.stdout)
    return got


def perplexity(o: argparse.Namespace) -> dict[str, float]:
    """By kind of weights, over the last tenth of a text; 4 bits to nearest, and balanced by a part of the rest."""
    text = list(Path(o.text).read_bytes()[: 200_000 if o.quick else None])
    cut, T, steps = len(text) * 9 // 10, 128, 100 if o.quick else 1500
    cr.manual_seed(1)
    model, data, g = models.GPT(256, T, 4, 4, 256), cr.tensor(text[:cut]), cr.Generator().manual_seed(2)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, 1e-4)
    for _ in range(steps):
        starts = cr.randint(0, cut - T - 1, (12,), generator=g).tolist()
        batch = cr.stack([data[s : s + T + 1] for s in starts])
        model.loss(batch[:, :-1], batch[:, 1:]).backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    windows = (len(text) - cut - 1) // T // 8 * 8
    held = cr.tensor(text[cut : cut + windows * T + 1])
    x, y = held[:-1].view(-1, 8, T), held[1:].view(-1, 8, T)

    def of(model: CausalLM) -> float:
        with cr.no_grad():
            return math.exp(statistics.mean(float(model.eval().loss(x[i], y[i]).float()) for i in range(len(x))))

    found = {"f32": of(model)}
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        for name in "bf16", "int8", "int4", "int4, balanced":
            again = models.from_pretrained(folder)
            if name == "int4, balanced":
                again.quantize(4, text[: 16 * 1024])
            else:
                turned_into(again, name)
            found[name] = of(again)
    return found


def installed(*names: str) -> str | None:
    """The version of the first of some packages; None, and a line, where one is missing."""
    if all(importlib.util.find_spec(name) for name in names):
        return importlib.metadata.version(names[0])
    print(f"{names[0]} is not installed: chainrule alone", file=sys.stderr)
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=("124M", "135M", "lm", "load", "perplexity"))
    parser.add_argument("text", nargs="?", help="of perplexity")
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--quick", action="store_true", help="one round of 8 tokens")
    parser.add_argument("--kinds", nargs="+", choices=KINDS)
    parser.add_argument("--folder", help="of lm: its files; else only load this model, and print what load has")
    o = parser.parse_args()
    cr.set_num_threads(o.threads)
    got: Any
    if o.part == "lm":
        peer = installed("xllamacpp")
        with tempfile.TemporaryDirectory() as folder:
            o.folder = o.folder or folder
            got = {"peer": peer, "rows": lm(o, bool(peer))}
    elif o.folder:
        got = loaded(o.folder)
    elif o.part == "load":
        got = load()
    elif o.part == "perplexity":
        got = perplexity(o)
    elif o.part == "124M":
        peer = installed("transformers", "torch")
        got = {"peer": peer, "rows": [beside_transformers(kind, o, bool(peer)) for kind in o.kinds or KINDS]}
    else:
        peer = installed("xllamacpp")
        kinds = o.kinds or ("int8", "int4")
        got = {"peer": peer, "rows": [beside_llama_cpp(kind, o, bool(peer)) for kind in kinds]}
    print(json.dumps(got))


if __name__ == "__main__":
    main()
