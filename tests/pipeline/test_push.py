"""What is pushed goes the way of what a log says: stored once, judged alike, of one job alone."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from recovery.core.types import FailureClass, FindingKind, JobState
from recovery.models import Attempt, Cluster, Incident, LogFile, PushBatch, PushSender, PushToken, Sample, Signal
from recovery.pipeline import ingest, metrics_source, push
from tests.pipeline.conftest import ECC, Desk


def token_of(desk: Desk) -> PushToken:
    cluster = Cluster.objects.get()
    token, _ = PushToken.objects.get_or_create(
        cluster=cluster, prefix="p", defaults={
            "name": "t", "digest": "x", "made_by": "admin", "created_at": desk.now,
            "expires_at": desk.now + timedelta(days=9),
        },
    )  # fmt: skip
    return token


def send(desk: Desk, *rows: dict[str, Any], name: str, job: str = "1") -> push.Accepted:
    batch = push.Batch(batch_id=name, job_id=job, restart=None, rows=rows)
    return push.accept(token_of(desk), batch, now=desk.now)


def blind(desk: Desk) -> None:
    """A running job whose log can't be read."""
    desk.submit(stdout=f"{desk.folder}/none.out", stderr="")
    desk.start()
    desk.tick()
    desk.tick(seconds=70)


def test_pushed_progress_is_stored_and_the_attempt_is_not_blind(desk: Desk) -> None:
    blind(desk)
    assert desk.attempt.blind_reason
    send(desk, {"step": 1, "loss": 2.5, "tokens": 1000}, {"step": 2, "loss": 2.25, "rank": 3}, name="a")
    desk.tick()
    attempt = desk.attempt
    assert (attempt.blind_reason, attempt.last_step, attempt.phase) == ("", 2, "training")
    assert set(Sample.objects.values_list("step", "rank", "loss")) == {(1, -1, 2.5), (2, 3, 2.25)}
    assert PushBatch.objects.get().rows == []


def test_a_batch_sent_again_changes_nothing(desk: Desk) -> None:
    blind(desk)
    for _ in range(2):
        send(desk, {"step": 1}, {"kind": "save_durable", "step": 1, "path": "/c"}, name="a")
        desk.tick()
    assert (Sample.objects.count(), Signal.objects.count()) == (1, 1)


def test_a_worker_that_dies_while_it_stores_loses_and_doubles_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    blind(desk)
    send(desk, {"step": 1}, {"kind": "save_started", "step": 1}, name="a")
    with monkeypatch.context() as patch:

        def dies(*args: Any, **kwargs: Any) -> None:
            raise OperationalError("the server closed the connection")

        patch.setattr(ingest, "update_rows", dies)
        desk.tick()
    assert (Sample.objects.count(), Signal.objects.count()) == (0, 0)
    assert push.unread(desk.attempt).count() == 1
    desk.tick(seconds=200)
    assert (Sample.objects.count(), Signal.objects.count()) == (1, 1)


def test_a_client_that_fell_silent_makes_blind_not_hung(desk: Desk) -> None:
    blind(desk)
    for step in range(1, 8):
        send(desk, {"step": step}, name=f"b{step}")
        desk.tick(seconds=20)
    assert not desk.attempt.blind_reason
    desk.tick(seconds=200, times=6)
    attempt = desk.attempt
    assert "last heard" in attempt.blind_reason
    assert attempt.blind_remedy
    assert not Incident.objects.exists()


def test_a_client_that_lives_while_no_step_comes_is_a_hang(desk: Desk) -> None:
    blind(desk)
    for step in range(1, 12):
        send(desk, {"step": step}, name=f"b{step}")
        desk.tick(seconds=20)
    for number in range(80):
        send(desk, name=f"beat{number}")
        desk.tick(seconds=20)
        if Incident.objects.exists():
            break
    assert Incident.objects.get().kind == FindingKind.HANG


def test_a_pushed_failure_is_evidence_for_the_verdict(desk: Desk) -> None:
    blind(desk)
    send(desk, {"step": 12}, name="a")
    desk.tick()
    text = "Traceback (most recent call last):\nRuntimeError: CUDA error: uncorrectable ECC error encountered"
    send(desk, {"kind": "failure", "rank": 1, "text": text}, name="b")
    desk.slurm.end("1", JobState.FAILED, exit_code=1)
    desk.tick_until(lambda: Incident.objects.exclude(failure_class="").exists())
    assert desk.incident.failure_class == FailureClass.GPU_HARDWARE


def test_what_one_job_pushes_touches_no_other(desk: Desk) -> None:
    desk.submit("1")
    desk.start("1")
    desk.submit("2", stdout="/nowhere/two.out", stderr="")
    desk.start("2", nodes=("n3",))
    desk.tick(times=2)
    text = "RuntimeError: CUDA error: uncorrectable ECC error encountered on n1"
    send(desk, {"step": 5}, {"kind": "failure", "text": text, "rank": 0}, name="a", job="2")
    desk.tick(times=3)
    other = Attempt.objects.get(job__job_id="1")
    assert (other.last_step, other.signals.count(), other.samples.count()) == (None, 0, 0)


def test_a_time_before_the_attempt_or_to_come_is_that_of_reading(desk: Desk) -> None:
    blind(desk)
    old, new = desk.now - timedelta(days=3), desk.now + timedelta(days=3)
    send(desk, {"step": 1, "at": old.isoformat()}, {"step": 2, "at": new.isoformat()}, name="a")
    desk.tick()
    assert all(at >= desk.now - timedelta(seconds=5) for at in Sample.objects.values_list("at", flat=True))


def test_rows_that_came_at_the_end_are_read_before_the_attempt_is_closed(desk: Desk, settings: Any) -> None:
    blind(desk)
    send(desk, {"step": 3}, name="a")
    desk.tick()
    desk.slurm.end("1", JobState.COMPLETED, exit_code=0)
    desk.tick(seconds=settings.SETTLE_S + 1)
    attempt = Attempt.objects.get()
    if attempt.closed_at is None:
        send(desk, {"step": 4}, name="last")
    desk.tick_until(lambda: Attempt.objects.get().closed_at is not None)
    assert not push.unread(attempt).exists()


def test_what_was_read_is_forgotten_after_a_day(desk: Desk) -> None:
    blind(desk)
    send(desk, {"step": 1}, name="a")
    push.forget(now=desk.now + timedelta(days=2))
    assert PushBatch.objects.count() == 1  # nobody has read it yet
    desk.tick()
    push.forget(now=desk.now + timedelta(hours=1))
    assert PushBatch.objects.count() == 1
    push.forget(now=desk.now + timedelta(days=2))
    assert PushBatch.objects.count() == 0
    assert PushSender.objects.count() == 1


# --- metrics files ---------------------------------------------------------------------------------------------------


def metrics_job(desk: Desk, **options: str) -> None:
    parts = ", ".join(f'"{name}": "{value}"' for name, value in options.items())
    desk.submit(stdout="", stderr="", comment=f'{{"recovery": {{{parts}}}}}')
    desk.start()


def test_who_said_that_it_is_done_is_not_blind_when_it_falls_silent(desk: Desk) -> None:
    blind(desk)
    send(desk, {"step": 7}, {"kind": "finished"}, name="a")
    desk.tick()
    assert (desk.attempt.phase, desk.attempt.blind_reason) == ("finishing", "")
    desk.tick(seconds=300)
    assert "was last heard" not in desk.attempt.blind_reason


def test_metrics_files_of_the_comment_are_followed(desk: Desk, tmp_path: Any) -> None:
    metrics_job(desk, metrics=f"{tmp_path}/metrics-*.jsonl")
    file = tmp_path / "metrics-0.jsonl"
    file.write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "lo')
    desk.tick()
    assert list(Sample.objects.values_list("step", "loss")) == [(1, 2.5)]
    with file.open("a") as more:
        more.write('ss": 2.25}\n')
    desk.tick(seconds=15)
    assert [step for step, _ in Sample.objects.order_by("step").values_list("step", "loss")] == [1, 2]
    assert desk.attempt.blind_reason == ""
    assert LogFile.objects.get(path=f"metrics:{file}").offset == file.stat().st_size


def test_one_file_may_be_named_as_log_and_as_metrics(desk: Desk, tmp_path: Any) -> None:
    file = tmp_path / "a.jsonl"
    metrics_job(desk, log=str(file), metrics=str(file))
    file.write_text('{"step": 1, "loss": 2.5}\n')
    desk.tick()
    with file.open("a") as more:
        more.write(f'{{"step": 2, "loss": 2.25}}\n{ECC}\n')
    desk.tick(seconds=15)
    assert set(Sample.objects.values_list("step", "loss")) == {(1, 2.5), (2, 2.25)}
    assert Signal.objects.filter(kind="failure").count() == 1
    assert desk.attempt.last_step == 2


def test_a_csv_file_keeps_its_header_from_look_to_look(desk: Desk, tmp_path: Any) -> None:
    metrics_job(desk, metrics=f"{tmp_path}/metrics.csv")
    file = tmp_path / "metrics.csv"
    file.write_text("epoch,step,train_loss\n0,10,2.5\n")
    desk.tick()
    with file.open("a") as more:
        more.write("0,20,2.25\n")
    desk.tick(seconds=15)
    assert set(Sample.objects.values_list("step", "loss")) == {(10, 2.5), (20, 2.25)}


def test_a_metrics_file_outside_of_the_roots_is_blind_with_the_remedy(desk: Desk) -> None:
    metrics_job(desk, metrics="/etc/metrics-*.jsonl")
    desk.tick(times=3)
    assert desk.attempt.blind_reason
    assert not Sample.objects.exists()


def test_what_nvrx_tells_does_not_depend_on_the_metrics_files(desk: Desk, tmp_path: Any) -> None:
    metrics_job(desk, metrics="/etc/metrics-*.jsonl", nvrx_iteration_file=str(tmp_path / "iteration"))
    (tmp_path / "iteration").write_text("400")
    os.utime(tmp_path / "iteration", (desk.now.timestamp(), desk.now.timestamp()))
    desk.tick()
    assert Signal.objects.get().step == 400


def test_nvrx_tells_of_checkpoints_and_cycles(desk: Desk, tmp_path: Any) -> None:
    tracker, cycles = tmp_path / "latest_checkpointed_iteration.txt", tmp_path / "cycles"
    cycles.mkdir()
    metrics_job(desk, nvrx_iteration_file=str(tracker), nvrx_cycle_dir=str(cycles))
    for cycle in range(2):
        told = {"cycle_number": cycle, "cycle_start_time": "2026-01-11T12:00:00+00:00", "active_nodes": "n[1-2]"}
        (cycles / f"cycle_info.1.0.{cycle}").write_text(json.dumps(told))
    (cycles / "cycle_info.1.current").symlink_to(cycles / "cycle_info.1.0.1")
    tracker.write_text("400\n")
    os.utime(tracker, (desk.now.timestamp(), desk.now.timestamp()))
    desk.tick()
    signal = Signal.objects.get()
    assert (signal.kind, signal.step, signal.rule) == ("save_durable", 400, "nvrx.checkpoint_iteration")
    assert [cycle["number"] for cycle in desk.attempt.parser_memory["metrics"]["cycles"]] == [0, 1]
    desk.tick(times=2)
    assert Signal.objects.count() == 1


def test_workers_that_nvrx_started_anew_are_no_hang_before_their_first_step(desk: Desk, tmp_path: Any) -> None:
    metrics_job(desk, nvrx_cycle_dir=str(tmp_path), log=str(tmp_path / "a.out"))
    log, step = tmp_path / "a.out", 0
    for step in range(1, 16):
        desk.now += timedelta(seconds=10)
        with log.open("a") as file:
            file.write(f"step {step} loss 2\n")
        desk.tick()
    assert desk.attempt.phase == "training"
    with log.open("a") as file:
        file.write("RuntimeError: CUDA error: uncorrectable ECC error encountered\n")
    desk.tick()
    told = {"cycle_number": 1, "cycle_start_time": (desk.now + timedelta(seconds=5)).isoformat()}
    (tmp_path / "cycle_info.1.0.1").write_text(json.dumps(told))
    for _ in range(25):
        desk.tick(seconds=100)  # loading and compiling, without a word
    assert (desk.attempt.phase, Incident.objects.count()) == ("first_step", 0)
    for again in (step - 1, step, step + 1):
        desk.now += timedelta(seconds=10)
        with log.open("a") as file:
            file.write(f"step {again} loss 2\n")
        desk.tick()
    assert desk.attempt.phase == "training"
    with log.open("a") as file:
        file.write("Traceback (most recent call last):\nKeyError: 'tokens'\n")
    desk.slurm.end("1", JobState.FAILED, exit_code=1)
    desk.tick_until(lambda: Incident.objects.exclude(failure_class="").exists())
    assert desk.incident.failure_class == FailureClass.USER_CODE  # what NVRx had dealt with did not end the job


def test_metrics_files_that_come_up_for_ever_fill_no_table(
    desk: Desk, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_source, "MOST_FILES", 4)
    metrics_job(desk, metrics=f"{tmp_path}/m-*.jsonl")
    for look in range(4):
        for number in range(3):
            (tmp_path / f"m-{look}-{number}.jsonl").write_text('{"step": 1}\n')
        desk.tick()
    assert LogFile.objects.count() <= 4
    assert len(desk.attempt.parser_memory["metrics"]) <= 4


def test_who_counts_further_and_falls_silent_makes_no_hang_of_a_job_whose_log_goes_on(desk: Desk) -> None:
    desk.submit()
    desk.start()
    desk.step(10)
    desk.tick()
    send(desk, {"step": 5000}, name="a")
    desk.tick()
    assert desk.attempt.last_step == 5000
    for step in range(11, 14):
        desk.now += timedelta(seconds=10)
        desk.step(step)
        desk.tick()
        assert desk.attempt.last_progress_at == desk.now
    silent_since = desk.now
    desk.tick(seconds=10)
    assert desk.attempt.last_progress_at == silent_since
