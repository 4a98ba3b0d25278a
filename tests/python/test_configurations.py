"""Variants of config.json, made from a table, for every folder of test_families: what transformers computes, or an
error that names the entry."""

from __future__ import annotations

import copy
import json
import zlib
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from chainrule import models
from conftest import LEVEL
from test_families import CASES, IDS, apart, folder_of, logits_of, needs_transformers

ABSENT = object()
SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
# entry -> values besides those that every entry gets; None is null
VALUES: dict[str, list[Any]] = {
    "num_key_value_heads": [1, 3, 6],
    "head_dim": [4, 8, 7, 0],
    "max_position_embeddings": [20, 41],
    "hidden_act": ["gelu", "gelu_pytorch_tanh", "relu", "silu", "mish"],
    "hidden_activation": ["gelu", "silu", "mish"],
    "activation_function": ["gelu", "relu", "gelu_new", "mish"],
    "rms_norm_eps": [0.1, 1e-5, -1.0, 0],
    "layer_norm_eps": [0.1],
    "layer_norm_epsilon": [0.1],
    "norm_epsilon": [0.1],
    "attention_bias": [True, False],
    "mlp_bias": [True, False],
    "use_bias": [True, False],
    "qkv_bias": [True, False],
    "use_qkv_bias": [True, False],
    "attention_out_bias": [True, False],
    "tie_word_embeddings": [True, False],
    "sliding_window": [1, 3, 1000, 0, -1],
    "use_sliding_window": [True, False],
    "max_window_layers": [0, 1, 3, 28],
    "layer_types": [
        ["full_attention"] * 4,
        ["sliding_attention"] * 4,
        ["full_attention", "sliding_attention"] * 2,
        ["full_attention"],
        ["chunked_attention"] * 4,
        [],
    ],
    "sliding_window_pattern": [1, 2],
    "no_rope_layers": [[1, 0, 1, 0], [0]],
    "no_rope_layer_interval": [1, 2],
    "query_pre_attn_scalar": [4, 0],
    "attn_logit_softcapping": [0.5, 0],
    "final_logit_softcapping": [0.5, 0],
    "use_bidirectional_attention": [True, False],
    "embedding_multiplier": [2.0, 0],
    "residual_multiplier": [2.0, 0],
    "attention_multiplier": [2.0],
    "logits_scaling": [2.0],
    "logit_scale": [2.0, 0],
    "use_parallel_residual": [True, False],
    "qk_layernorm": [True, False],
    "use_qk_norm": [True, False],
    "clip_qkv": [0.1, 100.0],
    "num_experts": [2, 6],
    "num_local_experts": [2, 6],
    "num_experts_per_tok": [1, 3, 9],
    "moe_intermediate_size": [8],
    "shared_expert_intermediate_size": [8],
    "norm_topk_prob": [True, False],
    "decoder_sparse_step": [1, 2],
    "mlp_only_layers": [[0], [9], []],
    "swiglu_limit": [1.0, 0],
    "n_inner": [36, 52],
    "n_positions": [40, 20],
    "scale_attn_weights": [True, False],
    "scale_attn_by_inverse_layer_idx": [True, False],
    "reorder_and_upcast_attn": [True],
    "add_cross_attention": [True],
    "rope_theta": [50.0, 0],
    "rotary_pct": [0.5, 1.0],
    "partial_rotary_factor": [0.5, 1.0],
    "rope_parameters": [
        {"rope_type": "default", "rope_theta": 50.0},
        {"rope_type": "linear", "rope_theta": 50.0, "factor": 2.0},
        {"rope_type": "linear", "rope_theta": 50.0},
        {"rope_type": "yarn", "rope_theta": 50.0, "factor": 2.0, "original_max_position_embeddings": 16},
        {"rope_type": "mystery", "rope_theta": 50.0},
        {},
        [],
    ],
    "rope_scaling": [
        {"type": "linear", "factor": 2.0},
        {"rope_type": "linear", "factor": "2"},
        {
            "rope_type": "llama3",
            "factor": 2.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
        },
    ],
    "original_max_position_embeddings": [16],
    "initializer_range": [0.5],
    "use_cache": [False],
    "attention_dropout": [0.5],
    "resid_pdrop": [0.5],
    "embd_pdrop": [0.5],
    "pretraining_tp": [2],
    "quantization_config": [{"quant_method": "awq"}],
    "a_key_that_nobody_knows": [1, "x", {}],
    "model_type": ["t5", 5],
}
# Entries that only training reads, or nothing: another type of value has no effect here
IDLE = (
    "initializer_range",
    "use_cache",
    "attention_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "pretraining_tp",
    "reorder_and_upcast_attn",
    "original_max_position_embeddings",
    "attn_logit_softcapping",
    "a_key_that_nobody_knows",
)


def variants(config: dict[str, Any]) -> list[tuple[str, Any]]:
    """Entries with a value that the configuration has not."""
    found: list[tuple[str, Any]] = []
    for key in dict.fromkeys([*SIZES, *VALUES, *config]):
        common = [ABSENT, None, "x", -1] if key in config else []
        if key in SIZES and key in config:
            common += [config[key] + 1, 0, 1.5, True]
        for value in [*common, *VALUES.get(key, [])]:
            if value is ABSENT or key not in config or config[key] != value or type(config[key]) is not type(value):
                found.append((key, value))
    if config["model_type"] == "gpt2":
        found = [v for v in found if not v[0].startswith("rope_")]
    return [v for v in found if v[0] not in ("architectures", "dtype", "torch_dtype", "transformers_version")]


def theirs(config: dict[str, Any], weights: dict[str, Any], at: Path) -> Any:
    """The logits of transformers, or its exception."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    (at / "config.json").write_text(json.dumps(config))
    try:
        make: Any = AutoModelForCausalLM.from_config
        model = make(AutoConfig.from_pretrained(at), attn_implementation="eager").eval()
        state = dict(weights)
        for name in [
            name for name in ("lm_head.weight", "embed_out.weight") if name in state or name in model.state_dict()
        ]:
            if name not in model.state_dict():
                state.pop(name)
            elif name not in state and getattr(model.config, "tie_word_embeddings", False):
                state[name] = model.get_input_embeddings().weight
        model.load_state_dict(state)
        if getattr(model.config, "tie_word_embeddings", False):
            model.tie_weights()
        return logits_of(model, [IDS])
    except Exception as error:  # whatever it raises
        del torch
        return error


def ours(at: Path) -> Any:
    try:
        model = models.from_pretrained(at)
        with cr.no_grad():
            return model(cr.tensor([IDS])).numpy()
    except (ValueError, RuntimeError) as error:
        return error


def judged(key: str, value: Any, want: Any, got: Any) -> str:
    """What is wrong; "": nothing."""
    if isinstance(got, Exception):
        said = str(got)
        fits = "weights do not fit" in said or "weights are of" in said or "steps of time" in said
        fits = fits or ("sliding" in key and ('"layer_types"' in said or '"sliding_window"' in said))
        fits = fits or ("experts" in key and "experts are more" in said)
        sizes = key.startswith(("rope_", "num_", "hidden_size", "head_dim")) and '"' in said
        return "" if fits or sizes or key in said else f"refused without its name: {got}"
    if isinstance(want, Exception):
        said = f"{type(want).__name__}: {str(want)[:200]}"
        if isinstance(want, TypeError):  # transformers fails, it does not refuse
            return ""
        is_number = isinstance(value, int) and "expected float, got int" in str(want)
        idle = key in IDLE or key not in (*VALUES, *SIZES) or value is None  # null is absent
        idle = idle or (key == "sliding_window" and value in (0, -1))  # of a family without windows
        return "" if is_number or idle else f"computed, where transformers says {said}"
    off = apart(got, want)
    return "" if off < 1e-5 else f"differs by {off:.3g}"


def sweep(case: str, path: Path, chosen: Any) -> tuple[int, list[str]]:
    """How many variants, and what is wrong."""
    model = folder_of(case, path)
    config = json.loads((path / "config.json").read_text())
    weights = {name: t.detach().clone() for name, t in model.state_dict().items()}
    tried, wrong = 0, []
    for key, value in variants(config):
        if not chosen(key, value):
            continue
        changed = copy.deepcopy(config)
        if value is ABSENT:
            del changed[key]
        else:
            changed[key] = value
        tried += 1
        want = theirs(changed, weights, path)
        (path / "config.json").write_text(json.dumps(changed))
        problem = judged(key, value, want, ours(path))
        if problem:
            shown = "absent" if value is ABSENT else json.dumps(value)
            wrong.append(f"{case}: {key} {shown}: {problem}")
    return tried, wrong


@needs_transformers
@pytest.mark.parametrize("case", CASES)
def test_variants(case: str, tmp_path: Path) -> None:
    """All of them with CHAINRULE_TEST_FULL=2, a fourth with 1; else some, which differ from folder to folder."""

    def chosen(key: str, value: Any) -> bool:
        shown = "absent" if value is ABSENT else json.dumps(value)
        return zlib.crc32(f"{case} {key} {shown}".encode()) % (16, 4, 1)[min(LEVEL, 2)] == 0

    tried, wrong = sweep(case, tmp_path, chosen)
    assert tried and not wrong, "\n".join(wrong)
