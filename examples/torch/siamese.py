"""A Siamese network brings samples of one class close and pushes others apart (contrastive loss)."""

import random

import torch
import torch.nn.functional as F
from torch import nn


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 4))

    def forward(self, x):
        return F.normalize(self.body(x), dim=1)


def contrastive(a, b, same, margin=1.0):
    distance = (a - b).pow(2).sum(dim=1).add(1e-6).sqrt()
    return (same * distance.pow(2) + (1 - same) * torch.clamp(margin - distance, min=0).pow(2)).mean()


random.seed(0)
prototypes = [[random.gauss(0, 1) for _ in range(6)] for _ in range(4)]


def sample(label):
    return [v + random.gauss(0, 0.3) for v in prototypes[label]]


model = Embedder()
with torch.no_grad():
    for k, p in enumerate(model.parameters()):
        p.copy_(torch.sin(torch.arange(p.numel()) * 0.7 + k).reshape(p.shape) * 0.4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(41):
    labels = [(i % 4, (i // 4) % 4) for i in range(32)]
    a = torch.tensor([sample(x) for x, _ in labels])
    b = torch.tensor([sample(y) for _, y in labels])
    same = torch.tensor([float(x == y) for x, y in labels])
    loss = contrastive(model(a), model(b), same)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
