"""Logistic regression on three clusters, with mini-batches from a DataLoader and a learning-rate schedule."""

import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

random.seed(0)
centers = [(-1.0, 0.0), (1.0, 0.5), (0.0, -1.5)]
labels = [i % 3 for i in range(240)]
points = [[random.gauss(c, 0.5) for c in centers[label]] for label in labels]
dataset = TensorDataset(torch.tensor(points), torch.tensor(labels))
loader = DataLoader(dataset, batch_size=40, shuffle=False)

model = nn.Linear(2, 3)
nn.init.zeros_(model.weight)
nn.init.zeros_(model.bias)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, weight_decay=1e-4)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=4, gamma=0.5)
for epoch in range(10):
    total, correct = 0.0, 0
    for inputs, target in loader:
        logits = model(inputs)
        loss = F.cross_entropy(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(target)
        correct += (logits.argmax(dim=1) == target).sum().item()
    schedule.step()
    print(f"epoch {epoch}: loss {total / len(dataset):.4f}, accuracy {correct / len(dataset):.3f}")
