// tar.js - files as one tar archive, and back.
const encoder = new TextEncoder();
const BLOCK = 512;
const padded = (n) => Math.ceil(n / BLOCK) * BLOCK;

function header(name, size) {
    const block = new Uint8Array(BLOCK);
    const put = (text, at) => block.set(encoder.encode(text), at);
    if (encoder.encode(name).length > 99) throw new Error(`the name '${name}' is too long for an archive`);
    put(name, 0);
    put("0000644\0", 100);
    put("0000000\0", 108);
    put("0000000\0", 116);
    put(`${size.toString(8).padStart(11, "0")}\0`, 124);
    put("00000000000\0", 136);
    put("        ", 148);
    put("0", 156);
    put("ustar\0" + "00", 257);
    const sum = block.reduce((a, b) => a + b, 0);
    put(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
    return block;
}

/** {name: bytes} -> bytes. */
export function pack(files) {
    const parts = Object.entries(files).flatMap(([name, data]) => [
        header(name, data.length),
        data,
        new Uint8Array(padded(data.length) - data.length),
    ]);
    parts.push(new Uint8Array(2 * BLOCK));
    const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
        out.set(part, at);
        at += part.length;
    }
    return out;
}

/** bytes -> {name: bytes}; other kinds of entries than files are left out. */
export function unpack(bytes) {
    const decoder = new TextDecoder();
    const files = {};
    for (let at = 0; at + BLOCK <= bytes.length && bytes[at]; ) {
        const field =
            (start, length) => decoder.decode(bytes.subarray(at + start, at + start + length)).split("\0")[0].trim();
        const size = parseInt(field(124, 12), 8);
        if (field(257, 5) !== "ustar" || !(size >= 0) || at + BLOCK + size > bytes.length)
            throw new Error("This file is not a run: it is no tar archive, or it is cut short.");
        const prefix = field(345, 155);
        const name = (prefix ? `${prefix}/` : "") + field(0, 100);
        const kind = field(156, 1);
        if (kind === "0" || kind === "") files[name.replace(/^\.\//, "")] = bytes.slice(at + BLOCK, at + BLOCK + size);
        at += BLOCK + padded(size);
    }
    if (!Object.keys(files).length) throw new Error("This file is not a run: it is no tar archive, or it is empty.");
    return files;
}
