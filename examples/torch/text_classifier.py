"""An LSTM in both directions tells good reviews from bad ones: sentences of any length, packed."""

import random

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

NOUNS = "film story cast music ending".split()
GOOD, BAD = "great lovely clever warm".split(), "dull weak silly cold".split()
VOCABULARY = {word: i for i, word in enumerate(["<pad>", "the", "was", "not", "and", *NOUNS, *GOOD, *BAD])}


def review():
    """Words of one to three clauses, and whether the last one praises; "not" turns praise round."""
    words = []
    for clause in range(random.randint(1, 3)):
        good, negated = random.random() < 0.5, random.random() < 0.3
        words += ["and"] * (clause > 0) + ["the", random.choice(NOUNS), "was"] + ["not"] * negated
        words.append(random.choice(GOOD if good else BAD))
    return words, float(good != negated)


def collate(batch):
    rows = [torch.tensor([VOCABULARY[word] for word in words], dtype=torch.int64) for words, _ in batch]
    lengths = torch.tensor([len(row) for row in rows])
    return pad_sequence(rows, batch_first=True), lengths, torch.tensor([label for _, label in batch])


class Classifier(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embedding = nn.Embedding(len(VOCABULARY), width, padding_idx=0)
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 1)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False)
        _, (hidden, _) = self.lstm(packed)
        return self.head(torch.cat([hidden[-2], hidden[-1]], dim=1)).squeeze(1)


random.seed(0)
train = DataLoader([review() for _ in range(256)], batch_size=32, collate_fn=collate)
tokens, lengths, labels = collate([review() for _ in range(100)])
model = Classifier()
for name, p in model.named_parameters():
    scale = 0.0 if "bias" in name else p.size(1) ** -0.5
    p.data = torch.tensor([random.gauss(0, scale) for _ in range(p.numel())]).view(p.shape)
model.embedding.weight.data[0] = 0
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(8):
    model.train()
    total = 0.0
    for x, n, y in train:
        optimizer.zero_grad()
        loss = criterion(model(x, n), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        total += loss.item()
    model.eval()
    with torch.no_grad():
        right = ((model(tokens, lengths) > 0) == labels.bool()).sum()
    print(f"epoch {epoch}: loss {total / len(train):.4f}, {right.item()} of {len(labels)} unseen reviews right")
