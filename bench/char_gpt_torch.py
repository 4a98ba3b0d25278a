#!/usr/bin/env python3
"""A character GPT on one text file in PyTorch: the peer of `chainrule train`, with its settings.

use: python bench/char_gpt_torch.py FILE [--steps 2000] [--seed 1337] [--threads 2]        prints JSON

4 layers, 4 heads, width 128, context 64, batch 12; AdamW(0.9, 0.99) fused, weight decay 0.1 on
matrices, clip 1.0; learning rate 1e-3 to 1e-4 by a cosine after 100 steps of warm-up; nine tenths
of the text to train on, the loss at the end over the whole of the rest, every character predicted
once."""

import argparse
import json
import math
import time
from pathlib import Path

import torch
from torch_gpt import GPT, adamw

CONTEXT, BATCH, WARMUP, LR, MIN_LR = 64, 12, 100, 1e-3, 1e-4


def learning_rate(step: int, steps: int) -> float:
    if step < WARMUP:
        return LR * (step + 1) / (WARMUP + 1)
    return MIN_LR + (LR - MIN_LR) * (1 + math.cos(math.pi * (step - WARMUP) / (steps - WARMUP))) / 2


@torch.no_grad()
def validation_loss(model: GPT, ids: torch.Tensor) -> float:
    total, at, n = 0.0, 0, len(ids) - 1
    while at < n:
        length = min(CONTEXT, n - at)
        windows = min(64, (n - at) // length)
        x = ids[at : at + windows * length].view(windows, length)
        y = ids[at + 1 : at + 1 + windows * length].view(windows, length)
        total += model(x, y).item() * windows * length
        at += windows * length
    return total / n


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1337)
    parser.add_argument("--threads", type=int, default=2)
    o = parser.parse_args()
    torch.set_num_threads(o.threads)
    torch.manual_seed(o.seed)
    text = Path(o.file).read_bytes().decode()
    alphabet = {c: i for i, c in enumerate(sorted(set(text)))}
    ids = torch.tensor([alphabet[c] for c in text])
    split = int(len(ids) * 0.9)
    train, val = ids[:split], ids[split:]
    model = GPT(len(alphabet), CONTEXT, 4, 4, 128)
    optimizer = adamw(model, LR, 0.99)
    seconds = 0.0
    for step in range(o.steps):
        start = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, o.steps)
        at = torch.randint(len(train) - CONTEXT, (BATCH,)).tolist()
        x = torch.stack([train[i : i + CONTEXT] for i in at])
        y = torch.stack([train[i + 1 : i + 1 + CONTEXT] for i in at])
        loss = model(x, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        seconds += time.perf_counter() - start
    result = {"version": f"PyTorch {torch.__version__}", "seed": o.seed, "steps": o.steps, "seconds": seconds}
    print(json.dumps({**result, "val_loss": validation_loss(model, val)}))


if __name__ == "__main__":
    main()
