// text.js - "Your text": a run of the program in this page.
import { drawCurves, redrawn } from "./draw.js";
import { download, Engine, section } from "./engine.js";

const { root, $, field, button, say, guard } = section("text");
const SIZES = {
    tiny: { layers: 2, width: 64, heads: 4, context: 64, batch: 12 },
    small: { layers: 4, width: 64, heads: 4, context: 64, batch: 12 },
    medium: { layers: 4, width: 128, heads: 4, context: 64, batch: 12 },
    large: { layers: 6, width: 256, heads: 8, context: 128, batch: 12 },
};
const MOST_BYTES = 64e6; // of a text
let losses = [];
let validations = [];
let tokensAStep = 0;
let fileBytes = null; // a file that is too long to show
let state = "empty"; // empty, running, paused, ended

const engine = new Engine(
    {
        run: show,
        lost: (text) => {
            field("device").value = "cpu";
            say(text);
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

function duration(seconds) {
    if (!(seconds > 0) || !Number.isFinite(seconds)) return "–";
    return seconds < 90 ? `${Math.ceil(seconds)} s` : `${Math.ceil(seconds / 60)} min`;
}

function draw() {
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
    const steps = Number(field("steps").value);
    const text = fileBytes ?? field("text").value;
    if (!text.length) throw new Error("There is no text: paste one, or open a file.");
    if (!(steps >= 1)) throw new Error("The number of steps must be at least 1.");
    clear();
    tokensAStep = size.batch * size.context;
    say("Starting…");
    const rest =
        { steps, seed: Number(field("seed").value), eval_every: Math.max(25, Math.round(steps / 10)), save_every: 0 };
    try {
        await engine.call("startText", text, { ...size, ...rest, sample: 0 }, tokensAStep, field("device").value);
    } catch (error) {
        say("");
        throw error;
    }
    setState("running");
    say("Training");
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
    if (file.size > MOST_BYTES)
        throw new Error(
            `'${file.name}' has ${(file.size / 1e6).toFixed(0)} MB: at most ${MOST_BYTES / 1e6} MB are taken.`,
        );
    const bytes = new Uint8Array(await file.arrayBuffer());
    const long = bytes.length > 1e6;
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
redrawn($(".curve"), draw);
