// draw.js - pictures on canvases in the colours of the page.
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function prepared(canvas) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const width = canvas.clientWidth || canvas.width;
    canvas.dataset.aspect ??= canvas.height / canvas.width; // of the page's text
    const height = Math.round(width * canvas.dataset.aspect);
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    return { g, width, height };
}

/** Draws again where the width of the canvas or the colours of the page have changed, or the page is seen again. */
export function redrawn(canvas, draw) {
    let width = canvas.clientWidth;
    new ResizeObserver(() => {
        if (canvas.clientWidth === width) return;
        width = canvas.clientWidth;
        draw();
    }).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    document.addEventListener("visibilitychange", draw);
    draw();
}

/** Lines over steps: [{points: [[step, value]], color, name, dots}].  log: decades on the vertical axis. */
export function drawCurves(canvas, lines, { log = false } = {}) {
    const { g, width, height } = prepared(canvas);
    const scale = (y) => (log ? Math.log10(Math.max(y, 1e-12)) : y);
    const all = lines.flatMap((line) => line.points).filter(([, y]) => Number.isFinite(y));
    g.font = "12px system-ui, sans-serif";
    g.fillStyle = color("--soft");
    if (!all.length) {
        g.fillText("The loss appears here.", 12, height / 2);
        return;
    }
    const left = 44;
    const bottom = height - 22;
    const lastX = Math.max(1, ...all.map(([x]) => x));
    const ys = all.map(([, y]) => scale(y));
    let low = ys.reduce((a, b) => Math.min(a, b));
    let high = ys.reduce((a, b) => Math.max(a, b));
    if (high - low < 1e-9) [low, high] = [low - 0.5, high + 0.5];
    const toX = (x) => left + (x / lastX) * (width - left - 10);
    const toY = (y) => bottom - ((scale(y) - low) / (high - low)) * (bottom - 12);
    g.strokeStyle = color("--line");
    for (let i = 0; i <= 4; i++) {
        const level = low + ((high - low) * i) / 4;
        const y = log ? 10 ** level : level;
        g.beginPath();
        g.moveTo(left, toY(y));
        g.lineTo(width - 10, toY(y));
        g.stroke();
        g.fillText(log ? y.toExponential(0) : y.toPrecision(3), 4, toY(y) + 4);
    }
    g.textAlign = "right";
    g.fillText(`step ${lastX}`, width - 10, height - 6);
    g.textAlign = "left";
    lines.forEach((line, i) => {
        g.strokeStyle = g.fillStyle = color(line.color);
        g.lineWidth = 1.5;
        g.beginPath();
        for (const [x, y] of line.points) g.lineTo(toX(x), toY(y));
        g.stroke();
        if (line.dots) for (const [x, y] of line.points) g.fillRect(toX(x) - 2.5, toY(y) - 2.5, 5, 5);
        g.fillText(line.name, left + 8 + i * 110, height - 6);
    });
}

const mix = (a, b, t) => a.map((v, i) => v + (b[i] - v) * t);
const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

/** A field of probabilities (rows from the top) as colours between the two classes. */
export function drawField(canvas, field, side, points = null) {
    const { g, width, height } = prepared(canvas);
    const back = rgb(color("--back"));
    const colors = [rgb(color("--one")), rgb(color("--two"))];
    const image = new ImageData(side, side);
    for (let i = 0; i < side * side; i++) {
        const p = field ? field[i] : 0.5;
        const shade = mix(back, colors[p > 0.5 ? 1 : 0], 0.65 * Math.abs(2 * p - 1));
        image.data.set([...shade, 255], 4 * i);
    }
    const small = new OffscreenCanvas(side, side);
    small.getContext("2d").putImageData(image, 0, 0);
    g.imageSmoothingEnabled = true;
    g.drawImage(small, 0, 0, width, height);
    if (!points) return;
    const r = width < 100 ? 1 : 3;
    for (const [x, y, label] of points) {
        g.fillStyle = color(label ? "--two" : "--one");
        g.strokeStyle = color("--back");
        g.beginPath();
        if (label) g.rect(((x + 1.75) / 4.5) * width - r, (1 - (y + 1.25) / 3) * height - r, 2 * r, 2 * r);
        else g.arc(((x + 1.75) / 4.5) * width, (1 - (y + 1.25) / 3) * height, r, 0, 7);
        g.fill();
        g.stroke();
    }
}
