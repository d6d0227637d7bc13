"""The people of a simulated cluster: they submit the next job when one has gone, and cancel one that stands still.

What comes next depends on the seed, the stream and how many jobs it had, never on who looks when.
"""

from __future__ import annotations

from dataclasses import replace
from math import log

from recovery.core.types import JobState
from recovery.slurm.simulator import ending, queue
from recovery.slurm.simulator.lines import noise
from recovery.slurm.simulator.spec import Fault, FaultKind, JobSpec, Stream, Workload
from recovery.slurm.simulator.stage import Stage
from recovery.slurm.simulator.state import Activity, Job

MAX_FAULTS = 6  # of one job
QUIET_STEPS = 200  # at least so many between two of them
NODE_BACK_S = 150.0  # a node that died under a job is repaired so soon


def look(stage: Stage, at: float) -> None:
    """Look at every stream, as its people do now and then."""
    workload = stage.spec.workload
    if workload is None:
        return
    newest: dict[int, Job] = {}
    for job in sorted(stage.state.jobs.values(), key=lambda job: job.number):
        if job.stream is not None:
            newest[job.stream] = job
            _lose_patience(stage, job, workload, at)
    for number, stream in enumerate(workload.streams):
        if _is_over(stage, newest.get(number), workload, at):
            _submit_next(stage, number, stream, at)
    stage.look_at_workload(at + workload.look_every_s)


def _is_over(stage: Stage, job: Job | None, workload: Workload, at: float) -> bool:
    """Whether the stream's people have given up its newest job."""
    if job is None:
        return True
    if job.purge_at is None:
        return False
    waited = workload.after_failure_s
    if job.state in (JobState.COMPLETED, JobState.CANCELLED):
        waited = workload.after_end_s
    # Not `ended_at`: that keeps its time when the world pauses, and a pause is no time to decide in.
    ended_for = at - job.purge_at + stage.spec.min_job_age_s + stage.spec.completing_s
    return ended_for >= waited


def _lose_patience(stage: Stage, job: Job, workload: Workload, at: float) -> None:
    training = job.training
    if training is not None and training.activity is Activity.SILENT and at - training.since >= workload.patience_s:
        ending.cancel(stage, job, job.spec.user, at)


def _submit_next(stage: Stage, number: int, stream: Stream, at: float) -> None:
    generation = stage.state.generations[number]
    stage.state.generations[number] = generation + 1
    spec = stream.template
    if generation:
        spec = stream.later or spec
        faults = draw_faults(stream, spec, key=(stage.spec.seed, number, generation), after_step=0)
        spec = replace(spec, run=f"{spec.run_key}-{generation + 1}", faults=faults)
    queue.submit(stage, spec, stream=number, at=at)


def draw_faults(stream: Stream, spec: JobSpec, *, key: tuple[int, int, int], after_step: int) -> tuple[Fault, ...]:
    """Faults of the kinds that the stream knows, at random distances after `after_step`, as long as the job lasts."""
    faults: list[Fault] = []
    step = float(after_step)
    while stream.faults and len(faults) < MAX_FAULTS:
        chance = noise("fault", *key, len(faults))
        step += QUIET_STEPS - stream.mean_steps_to_fault * log(1 - chance[0])
        if step >= spec.total_steps:
            break
        kind = stream.faults[int(chance[1] * len(stream.faults))]
        rank = int(chance[2] * spec.ranks)
        seconds = NODE_BACK_S if kind is FaultKind.NODE_DOWN else 0
        faults.append(Fault(kind=kind, step=int(step), rank=rank, factor=1.8 + 2 * chance[3], seconds=seconds))
    return tuple(faults)
