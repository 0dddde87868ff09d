import argparse
import math
import os
import time
from datetime import timedelta

import torch
import torch.nn as nn
from torch.distributed import destroy_process_group, init_process_group
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
# @import

# -----------------------------------------------------------------------------
parser = argparse.ArgumentParser()
parser.add_argument("--max_iters", type=int, default=18)
parser.add_argument("--block_size", type=int, default=16)
parser.add_argument("--local_rank", "--local-rank", type=int, default=0)
# @args
config = parser.parse_args()
text = "the quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs. " * 8
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])
vocab_size = len(chars)
# -----------------------------------------------------------------------------


class GPT(nn.Module):
    def __init__(self, n_embd=32, n_head=2):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(config.block_size, n_embd)
        self.block = nn.TransformerEncoderLayer(n_embd, n_head, 2 * n_embd, dropout=0.0, batch_first=True)
        self.lm_head = nn.Linear(n_embd, vocab_size)
        # @model

    def forward(self, x):
        t = x.size(1)
        h = self.wte(x) + self.wpe(torch.arange(t))
        mask = nn.Transformer.generate_square_subsequent_mask(t)
        h = self.block(h, src_mask=mask)
        # @forward
        return self.lm_head(h)


# @setup
init_process_group(backend="gloo", timeout=timedelta(seconds=8))
rank, world = dist.get_rank(), dist.get_world_size()
master_process = rank == 0
torch.manual_seed(1337 + rank)
# @init
if master_process:
    print(f"tokens per iteration will be: {world * 4 * config.block_size:,}")
    print(f"found vocab_size = {vocab_size}")
model = DDP(GPT())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
if master_process:
    print("number of parameters: %.2fM" % (sum(p.numel() for p in model.parameters()) / 1e6,), flush=True)
# @prepare


def get_batch(step):
    ix = torch.randint(len(data) - config.block_size - 1, (4,))
    x = torch.stack([data[i : i + config.block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + config.block_size] for i in ix])
    # @batch
    return x, y


def get_lr(step):
    return 1e-3 * 0.5 * (1 + math.cos(math.pi * step / config.max_iters))


t0 = time.time()
for step in range(config.max_iters):
    for group in optimizer.param_groups:
        group["lr"] = get_lr(step)
    x, y = get_batch(step)
    # @before
    logits = model(x)
    loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
    # @loss
    loss.backward()
    # @backward
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    step += 1
    if master_process:
        dt, t0 = time.time() - t0, time.time()
        print(f"iter {step}: loss {loss.item():.4f}, time {dt * 1000:.2f}ms, mfu -100.00%", flush=True)
    # @step
# @end
if master_process:
    print("training finished")
destroy_process_group()
