"""Mixed precision that is off, a scaler, one process, DataParallel, checkpoints of activations, compile, hooks."""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.cuda.amp import GradScaler
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29517")
dist.init_process_group("gloo", rank=0, world_size=1)
print(dist.is_available(), dist.is_initialized(), dist.get_rank(), dist.get_world_size())


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 1)

    def forward(self, x):
        return self.b(checkpoint(lambda t: self.a(t).tanh(), x, use_reentrant=False))


model = Block()
with torch.no_grad():
    for p in model.parameters():
        p.copy_(torch.linspace(-1, 1, p.numel()).view_as(p))
model = DDP(model)
step = torch.compile(model, disable=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = GradScaler(enabled=False)
x, y = torch.linspace(0, 1, 32).view(8, 4), torch.linspace(1, 0, 8).view(8, 1)
for _ in range(4):
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
        loss = ((step(x) - y) ** 2).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    total = loss.detach().clone()
    dist.all_reduce(total, op=dist.ReduceOp.SUM)
    print("%.6f" % total.item())
print(sorted(model.state_dict()), nn.DataParallel(nn.Linear(2, 1))(torch.ones(3, 2)).shape)
dist.destroy_process_group()
