"""The half-moons of moons_value.py with tensors: all points at once, a layer is one product, and the gradient is the same.

use: python examples/moons_tensor.py [picture.png]        the picture needs matplotlib
"""

import sys

import chainrule as cr
from chainrule import Tensor

STEPS = 200


def moons(n: int) -> tuple[Tensor, Tensor]:
    """(n, 2) points on two half circles with a little noise; (n, 1) labels -1 and 1."""
    t, half = cr.rand(n) * 3.14159265, n // 2
    x = cr.cat([t[:half].cos(), 1 - t[half:].cos()])
    y = cr.cat([t[:half].sin(), 0.5 - t[half:].sin()])
    labels = cr.cat([-cr.ones(half, 1), cr.ones(n - half, 1)])
    return cr.stack([x, y], dim=1) + 0.1 * cr.randn(n, 2), labels


def layer(nin: int, nout: int) -> list[Tensor]:
    """Weight (nin, nout) and bias (nout); a leaf made by Tensor() collects a gradient."""
    return [Tensor(cr.rand(nin, nout) * 2 - 1), Tensor([0.0] * nout)]


def forward(parameters: list[Tensor], x: Tensor) -> Tensor:
    w1, b1, w2, b2, w3, b3 = parameters
    x = (x @ w1 + b1).relu()
    x = (x @ w2 + b2).relu()
    return x @ w3 + b3


def main() -> None:
    cr.manual_seed(1337)
    points, labels = moons(100)
    parameters = layer(2, 16) + layer(16, 16) + layer(16, 1)
    loss, right = cr.zeros(()), 0
    for step in range(STEPS):
        scores = forward(parameters, points)
        loss = (1 - labels * scores).relu().mean()
        for p in parameters:
            loss = loss + 1e-4 * (p * p).sum()
            p.grad = None
        loss.backward()
        with cr.no_grad():
            for p in parameters:
                if p.grad is not None:
                    p -= (0.5 - 0.45 * step / STEPS) * p.grad
        right = int(((scores > 0) == (labels > 0)).sum())
    print(f"loss {loss.item():.4f}, {right} of {len(labels)} right")
    if len(sys.argv) > 1:
        cr.viz.boundary(lambda point: forward(parameters, cr.tensor([point])), points, labels.flatten()).savefig(sys.argv[1])
    sys.exit(right < 98)


if __name__ == "__main__":
    main()
