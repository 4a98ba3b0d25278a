"""cr.compile: replays have the bits of the step itself."""

from __future__ import annotations

from typing import Any

import pytest

import chainrule as cr
from chainrule import nn, optim

F = nn.functional
MAKERS: dict[str, Any] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.01),
    "nadam": lambda p: optim.NAdam(p, lr=0.01),
}


def network(kind: str) -> nn.Module:
    if kind == "cnn":
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(144, 3)
        )
    return nn.Sequential(nn.Linear(64, 32), nn.GELU(), nn.LayerNorm(32), nn.Dropout(0.1), nn.Linear(32, 3))


def trained(kind: str, maker: str, compiled: bool) -> tuple[list[bytes], Any]:
    """The losses and the state after 7 steps, as bytes; the step."""
    cr.manual_seed(3)
    model = network(kind)
    opt = MAKERS[maker](model.parameters())
    schedule = optim.lr_scheduler.StepLR(opt, 2, 0.5)

    def step(x: cr.Tensor, y: cr.Tensor) -> cr.Tensor:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    run = cr.compile(step, fullgraph=True) if compiled else step
    found = []
    for i in range(7):
        g = cr.Generator().manual_seed(i)
        x = cr.randn(5, 1, 8, 8, generator=g) if kind == "cnn" else cr.randn(5, 64, generator=g)
        found.append(run(x, cr.tensor([0, 1, 2, 1, 0])).numpy().tobytes())
        schedule.step()
    found += [v.numpy().tobytes() for v in model.state_dict().values()]
    found += [p.grad.numpy().tobytes() for p in model.parameters()]
    return found, run


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
@pytest.mark.parametrize("maker", MAKERS)
def test_training(kind: str, maker: str) -> None:
    eager, _ = trained(kind, maker, False)
    compiled, step = trained(kind, maker, True)
    assert eager == compiled
    assert "kernels in" in step.explain()


def test_replays_do_not_run_python() -> None:
    calls = []

    @cr.compile(fullgraph=True)
    def f(x: cr.Tensor, scale: float) -> dict[str, cr.Tensor]:
        calls.append(scale)
        return {"y": x * scale + 1}

    for i in range(5):
        assert f(cr.tensor([1.0, i]), 2.0)["y"].tolist() == [3.0, 2.0 * i + 1]
    assert f(cr.tensor([1.0, 2.0]), 3.0)["y"].tolist() == [4.0, 7.0]
    assert calls == [2.0, 2.0, 3.0]


def test_module() -> None:
    model = nn.Linear(3, 2)
    fast = cr.compile(model)
    x = cr.randn(4, 3)
    assert list(fast.state_dict()) == ["weight", "bias"]
    for _ in range(4):
        model.zero_grad()
        model(x).square().sum().backward()
        wanted = model.weight.grad.tolist()
        fast.zero_grad()
        fast(x).square().sum().backward()
        assert model.weight.grad.tolist() == wanted
    assert isinstance(fast.eval(), nn.Module) and not model.training


def test_replaced_parameter() -> None:
    model = nn.Linear(2, 1, bias=False)
    f = cr.compile(lambda x: model(x).detach(), fullgraph=True)
    x = cr.ones(1, 2)
    for value in range(6):
        model.weight.data = cr.full((1, 2), float(value))
        for _ in range(3):
            assert f(x).item() == 2 * value
    model.weight.detach().fill_(7.0)
    assert f(x).item() == 14


def test_refused() -> None:
    def f(x: cr.Tensor) -> cr.Tensor:
        return x * x.sum().item()

    fast = cr.compile(f)
    x = cr.ones(3)
    fast(x)
    with pytest.warns(UserWarning, match="the value of a tensor is read"):
        assert fast(x).tolist() == [3, 3, 3]
    assert fast(x + 1).tolist() == [12, 12, 12]
    strict = cr.compile(f, fullgraph=True)
    strict(x)
    with pytest.raises(cr.Error, match="the value of a tensor is read"):
        strict(x)


def test_exception_leaves_nothing() -> None:
    calls = []

    def f(x: cr.Tensor) -> cr.Tensor:
        calls.append(1)
        if len(calls) == 2:
            raise KeyError("second")
        return x + 1

    fast = cr.compile(f)
    fast(cr.ones(2))
    with pytest.raises(KeyError):
        fast(cr.ones(2))
    assert not cr._core._recording()
    for _ in range(3):
        assert fast(cr.ones(2)).tolist() == [2, 2]


def test_escaped() -> None:
    kept: list[cr.Tensor] = []

    def f(x: cr.Tensor) -> cr.Tensor:
        kept.append(x * 3)
        return x + 1

    fast = cr.compile(f)
    fast(cr.ones(2))
    with pytest.warns(UserWarning, match="kept outside"):
        fast(cr.ones(2))
    fast(cr.full((2,), 5.0))
    assert kept[-1].tolist() == [15, 15]
