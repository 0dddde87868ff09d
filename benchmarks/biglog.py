"""Writes big logs for measuring speed: their bulk, mix of lines and interleaving are a training job's.

They are no labelled corpus. The same arguments give the same bytes.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

POOL, LINES = 16, 12_000  # distinct blocks of lines, drawn in random order

Make = Callable[[random.Random, int, int], str]

QUIET: tuple[tuple[int, Make], ...] = (
    (40, lambda g, r, i: f"[rank{r}]:[2026-12-01 02:{i // 60 % 60:02d}:{i % 60:02d},{g.randrange(1000):03d}] [INFO] [train.py:212:step] step {i} | loss {2 + g.random():.4f} | lr {g.random() * 3e-4:.3e} | tok/s {g.randrange(90000)}\n"),
    (12, lambda g, r, i: f"{{'loss': {g.random() * 4:.4f}, 'grad_norm': {g.random():.6f}, 'epoch': {i / 9000:.4f}, 'rank': {r}}}\n"),
    (10, lambda g, r, i: "".join(f"\rEpoch {i // 9000}: {k:3d}%|{'█' * (k // 10):<10}| {k}/1000 [00:{k % 60:02d}<01:00, {g.random() * 20:5.2f}it/s]" for k in range(40, 44)) + "\n"),
    (18, lambda g, r, i: f"node{r // 8}:{4000 + r}:{5000 + g.randrange(64)} [{r % 8}] NCCL INFO Channel {g.randrange(24):02d}/0 : {r}[{r % 8}] -> {g.randrange(64)}[0] via P2P/CUMEM/read\n"),
    (8, lambda g, r, i: f"\x1b[36m(RayTrainWorker pid={4000 + r}, ip=10.0.{r // 8 % 256}.{r % 8})\x1b[0m loaded shard-{g.randrange(99999):05d}-of-99999.tar in {g.random() * 3:.2f}s\n"),
    (5, lambda g, r, i: f"[rank{r}]: saved /ckpt/run42/step_{i}/rank_{r:05d}.distcp ({g.randrange(2**31)} bytes)\n"),
    (1, lambda g, r, i: "/opt/conda/lib/python3.11/site-packages/torch/utils/checkpoint.py:295: FutureWarning: `torch.cpu.amp.autocast(args...)` is deprecated.\n"),
    (1, lambda g, r, i: "\n"),
)  # fmt: skip
NOISY: tuple[Make, ...] = (
    lambda g, r, i: f"[rank{r}]: step {i} mean squared error {g.random():.5f} validation error {g.random() * 9:.2f}%\n",
    lambda g, r, i: f"[rank{r}]:[2026-12-01 02:00:00] [WARNING] [data.py:88] sample {g.randrange(10**9)}: warning, caption longer than 77 tokens, truncated\n",
    lambda g, r, i: f"[rank{r}]: ERROR:root:could not decode image_{g.randrange(10**8)}.jpg, skipped (error 17)\n",
    lambda g, r, i: f"[rank{r}]: ValueError while parsing record {g.randrange(10**7)}, retrying\n",
    lambda g, r, i: f"node{r // 8}:{4000 + r}:{5000 + g.randrange(64)} [{r % 8}] NCCL WARN Call to ibv_query_port returned a warning, port {g.randrange(4)}\n",
    lambda g, r, i: "/opt/app/model.py:41: UserWarning: lr_scheduler.step() before optimizer.step(), see warning above\n",
)  # fmt: skip


def failure(rng: random.Random, ranks: int, tracebacks: int) -> Iterator[str]:
    """One rank runs out of memory; the others' tracebacks, line by line in one another; watchdogs; the launcher."""
    culprit = min(5, ranks - 1)

    def traceback(rank: int, last: str) -> list[str]:
        frames = [
            f'  File "/opt/app/{name}.py", line {n}, in {name}'
            for n, name in enumerate(("train", "model", "block", "attention"), 100)
        ]
        return [f"[rank{rank}]: {line}\n" for line in ("Traceback (most recent call last):", *frames, last)]

    yield from traceback(
        culprit,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 5 has a total capacity of 79.10 GiB",
    )
    echo = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2251, remote process exited or there was a network error"
    waiting = [traceback(k % ranks, echo) for k in range(tracebacks - 1) if k % ranks != culprit]
    running: list[list[str]] = []
    while waiting or running:
        while waiting and len(running) < 64:
            running.append(waiting.pop())
        mine = rng.choice(running)
        yield mine.pop(0)
        if not mine:
            running.remove(mine)
    for rank in range(ranks):
        yield f"W1201 03:00:00.{rng.randrange(10**6):06d} 4711 torch/distributed/elastic/multiprocessing/api.py:900] Sending process {4000 + rank} closing signal SIGTERM\n"
    yield f"E1201 03:00:01.000001 4711 torch/distributed/elastic/multiprocessing/api.py:874] failed (exitcode: 1) local_rank: {culprit % 8} (pid: {4000 + culprit}) of binary: /usr/bin/python\n"  # fmt: skip


def write(
    path: Path, megabytes: float, ranks: int = 64, noise: float = 0.0, tracebacks: int = 64, seed: int = 0
) -> Path:
    """Write a log of `megabytes` (10**6 bytes) and a failure at its end, unless it is there already."""
    if path.exists():
        return path
    rng = random.Random(seed)
    makers, weights = [make for _, make in QUIET], [weight for weight, _ in QUIET]
    left = int(megabytes * 1e6)
    pool: list[bytes] = []
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        while left > 0:
            if len(pool) < POOL:
                drawn = rng.choices(makers, weights, k=min(LINES, left // 40 + 1))  # none is shorter on average
                made = (rng.choice(NOISY) if noise and rng.random() < noise else make for make in drawn)
                pool.append(
                    "".join(
                        make(rng, rng.randrange(ranks), 100 * len(pool) + i // 120) for i, make in enumerate(made)
                    ).encode()
                )
                block = pool[-1]
            else:
                block = rng.choice(pool)
            if len(block) > left:
                block = block[: block.rfind(b"\n", 0, left) + 1] or b"\n"
            left -= len(block)
            file.write(block)
        file.write("".join(failure(rng, ranks, tracebacks)).encode())
    temporary.rename(path)
    return path


if __name__ == "__main__":
    name, megabytes, ranks, noise, tracebacks, seed = sys.argv[1:]
    write(Path(name), float(megabytes), int(ranks), float(noise), int(tracebacks), int(seed))
