"""Encoding of text by GPT-2's vocabulary: a text on one thread, and a file of 100 MB on all threads, next to
tiktoken and tokenizers.  Rounds are interleaved; the numbers are the least seconds of a round, of the
processor for one thread, of the clock for several.

use: bpe.py VOCABULARY TEXT [--quick] [--threads 2]        prints JSON
     VOCABULARY: a folder with encoder.json and vocab.bpe; TEXT: tiny-Shakespeare
"""

import argparse
import importlib.metadata
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chainrule as cr

SPLIT = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SIZE, QUICK_SIZE, DOCUMENT = 100_000_000, 5_000_000, 20_000


def encoders(folder: Path, ours: cr.Tokenizer) -> dict[str, tuple[Callable[[str], Any], Callable[[list[str]], Any]]]:
    """name -> encode of one text, encode of many on all threads; of the libraries that are installed."""
    found: dict[str, tuple[Callable[[str], Any], Callable[[list[str]], Any]]] = {
        "chainrule": (ours.encode, lambda texts: ours.encode_batch(texts))
    }
    try:
        import tiktoken

        special = ours.special_tokens
        ranks = {ours.decode_bytes([i]): i for i in range(len(ours)) if i not in special.values()}
        theirs = tiktoken.Encoding("gpt2", pat_str=SPLIT, mergeable_ranks=ranks, special_tokens=special)
        threads = cr.get_num_threads()
        found["tiktoken"] = (
            theirs.encode_ordinary,
            lambda texts: theirs.encode_ordinary_batch(texts, num_threads=threads),
        )
    except ImportError:
        pass
    try:
        import tokenizers

        path = folder / "chainrule-bench.json"
        ours.save(path)
        hugging = tokenizers.Tokenizer.from_file(str(path))
        path.unlink()
        found["tokenizers"] = (
            lambda text: hugging.encode(text).ids,
            lambda texts: [e.ids for e in hugging.encode_batch_fast(texts)],
        )
    except ImportError:
        pass
    return found


def least(rounds: int, calls: dict[str, Callable[[], Any]], clock: Callable[[], float]) -> dict[str, float]:
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, call in calls.items():
            start = clock()
            call()
            best[name] = min(best.get(name, float("inf")), clock() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(o.threads)
    cr.set_num_threads(o.threads)
    ours = cr.Tokenizer.from_pretrained(o.vocabulary)
    text = o.text.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        found = encoders(Path(folder), ours)
    want = ours.encode(text)
    for name, (one, _) in found.items():
        assert list(one(text)) == want, name
    cr.set_num_threads(1)
    single = least(
        3 if o.quick else 7, {name: (lambda f=one: f(text)) for name, (one, _) in found.items()}, time.process_time
    )
    cr.set_num_threads(o.threads)
    size = QUICK_SIZE if o.quick else SIZE
    whole = (text * (size // len(text) + 1))[:size]
    documents = [whole[at : at + DOCUMENT] for at in range(0, size, DOCUMENT)]
    calls = {name: (lambda f=many: f(documents)) for name, (_, many) in found.items()}
    calls["chainrule, one text"] = lambda: ours.tensor(whole)
    several = least(1 if o.quick else 2, calls, time.perf_counter)
    versions = {name: importlib.metadata.version(name) for name in found if name != "chainrule"}
    print(
        json.dumps(
            {
                "version": f"chainrule {cr.__version__}",
                "peers": versions,
                "bytes": {"text": len(text.encode()), "file": size},
                "threads": o.threads,
                "tokens": len(want),
                "one_thread_s": single,
                "threads_s": several,
            }
        )
    )


if __name__ == "__main__":
    main()
