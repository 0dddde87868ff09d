import argparse
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from loguru import logger
from torch import nn
# @import


class Policy(nn.Module):
    def __init__(self, observations=4, actions=2):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(observations, 8), nn.Tanh(), nn.Linear(8, actions))
        # @model

    def forward(self, x):
        h = self.net(x)
        # @forward
        return torch.log_softmax(h, -1)


class Agent:
    """Rank 0 learns; the others play and send it their gradients."""

    def __init__(self, rank, world, rounds):
        self.rank, self.world, self.rounds = rank, world, rounds
        torch.manual_seed(rank)
        self.policy = Policy()

    def rollout(self, step):
        x = torch.randn(6, 4)
        y = (x[:, 0] > 0).long()
        rank = self.rank
        # @batch
        return x, y

    def loss(self, step):
        rank, world = self.rank, self.world
        # @before
        x, y = self.rollout(step)
        chosen = self.policy(x).gather(1, y[:, None])
        loss = -chosen.mean()
        # @loss
        return loss

    def exchange(self, step):
        flat = nn.utils.parameters_to_vector(p.grad for p in self.policy.parameters())
        if self.rank != 0:
            dist.send(flat, dst=0)
            return
        for actor in range(1, self.world):
            theirs = torch.empty_like(flat)
            dist.recv(theirs, src=actor)
            flat += theirs
        weights = nn.utils.parameters_to_vector(self.policy.parameters()).detach()
        nn.utils.vector_to_parameters(weights - 0.3 * flat / self.world, self.policy.parameters())

    def publish(self, step):
        holder = [{"round": step, "weights": self.policy.state_dict()} if self.rank == 0 else None]
        dist.broadcast_object_list(holder, src=0)
        self.policy.load_state_dict(holder[0]["weights"])

    def play(self):
        rank, world = self.rank, self.world
        for step in range(self.rounds):
            loss = self.loss(step)
            self.policy.zero_grad()
            loss.backward()
            # @backward
            self.exchange(step)
            self.publish(step)
            step += 1
            role = "learner" if rank == 0 else f"actor-{rank}"
            logger.info("{} round={} return={:.3f}", role, step, -loss.item())
            # @step


@logger.catch(reraise=True)
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--local_rank", "--local-rank", type=int, default=0)
    # @args
    options = parser.parse_args()
    # @setup
    dist.init_process_group("gloo", timeout=timedelta(seconds=8))
    rank, world = dist.get_rank(), dist.get_world_size()
    # @init
    agent = Agent(rank, world, options.rounds)
    agent.publish(0)
    # @prepare
    agent.play()
    # @end
    dist.barrier()
    logger.success("rank {} finished", rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
