"""Ray Train: worker prefixes, deduplication, and errors that surface in the driver or the controller."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from ..script import Job, Say, Script
from ..stock.words import node_ip
from .base import NOTHING, Clock, Death, Launcher, Writer, agent, blamed, quote

CYAN, GREEN, PLAIN = "\x1b[36m", "\x1b[32m", "\x1b[0m"


class RayTrain(Launcher):
    """Workers are actors; the driver prints their lines with a prefix."""

    kill_lag = (0.3, 3.0)
    kills_all = True
    prepares = True

    def __init__(self, rng: random.Random, job: Job, clock: Clock) -> None:
        super().__init__(rng, job, clock)
        self.version = 2 if job.torch >= (2, 6) or (job.torch >= (2, 3) and rng.random() < 0.4) else 1
        self.shows_one = self.version == 1
        self.coloured = rng.random() < 0.6
        self.dedups = job.torch >= (2, 0)
        self.actor = rng.choice(
            ("RayTrainWorker", "RayTrainWorker", "train_fn", "TorchTrainer", "_RayTrainWorker__execute")
        )
        self.actor = "RayTrainWorker" if self.version == 2 else self.actor
        self.controller = job.pids[0] - 120
        self.announces = rng.random() < 0.75

    def _prefix(self, actor: str, pid: int, node: int) -> str:
        where = f", ip={node_ip(self.job, node)}" if node else ""
        text = f"({actor} pid={pid}{where})"
        return f"{CYAN}{text}{PLAIN} " if self.coloured else f"{text} "

    def tag(self, say: Say) -> tuple[str, frozenset[str]]:
        if say.who < 0:
            return "", NOTHING
        knows = frozenset({"rank"}) if self.announces else NOTHING
        return self._prefix(self.actor, self.job.pids[say.who], self.node_of(say)), knows

    def opening(self) -> list[Say]:
        job = self.job
        says = [
            agent(
                1.0,
                f"{self.clock.millis(1.0)}\tINFO worker.py:{1600 + job.torch[1]} -- Started a local Ray instance. View"
                " the dashboard at 127.0.0.1:8265 ",
            )
        ]
        ranks = range(job.world_size)
        if self.version == 2:
            head = self._prefix("TrainController", self.controller, 0)
            says.append(
                agent(
                    6.0,
                    f"{head}Attempting to start training worker group of size {job.world_size} with the following"
                    f" resources: [{{'GPU': 1}}] * {job.world_size}",
                )
            )
            if self.announces:
                says.append(
                    agent(9.0, f"{head}Started training worker group of size {job.world_size}: ", maps=tuple(ranks))
                )
                form = "- (ip={ip}, pid={pid}) world_rank={rank}, local_rank={local}, node_rank={node}"
                says += [agent(9.01 + 0.001 * rank, head + self._entry(form, rank), maps=(rank,)) for rank in ranks]
            return says
        head = self._prefix("TorchTrainer", self.controller, 0)
        if self.announces:
            says.append(agent(9.0, f"{head}Started distributed worker processes: "))
            form = (
                "- (node_id="
                + f"{self.rng.getrandbits(100):x}"
                + ", ip={ip}, pid={pid}) world_rank={rank}, local_rank={local}, node_rank={node}"
            )
            says += [agent(9.01 + 0.001 * rank, head + self._entry(form, rank), maps=(rank,)) for rank in ranks]
        says.append(Say(0, 9.5, f"Setting up process group for: env:// [rank=0, world_size={job.world_size}]"))
        return says

    def _entry(self, form: str, rank: int) -> str:
        job = self.job
        node = rank // job.per_node
        return form.format(ip=node_ip(job, node), pid=job.pids[rank], rank=rank, local=job.local(rank), node=node)

    def rewrite(self, says: list[Say], script: Script, deaths: Sequence[Death], writer: Writer) -> list[Say]:
        ends = sorted((death for death in deaths if death.cause != "victim"), key=lambda death: death.t)
        raised = [say for say in says if say.kind == "traceback" and say.who >= 0]
        kept = self._deduplicated([say for say in says if say not in raised], ends[0].t if ends else 1e9)
        if not ends or script.hang:
            return kept + raised
        t = ends[-1].t + self.rng.uniform(0.3, 1.5)
        own = [say for death in ends[:1] for say in raised if say.who == death.rank]
        if self.version == 2:
            return kept + self._controller(script, ends, raised, t)
        return kept + self._driver(script, ends, own, t)

    def _deduplicated(self, says: list[Say], until: float) -> list[Say]:
        """Ray 2.4 folds lines that differ only in words with digits, within five seconds."""
        if not self.dedups:
            return says
        seen: dict[str, tuple[float, int]] = {}
        kept: list[Say] = []
        for say in sorted(says, key=lambda say: say.t):
            key = " ".join(word for word in say.text.split() if not re.search(r"\d", word))
            last = seen.get(key)
            foldable = (
                say.who >= 0
                and say.kind in ("raw", "log")
                and "\n" not in say.text
                and not say.evidence
                and say.t < until
            )
            if foldable and last and say.t - last[0] < 5 and kept[last[1]].who != say.who:
                first = kept[last[1]]
                number = int(found[1]) + 1 if (found := re.search(r"\[repeated (\d+)x", first.text)) else 2
                note = f" [repeated {number}x across cluster]"
                kept[last[1]] = replace(
                    say, text=f"{say.text}{GREEN}{note}{PLAIN}" if self.coloured else say.text + note
                )
                continue
            if foldable:
                seen[key] = (say.t, len(kept))
            kept.append(say)
        return kept

    def _died(self, death: Death, script: Script) -> tuple[str, tuple[int, ...]]:
        """The text for an actor that died without a Python exception."""
        job = self.job
        text = (
            f"The actor died unexpectedly before finishing this task.\n\tclass_name: {self.actor}\n\tactor_id:"
            f" {job.pids[death.rank] * 7919:032x}\n\tpid: {job.pids[death.rank]}\n\tip:"
            f" {node_ip(job, death.rank // job.per_node)}\nThe actor is dead because its worker process has died."
            " Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error"
            " code 2. End of file. There are some potential root causes. (1) The process is killed by SIGKILL by OOM"
            " killer due to high memory usage. (2) ray stop --force is called. (3) The worker is crashed unexpectedly"
            " due to SIGSEGV or other unexpected errors."
        )
        return text, (0, 5) if script.table_is_evidence and blamed(script, death) else ()

    def _driver(self, script: Script, ends: list[Death], own: list[Say], t: float) -> list[Say]:
        first = ends[0]
        job, rank = self.job, first.rank
        where = (
            f"(pid={job.pids[rank]}, ip={node_ip(job, rank // job.per_node)}, actor_id={job.pids[rank] * 7919:032x},"
            f" repr=<ray.train._internal.worker_group.RayTrainWorker object at 0x7f{job.pids[rank]:010x}>)"
        )
        known = (rank,) if self.announces and blamed(script, first) else ()
        top = (
            f'Traceback (most recent call last):\n  File "{job.site}/ray/train/_internal/utils.py", line 54, in'
            f' check_for_failure\n    ray.get(object_ref)\n  File "{job.site}/ray/_private/worker.py", line 2525, in'
            " get\n    raise value.as_instanceof_cause()"
        )
        if not own:
            text, marks = self._died(first, script)
            lines = top.replace("value.as_instanceof_cause()", "value").split("\n")
            return [
                agent(
                    t,
                    "\n".join([*lines, "ray.exceptions.RayActorError: " + text]),
                    names=known,
                    evidence=tuple(len(lines) + k for k in marks),
                )
            ]
        kind = own[0].text.rstrip().split("\n")[max(own[0].evidence, default=-1)].split(":")[0].rsplit(".", 1)[-1]
        kind = kind if kind.isidentifier() else "RuntimeError"
        head = f"{top}\nray.exceptions.RayTaskError({kind}): ray::_RayTrainWorker__execute.get_next() {where}"
        inner = own[0].text.split("\n")
        drop = 1 if inner[0].startswith("Traceback") else 0
        body = replace(own[0], text="\n".join(inner[drop:]), evidence=tuple(k - drop for k in own[0].evidence))
        return [quote(-1, t, head, [body], names=known)]

    def _controller(self, script: Script, ends: list[Death], raised: list[Say], t: float) -> list[Say]:
        head = self._prefix("TrainController", self.controller, 0)
        by_rank = {say.who: say for say in raised}
        snippets: list[Say] = []
        # Equal errors of several ranks are shown once, under the list of their ranks.
        groups: dict[str, list[Death]] = {}
        for death in ends:
            said = by_rank.get(death.rank)
            groups.setdefault(said.text.rstrip().split("\n")[-1] if said else f"died {death.code}", []).append(death)
        for members in groups.values():
            ranks = ",".join(str(death.rank) for death in sorted(members, key=lambda death: death.rank))
            title = f"[Rank {ranks} Error Snippet]:"
            said = by_rank.get(members[0].rank)
            if said:
                snippets.append(quote(-1, t, title, [said]))
            else:
                text, marks = self._died(members[0], script)
                snippets.append(Say(-1, t, f"{title}\n{text}", evidence=tuple(k + 1 for k in marks)))
        names = tuple(sorted(death.rank for death in ends if blamed(script, death)))
        plain = "ray.train.v2._internal.exceptions.WorkerGroupError" if self.rng.random() < 0.3 else "WorkerGroupError"
        lines = quote(
            -1,
            t,
            "[FailurePolicy] RAISE\n  Source: worker group\n  Error count: 1 (max allowed: 0)\n\nError: Training failed"
            " due to worker errors:",
            snippets,
        )
        body = [head + line for line in lines.text.split("\n")]
        driver = (
            f'Traceback (most recent call last):\n  File "{self.job.workdir}/{self.job.script}", line 88, in <module>\n'
            "    result = trainer.fit()\n"
            f"ray.train.{plain.rsplit('.', 1)[-1]}: Training failed due to worker errors:"
        )
        closing = quote(-1, t + 0.6, driver, snippets, names=names)
        return [replace(lines, text="\n".join(body), names=names), closing]
