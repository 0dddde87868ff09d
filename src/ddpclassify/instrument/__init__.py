"""A few lines for a training script, so that its log tells what happened.

    from ddpclassify import instrument

    instrument.setup()                            # rank, local rank, time, host on every line; tells of exceptions
    torch.distributed.init_process_group("nccl")
    loader = make_loader()
    instrument.preflight(data_length=len(loader)) # checks, when DEBUG_DDP=1 is set
    instrument.checkpoint("after load", timeout=60)
    for step, batch in enumerate(loader):
        instrument.at(step=step)
        ...

Needs nothing but Python, and torch only where the script uses it: torch is never imported from here. Everything is
safe to call in a single process, before `init_process_group`, and twice.
"""

from __future__ import annotations

from ddpclassify.instrument.checks import PreflightError, preflight
from ddpclassify.instrument.crash import at, guard
from ddpclassify.instrument.marks import setup
from ddpclassify.instrument.together import MissingRanksError, checkpoint

__all__ = ["MissingRanksError", "PreflightError", "at", "checkpoint", "guard", "preflight", "setup"]
