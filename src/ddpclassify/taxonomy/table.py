"""A TOML table of the taxonomy, taken apart so that every mistake in it is told with its place."""

from __future__ import annotations

from typing import Any


class Table:
    """A TOML table that is taken apart key by key; `end` complains about what nobody asked for.

    `where` is the file and the path inside it, the beginning of every complaint.
    """

    def __init__(self, data: object, where: str) -> None:
        self.where = where
        if not isinstance(data, dict):
            raise ValueError(f"{where}: must be a table, not {_kind(data)}")
        self.data: dict[str, Any] = dict(data)

    def _at(self, key: str) -> str:
        # "file.toml: category.NAME.key"
        return f"{self.where}.{key}" if ": " in self.where else f"{self.where}: {key}"

    def _take(self, key: str) -> object:
        if key not in self.data:
            raise ValueError(f"{self._at(key)}: is missing")
        return self.data.pop(key)

    def _string(self, value: object, at: str) -> str:
        if not isinstance(value, str):
            raise ValueError(f"{at}: must be text, not {_kind(value)}")
        if not value.strip():
            raise ValueError(f"{at}: is empty")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Prose on one line: the line breaks of a file are for its editor."""
        if default is not None and key not in self.data:
            return default
        return " ".join(self._string(self._take(key), self._at(key)).split())

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.text(key)
        if value not in allowed:
            raise ValueError(f"{self._at(key)}: must be one of {', '.join(allowed)}; not {value!r}")
        return value

    def texts(self, key: str, *, optional: bool = False, verbatim: bool = False) -> tuple[str, ...]:
        if optional and key not in self.data:
            return ()
        items = self._take(key)
        if not isinstance(items, list) or not items:
            raise ValueError(f"{self._at(key)}: must be a list of texts, not {_kind(items)}")
        texts = [self._string(item, f"{self._at(key)}[{i}]") for i, item in enumerate(items)]
        return tuple(texts if verbatim else (" ".join(text.split()) for text in texts))

    def table(self, key: str) -> Table:
        return Table(self._take(key), self._at(key))

    def tables(self, key: str) -> list[Table]:
        items = self.data.pop(key, [])
        if not isinstance(items, list):
            raise ValueError(f"{self._at(key)}: must be a list of tables, not {_kind(items)}")
        return [Table(item, f"{self._at(key)}[{i}]") for i, item in enumerate(items)]

    def end(self) -> None:
        for key in self.data:
            raise ValueError(f"{self._at(key)}: unknown key")


_KINDS = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "a table"}


def _kind(value: object) -> str:
    """Say what a value is in the words of somebody who writes the file."""
    return "an empty list" if value == [] else _KINDS.get(type(value), "a date or time")
