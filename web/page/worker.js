// worker.js - all computation of the page: a module, and what the sections ask of it.
import { load } from "./chainrule/index.js";
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
        const memory = error instanceof RangeError || /memory/i.test(error.message);
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
    const KEPT = "run.tar"; // in the private file system of this site
    let run = null;
    let running = false;
    let lock = null; // this tab's right to write KEPT
    let speed = { tokens: 0, seconds: 0 };
    let adapter = null; // the name of the GPU that computes; null: the processor does
    let kept = null; // the files of the last save on the GPU, whose memory may be lost
    let onGpu = null; // a module of one thread: browsers copy no shared memory to a GPU
    let onCpu = null;
    let working = Promise.resolve(); // the loop of steps
    let turn = Promise.resolve();
    /** One use of the run after the other: on a GPU they wait. */
    const alone = (f) => (turn = turn.then(f, f));

    const numbers =
        () => ({ ...run.look(), speed: speed.tokens / (speed.seconds || 1), threads: cr.threads(), adapter });
    const report = (more = {}) => send("run", { ...numbers(), ...more });

    async function keepLast() {
        try {
            lock ??= await new Promise((got) => {
                navigator.locks.request("chainrule-run", { ifAvailable: true }, (held) => {
                    got(Boolean(held));
                    return held ? new Promise(() => {}) : undefined;
                });
            });
            if (!lock) return "another tab keeps its run, this one is not kept";
            const root = await navigator.storage.getDirectory();
            const file = await root.getFileHandle(KEPT, { create: true });
            const out = await file.createWritable();
            await out.write(archive());
            await out.close();
            return "kept in this browser";
        } catch (error) {
            return `not kept in this browser (${error.name})`;
        }
    }

    const archive =
        () => pack(Object.fromEntries(Object.entries(run.files()).map(([name, data]) => [`run/${name}`, data])));

    function begin(next) {
        run?.close();
        run = next;
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

    /** A step; after the loss of the GPU, the run goes on from its last save on the processor. */
    async function oneStep() {
        try {
            return await run.step();
        } catch (error) {
            if (!adapter || !kept || !/is lost/.test(error.message)) throw error;
            await choose("cpu");
            run = cr.Run.resume(kept, { device: "cpu" });
            send("lost", `The GPU is gone; the processor goes on from step ${run.look().step}.`);
            return run.step();
        }
    }

    async function keepOnGpu() {
        if (!adapter) return;
        await run.save();
        kept = run.files();
    }

    async function trainOn(tokensAStep) {
        if (running || !run) return;
        running = true;
        let mine = run;
        let more = true;
        let next = performance.now() + 1500;
        await alone(keepOnGpu);
        while (running && run === mine && more) {
            const points = [];
            const start = performance.now();
            do {
                const before = performance.now();
                const { seconds } = run.look();
                more = await alone(oneStep);
                mine = run;
                const now = run.look();
                if (more) points.push([now.step, now.loss]);
                speed.tokens = 0.97 * speed.tokens + (more ? tokensAStep : 0);
                speed.seconds = 0.97 * speed.seconds + (more ? now.seconds - seconds : 0);
                if (performance.now() - before > 200) break; // a validation
            } while (more && performance.now() - start < 50);
            report({ points });
            if (performance.now() > next) {
                await alone(keepOnGpu);
                send("sample", await alone(sampled));
                next = performance.now() + 4000;
            }
            await tick();
        }
        if (run !== mine) return;
        running = false;
        await alone(() => run.save());
        send("sample", await alone(sampled));
        report({ ended: !more, hash: await alone(() => run.hash()), kept: await keepLast() });
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
            try {
                const root = await navigator.storage.getDirectory();
                const file = await (await root.getFileHandle(KEPT)).getFile();
                return new Uint8Array(await file.arrayBuffer());
            } catch {
                return null;
            }
        },
        async download() {
            await alone(() => run.save());
            return archive();
        },
        lookText: numbers,
        write: (prompt, options) => alone(() => run.sample(prompt || "\n", options)),
    };
}

// ---- Your model
function model() {
    let lm = null;
    let stop = new AbortController();
    let tuned = false;

    return {
        async openModel(files) {
            const total = files.reduce((sum, file) => sum + file.size, 0);
            if (total > 1.5e9)
                throw new Error(
                    `This model has ${(total / 1e9).toFixed(1)} GB. A page has at most 4 GB of memory, and loading ` +
                        "takes twice the size: please choose one of at most 1.5 GB, a smaller or a quantized one.",
                );
            const read = {};
            for (const file of files) read[file.name] = new Uint8Array(await file.arrayBuffer());
            const next = cr.LanguageModel.load(read);
            lm?.free();
            lm = next;
            tuned = false;
            return { context: lm.context, vocabulary: lm.tokenizer.size };
        },
        async ask(prompt, options) {
            stop = new AbortController();
            const start = performance.now();
            let pieces = 0;
            for await (const piece of lm.generate(prompt, { ...options, signal: stop.signal })) {
                pieces++;
                send("piece", piece);
                await tick();
            }
            return { pieces, seconds: (performance.now() - start) / 1e3 };
        },
        stop() {
            stop.abort();
        },
        async tune(lines, { rank, passes, rate }) {
            const samples = lines.map((line) => lm.sample(line));
            if (!tuned) lm.lora({ rank });
            tuned = true;
            const optimizer = new cr.optim.AdamW(lm.parameters(), { lr: rate, weight_decay: 0 });
            const losses = [];
            stop = new AbortController();
            for (let pass = 0; pass < passes && !stop.signal.aborted; pass++) {
                let sum = 0;
                for (const sample of samples)
                    sum += cr.scope(() => {
                        optimizer.zero_grad();
                        const loss = lm.loss([sample]);
                        loss.backward();
                        optimizer.step();
                        return loss.item();
                    });
                losses.push(sum / samples.length);
                send("tuned", { pass: pass + 1, passes, loss: losses.at(-1) });
                await tick();
            }
            optimizer.free();
            return { first: losses[0], last: losses.at(-1) };
        },
        adapter: () => pack(lm.save_adapter()),
    };
}
