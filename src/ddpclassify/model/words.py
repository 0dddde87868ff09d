"""A vocabulary as three flat arrays: looked up where it lies in the file, so loading it costs nothing."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from zlib import crc32

_REMEMBERED = 1 << 16


class Words(Mapping[str, int]):
    """The index of each word; an open-addressing hash table (linear probing, CRC-32).

    Parameters
    ----------
    text : all words, UTF-8, one after the other
    ends : where each starts; one more than words
    slots : 0, or index + 1 of a word whose CRC-32 led there
    """

    def __init__(self, text: memoryview, ends: Sequence[int], slots: Sequence[int]) -> None:
        self.text, self.ends, self.slots = text, ends, slots
        self._known: dict[str, int | None] = {}

    @classmethod
    def of(cls, words: Sequence[str]) -> Words:
        """Return the table of some distinct words."""
        encoded = [w.encode() for w in words]
        ends = array("I", [0])
        for word in encoded:
            ends.append(ends[-1] + len(word))
        size = 4
        while size < 2 * len(words):
            size *= 2
        slots = array("I", bytes(4 * size))
        for index, word in enumerate(encoded):
            slot = crc32(word) & (size - 1)
            while slots[slot]:
                slot = (slot + 1) & (size - 1)
            slots[slot] = index + 1
        return cls(memoryview(b"".join(encoded)), ends, slots)

    def get(self, word: str, default: int | None = None) -> int | None:  # type: ignore[override]
        """Return the index of a word."""
        try:
            found = self._known[word]
        except KeyError:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            found = self._known[word] = self._find(word.encode("utf-8", "replace"))
        return default if found is None else found

    def _find(self, word: bytes) -> int | None:
        last = len(self.slots) - 1
        slot = crc32(word) & last
        for _ in range(last):  # a damaged table may have no empty slot
            index = self.slots[slot]
            if not index:
                break
            if self.text[self.ends[index - 1] : self.ends[index]] == word:
                return index - 1
            slot = (slot + 1) & last
        return None

    def __getitem__(self, word: str) -> int:
        if (index := self.get(word)) is None:
            raise KeyError(word)
        return index

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __iter__(self) -> Iterator[str]:
        for i in range(len(self)):
            yield str(self.text[self.ends[i] : self.ends[i + 1]], "utf-8", "replace")
