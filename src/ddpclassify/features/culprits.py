"""Who failed first: features of the log for its scope, and of each rank for being the culprit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from ddpclassify.features.failures import Features
from ddpclassify.features.view import View
from ddpclassify.patterns import lazy
from ddpclassify.types import Failure, Folded

_SAID = lazy(r"(?i)\b(?:rank|ranks)[ :=\[#_]*(\d{1,6}(?:, ?\d{1,6})*)\b")
_DEVICE = lazy(r"(?:\bGPU |cuda:|\[GPU|device |device=|local_rank[=: ]+)(\d{1,3})\b")
_PID = lazy(r"(?i)(?:\bpid[ =:]+|process |Killed process )(\d{2,10})\b")
# Code that by custom runs on rank 0 alone: trackers, logging of metrics, saving.
_RANK_ZERO = lazy(
    r"(?i)rank_?zero|main_process|is_global_zero|master_only|rank_?0|mlflow|wandb|tensorboard|comet"
    r"|neptune|clearml|log_metric|log_hyperparams|save_checkpoint|save_model|push_to_hub"
)
_GROUPS = {
    "collective_timeout": "waiting",
    "rank_divergence": "waiting",
    "network_error": "network",
    "node_failure": "node",
    "gpu_hardware": "device",
    "cuda_oom": "device",
    "cuda_error": "device",
    "host_oom": "killed",
    "native_crash": "killed",
    "shm_exhausted": "killed",
    "preempted": "outside",
    "rendezvous_error": "outside",
    "launch_config": "outside",
    "no_failure": "healthy",
}


def group_of(category: str) -> str:
    """Return the group of categories that share how their culprit shows."""
    return _GROUPS.get(category, "own")


def scope_features(
    folded: Folded, seen: View, cause: Failure | None, category: str, certainty: float, ranks: Mapping[int, float]
) -> Features:
    """Return the features by which the scope (ranks, all, launcher, unknown, none) is told.

    Parameters
    ----------
    cause : the likeliest cause
    category, certainty : the likeliest category and its probability
    ranks : probability of each known rank for being a culprit, given that some are
    """
    group = group_of(category)
    facts = folded.events.log.facts
    x: Features = {"bias": 1.0, f"category={category}": 1.0, f"group={group}": 1.0, "certainty": certainty}
    world = seen.world
    x["world unknown"] = float(not world)
    x["world=1"] = float(world == 1)
    x["world stated"] = float(seen.stated)
    for name in facts.launchers:
        x[f"launcher={name}"] = 1.0
    x["ranks seen"] = float(bool(facts.ranks_seen))
    x["several ranks seen"] = float(len(facts.ranks_seen) > 1)
    x["exits"] = float(bool(seen.exits))
    own_exits = {r for r, e in seen.exits.items() if e.code != -15}
    x["one exit"] = float(len(own_exits) == 1)
    x["several exits"] = float(len(own_exits) > 1)
    x["several exits, no survivor"] = float(len(own_exits) > 1 and not seen.terminated)
    x["victims terminated"] = float(seen.terminated > 0)
    x["terminated and one exit"] = float(seen.terminated > 0 and len(own_exits) == 1)
    if world > 1:
        x["all exit"] = float(len(own_exits) >= world)
        x["all wait"] = float(len(seen.waiting) >= world)
        x["some wait"] = float(0 < len(seen.waiting) < world)
        x["few silent"] = float(0 < len(seen.silent) <= max(1, world // 2))
    likely = [p for p in ranks.values() if p >= 0.5]
    unlikely = max((p for p in ranks.values() if p < 0.5), default=0.0)
    x["likely ranks"] = float(0 < len(likely) < len(ranks))
    x["one likely rank"] = float(len(likely) == 1)
    x["least likely culprit"] = min(likely, default=0.0)
    x["likeliest other"] = unlikely
    x["how far apart"] = min(likely, default=0.0) - unlikely if 0 < len(likely) < len(ranks) else 0.0
    x["all likely"] = float(len(ranks) > 1 and len(likely) == len(ranks))
    x["none likely"] = float(len(ranks) > 1 and not likely)
    clear = {rank for rank, p in ranks.items() if p >= 0.5} if 0 < len(likely) < len(ranks) else set()
    x["likely ranks are one host's"] = float(len(facts.hosts) > 1 and clear in facts.hosts.values())
    if cause is not None and clear:
        x["likely ranks are the cause's"] = float(clear == set(cause.ranks))
        x["as many likely ranks as causes"] = float(not cause.ranks and cause.count == len(clear))
        x["several likely ranks, as many as causes"] = float(not cause.ranks and cause.count == len(clear) > 1)
    x["waiters"] = float(bool(seen.waiting))
    x["odd"] = float(bool(seen.odd))
    x["behind"] = float(bool(seen.behind))
    x["absent"] = float(bool(seen.absent))
    x["named"] = float(bool(seen.named))
    if cause is not None:
        event = cause.first
        statement = event.fields.get("statement", cause.kind)
        x[f"is={statement}"] = 1.0
        x[f"kind={cause.kind}"] = 1.0
        n, count = len(cause.ranks), cause.count
        x["cause ranks=0"] = float(n == 0)
        x["cause ranks=1"] = float(n == 1)
        x["cause ranks>1"] = float(n > 1)
        x["cause count=1"] = float(count == 1)
        x["cause count=2"] = float(count == 2)
        x["cause count>2"] = float(count > 2)
        if world:
            x["cause on all"] = float(n >= world)
            x["cause count covers world"] = float(n < world <= count)
            x["cause on few"] = float(0 < n <= world // 2)
            x["cause on most"] = float(world // 2 < n < world)
            x["cause count below world"] = float(n == 0 and count < world)
        exact = bool(own_exits) and count == len(own_exits)
        x["count = exits < world"] = float(exact and 0 < count < world)
        x["count = exits < world, others ended"] = float(exact and 0 < count < world and seen.terminated > 0)
        x["count = exits = world"] = float(exact and count == world)
        x["unmarked, count = exits, others ended"] = float(exact and n == 0 and seen.terminated > 0)
        members = [ranks for host, ranks in facts.hosts.items() if host in cause.hosts]
        x["count covers its hosts"] = float(n == 0 and 0 < sum(map(len, members)) == count < world)
        only = next(iter(facts.hosts.values()), set()) if len(facts.hosts) == 1 else set()
        whole = bool(own_exits) and set(own_exits) == only and not seen.terminated and count >= len(own_exits)
        x["a node's file, all of it fails alike"] = float(whole and len(only) < world)
        x["count covers exits"] = float(bool(own_exits) and count >= len(own_exits) > 1)
        x["count below exits"] = float(count < len(own_exits))
        x["rank 0's code"] = float(
            count == 1 and any(_RANK_ZERO.search(f.function) or _RANK_ZERO.search(f.path) for f in event.frames)
        )
        x["launcher frames"] = float(
            any("launch" in f.path or "distributed/run" in f.path or "elastic" in f.path for f in event.frames)
        )
        x["rank frames only"] = float(bool(event.frames) and any(f.user for f in event.frames))
        x["said rank"] = float(bool(_SAID.search(event.text)))
        x["after teardown"] = float(event.line.number > seen.teardown_line)
        x["several hosts"] = float(len(facts.hosts) > 1 and len(cause.hosts) == 1)
        x["source marked"] = float(event.rank is not None)
    else:
        x["no cause"] = 1.0
    crossed = {f"{group}&{k}": v for k, v in x.items() if not k.startswith(("category=", "group=", "launcher="))}
    for name in facts.launchers[:3]:
        for k in ("cause ranks=0", "cause count=1", "one exit", "cause count>2", "several exits"):
            if x.get(k):
                crossed[f"launcher={name}&{k}"] = x[k]
    return {k: v for k, v in {**x, **crossed}.items() if v}


def rank_features(folded: Folded, seen: View, causes: list[Failure], category: str) -> dict[int, Features]:
    """Return, for each known rank, the features by which it is told a culprit.

    Parameters
    ----------
    causes : the failures that may be the cause, best first; the first gives most features
    """
    group = group_of(category)
    facts = folded.events.log.facts
    ranks = seen.ranks
    cause = causes[0] if causes else None
    named: Counter[int] = Counter()
    devices: set[int] = set()
    by_pid: set[int] = set()
    hosts: set[int] = set()
    if cause is not None:
        any_host = {pid: rank for (_, pid), rank in facts.pid_ranks.items()}
        for event in cause.events[:64]:
            text = event.text + " ".join(m.text for m in event.more[:4])
            for said in _SAID.findall(text[:2000]):
                named.update(int(r) for r in re.findall(r"\d+", said))
            devices.update(int(d) for d in _DEVICE.findall(text[:2000]))
            by_pid.update(any_host[int(p)] for p in _PID.findall(text[:2000]) if int(p) in any_host)
            for host, members in facts.hosts.items():
                if host and (host == event.line.host or host in event.line.raw[:2000]) and len(facts.hosts) > 1:
                    hosts |= members
        hosts = set() if len(hosts) >= max(seen.world, 1) else hosts
    rank_zero = (
        cause is not None
        and cause.count == 1
        and any(_RANK_ZERO.search(f.function) or _RANK_ZERO.search(f.path) for f in cause.first.frames)
    )
    silent, odd, behind, absent = seen.silent, seen.odd, seen.behind, seen.absent
    own_exits = {r: e for r, e in seen.exits.items() if e.code != -15}
    signalled = {r for r, e in own_exits.items() if e.code < 0 and e.code != -6}
    timed: dict[int, float] = {}
    first_rank: int | None = None
    for event in cause.events if cause else ():
        if event.rank is None:
            continue
        first_rank = event.rank if first_rank is None else first_rank
        if event.line.time is not None:
            timed[event.rank] = min(event.line.time, timed.get(event.rank, event.line.time))
    earliest = min(timed.values(), default=None)
    world = seen.world or len(ranks)
    in_cause = set(cause.ranks) if cause else set()
    only_named, only_exit, missing = set(named), set(own_exits), set(seen.named)
    seconds = set(causes[1].ranks) if len(causes) > 1 else set()
    out: dict[int, Features] = {}
    for rank in ranks:
        x: Features = {"bias": 1.0}
        if cause is not None:
            x["in cause"] = float(rank in in_cause)
            x["alone in cause"] = float(cause.ranks == (rank,))
            x["in cause of few"] = float(rank in in_cause and len(cause.ranks) <= world // 2)
            x["in cause of most"] = float(rank in in_cause and len(cause.ranks) > world // 2)
            x["not in cause of most"] = float(rank not in in_cause and len(cause.ranks) > world // 2)
            x["first line"] = float(first_rank == rank)
            x["first time"] = float(earliest is not None and timed.get(rank) == earliest)
            x["cause unmarked"] = float(not cause.ranks)
        x["in second cause"] = float(rank in seconds)
        x["named"] = float(rank in named)
        x["named, not in cause"] = float(rank in named and cause is not None and rank not in in_cause)
        x["alone named"] = float(only_named == {rank})
        x["said to be missing"] = float(rank in seen.named)
        x["alone said to be missing"] = float(missing == {rank})
        x["others said to be missing"] = float(bool(seen.named) and rank not in seen.named)
        x["device named"] = float(rank in devices and cause is not None and not cause.ranks)
        x["pid named"] = float(rank in by_pid)
        x["on its host"] = float(rank in hosts)
        x["on its host, cause unmarked"] = float(rank in hosts and cause is not None and not cause.ranks)
        x["has exit"] = float(rank in own_exits)
        x["only exit"] = float(only_exit == {rank})
        x["root exit"] = float(rank in own_exits and own_exits[rank].root)
        x["signalled"] = float(rank in signalled)
        x["only signalled"] = float(signalled == {rank})
        x["victim"] = float(rank in seen.exits and rank not in own_exits)
        x["exit 1"] = float(rank in own_exits and own_exits[rank].code == 1)
        x["no exit, others have"] = float(bool(own_exits) and rank not in own_exits)
        x["exit, cause unmarked"] = float(cause is not None and not cause.ranks and rank in own_exits)
        x["root exit, cause unmarked"] = float(
            cause is not None and not cause.ranks and rank in own_exits and own_exits[rank].root
        )
        x["exit, cause unmarked, count matches"] = float(
            cause is not None and not cause.ranks and rank in own_exits and cause.count == len(own_exits)
        )
        x["silent"] = float(rank in silent)
        x["silent of few"] = float(rank in silent and len(silent) <= max(1, world // 4))
        x["waiting"] = float(rank in seen.waiting)
        x["odd"] = float(rank in odd)
        x["others odd"] = float(bool(odd) and rank not in odd)
        x["absent"] = float(rank in absent)
        x["others absent"] = float(bool(absent) and rank not in absent)
        x["others behind"] = float(bool(behind) and rank not in behind)
        x["others silent"] = float(bool(silent) and rank not in silent)
        x["others on its host"] = float(bool(hosts) and rank not in hosts)
        x["behind"] = float(rank in behind)
        x["behind, not waiting"] = float(rank in behind and rank not in seen.waiting)
        x["rank 0"] = float(rank == 0)
        x["rank 0's code"] = float(rank == 0 and rank_zero)
        x["rank 0's code, cause unmarked"] = float(rank == 0 and rank_zero and cause is not None and not cause.ranks)
        x["never spoke"] = float(
            bool(seen.spoke_last) and rank not in seen.spoke_last and len(seen.spoke_last) >= world // 2
        )
        x = {k: v for k, v in x.items() if v}
        # What an exit code is worth depends on whether the cause itself names its ranks.
        marked = "cause marked" if cause is not None and cause.ranks else "cause unmarked"
        out[rank] = {
            **x,
            **{f"{marked}&{k}": v for k, v in x.items()},
            **{f"{group}&{marked}&{k}": v for k, v in x.items()},
        }
    return out
