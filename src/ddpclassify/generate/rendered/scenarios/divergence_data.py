"""Ranks run other collectives, or other sizes and numbers of batches."""

from __future__ import annotations

import random
from dataclasses import replace

from ..script import Exit, Job, Say, Script
from . import _gloo, _nccl
from ._common import (
    NCCL,
    SEVERAL,
    THREE,
    Shelf,
    a_rank,
    draw_time,
    exits,
    forward_frames,
    main_frames,
    others,
    raised,
    ranks,
    script,
    some_ranks,
    world_line,
)
from ._stuck import Story, draw_work, wait_out

SHELF = Shelf("rank_divergence")
SCENARIOS, NEEDS = SHELF.scenarios, SHELF.needs
CATEGORY = SHELF.category


def mismatch(what: str, reason: str, report: bool = False) -> Story:
    """All ranks time out, the odd ones in another collective (rule 18)."""

    def story(rng: random.Random, job: Job) -> Script:
        odd = [0] if what == "rank0" else some_ranks(rng, job, 2)
        work, start = draw_work(rng, job, rng.choice(["grad", "gather"]) if what != "rank0" else "grad"), draw_time(rng)
        if what == "numel":
            other = replace(work, numel=work.numel - rng.choice([1, 512, 4096]) * rng.randint(1, 9) or 1, ahead=0)
        elif what == "op":
            op = rng.choice(
                [o for o in ("ALLREDUCE", "BROADCAST", "ALLGATHER", "_ALLGATHER_BASE", "REDUCE") if o != work.op]
            )
            other = replace(work, op=op, numel=rng.choice([1, 2, 256, work.numel]), numel_out=0)
        else:
            other = replace(work, op=rng.choice(["BROADCAST", "ALLGATHER", "ALLREDUCE"]), numel=1, ahead=0)
        at = start + work.timeout / 1000
        says, ends = wait_out(rng, job, ranks(job), work, at, behind=dict.fromkeys(odd, other))
        if report:
            most, few = (", ".join(map(str, those)) for those in (others(job, odd), odd))
            for rank in ranks(job):
                lines = [
                    f"Rank {rank}",
                    f"\t - [{rank}] Timeout at collective: {work.op}, #{work.seq}",
                    "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
                    f"\t   - [{few}] joined but didn't finish collective #{work.seq} (count from 1)",
                    "\t - Snapshot of ranks' latest states:",
                    f"\t   #{work.seq} started ranks:",
                    f"\t     [{most}] started {work.op}",
                    f"\t     [{few}] started {other.op}",
                ]
                says.append(_nccl.c10(rank, at + rng.uniform(0.02, 0.3), "\n".join(lines), 1480, evidence=(2, 3, 7)))
        return script(CATEGORY, reason, job, odd, says, exits=ends, fails_at=start, peers=False)

    return story


def options(dtype: str, device: str) -> str:
    return (
        f"TensorOptions(dtype={dtype}, device={device}, layout=Strided (default), requires_grad=false (default), "
        "pinned_memory=false (default), memory_format=(nullopt))"
    )


DTYPES = {
    "Float": "float (default)",
    "Half": "c10::Half",
    "BFloat16": "c10::BFloat16",
    "Long": "long int",
    "Double": "double",
}


def fingerprint(kind: str) -> Story:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL: every rank tells its own view; the one unlike the majority is the culprit."""

    def story(rng: random.Random, job: Job) -> Script:
        odd, start = a_rank(rng, job), draw_time(rng, 90, 900)
        seq, device = rng.randint(1, 9000), "cuda" if job.backend == "nccl" else "cpu"
        shape, op, dtype = [rng.choice([16, 32, 64]), rng.choice([10, 128, 1000])], "ALLREDUCE", "Float"
        values = {
            "shape": ([shape[0] - rng.randint(1, 9), shape[1]], op, dtype, seq),
            "op": (shape, rng.choice(["ALLGATHER", "BROADCAST", "REDUCE"]), dtype, seq),
            "dtype": (shape, op, rng.choice(["Half", "BFloat16", "Long", "Double"]), seq),
            "sequence": (shape, op, dtype, seq - 1),
        }[kind]
        numbered = job.torch >= (2, 0)

        def print_of(view: tuple[list[int], str, str, int]) -> str:
            number = f"SequenceNumber={view[3]}, " if numbered else ""
            return (
                f"CollectiveFingerPrint({number}OpType={view[1]}, TensorShape={view[0]}, TensorDtypes={view[2]}, "
                f"TensorDeviceTypes={options(DTYPES[view[2]], device)})"
            )

        barrier = (
            f"CollectiveFingerPrint(SequenceNumber={seq}OpType=BARRIER)"
            if numbered
            else "CollectiveFingerPrint(OpType=BARRIER)"
        )
        normal, strange = print_of((shape, op, dtype, seq)), barrier if kind == "barrier" else print_of(values)
        says = []
        call = ("all_reduce", "work = default_pg.allreduce([tensor], opts)", "dist.all_reduce(stats)")
        for rank in ranks(job):
            peer = rng.choice(others(job, [odd])) if rank == odd else odd
            mine, theirs = (strange, normal) if rank == odd else (normal, strange)
            text = (
                f"RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running collective: "
                f"{mine}, but Rank {peer} is running collective: {theirs}."
            )
            if job.torch >= (2, 1):
                text += "Collectives differ in the following aspects: "
                for name, i in (
                    ("\t Sequence number: ", 3),
                    ("  Op type: ", 1),
                    ("  Tensor Tensor shapes: ", 0),
                    ("  Tensor Tensor dtypes: ", 2),
                ):
                    pair = ((shape, op, dtype, seq)[i], values[i])
                    if pair[0] != pair[1]:
                        first, second = pair[::-1] if rank == odd else pair
                        text += f"{name}{first}vs {second}"
            says.append(_gloo.failed(rng, job, rank, start + rng.uniform(0.01, 0.5), call, text))
        reason = {"op": "collective_type", "sequence": "control_flow"}.get(kind, kind)
        return script(
            CATEGORY, reason, job, [odd], says, fails_at=start, exits=exits(rng, ranks(job), start + 1, 1), peers=False
        )

    return story


def join_throw(rng: random.Random, job: Job) -> Script:
    """Join with throw_on_early_termination: the rank out of data says so, the others are told."""
    culprit, start = a_rank(rng, job), draw_time(rng)
    frames = [
        *main_frames(job),
        f"{{dir}}/{job.script}|train_epoch|with model.join(throw_on_early_termination=True):",
        "{site}/torch/distributed/algorithms/join.py|__exit__|self._notify_procs_to_terminate()",
    ]
    says = [raised(job, culprit, start, frames, f"RuntimeError: Rank {culprit} exhausted all inputs.")]
    throw = "RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all ranks."
    says += [
        raised(job, rank, start + rng.uniform(0.05, 0.5), forward_frames(job), throw, -1)
        for rank in others(job, [culprit])
    ]
    return script(
        CATEGORY,
        "uneven_inputs",
        job,
        [culprit],
        says,
        fails_at=start,
        peers=False,
        exits=exits(rng, ranks(job), start + 1, 1),
    )


DONE = (
    "Rank {r}: loader exhausted at batch {n}, leaving epoch {e}",
    "[rank {r}] finished training ({n} steps)",
    "worker {r}: no more batches (seen {n}), waiting for the others",
)


def exhausted(leaves: bool, gloo: bool = False) -> Story:
    """One rank is out of batches while the others still reduce gradients."""

    def story(rng: random.Random, job: Job) -> Script:
        culprit, start = a_rank(rng, job), draw_time(rng)
        rest = others(job, [culprit])
        batches = rng.randint(90, 6000)
        text = rng.choice(DONE).format(e=rng.randint(0, 30), n=batches, r=culprit)
        says = [Say(culprit, start, text, "log", (0,), level="I", names=(culprit,))]
        if gloo:
            call = ("all_reduce", "work.wait()", "dist.all_reduce(param.grad)")
            says += [
                _gloo.failed(rng, job, rank, start + rng.uniform(0.5, 2), call, _gloo.closed_by(rng, job, culprit), -1)
                for rank in rest
            ]
            ends = [Exit(culprit, start + 0.4, 0), *exits(rng, rest, start + 2, 1)]
        else:
            work = draw_work(rng, job, "grad")
            at = start + work.timeout / 1000
            waits = {} if leaves else {culprit: replace(work, op="ALLREDUCE", numel=1, ahead=0)}
            said, ends = wait_out(rng, job, rest if leaves else ranks(job), work, at, behind=waits)
            says += [replace(say, evidence=()) if say.who != culprit and leaves else say for say in said]
            if leaves:
                ends.append(Exit(culprit, start + 2, 0))
        says.append(world_line(rng, job))
        return script(
            CATEGORY,
            "uneven_inputs",
            job,
            [culprit],
            says,
            exits=ends,
            fails_at=start,
            silent=(culprit,) if leaves else (),
            peers=False,
        )

    return story


def preamble(in_thread: bool) -> Story:
    """Gloo meets a message longer than the receiver's buffer: sizes differ between ranks."""

    def story(rng: random.Random, job: Job) -> Script:
        culprit, start = a_rank(rng, job), draw_time(rng)
        small = 4 * rng.choice([128, 1000, 4096])
        root = "/pytorch" if job.torch >= (2, 6) else ".."
        error = (
            f"[enforce fail at {root}/third_party/gloo/gloo/transport/tcp/pair.cc:{rng.choice([446, 510, 525])}] "
            f"op.preamble.length <= op.nbytes. {small + 4 * rng.randint(1, 64)} vs {small}"
        )
        peers = [(culprit + 1) % job.world_size] if job.world_size > 2 else others(job, [culprit])
        call = ("all_reduce", "work.wait()", "dist.all_reduce(x)")
        says = [
            Say(
                culprit,
                start - 0.2,
                f"rank {culprit}: last batch has {rng.randint(1, 15)} samples",
                "log",
                level="W",
                evidence=(0,),
            )
        ]
        for rank in peers:
            if in_thread:
                says.append(
                    Say(
                        rank,
                        start,
                        f"terminate called after throwing an instance of 'gloo::EnforceNotMet'\n  what():  {error}",
                        evidence=(1,),
                    )
                )
            else:
                says.append(_gloo.failed(rng, job, rank, start, call, f"RuntimeError: {error}"))
        rest = others(job, peers)
        says += [
            _gloo.failed(rng, job, rank, start + rng.uniform(0.1, 0.8), call, _gloo.closed_by(rng, job, peers[0]), -1)
            for rank in rest
        ]
        ends = [*exits(rng, peers, start + 0.1, -6 if in_thread else 1, 0.1), *exits(rng, rest, start + 1, 1)]
        return script(CATEGORY, "shape", job, [culprit], says, fails_at=start, exits=ends, peers=False)

    return story


def uneven_check(rng: random.Random, job: Job) -> Script:
    """The program gathers batch counts and finds them unequal."""
    odd, start = a_rank(rng, job), draw_time(rng, 60, 200)
    usual = rng.randint(90, 4000)
    counts = [usual - (rng.randint(1, 9) if rank == odd else 0) for rank in ranks(job)]
    shown = str(counts) if job.world_size <= 16 else f"{{{usual}: all, {counts[odd]}: rank {odd}}}"
    error = rng.choice(
        [
            f"RuntimeError: number of batches differs between ranks: {shown} (rank {odd} has {counts[odd]})",
            f"AssertionError: uneven shards: rank {odd} holds {counts[odd]} batches, others {usual}",
            f"ValueError: dataloader lengths must agree on all ranks, got {shown}; rank {odd} is the odd one",
        ]
    )
    frames = [*main_frames(job)[:2], "{dir}/data.py|check_lengths|raise_if_uneven(lengths)"]
    says = [raised(job, rank, start + rng.uniform(0, 0.3), frames, error) for rank in ranks(job)]
    return script(
        CATEGORY,
        "uneven_inputs",
        job,
        [odd],
        says,
        fails_at=start,
        exits=exits(rng, ranks(job), start + 1, 1),
        peers=False,
    )


SHELF.put("divergence-numel", mismatch("numel", "shape"), NCCL, THREE)
SHELF.put("divergence-optype", mismatch("op", "collective_type"), NCCL, THREE)
SHELF.put("divergence-optype-desync", mismatch("op", "collective_type", report=True), NCCL, THREE, torch_min=["1.13"])
SHELF.put("divergence-rank0-branch", mismatch("rank0", "control_flow"), NCCL, THREE)
for name in ("shape", "op", "dtype", "sequence"):
    SHELF.put(
        f"divergence-fingerprint-{name}",
        fingerprint(name),
        THREE,
        torch_min=["1.10"] if name != "sequence" else ["2.1"],
    )
SHELF.put("divergence-join-throw", join_throw, SEVERAL, torch_min=["1.10"])
SHELF.put("divergence-exhausted-waiting", exhausted(False), NCCL, THREE)
SHELF.put("divergence-exhausted-gone", exhausted(True), NCCL, SEVERAL)
SHELF.put("divergence-exhausted-gloo", exhausted(True, gloo=True), SEVERAL, backend=["gloo"])
SHELF.put("divergence-preamble", preamble(False), SEVERAL, backend=["gloo"])
SHELF.put("divergence-preamble-thread", preamble(True), SEVERAL, backend=["gloo"])
SHELF.put("divergence-uneven-check", uneven_check, THREE)
