"""`evalguest dry-run`: a whole job on this machine with attestation off."""

from __future__ import annotations

import datetime
import secrets
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guest.errors import Refused, UsageFault
from guest.reason import Reason

if TYPE_CHECKING:
    from guest.job.summary import JobSummary
    from guest.tasks.task import Task
    from guest.trial.agent import Agent
    from guest.trial.engine import Engine
    from scripts.result_line import ResultLine

CHECKOUT = Path(__file__).resolve().parent.parent


def dry_run(
    tasks: Annotated[list[str] | None, typer.Argument(help="Task ids; all of the cache when none is named.")] = None,
    *,
    agent: Annotated[
        str,
        typer.Option(help="Who acts: oracle (the reference solution), nop, or your agent: its archive or directory."),
    ] = "oracle",
    cache: Annotated[Path, typer.Option(help="The task cache or pack to run.", show_default="task-cache/")] = CHECKOUT
    / "task-cache",
    repetitions: Annotated[int, typer.Option("-k", min=1, help="Repetitions of each task.")] = 1,
    concurrent: Annotated[int, typer.Option("-n", min=0, help="Trials at once; 0 means one a CPU.")] = 0,
    budgets: Annotated[Path | None, typer.Option(help="Budgets to use instead of the cache's own.")] = None,
    fail_under: Annotated[float | None, typer.Option(help="End with 1 when the job score is lower.")] = None,
    job_dir: Annotated[
        Path | None, typer.Option(help="Where the job's files go; default: jobs/ in the checkout.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the job of --job-dir: finished trials are kept.")
    ] = False,
    as_line: Annotated[
        bool, typer.Option("--line", help="Print the unattested result line on stdout, and nothing else there.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Run tasks in sibling containers and print their rewards, attestation off.

    Ends with 0 when the job ran to its end, whatever the score; with 1 when it could not, or when a task has no score.

    Example: evalguest dry-run --agent nop -k 3
    """
    from guest.trial.engine import connect
    from image.base.lock import read_lock
    from scripts.report import print_summary
    from scripts.result_line import ResultLine
    from scripts.stop_signals import stop_on_signals

    if as_line and as_json:
        raise UsageFault(Reason.USAGE, "--line and --json both want stdout for themselves", "leave one of them out")
    with ResultLine(tasks=len(tasks or []), wanted=as_line) as result_line:
        if fail_under is not None and not 0 <= fail_under <= 1:
            raise UsageFault(Reason.USAGE, f"--fail-under is {fail_under:g}, expected a score from 0 to 1")
        if resume and job_dir is None:
            raise UsageFault(Reason.USAGE, "--resume needs --job-dir", "name the directory of the job to go on with")
        actor = _agent(agent, read_lock().ref)
        engine = connect()
        with stop_on_signals("stopping: ending the running trials and removing their containers") as stop:
            run_id = secrets.token_hex(6)
            directory = job_dir or CHECKOUT / "jobs" / f"{datetime.datetime.now(datetime.UTC):%Y%m%d-%H%M%S}-{run_id}"
            summary = _run(
                engine,
                stop,
                actor,
                directory,
                run_id,
                cache,
                tasks or [],
                budgets,
                repetitions,
                concurrent,
                result_line,
                resume=resume,
            )
        result_line.print(summary)
    if as_json:
        sys.stdout.write(summary.model_dump_json(indent=2) + "\n")
    else:
        print_summary(summary, sys.stderr if as_line else sys.stdout)
    if summary.job_score is None:
        # The document on stdout is whole already, so this is told on stderr alone.
        names = ", ".join(summary.unscored_tasks)
        sys.stderr.write(f"error: no job score, since these tasks have none: {names}\n")
        sys.stderr.write(f"hint: {summary.job_dir}/trials/*/record.json say why\n")
        raise typer.Exit(1)
    if fail_under is not None and summary.job_score < fail_under:
        sys.stderr.write(f"error: the job score {summary.job_score:.4f} is under {fail_under:g}\n")
        raise typer.Exit(1)


def _run(
    engine: Engine,
    stop: threading.Event,
    agent: Agent,
    job_dir: Path,
    run_id: str,
    cache: Path,
    ids: list[str],
    budgets: Path | None,
    k: int,
    n: int,
    result_line: ResultLine,
    *,
    resume: bool,
) -> JobSummary:
    """Prepare what is missing and run the job, progress on stderr."""
    from guest.job.admission import Capacity
    from guest.job.job import JobPlan, run_job
    from guest.job.job_directory import check_job_directory
    from guest.job.preflight import preflight
    from guest.job.sweep import find_leftovers, remove_leftovers
    from guest.tasks.budgets import budget_for, load_budgets
    from guest.tasks.cache import load_cache
    from guest.trial.holder import HolderImage
    from guest.wire.result_line import FailureStage
    from image.base.ensure import ensure_base
    from image.task_images import bake
    from scripts.cache_dir import cache_dir
    from scripts.progress import Progress

    result_line.stage = FailureStage.PREFLIGHT_TASKS
    task_cache = load_cache(cache)
    capacity = Capacity.of(engine.info)
    chosen = preflight(task_cache, ids, capacity, agent.memory_bytes)
    entries = load_budgets(budgets) if budgets else task_cache.budgets
    _check_solutions(agent, chosen)
    result_line.stage, result_line.total = FailureStage.JOB, len(chosen)
    check_job_directory(job_dir, resume=resume)
    with Progress(total=len(chosen) * k) as progress:
        for run in find_leftovers(engine):
            progress.say("cleanup", str(run))
            remove_leftovers(engine, run)
        base = ensure_base(engine.api, cache_dir(), lambda words: progress.say("base image", words))
        images = bake(engine.api, chosen, pins=task_cache.image_pins, say=progress.say, stop=stop)
        if stop.is_set():
            raise Refused(Reason.INTERRUPTED, "stopped while preparing the images")
        plan = JobPlan(
            job_dir=job_dir,
            tasks=chosen,
            budgets={
                task.task_id: budget_for(
                    task.definition,
                    entries.get(task.task_id),
                    attested=False,
                    chosen=budgets is not None,
                )
                for task in chosen
            },
            images=images,
            agent=agent,
            k=k,
            n=n or engine.info.cpus,
            capacity=capacity,
            holder_image=HolderImage(base.ref),
            run_id=run_id,
            resume=resume,
        )
        return run_job(engine, plan, stop, progress.trial)


def _check_solutions(agent: Agent, tasks: list[Task]) -> None:
    """Refuse the oracle a task that has no solution to run."""
    without = [task.task_id for task in tasks if agent.kind == "oracle" and "solve.sh" not in task.subtree("solution")]
    if without:
        names = ", ".join(without)
        raise Refused(
            Reason.TASK_MALFORMED, f"no solution/solve.sh, which --agent oracle runs: {names}", "give them one"
        )


def _agent(name: str, image: str) -> Agent:
    """Give a reference agent by name, or a submitted one from its archive or directory."""
    from guest.agent.host import HostImage
    from guest.agent.submitted import SubmittedAgent
    from guest.trial.agent import NopAgent, OracleAgent
    from scripts.agent import read_package

    agents: dict[str, type[Agent]] = {"oracle": OracleAgent, "nop": NopAgent}
    if name in agents:
        return agents[name]()
    if not Path(name).exists():
        raise UsageFault(
            Reason.USAGE,
            f"--agent is {name!r}: neither oracle nor nop, nor an archive or directory",
            "give a directory that has agent.py in it, or what `evalguest agent pack` made of one",
        )
    package, _ = read_package(Path(name))
    return SubmittedAgent(package, HostImage(image))
