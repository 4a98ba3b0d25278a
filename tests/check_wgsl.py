"""Every WGSL text of the op suite, compiled by Chrome's compiler in a headless Chromium.

    check_wgsl.py                runs the C tests of the WebGPU device, with subgroups and without, keeps each text
                                 that they compile, and gives all to Chromium
    check_wgsl.py FOLDER         compiles the *.wgsl of a folder

Chromium makes a module and a compute pipeline of each text, so the checks of its WebGPU apply too: uniform
control flow, workgroup memory, bindings.  A text must pass without an error.  Two planted texts must fail."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("test_webgpu_ops", "test_webgpu_grad", "test_webgpu_order", "test_webgpu")
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = ("--headless=new", "--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
SKIPPED = 77
MOST_SECONDS = 600
# wgpu-native knows subgroups without a directive; browsers want one
DIRECTIVE = "enable subgroups;\n"

# What Chrome must reject: a barrier behind control flow that depends on a private variable; a mistake of syntax.
PLANTED = {
    "a barrier that is not uniform": """
var<private> width: u32;
var<workgroup> x: array<u32, 64>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {
    width = y[i];
    for (var n = 64u; n > width; n /= 2u) { x[i] = n; workgroupBarrier(); }
    y[i] = x[63u - i];
}""",
    "a mistake": "@compute @workgroup_size(64) fn main() { let x = ; }",
}

PAGE = """<!doctype html><meta charset="utf-8"><script>
const post = (what) => fetch("/result", {method: "POST", body: JSON.stringify(what)});
async function compile(device, text) {
    device.pushErrorScope("validation");
    const module = device.createShaderModule({code: text});
    const messages = (await module.getCompilationInfo()).messages.filter((m) => m.type === "error");
    let error = messages.length ? `${messages[0].lineNum}:${messages[0].linePos} ${messages[0].message}` : "";
    if (!error) {
        try {
            await device.createComputePipelineAsync({layout: "auto", compute: {module}});
        } catch (problem) {
            error = String(problem.message);
        }
    }
    const scope = await device.popErrorScope();
    return error || (scope ? scope.message : "");
}
(async () => {
    if (!navigator.gpu) return post({problem: "this browser has no WebGPU"});
    const adapter = await navigator.gpu.requestAdapter();
    if (!adapter) return post({problem: "this browser has no adapter"});
    const subgroups = adapter.features.has("subgroups");
    const names = ["maxStorageBuffersPerShaderStage", "maxComputeWorkgroupStorageSize"];
    const limits = Object.fromEntries(names.map((name) => [name, adapter.limits[name]]));
    const device = await adapter.requestDevice({
        requiredFeatures: subgroups ? ["subgroups"] : [], requiredLimits: limits});
    const texts = await (await fetch("/texts")).json();
    const errors = {};
    for (const [name, text] of Object.entries(texts)) errors[name] = await compile(device, text);
    await post({info: `${adapter.info.vendor} ${adapter.info.architecture}`, subgroups, errors});
})().catch((problem) => post({problem: String(problem)}));
</script>"""


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves the page and the texts; keeps the result."""

    texts: dict[str, str] = {}
    result: dict[str, object] = {}
    done = threading.Event()

    def answer(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path == "/texts":
            self.answer("application/json", json.dumps(self.texts).encode())
        else:
            self.answer("text/html", PAGE.encode() if self.path == "/" else b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer("text/plain", b"")
        Handler.result = json.loads(body)
        Handler.done.set()

    def log_message(self, format: str, *args: object) -> None:
        pass


def find_browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def in_browser(browser: str, texts: dict[str, str]) -> dict[str, object]:
    """What the page found.  The server and the browser end with this call."""
    Handler.texts = texts
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


def kept_texts(folder: str) -> list[str]:
    """Runs the C tests, whose texts are kept in the folder; the problems."""
    build = Path(os.environ.get("CHAINRULE_BUILD", ROOT / "build" / "release"))
    problems = []
    for subgroups in ("1", "0"):
        for program in PROGRAMS if subgroups == "1" else PROGRAMS[:1]:
            environment = {**os.environ, "CHAINRULE_TEST_WGSL": folder, "CHAINRULE_TEST_WGSL_SUBGROUPS": subgroups}
            done = subprocess.run(
                [str(build / "tests" / program)], env=environment, text=True, capture_output=True, errors="replace"
            )
            if done.returncode:
                problems.append(f"{program} failed: {done.stdout[-500:]}")
    return problems


def read(folder: Path) -> dict[str, str]:
    texts = {path.stem: path.read_text() for path in sorted(folder.glob("*.wgsl"))}
    return {name: (DIRECTIVE if "subgroup" in text else "") + text for name, text in texts.items()}


def report(found: dict[str, object], texts: dict[str, str], problems: list[str]) -> int:
    errors = found.get("errors")
    if not isinstance(errors, dict):
        problems.append(str(found.get("problem")))
        errors = {}
    failed = 0
    for name in texts:
        error = errors.get(name, "no answer")
        if name in PLANTED:
            if not error:
                problems.append(f"the planted text '{name}' was accepted")
        elif error:
            failed += 1
            lines = texts[name].splitlines()
            at = error.split(":")[0]
            line = lines[int(at) - 1].strip() if at.isdigit() and 0 < int(at) <= len(lines) else ""
            print(f"FAILED {name}: {error}\n    {line}" if failed <= 20 else "", end="\n" if failed <= 20 else "")
    for problem in problems:
        print(f"FAILED {problem}")
    kept = len(texts) - len(PLANTED)
    if not kept:
        problems.append("no text")
    print(f"report {kept - failed} of {kept} WGSL texts pass Chrome's compiler ({found.get('info', '')})")
    print(f"result: {kept - failed} passed, {failed + len(problems)} failed, 0 skipped")
    return 1 if failed or problems else 0


def main() -> int:
    browser = find_browser()
    if browser is None:
        print("kernels by Chrome's compiler: no Chromium here (apt-get install chromium)")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="chainrule-wgsl-") as folder:
        problems = [] if len(sys.argv) > 1 else kept_texts(folder)
        texts = {**read(Path(sys.argv[1] if len(sys.argv) > 1 else folder)), **PLANTED}
        return report(in_browser(browser, texts), texts, problems)


if __name__ == "__main__":
    sys.exit(main())
