"""Language models with random weights: tokens a second in generation, by dtype of the weights, and a prompt of 1,000.

use: llm.py [--threads N] [--quick] [--models 124M 135M] [--kinds f32 bf16 int8 int4]        prints JSON:
{"threads", "read": GB/s or null, "peer": the version of transformers or null, "rows": [{"model", "kind",
"bytes", "ms", "peer_ms", "prompt_ms", "peer_prompt_ms"}], "load": {"file", "ms", "resident"}}

124M: GPT-2's shape.  135M: a Llama of 30 layers, 576 wide, 9 heads, 3 of keys, 1536 inside, 49152 tokens, a tied head.
ms: the median time of a token, batch 1, with a cache of 32 to 64 positions, greedy.  bytes: of the weights that a token
reads.  read: what a plain loop over f32 reads from memory (bench/memory), before and after.  transformers, where it is
installed with PyTorch, runs the same shapes in the same turns; it has f32 and bf16 only.
load: 124M in f32 from a folder, in a process of its own: the bytes of the file, the least milliseconds until the model
can take its first token, and the bytes in memory after a few tokens beyond those that Python had before."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import chainrule as cr
from chainrule import models
from chainrule.models.decoder import Decoder

BUILD = Path(os.environ.get("CHAINRULE_BUILD", Path(__file__).resolve().parents[1] / "build" / "release"))
KINDS = ("f32", "bf16", "int8", "int4")
LLAMA = {"layers": 30, "heads": 9, "width": 576, "inner": 1536, "kv_heads": 3, "tied": True}
PROMPT, PREFILL = 32, 1000


def made(name: str) -> Decoder:
    cr.manual_seed(0)
    if name == "124M":
        return models.GPT(50257, 1024, 12, 12, 768).eval()
    return models.Llama(49152, 2048, **LLAMA).eval()  # type: ignore[arg-type]


def turned_into(model: Decoder, kind: str) -> Decoder:
    if kind == "bf16":
        return model.bfloat16()
    return model.quantize(int(kind[3:]), 64) if kind.startswith("int") else model


def bytes_read(model: Decoder) -> int:
    """Of the weights that every token needs: all but the rows of embeddings, which a tied head reads."""
    tables = ("wpe.", "" if model.output is getattr(model, "wte", getattr(model, "embed_tokens", None)) else "embed_")
    return sum(
        t.numel() * t.element_size()
        for name, t in model.state_dict().items()
        if not name.startswith(tuple(word for word in tables if word))
    )


def token_times(model: Decoder, n: int) -> list[float]:
    """Milliseconds of each token behind a prompt, by the steps of ``Decoder.generate``."""
    p, ids, times = next(model.parameters()), [(7 * i) % 1000 for i in range(PROMPT)], []
    caches = [tuple(p.new_empty(model.cache_shape(PROMPT + n)) for _ in "kv") for _ in model.blocks]
    with cr.no_grad():
        x = model.hidden(cr.tensor([ids]), caches, 0)
        for past in range(PROMPT, PROMPT + n):
            start = time.perf_counter()
            token = int(model.logits(x[:, -1:]).argmax())
            x = model.hidden(cr.tensor([[token]]), caches, past)
            times.append(1e3 * (time.perf_counter() - start))
    return times


def prompt_time(model: Decoder) -> float:
    with cr.no_grad():
        ids = cr.tensor([[(7 * i) % 1000 for i in range(PREFILL)]])
        start = time.perf_counter()
        float(model.logits(model.hidden(ids)[:, -1:]).sum())
        return 1e3 * (time.perf_counter() - start)


class Peer:
    """transformers over PyTorch, the same shape."""

    def __init__(self, name: str, kind: str, threads: int) -> None:
        import torch
        import transformers

        torch.set_num_threads(threads)
        self.torch = torch
        if name == "124M":
            made: Any = transformers.GPT2LMHeadModel(transformers.GPT2Config())
        else:
            sizes = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "vocab_size": 49152}
            heads = {"num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": True}
            made = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads))
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


def read_rate(threads: int) -> float | None:
    """GB/s of a plain loop over 51 MB of f32; None: bench/memory is not built."""
    program = BUILD / "bench" / "memory"
    if not program.exists():
        return None
    done = subprocess.run([program, str(threads)], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["rows"][-1]["read"])


def measured(name: str, kind: str, o: argparse.Namespace, peers: bool) -> dict[str, Any]:
    model, n = turned_into(made(name), kind), 8 if o.quick else 32
    peer = Peer(name, kind, o.threads) if peers and not kind.startswith("int") else None
    ours, theirs, prompts, their_prompts = [], [], [], []
    for _ in range(1 if o.quick else 3):
        ours += token_times(model, n)
        theirs += peer.token_times(n) if peer else []
        prompts.append(prompt_time(model))
        their_prompts += [peer.prompt_time()] if peer else []
    return {
        "model": name,
        "kind": kind,
        "bytes": bytes_read(model),
        "ms": statistics.median(ours),
        "peer_ms": statistics.median(theirs) if theirs else None,
        "prompt_ms": min(prompts),
        "peer_prompt_ms": min(their_prompts) if their_prompts else None,
    }


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
        command = [sys.executable, __file__, "--load", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    got: dict[str, float] = json.loads(done.stdout)
    return got


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=min(2, len(os.sched_getaffinity(0))))
    parser.add_argument("--quick", action="store_true", help="one round of 8 tokens")
    parser.add_argument("--models", nargs="+", choices=("124M", "135M"), default=["124M", "135M"])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--load", metavar="FOLDER", help="only load this model, and print what load has")
    o = parser.parse_args()
    cr.set_num_threads(o.threads)
    if o.load:
        print(json.dumps(loaded(o.load)))
        return
    peers = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
    if not peers:
        print("transformers is not installed: chainrule alone", file=sys.stderr)
    before = read_rate(o.threads)
    rows = [measured(name, kind, o, peers) for name in o.models for kind in o.kinds]
    after = read_rate(o.threads)
    version = None
    if peers:
        import transformers

        version = transformers.__version__
    read = max(before, after) if before and after else None
    print(json.dumps({"threads": o.threads, "read": read, "peer": version, "rows": rows, "load": load()}))


if __name__ == "__main__":
    main()
