// link.js - settings in the fragment of the page's address, "#text&size=tiny&steps=500": choices and numbers, no data.
const SETTINGS = "select, input[type=number], input[type=range]";

function take(root, name, value) {
    const field = [...root.querySelectorAll(SETTINGS)].find((each) => each.name === name);
    if (!field) throw new Error(`The link has a setting '${name}', which this part has not.`);
    const before = field.value;
    field.value = value;
    const numbers = [Number(value), Number(field.min || -Infinity), Number(field.max || Infinity)];
    const inside = value.trim() !== "" && numbers[0] >= numbers[1] && numbers[0] <= numbers[2];
    if (field.value === "" || !(inside || field.matches("select"))) {
        field.value = before;
        throw new Error(`The link has ${name} = '${value}', which is not possible; the setting is ${before}.`);
    }
    field.dispatchEvent(new Event("input", { bubbles: true }));
}

/** A link in the section that has its settings; settings of the page's address are taken. */
export function linked({ root, $, guard }) {
    const link = $("a.link");
    const update = () => {
        const now = [...root.querySelectorAll(SETTINGS)].map((field) => [field.name, field.value]);
        link.href = `#${root.id}&${new URLSearchParams(now)}`;
    };
    const follow = guard(async () => {
        const [id, ...rest] = location.hash.slice(1).split("&");
        if (id !== root.id || !rest.length) return;
        root.scrollIntoView();
        for (const [name, value] of new URLSearchParams(rest.join("&"))) take(root, name, value);
    });
    root.addEventListener("input", update);
    window.addEventListener("hashchange", follow);
    update();
    follow();
}
