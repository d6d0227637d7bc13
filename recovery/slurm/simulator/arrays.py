"""Job arrays, as Slurm 22.05 keeps them: one record for all tasks that wait, and one for each that was touched.

The record of the waiting tasks has the array's own id, "4711"; a task that starts, or that somebody holds, becomes a
record "4711_3" with a plain number of its own. The last one to be split off keeps the array's number. A task that is
cancelled while it waits leaves no record.
"""

from __future__ import annotations

from dataclasses import replace

from recovery.core.types import JobState
from recovery.slurm.simulator.stage import Stage
from recovery.slurm.simulator.state import Job


def split(stage: Stage, array: Job, task: int) -> Job:
    """Make a record of its own of one waiting task."""
    waiting = tuple(number for number in array.waiting_tasks if number != task)
    job_id = f"{array.array_id}_{task}"
    stage.changed()
    if not waiting:
        del stage.state.jobs[array.job_id]
        stage.records.pop(array.job_id, None)
        array.job_id, array.task, array.waiting_tasks = job_id, task, ()
        one = array
    else:
        array.waiting_tasks = waiting
        one = replace(
            array,
            job_id=job_id,
            record_id=stage.next_id(),
            number=stage.next_number(),
            task=task,
            waiting_tasks=(),
            fired={},
            past=[],
        )
    one.log = stage.log_path(one)
    stage.state.jobs[job_id] = one
    return one


def may_start_another(stage: Stage, array: Job) -> bool:
    limit = array.spec.array_limit
    return not limit or _running(stage, array.array_id) < limit


def _running(stage: Stage, array_id: str) -> int:
    return sum(job.array_id == array_id and job.state is JobState.RUNNING for job in stage.state.jobs.values())


def records_of(stage: Stage, job_id: str) -> list[Job]:
    """Every record that the id of an array stands for; [] where it is none."""
    return [job for job in stage.state.jobs.values() if job.array_id == job_id]


def waiting_record(stage: Stage, job_id: str) -> tuple[Job, int] | None:
    """The record that task "4711_3" still waits in, with its number."""
    array_id, _, task = job_id.partition("_")
    array = stage.state.jobs.get(array_id)
    if array is None or not task.isdigit() or int(task) not in array.waiting_tasks:
        return None
    return array, int(task)
