"""Running attempts with logs and checkpoint folders of their own, to be looked at as the tick's workers do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from recovery.core.types import JobState
from recovery.models import Attempt, Cluster, Job, LogFile, Run
from recovery.pipeline.watch import batches_of, watch_attempts
from recovery.slurm.base import SlurmClient

NOW = datetime(2026, 1, 11, 9, 0, tzinfo=UTC)
PACE = timedelta(seconds=10)  # between two steps, and between two looks
EARLIER = 30  # steps that each has reported before it is measured
LINE = (
    " [{at:%Y-%m-%d %H:%M:%S}] iteration {step:8}/  500000 | consumed samples: {samples:12} |"
    " elapsed time per iteration (ms): {ms:.1f} | throughput per GPU (TFLOP/s/GPU): 412.7 | learning rate: 3.0E-04 |"
    " global batch size:  1024 | lm loss: 2.104512E+00 | loss scale: 1.0 | grad norm: 0.312 |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)
FOLDERS = 100  # that the logs lie in


class Fleet:
    """`size` attempts below `folder`, each at step 30, read to the end and judged. `look` is one pass over all."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.size = folder, size
        self.now, self.step = NOW, 0
        self.cluster = Cluster.objects.create(name=f"fleet-{size}", backend="cli", seen_at=NOW, poll_interval_s=10)
        self.logs = [folder / f"{number % FOLDERS:02}" / f"train-{number}.out" for number in range(size)]
        for number in range(FOLDERS):
            (folder / f"{number:02}").mkdir()
        self._store()
        self._write(range(1, EARLIER + 1))
        for _ in range(2):  # reads, then finds that the checkpoint folders have settled
            self.look()

    def look(self) -> None:
        """What all workers together do in one interval."""
        self.now += PACE
        Cluster.objects.filter(pk=self.cluster.pk).update(seen_at=self.now)
        for keys in batches_of(self._due()):
            watch_attempts(keys, client_for=_nobody, clock=lambda: self.now)

    def statements_of_a_batch(self, size: int) -> int:
        """What a look at `size` of them costs, whatever is new of them."""
        self.now += PACE
        Cluster.objects.filter(pk=self.cluster.pk).update(seen_at=self.now)
        keys = list(self._due().values_list("pk", flat=True)[:size])
        with CaptureQueriesContext(connection) as captured:
            watch_attempts(keys, client_for=_nobody, clock=lambda: self.now)
        return len(captured)

    def write_one_step(self) -> None:
        """Each log grows by one report."""
        self._write([self.step + 1])

    def _write(self, steps: Sequence[int]) -> None:
        """The reports of these steps: those before the first look one interval apart, the newest of just now."""
        self.step = steps[-1]
        lines = ""
        for step in steps:
            at = NOW - PACE * (EARLIER - step) if step <= EARLIER else self.now + PACE / 2
            lines += LINE.format(at=at, step=step, samples=step * 1024, ms=PACE.total_seconds() * 1000)
        for log in self.logs:
            with log.open("a") as file:
                file.write(lines)

    def remove(self) -> None:
        self.cluster.delete()

    def _due(self) -> QuerySet[Attempt]:
        return Attempt.due(self.now).filter(job__cluster=self.cluster)

    def _store(self) -> None:
        every = range(self.size)
        runs = Run.objects.bulk_create(
            [
                Run(
                    cluster=self.cluster, key=f"run-{number}", name=f"run-{number}", user="ada", created_at=NOW,
                    checkpoint_dir=str(self._checkpoints(number)),
                )
                for number in every
            ]
        )  # fmt: skip
        started = NOW - PACE * (EARLIER + 1)
        times = {"first_submitted_at": started, "submitted_at": started, "seen_at": NOW}
        jobs = Job.objects.bulk_create(
            [
                Job(
                    cluster=self.cluster, run=run, job_id=str(number), name=run.name, user="ada",
                    state=JobState.RUNNING, stdout=str(self.logs[number]), record_key=str(number),
                    options={"run": run.key}, **times,
                )
                for number, run in enumerate(runs)
            ]
        )  # fmt: skip
        Attempt.objects.bulk_create(
            [
                Attempt(
                    job=job, number=0, state=JobState.RUNNING, submitted_at=started, started_at=started, seen_at=NOW,
                    next_look_at=NOW,
                )
                for job in jobs
            ]
        )  # fmt: skip

    def _checkpoints(self, number: int) -> Path:
        """A folder with one whole checkpoint in Megatron-LM's layout."""
        folder = self.folder / f"{number % FOLDERS:02}" / f"ckpt-{number}"
        shard = folder / "iter_0000020" / "mp_rank_00"
        shard.mkdir(parents=True)
        (shard / "model_optim_rng.pt").write_bytes(b"weights" * 10)
        (folder / "latest_checkpointed_iteration.txt").write_text("20")
        return folder


def forget_marks() -> None:
    """As if every log might have something new: each is opened and read."""
    LogFile.objects.update(mark="")


@contextmanager
def allowed(folder: Path) -> Iterator[None]:
    """Logs and checkpoints may be read below `folder`."""
    with patch.multiple(settings, LOG_ROOTS=[str(folder)], CHECKPOINT_ROOTS=[str(folder)]):
        yield


def _nobody(cluster: Cluster) -> SlurmClient:
    raise AssertionError(f"nobody asks {cluster} while its jobs run")
