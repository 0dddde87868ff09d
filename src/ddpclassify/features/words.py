"""A failure as words: the tokens that TF-IDF counts."""

from __future__ import annotations

import re
from itertools import pairwise

from ddpclassify.fold.normalise import skeleton
from ddpclassify.patterns import lazy
from ddpclassify.types import Failure

_WORD = lazy(r"[A-Za-z_]{2,}(?:[.-][A-Za-z_]{2,})*|<\w+>|#")
_CAMEL = lazy(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}(?![a-z])")
_QUOTED = lazy(r"(['\"`])(?:(?!\1).){1,80}\1")
_MAX_WORDS = 120


def words(failure: Failure) -> list[str]:
    """Return the tokens of one failure.

    Words and word pairs of the message (masked, and with quoted names once masked and once kept out of pairs), the
    exception type and its parts, the statement's kind, the innermost frames' functions and packages.
    """
    event = failure.first
    text = event.text + " " + " ".join(line.text for line in event.more[:6])
    masked = skeleton(_QUOTED.sub(" <q> ", text), 900)
    found = [w.lower() for w in _WORD.findall(masked)][:_MAX_WORDS]
    out = [f"w:{w}" for w in found]
    out += [f"p:{a} {b}" for a, b in pairwise(found)]
    for quoted in _QUOTED.finditer(text[:1500]):
        out += [f"q:{w.lower()}" for w in _WORD.findall(skeleton(quoted.group(), 80))[:4]]
    for word in found:
        if "_" in word or "." in word:
            out += [f"s:{part}" for part in re.split(r"[._-]+", word) if len(part) > 2]
    if event.exception:
        name = event.exception.rpartition(".")[2]
        out += [f"e:{name}", f"e:{name}"]
        out += [f"et:{part.lower()}" for part in _CAMEL.findall(name)]
        if "." in event.exception:
            out.append(f"em:{event.exception.partition('.')[0]}")
    kind = event.fields.get("statement", event.kind)
    out.append(f"k:{kind}")
    out += [
        f"k:{kind}:{key}={event.fields[key]}" for key in ("code", "signal", "xid", "op", "why") if key in event.fields
    ]
    if event.line.origin:
        out.append(f"o:{event.line.origin.rpartition('/')[2]}")
    if event.line.level:
        out.append(f"l:{event.line.level[:1]}")
    for depth, frame in enumerate(reversed(event.frames[-4:])):
        path = frame.path.replace("\\", "/")
        function = frame.function.rpartition(".")[2]
        out.append(f"f:{function}" if depth else f"f0:{function}")
        if not frame.user:
            package = re.split(r"(?:site|dist)-packages/|lib/python[\d.]+/", path)[-1].split("/")
            out.append(f"fp:{package[0]}")
            out.append(f"fm:{package[-1]}")
    if event.frames:
        out.append("fu:user" if event.frames[-1].user else "fu:library")
        out += [f"fa:{name}" for name in _landmarks(failure)]
    return out


_LANDMARK = lazy(
    r"load_state_dict|load_checkpoint|from_pretrained|torch[/\\]serialization|checkpoint|save|dataset|dataloader|collate|fetch|worker|backward|optim|init_process_group"
    r"|rendezvous|distributed_c10d|launch|cpp_extension|triton|inductor|importlib|argparse|hub|wandb|mlflow|urllib3|requests|boto|download|nccl|cuda|store|barrier|all_?reduce|all_?gather|broadcast"
)


def _landmarks(failure: Failure) -> set[str]:
    """Well-known places anywhere on the stack."""
    out: set[str] = set()
    for frame in failure.first.frames[-30:]:
        for text in (frame.path.replace("\\", "/").rpartition("/")[2], frame.function):
            out.update(_LANDMARK.findall(text.lower()))
    return out
