"""Turns the data rows of `faults/*.toml` into fault templates.

A row describes one kind of exception: who raises it, through which frames, with which messages. The text of a
traceback follows the Python release of the job (fine-grained carets from 3.11 on, call anchors from 3.13 on).
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ddpclassify.tables import read_toml

from .job import weighted
from .script import SYSTEM, Exit, Fault, Job, Say, Script
from .stock.words import Fill

Row = Mapping[str, Any]

BEFORE_GROUP = {"import": (2, 12), "args": (2, 9), "setup": (4, 25), "data": (6, 60)}
"""Phases before the process group exists, with their range of seconds since start."""
EARLY = {"init": (8, 30), "model": (12, 50), "load": (14, 70)}
"""Phases after it and before the first training step."""
NEVER = 1e9
SPREADS = (0.003, 0.02, 0.15, 0.5)
"""Seconds within which all ranks raise, when all do."""
LINKS = {
    "cause": "\nThe above exception was the direct cause of the following exception:\n",
    "context": "\nDuring handling of the above exception, another exception occurred:\n",
}
LEADS = ("Training failed", "Unhandled exception in main", "An error occurred during training", "Fatal error, exiting",
         "Exception in worker", "Job aborted", "Error in training loop")  # fmt: skip


OF_A_HOST = {
    "build_error",
    "cuda_error",
    "dependency_error",
    "external_service",
    "gpu_environment",
    "native_crash",
    "resource_limit",
    "shm_exhausted",
    "storage_error",
}
"""Categories whose faults may lie in one of several hosts: its driver, disk, packages, limits, way out."""
HOST_WIDE = 0.4
"""How often such a fault then shows on all ranks of one host, and on no other."""

SHORT_FOR_SOME = {"shm_exhausted": 0.3, "resource_limit": 0.15, "storage_error": 0.1, "external_service": 0.1}
"""How often what all ranks share runs out for some of them only."""

RANK_ZERO = (
    "{site}/lightning_utilities/core/rank_zero.py | wrapped_fn | return fn(*args, **kwargs)",
    "{site}/pytorch_lightning/utilities/rank_zero.py | wrapped_fn | return fn(*args, **kwargs)",
    "{site}/pytorch_lightning/utilities/distributed.py | wrapped_fn | return fn(*args, **kwargs)",
    "{site}/mmengine/dist/utils.py | wrapper | return func(*args, **kwargs)  # master_only",
    "{site}/accelerate/state.py | execute_on_main_process | return function(*args, **kwargs)",
    "{user}/utils/dist.py | run_if_is_main_process | return fn(*args, **kwargs)",
    "{user}/utils/distributed.py | rank_zero_only | return fn(*args, **kwargs)",
    "{user}/train.py | save_on_rank0 | write(state, path)",
)
"""Wrappers by which only rank 0 does something."""

HYDRA = "Error executing job with overrides: ['{choice:trainer=ddp|model=base|data=full}', 'seed={int:0-99}']"
HYDRA_HINT = "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace."


@dataclass(frozen=True)
class Frame:
    """One call in a traceback: file, function and the source line."""

    path: str
    function: str
    source: str = ""

    @classmethod
    def parse(cls, text: str) -> Frame:
        """Read ``path | function | source``."""
        return cls(*(part.strip() for part in text.split("|", 2)))


def traceback_text(frames: Sequence[Frame], final: str, fill: Fill, rank: int | None = 0, head: bool = True) -> str:
    """A traceback as the job's Python prints it, oldest call first."""
    lines = ["Traceback (most recent call last):"] if head else []
    named = MISSING_NAME.search(final)
    for frame in frames:
        focus = named[1] if named and frame is frames[-1] else ""
        lines += frame_lines(frame, fill, rank, focus)
    return "\n".join([*lines, final])


def frame_lines(frame: Frame, fill: Fill, rank: int | None, focus: str = "") -> list[str]:
    """The lines of one call; line numbers stay the same all through a log."""
    path, source = script_path(frame.path, fill, rank), fill(frame.source, rank)
    # Library code has the same line numbers in every job that runs the same release.
    library = frame.path.startswith("{site}")
    draw = random.Random(f"{frame}{fill.job.torch}") if library else fill.rng
    last = 90 if frame.function == "<module>" else 1900 if library else 600
    number = fill.once(f"{path}|{frame.function}|{frame.source}", lambda rng: str(draw.randint(8, last)))
    lines = [f'  File "{path}", line {number}, in {fill(frame.function, rank)}']
    if source:
        lines.append(f"    {source}")
        carets = caret_line(source, fill.job.python, focus)
        if carets:
            lines.append(f"    {carets}")
    return lines


def script_path(path: str, fill: Fill, rank: int | None) -> str:
    """File of a frame; the entry script gets the job's own script name."""
    for entry in ("{user}/train.py", "{user}/main.py"):
        if path == entry:
            path = "{user}/{script}"
    return fill(path, rank)


_WHOLE = re.compile(r"^(raise|import|from|def|class|@|async|del|global|pass)\b")
_PART = re.compile(r"^(?:return |yield |assert |await |with |if |elif |while |for .+? in |[\w.\[\], '\"]+? [-+*/]?= )")
_CALL = re.compile(r"^((?:await )?[\w.\[\]'\"]+)(\(.*\))$")


MISSING_NAME = re.compile(r"(?:name|variable) '(\w+)' (?:is not defined|referenced|where)")


def caret_line(source: str, python: tuple[int, int], focus: str = "") -> str:
    """Marks below a source line, or nothing where Python leaves them out; `focus` is the name that is missing."""
    if python >= (3, 11) and focus and (found := re.search(rf"\b{focus}\b", source)):
        return " " * found.start() + "^" * len(focus)
    if python < (3, 11) or _WHOLE.match(source) or source.endswith("("):
        return ""
    part = _PART.match(source)
    start = part.end() if part else 0
    expression = re.sub(r"(?<=[\w)\]])( as \w+)?:$", "", source[start:])
    call = _CALL.match(expression)
    if call and python >= (3, 13):
        return " " * start + "~" * len(call[1]) + "^" * len(call[2])
    operands = re.match(r"^([\w.]+ )([-+*/@])( [\w.]+)$", expression)
    if operands:
        return " " * start + "~" * len(operands[1]) + "^" + "~" * len(operands[3])
    if start == 0 and len(expression) == len(source):
        return ""
    return " " * start + "^" * len(expression)


def load_rows(folder: Path) -> dict[str, tuple[str, Fault, dict[str, Sequence[str]]]]:
    """All rows of a folder of category files.

    Parameters
    ----------
    folder
        Holds ``<category>.toml`` files.

    Returns
    -------
    dict
        Template id to category, fault, and what the job must be like.
    """
    templates: dict[str, tuple[str, Fault, dict[str, Sequence[str]]]] = {}
    for path in sorted(folder.glob("*.toml")):
        for row in read_toml(path)["fault"]:
            if row["id"] in templates:
                raise ValueError(f"{path.name}: template id {row['id']!r} appears twice")
            templates[row["id"]] = (path.stem, fault_from_row(path.stem, row), needs_of(row))
    return templates


def fault_from_row(category: str, row: Row) -> Fault:
    """The fault template of one row."""

    def fault(rng: random.Random, job: Job) -> Script:
        return _Telling(rng, job, category, row).script()

    return fault


def needs_of(row: Row) -> dict[str, Sequence[str]]:
    """What a row asks of the job."""
    needs: dict[str, Sequence[str]] = {}
    if row.get("launchers"):
        needs["launcher"] = list(row["launchers"])
    for key in ("torch", "python"):
        if row.get(key):
            needs[key] = [str(bound) for bound in row[key]]
    if row.get("backend"):
        needs["backend"] = [row["backend"]] if isinstance(row["backend"], str) else list(row["backend"])
    return needs


class _Telling:
    """One drawing of a row for one job."""

    def __init__(self, rng: random.Random, job: Job, category: str, row: Row) -> None:
        self.rng, self.job, self.category, self.row = rng, job, category, row
        self.fill = Fill(rng, job)
        self.phase: str = row.get("phase", "step")
        self.style: str = row.get("style", "")
        self.message = rng.choice(row["messages"])
        self.chain = [(part, rng.choice(part["messages"])) for part in row.get("chain", [])]
        self.lead = rng.choice(LEADS)
        self.rank_zero: Frame | None = None  # the wrapper that lets only rank 0 do what fails
        self.hydra = rng.random() < 0.04 and not self.style and self.phase not in ("import", "args")

    def script(self) -> Script:
        scope, ranks = self._who()
        if scope == "launcher":
            return self._launcher_script()
        rng, row = self.rng, self.row
        start, fails_at = self._times()
        order = list(ranks)
        rng.shuffle(order)
        spread = rng.choice(SPREADS)
        says: list[Say] = []
        exits: list[Exit] = []
        for rank in order:
            t = fails_at + rng.uniform(0, spread)
            says += self._says(rank, t)
            exits.append(Exit(rank, t + rng.uniform(0.05, 0.9), int(row.get("exit", 1))))
        everyone = scope == "all"
        return Script(
            self.category,
            row["reason"],
            scope,
            () if everyone else tuple(sorted(ranks)),
            says,
            exits,
            start,
            fails_at,
            in_group=self._in_group(),
            no_culprit_mark="" if everyone else "unknown",
            told=bool(self.rank_zero) and not everyone,
        )

    def _launcher_script(self) -> Script:
        """The launching command itself fails: no rank ever starts."""
        t = self.rng.uniform(0.3, 0.5)
        says = [replace(say, who=SYSTEM, kind="raw") for say in self._says(0, t)]
        return Script(
            self.category,
            self.row["reason"],
            "launcher",
            (),
            says,
            start=NEVER,
            fails_at=t,
            in_group=False,
            peers=False,
        )

    def _times(self) -> tuple[float, float]:
        rng = self.rng
        window = BEFORE_GROUP.get(self.phase) or EARLY.get(self.phase)
        start = rng.uniform(20, 90)
        if window:
            return NEVER, rng.uniform(*window)
        return start, start + rng.choice((rng.uniform(2, 30), rng.uniform(30, 900), rng.uniform(900, 40000)))

    def _in_group(self) -> bool:
        calls = " ".join(self.row.get("frames", []))
        return self.phase not in BEFORE_GROUP and "init_process_group" not in calls

    def _who(self) -> tuple[str, tuple[int, ...]]:
        rng, world = self.rng, self.job.world_size
        where = {key: float(weight) for key, weight in self.row.get("where", {"all": 1}).items() if weight > 0}
        choice = weighted(rng, where or {"all": 1.0})
        if choice == "launcher":
            return "launcher", ()
        if choice == "all" and rng.random() < SHORT_FOR_SOME.get(self.category, 0.0):
            choice = "some"
        of_host = choice == "some" or (choice == "all" and self.category in OF_A_HOST)
        if of_host and len(self.job.hosts) > 1 and rng.random() < HOST_WIDE:
            first = rng.randrange(len(self.job.hosts)) * self.job.per_node
            return "ranks", tuple(range(first, first + self.job.per_node))
        if world == 1 or choice == "all":
            return "all", tuple(range(world))
        if choice == "rank0" and self.phase != "import" and rng.random() < 0.5:
            self.rank_zero = Frame.parse(rng.choice(RANK_ZERO))
        if choice == "some" and self.job.per_node > 2 and rng.random() < 0.4:
            # The last of every host: more processes than devices, or than what else a host has.
            least = rng.randrange(1, self.job.per_node)
            return "ranks", tuple(rank for rank in range(world) if rank % self.job.per_node >= least)
        if choice == "some" and world > 2:
            ranks = rng.sample(range(world), rng.randint(2, max(2, min(world - 1, world // 2))))
            return "ranks", tuple(sorted(ranks))
        return "ranks", (0 if choice == "rank0" else rng.randrange(world),)

    def _says(self, rank: int, t: float) -> list[Say]:
        says = []
        for entry in self.row.get("prelude", []):
            text, marked = (entry, False) if isinstance(entry, str) else (entry["text"], bool(entry.get("evidence")))
            says.append(Say(rank, t - 0.002, self.fill(text, rank), evidence=(0,) if marked else ()))
        if self.hydra:
            says.append(Say(rank, t - 0.001, self.fill(HYDRA, rank)))
        text, evidence = STYLES.get(self.style, _Telling._traceback)(self, rank)
        kind = {"": "traceback", "syntax": "traceback", "logged": "log"}.get(self.style, "raw")
        if self.hydra:  # Hydra prints the traceback itself, so the excepthook never sees it
            kind, text = "raw", f"{text}\n\n{HYDRA_HINT}"
        says.append(Say(rank, t, text, kind=kind, evidence=evidence))
        return says

    def _final(self, exception: str, message: str, rank: int) -> str:
        exception, text = self.fill(exception, rank), self.fill(message, rank)
        return f"{exception}: {text}" if exception and text else exception or text

    def _evidence(self, first: int) -> tuple[int, ...]:
        return tuple(first + int(offset) for offset in self.row.get("evidence", [0]))

    def _frames(self, row: Row) -> list[Frame]:
        frames = [Frame.parse(text) for text in row.get("frames", [])]
        if self.rank_zero and frames and (row is self.row or not self.chain):
            library = [number for number, frame in enumerate(frames) if frame.path.startswith("{site}")]
            frames.insert(library[0] if library else len(frames) - 1, self.rank_zero)
        entry = frames and row is self.row and frames[0].function != "<module>" and "{user}" in frames[0].path
        if entry and self.job.launcher not in ("mp.spawn", "ray"):
            name = frames[0].function
            call = f"{name}(args)" if name.isidentifier() and "." not in name else "main(args)"
            frames.insert(0, Frame("{user}/train.py", "<module>", call))
        return frames

    def _traceback(self, rank: int) -> tuple[str, tuple[int, ...]]:
        lines: list[str] = []
        evidence: list[int] = []
        worker = ""
        for number, (part, message) in enumerate(self.chain):
            final = self._final(part.get("exception", ""), message, rank)
            block = traceback_text(self._frames(part), final, self.fill, rank).split("\n")
            marks = number == 0 or self.row.get("chain_evidence") == "both"
            where = len(block) - len(final.split("\n"))
            if part.get("link") == "dataloader":
                # The worker's traceback travels inside the message of the exception raised in the parent.
                worker = "\n".join(["Original Traceback (most recent call last):", *block[1:]])
                if lines:
                    worker = "\n".join(["Original Traceback (most recent call last):", *lines[1:], *block])
                    where = evidence[0] if evidence else where
                    lines = []
                evidence = [where] if marks or evidence else []
                continue
            if marks:
                evidence.append(len(lines) + where)
            lines += [*block, *LINKS[part.get("link", "cause")].split("\n")]
        exception, message = self.row.get("exception", ""), self.message
        final = self._final(exception, message, rank)
        block = traceback_text(self._frames(self.row), final, self.fill, rank).split("\n")
        first = len(lines) + len(block) - len(final.split("\n"))
        if worker:
            lines += [*block, *worker.split("\n"), ""]
            shift = len(lines) - len(worker.split("\n")) - 1
            return "\n".join(lines), tuple(shift + offset for offset in evidence)
        lines += block
        if not self.chain or self.row.get("chain_evidence") == "both":
            evidence += self._evidence(first)
        return "\n".join(lines), tuple(evidence)

    def _syntax(self, rank: int) -> tuple[str, tuple[int, ...]]:
        frames = self._frames(self.row)
        *calls, last = frames or [Frame("{user}/train.py", "<module>", "")]
        final = self._final(self.row.get("exception", "SyntaxError"), self.message, rank)
        text = traceback_text([call for call in calls if call.source or call.path != last.path], "", self.fill, rank)
        lines = text.split("\n")[:-1] if calls else []
        source = self.fill(last.source, rank)
        number = self.fill.once("syntax", lambda rng: str(rng.randint(5, 400)))
        lines += [f'  File "{script_path(last.path, self.fill, rank)}", line {number}']
        if source:
            width = 1 if self.job.python < (3, 10) else min(len(source), 1 + len(source) // 4)
            column = max(0, len(source) - width) if len(source) % 3 else len(source) // 2
            lines += [f"    {source}", "    " + " " * column + "^" * width]
        return "\n".join([*lines, final]), self._evidence(len(lines))

    def _argparse(self, rank: int) -> tuple[str, tuple[int, ...]]:
        name = self.job.script.rsplit("/", 1)[-1]
        final = f"{name}: error: {self.fill(self.message, rank)}"
        if "error:" in self.message or self.message.startswith("usage"):
            final = self.fill(self.message, rank)
        if final.startswith("usage"):
            lines = final.split("\n")
            return final, (len(lines) - 1,)
        usage = self.fill.once("usage", lambda rng: "\n".join([
            f"usage: {name} [-h] [--data DATA] [--epochs N] [--batch-size B] [--lr LR]",
            " " * (len(name) + 8) + rng.choice(("[--local_rank LOCAL_RANK] [--amp]", "[--resume PATH] [--seed SEED]",
                                                "[--config CONFIG] [--output-dir DIR]")),
        ]))  # fmt: skip
        return f"{usage}\n{final}", self._evidence(2)

    def _bare(self, rank: int) -> tuple[str, tuple[int, ...]]:
        return self._final(self.row.get("exception", ""), self.message, rank), self._evidence(0)

    def _logged(self, rank: int) -> tuple[str, tuple[int, ...]]:
        final = self._final(self.row.get("exception", ""), self.message, rank)
        if not self.row.get("frames"):
            return final, self._evidence(0)
        head = f"{self.lead}: {final.splitlines()[0]}" if self.rng.random() < 0.5 else self.lead
        text, evidence = self._traceback(rank)
        return f"{head}\n{text}", tuple(offset + 1 for offset in evidence)


STYLES = {
    "syntax": _Telling._syntax, "argparse": _Telling._argparse, "bare": _Telling._bare, "logged": _Telling._logged,
}  # fmt: skip
