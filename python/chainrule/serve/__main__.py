"""The command line of the server."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from .. import set_num_threads
from ..data import Tokenizer
from ..models import GPT, from_pretrained
from ..models.batch import Engine

KEY = "CHAINRULE_API_KEY"
KINDS = "a model is a chainrule run, a Hugging Face folder, or a GGUF file"
TYPES = ("float32", "float16", "bfloat16")


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """With the defaults that are values."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        none = action.default is None or action.default is False
        return action.help if none else super()._get_help_string(action)


def number(least: int, most: int = 2**53) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            wanted = f"at least {least}" if value < least else f"at most {most}"
            raise argparse.ArgumentTypeError(f"must be {wanted}, not {value}")
        return value

    read.__name__ = "whole number"
    return read


def open_files() -> int:
    """How many files and sockets this process may have."""
    if sys.platform == "win32":
        return 2048  # of the C library; sockets have no limit of their own
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def arguments(words: list[str] | None) -> argparse.Namespace:
    p = argparse.ArgumentParser(
        prog="chainrule serve",
        description="Serves a language model over HTTP with OpenAI's interface: /v1/completions,"
        " /v1/chat/completions, /v1/models, /health.",
        formatter_class=Help,
    )
    p.add_argument(
        "--model", required=True, metavar="DIR", help="a Hugging Face folder, a GGUF file, or a chainrule run"
    )
    p.add_argument("--adapter", metavar="PATH", help="an adapter of finetune --lora, of PEFT or of llama.cpp")
    p.add_argument("--name", help="of the model in requests; the folder's when absent")
    p.add_argument("--host", default="127.0.0.1", help="where to listen; elsewhere than this machine needs a key")
    p.add_argument("--port", type=number(0, 65535), default=8000, help="0: a free one, which is printed")
    p.add_argument("--api-key", help=f"what clients must show; or the variable {KEY}")
    p.add_argument("--device", default="cpu", help="cpu, gpu, cuda:0...")
    p.add_argument("--dtype", choices=TYPES, help="of the weights; the files' when absent")
    what = "of chats: chatml, llama2, llama3, mistral, or a file in Jinja; the model's when absent"
    p.add_argument("--template", metavar="NAME|FILE", help=what)
    p.add_argument("--threads", type=number(0), default=0, help="0: as many as the machine offers")
    p.add_argument("--max-concurrent", type=number(1), default=16, help="answers at once")
    p.add_argument("--queue", type=number(0), default=64, help="answers that wait; more are refused (429)")
    p.add_argument("--max-prompt", type=number(0), default=0, help="tokens of a prompt; 0: the context")
    p.add_argument("--max-tokens", type=number(0), default=0, help="tokens of an answer; 0: the context")
    p.add_argument("--max-body", type=number(1), default=1 << 20, help="bytes of a request (413)")
    p.add_argument("--max-connections", type=number(1), default=1000, help="open connections (503)")
    p.add_argument("--timeout", type=number(1), default=30, help="seconds for a client to send a body or to read")
    p.add_argument("--grace", type=number(0), default=10, help="seconds for answers to end after SIGTERM")
    p.add_argument("--exact", action="store_true", help="bits that do not depend on other requests; slower")
    o = p.parse_args(words)
    if o.api_key is None:
        o.api_key = os.environ.get(KEY)
    if o.api_key is not None and (not o.api_key or not o.api_key.isascii()):
        p.error("the API key must be a text of ASCII characters")
    if not o.api_key and not is_loopback(o.host):
        p.error(f"--host {o.host} lets other machines in: this needs --api-key or {KEY}")
    return o


def is_loopback(host: str) -> bool:
    """Is it this machine only?"""
    try:
        found = socket.getaddrinfo(host, None)
    except OSError as error:
        raise SystemExit(f"chainrule serve: --host {host}: {error}") from None
    return all(ipaddress.ip_address(str(address[4][0]).partition("%")[0]).is_loopback for address in found)


def is_gguf(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"GGUF"


def load(path: str, **options: Any) -> tuple[Any, Tokenizer, str]:
    """The model, its tokenizer, and where that is from: a folder, or the GGUF file of the model."""
    if not os.path.exists(path):
        raise OSError(f"there is no '{path}': {KINDS}")
    if not os.path.isdir(path) and not is_gguf(path):
        raise OSError(f"'{path}' is not a model: {KINDS}")
    folder = path
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "config.json")):
        try:
            model: Any = GPT.load(path, device=options["device"])  # of chainrule train
        except OSError as error:
            raise OSError(f"'{path}' holds no model: no config.json, and no checkpoint: {error}") from None
        if not os.path.exists(os.path.join(path, "tokenizer.json")):  # a checkpoint in the folder of a run
            folder = path = os.path.dirname(os.path.abspath(path))
        if options["dtype"] is not None:
            model = model.to(options["dtype"])
    else:
        model = from_pretrained(path, **options)
    try:
        tokenizer = Tokenizer.from_pretrained(path)
    except OSError:  # a file without a tokenizer
        if os.path.isdir(path):
            raise
        folder = os.path.dirname(path) or "."
        tokenizer = Tokenizer.from_pretrained(folder)
    if len(tokenizer) > model.config.vocabulary:
        raise ValueError(f"'{folder}' has {len(tokenizer)} tokens, the model {model.config.vocabulary}")
    return model, tokenizer, folder


def form_of(template: str | None, adapter: str | None) -> str | None:
    """The text of --template: of the file of that name, else the name itself. Without it the adapter's."""
    if template is None and adapter is not None:
        template = os.path.join(adapter, "chat_template.jinja")
        if not os.path.isfile(template):
            return None
    if template is None or not os.path.isfile(template):
        return template
    with open(template, encoding="utf-8") as file:
        return file.read()


async def serve(o: argparse.Namespace, app: Any, limits: Any) -> int:
    """Until SIGINT or SIGTERM; a second one ends at once."""
    from .connection import Server

    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    server = Server(app.handle, app.refuse, limits)
    try:
        port = await server.start(o.host, o.port)
    except OSError as error:
        print(f"chainrule serve: cannot listen at {o.host}:{o.port}: {error}", file=sys.stderr)
        return 1

    def stop() -> None:
        if stopped.is_set():
            os._exit(130)
        app.closing = True
        stopped.set()

    for number in signal.SIGINT, signal.SIGTERM:
        if sys.platform == "win32":  # its event loops know no signals
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(stop))
        else:
            loop.add_signal_handler(number, stop)
    app.start()
    host = f"[{o.host}]" if ":" in o.host else o.host
    print(f"serving {app.name} at http://{host}:{port}/v1", flush=True)
    await stopped.wait()
    await server.stop(o.grace)
    await asyncio.to_thread(app.close)
    return 0


def main(words: list[str] | None = None) -> int:
    o = arguments(words)
    try:
        from .app import App
        from .connection import Limits
    except ModuleNotFoundError as error:
        if error.name != "h11":
            raise
        print("chainrule serve: needs the package h11: pip install 'chainrule[serve]'", file=sys.stderr)
        return 1
    from .. import _core
    from ..nn import lora

    if o.threads:
        set_num_threads(o.threads)
    try:
        dtype = getattr(_core, o.dtype) if o.dtype else None
        model, tokenizer, folder = load(o.model, dtype=dtype, device=o.device)
        if o.adapter is not None:
            lora.load(model, o.adapter)
            model.eval()
        template = form_of(o.template, o.adapter)
        chat = tokenizer._chat(template)
        if not model.encodes and chat.said.template is None:
            template, chat = "chatml", tokenizer._chat("chatml")
            print("chainrule serve: the model has no chat template: chats are in ChatML (--template)", file=sys.stderr)
        elif not model.encodes and template is None and chat.said.name:
            said = f"chats are in {chat.said.name}, by {chat.said.source} (--template)"
            print(f"chainrule serve: the model has no chat template: {said}", file=sys.stderr)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"chainrule serve: {error}", file=sys.stderr)
        return 1
    engine = None if model.encodes else Engine(model, slots=o.max_concurrent, queue=o.queue, exact=o.exact)
    ends = frozenset[int]() if model.encodes else frozenset(model.ends)
    name = o.name or os.path.basename(os.path.abspath(o.model))
    app = App(
        engine,
        tokenizer,
        name,
        encoder=model if model.encodes else None,
        key=o.api_key,
        stop=frozenset(chat.said.ends) | ends,
        chat_stop=frozenset(chat.said.answer_ends) | ends,
        chat_template=template,
        max_prompt=o.max_prompt,
        max_tokens=o.max_tokens,
    )
    files = open_files()
    limits = Limits(
        connections=max(1, min(o.max_connections, files - 64)),
        body=o.max_body,
        body_seconds=o.timeout,
        write_seconds=o.timeout,
    )
    return asyncio.run(serve(o, app, limits))


if __name__ == "__main__":
    sys.exit(main())
