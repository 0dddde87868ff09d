"""The statement table: lines that say something known, in one row each.

The rows do not decide. A row names what a line is, catches its fields, and gives a `role` as a hint that the models
weigh like any other feature:

- ``cause``: states something that goes wrong by itself;
- ``echo``: reports what another process, or an earlier line, already was the reason for;
- ``teardown``: the launcher or scheduler cleaning up;
- ``info``: progress, ends, facts;
- ``noise``: harmless words that look alarming; such lines are dropped before anything else looks at them.

Guidelines: `word` must stand in every line that `pattern` matches (it is looked for first, so a row costs next to
nothing elsewhere); the first row that matches wins, so special rows stand before general ones; every row has an example
that the tests check.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Statement:
    kind: str
    role: str
    word: str
    pattern: str
    example: str

    @cached_property
    def regex(self) -> re.Pattern[str]:
        return re.compile(self.pattern)


_WORK = r"(?:SeqNum=(?P<seq>\d+), )?OpType=(?P<op>\w+),? ?(?:NumelIn=(?P<numel>\d+)|TensorShape=\[(?P<shape>[^\]]*)\])?"
_R = r"\[(?:PG (?:ID )?(?P<pg>\d+)[^\]]*? )?Rank (?P<grank>\d+)\]"

_NAN = r"(?i)\b(?:loss|grad\w*|norm)\b[^\n]{0,40}?\b(?:is |=|:|became |to )?\s*(?:nan|inf)\b|\bnan (?:loss|detected|grad)|non-?finite"

STATEMENTS: tuple[Statement, ...] = tuple(
    Statement(*row)
    for row in (
        # --- noise: first, so that nothing below sees it
        ("noise", "noise", "OMP_NUM_THREADS", r"OMP_NUM_THREADS", "Setting OMP_NUM_THREADS environment variable for each process"),
        ("noise", "noise", "Warning", r"^(?:\S+:\d+: )?\w*Warning: ", "a.py:3: FutureWarning: x is deprecated"),
        ("noise", "noise", "deprecated", r"(?:is|are|been) deprecated", "torch.distributed.launch is deprecated"),
        ("noise", "noise", "Triggered internally", r"Triggered internally", "x (Triggered internally at a.cpp:3.)"),
        ("noise", "noise", "destroy_process_group", r"destroy_process_group\(?\)? was not called|has NOT been destroyed", "WARNING: destroy_process_group() was not called before program exit"),
        ("noise", "noise", "errno: 9", r"(?:client|server) socket has (?:failed|timed)[^(]*\(errno: 9[79]", "The client socket has failed to connect to [::1]:29500 (errno: 97 - Address family not supported by protocol)."),
        ("noise", "noise", "leaked", r"leaked (?:semaphore|shared_memory)|which can leak resources", "resource_tracker: There appear to be 24 leaked semaphore objects to clean up"),
        ("noise", "noise", "can potentially cause a hang", r"can potentially cause a hang|This can cause a hang", "using GPU 1 to perform barrier … This can potentially cause a hang"),
        ("noise", "noise", "find_unused_parameters=True was", r"find_unused_parameters=True was specified", "find_unused_parameters=True was specified in DDP constructor, but did not find any"),
        ("noise", "noise", "NCCL INFO", r"^(?:\S+ )?NCCL INFO ", "NCCL INFO NET/IB : No device found."),
        ("noise", "noise", "asynchronously reported", r"might be asynchronously reported", "CUDA kernel errors might be asynchronously reported at some other API call"),
        ("noise", "noise", "CUDA_LAUNCH_BLOCKING", r"passing CUDA_LAUNCH_BLOCKING", "For debugging consider passing CUDA_LAUNCH_BLOCKING=1"),
        ("noise", "noise", "TORCH_USE_CUDA_DSA", r"TORCH_USE_CUDA_DSA", "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."),
        ("noise", "noise", "To enable traceback see", r"To enable traceback see", "traceback : To enable traceback see: https://pytorch.org/docs"),
        ("noise", "noise", "error_file", r"error_file\s*:\s*<N/A>", "error_file: <N/A>"),
        ("noise", "noise", "Exception ignored in", r"Exception ignored in", "Exception ignored in: <function x.__del__ at 0x7f>"),
        ("noise", "noise", "Some weights of", r"Some weights of", "Some weights of Bert were not initialized"),
        ("noise", "noise", "Unable to register cu", r"Unable to register cu\w+ factory", "Unable to register cuDNN factory"),
        ("noise", "noise", "The following values were not passed", r"The following values were not passed", "The following values were not passed to `accelerate launch`"),
        ("noise", "noise", "Unable to find hostfile", r"Unable to find hostfile", "Unable to find hostfile, will proceed with training with local resources only."),
        ("noise", "noise", "aio", r"async_io|libaio|-laio", "/usr/bin/ld: cannot find -laio: No such file or directory"),
        ("noise", "noise", "frame #", r"^\s*frame #\d+:", "frame #0: c10::Error::Error + 0x96 (0x7f6c in libc10.so)"),
        ("noise", "noise", "omitting python frames", r"omitting python frames", "<omitting python frames>"),
        # --- collectives
        ("watchdog_timeout", "cause", "atchdog caught collective", rf"(?:{_R} )?Watchdog caught collective operation timeout: WorkNCCL\({_WORK}", "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for 1800117 milliseconds before timing out."),
        ("work_status", "echo", "last enqueued", rf"{_R}.*?(?:work sequence id|at work|NCCL work): (?P<seq>\d+).*?last enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), last completed (?:NCCL )?work: (?P<completed>-?\d+)", "[PG ID 0 PG GUID 0(default_pg) Rank 0]  failure detected by watchdog at work sequence id: 51200 PG status: last enqueued work: 51200, last completed work: 51199"),
        ("work_status", "echo", "ast enqueued", rf"{_R}.*?[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), last completed (?:NCCL )?work: (?P<completed>-?\d+)", "[PG ID 0 PG GUID 0 Rank 2] Received a dump signal due to a collective timeout from this local rank. Last enqueued NCCL work: 7, last completed NCCL work: 6."),
        ("desync_report", "cause", "To our best knowledge", r"To our best knowledge,.*?(?:ranks \[(?P<ranks>[\d, ]+)\])?", "- To our best knowledge, ranks [3] are the lagging ranks that caused this timeout. They never joined any collectives"),
        ("desync_report", "cause", "joined but didn't finish", r"\[(?P<ranks>[\d, ]+)\] joined but didn't finish collective", "- [2] joined but didn't finish collective #4 (count from 1)"),
        ("watchdog_cuda", "cause", "terminated with exception: CUDA error", r"watchdog thread terminated with exception: (?P<what>CUDA error: .*)", "[Rank 1] Process group watchdog thread terminated with exception: CUDA error: unspecified launch failure"),
        ("watchdog_death", "echo", "atchdog thread terminated", r"watchdog thread terminated with exception", "[Rank 1] NCCL watchdog thread terminated with exception: [Rank 1] Watchdog caught"),
        ("watchdog_down", "echo", "entire process down", r"taking the entire process down", "To avoid data inconsistency, we are taking the entire process down."),
        ("watchdog_down", "echo", "Some NCCL operations have failed", r"Some NCCL operations have failed", "Some NCCL operations have failed or timed out."),
        ("async_error", "echo", "async exception", r"async(?:hronous)? exception.*NCCL error: (?P<what>.*)", "[Rank 1] found async exception when checking for NCCL errors: NCCL error: remote process exited"),
        ("nccl_aborted", "echo", "communicator was aborted", r"NCCL communicator was aborted", "NCCL communicator was aborted on rank 3."),
        ("flight_recorder", "echo", "dump signal", r"dump signal|flight recorder|ebug info", "Observed flight recorder dump signal from another rank via TCPStore."),
        ("heartbeat_stuck", "echo", "watchdog got stuck", r"watchdog got stuck for (?P<s>\d+)", "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress"),
        ("heartbeat_stuck", "echo", "eartbeat monitor timed out", r"Heartbeat monitor timed out", "Heartbeat monitor timed out! Process will be terminated"),
        ("flight_recorder", "echo", "should dump", r'"should dump" flag', 'Failed to check the "should dump" flag on TCPStore'),
        ("monitored_barrier", "cause", "failed to pass monitoredBarrier", r"Ranks? (?P<ranks>\d+(?:, ?\d+)*) failed to pass monitoredBarrier", "[Rank 0]: Rank 5 failed to pass monitoredBarrier in 2000 ms"),
        ("missing_ranks", "cause", "all", r"^\[?(?:all|broadcast)[\w./-]*: (?P<ranks>\d+(?:, ?\d+)*)\]?$", "[allreduce.encoder.layer.bias: 8, 9, 10, 11]"),
        ("barrier_echo", "echo", "successfully reached monitoredBarrier", r"successfully reached monitoredBarrier", "Rank 2 successfully reached monitoredBarrier, but received errors"),
        ("barrier_timeout", "cause", "timed out in monitoredBarrier", r"Rank (?P<grank>\d+) timed out in monitoredBarrier", "Rank 0 timed out in monitoredBarrier after 30000 ms."),
        ("fingerprint", "cause", "mismatch between collectives", r"Detected mismatch between collectives on ranks\. Rank (?P<a>\d+) is running collective: CollectiveFingerPrint\((?P<fa>.*?)\), but Rank (?P<b>\d+) is running collective: CollectiveFingerPrint\((?P<fb>.*?)\)(?:\.|$)", "Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=2, OpType=ALLREDUCE, TensorShape=[1]), but Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=2OpType=BARRIER)."),
        ("gloo_timeout", "cause", "Timed out waiting", r"Timed out waiting (?P<ms>\d+)ms for (?:recv|send)", "Timed out waiting 1800000ms for recv operation to complete"),
        ("gloo_lost_peer", "echo", "onnection closed by peer", r"onnection closed by peer", "Connection closed by peer [10.0.0.3]:21973"),
        ("gloo_lost_peer", "echo", "caused pair closure", r"Application timeout caused pair closure", "Application timeout caused pair closure"),
        ("store_get", "echo", "store->get", r"\[(?P<grank>\d+)\] is setting up NCCL communicator and retr\w+ ncclUniqueId from \[(?P<from>\d+)\]", "[2] is setting up NCCL communicator and retreiving ncclUniqueId from [0] via c10d key-value store by store->get('0'), but store->get('0') got error: Socket Timeout"),
        ("store_wait", "cause", "wait timeout after", r"wait timeout after \d+ms", "wait timeout after 600000ms, keys: /default_pg/0//cpu//0"),
        ("store_barrier", "cause", "store based barrier", r"store based barrier (?:on|to).*?rank:? (?P<grank>\d+)|store based barrier.*?rank:? (?P<grank2>\d+)", "Timed out initializing process group in store based barrier on rank: 2, for key: store_based_barrier_key:1"),
        ("store_echo", "echo", "recvValue failed", r"recvValue failed|sendBytes failed", "[c10d] recvValue failed on SocketImpl(fd=3)"),
        # --- launchers
        ("sigterm_sent", "teardown", "closing signal", r"(?:Sending process|Closing process) (?P<pid>\d+) (?:closing signal|via signal) (?P<signal>\w+)", "Sending process 4711 closing signal SIGTERM"),
        ("sigterm_sent", "teardown", "via signal SIGTERM", r"(?:Terminating|Closing) process (?P<pid>\d+) via signal SIGTERM", "Terminating process 4711 via signal SIGTERM"),
        ("forced_kill", "teardown", "forcefully exiting", r"Unable to shutdown process (?P<pid>\d+)", "Unable to shutdown process 4711 via 15, forcefully exiting via 9"),
        ("worker_exit", "teardown", "exitcode", r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+) \(pid: (?P<pid>\d+)\)", "failed (exitcode: 1) local_rank: 3 (pid: 4711) of binary: /usr/bin/python"),
        ("table_exit", "teardown", "exitcode", r"^\s*exitcode\s*: (?P<code>-?\d+) \(pid: (?P<pid>\d+)\)", "  exitcode  : 1 (pid: 4711)"),
        ("table_signal", "teardown", "received by PID", r"Signal (?P<signal>\d+) \(\w+\) received by PID (?P<pid>\d+)", "traceback : Signal 9 (SIGKILL) received by PID 441"),
        ("table_rank", "info", "local_rank:", r"^\s*rank\s*: (?P<rank>\d+) \(local_rank: (?P<local>\d+)\)", "  rank      : 3 (local_rank: 3)"),
        ("table_root", "info", "Root Cause", r"Root Cause", "Root Cause (first observed failure):"),
        ("table_head", "teardown", "FAILED", r"^\S+ FAILED$", "train.py FAILED"),
        ("child_failed", "teardown", "ChildFailedError", r"ChildFailedError", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "),
        ("agent_signal", "cause", "death signal", r"Received (?:Signals\.)?(?P<signal>\w+) death signal", "Received Signals.SIGTERM death signal, shutting down workers"),
        ("agent_signal", "cause", "got signal", r"Process \d+ got signal: (?P<signal>\d+)", "torch.distributed.elastic.multiprocessing.api.SignalException: Process 77 got signal: 15"),
        ("restart", "info", "attempts left", r"Worker group FAILED\. (?P<left>\d+)/(?P<of>\d+) attempts left", "[default] Worker group FAILED. 2/3 attempts left; will restart worker group"),
        ("called_process", "teardown", "CalledProcessError", r"CalledProcessError: Command '(?P<command>.*?)' (?:returned non-zero exit status (?P<code>\d+)|died with <Signals\.(?P<signal>\w+))", "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1."),
        ("killing_subprocess", "teardown", "Killing subprocess", r"Killing subprocess (?P<pid>\d+)", "Killing subprocess 4711"),
        ("launcher_signal", "cause", "Main process received", r"Main process received (?P<signal>SIG\w+)", "Main process received SIGINT, exiting"),
        ("deepspeed_exit", "teardown", "exits with return code", r"exits with return code = (?P<code>-?\d+)", "['python', 'train.py'] exits with return code = -9"),
        ("clean_exit", "info", "exits successfully", r"Process (?P<pid>\d+) exits successfully", "Process 4711 exits successfully."),
        ("pdsh_exit", "teardown", "ssh exited", r"(?<![\w.-])(?P<host>[\w.-]+): ssh exited with exit code (?P<code>\d+)", "pdsh@login: worker-0: ssh exited with exit code 1"),
        ("spawn_exit", "teardown", "terminated with", r"[Pp]rocess (?P<spawn>\d+) terminated with (?:signal (?P<signal>\w+)|exit code (?P<code>\d+))", "torch.multiprocessing.spawn.ProcessExitedException: process 1 terminated with signal SIGKILL"),
        ("spawn_error", "info", "terminated with the following error", r"^(?:-- )?Process (?P<spawn>\d+) terminated with the following error", "-- Process 2 terminated with the following error:"),
        ("spawn_raised", "echo", "ProcessRaisedException", r"ProcessRaisedException", "torch.multiprocessing.spawn.ProcessRaisedException: "),
        ("zombie_line", "teardown", "Forcefully terminating all", r"\[?rank: (?P<rank>\d+)\]? Child process with PID (?P<pid>\d+) terminated with code (?P<code>-?\d+)|Child process with PID (?P<pid2>\d+) terminated with code (?P<code2>-?\d+)", "[rank: 2] Child process with PID 20961 terminated with code 1. Forcefully terminating all other processes to avoid zombies"),
        ("sigterm_received", "echo", "Received SIGTERM", r"Received SIGTERM: 15", "Received SIGTERM: 15"),
        ("sigterm_received", "echo", "SIGTERMException", r"SIGTERMException", "lightning_fabric.utilities.exceptions.SIGTERMException"),
        ("mpi_signal", "teardown", "exited on signal", r"process rank (?P<rank>\d+) with PID (?P<pid>\d+) on node (?P<host>\S+) exited on signal (?P<signal>\d+)", "mpirun noticed that process rank 3 with PID 77 on node n1 exited on signal 9 (Killed)."),
        ("mpi_first", "teardown", "Process name:", r"Process name: \[\[\d+,\d+\],(?P<rank>\d+)\]", "  Process name: [[43020,1],3]"),
        ("mpi_code", "teardown", "Exit code:", r"^\s*Exit code:\s+(?P<code>\d+)", "  Exit code:    1"),
        ("mpi_abort", "teardown", "MPI_ABORT", r"MPI_ABORT was invoked on rank (?P<rank>\d+)", "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD"),
        ("srun_time", "cause", "DUE TO TIME LIMIT", r"DUE TO TIME LIMIT", "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-12-01T12:00:00 DUE TO TIME LIMIT ***"),
        ("srun_preempt", "cause", "DUE TO ", r"DUE TO (?P<why>PREEMPTION|JOB REQUEUE|SIGNAL)", "*** JOB 1 ON n1 CANCELLED AT 2026-12-01T12:00:00 DUE TO PREEMPTION ***"),
        ("srun_node", "cause", "NODE FAILURE", r"DUE TO NODE FAILURE", "*** JOB 1 ON n1 CANCELLED AT 2026-12-01T12:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"),
        ("srun_oom", "cause", "oom", r"Detected \d+ oom[-_]kill event", "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0."),
        ("srun_exit", "teardown", "srun: error:", r"srun: error: (?P<host>\S+): tasks? (?P<tasks>[\d,\-]+): (?P<how>.*)", "srun: error: n1: task 3: Exited with exit code 1"),
        ("srun_cancel", "teardown", "CANCELLED AT", r"\*\*\* (?:STEP|JOB) \S+ ON (?P<host>\S+) CANCELLED AT", "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-12-01T12:00:00 ***"),
        ("srun_abort", "teardown", "srun: ", r"srun: (?:Job step aborted|Terminating|Force Terminated|got SIGCONT|forcing job)", "srun: Job step aborted: Waiting up to 32 seconds for job step to finish."),
        ("composer_exit", "teardown", "lobal rank", r"[Gg]lobal rank (?P<rank>\d+) \(PID (?P<pid>\d+)\) exited with code (?P<code>-?\d+)", "Global rank 3 (PID 77) exited with code 1"),
        ("composer_exit", "teardown", "crashed with exit code", r"Rank (?P<rank>\d+) crashed with exit code (?P<code>-?\d+)", "Rank 3 crashed with exit code 1."),
        ("ray_worker", "teardown", "has failed", r"Worker (?P<rank>\d+) has failed", "Worker 3 has failed."),
        ("ray_died", "echo", "ActorDiedError", r"ActorDiedError|WorkerCrashedError", "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."),
        ("ray_snippet", "info", "Error Snippet", r"\[Rank (?P<ranks>[\d, ]+) Error Snippet\]", "[Rank 3 Error Snippet]:"),
        ("ray_node", "cause", "node", r"(?:The node with node id|[Nn]ode) .{0,200}?(?:has been marked dead|missed too many heartbeats|died)", "The node with node id: ab and address: 10.0.0.3 and node name: 10.0.0.3 has been marked dead"),
        ("ray_oom", "cause", "memory", r"killed due to memory pressure|Task was killed due to the node running low on memory|[Mm]emory on the node .* exceeds the memory usage threshold", "Task was killed due to the node running low on memory."),
        ("exit_barrier", "echo", "exit barrier", r"Error waiting on exit barrier", "Error waiting on exit barrier. Elapsed: 300 seconds"),
        ("rdzv_echo", "echo", "rendezvous", r"has failed to (?:shutdown the rendezvous|send a keep-alive heartbeat)", "The node 'n1_77_0' has failed to send a keep-alive heartbeat to the rendezvous 'x' due to an error"),
        ("rdzv_removed", "cause", "no heartbeat", r"have been removed from the rendezvous .* since they had no heartbeat", "the node(s) 'b_1_0' have been removed from the rendezvous 'u' since they had no heartbeat."),
        ("orte_lost", "cause", "ORTE has lost communication", r"ORTE has lost communication|PRTE has lost communication", "ORTE has lost communication with a remote daemon."),
        ("orte_daemon", "cause", "emote daemon", r"Remote daemon: .* on node (?P<host>\S+)", "  Remote daemon: [[43020,0],3] on node worker-2"),
        # --- machine
        ("oom_kill", "cause", "oom", r"oom-kill:|oom_kill|invoked oom-killer", "oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=77,uid=0"),
        ("oom_kill", "cause", "Killed process", r"[Oo]ut of memory: Killed process (?P<pid>\d+)", "Memory cgroup out of memory: Killed process 77 (python) total-vm:1kB"),
        ("xid", "cause", "Xid", r"Xid \((?P<bus>[^)]*)\): (?P<xid>\d+)", "NVRM: Xid (PCI:0000:c1:00): 79, pid=77, GPU has fallen off the bus."),
        ("gpu_lost", "cause", "GPU is lost", r"GPU is lost", "NVML: Failed to get usage(15): GPU is lost"),
        ("gpu_lost", "cause", "fallen off the bus", r"fallen off the bus", "NVRM: GPU 0000:c1:00.0: GPU has fallen off the bus."),
        ("killed", "cause", "Killed", r"^(?:.*: line \d+: +\d+ )?Killed\b", "Killed"),
        ("fatal_python", "cause", "Fatal Python error", r"Fatal Python error: (?P<what>.*)", "Fatal Python error: Segmentation fault"),
        ("segfault", "cause", "egmentation fault", r"[Ss]egmentation fault", "Segmentation fault (core dumped)"),
        ("bus_error", "cause", "us error", r"[Bb]us error", "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)."),
        ("heap", "cause", " ", r"double free or corruption|free\(\): invalid|malloc\(\): |corrupted (?:size|double|unsorted)|munmap_chunk|stack smashing detected|\*\*\* Error in `", "double free or corruption (!prev)"),
        ("terminate_called", "echo", "terminate called", r"terminate called", "terminate called after throwing an instance of 'c10::DistBackendError'"),
        ("what", "echo", "what():", r"what\(\):\s+(?P<what>.*)", "  what():  basic_string::_M_create"),
        ("device_assert", "cause", "Assertion", r"block: \[\d+,\d+,\d+\], thread: \[\d+,\d+,\d+\] Assertion", "a.cu:3: f: block: [0,0,0], thread: [1,0,0] Assertion `t >= 0` failed."),
        ("c_assert", "cause", "ssertion", r"Assertion [`'].*' failed", "python: a.c:3: f: Assertion `x' failed."),
        # --- NCCL's own lines
        ("nccl_warn", "cause", "NCCL WARN", r"NCCL WARN (?P<what>.*)", "misc/socket.cc:3 NCCL WARN socketStartConnect: Connect to 10.0.0.1<4> failed : Connection refused"),
        ("nccl_last", "echo", "Last error:", r"^Last error:", "Last error:"),
        # --- stops from outside
        ("keyboard", "cause", "KeyboardInterrupt", r"KeyboardInterrupt", "KeyboardInterrupt"),
        ("ctrl_c", "cause", "^C", r"^\s*\^C|\^C\s*$|\^C\[", "^C[2026-12-01 12:00:00,123] [INFO] x"),
        ("reclaim", "cause", "ion", r"(?i)(?:instance|spot) (?:termination|interruption)(?: notice)?|interruption notice", "spot_watcher: instance termination notice received, action=terminate"),
        ("preempt", "cause", "reempt", r"(?i)\bpreempt(?:ed|ion|ing)\b", "Pod was preempted by a higher-priority pod"),
        ("evicted", "cause", "vict", r"\b[Ee]vict(?:ed|ion|ing)\b", "The node was low on resource: memory. Pod evicted."),
        ("usage", "info", "usage:", r"^usage: ", "usage: train.py [-h] [--lr LR]"),
        ("argparse", "cause", "error:", r"^\S+\.py: error: |^\w[\w-]*: error: (?:unrecognized|argument|the following|invalid)", "train.py: error: unrecognized arguments: --local-rank=0"),
        ("no_script", "cause", "can't open file", r"can't open file", "python: can't open file 'train.py': [Errno 2] No such file or directory"),
        ("no_command", "cause", "command not found", r"command not found", "bash: torchrun: command not found"),
        ("ninja", "cause", "ninja", r"ninja: (?:build stopped|error)", "ninja: build stopped: subcommand failed."),
        ("build_failed", "cause", "FAILED: ", r"^FAILED: ", "FAILED: custom_cuda_kernel.cuda.o"),
        ("compiler", "cause", "nvcc fatal", r"nvcc fatal", "nvcc fatal   : Unsupported gpu architecture 'compute_90'"),
        ("compiler", "cause", "error", r"\bnvcc fatal|: (?:fatal )?error: |^error: command|collect2: error|\bld: ", "a.cu:3:10: fatal error: Python.h: No such file or directory"),
        *(("nan", "cause", word, _NAN, example) for word, example in (
            ("nan", "step 10: loss is nan, stopping"), ("NaN", "NaN loss in step 7"), ("NAN", "loss=NAN"),
            ("inf", "grad_norm: inf"), ("Inf", "loss became Inf"), ("INF", "norm = INF"), ("finite", "Non-finite loss"))),
    )
)
_WORDS = tuple((row.word, row) for row in STATEMENTS)


def fields(found: re.Match[str]) -> dict[str, str]:
    """Return what a row caught; of a number as many digits as any real one has."""
    return {k: v[:18] if v.isdecimal() else v for k, v in found.groupdict().items() if v is not None}


def match(text: str) -> tuple[Statement, re.Match[str]] | None:
    """Return the first row that matches a line, with its match."""
    for row in [row for word, row in _WORDS if word in text]:
        if found := row.regex.search(text):
            return row, found
    return None
