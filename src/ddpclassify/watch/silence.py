"""Tell "no news yet" from a hang: some ranks, which wrote steadily before, say nothing for long while others go on."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

_STEADY = 20  # lines that a rank must have written before we came, to be missed
_USUAL = 3.0  # so many times longer than its longest silence so far
_RANKS = 1 << 17


@dataclass(slots=True)
class Voice:
    """What was heard of one rank; times are seconds on the watcher's clock."""

    first: float
    last: float
    longest: float = 0.0
    before: int = 0  # lines that stood in the log when the watch began
    text: bytes = b""


@dataclass(frozen=True)
class Hang:
    """Who is silent, for how long at least, and who goes on."""

    silent: tuple[int, ...]
    active: tuple[int, ...]
    seconds: float


class Silence:
    """Listens to the ranks; `limit` is how many seconds without a line are long."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.voices: dict[int, Voice] = {}
        self.last = float("-inf")  # of any line, also of no rank

    def heard(self, rank: int | None, now: float, text: bytes = b"", before: bool = False) -> None:
        """Note a line; `before` when it stood in the log already as the watch began."""
        self.last = now
        if rank is None or (rank not in self.voices and len(self.voices) >= _RANKS):
            return
        voice = self.voices.setdefault(rank, Voice(now, now))
        voice.longest = max(voice.longest, now - voice.last)
        voice.last, voice.text = now, text
        voice.before += before

    def quiet(self, now: float) -> float | None:
        """Return for how long nobody has written anything, when that is long."""
        silent = now - self.last
        return silent if self.limit <= silent < float("inf") else None

    def hang(self, now: float) -> Hang | None:
        """Return who is missed, if somebody is.

        Many jobs let only rank 0 write after the start; so a rank is missed only when it wrote over at least `limit`
        seconds, or, before the watch began, about as much as those who go on.
        """
        active = {r: v for r, v in self.voices.items() if now - v.last < self.limit / 2}
        usual = median(v.before for v in active.values()) if active else 0
        silent = {
            r: v
            for r, v in self.voices.items()
            if now - v.last >= max(self.limit, _USUAL * v.longest)
            and (v.last - v.first >= self.limit or v.before >= max(_STEADY, usual / 2))
        }
        if not active or not silent:
            return None
        return Hang(tuple(sorted(silent)), tuple(sorted(active)), now - max(v.last for v in silent.values()))
