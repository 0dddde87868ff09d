"""The categories of failure as data: what each means, how to tell it from its neighbours, and what to do.

Every category is one TOML file under ``categories/``: whoever wants better advice edits a file, not code. Its texts in
another language are a file of the same name under ``<language>/``. A file is parsed when its category is first asked
for, so that a diagnosis pays for the one category it names. `load` also knows ``"unknown"``, the answer given when no
category is likely enough; it is not one of `names`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, Literal, cast

from ddpclassify.language import current
from ddpclassify.tables import read_toml
from ddpclassify.taxonomy.table import Table

__all__ = [
    "ORIGINS",
    "RETRIES",
    "UNKNOWN",
    "Advice",
    "Category",
    "Missing",
    "Neighbour",
    "Reason",
    "Retry",
    "UnknownNameError",
    "advice",
    "from_tables",
    "load",
    "load_file",
    "names",
    "origin",
    "retry",
]

Retry = Literal["yes", "no", "maybe"]

RETRIES: tuple[Retry, ...] = ("yes", "no", "maybe")
ORIGINS = (
    "user code",
    "environment",
    "launch",
    "resource",
    "communication",
    "user code or data",
    "data",
    "infrastructure",
    "none",
)
UNKNOWN = "unknown"

# Written out so that listing, completion and checking a name read no file; a test holds it to the folder's content.
_NAMES = (
    "code_error",
    "dependency_error",
    "launch_config",
    "rendezvous_error",
    "cuda_oom",
    "host_oom",
    "shm_exhausted",
    "collective_timeout",
    "network_error",
    "rank_divergence",
    "data_error",
    "storage_error",
    "checkpoint_error",
    "cuda_error",
    "gpu_hardware",
    "gpu_environment",
    "numerical_error",
    "preempted",
    "native_crash",
    "race_condition",
    "node_failure",
    "external_service",
    "build_error",
    "resource_limit",
    "no_failure",
)
_HERE = Path(__file__).parent


class UnknownNameError(KeyError):
    """A category or reason that does not exist; ``str(error)`` is one clear line."""

    def __str__(self) -> str:
        # KeyError would show the repr of its argument, quotes and all.
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A category that is easily taken for this one, and how to tell them apart."""

    category: str
    how: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Evidence that a log may lack, and the flags or commands that would bring it next time."""

    when: str
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """A finer kind inside a category; what is None or empty is as in the category."""

    id: str
    title: str
    retry: Retry | None = None
    first_check: str | None = None
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do: the one thing to look at first, then the steps."""

    first_check: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Category:
    """One class of root cause.

    Attributes
    ----------
    name, title : str
        The identifier, and a few words for a heading.
    origin : str
        Who has to act, one of `ORIGINS`.
    retry : {"yes", "no", "maybe"}
        Whether starting the same job again, unchanged, can help.
    meaning : str
        Two to four sentences; the first one alone is `summary`.
    neighbours : tuple of Neighbour
    examples : tuple of str
        Invented log lines.
    first_check : str
    steps : tuple of str
    missing : tuple of Missing
    reasons : tuple of Reason
    """

    name: str
    title: str
    origin: str
    retry: Retry
    meaning: str
    first_check: str
    steps: tuple[str, ...]
    neighbours: tuple[Neighbour, ...] = ()
    examples: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    reasons: tuple[Reason, ...] = ()

    @property
    def summary(self) -> str:
        """The first sentence of `meaning`."""
        ends = [at + 1 for mark in (". ", "。") if (at := self.meaning.find(mark)) >= 0]
        return self.meaning[: min(ends, default=None)]

    def reason(self, id: str) -> Reason:
        """Return the reason called `id`; raise `UnknownNameError` if this category has none such."""
        for reason in self.reasons:
            if reason.id == id:
                return reason
        raise _unknown(f"reason of {self.name}", id, (reason.id for reason in self.reasons))

    def advice_for(self, reason: str | None = None) -> Advice:
        """Return the reason's own advice where it has some, the category's for the rest."""
        if reason is None:
            return Advice(self.first_check, self.steps)
        own = self.reason(reason)
        return Advice(own.first_check or self.first_check, own.steps or self.steps)

    def retry_for(self, reason: str | None = None) -> Retry:
        """Return whether starting again unchanged can help, for this reason or for the category as a whole."""
        return self.retry if reason is None else self.reason(reason).retry or self.retry

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, with every reason's retry and advice filled in."""
        data = asdict(self)
        for reason in data["reasons"]:
            reason["retry"] = self.retry_for(reason["id"])
            reason.update(asdict(self.advice_for(reason["id"])))
        return data


def names() -> tuple[str, ...]:
    """Return the identifiers of all categories, in their fixed order, without reading a file."""
    return _NAMES


def load(name: str) -> Category:
    """Return the category called `name` (or ``"unknown"``) in the spoken language, reading its file on first use.

    Raises
    ------
    UnknownNameError
        If there is no such category.

    Examples
    --------
    >>> load("cuda_oom").title
    'GPU memory ran out'
    """
    return _load(name, current())


@cache
def _load(name: str, language: str) -> Category:
    if language != "en":
        from ddpclassify.taxonomy.translation import translated

        return translated(_load(name, "en"), _HERE / language / f"{name}.toml")
    if name == UNKNOWN:
        path = _HERE / "unknown.toml"
    elif name in _NAMES:
        path = _HERE / "categories" / f"{name}.toml"
    else:
        raise _unknown("category", name, _NAMES)
    table = Table(read_toml(path), path.name)
    table.text("name")
    return _category(table, name)


def advice(category: str, reason: str | None = None) -> Advice:
    """Return what to do about a category, in the reason's own words where it has some.

    Examples
    --------
    >>> advice("preempted", "user_cancelled").steps[0]
    'Leave it, if it was meant.'
    """
    return load(category).advice_for(reason)


def retry(category: str, reason: str | None = None) -> Retry:
    """Return whether starting the same job again, unchanged, can help.

    Examples
    --------
    >>> retry("storage_error"), retry("storage_error", "disk_full")
    ('maybe', 'no')
    """
    return load(category).retry_for(reason)


def origin(category: str) -> str:
    """Return who has to act.

    Examples
    --------
    >>> origin("shm_exhausted")
    'resource'
    """
    return load(category).origin


def load_file(path: str | PathLike[str]) -> dict[str, Category]:
    """Read in-house categories from one TOML file with ``[category.NAME]`` tables.

    A table needs ``origin``, ``retry``, ``meaning``, ``first_check`` and ``steps``; ``title``, ``neighbours``,
    ``examples``, ``missing`` and ``reasons`` may be left out. A table with the name of a built-in category holds a
    house's own advice for it; which of the two to use is the caller's choice.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    dict of str to Category
        In the order of the file.

    Raises
    ------
    ValueError
        If the file is not TOML, or a key is unknown, missing or of the wrong type; one line that names file and key.
    OSError
        If the file can't be read.
    """
    path = Path(path)
    root = Table(read_toml(path), str(path))
    found = root.table("category")
    root.end()
    return from_tables(found.data, found.where)


def from_tables(tables: object, where: str) -> dict[str, Category]:
    """Return in-house categories from tables as `load_file` reads them; `where` begins every complaint.

    Raises
    ------
    ValueError
        As `load_file`.
    """
    found = Table(tables, where)
    return {name: _category(found.table(name), name) for name in list(found.data)}


def _unknown(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Make the error for a name that is not known, with the nearest one that is."""
    from difflib import get_close_matches  # needed for mistakes only

    near = get_close_matches(name, list(known), n=1)
    return UnknownNameError(f"there is no {kind} {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _category(table: Table, name: str) -> Category:
    category = Category(
        name=name,
        title=table.text("title", name.replace("_", " ")),
        origin=table.choice("origin", ORIGINS),
        retry=cast("Retry", table.choice("retry", RETRIES)),
        meaning=table.text("meaning"),
        neighbours=tuple(_neighbour(item) for item in table.tables("neighbours")),
        examples=table.texts("examples", optional=True, verbatim=True),
        first_check=table.text("first_check"),
        steps=table.texts("steps"),
        missing=tuple(_missing(item) for item in table.tables("missing")),
        reasons=tuple(_reason(item) for item in table.tables("reasons")),
    )
    table.end()
    ids = [reason.id for reason in category.reasons]
    for id in ids:
        if ids.count(id) > 1:
            raise ValueError(f"{table.where}.reasons: {id!r} appears twice")
    return category


def _neighbour(table: Table) -> Neighbour:
    neighbour = Neighbour(table.text("category"), table.text("how"))
    table.end()
    return neighbour


def _missing(table: Table) -> Missing:
    missing = Missing(table.text("when"), table.texts("flags"))
    table.end()
    return missing


def _reason(table: Table) -> Reason:
    reason = Reason(
        id=table.text("id"),
        title=table.text("title"),
        retry=cast("Retry", table.choice("retry", RETRIES)) if "retry" in table.data else None,
        first_check=table.text("first_check") if "first_check" in table.data else None,
        steps=table.texts("steps", optional=True),
    )
    table.end()
    return reason
