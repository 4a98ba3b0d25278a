#!/usr/bin/env python3
"""Writes gpt.bin: what PyTorch, in double, makes of one small GPT-2 - the truth that tests/test_gpt.c compares with.

use: python tests/golden/make_gpt.py [OUT]        needs PyTorch (make oracle); OUT is gpt.bin beside this file otherwise

Weights and tokens come from a formula that both sides share (hash32), so that only results are stored.
Layout, little endian:  8 bytes "CRGPTREF", u32 version, i32 vocabulary, context, layers, heads, width, batch, steps
  f64 losses[steps + 1]                     of one batch a step: before each update, and after the last
  f64 norm                                  joint 2-norm of the first step's gradients, before clipping
  f32 gradient of each parameter            of the first step, in the order of shapes()
  f32 scale, i16 steps of each parameter    final - initial = scale * steps
"""

import struct
import sys
from pathlib import Path

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None  # tests/python/test_models.py has the formulas from here

VERSION = 1
V, T, L, H, C, B, STEPS = 37, 16, 2, 2, 32, 3, 10
LR, BETAS, EPS, DECAY, CLIP = 1e-2, (0.9, 0.99), 1e-8, 0.1, 1.0


def shapes():
    yield "wte.weight", (V, C)
    yield "wpe.weight", (T, C)
    for i in range(L):
        for name, rows, columns in (
            ("ln_1", C, 0),
            ("attn.c_attn", 3 * C, C),
            ("attn.c_proj", C, C),
            ("ln_2", C, 0),
            ("mlp.c_fc", 4 * C, C),
            ("mlp.c_proj", C, 4 * C),
        ):
            yield f"h.{i}.{name}.weight", (rows, columns) if columns else (rows,)
            yield f"h.{i}.{name}.bias", (rows,)
    yield "ln_f.weight", (C,)
    yield "ln_f.bias", (C,)


def hash32(k):
    """A 32-bit mix (the finaliser of MurmurHash3) of k."""
    k &= 0xFFFFFFFF
    k = (k ^ (k >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
    k = (k ^ (k >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return k ^ (k >> 16)


def initial(p, i, ndim, weight):
    """Element i of parameter p: 20 random bits, so that every value is exact in f32.  Matrices
    +-1/4, biases +-1/8, norms 1 +- 1/4."""
    u = (hash32(p * 0x9E3779B1 + i) >> 12) / 2**20 - 0.5
    return u / 2 if ndim == 2 else 1 + u / 2 if weight else u / 4


def tokens(step):
    """The B (T + 1) token ids of one step."""
    return [hash32(0x5EED0000 + step * 1000 + i) % V for i in range(B * (T + 1))]


def logits(p, x):
    """GPT-2: pre-norm blocks, gelu in its tanh form, head tied to the token embedding."""
    h = p["wte.weight"][x] + p["wpe.weight"][: x.shape[1]]
    norm = lambda x, n: F.layer_norm(x, (C,), p[n + ".weight"], p[n + ".bias"], 1e-5)
    linear = lambda x, n: F.linear(x, p[n + ".weight"], p[n + ".bias"])
    for i in range(L):
        b = f"h.{i}."
        q, k, v = linear(norm(h, b + "ln_1"), b + "attn.c_attn").split(C, 2)
        q, k, v = (t.view(*t.shape[:2], H, C // H).transpose(1, 2) for t in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + linear(a.transpose(1, 2).reshape(h.shape), b + "attn.c_proj")
        h = h + linear(F.gelu(linear(norm(h, b + "ln_2"), b + "mlp.c_fc"), approximate="tanh"), b + "mlp.c_proj")
    return norm(h, "ln_f") @ p["wte.weight"].T


def loss(p, step):
    t = torch.tensor(tokens(step)).view(B, T + 1)
    return F.cross_entropy(logits(p, t[:, :-1]).reshape(-1, V), t[:, 1:].reshape(-1))


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("gpt.bin")
    p = {}
    for k, (name, shape) in enumerate(shapes()):
        n = torch.Size(shape).numel()
        values = [initial(k, i, len(shape), name.endswith("weight")) for i in range(n)]
        p[name] = torch.tensor(values, dtype=torch.float64).view(shape).requires_grad_()
    start = {n: t.detach().clone() for n, t in p.items()}
    groups = [
        {"params": [t for t in p.values() if t.dim() >= 2], "weight_decay": DECAY},
        {"params": [t for t in p.values() if t.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    losses, gradients, norm = [], [], 0.0
    for step in range(STEPS):
        optimizer.zero_grad()
        y = loss(p, step)
        y.backward()
        losses.append(y.item())
        if step == 0:
            gradients = [t.grad.clone() for t in p.values()]
        total = torch.nn.utils.clip_grad_norm_(p.values(), CLIP).item()
        norm = norm or total
        optimizer.step()
    losses.append(loss(p, STEPS).item())

    data = struct.pack("<8sI7i", b"CRGPTREF", VERSION, V, T, L, H, C, B, STEPS)
    data += struct.pack(f"<{STEPS + 2}d", *losses, norm)
    for g in gradients:
        data += struct.pack(f"<{g.numel()}f", *g.flatten().tolist())
    for name, t in p.items():
        moved = (t.detach() - start[name]).flatten()
        scale = struct.unpack("<f", struct.pack("<f", moved.abs().max().item() / 32767 or 1.0))[0]
        data += struct.pack(
            f"<f{moved.numel()}h", scale, *(max(-32767, min(32767, round(v / scale))) for v in moved.tolist())
        )
    out.write_bytes(data)
    print(f"{out}: {len(data)} bytes, losses {losses[0]:.6f} ... {losses[-1]:.6f}")


if __name__ == "__main__":
    main()
