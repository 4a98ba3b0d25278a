"""chainrule.serialization: PyTorch's formats both ways, shared memory, devices, mapped files, shards, and
what is refused: names, damaged archives, sizes that contradict each other."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import zipfile
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from chainrule import nn, serialization
from chainrule.serialization import archive
from conftest import FULL
from hypothesis import given
from hypothesis import strategies as st

try:
    import torch as _torch
except ImportError:
    _torch = None
torch: Any = _torch
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "files"
DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 uint16 uint32 uint64".split()
MALFORMED = (pickle.UnpicklingError, RuntimeError, EOFError)  # what a damaged file may raise


class Named(cr.Tensor):
    """A subclass with an attribute."""


class Net(nn.Module):
    """A whole module of a program."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.register_buffer("mean", cr.zeros(2))


class Point:
    """A class that a program may allow."""

    def __init__(self, x: int) -> None:
        self.x = x


def saved(obj: object, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    cr.save(obj, file, **options)
    file.seek(0)
    return file


def again(obj: object, **options: Any) -> Any:
    return cr.load(saved(obj), **options)


def layout(x: Any) -> list[Any]:
    """What a tensor of either library is."""
    dtype = str(x.dtype).partition(".")[2]
    return [x.tolist(), dtype, tuple(x.shape), tuple(x.stride()), x.storage_offset(), x.requires_grad]


def nest() -> dict[str, Any]:
    x = cr.arange(12.0).reshape(3, 4)
    tied = nn.Parameter(cr.tensor([1.5, -2.5]))
    return {
        "x": x,
        "transposed": x.T,
        "row": x[1],
        "column": x[:, 2],
        "expanded": x[0].expand(2, 4),
        "parameter": nn.Parameter(x),
        "state": OrderedDict(a=tied, b=tied),
        "requires": cr.ones(2, requires_grad=True),
        "scalar": cr.tensor(2.5),
        "empty": cr.zeros(0, 3),
        "dtypes": {name: cr.tensor([0, 1, 1]).to(getattr(cr, name)) for name in DTYPES},
        "rest": [x.shape, cr.float32, cr.Device("cpu"), (1, -2, 2**70, 2.5, None, True), "é", b"\0\xff", {3}],
    }


def same(a: Any, b: Any, at: str = "") -> None:
    """Equal nests of either library, with equal layouts."""
    if hasattr(a, "stride"):
        assert layout(a) == layout(b), at
    elif isinstance(a, dict):
        assert list(a) == list(b), at
        for key in a:
            same(a[key], b[key], f"{at}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), at
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{at}[{i}]")
    elif type(a).__module__.partition(".")[0] in ("torch", "chainrule"):
        assert str(a).partition(".")[2] == str(b).partition(".")[2], at
    else:
        assert type(a) is type(b) and a == b, at


def shares(x: dict[str, Any]) -> None:
    """Views lie over one memory again."""
    x["x"][1, 2] = 77
    assert x["transposed"][2, 1].item() == x["row"][2].item() == x["column"][1].item() == 77
    assert x["parameter"][1, 2].item() == 77 and x["state"]["a"] is x["state"]["b"]


# ---- both ways ----
@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_round_trip(legacy: bool, protocol: int) -> None:
    obj = nest()
    back = cr.load(saved(obj, pickle_protocol=protocol, _use_new_zipfile_serialization=not legacy))
    same(obj, back)
    assert type(back["parameter"]) is nn.Parameter and type(back["rest"][0]) is cr.Size
    shares(back)


def test_round_trip_of_the_rest() -> None:
    values: list[Any] = [
        None,
        3,
        2.5,
        "text",
        b"",
        (),
        [],
        {},
        1j,
        bytearray(b"ab"),
        frozenset({1}),
        Counter("aab"),
        {(1, (2,)): 3},
    ]
    for value in values:
        assert again(value) == value and type(again(value)) is type(value)
    x = cr.ones(2, 3)
    assert again(x.flip(0)).stride() == (3, 1), "PyTorch has no negative strides"
    both = again([x, x])
    assert both[0] is both[1]
    me: list[Any] = []
    me.append(me)
    back = again(me)
    assert back[0] is back
    y: Any = cr.ones(2)
    y.tag = [1]
    p: Any = nn.Parameter(cr.ones(2), requires_grad=False)
    p.tag = "w"
    back = again([y, p])
    if torch:
        assert torch.load(saved([b"", bytearray(), 1j, Counter("aab")])) == [b"", bytearray(), 1j, Counter("aab")]
    assert back[0].tag == [1] and back[1].tag == "w" and type(back[1]) is nn.Parameter and not back[1].requires_grad
    made = again(cr.ones(2, requires_grad=True) * 2)
    assert made.is_leaf and made.requires_grad
    assert again(cr.ones(3, device="ref")).device == cr.Device("ref")


def test_weights_of_pytorch() -> None:
    """Files that PyTorch wrote (tests/golden/files.py)."""
    weights = cr.load(GOLDEN / "weights.pt")
    same(weights, nest())
    assert weights["state"]._metadata[""]["version"] == 1
    shares(weights)
    legacy = cr.load(GOLDEN / "legacy.pt")
    wanted = nest()
    wanted["dtypes"] = {name: x for name, x in wanted["dtypes"].items() if name in legacy["dtypes"]}
    assert len(legacy["dtypes"]) == 10
    same(legacy, wanted)
    shares(legacy)
    tar = cr.load(GOLDEN / "tar.pt")
    assert tar["x"].tolist() == [[0, 1, 2], [3, 4, 5]] and tar["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    tar["x"][0, 1] = 9
    assert tar["t"][1, 0].item() == 9


@needs_torch
@pytest.mark.parametrize("legacy", [False, True])
def test_pytorch_reads_ours(legacy: bool) -> None:
    obj = nest()
    for name in ("uint16", "uint32", "uint64") if legacy else ():  # PyTorch's old format has no place for them
        del obj["dtypes"][name]
    theirs = torch.load(saved(obj, _use_new_zipfile_serialization=not legacy), weights_only=True)
    same(theirs, obj)
    shares(theirs)
    assert type(theirs["parameter"]) is torch.nn.Parameter
    back = io.BytesIO()
    torch.save(theirs, back, _use_new_zipfile_serialization=not legacy)
    back.seek(0)
    obj["x"][1, 2] = 77
    same(cr.load(back), obj)
    tar = torch.load(GOLDEN / "tar.pt", weights_only=False)
    assert tar["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    y: Any = cr.ones(2)
    y.tag = [1]
    assert torch.load(saved(y)).tag == [1]


# ---- training goes on ----
def formula(m: Any, *shape: int) -> Any:
    n = 1
    for size in shape:
        n *= size
    return m.sin(m.arange(1.0, 1.0 + n)).reshape(*shape)


OPTIMIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "adamw": lambda m, p: m.optim.AdamW(p, lr=0.05, weight_decay=0.1),
    "sgd": lambda m, p: m.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
}


def trainer(m: Any, name: str) -> Any:
    """A model and its optimizer as tests/golden/files.py has them, and a step that returns the loss."""
    model = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.Tanh(), m.nn.Linear(4, 1))
    with m.no_grad():
        for p in model.parameters():
            p.copy_(formula(m, *p.shape))
    optimizer = OPTIMIZERS[name](m, model.parameters())
    x, y = formula(m, 5, 3), formula(m, 5, 1).cos()

    def step() -> float:
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return model, optimizer, step


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_of_pytorch_goes_on(name: str) -> None:
    state = cr.load(GOLDEN / f"{name}.pt")
    model, optimizer, step = trainer(cr, name)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    assert [step() for _ in range(3)] == pytest.approx(state["losses"], rel=1e-6)


@needs_torch
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_our_training_goes_on_in_pytorch(name: str) -> None:
    model, optimizer, step = trainer(cr, name)
    for _ in range(3):
        step()
    file = saved({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    state = torch.load(file, weights_only=True)
    model, optimizer, their_step = trainer(torch, name)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    assert [their_step() for _ in range(3)] == pytest.approx([step() for _ in range(3)], rel=1e-6)


def test_whole_modules(tmp_path: Path) -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"torch\.nn\.modules\.container\.Sequential"):
        cr.load(GOLDEN / "module.pt")
    module = cr.load(GOLDEN / "module.pt", weights_only=False)
    assert type(module) is nn.Sequential and [type(m) for m in module] == [nn.Linear, nn.ReLU, nn.LayerNorm]
    wanted = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU(), nn.LayerNorm(3))
    for p in wanted.parameters():
        p.data = formula(cr, *p.shape)
    assert repr(module) == repr(wanted) and list(module.state_dict()) == list(wanted.state_dict())
    x = formula(cr, 4, 2)
    assert module(x).tolist() == wanted(x).tolist()
    net = Net()
    back = again(net, weights_only=False)
    assert type(back) is Net and back.inner.weight.tolist() == net.inner.weight.tolist() and "mean" in back.state_dict()
    with pytest.raises(pickle.UnpicklingError, match=r"test_files\.Net"):
        again(net)


# ---- paths, file objects, devices, mapped files ----
def test_paths_and_file_objects(tmp_path: Path) -> None:
    path = tmp_path / "my.model.pt"
    for where in (path, str(path), os.fsencode(path)):
        cr.save({"x": cr.ones(3)}, where)
        assert cr.load(where)["x"].tolist() == [1, 1, 1]
    with zipfile.ZipFile(path) as z:
        names = [entry.filename for entry in z.infolist()]
        assert z.testzip() is None and z.read("my.model/byteorder").decode() == sys.byteorder
        assert len(z.read("my.model/.data/serialization_id")) == 40
    records = [
        "data.pkl",
        ".format_version",
        ".storage_alignment",
        "byteorder",
        "data/0",
        "version",
        ".data/serialization_id",
    ]
    assert names == [f"my.model/{record}" for record in records]
    places, _ = archive.read_directory(path.open("rb"), "", 0, path.stat().st_size)
    assert all(record.start % 64 == 0 for record in places.values())
    path.chmod(0o640)
    cr.save([1], path)
    assert path.stat().st_mode & 0o777 == 0o640 and cr.load(path) == [1], "replaced, with its mode"
    assert os.listdir(tmp_path) == ["my.model.pt"]
    link = tmp_path / "link.pt"
    link.symlink_to(path)
    cr.save([2], link)
    assert link.is_symlink() and cr.load(path) == [2]
    with path.open("wb") as file:
        file.write(b"before")
        cr.save([3], file)
    with path.open("rb") as reader:
        reader.seek(6)
        assert cr.load(reader) == [3]
    one = saved({"x": cr.ones(2)})
    plain = tmp_path / "plain.safetensors"
    cr.save({"x": cr.zeros(2)}, plain)
    assert cr.load(io.BytesIO(plain.read_bytes()))["x"].tolist() == [0, 0]
    plain.rename(tmp_path / "renamed.pt")
    assert cr.load(tmp_path / "renamed.pt")["x"].tolist() == [0, 0], "the content says which format it is"

    class Reads:
        """Only read, seek and tell."""

        read, seek, tell = one.read, one.seek, one.tell

    assert cr.load(Reads())["x"].tolist() == [1, 1]

    class Writes:
        """A pipe: only write."""

        data = bytearray()

        def write(self, part: bytes) -> None:
            self.data += part

    to = Writes()
    cr.save({"x": cr.ones(2)}, to)
    assert cr.load(io.BytesIO(to.data))["x"].tolist() == [1, 1]


def test_map_location() -> None:
    x = {"a": cr.ones(2), "b": cr.ones(2, device="ref")}
    tied = [cr.ones(4, device="ref")]
    tied.append(tied[0][1:])
    ways: list[tuple[Any, list[str]]] = [
        (None, ["cpu", "ref"]),
        ("ref", ["ref", "ref"]),
        (cr.Device("cpu"), ["cpu", "cpu"]),
        ({"ref": "cpu"}, ["cpu", "cpu"]),
        ({"cpu": "ref"}, ["ref", "ref"]),
        (lambda storage, location: storage, ["cpu", "cpu"]),
        (lambda storage, location: None, ["cpu", "ref"]),
        (lambda storage, location: storage.to("ref"), ["ref", "ref"]),
    ]
    for way, wanted in ways:
        assert [str(t.device) for t in again(x, map_location=way).values()] == wanted
        whole, part = again(tied, map_location=way)
        whole[2] = 5
        assert part.tolist() == [1, 5, 1]
    for bad in (3, [1]):
        with pytest.raises(TypeError, match="map_location"):
            again(x, map_location=bad)
    with pytest.raises(TypeError, match="returned a int"):
        again(x, map_location=lambda storage, location: 3)
    elsewhere = repacked(saved(x), {"data.pkl": lambda b: b.replace(b"X\3\0\0\0ref", b"X\5\0\0\0mps:0")})
    with pytest.raises(RuntimeError, match=r"'mps:0'.*map_location='cpu'"):
        cr.load(elsewhere)
    elsewhere.seek(0)
    assert [str(t.device) for t in cr.load(elsewhere, map_location="cpu").values()] == ["cpu", "cpu"]


def test_mapped(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    cr.save(nest(), path)
    x = cr.load(path, mmap=True)
    same(x, nest())
    shares(x)
    assert cr.load(path)["x"][1, 2].item() == 6, "writes stay in memory"
    cr.save([1], path)
    assert x["x"][0, 1].item() == 1, "the old file is mapped until the tensors are gone"
    with pytest.raises(ValueError, match="needs a path"):
        cr.load(saved([1]), mmap=True)
    cr.save([cr.ones(2)], path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used"):
        cr.load(path, mmap=True)
    plain = tmp_path / "x.safetensors"
    cr.save({"x": cr.ones(4)}, plain)
    for mmap in (True, False, None):
        assert cr.load(plain, mmap=mmap)["x"].tolist() == [1, 1, 1, 1]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc here to read the resident memory from")
def test_mapped_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "large.pt"
    cr.save({"x": cr.zeros(8 << 20)}, path)  # 32 MiB

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = resident()
    x = cr.load(path, mmap=True)["x"]
    assert x[5].item() == 0 and resident() - before < 8 << 20


def test_zip64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes and offsets beyond 4 GB, by a smaller limit."""
    monkeypatch.setattr(archive, "LARGE", 300)
    path = tmp_path / "large.pt"
    tensors = {"a": cr.arange(100.0), "b": cr.arange(500), "c": cr.ones(3)}
    cr.save(tensors, path)
    monkeypatch.undo()
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
    same(cr.load(path), tensors)
    monkeypatch.setattr(archive, "MANY", 3)
    cr.save(tensors, path)
    monkeypatch.undo()
    assert b"PK\6\6" in path.read_bytes()
    same(cr.load(path), tensors)
    if torch:
        same(torch.load(path), tensors)


def test_byte_order() -> None:
    """A file of a machine with the other byte order."""
    x = {"f": cr.tensor([1.5, -2.0]), "i": cr.tensor([1, -2], dtype=cr.int16), "u": cr.tensor([7], dtype=cr.uint32)}
    swap = {"data/0": 4, "data/1": 2, "data/2": 4}

    def turned(size: int) -> Callable[[bytes], bytes]:
        return lambda b: b"".join(b[i : i + size][::-1] for i in range(0, len(b), size))

    other = "big" if sys.byteorder == "little" else "little"
    edits: dict[str, Callable[[bytes], bytes]] = {name: turned(size) for name, size in swap.items()}
    same(cr.load(repacked(saved(x), {**edits, "byteorder": lambda b: other.encode()})), x)
    with pytest.raises(RuntimeError, match="byte order"):
        cr.load(repacked(saved(x), {"byteorder": lambda b: b"middle"}))


# ---- shards ----
def test_shards(tmp_path: Path) -> None:
    tensors = {f"layer.{i}": cr.full((100,), float(i)) for i in range(7)}
    names = serialization.save_sharded(tensors, tmp_path / "m", max_shard_size="1KB")
    assert names == [f"model-{i:05d}-of-00004.safetensors" for i in range(1, 5)]
    index = tmp_path / "m" / "model.safetensors.index.json"
    assert json.loads(index.read_text())["metadata"] == {"total_size": 2800}
    for where in (tmp_path / "m", index, str(index)):
        same(cr.load(where), tensors)
    assert cr.load(index, map_location="ref")["layer.3"].device == cr.Device("ref")
    assert len(serialization.save_sharded(tensors, tmp_path / "m", max_shard_size=800)) == 4
    assert serialization.save_sharded(tensors, tmp_path / "m") == ["model.safetensors"]
    assert os.listdir(tmp_path / "m") == ["model.safetensors"], "files of the earlier save are gone"
    same(cr.load(tmp_path / "m"), tensors)
    for bad in ("a lot", "5 apples", 0, "-1GB"):
        with pytest.raises(ValueError, match="max_shard_size"):
            serialization.save_sharded(tensors, tmp_path / "n", max_shard_size=bad)
    with pytest.raises(TypeError, match="'a' is a int"):
        serialization.save_sharded({"a": 3}, tmp_path / "n")  # type: ignore[dict-item]
    serialization.save_sharded(tensors, tmp_path / "m", max_shard_size="1KB")
    texts: list[Any] = [3, [], {"weight_map": 3}, {"weight_map": {"a": "../x"}}, {"weight_map": {"a": "/x"}}]
    texts += [{"weight_map": {"a": 3}}, {"weight_map": {"other": "model-00001-of-00004.safetensors"}}]
    for text in texts:
        index.write_text(json.dumps(text))
        with pytest.raises(OSError, match="index"):
            cr.load(index)
    index.write_text(json.dumps({"weight_map": {"a": "none.safetensors"}}))
    with pytest.raises(FileNotFoundError):
        cr.load(index)


# ---- names that are refused ----
class Attack:
    """Pickled as a call."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = function, args

    def __reduce__(self) -> Any:
        return self.call


def archive_of(pickled: bytes, **storages: bytes) -> io.BytesIO:
    """A file with this data.pkl."""
    file = io.BytesIO()
    writer = archive.Writer(file, "archive")
    writer.record("data.pkl", pickled)
    for key, content in storages.items():
        writer.record(f"data/{key.removeprefix('_')}", content)
    writer.record("version", b"3\n")
    writer.close()
    file.seek(0)
    return file


def test_names_are_refused(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    attacks = [
        (Attack(os.system, f"touch {witness}"), r"(posix|nt)\.system"),
        (Attack(eval, f"open({str(witness)!r}, 'w')"), r"builtins\.eval"),
        (Attack(exec, "1"), r"builtins\.exec"),
        (Attack(getattr, witness, "touch"), r"builtins\.getattr"),
        (Attack(open, str(witness), "w"), r"io\.open"),
        (Attack(cr.save, {}, str(witness)), r"chainrule\._core\.save|chainrule\.save"),
        (Point(3), r"test_files\.Point"),
        (pickle.loads, r"pickle\.loads"),
    ]
    for attack, name in attacks:
        for protocol in range(2, 6):
            pickled = pickle.dumps({"weights": [1, attack]}, protocol)
            for file in (archive_of(pickled), io.BytesIO(legacy_of(pickled))):
                with pytest.raises(pickle.UnpicklingError, match=name):
                    cr.load(file)
    assert not witness.exists()
    assert "weights_only" not in str(refused(archive_of(b"cos\nsystem\n."))), "no advice to allow this"
    assert "os.system" in str(refused(archive_of(b"cos\nsystem\n(X\2\0\0\0lstR.")))


def legacy_of(pickled: bytes) -> bytes:
    head = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    return b"".join(head) + pickled + pickle.dumps([], 2)


def refused(file: Any, **options: Any) -> Exception:
    if isinstance(file, io.BytesIO):
        file.seek(0)
    with pytest.raises(MALFORMED) as caught:
        cr.load(file, **options)
    return caught.value


REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
ODD = b"ccollections\nOrderedDict\n)R"
REFERENCE = b"(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\x000X\3\0\0\0cpuK\6tQ"  # of storage 0, 6 elements


def test_pickles_that_do_harm() -> None:
    deep = b")" + b"\x85" * 100_000  # ((((...),),),)
    wide = b"K\1" + b"2\x86" * 80  # 2^80 parts
    tensor = REBUILD + b"(" + REFERENCE + b"K\0K\6\x85K\1\x85\x89" + ODD + b"tR"
    attacks = {
        b"}" + deep + b"K\1s.": "parts",
        b"\x8f(" + wide + b"\x90.": "parts",
        b"}" + wide + b"K\1s.": "parts",
        b"ccollections\nOrderedDict\n](" + wide + b"K\1\x86e\x85R.": "parts",
        b"c__builtin__\nbytearray\n\x8a\5\xff\xff\xff\xff\x7f\x85R.": "expected|argument",
        b"c__builtin__\nset\n}K\1" + b"N" + b"s\x85R.": "",  # keys of a dict: harmless
        REBUILD + b"}b.": "attributes are set on a Allowed",
        tensor + b"}b.": "attributes are set on a Tensor",
        ODD + b"}X\4\0\0\0keysK\1sb.": "attributes",
        ODD + b"}X\x09\0\0\0__class__K\1sb.": "attributes",
        b"ctorch\nfloat32\n)R.": "not allowed",
        tensor + b")R.": "not allowed",
        b"ctorch\nTensor\n)R.": "only name",
        b"ctorch\nTensor\n)\x81.": "only name",
        b"ctorch._utils\n_rebuild_tensor_v2.__globals__\n.": "unsupported global",
        b"ctorch\nhub.load\n.": "unsupported global",
        b"cchainrule\nload\n.": "unsupported global",
        b"ctorch\ncomplex64\n.": "complex numbers",
        b"ctorch._utils\n_rebuild_sparse_tensor\n.": "sparse tensors",
        b"(ios\nsystem\n.": "opcode",
        b"(cos\nsystem\no.": "unsupported global",
        b"\x82\1.": "opcode",
        b"P0\n.": "opcode",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.": "truncated",
        b"\x96\xff\xff\xff\xff\xff\xff\xff\x7f.": "truncated",
        b"K\1r\xff\xff\xff\x7f.": "",  # a large memo index costs nothing
        b"j\xff\xff\xff\x7f.": "memo",
        b"I" + b"9" * 5000 + b"\n.": "line",
        b"K\1Q.": "reference",
        b"0.": "mark",
        b"K\1K\2.": "left on the stack",
        b"\x80\x09.": "protocol 9",
        b"a.": "empty",
        b"": "truncated",
        b"]" * 1_000_00: "truncated",
        b"c_codecs\nencode\nX\1\0\0\0aX\4\0\0\0zlib\x86R.": "encoding",
    }
    for pickled, says in attacks.items():
        file = archive_of(pickled, _0=bytes(24))
        if says:
            with pytest.raises(pickle.UnpicklingError, match=says):
                cr.load(file)
        else:
            cr.load(file)


def test_tensors_that_contradict_their_storage() -> None:
    def tensor(storage: bytes = REFERENCE, rest: bytes = b"K\0K\6\x85K\1\x85\x89") -> bytes:
        return REBUILD + b"(" + storage + rest + ODD + b"tR."

    big, huge = b"\x8a\7" + bytes(6) + b"\1", b"\x8a\x0a" + bytes(9) + b"\1"  # 2^48, 2^72
    assert cr.load(archive_of(tensor(), _0=struct.pack("<6f", *range(6)))).tolist() == [0, 1, 2, 3, 4, 5]
    wrong = {
        "seven elements": tensor(rest=b"K\0K\7\x85K\1\x85\x89"),
        "an offset behind": tensor(rest=b"K\1K\6\x85K\1\x85\x89"),
        "an offset before": tensor(rest=b"J\xff\xff\xff\xffK\1\x85K\1\x85\x89"),
        "a negative stride": tensor(rest=b"K\5K\2\x85J\xff\xff\xff\xff\x85\x89"),
        "a negative size": tensor(rest=b"K\0J\xff\xff\xff\xff\x85K\1\x85\x89"),
        "a long stride": tensor(rest=b"K\0K\2\x85" + big + b"\x85\x89"),
        "a huge size": tensor(rest=b"K\0" + huge + b"\x85K\0\x85\x89"),
        "a large product": tensor(rest=b"K\0" + big + big + b"\x86K\0K\0\x86\x89"),
        "a stride less": tensor(rest=b"K\0K\1K\1\x86K\1\x85\x89"),
        "nine axes": tensor(rest=b"K\0(" + b"K\1" * 9 + b"t(" + b"K\1" * 9 + b"t\x89"),
        "no sizes": tensor(rest=b"K\0K\1K\1\x89"),
        "texts": tensor(rest=b"X\1\0\0\0aK\6\x85K\1\x85\x89"),
        "a storage of seven": tensor(REFERENCE.replace(b"K\6", b"K\7")),
        "a storage of five": tensor(REFERENCE.replace(b"K\6", b"K\3")),
        "a huge storage": tensor(REFERENCE.replace(b"K\6", huge)),
        "a negative storage": tensor(REFERENCE.replace(b"K\6", b"J\xff\xff\xff\xff")),
        "no record": tensor(REFERENCE.replace(b"\x000X", b"\x001X")),
        "a path": tensor(REFERENCE.replace(b"X\1\0\0\x000", b"X\6\0\0\0../0/0")),
        "not a storage": tensor(b"K\6"),
        "two types": b"(" + REFERENCE + REFERENCE.replace(b"FloatS", b"IntS") + b"t.",
        "bools": tensor(REFERENCE.replace(b"Float", b"Bool").replace(b"K\6", b"K\x18")),
    }
    for what, pickled in wrong.items():
        with pytest.raises(pickle.UnpicklingError, match="damaged pickle"):
            cr.load(archive_of(pickled, _0=struct.pack("<6f", *range(6))))
            print(what)


def test_safe_globals() -> None:
    point = Point(3)
    file = saved({"p": point})
    assert serialization.get_safe_globals() == []
    with serialization.safe_globals([Point]):
        assert cr.load(file).get("p").x == 3
        assert serialization.get_safe_globals() == [Point]
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"add_safe_globals\(\[Point\]\)"):
        cr.load(file)
    try:
        serialization.add_safe_globals([(Point, "somewhere.Else")])
        assert cr.load(archive_of(b"csomewhere\nElse\nK\5\x85R.")).x == 5
        with pytest.raises(TypeError, match="x"):  # of the class itself
            cr.load(archive_of(b"csomewhere\nElse\n)R."))
    finally:
        serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []
    for bad in (3, (Point,), (Point, 3)):
        with pytest.raises((TypeError, ValueError), match="safe global"):
            serialization.add_safe_globals([bad])
    with serialization.safe_globals([Named]):
        named: Any = Named([1.0, 2.0])
        named.note = "n"
        back = again(named)
        assert back.note == "n" and back.tolist() == [1, 2] and type(back) is Named


# ---- archives that are refused ----
def repacked(file: io.BytesIO, edits: dict[str, Callable[[bytes], bytes]]) -> io.BytesIO:
    """The same records, some of them changed."""
    made = io.BytesIO()
    writer = archive.Writer(made, "archive")
    with zipfile.ZipFile(file) as z:
        for entry in z.infolist():
            name = entry.filename.partition("/")[2]
            writer.record(name, edits.get(name, bytes)(z.read(entry)))
    writer.close()
    made.seek(0)
    return made


def test_archives_are_refused(tmp_path: Path) -> None:
    file = saved({"x": cr.arange(100.0)})
    whole = file.getvalue()
    for end in [*range(0, len(whole), 97), len(whole) - 1]:
        refused(io.BytesIO(whole[:end]))
        (tmp_path / "cut.pt").write_bytes(whole[:end])
        refused(tmp_path / "cut.pt", mmap=True)
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("archive/data.pkl", bytes(50_000_000))
    assert len(bomb.getvalue()) < 100_000
    assert "declare 50000000 bytes" in str(refused(bomb))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("archive/data.pkl", random.Random(0).randbytes(1000))
        z.writestr("archive/version", "3" * 50)
    assert "is compressed" in str(refused(packed))
    for name, says in (("other.txt", "without data.pkl"), ("a/constants.pkl", "TorchScript")):
        z_file = io.BytesIO()
        with zipfile.ZipFile(z_file, "w") as z:
            z.writestr(name, "x")
            if name.startswith("a/"):
                z.writestr("a/data.pkl", "x")
        assert says in str(refused(z_file))
    twice = io.BytesIO()
    writer = archive.Writer(twice, "a")
    for _ in range(2):
        writer.record("data.pkl", b"K\1.")
    writer.close()
    assert "two records" in str(refused(twice))
    directory = whole.rindex(b"PK\1\2", 0, whole.index(b"archive/data/0", whole.index(b"PK\1\2")))
    for at, value, says in (
        (42, len(whole) - 20, "no record begins"),
        (20, 1 << 30, "declare"),
        (8, 0x801, "encrypted"),
    ):
        damaged = bytearray(whole)
        size = 2 if at == 8 else 4
        damaged[directory + at : directory + at + size] = value.to_bytes(size, "little")
        if at == 20:
            damaged[directory + 24 : directory + 28] = value.to_bytes(4, "little")
        assert says in str(refused(io.BytesIO(damaged))), says
    shifted = bytearray(whole)  # a local header that says it is longer
    local = whole.index(b"PK\3\4", 64, whole.index(b"archive/data/0"))
    local = whole.rindex(b"PK\3\4", 0, whole.index(b"archive/data/0"))
    shifted[local + 28 : local + 30] = b"\xff\xff"
    assert "ends at byte" in str(refused(io.BytesIO(shifted)))


def test_sequences_are_refused() -> None:
    whole = (GOLDEN / "legacy.pt").read_bytes()
    for end in [*range(1, len(whole), 53), len(whole) - 1]:
        refused(io.BytesIO(whole[:end]))
    assert "is a pickle of dict" in str(refused(io.BytesIO(pickle.dumps({}, 2))))
    assert "protocol 7" in str(refused(io.BytesIO(pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(7, 2))))
    kept = saved([cr.ones(3)], _use_new_zipfile_serialization=False).getvalue()
    assert "4 elements" in str(refused(io.BytesIO(kept.replace(struct.pack("<q", 3), struct.pack("<q", 4)))))
    bool_ = saved([cr.tensor([True])], _use_new_zipfile_serialization=False).getvalue()
    assert "bool" in str(refused(io.BytesIO(bool_[:-1] + b"\2")))
    large = kept.replace(b"K\3N", b"J\xff\xff\xff\x7fN")
    assert large != kept and "bytes in a file" in str(refused(io.BytesIO(large)))
    tar = (GOLDEN / "tar.pt").read_bytes()
    for end in range(512, 5 * 512, 256):
        refused(io.BytesIO(tar[:end]))


def test_other_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    for legacy, says in ((False, "a zip, as torch.save writes"), (True, "a pickle, as old versions of torch.save")):
        path.write_bytes(saved([cr.ones(3)], _use_new_zipfile_serialization=not legacy).getvalue())
        with pytest.raises(OSError, match=says):
            cr._core._load_safetensors(path)
    path.write_bytes(b"GGUF" + bytes(100))
    path.rename(tmp_path / "model.pt")
    with pytest.raises(OSError, match="GGUF of version 0"):
        cr.load(tmp_path / "model.pt")
    (tmp_path / "empty.pt").touch()
    for mmap in (False, True):
        with pytest.raises(EOFError, match="empty"):
            cr.load(tmp_path / "empty.pt", mmap=mmap)


def test_arguments(tmp_path: Path) -> None:
    for bad in (3, None, [1]):
        with pytest.raises(TypeError, match="must be a path or a file object"):
            cr.save([1], bad)
        with pytest.raises(TypeError, match="must be a path or a file object"):
            cr.load(bad)
    with pytest.raises(RuntimeError, match="pickle_module"):
        cr.load(saved([1]), pickle_module=pickle)
    for call in (lambda: cr.save([1], io.BytesIO(), json), lambda: cr.load(saved([1]), None, json, weights_only=False)):
        with pytest.raises(ValueError, match="pickle_module"):
            call()
    with pytest.raises(FileNotFoundError) as caught:
        cr.save([1], tmp_path / "none" / "x.pt")
    assert caught.value.filename == str(tmp_path / "none" / "x.pt")
    with pytest.raises(FileNotFoundError):
        cr.load(tmp_path / "none.pt")
    with pytest.raises(OSError):
        cr.save([1], tmp_path)
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        cr.save(lambda: 1, tmp_path / "x.pt")
    assert os.listdir(tmp_path) == [], "nothing is left of a save that failed"
    x = cr.ones(4)
    with pytest.raises(RuntimeError, match="different dtypes: float32 and int32"):
        cr.save([x, cr._core._storage_view(x, cr.int32, (4,), (1,), 0)], io.BytesIO())
    with pytest.raises(AttributeError, match="seekable"):
        cr.load(type("Pipe", (), {"read": lambda self, n=-1: b""})())


# ---- damaged bytes ----
FILES = {name: (GOLDEN / f"{name}.pt").read_bytes() for name in ("weights", "legacy", "tar", "adamw")}


@given(
    st.sampled_from(sorted(FILES)),
    st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=6),
    st.booleans(),
)
def test_any_bytes(name: str, changes: list[tuple[int, int]], cut: bool) -> None:
    """A value or an exception of the right kind, and no crash."""
    damaged = bytearray(FILES[name])
    for at, byte in changes:
        damaged[at % len(damaged)] = byte
    if cut and changes:
        del damaged[changes[0][0] % len(damaged) :]
    attempt(bytes(damaged), changes)


def attempt(data: bytes, said: object) -> None:
    try:
        value = cr.load(io.BytesIO(data))
    except MALFORMED:
        return
    assert isinstance(value, dict), said


def test_many_bytes() -> None:
    """The same where it matters: in the pickles and directories."""
    draw = random.Random(1)
    for name, data in FILES.items():
        crc = zlib.crc32(data)
        for _ in range(2000 if FULL else 150):
            damaged = bytearray(data)
            for _ in range(draw.randint(1, 3)):
                damaged[draw.randrange(min(len(data), 2048))] = draw.choice([0, 1, 0x7F, 0xFF, draw.randrange(256)])
            try:
                cr.load(io.BytesIO(damaged))
            except MALFORMED:
                pass
            except Exception as error:
                raise AssertionError(f"{name} ({crc:x}): {bytes(damaged)!r}") from error


@given(st.binary(max_size=60))
def test_any_pickle(body: bytes) -> None:
    for pickled in (body, b"\x80\2" + body + b".", b"}(" + body + b"u."):
        try:
            cr.load(archive_of(pickled))
        except MALFORMED:
            pass


def test_long_arrays_are_bounded(tmp_path: Path) -> None:
    """A shape of thousands of numbers is refused where it becomes too long; an array of a GGUF file is text only for
    those who ask for it."""
    header = json.dumps({"t": {"dtype": "F32", "shape": [0] * 5000, "data_offsets": [0, 0]}}).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(OSError, match="byte 3[0-9]{3}: an array is too long"):
        cr.load(path)
    key, n = b"x.y", 10_000
    entry = struct.pack("<Q", len(key)) + key + struct.pack("<IIQ", 9, 0, n) + bytes([7]) * n
    path = tmp_path / "x.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry)
    assert cr.load(path) == {} and json.loads(cr._core._load_metadata(str(path))) == {"x.y": [7] * n}
    with pytest.raises(ValueError, match="architecture"):
        cr.models.from_pretrained(path)


@pytest.mark.parametrize("old", [False, True])
def test_several_objects_in_one_stream(tmp_path: Path, old: bool) -> None:
    """Each load takes the next one, behind what else the stream begins with."""
    objects = [{"a": cr.ones(2)}, [cr.arange(3.0)], {"b": cr.zeros(70, 70), "text": "x" * 300}]
    for stream in (io.BytesIO(), (tmp_path / "several").open("w+b")):
        stream.write(b"head")
        for one in objects:
            cr.save(one, stream, _use_new_zipfile_serialization=not old)
        end = stream.tell()
        stream.seek(4)
        for one in objects:
            found = cr.load(stream)
            assert str(found) == str(one)
        assert stream.tell() == end
        with pytest.raises(EOFError):
            cr.load(stream)
        stream.seek(4)
        assert str(cr.load(stream, weights_only=False)) == str(objects[0])


def test_devices_as_objects(tmp_path: Path) -> None:
    """A device in a checkpoint is read where it is not: its name here, PyTorch's object in the drop-in."""
    cr.save({"cpu": cr.Device("cpu"), "w": cr.ones(1)}, tmp_path / "here.pt")
    assert cr.load(tmp_path / "here.pt")["cpu"] == cr.Device("cpu")
    script = (
        "import sys, chainrule.torch as torch; f = sys.argv[1]\n"
        "torch.save({'d': torch.device('cuda:7'), 'c': torch.device('cpu')}, f)\n"
        "d = torch.load(f)\n"
        "assert d['d'] == torch.device('cuda:7') and d['d'].index == 7 and d['c'].type == 'cpu'\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(cr.__file__).parent.parent)}
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "cuda.pt")], check=True, env=environment)
    alone = (
        "import sys, chainrule as cr\n"
        "d = cr.load(sys.argv[1]); assert str(d['d']) == 'cuda:7' and d['c'] == cr.Device('cpu'), d\n"
    )
    subprocess.run([sys.executable, "-c", alone, str(tmp_path / "cuda.pt")], check=True, env=environment)
