"""What the doctor says of an installation and of a cluster, each with its remedy."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from pytest_django import Settings

from recovery import env
from recovery.celery import app
from recovery.core.types import JobState
from recovery.doctor import Result, State, examine_cluster, installation, scheduler
from recovery.doctor.calls import WORDS
from recovery.doctor.job_files import examine_files
from recovery.management.commands import doctor
from recovery.models import AuditChain, Cluster, Upkeep
from recovery.slurm.base import (
    YES,
    Can,
    Health,
    Operation,
    SlurmUnreachable,
)
from recovery.slurm.registry import BadOptions
from tests.factories import ago, make_attempt, make_cluster, make_job, make_run
from tests.pipeline.fake_slurm import FakeSlurm, no_answer
from tests.workshop.scripted import Scripted, by_what

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HEALTH = Health(
    release="22.05.8", accounting=True, requeue_delay_s=6, latency_s=0.02, min_job_age_s=300,
    store_flags=("job_comment", "job_script"), controller_time=NOW,
)  # fmt: skip


def examined(cluster: Cluster, client: FakeSlurm) -> dict[str, Result]:
    found = examine_cluster(cluster, client_for=lambda _: client, clock=lambda: datetime.now(UTC))
    return by_what(list(found))


# --- the installation


@pytest.mark.django_db
def test_a_migrated_database_is_well() -> None:
    assert installation.database(NOW).state is State.GOOD


def test_a_folder_that_is_not_there_names_the_setting(tmp_path: Path) -> None:
    result = installation.folder("log root", tmp_path / "x", setting="RECOVERY_LOG_ROOTS", at=NOW)
    assert result.state is State.BROKEN
    assert "RECOVERY_LOG_ROOTS" in result.remedy
    assert installation.folder("log root", tmp_path, setting="RECOVERY_LOG_ROOTS", at=NOW).state is State.GOOD


def test_a_broker_that_does_not_run_is_trouble_within_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.conf, "broker_url", "redis://:hidden@127.0.0.1:9/0")
    monkeypatch.setattr(app.conf, "broker_write_url", "redis://:hidden@127.0.0.1:9/0")
    result = installation.broker(NOW)
    assert "REDIS_URL" in result.remedy
    assert "hidden" not in json.dumps(result.as_json())


@pytest.fixture
def folder_broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As REDIS_URL=filesystem:///… of a folder that is not there yet."""
    folder = tmp_path / "broker"
    url, options = env.broker(f"filesystem://{folder}")
    for name in ("broker_url", "broker_write_url"):
        monkeypatch.setattr(app.conf, name, url)
    monkeypatch.setitem(app.conf, "broker_transport_options", options)
    return folder


def test_a_folder_as_the_broker_must_be_there(folder_broker: Path) -> None:
    result = installation.broker(NOW)
    assert (result.state, result.what) == (State.BROKEN, f"broker (filesystem://{folder_broker})")
    assert result.detail == f"there is no folder {folder_broker} here"
    assert "REDIS_URL" in result.remedy
    folder_broker.mkdir()
    assert installation.broker(NOW).state is State.GOOD


def test_a_folder_as_the_broker_must_be_writable(folder_broker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder_broker.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)  # nothing is forbidden to root
    assert "can't read and write" in installation.broker(NOW).detail


def test_development_does_not_start_on_a_folder_that_is_not_there(
    folder_broker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", f"filesystem://{folder_broker}")
    with pytest.raises(CommandError, match=f"no folder {folder_broker}"):
        call_command("dev")


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("redis://ada:hidden@127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://127.0.0.1:6379/0?password=hidden", "redis://127.0.0.1:6379/0"),
        ("redis+socket:///run/redis.sock", "redis+socket:///run/redis.sock"),
    ],
)
def test_the_broker_is_shown_as_it_is_set_without_a_password(
    monkeypatch: pytest.MonkeyPatch, setting: str, shown: str
) -> None:
    monkeypatch.setitem(app.conf, "broker_transport_options", {})
    for name in ("broker_url", "broker_write_url"):
        monkeypatch.setattr(app.conf, name, setting)
    assert installation.broker_setting() == shown


@pytest.mark.django_db
@pytest.mark.parametrize(("due_ago", "state"), [(500, State.BROKEN), (1, State.GOOD)])
def test_workers_are_judged_by_the_work_that_waits_for_them(due_ago: float, state: State) -> None:
    make_cluster(next_look_at=ago(due_ago), tried_at=ago(due_ago + 10))
    assert installation.workers(datetime.now(UTC)).state is state


@pytest.mark.django_db
@pytest.mark.parametrize(("looked_ago", "state"), [(1, State.ATTENTION), (400, State.BROKEN)])
def test_a_worker_that_catches_up_is_not_said_to_be_missing(looked_ago: float, state: State) -> None:
    make_cluster(name="waits", next_look_at=ago(500), tried_at=ago(510))
    make_cluster(name="seen", tried_at=ago(looked_ago))
    result = installation.workers(datetime.now(UTC))
    assert result.state is state
    assert ("Start a worker" in result.remedy) is (state is State.BROKEN)


@pytest.mark.django_db
def test_without_any_look_nothing_tells_whether_workers_run() -> None:
    assert installation.workers(NOW).state is State.NOT_TRIED


@pytest.mark.django_db
def test_upkeep_says_when_it_was_last_done_and_why_it_failed() -> None:
    assert installation.tables(NOW).state is State.NOT_TRIED
    row = Upkeep.objects.create(at=NOW - timedelta(minutes=2))
    found = installation.tables(NOW)
    assert (found.state, found.detail) == (State.GOOD, "last done 2 m ago")
    assert installation.tables(NOW + timedelta(hours=2)).state is State.ATTENTION
    Upkeep.objects.filter(pk=row.pk).update(error="OperationalError: disk full")
    found = installation.tables(NOW)
    assert (found.state, found.detail) == (State.BROKEN, "failed: OperationalError: disk full; last done 2 m ago")


@pytest.mark.django_db
def test_the_audit_trail_is_broken_unguarded_late_or_whole() -> None:
    assert installation.audit_trail(NOW).state is State.NOT_TRIED
    told = {"next_look_at": NOW, "verified_id": 7, "verified_at": NOW - timedelta(minutes=50)}
    chain, _ = AuditChain.objects.update_or_create(name="events", defaults=told)
    whole = installation.audit_trail(NOW)
    assert (whole.state, whole.detail) == (State.GOOD, "whole up to event 7, 50 m ago")
    assert installation.audit_trail(NOW + timedelta(hours=3)).state is State.ATTENTION
    guards = import_module("recovery.migrations.0002_append_only_events")
    guards.drop(connection, only=("recovery_seal",))
    unguarded = installation.audit_trail(NOW)
    guards.create(connection)
    assert (unguarded.state, unguarded.detail) == (State.BROKEN, "the triggers of recovery_seal are missing")
    AuditChain.objects.filter(pk=chain.pk).update(bad_id=5, bad_reason="It was deleted.", bad_at=NOW)
    bad = installation.audit_trail(NOW)
    assert (bad.state, bad.detail) == (State.BROKEN, "broken at event 5. It was deleted.")
    assert bad in list(installation.examine_installation(now=NOW, ask_broker=False))


def test_another_time_zone_than_the_logs_is_pointed_out(settings: Settings) -> None:
    settings.LOG_TIME_ZONE = "Asia/Kathmandu"  # no machine of ours has a quarter of an hour
    assert installation.time_zone(NOW).state is State.ATTENTION
    assert "RECOVERY_LOG_TIME_ZONE" in installation.time_zone(NOW).remedy


# --- the controller and its settings


@pytest.mark.django_db
def test_a_cluster_that_answers_is_described() -> None:
    found = examined(make_cluster(), Scripted())
    assert "answers in 0.01 s" in found["reachable"].detail
    assert found["release"].detail == "Slurm 22.05.8"
    assert found["requeue delay"].detail == "a requeued job waits 6 s at least"
    assert found["MinJobAge"].state is State.GOOD


@pytest.mark.django_db
def test_a_cluster_that_does_not_answer_comes_with_a_remedy_and_is_asked_once() -> None:
    client = Scripted()
    client.silent = SlurmUnreachable("Connection refused", tried="scontrol ping")
    found = examined(make_cluster(backend="cli"), client)
    assert found["reachable"].detail == "scontrol ping: Connection refused"
    assert "munge" in found["reachable"].remedy
    assert client.asked == ["health"]
    assert WORDS[Operation.REQUEUE] not in found


@pytest.mark.django_db
def test_options_that_can_not_work_are_said_with_the_command_that_mends_them() -> None:
    def no_client(cluster: Cluster) -> FakeSlurm:
        raise BadOptions("The back end cli has no option colour.")

    [result] = examine_cluster(make_cluster(name="gpu"), client_for=no_client, clock=lambda: NOW)
    assert result.state is State.BROKEN
    assert "manage.py set_cluster gpu" in result.remedy


@pytest.mark.parametrize(
    ("seconds", "state"), [(0, State.GOOD), (4, State.GOOD), (-60, State.BROKEN), (60, State.BROKEN)]
)
def test_clocks_that_disagree_are_broken(seconds: float, state: State) -> None:
    result = scheduler.clock_skew(HEALTH, at=NOW + timedelta(seconds=seconds))
    assert result.state is state
    assert bool(result.remedy) is (state is State.BROKEN)


def test_a_clock_that_is_not_told_is_not_called_right() -> None:
    assert scheduler.clock_skew(replace(HEALTH, controller_time=None), at=NOW).state is State.NOT_TRIED


def test_missing_store_flags_say_what_they_cost_and_keep_those_that_are_set() -> None:
    result = scheduler.store_flags(replace(HEALTH, store_flags=("job_env", "job_comment")), at=NOW)
    assert "job_script is not stored" in result.detail
    assert "job_comment is not stored" not in result.detail
    assert "AccountingStoreFlags=job_env,job_comment,job_script" in result.remedy
    assert scheduler.store_flags(HEALTH, at=NOW).state is State.GOOD


def test_a_long_requeue_delay_says_how_to_shorten_it() -> None:
    assert "cred_expire" in scheduler.requeue_delay(replace(HEALTH, requeue_delay_s=121), at=NOW).remedy
    assert scheduler.requeue_delay(HEALTH, at=NOW).remedy == ""


@pytest.mark.parametrize(("age", "state"), [(300.0, State.GOOD), (20.0, State.ATTENTION), (None, State.NOT_TRIED)])
def test_min_job_age_is_held_against_the_poll_interval(age: float | None, state: State) -> None:
    cluster = Cluster(name="gpu", poll_interval_s=10)
    result = scheduler.min_job_age(cluster, replace(HEALTH, min_job_age_s=age), at=NOW)
    assert result.state is state
    if state is State.ATTENTION:
        assert "--poll-interval 6" in result.remedy


@pytest.mark.django_db
def test_a_federation_says_what_follows_and_wants_all_its_clusters_here() -> None:
    cluster = make_cluster(name="fb", federation="fed")
    health = replace(HEALTH, federation="fed", siblings=("fa",))
    alone = next(r for r in scheduler.examine_settings(cluster, health, attempts=YES, at=NOW) if r.what == "federation")
    assert (alone.state, "may start there" in alone.detail) == (State.ATTENTION, True)
    assert "Let fa be" in alone.remedy
    other = make_cluster(name="fa", seen_at=None)
    assert scheduler.federation(cluster, health, at=NOW).state is State.GOOD  # it is being added
    other.seen_at = NOW
    other.save()
    assert scheduler.federation(cluster, health, at=NOW).state is State.ATTENTION
    other.federation = "fed"
    other.save()
    assert scheduler.federation(cluster, health, at=NOW).state is State.GOOD
    alone = scheduler.federation(cluster, replace(health, siblings=()), at=NOW)
    assert (alone.state, alone.detail) == (State.GOOD, "this cluster is in fed, alone")
    down = scheduler.federation(cluster, replace(health, unsynced=("fa",)), at=NOW)
    assert (down.state, "out of step" in down.remedy) == (State.ATTENTION, True)
    assert "federation" not in [r.what for r in scheduler.examine_settings(cluster, HEALTH, attempts=YES, at=NOW)]


@pytest.mark.django_db
@pytest.mark.parametrize("fields", [{"origin": "fa"}, {"state": JobState.REVOKED}, {}])
def test_a_federation_that_is_not_told_is_missed_where_its_jobs_are(fields: dict[str, Any]) -> None:
    job = make_job(**fields)
    for named, missed in ((None, bool(fields)), ("", False)):
        health = replace(HEALTH, federation=named)
        results = scheduler.examine_settings(job.cluster, health, attempts=YES, at=NOW)
        assert [r.state for r in results if r.what == "federation"] == [State.ATTENTION] * missed


def test_accounting_that_is_set_up_is_not_said_to_answer() -> None:
    assert "set to keep" in scheduler.accounting(HEALTH, YES, at=NOW).detail


def test_no_accounting_says_what_it_costs() -> None:
    assert "unknown" in scheduler.accounting(replace(HEALTH, accounting=False), YES, at=NOW).detail


def test_accounting_that_the_back_end_can_not_ask_is_not_said_to_be_missing() -> None:
    denied = Can(yes=False, reason="This API reports every end as a success.", remedy="Let the commands act.")
    result = scheduler.accounting(replace(HEALTH, accounting=False), denied, at=NOW)
    assert "it can't be asked: This API" in result.detail
    assert result.remedy == "Let the commands act."


def test_a_requeue_delay_that_is_only_assumed_says_so() -> None:
    result = scheduler.requeue_delay(replace(HEALTH, requeue_delay_s=121, min_job_age_s=None), at=NOW)
    assert result.state is State.NOT_TRIED
    assert "default" in result.detail


# --- job files


@pytest.mark.django_db
def test_the_first_log_outside_of_the_roots_is_named(settings: Settings, tmp_path: Path) -> None:
    settings.LOG_ROOTS = [str(tmp_path)]
    run = make_run()
    make_job(run=run, job_id="1", stdout=f"{tmp_path}/1.out", stderr="")
    make_job(run=run, job_id="2", stdout=f"{tmp_path}/../2.out", stderr="")
    result = by_what(list(examine_files(run.cluster, now=NOW)))["logs of running jobs"]
    assert result.state is State.ATTENTION
    assert "1 of 2" in result.detail
    assert "of job 2" in result.detail
    assert "RECOVERY_LOG_ROOTS" in result.remedy


@pytest.mark.django_db
def test_logs_and_checkpoints_below_the_roots_are_well(settings: Settings) -> None:
    settings.LOG_ROOTS, settings.CHECKPOINT_ROOTS = ["/logs"], ["/ckpt"]
    job = make_job(comment='{"recovery": {}}')
    found = by_what(list(examine_files(job.cluster, now=NOW)))
    assert found["logs of running jobs"].state is State.GOOD
    assert found["checkpoints of running jobs"].detail == "the only one lies below a root"
    assert found["checkpoints of running jobs"].state is State.GOOD
    assert found["job comments"].state is State.GOOD


@pytest.mark.django_db
def test_a_cluster_without_a_comment_says_how_a_job_opts_in() -> None:
    job = make_job(comment="")
    result = by_what(list(examine_files(job.cluster, now=NOW)))["job comments"]
    assert result.state is State.NOT_TRIED
    assert "#SBATCH --comment" in result.remedy


@pytest.mark.django_db
def test_blind_attempts_are_told_with_the_remedy_of_the_first() -> None:
    attempt = make_attempt(blind_reason="It can't be read.", blind_remedy="Let the group read it.")
    make_attempt(job=make_job(run=attempt.job.run, state=JobState.COMPLETED), state=JobState.COMPLETED)
    result = by_what(list(examine_files(attempt.job.cluster, now=NOW)))["blind attempts"]
    assert "1; job" in result.detail
    assert result.remedy == "Let the group read it."


# --- the command


@pytest.fixture
def on_a_scripted_cluster(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path) -> Scripted:
    settings.LOG_ROOTS = settings.CHECKPOINT_ROOTS = [str(tmp_path)]
    client = Scripted()
    monkeypatch.setattr(doctor, "client_of", lambda cluster: client)
    monkeypatch.setattr(installation, "broker", lambda now: installation._result("broker", "answers", at=now))
    return client


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        call_command("doctor", *arguments)
        return capsys.readouterr().out

    return run


@pytest.mark.django_db
def test_the_command_prints_groups_and_looks_live_without_a_worker(
    printed: Callable[..., str], on_a_scripted_cluster: Scripted
) -> None:
    make_cluster(name="gpu")
    text = printed()
    assert text.index("Recovery Desk") < text.index("Cluster gpu") < text.index("Calls as this user")
    assert "health" in on_a_scripted_cluster.asked


@pytest.mark.django_db
def test_the_command_prints_one_json_document(printed: Callable[..., str], on_a_scripted_cluster: Scripted) -> None:
    make_cluster(name="gpu")
    document: dict[str, Any] = json.loads(printed("--json"))
    assert {result["what"] for result in document["installation"]} >= {"broker", "workers and beat"}
    release = next(result for result in document["clusters"]["gpu"] if result["what"] == "release")
    assert release["state"] == "good"
    assert datetime.fromisoformat(release["at"]).tzinfo is not None


@pytest.mark.django_db
def test_something_broken_is_an_exit_code(printed: Callable[..., str], on_a_scripted_cluster: Scripted) -> None:
    make_cluster(name="gpu")
    on_a_scripted_cluster.silent = no_answer()
    with pytest.raises(CommandError, match="1 of these"):
        printed()


@pytest.mark.django_db
@pytest.mark.parametrize("arguments", [(), ("--json",)], ids=["text", "json"])
def test_a_broken_installation_is_an_exit_code_too(
    printed: Callable[..., str],
    on_a_scripted_cluster: Scripted,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    broken = installation._result("broker", "refused", remedy="Start it.", at=NOW)
    monkeypatch.setattr(installation, "broker", lambda now: broken)
    with pytest.raises(CommandError, match="1 of these"):
        printed(*arguments)


@pytest.mark.django_db
def test_no_cluster_is_to_look_at_and_names_the_guide(
    printed: Callable[..., str], on_a_scripted_cluster: Scripted
) -> None:
    assert "docs/operations.md" in printed()
