"""A diagnosis for a reader: plain text, or JSON."""

from __future__ import annotations

import json

from ddpclassify.report.text import text_report
from ddpclassify.report.words import ranges
from ddpclassify.types import Diagnosis

__all__ = ["json_report", "ranges", "text_report"]


def json_report(diagnosis: Diagnosis) -> str:
    """Return the diagnosis as one line of JSON."""
    return json.dumps(diagnosis.to_dict(), ensure_ascii=True)
