"""A GRU predicts the next character of a short text; gradients are clipped."""

import torch
import torch.nn.functional as F
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. " * 4
CHARS = sorted(set(TEXT))
LENGTH = 24


class CharModel(nn.Module):
    def __init__(self, vocabulary, width=32):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 16)
        self.rnn = nn.GRU(16, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, state=None):
        output, state = self.rnn(self.embedding(tokens), state)
        return self.head(output), state


def init(module, scale=0.3):
    """The same weights in every library."""
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel()) * 0.7 + k).reshape(p.shape) * scale)


data = torch.tensor([CHARS.index(c) for c in TEXT])
rows = torch.stack([data[i : i + LENGTH + 1] for i in range(0, len(data) - LENGTH - 1, LENGTH)])
model = CharModel(len(CHARS))
init(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(21):
    logits, _ = model(rows[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, len(CHARS)), rows[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if epoch % 5 == 0:
        print(f"epoch {epoch}: loss {loss.item():.4f}, norm {norm.item():.4f}")
