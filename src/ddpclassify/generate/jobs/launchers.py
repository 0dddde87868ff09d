"""How the jobs are started: one row a launcher, each a command line over the job's script.

`{python}`, `{script}`, `{n}` (processes), `{port}`, `{args}` are filled in. A launcher whose program is absent is left
out of the plan. `old_launch.py` and `spawn_main.py` are written into the job's folder where the row needs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Launcher:
    """A way to start the processes of a job.

    Attributes
    ----------
    label : the launcher's name in labels
    program : what must be installed: an executable or, with a dot or none on the path, a Python module
    marks : regular expression of the mark that a line of rank {rank} bears ("" for none)
    shows_all : every process writes to the log; otherwise only the first one that fails is told by the parent
    files : files to write into the job's folder
    """

    name: str
    label: str
    command: str
    program: str
    marks: str = ""
    shows_all: bool = True
    table: bool = False  # torchrun's table names ranks
    files: dict[str, str] = field(default_factory=dict)


# torch.distributed.launch as it was up to PyTorch 1.8: it starts the processes with --local_rank, waits, and raises for
# the command of the last one, whichever failed.
OLD_LAUNCH = '''import os
import signal
import subprocess
import sys
import time


def main():
    n, port = int(sys.argv[1]), sys.argv[2]
    env = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, WORLD_SIZE=str(n))
    print("*****************************************")
    print("Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being "
          "overloaded, please further tune the variable for optimal performance in your application as needed. ")
    print("*****************************************", flush=True)
    processes = []
    for local_rank in range(n):
        cmd = [sys.executable, "-u", *sys.argv[3:4], f"--local_rank={local_rank}", *sys.argv[4:]]
        processes.append(subprocess.Popen(cmd, env=dict(env, RANK=str(local_rank), LOCAL_RANK=str(local_rank))))

    def sigkill_handler(signum, frame):
        for process in processes:
            print(f"Killing subprocess {process.pid}", flush=True)
            try:
                process.kill()
            except Exception:
                pass
        if last_return_code is not None:
            raise subprocess.CalledProcessError(returncode=last_return_code, cmd=cmd)
        sys.exit(1)

    last_return_code = None
    alive = set(processes)
    while alive:
        for process in list(alive):
            if process.poll() is not None:
                if process.returncode != 0:
                    last_return_code = process.returncode
                    sigkill_handler(signal.SIGTERM, None)
                else:
                    alive.discard(process)
        time.sleep(1)


if __name__ == "__main__":
    main()
'''

SPAWN = '''import os
import runpy
import sys

import torch.multiprocessing as mp


def worker(rank, n, port, script, args):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, WORLD_SIZE=str(n), RANK=str(rank), LOCAL_RANK=str(rank))
    sys.argv = [script, *args]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    mp.spawn(worker, args=(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]), nprocs=int(sys.argv[1]), join=True)
'''

_RUN = "{python} -m torch.distributed.run --nproc_per_node {n} --master_port {port}"
_SHELL = (
    "bash -c 'for r in $(seq 0 $(({n}-1))); do MASTER_ADDR=127.0.0.1 MASTER_PORT={port} WORLD_SIZE={n} RANK=$r "
    "LOCAL_RANK=$r {python} {script} {args} & done; wait'"
)
_POD = (
    "bash -c 'for r in $(seq 0 $(({n}-1))); do (MASTER_ADDR=127.0.0.1 MASTER_PORT={port} WORLD_SIZE={n} RANK=$r "
    "LOCAL_RANK=0 {python} -u {script} {args} 2>&1 | sed -u \"s#^#[pod/train-worker-$r/pytorch] #\") & done; wait'"
)
_MPI = (
    "mpirun --allow-run-as-root --oversubscribe {tag} -np {n} -x MASTER_ADDR=127.0.0.1 -x MASTER_PORT={port} bash -c "
    "'WORLD_SIZE=$OMPI_COMM_WORLD_SIZE RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK exec {python} {script} {args}'"
)

LAUNCHERS: dict[str, Launcher] = {
    row.name: row
    for row in (
        Launcher("torchrun", "torchrun", _RUN + " {script} {args}", "torch", table=True),
        Launcher("torchrun-tee", "torchrun", _RUN + " --log-dir elastic --tee 3 {script} {args}", "torch", r"^\[default{rank}\]:", table=True),
        Launcher("torchrun-restart", "torchrun", _RUN + " --max-restarts 1 {script} {args}", "torch", table=True),
        Launcher("torchrun-info", "torchrun", "env LOGLEVEL=INFO TORCH_CPP_LOG_LEVEL=INFO " + _RUN + " {script} {args}", "torch", table=True),
        Launcher("launch", "legacy-launch", "{python} -m torch.distributed.launch --nproc_per_node {n} --master_port {port} {script} {args}", "torch", table=True),
        Launcher("legacy", "legacy-launch", "{python} launch.py {n} {port} {script} {args}", "torch", files={"launch.py": OLD_LAUNCH}),
        Launcher("spawn", "mp.spawn", "{python} spawn_main.py {n} {port} {script} {args}", "torch", shows_all=False, files={"spawn_main.py": SPAWN}),
        Launcher("shell", "shell", _SHELL, "bash"),
        Launcher("pods", "k8s", _POD, "bash", r"^\[pod/train-worker-{rank}/"),
        Launcher("mpirun", "mpirun", _MPI.replace("{tag}", ""), "mpirun"),
        Launcher("mpirun-tag", "mpirun", _MPI.replace("{tag}", "--tag-output"), "mpirun", r"^\[1,{rank}\]<std"),
    )
}  # fmt: skip
