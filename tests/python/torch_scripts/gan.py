"""Two optimizers, detach, BCE, buffers, apply() for initialisation, hooks, state dicts."""

import copy

import torch
from torch import nn, optim

torch.manual_seed(1)
G = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))
D = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2, inplace=True), nn.Linear(16, 1), nn.Sigmoid())


def weights_init(m):
    if m.__class__.__name__.find("Linear") != -1:
        m.weight.data.copy_(torch.arange(m.weight.nelement()).float().sin().view_as(m.weight.data) * 0.3)
        m.bias.data.fill_(0)


G.apply(weights_init)
D.apply(weights_init)
seen = []
handle = D[0].register_forward_hook(lambda module, inputs, output: seen.append(tuple(output.shape)))
criterion = nn.BCELoss()
optD = optim.RMSprop(D.parameters(), lr=1e-3)
optG = optim.Adam(G.parameters(), lr=1e-3, betas=(0.5, 0.999))
real = torch.linspace(-1, 1, 16).view(8, 2)
noise = torch.linspace(-2, 2, 32).cos().view(8, 4)
for step in range(3):
    optD.zero_grad()
    label = torch.full((8, 1), 1.0, dtype=torch.float)
    errD = criterion(D(real), label)
    errD.backward()
    fake = G(noise)
    label.fill_(0)
    errD2 = criterion(D(fake.detach()), label)
    errD2.backward()
    optD.step()
    optG.zero_grad()
    label.fill_(1)
    errG = criterion(D(fake), label)
    errG.backward()
    optG.step()
    print("[%d] Loss_D: %.4f Loss_G: %.4f" % (step, (errD + errD2).item(), errG.item()))
handle.remove()
twin = copy.deepcopy(D)
twin.load_state_dict(D.state_dict())
print(len(seen), seen[0], list(D._modules), torch.equal(twin(real), D(real)), sum(p.numel() for p in G.parameters()))
