"""The half-moons of moons_tensor.py with layers, a loss, an optimizer and batches: what a training loop usually looks like.

use: python examples/moons_nn.py [picture.png]        the picture needs matplotlib, the progress bar tqdm
"""

import math
import sys

import chainrule as cr
from chainrule import Tensor, nn, optim
from chainrule.data import DataLoader, TensorDataset

EPOCHS, POINTS = 60, 200


def moons(n: int) -> tuple[Tensor, Tensor]:
    """(n, 2) points on two half circles with a little noise; (n) labels 0 and 1."""
    t, label = cr.rand(n) * math.pi, cr.arange(n) % 2
    x = cr.where(label == 0, t.cos(), 1 - t.cos())
    y = cr.where(label == 0, t.sin(), 0.5 - t.sin())
    return cr.stack([x, y], dim=1) + 0.1 * cr.randn(n, 2), label.float()


def main() -> None:
    cr.manual_seed(1337)
    points, labels = moons(POINTS)
    loader = DataLoader(TensorDataset(points, labels), batch_size=20, shuffle=True)
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    loss_of = nn.BCEWithLogitsLoss()
    for _ in cr.viz.progress(range(EPOCHS), "epochs"):
        for x, y in loader:
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()
        schedule.step()
    with cr.no_grad():
        scores = model(points)
    right = int(((scores > 0) == (labels > 0)).sum())
    print(model)
    print(f"loss {loss_of(scores, labels).item():.4f}, {right} of {POINTS} right")
    if len(sys.argv) > 1:
        cr.viz.boundary(model, points, labels).savefig(sys.argv[1])
    sys.exit(right < 0.98 * POINTS)


if __name__ == "__main__":
    main()
