# gymnasium: PPO and DQN on CartPole, SAC on Pendulum, in one file; actions are drawn by NumPy.
import gymnasium as gym
import numpy as np
import torch
from same import fill, gradients, show
from torch import nn
from torch.distributions import Categorical, Normal
from torch.nn import functional as F


def net(*sizes, act=nn.Tanh):
    layers = [part for a, b in zip(sizes, sizes[1:]) for part in (nn.Linear(a, b), act())]
    return fill(nn.Sequential(*layers[:-1]))


def ppo(steps=64, rounds=4):
    envs = gym.make_vec("CartPole-v1", 4, vectorization_mode="sync")
    draw = np.random.default_rng(0)
    actor, critic = net(4, 32, 2), net(4, 32, 1)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=2.5e-4, eps=1e-5)
    obs, _ = envs.reset(seed=1)
    obs, done = torch.tensor(obs), torch.zeros(4)
    for turn in range(rounds):
        optimizer.param_groups[0]["lr"] = (1 - turn / rounds) * 2.5e-4
        store = {name: [] for name in ("obs", "act", "logp", "rew", "done", "val")}
        for _ in range(steps):
            with torch.no_grad():
                found = Categorical(logits=actor(obs))
                act = (
                    (found.probs.cumsum(-1) > torch.tensor(draw.random((4, 1)), dtype=torch.float32)).float().argmax(-1)
                )
                value = critic(obs).flatten()
            for name, v in (("obs", obs), ("act", act), ("logp", found.log_prob(act)), ("done", done), ("val", value)):
                store[name].append(v)
            new, reward, ended, cut, _ = envs.step(act.numpy())
            store["rew"].append(torch.tensor(reward, dtype=torch.float32).view(-1))
            obs, done = torch.Tensor(new), torch.Tensor(np.logical_or(ended, cut))
        with torch.no_grad():
            b = {name: torch.stack(v) for name, v in store.items()}
            advantages, last, after = torch.zeros_like(b["rew"]), 0.0, critic(obs).flatten()
            for t in reversed(range(steps)):
                alive = 1.0 - (done if t == steps - 1 else b["done"][t + 1])
                ahead = after if t == steps - 1 else b["val"][t + 1]
                last = b["rew"][t] + 0.99 * ahead * alive - b["val"][t] + 0.99 * 0.95 * alive * last
                advantages[t] = last
            b["ret"], b["adv"] = advantages + b["val"], advantages
        flat = {name: v.reshape(-1, *v.shape[2:]) for name, v in b.items()}
        order = np.arange(steps * 4)
        for _ in range(2):
            draw.shuffle(order)
            for at in np.split(order, 4):
                d = Categorical(logits=actor(flat["obs"][at]))
                ratio = (d.log_prob(flat["act"].long()[at]) - flat["logp"][at]).exp()
                adv = flat["adv"][at]
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                policy = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 0.8, 1.2)).mean()
                value = 0.5 * ((critic(flat["obs"][at]).view(-1) - flat["ret"][at]) ** 2).mean()
                loss = policy - 0.01 * d.entropy().mean() + 0.5 * value
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_([*actor.parameters(), *critic.parameters()], 0.5)
                optimizer.step()
        show("ppo", loss.detach(), value.detach(), d.entropy().mean().detach(), flat["rew"].sum())


def dqn(steps=300):
    env = gym.make("CartPole-v1")
    draw = np.random.default_rng(0)
    q, target = net(4, 64, 2, act=nn.ReLU), net(4, 64, 2, act=nn.ReLU)
    target.load_state_dict(q.state_dict())
    optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
    memory, (obs, _) = [], env.reset(seed=1)
    for step in range(steps):
        greedy = int(q(torch.tensor(obs)[None]).argmax(1))
        act = int(draw.integers(2)) if draw.random() < max(0.1, 1 - step / 200) else greedy
        new, reward, ended, cut, _ = env.step(act)
        memory.append((obs, act, reward, new, float(ended)))
        obs = env.reset()[0] if ended or cut else new
        if step > 50:
            chosen = [memory[i] for i in draw.integers(len(memory), size=32)]
            s, a, r, n, e = (torch.tensor(np.array(v)) for v in zip(*chosen))
            with torch.no_grad():
                wanted = r.float() + 0.99 * target(n).max(1).values * (1 - e.float())
            loss = F.smooth_l1_loss(q(s).gather(1, a[:, None])[:, 0], wanted)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(q.parameters(), 100)
            optimizer.step()
            for p, k in zip(q.parameters(), target.parameters()):
                k.data.copy_(0.05 * p.data + 0.95 * k.data)
            if step % 50 == 0:
                show("dqn", step, loss.detach(), gradients(q))


def sac(steps=160):
    env = gym.make("Pendulum-v1")
    draw = np.random.default_rng(0)
    actor, q1, q2, t1, t2 = net(3, 32, 2, act=nn.ReLU), *(net(4, 32, 1, act=nn.ReLU) for _ in range(4))
    policy_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-4)
    q_optimizer = torch.optim.Adam([*q1.parameters(), *q2.parameters()], lr=1e-3)
    log_alpha = torch.zeros(1, requires_grad=True)
    alpha_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)

    def action(s):
        mean, log_std = actor(s).chunk(2, -1)
        std = (-5 + 3.5 * (torch.tanh(log_std) + 1)).exp()
        raw = mean + std * torch.tensor(draw.standard_normal(mean.shape), dtype=torch.float32)
        y = torch.tanh(raw)
        return y * 2, (Normal(mean, std).log_prob(raw) - torch.log(2 * (1 - y.pow(2)) + 1e-6)).sum(1, keepdim=True)

    memory, (obs, _) = [], env.reset(seed=1)
    for step in range(steps):
        with torch.no_grad():
            act = action(torch.tensor(obs)[None])[0][0].numpy()
        new, reward, ended, cut, _ = env.step(act)
        memory.append((obs, act, reward, new))
        obs = env.reset()[0] if ended or cut else new
        if step < 32:
            continue
        s, a, r, n = (
            torch.tensor(np.array(v), dtype=torch.float32)
            for v in zip(*(memory[i] for i in draw.integers(len(memory), size=32)))
        )
        with torch.no_grad():
            na, logp = action(n)
            x = torch.cat([n, na], 1)
            wanted = r[:, None] + 0.99 * (torch.min(t1(x), t2(x)) - log_alpha.exp() * logp)
        x = torch.cat([s, a], 1)
        q_loss = F.mse_loss(q1(x), wanted) + F.mse_loss(q2(x), wanted)
        q_optimizer.zero_grad()
        q_loss.backward()
        q_optimizer.step()
        pi, logp = action(s)
        x = torch.cat([s, pi], 1)
        policy_loss = (log_alpha.exp().detach() * logp - torch.min(q1(x), q2(x))).mean()
        policy_optimizer.zero_grad()
        policy_loss.backward()
        policy_optimizer.step()
        alpha_loss = (-log_alpha.exp() * (logp.detach() - 1)).mean()
        alpha_optimizer.zero_grad()
        alpha_loss.backward()
        alpha_optimizer.step()
        with torch.no_grad():
            for p, k in zip([*q1.parameters(), *q2.parameters()], [*t1.parameters(), *t2.parameters()]):
                k.lerp_(p, 0.005)
        if step % 32 == 0:
            show("sac", step, q_loss.detach(), policy_loss.detach(), log_alpha.detach())


ppo()
dqn()
sac()
