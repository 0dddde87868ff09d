"""What makes a job's log readable, one row a setting; each can be switched off, and what was set is said."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Setting:
    """A setting: an environment variable with its value, or (no variable) torchrun's own options.

    `value` may hold `{folder}`, where the job's log is kept. What the user has set already is never changed.
    """

    name: str
    variable: str
    value: str
    why: str


SETTINGS: tuple[Setting, ...] = (
    Setting("unbuffered", "PYTHONUNBUFFERED", "1", "lines appear when they are printed, none is lost at a crash"),
    Setting("faulthandler", "PYTHONFAULTHANDLER", "1", "a native crash shows the Python stack"),
    Setting("error-file", "TORCHELASTIC_ERROR_FILE", "{folder}/error.json", "the first worker's error as a file"),
    Setting("tee", "", "--tee 3 --log_dir {folder}/ranks", "torchrun: a rank on every line, and a file a rank"),
)

_LAUNCHERS = ("torch.distributed.run", "torch.distributed.launch")
_OWN = ("--tee", "-t", "--redirects", "-r")
_FOLDER = ("--log_dir", "--log-dir")


def settle(
    command: list[str], environ: Mapping[str, str], folder: Path, off: Collection[str]
) -> tuple[list[str], dict[str, str], list[str]]:
    """Return the command and the environment with the settings applied, and what was set, as it would be typed.

    Parameters
    ----------
    command : the user's
    environ : the environment it would run in
    folder : where the job's log is kept
    off : names of settings to leave out
    """
    env, said = dict(environ), list[str]()
    for setting in SETTINGS:
        if setting.name in off:
            continue
        value = setting.value.format(folder=folder.absolute())
        if not setting.variable:
            command, added = _with_tee(command, value.split(" ", 3))
            said += [added] * bool(added)
        elif setting.variable not in env:
            env[setting.variable] = value
            said.append(f"{setting.variable}={value}")
    return command, env, said


def _with_tee(command: list[str], options: list[str]) -> tuple[list[str], str]:
    """Add `--tee 3` and a log folder behind torchrun, unless the user says already where output goes."""
    at = _launcher(command)
    if at is None:
        return command, ""
    given = {word.partition("=")[0] for word in _launcher_options(command[at + 1 :])}
    if given & set(_OWN):
        return command, ""
    tee, folder = options[:2], options[2:]
    added = tee if given & set(_FOLDER) else tee + folder
    return [*command[: at + 1], *added, *command[at + 1 :]], " ".join(added)


def _launcher(command: list[str]) -> int | None:
    """Where torchrun stands (or `-m torch.distributed.run`); it may follow srun, env and the like."""
    for at, word in enumerate(command):
        if Path(word).name == "torchrun" or (word in _LAUNCHERS and at and command[at - 1] == "-m"):
            return at
        if word.endswith(".py"):
            break
    return None


def _launcher_options(words: list[str]) -> list[str]:
    """The words up to the script: what follows it is the script's own."""
    for at, word in enumerate(words):
        if word in ("--", "-m", "--module", "--no-python", "--no_python") or word.endswith(".py"):
            return words[:at]
    return words
