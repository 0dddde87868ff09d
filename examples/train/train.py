"""A training loop that tells what happened: start it with `ddpclassify run -- torchrun --nproc-per-node 2 train.py`."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from ddpclassify import instrument


def main() -> None:
    """Train a small model on random numbers."""
    instrument.setup()  # rank, local rank, time and host on every line; tells where an exception struck
    instrument.preflight()  # with DEBUG_DDP=1: do address and port answer?
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    data = TensorDataset(torch.randn(256, 8), torch.randn(256, 1))
    loader = DataLoader(data, batch_size=16, sampler=DistributedSampler(data))
    instrument.preflight(data_length=len(loader), batch_size=16)  # with DEBUG_DDP=1: do all ranks agree?
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    instrument.checkpoint("after load", timeout=60)  # names who does not come
    for step, (x, y) in enumerate(loader):
        instrument.at(step=step)
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
