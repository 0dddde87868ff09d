"""The sections of one log: the answer, its proof in context, the failures with their tracebacks, what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ddpclassify.language import say
from ddpclassify.page.lanes import Story, Told, files_of, place_of
from ddpclassify.page.markup import Html, join, prose, tag
from ddpclassify.page.picture import STANDINGS, glyph, legend, picture, rank_map
from ddpclassify.report.differences import differences
from ddpclassify.report.stack import Book, Call, innermost, origin, runs
from ddpclassify.report.words import RETRY, bare, lead, listed, place, ranges, rank_words, shorten, title, what, who
from ddpclassify.types import Diagnosis, Event, Failure, Folded, Line

_LINE = 700  # characters kept of a quoted line
_ROWS = 12
_COLUMNS = ("Ranks", "Number", "What they report, in order")
_LANES = 40
_SPARSE = " Of lines that say the same over and over, only the first and the last are drawn."


def answer(folded: Folded, d: Diagnosis, name: str) -> Html:
    """Return the head: what failed, who began, whether to try again."""
    known = d.category != "unknown"
    heading = title(d.category) or d.category
    kind = "good" if d.category == "no_failure" else "bad" if known else "open"
    chips = [tag("code", d.category + (f" · {d.reason}" if d.reason else ""), class_="chip")]
    if known:
        chips.append(tag("span", say("{percent} sure", percent=f"{d.confidence:.0%}"), class_="chip plain"))
    else:
        guesses = ", ".join(f"{c['category']} {c['probability']:.0%}" for c in d.candidates[:3])
        chips.append(
            tag("span", say("not sure enough to say; best guesses: {guesses}", guesses=guesses), class_="chip plain")
        )
    told = who(d)
    told = told[0].upper() + told[1:] + say(".")
    proof = None
    if d.evidence:
        best = d.evidence[0]
        where = listed(
            (place(best["file"], [best["line"]]), rank_words([best["rank"]] if best["rank"] is not None else []))
        )
        proof = tag(
            "p",
            tag("a", where, href=f"#{name}-e1"),
            tag("q", shorten(bare(best["text"]), 320)),
            class_="proof",
        )
    return tag(
        "header",
        tag("p", d.source, class_="source"),
        tag("h2", heading, id=f"{name}-h"),
        tag("p", *chips, class_="chips"),
        tag("p", told, class_="who"),
        proof,
        _facts(folded, d),
        class_=f"answer {kind}",
    )


def _facts(folded: Folded, d: Diagnosis) -> Html:
    last = max(d.progress.values(), key=lambda p: p["line"], default=None) if d.progress else None
    cause = lead(d) if d.category != "no_failure" else None
    inner = innermost(origin(folded, cause))
    rows = (
        ("Again?", say(RETRY[d.retry]) if d.category != "no_failure" else None),
        ("Origin", say(d.origin) if d.origin != "none" else None),
        ("Place", inner.place if inner else cause and cause["location"]),
        ("Ranks", f"{d.world_size:,}" if d.world_size else None),
        ("Host", d.culprit_host),
        ("Last step seen", f"{last['step']:,} ({place(None, [last['line']])})" if last else None),
        ("Log", say("{n} lines", n=f"{d.lines:,}") + f", {_size(d.bytes)}"),
    )
    return tag("dl", *(tag("div", tag("dt", say(k)), tag("dd", v)) for k, v in rows if v), class_="facts")


def _size(n: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB"


def lanes(story: Story, name: str, sparse: bool) -> Html:
    """Return the pictures and the same in words; `sparse` says that the log holds lines that were not kept."""
    if not story.lanes:
        return Html("")
    parts = [
        tag("h3", say("How it spread" if story.begins else "What the ranks say"), id=f"{name}-spread"),
        picture(story, name),
        legend(story),
        tag(
            "p",
            story.axis.caption,
            say(_SPARSE) if sparse else "",
            say(" A mark links to its failure below."),
            class_="hint",
        ),
    ]
    if len(story.ranks) > 16:
        parts += [tag("h4", say("All ranks")), rank_map(story, name)]
    parts.append(_in_words(story, name))
    return tag("section", *parts, class_="picture", aria_labelledby=f"{name}-spread")


def _in_words(story: Story, name: str) -> Html:
    rows = []
    for lane in story.lanes[:_LANES]:
        signs = [
            tag("li", tag("a", f"{shorten(what(m.told.row), 90)}", href=f"#{name}-f{m.told.number}"))
            for m in lane.marks[:6]
        ]
        rows.append(
            tag(
                "tr",
                tag(
                    "th",
                    rank_words(lane.ranks, 400) or say("no rank"),
                    say(" (culprit)") if lane.culprit else "",
                    scope="row",
                ),
                tag("td", f"{len(lane.ranks):,}" if lane.ranks else ""),
                tag("td", tag("ol", *signs) if signs else say("no failure" if lane.spoke else "no line")),
                data_ranks=ranges(lane.ranks) or "-",
            )
        )
    head = tag("thead", tag("tr", *(tag("th", say(h), scope="col") for h in _COLUMNS)))
    words = say("The picture in words")
    return tag("details", tag("summary", words), wide(tag("table", head, tag("tbody", *rows)), words))


def wide(table: Html, label: str, kind: str = "scroll") -> Html:
    """Return a table that can be moved, with the keyboard too, where the page is narrower than it."""
    return tag("div", table, class_=kind, tabindex=0, role="region", aria_label=label)


def evidence(folded: Folded, d: Diagnosis, name: str) -> Html:
    """Return the evidence lines, each with the lines around it."""
    if not d.evidence:
        return Html("")
    book = Book(folded.events.log)
    files = {file.name: i for i, file in enumerate(folded.events.log.files)}
    figures = []
    for number, item in enumerate(d.evidence, 1):
        file = files.get(item["file"], 0) if item["file"] is not None else 0
        where = listed(
            (place(item["file"], [item["line"]]), rank_words([item["rank"]] if item["rank"] is not None else []))
        )
        figures.append(
            tag(
                "figure",
                tag("figcaption", tag("b", f"{number}. "), where),
                excerpt(book.around(file, item["line"]), item["line"]),
                id=f"{name}-e{number}",
                data_ranks=item["rank"] if item["rank"] is not None else "-",
                data_kind="cause",
            )
        )
    more = (
        tag("details", tag("summary", say("{n} more", n=len(figures) - 1)), *figures[1:]) if len(figures) > 1 else None
    )
    return tag(
        "section", tag("h3", say("The proof"), id=f"{name}-proof"), figures[0], more, aria_labelledby=f"{name}-proof"
    )


def excerpt(lines: Sequence[Line], marked: int) -> Html:
    """Return log lines with their numbers; jumps in the numbers are shown, line `marked` stands out."""
    rows: list[Html] = []
    last = None
    for line in lines:
        if last is not None and line.number > last + 1:
            left = line.number - last - 1
            words = "⋯ {n} lines left out" if left > 1 else "⋯ {n} line left out"
            rows.append(tag("span", say(words, n=f"{left:,}"), class_="jump"))
        last = line.number
        raw = line.raw if len(line.raw) <= _LINE else line.raw[:_LINE] + " …"
        rows.append(
            tag(
                "mark" if line.number == marked else "span",
                tag("span", f"{line.number}", class_="n"),
                tag("bdi", raw or " "),
                class_="l",
            )
        )
    return tag("pre", join(rows), class_="log")


def failures(folded: Folded, told: Sequence[Told], name: str) -> Html:
    """Return all failures: the cause, open, then the others in the log's order; lines of little weight folded."""
    if not told:
        return Html("")
    book = Book(folded.events.log)
    cards = {t.number: _card(t, folded, book, name) for t in sorted(told, key=lambda t: t.standing != "cause")}
    small = {t.number for t in told if t.standing == "minor"}
    minor = [card for number, card in cards.items() if number in small]
    others = say("{n} other error lines" if len(minor) > 1 else "{n} other error line", n=len(minor))
    return tag(
        "section",
        tag("h3", say("What failed, and what followed" if len(small) < len(told) else "Error lines"), id=f"{name}-all"),
        *(card for number, card in cards.items() if number not in small),
        tag("details", tag("summary", others), *minor, class_="others") if minor else None,
        class_="failures",
        aria_labelledby=f"{name}-all",
    )


def _card(t: Told, folded: Folded, book: Book, name: str) -> Html:
    f, row = t.failure, t.row
    exception = row["exception"].rpartition(".")[2] if row["exception"] else ""
    message = row["message"] if exception else bare(row["message"])
    count = say("{n} times", n=f"{row['count']:,}") if row["count"] > max(1, len(row["ranks"])) else ""
    where = [
        rank_words(row["ranks"], 60),
        place_of(f.first.line, files_of(folded)),
        count,
        _clock(row["first_time"]),
    ]
    summary = tag(
        "summary",
        glyph(t.standing),
        tag("span", say(STANDINGS[t.standing]) + ": ", class_="sr"),
        tag(
            "span",
            tag("b", exception) if exception else "",
            " " if exception else "",
            shorten(message, 150),
            class_="said",
        ),
        tag("span", " · ".join(filter(None, where)), class_="meta"),
    )
    body: list[Html | str | None] = []
    if len(message) > 150:
        body.append(tag("p", tag("bdi", message), class_="message"))
    body.append(_sides(f, folded))
    if f.first.frames:
        others = folded.events.events if t.standing == "cause" else ()
        body.append(_traceback(book.stack(f.first, others)))
    body.append(_surroundings(f.first, book))
    return tag(
        "details",
        summary,
        *(part for part in body if part),
        id=f"{name}-f{t.number}",
        class_=f"failure {t.standing}",
        open=t.standing == "cause",
        data_ranks=ranges(row["ranks"]) or "-",
        data_kind=t.standing,
        data_what=row["kind"],
    )


def _clock(stamp: str | None) -> str:
    return stamp.partition("T")[2].removesuffix(".000") if stamp else ""


def _sides(f: Failure, folded: Folded) -> Html | None:
    """What differs between ranks, side by side."""
    table = differences(f, folded.failures)
    if table is None:
        return None
    head = tag("thead", tag("tr", *(tag("th", h, scope="col") for h in ("", *table.names))))
    rows = [
        tag("tr", tag("th", rank_words(ranks, 60), scope="row"), *(tag("td", v) for v in values))
        for ranks, values in table.rows[:_ROWS]
    ]
    left = len(table.rows) - len(rows)
    caption = say("What differs between the ranks") + (say(" ({n} more rows left out)", n=left) if left > 0 else "")
    return wide(tag("table", tag("caption", caption), head, tag("tbody", *rows)), caption, "scroll sides")


def _traceback(calls: Sequence[Call]) -> Html:
    inner = innermost(calls)
    parts: list[Html] = []
    for run in runs(calls):
        items = [tag("li", *_call(c), class_="here" if c is inner else None) for c in run.calls]
        if run.user or len(calls) == 1:
            parts.append(tag("ul", *items))
        else:
            n = len(items)
            words = "{n} frames of {packages}" if n > 1 else "{n} frame of {packages}"
            parts.append(tag("details", tag("summary", say(words, n=n, packages=run.packages)), tag("ul", *items)))
    head = None
    if inner is not None:
        head = tag("p", say("In your code: " if inner.frame.user else "In: "), tag("code", inner.place), class_="inner")
        if inner.code:
            head = join([head, tag("pre", tag("code", inner.code), class_="code")])
    whole = tag(
        "details",
        tag("summary", say("Traceback, {n} frames, most recent call last", n=len(calls))),
        *parts,
        class_="tb",
    )
    return join([head, whole]) if len(calls) > 1 else join([head])


def _call(call: Call) -> Iterable[Html]:
    path = call.frame.path
    yield tag("span", tag("bdi", path), f":{call.frame.line}", class_="path")
    if call.frame.function:
        yield tag("span", say(" in "), tag("b", call.frame.function), class_="fn")
    if call.code:
        yield tag("code", call.code)


def _surroundings(event: Event, book: Book) -> Html:
    lines = book.around(event.line.file, event.line.number, 2, 4)
    return tag("details", tag("summary", say("In the log")), excerpt(lines, event.line.number), class_="aside")


def advice(d: Diagnosis, name: str) -> Html:
    """Return what to look at, what to do, and which evidence is missing."""
    check, steps = d.advice.get("first_check", ""), d.advice.get("steps", [])
    parts: list[Html] = []
    first = tag("p", tag("b", say("Look first: ")), prose(check), class_="check") if check else None
    then = tag("ol", *(tag("li", prose(s)) for s in steps)) if steps else None
    if first or then:
        parts.append(tag("div", first, then, class_="two"))
    if d.missing:
        parts.append(tag("h4", say("Missing evidence")))
        parts.append(tag("ul", *(tag("li", prose(m)) for m in d.missing)))
    if not parts:
        return Html("")
    return tag(
        "section", tag("h3", say("What to do"), id=f"{name}-do"), *parts, class_="do", aria_labelledby=f"{name}-do"
    )


def odds(d: Diagnosis) -> Html:
    """Return the other answers that the model weighed."""
    rows = [
        tag(
            "li",
            tag("span", c["category"]),
            tag("meter", f"{c['probability']:.0%}", min=0, max=1, value=round(c["probability"], 3)),
            tag("span", f"{c['probability']:.0%}"),
        )
        for c in d.candidates
    ]
    model = f"{say('model')} {d.model['name']} {d.model['version']}, {d.model['sha256'][:12]}".rstrip(", ")
    return tag(
        "details",
        tag("summary", say("How sure, and what else it could be")),
        tag("ul", *rows, class_="odds"),
        tag("p", model, class_="hint"),
    )
