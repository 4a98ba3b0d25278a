"""Derivatives of functions, trees, scripted functions, comparisons, functional calls."""

import torch
from torch.autograd import Function
from torch.autograd.functional import hessian, jacobian, jvp, vjp
from torch.autograd.function import once_differentiable
from torch.func import functional_call, grad, jacrev, vmap
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

x = torch.linspace(0.5, 1.5, 3)
print(jacobian(lambda t: t**2, x), hessian(lambda t: (t**3).sum(), x))
print(jvp(lambda t: t.exp(), x, torch.ones(3)), vjp(lambda t: t.sin(), x, torch.ones(3)))
print(grad(lambda t: (t**3).sum())(x), jacrev(torch.sin)(x), vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3)))
leaves, spec = tree_flatten({"a": [1, 2], "b": (3,)})
print(leaves, tree_unflatten([v * 2 for v in leaves], spec), tree_map(lambda v: v + 1, [1, (2, 3)]))


class Double(Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * 2

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * 2


@torch.jit.script
def scaled(t, s: float):
    return t * s


t = x.clone().requires_grad_()
scaled(Double.apply(t), 3.0).sum().backward()
print(t.grad)
layer = torch.nn.Linear(3, 1)
print(functional_call(layer, {"weight": torch.ones(1, 3), "bias": torch.zeros(1)}, (x,)))
torch.testing.assert_close(x, x.clone())
try:
    torch.testing.assert_close(x, x + 1)
except AssertionError as problem:
    print(str(problem).splitlines()[0])
print(torch.nn.modules.utils._pair(3), torch.nn.init._calculate_fan_in_and_fan_out(torch.zeros(2, 3, 4)))
a = torch.linspace(-2, 3, 12).view(3, 4)
norms = [torch.linalg.norm(a), torch.linalg.vector_norm(a, 1, dim=0)]
norms += [torch.linalg.matrix_norm(a, ord) for ord in ("fro", 1, -1, float("inf"))]
w = x.clone().requires_grad_()
print(norms, torch.autograd.grad((w**2).sum(), w, only_inputs=True))
