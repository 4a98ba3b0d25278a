"""Encoders: streams, pooled outputs, logits and gradients against ``transformers`` on random models; sentence models'
pooling by its formulas; files of older versions; variants of config.json; what is refused."""

from __future__ import annotations

import base64
import copy
import http.client
import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
import urllib.parse
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from chainrule import models, nn, optim
from conftest import BUILD, LEVEL
from test_configurations import ABSENT, judged

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None or importlib.util.find_spec("torch") is None,
    reason="transformers is not installed (make oracle)",
)
PROGRAM = BUILD / "chainrule"
V, T = 53, 17
LENGTHS = (17, 9, 4)
SIZES: dict[str, Any] = {
    "vocab_size": V,
    "hidden_size": 24,
    "intermediate_size": 44,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "max_position_embeddings": 40,
    "num_labels": 5,
}
DISTIL = {"dim": 24, "hidden_dim": 44, "n_layers": 3, "n_heads": 3, "vocab_size": V, "max_position_embeddings": 40}
MARKS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", {}),
    "bert of another size": ("bert", {"type_vocab_size": 3, "hidden_act": "gelu_new", "layer_norm_eps": 0.01}),
    "roberta": ("roberta", {}),
    "xlm-roberta": ("xlm-roberta", {"type_vocab_size": 1, "pad_token_id": 3}),
    "camembert": ("camembert", {"hidden_act": "relu"}),
    "mpnet": ("mpnet", {"pad_token_id": 1}),
    "mpnet, relu": ("mpnet", {"pad_token_id": 1, "hidden_act": "relu"}),
    "embeddinggemma": (
        "gemma3_text",
        {
            "hidden_size": 48,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "query_pre_attn_scalar": 12,
            "sliding_window": 8,
            "num_hidden_layers": 7,
            "use_bidirectional_attention": True,
            **MARKS,
        },
    ),
    "distilbert": ("distilbert", DISTIL),
    "distilbert, relu": ("distilbert", {**DISTIL, "activation": "relu"}),
    "nomic": ("nomic_bert", {"hidden_size": 48}),
    "nomic with wider heads": ("nomic_bert", {"hidden_size": 48, "head_dim": 24, "hidden_act": "gelu"}),
    "gte": ("gte", {"hidden_size": 48}),
    "gte without kinds": ("gte", {"hidden_size": 48, "type_vocab_size": 0}),
    "eurobert": ("eurobert", {"hidden_size": 48, "num_key_value_heads": 1, "head_dim": 8, "mlp_bias": True, **MARKS}),
    "modernbert": ("modernbert", {**MARKS, "local_attention": 6, "num_hidden_layers": 5}),
    "modernbert with biases": (
        "modernbert",
        {
            **MARKS,
            "local_attention": 4,
            "attention_bias": True,
            "mlp_bias": True,
            "norm_bias": True,
            "classifier_bias": True,
            "classifier_pooling": "mean",
        },
    ),
}
HEADS = {
    "": "AutoModel",
    "masked": "AutoModelForMaskedLM",
    "classes": "AutoModelForSequenceClassification",
    "tokens": "AutoModelForTokenClassification",
}


def folder_of(case: str, head: str, path: Path) -> Any:
    """A random model of transformers, saved into a folder."""
    import torch
    import transformers

    kind, options = CASES[case]
    torch.manual_seed(sum(map(ord, case + head)))
    sizes = {"num_labels": 5} if kind == "distilbert" else SIZES
    config = transformers.AutoConfig.for_model(kind, **{**sizes, **options})
    model: Any = getattr(transformers, HEADS[head]).from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p), alpha=0.2)
    model.save_pretrained(path)
    return model


def batch(pad: int) -> tuple[list[list[int]], list[list[int]]]:
    """Texts of several lengths, padded, and which tokens count."""
    ids = [[4 + (7 * i + 11 * row * i) % (V - 4) for i in range(T)] for row in range(len(LENGTHS))]
    mask = [[int(i < n) for i in range(T)] for n in LENGTHS]
    return [[t if m else pad for t, m in zip(*rows, strict=True)] for rows in zip(ids, mask, strict=True)], mask


def apart(got: cr.Tensor, want: Any, mask: list[list[int]]) -> float:
    """The largest difference where tokens count, as a part of the largest value."""
    import torch

    mine: Any = torch.tensor(got.tolist())
    assert mine.shape == want.shape
    off = (mine - want).abs()
    if want.ndim == 3:
        off = off[torch.tensor(mask).bool()]
    return float(off.max() / want.abs().max())


@needs_transformers
@pytest.mark.parametrize(
    ("case", "head"),
    [(c, h) for c in CASES for h in HEADS if (c, h) != ("eurobert", "classes") and (c != "embeddinggemma" or not h)],
)
def test_outputs_and_gradients(case: str, head: str, tmp_path: Path) -> None:
    """A padded batch: the stream before each layer, pooled output, logits; the gradient of each weight; saved files."""
    import torch
    import transformers

    their = folder_of(case, head, tmp_path / "a")
    model = models.from_pretrained(tmp_path / "a")
    assert isinstance(model, models.Encoder)
    ids, mask = batch(their.config.pad_token_id)
    said: dict[str, Any] = {"attention_mask": mask}
    if getattr(their.config, "type_vocab_size", 1) > 1:
        said["token_type_ids"] = [[i % 2 for i in range(T)]] * 3
    want: Any = their(
        torch.tensor(ids), output_hidden_states=True, **{name: torch.tensor(x) for name, x in said.items()}
    )
    got = model(cr.tensor(ids), output_hidden_states=True, **{name: cr.tensor(x) for name, x in said.items()})
    for name in ("last_hidden_state", "pooler_output", "logits"):
        expected, found = getattr(want, name, None), getattr(got, name)
        if expected is not None:
            assert apart(found, expected.detach(), mask) < 1e-5, name
        else:
            assert name != "logits" or found is None
    assert len(got.hidden_states) == len(want.hidden_states)
    for a, b in zip(got.hidden_states, want.hidden_states, strict=True):
        assert apart(a, b.detach(), mask) < 1e-5
    parts: list[Any] = [(getattr(want, name, None), getattr(got, name)) for name in ("pooler_output", "logits")]
    parts = [(a, b) for a, b in parts if a is not None] or [(want.last_hidden_state[:, 0], got.last_hidden_state[:, 0])]
    valid = torch.tensor(mask)
    for a, b in parts:
        weight = torch.cos(torch.arange(a.numel(), dtype=torch.float32)).view(a.shape)
        weight = weight * valid[..., None] if a.ndim == 3 else weight
        (a * weight).sum().backward(retain_graph=True)
        (b * cr.tensor(weight.tolist())).sum().backward(retain_graph=True)
    grads = {name.removeprefix(model.prefix): p.grad for name, p in their.named_parameters() if p.grad is not None}
    compared = 0
    for name, p in model.named_parameters():
        if name in grads:
            g: Any = torch.tensor(p.grad.tolist() if p.grad is not None else [])
            if name.endswith(("key.bias", "k_lin.bias", "attn.k.bias")):  # 0 but for rounding
                assert float(g.abs().max()) < 1e-3 * float(weight.abs().sum())
            else:
                assert float((g - grads[name]).abs().max() / grads[name].abs().max()) < 1e-4, name
            compared += 1
    renamed = CASES[case][0] in ("nomic_bert", "gte")  # transformers has other names than its files
    assert compared >= (2 if renamed else 0.8 * len(grads))
    model.save_pretrained(tmp_path / "b")
    again: Any = getattr(transformers, HEADS[head]).from_pretrained(tmp_path / "b", attn_implementation="eager").eval()
    kept = {name: torch.equal(p, again.state_dict()[name]) for name, p in their.state_dict().items()}
    assert all(kept.values()), kept
    assert type(again) is type(their)
    assert model.prefix == (their.base_model_prefix + "." if head else "")


@needs_transformers
def test_trains_with_dropout_and_an_optimizer(tmp_path: Path) -> None:
    """Loss goes down; without padding's positions; the same seed gives the same bits."""
    folder_of("bert", "classes", tmp_path)
    losses: list[list[float]] = []
    for _ in range(2):
        model = models.from_pretrained(tmp_path, generator=cr.Generator().manual_seed(1)).train()
        ids, mask = (cr.tensor(x) for x in batch(0))
        step = optim.AdamW(model.parameters(), lr=0.003)
        losses.append([])
        for _ in range(30):
            loss = nn.functional.cross_entropy(model(ids, mask).logits, cr.tensor([0, 4, 2]))
            step.zero_grad()
            loss.backward()
            step.step()
            losses[-1].append(loss.item())
    assert losses[0] == losses[1] and losses[0][-1] < 0.5 * losses[0][0]


@needs_transformers
@pytest.mark.parametrize("case", ["bert", "modernbert", "mpnet"])
def test_less_memory_and_adapters(case: str, tmp_path: Path) -> None:
    """Blocks that run again give the same gradients, with padding too; adapters train and are written for PEFT;
    weights of 8 bits are those that they stand for."""
    kind, options = CASES[case]
    CASES["wide"] = (kind, {**options, "hidden_size": 96, "intermediate_size": 64})
    folder_of("wide", "classes", tmp_path / "m")
    model = models.from_pretrained(tmp_path / "m")
    ids, mask = (cr.tensor(x) for x in batch(0))
    plain = model(ids, mask).logits
    plain.square().sum().backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    model.zero_grad()
    model.gradient_checkpointing_enable()
    model(ids, mask).logits.square().sum().backward()
    for name, p in model.named_parameters():
        assert grads[name] is None or cr.equal(p.grad, grads[name]), name
    model.gradient_checkpointing_disable()
    names = nn.lora.apply(model, 4)
    assert len(names) == (5 if case == "modernbert" else 6)
    step = optim.AdamW(nn.lora.parameters(model), lr=0.01)
    for _ in range(3):
        step.zero_grad()
        nn.functional.cross_entropy(model(ids, mask).logits, cr.tensor([0, 4, 2])).backward()
        step.step()
    tuned = model(ids, mask).logits
    assert not cr.equal(tuned, plain)
    nn.lora.save(model, tmp_path / "a")
    other = models.from_pretrained(tmp_path / "m")
    nn.lora.load(other, tmp_path / "a")
    assert cr.equal(other(ids, mask).logits, tuned)
    import peft
    import torch
    import transformers

    base: Any = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "m").eval()
    with torch.no_grad():
        theirs = peft.PeftModel.from_pretrained(base, str(tmp_path / "a"))(
            torch.tensor(ids.tolist()), attention_mask=torch.tensor(mask.tolist())
        )
    assert apart(tuned, theirs.logits, mask.tolist()) < 1e-5
    small = models.from_pretrained(tmp_path / "m").quantize(8)
    rounded, changed = models.from_pretrained(tmp_path / "m"), 0
    with cr.no_grad():
        for name, part in small.named_modules():
            if isinstance(part, nn.QuantizedLinear | nn.QuantizedEmbedding):
                rounded.get_submodule(name).weight.copy_(part.dequantize())
                changed += 1
    apart_by = (small(ids, mask).logits - rounded(ids, mask).logits).abs().max()
    assert changed > 10 and float(apart_by) < 5e-3  # inputs of packed layers are rounded to 16 bits


@needs_transformers
def test_hooks_and_parts(tmp_path: Path) -> None:
    """A hook on each layer that computes, and another pooler, take effect."""
    folder_of("bert", "classes", tmp_path)
    model = models.from_pretrained(tmp_path)
    ids, mask = (cr.tensor(x) for x in batch(0))
    before = model(ids, mask).logits
    tried = 0
    for name, module in model.named_modules():
        if not isinstance(module, nn.Linear | nn.LayerNorm | nn.Embedding) and not name.rpartition(".")[2].isdigit():
            continue
        if "position_embeddings" in name or "token_type" in name:
            with module.register_forward_hook(lambda *_: None), pytest.raises(RuntimeError, match="was replaced or"):
                model(ids, mask)
            continue
        with module.register_forward_hook(lambda m, x, y: y * 1.5):
            assert not cr.equal(model(ids, mask).logits, before), name
        tried += 1
    assert tried == 31 and cr.equal(model(ids, mask).logits, before)
    model.pooler.dense = nn.Linear(24, 24)
    assert not cr.equal(model(ids, mask).logits, before)


# ---- sentence models ----
def save_tensors(path: Path, tensors: dict[str, cr.Tensor]) -> None:
    import torch
    from safetensors.torch import save_file

    save_file({name: torch.tensor(t.tolist()) for name, t in tensors.items()}, path)


MODES = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt": "pooling_mode_mean_sqrt_len_tokens",
    "weighted": "pooling_mode_weightedmean_tokens",
    "last": "pooling_mode_lasttoken",
}


def sentence_folder(path: Path, modes: tuple[str, ...], normalize: bool, longest: int = 12) -> None:
    """The files of sentence-transformers."""
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalize else [])]
    listed = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (path / "modules.json").write_text(json.dumps(listed))
    (path / "1_Pooling").mkdir(exist_ok=True)
    said = {"word_embedding_dimension": 24, **{key: mode in modes for mode, key in MODES.items()}}
    (path / "1_Pooling" / "config.json").write_text(json.dumps(said))
    (path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": longest, "do_lower_case": False}))


@needs_transformers
@pytest.mark.parametrize(
    ("modes", "normalize"),
    [(("mean",), True), (("cls",), True), (("max",), False), (("mean_sqrt",), False), (("weighted",), True)]
    + [(("last",), False), (("cls", "mean", "max"), True)],
)
def test_sentence_embeddings(modes: tuple[str, ...], normalize: bool, tmp_path: Path) -> None:
    """By the formulas of sentence-transformers, in its order of columns; alone and in a padded batch."""
    folder_of("bert", "", tmp_path)
    sentence_folder(tmp_path, modes, normalize)
    model = models.from_pretrained(tmp_path)
    assert (model.pooling.split("|")[-1] == "normalize") == normalize and model.longest == 12
    ids, mask = batch(0)
    x, m = model(cr.tensor(ids), cr.tensor(mask)).last_hidden_state, cr.tensor(mask)[..., None].float()
    rank = m * cr.arange(1, T + 1).float()[None, :, None]
    last = cr.stack([x[i, n - 1] for i, n in enumerate(LENGTHS)])
    by: dict[str, cr.Tensor] = {
        "cls": x[:, 0],
        "max": x.masked_fill(m == 0, -1e9).amax(1),
        "mean": (x * m).sum(1) / m.sum(1),
        "mean_sqrt": (x * m).sum(1) / m.sum(1).sqrt(),
        "weighted": (x * rank).sum(1) / rank.sum(1),
        "last": last,
    }
    wanted = cr.cat([by[mode] for mode in MODES if mode in modes], 1)
    wanted = nn.functional.normalize(wanted, dim=1) if normalize else wanted
    got = model.embed(cr.tensor(ids), cr.tensor(mask))
    assert got.shape == wanted.shape and float((got - wanted).abs().max()) < 1e-5
    for i, n in enumerate(LENGTHS):
        alone = model.embed(cr.tensor([ids[i][:n]]))
        assert float((alone[0] - got[i]).abs().max()) < 1e-5
    model.save_pretrained(tmp_path / "again")
    again = models.from_pretrained(tmp_path / "again")
    assert again.pooling == model.pooling and cr.equal(again.embed(cr.tensor(ids), cr.tensor(mask)), got)


@needs_transformers
def test_dense_layers(tmp_path: Path) -> None:
    """sentence-transformers' module Dense, with and without bias, in its order; hooks; saved and read again."""
    folder_of("bert", "", tmp_path)
    sentence_folder(tmp_path, ("cls", "mean"), True)
    listed = json.loads((tmp_path / "modules.json").read_text())
    sizes = [("2_Dense", 48, 30, True, "torch.nn.modules.activation.Tanh"),
             ("3_Dense", 30, 7, False, "torch.nn.modules.linear.Identity")]  # fmt: skip
    layers = []
    for name, inputs, outputs, bias, function in sizes:
        (tmp_path / name).mkdir()
        said = {"in_features": inputs, "out_features": outputs, "bias": bias, "activation_function": function}
        (tmp_path / name / "config.json").write_text(json.dumps(said))
        layers.append(nn.Linear(inputs, outputs, bias=bias))
        state = {f"linear.{key}": value for key, value in layers[-1].state_dict().items()}
        save_tensors(tmp_path / name / "model.safetensors", state)
        listed.insert(-1, {"idx": 9, "name": name, "path": name, "type": "sentence_transformers.models.Dense"})
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    model = models.from_pretrained(tmp_path)
    assert model.pooling == "cls|mean|dense_tanh|dense|normalize"
    ids, mask = batch(0)
    x, m = model(cr.tensor(ids), cr.tensor(mask)).last_hidden_state, cr.tensor(mask)[..., None].float()
    pooled = cr.cat([x[:, 0], (x * m).sum(1) / m.sum(1)], 1)
    wanted = nn.functional.normalize(layers[1](layers[0](pooled).tanh()), dim=1)
    got = model.embed(cr.tensor(ids), cr.tensor(mask))
    assert got.shape == wanted.shape and float((got - wanted).detach().abs().max()) < 1e-5
    got.square().sum().backward()
    assert model.state_dict()["2_Dense.linear.bias"].shape == (30,)
    model.save_pretrained(tmp_path / "again")
    again = models.from_pretrained(tmp_path / "again")
    assert again.pooling == model.pooling and cr.equal(again.embed(cr.tensor(ids), cr.tensor(mask)), got)
    with getattr(again, "3_Dense").linear.register_forward_hook(lambda _, __, y: y[:, :3]):
        assert tuple(again.embed(cr.tensor(ids), cr.tensor(mask)).shape) == (3, 3)
    act = {"activation_function": "torch.nn.modules.activation.GELU"}
    (tmp_path / "2_Dense" / "config.json").write_text(json.dumps(act))
    with pytest.raises(ValueError, match=re.escape("must be one of Identity|Tanh")):
        models.from_pretrained(tmp_path)
    for name in "2_Dense", "3_Dense":
        (tmp_path / name / "config.json").write_text("{}")
    assert models.from_pretrained(tmp_path).pooling.count("dense_tanh") == 2, "Tanh where it is not said"
    save_tensors(tmp_path / "2_Dense" / "model.safetensors", {"linear.weight": cr.ones(30, 24)})
    with pytest.raises(ValueError, match="layer 1 behind the pooling takes 24 numbers, there are 48"):
        models.from_pretrained(tmp_path)
    (tmp_path / "modules.json").write_text(json.dumps([*listed, listed[2]]))
    with pytest.raises(ValueError, match="more than two modules Dense"):
        models.from_pretrained(tmp_path)


@needs_transformers
@pytest.mark.parametrize("words", ["|".join(["mean"] * 7), "dense", "mean|dense|mean", "meen", 5])
def test_strange_poolings(words: Any, tmp_path: Path) -> None:
    folder_of("bert", "", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "sentence_pooling": words}))
    with pytest.raises(ValueError, match="pooling"):
        models.from_pretrained(tmp_path)


@needs_transformers
def test_far_tokens_of_mpnet(tmp_path: Path) -> None:
    """Distances up to where all are in one bucket; several texts in one row."""
    import torch

    CASES["mpnet, long"] = ("mpnet", {"pad_token_id": 1, "max_position_embeddings": 402})
    their = folder_of("mpnet, long", "", tmp_path)
    ids = [4 + (7 * i + i * i) % (V - 4) for i in range(400)]
    got = models.from_pretrained(tmp_path)(cr.tensor([ids])).last_hidden_state
    assert apart(got, their(torch.tensor([ids])).last_hidden_state.detach(), [[1] * 400]) < 1e-5


@needs_transformers
def test_embeddings_of_decoders(tmp_path: Path) -> None:
    """The last token of a causal model, as of Qwen 3's embedding models."""
    import test_families

    test_families.folder_of("qwen 3", tmp_path)
    sentence_folder(tmp_path, ("last",), True)
    model = models.from_pretrained(tmp_path)
    ids, mask = batch(0)
    wanted = nn.functional.normalize(
        cr.stack([model.hidden(cr.tensor([ids[i][:n]]))[0, -1] for i, n in enumerate(LENGTHS)]), dim=1
    )
    assert float((model.embed(cr.tensor(ids), cr.tensor(mask)) - wanted).abs().max()) < 1e-5


# ---- files ----
@needs_transformers
def test_names_of_older_files(tmp_path: Path) -> None:
    """BERT's first files: gamma and beta, positions, a second task's head, the tied head once more; older keys."""
    import torch

    their = folder_of("bert", "masked", tmp_path)
    state = {name: cr.tensor(t.tolist()) for name, t in their.state_dict().items()}
    state |= {"cls.seq_relationship.weight": cr.ones(2, 24), "cls.seq_relationship.bias": cr.ones(2)}
    state = {n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
             for n, t in state.items()}  # fmt: skip
    config = json.loads((tmp_path / "config.json").read_text())
    cr._core._save_folder(state, str(tmp_path), json.dumps(config), 0)
    ids, mask = batch(0)
    got = models.from_pretrained(tmp_path)(cr.tensor(ids), cr.tensor(mask)).logits
    assert apart(got, their(torch.tensor(ids), torch.tensor(mask)).logits.detach(), mask) < 1e-5
    (tmp_path / "m").mkdir()
    their = folder_of("modernbert", "", tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    for key in ("rope_parameters", "layer_types"):
        del config[key]
    config |= {"global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "global_attn_every_n_layers": 3}
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    x = models.from_pretrained(tmp_path / "m")(cr.tensor(ids), cr.tensor(mask)).last_hidden_state
    assert apart(x, their(torch.tensor(ids), torch.tensor(mask)).last_hidden_state.detach(), mask) < 1e-5


@needs_transformers
@pytest.mark.parametrize("case", ["eurobert", "gte", "nomic"])
def test_base_of_rotation_of_older_files(case: str, tmp_path: Path) -> None:
    """ "rope_theta" beside the other entries."""
    their = folder_of(case, "", tmp_path)
    state = {name: t.detach().clone() for name, t in their.state_dict().items()}
    config = json.loads((tmp_path / "config.json").read_text())
    del config["rope_parameters"]
    ids, mask = batch(config["pad_token_id"])
    want = stream_of({**config, "rope_theta": 50.0}, state, tmp_path, ids[:1], mask[:1])
    got = models.from_pretrained(tmp_path)(cr.tensor(ids[:1]), cr.tensor(mask[:1])).last_hidden_state
    assert float(abs(got.detach().numpy()[0] - want).max() / abs(want).max()) < 1e-5


@needs_transformers
def test_refused(tmp_path: Path) -> None:
    folder_of("bert", "", tmp_path)
    model = models.from_pretrained(tmp_path)
    ids = cr.tensor(batch(0)[0])
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: model(ids, cr.ones(3, 4)), "attention_mask must have the shape"),
        (lambda: model(ids, token_type_ids=cr.ones(2, 2)), "token_type_ids must have the shape"),
        (lambda: model(cr.zeros(1, 41, dtype=cr.int64)), "1 to 40"),
        (lambda: models.CausalLM.from_pretrained(tmp_path), '"bert" is an encoder'),
    ]
    for wrong, message in calls:
        with pytest.raises(ValueError, match=message):
            wrong()
    with pytest.raises((IndexError, ValueError), match=str(V)):
        model(cr.full([1, 3], V))
    config = json.loads((tmp_path / "config.json").read_text())
    refused: list[tuple[dict[str, Any], str]] = [
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"is_decoder": True}, "is_decoder"),
        ({"num_hidden_layers": 4}, "num_hidden_layers"),
        ({"intermediate_size": 43}, "weights do not fit"),
    ]
    for changes, message in refused:
        (tmp_path / "config.json").write_text(json.dumps({**config, **changes}))
        with pytest.raises(ValueError, match=message):
            models.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    sentence_folder(tmp_path, ("mean",), True)
    for name, said, message in [
        ("1_Pooling/config.json", {}, "no pooling_mode is true"),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": "yes"}, "pooling_mode_mean_tokens"),
        ("modules.json", [{"path": "../x", "type": "a.Pooling"}], "must be a plain name"),
        ("modules.json", [{"path": "2_LSTM", "type": "sentence_transformers.models.LSTM"}], "a module LSTM"),
        ("sentence_bert_config.json", {"max_seq_length": -1}, "max_seq_length"),
    ]:
        sentence_folder(tmp_path, ("mean",), True)
        (tmp_path / name).write_text(json.dumps(said))
        with pytest.raises(ValueError, match=message):
            models.from_pretrained(tmp_path)


# ---- variants of config.json ----
VALUES: dict[str, list[Any]] = {
    "max_position_embeddings": [20, 41],
    "hidden_act": ["gelu", "gelu_new", "relu", "silu", "mish"],
    "hidden_activation": ["gelu", "silu", "mish"],
    "activation": ["gelu", "relu", "mish"],
    "layer_norm_eps": [0.1, 1e-5, -1.0],
    "norm_eps": [0.1],
    "type_vocab_size": [1, 5],
    "pad_token_id": [1, 0, 7],
    "local_attention": [2, 4, 12, 100],
    "attention_bias": [True, False],
    "mlp_bias": [True, False],
    "norm_bias": [True, False],
    "layer_types": [["full_attention"] * 5, ["sliding_attention"] * 5, ["full_attention"], ["chunked"] * 5],
    "rope_parameters": [
        {
            "full_attention": {"rope_type": "default", "rope_theta": 50.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 70.0},
        },
        {"full_attention": {"rope_type": "linear", "rope_theta": 50.0, "factor": 2.0}},
        {"rope_type": "default", "rope_theta": 50.0},
        [],
    ],
    "rope_theta": [50.0],
    "use_bidirectional_attention": [None],
    "sliding_window": [2, 7, 100],
    "relative_attention_num_buckets": [32, 31],
    "is_decoder": [True],
    "add_cross_attention": [True],
    "hidden_dropout_prob": [0.5],
    "sinusoidal_pos_embds": [True],
    "position_embedding_type": ["absolute", "relative_key"],
    "a_key_that_nobody_knows": [1],
    "model_type": ["t5", 5],
}
SWEPT = ("bert", "roberta", "mpnet", "embeddinggemma", "distilbert", "modernbert", "nomic", "gte", "eurobert")


def stream_of(config: dict[str, Any], state: dict[str, Any], at: Path, ids: Any, mask: Any) -> Any:
    """The stream that transformers computes, or its exception."""
    import torch
    from transformers import AutoConfig, AutoModel

    (at / "config.json").write_text(json.dumps(config))
    try:
        make: Any = AutoModel.from_config
        model = make(AutoConfig.from_pretrained(at), attn_implementation="eager").eval()
        model.load_state_dict(state)
        with torch.no_grad():
            return model(torch.tensor(ids), torch.tensor(mask)).last_hidden_state.numpy()[0]
    except Exception as error:  # whatever it raises
        return error


@needs_transformers
@pytest.mark.parametrize("case", SWEPT)
def test_variants(case: str, tmp_path: Path) -> None:
    """What transformers computes, or an error that names the entry: a third of the variants, all with
    CHAINRULE_TEST_FULL=1."""
    their = folder_of(case, "", tmp_path)
    state = {name: t.detach().clone() for name, t in their.state_dict().items()}
    config = json.loads((tmp_path / "config.json").read_text())
    skipped = ("architectures", "dtype", "torch_dtype", "transformers_version", "id2label", "label2id")
    tried, wrong = 0, list[str]()
    ids, mask = batch(config["pad_token_id"])
    ids, mask = ids[:1], mask[:1]
    models.from_pretrained(tmp_path)
    for key in dict.fromkeys([*config, *VALUES]):
        common = [ABSENT, None, "x", -1] if key in config else []
        if key.startswith(("vocab", "hidden_size", "inter", "num_h", "num_a", "dim", "n_", "hidden_dim")):
            common += [config[key] + 1, 0, 1.5]
        for value in [*common, *VALUES.get(key, [])]:
            shown = "absent" if value is ABSENT else json.dumps(value)
            if key in skipped or (not LEVEL and zlib.crc32(f"{case} {key} {shown}".encode()) % 3):
                continue
            changed = copy.deepcopy(config)
            changed[key] = value
            if value is ABSENT:
                del changed[key]
            tried += 1
            want = stream_of(changed, state, tmp_path, ids, mask)
            try:
                model: Any = models.from_pretrained(tmp_path)
                if isinstance(model, models.CausalLM):
                    got: Any = model.hidden(cr.tensor(ids))
                else:
                    got = model(cr.tensor(ids), cr.tensor(mask)).last_hidden_state
                got = got.detach().numpy()[0]
            except (ValueError, RuntimeError, IndexError) as error:
                got = error
            problem = judged(key, value, want, got)
            if problem:
                wrong.append(f"{case}: {key} {shown}: {problem}")
    assert tried > 20 and not wrong, "\n".join(wrong)


# ---- the program and the server ----
TEXTS = ["The sea is calm tonight.", "tide", "On the French coast the light gleams and is gone; the cliffs of England"]


def text_folder(kind: str, path: Path, longest: int) -> Any:
    """A sentence model with a tokenizer of its own: WordPiece with BERT's ids around a text, or Unigram with
    RoBERTa's."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    path.mkdir(exist_ok=True)
    if kind == "bert":
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        tokenizer: Any = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
        trainer: Any = trainers.WordPieceTrainer(vocab_size=90, special_tokens=special)
    else:
        special = ["<s>", "<pad>", "</s>", "<unk>"]
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(vocab_size=70, special_tokens=special, unk_token="<unk>")
    tokenizer.train_from_iterator([*TEXTS, "abcdefghijklmnopqrstuvwxyz"] * 3, trainer)
    start, end = (special[2], special[3]) if kind == "bert" else (special[0], special[2])
    ids = [(name, tokenizer.token_to_id(name)) for name in (start, end)]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{start} $A {end}", special_tokens=ids)
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    torch.manual_seed(3)
    sizes = {**SIZES, "vocab_size": tokenizer.get_vocab_size(), "num_labels": 2}
    config = transformers.AutoConfig.for_model(kind, **sizes)
    model: Any = transformers.AutoModel.from_config(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p), alpha=0.2)
    model.save_pretrained(path)
    sentence_folder(path, ("mean",), True, longest)
    wanted = []
    for text in TEXTS:
        row = tokenizer.encode(text).ids
        row = row if len(row) <= longest else [*row[: longest - 1], row[-1]]
        with torch.no_grad():
            x = model(torch.tensor([row])).last_hidden_state[0].mean(0)
        wanted.append((x / x.norm()).tolist())
    return wanted


def far(got: list[list[float]], wanted: list[list[float]]) -> float:
    rows = zip(got, wanted, strict=True)
    return max(abs(a - b) for row in rows for a, b in zip(*row, strict=True))


@needs_transformers
@pytest.mark.skipif(not PROGRAM.exists(), reason="the program chainrule is not built")
@pytest.mark.parametrize("kind", ["bert", "xlm-roberta", "mpnet"])
def test_the_program_embeds(kind: str, tmp_path: Path) -> None:
    """Each line, cut at max_seq_length behind which the last id stays; any number of texts at a time."""
    import torch
    import transformers
    from chainrule.data import Tokenizer

    wanted = text_folder(kind, tmp_path / "m", 14)

    def embed(*words: object, code: int = 0, given: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(PROGRAM), "embed", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, input=given)
        assert done.returncode == code, done.stderr
        return done

    for batch_size in (1, 2, 16):
        done = embed("--model", tmp_path / "m", "--batch", batch_size, given="\n".join(TEXTS) + "\n")
        assert far([json.loads(line) for line in done.stdout.splitlines()], wanted) < 1e-5
        assert done.stderr == "pooled by mean|normalize, of at most 14 tokens\n"
    assert far([json.loads(embed("--model", tmp_path / "m", "--text", TEXTS[1]).stdout)], wanted[1:2]) < 1e-5
    transformer = transformers.AutoModel.from_pretrained(tmp_path / "m").eval()
    empty, both = (Tokenizer.from_pretrained(tmp_path / "m").encode(t, add_special_tokens=True) for t in ("", "a\nb"))
    assert 0 < len(empty) < len(both)  # --text is one text, of any length and lines
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path / "m")
    for most in range(3, 20):
        cut = peer(TEXTS[2], truncation=True, max_length=most)["input_ids"]
        own = Tokenizer.from_pretrained(tmp_path / "m")
        assert own.encode(TEXTS[2], add_special_tokens=True, max_length=most) == cut
    with pytest.raises(ValueError, match="max_length must be above 1"):
        own.encode("a", add_special_tokens=True, max_length=1)
    for text, ids in (("", empty), ("a\nb", both)):
        with torch.no_grad():
            mean = transformer(torch.tensor([ids])).last_hidden_state.mean(1)
        one = [torch.nn.functional.normalize(mean)[0].tolist()]
        assert far([json.loads(embed("--model", tmp_path / "m", "--text", text).stdout)], one) < 1e-5
    (tmp_path / "lines").write_bytes(("\r\n".join(TEXTS)).encode())
    done = embed("--model", tmp_path / "m", "--data", tmp_path / "lines")
    assert far([json.loads(line) for line in done.stdout.splitlines()], wanted) < 1e-5
    assert "exclude each other" in embed("--model", "m", "--text", "a", "--data", "b", code=2).stderr
    for command in ("generate", "chat"):
        words = [str(PROGRAM), command, "--model", str(tmp_path / "m")]
        words += ["--template", "chatml"] if command == "chat" else []
        refused = subprocess.run(words, capture_output=True, text=True, input="a\n", check=False)
        assert refused.returncode == 1 and "is an encoder" in refused.stderr, refused


@needs_transformers
@pytest.mark.parametrize("kind", ["bert", "decoder"])
def test_the_server_embeds(kind: str, tmp_path: Path) -> None:
    """POST /v1/embeddings: texts, tokens, base64; what is refused.  An encoder writes no text."""
    pytest.importorskip("h11", reason="h11 is not installed (tools/requirements-test.txt)")
    from chainrule.data import Tokenizer
    from chainrule.serve.embeddings import Embedder

    if kind == "bert":
        wanted = text_folder("bert", tmp_path / "m", 14)
    else:
        import test_families

        test_families.folder_of("llama", tmp_path / "m", 300)
        Tokenizer.bytes().save(tmp_path / "m" / "tokenizer.json")
        plain = models.from_pretrained(tmp_path / "m")
        assert plain.pooling == "mean" and not Embedder(plain, Tokenizer.bytes()).pools
        sentence_folder(tmp_path / "m", ("mean",), False, 96)
        model = models.from_pretrained(tmp_path / "m")
        wanted = [model.embed(cr.tensor([[*text.encode()]]))[0].tolist() for text in TEXTS]
    tokenizer = Tokenizer.from_pretrained(tmp_path / "m")
    command = [sys.executable, "-m", "chainrule.serve", "--model", str(tmp_path / "m"), "--port", "0"]
    paths = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=paths) as process:
        assert process.stdout is not None and process.stderr is not None
        said = process.stdout.readline()
        assert said, process.stderr.read()
        address = urllib.parse.urlsplit(said.split()[-1])

        def ask(path: str, **body: Any) -> tuple[int, Any]:
            client = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
            text = json.dumps({"model": "m", **body})
            client.request("POST", path, text, {"Content-Type": "application/json"})
            answer = client.getresponse()
            found = json.loads(answer.read())
            client.close()
            return answer.status, found

        try:
            status, answer = ask("/v1/embeddings", input=TEXTS)
            assert status == 200 and [row["index"] for row in answer["data"]] == [0, 1, 2]
            assert answer["object"] == "list" and answer["data"][0]["object"] == "embedding"
            assert far([row["embedding"] for row in answer["data"]], wanted) < 1e-5
            ids = tokenizer.encode(TEXTS[1], add_special_tokens=True)
            rows = [tokenizer.encode(text, add_special_tokens=True) for text in TEXTS]
            longest = 14 if kind == "bert" else 96
            count = sum(min(len(row), longest) for row in rows)
            assert answer["usage"] == {"prompt_tokens": count, "total_tokens": count}
            for given in TEXTS[1], ids, [ids]:
                status, answer = ask("/v1/embeddings", input=given, encoding_format="base64", user="x")
                packed = base64.b64decode(answer["data"][0]["embedding"])
                assert far([[*struct.unpack(f"<{len(packed) // 4}f", packed)]], wanted[1:2]) < 1e-5
            bodies: list[tuple[dict[str, Any], str]] = [
                ({"input": []}, '"input" must be a string'),
                ({"input": ""}, '"input" must not be empty'),
                ({"input": ["a", 5]}, '"input" must be'),
                ({"input": [10**6]}, "tokens must be from 0"),
                ({"input": [1] * 97}, "maximum context length is"),
                ({"input": "a", "encoding_format": "text"}, "encoding_format"),
                ({"input": "a", "dimensions": 3}, '"dimensions" must be'),
                ({"input": "a", "what": 3}, 'no entry "what"'),
            ]
            for body, message in bodies:
                status, answer = ask("/v1/embeddings", **body)
                assert status == 400 and message in answer["error"]["message"], answer
            assert ask("/v1/embeddings", input="a", model="other")[0] == 404
            status, answer = ask("/v1/completions", prompt="a", max_tokens=1)
            assert status == (404 if kind == "bert" else 200)
            assert kind != "bert" or "is an encoder" in answer["error"]["message"]
        finally:
            process.terminate()
            assert process.wait(60) == 0
