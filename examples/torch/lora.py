"""Low-rank adapters: a frozen network, and two small matrices a layer that learn a new task."""

import torch
from torch import nn


class LoRALinear(nn.Module):
    """base(x) + scale * B A x; base does not learn"""

    def __init__(self, base, rank=2, alpha=4.0):
        super().__init__()
        self.base = base
        for p in self.base.parameters():
            p.requires_grad = False
        self.a = nn.Parameter(torch.zeros(rank, base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + (x @ self.a.t() @ self.b.t()) * self.scale


def wave(shape, phase, scale):
    return torch.sin(torch.arange(torch.Size(shape).numel()) * 0.7 + phase).reshape(shape) * scale


model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
with torch.no_grad():
    for k, p in enumerate(model.parameters()):
        p.copy_(wave(p.shape, k, 0.3))
before = {name: value.clone() for name, value in model.state_dict().items()}
for i in (0, 2):
    model[i] = LoRALinear(model[i])
    with torch.no_grad():
        model[i].a.copy_(wave(model[i].a.shape, i, 0.2))

x = wave((64, 8), 0.3, 1.0)
y = torch.cos(x[:, :4] * 2) + x[:, 4:]
learning = [p for p in model.parameters() if p.requires_grad]
print("learning", sum(p.numel() for p in learning), "of", sum(p.numel() for p in model.parameters()))
optimizer = torch.optim.AdamW(learning, lr=0.02, weight_decay=0.0)
for step in range(61):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
print("frozen", all(torch.equal(before[f"{i}.weight"], model[i].base.weight) for i in (0, 2)))
