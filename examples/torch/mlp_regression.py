"""A multilayer perceptron learns y = sin(3 x) + x^2 / 2.  Weights and data are formulas."""

import torch
from torch import nn


def init(module, scale=0.5):
    """The same weights in every library."""
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel()) * 0.7 + k).reshape(p.shape) * scale)


x = torch.linspace(-1, 1, 128).unsqueeze(1)
y = torch.sin(3 * x) + x**2 / 2
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
init(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.MSELoss()
for step in range(101):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
