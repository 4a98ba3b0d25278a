// package.test.js - the package in node: functions, gradients, layers, optimizers, memory, errors.  tools/test_web.py
// builds it, and writes what the native library gives for the same calls.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const { load } = await import(`${process.env.CHAINRULE_WEB}/chainrule/index.js`);
const cr = await load();
const close = (a, b, tolerance = 1e-6) => assert.ok(Math.abs(a - b) <= tolerance, `${a} is not ${b}`);

/** Native results have floats as hexadecimal text. */
function number(x) {
    if (typeof x !== "string") return Number(x);
    if (x === "nan") return NaN;
    if (x.endsWith("inf")) return x[0] === "-" ? -Infinity : Infinity;
    const [, sign, whole, part, exponent] = /^(-?)0x(\d)\.?([0-9a-f]*)p([+-]\d+)$/.exec(x);
    const mantissa = Number(BigInt(`0x${whole}${part}`)) * 2 ** (-4 * part.length);
    return (sign ? -1 : 1) * mantissa * 2 ** Number(exponent);
}

/** Functions of float64 that are the C library's: its last two bits do not count. */
const rounded = (got, want) =>
    got.map(([dtype, shape, x], k) => [
        dtype,
        shape,
        x.map((v, i) => (Math.abs(v - want[k][2][i]) <= 4.5e-16 * Math.abs(v) ? want[k][2][i] : v)),
    ]);

test("functions give the bits and the messages of the native library", () => {
    const cases = JSON.parse(readFileSync(`${process.env.CHAINRULE_CASES}/cases.json`));
    const names = new Set();
    const wrong = [];
    for (const { name, tensors, more, result, error } of cases) {
        names.add(name);
        let got;
        try {
            const y = cr[name](...tensors.map(([data, dtype]) => cr.tensor(data, { dtype })), ...more);
            got =
                typeof y === "boolean"
                    ? y
                    : (Array.isArray(y) ? y : [y]).map((y) => [y.dtype, y.shape, Array.from(y.data(), Number)]);
        } catch (e) {
            got = e.message;
        }
        const want =
            error ??
            (typeof result === "boolean" ? result : result.map(([dtype, shape, x]) => [dtype, shape, x.map(number)]));
        try {
            if (tensors[0][1] === "float64" && Array.isArray(want) && Array.isArray(got)) got = rounded(got, want);
            assert.deepEqual(got, want);
        } catch {
            wrong.push(
                `${name}(${tensors.map((x) => x[1])}, ${more}): ${JSON.stringify(got)}, wanted ${JSON.stringify(want)}`,
            );
        }
    }
    assert.ok(names.size > 150, `${names.size} functions`);
    assert.equal(wrong.length, 0, `${wrong.length} of ${cases.length}:\n${wrong.slice(0, 60).join("\n")}`);
});

test("tensors: data, dtypes, shapes, printing", () => {
    const x = cr.tensor([[1, 2, 3], [4, 5, 6]]);
    assert.deepEqual([x.shape, x.dtype, x.ndim, x.numel(), x.size(-1)], [[2, 3], "float32", 2, 6, 3]);
    assert.deepEqual(cr.tensor([true, false]).tolist(), [true, false]);
    assert.deepEqual(cr.tensor([1n, 2n]).dtype, "int64");
    assert.deepEqual(cr.tensor(new Float64Array([0.1])).data(), new Float64Array([0.1]));
    assert.deepEqual(cr.tensor([1.5], { dtype: "bfloat16" }).mul(2).tolist(), [3]);
    const all = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64".split(" ");
    for (const dtype of all) {
        const y = cr.tensor([0, 1], { dtype });
        assert.deepEqual([y.dtype, y.tolist().map(Number), y.to("float64").tolist()], [dtype, [0, 1], [0, 1]]);
    }
    assert.deepEqual(cr.tensor([-5], { dtype: "int8" }).to("int32").tolist(), [-5]);
    assert.deepEqual(cr.tensor([2n ** 53n + 1n]).data(), BigInt64Array.of(2n ** 53n + 1n));
    assert.equal(cr.tensor(7).item(), 7);
    assert.equal(String(cr.tensor([1, 2])), "tensor([1., 2.])");
    assert.deepEqual(x.to("int32").data(), new Int32Array([1, 2, 3, 4, 5, 6]));
    assert.deepEqual(cr.arange(3).tolist(), [0, 1, 2]);
    assert.deepEqual(cr.arange(1, 2, 0.5).tolist(), [1, 1.5]);
    assert.deepEqual(x.reshape(3, 2).shape, [3, 2]);
    assert.deepEqual(x.reshape([-1]).shape, [6]);
    assert.deepEqual(x.sum({ dim: 0, keepdim: true }).tolist(), [[5, 7, 9]]);
    assert.deepEqual(x.max(1).map((t) => t.tolist()), [[3, 6], [2, 2]]);
    assert.deepEqual(cr.cat([x, x]).shape, [4, 3]);
    assert.deepEqual(x.split(2, 1).map((t) => t.shape), [[2, 2], [2, 1]]);
    assert.deepEqual(cr.einsum("ij,kj->ik", x, x).tolist(), [[14, 32], [32, 77]]);
    assert.deepEqual(
        cr.zeros(2).add_(3).sqrt_().mul_(2).data(), Float32Array.of(1, 1).map(() => 2 * Math.fround(Math.sqrt(3))),
    );
    assert.equal(cr.tensor([]).numel(), 0);
    close(x.std().item(), 1.8708287, 1e-6);
});

test("gradients, also of gradients", () => {
    const x = cr.tensor([1, 2, 3], { requires_grad: true });
    const y = x.pow(3).sum();
    y.backward();
    assert.deepEqual(x.grad.tolist(), [3, 12, 27]);
    x.grad = null;
    assert.equal(x.grad, null);
    const once = x.square().sum();
    once.backward(null, { create_graph: true });
    x.grad = null;
    assert.equal(cr.no_grad(() => x.mul(2).requires_grad), false);
    assert.equal(x.mul(2).grad_fn, "mul");
    assert.equal(x.detach().requires_grad, false);
});

test("mistakes are sentences", () => {
    const x = cr.ones(2, 3);
    const says = (f, message, status) =>
        assert.throws(f, (e) => (assert.match(e.message, message), assert.equal(e.status, status), true));
    says(() => x.matmul(x), /^\[matmul\] inner dimensions differ: \(2, 3\) x \(2, 3\)$/, "BAD_VALUE");
    says(() => x.sum(2), /^\[sum\] axis 2 is out of range/, "BAD_INDEX");
    says(() => x.item(), /^\[item\]/, "BAD_VALUE");
    says(() => x.sum({ dims: 0 }), /^\[sum\] has no argument 'dims': input, dim, keepdim$/);
    says(() => x.add("1"), /^\[add\] expected a tensor or a number, got string$/);
    says(() => x.add(), /^\[add\] needs the argument 'other'$/);
    says(() => x.relu(1), /^\[relu\] takes 1 arguments, got 2$/);
    says(() => cr.tensor([[1, 2], [3]]), /^\[tensor\] expected 2 elements at axis 1, got 1$/);
    says(() => cr.zeros(2, { dtype: "float31" }), /unknown dtype 'float31'/);
    says(() => cr.tensor([1]).backward(), /^\[backward\]/, "RUNTIME");
    says(() => new cr.optim.AdamW([x], { rate: 1 }), /^\[adamw\] has no option 'rate': lr, /);
    says(() => cr.empty([1e6, 1e6]), /memory|bytes|large/, "NO_MEMORY");
    assert.deepEqual(x.sum().item(), 6); // the module goes on
    says(() => cr.zeros(1.5), /^\[zeros\] expected a whole number, got 1.5$/);
    says(() => cr.tensor("7"), /^\[tensor\] elements are numbers or booleans, got string$/);
    says(() => cr.tensor([[1, null]]), /^\[tensor\] elements are numbers or booleans, got null$/);
    says(() => cr.randn(2, { generator: 5 }), /^\[randn\] expected a Generator of this module, got number$/);
    says(() => cr.manual_seed("x"), /^\[manual_seed\] a seed is a whole number from 0 on, not x$/);
    says(() => cr.Tokenizer.bytes().encode(null), /^\[encode\] expected a text or a Uint8Array, got null$/);
    const freed = cr.ones(1);
    freed.free();
    says(() => freed.add(1), /this tensor was freed/);
});

test("a tensor of another module is refused; memory that runs out is an error, and the module goes on", async () => {
    const other = await load();
    const theirs = other.ones(2, 3);
    assert.throws(() => cr.ones(2, 3).add(theirs), /^TypeError: \[add\] expected a tensor or a number/);
    assert.throws(() => cr.cat([theirs]), /expected a tensor, got one of another module/);
    assert.throws(() => new cr.nn.Linear(3, 1).forward(theirs), /one of another module/);
    assert.throws(() => other.randn(1, { generator: new cr.Generator(1) }), /a Generator of this module/);
    const held = [];
    assert.throws(() => {
        for (;;) held.push(other.empty(128e6));
    }, (e) => e.status === "NO_MEMORY");
    assert.ok(held.length > 3, `${held.length} tensors of 512 MB`);
    for (const x of held) x.free();
    assert.equal(other.zeros(10).sum().item(), 0);
});

test("memory comes back: scopes, free, the collector", async () => {
    const before = cr.memory();
    const kept = cr.scope(() => {
        const big = cr.ones(1000, 100);
        return big.add(1).sum();
    });
    assert.equal(kept.item(), 200000);
    assert.ok(cr.memory() - before < 4096, `${cr.memory() - before} bytes`);
    assert.throws(() => cr.scope(() => { cr.ones(1000); throw new Error("stop"); }), /stop/);
    assert.ok(cr.memory() - before < 4096);
    const outside = cr.scope(() => cr.keep(cr.ones(3)));
    assert.equal(outside.numel(), 3);
    (() => { for (let i = 0; i < 50; i++) cr.ones(1000, 100); })();
    for (let i = 0; i < 20 && cr.memory() - before > 4096; i++) {
        globalThis.gc();
        await new Promise((done) => setTimeout(done, 20));
    }
    assert.ok(cr.memory() - before < 4096, `${cr.memory() - before} bytes`);
});

test("Adam's options reach it: two steps by its formula", () => {
    const p = cr.tensor([1], { dtype: "float64", requires_grad: true });
    const [lr, b1, b2, eps] = [0.1, 0.5, 0.75, 0.01];
    const adam = new cr.optim.Adam([p], { lr, betas: [b1, b2], eps });
    let [want, m, v] = [1, 0, 0];
    [1, 3].forEach((g, t) => {
        p.grad = cr.tensor([g], { dtype: "float64" });
        adam.step();
        m = b1 * m + (1 - b1) * g;
        v = b2 * v + (1 - b2) * g * g;
        want -= (lr * m) / (1 - b1 ** (t + 1)) / (Math.sqrt(v / (1 - b2 ** (t + 1))) + eps);
        close(p.item(), want, 1e-12);
    });
    assert.equal(adam.lr, lr);
    adam.lr = 0.5;
    assert.equal(adam.lr, 0.5);
});

test("layers and optimizers learn, and the same seed gives the same numbers", () => {
    const train = (Optimizer) => {
        cr.manual_seed(3);
        const { Linear, Tanh, LayerNorm, Sequential } = cr.nn;
        const model = new Sequential(new Linear(2, 8), new Tanh(), new LayerNorm(8), new Linear(8, 1));
        const optimizer = new Optimizer(model.parameters(), { lr: 0.05 });
        const x = cr.randn(32, 2);
        const y = x.select(1, 0).mul(x.select(1, 1)).reshape(32, 1);
        const losses = [];
        for (let i = 0; i < 60; i++)
            cr.scope(() => {
                const loss = cr.nn.functional.mse_loss(model.forward(x), y);
                optimizer.zero_grad();
                loss.backward();
                optimizer.step();
                losses.push(loss.item());
            });
        return [losses, model];
    };
    for (const name of ["SGD", "Adam", "AdamW", "Adamax"]) {
        const [losses] = train(cr.optim[name]);
        assert.ok(losses.at(-1) < 0.7 * losses[0], `${name}: ${losses[0]} to ${losses.at(-1)}`);
        assert.deepEqual(train(cr.optim[name])[0], losses);
    }
    const [, model] = train(cr.optim.AdamW);
    const names = [...model.named_parameters()].map(([name]) => name);
    assert.deepEqual(names, ["0.weight", "0.bias", "2.weight", "2.bias", "3.weight", "3.bias"]);
    const state = structuredClone(model.state_dict());
    const [, other] = train(cr.optim.SGD);
    other.load_state_dict(state);
    assert.deepEqual(other.state_dict(), state);
    assert.throws(() => other.load_state_dict({}), /missing: 0.weight/);
    const drop = new cr.nn.Dropout(0.5);
    assert.ok(drop.forward(cr.ones(1000)).sum().item() !== 1000);
    assert.equal(drop.eval().forward(cr.ones(1000)).sum().item(), 1000);
    const e = new cr.nn.Embedding(5, 3);
    const logits = e.forward(cr.tensor([0, 4], { dtype: "int64" }));
    const loss = cr.nn.functional.cross_entropy(logits, cr.tensor([1, 2], { dtype: "int64" }));
    loss.backward();
    assert.deepEqual(e.weight.grad.shape, [5, 3]);
    const q = cr.randn(1, 2, 4, 8);
    assert.deepEqual(cr.nn.functional.scaled_dot_product_attention(q, q, q, { is_causal: true }).shape, [1, 2, 4, 8]);
});
