// text.js - "Your text": a run of the program in this page.
import { drawCurves, redrawn } from "./draw.js";
import { download, Engine, section } from "./engine.js";
import { linked } from "./link.js";

const part = section("text");
const { root, $, field, button, say, guard } = part;
const SIZES = {
    tiny: { layers: 2, width: 64, heads: 4, context: 64, batch: 12 },
    small: { layers: 4, width: 64, heads: 4, context: 64, batch: 12 },
    medium: { layers: 4, width: 128, heads: 4, context: 64, batch: 12 },
    large: { layers: 6, width: 256, heads: 8, context: 128, batch: 12 },
};
const [LONG_BYTES, MOST_BYTES] = [1e6, 64e6]; // of a text
let losses = [];
let validations = [];
let tokensAStep = 0;
let fileBytes = null; // a file that is too long to show
let state = "empty"; // empty, running, paused, ended

const engine = new Engine(
    {
        run: show,
        lost: (step) => {
            field("device").value = "cpu";
            losses = losses.filter(([at]) => at <= step);
            validations = validations.filter(([at]) => at <= step);
            say(`The GPU is gone; the processor goes on from step ${step}.`);
        },
        sample: (text) => ($("pre.out").textContent = text),
        failed: guard((message) => {
            setState("paused");
            throw new Error(message);
        }),
    },
    { threads: true },
);

function setState(next) {
    state = next;
    button("pause").disabled = state === "empty" || state === "ended";
    button("pause").textContent = state === "paused" ? "Go on" : "Pause";
    button("download").disabled = state === "empty";
    root.querySelector(".sample button").disabled = state === "empty";
}

function numbers(rows) {
    const list = $(".numbers");
    list.replaceChildren(
        ...rows.filter(([, value]) => value !== null).map(([name, value, wide]) => {
            const row = document.createElement("div");
            if (wide) row.className = "all";
            row.append(Object.assign(document.createElement("dt"), { textContent: name }));
            row.append(Object.assign(document.createElement("dd"), { textContent: value }));
            return row;
        }),
    );
}

const tooLong =
    (name, bytes) => `${name} has ${(bytes / 1e6).toFixed(0)} MB: at most ${MOST_BYTES / 1e6} MB are taken.`;

function duration(seconds) {
    if (!(seconds > 0) || !Number.isFinite(seconds)) return "–";
    return seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`;
}

function draw() {
    if (document.hidden) return;
    drawCurves($(".curve"), [
        { points: losses, color: "--one", name: "training" },
        { points: validations, color: "--two", name: "validation", dots: true },
    ]);
}

let hash = null;
function show(now) {
    for (const point of now.points ?? []) losses.push(point);
    if (losses.length > 3000) losses = losses.filter((_, i) => i % 2);
    if (now.val_step >= 0 && validations.at(-1)?.[0] !== now.val_step) validations.push([now.val_step, now.val_loss]);
    if (now.points?.length) hash = null;
    hash = now.hash ?? hash;
    draw();
    const left = ((now.steps - now.step) * tokensAStep) / now.speed;
    numbers([
        ["Step", `${now.step} of ${now.steps}`],
        ["Loss", losses.length ? losses.at(-1)[1].toFixed(4) : "–"],
        ["Validation loss", validations.length ? validations.at(-1)[1].toFixed(4) : "–"],
        ["Tokens per second", now.speed > 0 ? Math.round(now.speed).toLocaleString("en") : "–"],
        ["Time left", duration(left)],
        ["Parameters", now.parameters.toLocaleString("en")],
        ["Threads", String(now.threads)],
        ["Computed by", now.adapter ?? "the processor"],
        ["Seed", String(now.seed)],
        ["Kept in this browser", now.keptStep === null ? null : `step ${now.keptStep}`],
        ["SHA-256 of the weights", hash, true],
    ]);
    if (now.ended !== undefined) {
        setState(now.ended ? "ended" : "paused");
        say(`${now.ended ? "The run has ended" : `Paused after step ${now.step}`}; ${now.kept}.`);
    }
}

function clear() {
    losses = [];
    validations = [];
    hash = null;
    $("pre.out").textContent = "";
}

button("train").onclick = guard(async () => {
    const size = SIZES[field("size").value];
    const [steps, rate] = [Number(field("steps").value), Number(field("rate").value)];
    const text = fileBytes ?? field("text").value;
    if (!text.length) throw new Error("There is no text: paste one, or open a file.");
    if (text.length > MOST_BYTES) throw new Error(tooLong("The text", text.length));
    if (!(steps >= 1)) throw new Error("The number of steps must be at least 1.");
    if (!(rate > 0)) throw new Error("The learning rate must be above 0.");
    clear();
    tokensAStep = size.batch * size.context;
    say("Starting…");
    const seed = Number(field("seed").value);
    // a validation goes over a tenth of the text: with a long one, only at the end
    const eval_every = text.length > LONG_BYTES ? 0 : Math.max(25, Math.round(steps / 10));
    const rest = { steps, lr: rate, seed, eval_every, save_every: 0, sample: 0 };
    try {
        const keeps =
            await engine.call("startText", text, { ...size, ...rest }, tokensAStep, field("device").value);
        say(keeps ? "Training" : "Training; the browser keeps the run of another tab, not this one.");
    } catch (error) {
        say("");
        throw error;
    }
    setState("running");
});

button("pause").onclick = guard(async () => {
    if (state === "running") return engine.call("pauseText");
    setState("running");
    say("Training");
    return engine.call("goOnText", tokensAStep);
});

button("download").onclick = guard(async () => {
    download("run.tar", await engine.call("download"));
    say("Downloaded. On the desktop: tar xf run.tar && chainrule train --resume run");
});

const openRun = guard(async (bytes) => {
    const found = await engine.call("openRun", bytes, {});
    clear();
    ({ losses, validations, tokens: tokensAStep } = found);
    setState("paused");
    say("The run is open: press Go on, or let it write.");
    show(await engine.call("lookText"));
});

field("run").onchange = guard(async () => {
    const [file] = field("run").files;
    field("run").value = "";
    if (file) await openRun(new Uint8Array(await file.arrayBuffer()));
});

const openText = guard(async (file) => {
    if (file.name.endsWith(".tar")) return openRun(new Uint8Array(await file.arrayBuffer()));
    if (file.size > MOST_BYTES) throw new Error(tooLong(`'${file.name}'`, file.size));
    const bytes = new Uint8Array(await file.arrayBuffer());
    const long = bytes.length > LONG_BYTES;
    fileBytes = bytes;
    field("text").value = new TextDecoder().decode(long ? bytes.subarray(0, 5000) : bytes);
    if (long) field("text").value += "\n…";
    say(`'${file.name}': ${bytes.length.toLocaleString("en")} bytes${long ? ", the first 5,000 are shown" : ""}.`);
    return undefined;
});

field("text").oninput = () => (fileBytes = null);
field("file").onchange = () => {
    const [file] = field("file").files;
    field("file").value = "";
    if (file) openText(file);
};
root.ondragover = (event) => {
    event.preventDefault();
    root.classList.add("over");
};
root.ondragleave = () => root.classList.remove("over");
root.ondrop = (event) => {
    event.preventDefault();
    root.classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (file) openText(file);
};

root.querySelector(".sample").onsubmit = guard(async (event) => {
    event.preventDefault();
    const options =
        { tokens: 300, temperature: Number(field("temperature").value), seed: Math.floor(Math.random() * 2 ** 32) };
    $("pre.out").textContent = field("prompt").value + (await engine.call("write", field("prompt").value, options));
});

button("last").onclick = guard(async () => {
    button("last").hidden = true;
    const bytes = await engine.call("lastRun");
    if (bytes) await openRun(bytes);
});
guard(async () => (button("last").hidden = !(await engine.call("lastRun"))))();
linked(part);
redrawn($(".curve"), draw);
