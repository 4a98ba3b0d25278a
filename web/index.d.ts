// index.d.ts - types of the package.
import type { Functions, Methods } from "./ops.gen.js";

export type DType =
    | "bool" | "uint8" | "uint16" | "uint32" | "uint64" | "int8" | "int16" | "int32" | "int64"
    | "float16" | "bfloat16" | "float32" | "float64";
export type Elements =
    | Uint8Array | Uint16Array | Uint32Array | BigUint64Array | Int8Array | Int16Array | Int32Array | BigInt64Array
    | Float32Array | Float64Array;
export type Nested = number | boolean | bigint | Nested[];
export type Files = { [name: string]: Uint8Array };
/** A file that is read where it is used. */
export type Slices = { size: number; read(from: number, to: number): Uint8Array };

/** Error of the library.  status: "BAD_VALUE", "BAD_TYPE", "BAD_INDEX", "RUNTIME", "NO_MEMORY", "IO". */
export interface ChainruleError extends Error {
    readonly status: string;
}

export interface Tensor extends Methods {
    readonly shape: number[];
    readonly ndim: number;
    readonly dtype: DType;
    readonly is_leaf: boolean;
    /** Name of the function that made it; null outside of a graph. */
    readonly grad_fn: string | null;
    requires_grad: boolean;
    grad: Tensor | null;
    numel(): number;
    size(): number[];
    size(dim: number): number;
    requires_grad_(on?: boolean): this;
    retain_grad(): void;
    backward(gradient?: Tensor | null, options?: { retain_graph?: boolean; create_graph?: boolean }): void;
    detach(): Tensor;
    to(dtype: DType): Tensor;
    /** A copy on the processor; after gpu() the promise of it. */
    cpu(): Tensor | Promise<Tensor>;
    /** A copy on the device of new tensors. */
    gpu(): Tensor;
    item(): number | boolean;
    /** The elements in order; those of halves as float32. */
    data(): Elements;
    tolist(): Nested;
    /** Gives the memory back now; a use afterwards is an error. */
    free(): void;
    max(): Tensor;
    max(dim: number, keepdim?: boolean): [values: Tensor, indices: Tensor];
    min(): Tensor;
    min(dim: number, keepdim?: boolean): [values: Tensor, indices: Tensor];
    clamp(min?: number | null, max?: number | null): Tensor;
    logit(eps?: number | null): Tensor;
    var(dim?: number | number[] | null, options?: { correction?: number; keepdim?: boolean }): Tensor;
    std(dim?: number | number[] | null, options?: { correction?: number; keepdim?: boolean }): Tensor;
    split(size: number, dim?: number): Tensor[];
}

export interface Generator {
    readonly handle: number;
}

export interface Module {
    training: boolean;
    named_parameters(): IterableIterator<[string, Tensor]>;
    parameters(): Tensor[];
    train(on?: boolean): this;
    eval(): this;
    zero_grad(): void;
    state_dict(): { [name: string]: { dtype: DType; shape: number[]; data: Elements } };
    load_state_dict(state: { [name: string]: { dtype: DType; shape: number[]; data: Elements } }): void;
    forward(x: Tensor): Tensor;
    free(): void;
}

type Affine = Module & { weight: Tensor; bias: Tensor | null };
export interface NN {
    Module: new () => Module;
    Linear: new (in_features: number, out_features: number, options?: { bias?: boolean }) => Affine;
    Embedding: new (num_embeddings: number, embedding_dim: number) => Module & { weight: Tensor };
    LayerNorm: new (size: number, options?: { eps?: number; bias?: boolean }) => Affine;
    RMSNorm: new (size: number, options?: { eps?: number }) => Module & { weight: Tensor };
    Dropout: new (p?: number) => Module;
    Sequential: new (...layers: Module[]) => Module & { [index: number]: Module };
    ReLU: new () => Module;
    GELU: new () => Module;
    SiLU: new () => Module;
    Sigmoid: new () => Module;
    Tanh: new () => Module;
    LeakyReLU: new (negative_slope?: number) => Module;
    functional: {
        cross_entropy(
            input: Tensor,
            target: Tensor,
            options?: { ignore_index?: number; label_smoothing?: number; reduction?: "mean" | "sum" | "none" },
        ): Tensor;
        mse_loss(input: Tensor, target: Tensor): Tensor;
        binary_cross_entropy_with_logits(input: Tensor, target: Tensor): Tensor;
        linear(x: Tensor, weight: Tensor, bias?: Tensor | null): Tensor;
        embedding(index: Tensor, weight: Tensor): Tensor;
        dropout(x: Tensor, p?: number, training?: boolean): Tensor;
        scaled_dot_product_attention(
            q: Tensor,
            k: Tensor,
            v: Tensor,
            options?: { attn_mask?: Tensor | null; is_causal?: boolean; scale?: number },
        ): Tensor;
    };
}

export interface Optimizer {
    lr: number;
    step(): void;
    /** step() with gradients whose joint norm is at most max_norm; returns the norm before. */
    step_clipped(max_norm: number): number;
    zero_grad(): void;
    free(): void;
}
type Decay = { lr?: number; weight_decay?: number };
type Betas = Decay & { betas?: [number, number]; eps?: number };
type Optimizes<Options> = new (params: Iterable<Tensor>, options?: Options) => Optimizer;
export interface Optim {
    SGD: Optimizes<Decay & { momentum?: number; nesterov?: boolean }>;
    Adam: Optimizes<Betas>;
    AdamW: Optimizes<Betas>;
    Adamax: Optimizes<Betas>;
    Lion: Optimizes<Decay & { betas?: [number, number] }>;
    Muon: Optimizes<Betas & { momentum?: number }>;
}

export interface Sampling {
    temperature?: number;
    top_p?: number;
    top_k?: number;
    min_p?: number;
    repetition_penalty?: number;
    tokens?: number;
    seed?: number;
}

export interface Tokenizer {
    readonly size: number;
    encode(text: string | Uint8Array): Uint32Array;
    /** Names of special tokens in the text are these tokens. */
    encode_special(text: string): Uint32Array;
    decode(ids: ArrayLike<number>): string;
    /** Text token by token, in whole characters. */
    decoder(): { next(id: number): string; end(): string };
}

export interface GPT {
    readonly context: number;
    named_parameters(): [string, Tensor][];
    parameters(): Tensor[];
    logits(tokens: Tensor, options?: { train?: boolean }): Tensor;
    loss(tokens: Tensor, targets: Tensor, options?: { train?: boolean }): Tensor;
    generate(prompt: ArrayLike<number>, options?: Sampling): Uint32Array;
    free(): void;
}

export type Message = { role: string; content: string };
export type Sample = { tokens: number[]; targets: number[] };
export interface LanguageModel {
    readonly context: number;
    readonly tokenizer: Tokenizer;
    /** Those of the adapter, or all. */
    parameters(): Tensor[];
    logits(tokens: Tensor): Tensor;
    /** Freezes the weights and adds a LoRA adapter. */
    lora(options?: { rank?: number; alpha?: number; dropout?: number; targets?: string | null; seed?: number }): this;
    /** Mean loss; a target of -1 does not count. */
    loss(samples: Sample[], options?: { train?: boolean }): Tensor;
    sample(text: string): Sample;
    /** Samples of files as `chainrule finetune` reads them: .jsonl has a sample on each line. */
    samples(files: Files): Sample[];
    /** What f() gives, meanwhile without the adapter. */
    disable_adapter<T>(f: () => T | Promise<T>): Promise<T>;
    prompt(messages: Message[]): string;
    ends(answer?: boolean): number[];
    /** Pieces of text as they are made. */
    generate(prompt: string | Message[], options?: Sampling & { signal?: AbortSignal }): AsyncGenerator<string, void>;
    /** In PEFT's layout. */
    save_adapter(): Files;
    load_adapter(files: Files, options?: { seed?: number }): void;
    free(): void;
}

export interface RunNumbers {
    step: number;
    steps: number;
    loss: number;
    lr: number;
    norm: number;
    seconds: number;
    val_step: number;
    val_loss: number;
    parameters: number;
    seed: number;
}

/** Options of `chainrule train`, with _ for -: {layers: 2, weight_decay: 0.1, compile: false}. */
export type RunOptions = { [option: string]: string | number | boolean | null | undefined };
export interface Run {
    /** The GPT that train makes. */
    readonly model: GPT;
    readonly tokenizer: Tokenizer;
    /** One step, with the validation and the save that are due; false: the run has ended. */
    step(): boolean;
    look(): RunNumbers;
    sample(prompt?: string, options?: Sampling): string;
    save(): void;
    /** The files of the run's folder, with the text. */
    files(): Files;
    /** SHA-256 of the weights: of weights.safetensors behind its header. */
    hash(): Promise<string>;
    close(): void;
}

export interface Chainrule extends Functions {
    Tensor: abstract new (...args: never) => Tensor;
    Generator: new (seed: number | bigint) => Generator;
    nn: NN;
    optim: Optim;
    Tokenizer: { bytes(): Tokenizer; chars(text: string): Tokenizer };
    GPT: new (options: {
        vocabulary: number;
        context?: number;
        layers?: number;
        heads?: number;
        width?: number;
        dropout?: number;
        seed?: number;
    }) => GPT;
    /** files: a GGUF file, or those of a Hugging Face folder.  Large ones are read by slices: a File in a worker. */
    LanguageModel: { load(files: { [name: string]: Uint8Array | string | Blob | Slices }): LanguageModel };
    Run: {
        train(text: string | Uint8Array, options?: RunOptions): Run;
        /** Fine-tunes a model; a data file .jsonl has samples or chats.  In the end files() has the result. */
        finetune(model: Files, data: { [name: string]: string | Uint8Array }, options?: RunOptions): Run;
        resume(files: Files, options?: RunOptions, text?: string | Uint8Array | null): Run;
    };
    /** Numbers are float32, booleans bool, bigints int64, unless a dtype is given. */
    tensor(data: Nested | Elements, options?: { dtype?: DType; requires_grad?: boolean }): Tensor;
    arange(end: number): Tensor;
    arange(start: number, end: number, step?: number, options?: { dtype?: DType }): Tensor;
    einsum(equation: string, ...operands: Tensor[]): Tensor;
    max(input: Tensor): Tensor;
    max(input: Tensor, dim: number, keepdim?: boolean): [values: Tensor, indices: Tensor];
    min(input: Tensor): Tensor;
    min(input: Tensor, dim: number, keepdim?: boolean): [values: Tensor, indices: Tensor];
    clamp(input: Tensor, min?: number | null, max?: number | null): Tensor;
    logit(input: Tensor, eps?: number | null): Tensor;
    var(input: Tensor, dim?: number | number[] | null, options?: { correction?: number; keepdim?: boolean }): Tensor;
    std(input: Tensor, dim?: number | number[] | null, options?: { correction?: number; keepdim?: boolean }): Tensor;
    split(input: Tensor, size: number, dim?: number): Tensor[];
    manual_seed(seed: number | bigint): void;
    /** Frees the tensors that f made, but for its result: a tensor, or an array or object of tensors. */
    scope<T>(f: () => T): T;
    /** Runs f without recording a graph. */
    no_grad<T>(f: () => T): T;
    /** A tensor that no scope frees. */
    keep(tensor: Tensor): Tensor;
    /** Bytes that tensors hold. */
    memory(): number;
    /** Threads of this module: those of load(), or 1. */
    threads(): number;
    /** Makes the GPU the device of new tensors, models and runs (whole module, one thread); an Error says why it cannot
        be.  defaults: with the limits that every adapter has.  From then on cpu() of a tensor, the functions of a run
        that take steps or read weights, and those of a LanguageModel that read files or weights, give promises. */
    gpu(options?: { defaults?: boolean }): Promise<{
        name: string;
        software: boolean;
        /** Their size, where kernels use them; else 0. */
        subgroups: number;
        counts: { [name: string]: number };
        destroy(): void;
    }>;
    /** The package over the whole module, started at the first call; its tensors are of another memory. */
    whole(): Promise<Chainrule>;
}

/** Starts a module with memory of its own.  whole: with pretrained models, learned vocabularies, GGUF and WebGPU, a
    larger download.  wasm: bytes of the module, or its address; default: beside the package.
    threads: more than 1 where the page is cross-origin isolated, else there is one; bits do not depend on it. */
export function load(options?: {
    whole?: boolean;
    wasm?: ArrayBuffer | ArrayBufferView | string | URL;
    threads?: number;
}): Promise<Chainrule>;
