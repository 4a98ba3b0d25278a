"""Adapters and fine-tuning: ``nn.lora`` against formulas and against PEFT where it is installed, packed samples
against separate ones, the program against Python, wrong input."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from chainrule import models, nn, optim
from chainrule.data import Packing, Sample, Tokenizer, pack, read_samples
from chainrule.data.packing import Question
from chainrule.models import GPT, Llama
from chainrule.models.decoder import Spans
from chainrule.nn import functional as F
from chainrule.nn import lora
from conftest import BUILD

PROGRAM = BUILD / "chainrule"
needs_peft = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("peft", "transformers", "torch")),
    reason="peft is not installed (make oracle): names and layout are compared with hand-written ones only",
)
V = 67
X = cr.tensor([[(7 * i * i + 3 * b + i) % V for i in range(12)] for b in range(2)])


def small(kind: str, V: int = V, dtype: cr.dtype = cr.float32, context: int = 64) -> Any:
    g = cr.Generator().manual_seed(5)
    if kind == "gpt2":
        return GPT(V, context, 2, 4, 32, generator=g, dtype=dtype).eval()
    return Llama(V, context, 2, 4, 32, 64, 2, window=5, generator=g, dtype=dtype).eval()


def shake(model: Any, seed: int = 3) -> None:
    """Adapters that do something."""
    g = cr.Generator().manual_seed(seed)
    with cr.no_grad():
        for p in lora.parameters(model):
            p.normal_(0, 0.2, generator=g)


def off(a: cr.Tensor, b: cr.Tensor) -> float:
    return float((a.double() - b.double()).abs().max() / b.double().abs().max())


# ---- layers ----
@pytest.mark.parametrize("rslora", (False, True))
def test_is_the_formula(rslora: bool) -> None:
    """Values and gradients of y = x W^T + b + s (x A^T) B^T in double; nothing flows to W and b."""
    base = nn.Linear(5, 7, dtype=cr.float64)
    layer = lora.LoRA(base, 3, 6.0, rslora=rslora)
    assert layer.lora_A.weight.dtype is cr.float64 and tuple(layer.lora_B.weight.shape) == (7, 3)
    base.requires_grad_(False)
    assert base.bias is not None
    x = cr.randn(4, 5, dtype=cr.float64)
    assert cr.equal(layer(x), base(x)), "B is not 0 at first"
    cr.nn.init.normal_(layer.lora_B.weight)
    a, b = (m.weight.detach().clone().requires_grad_() for m in (layer.lora_A, layer.lora_B))
    s = 6 / math.sqrt(3) if rslora else 2.0
    y, wanted = layer(x), x @ base.weight.t() + base.bias + s * ((x @ a.t()) @ b.t())
    assert off(y, wanted) < 1e-14
    y.square().sum().backward()
    wanted.square().sum().backward()
    for p, q in ((layer.lora_A.weight, a), (layer.lora_B.weight, b)):
        assert p.grad is not None and q.grad is not None and off(p.grad, q.grad) < 1e-13
    assert base.weight.grad is None and base.bias.grad is None
    assert off(F.linear(x, layer.weight, layer.bias), y) < 1e-13


def test_bounds_of_the_first_values() -> None:
    """A is drawn as a Linear's weight, from the generator that is given."""
    g = cr.Generator().manual_seed(1)
    first = lora.LoRA(nn.Linear(64, 8), 16, generator=g).lora_A.weight
    again = lora.LoRA(nn.Linear(64, 8), 16, generator=cr.Generator().manual_seed(1)).lora_A.weight
    assert cr.equal(first, again) and 0.11 < float(first.abs().max()) <= 0.125


class Quantized(nn.Module):
    """A layer whose weight is not of floats, as a quantized one's."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = base.in_features, base.out_features
        self.register_buffer("codes", (base.weight * 50).round().to(cr.int8))

    @property
    def weight(self) -> cr.Tensor:
        return cr.Tensor.float(self.codes) / 50

    def forward(self, x: cr.Tensor) -> cr.Tensor:
        return F.linear(x, self.weight)


def test_over_a_base_that_is_no_linear() -> None:
    model = nn.Sequential(Quantized(nn.Linear(6, 8)), nn.Tanh(), Quantized(nn.Linear(8, 3)))
    x = cr.randn(5, 6)
    before = model(x)
    codes = model[0].codes.clone()
    assert lora.apply(model, 2) == ["0", "2"] and cr.equal(model(x), before)
    optimizer = optim.AdamW(lora.parameters(model), lr=0.05)
    target, losses = cr.randn(5, 3), []
    for _ in range(60):
        loss = F.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0] and cr.equal(model[0].base_layer.codes, codes)
    with pytest.raises(ValueError, match=r"lora\.merge.*'0' has no weight of floats"):
        lora.merge(model)


def test_removed_beside_integers() -> None:
    """Parameters that are no floats never train."""
    model = nn.Sequential(nn.Linear(3, 2))
    model.register_parameter("table", nn.Parameter(cr.tensor([1, 2]), requires_grad=False))
    lora.apply(model, r=1)
    lora.remove(model)
    assert {name: p.requires_grad for name, p in model.named_parameters()} == {
        "table": False,
        "0.weight": True,
        "0.bias": True,
    }


# ---- models ----
@pytest.mark.parametrize("kind", ("gpt2", "llama"))
def test_merge_and_unmerge(kind: str) -> None:
    model, plain = small(kind), small(kind)
    names = lora.apply(model, 4, 8.0)
    assert len(names) == (2 if kind == "gpt2" else 4)
    shake(model)
    wanted = model(X)
    assert off(wanted, plain(X)) > 1e-3
    lora.merge(model)
    assert 0 < off(model(X), wanted) < 1e-5
    merged = model(X)
    lora.merge(model)  # once is enough
    assert cr.equal(model(X), merged)
    lora.unmerge(model)
    assert off(model(X), wanted) < 1e-5
    lora.remove(model)
    assert off(model(X), plain(X)) < 1e-5 and all(p.requires_grad for p in model.parameters())
    assert model.state_dict().keys() == plain.state_dict().keys()


@pytest.mark.parametrize("kind", ("gpt2", "llama"))
def test_learns_by_heart_and_leaves_the_base_alone(kind: str) -> None:
    model = small(kind)
    with cr.no_grad():
        model.head.mul_(20.0)  # logits as large as a trained model's
    before = {name: p.detach().clone() for name, p in model.state_dict().items()}
    lora.apply(model, 8, 16.0, "all-linear")
    assert sum(p.requires_grad for p in model.parameters()) == len(lora.parameters(model))
    optimizer = optim.AdamW(lora.parameters(model), lr=2e-2, weight_decay=0.0)
    losses = []
    for _ in range(80):
        loss = model.loss(X[:1, :-1], X[:1, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0], losses[::10]
    lora.remove(model)
    after = model.state_dict()
    assert all(cr.equal(after[name], value) for name, value in before.items())


@pytest.mark.parametrize("kind", ("gpt2", "llama"))
def test_files_of_peft(kind: str, tmp_path: Path) -> None:
    """Names, shapes and entries as PEFT writes them; the C library reads them to the same losses."""
    model, other = small(kind), small(kind)
    lora.apply(model, 4, 8.0, ["c_attn", "mlp.c_proj"] if kind == "gpt2" else "all-linear", 0.25)
    shake(model)
    lora.save(model, tmp_path / "a", base="somewhere")
    config = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
    wanted = {"peft_type": "LORA", "r": 4, "lora_alpha": 8.0, "lora_dropout": 0.25, "bias": "none"}
    assert config.items() >= wanted.items() and config["fan_in_fan_out"] is (kind == "gpt2")
    assert config["base_model_name_or_path"] == "somewhere" and config["task_type"] == "CAUSAL_LM"
    weights = cr.load(tmp_path / "a" / "adapter_model.safetensors")
    if kind == "gpt2":
        assert config["target_modules"] == ["c_attn", "mlp.c_proj"]
        shapes = {"attn.c_attn.lora_A": (4, 32), "attn.c_attn.lora_B": (96, 4)}
        shapes |= {"mlp.c_proj.lora_A": (4, 128), "mlp.c_proj.lora_B": (32, 4)}
        start = "base_model.model.transformer.h"
    else:
        shapes = {"self_attn.k_proj.lora_A": (4, 32), "self_attn.k_proj.lora_B": (16, 4)}
        start = "base_model.model.model.layers"
        assert len(weights) == 2 * 7 * 2 and "lm_head" not in str([*weights])
    for name, shape in shapes.items():
        assert tuple(weights[f"{start}.1.{name}.weight"].shape) == shape
    assert lora.load(other, tmp_path / "a") == [
        *dict.fromkeys(n.rpartition(".lora_")[0] for n in lora.state_dict(model))
    ]
    assert cr.equal(other(X), model(X)) and sum(p.requires_grad for p in other.parameters()) == len(weights)
    if PROGRAM.exists():
        small(kind).save_pretrained(tmp_path / "base")
        Tokenizer.chars("".join(map(chr, range(33, 33 + V)))).save(tmp_path / "base" / "tokenizer.json")
        (tmp_path / "text").write_text("".join(chr(33 + int(i)) for i in X[0]))
        said = run(
            "eval", "--model", tmp_path / "base", "--adapter", tmp_path / "a", "--data", tmp_path / "text", "--json"
        )
        assert json.loads(said)["loss"] == pytest.approx(model.loss(X[:1, :-1], X[:1, 1:]).item(), rel=1e-5)


@needs_peft
@pytest.mark.parametrize("kind", ("gpt2", "llama"))
def test_both_ways_with_peft(kind: str, tmp_path: Path) -> None:
    """PEFT's folder gives its logits here; ours gives ours there, merged too."""
    import torch
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModelForCausalLM

    small(kind).save_pretrained(tmp_path / "base")
    targets = ["c_attn", "c_fc", "c_proj"] if kind == "gpt2" else ["q_proj", "v_proj", "down_proj"]
    x = torch.tensor(X.tolist())
    torch.manual_seed(0)
    their = get_peft_model(
        AutoModelForCausalLM.from_pretrained(tmp_path / "base"),
        LoraConfig(r=4, lora_alpha=8, target_modules=targets, init_lora_weights=False, fan_in_fan_out=kind == "gpt2"),
    ).eval()
    their.save_pretrained(tmp_path / "theirs")
    mine: Any = models.from_pretrained(tmp_path / "base")
    lora.load(mine, tmp_path / "theirs")
    assert off(mine(X), cr.tensor(their(x).logits.tolist())) < 1e-5
    shake(mine)
    lora.save(mine, tmp_path / "mine")
    again = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tmp_path / "base"), str(tmp_path / "mine"))
    assert off(mine(X), cr.tensor(again.eval()(x).logits.tolist())) < 1e-5
    merged = again.merge_and_unload()
    lora.merge(mine)
    assert off(mine(X), cr.tensor(merged(x).logits.tolist())) < 1e-5


# ---- packing ----
@pytest.mark.parametrize("kind", ("gpt2", "llama"))
def test_packed_is_separate(kind: str) -> None:
    """The loss of a row is the mean over its samples' tokens that count, and so are its gradients."""
    one, many = small(kind, dtype=cr.float64), small(kind, dtype=cr.float64)
    ids = X.flatten().tolist()
    samples = [
        Sample(ids[:6], [False] * 3 + [True] * 3),
        Sample(ids[6:8], [False, True]),
        Sample(ids[8:17], [True] * 9),
        Sample(ids[17:21], [True, False, True, False]),
    ]
    tokens, targets, lengths = pack(samples)
    assert lengths == [5, 1, 8, 3] and tuple(tokens.shape) == (1, 17)
    assert targets.tolist()[0] == [-100, -100, *ids[3:6], ids[7], *ids[9:17], -100, ids[19], -100]
    loss = one.loss(tokens, targets, lengths)
    loss.backward()
    total, n = cr.zeros((), dtype=cr.float64), 0
    for sample in samples:
        logits = many(cr.tensor([sample.tokens[:-1]]))[0]
        for t, count in enumerate(sample.counts[1:]):
            if count:
                total = total + F.cross_entropy(logits[t : t + 1], cr.tensor(sample.tokens[t + 1 : t + 2]))
                n += 1
    (total / n).backward()
    assert n == 13 and abs(loss.item() - total.item() / n) < 1e-12
    for (name, p), q in zip(one.named_parameters(), many.parameters(), strict=True):
        assert float((p.grad - q.grad).abs().max()) < 1e-12, name
    with pytest.raises(ValueError, match="none of the 3 targets counts"):
        one.loss(tokens[:, :3], cr.full((1, 3), -100), [3])
    with pytest.raises(ValueError, match=r"must be \(1, sum of lengths\)"):
        one.loss(tokens, targets, [5, 1])
    with pytest.raises(ValueError, match="the longest of 65"):
        one.hidden(cr.zeros(1, 65, dtype=cr.int64), past=Spans.whole([65]))


def test_rows_of_whole_samples() -> None:
    """Every sample once an epoch, in an order of its own; a resumed pass goes on where it was."""
    samples = [Sample([i] * (2 + i % 7), [True] * (2 + i % 7)) for i in range(40)]

    def epoch(packing: Packing) -> list[list[int]]:
        return [batch.tokens[0].tolist() for batch in packing]

    packing = Packing(samples, 16, 2, seed=4)
    first, second = epoch(packing), epoch(packing)
    assert first != second and all(len(row) <= 32 for row in first)
    wanted = sorted(i for i, s in enumerate(samples) for _ in s.tokens[1:])
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == wanted
    again, part = Packing(samples, 16, 2, seed=4), []
    for batch in again:
        part.append(batch.tokens[0].tolist())
        if len(part) == 3:
            break
    resumed = Packing(samples, 16, 2)
    resumed.load_state_dict(again.state_dict())
    assert part + epoch(resumed) == first and epoch(resumed) == second
    with pytest.raises(ValueError, match="sample 0 has 30 tokens"):
        Packing([Sample([1] * 30, [True] * 30)], 16)
    with pytest.raises(ValueError, match="sample 0 has 1 tokens"):
        pack([Sample([1], [True])])
    with pytest.raises(ValueError, match="no samples"):
        pack([])


# ---- data ----
TEXT = "one two three four five six seven eight nine ten. " * 20
CHAT = [
    {"role": "system", "content": "Count."},
    {"role": "user", "content": "two?"},
    {"role": "assistant", "content": "three"},
    {"role": "user", "content": "four?"},
    {"role": "assistant", "content": "five six"},
]


@pytest.fixture(scope="module")
def chatty() -> Tokenizer:
    return Tokenizer.train_bpe(TEXT, 300, special_tokens=["<|im_start|>", "<|im_end|>", "<|endoftext|>"])


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return path


def counted(tokenizer: Tokenizer, sample: Any) -> str:
    return tokenizer.decode([t for t, c in zip(sample.tokens, sample.counts, strict=True) if c])


def test_what_counts(chatty: Tokenizer, tmp_path: Path) -> None:
    """Answers with their end token; completions and texts with the end of text; prompts never."""
    eos = chatty.token_to_id("<|endoftext|>")
    path = lines(
        tmp_path / "a.jsonl",
        {"messages": CHAT},
        {"prompt": "one <|im_end|>", "completion": " two"},  # a token, as in transformers
        {"text": "three four"},
        "\n",
        {"question": "one two", "choices": ["three", "four"], "answer": "B"},
    )
    chat, completion, text, question = read_samples(path, chatty, 200, eos=eos)
    assert isinstance(chat, Sample) and isinstance(completion, Sample) and isinstance(text, Sample)
    assert isinstance(question, Question) and question.answer == 1 and question.bytes == [6, 5]
    assert counted(chatty, chat) == "three<|im_end|>five six<|im_end|>"
    assert chatty.decode(chat.tokens) == (
        "<|im_start|>system\nCount.<|im_end|>\n<|im_start|>user\ntwo?<|im_end|>\n<|im_start|>assistant\nthree<|im_end|>\n"
        "<|im_start|>user\nfour?<|im_end|>\n<|im_start|>assistant\nfive six<|im_end|>"
    )
    assert sum(t == chatty.token_to_id("<|im_start|>") for t in chat.tokens) == 5
    assert counted(chatty, completion) == " two<|endoftext|>"
    assert chatty.token_to_id("<|im_end|>") in completion.tokens
    assert counted(chatty, text) == "three four<|endoftext|>"
    assert counted(chatty, question.choices[0]) == " three"
    plain = Tokenizer.bytes()
    with pytest.raises(ValueError, match=r"b.jsonl line 1: .*no chat_template: give one, or the name of one: chatml"):
        read_samples(lines(tmp_path / "b.jsonl", {"messages": CHAT}), plain, 200, eos=0)
    sample = read_samples(tmp_path / "b.jsonl", plain, 400, eos=0, chat_template="chatml")[0]
    assert isinstance(sample, Sample) and counted(plain, sample) == "three<|im_end|>five six<|im_end|>"
    (tmp_path / "t.txt").write_text("abcdefghij")
    windows = read_samples(tmp_path / "t.txt", plain, 4)
    assert [plain.decode(w.tokens) for w in windows if isinstance(w, Sample)] == ["abcde", "efghi", "ij"]
    cut = read_samples(lines(tmp_path / "c.jsonl", {"text": "x" * 50}), plain, 8, truncate=True)[0]
    assert isinstance(cut, Sample) and len(cut.tokens) == 9


WRONG: list[tuple[Any, str]] = [
    ("{", "is not valid JSON"),
    ("[" * 100000, "is not valid JSON"),
    ("7", 'needs "messages"'),
    ({"x": 1}, 'needs "messages"'),
    ({"text": 5}, '"text" must be a string'),
    ({"text": ""}, '"text" is empty'),
    ({"prompt": "a", "completion": ""}, '"completion" is empty'),
    ({"prompt": "a"}, '"completion" must be a string'),
    ({"messages": []}, ""),
    ({"messages": "no"}, ""),
    ({"messages": CHAT[:2]}, "no message has the role assistant"),
    ({"messages": [*CHAT[:2], {"role": "assistant", "content": ""}]}, "message 3 is an empty answer"),
    ({"messages": [{"role": "user"}]}, 'message 1 must have strings "role" and "content"'),
    ({"text": "x" * 41}, "42 tokens"),
    ({"prompt": "x" * 60, "completion": "y"}, "62 tokens"),
]


@pytest.mark.parametrize("row, message", WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_wrong_lines(row: Any, message: str, tmp_path: Path) -> None:
    """The file, the line and what is wrong, in Python and by the program."""
    path = lines(tmp_path / "bad.jsonl", {"text": "good"}, row)
    with pytest.raises(ValueError) as error:
        read_samples(path, Tokenizer.bytes(), 40, eos=0)
    assert "bad.jsonl line 2" in str(error.value) and message in str(error.value)
    if PROGRAM.exists():
        small("gpt2", 256, context=40).save_pretrained(tmp_path / "base")
        config = tmp_path / "base" / "config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"eos_token_id": 0}))
        Tokenizer.bytes().save(tmp_path / "base" / "tokenizer.json")
        for words in (["finetune", "--out", tmp_path / "out"], ["eval"]):
            said = run(*words, "--model", tmp_path / "base", "--data", path, code=1)
            assert "bad.jsonl line 2" in said and message in said, said


def run(*words: Any, code: int = 0) -> str:
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
@pytest.mark.parametrize("kind", ("gpt2", "llama"))
def test_the_program_agrees(kind: str, chatty: Tokenizer, tmp_path: Path) -> None:
    """chainrule eval prints what models.evaluate returns, on text, chats and questions; an adapter of chainrule
    finetune gives the losses that the run's log has."""
    model = small(kind, len(chatty), context=128)
    model.pretrained = {"eos_token_id": [chatty.token_to_id("<|endoftext|>")]}
    model.save_pretrained(tmp_path / "base")
    chatty.save(tmp_path / "base" / "tokenizer.json")
    numbers = "one two three four five six seven eight nine ten".split()
    rows = [
        {"question": f"{a} {b}", "choices": [c, d], "answer": c}
        for a, b, c, d in zip(*(numbers[i:] for i in range(4)), strict=False)
    ]
    data = lines(
        tmp_path / "d.jsonl", {"messages": CHAT}, {"prompt": "one", "completion": " two é"}, *rows, {"text": "a b"}
    )
    (tmp_path / "t.txt").write_text(TEXT)
    mine = models.evaluate(model, chatty, [data, tmp_path / "t.txt"])
    for options in ([], ["--batch", 1]):
        said = json.loads(
            run("eval", "--model", tmp_path / "base", "--json", "--data", data, tmp_path / "t.txt", *options)
        )
        assert said["questions"] == 7 and said["samples"] == mine["samples"] == 5
        for key, value in mine.items():
            assert said[key] == pytest.approx(value, rel=1e-5), key
    words = ["--steps", 12, "--batch", 2, "--warmup", 2, "--lr", 1e-2, "--lora", 4, "--targets", "all-linear"]
    chats = lines(tmp_path / "c.jsonl", *[{"messages": CHAT}] * 4)
    run(
        "finetune",
        "--model",
        tmp_path / "base",
        "--data",
        chats,
        "--validation",
        chats,
        "--out",
        tmp_path / "o",
        *words,
    )
    log = [json.loads(line) for line in (tmp_path / "o" / "run.jsonl").read_text().splitlines()]
    last = [line["val_loss"] for line in log if "val_loss" in line][-1]
    tuned: Any = models.from_pretrained(tmp_path / "base")
    lora.load(tuned, tmp_path / "o")
    found = models.evaluate(tuned, chatty, chats)
    assert (
        found["loss"] == pytest.approx(last, rel=1e-4)
        and found["loss"] < 0.95 * models.evaluate(model, chatty, chats)["loss"]
    )
    said = run("eval", "--model", tmp_path / "base", "--adapter", tmp_path / "o", "--data", chats, "--json")
    assert json.loads(said)["loss"] == pytest.approx(last, rel=1e-5)


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
@pytest.mark.parametrize("kind", ("gpt2", "llama"))
def test_finetune_recomputes(kind: str, chatty: Tokenizer, tmp_path: Path) -> None:
    """--gradient-checkpointing: the same losses and weights, of adapters with dropout and of whole models."""
    small(kind, len(chatty), context=128).save_pretrained(tmp_path / "base")
    chatty.save(tmp_path / "base" / "tokenizer.json")
    data = lines(tmp_path / "c.jsonl", *[{"messages": CHAT}] * 4, {"text": "one two three"})
    words = ["--data", data, "--validation", data, "--steps", 6, "--batch", 3, "--warmup", 1, "--overwrite"]
    for options in (["--lora", 4, "--targets", "all-linear", "--dropout", 0.3], [], ["--dtype", "bf16"]):
        found = []
        for flag in ([], ["--gradient-checkpointing"]):
            run("finetune", "--model", tmp_path / "base", "--out", tmp_path / "o", *words, *options, *flag)
            log = [json.loads(line) for line in (tmp_path / "o" / "run.jsonl").read_text().splitlines()]
            found.append([(line.get("loss"), line.get("norm"), line.get("val_loss")) for line in log])
        assert found[0] == found[1] and len(found[0]) > 6, options


# ---- what is refused ----
def test_wrong_adapters(tmp_path: Path) -> None:
    model = small("gpt2")
    for options, message in (
        ({"targets": ["c_attn", "c_atn"]}, r"named \['c_atn'\]: there are \['c_attn', 'c_proj', 'c_fc'\]"),
        ({"targets": []}, "no linear layers"),
        ({"r": 0}, "rank must be at least 1, not 0"),
        ({"r": 1.5}, "rank must be at least 1, not 1.5"),
        ({"alpha": math.nan}, "alpha"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), not 1.0"),
    ):
        with pytest.raises(ValueError, match=message):
            lora.apply(model, **options)
    assert all(p.requires_grad for p in model.parameters())
    for function in (lora.merge, lora.unmerge, lora.remove, lora.parameters, lora.state_dict):
        with pytest.raises(ValueError, match="the model has no adapter"):
            function(model)
    lora.apply(model, 4)
    with pytest.raises(ValueError, match="has an adapter"):
        lora.apply(model)
    for save in (model.save_pretrained, model.save_gguf):
        with pytest.raises(ValueError, match="the model has adapters"):
            save(tmp_path / "x")
    lora.save(model, tmp_path / "a")
    with pytest.raises(RuntimeError, match=r"transformer\.h\.0\.attn\.c_attn\.lora_A\.weight' is not wanted"):
        lora.load(small("llama"), tmp_path / "a")
    path = tmp_path / "a" / "adapter_config.json"
    config = json.loads(path.read_text())
    for changes, error, message in (
        ({"r": 3}, RuntimeError, r"'h\.0\.attn\.c_attn\.lora_A\.weight' is \(4, 32\), not \(3, 32\)"),
        ({"r": 0}, ValueError, '"r" must be a whole number from 1 to .*, it is 0'),
        ({"peft_type": "IA3"}, ValueError, '"peft_type" must be one of LORA'),
        ({"use_dora": True}, ValueError, '"use_dora" must be false, it is true'),
        *(
            ({"init_lora_weights": kind}, ValueError, f'"init_lora_weights" must be .*it is "{kind}"')
            for kind in ("pissa", "pissa_niter_4", "olora", "corda", "loftq", "something")
        ),
        *(
            ({key: value}, ValueError, f'"{key}" must be empty')
            for key, value in (
                ("alora_invocation_tokens", [5, 6]),
                ("layer_replication", [[0, 1]]),
            )
        ),
        ({"use_qalora": True}, ValueError, '"use_qalora" must be false'),
        ({"bias": "all"}, ValueError, '"bias" must be one of none'),
        ({"lora_dropout": "x"}, ValueError, '"lora_dropout" must be a number'),
    ):
        path.write_text(json.dumps(config | changes))
        with pytest.raises(error, match=message):
            lora.load(small("gpt2"), tmp_path / "a")
    for fine in (True, False, None, "gaussian", "eva", "orthogonal"):  # of the adapter only, which is in the file
        path.write_text(json.dumps(config | {"init_lora_weights": fine, "alora_invocation_tokens": None}))
        assert lora.load(small("gpt2"), tmp_path / "a")
    path.write_text("{")
    with pytest.raises(OSError, match="is not valid JSON"):
        lora.load(small("gpt2"), tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        lora.load(small("gpt2"), tmp_path / "nothing")
