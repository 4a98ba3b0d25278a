"""What two ideas save: attention without a T x T matrix, and generation with a cache of keys and values.

use: with_without.py attention|generation [--device cpu] [--threads N] [--quick]        prints JSON:
rows of a name, with_ms, without_ms

attention: causal, f32, 2 x 12 heads of 64, fused beside the products, mask and softmax that it is
made of; milliseconds of a call. generation: N tokens after a prompt of 8, greedy, from a GPT of 4
layers 128 wide with random weights; milliseconds of all N.  Both ways write the same tokens."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import chainrule as cr
from chainrule.nn import functional as F
from gpu_curve import milliseconds

Attention = Callable[[cr.Tensor, cr.Tensor, cr.Tensor], cr.Tensor]


def composed(q: cr.Tensor, k: cr.Tensor, v: cr.Tensor) -> cr.Tensor:
    """As F.scaled_dot_product_attention(q, k, v, is_causal=True), with all scores in memory."""
    T = q.size(2)
    hidden = cr.ones(T, T, device=q.device).triu(1) > 0
    scores = (q @ k.transpose(-2, -1) * q.size(3) ** -0.5).masked_fill(hidden, float("-inf"))
    return F.softmax(scores, -1) @ v


def fused(q: cr.Tensor, k: cr.Tensor, v: cr.Tensor) -> cr.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def forward(f: Attention, qkv: list[cr.Tensor]) -> Callable[[], object]:
    def run() -> None:
        with cr.no_grad():
            f(*qkv)

    return run


def forward_and_backward(f: Attention, qkv: list[cr.Tensor]) -> Callable[[], object]:
    g = cr.randn(*qkv[0].shape, device=qkv[0].device)
    return lambda: cr.autograd.grad(f(*qkv), qkv, g)


def attention(quick: bool, device: cr.Device) -> list[dict[str, Any]]:
    room, rows = 0.05 if quick else 0.4, []
    for T in (64, 256) if quick else (128, 256, 512, 1024, 2048):
        qkv = [cr.randn(2, 12, T, 64, device=device, requires_grad=True) for _ in range(3)]
        assert (fused(*qkv) - composed(*qkv)).abs().max().item() < 1e-4
        for what, run in (("forward", forward), ("forward and backward", forward_and_backward)):
            with_ms, without_ms = (milliseconds(run(f, qkv), device, room) for f in (fused, composed))
            rows.append({"name": f"T = {T}, {what}", "with_ms": with_ms, "without_ms": without_ms})
    return rows


def without_cache(model: cr.models.GPT, prompt: list[int], n: int) -> list[int]:
    """Every token from all that came before it, computed anew."""
    tokens = list(prompt)
    with cr.no_grad():
        for _ in range(n):
            logits = model(cr.tensor([tokens], device=model.wte.weight.device))
            tokens.append(int(logits[0, -1].argmax().item()))
    return tokens[len(prompt) :]


def generation(quick: bool, device: cr.Device) -> list[dict[str, Any]]:
    counts = (16, 32) if quick else (32, 64, 128, 256, 504)
    generator = cr.Generator().manual_seed(1)
    model = cr.models.GPT(65, 512, layers=4, heads=4, width=128, generator=generator, device=device).eval()
    prompt, rows = list(range(8)), []
    for n in counts:
        ways = {
            "with_ms": lambda n=n: model.generate(prompt, n, temperature=0),
            "without_ms": lambda n=n: without_cache(model, prompt, n),
        }
        assert ways["with_ms"]() == ways["without_ms"](), f"{n} tokens differ"
        rows.append({"name": f"{n} tokens", **{way: milliseconds(run, device, 0) for way, run in ways.items()}})
    return rows


KINDS = {"attention": attention, "generation": generation}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    o = parser.parse_args()
    cr.set_num_threads(o.threads)
    device = cr.Device(o.device)
    print(json.dumps({"device": str(device), "rows": KINDS[o.kind](o.quick, device)}))


if __name__ == "__main__":
    main()
