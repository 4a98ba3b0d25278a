// learn.js - "Watch it learn": two moons, and the boundary of a network while it trains.
import { drawCurves, drawField, redrawn } from "./draw.js";
import { Engine, section } from "./engine.js";
import { linked } from "./link.js";

const part = section("learn");
const { root, $, field, button, say, guard } = part;
let losses = [];
let last = null; // what the worker sent
let points = [];
let side = 0;
let training = false;
let made = null; // the promise of the network
const engine = new Engine({ moons: show });

const settings = () => ({
    width: Number(field("width").value),
    layers: Number(field("layers").value),
    rate: 10 ** Number(field("rate").value),
    noise: Number(field("noise").value),
});

function draw() {
    if (!last || document.hidden) return;
    const { field: values, neurons, count } = last;
    drawField($(".field"), values, side, points);
    const boxes = $(".neurons");
    while (boxes.children.length > count) boxes.lastChild.remove();
    while (boxes.children.length < count)
        boxes.append(Object.assign(document.createElement("canvas"), { width: 60, height: 50 }));
    for (let i = 0; i < count; i++)
        drawField(boxes.children[i], neurons.subarray(i * side * side, (i + 1) * side * side), side);
    drawCurves($(".curve"), [{ points: losses, color: "--one", name: "loss" }], { log: true });
}

function show(now) {
    const { step, loss, took } = now;
    last = now;
    if (Number.isFinite(loss)) losses.push([step, loss]);
    if (losses.length > 600) losses = losses.filter((_, i) => i % 2 || i === losses.length - 1);
    draw();
    if (Number.isFinite(loss)) say(`Step ${step}, loss ${loss.toFixed(4)}, ${took.toFixed(0)} µs a step`);
}

const reset = guard(async () => {
    stop();
    losses = [];
    made = engine.call("makeMoons", settings());
    const first = await made;
    ({ points, side } = first);
    show(first);
    say("Ready");
});

function stop() {
    training = false;
    button("toggle").textContent = "Train";
    if (made) engine.call("pauseMoons");
}

button("toggle").onclick = guard(async () => {
    if (training) return stop();
    training = true;
    button("toggle").textContent = "Pause";
    if (!made) await reset();
    training = true;
    button("toggle").textContent = "Pause";
    return engine.call("runMoons");
});
button("reset").onclick = reset;
for (const input of root.querySelectorAll("input[type=range]"))
    input.oninput = () => {
        const text =
            { rate: () => Number((10 ** input.value).toPrecision(2)), noise: () => Number(input.value).toFixed(2) };
        input.parentElement.querySelector(".value").textContent = text[input.name]?.() ?? input.value;
        if (input.name === "rate") engine.call("setRate", settings().rate);
        else reset();
    };
reset();
linked(part);
redrawn($(".field"), draw);
