"""Matrix factorization recommends: embeddings of users and items, with biases, learn their ratings."""

import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

USERS, ITEMS, FACTORS = 40, 30, 4


class MatrixFactorization(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, FACTORS)
        self.item = nn.Embedding(ITEMS, FACTORS)
        self.user_bias = nn.Embedding(USERS, 1)
        self.item_bias = nn.Embedding(ITEMS, 1)
        self.mean = nn.Parameter(torch.tensor(3.0))

    def forward(self, users, items):
        interaction = (self.user(users) * self.item(items)).sum(dim=-1)
        return interaction + self.user_bias(users).squeeze(-1) + self.item_bias(items).squeeze(-1) + self.mean


def gauss(*shape, scale=1.0):
    """The same random numbers in every library."""
    return torch.tensor([random.gauss(0, scale) for _ in range(torch.Size(shape).numel())]).view(shape)


random.seed(0)
taste, kind = gauss(USERS, 2), gauss(ITEMS, 2)
ratings = (3 + taste @ kind.T + 0.1 * gauss(USERS, ITEMS)).clamp(1, 5).round()
pairs = [(u, i) for u in range(USERS) for i in range(ITEMS)]
random.shuffle(pairs)
users, items = torch.tensor(pairs).unbind(dim=1)
data = TensorDataset(users, items, ratings[users, items])
loader = DataLoader(data, batch_size=100, sampler=torch.utils.data.SequentialSampler(range(900)))
unseen = data[900:]
model = MatrixFactorization()
for name, p in model.named_parameters():
    if "bias" in name:
        nn.init.zeros_(p)
    elif p.dim() == 2:
        p.data = gauss(*p.shape, scale=0.3)
optimizer = torch.optim.Adagrad(
    [
        {"params": [model.user.weight, model.item.weight], "weight_decay": 1e-3},
        {"params": [model.user_bias.weight, model.item_bias.weight, model.mean], "lr": 0.05},
    ],
    lr=0.2,
)
for epoch in range(10):
    for user, item, rating in loader:
        loss = F.mse_loss(model(user, item), rating)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        error = F.mse_loss(model(*unseen[:2]), unseen[2]).sqrt()
    print(f"epoch {epoch}: loss {loss.item():.4f}, error of unseen ratings {error.item():.4f}")
best = torch.topk(model.item(torch.arange(ITEMS)) @ model.user.weight[0], k=3)
print("for user 0:", best.indices.tolist())
