"""Ranks hold other parameters, or use other parts of the model."""

from __future__ import annotations

import random
from dataclasses import replace

from ..script import Exit, Job, Script
from ._common import (
    SEVERAL,
    THREE,
    Shelf,
    backward_frames,
    draw_time,
    exits,
    forward_frames,
    main_frames,
    others,
    raised,
    ranks,
    script,
    some_ranks,
)
from ._stuck import Story

SHELF = Shelf("rank_divergence")
SCENARIOS, NEEDS = SHELF.scenarios, SHELF.needs
CATEGORY = SHELF.category


WRAP = [
    "{dir}/build.py|build_model|model = DDP(model, device_ids=[local_rank])",
    "{site}/torch/nn/parallel/distributed.py|__init__|_verify_param_shape_across_processes(self.process_group, "
    "parameters)",
    "{site}/torch/distributed/utils.py|_verify_param_shape_across_processes|return "
    "dist._verify_params_across_processes("
    "process_group, tensors, logger)",
]


def ddp_init(kind: str) -> Story:
    """DDP's check at construction: shapes against rank 0, or the number of parameters."""

    def story(rng: random.Random, job: Job) -> Script:
        odd = 0 if kind == "rank0" else rng.randrange(1, job.world_size)
        start = draw_time(rng, 20, 120)
        frames = [*main_frames(job)[:2], *WRAP]
        says = []
        reporters = others(job, [0]) if kind == "rank0" else [odd]
        index, count = rng.randint(0, 60), rng.randint(60, 500)
        sizes, old = [rng.choice([64, 256, 1000]), rng.choice([512, 768])], job.torch < (1, 10)
        for rank in reporters:
            what = f"replicas[0][{index}]" if old else f"params[{index}]"
            if kind == "count":
                error = (
                    f"DDP expects same model across all ranks, but Rank {rank} has {count} params, while rank 0 has "
                    f"inconsistent {count - rng.randint(1, 8)} params."
                )
            elif kind == "strides":
                error = (
                    f"{what} in this process with strides [{sizes[1]}, 1] appears not to match strides of the same "
                    "param in process 0."
                )
            else:
                head = "" if old else f"[{rank}]: "
                error = (
                    f"{head}{what} in this process with sizes {sizes} appears not to match sizes of the same param in "
                    "process 0."
                )
            say = raised(job, rank, start + rng.uniform(0, 0.3), frames, f"RuntimeError: {error}")
            # `[3]: params[…]` names the reporter; who is odd follows from who reports.
            says.append(replace(say, names=(odd,)) if error.startswith(("[", "DDP")) else say)
        return script(
            CATEGORY,
            "model_mismatch",
            job,
            [odd],
            says,
            start=start + 1,
            fails_at=start + 1,
            exits=exits(rng, reporters, start + 1, 1),
            no_culprit_mark="" if kind == "rank0" else "unknown",
        )

    return story


UNUSED = (
    "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error "
    "indicates that your module has parameters that were not used in producing loss. "
)
HINT = (
    "You can enable unused parameter detection by passing the keyword argument `find_unused_parameters=True` to "
    "`torch.nn.parallel.DistributedDataParallel`, and by "
)
HINT_FOUND = (
    "Since `find_unused_parameters=True` is enabled, this likely  means that not all `forward` outputs participate in "
    "computing loss. You can fix this by "
)
HINT_STATIC = (
    "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error "
    "indicates that your training graph has changed in this iteration, e.g., one parameter is used in first iteration,"
    " but then got unused in the second iteration. this is not compatible with static_graph set to True."
)
OUTPUTS = "making sure all `forward` function outputs participate in calculating loss. "
OUTPUTS_2 = (
    "If you already have done the above, then the distributed data parallel module wasn't able to locate the output "
    "tensors in the return value of your module's `forward` function. Please include the loss function and the "
    "structure of the return value of `forward` of your module when reporting this issue (e.g. list, dict, iterable)."
)
DEBUG_HINT = (
    " In addition, you can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to print out "
    "information about which particular parameters did not receive gradient on this rank as part of this error"
)


def unused(who: str, variant: str = "") -> Story:
    def story(rng: random.Random, job: Job) -> Script:
        those = list(ranks(job)) if who == "all" else some_ranks(rng, job)
        start = draw_time(rng, 60, 1500)
        first = rng.randint(0, 200)
        indices = range(first, first + rng.randint(1, 12))
        says = []
        for rank in those:
            lines = (
                [HINT_STATIC]
                if variant == "static"
                else [UNUSED + (HINT_FOUND if variant == "found" else HINT), OUTPUTS + OUTPUTS_2]
            )
            mark = [0]
            if job.torch >= (1, 9):
                if variant == "names":
                    names = ", ".join(f"module.aux_head.{i}.weight" for i in indices)
                    lines.append(f"Parameters which did not receive grad for rank {rank}: {names}")
                lines.append(
                    f"Parameter indices which did not receive grad for rank {rank}: {' '.join(map(str, indices))}"
                )
                mark = [0, *range(2, len(lines))]
                if variant != "names":
                    lines.append(DEBUG_HINT)
            says.append(raised(job, rank, start + rng.uniform(0, 0.4), forward_frames(job), "\n".join(lines), *mark))
        return script(
            CATEGORY,
            "unused_parameters",
            job,
            those,
            says,
            fails_at=start,
            exits=exits(rng, those, start + 1, 1),
            no_culprit_mark="" if job.torch >= (1, 9) else "unknown",
        )

    return story


TWICE = (
    "RuntimeError: Expected to mark a variable ready only once. This error is caused by one of the following reasons: "
    "1) Use of a module parameter outside the `forward` function. Please make sure model parameters are not shared "
    "across multiple concurrent forward-backward passes. or try to use _set_static_graph() as a workaround if this "
    "module graph does not change during training loop.2) Reused parameters in multiple reentrant backward passes. "
    "For example, if you use multiple `checkpoint` functions to wrap the same part of your model, it would result in "
    "the same set of parameters been used by different reentrant backward passes multiple times, and hence marking a "
    "variable ready multiple times. DDP does not support such use cases in default. You can try to use "
    "_set_static_graph() as a workaround if your module graph does not change over iterations."
)


def twice(rng: random.Random, job: Job) -> Script:
    start, index = draw_time(rng, 60, 300), rng.randint(3, 400)
    name = rng.choice(["", f" with name .module.encoder.layers.{rng.randint(0, 23)}.attn.proj.weight"])
    second = (
        f"Parameter at index {index}{name} has been marked as ready twice. This means that multiple autograd engine  "
        "hooks have fired for this particular parameter during this iteration."
    )
    if not name:
        second += (
            " You can set the environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL to print "
            "parameter names for further debugging."
        )
    error = TWICE if job.torch < (1, 9) else f"{TWICE}\n{second}"
    mark = (0,) if job.torch < (1, 9) else (0, 1)
    says = [raised(job, rank, start + rng.uniform(0, 0.4), backward_frames(job), error, *mark) for rank in ranks(job)]
    return script(
        CATEGORY, "unused_parameters", job, "all", says, fails_at=start, exits=exits(rng, ranks(job), start + 1, 1)
    )


def disagreement(rng: random.Random, job: Job) -> Script:
    """ZeRO compares its module trace with rank 0's."""
    culprit, start = rng.randrange(1, job.world_size), draw_time(rng, 60, 600)
    trace = [rng.randint(0, 400) for _ in range(8)]
    odd = [*trace[:5], *(n + 2 for n in trace[5:])]
    error = f"RuntimeError: disagreement between rank0 and rank{culprit}: rank0: {trace}, rank{culprit}: {odd}"
    frames = [
        *main_frames(job),
        "{dir}/engine.py|step|loss = engine(batch)",
        "{site}/deepspeed/runtime/zero/partitioned_param_coordinator.py|record_parameters|"
        "assert_ints_same_as_other_ranks([m.ds_id for m in self.__submodule_order])",
        "{site}/deepspeed/runtime/zero/utils.py|assert_ints_same_as_other_ranks|raise RuntimeError(msg)",
    ]
    says = [raised(job, culprit, start, frames, error)]
    return script(CATEGORY, "control_flow", job, [culprit], says, fails_at=start, exits=[Exit(culprit, start + 1, 1)])


def param_hash(rng: random.Random, job: Job) -> Script:
    """A checksum of the weights differs on one rank after some steps."""
    odd, start = rng.randrange(1, job.world_size), draw_time(rng)
    step = rng.randint(100, 20000)
    text = rng.choice(
        [
            f"parameters out of sync at step {step}: rank {odd} norm={rng.uniform(90, 99):.6f}, rank 0 "
            f"norm={rng.uniform(80, 89):.6f}",
            f"replica check failed (step {step}): checksum of rank {odd} {rng.getrandbits(32):08x} != "
            f"{rng.getrandbits(32):08x}",
        ]
    )
    frames = [*main_frames(job), "{dir}/sync.py|check_replicas|raise RuntimeError(text)"]
    says = [raised(job, 0, start, frames, f"RuntimeError: {text}")]
    return script(CATEGORY, "model_mismatch", job, [odd], says, fails_at=start, exits=[Exit(0, start + 1, 1)])


SHELF.put("divergence-verify-shape", ddp_init("shape"), SEVERAL)
SHELF.put("divergence-verify-rank0", ddp_init("rank0"), THREE)
SHELF.put("divergence-verify-strides", ddp_init("strides"), SEVERAL)
SHELF.put("divergence-param-count", ddp_init("count"), SEVERAL, torch_min=["1.10"])
SHELF.put("divergence-unused-all", unused("all"), SEVERAL)
SHELF.put("divergence-unused-some", unused("some"), THREE)
SHELF.put("divergence-unused-names", unused("all", "names"), SEVERAL, torch_min=["1.9"])
SHELF.put("divergence-unused-found", unused("some", "found"), THREE)
SHELF.put("divergence-unused-static", unused("all", "static"), SEVERAL, torch_min=["1.11"])
SHELF.put("divergence-marked-twice", twice, SEVERAL)
SHELF.put("divergence-zero-trace", disagreement, SEVERAL, torch_min=["1.10"])
SHELF.put("divergence-param-hash", param_hash, SEVERAL)
