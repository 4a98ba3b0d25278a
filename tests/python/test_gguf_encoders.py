"""Encoders in GGUF files: random models of transformers, written as llama.cpp's converter writes them, have
transformers' streams and embeddings, in Python, by the program and by the server's embedder; llama.cpp itself (its
package is xllamacpp) gives the same embeddings of the same files."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import chainrule as cr
import numpy as np
import pytest
from chainrule import models
from chainrule.data import Tokenizer
from conftest import BUILD
from test_encoders import MARKS, SIZES

gguf: Any = pytest.importorskip("gguf")
pytest.importorskip("transformers")
pytest.importorskip("torch")

TEXTS = ["The sea is calm tonight.", "tide", "On the French coast the light gleams and is gone; cliffs of England"]
# by case: transformers' kind, its options, llama.cpp's architecture, its pooling
CASES: dict[str, tuple[str, dict[str, Any], str, int]] = {
    "bert": ("bert", {}, "bert", 1),
    "bert, first token": ("bert", {}, "bert", 2),
    "roberta": ("roberta", {"type_vocab_size": 1, "pad_token_id": 1}, "bert", 1),
    "distilbert": ("distilbert", {"dim": 48, "hidden_dim": 44, "n_layers": 3, "n_heads": 3}, "bert", 1),
    "nomic": ("nomic_bert", {}, "nomic-bert", 1),
    "modernbert": ("modernbert", {**MARKS, "local_attention": 6, "num_hidden_layers": 5}, "modern-bert", 2),
    "embeddinggemma": (
        "gemma3_text",
        {"num_key_value_heads": 1, "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 8,
         "num_hidden_layers": 7, "use_bidirectional_attention": True, **MARKS},
        "gemma-embedding", 1,
    ),
    "eurobert": ("eurobert", {"num_key_value_heads": 1, **MARKS}, "eurobert", 3),
}  # fmt: skip
RULES = ("mean", "cls", "last")


def wordpiece(path: Path) -> Any:
    """An uncased tokenizer like BERT's."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t: Any = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    trainer: Any = trainers.WordPieceTrainer(vocab_size=90, special_tokens=special)
    t.train_from_iterator([*TEXTS, "abcdefghijklmnopqrstuvwxyz"] * 3, trainer)
    ids = [(name, t.token_to_id(name)) for name in special[2:4]]
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ids)
    t.save(str(path))
    return t


def words_of(t: Any) -> dict[str, Any]:
    """The tokenizer as the converter writes it."""
    tokens = [t.id_to_token(i) for i in range(t.get_vocab_size())]
    named = [i < 5 for i in range(len(tokens))]
    shown = [w if n else w[2:] if w.startswith("##") else "\u2581" + w for w, n in zip(tokens, named, strict=True)]
    return {
        "tokenizer.ggml.model": "bert", "tokenizer.ggml.pre": "default", "tokenizer.ggml.tokens": shown,
        "tokenizer.ggml.token_type": [3 if n else 1 for n in named], "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.unknown_token_id": 1, "tokenizer.ggml.cls_token_id": 2, "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3, "tokenizer.ggml.mask_token_id": 4,
    }  # fmt: skip


def file_of(case: str, path: Path, words: dict[str, Any] | None = None) -> tuple[Any, Any]:
    """Writes the file; the model of transformers, and the tokenizer, unless others are given."""
    import torch
    import transformers
    from safetensors.numpy import load_file
    from test_gguf import written

    kind, options, arch, pooling = CASES[case]
    t = wordpiece(path.parent / "words.json")
    torch.manual_seed(sum(map(ord, case)))
    sizes: dict[str, Any] = {"max_position_embeddings": 40}
    if kind != "distilbert":
        sizes = {**SIZES, "hidden_size": 48}
    vocabulary = len(words["tokenizer.ggml.tokens"]) if words else t.get_vocab_size()
    config = transformers.AutoConfig.for_model(kind, **{**sizes, "vocab_size": vocabulary, **options})
    model: Any = transformers.AutoModel.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p), alpha=0.2)
    model.save_pretrained(path.parent / "hf")
    of = next(a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    layers, heads = config.num_hidden_layers, config.num_attention_heads
    names = gguf.get_tensor_name_map(of, layers)
    skip = config.pad_token_id + 1 if kind == "roberta" else 0
    tensors = {}
    for name, w in load_file(path.parent / "hf" / "model.safetensors").items():
        end = name.rpartition(".")[2]
        if name.startswith("pooler.") or name.endswith("position_ids"):
            continue
        w = w[skip:] if skip and "position_embeddings" in name else w
        base = name.removesuffix("." + end)
        short = names.get_name(base) or names.get_name("model." + base) or {"final_norm": "output_norm"}.get(base)
        assert short, (case, name)
        w = w + 1 if arch == "gemma-embedding" and "norm" in name else w
        tensors[f"{short}.{end}"] = (np.ascontiguousarray(w), "F32")
    rope = getattr(config, "rope_parameters", None) or {}
    said: dict[str, Any] = {
        "context_length": config.max_position_embeddings - skip, "embedding_length": config.hidden_size,
        "block_count": layers, "attention.head_count": heads, "attention.causal": False, "pooling_type": pooling,
        "feed_forward_length": getattr(config, "intermediate_size", None) or config.hidden_dim,
        "attention.head_count_kv": getattr(config, "num_key_value_heads", None) or heads,
    }  # fmt: skip
    if kind == "gemma3_text":
        rng = np.random.default_rng(2)
        model.dense = [rng.normal(size=s).astype(np.float32) * 0.2 for s in ((64, 48), (48, 64))]
        for i, w in enumerate(model.dense):
            said |= {f"dense_{i + 2}_feat_in": w.shape[1], f"dense_{i + 2}_feat_out": w.shape[0]}
            tensors[f"dense_{i + 2}.weight"] = (w, "F32")
        said |= {"attention.sliding_window": 8, "attention.key_length": 16, "attention.value_length": 16}
    if kind in ("eurobert", "gemma3_text"):
        said["attention.layer_norm_rms_epsilon"] = config.rms_norm_eps
    else:
        eps = getattr(config, "layer_norm_eps", None) or getattr(config, "norm_eps", None) or 1e-12
        said["attention.layer_norm_epsilon"] = float(eps)
    if rope:
        said["rope.freq_base"] = float(rope.get("full_attention", rope)["rope_theta"])
    if kind == "modernbert":
        said |= {"attention.sliding_window": 6, "rope.freq_base_swa": 10000.0, "attention.sliding_window_pattern": 3}
    said["tokenizer.ggml.token_type_count"] = getattr(config, "type_vocab_size", 1)
    written(path, arch, {**said, **(words or words_of(t))}, tensors)
    return model, t


def expected(model: Any, rows: list[list[int]], pooling: int) -> Any:
    """Normalized embeddings."""
    import torch

    found = []
    for row in rows:
        with torch.no_grad():
            x = model(torch.tensor([row])).last_hidden_state[0]
        y = (x.mean(0) if pooling == 1 else x[0] if pooling == 2 else x[-1]).numpy()
        for w in getattr(model, "dense", []):
            y = w @ y
        found.append(y / np.linalg.norm(y))
    return np.stack(found)


@pytest.mark.parametrize("case", CASES)
def test_encoder(case: str, tmp_path: Path) -> None:
    """The stream and the embeddings; the file's tokenizer; the program."""
    import torch

    path = tmp_path / "m.gguf"
    theirs, t = file_of(case, path)
    mine = models.from_pretrained(path)
    assert isinstance(mine, models.Encoder)
    assert mine.pooling == RULES[CASES[case][3] - 1] + "|dense" * 2 * (case == "embeddinggemma") + "|normalize"
    rows = [t.encode(text).ids for text in TEXTS]
    tokenizer = Tokenizer.from_pretrained(path)
    for text, row in zip(TEXTS, rows, strict=True):
        assert tokenizer.encode(text, add_special_tokens=True) == row, text
        with torch.no_grad():
            want = theirs(torch.tensor([row])).last_hidden_state.numpy()
        got = mine(cr.tensor([row])).last_hidden_state.detach().numpy()
        assert abs(got - want).max() / abs(want).max() < 1e-5, case
    wanted = expected(theirs, rows, CASES[case][3])
    for row, one in zip(rows, wanted, strict=True):
        assert abs(mine.embed(cr.tensor([row])).detach().numpy()[0] - one).max() < 1e-5
    words = [str(BUILD / "chainrule"), "embed", "--model", str(path)]
    done = subprocess.run(words, input="\n".join(TEXTS), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = np.array([json.loads(line) for line in done.stdout.splitlines()])
    assert made.shape == wanted.shape and abs(made - wanted).max() < 1e-5


def test_the_server_embeds(tmp_path: Path) -> None:
    pytest.importorskip("h11", reason="h11 is not installed (tools/requirements-test.txt)")
    path = tmp_path / "m.gguf"
    theirs, t = file_of("bert", path)
    command = [sys.executable, "-m", "chainrule.serve", "--model", str(path), "--port", "0"]
    paths = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=paths) as process:
        assert process.stdout is not None
        try:
            address = process.stdout.readline().split()[-1].rstrip("/").removesuffix("/v1")
            head = {"Content-Type": "application/json"}
            with urlopen(Request(address + "/v1/models", headers=head)) as answer:
                name = json.load(answer)["data"][0]["id"]
            said = json.dumps({"model": name, "input": TEXTS}).encode()
            with urlopen(Request(address + "/v1/embeddings", said, head)) as answer:
                got = np.array([row["embedding"] for row in json.load(answer)["data"]])
        finally:
            process.terminate()
            assert process.wait(60) == 0
    assert abs(got - expected(theirs, [t.encode(text).ids for text in TEXTS], 1)).max() < 1e-5


def llama_cpp(path: Path) -> Any:
    """ask(route, body) of llama.cpp's server over a file."""
    import xllamacpp

    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.warmup, p.verbosity, p.embedding = str(path), 40, 1, False, -1, True
    p.n_batch = p.n_ubatch = 40
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(p)

    def ask(route: str, body: dict[str, Any]) -> Any:
        kind = {"Content-Type": "application/json"}
        with urlopen(Request(server.listening_address + route, json.dumps(body).encode(), kind)) as answer:
            return json.load(answer)

    return ask


needs_llama_cpp = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed (make oracle)"
)


@needs_llama_cpp
@pytest.mark.parametrize("case", CASES)
def test_llama_cpp_embeds_the_same(case: str, tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    file_of(case, path)
    mine, ask, tokenizer = models.from_pretrained(path), llama_cpp(path), Tokenizer.from_pretrained(path)
    for text in TEXTS:
        theirs = np.array(ask("/v1/embeddings", {"input": text})["data"][0]["embedding"])
        ids = tokenizer.encode(text, add_special_tokens=True)
        assert abs(mine.embed(cr.tensor([ids])).detach().numpy()[0] - theirs).max() < 2e-3, (case, text)


HARD = [*TEXTS, "", " ", "  two  spaces ",
        "Straße ﬁne ＡＢＣ", "a\tb\nc", "naïve café", "<s> </s> <mask>", "日本語 テスト",
        "1,234.5", "emoji 😀!", "UPPER lower", "\u00a0nbsp\u3000wide", "x" * 200]  # fmt: skip


def test_unigram(tmp_path: Path) -> None:
    """XLM-R's tokenizer in a file is the one in its folder; llama.cpp's is the same."""
    spm = pytest.importorskip("sentencepiece")
    pb = pytest.importorskip("sentencepiece.sentencepiece_model_pb2")
    prefix = tmp_path / "sentencepiece.bpe"
    text = [*HARD, "the quick brown fox jumps over the lazy dog", "pack my box with five dozen liquor jugs"] * 4
    spm.SentencePieceTrainer.train(sentence_iterator=iter(text), model_prefix=str(prefix), vocab_size=150,
                                   hard_vocab_limit=False, minloglevel=9)  # fmt: skip
    (tmp_path / "config.json").write_text('{"model_type": "xlm-roberta"}')
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMRobertaTokenizer"}')
    model = pb.ModelProto()
    model.ParseFromString(prefix.with_suffix(".bpe.model").read_bytes())
    pieces = [*model.pieces][3:]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *(p.piece for p in pieces), "<mask>"]
    words = {
        "tokenizer.ggml.model": "t5", "tokenizer.ggml.pre": "default", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0, 0.0, 0.0, 0.0, *(p.score for p in pieces), 0.0],
        "tokenizer.ggml.token_type": [3, 3, 3, 2, *(1 for _ in pieces), 3],
        "tokenizer.ggml.add_space_prefix": True, "tokenizer.ggml.remove_extra_whitespaces": True,
        "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 3,
        "tokenizer.ggml.padding_token_id": 1, "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": True,
        "tokenizer.ggml.precompiled_charsmap": bytes(model.normalizer_spec.precompiled_charsmap),
    }  # fmt: skip
    path = tmp_path / "m.gguf"
    file_of("roberta", path, words)
    ours, folder = Tokenizer.from_pretrained(path), Tokenizer.from_pretrained(tmp_path)
    for line in HARD:
        assert ours.encode(line, add_special_tokens=True) == folder.encode(line, add_special_tokens=True), line
        assert ours.decode(ours.encode(line)) == folder.decode(folder.encode(line)), line
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed (make oracle)")
    ask, other = llama_cpp(path), []
    for line in HARD:
        theirs = ask("/tokenize", {"content": line, "add_special": True, "parse_special": False})["tokens"]
        other += [(line, theirs)] if theirs != ours.encode(line, add_special_tokens=True) else []
    assert not other, other


def test_refused(tmp_path: Path) -> None:
    """A causal encoder, and a decoder that is not; a token that is no text."""
    from test_gguf import llama, written

    said, tensors = llama("Q8_0")
    written(tmp_path / "m.gguf", "llama", {**said, "attention.causal": False}, tensors)
    with pytest.raises(ValueError, match=r"llama.attention.causal\" must be true"):
        models.from_pretrained(tmp_path / "m.gguf")
    written(tmp_path / "m.gguf", "bert", {**said, "attention.causal": True}, tensors)
    with pytest.raises(ValueError, match=r"bert.attention.causal\" must be false"):
        models.from_pretrained(tmp_path / "m.gguf")
