"""A convolutional network reads seven-segment digits that are drawn at any place, with noise."""

import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SEGMENTS = "abcdef bc abged abgcd fgbc afgcd afgedc abc abcdefg abcdfg".split()
PLACES = {  # rows and columns of each segment, in a box of 9 x 5
    "a": (0, 1, 0, 5), "b": (0, 5, 4, 5), "c": (4, 9, 4, 5), "d": (8, 9, 0, 5),
    "e": (4, 9, 0, 1), "f": (0, 5, 0, 1), "g": (4, 5, 0, 5),
}  # fmt: skip


def digits(count):
    """Images (N, 1, 12, 10) and labels (N)."""
    noise = [random.gauss(0, 0.2) for _ in range(count * 120)]
    x, y = torch.tensor(noise).view(count, 1, 12, 10), torch.arange(count) % 10
    for image, label in zip(x, y, strict=True):
        down, right = random.randrange(4), random.randrange(6)
        for segment in SEGMENTS[label.item()]:
            r0, r1, c0, c1 = PLACES[segment]
            image[0, down + r0 : down + r1, right + c0 : right + c1] += 1
    return x, y


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, kernel_size=3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, kernel_size=3, padding=1)
        self.fc1 = nn.Linear(16 * 3 * 2, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


def init(module):
    """The same weights in every library."""
    for p in module.parameters():
        scale = (2 / p[0].numel()) ** 0.5 if p.dim() > 1 else 0.0
        p.data = torch.tensor([random.gauss(0, scale) for _ in range(p.numel())]).view(p.shape)


random.seed(0)
train = DataLoader(TensorDataset(*digits(320)), batch_size=32)
unseen_x, unseen_y = digits(100)
model = CNN()
init(model)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)
for epoch in range(8):
    model.train()
    total = 0.0
    for x, y in train:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(x)
    scheduler.step()
    model.eval()
    with torch.no_grad():
        right = (model(unseen_x).argmax(dim=1) == unseen_y).sum().item()
    print(f"epoch {epoch}: loss {total / 320:.4f}, {right} of 100 unseen digits right")
