"""Language models: generation with a cache, and part llm, which has a section for each of LLM_PARTS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .base import Bench, data_path, isas, shakespeare
from .kernels import with_without
from .lines import at_most, median_and_least, reached, table, verdict, within
from .training import steps


def generation(bench: Bench) -> None:
    bench.section(
        "Generation with a cache",
        "On the cpu, a GPT of 4 layers 128 wide, greedy, after a prompt of 8; both ways write the same tokens.",
    )
    if results := with_without(bench, "generation", ("keys and values kept", "computed anew")):
        bench.data["generation"] = results


def llm(bench: Bench) -> None:
    for name in bench.llm or LLM_PARTS:
        bench.data.setdefault("llm", {})[name] = LLM_PARTS[name](bench)
        bench.say(*([bench.measured, ""] if bench.measured else []))


def without(found: dict[str, Any], peer: str) -> list[str]:
    return [] if all(got and got["peer"] for got in found.values()) else ["", f"{peer} is not installed here."]


def quotient(a: float | None, b: float | None) -> float | None:
    """None where one of both was not measured."""
    return a / b if a and b else None


def cell(value: float | None, form: str, unit: str = "") -> str:
    return f"{value:{form}}{unit}" if value else "-"


def bandwidth(row: Any) -> float:
    """GB of weights that a row reads in a second."""
    return float(row["bytes"] / row["ms"] / 1e6)


# ---- tokens a second


def llm_124m(bench: Bench) -> Any:
    bench.section(
        "Language models: GPT-2 124M",
        "Random weights, batch 1, with a cache; 8 and 4 bits in groups of 64, the head 8 bits. Share: the weights'",
        "bytes a second, of what a plain loop reads from as many in the same run. transformers has no weights",
        "of 8 or 4 bits: those lines compare with its f32.",
    )
    found, rows, bars = bench.by_isa("llm.py", "124M"), [], []
    for isa, got in found.items():
        plain = {r["kind"]: r for r in got["rows"]} if got else {}
        for kind, r in plain.items():
            peer = r["peer_ms"] or plain.get("f32", {}).get("peer_ms")
            rows.append(
                [
                    f"{isa}, {kind}",
                    f"{1e3 / r['ms']:.1f}",
                    f"{bandwidth(r):.1f}",
                    cell(r["read"], ".1f"),
                    cell(quotient(bandwidth(r), r["read"]), ".0%"),
                    cell(quotient(1e3, r["peer_ms"]), ".1f"),
                    cell(quotient(peer, r["ms"]), ".2f", "x"),
                    f"{r['prompt_ms']:.0f}",
                    cell(r["peer_prompt_ms"], ".0f"),
                    cell(quotient(r["prompt_ms"], r["peer_prompt_ms"]), ".2f"),
                ]
            )
        shares = [bandwidth(r) / r["read"] for r in plain.values() if r["read"]]
        times = [r["peer_ms"] / r["ms"] for r in plain.values() if r["peer_ms"]]
        prompts = [r["prompt_ms"] / r["peer_prompt_ms"] for r in plain.values() if r["peer_prompt_ms"]]
        bars += [reached(f"{isa}, the least share", min(shares), 0.85, "%")] if shares else []
        bars += [reached(f"{isa}, the least against transformers", min(times), 1.5)] if times else []
        bars += [f"* {isa}, 1,000 tokens, the worst: {verdict(max(prompts), 0.5)}."] if prompts else []
    head = ["weights", "tokens/s", "GB/s", "plain loop", "share", "transformers", "times", "1,000 tokens, ms"]
    bench.say(table([*head, "transformers, ms", "ratio"], rows), "", *bars, *without(found, "transformers"), "")
    return found


def llm_135m(bench: Bench) -> Any:
    bench.section(
        "Language models: a Llama of 135M",
        "30 layers, 576 wide, 9 heads, 3 of keys; the same numbers in llama.cpp (xllamacpp) as Q8_0 and Q4_0,",
        "which is compiled for AVX2. Tokens a second behind a prompt of 32.",
    )
    found, rows, bars = bench.by_isa("llm.py", "135M"), [], []
    for isa, got in found.items():
        for r in got["rows"] if got else []:
            times = quotient(r["peer_ms"], r["ms"])
            rows.append(
                [
                    f"{isa}, {r['kind']}",
                    f"{1e3 / r['ms']:.1f}",
                    f"{bandwidth(r):.1f}",
                    cell(quotient(bandwidth(r), r["read"]), ".0%"),
                    cell(quotient(1e3, r["peer_ms"]), ".1f"),
                    cell(times, ".2f", "x"),
                ]
            )
            bars += [reached(f"{isa}, {r['kind']}, against llama.cpp", times, 1)] if times else []
    head = ["weights", "tokens/s", "GB/s", "share of a plain loop", "llama.cpp, tokens/s", "times"]
    bench.say(table(head, rows), "", *bars, *without(found, "xllamacpp"), "")
    return found


# ---- training steps


def llm_steps(bench: Bench) -> Any:
    bench.section(
        "Language models: a training step in bf16",
        'GPT-2 124M, 4 x 64, as in "One training step". Memory: resident, less 16 bytes a parameter; in bf16,',
        "2 bytes a parameter of the rest are copies of weights.",
    )
    found: dict[str, Any] = {}
    rows, bars = [], []
    for isa, env in isas().items():
        variants = ("chainrule", "chainrule bf16", "PyTorch bf16", "PyTorch compiled bf16")
        # PyTorch takes minutes for a step in bf16 without AVX-512
        got = found[isa] = steps(bench, "gpt2", variants[: 4 if not env else 2], bench.threads, env)
        for name, t in got.items():
            rows.append([f"{isa}, {name}", median_and_least(t), f"{t['extra_mb']:.0f}"])
        if "chainrule bf16" not in got or "chainrule" not in got:
            continue
        ours, plain = (got[v]["median_ms"] for v in ("chainrule bf16", "chainrule"))
        peers = [got[v]["median_ms"] for v in variants[2:] if v in got]
        bars += [f"* {isa}, bf16 against PyTorch's best: {verdict(ours / min(peers), 0.55)}."] if peers else []
        bars.append(f"* {isa}, bf16 against f32: {ours / plain:.2f}x.")
    bench.say(table(["GPT-2 124M, 4 x 64", "ms a step", "MB"], rows), "", *bars, "")
    return found


def llm_lora(bench: Bench) -> Any:
    bench.section(
        "Language models: a step of adapters",
        "GPT-2 124M, 4 x 64, f32, AdamW: all weights, and low-rank adapters of rank 8 beside c_attn, over f32,",
        "8 or 4 bits. Memory: the largest resident size beyond that before the model was loaded.",
    )
    found, rows, bars = bench.by_isa("lora.py"), [], []
    for isa, got in found.items():
        by_name = {r["name"]: r for r in got["rows"]} if got else {}
        for name, r in by_name.items():
            rows.append([f"{isa}, {name}", median_and_least(r, 0), f"{r['mb']:.0f}"])
            if "int" in name:
                times, memory = (r[key] / by_name["full"][key] for key in ("median_ms", "mb"))
                bars.append(f"* {isa}, {name}: time {verdict(times, 0.7)}, memory {verdict(memory, 0.35)}.")
    bench.say(table(["step", "ms, median (least)", "MB"], rows), "", *bars, "")
    return found


# ---- text, quantized weights, files


def llm_bpe(bench: Bench) -> Any:
    bench.section("Language models: encoding of text")
    vocabulary, text = data_path("CHAINRULE_GPT2", "gpt2"), shakespeare()
    if not (vocabulary.is_dir() and text.is_file()):
        bench.say("Went without: GPT-2's vocabulary or the text is not here (CHAINRULE_GPT2, CHAINRULE_DATA).", "")
        return None
    got = bench.script("bpe.py", vocabulary, text, *bench.quick_option)
    if not got:
        bench.say("Failed.", "")
        return None
    one, all_, size = got["one_thread_s"], got["threads_s"], got["bytes"]
    rows = [
        [
            f"{name} {got['peers'].get(name, '')}".strip(),
            f"{size['text'] / one[name] / 1e6:.1f}" if name in one else "-",
            f"{size['file'] / seconds / 1e6:.1f}",
        ]
        for name, seconds in all_.items()
    ]
    bench.say(
        f"GPT-2's vocabulary; tiny-Shakespeare on one thread (its time), and a file of {size['file'] / 1e6:.0f}"
        f" MB in documents of 20 kB on {got['threads']} threads. MB a second.",
        "",
        table(["", "one thread", f"{got['threads']} threads"], rows),
        "",
    )
    for name in got["peers"]:
        bench.say(
            reached(f"One thread, against {name}", one[name] / one["chainrule"], 2),
            reached(f"Threads, against {name}", all_[name] / all_["chainrule"], 2),
        )
    bench.say("")
    return got


def llm_perplexity(bench: Bench) -> Any:
    bench.section("Language models: perplexity of quantized weights")
    text = shakespeare()
    if not text.is_file():
        bench.say("Went without: the text is not here (CHAINRULE_DATA names it).", "")
        return None
    got = bench.script("llm.py", "perplexity", text, *bench.quick_option)
    if not got:
        bench.say("Failed.", "")
        return None
    worse = {name: 100 * (perplexity / got["f32"] - 1) for name, perplexity in got.items()}
    bench.say(
        "A GPT of 4 layers 256 wide over bytes, trained here for 1,500 steps of 12 x 128; the last tenth of",
        "tiny-Shakespeare; groups of 32.",
        "",
        table(
            ["weights", "perplexity", "worse by"],
            [[name, f"{perplexity:.4f}", f"{worse[name]:+.3f} %"] for name, perplexity in got.items()],
        ),
        "",
    )
    for name, bar in (("bf16", 0.1), ("int8", 0.5), ("int4, balanced", 3)):
        bench.say(f"* {name}: {worse[name]:+.3f} % {at_most(worse[name], bar, f'{bar:g} %')}.")
    bench.say("")
    return got


def llm_load(bench: Bench) -> Any:
    bench.section("Language models: loading")
    got = bench.script("llm.py", "load")
    if not got:
        bench.say("Needs /proc.", "")
        return None
    file, ms, memory = got["file"], got["ms"], got["resident"] / got["file"]
    bench.say(
        f"124M in f32 from a folder of {file / 1e6:.0f} MB, files in the page cache, to the first token's start:"
        f" {within(ms, 100, 'ms')}.",
        f"After a few tokens, in memory, of the file: {verdict(memory, 1.05)}.",
        "",
    )
    return got


LLM_PARTS: dict[str, Callable[[Bench], Any]] = {
    "124M": llm_124m,
    "135M": llm_135m,
    "steps": llm_steps,
    "lora": llm_lora,
    "bpe": llm_bpe,
    "perplexity": llm_perplexity,
    "load": llm_load,
}
