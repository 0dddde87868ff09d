"""The deepspeed launcher: logs to stdout, kills every child, blames the last command; pdsh adds the host."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Sequence

from ..script import SYSTEM, Job, Say, Script
from ..stock.words import python_binary
from .base import NODE, NOTHING, Clock, Death, Launcher, agent, blamed


class DeepSpeed(Launcher):
    """runner.py on the first host, launch.py on each."""

    kill_lag = (0.2, 1.2)
    prepares = True

    def __init__(self, rng: random.Random, job: Job, clock: Clock) -> None:
        super().__init__(rng, job, clock)
        self.pdsh = len(job.hosts) > 1
        self.maps = rng.random() < 0.5

    def tag(self, say: Say) -> tuple[str, frozenset[str]]:
        if not self.pdsh or ((say.who < 0 and say.text.startswith(("pdsh@", "["))) and "runner.py" in say.text):
            return "", NOTHING
        if say.who == SYSTEM or say.text.startswith("pdsh@"):
            return "", NOTHING
        return f"{self.job.hosts[self.node_of(say)]}: ", frozenset({NODE})

    def _log(self, t: float, where: str, text: str, node: int = 0, level: str = "INFO", **fields: object) -> Say:
        return agent(t, f"[{self.clock.millis(t)}] [{level}] [{where}] {text}", node, stream="stdout", **fields)

    def opening(self) -> list[Say]:
        job, rng = self.job, self.rng
        accelerator = job.torch >= (2, 0)
        world = {host: list(range(job.per_node)) for host in (job.hosts if self.pdsh else ("localhost",))}
        encoded = base64.urlsafe_b64encode(json.dumps(world).encode()).decode()
        command = (
            f"{python_binary(job)} -u -m deepspeed.launcher.launch --world_info={encoded} --master_addr=127.0.0.1"
            f" --master_port=29500 {job.script} --deepspeed ds_config.json"
        )
        says = []
        if accelerator:
            says.append(
                self._log(
                    1.0, "real_accelerator.py:161:get_accelerator", "Setting ds_accelerator to cuda (auto detect)"
                )
            )
        if not self.pdsh:
            says.append(
                self._log(
                    1.4,
                    "runner.py:202:fetch_hostfile",
                    "Unable to find hostfile, will proceed with training with local resources only.",
                    level="WARNING",
                )
            )
        says.append(self._log(1.5, "runner.py:568:main", f"cmd = {command}"))
        for node in range(len(world)):
            t = 3.0 + 0.2 * node
            lines = [
                ("launch.py:145:main", f"WORLD INFO DICT: {world}"),
                ("launch.py:151:main", f"nnodes={len(world)}, num_local_procs={job.per_node}, node_rank={node}"),
                (
                    "launch.py:162:main",
                    "global_rank_mapping=defaultdict(<class 'list'>, "
                    + str({name: list(range(k * job.per_node, (k + 1) * job.per_node)) for k, name in enumerate(world)})
                    + ")",
                ),
                ("launch.py:163:main", f"dist_world_size={job.world_size}"),
                ("launch.py:165:main", f"Setting CUDA_VISIBLE_DEVICES={','.join(map(str, range(job.per_node)))}"),
            ]
            says += [self._log(t + 0.001 * k, where, text, node) for k, (where, text) in enumerate(lines)]
            if self.maps:
                for local in range(job.per_node):
                    rank = node * job.per_node + local
                    spawned = [
                        python_binary(job),
                        "-u",
                        job.script,
                        f"--local_rank={local}",
                        "--deepspeed",
                        "ds_config.json",
                    ]
                    says.append(
                        self._log(
                            t + 0.1,
                            "launch.py:253:main",
                            f"process {job.pids[rank]} spawned with command: {spawned}",
                            node,
                            maps=(rank,),
                        )
                    )
        if accelerator:
            for rank in range(min(job.world_size, 16)):
                t = rng.uniform(5, 7)
                text = (
                    f"[{self.clock.millis(t)}] [INFO] [real_accelerator.py:161:get_accelerator] Setting ds_accelerator"
                    " to cuda (auto detect)"
                )
                says.append(Say(rank, t, text, stream="stdout"))
        return says

    def closing(self, t: float) -> list[Say]:
        job = self.job
        return [
            self._log(
                t + 0.3 + 0.01 * rank, "launch.py:347:main", f"Process {pid} exits successfully.", rank // job.per_node
            )
            for rank, pid in enumerate(job.pids)
        ]

    def ending(self, script: Script, deaths: Sequence[Death]) -> list[Say]:
        job, says = self.job, []
        for node in range(len(job.hosts)):
            ranks = range(node * job.per_node, (node + 1) * job.per_node)
            here = [death for death in deaths if death.rank in ranks and death.cause != "victim"]
            if not here:
                continue
            first = min(here, key=lambda death: death.t)
            victims = [death.t for death in deaths if death.rank in ranks and death.cause == "victim"]
            t = max(first.t + 0.2, min(victims, default=0.0))
            for k, rank in enumerate(ranks):
                says.append(
                    self._log(
                        t + 0.03 * k, "launch.py:315:sigkill_handler", f"Killing subprocess {job.pids[rank]}", node
                    )
                )
            command = [
                python_binary(job),
                "-u",
                job.script,
                f"--local_rank={job.per_node - 1}",
                "--deepspeed",
                "ds_config.json",
            ]
            proof = script.table_is_evidence and blamed(script, first)
            text = f"{command} exits with return code = {first.code}"
            t += 0.03 * len(ranks) + 0.05
            says.append(
                self._log(t, "launch.py:321:sigkill_handler", text, node, "ERROR", evidence=(0,) if proof else ())
            )
            if self.pdsh:
                says.append(
                    agent(
                        t + 0.4,
                        f"pdsh@{job.hosts[0]}: {job.hosts[node]}: ssh exited with exit code {first.code % 256}",
                        node,
                    )
                )
        return says
