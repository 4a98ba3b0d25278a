"""``Engine``: one model answers many requests at once.  They join and leave at any step (continuous
batching; Yu et al. 2022, "Orca").

A step is one forward pass over a row of tokens, (1, N): the next part of new prompts, and the last
token of every sequence that is being continued. Linear layers see N rows; attention sees each
sequence by itself, behind its own cache of keys and values.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from threading import Condition
from typing import Any

from .. import _core
from .._core import Generator, Tensor
from ..autograd import no_grad
from ..nn import functional as F
from .decoder import Cache, Decoder, Spans

__all__ = ["Closed", "Engine", "Full", "Request"]

Logprobs = list[tuple[int, float]]  # tokens and the logarithms of their probabilities: the chosen one, then the best


class Full(RuntimeError):
    """Every slot is taken and the queue is full."""


class Closed(RuntimeError):
    """The engine takes no more requests."""


@dataclass(eq=False)
class Request:
    """What to continue, how, and who is told.

    prompt: at least one token.  max_tokens: at most so many are made. stop: tokens that end the answer
    and are not part of it.  seed: of the draws; None: another one each time.  temperature 0: always the
    likeliest token.  top_k: of the k likeliest only, 0 for all; top_p: of the fewest that hold this part
    of the probability; min_p: of those at least this part as likely as the likeliest. Tokens that were
    made before lose presence_penalty + frequency_penalty x (how often), and logit_bias is added, before
    the temperature.  logprobs: how many of the best tokens to report; None: nothing.

    on_token(token, logprobs) returns whether to go on.  on_end(reason, error) is called once, at the end:
    "stop" (a token of ``stop``, or on_token), "length", "cancelled", or "error". Both run in the thread of
    the engine."""

    prompt: Sequence[int]
    max_tokens: int
    on_token: Callable[[int, Logprobs | None], bool]
    on_end: Callable[[str, Exception | None], None]
    _: KW_ONLY
    stop: frozenset[int] = frozenset()
    seed: int | None = None
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    logprobs: int | None = None


class Slot:
    """A request that has a slot: its tokens, and the cache with the keys and values of the first ``past``."""

    def __init__(self, request: Request, model: Decoder) -> None:
        self.request, self.tokens, self.past = request, [*request.prompt], 0
        room, p = len(self.tokens) + request.max_tokens, model.like
        self.caches: list[Cache] = [tuple(p.new_empty(model.cache_shape(room)) for _ in "kv") for _ in model.blocks]
        self.generator = Generator()
        if request.seed is not None:
            self.generator.manual_seed(request.seed)
        else:
            self.generator.seed()

    @property
    def made(self) -> list[int]:
        return self.tokens[len(self.request.prompt) :]


class Engine:
    """``Engine(model, slots=16, queue=64)``: up to ``slots`` requests are answered at once, and
    ``queue`` more wait.  ``submit`` and ``cancel`` may be called by any thread; one thread calls ``run``,
    or ``step`` as long as it returns True.

    chunk: tokens of prompts in a step, so that a long prompt does not stop the others. A request gets the
    tokens of ``Decoder.generate`` with its seed, whoever else is there - up to the rounding of the
    products, whose last bits depend on the number of rows. exact: each sequence has a forward pass of its
    own, so that the bits are the same, which is slower.
    ValueError: a number below 1."""

    def __init__(
        self, model: Decoder, *, slots: int = 16, queue: int = 64, chunk: int = 512, exact: bool = False
    ) -> None:
        for name, number, least in ("slots", slots, 1), ("queue", queue, 0), ("chunk", chunk, 1):
            if number < least:
                raise ValueError(f"[Engine] {name} must be at least {least}, not {number}")
        self.model, self.slots, self.queue, self.chunk, self.exact = model.eval(), slots, queue, chunk, exact
        if model.length_dependent:
            self.chunk = model.config.context  # angles depend on the length of the prompt: it is not cut
        self.steps = 0  # forward passes so far
        self._changed = Condition()  # over what follows
        self._waiting: deque[Request] = deque()
        self._running: list[Slot] = []  # changed by the engine's thread only
        self._cancelled: set[Request] = set()
        self._closed = False

    @property
    def running(self) -> int:
        """Requests that have a slot."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    def check(self, request: Request) -> None:
        """ValueError: it cannot be answered, and why."""
        n, most, V = len(request.prompt), self.model.config.context, self.model.config.vocabulary
        wrong = [
            (n < 1, "the prompt must hold at least one token"),
            (request.max_tokens < 1, f"max_tokens must be at least 1, not {request.max_tokens}"),
            (
                n + request.max_tokens > most,
                f"{n} tokens of the prompt and max_tokens {request.max_tokens} are more than the context, {most}",
            ),
            (
                not all(0 <= token < V for token in (*request.prompt, *request.logit_bias)),
                f"tokens must be from 0 to {V - 1}",
            ),
            (not 0 <= request.temperature < math.inf, f"temperature must be 0 or more, not {request.temperature}"),
            (request.top_k < 0, f"top_k must be 0 (all) or more, not {request.top_k}"),
            (not 0 < request.top_p <= 1, f"top_p must be in (0, 1], not {request.top_p}"),
            (not 0 <= request.min_p <= 1, f"min_p must be in [0, 1], not {request.min_p}"),
        ]
        for is_wrong, message in wrong:
            if is_wrong:
                raise ValueError(f"[Engine] {message}")

    def submit(self, *requests: Request) -> None:
        """Queues all of them or none.  ValueError: ``check``.  Full: there is no room for them.  Closed."""
        for request in requests:
            self.check(request)
        with self._changed:
            if self._closed:
                raise Closed("[Engine] is closed")
            there = len(self._running) + len(self._waiting)
            if there + len(requests) > self.slots + self.queue:
                raise Full(
                    f"[Engine] has {there} requests and takes {self.slots + self.queue}: no room for {len(requests)}"
                )
            self._waiting.extend(requests)
            self._changed.notify_all()

    def cancel(self, *requests: Request) -> None:
        """Ends them at the next step; those that have ended stay as they are."""
        with self._changed:
            self._cancelled.update(requests)
            self._changed.notify_all()

    def close(self) -> None:
        """Takes no more requests; ``run`` cancels those that are there and returns."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def run(self) -> None:
        """Steps until ``close``; sleeps while there is nothing to do."""
        while True:
            with self._changed:
                while not (self._closed or self._waiting or self._running):
                    self._changed.wait()
                if self._closed:
                    self._cancelled.update(self._waiting, (s.request for s in self._running))
                    break
            self.step()
        self._drop_cancelled()

    @no_grad
    def step(self) -> bool:
        """One forward pass, after which each sequence whose prompt is done has one more token.  False: there
        is nothing left to do."""
        self._drop_cancelled()
        self._admit()
        spans = self._spans()
        for group in [[span] for span in spans] if self.exact else [spans] if spans else []:
            self._advance(group)
        return bool(self._running or self._waiting)

    def _drop_cancelled(self) -> None:
        with self._changed:
            cancelled, self._cancelled = self._cancelled, set()
            queued = [request for request in self._waiting if request in cancelled]
            for request in queued:
                self._waiting.remove(request)
        for request in queued:
            request.on_end("cancelled", None)
        for sequence in [s for s in self._running if s.request in cancelled]:
            self._end(sequence, "cancelled")

    def _admit(self) -> None:
        """Requests of the queue take the free slots."""
        while len(self._running) < self.slots:
            with self._changed:
                if not self._waiting:
                    break
                request = self._waiting.popleft()
            try:
                self._running.append(Slot(request, self.model))
            except Exception as error:  # no memory for its cache
                request.on_end("error", error)

    def _spans(self) -> list[tuple[Slot, int]]:
        """The sequences of this step, and how many tokens of each.  Prompts are cut at multiples of ``chunk``,
        whoever else is there."""
        spans, room = [], self.chunk
        for sequence in self._running:
            left = len(sequence.tokens) - sequence.past
            length = min(left, self.chunk)
            if not sequence.made:
                if room <= 0:
                    continue
                room -= length
            spans.append((sequence, length))
        return spans

    def _advance(self, group: list[tuple[Slot, int]]) -> None:
        """The next tokens of these sequences; one that fails ends and leaves the others alone."""
        try:
            ready = self._forward(group)
        except Exception as error:
            if len(group) == 1:
                return self._end(group[0][0], "error", error)
            for one in group:
                self._advance([one])
            return
        for slot, length in group:
            slot.past += length
        for slot, logits in ready:
            self._next(slot, logits)

    def _forward(self, group: list[tuple[Slot, int]]) -> list[tuple[Slot, Tensor]]:
        """The logits, (V), of the sequences whose prompt is done."""
        tokens = [token for s, length in group for token in s.tokens[s.past : s.past + length]]
        spans = Spans([length for _, length in group], [s.past for s, _ in group])
        caches = [*zip(*(s.caches for s, _ in group), strict=True)]  # of each layer, of each sequence
        x = self.model.hidden(_core.tensor([tokens], device=self.model.like.device), caches, spans)
        self.steps += 1
        ready, rows, end = [], [], 0
        for slot, length in group:
            end += length
            if slot.past + length == len(slot.tokens):
                ready.append(slot)
                rows.append(end - 1)
        if not ready:
            return []
        if len(rows) < x.size(1):
            x = x.index_select(1, _core.tensor(rows, device=x.device))
        return [*zip(ready, self.model.logits(x)[0], strict=True)]

    def _next(self, s: Slot, logits: Tensor) -> None:
        """One more token of a sequence by its logits, (V)."""
        r = s.request
        try:
            token = draw(logits, r, s.made, s.generator)
            if token in r.stop:
                return self._end(s, "stop")
            s.tokens.append(token)
            goes_on = r.on_token(token, None if r.logprobs is None else logprobs_of(logits, token, r.logprobs))
        except Exception as error:
            return self._end(s, "error", error)
        if not goes_on:
            self._end(s, "stop")
        elif len(s.tokens) == len(r.prompt) + r.max_tokens:
            self._end(s, "length")

    def _end(self, sequence: Slot, reason: str, error: Exception | None = None) -> None:
        """Frees its slot and its cache."""
        if sequence in self._running:
            self._running.remove(sequence)
            sequence.request.on_end(reason, error)


def draw(logits: Tensor, r: Request, made: Sequence[int], generator: Generator) -> int:
    """The next token by the options of a request; logits: (V)."""
    said = _core.tensor([*made], dtype=_core.int64) if r.presence_penalty or r.frequency_penalty else None
    bias = _core.tensor([*r.logit_bias.items()], dtype=_core.float64) if r.logit_bias else None
    penalties = r.presence_penalty, r.frequency_penalty
    return _core._sample(logits, r.temperature, r.top_p, r.top_k, generator, r.min_p, said, *penalties, bias)


def logprobs_of(logits: Tensor, token: int, k: int) -> Logprobs:
    """Of the chosen token, then of the k likeliest ones."""
    every = F.log_softmax(logits.float(), 0)
    best: Any = _core.topk(every, min(k, every.numel())) if k else ((), ())
    values, indices = ([*part.tolist()] if k else [] for part in best)
    return [(token, every[token].item()), *zip(indices, values, strict=True)]
