"""Text from a ``Decoder``: the library draws the tokens, searches beams and asks a draft (src/models/generate.c,
speculative.c, beam.c); the model runs here, a step of one token by a plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from .. import _core
from .._compile import Compiled
from .._core import Tensor
from ..autograd import no_grad
from ..nn.evaluating import evaluating
from .cache import Int8, Spans, Store

if TYPE_CHECKING:
    from .decoder import Decoder

__all__ = ["Mask", "called", "masked"]

Mask = Callable[[list[int], Tensor], Tensor]  # the tokens so far, logits (V) -> logits (V), or bool (V): allowed

LEAST_ROOM = 64  # positions of a cache whose steps replay; rooms are powers of two, because each has a plan


def masked(mask: Mask, like: Tensor | None) -> Mask:
    """The mask for logits of float64 on the host.  like: of the dtype and on the device that it is given."""

    def apply(tokens: list[int], logits: Tensor) -> Tensor:
        row = logits if like is None else logits.to(like.device, like.dtype)
        y = mask(tokens, row)
        if not isinstance(y, Tensor) or y.shape != row.shape:
            shown = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            raise ValueError(f"[generate] mask must return a tensor {tuple(row.shape)}, not {shown}")
        return logits.masked_fill(~y.to(logits.device), -math.inf) if y.dtype is _core.bool else y

    return apply


def step_of(model: Decoder) -> Compiled | None:
    """The step of one position: tokens (W, 1), its number (1) on the device, caches -> logits (W, 1, V); it records its
    kernels once for each shape and replays them.  None: the model's own code must run each time."""
    own = all(type(m).__module__.startswith("chainrule.") and not m._has_hooks for m in model.modules())
    if not (own and model.steady):
        return None
    if model.__dict__.get("_step") is None:  # a copy of a model has None
        this = ref(model)

        def step(tokens: Tensor, past: Tensor, stores: Sequence[tuple[Store, Store]]) -> Tensor:
            found = this()
            assert found is not None
            return found.logits(found.hidden(tokens, stores, past))

        model.__dict__["_step"] = Compiled(step, fullgraph=False, quiet=True)
    return model.__dict__["_step"]  # type: ignore[no-any-return]


def called(model: Decoder, dtype: _core.dtype | None) -> tuple[Any, ...]:
    """The model as ``_text_new`` takes it.  dtype: of its caches; None: the weights'."""
    like = model.like
    device = like.device
    step = step_of(model) if dtype in (None, like.dtype) else None
    mode = evaluating(model)

    def run(tokens: Tensor, stores: tuple[Tensor, ...], pasts: tuple[int, ...], last: int) -> Tensor:
        B, T = tokens.shape
        pairs: Any = [*zip(stores[::2], stores[1::2], strict=True)]
        if dtype is _core.int8:
            pairs = [(Int8(k, ks), Int8(v, vs)) for (k, v), (ks, vs) in zip(pairs[::2], pairs[1::2], strict=True)]
        with mode, no_grad():
            if B > 1:  # texts one behind the other
                layers = [pairs[i : i + B] for i in range(0, len(pairs), B)]
                x = model.hidden(tokens.view(1, -1), layers, Spans([T] * B, pasts)).view(B, T, -1)
            elif T == 1 and step is not None and not step.refused:
                y: Tensor = step(tokens, _core.tensor([*pasts], device=device), pairs)
                return y
            else:
                x = model.hidden(tokens, pairs, pasts[0])
            return model.logits(x if T == last else x[:, -last:])

    shape, config = model.cache_shape(1), model.config
    room = LEAST_ROOM if step is not None else 0
    return run, config.vocabulary, config.context, len(model.blocks), shape[1], shape[3], room, like
