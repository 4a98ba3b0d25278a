"""An encoder and a decoder of GRU cells with dot-product attention learn to reverse a sequence."""

import random

import torch
import torch.nn.functional as F
from torch import nn

SYMBOLS, LENGTH, WIDTH = 8, 5, 32
START = SYMBOLS


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(SYMBOLS + 1, WIDTH)
        self.encoder = nn.GRUCell(WIDTH, WIDTH)
        self.decoder = nn.GRUCell(2 * WIDTH, WIDTH)
        self.head = nn.Linear(2 * WIDTH, SYMBOLS)

    def forward(self, source, target):
        state = torch.zeros(source.size(0), WIDTH)
        memory = []
        for t in range(LENGTH):
            state = self.encoder(self.embedding(source[:, t]), state)
            memory.append(state)
        memory = torch.stack(memory, dim=1)  # (B, T, W)
        token = torch.full((source.size(0),), START, dtype=torch.long)
        logits = []
        for t in range(LENGTH):
            weights = F.softmax(torch.bmm(memory, state.unsqueeze(2)).squeeze(2), dim=1)
            context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
            state = self.decoder(torch.cat([self.embedding(token), context], dim=1), state)
            logits.append(self.head(torch.cat([state, context], dim=1)))
            token = target[:, t]
        return torch.stack(logits, dim=1)


def init(module, scale=0.3):
    """The same weights in every library."""
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel()) * 0.7 + k).reshape(p.shape) * scale)


random.seed(0)
source = torch.tensor([[random.randrange(SYMBOLS) for _ in range(LENGTH)] for _ in range(64)])
target = source.flip(1)
model = Seq2Seq()
init(model)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(31):
    logits = model(source, target)
    loss = F.cross_entropy(logits.view(-1, SYMBOLS), target.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        accuracy = (logits.argmax(-1) == target).float().mean()
        print(f"step {step}: loss {loss.item():.4f}, accuracy {accuracy.item():.2f}")
