"""The browser edition on WebGPU in a headless Chromium (SwiftShader): a run beside the same run on the processor.

Wants build/web (make web)."""

from __future__ import annotations

import json
import sys

from browser import SKIPPED
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
    return JSON.stringify(
        { cpu, losses, steps, clipped, hash, sample, grad, early, bad, lost, fresh, without, refused, name },
    );
})()"""


def check(found: dict[str, object]) -> list[str]:
    """What is wrong."""
    wrong = []
    cpu, gpu = found["cpu"], found["losses"]
    assert isinstance(cpu, list) and isinstance(gpu, list)
    if len(cpu) != STEPS - 1 and len(cpu) != STEPS:
        wrong.append(f"{len(cpu)} losses of {STEPS} steps")
    if len(gpu) != len(cpu) or any(abs(a - b) > 1e-6 * abs(a) for a, b in zip(cpu, gpu, strict=False)):
        wrong.append(f"losses of the processor {cpu} and of the GPU {gpu}")
    # Maps: the loss; where gradients are clipped, also the squares of all gradients.  Submits: the forward pass, whose
    # new tokens end the batch before; the rest.
    for name, waits in {"steps": 1, "clipped": 2}.items():
        counts = found[name]
        assert isinstance(counts, list)
        last = {key: counts[-1][key] - counts[-2][key] for key in counts[-1]}
        if last != {"submits": 2, "maps": waits, "scopes": 0, "waits": waits}:
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


def main() -> int:
    if why := page_missing():
        print(why)
        return SKIPPED
    with open_page() as tab:
        found = json.loads(tab.run(SCRIPT.replace("STEPS", str(STEPS))))
        wrong = check(found) + tab.errors
    if "-v" in sys.argv:
        print(json.dumps(found, indent=1))
    for line in wrong:
        print(f"FAILED: {line}")
    print(f"result: {int(not wrong)} passed, {len(wrong)} failed, 0 skipped")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
