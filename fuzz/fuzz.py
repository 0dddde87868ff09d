"""Coverage-guided fuzzing of one target: `python fuzz/fuzz.py TARGET [libFuzzer's options]`; see `fuzz/run`."""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

HERE = Path(__file__).parent

with atheris.instrument_imports(include=["ddpclassify"]):
    from targets import TARGETS

    from ddpclassify.events.statements import STATEMENTS
    from ddpclassify.fold.normalise import MASKS
    from ddpclassify.ranks.forms import FORMS
    from ddpclassify.read.literals import LITERALS


# What breaks parsers only when there is much of it, which no mutation finds.
MUCH = (b'{"log": ' + b"[" * 3000, b'{"a":' * 800, b"9" * 4000, b"\x1b[" * 1500, b"  " * 1500 + b"raise x")


def seeds(folder: Path) -> None:
    """Write what the fuzzer starts from: every example of every table, the kept cases, a small model."""
    folder.mkdir(parents=True, exist_ok=True)
    said = [row.example for row in STATEMENTS] + [row.example + "x" for row in FORMS] + [row[3] for row in MASKS]
    for number, text in enumerate(said):
        (folder / f"row{number}").write_text(text)
    for number, data in enumerate(MUCH):
        (folder / f"much{number}").write_bytes(b"[rank3]: " * (number % 2) + data)
    for case in (HERE.parent / "tests" / "cases").glob("*.log"):
        data = case.read_bytes()
        for start in range(0, len(data), 1500):
            (folder / f"{case.stem}-{start}").write_bytes(data[start : start + 3000])
    bin_ = (HERE.parent / "models" / "default" / "model.bin").read_bytes()
    (folder / "model-head").write_bytes(bin_[:4096])


def dictionary(path: Path) -> None:
    words = [word for word, _ in LITERALS] + [
        b"[rank3]: ",
        b"\x1b[31m",
        b"\r",
        b"\xff\xfe",
        b"9" * 5000,
        b"\xe2\x95\xad",
    ]
    path.write_text("".join('"' + "".join(f"\\x{b:02x}" for b in word[:60]) + '"\n' for word in words))


def main() -> None:
    name, *options = sys.argv[1:]
    corpus = HERE / "corpus" / name
    if not corpus.exists():
        seeds(corpus)
    dictionary(HERE / "corpus" / "words.dict")
    found = HERE / "found" / name
    found.mkdir(parents=True, exist_ok=True)
    fixed = [
        f"-dict={HERE / 'corpus' / 'words.dict'}",
        f"-artifact_prefix={found}/",
        "-timeout=20",
        "-rss_limit_mb=3000",
    ]
    target = TARGETS[name]

    def one(data: bytes) -> None:
        target(data)

    atheris.Setup([sys.argv[0], *fixed, *options, str(corpus)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
