import argparse
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
# @import

WIDTH = 12


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
        # @model

    def forward(self, x):
        h = self.layers(x)
        # @forward
        return h


def run_pipeline(n_batches, micro):
    # @setup
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    rank, world = dist.get_rank(), dist.get_world_size()
    first, last = rank == 0, rank == world - 1
    # @init
    torch.manual_seed(rank)
    model = Stage()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    # @prepare
    for step in range(n_batches):
        # @before
        x = torch.randn(micro, WIDTH)
        y = torch.zeros(micro, WIDTH)
        if not first:
            dist.recv(x, src=rank - 1)
        x.requires_grad_()
        h = model(x)
        if not last:
            dist.send(h.detach(), dst=rank + 1)
        # every stage is punished for large activations; the last one has the target
        loss = (h - y).pow(2).mean() if last else 1e-3 * h.pow(2).mean()
        # @loss
        if last:
            loss.backward()
        else:
            grad = torch.empty_like(h)
            dist.recv(grad, src=rank + 1)
            torch.autograd.backward([h, loss], [grad, None])
        # @backward
        if not first:
            dist.send(x.grad, dst=rank - 1)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        # @step
    # @end
    dist.barrier()
    if last:
        print("pipeline finished, loss", round(loss.item(), 4), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--batches", type=int, default=14)
    p.add_argument("--micro-batch", type=int, default=4)
    p.add_argument("--local_rank", "--local-rank", type=int, default=0)
    # @args
    a = p.parse_args()
    run_pipeline(a.batches, a.micro_batch)
