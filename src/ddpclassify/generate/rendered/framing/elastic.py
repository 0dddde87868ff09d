"""torchrun and everything built on its agent: accelerate, torch.distributed.launch from 1.9, pods and srun tasks."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..exceptions import Frame, traceback_text
from ..script import Job, Say, Script
from ..stock.words import Fill, python_binary
from .base import LOCAL, NOTHING, RANK, SIGNALS, Clock, Death, Launcher, agent, blamed, first_by_node, told_by_code

API = "torch.distributed.elastic.multiprocessing.api"
ADVICE = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"


class Elastic(Launcher):
    """The elastic agent: one a node, ends its node's workers, prints a table."""

    entry = "torchrun"

    def __init__(self, rng: random.Random, job: Job, clock: Clock) -> None:
        super().__init__(rng, job, clock)
        self.kill_lag = (0.3, 5.0) if job.torch < (2, 4) else (0.1, 0.4)
        self.omp = rng.random() < 0.6
        self.gather = rng.choice(("merge", "concat", "concat"))
        self.recorded = rng.random() < 0.15
        self.info = rng.random() < 0.08
        self.agent_gap = rng.randint(2, 30)
        self.agent_pid = job.pids[0] - self.agent_gap
        # How the workers' lines are tagged; "role" is torchtitan's `--role rank`, which looks global but is local.
        self.tags = rng.choices(("plain", "tee", "role", "template"), (66, 22, 6, 6 if job.torch >= (2, 3) else 0))[0]

    def tag(self, say: Say) -> tuple[str, frozenset[str]]:
        if say.who < 0 or self.tags == "plain":
            return "", NOTHING
        local = self.job.local(say.who)
        if self.tags == "tee":
            return f"[default{local}]:", frozenset({LOCAL})
        if self.tags == "role":
            return f"[rank{local}]:", frozenset({LOCAL})
        return f"[trainer-{local}|rank {say.who}] ", frozenset({RANK})

    def log(self, t: float, level: str, text: str, node: int = 0, module: str = API, **fields: object) -> Say:
        """An agent's log line in the form of the release."""
        torch = self.job.torch
        pid = self.job.pids[node * self.job.per_node] - self.agent_gap
        line = 0 if torch < (2, 3) else _source_line(module, text)
        path = module.replace(".", "/") + ".py"
        moment = self.clock.at(t)
        lines = text.split("\n")
        if torch < (2, 1):
            return agent(t, f"{level}:{module}:{text}", node, **fields)
        if torch < (2, 3):
            head = f"[{self.clock.millis(t)}] {module}: [{level}] "
        else:
            head = f"{level[0]}{moment:%m%d %H:%M:%S}.{moment.microsecond:06d} {pid} {path}:{line}] "
        return agent(t, "\n".join(head + part for part in lines), node, **fields)

    def opening(self) -> list[Say]:
        says = []
        for node in range(len(self.job.hosts)):
            t = self.rng.uniform(0.5, 2)
            if self.omp and self.job.per_node > 1:
                star = "*" * 41
                first = "\n" if self.job.torch >= (1, 10) else ""
                text = (
                    f"{first}{star}\nSetting OMP_NUM_THREADS environment variable for each process to be 1 in default,"
                    " to avoid your system being overloaded, please further tune the variable for optimal performance"
                    f" in your application as needed. \n{star}"
                )
                says.append(self.log(t, "WARNING", text, node, "torch.distributed.run"))
            if self.info:
                says += self._rendezvous_info(t, node)
        return says

    def _rendezvous_info(self, t: float, node: int) -> list[Say]:
        job, module = self.job, "torch.distributed.elastic.agent.server.api"
        ranks = list(range(node * job.per_node, (node + 1) * job.per_node))
        result = (
            f"[default] Rendezvous complete for workers. Result:\n  restart_count=0\n  master_addr={job.hosts[0]}\n "
            f" master_port=29500\n  group_rank={node}\n  group_world_size={len(job.hosts)}\n "
            f" local_ranks={list(range(job.per_node))}\n  role_ranks={ranks}\n  global_ranks={ranks}\n "
            f" role_world_sizes={[job.world_size] * job.per_node}\n "
            f" global_world_sizes={[job.world_size] * job.per_node}\n"
        )
        return [
            self.log(t + 0.1, "INFO", "[default] Rendezvous'ing worker group", node, module),
            self.log(t + 0.4, "INFO", result, node, module),
            self.log(t + 0.5, "INFO", "[default] Starting worker group", node, module),
        ]

    def closing(self, t: float) -> list[Say]:
        if not self.info:
            return []
        text = "[default] worker group successfully finished. Waiting 300 seconds for other agents to finish."
        return [
            self.log(t + 0.2, "INFO", text, node, "torch.distributed.elastic.agent.server.api")
            for node in range(len(self.job.hosts))
        ]

    def ending(self, script: Script, deaths: Sequence[Death]) -> list[Say]:
        says: list[Say] = []
        if script.scope == "launcher" and deaths:
            return self.stopped(deaths)
        culprits = [death.rank for death in deaths if blamed(script, death)]
        for node, dead in first_by_node(self.job, deaths).items():
            own = [death for death in dead if death.cause != "victim"]
            if own:
                here = [rank for rank in culprits if rank // self.job.per_node == node]
                says += self._node_ending(script, node, own, dead, here)
        return says

    def _node_ending(
        self, script: Script, node: int, own: list[Death], dead: list[Death], culprits: Sequence[int]
    ) -> list[Say]:
        job, rng, torch = self.job, self.rng, self.job.torch
        ended = [death.t for death in dead if death.cause == "victim"]
        seen = max(own[0].t, min(ended) - 0.02) if ended else own[0].t + rng.uniform(*self.kill_lag)
        failed = [death for death in own if death.t <= seen]
        names = told_by_code(culprits, failed)
        says: list[Say] = []
        t = seen
        for rank in range(node * job.per_node, (node + 1) * job.per_node):
            if rank not in {death.rank for death in failed} and torch >= (1, 10):
                t += 0.0005
                says.append(self.log(t, "WARNING", f"Sending process {job.pids[rank]} closing signal SIGTERM", node))
        if rng.random() < 0.06 and says:
            t += 30
            new = torch < (2, 1) or job.python >= (3, 11)
            names15, names9 = ("15", "9") if new else ("Signals.SIGTERM", "Signals.SIGKILL")
            word = "exitting" if torch < (2, 1) else "exiting"
            text = f"Unable to shutdown process {{}} via {names15}, forcefully {word} via {names9}"
            says += [
                self.log(t, "WARNING", text.format(job.pids[death.rank]), node)
                for death in dead
                if death.cause == "victim"
            ]
        listed = sorted(failed, key=lambda death: death.rank)
        if torch >= (2, 11):
            listed = sorted({death.rank: death for death in [*dead, *failed]}.values(), key=lambda death: death.rank)
        first = min(failed, key=lambda death: (death.t if self.recorded and death.code > 0 else 0.0, death.rank))
        t += rng.uniform(0.05, 0.6)
        proof = script.table_is_evidence and bool(culprits) and bool(names)
        text = (
            f"failed (exitcode: {first.code}) local_rank: {job.local(first.rank)} (pid: {job.pids[first.rank]}) of"
            f" binary: {python_binary(job)}"
        )
        names_first = (first.rank,) if first.rank in names else ()
        says.append(self.log(t, "ERROR", text, node, names=names_first, evidence=(0,) if proof and names_first else ()))
        if torch < (1, 10) or rng.random() < 0.02:
            says += self._error_file_box(t, node) if torch < (1, 10) else []
        table, evidence = self._table(t, node, first, listed, seen, names if proof else ())
        head = self._agent_traceback(node)
        where = len(head.split("\n"))
        says.append(
            agent(t + 0.05, head + "\n" + table, node, names=names, evidence=tuple(where + k for k in evidence))
        )
        return says

    def _error_file_box(self, t: float, node: int) -> list[Say]:
        star = "*" * 60
        return [agent(t + 0.01, f"{star}\n{'CHILD PROCESS FAILED WITH NO ERROR_FILE':^60}\n{star}", node)]

    def _table(
        self, t: float, node: int, first: Death, listed: list[Death], seen: float, proven: Sequence[int]
    ) -> tuple[str, list[int]]:
        """The failure table of the release, and the offsets of rows that state how a proven culprit ended."""
        others = [death for death in listed if death.rank != first.rank]
        old = self.job.torch < (1, 10)
        rows: list[tuple[str, bool]] = []
        title = [(f"{self.job.script} FAILED", False)]
        root = self._row(0 if old else listed.index(first), first, seen, node, first.rank in proven)
        rest = [row for death in others
                for row in self._row(listed.index(death), death, seen, node, death.rank in proven)]  # fmt: skip
        rest = rest or [("  <NO_OTHER_FAILURES>", False)]
        width = min(max(len(text) for text, _ in title + root + rest), 60)
        thick, thin = ("*" * width, "=" * width) if old else ("=" * width, "-" * width)
        if old:
            sections = [("Root Cause:", root), ("Other Failures:", rest)]
        else:
            sections = [("Failures:", rest), ("Root Cause (first observed failure):", root)]
        rows = [(thick, False), (f"{title[0][0]:^{width}}" if old else title[0][0], False)]
        for name, body in sections:
            rows += [(thin, False), (name, False), *body]
        rows.append((thick, False))
        return "\n".join(text for text, _ in rows), [k for k, (_, marked) in enumerate(rows) if marked]

    def _row(self, index: int, death: Death, seen: float, node: int, proven: bool) -> list[tuple[str, bool]]:
        job = self.job
        when = self.clock.text(death.t if self.recorded and death.code > 0 else seen, "%Y-%m-%d_%H:%M:%S")
        local, pid, code = job.local(death.rank), job.pids[death.rank], death.code
        if job.torch < (1, 10):
            keys = [f"time: {when}", f"rank: {death.rank} (local_rank: {local})", f"exitcode: {code} (pid: {pid})",
                    "error_file: <N/A>", f'msg: "Process failed with exitcode {code}"']  # fmt: skip
            marks = {2, 4}
        else:
            signal = SIGNALS.get(-code, ("<N/A>", ""))[0]
            named = f" ({signal})" if code < 0 and job.torch >= (2, 12) else ""
            why = f"Signal {-code} ({signal}) received by PID {pid}" if code < 0 else ADVICE
            keys = [
                f"time      : {when}",
                f"host      : {job.hosts[node]}",
                f"rank      : {death.rank} (local_rank: {local})",
                f"exitcode  : {code} (pid: {pid}){' ' if named else ''}{named}",
                "error_file: <N/A>",
                f"traceback : {why}",
            ]
            marks = {3, 5}
        return [(f"[{index}]:", False), *((f"  {key}", proven and k in marks) for k, key in enumerate(keys))]

    def _agent_traceback(self, node: int) -> str:
        """The agent's own traceback down to the line that the table follows."""
        job = self.job
        fill = Fill(random.Random(f"{self.agent_pid}"), job)
        frames = [Frame(*(part.strip() for part in row.split("|", 2))) for row in self.agent_frames()]
        error = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
        return traceback_text(frames, error, fill, 0)

    def agent_frames(self) -> list[str]:
        """Call stack of the launching process."""
        record = (
            "{site}/torch/distributed/elastic/multiprocessing/errors/__init__.py | wrapper | return f(*args, **kwargs)"
        )
        launch = [
            "{site}/torch/distributed/run.py | run | elastic_launch(",
            (
                "{site}/torch/distributed/launcher/api.py | __call__ | return launch_agent(self._config,"
                " self._entrypoint, list(args))"
            ),
            "{site}/torch/distributed/launcher/api.py | launch_agent | raise ChildFailedError(",
        ]
        binary = python_binary(self.job).rsplit("/", 1)[0] + "/torchrun"
        return [
            f"{binary} | <module> | sys.exit(main())",
            record,
            "{site}/torch/distributed/run.py | main | run(args)",
            *launch,
        ]

    def stopped(self, deaths: Sequence[Death]) -> list[Say]:
        """The agents' end when somebody outside ends them with their workers: SIGKILL leaves no time for words."""
        if {death.code for death in deaths} == {-9}:
            return []
        firsts = {node: dead[0].t for node, dead in first_by_node(self.job, deaths).items()}
        return [say for node, t in firsts.items() for say in self.signalled(node, t - 0.01)]

    def signalled(self, node: int, t: float) -> list[Say]:
        """An agent that Slurm ends."""
        job = self.job
        if job.torch < (1, 10):
            return []
        says = [
            self.log(
                t,
                "WARNING",
                (
                    "Received 15 death signal, shutting down workers"
                    if job.python >= (3, 11) or job.torch < (2, 1)
                    else "Received Signals.SIGTERM death signal, shutting down workers"
                ),
                node,
            )
        ]
        for local in range(job.per_node):
            pid = job.pids[node * job.per_node + local]
            says.append(
                self.log(t + 0.001 * (local + 1), "WARNING", f"Sending process {pid} closing signal SIGTERM", node)
            )
        text = self.signal_traceback()
        return [*says, agent(t + 1.5, text, node)]

    def signal_traceback(self) -> str:
        """The agent's traceback when it got SIGTERM."""

        api = "{site}/torch/distributed/elastic/multiprocessing/api.py"
        frames = [
            Frame.parse(text)
            for text in [
                *self.agent_frames()[:-1],
                "{site}/torch/distributed/elastic/agent/server/api.py | run | result = self._invoke_run(role)",
                "{site}/torch/distributed/elastic/agent/server/api.py | _invoke_run | time.sleep(monitor_interval)",
                (
                    f'{api} | _terminate_process_handler | raise SignalException(f"Process {{os.getpid()}} got signal:'
                    ' {sigval}", sigval=sigval)'
                ),
            ]
        ]
        error = (
            f"torch.distributed.elastic.multiprocessing.api.SignalException: Process {self.agent_pid} got signal: 15"
        )
        return traceback_text(frames, error, Fill(random.Random(f"{self.agent_pid}"), self.job))


def _source_line(module: str, text: str) -> int:
    """Line number in the agent's source, fixed for a statement."""
    known = {"Sending": 897, "failed (": 869, "Unable t": 916, "Received": 1010}
    return known.get(text[:8], 766 if module.endswith("run") else 861 + len(text) % 7)
