"""What happens in a failing job, apart from how a launcher would print it.

A fault template returns a `Script`: who says what, when, how each process ends, and the label. The framing
(`framing/`) turns a script into a log the way a launcher of some era does: prefixes, interleaving, buffering,
tables. Every `Say` may mark lines that state the root cause; the renderer follows them to line numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

AGENT = -1
"""Speaker id of the launching process (torchrun's agent, mpirun, the DeepSpeed launcher, a driver…)."""
SYSTEM = -2
"""Speaker id of the machine: kernel, scheduler daemon, container runtime. Never carries a rank prefix."""


@dataclass(frozen=True)
class Job:
    """The healthy job that a fault hits. Ranks run 0..world_size-1, `per_node` of them on each host."""

    world_size: int
    per_node: int
    hosts: tuple[str, ...]
    backend: str  # nccl | gloo
    launcher: str  # see framing/
    torch: tuple[int, int]  # (1, 8) … (2, 13): which era's formats
    python: tuple[int, int]
    script: str  # e.g. "train.py"
    workdir: str  # e.g. "/home/amy/seg"
    site: str  # e.g. "/opt/conda/lib/python3.10/site-packages"
    pids: tuple[int, ...]  # by rank
    cuda_visible_all: bool = True  # False: each process sees one GPU (device ordinal 0)

    def host(self, rank: int) -> str:
        return self.hosts[rank // self.per_node]

    def local(self, rank: int) -> int:
        return rank % self.per_node


@dataclass(frozen=True)
class Say:
    """One write of one process.

    `text` has no trailing newline and may hold several lines; `evidence` holds 0-based line offsets in it that
    state the root cause. `kind` tells the framing how the era prefixes it:

    - ``raw``: as written by print/printf, whatever prefix the launcher puts in front;
    - ``traceback``: an uncaught exception of the main thread (gets ``[rankN]: `` where the era does so and the process
      group exists; without it, writes of several ranks interleave);
    - ``c10``: a c10 log statement: ``text`` is the message, `level` and `origin` ("ProcessGroupNCCL.cpp:607") its head;
    - ``log``: a line through the script's own logger (the framing's logging style puts time/rank in front or not);
    - ``torchlog``: a line of torch's Python loggers; `origin` is "torch/_dynamo/convert_frame.py:844";
    - ``bar``: a progress bar: starts with a carriage return and leaves its line open;
    - ``nccl``: NCCL's own line; ``text`` from "NCCL WARN …"/"NCCL INFO …" on, `origin` the file:line (may be "").
    """

    who: int
    t: float
    text: str
    kind: str = "raw"
    evidence: tuple[int, ...] = ()
    level: str = "E"
    origin: str = ""
    stream: str = "stderr"
    node: int = 0  # whose agent or kernel speaks, when `who` is AGENT or SYSTEM
    names: tuple[int, ...] = ()  # global ranks that the text itself says have failed (a launcher's table, an exit line)
    maps: tuple[int, ...] = ()  # global ranks whose pid the text tells


@dataclass(frozen=True)
class Exit:
    """How a process ends: `code` as Popen reports it (negative: signal), `t` in seconds since start."""

    rank: int
    t: float
    code: int


@dataclass
class Script:
    """A failure, told causally. Ranks without an `Exit` are terminated by the launcher after the first failure
    (or, with `hang=True`, live on until the log ends)."""

    category: str
    reason: str
    scope: str
    culprit_ranks: tuple[int, ...]
    says: list[Say] = field(default_factory=list)
    exits: list[Exit] = field(default_factory=list)
    start: float = 60.0  # when training steps begin; healthy noise fills the time before `fails_at`
    fails_at: float = 300.0  # healthy output of the job stops here (of the victims: when they notice)
    silent: tuple[int, ...] = ()  # ranks that print nothing from `fails_at` on
    in_group: bool = True  # False: fails before init_process_group (no [rankN] prefix yet)
    hang: bool = False  # the launcher does not end the job; the log just stops
    needs: dict[str, Sequence[str]] = field(default_factory=dict)  # e.g. {"launcher": ["srun"], "backend": ["nccl"]}
    table_is_evidence: bool = (
        False  # the launcher's exit line/table row of the culprit itself states the cause (SIGKILL, SIGSEGV)
    )
    no_culprit_mark: str = (
        ""  # scope to use instead when neither a prefix nor a launcher table names the rank: "unknown" or ""
    )
    told: bool = False  # what failed runs on the culprits only, and says so (a function for rank 0)
    peers: bool = True  # let the framing add the usual consequences on the other ranks (lost peer, watchdog, SIGTERM)


Fault = Callable[[random.Random, Job], Script]
"""A fault template: draws its details from the generator and tells the script for this job."""
