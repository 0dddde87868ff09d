import argparse
import logging
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from accelerate import Accelerator, InitProcessGroupKwargs
from accelerate.logging import get_logger
from torch.utils.data import DataLoader, TensorDataset
# @import

logger = get_logger(__name__)


def parse_args():
    parser = argparse.ArgumentParser(description="Simple example of a training script.")
    parser.add_argument("--num_train_epochs", type=int, default=2)
    parser.add_argument("--learning_rate", type=float, default=1e-2)
    parser.add_argument("--local_rank", "--local-rank", type=int, default=-1)
    # @args
    return parser.parse_args()


def main():
    args = parse_args()
    # @setup
    accelerator = Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs("gloo", timeout=timedelta(seconds=8))])
    rank, world = accelerator.process_index, accelerator.num_processes
    logging.basicConfig(
        format="%(asctime)s - %(levelname)s - %(name)s - %(message)s", datefmt="%m/%d/%Y %H:%M:%S", level=logging.INFO
    )
    logger.info(accelerator.state, main_process_only=False)
    # @init
    torch.manual_seed(42)
    xs = torch.randn(48 * world, 8)
    loader = DataLoader(TensorDataset(xs, (xs[:, 0] > 0).long()), batch_size=4, shuffle=True)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    logger.info("***** Running training *****")
    logger.info(f"  Num examples = {len(xs)}")
    logger.info(f"  Num Epochs = {args.num_train_epochs}")
    # @prepare
    step = 0
    for epoch in range(args.num_train_epochs):
        model.train()
        for x, y in loader:
            # @before
            loss = nn.functional.cross_entropy(model(x), y)
            # @loss
            accelerator.backward(loss)
            # @backward
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            # @step
        logger.info(f"epoch {epoch}: loss {accelerator.gather(loss.detach().reshape(1)).mean().item():.4f}")
        # @epoch
    # @end
    accelerator.wait_for_everyone()
    accelerator.print("finished")
    accelerator.end_training()


if __name__ == "__main__":
    main()
