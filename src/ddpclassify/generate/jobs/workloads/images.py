import argparse
import logging
import os
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler
# @import

log = logging.getLogger("train")


class ImageFolder(Dataset):
    def __init__(self, root):
        self.files = sorted(Path(root).glob("*.npy"))
        # @dataset

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path = self.files[index]
        # @item
        image = torch.from_numpy(np.load(path)).float()
        label = int(path.stem.split("_")[1])
        # @label
        return image, label


def collate(samples):
    # @collate
    return torch.stack([s[0] for s in samples]), torch.tensor([s[1] for s in samples])


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2)
        self.head = nn.Linear(4 * 7 * 7, 5)
        # @model

    def forward(self, x):
        h = torch.relu(self.conv(x)).flatten(1)
        # @forward
        return self.head(h)


def run(root, epochs):
    # @setup
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    rank, world = dist.get_rank(), dist.get_world_size()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if rank == 0:
        (Path(root) / "warm").mkdir(exist_ok=True)
    data = ImageFolder(root)
    sampler = DistributedSampler(data, num_replicas=world, rank=rank)
    loader = DataLoader(data, batch_size=2, sampler=sampler, num_workers=1, collate_fn=collate)
    # @init
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(ConvNet())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # @prepare
    step = 0
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            # @before
            loss = nn.functional.cross_entropy(model(x), y)
            # @loss
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            # @backward
            optimizer.step()
            step += 1
            # @log
            # @step
        # @epoch
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "epoch": epoch}, Path(root) / "last.pt")
            log.info("saved checkpoint %s/last.pt", root)
    # @end
    dist.barrier()
    dist.destroy_process_group()
    log.info("rank %d finished training", rank)


def make_data(root, n=16):
    Path(root).mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for i in range(n):
        np.save(Path(root) / f"img_{i % 5}_{i:04d}.npy", rng.random((3, 16, 16), dtype=np.float32))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--data", default="data")
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--local_rank", "--local-rank", type=int, default=0)
    # @args
    a = p.parse_args()
    run(a.data, a.epochs)
