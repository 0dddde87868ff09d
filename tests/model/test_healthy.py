"""A known good run: what it shows as well counts less, and hides nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ddpclassify import InputError, load_model
from ddpclassify.api import Model

CASE = Path(__file__).parents[1] / "cases" / "oom-one-of-eight-then-watchdogs.log"
STEPS = [f"[rank{r}]: step {s} loss 0.{s}" for s in range(1, 9) for r in range(4)]


def traceback(rank: int, function: str, exception: str) -> list[str]:
    head = f"[rank{rank}]: "
    call = f'  File "/w/train.py", line 7, in {function}'
    return [head + "Traceback (most recent call last):", head + call, f"{head}    {function}()", head + exception]


NOISE = ["[rank2]: WARNING: upload failed", *traceback(2, "upload", "botocore.exceptions.EndpointConnectionError: no")]
CAUSE = traceback(1, "step", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.50 GiB")
ENDING = [
    "torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: 1) local_rank: 1 (pid: 41) of binary: /p",
]
BAD = ["WORLD_SIZE=4", *STEPS, *NOISE, *CAUSE, *ENDING]
GOOD = [*STEPS, *NOISE, *STEPS, "Training complete"]


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model()


def test_what_a_good_run_shows_too_is_listed_but_not_asked(model: Model) -> None:
    found = model.diagnose(BAD, healthy=[model.good_run(GOOD)])
    seen = {f["exception"]: f["seen_in_healthy"] for f in found.failures if f["exception"]}
    assert seen == {"botocore.exceptions.EndpointConnectionError": True, "torch.OutOfMemoryError": False}
    (set_apart,) = (f for f in found.failures if f["exception"] and f["seen_in_healthy"])
    assert (set_apart["role"], set_apart["score"]) == ("consequence", 0.0)
    assert (found.category, found.culprit_ranks) == ("cuda_oom", [1])
    alone = model.diagnose([line for line in BAD if line not in NOISE])
    assert found.confidence == pytest.approx(alone.confidence, abs=0.1)
    assert found.confidence >= model.diagnose(BAD).confidence


def test_without_a_good_run_nothing_is_told_of_it(model: Model) -> None:
    assert {f["seen_in_healthy"] for f in model.diagnose(BAD).failures} == {None}


def test_a_cause_that_a_good_run_survived_stays_the_cause(model: Model) -> None:
    good = model.good_run([*STEPS, *CAUSE, *NOISE, *STEPS, "Training complete"])
    found = model.diagnose(BAD, healthy=[good])
    assert (found.category, found.culprit_ranks) == ("cuda_oom", [1])
    assert next(f for f in found.failures if f["role"] == "cause")["seen_in_healthy"]


def test_the_log_itself_as_its_good_run_changes_nothing(model: Model, tmp_path: Path) -> None:
    copy = tmp_path / "good.log"
    copy.write_bytes(CASE.read_bytes())
    plain, found = model.diagnose(CASE), model.diagnose(CASE, healthy=[copy])
    assert not any(f["seen_in_healthy"] for f in found.failures)
    assert [found.category, found.confidence, found.evidence] == [plain.category, plain.confidence, plain.evidence]
    run = model.good_run(copy)
    assert run.category == "cuda_oom"
    assert run.is_same_log(model.explain(CASE)[0])
    assert not run.is_same_log(model.explain(BAD)[0])


def test_a_failed_run_by_mistake_hides_nothing(model: Model, tmp_path: Path) -> None:
    """Where a good run shows all that the log shows, it tells nothing."""
    failed = tmp_path / "failed.log"
    failed.write_text(CASE.read_text().replace("step 200", "step 100"))
    plain, found = model.diagnose(CASE), model.diagnose(CASE, healthy=[failed])
    assert all(f["seen_in_healthy"] for f in found.failures)
    assert [found.category, found.confidence, found.evidence] == [plain.category, plain.confidence, plain.evidence]


def test_a_log_that_shows_only_what_good_runs_show_and_ends_well_is_well(model: Model) -> None:
    good = model.good_run([*STEPS, *CAUSE, *STEPS, "Training complete"])
    assert good.category == "no_failure"
    late = [*STEPS * 6, "Training complete", *CAUSE * 4]
    folded, found = model.explain(late, healthy=[good])
    assert (len(folded.failures), len(folded.apart)) == (0, 1)
    assert (found.category, found.scope, found.evidence) == ("no_failure", "none", [])
    assert found.confidence > 0.8
    doubtful = replace(good, category="cuda_oom")
    assert not model.explain(late, healthy=[doubtful])[0].apart


def test_a_log_that_breaks_off_with_what_a_good_run_survived_is_a_failure(model: Model) -> None:
    good = model.good_run([*STEPS, *CAUSE, *STEPS, "Training complete"])
    found = model.diagnose([*STEPS, *CAUSE], healthy=[good])
    assert [(f["role"], f["seen_in_healthy"]) for f in found.failures] == [("cause", True)]
    assert (found.category, found.culprit_ranks) == ("cuda_oom", [1])


def test_names_of_secrets_are_compared_masked(model: Model) -> None:
    def lines(secret: str) -> list[str]:
        return [f"ERROR: login with password={secret} refused", *STEPS, "Training complete"]

    good = model.good_run([*lines("hunter1"), "bye"], redact=True)
    assert "hunter" not in str(good)
    found = model.diagnose(lines("hunter2"), redact=True, healthy=[good])
    assert [f["seen_in_healthy"] for f in found.failures] == [True]


def test_several_good_runs_and_empty_logs(model: Model, tmp_path: Path) -> None:
    good = tmp_path / "good.log"
    good.write_text("\n".join(GOOD))
    empty = tmp_path / "empty.log"
    empty.touch()
    assert model.diagnose([], healthy=[good]).failures == []
    once, twice = model.diagnose(BAD, healthy=[good]), model.diagnose(BAD, healthy=[empty, good])
    assert once.to_dict() == twice.to_dict()
    with pytest.raises(InputError, match="No such file"):
        model.diagnose(BAD, healthy=[tmp_path / "missing.log"])


def test_the_explanation_is_of_what_was_asked(model: Model) -> None:
    found = model.diagnose(BAD, healthy=[model.good_run(GOOD)], explain=True)
    assert found.explanation is not None
    assert found.explanation["cause"]["answer"] in {f["signature"] for f in found.failures if f["role"] == "cause"}
