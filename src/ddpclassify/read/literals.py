"""The literals that pick a line for a closer look.

Guidelines: at most 64 rows, each of 3 bytes or more, none frequent in healthy lines: beyond that the scanner falls
from gigabytes to some hundred megabytes a second. `keep` bounds how many lines of one shape (digits removed) are kept
from the start of the log; an eighth as many again are kept from its end. Rows that name a rank or an end get a large
bound, so that thousands of ranks are all heard; words of everyday logs get a small one.
"""

from __future__ import annotations

MANY = 8192
SOME = 512
FEW = 200

SHAPES = {MANY: 1024, SOME: 512, FEW: 128}
"""How many shapes the rows of a class may bring; lines of further shapes are folded by their literal alone."""

FRAME = b'File "'
"""Marks the lines of a traceback; what stands close after one counts as `MANY`, since it may be the exception."""

LITERALS: tuple[tuple[bytes, int], ...] = (
    (b"Traceback (most", MANY),
    (FRAME, MANY),
    (b"exitcode", MANY),
    (b"(local_rank: ", MANY),  # torchrun's table of failures
    (b"host      :", MANY),
    (b"atchdog", MANY),
    (b"NCCL WARN", SOME),
    (b"last enqueued", MANY),
    (b" - Init ", MANY),
    (b"SIG", MANY),
    (b"OutOfMemory", MANY),
    (b"ut of memory", MANY),
    (b"imed out", MANY),
    (b"Xid", SOME),
    (b"NVRM", SOME),
    (b"srun: ", SOME),
    (b"slurmstepd", SOME),
    (b"oom", SOME),
    (b"world_size", SOME),
    (b"GLOBAL_RANK", MANY),
    (b"spawned with", MANY),
    (b"Killed", SOME),
    (b"killed", SOME),
    (b"ignal", MANY),
    (b"exit code", MANY),
    (b"exit status", SOME),
    (b"return code", SOME),
    (b" panic", SOME),
    (b"terminat", SOME),
    (b"core dumped", SOME),
    (b"what():", SOME),
    (b"bort", SOME),  # abort, Aborted
    (b"CANCELLED", SOME),
    (b"vict", FEW),  # evicted, Evicting
    (b"reempt", FEW),
    (b" lost", FEW),
    (b"eartbeat", FEW),
    (b"Interrupt", SOME),
    (b"Rank ", SOME),
    (b"ssertion", SOME),
    (b"onnection", SOME),
    (b"Broken pipe", SOME),
    (b"No space left", SOME),
    (b"ismatch", SOME),
    (b"No such file", FEW),
    (b"denied", FEW),
    (b"orrupt", FEW),
    (b"Error", SOME),
    (b"ERROR", FEW),
    (b" error", FEW),
    (b"xception", FEW),
    (b"FATAL", FEW),
    (b"atal", FEW),
    (b"ailed", FEW),
    (b"ailure", FEW),
    (b"FAILED", FEW),
    (b"nable to", FEW),
    (b"annot ", FEW),
    (b"not found", FEW),
    (b"NaN", FEW),
    (b" nan", FEW),
    (b"\xe2\x9d\xb1", FEW),  # ❱ marks the line in rich's traceback boxes
    (b"unhealthy", FEW),
    (b" DBE", FEW),  # double-bit error
)
