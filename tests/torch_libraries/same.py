"""Equal weights and data for both libraries, whose random numbers differ."""

import math

import torch


def numbers(*shape, scale=1.0, seed=0):
    """Numbers between -scale and scale that look random."""
    n = math.prod(shape)
    x = torch.arange(n, dtype=torch.float64) * 12.9898 + 78.233 * (seed + 1)
    x = x.sin() * 43758.5453
    return ((x - x.floor()) * 2 - 1).mul(scale).float().reshape(shape)


def fill(module):
    """Sets all parameters: weights of one axis are near 1, other vectors near 0."""
    with torch.no_grad():
        for seed, (name, p) in enumerate(sorted(module.named_parameters())):
            if p.ndim > 1:
                p.copy_(numbers(*p.shape, scale=1 / math.sqrt(p[0].numel()), seed=seed))
            else:
                p.copy_(0.1 * numbers(*p.shape, seed=seed) + float(name.endswith("weight")))
    return module


def show(name, *values):
    print(name, *(f"{float(v):.5f}" for v in values))


def gradients(module):
    """The sum of the absolute gradients."""
    return sum(float(p.grad.abs().sum()) for p in module.parameters() if p.grad is not None)


# Importing torchvision needs the names of these ops, also where its compiled part does not load.
try:
    _library = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _library.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
except RuntimeError:  # it did load
    pass
