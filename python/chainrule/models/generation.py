"""Text from a ``Decoder``, token by token, with a draft model, or by beams: src/models/generate.c,
speculative.c and beam.c, with the same draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

from .. import _core
from .._compile import Compiled
from .._core import Generator, Tensor
from ..autograd import no_grad
from ..nn import functional as F
from ..nn.evaluating import evaluating
from .cache import Store, caches

if TYPE_CHECKING:
    from .decoder import Decoder

__all__ = ["Draft", "Mask", "Sampling", "beam_search", "stream"]

Mask = Callable[[list[int], Tensor], Tensor]  # the tokens so far, logits (V) -> logits (V), or bool (V): allowed


class Sampling(NamedTuple):
    """How a token is drawn from logits."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    mask: Mask | None = None
    generator: Generator | None = None

    def masked(self, tokens: list[int], logits: Tensor) -> Tensor:
        """The logits (V) after these tokens, with what the mask forbids at -inf."""
        if self.mask is None:
            return logits
        y = self.mask(tokens, logits)
        if not isinstance(y, Tensor) or y.shape != logits.shape:
            shown = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
            raise ValueError(f"[generate] mask must return a tensor {tuple(logits.shape)}, not {shown}")
        return logits.masked_fill(~y, -math.inf) if y.dtype is _core.bool else y

    def draw(self, tokens: list[int], logits: Tensor) -> int:
        """The next token by masked logits."""
        seen = _core.tensor(tokens) if self.repetition_penalty != 1 else None
        return _core._sample(
            logits, self.temperature, self.top_p, self.top_k, self.generator, self.min_p, self.repetition_penalty, seen
        )

    def verify(self, tokens: list[int], logits: Tensor, draft: Tensor) -> tuple[int, int]:
        """How many of the last K tokens, which a draft drew, to take, and the token after them."""
        return _core._sample_verify(
            logits,
            draft,
            _core.tensor(tokens),
            self.temperature,
            self.top_p,
            self.top_k,
            self.generator,
            self.min_p,
            self.repetition_penalty,
        )

    def penalized(self, tokens: list[int], scores: Tensor) -> Tensor:
        """Scores (V), where positive ones of these tokens are divided by the penalty, others multiplied."""
        if self.repetition_penalty == 1:
            return scores
        seen = _core.tensor(sorted(set(tokens)), device=scores.device)
        old = scores[seen]
        return scores.index_copy(
            0, seen, _core.where(old > 0, old / self.repetition_penalty, old * self.repetition_penalty)
        )


class Draft(NamedTuple):
    """A smaller model of the same vocabulary, and how many tokens it proposes at a time."""

    model: Decoder
    tokens: int = 4


LEAST_ROOM = 64  # positions of a cache whose steps replay; rooms are powers of two, because each has a plan


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


class Reader:
    """A model that reads texts of one length: it sees the tokens from ``start`` on, and holds the keys and values of
    the first ``past`` of them."""

    def __init__(self, model: Decoder, length: int, more: int, dtype: _core.dtype | None) -> None:
        context = model.config.context
        self.model, self.start, self.past = model, max(0, length - context), 0
        self.device = model.like.device
        room = min(context, length + more)
        self.step = step_of(model) if dtype in (None, model.like.dtype) else None
        if self.step is not None:
            room = min(context, max(LEAST_ROOM, 1 << (room - 1).bit_length()))
        self.caches = caches(model, room, dtype)

    def read(self, texts: list[list[int]], last: int = 1) -> Tensor:
        """The logits after each of the last tokens, (W, last, V)."""
        model, new = self.model, len(texts[0]) - self.start - self.past
        tokens = _core.tensor([text[self.start + self.past :] for text in texts], device=self.device)
        with evaluating(model), no_grad():
            if new == 1 and self.step is not None and not self.step.refused:
                position = _core.tensor([self.past], device=self.device)
                y: Tensor = self.step(tokens, position, self.caches)
            else:
                x = model.hidden(tokens, self.caches, self.past)
                y = model.logits(x if x.size(1) == last else x[:, -last:])
        self.past += new
        return y

    def logits(self, tokens: list[int], last: int = 1) -> Tensor:
        """Those after each of the last tokens, (last, V)."""
        return self.read([tokens], last)[0]

    def push(self, tokens: list[int], token: int) -> None:
        """One more token.  A full context goes on from its last half, which is computed again at its new
        positions."""
        context = self.model.config.context
        if len(tokens) - self.start == context:
            self.start, self.past = self.start + context - context // 2, 0
        tokens.append(token)


def stream(
    model: Decoder,
    tokens: Sequence[int],
    n: int,
    sampling: Sampling,
    stop: Collection[int] = (),
    draft: Draft | None = None,
    cache_dtype: _core.dtype | None = None,
) -> Iterator[int]:
    """``n`` tokens after the given ones, each as soon as it is there; fewer where one is in ``stop``."""
    text, made = [*tokens], 0
    reader = Reader(model, len(text), n, cache_dtype)
    small = Reader(draft.model, 0, min(len(text) + n, draft.model.config.context), cache_dtype) if draft else None
    while made < n:
        k = 0
        if draft and small:
            length = len(text) - reader.start
            k = min(draft.tokens, n - made - 1, model.config.context - length - 1, draft.model.config.context - length)
        if small and k > 0:
            new = speculate(reader, small, text, k, sampling)
        else:
            new = [sampling.draw(text, sampling.masked(text, reader.logits(text)[0]))]
        for token in new:
            reader.push(text, token)
            made += 1
            yield token
            if token in stop:
                return


def speculate(reader: Reader, small: Reader, text: list[int], k: int, sampling: Sampling) -> list[int]:
    """At least one token after the text: the small model proposes k, the large one checks them in one pass."""
    if small.start != reader.start:  # the window has moved
        small.start, small.past = reader.start, 0
    guess, rows = [*text], []
    for _ in range(k):
        rows.append(sampling.masked(guess, small.logits(guess)[0]))
        guess.append(sampling.draw(guess, rows[-1]))
    logits = reader.logits(guess, k + 1)
    if sampling.mask is not None:
        logits = _core.stack([sampling.masked(guess[: len(text) + i], row) for i, row in enumerate(logits)])
    taken, token = sampling.verify(guess, logits, _core.stack(rows))
    reader.past = len(text) + taken - reader.start
    small.past = min(small.past, reader.past)
    return [*guess[len(text) : len(text) + taken], token]


class Beam(NamedTuple):
    """A text, and the sum of its log-probabilities; of a complete one divided by length^penalty."""

    score: float
    text: list[int]


def beam_search(
    model: Decoder,
    tokens: Sequence[int],
    n: int,
    width: int,
    sampling: Sampling,
    stop: Collection[int] = (),
    length_penalty: float = 1.0,
    early_stopping: bool = False,
    cache_dtype: _core.dtype | None = None,
) -> list[int]:
    """The best text that ``width`` beams find.  Ranks, ends and the early end are those of ``transformers``."""
    start, context = len(tokens), model.config.context
    if start + n > context:
        raise ValueError(
            f"[generate] beam search takes a prompt and its tokens within the context of {context}, not {start} + {n}"
        )
    beams, done = [Beam(0.0, [*tokens])], list[Beam]()
    reader = Reader(model, start, n, cache_dtype)
    for made in range(1, n + 1):
        logits = reader.read([beam.text for beam in beams])
        scores = _core.stack([scored(row[-1], beam, sampling) for row, beam in zip(logits, beams, strict=True)])
        values, indices = _core.topk(scores.flatten(), min(width * max(2, 1 + len(stop)), scores.numel()))
        ranked = zip(values.tolist(), indices.tolist(), strict=True)
        parents, after = list[int](), list[Beam]()
        for rank, (score, index) in enumerate(ranked):
            parent, token = divmod(index, scores.size(1))
            if score == -math.inf:
                break
            text = [*beams[parent].text, token]
            if made == n or token in stop:
                if rank < width:
                    done.append(Beam(score / made**length_penalty, text))
            elif len(after) < width:
                parents.append(parent)
                after.append(Beam(score, text))
        done = sorted(done, key=lambda beam: -beam.score)[:width]
        beams = after
        if not beams or (
            len(done) == width and (early_stopping or beams[0].score / made**length_penalty <= done[-1].score)
        ):
            break
        rows = _core.tensor(parents, device=model.like.device)
        reader.caches = [(k.index_select(0, rows), v.index_select(0, rows)) for k, v in reader.caches]
    if not done:
        raise ValueError("[generate] beam search has found no text: mask forbids every token")
    return done[0].text[start:]


def scored(logits: Tensor, beam: Beam, sampling: Sampling) -> Tensor:
    """The sums of log-probabilities of a beam's continuations, (V), in double.  ValueError: a NaN."""
    logits = logits.cpu().double()
    if not bool((logits < math.inf).all()):
        raise ValueError("[generate] a logit is not finite: the model has diverged")
    scores = sampling.masked(beam.text, F.log_softmax(logits, 0))
    return sampling.penalized(beam.text, scores) + beam.score
