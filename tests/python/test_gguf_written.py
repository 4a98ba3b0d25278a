"""GGUF files in packed types that are written: which type a tensor gets, errors beside plain rounding, a text that
weighs them, and what is refused; ``gguf``'s package reads the blocks."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import chainrule as cr
import numpy as np
import pytest
from chainrule import models
from chainrule.data import Tokenizer
from conftest import BUILD

gguf: Any = pytest.importorskip("gguf")
PROGRAM = BUILD / "chainrule"
TYPES = ("q8_0", "q4_0", "q4_k_m", "q5_k_m", "q6_k")
V = 300


def made(width: int = 256, layers: int = 2, tied: bool = False, inner: int = 512) -> models.CausalLM:
    """Weights with long tails, as trained ones have."""
    cr.manual_seed(0)
    model: models.CausalLM = models.Llama(
        V, 64, layers=layers, heads=4, kv_heads=2, width=width, inner=inner, tied=tied
    )
    rng = np.random.default_rng(1)
    with cr.no_grad():
        for p in model.parameters():
            if p.dim() == 2:
                p.copy_(cr.tensor((0.05 * rng.standard_t(5, tuple(p.shape))).astype(np.float32)))
    model.eval()
    return model


def read(path: Path) -> dict[str, Any]:
    return {t.name: t for t in gguf.GGUFReader(path).tensors}


def numbers(t: Any) -> np.ndarray[Any, Any]:
    return np.asarray(gguf.quants.dequantize(t.data, t.tensor_type), dtype=np.float64)


def type_of(t: Any) -> str:
    return str(t.tensor_type.name)


def test_types_are_those_of_llama_cpp(tmp_path: Path) -> None:
    """More bits for values and down projections of the first and last eighth and of every third layer between."""
    made(layers=16).save_gguf(tmp_path / "m.gguf", "q4_k_m")
    found = read(tmp_path / "m.gguf")
    more = {0, 1, 4, 7, 10, 13, 14, 15}
    for layer in range(16):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
            wanted = "Q6_K" if part in ("attn_v", "ffn_down") and layer in more else "Q4_K"
            assert type_of(found[f"blk.{layer}.{part}.weight"]) == wanted, (layer, part)
    assert type_of(found["token_embd.weight"]) == "Q4_K" and type_of(found["output.weight"]) == "Q6_K"
    assert type_of(found["output_norm.weight"]) == "F32"
    for kind, rest in (("q5_k_m", "Q5_K"), ("q6_k", "Q6_K")):
        made(tied=True).save_gguf(tmp_path / "m.gguf", kind)
        found = read(tmp_path / "m.gguf")
        assert type_of(found["token_embd.weight"]) == "Q6_K" and "output.weight" not in found
        assert type_of(found["blk.0.attn_q.weight"]) == rest


@pytest.mark.parametrize(("kind", "types"), [("q4_k_m", "Q5_0 Q8_0"), ("q5_k_m", "Q5_1 Q8_0"), ("q6_k", "Q8_0")])
def test_widths_that_fill_no_block(kind: str, types: str, tmp_path: Path) -> None:
    """288 inputs are blocks of 32 only, 40 none."""
    for width, inner, wanted in ((288, 96, {*types.split()}), (40, 40, {"F16"})):
        model = made(width, inner=inner)
        model.save_gguf(tmp_path / "m.gguf", kind)
        assert {type_of(t) for t in read(tmp_path / "m.gguf").values()} == {"F32", *wanted}
        again = models.from_pretrained(tmp_path / "m.gguf")
        ids = cr.tensor([[*range(20)]])
        assert float((again(ids) - model(ids)).square().mean()) < 0.1 * float(model(ids).square().mean())


def rounded(x: np.ndarray[Any, Any], bits: int, offsets: bool, group: int) -> np.ndarray[Any, Any]:
    """To nearest, with scales and offsets in float64 between the least and the largest of a group."""
    g = x.reshape(-1, group)
    if offsets:
        low = np.minimum(g.min(1, keepdims=True), 0)
        d = (g.max(1, keepdims=True) - low) / (2**bits - 1)
        return (low + d * np.rint((g - low) / d)).reshape(x.shape)
    d = np.abs(g).max(1, keepdims=True) / (2 ** (bits - 1) - (bits < 8))
    return (d * np.rint(g / d)).reshape(x.shape)


def test_errors_are_less_than_those_of_plain_rounding(tmp_path: Path) -> None:
    """By so much, although scales have 6 or 8 bits there, and 16 here or more: with fewer trials it is not reached."""
    plain: dict[str, tuple[float, int, bool, int]] = {
        "Q4_K": (0.835, 4, True, 32),
        "Q5_K": (0.868, 5, True, 32),
        "Q6_K": (0.86, 6, False, 16),
        "Q5_0": (0.83, 5, False, 32),
        "Q5_1": (0.83, 5, True, 32),
    }
    seen = set()
    for kind, width in (("q4_k_m", 256), ("q5_k_m", 256), ("q4_k_m", 288), ("q5_k_m", 288)):
        model = made(width, layers=8, inner=width)
        model.save_gguf(tmp_path / "m.gguf", kind)
        found = read(tmp_path / "m.gguf")
        for layer in range(8):
            w = model.layers[layer].mlp.down_proj.weight.detach().numpy().astype(np.float64)
            t = found[f"blk.{layer}.ffn_down.weight"]
            if type_of(t) not in plain:
                continue
            most, bits, offsets, group = plain[type_of(t)]
            error, other = np.mean((numbers(t) - w) ** 2), np.mean((rounded(w, bits, offsets, group) - w) ** 2)
            assert error < most * other, (type_of(t), layer, error / other)
            seen.add(type_of(t))
    assert seen == {*plain}


@pytest.mark.parametrize("kind", ["q4_0", "q4_k_m", "q5_k_m", "q6_k"])
def test_a_text_weighs_the_errors(kind: str, tmp_path: Path) -> None:
    """Inputs of 32 columns of 256 are 100 times the others: their errors get less, those of the others more."""
    model, heavy = made(), np.arange(256) % 8 == 0
    with cr.no_grad():
        for layer in model.layers:
            layer.input_layernorm.weight.copy_(cr.tensor(np.where(heavy, 10, 0.1).astype(np.float32)))
    w = model.layers[1].self_attn.k_proj.weight.detach().numpy().astype(np.float64)
    w = w.reshape(2, 2, 32, 256).swapaxes(1, 2).reshape(w.shape)  # llama.cpp pairs rows
    errors = []
    for text in (None, [*range(V)]):
        model.save_gguf(tmp_path / "m.gguf", kind, calibration=text)
        errors.append((numbers(read(tmp_path / "m.gguf")["blk.1.attn_k.weight"]) - w) ** 2)
    before, after = errors
    assert after[:, heavy].mean() < 0.8 * before[:, heavy].mean()
    assert after[:, ~heavy].mean() > before[:, ~heavy].mean()


def test_bits_do_not_depend_on_threads(tmp_path: Path) -> None:
    files, threads = [], cr.get_num_threads()
    for n in (1, 3):
        cr.set_num_threads(n)
        made().save_gguf(tmp_path / "m.gguf", "q4_k_m", calibration=[1, 2, 3])
        files.append((tmp_path / "m.gguf").read_bytes())
    cr.set_num_threads(threads)
    assert files[0] == files[1]


def test_constant_and_zero_groups(tmp_path: Path) -> None:
    model = made()
    w = model.layers[0].mlp.up_proj.weight
    with cr.no_grad():
        w[0].fill_(0)
        w[1].fill_(0.25)
        w[2].fill_(-0.25)
        w[3, :128].fill_(1e-30)
        w[4] = cr.tensor(np.where(np.arange(256) % 3, 0, 1e-40).astype(np.float32))
    for kind in TYPES:
        model.save_gguf(tmp_path / "m.gguf", kind)
        got = numbers(read(tmp_path / "m.gguf")["blk.0.ffn_up.weight"])
        assert np.all(got[0] == 0) and np.all(np.abs(got[4]) < 1e-6), kind
        assert np.abs(got[1:3] - w.detach().numpy()[1:3]).max() < 0.01, kind
        assert np.isfinite(got).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, -65600.0])
def test_numbers_that_no_block_holds(value: float, tmp_path: Path) -> None:
    model, path = made(), tmp_path / "m.gguf"
    path.write_bytes(b"before")
    with cr.no_grad():
        model.layers[0].mlp.up_proj.weight[3, 40] = value
    for kind in TYPES:
        with pytest.raises(ValueError, match=r"'blk\.0\.ffn_up\.weight' has numbers that are not finite or too large"):
            model.save_gguf(path, kind)
        assert path.read_bytes() == b"before"


def test_refused(tmp_path: Path) -> None:
    model, path = made(), tmp_path / "m.gguf"
    with pytest.raises(ValueError, match=r"type must be f32, .*q5_k_m or q6_k, not 'q4_k'"):
        model.save_gguf(path, "q4_k")
    with pytest.raises(IndexError, match="token 300 is not in the vocabulary of 300"):
        model.save_gguf(path, "q4_k_m", calibration=[1, V])
    with pytest.raises(ValueError, match="the text to calibrate with is empty"):
        model.save_gguf(path, "q4_k_m", calibration=[])
    assert not path.exists()


def test_the_program_writes_the_same(tmp_path: Path) -> None:
    model, text = made(), tmp_path / "text"
    tokenizer = Tokenizer.bytes()
    text.write_text("the quick brown fox jumps over the lazy dog " * 20)
    model.save_pretrained(tmp_path / "hf")
    tokenizer.save(tmp_path / "hf" / "tokenizer.json")
    options = ["--model", str(tmp_path / "hf"), "--type", "q4_k_m", "--calibrate", str(text)]
    out = ["--out", str(tmp_path / "p.gguf")]
    subprocess.run([str(PROGRAM), "quantize", *options, *out], check=True, capture_output=True)
    model.save_gguf(tmp_path / "m.gguf", "q4_k_m", calibration=tokenizer.encode(text.read_text()))
    ours, theirs = read(tmp_path / "m.gguf"), read(tmp_path / "p.gguf")
    assert [*ours] == [*theirs]
    for name, t in ours.items():
        assert np.array_equal(t.data, theirs[name].data), name
    models.from_pretrained(tmp_path / "p.gguf")


@pytest.mark.parametrize("kind", TYPES)
def test_errors_beside_llama_cpp(kind: str, tmp_path: Path) -> None:
    """Squared errors of all matrices are at most those of llama.cpp's own quantizer, which its package has."""
    import ctypes

    xllamacpp = pytest.importorskip("xllamacpp")
    (library,) = Path(xllamacpp.__file__).parent.glob("xllamacpp.*so")
    quantize = ctypes.CDLL(str(library)).ggml_quantize_chunk
    quantize.restype, sizes = ctypes.c_size_t, [ctypes.c_int64] * 3
    quantize.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *sizes, ctypes.c_void_p]
    model = made()
    model.save_gguf(tmp_path / "w.gguf", "f32")
    model.save_gguf(tmp_path / "m.gguf", kind)
    whole, errors = read(tmp_path / "w.gguf"), np.zeros(2)
    for name, t in read(tmp_path / "m.gguf").items():
        if type_of(t) in ("F32", "F16"):
            continue
        w, theirs = np.ascontiguousarray(whole[name].data), np.zeros(t.data.shape, np.uint8)
        done = quantize(int(t.tensor_type), w.ctypes.data, theirs.ctypes.data, 0, *w.shape, None)
        assert done == theirs.nbytes, name
        both = numbers(t), gguf.quants.dequantize(theirs, t.tensor_type)
        errors += [float(((x - w) ** 2).sum()) for x in both]
    assert 0 < errors[0] <= 1.0001 * errors[1], (kind, errors)
