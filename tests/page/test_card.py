"""A diagnosis in a notebook."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from ddpclassify import diagnose

CASES = Path(__file__).parent.parent / "cases"


def test_it_tells_what_who_proof_and_what_to_do() -> None:
    html = diagnose(CASES / "oom-one-of-eight-then-watchdogs.log")._repr_html_()
    text = re.sub("<[^>]+>", " ", html)
    for words in ("GPU memory ran out", "rank 5 of 8", "line 22, rank 5", "attn.py:77 in forward", "Look first:"):
        assert words in text
    assert "<code>nvidia-smi</code>" in html
    assert html.count("<details>") >= 2


def test_nothing_of_a_log_becomes_markup_and_nothing_is_loaded() -> None:
    evil = ["[rank0]: ValueError: </div><script>x()</script><img src=//x onerror=x()> \x1b[2J\u202e"]
    html = diagnose(evil)._repr_html_()
    tags: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: tags.append(tag)  # type: ignore[method-assign]
    parser.feed(html)
    assert set(tags) <= {"div", "b", "code", "details", "summary", "ul", "li"}
    assert "&lt;script&gt;" in html
    assert not re.search("[\x1b\u202e]|url\\(|src=|#[0-9a-f]{3,6}\\b", html.replace("&lt;img src=", ""))


def test_a_healthy_job_has_a_card_too() -> None:
    html = diagnose(["step 1 loss 0.5", "step 2 loss 0.4", "Training complete"])._repr_html_()
    assert "no failure found" in html
