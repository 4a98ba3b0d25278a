"""``Engined``: a module whose parameters are the weights of the C engine (src/models), of any family that it knows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

from .. import _core, nn
from .._core import Device, Generator, Tensor
from ..data.chat import Chat
from ..nn.lora import LoRA
from ..nn.module import _GLOBAL as ALL_HOOKS
from ..serialization import load
from ..serialization.sharded import bytes_of, load_sharded
from .parts import ROWS, Engine, Group, Leaf, assemble

__all__ = ["Engined", "Noted", "read"]

FILES = ("model.safetensors.index.json", "model.safetensors", "pytorch_model.bin.index.json", "pytorch_model.bin")
HEADS = ("lm_head", "embed_out", "cls.predictions.decoder", "lm_head.decoder", "vocab_projector", "decoder")
HEAD_BIASES = ("cls.predictions.bias", "lm_head.bias", "vocab_projector.bias", "decoder.bias", "lm_head.decoder.bias")
POOLED, LOGITS, SENTENCE = range(3)  # cr_lm_output
NAMES = 13  # where _lm_describe has them


class Config(NamedTuple):
    """The sizes of a model."""

    vocabulary: int
    context: int
    layers: int
    kv_heads: int
    head_dim: int
    dropout: float


class Engined(nn.Module):
    """What ``CausalLM`` and ``Encoder`` share: parameters by Hugging Face's names, and the engine over them."""

    generator: Generator | None
    pretrained: dict[str, Any]  # config.json of the folder that the model is from
    _ends: tuple[int, ...] | None = None

    kinds: ClassVar[tuple[str, ...]] = ()  # "model_type" of config.json; (): all
    encodes: ClassVar[bool] = False

    def __init__(self, config: str, weights: Mapping[str, Tensor], generator: Generator | None = None) -> None:
        super().__init__()
        self.pretrained, self.generator = json.loads(config), generator
        self._said: dict[str, Any] = {}  # entries of config.json of a model that is not from a file
        self._text, self._engine = config, Engine()
        device = next(iter(weights.values())).device
        self._engine.lm = lm = _core._lm_of(config, {name: t.detach() for name, t in weights.items()}, device)
        V, context, layers, kv, D, dropout, eps, steady, grows, *rest = _core._lm_describe(lm)
        self.prefix, _, turned, targets, _, parts, self._count = rest
        self.transposed, self.lora_targets = tuple(turned.split("|")) if turned else (), tuple(targets.split(","))
        self._config: Any = Config(V, context, layers, kv, D, dropout)
        self._cache_shape, self._steady, self.length_dependent = (kv, D), bool(steady), bool(grows)
        known = {name: (number, kind) for name, number, kind in parts}
        self._groups, self._leaves, self._raw = assemble(self, self._engine, weights, known, eps, D)
        self._blocks = [g for g in self._groups if g.number >= 0 and isinstance(g.holder, nn.ModuleList)]
        (table,) = (leaf for leaf in self._leaves if leaf.kind == ROWS)
        heads = [leaf for leaf in self._leaves if leaf.name in HEADS]
        self._output = heads[0] if heads else table
        encodes, self.pooling, self.longest = _core._lm_pooling(lm)
        if encodes != self.encodes:
            kind = json.dumps(self.pretrained["model_type"])
            raise ValueError(f"[{type(self).__name__}] {kind} is {'an encoder' if encodes else 'no encoder'}")
        table.tied = not heads and (not encodes or any(r[2] in HEAD_BIASES for r in self._raw))
        self._marked: tuple[frozenset[int], bytes] = frozenset(), bytes(self._count)
        self.gradient_checkpointing = False

    def _made(
        self, text: str, weights: Mapping[str, Tensor], generator: Generator | None, said: dict[str, Any]
    ) -> None:
        """What ``__init__`` does for a model that is not from a file: the entries of its config.json are ``said``."""
        Engined.__init__(self, text, weights, generator)
        self.pretrained, self._said = {}, said
        self._take_config()

    def _take_config(self) -> None:
        """Makes ``_config`` that of the class."""

    def __getattr__(self, name: str) -> Any:
        """The body, ``model.model`` or ``model.transformer``, is the model itself."""
        if name == self.__dict__.get("prefix", "")[:-1] != "":
            return self
        return super().__getattr__(name)

    # ---- the engine ----
    def _weights(self) -> tuple[dict[str, Tensor], dict[int, Any]]:
        """The weights by name, and the parts that are called.  RuntimeError: a change without effect."""
        found: dict[str, Tensor] = {}
        own: dict[int, Any] = {}
        like = self.like
        for group in self._groups:
            group.collect(own)
        for leaf in self._leaves:
            leaf.collect(like, found, own)
        for holder, attribute, name in self._raw:
            found[name] = getattr(holder, attribute)
        return found, own

    def _ready(self) -> tuple[Any, dict[int, Any]]:
        """The engine over the tensors that are the parameters now, and the parts that are called."""
        engine = self._engine
        if engine.entries is not None and not any(ALL_HOOKS) and _core._entries_hold(engine.entries):
            return engine.lm, {}
        engine.entries = None
        found, own = self._weights()
        given = [(name, tensor.dtype) for name, tensor in found.items()]
        if engine.given != given or not _core._lm_is_of(engine.lm, [found[name] for name in engine.names]):
            engine.lm = _core._lm_of(self._text, found, self.like.device)
            engine.names, engine.given = _core._lm_describe(engine.lm)[NAMES], given
            _core._lm_recompute(engine.lm, self.gradient_checkpointing)
        if not own:
            places: list[Leaf | Group] = [*self._groups, *self._leaves]
            rows = [row for place in places for row in place.entries()]
            rows += [(holder.__dict__, name, holder.__dict__.get(name, ...)) for holder, name, _ in self._raw]
            engine.entries = _core._entries_new(rows)
        return engine.lm, own

    def gradient_checkpointing_enable(self) -> None:
        """The graph keeps the input of each layer, and the backward pass runs the layer again: the same bits, less
        memory, more time."""
        self._recompute(True)

    def gradient_checkpointing_disable(self) -> None:
        """The graph keeps what each layer needs."""
        self._recompute(False)

    def _recompute(self, on: bool) -> None:
        self.gradient_checkpointing = on
        _core._lm_recompute(self._ready()[0], on)

    def _calls(self, own: Mapping[int, Any]) -> tuple[bytes | None, Any]:
        """The arguments ``own`` and ``call`` of the engine's functions."""
        return (self._marks(own), partial(_call, own)) if own else (None, None)

    def _marks(self, own: Mapping[int, Any]) -> bytes:
        """A byte for each part: 1 for those."""
        if self._marked[0] != own.keys():
            marks = bytearray(self._count)
            for number in own:
                marks[number] = 1
            self._marked = frozenset(own), bytes(marks)
        return self._marked[1]

    def _hidden_of(self, tokens: Tensor, attention_mask: Tensor | None) -> Tensor:
        """The residual stream after the last norm : (B, T) -> (B, T, C)"""
        raise NotImplementedError

    def embed(self, tokens: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """An embedding of each text : (B, T) -> (B, C).  It is pooled, and normalized, as modules.json of
        sentence-transformers in the model's folder says (``pooling``), else the mean of the tokens.  attention_mask:
        0 for padding behind the texts."""
        x = self._hidden_of(tokens, attention_mask)
        lm, own = self._ready()
        y: Tensor = _core._lm_output(lm, SENTENCE, x, attention_mask, *self._calls(own))
        return y

    # ---- what others ask ----
    @property
    def like(self) -> Tensor:
        """A weight of the dtype and on the device of the residual stream."""
        return next(self.parameters())

    @property
    def config(self) -> Any:
        """The sizes.  dropout may be set; ValueError: another change."""
        return self._config

    @config.setter
    def config(self, new: Any) -> None:
        if new._replace(dropout=self._config.dropout) != self._config:
            raise ValueError(f"[{type(self).__name__}] only dropout may change: {new}, not {self._config}")
        self._config = new
        if "n_embd" in json.loads(self._text):
            self._said |= {"resid_pdrop": new.dropout, "embd_pdrop": new.dropout}

    @property
    def blocks(self) -> Any:
        return self._blocks[0].holder

    # ---- files ----
    @classmethod
    def _over(cls, config: str, weights: Mapping[str, Tensor], generator: Generator | None) -> Self:
        """A model over weights, whatever the arguments of its class are."""
        model = cls.__new__(cls)
        Engined.__init__(model, config, weights, generator)
        model._take_config()
        return model

    @classmethod
    def from_pretrained(
        cls,
        folder: str | os.PathLike[str],
        *,
        dtype: _core.dtype | None = None,
        device: Device | str | None = None,
        generator: Generator | None = None,
        _read: tuple[str, dict[str, Tensor]] | None = None,
    ) -> Self:
        """The model in a folder of Hugging Face's layout (config.json, and the weights in model.safetensors, its shards
        with their index, or pytorch_model.bin), in a GGUF file, or in a checkpoint.  Weights lie over the mapped
        files: a page is read when it is first touched, and training changes no file.  dtype: another one than the
        files', which takes memory of its own.  The model does not train; ``train()`` turns its dropout on.
        OSError: there is no model, or it is damaged.  ValueError: an entry of config.json that is damaged or of a
        model that this class is not, or weights that are missing, not wanted or of another shape, in one message.

        Packed weights of a GGUF file (Q8_0, Q4_K...) stay as they lie and do not train, adapters over them do; with a
        ``dtype`` they become floats."""
        config, weights = _read or read(os.fspath(folder), device or "cpu", dtype is not None)
        kind = json.loads(config).get("model_type")
        if cls.kinds and kind not in cls.kinds:
            wanted = " or ".join(json.dumps(k) for k in cls.kinds)
            raise ValueError(
                f"[from_pretrained] '{os.fspath(folder)}': \"model_type\" must be {wanted}, it is {kind!r}"
            )
        if dtype is not None:
            weights = {n: t.to(dtype) if t.is_floating_point() else t for n, t in weights.items()}
        model = cls._over(config, weights, generator)
        model._ends = Chat(os.fspath(folder)).said.ends
        return model.eval()

    def _described(self) -> str:
        """config.json, with what the one that the model came with says besides."""
        # without these entries transformers takes the numbers of its first models
        ends = {} if "model_type" in self.pretrained else {"bos_token_id": None, "eos_token_id": None}
        return json.dumps({**ends, **self.pretrained, **self._said})

    def _plain(self, op: str) -> tuple[str, dict[str, Tensor]]:
        """The configuration and the weights.  ValueError: parts that no file of the family holds."""
        if any(isinstance(m, LoRA) for m in self.modules()):
            raise ValueError(
                f"[{op}] the model has adapters: nn.lora.save writes them; or nn.lora.merge and remove first"
            )
        found, own = self._weights()
        places: list[Leaf | Group] = [*self._leaves, *self._groups]
        for part in places:
            module = part.holder.__dict__[part.attribute]
            known = part.tensors(module) is not None if isinstance(part, Leaf) else module is part.made
            if not known and part.number in own:
                raise ValueError(f"[{op}] '{part.name}' was replaced by a {type(module).__name__}, which no file holds")
        return self._described(), {name: t.detach() for name, t in found.items()}

    def save_pretrained(self, folder: str | os.PathLike[str], max_shard_size: int | str = "5GB") -> None:
        """Writes config.json and the weights, which ``transformers`` loads, into ``folder``; files of at
        most ``max_shard_size``.  After a failure, such as a full disk, the files that were there are
        as before.  Other files in the folder stay.  OSError: it cannot be written."""
        lm = _core._lm_of(*self._plain("save_pretrained"), self.like.device)
        _core._lm_save(lm, os.fspath(folder), bytes_of(max_shard_size))

    def _calibration(self, op: str, text: Sequence[int] | Tensor | None) -> Tensor | None:
        """The tokens of a text, u32."""
        if text is None:
            return None
        ids = [*(text.tolist() if isinstance(text, Tensor) else text)]
        wrong = [token for token in ids if not 0 <= token < self.config.vocabulary]
        if wrong:
            raise IndexError(f"[{op}] token {wrong[0]} is not in the vocabulary of {self.config.vocabulary}")
        return _core.tensor(ids, dtype=_core.int64).to(_core.uint32)

    def quantize(self, bits: int = 8, calibration: Sequence[int] | Tensor | None = None) -> Self:
        """Every linear layer becomes ``nn.QuantizedLinear`` with weights of 8 (q8_0) or 4 bits (q4_0); the head, and
        the embedding that it is tied to, have 8.  calibration: tokens (T) of a text like those that the model will
        see; they balance the rounding to 4 bits.  Returns the model, which has changed.  ValueError: bits that are
        not 8 or 4, inputs of a layer that 32 does not divide.  IndexError: a token outside of the vocabulary."""
        tokens = self._calibration("quantize", calibration)
        text, plain = self._plain("quantize")
        config, weights = _core._lm_quantize(text, plain, self.like.device, bits, tokens)
        packed = {name.rpartition(".")[0]: name for name in weights if name.endswith((".q8_0", ".q4_0"))}
        for leaf in self._leaves:
            if leaf.name not in packed:
                continue
            old: Any = leaf.holder.__dict__[leaf.attribute]
            name, rows = packed[leaf.name].rpartition(".")[2], weights[packed[leaf.name]]
            new: Any = (
                nn.QuantizedEmbedding.of(rows, name, old.weight.dtype)
                if leaf.kind == ROWS
                else nn.QuantizedLinear.of(rows, name, old.bias)
            )
            setattr(leaf.holder, leaf.attribute, new.train(self.training))
        said = json.loads(config)["quantization_config"]
        self.pretrained = {**self.pretrained, "quantization_config": said}
        self._text = config
        return self


class Noted:
    """A layer whose inputs are kept."""

    def __init__(self, states: list[Tensor], block: Any) -> None:
        self.states, self.block = states, block

    def __call__(self, x: Tensor) -> Any:
        self.states.append(x)
        return self.block(x)


def _call(own: Mapping[int, Callable[[Tensor], Any]], number: int, x: Tensor) -> Any:
    return own[number](x)


def read(path: str, device: Device | str, floats: bool = False) -> tuple[str, dict[str, Tensor]]:
    """The configuration, and the weights by the names of the model; packed ones as they lie, or as floats."""
    if os.path.isdir(path) and os.path.exists(os.path.join(path, "config.json")):
        _core._complete_folder(path)
        found = [file for file in (os.path.join(path, name) for name in FILES) if os.path.exists(file)]
        if not found:
            raise FileNotFoundError(f"[from_pretrained] '{path}' has no weights: none of {', '.join(FILES)}")
        if ".bin" in os.path.basename(found[0]):
            return _read_pickled(path, found[0], device)
    config, weights = _core._lm_load(path, False, device)
    said = json.loads(config).get("quantization_config") or {}
    if floats and said.get("quant_method") != "chainrule":  # what ``quantize`` packed stays
        config, weights = _core._lm_load(path, True, device)
    return config, weights


def _read_pickled(folder: str, file: str, device: Device | str) -> tuple[str, dict[str, Tensor]]:
    """The same of PyTorch's files, by the restricted reader."""

    def read(path: str) -> dict[str, Tensor]:
        tensors: Any = load(path, map_location=device, mmap=True)
        return tensors if isinstance(tensors, Mapping) else {}  # type: ignore[return-value]

    tensors = load_sharded(file, read) if file.endswith(".json") else read(file)
    strange = [str(name) for name, tensor in tensors.items() if not isinstance(tensor, Tensor)]
    if strange or not tensors:
        raise OSError(f"[from_pretrained] '{file}' holds no dict of tensors{': ' + strange[0] if strange else ''}")
    path = os.path.join(folder, "config.json")
    with open(path, "rb") as f:
        text = f.read().decode("utf-8", "replace")
    return _core._lm_of_files(path, text, dict(tensors), device)
