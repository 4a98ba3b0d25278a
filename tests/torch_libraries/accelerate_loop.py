# accelerate: a training loop with accumulation, clipping, a schedule, saved state, big-model helpers.
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed, send_to_device
from same import fill, gradients, numbers, show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

set_seed(3)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
net = fill(nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)))
x, y = numbers(24, 6), torch.arange(24) % 3
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
net, optimizer, loader, schedule = accelerator.prepare(net, optimizer, DataLoader(TensorDataset(x, y), 4), schedule)
for epoch in range(3):
    total = 0.0
    for a, b in loader:
        with accelerator.accumulate(net):
            loss = nn.functional.cross_entropy(net(a), b)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        total += float(accelerator.gather(loss.detach()).mean())
    show("epoch", epoch, total, schedule.get_last_lr()[0])
with tempfile.TemporaryDirectory() as folder:
    accelerator.save_state(folder)
    before = [p.detach().clone() for p in net.parameters()]
    with torch.no_grad():
        for p in net.parameters():
            p.zero_()
    accelerator.load_state(folder)
    print(all(torch.equal(a, b) for a, b in zip(before, net.parameters())))
    accelerator.save_model(net, folder)
plain = accelerator.unwrap_model(net)
print(type(plain).__name__, accelerator.device, accelerator.num_processes, accelerator.is_main_process)
predictions = []
for a, b in loader:
    one, two = accelerator.gather_for_metrics((net(a).argmax(-1), b))
    predictions.append((one == two).float().mean())
show("right", sum(predictions) / len(predictions), gradients(net))
print(send_to_device({"a": [torch.ones(2)], "b": (torch.zeros(1), 3)}, "cpu"))
with accelerator.autocast():
    show("autocast", net(x).float().abs().mean())
