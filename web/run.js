// run.js - a run of the program's train or finetune, step by step.  Its folder is that of the program: what files()
// gives, `chainrule train --resume` reads, and the other way.
export function runs(bridge, cr) {
    const { c, module } = bridge;
    const { FS } = module;
    const { folderOf, filesOf, removeFolder, modelPath } = cr.files;
    const DATA = "text.txt";

    /** {weight_decay: 0.1, compile: false} -> ["--weight-decay", "0.1", "--no-compile"] */
    function words(options) {
        return Object.entries(options).flatMap(([key, value]) => {
            const name = key.replaceAll("_", "-");
            if (value === true) return [`--${name}`];
            if (value === false) return [`--no-${name}`];
            return value === null || value === undefined ? [] : [`--${name}`, `${value}`];
        });
    }

    class Run {
        #handle = 0;
        #words; // in memory of the module: the settings of a run point to them

        constructor(folder) {
            this.folder = folder;
        }

        /** The run; on a GPU the promise of it. */
        static #open(folder, given, options) {
            const run = new Run(folder);
            const device = bridge.device !== bridge.cpu && !("device" in options) ? ["--device", "webgpu:0"] : [];
            const all = [...given, ...device, ...words(options)];
            bridge.messages.length = 0;
            FS.chdir(folder);
            run.#words = all.map((word) => bridge.copy(word));
            const opened =
                bridge.frame(() => bridge.call("web_run_open", all.length, bridge.put(Int32Array, run.#words)));
            return bridge.then(opened, (handle) => {
                run.#handle = handle;
                if (handle) return run;
                run.#leave();
                return bridge.failProgram();
            });
        }

        /** Trains a GPT on a text.  options: those of `chainrule train`, with _ for -. */
        static train(text, options = {}) {
            const folder = folderOf({ [`run/${DATA}`]: text }, "train");
            return Run.#open(folder, ["train", "--data", `run/${DATA}`, "--out", "run"], options);
        }

        /** Fine-tunes a model on examples.  model: {name: bytes}; data: {name: text}, where .jsonl has samples or
            chats; options: those of `chainrule finetune`, such as {lora: 8}.  In the end files() has the result. */
        static finetune(model, data, options = {}) {
            const below = (prefix, files) =>
                Object.fromEntries(Object.entries(files ?? {}).map(([name, bytes]) => [`${prefix}/${name}`, bytes]));
            const names = Object.keys(data ?? {}).map((name) => `data/${name}`);
            const folder = folderOf({ ...below("model", model), ...below("data", data) }, "train");
            const path = `model/${modelPath(model)}`.replace(/\/$/, "");
            return Run.#open(folder, ["finetune", "--model", path, "--data", ...names, "--out", "run"], options);
        }

        /** Goes on with the files of a run: {"checkpoint/weights.safetensors": bytes...}. */
        static resume(files, options = {}, text = null) {
            const inside = Object.fromEntries(Object.entries(files ?? {}).map(([name, data]) => [`run/${name}`, data]));
            if (text !== null) inside[`run/${DATA}`] = text;
            const data = `run/${DATA}` in inside ? ["--data", `run/${DATA}`] : [];
            return Run.#open(folderOf(inside, "train"), ["train", "--resume", "run", ...data], options);
        }

        get handle() {
            if (!this.#handle) throw new Error("[run] this run was closed");
            FS.chdir(this.folder);
            return this.#handle;
        }

        /** Takes one step, with the validation and the save that are due; false: the run has ended.  On a GPU this and
            the other functions that read the weights give promises. */
        step() {
            return bridge.then(bridge.call("web_run_step", this.handle), (code) => {
                if (code < 0) bridge.failProgram();
                return code === 0;
            });
        }

        /** Numbers of the last step. */
        look() {
            return bridge.frame(() => {
                const at = bridge.put(Float64Array, new Array(10).fill(0));
                c.web_run_look(this.handle, at);
                const [step, steps, loss, lr, norm, seconds, val_step, val_loss, parameters, seed] =
                    bridge.view(Float64Array, at, 10);
                return { step, steps, loss, lr, norm, seconds, val_step, val_loss, parameters, seed };
            });
        }

        /** The GPT that train makes. */
        get model() {
            const model = c.web_run_model(this.handle);
            if (!model) throw new Error("[run] a run of finetune has no GPT: load its files with LanguageModel");
            return new cr.GPT(null, model, this);
        }

        get tokenizer() {
            return new cr.Tokenizer(c.web_run_tokenizer(this.handle), this);
        }

        /** Text that the model writes after a prompt; a character it has no token for is an error. */
        sample(prompt = "\n", { tokens = 200, temperature = 0.8, top_p = 0.95, seed = 0, ...more } = {}) {
            const { tokenizer } = this;
            const ids = tokenizer.encode(prompt);
            const made = this.model.generate(ids, { tokens, temperature, top_p, seed, ...more });
            return bridge.then(made, (all) => tokenizer.decode(all));
        }

        /** Writes a checkpoint into the run's folder. */
        save() {
            return bridge.then(bridge.call("web_run_save", this.handle), (saved) => {
                if (!saved) bridge.failProgram();
            });
        }

        /** The files of the run's folder, with the text: {name: bytes}. */
        files() {
            return filesOf(`${this.folder}/run`);
        }

        /** SHA-256 of the weights: the bytes of weights.safetensors behind its header. */
        async hash() {
            await this.save();
            const file = FS.readFile(`${this.folder}/run/checkpoint/weights.safetensors`);
            const header = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
            const digest = await crypto.subtle.digest("SHA-256", file.slice(8 + header));
            return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
        }

        close() {
            if (!this.#handle) return;
            c.web_run_close(this.handle);
            this.#handle = 0;
            this.#leave();
        }

        #leave() {
            this.#words.forEach((word) => c.free(word));
            FS.chdir("/");
            removeFolder(this.folder);
        }
    }

    return { Run };
}
