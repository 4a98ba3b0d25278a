"""A script as a user writes it: two moons, learned with plain tensors.  tests/python/test_stub.py runs it, `make test` type-checks it."""

from __future__ import annotations

import chainrule as cr
from chainrule import Tensor


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


def look(x: Tensor) -> str:
    rows, columns = x.shape
    largest, where = x.max(dim=1)
    views: list[Tensor] = [x[0], x[:, 1], x[None, ..., -1], x.reshape(-1, 1), x.view((columns, rows)), *x.split(2)]
    kind: cr.dtype = x.dtype
    device: cr.Device = x.device
    assert isinstance(x.size(), cr.Size) and x.size(0) == rows and x.stride() == (columns, 1) and where.dtype == cr.int64
    return f"{kind} {device} {[tuple(v.shape) for v in views]} {largest.tolist()} {x.sum().item()} {x.max().to(cr.float64).item()}"


if __name__ == "__main__":
    accuracy = train(200)
    print(look(cr.arange(6).reshape(3, 2).to("cpu", cr.float)))
    print(f"right on {accuracy:.1%}")
    assert accuracy > 0.95
