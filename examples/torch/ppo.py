"""Proximal policy optimization with generalized advantages on a one-dimensional balance task."""

import random

import torch
from torch import nn

GAMMA, LAMBDA, CLIP, STEPS = 0.95, 0.9, 0.2, 128


class Balance:
    """A point with position and speed; an action pushes it left or right; it should stay near 0."""

    def reset(self):
        self.x, self.v = random.uniform(-0.5, 0.5), 0.0
        return [self.x, self.v]

    def step(self, action):
        self.v += 0.1 if action == 1 else -0.1
        self.x += 0.1 * self.v
        done = abs(self.x) > 1
        return [self.x, self.v], 1.0 - abs(self.x), done


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
        self.critic = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x):
        return torch.log_softmax(self.actor(x), dim=-1), self.critic(x).squeeze(-1)


random.seed(0)
model, environment = ActorCritic(), Balance()
with torch.no_grad():
    for k, p in enumerate(model.parameters()):
        p.copy_(torch.sin(torch.arange(p.numel()) * 0.7 + k).reshape(p.shape) * 0.3)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
state = environment.reset()
for update in range(25):
    states, actions, rewards, dones = [], [], [], []
    for _ in range(STEPS):
        with torch.no_grad():
            log_prob, _ = model(torch.tensor(state))
        action = int(random.random() < log_prob.exp()[1].item())
        after, reward, done = environment.step(action)
        for kept, value in zip((states, actions, rewards, dones), (state, action, reward, done), strict=True):
            kept.append(value)
        state = environment.reset() if done else after
    x, taken = torch.tensor(states), torch.tensor(actions).unsqueeze(1)
    with torch.no_grad():
        log_prob, values = model(x)
        before = log_prob.gather(1, taken).squeeze(1)
        values = values.tolist() + [model(torch.tensor(state))[1].item()]
    advantages, running = [0.0] * STEPS, 0.0
    for t in reversed(range(STEPS)):
        alive = 1.0 - float(dones[t])
        error = rewards[t] + GAMMA * values[t + 1] * alive - values[t]
        advantages[t] = running = error + GAMMA * LAMBDA * alive * running
    advantage = torch.tensor(advantages)
    returns = advantage + torch.tensor(values[:-1])
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    for _ in range(4):
        log_prob, value = model(x)
        ratio = (log_prob.gather(1, taken).squeeze(1) - before).exp()
        actor = -torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
        entropy = -(log_prob.exp() * log_prob).sum(dim=1).mean()
        loss = actor + 0.5 * (value - returns).pow(2).mean() - 0.01 * entropy
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    if update % 4 == 0:
        print(
            f"update {update}: reward {sum(rewards) / STEPS:.4f}, loss {loss.item():.4f}, entropy {entropy.item():.4f}"
        )
