"""The kernel's Xid lines name a faulty GPU; its rank fails, or hangs and the others wait."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from ..script import Exit, Job, Script
from . import _cuda, _gloo, _nccl, _system
from ._common import NCCL, Shelf, a_rank, backward_frames, draw_time, node_of, script
from ._stuck import Story, draw_work

SHELF = Shelf("gpu_hardware")
SCENARIOS, NEEDS = SHELF.scenarios, SHELF.needs
CATEGORY = SHELF.category

# Xid texts by number: (reason, texts, what the process sees ("": it hangs or is killed)).
XIDS: dict[str, tuple[str, list[str], str]] = {
    "48": (
        "ecc",
        [
            "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition {p}, "
            "subpartition 0.",
            "DBE (double bit error) ECC Error.",
        ],
        "uncorrectable ECC error encountered",
    ),
    "61": ("xid", ["{x:04x}(3098) 00000000 00000000"], "unspecified launch failure"),
    "62": ("xid", ["{x:04x}a7c2 00000000 00000000"], "unspecified launch failure"),
    "63": (
        "row_remap",
        [
            "Row Remapper: New row marked for remapping, reset gpu to activate.",
            "Row Remapper: New row (0x{x:016x}) marked for remapping, reset gpu to activate.",
        ],
        "uncorrectable ECC error encountered",
    ),
    "64": (
        "row_remap",
        [
            "Row Remapper: Row remapping failed, all reserved rows for bank are remapped",
            "ECC page retirement or row remapper recording failure",
        ],
        "uncorrectable ECC error encountered",
    ),
    "74": (
        "nvlink",
        [
            "NVLink: fatal error detected on link {p}(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
            "NVLink: fatal error detected on link {p}(0x0, 0x20, 0x0, 0x0, 0x0, 0x0, 0x0)",
        ],
        "unspecified launch failure",
    ),
    "79": ("fell_off_bus", ["GPU has fallen off the bus."], "unspecified launch failure"),
    "92": ("ecc", ["High single-bit ECC error rate"], "uncorrectable ECC error encountered"),
    "94": (
        "ecc",
        [
            "Contained: SM (0x{p:x}). RST: No, D-RST: No",
            "Contained: CE User Channel (0x9). RST: No, D-RST: No",
            "Ch 0000001{p:x}",
        ],
        "uncorrectable ECC error encountered",
    ),
    "95": (
        "ecc",
        ["Uncontained: LTC TAG. RST: Yes, D-RST: No", "Uncontained: FBHUB. RST: Yes, D-RST: No"],
        "uncorrectable ECC error encountered",
    ),
    "119": (
        "xid",
        [
            "Timeout waiting for RPC from GSP! Expected function 76 (GSP_RM_CONTROL) (0x20800a{p:02x} 0x4).",
            "Timeout after 6s of waiting for RPC response from GPU{g} GSP! Expected function 103 (GSP_RM_ALLOC) "
            "(0x0 0x{x:x}).",
        ],
        "",
    ),
    "120": ("xid", ["GSP Error: Task 1 raised error code 0x5 for reason 0x0 at 0x{x:x} (0 more errors skipped)"], ""),
    "121": ("nvlink", ["C2C Link{p} fatal error, status 0x{x:08x}"], "unspecified launch failure"),
    "140": (
        "ecc",
        [
            "An uncorrectable ECC error detected (possible firmware handling failure) DRAM:-1840691462, LTC:0, MMU:0, "
            "PCIE:0"
        ],
        "uncorrectable ECC error encountered",
    ),
    "145": (
        "nvlink",
        ["NVLINK: RLW_SRC_TRACK Nonfatal XC0 i0 Link {p:02d} (0x00000004 0x80000000 0x00000000)"],
        "unspecified launch failure",
    ),
    "149": (
        "nvlink",
        ["NVLINK: NETIR_LINK_EVT Fatal XC0 i0 Link {p:02d} (0x004505c6 0x00000000 0x00000000)"],
        "unspecified launch failure",
    ),
}


def draw_xid(rng: random.Random, job: Job, rank: int, number: str) -> list[str]:
    """The driver's lines; driver age decides which fields there are."""
    reason, texts, _ = XIDS[number]
    text = rng.choice(texts).format(p=rng.randint(0, 11), x=rng.getrandbits(24), g=job.local(rank))
    bus = _system.pci(job, job.local(rank))
    pid, form = job.pids[rank], rng.random()
    if form < 0.15:
        owner = ""
    elif form < 0.5:
        owner = f"pid={pid}, "
    elif form < 0.85 or number in ("79", "119"):
        owner = rng.choice(
            ["pid='<unknown>', name=<unknown>, ", f"pid={pid}, name={rng.choice(['python', 'python3'])}, "]
        )
    else:
        owner = f"pid={pid}, name=pt_main_thread, "
    lines = [
        f"NVRM: Xid (PCI:{bus}): {number}, {owner}{text}"
        if rng.random() < 0.9
        else f"NVRM: Xid ({bus}): {number}, {text}"
    ]
    if number == "79":
        lines.append(f"NVRM: GPU {bus}.0: GPU has fallen off the bus.")
        if rng.random() < 0.5:
            lines.append(f"NVRM: GPU {bus}.0: GPU serial number is {rng.randint(10**12, 10**13 - 1)}.")
            lines.append(
                "NVRM: A GPU crash dump has been created. If possible, please run\nNVRM: nvidia-bug-report.sh as root "
                "to collect this data before\nNVRM: the NVIDIA kernel module is "
                "unloaded.".replace("\n", " ")
            )
    if reason == "ecc" and number in ("48", "94", "95") and rng.random() < 0.4:
        lines.append(f"NVRM: Xid (PCI:{bus}): 45, pid={pid}, name=python, Ch 00000008")
    return lines


def xid(numbers: Sequence[str], seen: str = "traceback") -> Story:
    """The kernel reports the fault; the rank of that GPU fails (or hangs, and the others wait)."""

    def story(rng: random.Random, job: Job) -> Script:
        rank, start, number = a_rank(rng, job), draw_time(rng), rng.choice(numbers)
        reason, _, string = XIDS[number]
        lines = draw_xid(rng, job, rank, number)
        echo = [i for i, line in enumerate(lines) if ": 45, " in line or "serial" in line or "crash dump" in line]
        mark = [i for i in range(len(lines)) if i not in echo]
        style, buses = rng.randint(0, 3), rng.random() < 0.6
        say = _system.kernel_says(job, start, node_of(job, rank), lines, style, *mark)
        # A bus id is a rank only where NCCL's lines map it and, on several nodes, the kernel's line names the host.
        says = [replace(say, names=(rank,)) if buses and (style >= 2 or len(job.hosts) == 1) else say]
        says += _system.bus_lines(rng, job, 30) if buses else []
        if seen == "watchdog" and string:
            said, end = _cuda.watchdog(rng, job, rank, start + rng.uniform(0.1, 1), string)
            return script(CATEGORY, reason, job, [rank], says + said, exits=[end], fails_at=start)
        if string:
            # With the device gone, the driver's answer is often only "unknown".
            told = rng.choice([string, "unknown error"]) if number == "79" else string
            says.append(_cuda.fails(job, rank, start + rng.uniform(0.1, 2), backward_frames(job), told))
            return script(
                CATEGORY,
                reason,
                job,
                [rank],
                says,
                exits=[Exit(rank, start + 3, 1)],
                fails_at=start,
                no_culprit_mark="unknown",
            )
        # GSP timeouts: the process sits in the driver until somebody kills it.
        return script(
            CATEGORY,
            reason,
            job,
            [rank],
            says,
            exits=[Exit(rank, start + rng.uniform(60, 300), -9)],
            fails_at=start,
            no_culprit_mark="unknown",
        )

    return story


def silent_gpu(rng: random.Random, job: Job) -> Script:
    """The Xid explains a silence: its rank hangs in the driver, the others' watchdogs fire a timeout later."""
    rank, start = a_rank(rng, job), draw_time(rng)
    work = draw_work(rng, job, "grad")
    number = rng.choice(["79", "119", "74", "120"])
    lines = draw_xid(rng, job, rank, number)
    say = _system.kernel_says(job, start, node_of(job, rank), lines, rng.choice([2, 3]), 0)
    says = [*_system.bus_lines(rng, job, 30), replace(say, names=(rank,))]
    ends = []
    for other in [r for r in range(job.world_size) if r != rank]:
        t = start + work.timeout / 1000 + rng.uniform(0, 0.9)
        said, end = _nccl.timeout(rng, job, other, work, t, evidence=False)
        says += said
        ends.append(end)
    return script(CATEGORY, XIDS[number][0], job, [rank], says, exits=ends, fails_at=start, silent=(rank,), peers=False)


def gloo_gpu(rng: random.Random, job: Job) -> Script:
    """Two faults of one GPU in a row: page retirement logged by the driver, then the rank's ECC error."""
    rank, start = a_rank(rng, job), draw_time(rng)
    bus = _system.pci(job, job.local(rank))
    lines = [
        f"NVRM: Xid (PCI:{bus}): 48, pid={job.pids[rank]}, name=python, DBE (double bit error) ECC Error.",
        f"NVRM: Xid (PCI:{bus}): 63, pid={job.pids[rank]}, name=python, Dynamic Page Retirement: New page "
        f"retired, reboot to activate (0x{rng.getrandbits(32):016x}).",
    ]
    says = [
        _system.kernel_says(job, start, node_of(job, rank), lines, rng.randint(0, 3), 0, 1),
        _cuda.fails(
            job, rank, start + 0.2, _gloo.call_frames(job, *_gloo.CALLS[0]), "uncorrectable ECC error encountered"
        ),
    ]
    return script(
        CATEGORY, "ecc", job, [rank], says, exits=[Exit(rank, start + 1, 1)], fails_at=start, no_culprit_mark="unknown"
    )


SHELF.put("gpuhw-xid48", xid(["48"]), NCCL)
SHELF.put("gpuhw-xid63-64", xid(["63", "64"]), NCCL)
SHELF.put("gpuhw-xid74", xid(["74"]), NCCL)
SHELF.put("gpuhw-xid74-watchdog", xid(["74"], "watchdog"), NCCL, torch_min=["1.12"])
SHELF.put("gpuhw-xid79", xid(["79"]), NCCL)
SHELF.put("gpuhw-xid79-watchdog", xid(["79"], "watchdog"), NCCL, torch_min=["1.12"])
SHELF.put("gpuhw-xid92-140", xid(["92", "140"]), NCCL, torch_min=["1.12"])
SHELF.put("gpuhw-xid94-95", xid(["94", "95"]), NCCL, torch_min=["1.10"])
SHELF.put("gpuhw-xid94-watchdog", xid(["94", "95"], "watchdog"), NCCL, torch_min=["1.12"])
SHELF.put("gpuhw-xid119-120", xid(["119", "120"]), NCCL, torch_min=["1.12"])
SHELF.put("gpuhw-xid61-62", xid(["61", "62"]), NCCL)
SHELF.put("gpuhw-xid145-149", xid(["121", "145", "149"]), NCCL, torch_min=["2.3"])
SHELF.put("gpuhw-xid-silent-rank", silent_gpu, NCCL, world_size=[2, 4, 8, 16, 32])
SHELF.put("gpuhw-xid48-then-63", gloo_gpu, NCCL)
