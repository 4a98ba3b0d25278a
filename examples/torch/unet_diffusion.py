"""A small U-Net learns to remove noise from images of bars, and draws new ones step by step (DDIM)."""

import math
import random

import torch
import torch.nn.functional as F
from torch import nn

SIZE, STEPS, WIDTH = 8, 50, 16


def gauss(*shape, scale=1.0):
    """The same random numbers in every library."""
    return torch.tensor([random.gauss(0, scale) for _ in range(torch.Size(shape).numel())]).view(shape)


def time_embedding(t):
    angles = t.float()[:, None] * torch.exp(-math.log(1000) * torch.arange(WIDTH // 2) / (WIDTH // 2))
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Block(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.norm = nn.GroupNorm(4, out)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.time = nn.Linear(WIDTH, out)

    def forward(self, x, t):
        h = F.silu(self.conv1(x)) + self.time(t)[:, :, None, None]
        return F.silu(self.conv2(self.norm(h))) + h


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.middle, self.up = Block(1, WIDTH), Block(WIDTH, WIDTH), Block(2 * WIDTH, WIDTH)
        self.shrink = nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.grow = nn.ConvTranspose2d(WIDTH, WIDTH, 2, stride=2)
        self.out = nn.Conv2d(WIDTH, 1, 1)

    def forward(self, x, t):
        t = time_embedding(t)
        skip = self.down(x, t)
        h = self.grow(self.middle(self.shrink(skip), t))
        return self.out(self.up(torch.cat([h, skip], dim=1), t))


random.seed(0)
images = -torch.ones(2 * SIZE, 1, SIZE, SIZE)
for i in range(SIZE):
    images[i, 0, i, :] = 1.0
    images[SIZE + i, 0, :, i] = 1.0
alpha = torch.cumprod(1 - torch.linspace(1e-3, 0.15, STEPS), dim=0)  # how much of the image is left
model = UNet()
for name, p in model.named_parameters():
    if "norm" not in name:
        p.data = gauss(*p.shape, scale=p[0].numel() ** -0.5 if p.dim() > 1 else 0.0)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(61):
    t = torch.tensor([random.randrange(STEPS) for _ in images])
    noise, left = gauss(*images.shape), alpha[t].view(-1, 1, 1, 1)
    loss = F.mse_loss(model(left.sqrt() * images + (1 - left).sqrt() * noise, t), noise)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
with torch.inference_mode():
    x = gauss(2, 1, SIZE, SIZE)
    for t in range(STEPS - 1, 0, -7):
        noise = model(x, torch.full((2,), t))
        clean = ((x - (1 - alpha[t]).sqrt() * noise) / alpha[t].sqrt()).clamp(-1, 1)
        x = alpha[max(t - 7, 0)].sqrt() * clean + (1 - alpha[max(t - 7, 0)]).sqrt() * noise
print(f"drawn: mean {clean.mean().item():.3f}, deviation {clean.std().item():.3f}")
