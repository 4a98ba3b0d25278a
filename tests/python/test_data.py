"""chainrule.data: batches, orders, threads, resuming, and what is refused."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import pickle
import subprocess
import threading
import time
import traceback
from collections import namedtuple
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from chainrule import data
from chainrule.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    TokenFile,
    Tokenizer,
    default_collate,
    default_convert,
    get_worker_info,
)
from conftest import BUILD

try:
    import torch as _torch
except ImportError:
    _torch = None
torch: Any = _torch
WAYS: list[dict[str, Any]] = [{}, {"num_workers": 1}, {"num_workers": 3, "prefetch_factor": 1}]


class Squares(Dataset):
    """Sample i is (i, i^2); `length` may lie."""

    def __init__(self, n: int, length: int | None = None) -> None:
        self.n, self.length = n, n if length is None else length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> tuple[int, cr.Tensor]:
        if not 0 <= i < self.n:
            raise IndexError(f"there is no sample {i}")
        return i, cr.tensor([i * i])


def table(n: int) -> TensorDataset:
    return TensorDataset(cr.arange(n * 2).reshape(n, 2), cr.arange(n).float())


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(
    "size, drop", [(3, False), (3, True), (7, False), (20, True), (20, False), (None, False)], ids=str
)
def test_in_order(way: dict[str, Any], size: int | None, drop: bool) -> None:
    for dataset in (Squares(7), table(7)):
        loader = DataLoader(dataset, size, drop_last=drop, **way)
        batches = [b[-1].tolist() for b in loader]
        assert len(batches) == len(loader)
        if size is None:
            assert len(batches) == 7
            continue
        whole = [[float(i) for i in range(7)][k : k + size] for k in range(0, 7, size)]
        wanted = [b for b in whole if len(b) == size or not drop]
        if isinstance(dataset, Squares):
            assert batches == [[[v * v] for v in b] for b in wanted] and [b[0].tolist() for b in loader] == wanted
        else:
            assert batches == wanted
    if torch and size is not None:
        theirs = torch.utils.data.DataLoader([(i, float(i)) for i in range(7)], size, drop_last=drop)
        ours = DataLoader([(i, float(i)) for i in range(7)], size, drop_last=drop, **way)
        for a, b in zip(ours, theirs, strict=True):
            assert type(a) is type(b) and [(t.tolist(), str(t.dtype).split(".")[1]) for t in a] == [
                (t.tolist(), str(t.dtype).split(".")[1]) for t in b
            ]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_shuffled(way: dict[str, Any]) -> None:
    def epochs(seed: int, **more: Any) -> list[list[float]]:
        loader = DataLoader(table(101), 10, shuffle=True, generator=cr.Generator().manual_seed(seed), **way, **more)
        return [[v for _, y in loader for v in y.tolist()] for _ in range(3)]

    first = epochs(1)
    assert all(sorted(e) == [float(i) for i in range(101)] for e in first)
    assert first[0] != first[1] != first[2] and first == epochs(1) != epochs(2)
    rows = [x.tolist() for x, _ in DataLoader(table(101), 10, shuffle=True, **way)]
    assert all(a + 1 == b for batch in rows for a, b in batch), "rows stay together"
    assert [len(e) for e in epochs(1, drop_last=True)] == [100] * 3


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("given", [0, 1, 4, 10, 11, 13, 25])
def test_resumed(way: dict[str, Any], given: int) -> None:
    def loader() -> DataLoader:
        return DataLoader(table(101), 10, shuffle=True, **way)

    def stream(of: DataLoader, n: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < n:
            for _, y in of:
                found.append(y.tolist())
                if len(found) == n:
                    break
        return found

    cr.manual_seed(4)
    whole = stream(loader(), 40)
    cr.manual_seed(4)
    before = loader()
    assert stream(before, given) == whole[:given]
    state = before.state_dict()
    assert all(isinstance(v, int) for v in state.values())
    cr.manual_seed(99)
    after = loader()
    after.load_state_dict(state)
    assert stream(after, 40 - given) == whole[given:]


def test_an_epoch_that_is_left() -> None:
    loader = DataLoader(table(50), 5, shuffle=True)
    first = next(iter(loader))[1].tolist()
    second = next(iter(loader))[1].tolist()
    assert first != second and loader.state_dict()["epoch"] == 1
    a, b = iter(loader), iter(loader)
    next(a), next(b), next(b)
    assert loader.state_dict() == {"seed": loader.seed, "epoch": 3, "batch": 2}, "the newest iteration counts"


class Trips(Squares):
    def __getitem__(self, i: int) -> Any:
        if i == 7:
            self.fails(i)
        return super().__getitem__(i)

    def fails(self, i: int) -> None:
        raise ZeroDivisionError(f"sample {i}")


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_exceptions_come_with_their_trace(way: dict[str, Any]) -> None:
    seen = []
    with pytest.raises(ZeroDivisionError, match="sample 7") as e:
        for i, _ in DataLoader(Trips(20), 2, **way):
            seen.append(i.tolist())
    assert seen == [[0, 1], [2, 3], [4, 5]]
    assert {"fails", "__getitem__"} <= {frame.name for frame in traceback.extract_tb(e.tb)}


def test_what_waits_is_not_loaded_for_nobody() -> None:
    seen: list[int] = []
    go_on = threading.Event()

    class Slow(Dataset):
        def __len__(self) -> int:
            return 50

        def __getitem__(self, i: int) -> int:
            seen.append(i)
            if i:
                go_on.wait(60)
            return i

    it = iter(DataLoader(Slow(), num_workers=1, prefetch_factor=9))
    assert next(it).tolist() == [0]
    workers = [t for t in threading.enumerate() if t.name.startswith("DataLoader")]
    it.close()  # type: ignore[attr-defined]
    go_on.set()
    for t in workers:
        t.join()
    assert seen in ([0], [0, 1]), "the others were asked for, and then nobody wanted them"


def test_threads_end() -> None:
    for _ in range(3):
        for _ in DataLoader(Squares(50), 2, num_workers=2):
            break
    for thread in threading.enumerate():
        if thread.name.startswith("DataLoader"):
            thread.join(60)
    assert not [t for t in threading.enumerate() if t.name.startswith("DataLoader")]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_lying_and_empty_datasets(way: dict[str, Any]) -> None:
    assert list(DataLoader(Squares(0), 3, **way)) == [] == list(DataLoader(table(0), 3, shuffle=True, **way))
    with pytest.raises(IndexError, match="no sample 5"):
        list(DataLoader(Squares(5, 9), 2, **way))
    assert len(list(DataLoader(Squares(9, 5), 2, **way))) == 3
    with pytest.raises(ValueError):
        list(DataLoader(Squares(5, -1), 2, **way))
    short = table(5)
    short.tensors = (short.tensors[0], short.tensors[1][:3])
    with pytest.raises((IndexError, RuntimeError)):
        list(DataLoader(short, 2, shuffle=True, **way))
    with pytest.raises(IndexError):
        list(DataLoader(Squares(5), 2, sampler=[1, 7], **way))


def test_samplers_and_collate() -> None:
    assert [b[0].tolist() for b in DataLoader(Squares(9), 2, sampler=iter([3, 1, 4, 1, 5]))] == [[3, 1], [4, 1], [5]]
    assert [b[0].tolist() for b in DataLoader(Squares(9), 2, sampler=[3, 1, 4, 1, 5], drop_last=True)] == [
        [3, 1],
        [4, 1],
    ]
    grouped = DataLoader(table(9), batch_sampler=[[3, 1], [4]])
    assert [y.tolist() for _, y in grouped] == [[3, 1], [4]] and len(grouped) == 2
    assert [s[0] for s in DataLoader(Squares(3), None, sampler=[2, 0])] == [2, 0]
    assert list(DataLoader([1, 2, 3], 2, collate_fn=sum)) == [3, 3]
    four = table(4)
    batch = next(iter(DataLoader(four, 2)))
    batch[1].fill_(9)
    assert four.tensors[1].tolist() == [0, 1, 2, 3], "a batch is a copy"
    pair = namedtuple("pair", "x y")
    made = default_collate(
        [{"a": 1, "b": ("x", 1.5), "c": pair(1, True)}, {"a": 2, "b": ("y", 2.5), "c": pair(3, False)}]
    )
    assert (
        made["a"].tolist() == [1, 2]
        and made["b"][0] == ("x", "y")
        and made["b"][1].dtype == cr.float64
        and isinstance(made["c"], pair)
    )
    assert made["c"].y.dtype == cr.bool
    numpy = pytest.importorskip("numpy")
    assert default_collate([numpy.ones(3), numpy.zeros(3)]).shape == [2, 3]


BAD: list[tuple[str, dict[str, Any]]] = [
    ("batch_size", {"batch_size": 0}),
    ("batch_size", {"batch_size": 1.5}),
    ("num_workers", {"num_workers": -1}),
    ("shuffle", {"shuffle": True, "sampler": [1]}),
    ("drop_last", {"batch_size": None, "drop_last": True}),
    ("mutually exclusive", {"batch_sampler": [[1]], "batch_size": 2}),
    ("prefetch_factor", {"prefetch_factor": 2}),
    ("prefetch_factor", {"prefetch_factor": 0, "num_workers": 1}),
]


@pytest.mark.parametrize("what, options", BAD, ids=str)
def test_refuses(what: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=what):
        DataLoader(Squares(3), **options)


def test_refuses_data() -> None:
    with pytest.raises(TypeError, match="int does not"):
        DataLoader(3)
    with pytest.raises(AssertionError, match="Size mismatch"):
        TensorDataset(cr.ones(3), cr.ones(4))
    with pytest.raises(AssertionError):
        TensorDataset()
    with pytest.raises(NotImplementedError):
        Dataset()[0]
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([(1, 2), (3,)])
    with pytest.raises(RuntimeError):
        default_collate([cr.ones(2), cr.ones(3)])
    with pytest.raises(TypeError, match="object"):
        default_collate([object()])
    for state in ({}, {"seed": 1, "epoch": -1, "batch": 0}, {"seed": "a", "epoch": 0, "batch": 0}):
        with pytest.raises(ValueError, match="state"):
            DataLoader(Squares(3)).load_state_dict(state)  # type: ignore[arg-type]


# ---- tokenizers ----


def test_characters(tmp_path: Path) -> None:
    t = Tokenizer.chars("naïve\n日本")
    assert len(t) == 8 and repr(t) == "Tokenizer(8 tokens)"
    assert (
        t.encode("ann日") == [1, 3, 3, 6]
        and t.decode([1, 3, 3, 6]) == "ann日"
        and t.encode("") == []
        and t.decode([]) == ""
    )
    assert t.encode("ann日".encode()) == t.encode("ann日") and t.decode_bytes(cr.tensor([6, 7])) == "日本".encode()
    x = t.tensor("vaïn")
    assert (
        x.dtype == cr.int64
        and x.shape == [4]
        and t.decode(x) == t.decode(x.to(cr.int16)) == t.decode([0 + i for i in x.tolist()]) == "vaïn"
    )
    assert t.decode(i for i in x.tolist()) == "vaïn"  # type: ignore[arg-type]
    t.save(tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["characters"] == "\naenvï日本"
    for other in (Tokenizer.load(tmp_path / "t.json"), pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        assert other.encode("naïve\n日本") == t.encode("naïve\n日本") and len(other) == 8
    zero = Tokenizer.chars("a\0b")
    assert zero.encode("b\0") == [2, 0] and zero.decode([0, 1]) == "\0a"


def test_bytes(tmp_path: Path) -> None:
    t = Tokenizer.bytes()
    assert (
        len(t) == 256
        and t.encode("é") == [195, 169]
        and t.encode(b"\xff\0") == [255, 0]
        and t.decode_bytes([255, 0]) == b"\xff\0"
    )
    assert t.decode([104, 105, 255]) == "hi\ufffd" and t.decode([195, 169]) == "é"
    with pytest.raises(UnicodeDecodeError):
        t.decode([255], errors="strict")
    t.save(tmp_path / "t.json")
    for other in (Tokenizer.load(tmp_path / "t.json"), pickle.loads(pickle.dumps(t))):
        assert other.encode("é") == [195, 169] and len(other) == 256


def test_tokenizer_refuses(tmp_path: Path) -> None:
    t = Tokenizer.chars("abc")
    with pytest.raises(ValueError, match=r"U\+0064 'd' at byte 1 is not among the 3 characters"):
        t.encode("ad")
    with pytest.raises(ValueError, match="the text is not UTF-8 at byte 1"):
        t.encode(b"a\xff")
    with pytest.raises(ValueError, match=r"U\+FFFD"):
        t.encode("\ud800")
    for wrong in (3, -1, 2**32, 2**32 + 1):
        with pytest.raises(IndexError, match=f"token {wrong} at 1 is not below the vocabulary of 3"):
            t.decode([0, wrong])
    for bad in ([0.5], [[0, 1]], cr.ones(2)):
        with pytest.raises(TypeError, match="tokens are integers in one axis"):
            t.decode(bad)  # type: ignore[arg-type]
    for text in (None, 3, ["a"], bytearray(b"a")):
        with pytest.raises(TypeError, match="a text is str or bytes, not"):
            t.encode(text)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="a text is str or bytes, not"):
            Tokenizer.chars(text)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the text is empty"):
        Tokenizer.chars("")
    with pytest.raises(OSError):
        Tokenizer.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(OSError, match="is not a tokenizer"):
        Tokenizer.load(tmp_path / "bad.json")
    with pytest.raises(OSError):
        t.save(tmp_path / "none" / "t.json")
    for private, more in (
        ("size", ()),
        ("encode", ("a", None, False)),
        ("decode", (cr.arange(2),)),
        ("save", (str(tmp_path / "t.json"),)),
    ):
        with pytest.raises(ValueError, match="PyCapsule"):
            getattr(cr._core, f"_tokenizer_{private}")("no capsule", *more)


# ---- token files ----


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1001 bytes, counting up, as a token file of one byte each."""
    folder = tmp_path_factory.mktemp("tokens")
    text = bytes(i % 256 for i in range(1001))
    header = (
        b"CRTOKENS"
        + (1).to_bytes(4, "little")
        + (1).to_bytes(4, "little")
        + (256).to_bytes(8, "little")
        + len(text).to_bytes(8, "little")
    )
    (folder / "all.tok").write_bytes(header + text)
    return folder / "all.tok"


def test_token_file(tokens: Path) -> None:
    data = TokenFile(tokens, 4, 10, shuffle=False)
    assert (data.tokens, data.vocabulary, len(data)) == (1001, 256, 25)
    batches = list(data)
    assert len(batches) == 25 and batches[0][0].shape == [4, 10] and batches[0][0].dtype == cr.int64
    assert batches[0][0][0].tolist() == list(range(10)) and batches[0][1][0].tolist() == list(range(1, 11))
    assert [y.tolist() for _, y in data] == [y.tolist() for _, y in batches], "the next epoch"
    part = TokenFile(tokens, 2, 10, shuffle=False, start=100, stop=-1)
    assert part.tokens == 900 and next(iter(part))[0][0].tolist() == list(range(100, 110))


def test_token_file_goes_on(tokens: Path) -> None:
    whole = TokenFile(tokens, 4, 10, seed=3)
    batches = [x.tolist() for _ in range(2) for x, _ in whole]
    assert batches[:24] != batches[24:]
    half = TokenFile(tokens, 4, 10, seed=3)
    for _ in range(30):
        half.next()
    other = TokenFile(tokens, 4, 10, seed=3)
    other.load_state_dict(half.state_dict())
    assert [x.tolist() for x, _ in other] == batches[30:]
    with pytest.raises(ValueError, match="seed"):
        TokenFile(tokens, 4, 10, seed=4).load_state_dict(half.state_dict())


def test_token_file_of_the_program(tmp_path: Path) -> None:
    program = BUILD / "chainrule"
    if not program.exists():
        pytest.skip("the program chainrule is not built")
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 20)
    subprocess.run(
        [program, "tokenize", "--data", tmp_path / "text.txt", "--out", tmp_path / "text.tok"],
        capture_output=True,
        check=True,
    )
    assert next(iter(TokenFile(tmp_path / "text.tok", 2, 8)))[0].shape == [2, 8]


@pytest.mark.parametrize(("vocabulary", "width"), [(256, 1), (257, 2), (65537, 4)])
def test_token_file_saved(tmp_path: Path, vocabulary: int, width: int) -> None:
    numbers = [i * 7919 % vocabulary for i in range(100)]
    for tokens in (numbers, cr.tensor(numbers), cr.tensor(numbers, dtype=cr.int32)):
        TokenFile.save(tmp_path / "a.tok", tokens, vocabulary)
        assert (tmp_path / "a.tok").stat().st_size == 32 + 100 * width
        data = TokenFile(tmp_path / "a.tok", 1, 99, shuffle=False)
        assert data.vocabulary == vocabulary and next(iter(data))[0].tolist() == [numbers[:99]]
    with pytest.raises(IndexError, match=f"token {vocabulary} at 1 is not below"):
        TokenFile.save(tmp_path / "b.tok", [0, vocabulary], vocabulary)
    assert not (tmp_path / "b.tok").exists()


def test_token_file_refuses(tokens: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError):
        TokenFile(tmp_path / "none.tok")
    (tmp_path / "bad.tok").write_bytes(b"nothing")
    with pytest.raises(OSError, match="not a token file"):
        TokenFile(tmp_path / "bad.tok")
    for batch, context in ((0, 10), (4, 0), (4, 2000), (1000, 10), (-1, 5)):
        with pytest.raises(ValueError):
            TokenFile(tokens, batch, context)
    with pytest.raises(ValueError, match="too few"):
        TokenFile(tokens, start=5, stop=3)
    with pytest.raises(IndexError):
        TokenFile(tokens).load_state_dict({"seed": 0, "cursor": -1})
    for private in (cr._core._tokens_info, cr._core._loader_next, cr._core._loader_position):
        with pytest.raises(ValueError):
            private("no capsule")


# ---- datasets, samplers, workers ----


class Words(IterableDataset):
    """0, 1, ... n - 1, each worker its part."""

    def __init__(self, n: int, part: bool = True) -> None:
        self.n, self.part = n, part

    def __iter__(self) -> Any:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info and self.part else (0, 1)
        return iter(range(first, self.n, step))


def as_ours(m: Any) -> list[Any]:
    """What both libraries do with datasets and samplers: m has PyTorch's names."""
    x = list(range(10))
    concat = m.ConcatDataset([x[:3], x[3:4], x[4:]])
    stack = m.StackDataset(a=x, b=x[::-1])

    def error(call: Any) -> str:
        try:
            call()
        except Exception as e:
            return type(e).__name__
        return "none"

    parts = m.random_split(x, [0.25, 0.25, 0.5])
    distributed = [
        list(m.DistributedSampler(x, 4, r, shuffle=False, drop_last=d)) for r in range(4) for d in (False, True)
    ]
    random = m.RandomSampler(x, num_samples=23)
    return [
        [concat[i] for i in range(-10, 10)], len(concat), concat.cumulative_sizes,
        stack[3], len(stack), m.StackDataset(x, x)[2],
        m.Subset(x, [5, 2])[1], len(m.Subset(x, [5, 2])),
        [len(p) for p in parts], sorted(i for p in parts for i in p), [len(p) for p in m.random_split(x, [3, 7])],
        [len(p) for p in m.random_split(x, [0.33, 0.33, 0.34])],
        list(m.SequentialSampler(x)), len(random), sorted(list(random)[:10]), len(list(random)),
        sorted(m.SubsetRandomSampler([4, 7])), list(m.WeightedRandomSampler([0.0, 1.0, 0.0], 3)),
        sorted(m.WeightedRandomSampler([1.0, 1.0, 0.0], 2, replacement=False)),
        list(m.BatchSampler(x, 4, False)), list(m.BatchSampler(x, 4, True)), len(m.BatchSampler(x, 4, True)),
        distributed, len(m.RandomSampler(x, replacement=True)), len(m.DistributedSampler(x, 3, 1)),
        error(lambda: m.random_split(x, [3, 3])), error(lambda: m.ConcatDataset([])), error(lambda: concat[10]),
        error(lambda: m.StackDataset()), error(lambda: m.StackDataset(x, [1])),
        error(lambda: m.RandomSampler(x, num_samples=0)), error(lambda: m.RandomSampler(x, replacement=1)),
        error(lambda: m.WeightedRandomSampler([1.0], 0)), error(lambda: m.WeightedRandomSampler([[1.0]], 1)),
        error(lambda: m.BatchSampler(x, 0, False)), error(lambda: m.BatchSampler(x, 1, 2)),
        error(lambda: m.DistributedSampler(x, 2, 2)),
        error(lambda: m.DataLoader(x, timeout=-1)), error(lambda: m.DataLoader(x, persistent_workers=True)),
        error(lambda: m.DataLoader(x, multiprocessing_context="fork")), m.get_worker_info(),
    ]  # fmt: skip


def test_datasets_and_samplers() -> None:
    ours = as_ours(data)
    assert ours[0] == [*range(10)] * 2 and ours[3] == {"a": 3, "b": 6} and ours[5] == (2, 2)
    assert ours[8] == [3, 2, 5] and ours[9] == [*range(10)] and ours[19][2] == [8, 9]
    assert ours[22] == [[0, 4, 8], [0, 4], [1, 5, 9], [1, 5], [2, 6, 0], [2, 6], [3, 7, 1], [3, 7]]
    assert all(kind.endswith("Error") for kind in ours[25:-1]) and ours[-1] is None
    if torch:
        members: dict[str, Any] = {name: getattr(torch.utils.data, name, None) for name in data.__all__}
        theirs: Any = type("theirs", (), {name: staticmethod(member) for name, member in members.items()})
        theirs.DistributedSampler = torch.utils.data.distributed.DistributedSampler
        for i, (a, b) in enumerate(zip(ours, as_ours(theirs), strict=True)):
            assert a == b, i
    g = [cr.Generator().manual_seed(3) for _ in range(2)]
    assert list(data.RandomSampler(range(9), generator=g[0])) == list(data.RandomSampler(range(9), generator=g[1]))
    sampler = data.DistributedSampler(range(20), 2, 0)
    first = list(sampler)
    sampler.set_epoch(1)
    assert first != list(sampler)
    other = data.DistributedSampler(range(20), 2, 1)
    assert sorted(first + list(other)) == [*range(20)]
    both: Any = table(3) + table(2)
    kind: Any = Dataset
    assert len(both) == 5 and both[4][1].item() == 1 and kind[int] is kind
    loader = DataLoader(table(7), 3)
    assert list(loader.sampler) == [*range(7)] and list(loader.batch_sampler) == [[0, 1, 2], [3, 4, 5], [6]]


def test_iterable_datasets() -> None:
    def numbers(**options: Any) -> list[Any]:
        return [b.tolist() if isinstance(b, cr.Tensor) else b for b in DataLoader(Words(10), **options)]

    assert numbers(batch_size=4) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert numbers(batch_size=4, drop_last=True) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert numbers(batch_size=None) == [*range(10)]
    assert numbers(batch_size=2, num_workers=2) == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]
    assert numbers(batch_size=None, num_workers=3) == [*range(10)]
    whole = DataLoader(Words(3, part=False), None, num_workers=2)
    assert list(whole) == [0, 0, 1, 1, 2, 2], "each worker goes over all of it"
    loader = DataLoader(Words(10), 2)
    it = iter(loader)
    next(it), next(it)
    again = DataLoader(Words(10), 2)
    again.load_state_dict(loader.state_dict())
    assert [b.tolist() for b in again] == [[4, 5], [6, 7], [8, 9]]
    both: Any = Words(2) + Words(3)
    assert list(data.ChainDataset([Words(2), Words(3)])) == list(both) == [0, 1, 0, 1, 2]
    for options in ({"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}):
        with pytest.raises(ValueError, match="IterableDataset"):
            DataLoader(Words(3), **options)
    with pytest.raises(NotImplementedError):
        iter(IterableDataset())


@pytest.mark.parametrize("persistent", [False, True])
def test_workers(persistent: bool) -> None:
    meet = threading.Barrier(3)  # three workers load at the same time, or this breaks
    begun: list[int] = []

    class Meeting(Dataset):
        def __len__(self) -> int:
            return 9

        def __getitem__(self, i: int) -> tuple[int, int, int]:
            meet.wait(60)
            info = get_worker_info()
            assert info is not None and info.dataset is self and info.num_workers == 3
            return i, info.id, info.seed - info.id

    loader = DataLoader(Meeting(), num_workers=3, worker_init_fn=begun.append, persistent_workers=persistent)
    for _ in range(2):
        found = [(i.item(), worker.item(), seed.item()) for i, worker, seed in loader]
        assert [f[0] for f in found] == [*range(9)] and {f[1] for f in found} == {0, 1, 2}
        assert {f[2] for f in found} == {loader.seed}
    assert sorted(begun) == ([0, 1, 2] if persistent else [0, 0, 1, 1, 2, 2])
    assert get_worker_info() is None


def test_workers_that_fail() -> None:
    for dataset in (Trips(20), Words(3)):

        def fails(i: int) -> None:
            raise KeyError(f"init {i}")

        with pytest.raises(KeyError, match="init 0") as caught:
            list(DataLoader(dataset, num_workers=1, worker_init_fn=fails))
        assert caught.value.__notes__[0] == "in DataLoader worker 0 of 1"
    with pytest.raises(ZeroDivisionError) as failed:
        list(DataLoader(Trips(20), 2, num_workers=2))
    assert failed.value.__notes__[0] in [f"in DataLoader worker {i} of 2" for i in range(2)]
    go_on = threading.Event()

    class Waits(Squares):
        def __getitem__(self, i: int) -> Any:
            go_on.wait(60)
            return super().__getitem__(i)

    with pytest.raises(RuntimeError, match="timed out after 0.01 seconds"):
        list(DataLoader(Waits(3), num_workers=1, timeout=0.01))
    go_on.set()


class Numbered(Dataset):
    """Large and small tensors, the process and the worker's seed."""

    def __init__(self, what: str = "") -> None:
        self.what = what

    def __len__(self) -> int:
        return 11

    def __getitem__(self, i: int) -> Any:
        if i == 5 and self.what == "raises":
            raise KeyError("five")
        if i == 5 and self.what == "exits":
            os._exit(3)
        if self.what == "waits":
            time.sleep(60)
        info = get_worker_info()
        assert info is not None and cr.initial_seed() == info.seed
        return cr.full((5000,), i, dtype=cr.float64), i, os.getpid(), {"seed": info.seed}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(method: str) -> None:
    """Batches of processes: in order, in memory that the reader may write, for as many epochs."""
    loader = DataLoader(Numbered(), 2, num_workers=2, multiprocessing_context=method, persistent_workers=True)
    seen = []
    for _ in range(2):
        for large, i, pids, seeds in loader:
            assert large.shape == (len(i), 5000) and (large == i.view(-1, 1)).all() and large.add_(1).min() > 0
            seen += [(int(n), int(p), int(s)) for n, p, s in zip(i, pids, seeds["seed"], strict=True)]
    assert [n for n, _, _ in seen] == [*range(11)] * 2
    assert {(p, s) for _, p, s in seen[:11]} == {(p, s) for _, p, s in seen[11:]} and len({p for _, p, _ in seen}) == 2
    assert os.getpid() not in {p for _, p, _ in seen} and {s for _, _, s in seen} == {loader.seed, loader.seed + 1}
    first = iter(loader)
    next(first)
    assert len(list(loader)) == 6, "answers of an iteration that was left are dropped"
    with pytest.raises(RuntimeError, match="newer iteration"):
        next(first)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_processes_that_fail(capfd: pytest.CaptureFixture[str]) -> None:
    def load(what: str, **options: Any) -> list[Any]:
        return list(DataLoader(Numbered(what), 2, num_workers=2, multiprocessing_context="fork", **options))

    def fails(i: int) -> None:
        raise Unsent(f"init {i}")

    with pytest.raises(KeyError, match="five") as failed:
        load("raises")
    assert failed.value.__notes__[0] == "in DataLoader worker 0 of 2"
    assert "in __getitem__" in failed.value.__notes__[1] and 'raise KeyError("five")' in failed.value.__notes__[1]
    with pytest.raises(RuntimeError, match=r"worker 0 \(pid \d+\) exited unexpectedly with exit code 3"):
        load("exits")
    with pytest.raises(RuntimeError, match="timed out after 0.01 seconds"):
        load("waits", timeout=0.01)
    with pytest.raises(RuntimeError, match="Unsent: init 0"):
        load("", worker_init_fn=fails)
    streams = DataLoader(Words(10), 2, num_workers=2, multiprocessing_context=multiprocessing.get_context("fork"))
    for _ in range(2):
        assert [x.tolist() for x in streams] == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]
    for wrong, kind in (("thread-like", ValueError), (3, TypeError)):
        with pytest.raises(kind, match="multiprocessing_context option should"):
            DataLoader(Numbered(), num_workers=1, multiprocessing_context=wrong)
    assert DataLoader(Numbered(), num_workers=1, multiprocessing_context="thread").multiprocessing_context is None
    assert capfd.readouterr() == ("", ""), "workers print nothing"
    assert not [p for p in multiprocessing.active_children() if p.name.startswith("DataLoader")]


class Unsent(Exception):
    """It cannot be sent to another process."""

    def __reduce__(self) -> Any:
        raise TypeError("no pickle")


def test_batches_at_once() -> None:
    class AtOnce(Squares):
        def __getitems__(self, numbers: list[int]) -> list[int]:
            return [-i for i in numbers]

    assert next(iter(DataLoader(AtOnce(9), 3))).tolist() == [0, -1, -2]
    assert next(iter(DataLoader(data.Subset(AtOnce(9), [4, 5]), 2))).tolist() == [-4, -5]

    class Doubled(TensorDataset):
        def __getitem__(self, i: int) -> Any:
            return super().__getitem__(i)[0] * 2

    assert next(iter(DataLoader(Doubled(cr.arange(4)), 4))).tolist() == [0, 2, 4, 6]
    numpy = pytest.importorskip("numpy")
    made = default_convert({"a": numpy.ones(2), "b": ("x", numpy.zeros(1), 3)})
    assert isinstance(made["a"], cr.Tensor) and made["b"][0] == "x" and isinstance(made["b"][1], cr.Tensor)
    assert isinstance(next(iter(DataLoader([numpy.ones(2)], None))), cr.Tensor)


def test_prefetch_factor_without_workers() -> None:
    assert DataLoader([1, 2]).prefetch_factor is None
    assert DataLoader([1, 2], num_workers=1).prefetch_factor == 2
    assert DataLoader([1, 2], num_workers=1, prefetch_factor=3).prefetch_factor == 3
    assert list(DataLoader([1, 2], batch_size=None)) == [1, 2]
