"""Lines that say something about the whole job: its size, its launcher, which pid and host has which ranks."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from ddpclassify.patterns import lazy
from ddpclassify.types import JobFacts, Line

# Sizes: (weight, word, pattern). The weights tell an explicit statement from a hint; each is one form of one program.
# The word, in lower case, stands in every line that the pattern matches, and is looked for first.
_SIZES: tuple[tuple[int, str, re.Pattern[str]], ...] = tuple(
    (weight, word, lazy(pattern))
    for weight, word, pattern in (
        (3, "world", r"(?i)(?<!group_)(?<!local_)(?<!node_)\bworld(?:[_ ]?size)?['\"]?\s?[=:]\s?(\d{1,9})\b"),
        (3, "size", r"(?i)\bworld[_ ]size (?:is |of )?(\d{1,9})\b"),
        (3, "_world_sizes=", r"(?:global|role)_world_sizes=\[(\d{1,9})"),
        (3, "member: ", r"MEMBER: \d{1,9}/(\d{1,9})"),
        (3, "starting with ", r"Starting with (\d{1,9}) processes"),
        (3, "dist_world_size=", r"dist_world_size=(\d{1,9})"),
        (3, "processes", r"(?i)\bnum[_ ]processes['\"]?\s?[=:]\s?[`']?(\d{1,9})"),
        (3, "worker group", r"worker group of size (\d{1,9})"),
        (2, "rank", r"(?i)\brank:? ?\d{1,9} ?(?:/|of) ?(\d{1,9})\b"),
        (
            2,
            "peer ranks",
            r"is connected to \d{1,9} peer ranks\. Expected number of connected peer ranks is : (\d{1,9})",
        ),
        (1, " nranks ", r"\brank \d{1,9} nranks (\d{1,9})"),
        (1, "nproc", r"(?i)\bnproc[-_]per[-_]node[= ](\d{1,9})"),
        (1, "global rank", r"size: (\d{1,9}), global rank"),
    )
)
_WORTH = ("rank", "size", "world", "process", "pid", "member")
_PID_RANK = (
    ("world_rank=", lazy(r"(?:ip=(?P<host>[\d.]+), )?pid=(?P<pid>\d{1,9})\) world_rank=(?P<rank>\d{1,9})")),
    ("spawned", lazy(r"process (?P<pid>\d{1,9}) spawned with command: .*?--local_rank=(?P<local>\d{1,9})")),
    ("local_rank: ", lazy(r"local_rank: (?P<local>\d{1,9}) \(pid: (?P<pid>\d{1,9})\)")),
    ("(pid ", lazy(r"[Gg]lobal rank (?P<rank>\d{1,9}) \(PID (?P<pid>\d{1,9})\)")),
    ("mpirun", lazy(r"mpirun noticed that process rank (?P<rank>\d{1,9}) with PID (?P<pid>\d{1,9})")),
    ("pid", lazy(r"(?i)\b(?:pid[ =:]+(?P<pid>\d{1,9})[, ]+(?:global[_ ])?rank[ =:]+(?P<rank>\d{1,9}))")),
    ("pid", lazy(r"(?i)\b(?:(?:global[_ ])?rank[ =:]+(?P<rank>\d{1,9})[, (]+pid[ =:]+(?P<pid>\d{1,9}))")),
)
_TABLE_RANK = lazy(r"rank\s+: (?P<rank>\d{1,9}) \(local_rank: (?P<local>\d{1,9})\)")
_TABLE_HOST = lazy(r"host\s+: (?P<host>\S+)")
_TABLE_PID = lazy(r"exitcode\s+: -?\d{1,9} \(pid: (?P<pid>\d{1,9})\)")
_HOST_RANKS = lazy(r"'(?P<host>[\w.-]+)': \[(?P<ranks>[\d, ]+)\]")
_NODE = lazy(r"nnodes=(?P<nodes>\d{1,9}), num_local_procs=(?P<per>\d{1,3})\b, node_rank=(?P<node>\d{1,9})")
_RANK_ON_HOST = lazy(r"(?i)\brank:? (?P<rank>\d{1,9})(?:/\d{1,9})? (?:on|@|host:?) (?P<host>[a-z][\w.-]+)")

_HOST_IS = lazy(r"(?i)(?:\brank[ =:]+(?P<rank>\d{1,9})\b.{0,40}?)?\bhost(?:name)?[=:] ?(?P<host>[a-z][\w.-]+)")
_SPANS = lazy(r"(?<![\w.-])(?P<host>[A-Za-z][\w.-]*)\s?[=:]\s?\[?(?P<low>\d{1,5})-(?P<high>\d{1,5})\b")

# A launcher is recognised by any of its words.
LAUNCHERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("legacy", ("torch/distributed/launch.py", "torch.distributed.launch ", "torch.distributed.launch:")),
    (
        "torchrun",
        (
            "torch/distributed/run",
            "torch.distributed.run",
            "distributed/elastic",
            "distributed.elastic",
            "torchrun",
            "ChildFailedError",
        ),
    ),
    ("accelerate", ("accelerate/commands", "accelerate launch", "`accelerate")),
    ("deepspeed", ("[launch.py:", "[runner.py:", "sigkill_handler", "deepspeed.launcher")),
    ("lightning", ("GLOBAL_RANK: ", "Child process with PID", "Received SIGTERM: 15", "distributed_backend=")),
    ("srun", ("srun: ", "slurmstepd")),
    ("mpirun", ("mpirun", "ORTE", "prterun", "PRTE", "MPI_ABORT")),
    ("ray", ("RayTrainWorker", "ray.exceptions", "raylet", "ray::", "RayTaskError", "WorkerDict pid=")),
    ("spawn", ("multiprocessing/spawn", "multiprocessing.spawn", "SpawnProcess-")),
    ("pdsh", ("pdsh",)),
    ("composer", ("crashed with exit code", "lobal rank ")),
    ("k8s", ("kubelet", "[pod/", "OOMKilled", "PyTorchJob")),
)


def collect(lines: list[Line]) -> JobFacts:
    """Read the job's facts off its lines (prefixes already stripped)."""
    facts = JobFacts()
    sizes: Counter[tuple[int, int]] = Counter()
    hosts: dict[str, set[int]] = defaultdict(set)
    table: dict[str, int | str] = {}
    nodes: dict[int, str] = {}
    per_node = 0
    spans = 1 << 17  # ranks that hosts may be said to have, in all
    for line in lines:
        text = line.text
        if "in simple_launcher" in text:  # accelerate starts one process
            sizes[3, 1] += 1
        lower = text.lower()
        if any(word in lower for word in _WORTH):
            for weight, word, pattern in _SIZES:
                if word in lower and (match := pattern.search(text)):
                    size = int(match[1]) + ("connected peer ranks" in pattern.pattern)
                    if 0 < size <= 1 << 17:
                        sizes[weight, size] += 1
            for word, pattern in _PID_RANK:
                if word in lower and (match := pattern.search(text)):
                    got = match.groupdict()
                    rank = got.get("rank") or got.get("local")
                    if got.get("rank") is None and line.rank is not None:
                        continue
                    if rank is not None:
                        facts.pid_ranks.setdefault((got.get("host") or line.host or "", int(got["pid"])), int(rank))
                        if got.get("host"):
                            hosts[got["host"]].add(int(rank))
            if "ranks by host" in text or "host ranks" in text:
                for match in _SPANS.finditer(text):
                    low, high = int(match["low"]), int(match["high"])
                    high = min(high, low + 1024, low + spans)
                    spans -= max(0, high - low)
                    hosts[match["host"]].update(range(low, high + 1))
            # "rank 3 on node7", "host: node7"
            if match := (_RANK_ON_HOST.search(text) if "rank" in lower else None) or (
                _HOST_IS.search(text) if "host" in lower else None
            ):
                rank = match["rank"] or line.rank
                if rank is not None:
                    hosts[match["host"]].add(int(rank))
        if " : " in text:
            if match := _TABLE_HOST.search(text):
                table["host"] = match["host"]
            elif match := _TABLE_RANK.search(text):
                table["rank"] = int(match["rank"])
                if "host" in table:
                    hosts[str(table["host"])].add(int(match["rank"]))
            elif (match := _TABLE_PID.search(text)) and "rank" in table:
                facts.pid_ranks[line.host or "", int(match["pid"])] = int(table["rank"])
        if "nnodes=" in text and (match := _NODE.search(text)):
            per_node = int(match["per"])
            if line.host:
                nodes[int(match["node"])] = line.host
        if "global_rank_mapping" in text or "WORLD INFO DICT" in text:
            offset = 0
            for match in _HOST_RANKS.finditer(text):
                count = len(match["ranks"].split(","))
                hosts[match["host"]].update(range(offset, offset + count))
                offset += count
    for node, host in nodes.items():
        hosts[host].update(range(node * per_node, (node + 1) * per_node))
    facts.hosts = dict(hosts)
    facts.launchers = _launchers(lines)
    facts.world_size = _world_size(sizes)
    return facts


def _launchers(lines: list[Line]) -> tuple[str, ...]:
    """Return the launchers that the log shows, in the order of their first marks."""
    text = "\n".join(line.raw for line in lines)
    first = {name: min((at for w in words if (at := text.find(w)) >= 0), default=-1) for name, words in LAUNCHERS}
    return tuple(sorted((name for name, at in first.items() if at >= 0), key=lambda name: first[name]))


def attend(facts: JobFacts, lines: list[Line]) -> None:
    """Add who was seen where, once the lines have their ranks; no world is smaller than its ranks."""
    for rank, host in {(line.rank, line.host) for line in lines if line.rank is not None}:
        if rank is not None:
            facts.ranks_seen.add(rank)
            if host:
                facts.hosts.setdefault(host, set()).add(rank)
    least = max(facts.ranks_seen, default=-1) + 1
    facts.world_size = max(facts.world_size or 0, least) or None


def _world_size(sizes: Counter[tuple[int, int]]) -> int | None:
    """Return the size that most lines state, of the most explicit kind."""
    if not sizes:
        return None
    weight = max(w for w, _ in sizes)
    return max((n, count) for (w, count), n in sizes.items() if w == weight)[1]
