"""The routes of the server: requests in OpenAI's form to an engine, which runs in a thread of its own."""

from __future__ import annotations

import asyncio
import hmac
import json
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Thread
from typing import Any

from ..data import Tokenizer
from ..models.batch import Closed, Engine, Full, Request
from ..models.encoder import Encoder
from . import request
from .connection import Call, Gone, Refused
from .embeddings import Embedder, wanted
from .request import Asked, Problem
from .response import Choice, Form, Piece, Token

__all__ = ["App"]

JSON, EVENTS = "application/json", "text/event-stream; charset=utf-8"
LOCAL = ("localhost", "127.0.0.1", "::1")  # names under which a server without a key may be asked


class App:
    """One model under a name.  engine: None where it is an encoder, which gives embeddings only.  key: what clients
    must show; None: nothing, and only this machine's names are answered to.  stop: tokens that end a text; chat_stop:
    an answer of a chat, None: the same.  chat_template: as of ``Tokenizer.apply_chat_template``.  max_prompt,
    max_tokens: of one answer, at most the context."""

    def __init__(
        self,
        engine: Engine | None,
        tokenizer: Tokenizer,
        name: str,
        *,
        encoder: Encoder | None = None,
        key: str | None = None,
        stop: frozenset[int] = frozenset(),
        chat_stop: frozenset[int] | None = None,
        chat_template: str | None = None,
        max_prompt: int = 0,
        max_tokens: int = 0,
    ) -> None:
        model: Any = encoder if engine is None else engine.model
        context: int = model.config.context
        self.embedder = Embedder(model, tokenizer)
        self.engine, self.tokenizer, self.name, self.key, self.stop = engine, tokenizer, name, key, stop
        self.chat_stop, self.chat_template = stop if chat_stop is None else chat_stop, chat_template
        self.context, self.max_prompt, self.max_tokens = context, max_prompt or context, max_tokens or context
        self.special = frozenset(tokenizer.special_tokens.values())
        self.closing = False
        self._readers = ThreadPoolExecutor(2, "chainrule-read")  # parse and tokenize beside the event loop
        self._embedding = ThreadPoolExecutor(1, "chainrule-embed")
        self._thread = Thread(target=engine.run, name="chainrule-engine", daemon=True) if engine else None
        self._routes: dict[str, tuple[str, Callable[[Call], Any]]] = {
            "/health": ("GET", self.health),
            "/v1/models": ("GET", self.models),
            f"/v1/models/{name}": ("GET", self.model),
            "/v1/embeddings": ("POST", self.embeddings),
            "/v1/completions": ("POST", self.completions),
            "/v1/chat/completions": ("POST", self.chat),
        }

    def start(self) -> None:
        if self._thread:
            self._thread.start()

    def close(self) -> None:
        """Cancels what runs and waits for the engine's thread."""
        if self.engine and self._thread:
            self.engine.close()
            self._thread.join()
        self._embedding.shutdown(cancel_futures=True)
        self._readers.shutdown(cancel_futures=True)

    # ---- any request
    async def handle(self, call: Call) -> None:
        """Answers a request; what goes wrong becomes an error in OpenAI's form."""
        try:
            self._check(call)
            await self._routes[call.path][1](call)
        except Problem as problem:
            await self._fail(call, problem)
        except (Gone, Refused, asyncio.CancelledError):
            raise
        except Exception:
            traceback.print_exc(file=sys.stderr)
            await self._fail(call, Problem("the server failed; its log says where", 500, "server_error"))

    async def refuse(self, call: Call, refused: Refused) -> None:
        """Answers what the HTTP layer refuses."""
        await self._fail(call, Problem(str(refused), refused.status))

    async def _fail(self, call: Call, problem: Problem) -> None:
        if call.started:  # a stream: its head is sent
            await call.send(event(problem.body))
            await call.end()
        else:
            await call.answer(problem.status, JSON, text(problem.body), problem.headers)

    def _check(self, call: Call) -> None:
        """Problem: no such route, a wrong key, or a web page that asks on behalf of its reader."""
        host = call.headers.get("host", "").lower()
        name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
        if self.key is None and name.strip("[]") not in LOCAL:
            raise Problem(f"this server answers to {', '.join(LOCAL)}, not to {host[:60]!r}", 403)
        if self.key is not None and call.path != "/health":
            scheme, _, shown = call.headers.get("authorization", "").partition(" ")
            same = hmac.compare_digest(shown.strip().encode("latin-1"), self.key.encode())
            if scheme.lower() != "bearer" or not same:
                challenge = [("www-authenticate", "Bearer")]
                raise Problem("the API key is missing or wrong", 401, code="invalid_api_key", headers=challenge)
        if call.path not in self._routes:
            if call.path.startswith("/v1/models/"):
                raise self._no_model(call.path.removeprefix("/v1/models/"))
            raise Problem(f"there is no {call.path[:60]!r} here", 404)
        method = self._routes[call.path][0]
        if call.method != method and (call.method, method) != ("HEAD", "GET"):
            raise Problem(f"{call.path} takes {method}, not {call.method[:20]}", 405, headers=[("allow", method)])
        kind = call.headers.get("content-type", "").partition(";")[0].strip().lower()
        if method == "POST" and kind != JSON:
            raise Problem(f"the content type must be {JSON}, it is {kind[:60]!r}", 415)

    # ---- what is here
    async def health(self, call: Call) -> None:
        said = {"status": "stopping" if self.closing else "ok"}
        counts = {"running": self.engine.running, "waiting": self.engine.waiting} if self.engine else {}
        await call.answer(503 if self.closing else 200, JSON, text(said | counts))

    def _described(self) -> dict[str, Any]:
        return {"id": self.name, "object": "model", "created": 0, "owned_by": "chainrule"}

    async def models(self, call: Call) -> None:
        await call.answer(200, JSON, text({"object": "list", "data": [self._described()]}))

    async def model(self, call: Call) -> None:
        await call.answer(200, JSON, text(self._described()))

    def _no_model(self, name: str) -> Problem:
        message = f"there is no model {name[:60]!r} here: its name is {self.name!r}"
        return Problem(message, 404, param="model", code="model_not_found")

    # ---- answers
    async def embeddings(self, call: Call) -> None:
        if self.engine and not self.embedder.pools:
            message = f"the model {self.name!r} writes text: its folder has no modules.json of a sentence model"
            raise Problem(message, 404)
        loop = asyncio.get_running_loop()
        said = await loop.run_in_executor(self._readers, wanted, call.body)
        if said.model != self.name:
            raise self._no_model(said.model)
        answer = await loop.run_in_executor(self._embedding, self.embedder.answer, said, self.name)
        await call.answer(200, JSON, text(answer))

    async def completions(self, call: Call) -> None:
        def read() -> Asked:
            return request.completion(call.body, self._encode, self.tokenizer.decode)

        await self._answer(call, await self._read(read), chat=False)

    async def chat(self, call: Call) -> None:
        def read() -> Asked:
            return request.chat(call.body, self._asked)

        await self._answer(call, await self._read(read), chat=True)

    def _encode(self, prompt: str) -> list[int]:
        return self.tokenizer.encode(prompt, allowed_special="all", add_special_tokens=True)

    def _asked(self, messages: list[dict[str, Any]]) -> list[int]:
        """Messages as tokens, up to where the answer begins. ValueError: the template refuses them."""
        template = self.chat_template
        return [*self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, chat_template=template)]

    async def _read(self, read: Callable[[], Asked]) -> Asked:
        """A request, parsed and checked."""
        if self.engine is None:
            raise Problem(f"the model {self.name!r} is an encoder: it answers /v1/embeddings only", 404)
        try:
            said = await asyncio.get_running_loop().run_in_executor(self._readers, read)
        except ValueError as error:  # text that the tokenizer, or messages that the template refuses
            raise Problem(str(error)) from None
        if said.model != self.name:
            raise self._no_model(said.model)
        longest, limit = max(map(len, said.prompts)), said.max_tokens or 1
        if longest > self.max_prompt or longest + limit > self.context:
            message = (
                f"this model's maximum context length is {self.context} tokens, the longest prompt here"
                f" {self.max_prompt}: the prompt has {longest}, max_tokens is {said.max_tokens or 'not given'}"
            )
            raise Problem(message, code="context_length_exceeded")
        if limit > self.max_tokens:
            raise Problem(f"max_tokens is at most {self.max_tokens} here, not {limit}", param="max_tokens")
        return said

    async def _answer(self, call: Call, said: Asked, chat: bool) -> None:
        loop, pieces = asyncio.get_running_loop(), asyncio.Queue[Piece | None]()

        def give(piece: Piece) -> None:  # in the thread of the engine
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        choices, requests = list[Choice](), list[Request]()
        for prompt in said.prompts:
            most = min(self.max_tokens if chat else 16, self.context - len(prompt))
            for i in range(said.n):
                choices.append(Choice(len(choices), self.tokenizer, self.special, said.stop, give))
                options, seed = dict(said.options), said.options["seed"]
                options["seed"] = None if seed is None else (seed + i) % 2**64
                made = Request(prompt, said.max_tokens or most, choices[-1].take, choices[-1].end, **options)
                made.stop = self.chat_stop if chat else self.stop
                requests.append(made)
        self._submit(requests)
        call.on_gone(lambda: pieces.put_nowait(None))
        try:
            await self._give(call, said, Form(self.tokenizer, self.name, chat), choices, arriving(pieces, len(choices)))
        finally:
            if self.engine:
                self.engine.cancel(*requests)

    def _submit(self, requests: list[Request]) -> None:
        assert self.engine is not None
        most = self.engine.slots + self.engine.queue
        if len(requests) > most:  # never, and not only now
            raise Problem(f"{len(requests)} answers to one request: the server has room for {most}", param="n")
        try:
            self.engine.submit(*requests)
        except Full:
            message = f"{self.engine.running} requests run and {self.engine.waiting} wait: try again later"
            raise Problem(message, 429, "rate_limit_error", code="queue_full", headers=[("retry-after", "1")]) from None
        except Closed:
            raise stopping() from None
        except ValueError as error:
            raise Problem(str(error)) from None

    async def _give(
        self, call: Call, said: Asked, form: Form, choices: list[Choice], pieces: AsyncIterator[Piece]
    ) -> None:
        """The answers, whole or as they come."""
        wanted = said.options["logprobs"] is not None
        texts = [text for text in said.texts for _ in range(said.n)]
        tokens: list[list[Token]] = [[] for _ in choices]
        finish, new = [""] * len(choices), set(range(len(choices)))
        if said.stream:
            await call.start(200, EVENTS, [("cache-control", "no-cache")])
        async for piece in pieces:
            i, first = piece.index, piece.index in new
            new.discard(i)
            if said.stream:
                shown = replace(piece, text=texts[i] + piece.text) if first else piece
                await call.send(event(form.chunk(shown, wanted, first)))
            else:
                texts[i] += piece.text
                tokens[i] += piece.tokens
                finish[i] = piece.finish or ""
        prompt, made = sum(map(len, said.prompts)), sum(choice.made for choice in choices)
        usage = {"prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made}
        if not said.stream:
            parts = [(texts[i], tokens[i] if wanted else None, finish[i]) for i in range(len(choices))]
            return await call.answer(200, JSON, text(form.whole(parts, usage)))
        if said.include_usage:
            await call.send(event(form.usage_chunk(usage)))
        await call.send(b"data: [DONE]\n\n")
        await call.end()


async def arriving(pieces: asyncio.Queue[Piece | None], answers: int) -> AsyncIterator[Piece]:
    """The pieces up to the end of each answer.  Gone: the client left.  Problem: an answer failed."""
    while answers:
        piece = await pieces.get()
        if piece is None:
            raise Gone
        if piece.error is not None:
            raise Problem(str(piece.error), 500, "server_error")
        if piece.finish == "cancelled":
            raise stopping()
        answers -= piece.finish is not None
        yield piece


def stopping() -> Problem:
    return Problem("the server is stopping", 503, "server_error", headers=[("retry-after", "5")])


def text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def event(value: Any) -> bytes:
    """A server-sent event."""
    return b"data: " + text(value) + b"\n\n"
