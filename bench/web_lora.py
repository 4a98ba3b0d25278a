"""LoRA over a GGUF file beside the browser edition (web.mjs): the least seconds of a step of one sample; JSON.

use: web_lora.py FILE [--write]     --write: only makes FILE, a Llama of 135M with random weights in Q4_0"""

from __future__ import annotations

import json
import sys
import time

import chainrule as cr
from chainrule import models, optim
from chainrule.data import Tokenizer
from chainrule.nn import lora
from llm import made


def main() -> None:
    if "--write" in sys.argv:
        made("135M").save_gguf(sys.argv[1], "q4_0", tokenizer=Tokenizer.bytes())
        print("{}")
        return
    model = models.from_pretrained(sys.argv[1])
    lora.apply(model, r=8, generator=cr.Generator().manual_seed(1))
    optimizer, least = optim.AdamW(lora.parameters(model), lr=1e-3), float("inf")
    for i in range(8):
        ids = cr.tensor([[97 + i] * 128])
        start = time.perf_counter()
        optimizer.zero_grad()
        model.loss(ids[:, :-1], ids[:, 1:]).backward()
        optimizer.step()
        least = min(least, time.perf_counter() - start)
    print(json.dumps({"seconds": least}))


if __name__ == "__main__":
    main()
