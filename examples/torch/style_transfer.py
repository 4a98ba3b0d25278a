"""Style transfer: L-BFGS changes an image until it has the features of one and the Gram matrices of another."""

import random

import torch
import torch.nn.functional as F
from torch import nn

SIZE, CONTENT, STYLE = 24, "conv_2", ("conv_1", "conv_2", "conv_3")


def wave(rows, columns):
    """A color image of waves, (1, 3, 24, 24), from 0 to 1."""
    y, x = torch.meshgrid(torch.arange(float(SIZE)), torch.arange(float(SIZE)), indexing="ij")
    return torch.stack([0.5 + 0.5 * torch.sin(rows * y + columns * x + c) for c in range(3)])[None]


class Features(nn.Module):
    """A fixed network with random weights; forward returns the features of each convolution by name."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(-1, 1, 1))
        self.layers = nn.Sequential()
        for i, (channels, out) in enumerate([(3, 8), (8, 12), (12, 16)], start=1):
            conv = nn.Conv2d(channels, out, 3, padding=1)
            scale = (2 / conv.weight[0].numel()) ** 0.5
            conv.weight.data.copy_(
                torch.tensor([random.gauss(0, scale) for _ in range(conv.weight.numel())]).view(conv.weight.shape)
            )
            conv.bias.data.zero_()
            self.layers.add_module(f"conv_{i}", conv)
            self.layers.add_module(f"relu_{i}", nn.ReLU(inplace=False))
            self.layers.add_module(f"pool_{i}", nn.AvgPool2d(2))

    def forward(self, x):
        x, found = x - self.mean, {}
        for name, layer in self.layers.named_children():
            x = layer(x)
            if name.startswith("conv"):
                found[name] = x
        return found


def gram_matrix(features):
    n, c, h, w = features.size()
    rows = features.view(n * c, h * w)
    return torch.mm(rows, rows.t()).div(n * c * h * w)


random.seed(0)
network = Features().eval().requires_grad_(False)
content, style = wave(0.2, 0.1), wave(1.5, -1.0)
wanted_content = network(content)[CONTENT].detach()
wanted_style = {name: gram_matrix(features).detach() for name, features in network(style).items()}
image = content.clone().requires_grad_(True)
optimizer = torch.optim.LBFGS([image], max_iter=5, line_search_fn="strong_wolfe")
print(f"mean before {image.mean().item():.4f}")
for step in range(5):

    def closure():
        optimizer.zero_grad()
        features = network(image)
        content_loss = F.mse_loss(features[CONTENT], wanted_content)
        style_loss = sum(F.mse_loss(gram_matrix(features[name]), wanted_style[name]) for name in STYLE)
        loss = content_loss + 1000 * style_loss
        loss.backward()
        closure.losses = content_loss.item(), 1000 * style_loss.item()
        return loss

    optimizer.step(closure)
    print("step {}: content {:.4f}, style {:.4f}".format(step, *closure.losses))
with torch.no_grad():
    image.clamp_(0, 1)
print(f"mean after {image.mean().item():.3f}")
