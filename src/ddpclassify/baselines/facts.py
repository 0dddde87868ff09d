"""What a log says about the job besides its errors: size, exit statuses, restarts, progress, completion."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from ddpclassify.baselines.writers import Line

_WORLD = re.compile(
    r"(?<![A-Za-z_])world[_ ]size[\x27\"]?\s*[=:]\s*(\d+)|nranks (\d+)|Starting with (\d+) processes|MEMBER: \d+/(\d+)"
    r"|worker group of size (\d+)|options: size: (\d+)|num_processes[\x27\"]?[=: ]+(\d+)|\d/(\d+) clients joined"
    r"|(?:mpirun|mpiexec) .{0,40}-np? (\d+)|--ntasks[= ](\d+)|global_world_sizes=\[(\d+)",
    re.I,
)
_NPROC = re.compile(r"--nproc[-_]per[-_]node[= ](\d+)")
_NNODES = re.compile(r"--nnodes[= ](?:\d+:)?(\d+)|nnodes=(\d+)")

# (kind of rank, pattern): a launcher or scheduler names who ended and, where it says so, how.
_EXITS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("failed", r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<rank>\d+)"),
        ("spawn", r"[Pp]rocess (?P<rank>\d+) terminated with (?:exit code (?P<code>\d+)|signal (?P<signal>\w+))"),
        ("composer", r"Global rank (?P<rank>\d+) \(PID \d+\) exited with code (?P<code>-?\d+)"),
        ("composer", r"Rank (?P<rank>\d+) crashed with exit code (?P<code>-?\d+)"),
        ("mpi", r"process rank (?P<rank>\d+) with PID \d+ .{0,80}exited on signal (?P<code>\d+)"),
        ("mpi", r"Process name: \[\[\d+,\d+\],(?P<rank>\d+)\]"),
        ("lightning", r"rank: (?P<rank>\d+)\] Child process with PID \d+ terminated with code (?P<code>-?\d+)"),
        ("ray", r"Worker (?P<rank>\d+) has failed"),
    )
)
_SRUN = re.compile(r"srun: error: \S+: tasks? (?P<ranks>[\d,-]+): (?P<how>.+)")
# Who has which process number: Ray Train, DeepSpeed's launcher, NCCL, the agent's table.
_PID = re.compile(
    r"pid=(?P<a>\d+)\) world_rank=(?P<b>\d+)"
    r"|process (?P<c>\d+) spawned with command: .{0,400}--local[_-]rank=(?P<d>\d+)"
    r"|^(?P<host>[\w.-]+):(?P<e>\d+):\d+ \[\d+\] NCCL INFO .{0,60}\brank (?P<f>\d+) nranks"
)
_HOST = re.compile(r"^(?:\[(?:pod/)?([\w.-]+?)(?:/\w+)?\] |([a-z][\w.-]*\d): )")
_TABLE_HOST = re.compile(r"^\s*host *: (\S+)")
_TABLE_RANK = re.compile(r"^\s*rank *: (\d+) \(local_rank: (\d+)\)")
_TABLE_CODE = re.compile(r"^\s*exitcode *: (-?\d+)(?: \(pid: (\d+)\))?")

_RESTART = re.compile(
    r"will restart worker group|\[FailurePolicy\] RETRY|Restarting (?:the )?(?:worker group|training|job)"
)
_FAILED = re.compile(
    r"ChildFailedError|CalledProcessError|return code = -?[1-9]|exitcode *: *-?[1-9]|exited on signal|DUE TO"
    r"|[Ee]xit(?:ed)? (?:with )?(?:exit )?code:? *[1-9]|terminated with (?:signal|(?:exit )?code -?[1-9])|srun: error"
    r"|Training failed|WorkerGroupError|SignalException|non-zero|Aborted|core dumped|ProcessRaisedException|forcing job"
)
_DONE = re.compile(
    r"(?i)\b(?:training|fine-?tuning|run|job|fit)\b.{0,20}\b(?:completed?|finished|done|succeeded)\b"
    r"|\bfinished (?:training|successfully)|\bfit.{0,3}stopped|exits successfully|total training time|all done"
    r"|reached max(?:imum)?[_ ](?:steps|epochs|iterations)|(?:saved|saving|uploaded) (?:the )?final"
)
_STEP = re.compile(
    r"(?i)\b(?:step|iter(?:ation)?|global_step|batch|num_updates)s?\b[^A-Za-z0-9]{0,5}(\d+)|\b(\d+)/\d+ \[[\d=]"
)
_LOSS = re.compile(r"(?i)\bloss\b[^A-Za-z0-9]{1,4}\d|\d(?:it/s|s/it| tokens/s| samples/s)")

# Facts that void a rule (its `unless`).
MARKS: dict[str, re.Pattern[str]] = {
    "task_failed": re.compile(
        r"srun: error: .{0,60}(?:Exited with exit code|Segmentation|Killed|Out Of Memory|Aborted|Bus error)"
    ),
    "forced_kill": re.compile(r"forcefully exiting|avoid zombies"),
    "ssh_refused": re.compile(r"Permission denied \(publickey"),
}
# A line without any of these words states none of the facts above.
_ANY_FACT = re.compile(
    r"(?i)rank|host|pid|size|proc|node|ntasks|-np|exit|terminated|crashed|task|restart|retry|step|iter|batch|\d/\d"
    r"|code|due to|signal|done|complete|finish|stopped|success|total|reached|sav|upload|fail|abort|core|publickey"
    r"|worker|zero|forc|loss|/s"
)


@dataclass(frozen=True)
class Exit:
    """Ranks that a launcher reports as ended. `kind` "table" and "srun" give global ranks, "failed" local ones."""

    kind: str
    ranks: tuple[int, ...]
    code: str
    line: int


@dataclass
class Facts:
    """Collected over all lines."""

    world: int | None = None
    nproc: int | None = None
    nnodes: int = 1
    exits: list[Exit] = field(default_factory=list)
    local_to_global: dict[int, set[int]] = field(default_factory=dict)
    marks: set[str] = field(default_factory=set)
    restart: int = 0
    failed: int = 0
    done: int = 0
    steps: list[int] = field(default_factory=list)  # step values
    step_lines: list[int] = field(default_factory=list)
    globals: set[int] = field(default_factory=set)
    locals: set[int] = field(default_factory=set)
    tasks: set[int] = field(default_factory=set)
    tasks_are_nodes: bool = False
    brackets: set[int] = field(default_factory=set)
    pids: dict[int, int] = field(default_factory=dict)  # process → global rank
    hosts: dict[str, set[int]] = field(default_factory=dict)  # host or pod → global ranks
    _table: tuple[int, int] | None = None
    _table_host: str = ""

    @property
    def size(self) -> int | None:
        """World size as stated, from the launch command, or from the ranks that the log shows."""
        seen = self.globals.copy()
        stated = self.world or (self.nproc or 0) * self.nnodes
        if stated and stated > max(seen, default=-1):
            return stated
        if self.nnodes == 1:
            seen |= self.locals
        if not self.tasks_are_nodes:
            seen |= self.tasks
        return max(seen) + 1 if len(seen) > 1 else None

    @property
    def shows_others(self) -> bool:
        """Whether any other rank than 0 is seen."""
        reported = {rank for each in self.exits for rank in each.ranks}
        return bool((self.globals | self.locals | self.tasks | reported | set(self.pids.values())) - {0})

    def resumed(self, line: int, logged: bool) -> bool:
        """Say whether training went on after a line: new steps, above those reached before it."""
        at = bisect_right(self.step_lines, line)
        before, after = self.steps[max(0, at - 50) : at], self.steps[at : at + 200]
        newer = sum(step > max(before, default=-1) for step in after)
        return newer >= 2 if logged else bool(before) and newer >= 3

    def read(self, line: Line) -> None:
        """Take what one line says."""
        self._read_marks(line)
        text, number = line.text, line.number
        if not _ANY_FACT.search(text):
            return
        if found := _WORLD.search(text):
            stated = int(found[found.lastindex or 0])
            self.world = max(self.world or 0, stated) if 0 < stated < 100_000 else self.world
        if found := _PID.search(line.raw):
            pid, rank = (int(found[x] or found[y] or found[z]) for x, y, z in ("ace", "bdf"))
            self.pids.setdefault(pid, rank)
            if found["host"]:
                self.hosts.setdefault(found["host"], set()).add(rank)
        if found := _NPROC.search(text):
            self.nproc = int(found[1])
        if found := _NNODES.search(text):
            self.nnodes = max(self.nnodes, int(found[1] or found[2]))
        self.marks.update(name for name, pattern in MARKS.items() if name not in self.marks and pattern.search(text))
        if _RESTART.search(text):
            self.restart = number
        if _FAILED.search(text):
            self.failed = number
        elif _DONE.search(text):
            self.done = number
        if (found := _STEP.search(text)) and "rror" not in text:
            self.steps.append(int(found[1] or found[2]) % 10**9)
            self.step_lines.append(number)
        elif "rror" not in text and _LOSS.search(text):
            self.steps.append(self.steps[-1] + 1 if self.steps else 0)
            self.step_lines.append(number)
        self._read_exits(text, number)

    def _read_marks(self, line: Line) -> None:
        marks = line.marks
        if not marks:
            return
        if "global" in marks and (found := _HOST.match(line.raw)):
            self.hosts.setdefault(found[1] or found[2], set()).add(marks["global"])
        kinds = {"global": self.globals, "mpi": self.globals, "local": self.locals, "task": self.tasks}
        for kind in kinds.keys() & marks.keys():
            kinds[kind].add(marks[kind])
        if "inner" in marks and "global" not in marks:
            self.globals.add(marks["inner"])
        if "bracket" in marks:
            self.brackets.add(marks["bracket"])
        if "task" in marks and (marks.get("global", marks["task"]) != marks["task"] or "local" in marks):
            self.tasks_are_nodes = True

    def _read_exits(self, text: str, number: int) -> None:
        if found := _TABLE_HOST.match(text):
            self._table_host = found[1]
        if found := _TABLE_RANK.match(text):
            self._table = int(found[1]), int(found[2])
            self.local_to_global.setdefault(self._table[1], set()).add(self._table[0])
            self.hosts.setdefault(self._table_host, set()).add(self._table[0])
        elif self._table and (found := _TABLE_CODE.match(text)):
            self.exits.append(Exit("table", (self._table[0],), found[1], number))
            if found[2]:
                self.pids[int(found[2])] = self._table[0]
            self._table = None
        if found := _SRUN.search(text):
            self.exits.append(Exit("srun", ranges(found["ranks"]), found["how"], number))
        for kind, pattern in _EXITS:
            if found := pattern.search(text):
                how = found.groupdict()
                code = how.get("code") or how.get("signal") or ""
                self.exits.append(Exit(kind, (int(found["rank"]),), code, number))


def ranges(text: str) -> tuple[int, ...]:
    """Expand a list of ranges, up to 4096 numbers.

    >>> ranges("0-2,5")
    (0, 1, 2, 5)
    """
    out: set[int] = set()
    for part in text.replace(" ", "").split(","):
        low, _, high = part.partition("-")
        if low.isdigit() and len(low) < 7:
            last = int(high) if high.isdigit() and len(high) < 7 else int(low)
            out.update(range(int(low), min(last, int(low) + 4095) + 1))
    return tuple(sorted(out))
