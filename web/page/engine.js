// engine.js - calls of the worker as promises, and its events.
export class Engine {
    #worker;
    #waiting = new Map();
    #next = 0;

    /** events: name -> function of the data.  threads: use all processors, where the page may; whole: start with the
        whole module, which the worker else loads when a call needs it. */
    constructor(events = {}, { threads = false, whole = false } = {}) {
        const name = `${threads ? "threads" : "one"} ${whole ? "whole" : "small"}`;
        this.#worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module", name });
        this.#worker.onmessage = ({ data }) => {
            if (data.event) return events[data.event]?.(data.value);
            const { resolve, reject } = this.#waiting.get(data.id);
            this.#waiting.delete(data.id);
            if ("error" in data) reject(new Error(data.error));
            else resolve(data.value);
        };
        this.#worker.onerror = (event) => {
            const error =
                new Error(`The engine did not start: ${event.message ?? "WebAssembly is not available here"}`);
            for (const { reject } of this.#waiting.values()) reject(error);
            this.#waiting.clear();
        };
    }

    call(name, ...args) {
        return new Promise((resolve, reject) => {
            const id = this.#next++;
            this.#waiting.set(id, { resolve, reject });
            this.#worker.postMessage({ id, name, args });
        });
    }
}

/** Elements of a section by name, and a place for its messages. */
export function section(id) {
    const root = document.getElementById(id);
    const error = root.querySelector(".error");
    const status = root.querySelector(".status");
    return {
        root,
        $: (selector) => root.querySelector(selector),
        field: (name) => root.querySelector(`[name="${name}"]`),
        button: (name) => root.querySelector(`[data-do="${name}"]`),
        say(text) {
            status.textContent = text;
        },
        /** f with its mistakes as sentences on the page. */
        guard: (f) => async (...args) => {
            error.hidden = true;
            try {
                return await f(...args);
            } catch (e) {
                error.textContent = sentence(e.message);
                error.hidden = false;
                return undefined;
            }
        },
    };
}

/** "[sum] axis 5 is out of range" -> "Axis 5 is out of range." */
function sentence(message) {
    const text = message.replace(/^\[\w+\] /, "").replaceAll("'run/text.txt'", "The text");
    return text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

export function download(name, bytes) {
    const a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob([bytes]));
    a.download = name;
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 60000);
}
