"""What a proposal needs to know of the job beside its attempt: where it could run, and what could be done instead."""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePosixPath

from django.conf import settings

from recovery.core.diagnose.exits import HELD
from recovery.core.instead import Around, Restorable
from recovery.core.recommend import JobFacts
from recovery.core.series import typical_step_time
from recovery.core.types import AttemptFacts, CheckpointState, JobState
from recovery.models import Attempt, Checkpoint, Outbreak
from recovery.pipeline.eligible import eligible_nodes
from recovery.pipeline.facts import rhythm
from recovery.pipeline.scripts import why_not_resubmitted
from recovery.pipeline.subject import held_by_us
from recovery.pipeline.suspects import to_avoid
from recovery.slurm.base import HELD_BY_PEOPLE, SlurmClient
from recovery.sources.trackers import read_tracker


def facts_of_job(attempt: Attempt, facts: AttemptFacts, *, client: SlurmClient, now: datetime) -> JobFacts:
    job = attempt.job
    places = eligible_nodes(job, now=now)
    outbreak = Outbreak.objects.filter(incidents__run=job.run_id, incidents__closed_at=None, closed_at=None).first()
    avoid, room = to_avoid(job.cluster, now=now)
    return JobFacts(
        job_id=job.job_id, requeueable=job.requeueable, node_count=job.node_count or len(attempt.nodes), gpus=job.gpus,
        eligible_nodes=places.nodes, eligible_reason=places.reason, required_nodes=tuple(job.required_nodes),
        excluded_nodes=tuple(job.excluded_nodes), forgotten=job.is_forgotten,
        held=(job.held and JobState(job.state) is JobState.PENDING) or job.state_reason in HELD_BY_PEOPLE,
        step_time_s=typical_step_time(facts.samples),
        user=job.user, requeue_delay_s=job.cluster.requeue_delay_s,
        delay_measured=job.cluster.tells_its_delay, around=_around(attempt, client=client),
        federation=job.cluster.federation, origin=job.origin,
        outbreak=str(outbreak.pk) if outbreak is not None else "", avoid=avoid, room=room,
    )  # fmt: skip


def _around(attempt: Attempt, *, client: SlurmClient) -> Around:
    job = attempt.job
    saved_at, every = rhythm(job.run_id)
    return Around(
        held_by_slurm=job.state_reason in HELD and job.state == JobState.PENDING,
        held_by_us=held_by_us(job),
        resubmit_why_not=why_not_resubmitted(job, client=client),
        restorable=restorable(attempt),
        saved_at=saved_at,
        save_every_s=every,
    )


def restorable(attempt: Attempt, *, step: int | None = None) -> Restorable | None:
    """The complete checkpoint of `step` (None: the newest), where the trainer keeps a tracker beside it."""
    rows = Checkpoint.objects.filter(run=attempt.job.run_id, state=CheckpointState.COMPLETE).order_by("-step")
    row = (rows.filter(step=step) if step is not None else rows).first()
    if row is None or not row.path.startswith("/"):
        return None
    tracker = read_tracker(str(PurePosixPath(row.path).parent), roots=settings.CHECKPOINT_ROOTS)
    if tracker is None:
        return None
    return Restorable(
        step=row.step, path=row.path, folder=tracker.folder, tracker=tracker.name, old=tracker.content,
        write=tracker.naming(step=row.step, path=row.path), writer=tracker.writer, why_not=tracker.why_not,
    )  # fmt: skip
