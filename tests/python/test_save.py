"""Pickling, copy and deepcopy, safetensors files."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import pickle
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from chainrule import models
from chainrule.serialization.replace import replaced
from hypothesis import given
from hypothesis import strategies as st

try:
    import torch
except ImportError:
    torch = None

DTYPES = [
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
]


def tensor_of(dtype: str, shape: list[int], transposed: bool = False) -> cr.Tensor:
    x = cr.arange(max(1, cr.zeros(shape).numel()))[: cr.zeros(shape).numel()].reshape(shape).to(getattr(cr, dtype))
    return x.transpose(0, -1) if transposed and shape else x


def same(x: cr.Tensor, y: cr.Tensor) -> bool:
    return (
        x.dtype is y.dtype
        and x.shape == y.shape
        and x.tolist() == y.tolist()
        and x.requires_grad == y.requires_grad
        and x.device == y.device
    )


class Named(cr.Tensor):
    name: str
    extra: list[int]


# ---- pickle
@given(
    st.sampled_from(DTYPES),
    st.lists(st.sampled_from([0, 1, 2, 3]), max_size=4),
    st.booleans(),
    st.booleans(),
    st.integers(0, pickle.HIGHEST_PROTOCOL),
)
def test_pickle(dtype: str, shape: list[int], transposed: bool, grad: bool, protocol: int) -> None:
    x = tensor_of(dtype, shape, transposed)
    if grad and x.is_floating_point():
        x.requires_grad_()
    y = pickle.loads(pickle.dumps(x, protocol))
    assert same(x, y) and y.is_leaf and y.is_contiguous() and (not x.numel() or y.data_ptr() != x.data_ptr())


def test_pickle_of_the_rest() -> None:
    made = cr.ones(2, requires_grad=True) * 2  # a leaf afterwards, as in PyTorch
    loaded = pickle.loads(pickle.dumps(made))
    assert loaded.requires_grad and loaded.is_leaf and loaded.tolist() == [2.0, 2.0]
    data = pickle.loads(pickle.dumps(cr.Tensor([1.0, 2.0])))
    assert data.requires_grad and data.__reduce_ex__(4)[1][-1] is True  # still one whose numpy() needs no detach
    x = Named([1.0, 2.0])
    x.name, x.extra = "w", [3]
    y = pickle.loads(pickle.dumps(x))
    assert type(y) is Named and same(x, y) and y.name == "w" and y.extra == [3]
    assert pickle.loads(pickle.dumps(cr.ones(2, device="ref"))).device == cr.Device("ref")
    for constant in (cr.float32, cr.bfloat16, cr.bool, cr.Device.cpu()):
        assert (
            pickle.loads(pickle.dumps(constant)) is constant
            and copy.deepcopy(constant) is constant
            and copy.copy(constant) is constant
        )
    assert pickle.loads(pickle.dumps(cr.Device("ref"))) == cr.Device("ref")
    both = pickle.loads(pickle.dumps([x, x]))
    assert both[0] is both[1]


def test_a_pickle_names_nothing_but_ours() -> None:
    class Only(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            assert module in ("chainrule", "chainrule._core"), f"{module}.{name}"
            return super().find_class(module, name)

    x = cr.ones(2, requires_grad=True)
    assert same(Only(io.BytesIO(pickle.dumps(x))).load(), x)


def test_damaged_pickles_are_refused() -> None:
    rebuild, (kind, data, shape, dtype, device, grad, from_data), _ = cr.ones(2, 3).__reduce_ex__(4)
    rest = (grad, from_data)
    for bad in (
        (kind, data[:-1], shape, dtype, device, *rest),
        (kind, data + b"\0", shape, dtype, device, *rest),
        (int, data, shape, dtype, device, *rest),
        (kind, "text", shape, dtype, device, *rest),
        (kind, data, (-1,), dtype, device, *rest),
        (kind, data, (1 << 60,), dtype, device, *rest),
        (kind, data, shape, cr.int64, device, *rest),
        (kind, data, shape, "float32", device, *rest),
        (kind, data, shape, dtype, "moon", *rest),
        (kind, data, (1,) * 9, dtype, device, *rest),
        (kind, data, shape, cr.int32, device, True, False),
        (3, data, shape, dtype, device, *rest),
        (),
    ):
        with pytest.raises((TypeError, ValueError, RuntimeError)):
            rebuild(*bad)
    whole = pickle.dumps(cr.arange(100))
    for end in range(0, len(whole), 7):
        with pytest.raises((pickle.UnpicklingError, EOFError, TypeError, ValueError, IndexError, AttributeError)):
            pickle.loads(whole[:end])


def test_generators() -> None:
    g = cr.Generator().manual_seed(7)
    cr.rand(5, generator=g)
    for h in (copy.deepcopy(g), copy.copy(g), pickle.loads(pickle.dumps(g))):
        assert h is not g and h.initial_seed() == 7 and h.get_state().tolist() == g.get_state().tolist()
        wanted = cr.rand(3, generator=copy.copy(g)).tolist()
        assert cr.rand(3, generator=h).tolist() == wanted


# ---- copy
def test_copy_shares_and_deepcopy_does_not() -> None:
    x = cr.arange(6, dtype=cr.float32).reshape(2, 3).T
    shared, own = copy.copy(x), copy.deepcopy(x)
    assert (
        shared is not x
        and shared.data_ptr() == x.data_ptr()
        and own.data_ptr() != x.data_ptr()
        and same(shared, x)
        and same(own, x)
    )
    x[0, 0] = 50
    assert shared[0, 0].item() == 50 and own[0, 0].item() == 0
    made = cr.ones(2, requires_grad=True) * 2
    assert copy.copy(made).is_leaf and copy.copy(made).requires_grad
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(made)
    assert copy.deepcopy(made.detach()).tolist() == [2.0, 2.0]


def test_deepcopy_keeps_gradients_and_identity() -> None:
    w = cr.ones(2, requires_grad=True)
    (w * w).sum().backward()
    model = {"w": w, "tied": w, "list": [w, cr.zeros(1)]}
    twin: Any = copy.deepcopy(model)
    assert twin["w"] is twin["tied"] is twin["list"][0] and twin["w"] is not w
    v: cr.Tensor = twin["w"]
    assert v.requires_grad and v.grad is not None and w.grad is not None and v.grad.tolist() == [2.0, 2.0]
    before = sys.getrefcount(w.grad), sys.getrefcount(w)
    copy.deepcopy(w)
    assert (sys.getrefcount(w.grad), sys.getrefcount(w)) == before
    v.grad.fill_(9)
    assert w.grad.tolist() == [2.0, 2.0] and copy.copy(w).grad is None
    (v * v).sum().backward()
    assert v.grad.tolist() == [11.0, 11.0]


def test_copies_of_subclasses() -> None:
    x = Named([1.0, 2.0])
    x.name, x.extra = "w", [3]
    shared, own = copy.copy(x), copy.deepcopy(x)
    assert type(shared) is type(own) is Named and shared.name == own.name == "w"
    assert shared.extra is x.extra and own.extra == [3] and own.extra is not x.extra and memoryview(own).readonly


COPIES: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]


def attributes_of_copies(m: Any) -> list[Any]:
    x = m.ones(2)
    x.tag, x.parts = "w", [3]
    made = [[y.tag, y.parts, y.parts is x.parts, sorted(vars(y))] for y in (what(x) for what in COPIES)]
    del x.tag
    return [*made, hasattr(x, "tag"), vars(x * 1), x.detach().__dict__, list(vars(x)), vars(copy.deepcopy(m.ones(1)))]


def test_attributes() -> None:
    kept = [["w", [3], shared, ["parts", "tag"]] for shared in (True, False, False)]
    assert attributes_of_copies(cr) == [*kept, False, {}, {}, ["parts"], {}]
    if torch is not None:
        assert attributes_of_copies(torch) == attributes_of_copies(cr)
    x: Any = cr.ones(2)
    x.me = x
    assert [y.me is (x if what is copy.copy else y) for what in COPIES for y in (what(x),)] == [True] * 3
    x = cr.ones(2, requires_grad=True)
    x.sum().backward()
    x.grad.tag, x.__dict__ = 1, {"a": 2}
    assert x.grad.tag == 1 and x.a == 2
    for name, value in (("shape", (2,)), ("__dict__", 3)):
        with pytest.raises((AttributeError, TypeError)):
            setattr(x, name, value)


def test_bad_memos() -> None:
    bad: list[Any] = [None, 3, "ab", []]
    for memo in bad:
        with pytest.raises((TypeError, KeyError, IndexError, RuntimeError, OverflowError)):
            cr.ones(1).__deepcopy__(memo)
    x = cr.ones(1)
    known: Any = x.__deepcopy__({id(x): "known"})
    assert known == "known"


@pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
@pytest.mark.parametrize(
    "what", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "deepcopy", "pickle"]
)
def test_as_pytorch(what: Any) -> None:
    makes: list[Callable[[Any], Any]] = [
        lambda m: m.ones(2),
        lambda m: m.ones(2, requires_grad=True),
        lambda m: m.ones(2, requires_grad=True) * 2,
        lambda m: with_gradient(m),
    ]
    for make in makes:
        outcome = []
        for module in (cr, torch):
            x = make(module)
            try:
                y = what(x)
                x.data[0] = 7
                outcome.append([y.requires_grad, y.is_leaf, y.grad is None or y.grad.tolist(), y.tolist()])
            except RuntimeError:
                outcome.append(["RuntimeError"])
        assert outcome[0] == outcome[1]


def with_gradient(m: Any) -> Any:
    x = m.ones(2, requires_grad=True)
    x.sum().backward()
    return x


# ---- files
def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "all.safetensors"
    tensors = {
        f"{dtype}.{'x'.join(map(str, shape))}": tensor_of(dtype, shape)
        for dtype in DTYPES
        for shape in ([], [0], [2, 3], [5], [2, 0, 3])
    }
    tensors["é \n\"name'"] = cr.ones(2, 3).T
    tensors["leaf"] = cr.ones(2, requires_grad=True)
    tensors["made"] = cr.ones(2, requires_grad=True) * 2
    tensors["ref"] = cr.ones(2, device="ref")
    cr.save(tensors, path)
    for where in (path, str(path), os.fsencode(path)):
        loaded = cr.load(where)
        assert set(loaded) == set(tensors)
        assert all(same(loaded[k], x.detach().cpu()) for k, x in tensors.items())
    assert cr.load(path, "ref")["leaf"].device == cr.Device("ref")
    cr.save({}, path)
    assert cr.load(path) == {}


def test_the_format_is_safetensors(tmp_path: Path) -> None:
    """Written and read here by hand, after the format's description."""
    path = tmp_path / "one.safetensors"
    cr.save({"w": cr.tensor([[1.0, 2.0]])}, path)
    raw = path.read_bytes()
    (n,) = struct.unpack("<Q", raw[:8])
    entry = json.loads(raw[8 : 8 + n])["w"]
    assert (
        entry["dtype"] == "F32"
        and entry["shape"] == [1, 2]
        and raw[8 + n :][slice(*entry["data_offsets"])] == struct.pack("<2f", 1, 2)
    )
    header = json.dumps({"b": {"dtype": "I16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<2h", -3, 500))
    assert cr.load(path)["b"].tolist() == [-3, 500]


def test_loaded_tensors_are_private_and_outlive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    cr.save({"x": cr.ones(1000)}, path)
    x = cr.load(path)["x"]
    x.fill_(3)
    assert cr.load(path)["x"].sum().item() == 1000
    cr.save({"x": x}, path)  # over the file that x is mapped from
    path.unlink()
    assert x.sum().item() == 3000


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc here to read the resident memory from")
def test_loading_maps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "large.safetensors"
    cr.save({"x": cr.zeros(8 << 20)}, path)  # 32 MiB
    code = """if True:
        import sys, chainrule as cr
        resident = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096
        before = resident(); x = cr.load(sys.argv[1])["x"]; x[5].item()
        print(resident() - before)"""
    environment = {**os.environ, "PYTHONPATH": str(Path(cr.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60, env=environment
    )
    assert done.returncode == 0 and int(done.stdout) < 8 << 20, done


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    path, one = tmp_path / "x.safetensors", cr.ones(1)
    for bad in ([one], one, None, {1: one}, {"a": 1}, {"a": [one]}, {None: one}, {"a": None}):
        with pytest.raises(TypeError, match="save"):
            cr.save(bad, path)
    for name in ("a\0b", "\ud800", "__metadata__", ""):
        try:
            cr.save({name: one}, path)
            assert name == "" and set(cr.load(path)) == {""}
        except (ValueError, RuntimeError):
            pass
    path.unlink(missing_ok=True)
    for to in (3, None, one, tmp_path / "a\0b"):
        with pytest.raises((TypeError, ValueError)):
            cr.save({"a": one}, to)
    for to in (tmp_path / "missing" / "x", tmp_path):
        with pytest.raises(OSError):
            cr.save({"a": one}, to)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_loaded(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        cr.load(tmp_path / "missing")
    assert caught.value.filename == str(tmp_path / "missing")
    with pytest.raises(OSError):
        cr.load(tmp_path)
    good = tmp_path / "good.safetensors"
    cr.save({"x": cr.ones(3), "y": cr.zeros(2, 2, dtype=cr.int64)}, good)
    raw = good.read_bytes()
    bad = tmp_path / "bad.safetensors"
    changed = [
        raw + b"\0",
        raw.replace(b"F32", b"F99"),
        raw.replace(b"[3]", b"[4]"),
        b"\xff" * 64,
        raw.replace(b'"x"', b'"y"'),
    ]
    for text in [raw[:end] for end in range(0, len(raw), 5)] + changed:
        bad.write_bytes(text)
        with pytest.raises(OSError, match="load"):
            cr.load(bad)
    os.mkfifo(tmp_path / "pipe")  # without a writer: a program that waits for one would hang
    code = "import chainrule as cr, sys\ntry: cr.load(sys.argv[1])\nexcept OSError as e: print(e)"
    said = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "pipe"],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(cr.__file__).parent.parent,
    )
    assert "pipe': Not a regular file" in said.stdout, said
    for where in (3, None, cr.ones(1), tmp_path / "a\0b"):
        with pytest.raises((TypeError, ValueError)):
            cr.load(where)
    with pytest.raises((ValueError, RuntimeError)):
        cr.load(good, "moon")
    with pytest.raises(TypeError):
        cr.load(good, 3)


# ---- what is replaced, and what a killed save leaves ----
KILLED = """
import os, sys
import chainrule as cr
class Slow:
    def __reduce__(self): os.kill(os.getpid(), 9)
where, how = sys.argv[1:]
if how == "pt":
    cr.save({"a": cr.ones(1000), "b": Slow()}, where + "/x.pt")
else:
    from chainrule.serialization.replace import replaced
    with replaced(where + "/x.json") as file:
        file.write(b"half")
        file.flush()
        os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("how", ["pt", "json"])
def test_what_a_killed_save_leaves_goes_with_the_next(how: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), how], env=environment, check=False)
    assert killed.returncode == -9, killed
    assert [p.name.startswith(".chainrule-") for p in tmp_path.iterdir()] == [True]
    for name in (".chainrule-x-1.tmp", "mine.tmp"):
        (tmp_path / name).write_text("mine")
    (tmp_path / ".chainrule-5-5.tmp").symlink_to("mine.tmp")
    (tmp_path / ".chainrule-6-6.tmp").mkdir()
    with replaced(os.fspath(tmp_path / "y")) as file:  # a live one stays
        cr.save({"a": cr.ones(3)}, tmp_path / "x.safetensors" if how == "pt" else tmp_path / "x.pt")
        file.write(b"whole")
    left = sorted(p.name for p in tmp_path.iterdir())
    kept = [".chainrule-5-5.tmp", ".chainrule-6-6.tmp", ".chainrule-x-1.tmp", "mine.tmp"]
    assert left == [*kept, "x.safetensors" if how == "pt" else "x.pt", "y"], left
    assert (tmp_path / "y").read_bytes() == b"whole"


def test_a_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    model = models.GPT(8, 4, 1, 1, 8)
    adapted = models.GPT(8, 4, 1, 1, 8)
    cr.nn.lora.apply(adapted, 2)
    saves: dict[str, tuple[Callable[[], object], list[str]]] = {
        "pt": (lambda: cr.save({"a": cr.ones(3)}, tmp_path / "a.pt"), ["a.pt"]),
        "safetensors": (lambda: cr.save({"a": cr.ones(3)}, tmp_path / "a.safetensors"), ["a.safetensors"]),
        "gguf": (lambda: model.save_gguf(tmp_path / "a.gguf", "f32"), ["a.gguf"]),
        "folder": (lambda: model.save_pretrained(tmp_path / "m"), ["m/config.json", "m/model.safetensors"]),
        "sharded": (lambda: cr.serialization.save_sharded(dict(model.state_dict()), tmp_path / "s", "300B"),
                    ["s/model.safetensors.index.json"]),
        "checkpoint": (lambda: models.save_checkpoint(tmp_path / "c", model),
                       ["c/state.json", "c/weights.safetensors"]),
        "adapter": (lambda: cr.nn.lora.save(adapted, tmp_path / "l"),
                    ["l/adapter_config.json", "l/adapter_model.safetensors"]),
    }  # fmt: skip
    before = os.umask(0o022)
    try:
        for kind, (save, names) in saves.items():
            save()
            for name in names:
                assert (tmp_path / name).stat().st_mode & 0o777 == 0o644, (kind, name)
                (tmp_path / name).chmod(0o600)
            save()
            for name in names:
                assert (tmp_path / name).stat().st_mode & 0o777 == 0o600, (kind, name)
    finally:
        os.umask(before)
    assert not [p for p in tmp_path.rglob("*") if ".chainrule" in p.name or p.suffix == ".tmp"]


def test_a_link_as_the_target(tmp_path: Path) -> None:
    """torch.save writes the file that a link leads to; safetensors replaces it.  No save of a folder follows one."""
    (tmp_path / "real").mkdir()
    for name in ("a.pt", "a.safetensors", "model.safetensors", "config.json"):
        (tmp_path / "real" / name).write_bytes(b"old")
        (tmp_path / name).symlink_to(tmp_path / "real" / name)
    cr.save({"a": cr.ones(3)}, tmp_path / "a.pt")
    cr.save({"a": cr.ones(3)}, tmp_path / "a.safetensors")
    models.GPT(8, 4, 1, 1, 8).save_pretrained(tmp_path)
    assert (tmp_path / "a.pt").is_symlink() and cr.load(tmp_path / "real" / "a.pt")["a"].tolist() == [1, 1, 1]
    for name in ("a.safetensors", "model.safetensors", "config.json"):
        assert not (tmp_path / name).is_symlink() and (tmp_path / "real" / name).read_bytes() == b"old", name
    with pytest.raises(ValueError, match=r"\.gguf"):
        cr.save({"a": cr.ones(3)}, tmp_path / "a.gguf")


@pytest.mark.parametrize("name", [".chainrule-new", ".chainrule-ready", ".chainrule-commit", ".chainrule-old"])
def test_links_of_working_names_are_not_followed(name: str, tmp_path: Path) -> None:
    model, victim = models.GPT(8, 4, 1, 1, 8), tmp_path / "victim"
    model.save_pretrained(tmp_path / "m")
    models.save_checkpoint(tmp_path / "c", model)
    model.save_pretrained(victim)  # a whole model, which could be moved
    (victim / "shards").write_text("1")
    (victim / "state.json").write_bytes((tmp_path / "c" / "state.json").read_bytes())
    before = {p.name: p.read_bytes() for p in victim.iterdir()}
    for folder in ("m", "c", "empty"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).symlink_to("../victim")
    calls: list[Callable[[Path], object]] = [
        models.from_pretrained, models.GPT.from_pretrained, cr.load, cr.data.Tokenizer.from_pretrained,
        lambda p: models.load_checkpoint(p, model), model.save_pretrained,
        lambda p: models.save_checkpoint(p, model), lambda p: cr.serialization.save_sharded(model.state_dict(), p),
    ]  # fmt: skip
    for folder in ("m", "c", "empty"):
        for call in calls:
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                call(tmp_path / folder)
            assert {p.name: p.read_bytes() for p in victim.iterdir()} == before, (folder, call)
            assert (tmp_path / folder / name).is_symlink(), (folder, call)
