// tensor.js - Tensor, its operations, and who frees it.
import { collector } from "./bridge.js";
import { ops } from "./ops.gen.js";

/** dtype -> its number in C and the array of its elements; halves are read and written as float32. */
const DTYPES = {
    bool: [0, Uint8Array],
    uint8: [1, Uint8Array],
    uint16: [2, Uint16Array],
    uint32: [3, Uint32Array],
    uint64: [4, BigUint64Array],
    int8: [5, Int8Array],
    int16: [6, Int16Array],
    int32: [7, Int32Array],
    int64: [8, BigInt64Array],
    float16: [9, Float32Array],
    bfloat16: [10, Float32Array],
    float32: [11, Float32Array],
    float64: [12, Float64Array],
};
const NAMES = Object.keys(DTYPES);
const FLOAT32 = 11;

function dtypeNumber(name) {
    const row = DTYPES[name];
    if (!row) throw new TypeError(`[dtype] unknown dtype '${name}': one of ${NAMES.join(", ")}`);
    return row[0];
}

const isPlain = (value) => Boolean(value) && Object.getPrototypeOf(value) === Object.prototype;
const toBigInt = (value) => (typeof value === "bigint" ? value : BigInt(Math.trunc(value)));

/** Nested arrays -> shape and elements in order. */
function flatten(data) {
    const shape = [];
    for (let level = data; Array.isArray(level); level = level[0]) shape.push(level.length);
    const out = [];
    const walk = (level, axis) => {
        if (axis === shape.length) {
            if (Array.isArray(level)) throw new TypeError(`[tensor] rows of different depths at axis ${axis}`);
            if (!["number", "boolean", "bigint"].includes(typeof level))
                throw new TypeError(
                    `[tensor] elements are numbers or booleans, got ${level === null ? "null" : typeof level}`,
                );
            out.push(level);
            return;
        }
        if (!Array.isArray(level) || level.length !== shape[axis])
            throw new TypeError(
                `[tensor] expected ${shape[axis]} elements at axis ${axis}, got ${level?.length ?? level}`,
            );
        for (const part of level) walk(part, axis + 1);
    };
    walk(data, 0);
    return { shape, out };
}

function nested(values, shape, axis = 0) {
    if (axis === shape.length) return values.next().value;
    return Array.from({ length: shape[axis] }, () => nested(values, shape, axis + 1));
}

export function tensors(bridge) {
    const { c } = bridge;
    const registry = collector((handle) => c.cr_release(handle));
    let scopes = []; // arrays of tensors, the innermost last

    class Tensor {
        #handle;

        /** Takes over a reference; not for users, who call cr.tensor(). */
        constructor(handle) {
            this.#handle = handle;
            registry.register(this, handle, this);
            scopes.at(-1)?.push(this);
        }

        get handle() {
            if (!this.#handle) throw new Error("[tensor] this tensor was freed");
            return this.#handle;
        }

        /** Gives the memory back now; a use afterwards is an error. */
        free() {
            if (!this.#handle) return;
            registry.unregister(this);
            c.cr_release(this.#handle);
            this.#handle = 0;
        }

        /** This object owns the reference of another, which is freed. */
        become(other) {
            const handle = other.release();
            registry.unregister(this);
            c.cr_release(this.#handle);
            this.#handle = handle;
            registry.register(this, handle, this);
            return this;
        }

        /** The reference, which this object owns no more. */
        release() {
            const handle = this.handle;
            registry.unregister(this);
            this.#handle = 0;
            return handle;
        }

        get shape() {
            const n = c.cr_ndim(this.handle);
            return Array.from(bridge.view(BigInt64Array, c.cr_shape(this.handle), n), Number);
        }

        get ndim() {
            return c.cr_ndim(this.handle);
        }

        get dtype() {
            return NAMES[c.cr_dtype_of(this.handle)];
        }

        numel() {
            return Number(c.cr_numel(this.handle));
        }

        size(dim) {
            const { shape } = this;
            if (dim === undefined) return shape;
            if (!(dim >= -shape.length && dim < shape.length))
                throw new RangeError(`[size] dim ${dim} is outside of a tensor of ${shape.length} axes`);
            return shape.at(dim);
        }

        get requires_grad() {
            return Boolean(c.cr_requires_grad(this.handle));
        }

        set requires_grad(on) {
            this.requires_grad_(on);
        }

        requires_grad_(on = true) {
            bridge.some(c.cr_requires_grad_(this.handle, on));
            return this;
        }

        get is_leaf() {
            return Boolean(c.cr_is_leaf(this.handle));
        }

        get grad_fn() {
            return bridge.string(c.cr_op_name(this.handle)) || null;
        }

        get grad() {
            const grad = c.cr_grad(this.handle);
            return !grad || c.cr_is_none(grad) ? null : wrap(c.cr_detach(grad));
        }

        set grad(value) {
            bridge.done(c.cr_set_grad(this.handle, value ? value.handle : bridge.none));
        }

        retain_grad() {
            bridge.done(c.cr_retain_grad(this.handle));
        }

        backward(gradient = null, { retain_graph = false, create_graph = false } = {}) {
            const g = gradient ? gradient.handle : bridge.none;
            bridge.done(c.web_backward(this.handle, g, retain_graph || create_graph, create_graph));
        }

        detach() {
            return wrap(c.cr_detach(this.handle));
        }

        /** Another dtype; the same tensor's elements if it has that dtype. */
        to(dtype) {
            return wrap(c.cr_to(this.handle, dtypeNumber(dtype), c.cr_device_of(this.handle)));
        }

        /** A copy on the processor; where there is a GPU, the promise of it. */
        cpu() {
            const dtype = c.cr_dtype_of(this.handle);
            return bridge.then(bridge.call("cr_to", this.handle, dtype, bridge.cpu), wrap);
        }

        /** A copy on the device of new tensors. */
        gpu() {
            return wrap(c.cr_to(this.handle, c.cr_dtype_of(this.handle), bridge.device));
        }

        item() {
            if (/^u?int/.test(this.dtype)) {
                const value = c.cr_item_int(this.handle);
                if (c.cr_error_status()) bridge.fail();
                return Number(value);
            }
            const value = c.cr_item(this.handle);
            if (c.cr_error_status()) bridge.fail();
            return this.dtype === "bool" ? Boolean(value) : value;
        }

        /** The elements in order as a typed array. */
        data() {
            const [number, Type] = DTYPES[this.dtype];
            const n = this.numel();
            const bytes = n * Type.BYTES_PER_ELEMENT;
            const at = bridge.some(c.malloc(bytes || 1));
            try {
                bridge.done(c.cr_read(this.handle, Type === Float32Array ? FLOAT32 : number, at, bytes));
                return new Type(bridge.bytes.slice(at >>> 0, (at >>> 0) + bytes).buffer);
            } finally {
                c.free(at);
            }
        }

        tolist() {
            const kind = this.dtype;
            const each = Array.from(this.data(), kind === "bool" ? Boolean : Number);
            return nested(each.values(), this.shape);
        }

        toString() {
            const at = bridge.some(c.cr_format(this.handle, 0));
            const text = bridge.string(at);
            c.free(at);
            return text;
        }

        [Symbol.for("nodejs.util.inspect.custom")]() {
            return this.toString();
        }
    }

    const wrap = (handle) => new Tensor(bridge.some(handle));

    // ---- arguments of the functions in ops.gen.js
    function operand(value, temporary) {
        if (value instanceof Tensor) return value.handle;
        if (value === null || value === undefined) return bridge.none;
        const handle =
            typeof value === "boolean"
                ? c.cr_scalar_bool(value)
                : typeof value === "bigint" || Number.isSafeInteger(value)
                  ? c.cr_scalar_int(BigInt(value))
                  : typeof value === "number"
                    ? c.cr_scalar(value)
                    : 0;
        if (!handle) throw new TypeError(`expected a tensor or a number, got ${typeof value}`);
        temporary.push(handle);
        return handle;
    }

    const list = (values) => (Array.isArray(values) ? values : [values]);

    function number(value) {
        if (typeof value === "number" || typeof value === "boolean") return Number(value);
        throw new TypeError(`expected a number, got ${value === null ? "null" : typeof value}`);
    }

    function whole(value) {
        if (Number.isSafeInteger(number(value))) return value;
        throw new TypeError(`expected a whole number, got ${value}`);
    }

    const sizes = (value) =>
        value === null || value === undefined
            ? [0, 0]
            : [list(value).length, bridge.put(BigInt64Array, list(value).map((x) => BigInt(whole(x))))];

    /** The reference of a tensor of this module. */
    function raw(value) {
        if (value instanceof Tensor) return value.handle;
        const other = typeof value === "object" && value && "handle" in value ? "one of another module" : typeof value;
        throw new TypeError(`expected a tensor, got ${value === null ? "null" : other}`);
    }

    /** The C arguments of one value. */
    const convert = {
        t: (value, temporary) => [operand(value, temporary)],
        l: sizes,
        L: sizes,
        T: (value) => [list(value).length, bridge.put(Int32Array, list(value).map(raw))],
        i: (value) => [whole(value)],
        n: (value) => [BigInt(whole(value))],
        d: (value) => [number(value)],
        b: (value) => [Boolean(value)],
        e: (value) => [dtypeNumber(value ?? "float32")],
        s: (value) => [bridge.text(value)],
        g: (value) => {
            if (value === null || value === undefined) return [c.cr_default_generator()];
            if (value instanceof Generator) return [value.handle];
            throw new TypeError(`expected a Generator of this module, got ${typeof value}`);
        },
    };

    /** Values by position and, in a last plain object, by name -> a value for each parameter. */
    function bind(name, names, defaults, given) {
        const values = [...given];
        const named = isPlain(values.at(-1)) ? values.pop() : {};
        if (values.length > names.length)
            throw new TypeError(`[${name}] takes ${names.length} arguments, got ${values.length}`);
        for (const key of Object.keys(named)) {
            const at = names.indexOf(key);
            if (at < 0) throw new TypeError(`[${name}] has no argument '${key}': ${names.join(", ")}`);
            if (at < values.length) throw new TypeError(`[${name}] argument '${key}' is given twice`);
        }
        return names.map((key, i) => {
            const value = i < values.length ? values[i] : key in named ? named[key] : defaults[i];
            if (value === undefined) throw new TypeError(`[${name}] needs the argument '${key}'`);
            return value;
        });
    }

    /** The error says the name that was called, not that of a function inside. */
    function named(error, name) {
        error.message = `[${name}] ${error.message.replace(/^\[\w+\] /, "")}`;
        return error;
    }

    function call(name, [f, codes, names, defaults, flags], given) {
        const spread = codes.indexOf("L"); // zeros(2, 3): the sizes one by one
        if (spread >= 0 && typeof given[spread] === "number") {
            const stop = given.findIndex((x, i) => i > spread && typeof x !== "number");
            const sizes = given.slice(spread, stop < 0 ? undefined : stop);
            given = [...given.slice(0, spread), sizes, ...(stop < 0 ? [] : given.slice(stop))];
        }
        const values = bind(name, names, defaults, given);
        const temporary = [];
        const outs = [];
        return bridge.frame(() => {
            try {
                const args = [];
                let next = 0;
                for (const code of codes) {
                    if (code === "v") args.push(bridge.device);
                    else if (code === "o") {
                        outs.push(bridge.put(Int32Array, [0]));
                        args.push(outs.at(-1));
                    } else args.push(...convert[code](values[next++], temporary));
                }
                const result = bridge.some(c[f](...args));
                if (flags.includes("i")) return values[0];
                if (flags.includes("b")) {
                    temporary.push(result);
                    return Boolean(c.cr_item(result));
                }
                const more = outs.map((at) => bridge.view(Int32Array, at, 1)[0]);
                return outs.length ? [result, ...more].map((handle) => new Tensor(handle)) : new Tensor(result);
            } catch (error) {
                throw named(error, name);
            } finally {
                for (const handle of temporary) c.cr_release(handle);
            }
        });
    }

    /** An elementwise function of ops.def written into its first input. */
    function inPlace(name, row, [, codes, names, defaults], given) {
        const values = bind(name, names, defaults, given);
        const temporary = [];
        return bridge.frame(() => {
            try {
                const inputs = [];
                const params = [];
                [...codes].forEach((code, i) => {
                    if (code === "t") inputs.push(operand(values[i], temporary));
                    else params.push(number(values[i]));
                });
                const in_ = bridge.put(Int32Array, inputs);
                const at = bridge.put(Float64Array, params);
                bridge.some(c.web_in_place(bridge.text(row), inputs[0], inputs.length, in_, at));
                return values[0];
            } catch (error) {
                throw named(error, name);
            } finally {
                for (const handle of temporary) c.cr_release(handle);
            }
        });
    }

    function seedOf(name, seed) {
        if (typeof seed === "bigint" || (Number.isSafeInteger(seed) && seed >= 0)) return BigInt(seed);
        throw new TypeError(`[${name}] a seed is a whole number from 0 on, not ${seed}`);
    }

    // ---- making tensors
    function tensor(data, { dtype, requires_grad = false } = {}) {
        const typed = ArrayBuffer.isView(data);
        const { shape, out } = typed ? { shape: [data.length], out: data } : flatten(data);
        const first = out[0];
        const natural = typed
            ? NAMES.findLast((name) => DTYPES[name][1] === data.constructor && !/^(bfloat|float)16$/.test(name))
            : typeof first === "boolean"
              ? "bool"
              : typeof first === "bigint"
                ? "int64"
                : "float32";
        const name = dtype ?? natural;
        if (!name) throw new TypeError(`[tensor] no dtype for ${data.constructor.name}`);
        const target = dtypeNumber(name);
        const [, Type] = DTYPES[name];
        const big = Type === BigInt64Array || Type === BigUint64Array;
        const same = out instanceof Type;
        const values = same ? out : Type.from(out, big ? toBigInt : name === "bool" ? (x) => (x ? 1 : 0) : Number);
        const result = bridge.frame(() => {
            const dims = bridge.put(BigInt64Array, shape.map(BigInt));
            return bridge.lend(values, (at) =>
                wrap(c.cr_from(at, shape.length, dims, Type === Float32Array ? FLOAT32 : target, bridge.device)),
            );
        });
        if (/^(bfloat|float)16$/.test(name)) result.become(result.to(name));
        return requires_grad ? result.requires_grad_() : result;
    }

    function arange(start, end, step = 1, { dtype } = {}) {
        if (end === undefined) [start, end] = [0, start];
        const whole = [start, end, step].every(Number.isInteger);
        return wrap(c.cr_arange(start, end, step, dtypeNumber(dtype ?? (whole ? "int64" : "float32")), bridge.device));
    }

    /** All elements, or along a dim the values and their positions. */
    function extreme(all, along) {
        return (x, dim = null, keepdim = false) => {
            if (dim === null) return wrap(all(x.handle, 0, 0, keepdim));
            return bridge.frame(() => {
                const at = bridge.put(Int32Array, [0]);
                const values = wrap(along(x.handle, dim, keepdim, at));
                return [values, wrap(bridge.view(Int32Array, at, 1)[0])];
            });
        };
    }

    /** Over all elements (dim null), one dim or several. */
    const spread = (f) => (x, dim = null, { correction = 1, keepdim = false } = {}) =>
        bridge.frame(() => wrap(f(x.handle, ...sizes(dim), correction, keepdim)));

    function split(x, size, dim = 0) {
        const n = Math.ceil(x.size(dim) / size);
        return bridge.frame(() => {
            const at = bridge.put(Int32Array, new Array(n).fill(0));
            bridge.done(c.cr_split(x.handle, BigInt(size), dim, n, at));
            return Array.from(bridge.view(Int32Array, at, n), wrap);
        });
    }

    const byHand = {
        max: extreme(c.cr_max, c.cr_max_along),
        min: extreme(c.cr_min, c.cr_min_along),
        clamp: (x, min = null, max = null) => wrap(c.cr_clamp(x.handle, min ?? -Infinity, max ?? Infinity)),
        logit: (x, eps = null) => wrap(c.cr_logit(x.handle, eps ?? -Infinity)),
        var: spread(c.cr_var),
        std: spread(c.cr_std),
        split,
    };

    const cr = {
        ...byHand,
        Tensor,
        tensor,
        arange,
        einsum: (equation, ...operands) =>
            bridge.frame(() => {
                const handles = bridge.put(Int32Array, operands.map(raw));
                return wrap(c.cr_einsum(bridge.text(equation), operands.length, handles));
            }),
        manual_seed(seed) {
            c.cr_manual_seed(seedOf("manual_seed", seed));
        },
        /** Frees the tensors that f made, but for what it returns (a tensor, or an array or object of tensors). */
        scope(f) {
            const made = [];
            scopes.push(made);
            let kept = new Set();
            const finish = (result) => {
                const all = result instanceof Tensor ? [result] : isPlain(result) ? Object.values(result) : result;
                kept = new Set(Array.isArray(all) ? all.filter((x) => x instanceof Tensor) : []);
                return result;
            };
            try {
                return finish(f());
            } finally {
                scopes = scopes.filter((scope) => scope !== made);
                for (const x of made)
                    if (kept.has(x)) scopes.at(-1)?.push(x);
                    else x.free();
            }
        },
        /** Runs f without recording a graph. */
        no_grad(f) {
            const before = c.cr_set_grad_enabled(false);
            try {
                return f();
            } finally {
                c.cr_set_grad_enabled(before);
            }
        },
        /** A tensor that a scope does not free. */
        keep(x) {
            for (const scope of scopes) {
                const at = scope.indexOf(x);
                if (at >= 0) scope.splice(at, 1);
            }
            return x;
        },
        wrap,
        raw,
    };
    class Generator {
        constructor(seed) {
            this.handle = bridge.some(c.cr_generator_new(seedOf("Generator", seed)));
            generators.register(this, this.handle);
        }
    }
    const generators = collector((handle) => c.cr_generator_free(handle));
    cr.Generator = Generator;

    for (const [name, f] of Object.entries(byHand))
        Tensor.prototype[name] = function (...args) {
            return f(this, ...args);
        };
    for (const [name, row] of Object.entries(ops)) {
        const inside = row[5];
        const f = inside ? (...args) => inPlace(name, inside, row, args) : (...args) => call(name, row, args);
        if (row[4].includes("f")) cr[name] = making(f, row);
        if (row[4].includes("m"))
            Tensor.prototype[name] = function (...args) {
                return f(this, ...args);
            };
    }
    return cr;

    /** zeros(2, 3, {requires_grad: true}) */
    function making(f, row) {
        if (!row[1].includes("v")) return f;
        return (...args) => {
            const named = isPlain(args.at(-1)) ? { ...args.pop() } : {};
            const { requires_grad = false, ...rest } = named;
            const result = f(...args, rest);
            return requires_grad ? result.requires_grad_() : result;
        };
    }
}
