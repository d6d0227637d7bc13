"""How attempts end and how jobs get back into the queue: Slurm's semantics, as measured on 22.05."""

from __future__ import annotations

from recovery.core.types import JobState
from recovery.slurm.base import HELD_BY_REQUEUE
from recovery.slurm.simulator import lines
from recovery.slurm.simulator.stage import Stage
from recovery.slurm.simulator.state import End, Job

CANCELLED = End(state=JobState.CANCELLED, exit_signal=15)
TIMED_OUT = End(state=JobState.TIMEOUT, reason="TimeLimit", exit_signal=15)
NODE_FAILED = End(state=JobState.NODE_FAIL, reason="NodeDown")
REQUEUED = End(state=JobState.REQUEUED)
PREEMPTED = End(state=JobState.PREEMPTED, exit_signal=15)
HELD_BY_PEOPLE = ("JobHeldAdmin", "JobHeldUser")


def end_attempt(stage: Stage, job: Job, end: End, at: float) -> None:
    """The attempt is over: its nodes are free once COMPLETING is."""
    stage.changed()
    job.state, job.reason = end.state, end.reason
    job.exit_code, job.exit_signal, job.step_exit_codes = end.exit_code, end.exit_signal, end.step_exit_codes
    job.ended_at = at
    job.training = None
    job.limit_at = None
    if job.nodes:
        job.completing_until = at + stage.spec.completing_s
    job.purge_at = at + stage.spec.completing_s + stage.spec.min_job_age_s
    stage.touch(job)


def finish_completing(stage: Stage, job: Job, at: float) -> None:
    """The last process is gone: the nodes are free for others."""
    stage.changed()
    job.completing_until = None
    for name in job.nodes:
        stage.state.nodes[name].used -= job.spec.gpus_per_node
    if job.state is JobState.PENDING:
        job.nodes = ()
    stage.schedule(at + stage.spec.latency_s)


def cancel(stage: Stage, job: Job, by: str, at: float) -> None:
    """scancel by `by`; nothing happens to a job that has ended."""
    if job.state.is_terminal:
        return
    write_cancelled(stage, job, at, "")
    job.cancelled_by = by
    job.held = False
    end_attempt(stage, job, CANCELLED, at)


def preempt(stage: Stage, job: Job, at: float, *, requeue: bool) -> None:
    """A job of a higher tier needs the nodes."""
    write_cancelled(stage, job, at, " DUE TO PREEMPTION")
    if requeue and job.spec.requeueable:
        put_back(stage, job, hold=False, at=at, end=PREEMPTED)
    else:
        end_attempt(stage, job, PREEMPTED, at)


def reach_time_limit(stage: Stage, job: Job, at: float) -> None:
    write_cancelled(stage, job, at, " DUE TO TIME LIMIT")
    end_attempt(stage, job, TIMED_OUT, at)


def lose_node(stage: Stage, job: Job, node: str, at: float) -> None:
    """The job's node is down: Slurm requeues the job by itself where it may."""
    if node != job.nodes[0]:  # else slurmstepd and srun, which would report it, died with the node
        write_cancelled(stage, job, at, " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS")
        stage.write(job, f"srun: error: Node failure on {node}")
    if job.spec.requeueable:
        put_back(stage, job, hold=False, at=at, end=NODE_FAILED)
    else:
        end_attempt(stage, job, NODE_FAILED, at)


def write_cancelled(stage: Stage, job: Job, at: float, why: str) -> None:
    """What slurmstepd writes when it kills the job's processes."""
    if job.training is not None:
        stage.write(job, *lines.cancelled(job.job_id, job.nodes[0], at, why))


def put_back(stage: Stage, job: Job, *, hold: bool, at: float, end: End = REQUEUED) -> None:
    """Put a running or ended job back into the queue as its next attempt.

    `Restarts` counts at once and the submit time is overwritten. A job that had ended keeps its reason until the
    scheduler looks at it; a running one ends as `end`.
    """
    held_as = job.reason if job.reason in HELD_BY_PEOPLE else "JobHeldAdmin"
    if job.training is not None:
        if end is REQUEUED:
            write_cancelled(stage, job, at, " DUE TO JOB REQUEUE")
        end_attempt(stage, job, end, at)
        job.reason = "BeginTime"
    _keep_record(job, at)
    job.state = JobState.PENDING
    job.restart_count += 1
    job.submitted_at = at
    job.begin_at = at + stage.spec.requeue_delay_s
    job.started_at = job.ended_at = job.purge_at = None
    job.step_exit_codes = ()
    job.cancelled_by = ""
    if job.completing_until is None:
        job.nodes = ()
    if hold:
        job.held, job.reason = True, HELD_BY_REQUEUE
    elif job.held:  # somebody held it while it ran: now it takes effect
        job.reason = held_as
    stage.changed()
    stage.touch(job)
    stage.schedule(at + stage.spec.latency_s)


def _keep_record(job: Job, at: float) -> None:
    """The attempt as accounting tells it, by its batch step: its own end, except that of a cancelled one is lost."""
    record = job.attempt()
    if record.state is JobState.CANCELLED:
        record.state, record.ended_at = JobState.REQUEUED, at
    job.past.append(record)
