"""Processes that share a model's memory, and spawn."""

import torch
import torch.multiprocessing as mp
import torch.nn as nn


class Add(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))


def work(rank, model):
    with torch.no_grad():
        model.weight[rank] += rank + 1


def fails(rank):
    raise ValueError("process %d" % rank)


if __name__ == "__main__":
    mp.set_start_method("spawn")
    model = Add()
    model.share_memory()
    processes = [mp.Process(target=work, args=(rank, model)) for rank in range(2)]
    for p in processes:
        p.start()
    for p in processes:
        p.join()
    mp.spawn(work, args=(model,), nprocs=1)
    print(model.weight.data, model.weight.is_shared())
    try:
        mp.spawn(fails, nprocs=1)
    except mp.ProcessRaisedException as problem:
        print("ValueError: process 0" in str(problem))
