"""GGUF files as they lie: the numbers of every packed format (``gguf``'s package says them), models over them, their
memory, adapters, split files, and the families that llama.cpp writes, beside transformers."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import chainrule as cr
import numpy as np
import pytest
from chainrule import models
from conftest import BUILD

gguf: Any = pytest.importorskip("gguf")
PROGRAM = BUILD / "chainrule"

FORMATS = ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "MXFP4", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS")
HALVES = {  # offsets of f16 numbers in a block
    "Q8_0": (0,), "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "IQ4_NL": (0,), "MXFP4": (),
    "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_XS": (0,),
}  # fmt: skip
SMALL = {  # about 1 / the largest |code x scale|, so that weights have a size of about 0.1
    "Q8_0": 1e-3, "Q4_0": 1e-2, "Q4_1": 1e-2, "Q5_0": 5e-3, "Q5_1": 5e-3, "IQ4_NL": 1e-3, "MXFP4": 1.0,
    "Q2_K": 3e-3, "Q3_K": 1e-3, "Q4_K": 2e-4, "Q5_K": 1e-4, "Q6_K": 5e-5, "IQ4_XS": 3e-5,
}  # fmt: skip
LLAMA = {"layers": 2, "width": 256, "heads": 4, "kv_heads": 2, "inner": 512, "vocabulary": 320, "context": 256}


def kind(name: str) -> Any:
    return gguf.GGMLQuantizationType[name]


def blocks(name: str, rows: int, columns: int, seed: int, strange: bool = False) -> np.ndarray[Any, Any]:
    """Random blocks (rows, bytes); strange: with scales that are NaN, infinite, zero and tiny."""
    rng = np.random.default_rng(seed)
    block, size = gguf.GGML_QUANT_SIZES[kind(name)]
    data = rng.integers(0, 256, (rows, columns // block, size), dtype=np.uint8)
    for at in HALVES[name]:
        scale = rng.normal(0, SMALL[name], data.shape[:2])
        if at:  # offsets, against codes that have no sign
            scale = np.abs(scale) if name.endswith("K") else -np.abs(scale) * 8
        data[..., at : at + 2] = scale.astype(np.float16)[..., None].view(np.uint8)
    if name == "MXFP4":
        data[..., 0] = rng.integers(118, 124, data.shape[:2])
    if strange:
        odd = (np.nan, np.inf, -np.inf, 0.0, -0.0, 6e-8, 65504.0)
        for i, value in enumerate(odd):
            for at in HALVES[name]:
                data[i % rows, i % data.shape[1], at : at + 2] = np.frombuffer(struct.pack("<e", value), np.uint8)
        if name == "MXFP4":
            data[0, :, 0] = np.resize([0, 1, 2, 254, 255], data.shape[1])
    return data.reshape(rows, -1)


def written(path: Path, arch: str, said: dict[str, Any], tensors: dict[str, tuple[np.ndarray[Any, Any], str]]) -> Path:
    """A file by gguf's own writer; tensors: data and type."""
    w = gguf.GGUFWriter(path, arch)
    for key, value in said.items():
        full = key if key.startswith(("tokenizer.", "split.", "general.")) else f"{arch}.{key}"
        if isinstance(value, bool):
            w.add_bool(full, value)
        elif isinstance(value, int):
            w.add_uint32(full, value)
        elif isinstance(value, float):
            w.add_float32(full, value)
        elif isinstance(value, str):
            w.add_string(full, value)
        else:
            w.add_array(full, value)
    for name, (data, of) in tensors.items():
        w.add_tensor(name, data, raw_dtype=kind(of))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    return path


def llama(of: str, more: dict[str, Any] | None = None, tied: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Entries and tensors of a small Llama whose matrices are random blocks."""
    s = LLAMA | (more or {})
    C, D = s["width"], s["width"] // s["heads"]
    said = {
        "context_length": s["context"], "embedding_length": C, "block_count": s["layers"],
        "feed_forward_length": s["inner"], "attention.head_count": s["heads"],
        "attention.head_count_kv": s["kv_heads"], "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 10000.0, "rope.dimension_count": D,
    }  # fmt: skip
    shapes = {"token_embd": (s["vocabulary"], C)} | ({} if tied else {"output": (s["vocabulary"], C)})
    for i in range(s["layers"]):
        kv = s["kv_heads"] * D
        for name, shape in (
            ("attn_q", (C, C)), ("attn_k", (kv, C)), ("attn_v", (kv, C)), ("attn_output", (C, C)),
            ("ffn_gate", (s["inner"], C)), ("ffn_up", (s["inner"], C)), ("ffn_down", (C, s["inner"])),
        ):  # fmt: skip
            shapes[f"blk.{i}.{name}"] = shape
    tensors: dict[str, Any] = {
        f"{name}.weight": (blocks(of, *shape, seed=i), of) for i, (name, shape) in enumerate(shapes.items())
    }
    rng = np.random.default_rng(99)
    for name in ["output_norm", *(f"blk.{i}.{n}" for i in range(s["layers"]) for n in ("attn_norm", "ffn_norm"))]:
        tensors[f"{name}.weight"] = (rng.uniform(0.5, 1.5, C).astype(np.float32), "F32")
    return said, tensors


@pytest.mark.parametrize("name", FORMATS)
def test_numbers_of_each_format(tmp_path: Path, name: str) -> None:
    """cr.load gives the numbers of gguf's package, bit for bit; NaN where it has NaN."""
    for strange in (False, True):
        data = blocks(name, 37, 1024, 1, strange)
        path = written(tmp_path / "x.gguf", "llama", {}, {"x.weight": (data, name)})
        got: Any = cr.load(path)
        with np.errstate(all="ignore"):
            want = gguf.quants.dequantize(data, kind(name))
        mine = np.array(got["x.weight"].tolist(), np.float32)
        assert got["x.weight"].shape == (37, 1024) and np.isfinite(want).mean() > 0.5
        assert np.array_equal(mine, want, equal_nan=True), (name, np.nanmax(np.abs(mine - want)))


def test_other_types_are_refused_by_name(tmp_path: Path) -> None:
    data = np.zeros((2, 66 * 2), np.uint8)
    path = written(tmp_path / "x.gguf", "llama", {}, {"x.weight": (data, "IQ2_XXS")})
    with pytest.raises(OSError, match=r"'x.weight' is of ggml's type 16: known are f32, f16, bf16, q8_0.*iq4_xs"):
        cr.load(path)


@pytest.mark.parametrize("name", FORMATS)
def test_a_model_as_it_lies(tmp_path: Path, name: str) -> None:
    """Logits of the packed weights are those of the floats up to the rounding of activations; texts in a batch are
    each alone, bit for bit; a tied head; rows of embeddings."""
    for tied in (False, True):
        path = written(tmp_path / f"{tied}.gguf", "llama", *llama(name, tied=tied))
        packed, floats = models.from_pretrained(path), models.from_pretrained(path, dtype=cr.float32)
        assert sum(t.numel() * t.element_size() for t in packed.state_dict().values()) < 1.05 * path.stat().st_size
        ids = cr.tensor([[(7 * i) % 320 for i in range(40)], [(11 * i + 3) % 320 for i in range(40)]])
        with cr.no_grad():
            a, b = packed(ids), floats(ids)
            assert float((a - b).abs().max()) < 2e-3 * float(b.abs().max()), (name, tied)
            for i in range(2):
                assert cr.equal(packed(ids[i : i + 1]), a[i : i + 1]), name
        assert packed.generate([5, 9, 17], 12, temperature=0) == floats.generate([5, 9, 17], 12, temperature=0)


def test_split_files(tmp_path: Path) -> None:
    """The parts of a model are one; a part that is missing, or is not the first, is an error with its name."""
    said, tensors = llama("Q4_K")
    whole = written(tmp_path / "whole.gguf", "llama", said, tensors)
    names = list(tensors)
    for i in range(3):
        part = {name: tensors[name] for name in names[i::3]}
        more = {"split.no": i, "split.count": 3, "split.tensors.count": len(names)}
        written(tmp_path / f"m-0000{i + 1}-of-00003.gguf", "llama", (said if i == 0 else {}) | more, part)
    first = tmp_path / "m-00001-of-00003.gguf"
    ids = cr.tensor([[1, 2, 3, 4]])
    with cr.no_grad():
        assert cr.equal(models.from_pretrained(first)(ids), models.from_pretrained(whole)(ids))
    with pytest.raises((OSError, ValueError), match="is part 2 of 3: give the first"):
        models.from_pretrained(tmp_path / "m-00002-of-00003.gguf")
    (tmp_path / "m-00003-of-00003.gguf").unlink()
    with pytest.raises((OSError, ValueError), match="m-00003-of-00003.gguf"):
        models.from_pretrained(first)


MEASURE = """
import sys
import chainrule as cr
from chainrule import models
cr.set_num_threads(1)
def resident():
    said = open("/proc/self/status").read()
    return {w: 1024 * int(next(l.split()[1] for l in said.splitlines() if l.startswith(w))) for w in ("VmRSS", "VmHWM")}
models.from_pretrained(sys.argv[1]).generate([1, 2, 3], 2, temperature=0)  # everything that Python loads late
before = resident()["VmRSS"]
model = models.from_pretrained(sys.argv[2])
loaded = resident()["VmRSS"]
model.generate([1, 2, 3], 8, temperature=0)
print(loaded - before, resident()["VmRSS"] - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_memory_of_a_model(tmp_path: Path) -> None:
    """Loading touches the header; a model that has run holds 1.1 of its file, and the cache."""
    small = written(tmp_path / "small.gguf", "llama", *llama("Q4_K"))
    more = {"layers": 4, "width": 1024, "inner": 4096, "heads": 16, "kv_heads": 4, "vocabulary": 8192}
    path = written(tmp_path / "m.gguf", "llama", *llama("Q4_K", more))
    size, cache = path.stat().st_size, 4 * 2 * 256 * 256 * 4
    command = [sys.executable, "-c", MEASURE, str(small), str(path)]
    found = {**os.environ, "PYTHONPATH": str(Path(cr.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=found)
    loaded, ran = map(int, done.stdout.split())
    assert size > 40e6 and loaded < 0.05 * size, f"loading took {loaded} of {size} bytes"
    assert 0.5 * size < ran < 1.1 * size + cache + 2e6, f"running took {ran} of {size} bytes"


def test_a_packed_model_in_half_precision_and_in_files(tmp_path: Path) -> None:
    """A copy, a pickle and a saved folder have the same logits; the folder has floats."""
    import copy
    import pickle

    path = written(tmp_path / "m.gguf", "llama", *llama("Q5_K"))
    model, ids = models.from_pretrained(path), cr.tensor([[1, 2, 3, 4, 5]])
    with cr.no_grad():
        want = model(ids)
        assert cr.equal(copy.deepcopy(model)(ids), want) and cr.equal(pickle.loads(pickle.dumps(model))(ids), want)
        model.save_pretrained(tmp_path / "folder")
        folder = models.from_pretrained(tmp_path / "folder")
        assert float((folder(ids) - want).abs().max()) < 2e-3 * float(want.abs().max())
        half = models.from_pretrained(path).to(cr.bfloat16)(ids)
    assert half.dtype is cr.bfloat16 and float((half.float() - want).abs().max()) < 0.1 * float(want.abs().max())


def test_layers_of_a_packed_model(tmp_path: Path) -> None:
    """Packed layers are called alone and by hooks, and take adapters that train; the packed weights stay."""
    from chainrule import nn
    from chainrule.nn import lora

    path = written(tmp_path / "m.gguf", "llama", *llama("Q4_K", tied=True))
    model, floats = models.from_pretrained(path), models.from_pretrained(path, dtype=cr.float32)
    x, ids = cr.randn(3, 256), cr.tensor([[1, 2, 3, 4, 5]])
    for name in ("layers.0.self_attn.q_proj", "layers.0.self_attn.k_proj", "layers.1.mlp.up_proj", "embed_tokens"):
        part, plain = model.get_submodule(name), floats.get_submodule(name)
        a, b = (m(ids if name == "embed_tokens" else x) for m in (part, plain))
        assert float((a - b).abs().max()) < 2e-3 * float(b.abs().max()), name
        assert float((part.weight - plain.weight).abs().max()) == 0, name
    with cr.no_grad():
        want = model(ids)
        handle = model.layers[1].self_attn.q_proj.register_forward_hook(lambda m, args, out: None)
        assert float((model(ids) - want).abs().max()) < 2e-3 * float(want.abs().max())
        handle.remove()
        handle = model.layers[0].register_forward_hook(lambda m, args, out: out * 0)
        assert float((model(ids) - want).abs().max()) > 0.1 * float(want.abs().max())
        handle.remove()
    lora.apply(model, r=4, targets="all-linear")
    optimizer = cr.optim.AdamW(lora.parameters(model), lr=5e-3)
    before = {name: t.clone() for name, t in model.named_buffers()}
    losses = []
    for _ in range(8):
        loss = nn.functional.cross_entropy(model(ids)[0, :-1], ids[0, 1:])
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert losses[-1] < losses[0] - 0.05, losses
    assert len(before) == 15 and all(cr.equal(t, before[name]) for name, t in model.named_buffers())


@pytest.mark.skipif(not PROGRAM.exists(), reason="the program chainrule is not built")
def test_adapters_over_a_packed_model(tmp_path: Path) -> None:
    """finetune --lora keeps the weights packed: the loss falls, in at most a quarter of the memory of a whole
    training; generate and eval read the adapter; export merges it; without --lora the weights become floats."""
    said, tensors = llama("Q4_K", {"layers": 3, "width": 768, "inner": 3072, "heads": 12, "kv_heads": 12,
                                   "vocabulary": 512})  # fmt: skip
    alphabet = [*(chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))), "ab"]
    said |= {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.tokens": [*alphabet, *(f"<{i}>" for i in range(512 - len(alphabet)))],
        "tokenizer.ggml.token_type": [1] * len(alphabet) + [3] * (512 - len(alphabet)),
        "tokenizer.ggml.eos_token_id": 511,
    }  # fmt: skip
    written(tmp_path / "m.gguf", "llama", said, tensors)
    text = "\n".join(json.dumps({"prompt": f"say {i}", "completion": "hello " * 4}) for i in range(32))
    (tmp_path / "data.jsonl").write_text(text)

    def run(*words: str) -> tuple[str, int]:
        script = (
            "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]);"
            "sys.stderr.write('PEAK %d' % resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss);"
            "sys.exit(done.returncode)"
        )
        command = [sys.executable, "-c", script, str(PROGRAM), *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout, 1024 * int(done.stderr.rsplit("PEAK ", 1)[1])

    common = "finetune --model m.gguf --data data.jsonl --steps 12 --batch 2 --context 64 --template chatml".split()
    said_lora, lora = run(*common, "--lora", "8", "--out", "tuned", "--lr", "5e-3")
    _, whole = run(*common, "--out", "whole", "--lr", "1e-5")
    assert lora <= 0.25 * whole, f"{lora} of {whole} bytes; {said_lora}"
    asked = ("--prompt", "say 3", "--tokens", "4", "--temperature", "0")
    plain, _ = run("generate", "--model", "m.gguf", *asked)
    tuned, _ = run("generate", "--model", "m.gguf", "--adapter", "tuned", *asked)
    assert plain != tuned
    run("export", "--model", "m.gguf", "--adapter", "tuned", "--out", "merged")
    assert run("generate", "--model", "merged", *asked)[0] == tuned


def test_damaged_files(tmp_path: Path) -> None:
    """Files that are cut, or whose header has other bytes, are an error or another model; nothing else happens."""
    good = written(tmp_path / "m.gguf", "llama", *llama("Q4_K", {"layers": 1})).read_bytes()
    rng, path, refused = np.random.default_rng(5), tmp_path / "bad.gguf", 0
    for i in range(150):
        data = bytearray(good)
        if i % 3 == 0:
            data = data[: int(rng.integers(0, len(data)))]
        for _ in range(int(rng.integers(1, 4)) if i % 3 else 0):
            data[int(rng.integers(0, 1500))] = int(rng.integers(0, 256))
        path.write_bytes(data)
        try:
            with cr.no_grad():
                models.from_pretrained(path)(cr.tensor([[1, 2, 3]]))
        except (OSError, ValueError, RuntimeError, MemoryError, IndexError):
            refused += 1
    assert refused > 75
