# torch_geometric without its compiled parts: data, loaders, transforms, and layers that learn nodes, edges and graphs.
import torch
import torch_geometric.nn as g
from same import fill, gradients, numbers, show
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import (
    add_self_loops,
    degree,
    dropout_edge,
    negative_sampling,
    softmax,
    to_dense_adj,
    to_undirected,
)

n = 12
edges = to_undirected(torch.stack([torch.arange(n), (torch.arange(n) * 5 + 1) % n]))
x, y = numbers(n, 6), torch.arange(n) % 3
attributes = numbers(edges.shape[1], 4, seed=4)
weight = attributes[:, 0].abs()
data = Data(x=x, edge_index=edges, y=y, edge_attr=attributes)
print(data, data.num_nodes, data.has_isolated_nodes(), data.is_undirected())
show("degree", *degree(edges[0], n))
show("dense", to_dense_adj(edges).sum(), softmax(weight, edges[1]).sum(), add_self_loops(edges)[0].sum())
perceptron = lambda i, o: nn.Sequential(nn.Linear(i, 8), nn.ReLU(), nn.Linear(8, o))  # noqa: E731
LAYERS = {
    "GCN": (g.GCNConv(6, 3), "weight"), "SAGE": (g.SAGEConv(6, 3), ""),
    "GAT": (g.GATConv(6, 3, heads=2, concat=False), ""),
    "GATv2": (g.GATv2Conv(6, 3, edge_dim=4), "attr"), "GIN": (g.GINConv(perceptron(6, 3), train_eps=True), ""),
    "GINE": (g.GINEConv(perceptron(6, 3), edge_dim=4), "attr"), "Graph": (g.GraphConv(6, 3), "weight"),
    "Cheb": (g.ChebConv(6, 3, 2), "weight"), "SG": (g.SGConv(6, 3, 2), "weight"), "TAG": (g.TAGConv(6, 3, 2), "weight"),
    "Transformer": (g.TransformerConv(6, 3, heads=2, concat=False, edge_dim=4), "attr"),
    "ARMA": (g.ARMAConv(6, 3), "weight"), "Edge": (g.EdgeConv(perceptron(12, 3)), ""),
    "NN": (g.NNConv(6, 3, nn.Linear(4, 18)), "attr"), "Gated": (g.GatedGraphConv(6, 2), "weight"),
    "ResGated": (g.ResGatedGraphConv(6, 3), ""), "CG": (g.CGConv(6, 4), "attr"), "LE": (g.LEConv(6, 3), "weight"),
    "GEN": (g.GENConv(6, 3, edge_dim=4), "attr"), "Cluster": (g.ClusterGCNConv(6, 3), ""), "MF": (g.MFConv(6, 3), ""),
    "FiLM": (g.FiLMConv(6, 3), ""), "Super": (g.SuperGATConv(6, 3), ""), "PNA": (g.PNAConv(
        6, 3, ["mean", "max", "std"], ["identity", "amplification"], degree(degree(edges[1], n).long())), ""),
    "Appnp": (g.APPNP(3, 0.1), "weight"), "GPS": (g.GPSConv(6, g.GCNConv(6, 6), heads=2, dropout=0.0), ""),
}  # fmt: skip
for name, (layer, kind) in LAYERS.items():
    fill(layer)
    given = {"weight": {"edge_weight": weight}, "attr": {"edge_attr": attributes}, "": {}}[kind]
    leaf = x.clone().requires_grad_()
    out = layer(leaf, edges, **given)
    out.square().mean().backward()
    show(name, out.detach().abs().mean(), leaf.grad.abs().sum(), gradients(layer))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.norm, self.two = g.GCNConv(6, 16), g.BatchNorm(16), g.GATConv(16, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, x, edges, batch=None):
        x = self.norm(self.one(x, edges)).relu()
        x = self.two(x, edges).relu()
        return self.out(x if batch is None else g.global_mean_pool(x, batch) + g.global_max_pool(x, batch))


net = fill(Net())
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(4):
    loss = nn.functional.cross_entropy(net(data.x, data.edge_index), data.y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show("nodes", loss.detach())
graphs = [Data(x=numbers(5 + i, 6, seed=i), edge_index=torch.stack([torch.arange(5 + i), torch.arange(5 + i).roll(1)]),
               y=torch.tensor([i % 3])) for i in range(6)]  # fmt: skip
net = fill(Net())
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(3):
    for batch in DataLoader(graphs, 3):
        loss = nn.functional.cross_entropy(net(batch.x, batch.edge_index, batch.batch), batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    show("graphs", loss.detach())
whole = Batch.from_data_list(graphs)
print(whole, [tuple(d.x.shape) for d in whole.to_data_list()])
for pool in (g.TopKPooling(6, 0.5), g.SAGPooling(6, 0.5)):
    found = fill(pool)(whole.x, whole.edge_index, batch=whole.batch)
    show(type(pool).__name__, found[0].detach().abs().sum(), found[1].sum())
torch.manual_seed(0)
kept, mask = dropout_edge(edges, 0.5)
print(kept.shape[0], mask.dtype, negative_sampling(edges, n, 5).shape[0])
