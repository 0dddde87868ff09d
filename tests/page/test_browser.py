"""The page in a real browser: the policy lets our script run, nothing is refused, a link opens its failure."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ddpclassify.api import load_model
from ddpclassify.page import page

CASES = Path(__file__).parent.parent / "cases"
BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), "")
pytestmark = pytest.mark.skipif(not BROWSER, reason="no Chromium here")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
]


def browse(tmp_path: Path, url: str, *args: str) -> subprocess.CompletedProcess[str]:
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    return subprocess.run(
        [BROWSER, *FLAGS, profile, *args, url], capture_output=True, check=True, text=True, timeout=120
    )


def test_script_runs_links_open_their_failure_and_nothing_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    out.write_text(page([load_model().explain(CASES / "oom-one-of-eight-then-watchdogs.log")]), encoding="utf-8")
    assert re.search(r'<form class="filter" hidden', out.read_text(encoding="utf-8"))
    done = browse(tmp_path, f"{out.as_uri()}#log1-f2", "--dump-dom")
    form = re.search(r"<form [^>]*>", done.stdout)
    card = re.search(r'<details id="log1-f2"[^>]*>', done.stdout)
    assert form is not None
    assert card is not None
    assert "hidden" not in form[0]
    assert " open" in card[0]
    assert not re.search("Content Security Policy|Uncaught", done.stderr)


def test_filter_leaves_the_failures_of_a_rank(tmp_path: Path) -> None:
    """The page's own script, with a few lines added that type for us (so without the policy)."""
    html = page([load_model().explain(CASES / "oom-one-of-eight-then-watchdogs.log")])
    typing = (
        "<script>const f = document.querySelector('form.filter'); f.ranks.value = '5 - 5';"
        "f.dispatchEvent(new Event('input')); document.title = f.shown.value</script>"
    )
    out = tmp_path / "page.html"
    out.write_text(re.sub("<meta http-equiv[^>]*>", "", html).replace("</body>", typing + "</body>"), encoding="utf-8")
    dom = browse(tmp_path, out.as_uri(), "--dump-dom").stdout
    off = re.findall(r'<g class="lane[^"]* off" data-ranks="(\d+)"', dom)
    cards = re.findall(r'<details id="log1-f[^>]*>', dom)
    shown = [card for card in cards if " hidden" not in card]
    assert off == ["0", "1", "2", "3", "4", "6", "7"]
    assert shown == [card for card in cards if 'data-ranks="5"' in card]
    assert f"<title>{len(shown)} of {len(cards)} failures</title>" in dom


@pytest.mark.parametrize("width", [1280, 800, 420])
def test_nothing_is_cut_off_at_any_width(tmp_path: Path, width: int) -> None:
    """No letter of the pictures leaves its section's inner edge, and no line of the log has to be moved to be read."""
    lines = [f"[rank{r}]: RuntimeError: {'a long line ' * 30}{r // 20}" for r in range(64)]
    many = [f"[rank{r}]: [Rank {r}] Watchdog caught collective operation timeout: {r} ms" for r in range(1024)]
    measuring = """<script>
      const out = [...document.querySelectorAll("section.picture text, .log .l, .code")].filter((el) => {
        const section = el.closest("section"), inside = parseFloat(getComputedStyle(section).paddingRight) - 1;
        const box = el.getBoundingClientRect(), room = section.getBoundingClientRect();
        return box.width && (box.left < room.left + inside || box.right > room.right - inside);
      }).map((el) => el.textContent);
      const clipped = [...document.querySelectorAll("pre")].filter((el) => el.scrollWidth > el.clientWidth + 1).length;
      document.title = JSON.stringify([document.documentElement.scrollWidth <= innerWidth, out, clipped]);
    </script>"""
    unmarked = CASES / "nameerror-three-ranks-interleaved.log"
    html = page([load_model().explain(log) for log in (lines, many, unmarked)])
    assert ">1,024</text>" in html
    out = tmp_path / "page.html"
    out.write_text(re.sub("<meta http-equiv[^>]*>", "", html).replace("</body>", measuring + "</body>"), "utf-8")
    dom = browse(tmp_path, out.as_uri(), f"--window-size={width},900", "--dump-dom").stdout
    assert "<title>[true,[],0]</title>" in dom, re.search("<title>.*?</title>", dom)


class Keyboard:
    """A page in the browser, driven by its debugging pipe: what the keyboard alone reaches."""

    def __init__(self, profile: Path, url: str) -> None:
        (ours, self.out), (self.back, theirs) = os.pipe(), os.pipe()
        command = [BROWSER, *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        # The browser reads commands from descriptor 3 and answers on 4.
        moved = f"import os; os.dup2({ours}, 3); os.dup2({theirs}, 4); os.execv({BROWSER!r}, {command!r})"
        self.browser = subprocess.Popen(
            [sys.executable, "-c", moved], pass_fds=(ours, theirs), stderr=subprocess.DEVNULL
        )
        os.close(ours)
        os.close(theirs)
        self.session: dict[str, str] = {}
        self.answers = os.fdopen(self.back, "rb")
        target = self.ask("Target.createTarget", url=url)["targetId"]
        self.session = {"sessionId": self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        while not self.value("document.readyState === 'complete' && location.protocol === 'file:'"):
            pass

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        os.write(self.out, json.dumps({"id": 1, "method": method, "params": params, **self.session}).encode() + b"\0")
        while True:
            answer = bytearray()
            while (byte := self.answers.read(1)) != b"\0":
                assert byte, "the browser has gone"
                answer += byte
            if "id" in (said := json.loads(answer)):
                return said["result"]  # type: ignore[no-any-return]

    def value(self, expression: str) -> Any:
        return self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def press(self, key: str, code: int) -> None:
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)
            text = {}

    def close(self) -> None:
        self.browser.kill()
        self.browser.wait()
        os.close(self.out)
        self.answers.close()


def test_the_keyboard_alone_reaches_filter_marks_and_failures(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    out.write_text(page([load_model().explain(CASES / "oom-one-of-eight-then-watchdogs.log")]), encoding="utf-8")
    focused = """(() => {
      const el = document.activeElement;
      if (el === document.body) return ["body"];
      const style = getComputedStyle(el), box = el.getBoundingClientRect();
      const mark = el.closest(".mark");
      const lit = mark
        ? getComputedStyle(mark.querySelector("use")).strokeWidth !== "1.5px"
        : style.outlineStyle !== "none";
      const name = el.labels?.length ? el.labels[0].textContent : el.textContent;
      const shown = lit && box.top >= 0 && box.bottom <= innerHeight + 1;
      return [el.tagName.toLowerCase(), name.trim().slice(0, 40), shown, el.parentElement.id];
    })()"""
    stops: list[list[Any]] = []
    with closing(Keyboard(tmp_path / "profile", out.as_uri())) as keyboard:
        while len(stops) < 60 and stops[-1:] != [["body"]]:
            keyboard.press("Tab", 9)
            stops.append(keyboard.value(focused))
            if stops[-1][-1] == "log1-f2":
                keyboard.press("Enter", 13)
        opened = keyboard.value("document.getElementById('log1-f2').open")
    assert stops.pop() == ["body"]
    assert [s[0] for s in stops[:5]] == ["a", "input", "select", "input", "input"]
    assert all(name for _, name, _, _ in stops)
    assert [stop for stop in stops if not stop[2]] == []  # the focus is always to be seen
    assert {"log1-f1", "log1-f2"} <= {s[3] for s in stops}
    assert sum(name.startswith("rank 5, from line") for _, name, _, _ in stops) == 1
    assert opened


def test_log_text_never_runs(tmp_path: Path) -> None:
    evil = [
        "[rank0]: ValueError: </script><script>document.title='owned'</script>",
        "[rank1]: RuntimeError: <img src=x onerror=document.title='owned'><svg onload=document.title='owned'>",
    ]
    out = tmp_path / "page.html"
    out.write_text(page([load_model().explain(evil)]), encoding="utf-8")
    dom = browse(tmp_path, out.as_uri(), "--dump-dom").stdout
    assert "<title>owned" not in dom
    assert "&lt;script&gt;" in dom


@pytest.mark.parametrize(("width", "scheme"), [(1280, 1), (400, 0)], ids=["wide light", "narrow dark"])
def test_screenshot(tmp_path: Path, width: int, scheme: int) -> None:
    out, shot = tmp_path / "page.html", tmp_path / "shot.png"
    out.write_text(page([load_model().explain(CASES / "silent-rank-of-eight.log")]), encoding="utf-8")
    browse(
        tmp_path,
        out.as_uri(),
        f"--window-size={width},900",
        f"--blink-settings=preferredColorScheme={scheme}",
        f"--screenshot={shot}",
    )
    assert shot.read_bytes().startswith(b"\x89PNG")
    assert len(shot.read_bytes()) > 20_000
