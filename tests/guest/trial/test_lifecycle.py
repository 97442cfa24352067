"""One trial on the real engine: how it ends, what it records, and what a hostile agent cannot do."""

import json
import threading
from pathlib import Path

import pytest

from guest.errors import Refused
from guest.reason import Reason
from guest.tasks.task import Task
from guest.trial.agent import NopAgent, OracleAgent, Seat
from guest.trial.course import TrialPlan
from guest.trial.engine import Engine
from guest.trial.environment import CommandTimeout, Environment
from guest.trial.image import ImageFailure, ResolvedImage
from guest.trial.lifecycle import Trial
from guest.trial.outcome import Outcome
from guest.trial.slot import Slot
from tests.guest.trial.conftest import RunTrial, Script
from tests.tasks_made import BUDGET, make_task

pytestmark = pytest.mark.engine

CHECK = 'test "$(cat /srv/answer 2>/dev/null)" = 42'
GRADE = f"if {CHECK}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt"
TASK = make_task("answer", solve="echo 42 > /srv/answer", test=GRADE)


def test_oracle_passes_and_the_record_is_whole(run_trial: RunTrial, tmp_path: Path) -> None:
    record = run_trial(TASK, OracleAgent())
    assert (record.outcome, record.reward, record.reason_code) == (Outcome.PASSED, 1.0, None)
    assert record.trial_id == "answer__r1"
    assert record.tree_digest == TASK.tree_digest
    assert record.grading is not None
    assert (record.grading.exit_code, record.grading.source, record.grading.raw) == (0, "txt", "1\n")
    assert record.cpu.final
    assert record.cpu.agent_sec is not None
    assert 0 < record.cpu.agent_sec < 5
    assert record.cpu.verifier_sec is not None
    assert record.container.removed
    assert record.container.running_at_end
    assert [log.path for log in record.logs] == [
        "agent/agent.log",
        "verifier/test-stdout.txt",
        "verifier/reward.txt",
    ]
    kept = json.loads((tmp_path / "trial" / "record.json").read_text())
    assert kept == record.model_dump(mode="json")
    assert json.loads((tmp_path / "trial" / "state.json").read_text()) == {"state": "done"}
    assert json.loads((tmp_path / "trial" / "inspect.json").read_text())["HostConfig"]["Binds"] is None


def test_nop_fails(run_trial: RunTrial) -> None:
    record = run_trial(TASK, NopAgent())
    assert (record.outcome, record.reward, record.reason_code) == (Outcome.FAILED, 0.0, None)


def test_cpu_of_both_phases_is_told_apart(run_trial: RunTrial) -> None:
    spin = "python3 -c 'import time\nwhile time.process_time() < {}: pass'"
    task = make_task(test=f"{spin.format(0.3)}; echo 1 > /logs/verifier/reward.txt")
    cpu = run_trial(task, f"setsid -w {spin.format(1.0)}").cpu
    assert cpu.agent_sec is not None
    assert cpu.verifier_sec is not None
    assert 1.0 <= cpu.agent_sec < 1.6
    assert 0.3 <= cpu.verifier_sec < 0.8
    assert cpu.throttled_periods is not None


# --- the agent phase


def test_tests_and_solution_are_absent_while_the_agent_acts(run_trial: RunTrial) -> None:
    task = make_task(
        test="echo CANARY-TEST; " + GRADE, solve="echo CANARY-SOLUTION", files={"README.md": "CANARY-README"}
    )
    agent = Script("grep -rl CANARY- / --exclude-dir=proc --exclude-dir=sys 2>/dev/null; ls -d /tests /solution; mount")
    run_trial(task, agent)
    assert "CANARY-" not in agent.saw
    assert agent.saw.count("No such file or directory") == 2
    mounts = {line.split()[2] for line in agent.saw.splitlines() if " on /" in line and " type " in line}
    allowed = ("/proc", "/sys", "/dev", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
    assert all(mount == "/" or mount.startswith(allowed) for mount in mounts)


def test_agent_wall_limit_is_terminal_and_skips_the_verifier(run_trial: RunTrial) -> None:
    record = run_trial(TASK, "sleep 1000", agent_wall_sec=1.0)
    assert (record.outcome, record.reward, record.reason_code) == (
        Outcome.AGENT_TIMEOUT,
        0.0,
        Reason.AGENT_TIMEOUT,
    )
    assert record.grading is None
    assert record.cpu.final
    assert record.wall.agent_sec is not None
    assert 1.0 <= record.wall.agent_sec < 5


def test_an_agent_that_raises_scores_nothing(run_trial: RunTrial) -> None:
    class Broken(Script):
        def run(self, task: Task, instruction: str, environment: Environment, seat: Seat) -> None:
            raise ZeroDivisionError(instruction)

    record = run_trial(TASK, Broken(""))
    assert (record.outcome, record.reward, record.reason_code) == (Outcome.AGENT_ERROR, 0.0, Reason.AGENT_FAILED)
    assert record.message == "the agent raised ZeroDivisionError: Do it.\n"


def test_the_handle_works_as_harbor_describes_and_not_after_the_phase(run_trial: RunTrial, tmp_path: Path) -> None:
    class Explorer(Script):
        environment: Environment

        def run(self, task: Task, instruction: str, environment: Environment, seat: Seat) -> None:
            self.environment = environment
            merged = environment.exec("echo $A; echo err >&2; exit 3", env={"A": "x"}, cwd="/tmp")
            assert (merged.return_code, merged.stderr) == (3, None)
            assert sorted((merged.stdout or "").split()) == ["err", "x"]
            assert environment.exec("true").stdout is None
            with pytest.raises(CommandTimeout):
                environment.exec("sleep 100", timeout_sec=0.5)
            assert environment.exec("pgrep sleep | grep -v '^1$' | wc -l").stdout == "0\n"
            with pytest.raises(ValueError, match="timeout_sec"):
                environment.exec("true", timeout_sec=0)
            with pytest.raises(TypeError):
                environment.exec("true", timeout=1)  # type: ignore[call-arg]
            local = tmp_path / "local"
            (local / "deep").mkdir(parents=True)
            (local / "tool").write_text("#!/bin/sh\necho ran\n")
            (local / "tool").chmod(0o755)
            (local / "deep" / "data").write_bytes(bytes(range(256)))
            environment.upload_dir(local, "/opt/in/put")
            assert environment.exec("/opt/in/put/tool").stdout == "ran\n"
            environment.upload_file(local / "tool", "/usr/local/bin/tool")
            assert environment.exec("tool").stdout == "ran\n"
            assert environment.is_dir("/opt/in")
            assert not environment.is_file("/opt/in")
            assert environment.is_file("/opt/in/put/tool")
            environment.exec("ln -s /etc/passwd /opt/in/put/link")
            environment.download_dir("/opt/in/put", tmp_path / "back")
            assert (tmp_path / "back" / "deep" / "data").read_bytes() == bytes(range(256))
            assert not (tmp_path / "back" / "link").exists()
            environment.download_file("/opt/in/put/tool", tmp_path / "tool")
            assert (tmp_path / "tool").read_text() == "#!/bin/sh\necho ran\n"
            with pytest.raises(Refused):
                environment.download_file("/opt/in/put/link", tmp_path / "never")
            with pytest.raises(ValueError, match="absolute"):
                environment.put("../etc", {})
            seat.log.add(b"looked around")

    agent = Explorer("")
    record = run_trial(TASK, agent)
    assert record.outcome is Outcome.FAILED, record.message
    with pytest.raises(Refused) as caught:
        agent.environment.exec("true")
    assert "after the agent phase" in caught.value.message


def test_environments_of_the_phases_are_kept_apart(run_trial: RunTrial) -> None:
    task = make_task(
        toml='env = { E = "everywhere" }\n',
        test='test "$E-$A" = everywhere- && echo 1 > /logs/verifier/reward.txt',
    )
    agent = Script('echo "$E"; export A=agent; echo A=agent >> /etc/environment')
    assert run_trial(task, agent).reward == 1.0
    assert agent.saw == "everywhere\n"


# --- between the phases


@pytest.mark.parametrize(
    "plant",
    [
        "mkdir -p /logs/verifier; cd /logs/verifier; echo 1 > reward.txt; echo '{\"reward\": 1}' > reward.json",
        "mkdir -p /tests; echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh; chmod 755 /tests/test.sh",
        "mkdir /evil; ln -s /evil /tests; mkdir -p /logs; ln -s /evil /logs/verifier",
        "mkdir -p /logs; ln -s / /logs/verifier; echo 1 > /reward.txt",
        "mkdir /away; ln -s /away /logs; mkdir /away/verifier; echo 1 > /away/verifier/reward.txt",
        "mkdir -p /logs/verifier; mkfifo /logs/verifier/reward.txt",
        "mkdir -p /logs; echo file > /logs/verifier; echo file > /tests",
        "mkdir -p /tests; echo 'raise SystemExit(0)' > /tests/conftest.py; chmod 000 /tests",
    ],
)
def test_what_the_agent_planted_never_counts(run_trial: RunTrial, plant: str) -> None:
    record = run_trial(TASK, plant)
    assert record.reward == 0.0
    assert record.outcome is Outcome.FAILED, record.message


def test_a_verifier_that_writes_nothing_leaves_no_planted_reward(run_trial: RunTrial) -> None:
    task = make_task(test="echo the verifier broke; exit 9")
    record = run_trial(task, "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt")
    assert (record.outcome, record.reward, record.reason_code) == (Outcome.REWARD_ERROR, 0.0, Reason.REWARD_MISSING)
    assert "ended with 9" in record.message
    assert "the verifier broke" in record.message


REWRITER = "while :; do mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; done"


def test_a_surviving_process_is_ended_before_the_tests_arrive(run_trial: RunTrial) -> None:
    agent = f"trap '' TERM HUP; setsid bash -c '{REWRITER}' >/dev/null 2>&1 & disown; sleep 0.2"
    record = run_trial(TASK, agent)
    assert (record.outcome, record.reward) == (Outcome.FAILED, 0.0)


def test_cleaning_needs_no_program_of_the_container(run_trial: RunTrial) -> None:
    sabotage = "for p in rm mkdir unlink rmdir mv; do printf '#!/bin/sh\\nexit 0\\n' > /bin/$p; done"
    plant = f"mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; {sabotage}"
    record = run_trial(make_task(test="ls -la /logs/verifier /tests; exit 0"), plant)
    assert (record.outcome, record.reward, record.reason_code) == (Outcome.REWARD_ERROR, 0.0, Reason.REWARD_MISSING)


def test_a_shell_that_starts_a_daemon_when_cleaning_is_found(run_trial: RunTrial) -> None:
    """The cleaning command itself runs the agent's /bin/sh, so the process list is read after it."""
    shell = f"""#!/bin/bash -p
setsid /usr/bin/bash -c '{REWRITER}' >/dev/null 2>&1 &
exec /usr/bin/dash "$@"
"""
    plant = f"rm -f /bin/sh; cat > /bin/sh <<'EOF'\n{shell}EOF\nchmod 755 /bin/sh"
    record = run_trial(make_task(test="exit 0"), plant)
    assert record.reward == 0.0
    assert record.reason_code in (Reason.AGENT_LEFT_PROCESSES, Reason.REWARD_MISSING)


def test_a_shared_task_keeps_its_daemon(run_trial: RunTrial) -> None:
    serve = "cd /srv; echo 42 > answer; nohup python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & sleep 1"
    fetch = "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/answer').read())\""
    task = make_task(test=f"{fetch} | grep -q 42 && echo 1 > /logs/verifier/reward.txt")
    record = run_trial(task, serve, isolation="shared")
    assert (record.outcome, record.reward, record.isolation) == (Outcome.PASSED, 1.0, "shared")
    assert run_trial(task, serve).outcome is Outcome.REWARD_ERROR


# --- the verifier phase


def test_verifier_wall_limit(run_trial: RunTrial) -> None:
    task = make_task(test="echo 1 > /logs/verifier/reward.txt; echo waiting; sleep 1000")
    record = run_trial(task, NopAgent(), verifier_wall_sec=1.0)
    assert (record.outcome, record.reward, record.reason_code) == (
        Outcome.VERIFIER_TIMEOUT,
        0.0,
        Reason.VERIFIER_TIMEOUT,
    )
    assert "waiting" in record.message


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        (
            "echo 1 > /logs/verifier/reward.txt; echo '{\"reward\": 1}' > /logs/verifier/reward.json",
            Reason.REWARD_AMBIGUOUS,
        ),
        ("echo nan > /logs/verifier/reward.txt", Reason.REWARD_MALFORMED),
        ("echo 1.5 > /logs/verifier/reward.txt", Reason.REWARD_MALFORMED),
        ("ln -s /proc/sys/kernel/ngroups_max /logs/verifier/reward.txt", Reason.REWARD_NOT_REGULAR),
        ("echo 1 > /srv/r; ln /srv/r /logs/verifier/reward.txt; ln /srv/r /logs/verifier/reward.json", None),
        (
            "rmdir /logs/verifier 2>/dev/null; rm -rf /logs/verifier; ln -s /srv /logs/verifier",
            Reason.REWARD_UNREADABLE,
        ),
        ("rm -rf /logs", None),
        ("truncate -s 5G /logs/verifier/core; echo 1 > /logs/verifier/reward.txt", Reason.REWARD_UNREADABLE),
    ],
)
def test_odd_rewards_are_refused(run_trial: RunTrial, test: str, reason: Reason | None) -> None:
    record = run_trial(make_task(test=test), NopAgent())
    assert record.reward == 0.0
    assert record.outcome in (Outcome.REWARD_ERROR, Outcome.AGENT_ERROR)
    if reason is not None:
        assert record.reason_code is reason, record.message


def test_a_partial_reward_is_kept(run_trial: RunTrial) -> None:
    task = make_task(test='echo \'{"reward": 0.25, "speed": 12.5}\' > /logs/verifier/reward.json')
    record = run_trial(task, NopAgent())
    assert (record.outcome, record.reward) == (Outcome.FAILED, 0.25)
    assert record.grading is not None
    assert record.grading.others == {"speed": 12.5}


# --- network


def test_network_follows_the_policy_phase_by_phase(run_trial: RunTrial) -> None:
    # The test says 1 when it sees an interface beside loopback.
    look = "ls /sys/class/net | grep -qv '^lo$'"
    task = make_task(test=f"if {look}; then echo 1; else echo 0; fi > /logs/verifier/reward.txt")
    seen = {}
    for policy in ("none", "agent", "verifier", "both"):
        agent = Script(f"{look} && echo yes || echo no")
        record = run_trial(task, agent, network=policy)
        seen[policy] = (agent.saw.strip(), record.reward)
        assert record.gateway_filtered is (None if policy == "none" else False)
    assert seen == {"none": ("no", 0.0), "agent": ("yes", 0.0), "verifier": ("no", 1.0), "both": ("yes", 1.0)}


# --- infrastructure


def test_an_image_that_could_not_be_had_is_infrastructure(run_trial: RunTrial) -> None:
    record = run_trial(TASK, NopAgent(), image=ImageFailure(Reason.IMAGE_UNAVAILABLE, "pull access denied"))
    assert (record.outcome, record.reward, record.reason_code) == (
        Outcome.INFRA_ERROR,
        None,
        Reason.IMAGE_UNAVAILABLE,
    )
    assert record.message == "pull access denied"


def test_health_check(run_trial: RunTrial) -> None:
    check = '[environment.healthcheck]\ncommand = "{}"\ninterval_sec = 0.1\nretries = 3\n'
    healthy = make_task(toml=check.format("test -d /etc"), test="echo 1 > /logs/verifier/reward.txt")
    assert run_trial(healthy, NopAgent()).reward == 1.0
    sick = make_task(toml=check.format("echo not yet; exit 1"))
    record = run_trial(sick, NopAgent())
    assert (record.outcome, record.reward, record.reason_code) == (
        Outcome.INFRA_ERROR,
        None,
        Reason.HEALTHCHECK_FAILED,
    )
    assert "not yet" in record.message


def test_stopping_leaves_no_container_and_no_record(
    engine: Engine, slot: Slot, base_image: str, run_id: str, tmp_path: Path
) -> None:
    stop = threading.Event()
    image = ResolvedImage("", base_image, "id", "present", "/srv")
    plan = TrialPlan(run_id, TASK, BUDGET, image, 1, tmp_path / "trial")
    threading.Timer(1.0, stop.set).start()
    with pytest.raises(Refused) as caught:
        Trial(engine, slot, plan, Script("sleep 1000"), stop).run()
    assert caught.value.reason is Reason.INTERRUPTED
    assert engine.api.containers(all=True, filters={"label": [f"evalguest={run_id}", "evalguest.role=task"]}) == []
    assert not (tmp_path / "trial" / "record.json").exists()


# --- CPU budgets


SPIN = "python3 -c 'while True: pass'"


def test_an_agent_over_its_cpu_budget_is_ended_and_scores_0(run_trial: RunTrial) -> None:
    record = run_trial(TASK, f"({SPIN} & {SPIN} & wait) || true; sleep 100", agent_cpu_sec=1.0)
    assert (record.outcome, record.reward, record.reason_code) == (
        Outcome.CPU_EXCEEDED,
        0.0,
        Reason.CPU_BUDGET_EXCEEDED,
    )
    assert record.grading is None
    assert record.cpu.final
    assert record.cpu.agent_sec is not None
    assert 1.0 < record.cpu.agent_sec < 1.25
    assert record.wall.agent_sec is not None
    assert record.wall.agent_sec < 10


def test_sleeping_costs_no_cpu_budget(run_trial: RunTrial) -> None:
    record = run_trial(TASK, "sleep 3", agent_cpu_sec=0.5)
    assert record.outcome is Outcome.FAILED  # by its verifier
    assert record.cpu.agent_sec is not None
    assert record.cpu.agent_sec < 0.5


def test_a_verifier_over_its_cpu_budget_is_ended_and_scores_0(run_trial: RunTrial) -> None:
    task = make_task(test=f"echo 1 > /logs/verifier/reward.txt; {SPIN}")
    record = run_trial(task, "true", verifier_cpu_sec=0.5)
    assert (record.outcome, record.reward, record.reason_code) == (
        Outcome.CPU_EXCEEDED,
        0.0,
        Reason.CPU_BUDGET_EXCEEDED,
    )
    assert "the verifier phase used 0." in record.message
    assert record.cpu.verifier_sec is not None
    assert 0.5 < record.cpu.verifier_sec < 0.75
