"""Convolutions, pooling and recurrent networks from Python, beside PyTorch and JAX."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .base import Bench, Row, beside, isas
from .kernels import peak_of


def rated(bench: Bench, script: str) -> Iterator[tuple[str, Any, float]]:
    """Of each instruction set its name, a row of a script, and the share of a loop of multiply-adds."""
    for isa, got in bench.turns_by_isa(script).items():
        peak = peak_of(bench.program("products", "--json", "--quick", bench.threads, env=isas()[isa]))
        for r in got["rows"]:
            yield isa, r, r["flops"] / r["ms"]["chainrule"] / 1e6 / peak


def conv(bench: Bench) -> list[Row]:
    """convolutions, forward, and forward with both gradients; bench/conv.py has the shapes"""
    rows = []
    for isa, r, share in rated(bench, "conv.py"):
        group = f"convolutions, {'forward' if r['what'] == 'forward' else 'with gradients'}"
        rows.append(beside(r["name"], "ms", r["ms"], isa=isa, share=share, group=group))
    return rows


def pool(bench: Bench) -> list[Row]:
    """pooling, resampling, normalization, forward, and forward with all gradients

    x (16, 64, 56, 56), s (32, 512, 4, 4), t (32, 256, 512); w and b of their channels."""
    rows = bench.turns("pool.py")["rows"]
    kind = "pooling, resampling, normalization, {}"
    pairs = [(r, kind.format(what)) for k, what in enumerate(("forward", "with gradients")) for r in rows[k::2]]
    return [beside(f"`{r['name']}`", "ms", r["ms"], group=group) for r, group in pairs]


def rnn(bench: Bench) -> list[Row]:
    """recurrent networks: 2 layers of 256, 64 time steps, batch 32"""
    found = rated(bench, "rnn.py")
    group = lambda r: "" if r["what"] == "step" else "recurrent networks, forward"
    return [
        beside(f"{r['name']}, {r['what']}", "ms", r["ms"], isa=isa, share=share, group=group(r))
        for isa, r, share in found
    ]
