"""Folders with the files of transformers' tokenizer classes: vocab.json with merges.txt and tokenizer.model, added
tokens in every file that may name them, splits and special tokens by the class. transformers says what is right, where
it is installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chainrule import Tokenizer
from conftest import PAGES
from test_tokenizer import sentencepiece

Json = dict[str, Any]
NAMES = ["<|endoftext|>", "<s>", "</s>", "<pad>", "<unk>", "<mask>", "[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]"]
PLAIN = {"lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True}
WORD = PLAIN | {"special": False, "normalized": True, "single_word": True}
CLASSES = ("GPT2", "CodeGen", "Qwen2", "Roberta", "Bart", "GPTNeoX", "Deberta")
TYPES = ("gpt2", "qwen3", "roberta", "gpt_neox")
TEXTS = (
    "a small model",
    "count 1234567",
    "isn't IT'S",
    "a\n\n  b",
    "<|im_start|>user\nHi <|im_end|> <|x|> x",
    "e\u0301 <mask> [MASK]<s></s>x walk sidewalk</s> <pad>[SEP]",
    "x->y();\n",
)


def byte_level(folder: Path, config: Json, files: dict[str, Json]) -> int:
    """Writes vocab.json, merges.txt and more; the number of words."""
    learned = Tokenizer.train_bpe(PAGES[:20_000], 256 + 11 + 120, special_tokens=NAMES)
    learned.save(folder / "learned.json")
    made = json.loads((folder / "learned.json").read_text())
    (folder / "learned.json").unlink()
    vocabulary = made["model"]["vocab"] | {token["content"]: token["id"] for token in made["added_tokens"]}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    merges = "\n".join(m if isinstance(m, str) else " ".join(m) for m in made["model"]["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    for name, said in ({"tokenizer_config.json": config} | files).items():
        (folder / name).write_text(json.dumps(said))
    return len(vocabulary)


def variants(n: int) -> Iterator[tuple[str, Json, dict[str, Json]]]:
    """n: the first id behind the vocabulary."""
    chat = {str(n): PLAIN | {"content": "<|im_start|>"}, str(n + 1): PLAIN | {"content": "<|im_end|>"}}
    flags = {str(n): PLAIN | {"content": "<|im_start|>", "lstrip": True}, str(n + 1): WORD | {"content": "walk"}}
    added = {"added_tokens.json": {"<|im_start|>": n, "<|x|>": n + 1}}
    yield "none", {}, {}
    yield "decoder", {"added_tokens_decoder": chat, "eos_token": "<|im_end|>"}, {}
    yield "flags", {"added_tokens_decoder": flags}, {}
    yield "hidden", {"added_tokens_decoder": chat}, {"special_tokens_map.json": {"pad_token": "[MASK]"}}
    yield "added", {}, added
    yield "named", {"pad_token": "<|x|>"}, added
    yield "map", {"eos_token": "[SEP]"}, {"special_tokens_map.json": {"eos_token": "<pad>", "cls_token": "[CLS]"}}
    yield "prefix", {"add_prefix_space": True}, {}
    yield "bos", {"add_bos_token": True, "bos_token": "<s>"}, {}
    yield "extra", {"additional_special_tokens": ["[MASK]", "<pad>"]}, {}


def same(folder: Path, texts: tuple[str, ...], what: str) -> None:
    from transformers import AutoTokenizer

    theirs: Any = AutoTokenizer.from_pretrained(str(folder))
    ours = Tokenizer.from_pretrained(folder)
    for text in texts:
        got = list(ours.encode(text, allowed_special="all", add_special_tokens=True))
        assert got == theirs(text).input_ids, (what, text)


@pytest.mark.parametrize("name", [*(f"{name}Tokenizer" for name in CLASSES), *TYPES])
def test_vocabulary_and_merges_are_read_as_by_the_class(name: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed (make oracle)")
    for what, config, files in variants(256 + 11 + 120):
        folder = tmp_path / what
        folder.mkdir()
        if name in TYPES:
            files["config.json"] = {"model_type": name}
        else:
            config["tokenizer_class"] = name
        byte_level(folder, config, files)
        same(folder, TEXTS, what)


def test_qwen2_without_transformers(tmp_path: Path) -> None:
    """Digits one by one, NFC, tokens of added_tokens_decoder behind the vocabulary, roles of the class."""
    n = 256 + 11 + 120
    decoder = {str(n): PLAIN | {"content": "<|im_start|>"}}
    byte_level(tmp_path, {"tokenizer_class": "Qwen2TokenizerFast", "added_tokens_decoder": decoder}, {})
    ours = Tokenizer.from_pretrained(tmp_path)
    digits = ours.encode("12345")
    assert [ours.decode([i]) for i in digits] == list("12345")
    assert list(ours.encode("e\u0301")) == list(ours.encode("\xe9"))
    assert list(ours.encode("<|im_start|>", allowed_special="all")) == [n]
    assert {"<|im_start|>": n, "<|endoftext|>": ours.token_to_id("<|endoftext|>")} == ours.special_tokens


def test_classes_that_are_not_known_are_refused(tmp_path: Path) -> None:
    byte_level(tmp_path, {"tokenizer_class": "CLIPTokenizer"}, {})
    with pytest.raises(OSError, match="belongs to a 'CLIPTokenizer'"):
        Tokenizer.from_pretrained(tmp_path)
    (tmp_path / "vocab.json").unlink()
    (tmp_path / "tokenizer.model").write_bytes(sentencepiece(("<unk>", 0.0, 2), ("a", -1.0, 1)))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "CamembertTokenizer"}')
    with pytest.raises(OSError, match="numbers its pieces in a way of its own"):
        Tokenizer.from_pretrained(tmp_path)


PIECES: list[tuple[str, float, int]] = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)]
LETTERS = [(letter, -3.0 - i / 8, 1) for i, letter in enumerate("\u2581abcdehilmoprstuwx<|>_'")]
MODEL = [*PIECES, ("\u2581a", -1.0, 1), ("ll", -1.5, 1), ("mo", -2.0, 1), *LETTERS]
SPM_TEXTS = ("a small model", "to <|im_start|>user <|x|>letters", "it's  two", " a")


@pytest.mark.parametrize(
    ("name", "file", "kind", "more"),
    [
        ("Llama", "tokenizer.model", 2, 0),
        ("T5", "spiece.model", 1, 100),
        ("XLMRoberta", "sentencepiece.bpe.model", 1, 2),
    ],
)
def test_models_of_sentencepiece_are_read_as_by_the_class(
    name: str, file: str, kind: int, more: int, tmp_path: Path
) -> None:
    pytest.importorskip("transformers", reason="transformers is not installed (make oracle)")
    pytest.importorskip("sentencepiece", reason="sentencepiece is not installed (make oracle)")
    pieces = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), ("<unk>", 0.0, 2), *MODEL[3:]] if name == "T5" else MODEL
    n = len(pieces) + more
    for what, config, files in (
        ("none", {}, {}),
        ("decoder", {"added_tokens_decoder": {str(n): PLAIN | {"content": "<|im_start|>"}}}, {}),
        ("added", {}, {"added_tokens.json": {"<|x|>": n}}),
        ("flags", {"add_bos_token": True, "add_eos_token": True}, {}),
        ("legacy", {"legacy": True, "added_tokens_decoder": {str(n): PLAIN | {"content": "<|x|>"}}}, {}),
    ):
        if what in ("flags", "legacy") and name != "Llama":
            continue
        folder = tmp_path / what
        folder.mkdir()
        (folder / file).write_bytes(sentencepiece(*pieces, kind=kind, prefix=True))
        for path, said in ({"tokenizer_config.json": config | {"tokenizer_class": f"{name}Tokenizer"}} | files).items():
            (folder / path).write_text(json.dumps(said))
        same(folder, SPM_TEXTS, what)


ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


@pytest.mark.parametrize(
    ("said", "roles"),
    [
        ({"tokenizer_class": "GPT2TokenizerFast"}, ["<|endoftext|>"] * 3 + [""] * 4),
        (
            {"tokenizer_class": "Qwen2Tokenizer", "pad_token": "<pad>"},
            ["", *["<|endoftext|>"] * 2, "", "<pad>", "", ""],
        ),
        (
            {"tokenizer_class": "Qwen2Tokenizer", "eos_token": None},
            ["", "", "<|endoftext|>", "", "<|endoftext|>", "", ""],
        ),
        ({"tokenizer_class": "LlamaTokenizer"}, ["<s>", "</s>", "<unk>", "", "", "", ""]),
        ({"tokenizer_class": "BertTokenizer"}, ["", "", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"]),
        ({"tokenizer_class": "GemmaTokenizer"}, ["", "", "<unk>", "", "<pad>", "", "<mask>"]),
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, [""] * 7),
        ({}, [""] * 7),
    ],
)
def test_special_tokens_that_no_file_names(said: Json, roles: list[str], tmp_path: Path) -> None:
    """The class's, where the vocabulary has them; a null stays none."""
    Tokenizer.train_bpe("the other", 280, special_tokens=NAMES).save(tmp_path / "tokenizer.json")
    template = "|".join(f"{{{{ {role}_token }}}}" for role in ROLES)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(said | {"chat_template": template}))
    ours = Tokenizer.from_pretrained(tmp_path)
    text = ours.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False)
    assert str(text).replace("None", "") == "|".join(roles)
