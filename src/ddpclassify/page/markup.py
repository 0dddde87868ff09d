"""Building HTML so that nothing can be forgotten: whatever is not `Html` already is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable

from ddpclassify.report.words import clean


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


_SHORT = 24  # characters of code that stay on one line
_VOID = {"meta", "input", "br", "hr", "col"}


def text(value: object) -> Html:
    """Return a value as escaped text without control codes; `Html` stays as it is."""
    return value if isinstance(value, Html) else Html(html.escape(clean(str(value))))


def join(parts: Iterable[object], between: str = "") -> Html:
    """Put parts together, each escaped unless it is `Html`."""
    return Html(text(between).join(text(p) for p in parts if p is not None and p != ""))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """Return an element; in attribute names a trailing ``_`` is dropped, another becomes ``-``.

    >>> tag("a", "1 < 2", Html("<b>x</b>"), class_="k", data_ranks='0"', hidden=True, title=None)
    '<a class="k" data-ranks="0&quot;" hidden>1 &lt; 2<b>x</b></a>'
    """
    head = name
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        if value is True:
            head += f" {key}"
        elif value is not None and value is not False:
            head += f' {key}="{text(value)}"'
    if name in _VOID:
        return Html(f"<{head}>")
    return Html(f"<{head}>{join(children)}</{name}>")


def prose(words: str) -> Html:
    """Return a sentence with its `backticked` parts as code.

    >>> prose("set `A<B` first")
    'set <code>A&lt;B</code> first'
    """
    parts = words.split("`")
    return join(_code(part) if i % 2 and i + 1 < len(parts) else part for i, part in enumerate(parts))


def _code(part: str) -> Html:
    return tag("code", part, class_=None if len(part) <= _SHORT else "long")
