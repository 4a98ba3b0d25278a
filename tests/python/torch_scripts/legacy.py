"""The names of 2017: Variable, FloatTensor, type(), data[0] is gone, volatile is accepted."""

import torch
from torch.autograd import Variable

dtype = torch.FloatTensor  # torch.cuda.FloatTensor on a GPU
x = Variable(torch.linspace(-1, 1, 20).view(4, 5).type(dtype), requires_grad=False)
w = Variable(torch.linspace(1, 2, 15).view(5, 3).type(dtype), requires_grad=True)
for t in range(5):
    loss = (x.mm(w).clamp(min=0) - 1).pow(2).sum()
    print(t, "%.2f" % loss.data.item())
    loss.backward(retain_graph=True)
    w.data -= 1e-2 * w.grad.data
    w.grad.data.zero_()
print(x.type(), w.long().type(), torch.ones(2).byte().type(), torch.Tensor(2, 3).size(), torch.Tensor([1, 2]))
print(isinstance(x, torch.Tensor), isinstance(x, torch.FloatTensor), isinstance(w, Variable), torch.is_tensor(x))
a = torch.LongTensor([[1, 2], [3, 4]])
print(a, a.new(2, 2).shape, a.type(torch.FloatTensor), a.float().mean(), a.nelement(), a.dim())
b = torch.zeros(3)
b.unsqueeze_(0).add_(2)
b.t_()
print(b, b.size(), b.is_sparse, b.get_device(), b.is_cuda, b.layout, b.element_size())
print(torch.randn(2, 2).type_as(a).type(), torch.Tensor().numel(), torch.IntTensor(3).fill_(2), torch.pi, torch.inf)
b.resize_(2, 1)
print(b, torch.typename(b), b.numel(), torch.device("cuda:0"), torch.device("cuda:1").index, repr(torch.device("cpu")))
print(torch.float32, torch.Size([2, 3]), torch.get_default_dtype(), torch.zeros(2).device, type(torch.zeros(1).item()))
torch.set_default_tensor_type("torch.DoubleTensor")
print(torch.ones(2), torch.tensor(1.5).dtype, torch.Tensor([1]).dtype)
torch.set_default_dtype(torch.float32)
out = torch.empty(3)
print(
    torch.add(torch.ones(3), 2, out=out),
    out,
    torch.zeros(size=(2,)),
    torch.ones(2, 2).flip(dims=(0,)).reshape(shape=(4,)),
)
