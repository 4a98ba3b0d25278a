"""A deep convolutional GAN learns to draw discs: transposed convolutions, batch norms, two optimizers."""

import random

import torch
from torch import nn

NOISE, BATCH = 8, 16


def gauss(*shape, scale=1.0):
    """The same random numbers in every library."""
    return torch.tensor([random.gauss(0, scale) for _ in range(torch.Size(shape).numel())]).view(shape)


def discs(count):
    """Discs of any radius and center, (N, 1, 8, 8), from -1 to 1."""
    rows, columns = torch.arange(8.0).view(8, 1), torch.arange(8.0).view(1, 8)
    images = []
    for _ in range(count):
        y, x, radius = random.uniform(2.5, 4.5), random.uniform(2.5, 4.5), random.uniform(1.5, 3.0)
        distance = torch.sqrt((rows - y) ** 2 + (columns - x) ** 2)
        images.append(torch.tanh(2 * (radius - distance)))
    return torch.stack(images).unsqueeze(1)


def weights_init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        m.weight.data.copy_(gauss(*m.weight.shape, scale=0.1))
    elif isinstance(m, nn.BatchNorm2d):
        m.weight.data.fill_(1.0)
        m.bias.data.zero_()


random.seed(0)
generator = nn.Sequential(
    nn.ConvTranspose2d(NOISE, 16, 2, 1, 0, bias=False),  # 1 x 1 -> 2 x 2
    nn.BatchNorm2d(16),
    nn.ReLU(True),
    nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False),  # -> 4 x 4
    nn.BatchNorm2d(8),
    nn.ReLU(True),
    nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False),  # -> 8 x 8
    nn.Tanh(),
)
discriminator = nn.Sequential(
    nn.Conv2d(1, 8, 4, 2, 1, bias=False),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(8, 16, 4, 2, 1, bias=False),
    nn.BatchNorm2d(16),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(16, 1, 2, 1, 0, bias=False),
    nn.Sigmoid(),
)
generator.apply(weights_init)
discriminator.apply(weights_init)
criterion = nn.BCELoss()
optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
optimizer_g = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
for step in range(41):
    discriminator.zero_grad()
    fake = generator(gauss(BATCH, NOISE, 1, 1))
    loss_real = criterion(discriminator(discs(BATCH)).view(-1), torch.ones(BATCH))
    loss_fake = criterion(discriminator(fake.detach()).view(-1), torch.zeros(BATCH))
    loss_d = loss_real + loss_fake
    loss_d.backward()
    optimizer_d.step()
    generator.zero_grad()
    loss_g = criterion(discriminator(fake).view(-1), torch.ones(BATCH))
    loss_g.backward()
    optimizer_g.step()
    if step % 10 == 0:
        print(f"step {step}: discriminator {loss_d.item():.4f}, generator {loss_g.item():.4f}")
generator.eval()
with torch.no_grad():
    print(f"mean of drawn images {generator(gauss(BATCH, NOISE, 1, 1)).mean().item():.3f}")
