"""Training steps of five networks, written for PyTorch: bench/scripts.py runs this file with PyTorch's torch and, as it
stands, with chainrule.torch.  compiled: torch.compile, or the identity.  A step returns its loss, a tensor."""

import torch
import torch.nn.functional as F
from torch import nn


def fill(module):
    """The same weights in every library: uniform, the deviation of He et al. 2015; biases 0, norms 1 and 0."""
    for number, (name, p) in enumerate(module.named_parameters()):
        if "bias" in name:
            p.data.zero_()
        elif p.dim() > 1:
            count = torch.arange(p.numel(), dtype=torch.float64)
            uniform = torch.frac((count + 1) * 0.6180339887498949 + number * 0.7548776662466927) * 2 - 1
            p.data.copy_((uniform * (6 / p[0].numel()) ** 0.5).view(p.shape))
    return module


def spread(*shape):
    """The same numbers in every library, from -1.7 to 1.7."""
    count = torch.arange(torch.Size(shape).numel(), dtype=torch.float64)
    return ((torch.frac(count * 0.7548776662466927) * 2 - 1) * 1.7).float().view(shape)


def labels(count, *shape):
    return (torch.arange(torch.Size(shape).numel()) * 7919 % count).view(shape)


# ---- ResNet-18 (He et al. 2016) in its form for 32 x 32: a stem of 3 x 3, no pooling


class Residual(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True))
        widths = (64, 64, 128, 256, 512)
        blocks = []
        for k in range(4):
            blocks += [Residual(widths[k], widths[k + 1], 2 if k else 1), Residual(widths[k + 1], widths[k + 1], 1)]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        h = self.blocks(self.stem(x))
        return self.head(F.adaptive_avg_pool2d(h, 1).flatten(1))


def classifier(model, optimizer, compiled, x, y):
    forward = compiled(model)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def resnet(compiled):
    model = fill(ResNet18())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    return classifier(model, optimizer, compiled, spread(32, 3, 32, 32), labels(10, 32))


# ---- LeNet-5 (LeCun et al. 1998) as it is written today


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


def lenet(compiled):
    model = fill(LeNet())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return classifier(model, optimizer, compiled, spread(64, 1, 28, 28), labels(10, 64))


# ---- DCGAN (Radford et al. 2016): both networks once


def dcgan(compiled):
    up = lambda i, o, s, p: nn.ConvTranspose2d(i, o, 4, s, p, bias=False)
    down = lambda i, o, s, p: nn.Conv2d(i, o, 4, s, p, bias=False)
    grow = [up(100, 512, 1, 0), nn.BatchNorm2d(512), nn.ReLU(True)]
    shrink = [down(3, 64, 2, 1), nn.LeakyReLU(0.2, inplace=True)]
    for c in (512, 256, 128):
        grow += [up(c, c // 2, 2, 1), nn.BatchNorm2d(c // 2), nn.ReLU(True)]
    for c in (64, 128, 256):
        shrink += [down(c, 2 * c, 2, 1), nn.BatchNorm2d(2 * c), nn.LeakyReLU(0.2, inplace=True)]
    generator = fill(nn.Sequential(*grow, up(64, 3, 2, 1), nn.Tanh()))
    discriminator = fill(nn.Sequential(*shrink, down(512, 1, 1, 0), nn.Sigmoid()))
    optimizers = [torch.optim.Adam(m.parameters(), lr=2e-4, betas=(0.5, 0.999)) for m in (discriminator, generator)]
    images, noise, criterion = spread(16, 3, 64, 64) / 1.7, spread(16, 100, 1, 1), nn.BCELoss()
    real, fake = torch.ones(16), torch.zeros(16)
    make, judge = compiled(generator), compiled(discriminator)

    def step():
        discriminator.zero_grad()
        loss_real = criterion(judge(images).view(-1), real)
        loss_real.backward()
        drawn = make(noise)
        loss_fake = criterion(judge(drawn.detach()).view(-1), fake)
        loss_fake.backward()
        optimizers[0].step()
        generator.zero_grad()
        loss = criterion(judge(drawn).view(-1), real)
        loss.backward()
        optimizers[1].step()
        return loss + loss_real + loss_fake

    return step


# ---- a small U-Net (Ronneberger et al. 2015) with group norms and SiLU, as diffusion models have it


class Double(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.norm1 = nn.GroupNorm(8, out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.norm2 = nn.GroupNorm(8, out)

    def forward(self, x):
        x = F.silu(self.norm1(self.conv1(x)))
        return F.silu(self.norm2(self.conv2(x)))


class UNet(nn.Module):
    def __init__(self, widths=(32, 64, 128)):
        super().__init__()
        ins = (3, *widths)
        self.down = nn.ModuleList([Double(ins[k], ins[k + 1]) for k in range(len(widths))])
        self.grow = nn.ModuleList([nn.ConvTranspose2d(2 * a, a, 2, 2) for a in widths[:-1]])
        self.up = nn.ModuleList([Double(2 * a, a) for a in widths[:-1]])
        self.out = nn.Conv2d(widths[0], 3, 1)

    def forward(self, x):
        skips = []
        for k, block in enumerate(self.down):
            x = block(x if k == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for k in reversed(range(len(self.up))):
            x = self.up[k](torch.cat([skips[k], self.grow[k](x)], dim=1))
        return self.out(x)


def unet(compiled):
    model = fill(UNet())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, noise, forward = spread(8, 3, 64, 64), spread(64, 3, 8, 64).transpose(0, 2).contiguous(), compiled(model)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(forward(x + noise), noise)
        loss.backward()
        optimizer.step()
        return loss

    return step


# ---- a language model of two LSTM layers over words


class WordModel(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, 2)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(self.lstm(self.embedding(tokens))[0])


def lstm(compiled, words=2000):
    model = fill(WordModel(words, 256))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    tokens, forward = labels(words, 65, 32), compiled(model)

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(forward(tokens[:-1]).view(-1, words), tokens[1:].reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        return loss

    return step


NETS = {
    "ResNet-18, 32 x 3 x 32 x 32": resnet,
    "LeNet, 64 x 28 x 28": lenet,
    "DCGAN, 16 x 3 x 64 x 64": dcgan,
    "U-Net, 8 x 3 x 64 x 64": unet,
    "LSTM words, 64 x 32": lstm,
}
