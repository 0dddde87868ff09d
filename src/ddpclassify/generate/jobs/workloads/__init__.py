"""The programs whose failures are recorded: a file each, and here what else must be known of it.

A workload is written as people write such programs, with its own names and its own way of logging. Comments like
`# @loss` are the places where a fault's code goes; a workload has those that make sense in it. `rank`, `world`, `step`,
`loss`, `x` and `y` mean the same in all of them. `# --- file: NAME ---` begins a further file of the program.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Workload:
    """A row of the table.

    Attributes
    ----------
    like : workloads whose faults also suit this one, where it has their slots and names
    say : how it logs a message {text}
    needs : packages without which it is left out of the plan
    weight : how often it is drawn, in relation to others; what is slow to import is drawn less
    not_under : patterns of the launchers under which it does not run
    """

    name: str
    like: tuple[str, ...] = ("trainer",)
    say: str = "print({text}, flush=True)"
    needs: tuple[str, ...] = ()
    weight: float = 1.0
    not_under: tuple[str, ...] = ()


WORKLOADS: dict[str, Workload] = {
    row.name: row
    for row in (
        Workload("ddp_loop", like=(), weight=2),
        Workload("images", like=(), say="log.warning({text})", weight=2),
        Workload("trainer", like=(), weight=2),
        Workload("fsdp", say="logger.warning({text})"),
        Workload("manual", say="say({text})"),
        Workload("accumulate", like=("ddp_loop", "trainer"), say="tqdm.write({text})", needs=("tqdm",)),
        Workload("language", like=("ddp_loop", "trainer")),
        Workload("resume", like=("ddp_loop", "trainer"), say="logging.warning({text})"),
        Workload("project", say="logger.warning({text})"),
        Workload("pipeline"),
        Workload("actors", say="logger.warning({text})", needs=("loguru",)),
        Workload("evaluate", say="log.warning({text})", needs=("rich",)),
        Workload("accelerate_loop", say="logger.warning({text}, main_process_only=False)", needs=("accelerate",), weight=0.5),
        Workload("lightning_module", needs=("lightning",), weight=0.4, not_under=("pods", "torchrun-nodes*", "srun*")),
        Workload("hf_trainer", say="logger.warning({text})", needs=("transformers", "accelerate"), weight=0.4),
    )
}  # fmt: skip
