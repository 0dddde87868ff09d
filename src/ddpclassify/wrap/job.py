"""Start a job, pass its output and its signals through, and return its exit status."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from ddpclassify.wrap.channels import Channel, Sink, channels

_FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
_ENDING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")
_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_LOOK = 0.1  # seconds between looks for signals
_IDLE, _LINGER = 0.5, 5.0  # seconds to wait, once the job is gone, for output of what it left running


class Job:
    """A running command. It has a process group of its own, in the foreground when we were, as a shell would do it:
    Ctrl-C reaches the job once and not us, and a signal sent to us is passed on to the command.
    """

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.channels = channels()
        self.terminal = _foreground_terminal()
        self.ended_by: int | None = None  # the last ending signal that we passed on
        ends = {target: channel.child_end for channel in self.channels for target in channel.targets}
        try:
            self.process = subprocess.Popen(
                command,
                env=env,
                stdout=ends.get(1),
                stderr=ends.get(2),
                preexec_fn=self._in_child,  # nothing here runs threads
            )
        except BaseException:
            for channel in self.channels:
                channel.close()
            raise
        finally:
            for channel in self.channels:
                os.close(channel.child_end)

    def _in_child(self) -> None:
        os.setpgid(0, 0)
        if self.terminal is not None:
            _hand_over(self.terminal, os.getpid())

    def run(self, sink: Sink) -> int:
        """Pass everything on until the job has ended, and return its exit status, 128 + n for signal n."""
        status: int | None = None
        with _Signals(self) as signals, selectors.DefaultSelector() as selector:
            wake = signals.read_end
            selector.register(wake, selectors.EVENT_READ)
            for channel in self.channels:
                selector.register(channel.source, selectors.EVENT_READ, channel)
            ended = quiet_since = 0.0
            while True:
                ready = selector.select(_LOOK if status is None else 0.05)
                signals.take()
                for key, _ in ready:
                    if key.data is None:
                        os.read(wake, 4096)
                    elif not key.data.pump(sink):
                        selector.unregister(key.fileobj)
                        key.data.close()
                now = time.monotonic()
                if status is None:
                    self._resize()
                    status = self._reap()
                    ended = quiet_since = now
                    continue
                quiet_since = now if any(key.data for key, _ in ready) else quiet_since
                if len(selector.get_map()) == 1 or now - quiet_since > _IDLE or now - ended > _LINGER:
                    break
        self._tidy()
        return status

    def signal(self, number: int, sender: int = 0) -> None:
        """Pass a signal on to the command, unless its sender (a process id) has sent it there as well."""
        if self.process.returncode is None:
            if signal.Signals(number).name in _ENDING:
                self.ended_by = number
            if not _signals_all(sender):
                with contextlib.suppress(OSError):
                    os.kill(self.process.pid, number)

    def _reap(self) -> int | None:
        """Return the exit status once there is one; stop with a job that is stopped at the terminal."""
        pid, status = os.waitpid(self.process.pid, os.WNOHANG | os.WUNTRACED)
        if not pid:
            return None
        if os.WIFSTOPPED(status):
            if os.WSTOPSIG(status) in _STOPS and self.terminal is not None:
                _hand_over(self.terminal, os.getpgrp())
                os.killpg(os.getpgrp(), signal.SIGTSTP)  # here the shell says "Stopped", until `fg` or `bg`
                if os.tcgetpgrp(self.terminal) == os.getpgrp():
                    _hand_over(self.terminal, self.process.pid)
                os.killpg(self.process.pid, signal.SIGCONT)
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return self.process.returncode if self.process.returncode >= 0 else 128 - self.process.returncode

    def _resize(self) -> None:
        changed = [channel.resize() for channel in self.channels]
        if any(changed):
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGWINCH)

    def _tidy(self) -> None:
        if self.ended_by is not None:  # a shell that dies of a signal leaves its children behind
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, self.ended_by)
        for channel in self.channels:
            channel.close()
        if self.terminal is not None:
            with contextlib.suppress(OSError):
                _hand_over(self.terminal, os.getpgrp())
            os.close(self.terminal)


def _signals_all(sender: int) -> bool:
    """Whether a process signals every process of the job: Slurm's step daemon does, but to a batch script itself."""
    try:
        name = Path(f"/proc/{sender}/comm").read_text().strip()
    except OSError:
        return False
    return name == "slurmstepd" and not (os.getppid() == sender and "SLURM_STEP_ID" not in os.environ)


class _Signals:
    """While the job runs, signals go to it, and the end of it wakes the loop.

    Only a signal that is waited for tells who sent it, so where the system can wait (macOS can't) they are blocked, and
    `take` takes them; elsewhere a handler passes them on.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.old: dict[int, Any] = {}
        self.mask: set[Any] | None = None
        self.waited: set[int] = set()

    def __enter__(self) -> _Signals:
        self.read_end, self.write_end = os.pipe()
        for end in (self.read_end, self.write_end):
            os.set_blocking(end, False)
        self.old_wake = signal.set_wakeup_fd(self.write_end, warn_on_full_buffer=False)
        numbers = [signal.Signals[name] for name in _FORWARDED]
        numbers = [n for n in numbers if signal.getsignal(n) != signal.SIG_IGN]  # under nohup, for the job too
        if hasattr(signal, "sigtimedwait"):
            self.waited = set(numbers)
            self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self.waited)
        else:
            self.old = {n: signal.signal(n, self._forward) for n in numbers}
        self.old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        os.write(self.write_end, b"\0")  # the job may have ended before the handler was there
        return self

    def take(self) -> None:
        """Pass on the signals that have come."""
        while self.waited and (info := signal.sigtimedwait(self.waited, 0)) is not None:
            self.job.signal(info.si_signo, info.si_pid)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        self.job.signal(number)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self.old_wake)
        for number, handler in self.old.items():
            signal.signal(number, handler)
        if self.mask is not None:
            self.take()  # too late for the job; they must not end us before we have said how it ended
            signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
        os.close(self.read_end)
        os.close(self.write_end)


def _foreground_terminal() -> int | None:
    """Our controlling terminal, when our group is in its foreground."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    if os.tcgetpgrp(terminal) == os.getpgrp():
        return terminal
    os.close(terminal)
    return None


def _hand_over(terminal: int, group: int) -> None:
    """Put a process group into the foreground; from the background this is allowed only without SIGTTOU."""
    old = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        os.tcsetpgrp(terminal, group)
    finally:
        signal.signal(signal.SIGTTOU, old)


__all__ = ["Channel", "Job"]
