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

/** Starts a module with memory of its own.  wasm: bytes of module.wasm, or its address; default: beside this file. */
export async function load({ wasm = new URL("./module.wasm", import.meta.url) } = {}) {
    const { default: start } = await import("./module.mjs");
    const bytes = wasm instanceof ArrayBuffer || ArrayBuffer.isView(wasm) ? wasm : await fetched(wasm);
    const messages = []; // what the program wrote to stderr
    const module = await start({
        noInitialRun: true,
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
    return cr;
}
