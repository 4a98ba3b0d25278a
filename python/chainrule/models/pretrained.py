"""Folders in Hugging Face's layout: config.json, and weights in one file or several. A model says how
its names and numbers are written there (the class variables of ``Decoder``)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _core, nn
from .._core import Device, Generator, Tensor
from ..data.chat import Chat
from ..nn import Parameter
from ..nn.evaluating import evaluating
from ..nn.init import without_values
from ..nn.quantized import replaced
from ..serialization import load
from ..serialization.sharded import bytes_of, load_sharded

if TYPE_CHECKING:
    from ..data import Tokenizer
    from .decoder import Decoder

__all__ = ["Settings", "build", "is_gguf", "read", "read_config", "save", "save_gguf"]

Model = TypeVar("Model", bound="Decoder")
FILES = ("model.safetensors.index.json", "model.safetensors", "pytorch_model.bin.index.json", "pytorch_model.bin")
LIMIT = 2**31 - 1  # of each size
HEAD = "lm_head.weight"


class Settings:
    """config.json, read strictly: a message names the file, the entry and its value."""

    def __init__(self, path: str, entries: dict[str, Any]) -> None:
        self.path, self.entries = path, entries
        self.read: dict[str, Any] = {}  # the sizes that the model asked for, for messages about weights

    def wrong(self, key: str, wanted: str) -> ValueError:
        """The exception that says what an entry should be."""
        shown = f"{json.dumps(self.entries[key])[:60]}" if key in self.entries else "absent"
        return ValueError(f"[from_pretrained] '{self.path}': \"{key}\" must be {wanted}, it is {shown}")

    def size(self, key: str, default: int | None = None, least: int = 1) -> int:
        """A whole number."""
        value = self.entries.get(key)
        value = default if value is None else value
        if type(value) is not int or not least <= value <= LIMIT:
            raise self.wrong(key, f"a whole number from {least} to {LIMIT}")
        self.read[key] = value
        return value

    def number(self, key: str, default: float, least: float, most: float = 1e30) -> float:
        """A number within limits."""
        value = self.entries.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise self.wrong(key, f"a number from {least:g} to {most:g}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """true or false"""
        value = self.entries.get(key)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def text(self, key: str, words: tuple[str, ...], default: str | None = None) -> str:
        """One of these words."""
        value = self.entries.get(key, default)
        if not isinstance(value, str) or value not in words:
            raise self.wrong(key, " or ".join(json.dumps(word) for word in words))
        return value

    def only(self, key: str, value: Any) -> None:
        """Refuses variants that the model has not."""
        if self.entries.get(key, value) != value:
            raise self.wrong(key, json.dumps(value))


def is_gguf(path: str | os.PathLike[str]) -> bool:
    """Is it one file, not a folder?"""
    return os.path.isfile(path)


def read_config(folder: str | os.PathLike[str]) -> Settings:
    """config.json.  OSError: it is not there.  ValueError: it is not a JSON object."""
    path = os.path.join(folder, "config.json")
    _core._complete_folder(os.fspath(folder))
    with open(path, "rb") as f:
        try:
            entries: Any = json.loads(f.read())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"[from_pretrained] '{path}' is not JSON: {error}") from None
    if not isinstance(entries, dict):
        raise ValueError(f"[from_pretrained] '{path}' is not a JSON object")
    quantizer = entries.get("quantization_config")
    method = quantizer.get("quant_method") if isinstance(quantizer, dict) else quantizer
    if quantizer is not None and method != "chainrule":
        raise ValueError(
            f"[from_pretrained] '{path}': the weights are quantized by {json.dumps(method)[:40]}, whose format is not"
            " read"
        )
    return Settings(path, entries)


def read(
    cls: type[Decoder], path: str | os.PathLike[str], device: Device | str | None
) -> tuple[Settings, dict[str, Tensor], list[str]]:
    """The configuration, the weights by the names of the model, and what is wrong with these."""
    problems: list[str] = []
    if is_gguf(path):
        config, tensors = _core._load_gguf(os.fspath(path), device or "cpu")
        return Settings(os.fspath(path), json.loads(config)), tensors, problems
    return read_config(path), named(cls, read_weights(path, device), problems), problems


def read_weights(folder: str | os.PathLike[str], device: Device | str | None) -> dict[str, Tensor]:
    """The tensors of a folder over its mapped files.  OSError: it has none, or they are damaged."""
    found = [path for path in (os.path.join(folder, name) for name in FILES) if os.path.exists(path)]
    if not found:
        raise FileNotFoundError(f"[from_pretrained] '{os.fspath(folder)}' has no weights: none of {', '.join(FILES)}")

    def read(path: str) -> dict[str, Tensor]:
        tensors: Any = load(path, map_location=device or "cpu", mmap=None if path.endswith(".safetensors") else True)
        return tensors if isinstance(tensors, Mapping) else {}  # type: ignore[return-value]

    tensors = load_sharded(found[0], read) if found[0].endswith(".json") else read(found[0])
    strange = [str(name) for name, tensor in tensors.items() if not isinstance(tensor, Tensor)]
    if strange or not tensors:
        raise OSError(f"[from_pretrained] '{found[0]}' holds no dict of tensors{': ' + strange[0] if strange else ''}")
    return tensors


def listed(problems: list[str]) -> str:
    """All problems in a message, which stays readable where there are hundreds."""
    most = 40
    rest = [f"and {len(problems) - most} more"] if len(problems) > most else []
    return "\n\t".join([*problems[:most], *rest])


def named(cls: type[Decoder], weights: Mapping[str, Tensor], problems: list[str]) -> dict[str, Tensor]:
    """The weights by the names of the model: without prefix and buffers, matrices as (out, in)."""
    mine: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        short = name.removeprefix(cls.prefix)
        if re.fullmatch(cls.masks, short):
            continue
        if short in mine:
            problems.append(f"'{name}' and '{short}' are one weight")
        mine[short] = tensor.t() if short.endswith(cls.transposed) and tensor.ndim == 2 else tensor
    return mine


def _depth(cls: type[Decoder], names: Mapping[str, Tensor]) -> int:
    """How many layers the weights are of."""
    found = [re.match(rf"{re.escape(cls.layer)}\.([0-9]{{1,9}})\.", name) for name in names]
    return 1 + max((int(match[1]) for match in found if match), default=-1)


def build(
    cls: type[Model],
    path: str | os.PathLike[str],
    dtype: _core.dtype | None,
    device: Device | str | None,
    generator: Generator | None,
) -> Model:
    """The model in a folder or a GGUF file over its weights."""
    said, mine, problems = read(cls, path, device)
    said.text("model_type", tuple(cls.kinds))
    options = cls.options(said)
    depth = _depth(cls, mine)
    if depth != options["layers"]:  # before a false number of layers takes memory
        problems.append(f"config.json says {options['layers']} layers, the weights are of {depth}")
        raise RuntimeError(f"[from_pretrained] '{said.path}' contradicts the weights:\n\t{listed(problems)}")
    with without_values():
        make: Any = cls
        model: Model = make(**options, generator=generator, device=device, dtype=dtype)
    coded = {name.removesuffix(".codes") for name in mine if name.endswith(".codes")}
    scaled = {f"{base}.scales" for base in coded}
    floats = [
        tensor.dtype
        for axes in (2, 1)
        for name, tensor in mine.items()
        if tensor.is_floating_point() and tensor.ndim == axes and name not in scaled
    ]
    dtype = dtype or (floats[0] if floats else _core.float32)
    for base in sorted(coded):
        put_quantized(model, base, mine, dtype, problems)
    places = model._homes()
    if HEAD in mine and HEAD not in places:  # tied: some files have it twice
        head, table = mine.pop(HEAD), mine.get(cls.embedding)
        if table is None or head.shape != table.shape or not _core.equal(head, table):
            problems.append(f"config.json ties the head to the embedding, '{HEAD}' and '{cls.embedding}' differ")
    for name, (module, attribute) in places.items():
        if name.removesuffix(".codes") in coded or name in scaled:
            continue
        wanted, tensor = tuple(getattr(module, attribute).shape), mine.pop(name, None)
        if tensor is None:
            problems.append(f"'{name}' is missing, {wanted}")
        elif tuple(tensor.shape) != wanted:
            shape = tuple(tensor.t().shape) if name.endswith(cls.transposed) and tensor.ndim == 2 else tensor.shape
            asked = wanted[::-1] if name.endswith(cls.transposed) else wanted
            problems.append(f"'{name}' is {tuple(shape)} in the file, {asked} by config.json")
        elif not tensor.is_floating_point():
            problems.append(f"'{name}' is {tensor.dtype}, not of floats")
        else:
            module._store_as(attribute, Parameter(tensor.to(dtype)))
    problems += [f"'{name}' is not wanted, {tuple(tensor.shape)}" for name, tensor in mine.items()]
    if problems:
        sizes = ", ".join(f"{key} {value}" for key, value in said.read.items())
        raise RuntimeError(f"[from_pretrained] the weights do not fit '{said.path}' ({sizes}):\n\t{listed(problems)}")
    model.pretrained = said.entries
    model._ends = Chat(os.fspath(path)).said.ends
    return model.eval()


def put_quantized(model: Decoder, base: str, mine: dict[str, Tensor], dtype: _core.dtype, problems: list[str]) -> None:
    """The layer ``base`` becomes a quantized one over its codes and scales, which leave ``mine``."""
    codes, scales = mine.pop(f"{base}.codes"), mine.pop(f"{base}.scales", None)
    try:
        layer: Any = model.get_submodule(base)
    except AttributeError:
        layer = None
    if not isinstance(layer, nn.Linear | nn.Embedding):
        problems.append(f"'{base}.codes' is not wanted, {tuple(codes.shape)}")
        return
    rows, columns = layer.weight.shape
    line = columns if codes.dtype is _core.int8 else columns // 2
    groups = scales.size(1) if scales is not None and scales.ndim == 2 else 0
    fits = codes.dtype in (_core.int8, _core.uint8) and tuple(codes.shape) == (rows, line) and groups > 0
    fits = fits and scales is not None and scales.size(0) == rows
    if scales is None or not fits or scales.dtype is not _core.float16 or columns % groups or columns // groups % 32:
        problems.append(
            f"'{base}.codes' and '{base}.scales', {codes.dtype} {tuple(codes.shape)} and"
            f" {'absent' if scales is None else tuple(scales.shape)}, are no weight {(rows, columns)} by config.json"
        )
        replaced(model, base, nn.Identity())
    elif isinstance(layer, nn.Linear):
        replaced(model, base, nn.QuantizedLinear.of(codes, scales, layer.bias))
    else:
        replaced(model, base, nn.QuantizedEmbedding.of(codes, scales, dtype))


MOMENTS_BYTES = 1 << 30  # of matrices that a text calibrates at once


def moments_of(model: Decoder, layers: list[nn.Linear], tokens: list[int]) -> list[Tensor]:
    """Sums of x^T x over the inputs of these layers in a text, which is read a context at a time."""
    sums = [_core.zeros(p.in_features, p.in_features, device=p.weight.device) for p in layers]

    def adding(total: Tensor) -> Any:
        def add(_: Any, inputs: tuple[Tensor, ...]) -> None:
            x = inputs[0].detach().float().reshape(-1, total.size(0))
            total.add_(x.t() @ x)

        return add

    hooks = [layer.register_forward_pre_hook(adding(total)) for layer, total in zip(layers, sums, strict=True)]
    context = model.config.context
    try:
        with evaluating(model):
            for first in range(0, len(tokens), context):
                model.hidden(_core.tensor([tokens[first : first + context]], device=sums[0].device))
    finally:
        for hook in hooks:
            hook.remove()
    return sums


def quantize(model: Decoder, bits: int, group: int, calibration: Any) -> None:
    """``Decoder.quantize``."""
    if bits not in (8, 4):
        raise ValueError(f"[quantize] bits must be 8 or 4, not {bits}")
    if group not in (32, 64, 96, 128):
        raise ValueError(f"[quantize] group must be 32, 64, 96 or 128, not {group}")
    head = next(name for name, module in model.named_modules() if module is model.output)
    layers = {name: m for name, m in model.blocks.named_modules(prefix=model.layer) if isinstance(m, nn.Linear)}
    if not isinstance(model.output, nn.Linear | nn.Embedding) or not layers:
        raise ValueError("[quantize] the model is quantized already")
    for name, columns in [(name, m.in_features) for name, m in layers.items()] + [(head, model.head.size(1))]:
        if columns % group:
            raise ValueError(f"[quantize] groups of {group} do not divide the {columns} inputs of '{name}.weight'")
    tokens = None
    if calibration is not None:
        tokens = [*(calibration.tolist() if isinstance(calibration, Tensor) else calibration)]
        if not tokens:
            raise ValueError("[quantize] the text to calibrate with is empty")
    fresh: dict[str, Any] = {}
    names = list(layers)
    while names:
        some: list[str] = []
        used = 0
        while names and (not some or used + 4 * layers[names[0]].in_features ** 2 <= MOMENTS_BYTES):
            used += 4 * layers[names[0]].in_features ** 2
            some.append(names.pop(0))
        sums: list[Any] = [None] * len(some)
        if tokens is not None and bits == 4:
            sums = moments_of(model, [layers[name] for name in some], tokens)
        for name, total in zip(some, sums, strict=True):
            fresh[name] = nn.QuantizedLinear.from_linear(layers[name], bits, group, total)
    if isinstance(model.output, nn.Linear):
        fresh[head] = nn.QuantizedLinear.from_linear(model.output, 8, group)
    else:
        fresh[head] = nn.QuantizedEmbedding.from_embedding(model.output, 8, group)
    for name, module in fresh.items():
        replaced(model, name, module.train(model.training))
    model.pretrained = {
        **model.pretrained,
        "quantization_config": {
            "quant_method": "chainrule",
            "bits": bits,
            "group_size": group,
            "head_bits": 8,
            "calibrated": tokens is not None and bits == 4,
        },
    }


def config_text(model: Decoder) -> str:
    """config.json of a model, with what the one that it came with says besides."""
    # without these entries transformers takes the numbers of its first models
    ends = {} if "model_type" in model.pretrained else {"bos_token_id": None, "eos_token_id": None}
    said = {**ends, **model.pretrained, **model.described()}
    said["torch_dtype"] = said["dtype"] = str(next(model.parameters()).dtype).rpartition(".")[2]
    said["architectures"] = [model.kinds[said["model_type"]]]
    return json.dumps(said, indent=2) + "\n"


def plain_state(model: Decoder, op: str) -> dict[str, Tensor]:
    """The weights by name.  ValueError: the model has adapters, whose names nobody else reads."""
    state = model.state_dict()
    if any(".base_layer." in name for name in state):
        raise ValueError(f"[{op}] the model has adapters: nn.lora.save writes them; or nn.lora.merge and remove first")
    return state


def save(model: Decoder, folder: str | os.PathLike[str], max_shard_size: int | str) -> None:
    """Writes config.json and the weights by the names of ``transformers``."""
    weights = {
        name if name.startswith("lm_head.") else model.prefix + name: p.t()
        if name.endswith(model.transposed) and p.ndim == 2
        else p
        for name, p in plain_state(model, "save_pretrained").items()
    }
    _core._save_folder(weights, os.fspath(folder), config_text(model), bytes_of(max_shard_size))


def save_gguf(
    model: Decoder,
    path: str | os.PathLike[str],
    type: str,
    metadata: Mapping[str, Any] | None,
    tokenizer: Tokenizer | None,
) -> None:
    """Writes one file with the model and the entries of its tokenizer."""
    entries: dict[str, Any] = {}
    if tokenizer is not None:
        folder = tokenizer._folder or ""
        entries = json.loads(_core._tokenizer_gguf(tokenizer._source, folder, model.config.vocabulary))
    weights = plain_state(model, "save_gguf")
    for name in [name for name in weights if name.endswith(".codes")]:
        base = name.removesuffix(".codes")
        codes, scales = weights.pop(name), weights.pop(f"{base}.scales")
        weights[f"{base}.weight"] = _core._dequantize(codes, scales, _core.float32)
    _core._save_gguf(weights, os.fspath(path), config_text(model), json.dumps({**entries, **(metadata or {})}), type)
