"""The HTML page: whatever a log holds, it is well formed, self-contained, harmless, and says who failed."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ddpclassify.api import load_model
from ddpclassify.page import page
from ddpclassify.page.axis import Tick, thin
from ddpclassify.page.lanes import told
from ddpclassify.page.picture import NARROW, PLOT

CASES = Path(__file__).parent.parent / "cases"
OOM = CASES / "oom-one-of-eight-then-watchdogs.log"
VOID = {"meta", "input", "br", "hr", "link", "img"}
EVIL = (
    '[rank0]: Traceback (most recent call last):\n[rank0]:   File "/x/<script>alert(1)</script>.py", line 1, in <b>\n'
    "[rank0]:     </script><img src=x onerror=alert(2)>\n"
    "[rank0]: ValueError: \"><script>alert(3)</script>' onload='x' &lt; $title ${script} </title></style>-->\n"
    "[rank1]: RuntimeError: \u202eevil\u2066 \x1b[31mred\x1b[0m \x9b31m\x07 javascript:alert(4) https://evil.example/x.js\n"
)


class Tree(HTMLParser):
    """Checks that elements nest, and collects them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in {tag}"
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


@cache
def made(*paths: Path) -> str:
    return page([load_model().explain(path) for path in paths])


def of_lines(text: str) -> str:
    return page([load_model().explain(text.splitlines())])


def job(n: int, culprit: int) -> str:
    """One rank of `n` runs out of memory, all others wait for it until the timeout."""
    lines = [f"[rank{k}]: 2026-11-02 08:06:10,104 INFO step 1 loss 2.0" for k in range(n)]
    lines += [
        f"[rank{culprit}]: {line}"
        for line in (
            "Traceback (most recent call last):",
            '  File "/home/a/train.py", line 151, in main',
            "    out = model(x)",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.50 GiB.",
        )
    ]
    lines += [
        f"[rank{k}]:[E1102 08:16:{42 + k % 17}.0{k % 97:02}000000 ProcessGroupNCCL.cpp:632] [Rank {k}] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=88, OpType=ALLREDUCE, NumelIn=25, NumelOut=25, "
        "Timeout(ms)=600000) ran for 600033 milliseconds before timing out."
        for k in range(n)
        if k != culprit
    ]
    return "\n".join(lines) + "\n"


def test_page_says_what_who_proof_and_what_to_do() -> None:
    tree = Tree(made(OOM))
    for words in ("GPU memory ran out", "Rank 5 of 8", "Tried to allocate 4.50 GiB", "attn.py:77", "Look first:"):
        assert words in tree.text
    assert [a["id"] for t, a in tree.elements if t == "article"] == ["log1"]
    names = {t for t, _ in tree.elements}
    assert {"main", "header", "footer", "section", "details", "summary", "svg", "title", "desc"} <= names


def test_a_lane_a_rank_culprit_on_top_every_mark_links_to_a_failure() -> None:
    tree = Tree(made(OOM))
    lanes = [a["data-ranks"] for t, a in tree.elements if t == "g" and "lane" in (a.get("class") or "").split()]
    assert lanes == ["5", "0", "1", "2", "3", "4", "6", "7"]
    ids = [a["id"] for _, a in tree.elements if a.get("id")]
    assert len(ids) == len(set(ids))
    links = {(a["href"] or "")[1:] for t, a in tree.elements if t in ("a", "use")}
    assert links <= set(ids)
    assert {a.get("class") for t, a in tree.elements if t == "a" and "mark" in (a.get("class") or "")} == {
        "mark cause",
        "mark followed",
    }


def test_unmarked_proof_that_stands_before_the_best_one_has_not_followed_it() -> None:
    lines = [
        "NVRM: Xid (PCI:0000:c1:00): 79, pid=4100, GPU has fallen off the bus.",
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "train.py", line 3, in main',
        "[rank1]: RuntimeError: CUDA error: unspecified launch failure",
        "NVRM: Xid (PCI:0000:c2:00): 31, pid=4101, MMU fault.",
    ]
    folded, d = load_model().explain(lines)
    proofs = [{"line": n, "file": None, "rank": None, "text": ""} for n in (4, 1, 5)]
    rows = [{**row, "role": "cause", "score": row["first_line"] == 4} for row in d.failures]
    standings = {
        t.row["first_line"]: t.standing for t in told(folded, replace(d, category="x", evidence=proofs, failures=rows))
    }
    assert standings == {1: "cause", 4: "cause", 5: "followed"}


def test_a_mark_names_its_own_line() -> None:
    hints = [w for w in Tree(made(OOM)).words if w.startswith("rank 4, from line")]
    assert [w.partition(":")[0] for w in hints] == ["rank 4, from line 35", "rank 4, from line 36"]


def test_ranks_that_the_log_never_names_share_a_lane_and_the_legend_tells_only_what_is_drawn() -> None:
    tree = Tree(made(CASES / "nameerror-three-ranks-interleaved.log"))
    lanes = [a["data-ranks"] for t, a in tree.elements if t == "g" and "lane" in (a.get("class") or "").split()]
    assert lanes == ["0-2", "-"]
    assert "speaks, no failure yet" not in tree.text
    assert "speaks, no failure yet" in Tree(made(OOM)).text


def test_hostile_log_stays_text() -> None:
    html = of_lines(EVIL)
    tree = Tree(html)
    assert [t for t, _ in tree.elements].count("script") == 1
    assert [t for t, _ in tree.elements].count("style") == 1
    assert not {"img", "iframe", "link", "object", "base"} & {t for t, _ in tree.elements}
    assert not [name for _, a in tree.elements for name in a if name.startswith("on") or name in ("src", "style")]
    assert "<script>alert(3)</script>" in tree.text
    assert "${script}" in tree.text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", html)


def test_policy_allows_the_one_script_and_nothing_from_anywhere() -> None:
    html = made(OOM)
    tree = Tree(html)
    policy = next(a["content"] or "" for t, a in tree.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for name in ("script", "style"):
        content = re.search(f"<{name}>(.*?)</{name}>", html, re.S)
        assert content is not None
        digest = base64.b64encode(hashlib.sha256(content[1].encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy
        assert "url(" not in content[1]
        assert "http" not in content[1]
    for _, attributes in tree.elements:
        assert (attributes.get("href") or "#").startswith("#")


def test_script_holds_nothing_of_the_log() -> None:
    ours, others = (re.findall("<script>.*?</script>", page_, re.S) for page_ in (made(OOM), of_lines(EVIL)))
    assert ours == others


def test_4096_ranks_fold_into_few_lanes_and_a_small_page() -> None:
    html = of_lines(job(4096, 2049))
    tree = Tree(html)
    lanes = [a["data-ranks"] or "" for t, a in tree.elements if t == "g" and "lane" in (a.get("class") or "").split()]
    assert len(html.encode()) < 1_500_000
    assert len(lanes) <= 28
    assert "2049" in lanes
    assert any(a.get("class") == "map" for _, a in tree.elements)


def test_the_time_of_the_first_cause_is_on_the_axis_at_any_width() -> None:
    ticks = [Tick(n / 40, f"08:06:{n:02}", first=n == 7) for n in range(41)]
    for width in (PLOT, NARROW):
        kept = thin(ticks, width)
        assert any(tick.first for tick in kept)
        assert 1 < len(kept) < len(ticks)


def test_several_logs_have_a_list_with_links() -> None:
    tree = Tree(made(*sorted(CASES.glob("*.log"))))
    articles = [a["id"] for t, a in tree.elements if t == "article"]
    assert len(articles) == len(list(CASES.glob("*.log")))
    assert {f"#{name}" for name in articles} <= {a.get("href") for t, a in tree.elements if t == "a"}


@pytest.mark.parametrize("text", ["", "\n", "hello\n", "epoch 0 step 1 loss 2\nTraining complete\n", "\x00\xff\r\r\n"])
def test_logs_that_say_nothing(text: str) -> None:
    Tree(of_lines(text))


def test_command_writes_the_page_and_tells_what_it_could_not_read(tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    args = [sys.executable, "-m", "ddpclassify", "report", "-o", str(out), "--json"]
    done = subprocess.run([*args, str(OOM), str(tmp_path / "none<b>.log")], capture_output=True, check=False, text=True)
    assert done.returncode == 1
    assert [line.split('"')[3] for line in done.stdout.splitlines()] == ["ddpclassify.diagnosis/1"] * 2
    assert "No such file" in done.stderr
    assert "none<b>.log: No such file" in Tree(out.read_text(encoding="utf-8")).text
    assert list(tmp_path.iterdir()) == [out]


def test_command_names_a_place_it_can_not_write_to(tmp_path: Path) -> None:
    args = [sys.executable, "-m", "ddpclassify", "report", str(OOM), "-o", str(tmp_path / "no" / "r.html")]
    done = subprocess.run(args, capture_output=True, check=False, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "No such file or directory" in done.stderr


def test_a_folder_whose_culprit_has_no_times_still_shows_its_failure(tmp_path: Path) -> None:
    """Only the others' watchdog lines bear a time; the culprit's file must not fall off the axis."""
    for rank in range(6):
        mine = [line for line in OOM.read_text().splitlines() if f"[rank{rank}]" in line]
        (tmp_path / f"rank{rank}.log").write_text("\n".join(mine) + "\n")
    tree = Tree(made(tmp_path))
    assert "mark cause" in {a.get("class") for t, a in tree.elements if t == "a"}
    assert "first failure, rank 5" in Tree(made(OOM)).text
    assert "first failure, rank 5" not in tree.text  # files without times have no common order
