// worker.js - all computation of the page: a module, and what the sections ask of it.
import { load } from "./chainrule/index.js";
import { forget, keep, kept } from "./store.js";
import { pack, unpack } from "./tar.js";

// helpers beyond eight wait for each other more than they work, at the sizes of this page
const threads = self.name.startsWith("threads") ? Math.min(navigator.hardwareConcurrency || 1, 8) : 1;
const ready = load({ threads, whole: self.name.endsWith("whole") });
let cr;
const send = (event, value) => postMessage({ event, value });
const channel = new MessageChannel();
/** Lets messages come in, such as a pause. */
const tick = () =>
    new Promise((done) => {
        channel.port1.onmessage = done;
        channel.port2.postMessage(0);
    });

const calls = { ...expressions(), ...moons(), ...text(), ...model() };

onmessage = async ({ data: { id, name, args } }) => {
    try {
        cr ??= await ready;
        postMessage({ id, value: await answer(name, args) });
    } catch (error) {
        const memory = error instanceof RangeError || /no memory|out of memory|memory access/i.test(error.message);
        postMessage({ id, error: memory ? `Not enough memory: ${error.message}` : error.message });
    }
};

/** A call; once more over the whole module, if it is one that the small module has not. */
async function answer(name, args) {
    try {
        return await calls[name](...args);
    } catch (error) {
        if (!/whole module/.test(error.message)) throw error;
        cr = await cr.whole();
        return calls[name](...args);
    }
}

// ---- See it: values and gradients of a graph that the page has parsed
function expressions() {
    /** nodes: [{op, inputs, value}], inputs before results; the last is the result. */
    function evaluate(nodes) {
        return cr.scope(() => {
            const made = [];
            for (const { op, inputs, value } of nodes) {
                const x = inputs.map((i) => made[i]);
                const y = op ? cr[op](...x) : cr.tensor(value, { dtype: "float64", requires_grad: true });
                if (op) y.retain_grad();
                made.push(y);
            }
            made.at(-1).backward();
            return made.map((y) => ({ value: y.item(), grad: y.grad?.item() ?? 0 }));
        });
    }
    return { evaluate };
}

// ---- Watch it learn
function moons() {
    const SIDE = 48;
    const POINTS = 160;
    let state = null;
    let running = false;

    function data(noise) {
        const g = new cr.Generator(7);
        const t = cr.rand([POINTS], { generator: g }).data();
        const n = cr.randn([POINTS, 2], { generator: g }).data();
        return Array.from(t, (u, i) => {
            const label = i % 2;
            const [x, y] = [Math.cos(Math.PI * u), Math.sin(Math.PI * u)];
            const [dx, dy] = [noise * n[2 * i], noise * n[2 * i + 1]];
            return label ? [1 - x + dx, 0.5 - y + dy, 1] : [x + dx, y + dy, 0];
        });
    }

    function grid() {
        const rows = [];
        for (let i = 0; i < SIDE; i++)
            for (let j = 0; j < SIDE; j++) rows.push([-1.75 + (4.5 * (j + 0.5)) / SIDE, 1.75 - (3 * (i + 0.5)) / SIDE]);
        return cr.tensor(rows);
    }

    function makeMoons({ width, layers, rate, noise }) {
        running = false;
        cr.manual_seed(1);
        const points = data(noise);
        const sizes = [2, ...new Array(layers).fill(width), 1];
        const { Linear, Tanh, Sequential } = cr.nn;
        const parts = sizes.slice(1).flatMap((n, i) => [new Linear(sizes[i], n), ...(i < layers ? [new Tanh()] : [])]);
        const net = new Sequential(...parts);
        state?.net.free();
        state?.optimizer.free();
        const optimizer = new cr.optim.AdamW(net.parameters(), { lr: rate, weight_decay: 0 });
        const x = cr.tensor(points.map((p) => p.slice(0, 2)));
        const y = cr.tensor(points.map((p) => [p[2]]));
        state = { net, optimizer, x, y, points, grid: state?.grid ?? grid(), step: 0, loss: NaN, took: 0 };
        return { points, side: SIDE, ...picture() };
    }

    function picture() {
        const { net, grid: at, step, loss, took } = state;
        return cr.scope(() =>
            cr.no_grad(() => {
                const first = net[1].forward(net[0].forward(at));
                const neurons = first.add(1).div(2).transpose(0, 1).contiguous();
                const field = net.forward(at).sigmoid();
                return { field: field.data(), neurons: neurons.data(), count: neurons.size(0), step, loss, took };
            }),
        );
    }

    function oneStep() {
        const { net, optimizer, x, y } = state;
        cr.scope(() => {
            const loss = cr.nn.functional.binary_cross_entropy_with_logits(net.forward(x), y);
            optimizer.zero_grad();
            loss.backward();
            optimizer.step();
            state.step++;
            state.loss = loss.item();
        });
    }

    async function runMoons() {
        if (running) return;
        running = true;
        const mine = state;
        while (running && state === mine) {
            const start = performance.now();
            const before = state.step;
            do oneStep();
            while (performance.now() - start < 30);
            state.took = (1e3 * (performance.now() - start)) / (state.step - before);
            send("moons", picture());
            await tick();
        }
    }
    return {
        makeMoons,
        runMoons: () => void runMoons(),
        setRate(rate) {
            if (state) state.optimizer.lr = rate;
        },
        pauseMoons() {
            running = false;
        },
    };
}

// ---- Your text
function text() {
    const KEEP_EVERY = 10e3; // ms
    let run = null;
    let running = false;
    let lock = null; // this tab's right to keep its run
    let keptStep = null; // what a reload goes on from
    let speed = { tokens: 0, seconds: 0 };
    let adapter = null; // the name of the GPU that computes; null: the processor does
    let saved = null; // the files of the last save on the GPU, whose memory may be lost
    let onGpu = null; // a module of one thread: browsers copy no shared memory to a GPU
    let onCpu = null;
    let working = Promise.resolve(); // the loop of steps
    let turn = Promise.resolve();
    /** One use of the run after the other: on a GPU they wait. */
    const alone = (f) => (turn = turn.then(f, f));

    const numbers =
        () => ({ ...run.look(), speed: speed.tokens / (speed.seconds || 1), threads: cr.threads(), adapter, keptStep });
    const report = (more = {}) => send("run", { ...numbers(), ...more });

    /** Has this tab the right to keep its run?  The first one has it until it is closed. */
    async function mayKeep() {
        lock ??= await new Promise((got) => {
            if (!navigator.locks) return got(true);
            return navigator.locks.request("chainrule-run", { ifAvailable: true }, (held) => {
                got(Boolean(held) || null);
                return held ? new Promise(() => {}) : undefined;
            });
        });
        return Boolean(lock);
    }

    async function keepLast() {
        if (!(await mayKeep())) return "the browser keeps the run of another tab, not this one";
        const { step } = run.look();
        const said = await keep("run", { "run.tar": archive() });
        keptStep = said.startsWith("kept") ? step : null;
        return said;
    }

    const archive =
        () => pack(Object.fromEntries(Object.entries(run.files()).map(([name, data]) => [`run/${name}`, data])));

    function begin(next) {
        run?.close();
        run = next;
        keptStep = null;
        speed = { tokens: 0, seconds: 0 };
        report();
    }

    async function sampled() {
        try {
            return await run.sample("\n", { tokens: 160 });
        } catch {
            return run.sample(run.tokenizer.decode([0]), { tokens: 160 });
        }
    }

    /** The device of new runs: "cpu", or "gpu", which needs the whole module. */
    async function choose(device) {
        onCpu ??= cr;
        if (device === "gpu") {
            onGpu ??= await load({ whole: true });
            adapter = (await onGpu.gpu()).name;
            cr = onGpu;
        } else {
            cr = onCpu;
            adapter = null;
        }
    }

    /** f(); after the loss of the GPU once more, for the run of the last save on the processor. */
    async function surely(f) {
        try {
            return await f();
        } catch (error) {
            if (!adapter || !saved || !/lost/.test(error.message)) throw error;
            await choose("cpu");
            run = cr.Run.resume(saved, { device: "cpu" });
            send("lost", run.look().step);
            return f();
        }
    }

    /** One use of the run, after those before. */
    const use = (f) => alone(() => surely(f));

    async function keepOnGpu() {
        if (!adapter) return;
        await run.save();
        saved = run.files();
    }

    async function trainOn(tokensAStep) {
        if (running || !run) return;
        running = true;
        let mine = run;
        let more = true;
        let next = performance.now() + 1500;
        let keepAt = performance.now() + KEEP_EVERY;
        await alone(keepOnGpu);
        while (running && run === mine && more) {
            const points = [];
            const start = performance.now();
            do {
                const before = performance.now();
                const { seconds } = run.look();
                more = await use(() => run.step());
                mine = run;
                const now = run.look();
                if (more) points.push([now.step, now.loss]);
                speed.tokens = 0.97 * speed.tokens + (more ? tokensAStep : 0);
                speed.seconds = 0.97 * speed.seconds + (more ? Math.max(0, now.seconds - seconds) : 0);
                if (performance.now() - before > 200) break; // a validation
            } while (more && performance.now() - start < 50);
            report({ points });
            if (performance.now() > next) {
                await use(keepOnGpu);
                send("sample", await use(sampled));
                mine = run;
                next = performance.now() + 4000;
            }
            if (more && performance.now() > keepAt) {
                const before = performance.now();
                await use(() => run.save());
                mine = run;
                await keepLast();
                keepAt = performance.now() + Math.max(KEEP_EVERY, 30 * (performance.now() - before));
            }
            await tick();
        }
        if (run !== mine) return;
        running = false;
        await use(() => run.save());
        send("sample", await use(sampled));
        report({ ended: !more, hash: await use(() => run.hash()), kept: await keepLast() });
    }

    function guarded(tokens) {
        working = trainOn(tokens).catch((error) => {
            running = false;
            send("failed", error.message);
        });
    }

    return {
        async startText(data, options, tokens, device = "cpu") {
            running = false;
            await working;
            await choose(device);
            begin(await cr.Run.train(data, options));
            guarded(tokens);
            return mayKeep();
        },
        pauseText() {
            running = false;
        },
        async goOnText(tokens) {
            await working;
            guarded(tokens);
        },
        async openRun(bytes, options) {
            running = false;
            await working;
            await choose("cpu");
            const files = Object.fromEntries(
                Object.entries(unpack(bytes)).map(([name, data]) => [name.replace(/^[^/]+\//, ""), data]),
            );
            if (!files["checkpoint/state.json"]) throw new Error("This archive holds no run: it has no checkpoint.");
            const state = new TextDecoder().decode(files["checkpoint/state.json"]);
            const version = /"version":\s*(\d+)/.exec(state)?.[1] ?? "1";
            if (version !== "1")
                throw new Error(`This run was saved by another version of chainrule: its format is ${version}, not 1.`);
            if (!files["text.txt"]) throw new Error("This run does not hold its text as text.txt.");
            begin(cr.Run.resume(files, { ...options, device: "cpu" }));
            const lines = new TextDecoder().decode(files["run.jsonl"] ?? new Uint8Array()).split("\n").filter(Boolean);
            const log = lines.map((line) => JSON.parse(line));
            const pick =
                (key) => log.filter((line) => typeof line[key] === "number").map((line) => [line.step, line[key]]);
            const first = log.find((line) => line.event === "start") ?? {};
            return { losses: pick("loss"), validations: pick("val_loss"), tokens: first.batch * first.context };
        },
        async lastRun() {
            const files = await kept("run");
            return files && new Uint8Array(await files["run.tar"].arrayBuffer());
        },
        async download() {
            await use(() => run.save());
            return archive();
        },
        lookText: numbers,
        write: (prompt, options) => use(() => run.sample(prompt || "\n", options)),
    };
}

// ---- Your model
function model() {
    const MOST = 4e9; // bytes of a page's memory
    let lm = null;
    let on = null; // the module that has it
    let onGpu = null; // of one thread: browsers copy no shared memory to a GPU
    let stop = new AbortController();
    let tuned = false;
    let examples = []; // of a file

    /** A sentence if a model of these files is larger than the memory that there is. */
    function check(files) {
        const gigabytes = (n) => `${(n / 1e9).toFixed(1)} GB`;
        const size = files.reduce((sum, file) => sum + file.size, 0);
        const need = 1.05 * size + 1.2e8; // the file, what a text needs, and memory grows by up to 0.1 GB at once
        const device = (navigator.deviceMemory ?? Infinity) * 1.07e9;
        if (need <= Math.min(MOST, device)) return;
        throw new Error(
            `This model has ${gigabytes(size)} and needs about ${gigabytes(need)} of memory: ` +
                (need > MOST ? "a page has at most 4 GB" : `this device has ${gigabytes(device)}`) +
                ". Please choose a smaller one, or one with fewer bits for each weight.",
        );
    }

    /** device: "cpu", or "gpu". */
    async function open(device, files) {
        check(files);
        if (device === "gpu") onGpu ??= await load({ whole: true });
        const adapter = device === "gpu" ? (await onGpu.gpu()).name : "";
        const where = device === "gpu" ? onGpu : cr;
        const next = await where.LanguageModel.load(Object.fromEntries(files.map((file) => [file.name, file])));
        lm?.free();
        lm = next;
        on = where;
        tuned = false;
        examples = [];
        const names = files.map((file) => file.name).join(", ");
        return { names, context: lm.context, vocabulary: lm.tokenizer.size, adapter };
    }

    /** Writes an answer as events of this name. */
    async function write(event, prompt, options) {
        let pieces = 0;
        for await (const piece of lm.generate(prompt, { ...options, signal: stop.signal })) {
            pieces++;
            send(event, piece);
            await tick();
        }
        return pieces;
    }

    return {
        openModel: open,
        keepModel: async (files) => {
            await forget("model");
            const said = await keep("model", Object.fromEntries(files.map((file) => [file.name, file])));
            if (!said.startsWith("kept")) await forget("model");
            return said;
        },
        openLastModel: async (device) => open(device, Object.values((await kept("model")) ?? {})),
        async ask(prompt, options) {
            stop = new AbortController();
            const start = performance.now();
            const pieces = await write("piece", prompt, options);
            return { pieces, seconds: (performance.now() - start) / 1e3 };
        },
        stop() {
            stop.abort();
        },
        /** The samples of a file, for tune(null). */
        examples(name, bytes) {
            examples = lm.samples({ [name]: bytes });
            return { samples: examples.length, tokens: examples.reduce((sum, { tokens }) => sum + tokens.length, 0) };
        },
        async tune(lines, { rank, passes, rate }) {
            const samples = lines ? lines.map((line) => lm.sample(line)) : examples;
            if (!tuned) lm.lora({ rank });
            tuned = true;
            const optimizer = new on.optim.AdamW(lm.parameters(), { lr: rate, weight_decay: 0 });
            const losses = [];
            stop = new AbortController();
            for (let pass = 0; pass < passes && !stop.signal.aborted; pass++) {
                let sum = 0;
                for (const sample of samples) {
                    const loss = on.scope(() => {
                        optimizer.zero_grad();
                        const loss = lm.loss([sample]);
                        loss.backward();
                        optimizer.step();
                        return loss.detach();
                    });
                    const here = await loss.cpu();
                    sum += here.item();
                    loss.free();
                    here.free();
                    await tick();
                    if (stop.signal.aborted) break;
                }
                if (stop.signal.aborted) break;
                losses.push(sum / samples.length);
                send("tuned", { pass: pass + 1, passes, loss: losses.at(-1) });
            }
            optimizer.free();
            return { first: losses[0], last: losses.at(-1) };
        },
        /** One prompt, one seed: the model as it was, and with the adapter. */
        async compare(prompt, options) {
            stop = new AbortController();
            await lm.disable_adapter(() => write("before", prompt, options));
            await write("after", prompt, options);
        },
        adapter: async () => pack(await lm.save_adapter()),
    };
}
