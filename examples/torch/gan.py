"""A generator and a discriminator on points of a ring; the noise comes from Python's random numbers."""

import math
import random

import torch
from torch import nn


def init(module, scale=0.4):
    """The same weights in every library."""
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel()) * 0.7 + k).reshape(p.shape) * scale)


def noise(n, width):
    return torch.tensor([[random.gauss(0, 1) for _ in range(width)] for _ in range(n)])


random.seed(0)
angles = [2 * math.pi * i / 64 for i in range(64)]
real = torch.tensor([[math.cos(a), math.sin(a)] for a in angles])
generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
discriminator = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
init(generator)
init(discriminator)
g_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
d_optimizer = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
for step in range(51):
    fake = generator(noise(64, 4))
    d_loss = criterion(discriminator(real), ones) + criterion(discriminator(fake.detach()), zeros)
    d_optimizer.zero_grad()
    d_loss.backward()
    d_optimizer.step()

    g_loss = criterion(discriminator(fake), ones)
    g_optimizer.zero_grad()
    g_loss.backward()
    g_optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: discriminator {d_loss.item():.4f}, generator {g_loss.item():.4f}")
