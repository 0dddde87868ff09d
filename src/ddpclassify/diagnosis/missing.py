"""Which evidence the log lacks, and the flags that would give it next time."""

from __future__ import annotations

from collections.abc import Callable

from ddpclassify.features import Described
from ddpclassify.language import say
from ddpclassify.types import Attributed

# (what holds for such a log, what to say); every row that holds is said.
_ROWS: tuple[tuple[Callable[[Described, str, str], bool], str], ...] = (
    (
        lambda d, scope, category: not is_said(d.folded.events.log),
        "The log holds no line. Keep both streams of the launcher and of every rank: `torchrun --log-dir logs --tee 3 train.py 2>&1 | tee full.log`.",
    ),
    (
        lambda d, scope, category: "torchrun" in d.folded.events.log.facts.launchers and not _spoke(d),
        "Only the launcher speaks here: no worker's own error is in the log. Keep it with `torchrun --log-dir logs --tee 3 …`, and decorate main() with `@record` (torch.distributed.elastic.multiprocessing.errors).",
    ),
    (
        lambda d, scope, category: scope == "unknown" and is_said(d.folded.events.log),
        "Nothing in the log names the rank. Mark the lines: `torchrun --tee 3`, `srun --label`, `mpirun --tag-output`, or a rank in your logging format.",
    ),
    (
        lambda d, scope, category: category == "collective_timeout" and not d.view.enqueued,
        "No sequence numbers: set TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 (flight recorder) to see which rank is behind, or TORCH_DISTRIBUTED_DEBUG=DETAIL.",
    ),
    (
        lambda d, scope, category: (
            bool(d.view.world)
            and bool(d.folded.events.log.facts.ranks_seen)
            and len(d.folded.events.log.facts.ranks_seen | set(d.view.exits)) < d.view.world // 2
            and d.view.world > 2
        ),
        "Less than half of the ranks appear in this log; the cause may stand in another node's file. Give all of them: `ddpclassify predict FOLDER`.",
    ),
    (
        lambda d, scope, category: (
            category in ("host_oom", "native_crash")
            and not any(e.frames for e in d.folded.events.events if e.role != "teardown")
        ),
        "The process died without a word. Run with PYTHONFAULTHANDLER=1 and look at `dmesg -T | grep -i -E 'oom|segfault'` on its node.",
    ),
)


def is_said(log: Attributed) -> bool:
    """Whether a log says anything at all."""
    return any(line.raw.strip() for line in log.lines)


def _spoke(described: Described) -> bool:
    return any(
        e.role not in ("teardown", "info")
        for e in described.folded.events.events
        if e.kind not in ("error_line", "cut_traceback")
    )


def missing_evidence(described: Described, scope: str, category: str) -> list[str]:
    """Return one sentence for each kind of evidence that is missing and would have helped."""
    if category == "no_failure":
        return []
    return [say(text) for holds, text in _ROWS if holds(described, scope, category)]
