// see.js - "See it": an expression as a graph, and the backward pass step by step.
import { Engine, section } from "./engine.js";

const { root, $, field, button, say, guard } = section("see");
const engine = new Engine();
const FUNCTIONS = ["tanh", "exp", "log", "sin", "cos", "sqrt", "relu", "sigmoid", "abs", "square"];
const OPS = { "+": "add", "-": "sub", "*": "mul", "/": "div", "^": "pow" };
const SIGNS = { add: "+", sub: "−", mul: "×", div: "÷", pow: "^", neg: "−" };

/** An expression -> nodes, inputs before results.  Grammar: sum of products of powers. */
function parse(text, values) {
    const tokens = text.match(/\s*(\d+\.?\d*(e[+-]?\d+)?|\.\d+|[a-z_]\w*|[-+*/^(),]|\S)/gi)?.map((x) => x.trim()) ?? [];
    const nodes = [];
    const leaves = new Map();
    let at = 0;
    const add = (node) => nodes.push(node) - 1;
    const take = (token) => tokens[at] === token && ++at;
    const need = (token) => {
        if (!take(token))
            throw new Error(`Expected '${token}' ${at < tokens.length ? `before '${tokens[at]}'` : "at the end"}.`);
    };
    function atom() {
        const token = tokens[at++];
        if (token === undefined) throw new Error("The expression ends too early.");
        if (token === "(") {
            const inside = sum();
            need(")");
            return inside;
        }
        if (/^[\d.]/.test(token)) return add({ inputs: [], value: Number(token), name: token });
        if (!/^[a-z_]/i.test(token)) throw new Error(`'${token}' is not expected here.`);
        if (take("(")) {
            if (!FUNCTIONS.includes(token))
                throw new Error(`There is no function '${token}': ${FUNCTIONS.join(", ")}.`);
            const inside = sum();
            need(")");
            return add({ op: token, inputs: [inside] });
        }
        if (!(token in values)) throw new Error(`'${token}' has no value: add '${token} = 1' to the values.`);
        if (!leaves.has(token)) leaves.set(token, add({ inputs: [], value: values[token], name: token }));
        return leaves.get(token);
    }
    function power() {
        const base = atom();
        return take("^") ? add({ op: "pow", inputs: [base, unary()] }) : base;
    }
    function unary() {
        return take("-") ? add({ op: "neg", inputs: [unary()] }) : power();
    }
    function binary(next, signs) {
        let left = next();
        while (signs.includes(tokens[at])) left = add({ op: OPS[tokens[at++]], inputs: [left, next()] });
        return left;
    }
    const product = () => binary(unary, ["*", "/"]);
    const sum = () => binary(product, ["+", "-"]);
    sum();
    if (at < tokens.length) throw new Error(`'${tokens[at]}' is not expected here.`);
    if (nodes.length > 60) throw new Error(`The graph has ${nodes.length} nodes: at most 60 are drawn.`);
    return nodes;
}

function parseValues(text) {
    const values = {};
    for (const part of text.split(/[,;\n]/).filter((x) => x.trim())) {
        const found = /^\s*([a-z_]\w*)\s*=\s*(\S+)\s*$/i.exec(part);
        if (!found || !Number.isFinite(Number(found[2])))
            throw new Error(`'${part.trim()}' is not of the form 'a = 2'.`);
        values[found[1]] = Number(found[2]);
    }
    return values;
}

let nodes = [];
let results = [];
let order = []; // nodes as the backward pass visits them
let done = 0;

const number = (x) => (Number.isFinite(x) ? String(Number(x.toPrecision(4))) : String(x));

/** Columns by depth, rows in order. */
function places() {
    const depth = [];
    nodes.forEach((node, i) => (depth[i] = node.inputs.length ? 1 + Math.max(...node.inputs.map((k) => depth[k])) : 0));
    // a leaf stands right before its first use
    nodes.forEach((node, i) => {
        if (node.inputs.length) return;
        const uses = nodes.flatMap((user, k) => (user.inputs.includes(i) ? [depth[k] - 1] : []));
        if (uses.length) depth[i] = Math.min(...uses);
    });
    const rows = {};
    return depth.map((column) => ({ x: 10 + column * 165, y: 10 + (rows[column] = (rows[column] ?? -1) + 1) * 78 }));
}

const SVG = "http://www.w3.org/2000/svg";
function element(parent, name, attributes, text) {
    const e = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    if (text !== undefined) e.textContent = text;
    return parent.appendChild(e);
}

function draw() {
    const svg = $(".graph");
    svg.replaceChildren();
    const at = places();
    const width = Math.max(...at.map((p) => p.x)) + 145;
    const height = Math.max(...at.map((p) => p.y)) + 72;
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    const known = new Set(order.slice(0, done));
    nodes.forEach((node, i) => {
        for (const k of node.inputs) {
            const [from, to] = [at[k], at[i]];
            const middle = (from.x + 130 + to.x) / 2;
            const [y, target] = [from.y + 31, to.y + 31];
            element(svg, "path", { d: `M${from.x + 130} ${y} C${middle} ${y} ${middle} ${target} ${to.x} ${target}` });
        }
    });
    nodes.forEach((node, i) => {
        const group = element(svg, "g", { class: order[done - 1] === i ? "now" : "" });
        const { x, y } = at[i];
        element(group, "rect", { x, y, width: 130, height: 62, rx: 6 });
        element(group, "text", { x: x + 8, y: y + 17 }, node.op ? (SIGNS[node.op] ?? node.op) : node.name);
        element(group, "text", { x: x + 8, y: y + 35 }, `value ${number(results[i].value)}`);
        const grad = known.has(i) ? `grad ${number(results[i].grad)}` : "grad";
        element(group, "text", { x: x + 8, y: y + 53, class: "grad" }, grad);
    });
    const last = order[done - 1];
    const name = done && (nodes[last].name ?? nodes[last].op);
    const label = done
        ? `${done} of ${order.length}: ${name} has the gradient ${number(results[last].grad)}`
        : "Forward pass: values are known, gradients are not";
    say(label);
    svg.setAttribute("aria-label", `Graph of ${nodes.length} nodes. ${label}`);
    button("back").disabled = done === 0;
    button("step").disabled = button("all").disabled = done === order.length;
}

const update = guard(async () => {
    const next = parse(field("expression").value, parseValues(field("values").value));
    const made = await engine.call("evaluate", next.map(({ op, inputs, value }) => ({ op, inputs, value })));
    nodes = next;
    results = made;
    order = nodes.map((_, i) => i).reverse();
    done = 0;
    draw();
});

function go(to) {
    done = Math.max(0, Math.min(order.length, to));
    draw();
}

button("back").onclick = () => go(done - 1);
button("step").onclick = () => go(done + 1);
button("all").onclick = () => go(order.length);
root.querySelector("form").oninput = update;
root.querySelector("form").onsubmit = (event) => {
    event.preventDefault();
    update();
};
update();
