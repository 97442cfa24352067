"""One trial from image to record, in one fixed order.

create → inspect → start → health check → agent phase → close it and prove → tests → pause → final CPU reading, reward →
remove and prove. Whatever happens, the container is removed and a record says how the trial ended.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

from guest.errors import EnvironmentFault, EvalguestError, Refused
from guest.reason import Reason
from guest.trial import blame, container, verifier
from guest.trial.agent import Agent, Seat
from guest.trial.container import ContainerSpec
from guest.trial.course import Course, TrialPlan
from guest.trial.engine import Engine, engine_call
from guest.trial.environment import Environment
from guest.trial.exec import ExecResult, run_exec
from guest.trial.image import ImageFailure, ResolvedImage
from guest.trial.outcome import Ending, Outcome, ending_for
from guest.trial.probe import observe_probe
from guest.trial.record import Grading, Probe, TrialRecord, write_json, write_log
from guest.trial.reward import Reward, read_reward
from guest.trial.slot import Slot
from guest.trial.verifier import Place
from guest.trial.watch import PhaseWatch

Phase = Callable[[str], None]


class Trial:
    """Runs one trial in a slot. `run` gives the record, already on disk."""

    def __init__(self, engine: Engine, slot: Slot, plan: TrialPlan, agent: Agent, stop: threading.Event) -> None:
        """Prepare; nothing happens before `run`."""
        self._engine = engine
        self._slot = slot
        self._plan = plan
        self._agent = agent
        self._stop = stop
        self._course = Course()

    def run(self, phase: Phase = lambda _: None) -> TrialRecord:
        """Run the trial; `phase` is told each state it enters.

        Raises Refused(INTERRUPTED) when stopped; the container is then gone and no record exists. Raises
        EnvironmentFault(CONTAINER_LEFT) when the container could not be removed.
        """

        def enter(state: str) -> None:
            write_json(self._plan.directory / "state.json", {"state": state}, durable=False)
            phase(state)

        enter("starting")
        try:
            ending = self._attempt(enter)
        finally:
            self._end()
        record = self._course.record(self._plan, self._agent, self._slot, ending)
        write_json(self._plan.directory / "record.json", record)
        enter("done")
        return record

    def _end(self) -> None:
        """Remove the container, take what readings are still to be taken, put the slot's shared files back.

        A trial that broke off is not paused for its last reading: freezing a command that is just starting wedges the
        engine's runtime for good. It is killed, and the slot's counter keeps its total.
        """
        course, cgroup = self._course, self._slot.cgroup
        try:
            if course.container_id is not None:
                course.removed = False
                course.memory = cgroup.memory(course.container_id)
                course.throttling = cgroup.throttling(course.container_id)
                course.removed = self._remove(course.container_id)
                if course.cpu_start is not None and not course.cpu_final and cgroup.source != "stats":
                    with suppress(EnvironmentFault):  # the record says that there was no final reading
                        self._take_final_cpu()
        finally:
            if course.holder_id is not None:
                self._slot.clean(network=self._plan.needs_network)

    def _remove(self, container_id: str) -> bool:
        """Remove the container; False when the engine fails to, but nothing of it runs any more: the record says so.

        Raises EnvironmentFault(CONTAINER_LEFT) when it may still run, beside the next trial of the slot.
        """
        try:
            container.remove(self._engine, container_id)
        except EnvironmentFault:
            if container.is_running(self._engine, container_id):
                raise
            return False
        return True

    def _attempt(self, enter: Phase) -> Ending:
        """Go through the phases; turn what stops them into an ending."""
        image = self._plan.image
        if isinstance(image, ImageFailure):
            return Ending(Outcome.INFRA_ERROR, None, image.reason, image.message)
        agent_ran = False
        try:
            place = self._start(image)
            self._check_health(place)
            enter("agent")
            agent_ran = True
            failure = self._agent_phase(place)
            if failure is not None:
                return failure
            enter("verifying")
            self._prepare_verifier(place)
            return self._verify(place)
        except EvalguestError as error:
            if error.reason is Reason.INTERRUPTED:
                raise
            if not agent_ran:
                return Ending(Outcome.INFRA_ERROR, None, error.reason, error.message)
            return blame.after_error(self._engine, self._course.container_id or "", error)

    def _start(self, image: ResolvedImage) -> Place:
        """Create, check and start the container; take the CPU baseline."""
        plan, course = self._plan, self._course
        definition = plan.task.definition
        holder = self._slot.holder(network=self._plan.needs_network)
        holder.set_network(connected=plan.budget.network in ("agent", "both"))
        course.holder_id = holder.container_id
        workdir = definition.workdir or image.workdir
        spec = ContainerSpec(
            name=f"evalguest-{plan.run_id}-{plan.trial_id}",
            image=image.ref,
            run_id=plan.run_id,
            role="task",
            network=holder.network_mode,
            workdir=workdir,
            env=definition.environment_env,
            cpus=definition.cpus,
            memory_bytes=definition.memory_mb << 20,
            cgroup_parent=self._slot.cgroup.parent,
        )
        course.container_id, inspection = container.create(self._engine, spec)
        write_json(plan.directory / "inspect.json", _essence(inspection), durable=False)
        container.start(self._engine, course.container_id)
        course.cpu_start = self._cpu()
        return Place(self._engine, course.container_id, self._slot.cgroup, workdir, self._stop)

    def _check_health(self, place: Place) -> None:
        """Wait for the task's own health check, if it has one. Raises Refused(HEALTHCHECK_FAILED)."""
        check = self._plan.task.definition.healthcheck
        if check is None:
            return
        start = time.monotonic()
        failures = 0
        while failures < check.retries:
            result = run_exec(
                self._engine,
                place.container_id,
                ["/bin/sh", "-c", check.command],
                seconds=check.timeout_sec,
                stop=self._stop,
                workdir=place.workdir,
            )
            if result.exit_code == 0:
                return
            starting = time.monotonic() - start < check.start_period_sec
            failures += not starting
            if self._stop.wait(check.start_interval_sec if starting else check.interval_sec):
                raise Refused(Reason.INTERRUPTED, "stopped while waiting for a health check")
        said = result.output.decode(errors="replace").strip()[-500:]
        raise Refused(
            Reason.HEALTHCHECK_FAILED, f"{check.command!r} failed {failures} times, at last with: {said or 'no output'}"
        )

    def _agent_phase(self, place: Place) -> Ending | None:
        """Let the agent act; give an ending only when it failed."""
        plan, course = self._plan, self._course
        definition = plan.task.definition
        environment = Environment(
            self._engine,
            place.container_id,
            workdir=place.workdir,
            user=definition.agent_user,
            env=definition.agent_env,
            seconds=plan.budget.agent_wall_sec,
            stop=self._stop,
        )
        began = time.monotonic()
        failure: Ending | None = None
        seat = Seat(self._engine, plan.run_id, plan.trial_id, self._slot.cgroup.parent, self._stop, plan.probe)
        course.hosts = seat.hosts
        watch = self._watch("agent", plan.budget.agent_cpu_sec, plan.budget.agent_wall_sec)
        try:
            with watch:
                self._agent.run(plan.task, plan.task.instruction, environment, seat)
        except EvalguestError as error:
            if error.reason is Reason.INTERRUPTED and self._stop.is_set():
                raise
            failure = blame.after_agent_error(self._engine, place.container_id, error)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever an agent raises is its own failure
            failure = blame.after_agent_raised(error)
        finally:
            environment.close()
            course.agent_wall = time.monotonic() - began
        log = seat.log
        course.logs.append(
            write_log(
                plan.directory, "agent/agent.log", bytes(log.kept), size=log.size, truncated=len(log.kept) < log.size
            )
        )
        if watch.ending is not None:
            failure = watch.ending
        elif failure is None and not container.is_running(self._engine, place.container_id):
            failure = ending_for(Reason.CONTAINER_ENDED, "PID 1 of the task container ended during the agent phase")
        course.agent_cpu = self._cpu_since_start()
        return failure

    def _watch(self, phase: str, cpu_budget_sec: float, wall_sec: float) -> PhaseWatch:
        return PhaseWatch(
            self._engine,
            phase,
            cpu_seconds=self._cpu,
            cpus=self._plan.task.definition.cpus + self._agent.cpus,
            cpu_budget_sec=cpu_budget_sec,
            wall_sec=wall_sec,
            containers=lambda: [*self._course.hosts, self._course.container_id or ""],
        )

    def _prepare_verifier(self, place: Place) -> None:
        """Close the agent phase for good and bring the verifier's inputs to a proved state."""
        budget = self._plan.budget
        isolated = budget.isolation == "isolated"
        if isolated:
            verifier.end_agent_processes(place)
            self._course.first_process_time = container.first_process_time(self._engine, place.container_id)
        if isolated or budget.network == "agent":
            self._switch_network(place, connected=False)
        self._look_for_probe(place, alone=isolated)
        self._course.agent_cpu = self._cpu_since_start()
        verifier.replace_inputs(place, self._plan.task, alone=isolated)
        if budget.network in ("verifier", "both"):
            self._switch_network(place, connected=True)

    def _look_for_probe(self, place: Place, *, alone: bool) -> None:
        """Copy the probe out while nothing of the agent runs, and note what became of it."""
        value = self._plan.probe
        if not value:
            return
        reason: Reason | None = None
        try:
            with nullcontext() if alone else container.frozen(self._engine, place.container_id):
                observe_probe(self._engine, place.container_id, value)
        except Refused as refusal:
            reason = refusal.reason
        digest = hashlib.sha256(value.encode()).hexdigest()
        self._course.probe = Probe(value_sha256=digest, observed=reason is None, written_by="host", reason_code=reason)

    def _switch_network(self, place: Place, *, connected: bool) -> None:
        """Join or cut the network of the slot while nothing of the agent runs."""
        holder = self._slot.holder(network=self._plan.needs_network)
        if holder.connected == connected:
            return
        if self._plan.budget.isolation == "shared":
            with container.frozen(self._engine, place.container_id):
                holder.set_network(connected=connected)
            return
        self._check_first_process(place)
        holder.set_network(connected=connected)

    def _check_first_process(self, place: Place) -> None:
        """Refuse a trial whose PID 1 has run since all else was ended. Raises Refused(AGENT_LEFT_PROCESSES)."""
        before = self._course.first_process_time
        if before is not None and container.first_process_time(self._engine, place.container_id) != before:
            raise Refused(Reason.AGENT_LEFT_PROCESSES, "PID 1 of the task container, which only sleeps, has run")

    def _run_tests(self, place: Place) -> ExecResult | Ending:
        """Run the tests under guard; give an ending when the guard fired."""
        budget = self._plan.budget
        watch = self._watch("verifier", budget.verifier_cpu_sec, budget.verifier_wall_sec)
        try:
            with watch:
                result = verifier.run_tests(place, self._plan.task, budget)
        except EnvironmentFault:
            if watch.ending is not None:
                return watch.ending
            raise
        self._course.verifier_wall = result.seconds
        return watch.ending or result

    def _verify(self, place: Place) -> Ending:
        """Run the tests and read the reward from the frozen container."""
        course, budget = self._course, self._plan.budget
        result = self._run_tests(place)
        if isinstance(result, Ending):
            return result
        course.grading = Grading(exit_code=result.exit_code)
        course.running_at_end = container.is_running(self._engine, place.container_id)
        if course.running_at_end:
            self._check_first_process(place)  # before the pause, which wakes it
        if course.running_at_end and result.exit_code is not None:
            with engine_call("pause the container"):
                self._engine.api.pause(place.container_id)
            self._take_final_cpu()
        entries = verifier.read_results(place)
        for path in ("test-stdout.txt", "reward.txt", "reward.json", "ctrf.json"):
            entry = entries.get(path)
            if entry is not None and entry.kind == "file":
                log = write_log(
                    self._plan.directory, f"verifier/{path}", entry.data, size=entry.size, truncated=entry.truncated
                )
                course.logs.append(log)
        stdout = entries.get("test-stdout.txt")
        said = "" if stdout is None or stdout.kind != "file" else _last_lines(stdout.data)
        if not course.running_at_end:
            return ending_for(Reason.CONTAINER_ENDED, f"PID 1 of the task container ended during the verifier; {said}")
        if result.exit_code is None:
            limit = f"{budget.verifier_wall_sec:g} s"
            return ending_for(Reason.VERIFIER_TIMEOUT, f"the verifier did not end within {limit}; {said}")
        try:
            reward = read_reward(entries)
        except Refused as refusal:
            where = f"after the verifier, which ended with {result.exit_code}; {said}"
            return ending_for(refusal.reason, f"{refusal.message} ({where})")
        course.grading = _grading(result, reward)
        return Ending(Outcome.PASSED if reward.value == 1 else Outcome.FAILED, reward.value)

    def _take_final_cpu(self) -> None:
        """Read the CPU time for the last time and give each phase its share."""
        course = self._course
        total = self._cpu_since_start()
        if total is None:
            return
        course.cpu_final = True
        if course.verifier_wall is None:
            course.agent_cpu = total
        elif course.agent_cpu is not None:
            course.verifier_cpu = max(0.0, total - course.agent_cpu)

    def _cpu(self) -> float:
        """Read the trial's CPU time: its slot's, or where only the engine tells any, its containers' one by one.

        An agent host that is gone counts as at its last reading.
        """
        cgroup, course = self._slot.cgroup, self._course
        used = cgroup.cpu_seconds(course.container_id or "")
        if cgroup.source != "stats":
            return used
        for host in list(course.hosts):
            with suppress(EnvironmentFault):
                course.host_cpu[host] = max(course.host_cpu.get(host, 0.0), cgroup.cpu_seconds(host))
        return used + sum(course.host_cpu.values())

    def _cpu_since_start(self) -> float | None:
        """Give the trial's CPU seconds so far; None when the engine's stats have lost them with the container."""
        start = self._course.cpu_start
        used = 0.0 if start is None else self._cpu() - start
        return used if used >= 0 else None


def _grading(result: ExecResult, reward: Reward) -> Grading:
    return Grading(
        exit_code=result.exit_code,
        source=reward.source,
        raw=reward.raw,
        mtime=reward.mtime,
        others=reward.others,
        tests=reward.tests,
    )


def _essence(inspection: dict[str, Any]) -> dict[str, Any]:
    """Keep what the launch policy is about; the rest of an inspection is paths of this machine."""
    return {name: inspection[name] for name in ("Id", "Image", "Config", "HostConfig", "Mounts")}


def _last_lines(data: bytes, lines: int = 5) -> str:
    tail = data.decode(errors="replace").strip().splitlines()[-lines:]
    return "its last lines: " + " | ".join(tail) if tail else "it printed nothing"
