// index.js - the package: load() starts the WebAssembly module and gives its tensors, layers, optimizers and models.
import { Bridge } from "./bridge.js";
import { models } from "./models.js";
import { nn } from "./nn.js";
import { optim } from "./optim.js";
import { runs } from "./run.js";
import { tensors } from "./tensor.js";

const node = typeof process === "object" && Boolean(process.versions?.node);

async function fetched(url) {
    if (!node) {
        const response = await fetch(url);
        if (!response.ok) throw new Error(`[load] ${url}: ${response.status} ${response.statusText}`);
        return response.arrayBuffer();
    }
    const { readFile } = await import("node:fs/promises");
    return readFile(new URL(url));
}

/** Starts a module with memory of its own.  wasm: bytes of module.wasm, or its address; default: beside this file.
    threads: more than 1 where the page is cross-origin isolated, else there is one; bits do not depend on it. */
export async function load({ wasm, threads = 1 } = {}) {
    if (!(Number.isInteger(threads) && threads >= 1 && threads <= 64))
        throw new RangeError(`[load] threads is a number from 1 to 64, not ${threads}`);
    const shared = threads > 1 && !node && globalThis.crossOriginIsolated === true;
    const name = shared ? "threads" : "module";
    const { default: start } = await import(`./${name}.mjs`);
    wasm ??= new URL(`./${name}.wasm`, import.meta.url);
    const bytes = wasm instanceof ArrayBuffer || ArrayBuffer.isView(wasm) ? wasm : await fetched(wasm);
    const messages = []; // what the program wrote to stderr
    const module = await start({
        noInitialRun: true,
        threads: shared ? threads : 1,
        print: () => {},
        printErr: (line) => messages.push(line),
        instantiateWasm(imports, done) {
            WebAssembly.instantiate(bytes, imports).then(({ instance, module: code }) => done(instance, code));
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
    return cr;
}
