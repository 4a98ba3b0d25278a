// models.js - tokenizers, GPT, and pretrained language models: the engine of the program and the server.
import { bytesOf, collector } from "./bridge.js";

const SLICE = 1 << 24; // bytes

/** Files of a model as {name: bytes}: one GGUF file, or a folder with config.json and safetensors. */
function modelPath(files) {
    const names = Object.keys(files ?? {});
    const gguf = names.filter((name) => name.toLowerCase().endsWith(".gguf"));
    return gguf.length === 1 && !names.includes("config.json") ? gguf[0] : "";
}

export function models(bridge, cr) {
    const { c, module } = bridge;
    const { FS } = module;
    let folders = 0;

    /** A file that is read where it is used: {size, read(from, to) -> Uint8Array}, or a Blob in a worker; else null. */
    function slicesOf(data) {
        if (typeof data?.read === "function") return data;
        if (data instanceof Uint8Array) return { size: data.length, read: (from, to) => data.subarray(from, to) };
        if (!(data instanceof Blob)) return null;
        if (typeof FileReaderSync !== "function")
            throw new TypeError("[files] a File can be read in a worker only: give its bytes, or {size, read}");
        const reader = new FileReaderSync();
        const read = (from, to) => new Uint8Array(reader.readAsArrayBuffer(data.slice(from, to)));
        return { size: data.size, read };
    }

    /** A file whose bytes go by slices into the memory that maps it, once: all mappings share it, and the caller frees
        what is added to pages. */
    function linkSlices(path, { size, read }, pages) {
        let mapped = 0;
        const [EINVAL, EIO, ENOMEM] = [28, 29, 48];
        const slice = (from, to) => {
            try {
                return read(from, to);
            } catch {
                throw new FS.ErrnoError(EIO); // the file has changed, or is gone
            }
        };
        FS.writeFile(path, "");
        const { node } = FS.lookupPath(path);
        node.usedBytes = size;
        node.stream_ops = {
            ...node.stream_ops,
            read(stream, buffer, offset, length, position) {
                const part = slice(position, Math.min(position + length, size));
                buffer.set(part, offset);
                return part.length;
            },
            mmap(stream, address, length, position) {
                if (position !== 0 || length > size) throw new FS.ErrnoError(EINVAL); // files are mapped whole
                if (mapped) return { ptr: mapped, allocated: false };
                const ptr = c.web_pages(size);
                if (!ptr) throw new FS.ErrnoError(ENOMEM);
                pages.push(ptr);
                for (let at = 0; at < size; at += SLICE)
                    bridge.bytes.set(slice(at, Math.min(at + SLICE, size)), (ptr >>> 0) + at);
                mapped = ptr;
                return { ptr, allocated: false };
            },
        };
    }

    /** Writes files into a new folder of the module's file system; name -> Uint8Array or text.  With pages, files are
        only read: what slicesOf takes, and bytes, lie in memory where they are mapped (linkSlices). */
    function folderOf(files, prefix, pages = null) {
        if (typeof files !== "object" || !files) throw new TypeError(`[files] expected {name: bytes}, got ${files}`);
        const folder = `/${prefix}${folders++}`;
        FS.mkdir(folder);
        for (const [name, data] of Object.entries(files)) {
            const parts = name.split("/");
            if (parts.some((part) => part === ".." || part === "." || part === ""))
                throw new Error(`[files] '${name}' is not a path inside of the folder`);
            parts.slice(0, -1).reduce((path, part) => {
                const next = `${path}/${part}`;
                if (!FS.analyzePath(next).exists) FS.mkdir(next);
                return next;
            }, folder);
            const slices = pages && slicesOf(data);
            if (slices) linkSlices(`${folder}/${name}`, slices, pages);
            else FS.writeFile(`${folder}/${name}`, bytesOf("files", data));
        }
        return folder;
    }

    /** All files below a folder: {name: bytes}. */
    function filesOf(folder, prefix = "") {
        const out = {};
        for (const name of FS.readdir(folder)) {
            if (name === "." || name === "..") continue;
            const path = `${folder}/${name}`;
            if (FS.isDir(FS.stat(path).mode)) Object.assign(out, filesOf(path, `${prefix}${name}/`));
            else out[prefix + name] = FS.readFile(path);
        }
        return out;
    }

    function removeFolder(folder) {
        for (const name of FS.readdir(folder)) {
            if (name === "." || name === "..") continue;
            const path = `${folder}/${name}`;
            if (FS.isDir(FS.stat(path).mode)) removeFolder(path);
            else FS.unlink(path);
        }
        FS.rmdir(folder);
    }

    const encoder = new TextEncoder();
    const tokenizers = collector((handle) => c.cr_tokenizer_free(handle));
    const decoders = collector((handle) => c.cr_decoder_free(handle));

    class Tokenizer {
        /** Takes over a C tokenizer, or borrows one of owner. */
        constructor(handle, owner = null) {
            this.handle = bridge.some(handle);
            this.owner = owner;
            if (!owner) tokenizers.register(this, this.handle);
        }

        static bytes() {
            return new Tokenizer(c.cr_tokenizer_bytes());
        }

        /** One token for each character of a text. */
        static chars(text) {
            const data = bytesOf("Tokenizer", text);
            return bridge.lend(data, (at) => new Tokenizer(c.cr_tokenizer_chars(at, data.length)));
        }

        get size() {
            return Number(c.cr_tokenizer_size(this.handle));
        }

        encode(text) {
            const data = bytesOf("encode", text);
            return bridge.lend(data, (at) => {
                const n = Number(c.cr_tokenizer_encode(this.handle, at, data.length, 0, 0n));
                if (n < 0) bridge.fail();
                return bridge.lend(new Uint32Array(n), (ids) => {
                    c.cr_tokenizer_encode(this.handle, at, data.length, ids, BigInt(n));
                    return bridge.view(Uint32Array, ids, n).slice();
                });
            });
        }

        /** A text in which the names of special tokens are these tokens. */
        encode_special(text) {
            const data = bytesOf("encode_special", text);
            return bridge.frame(() =>
                bridge.lend(data, (at) => {
                    const options = bridge.put(Int32Array, [1, 0, 0, 0, 0, 0, 0, 0]); // all_special
                    const n = bridge.put(BigInt64Array, [0n]);
                    const ids = bridge.some(c.cr_tokenizer_encode_special(this.handle, at, data.length, options, n));
                    const out = bridge.view(Uint32Array, ids, Number(bridge.view(BigInt64Array, n, 1)[0])).slice();
                    c.cr_free(ids);
                    return out;
                }),
            );
        }

        decode(ids) {
            return bridge.lend(Uint32Array.from(ids), (at) => {
                const n = Number(c.cr_tokenizer_decode(this.handle, at, BigInt(ids.length), 0, 0));
                if (n < 0) bridge.fail();
                return bridge.lend(new Uint8Array(n), (text) => {
                    c.cr_tokenizer_decode(this.handle, at, BigInt(ids.length), text, n);
                    return bridge.string(text, n);
                });
            });
        }

        decoder() {
            return new Decoder(this);
        }
    }

    /** Text token by token, in whole characters. */
    class Decoder {
        constructor(tokenizer) {
            this.tokenizer = tokenizer;
            this.handle = bridge.some(c.cr_decoder_new(tokenizer.handle));
            decoders.register(this, this.handle);
        }

        #read(f) {
            return bridge.frame(() => {
                const bytes = bridge.put(Uint32Array, [0]);
                const text = bridge.some(f(bytes));
                return bridge.string(text, bridge.view(Uint32Array, bytes, 1)[0]);
            });
        }

        next(id) {
            return this.#read((bytes) => c.cr_decoder_next(this.handle, id, bytes));
        }

        end() {
            return this.#read((bytes) => c.cr_decoder_end(this.handle, bytes));
        }
    }

    function sampling({ temperature = 1, top_p = 1, top_k = 0, min_p = 0, repetition_penalty = 0 } = {}) {
        return bridge.put(Float64Array, [temperature, top_p, top_k, min_p, repetition_penalty]);
    }

    const gpts = collector((handle) => c.cr_gpt_free(handle));

    /** Parameters by name, borrowed from a model: [name, tensor]. */
    function* paramsOf(set) {
        const n = Number(c.cr_params_count(set));
        for (let i = 0n; i < n; i++)
            yield [bridge.string(c.cr_params_name(set, i)), cr.wrap(c.cr_retain(c.cr_params_at(set, i)))];
    }

    /** GPT-2's architecture, with its initialisation. */
    class GPT {
        constructor(options, handle = 0, owner = null) {
            if (!handle) {
                const { vocabulary, context = 64, layers = 4, heads = 4, width = 128, dropout = 0, seed } = options;
                this.generator = seed === undefined ? null : new cr.Generator(seed);
                const g = this.generator?.handle ?? c.cr_default_generator();
                const sizes = [vocabulary, context, layers, heads, width, dropout];
                handle = bridge.some(c.web_gpt_new(...sizes, bridge.device, g));
                gpts.register(this, handle, this);
            }
            this.handle = handle;
            this.owner = owner;
        }

        get context() {
            return c.web_gpt_context(this.handle);
        }

        named_parameters() {
            return [...paramsOf(c.cr_gpt_params(this.handle))];
        }

        parameters() {
            return this.named_parameters().map(([, p]) => p);
        }

        logits(tokens, { train = false } = {}) {
            return cr.wrap(c.cr_gpt_logits(this.handle, cr.raw(tokens), train));
        }

        loss(tokens, targets, { train = true } = {}) {
            return cr.wrap(c.cr_gpt_loss(this.handle, cr.raw(tokens), cr.raw(targets), train));
        }

        /** New tokens after a prompt of ids. */
        generate(prompt, { tokens = 100, seed = 0, ...options } = {}) {
            if (!(Number.isSafeInteger(tokens) && tokens >= 0))
                throw new RangeError(`[generate] tokens is a whole number from 0 on, not ${tokens}`);
            const generator = new cr.Generator(seed);
            return bridge.frame(() =>
                bridge.lend(Uint32Array.from(prompt), (at) =>
                    bridge.lend(new Uint32Array(tokens), (out) => {
                        const g = generator.handle;
                        const ids = [this.handle, at, prompt.length, tokens, sampling(options), g, out];
                        return bridge.then(bridge.call("web_gpt_generate", ...ids), (n) => {
                            if (n < 0) bridge.fail();
                            return bridge.view(Uint32Array, out, n).slice();
                        });
                    }),
                ),
            );
        }

        free() {
            if (this.owner || !this.handle) return;
            gpts.unregister(this);
            c.cr_gpt_free(this.handle);
            this.handle = 0;
        }
    }

    function freeParts({ chat, cache, model, pages }) {
        c.cr_chat_free(chat);
        c.cr_cache_free(cache);
        c.cr_lm_free(model);
        pages.forEach((at) => c.free(at));
    }
    const lms = collector(freeParts);
    const BOOL = 0; // a cache in the dtype of the weights

    /** A pretrained model: a GGUF file, a Hugging Face folder, or a run's folder. */
    class LanguageModel {
        #stamp = 0; // of the weights that the cache is of

        /** files: {name: bytes}, or for large ones {name: File} in a worker, {name: {size, read(from, to)}} elsewhere.
            They are not kept beside the model. */
        static load(files) {
            if (!c.cr_lm_load)
                throw new Error("[LanguageModel] pretrained models need the whole module: await whole()");
            const pages = []; // the weights lie in them
            const folder = folderOf(files, "model", pages); // checks them
            const path = `${folder}/${modelPath(files)}`;
            const loaded = () =>
                bridge.frame(() => {
                    const at = bridge.text(path);
                    const handle = bridge.call("cr_lm_load", at, bridge.device);
                    return bridge.then(handle, (lm) => new LanguageModel(lm, at, pages));
                });
            return bridge.finally(loaded, () => removeFolder(folder));
        }

        #parts = { chat: 0, cache: 0, model: 0, pages: [] }; // of C

        /** Takes over a model of C, 0: a failure; at: the path that it was read from, on the stack. */
        constructor(handle, at, pages) {
            this.handle = handle;
            this.#parts = { ...this.#parts, model: handle, pages };
            try {
                bridge.some(handle);
                this.tokenizer = new Tokenizer(c.cr_tokenizer_load(at));
                this.#parts.chat = bridge.some(c.cr_chat_open(at, this.tokenizer.handle, 0));
                this.#parts.cache = bridge.some(c.cr_cache_new(handle, BOOL));
            } catch (error) {
                freeParts(this.#parts);
                throw error;
            }
            lms.register(this, this.#parts, this);
        }

        get context() {
            return Number(c.cr_lm_context(this.handle));
        }

        /** Parameters that train: those of the adapter, or all. */
        parameters() {
            const adapter = c.cr_lm_adapter(this.handle);
            return Array.from(paramsOf(adapter || c.cr_lm_params(this.handle)), ([, p]) => p);
        }

        logits(tokens) {
            return cr.wrap(c.cr_lm_logits(this.handle, cr.raw(tokens)));
        }

        /** Freezes the weights and adds a LoRA adapter. */
        lora({ rank = 8, alpha = 16, dropout = 0, targets = null, seed = 0 } = {}) {
            this.generator = new cr.Generator(seed);
            bridge.frame(() => {
                const names = targets ? bridge.text(targets) : 0;
                bridge.done(c.web_lm_lora(this.handle, rank, alpha, dropout, names, this.generator.handle));
            });
            return this;
        }

        /** Mean loss of texts: [{tokens, targets}], target -1: it does not count. */
        loss(samples, { train = true } = {}) {
            const flat = (key) => BigInt64Array.from(samples.flatMap((s) => Array.from(s[key], BigInt)));
            const lengths = BigInt64Array.from(samples, (s) => BigInt(s.tokens.length));
            const each = bridge.lend(flat("tokens"), (tokens) =>
                bridge.lend(flat("targets"), (targets) =>
                    bridge.lend(lengths, (n) =>
                        cr.wrap(c.web_lm_losses(this.handle, tokens, targets, samples.length, n, train)),
                    ),
                ),
            );
            const mean = each.mean();
            each.free();
            return mean;
        }

        /** Tokens of a text as a sample for loss(): each predicts the next. */
        sample(text) {
            const ids = Array.from(this.tokenizer.encode_special(text)).slice(0, this.context + 1);
            if (ids.length < 2) throw new Error(`[sample] needs a text of at least 2 tokens, got ${ids.length}`);
            return { tokens: ids.slice(0, -1), targets: ids.slice(1) };
        }

        /** Samples of files {name: text} as `chainrule finetune` reads them: in a .jsonl each line has "messages",
            "prompt" and "completion", or "text"; other files are text.  Longer ones are cut at the context. */
        samples(files) {
            const folder = folderOf(files, "samples");
            bridge.messages.length = 0;
            try {
                return Object.keys(files).flatMap((name) => this.#samplesOf(folder, name));
            } finally {
                removeFolder(folder);
            }
        }

        #samplesOf(folder, name) {
            module.FS.chdir(folder); // messages name the file
            const all = bridge.frame(() =>
                c.web_lm_samples(this.handle, this.tokenizer.handle, this.#parts.chat, bridge.text(name)));
            module.FS.chdir("/");
            if (!all) bridge.fail();
            const found = Array.from({ length: Number(c.cr_dataset_count(all)) }, (_, i) => bridge.frame(() => {
                const at = bridge.put(Float64Array, [0, 0, 0]);
                c.web_samples_at(all, i, at);
                const [from, flags, n] = bridge.view(Float64Array, at, 3);
                const ids = Array.from(bridge.view(Uint32Array, from, n)), counts = bridge.view(Uint8Array, flags, n);
                return { tokens: ids.slice(0, -1), targets: ids.slice(1).map((id, k) => (counts[k + 1] ? id : -1)) };
            }));
            c.cr_dataset_free(all);
            return found;
        }

        /** What the promise of f() gives, meanwhile without the adapter: it adds zeros. */
        async disable_adapter(f) {
            const adapter = c.cr_lm_adapter(this.handle);
            if (!adapter) throw new Error("[disable_adapter] the model has no adapter: lora() or load_adapter()");
            const parts = [...paramsOf(adapter)].filter(([name]) => name.includes("lora_B")).map(([, p]) => p);
            const kept = parts.map((p) => p.detach().clone());
            const set = (i) => cr.no_grad(() => parts.forEach((p, k) => void (i ? p.copy_(kept[k]) : p.fill_(0))));
            set(0);
            try {
                return await f();
            } finally {
                set(1);
                [...kept, ...parts].forEach((p) => p.free());
            }
        }

        /** The text that the model's template makes of messages: [{role, content}]. */
        prompt(messages) {
            const variables = encoder.encode(JSON.stringify({ messages, add_generation_prompt: true }));
            return bridge.lend(variables, (at) => {
                const text = bridge.some(c.cr_chat_text(this.#parts.chat, at, variables.length, 0));
                const out = bridge.string(text);
                c.cr_free(text);
                return out;
            });
        }

        /** Tokens that end a text, or an answer in a chat. */
        ends(answer = false) {
            return bridge.frame(() => {
                const at = bridge.put(Uint32Array, new Array(64).fill(0));
                const n = Number(c.cr_chat_ends(this.#parts.chat, answer, at, 64n));
                return Array.from(bridge.view(Uint32Array, at, Math.min(n, 64)));
            });
        }

        /** Pieces of text as they are made.  prompt: a text, or messages of a chat. */
        async *generate(prompt, { tokens = 200, seed = 0, signal, ...options } = {}) {
            this.#refresh();
            const chat = Array.isArray(prompt);
            const ids = Array.from(this.tokenizer.encode_special(chat ? this.prompt(prompt) : prompt));
            if (!ids.length || ids.length >= this.context)
                throw new Error(
                    `[generate] the prompt has ${ids.length} tokens: at least 1 and less than ${this.context}`,
                );
            const ends = new Set(this.ends(chat));
            const generator = new cr.Generator(seed);
            const decoder = this.tokenizer.decoder();
            for (let i = 0; i < tokens && ids.length < this.context && !signal?.aborted; i++) {
                const id = await bridge.frame(() =>
                    bridge.lend(Uint32Array.from(ids), (at) => {
                        const how = sampling(options);
                        return bridge.call(
                            "web_lm_next", this.handle, at, ids.length, this.#parts.cache, how, generator.handle,
                        );
                    }),
                );
                if (id < 0) bridge.fail();
                if (ends.has(id)) break;
                ids.push(id);
                const text = decoder.next(id);
                if (text) yield text;
            }
            const rest = decoder.end();
            if (rest) yield rest;
        }

        /** The adapter in PEFT's layout: {name: bytes}. */
        save_adapter() {
            const folder = folderOf({}, "adapter");
            const saved = () => bridge.frame(() => bridge.call("cr_lm_save_adapter", this.handle, bridge.text(folder)));
            const read = (status) => (bridge.done(status), filesOf(folder));
            return bridge.finally(() => bridge.then(saved(), read), () => removeFolder(folder));
        }

        load_adapter(files, { seed = 0 } = {}) {
            const folder = folderOf(files, "adapter");
            this.generator = new cr.Generator(seed);
            const g = this.generator.handle;
            const loaded =
                () => bridge.frame(() => bridge.call("cr_lm_load_adapter", this.handle, bridge.text(folder), g));
            const done = (status) => bridge.done(status);
            return bridge.finally(() => bridge.then(loaded(), done), () => removeFolder(folder));
        }

        /** Keys and values of earlier weights are of no use. */
        #refresh() {
            const all = [c.cr_lm_params(this.handle), c.cr_lm_adapter(this.handle)].filter(Boolean);
            let stamp = all.length;
            for (const set of all)
                for (let i = 0n, n = c.cr_params_count(set); i < n; i++)
                    stamp += c.cr_tensor_version(c.cr_params_at(set, i));
            if (stamp === this.#stamp) return;
            this.#stamp = stamp;
            c.cr_cache_free(this.#parts.cache);
            this.#parts.cache = 0;
            this.#parts.cache = bridge.some(c.cr_cache_new(this.handle, BOOL));
        }

        free() {
            if (!this.handle) return;
            lms.unregister(this);
            freeParts(this.#parts);
            this.handle = 0;
        }
    }

    return { Tokenizer, GPT, LanguageModel, files: { folderOf, filesOf, removeFolder, modelPath } };
}
