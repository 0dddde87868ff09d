"""`ddpclassify split`: the parts of a log hold all of it, whatever it holds."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddpclassify.split import REST, split

CASES = sorted((Path(__file__).parent.parent / "cases").glob("*.log"))


def run(*args: str, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "ddpclassify", "split", *args], input=data, capture_output=True)


def together(parts: Path) -> bytes:
    """Put numbered parts together again, as `sort -n | cut -f2-` does."""
    lines = [line.split(b"\t", 1) for part in parts.iterdir() for line in part.read_bytes().split(b"\n")[:-1]]
    return b"".join(text + b"\n" for _, text in sorted(lines, key=lambda pair: int(pair[0])))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_the_numbered_parts_are_the_log_again(case: Path, tmp_path: Path) -> None:
    assert run(str(case), "-o", str(tmp_path / "parts"), "--number").returncode == 0
    assert together(tmp_path / "parts") == case.read_bytes()


def test_each_rank_has_its_lines_in_order(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("starting\n[rank1]: one\n[rank0]: zero\n[rank1]: 2 one\nno newline at the end")
    done = run(str(log), "-o", str(tmp_path / "parts"), "--json")
    assert {p.name: p.read_text() for p in (tmp_path / "parts").iterdir()} == {
        "rank0.log": "[rank0]: zero\n",
        "rank1.log": "[rank1]: one\n[rank1]: 2 one\n",
        REST: "starting\nno newline at the end\n",
    }
    answer = json.loads(done.stdout)
    assert (answer["schema"], answer["lines"]) == ("ddpclassify.split/1", 5)
    assert [(p["file"], p["rank"], p["lines"]) for p in answer["parts"]] == [
        ("rank0.log", 0, 1), ("rank1.log", 1, 2), (REST, None, 2)]  # fmt: skip


def test_ranks_known_only_by_pid_host_or_file_name(tmp_path: Path) -> None:
    (tmp_path / "logs" / "none_x" / "attempt_0" / "1").mkdir(parents=True)
    (tmp_path / "logs" / "rank3.log").write_text("from rank 3\n")
    (tmp_path / "logs" / "none_x" / "attempt_0" / "1" / "stderr.log").write_text("from local rank 1\n")
    two_nodes = "[default0]:[rank0]: a\n" + "node7: [default1]: b\nnode8: [default1]: c\nnode8: [default1]: d\n" * 3
    (tmp_path / "two.log").write_text(two_nodes)
    assert split(str(tmp_path / "logs"), tmp_path / "a").lines == 2
    assert {p.name: p.read_text() for p in (tmp_path / "a").iterdir()} == {
        "rank3.log": "from rank 3\n",
        "rank1.log": "from local rank 1\n",
    }
    split(str(tmp_path / "two.log"), tmp_path / "b")
    assert {p.name for p in (tmp_path / "b").iterdir()} == {"rank0.log", "node7.local1.log", "node8.local1.log"}


def test_standard_input_and_compressed_logs(tmp_path: Path) -> None:
    text = b"[rank0]: a\n[rank1]: b\n"
    (tmp_path / "x.gz").write_bytes(gzip.compress(text))
    assert run("-", "-o", str(tmp_path / "a"), data=text).returncode == 0
    assert run(str(tmp_path / "x.gz"), "-o", str(tmp_path / "b")).returncode == 0
    assert (tmp_path / "a" / "rank1.log").read_bytes() == (tmp_path / "b" / "rank1.log").read_bytes() == b"[rank1]: b\n"


def test_control_codes_are_removed_unless_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"[rank0]: \x1b[31mred\x1b[0m \xe2\x80\xae\x07\xff caf\xc3\xa9\n[rank0]: plain \xff\n")
    split(str(log), tmp_path / "clean")
    split(str(log), tmp_path / "raw", raw=True)
    clean = (tmp_path / "clean" / "rank0.log").read_bytes()
    assert clean == "[rank0]: red \ufffd café\n".encode() + b"[rank0]: plain \xff\n"
    assert (tmp_path / "raw" / "rank0.log").read_bytes() == log.read_bytes()


def test_hostile_hosts_and_rank_counts_stay_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddpclassify.split._PARTS", 50)
    log = tmp_path / "x.log"
    hosts = "[pod/.../x] [default1]: a\n[pod/..-../x] [default1]: b\n[pod/node7/x] [default1]: c\n"
    log.write_text(hosts + "".join(f"[rank{r}]: x\n" for r in range(900)) + "[rank99999999999]: y\n")
    result = split(str(log), tmp_path / "parts")
    written = list((tmp_path / "parts").iterdir())
    assert result.crowded
    assert len(written) <= 51
    assert sum(p.read_text().count("\n") for p in written) == result.lines == 904
    assert all(not p.name.startswith(".") for p in written)


def test_a_line_longer_than_a_block_stays_whole(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"[rank1]: " + b"x" * (5 << 20) + b"\n[rank0]: y\n")
    split(str(log), tmp_path / "parts")
    assert (tmp_path / "parts" / "rank1.log").stat().st_size == (5 << 20) + 10
    assert (tmp_path / "parts" / "rank0.log").read_text() == "[rank0]: y\n"


def test_mistakes_are_one_line_and_leave_nothing(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep")
    for args, said in (
        ((str(tmp_path / "none.log"), "-o", str(tmp_path / "parts")), b"No such file"),
        ((str(CASES[0]), "-o", str(tmp_path / "full")), b"not empty"),
        ((str(CASES[0]), "-o", "/proc/nothing/here"), b"/proc/nothing/here: No such file"),
        ((str(CASES[0]), "-o", "/proc/nothing"), b"/proc/nothing: No such file"),
    ):
        done = run(*args)
        assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
        assert said in done.stderr
    assert run(str(CASES[0])).returncode == 2
    assert [p.name for p in tmp_path.iterdir()] == ["full"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=60), st.sampled_from([b"[rank1]: x", b"[2] y", b" 3: z", b"\r\n"]))))
def test_any_bytes_come_back(lines: list[bytes]) -> None:
    import tempfile

    data = b"\n".join(lines)
    if data.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"\xff\xfe", b"\xfe\xff")):
        return  # told as compressed or UTF-16
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "x.log").write_bytes(data)
        split(str(Path(name) / "x.log"), Path(name) / "parts", numbered=True, raw=True)
        assert together(Path(name) / "parts") == data + b"\n" * (bool(data) and not data.endswith(b"\n"))
