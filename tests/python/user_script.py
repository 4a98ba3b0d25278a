"""A script as a user writes it: two moons, learned with plain tensors and with layers.
tests/python/test_stub.py runs it, `make test` type-checks it."""

from __future__ import annotations

import chainrule as cr
from chainrule import Tensor, nn, optim
from chainrule.data import DataLoader, TensorDataset


def two_moons(n: int) -> tuple[Tensor, Tensor]:
    """n points of each moon : (2 n, 2), and which moon each is on, -1 or 1 : (2 n, 1)."""
    angle = cr.linspace(0, 3.14159, n)
    upper = cr.stack([angle.cos(), angle.sin()], dim=1)
    lower = cr.stack([1 - angle.cos(), 0.5 - angle.sin()], dim=1)
    x = cr.cat([upper, lower]) + 0.1 * cr.randn(2 * n, 2)
    return x, cr.cat((cr.full((n, 1), -1.0), cr.ones(n, 1)))


def layer(inputs: int, outputs: int) -> list[Tensor]:
    w = cr.randn(inputs, outputs) * inputs**-0.5
    return [w.requires_grad_(), cr.zeros(outputs, requires_grad=True)]


def logits(x: Tensor, parameters: list[Tensor]) -> Tensor:
    for i in range(0, len(parameters), 2):
        x = x @ parameters[i] + parameters[i + 1]
        if i + 2 < len(parameters):
            x = x.tanh()
    return x


def train(steps: int) -> float:
    cr.manual_seed(1)
    x, y = two_moons(50)
    parameters = [*layer(2, 16), *layer(16, 16), *layer(16, 1)]
    for _ in range(steps):
        loss = (1 - y * logits(x, parameters)).relu().mean()
        loss.backward()
        with cr.no_grad():
            for p in parameters:
                assert p.grad is not None
                p -= 0.5 * p.grad
                p.grad = None
    guess = logits(x, parameters) > 0
    return float(((y > 0) == guess).double().mean())


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(2, width)
        self.out = nn.Linear(width, 1)
        self.register_buffer("scale", cr.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.out(self.hidden(x).tanh()) * self.scale
        return y


def train_layers(epochs: int) -> float:
    cr.manual_seed(1)
    x, y = two_moons(50)
    net = Net(16)
    optimizer = optim.AdamW(
        [{"params": net.hidden.parameters()}, {"params": net.out.parameters(), "weight_decay": 0.0}], lr=0.05
    )
    schedule = optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=5 * epochs)
    for _ in range(epochs):
        for inputs, labels in DataLoader(TensorDataset(x, y), batch_size=20, shuffle=True, num_workers=1):
            loss = nn.functional.binary_cross_entropy_with_logits(net(inputs), (labels + 1) / 2)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return float(((net(x) > 0) == (y > 0)).double().mean())


def look(x: Tensor) -> str:
    rows, columns = x.shape
    largest, where = x.max(dim=1)
    views: list[Tensor] = [x[0], x[:, 1], x[None, ..., -1], x.reshape(-1, 1), x.view((columns, rows)), *x.split(2)]
    kind: cr.dtype = x.dtype
    device: cr.Device = x.device
    assert (
        isinstance(x.size(), cr.Size) and x.size(0) == rows and x.stride() == (columns, 1) and where.dtype == cr.int64
    )
    return (
        f"{kind} {device} {[tuple(v.shape) for v in views]} {largest.tolist()} {x.sum().item()}"
        f" {x.max().to(cr.float64).item()}"
    )


if __name__ == "__main__":
    accuracy = train(200)
    print(look(cr.arange(6).reshape(3, 2).to("cpu", cr.float)))
    print(f"right on {accuracy:.1%}, with layers on {(layers := train_layers(120)):.1%}")
    assert accuracy > 0.95 and layers > 0.95
