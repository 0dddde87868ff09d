import argparse
import contextlib
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from tqdm import tqdm
# @import


class Regressor(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, width), nn.Tanh())
        self.head = nn.Linear(width, 1)
        # @model

    def forward(self, x):
        h = self.body(x)
        # @forward
        return self.head(h).squeeze(-1)


def micro_batches(rank, epoch, n):
    g = torch.Generator().manual_seed(17 * rank + epoch)
    for i in range(n):
        x = torch.randn(8, 6, generator=g)
        y = x.sum(1)
        # @batch
        yield i, x, y


def fit(args):
    # @setup
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    rank, world = dist.get_rank(), dist.get_world_size()
    # @init
    model = DDP(Regressor())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.MSELoss()
    # @prepare
    step = 0
    for epoch in range(args.epochs):
        bar = tqdm(total=args.micro_batches, desc=f"Epoch {epoch}", disable=rank != 0)
        for i, x, y in micro_batches(rank, epoch, args.micro_batches):
            # @before
            last = (i + 1) % args.accum == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = criterion(model(x), y) / args.accum
                # @loss
                loss.backward()
                # @backward
            if last:
                optimizer.step()
                optimizer.zero_grad()
            step += 1
            bar.update()
            bar.set_postfix(loss=f"{loss.item() * args.accum:.3f}")
            # @step
        bar.close()
        # @epoch
    # @end
    if rank == 0:
        tqdm.write("finished training")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--micro-batches", type=int, default=12)
    parser.add_argument("--accum", type=int, default=4)
    parser.add_argument("--local_rank", "--local-rank", type=int, default=0)
    # @args
    fit(parser.parse_args())
