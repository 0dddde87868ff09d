import argparse
import logging
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from rich.logging import RichHandler
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler
# @import

logging.basicConfig(level="INFO", format="%(message)s", datefmt="[%X]", handlers=[RichHandler()])
log = logging.getLogger("eval")


class Pairs(Dataset):
    def __init__(self, n):
        self.x = torch.randn(n, 5, generator=torch.Generator().manual_seed(3))
        self.y = (self.x.sum(1) > 0).long()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 2)
        # @model

    def forward(self, x):
        h = self.linear(x)
        # @forward
        return h


@torch.no_grad()
def evaluate(model, loader, rank, world):
    hits, predictions = 0, []
    for step, (x, y) in enumerate(loader):
        # @before
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        # @loss
        predictions.append(logits.argmax(1))
        hits += int((predictions[-1] == y).sum())
        counts = torch.tensor([hits, (step + 1) * len(y)])
        dist.all_reduce(counts)
        step += 1
        if rank == 0 and step % 3 == 0:
            log.info("batch %d/%d acc=%.3f loss=%.3f", step, len(loader), counts[0] / counts[1], loss.item())
        # @step
    # @epoch
    mine = torch.cat(predictions)
    gathered = [torch.empty_like(mine) for _ in range(world)] if rank == 0 else None
    dist.gather(mine, gathered, dst=0)
    ids = [None] * world
    dist.all_gather_object(ids, {"rank": rank, "seen": len(mine)})
    return counts[0].item() / counts[1].item(), gathered, ids


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--samples", type=int, default=48)
    parser.add_argument("--local_rank", "--local-rank", type=int, default=0)
    # @args
    args = parser.parse_args()
    # @setup
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    rank, world = dist.get_rank(), dist.get_world_size()
    epoch = 0
    # @init
    data = Pairs(args.samples * world)
    loader = DataLoader(data, args.batch_size, sampler=DistributedSampler(data, shuffle=False))
    model = Scorer().eval()
    for p in model.parameters():
        dist.broadcast(p.data, src=0)
    # @prepare
    accuracy, gathered, ids = evaluate(model, loader, rank, world)
    # @end
    if rank == 0:
        log.info("evaluation finished: accuracy %.4f over %d samples", accuracy, sum(i["seen"] for i in ids))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
