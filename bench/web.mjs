// web.mjs - seconds in training steps of one run of the browser edition in node, and the time to load the module; JSON.
//
//     node web.mjs PACKAGE TEXT OPTIONS      PACKAGE: the folder of make web; OPTIONS: of Run.train, as JSON
import { readFileSync } from "node:fs";

const [, , folder, text, options] = process.argv;
const start = performance.now();
const { load } = await import(`${folder}/index.js`);
const cr = await load();
const loaded = performance.now() - start;
const run = cr.Run.train(new Uint8Array(readFileSync(text)), JSON.parse(options));
run.step();
const first = performance.now() - start;
while (run.step());
console.log(JSON.stringify({ seconds: run.look().seconds, loss: run.look().loss, loaded, first }));
