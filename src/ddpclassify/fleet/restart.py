"""Should a scheduler start the job again?"""

from __future__ import annotations

from ddpclassify import taxonomy
from ddpclassify.types import Diagnosis

__all__ = ["EXIT", "restart"]

# Of `predict --restart-code`. 10 is what --exit-code says of any failure; 0, 1 and 2 have their usual meaning.
EXIT = {"maybe": 10, "yes": 11, "no": 12}


def restart(diagnosis: Diagnosis, sure: float) -> str:
    """Return ``"yes"`` or ``"no"`` where that is as probable as `sure`, else ``"maybe"``; ``""`` without failure.

    Whether a restart helps may be clear where the category is not: the probabilities of all candidates count.
    """
    if diagnosis.category == "no_failure":
        return ""
    found = dict.fromkeys(taxonomy.RETRIES, 0.0)
    best = diagnosis.candidates[0]["category"] if diagnosis.candidates else ""
    for candidate in diagnosis.candidates:
        category = candidate["category"]
        try:
            advice = taxonomy.retry(category, diagnosis.reason if category == best == diagnosis.category else None)
        except KeyError:  # a category, or a reason, of somebody's own corpus
            advice = "maybe"
        found[advice] += candidate["probability"]
    return next((answer for answer in ("no", "yes") if found[answer] >= sure), "maybe")
