"""What the runner does for a fault beside running the job: its surroundings, and what happens to it from outside."""

from __future__ import annotations

import contextlib
import http.server
import os
import re
import shlex
import signal
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ACTS = {
    "http": "a server on loopback at $HTTP answers with the status asked for: ?status=503 or /s503/…; 0 hangs up",
    "port_in_use": "the master port is taken",
    "no_script": "the script is not there",
    "mount": "mount PATH OPTIONS: a tmpfs at PATH that only the job sees, like /dev/shm size=1m",
    "no_network": "a network without any interface that is up",
    "timeout": "timeout OPTIONS SECONDS: the job runs under `timeout`, as under a scheduler's time limit",
    "signal": "signal NAME: the launcher gets it while the job trains; INT goes to the whole group",
    "kill_node": "kill_node NUMBER: a node's agent and its workers get SIGKILL at once while the job trains",
}


@contextlib.contextmanager
def surroundings(act: str, port: int) -> Iterator[dict[str, int]]:
    """Set up what the act needs around a job; yields values for the fault's code."""
    with contextlib.ExitStack() as stack:
        values = {}
        if act == "http":
            server = stack.enter_context(_Server(("127.0.0.1", 0), _Answer))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            values["HTTP"] = int(server.server_address[1])
        if act == "port_in_use":
            stack.enter_context(_listening(port))
        yield values


def wrapped(act: str, command: list[str]) -> list[str]:
    """The command as the act starts it: in namespaces of its own for `mount` and `no_network`, which needs no root."""
    verb, _, rest = act.partition(" ")
    if verb == "timeout":
        return ["timeout", "--verbose", *rest.split(), *command]
    alone = ["unshare", "--user", "--map-root-user"]
    if verb == "no_network":
        return [*alone, "--net", *command]
    if verb != "mount":
        return command
    path, _, options = rest.partition(" ")
    mount = f"mkdir -p {shlex.quote(path)} && mount -t tmpfs -o {shlex.quote(options)} tmpfs {shlex.quote(path)}"
    return [*alone, "--mount", "bash", "-c", f'{mount} && exec "$@"', "bash", *command]


def happen(act: str, process: subprocess.Popen[bytes], output: Path, limit: float, ranks: int) -> list[int]:
    """Do to a running job what the act says; returns the ranks that it took away."""
    verb, _, name = act.partition(" ")
    if verb not in ("signal", "kill_node"):
        return []
    _wait_for_step(output, limit, ranks)
    if verb == "kill_node":
        until = time.monotonic() + limit / 2
        while not (lost := _kill_node(process.pid, name)) and time.monotonic() < until and process.poll() is None:
            time.sleep(0.5)
        return lost
    number = signal.Signals[f"SIG{name}"]
    if number is signal.SIGINT:
        os.killpg(process.pid, number)  # a terminal's Ctrl-C reaches the whole foreground group
    else:
        process.send_signal(number)
    return []


def _wait_for_step(output: Path, limit: float, ranks: int) -> None:
    """Wait until training has begun (or as long as starting takes, for jobs that print nothing)."""
    begun = time.monotonic()
    while time.monotonic() < begun + limit:
        time.sleep(0.3)
        text = output.read_bytes()
        if re.search(rb"(?:step|iter|\"step\":) ?[2-9]|[2-9]/24", text) or time.monotonic() - begun > 16 + 3 * ranks:
            return


def _kill_node(job: int, number: str) -> list[int]:
    """Kill an agent of the job with its workers; returns their ranks."""
    victims, ranks = set[int](), list[int]()
    try:
        folder = Path(f"/proc/{job}/cwd").readlink()
    except OSError:  # the job has just ended by itself
        return []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone, or another user's
            entries = (process / "environ").read_bytes().split(b"\0")
            if f"GROUP_RANK={number}".encode() in entries and (process / "cwd").readlink() == folder:
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                victims |= {int(process.name), parent}
                ranks += [int(entry[5:]) for entry in entries if entry.startswith(b"RANK=")]
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return sorted(set(ranks))


@contextlib.contextmanager
def _listening(port: int) -> Iterator[None]:
    """Holds a port, so that the job finds it taken."""
    with contextlib.ExitStack() as stack:
        for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):
            with contextlib.suppress(OSError):  # a machine without IPv6
                s = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
                if family == socket.AF_INET6:
                    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                s.bind((address, port))
                s.listen()
        yield


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is part of the fault."""


class _Answer(http.server.BaseHTTPRequestHandler):
    """Answers every request with the status that it asks for."""

    def _answer(self) -> None:
        asked = re.search(r"/s(\d+)/|[?&]status=(\d+)", self.path)
        status = int(asked[1] or asked[2]) if asked else 503
        if status == 200:  # a download that breaks off
            self.send_response(200)
            self.send_header("Content-Length", "1048576")
            self.end_headers()
            self.wfile.write(b"x" * 1000)
        elif status == 0:
            self.close_connection = True
        elif status == 408:
            time.sleep(20)
        else:
            self.send_error(status)

    do_GET = do_POST = do_PUT = do_HEAD = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged: the output belongs to the jobs."""
