// run.test.js - runs and language models in node, and files that go between the package and the native program.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";

const { load } = await import(`${process.env.CHAINRULE_WEB}/chainrule/index.js`);
const small = await load();
const cr = await small.whole();
const native = process.env.CHAINRULE_NATIVE;
const text = Array.from({ length: 800 }, (_, n) => `line ${(n * n) % 97} of ${n}\n`).join("");
const size = { layers: 1, width: 32, heads: 2, context: 16, batch: 4, eval_every: 20 };
const words = Object.entries(size).flatMap(([name, value]) => [`--${name.replace("_", "-")}`, `${value}`]);
const folder = mkdtempSync(join(tmpdir(), "chainrule-web-"));
after(() => rmSync(folder, { recursive: true }));

function write(files, to) {
    for (const [name, data] of Object.entries(files)) {
        mkdirSync(dirname(join(to, name)), { recursive: true });
        writeFileSync(join(to, name), data);
    }
}

const read = (from) =>
    Object.fromEntries(
        readdirSync(from, { recursive: true, withFileTypes: true })
            .filter((entry) => entry.isFile())
            .map((entry) => join(entry.path, entry.name))
            .map((path) => [path.slice(from.length + 1), new Uint8Array(readFileSync(path))]),
    );

const run = (...args) => execFileSync(native, args, { cwd: folder, stdio: "pipe" }).toString();
const weights = (files) => {
    const file = Buffer.from(files["checkpoint/weights.safetensors"]);
    return file.subarray(8 + Number(file.readBigUInt64LE(0)));
};

function finish(r) {
    while (r.step());
    const files = r.files();
    r.close();
    return files;
}

write({ "run/text.txt": text }, folder);
run("train", "--data", "run/text.txt", "--out", "run", "--steps", "40", ...words);
const whole = read(join(folder, "run"));

test("a run has the weights and the losses of the native program", async () => {
    const r = cr.Run.train(text, { ...size, steps: 40 });
    const seen = [];
    do seen.push(r.look());
    while (r.step());
    const hash = await r.hash();
    assert.equal(hash, Buffer.from(await crypto.subtle.digest("SHA-256", weights(whole))).toString("hex"));
    assert.deepEqual(weights(r.files()), weights(whole));
    const losses = Buffer.from(whole["run.jsonl"]).toString().match(/"loss":[\d.]+/g).map((x) => Number(x.slice(7)));
    assert.deepEqual(seen.slice(1).map((x) => Number(x.loss.toFixed(4))), losses.map((x) => Number(x.toFixed(4))));
    assert.equal(r.look().step, 40);
    assert.equal(r.look().val_step, 40);
    assert.equal(typeof r.sample("line ", { tokens: 20 }), "string");
    assert.equal(r.sample("line ", { tokens: 20 }), r.sample("line ", { tokens: 20 }));
    r.close();
    assert.throws(() => r.step(), /this run was closed/);
});

test("files go to the native program and back, and end with the same weights", () => {
    const r = cr.Run.train(text, { ...size, steps: 40 });
    for (let i = 0; i < 21; i++) r.step();
    r.sample("line", { tokens: 5 }); // draws from a generator of its own
    r.save();
    const half = r.files();
    r.close();
    assert.deepEqual(weights(finish(cr.Run.resume(half))), weights(whole));
    const there = join(folder, "there");
    write(half, join(there, "run"));
    execFileSync(native, ["train", "--resume", "run"], { cwd: there, stdio: "pipe" });
    assert.deepEqual(weights(read(join(there, "run"))), weights(whole));
    run("train", "--data", "run/text.txt", "--out", "short", "--steps", "40", "--stop-at", "17", ...words);
    const { ["text.txt"]: _, ...short } = read(join(folder, "short"));
    assert.deepEqual(weights(finish(cr.Run.resume(short, {}, text))), weights(whole));
    assert.throws(() => cr.Run.resume(short, {}, `${text}1`), /the data differ from what 'run' was trained on/);
    const damaged = { ...half, "checkpoint/weights.safetensors": half["checkpoint/weights.safetensors"].slice(0, 100) };
    assert.throws(() => cr.Run.resume(damaged), /weights.safetensors/);
    assert.throws(() => cr.Run.resume({ "run.jsonl": new Uint8Array() }), /holds no checkpoint to resume/);
});

test("options are those of the program", () => {
    const r = cr.Run.train(text, { ...size, steps: 3, compile: false, weight_decay: 0.25, sample: null });
    const [line] = new TextDecoder().decode(finish(r)["run.jsonl"]).split("\n");
    const settings = JSON.parse(line);
    assert.deepEqual(
        [settings.compile, settings["weight-decay"], settings.layers, settings.sample], ["", 0.25, 1, 300],
    );
});

test("texts that cannot be trained on, and options that do not exist, are sentences", () => {
    const says = (f, message) => assert.throws(f, message);
    const before = cr.memory();
    says(() => cr.Run.train("", {}), /the text is empty/);
    says(() => cr.Run.train("a", {}), /the text has 1 tokens: a context of 64 needs at least 75/);
    says(() => cr.Run.train(new Uint8Array([0x61, 0xff, 0x62]), {}), /line 1: the byte 0xff is not UTF-8/);
    says(() => cr.Run.train(text, { stepz: 3 }), /there is no option --stepz; did you mean --steps\?/);
    says(() => cr.Run.train(text, { layers: 0 }), /--layers/);
    says(() => cr.Run.train(text, { width: 30, heads: 4 }), /heads|width/);
    says(() => cr.Run.train(text, { width: 8192, layers: 48, heads: 8 }), /the run needs about .* of memory/);
    says(() => cr.files.folderOf({ "../x": "" }, "f"), /'..\/x' is not a path inside of the folder/);
    const bytes = cr.Run.train(new Uint8Array(300).map((_, i) => i), { ...size, tokenizer: "bytes", steps: 2 });
    while (bytes.step());
    bytes.close();
    assert.ok(cr.memory() - before < 1e6, `${cr.memory() - before} bytes`);
});

test("GPT and tokenizers", () => {
    const t = cr.Tokenizer.chars("hello");
    assert.deepEqual([...t.encode("hole")], [1, 3, 2, 0]);
    assert.equal(t.decode([1, 0]), "he");
    assert.throws(() => t.encode("é"), /U\+00E9 'é'/);
    assert.equal(cr.Tokenizer.bytes().size, 256);
    const gpt = new cr.GPT({ vocabulary: 8, context: 16, layers: 1, heads: 2, width: 16, seed: 1 });
    const x = cr.tensor([[0, 1, 2, 3, 4, 5]], { dtype: "int64" });
    const y = cr.tensor([[1, 2, 3, 4, 5, 6]], { dtype: "int64" });
    const optimizer = new cr.optim.AdamW(gpt.parameters(), { lr: 0.01 });
    const first = gpt.loss(x, y).item();
    for (let i = 0; i < 80; i++)
        cr.scope(() => {
            optimizer.zero_grad();
            gpt.loss(x, y).backward();
            optimizer.step();
        });
    assert.ok(gpt.loss(x, y).item() < 0.2 * first);
    assert.deepEqual([...gpt.generate([0, 1], { tokens: 4, temperature: 0 })], [2, 3, 4, 5]);
    gpt.free();
});

test("a GGUF file and a folder: logits, text, an adapter, as the native program's", async () => {
    run("tokenize", "--data", "run/text.txt", "--train-bpe", "300", "--out", "tokens");
    run("train", "--tokens", "tokens", "--out", "bpe", "--steps", "30", ...words);
    run("export", "--model", "bpe", "--dtype", "f32", "--out", "model.gguf");
    run("export", "--model", "bpe", "--out", "folder");
    const prompt = "line 1";
    const wanted = run("generate", "--model", "bpe", "--prompt", prompt, "--tokens", "24", "--temperature", "0");
    const gguf = readFileSync(join(folder, "model.gguf"));
    let asked = 0; // bytes
    const part = (from, to) => ((asked += to - from), new Uint8Array(gguf).slice(from, to));
    const slices = { size: gguf.length, read: part };
    const gone = { size: gguf.length, read: () => assert.fail("gone") };
    assert.throws(() => cr.LanguageModel.load({ "model.gguf": gone }), /model.gguf.*I\/O error/);
    for (const files of [{ "model.gguf": gguf }, { "model.gguf": slices }, read(join(folder, "folder"))]) {
        const lm = cr.LanguageModel.load(files);
        let out = prompt;
        for await (const piece of lm.generate(prompt, { tokens: 24, temperature: 0 })) out += piece;
        assert.ok(wanted.includes(out.slice(0, 20)), `${out} is not ${wanted}`);
        lm.free();
    }
    assert.equal(asked, gguf.length); // once, whoever maps it
    const lm = cr.LanguageModel.load(read(join(folder, "folder")));
    lm.lora({ rank: 4, seed: 1, targets: "all-linear" });
    const optimizer = new cr.optim.AdamW(lm.parameters(), { lr: 0.02 });
    const samples = [lm.sample("line of line"), lm.sample("of line of l")];
    const write = async (model) => {
        let out = "";
        for await (const piece of model.generate("line 1 of 2 line of", { tokens: 8, seed: 3 })) out += piece;
        return out;
    };
    const before = await write(lm);
    const first = lm.loss(samples).item();
    for (let i = 0; i < 60; i++)
        cr.scope(() => {
            optimizer.zero_grad();
            lm.loss(samples).backward();
            optimizer.step();
        });
    const last = lm.loss(samples).item();
    assert.ok(last < 0.95 * first, `${first} to ${last}`);
    const adapter = lm.save_adapter();
    assert.deepEqual(Object.keys(adapter).sort(), ["adapter_config.json", "adapter_model.safetensors"]);
    const again = cr.LanguageModel.load(read(join(folder, "folder")));
    again.load_adapter(adapter);
    assert.equal(again.loss(samples).item(), last);
    assert.equal(await write(lm), await write(again));
    assert.notEqual(await write(lm), before);
    const after = await write(lm);
    assert.equal(await lm.disable_adapter(() => write(lm)), before);
    assert.equal(await write(lm), after);
    await assert.rejects(lm.disable_adapter(() => assert.fail("stop")), /stop/);
    assert.equal(await write(lm), after);
    const lines = ["the line", "a line of 7", "7 of 9", "of a line"].map((text) => JSON.stringify({ text })).join("\n");
    const options = { lora: 4, steps: 6, seed: 5, eval_every: 3, batch: 2 };
    writeFileSync(join(folder, "lines.jsonl"), lines);
    const given = Object.entries(options).flatMap(([name, value]) => [`--${name.replace("_", "-")}`, `${value}`]);
    run("finetune", "--model", "model.gguf", "--data", "lines.jsonl", "--out", "tuned", ...given);
    const tuned =
        cr.Run.finetune({ "model.gguf": readFileSync(join(folder, "model.gguf")) }, { "lines.jsonl": lines }, options);
    assert.throws(() => tuned.model, /a run of finetune has no GPT/);
    const made = finish(tuned);
    assert.deepEqual(weights(made), weights(read(join(folder, "tuned"))));
    assert.deepEqual(made["adapter_model.safetensors"], read(join(folder, "tuned"))["adapter_model.safetensors"]);
    cr.LanguageModel.load(read(join(folder, "folder"))).load_adapter(made);
    assert.throws(() => cr.Run.finetune({}, { "a.txt": "x" }), /model/);
    assert.throws(() => cr.Run.finetune(read(join(folder, "folder")), {}), /--data needs a value/);
    assert.throws(() => cr.LanguageModel.load({ "model.gguf": new Uint8Array(100) }), /GGUF|gguf/);
    assert.throws(() => cr.LanguageModel.load({}), /config.json|model/);
});

test("samples are those of finetune: what counts, and mistakes by line", async () => {
    const each = "{% for m in messages %}{{ m.role[0] }}{{ m.content }} {% endfor %}";
    const template = `${each}{% if add_generation_prompt %}a{% endif %}`;
    const lm = cr.LanguageModel.load({ ...read(join(folder, "folder")), "chat_template.jinja": template });
    const lines = (...rows) => ({ "rows.jsonl": rows.map((row) => JSON.stringify(row)).join("\n") });
    const texts = ({ tokens, targets }) => [
        lm.tokenizer.decode(tokens.slice(0, 1)) + lm.tokenizer.decode(tokens.slice(1)),
        lm.tokenizer.decode(targets.filter((id) => id >= 0)),
    ];
    const [asked, plain] = lm.samples(lines({ prompt: "line", completion: " of 7" }, { text: "a line" })).map(texts);
    assert.ok("line of 7".startsWith(asked[0]) && asked[1].startsWith(" of 7"), `${asked}`);
    assert.ok("a line".startsWith(plain[0]) && " line".includes(plain[1].slice(0, 5).trim()), `${plain}`);
    const chat = [{ role: "user", content: "7" }, { role: "assistant", content: "line" }];
    const [talk] = lm.samples(lines({ messages: chat })).map(texts);
    assert.ok(talk[0].startsWith("u7 al") && talk[1].startsWith("line"), `${talk}`);
    assert.equal(lm.samples({ "a.txt": text }).length > 100, true);
    assert.throws(() => lm.samples(lines({ prompt: 5 })), /rows.jsonl line 1: "prompt" must be a string/);
    assert.throws(() => lm.samples(lines({ text: "a b" }, { messages: [] })), /rows.jsonl line 2: "messages" must be/);
    assert.throws(() => lm.samples(lines({ other: 1 })), /rows.jsonl line 1: needs "messages"/);
    assert.throws(() => lm.samples({ "rows.jsonl": "" }), /'rows.jsonl' has no samples/);
    lm.free();
});

test("the small module trains to the same weights, and says what it has not", async () => {
    const r = small.Run.train(text, { ...size, steps: 40 });
    assert.deepEqual(weights(finish(r)), weights(whole));
    assert.equal(await small.whole(), cr);
    assert.equal(await cr.whole(), cr);
    assert.throws(() => small.LanguageModel.load({ "model.gguf": new Uint8Array(100) }), /whole module/);
    assert.throws(() => small.Run.finetune({ "model.gguf": new Uint8Array(100) }, { "a.txt": "a" }), /whole module/);
    const vocabulary = JSON.stringify({ model: { type: "BPE", vocab: { a: 0 }, merges: [] } });
    const files = { ...Object.fromEntries(Object.entries(whole)), "tokenizer.json": vocabulary };
    assert.throws(() => small.Run.resume(files), /whole module/);
    assert.throws(() => small.Run.train(text, { ...size, steps: 2, microbatches: 2 }), /one process/);
});
