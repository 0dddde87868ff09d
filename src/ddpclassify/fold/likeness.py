"""What makes a failure of one run the same as one of another run of the same job."""

from __future__ import annotations

import re
from collections.abc import Hashable

from ddpclassify.fold import place
from ddpclassify.fold.normalise import skeleton
from ddpclassify.types import Failure

_QUOTED = re.compile(r"(['\"`])(?:(?!\1).){1,80}\1")
_VALUE = re.compile(r"(?<==)\s*[^\s,;)\]}]+")
# Fields that tell statements apart in every run: those of a collective count how far the run has come.
_TELLING = ("code", "signal", "op", "xid", "why")


def likeness(failure: Failure) -> Hashable:
    """Return what is equal for failures of two runs that count as the same.

    It is looser than the signature: statements may differ in names in quotes, in values, in the collective's number and
    size. Exceptions may not: one that is raised for another name, or elsewhere, is another bug.
    """
    event = failure.first
    where = place(event)
    if failure.exception:
        return failure.kind, failure.exception, failure.skeleton, where
    words = _VALUE.sub(" <value>", _QUOTED.sub("<q>", skeleton(event.text)))
    return failure.kind, words, where, *(event.fields.get(name) for name in _TELLING)
