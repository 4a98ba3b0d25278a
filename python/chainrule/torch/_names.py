"""Where the names of ``chainrule.torch`` come from, and what is said of a name that is missing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import FrameType, ModuleType
from typing import Any

PACKAGE = __package__  # chainrule.torch
ROOT = PACKAGE.rpartition(".")[0]  # chainrule

# Names of PyTorch that are missing: a name or its first parts -> what to use.  The longest entry that fits is
# said.  tests/python/differences.py copies the table to docs/differences.md.
MISSING = {
    "torch": "no part of chainrule has this name; docs/differences.md lists what is missing",
    "torch.fft": "there are no complex numbers; use numpy.fft on x.numpy() for values without gradients",
    "torch.stft": "there are no complex numbers; use scipy.signal on x.numpy() for values without gradients",
    "torch.istft": "there are no complex numbers; use scipy.signal on x.numpy() for values without gradients",
    "torch.complex": "there are no complex numbers; keep the real and the imaginary part in two tensors",
    "torch.complex64": "there are no complex numbers; keep the real and the imaginary part in two tensors",
    "torch.complex128": "there are no complex numbers; keep the real and the imaginary part in two tensors",
    "torch.view_as_complex": "there are no complex numbers; write (a + bi)(c + di) as (ac - bd, ad + bc)",
    "torch.view_as_real": "there are no complex numbers; keep the real and the imaginary part on a last axis of size 2",
    "torch.polar": "there are no complex numbers; use r * cos(angle) and r * sin(angle)",
    "torch.sparse": "tensors are dense; use index_add, scatter_add or embedding",
    "torch.sparse_coo_tensor": "tensors are dense; use index_add, scatter_add or embedding",
    "torch.sparse_csr_tensor": "tensors are dense; use index_add, scatter_add or embedding",
    "torch.spmm": "tensors are dense; use mm",
    "torch.Tensor.to_sparse": "tensors are dense; keep the tensor as it is",
    "torch.nested": "tensors have one shape; pad them with torch.nn.utils.rnn.pad_sequence",
    "torch.jagged": "tensors have one shape; pad them with torch.nn.utils.rnn.pad_sequence",
    "torch.linalg": "matrix decompositions are missing; use numpy.linalg or scipy.linalg on x.numpy() for values",
    "torch.special": "no part of chainrule has this function; use scipy.special on x.numpy() for values",
    "torch.distributions": "no part of chainrule has this distribution; write its log_prob with tensor functions",
    "torch.distributed": "one process trains on one machine; use DistributedDataParallel with a world of 1",
    "torch.distributed.fsdp": "one process trains on one machine, so nothing is sharded; use the model as it is",
    "torch.distributed.rpc": "one process trains on one machine; use multiprocessing",
    "torch.distributed.tensor": "one process trains on one machine, so nothing is sharded; use the tensor as it is",
    "torch.distributed.checkpoint": "one process trains on one machine; use torch.save and torch.load",
    "torch.fx": "there is no symbolic trace; x.grad_fn and chainrule.viz show the graph of a call",
    "torch.onnx": "models are not exported; torch.save(model.state_dict(), path) writes the weights",
    "torch.export": "models are not exported; torch.save(model.state_dict(), path) writes the weights",
    "torch.quantization": "there are no quantized dtypes; use model.half() or model.bfloat16()",
    "torch.ao": "there are no quantized dtypes; use model.half() or model.bfloat16()",
    "torch.float8_e4m3fn": "there are no 8-bit floats; use bfloat16",
    "torch.float8_e5m2": "there are no 8-bit floats; use bfloat16",
    "torch._scaled_mm": "there are no 8-bit floats; use mm in bfloat16",
    "torch.library": "ops are not registered by name; use torch.autograd.Function",
    "torch.ops": "ops are not registered by name; use torch.autograd.Function",
    "torch.classes": "C++ extensions of PyTorch cannot be loaded; use torch.autograd.Function",
    "torch.utils.cpp_extension": (
        "C++ extensions of PyTorch cannot be loaded; write the op in Python with torch.autograd.Function, or in C with"
        " chainrule.h"
    ),
    "torch.utils.file_baton": "C++ extensions of PyTorch cannot be loaded",
    "torch.utils.data": "chainrule.data has no such part; use Dataset and DataLoader",
    "torch.utils.tensorboard": "install tensorboardX",
    "torch.futures": "use concurrent.futures",
    "torch.Future": "use concurrent.futures.Future",
    "torch._dynamo": "torch.compile returns the function as it is, so nothing needs to be configured",
    "torch._inductor": "torch.compile returns the function as it is, so nothing needs to be configured",
    "torch.cuda": "the device has no such control; torch.cuda.synchronize waits for it",
    "torch.cuda.nccl": "one process trains on one machine; use DistributedDataParallel with a world of 1",
    "torch.nn.attention.flex_attention": "use torch.nn.functional.scaled_dot_product_attention with attn_mask",
    "torch.nn.quantized": "there are no quantized dtypes; use model.half() or model.bfloat16()",
    "torch.nn.NonDynamicallyQuantizableLinear": "there are no quantized dtypes; use torch.nn.Linear",
    "torch.Tensor.q_scale": "there are no quantized dtypes",
    "torch.Tensor.reinforce": "PyTorch dropped it too; use torch.distributions and -log_prob * reward",
    "torch.Tensor.register_post_accumulate_grad_hook": "call the hook for each parameter after backward()",
    "torch.Tensor.real": "there are no complex numbers: the tensor is its real part",
    "torch.Tensor.imag": "there are no complex numbers: the imaginary part is 0",
}


def advice(name: str) -> str:
    """What to use in place of a missing name."""
    parts = name.split(".")
    return next(MISSING[key] for n in range(len(parts), 0, -1) if (key := ".".join(parts[:n])) in MISSING)


def _asking() -> FrameType | None:
    """The innermost frame outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(PACKAGE):
        frame = frame.f_back
    return frame


def place() -> str:
    """ "train.py:12": the line outside this package and the import system that is running."""
    frame = _asking()
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return "?" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def message(name: str) -> str:
    """What is said of a missing name."""
    return f"{name} is not in chainrule ({place()}): {advice(name)}"


def missing(name: str) -> Exception:
    """The exception for a name that a module was asked for: in ``from module import name`` an ImportError."""
    from opcode import opmap

    module, _, last = name.rpartition(".")
    frame = _asking()
    if frame is not None and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]:
        return ImportError(message(name), name=module)
    return AttributeError(message(name), name=last)


def forward(module: str, *sources: str, names: dict[str, str] | None = None) -> Callable[[str], Any]:
    """``__getattr__`` of a module that has the public names of other modules: ``from chainrule.optim import *`` at
    the first use, so that names which those gain are there.  names: single names and where they are."""

    def get(name: str) -> Any:
        if name == "__all__":
            return public(module, sources)
        full = f"torch.{module.removeprefix(PACKAGE).lstrip('.')}.{name}".replace("..", ".")
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
        here = sys.modules[module]
        for source in [names[name]] if names and name in names else sources:
            try:
                found = getattr(import_module(source), name)
            except (AttributeError, ModuleNotFoundError):
                continue
            if not (isinstance(found, ModuleType) and hasattr(here, "__path__")):
                setattr(here, name, found)
                return found
        if hasattr(here, "__path__") and find_spec(f"{module}.{name}"):
            return import_module(f"{module}.{name}")
        raise missing(full)

    return get


def public(module: str, sources: tuple[str, ...]) -> list[str]:
    """The names that ``from module import *`` brings."""
    own = {
        name
        for name, value in vars(sys.modules[module]).items()
        if name[0] != "_" and not isinstance(value, ModuleType) and getattr(value, "__module__", module) == module
    }
    for source in sources:
        try:
            found = import_module(source)
        except ImportError:
            continue
        own |= set(getattr(found, "__all__", ()))
    return sorted(own)
