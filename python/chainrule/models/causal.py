"""``CausalLM``: a language model of any family that the C engine knows (src/models/family.c), as a module whose
parameters are the engine's weights."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from .. import _core, nn
from .._core import Device, Generator, Tensor
from ..data.chat import Chat
from ..nn import Parameter
from .cache import Int8
from .decoder import Cache, Decoder, Past, Spans
from .pretrained import is_gguf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..data import Tokenizer

__all__ = ["CausalLM"]


class Sizes(NamedTuple):
    """What callers ask about a model."""

    vocabulary: int
    context: int
    layers: int
    kv_heads: int
    head_dim: int
    steady: bool
    dropout: float = 0.0


class Part(nn.Module):
    """Weights that the engine uses; it computes nothing by itself."""

    def forward(self, *_: Any) -> Tensor:
        raise NotImplementedError("[CausalLM] the engine computes the model as a whole: call the model")


class Engine:
    """The C engine over some tensors; a copy of a model makes its own."""

    lm: Any = None

    def __deepcopy__(self, _: Any) -> Engine:
        return Engine()

    def __reduce__(self) -> tuple[type[Engine], tuple[()]]:
        return Engine, ()


def assemble(root: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Makes the tensors parameters, codes and scales buffers, at their places among parts."""
    made = {"": root}
    for name, tensor in weights.items():
        *path, last = name.split(".")
        at = ""
        for part, after in zip(path, [*path[1:], last], strict=True):
            below = f"{at}.{part}".removeprefix(".")
            if below not in made:
                made[below] = nn.ModuleList() if after.isdigit() else Part()
                made[at].add_module(part, made[below])
            at = below
        if tensor.is_floating_point() and last != "scales":
            made[at].register_parameter(last, Parameter(tensor.detach()))
        else:
            made[at].register_buffer(last, tensor)


class CausalLM(Decoder):
    """A pretrained model, ints (B, T) -> logits (B, T, V): ``models.from_pretrained(folder)`` makes it for the families
    that have no class of their own.

    ``state_dict`` has Hugging Face's names, without the prefix of the body.  The C engine computes the model as a
    whole, from these parameters: they train, move and load as those of any module.  A part that is replaced, or has
    hooks, is refused when the model runs, because the engine would not see it.  Keys and values have float types."""

    def __init__(self, config: str, weights: Mapping[str, Tensor], generator: Generator | None = None) -> None:
        super().__init__()
        self.pretrained, self.generator = json.loads(config), generator
        self._names = [*weights]
        assemble(self, weights)
        self._engine = Engine()
        self.config = Sizes(*_core._lm_sizes(self._lm()))

    def _tensors(self) -> dict[str, Tensor]:
        """The weights by name.  RuntimeError: parts that the engine would not see."""
        for name, part in self.named_modules():
            strange = type(part) not in (Part, nn.ModuleList) or part._has_hooks
            if part is not self and strange:
                raise RuntimeError(
                    f"[{type(self).__name__}] '{name}' was replaced or has hooks: the engine computes the model as a"
                    " whole, so they would have no effect"
                )
        found = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        missing = [name for name in self._names if name not in found] + [n for n in found if n not in self._names]
        if missing:
            raise RuntimeError(f"[{type(self).__name__}] '{missing[0]}' was added, removed or replaced")
        return {name: found[name] for name in self._names}

    def _lm(self) -> Any:
        """The engine over the tensors that are the parameters now."""
        tensors, engine = self._tensors(), self._engine
        if engine.lm is None or not _core._lm_is_of(engine.lm, [*tensors.values()]):
            engine.lm = _core._lm_of(json.dumps(self.pretrained), tensors, self.like.device)
        return engine.lm

    def hidden(self, tokens: Tensor, caches: Sequence[Cache | Sequence[Cache]] | None = None, past: Past = 0) -> Tensor:
        self._time(tokens, past)
        if isinstance(past, Spans):
            if caches is None:
                lengths = _core.tensor([*past.lengths])
                return _core._lm_hidden(self._lm(), tokens, [], 0, None, lengths)
            parts, start = [], 0
            for i, (length, before) in enumerate(zip(*past, strict=True)):
                own: Any = [layer[i] for layer in caches]
                parts.append(self.hidden(tokens[:, start : start + length], own, before))
                start += length
            return _core.cat(parts, 1)
        stores: list[Any] = [store for layer in caches or () for store in layer]
        if any(isinstance(store, Int8) for store in stores):
            raise TypeError(f"[{type(self).__name__}] keys and values have a float type, not int8")
        if isinstance(past, Tensor):
            return _core._lm_hidden(self._lm(), tokens, stores, 0, past)
        return _core._lm_hidden(self._lm(), tokens, stores, past)

    def logits(self, x: Tensor) -> Tensor:
        return _core._lm_head(self._lm(), x)

    def _loss(self, x: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
        return _core._lm_loss(self._lm(), x, targets, reduction == "none")

    @property
    def blocks(self) -> Any:
        return range(self.config.layers)

    @property
    def steady(self) -> bool:
        return bool(self.config.steady)

    def cache_shape(self, room: int) -> tuple[int, ...]:
        return (1, self.config.kv_heads, room, self.config.head_dim)

    def quantize(self, bits: int = 8, group: int = 64, calibration: Collection[int] | Tensor | None = None) -> Self:
        """Refused: ``chainrule quantize`` writes a folder of 8 or 4 bits, which ``from_pretrained`` reads.
        NotImplementedError: always."""
        raise NotImplementedError("[quantize] of this family only the program quantizes: chainrule quantize --model")

    @classmethod
    def from_pretrained(
        cls,
        folder: str | os.PathLike[str],
        *,
        dtype: _core.dtype | None = None,
        device: Device | str | None = None,
        generator: Generator | None = None,
    ) -> Self:
        """The model in a folder of Hugging Face's layout, a GGUF file, or a checkpoint.  ValueError: an entry of
        config.json, or weights, that do not fit; they are named.  OSError: there is no model, or it is damaged."""
        floats = dtype is not None and is_gguf(folder)  # not in blocks, as they lie
        load = _core._load_gguf if floats else _core._lm_load
        config, weights = load(os.fspath(folder), device or "cpu")
        model = cls(config, weights, generator)
        if dtype is not None:
            model.to(dtype)
        model._ends = Chat(os.fspath(folder)).said.ends
        return model.eval()

    def save_pretrained(self, folder: str | os.PathLike[str], max_shard_size: int | str = "5GB") -> None:
        """Writes config.json and the weights, which ``transformers`` loads.  ValueError: another max_shard_size than
        5GB.  OSError: it cannot be written."""
        if max_shard_size != "5GB":
            raise ValueError(f"[save_pretrained] max_shard_size must be '5GB' for this family, not {max_shard_size!r}")
        _core._lm_save(self._lm(), os.fspath(folder), "safetensors", "")

    def save_gguf(
        self,
        path: str | os.PathLike[str],
        type: str = "f16",
        metadata: Mapping[str, Any] | None = None,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        """Refused: the families whose GGUF files are written have classes of their own.  ValueError: always."""
        raise ValueError(f"[save_gguf] no GGUF file is written of the family {self.pretrained.get('model_type')!r}")
