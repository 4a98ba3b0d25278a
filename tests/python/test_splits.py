"""The splits of known tokenizers, which run without PCRE2: the same pieces as by tokenizers and PCRE2, long runs.
Random strings of all categories and of what the expressions treat apart."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from chainrule import Tokenizer
from conftest import BUILD, FULL
from test_llama_cpp import entries

CASELESS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LED = r"[^\r\n\p{L}\p{N}]?"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
END = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
OTHERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + END
CJK, EAST = "[一-龥\u3040-\u309f\u30a0-\u30ff]+", "[一-龥ࠀ-一가-\ud7ff]+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = rf"{CASELESS}|{LED}\p{{L}}+|\p{{N}}{{1,3}}{OTHERS}"
DEEPSEEK = (
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)
SPLITS = {
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [LLAMA3],
    "qwen2": [rf"{CASELESS}|{LED}\p{{L}}+|\p{{N}}{OTHERS}"],
    "qwen35": [rf"{CASELESS}|{LED}[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*{END}"],
    "gpt-4o": [
        rf"{LED}{UPPER}*{LOWER}+{CASELESS}?|{LED}{UPPER}+{LOWER}*{CASELESS}?|\p{{N}}{{1,3}}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{END}"
    ],
    "tekken": [rf"{LED}{UPPER}*{LOWER}+|{LED}{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*{END}"],
    "deepseek-v3": [r"\p{N}{1,3}", CJK, DEEPSEEK],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST, r"\p{N}"],
    "": [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
        r"|\s+(?!\S)|\s"
    ],
    " ": [r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"],
}
PARTS = [
    *"'s|'S|'ſ|'ll|'lL|'Re|'ve|'t|'d|'m|''|1|12|1234|aB|HTTPServer|word|//|...|<x>|l|ll".split("|"),
    *" \n\r\t/!$_'sSaB\xa0\x85\u3000\u2028\u212aǅʰ\u0301\u093e\u20dd٣Ⅷ½",
    *"中あー\u309b\u9fa6가😀\u200d\ufffd\U0010ffff’\x01ßﬆ",
    "  ",
    "\r\n",
    " \n ",
]
BY_CATEGORY: dict[str, list[str]] = {}
for character in map(chr, [*range(0x40000), *range(0xE0000, 0xE01F0), 0x10FFFF]):
    BY_CATEGORY.setdefault(unicodedata.category(character), []).append(character)
del BY_CATEGORY["Cs"]
LETTERS = sorted(
    {letter for part in PARTS for letter in part}
    | {letter for of in BY_CATEGORY.values() for letter in random.Random(7).sample(of, min(12, len(of)))}
)


def text(draw: random.Random) -> str:
    parts = (draw.choice(PARTS) if draw.random() < 0.7 else draw.choice(LETTERS) for _ in range(draw.randrange(14)))
    return "".join(part * (draw.randrange(1, 9) if draw.random() < 0.15 else 1) for part in parts)


def vocabulary() -> dict[str, int]:
    """Each character, and each as the last one of a piece."""
    return {name: i for i, name in enumerate(letter + end for letter in LETTERS for end in ("", "</w>"))}


def by_splits(folder: Path, patterns: list[str]) -> Tokenizer:
    steps = [{"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False} for p in patterns]
    model = {"type": "BPE", "vocab": vocabulary(), "merges": [], "end_of_word_suffix": "</w>"}
    made = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(made), encoding="utf-8")
    return Tokenizer.from_pretrained(folder)


@pytest.mark.parametrize("name", SPLITS)
def test_pieces_are_those_of_tokenizers(name: str, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="tokenizers is not installed (make oracle)")
    from tokenizers import Regex, models, pre_tokenizers
    from tokenizers import Tokenizer as Theirs

    theirs: Any = Theirs(models.BPE(vocabulary(), [], end_of_word_suffix="</w>"))
    steps = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in SPLITS[name]]
    theirs.pre_tokenizer = pre_tokenizers.Sequence(steps)
    ours = by_splits(tmp_path, SPLITS[name])
    draw = random.Random(11)
    for _ in range(20000 if FULL else 1000):
        said = text(draw)
        assert list(ours.encode(said)) == theirs.encode(said).ids, (name, said)


@pytest.mark.parametrize("name", SPLITS)
def test_pieces_are_those_of_pcre2(name: str, tmp_path: Path) -> None:
    """In a group an expression is not known, so PCRE2 runs it."""
    ours = by_splits(tmp_path, SPLITS[name])
    try:
        theirs = by_splits(tmp_path, [f"(?:{pattern})" for pattern in SPLITS[name]])
    except RuntimeError as error:
        if "PCRE2" not in str(error):
            raise
        pytest.skip("PCRE2 is not installed (tools/deps.sh)")
    draw = random.Random(12)
    for _ in range(20000 if FULL else 1000):
        said = text(draw)
        assert list(ours.encode(said)) == list(theirs.encode(said)), (name, said)


def test_they_need_no_pcre2(tmp_path: Path) -> None:
    for i, patterns in enumerate(SPLITS.values()):
        (tmp_path / str(i)).mkdir()
        by_splits(tmp_path / str(i), patterns)
    try:
        by_splits(tmp_path, [r"[abc]+|\w{1,7}|[^a]+"])
    except RuntimeError:
        pass  # its file is what is wanted
    code = (
        "import sys; from chainrule import Tokenizer\n"
        'for i in range(int(sys.argv[1])): print(len(Tokenizer.from_pretrained(str(i)).encode("s\'s 12\\n")))\n'
        "Tokenizer.train_bpe(\"it's what it's\", 260)\n"
        "try: Tokenizer.from_pretrained('.')\n"
        "except RuntimeError as error: print(error)"
    )
    env = os.environ | {"CHAINRULE_PCRE2": "/nowhere/pcre2.so", "PYTHONPATH": str(BUILD / "python")}
    run = [sys.executable, "-c", code, str(len(SPLITS))]
    said = subprocess.run(run, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said[:-1] == ["7"] * len(SPLITS)
    assert r"'[abc]+|\w{1,7}|[^a]+', and PCRE2 (/nowhere/pcre2.so) cannot be opened" in said[-1]


@pytest.mark.parametrize("name", [name for name in SPLITS if name.strip()])
def test_long_runs_take_linear_time(name: str, tmp_path: Path) -> None:
    """Half a million of one character; quadratic would be hours."""
    ours = by_splits(tmp_path, SPLITS[name])
    start = time.monotonic()
    for letter in "aB \n!1ß\u0301中ʰ":
        assert len(ours.encode(letter * 500_000)) == 500_000
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("name", [name for name in SPLITS if name.strip()])
def test_names_in_gguf_files(name: str, tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = [
        {"type": "Split", "pattern": {"Regex": p}, "behavior": "Isolated", "invert": False} for p in SPLITS[name]
    ]
    steps.append({"type": "ByteLevel", "add_prefix_space": False, "use_regex": False})
    path = tmp_path / "tokenizer.json"
    Tokenizer.train_bpe("the other", 260).save(path)
    made = json.loads(path.read_text())
    made["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    made["model"]["ignore_merges"] = name in ("llama-bpe", "tekken")
    path.write_text(json.dumps(made))
    assert entries(Tokenizer.from_file(path), tmp_path / "m.gguf")["ggml.pre"] == name
    Tokenizer.from_file(tmp_path / "m.gguf").save(path)
    pre = json.loads(path.read_text())["pre_tokenizer"]
    steps = pre["pretokenizers"] if "pretokenizers" in pre else [pre]
    patterns = [step["pattern"]["Regex"] for step in steps if "pattern" in step]
    if steps[-1]["use_regex"]:
        patterns.append(GPT2)
    assert patterns == [p.replace("\r", r"\r").replace("\n", r"\n") for p in SPLITS[name]]
