"""Lines that say something about the whole job: its size, its launcher, which pid and host has which ranks."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from ddpclassify.types import JobFacts, Line

# Sizes: (weight, pattern). The weights tell an explicit statement from a hint; each is one form of one program.
_SIZES: tuple[tuple[int, re.Pattern[str]], ...] = tuple(
    (weight, re.compile(pattern))
    for weight, pattern in (
        (3, r"(?i)\bworld[_ ]?size['\"]?\s?[=:]?\s?(\d+)\b"),
        (3, r"MEMBER: \d+/(\d+)"),
        (3, r"Starting with (\d+) processes"),
        (3, r"dist_world_size=(\d+)"),
        (3, r"(?i)\bnum[_ ]processes['\"]?\s?[=:]\s?[`']?(\d+)"),
        (3, r"worker group of size (\d+)"),
        (2, r"(?i)\brank:? ?\d+ ?(?:/|of) ?(\d+)\b"),
        (2, r"is connected to \d+ peer ranks\. Expected number of connected peer ranks is : (\d+)"),
        (1, r"\brank \d+ nranks (\d+)"),
        (1, r"(?i)\bnproc[-_]per[-_]node[= ](\d+)"),
        (1, r"size: (\d+), global rank"),
    )
)
_PID_RANK = (
    re.compile(r"(?:ip=(?P<host>[\d.]+), )?pid=(?P<pid>\d+)\) world_rank=(?P<rank>\d+)"),
    re.compile(r"process (?P<pid>\d+) spawned with command: .*?--local_rank=(?P<local>\d+)"),
    re.compile(r"local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\)"),
    re.compile(r"[Gg]lobal rank (?P<rank>\d+) \(PID (?P<pid>\d+)\)"),
    re.compile(r"mpirun noticed that process rank (?P<rank>\d+) with PID (?P<pid>\d+)"),
    re.compile(r"(?i)\b(?:pid[ =:]+(?P<pid>\d+)[, ]+(?:global[_ ])?rank[ =:]+(?P<rank>\d+))"),
    re.compile(r"(?i)\b(?:(?:global[_ ])?rank[ =:]+(?P<rank>\d+)[, (]+pid[ =:]+(?P<pid>\d+))"),
)
_TABLE_RANK = re.compile(r"rank\s+: (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)")
_TABLE_HOST = re.compile(r"host\s+: (?P<host>\S+)")
_TABLE_PID = re.compile(r"exitcode\s+: -?\d+ \(pid: (?P<pid>\d+)\)")
_HOST_RANKS = re.compile(r"'(?P<host>[\w.-]+)': \[(?P<ranks>[\d, ]+)\]")
_NODE = re.compile(r"nnodes=(?P<nodes>\d+), num_local_procs=(?P<per>\d+), node_rank=(?P<node>\d+)")
_RANK_ON_HOST = re.compile(r"(?i)\brank:? (?P<rank>\d+)(?:/\d+)? (?:on|@|host:?) (?P<host>[a-z][\w.-]+)")

LAUNCHERS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "legacy",
            r"torch/distributed/launch\.py|torch\.distributed\.launch|CalledProcessError: Command '\['.*--local[-_]rank=\d+",
        ),
        ("torchrun", r"torch[./]distributed[./](?:run|elastic|launcher)|torchrun|ChildFailedError"),
        ("accelerate", r"accelerate[/ ](?:commands|launch)|accelerate launch"),
        ("deepspeed", r"\[launch\.py:\d+|\[runner\.py:\d+|sigkill_handler|deepspeed\.launcher"),
        (
            "lightning",
            r"GLOBAL_RANK: \d+, MEMBER|\[rank: \d+\] (?:Child process|Received SIGTERM)|distributed_backend=",
        ),
        ("srun", r"\bsrun: |slurmstepd"),
        ("mpirun", r"\bmpirun\b|ORTE|prterun|PRTE|MPI_ABORT"),
        ("ray", r"RayTrainWorker|ray\.exceptions|raylet|ray::|RayTaskError|WorkerDict pid="),
        ("spawn", r"multiprocessing[./]spawn|-- Process \d+ terminated|SpawnProcess-\d+"),
        ("pdsh", r"\bpdsh\b"),
        ("composer", r"Global rank \d+ \(PID|crashed with exit code"),
        ("k8s", r"\bkubelet\b|\[pod/|OOMKilled|PyTorchJob"),
    )
)


def collect(lines: list[Line]) -> JobFacts:
    """Read the job's facts off its lines (prefixes already stripped)."""
    facts = JobFacts()
    sizes: Counter[tuple[int, int]] = Counter()
    seen_launchers: dict[str, int] = {}
    hosts: dict[str, set[int]] = defaultdict(set)
    table: dict[str, int | str] = {}
    nodes: dict[int, str] = {}
    per_node = 0
    for line in lines:
        text = line.text
        for name, pattern in LAUNCHERS:
            if name not in seen_launchers and pattern.search(line.raw):
                seen_launchers[name] = line.number
        if "rank" in text or "RANK" in text or "size" in text or "process" in text or "pid" in text or "PID" in text:
            for weight, pattern in _SIZES:
                if match := pattern.search(text):
                    size = int(match[1]) + ("connected peer ranks" in pattern.pattern)
                    if 0 < size <= 1 << 17:
                        sizes[weight, size] += 1
            for pattern in _PID_RANK:
                if match := pattern.search(text):
                    got = match.groupdict()
                    rank = got.get("rank") or got.get("local")
                    if got.get("rank") is None and line.rank is not None:
                        continue
                    if rank is not None:
                        facts.pid_ranks.setdefault((got.get("host") or line.host or "", int(got["pid"])), int(rank))
                        if got.get("host"):
                            hosts[got["host"]].add(int(rank))
            if match := _RANK_ON_HOST.search(text):
                hosts[match["host"]].add(int(match["rank"]))
        if match := _TABLE_HOST.search(text):
            table["host"] = match["host"]
        elif match := _TABLE_RANK.search(text):
            table["rank"] = int(match["rank"])
            if "host" in table:
                hosts[str(table["host"])].add(int(match["rank"]))
        elif (match := _TABLE_PID.search(text)) and "rank" in table:
            facts.pid_ranks[line.host or "", int(match["pid"])] = int(table["rank"])
        if match := _NODE.search(text):
            per_node = int(match["per"])
            if line.host:
                nodes[int(match["node"])] = line.host
        if "global_rank_mapping" in text or "WORLD INFO DICT" in text:
            offset = 0
            for match in _HOST_RANKS.finditer(text):
                count = len(match["ranks"].split(","))
                hosts[match["host"]].update(range(offset, offset + count))
                offset += count
        if line.rank is not None:
            facts.ranks_seen.add(line.rank)
            if line.host:
                hosts[line.host].add(line.rank)
    for node, host in nodes.items():
        hosts[host].update(range(node * per_node, (node + 1) * per_node))
    facts.hosts = dict(hosts)
    facts.launchers = tuple(sorted(seen_launchers, key=lambda n: seen_launchers[n]))
    facts.world_size = _world_size(sizes, facts)
    return facts


def _world_size(sizes: Counter[tuple[int, int]], facts: JobFacts) -> int | None:
    """The size that most lines state, of the most explicit kind; never below a rank that was seen."""
    least = max(facts.ranks_seen, default=-1) + 1
    if sizes:
        weight = max(w for w, _ in sizes)
        size = max((n, count) for (w, count), n in sizes.items() if w == weight)[1]
        return max(size, least)
    return least or None
