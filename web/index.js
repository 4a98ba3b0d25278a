// index.js - the package: load() starts the WebAssembly module and gives its tensors, layers, optimizers and models.
import { Bridge } from "./bridge.js";
import { openGpu } from "./gpu.js";
import { models } from "./models.js";
import { nn } from "./nn.js";
import { optim } from "./optim.js";
import { runs } from "./run.js";
import { tensors } from "./tensor.js";

const node = typeof process === "object" && Boolean(process.versions?.node);

/** The module of these bytes, or at this address: compiled while it arrives, where the server says what it is. */
async function compiled(wasm) {
    if (wasm instanceof ArrayBuffer || ArrayBuffer.isView(wasm)) return WebAssembly.compile(wasm);
    if (node) {
        const { readFile } = await import("node:fs/promises");
        return WebAssembly.compile(await readFile(new URL(wasm)));
    }
    const response = await fetch(wasm);
    if (!response.ok) throw new Error(`[load] ${wasm}: ${response.status} ${response.statusText}`);
    const typed = /^application\/wasm/.test(response.headers.get("Content-Type") ?? "");
    return typed ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer());
}

/** Starts a module with memory of its own.  whole: with GGUF, safetensors, learned vocabularies, pretrained models and
    WebGPU; the small module has less to download, and whole() starts the other one when it is needed.
    wasm: bytes of the module, or its address; default: beside this file.
    threads: more than 1 where the page is cross-origin isolated, else there is one; bits do not depend on it. */
export async function load({ whole = false, wasm, threads = 1 } = {}) {
    if (!(Number.isInteger(threads) && threads >= 1 && threads <= 64))
        throw new RangeError(`[load] threads is a number from 1 to 64, not ${threads}`);
    const shared = threads > 1 && !node && globalThis.crossOriginIsolated === true;
    const name = `${whole ? "whole" : "small"}${shared ? "-threads" : ""}`;
    wasm ??= new URL(`./${name}.wasm`, import.meta.url);
    const [{ default: start }, code] = await Promise.all([import(`./${name}.mjs`), compiled(wasm)]);
    const messages = []; // what the program wrote to stderr
    const module = await start({
        noInitialRun: true,
        threads: shared ? threads : 1,
        print: () => {},
        printErr: (line) => messages.push(line),
        instantiateWasm(imports, done) {
            const { gpu_wait } = imports.env; // the one import that suspends its caller
            if (gpu_wait && WebAssembly.Suspending) imports.env.gpu_wait = new WebAssembly.Suspending(gpu_wait);
            WebAssembly.instantiate(code, imports).then((instance) => done(instance, code));
            return {};
        },
    });
    const bridge = new Bridge(module, messages);
    const cr = tensors(bridge);
    cr.nn = nn(bridge, cr);
    cr.optim = optim(bridge, cr);
    Object.assign(cr, models(bridge, cr));
    Object.assign(cr, runs(bridge, cr));
    cr.memory = () => bridge.c.web_memory();
    cr.threads = () => bridge.c.cr_num_threads();
    /** Makes the GPU the device of new tensors, models and runs, and gives its name; an Error says why it cannot be.
        defaults: only with the limits that every adapter has. */
    cr.gpu = async ({ defaults = false } = {}) => {
        if (shared) throw new Error("[gpu] a module of many threads has memory that browsers copy to no GPU");
        if (!whole) throw new Error("[gpu] WebGPU needs the whole module: load({ whole: true }), or await whole()");
        const lost = (message) => bridge.frame(() => bridge.c.web_gpu_lost(bridge.text(message)));
        if (!bridge.gpu?.alive) {
            const gpu = await openGpu(lost, defaults);
            gpu.use(module);
            module.gpu = bridge.gpu = gpu;
        }
        bridge.device = bridge.some(bridge.frame(() => bridge.c.cr_device_find(bridge.text("webgpu:0"))));
        const { name: adapter, software, counts, subgroups, device } = bridge.gpu;
        return { name: adapter, software, counts, subgroups, destroy: () => device.destroy() };
    };
    let more = whole ? Promise.resolve(cr) : null;
    cr.whole = () => (more ??= load({ whole: true, threads }));
    return cr;
}
