"""Run a function over logs on the processes of one machine or of a cluster, through joblib.

Logs go out in batches, of one part of the listing at a time: what is held in memory is bounded by the size of a part,
and the order of the answers is the order of the logs. When a process dies, the batches that were out are done again,
each in a new process of its own, and then log by log: so a log that kills every process that reads it is found, noted
and passed over, and the others lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs, parallel_config

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
        self._unordered = backend != "ray"  # joblib can't take answers from Ray as they come
        # Numeric libraries' own threads would only get in each other's way: a process has one core.
        self._open.enter_context(parallel_config(backend, n_jobs=jobs or -1, inner_max_num_threads=None, **options))
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
        """
        size = max(1, min(_MOST, len(items) // (_LEAST * self.jobs)))
        left = {start: list(items[start : start + size]) for start in range(0, len(items), size)}
        out = 2 * self.jobs  # batches that are given out before the first of them has come back
        while left:
            try:
                how = "generator_unordered" if self._unordered else "list"
                pool = Parallel(return_as=how, pre_dispatch=out, batch_size=1)
                given = list(left.items()) if self._unordered else list(left.items())[:out]
                for start, answers in pool(delayed(_numbered)(work, *each) for each in given):
                    del left[start]
                    yield start, answers
            except self._died:
                for start in list(left)[:out]:
                    yield start, alone(work, left.pop(start), dead)


def _numbered(work: Work, start: int, items: list[Item]) -> tuple[int, list[str]]:
    return start, work(items)


def alone(work: Work, items: list[Item], dead: Callable[[Item], str]) -> list[str]:
    """Return the answers for a batch from a new process; of one that dies, from a new process a log."""
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            return process.submit(work, items).result()
    except BrokenExecutor:
        if len(items) == 1:
            return [dead(items[0])]
        return [answer for each in items for answer in alone(work, [each], dead)]


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
    return {}


def _dask(stack: ExitStack, scheduler: str | None) -> dict[str, Any]:
    distributed = _needed("distributed", "dask")
    try:
        client = distributed.Client(scheduler, timeout=20) if scheduler else distributed.Client(threads_per_worker=1)
        client.wait_for_workers(1, timeout=20)
    except (OSError, ValueError, TimeoutError) as error:
        raise InputError(f"{scheduler}: no Dask scheduler with workers answers there ({error})") from error
    stack.callback(client.close)
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
