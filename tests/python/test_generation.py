"""Text from models: beams, drafts, masks, caches and penalties against plain references, against the
program with the same seed, and against ``transformers`` where it is installed; chat templates."""

from __future__ import annotations

import copy
import gc
import importlib.util
import itertools
import json
import math
import os
import pty
import signal
import subprocess
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from chainrule.data import Tokenizer
from chainrule.models import GPT, Llama, generation
from chainrule.models.cache import Int8
from conftest import BUILD

PROGRAM = BUILD / "chainrule"
needs_program = pytest.mark.skipif(not PROGRAM.exists(), reason="the program chainrule is not built")
needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None or importlib.util.find_spec("torch") is None,
    reason="transformers is not installed (make oracle)",
)
KINDS = ("gpt2", "llama", "mistral", "qwen3")
V = 31
PROMPT = [3, 14, 15, 9, 2, 6]


def seeded(seed: int) -> cr.Generator:
    return cr.Generator().manual_seed(seed)


def loud(model: Any, scale: float = 6.0) -> Any:
    """With weights large enough that its distributions are not flat."""
    with cr.no_grad():
        for p in model.parameters():
            if p.ndim == 2:
                p.mul_(scale)
    return model.eval()


def small(kind: str, seed: int = 5, vocabulary: int = V, context: int = 24) -> Any:
    g = seeded(seed)
    if kind == "gpt2":
        return loud(GPT(vocabulary, context, 2, 4, 16, generator=g))
    options: dict[str, dict[str, Any]] = {
        "llama": {},
        "mistral": {"window": 4},
        "qwen3": {"qk_norm": True, "tied": True},
        "dynamic": {
            "rope": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 8}
        },
    }
    return loud(Llama(vocabulary, context, 2, 4, 16, 24, 2, **options[kind], generator=g))


def logits_after(model: Any, tokens: list[int]) -> cr.Tensor:
    with cr.no_grad():
        row: cr.Tensor = model(cr.tensor([tokens]))[0, -1].double()
    return row


# ---- drawing ----
# ---- steps that replay
def without_plans(model: Any, n: int, monkeypatch: pytest.MonkeyPatch, **options: Any) -> list[int]:
    """The text of a model whose own code runs for each token."""
    with monkeypatch.context() as patch:
        patch.setattr(generation, "step_of", lambda model: None)
        return list(model.generate(PROMPT, n, **options))


@pytest.mark.parametrize("kind", [*KINDS, "dynamic"])
def test_steps_replay(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the window moves, in a model that trains, by beams and with a draft; the weights of the moment."""
    model = small(kind, context=80)
    for _ in range(2):
        text = model.generate(PROMPT, 120, generator=seeded(1))
        assert text == without_plans(model, 120, monkeypatch, generator=seeded(1))
        assert model.generate(PROMPT, 30, num_beams=3) == without_plans(model, 30, monkeypatch, num_beams=3)
        step = generation.step_of(model)
        assert (step is not None) == model.steady == (kind != "dynamic")
        assert step is None or "attention" in step.explain()
        draft = small(kind, 6, context=80)
        exact = kind != "dynamic"  # whose angles depend on how many tokens are read at once
        assert not exact or model.generate(PROMPT, 30, 0, draft=draft) == without_plans(
            model, 30, monkeypatch, temperature=0
        )
        model.train()
        assert model.generate(PROMPT, 120, generator=seeded(1)) == text and model.training
        with cr.no_grad():  # in place, and other tensors
            model.head.mul_(-0.5)
            model.blocks[0].mlp.load_state_dict(small(kind, 7).blocks[0].mlp.state_dict())


def test_steps_of_changed_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy has steps of its own; hooks and parts of other classes run for each token; a model is freed."""
    model = small("llama", context=80)
    text = model.generate(PROMPT, 40, 0)
    other = copy.deepcopy(model)
    with cr.no_grad():
        other.head.mul_(-1)
    assert other.generate(PROMPT, 40, 0) == without_plans(other, 40, monkeypatch, temperature=0) != text
    calls = []
    handle = model.blocks[1].mlp.register_forward_hook(lambda module, args, y: calls.append(y.shape))
    assert model.generate(PROMPT, 40, 0) == text and len(calls) == 40
    handle.remove()

    class Louder(cr.nn.Module):
        def __init__(self, inner: cr.nn.Module) -> None:
            super().__init__()
            self.inner, self.calls = inner, 0

        def forward(self, x: cr.Tensor) -> Any:
            self.calls += 1
            return self.inner(x) * (1 + self.calls % 2)

    model.blocks[0].mlp = louder = Louder(model.blocks[0].mlp)
    model.generate(PROMPT, 40, 0)
    assert louder.calls == 40
    gone = weakref.ref(other)
    del other
    gc.collect()
    assert gone() is None


def test_texts_in_threads() -> None:
    """Replays of one plan at the same time, each with its own caches."""
    model = small("llama", context=80)
    prompts = [[i + 1, 2 * i, 3] for i in range(8)]
    alone = [model.generate(prompt, 60, generator=seeded(i)) for i, prompt in enumerate(prompts)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            together = pool.map(lambda i: model.generate(prompts[i], 60, generator=seeded(i)), range(8))
            assert list(together) == alone


def test_one_text_in_two_threads() -> None:
    """A text that is being made is an error for others, its own mask too; after an error it has ended."""
    model = small("gpt2")
    stream: Any = None

    def asks(tokens: list[int], logits: cr.Tensor) -> cr.Tensor:
        next(stream)
        return logits

    stream = model.stream(PROMPT, 5, mask=asks)
    with pytest.raises(ValueError, match="is being made already"):
        next(stream)
    assert list(stream) == []


def test_changes_while_a_text_is_made() -> None:
    """A module that changes all the time is not recorded all the time."""
    model = small("gpt2", context=80)
    expected = model.generate(PROMPT, 40, 0)
    made, tokens = [], model.stream(PROMPT, 40, 0)
    for token in tokens:
        made.append(token)
        model.blocks[0].mlp.train()  # a change, though not one of a value
    assert made == expected


def test_penalty_and_min_p_are_their_formulas() -> None:
    """Greedy text with the penalty, by a loop; min_p 1 is greedy at any temperature."""
    model, window = small("llama"), [*PROMPT]
    for _ in range(12):
        row = logits_after(model, window)
        for token in set(window):
            row[token] = row[token] / 1.8 if row[token] > 0 else row[token] * 1.8
        window.append(int(row.argmax()))
    made = model.generate(PROMPT, 12, 0.0, repetition_penalty=1.8)
    assert made == window[len(PROMPT) :] != model.generate(PROMPT, 12, 0.0)
    assert model.generate(PROMPT, 12, 3.0, min_p=1.0) == model.generate(PROMPT, 12, 0.0)
    drawn = {model.generate(PROMPT, 1, 2.0, min_p=0.3, generator=seeded(i))[0] for i in range(200)}
    p = (logits_after(model, PROMPT) / 2).softmax(0)
    assert drawn == {i for i in range(V) if p[i] >= 0.3 * p.max()} and len(drawn) > 1


def test_masks_and_stops() -> None:
    """A grammar: after an odd token an even one, and the other way; as bools and as logits."""
    model, seen = small("gpt2"), []

    def alternate(tokens: list[int], logits: cr.Tensor) -> cr.Tensor:
        seen.append(tokens[-1])
        return cr.arange(V) % 2 != tokens[-1] % 2

    def as_logits(tokens: list[int], logits: cr.Tensor) -> cr.Tensor:
        return logits.masked_fill(cr.arange(V) % 2 == tokens[-1] % 2, -math.inf)

    made = model.generate(PROMPT, 20, generator=seeded(1), mask=alternate)
    assert all(a % 2 != b % 2 for a, b in itertools.pairwise([PROMPT[-1], *made]))
    assert seen == [PROMPT[-1], *made[:-1]]
    assert made == model.generate(PROMPT, 20, generator=seeded(1), mask=as_logits)
    for options in ({"num_beams": 3}, {"draft": small("llama")}):
        text = [PROMPT[-1], *model.generate(PROMPT, 8, mask=alternate, generator=seeded(2), **options)]
        assert len(text) == 9 and all(a % 2 != b % 2 for a, b in itertools.pairwise(text))

    def ends_at(tokens: list[int], logits: cr.Tensor) -> cr.Tensor:
        return cr.full([V], tokens[-1] % 7 != 0)  # no beam goes on behind such a token

    for beams in (3, 8):
        text = model.generate(PROMPT[:3], 8, num_beams=beams, mask=ends_at)
        assert len(text) == 8 and all(token % 7 for token in text[:-1])
    plain = model.generate(PROMPT, 20, 0.0)
    ended = model.generate(PROMPT, 20, 0.0, stop={plain[3]})
    assert ended == plain[: plain.index(plain[3]) + 1]
    assert [*model.stream(PROMPT, 20, generator=seeded(4))] == model.generate(PROMPT, 20, generator=seeded(4))
    stream = model.train().stream(PROMPT, 20)
    assert next(stream) < V and model.training and cr.is_grad_enabled()


@pytest.mark.parametrize("kind", KINDS)
def test_drafts_change_no_text(kind: str) -> None:
    """Greedy, beyond the context too, whatever the draft is."""
    model = small(kind)
    for prompt, draft, k in itertools.product(([1], [*range(30)]), (model, small("gpt2", 8, context=20)), (1, 4)):
        assert model.generate(prompt, 40, 0.0, draft=draft, draft_tokens=k) == model.generate(prompt, 40, 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_smaller_caches_are_near(kind: str) -> None:
    """Logits along one text: those of f16 within 1e-3, of int8 within a few percent, neither equal."""
    model = small(kind)
    rows: dict[cr.dtype | None, list[cr.Tensor]] = {}
    for dtype in (None, cr.float32, cr.float16, cr.int8):
        rows[dtype] = []

        def forced(tokens: list[int], logits: cr.Tensor, to: list[cr.Tensor] = rows[dtype]) -> cr.Tensor:
            to.append(logits.double())
            return cr.arange(V) == 7 * len(tokens) % V

        model.generate(PROMPT, 12, mask=forced, cache_dtype=dtype)
    exact = cr.stack(rows[None])
    off = {d: float((cr.stack(r) - exact).abs().max() / exact.abs().max()) for d, r in rows.items()}
    assert off[cr.float32] == 0 and 1e-7 < off[cr.float16] < 3e-3 and 1e-5 < off[cr.int8] < 0.08, off
    assert model.generate(PROMPT, 8, num_beams=3, cache_dtype=cr.int8) is not None


def test_int8_is_within_half_a_step() -> None:
    """Keys or values as a cache gives them back: each row of a head by its largest number."""
    model, tokens = small("gpt2"), cr.tensor([[7 * i % V for i in range(9)]])
    shape = model.cache_shape(9)
    floats: Any = [(cr.zeros(shape), cr.zeros(shape)) for _ in model.blocks]
    small_ones: Any = [
        tuple(Int8(cr.zeros(shape, dtype=cr.int8), cr.zeros(*shape[:3], 1)) for _ in "kv") for _ in model.blocks
    ]
    with cr.no_grad():
        for stores in floats, small_ones:
            model.hidden(tokens[:, :4], stores, 0)
            model.hidden(tokens[:, 4:], stores, 4)
    for x, store in zip(floats[0], small_ones[0], strict=True):  # of the first layer, whose inputs are equal
        assert isinstance(store, Int8) and isinstance(x, cr.Tensor)
        off = (cr.Tensor.float(store.codes) * store.scale - x).abs() / x.abs().amax(3, keepdim=True)
        assert 0 < off.max() <= 0.501 / 127


@pytest.mark.parametrize("context", [8, 9])
def test_a_full_context_goes_on_from_its_half(context: int) -> None:
    model, window, made = small("gpt2", 5, V, context), [*PROMPT], list[int]()
    for _ in range(20):
        made.append(int(logits_after(model, window).argmax()))
        window = [*(window[-(context // 2) :] if len(window) == context else window), made[-1]]
    assert model.generate(PROMPT, 20, 0.0) == made


def test_token_0_is_a_target() -> None:
    model = small("gpt2")
    losses = model.losses(cr.tensor([[1, 2, 3]]), cr.tensor([[0, -100, 0]]), [3])
    assert losses.shape == (2,)


# ---- beams ----
def every_text(model: Any, prompt: list[int], n: int, stop: set[int], penalty: float) -> list[int]:
    """The best of all texts, one by one."""
    best: tuple[float, list[int]] = (-math.inf, [])

    def go(text: list[int], score: float) -> None:
        nonlocal best
        made = text[len(prompt) :]
        if len(made) == n or (made and made[-1] in stop):
            best = max(best, (score / len(made) ** penalty, made))
            return
        for token, more in enumerate(logits_after(model, text).log_softmax(0).tolist()):
            go([*text, token], score + more)

    go(prompt, 0.0)
    return best[1]


@pytest.mark.parametrize(("stop", "penalty"), [(set(), 1.0), ({2, 5}, 1.0), ({2, 5}, -1.5), ({4}, 3.0)])
def test_wide_beams_find_the_best_text(stop: set[int], penalty: float) -> None:
    model = small("llama", vocabulary=11)
    prompt = [p % 11 for p in PROMPT]
    wanted = every_text(model, prompt, 3, stop, penalty)
    assert model.generate(prompt, 3, num_beams=121, stop=stop, length_penalty=penalty) == wanted


# ---- the program ----
def folder(model: Any, at: Path) -> Path:
    model.save_pretrained(at)
    Tokenizer.bytes().save(at / "tokenizer.json")
    return at


def program(*words: object, code: int = 0, **options: Any) -> subprocess.CompletedProcess[bytes]:
    command: list[Any] = [PROGRAM, *(word if isinstance(word, bytes) else str(word) for word in words)]
    done = subprocess.run(command, capture_output=True, timeout=100, check=False, **options)
    assert done.returncode == code, done.stderr.decode()
    return done


@needs_program
def test_the_program_draws_the_same(tmp_path: Path) -> None:
    """Every option, beside Python with the same seed."""
    model, draft = small("llama", 3, 256, 40), small("gpt2", 4, 256, 40)
    main, other = folder(model, tmp_path / "main"), folder(draft, tmp_path / "draft")
    prompt = b"Once upon"
    rows: list[tuple[list[object], dict[str, Any]]] = [
        (["--min-p", 0.2], {"min_p": 0.2}),
        (["--repeat-penalty", 1.4], {"repetition_penalty": 1.4}),
        (["--cache-dtype", "f16"], {"cache_dtype": cr.float16}),
        (["--cache-dtype", "int8"], {"cache_dtype": cr.int8}),
        (["--beams", 3], {"num_beams": 3}),
        (["--draft", other, "--top-k", 50], {"draft": draft, "top_k": 50}),
        (["--draft", other, "--temperature", 0], {"draft": draft, "temperature": 0.0}),
    ]
    for words, options in rows:
        n = 12 if "num_beams" in options else 30
        options = {"temperature": 0.8, **options}
        wanted = prompt + bytes(model.generate([*prompt], n, generator=seeded(9), **options)) + b"\n"
        out = program(
            "generate", "--model", main, "--prompt", prompt.decode(), "--seed", 9, "--tokens", n, *words
        ).stdout
        assert out == wanted, words
    greedy = ["generate", "--model", main, "--prompt", "Once upon", "--tokens", 30, "--temperature", 0]
    plain = program(*greedy).stdout
    stop = next(plain[i : i + 2] for i in range(12, 30) if 0 not in plain[i : i + 2])
    assert program(*greedy, "--stop", stop).stdout == plain[: plain.index(stop, 9)] + b"\n"
    assert program(*greedy, "--stop", b"not there").stdout == plain
    cached = [*greedy, "--prompt-cache", tmp_path / "cache"]
    assert program(*cached).stdout == plain == program(*cached).stdout
    assert "is a cache of float32, not int8" in program(*cached, "--cache-dtype", "int8", code=1).stderr.decode()
    whole = (tmp_path / "cache").read_bytes()
    (tmp_path / "cache").write_bytes(whole[:-5])
    assert program(*cached, code=1).stderr
    assert "--beams" in program(*greedy, "--beams", 0, code=2).stderr.decode()
    folder(small("gpt2", 4, 300, 40), tmp_path / "wide")
    assert "vocabulary of 300" in program(*greedy, "--draft", tmp_path / "wide", code=1).stderr.decode()


HI = {"role": "user", "content": "hi"}


def chat_model(tmp_path: Path, context: int = 200) -> Path:
    """It answers "ok" and an end, whatever is said: the logits depend on the last token's embedding alone."""
    V = 256
    model = GPT(V, context, 1, 1, 64, generator=seeded(1)).eval()
    after = {ord("\n"): "o", ord("o"): "k", ord("k"): "!", ord("!"): "$"}
    code = cr.randn(V, 64, generator=seeded(2)) * 3
    with cr.no_grad():
        for name, p in model.named_parameters():
            if "c_proj" in name or "wpe" in name:
                p.zero_()
        model.wte.weight.copy_(code)
        # a tied head gives the token itself: write the wanted successor by the MLP's output
        block = model.h[0]
        block.mlp.c_fc.weight.zero_()
        block.mlp.c_fc.bias.zero_()
        x = cr.nn.functional.layer_norm(code, [64])
        for i, (token, answer) in enumerate(after.items()):
            block.mlp.c_fc.weight[i] = x[token]
            block.mlp.c_fc.bias[i] = -50.0
            block.mlp.c_proj.weight[:, i] = 3 * code[ord(answer)]
    model.pretrained = {"model_type": "gpt2", "eos_token_id": ord("$")}
    return folder(model, tmp_path / "chat")


@needs_program
def test_chat(tmp_path: Path) -> None:
    """A conversation over a pipe, /reset, /exit, the end of the input; what is wrong with a model or a message."""
    at = chat_model(tmp_path)
    chat = ["chat", "--model", at, "--template", "chatml", "--temperature", 0]
    assert program(*chat, input=b"hello\n\n/reset\nagain\n/exit\nnot this\n").stdout == b"ok!\nok!\n"
    assert program(*chat, "--system", "Be brief.", input=b"hello").stdout == b"ok!\n"
    assert program(*chat, "--tokens", 2, "--cache-dtype", "int8", input=b"a\nb\nc\n").stdout == b"ok\n" * 3
    done = program(*chat, "--tokens", 8, input=b"x" * 90 + b"\n" + b"y" * 60 + b"\n" + b"z" * 300 + b"\nend\n")
    assert done.stdout == b"ok!\n" * 3
    assert b"2 messages are forgotten" in done.stderr and b"the message has" in done.stderr
    assert b"only /reset and /exit" in program(*chat, input=b"/what\n").stderr
    assert b"--template chatml" in program("chat", "--model", at, input=b"", code=1).stderr
    (at / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHATML}))
    done = program("chat", "--model", at, "--temperature", 0, input=b"hi\n")
    assert (done.stdout, done.stderr) == (b"ok!\n", b"")
    (at / "t.jinja").write_text("{{ raise_exception('not ' + messages[-1].content) }}")
    asked = program("chat", "--model", at, "--template", at / "t.jinja", input=b"hi\n", code=1)
    assert b"not hi" in asked.stderr
    assert b"--model is needed" in program("chat", code=2).stderr


@needs_program
def test_chat_in_a_terminal(tmp_path: Path) -> None:
    """Ctrl-C stops an answer, and the conversation goes on."""
    at = folder(small("gpt2", 4, 256, 4000), tmp_path / "endless")
    main, other = pty.openpty()
    words = ["chat", "--model", at, "--template", "chatml", "--tokens", 3000, "--temperature", 0]
    with subprocess.Popen([PROGRAM, *map(str, words)], stdin=other, stdout=other, stderr=other) as process:
        os.close(other)
        out = b""

        def until(enough: Any) -> None:
            nonlocal out
            end = time.monotonic() + 60
            while not enough() and time.monotonic() < end:
                out += os.read(main, 4096)
            assert enough(), out

        until(lambda: out.endswith(b"> "))
        os.write(main, b"hi\n")
        length = len(out)
        until(lambda: len(out) > length + 40)
        process.send_signal(signal.SIGINT)
        until(lambda: out.endswith(b"\n> "))
        assert process.poll() is None
        os.write(main, b"/exit\n")
        assert process.wait(60) == 0
    os.close(main)


# ---- transformers ----
@needs_transformers
@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral"])
def test_beams_of_transformers(kind: str, tmp_path: Path) -> None:
    """Beams with and without ends, penalties and early stopping; greedy text and processors."""
    import torch
    from transformers import AutoModelForCausalLM

    model = small(kind, 7).double()
    model.save_pretrained(tmp_path / "m")
    their: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "m", dtype=torch.float64, attn_implementation="eager")
    ids = torch.tensor([PROMPT])

    def generate(**options: Any) -> list[int]:
        options = {"eos_token_id": None, "do_sample": False, **options}
        out = their.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=0, max_new_tokens=12, **options)
        made: list[int] = out[0, len(PROMPT) :].tolist()
        return made

    assert model.generate(PROMPT, 12, 0.0, repetition_penalty=1.5) == generate(repetition_penalty=1.5)
    likely = model.generate(PROMPT, 12, num_beams=4)[4:6]
    for beams, stop, penalty, early, repeat in [
        (2, [], 1.0, False, 1.0),
        (4, [], 1.0, False, 1.3),
        (4, likely, 1.0, False, 1.0),
        (4, likely, 2.0, False, 1.0),
        (3, likely, -0.5, True, 1.0),
        (5, [*range(12)], 1.0, True, 1.2),
        (5, [*range(12)], 0.0, False, 1.0),
    ]:
        options = {"num_beams": beams, "length_penalty": penalty, "early_stopping": early, "repetition_penalty": repeat}
        wanted = generate(eos_token_id=stop or None, **options)
        made = model.generate(PROMPT, 12, stop=stop, **options)
        assert made == wanted, (options, stop)


@needs_program
def test_asked_as_it_was_trained(tmp_path: Path) -> None:
    """generate puts the tokens around a prompt, reads special tokens in it, and ends at the model's end tokens; chat
    uses the folder's template with its default system message; Python does the same."""
    names = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]
    Tokenizer.train_bpe(b"one two three " * 20, 270, special_tokens=names).save(tmp_path / "trained.json")
    trained = json.loads((tmp_path / "trained.json").read_text())
    around = {"single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]}
    special = {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}
    trained["post_processor"] = {"type": "TemplateProcessing", **around, "pair": [], "special_tokens": special}
    model = small("llama", vocabulary=Tokenizer.from_file(tmp_path / "trained.json").__len__(), context=128)
    at = folder(model, tmp_path / "m")
    (at / "tokenizer.json").write_text(json.dumps(trained))
    system = "{{ '<|im_start|>system\\nBe kind.<|im_end|>\\n' }}" + CHATML
    (at / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "chat_template": system}))
    t = Tokenizer.from_pretrained(at)
    greedy = ["--model", at, "--temperature", 0, "--tokens", 16]

    prompt = "<|im_start|>one<|im_end|>"
    ids = t.encode(prompt, allowed_special="all", add_special_tokens=True)
    assert ids[:2] == [0, 2] and ids[-1] == 3
    made = list(model.generate(ids, 16, 0.0))
    assert program("generate", *greedy, "--prompt", prompt).stdout == t.decode_bytes([*ids[1:], *made]) + b"\n"
    at_end = next(i for i in range(3, 16) if made[i] not in made[:i])
    (at / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, made[at_end]]}))
    ended = t.decode_bytes([*ids[1:], *made[:at_end]])
    assert program("generate", *greedy, "--prompt", prompt).stdout == ended + b"\n"
    again = type(model).from_pretrained(at)
    assert again.ends == (1, made[at_end]) and list(again.generate(ids, 16, 0.0)) == made[: at_end + 1]
    assert list(again.generate(ids, 16, 0.0, stop=())) == made

    two = [{"role": "user", "content": "two"}]
    asked: Any = t.apply_chat_template(two, add_generation_prompt=True)
    assert t.decode(asked).startswith("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\ntwo")
    assert 0 not in asked  # the template writes no <s>

    def answer(asked: Any) -> bytes:
        ends = (*again.ends, 3)  # and <|im_end|>, which the template puts behind an answer
        said = list(again.generate(asked, 16, 0.0, stop=ends))
        return t.decode_bytes(said[:-1] if said[-1] in ends else said) + b"\n"

    assert program("chat", *greedy, input=b"two\n").stdout == answer(asked)
    (at / "tokenizer_config.json").unlink()
    for name, form in (("chatml", None), ("mistral", "mistral")):  # no template: by the tokens, or as the option says
        words = ["--template", form] if form else []
        done = program("chat", *greedy, *words, input=b"two\n")
        assert (b"no template: chatml, by its special tokens" in done.stderr) == (form is None)
        asked = t.apply_chat_template(two, chat_template=name, add_generation_prompt=True)
        assert done.stdout == answer(asked)


@needs_program
def test_the_template_ends_an_answer(tmp_path: Path) -> None:
    """The special token that a template puts behind an answer ends one, and no other text; a tokenizer that puts an end
    token behind a text gives it to a completion once."""
    names = ["</s>", "<s>"]
    Tokenizer.train_bpe(b"one two three " * 20, 270, special_tokens=names).save(tmp_path / "trained.json")
    trained = json.loads((tmp_path / "trained.json").read_text())
    around = {"single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]}
    special = {"</s>": {"id": "</s>", "ids": [0], "tokens": ["</s>"]}}
    trained["post_processor"] = {"type": "TemplateProcessing", **around, "pair": [], "special_tokens": special}
    plain = Tokenizer.from_file(tmp_path / "trained.json")
    model = small("llama", vocabulary=len(plain), context=128)
    model.pretrained = {"eos_token_id": 0}
    at = folder(model, tmp_path / "m")
    made = list(model.generate(plain.encode("two"), 16, 0.0, stop=()))
    end = next(i for i in range(2, 16) if made[i] not in made[:i])
    (name,) = (word for word, id in trained["model"]["vocab"].items() if id == made[end])
    trained["added_tokens"].append({"id": made[end], "content": name, "special": True})
    (at / "tokenizer.json").write_text(json.dumps(trained))
    ends = "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}{{ END }}{% endif %}{% endfor %}"
    (at / "chat_template.jinja").write_text(ends.replace("END", json.dumps(name)))
    t = Tokenizer.from_pretrained(at)
    assert t._chat().said.ends == (0,) and t._chat().said.answer_ends == (0, made[end])
    greedy = ["--model", at, "--temperature", 0, "--tokens", 16]
    assert program("chat", *greedy, input=b"two\n").stdout == t.decode_bytes(made[:end]) + b"\n"

    data = tmp_path / "d.jsonl"
    data.write_text(json.dumps({"prompt": "one", "completion": " two"}))
    found = json.loads(program("eval", "--model", at, "--data", data, "--json").stdout)
    assert found["tokens"] == len(t.encode(" two")) + 1 == cr.models.evaluate(model, t, data)["tokens"]


@needs_program
def test_finetune_and_eval_say_how_they_ask(tmp_path: Path) -> None:
    """Once; the adapter's folder has the template that --template chose, and chat takes it from there."""
    at, data = chat_model(tmp_path), tmp_path / "c.jsonl"
    data.write_text(json.dumps({"messages": [HI, {"role": "assistant", "content": "ok!"}]}))
    said = program("eval", "--model", at, "--data", data, code=1).stderr
    assert b"c.jsonl line 1: the model has no chat_template: give one, or the name of one: chatml" in said
    shown = program("eval", "--model", at, "--data", data, "--template", "chatml").stdout
    assert shown.count(b"chats   template chatml, by the option\ntokens  end 36\n") == 1, shown
    assert json.loads(program(*"eval --template chatml --json --model".split(), at, "--data", data).stdout)["loss"] > 0
    words = ["--lora", 2, "--steps", 2, "--validation", data, "--template", "chatml", "--out", tmp_path / "a"]
    done = program("finetune", "--model", at, "--data", data, *words)
    assert done.stdout.count(b"chats   template chatml, by the option\n") == 1
    text = (tmp_path / "a" / "chat_template.jinja").read_text()
    asked = Tokenizer.bytes().apply_chat_template([HI], tokenize=False, chat_template=text)
    assert asked == "<|im_start|>user\nhi<|im_end|>\n"
    done = program("chat", "--model", at, "--adapter", tmp_path / "a", "--temperature", 0, input=b"hi\n")
    assert done.stdout and not done.stderr


# ---- chat templates ----
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": " Hi "},
    {"role": "assistant", "content": " Yes? "},
    {"role": "user", "content": "2+2"},
]
# As the models' own tokenizer_config.json have them.
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'"
    "+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content']"
    " + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"
)
SPECIAL = {"llama3": ("<|begin_of_text|>", "<|eot_id|>")}
STORED = {"chatml": CHATML, "llama2": LLAMA2, "llama3": LLAMA3, "mistral": MISTRAL}


def chat_folder(at: Path, template: Any, tokens: tuple[str, str] = ("<s>", "</s>")) -> Tokenizer:
    at.mkdir(exist_ok=True)
    made = Tokenizer.train_bpe("some text", 300, special_tokens=[*tokens, "<|im_start|>", "<|im_end|>"])
    made.save(at / "tokenizer.json")
    (at / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": tokens[0],
                "eos_token": {"content": tokens[1], "__type": "AddedToken"},
                **({"chat_template": template} if template is not None else {}),
            }
        )
    )
    return Tokenizer.from_pretrained(at)


@pytest.mark.parametrize("name", STORED)
def test_built_in_templates_are_the_stored_ones(name: str, tmp_path: Path) -> None:
    t = chat_folder(tmp_path / "t", STORED[name], SPECIAL.get(name, ("<s>", "</s>")))
    for messages, ask in itertools.product((TALK, TALK[1:], TALK[1:2]), (False, True)):
        if name == "mistral" and messages[0]["role"] == "system":
            continue
        text = t.apply_chat_template(messages, add_generation_prompt=ask, tokenize=False)
        mine = t.apply_chat_template(messages, add_generation_prompt=ask, tokenize=False, chat_template=name)
        assert text == mine
        assert t.apply_chat_template(messages, add_generation_prompt=ask) == t.encode(str(text), allowed_special="all")


@needs_transformers
@pytest.mark.parametrize("name", STORED)
def test_templates_of_transformers(name: str, tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    tokens = SPECIAL.get(name, ("<s>", "</s>"))
    mine = chat_folder(tmp_path / "t", STORED[name], tokens)
    make: Any = PreTrainedTokenizerFast
    their = make(tokenizer_file=str(tmp_path / "t" / "tokenizer.json"), bos_token=tokens[0], eos_token=tokens[1])
    fancy = (
        "{%- for m in messages %}\n  {%- if m.role == 'user' %}\n    {% generation %}{{ m | tojson }}"
        "{% endgeneration %}\n  {% endif %}\n"
        "{%- if loop.index > 2 %}{% break %}{% endif %}{%- endfor %}\n{{ tools is none }}{{ extra }}"
    )
    for template, messages, ask in itertools.product((STORED[name], fancy), (TALK[1:], TALK[1:2]), (False, True)):
        options: Any = {"add_generation_prompt": ask, "tokenize": False, "chat_template": template, "extra": "é<"}
        assert mine.apply_chat_template(messages, **options) == their.apply_chat_template(messages, **options)


def test_templates_that_are_refused(tmp_path: Path) -> None:
    hi: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    plain = Tokenizer.bytes()
    assert plain.apply_chat_template(hi, tokenize=False, chat_template="chatml") == "<|im_start|>user\nhi<|im_end|>\n"
    rows: list[tuple[Tokenizer, Any, dict[str, Any], str]] = [
        (plain, hi, {}, "no chat_template"),
        (plain, [], {"chat_template": "chatml"}, "at least one message"),
        (plain, ["hi"], {"chat_template": "chatml"}, "message 0 must be a dict"),
        (plain, [{"role": "tool", "content": ""}], {"chat_template": "chatml"}, "not 'tool'"),
        (plain, [{"role": "user", "content": ["x"]}], {"chat_template": "chatml"}, "must be a str"),
        (plain, [{"role": "assistant", "content": ""}], {"chat_template": "llama2"}, "take turns"),
    ]
    evil = "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    rows += [
        (plain, hi, {"chat_template": "{% if %}"}, "line 1: an expression is missing"),
        (plain, hi, {"chat_template": MISTRAL.replace("user", "x")}, "roles must alternate"),
        (plain, hi, {"chat_template": evil}, "access to attribute '__class__' of 'list' object is unsafe"),
        (plain, hi, {"chat_template": "{{ messages.append(1) }}"}, "may not change its values"),
        (plain, hi, {"chat_template": "{{ 1 / 0 }}"}, "division by zero"),
        (plain, hi, {"chat_template": "{{ 'a' + 1 }}"}, "unsupported operand type"),
        (plain, hi, {"chat_template": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"}, "too deeply"),
        (plain, hi, {"chat_template": "{{ x }}", "x": object()}, "not object"),
        (chat_folder(tmp_path / "a", 5), hi, {}, "must be text, it is 5"),
    ]
    rows.append((chat_folder(tmp_path / "b", None), hi, {"chat_template": "mistral", "tokenize": True}, ""))
    for tokenizer, messages, options, message in rows:
        if not message:
            assert tokenizer.apply_chat_template(messages, **options)
            continue
        with pytest.raises(ValueError, match=message.replace("(", r"\(")):
            tokenizer.apply_chat_template(messages, **options)
    assert (
        chat_folder(tmp_path / "c", None).apply_chat_template(hi, tokenize=False) == "<|im_start|>user\nhi<|im_end|>\n"
    )
    named = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": "y"}]
    several = chat_folder(tmp_path / "d", named)
    assert several.apply_chat_template(hi, tokenize=False) == "y"
    (tmp_path / "d" / "chat_template.jinja").write_text("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}")
    assert several.apply_chat_template(hi, tokenize=False) == "<s>hi</s>"
    (tmp_path / "c" / "tokenizer_config.json").write_text("{")
    with pytest.raises(OSError, match="is not valid JSON"):
        Tokenizer.from_pretrained(tmp_path / "c").apply_chat_template(hi)


# ---- what is refused ----
def test_refused() -> None:
    model = small("gpt2")
    rows: list[tuple[type[Exception], dict[str, Any], str]] = [
        (ValueError, {"num_beams": 0}, "num_beams must be at least 1, not 0"),
        (ValueError, {"num_beams": 2, "n": 30}, "within the context of 24, not 6 . 30"),
        (ValueError, {"num_beams": 2, "draft": model}, "beam search takes no draft"),
        (ValueError, {"num_beams": 2, "repetition_penalty": 0.0}, "repetition_penalty must be more"),
        (ValueError, {"num_beams": 2, "length_penalty": math.nan}, "length_penalty must be finite"),
        (TypeError, {"num_beams": 2, "early_stopping": "never"}, "early_stopping must be a bool, not 'never'"),
        (TypeError, {"cache_dtype": "int8"}, "a float type or int8, not 'int8'"),
        (ValueError, {"draft": small("gpt2", vocabulary=7)}, "a vocabulary of 7, the model of 31"),
        (ValueError, {"draft": model, "draft_tokens": 0}, "draft_tokens must be at least 1"),
        (IndexError, {"stop": [31]}, "stop token 0 is 31: the vocabulary has 31"),
        (TypeError, {"cache_dtype": cr.int64}, "a float type or int8"),
        (ValueError, {"min_p": 1.5}, "min_p must be"),
        (ValueError, {"repetition_penalty": -1.0}, "repetition_penalty must be"),
        (ValueError, {"mask": lambda tokens, logits: 5}, "mask must return a tensor"),
        (ValueError, {"mask": lambda tokens, logits: cr.zeros(V, dtype=cr.bool)}, "none of the 31 tokens"),
        (ValueError, {"num_beams": 2, "mask": lambda tokens, logits: cr.zeros(V, dtype=cr.bool)}, "found no text"),
    ]
    for kind, options, message in rows:
        options = {"tokens": PROMPT, "n": 4, **options}
        with pytest.raises(kind, match=message):
            model.generate(**options)
    with cr.no_grad():
        model.ln_f.bias.fill_(math.nan)
    for options in ({}, {"num_beams": 2}, {"draft": small("llama")}):
        with pytest.raises(ValueError, match="diverged"):
            model.generate(PROMPT, 4, **options)


def test_texts_of_a_model_in_training_from_several_threads() -> None:
    """Without dropout in any text, of the model's own and of its adapters; each module's mode is as it was, also of a
    part that was frozen in the mode of use, and after an error."""
    model = GPT(vocabulary=32, context=64, layers=2, heads=2, width=16, dropout=0.5)
    cr.nn.lora.apply(model, 2, dropout=0.9)
    with cr.no_grad():
        for name, p in model.named_parameters():
            if "lora_B" in name:
                p.fill_(0.3)
    model.train()
    model.h[1].eval()
    modes = [m.training for m in model.modules()]
    want = list(model.eval().generate([1, 2, 3], 24, temperature=0))
    for m, mode in zip(model.modules(), modes, strict=True):
        m.training = mode
    wrong: list[object] = []

    def write() -> None:
        for _ in range(8):
            if (got := list(model.generate([1, 2, 3], 24, temperature=0))) != want:
                wrong.append(got)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and [m.training for m in model.modules()] == modes
    with pytest.raises((IndexError, ValueError, RuntimeError)):
        list(model.generate([99], 4))
    assert [m.training for m in model.modules()] == modes
