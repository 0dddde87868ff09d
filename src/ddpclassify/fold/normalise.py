"""Message → skeleton: what varies from run to run and from rank to rank is masked, what tells bugs apart stays.

The masks are an ordered table; each row has a pair that must become equal. Names in quotes stay (``name 'c'`` is not
``name 'd'``), numbers, addresses, paths, hosts, ids do not.

>>> skeleton("[rank3] CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has") == skeleton("[rank1] CUDA out of memory. Tried to allocate 150.00 MiB. GPU 1 has")
True
>>> skeleton("name 'c' is not defined") == skeleton("name 'd' is not defined")
False
"""

from __future__ import annotations

import re

MASKS: tuple[tuple[str, str, str, str, str], ...] = (
    # (name, pattern, replacement, one example, its equal)
    ("url", r"\b(?:https?|s3|gs|hdfs|tcp|file)://[^\s'\")>,]+", "<url>", "at https://a.b/c?x=1 now", "at http://d/e now"),
    ("uuid", r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<id>", "GPU-8a0c2f7e-1111-2222-3333-444455556666", "GPU-8a0c2f7e-1111-2222-3333-444455556667"),
    ("address", r"\b0x[0-9a-fA-F]+\b", "<hex>", "at 0x7f1a", "at 0x7f2b"),
    ("ip", r"(?:\[?(?:::ffff:)?)\b\d{1,3}(?:\.\d{1,3}){3}\]?(?:[:<]\d+>?)?", "<ip>", "peer [10.0.0.3]:2197", "peer [10.0.1.4]:80"),
    ("path", r"(?<![\w<])(?:[A-Za-z]:\\|~?/|\.{1,2}/)[\w.+@%=~\\/-]*[\w/\\-]", "<path>", "open /a/b-1.txt now", "open /c/d/e.txt now"),
    ("size", r"\b\d+(?:\.\d+)?\s?(?:[KMGT]i?B|bytes|ms|milliseconds|seconds|s)\b", "<size>", "of 2.5 GiB", "of 10 MiB"),
    ("date", r"\b\d{4}-\d\d-\d\d[T_ ]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?", "<time>", "at 2026-12-01T12:00:00", "at 2026-12-02T13:00:00"),
    ("hexid", r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", "<id>", "shm a91b22c7", "shm b91b22c8"),
    ("number", r"(?<![A-Za-z_])[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?", "#", "size 3 vs 4.5", "size 31 vs 2"),
    ("number in name", r"(?<=[A-Za-z_.-])\d{1,}(?=[\s\]):,._-]|$)", "#", "rank3: x", "rank4: x"),
    ("list", r"#(?:(?:, ?| |x)#)+", "#", "[1, 2, 3]", "[1, 2]"),
)

_COMPILED = tuple((re.compile(pattern), replacement) for _, pattern, replacement, _, _ in MASKS)


def skeleton(text: str, limit: int = 600) -> str:
    """Return the text with everything masked that `MASKS` lists, at most `limit` characters of it."""
    text = text[: 2 * limit]
    for pattern, replacement in _COMPILED:
        text = pattern.sub(replacement, text)
    return " ".join(text.split())[:limit]
