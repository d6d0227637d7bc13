"""The database drives: what is due is found, a poisoned case blocks no other, a lease runs out."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import OperationalError as DatabaseLost
from django.db import connection
from kombu.exceptions import OperationalError

from recovery import tasks
from recovery.core.types import JobState
from recovery.models import Attempt, Cluster, Event, Incident, LogFile, Sample, Signal
from recovery.models.leased import POISONED
from recovery.pipeline import leasing, reconcile, watch
from tests.pipeline.conftest import Desk


def test_an_attempt_that_ended_well_is_looked_at_until_its_facts_have_settled_and_then_no_more(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.slurm.end(state=JobState.COMPLETED, exit_code=0, reason="None")
    desk.tick(times=6)
    assert Attempt.objects.get().closed_at is not None
    assert reconcile.due(desk.now + timedelta(days=1)).attempts == []
    assert not Incident.objects.exists()


def test_a_poisoned_case_is_pushed_forward_shown_and_blocks_no_other(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.run_with_checkpoint()
    desk.submit("2", name="other", comment="", user="bob")
    desk.tick()

    def explode(*args: object, **kwargs: object) -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(reconcile, "diagnose_incident", explode)
    desk.crash_with_ecc()
    incident = desk.incident
    assert "no such thing" in incident.error
    assert incident.failed_looks == 1
    assert incident.next_look_at is not None
    assert incident.next_look_at > desk.now + timedelta(minutes=1)
    assert incident.leased_until is None
    assert Event.objects.filter(verb="incident.look_failed").exists()
    monkeypatch.undo()
    desk.now += POISONED
    desk.tick()
    assert (desk.incident.error, desk.incident.failed_looks) == ("", 0)
    assert desk.incident.state != "detected"


def test_a_database_that_went_away_in_the_middle_is_tried_again_within_seconds(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.run_with_checkpoint()

    def lose(*args: object, **kwargs: object) -> None:
        raise DatabaseLost("terminating connection due to administrator command")

    monkeypatch.setattr(watch, "poll_cluster", lose)
    monkeypatch.setattr(connection, "is_usable", lambda: False)
    monkeypatch.setattr(connection, "close", lambda: None)  # the test's own transaction goes on
    desk.tick()
    monkeypatch.undo()
    cluster = Cluster.objects.get()
    assert cluster.next_look_at == desk.now + leasing.DATABASE_BACK
    assert (cluster.leased_until, "terminating connection" in cluster.error) == (None, True)
    desk.tick(times=2)
    assert Cluster.objects.get().error == ""


def test_what_is_read_twice_is_stored_once(desk: Desk) -> None:
    desk.run_with_checkpoint()
    samples, signals = Sample.objects.count(), Signal.objects.count()
    LogFile.objects.update(offset=0, line=0, head="")  # as if the place had never been stored
    desk.tick(times=2)
    assert (Sample.objects.count(), Signal.objects.count()) == (samples, signals)


def test_a_requeued_attempt_does_not_inherit_what_its_predecessor_printed(desk: Desk) -> None:
    desk.run_with_checkpoint()
    desk.say("[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered")
    desk.slurm.requeue("1", hold=False)
    desk.tick(times=2)
    desk.slurm.start()  # an appended log: nothing is truncated
    desk.say(" successfully loaded checkpoint from /x at iteration 10")
    desk.tick(times=2)
    second = Attempt.objects.get(number=1)
    assert not second.signals.filter(kind="failure").exists()
    assert second.restored_step == 10
    assert second.last_step is None


def test_a_missing_log_is_blind_with_a_remedy_and_never_a_hang(desk: Desk) -> None:
    desk.submit()
    desk.slurm.start()
    desk.tick(times=60)
    attempt = Attempt.objects.get()
    assert "does not exist" in attempt.blind_reason
    assert attempt.blind_remedy
    assert not Incident.objects.exists()


def test_a_log_outside_the_allowed_roots_is_blind_with_a_remedy(desk: Desk) -> None:
    desk.submit(stdout="/etc/hostname")
    desk.slurm.start()
    desk.tick(times=2)
    attempt = Attempt.objects.get()
    assert attempt.blind_reason
    assert "RECOVERY_LOG_ROOTS" in attempt.blind_remedy


def test_binary_garbage_and_endless_lines_stop_nothing(desk: Desk) -> None:
    desk.submit()
    desk.start()
    with desk.log.open("ab") as file:
        file.write(bytes(range(256)) * 2000 + b"x" * 3_000_000 + b"\n")
    desk.tick(times=3)
    desk.train(1, 3)
    assert Attempt.objects.get().last_step == 3


def test_a_checkpoint_folder_that_disappears_is_missing_and_not_restorable(desk: Desk) -> None:
    desk.run_with_checkpoint()
    for shard in desk.checkpoints.glob("iter_*/mp_rank_*/*.pt"):
        shard.unlink()
    for folder in sorted(desk.checkpoints.rglob("*"), reverse=True):
        folder.rmdir() if folder.is_dir() else folder.unlink()
    desk.tick(times=2)
    states = set(desk.attempt.job.run.checkpoints.values_list("state", flat=True))
    assert states == {"missing"}
    desk.crash_with_ecc()
    assert desk.recommendation.restore_step is None


def test_a_decision_without_a_broker_waits_for_the_tick(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreachable(*args: object, **options: object) -> None:
        raise OperationalError("Connection refused")

    monkeypatch.setattr(tasks.work_on_incident, "apply_async", unreachable)
    tasks.wake_incident(7)
    assert re.search(r"incident.*7.* waits for the next tick", caplog.text)
