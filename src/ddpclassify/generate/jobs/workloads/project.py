#!/usr/bin/env python
import json
import logging
import os
import sys
import time

import torch
import torch.distributed as dist

from engine.config import TrainConfig
from engine.model import build_model
# @import


class JsonFormatter(logging.Formatter):
    def format(self, record):
        entry = {"ts": round(record.created, 3), "level": record.levelname.lower(), "msg": record.getMessage()}
        entry.update(getattr(record, "extra", {}))
        if record.exc_info:
            entry["exc"] = self.formatException(record.exc_info)
        return json.dumps(entry)


logger = logging.getLogger("engine")
handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(JsonFormatter())
logger.addHandler(handler)
logger.setLevel(logging.INFO)


class Engine:
    def __init__(self, config):
        self.config = config
        # @setup
        dist.init_process_group("gloo", timeout=config.timeout)
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        rank, world = self.rank, self.world
        # @init
        self.model = model = build_model(config)
        self.optimizer = optimizer = torch.optim.SGD(model.parameters(), lr=config.lr)
        self.step = 0
        # @prepare

    def report(self, **values):
        logger.info("progress", extra={"extra": {"rank": self.rank, "step": self.step, **values}})

    def train_step(self):
        rank, world, step = self.rank, self.world, self.step
        x = torch.randn(self.config.batch_size, self.config.features)
        y = x.mean(1, keepdim=True)
        # @batch
        # @before
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        # @loss
        self.optimizer.zero_grad()
        loss.backward()
        # @backward
        self.optimizer.step()
        return loss

    def run(self):
        rank, world = self.rank, self.world
        while self.step < self.config.steps:
            loss = self.train_step()
            self.step += 1
            step = self.step
            if step % self.config.log_every == 0:
                self.report(loss=round(loss.item(), 4))
            # @step
        # @end
        dist.barrier()
        self.report(event="finished")
        dist.destroy_process_group()


def main():
    config = TrainConfig.from_command_line()
    try:
        Engine(config).run()
    except Exception:
        logger.exception("unhandled exception, rank %s", os.environ.get("RANK"))
        raise


if __name__ == "__main__":
    main()
# --- file: engine/config.py ---
import argparse
from dataclasses import dataclass, fields
from datetime import timedelta


@dataclass
class TrainConfig:
    steps: int = 18
    batch_size: int = 8
    features: int = 6
    hidden: int = 12
    log_every: int = 3
    lr: float = 0.05

    timeout = timedelta(seconds=8)

    @classmethod
    def from_command_line(cls):
        parser = argparse.ArgumentParser()
        for f in fields(cls):
            parser.add_argument(f"--{f.name}", type=type(f.default), default=f.default)
        parser.add_argument("--local_rank", "--local-rank", type=int, default=0)
        # @args
        options = vars(parser.parse_args())
        options.pop("local_rank")
        return cls(**options)


# --- file: engine/model.py ---
import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Regressor(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.inner = nn.Linear(config.features, config.hidden)
        self.outer = nn.Linear(config.hidden, 1)
        # @model

    def forward(self, x):
        h = torch.relu(self.inner(x))
        # @forward
        return self.outer(h)


def build_model(config):
    torch.manual_seed(0)
    return DistributedDataParallel(Regressor(config))
