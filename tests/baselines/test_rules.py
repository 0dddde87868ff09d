"""The rule baseline on small invented logs."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpclassify.baselines import BASELINES, Answer
from ddpclassify.baselines.rules import predict
from ddpclassify.baselines.table import HARMLESS, SURVIVED, Rule, decide, rules
from ddpclassify.taxonomy import names

TABLE = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-12-01_12:00:00
  host      : node7
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 4711)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================"""

WATCHDOG = (
    "[rank{rank}]:[E1201 12:10:00.123456789 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective"
    " operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001"
)


def traceback(error: str, prefix: str = "", frame: str = "train.py", source: str = "step()") -> list[str]:
    return [
        prefix + "Traceback (most recent call last):",
        f'{prefix}  File "{frame}", line 3, in main',
        f"{prefix}    {source}",
        prefix + error,
    ]


def answer(*parts: str | list[str]) -> Answer:
    lines = [line for part in parts for line in (part.split("\n") if isinstance(part, str) else part)]
    return predict(lines)


def said(of: Answer) -> tuple[str, str, tuple[int, ...]]:
    return of.category, of.scope, of.culprit_ranks


@pytest.mark.parametrize("rule", [rule for rule in rules() if rule.example], ids=lambda r: f"{r.category}-{r.level}")
def test_each_rule_decides_its_example(rule: Rule) -> None:
    assert decide(rule.example) is rule


def test_the_table_speaks_of_all_categories() -> None:
    spoken = {rule.category for rule in rules()}
    assert spoken - {HARMLESS, SURVIVED, "echo"} == set(names()) - {"no_failure"}


@pytest.mark.parametrize(
    "prefix",
    ["[rank{}]: ", "[default{}]:", "{}: ", "[1,{}]<stderr>:", "[RANK {}] ", "\x1b[36m(W pid=7{})\x1b[0m [rank{}]: "],
)
def test_one_rank_by_its_prefix(prefix: str) -> None:
    def of(rank: int) -> str:
        return prefix.replace("{}", str(rank))

    steps = [f"{of(rank)}step 1 loss 0.5" for rank in range(4)]
    got = answer(steps, traceback("NameError: name 'c' is not defined", of(2)))
    assert said(got) == ("code_error", "ranks", (2,))
    assert got.evidence_lines == (8,)


def test_every_rank() -> None:
    got = answer(*(traceback("NameError: name 'c' is not defined", f"[rank{rank}]: ") for rank in range(2)))
    assert said(got) == ("code_error", "all", ())
    assert got.evidence_lines == (4, 8)


def test_one_of_a_stated_world() -> None:
    got = answer("world_size=4", traceback("KeyError: 'label'", "[rank0]: "))
    assert said(got) == ("code_error", "ranks", (0,))


def test_the_launchers_table_names_the_rank() -> None:
    got = answer("world_size: 4", traceback("ValueError: no"), TABLE.format(rank=3, code=1))
    assert said(got) == ("code_error", "ranks", (3,))


def test_exit_status_alone() -> None:
    assert said(answer(TABLE.format(rank=1, code=-9))) == ("host_oom", "ranks", (1,))
    assert said(answer(TABLE.format(rank=1, code=-11))) == ("native_crash", "ranks", (1,))
    assert said(answer(TABLE.format(rank=1, code=-7))) == ("shm_exhausted", "ranks", (1,))


def test_cause_before_the_echoes_of_the_survivors() -> None:
    got = answer(
        traceback("RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.3]:1", "[rank0]: "),
        traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", "[rank1]: "),
        "W1201 12:00:00.1 1 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 1 closing signal",
        TABLE.format(rank=0, code=1),
    )
    assert said(got) == ("cuda_oom", "ranks", (1,))
    assert got.evidence_lines[0] == 8


def test_the_innermost_exception_of_a_chain() -> None:
    got = answer(
        traceback("KeyError: 'weight'", "[rank0]: "),
        "[rank0]: ",
        "[rank0]: During handling of the above exception, another exception occurred:",
        "[rank0]: ",
        traceback("RuntimeError: CUDA error: an illegal memory access was encountered", "[rank0]: "),
    )
    assert got.evidence_lines[0] == 4


def test_a_worker_of_the_loader() -> None:
    got = answer(
        traceback("FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 0.", "[rank1]: "),
        "[rank1]: Original Traceback (most recent call last):",
        '[rank1]:   File "dataset.py", line 3, in __getitem__',
        "[rank1]: FileNotFoundError: [Errno 2] No such file or directory: '/data/a.jpg'",
        "[rank0]: step 3",
    )
    assert said(got) == ("data_error", "ranks", (1,))
    assert got.evidence_lines == (7,)


@pytest.mark.parametrize(
    ("error", "source", "category"),
    [
        ("EOFError: Ran out of input", "x = torch.load(path)", "checkpoint_error"),
        ("EOFError: Ran out of input", "x = pickle.load(cache)", "race_condition"),
        ("RuntimeError: stuff", "return self.collate_fn(batch)", "data_error"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'out/last.ckpt'", "x = open(p)", "checkpoint_error"),
    ],
)
def test_the_traceback_decides(error: str, source: str, category: str) -> None:
    assert answer(traceback(error, "[rank0]: ", source=source)).category == category


def test_the_silent_rank() -> None:
    waiting = [WATCHDOG.format(rank=rank, seq=7, op="ALLREDUCE") for rank in (0, 1, 3)]
    assert said(answer("world_size=4", waiting)) == ("collective_timeout", "ranks", (2,))


def test_the_rank_behind_and_the_rank_elsewhere() -> None:
    waiting = [WATCHDOG.format(rank=rank, seq=7, op="ALLREDUCE") for rank in (0, 1, 3)]
    behind = WATCHDOG.format(rank=2, seq=6, op="ALLREDUCE")
    elsewhere = WATCHDOG.format(rank=2, seq=7, op="BROADCAST")
    assert said(answer(waiting, behind)) == ("collective_timeout", "ranks", (2,))
    assert said(answer(waiting, elsewhere)) == ("rank_divergence", "ranks", (2,))


def test_all_wait_alike() -> None:
    waiting = [WATCHDOG.format(rank=rank, seq=7, op="ALLREDUCE") for rank in range(4)]
    assert said(answer("world_size=4", waiting)) == ("collective_timeout", "all", ())


def test_a_barrier_names_the_rank() -> None:
    got = answer("[rank0]: [Rank 0]: Rank 2 failed to pass monitoredBarrier in 30000 ms", "[rank1]: step 1")
    assert said(got) == ("collective_timeout", "ranks", (2,))


def test_different_models() -> None:
    text = (
        "[rank{}]: RuntimeError: DDP expects same model across all ranks, but Rank {} has 10 params, while rank 0 has"
    )
    got = answer(*(text.format(rank, rank) + " inconsistent 12 params." for rank in (1, 2)))
    assert said(got) == ("rank_divergence", "ranks", (0,))


def test_stops_from_outside() -> None:
    cancelled = "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-12-01T12:00:00 ***"
    died = "srun: error: n1: task 1: Exited with exit code 1"
    assert said(answer(cancelled)) == ("preempted", "launcher", ())
    assert answer(traceback("ValueError: no", "1: "), died, cancelled).category == "code_error"


def test_spawned_process() -> None:
    got = answer("-- Process 1 terminated with the following error:", traceback("ValueError: no"))
    assert said(got) == ("code_error", "ranks", (1,))


def test_survived_errors() -> None:
    logged = ["epoch 1 step 10 loss 1.0", "ERROR train: batch failed", *traceback("ValueError: no")]
    after = [f"epoch 1 step {step} loss 0.9" for step in range(11, 20)]
    assert said(predict([*logged, *after, "training complete"])) == ("no_failure", "none", ())
    got = predict([*logged, *after, *traceback("IndexError: list index out of range")])
    assert got.evidence_lines == (19,)


def test_the_last_attempt() -> None:
    restart = "[default] Worker group FAILED. 1/2 attempts left; will restart worker group"
    first, last = traceback("torch.OutOfMemoryError: CUDA out of memory."), traceback("NameError: name 'c'")
    assert predict([*first, restart, *last]).category == "code_error"
    assert predict([*first, restart, "step 1 loss 1", "training complete"]).category == "no_failure"


def test_nothing_but_the_launchers_word() -> None:
    got = answer("subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1.")
    assert said(got) == ("code_error", "unknown", ())
    assert got.confidence < 0.5


def test_no_failure() -> None:
    got = answer("step 1 loss 1.0", "train.py:3: UserWarning: error: slow", "Training complete")
    assert got == Answer("no_failure", "none", confidence=0.9)
    assert predict([]).category == "no_failure"


@given(st.lists(st.text(max_size=80), max_size=20))
@settings(max_examples=60, deadline=None)
def test_any_text_gets_an_answer(lines: list[str]) -> None:
    for baseline in BASELINES.values():
        got = baseline(lines)
        assert 0 <= got.confidence <= 1
        assert all(1 <= number <= len(lines) for number in got.evidence_lines)
        assert (got.scope == "ranks") == bool(got.culprit_ranks)


@pytest.mark.parametrize(
    "line",
    [
        "Error" * 40_000,
        "a" * 200_000,
        "error: " + "." * 200_000,
        "[" * 200_000,
        "rank 1 " * 30_000,
        "\r" * 100_000 + "x",
        "No module named " * 9_000,
        "a.b" * 60_000 + "Error",
        "checkpoint " * 20_000,
        "NCCL" + " " * 200_000,
        "1" * 100_000,
        "world_size=" + "9" * 5_000,
        "[rank" + "9" * 3_000 + "]: x",
        "srun: error: n: tasks 0-999999999: Killed",
    ],
    ids=lambda line: line[:12],
)
def test_hostile_lines_take_no_time(line: str) -> None:
    start = time.process_time()
    for baseline in BASELINES.values():
        baseline([line] * 3)
    assert time.process_time() - start < 2
