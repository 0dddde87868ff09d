"""The category files are complete, agree with each other, and answer every case a reader may bring."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ddpclassify import taxonomy
from ddpclassify.taxonomy import Category

FOLDER = Path(taxonomy.__file__).parent
EVERY = (*taxonomy.names(), taxonomy.UNKNOWN)

# Reasons are written into labels and stored diagnoses, so an identifier never changes once it is out.
REASONS = {
    "code_error": "undefined_name wrong_attribute wrong_type missing_key index_range wrong_value assertion syntax "
    "tensor_shape tensor_dtype tensor_device autograd framework_bug other",
    "dependency_error": "missing_module import_failed missing_library undefined_symbol glibc abi_mismatch "
    "version_conflict",
    "launch_config": "bad_argument missing_environment device_ordinal duplicate_gpu rank_out_of_range node_count "
    "missing_script container",
    "rendezvous_error": "port_in_use store_unreachable rendezvous_timeout host_unresolved missing_workers "
    "rendezvous_closed",
    "cuda_oom": "allocation fragmentation shared_gpu library nccl",
    "host_oom": "oom_killer cgroup_limit allocation_failed killed_unconfirmed dataloader_worker ray_memory_monitor",
    "shm_exhausted": "dataloader_bus_error shm_open shm_full nccl_shm",
    "collective_timeout": "missing_rank all_waiting store_wait barrier heartbeat",
    "network_error": "connection_lost infiniband interface no_route remote_error fabric",
    "rank_divergence": "collective_type shape dtype uneven_inputs unused_parameters model_mismatch control_flow",
    "data_error": "missing_file corrupt_file undecodable label_range ragged_batch schema empty",
    "storage_error": "disk_full quota permission read_only io_error stale_handle",
    "checkpoint_error": "key_mismatch size_mismatch corrupt missing unpickling optimizer_mismatch",
    "cuda_error": "illegal_access device_assert misaligned launch_failure library unknown",
    "gpu_hardware": "ecc fell_off_bus nvlink xid gpu_lost row_remap",
    "gpu_environment": "driver_too_old no_driver no_gpu no_kernel_image version_mismatch cpu_build fabric_manager",
    "numerical_error": "nan_loss nan_gradient loss_scale anomaly",
    "preempted": "scheduler time_limit user_cancelled spot_reclaim hangup",
    "native_crash": "segfault abort heap_corruption illegal_instruction floating_point",
    "race_condition": "file_exists partial_file vanished_file lock concurrent_build",
    "node_failure": "node_lost heartbeat_lost pod_evicted ray_node ssh_lost daemon_lost",
    "external_service": "auth rate_limit server_error unreachable credentials tracker certificate not_found",
    "build_error": "compiler_missing compile_failed nvcc cuda_home triton headers_missing linker",
    "resource_limit": "open_files threads processes locked_memory semaphores",
    "no_failure": "completed running",
}
ORIGIN_AND_RETRY = {
    "code_error": ("user code", "no"),
    "dependency_error": ("environment", "no"),
    "launch_config": ("launch", "no"),
    "rendezvous_error": ("launch", "maybe"),
    "cuda_oom": ("resource", "no"),
    "host_oom": ("resource", "maybe"),
    "shm_exhausted": ("resource", "no"),
    "collective_timeout": ("communication", "maybe"),
    "network_error": ("communication", "maybe"),
    "rank_divergence": ("user code or data", "no"),
    "data_error": ("data", "no"),
    "storage_error": ("infrastructure", "maybe"),
    "checkpoint_error": ("user code or data", "no"),
    "cuda_error": ("user code", "maybe"),
    "gpu_hardware": ("infrastructure", "no"),
    "gpu_environment": ("environment", "no"),
    "numerical_error": ("user code or data", "no"),
    "preempted": ("infrastructure", "yes"),
    "native_crash": ("environment", "maybe"),
    "race_condition": ("user code", "maybe"),
    "node_failure": ("infrastructure", "yes"),
    "external_service": ("environment", "maybe"),
    "build_error": ("environment", "no"),
    "resource_limit": ("resource", "no"),
    "no_failure": ("none", "no"),
}


def prose(category: Category) -> str:
    """All text of a category, as a reader sees it."""
    parts = [category.title, category.meaning, category.first_check, *category.steps]
    parts += [neighbour.how for neighbour in category.neighbours]
    parts += category.examples
    for missing in category.missing:
        parts += [missing.when, *missing.flags]
    for reason in category.reasons:
        parts += [reason.title, reason.first_check or "", *reason.steps]
    return "\n".join(parts)


def test_names_are_the_files() -> None:
    assert sorted(taxonomy.names()) == sorted(path.stem for path in (FOLDER / "categories").glob("*.toml"))
    assert list(taxonomy.names()) == list(ORIGIN_AND_RETRY)


@pytest.mark.parametrize("name", EVERY)
def test_file_is_complete(name: str) -> None:
    category = taxonomy.load(name)
    path = FOLDER / ("unknown.toml" if name == taxonomy.UNKNOWN else f"categories/{name}.toml")
    assert f'name = "{name}"\n' in path.read_text(encoding="utf-8")
    assert len(category.title.split()) <= 8
    assert 2 <= category.meaning.count(". ") + 1 <= 4
    assert 3 <= len(category.examples) <= 6
    assert 3 <= len(category.steps) <= 6
    assert category.missing
    for reason in category.reasons:
        assert reason.steps == () or 1 <= len(reason.steps) <= 6, reason.id


@pytest.mark.parametrize("name", taxonomy.names())
def test_reasons_and_retry_are_as_agreed(name: str) -> None:
    category = taxonomy.load(name)
    assert [reason.id for reason in category.reasons] == REASONS[name].split()
    assert (category.origin, category.retry) == ORIGIN_AND_RETRY[name]
    assert all(reason.retry != category.retry for reason in category.reasons), "say it only where it differs"


@pytest.mark.parametrize("name", taxonomy.names())
def test_neighbours_are_real(name: str) -> None:
    near = [neighbour.category for neighbour in taxonomy.load(name).neighbours]
    assert len(near) >= 3
    assert set(near) <= set(taxonomy.names()) - {name}
    assert len(set(near)) == len(near)


@pytest.mark.parametrize("name", EVERY)
def test_text_is_plain(name: str) -> None:
    for line in prose(taxonomy.load(name)).split("\n"):
        assert line.isascii(), line
        assert line.isprintable(), line
        # Longer words would not fit a terminal of 80 columns, and only spaces may break a line.
        assert all(len(word) <= 72 for word in line.split()), line
    # The overview gives each category two lines.
    assert len(taxonomy.load(name).summary) <= 76


# What a person who reads such logs by hand learns first: the sign, where it belongs, and what the advice must say.
CASES = [
    ("the same traceback on every rank is one bug", "code_error", None, ["same traceback", "line"]),
    ("one bug: the environment is not to blame", "code_error", None, ["fix that line once", "environment is not"]),
    ("a name that only rank 0 defines", "code_error", "undefined_name", ["`if rank == 0:`", "c = None", "every rank"]),
    ("the user's frame, not the framework's", "code_error", None, ["your own code", "not a frame under"]),
    ("exit status 1 is a result", "unknown", None, ["`exit status 1`", "results, never causes"]),
    ("CalledProcessError is a result", "unknown", None, ["CalledProcessError"]),
    ("type, file, line and description mark the error", "unknown", None, ["exception type", "line number"]),
    ("tracebacks cut into each other", "unknown", None, ["cut into each other", "what they share"]),
    ("who raised it: launcher, script or NCCL", "unknown", None, ["in the launcher", "training script", "NCCL"]),
    ("keep the full log", "unknown", None, ["2>&1 | tee full.log"]),
    ("keep the full log next time", "no_failure", None, ["2>&1 | tee full.log"]),
    ("start-up notices are noise", "no_failure", None, ["OMP_NUM_THREADS"]),
    ("a main-process error ends the job by itself", "launch_config", None, ["main-process error", "by itself"]),
    ("initialisation: variables and arguments", "launch_config", None, ["MASTER_ADDR", "LOCAL_RANK", "arguments"]),
    ("pre-flight checks under a debug switch", "launch_config", None, ["DEBUG_DDP", "one barrier", "clear line"]),
    ("out of memory: divide the batch", "cuda_oom", None, ["batch a GPU", "divided by the world size"]),
    ("out of memory: cache and fragments", "cuda_oom", None, ["torch.cuda.empty_cache()", "expandable_segments:True"]),
    ("out of memory: accumulate", "cuda_oom", None, ["gradient accumulation"]),
    ("out of memory on some ranks only", "cuda_oom", None, ["only some ranks"]),
    ("communication: try the port", "network_error", None, ["nc -zv IP PORT"]),
    ("communication: the firewall", "network_error", None, ["firewall"]),
    ("communication: more time", "network_error", None, ["timeout=timedelta(seconds=120)", "30 s socket timeout"]),
    ("NCCL in the text: between the nodes", "network_error", None, ["connectivity between the two nodes"]),
    ("a store that cannot be reached", "rendezvous_error", "store_unreachable", ["nc -zv $MASTER_ADDR $MASTER_PORT"]),
    ("a collective that waits", "collective_timeout", None, ["nc -zv HOST PORT", "timeout=timedelta(minutes=30)"]),
    ("barriers and log lines after key steps", "collective_timeout", None, ["barrier", "after key steps"]),
    ("only some ranks fail: the data differ", "rank_divergence", None, ["only some ranks fail", "shuffle, sampler"]),
    ("only some ranks fail: the sampler", "rank_divergence", None, ["DistributedSampler", "seed", "set_epoch"]),
    ("state checks between ranks", "rank_divergence", None, ["all_gather_object", "DEBUG_DDP"]),
    ("rank and batch index before re-raising", "data_error", None, ["rank %d batch %d", "re-raising"]),
    ("rank and batch index, any exception", "code_error", None, ["rank %d batch %d", "raise"]),
    ("time and rank on each line", "unknown", None, ["time and rank on every log line"]),
    ("random failures: a race", "race_condition", None, ["look random", "missing synchronisation", "dist.barrier()"]),
]


@pytest.mark.parametrize(("case", "category", "reason", "said"), CASES, ids=[case[0] for case in CASES])
def test_advice_answers_the_case(case: str, category: str, reason: str | None, said: list[str]) -> None:
    found = taxonomy.load(category)
    advice = found.advice_for(reason)
    text = "\n".join([found.meaning, advice.first_check, *advice.steps, *found.examples])
    missing = [words for words in said if words not in text]
    assert not missing


@pytest.mark.parametrize(
    ("category", "flag"),
    [
        ("collective_timeout", "TORCH_NCCL_TRACE_BUFFER_SIZE"),
        ("collective_timeout", "TORCH_NCCL_DUMP_ON_TIMEOUT"),
        ("collective_timeout", "faulthandler"),
        ("rank_divergence", "TORCH_DISTRIBUTED_DEBUG=DETAIL"),
        ("network_error", "NCCL_DEBUG=WARN"),
        ("code_error", "@record"),
        ("code_error", "--log-dir logs --tee 3"),
        ("code_error", "python -u"),
        ("gpu_hardware", "dmesg -T | grep -i xid"),
        ("cuda_error", "CUDA_LAUNCH_BLOCKING=1"),
    ],
)
def test_flags_for_next_time(category: str, flag: str) -> None:
    assert any(flag in each for missing in taxonomy.load(category).missing for each in missing.flags)


def test_reason_falls_back_to_its_category() -> None:
    category = taxonomy.load("storage_error")
    own = category.reason("disk_full")
    assert taxonomy.advice("storage_error", "disk_full").steps == own.steps != category.steps
    other = taxonomy.load("code_error")
    assert taxonomy.advice("code_error", "other") == other.advice_for() == taxonomy.advice("code_error")
    assert taxonomy.retry("code_error", "framework_bug") == "maybe"
    assert taxonomy.retry("code_error", "other") == taxonomy.retry("code_error") == "no"


@pytest.mark.parametrize(
    ("category", "reason", "expected"),
    [
        ("preempted", "user_cancelled", "no"),
        ("preempted", "time_limit", "maybe"),
        ("preempted", "spot_reclaim", "yes"),
        ("storage_error", "permission", "no"),
        ("storage_error", "io_error", "maybe"),
        ("storage_error", "stale_handle", "yes"),
        ("host_oom", "cgroup_limit", "no"),
        ("external_service", "rate_limit", "yes"),
        ("external_service", "auth", "no"),
    ],
)
def test_retry_differs_by_reason(category: str, reason: str, expected: str) -> None:
    assert taxonomy.retry(category, reason) == expected


def test_unknown_names() -> None:
    with pytest.raises(KeyError) as caught:
        taxonomy.load("cuda_omm")
    assert isinstance(caught.value, taxonomy.UnknownNameError)
    assert str(caught.value) == "there is no category 'cuda_omm'; did you mean 'cuda_oom'?"
    with pytest.raises(taxonomy.UnknownNameError, match=r"^there is no category 'zzz'$"):
        taxonomy.origin("zzz")
    with pytest.raises(taxonomy.UnknownNameError, match="there is no reason of cuda_oom 'fragments'; did you mean"):
        taxonomy.advice("cuda_oom", "fragments")


def test_dictionary_fills_in_the_reasons() -> None:
    data = taxonomy.load("cuda_oom").to_dict()
    reasons = {reason["id"]: reason for reason in data["reasons"]}
    assert reasons["allocation"]["steps"] == taxonomy.load("cuda_oom").steps
    assert reasons["allocation"]["retry"] == "no"
    assert reasons["shared_gpu"]["retry"] == "maybe"


def test_names_read_no_file_and_load_reads_one() -> None:
    code = (
        "import pathlib\n"
        "read = []\n"
        "plain = pathlib.Path.read_text\n"
        "pathlib.Path.read_text = lambda self, *a, **k: (read.append(self.name), plain(self, *a, **k))[1]\n"
        "from ddpclassify import taxonomy\n"
        "taxonomy.names()\n"
        "assert read == [], read\n"
        "taxonomy.advice('cuda_oom'); taxonomy.retry('cuda_oom', 'nccl')\n"
        "assert read == ['cuda_oom.toml'], read\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


OWN = """
[category.licence_server]
title = "No licence left"
origin = "environment"
retry = "yes"
meaning = \"\"\"
The solver's licence server
gave none.\"\"\"
first_check = "Run `lmstat -a`."
steps = ["Wait.", "Ask for more seats."]
[[category.licence_server.reasons]]
id = "expired"
title = "The licence has run out"
retry = "no"
[category.odd_one]
origin = "none"
retry = "maybe"
meaning = "Odd."
first_check = "Look."
steps = ["Think."]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_own_categories(tmp_path: Path) -> None:
    found = taxonomy.load_file(written(tmp_path, OWN))
    assert list(found) == ["licence_server", "odd_one"]
    licence = found["licence_server"]
    assert licence.meaning == "The solver's licence server gave none."
    assert licence.retry_for("expired") == "no"
    assert licence.advice_for("expired") == licence.advice_for()
    assert found["odd_one"].title == "odd one"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('title = "No licence left"', "titel = 'x'", "category.licence_server.titel: unknown key"),
        ('title = "No licence left"', "title = 3", "category.licence_server.title: must be text, not a number"),
        ('origin = "environment"', "origin = 'moon'", "category.licence_server.origin: must be one of user code, "),
        ('retry = "yes"', "retry = true", "category.licence_server.retry: must be text, not true or false"),
        ('retry = "yes"', "", "category.licence_server.retry: is missing"),
        ('"Run `lmstat -a`."', "' '", "category.licence_server.first_check: is empty"),
        ('["Think."]', '"Think."', "category.odd_one.steps: must be a list of texts, not text"),
        ('["Think."]', "[]", "category.odd_one.steps: must be a list of texts, not an empty list"),
        ('["Think."]', "['Think.', 1]", "category.odd_one.steps[1]: must be text, not a number"),
        ('id = "expired"', "id = 'expired'\nwhy = 'x'", "category.licence_server.reasons[0].why: unknown key"),
        ("[[category.licence_server.reasons]]", "[category.licence_server.reasons]", "must be a list of tables"),
        ("[category.odd_one]", "[other.odd_one]", "other: unknown key"),
        ("[category.odd_one]", "[category", "not a TOML file"),
        (OWN, "", "category: is missing"),
        (OWN, "category = 1", "category: must be a table, not a number"),
        (OWN, "[category]\nx = 1", "category.x: must be a table, not a number"),
    ],
)
def test_own_categories_refused(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in OWN
    path = written(tmp_path, OWN.replace(old, new, 1))
    with pytest.raises(ValueError) as caught:
        taxonomy.load_file(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_own_categories_twice_the_same_reason(tmp_path: Path) -> None:
    twice = '[[category.licence_server.reasons]]\nid = "expired"\ntitle = "again"\n'
    with pytest.raises(ValueError, match=r"category\.licence_server\.reasons: 'expired' appears twice"):
        taxonomy.load_file(written(tmp_path, OWN.replace("[category.odd_one]", twice + "[category.odd_one]")))


def test_own_categories_not_text(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"own\.toml: not a TOML file"):
        taxonomy.load_file(path)
