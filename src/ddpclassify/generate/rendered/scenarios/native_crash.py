"""A process dies in native code with no Python error of its own."""

from __future__ import annotations

import random

from ..script import SYSTEM, Exit, Job, Say, Script
from . import _system
from ._common import (
    Shelf,
    a_rank,
    draw_time,
    exits,
    hexa,
    main_frames,
    node_of,
    node_ranks,
    raised,
    script,
    stack,
    system,
)
from ._stuck import Story

SHELF = Shelf("native_crash")
SCENARIOS, NEEDS = SHELF.scenarios, SHELF.needs
REASONS = {11: "segfault", 6: "abort", 4: "illegal_instruction", 8: "floating_point", 7: "segfault"}


def bare(number: int) -> Story:
    """Only the exit code is left."""

    def story(rng: random.Random, job: Job) -> Script:
        rank, start = a_rank(rng, job), draw_time(rng, 40, 4000)
        return script(
            "native_crash",
            REASONS[number],
            job,
            [rank],
            [],
            exits=[Exit(rank, start, -number)],
            fails_at=start,
            silent=(rank,),
            table_is_evidence=True,
            no_culprit_mark="unknown",
        )

    return story


FATAL = {11: "Segmentation fault", 6: "Aborted", 4: "Illegal instruction", 8: "Floating point exception"}


def faulthandler(number: int) -> Story:
    def story(rng: random.Random, job: Job) -> Script:
        rank, start = a_rank(rng, job), draw_time(rng)
        deep = rng.choice(
            [
                ["{site}/torch/nn/modules/linear.py|forward|x", "{site}/torch/nn/modules/module.py|_call_impl|x"],
                ["{site}/cv2/__init__.py|resize|x", "{dir}/dataset.py|__getitem__|x"],
                ["{site}/torch/autograd/__init__.py|backward|x", "{site}/torch/_tensor.py|backward|x"],
                ["{site}/flash_attn/flash_attn_interface.py|_flash_attn_forward|x", "{dir}/attention.py|forward|x"],
                ["{site}/pyarrow/parquet/core.py|read|x", "{dir}/data.py|read_shard|x"],
            ]
        )
        frames = [
            line.replace(", in ", " in ")
            for line in stack(job, [*deep, *main_frames(job)[::-1]])
            if line.startswith("  File")
        ]
        lines = [f"Fatal Python error: {FATAL[number]}", ""]
        if rng.random() < 0.6:
            lines += [
                f"Thread 0x00007f{hexa(rng, 10)} (most recent call first):",
                '  File "/usr/lib/python3/threading.py", line 324 in wait',
                '  File "/usr/lib/python3/queue.py", line 180 in get',
                "",
            ]
        lines += [f"Current thread 0x00007f{hexa(rng, 10)} (most recent call first):", *frames]
        if job.python >= (3, 10):
            lines += [
                "",
                "Extension modules: numpy.core._multiarray_umath, torch._C, torch._C._fft, torch._C._linalg (total: "
                "41)",
            ]
        return script(
            "native_crash",
            REASONS[number],
            job,
            [rank],
            [Say(rank, start, "\n".join(lines), evidence=(0,))],
            exits=[Exit(rank, start + 0.1, -number)],
            fails_at=start,
            table_is_evidence=True,
            no_culprit_mark="unknown",
        )

    return story


GLIBC: dict[str, list[str]] = {
    "free": [
        "double free or corruption (!prev)",
        "free(): invalid pointer",
        "double free or corruption (out)",
        "munmap_chunk(): invalid pointer",
        "free(): corrupted unsorted chunks",
    ],
    "malloc": [
        "malloc(): invalid size (unsorted)",
        "corrupted size vs. prev_size",
        "malloc(): unaligned tcache chunk detected",
        "malloc_consolidate(): invalid chunk size",
        "realloc(): invalid next size",
    ],
    "stack": ["*** stack smashing detected ***: terminated", "*** buffer overflow detected ***: terminated"],
}


def glibc(kind: str, map_: bool = False) -> Story:
    def story(rng: random.Random, job: Job) -> Script:
        rank, start = a_rank(rng, job), draw_time(rng)
        text = rng.choice(GLIBC[kind])
        lines = [text]
        if map_:  # glibc before 2.26 added a backtrace and the memory map
            program = rng.choice(["/opt/conda/bin/python", "python", "/usr/bin/python3"])
            lines = [f"*** Error in `{program}': {text}: 0x00005{hexa(rng, 11)} ***", "======= Backtrace: ========="]
            lines += [f"/lib/x86_64-linux-gnu/libc.so.6(+0x{hexa(rng, 5)})[0x7f{hexa(rng, 10)}]" for _ in range(3)]
            lines += [
                f"{job.site}/torch/lib/libtorch_cpu.so(+0x{hexa(rng, 7)})[0x7f{hexa(rng, 10)}]",
                "======= Memory map: ========",
                f"00400000-006f5000 r-xp 00000000 08:01 {rng.randint(10**6, 10**7)} {program}",
            ]
        return script(
            "native_crash",
            "heap_corruption",
            job,
            [rank],
            [Say(rank, start, "\n".join(lines), evidence=(0,))],
            exits=[Exit(rank, start + 0.1, -6)],
            fails_at=start,
            table_is_evidence=True,
            no_culprit_mark="unknown",
        )

    return story


def terminate(everywhere: bool) -> Story:
    """A C++ exception in a thread; libstdc++ writes in pieces, so that ranks run into one another."""

    def story(rng: random.Random, job: Job) -> Script:
        start = draw_time(rng)
        kind, what = rng.choice(
            [
                (
                    "std::out_of_range",
                    "vector::_M_range_check: __n (which is 18446744073709551615) >= this->size() (which is 0)",
                ),
                ("std::logic_error", "basic_string::_M_construct null not valid"),
                ("std::system_error", "Invalid argument"),
                ("std::length_error", "vector::_M_default_append"),
                ("c10::Error", "INTERNAL ASSERT FAILED: refcount_ == 0"),
            ]
        )
        head, tail = f"terminate called after throwing an instance of '{kind}'", f"  what():  {what}"
        if not everywhere or job.world_size == 1:
            rank = a_rank(rng, job)
            say = Say(rank, start, f"{head}\n{tail}", evidence=(0, 1))
            return script(
                "native_crash",
                "abort",
                job,
                [rank],
                [say],
                exits=[Exit(rank, start + 0.1, -6)],
                fails_at=start,
                table_is_evidence=True,
                no_culprit_mark="unknown",
            )
        those = node_ranks(job, 0)[:4]
        cut = rng.randint(5, len(head) - 3)
        glued = head[:cut] + head * (len(those) - 1) + head[cut:]
        lines = [glued, *([tail] * len(those))]
        # A single write stands for the ranks' mixed pieces: nobody can tell them apart.
        says = [Say(SYSTEM, start, "\n".join(lines), evidence=tuple(range(len(lines))))]
        return script(
            "native_crash",
            "abort",
            job,
            those,
            says,
            exits=exits(rng, those, start + 0.1, -6, 0.1),
            fails_at=start,
            table_is_evidence=True,
            no_culprit_mark="unknown",
        )

    return story


def assertion(rng: random.Random, job: Job) -> Script:
    rank, start = a_rank(rng, job), draw_time(rng)
    text = rng.choice(
        [
            "python: ../nptl/pthread_mutex_lock.c:438: __pthread_mutex_lock_full: Assertion `e != ESRCH || !robust' "
            "failed.",
            "python: malloc.c:2617: sysmalloc: Assertion `(old_top == initial_top (av) && old_size == 0)' failed.",
            f"python: /root/.triton/llvm/lib/IR/Instructions.cpp:{rng.randint(100, 4000)}: void init(): Assertion "
            "`getOperand(0)' failed.",
        ]
    )
    return script(
        "native_crash",
        "abort",
        job,
        [rank],
        [Say(rank, start, text, evidence=(0,))],
        exits=[Exit(rank, start + 0.1, -6)],
        fails_at=start,
        table_is_evidence=True,
        no_culprit_mark="unknown",
    )


def kernel_line(rng: random.Random, job: Job) -> Script:
    """The kernel logs the fault with the pid and the library."""
    rank, start = a_rank(rng, job), draw_time(rng)
    lib = rng.choice(
        ["libtorch_cpu.so", "libcuda.so.535.104.05", "libc.so.6", "_C.cpython-310-x86_64-linux-gnu.so", "libnccl.so.2"]
    )
    at = hexa(rng, 10)
    text = rng.choice(
        [
            f"python[{job.pids[rank]}]: segfault at {rng.choice(['0', '8', '10', at])} ip 00007f{at} sp "
            f"00007ff{hexa(rng, 9)} error 4 in {lib}[7f{hexa(rng, 10)}+1a4000]",
            f"traps: python[{job.pids[rank]}] general protection fault ip:7f{at} sp:7ff{hexa(rng, 9)} error:0 in "
            f"{lib}[7f{hexa(rng, 8)}]",
        ]
    )
    line = _system.kernel(job, start, job.host(rank), text, rng.randint(0, 3))
    says = [Say(SYSTEM, start, line, evidence=(0,), node=node_of(job, rank))]
    return script(
        "native_crash",
        "segfault",
        job,
        [rank],
        says,
        exits=[Exit(rank, start, -11)],
        fails_at=start,
        table_is_evidence=True,
        no_culprit_mark="unknown",
    )


def shell_core(rng: random.Random, job: Job) -> Script:
    rank, start = a_rank(rng, job), draw_time(rng)
    what, number = rng.choice(
        [("Segmentation fault", 11), ("Aborted", 6), ("Illegal instruction", 4), ("Floating point exception", 8)]
    )
    command = f"python {job.script} --local_rank {job.local(rank)}"
    text = f"run.sh: line {rng.randint(5, 60)}: {job.pids[rank]} {what}      (core dumped) {command}"
    # The command line tells the local rank: that is the rank on a single node only.
    named = (rank,) if len(job.hosts) == 1 else ()
    says = [system(start + 0.1, text, 0, node=node_of(job, rank), names=named)]
    return script(
        "native_crash",
        REASONS[number],
        job,
        [rank],
        says,
        exits=[Exit(rank, start, -number)],
        fails_at=start,
        table_is_evidence=True,
    )


def worker(rng: random.Random, job: Job) -> Script:
    """A DataLoader worker crashes in a decoder."""
    rank, start = a_rank(rng, job), draw_time(rng)
    pid = job.pids[rank] + rng.randint(100, 3000)
    what = rng.choice(["Segmentation fault", "Aborted", "Floating point exception", "Illegal instruction"])
    frames = [
        *main_frames(job),
        "{site}/torch/utils/data/dataloader.py|_try_get_data|data = self._data_queue.get(timeout=timeout)",
        "{site}/torch/utils/data/_utils/signal_handling.py|handler|_error_if_any_worker_fails()",
    ]
    says = [
        raised(job, rank, start, frames, f"RuntimeError: DataLoader worker (pid {pid}) is killed by signal: {what}. ")
    ]
    if what == "Segmentation fault":
        says.append(
            Say(rank, start - 0.1, "ERROR: Unexpected segmentation fault encountered in worker.", evidence=(0,))
        )
    reason = {
        "Aborted": "abort",
        "Floating point exception": "floating_point",
        "Illegal instruction": "illegal_instruction",
    }.get(what, "segfault")
    return script(
        "native_crash",
        reason,
        job,
        [rank],
        says,
        exits=[Exit(rank, start + 0.5, 1)],
        fails_at=start,
        no_culprit_mark="unknown",
    )


for signal, word in {11: "segv", 6: "abrt", 4: "ill", 8: "fpe", 7: "bus"}.items():
    SHELF.put(f"native-exit-{word}", bare(signal))
for signal, word in {11: "segv", 6: "abrt", 4: "ill", 8: "fpe"}.items():
    SHELF.put(f"native-faulthandler-{word}", faulthandler(signal))
for word in GLIBC:
    SHELF.put(f"native-glibc-{word}", glibc(word))
SHELF.put("native-glibc-backtrace", glibc("free", map_=True), torch_max=["1.12"])
SHELF.put("native-terminate", terminate(False))
SHELF.put("native-terminate-interleaved", terminate(True), world_size=[2, 4, 8], nodes=[1])
SHELF.put("native-assertion", assertion)
SHELF.put("native-kernel-line", kernel_line)
SHELF.put("native-shell-core", shell_core, launcher=["shell", "torchrun", "legacy-launch", "mp.spawn"])
SHELF.put("native-loader-worker", worker)
