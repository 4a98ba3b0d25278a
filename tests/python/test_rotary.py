"""Rotary position embedding beside its formula in complex numbers, Hugging Face's formulas of the
scalings, and PyTorch's gradients; gated units."""

import math
from typing import Any

import chainrule as cr
import pytest
from chainrule.nn import RotaryEmbedding
from chainrule.nn import functional as F

try:
    import torch
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="needs PyTorch")
HIDDEN, HEADS = 64, 2
LLAMA = {"factor": 8.0, "original_max_position_embeddings": 256}
SCALINGS: dict[str, dict[str, Any] | None] = {
    "default": None,
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 40},
    "llama3": {"rope_type": "llama3", **LLAMA, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "yarn": {"rope_type": "yarn", **LLAMA},
    "yarn, whole": {"rope_type": "yarn", **LLAMA, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False},
    "yarn, mscale": {"type": "yarn", **LLAMA, "mscale": 0.7, "mscale_all_dim": 1.0},
}


def turned(x: list[float], position: int, base: float, interleaved: bool) -> list[float]:
    """One row as complex numbers."""
    n = len(x) // 2
    at = [(2 * i, 2 * i + 1) if interleaved else (i, i + n) for i in range(n)]
    y = list(x)
    for i, (a, b) in enumerate(at):
        angle = position * base ** (-i / n)
        z = complex(x[a], x[b]) * complex(math.cos(angle), math.sin(angle))
        y[a], y[b] = z.real, z.imag
    return y


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", [cr.float64, cr.float32, cr.bfloat16, cr.float16], ids=str)
def test_rope_is_a_rotation(dtype: cr.dtype, interleaved: bool) -> None:
    x = cr.randn(2, 3, 5, 8, dtype=dtype)
    rope = RotaryEmbedding(8, 100.0, interleaved=interleaved)
    limit = {cr.float64: 1e-12, cr.float32: 1e-5, cr.bfloat16: 0.04, cr.float16: 5e-3}[dtype]
    positions = cr.tensor([[0, 7, 1, 2, 900], [3, 3, 0, 1, 5]])
    for y, at in (
        (rope(x), [range(5)] * 2),
        (rope(x, offset=311), [range(311, 316)] * 2),
        (rope(x, positions), positions.tolist()),
        (rope(x, positions[0]), [positions[0].tolist()] * 2),
    ):
        assert (y.dtype, y.shape) == (x.dtype, x.shape)
        wanted = [
            [[turned(row, p, 100.0, interleaved) for row, p in zip(head, at[b], strict=True)] for head in batch]
            for b, batch in enumerate(x.tolist())
        ]
        difference = (y.double() - cr.tensor(wanted, dtype=cr.float64)).abs().max().item()
        assert difference <= limit, difference


def test_rope_of_part_of_the_columns_and_its_gradient() -> None:
    x = cr.randn(3, 5, 7, dtype=cr.float64, requires_grad=True)
    table = F.rope_table(9, 4, dtype=cr.float64)
    y = F.rope(x, table, offset=2)
    assert y[..., 4:].tolist() == x[..., 4:].tolist()
    g = cr.randn(3, 5, 7, dtype=cr.float64)
    (dx,) = cr.autograd.grad(y, x, g)
    back = cr.cat([table[:, :2], -table[:, 2:]], 1)  # the opposite angle
    assert dx is not None and cr.allclose(dx, F.rope(g, back, offset=2), rtol=0, atol=1e-12)


@needs_torch
@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("length", [32, 97])
def test_scalings_are_hugging_faces(name: str, length: int) -> None:
    utils = pytest.importorskip("transformers.modeling_rope_utils")
    llama = pytest.importorskip("transformers").LlamaConfig
    given = SCALINGS[name]
    more = {"rope_theta": 5000.0, "hidden_size": HIDDEN, "num_attention_heads": HEADS}
    config = llama(
        **more, max_position_embeddings=40 if name == "dynamic" else 2048, rope_scaling=given and dict(given)
    )
    if given is None:
        frequencies = 5000.0 ** (-torch.arange(0, 32, 2) / 32)
        scale = 1.0
    else:
        kind = given.get("rope_type") or given["type"]
        frequencies, scale = utils.ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=length)
    angles = torch.arange(length)[:, None] * frequencies.double()
    wanted = torch.cat([angles.cos() * scale, angles.sin() * scale], -1)
    found = torch.tensor(F.rope_table(length, HIDDEN // HEADS, 5000.0, given, dtype=cr.float64).tolist())
    assert (found.double() - wanted).abs().max() < 2e-5  # of transformers' frequencies in float32


def scaled(name: str, i: int, n: int, base: float) -> float:
    """The frequency of pair i by the papers: Llama 3.1's card, Peng et al. 2023."""
    plain = base ** (-2 * i / n)
    turns = LLAMA["original_max_position_embeddings"] * plain / (2 * math.pi)
    if name == "llama3":
        keep = min(max((turns - 1) / (4 - 1), 0), 1)
    else:
        at = [n * math.log(256 / (beta * 2 * math.pi)) / (2 * math.log(base)) for beta in (32, 1)]
        low, high = math.floor(max(at[0], 0)), math.ceil(at[1])
        keep = 1 - min(max((i - low) / (high - low), 0), 1)
    return float(plain * keep + plain / LLAMA["factor"] * (1 - keep))


@pytest.mark.parametrize("name", ["llama3", "yarn"])
def test_scalings_by_formula(name: str) -> None:
    table = F.rope_table(3, 32, 500.0, SCALINGS[name], start=1000, dtype=cr.float64).tolist()
    size = 0.1 * math.log(8) + 1 if name == "yarn" else 1
    for p in range(3):
        for i in range(16):
            angle = (1000 + p) * scaled(name, i, 32, 500.0)
            assert abs(table[p][i] - size * math.cos(angle)) < 1e-9
            assert abs(table[p][16 + i] - size * math.sin(angle)) < 1e-9


def test_dynamic_scaling_follows_the_length() -> None:
    rope = RotaryEmbedding(8, 100.0, SCALINGS["dynamic"])
    x = cr.randn(1, 1, 8, dtype=cr.float64)
    plain = RotaryEmbedding(8, 100.0)
    assert rope(x, offset=39).tolist() == plain(x, offset=39).tolist()
    for length in (41, 80):  # one token at the end of a sequence of this length
        base = 100.0 * (2.0 * length / 40 - 1) ** (8 / 6)
        wanted = RotaryEmbedding(8, base)(x, offset=length - 1)
        assert cr.allclose(rope(x, offset=length - 1), wanted, rtol=0, atol=1e-12)
        assert cr.allclose(rope(x, cr.tensor([length - 1])), wanted, rtol=0, atol=1e-12)
    assert rope(x, offset=39).tolist() == plain(x, offset=39).tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: RotaryEmbedding(7), RuntimeError, "even number of columns: 0, 7"),
        (lambda: RotaryEmbedding(8, scaling={"rope_type": "longest"}), ValueError, "unknown scaling .* 'longest'"),
        (
            lambda: RotaryEmbedding(8, scaling={"rope_type": "yarn", "factor": 2}),
            ValueError,
            "'yarn' needs original_max",
        ),
        (lambda: RotaryEmbedding(8, scaling={"rope_type": "linear"}), ValueError, "'linear' needs factor"),
        (lambda: F.rope_table(3, 4, 1.0), RuntimeError, "base must be above 1: 1"),
        (lambda: F.rope_table(3, 4, scaling={"type": "linear", "factor": 0.5}), RuntimeError, "at least 1: 0.5"),
        (lambda: F.rope_table(3, 4, dtype=cr.float16), RuntimeError, "must be float32 or float64"),
        (lambda: F.rope(cr.ones(5, 4), F.rope_table(4, 4)), IndexError, "positions 0 to 4 of a table of 4 rows"),
        (lambda: F.rope(cr.ones(5, 4), F.rope_table(9, 4), offset=-1), IndexError, "positions -1 to 3"),
        (lambda: F.rope(cr.ones(5, 4), F.rope_table(9, 6)), RuntimeError, r"\(5, 4\), \(5, 6\)"),
        (lambda: F.rope(cr.ones(5, 4).double(), F.rope_table(9, 4)), RuntimeError, "table of float64 must be float64"),
        (lambda: F.rope(cr.ones(5, 4).long(), F.rope_table(9, 4)), RuntimeError, "rope"),
    ],
)
def test_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(("gated", "activation"), [("swiglu", "silu"), ("geglu", "gelu")])
def test_gated_units(gated: str, activation: str) -> None:
    both = cr.randn(3, 8, dtype=cr.float64)
    gate, up = (x.clone().requires_grad_() for x in both.chunk(2, -1))
    y, wanted = getattr(F, gated)(gate, up), getattr(F, activation)(gate) * up
    assert cr.allclose(y, wanted, rtol=1e-12, atol=1e-14)
    g = cr.randn(3, 4, dtype=cr.float64)
    for dx, dy in zip(cr.autograd.grad(y, [gate, up], g), cr.autograd.grad(wanted, [gate, up], g), strict=True):
        assert dx is not None and dy is not None and cr.allclose(dx, dy, rtol=1e-11, atol=1e-13)
