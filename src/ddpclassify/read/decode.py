"""Bytes of one line → readable text: terminal control codes, NULs and bad UTF-8 are made harmless."""

from __future__ import annotations

import re

# CSI (colours, cursor), OSC (titles, links), and two-byte escapes, as ECMA-48 forms them.
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Every control code but tab and carriage return (carriage returns split a line before), and the bidi controls.
_CONTROLS = re.compile("[\x00-\x08\x0a-\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u061c\ufeff]")


def decode(line: bytes) -> str:
    r"""Return the text of a line without its line feed, escapes and control codes.

    Invalid UTF-8 becomes U+FFFD; nothing raises.

    >>> decode(b"\x1b[31mError\x1b[0m: caf\xc3\xa9\x00 \xff\r\n")
    'Error: café �\r'
    """
    if b"\x1b" in line:
        line = _ESCAPES.sub(b"", line)
    text = line.decode("utf-8", "replace")
    if text.isprintable():
        return text
    return _CONTROLS.sub("", text)


def harmless(text: str) -> str:
    r"""Return what JSON had escaped, which `decode` has not seen, as `decode` would have it, line by line.

    >>> harmless("\x1b[31mError\x1b[0m:\r\n  \ud800\u202e x")
    'Error:\n  ? x'
    """
    return "\n".join(decode(line.encode("utf-8", "replace")) for line in re.split(r"[\r\n]+", text))
