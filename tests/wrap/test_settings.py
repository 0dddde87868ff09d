"""What `run` sets so that a log can be read, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpclassify.wrap.settings import SETTINGS, settle

FOLDER = Path("/logs/1")
TEE = ["--tee", "3", "--log_dir", "/logs/1/ranks"]


@pytest.mark.parametrize(
    ("command", "at", "added"),
    [
        ("torchrun --nproc-per-node 8 train.py", 1, TEE),
        ("/opt/bin/torchrun train.py --tee 0 -t 3", 1, TEE),  # the script's own options
        ("srun --ntasks 2 torchrun train.py", 4, TEE),
        ("python -m torch.distributed.run train.py", 3, TEE),
        ("python -m torch.distributed.launch --nproc_per_node 2 train.py", 3, TEE),
        ("torchrun -m package.train -r 7", 1, TEE),
        ("torchrun --log-dir mine train.py", 1, TEE[:2]),
        ("torchrun --tee 1 train.py", 0, []),
        ("torchrun -t=3 train.py", 0, []),
        ("torchrun --redirects 3 train.py", 0, []),
        ("python train.py torchrun", 0, []),
        ("accelerate launch train.py", 0, []),
    ],
)
def test_torchrun_marks_its_ranks_when_nobody_said_otherwise(command: str, at: int, added: list[str]) -> None:
    words = command.split()
    assert settle(words, {}, FOLDER, ())[0] == [*words[:at], *added, *words[at:]]


def test_what_is_set_already_is_kept_and_not_said() -> None:
    _, env, said = settle(["python", "t.py"], {"PYTHONUNBUFFERED": "x", "PYTHONFAULTHANDLER": ""}, FOLDER, ())
    assert env == {
        "PYTHONUNBUFFERED": "x",
        "PYTHONFAULTHANDLER": "",
        "TORCHELASTIC_ERROR_FILE": "/logs/1/error.json",
    }
    assert said == ["TORCHELASTIC_ERROR_FILE=/logs/1/error.json"]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
def test_each_setting_can_be_left_out(setting: object) -> None:
    name = getattr(setting, "name")  # noqa: B009
    everything = settle(["torchrun", "t.py"], {}, FOLDER, ())[2]
    without = settle(["torchrun", "t.py"], {}, FOLDER, (name,))[2]
    assert len(everything) == len(SETTINGS)
    assert len(without) == len(SETTINGS) - 1
    assert settle(["torchrun", "t.py"], {}, FOLDER, [s.name for s in SETTINGS]) == (["torchrun", "t.py"], {}, [])
