// gpu.js - the browser's WebGPU behind the table of functions of gpu.c.  Objects have numbers there.
//
// Errors: all calls between two waits are one group of error scopes, popped with the wait that there is anyway, so a
// step of a training run has no round trip of its own for them.

const encoder = new TextEncoder();
const LIMITS = [
    "maxComputeInvocationsPerWorkgroup",
    "maxComputeWorkgroupSizeX",
    "maxComputeWorkgroupStorageSize",
    "maxStorageBuffersPerShaderStage",
    "maxComputeWorkgroupsPerDimension",
    "maxStorageBufferBindingSize",
    "maxBufferSize",
];
const LOSS_MS = 200;
const LARGE = LIMITS.slice(5); // limits that are asked for beyond the defaults
const TYPES = { 2: "uniform", 3: "storage", 4: "read-only-storage" }; // of WGPUBufferBindingType

/** The adapter and its device; an Error says why there is none.  defaults: with the limits that every adapter has. */
export async function openGpu(lost, defaults) {
    if (!globalThis.navigator?.gpu) throw new Error("[gpu] this browser has no WebGPU");
    if (typeof WebAssembly.Suspending !== "function")
        throw new Error("[gpu] this browser cannot suspend WebAssembly (JSPI), which reading from a GPU needs");
    const adapter = await navigator.gpu.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) throw new Error("[gpu] the browser offers no adapter");
    const requiredLimits = defaults ? {} : Object.fromEntries(LARGE.map((name) => [name, adapter.limits[name]]));
    const able = adapter.features.has("subgroups") && navigator.gpu.wgslLanguageFeatures?.has("subgroup_id");
    const requiredFeatures = able ? ["subgroups"] : [];
    const device = await adapter.requestDevice({ label: "chainrule", requiredLimits, requiredFeatures });
    return new Gpu(adapter, device, lost, able ? await subgroupsOf(device) : 0);
}

/** The size of all subgroups of a device, as subgroups.wgsl measures it; 0: of several sizes, or too small. */
async function subgroupsOf(device) {
    const SIZE = 256;
    const code = `enable subgroups;
        @group(0) @binding(0) var<storage, read_write> found: array<atomic<u32>, 3>;
        @compute @workgroup_size(${SIZE})
        fn main(@builtin(subgroup_size) size: u32, @builtin(num_subgroups) count: u32) {
            atomicMax(&found[0], size);
            atomicMax(&found[1], ${SIZE}u - size);
            if size * count != ${SIZE}u { atomicOr(&found[2], 1u); }
        }`;
    const { STORAGE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
    const buffer = device.createBuffer({ size: 12, usage: STORAGE | COPY_SRC });
    const read = device.createBuffer({ size: 12, usage: COPY_DST | MAP_READ });
    const module = device.createShaderModule({ code });
    const pipeline = device.createComputePipeline({ layout: "auto", compute: { module } });
    const entries = [{ binding: 0, resource: { buffer } }];
    const recorder = device.createCommandEncoder();
    const pass = recorder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
    pass.dispatchWorkgroups(16);
    pass.end();
    recorder.copyBufferToBuffer(buffer, 0, read, 0, 12);
    device.queue.submit([recorder.finish()]);
    await read.mapAsync(GPUMapMode.READ);
    const [most, least, uneven] = new Uint32Array(read.getMappedRange());
    buffer.destroy();
    read.destroy();
    return most + least === SIZE && !uneven && most >= 4 ? most : 0;
}

class Gpu {
    at = [null, null]; // number -> object; 0: none, 1: what there is once
    alive = true;
    mayWait = false; // is the caller one that can be suspended?
    counts = { submits: 0, maps: 0, scopes: 0, waits: 0 }; // scopes: round trips for errors outside of waits
    #free = [];
    #mapping = null; // the promise of a map
    #failure = "";

    constructor(adapter, device, lost, subgroups) {
        this.subgroups = subgroups;
        const { vendor, architecture, device: model, description } = adapter.info ?? {};
        this.name = description || [vendor, architecture, model].filter(Boolean).join(" ") || "unknown adapter";
        this.software = Boolean(adapter.info?.isFallbackAdapter) || /swiftshader|llvmpipe|lavapipe/i.test(
            `${this.name} ${architecture}`,
        );
        this.device = device;
        device.lost.then(({ message }) => {
            this.alive = false;
            lost(message || "the adapter is gone");
        });
        this.#begin();
    }

    use(module) {
        this.memory = () => (module.wasmMemory ?? module.asm.memory).buffer;
    }

    #begin() {
        this.device.pushErrorScope("out-of-memory");
        this.device.pushErrorScope("validation");
    }

    adapter(name, room) {
        this.#text(this.name, name, room);
        return this.software ? 1 : 0;
    }

    limits() {
        return LIMITS.map((name) => this.device.limits[name]);
    }

    #text(text, at, room) {
        const out = new Uint8Array(this.memory(), at >>> 0, room);
        const { written } = encoder.encodeInto(text.slice(0, room / 3), out.subarray(0, room - 1));
        out[written] = 0;
    }

    message(at, room) {
        this.#text(this.#failure, at, room);
    }

    // ---- waiting
    map(buffer) {
        this.counts.maps++;
        this.#mapping = this.at[buffer].mapAsync(1);
        this.#mapping.catch(() => {}); // wait() has it
    }

    mapped(buffer, to, bytes) {
        new Uint8Array(this.memory(), to >>> 0, bytes).set(new Uint8Array(this.at[buffer].getMappedRange(0, bytes)));
    }

    /** 1: the map, or the queue, is ready, and no call since the last wait had an error. */
    async wait() {
        const ready = this.#mapping ?? this.device.queue.onSubmittedWorkDone();
        this.#mapping = null;
        this.counts.waits++;
        const errors = [this.device.popErrorScope(), this.device.popErrorScope()];
        this.#begin();
        try {
            const [, ...found] = await Promise.all([ready, ...errors]);
            this.#failure = found.find(Boolean)?.message ?? "";
        } catch (error) {
            // a map fails before the loss of its device is known
            await Promise.race([this.device.lost, new Promise((done) => setTimeout(done, LOSS_MS))]);
            const found = await Promise.all(errors).catch(() => []);
            this.#failure = found.find(Boolean)?.message ?? error.message;
        }
        return this.#failure ? 0 : 1;
    }

    // ---- objects
    #keep(object) {
        const id = this.#free.pop() ?? this.at.length;
        this.at[id] = object;
        return id;
    }

    release(id) {
        if (id < 2) return;
        this.at[id] = null;
        this.#free.push(id);
    }

    buffer(size, usage) {
        return this.#keep(this.device.createBuffer({ size, usage }));
    }

    module(code) {
        const wanted = code.includes("subgroup") ? "enable subgroups;\n" : "";
        return this.#keep(this.device.createShaderModule({ code: wanted + code }));
    }

    layout(types) {
        const entries = Array.from(types, (type, binding) => ({
            binding,
            visibility: GPUShaderStage.COMPUTE,
            buffer: { type: TYPES[type], hasDynamicOffset: binding === 0 },
        }));
        return this.#keep(this.device.createBindGroupLayout({ entries }));
    }

    pipelineLayout(layout) {
        return this.#keep(this.device.createPipelineLayout({ bindGroupLayouts: [this.at[layout]] }));
    }

    pipeline(layout, module) {
        const compute = { module: this.at[module], entryPoint: "main" };
        return this.#keep(this.device.createComputePipeline({ layout: this.at[layout], compute }));
    }

    group(layout, values) {
        const entries = [];
        for (let i = 0; i < values.length; i += 3)
            entries.push({
                binding: i / 3,
                resource: { buffer: this.at[values[i]], offset: values[i + 1], size: values[i + 2] },
            });
        return this.#keep(this.device.createBindGroup({ layout: this.at[layout], entries }));
    }

    encoder() {
        return this.#keep(this.device.createCommandEncoder());
    }

    pass(encoderId) {
        return this.#keep(this.at[encoderId].beginComputePass());
    }

    finish(encoderId) {
        return this.#keep(this.at[encoderId].finish());
    }

    write(buffer, at, from, bytes) {
        this.device.queue.writeBuffer(this.at[buffer], at, this.memory(), from >>> 0, bytes);
    }

    submit(commands) {
        this.counts.submits++;
        this.device.queue.submit([this.at[commands]]);
    }
}
