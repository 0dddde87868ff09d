"""torch.distributed.launch up to 1.8: kills every child and blames the command it started last."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..exceptions import Frame, traceback_text
from ..script import Job, Say, Script
from ..stock.words import Fill, python_binary
from .base import SIGNALS, Death, Launcher, agent, blamed


def exit_words(code: int) -> str:
    """How subprocess words an exit code."""
    if code < 0:
        return f"died with <Signals.{SIGNALS.get(-code, ('SIGUNKNOWN', ''))[0]}: {-code}>."
    return f"returned non-zero exit status {code}."


def called_process_error(
    job: Job, t: float, frames: Sequence[str], command: Sequence[str], death: Death, script: Script, node: int = 0
) -> Say:
    """Traceback of a launcher that lets subprocess raise for its child."""
    error = f"subprocess.CalledProcessError: Command '{list(command)}' {exit_words(death.code)}"
    text = traceback_text(
        [Frame.parse(frame) for frame in frames], error, Fill(random.Random(f"{job.pids[0]}"), job), 0
    )
    proof = script.table_is_evidence and blamed(script, death)
    return agent(t, text, node, evidence=(text.count("\n"),) if proof else ())


class Legacy(Launcher):
    """The launcher of torch 1.8: polls once a second, then kills all."""

    kill_lag = (0.2, 1.2)

    def opening(self) -> list[Say]:
        if self.job.per_node == 1 or self.rng.random() < 0.3:
            return []
        star = "*" * 41
        text = (
            f"{star}\nSetting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your"
            " system being overloaded, please further tune the variable for optimal performance in your application as"
            f" needed. \n{star}"
        )
        return [agent(0.4, text, node, stream="stdout") for node in range(len(self.job.hosts))]

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
            says += [
                agent(t + 0.001 * k, f"Killing subprocess {job.pids[rank]}", node, stream="stdout")
                for k, rank in enumerate(ranks)
            ]
            runpy = python_binary(job).split("/bin/")[0] + f"/lib/python{'.'.join(map(str, job.python))}/runpy.py"
            launch = "{site}/torch/distributed/launch.py"
            frames = [
                f"{runpy} | _run_module_as_main | return _run_code(code, main_globals, None,",
                f"{runpy} | _run_code | exec(code, run_globals)",
                f"{launch} | <module> | main()",
                f"{launch} | main | sigkill_handler(signal.SIGTERM, None)  # not coming back",
                (
                    f"{launch} | sigkill_handler | raise subprocess.CalledProcessError(returncode=last_return_code,"
                    " cmd=cmd)"
                ),
            ]
            command = [python_binary(job), "-u", job.script, f"--local_rank={job.per_node - 1}"]
            says.append(called_process_error(job, t + 0.05, frames, command, first, script, node))
        return says
