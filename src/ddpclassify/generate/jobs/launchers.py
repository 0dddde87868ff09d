"""How the jobs are started: one row a launcher, each a command line over the job's script.

`{python}`, `{script}`, `{n}` (processes), `{port}`, `{args}` are filled in; other braces are doubled, and `_bash` puts
its text between single quotes, so that it holds none. A launcher whose program is absent is left out of the plan.
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
    header : regular expression of the line above the output of the rank that its group names
    nodes : with more than one, local ranks are not ranks
    workloads : the workloads that can be started so (empty: all)
    weight : how often it is drawn, in relation to others
    ready : a command that succeeds where the service that the launcher needs is up
    """

    name: str
    label: str
    command: str
    program: str
    marks: str = ""
    shows_all: bool = True
    files: dict[str, str] = field(default_factory=dict)
    header: str = ""
    nodes: int = 1
    workloads: tuple[str, ...] = ()
    weight: float = 1.0
    ready: str = ""


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
_ENV = "MASTER_ADDR=127.0.0.1 MASTER_PORT={port} WORLD_SIZE={n} RANK=$r LOCAL_RANK=$r"
_LOOP = "for r in $(seq 0 $(({n}-1))); do {one} & done; wait"
_NODES = (  # two agents share the ranks; the first has one more of an odd number
    "for k in 0 1; do {python} -m torch.distributed.run --nnodes 2 --nproc_per_node $((({n}+1-k)/2)) {meet} {script} {args} {out} & done; wait"
)
_STATIC = "--node_rank $k --master_addr 127.0.0.1 --master_port {port}"
_C10D = "--rdzv-id 4711 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:{port}"
_MPI = (
    "mpirun --allow-run-as-root --oversubscribe {tag} -np {n} -x MASTER_ADDR=127.0.0.1 -x MASTER_PORT={port} bash -c "
    "'WORLD_SIZE=$OMPI_COMM_WORLD_SIZE RANK=$OMPI_COMM_WORLD_RANK LOCAL_RANK=$OMPI_COMM_WORLD_LOCAL_RANK exec {python} {script} {args}'"
)
SLURM_NODE = "slurm-node"  # the NodeName of the one-node Slurm that srun needs; logs name it as the job's host
_SRUN = (
    "srun {tag} --overcommit -n {n} --export ALL,MASTER_ADDR=127.0.0.1,MASTER_PORT={port},WORLD_SIZE={n} bash -c "
    "'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID exec {python} {script} {args}'"
)
_ACCELERATE = "{python} -m accelerate.commands.launch --num_processes {n} --main_process_port {port} {more} {script} {args}"


def _bash(text: str, **parts: str) -> str:
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part)
    return f"bash -c '{text}'"


LAUNCHERS: dict[str, Launcher] = {
    row.name: row
    for row in (
        Launcher("torchrun", "torchrun", _RUN + " {script} {args}", "torch", weight=2),
        Launcher("torchrun-tee", "torchrun", _RUN + " --log-dir elastic --tee 3 {script} {args}", "torch", r"^\[default{rank}\]:"),
        Launcher("torchrun-logs", "torchrun", _bash(_RUN + " --log-dir elastic --redirects 3 {script} {args}; tail -n +1 elastic/*/*/*/std*.log"), "torch",
                 header=r"^==> elastic/\S+/(\d+)/std\w+\.log <=="),
        Launcher("torchrun-restart", "torchrun", _RUN + " --max-restarts 1 {script} {args}", "torch"),
        Launcher("torchrun-info", "torchrun", "env LOGLEVEL=INFO TORCH_CPP_LOG_LEVEL=INFO " + _RUN + " {script} {args}", "torch"),
        Launcher("torchrun-debug", "torchrun", "env TORCH_DISTRIBUTED_DEBUG=DETAIL TORCH_SHOW_CPP_STACKTRACES=1 PYTHONFAULTHANDLER=1 " + _RUN + " {script} {args}", "torch"),
        Launcher("torchrun-nodes", "torchrun", _bash(_NODES, meet=_STATIC, out='2>&1 | sed -u "s#^#[node-$k] #"'), "torch", nodes=2),
        Launcher("torchrun-nodes-bare", "torchrun", _bash(_NODES, meet=_C10D, out=""), "torch", nodes=2),
        Launcher("torchrun-stamped", "torchrun", _bash(_RUN + ' {script} {args} 2>&1 | while IFS= read -r line; do printf "%(%Y-%m-%dT%H:%M:%S)TZ %s\\n" -1 "$line"; done'), "torch"),
        Launcher("launch", "legacy-launch", "{python} -m torch.distributed.launch --nproc_per_node {n} --master_port {port} {script} {args}", "torch"),
        Launcher("legacy", "legacy-launch", "{python} launch.py {n} {port} {script} {args}", "torch", files={"launch.py": OLD_LAUNCH}),
        Launcher("spawn", "mp.spawn", "{python} spawn_main.py {n} {port} {script} {args}", "torch", shows_all=False, files={"spawn_main.py": SPAWN}),
        Launcher("shell", "shell", _bash(_LOOP, one=_ENV + " {python} {script} {args}"), "bash"),
        Launcher("shell-files", "shell", _bash(_LOOP + "; tail -n +1 rank*.log", one=_ENV + " {python} {script} {args} > rank$r.log 2>&1"), "bash",
                 header=r"^==> rank(\d+)\.log <=="),
        Launcher("pods", "k8s", _bash(_LOOP, one="(" + _ENV.replace("LOCAL_RANK=$r", "LOCAL_RANK=0") + ' {python} -u {script} {args} 2>&1 | sed -u "s#^#[pod/train-worker-$r/pytorch] #")'), "bash",
                 r"^\[pod/train-worker-{rank}/"),
        Launcher("parallel-tag", "shell", _bash('parallel --jobs {n} --line-buffer --tag "' + _ENV.replace("$r", "{{}}") + ' {python} {script} {args}" ::: $(seq 0 $(({n}-1)))'), "parallel", r"^{rank}\t"),
        Launcher("mpirun", "mpirun", _MPI.replace("{tag}", ""), "mpirun"),
        Launcher("mpirun-tag", "mpirun", _MPI.replace("{tag}", "--tag-output"), "mpirun", r"^\[1,{rank}\]<std"),
        Launcher("accelerate", "accelerate", _ACCELERATE.replace("{more}", "--multi_gpu"), "accelerate"),
        Launcher("accelerate-mpi", "accelerate", "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 MASTER_ADDR=127.0.0.1 MASTER_PORT={port} " + _ACCELERATE.replace("{more}", "--cpu --mpirun_hostfile hosts"), "accelerate",
                 workloads=("accelerate_loop", "hf_trainer"), files={"hosts": "localhost slots=64\n"}, weight=0.5),
        Launcher("deepspeed", "deepspeed", "env DS_ACCELERATOR=cpu {python} -m deepspeed.launcher.runner --num_gpus {n} --master_port {port} {script} {args}", "deepspeed", weight=0.5),
        Launcher("lightning", "lightning", "{python} {script} --devices {n} {args}", "lightning", workloads=("lightning_module",), weight=0.5),
        Launcher("srun", "srun", _SRUN.replace("{tag}", ""), "srun", ready="sinfo -h -t idle,mix,alloc"),
        Launcher("srun-label", "srun", _SRUN.replace("{tag}", "--label"), "srun", r"^ *{rank}: ", ready="sinfo -h -t idle,mix,alloc"),
    )
}  # fmt: skip
