"""chainrule.models: GPT against PyTorch's stored results and its own model, bit for bit against the
program, its files, its tokens, and what is refused."""

from __future__ import annotations

import copy
import itertools
import json
import runpy
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from chainrule import optim
from chainrule.data import TokenFile
from chainrule.models import GPT, Llama, load_checkpoint, save_checkpoint
from conftest import BUILD, PAGES, ROOT

try:
    import torch as _torch
except ImportError:
    _torch = None
torch: Any = _torch
GOLDEN: dict[str, Any] = runpy.run_path(str(ROOT / "tests" / "golden" / "make_gpt.py"), run_name="golden")
V, T, L, H, C, B, STEPS = (GOLDEN[name] for name in ("V", "T", "L", "H", "C", "B", "STEPS"))
PROGRAM = BUILD / "chainrule"
needs_program = pytest.mark.skipif(not PROGRAM.exists(), reason="the program chainrule is not built")


def seeded(seed: int) -> cr.Generator:
    return cr.Generator().manual_seed(seed)


def small(**options: Any) -> GPT:
    return GPT(V, T, L, H, C, **options)


def golden_model(dtype: cr.dtype) -> GPT:
    """With the weights of golden/make_gpt.py."""
    model = small(dtype=dtype)
    with cr.no_grad():
        for k, (name, p) in enumerate(model.named_parameters()):
            values = [GOLDEN["initial"](k, i, p.ndim, name.endswith("weight")) for i in range(p.numel())]
            p.copy_(cr.tensor(values, dtype=dtype).view_as(p))
    return model


def golden_tokens(step: int) -> tuple[cr.Tensor, cr.Tensor]:
    ids = cr.tensor(GOLDEN["tokens"](step)).view(B, T + 1)
    return ids[:, :-1], ids[:, 1:]


def adamw(model: Any, library: Any = optim) -> Any:
    """The configuration in golden/make_gpt.py."""
    groups = [
        {"params": [p for p in model.parameters() if (p.ndim >= 2) == decays], "weight_decay": GOLDEN["DECAY"] * decays}
        for decays in (True, False)
    ]
    return library.AdamW(groups, lr=GOLDEN["LR"], betas=GOLDEN["BETAS"], eps=GOLDEN["EPS"])


def off(a: Any, b: Any) -> float:
    """The largest difference."""
    return float((cr.asarray(a).double() - cr.asarray(b).double()).abs().max())


def test_names_and_shapes() -> None:
    assert [(name, tuple(p.shape)) for name, p in small().named_parameters()] == [*GOLDEN["shapes"]()]


@pytest.mark.parametrize("dtype, tight, loss_tight", [("float64", 1e-7, 1e-9), ("float32", 2e-5, 2e-5)])
def test_numbers_of_pytorch(dtype: str, tight: float, loss_tight: float) -> None:
    """Losses of ten steps of AdamW, clipped, the first gradients and their norm, and where the
    weights went; tolerances of tests/test_gpt.c."""
    model = golden_model(getattr(cr, dtype))
    data = (ROOT / "tests" / "golden" / "gpt.bin").read_bytes()
    start = struct.calcsize("<8sI7i")
    losses, norm = (
        struct.unpack_from(f"<{STEPS + 1}d", data, start),
        struct.unpack_from("<d", data, start + 8 * (STEPS + 1))[0],
    )
    at = start + 8 * (STEPS + 2)
    optimizer, before = adamw(model), copy.deepcopy(model.state_dict())
    for step in range(STEPS + 1):
        loss = model.loss(*golden_tokens(step))
        assert abs(loss.item() - losses[step]) <= loss_tight * losses[step], step
        loss.backward()
        for name, p in model.named_parameters() if step == 0 else ():
            stored = cr.tensor(struct.unpack_from(f"<{p.numel()}f", data, at), dtype=cr.float64).view_as(p)
            assert off(p.grad, stored) <= 1e-7 + tight * stored.abs().max().item(), name
            at += 4 * p.numel()
        total = cr.nn.utils.clip_grad_norm_(model.parameters(), GOLDEN["CLIP"])
        assert step or abs(total.item() - norm) <= max(tight, 1e-6) * norm
        if step < STEPS:
            optimizer.step()
        optimizer.zero_grad()
    for name, p in model.named_parameters():
        scale, *moved = struct.unpack_from(f"<f{p.numel()}h", data, at)
        at += 4 + 2 * p.numel()
        keep = (
            slice(None) if dtype == "float64" or "c_attn.bias" not in name else slice(0, C)
        )  # a key's bias has no gradient but rounding, which AdamW makes large
        difference = (p.detach() - before[name]).flatten()[keep].double() - cr.tensor(moved, dtype=cr.float64)[
            keep
        ] * scale
        assert difference.abs().max().item() <= 0.51 * scale + (1e-6 if dtype == "float64" else 5e-4), name
    assert at == len(data)


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed: compared only with its stored results")
def test_is_pytorchs_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits, loss, gradients and ten steps beside a model that a user of PyTorch would write (bench/torch_gpt.py)."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    theirs = __import__("torch_gpt").GPT(V, T, L, H, C).double()
    mine = small(dtype=cr.float64, generator=seeded(3))

    def their_name(name: str) -> str:
        return name.replace("mlp.c_proj", "mlp_proj").replace(".attn.", ".").replace(".mlp.", ".")

    theirs.load_state_dict(
        {their_name(name): torch.tensor(p.tolist(), dtype=torch.float64) for name, p in mine.state_dict().items()}
    )
    optimizers = adamw(mine), adamw(theirs, torch.optim)
    other = dict(theirs.named_parameters())
    for step in range(10):
        x, y = golden_tokens(step)
        loss, their_loss = mine.loss(x, y), theirs(torch.tensor(x.tolist()), torch.tensor(y.tolist()))
        assert abs(loss.item() - their_loss.item()) < 1e-10
        loss.backward()
        their_loss.backward()
        for name, p in mine.named_parameters():
            assert off(p.grad, other[their_name(name)].grad) < 1e-9, (step, name)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for name, p in mine.named_parameters():
        assert off(p.detach(), other[their_name(name)].detach()) < 1e-7, name


def test_hooks_and_parts_of_ones_own() -> None:
    """Hooks of every layer run, and a layer that somebody put in place is called: neither changes a number."""
    model, (x, y) = golden_model(cr.float64), golden_tokens(0)
    whole = model.loss(x, y).item()
    called: list[str] = []
    handles = [
        part.register_forward_hook(lambda module, args, output, name=name: called.append(name))
        for name, part in model.named_modules()
        if isinstance(part, cr.nn.Linear)
    ]
    assert abs(model.loss(x, y).item() - whole) < 1e-12
    assert called == [
        f"h.{layer}.{part}" for layer in range(L) for part in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
    ]
    for handle in handles:
        handle.remove()

    class Doubled(cr.nn.Linear):
        def forward(self, input: cr.Tensor) -> cr.Tensor:
            return super().forward(input) * 2

    for layer in model.h:
        part = Doubled(4 * C, C, dtype=cr.float64)
        part.load_state_dict({name: p.detach() / 2 for name, p in layer.mlp.c_proj.state_dict().items()})
        layer.mlp.c_proj = part
    assert abs(model.loss(x, y).item() - whole) < 1e-12 and len(called) == 4 * L


def test_the_loss_is_that_of_the_logits() -> None:
    """Whatever the head is."""

    class Own(cr.nn.Linear):
        pass

    class Doubled(cr.nn.Linear):
        def forward(self, input: cr.Tensor) -> cr.Tensor:
            return super().forward(input) * 2

    class Capped(Llama):
        def logits(self, x: cr.Tensor) -> cr.Tensor:
            return super().logits(x).tanh()

    def lora(model: Any) -> None:
        adapter = cr.nn.lora.LoRA(model.lm_head, 4, generator=seeded(1))
        cr.nn.init.normal_(adapter.lora_B.weight, generator=seeded(2))
        model.lm_head = adapter

    def put(kind: type[cr.nn.Linear], bias: bool) -> Callable[[Any], None]:
        return lambda model: setattr(model, "lm_head", kind(C, V, bias, dtype=cr.float64))

    def forward_of_the_object(model: Any) -> None:
        inner = model.lm_head.forward
        model.lm_head.forward = lambda input: inner(input) * 2

    cases: list[tuple[str, Callable[[Any], Any]]] = [
        ("as it is", lambda model: None),
        ("bias", put(cr.nn.Linear, True)),
        ("a class that adds nothing", put(Own, True)),
        ("another forward", put(Doubled, True)),
        ("another forward of the object", forward_of_the_object),
        ("forward hook", lambda model: model.lm_head.register_forward_hook(lambda m, args, y: y * 3)),
        ("hook before", lambda model: model.lm_head.register_forward_pre_hook(lambda m, args: (args[0] * 3,))),
        ("adapter", lora),
        ("quantized", lambda model: model.float().quantize(8)),
    ]
    x, y = golden_tokens(0)
    found = set()
    for (what, change), cls in itertools.product(cases, (Llama, Capped)):
        model: Llama = cls(V, T, 1, 2, 32, 32, 2, generator=seeded(3), dtype=cr.float64)
        change(model)
        wanted = cr.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        assert abs(model.loss(x, y).item() - wanted.item()) < 1e-6, what
        found.add(round(wanted.item(), 9))
    assert len(found) > 10  # each change has an effect
    tied = Llama(V, T, 1, 2, 32, 32, 2, tied=True, generator=seeded(3))
    tied.embed_tokens.register_forward_hook(lambda m, args, y: y * 3)
    wanted = cr.nn.functional.cross_entropy(tied(x).flatten(0, 1), y.flatten())
    assert abs(tied.loss(x, y).item() - wanted.item()) < 1e-6


def test_half_precision_and_no_gradients_of_use() -> None:
    model, (x, y) = golden_model(cr.float32), golden_tokens(0)
    whole = model.loss(x, y).item()
    for hook in (False, True):  # the loss stays float32, as that of transformers: bfloat16 has 8 bits
        half = copy.deepcopy(model).bfloat16()
        if hook:
            half.wte.register_forward_hook(lambda *_: None)
        loss = half.loss(x, y)
        assert loss.dtype is cr.float32 and 0 < abs(loss.item() - whole) < 0.05
        assert loss.item() == cr.nn.functional.cross_entropy(half(x).flatten(0, 1).float(), y.flatten()).item()
        loss.backward()
        assert half.wte.weight.grad is not None and half.wte.weight.grad.dtype is cr.bfloat16
    cr.set_float32_matmul_precision("medium")
    try:
        assert cr.get_float32_matmul_precision() == "medium" and 0 < abs(model.loss(x, y).item() - whole) < 0.05
        cr.set_float32_matmul_precision("high")  # without a GPU that has TF32 all bits
        assert cr.get_float32_matmul_precision() == "high" and model.loss(x, y).item() == whole
    finally:
        cr.set_float32_matmul_precision("highest")
    assert model.loss(x, y).item() == whole and cr.get_float32_matmul_precision() == "highest"
    with pytest.raises(RuntimeError, match="precision must be"):
        cr.set_float32_matmul_precision("low")


def test_seed_and_dropout() -> None:
    """A seed gives weights and dropout; what is drawn from another generator changes nothing."""
    one, other = small(dropout=0.5, generator=seeded(5)), small(dropout=0.5, generator=seeded(5))
    cr.rand(3)
    x, y = golden_tokens(0)
    losses = [[m.loss(x, y).item() for _ in range(2)] for m in (one, other)]
    assert losses[0] == losses[1] and losses[0][0] != losses[0][1]
    assert one.eval().loss(x, y).item() == one.loss(x, y).item() == other.eval().loss(x, y).item()
    cr.manual_seed(5)
    assert all(
        off(a.detach(), b.detach()) == 0
        for a, b in zip(small().parameters(), small(generator=seeded(5)).parameters(), strict=True)
    )


# ---- generate ----


def without_cache(
    model: GPT, tokens: list[int], n: int, generator: cr.Generator | None = None, **sampling: Any
) -> list[int]:
    """Every token from the whole window again; a full one goes on from its last half."""
    window, made, arguments = (
        tokens[-T:],
        [],
        (sampling.get("temperature", 1.0), sampling.get("top_p", 1.0), sampling.get("top_k", 0)),
    )
    with cr.no_grad():
        for _ in range(n):
            made.append(cr._core._sample(model(cr.tensor([window]))[0, -1], *arguments, generator))
            window = (window if len(window) < T else window[T - T // 2 :]) + [made[-1]]
    return made


@pytest.mark.parametrize(
    "sampling", [{"temperature": 0}, {}, {"temperature": 0.8, "top_k": 5}, {"temperature": 1.5, "top_p": 0.7}], ids=str
)
@pytest.mark.parametrize("prompt", [[3], [*range(16)], [*range(30)]], ids=len)
def test_cache_changes_nothing(prompt: list[int], sampling: dict[str, Any]) -> None:
    model = golden_model(cr.float64)
    model.config = model.config._replace(dropout=0.5)  # not in generate
    made = model.generate(prompt, 50, generator=seeded(1), **sampling)
    assert made == without_cache(model.eval(), prompt, 50, seeded(1), **sampling) and len(set(made)) > 1
    assert (
        made == model.generate(cr.tensor(prompt), 50, generator=seeded(1), **sampling)
        and model.generate(prompt, 0) == []
    )
    assert not model.training and model.train().generate(prompt, 1) and model.training


def test_generate_draws_as_asked() -> None:
    model = golden_model(cr.float32)
    assert (
        model.generate([1], 20, top_k=1)
        == model.generate([1], 20, temperature=0)
        == model.generate([1], 20, top_p=1e-9)
    )
    assert model.generate([1], 20, generator=seeded(1)) != model.generate([1], 20, generator=seeded(2))
    cr.manual_seed(1)
    assert model.generate([1], 20) == model.generate([1], 20, generator=seeded(1))


# ---- files, beside the program ----

OPTIMIZERS: dict[str, Any] = {
    "adamw": lambda m: optim.AdamW(m.parameters(), 1e-3, (0.9, 0.99), weight_decay=0),
    "masters": lambda m: optim.AdamW(m.parameters(), 1e-3, (0.9, 0.99), weight_decay=0, master_weights=True),
    "adam": lambda m: optim.Adam(m.parameters(), 1e-3, (0.9, 0.99)),
    "sgd": lambda m: optim.SGD(m.parameters(), 1e-3, momentum=0.9),
    "lion": lambda m: optim.Lion(m.parameters(), 1e-3, (0.9, 0.99)),
    "muon": lambda m: [
        optim.Muon(
            [p for n, p in m.named_parameters() if n.startswith("h.") and p.ndim == 2],
            1e-3,
            0,
            adjust_lr_fn="match_rms_adamw",
        ),
        optim.AdamW(
            [p for n, p in m.named_parameters() if not (n.startswith("h.") and p.ndim == 2)],
            1e-3,
            (0.9, 0.99),
            weight_decay=0,
        ),
    ],
}


def chainrule(*words: object) -> str:
    done = subprocess.run([str(w) for w in (PROGRAM, *words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A token file."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "text.txt").write_text(PAGES, encoding="utf-8")
    chainrule("tokenize", "--data", folder / "text.txt", "--out", folder / "text.tok")
    return folder / "text.tok"


def begin(text: Path, run: Path, optimizer: str, *more: object) -> None:
    sizes = ("--layers", 2, "--heads", 2, "--width", 32, "--context", 16, "--batch", 3, "--dropout", 0.1)
    rates = (
        "--lr",
        1e-3,
        "--min-lr",
        1e-3,
        "--warmup",
        0,
        "--weight-decay",
        0,
        "--optimizer",
        "adamw" if optimizer == "masters" else optimizer,
        "--steps",
        12,
        "--seed",
        7,
    )
    chainrule("train", "--tokens", text, "--out", run, *sizes, *rates, "--eval-every", 0, "--sample", 0, *more)


def go_on(text: Path, run: Path, optimizer: str, steps: int) -> int:
    """Loads the run's checkpoint, trains on from there in Python, and saves."""
    model = GPT.load(run, generator=seeded(0))
    chosen = OPTIMIZERS[optimizer](model)
    loader = TokenFile(text, 3, 16, seed=7, stop=int(TokenFile(text, 1, 1).tokens * 0.9))
    step, metadata = load_checkpoint(run / "checkpoint", model, chosen, loader=loader)
    for _ in range(steps):
        model.loss(*loader.next()).backward()
        for one in chosen if isinstance(chosen, list) else [chosen]:
            one.step() if isinstance(chosen, list) else one.step_clipped(1.0)
            one.zero_grad()
    save_checkpoint(run / "checkpoint", model, chosen, loader=loader, step=step + steps, metadata=metadata)
    return step


@needs_program
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_program_and_python_take_turns(text: Path, tmp_path: Path, optimizer: str) -> None:
    """4 steps by the program, 4 in Python, 4 by the program: the bits of 12 by the program.  Muon's
    products are put together from others in Python."""
    more: tuple[object, ...] = ("--clip", 0 if optimizer == "muon" else 1)
    more += ("--weights", "bf16") if optimizer == "masters" else ()
    begin(text, tmp_path / "whole", optimizer, *more)
    begin(text, tmp_path / "turns", optimizer, *more, "--stop-at", 4)
    assert go_on(text, tmp_path / "turns", optimizer, 4) == 4
    chainrule("train", "--resume", tmp_path / "turns", "--sample", 0)
    for name in ("weights", "optimizer"):
        whole, turns = (cr.load(tmp_path / run / "checkpoint" / f"{name}.safetensors") for run in ("whole", "turns"))
        assert whole.keys() == turns.keys()
        for key in whole:
            assert off(whole[key], turns[key]) <= (1e-5 if optimizer == "muon" else 0), key
    states = [json.loads((tmp_path / run / "checkpoint" / "state.json").read_text()) for run in ("whole", "turns")]
    for state in states:
        del state["metadata"]
    assert states[0] == states[1] and states[0]["step"] == 12


@needs_program
@pytest.mark.parametrize("n", [40, 170, 803, 81927])
def test_validation_loss_of_the_program(tmp_path: Path, n: int) -> None:
    """The mean over every token but the first, in windows of the context: none, one or many whole
    ones, and a shorter one at the end."""
    (tmp_path / "t.txt").write_text("".join("abcdefghijklm"[i * i % 13] for i in range(n)))
    begin_words = (
        "--layers",
        1,
        "--heads",
        2,
        "--width",
        32,
        "--context",
        16,
        "--batch",
        1,
        "--warmup",
        0,
        "--steps",
        1,
        "--sample",
        0,
    )
    chainrule("train", "--data", tmp_path / "t.txt", "--tokenizer", "bytes", "--out", tmp_path / "run", *begin_words)
    model = GPT.load(tmp_path / "run")
    ids = list((tmp_path / "t.txt").read_bytes())[int(n * 0.9) :]
    total = 0.0
    with cr.no_grad():
        for at in range(0, len(ids) - 1, 16):
            x, y = ids[at : min(at + 16, len(ids) - 1)], ids[at + 1 : at + 17]
            total += model.loss(cr.tensor([x]), cr.tensor([y])).item() * len(x)
    lines = [json.loads(line) for line in (tmp_path / "run" / "run.jsonl").read_text().splitlines()]
    (said,) = [line["val_loss"] for line in lines if "val_loss" in line]
    assert abs(said - total / (len(ids) - 1)) < 1e-5 * abs(said), (
        f"{len(ids)} tokens: {said}, not {total / (len(ids) - 1)}"
    )


def test_the_model_of_a_run(tmp_path: Path) -> None:
    """The best, where there is one; else the newest; or the checkpoint that is named."""
    models = {
        name: small(generator=seeded(i)) for i, name in enumerate(("checkpoint", "checkpoint-10", "checkpoint-best"))
    }
    for name, model in models.items():
        save_checkpoint(tmp_path / name, model)
        assert off(GPT.load(tmp_path / name).wte.weight.detach(), model.wte.weight.detach()) == 0, name
        taken = models["checkpoint-best" if name == "checkpoint-best" else "checkpoint"]
        assert off(GPT.load(tmp_path).wte.weight.detach(), taken.wte.weight.detach()) == 0, name
    weights = cr.load(tmp_path / "checkpoint")
    assert off(weights["wte.weight"], models["checkpoint"].wte.weight.detach()) == 0


def test_a_save_between_metadata_and_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load is consistent: a model that is saved while another one is loaded is loaded instead."""
    old, new = small(generator=seeded(1)), GPT(V, T, L, H, 2 * C, generator=seeded(2))
    load, training_load = cr._core._load_safetensors, cr._core._training_load
    save_checkpoint(tmp_path, old, step=1, metadata={"note": "old"})

    def then_save(loads: Any, model: GPT, step: int, note: str) -> Any:
        def call(*arguments: Any) -> Any:
            monkeypatch.undo()
            loaded = loads(*arguments)
            save_checkpoint(tmp_path, model, step=step, metadata={"note": note})
            return loaded

        return call

    monkeypatch.setattr(cr._core, "_load_safetensors", then_save(load, new, 2, "new"))
    assert GPT.load(tmp_path).config == new.config
    monkeypatch.setattr(cr._core, "_training_load", then_save(training_load, new, 3, "newer"))
    assert load_checkpoint(tmp_path, new) == (
        3,
        {"note": "newer", "model": "gpt2", **{k: str(v) for k, v in new.config._asdict().items()}},
    )


@needs_program
def test_weights_and_tokens_of_the_program(text: Path, tmp_path: Path) -> None:
    """From one seed: the weights that the program starts with, and the text that it writes."""
    sizes = (
        "--layers",
        2,
        "--heads",
        2,
        "--width",
        32,
        "--context",
        16,
        "--batch",
        1,
        "--optimizer",
        "sgd",
        "--weight-decay",
        0,
    )
    chainrule(
        "train",
        "--tokens",
        text,
        "--out",
        tmp_path,
        *sizes,
        "--lr",
        1e-30,
        "--steps",
        1,
        "--warmup",
        0,
        "--seed",
        11,
        "--eval-every",
        0,
        "--sample",
        0,
    )
    loaded = GPT.load(tmp_path)
    fresh = GPT(*loaded.config, generator=seeded(11))
    for (name, p), q in zip(loaded.named_parameters(), fresh.parameters(), strict=True):
        assert off(p.detach(), q.detach()) < 1e-25, name
    letters = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))["characters"]
    said = chainrule(
        "generate",
        "--model",
        tmp_path,
        "--prompt",
        "the",
        "--tokens",
        40,
        "--temperature",
        0.9,
        "--top-k",
        20,
        "--top-p",
        0.95,
        "--seed",
        5,
    )
    made = loaded.generate([letters.index(c) for c in "the"], 40, 0.9, 20, 0.95, seeded(5))
    assert said == "the" + "".join(letters[i] for i in made) + "\n"


def test_checkpoint_without_the_program(tmp_path: Path) -> None:
    """Save, load into others, go on: the bits of the run that was not interrupted; a parameter that
    missed steps keeps its own count."""

    def run(model: GPT, optimizer: optim.Optimizer, steps: range) -> list[float]:
        losses = []
        for step in steps:
            loss = model.loss(*golden_tokens(step))
            loss.backward()
            model.wpe.weight.grad = None if step % 2 else model.wpe.weight.grad
            optimizer.step_clipped(0.5)
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses

    model = small(dropout=0.2, generator=seeded(1))
    optimizer = adamw(model)
    run(model, optimizer, range(3))
    save_checkpoint(tmp_path / "c", model, optimizer, step=3, metadata={"note": 'a "run"'})
    there = GPT.load(tmp_path / "c", generator=seeded(9))
    optimizer_there = adamw(there)
    step, metadata = load_checkpoint(tmp_path / "c", there, optimizer_there)
    assert step == 3 and metadata["note"] == 'a "run"' and metadata["width"] == str(C) and there.config == model.config
    assert [s["step"] for s in optimizer_there.state.values()] == [s["step"] for s in optimizer.state.values()]
    assert run(there, optimizer_there, range(3, 7)) == run(model, optimizer, range(3, 7))
    save_checkpoint(tmp_path / "c", model)  # without an optimizer: the old one's file is gone
    assert (
        not (tmp_path / "c" / "optimizer.safetensors").exists()
        and GPT.load(tmp_path / "c" / "weights.safetensors").config == model.config
    )


# ---- what is refused ----


def test_bad_sizes() -> None:
    with pytest.raises(
        ValueError,
        match=(
            r"\[GPT\] vocabulary must be at least 1, not 0; layers must be at least 1, not -1; dropout must be in \[0,"
            r" 1\), not 1"
        ),
    ):
        GPT(0, 8, -1, 2, 8, dropout=1)
    with pytest.raises(ValueError, match="heads must divide width: 3 and 8"):
        GPT(5, 8, 1, 3, 8)


def test_bad_tokens() -> None:
    model, g = small(), seeded(1)
    for shape in ((1, T + 1), (1, 0), (T,), (1, 1, 1)):
        with pytest.raises(ValueError, match=rf"of 1 to {T} steps of time"):
            model(cr.zeros(shape, dtype=cr.int64))
    for bad in (V, -1):
        with pytest.raises(IndexError):
            model(cr.tensor([[0, bad]]))
        with pytest.raises(IndexError):
            model.generate([0, bad], 1)
    with pytest.raises((TypeError, RuntimeError)):
        model(cr.zeros(1, 3))
    with pytest.raises(ValueError, match="target of shape"):
        model.loss(cr.zeros(1, 3, dtype=cr.int64), cr.zeros(1, 2, dtype=cr.int64))
    for arguments, why in (
        ({"temperature": -1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": -1}, "top_k"),
    ):
        with pytest.raises(ValueError, match=why):
            model.generate([0], 1, generator=g, **arguments)
    with pytest.raises(ValueError, match="-1 tokens"):
        model.generate([0], -1)
    with pytest.raises(ValueError, match="at least one token"):
        model.generate([], 1)
    with cr.no_grad():
        model.wpe.weight.fill_(float("nan"))
    with pytest.raises(ValueError, match="diverged"):
        model.generate([0], 1)


def test_bad_weights_are_all_named(tmp_path: Path) -> None:
    model = small()
    state = dict(model.state_dict())
    state["wte.weight"], state["h.1.ln_1.bias"], state["stranger"] = (
        state["wte.weight"].T,
        [1.0],
        state.pop("ln_f.bias"),
    )
    with pytest.raises(RuntimeError) as e:
        model.load_state_dict(state)
    assert all(
        f'"{key}"' in str(e.value) for key in ("ln_f.bias", "stranger", "h.1.ln_1.bias")
    ) and "size mismatch for wte.weight" in str(e.value)
    save_checkpoint(tmp_path, GPT(V, T, L, H, 2 * C), step=1)
    with pytest.raises(ValueError) as refused:
        load_checkpoint(tmp_path, model)
    assert "wte.weight" in str(refused.value) and "h.0.attn.c_attn.weight" in str(refused.value)


def test_bad_files(tmp_path: Path) -> None:
    model = small()
    with pytest.raises(OSError):
        GPT.load(tmp_path / "nothing")
    with pytest.raises(OSError):
        GPT.load(tmp_path)
    cr.save(model.state_dict(), tmp_path / "plain.safetensors")
    with pytest.raises(ValueError, match="lacks vocabulary, context, layers, heads, width, dropout"):
        GPT.load(tmp_path / "plain.safetensors")
    for lie, why in (
        ({"layers": "1000000000"}, "needs"),
        ({"width": "64"}, "needs"),
        ({"layers": "two"}, "invalid literal"),
        ({"heads": "5"}, "divide"),
    ):
        save_checkpoint(tmp_path / "lie", model, metadata=lie)
        with pytest.raises(ValueError, match=why):
            GPT.load(tmp_path / "lie")


def test_bad_checkpoints(tmp_path: Path) -> None:
    model, other = small(), small()
    for refused in (optim.RMSprop(model.parameters()), optim.AdamW(model.parameters(), amsgrad=True)):
        with pytest.raises(ValueError, match="cannot hold the state"):
            save_checkpoint(tmp_path, model, refused)
    with pytest.raises(ValueError, match="not the model's"):
        save_checkpoint(tmp_path, model, optim.AdamW(other.parameters()))
    with pytest.raises(OSError):
        load_checkpoint(tmp_path / "nothing", model)
    save_checkpoint(tmp_path, model)
    before = {name: p.clone() for name, p in other.state_dict().items()}
    with pytest.raises(ValueError, match="without an optimizer"):
        load_checkpoint(tmp_path, other, optim.AdamW(other.parameters()))
    sgd = optim.SGD(model.parameters(), momentum=0.9)
    model.loss(*golden_tokens(0)).backward()
    sgd.step()
    save_checkpoint(tmp_path, model, sgd)
    with pytest.raises(ValueError, match=r"\.m' without '.*\.v'"):
        load_checkpoint(tmp_path, other, optim.AdamW(other.parameters()))
    assert all(off(p, before[name]) == 0 for name, p in other.state_dict().items()), "nothing has changed"
