"""A failure's place in the story: what tells a cause from its consequences apart from the words."""

from __future__ import annotations

import math

from ddpclassify.features.view import View
from ddpclassify.types import Folded

Features = dict[str, float]

_LAUNCHER_FILES = (
    "torch/distributed/run.py",
    "distributed/launch.py",
    "launcher/api.py",
    "commands/launch.py",
    "elastic/",
    "launcher/runner.py",
    "launcher/launch.py",
)
_RAISED = 32  # tracebacks that are compared with each failure
_QUIET = ("teardown", "info")


def failure_features(folded: Folded, seen: View) -> list[Features]:
    """Return the structural features of every failure of a log, in order."""
    failures = folded.failures
    own = [f for f in failures if f.role_hint not in ("echo", "teardown", "info") and f.kind != "error_line"]
    tracebacks = [f for f in failures if f.kind in ("traceback", "exception")]
    raised = [
        (f, set(f.ranks)) for f in tracebacks if f.ranks and f.role_hint not in ("echo", *_QUIET) and not f.recovered
    ][:_RAISED]
    timed = sorted(f.first_time for f in own if f.first_time is not None)
    silent = seen.silent
    n_lines = max(folded.events.log.n_lines, 1)
    out = []
    before_own = before_cause = 0
    for index, failure in enumerate(failures):
        line = failure.first.line.number
        event = failure.first
        role = failure.role_hint or "none"
        statement = event.fields.get("statement", failure.kind)
        x: Features = {
            "bias": 1.0,
            f"role={role}": 1.0,
            f"kind={failure.kind}": 1.0,
            f"is={statement}": 1.0,
            f"chained={event.chained or 'no'}": 1.0,
        }
        x[f"role={role}&own before={min(before_own, 3)}"] = 1.0
        x[f"kind={failure.kind}&own before={min(before_own, 3)}"] = 1.0
        x[f"cause rows before={min(before_cause, 3)}"] = 1.0
        x[f"index={min(index, 6)}"] = 1.0
        x["late"] = line / n_lines
        x["after teardown"] = float(line > seen.teardown_line)
        x[f"role={role}&after teardown={line > seen.teardown_line}"] = 1.0
        x["recovered"] = float(failure.recovered)
        x["earlier attempt"] = float(failure.earlier)
        x[f"kind={failure.kind}&recovered={failure.recovered}"] = 1.0
        x["log count"] = math.log1p(failure.count)
        x["ranks known"] = float(bool(failure.ranks))
        if seen.world:
            share = max(len(failure.ranks), min(failure.count, seen.world)) / seen.world
            x["share of ranks"] = share
            x["every rank"] = float(share >= 1)
            x["one rank"] = float(len(failure.ranks) == 1 and seen.world > 1)
            x["all but one"] = float(len(failure.ranks) == seen.world - 1 and seen.world > 2)
            x[f"role={role}&all but one"] = x["all but one"]
        if failure.first_time is not None and timed:
            x["earliest"] = float(failure.first_time <= timed[0])
            x["log seconds after first"] = math.log1p(max(0.0, min(failure.first_time - timed[0], 1e6)))
        mine = set(failure.ranks)
        # Who waits for a rank that raised is not the cause; who raised and is waited for may be.
        elsewhere = bool(mine) and any(f is not failure and not ranks & mine for f, ranks in raised)
        x["others raised"] = float(elsewhere)
        x[f"role={role}&others raised"] = float(elsewhere)
        x[f"is={statement}&others raised"] = float(elsewhere)
        x["others wait for its ranks"] = float(bool(mine) and mine <= silent)
        x["has frames"] = float(bool(event.frames))
        if event.frames:
            x["innermost is user's"] = float(event.frames[-1].user)
            x["any user frame"] = float(any(f.user for f in event.frames))
            x["launcher frames"] = float(
                any(word in f.path.replace("\\", "/") for f in event.frames for word in _LAUNCHER_FILES)
            )
        x["only traceback"] = float(len(tracebacks) == 1 and failure in tracebacks)
        x["no traceback in log"] = float(not tracebacks)
        x[f"no traceback&is={statement}"] = float(not tracebacks)
        x[f"level={event.line.level[:1] or 'none'}"] = 1.0
        if "code" in event.fields or "signal" in event.fields:
            mark = event.fields.get("code") or event.fields.get("signal", "")
            x[f"code={mark}"] = 1.0
            x[f"code={mark}&own={min(len(own), 2)}"] = 1.0
            x["root exit"] = float(any(e.root and e.line in range(line - 3, line + 4) for e in seen.exits.values()))
        if failure.ranks and seen.exits:
            codes = {seen.exits[r].code for r in failure.ranks if r in seen.exits}
            x["of a rank that the launcher names first"] = float(
                any(r in seen.exits and seen.exits[r].root for r in failure.ranks)
            )
            x["of a victim"] = float(bool(codes) and codes <= {-15})
        x["last own"] = float(bool(own) and failure is own[-1])
        x["first own"] = float(bool(own) and failure is own[0])
        x[f"role={role}&first own"] = x["first own"]
        out.append({k: v for k, v in x.items() if v})
        if failure in own and not failure.recovered and not failure.earlier:
            before_own += 1
            before_cause += role == "cause"
    return out
