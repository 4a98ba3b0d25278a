// user.ts - a program of a user, which must have these types: tests compile it where tsc is.
import { load, type Tensor } from "../index.js";

const cr = await load();
const x: Tensor = cr.tensor([[1, 2], [3, 4]], { requires_grad: true });
const loss: Tensor = x.mul(2).sum({ dim: 0 }).mean().add(cr.zeros(2, 3).sum());
loss.backward();
const grad: Tensor | null = x.grad;
const [values, indices] = x.max(1);
const model = new cr.nn.Sequential(new cr.nn.Linear(2, 3), new cr.nn.ReLU());
const optimizer = new cr.optim.AdamW(model.parameters(), { lr: 0.1, betas: [0.9, 0.99] });
optimizer.step();
const run = cr.Run.train("text", { layers: 2, weight_decay: 0.1 });
while (run.step()) console.log(run.look().loss);
const whole = await cr.whole();
const gpu: { name: string } = await whole.gpu();
const onCpu: Tensor = await whole.tensor([1]).cpu();
const lm = whole.LanguageModel.load({ "model.gguf": new Uint8Array() });
for await (const piece of lm.generate([{ role: "user", content: "hi" }], { tokens: 5 })) console.log(piece.length);
console.log(gpu.name, onCpu.shape, grad, values.reshape(2, 1).shape, indices.tolist(), x.equal(values) === true);
console.log(cr.scope(() => x.exp()).item());
// @ts-expect-error: an argument of another type
x.sum("dim");
// @ts-expect-error: no such option
new cr.optim.SGD([], { betas: [1, 2] });
