"""RealNVP: affine couplings map two moons to a normal distribution; the loss is the negative log likelihood."""

import math
import random

import torch
from torch import nn


class Coupling(nn.Module):
    """One half of x stays, and says how the other half is scaled and shifted."""

    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 24), nn.ReLU(), nn.Linear(24, 2))

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).chunk(2, dim=1)
        s = torch.tanh(s)
        b = b * torch.exp(s) + t
        return torch.cat([b, a] if self.flip else [a, b], dim=1), s.sum(dim=1)


def init(module, scale=0.3):
    """The same weights in every library."""
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel()) * 0.7 + k).reshape(p.shape) * scale)


random.seed(0)
points = []
for i in range(128):
    angle = math.pi * random.random()
    x, y = (math.cos(angle), math.sin(angle)) if i % 2 else (1 - math.cos(angle), 0.5 - math.sin(angle))
    points.append([x + random.gauss(0, 0.1), y + random.gauss(0, 0.1)])
data = torch.tensor(points)
flow = nn.ModuleList([Coupling(flip=bool(i % 2)) for i in range(4)])
init(flow)
optimizer = torch.optim.Adam(flow.parameters(), lr=5e-3)
for step in range(61):
    z, log_det = data, torch.zeros(len(data))
    for layer in flow:
        z, change = layer(z)
        log_det = log_det + change
    log_prob = -0.5 * (z**2).sum(dim=1) - math.log(2 * math.pi) + log_det
    loss = -log_prob.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
