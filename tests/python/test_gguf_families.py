"""Families in GGUF files: random models of transformers, written as llama.cpp's converter writes them, have
transformers' logits; llama.cpp itself reads the same files (its package is xllamacpp)."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest
from chainrule import models
from test_families import IDS, SIZES, apart, greedy, logits_of

gguf: Any = pytest.importorskip("gguf")
pytest.importorskip("transformers")
pytest.importorskip("torch")

Arrays = dict[str, np.ndarray[Any, Any]]
WIDE: dict[str, Any] = {"hidden_size": 96, "intermediate_size": 64, "num_attention_heads": 6, "num_hidden_layers": 4}
MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
SHARES = {"embedding_multiplier": 3.0, "residual_multiplier": 0.4, "attention_multiplier": 0.3, "logits_scaling": 5.0}
THETA = {"rope_parameters": {"rope_type": "default", "rope_theta": 200.0}}
# by case: transformers' kind, its options, llama.cpp's architecture
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "llama": ("llama", {}, "llama"),
    "mistral": ("mistral", {"sliding_window": None}, "llama"),
    "qwen 2": ("qwen2", {}, "qwen2"),
    "qwen 3": ("qwen3", {"head_dim": 16}, "qwen3"),
    "gemma": ("gemma", {"head_dim": 16}, "gemma"),
    "gemma 2": (
        "gemma2",
        {"head_dim": 16, "query_pre_attn_scalar": 16, "attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.5,
         "sliding_window": 8},
        "gemma2",
    ),
    "gemma 3": ("gemma3_text", {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 8,
                                "num_hidden_layers": 7}, "gemma3"),
    "phi 2": ("phi", {"partial_rotary_factor": 0.5, "num_key_value_heads": 6}, "phi2"),
    "phi 3": ("phi3", {"sliding_window": None}, "phi3"),
    "qwen 2 moe": ("qwen2_moe", {**MOE, "shared_expert_intermediate_size": 40}, "qwen2moe"),
    "qwen 3 moe": ("qwen3_moe", {**MOE, "head_dim": 16, "norm_topk_prob": True}, "qwen3moe"),
    "mixtral": ("mixtral", {"num_local_experts": 4, "sliding_window": None}, "llama"),
    "olmo 2": ("olmo2", {}, "olmo2"),
    "olmoe": ("olmoe", {"num_experts": 4, "num_experts_per_tok": 2, "num_key_value_heads": 6}, "olmoe"),
    "granite": ("granite", SHARES, "granite"),
    "neox": ("gpt_neox", {"rotary_pct": 0.25, "num_key_value_heads": 6}, "gptneox"),
    "neox, one after the other": (
        "gpt_neox", {"rotary_pct": 0.25, "use_parallel_residual": False, "num_key_value_heads": 6}, "gptneox"
    ),
    "stablelm": ("stablelm", {"use_qkv_bias": True, "partial_rotary_factor": 0.25}, "stablelm"),
    "smollm 3": ("smollm3", {"no_rope_layer_interval": 4}, "smollm3"),
    "glm": ("glm", {"head_dim": 16, "attention_bias": True, "partial_rotary_factor": 0.5}, "chatglm"),
    "glm 4": ("glm4", {"head_dim": 16, "attention_bias": True, "partial_rotary_factor": 0.5}, "glm4"),
    "gpt oss": (
        "gpt_oss",
        {"head_dim": 16, "sliding_window": 8, "num_local_experts": 4, "num_experts_per_tok": 2,
         "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 150000.0, "beta_fast": 32.0,
                             "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 24}},
        "gpt-oss",
    ),
    "ministral 3": (
        "ministral3",
        {"head_dim": 16, "sliding_window": None,
         "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1000.0, "beta_fast": 24.0,
                             "beta_slow": 2.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1,
                             "original_max_position_embeddings": 16}},
        "mistral3",
    ),
    "mistral small": ("mistral", {"sliding_window": None}, "mistral3"),
    "cohere": ("cohere", {"logit_scale": 0.3}, "command-r"),
    "starcoder 2": ("starcoder2", {"sliding_window": None}, "starcoder2"),
    "arcee": ("arcee", {}, "arcee"),
    "seed": ("seed_oss", {"head_dim": 16, "attention_bias": True, "attention_out_bias": False}, "seed_oss"),
}  # fmt: skip
PAIRED = ("llama", "granite", "smollm3", "arcee", "mistral3")
V = 96
TOKENIZER = {
    "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.tokens": [*(chr(33 + i) for i in range(V - 2)), "ab", "<e>"],
    "tokenizer.ggml.token_type": [1] * (V - 1) + [3], "tokenizer.ggml.eos_token_id": V - 1,
}  # fmt: skip


def made(case: str) -> tuple[Any, Any]:
    """A random model and its configuration."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    kind, options, _ = CASES[case]
    torch.manual_seed(sum(map(ord, case)))
    rope = {} if kind in ("gemma3_text", "gpt_oss") else THETA
    said = {**SIZES, **WIDE, **rope, **options, "vocab_size": V}
    share = said.pop("partial_rotary_factor", None) or said.pop("rotary_pct", None)
    if share:
        said["rope_parameters"] = {**said["rope_parameters"], "partial_rotary_factor": share}
    config: Any = AutoConfig.for_model(kind, **json.loads(json.dumps(said)))
    model: Any = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p), alpha=0.1)
    return model, config


def paired(w: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """Rows (i, i + half) of each head become neighbours, as llama.cpp's converter permutes them."""
    return w.reshape(heads, 2, -1, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def named(case: str, model: Any, config: Any) -> Arrays:
    """llama.cpp's tensors, by the names that gguf's package has for those of transformers."""
    _, _, arch = CASES[case]
    of = next(a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    names = gguf.get_tensor_name_map(of, config.num_hidden_layers)
    found: Arrays = {}
    experts: dict[str, dict[int, np.ndarray[Any, Any]]] = {}
    heads, kv = config.num_attention_heads, getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    for name, tensor in model.state_dict().items():
        w = tensor.float().numpy()
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if name.endswith(("inv_freq", "attention.bias", "masked_bias")):
            continue
        end = "weight" if name.endswith("weight") else "bias"
        short = name.removesuffix(f".{end}")
        if arch == "gpt-oss" and ".experts." in name:
            layer = name.split(".")[2]
            bias, joint = name.endswith("_bias"), "gate_up" in name
            w = w if bias else w.swapaxes(1, 2)  # (experts, outputs, inputs)
            if joint:
                found[f"blk.{layer}.ffn_gate_exps.{'bias' if bias else 'weight'}"] = w[:, 0::2]
                found[f"blk.{layer}.ffn_up_exps.{'bias' if bias else 'weight'}"] = w[:, 1::2]
            else:
                found[f"blk.{layer}.ffn_down_exps.{'bias' if bias else 'weight'}"] = w
            continue
        if ".experts." in name and w.ndim == 3:  # all experts in one, as newer versions of transformers have them
            base = f"blk.{name.split('.')[2]}"
            if "gate_up" in name:
                half = w.shape[1] // 2
                found[f"{base}.ffn_gate_exps.weight"], found[f"{base}.ffn_up_exps.weight"] = w[:, :half], w[:, half:]
            else:
                found[f"{base}.ffn_down_exps.weight"] = w
            continue
        if ".experts." in name:
            before, after = short.split(".experts.")
            number, part = after.split(".")
            experts.setdefault(f"{before}.experts.{part}", {})[int(number)] = w
            continue
        if name.endswith("sinks"):
            found[f"blk.{name.split('.')[2]}.attn_sinks.weight"] = w
            continue
        if arch in PAIRED and short.endswith(("q_proj", "k_proj")):
            w = paired(w, heads if short.endswith("q_proj") else kv)
        if arch.startswith("gemma") and short.endswith("norm"):
            w = w + 1
        if arch == "gptneox" and short.endswith("query_key_value"):
            w = w.reshape(heads, 3, -1, *w.shape[1:]).swapaxes(0, 1).reshape(w.shape)
        if w.ndim == 2 and w.shape[0] == 1:
            w = w[0]
        to = names.get_name(short)
        if to is None and short.endswith(("mlp.gate", "mlp.router")):
            to = f"blk.{short.split('.')[2]}.ffn_gate_inp"
        assert to, (case, name)
        found[f"{to}.{end}"] = w
    for short, parts in experts.items():
        to = names.get_name(short)
        assert to, (case, short)
        found[f"{to}.weight"] = np.stack([parts[i] for i in range(len(parts))])
    return found


def entries(case: str, config: Any) -> dict[str, Any]:
    """As the converter of llama.cpp writes them."""
    _, options, arch = CASES[case]
    c, rope = config, config.rope_parameters or {}
    if "full_attention" in rope:
        rope = rope["full_attention"]
    heads = c.num_attention_heads
    D = getattr(c, "head_dim", None) or c.hidden_size // heads
    said: dict[str, Any] = {
        "context_length": c.max_position_embeddings, "embedding_length": c.hidden_size,
        "block_count": c.num_hidden_layers, "feed_forward_length": c.intermediate_size,
        "attention.head_count": heads, "attention.head_count_kv": getattr(c, "num_key_value_heads", None) or heads,
        "attention.key_length": D, "attention.value_length": D, "rope.freq_base": float(rope["rope_theta"]),
        "rope.dimension_count": int(D * rope.get("partial_rotary_factor", 1.0)), "vocab_size": V,
    }  # fmt: skip
    eps = getattr(c, "rms_norm_eps", None)
    if eps is not None:
        said["attention.layer_norm_rms_epsilon"] = float(eps)
    else:
        said["attention.layer_norm_epsilon"] = float(getattr(c, "layer_norm_eps", None) or c.norm_epsilon)
    if options.get("sliding_window"):
        said["attention.sliding_window"] = c.sliding_window
    experts = getattr(c, "num_experts", None) or getattr(c, "num_local_experts", None)
    if experts:
        said |= {"expert_count": experts, "expert_used_count": c.num_experts_per_tok}
        if hasattr(c, "moe_intermediate_size"):
            said["expert_feed_forward_length"] = c.moe_intermediate_size
        elif arch == "gpt-oss":
            said["expert_feed_forward_length"] = c.intermediate_size
    more: dict[str, dict[str, Any]] = {
        "qwen2moe": {"expert_shared_feed_forward_length": getattr(c, "shared_expert_intermediate_size", 0)},
        "gemma2": {"attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.5},
        "granite": {"attention.scale": 0.3, "embedding_scale": 3.0, "residual_scale": 0.4, "logit_scale": 5.0},
        "command-r": {"logit_scale": 0.3},
        "gptneox": {"use_parallel_residual": bool(getattr(c, "use_parallel_residual", True))},
        "stablelm": {"use_parallel_residual": bool(getattr(c, "use_parallel_residual", False))},
        "gpt-oss": {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                    "rope.scaling.original_context_length": 24},
    }  # fmt: skip
    if case == "ministral 3":
        more["mistral3"] = {
            "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16,
            "rope.scaling.yarn_beta_fast": 24.0, "rope.scaling.yarn_beta_slow": 2.0,
            "rope.scaling.yarn_log_multiplier": 1.0, "attention.temperature_scale": 0.1,
        }  # fmt: skip
    return said | more.get(arch, {}) | TOKENIZER


def file_of(case: str, path: Path) -> Any:
    """Writes the file; the model of transformers."""
    from test_gguf import written

    model, config = made(case)
    tensors = {name: (np.ascontiguousarray(w), "F32") for name, w in named(case, model, config).items()}
    written(path, CASES[case][2], entries(case, config), tensors)
    return model


@pytest.mark.parametrize("case", CASES)
def test_family(case: str, tmp_path: Path) -> None:
    """Logits, and 30 greedy tokens."""
    theirs = file_of(case, tmp_path / "m.gguf")
    mine = models.CausalLM.from_pretrained(tmp_path / "m.gguf")
    ids = [i % V for i in IDS]
    assert apart(logits_of(mine, [ids]), logits_of(theirs, [ids])) < 1e-5, case
    assert mine.generate(ids[:12], 30, 0.0, stop=()) == greedy(theirs, ids[:12], 30), case


@pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed (make oracle)")
@pytest.mark.parametrize("case", CASES)
def test_llama_cpp_reads_the_same_file(case: str, tmp_path: Path) -> None:
    """It gives the same greedy tokens: so the files of this test are as its converter writes them."""
    import xllamacpp

    file_of(case, tmp_path / "m.gguf")
    mine = models.CausalLM.from_pretrained(tmp_path / "m.gguf")
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.warmup, p.verbosity = str(tmp_path / "m.gguf"), 96, 1, False, -1
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
    server, ids = xllamacpp.Server(p), [i % V for i in IDS[:12]]
    body = {"prompt": ids, "n_predict": 16, "temperature": 0, "top_k": 1, "ignore_eos": False, "n_probs": 1,
            "cache_prompt": False, "return_tokens": True}  # fmt: skip
    request = Request(
        server.listening_address + "/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urlopen(request) as answer:
        said = json.load(answer)
    got = mine.generate(ids, 16, 0.0, stop=(V - 1,))
    assert said["tokens"] == got[: len(said["tokens"])] and len(said["tokens"]) >= min(len(got), 15), case
