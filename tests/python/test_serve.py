"""The server over loopback: OpenAI's interface, the limits, and clients that misbehave."""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chainrule as cr
import pytest
from chainrule import models
from chainrule.data import Tokenizer
from chainrule.data.chat import Chat
from chainrule.models import Llama
from chainrule.models.batch import Engine
from chainrule.nn import lora
from conftest import BUILD, FULL
from test_families import tiny

h11 = pytest.importorskip("h11", reason="h11 is not installed (tools/requirements-test.txt)")

from chainrule.serve.__main__ import main  # noqa: E402
from chainrule.serve.app import App  # noqa: E402
from chainrule.serve.connection import Call, Gone, Limits, Server  # noqa: E402
from chainrule.serve.request import Problem, chat, completion  # noqa: E402
from chainrule.serve.response import Choice, Piece  # noqa: E402

PROGRAM = BUILD / "chainrule"
CONTEXT = 96
TOKENIZER = Tokenizer.bytes()


@pytest.fixture(scope="module")
def model() -> Any:
    g = cr.Generator().manual_seed(11)
    model = Llama(260, CONTEXT, 1, 2, 16, 24, generator=g)  # some tokens more than the tokenizer has
    with cr.no_grad():
        for p in model.parameters():
            p.add_(cr.randn(*p.shape, generator=g), alpha=0.3)
    return model.eval()


class Running:
    """A server in a thread; ``hold`` stops the model before each step until ``release``."""

    def __init__(self, model: Any, limits: Limits | None = None, **options: Any) -> None:
        engine = {name: options.pop(name) for name in ("slots", "queue") if name in options}
        self.engine, self.gate, self.held = Engine(model, **engine), threading.Semaphore(0), False
        step = self.engine._forward

        def gated(group: Any) -> Any:
            if self.held:
                self.gate.acquire()
            return step(group)

        self.engine._forward = gated  # type: ignore[method-assign]
        self.app = App(self.engine, TOKENIZER, "tiny", **{"chat_template": "chatml", **options})
        self.server = Server(self.app.handle, self.app.refuse, limits or Limits())
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.app.start()
        self.port = self.wait(self.server.start("127.0.0.1", 0))

    def wait(self, awaitable: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaitable, self.loop).result(60)

    def release(self, steps: int = 500) -> None:
        for _ in range(steps):
            self.gate.release()

    def stop(self) -> None:
        self.held = False
        self.release()
        self.wait(self.server.stop(0))
        self.app.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(60)
        self.loop.close()

    # ---- clients
    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 60)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """Status, JSON and headers of an answer."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kind = {} if data is None else {"Content-Type": "application/json"}
        client.request(method, path, data, {**kind, **{k.replace("_", "-"): v for k, v in headers.items()}})
        answer = client.getresponse()
        said = answer.read()
        client.close()
        return answer.status, json.loads(said) if said else None, {k.lower(): v for k, v in answer.getheaders()}

    def post(self, kind: str, **body: Any) -> Any:
        """The answer to a request that succeeds."""
        status, said, _ = self.ask("POST", f"/v1/{kind}", {"model": "tiny", **body})
        assert status == 200, said
        return said

    def raw(self, data: bytes) -> bytes:
        """What comes back until the server closes."""
        with self.connect() as s:
            s.sendall(data)
            return received(s)

    def events(self, kind: str, **body: Any) -> list[Any]:
        """The events of a stream, without [DONE], which must be the last."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        said = json.dumps({"model": "tiny", "stream": True, **body})
        client.request("POST", f"/v1/{kind}", said, {"Content-Type": "application/json"})
        answer = client.getresponse()
        assert answer.status == 200 and answer.getheader("content-type", "").startswith("text/event-stream")
        lines = answer.read().decode().split("\n\n")
        client.close()
        assert lines[-2:] == ["data: [DONE]", ""]
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def received(s: socket.socket) -> bytes:
    parts = []
    try:
        while part := s.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture(scope="module")
def server(model: Any) -> Iterator[Running]:
    running = Running(model)
    yield running
    running.stop()


@pytest.fixture
def starts(model: Any) -> Iterator[Callable[..., Running]]:
    """Servers of one test."""
    made: list[Running] = []

    def start(**options: Any) -> Running:
        made.append(Running(model, **options))
        return made[-1]

    yield start
    for running in made:
        running.stop()


def text_of(model: Any, prompt: str, n: int, **options: Any) -> str:
    """What Decoder.generate writes."""
    seed = options.pop("seed", 0)
    made = model.generate([*prompt.encode()], n, generator=cr.Generator().manual_seed(seed), **options)
    return bytes(token for token in made if token < 256).decode("utf-8", "replace")


# ---- answers
@pytest.mark.skipif(not PROGRAM.exists(), reason="the program is not built")
@pytest.mark.parametrize("kind", ["gpt2", "llama", "mixtral"])
def test_the_text_of_the_program(kind: str, tmp_path: Path) -> None:
    """The same folder: the program's greedy text is the server's, of a model's class and of any family."""
    cr.manual_seed(4)
    if kind == "gpt2":
        models.GPT(256, 64, 2, 2, 32).save_pretrained(tmp_path)
    elif kind == "llama":
        models.Llama(256, 64, 2, 4, 32, 48, 2).save_pretrained(tmp_path)
    else:
        tiny(tmp_path, 256)
    TOKENIZER.save(tmp_path / "tokenizer.json")
    running = Running(models.from_pretrained(tmp_path))
    try:
        said = running.post("completions", prompt="hello", max_tokens=30, temperature=0)["choices"][0]["text"]
    finally:
        running.stop()
    words = ["generate", "--model", tmp_path, "--prompt", "hello", "--tokens", 30, "--temperature", 0]
    done = subprocess.run([str(word) for word in (PROGRAM, *words)], capture_output=True, check=True)
    assert done.stdout[5:].removesuffix(b"\n").decode("utf-8", "replace") == said and len(said) > 5


def test_completions(server: Running, model: Any) -> None:
    """The text of Decoder.generate; usage; several prompts, answers to each, tokens, echo."""
    said = server.post("completions", prompt="hello", max_tokens=24, temperature=0)
    assert said["object"] == "text_completion" and said["model"] == "tiny" and said["id"].startswith("cmpl-")
    assert said["choices"] == [
        {"index": 0, "text": text_of(model, "hello", 24, temperature=0.0), "logprobs": None, "finish_reason": "length"}
    ]
    assert said["usage"] == {"prompt_tokens": 5, "completion_tokens": 24, "total_tokens": 29}
    assert server.post("completions", prompt="a")["usage"]["completion_tokens"] == 16

    drawn: dict[str, Any] = {"temperature": 0.9, "top_k": 40, "top_p": 0.9, "max_tokens": 12}
    wanted = [text_of(model, p, 12, seed=seed, temperature=0.9, top_k=40, top_p=0.9) for p in "ab" for seed in (7, 8)]
    for prompts in ["a", "b"], [[97], [98]]:
        said = server.post("completions", prompt=prompts, n=2, seed=7, **drawn)
        assert [choice["text"] for choice in said["choices"]] == wanted
        assert [choice["index"] for choice in said["choices"]] == [0, 1, 2, 3]
        assert said["usage"] == {"prompt_tokens": 2, "completion_tokens": 48, "total_tokens": 50}
    assert server.post("completions", prompt=[97], seed=7, echo=True, **drawn)["choices"][0]["text"] == "a" + wanted[0]
    assert len({server.post("completions", prompt="a", **drawn)["choices"][0]["text"] for _ in range(4)}) > 1


@pytest.mark.parametrize("kind", ["completions", "chat/completions"])
def test_streams_are_the_whole(server: Running, kind: str) -> None:
    """Pieces make up the whole answers, with their logprobs; usage comes last."""
    is_chat = kind.startswith("chat")
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]} if is_chat else {"prompt": "hi"}
    asked |= {"max_tokens": 20, "seed": 3, "n": 2, "logprobs": True if is_chat else 0}
    whole = server.post(kind, **asked)
    events = server.events(kind, **asked, stream_options={"include_usage": True})
    assert events[-1]["choices"] == [] and events[-1]["usage"] == whole["usage"]
    assert {event["id"] for event in events} == {events[0]["id"]}
    assert events[0]["object"] == ("chat.completion.chunk" if is_chat else "text_completion")
    for i, choice in enumerate(whole["choices"]):
        pieces = [event["choices"][0] for event in events[:-1] if event["choices"][0]["index"] == i]
        assert len(pieces) > 3 and [p["finish_reason"] for p in pieces] == [None] * (len(pieces) - 1) + ["length"]
        if is_chat:
            assert pieces[0]["delta"]["role"] == "assistant" and choice["message"]["role"] == "assistant"
            assert not any("role" in p["delta"] for p in pieces[1:])
            text = "".join(p["delta"].get("content", "") for p in pieces)
            assert text == choice["message"]["content"]
            tokens = [entry for p in pieces for entry in p["logprobs"]["content"]]
            assert tokens == choice["logprobs"]["content"] and len(tokens) == 20
        else:
            assert "".join(p["text"] for p in pieces) == choice["text"]
            values = [value for p in pieces for value in p["logprobs"]["token_logprobs"]]
            assert values == choice["logprobs"]["token_logprobs"] and len(values) == 20
    events = server.events(kind, **{**asked, "logprobs": None})
    assert all("usage" not in event and event["choices"][0]["logprobs"] is None for event in events)


def test_logprobs(server: Running, model: Any) -> None:
    logits = model(cr.tensor([[*b"hello"]]))[0, -1].double()
    every = (logits - logits.exp().sum().log()).tolist()
    best = sorted(range(256), key=lambda token: -every[token])[:4]
    said = server.post("completions", prompt="hello", max_tokens=3, temperature=0, logprobs=4)
    found = said["choices"][0]["logprobs"]
    assert len(found["tokens"]) == len(found["token_logprobs"]) == len(found["top_logprobs"]) == 3
    assert abs(found["token_logprobs"][0] - every[best[0]]) < 1e-4 and found["text_offset"][0] == 0
    drawn = server.post("completions", prompt="hello", max_tokens=8, seed=1, logprobs=1)["choices"][0]["logprobs"]
    assert all(token in best for token, best in zip(drawn["tokens"], drawn["top_logprobs"], strict=True))
    messages = [{"role": "user", "content": "x"}]
    said = server.post(
        "chat/completions", messages=messages, max_tokens=3, logprobs=True, top_logprobs=4, temperature=0
    )
    first = said["choices"][0]["logprobs"]["content"][0]
    assert len(first["top_logprobs"]) == 4 and first["top_logprobs"][0]["logprob"] == first["logprob"]
    assert bytes(first["bytes"]).decode("utf-8", "replace") == first["token"]


def test_stop_strings(server: Running) -> None:
    """Text ends before the first of them, whole and streamed; a beginning of one is held back, not lost."""
    asked: dict[str, Any] = {"prompt": "stop", "max_tokens": 40, "seed": 5}
    text = server.post("completions", **asked)["choices"][0]["text"]
    stop = text[12:15]
    for stops, wanted in ((stop, text[: text.index(stop)]), (["\0never", stop], text[: text.index(stop)])):
        choice = server.post("completions", stop=stops, **asked)["choices"][0]
        assert (choice["text"], choice["finish_reason"]) == (wanted, "stop")
        events = server.events("completions", stop=stops, **asked)
        assert "".join(event["choices"][0]["text"] for event in events) == wanted
        assert events[-1]["choices"][0]["finish_reason"] == "stop"
    assert server.post("completions", stop=stop + "\0", **asked)["choices"][0]["text"] == text


def test_pieces_of_text() -> None:
    """Characters of several bytes, stop strings over several tokens, tokens that are not shown."""
    given: list[Piece] = []

    def answer(tokens: bytes | list[int], *stop: str, end: str = "length", tokenizer: Tokenizer = TOKENIZER) -> str:
        given.clear()
        choice = Choice(0, tokenizer, frozenset([7]), stop, given.append)
        going = True
        for i, token in enumerate(tokens):
            assert going
            going = choice.take(token, [(token, -float(i))])
        choice.end(end if going else "stop", None)
        assert all(piece.finish is None for piece in given[:-1]) and given[-1].finish == (end if going else "stop")
        assert sum(len(piece.tokens) for piece in given) <= len(tokens)
        return "".join(piece.text for piece in given)

    assert answer("aé€😀".encode()) == "aé€😀" and [p.text for p in given] == ["a", "é", "€", "😀", ""]
    assert answer("a€".encode()[:-1]) == "a\ufffd"
    assert answer("a€".encode()[:-1], end="stop") == "a\ufffd"  # at a token of stop
    assert answer([97, 7, 256, 98]) == "ab"  # a special one, and a row of the model beyond the tokenizer
    assert answer(b"one two", "two") == "one " and given[-1].finish == "stop"
    assert [len(p.tokens) for p in given] == [1, 1, 1, 1, 0]  # the tokens of the stop string are not told
    assert answer(b"tw twx", "two") == "tw twx"
    assert answer(b"aab", "ab", "zz") == "a"
    assert answer(b"abcd", "bcx", "cd") == "ab"
    assert answer("x€".encode(), "€") == "x"
    assert [t.offset for p in given for t in p.tokens] == [0]
    assert answer(b"xyz", "z!") == "xyz" and [[t.offset for t in p.tokens] for p in given] == [[0], [1], [2]]
    assert answer(b"zzz", "zz!") == "zzz" and [[t.offset for t in p.tokens] for p in given] == [[0], [1, 2]]
    long = Tokenizer.train_bpe("o€ o‰ o→ o☃ xab yab zab", 258, split=".+")
    first, second = (long.encode(text)[0] for text in ("o€", "ab"))
    assert (long.decode_bytes([first]), long.decode_bytes([second])) == (b"o\xe2", b"ab")
    assert answer([*long.encode("tw"), first], "two", tokenizer=long) == ""  # and nothing of the half character
    assert answer([*long.encode("x"), second], "b", "a", tokenizer=long) == "x"  # the first in the text
    choice = Choice(0, TOKENIZER, frozenset(), [], given.append)
    choice.take(97, [(97, -math.inf)])
    assert given[-1].tokens[0].logprobs == [(97, -9999.0)]  # JSON has no infinity


def test_answers_beside_each_other(server: Running, model: Any) -> None:
    """Twenty clients at once, of other lengths and seeds: each has the text that it has alone."""
    said: dict[int, str] = {}

    def client(i: int) -> None:
        asked = {"prompt": "p" * (1 + 3 * i), "max_tokens": 5 + i, "seed": i}
        if i % 2:
            said[i] = "".join(event["choices"][0]["text"] for event in server.events("completions", **asked))
        else:
            said[i] = server.post("completions", **asked)["choices"][0]["text"]

    clients = [threading.Thread(target=client, args=(i,)) for i in range(20)]
    for one in clients:
        one.start()
    for one in clients:
        one.join(60)
    assert said == {i: text_of(model, "p" * (1 + 3 * i), 5 + i, seed=i) for i in range(20)}


def test_what_is_there(server: Running) -> None:
    assert server.ask("GET", "/health")[:2] == (200, {"status": "ok", "running": 0, "waiting": 0})
    listed = server.ask("GET", "/v1/models")[1]
    assert listed["object"] == "list" and [m["id"] for m in listed["data"]] == ["tiny"]
    assert server.ask("GET", "/v1/models/tiny?x=1")[1] == listed["data"][0]
    assert server.ask("HEAD", "/v1/models")[:2] == (200, None)


def test_tokens_that_end(model: Any, starts: Any, tmp_path: Path) -> None:
    """eos_token_id and eos_token of a folder's files end an answer, and are not shown."""
    (tmp_path / "config.json").write_text('{"eos_token_id": 5}')
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [6, 7, "x"]}')
    assert set(Chat(str(tmp_path), TOKENIZER._source).said.ends) == {5, 6, 7}
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(OSError, match="not a JSON object"):
        Chat(str(tmp_path), TOKENIZER._source)
    made = model.generate([*b"end"], 12, 0.0)
    at = next(i for i in range(2, 12) if made[i] not in made[:i])
    said = starts(stop=frozenset([made[at]])).post("completions", prompt="end", max_tokens=12, temperature=0)
    assert said["choices"][0]["finish_reason"] == "stop" and said["usage"]["completion_tokens"] == at


# ---- what is refused
HI = {"model": "tiny", "prompt": "hi"}
TALK = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    "body, status, message",
    [
        (b"", 400, "the body is not JSON"),
        (b"{", 400, "the body is not JSON"),
        (b"\xff", 400, "the body is not JSON"),
        (b"[" * 100000, 400, "the body is not JSON"),
        (b'{"temperature": NaN}', 400, "NaN is not a number of JSON"),
        (b'{"seed": ' + b"9" * 5000 + b"}", 400, "the body is not JSON"),
        (b"[1]", 400, "must be a JSON object, it is [1]"),
        ({}, 400, '"model" must be a string, it is absent'),
        ({**HI, "model": 5}, 400, '"model" must be a string, it is 5'),
        ({**HI, "model": "gpt-4"}, 404, "there is no model 'gpt-4' here: its name is 'tiny'"),
        ({"model": "tiny"}, 400, '"prompt" must be a string, tokens'),
        ({**HI, "prompt": 5}, 400, '"prompt" must be'),
        ({**HI, "prompt": []}, 400, '"prompt" must be'),
        ({**HI, "prompt": ["a", 5]}, 400, '"prompt" must be'),
        ({**HI, "prompt": [[True]]}, 400, '"prompt" must be'),
        ({**HI, "prompt": ["a"] * 129}, 400, '"prompt" must be'),
        ({**HI, "prompt": ""}, 400, "at least one token"),
        ({**HI, "prompt": [260]}, 400, "tokens must be from 0 to 259"),
        ({**HI, "prompt": [10**30]}, 400, "tokens must be from 0 to 259"),
        ({**HI, "prompt": [-1], "echo": True}, 400, "-1"),
        ({**HI, "prompt": [10**30], "echo": True}, 400, "int"),
        ({**HI, "prompt": "a" * CONTEXT}, 400, f"maximum context length is {CONTEXT} tokens"),
        ({**HI, "max_tokens": CONTEXT}, 400, "max_tokens is 96"),
        ({**HI, "max_tokens": 0}, 400, '"max_tokens" must be a whole number from 1'),
        ({**HI, "max_tokens": 1.5}, 400, '"max_tokens" must be a whole number'),
        ({**HI, "max_tokens": True}, 400, '"max_tokens" must be a whole number'),
        ({**HI, "temperature": "hot"}, 400, '"temperature" must be a number from 0 to 100, it is "hot"'),
        ({**HI, "temperature": -1}, 400, '"temperature" must be'),
        ({**HI, "temperature": True}, 400, '"temperature" must be'),
        (b'{"model": "tiny", "prompt": "a", "temperature": 1e999}', 400, '"temperature" must be'),
        ({**HI, "top_p": 0}, 400, '"top_p" must be'),
        ({**HI, "top_k": 1.5}, 400, '"top_k" must be'),
        ({**HI, "min_p": 2}, 400, '"min_p" must be'),
        ({**HI, "seed": "x"}, 400, '"seed" must be'),
        ({**HI, "n": 129}, 400, '"n" must be a whole number from 1 to 128'),
        ({**HI, "stream": "yes"}, 400, '"stream" must be true or false'),
        ({**HI, "stream_options": 1}, 400, '"stream_options" must be an object'),
        ({**HI, "stream_options": {"x": 1}}, 400, 'there is no entry "stream_options.x"'),
        ({**HI, "stop": [""]}, 400, '"stop" must be'),
        ({**HI, "stop": ["a"] * 5}, 400, '"stop" must be a string or a list of up to 4'),
        ({**HI, "stop": 5}, 400, '"stop" must be'),
        ({**HI, "logprobs": 6}, 400, '"logprobs" must be'),
        ({**HI, "logprobs": 1, "echo": True}, 400, '"echo" with "logprobs" is not supported'),
        ({**HI, "logit_bias": [1]}, 400, '"logit_bias" must be'),
        ({**HI, "logit_bias": {"x": 1}}, 400, '"logit_bias" must be'),
        ({**HI, "logit_bias": {"1": 101}}, 400, '"logit_bias" must be'),
        ({**HI, "logit_bias": {"1": -101}}, 400, '"logit_bias" must be'),
        ({**HI, "logit_bias": {"1": 10**400}}, 400, '"logit_bias" must be'),
        ({**HI, "logit_bias": {"999": 1}}, 400, "tokens must be from 0 to 259"),
        ({**HI, "suffix": "x"}, 400, '"suffix" is not supported: "x"'),
        ({**HI, "best_of": 3}, 400, '"best_of" is not supported: 3'),
        ({**HI, "temprature": 1}, 400, 'there is no entry "temprature"'),
        ({"model": "tiny"}, 400, '"messages" must be a list'),
        ({**TALK, "messages": []}, 400, '"messages" must be a list'),
        ({**TALK, "messages": ["x"]}, 400, '"messages[0]" must be an object, it is "x"'),
        ({**TALK, "messages": [{"role": "user"}]}, 400, '"messages[0].content" must be a string'),
        ({**TALK, "messages": [{"role": "king", "content": ""}]}, 400, '"messages[0].role" must be one of'),
        ({**TALK, "messages": [{"role": ["user"], "content": ""}]}, 400, '"messages[0].role" must be one of'),
        ({**TALK, "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "parts of text"),
        ({**TALK, "messages": [{"role": "user", "content": [{"type": "text"}]}]}, 400, "parts of text"),
        ({**TALK, "tools": [{"type": "function"}]}, 400, '"tools" is not supported'),
        ({**TALK, "response_format": {"type": "json_object"}}, 400, '"response_format" is not supported'),
        ({**TALK, "top_logprobs": 2}, 400, '"top_logprobs" needs "logprobs": true'),
    ],
)
def test_bad_bodies(server: Running, body: Any, status: int, message: str) -> None:
    """Errors in OpenAI's form; a stream that is refused is no stream."""
    is_chat = isinstance(body, dict) and ("messages" in body or "messages" in message)
    kind = "chat/completions" if is_chat else "completions"
    for stream in (False, True) if isinstance(body, dict) and "stream" not in body else (False,):
        got, said, _ = server.ask("POST", f"/v1/{kind}", {**body, "stream": stream} if stream else body)
        assert got == status and set(said) == {"error"}
        assert set(said["error"]) == {"message", "type", "param", "code"}
        assert said["error"]["type"] == "invalid_request_error" and message in said["error"]["message"], said
    code = {404: "model_not_found"}.get(status) or ("context_length_exceeded" if "context is" in message else None)
    assert code is None or said["error"]["code"] == code


def test_what_changes_nothing_is_taken() -> None:
    """Entries that clients send; null is the same as absent; content in parts."""
    extra = b'"user": "u", "store": false, "tools": [], "tool_choice": "auto", "response_format": {"type": "text"}'
    parts = b'[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]'
    seen: list[Any] = []
    asked = chat(
        b'{"model": "m", "stop": null, "seed": -1, "logit_bias": {"3": 1}, "top_k": -1, ' + extra + b', "messages": ['
        b'{"role": "developer", "content": ' + parts + b'}, {"role": "user", "content": "\\ud83d", "name": "n"}]}',
        lambda messages: seen.extend(messages) or [1, 2],  # type: ignore[func-returns-value]
    )
    assert seen == [{"role": "system", "content": "ab"}, {"role": "user", "content": "\ud83d"}]
    assert asked.prompts == [[1, 2]] and asked.stop == [] and asked.max_tokens is None and not asked.stream
    assert asked.options["seed"] == 2**64 - 1 and asked.options["logit_bias"] == {3: 1.0}
    assert asked.options["top_k"] == 0  # -1, as other servers write "all"
    limits = (
        b'{"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 9, "max_completion_tokens": 5}'
    )
    assert chat(limits, lambda messages: [1]).max_tokens == 5  # the newer name wins
    with pytest.raises(Problem):
        completion(b'{"model": "m", "prompt": null}', TOKENIZER.encode, TOKENIZER.decode)


def test_lone_surrogates(server: Running) -> None:
    """A str of JSON that is not Unicode text."""
    assert server.ask("POST", "/v1/completions", b'{"model": "tiny", "prompt": "\\ud83d"}')[0] == 200


def test_routes(server: Running) -> None:
    for method, path, status in (
        ("GET", "/", 404),
        ("GET", "/v1/completions", 405),
        ("POST", "/v1/models", 405),
        ("DELETE", "/health", 405),
        ("GET", "/v1/models/gpt-4", 404),
        ("GET", "/v1%2Fmodels%2fgpt%204?x=%20", 404),
        ("GET", "/%76%31/completions", 405),
        ("GET", "/%ff%zz%", 404),
    ):
        got, said, headers = server.ask(method, path)
        assert got == status and said["error"]["message"], path
        assert ("allow" in headers) == (status == 405)
    assert server.ask("POST", "/v1/embeddings", {"model": "tiny", "input": "a"})[0] == 404  # it writes text
    assert server.ask("GET", "/v1/%6Dodels?x")[0] == server.ask("GET", "/h%65alth")[0] == 200
    assert "'gpt 4'" in server.ask("GET", "/v1/models/gpt%204")[1]["error"]["message"]
    body = json.dumps(HI).encode()
    for kind in "text/plain", "application/x-www-form-urlencoded", "":
        assert server.ask("POST", "/v1/completions", body, Content_Type=kind)[0] == 415  # what a web page may send
    status, said, _ = server.ask("GET", "/v1/models", Host="evil.example")
    assert status == 403 and "evil.example" in said["error"]["message"]  # a name that leads here (DNS rebinding)
    assert server.ask("POST", "/v1/completions", body, Content_Type="Application/JSON; charset=utf-8")[0] == 200
    for host in "localhost", "LocalHost:80", "127.0.0.1:1", "[::1]", "[::1]:80":
        assert server.ask("GET", "/v1/models", Host=host)[0] == 200, host


def test_key(starts: Any) -> None:
    server = starts(key="secret")
    assert server.ask("GET", "/health")[0] == 200
    for given in {}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}, {"Authorization": "Bearer s\xe9"}:
        status, said, headers = server.ask("GET", "/v1/models", **given)
        assert status == 401 and said["error"]["code"] == "invalid_api_key" and headers["www-authenticate"] == "Bearer"
    assert server.ask("GET", "/v1/nothing")[0] == 401
    assert server.ask("GET", "/v1/models", Authorization="Bearer secret", Host="a.example")[0] == 200


# ---- limits
def test_the_queue_is_full(starts: Any) -> None:
    """One answer runs, one waits, the next is refused and told when to come back; all is free afterwards."""
    server = starts(slots=1, queue=1)
    server.held = True
    answers: list[Any] = []
    clients = [
        threading.Thread(target=lambda: answers.append(server.post("completions", prompt="a", max_tokens=4)))
        for _ in range(2)
    ]
    for i, client in enumerate(clients):
        client.start()
        until(lambda i=i: server.engine.running + server.engine.waiting == i + 1)  # type: ignore[misc]
    until(lambda: server.engine.running == 1)
    for n in 3, 100:  # more than ever fit: coming back does not help
        status, said, headers = server.ask("POST", "/v1/completions", {**HI, "n": n})
        assert status == 400 and said["error"]["param"] == "n" and "room for 2" in said["error"]["message"]
        assert "retry-after" not in headers
    status, said, headers = server.ask("POST", "/v1/completions", HI)
    assert status == 429 and headers["retry-after"] == "1" and said["error"]["code"] == "queue_full"
    assert server.ask("GET", "/health")[1] == {"status": "ok", "running": 1, "waiting": 1}
    server.held = False
    server.release()
    for client in clients:
        client.join(60)
    assert [a["usage"]["completion_tokens"] for a in answers] == [4, 4]
    assert server.post("completions", prompt="a")


def test_tokens_limits(starts: Any) -> None:
    server = starts(max_prompt=4, max_tokens=6)
    status, said, _ = server.ask("POST", "/v1/completions", {**HI, "prompt": "12345"})
    assert status == 400 and "the longest prompt here 4: the prompt has 5" in said["error"]["message"]
    status, said, _ = server.ask("POST", "/v1/completions", {**HI, "max_tokens": 7})
    assert status == 400 and "at most 6 here, not 7" in said["error"]["message"]
    assert server.post("completions", prompt="1234", max_tokens=6)["usage"]["completion_tokens"] == 6
    whole = starts().post("completions", prompt="a" * (CONTEXT - 2), max_tokens=2)  # to the end of the context
    assert whole["usage"]["total_tokens"] == CONTEXT


@pytest.mark.parametrize("stream", [False, True])
def test_disconnects(starts: Any, stream: bool) -> None:
    """A client that leaves ends its request: the slot is free after the next step."""
    server, noticed = starts(slots=1), threading.Event()
    server.held, cancel = True, server.engine.cancel

    def cancelled(*requests: Any) -> None:
        cancel(*requests)
        noticed.set()

    server.engine.cancel = cancelled
    body = json.dumps({**HI, "max_tokens": 80, "stream": stream}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d"
    with server.connect() as s:
        s.sendall(head % len(body) + b"\r\n\r\n" + body)
        until(lambda: server.engine.running == 1)
        server.release(3)
        if stream:
            assert b"text/event-stream" in s.recv(65536)
    assert noticed.wait(60)
    server.release(2)
    until(lambda: server.engine.running == 0)
    assert server.engine.steps <= 5
    server.held = False
    server.release()
    assert server.post("completions", prompt="a")["usage"]["completion_tokens"] == 16


def test_failures_inside(starts: Any, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    """A model that fails is a 500 in OpenAI's form, or an event of a stream; the server goes on."""
    server = starts()

    def fails(group: Any) -> Any:
        raise RuntimeError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(server.engine, "_forward", fails)
        status, said, _ = server.ask("POST", "/v1/completions", HI)
        assert status == 500 and said["error"] == {
            "message": "no memory",
            "type": "server_error",
            "param": None,
            "code": None,
        }
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        client.request(
            "POST", "/v1/completions", json.dumps({**HI, "stream": True}), {"Content-Type": "application/json"}
        )
        assert json.loads(client.getresponse().read().removeprefix(b"data: "))["error"]["message"] == "no memory"
        client.close()
    with monkeypatch.context() as patch:
        patch.setattr(server.app, "_submit", lambda requests: 1 / 0)
        status, said, _ = server.ask("POST", "/v1/completions", HI)
        assert status == 500 and "ZeroDivisionError" not in str(said) and "ZeroDivisionError" in capfd.readouterr().err
    assert server.post("completions", prompt="a")


# ---- HTTP
def test_bodies_over_the_limit(starts: Any) -> None:
    """413, before the body is read: by its length, while it is sent, and in chunks."""
    server = starts(limits=Limits(body=5000))
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with server.connect() as s:  # nothing of the body is sent
        s.sendall(head + b"Content-Length: 10000000\r\nExpect: 100-continue\r\n\r\n")
        said = received(s)
        assert said.startswith(b"HTTP/1.1 413 ") and b"the body is 10000000 bytes, the limit is 5000" in said
        assert b"connection: close" in said.lower()
    status, said, _ = server.ask("POST", "/v1/completions", {**HI, "prompt": "x" * 10_000_000})
    assert status == 413 and said["error"]["type"] == "invalid_request_error"
    most = json.dumps({**HI, "max_tokens": 1, "user": ""}).encode()
    most = most.replace(b'"user": ""', b'"user": "%s"' % (b"u" * (5000 - len(most))))
    assert len(most) == 5000 and server.ask("POST", "/v1/completions", most)[0] == 200
    chunks = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    said = server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks * 2)
    assert said.startswith(b"HTTP/1.1 413 ") and b"larger than the limit, 5000 bytes" in said
    body = json.dumps({**HI, "prompt": "x" * 20}).encode()
    chunk = b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    said = server.raw(head + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk)
    assert said.startswith(b"HTTP/1.1 200 ")
    said = server.raw(head + b"Expect: 100-continue\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
    assert said.startswith(b"HTTP/1.1 100 ") and b"HTTP/1.1 400 " in said


@pytest.mark.parametrize(
    "data, status",
    [
        (b"hello\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no host
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100000 + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * 100000 + b" HTTP/1.1\r\n\r\n", 431),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET /health HTTP/1.0\r\n\r\n", 403),  # answered, by the application
        (b"GET /h\xc3\xa9 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400),
    ],
)
def test_bad_requests(server: Running, data: bytes, status: int) -> None:
    said = server.raw(data)
    assert said.startswith(b"HTTP/1.1 %d " % status), said[:200]
    head, _, body = said.partition(b"\r\n\r\n")
    assert "error" in json.loads(body) and (b"connection: close" in head.lower() or b"HTTP/1.0" in data)
    assert server.ask("GET", "/health")[0] == 200


def test_requests_of_one_connection(server: Running) -> None:
    """One after the other, and two that are sent at once."""
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    for _ in range(3):
        client.request("POST", "/v1/completions", json.dumps(HI), {"Content-Type": "application/json"})
        assert json.loads(client.getresponse().read())["object"] == "text_completion"
    client.close()
    get = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    said = server.raw(get + b"\r\n" + get + b"Connection: close\r\n\r\n")
    assert said.count(b'{"status":"ok"') == 2


def test_slow_senders(starts: Any) -> None:
    """Headers and bodies that do not arrive in time are answered with 408; a silent connection is closed."""
    server = starts(limits=Limits(head_seconds=0.1, body_seconds=0.1, idle_seconds=0.1))
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
    assert server.raw(b"") == b""
    assert server.raw(head).startswith(b"HTTP/1.1 408 ")
    said = server.raw(head + b"\r\n{")
    assert said.startswith(b"HTTP/1.1 408 ") and b"the body did not arrive within 0.1 s" in said
    assert server.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").startswith(b"HTTP/1.1 200 ")  # then idle


def test_slow_readers() -> None:
    """A client that does not read is cut off; one that reads gets everything."""
    sent, ended = [0], threading.Event()

    async def handle(call: Call) -> None:
        await call.start(200, "text/plain")
        try:
            for _ in range(64):
                await call.send(b"x" * (1 << 20))
                sent[0] += 1
            await call.end()
        except Gone:
            ended.set()
            raise

    async def refuse(call: Call, refused: Any) -> None:
        raise AssertionError(refused)

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = Server(handle, refuse, Limits(write_seconds=0.2))
    port = asyncio.run_coroutine_threadsafe(server.start("127.0.0.1", 0), loop).result(60)
    try:
        with socket.create_connection(("127.0.0.1", port), 60) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert ended.wait(60) and sent[0] < 64
            assert len(received(s)) < 64 << 20
        until(lambda: not server._clients)
        with socket.create_connection(("127.0.0.1", port), 60) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert len(received(s)) > 64 << 20
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(0), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


def test_a_thousand_connections(starts: Any) -> None:
    """Those within the limit are kept, those above it get 503 at once, and others are answered meanwhile."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    n = 1000 if hard > 2300 else 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2400)), hard))
    server = starts(limits=Limits(connections=n - 50))
    clients = []
    try:
        clients = [server.connect() for _ in range(n - 100)]
        until(lambda: len(server.server._clients) == n - 100)
        assert server.post("completions", prompt="a")  # beside them
        until(lambda: len(server.server._clients) == n - 100)
        clients += [server.connect() for _ in range(100)]
        refused = 0
        for client in clients[n - 100 :]:
            client.settimeout(0.02 if refused >= 50 else 60)
        until(lambda: len(server.server._clients) == n - 50)
        for client in clients[n - 50 :]:
            client.settimeout(60)
            refused += received(client).startswith(b"HTTP/1.1 503 ")
        assert refused == 50
        clients[0].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert received(clients[0]).startswith(b"HTTP/1.1 200 ")
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    until(lambda: not server.server._clients)
    assert server.post("completions", prompt="a")


def test_stopping(starts: Any) -> None:
    """Answers that are given end first; idle connections are closed; after the grace the rest is cancelled."""
    server = starts(limits=Limits(head_seconds=600.0))
    server.held = True
    streams: list[Any] = []
    client = threading.Thread(target=lambda: streams.append(server.events("completions", prompt="a", max_tokens=6)))
    idle = server.connect()
    client.start()
    until(lambda: server.engine.running == 1)
    server.app.closing = True
    assert server.ask("GET", "/health")[:2] == (503, {"status": "stopping", "running": 1, "waiting": 0})
    stopping = asyncio.run_coroutine_threadsafe(server.server.stop(60), server.loop)
    assert received(idle) == b""
    with pytest.raises(OSError):
        server.connect()
    server.held = False
    server.release()
    client.join(60)
    stopping.result(60)
    assert streams[0][-1]["choices"][0]["finish_reason"] == "length" and not server.server._clients

    server = starts()
    server.held = True
    with server.connect() as s:
        body = json.dumps({**HI, "stream": True}).encode()
        s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        s.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        until(lambda: server.engine.running == 1)
        server.wait(server.server.stop(0))
        assert b"[DONE]" not in received(s)
    server.release()
    until(lambda: server.engine.running == 0)


# ---- as a user starts it
@pytest.fixture(scope="module")
def folder(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("serve") / "tiny"
    model.save_pretrained(path)
    TOKENIZER.save(path / "tokenizer.json")
    return path


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
SERVE = [sys.executable, "-m", "chainrule.serve"]
COMMANDS = [SERVE] + ([[str(PROGRAM), "serve"]] if PROGRAM.exists() else [])


@contextmanager
def started(command: list[str], *words: str) -> Iterator[tuple[subprocess.Popen[str], Callable[..., Any]]]:
    """The command's process, and a function that posts to it and gives what it answers."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [*command, "--port", "0", "--threads", "1", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**ENVIRONMENT, "PATH": path}
    ) as process:
        try:
            assert process.stdout and process.stderr
            line = process.stdout.readline()
            assert line.startswith("serving tiny at http://127.0.0.1:"), line + process.stderr.read()
            client = http.client.HTTPConnection("127.0.0.1", int(line.strip()[:-3].rpartition(":")[2]), timeout=60)

            def post(route: str, **body: Any) -> Any:
                client.request("POST", f"/v1/{route}", json.dumps(body), {"Content-Type": "application/json"})
                return json.loads(client.getresponse().read())

            yield process, post
            client.close()
        finally:
            process.kill()  # one that goes on would be waited for


@pytest.mark.parametrize("command", COMMANDS, ids=["module", "program"][: len(COMMANDS)])
def test_the_command(command: list[str], folder: Path, model: Any) -> None:
    """Starts, says where it is, answers, and ends well at a signal."""
    words = ["--model", str(folder), "--max-concurrent", "1", "--queue", "2", "--template", "chatml"]
    with started(command, *words) as (process, post):
        said = post("completions", **HI, max_tokens=8, temperature=0)
        assert said["choices"][0]["text"] == text_of(model, "hi", 8, temperature=0.0)
        assert "room for 3" in post("completions", **HI, n=4)["error"]["message"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0 and process.stderr and process.stderr.read() == ""


def test_an_adapter(folder: Path, tmp_path: Path) -> None:
    """--adapter: the texts of the model with the adapter, and the adapter's template."""
    tuned: Any = models.from_pretrained(folder)
    before = text_of(tuned, "hi", 8, temperature=0.0)
    cr.manual_seed(1)
    lora.apply(tuned, r=4, alpha=64)
    for name, weight in tuned.named_parameters():
        if "lora_B" in name:
            cr.nn.init.normal_(weight)
    lora.save(tuned, tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}")
    tuned.eval()
    wanted = text_of(tuned, "hi", 8, temperature=0.0)
    assert wanted != before
    with started(SERVE, "--model", str(folder), "--adapter", str(tmp_path)) as (_, post):
        said = post("completions", **HI, max_tokens=8, temperature=0)
        messages = [{"role": "user", "content": "hi"}]
        chat = post("chat/completions", model="tiny", messages=messages, max_tokens=8, temperature=0)
    assert said["choices"][0]["text"] == wanted and chat["choices"][0]["message"]["content"] == wanted


def test_refused_commands(folder: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*words: str) -> tuple[Any, str]:
        try:
            code: Any = main([*words])
        except SystemExit as end:
            code = end.code
        return code, capsys.readouterr().err

    monkeypatch.delenv("CHAINRULE_API_KEY", raising=False)
    model = ("--model", str(folder))
    for host in "0.0.0.0", "::", "192.0.2.1":
        code, said = run(*model, "--host", host, "--port", "0")
        assert code == 2 and f"--host {host} lets other machines in: this needs --api-key" in said
    with monkeypatch.context() as patch:  # a name of this machine and of others
        both = [(0, 0, 0, "", (address, 0)) for address in ("127.0.0.1", "192.0.2.1")]
        patch.setattr(socket, "getaddrinfo", lambda *_: both)
        assert run(*model, "--host", "both.example")[0] == 2
    code, said = run(*model, "--adapter", str(tmp_path / "none"))
    assert code == 1 and said.startswith("chainrule serve: ") and "none" in said
    for words, message in (
        (["--api-key", ""], "the API key must be"),
        (["--api-key", "k\xe9"], "the API key must be"),
        (["--queue", "-1"], "must be at least 0, not -1"),
        (["--port", "65536"], "must be at most 65535, not 65536"),
        (["--max-body", "x"], "invalid whole number value: 'x'"),
    ):
        code, said = run(*model, *words)
        assert code == 2 and message in said
    code, said = run("--model", str(tmp_path / "none"))
    assert code == 1 and said.startswith("chainrule serve: ") and "none" in said
    code, said = run("--model", str(tmp_path))
    assert code == 1 and f"'{tmp_path}' holds no model: no config.json, and no checkpoint" in said
    monkeypatch.setenv("CHAINRULE_API_KEY", "hush")
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    said = capsys.readouterr().out
    assert "CHAINRULE_API_KEY" in said and "(default: 8000)" in said and "hush" not in said and "None" not in said
    monkeypatch.delenv("CHAINRULE_API_KEY")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = run(*model, "--port", str(taken.getsockname()[1]))
        first, second, _ = said.split("\n")
        assert first == "chainrule serve: the model has no chat template: chats are in ChatML (--template)"
        assert code == 1 and second.startswith("chainrule serve: cannot listen at 127.0.0.1:")
    (folder / "generation_config.json").write_text("[")
    assert run(*model)[0] == 1
    (folder / "generation_config.json").unlink()
    for name in "h11", "chainrule.serve.app", "chainrule.serve.connection":
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "h11", None)
    code, said = run(*model)
    assert code == 1 and said == "chainrule serve: needs the package h11: pip install 'chainrule[serve]'\n"


def test_the_client_of_openai(starts: Any, model: Any) -> None:
    """Its Python client: answers, streams, lists, errors by their classes."""
    openai = pytest.importorskip("openai", reason="openai is not installed (make oracle)")
    server = starts(key="secret", slots=4)
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="secret", max_retries=0)
    said = client.completions.create(model="tiny", prompt="hello", max_tokens=9, temperature=0)
    assert said.choices[0].text == text_of(model, "hello", 9, temperature=0.0) and said.usage.completion_tokens == 9
    messages: Any = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    whole = client.chat.completions.create(model="tiny", messages=messages, max_tokens=9, seed=1, logprobs=True)
    text = whole.choices[0].message.content
    assert whole.choices[0].message.role == "assistant" and len(whole.choices[0].logprobs.content) == 9
    stream = client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=9, seed=1, stream=True, stream_options={"include_usage": True}
    )
    chunks = [*stream]
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert chunks[-1].usage.completion_tokens == 9
    assert [m.id for m in client.models.list()] == ["tiny"] and client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError, match="no model 'gpt-4'"):
        client.completions.create(model="gpt-4", prompt="a")
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(model="tiny", prompt="a" * 200)
    assert error.value.code == "context_length_exceeded"
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="other").models.list()
    with client.completions.create(model="tiny", prompt="a", max_tokens=90, stream=True) as left:
        next(iter(left))
    until(lambda: server.engine.running == 0)


@pytest.mark.skipif(not FULL, reason="CHAINRULE_TEST_FULL=1: random bodies")
def test_random_bodies(server: Running) -> None:
    """Bodies with one entry exchanged for something else: an answer or an error of the client's, never a 500."""
    import random

    rng = random.Random(1)
    values = [None, True, 0, -1, 1.5, 1e300, "", "x", "\0", [], [1], ["a"], [[1]], {}, {"a": 1}, {"1": 1}]
    names = "model prompt messages n seed stop stream stream_options temperature top_p top_k min_p max_tokens logprobs"
    for _ in range(1500):
        base: Any
        base, kind = rng.choice([(HI, "completions"), (TALK, "chat/completions")])
        name = rng.choice([*names.split(), "logit_bias", "presence_penalty", "top_logprobs", "echo", "tools"])
        body: Any = {**base, "max_tokens": 2, name: rng.choice(values), "stream": False}
        status, _, _ = server.ask("POST", f"/v1/{kind}", body)
        assert status in (200, 400, 404)
