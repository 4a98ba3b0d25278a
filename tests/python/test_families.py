"""Families that the C engine computes: logits, text, gradients and files against ``transformers``, on random models;
configurations as older versions wrote them; what is refused.  ``models.CausalLM`` is how Python sees the engine."""

from __future__ import annotations

import copy
import gc
import importlib.util
import json
import pickle
import subprocess
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from chainrule import models, nn, optim
from chainrule.data import Tokenizer
from conftest import BUILD

PROGRAM = BUILD / "chainrule"
needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None or importlib.util.find_spec("torch") is None,
    reason="transformers is not installed (make oracle)",
)
V = 61
SIZES: dict[str, Any] = {
    "vocab_size": V,
    "hidden_size": 48,
    "intermediate_size": 36,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 96,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
ROPE = {"rope_type": "default", "rope_theta": 200.0}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
}
CAPS = {"attn_logit_softcapping": 1.5, "final_logit_softcapping": 2.5, "query_pre_attn_scalar": 12}
EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 20}
SHARES = {"embedding_multiplier": 3.0, "residual_multiplier": 0.4, "attention_multiplier": 0.3, "logits_scaling": 5.0}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", {"n_positions": 96, "n_embd": 24, "n_layer": 3, "n_head": 3, "n_inner": 52}),
    "llama": ("llama", {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu"}),
    "mistral": ("mistral", {"sliding_window": 5}),
    "qwen 2": ("qwen2", {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2}),
    "qwen 2, no max_window_layers": ("qwen2", {"use_sliding_window": True, "sliding_window": 5}),
    "qwen 3": ("qwen3", {"head_dim": 8, "attention_bias": True}),
    "gemma": ("gemma", {"head_dim": 8}),
    "gemma 2": ("gemma2", {"head_dim": 8, "sliding_window": 5, **CAPS}),
    "gemma 2, no caps": (
        "gemma2",
        {"head_dim": 8, "sliding_window": 5, "attn_logit_softcapping": None, "final_logit_softcapping": None},
    ),
    "gemma 3": ("gemma3_text", {"head_dim": 8, "sliding_window": 5, "sliding_window_pattern": 3}),
    "gemma 3, two rotations": (
        "gemma3_text",
        {
            "head_dim": 8,
            "sliding_window": 5,
            "query_pre_attn_scalar": 12,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0},
                "sliding_attention": ROPE,
            },
        },
    ),
    "phi 3": ("phi3", {"sliding_window": 5, "rope_parameters": {**ROPE, "partial_rotary_factor": 0.5}}),
    "phi 4 mini": (
        "phi3",
        {
            "original_max_position_embeddings": 16,
            "rope_parameters": {
                "rope_type": "longrope",
                "rope_theta": 200.0,
                "partial_rotary_factor": 0.75,
                "short_factor": [1.0, 1.3, 2.0],
                "long_factor": [1.0, 4.0, 9.0],
            },
        },
    ),
    "phi": ("phi", {}),
    "qwen 3 moe": ("qwen3_moe", {**EXPERTS, "head_dim": 8}),
    "qwen 3 moe, some layers": (
        "qwen3_moe",
        {**EXPERTS, "norm_topk_prob": True, "decoder_sparse_step": 2, "mlp_only_layers": [1]},
    ),
    "qwen 2 moe": ("qwen2_moe", {**EXPERTS, "shared_expert_intermediate_size": 28}),
    "mixtral": ("mixtral", {"num_local_experts": 5, "sliding_window": 5}),
    "olmo 2": ("olmo2", {"attention_bias": True}),
    "olmo 3": ("olmo3", {"sliding_window": 5}),
    "olmoe": ("olmoe", {"num_experts": 5, "num_experts_per_tok": 2, "clip_qkv": 0.5}),
    "olmoe, normalized": ("olmoe", {"num_experts": 5, "num_experts_per_tok": 3, "norm_topk_prob": True}),
    "granite": ("granite", {**SHARES, "attention_bias": True, "mlp_bias": True}),
    "neox": ("gpt_neox", {}),
    "neox, one after the other": ("gpt_neox", {"use_parallel_residual": False, "attention_bias": False}),
    "stablelm": ("stablelm", {"use_qkv_bias": True}),
    "stablelm, parallel": ("stablelm", {"use_parallel_residual": True, "tie_word_embeddings": True}),
    "smollm 3": ("smollm3", {"no_rope_layer_interval": 3}),
    "smollm 3, windows": (
        "smollm3",
        {"use_sliding_window": True, "sliding_window": 5, "no_rope_layers": [1, 0, 0, 1]},
    ),
    "glm": ("glm", {"head_dim": 8}),
    "glm 4": ("glm4", {"head_dim": 8, "attention_bias": False}),
    "gpt oss": (
        "gpt_oss",
        {"head_dim": 8, "sliding_window": 5, "num_local_experts": 5, "num_experts_per_tok": 2},
    ),
    "ministral": (
        "ministral",
        {"head_dim": 8, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"] * 2},
    ),
    "ministral 3": ("ministral3", {"head_dim": 8, "rope_parameters": {**YARN, "llama_4_scaling_beta": 0.1}}),
    "cohere": ("cohere", {"logit_scale": 0.3}),
    "starcoder 2": ("starcoder2", {"sliding_window": 5}),
    "starcoder 2, no biases": ("starcoder2", {"use_bias": False}),
    "arcee": ("arcee", {"mlp_bias": True}),
    "seed": ("seed_oss", {"head_dim": 8, "attention_out_bias": True}),
}
TRAINED = ("gemma 2", "gpt oss", "qwen 2 moe", "granite", "neox")  # with gradients and files
IDS = [(7 * i * i + i) % V for i in range(40)]
OWN_ROPE = ("gpt2", "gpt_oss")  # without one, or with another one where the file says none
ROW_WITHOUT_GRADIENT = 0  # pad_token_id: transformers does not train this row


def folder_of(case: str, path: Path, vocabulary: int = V) -> Any:
    """A random model of transformers, saved into a folder."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    kind, options = CASES[case]
    torch.manual_seed(sum(map(ord, case)))
    sizes = {**SIZES, "rope_parameters": ROPE} if kind not in ("gpt2", "olmo3", "gemma3_text") else SIZES
    said = copy.deepcopy({**sizes, **options, "vocab_size": vocabulary})  # transformers adds to rope_parameters
    config = AutoConfig.for_model(kind, **said)
    model: Any = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p), alpha=0.2)
    model.save_pretrained(path)
    return model


def logits_of(model: Any, tokens: list[list[int]]) -> Any:
    """Of either library, as a NumPy array."""
    import torch

    if isinstance(model, cr.nn.Module):
        with cr.no_grad():
            return model(cr.tensor(tokens)).numpy()
    with torch.no_grad():
        return model(torch.tensor(tokens)).logits.numpy()


def engine(path: Path) -> models.CausalLM:
    """Also of families that have a class of their own."""
    return models.CausalLM.from_pretrained(path)


def apart(a: Any, b: Any) -> float:
    """The largest difference, as a part of the largest value of b."""
    return float(abs(a - b).max() / abs(b).max())


def greedy(model: Any, prompt: list[int], n: int) -> list[int]:
    """Of transformers, without an end."""
    import torch

    x = torch.tensor([prompt])
    options: dict[str, Any] = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    made = model.generate(x, attention_mask=torch.ones_like(x), max_new_tokens=n, **options)
    return list(made[0, len(prompt) :].tolist())


@needs_transformers
@pytest.mark.parametrize("case", CASES)
def test_family(case: str, tmp_path: Path) -> None:
    """Logits of two rows, text of 50 tokens with the cache, beams, samples in one row."""
    theirs = folder_of(case, tmp_path)
    mine = engine(tmp_path)
    rows = [IDS, IDS[::-1]]
    want = logits_of(theirs, rows)
    assert apart(logits_of(mine, rows), want) < 1e-5, case
    start = 20 if case == "phi 4 mini" else 12  # a cache keeps its angles where a text outgrows the first context
    assert mine.generate(IDS[:start], 50, 0.0, stop=()) == greedy(theirs, IDS[:start], 50), case
    packed = mine.hidden(cr.tensor([[*IDS[:9], *IDS]]), past=models.decoder.Spans.whole([9, 40]))
    last = mine.logits(packed).detach().numpy()[0, 9:]
    assert apart(last, want[0]) < 1e-5, f"{case}: the second of two samples in a row"


@needs_transformers
@pytest.mark.parametrize("case", [c for c, (k, o) in CASES.items() if "layer_types" not in o and k not in OWN_ROPE])
def test_older_configurations(case: str, tmp_path: Path) -> None:
    """``layer_types`` and ``rope_parameters`` are absent; ``rope_theta`` and the like are their own entries."""
    folder_of(case, tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    said.pop("layer_types", None)
    rope = said.pop("rope_parameters")
    if "full_attention" in rope:
        said["rope_theta"], local = rope["full_attention"]["rope_theta"], rope["sliding_attention"]["rope_theta"]
        said |= {"rope_local_base_freq": local} if said["model_type"] == "gemma3_text" else {}
        scaling = {k: v for k, v in rope["full_attention"].items() if k != "rope_theta"}
    else:
        said["rope_theta"] = rope["rope_theta"]
        if "partial_rotary_factor" in rope:
            share = "rotary_pct" if said["model_type"] == "gpt_neox" else "partial_rotary_factor"
            said[share] = rope["partial_rotary_factor"]
        if said["model_type"] == "gpt_neox":
            said["rotary_emb_base"] = said.pop("rope_theta")
        scaling = {k: v for k, v in rope.items() if k not in ("rope_theta", "partial_rotary_factor")}
    said["rope_scaling"] = None if scaling["rope_type"] == "default" else scaling
    (tmp_path / "config.json").write_text(json.dumps(said))
    from transformers import AutoModelForCausalLM

    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    assert apart(logits_of(engine(tmp_path), [IDS]), logits_of(theirs, [IDS])) < 1e-5, case


@needs_transformers
@pytest.mark.parametrize("case", TRAINED)
def test_gradients_and_files(case: str, tmp_path: Path) -> None:
    """The loss and all gradients are those of transformers; it trains, is copied, pickled, saved, cast."""
    import torch
    from transformers import AutoModelForCausalLM

    theirs = folder_of(case, tmp_path / "m")
    mine = engine(tmp_path / "m")
    x = torch.tensor([IDS])
    lost = theirs(x, labels=x).loss
    lost.backward()
    loss = mine.loss(cr.tensor([IDS[:-1]]), cr.tensor([IDS[1:]]))
    loss.backward()
    assert abs(loss.item() - lost.item()) < 1e-5
    prefix = "gpt_neox." if case == "neox" else "model."
    grads = {name.removeprefix(prefix): p.grad for name, p in theirs.named_parameters()}
    same = [name for name, _ in mine.named_parameters() if name in grads]
    assert len(same) >= 20
    for name, p in mine.named_parameters():
        assert p.grad is not None, name
        if name in grads:
            a, b = p.grad.numpy(), grads[name].numpy()
            if "embed" in name:
                a, b = a[ROW_WITHOUT_GRADIENT + 1 :], b[ROW_WITHOUT_GRADIENT + 1 :]
            assert abs(a - b).max() < 1e-5 * max(abs(b).max(), 0.1), name
    step = optim.AdamW(mine.parameters(), lr=1e-2)
    for _ in range(3):
        step.zero_grad()
        after = mine.loss(cr.tensor([IDS[:-1]]), cr.tensor([IDS[1:]]))
        after.backward()
        step.step()
    assert after.item() < loss.item()
    want = logits_of(mine, [IDS])
    mine.save_pretrained(tmp_path / "s")
    fresh = engine(tmp_path / "m")
    fresh.load_state_dict(mine.state_dict())
    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "s", attn_implementation="eager").eval()
    for other in (copy.deepcopy(mine), pickle.loads(pickle.dumps(mine)), fresh, engine(tmp_path / "s"), saved):
        assert apart(logits_of(other, [IDS]), want) < 1e-5, type(other)
    assert apart(logits_of(mine.double(), [IDS]), want) < 1e-5 and mine.like.dtype is cr.float64


@needs_transformers
@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
@pytest.mark.parametrize("case", ["gemma 3", "mixtral", "phi 3", "glm 4"])
def test_program(case: str, tmp_path: Path) -> None:
    """The program's greedy text over bytes is that of transformers."""
    theirs = folder_of(case, tmp_path, 256)
    Tokenizer.bytes().save(tmp_path / "tokenizer.json")
    prompt, n = "The cat sat", 40
    said = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**said, "eos_token_id": None, "bos_token_id": None}))
    (tmp_path / "generation_config.json").unlink(missing_ok=True)
    words = [PROGRAM, "generate", "--model", tmp_path, "--prompt", prompt, "--tokens", str(n), "--temperature", "0"]
    done = subprocess.run([*map(str, words)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    want = prompt.encode() + bytes(greedy(theirs, [*prompt.encode()], n))
    assert done.stdout.rstrip(b"\n") == want.rstrip(b"\n"), case


def tiny(path: Path, vocabulary: int = V, **changes: Any) -> Path:
    """A folder of a Mixtral-like model, made without transformers."""
    said: dict[str, Any] = {**SIZES, "model_type": "mixtral", "num_local_experts": 2, "num_hidden_layers": 1}
    said["vocab_size"] = vocabulary
    C, N, D = 48, 36, 8
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (vocabulary, C),
        "model.norm.weight": (C,),
        "lm_head.weight": (vocabulary, C),
        "model.layers.0.input_layernorm.weight": (C,),
        "model.layers.0.post_attention_layernorm.weight": (C,),
        "model.layers.0.self_attn.q_proj.weight": (6 * D, C),
        "model.layers.0.self_attn.k_proj.weight": (2 * D, C),
        "model.layers.0.self_attn.v_proj.weight": (2 * D, C),
        "model.layers.0.self_attn.o_proj.weight": (C, 6 * D),
        "model.layers.0.block_sparse_moe.gate.weight": (2, C),
    }
    for e in range(2):
        for name, shape in ("w1", (N, C)), ("w2", (C, N)), ("w3", (N, C)):
            shapes[f"model.layers.0.block_sparse_moe.experts.{e}.{name}.weight"] = shape
    cr.manual_seed(3)
    cr._core._save_folder({n: cr.randn(*s) for n, s in shapes.items()}, str(path), json.dumps({**said, **changes}), 0)
    return path


def test_hooks_of_every_part(tmp_path: Path) -> None:
    """Each module that computes is called once with a hook, and changes no number; what a hook returns is used."""
    model = models.from_pretrained(tiny(tmp_path))
    assert isinstance(model, models.CausalLM) and model.model.layers is model.layers
    tokens = cr.tensor([IDS])
    before = model(tokens)
    called: list[str] = []
    silent = ("layers", "layers.0.block_sparse_moe.experts")
    names = [name for name, m in model.named_modules() if name and name not in silent and "experts." not in name]
    names += [f"layers.0.block_sparse_moe.experts.{e}.w{i}" for e in (0, 1) for i in (1, 2, 3)]
    handles = [
        model.get_submodule(name).register_forward_hook(lambda m, x, y, name=name: called.append(name))
        for name in names
    ]
    assert apart(model(tokens).detach().numpy(), before.detach().numpy()) < 1e-6
    assert sorted(called) == sorted(names) and len(names) == 19
    for handle in handles:
        handle.remove()
    assert cr.equal(model(tokens), before)
    for name in names:
        pre = model.get_submodule(name).register_forward_pre_hook(
            lambda m, x: (x[0] * 1.5,) if x[0].is_floating_point() else (x[0] * 0 + 3,)
        )
        changed = model(tokens)
        pre.remove()
        post = model.get_submodule(name).register_forward_hook(lambda m, x, y: y * 1.5)
        assert not cr.equal(model(tokens), before), name
        post.remove()
        if "norm" not in name:
            assert not cr.equal(changed, before), name
    assert cr.equal(model(tokens), before)
    for name in silent:
        with model.get_submodule(name).register_forward_hook(lambda *_: None):
            with pytest.raises(RuntimeError, match=f"'{name}' was replaced or has hooks"):
                model(tokens)


def test_gradients_through_hooks(tmp_path: Path) -> None:
    """Gradients reach all weights behind a hook, an input can be patched, and backward hooks see gradients."""
    model: Any = models.from_pretrained(tiny(tmp_path))
    tokens, targets = cr.tensor([IDS[:-1]]), cr.tensor([IDS[1:]])
    model.loss(tokens, targets).backward()
    plain: dict[str, Any] = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    seen: list[Any] = []
    model.layers[0].register_full_backward_hook(lambda m, gx, gy: seen.append((gx[0].shape, gy[0].shape)))
    model.layers[0].self_attn.q_proj.register_forward_hook(lambda m, x, y: y * 1)
    model.loss(tokens, targets).backward()
    assert seen == [((1, 39, 48), (1, 39, 48))]
    for name, p in model.named_parameters():
        assert apart(p.grad.numpy(), plain[name].numpy()) < 1e-5, name
    kept: list[cr.Tensor] = []
    model.embed_tokens.register_forward_hook(lambda m, x, y: kept.append(y))
    model.layers[0].register_forward_hook(lambda m, x, y: kept[-1])
    x = cr.nn.functional.rms_norm(model.embed_tokens(tokens), (48,), model.norm.weight, 1e-5)
    assert apart(model.hidden(tokens).detach().numpy(), x.detach().numpy()) < 1e-6


def test_parts_that_are_replaced(tmp_path: Path) -> None:
    """Another class takes effect, with the engine's rule inside; a part that is removed is named."""
    model = models.from_pretrained(tiny(tmp_path))
    tokens = cr.tensor([IDS])
    before = model(tokens)

    class Doubled(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: cr.Tensor) -> cr.Tensor:
            return self.inner(x) * 2 + 0.5  # type: ignore[no-any-return]

    for name in ("layers.0", "layers.0.self_attn", "layers.0.block_sparse_moe", "layers.0.self_attn.q_proj", "norm"):
        was = model.get_submodule(name)
        model.set_submodule(name, Doubled(was))
        found = model(tokens)
        copied = copy.deepcopy(model)
        assert cr.equal(copied(tokens), found) and cr.equal(pickle_free(copied)(tokens), found)
        model.set_submodule(name, was)
        hook = was.register_forward_hook(lambda m, x, y: y * 2 + 0.5)
        assert cr.equal(model(tokens), found) and not cr.equal(found, before), name
        hook.remove()
    assert cr.equal(model(tokens), before)
    kept, model.norm.eps = model.norm.eps, 1.0
    assert not cr.equal(model(tokens), before)
    model.norm.eps = kept
    q = model.layers[0].self_attn.q_proj
    nn.utils.parametrize.register_parametrization(q, "weight", Half())
    half = model(tokens)
    nn.utils.parametrize.remove_parametrizations(q, "weight")
    assert apart(model(tokens).detach().numpy(), half.detach().numpy()) < 1e-6 and not cr.equal(half, before)
    wide: Any = nn.Linear(48, 48)
    model.layers[0].self_attn.q_proj = wide  # with a bias
    with cr.no_grad():
        wide.weight.copy_(q.weight)
        wide.bias.fill_(0)
    assert apart(model(tokens).detach().numpy(), half.detach().numpy()) < 1e-6
    with pytest.raises(ValueError, match=r"'layers\.0\.self_attn\.q_proj' was replaced by a Linear"):
        model.save_pretrained(tmp_path / "x")
    with pytest.raises(RuntimeError, match="only inside of its model"):
        models.from_pretrained(tmp_path).layers[0](cr.zeros(1, 2, 48))
    del model.layers[0]
    with pytest.raises(RuntimeError, match=r"'layers' has 0 parts, the model 1"):
        model(tokens)


def test_a_backward_pass_that_outlives_its_model() -> None:
    """Blocks that run again keep the engine, also where a part is called."""
    found = []
    for hook in False, True:
        model = models.GPT(V, 16, 2, 2, 16, 0.3, generator=cr.Generator().manual_seed(3))
        if hook:
            model.h[1].mlp.register_forward_hook(lambda m, x, y: y * 1)
        model.gradient_checkpointing_enable()
        weight, x = model.wte.weight, cr.tensor([IDS[:9]])
        loss = model.loss(x, x)
        del model
        gc.collect()
        loss.backward()
        assert weight.grad is not None
        found.append(weight.grad.clone())
    assert apart(found[0].numpy(), found[1].numpy()) < 1e-5


class Half(nn.Module):
    def forward(self, x: cr.Tensor) -> cr.Tensor:
        return x / 2


def pickle_free(model: Any) -> Any:
    """A copy without an engine, as an unpickled one."""
    return copy.deepcopy(model).float()


@needs_transformers
@pytest.mark.parametrize("case", ["gpt2", "llama", "gemma 2", "neox", "mixtral"])
def test_hidden_states(case: str, tmp_path: Path) -> None:
    """Those of transformers, and hooks on layers see the same."""
    import torch

    theirs, mine = folder_of(case, tmp_path), engine(tmp_path)
    with torch.no_grad():
        want = theirs(torch.tensor([IDS]), output_hidden_states=True)
    seen: list[cr.Tensor] = []
    handles = [b.register_forward_pre_hook(lambda m, x: seen.append(x[0])) for b in mine.blocks]
    found = mine(cr.tensor([IDS]), output_hidden_states=True)
    assert len(found.hidden_states) == len(want.hidden_states) == len(seen) + 1
    for a, b in zip(found.hidden_states, want.hidden_states, strict=True):
        assert apart(a.detach().numpy(), b.numpy()) < 1e-5
    assert all(cr.equal(a, b) for a, b in zip(seen, found.hidden_states, strict=False))
    assert apart(found.logits.detach().numpy(), want.logits.numpy()) < 1e-5
    for handle in handles:
        handle.remove()
    with pytest.raises(NotImplementedError, match="output_attentions"):
        mine(cr.tensor([IDS]), output_attentions=True)


@needs_transformers
@pytest.mark.parametrize("case", ["gpt2", "qwen 2", "gemma 3", "phi 3", "qwen 2 moe", "neox", "olmo 2"])
def test_what_every_family_has(case: str, tmp_path: Path) -> None:
    """Adapters, 8 bits, int8 caches, gradient checkpointing, a recorded step, other dtypes, half precision."""
    folder_of(case, tmp_path / "m")
    mine, x, y = engine(tmp_path / "m"), cr.tensor([IDS[:-1]]), cr.tensor([IDS[1:]])
    plain = mine.loss(x, y)
    names = nn.lora.apply(mine, 2, 4.0, "all-linear", generator=cr.Generator().manual_seed(1))
    assert len(names) >= 2 * mine.config.layers and abs(mine.loss(x, y).item() - plain.item()) < 1e-5
    with cr.no_grad():
        for p in nn.lora.parameters(mine):
            p.normal_(0, 0.1, generator=cr.Generator().manual_seed(2))
    adapted = mine.loss(x, y)
    adapted.backward()
    assert all(p.grad is not None for p in nn.lora.parameters(mine)) and abs(adapted.item() - plain.item()) > 1e-4
    text = mine.generate(IDS[:5], 8, 0.0, stop=())
    nn.lora.save(mine, tmp_path / "a")
    again = engine(tmp_path / "m")
    nn.lora.load(again, tmp_path / "a")
    assert abs(again.loss(x, y).item() - adapted.item()) < 1e-6
    nn.lora.merge(mine)
    assert abs(mine.loss(x, y).item() - adapted.item()) < 1e-4
    nn.lora.remove(mine)
    assert mine.generate(IDS[:5], 8, 0.0, stop=()) == text
    mine.train()
    found = []
    for again_ in (False, True):
        (mine.gradient_checkpointing_enable if again_ else mine.gradient_checkpointing_disable)()
        mine.zero_grad()
        cr.manual_seed(0)
        mine.loss(x, y).backward()
        found.append({n: p.grad.clone() for n, p in mine.named_parameters() if p.grad is not None})
    assert all(cr.equal(found[0][n], found[1][n]) for n in found[0]) and len(found[0]) == len(found[1])
    mine.gradient_checkpointing_disable()
    mine.eval()
    assert len(mine.generate(IDS[:5], 8, 0.0, cache_dtype=cr.int8, stop=())) == 8
    assert mine.generate(IDS[:5], 8, 0.0, draft=mine, stop=()) == mine.generate(IDS[:5], 8, 0.0, stop=())
    if mine.steady:
        step = cr.compile(lambda x, y: mine.loss(x, y), fullgraph=True)
        losses = [step(x, y).item() for _ in range(4)]
        assert losses == [losses[0]] * 4
    half = engine(tmp_path / "m").bfloat16()
    assert half.loss(x, y).dtype is cr.float32 and half(x).dtype is cr.bfloat16


@needs_transformers
@pytest.mark.parametrize(
    ("case", "changes"),
    [
        ("qwen 3", {"rope_scaling": {"type": "linear", "factor": 2.0}}),  # beside rope_parameters
        ("gemma 3", {"attn_logit_softcapping": 0.5}),
        ("gemma", {"hidden_act": "gelu"}),
        ("phi 3", {"layer_types": ["full_attention"] * 4}),
        ("mistral", {"layer_types": ["full_attention"] * 4}),
        ("smollm 3, windows", {"use_sliding_window": False}),
        ("qwen 2", {"use_sliding_window": False, "layer_types": None}),
        ("gemma 2", {"layer_types": ["full_attention"] * 4}),
        ("mixtral", {"layer_types": ["full_attention"] * 4}),
        ("starcoder 2", {"layer_types": ["full_attention", "sliding_attention"] * 2}),
        ("granite", {"logits_scaling": 2.0, "attention_bias": True}),
        ("neox", {"rope_scaling": {"rope_type": "linear", "factor": 2.0, "rope_theta": 50.0}}),
    ],
)
def test_entries_that_contradict(case: str, changes: dict[str, Any], tmp_path: Path) -> None:
    """What transformers makes of them."""
    from transformers import AutoModelForCausalLM

    folder_of(case, tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**said, **changes}))
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    want = logits_of(theirs, [IDS])
    assert apart(logits_of(engine(tmp_path), [IDS]), want) < 1e-5, case
    assert apart(logits_of(models.from_pretrained(tmp_path), [IDS]), want) < 1e-5, case


@needs_transformers
@pytest.mark.parametrize("case", ["gpt oss", "ministral 3", "mixtral", "olmo 3", "smollm 3"])
def test_rotation_that_is_not_said(case: str, tmp_path: Path) -> None:
    """What the family has where config.json has no entry of it."""
    from transformers import AutoModelForCausalLM

    folder_of(case, tmp_path)
    said = json.loads((tmp_path / "config.json").read_text())
    del said["rope_parameters"]
    (tmp_path / "config.json").write_text(json.dumps(said))
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    assert apart(logits_of(engine(tmp_path), [IDS]), logits_of(theirs, [IDS])) < 1e-5, case


def oss_folder(path: Path, wide: bool = False) -> Any:
    """A random gpt-oss as it is published: experts in blocks of MXFP4, the rest in bfloat16, or in float32.
    transformers' model."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    torch.manual_seed(3)
    kind, options = CASES["gpt oss"]
    config = AutoConfig.for_model(
        kind, **{**SIZES, **options, "hidden_size": 64, "intermediate_size": 32, "vocab_size": 256}
    )
    model: Any = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    E, C, N = 5, 64, 32
    blocks: dict[str, Any] = {}
    for i, layer in enumerate(model.model.layers):
        with torch.no_grad():
            for name, rows, columns in ("gate_up_proj", 2 * N, C), ("down_proj", C, N):
                b = torch.randint(0, 256, (E, rows, columns // 32, 16), dtype=torch.uint8)
                s = torch.randint(118, 128, (E, rows, columns // 32), dtype=torch.uint8)
                getattr(layer.mlp.experts, name).data = convert_moe_packed_tensors(b, s).float()
                blocks |= {f"model.layers.{i}.mlp.experts.{name}_{end}": t for end, t in (("blocks", b), ("scales", s))}
            for p in layer.self_attn.parameters():
                p.add_(torch.randn_like(p), alpha=0.2)
            layer.mlp.experts.gate_up_proj_bias.normal_()
            layer.mlp.experts.down_proj_bias.normal_()
    for p in model.parameters():
        p.data = p.data.bfloat16().float()
    rest = {
        n: t for n, t in model.state_dict().items() if not n.endswith(("experts.gate_up_proj", "experts.down_proj"))
    }
    said = {**json.loads(config.to_json_string(use_diff=False)), "architectures": ["GptOssForCausalLM"]}
    said["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(said))
    save_file(
        {n: t.contiguous() for n, t in ({n: t if wide else t.bfloat16() for n, t in rest.items()} | blocks).items()},
        path / "model.safetensors",
    )
    return model


@needs_transformers
def test_mxfp4_folder(tmp_path: Path) -> None:
    """gpt-oss as it is published, in Python and by the program; saved as floats, it is what transformers reads."""
    from transformers import AutoModelForCausalLM

    theirs = oss_folder(tmp_path / "c", wide=True)
    mine, want = engine(tmp_path / "c"), logits_of(theirs, [IDS])
    assert apart(logits_of(mine, [IDS]), want) < 1e-3, "packed"  # products round their inputs
    assert mine.generate(IDS[:12], 20, 0.0, stop=()) == greedy(theirs, IDS[:12], 20)
    oss_folder(tmp_path / "a")
    mine = engine(tmp_path / "a")
    rows = mine.state_dict()["layers.0.mlp.experts.4.up_proj.mxfp4"]
    assert tuple(rows.shape) == (32, 2 * 17) and rows.dtype is cr.uint8, "blocks stay blocks"
    floats = models.from_pretrained(tmp_path / "a", dtype=cr.float32)
    assert apart(logits_of(floats, [IDS]), want) < 1e-5, "unpacked"
    mine.save_pretrained(tmp_path / "b")
    assert "quantization_config" not in json.loads((tmp_path / "b" / "config.json").read_text())
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "b", attn_implementation="eager").float().eval()
    assert apart(logits_of(again, [IDS]), want) < 1e-6, "saved"
    Tokenizer.bytes().save(tmp_path / "a" / "tokenizer.json")
    words = ["--model", str(tmp_path / "a"), "--prompt", "Once", "--tokens", "9", "--temperature", "0"]
    done = subprocess.run([PROGRAM, "generate", *words], capture_output=True, check=False)
    made = Tokenizer.bytes().decode(mine.generate([*b"Once"], 9, 0.0))
    assert done.returncode == 0 and made.rstrip("\n") in done.stdout.decode("utf-8", "replace"), (done, made)


@needs_transformers
@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("gate_up_proj_blocks", (5, 64, 2, 15), "no blocks of MXFP4"),
        ("gate_up_proj_scales", (5, 64, 3), "no blocks of MXFP4"),
        ("down_proj_scales", (4, 64, 1), "no blocks of MXFP4"),
        ("down_proj_blocks", (0, 64, 1, 16), "no blocks of MXFP4"),
        ("gate_up_proj_bias", (320,), "has 1 axes, not 2"),
        ("gate_up_proj_bias", (4, 64), "experts.4.gate_proj.bias' is missing"),
        ("gate_up_proj_blocks", (6, 64, 2, 16), "experts.5.gate_proj.mxfp4' is not wanted"),
        ("down_proj_blocks", (5, 63, 1, 16), "is no weight (64, 32)"),
    ],
)
def test_damaged_mxfp4(name: str, shape: tuple[int, ...], message: str, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file

    oss_folder(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    full = f"model.layers.1.mlp.experts.{name}"
    tensors[full] = torch.zeros(shape, dtype=tensors[full].dtype)
    if name.endswith("blocks") and shape[3:] == (16,):  # scales of the same shape
        tensors[full.replace("blocks", "scales")] = torch.zeros(shape[:3], dtype=torch.uint8)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(ValueError) as error:
        models.from_pretrained(tmp_path)
    assert message in str(error.value), str(error.value)


def test_hooks_of_the_whole(tmp_path: Path) -> None:
    model = models.from_pretrained(tiny(tmp_path))
    seen: list[Any] = []
    model.register_forward_hook(lambda _, __, y: seen.append(tuple(y.shape)))
    model(cr.tensor([IDS]))
    assert seen == [(1, len(IDS), V)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "t5"}, '"model_type" must be one of gpt2|llama|mistral'),
        ({"model_type": "gemma2", "use_bidirectional_attention": True}, '"use_bidirectional_attention" must be false'),
        ({"model_type": "stablelm", "qk_layernorm": True}, '"qk_layernorm" must be false'),
        ({"num_experts_per_tok": 3}, '"num_experts_per_tok" is 3 of 2 experts'),
        ({"num_local_experts": 2000000000}, "2000000000 experts are more than the weights have"),
        ({"num_hidden_layers": 2000000000}, '"num_hidden_layers" is 2000000000, the weights are of 1 layers'),
        ({"num_experts_per_tok": "2"}, '"num_experts_per_tok" must be a whole number'),
        ({"num_local_experts": 3}, "'layers.0.block_sparse_moe.gate.weight' is (2, 48), not (3, 48)"),
        ({"hidden_act": "mish"}, '"hidden_act" must be one of silu'),
        ({"rope_parameters": {"rope_type": "longrope"}}, '"short_factor" must be an array of 4 numbers'),
        ({"rope_parameters": {"rope_type": "axial"}}, '"rope_type" must be one of default'),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, '"partial_rotary_factor" must be 1'),
        ({"layer_types": ["full_attention"] * 2}, '"layer_types" must be an array of 1'),
        ({"layer_types": ["linear_attention"]}, '"layer_types" must be full_attention or sliding_attention'),
        ({"sliding_window": -1}, '"sliding_window" must be a whole number'),
        ({"quantization_config": {"quant_method": "gptq"}}, 'quantized by "gptq"'),
        ({"quantization_config": {"quant_method": "fp8"}}, 'quantized by "fp8"'),
        ({"quantization_config": {"quant_method": "mxfp4"}}, 'quantized by "mxfp4"'),
        ({"quantization_config": {}}, "quantized by"),
    ],
)
def test_refused(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    tiny(tmp_path, **changes)
    for load in (models.from_pretrained, models.CausalLM.from_pretrained):
        with pytest.raises(ValueError) as error:
            load(tmp_path)
        assert message in str(error.value), str(error.value)


def test_foreign_weights_of_llama(tmp_path: Path) -> None:
    """The classes of Python say it too, before they look at tensors."""
    models.Llama(V, 16, 1, 2, 16, 24).save_pretrained(tmp_path)
    for method in "bitsandbytes", "gptq", "awq", "fp8":
        said = json.loads((tmp_path / "config.json").read_text())
        said["quantization_config"] = {"quant_method": method}
        (tmp_path / "config.json").write_text(json.dumps(said))
        for load in (models.from_pretrained, models.CausalLM.from_pretrained):
            with pytest.raises(ValueError, match=f'quantized by "{method}"'):
                load(tmp_path)


CHANGES: dict[str, Any] = {
    "a hook": lambda m: m.layers[0].mlp.up_proj.register_forward_hook(lambda *a: a[-1] * 2),
    "a hook of another kind": lambda m: m.layers[0].mlp.up_proj.register_forward_pre_hook(lambda _, x: (x[0] * 2,)),
    "a hook of all modules": lambda m: nn.module.register_module_forward_hook(
        lambda module, x, y: y * 2 if isinstance(module, nn.Linear) else None
    ),
    "a forward of an object": lambda m: setattr(
        m.layers[0].mlp.up_proj, "forward", lambda x: m.layers[1].mlp.up_proj(x)
    ),
    "another layer": lambda m: setattr(m.layers[0].mlp, "up_proj", nn.Linear(48, 36, bias=False)),
    "another class": lambda m: nn.utils.parametrizations.weight_norm(
        m.layers[0].mlp.up_proj
    ).parametrizations.weight.original0.data.mul_(2),
    "another parameter": lambda m: setattr(m.layers[0].mlp.up_proj, "weight", nn.Parameter(cr.ones(36, 48))),
    "other data": lambda m: setattr(m.layers[0].mlp.up_proj.weight, "data", cr.ones(36, 48)),
    "values in place": lambda m: m.layers[0].mlp.up_proj.weight.data.mul_(2),
    "data of another dtype": lambda m: setattr(m.norm.weight, "data", m.norm.weight.data.double()),
    "data of another shape": lambda m: setattr(m.layers[0].mlp.up_proj.weight, "data", cr.ones(30, 48)),
    "another dtype": lambda m: m.double(),
    "eps": lambda m: setattr(m.norm, "eps", 1.0),
    "a bias": lambda m: setattr(m.layers[0].mlp.up_proj, "bias", nn.Parameter(cr.ones(36))),
    "max_norm": lambda m: setattr(m.embed_tokens, "max_norm", 0.1),
    "a layer less": lambda m: m.layers.pop(3),
    "a layer more": lambda m: m.layers.append(nn.Identity()),
    "no layer": lambda m: delattr(m.layers[0].mlp, "up_proj"),
    "an adapter": lambda m: nn.lora.apply(m, 2) and nn.init.ones_(nn.lora.parameters(m)[1]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_between_calls(name: str) -> None:
    """What a model looks at for each call is all that it looks at when it is new."""
    model = models.Llama(V, 40, 4, 4, 48, 36, generator=cr.Generator().manual_seed(2)).eval()
    tokens = cr.tensor([IDS[:20]])

    def result() -> Any:
        try:
            with cr.no_grad():
                return model(tokens)
        except RuntimeError as error:
            return str(error)

    before = result()
    with model.layers[0].mlp.up_proj.register_forward_hook(lambda *_: None):  # was there once
        assert cr.equal(result(), before)
    assert cr.equal(result(), before) and model._engine.entries is not None
    handle = CHANGES[name](model)
    found = result()
    model._engine.entries = None
    wanted = result()
    if hasattr(handle, "remove"):
        handle.remove()
    if isinstance(wanted, str):
        assert found == wanted
    else:
        assert isinstance(found, cr.Tensor) and cr.equal(found, wanted) and not cr.equal(found.float(), before), name
