"""Language models: generation with a cache, tokens a second, steps, adapters, encoding, perplexity, loading."""

from __future__ import annotations

import tempfile
from typing import Any

from cases import CASES

from .base import Bench, Missing, Row, data_path, isas, shakespeare
from .kernels import with_without
from .training import step_rows, steps, titled


def generation(bench: Bench) -> list[Row]:
    """with and without a cache: a GPT of 4 layers 128 wide, greedy, after a prompt of 8"""
    return with_without(bench, "generation", "generation with keys and values kept", "computed anew")


# ---- tokens a second


def token_row(what: str, r: Any, peer: str, peer_ms: float | None, isa: str, group: str = "") -> Row:
    """Tokens a second; the share is that of a plain loop over as many bytes as the weights have."""
    share = r["bytes"] / r["ms"] / 1e6 / r["read"] if r["read"] else None
    return Row(what, "tokens/s", 1e3 / r["ms"], {peer: 1e3 / peer_ms} if peer_ms else {}, isa, share, group)


def llm_124m(bench: Bench) -> list[Row]:
    """GPT-2 124M: random weights, batch 1, with a cache; int8 and int4 are GGUF's Q8_0 and Q4_0, the head Q8_0

    transformers has no weights of 8 or 4 bits: those rows compare with its f32."""
    rows = []
    for isa, got in bench.by_isa("llm.py", "124M").items():
        f32 = next((r["peer_ms"] for r in got["rows"] if r["kind"] == "f32"), None)
        for r in got["rows"]:
            name = "transformers" if r["peer_ms"] else "transformers in f32"
            rows.append(token_row(f"GPT-2 124M, {r['kind']}", r, name, r["peer_ms"] or f32, isa))
            peers = {"transformers": r["peer_prompt_ms"]} if r["peer_prompt_ms"] else {}
            group = "" if r["kind"] == "bf16" else "prompts of 1,000 tokens"
            rows.append(Row(f"a prompt of 1,000 tokens, {r['kind']}", "ms", r["prompt_ms"], peers, isa, group=group))
    return rows


def llm_135m(bench: Bench) -> list[Row]:
    """a Llama of 135M: 30 layers, 576 wide, 9 heads, 3 of keys; tokens a second behind a prompt of 32

    The same numbers in llama.cpp (xllamacpp, compiled for AVX2) as Q8_0 and Q4_0."""
    return [
        token_row(f"Llama of 135M, {r['kind']}", r, "llama.cpp", r["peer_ms"], isa)
        for isa, got in bench.by_isa("llm.py", "135M").items()
        for r in got["rows"]
    ]


def lm(bench: Bench) -> list[Row]:
    """GGUF files of random Llamas, 135M and 1.1B: tokens and prompts, Q4_K_M, Q8_0, Q4_0, one thread and all

    The least times of turns with llama.cpp (xllamacpp, compiled for AVX2) over the same files."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for isa, got in bench.by_isa("llm.py", "lm", "--folder", folder).items():
            for r in got["rows"]:
                threads = f"{r['threads']} thread{'s' * (r['threads'] > 1)}"
                what = f"{r['kind'].upper()}, Llama of {r['shape']}, {threads}"
                rows.append(token_row(what, r, "llama.cpp", r["peer_ms"], isa, group=f"GGUF files, tokens, {threads}"))
                for length, (ours, theirs) in r["prompts"].items():
                    peers = {"llama.cpp": theirs} if theirs else {}
                    group = f"GGUF files, prompts, {threads}"
                    rows.append(Row(f"{what}, a prompt of {length}", "ms", ours, peers, isa, group=group))
    return rows


# ---- training steps


def llm_steps(bench: Bench) -> list[Row]:
    """a training step of GPT-2 124M in bf16 on each instruction set

    2 bytes a parameter of the memory in bf16 are copies of weights. PyTorch takes minutes without AVX-512."""
    rows = []
    for isa, env in isas().items():
        peers = ("PyTorch bf16", "PyTorch compiled bf16")
        got = steps(bench, "gpt2", ["chainrule", "chainrule bf16", *([] if env else peers)], bench.threads, env)
        if "chainrule" in got:
            got["f32"] = got.pop("chainrule")
        title = f"{titled(CASES['gpt2'])}, bf16 by instruction set"
        rows += step_rows(title, got, "chainrule bf16", ("f32", *peers), "memory by instruction set", isa=isa)
    return rows


def lora(bench: Bench) -> list[Row]:
    """a step of adapters: GPT-2 124M, 4 x 64, f32, AdamW: rank 8 beside c_attn, over f32, 8 or 4 bits

    Memory: the largest resident size beyond that before the model was loaded."""
    rows = []
    for isa, got in bench.by_isa("lora.py").items():
        full = next(r for r in got["rows"] if r["name"] == "full")
        for r in (r for r in got["rows"] if r is not full):
            what = f"adapters, {r['name']}"
            for column, unit, key in (("a step", "ms", "median_ms"), ("memory", "MB", "mb")):
                all_of_them = {"all weights": full[key]}
                rows.append(Row(f"{what}, {column}", unit, r[key], all_of_them, isa, group=f"adapters, {column}"))
    return rows


# ---- text, quantized weights, files


def bpe(bench: Bench) -> list[Row]:
    """encoding with GPT-2's vocabulary

    tiny-Shakespeare on one thread, and a file of 100 MB in documents of 20 kB on all."""
    vocabulary, text = data_path("CHAINRULE_GPT2", "gpt2"), shakespeare()
    if not (vocabulary.is_dir() and text.is_file()):
        raise Missing("GPT-2's vocabulary or the text is not here (CHAINRULE_GPT2, CHAINRULE_DATA)")
    got = bench.script("bpe.py", vocabulary, text, *bench.quick_option)
    rows = []
    for what, key, size in (
        ("one thread", "one_thread_s", got["bytes"]["text"]),
        (f"{got['threads']} threads", "threads_s", got["bytes"]["file"]),
    ):
        rates = {name: size / seconds / 1e6 for name, seconds in got[key].items()}
        ours = {name: rates.pop(name) for name in list(rates) if name.startswith("chainrule")}
        for name, rate in ours.items():
            group = "encoding, one text" if "one text" in name else ""
            rows.append(Row(f"encoding, {what}", "MB/s", rate, rates, group=group))
    return rows


def perplexity(bench: Bench) -> list[Row]:
    """perplexity of quantized weights

    A GPT of 4 layers 256 wide over bytes, trained here for 1,500 steps of 12 x 128; the last tenth of tiny-Shakespeare;
    groups of 32."""
    text = shakespeare()
    if not text.is_file():
        raise Missing("the text is not here (CHAINRULE_DATA names it)")
    got = bench.script("llm.py", "perplexity", text, *bench.quick_option)
    f32 = got.pop("f32")
    group = "perplexity of quantized weights"
    return [Row(name, "per byte", value, {"f32": f32}, group=group) for name, value in got.items()]


def load(bench: Bench) -> list[Row]:
    """loading 124M in f32: from the page cache to the first token's start; and memory after a few tokens"""
    got = bench.script("llm.py", "load")
    what = f"loading {got['file'] / 1e6:.0f} MB"
    memory = Row(f"{what}, memory after a few tokens", "MB", got["resident"] / 1e6, {"file": got["file"] / 1e6})
    return [Row(what, "ms", got["ms"]), memory]
