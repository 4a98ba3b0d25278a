"""Deep Q-learning on a corridor: walk right to the goal.  Replay memory, a target network, exploration."""

import random
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn

CELLS, GAMMA, BATCH = 6, 0.9, 32


class Corridor:
    """Cell 0 is the start; the last cell ends the episode with a reward of 1."""

    def reset(self):
        self.cell = 0
        return self.cell

    def step(self, action):
        self.cell = min(self.cell + 1, CELLS - 1) if action == 1 else max(self.cell - 1, 0)
        done = self.cell == CELLS - 1
        return self.cell, 1.0 if done else -0.01, done


def network():
    return nn.Sequential(nn.Linear(CELLS, 24), nn.ReLU(), nn.Linear(24, 2))


def one_hot(cells):
    return F.one_hot(torch.tensor(cells), CELLS).float()


random.seed(0)
policy, target = network(), network()
with torch.no_grad():
    for k, p in enumerate(policy.parameters()):
        p.copy_(torch.sin(torch.arange(p.numel()) * 0.7 + k).reshape(p.shape) * 0.3)
target.load_state_dict(policy.state_dict())
optimizer = torch.optim.RMSprop(policy.parameters(), lr=2e-3)
memory = deque(maxlen=500)
environment, steps = Corridor(), 0
for episode in range(21):
    cell, total, losses = environment.reset(), 0.0, []
    for _ in range(30):
        epsilon = max(0.1, 1.0 - steps / 200)
        if random.random() < epsilon:
            action = random.randrange(2)
        else:
            with torch.no_grad():
                action = policy(one_hot([cell])).argmax(dim=1).item()
        after, reward, done = environment.step(action)
        memory.append((cell, action, reward, after, float(done)))
        cell, total, steps = after, total + reward, steps + 1
        if len(memory) >= BATCH:
            cells, actions, rewards, afters, dones = zip(*random.sample(list(memory), BATCH), strict=True)
            q = policy(one_hot(cells)).gather(1, torch.tensor(actions).unsqueeze(1)).squeeze(1)
            with torch.no_grad():
                best = target(one_hot(afters)).max(dim=1)[0]
                wanted = torch.tensor(rewards) + GAMMA * best * (1 - torch.tensor(dones))
            loss = F.smooth_l1_loss(q, wanted)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(policy.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        if done:
            break
    if episode % 5 == 0:
        target.load_state_dict(policy.state_dict())
        print(f"episode {episode}: return {total:.2f}, loss {sum(losses) / max(1, len(losses)):.4f}")
