"""Tracebacks as the rich library draws them: calls inside a box, the message below it."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace

from ..script import Say

FRAME = re.compile(r'  File "(.+)", line (\d+), in (.+)')
WIDTH = 80


def boxed(say: Say) -> Say:
    """Redraw the tracebacks in a say; evidence marks follow their lines."""
    lines: list[str] = []
    evidence: list[int] = []
    inside = False
    number = "1"
    for offset, line in enumerate(say.text.split("\n")):
        frame = FRAME.fullmatch(line)
        if line.startswith("Traceback (most"):
            inside = True
            lines.append(f"╭{' Traceback (most recent call last) ':─^{WIDTH - 2}}╮")
        elif inside and frame:
            number = frame[2]
            lines += [*_rows(f"{frame[1]}:{number} in {frame[3]}"), *_rows("")]
        elif inside and line.startswith("    "):
            if set(line) - set(" ~^"):
                lines += [*_rows(f"❱ {number} │   {line.strip()}"), *_rows("")]
        else:
            if inside:
                lines.append(f"╰{'─' * (WIDTH - 2)}╯")
                inside = False
            pieces = textwrap.wrap(line, WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
            if offset in say.evidence:
                evidence += range(len(lines), len(lines) + len(pieces))
            lines += pieces
    return replace(say, text="\n".join(lines), evidence=tuple(evidence))


def _rows(text: str) -> list[str]:
    inner = WIDTH - 4
    return [f"│ {text[at : at + inner]:<{inner}} │" for at in range(0, max(len(text), 1), inner)]
