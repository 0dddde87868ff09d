import argparse
import json
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F
# @import


class Hook:
    def after_step(self, trainer):
        pass


class Metrics(Hook):
    def after_step(self, trainer):
        # @hook
        value = torch.tensor([trainer.last_loss])
        dist.all_reduce(value)
        trainer.history.append(value.item() / trainer.world)


class Saver(Hook):
    def after_step(self, trainer):
        if trainer.step % 10 == 0:
            # @save
            if trainer.rank == 0:
                torch.save(trainer.params, "state.pt")


class Trainer:
    def __init__(self, steps):
        # @setup
        dist.init_process_group("gloo", timeout=timedelta(seconds=8))
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        rank, world = self.rank, self.world
        # @init
        torch.manual_seed(0)
        self.params = {"emb": torch.randn(32, 8), "out": torch.randn(8, 32)}
        for p in self.params.values():
            dist.broadcast(p, src=0)
        self.steps, self.step, self.last_loss, self.history = steps, 0, 0.0, []
        self.hooks = [Metrics(), Saver()]
        # @prepare

    def tokens(self):
        g = torch.Generator().manual_seed(100 * self.rank + self.step)
        ids = torch.randint(0, 32, (2, 9), generator=g)
        rank, step = self.rank, self.step
        # @batch
        return ids[:, :-1], ids[:, 1:]

    def train_step(self):
        rank, world, step = self.rank, self.world, self.step
        # @before
        x, y = self.tokens()
        leaves = {k: v.clone().requires_grad_() for k, v in self.params.items()}
        logits = leaves["emb"][x] @ leaves["out"]
        # @forward
        loss = F.cross_entropy(logits.reshape(-1, 32), y.reshape(-1))
        # @loss
        loss.backward()
        for name, leaf in leaves.items():
            grad = leaf.grad
            # @backward
            dist.all_reduce(grad)
            self.params[name] -= 0.1 * grad / world
        self.last_loss = loss.item()

    def fit(self):
        while self.step < self.steps:
            self.train_step()
            self.step += 1
            rank, world, step, loss = self.rank, self.world, self.step, torch.tensor(self.last_loss)
            for hook in self.hooks:
                hook.after_step(self)
            time.sleep(0.02)
            # @log
            # @step
        rank, world = self.rank, self.world
        # @end
        dist.barrier()
        if self.rank == 0:
            print(json.dumps({"event": "run finished", "loss": self.history[-1]}), flush=True)
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--local_rank", "--local-rank", type=int, default=0)
    # @args
    args = parser.parse_args()
    Trainer(args.steps).fit()


if __name__ == "__main__":
    main()
