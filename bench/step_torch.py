#!/usr/bin/env python3
"""Training steps in PyTorch (fused AdamW, gradients clipped at 1): the peer of `chainrule bench
--only char|char6|gpt2`.

use: python bench/step_torch.py char|char6|gpt2 [--compile] [--bf16] [--quick] [--threads 2]
prints JSON with the same row names"""

import argparse
import json

import torch
from cases import CASES, measure
from torch_gpt import GPT, adamw


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=list(CASES))
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="autocast: f32 weights, bf16 products")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(1)
    case = CASES[o.case]
    model = GPT(case.vocabulary, case.context, case.layers, case.heads, case.width)
    optimizer = adamw(model, 1e-4)
    x, y = torch.randint(case.vocabulary, (2, case.batch, case.time))
    forward = torch.compile(model) if o.compile else model

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=o.bf16):
            loss = forward(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    version = f"PyTorch {torch.__version__.split('+')[0]}{' compiled' if o.compile else ''}{' bf16' if o.bf16 else ''}"
    print(json.dumps({"version": version, "threads": o.threads, **measure(case, o.quick, step)}))


if __name__ == "__main__":
    main()
