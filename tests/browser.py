"""A page in a headless Chromium, with the software adapter of its WebGPU: what the checks of kernels there share."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
WITHOUT = "no Chromium here (apt-get install chromium)"
SKIPPED = 77  # exit status
MOST_SECONDS = 600
# wgpu-native knows subgroups without a directive; browsers want one
DIRECTIVE = "enable subgroups;\n"


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves the page as / and the files by name; keeps the result, which the page posts."""

    page: str = ""
    files: Mapping[str, bytes | Path] = {}
    result: dict[str, object] = {}
    done = threading.Event()

    def answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path == "/":
            return self.answer("text/html", Handler.page.encode())
        body = Handler.files.get(self.path[1:], b"")
        self.answer("application/octet-stream", body.read_bytes() if isinstance(body, Path) else body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer("text/plain", b"")
        Handler.result = json.loads(body)
        Handler.done.set()

    def log_message(self, format: str, *args: object) -> None:
        pass


def find_browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def in_browser(browser: str, page: str, files: Mapping[str, bytes | Path]) -> dict[str, object]:
    """What the page posts.  The server and the browser end with this call."""
    Handler.page, Handler.files, Handler.result = page, files, {}
    Handler.done.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="chainrule-browser-", ignore_cleanup_errors=True) as profile:
        command = [browser, *FLAGS, f"--user-data-dir={profile}", f"http://127.0.0.1:{server.server_port}/"]
        with open(Path(profile) / "log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            start = time.monotonic()
            while not Handler.done.wait(0.2):
                if process.poll() is not None or time.monotonic() - start > MOST_SECONDS:
                    break
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    server.shutdown()
    return Handler.result or {"problem": f"{browser} gave no result"}


def test_program(program: str, *tests: str, **environment: str) -> str:
    """Runs one of the C tests; the problem, or nothing."""
    done = subprocess.run(
        [str(BUILD / "tests" / program), *tests],
        env={**os.environ, **environment},
        text=True,
        capture_output=True,
        errors="replace",
    )
    return f"{program} failed: {done.stdout[-500:]}" if done.returncode else ""
