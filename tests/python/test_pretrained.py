"""Folders in Hugging Face's layout: against ``transformers`` where it is installed, against formulas
and hand-written files where not; what is damaged or contradicts itself is refused."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from chainrule import models, optim
from chainrule.data import Tokenizer
from chainrule.models import GPT, Llama
from conftest import BUILD

PROGRAM = BUILD / "chainrule"

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None or importlib.util.find_spec("torch") is None,
    reason="transformers is not installed (make oracle): compared with stored files only",
)
V, T = 67, 12
IDS = [[(7 * i * i + 3 * b + i) % V for i in range(T + 1)] for b in range(2)]
GPT2 = {"vocab_size": V, "n_positions": 32, "n_embd": 24, "n_layer": 2, "n_head": 3, "attn_pdrop": 0.0}
SIZES = {
    "vocab_size": V,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 500.0}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
    "rope_theta": 500.0,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", GPT2),
    "llama 2": ("llama", {**SIZES, "num_key_value_heads": 6}),
    "llama 3": ("llama", {**SIZES, "rope_parameters": LLAMA3, "head_dim": 8}),
    "smollm": ("llama", {**SIZES, "tie_word_embeddings": True, "rms_norm_eps": 1e-5}),
    "biases, linear": (
        "llama",
        {**SIZES, "attention_bias": True, "mlp_bias": True, "rope_parameters": {**LLAMA3, "rope_type": "linear"}},
    ),
    "yarn": ("llama", {**SIZES, "rope_parameters": YARN}),
    "dynamic": (
        "llama",
        {
            **SIZES,
            "max_position_embeddings": 8,
            "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 100.0},
        },
    ),
    "mistral": ("mistral", {**SIZES, "sliding_window": 5}),
    "qwen 2": ("qwen2", {**SIZES, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    "qwen 3": ("qwen3", {**SIZES, "head_dim": 8, "tie_word_embeddings": True}),
}
DEEP = ("gpt2", "llama 3", "qwen 2")  # with ten steps, and text without a cache


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """name -> (folder, model of transformers in double), made once."""
    made: dict[str, Any] = {}

    def make(name: str) -> Any:
        if name not in made:
            import torch
            from transformers import AutoConfig, AutoModelForCausalLM

            kind, options = CASES[name]
            torch.manual_seed(len(made))
            options = json.loads(json.dumps(options))
            options |= {"bos_token_id": 1, "eos_token_id": 2}
            make: Any = AutoModelForCausalLM.from_config
            model = make(AutoConfig.for_model(kind, **options, attn_implementation="eager"), dtype=torch.float64).eval()
            with torch.no_grad():
                for p in model.parameters():  # large enough that every part matters; norms and biases too
                    p.add_(torch.randn_like(p), alpha=0.2)
            folder = tmp_path_factory.mktemp("model") / kind
            model.save_pretrained(folder)
            made[name] = folder, model
        return made[name]

    return make


def close(mine: Any, theirs: Any, tight: float) -> None:
    import torch

    got = torch.tensor(mine.tolist(), dtype=torch.float64)
    scale = max(theirs.abs().max().item(), 1e-3)
    assert (got - theirs.double()).abs().max().item() <= tight * scale


@needs_transformers
@pytest.mark.parametrize("name", CASES)
def test_is_the_model_of_transformers(name: str, theirs: Any, tmp_path: Path) -> None:
    """Logits, loss, every gradient, ten steps of AdamW, greedy text, and the files both ways. Angles of
    rotations are float32 on both sides, so their last bits bound what agrees."""
    import torch
    from transformers import AutoModelForCausalLM

    folder, their = theirs(name)
    mine = models.from_pretrained(folder)
    assert type(mine) is (GPT if name == "gpt2" else Llama) and not mine.training
    tight = 1e-12 if name == "gpt2" else 2e-6
    x, y = [row[:-1] for row in IDS], [row[1:] for row in IDS]
    wanted = their(torch.tensor(x)).logits  # first: transformers' dynamic angles depend on what came before
    close(mine(cr.tensor(x)), wanted, tight)
    ids = torch.tensor(x[:1])
    greedy = their.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=0
    )[0, T:].tolist()
    if name != "dynamic":  # transformers turns keys anew as the text grows, a cache here keeps them
        assert mine.generate(x[0], 8, 0.0) == greedy
    window = [*x[0]]
    for token in greedy if name in DEEP else ():  # without a cache
        assert int(mine(cr.tensor([window]))[0, -1].argmax()) == token
        window.append(token)

    mine.save_pretrained(tmp_path / "again", max_shard_size=9000)
    assert len([*(tmp_path / "again").glob("*.safetensors")]) > 2
    again, loading = AutoModelForCausalLM.from_pretrained(
        tmp_path / "again", output_loading_info=True, dtype=torch.float64, attn_implementation="eager"
    )
    assert not loading["missing_keys"] and not loading["unexpected_keys"] and not loading["mismatched_keys"]
    assert torch.equal(again(torch.tensor(x)).logits, wanted)

    other, optimizers = again, (optim.AdamW(mine.parameters(), lr=1e-3), torch.optim.AdamW(again.parameters(), lr=1e-3))
    their_name = {n.removeprefix(mine.prefix): p for n, p in other.named_parameters()}
    for step in range(10 if name in DEEP else 1):
        loss = mine.loss(cr.tensor(x), cr.tensor(y))
        logits = other(torch.tensor(x)).logits
        their_loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(y).flatten())
        assert abs(loss.item() - their_loss.item()) <= 10 * tight * their_loss.item(), step
        loss.backward()
        their_loss.backward()
        for n, p in mine.named_parameters():
            wanted = their_name[n].grad
            if step == 0:
                close(p.grad, wanted.t() if n.endswith(mine.transposed) and wanted.ndim == 2 else wanted, 20 * tight)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    close(mine(cr.tensor(x)), other(torch.tensor(x)).logits, 2e-4)


@needs_transformers
def test_a_window_outlives_the_cache(tmp_path: Path) -> None:
    """Mistral: a text three times as long as the context. Two layers see 9 tokens through windows of 5, and the cache
    keeps 16, so nothing is lost when it moves on."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(3)
    options = {**SIZES, "max_position_embeddings": 16, "sliding_window": 5}
    config = AutoConfig.for_model("mistral", **options, attn_implementation="eager")
    make: Any = AutoModelForCausalLM.from_config
    their = make(config, dtype=torch.float64).eval()
    with torch.no_grad():
        for p in their.parameters():
            p.add_(torch.randn_like(p), alpha=0.2)
    their.save_pretrained(tmp_path / "mistral")
    mine = models.from_pretrained(tmp_path / "mistral")
    ids = torch.tensor([IDS[0][:T]])
    close(mine(cr.tensor(ids.tolist())), their(ids).logits, 2e-6)
    wanted = their.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=36, do_sample=False, eos_token_id=None, pad_token_id=0
    )[0, T:].tolist()
    assert mine.generate(ids[0].tolist(), 36, 0.0) == wanted
    text = ids[0].tolist()
    for token in wanted:  # without a cache
        assert int(mine(cr.tensor([text[-16:]]))[0, -1].argmax()) == token, len(text)
        text.append(token)


# ---- models made here ----
def small(kind: str, dtype: cr.dtype = cr.float32, V: int = V) -> Any:
    """A model of each family without transformers."""
    g = cr.Generator().manual_seed(5)
    if kind == "gpt2":
        return GPT(V, 32, 2, 4, 32, generator=g, dtype=dtype).eval()
    options: dict[str, dict[str, Any]] = {
        "llama": {"rope": {**LLAMA3, "original_max_position_embeddings": 8192, "rope_theta": 1e4}},
        "mistral": {"window": 5},
        "qwen2": {"qkv_bias": True, "tied": True},
        "qwen3": {"qk_norm": True, "rope": {**YARN}},
    }
    return Llama(V, 64, 2, 4, 32, 64, 2, **options[kind], generator=g, dtype=dtype).eval()


KINDS = ("gpt2", "llama", "mistral", "qwen2", "qwen3")
X = cr.tensor([row[:-1] for row in IDS])


def off(a: cr.Tensor, b: cr.Tensor) -> float:
    """The largest difference, of the largest value."""
    return float((a.double() - b.double()).abs().max() / b.double().abs().max())


@pytest.mark.parametrize("kind", KINDS)
def test_files_both_ways(kind: str, tmp_path: Path) -> None:
    """Folders keep every bit in every dtype; f32 GGUF too; f16, bf16 and q8_0 as near as they can."""
    model = small(kind)
    logits = model(X)
    model.save_pretrained(tmp_path / "a")
    again = models.from_pretrained(tmp_path / "a")
    assert type(again) is type(model) and again.config == model.config
    ends = again.pretrained["bos_token_id"], again.pretrained["eos_token_id"]
    assert ends == (None, None)  # transformers would take 50256 of GPT-2, 1 and 2 of Llama
    assert off(again(X), logits) == 0
    for dtype in (cr.float16, cr.bfloat16):
        models.from_pretrained(tmp_path / "a", dtype=dtype).save_pretrained(tmp_path / "half")
        half = models.from_pretrained(tmp_path / "half")
        assert half.head.dtype is dtype and half(X).dtype is dtype
        assert off(models.from_pretrained(tmp_path / "half", dtype=cr.float32)(X), logits) < 0.05
    for type_, tight in (("f32", 1e-6), ("f16", 2e-3), ("bf16", 2e-2), ("q8_0", 3e-2), ("q4_0", 0.3)):
        model.save_gguf(
            tmp_path / "m.gguf", type_, {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a", "b"]}
        )
        from_file = models.from_pretrained(tmp_path / "m.gguf", dtype=cr.float32)
        assert type(from_file) is type(model)
        assert off(from_file(X), logits) < tight, type_
    assert json.loads(cr._core._load_metadata(str(tmp_path / "m.gguf")))["tokenizer.ggml.tokens"] == ["a", "b"]
    assert model.generate([1, 2, 3], 6, 0.0) == again.generate([1, 2, 3], 6, 0.0)


def test_weights_lie_over_the_file(tmp_path: Path) -> None:
    """Nothing is copied: weights share the mapping, (in, out) matrices as transposed views; training
    leaves the file alone."""
    small("gpt2").save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    model = GPT.from_pretrained(tmp_path)
    assert model.h[0].attn.c_attn.weight.stride() == (1, 96)
    whole = cr.load(tmp_path / "model.safetensors")["transformer.wte.weight"]
    assert whole.shape == model.wte.weight.shape
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model.loss(X, X)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[0]
    assert (tmp_path / "model.safetensors").read_bytes() == before


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program chainrule is not built")
@pytest.mark.parametrize("kind", KINDS)
def test_the_program_agrees(kind: str, tmp_path: Path) -> None:
    """import, generate and export: the C library's models write Python's text, and files go around."""
    model = small(kind, V=256)
    model.save_pretrained(tmp_path / "hf", max_shard_size=40000)
    Tokenizer.bytes().save(tmp_path / "hf" / "tokenizer.json")
    prompt = b"Once upon a time"
    wanted = prompt + bytes(model.generate([*prompt], 24, 0.0))

    def program(*args: object) -> bytes:
        done = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def text(path: Path) -> bytes:
        out = program("generate", "--model", path, "--prompt", prompt.decode(), "--tokens", 24, "--temperature", 0)
        return out.removesuffix(b"\n")

    program("import", "--model", tmp_path / "hf", "--out", tmp_path / "run")
    assert text(tmp_path / "run") == wanted
    program("export", "--model", tmp_path / "run", "--out", tmp_path / "m.gguf", "--format", "gguf", "--dtype", "f32")
    program("import", "--model", tmp_path / "m.gguf", "--out", tmp_path / "run2")
    program("export", "--model", tmp_path / "run", "--out", tmp_path / "back")
    assert (tmp_path / "back" / "tokenizer.json").exists()
    for path in (tmp_path / "m.gguf", tmp_path / "back"):
        assert off(models.from_pretrained(path)(X), model(X)) < 2e-6
    first, second = (cr.load(tmp_path / run / "checkpoint") for run in ("run", "run2"))
    assert first.keys() == second.keys() and all(cr.equal(first[name], second[name]) for name in first)
    if kind == "gpt2":
        assert off(GPT.load(tmp_path / "run")(X), model(X)) == 0


# ---- what is refused ----
def folder(tmp_path: Path, kind: str = "gpt2") -> Path:
    small(kind).save_pretrained(tmp_path / kind)
    return tmp_path / kind


def rewrite(path: Path, **changes: Any) -> None:
    """Changes entries of a JSON file; None removes one."""
    entries = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in entries.items() if value is not None}))


def test_one_message_for_all_weights(tmp_path: Path) -> None:
    """Missing, extra and mis-shaped tensors, and the entries of config.json that the shapes contradict."""
    path = folder(tmp_path)
    weights = dict(cr.load(path))
    del weights["transformer.ln_f.bias"]
    weights["transformer.wte.weight"] = cr.zeros(V, 31)
    weights["transformer.h.1.mlp.c_fc.weight"] = cr.zeros(32, 100)
    weights["stray"] = cr.zeros(2)
    weights["h.0.attn.bias"] = cr.zeros(1, 1, 32, 32)  # a mask of old files
    cr.save(weights, path / "model.safetensors")
    with pytest.raises(ValueError) as error:
        GPT.from_pretrained(path)
    for part in (
        "config.json",
        "'ln_f.bias' is missing",
        f"'wte.weight' is ({V}, 31), not ({V}, 32)",
        "'h.1.mlp.c_fc.weight' is (100, 32), not (128, 32)",
        "'stray' is not wanted",
    ):
        assert part in str(error.value)
    assert "attn.bias" not in str(error.value).replace("c_attn.bias", "")


@pytest.mark.parametrize(
    "kind, changes, message",
    [
        ("gpt2", {"n_layer": 2000000000}, '"n_layer" is 2000000000, the weights are of 2 layers'),
        ("gpt2", {"n_layer": 1}, '"n_layer" is 1, the weights are of 2 layers'),
        ("gpt2", {"n_embd": 36}, "'wte.weight' is (67, 32), not (67, 36)"),
        ("gpt2", {"n_embd": "32"}, '"n_embd" must be a whole number from 1 to 2147483647, it is "32"'),
        ("gpt2", {"n_embd": -1}, "it is -1"),
        ("gpt2", {"n_head": 5}, '"n_head" must divide "n_embd": 5 and 32'),
        ("gpt2", {"n_embd": None}, "it is absent"),
        ("gpt2", {"n_inner": 100}, "'h.0.mlp.c_fc.weight' is (128, 32), not (100, 32)"),
        ("gpt2", {"activation_function": "mish"}, '"activation_function" must be one of silu|swish|gelu'),
        ("gpt2", {"model_type": "t5"}, '"model_type" must be one of gpt2|llama'),
        ("llama", {"num_key_value_heads": 3}, '"num_key_value_heads" must divide "num_attention_heads": 3 and 4'),
        (
            "llama",
            {"rope_scaling": None, "rope_parameters": {"rope_type": "longrope"}},
            '"short_factor" must be an array of 4 numbers',
        ),
        ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 0.5}}, '"factor" must be a number from 1'),
        ("llama", {"rope_scaling": None, "rope_parameters": [1]}, '"rope_parameters" must be an object, it is [1]'),
        ("llama", {"tie_word_embeddings": True}, "the configuration ties the head to the embedding"),
        ("qwen2", {"tie_word_embeddings": False}, "'lm_head.weight' is missing"),
        ("llama", {"hidden_act": "mish"}, '"hidden_act" must be one of silu|swish|gelu'),
        ("llama", {"head_dim": 7}, '"head_dim" must be even, it is 7'),
        (
            "mistral",
            {"layer_types": ["full_attention"]},
            '"layer_types" must be an array of 2, one for each layer',
        ),
    ],
)
def test_config_that_contradicts(kind: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = folder(tmp_path, kind)
    rewrite(path / "config.json", **changes)
    with pytest.raises((ValueError, RuntimeError)) as error:
        models.from_pretrained(path)
    assert message in str(error.value), str(error.value)
    done = (
        subprocess.run(  # the C library says it too
            [PROGRAM, "import", "--model", path, "--out", tmp_path / "run"], capture_output=True, check=False
        )
        if PROGRAM.exists()
        else None
    )
    assert done is None or (done.returncode == 1 and b"chainrule: [" in done.stderr), done


def test_damaged_folders(tmp_path: Path) -> None:
    """Files that are absent, cut short, no JSON, or an index that leads out of its folder."""
    with pytest.raises(OSError, match="holds no model"):
        models.from_pretrained(tmp_path)
    path = folder(tmp_path)
    config = (path / "config.json").read_bytes()
    for text in (b"", config[:50], b"[1]", b"[" * 100000):
        (path / "config.json").write_bytes(text)
        with pytest.raises((OSError, ValueError), match=r"config\.json' is no"):
            models.from_pretrained(path)
    (path / "config.json").write_bytes(config)
    whole = (path / "model.safetensors").read_bytes()
    for length in (0, 7, 100, len(whole) - 1):
        (path / "model.safetensors").write_bytes(whole[:length])
        with pytest.raises(OSError, match=r"model\.safetensors"):
            models.from_pretrained(path)
    (path / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="has no weights"):
        models.from_pretrained(path)
    index = path / "model.safetensors.index.json"
    for broken in (
        "{",
        "{}",
        '{"weight_map": []}',
        '{"weight_map": {"a": "../x.safetensors"}}',
        '{"weight_map": {"a": 5}}',
    ):
        index.write_text(broken)
        with pytest.raises(OSError, match="index"):
            models.from_pretrained(path)
        with pytest.raises((OSError, RuntimeError)):
            cr._core._load_safetensors(str(path))
    index.write_text('{"weight_map": {"a": "model-1.safetensors"}}')
    with pytest.raises(OSError, match="model-1"):
        models.from_pretrained(path)
    cr.save({"b": cr.zeros(2)}, path / "model-1.safetensors")
    with pytest.raises(OSError, match="not there"):
        models.from_pretrained(path)


def test_files_of_pytorch(tmp_path: Path) -> None:
    """pytorch_model.bin by the restricted reader; an object that is no dict of tensors is refused."""
    path = folder(tmp_path)
    logits = small("gpt2")(X)
    weights = cr.load(path / "model.safetensors")
    (path / "model.safetensors").unlink()
    cr.save(dict(weights), path / "pytorch_model.bin")
    assert off(models.from_pretrained(path)(X), logits) == 0
    cr.save([1, 2], path / "pytorch_model.bin")
    with pytest.raises(OSError, match="no dict of tensors"):
        models.from_pretrained(path)


def test_tokens_out_of_range(tmp_path: Path) -> None:
    for kind in ("gpt2", "llama"):
        model = small(kind)
        with pytest.raises(IndexError):
            model(cr.tensor([[V]]))
        with pytest.raises(IndexError):
            model.generate([-1], 1)
        with pytest.raises(ValueError, match=f"1 to {model.config.context} steps of time"):
            model(cr.zeros(1, model.config.context + 1, dtype=cr.int64))


def test_a_full_disk_leaves_the_old_folder(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = folder(tmp_path)
    small("gpt2").save_gguf(path / "m.gguf")
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, hard))
    try:
        for save, to in (("save_pretrained", path), ("save_gguf", path / "m.gguf")):
            with pytest.raises(OSError):
                getattr(small("llama", V=256), save)(to)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_a_process_killed_while_it_saves(tmp_path: Path) -> None:
    """Before the new files are complete the old folder is whole; after, the next reader completes the new one."""
    old, new = small("gpt2"), small("llama")
    for kept, saved, *sizes in (old, new, "5GB", "20KB"), (new, old, "20KB", "5GB"), (old, new, "20KB", "30KB"):
        kept.save_pretrained(tmp_path / "old", max_shard_size=sizes[0])
        saved.save_pretrained(tmp_path / "new", max_shard_size=sizes[1])
        names = sorted(
            (tmp_path / "new").iterdir(), key=lambda p: (p.suffix == ".json", p.name != "model.safetensors.index.json")
        )
        count = sum(p.suffix == ".safetensors" for p in names)
        for moved in range(-1, len(names) + 1):
            path = tmp_path / f"{moved}"
            shutil.copytree(tmp_path / "old", path)
            stage = path / (".chainrule-new" if moved < 0 else ".chainrule-ready")
            stage.mkdir()
            for i, file in enumerate(names):
                shutil.copy(file, path if i < moved else stage)
            (stage / "shards").write_text(f"{count}")
            model = models.from_pretrained(path)
            want = kept if moved < 0 else saved
            assert type(model) is type(want) and off(model(X), want(X)) == 0
            if moved >= 0:
                assert sorted(p.name for p in path.iterdir()) == sorted(p.name for p in names)
            shutil.rmtree(path)
        shutil.rmtree(tmp_path / "old")
        shutil.rmtree(tmp_path / "new")
    for text in ("", "0", "-3"):
        old.save_pretrained(tmp_path / "old")
        (tmp_path / "old" / ".chainrule-ready").mkdir()
        (tmp_path / "old" / ".chainrule-ready" / "shards").write_text(text)
        with pytest.raises((OSError, RuntimeError), match="of an interrupted save is damaged"):
            models.from_pretrained(tmp_path / "old")
        shutil.rmtree(tmp_path / "old")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rope": {**YARN, "attention_factor": 1.0}}, "attention_factor"),
        ({"rope": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}}, "mscale_all_dim"),
        ({"rope": {**YARN, "beta_fast": 8.0}}, "beta_fast"),
        ({"rope": {**YARN, "beta_slow": 2.0}}, "beta_slow"),
        ({"rope": {**YARN, "truncate": False}}, "truncate"),
        ({"rope": {**LLAMA3, "original_max_position_embeddings": 16}}, "original_max_position_embeddings 8192"),
        ({"rope": {**LLAMA3, "original_max_position_embeddings": 8192, "high_freq_factor": 8.0}}, "high_freq_factor 4"),
    ],
)
def test_what_a_gguf_file_cannot_say_is_not_written(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    """Readers would compute other logits, or refuse the file."""
    model = Llama(V, 64, 2, 4, 32, 64, 2, **options)
    with pytest.raises((ValueError, RuntimeError), match=message):
        model.save_gguf(tmp_path / "m.gguf", "f32")
    assert not list(tmp_path.iterdir())
    model.save_pretrained(tmp_path / "m")
    if PROGRAM.exists():
        words: list[str | Path] = [PROGRAM, "export", "--model", tmp_path / "m", "--out", tmp_path / "m.gguf"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "chainrule: [" in done.stderr and not (tmp_path / "m.gguf").exists(), done


@pytest.mark.parametrize(("kind", "window"), [("qwen2", 8), ("qwen3", 8), ("mistral", 5)])
def test_windows_of_some_layers_are_not_written(kind: str, window: int, tmp_path: Path) -> None:
    small(kind).save_pretrained(tmp_path / kind)
    changes: dict[str, Any] = {"use_sliding_window": True, "sliding_window": window, "max_window_layers": 1}
    rewrite(tmp_path / kind / "config.json", **changes, layer_types=["full_attention", "sliding_attention"])
    model = models.from_pretrained(tmp_path / kind)
    with pytest.raises(ValueError, match="use_sliding_window|layer_types"):
        model.save_gguf(tmp_path / "m.gguf", "f32")
    assert not (tmp_path / "m.gguf").exists()


def test_a_changed_model_is_saved_as_it_is(tmp_path: Path) -> None:
    small("gpt2").save_pretrained(tmp_path / "m")
    rewrite(tmp_path / "m" / "config.json", note="kept")
    model = models.from_pretrained(tmp_path / "m")
    model.config = model.config._replace(dropout=0.25)
    model.save_pretrained(tmp_path / "m")
    said = json.loads((tmp_path / "m" / "config.json").read_text())
    assert said["resid_pdrop"] == said["embd_pdrop"] == 0.25 and said["note"] == "kept"


def test_entries_without_effect(tmp_path: Path) -> None:
    """Biases that Qwen has not, and a window that no layer has."""
    tokens = cr.tensor([[1, 5, 2, 9, 3, 3, 7, 0, 4, 6]])
    for kind, changes in (
        ("qwen2", {"attention_bias": True, "mlp_bias": True}),
        ("mistral", {"sliding_window": 2, "layer_types": ["full_attention", "full_attention"]}),
    ):
        small(kind).save_pretrained(tmp_path / kind)
        rewrite(tmp_path / kind / "config.json", sliding_window=None)
        before = models.from_pretrained(tmp_path / kind)
        rewrite(tmp_path / kind / "config.json", **changes)
        assert cr.equal(models.from_pretrained(tmp_path / kind)(tokens), before(tokens)), kind


def test_damaged_gguf(tmp_path: Path) -> None:
    """Cut short anywhere, or with any byte of its header changed: an error, or a model; never a crash."""
    path = tmp_path / "m.gguf"
    small("llama", V=8).save_gguf(path, "q8_0", {"tokenizer.ggml.tokens": ["a", "b"]})
    whole = path.read_bytes()
    header = whole.index(b"rope_freqs.weight") + 60
    for at in [*range(0, header, 7), len(whole) - 100]:
        path.write_bytes(whole[:at])
        with pytest.raises(OSError):
            models.from_pretrained(path)
    for at in range(0, header, 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ (255 if at % 2 else 1 << at % 8)]) + whole[at + 1 :])
        try:
            models.from_pretrained(path)
        except (OSError, ValueError, RuntimeError):
            pass
