// web.mjs - a worker of a page for bench/run.py: one run of the browser edition, or LoRA over a model, and its times.
//
// A message {threads, options, text, until} trains on that text (Run.train), with `until` to that loss of the rest of
// the text; {threads, model} adapts that GGUF file to 8 samples of 128 tokens.  The answer has seconds in the steps,
// milliseconds until the module was loaded and the first step ended, all seconds up to the end of a text that the model
// wrote; or the least seconds of a sample and all memory of the module.
let memory = null;
const { instantiate } = WebAssembly;
WebAssembly.instantiate = async (code, imports) => {
    const made = await instantiate(code, imports);
    const things = [made.exports, ...Object.values(imports)].flatMap((some) => Object.values(some));
    memory ??= things.find((thing) => thing instanceof WebAssembly.Memory);
    return made;
};
onmessage = ({ data }) => measured(data).then(postMessage, (error) => postMessage({ error: `${error}` }));

async function measured({ threads, options, model, text = "text.txt", until = -1 }) {
    const start = performance.now();
    const { load } = await import("./chainrule/index.js");
    const cr = await load({ threads, whole: Boolean(model) });
    const loaded = performance.now() - start;
    const fetched = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
    return model ? adapted(cr, await fetched(model)) : trained(cr, await fetched(text));

    function trained(cr, text) {
        const begun = performance.now();
        const run = cr.Run.train(text, options);
        run.step();
        const first = loaded + performance.now() - begun;
        while (!(run.look().val_loss <= until) && run.step());
        const { seconds, loss, val_loss } = run.look();
        run.sample();
        return { seconds, loss, val_loss, loaded, first, total: (performance.now() - start) / 1e3 };
    }

    function adapted(cr, bytes) {
        const lm = cr.LanguageModel.load({ "m.gguf": bytes });
        lm.lora({ rank: 8, seed: 1 });
        const optimizer = new cr.optim.AdamW(lm.parameters(), { lr: 1e-3 });
        const samples = Array.from({ length: 8 }, (_, i) => lm.sample(String.fromCharCode(97 + i).repeat(128)));
        let seconds = Infinity;
        for (const sample of samples) {
            const begun = performance.now();
            cr.scope(() => {
                optimizer.zero_grad();
                lm.loss([sample]).backward();
                optimizer.step();
            });
            seconds = Math.min(seconds, (performance.now() - begun) / 1e3);
        }
        return { seconds, megabytes: memory.buffer.byteLength / 1e6 };
    }
}
