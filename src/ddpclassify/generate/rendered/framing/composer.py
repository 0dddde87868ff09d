"""MosaicML Composer's launcher: the console shows local rank 0; crashed ranks' output is printed at the end."""

from __future__ import annotations

from collections.abc import Sequence

from ..script import Say, Script
from .base import Death, Launcher, Writer, agent, blamed, quote


class Composer(Launcher):
    """Hides all but local rank 0, then prints what the crashed ranks had said."""

    kill_lag = (0.1, 1.2)

    def ending(self, script: Script, deaths: Sequence[Death]) -> list[Say]:
        own = sorted((death for death in deaths if death.cause != "victim"), key=lambda death: death.t)
        says = []
        for death in own[:1]:
            proof = script.table_is_evidence and blamed(script, death)
            names = (death.rank,) if blamed(script, death) else ()
            says.append(
                agent(
                    death.t + 0.1,
                    f"Rank {death.rank} crashed with exit code {death.code}.",
                    names=names,
                    evidence=(0,) if proof else (),
                )
            )
            says.append(
                agent(
                    death.t + 0.11,
                    "Waiting up to 30 seconds for all training processes to terminate. Press Ctrl-C to exit"
                    " immediately.",
                )
            )
        return says

    def rewrite(self, says: list[Say], script: Script, deaths: Sequence[Death], writer: Writer) -> list[Say]:
        hidden = {rank for rank in range(self.job.world_size) if self.job.local(rank) != 0}
        kept = [say for say in says if say.who not in hidden]
        crashed = sorted((d for d in deaths if d.code not in (-15, -9) and d.rank in hidden), key=lambda d: d.rank)
        t = max((say.t for say in says), default=0.0) + 1.0
        for death in crashed:
            rank, own = death.rank, [say for say in says if say.who == death.rank and say.kind != "bar"][-40:]
            names = (rank,) if blamed(script, death) else ()
            kept.append(
                agent(t, f"Global rank {rank} (PID {self.job.pids[rank]}) exited with code {death.code}", names=names)
            )
            for number, stream in enumerate(("STDOUT", "STDERR")):
                said = sorted(
                    (say for say in own if (say.stream == "stdout") == (stream == "STDOUT")), key=lambda say: say.t
                )
                before, after = (
                    f"----------Begin global rank {rank} {stream}----------",
                    f"----------End global rank {rank} {stream}----------",
                )
                kept.append(
                    quote(
                        -1, t + 0.01 * (number + 1), before, [writer.headed(say)[0] for say in said], after, names=names
                    )
                )
            t += 0.1
        if crashed:
            kept.append(
                agent(
                    t,
                    f"ERROR:composer.cli.launcher:Global rank {crashed[0].rank} (PID {self.job.pids[crashed[0].rank]})"
                    f" exited with code {crashed[0].code}",
                )
            )
        return kept
