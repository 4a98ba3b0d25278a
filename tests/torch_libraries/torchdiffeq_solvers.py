# torchdiffeq: every solver, the adjoint, events; a neural ODE learns a spiral.
import torch
from same import fill, gradients, show
from torch import nn

from torchdiffeq import odeint, odeint_adjoint, odeint_event

turn = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
t = torch.linspace(0.0, 2.0, 9)
start = torch.tensor([[2.0, 0.0]])


class Curve(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = fill(nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)))

    def forward(self, t, y):
        return self.net(y**3)


def true(t, y):
    return y**3 @ turn


steps = {"step_size": 0.02}
SOLVERS = {
    "dopri5": {}, "dopri8": {}, "bosh3": {}, "fehlberg2": {}, "adaptive_heun": {}, "tsit5": {},
    "euler": steps, "midpoint": steps, "heun2": steps, "heun3": steps, "rk4": steps, "explicit_adams": steps,
    "implicit_adams": steps,
}  # fmt: skip
with torch.no_grad():
    precise = [v.double() for v in (turn, start, t)]
    for name, options in SOLVERS.items():
        try:
            found = odeint(
                lambda t, y: y**3 @ precise[0],
                precise[1],
                precise[2],
                method=name,
                options=options,
                rtol=1e-6,
                atol=1e-7,
            )
        except ValueError as problem:
            print(name, type(problem).__name__)
            continue
        show(name, *found[-1, 0], found.abs().sum())
wanted = odeint(true, start, t).detach()
for solve in (odeint, odeint_adjoint):
    for method, options in (("dopri5", {}), ("rk4", {"step_size": 0.125})):
        model = Curve()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(3):
            loss = (solve(model, start, t, method=method, options=options, rtol=1e-5, atol=1e-6) - wanted).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        show(f"{solve.__name__} {method}", loss, gradients(model))
time, state = odeint_event(
    lambda t, y: torch.stack([y[1], -torch.ones(()) * 9.8]), torch.tensor([10.0, 0.0]), torch.tensor(0.0),
    event_fn=lambda t, y: y[0], odeint_interface=odeint,
)  # fmt: skip
show("falls", time, *state[-1])
backwards = odeint(true, wanted[-1], t.flip(0), rtol=1e-6, atol=1e-8)
show("back", *backwards[-1, 0])
pair = odeint(lambda t, y: (y[1], -y[0]), (torch.tensor([1.0, 0.5]), torch.tensor([0.0, 0.1])), t)
show("pair", *pair[0][-1], *pair[1][-1])
