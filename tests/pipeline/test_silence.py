"""What is asked for when an attempt is silent: what else tells of it, and how soon that is seen."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from recovery.core.types import FindingKind, NodeState, SignalKind
from recovery.models import Attempt, Cluster, Incident, NodeEvent, Reading, Signal
from recovery.pipeline.alarms import look_for_alarms
from recovery.pipeline.judge import judge, site_digest
from recovery.pipeline.measure_gpus import gpu_facts
from tests.factories import ago, make_attempt, make_job, make_run, make_samples

pytestmark = pytest.mark.django_db
SPINS_W, USUAL_W = 150.0, 600.0
MEASURED = {"prometheus_url": "http://127.0.0.1:9"}


def silent(seconds: float, cluster: Cluster | None = None) -> Attempt:
    """A run whose last step came so long ago, on a cluster whose GPUs could be measured; the defaults of the settings
    hold (20 minutes where something else tells of it, else 45)."""
    attempt = make_attempt(
        job=make_job(run=make_run(cluster=cluster)), last_progress_at=ago(seconds), nodes=["n1", "n2"]
    )
    Attempt.objects.filter(pk=attempt.pk).update(started_at=ago(seconds + 7200))
    Cluster.objects.filter(pk=attempt.job.cluster_id).update(sources=MEASURED, seen_at=timezone.now())
    make_samples(attempt=attempt, count=50, first_step=800, last_at=ago(seconds))
    return Attempt.objects.select_related("job__run", "job__cluster").get(pk=attempt.pk)


def measured(attempt: Attempt, begin_s: float, end_s: float, watts: float) -> None:
    """A reading a minute of each node, from so long ago to so long ago."""
    moments = [ago(begin_s - 60 * number) for number in range(int((begin_s - end_s) / 60))]
    Reading.objects.bulk_create(
        Reading(attempt=attempt, name="power", node=node, at=at, value=watts) for at in moments for node in ("n1", "n2")
    )


def judged(attempt: Attempt, now: datetime) -> Incident | None:
    Cluster.objects.filter(pk=attempt.job.cluster_id).update(seen_at=now)
    attempt.job.cluster.seen_at = now
    return judge(attempt, None, site=site_digest(), now=now)


def test_a_silence_that_nothing_else_tells_of_waits_longer_and_is_looked_at_again_within_a_minute() -> None:
    attempt, now = silent(1300), timezone.now()
    assert judged(attempt, now) is None
    assert attempt.quiet_until is not None
    assert now < attempt.quiet_until <= now + timedelta(seconds=60)
    found = judged(attempt, now + timedelta(seconds=1500))
    assert found is not None
    assert "45 m is the limit, as nothing else says that it hangs (20 m if something did)" in found.reason


def test_gpus_that_only_wait_make_it_a_hang_sooner() -> None:
    attempt, now = silent(1300), timezone.now()
    measured(attempt, 3600, 1300, USUAL_W)
    measured(attempt, 1300, 0, SPINS_W)
    found = judged(attempt, now)
    assert found is not None
    assert found.kind == FindingKind.HANG
    assert "20 m is the limit, as its GPUs only wait (45 m if nothing else told of it)" in found.reason


@pytest.mark.parametrize(
    ("spans", "every_s"),
    [
        pytest.param([(60, 0)], "60", id="one reading after a gap"),
        pytest.param([(600, 480), (180, 0)], "60", id="five minutes of none in the middle"),
        pytest.param([(300, 0)], "60", id="half of them"),
        pytest.param([(600, 540), (300, 240)], "300", id="all that are asked for, five minutes apart"),
    ],
)
def test_gpus_that_wait_in_too_few_readings_tell_nothing(spans: list[tuple[int, int]], every_s: str) -> None:
    attempt, now = silent(1300), timezone.now()
    sources = attempt.job.cluster.sources = MEASURED | {"prometheus_every_s": every_s}
    Cluster.objects.filter(pk=attempt.job.cluster_id).update(sources=sources)
    measured(attempt, 3600, 1300, USUAL_W)
    for begin, end in spans:
        measured(attempt, begin - 1, end - 1, SPINS_W)
    gpu = gpu_facts(attempt, now=now)
    assert gpu is not None
    assert gpu.most_power_w is None
    assert judged(attempt, now) is None


def test_a_node_with_few_readings_keeps_the_others_from_speaking_for_it() -> None:
    attempt, now = silent(1300), timezone.now()
    measured(attempt, 600, 0, SPINS_W)
    kept = Reading.objects.filter(attempt=attempt, node="n2").latest("at")
    Reading.objects.filter(attempt=attempt, node="n2", at__lt=kept.at).delete()
    gpu = gpu_facts(attempt, now=now)
    assert gpu is not None
    assert (gpu.nodes, gpu.most_power_w) == (2, None)


def test_gpus_that_compute_make_it_a_hang_later() -> None:
    attempt, now = silent(2800), timezone.now()
    measured(attempt, 5000, 0, USUAL_W)
    assert judged(attempt, now) is None
    alone = silent(2800)
    assert judged(alone, now) is not None


def test_a_fault_of_its_node_and_a_line_of_a_rank_are_seen_by_the_next_look() -> None:
    told, said, now = silent(1300), silent(1300), timezone.now()
    assert judged(told, now) is None
    assert judged(said, now) is None
    NodeEvent.objects.create(
        cluster=told.job.cluster,
        node="n2",
        at=ago(1200),
        seen_at=ago(1200),
        old=NodeState.UP,
        new=NodeState.DOWN,
        reason="Not responding",
    )
    Signal.objects.create(
        attempt=said, kind=SignalKind.FAILURE, rule="nccl.collective_timeout", at=ago(100), file="f", line=1, offset=1,
        text="Watchdog caught collective operation timeout",
    )  # fmt: skip
    later = now + timedelta(seconds=60)
    for attempt, words in ((told, "as n2 went bad"), (said, "as its log tells of a fault since")):
        found = judged(attempt, later)
        assert found is not None
        assert words in found.reason


def test_what_gpus_usually_draw_is_taken_from_before_the_silence() -> None:
    """Else a long hang is soon what is usual, and nobody sees any more that they only wait."""
    attempt, now = silent(6000), timezone.now()
    measured(attempt, 9000, 6000, USUAL_W)
    measured(attempt, 6000, 0, SPINS_W)
    gpu = gpu_facts(attempt, now=now)
    assert gpu is not None
    assert (gpu.usual_power_w, gpu.power_w, gpu.most_power_w) == (USUAL_W, SPINS_W, SPINS_W)
    measured(other := silent(600), 90, 0, SPINS_W)
    gpu = gpu_facts(other, now=now)
    assert gpu is not None
    assert gpu.usual_power_w is None  # nobody measured before


def test_a_stall_that_others_share_is_told_from_the_lower_floor_on() -> None:
    first, now = silent(1300), timezone.now()
    for seconds in (1290, 1310):
        other = silent(seconds, first.job.cluster)
        Attempt.objects.filter(pk=other.pk).update(longest_wait_s=30.0)
    assert judged(first, now) is None
    assert first.alarms_at is None  # people are told at once
    look_for_alarms(first, now=now)
    assert list(first.job.run.alarms.values_list("kind", flat=True)) == ["shared_stall"]
