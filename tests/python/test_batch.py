"""The engine of continuous batching: tokens are those of ``Decoder.generate``, whoever else is there."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from itertools import pairwise
from typing import Any

import chainrule as cr
import pytest
from chainrule.models import GPT, Llama
from chainrule.models.batch import Closed, Engine, Full, Request, Slot, draw, logprobs_of
from chainrule.models.decoder import Spans

V = 61
KINDS = ("gpt2", "llama", "mistral", "qwen2", "qwen3", "dynamic")


def small(kind: str, dtype: cr.dtype = cr.float32) -> Any:
    g = cr.Generator().manual_seed(3)
    if kind == "gpt2":
        model: Any = GPT(V, 40, 2, 4, 24, generator=g, dtype=dtype)
    else:
        dynamic = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 100.0, "original_max_position_embeddings": 8}
        options: dict[str, dict[str, Any]] = {
            "mistral": {"window": 5},
            "qwen2": {"qkv_bias": True, "tied": True},
            "qwen3": {"qk_norm": True},
            "dynamic": {"rope": dynamic},
        }
        model = Llama(V, 40, 2, 4, 24, 36, 2, **options.get(kind, {}), generator=g, dtype=dtype)
    with cr.no_grad():
        for p in model.parameters():  # large enough that tokens differ
            p.add_(cr.randn(*p.shape, dtype=cr.float64, generator=g).to(dtype) * 0.2)
    return model.eval()


class Answer:
    """A request that notes what it was given."""

    def __init__(self, prompt: list[int], n: int, most: int = 10**9, **options: Any) -> None:
        self.tokens: list[int] = []
        self.logprobs: list[Any] = []
        self.ended: list[tuple[str, Exception | None]] = []
        self.most = most
        self.request = Request(prompt, n, self.take, lambda *end: self.ended.append(end), **options)

    def take(self, token: int, logprobs: Any) -> bool:
        self.tokens.append(token)
        self.logprobs.append(logprobs)
        return len(self.tokens) < self.most


def alone(model: Any, prompt: list[int], n: int, **options: Any) -> Answer:
    answer, engine = Answer(prompt, n, **options), Engine(model)
    engine.submit(answer.request)
    while engine.step():
        pass
    return answer


PROMPTS = [[(7 * i * i + 5 * b + i) % V for i in range(length)] for b, length in enumerate((1, 13, 4, 22, 2, 9))]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_at_different_positions(kind: str) -> None:
    """A pass over several sequences, some in their prompt and some behind it, is one pass over each."""
    model = small(kind, cr.float64)
    made = [(PROMPTS[3], 17), (PROMPTS[1], 13), (PROMPTS[5], 0), (PROMPTS[0], 0), (PROMPTS[3], 21)]
    with cr.no_grad():
        caches, wanted = [], []
        for tokens, past in made:
            c = [tuple(cr.zeros(model.cache_shape(40), dtype=cr.float64) for _ in "kv") for _ in model.blocks]
            if past:
                model.hidden(cr.tensor([tokens[:past]]), c, 0)
            caches.append(c)
            copy = [tuple(x.clone() for x in layer) for layer in c]
            rest = tokens[past:] or [5]
            wanted.append(model.hidden(cr.tensor([rest]), copy, past))
        rests = [tokens[past:] or [5] for tokens, past in made]
        spans = Spans([len(rest) for rest in rests], [past for _, past in made])
        row = cr.tensor([[token for rest in rests for token in rest]])
        got = model.hidden(row, [*zip(*caches, strict=True)], spans)
        assert (got - cr.cat(wanted, 1)).abs().max().item() < 1e-12
        with pytest.raises(ValueError, match="of samples of 1 to 40"):
            model.hidden(row, [*zip(*caches, strict=True)], spans._replace(pasts=[17, 40, 0, 0, 21]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_tokens_are_those_of_generate(kind: str, temperature: float) -> None:
    """Requests join at different steps, wait for a slot, have prompts in several parts, and leave."""
    model = small(kind)
    options: dict[str, Any] = {"temperature": temperature, "top_k": 20, "top_p": 0.95}
    answers = [Answer(p, 6 + 2 * i, seed=i, **options) for i, p in enumerate(PROMPTS)]
    engine = Engine(model, slots=3, chunk=5)
    for answer in answers:
        engine.submit(answer.request)
        engine.step()
        engine.step()
    most = 0
    while engine.step():
        most = max(most, engine.running)
    assert most == 3 and engine.running == engine.waiting == 0
    for i, (answer, prompt) in enumerate(zip(answers, PROMPTS, strict=True)):
        wanted = model.generate(prompt, 6 + 2 * i, generator=cr.Generator().manual_seed(i), **options)
        assert answer.tokens == wanted, i
        assert answer.ended == [("length", None)]


@pytest.mark.parametrize("dtype", [cr.float32, cr.bfloat16])
def test_exact_bits(dtype: cr.dtype) -> None:
    """With exact, logarithms of probabilities are equal to the bit, alone or among others."""
    model = small("llama", dtype)
    answers = [Answer(p, 8, seed=i, logprobs=3) for i, p in enumerate(PROMPTS)]
    engine = Engine(model, exact=True, chunk=7)
    engine.submit(*(answer.request for answer in answers))
    while engine.step():
        pass
    for i, (answer, prompt) in enumerate(zip(answers, PROMPTS, strict=True)):
        single, other = Answer(prompt, 8, seed=i, logprobs=3), Engine(model, chunk=7)
        other.submit(single.request)
        while other.step():
            pass
        assert (answer.tokens, answer.logprobs) == (single.tokens, single.logprobs)


def test_the_full_context() -> None:
    model = small("gpt2")
    answer = alone(model, PROMPTS[3], 40 - 22, temperature=0.0)
    assert answer.tokens == model.generate(PROMPTS[3], 18, 0.0) and answer.ended == [("length", None)]


def test_how_answers_end() -> None:
    """At a token of stop, which is not given; by on_token; by cancel, in the queue too; slots and caches are free."""
    model = small("llama")
    free = alone(model, PROMPTS[1], 12, temperature=0.0)
    at = next(i for i in range(1, 12) if free.tokens[i] not in free.tokens[:i])
    stopped = alone(model, PROMPTS[1], 12, temperature=0.0, stop=frozenset([free.tokens[at]]))
    assert stopped.tokens == free.tokens[:at] and stopped.ended == [("stop", None)]
    refused = alone(model, PROMPTS[1], 12, temperature=0.0, most=3)
    assert refused.tokens == free.tokens[:3] and refused.ended == [("stop", None)]

    engine = Engine(model, slots=2)
    answers = [Answer(p, 9, temperature=0.0) for p in PROMPTS[:4]]
    engine.submit(*(answer.request for answer in answers))
    engine.step()
    assert (engine.running, engine.waiting) == (2, 2)
    cache = weakref.ref(engine._running[0])
    engine.cancel(answers[0].request, answers[2].request)
    while engine.step():
        pass
    gc.collect()
    assert cache() is None
    assert [answer.ended[0][0] for answer in answers] == ["cancelled", "length", "cancelled", "length"]
    assert [len(answer.tokens) for answer in answers] == [1, 9, 0, 9]
    assert answers[3].tokens == model.generate(PROMPTS[3], 9, 0.0)


def test_one_failure_is_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forward pass that fails is repeated for each sequence; an error of a callback ends its own request."""
    model = small("llama")
    hidden, asked = model.hidden, []

    def fails(tokens: Any, caches: Any, past: Any) -> Any:
        asked.append(tokens.tolist()[0])
        if (60, 1) in pairwise(asked[-1]):
            raise RuntimeError("no memory")
        return hidden(tokens, caches, past)

    monkeypatch.setattr(model, "hidden", fails)
    answers = [Answer(PROMPTS[1], 5, temperature=0.0), Answer([60, 1], 5), Answer(PROMPTS[2], 5, temperature=0.0)]
    broken = Answer(PROMPTS[4], 5)
    broken.request.on_token = lambda token, logprobs: 1 / 0 > 0
    engine = Engine(model)
    engine.submit(*(answer.request for answer in (*answers, broken)))
    while engine.step():
        pass
    monkeypatch.undo()
    assert [answer.ended[0][0] for answer in (*answers, broken)] == ["length", "error", "length", "error"]
    assert str(answers[1].ended[0][1]) == "no memory" and isinstance(broken.ended[0][1], ZeroDivisionError)
    for answer, prompt in (answers[0], PROMPTS[1]), (answers[2], PROMPTS[2]):
        assert answer.tokens == model.generate(prompt, 5, 0.0)


def test_prompts_are_cut() -> None:
    """A long prompt takes several steps, one after the other, and the others get a token in each of them."""
    engine = Engine(small("llama"), chunk=4)
    first, second = Answer(PROMPTS[0], 12, temperature=0.0), Answer(PROMPTS[3], 2, temperature=0.0)
    engine.submit(first.request)
    engine.step()
    engine.submit(second.request, Answer(PROMPTS[3], 2).request)
    for made in range(2, 7):
        engine.step()
        assert len(first.tokens) == made and not second.tokens
        assert [slot.past for slot in engine._running[1:]] == [4 * (made - 1), 0]
    engine.step()
    assert len(second.tokens) == 1


def test_limits() -> None:
    engine = Engine(small("llama"), slots=1, queue=2)
    answers = [Answer([1], 3) for _ in range(4)]
    engine.submit(answers[0].request)
    with pytest.raises(Full, match="has 1 requests and takes 3: no room for 3"):
        engine.submit(*(answer.request for answer in answers[1:]))
    assert engine.waiting == 1  # all or none
    engine.submit(answers[1].request, answers[2].request)
    with pytest.raises(Full):
        engine.submit(answers[3].request)
    engine.close()
    with pytest.raises(Closed):
        engine.submit(answers[3].request)
    engine.run()
    assert [answer.ended for answer in answers] == [[("cancelled", None)]] * 3 + [[]]
    wrong: Any
    for wrong in {"slots": 0}, {"queue": -1}, {"chunk": 0}:
        with pytest.raises(ValueError, match="must be at least"):
            Engine(engine.model, **wrong)


@pytest.mark.parametrize(
    "prompt, n, options, message",
    [
        ([], 1, {}, "at least one token"),
        ([1], 0, {}, "max_tokens must be at least 1, not 0"),
        ([1] * 30, 11, {}, "30 tokens of the prompt and max_tokens 11 are more than the context, 40"),
        ([V], 1, {}, f"tokens must be from 0 to {V - 1}"),
        ([-1], 1, {}, "tokens must be"),
        ([1], 1, {"logit_bias": {V: 1.0}}, "tokens must be"),
        ([1], 1, {"temperature": -1.0}, "temperature must be 0 or more, not -1"),
        ([1], 1, {"temperature": math.nan}, "temperature"),
        ([1], 1, {"top_k": -1}, "top_k"),
        ([1], 1, {"top_p": 0.0}, "top_p"),
        ([1], 1, {"min_p": 1.5}, "min_p"),
    ],
)
def test_refused_requests(prompt: list[int], n: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Engine(small("llama")).submit(Answer(prompt, n, **options).request)


def test_options_of_a_draw() -> None:
    """min_p, penalties and logit_bias by their definitions; logprobs by softmax."""
    logits, g = cr.tensor([1.0, 3.0, 2.5, -1.0]), cr.Generator().manual_seed(1)

    def drawn(made: tuple[int, ...] = (), **options: Any) -> set[int]:
        request = Answer([1], 1, **options).request
        return {draw(logits, request, made, g) for _ in range(200)}

    assert drawn() >= {0, 1, 2}
    assert drawn(min_p=0.5) == {1, 2}  # exp(2.5 - 3) = 0.61, exp(1 - 3) = 0.14
    assert drawn(min_p=0.7) == {1}
    assert drawn(min_p=0.7, temperature=2.0) == {1, 2}  # exp(-0.25) = 0.78
    assert drawn(min_p=1.0) == {1}
    # top_p sees the whole distribution, as in generate: .568, .345, ..., of which two hold .6
    assert drawn(min_p=0.5, top_p=0.6) == {1, 2}
    greedy: dict[str, Any] = {"temperature": 0.0}
    assert drawn(**greedy) == {1}
    assert drawn(logit_bias={3: 100.0}, **greedy) == {3}
    assert drawn(logit_bias={1: -100.0}, **greedy) == {2}
    assert drawn((1,), presence_penalty=0.4, **greedy) == {1}
    assert drawn((1,), presence_penalty=0.6, **greedy) == {2}
    assert drawn((1,), frequency_penalty=0.3, **greedy) == {1}
    assert drawn((1, 1), frequency_penalty=0.3, **greedy) == {2}
    assert drawn((1, 1, 2), frequency_penalty=0.3, logit_bias={0: 1.3}, **greedy) == {1}
    every = [x - math.log(sum(map(math.exp, logits.tolist()))) for x in logits.tolist()]
    got = logprobs_of(logits, 3, 2)
    assert [token for token, _ in got] == [3, 1, 2]
    assert all(abs(value - every[token]) < 1e-6 for token, value in got)
    assert len(logprobs_of(logits, 0, 9)) == 5 and len(logprobs_of(logits, 0, 0)) == 1


def test_threads() -> None:
    """Requests from several threads, while another one runs the engine."""
    model, answers = small("llama"), [Answer(PROMPTS[i % 6], 5, temperature=0.0) for i in range(24)]
    engine = Engine(model, slots=4)
    runner = threading.Thread(target=engine.run)
    runner.start()
    done = threading.Semaphore(0)
    for answer in answers:
        answer.request.on_end = lambda reason, error: done.release()

    def send(i: int) -> None:
        for answer in answers[i::3]:
            engine.submit(answer.request)

    senders = [threading.Thread(target=send, args=(i,)) for i in range(3)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert all(done.acquire(timeout=60) for _ in answers)
    engine.close()
    runner.join(60)
    assert not runner.is_alive()
    wanted = [model.generate(prompt, 5, 0.0) for prompt in PROMPTS]
    assert all(answer.tokens == wanted[i % 6] for i, answer in enumerate(answers))


def test_unseeded_answers_differ() -> None:
    model = small("llama")
    slots = [Slot(Answer([1], 1).request, model).generator.get_state().tolist() for _ in range(2)]
    assert slots[0] != slots[1]
