"""What is no failed training job, such as what other programs write, gets no confident failure."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ddpclassify import diagnose

_R = random.Random(7)


def _repeat(count: int, *lines: str) -> str:
    """Lines drawn in turn; {n} is the line's number, {m} two digits of it, {r} a random number."""
    return "".join(
        lines[n % len(lines)].format(n=n, m=f"{n % 60:02d}", r=_R.randrange(255)) + "\n" for n in range(count)
    )


NOVEL = (
    "It was the best of evenings, and the lamps along the quay had only just been lit.",
    "Marta closed the ledger. Nobody had paid; nobody would.",
    '"You will fail," said the captain, "as your father failed, and the sea will not care."',
    "She waited. The clock ran out of patience before she did.",
    "In the morning the ferry was gone, and with it the last of the mail.",
)
TEXTS: dict[str, Callable[[], str]] = {
    "empty": lambda: "",
    "one newline": lambda: "\n",
    "novel": lambda: _repeat(150, *NOVEL),
    "web server": lambda: _repeat(
        400,
        '10.0.3.{r} - - [02/Dec/2026:12:{m}:{m} +0000] "GET /api/v1/items/{n} HTTP/1.1" 200 {r} "-" "curl/8.5"',
        '10.0.3.{r} - - [02/Dec/2026:12:{m}:{m} +0000] "POST /login HTTP/1.1" 502 {r} "-" "Mozilla/5.0"',
    ),
    "compiler": lambda: _repeat(
        100,
        "[{n}%] Building CXX object src/CMakeFiles/core.dir/part{n}.cpp.o",
        "src/part{n}.cpp:31:9: warning: unused variable 'n'",
    ),
    "unit tests": lambda: (
        "===== test session starts =====\ncollected 31 items\n\ntests/test_a.py ......F.... [ 35%]\n\n=== FAILURES"
        " ===\n"
        "____ test_sum ____\n    def test_sum():\n>       assert add(1, 2) == 4\nE       assert 3 == 4\n"
        "tests/test_a.py:9: AssertionError\n==== 1 failed, 30 passed in 0.31s ====\n"
    ),
    "ssh daemon": lambda: _repeat(
        120, "Dec 02 12:{m}:11 host7 sshd[9{n}]: Failed password for invalid user admin from 203.0.113.{r} port 4{n}"
    ),
    "database": lambda: _repeat(
        90,
        "2026-12-02 10:{m}:03.1 UTC [41{n}] LOG:  checkpoint starting: time",
        '2026-12-02 10:{m}:03.1 UTC [41{n}] ERROR:  duplicate key value violates unique constraint "users_pkey"',
        '2026-12-02 10:{m}:03.1 UTC [41{n}] FATAL:  password authentication failed for user "app"',
    ),
    "package manager": lambda: (
        "npm WARN deprecated inflight@1.0.6: This module is not supported\nnpm ERR! code ERESOLVE\n"
        "npm ERR! ERESOLVE unable to resolve dependency tree\nnpm ERR! Found: react@18.2.0\n"
    ),
    "java": lambda: (
        "2026-12-02 11:00:00 INFO  [main] o.s.b.SpringApplication - Starting\n"
        'Exception in thread "main" java.lang.NullPointerException: Cannot invoke "String.length()"\n'
        "\tat com.acme.App.run(App.java:31)\n\tat com.acme.App.main(App.java:9)\n"
    ),
    "controller": lambda: _repeat(
        200, 'I1202 11:{m}:00.1 1 controller.go:{n}] "Reconciled" deployment="web-{r}" duration="12ms"'
    ),
    "table": lambda: "id,name,score\n" + _repeat(300, "{n},user{r},0.{r}"),
    "bytes": lambda: "".join(chr(_R.randrange(256)) for _ in range(20_000)),
    "healthy single process": lambda: (
        _repeat(150, "epoch 1 step {n} loss 0.{r}") + "saved final model to out/model.pt\ntraining finished\n"
    ),
    "healthy, cut": lambda: _repeat(150, "epoch 1 step {n} loss 0.{r}"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_other_programs_logs_get_no_confident_failure(name: str) -> None:
    found = diagnose(TEXTS[name]().splitlines(keepends=True))
    assert found.category in ("unknown", "no_failure") or found.confidence < 0.5, (found.category, found.confidence)
