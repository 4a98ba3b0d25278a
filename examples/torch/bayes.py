"""Variational Bayes: a normal distribution of a line's weights, by the ELBO, beside the exact posterior."""

import random

import torch
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence

SIGMA, DRAWS = 0.5, 8

random.seed(0)
x = torch.linspace(-1, 1, 20)
design = torch.stack([torch.ones_like(x), x], dim=1)  # (20, 2)
y = 0.7 - 1.2 * x + torch.tensor([random.gauss(0, SIGMA) for _ in x])
prior = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)

mean = torch.zeros(2, requires_grad=True)
log_scale = torch.zeros(2, requires_grad=True)
optimizer = torch.optim.Adam([mean, log_scale], lr=0.05)
for step in range(201):
    posterior = Independent(Normal(mean, log_scale.exp()), 1)
    noise = torch.tensor([[random.gauss(0, 1) for _ in range(2)] for _ in range(DRAWS)])
    weights = mean + noise * log_scale.exp()  # what rsample does, with numbers that are the same in every library
    likelihood = Normal(weights @ design.T, SIGMA).log_prob(y).sum(dim=1).mean()
    elbo = likelihood - kl_divergence(posterior, prior)
    optimizer.zero_grad()
    (-elbo).backward()
    optimizer.step()
    if step % 40 == 0:
        print(f"step {step}: ELBO {elbo.item():.4f}")

precision = (design.T @ design / SIGMA**2 + torch.eye(2)).diagonal()  # the columns of design are orthogonal
exact = Normal(design.T @ y / SIGMA**2 / precision, precision**-0.5)
print("means", *(f"{found:.3f} ({right:.3f})" for found, right in zip(mean.tolist(), exact.mean.tolist(), strict=True)))
scales = zip(posterior.base_dist.scale.tolist(), exact.stddev.tolist(), strict=True)
print("scales", *(f"{found:.3f} ({right:.3f})" for found, right in scales))
evidence = MultivariateNormal(torch.zeros(20), design @ design.T + SIGMA**2 * torch.eye(20)).log_prob(y)
print(f"log evidence {evidence.item():.4f}, entropy {posterior.entropy().item():.4f}")
