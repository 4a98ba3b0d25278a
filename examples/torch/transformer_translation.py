"""nn.Transformer translates numbers in digits into words; then it translates unseen ones word by word."""

import math
import random

import torch
from torch import nn

UNITS = "zero one two three four five six seven eight nine".split()
TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
WORDS = ["<pad>", "<start>", "<end>", *UNITS[1:], *TENS[2:], "hundred"]
PAD, START, END = 0, 1, 2
WIDTH = 32


def words(number):
    hundreds, tens, units = number // 100, number // 10 % 10, number % 10
    text = [UNITS[hundreds], "hundred"] if hundreds else []
    return text + [TENS[tens]] * (tens > 0) + [UNITS[units]] * (units > 0)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.source = nn.Embedding(10, WIDTH)
        self.target = nn.Embedding(len(WORDS), WIDTH, padding_idx=PAD)
        self.transformer = nn.Transformer(WIDTH, 4, 1, 1, dim_feedforward=64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, len(WORDS))
        angle = torch.arange(8.0)[:, None] * torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(100.0) / WIDTH))
        self.register_buffer("position", torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1))

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        padding = torch.zeros(target.shape).masked_fill(target == PAD, float("-inf"))
        h = self.transformer(
            self.source(source) + self.position[: source.size(1)],
            self.target(target) + self.position[: target.size(1)],
            tgt_mask=mask,
            tgt_key_padding_mask=padding,
        )
        return self.head(h)


random.seed(0)
numbers = [100 * h + 10 * t + u for h in range(10) for t in (0, 2, 3, 4, 5, 6, 7, 8, 9) for u in range(10)][1:]
random.shuffle(numbers)
source = torch.tensor([[int(digit) for digit in f"{n:03}"] for n in numbers])
rows = [torch.tensor([START, *(WORDS.index(word) for word in words(n)), END]) for n in numbers]
target = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
model = Translator()
for name, p in model.named_parameters():
    if p.dim() > 1:
        p.data = torch.tensor([random.gauss(0, p.size(1) ** -0.5) for _ in range(p.numel())]).view(p.shape)
    elif "bias" in name:
        nn.init.zeros_(p)
criterion = nn.CrossEntropyLoss(ignore_index=PAD)
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, betas=(0.9, 0.98), eps=1e-9)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))
for step in range(81):
    batch = torch.arange(step * 64, step * 64 + 64) % 800
    logits = model(source[batch], target[batch, :-1])
    loss = criterion(logits.transpose(1, 2), target[batch, 1:])
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    if step % 10 == 0:
        print(f"step {step}: loss {loss.item():.4f}")

model.eval()
with torch.no_grad():
    for n, digits in zip(numbers[-4:], source[-4:], strict=True):
        tokens = torch.tensor([[START]])
        while tokens[0, -1] != END and tokens.size(1) < 6:
            tokens = torch.cat([tokens, model(digits[None], tokens)[:, -1].argmax(-1, keepdim=True)], dim=1)
        print(n, *(WORDS[token] for token in tokens[0, 1:].tolist()))
