"""A hang is a silence of some while others go on; everything else is no news."""

from __future__ import annotations

from collections.abc import Iterable

from ddpclassify.watch.silence import Silence


def write(silence: Silence, ranks: Iterable[int], start: float, end: float, every: float = 1.0) -> None:
    ranks = list(ranks)
    while start < end:
        for rank in ranks:
            silence.heard(rank, start)
        start += every


def test_a_rank_that_falls_silent_is_missed() -> None:
    silence = Silence(100)
    write(silence, range(8), 0, 200)
    write(silence, [0, 1, 2, 4, 5, 6, 7], 200, 290)
    assert silence.hang(290) is None
    write(silence, [0, 1, 2, 4, 5, 6, 7], 290, 310)
    found = silence.hang(310)
    assert found is not None
    assert (found.silent, found.active) == ((3,), (0, 1, 2, 4, 5, 6, 7))
    assert 100 <= found.seconds <= 112


def test_nobody_writes_is_no_news_and_not_a_hang() -> None:
    silence = Silence(100)
    assert silence.quiet(50) is None
    write(silence, range(8), 0, 200)
    assert silence.hang(500) is None
    assert silence.quiet(250) is None
    assert silence.quiet(320) == 121


def test_ranks_that_only_wrote_at_the_start_are_not_missed() -> None:
    silence = Silence(100)
    write(silence, range(8), 0, 30)
    write(silence, [0], 30, 2000)
    assert silence.hang(2000) is None


def test_a_rank_that_always_writes_seldom_is_not_missed() -> None:
    silence = Silence(100)
    write(silence, [1], 0, 1000, every=90)
    write(silence, [0], 0, 1200)
    assert silence.hang(1200) is None


def test_silence_that_began_before_the_watch() -> None:
    silence = Silence(100)
    for rank in range(4):
        for _ in range(500):
            silence.heard(rank, 0, before=True)
    write(silence, [0, 1, 2], 1, 150)
    found = silence.hang(150)
    assert found is not None
    assert found.silent == (3,)
    talkative = Silence(100)
    for rank, lines in ((0, 5000), (1, 30), (2, 30)):
        for _ in range(lines):
            talkative.heard(rank, 0, before=True)
    write(talkative, [0], 1, 150)
    assert talkative.hang(150) is None
