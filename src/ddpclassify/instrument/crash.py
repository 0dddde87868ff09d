"""When an exception ends the process: say at which step, with what device memory, and tell the launcher."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from ddpclassify.instrument.who import who

_place: dict[str, int | None] = {"step": None, "batch": None}
_TOLD = "__ddpclassify_told__"


def at(step: int | None = None, batch: int | None = None) -> None:
    """Note where the training is; costs next to nothing, and is told when an exception ends the process."""
    if step is not None:
        _place["step"] = step
    if batch is not None:
        _place["batch"] = batch


@contextlib.contextmanager
def guard() -> Iterator[None]:
    """Tell of an exception that leaves the block (or, as a decorator, the function), and let it go on.

    For what the exception hook never sees: functions given to `torch.multiprocessing.spawn`, callbacks of a framework.
    """
    try:
        yield
    except Exception as error:
        with contextlib.suppress(Exception):
            sys.stderr.write(_state(error))
            _write_error_file(error)
            setattr(error, _TOLD, True)
        raise


def install() -> None:
    """Install the hooks of the interpreter and of its threads, once."""
    if getattr(sys.excepthook, _TOLD, False):
        return
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _tell(error, previous, kind, trace)

    setattr(hook, _TOLD, True)
    sys.excepthook = hook
    previous_thread = threading.excepthook

    def thread_hook(args: Any) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            with contextlib.suppress(Exception):
                sys.stderr.write(_state(args.exc_value))
        previous_thread(args)

    threading.excepthook = thread_hook


def _tell(error: BaseException, previous: Any, kind: type[BaseException], trace: TracebackType | None) -> None:
    """Write the state and the traceback in one piece, so that no other rank's lines get between them."""
    if not isinstance(error, Exception):  # Ctrl-C is no failure
        previous(kind, error, trace)
        return
    try:
        state = "" if getattr(error, _TOLD, False) else _state(error)
        sys.stderr.write(state + "".join(traceback.format_exception(kind, error, trace)))
        sys.stderr.flush()
        _write_error_file(error)
    except Exception:  # ours must not hide the job's
        previous(kind, error, trace)


def _state(error: BaseException) -> str:
    me = who()
    rank = f"rank {me.rank}" if me.rank is not None else "this process"
    place = ", ".join(f"{name} {value}" for name, value in _place.items() if value is not None)
    parts = [f"{rank} ends at {place or 'no step yet'} with {type(error).__name__}", *_memory()]
    return "; ".join(parts) + "\n"


def _memory() -> list[str]:
    """What the current device holds, where there is one and it still answers."""
    torch = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
            return []
        device = torch.cuda.current_device()
        allocated, reserved = torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device)
        text = f"cuda:{device} holds {_gib(allocated)} allocated, {_gib(reserved)} reserved"
    except Exception:
        return []
    try:
        free, total = torch.cuda.mem_get_info(device)
    except Exception:  # a broken context answers nothing any more
        return [text]
    return [f"{text}, {_gib(free)} of {_gib(total)} free"]


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"


def _write_error_file(error: BaseException) -> None:
    """Write the file in which torchrun looks for the error, unless `@record` or an earlier error did."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path or (os.path.exists(path) and os.path.getsize(path)):  # noqa: PTH110, PTH202
        return
    stack = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    place = {name: value for name, value in _place.items() if value is not None}
    row = {
        "message": {
            "message": f"{type(error).__name__}: {error}",
            "extraInfo": {"py_callstack": stack, "timestamp": str(int(time.time())), "rank": who().rank, **place},
        }
    }
    temporary = f"{path}.{os.getpid()}"
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)  # noqa: PTH103, PTH120
        with open(temporary, "w", encoding="utf-8") as file:  # noqa: PTH123
            json.dump(row, file)
        os.replace(temporary, path)  # noqa: PTH105
