"""The job ends well, or runs on, however alarming its lines are."""

from __future__ import annotations

import random
from collections.abc import Callable

from ..script import AGENT, Job, Say, Script
from . import _cuda, _gloo, _nccl, _system
from ._common import (
    NCCL,
    Shelf,
    backward_frames,
    draw_time,
    exits,
    ip,
    main_frames,
    ranks,
    script,
    stack,
    system,
    traceback,
)

SHELF = Shelf("no_failure")
SCENARIOS, NEEDS = SHELF.scenarios, SHELF.needs
Story = Callable[[random.Random, Job], Script]
Part = Callable[[random.Random, Job, float], list[Say]]

DONE = [
    "Training finished.",
    "Training completed in {h}:{m:02d}:{s:02d}",
    "done, best val acc {a:.4f}",
    "Saved final model to {w}/out",
    "Finished epoch {e}/{e}",
    "All {e} epochs done",
    "Trainer.fit stopped: `max_epochs={e}` reached.",
]


def finished(*parts: Part, running: bool = False) -> Story:
    """Healthy output with alarming parts; `running`: the log just stops in the midst of training."""

    def story(rng: random.Random, job: Job) -> Script:
        end = draw_time(rng, 200, 4000)
        says = [say for part in parts for say in part(rng, job, end)]
        if not running:
            text = rng.choice(DONE).format(
                h=rng.randint(0, 40),
                m=rng.randint(0, 59),
                s=rng.randint(0, 59),
                a=rng.uniform(0.5, 0.95),
                w=job.workdir,
                e=rng.choice([1, 10, 50, 100]),
            )
            says.append(Say(0, end, text, "log", level="I", stream="stdout"))
        says = [
            Say(say.who, say.t, say.text, say.kind, (), say.level, say.origin, say.stream, say.node) for say in says
        ]
        return script(
            "no_failure",
            "running" if running else "completed",
            job,
            "none",
            says,
            fails_at=end,
            hang=running,
            peers=False,
            exits=[] if running else exits(rng, ranks(job), end + 1, 0, 0.5),
        )

    return story


def middle(rng: random.Random, end: float) -> float:
    return rng.uniform(70, end - 20)


def leak(rng: random.Random, job: Job, end: float) -> list[Say]:
    text = (
        "WARNING: destroy_process_group() was not called before program exit, which can leak resources. For more info,"
        " please see https://pytorch.org/docs/stable/distributed.html#shutdown"
        if job.torch >= (2, 6)
        else "Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL. On normal "
        "program exit, the application should call destroy_process_group to ensure that any pending NCCL operations "
        "have finished in this process."
    )
    return [Say(0, end + 0.5, text, "c10", level="W", origin="ProcessGroupNCCL.cpp:1250")]


def exit_barrier(rng: random.Random, job: Job, end: float) -> list[Say]:
    frames = [
        "{site}/torch/distributed/elastic/agent/server/api.py|_exit_barrier|store_util.barrier(",
        "{site}/torch/distributed/elastic/utils/store.py|barrier|synchronize(store, data, rank, world_size, "
        "key_prefix, timeout)",
    ]
    error = "RuntimeError: Socket Timeout" if job.torch < (2, 2) else "torch.distributed.DistStoreError: Socket Timeout"
    return [
        Say(
            AGENT,
            end + 300,
            f"Error waiting on exit barrier. Elapsed: {rng.uniform(300, 301):.6f} seconds\n"
            + traceback(job, frames, error),
        ),
        Say(
            AGENT,
            end + 301,
            f"The node '{job.hosts[0]}_{rng.randint(90, 9000)}_0' has failed to shutdown the rendezvous 'none' due to "
            "an error of type RendezvousConnectionError.",
        ),
    ]


def recv_value(rng: random.Random, job: Job, end: float) -> list[Say]:
    why = rng.choice(["Connection reset by peer", "failed to recv, got 0 bytes"])
    says = [_gloo.recv_value(rng, job, rank, end + 1.2, why) for rank in list(ranks(job))[1:5]]
    says += [
        _nccl.c10(
            rank,
            end + 1.3,
            f'{_nccl.pg_prefix(job, _nccl.Work(0), rank)}Failed to check the "should dump" flag on TCPStore, '
            f"(maybe TCPStore server has shut down too early), with error: {why}",
            1680,
            "W",
        )
        for rank in list(ranks(job))[1:3]
    ]
    return says


def semaphores(rng: random.Random, job: Job, end: float) -> list[Say]:
    python = job.site.rsplit("/", 1)[0]
    return [
        Say(
            0,
            end + 0.6,
            f"{python}/multiprocessing/resource_tracker.py:{rng.choice([216, 224, 254])}: UserWarning: "
            f"resource_tracker: There appear to be {rng.randint(1, 60)} leaked semaphore objects to clean up at "
            "shutdown\n  warnings.warn('resource_tracker: There appear to be %d '",
        )
    ]


def signal_handler(rng: random.Random, job: Job, end: float) -> list[Say]:
    return [
        Say(rank, 25, "signal handler installed for SIGTERM and SIGUSR1", "log", level="I", stream="stdout")
        for rank in ranks(job)
    ] + [Say(0, 26, "collective timeout=1800 s, abort on timeout enabled", "log", level="I", stream="stdout")]


def batch_search(rng: random.Random, job: Job, end: float) -> list[Say]:
    """Out of memory, caught while a batch size is looked for."""
    says = []
    size = 2 ** rng.randint(5, 9)
    for i in range(rng.randint(1, 3)):
        text = _cuda.oom(rng, job, 0).split(": ", 1)[1]
        says.append(
            Say(0, 30 + 6.0 * i, f"batch size {size} does not fit ({text}), trying {size // 2}", "log", level="W")
        )
        size //= 2
    return [*says, Say(0, 55, f"batch size {size} works", "log", level="I")]


def logged_oom(rng: random.Random, job: Job, end: float) -> list[Say]:
    """A whole traceback by logger.exception for a skipped batch."""
    t = middle(rng, end)
    text = traceback(job, backward_frames(job), _cuda.oom(rng, job, 0))
    return [
        Say(0, t, f"batch {rng.randint(9, 9000)} skipped\n{text}", "log", level="E"),
        Say(0, t + 1, "cache emptied, going on with the next batch", "log", level="I"),
    ]


def nan_metrics(rng: random.Random, job: Job, end: float) -> list[Say]:
    return [
        Say(
            0,
            middle(rng, end),
            rng.choice(
                [
                    "val_auc is nan for class 17 (no positives), ignored in the mean",
                    f"non-finite gradient norm at step {rng.randint(9, 9000)}, step skipped",
                    "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
                    "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
                ]
            ),
            rng.choice(["raw", "log"]),
            level="I",
            stream="stdout",
        )
        for _ in range(rng.randint(1, 4))
    ]


def retries(rng: random.Random, job: Job, end: float) -> list[Say]:
    t = middle(rng, end)
    left = rng.randint(2, 4)
    lines = [
        f"WARNING:urllib3.connectionpool:Retrying (Retry(total={left}, connect=None, read=None, redirect=None, "
        "status=None)) after connection broken by 'ReadTimeoutError(\"HTTPSConnectionPool(host='huggingface.co', "
        "port=443): Read timed out.\")': /api/models",
        "wandb: Network error (ConnectionError), entering retry loop.",
        f"upload of checkpoint failed (503 Slow Down), retry 1/{left}",
        "s3 read timed out, attempt 2 of 5",
    ]
    good = ["upload succeeded after retry", "connection is back", "read succeeded on attempt 3"]
    return [Say(0, t, rng.choice(lines)), Say(0, t + 20, rng.choice(good), "log", level="I")]


def elastic_restart(rng: random.Random, job: Job, end: float) -> list[Say]:
    """A first attempt fails, the second runs through (rule 8)."""
    t = rng.uniform(65, min(150, end - 50))
    rank = rng.choice(ranks(job))
    error = rng.choice(
        [
            "RuntimeError: CUDA error: unspecified launch failure",
            "ConnectionResetError: [Errno 104] Connection reset by peer",
            "OSError: [Errno 5] Input/output error",
        ]
    )
    return [
        Say(rank, t, traceback(job, main_frames(job), error), "traceback"),
        Say(
            AGENT,
            t + 0.4,
            f"[default] Worker group FAILED. {rng.randint(1, 3)}/3 attempts left; will restart worker group",
        ),
        Say(0, t + 15, f"resumed from step {rng.randint(10, 4000)}, restart 1", "log", level="I"),
    ]


def sockets(rng: random.Random, job: Job, end: float) -> list[Say]:
    at = rng.choice([29500, 12355])
    text = rng.choice(
        [
            f"[c10d] The client socket has failed to connect to [localhost]:{at} (errno: 99 - Cannot assign requested "
            "address).",
            f"[c10d] The client socket has failed to connect to [{job.hosts[0]}]:{at} (errno: 111 - Connection "
            "refused).",
            f"[c10d] The server socket cannot be initialized on [::]:{at} (errno: 97 - Address family not supported "
            "by protocol).",
            f"[c10d] The IPv6 network addresses of ({job.hosts[0]}, {at}) cannot be retrieved (gai error: -3 - "
            "Temporary failure in name resolution).",
        ]
    )
    return [Say(rank, 9 + 0.3 * rank, text, "c10", level="W", origin="socket.cpp:663") for rank in list(ranks(job))[:4]]


def nccl_noise(rng: random.Random, job: Job, end: float) -> list[Say]:
    says = []
    for rank in list(ranks(job))[:8]:
        for i, text in enumerate(
            [
                "NET/IB : No device found.",
                "NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open shared object "
                "file: No such file or directory",
                "Call to connect returned Connection refused, retrying",
            ]
        ):
            says.append(_nccl.warn(rank, 14 + 0.1 * i, text, "", level="INFO"))
        says.append(
            _nccl.warn(
                rank,
                end + 0.8,
                f"comm 0x{rng.getrandbits(44):x} rank {rank} nranks {job.world_size} cudaDev {job.local(rank)} busId "
                f"{rng.randrange(16, 240):x}000 - Abort COMPLETE",
                "",
                level="INFO",
            )
        )
    return says


def kernel_noise(rng: random.Random, job: Job, end: float) -> list[Say]:
    """Corrected errors; training goes on."""
    t, style = middle(rng, end), rng.randint(0, 3)
    texts = rng.choice(
        [
            [f"pcieport 0000:{rng.randint(16, 200):02x}:01.0: AER: Corrected error received: 0000:3b:00.0"],
            [
                f"NVRM: Xid (PCI:{_system.pci(job, 0)[:-3]}:00): 63, pid={job.pids[0]}, name=python, Row Remapper: "
                "New row marked for remapping, reset gpu to activate."
            ],
            ["EDAC MC1: 1 CE memory read error on CPU_SrcID#1_MC#0_Chan#1_DIMM#0"],
        ]
    )
    return [
        _system.kernel_says(job, t, 0, texts, style, -1),
        Say(0, t + 5, f"step {rng.randint(500, 9000)}: still on schedule", "log", level="I"),
    ]


def child_noise(rng: random.Random, job: Job, end: float) -> list[Say]:
    """Destructors of loader workers complain; nothing is lost."""
    head = f"Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f{rng.getrandbits(40):010x}>"
    frames = [
        "{site}/torch/utils/data/dataloader.py|__del__|self._shutdown_workers()",
        "{site}/torch/utils/data/dataloader.py|_shutdown_workers|if w.is_alive():",
    ]
    lines = [
        head,
        "Traceback (most recent call last):",
        *stack(job, frames),
        "AssertionError: can only test a child process",
    ]
    return [Say(0, middle(rng, end) + 0.2 * i, "\n".join(lines)) for i in range(rng.randint(1, 3))]


def stopping_early(rng: random.Random, job: Job, end: float) -> list[Say]:
    return [
        Say(
            0,
            end - 1,
            rng.choice(
                [
                    "Early stopping: patience exceeded (val_loss did not improve for 5 epochs)",
                    "EarlyStopping: Trainer was signaled to stop.",
                    "Signal: target accuracy reached, stopping all ranks",
                ]
            ),
            "log",
            level="I",
            stream="stdout",
        )
    ]


def slow(rng: random.Random, job: Job, end: float) -> list[Say]:
    """A straggler warning and a watchdog's advice, then normal steps."""
    t = middle(rng, end)
    rank = rng.choice(ranks(job))
    return [
        Say(
            0, t, f"straggler: rank {rank} took {rng.uniform(4, 40):.1f} s for a step (median 0.9 s)", "log", level="W"
        ),
        Say(0, t + 3, f"heartbeat of {ip(job, rank)} late by {rng.randint(3, 20)} s, recovered", "log", level="W"),
        Say(0, t + 8, "all ranks in step again", "log", level="I"),
    ]


def requeued_before(rng: random.Random, job: Job, end: float) -> list[Say]:
    """This run resumes after a preemption that it only mentions."""
    return [
        system(
            2,
            f"restart {rng.randint(1, 5)} of job {_system.job_id(job)}: previous attempt was CANCELLED DUE TO "
            "PREEMPTION",
            -1,
        ),
        Say(
            0,
            30,
            f"resuming from checkpoint at step {rng.randint(500, 90000)} (last run ended by signal 15)",
            "log",
            level="I",
        ),
    ]


SHELF.put("ok-plain", finished())
SHELF.put("ok-group-leak", finished(leak), NCCL, torch_min=["2.3"])
SHELF.put("ok-exit-barrier", finished(exit_barrier), launcher=["torchrun", "accelerate"], torch_min=["1.10"])
SHELF.put("ok-store-gone", finished(recv_value), NCCL, torch_min=["2.5"], world_size=[2, 4, 8, 16])
SHELF.put("ok-semaphores", finished(semaphores))
SHELF.put("ok-signal-handler", finished(signal_handler))
SHELF.put("ok-batch-search", finished(batch_search), NCCL)
SHELF.put("ok-logged-oom", finished(logged_oom), NCCL)
SHELF.put("ok-nan-metrics", finished(nan_metrics))
SHELF.put("ok-retries", finished(retries))
SHELF.put("ok-elastic-restart", finished(elastic_restart), launcher=["torchrun"], torch_min=["1.10"])
SHELF.put("ok-socket-noise", finished(sockets), torch_min=["1.11"])
SHELF.put("ok-nccl-noise", finished(nccl_noise), NCCL)
SHELF.put("ok-kernel-noise", finished(kernel_noise), NCCL)
SHELF.put("ok-child-noise", finished(child_noise))
SHELF.put("ok-early-stopping", finished(stopping_early))
SHELF.put("ok-straggler", finished(slow))
SHELF.put("ok-after-preemption", finished(requeued_before))
SHELF.put("ok-many", finished(sockets, signal_handler, nan_metrics, retries, semaphores), torch_min=["1.11"])
SHELF.put("ok-running", finished(running=True))
SHELF.put("ok-running-noisy", finished(nan_metrics, retries, child_noise, running=True))
SHELF.put("ok-running-kernel", finished(kernel_noise, slow, running=True), NCCL)
