// bridge.js - calls of C functions: arguments on the stack of the module, results and errors as JavaScript's.

/** Error of the library.  status: "BAD_VALUE", "BAD_TYPE"... as in chainrule.h, without CR_. */
export class ChainruleError extends Error {
    constructor(message, status) {
        super(message);
        this.name = "ChainruleError";
        this.status = status;
    }
}

const STATUS = ["OK", "BAD_VALUE", "BAD_TYPE", "BAD_INDEX", "RUNTIME", "NO_MEMORY", "IO", "INTERRUPTED"];
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** A text as UTF-8, or bytes. */
export function bytesOf(name, text) {
    if (typeof text === "string") return encoder.encode(text);
    if (text instanceof Uint8Array) return text;
    throw new TypeError(`[${name}] expected a text or a Uint8Array, got ${text === null ? "null" : typeof text}`);
}

export class Bridge {
    constructor(module, messages) {
        this.module = module;
        this.c = module.asm;
        this.messages = messages;
        this.none = this.c.web_none();
        this.cpu = this.c.cr_cpu();
        this.device = this.cpu; // of new tensors
        this.gpu = null; // gpu.js's, where it was asked for
    }

    #promising = {};
    #waiting = false;

    /** A C function that may wait for the GPU: a promise of its result where the GPU is the device, else the result. */
    call(name, ...args) {
        if (this.device === this.cpu) return this.c[name](...args);
        if (this.#waiting) throw new Error(`[gpu] another call still waits for the GPU: await it before this one`);
        this.#promising[name] ??= WebAssembly.promising(this.c[name]);
        this.#waiting = this.gpu.mayWait = true;
        return this.#promising[name](...args).finally(() => (this.#waiting = this.gpu.mayWait = false));
    }

    /** f of a value that may be a promise. */
    then(value, f) {
        return value instanceof Promise ? value.then(f) : f(value);
    }

    /** f(), and then `last`, when its promise is settled if it gives one. */
    finally(f, last) {
        let result;
        try {
            result = f();
        } catch (error) {
            last();
            throw error;
        }
        if (result instanceof Promise) return result.finally(last);
        last();
        return result;
    }

    #bytes = new Uint8Array(0);

    /** All memory.  It grows, in a module of many threads also while another one runs. */
    get bytes() {
        const { buffer } = this.module.wasmMemory ?? this.c.memory;
        if (this.#bytes.buffer !== buffer) this.#bytes = new Uint8Array(buffer);
        return this.#bytes;
    }

    /** Runs f; what it puts on the module's stack is gone afterwards. */
    frame(f) {
        const top = this.c.stackSave();
        return this.finally(f, () => this.c.stackRestore(top));
    }

    /** Numbers on the stack, as elements of an Int32Array, a Float64Array... */
    put(Type, values) {
        const at = this.c.stackAlloc(values.length * Type.BYTES_PER_ELEMENT + 16) >>> 0;
        const start = (at + 15) & ~15;
        new Type(this.bytes.buffer, start >>> 0, values.length).set(values);
        return start;
    }

    /** A view of memory, valid until the next call. */
    view(Type, at, length) {
        return new Type(this.bytes.buffer, at >>> 0, length);
    }

    /** A C string on the stack. */
    text(value) {
        return this.put(Uint8Array, encoder.encode(`${value}\0`));
    }

    /** A C string that the caller frees. */
    copy(value) {
        const data = encoder.encode(`${value}\0`);
        const at = this.c.malloc(data.length);
        if (!at) throw new ChainruleError(`[memory] no room for ${data.length} bytes`, "NO_MEMORY");
        this.bytes.set(data, at >>> 0);
        return at;
    }

    string(at, length) {
        at >>>= 0;
        const end = length === undefined ? this.bytes.indexOf(0, at) : at + length;
        return decoder.decode(this.bytes.slice(at, end)); // a copy: decoders take no shared memory
    }

    /** Bytes outside of the stack, for as long as f runs. */
    lend(data, f) {
        const at = this.c.malloc(data.byteLength || 1);
        if (!at) throw new ChainruleError(`[memory] no room for ${data.byteLength} bytes`, "NO_MEMORY");
        this.bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at >>> 0);
        return this.finally(() => f(at), () => this.c.free(at));
    }

    /** The pending message of the library as an exception. */
    fail() {
        const status = STATUS[this.c.cr_error_status()];
        const at = this.c.cr_error();
        const message = at ? this.string(at) : "failed without a message";
        this.c.cr_error_clear();
        throw new ChainruleError(message, status);
    }

    /** A pointer that must not be NULL. */
    some(pointer) {
        return pointer || this.fail();
    }

    /** A cr_status. */
    done(status) {
        if (status) this.fail();
    }

    /** Throws the text that the program has written to stderr. */
    failProgram() {
        if (this.c.cr_error()) this.fail();
        const lines = this.messages.splice(0);
        const usage = lines.findIndex((line) => line.startsWith("usage: "));
        const text = lines.slice(0, usage < 0 ? undefined : usage).map((line) => line.replace(/^chainrule: /, ""));
        throw new ChainruleError(text.join("\n") || "failed without a message", "RUNTIME");
    }
}

/** Frees C objects whose JavaScript object is gone: free is the C function. */
export function collector(free) {
    return new FinalizationRegistry(free);
}
