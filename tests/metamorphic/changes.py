"""Changes of a log that must not change its diagnosis, one function a kind.

Each takes the log's text, what the stages say of it, and a random generator, and returns the changed text, or `None`
where the log has nothing of the kind.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from ddpclassify.types import Folded

Change = Callable[[str, Folded, random.Random], "str | None"]
_RANK = re.compile(
    r"(?i)(?P<before>\b(?:(?:local|global|world)[_ ])?ranks?(?:\s*[:=#]\s?|\s\[|\[|\s|)|\[default|^\[\d,|^ *(?=\d+: )"
    r"|SpawnProcess-|\bProcess (?=\d+ terminated)|\[\[\d+,\d+\],|\bGPU |cuda:)"
    r"(?P<rank>\d{1,5})(?P<more>(?:, ?\d{1,5})*)(?![\d.])",
    re.M,
)
_TIME = re.compile(r"(?<![\d:.])(?P<h>[01]\d|2[0-3])(?P<rest>:[0-5]\d:[0-5]\d)(?![\d:])")
_DAY = re.compile(r"(?<!\d)20\d\d([-/])\d\d\1\d\d(?!\d)")
_GLOG = re.compile(r"(?P<before>(?:^|[\s\[:])[EWIF])(?P<md>\d{4})(?= \d\d:\d\d:\d\d)", re.M)
_PATH = re.compile(r"(?<![\w.])/(?P<top>home|mnt|data|scratch|workspace|work|job|nfs|lustre|fsx|shared|projects)(?=/)")
_SIZE = re.compile(r"\b\d+(?:\.\d+)?(?= ?(?:[KMGT]i?B|bytes)\b)")
_PREFIX = re.compile(r"^\[(?:rank|default)(?P<rank>\d{1,4})\]: ?(?:\[rank\d+\]: ?)?(?P<text>.*)$")


def renumbering(ranks: set[int], rng: random.Random) -> dict[int, int]:
    """Return another number for each rank but 0, whose part is special by custom."""
    others = sorted(ranks - {0})
    shift = rng.randrange(1, max(2, len(others)))
    return {0: 0, **{rank: others[(i + shift) % len(others)] for i, rank in enumerate(others)}}


def renumber(text: str, numbers: dict[int, int]) -> str:
    def other(match: re.Match[str]) -> str:
        minus = match["before"].startswith("SpawnProcess")  # counts from 1
        first = int(match["rank"]) - minus
        more = re.sub(r"\d+", lambda m: str(numbers.get(int(m.group()), int(m.group()))), match["more"])
        return f"{match['before']}{numbers.get(first, first) + minus}{more}"

    return _RANK.sub(other, text)


def times(text: str, folded: Folded, rng: random.Random) -> str | None:
    """Another day, and some hours later."""
    hours = [int(m["h"]) for m in _TIME.finditer(text)]
    if not hours:
        return None
    later = rng.randrange(24 - max(hours)) if max(hours) < 23 else 0
    text = _TIME.sub(lambda m: f"{int(m['h']) + later:02}{m['rest']}", text)
    days = sorted({m.group().replace("/", "-") for m in _DAY.finditer(text)})
    new = {day: f"2025-03-{11 + i:02}" for i, day in enumerate(days[:15])}
    text = _DAY.sub(lambda m: new.get(m.group().replace("/", "-"), m.group()).replace("-", m[1]), text)
    marks = sorted({m["md"] for m in _GLOG.finditer(text)})
    return _GLOG.sub(lambda m: m["before"] + f"{311 + marks.index(m['md']):04}", text)


def paths(text: str, folded: Folded, rng: random.Random) -> str | None:
    """The job's files lie elsewhere."""
    top = rng.choice(["/srv/team7", "/gpfs/u12/proj_3", "/vol"])
    changed = _PATH.sub(lambda m: f"{top}/{m['top']}", text)
    return changed if changed != text else None


def hosts(text: str, folded: Folded, rng: random.Random) -> str | None:
    """Other names for the machines."""
    names = sorted((h for h in folded.events.log.facts.hosts if h and re.fullmatch(r"[a-z][\w-]*\d", h)), key=len)
    if not names:
        return None
    new = {name: f"cn{rng.randrange(10, 99)}{i:02}" for i, name in enumerate(names)}
    return re.sub(r"\b(?:" + "|".join(map(re.escape, reversed(names))) + r")\b", lambda m: new[m.group()], text)


def pids(text: str, folded: Folded, rng: random.Random) -> str | None:
    """Other process ids."""
    log = folded.events.log
    known = {line.pid for line in log.lines if line.pid} | {pid for _, pid in log.facts.pid_ranks}
    known |= {int(m) for m in re.findall(r"(?i)\b(?:pid|process)[ =:]+(\d{3,8})\b", text)}
    known = {pid for pid in known if pid is not None and pid >= 1000}
    if not known:
        return None
    move = rng.randrange(1001, 90001)
    return re.sub(
        r"(?<![\d.:])\d{4,8}(?![\d.])", lambda m: str(int(m.group()) + move * (int(m.group()) in known)), text
    )


def sizes(text: str, folded: Folded, rng: random.Random) -> str | None:
    """Other amounts of memory and of data."""
    changed = _SIZE.sub(lambda m: f"{rng.uniform(1, 80):.2f}" if "." in m.group() else str(rng.randrange(2, 900)), text)
    return changed if changed != text else None


def noise(text: str, folded: Folded, rng: random.Random) -> str | None:
    """More of the healthy lines that come before anything goes wrong."""
    first = min((e.line.number for e in folded.events.events if e.role != "info"), default=0)
    lines = text.split("\n")
    healthy = [i for i in range(1, min(first - 1, len(lines))) if re.search(r"(?i)step|iter|epoch|loss|INFO", lines[i])]
    if not healthy:
        return None
    often = {i: rng.randrange(2, 6) for i in rng.sample(healthy, min(len(healthy), 12))}
    return "\n".join(line for i, line in enumerate(lines) for _ in range(often.get(i, 1)))


def consequences(text: str, folded: Folded, rng: random.Random) -> str | None:
    """What others say of the failure, said again."""
    echoes = [e for e in folded.events.events if e.role == "echo" and e.kind != "traceback" and not e.more]
    if not echoes:
        return None
    often = {e.line.number - 1: rng.randrange(2, 5) for e in rng.sample(echoes, min(len(echoes), 6))}
    lines = text.split("\n")
    return "\n".join(line for i, line in enumerate(lines) for _ in range(often.get(i, 1)))


_FORMS = ("[rank{}]: ", "[default{}]:", "[default{0}]:[rank{0}]: ", "[1,{}]<stderr>:", "{}: ")


def prefixes(text: str, folded: Folded, rng: random.Random) -> str | None:
    """Another launcher's mark of the rank on every line that bears one."""
    lines = text.split("\n")
    marked = [_PREFIX.match(line) for line in lines]
    share = sum(m is not None for m in marked) / max(1, len(lines))
    if share < 0.05:
        return None
    form = rng.choice(_FORMS if share > 0.6 else _FORMS[:-1])  # a bare number means nothing where few lines bear it
    return "\n".join(form.format(m["rank"]) + m["text"] if m else line for m, line in zip(marked, lines, strict=True))


KINDS: dict[str, Change] = {
    "times": times,
    "paths": paths,
    "hosts": hosts,
    "pids": pids,
    "sizes": sizes,
    "healthy noise": noise,
    "consequences twice": consequences,
    "prefix form": prefixes,
}
