"""llama.cpp runs the GGUF files that chainrule writes: the same tokens, logits and greedy text.  Its package is
xllamacpp (make oracle); the entries for tokenizers are tested without it too."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from chainrule import models
from chainrule.data import Tokenizer
from chainrule.models.decoder import Decoder
from chainrule.nn import lora
from conftest import BUILD, PAGES

PROGRAM = BUILD / "chainrule"
TEXT = PAGES[:10_000]
TEXTS = (
    TEXT,
    "  two  spaces\n\n\tit's 12345 ß 漢字 😀 e\u0301\u00a0end ",
    "",
    " ",
    "\n\n\n",
    "3.14159+2.71828=5.85987",
)
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def made(kind: str) -> Decoder:
    cr.manual_seed(0)
    if kind == "gpt2":
        return models.GPT(600, 256, 2, 4, 64).eval()
    options: dict[str, dict[str, Any]] = {
        "llama": {},
        "mistral": {"window": 200},  # longer than the texts: llama.cpp attends to all tokens
        "qwen2": {"qkv_bias": True, "tied": True},
        "qwen3": {"qk_norm": True},
    }
    return models.Llama(600, 256, 2, 4, 64, 128, 2, **options[kind]).eval()


def entries(tokenizer: Tokenizer, path: Path, size: int = 600) -> dict[str, Any]:
    model = models.Llama(size, context=8, layers=1, heads=1, width=8, inner=8)
    model.save_gguf(path, "f32", tokenizer=tokenizer)
    said = json.loads(cr._core._load_metadata(str(path)))
    return {key.removeprefix("tokenizer."): value for key, value in said.items() if key.startswith("tokenizer.")}


def sentencepiece(tmp_path: Path) -> Tokenizer:
    """Llama 2's form: a BPE of pieces with spaces as U+2581, and a token for each byte."""
    words = ["\u2581", "t", "h", "e", "a", "n", "d", "\u2581t", "he", "\u2581the", "\u2581a", "nd", "\u2581and"]
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"<0x{i:02X}>": 3 + i for i in range(256)}
    vocab |= {word: 259 + i for i, word in enumerate(words)}
    merges = ["\u2581 t", "h e", "\u2581t he", "\u2581 a", "n d", "\u2581a nd"]
    added = [
        {"id": i, "content": name, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False}
        for i, name in enumerate(("<unk>", "<s>", "</s>"))
    ]  # fmt: skip
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    file = {
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}, replace]},
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": {"type": "ByteFallback"},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": vocab,
                  "merges": merges},
    }  # fmt: skip
    (tmp_path / "spm").mkdir(exist_ok=True)
    (tmp_path / "spm" / "tokenizer.json").write_text(json.dumps(file))
    (tmp_path / "spm" / "tokenizer_config.json").write_text('{"eos_token": "</s>", "chat_template": "{{ messages }}"}')
    return Tokenizer.from_pretrained(tmp_path / "spm")


def changed(tmp_path: Path, change: Callable[[dict[str, Any]], None], split: str | None = None) -> Tokenizer:
    """A trained tokenizer whose file was changed."""
    Tokenizer.train_bpe(TEXT, 400, split=split).save(tmp_path / "tokenizer.json")
    file = json.loads((tmp_path / "tokenizer.json").read_text())
    change(file)
    (tmp_path / "tokenizer.json").write_text(json.dumps(file))
    return Tokenizer.from_file(tmp_path / "tokenizer.json")


def test_entries(tmp_path: Path) -> None:
    """Names of splits, kinds of tokens, special tokens; numbers that only the model has get a name."""
    path = tmp_path / "m.gguf"
    trained = Tokenizer.train_bpe(TEXT, 300, special_tokens=["<|endoftext|>"])
    said = entries(trained, path)
    assert (said["ggml.model"], said["ggml.pre"]) == ("gpt2", "gpt-2")
    assert len(said["ggml.tokens"]) == len(said["ggml.token_type"]) == 600 and len(said["ggml.merges"]) == 43
    at = trained.special_tokens["<|endoftext|>"]
    assert (said["ggml.token_type"][at], said["ggml.tokens"][at]) == (3, "<|endoftext|>")
    assert (said["ggml.token_type"][299:301], said["ggml.tokens"][599]) == ([1, 5], "[PAD599]")
    assert said["ggml.add_bos_token"] is False
    for split, pre in ((LLAMA3, "smaug-bpe"), (QWEN2, "qwen2")):
        assert entries(Tokenizer.train_bpe(TEXT, 400, split=split), path)["ggml.pre"] == pre
    whole = changed(tmp_path, lambda file: file["model"].update(ignore_merges=True), LLAMA3)
    assert entries(whole, path)["ggml.pre"] == "llama-bpe"
    said = entries(sentencepiece(tmp_path), path)
    assert (said["ggml.model"], said["ggml.add_space_prefix"], said["ggml.add_bos_token"]) == ("llama", True, True)
    assert (said["ggml.bos_token_id"], said["ggml.eos_token_id"]) == (1, 2)
    assert said["ggml.token_type"][:4] == [2, 3, 3, 6] and said["chat_template"] == "{{ messages }}"
    assert said["ggml.scores"][266:270] == [-1, -2, -3, -4]
    said = entries(Tokenizer.bytes(), path)
    assert said["ggml.tokens"][ord("a")] == "a" and said["ggml.tokens"][32] == "\u0120"


def test_a_tokenizer_is_read_from_the_file(tmp_path: Path) -> None:
    """The same tokens as before it was written, special ones and those around a text too; so is the template."""
    path = tmp_path / "m.gguf"
    texts = ["", " ", "It's 1234 o'clock,\n\n then  \tgo!", "the \u00e9t\u00e9 \U0001f600 <|endoftext|> x", TEXT[:2000]]
    smollm = changed(
        tmp_path,
        lambda file: file["pre_tokenizer"].update(
            type="Sequence",
            pretokenizers=[
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            ],
        ),
    )
    for tokenizer in (
        Tokenizer.train_bpe(TEXT, 300, special_tokens=["<|endoftext|>"]),
        Tokenizer.train_bpe(TEXT, 400, split=QWEN2),
        changed(tmp_path, lambda file: file["model"].update(ignore_merges=True), LLAMA3),
        smollm,
        sentencepiece(tmp_path),
        Tokenizer.bytes(),
    ):
        entries(tokenizer, path)
        read = Tokenizer.from_file(path)
        assert read.special_tokens == tokenizer.special_tokens
        for text in texts:
            for more in (False, True):
                ids = tokenizer.encode(text, allowed_special="all", add_special_tokens=more)
                assert read.encode(text, allowed_special="all", add_special_tokens=more) == ids, (tokenizer, text)
                assert tokenizer.special_tokens.get("<unk>") == 0 or read.decode(ids) == tokenizer.decode(ids)
    entries(sentencepiece(tmp_path), path)
    assert Tokenizer.from_pretrained(path).chat_template == "{{ messages }}"


def test_what_a_file_does_not_say(tmp_path: Path) -> None:
    """llama.cpp puts a beginning in front of texts of SentencePiece, and no end behind, unless the file says so."""
    said: dict[str, Any] = {"model": "llama", "tokens": ["<s>", "</s>", "a"], "scores": [0.0, 0.0, -1.0]}
    said |= {"token_type": [3, 3, 1], "bos_token_id": 0, "eos_token_id": 1, "add_space_prefix": False}
    for more, wanted in (
        ({}, [0, 2]),
        ({"add_bos_token": False}, [2]),
        ({"add_eos_token": True}, [0, 2, 1]),
    ):
        path, every = tmp_path / "m.gguf", {f"tokenizer.ggml.{key}": value for key, value in (said | more).items()}
        models.Llama(3, context=8, layers=1, heads=1, width=8, inner=8).save_gguf(path, "f32", every)
        assert Tokenizer.from_file(path).encode("a", add_special_tokens=True) == wanted, more


def test_files_without_a_tokenizer_are_refused(tmp_path: Path) -> None:
    path, tokens = tmp_path / "m.gguf", ["a", "b"]
    gpt2 = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens}
    llama = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens}
    for said, why in (
        ({"general.name": "x"}, "holds no tokenizer"),
        ({"tokenizer.ggml.model": "rwkv"}, "of the kind 'rwkv'"),
        ({"tokenizer.ggml.model": "bert"}, "ggml.tokens must be a list"),
        ({"tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": tokens}, "ggml.scores must be a list"),
        ({"tokenizer.ggml.model": "gpt2"}, "ggml.tokens must be a list"),
        ({**gpt2, "tokenizer.ggml.tokens": ["a", "ab"]}, "ggml.merges must be a list"),
        ({**gpt2, "tokenizer.ggml.merges": ["a b"]}, "ab"),
        ({**gpt2, "tokenizer.ggml.merges": [], "tokenizer.ggml.pre": "viking"}, "'viking'"),
        ({**gpt2, "tokenizer.ggml.merges": [], "tokenizer.ggml.token_type": [1]}, "ggml.token_type must be a list"),
        (llama, "ggml.scores must be a list"),
        ({**llama, "tokenizer.ggml.scores": [0.0]}, "ggml.scores must be a list"),
        ({**llama, "tokenizer.ggml.scores": ["a", "b"]}, "ggml.scores must be a list"),
    ):
        models.Llama(2, context=8, layers=1, heads=1, width=8, inner=8).save_gguf(path, "f32", said)
        with pytest.raises(OSError, match=why):
            Tokenizer.from_file(path)


def test_a_tokenizer_is_read_beside_any_tensors(tmp_path: Path) -> None:
    """Its entries do not depend on the types of the weights, and a list of merges that is empty may be left out."""
    path = tmp_path / "m.gguf"
    said = {"model": "gpt2", "pre": "gpt-2", "tokens": ["a", "b"], "chat_template": "{{ messages[0].content }}"}
    model = models.Llama(2, context=8, layers=1, heads=1, width=8, inner=8)
    model.save_gguf(path, "f32", {f"tokenizer.{key}" if key == "chat_template" else f"tokenizer.ggml.{key}": value
                                  for key, value in said.items()})  # fmt: skip
    data, name = path.read_bytes(), b"token_embd.weight"
    at = data.index(name) + len(name) + 4 + 2 * 8  # axes, sizes, type
    assert data[at : at + 4] == bytes(4)
    path.write_bytes(data[:at] + bytes([99, 0, 0, 0]) + data[at + 4 :])
    read = Tokenizer.from_file(path)
    assert list(read.encode("ab")) == [0, 1] and read.chat_template == said["chat_template"]
    with pytest.raises(OSError, match="type 99"):
        models.from_pretrained(path)


def test_what_llama_cpp_lacks_is_refused(tmp_path: Path) -> None:
    """Each with its reason; metadata goes on without the tokenizer; the file that was there stays."""
    path = tmp_path / "m.gguf"
    entries(Tokenizer.bytes(), path)
    before = path.read_bytes()
    spm = json.loads((tmp_path / "spm" / "tokenizer.json").read_text()) if sentencepiece(tmp_path) else {}
    spm["model"]["merges"] = ["\u2581 t", "h e", "\u2581t he", "\u2581 a", "n d"]  # \u2581and is a token
    (tmp_path / "apart.json").write_text(json.dumps(spm))
    for tokenizer, why in (
        (Tokenizer.chars("abc"), "characters of one text"),
        (Tokenizer.train_bpe(TEXT, 300, split=r"\w+|\W+"), "tokenizer.ggml.pre"),
        (changed(tmp_path, lambda file: file.update(normalizer={"type": "Lowercase"})), "changes text"),
        (Tokenizer.from_file(tmp_path / "apart.json"), "merges do not follow"),
        (Tokenizer.train_bpe(TEXT, 700), "has 700 tokens, the model 600"),
    ):
        with pytest.raises(ValueError, match=why):
            entries(tokenizer, path)
    assert path.read_bytes() == before


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program chainrule is not built")
def test_the_program_needs_only_the_file(tmp_path: Path) -> None:
    """generate, serve and import of a GGUF file that no tokenizer is beside of."""
    from chainrule.serve.__main__ import load

    (tmp_path / "only").mkdir()
    path, tokenizer = tmp_path / "only" / "m.gguf", sentencepiece(tmp_path)
    made("llama").save_gguf(path, "f32", tokenizer=tokenizer)

    def run(*words: str) -> bytes:
        return subprocess.run([str(PROGRAM), *words], cwd=tmp_path, capture_output=True, check=True).stdout

    run("import", "--model", "only/m.gguf", "--out", "run")
    run("export", "--model", "only/m.gguf", "--out", "folder")
    asked = ("--prompt", "and the hat", "--tokens", "12", "--temperature", "0")
    texts = [run("generate", "--model", model, *asked) for model in ("only/m.gguf", "run", "folder")]
    assert texts[0] and texts[0] == texts[1] == texts[2]
    model, read, where = load(str(path), dtype=None, device="cpu")
    assert model.config.vocabulary == 600 and where == str(path)
    assert read.encode("the hat") == tokenizer.encode("the hat") and read._chat().said.ends == (2,)
    assert (tmp_path / "folder" / "chat_template.jinja").read_text() == "{{ messages }}"
    assert json.loads((tmp_path / "folder" / "generation_config.json").read_text()) == {
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def test_end_tokens_of_a_file(tmp_path: Path) -> None:
    """eos, eot and eom, and the special tokens that llama.cpp takes for ends by their names."""
    names = ["<s>", "</s>", "<|im_end|>", "<end_of_turn>", "<x>"]
    tokenizer = Tokenizer.train_bpe(TEXT, 400, special_tokens=names)
    said = {"bos_token_id": 0, "eos_token_id": 1, "eot_token_id": 4}
    metadata = {f"tokenizer.ggml.{key}": value for key, value in said.items()}
    made("llama").save_gguf(tmp_path / "m.gguf", "f32", metadata=metadata, tokenizer=tokenizer)
    assert Tokenizer.from_file(tmp_path / "m.gguf")._chat().said.ends == (1, 4, 2, 3)
    assert models.from_pretrained(tmp_path / "m.gguf").ends == (1, 4)


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program chainrule is not built")
def test_the_program_writes_the_tokenizer(tmp_path: Path) -> None:
    """export takes the tokenizer of the folder, or that of the GGUF file; says where llama.cpp knows none."""
    made("llama").save_pretrained(tmp_path / "m")
    Tokenizer.train_bpe(TEXT, 400).save(tmp_path / "m" / "tokenizer.json")
    found = []
    (tmp_path / "elsewhere").mkdir()
    for source, to in (("m", "elsewhere/a.gguf"), ("elsewhere/a.gguf", "b.gguf")):
        command = [str(PROGRAM), "export", "--model", source, "--out", to, "--format", "gguf", "--dtype", "q8_0"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "no tokenizer" not in done.stderr
        said = json.loads(cr._core._load_metadata(str(tmp_path / to)))
        found.append({key: value for key, value in said.items() if key.startswith("tokenizer.")})
    assert found[0] == found[1] and len(found[0]["tokenizer.ggml.tokens"]) == 600
    Tokenizer.chars("abc").save(tmp_path / "m" / "tokenizer.json")
    command = [str(PROGRAM), "export", "--model", "m", "--out", "c.gguf", "--format", "gguf"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "the file has no tokenizer: " in done.stderr and "characters of one text" in done.stderr


def asked(path: Path, questions: list[dict[str, Any]], *adapters: Path) -> list[Any]:
    """The answers of llama.cpp, in a process of its own."""
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("llama_cpp.py"), path, *adapters],
        input=lines,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]


@pytest.mark.parametrize("kind", ["gpt2", "llama", "mistral", "qwen2", "qwen3"])
def test_llama_cpp_agrees(kind: str, tmp_path: Path) -> None:
    """Tokens of every text, greedy text, and log-probabilities within f16's cache, for f16, Q8_0, Q4_0 and Q4_K_M."""
    pytest.importorskip("xllamacpp")
    path, trained = tmp_path / "m.gguf", Tokenizer.train_bpe(TEXT, 512, split={"qwen2": QWEN2}.get(kind))
    ids = trained.encode("chainrule is a library")
    for type_ in ("f16", "q8_0", "q4_0", "q4_k_m"):
        made(kind).save_gguf(path, type_, tokenizer=trained)
        questions: list[dict[str, Any]] = [{"text": text, "special": False} for text in TEXTS]
        *tokens, (text, probabilities) = asked(path, [*questions, {"ids": ids, "n": 12}])
        assert tokens == [trained.encode(text) for text in TEXTS]
        ours = models.from_pretrained(path, dtype=cr.float32)
        assert len(text) == 12
        wanted = ours(cr.tensor([ids + text])).log_softmax(-1)[0].tolist()
        compared, at = 0, 0
        for row in probabilities:  # of tokens whose text is whole
            while text[at] != row["id"]:
                at += 1
            for each in row["top_logprobs"]:
                assert abs(each["logprob"] - wanted[len(ids) - 1 + at][each["id"]]) < 0.02, (kind, type_, at)
                compared += 1
            at += 1
        assert compared > 600
        for at, token in enumerate(text):  # the likeliest, up to rounding
            assert wanted[len(ids) - 1 + at][token] > max(wanted[len(ids) - 1 + at]) - 0.02


def adapted(kind: str, rslora: bool = False) -> Decoder:
    """With an adapter of every linear layer but the head, large enough to change each text."""
    model = made(kind)
    names = lora.apply(model, 4, 6.0, "all-linear", rslora=rslora, generator=cr.Generator().manual_seed(1))
    assert len(names) == (8 if kind == "gpt2" else 14)
    with cr.no_grad():
        for i, p in enumerate(lora.parameters(model)):
            p.copy_(cr.randn(*p.shape, generator=cr.Generator().manual_seed(i)) * 0.1)
    return model


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program chainrule is not built")
@pytest.mark.parametrize("kind", ["gpt2", "llama", "qwen2"])
def test_adapters(kind: str, tmp_path: Path) -> None:
    """A folder of PEFT becomes llama.cpp's file and again a folder; Python, the program and llama.cpp read the file."""
    gguf: Any = pytest.importorskip("gguf", reason="gguf is not installed (make oracle)")

    def run(*words: object, code: int = 0) -> subprocess.CompletedProcess[bytes]:
        command = [str(PROGRAM), *map(str, words)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == code, done.stderr
        return done

    trained, path, file = Tokenizer.train_bpe(TEXT, 512), tmp_path / "m.gguf", tmp_path / "a.gguf"
    made(kind).save_gguf(path, "f32", tokenizer=trained)
    for rslora in (False, True):
        model = adapted(kind, rslora)
        lora.save(model, tmp_path / "peft")
        run("export", "--model", path, "--adapter", "peft", "--unmerged", "--out", file)
        again = made(kind)
        assert lora.load(again, file) == lora.load(made(kind), tmp_path / "peft")
        for name, tensor in lora.state_dict(model).items():
            assert cr.equal(lora.state_dict(again)[name], tensor), name
        ids = trained.encode("chainrule is a library")
        wanted = model(cr.tensor([ids]))
        assert float((again(cr.tensor([ids])) - wanted).abs().max()) < 1e-5
        assert float((made(kind)(cr.tensor([ids])) - wanted).abs().max()) > 0.1
    run("export", "--model", path, "--adapter", file, "--unmerged", "--out", "back")
    for name, tensor in cr._core._load_safetensors(tmp_path / "peft" / "adapter_model.safetensors").items():
        assert cr.equal(cr._core._load_safetensors(tmp_path / "back" / "adapter_model.safetensors")[name], tensor)
    words = ("generate", "--model", path, "--prompt", "the", "--tokens", 12, "--temperature", 0, "--adapter")
    texts = [run(*words, adapter).stdout for adapter in ("peft", file, "back")]
    assert texts[0] and texts[0] == texts[1] == texts[2]

    fields = gguf.GGUFReader(file).fields
    said = {key: fields[key].contents() for key in ("general.type", "adapter.type", "general.architecture")}
    assert said == {"general.type": "adapter", "adapter.type": "lora", "general.architecture": kind}
    assert fields["adapter.lora.alpha"].types == [gguf.GGUFValueType.FLOAT32]
    assert fields["adapter.lora.alpha"].contents() == pytest.approx(12)  # 6 sqrt(4): readers divide by the rank
    pytest.importorskip("xllamacpp")
    ((text, probabilities),) = asked(path, [{"ids": ids, "n": 12}], file)
    likely = model(cr.tensor([ids + text])).log_softmax(-1)[0, len(ids) - 1 :].tolist()
    assert len(text) == 12
    for row, token in zip(likely, text, strict=False):
        assert row[token] > max(row) - 0.02
    at = text.index(probabilities[0]["id"])  # the first token whose text is whole
    for each in probabilities[0]["top_logprobs"]:
        assert abs(each["logprob"] - likely[at][each["id"]]) < 0.02


def test_bad_adapters(tmp_path: Path) -> None:
    """Files of the package gguf: other kinds, layers and shapes are refused by name; alpha 0 is a scale of 1."""
    gguf: Any = pytest.importorskip("gguf", reason="gguf is not installed (make oracle)")
    import numpy as np

    def written(tensors: dict[str, tuple[int, int]], kind: str = "lora", arch: str = "qwen2", alpha: float = 4) -> Path:
        path = tmp_path / f"{len([*tmp_path.iterdir()])}.gguf"
        writer = gguf.GGUFWriter(path, arch)
        writer.add_string("general.type", "adapter" if kind else "model")
        writer.add_string("adapter.type", kind)
        writer.add_float32("adapter.lora.alpha", alpha)
        for name, shape in tensors.items():
            writer.add_tensor(name, np.ones(shape, np.float16))
        for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
            write()
        writer.close()
        return path

    layer = "blk.0.attn_v.weight"
    good = {f"{layer}.lora_a": (2, 64), f"{layer}.lora_b": (32, 2)}
    for path, why in (
        (written(good, kind=""), '"general.type" is model, not adapter'),
        (written(good, kind="other"), '"adapter.type" is other, not lora'),
        (written(good, arch="unknown"), "is of the architecture unknown"),
        (written({f"{layer}.lora_c": (2, 64)}), "no layer has the adapter 'blk.0.attn_v.weight.lora_c'"),
        (written({"blk.0.strange.weight.lora_a": (2, 64)}), "no layer has the adapter 'blk.0.strange"),
        (written({f"{layer}.lora_a": (2, 64)}), r"lora_B.weight' is missing"),
        (written({**good, f"{layer}.lora_b": (32, 3)}), r"is \(32, 3\), not \(32, 2\)"),
        (written({**good, "token_embd.weight.lora_a": (2, 600)}), "embed_tokens.* is not wanted"),
        (written({}), "rank"),
    ):
        kept = path.read_bytes()
        with pytest.raises((ValueError, RuntimeError), match=why):
            lora.load(made("qwen2"), path)
        assert path.read_bytes() == kept
    model = made("qwen2")
    assert lora.load(model, written(good, alpha=0)) == ["layers.0.self_attn.v_proj"]
    assert model.get_submodule("layers.0.self_attn.v_proj").scale == 1


def test_llama_cpp_agrees_on_sentencepiece(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    path, pieces = tmp_path / "m.gguf", sentencepiece(tmp_path)
    made("llama").save_gguf(path, "f16", tokenizer=pieces)
    texts = ["the and then", " the", "a  band", "ß 漢 the", "the\nand"]
    got = asked(path, [{"text": text, "special": special} for text in texts for special in (False, True)])
    wanted = [ids for text in texts for ids in (pieces.encode(text), [1, *pieces.encode(text)])]
    assert got == wanted
