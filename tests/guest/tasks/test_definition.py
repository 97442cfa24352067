"""`task.toml` of every published schema version, and what is refused by name."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from guest.errors import Refused
from guest.reason import Reason
from guest.tasks.definition import TaskDefinition, parse_task_toml
from guest.tasks.toml_form import TaskToml
from tests.guest.tasks.packs import LEGACY_TOML, MODERN_TOML


def parse(text: str, name: str = "sample") -> TaskDefinition:
    return parse_task_toml(text.encode(), directory_name=name)


def parsed(text: bytes) -> TaskDefinition | Refused:
    try:
        return parse_task_toml(text, directory_name="sample")
    except Refused as refusal:
        return refusal


def test_the_oldest_form() -> None:
    task = parse(LEGACY_TOML, "legacy")
    assert (task.task_id, task.name) == ("legacy", "legacy")
    assert (task.cpus, task.memory_mb, task.storage_mb) == (2.0, 2048, 10240)
    assert (task.agent_timeout_sec, task.verifier_timeout_sec, task.build_timeout_sec) == (60.0, 120.0, 300.0)
    assert task.docker_image == "example/legacy:20250101"
    assert task.network == "both"
    assert task.allow_internet
    assert (task.agent_user, task.workdir, task.healthcheck) == (None, None, None)


def test_the_newest_form() -> None:
    task = parse(MODERN_TOML, "modern")
    assert (task.task_id, task.name, task.description) == ("modern", "someone/modern", "Write a file.")
    assert (task.cpus, task.memory_mb, task.storage_mb) == (0.5, 512, 1024)
    assert (task.agent_timeout_sec, task.verifier_timeout_sec, task.build_timeout_sec) == (90.0, 45.5, 600.0)
    assert (task.agent_user, task.verifier_user, task.workdir) == ("worker", "0", "/srv/app")
    assert task.agent_env == {"EDITOR": "ed"}
    assert task.verifier_env == {"MODE": "strict"}
    assert task.solution_env == {"DEBIAN_FRONTEND": "noninteractive"}
    assert task.environment_env == {"TZ": "UTC"}
    assert task.network == "none"
    assert not task.allow_internet
    check = task.healthcheck
    assert check is not None
    assert (check.command, check.interval_sec, check.timeout_sec) == ("test -e /ready", 1.0, 30.0)
    assert (check.start_period_sec, check.start_interval_sec, check.retries) == (0.0, 5.0, 5)


def test_an_empty_file_is_a_task_with_the_format_s_defaults() -> None:
    task = parse("")
    assert (task.cpus, task.memory_mb, task.storage_mb, task.docker_image) == (1.0, 2048, None, None)
    assert (task.agent_timeout_sec, task.verifier_timeout_sec, task.build_timeout_sec) == (600.0, 600.0, 600.0)
    assert task.network == "both"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "1.3", "1.4"])
@pytest.mark.parametrize("key", ["version", "schema_version"])
def test_every_schema_version_under_both_keys(key: str, version: str) -> None:
    assert parse(f'{key} = "{version}"').task_id == "sample"


@pytest.mark.parametrize(
    ("text", "memory_mb"),
    [('memory = "2G"', 2048), ('memory = "1.5g"', 1536), ('memory = "512M"', 512), ('memory = "8192K"', 8),
     ("memory_mb = 4096", 4096), ("memory_mb = 4096.0", 4096), ('memory = "2G"\nmemory_mb = 2048', 2048)],
)  # fmt: skip
def test_memory_in_each_spelling(text: str, memory_mb: int) -> None:
    assert parse(f"[environment]\n{text}").memory_mb == memory_mb


@pytest.mark.parametrize(
    ("text", "network"),
    [("[environment]\nallow_internet = true", "both"),
     ("[environment]\nallow_internet = false", "none"),
     ('[environment]\nnetwork_mode = "public"', "both"),
     ('[environment]\nnetwork_mode = "no-network"', "none"),
     ('[environment]\nnetwork_mode = "no-network"\nallow_internet = false', "none"),
     ('[environment]\nnetwork_mode = "no-network"\n[agent]\nnetwork_mode = "public"', "agent"),
     ('[environment]\nallow_internet = false\n[verifier]\nnetwork_mode = "public"', "verifier"),
     ('[verifier]\nnetwork_mode = "no-network"', "agent")],
)  # fmt: skip
def test_network_of_each_phase(text: str, network: str) -> None:
    assert parse(text).network == network


@pytest.mark.parametrize(
    ("text", "named"),
    [("[environment]\ngpus = 1", "environment.gpus = 1"),
     ("[environment]\ngpus = false", "environment.gpus = false"),
     ('[environment]\ngpu_types = ["H100"]', "environment.gpu_types = ['H100']"),
     ('[environment.tpu]\ntype = "v6e"\ntopology = "2x4"', "environment.tpu = {type, topology}"),
     ('[[environment.mcp_servers]]\nname = "files"', "environment.mcp_servers = [{name}]"),
     ('[environment]\nskills_dir = "/skills"', "environment.skills_dir = '/skills'"),
     ('[environment]\nos = "Windows"', "environment.os = 'Windows'"),
     ('[environment]\nnetwork_mode = "allowlist"', "environment.network_mode = 'allowlist'"),
     ('[environment]\nallowed_hosts = ["example.org"]', "environment.allowed_hosts = ['example.org']"),
     ('[agent]\nnetwork_mode = "allowlist"', "agent.network_mode = 'allowlist'"),
     ('[verifier]\nallowed_hosts = ["example.org"]', "verifier.allowed_hosts = ['example.org']"),
     ('[verifier]\nenvironment_mode = "separate"', "verifier.environment_mode = 'separate'"),
     ("[verifier.environment]", "verifier.environment = {}"),
     ('[[verifier.collect]]\ncommand = "dump"', "verifier.collect = [{command}]"),
     ('[[steps]]\nname = "one"', "steps = [{name}]"),
     ('multi_step_reward_strategy = "mean"', "multi_step_reward_strategy = 'mean'"),
     ('artifacts = ["/srv/out"]', "artifacts = ['/srv/out']"),
     ('[agent]\nenv = { KEY = "${API_KEY}" }', "KEY takes '${API_KEY}' from the host's environment"),
     ('schema_version = "2.0"', "schema_version = '2.0'"),
     ("[environment]\nprivileged = true", "environment.privileged = true"),
     ("[agent]\nmax_steps = 3", "agent.max_steps = 3"),
     ("sandbox = 1", "sandbox = 1")],
)  # fmt: skip
def test_what_is_not_supported_is_refused_by_name(text: str, named: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse(text)
    assert refusal.value.reason == Reason.TASK_UNSUPPORTED
    assert named in refusal.value.message
    assert refusal.value.message.startswith("sample/task.toml: ")


def test_unsupported_keys_that_say_nothing_are_accepted() -> None:
    task = parse(
        "artifacts = []\nsteps = []\n"
        '[environment]\ngpus = 0\ngpu_types = []\nmcp_servers = []\nskills_dir = ""\nos = "Linux"\n'
        "[verifier]\ncollect = []\nallowed_hosts = []"
    )
    assert task.task_id == "sample"


@pytest.mark.parametrize(
    "text",
    ["[agent]\ntimeout_sec = 0", "[agent]\ntimeout_sec = -1", "[agent]\ntimeout_sec = inf",
     "[agent]\ntimeout_sec = nan", "[agent]\ntimeout_sec = true", '[agent]\ntimeout_sec = "60"',
     "[agent]\ntimeout_sec = 1e300", "[verifier]\ntimeout_sec = 0", "[environment]\nbuild_timeout_sec = 0.0",
     "[environment]\ncpus = 0", "[environment]\ncpus = true", "[environment]\ncpus = nan",
     "[environment]\nmemory_mb = 0", "[environment]\nmemory_mb = true", "[environment]\nmemory_mb = 1.5",
     '[environment]\nmemory = "2T"', '[environment]\nmemory = "infG"', '[environment]\nmemory = "1M"',
     "[environment]\nmemory = 2048", '[environment]\nmemory = "2G"\nmemory_mb = 4096',
     '[environment]\nstorage = "0G"', "[environment]\nstorage_mb = -5",
     '[environment]\nnetwork_mode = "none"', '[environment]\nnetwork_mode = "public"\nallow_internet = false',
     "[environment]\nallow_internet = 1", '[environment]\ndocker_image = "-v/:/host"',
     '[environment]\ndocker_image = "a b"', '[environment]\ndocker_image = "a\\n"',
     '[environment]\nworkdir = "app"', '[environment]\nworkdir = "/"', '[environment]\nworkdir = "/a/../b"',
     '[environment]\nworkdir = "/a\\nb"',
     "[agent]\nuser = true", "[agent]\nuser = -1", '[agent]\nuser = ""', '[agent]\nuser = "a b"',
     '[agent]\nuser = "root\\n"', "[agent]\nenv = { A = 1 }", '[agent]\nenv = { "A=B" = "1" }',
     '[agent]\nenv = { A = "\\u0000" }', '[environment.healthcheck]\ncommand = ""',
     "[environment.healthcheck]\nretries = 3", '[environment.healthcheck]\ncommand = "x"\ntimeout_sec = 0',
     '[environment.healthcheck]\ncommand = "x"\nretries = 0',
     '[environment.healthcheck]\ncommand = "x"\nretries = true',
     '[task]\nname = "../../etc"', '[task]\nname = "a/b/c"', '[task]\nname = ""', "[task]\nname = 3",
     "version = 1.0", 'version = "1.0"\nschema_version = "1.1"', "agent = 1", "metadata = []",
     "not toml", "a = 1\na = 2"],
)  # fmt: skip
def test_malformed(text: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse(text)
    assert refusal.value.reason == Reason.TASK_MALFORMED


def test_a_refusal_says_where_what_and_why() -> None:
    with pytest.raises(Refused) as refusal:
        parse("[agent]\ntimeout_sec = 0")
    assert refusal.value.message == "sample/task.toml: agent.timeout_sec = 0: Input should be greater than 0"


@pytest.mark.parametrize("name", ["", ".", "..", "-rf", "a/b", "a b", "a..b", "x" * 101, "é", "a\n", ".hidden"])
def test_directory_names_that_cannot_name_a_container(name: str) -> None:
    with pytest.raises(Refused, match="cannot be a task id"):
        parse("", name)


@pytest.mark.parametrize("name", ["install-windows-3.11", "a", "A_b", "0", "x" * 100])
def test_directory_names_that_can(name: str) -> None:
    assert parse("", name).task_id == name


@pytest.mark.parametrize(
    "text",
    [b"\xff", b"\xef\xbb\xbf", b"\0", b"a = [" * 5000, b"[" * 5000, b"a" + b".a" * 20_000 + b" = 1", b"a = {b=" * 5000,
     b"[environment]\nmemory_mb = " + b"9" * 5000, b"[agent]\ntimeout_sec = " + b"9" * 4000,
     b"zz = " + b"[" * 400 + b"]" * 400, b"d = 9999-99-99", b"#" * (256 * 1024 + 1)],
)  # fmt: skip
def test_hostile_bytes_are_refused_in_order(text: bytes) -> None:
    with pytest.raises(Refused) as refusal:
        parse_task_toml(text, directory_name="sample")
    assert len(refusal.value.message) < 600


@given(st.binary(max_size=200))
def test_no_bytes_crash_it(text: bytes) -> None:
    check_orderly(text)


def _keys() -> list[tuple[str, str]]:
    """Every (table, key) of the form, and the unsupported ones."""
    keys = [("", name) for name in TaskToml.model_fields]
    for table, field in TaskToml.model_fields.items():
        keys += [(table, name) for name in getattr(type(field.default), "model_fields", {})]
    return [*keys, ("environment", "gpus"), ("environment", "tpu"), ("verifier", "environment"), ("", "steps")]


_SCALARS = st.one_of(
    st.sampled_from(
        ["true", "false", "inf", "nan", "-0.0", "1e400", "0", "-1", "''", "[]", "{}", "[[[1]]]", "{a.b=1}"]
    ),
    st.sampled_from(["1979-05-27T07:32:00Z", "07:32:00", "0x10", "9" * 400, '"2G"', '"${A}"', '"public"', '"\\u0000"']),
    st.integers().map(str),
    st.floats().map(repr),
    st.text(st.characters(min_codepoint=32, exclude_characters="'\x7f", exclude_categories=["Cs"]), max_size=9).map(
        lambda text: f"'{text}'"
    ),
)


@given(st.lists(st.tuples(st.sampled_from(_keys()), _SCALARS), max_size=4))
@example([(("environment", "memory_mb"), "9" * 400)])
def test_no_value_of_any_key_crashes_it(settings: list[tuple[tuple[str, str], str]]) -> None:
    text = "\n".join(f"{table + '.' if table else ''}{key} = {value}" for (table, key), value in settings)
    check_orderly(text.encode())


def check_orderly(text: bytes) -> None:
    """Either a definition whose figures can be worked with, or one of the two refusals; no other error."""
    task = parsed(text)
    if isinstance(task, Refused):
        assert task.reason in (Reason.TASK_MALFORMED, Reason.TASK_UNSUPPORTED)
        return
    assert 0 < task.agent_timeout_sec < 1e9
    assert 0 < task.cpus <= 1024
    assert type(task.memory_mb) is int
    assert task.memory_mb >= 6
