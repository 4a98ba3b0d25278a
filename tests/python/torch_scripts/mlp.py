"""Two blobs, an MLP, Adam with a schedule; the whole loop as most scripts write it."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--no-cuda", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)
device = torch.device("cuda" if not args.no_cuda and torch.cuda.is_available() else "cpu")
torch.backends.cudnn.benchmark = True


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.fc1 = nn.Linear(2, 16)
        self.fc2 = nn.Linear(16, 2)

    def forward(self, x):
        return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)


def fill(module):
    """The same weights in every library: generators differ."""
    for k, p in enumerate(module.parameters()):
        with torch.no_grad():
            p.copy_(torch.linspace(-1, 1, p.numel()).mul(7 + k).sin().view_as(p).mul(0.5))


x = torch.stack([torch.linspace(-3, 3, 64), torch.linspace(0, 9, 64).cos()], 1)
y = (x[:, 0] * x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=False)
model = Net().to(device)
fill(model)
optimizer = optim.Adam(model.parameters(), lr=0.01)
scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
for epoch in range(1, args.epochs + 1):
    model.train()
    for i, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if i % 2 == 0:
            print("Epoch {} [{}/{}] loss {:.4f}".format(epoch, i * len(data), len(x), loss.item()))
    scheduler.step()
model.eval()
with torch.no_grad():
    correct = model(x.to(device)).argmax(dim=1, keepdim=True).eq(y.view_as(y).unsqueeze(1).to(device)).sum().item()
print(
    "correct", correct, "of", len(x), "lr", round(scheduler.get_last_lr()[0], 6), x.shape, y.dtype, device, loss.shape
)
