"""Which failures are the same one, in whatever job: the signature of an issue.

What counts is what the program did: the kind of failure, the exception, the message without what varies, the file and
function of the user's own code, and the fields that tell two statements apart. Ranks, hosts, paths, numbers, sequence
numbers and line numbers do not count, nor does the category, which a new model may name differently.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

from ddpclassify.fold.normalise import skeleton
from ddpclassify.report.words import bare, lead, shorten, what
from ddpclassify.types import Diagnosis, Failure, Folded

__all__ = ["SCHEME", "Issue", "issue", "signed"]

SCHEME = "issue@2026-12-02"
"""Name of the scheme. A change of what counts is a new name and `_PREFIX`: stored signatures keep their meaning."""

_PREFIX = "v1"
# Unlike in one log, sequence numbers and sizes do not count: the next run fails at another step.
_TELLING = ("code", "signal", "op", "xid")
_TITLE = 160


class Issue(NamedTuple):
    """A signature, in few words what it stands for, and what was counted to get it."""

    signature: str
    title: str
    why: dict[str, Any]


def issue(folded: Folded, diagnosis: Diagnosis) -> Issue | None:
    """Return the issue that a log belongs to: that of the failure which is most likely the cause; None without one."""
    if diagnosis.category == "no_failure":
        return None
    first = lead(diagnosis)
    if first is None:
        why = {"scheme": SCHEME, "kind": "no statement", "category": diagnosis.category}
        return Issue(_digest(why), f"{diagnosis.category}, and no line that states it", why)
    failure = next(
        f for f in folded.failures if f.signature == first["signature"] and f.first.line.number == first["first_line"]
    )
    hosts = set(folded.events.log.facts.hosts) | set(failure.hosts)
    signature, why = signed(failure, hosts)
    return Issue(signature, shorten(what(first), _TITLE), why)


def signed(failure: Failure, hosts: set[str]) -> tuple[str, dict[str, Any]]:
    """Return the signature of a failure, and what it is made of."""
    fields = failure.first.fields
    text = failure.message
    for host in sorted(filter(None, hosts), key=len, reverse=True):
        text = text.replace(host, "<host>")
    name, _, rest = failure.location.partition(":")
    why = {
        "scheme": SCHEME,
        "kind": fields.get("statement", failure.kind) if failure.kind == "traceback" else failure.kind,
        "exception": failure.exception,
        "message": skeleton(bare(text)) if failure.skeleton else "",
        "place": skeleton(f"{name} {rest.partition(' in ')[2]}".strip()),
        "fields": {key: fields[key] for key in _TELLING if key in fields},
    }
    return _digest(why), why


def _digest(why: dict[str, Any]) -> str:
    parts = (f"{key}={sorted(value.items()) if isinstance(value, dict) else value}" for key, value in why.items())
    return f"{_PREFIX}-{hashlib.blake2b(chr(0).join(parts).encode('utf-8', 'replace'), digest_size=6).hexdigest()}"
