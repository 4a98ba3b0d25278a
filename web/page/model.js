// model.js - "Your model": a pretrained model, a chat with it, and LoRA on examples.
import { download, Engine, section } from "./engine.js";
import { linked } from "./link.js";
import { kept } from "./store.js";

const part = section("model");
const { root, $, field, button, say, guard } = part;
const MOST_BYTES = 64e6; // of examples
let now = "No model"; // that is open
let fromFile = false; // the examples are those of a file, which the worker holds
let messages = [];
let line = null; // the paragraph that an answer goes into
let engine = null; // a module of its own, from the first model on

const start = () =>
    (engine ??= new Engine(
        {
            piece: (text) => (line.textContent += text),
            before: (text) => ($(".before").textContent += text),
            after: (text) => ($(".after").textContent += text),
            tuned: ({ pass, passes, loss }) =>
                ($(".tuned").textContent = `Pass ${pass} of ${passes}: loss ${loss.toFixed(4)}`),
        },
        { threads: true, whole: true },
    ));

function paragraph(kind, text) {
    const p = Object.assign(document.createElement("p"), { className: kind, textContent: text });
    $(".chat").append(p);
    $(".chat").scrollTop = 1e9;
    return p;
}

/** Opens the model that `call` of the worker reads. */
async function opened(call, ...args) {
    say("Reading…");
    try {
        const { names, context, vocabulary, adapter } = await start().call(call, field("device").value, ...args);
        now = `Open: ${names}; ${vocabulary.toLocaleString("en")} tokens, context ${context}`;
        if (adapter) now += `, on ${adapter}`;
        say(`${now}.`);
        $(".opened").hidden = false;
        $(".compare").hidden = $(".answers").hidden = button("adapter").disabled = true;
        fromFile = false;
        clear();
    } catch (error) {
        say(`${now}.`); // the model before is still open
        throw error;
    }
}

const open = guard(async (files) => {
    await opened("openModel", files);
    button("last").hidden = true;
    say(`${now}; ${await start().call("keepModel", files)}.`);
});

const openExamples = guard(async (file) => {
    if (file.size > MOST_BYTES) throw new Error(`'${file.name}' has more than ${MOST_BYTES / 1e6} MB.`);
    const bytes = new Uint8Array(await file.arrayBuffer());
    const { samples, tokens } = await start().call("examples", file.name, bytes);
    fromFile = true;
    field("examples").value = "";
    $(".tuned").textContent = `'${file.name}': ${samples} samples of ${tokens} tokens.`;
});

/** Examples for the model that is open, or a model. */
function take(files) {
    const [file] = files;
    const lines = files.length === 1 && /[.]jsonl$/i.test(file.name) && !$(".opened").hidden;
    return lines ? openExamples(file) : open(files);
}

function clear() {
    messages = [];
    $(".chat").replaceChildren();
}

function busy(on) {
    root.querySelector(".ask .main").disabled = button("tune").disabled = on;
    $(".compare button").disabled = on;
    button("stop").disabled = !on;
}

field("files").onchange = async () => {
    const files = [...field("files").files];
    field("files").value = "";
    if (files.length) await take(files);
};
field("lines").onchange = async () => {
    const [file] = field("lines").files;
    field("lines").value = "";
    if (file) await openExamples(file);
};
field("examples").oninput = () => (fromFile = false);
root.ondragover = (event) => event.preventDefault();
root.ondrop = (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) take([...event.dataTransfer.files]);
};

root.querySelector(".ask").onsubmit = guard(async (event) => {
    event.preventDefault();
    const text = field("message").value;
    if (!text.trim()) throw new Error("There is no message.");
    field("message").value = "";
    paragraph("user", text);
    line = paragraph("answer", "");
    const plain = field("plain").checked;
    if (!plain) messages.push({ role: "user", content: text });
    busy(true);
    try {
        const seed = Math.floor(Math.random() * 2 ** 32);
        const { pieces, seconds } =
            await start().call("ask", plain ? text : messages, { tokens: 256, temperature: 0.7, top_p: 0.95, seed });
        if (!plain) messages.push({ role: "assistant", content: line.textContent });
        say(`${(pieces / seconds).toFixed(1)} pieces of text per second`);
    } finally {
        busy(false);
    }
});
button("stop").onclick = () => start().call("stop");
button("clear").onclick = clear;

button("tune").onclick = guard(async () => {
    const lines = fromFile ? null : field("examples").value.split("\n").filter((text) => text.trim());
    if (lines && !lines.length) throw new Error("There are no examples: write one on each line, or open a file.");
    const options =
        { rank: Number(field("rank").value), passes: Number(field("passes").value), rate: Number(field("rate").value) };
    busy(true);
    try {
        const { first, last } = await start().call("tune", lines, options);
        if (first !== undefined)
            $(".tuned").textContent = `Loss ${first.toFixed(4)} before, ${last.toFixed(4)} in the last pass.`;
        button("adapter").disabled = $(".compare").hidden = false;
    } finally {
        busy(false);
    }
});
$(".compare").onsubmit = guard(async (event) => {
    event.preventDefault();
    const text = field("asked").value;
    if (!text.trim()) throw new Error("There is no text to ask.");
    $(".answers").hidden = false;
    $(".before").textContent = $(".after").textContent = "";
    busy(true);
    try {
        const prompt = field("plain").checked ? text : [{ role: "user", content: text }];
        await start().call("compare", prompt, { tokens: 100, temperature: 0.7, top_p: 0.95, seed: 1 });
    } finally {
        busy(false);
    }
});
button("adapter").onclick = guard(async () => download("adapter.tar", await start().call("adapter")));
button("last").onclick = guard(async () => {
    button("last").hidden = true;
    await opened("openLastModel");
});
guard(async () => (button("last").hidden = !(await kept("model"))))();
linked(part);
