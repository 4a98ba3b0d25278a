"""Two half-moons told apart by a network of single numbers: micrograd's demonstration.  The next step is moons_tensor.py.

use: python examples/moons_value.py [picture.png]        the picture needs matplotlib, the progress bar tqdm
"""

import math
import random
import sys

import chainrule as cr
from chainrule import Value

STEPS = 100


def moons(n: int) -> tuple[list[list[float]], list[int]]:
    """Points on two half circles with a little noise; labels -1 and 1."""
    points, labels = [], []
    for i in range(n):
        t, label = math.pi * random.random(), 2 * (i % 2) - 1
        x, y = (math.cos(t), math.sin(t)) if label < 0 else (1 - math.cos(t), 0.5 - math.sin(t))
        points.append([x + random.gauss(0, 0.1), y + random.gauss(0, 0.1)])
        labels.append(label)
    return points, labels


def main() -> None:
    random.seed(1337)
    points, labels = moons(100)
    model = cr.MLP(2, [16, 16, 1])
    loss, right = Value(0), 0
    for step in cr.viz.progress(range(STEPS)):
        scores = [model([Value(x) for x in point]) for point in points]
        # each score should have its label's sign, and by a margin of 1; large weights cost a little
        hinge = sum((1 - label * score).relu() for label, score in zip(labels, scores, strict=True)) / len(labels)
        loss = hinge + 1e-4 * sum(p * p for p in model.parameters())
        model.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data -= (1.0 - 0.9 * step / STEPS) * p.grad
        right = sum((score.data > 0) == (label > 0) for label, score in zip(labels, scores, strict=True))
    print(f"loss {loss.data:.4f}, {right} of {len(labels)} right")
    if len(sys.argv) > 1:
        cr.viz.boundary(model, points, labels).savefig(sys.argv[1])
    sys.exit(right < 98)


if __name__ == "__main__":
    main()
