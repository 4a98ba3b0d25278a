"""einops with functions and layers."""

import torch
from einops import einsum, rearrange, reduce, repeat
from einops.layers.torch import Rearrange, Reduce

x = torch.linspace(-1, 1, 2 * 8 * 12).view(2, 8, 12).requires_grad_()
q, k, v = (rearrange(t, "b n (h d) -> b h n d", h=2) for t in x.chunk(3, dim=-1))
att = einsum(q, k, "b h i d, b h j d -> b h i j").softmax(dim=-1)
out = rearrange(att @ v, "b h n d -> b n (h d)")
pooled = reduce(out, "b n d -> b d", "mean") + reduce(out, "b (n two) d -> b d", "max", two=2)
loss = (repeat(pooled, "b d -> b d r", r=3) ** 2).sum()
loss.backward()
print("%.3f %.3f" % (loss.item(), x.grad.abs().sum().item()), out.shape)
model = torch.nn.Sequential(Rearrange("b (h w) d -> b h w d", h=2), Reduce("b h w d -> b d", "mean"))
print(model(x).shape)
