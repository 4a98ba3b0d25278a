"""Neurons, layers and networks of Values: micrograd's, with its names, its order of random numbers
and its way to print.

Weights come from ``random.uniform(-1, 1)`` of Python's own generator, so that ``random.seed(n)``
gives the same network here and there."""

from __future__ import annotations

from ._core import Value, _neuron

TYPE_CHECKING = False  # in place of typing's: importing typing takes longer than importing chainrule
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ._core import Device

__all__ = ["MLP", "Layer", "Neuron"]

Number = Value | float


class Module:
    def zero_grad(self) -> None:
        for p in self.parameters():
            p.zero_grad()

    def parameters(self) -> list[Value]:
        return []


class Neuron(Module):
    """``relu(b + w[0] x[0] + w[1] x[1] + ...)``; without relu where ``nonlin`` is false."""

    def __init__(self, nin: int, nonlin: bool = True, device: Device | str | None = None) -> None:
        import random  # here: importing chainrule takes nothing along

        self.w = [Value(random.uniform(-1, 1), device) for _ in range(nin)]
        self.b = Value(0, device)
        self.nonlin = nonlin

    def __call__(self, x: Sequence[Number]) -> Value:
        return _neuron(self.w, x, self.b, self.nonlin)

    def parameters(self) -> list[Value]:
        """The weights, then the bias."""
        return [*self.w, self.b]

    def __repr__(self) -> str:
        return f"{'ReLU' if self.nonlin else 'Linear'}Neuron({len(self.w)})"


class Layer(Module):
    """``nout`` neurons over the same input."""

    def __init__(self, nin: int, nout: int, nonlin: bool = True, device: Device | str | None = None) -> None:
        self.neurons = [Neuron(nin, nonlin, device) for _ in range(nout)]

    def __call__(self, x: Sequence[Number]) -> Any:
        """A list of Values; where there is one neuron, its Value."""
        out = [n(x) for n in self.neurons]
        return out[0] if len(out) == 1 else out

    def parameters(self) -> list[Value]:
        """Those of its neurons, one after the other."""
        return [p for n in self.neurons for p in n.parameters()]

    def __repr__(self) -> str:
        return f"Layer of [{', '.join(str(n) for n in self.neurons)}]"


class MLP(Module):
    """Layers of ``nouts`` neurons, relu after each but the last: ``MLP(2, [16, 16, 1])``."""

    def __init__(self, nin: int, nouts: Sequence[int], device: Device | str | None = None) -> None:
        sizes = [nin, *nouts]
        last = len(nouts) - 1
        self.layers = [Layer(sizes[i], sizes[i + 1], nonlin=i != last, device=device) for i in range(len(nouts))]

    def __call__(self, x: Sequence[Number]) -> Any:
        for layer in self.layers[:-1]:
            y = layer(x)
            x = y if isinstance(y, list) else [y]
        return self.layers[-1](x)

    def parameters(self) -> list[Value]:
        """Those of its layers, one after the other."""
        return [p for layer in self.layers for p in layer.parameters()]

    def __repr__(self) -> str:
        return f"MLP of [{', '.join(str(layer) for layer in self.layers)}]"
