"""From a folder of logs to results, again and again."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from fleet_rows import CASES, fleet, logs, results, row


def test_every_log_once_and_the_second_run_reads_what_is_new_or_has_changed(tmp_path: Path) -> None:
    folder, out = logs(tmp_path / "logs", 7), tmp_path / "out"
    first = fleet(folder, "-o", out, "-j", 1, "--part", 3)
    assert (first.returncode, [len(p.read_text().splitlines()) for p in sorted(out.glob("part-*"))]) == (0, [3, 3, 1])
    assert [r["source"] for r in results(out)] == [str(folder / f"job{n}.log") for n in range(7)]
    assert not list(out.glob(".*"))

    with (folder / "job2.log").open("ab") as file:
        file.write(b"more\n")
    (folder / "job9.log").write_bytes(b"ValueError: x\n")
    second = fleet(folder, "-o", out, "-j", 1)
    assert b"2 diagnosed, 6 unchanged, 0 unreadable" in second.stderr
    assert [r["source"] for r in results(out)[7:]] == [str(folder / "job2.log"), str(folder / "job9.log")]
    assert json.loads(fleet("--summary", out, "--json").stdout)["logs"] == 8


def test_a_log_named_in_two_ways_is_one(tmp_path: Path) -> None:
    folder, out = logs(tmp_path / "logs", 2), tmp_path / "out"
    names = f"{folder}/./job0.log\n{folder}//job1.log\r\n\n{folder / 'job0.log'}".encode()
    fleet("-", f"{folder}/./*.log", "-o", out, "-j", 1, data=names)
    assert [r["source"] for r in results(out)] == [str(folder / f"job{n}.log") for n in range(2)]


def test_content_counts_where_times_lie(tmp_path: Path) -> None:
    folder, out = logs(tmp_path / "logs", 2), tmp_path / "out"
    fleet(folder, "-o", out, "-j", 1, "--content")
    os.utime(folder / "job0.log", (1, 1))
    assert b"0 diagnosed, 2 unchanged" in fleet(folder, "-o", out, "-j", 1, "--content").stderr


def test_the_parts_are_the_truth_and_the_index_is_made_anew(tmp_path: Path) -> None:
    folder, out = logs(tmp_path / "logs", 3), tmp_path / "out"
    fleet(folder, "-o", out, "-j", 1)
    before = fleet("--summary", out, "--json").stdout
    (out / "fleet.db").unlink()
    assert b"0 diagnosed, 3 unchanged" in fleet(folder, "-o", out, "-j", 1).stderr
    assert fleet("--summary", out, "--json").stdout == before


def test_unreadable_logs_are_noted_once_and_passed_over(tmp_path: Path) -> None:
    folder, out = logs(tmp_path / "logs", 2), tmp_path / "out"
    (folder / "bad.log").write_bytes(b"\x1f\x8bnot gzip at all")
    names = "\n".join([str(folder / "job0.log"), str(folder / "bad.log"), str(tmp_path / "gone.log")]).encode()
    for _ in range(2):
        done = fleet("-", "-o", out, "-j", 1, data=names)
        assert (done.returncode, b"2 unreadable" in done.stderr) == (1, True)
    assert ["error" in r for r in results(out)] == [False, True, True]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_no_log_and_nobody_waits_for_its_end(tmp_path: Path) -> None:
    folder, out = logs(tmp_path / "logs", 2), tmp_path / "out"
    os.mkfifo(folder / "pipe.log")
    assert fleet(folder, "-o", out, "-j", 1).returncode == 0
    assert b"1 unreadable" in fleet(folder / "*.log", "-o", out, "-j", 1).stderr
    assert "not a file" in results(out)[2]["error"]


def test_patterns_lists_and_folders_of_ranks(tmp_path: Path) -> None:
    folder, out = logs(tmp_path / "logs", 12), tmp_path / "out"
    (folder / "job20").mkdir()
    (folder / "job20" / "rank0.log").write_bytes(b"ValueError: x\n")
    fleet(folder / "job1*.log", folder / "job20", folder / "job1.log", "-o", out, "-j", 1)
    assert [Path(r["source"]).name for r in results(out)] == ["job1.log", "job10.log", "job11.log", "job20"]


def test_same_results_whatever_the_number_of_processes(tmp_path: Path) -> None:
    folder = logs(tmp_path / "logs", 40)
    for jobs in (1, 2):
        assert fleet(folder, "-o", tmp_path / str(jobs), "-j", jobs).returncode == 0
    one, two = ((tmp_path / jobs / "part-000001.jsonl").read_bytes() for jobs in "12")
    assert one == two


def test_one_line_for_a_mistake(tmp_path: Path) -> None:
    folder, out = logs(tmp_path / "logs", 1), tmp_path / "out"
    for args, status in (
        ([folder / "none*", "-o", out], 1),
        (["--summary", folder], 1),
        ([folder, "-o", out, "--scheduler", "tcp://127.0.0.1:1"], 1),
    ):
        done = fleet(*args)
        assert (done.returncode, len(done.stderr.splitlines())) == (status, 1)
    assert fleet(folder).returncode == 2


def test_two_writers_in_one_folder_are_one_too_many(tmp_path: Path) -> None:
    folder, out = logs(tmp_path / "logs", 1), tmp_path / "out"
    out.mkdir()
    lock = sqlite3.connect(out / "fleet.lock", isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    assert b"another run writes there" in fleet(folder, "-o", out).stderr
    lock.close()
    assert fleet(folder, "-o", out, "-j", 1).returncode == 0


def test_a_damaged_part_is_named(tmp_path: Path) -> None:
    (tmp_path / "part-000001.jsonl").write_text(row("a.log", "cuda_oom", "resource") + "\n{half\n")
    assert f"{tmp_path / 'part-000001.jsonl'}:2" in fleet("--summary", tmp_path).stderr.decode()


def test_parquet_beside_each_part(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    fleet(logs(tmp_path / "logs", 3), tmp_path / "gone.log", "-o", tmp_path / "out", "-j", 1, "--parquet")
    table = parquet.read_table(tmp_path / "out" / "part-000001.parquet").to_pylist()
    assert [(r["category"], r["culprit_ranks"]) for r in table] == [
        (r.get("category"), r.get("culprit_ranks")) for r in results(tmp_path / "out")
    ]


def test_urls_through_fsspec(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    folder, out = logs(tmp_path / "logs", 3), tmp_path / "out"
    urls = (f"{folder.as_uri()}/job*.log", f"{folder.as_uri()}/gone.log")
    done = fleet(*urls, "-o", out, "-j", 1)
    assert b"3 diagnosed, 0 unchanged, 1 unreadable" in done.stderr
    assert results(out)[0]["source"] == f"{folder.as_uri()}/job0.log"
    assert b"0 diagnosed, 3 unchanged, 1 unreadable" in fleet(*urls, "-o", out, "-j", 1).stderr
    assert len(results(out)) == 4


def test_summary_page_and_metrics_are_escaped(tmp_path: Path) -> None:
    evil: dict[str, Any] = {
        "issue": "v1-1",
        "title": "<script>x</script>\x1b[2J",
        "why": {},
        "host": 'a"b\\<i>',
        "hosts": ["h"],
    }
    (tmp_path / "part-000001.jsonl").write_text(row("a.log", "cuda_oom", "resource", **evil) + "\n")
    page, metrics = tmp_path / "p.html", tmp_path / "m.prom"
    assert fleet("--summary", tmp_path, "--html", page, "--metrics", metrics).stdout == b""
    assert "<script" not in page.read_text("utf-8")
    assert "&lt;script&gt;" in page.read_text("utf-8")
    assert 'ddpclassify_culprit_jobs{host="a\\"b\\\\<i>"} 1' in metrics.read_text()
    assert b"\x1b" not in fleet("--summary", tmp_path).stdout


def test_what_is_new_since_a_date(tmp_path: Path) -> None:
    rows = [
        row(f"{n}.log", "cuda_oom", "resource", seen=f"2026-11-{n:02}T00:00:00", issue=f"v1-{n % 2}", title="t", why={})
        for n in (1, 2, 3, 5)
    ]
    (tmp_path / "part-000001.jsonl").write_text("\n".join(rows) + "\n")
    found = json.loads(fleet("--summary", tmp_path, "--json", "--since", "2026-11-02").stdout)
    assert {i["signature"]: (i["jobs"], i["new"], i["first_seen"][:10]) for i in found["issues"]} == {
        "v1-1": (3, False, "2026-11-01"),
        "v1-0": (1, True, "2026-11-02"),
    }


def test_restart_codes_for_schedulers() -> None:
    import subprocess
    import sys

    def code(*args: str) -> int:
        command = [sys.executable, "-m", "ddpclassify", "predict", "-q", *args]
        return subprocess.run(command, capture_output=True).returncode

    oom = str(CASES / "oom-one-of-eight-then-watchdogs.log")
    assert code("--restart-code", oom) == 12
    assert code("--restart-code", "--sure", "1", oom) == 10
    assert code("--exit-code", oom) == 10
