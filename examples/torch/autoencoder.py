"""A denoising autoencoder: convolutions and pooling shrink an image, upsampling makes it whole again."""

import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Checks(Dataset):
    """Item: a noisy image of checks and the clean one, (1, 8, 8) each."""

    def __init__(self, count):
        self.items = []
        for _ in range(count):
            rows = torch.tensor([random.choice([-1.0, 1.0]) for _ in range(4)]).repeat_interleave(2)
            columns = torch.tensor([random.choice([-1.0, 1.0]) for _ in range(4)]).repeat_interleave(2)
            clean = (torch.outer(rows, columns) > 0).float()[None]
            noise = torch.tensor([random.gauss(0, 0.4) for _ in range(64)]).view(1, 8, 8)
            self.items.append((clean + noise, clean))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.ELU(), nn.MaxPool2d(2), nn.Conv2d(12, 8, 3, padding=1), nn.ELU()
        )
        self.decoder = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
            nn.Conv2d(8, 12, 3, padding=1),
            nn.ELU(),
            nn.Conv2d(12, 1, 3, padding=1, padding_mode="replicate"),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.decoder(self.encoder(x))


random.seed(0)
data = Checks(128)
loader = DataLoader(data, batch_size=16, shuffle=False, drop_last=True)
model = Autoencoder()
for p in model.parameters():
    scale = p[0].numel() ** -0.5 if p.dim() > 1 else 0.0
    p.data = torch.tensor([random.gauss(0, scale) for _ in range(p.numel())]).view(p.shape)
optimizer = torch.optim.NAdam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
for epoch in range(8):
    total = 0.0
    for noisy, clean in loader:
        loss = F.binary_cross_entropy(model(noisy), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() / len(loader)
    scheduler.step(total)
    print(f"epoch {epoch}: loss {total:.4f}, lr {optimizer.param_groups[0]['lr']:g}")
with torch.no_grad():
    noisy, clean = data[3]
    error = F.mse_loss(model(noisy[None])[0], clean).item()
print(f"error of the noisy image {F.mse_loss(noisy, clean).item():.4f}, of the restored one {error:.4f}")
