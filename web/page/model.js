// model.js - "Your model": a pretrained model, a chat with it, and LoRA on examples.
import { download, Engine, section } from "./engine.js";

const { root, $, field, button, say, guard } = section("model");
let messages = [];
let line = null; // the paragraph that an answer goes into
let engine = null; // a module of its own, from the first model on

const start = () =>
    (engine ??= new Engine(
        {
            piece: (text) => (line.textContent += text),
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

const open = guard(async (files) => {
    say("Reading…");
    try {
        const { context, vocabulary } = await start().call("openModel", [...files]);
        const names = [...files].map((file) => file.name).join(", ");
        say(`Open: ${names}; ${vocabulary.toLocaleString("en")} tokens, context ${context}.`);
        $(".opened").hidden = false;
        clear();
    } catch (error) {
        say("No model");
        throw error;
    }
});

function clear() {
    messages = [];
    $(".chat").replaceChildren();
}

function busy(on) {
    root.querySelector(".ask .main").disabled = button("tune").disabled = on;
    button("stop").disabled = !on;
}

field("files").onchange = async () => {
    const files = [...field("files").files];
    field("files").value = "";
    if (files.length) await open(files);
};
root.ondragover = (event) => event.preventDefault();
root.ondrop = (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length) open([...event.dataTransfer.files]);
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
    const lines = field("examples").value.split("\n").filter((text) => text.trim());
    if (!lines.length) throw new Error("There are no examples: write one on each line.");
    const options =
        { rank: Number(field("rank").value), passes: Number(field("passes").value), rate: Number(field("rate").value) };
    busy(true);
    try {
        const { first, last } = await start().call("tune", lines, options);
        $(".tuned").textContent = `Loss ${first.toFixed(4)} before, ${last.toFixed(4)} in the last pass.`;
        button("adapter").disabled = false;
    } finally {
        busy(false);
    }
});
button("adapter").onclick = guard(async () => download("adapter.tar", await start().call("adapter")));
