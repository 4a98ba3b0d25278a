// store.js - files that the browser keeps for this site, in its private file system: a folder for the run, one for the
// model.  A list of names and sizes is written last, so a folder that was cut short is none.
const LIST = "kept.json";

async function write(folder, name, data) {
    const file = await folder.getFileHandle(name, { create: true });
    const out = await file.createWritable(); // the file is replaced at close()
    try {
        await out.write(data);
        await out.close();
    } catch (error) {
        await out.abort().catch(() => {});
        throw error;
    }
}

async function folderNamed(name, options) {
    return (await navigator.storage.getDirectory()).getDirectoryHandle(name, options);
}

export async function forget(name) {
    await (await navigator.storage.getDirectory()).removeEntry(name, { recursive: true }).catch(() => {});
}

/** Keeps files, {name: bytes or Blob}, in place of those before; says how that went. */
export async function keep(name, files) {
    try {
        const folder = await folderNamed(name, { create: true });
        for (const [file, data] of Object.entries(files)) await write(folder, file, data);
        const sizes = Object.entries(files).map(([file, data]) => [file, data.size ?? data.length]);
        await write(folder, LIST, JSON.stringify(sizes));
        return "kept in this browser";
    } catch (error) {
        if (error.name !== "QuotaExceededError") return "not kept: the browser gives this page no storage";
        return "not kept: the browser has no room left for it";
    }
}

/** {name: File}, or null. */
export async function kept(name) {
    try {
        const folder = await folderNamed(name);
        const read = async (file) => (await folder.getFileHandle(file)).getFile();
        const sizes = JSON.parse(await (await read(LIST)).text());
        const files = await Promise.all(sizes.map(async ([file]) => [file, await read(file)]));
        return files.every(([, data], i) => data.size === sizes[i][1]) ? Object.fromEntries(files) : null;
    } catch {
        return null;
    }
}
