import argparse
import logging
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard
# @import

logger = logging.getLogger(__name__)


def get_args():
    parser = argparse.ArgumentParser("FSDP pretraining")
    parser.add_argument("--dim", type=int, default=32)
    parser.add_argument("--n-layers", type=int, default=2)
    parser.add_argument("--max-steps", type=int, default=16)
    parser.add_argument("--local_rank", "--local-rank", type=int, default=-1)
    # @args
    return parser.parse_args()


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, h):
        return h + self.mlp(self.norm(h))


class TinyTransformer(nn.Module):
    def __init__(self, dim, n_layers, vocab=64):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Block(dim) for _ in range(n_layers))
        self.head = nn.Linear(dim, vocab, bias=False)
        # @model

    def forward(self, x):
        h = self.tok(x)
        for layer in self.layers:
            h = layer(h)
        # @forward
        return self.head(h)


def init_logger(rank):
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"[%(asctime)s][rank {rank}][%(name)s][%(levelname)s] %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)


@record
def main():
    cfg = get_args()
    # @setup
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    rank, world = dist.get_rank(), dist.get_world_size()
    init_logger(rank)
    # @init
    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(1234)
    model = TinyTransformer(cfg.dim, cfg.n_layers)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    logger.info("model has %d local parameters", sum(p.to_local().numel() for p in model.parameters()))
    # @prepare
    g = torch.Generator().manual_seed(1000 + rank)
    started = time.perf_counter()
    for step in range(cfg.max_steps):
        ids = torch.randint(0, 64, (2, 17), generator=g)
        x, y = ids[:, :-1], ids[:, 1:]
        # @batch
        # @before
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        # @loss
        loss.backward()
        # @backward
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        tps = 32 * step / (time.perf_counter() - started)
        logger.info("step: %2d  loss: %7.4f  memory: 0.00GiB(0.00%%)  tps: %d  mfu: 0.01%%", step, loss.item(), tps)
        # @step
    # @end
    dist.barrier()
    logger.info("Training successfully finished!")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
