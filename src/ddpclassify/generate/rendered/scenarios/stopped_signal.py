"""A signal stops the job: agents and ranks print where it met them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ..script import AGENT, Job, Say, Script
from . import _gloo, _system
from ._common import Shelf, backward_frames, draw_time, exits, main_frames, ranks, script, system, traceback

SHELF = Shelf("preempted")
SCENARIOS, NEEDS = SHELF.scenarios, SHELF.needs
CATEGORY = SHELF.category
Story = Callable[[random.Random, Job], Script]


def death_signal(number: int) -> Story:
    """torchelastic's agent gets a signal and says so in a traceback of its own."""
    name = {15: "SIGTERM", 2: "SIGINT", 1: "SIGHUP"}[number]

    def story(rng: random.Random, job: Job) -> Script:
        start = draw_time(rng)
        shown = number if job.python >= (3, 11) or job.torch < (2, 1) else f"Signals.{name}"
        agent = rng.randint(400, 60000)
        frames = [
            "{site}/torch/distributed/run.py|<module>|main()",
            "{site}/torch/distributed/elastic/multiprocessing/errors/__init__.py|wrapper|return f(*args, **kwargs)",
            "{site}/torch/distributed/run.py|main|run(args)",
            "{site}/torch/distributed/elastic/agent/server/api.py|_invoke_run|time.sleep(monitor_interval)",
            "{site}/torch/distributed/elastic/multiprocessing/api.py|_terminate_process_handler|raise SignalException("
            'f"Process {os.getpid()} got signal: {sigval}", sigval=sigval)',
        ]
        text = traceback(
            job,
            frames,
            f"torch.distributed.elastic.multiprocessing.api.SignalException: Process {agent} got signal: {number}",
        )
        says = []
        if job.torch >= (1, 11):
            says.append(Say(AGENT, start, f"Received {shown} death signal, shutting down workers", evidence=(0,)))
        if number == 2:
            says += interrupts(rng, job, start + 0.05)
        word = (
            "Closing process {} via signal SIGTERM"
            if rng.random() < 0.2
            else "Sending process {} closing signal SIGTERM"
        )
        says += [Say(AGENT, start + 0.01, word.format(pid)) for pid in job.pids[: job.per_node]]
        says.append(Say(AGENT, start + 1.5, text, evidence=(text.count("\n"),)))
        return script(
            CATEGORY,
            {15: "scheduler", 2: "user_cancelled", 1: "hangup"}[number],
            job,
            "launcher",
            says,
            exits=exits(rng, ranks(job), start + 0.5, -number, 0.6),
            fails_at=start,
            peers=False,
        )

    return story


def interrupts(rng: random.Random, job: Job, t: float, mark: bool = False) -> list[Say]:
    """Ctrl-C reaches the whole terminal group: each rank prints where it was."""
    says = []
    for rank in ranks(job):
        frames = rng.choice(
            [
                backward_frames(job),
                main_frames(job),
                _gloo.call_frames(job, *rng.choice(_gloo.CALLS)),
                [
                    *main_frames(job),
                    "{site}/torch/utils/data/dataloader.py|__next__|data = self._next_data()",
                    "{site}/torch/utils/data/dataloader.py|_try_get_data|data = self._data_queue.get(timeout=timeout)",
                ],
            ]
        )
        text = traceback(job, frames, "KeyboardInterrupt")
        says.append(Say(rank, t + rng.uniform(0, 0.3), text, "traceback", (text.count("\n"),) if mark else ()))
    return says


def ctrl_c(rng: random.Random, job: Job) -> Script:
    start = draw_time(rng)
    says = interrupts(rng, job, start, mark=True)
    if rng.random() < 0.5:
        says.append(system(start - 0.01, "^C", 0))
    return script(
        CATEGORY,
        "user_cancelled",
        job,
        "launcher",
        says,
        exits=exits(rng, ranks(job), start + 0.4, -2),
        fails_at=start,
        peers=False,
    )


def handler(reason: str, texts: Sequence[str], last: str) -> Story:
    """The training program catches the signal, saves and leaves."""

    def story(rng: random.Random, job: Job) -> Script:
        start = draw_time(rng)
        step = rng.randint(100, 90_000)
        says = [
            Say(
                rank,
                start + rng.uniform(0, 0.3),
                rng.choice(texts).format(r=job.local(rank), s=step, j=_system.job_id(job)),
                "log",
                (0,),
                "W",
            )
            for rank in (ranks(job) if rng.random() < 0.6 else [0])
        ]
        says.append(Say(0, start + 3, last.format(s=step, j=_system.job_id(job)), "log", level="I"))
        code = rng.choice([-15, 143, 0, 1])
        return script(
            CATEGORY,
            reason,
            job,
            "launcher",
            says,
            exits=exits(rng, ranks(job), start + 4, code),
            fails_at=start,
            peers=False,
        )

    return story


def sigterm_exception(rng: random.Random, job: Job) -> Script:
    """Lightning turns the signal into an exception on every rank."""
    start = draw_time(rng)
    says = []
    for rank in ranks(job):
        t = start + rng.uniform(0, 0.4)
        says.append(Say(rank, t, f"[rank: {job.local(rank)}] Received SIGTERM: 15", evidence=(0,)))
        frames = [
            "{user}|<module>|trainer.fit(model, datamodule=dm)",
            "{site}/lightning/pytorch/trainer/trainer.py|fit|call._call_and_handle_interrupt(",
            "{site}/lightning/pytorch/loops/training_epoch_loop.py|advance|call._call_callback_hooks(trainer, name)",
            "{site}/lightning/pytorch/trainer/call.py|_check_on_sigterm|raise SIGTERMException",
        ]
        says.append(
            Say(
                rank,
                t + 1,
                traceback(job, frames, "lightning.pytorch.utilities.exceptions.SIGTERMException"),
                "traceback",
            )
        )
    return script(
        CATEGORY,
        "scheduler",
        job,
        "launcher",
        says,
        exits=exits(rng, ranks(job), start + 2, 1),
        fails_at=start,
        peers=False,
    )


for signal in (15, 2, 1):
    SHELF.put(f"preempt-agent-{signal}", death_signal(signal), launcher=["torchrun", "accelerate"], torch_min=["1.10"])
# torchrun's agents get the signal too: told above.
SHELF.put(
    "preempt-ctrl-c",
    ctrl_c,
    launcher=["legacy-launch", "mp.spawn", "lightning", "deepspeed", "mpirun", "srun", "shell", "composer"],
)
SHELF.put(
    "preempt-lightning-usr1",
    handler(
        "time_limit",
        ["Handling auto-requeue signal: 10", "Handling SIGUSR1: saving and requeueing"],
        "requeing job {j}...",
    ),
    launcher=["lightning", "srun"],
)
SHELF.put(
    "preempt-handler",
    handler(
        "scheduler",
        ["Caught SIGTERM at step {s}, stopping after this batch", "received signal 15, checkpointing and exiting"],
        "saved checkpoint at step {s}, exiting on request",
    ),
)
SHELF.put(
    "preempt-sighup",
    handler(
        "hangup",
        ["received SIGHUP: terminal closed", "signal 1 (Hangup) received, shutting down"],
        "stopped at step {s}",
    ),
    launcher=["shell", "mp.spawn", "lightning", "legacy-launch"],
)
SHELF.put("preempt-lightning-term", sigterm_exception, launcher=["lightning"])
