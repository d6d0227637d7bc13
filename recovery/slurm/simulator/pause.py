"""A demo's world stands still while nobody looks: a second start after hours must not replay a million steps."""

from __future__ import annotations

from recovery.slurm.simulator.state import Job, Node, State

CATCH_UP_S = (
    20.0  # the last seconds before somebody looks again are played: jobs that train have fresh lines in their logs
)


def skip(state: State, now: float) -> bool:
    """Move everything that is still to come by the time for which nobody looked. True where that was done.

    What has happened keeps its time; a fault, a time limit or the end of MinJobAge comes as much later as the pause
    was long.
    """
    limit = state.spec.pause_after_s
    gap = now - state.now - CATCH_UP_S
    if limit is None or now - state.now <= limit or gap <= 0:
        return False
    for job in state.jobs.values():
        _shift_job(job, gap, state.now)
    for node in state.nodes.values():
        _shift_node(node, gap)
    for records in state.forgotten.values():
        for record in records:
            record.forget_at = _later(record.forget_at, gap)
    state.schedule_at = _later(state.schedule_at, gap)
    state.workload_at = _later(state.workload_at, gap)
    state.now += gap
    return True


def _later(at: float | None, gap: float) -> float | None:
    return None if at is None else at + gap


def _shift_job(job: Job, gap: float, now: float) -> None:
    if job.begin_at > now:
        job.begin_at += gap
    job.limit_at = _later(job.limit_at, gap)
    job.completing_until = _later(job.completing_until, gap)
    job.purge_at = _later(job.purge_at, gap)
    if job.training is not None:
        job.training.since += gap
        job.training.next_at = _later(job.training.next_at, gap)


def _shift_node(node: Node, gap: float) -> None:
    node.crash_at = _later(node.crash_at, gap)
    node.notice_at = _later(node.notice_at, gap)
    node.back_at = _later(node.back_at, gap)
