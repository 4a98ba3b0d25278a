"""The page of the browser edition in a headless Chromium, used as a person would, against the native program.

    check_page.py [PICTURES]    pictures of the page at three widths go into this folder

Wants build/web (make web) and build/release."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from browser import BUILD, ROOT, SKIPPED
from tab import MOST_SECONDS, Quiet, Tab, open_page, page_missing

AXE = ROOT / "build" / "axe" / "axe_playwright_python" / "axe.min.js"
NATIVE = BUILD / "chainrule"
TEXT = "".join(f"the number {n * n % 97} of {n} is here\n" for n in range(500))
TINY = ["--layers", "2", "--width", "64", "--heads", "4", "--context", "64", "--batch", "12"]
WIDTHS = (380, 768, 1280)
ROLES = {"button", "textbox", "slider", "spinbutton", "combobox", "link", "checkbox", "img", "log"}


def native(*words: str, folder: Path) -> str:
    environment = {"CHAINRULE_ISA": "v2", "CHAINRULE_ONEDNN": "off", "CHAINRULE_DEVICE": "cpu", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [str(NATIVE), *words], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said = done.stdout.decode(errors="replace")  # a model may write half a character
    assert done.returncode == 0, said[-800:]
    return said


def hash_of(checkpoint: Path) -> str:
    data = (checkpoint / "weights.safetensors").read_bytes()
    return sha256(data[8 + int.from_bytes(data[:8], "little") :]).hexdigest()


class Section:
    """One section of the page."""

    def __init__(self, tab: Tab, name: str) -> None:
        self.tab, self.root = tab, f"document.getElementById('{name}')"

    def __call__(self, script: str) -> Any:
        return self.tab.run(f"(s => {script})({self.root})")

    def press(self, name: str) -> None:
        self(f"s.querySelector('[data-do={name}]').click()")

    def set(self, name: str, value: object) -> None:
        event = "new Event('input', {bubbles: true})"
        self(f"(e => {{ e.value = {json.dumps(value)}; e.dispatchEvent({event}) }})(s.querySelector('[name={name}]'))")

    def text(self, selector: str) -> str:
        return str(self(f"s.querySelector('{selector}').textContent"))

    def wait(self, selector: str, start: str) -> None:
        condition = f"{self.root}.querySelector('{selector}').textContent.startsWith({json.dumps(start)})"
        try:
            self.tab.wait(condition)
        except TimeoutError:
            raise AssertionError(f"{selector} is {self.text(selector)!r}, error {self.error()!r}") from None

    def error(self) -> str:
        return str(self("(e => e.hidden ? '' : e.textContent)(s.querySelector('.error'))"))

    def wait_error(self, start: str) -> None:
        self.wait(".error", start)
        assert self.error(), "the message is hidden"

    def numbers(self) -> dict[str, str]:
        pairs = self(
            "[...s.querySelectorAll('.numbers div')].map(d => [d.children[0].textContent, d.children[1].textContent])"
        )
        return dict(pairs)


# ---- what a person does


def see(tab: Tab, folder: Path) -> None:
    """Values and gradients of micrograd's example, step by step and by the keyboard."""
    s = Section(tab, "see")
    s.wait(".status", "Forward pass")
    s.press("step")
    s.wait(".status", "1 of 6: tanh has the gradient 1")
    s("s.querySelector('[data-do=step]').focus()")
    for _ in range(5):
        tab.key("Enter", 13, "\r")
    s.wait(".status", "6 of 6: a has the gradient -2.359")
    boxes = s("[...s.querySelectorAll('.graph g')].map(g => g.textContent).join('|')")
    assert "avalue 2grad -2.359" in boxes and "cvalue 5.5grad 0.7864" in boxes, boxes
    s.press("back")
    s.wait(".status", "5 of 6")
    s.set("expression", "a * a + sin(b) / 2 ^ c")
    s.wait(".status", "Forward pass")
    for wrong, message in {
        "a +": "The expression ends too early.",
        "foo(a)": "There is no function 'foo'",
        "a * d": "'d' has no value",
        "(a": "Expected ')' at the end.",
        "a $ b": "'$' is not expected here.",
    }.items():
        s.set("expression", wrong)
        s.wait_error(message)
    s.set("expression", "a")
    tab.wait(f"{s.root}.querySelector('.error').hidden")


def learn(tab: Tab, folder: Path) -> None:
    """The loss falls; pause and sliders work; a neuron has a picture."""
    s = Section(tab, "learn")
    s.wait(".status", "Ready")
    s.press("toggle")
    tab.wait(f"/Step [1-9][0-9]{{3,}}/.test({s.root}.querySelector('.status').textContent)")
    s.press("toggle")
    assert s.text("[data-do=toggle]") == "Train"
    loss = float(s.text(".status").split("loss ")[1].split(",")[0])
    assert loss < 0.1, loss
    assert s("s.querySelectorAll('.neurons canvas').length") == 8
    s.set("width", 3)
    tab.wait(f"{s.root}.querySelectorAll('.neurons canvas').length === 3")
    assert s.text("label .value") == "3"


def learns_text(tab: Tab, folder: Path) -> None:
    """A run has the hash of the native program's; it is paused, downloaded, resumed by the native program and here."""
    s = Section(tab, "text")
    (folder / "text.txt").write_text(TEXT)
    native("train", "--data", "text.txt", "--out", "run", "--steps", "40", "--sample", "0", *TINY, folder=folder)
    wanted = hash_of(folder / "run" / "checkpoint")
    s.set("text", TEXT)
    s.set("size", "tiny")
    s.set("steps", 40)
    s.press("train")
    s.wait(".status", "Training")
    s.wait(".status", "The run has ended; kept in this browser")
    numbers = s.numbers()
    assert numbers["SHA-256 of the weights"] == wanted, (numbers, wanted)
    assert numbers["Step"] == "40 of 40" and numbers["Seed"] == "1337", numbers
    assert float(numbers["Loss"]) < 2.6 and float(numbers["Validation loss"]) < 2.6, numbers
    assert len(s.text("pre.out")) > 50
    s.set("prompt", "the ")
    s("s.querySelector('.sample button').click()")
    s.wait("pre.out", "the ")
    s.set("prompt", "é")
    s("s.querySelector('.sample button').click()")
    s.wait_error("U+00E9 'é'")
    s.set("steps", 100000)
    s.press("train")
    tab.wait(f"/^([3-9]|..+) of 100000/.test({s.root}.querySelector('.numbers dd')?.textContent)")
    s.press("pause")
    s.wait(".status", "Paused after step")
    step = int(s.numbers()["Step"].split()[0])
    s.press("download")
    archive = tab.downloaded("run.tar")
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "page", filter="data")
    assert hash_of(folder / "page" / "run" / "checkpoint") == s.numbers()["SHA-256 of the weights"]
    end = step + 5
    native("train", "--resume", "run", "--steps", "100000", "--stop-at", str(end), folder=folder / "page")
    resumed = hash_of(folder / "page" / "run" / "checkpoint")
    with tarfile.open(folder / "resumed.tar", "w") as tar:
        tar.add(folder / "page" / "run", "run")
    tab.give_files("#text [name=run]", folder / "resumed.tar")
    s.wait(".status", "The run is open")
    assert s.numbers()["Step"] == f"{end} of 100000", s.numbers()
    s.press("pause")
    tab.wait(f"Number({s.root}.querySelector('.numbers dd').textContent.split(' ')[0]) > {end}")
    s.press("pause")
    s.wait(".status", "Paused after step")
    assert s.numbers()["SHA-256 of the weights"] != resumed
    tab.go(tab.url)  # a reload in the middle
    s = Section(tab, "text")
    tab.wait(f"!{s.root}.querySelector('[data-do=last]').hidden")
    s.press("last")
    s.wait(".status", "The run is open")


def downloads_late(tab: Tab, folder: Path) -> None:
    """The sections so far were computed by the small module; nobody asked for the whole one."""
    modules = {path for path in Quiet.asked if path.endswith(".wasm")}
    assert modules and all(path.startswith("/chainrule/small") for path in modules), modules


def on_gpu(tab: Tab, folder: Path) -> None:
    """The same run on the GPU names the adapter, and has the processor's loss; its kernels compile for a minute."""
    s = Section(tab, "text")
    worker = tab.worker("threads small")
    catch = """{
        const request = GPUAdapter.prototype.requestDevice;
        GPUAdapter.prototype.requestDevice = async function (...args) {
            return (self.caught = await request.apply(this, args));
        };
    }"""
    tab.run(catch, worker)
    s.set("text", TEXT)
    s.set("size", "tiny")
    s.set("steps", 2)
    losses = []
    for device in ("cpu", "gpu"):
        s.set("device", device)
        s.press("train")
        ended = f"{s.root}.querySelector('.status').textContent.startsWith('The run has ended')"
        tab.wait(f"!{ended}")
        tab.wait(ended, 400)
        losses.append(float(s.numbers()["Loss"]))
    assert "swiftshader" in s.numbers()["Computed by"].lower(), s.numbers()
    assert abs(losses[0] - losses[1]) < 2e-4, losses
    s.set("device", "cpu")
    assert any(path.startswith("/chainrule/whole") for path in Quiet.asked)


def goes_on(tab: Tab, folder: Path) -> None:
    """A reload in the middle of training goes on from what the browser kept, within seconds of it."""
    s = Section(tab, "text")
    s.set("text", TEXT)
    s.set("size", "tiny")
    s.set("steps", 100000)
    s.press("train")
    tab.wait(f"/Kept in this browser/.test({s.root}.querySelector('.numbers').textContent)")
    kept = int(s.numbers()["Kept in this browser"].removeprefix("step "))
    tab.go(tab.url)
    s = Section(tab, "text")
    tab.wait(f"!{s.root}.querySelector('[data-do=last]').hidden")
    s.press("last")
    s.wait(".status", "The run is open")
    step = int(s.numbers()["Step"].split()[0])
    assert step >= kept > 0, (step, kept)
    s.press("pause")
    tab.wait(f"Number({s.root}.querySelector('.numbers dd').textContent.split(' ')[0]) > {step}")
    s.press("pause")
    s.wait(".status", "Paused after step")


def links(tab: Tab, folder: Path) -> None:
    """A link carries settings and no data; one that is wrong is a sentence."""
    s = Section(tab, "text")
    s.set("text", "secret words")
    s.set("size", "tiny")
    s.set("steps", 321)
    link = str(s("s.querySelector('a.link').href"))
    assert "steps=321" in link and "size=tiny" in link and "secret" not in link, link
    tab.run("location.hash = '#text&size=medium&steps=37&rate=0.002&seed=5'")
    tab.wait(f"{s.root}.querySelector('[name=steps]').value === '37'")
    values = s("['size', 'steps', 'rate', 'seed'].map((n) => s.querySelector(`[name=${n}]`).value)")
    assert values == ["medium", "37", "0.002", "5"], values
    for wrong, message in {
        "steps=0": "The link has steps = '0', which is not possible; the setting is 37.",
        "size=<img src=x onerror=alert(1)>": "The link has size = '<img",
        "text=hello": "The link has a setting 'text', which this part has not.",
    }.items():
        tab.run(f"location.hash = {json.dumps('#text&' + wrong)}")
        s.wait_error(message)
    assert not tab.run("document.querySelectorAll('img').length") and s("s.querySelector('textarea').value") != "hello"
    tab.go("about:blank")
    tab.go(f"{tab.url}#learn&width=5&layers=1&rate=-1")
    learn = Section(tab, "learn")
    tab.wait(f"{learn.root}.querySelectorAll('.neurons canvas').length === 5")
    assert learn("[...s.querySelectorAll('label .value')].map(e => e.textContent)") == ["5", "1", "0.1", "0.10"]
    tab.go("about:blank")
    tab.go(tab.url)


def two_tabs(tab: Tab, folder: Path) -> None:
    """The first tab keeps its run; the second says that its own is not kept.  A tab that nobody sees trains."""
    s = Section(tab, "text")
    s.set("text", TEXT)
    s.set("size", "tiny")
    s.set("steps", 100000)
    s.press("train")
    s.wait(".status", "Training")
    with tab.second() as other:
        t = Section(other, "text")
        t.set("text", TEXT)
        t.set("size", "tiny")
        t.set("steps", 3)
        t.press("train")
        t.wait(".status", "The run has ended; the browser keeps the run of another tab, not this one")
        assert not other.errors, other.errors
        before = int(s.numbers()["Step"].split()[0])
        tab.wait(f"Number({s.root}.querySelector('.numbers dd').textContent.split(' ')[0]) > {before + 20}")
        assert tab.run("document.hidden")
    s.press("pause")
    s.wait(".status", "Paused after step")
    assert "kept in this browser" in s.text(".status")


def storage(tab: Tab, folder: Path) -> None:
    """No room, or no storage at all: the run ends, and the page says that it is not kept."""
    s = Section(tab, "text")
    s.set("text", TEXT)
    s.set("size", "tiny")
    s.set("steps", 3)
    origin = tab.run("location.origin")

    def ended(with_words: str) -> None:
        s.press("train")
        s.wait(".status", "Training")
        s.wait(".status", f"The run has ended; {with_words}")

    tab.call("Storage.overrideQuotaForOrigin", origin=origin, quotaSize=1000)
    ended("not kept: the browser has no room left for it.")
    tab.call("Storage.overrideQuotaForOrigin", origin=origin)
    denied = "() => Promise.reject(new DOMException('denied', 'SecurityError'))"
    tab.run(f"StorageManager.prototype.getDirectory = {denied}; 0", tab.worker("threads small"))
    ended("not kept: the browser gives this page no storage.")
    tab.go(tab.url)


def long_and_strange(tab: Tab, folder: Path) -> None:
    """A text of 100 MB is a sentence at once, one of 3 MB trains; a checkpoint of another version is a sentence."""
    s = Section(tab, "text")
    with open(folder / "long.txt", "wb") as file:
        file.truncate(100_000_000)
    (folder / "fits.txt").write_text(TEXT * (3_000_000 // len(TEXT)))
    tab.give_files("#text [name=file]", folder / "long.txt")
    s.wait_error("'long.txt' has 100 MB: at most 64 MB are taken.")
    tab.give_files("#text [name=file]", folder / "fits.txt")
    s.wait(".status", "'fits.txt': 2,9")
    s.set("size", "tiny")
    s.set("steps", 3)
    s.press("train")
    longest = tab.run("""new Promise((done) => {
        let last = performance.now(), most = 0, frames = 0;
        const frame = () => {
            most = Math.max(most, performance.now() - last);
            last = performance.now();
            if (++frames < 60) requestAnimationFrame(frame);
            else done(most);
        };
        requestAnimationFrame(frame);
    })""")
    s.wait(".status", "The run has ended")
    assert longest < 1000, f"the page stood still for {longest:.0f} ms"
    (tab.downloads / "run.tar").unlink(missing_ok=True)
    s.press("download")
    with tarfile.open(tab.downloaded("run.tar")) as tar:
        tar.extractall(folder / "old", filter="data")
    state = folder / "old" / "run" / "checkpoint" / "state.json"
    state.write_text(state.read_text().replace('"version":1', '"version":99').replace('"version": 1', '"version": 99'))
    with tarfile.open(folder / "old.tar", "w") as tar:
        tar.add(folder / "old" / "run", "run")
    tab.give_files("#text [name=run]", folder / "old.tar")
    s.wait_error("This run was saved by another version of chainrule: its format is 99, not 1.")


def bad_texts(tab: Tab, folder: Path) -> None:
    """Mistakes are sentences, and the page goes on."""
    s = Section(tab, "text")
    s.set("steps", 5)
    for value, message in {
        "": "There is no text",
        "a": "The text has 1 tokens: a context of 64 needs at least 75",
    }.items():
        s.set("text", value)
        s.press("train")
        s.wait_error(message)
    (folder / "bad").write_bytes(b"abc\xff" * 100)
    (folder / "<img src=x onerror=document.title='planted'>.txt").write_text(TEXT)
    (folder / "cut.tar").write_bytes(b"not an archive" * 100)
    tab.give_files("#text [name=file]", folder / "bad")
    s.wait(".status", "'bad': 400 bytes")
    s.press("train")
    s.wait_error("The text line 1: the byte 0xff is not UTF-8")
    tab.give_files("#text [name=file]", folder / "<img src=x onerror=document.title='planted'>.txt")
    s.wait(".status", "'<img")
    assert not tab.run("document.querySelectorAll('img').length") and tab.run("document.title") != "planted"
    tab.give_files("#text [name=run]", folder / "cut.tar")
    s.wait_error("This file is not a run")
    s.set("text", TEXT)
    s.set("steps", 3)
    s.press("train")
    s.wait(".status", "The run has ended")


def loses_gpu(tab: Tab, folder: Path) -> None:
    """The GPU of the run before goes away in the middle of another: the processor goes on."""
    s = Section(tab, "text")
    s.set("text", TEXT)
    s.set("size", "tiny")
    s.set("steps", 100000)
    s.set("device", "gpu")
    s.press("train")
    numbers = f"{s.root}.querySelector('.numbers')"
    tab.wait(f"/^Step[1-9].* of 100000.*Computed by[^.]*swiftshader/i.test({numbers}.textContent)", 400)
    tab.run("caught.destroy()", tab.worker("threads small"))
    s.wait(".status", "The GPU is gone; the processor goes on from step")
    step = int(s.text(".status").split()[-1].rstrip("."))
    tab.wait(f"Number({s.root}.querySelector('.numbers dd').textContent.split(' ')[0]) > {step + 20}")
    assert s.numbers()["Computed by"] == "the processor" and s("s.querySelector('[name=device]').value") == "cpu"
    s.press("pause")
    s.wait(".status", "Paused after step")


def model(tab: Tab, folder: Path) -> None:
    """A GGUF file writes; examples teach it; the native program reads the adapter.  A damaged file is a sentence."""
    s = Section(tab, "model")
    (folder / "text.txt").write_text(TEXT)
    native("tokenize", "--data", "text.txt", "--train-bpe", "300", "--out", "tokens", folder=folder)
    native("train", "--tokens", "tokens", "--out", "bpe", "--steps", "60", "--lr", "4e-3", *TINY, folder=folder)
    native("export", "--model", "bpe", "--out", "model.gguf", "--dtype", "q8_0", folder=folder)
    (folder / "damaged.gguf").write_bytes((folder / "model.gguf").read_bytes()[:5000])
    tab.give_files("#model [name=files]", folder / "damaged.gguf")
    tab.wait(f"!{s.root}.querySelector('.error').hidden")
    assert "damaged.gguf" in s.error(), s.error()
    tab.give_files("#model [name=files]", folder / "model.gguf")
    s.wait(".status", "Open: model.gguf; 300 tokens, context 64")
    s("s.querySelector('[name=plain]').checked = true")
    s.set("message", "the number ")
    s("s.querySelector('.ask .main').click()")
    tab.wait(f"{s.root}.querySelector('.answer')?.textContent.length > 10")
    tab.wait(f"{s.root}.querySelector('[data-do=stop]').disabled")
    s.set("examples", "the number is a fox\nthe fox is a number")
    s.set("passes", 20)
    s.set("rate", 0.02)
    s.press("tune")
    s.wait(".tuned", "Loss ")
    first, last = (float(s.text(".tuned").split()[i]) for i in (1, 3))
    assert last < 0.8 * first, (first, last)
    s.press("adapter")
    with tarfile.open(tab.downloaded("adapter.tar")) as tar:
        tar.extractall(folder / "adapter", filter="data")
    out = native(
        "generate", "--model", "model.gguf", "--adapter", "adapter", "--prompt", "the", "--tokens", "5", folder=folder
    )
    assert out.startswith("the"), out
    compares(tab, s, folder)


def compared(tab: Tab, s: Section, seconds: float = MOST_SECONDS) -> tuple[str, str]:
    """The answers before and after."""
    s.set("asked", "the number ")
    s("s.querySelector('.compare button').click()")
    tab.wait(f"!{s.root}.querySelector('.compare button').disabled", seconds)
    return s.text(".before"), s.text(".after")


def compares(tab: Tab, s: Section, folder: Path) -> None:
    """Answers before and after; samples of a file as finetune reads them; the model again after a reload."""
    before, after = compared(tab, s)
    assert before and after and before != after, (before, after)
    (folder / "chats.jsonl").write_text('{"messages": [{"role": "user", "content": "a"}]}')
    (folder / "bad.jsonl").write_text('{"text": "the number"}\n{"prompt": 5}')
    rows = [{"prompt": "the number ", "completion": "one"}, {"text": "the number two is here"}]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name, message in {
        "chats": "Chats.jsonl line 1: no message has the role assistant",
        "bad": 'Bad.jsonl line 2: "prompt" must be a string',
    }.items():
        tab.give_files("#model [name=lines]", folder / f"{name}.jsonl")
        s.wait_error(message)
    tab.give_files("#model [name=lines]", folder / "rows.jsonl")
    s.wait(".tuned", "'rows.jsonl': 2 samples of ")
    s.set("passes", 5)
    s.press("tune")
    s.wait(".tuned", "Loss ")
    again, taught = compared(tab, s)
    assert again == before and taught != after, (again, before)
    with open(folder / "huge.gguf", "wb") as file:
        file.truncate(5_000_000_000)
    tab.give_files("#model [name=files]", folder / "huge.gguf")
    s.wait_error("This model has 5.0 GB and needs about 5.4 GB of memory: a page has at most 4 GB.")
    tab.go(tab.url)
    s = Section(tab, "model")
    tab.wait(f"!{s.root}.querySelector('[data-do=last]').hidden")
    s.press("last")
    s.wait(".status", "Open: model.gguf; 300 tokens, context 64")
    on_gpu_too(tab, s, folder)
    chats(tab, s, folder)


def on_gpu_too(tab: Tab, s: Section, folder: Path) -> None:
    """The GPU writes what the processor writes, from packed weights as they lie, and teaches."""
    answers, losses = [], []
    for device in ("cpu", "gpu"):
        s.set("device", device)
        tab.give_files("#model [name=files]", folder / "model.gguf")
        s.wait(".status", "Open: model.gguf; 300 tokens, context 64" + (", on " if device == "gpu" else ""))
        s("s.querySelector('[name=plain]').checked = true")
        s.set("examples", "the number is a fox\nthe fox is a number")
        s.set("passes", 3)
        s.set("rate", 0.02)
        s("s.querySelector('.tuned').textContent = ''")
        s.press("tune")
        tab.wait(f"{s.root}.querySelector('.tuned').textContent.startsWith('Loss ')", 400)
        losses.append([float(s.text(".tuned").split()[i]) for i in (1, 3)])
        answers.append(compared(tab, s, 400)[0])
    assert all(abs(a - b) < 2e-3 for a, b in zip(*losses, strict=True)), losses
    assert answers[0] == answers[1], answers
    s.set("device", "cpu")


def chats(tab: Tab, s: Section, folder: Path) -> None:
    """A folder with a template: its chats are samples.  A device with less memory than the model needs."""
    native("export", "--model", "bpe", "--out", "folder", folder=folder)
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    (folder / "folder" / "chat_template.jinja").write_text(template)
    tab.give_files("#model [name=files]", *sorted((folder / "folder").iterdir()))
    s.wait(".status", "Open: chat_template.jinja, config.json")
    rows = [{"messages": [{"role": "user", "content": "the"}, {"role": "assistant", "content": "number"}]}] * 2
    (folder / "chats.jsonl").write_text("\n".join(map(json.dumps, rows)))
    tab.give_files("#model [name=lines]", folder / "chats.jsonl")
    s.wait(".tuned", "'chats.jsonl': 2 samples of ")
    s.set("passes", 3)
    s.press("tune")
    s.wait(".tuned", "Loss ")
    assert all(compared(tab, s))
    worker = tab.worker("threads whole")
    tab.run("Object.defineProperty(navigator, 'deviceMemory', { value: 0.25 }); 0", worker)
    with open(folder / "large.gguf", "wb") as file:
        file.truncate(500_000_000)
    tab.give_files("#model [name=files]", folder / "large.gguf")
    s.wait_error("This model has 0.5 GB and needs about 0.6 GB of memory: this device has 0.3 GB.")
    assert s.text(".status").startswith("Open: chat_template.jinja"), s.text(".status")


def reads_well(tab: Tab, folder: Path) -> None:
    """No width scrolls sideways; controls have names; headings descend."""
    for width in WIDTHS:
        tab.size(width)
        assert tab.run("document.documentElement.scrollWidth") <= width, f"wider than {width}"
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    for node in nodes:
        role, name = node.get("role", {}).get("value"), node.get("name", {}).get("value", "")
        assert node.get("ignored") or role not in ROLES or name.strip(), f"a {role} without a name: {node}"
    levels = tab.run("[...document.querySelectorAll('h1, h2, h3')].map(h => Number(h.tagName[1]))")
    assert levels[0] == 1 and all(b <= a + 1 for a, b in zip(levels, levels[1:], strict=False)), levels
    assert tab.run("document.documentElement.lang") == "en"


def audit(tab: Tab, folder: Path) -> None:
    """axe-core finds nothing, light and dark, on a phone and on a desktop."""
    if not AXE.exists():
        print("skipped audit: axe-core is not installed (make build/.for-web)")
        return
    tab.run(AXE.read_text() + "; 0")
    for width in (WIDTHS[0], WIDTHS[-1]):
        for dark in (False, True):
            tab.size(width, dark=dark)
            found = json.loads(tab.run("axe.run().then((r) => JSON.stringify(r.violations))"))
            said = [f"{v['id']}, {v['help']}: {node['html'][:200]}" for v in found for node in v["nodes"]]
            assert not said, f"{width} columns, {'dark' if dark else 'light'}: " + "\n".join(said)


def offline(tab: Tab, folder: Path) -> None:
    """After a first visit the page opens without a network."""
    tab.wait("navigator.serviceWorker.controller || navigator.serviceWorker.ready.then(() => true)")
    tab.go(tab.url)  # its files come through the service worker
    Section(tab, "see").wait(".status", "Forward pass")
    tab.call("Network.enable")
    tab.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
    tab.go(tab.url)
    Section(tab, "see").wait(".status", "Forward pass")


def train_both(tab: Tab, folder: Path) -> Section:
    """A run of 40 steps in the native program, ended, and the same on the page, begun."""
    s = Section(tab, "text")
    (folder / "text.txt").write_text(TEXT)
    native("train", "--data", "text.txt", "--out", "run", "--steps", "40", "--sample", "0", *TINY, folder=folder)
    s.set("text", TEXT)
    s.set("size", "tiny")
    s.set("steps", 40)
    s.press("train")
    return s


def threads(tab: Tab, folder: Path) -> None:
    """The page has shared memory at its second visit; a run on all processors has the same weights."""
    tab.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
    tab.go(tab.url)
    assert tab.run("crossOriginIsolated"), "no shared memory"
    s = train_both(tab, folder)
    s.wait(".status", "The run has ended")
    numbers = s.numbers()
    assert int(numbers["Threads"]) == min(tab.run("navigator.hardwareConcurrency"), 8), numbers
    assert numbers["SHA-256 of the weights"] == hash_of(folder / "run" / "checkpoint"), numbers


CHECKS: list[Callable[[Tab, Path], None]] = [
    see,
    learn,
    learns_text,
    goes_on,
    links,
    two_tabs,
    storage,
    bad_texts,
    audit,
    long_and_strange,
    downloads_late,
    on_gpu,
    loses_gpu,
    model,
    reads_well,
    audit,
    offline,
    threads,
]


def main() -> int:
    if why := page_missing():
        print(why)
        return SKIPPED
    failed = 0
    with open_page() as tab:
        for check in CHECKS:
            with tempfile.TemporaryDirectory() as name:
                try:
                    check(tab, Path(name))
                    assert not tab.errors or check is offline, f"in the console: {tab.errors}"
                    print(f"ok: {check.__name__}")
                except (AssertionError, RuntimeError, TimeoutError, tarfile.TarError) as error:
                    failed += 1
                    print(f"FAILED: {check.__name__}: {type(error).__name__}: {error}")
            tab.errors.clear()
            if len(sys.argv) > 1 and check is model:
                for width in WIDTHS:
                    for dark in (False, True):
                        tab.size(width, dark=dark)
                        tab.run("new Promise(done => setTimeout(done, 300))")
                        tab.picture(Path(sys.argv[1]) / f"page-{width}{'-dark' if dark else ''}.png")
    skipped = 0 if AXE.exists() else CHECKS.count(audit)
    print(f"result: {len(CHECKS) - failed - skipped} passed, {failed} failed, {skipped} skipped")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
