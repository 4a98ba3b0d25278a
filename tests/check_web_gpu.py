"""The browser edition on WebGPU in a headless Chromium (SwiftShader): a run beside the same run on the processor.

Wants build/web (make web)."""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from browser import SKIPPED
from check_page import native
from tab import open_page, page_missing

STEPS = 12
SCRIPT = """(async () => {
    const { load } = await import("/chainrule/index.js");
    const text = Array.from({ length: 600 }, (_, n) => `line ${n * n % 97} of ${n}\\n`).join("");
    const options =
        { layers: 2, width: 32, heads: 2, context: 16, batch: 4, steps: STEPS, eval_every: 0, sample: 0, clip: 0 };
    const cr = await load({ whole: true });
    const train = async (each, more = {}) => {
        const run = await cr.Run.train(text, { ...options, ...more });
        const losses = [];
        while (await run.step()) {
            losses.push(run.look().loss);
            each();
        }
        return [run, losses];
    };
    const [onCpu, cpu] = await train(() => {});
    onCpu.close();
    const small = await load();
    const refused = await small.gpu().catch((error) => error.message);
    const gpu = await cr.gpu();
    const steps = [];
    const [run, losses] = await train(() => steps.push({ ...gpu.counts }));
    const clipped = [];
    const [second] = await train(() => clipped.push({ ...gpu.counts }), { clip: 1, steps: 6 });
    second.close();
    const hash = await run.hash();
    const sample = await run.sample("\\n", { tokens: 20 });
    run.close();
    const x = cr.tensor([[1, 2], [3, 4]], { requires_grad: true });
    x.mul(x).sum().backward();
    const grad = (await x.grad.cpu()).tolist();
    let early = "";
    try {
        x.sum().item();
    } catch (error) {
        early = error.message;
    }
    const third = await cr.Run.train(text, options);
    await third.step();
    gpu.destroy();
    const lost = await third.step().then(() => "", (error) => error.message);
    const again = await cr.gpu();
    const fresh = (await cr.tensor([1, 2]).add(1).cpu()).tolist();
    const without = await cr.Run.train("a").catch((error) => error.message);
    const bad = await cr.tensor([7n]).cpu().then((y) => y.tolist());
    const { name } = gpu;
    const [limited, onGpu] = await Promise.all([load({ whole: true }), load({ whole: true })]);
    const { subgroups } = await limited.gpu({ defaults: true });
    const [defaults, defaultLosses] = await (async () => {
        const one = await limited.Run.train(text, options);
        const all = [];
        while (await one.step()) all.push(one.look().loss);
        return [one, all];
    })();
    defaults.close();
    await onGpu.gpu();
    const plain = await load({ whole: true });
    const models = [];
    for (const some of [plain, onGpu]) models.push({ gpt: await gpt(some), lm: await lm(some) });
    return JSON.stringify({
        cpu, losses, steps, clipped, hash, sample, grad, early, bad, lost, fresh, without, refused, name, subgroups,
        defaultLosses, models,
    });
})()"""
MODELS = """
const number = async (x) => (await x.cpu()).item();
async function gpt(cr) {
    cr.manual_seed(3);
    const model = new cr.GPT({ vocabulary: 8, context: 16, layers: 1, heads: 2, width: 16, seed: 1 });
    const optimizer = new cr.optim.AdamW(model.parameters(), { lr: 0.01 });
    const x = cr.tensor([[0, 1, 2, 3, 4, 5]], { dtype: "int64" });
    const y = cr.tensor([[1, 2, 3, 4, 5, 6]], { dtype: "int64" });
    const losses = [];
    for (let i = 0; i < 30; i++) {
        optimizer.zero_grad();
        const loss = model.loss(x, y);
        loss.backward();
        optimizer.step();
        losses.push(await number(loss.detach()));
    }
    return { losses, text: [...(await model.generate([0, 1], { tokens: 4, temperature: 0 }))] };
}
async function lm(cr) {
    const bytes = Uint8Array.from(atob("MODEL"), (c) => c.charCodeAt(0));
    const model = await cr.LanguageModel.load({ "model.gguf": bytes });
    const write = async () => {
        let out = "";
        for await (const piece of model.generate("line 1", { tokens: 12, temperature: 0 })) out += piece;
        return out;
    };
    const before = await write();
    model.lora({ rank: 4, seed: 1, targets: "all-linear" });
    const optimizer = new cr.optim.AdamW(model.parameters(), { lr: 0.02 });
    const sample = model.sample("line of line of l");
    const losses = [];
    for (let i = 0; i < 8; i++) {
        optimizer.zero_grad();
        const loss = model.loss([sample]);
        loss.backward();
        optimizer.step();
        losses.push(await number(loss.detach()));
    }
    const files = Object.keys(await model.save_adapter()).sort();
    return { before, losses, after: await write(), again: await model.disable_adapter(write), files };
}
"""


def check(found: dict[str, object]) -> list[str]:
    """What is wrong."""
    wrong = []
    cpu, gpu = found["cpu"], found["losses"]
    assert isinstance(cpu, list) and isinstance(gpu, list)
    if len(cpu) != STEPS - 1 and len(cpu) != STEPS:
        wrong.append(f"{len(cpu)} losses of {STEPS} steps")
    if len(gpu) != len(cpu) or any(abs(a - b) > 1e-6 * abs(a) for a, b in zip(cpu, gpu, strict=False)):
        wrong.append(f"losses of the processor {cpu} and of the GPU {gpu}")
    # Maps: the loss; where gradients are clipped, also the squares of all gradients.  A submission for each.
    for name, waits in {"steps": 1, "clipped": 2}.items():
        counts = found[name]
        assert isinstance(counts, list)
        last = {key: counts[-1][key] - counts[-2][key] for key in counts[-1]}
        if last != {"submits": waits, "maps": waits, "scopes": 0, "waits": waits}:
            wrong.append(f"a steady step of `{name}` has {last}")
    if found["grad"] != [[2, 4], [6, 8]]:
        wrong.append(f"gradients {found['grad']}")
    if "await cpu()" not in str(found["early"]):
        wrong.append(f"item() said {found['early']!r}")
    if "is lost" not in str(found["lost"]) or found["fresh"] != [2, 3]:
        wrong.append(f"after the loss: {found['lost']!r}, {found['fresh']}")
    if "at least 75" not in str(found["without"]):
        wrong.append(f"a text of one character: {found['without']!r}")
    if "whole module" not in str(found["refused"]):
        wrong.append(f"the small module said {found['refused']!r}")
    return wrong


def check_models(found: dict[str, Any]) -> list[str]:
    """What is wrong with limits that are the defaults, with new GPTs, and with pretrained models on the GPU."""
    wrong = []

    def alike(what: str, cpu: list[float], gpu: list[float], error: float) -> None:
        if not cpu or len(cpu) != len(gpu) or any(abs(a - b) > error * abs(a) for a, b in zip(cpu, gpu, strict=False)):
            wrong.append(f"{what}: losses of the processor {cpu} and of the GPU {gpu}")

    alike("default limits", found["cpu"], found["defaultLosses"], 1e-6)
    (cpu, gpu), size = found["models"], found["subgroups"]
    alike("GPT", cpu["gpt"]["losses"], gpu["gpt"]["losses"], 1e-3)
    alike("LanguageModel", cpu["lm"]["losses"], gpu["lm"]["losses"], 1e-3)
    if cpu["gpt"]["text"] != gpu["gpt"]["text"] or gpu["lm"]["before"] != cpu["lm"]["before"]:
        wrong.append(f"texts of the processor {cpu} and of the GPU {gpu}")
    if gpu["lm"]["again"] != gpu["lm"]["before"] or gpu["lm"]["files"] != cpu["lm"]["files"]:
        wrong.append(f"without its adapter the model writes {gpu['lm']}")
    if size not in (0, 4, 8, 16, 32, 64, 128):
        wrong.append(f"subgroups of {size}")
    return wrong


def tiny_model(folder: Path) -> bytes:
    text = "".join(f"line {n * n % 97} of {n}\n" for n in range(800))
    (folder / "text.txt").write_text(text)
    size = "--layers 1 --width 32 --heads 2 --context 16 --batch 4".split()
    native("tokenize", "--data", "text.txt", "--train-bpe", "300", "--out", "tokens", folder=folder)
    native("train", "--tokens", "tokens", "--out", "bpe", "--steps", "30", *size, folder=folder)
    native("export", "--model", "bpe", "--out", "model.gguf", "--dtype", "q8_0", folder=folder)
    return (folder / "model.gguf").read_bytes()


def main() -> int:
    if why := page_missing():
        print(why)
        return SKIPPED
    with open_page() as tab, tempfile.TemporaryDirectory() as name:
        model = base64.b64encode(tiny_model(Path(name))).decode()
        tab.run(MODELS.replace("MODEL", model))
        found = json.loads(tab.run(SCRIPT.replace("STEPS", str(STEPS))))
        wrong = check(found) + check_models(found) + tab.errors
    if "-v" in sys.argv:
        print(json.dumps(found, indent=1))
    for line in wrong:
        print(f"FAILED: {line}")
    print(f"result: {int(not wrong)} passed, {len(wrong)} failed, 0 skipped")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
