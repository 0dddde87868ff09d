"""Launchers built on torchrun's agent: accelerate, torch.distributed.launch from 1.9 on, a torchrun a pod."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ..script import Job, Say, Script
from ..stock.words import python_binary
from .base import NOTHING, Clock, Death, agent
from .elastic import Elastic
from .legacy import called_process_error
from .rich import boxed


class Accelerate(Elastic):
    """accelerate launch: torchrun's agent inside another command, wrapped in its own lines."""

    def __init__(self, rng: random.Random, job: Job, clock: Clock) -> None:
        super().__init__(rng, job, clock)
        self.tags = rng.choices(("plain", "tee"), (9, 1))[0]
        self.defaults = rng.random() < 0.5
        self.debug = rng.random() < 0.12  # `accelerate launch --debug` draws its own traceback with rich

    def opening(self) -> list[Say]:
        says = super().opening() if self.job.world_size > 1 else []
        if self.defaults:
            text = (
                "The following values were not passed to `accelerate launch` and had defaults used"
                f" instead:\n\t`--num_processes` was set to a value of `{self.job.world_size}`\n\t\tMore than one GPU"
                " was found, enabling multi-GPU training.\n\t\tIf this was unintended please pass in"
                " `--num_processes=1`.\n\t`--num_machines` was set to a value of `1`\n\t`--mixed_precision` was set to"
                " a value of `'no'`\n\t`--dynamo_backend` was set to a value of `'no'`\nTo avoid this warning pass in"
                " values for each of the problematic parameters or run `accelerate config`."
            )
            says.append(agent(0.3, text))
        return says

    def ending(self, script: Script, deaths: Sequence[Death]) -> list[Say]:
        if self.job.world_size > 1 or not deaths:
            says = super().ending(script, deaths)
            return [boxed(say) if self.debug and "Traceback (most" in say.text else say for say in says]
        death = min(deaths, key=lambda death: death.t)
        frames = [
            f"{python_binary(self.job).rsplit('/', 1)[0]}/accelerate | <module> | sys.exit(main())",
            "{site}/accelerate/commands/accelerate_cli.py | main | args.func(args)",
            "{site}/accelerate/commands/launch.py | launch_command | simple_launcher(args)",
            (
                "{site}/accelerate/commands/launch.py | simple_launcher | raise"
                " subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)"
            ),
        ]
        command = [python_binary(self.job), self.job.script]
        return [called_process_error(self.job, death.t + 0.3, frames, command, death, script)]

    def agent_frames(self) -> list[str]:
        binary = python_binary(self.job).rsplit("/", 1)[0]
        return [
            f"{binary}/accelerate | <module> | sys.exit(main())",
            "{site}/accelerate/commands/accelerate_cli.py | main | args.func(args)",
            "{site}/accelerate/commands/launch.py | launch_command | multi_gpu_launcher(args)",
            "{site}/accelerate/commands/launch.py | multi_gpu_launcher | distrib_run.run(args)",
            *super().agent_frames()[-3:],
        ]


class ElasticLaunch(Elastic):
    """torch.distributed.launch from 1.9 on: a deprecation warning, then torchrun."""

    def opening(self) -> list[Say]:
        warning = (
            f"{self.job.site}/torch/distributed/launch.py:{178 if self.job.torch < (2, 0) else 181}: FutureWarning: The"
            " module torch.distributed.launch is deprecated\nand will be removed in future. Use torchrun.\nNote that"
            f" --{'use_env' if self.job.torch < (2, 0) else 'use-env'} is set by default in torchrun.\nIf your script"
            " expects `--local_rank` argument to be set, please\nchange it to read from `os.environ['LOCAL_RANK']`"
            " instead. See \nhttps://pytorch.org/docs/stable/distributed.html#launch-utility for \nfurther"
            " instructions\n\n  warnings.warn("
        )
        return [agent(0.4, warning), *super().opening()]

    def agent_frames(self) -> list[str]:
        launch = "{site}/torch/distributed/launch.py"
        entry = [f"{launch} | <module> | main()", f"{launch} | main | launch(args)", f"{launch} | launch | run(args)"]
        main = python_binary(self.job).split("/bin/")[0] + f"/lib/python{'.'.join(map(str, self.job.python))}/runpy.py"
        return [
            f'{main} | _run_module_as_main | return _run_code(code, main_globals, None,',
            f"{main} | _run_code | exec(code, run_globals)", *entry, *super().agent_frames()[-3:],
        ]  # fmt: skip


class Pods(Elastic):
    """One torchrun a pod, read through kubectl, stern or the container runtime's files."""

    def __init__(self, rng: random.Random, job: Job, clock: Clock) -> None:
        super().__init__(rng, job, clock)
        self.reader = rng.choice(("kubectl", "kubectl", "stern", "cri", "pod", "pod"))
        self.tags = rng.choices(("plain", "tee"), (3, 1))[0]
        self.gather = "concat" if self.reader in ("cri", "pod") else "merge"

    def tag(self, say: Say) -> tuple[str, frozenset[str]]:
        inner, knows = super().tag(say)
        pod = self.job.hosts[self.node_of(say)]
        if self.reader == "cri":
            moment = self.clock.at(say.t)
            return f"{moment:%Y-%m-%dT%H:%M:%S.%f}{say.t * 1e9 % 1000:03.0f}Z {say.stream} F {inner}", knows
        head = {"kubectl": f"[pod/{pod}/pytorch] ", "stern": f"{pod} pytorch "}.get(self.reader, "")
        return head + inner, knows | ({"node"} if head else NOTHING)
