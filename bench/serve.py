"""Tokens a second of the server's engine, and of the server over loopback: 1, 4 and 16 requests at once against
the same requests one at a time.

use: serve.py [--model DIR] [--quick] [--threads 2] [--tokens 64] [--http]        prints JSON
Without a model: random weights in the shape of GPT-2 124M; --quick: 2 layers, 128 wide.  --http needs h11.
"""

import argparse
import asyncio
import json
import time
from threading import Thread
from typing import Any

import chainrule as cr
from chainrule import models
from chainrule.data import Tokenizer
from chainrule.models.batch import Engine, Request

PROMPT = 32  # tokens


def opened(o: argparse.Namespace) -> Any:
    if o.model:
        return models.from_pretrained(o.model)
    return models.GPT(256, 256, 2, 4, 128).eval() if o.quick else models.GPT(50257, 1024, 12, 12, 768).eval()


def asked(i: int) -> list[int]:
    return [(7 * i + 3 * t * t) % 200 for t in range(PROMPT)]


def by_engine(model: Any, at_once: int, requests: int, tokens: int) -> float:
    """Seconds for all requests, so many of them at once."""
    engine = Engine(model, slots=at_once, queue=requests)
    every = [
        Request(asked(i), tokens, lambda token, logprobs: True, lambda reason, error: None, temperature=0.0)
        for i in range(requests)
    ]
    start = time.perf_counter()
    engine.submit(*every)
    while engine.step():
        pass
    return time.perf_counter() - start


def over_http(model: Any, at_once: int, requests: int, tokens: int) -> float:
    """The same through the server: each of so many clients sends one request after the other."""
    from chainrule.serve.app import App
    from chainrule.serve.connection import Limits, Server

    async def client(port: int, mine: range) -> None:
        for i in mine:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            body = {"model": "m", "prompt": asked(i), "max_tokens": tokens, "temperature": 0, "stream": True}
            data = json.dumps(body).encode()
            head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Connection: close\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
            said = await reader.read(-1)
            assert b"[DONE]" in said, said
            writer.close()

    async def everything() -> float:
        app = App(Engine(model, slots=at_once), Tokenizer.bytes(), "m", chat_template="chatml")
        server = Server(app.handle, app.refuse, Limits())
        port = await server.start("127.0.0.1", 0)
        app.start()
        start = time.perf_counter()
        await asyncio.gather(*(client(port, range(c, requests, at_once)) for c in range(at_once)))
        seconds = time.perf_counter() - start
        await server.stop(1)
        app.close()
        return seconds

    seconds: list[float] = []
    thread = Thread(target=lambda: seconds.append(asyncio.run(everything())))
    thread.start()
    thread.join()
    return seconds[0]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--http", action="store_true")
    o = parser.parse_args()
    cr.set_num_threads(o.threads)
    cr.manual_seed(0)
    model, run, rows = opened(o), over_http if o.http else by_engine, []
    requests, tokens = (8, 8) if o.quick else (16, o.tokens)
    run(model, 1, 1, 4)  # warm
    for at_once in 1, 4, 16:
        rate = requests * tokens / run(model, at_once, requests, tokens)
        rows.append({"at once": at_once, "tokens/s": round(rate, 1)})
    way = "http" if o.http else "engine"
    print(json.dumps({"version": cr.__version__, "way": way, "requests": requests, "tokens": tokens, "rows": rows}))


if __name__ == "__main__":
    main()
