"""The prefix forms: how launchers, loggers and shippers mark who wrote a line, and when.

One row a form, each with an example that the tests check. A line is stripped from the left, form after form, until
none matches; inner marks override outer ones (the innermost global rank wins). Guidelines for a row:

- groups give the facts: ``rank`` (global), ``local`` (index on the node), ``task`` (a launcher's own index, global
  only with one task a GPU), ``device`` (CUDA ordinal), ``host``, ``pid``, ``level``, ``origin``; times have their own
  groups (see `clock`);
- `starts` lists the characters a match can begin with (``0`` stands for any digit, ``a`` for any letter): most rows
  are never tried;
- `weak` rows look like everyday text, so they count only where a good share of a file's lines bears them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property


@dataclass(frozen=True)
class Form:
    name: str
    starts: str
    pattern: str
    example: str
    weak: bool = False

    @cached_property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self.pattern)


_DATE = r"(?P<y>\d{4})[-/](?P<mo>\d\d?)[-/](?P<d>\d\d?)"
_CLOCK = r"(?P<h>\d\d?):(?P<mi>\d\d):(?P<s>\d\d(?:[.,]\d+)?)"
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_LEVEL = r"(?P<level>TRACE|DEBUG|INFO|NOTICE|SUCCESS|WARN|WARNING|ERROR|CRITICAL|FATAL)"

FORMS: tuple[Form, ...] = (
    # --- times in front of everything: CI, ts, kubectl, docker, loggers
    Form("iso", "0[", rf"\[?{_DATE}(?:[T ]|  )\s?{_CLOCK}(?:\s?(?:Z|UTC|[+-]\d\d:?\d\d))?\]?(?::(?=\s)|,)?\s*(?:-\s+)?",
         "2026-12-01T12:00:00.123456789Z "),
    Form("us date", "0[", rf"\[?(?P<mo>\d\d)/(?P<d>\d\d)(?:/(?P<y>\d{{4}}))? (?:-\s)?{_CLOCK}(?:\s?[AP]M)?\]?\s*(?:-\s+)?",
         "12/01/2026 12:00:00 - "),
    Form("syslog", "JFMASOND", rf"(?P<mon>{_MONTHS}) +(?P<d>\d\d?) {_CLOCK} (?P<host>[\w.-]+) (?=kernel:|[\w./-]+(?:\[\d+\])?:)",
         "Dec  1 12:00:00 node7 "),
    Form("ctime", "[MTWFS", rf"\[?(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (?P<mon>{_MONTHS}) +(?P<d>\d\d?) {_CLOCK} (?P<y>\d{{4}})\]?\s*(?=\S)",
         "[Sun Nov  2 23:51:07 2025] "),
    Form("uptime", "[", r"\[\s*\d{1,9}\.\d{6}\] ", "[12345.678901] "),
    Form("kernel", "k", r"kernel:\s*", "kernel: "),
    Form("clock only", "0[", rf"\[?{_CLOCK}\]?\s+(?=[A-Z\[(\d])", "[18:40:57] "),
    Form("cri", "s", r"(?:stdout|stderr) [FP] ", "stderr F "),
    # --- pods, hosts, containers
    Form("kubectl", "[", r"\[pod/(?P<host>[\w.-]+)/[\w.-]+\] ?", "[pod/job-worker-2/pytorch] "),
    Form("pod/container", "a", r"(?P<host>[a-z0-9]+(?:[-.][a-z0-9]+)+)/[a-z][\w-]*:?\s+", "train-pool-7/pytorch  ", weak=True),
    Form("stern", "a", r"(?P<host>[a-z][a-z0-9]*(?:-[a-z0-9]+)+) (?:pytorch|trainer|main|worker|container\w*) ",
         "job-worker-2 pytorch ", weak=True),
    Form("compose", "a", r"(?P<host>[\w.-]+)\s+\| ?", "worker-1  | ", weak=True),
    Form("pdsh", "a0", r"(?P<host>(?:[a-z][\w-]{0,63}[\w.]{0,190}|\d+\.\d+\.\d+\.\d+)): ", "node7: ", weak=True),
    Form("host word", "a", r"(?P<host>(?=[a-z.-]*\d)[a-z][a-z0-9]*(?:[-.][a-z0-9]+)*)\s", "algo-1 ", weak=True),
    Form("program", "a", r"[A-Za-z][\w.@/-]*\[(?P<pid>\d+)\]: ?", "train[4711]: ", weak=True),
    Form("torchx", "a", r"[a-z]\w*/(?P<task>\d+) ", "trainer/3 ", weak=True),
    # --- launchers' tags
    Form("srun label", " 0", r" *(?P<task>\d+): ", " 3: ", weak=True),
    Form("parallel tag", "0", r"(?P<task>\d+)\t", "3\t", weak=True),
    Form("open mpi", "[", r"\[\d+,(?P<rank>\d+)\](?:<\w+>)?: ?", "[1,3]<stderr>:"),
    Form("open mpi 5", "[", r"\[prterun-(?P<host>[\w.-]+)-\d+@\d+,(?P<rank>\d+)\](?:<\w+>)?: ?", "[prterun-n1-77@1,3]<stdout>: "),
    Form("sagemaker mpi", "[", r"\[\d+,mpirank:(?P<rank>\d+),(?P<host>[\w.-]+)\](?:<\w+>)?: ?", "[1,mpirank:3,algo-1]<stdout>:"),
    Form("mpich", "[", r"\[(?P<rank>\d+)\] ", "[3] ", weak=True),
    Form("ray", "(", r"\((?P<actor>[\w.<>\[\]:-]+(?:\([^)]*\))?)? ?pid=(?P<pid>\d+)(?:, ip=(?P<host>[\d.a-f:]+))?\) ?",
         "(RayTrainWorker pid=4711, ip=10.0.0.3) "),
    Form("raylet", "(", r"\((?:raylet|autoscaler|gcs_server)(?: [^,)]*)?(?:, ip=(?P<host>[\d.a-f:]+))?\) ?", "(raylet, ip=10.12.3.201) "),
    Form("instrument", "[", rf"\[rank(?P<rank>\d+)\]:(?:\[local(?P<local>\d+)\]:)? {_DATE}T{_CLOCK} (?P<host>[\w.-]+) \| ?",
         "[rank3]:[local1]: 2026-12-01T12:00:00.123 node7 | "),
    Form("rank", "[", r"\[rank(?P<rank>\d+)\]: ?", "[rank11]: "),
    Form("tee", "[", r"\[(?!rank\d)[a-zA-Z_]+?(?P<local>\d+)\]: ?", "[default3]:"),
    # --- loggers' heads
    Form("c10", "[", r"\[(?P<level>[FEWI])(?:(?P<md>\d{3,4}) (?P<h>\d\d?):(?P<mi>\d\d?):(?P<s>\d\d?(?:\.\d+)?))? "
         r"(?P<origin>[\w.\\/:-]+\.(?:cpp|cc|hpp|h|cu)):\d+\] ?", "[E1201 12:00:00.123456789 ProcessGroupNCCL.cpp:607] "),
    Form("glog", "EWIF", r"(?P<level>[FEWI])(?P<md>\d{4}) (?P<h>\d\d):(?P<mi>\d\d):(?P<s>\d\d(?:\.\d+)?)\s+(?P<tid>\d+) "
         r"(?P<origin>[\w./\\-]+\.\w+):\d+\] ?(?:\[[\d/_]+\] ?)?", "W1201 12:00:00.123000 4711 torch/distributed/run.py:792] "),
    Form("bracket origin", "[", r"\[\d+/\d+\] (?=torch)", "[0/0] "),
    Form("torch logger", "t", r"(?P<origin>torch[\w.]+): \[(?P<level>[A-Z]+)\] ?", "torch.distributed.run: [WARNING] "),
    Form("basicConfig", "DIWEC", rf"{_LEVEL}:(?P<origin>[\w.]+): ?", "WARNING:torch.distributed.run:"),
    Form("raylet log", "EWIF(", r"(?:\((?:raylet|gcs_server|pid=\d+)\) )(?P<origin>[\w.]+\.(?:cc|cpp|py)):\d+: ?", "(raylet) node_manager.cc:3065: "),
    Form("hf", "[", rf"\[{_LEVEL}\|(?:(?P<origin>[\w.]+):\d+\]?)?[^>]{{0,60}}?>> ?", "[INFO|trainer.py:2134] 2026-12-01 12:00:00,123 >> "),
    Form("level", "[TDINSWECF", rf"\[?{_LEVEL}\]?(?:\s*[:|]\s+|\s+(?:-{{1,2}}\s+)?)(?=\S)", "[WARNING] "),
    Form("loguru", "|", rf"\|\s*{_LEVEL}?\s*\|?\s*(?:(?P<origin>[\w.<>]+):[\w<>]+:\d+)?\s*-?\s+", "| ERROR    | train:main:31 - "),
    Form("logging", "a", rf"(?P<origin>[\w.]+) - {_LEVEL} -\s+", "root - INFO - "),
    Form("logging level", "DINSWECF", rf"{_LEVEL} -\s+", "INFO - "),
    Form("deepspeed origin", "[", r"\[(?P<origin>[\w-]+\.py):\d+:\w+\] ?(?=\[Rank)", "[logging.py:128:log_dist] "),
    Form("dash", "-", r"-+ (?=\S)", "- "),
    # --- ranks that people and frameworks write themselves
    Form("said rank", "[(<rR", r"[\[(<]?\s*(?:[Gg]lobal[ _-]?)?(?:[Rr]ank|RANK)(?:[ :=_#-]{0,2})(?P<rank>\d+)(?:\s?/\s?\d+)?"
         r"(?:\s*[\])>|:]+|\s+-|\s*\|)(?!\s*(?:Watchdog|Some NCCL|To avoid|NCCL|failed to pass|Ranks? \d))\s*", "[rank: 3] "),
    # --- NCCL's own head
    Form("nccl", "a0", r"(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[(?P<device>\d+)\] (?=(?:[\w./-]+:\d+ (?:\(\w+\) )?)?(?:NCCL|ofi_|\w+:\d+ NCCL))",
         "node7:4711:4820 [3] "),
)


def kind_of(character: str) -> str:
    """Return the class by which `Form.starts` names a character."""
    return "0" if character.isdigit() else character


@cache
def by_start() -> dict[str, tuple[Form, ...]]:
    """Return the forms that can begin with each character; letters fall back to the row of ``a``."""
    table: dict[str, list[Form]] = {}
    letters = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    for form in FORMS:
        for start in set(form.starts):
            for character in letters if start == "a" else {start}:
                table.setdefault(character, [])
                if form not in table[character]:
                    table[character].append(form)
    return {start: tuple(forms) for start, forms in table.items()}
