"""Writes tests/golden/files: files of torch.save for tests of the reader that run without PyTorch.

use: tests/golden/files.py        needs PyTorch; the files are committed

weights.pt   the zip format: views, tied memory, strides, all dtypes, parameters, nests
legacy.pt    the format before the zip format
tar.pt       the tar format, which no PyTorch writes today: written here after PyTorch's reader
module.pt    a whole module
adamw.pt, sgd.pt   model and optimizer after three steps, and the losses of the next three
"""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import torch

HERE = Path(__file__).resolve().parent / "files"
DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 uint16 uint32 uint64".split()


def nest(dtypes: list[str]) -> dict[str, Any]:
    """What weights.pt and legacy.pt hold."""
    x = torch.arange(12.0).reshape(3, 4)
    tied = torch.nn.Parameter(torch.tensor([1.5, -2.5]))
    state = OrderedDict(a=tied, b=tied)
    state._metadata = OrderedDict({"": {"version": 1}})  # type: ignore[attr-defined]
    return {
        "x": x,
        "transposed": x.T,
        "row": x[1],
        "column": x[:, 2],
        "expanded": x[0].expand(2, 4),
        "parameter": torch.nn.Parameter(x),
        "state": state,
        "requires": torch.ones(2, requires_grad=True),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 3),
        "dtypes": {name: torch.tensor([0, 1, 1]).to(getattr(torch, name)) for name in dtypes},
        "rest": [x.shape, torch.float32, torch.device("cpu"), (1, -2, 2**70, 2.5, None, True), "é", b"\0\xff", {3}],
    }


def tar(path: Path) -> None:
    """{"x": (2, 3), "t": its transpose} in the tar format."""
    storages, tensors = io.BytesIO(), io.BytesIO()
    protocol = 2
    pickle.dump(1, storages, protocol)
    pickle.dump((7, "cpu", torch.FloatStorage), storages, protocol)
    storages.write(struct.pack("<q6f", 6, *range(6)))
    pickle.dump([], storages, protocol)
    pickle.dump(2, tensors, protocol)
    for key, size, stride in ((1, (2, 3), (3, 1)), (2, (3, 2), (1, 3))):
        pickle.dump((key, 7, torch.FloatTensor), tensors, protocol)
        tensors.write(struct.pack("<2i5q", 2, 0, *size, *stride, 0))

    class Tensors(pickle.Pickler):
        def persistent_id(self, obj: object) -> object:
            return {"x": "1", "t": "2"}.get(obj.name) if isinstance(obj, Stand) else None

    class Stand:
        def __init__(self, name: str) -> None:
            self.name = name

    pickled = io.BytesIO()
    Tensors(pickled, protocol).dump({"x": Stand("x"), "t": Stand("t")})
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in (("storages", storages), ("tensors", tensors), ("pickle", pickled)):
            info = tarfile.TarInfo(name)
            info.size = len(content.getvalue())
            archive.addfile(info, io.BytesIO(content.getvalue()))


def formula(*shape: int) -> torch.Tensor:
    return torch.sin(torch.arange(1.0, 1 + torch.Size(shape).numel())).reshape(shape)


def training(name: str, make: Any) -> None:
    """Three steps, a file, three more steps, whose losses are in the file."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(formula(*p.shape))
    optimizer = make(model.parameters())
    x, y = formula(5, 3), formula(5, 1).cos()
    losses, saved = [], b""
    for step in range(6):
        if step == 3:
            file = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            saved = file.getvalue()
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    torch.save({**torch.load(io.BytesIO(saved)), "losses": losses[3:]}, HERE / f"{name}.pt")


def main() -> None:
    HERE.mkdir(exist_ok=True)
    torch.save(nest(DTYPES), HERE / "weights.pt")
    torch.save(nest(DTYPES[:-3]), HERE / "legacy.pt", _use_new_zipfile_serialization=False)
    tar(HERE / "tar.pt")
    module = torch.nn.Sequential(torch.nn.Linear(2, 3, bias=False), torch.nn.ReLU(), torch.nn.LayerNorm(3))
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(formula(*p.shape))
    torch.save(module, HERE / "module.pt")
    training("adamw", lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1))
    training("sgd", lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01))


if __name__ == "__main__":
    main()
