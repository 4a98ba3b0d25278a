"""A variational autoencoder of small bar images; the noise comes from Python's random numbers."""

import random

import torch
import torch.nn.functional as F
from torch import nn

SIZE = 8


class VAE(nn.Module):
    def __init__(self, hidden=32, latent=4):
        super().__init__()
        self.encoder = nn.Linear(SIZE * SIZE, hidden)
        self.mean = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, SIZE * SIZE))

    def forward(self, x, noise):
        h = torch.relu(self.encoder(x))
        mean, logvar = self.mean(h), self.logvar(h)
        z = mean + noise * torch.exp(0.5 * logvar)
        return self.decoder(z), mean, logvar


def init(module, scale=0.2):
    """The same weights in every library."""
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel()) * 0.7 + k).reshape(p.shape) * scale)


random.seed(0)
images = torch.zeros(2 * SIZE, SIZE, SIZE)
for i in range(SIZE):
    images[i, i, :] = 1.0
    images[SIZE + i, :, i] = 1.0
x = images.view(2 * SIZE, -1)
model = VAE()
init(model)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(61):
    noise = torch.tensor([[random.gauss(0, 1) for _ in range(4)] for _ in range(len(x))])
    logits, mean, logvar = model(x, noise)
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x)
    divergence = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).sum() / len(x)
    loss = reconstruction + divergence
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.4f}, divergence {divergence.item():.4f}")
