"""The page of the browser edition in a headless Firefox, on the processor: the bits of the native program.

Wants build/web (make web), build/release, and Firefox (apt-get install firefox-esr)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from browser import SKIPPED
from check_page import hash_of, learn, train_both
from tab import MOST_SECONDS, PAGE, Socket, Tab, serve

FIREFOX = next((path for name in ("firefox-esr", "firefox") if (path := shutil.which(name))), None)


class FirefoxTab(Tab):
    """The same by WebDriver BiDi."""

    def __enter__(self) -> FirefoxTab:
        assert FIREFOX, "no Firefox"
        self.profile = tempfile.TemporaryDirectory(prefix="chainrule-tab-", ignore_cleanup_errors=True)
        log = Path(self.profile.name) / "log"
        command = [FIREFOX, "--headless", "--remote-debugging-port", "0", "--profile", self.profile.name]
        with open(log, "wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out)
        end = time.monotonic() + MOST_SECONDS
        while not (found := re.search(r"ws://127\.0\.0\.1:\d+", log.read_text(errors="replace"))):
            assert time.monotonic() < end, f"Firefox did not start: {log.read_text(errors='replace')[-500:]}"
            time.sleep(0.1)
        self.socket = Socket(f"{found[0]}/session")
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded"])
        self.context = self.call("browsingContext.getTree")["contexts"][0]["context"]
        self.go(self.url)
        return self

    def note(self, message: dict[str, Any]) -> None:
        if message.get("method") == "log.entryAdded" and message["params"]["level"] == "error":
            self.errors.append(str(message["params"]["text"]))

    def go(self, url: str) -> None:
        self.call("browsingContext.navigate", context=self.context, url=url, wait="complete")

    def run(self, script: str, session: str = "") -> Any:
        expression = f"Promise.resolve({script}).then((value) => JSON.stringify(value ?? null))"
        target = {"context": self.context}
        found = self.call("script.evaluate", expression=expression, target=target, awaitPromise=True)
        if found["type"] != "success":
            raise RuntimeError(f"{script}: {found['exceptionDetails']['text']}")
        return json.loads(found["result"]["value"])


def trains(tab: Tab, folder: Path) -> None:
    """The weights of the native program."""
    s = train_both(tab, folder)
    s.wait(".status", "The run has ended; kept in this browser")
    assert s.numbers()["SHA-256 of the weights"] == hash_of(folder / "run" / "checkpoint"), s.numbers()
    s.set("device", "gpu")
    s.set("steps", 2)
    s.press("train")  # a sentence where there is no GPU
    said = f"{s.root}.querySelector('.status').textContent.startsWith('The run has ended')"
    tab.wait(f"!{s.root}.querySelector('.error').hidden || {said}")
    assert s.error() or "processor" not in s.numbers()["Computed by"], s.numbers()
    print(f"seen: the GPU of Firefox: {s.error() or s.numbers()['Computed by']}")


def main() -> int:
    if not FIREFOX or not (PAGE / "index.html").exists():
        print("no Firefox here (apt-get install firefox-esr)" if not FIREFOX else "no build/web here (make web)")
        return SKIPPED
    server = serve(PAGE)
    failed = 0
    with FirefoxTab(f"http://127.0.0.1:{server.server_port}/index.html") as tab:
        for check in (learn, trains):
            with tempfile.TemporaryDirectory() as name:
                try:
                    check(tab, Path(name))
                    assert not tab.errors, f"in the console: {tab.errors}"
                    print(f"ok: {check.__name__} in Firefox")
                except (AssertionError, RuntimeError, TimeoutError) as error:
                    failed += 1
                    print(f"FAILED: {check.__name__} in Firefox: {type(error).__name__}: {error}")
    server.shutdown()
    print(f"result: {2 - failed} passed, {failed} failed, 0 skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
