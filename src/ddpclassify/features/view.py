"""Who ended how, who waits, who is behind, who is missing: the job seen rank by rank."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from ddpclassify.patterns import lazy
from ddpclassify.types import Event, Folded

_SIGNALS = {
    "SIGHUP": 1,
    "SIGINT": 2,
    "SIGILL": 4,
    "SIGABRT": 6,
    "SIGBUS": 7,
    "SIGFPE": 8,
    "SIGKILL": 9,
    "SIGSEGV": 11,
    "SIGTERM": 15,
}
_SRUN_HOW = (
    ("Out Of Memory", -9),
    ("Killed", -9),
    ("Segmentation", -11),
    ("Aborted", -6),
    ("Terminated", -15),
    ("Bus error", -7),
    ("Floating", -8),
    ("Illegal", -4),
)
_SEQUENCE = lazy(r"SequenceNumber=\d+,? ?")
MAX_RANKS = 1 << 14


@dataclass
class Exit:
    """An end of a rank as a launcher reports it."""

    code: int
    line: int
    root: bool = False  # the launcher calls it the first


@dataclass
class View:
    """The job rank by rank.

    Attributes
    ----------
    exits : rank → how it ended, as tables and launchers say
    waiting : rank → (process group, sequence number, operation, size) of the collective that it timed out in
    behind : ranks whose last enqueued collective is the last completed one, or lower than the others'
    inside : rank → (process group, rank inside it), for groups other than the default one
    running : rank → the collective that a fingerprint check says it runs
    named : rank → how often statements about missing ranks name it ("failed to pass monitoredBarrier", desync reports)
    world : world size, estimated from the launcher's lines where none is stated; 0 when unknown
    """

    exits: dict[int, Exit] = field(default_factory=dict)
    anonymous_exits: list[int] = field(default_factory=list)
    waiting: dict[int, tuple[str, str, str, str]] = field(default_factory=dict)
    enqueued: dict[int, dict[str, tuple[int, int]]] = field(default_factory=dict)
    inside: dict[int, tuple[str, int]] = field(default_factory=dict)
    running: dict[int, str] = field(default_factory=dict)
    named: Counter[int] = field(default_factory=Counter)
    spoke_last: dict[int, int] = field(default_factory=dict)
    world: int = 0
    stated: bool = False  # the world size is in the log
    terminated: int = 0  # processes that the launcher ended
    teardown_line: int = 1 << 60
    attempts: int = 1

    @property
    def ranks(self) -> list[int]:
        """All ranks that are known to exist."""
        known = set(self.exits) | set(self.waiting) | set(self.named) | set(self.spoke_last)
        if 0 < self.world <= MAX_RANKS:
            known |= set(range(self.world))
        return sorted(r for r in known if r < MAX_RANKS)

    @property
    def silent(self) -> set[int]:
        """Ranks that do not wait while others do (only where the world size is known)."""
        if not self.waiting or not self.world or self.world > MAX_RANKS or len(self.waiting) >= self.world:
            return set()
        return set(range(self.world)) - set(self.waiting)

    @property
    def absent(self) -> set[int]:
        """Ranks that do not wait while most others of their process group do.

        A group's ranks are evenly spaced (tensor and sequence parallel: next to each other; data parallel: strided), so
        two members that state their rank inside the group give all others.
        """
        groups: dict[str, dict[int, int]] = defaultdict(dict)
        for rank, (group, inside) in self.inside.items():
            groups[group][inside] = rank
        out: set[int] = set()
        for members in groups.values():
            if len(members) < 2:
                continue
            (i, first), (j, second), *_ = sorted(members.items())
            step = (second - first) // (j - i)
            start = first - step * i
            size = 1 << max(members).bit_length()
            if step < 1 or start < 0 or any(rank != start + step * k for k, rank in members.items()):
                continue  # several groups of the same name
            gone = {start + step * k for k in range(min(size, MAX_RANKS))} - set(self.waiting)
            if len(gone) <= len(members) and (not self.world or max(gone, default=0) < self.world):
                out |= gone
        return out

    @property
    def odd(self) -> set[int]:
        """Ranks that wait in, or run, another operation than the majority of their group."""
        out: set[int] = set()
        for members in self._groups().values():
            counts = Counter(w[1:] for w in members.values())
            if len(counts) > 1:
                usual, n = counts.most_common(1)[0]
                if n > len(members) / 2:
                    out |= {r for r, w in members.items() if w[1:] != usual}
        if self.running:
            usual_call, n = Counter(self.running.values()).most_common(1)[0]
            if n > len(self.running) / 2:
                out |= {r for r, call in self.running.items() if call != usual_call}
        return out

    @property
    def behind(self) -> set[int]:
        """Ranks whose counters of a group stay below those of others."""
        out: set[int] = set()
        best: dict[str, int] = defaultdict(int)
        for groups in self.enqueued.values():
            for group, (enqueued, _) in groups.items():
                best[group] = max(best[group], enqueued)
        for rank, groups in self.enqueued.items():
            if any(enqueued < best[group] and best[group] > 0 for group, (enqueued, _) in groups.items()):
                out.add(rank)
        sequences = [int(w[1]) for w in self.waiting.values() if w[1].isdigit()]
        if sequences and len(set(sequences)) > 1 and len({w[0] for w in self.waiting.values()}) == 1:
            out |= {r for r, w in self.waiting.items() if w[1].isdigit() and int(w[1]) < max(sequences)}
        return out

    def _groups(self) -> dict[str, dict[int, tuple[str, str, str, str]]]:
        groups: dict[str, dict[int, tuple[str, str, str, str]]] = defaultdict(dict)
        for rank, waits in self.waiting.items():
            groups[waits[0]][rank] = waits
        return groups


def view(folded: Folded) -> View:
    """Gather the view of a log from its events."""
    log = folded.events.log
    out = View()
    table_rank: int | None = None
    root = False
    in_table = False
    pids: set[str] = set()
    agents = bool({"torchrun", "accelerate", "deepspeed", "ray", "legacy"} & set(log.facts.launchers))
    local_ids: set[int] = set()
    for event in folded.events.events:
        f, kind, line = event.fields, event.fields.get("statement", event.kind), event.line
        rank = event.rank
        out.attempts += kind == "restart"
        if event.attempt < folded.events.attempt:
            continue
        if event.role == "teardown":
            out.teardown_line = min(out.teardown_line, line.number)
        if rank is not None and f.get("pg", "0") not in ("", "0") and (inside := _int(f.get("grank"))) is not None:
            out.inside[rank] = (f["pg"], inside)
        if kind == "table_root":
            root = in_table = True
        elif kind in ("child_failed", "table_head"):
            root, in_table, table_rank = False, True, None
        elif kind == "table_rank":
            table_rank = int(f["rank"])
            local_ids.add(int(f["local"]))
        elif kind == "table_exit" and table_rank is not None:
            code = int(f["code"])
            out.exits[table_rank] = Exit(code, line.number, root and in_table)
            pids.add(f["pid"])
        elif kind == "worker_exit":
            out.anonymous_exits.append(int(f["code"]))
            pids.add(f["pid"])
            local_ids.add(int(f["local"]))
            found = log.facts.pid_ranks.get((line.host or "", int(f["pid"])), int(f["local"]))
            out.exits.setdefault(found, Exit(int(f["code"]), line.number, True))
        elif kind in ("sigterm_sent", "killing_subprocess"):
            pids.add(f["pid"])
            out.terminated += 1
        elif kind == "watchdog_timeout":
            waiter = _global(event)
            if waiter is not None:
                group = f.get("pg", "")
                out.waiting.setdefault(
                    waiter, (group, f.get("seq", ""), f.get("op", ""), f.get("numel") or f.get("shape") or "")
                )
        elif kind == "work_status":
            waiter = _global(event)
            if waiter is not None and int(f["enqueued"]) >= 0:
                out.enqueued.setdefault(waiter, {})[f.get("pg", "")] = (int(f["enqueued"]), int(f["completed"]))
        elif kind in ("gloo_timeout", "store_wait", "store_barrier", "store_get"):
            waiter = rank if rank is not None else _int(f.get("grank") or f.get("grank2"))
            if waiter is not None:
                out.waiting.setdefault(waiter, (kind, "", "", ""))
            if kind == "store_get":
                out.named[int(f["from"])] += 1
        elif kind == "fingerprint":
            for who, what in (("a", "fa"), ("b", "fb")):
                out.running.setdefault(int(f[who]), _SEQUENCE.sub("", f[what]))
        elif kind in ("monitored_barrier", "desync_report", "missing_ranks"):
            for named in re.findall(r"\b\d{1,6}\b", f.get("ranks", "")):
                out.named[int(named)] += 1
        elif kind in ("composer_exit", "mpi_signal", "zombie_line", "mpi_first", "mpi_abort", "ray_worker"):
            named_rank = _int(f.get("rank")) if "rank" in f else rank
            code = -int(f["signal"]) if f.get("signal", "").isdigit() else int(f.get("code") or f.get("code2") or 1)
            if named_rank is not None:
                out.exits.setdefault(named_rank, Exit(code, line.number, not out.exits))
        elif kind == "spawn_error":
            out.exits.setdefault(int(f["spawn"]), Exit(1, line.number, not out.exits))
        elif kind == "spawn_exit" and "spawn" in f:
            code = -_SIGNALS.get(f.get("signal", ""), -int(f.get("code") or 1))
            out.exits.setdefault(int(f["spawn"]), Exit(code, line.number, not out.exits))
        elif kind == "srun_exit" and not agents:  # under an agent a task is a node, not a rank
            code = next((c for word, c in _SRUN_HOW if word in f["how"]), _int(f["how"].rpartition(" ")[2]) or 1)
            for task in _spread(f["tasks"]):
                out.exits.setdefault(task, Exit(code, line.number, not out.exits))
        if rank is not None:
            out.spoke_last[rank] = line.number
    for line in log.lines:
        if line.rank is not None:
            out.spoke_last[line.rank] = max(out.spoke_last.get(line.rank, 0), line.number)
    stated = log.facts.world_size or 0
    out.stated = bool(stated)
    least = max(max(out.exits, default=-1), max(out.waiting, default=-1), max(out.named, default=-1)) + 1
    out.world = max(stated, least if least < MAX_RANKS else 0, 0 if stated else len(pids))
    return out


def _global(event: Event) -> int | None:
    """The global rank of a watchdog's line; the rank it states itself may be one in a subgroup."""
    if event.rank is not None:
        return event.rank
    if event.fields.get("pg", "0") == "0":
        return _int(event.fields.get("grank"))
    return None


def _int(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() and len(text) < 7 else None


def _spread(tasks: str) -> list[int]:
    """Spread Slurm's task lists: ``0-2,5`` → [0, 1, 2, 5]."""
    out: list[int] = []
    for part in tasks.split(","):
        first, _, last = part.partition("-")
        if (low := _int(first)) is not None:
            high = _int(last)
            out += range(low, min(low if high is None else high, low + MAX_RANKS - len(out)) + 1)
    return out
