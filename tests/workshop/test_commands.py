"""The commands of those who run the desk."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.management import call_command, get_commands, load_command_class
from django.core.management.base import CommandError

from recovery.access import Permission, actor_for
from recovery.demo.environment import is_ours
from recovery.doctor import stored
from recovery.doctor.results import State
from recovery.models import Attempt, Cluster, Event, Examination, Sample
from tests.factories import make_attempt, make_incident
from tests.pipeline.fake_slurm import FakeSlurm
from tests.workshop.scripted import Scripted

GOOD_PASSWORD = "tall-grass-in-june"
Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> str:
        call_command(*arguments)
        return capsys.readouterr().out

    return run


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """What stands in the standard input, as in a script."""
    return lambda text: monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def make_cluster(**fields: Any) -> Cluster:
    return Cluster.objects.create(name="gpu", backend="cli", next_look_at=datetime.now(UTC), **fields)


# --- as one of a row of programs -------------------------------------------------------------------------------------
@pytest.mark.parametrize("command", ["spectacular", "help"])  # more than a pipe holds, and less than is written at once
def test_a_reader_that_goes_is_no_trouble(command: str, tmp_path: Path) -> None:
    outside = {name: value for name, value in os.environ.items() if not is_ours(name)}
    env, words = {**outside, "RECOVERY_DATA_DIR": str(tmp_path)}, [sys.executable, "manage.py", command]
    with subprocess.Popen(
        words, cwd=settings.BASE_DIR, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.close()
        _, said = process.communicate(timeout=120)
    assert (said, process.returncode) == (b"", 141)


# --- the right database ----------------------------------------------------------------------------------------------
def test_a_database_without_tables_is_told_in_one_sentence_with_the_remedy(tmp_path: Path) -> None:
    outside = {name: value for name, value in os.environ.items() if not is_ours(name)}
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "policy", "show"]
    found = subprocess.run(
        command, env={**outside, "RECOVERY_DATA_DIR": str(tmp_path)}, capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1].startswith(f"The database {tmp_path}/recovery.sqlite3 has no tables of")
    assert "python manage.py migrate" in found.stderr
    assert "Traceback" not in found.stderr


# --- accounts --------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_new_account_can_log_in_and_do_what_its_role_allows(run: Run, typed: Callable[[str], None]) -> None:
    typed(GOOD_PASSWORD + "\n")
    assert run("set_account", "ada", "--role", "approver") == "ada is approver.\n"
    user = authenticate(username="ada", password=GOOD_PASSWORD)
    assert user
    assert actor_for(user).can(Permission.DECIDE)


@pytest.mark.django_db
def test_a_change_of_role_is_recorded_and_leaves_the_password(run: Run, typed: Callable[[str], None]) -> None:
    typed(GOOD_PASSWORD)
    run("set_account", "ada", "--role", "viewer")
    run("set_account", "ada", "--role", "admin")
    assert authenticate(username="ada", password=GOOD_PASSWORD)
    event = Event.objects.order_by("-id")[0]
    assert (event.verb, event.old, event.new) == ("account.role_changed", "viewer", "admin")
    assert event.actor_name.endswith("at the command line")


@pytest.mark.django_db
def test_a_weak_password_makes_no_account(run: Run, typed: Callable[[str], None]) -> None:
    typed("short")
    with pytest.raises(CommandError, match="too short"):
        run("set_account", "ada", "--role", "viewer")
    assert not User.objects.exists()


@pytest.mark.django_db
def test_a_new_account_needs_a_role(run: Run) -> None:
    with pytest.raises(CommandError, match="--role"):
        run("set_account", "ada")


# --- clusters --------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_cluster_is_looked_at_from_now_on_and_recorded(run: Run, tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.touch()
    run("set_cluster", "gpu", "--slurm-conf", str(conf), "--poll-interval", "5")
    cluster = Cluster.objects.get()
    assert (cluster.backend, cluster.options, cluster.poll_interval_s) == ("cli", {"slurm_conf": str(conf)}, 5)
    assert list(Cluster.due(datetime.now(UTC))) == [cluster]
    assert Event.objects.get().verb == "cluster.added"


@pytest.mark.django_db
def test_a_cluster_without_incidents_can_be_removed_with_its_jobs(run: Run) -> None:
    attempt = make_attempt()
    Sample.objects.create(attempt=attempt, step=1, at=datetime.now(UTC))
    kept = make_attempt()
    cluster = attempt.job.cluster
    assert "is removed" in run("set_cluster", cluster.name, "--remove")
    assert list(Cluster.objects.all()) == [kept.job.cluster]
    assert list(Attempt.objects.all()) == [kept]
    event = Event.objects.get(verb="cluster.removed")
    assert (event.subject_id, event.data["name"]) == (str(cluster.pk), cluster.name)
    with pytest.raises(CommandError, match="There is no cluster"):
        run("set_cluster", cluster.name, "--remove")


@pytest.mark.django_db
def test_a_cluster_on_whose_jobs_something_was_decided_stays_on_record(run: Run) -> None:
    cluster = make_incident().run.cluster
    with pytest.raises(CommandError, match=f"has 1 incident: .* set_cluster {cluster.name} --disable"):
        run("set_cluster", cluster.name, "--remove")
    assert Cluster.objects.filter(pk=cluster.pk).exists()


@pytest.mark.django_db
def test_a_disabled_cluster_keeps_what_is_known_of_it(run: Run) -> None:
    cluster = make_cluster(release="22.05.8")
    run("set_cluster", "gpu", "--disable")
    cluster.refresh_from_db()
    assert not cluster.enabled
    assert cluster.release == "22.05.8"


@pytest.mark.django_db
def test_what_is_not_given_stays_as_it_is(run: Run, tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.touch()
    run("set_cluster", "gpu", "--slurm-conf", str(conf), "--poll-interval", "5", "--disable")
    run("set_cluster", "gpu", "--poll-interval", "7")
    cluster = Cluster.objects.get()
    assert (cluster.options, cluster.poll_interval_s, cluster.enabled) == ({"slurm_conf": str(conf)}, 7, False)
    run("set_cluster", "gpu", "--enable", "--option", "slurm_conf=", "--option", "prefix=sh -c")
    cluster.refresh_from_db()
    assert (cluster.options, cluster.enabled) == ({"prefix": "sh -c"}, True)


@pytest.mark.django_db
def test_a_cluster_that_is_reached_otherwise_is_examined_anew(run: Run) -> None:
    cluster = make_cluster(options={})
    later = datetime.now(UTC) + timedelta(minutes=4)
    Examination.objects.create(cluster=cluster, next_look_at=later)
    run("set_cluster", "gpu", "--option", "bin_dir=", "--backend", "rest", "--option", "url=https://a.example:6820")
    assert stored.due(datetime.now(UTC)) == [cluster.pk]


@pytest.mark.django_db
def test_a_way_that_changes_during_an_examination_is_examined_next() -> None:
    cluster = make_cluster()
    Examination.objects.create(cluster=cluster, next_look_at=datetime.now(UTC))

    def change(row: Cluster) -> FakeSlurm:
        Cluster.objects.filter(pk=row.pk).update(options={"slurm_conf": "/etc/other.conf"})
        return Scripted()

    for due in ([cluster.pk], []):
        stored.examine_and_store(cluster.pk, client_for=change, clock=lambda: datetime.now(UTC))
        assert stored.due(datetime.now(UTC)) == due


@pytest.mark.django_db
def test_an_examination_that_fails_is_told_of_and_tried_again_minutes_later() -> None:
    cluster = make_cluster()
    now = datetime.now(UTC)
    Examination.objects.create(cluster=cluster, next_look_at=now)

    def explode(row: Cluster) -> FakeSlurm:
        raise RuntimeError("a bug")

    stored.examine_and_store(cluster.pk, client_for=explode, clock=lambda: now)
    last = stored.report_on(Cluster.objects.get(), now=now).results[-1]
    assert (last.what, last.state) == ("examination", State.BROKEN)
    assert "RuntimeError: a bug" in last.detail
    assert stored.due(now) == []
    assert stored.due(now + stored.EVERY) == [cluster.pk]


@pytest.mark.django_db
def test_another_back_end_takes_none_of_the_old_ones_options(run: Run) -> None:
    make_cluster(options={"prefix": "ssh login1"})
    said = run("set_cluster", "gpu", "--backend", "rest", "--option", "url=https://slurm.example:6820")
    cluster = Cluster.objects.get()
    assert (cluster.backend, cluster.options) == ("rest", {"url": "https://slurm.example:6820"})
    assert "through slurmrestd" in said


@pytest.mark.django_db
def test_a_token_reaches_neither_the_audit_trail_nor_the_terminal(run: Run) -> None:
    url = "url=https://slurm.example:6820"
    said = run("set_cluster", "gpu", "--backend", "rest", "--option", url, "--option", "token=very-secret")
    assert Cluster.objects.get().options["token"] == "very-secret"
    assert "very-secret" not in said + json.dumps(Event.objects.get().data)
    assert "slurm.example" in json.dumps(Event.objects.get().data)


@pytest.mark.django_db
def test_the_same_way_for_two_clusters_is_warned_of_and_not_refused(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    make_cluster(options={"prefix": "sh -c"})
    call_command("set_cluster", "twin", "--option", "prefix=sh -c")
    assert "gpu is reached in exactly this way, too" in capsys.readouterr().err
    assert Cluster.objects.count() == 2
    for more in (["--disable"], ["--enable", "--option", "bin_dir=/usr/bin"]):
        call_command("set_cluster", "twin", *more)
        assert capsys.readouterr().err == ""


@pytest.mark.django_db
def test_an_option_taken_away_is_not_missed_where_the_back_end_needs_it(run: Run) -> None:
    run("set_cluster", "gpu", "--backend", "rest", "--option", "url=https://slurm.example:6820")
    with pytest.raises(CommandError, match="option url"):
        run("set_cluster", "gpu", "--option", "url=")
    assert Cluster.objects.get().options == {"url": "https://slurm.example:6820"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["a b"], "letters, digits"),
        (["gpu", "--option", "colour=blue"], "no option 'colour': it takes slurm_conf"),
        (["gpu", "--option", "prefix"], "NAME=VALUE"),
        (["gpu", "--option", "prefix=ssh 'x"], "prefix"),
        (["gpu", "--option", "prefix=no-such-program -x login1"], "there is no program no-such-program"),
        (["gpu", "--backend", "native", "--option", "python=/nowhere/python"], "there is no program /nowhere/python"),
        (["gpu", "--backend", "rest"], "needs the option url"),
        (["gpu", "--backend", "rest", "--option", "url=nowhere"], "option url"),
        (
            ["gpu", "--backend", "rest", "--option", "url=https://a:1", "--option", "token_file=/nowhere/t"],
            "token_file",
        ),
        (["gpu", "--backend", "simulator"], "state_dir"),
        (["gpu", "--poll-interval", "600"], "RECOVERY_STALE_AFTER_S"),
        (["gpu", "--poll-interval", "nan"], "below one second"),
        (["gpu", "--slurm-conf", "/nowhere/slurm.conf"], "no file /nowhere"),
        (["gpu", "--bin-dir", "/nowhere"], "no scontrol in /nowhere"),
        (["gpu", "--poll-interval", "0.1"], "below one second"),
    ],
)
def test_a_cluster_that_could_not_work_is_refused_with_the_reason(run: Run, arguments: list[str], reason: str) -> None:
    with pytest.raises(CommandError, match=reason):
        run("set_cluster", *arguments)
    assert not Cluster.objects.exists()


@pytest.mark.django_db
def test_nothing_due_is_a_pass_that_does_nothing(run: Run) -> None:
    assert run("tick") == "Looked at 0 clusters, 0 attempts and 0 incidents.\n"


OURS = sorted(name for name, app in get_commands().items() if app == "recovery")


@pytest.mark.parametrize("name", OURS)
def test_each_command_can_print_its_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """argparse reads each % of a help text as a place to fill in, at the latest when it prints it."""
    load_command_class("recovery", name).print_help("manage.py", name)
    assert f"manage.py {name}" in capsys.readouterr().out
