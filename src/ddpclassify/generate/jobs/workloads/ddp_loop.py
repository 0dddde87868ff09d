import argparse
import os
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
# @import

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--local_rank", "--local-rank", type=int, default=int(os.environ.get("LOCAL_RANK", 0)))
# @args


class Net(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.fc1 = nn.Linear(8, width)
        self.fc2 = nn.Linear(width, 4)
        # @model

    def forward(self, x):
        h = torch.relu(self.fc1(x))
        # @forward
        return self.fc2(h)


def batches(rank, n=12):
    g = torch.Generator().manual_seed(rank)
    for i in range(n):
        x, y = torch.randn(4, 8, generator=g), torch.randint(0, 4, (4,), generator=g)
        # @batch
        yield x, y


def train(args):
    # @setup
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    rank, world = dist.get_rank(), dist.get_world_size()
    # @init
    torch.manual_seed(0)
    model = DDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    # @prepare
    step = 0
    for epoch in range(args.epochs):
        for x, y in batches(rank):
            # @before
            loss = nn.functional.cross_entropy(model(x), y)
            # @loss
            optimizer.zero_grad()
            loss.backward()
            # @backward
            optimizer.step()
            step += 1
            time.sleep(0.02)
            # @log
            # @step
        # @epoch
    # @end
    if rank == 0:
        print("training finished", flush=True)
    dist.destroy_process_group()


def main():
    args = parser.parse_args()
    train(args)


if __name__ == "__main__":
    main()
