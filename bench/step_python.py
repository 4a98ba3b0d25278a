#!/usr/bin/env python3
"""Training steps in Python with models.GPT and optim.AdamW (gradients clipped at 1): the same rows
as `chainrule bench --only char|char6|gpt2`.

use: python bench/step_python.py char|char6|gpt2 [--plain] [--quick] [--threads 2]        prints JSON
"""

import argparse
import json

import chainrule as cr
from cases import CASES, measure


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=list(CASES))
    parser.add_argument("--plain", action="store_true", help="clip_grad_norm_ and step in place of step_clipped")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    cr.set_num_threads(o.threads)
    cr.manual_seed(1)
    case = CASES[o.case]
    model = cr.models.GPT(case.vocabulary, case.context, case.layers, case.heads, case.width)
    groups = [
        {"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": 0.01},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = cr.optim.AdamW(groups, lr=1e-4)
    x, y = cr.randint(case.vocabulary, (2, case.batch, case.time))

    def step() -> None:
        model.loss(x, y).backward()
        if o.plain:
            cr.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        else:
            optimizer.step_clipped(1.0)
        optimizer.zero_grad()

    print(json.dumps({"version": f"chainrule {cr.__version__}", "threads": o.threads, **measure(case, o.quick, step)}))


if __name__ == "__main__":
    main()
