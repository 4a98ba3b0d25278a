"""A vision transformer says whether a row or a column is bright: patches, a class token, positions."""

import random

import torch
from torch import nn

SIZE, PATCH, WIDTH = 12, 4, 24


def stripes(count):
    """Noise with a bright row (0), a bright column (1), or both (2): (N, 1, 12, 12) and (N)."""
    x = torch.tensor([random.gauss(0, 0.5) for _ in range(count * SIZE * SIZE)]).view(count, 1, SIZE, SIZE)
    y = torch.arange(count) % 3
    for image, label in zip(x, y.tolist(), strict=True):
        if label != 1:
            image[0, random.randrange(SIZE)] += 1.5
        if label != 0:
            image[0, :, random.randrange(SIZE)] += 1.5
    return x, y


class ViT(nn.Module):
    def __init__(self, classes=3, depth=2, heads=4):
        super().__init__()
        self.patches = nn.Conv2d(1, WIDTH, kernel_size=PATCH, stride=PATCH)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.position = nn.Parameter(torch.zeros(1, 1 + (SIZE // PATCH) ** 2, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, heads, 2 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, classes))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)  # (N, 9, WIDTH)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        return self.head(self.encoder(x)[:, 0])


def init(module):
    """The same weights in every library."""
    for name, p in module.named_parameters():
        if p.dim() > 1:
            scale = p[0].numel() ** -0.5
            p.data = torch.tensor([random.gauss(0, scale) for _ in range(p.numel())]).view(p.shape)
        elif "bias" in name:
            nn.init.zeros_(p)


random.seed(0)
x, y = stripes(240)
unseen_x, unseen_y = stripes(90)
model = ViT()
init(model)
decay = [p for p in model.parameters() if p.dim() > 1]
rest = [p for p in model.parameters() if p.dim() <= 1]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0}], lr=3e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=80)
for epoch in range(10):
    model.train()
    for xb, yb in zip(x.split(30), y.split(30), strict=True):
        loss = nn.functional.cross_entropy(model(xb), yb, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(unseen_x).argmax(-1) == unseen_y).float().mean().item()
    print(f"epoch {epoch}: loss {loss.item():.4f}, unseen {accuracy:.2f}, lr {scheduler.get_last_lr()[0]:.5f}")
