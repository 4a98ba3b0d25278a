"""A tab of a headless Chromium, driven through its remote debugging protocol: JSON over a WebSocket."""

from __future__ import annotations

import base64
import contextlib
import functools
import http.server
import json
import os
import re
import socket
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from browser import FLAGS, ROOT, WITHOUT, find_browser

PAGE = ROOT / "build" / "web"
JSPI = "--js-flags=--experimental-wasm-jspi"  # older browsers have it behind this
MOST_SECONDS = 120.0


class Socket:
    """The client's side of RFC 6455, for text messages."""

    def __init__(self, url: str) -> None:
        found = re.fullmatch(r"ws://([^:/]+):(\d+)(/.*)", url)
        assert found, url
        host, port, path = found.groups()
        self.socket = socket.create_connection((host, int(port)), timeout=MOST_SECONDS)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {host}:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key}",
            "Sec-WebSocket-Version: 13",
            "",
            "",
        ]
        self.socket.sendall("\r\n".join(lines).encode())
        self.stream = self.socket.makefile("rb")
        while self.stream.readline().strip():
            pass

    def send(self, text: str) -> None:
        data, mask = text.encode(), os.urandom(4)
        n = len(data)
        size = (
            bytes([0x80 | n]) if n < 126 else struct.pack(">BH", 0xFE, n) if n < 65536 else struct.pack(">BQ", 0xFF, n)
        )
        repeated = (mask * (n // 4 + 1))[:n]
        masked = (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(n, "big")
        self.socket.sendall(b"\x81" + size + mask + masked)

    def receive(self) -> str:
        parts, last = [], False
        while not last:
            first, size = self.stream.read(2)
            if size == 126:
                size = struct.unpack(">H", self.stream.read(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self.stream.read(8))[0]
            data = self.stream.read(size)
            last = bool(first & 0x80)
            if first & 0x0F in (0, 1):
                parts.append(data)
            elif first & 0x0F == 8:
                raise ConnectionError("the browser closed the connection")
            else:
                last = False  # a ping between the parts
        return b"".join(parts).decode()


class Tab:
    """with Tab(url) as tab: tab.run("JavaScript") gives its value."""

    def __init__(self, url: str, *flags: str) -> None:
        self.url, self.flags = url, flags
        self.errors: list[str] = []  # of the console, and exceptions that nobody caught
        self.number = 0
        self.workers: list[str] = []  # their sessions

    def __enter__(self) -> Tab:
        browser = find_browser()
        assert browser, "no Chromium"
        self.profile = tempfile.TemporaryDirectory(prefix="chainrule-tab-", ignore_cleanup_errors=True)
        self.downloads = Path(self.profile.name) / "downloads"
        command = [browser, *FLAGS, *self.flags, "--remote-debugging-port=0", f"--user-data-dir={self.profile.name}"]
        self.process = subprocess.Popen([*command, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.port = self.wait_for_port(Path(self.profile.name) / "DevToolsActivePort")
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/json/list") as answer:
            pages = [page for page in json.load(answer) if page["type"] == "page"]
        self.attach(pages[0]["id"])
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))
        self.go(self.url)
        return self

    def attach(self, page: str) -> None:
        self.socket = Socket(f"ws://127.0.0.1:{self.port}/devtools/page/{page}")
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True)

    @contextlib.contextmanager
    def second(self) -> Iterator[Tab]:
        """Another tab of the same browser, in front of this one, with the same page."""
        page = self.call("Target.createTarget", url="about:blank")["targetId"]
        other = Tab(self.url)
        other.port = self.port
        other.attach(page)
        other.go(self.url)
        try:
            yield other
        finally:
            self.call("Target.closeTarget", targetId=page)
            self.call("Page.bringToFront")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.profile.cleanup()

    def wait_for_port(self, path: Path) -> int:
        end = time.monotonic() + MOST_SECONDS
        while time.monotonic() < end:
            lines = path.read_text().splitlines() if path.exists() else []
            if lines:
                return int(lines[0])
            time.sleep(0.1)
        raise TimeoutError("Chromium did not start")

    def send(self, method: str, params: dict[str, Any], session: str = "") -> None:
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        self.socket.send(json.dumps({**message, "sessionId": session} if session else message))

    def call(self, method: str, session: str = "", **params: Any) -> Any:
        self.send(method, params, session)
        while True:
            message = json.loads(self.socket.receive())
            self.note(message)
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    def note(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        if message.get("method") == "Target.attachedToTarget" and params["targetInfo"]["type"] == "worker":
            self.workers.append(params["sessionId"])
        if message.get("method") == "Target.detachedFromTarget" and params["sessionId"] in self.workers:
            self.workers.remove(params["sessionId"])
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"].get("exception", {}).get("description", params)))
        if message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(f"{params['entry']['text']} ({params['entry'].get('url', '')})")
        if message.get("method") == "Runtime.consoleAPICalled" and params["type"] == "error":
            self.errors.append(str(params["args"]))

    def go(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def worker(self, name: str) -> str:
        """The session of the worker of this name, for run()."""
        return next(session for session in list(self.workers) if self.run("self.name", session) == name)

    def run(self, script: str, session: str = "") -> Any:
        found = self.call("Runtime.evaluate", session, expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = MOST_SECONDS) -> None:
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {condition}")
            time.sleep(0.05)

    def key(self, name: str, code: int, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            key: dict[str, Any] = {"key": name, "code": name, "windowsVirtualKeyCode": code}
            self.call(
                "Input.dispatchKeyEvent", type=kind, **key, **({"text": text} if text and kind == "keyDown" else {})
            )

    def give_files(self, selector: str, *paths: Path) -> None:
        """To a file input."""
        root = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(path) for path in paths])

    def size(self, width: int, height: int = 900, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: Path) -> None:
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def downloaded(self, name: str) -> Path:
        path, end = self.downloads / name, time.monotonic() + MOST_SECONDS
        while not path.exists():
            if time.monotonic() > end:
                raise TimeoutError(f"no download {name}")
            time.sleep(0.05)
        return path


class Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".wasm": "application/wasm",
        ".mjs": "text/javascript",
    }

    asked: ClassVar[list[str]] = []  # paths, in order

    def log_message(self, format: str, *args: object) -> None:
        self.asked.append(self.path)


class Isolated(Quiet):
    """With the headers that give pages shared memory."""

    def end_headers(self) -> None:
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()


def serve(folder: Path, isolated: bool = False) -> http.server.ThreadingHTTPServer:
    """A static server on a port of its own; shutdown() ends it."""
    handler = functools.partial(Isolated if isolated else Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def page_missing() -> str:
    """Why the page of the browser edition cannot be opened here, or nothing."""
    if not find_browser():
        return WITHOUT
    return "" if (PAGE / "index.html").exists() else "no build/web here (make web)"


@contextlib.contextmanager
def open_page() -> Iterator[Tab]:
    server = serve(PAGE)
    with Tab(f"http://127.0.0.1:{server.server_port}/index.html", JSPI) as tab:
        yield tab
    server.shutdown()
