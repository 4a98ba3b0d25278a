"""What only PyTorch's history explains: tensor types by name, old methods of tensors, storages.

Importing this file adds the methods to ``chainrule.Tensor``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import chainrule as cr
from chainrule import _core

from ._memory import from_file, share

DTYPES = {
    "FloatTensor": cr.float32,
    "DoubleTensor": cr.float64,
    "HalfTensor": cr.float16,
    "BFloat16Tensor": cr.bfloat16,
    "ByteTensor": cr.uint8,
    "CharTensor": cr.int8,
    "ShortTensor": cr.int16,
    "IntTensor": cr.int32,
    "LongTensor": cr.int64,
    "BoolTensor": cr.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class _Named:
    """A constant with a name, as torch.strided."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


class layout(_Named):  # noqa: N801, PyTorch's name
    """How elements lie: every tensor is strided."""


class memory_format(_Named):  # noqa: N801, PyTorch's name
    """The order of axes in memory that a copy may have; results are the same for each."""


# ---- devices ----


class _DeviceMeta(type):
    def __instancecheck__(cls, obj: object) -> bool:
        return isinstance(obj, cr.Device) or type.__instancecheck__(cls, obj)


class device(str, metaclass=_DeviceMeta):  # noqa: N801, PyTorch's name
    """A name of a device: it may be one that is not here, until a tensor is put there.  A str, for chainrule's
    functions: chainrule's name of the device."""

    type: str
    index: int | None  # type: ignore[assignment]
    _before: list[cr.Device]

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> device:  # noqa: A002, as PyTorch's
        if isinstance(type, bool) or not isinstance(type, int | str | cr.Device):
            raise TypeError(f"device(): argument 'type' must be str, int or device, not {_name_of(type)}")
        text = f"cuda:{type}" if isinstance(type, int) else str(type)
        kind, colon, number = text.partition(":")
        if colon and (index is not None or not number.isdigit()):
            raise RuntimeError(
                f"type (string) must not include an index because index was passed explicitly: {text}"
                if index is not None
                else f"Invalid device string: '{text}'"
            )
        if not kind.isidentifier():
            raise RuntimeError(f"Invalid device string: '{text}'")
        at = int(number) if colon else index
        if kind == "cpu" and at:
            raise RuntimeError(f"there is one cpu: {text}")
        self = super().__new__(cls, f"{kind}:{at or 0}" if at or kind == "cuda" else kind)
        self.type, self.index = kind, at
        return self

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (")" if self.index is None else f", index={self.index})")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, device):
            index = getattr(other, "index", None)
            return (self.type, self.index or 0) == (other.type, index or 0)
        return isinstance(other, str) and str(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(str.__str__(self))

    def __reduce__(self) -> Any:
        return device, (self.type, self.index)

    def __enter__(self) -> device:
        self.__dict__.setdefault("_before", []).append(cr.get_default_device())
        cr.set_default_device(str.__str__(self))
        return self

    def __exit__(self, *exception: object) -> None:
        cr.set_default_device(self._before.pop())


def _name_of(x: object) -> str:
    return type(x).__name__


# ---- torch.Tensor and the FloatTensor family ----


class _TensorMeta(type):
    """``isinstance(x, torch.Tensor)`` is true for every tensor of chainrule, and for FloatTensor by dtype and device.
    What is set on ``torch.Tensor`` is set on chainrule's class."""

    _dtype: cr.dtype | None
    _cuda: bool

    def __instancecheck__(cls, obj: object) -> bool:
        if "_dtype" not in cls.__dict__:  # a user's subclass
            return type.__instancecheck__(cls, obj)
        if not isinstance(obj, cr.Tensor):
            return False
        return cls._dtype is None or (obj.dtype is cls._dtype and obj.is_cuda == cls._cuda)

    def __subclasscheck__(cls, sub: type) -> bool:
        return issubclass(sub, cr.Tensor) if cls.__dict__.get("_dtype", 0) is None else type.__subclasscheck__(cls, sub)

    def __eq__(cls, other: object) -> bool:
        return cls is other or (other is cr.Tensor and cls.__dict__.get("_dtype", 0) is None)

    def __hash__(cls) -> int:
        return hash(cr.Tensor) if cls.__dict__.get("_dtype", 0) is None else type.__hash__(cls)

    def __setattr__(cls, name: str, value: object) -> None:
        if cls.__dict__.get("_dtype", 0) is None:
            setattr(cr.Tensor, name, value)
        else:
            type.__setattr__(cls, name, value)

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>" if "_dtype" in cls.__dict__ else type.__repr__(cls)


class Tensor(cr.Tensor, metaclass=_TensorMeta):
    """PyTorch's constructor: ``Tensor(2, 3)`` takes sizes, ``Tensor([1, 2])`` data; the default dtype; no gradient."""

    _dtype = None
    _cuda = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        t = _made(cls._dtype or cr.get_default_dtype(), args, kwargs, cls._cuda)
        return t if "_dtype" in cls.__dict__ else _core._alias(t, cls, False)

    @staticmethod
    def _make_subclass(cls: type, data: cr.Tensor, require_grad: bool = False) -> Any:
        return _core._alias(data, cls, require_grad)


def _made(dtype: cr.dtype, args: tuple[Any, ...], kwargs: dict[str, Any], cuda: bool = False) -> cr.Tensor:
    """A tensor of sizes, or a copy of data."""
    place: dict[str, Any] = (
        {"device": str.__str__(kwargs["device"])} if kwargs.get("device") else {"device": "cuda"} if cuda else {}
    )
    data = args[0] if args else kwargs.get("data", ())
    if not args and "data" not in kwargs:
        return cr.empty(0, dtype=dtype, **place)
    if isinstance(data, cr.Size):
        return cr.empty(data, dtype=dtype, **place)
    if isinstance(data, int) or (isinstance(data, cr.Tensor) and len(args) > 1):
        return cr.empty([int(n) for n in args], dtype=dtype, **place)
    if len(args) > 1:
        raise TypeError(f"new(): data must be a sequence, or all arguments sizes, not {_name_of(data)}")
    if isinstance(data, Storage):
        data = data._tensor
    if isinstance(data, cr.Tensor) and data.dtype is dtype and not place:
        return data.detach()  # over the same memory
    return cr.tensor(data, dtype=dtype, **place)


def _family(cuda: bool) -> dict[str, Any]:
    module = __name__ + (".cuda" if cuda else "")
    return {
        name: _TensorMeta(name, (Tensor,), {"_dtype": dtype, "_cuda": cuda, "dtype": dtype, "__module__": module})
        for name, dtype in DTYPES.items()
    }


CUDA_TYPES = _family(True)
_TYPES = _family(False)
FloatTensor, DoubleTensor = _TYPES["FloatTensor"], _TYPES["DoubleTensor"]
HalfTensor, BFloat16Tensor = _TYPES["HalfTensor"], _TYPES["BFloat16Tensor"]
ByteTensor, CharTensor = _TYPES["ByteTensor"], _TYPES["CharTensor"]
ShortTensor, IntTensor, LongTensor = _TYPES["ShortTensor"], _TYPES["IntTensor"], _TYPES["LongTensor"]
BoolTensor = _TYPES["BoolTensor"]


def typename(obj: Any) -> str:
    """ "torch.FloatTensor" of a tensor, else the name of the class."""
    if isinstance(obj, cr.Tensor):
        return str(type_(obj))
    kind = obj if isinstance(obj, type) else type(obj)
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ not in ("", "builtins") else kind.__qualname__


def _type_named(kind: Any) -> tuple[cr.dtype, bool | None]:
    """The dtype, and whether it is CUDA's (None: either), of a dtype, a class or a name of one."""
    if isinstance(kind, cr.dtype):
        return kind, None
    if isinstance(kind, _TensorMeta) and kind._dtype is not None:
        return kind._dtype, kind._cuda
    if isinstance(kind, str):
        module, _, name = kind.rpartition(".")
        if name in DTYPES and module in ("torch", "torch.cuda"):
            return DTYPES[name], module == "torch.cuda"
        if name == "Tensor" and module == "torch":
            return cr.get_default_dtype(), False
    if kind == Tensor:
        return cr.get_default_dtype(), False
    raise ValueError(f"invalid type: {kind!r}")


def type_(self: cr.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """Without an argument the name of the type, "torch.FloatTensor"; else a copy in that dtype, or on that device."""
    if dtype is None:
        return f"torch.{'cuda.' if self.is_cuda else ''}{NAMES.get(self.dtype, str(self.dtype))}"
    target, cuda = _type_named(dtype)
    place = None if cuda is None or cuda == self.is_cuda else "cuda" if cuda else "cpu"
    return self.to(dtype=target) if place is None else self.to(place, target)


def set_default_tensor_type(t: Any) -> None:
    """The dtype, and for torch.cuda.FloatTensor the device, of tensors made without one."""
    dtype, cuda = _type_named(t)
    cr.set_default_dtype(dtype)
    if cuda is not None:
        cr.set_default_device("cuda" if cuda else "cpu")


# ---- storages ----


class Storage:
    """The memory under a tensor, as a vector: what ``x.storage()`` gives."""

    def __init__(self, tensor: cr.Tensor) -> None:
        self._tensor = tensor

    def __len__(self) -> int:
        return self._tensor.numel()

    size = __len__

    def __getitem__(self, key: Any) -> Any:
        return type(self)(self._tensor[key]) if isinstance(key, slice) else self._tensor[key].item()

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> Storage:
        """The bytes of a file as memory; shared: writing to it writes to the file."""
        return cls(from_file(filename, shared, nbytes, dtype=cr.uint8))

    def untyped(self) -> Storage:
        return UntypedStorage(self._tensor)

    def __dlpack__(self, **options: Any) -> Any:
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._tensor.__dlpack_device__()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._tensor[key] = value

    def tolist(self) -> list[Any]:
        found: list[Any] = self._tensor.tolist()
        return found

    def nbytes(self) -> int:
        return self._tensor.nbytes

    def data_ptr(self) -> int:
        return self._tensor.data_ptr()

    def element_size(self) -> int:
        return self._tensor.element_size()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Storage) and self.data_ptr() == other.data_ptr()

    def __hash__(self) -> int:
        return hash(self.data_ptr())

    @property
    def dtype(self) -> cr.dtype:
        return self._tensor.dtype

    @property
    def device(self) -> cr.Device:
        return self._tensor.device


class UntypedStorage(Storage):
    """The memory as bytes: its size is ``nbytes``."""

    def __len__(self) -> int:
        return self.nbytes()

    size = __len__

    def element_size(self) -> int:
        return 1


def untyped_storage(self: cr.Tensor) -> UntypedStorage:
    """The same memory as bytes."""
    return UntypedStorage(storage(self)._tensor)


def storage(self: cr.Tensor) -> Storage:
    """The memory from the tensor's first element to its last, and what lies before unless this is a view of a part."""
    t = self.detach()
    n = 1 + sum((size - 1) * step for size, step in zip(t.shape, t.strides, strict=True)) if t.numel() else 0
    first = t.storage_offset() if t.numel() else 0
    try:
        return Storage(t.as_strided((first + n,), (1,), 0))
    except RuntimeError:  # a view of a part
        return Storage(t.as_strided((n,), (1,)))


# ---- methods ----


def new(self: cr.Tensor, *args: Any, device: Any = None) -> cr.Tensor:
    """``torch.Tensor(...)`` with this tensor's dtype and device."""
    return _made(self.dtype, args, {"device": device or str(self.device)})


def byte(self: cr.Tensor, memory_format: object = None) -> cr.Tensor:
    """The values as uint8."""
    return self.to(cr.uint8)


def char(self: cr.Tensor, memory_format: object = None) -> cr.Tensor:
    """The values as int8."""
    return self.to(cr.int8)


def get_device(self: cr.Tensor) -> int:
    """The number of the tensor's GPU, -1 for the processor."""
    return -1 if self.device.type in ("cpu", "ref") else self.device.index or 0


def ndimension(self: cr.Tensor) -> int:
    """The number of axes."""
    return self.ndim


def dim_order(self: cr.Tensor, **kwargs: Any) -> tuple[int, ...]:
    """The axes by falling stride."""
    return tuple(sorted(range(self.ndim), key=lambda i: -self.strides[i]))


def itself(self: cr.Tensor, *args: Any, **kwargs: Any) -> cr.Tensor:
    """The tensor: there is nothing to do."""
    return self


def backward(
    self: cr.Tensor,
    gradient: cr.Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
    retain_variables: bool | None = None,
) -> None:
    """``Tensor.backward``; retain_variables is an old name of retain_graph."""
    _backward(self, gradient, retain_graph if retain_variables is None else retain_variables, create_graph, inputs)


_backward = cr.Tensor.backward


def apply_(self: cr.Tensor, function: Callable[[Any], Any]) -> cr.Tensor:
    """Writes ``function`` of each element, one at a time."""
    return _filled(self, [function(v) for v in self.detach().flatten().tolist()])


def map_(self: cr.Tensor, tensor: cr.Tensor, function: Callable[[Any, Any], Any]) -> cr.Tensor:
    """Writes ``function`` of each element and the one of ``tensor``, one pair at a time."""
    others = tensor.detach().expand_as(self).flatten().tolist()
    values = self.detach().flatten().tolist()
    return _filled(self, [function(a, b) for a, b in zip(values, others, strict=True)])


def _filled(self: cr.Tensor, values: list[Any]) -> cr.Tensor:
    if self.requires_grad:
        raise RuntimeError("Can't call apply_() on Variable that requires grad. Use var.detach().apply_().")
    with cr.no_grad():
        return self.copy_(cr.tensor(values, dtype=self.dtype, device=self.device).view(self.shape))


def resize_(self: cr.Tensor, *sizes: Any, memory_format: object = None) -> cr.Tensor:
    """Gives the tensor itself another shape: the same elements in order, new memory where there are too few."""
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    shape = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    wanted, flat = 1, self.contiguous().view(-1)
    for size in shape:
        wanted *= size
    if wanted > flat.numel():
        more = cr.empty(wanted, dtype=self.dtype, device=self.device)
        more[: flat.numel()] = flat
        flat = more
    self.data = flat[:wanted].view(shape)
    return self


def resize_as_(self: cr.Tensor, the_template: cr.Tensor, memory_format: object = None) -> cr.Tensor:
    """``resize_`` to the shape of another tensor."""
    return resize_(self, the_template.shape)


def set_(self: cr.Tensor, source: Any = None, *rest: Any) -> cr.Tensor:
    """Puts the tensor over the memory of another one."""
    self.data = cr.empty(0, dtype=self.dtype) if source is None else getattr(source, "_tensor", source)
    return self


def share_memory_(self: cr.Tensor) -> cr.Tensor:
    """Moves the elements to memory that processes share (``multiprocessing``)."""
    return share(self)


def is_shared(self: cr.Tensor) -> bool:
    """Do processes share the memory?"""
    return getattr(self, "_shared", None) is not None


def sum_to_size(self: cr.Tensor, *size: Any) -> cr.Tensor:
    """The sum over the axes that ``expand`` would repeat."""
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    if len(shape) > self.ndim or cr.broadcast_shapes(shape, self.shape) != self.shape:
        raise RuntimeError(f"size {shape} is not expandable to size {tuple(self.shape)}.")
    lead = self.ndim - len(shape)
    axes = [*range(lead), *(i + lead for i, n in enumerate(shape) if n == 1 and self.shape[i + lead] != 1)]
    if shape == self.shape:
        return self
    return (self.sum(axes, keepdim=True) if axes else self).view(shape)


def as_subclass(self: cr.Tensor, cls: type) -> Any:
    """An instance of a subclass of Tensor over the same memory."""
    return self if cls in (cr.Tensor, Tensor) else _core._alias(self, cls, self.requires_grad)


METHODS: dict[str, Any] = {
    "type": type_,
    "adjoint": lambda self: self.transpose(-2, -1),
    "detach_copy": lambda self: self.detach().clone(),
    "const_data_ptr": lambda self: self.data_ptr(),
    "storage_type": lambda self: Storage,
    "sgn": lambda self: self.sign(),
    "is_conj": lambda self: False,
    "is_neg": lambda self: False,
    "is_complex": lambda self: False,
    "is_inference": lambda self: False,
    "is_distributed": lambda self: False,
    "is_coalesced": lambda self: True,
    "is_pinned": lambda self, device=None: False,
    "is_nonzero": lambda self: bool(self),
    "is_signed": lambda self: self.dtype.is_signed,
    "is_same_size": lambda self, other: self.shape == other.shape,
    "is_set_to": lambda self, tensor: (
        self.data_ptr() == tensor.data_ptr() and self.shape == tensor.shape and self.stride() == tensor.stride()
    ),
    "record_stream": lambda self, stream: None,
}
METHODS |= {
    f.__name__: f
    for f in (new, byte, char, get_device, ndimension, dim_order, backward, apply_, map_, resize_, resize_as_)
}
METHODS |= {f.__name__: f for f in (set_, share_memory_, is_shared, sum_to_size, as_subclass, storage, untyped_storage)}
METHODS |= dict.fromkeys(
    ("pin_memory", "to_dense", "to_sparse", "coalesce", "resolve_conj", "resolve_neg", "conj", "to_mkldnn"), itself
)


def _later(module: str, name: str) -> Callable[..., Any]:
    """A method that is a function of a module of this package, which its first call imports."""

    def method(self: cr.Tensor, *args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(f"{__package__}.{module}"), name)(self, *args, **kwargs)

    method.__name__ = name
    return method


METHODS |= {
    name: _later("_composed", name)
    for name in """angle as_strided_scatter igamma igammac isreal mvlgamma narrow_copy new_empty_strided nonzero_static
    polygamma put put_ unsafe_chunk unsafe_split""".split()
}
METHODS |= {
    name: _later("_linalg", name)
    for name in """cholesky cholesky_inverse cholesky_solve det geqrf inverse logdet lu lu_solve matrix_exp matrix_power
    orgqr ormqr pinverse qr slogdet svd triangular_solve""".split()
}
PROPERTIES: dict[str, Any] = {
    name: property(lambda self: False)
    for name in """is_sparse is_sparse_csr is_quantized is_mkldnn is_mps is_xpu is_xla is_ipu is_mtia is_maia
    is_vulkan is_nested volatile""".split()
}
PROPERTIES |= {
    "is_cpu": property(lambda self: self.device.type == "cpu"),
    "real": property(lambda self: self),
    "mH": property(lambda self: self.mT),
    "H": property(lambda self: self.t()),
    "layout": property(lambda self: sys.modules[__package__].strided),
    "names": property(lambda self: (None,) * self.ndim),
    "output_nr": property(lambda self: 0),
}

for _name, _value in (METHODS | PROPERTIES).items():
    if not hasattr(cr.Tensor, _name) or _name == "backward":
        setattr(cr.Tensor, _name, _value)
