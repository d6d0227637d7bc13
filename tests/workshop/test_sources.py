"""Sources of a cluster: set with errors that name the field, examined with a remedy."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from recovery.core.source_options import OPTIONS, BadSource, check
from recovery.core.types import Phase
from recovery.doctor.results import State
from recovery.doctor.sources import examine_sources
from recovery.models import Cluster, PushSender, PushToken, SourceHealth
from recovery.models.access import Role
from tests.factories import make_attempt, make_cluster, make_job, make_run, make_user

pytestmark = pytest.mark.django_db


def set_cluster(*arguments: str) -> None:
    call_command("set_cluster", *arguments, stdout=StringIO(), stderr=StringIO())


def test_sources_are_set_changed_and_taken_away(tmp_path: Path) -> None:
    cluster = make_cluster(backend="simulator", options={"state_dir": str(tmp_path)})
    token = tmp_path / "token"
    token.write_text("x")
    set_cluster(cluster.name, "--source", "prometheus_url=https://p:9090", "--source", f"prometheus_token_file={token}")
    set_cluster(cluster.name, "--source", "prometheus_every_s=30", "--source", "prometheus_token_file=")
    assert Cluster.objects.get().sources == {"prometheus_url": "https://p:9090", "prometheus_every_s": "30"}
    set_cluster(cluster.name, "--source", "prometheus_url=", "--source", "prometheus_every_s=")
    assert Cluster.objects.get().sources == {}


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("prometheus", "x", "choose from"),
        ("prometheus_url", "ftp://p", "http"),
        ("prometheus_url", "https://user:secret@p", "token belongs into a file"),
        ("prometheus_every_s", "1", "5 to 3600"),
        ("prometheus_by", "gpu", "node, job"),
        ("prometheus_node_label", "host-name", "letters, digits"),
        ("prometheus_query_power", "avg(power)", "$nodes"),
        ("prometheus_token_file", "token", "absolute path"),
        ("loki_query", "{}", "loki_url"),
        ("kernel_log", "/var/../kern.log", "absolute path"),
        ("kernel_log_zone", "Mars", "IANA"),
        ("metrics", "m.jsonl", "absolute path"),
        ("metrics", "/logs/*/m.jsonl", "in the file name only"),
    ],
)
def test_a_wrong_source_is_refused_with_its_name_and_what_to_write(name: str, value: str, remedy: str) -> None:
    cluster = make_cluster(options={"state_dir": "/tmp"})
    extra = [] if name in ("prometheus_url", "loki_query") else ["--source", "prometheus_url=http://p"]
    with pytest.raises(CommandError) as raised:
        set_cluster(cluster.name, *extra, "--source", f"{name}={value}")
    assert str(raised.value).startswith(f"Source {name}: ")
    assert remedy in str(raised.value)
    assert "secret" not in str(raised.value)
    assert Cluster.objects.get().sources == {}


def test_every_kind_of_option_is_checked() -> None:
    for name in OPTIONS:
        with pytest.raises(BadSource):
            check({"prometheus_url": "http://p", "loki_url": "http://l", name: "\n"})


def test_the_doctor_says_what_answers_and_what_does_not() -> None:
    now = timezone.now()
    cluster = make_cluster(sources={"prometheus_url": "http://p", "kernel_log": "/k", "loki_url": "http://l"})
    SourceHealth.objects.create(cluster=cluster, source="prometheus", tried_at=now, good_at=now, detail="4 readings")
    away = {"good_at": now, "trouble": "It is away.", "remedy": "Start it."}
    SourceHealth.objects.create(cluster=cluster, source="loki", tried_at=now, **away)
    told = {result.what: result for result in examine_sources(cluster, now=now)}
    assert told["prometheus"].state is State.GOOD
    assert told["kernel log"].state is State.NOT_TRIED
    assert (told["loki"].state, told["loki"].remedy) == (State.ATTENTION, "Start it.")
    assert told["loki"].detail.startswith("It is away; it last answered ")
    SourceHealth.objects.update(tried_at=now - timedelta(hours=1))
    told = {result.what: result for result in examine_sources(cluster, now=now)}
    assert "worker" in told["prometheus"].remedy


def test_the_doctor_says_who_pushes_and_who_fell_silent() -> None:
    now = timezone.now()
    attempt = make_attempt()
    cluster = attempt.job.cluster
    assert list(examine_sources(cluster, now=now)) == []
    sender = PushSender.objects.create(attempt=attempt, heard_at=now, progressed_at=now)
    [heard] = examine_sources(cluster, now=now)
    assert heard.state is State.GOOD
    PushSender.objects.filter(pk=sender.pk).update(heard_at=now - timedelta(minutes=9))
    [silent] = examine_sources(cluster, now=now)
    assert silent.state is State.ATTENTION
    assert attempt.job.job_id in silent.detail
    attempt.phase = Phase.FINISHING  # it said that it is done: nothing more is expected of it
    attempt.save(update_fields=["phase"])
    assert list(examine_sources(cluster, now=now)) == []


def test_the_doctor_says_whether_the_files_that_a_cluster_names_give_anything() -> None:
    now = timezone.now()
    sources = {"metrics": "/logs/%j.jsonl", "nvrx_iteration_file": "/logs/it", "nvrx_cycle_dir": "/logs/cycles"}
    cluster = make_cluster(sources=sources)
    assert {each.state for each in examine_sources(cluster, now=now)} == {State.NOT_TRIED}
    attempt = make_attempt(job=make_job(run=make_run(cluster=cluster)), ended_at=None)
    told = {each.what: each for each in examine_sources(cluster, now=now)}
    assert {each.state for each in told.values()} == {State.ATTENTION}
    assert told["metrics files"].detail == "0 of 1 running jobs give something by /logs/%j.jsonl"
    assert "Correct the source metrics" in told["metrics files"].remedy
    attempt.parser_memory = {"metrics": {"/logs/1.jsonl": {"last": 7}, "iteration": 400, "cycles": [{"number": 0}]}}
    attempt.save(update_fields=["parser_memory"])
    assert {each.state for each in examine_sources(cluster, now=now)} == {State.GOOD}


def test_what_is_set_is_told(tmp_path: Path) -> None:
    cluster = make_cluster(backend="simulator", options={"state_dir": str(tmp_path)})
    out = StringIO()
    call_command("set_cluster", cluster.name, "--source", "metrics=/logs/%j.jsonl", stdout=out)
    assert out.getvalue().endswith("Source metrics: /logs/%j.jsonl\n")


def test_a_push_token_is_made_on_the_command_line(capsys: Any) -> None:
    attempt = make_attempt()
    cluster = attempt.job.cluster
    make_user(username="op", role=Role.OPERATOR)
    out = StringIO()
    call_command("make_token", "op", "--name", "x", "--push", cluster.name, "--job", attempt.job.job_id, stdout=out)
    assert out.getvalue().startswith("rdp_")
    assert PushToken.objects.get().job == attempt.job
    for arguments, word in (
        (["--push", "nowhere"], "no cluster"), (["--push", cluster.name, "--job", "0"], "No job 0"),
        (["--user", "alice"], "--push"), (["--push", cluster.name, "--scope", "view"], "no scopes"),
    ):  # fmt: skip
        with pytest.raises(CommandError, match=word):
            call_command("make_token", "op", "--name", "x", *arguments, stdout=StringIO())
