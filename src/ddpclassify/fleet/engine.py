"""Run a function over logs on the processes of one machine or of a cluster, through joblib.

Logs go out in batches, of one part of the listing at a time: what is held in memory is bounded by the size of a part,
and the order of the answers is the order of the logs. When a process dies, the batches that were out are done again,
in a process apart, and log by log where that one dies too: so a log that kills every process that reads it is found,
noted and passed over, and the others lose nothing. That process is on the asking machine also for a cluster: a cluster
tells of a death only when it has given up (Dask after four workers), so that each further try would cost workers.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs, parallel_config

from ddpclassify import __version__
from ddpclassify.fleet.listing import Item
from ddpclassify.types import InputError

__all__ = ["BACKENDS", "Engine"]

BACKENDS = ("loky", "dask", "ray")

Work = Callable[[list[Item]], list[str]]

_MOST = 16
"""Logs of a batch: enough that handing them out costs little beside reading them."""
_LEAST = 8
"""Batches of a part that each process should get, so that all end at about the same time."""


class Engine:
    """Processes that diagnose.

    Parameters
    ----------
    backend : {"loky", "dask", "ray"}
    jobs : how many processes; None for all cores of the machine, or of the cluster
    scheduler : the address of Dask's scheduler, or of a Ray cluster; None for one on this machine
    """

    def __init__(self, backend: str = "loky", jobs: int | None = None, scheduler: str | None = None) -> None:
        self._open = ExitStack()
        self._backend = backend
        options = _CONNECT[backend](self._open, scheduler)
        self._died = _deaths(backend)
        self._parent = os.getpid() if backend == "loky" else None
        self._unordered = backend != "ray"  # joblib can't take answers from Ray as they come
        self._open.enter_context(parallel_config(backend, n_jobs=jobs or -1, **options))
        self.jobs = effective_n_jobs(jobs or -1)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def map(self, work: Work, items: Sequence[Item], dead: Callable[[Item], str]) -> Iterator[tuple[int, list[str]]]:
        """Yield (number of the first item, answers) of every batch, once each, as they come.

        Parameters
        ----------
        work : gives one answer for each item, in order; raises nothing
        dead : gives the answer for an item whose reading killed its process

        Raises
        ------
        InputError : the cluster is gone
        """
        size = max(1, min(_MOST, len(items) // (_LEAST * self.jobs)))
        left = {start: list(items[start : start + size]) for start in range(0, len(items), size)}
        out = 2 * self.jobs  # batches that are given out before the first of them has come back
        while left:
            try:
                how = "generator_unordered" if self._unordered else "list"
                pool = Parallel(return_as=how, pre_dispatch=out, batch_size=1)
                given = list(left.items()) if self._unordered else list(left.items())[:out]
                for start, answers in pool(delayed(_numbered)(work, *each, self._parent) for each in given):
                    del left[start]
                    yield start, answers
            except self._died:
                with _Apart(work, dead) as apart:
                    for start in list(left)[:out]:
                        yield start, apart.read(left.pop(start))
            except CancelledError as error:
                raise InputError("the scheduler is gone; the same command does the rest") from error


def _numbered(work: Work, start: int, items: list[Item], parent: int | None) -> tuple[int, list[str]]:
    if parent is not None and parent != os.getpid():
        _end_with(parent)
    return start, work(items)


@cache
def _end_with(parent: int) -> None:
    """See to it that this process ends when its parent was killed: a pool's would wait for more work for ever."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Apart:
    """A process of this machine that may die; then a new one takes its place."""

    def __init__(self, work: Work, dead: Callable[[Item], str]) -> None:
        self._work, self._dead = work, dead
        self._process: ProcessPoolExecutor | None = None

    def __enter__(self) -> _Apart:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            self._process.shutdown()

    def read(self, items: list[Item]) -> list[str]:
        """Return the answers for a batch; when it kills the process, for log after log of it."""
        if self._process is None:
            self._process = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        try:
            return self._process.submit(_numbered, self._work, 0, items, os.getpid()).result()[1]
        except BrokenExecutor:
            self._process = None
            if len(items) == 1:
                return [self._dead(items[0])]
            return [answer for each in items for answer in self.read([each])]


def _deaths(backend: str) -> tuple[type[BaseException], ...]:
    """The errors by which a backend tells that processes died."""
    names = {
        "loky": (),
        "dask": ("distributed.scheduler.KilledWorker",),
        "ray": ("ray.exceptions.RayActorError", "ray.exceptions.WorkerCrashedError"),
    }[backend]
    split = [name.rpartition(".") for name in names]
    return (BrokenExecutor, *(getattr(import_module(module), name) for module, _, name in split))


def _loky(_: ExitStack, scheduler: str | None) -> dict[str, Any]:
    if scheduler is not None:
        raise InputError("--scheduler needs --backend dask or ray")
    # Numeric libraries' own threads would only get in each other's way. Workers of Dask and Ray have one by default.
    return {"inner_max_num_threads": 1}


def _dask(stack: ExitStack, scheduler: str | None) -> dict[str, Any]:
    distributed = _needed("distributed", "dask")
    for name in ("distributed", "distributed.client", "distributed.core", "tornado.application"):  # one line tells it
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        client = distributed.Client(scheduler, timeout=20) if scheduler else distributed.Client(threads_per_worker=1)
        stack.callback(client.close)
        client.wait_for_workers(1, timeout=20)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"{scheduler}: no Dask scheduler with workers answers there ({error})") from error

    def version() -> str:  # inside, so that it goes out by value: what it asks for may not be there
        try:
            return str(import_module("ddpclassify").__version__)
        except ImportError:
            return "none"

    found = {"the scheduler": client.run_on_scheduler(version), **client.run(version)}
    for where, other in found.items():
        if other != __version__:  # without any, Dask would wait for ever; with another, results would be mixed
            raise InputError(f"{where} has ddpclassify {other}, not {__version__}")
    return {}


def _ray(stack: ExitStack, scheduler: str | None) -> dict[str, Any]:
    ray = _needed("ray", "ray")
    try:
        ray.init(scheduler, log_to_driver=False, configure_logging=False)
    except (OSError, ValueError, ConnectionError) as error:
        raise InputError(f"{scheduler}: no Ray cluster answers there ({error})") from error
    stack.callback(ray.shutdown)
    import_module("ray.util.joblib").register_ray()
    return {}


def _needed(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise InputError(f"--backend {extra} needs {module}: pip install 'ddpclassify[{extra}]'") from None


_CONNECT: dict[str, Callable[[ExitStack, str | None], dict[str, Any]]] = {"loky": _loky, "dask": _dask, "ray": _ray}
