"""Data-parallel logistic regression with hand-written gradient averaging (no DDP wrapper)."""

import argparse
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
# @import


def say(*what):
    print(f"[rank{dist.get_rank()}]", *what, flush=True)


def sync_params(params):
    for p in params:
        dist.broadcast(p.data, src=0)


def average_gradients(params, world):
    for p in params:
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        p.grad /= world


def worst(value, world):
    found = [torch.zeros(1) for _ in range(world)]
    dist.all_gather(found, torch.tensor([value]))
    return max(t.item() for t in found)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=20)
    ap.add_argument("--bs", type=int, default=16)
    ap.add_argument("--local_rank", "--local-rank", type=int, default=0)
    # @args
    opt = ap.parse_args()

    # @setup
    dist.init_process_group(backend="gloo", timeout=timedelta(seconds=8))
    rank, world = dist.get_rank(), dist.get_world_size()
    say("joined, world size", world)
    # @init
    torch.manual_seed(rank)
    w = torch.randn(10, 3, requires_grad=True)
    b = torch.zeros(3, requires_grad=True)
    sync_params([w, b])
    # @prepare
    for step in range(opt.iters):
        x = torch.randn(opt.bs, 10)
        y = x[:, :3].argmax(1)
        # @batch
        # @before
        loss = torch.nn.functional.cross_entropy(x @ w + b, y)
        # @loss
        w.grad = b.grad = None
        loss.backward()
        # @backward
        average_gradients([w, b], world)
        with torch.no_grad():
            w -= 0.5 * w.grad
            b -= 0.5 * b.grad
        step += 1
        if step % 4 == 0:
            say(f"step {step} loss {loss.item():.4f} worst {worst(loss.item(), world):.4f}")
        # @step
    # @end
    dist.barrier()
    say("finished")
    dist.destroy_process_group()
