"""A small residual network tells shapes apart; its state is stored, and a second network goes on from it."""

import io
import random

import torch
import torch.nn.functional as F
from torch import nn


def shapes(count):
    """Outlines of a disc (0), a square (1), a diamond (2) with noise: (N, 1, 12, 12) and (N)."""
    x = torch.tensor([random.gauss(0, 0.3) for _ in range(count * 144)]).view(count, 1, 12, 12)
    y = torch.arange(count) % 3
    for image, label in zip(x, y.tolist(), strict=True):
        rows = (torch.arange(12.0) - random.uniform(4, 7)).abs().view(12, 1).expand(12, 12)
        columns = (torch.arange(12.0) - random.uniform(4, 7)).abs().expand(12, 12)
        distance = [(rows**2 + columns**2).sqrt(), torch.maximum(rows, columns), rows + columns][label]
        image[0] += ((distance - random.uniform(2.5, 4)).abs() < 0.7).float()
    return x, y


class BasicBlock(nn.Module):
    def __init__(self, channels, out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.shortcut = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.shortcut(x))


def resnet():
    stem = [nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True)]
    blocks = [BasicBlock(8, 8), BasicBlock(8, 16, stride=2), BasicBlock(16, 32, stride=2)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 3))


random.seed(0)
x, y = shapes(192)
unseen_x, unseen_y = shapes(90)
model = resnet()
for m in model.modules():
    if isinstance(m, (nn.Conv2d, nn.Linear)):
        scale = (2 / m.weight[0].numel()) ** 0.5
        m.weight.data = torch.tensor([random.gauss(0, scale) for _ in range(m.weight.numel())]).view_as(m.weight)
nn.init.zeros_(model[-1].bias)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
for epoch in range(6):
    if epoch == 3:  # the stored state goes into a new network and a new optimizer
        file = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
        file.seek(0)
        checkpoint, model = torch.load(file), resnet()
        model.load_state_dict(checkpoint["model"])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.optimizer = optimizer
    model.train()
    for xb, yb in zip(x.split(32), y.split(32), strict=True):
        loss = F.cross_entropy(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()
    model.eval()
    with torch.no_grad():
        right = (model(unseen_x).argmax(1) == unseen_y).sum().item()
    print(f"epoch {epoch}: loss {loss.item():.4f}, {right} of 90 unseen shapes right")
