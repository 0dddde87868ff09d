import argparse
import logging
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
# @import

CKPT_DIR = "checkpoints"


class GlogFormatter(logging.Formatter):
    def format(self, r):
        stamp = time.strftime("%m%d %H:%M:%S", time.localtime(r.created))
        return f"{r.levelname[0]}{stamp}.{int(r.msecs * 1000):06d} {r.process:>7} {r.filename}:{r.lineno}] {r.getMessage()}"


handler = logging.StreamHandler()
handler.setFormatter(GlogFormatter())
logging.root.addHandler(handler)
logging.root.setLevel(logging.INFO)


class Autoencoder(nn.Module):
    def __init__(self, d=10):
        super().__init__()
        self.enc = nn.Linear(d, 3)
        self.dec = nn.Linear(3, d)
        # @model

    def forward(self, x):
        h = torch.tanh(self.enc(x))
        # @forward
        return self.dec(h)


def save_checkpoint(path, model, optimizer, step):
    torch.save({"model": model.module.state_dict(), "optim": optimizer.state_dict(), "step": step}, path + ".tmp")
    os.replace(path + ".tmp", path)
    logging.info("Saved checkpoint to %s", path)


def load_checkpoint(path, model, optimizer):
    state = torch.load(path, map_location="cpu")
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optim"])
    return state["step"]


def train(flags):
    # @setup
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    rank, world = dist.get_rank(), dist.get_world_size()
    logging.info("rank %d of %d up", rank, world)
    os.makedirs(CKPT_DIR, exist_ok=True)
    # @init
    torch.manual_seed(0)
    model = DistributedDataParallel(Autoencoder())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    # @prepare
    step, latest = 0, os.path.join(CKPT_DIR, "latest.pt")
    for epoch in range(flags.epochs):
        if epoch:
            step = load_checkpoint(latest, model, optimizer)
            logging.info("Resuming from %s at step %d", latest, step)
        for _ in range(flags.steps_per_epoch):
            x = y = torch.randn(8, 10)
            # @batch
            # @before
            loss = (model(x) - y).pow(2).mean()
            # @loss
            optimizer.zero_grad()
            loss.backward()
            # @backward
            optimizer.step()
            step += 1
            if step % 5 == 0:
                logging.info("step=%d loss=%.5f", step, loss.item())
            # @step
        # @epoch
        if rank == 0:
            # @save
            save_checkpoint(latest, model, optimizer, step)
        dist.barrier()
    # @end
    logging.info("finished")
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps-per-epoch", type=int, default=10)
    parser.add_argument("--local_rank", "--local-rank", type=int, default=0)
    # @args
    train(parser.parse_args())
