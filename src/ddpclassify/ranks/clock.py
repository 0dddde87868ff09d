"""Times of log lines as seconds on one axis."""

from __future__ import annotations

from datetime import date

_MONTHS = {
    m: i + 1 for i, m in enumerate(["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"])
}


class Clock:
    """Turns the time groups of a form into seconds; a missing year or day is taken from the last line that had it."""

    def __init__(self) -> None:
        self.year, self.month, self.day = 2000, 1, 1

    def seconds(self, groups: dict[str, str | None]) -> float | None:
        """Return seconds since an arbitrary day, or `None` when the groups hold no (valid) time."""
        hour = groups.get("h")
        if hour is None:
            return None
        md = groups.get("md")
        try:
            year = int(groups.get("y") or self.year)
            if md:  # c10 writes month * 100 + day without padding: 321 is 21 March
                month, day = divmod(int(md), 100)
            else:
                named = groups.get("mon")
                month = _MONTHS[named] if named else int(groups.get("mo") or self.month)
                day = int(groups.get("d") or self.day)
            days = date(year, month, day).toordinal()
            if int(hour) > 23:
                return None
            seconds = float((groups.get("s") or "0").replace(",", "."))
            value = days * 86400.0 + int(hour) * 3600 + int(groups.get("mi") or 0) * 60 + seconds
        except ValueError:
            return None
        self.year, self.month, self.day = year, month, day
        return value
