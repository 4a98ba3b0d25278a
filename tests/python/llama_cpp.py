"""llama.cpp in a process of its own, for test_llama_cpp.py.

use: llama_cpp.py FILE.gguf [ADAPTER.gguf] < questions, a line of JSON each, which get a line of JSON:
{"text", "special"}: its tokens; {"ids", "n"}: n greedy tokens, and log-probabilities where a token's text is whole"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import xllamacpp


def main(path: Path, *adapters: str) -> None:
    p = xllamacpp.CommonParams()
    p.model.path, p.n_ctx, p.n_parallel, p.warmup, p.verbosity = str(path), 256, 1, False, -1
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
    p.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(adapter, 1.0) for adapter in adapters]
    server = xllamacpp.Server(p)

    def ask(route: str, body: dict[str, Any]) -> Any:
        request = Request(
            server.listening_address + route, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urlopen(request) as answer:
            return json.load(answer)

    for line in sys.stdin:
        asked = json.loads(line)
        if "text" in asked:
            print(json.dumps(ask("/tokenize", {"content": asked["text"], "add_special": asked["special"]})["tokens"]))
        else:
            body = {"prompt": asked["ids"], "n_predict": asked["n"], "temperature": 0, "n_probs": 600}
            got = ask("/completion", {**body, "return_tokens": True, "cache_prompt": False})
            print(json.dumps([got["tokens"], got["completion_probabilities"]]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
