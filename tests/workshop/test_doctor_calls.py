"""Which calls the doctor says work as this user, and that it changes nothing to find out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings

from recovery.core.types import JobState
from recovery.doctor import Result, State, examine_cluster
from recovery.doctor.calls import WORDS, examine_calls
from recovery.models import Cluster
from recovery.slurm.base import JobRecord, Operation, Rights, RightsLevel, SlurmRefused, SlurmUnreachable
from tests.factories import ago, make_cluster, make_job, make_run
from tests.pipeline.fake_slurm import FakeSlurm, no_answer
from tests.workshop.scripted import Scripted, by_what

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def calls_of(cluster: Cluster, client: FakeSlurm) -> dict[str, Result]:
    return by_what(list(examine_calls(cluster, client, clock=lambda: datetime.now(UTC))))


@pytest.mark.django_db
def test_an_examination_changes_nothing() -> None:
    cluster = make_cluster(seen_at=ago(900))
    make_job(run=make_run(cluster=cluster), job_id="1")
    client = Scripted()
    client.enter("1")
    client.scripts["1"] = "#!/bin/sh\n"
    before = (dict(client.table), dict(client.node_table))
    list(examine_cluster(cluster, client_for=lambda _: client, clock=lambda: datetime.now(UTC)))
    assert client.calls == []
    assert (client.table, client.node_table) == before


@pytest.mark.django_db
def test_reads_are_tried_and_writes_on_jobs_are_said_by_rights() -> None:
    cluster = make_cluster(seen_at=ago(900))
    make_job(run=make_run(cluster=cluster, user="ada"), job_id="1")
    client = Scripted(RightsLevel.OPERATOR)
    client.accounting = True
    client.enter("1")
    client.scripts["1"] = "#!/bin/sh\n"
    found = calls_of(cluster, client)
    reads = [operation for operation in Operation if not operation.is_write]
    assert {found[WORDS[operation]].state for operation in reads} == {State.GOOD}
    assert found[WORDS[Operation.BATCH_SCRIPT]].detail == "tried: job 1, of ada"
    assert found[WORDS[Operation.REQUEUE]].detail == "not tried; by rights it works"
    assert found[WORDS[Operation.REQUEUE]].state is State.NOT_TRIED


@pytest.mark.django_db
def test_lists_that_the_last_poll_brought_are_not_asked_for_again() -> None:
    client = Scripted()
    found = calls_of(make_cluster(seen_at=ago(3)), client)
    assert "the picture of 3 s ago" in found[WORDS[Operation.JOBS]].detail
    assert not {"jobs", "nodes"} & set(client.asked)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("level", "requeue", "drain"),
    [
        (RightsLevel.FULL, State.NOT_TRIED, State.GOOD),
        (RightsLevel.OPERATOR, State.NOT_TRIED, State.ATTENTION),
        (RightsLevel.OWN, State.ATTENTION, State.ATTENTION),
    ],
)
def test_what_is_refused_names_the_sacctmgr_line(level: RightsLevel, requeue: State, drain: State) -> None:
    found = calls_of(make_cluster(), Scripted(level))
    assert found[WORDS[Operation.REQUEUE]].state is requeue
    assert found[WORDS[Operation.DRAIN_NODE]].state is drain
    assert found[WORDS[Operation.RESUME_NODE]].state is drain
    for operation, wanted in ((Operation.REQUEUE, "operator"), (Operation.DRAIN_NODE, "administrator")):
        result = found[WORDS[operation]]
        line = f"sacctmgr add user desk account=root adminlevel={wanted}"
        assert (line in result.remedy) is (result.state is State.ATTENTION)


@pytest.mark.django_db
def test_the_first_examination_does_not_say_that_there_are_no_jobs() -> None:
    client = Scripted()
    client.enter("1")
    found = calls_of(make_cluster(seen_at=None), client)
    assert found[WORDS[Operation.JOBS]].detail == "tried: 1 job"
    assert found[WORDS[Operation.JOB]].detail == (
        "not tried: when this was looked at, no job was stored that it could be tried on"
    )


@pytest.mark.django_db
def test_attempts_without_an_answer_lead_to_slurmdbd(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, client = make_cluster(), Scripted()
    make_job(run=make_run(cluster=cluster), job_id="1")

    def refuse(*_: object, **__: object) -> None:
        raise SlurmUnreachable("localhost:6819: Connection refused", tried="sacct --jobs=1")

    monkeypatch.setattr(client, "attempts", refuse)
    result = calls_of(cluster, client)[WORDS[Operation.ATTEMPTS]]
    assert result.state is State.BROKEN
    assert "slurmdbd" in result.remedy
    assert "controller" not in result.remedy


@pytest.mark.django_db
def test_accounting_that_gives_no_word_on_us_leads_to_slurmdbd(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Scripted(RightsLevel.UNKNOWN)
    found = Rights(user="desk", level=RightsLevel.UNKNOWN, how="accounting does not tell: Connection refused")
    monkeypatch.setattr(client, "rights", lambda: found)
    result = calls_of(make_cluster(), client)["who we are"]
    assert result.state is State.NOT_TRIED
    assert "slurmdbd" in result.remedy


@pytest.mark.django_db
def test_root_is_told_that_less_would_do_unless_the_cluster_is_simulated() -> None:
    client = Scripted(user="root")
    for backend, told in (("cli", True), ("simulator", False)):
        result = calls_of(make_cluster(backend=backend), client)["who we are"]
        assert result.state is State.GOOD
        assert ("an operator is enough" in result.remedy) is told
        assert ("root may do everything" in result.detail) is told


@pytest.mark.django_db
def test_an_answer_that_tells_nothing_of_a_right_is_not_taken_for_one() -> None:
    client = Scripted(RightsLevel.OPERATOR)
    client.node_answer = "Requested operation is presently disabled"
    found = calls_of(make_cluster(), client)
    assert found[WORDS[Operation.DRAIN_NODE]].detail.startswith("not tried; by rights")


@pytest.mark.django_db
@pytest.mark.parametrize("seen", [3, 900], ids=["polled", "tried"])
def test_jobs_that_private_data_may_hide_are_not_called_well(seen: float) -> None:
    cluster = make_cluster(seen_at=ago(seen))
    client = Scripted(RightsLevel.OWN)
    result = calls_of(cluster, client)[WORDS[Operation.JOBS]]
    assert result.state is State.ATTENTION
    assert "PrivateData" in result.detail
    make_job(run=make_run(cluster=cluster, user="ada"))
    assert calls_of(cluster, client)[WORDS[Operation.JOBS]].state is State.GOOD


@pytest.mark.django_db
@pytest.mark.parametrize(("user", "state"), [("desk", State.ATTENTION), ("ada", State.GOOD)])
def test_past_jobs_that_private_data_may_hide_are_not_called_well(
    user: str, state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Scripted(RightsLevel.OWN)
    mine = JobRecord(job_id="7", name="x", user=user, state=JobState.FAILED, submitted_at=ago(60), ended_at=ago(30))
    monkeypatch.setattr(client, "ended_between", lambda start, end: [mine], raising=False)
    result = calls_of(make_cluster(), client)[WORDS[Operation.ENDED_BETWEEN]]
    assert result.state is state
    assert result.detail.startswith("tried: 1 job ended in the last 10 m")
    assert ("slurmdbd.conf" in result.detail) == (state is State.ATTENTION)


@pytest.mark.django_db
def test_what_the_back_end_has_not_is_said_in_its_own_words() -> None:
    client = Scripted()
    client.denied = {Operation.REQUEUE}
    result = calls_of(make_cluster(), client)[WORDS[Operation.REQUEUE]]
    assert result.state is State.ATTENTION
    assert result.detail == "not here: This controller has no requeue."
    assert result.remedy == "Use another back end."


@pytest.mark.django_db
def test_rights_that_can_not_be_told_make_no_promise() -> None:
    client = Scripted(RightsLevel.UNKNOWN)
    found = calls_of(make_cluster(), client)
    assert found[WORDS[Operation.REQUEUE]].detail == "not tried; our rights are not known"


@pytest.mark.django_db
def test_another_users_script_that_is_refused_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make_cluster()
    make_job(run=make_run(cluster=cluster, user="ada"), job_id="1")
    client = Scripted(RightsLevel.OWN)

    def refuse(job_id: str) -> str:
        raise SlurmRefused("Invalid user id", tried="scontrol write batch_script 1", permanent=True)

    monkeypatch.setattr(client, "batch_script", refuse)
    result = calls_of(cluster, client)[WORDS[Operation.BATCH_SCRIPT]]
    assert result.state is State.ATTENTION
    assert "adminlevel=operator" in result.remedy


@pytest.mark.django_db
def test_a_controller_that_falls_silent_in_between_is_broken_not_well() -> None:
    client = Scripted()
    client.silent = no_answer()
    found = calls_of(make_cluster(seen_at=ago(900)), client)
    assert found[WORDS[Operation.PARTITIONS]].state is State.BROKEN


@pytest.mark.django_db
def test_slow_answers_do_not_outlast_the_lease(settings: Settings) -> None:
    client, clock = Scripted(), iter(NOW + timedelta(seconds=10 * n) for n in range(10_000))
    found = by_what(list(examine_calls(make_cluster(seen_at=None), client, clock=lambda: next(clock))))
    assert len(client.asked) < 6
    assert len(found) == len(Operation) + 1
    assert "took too long" in found[WORDS[Operation.RESERVATIONS]].detail


@pytest.mark.django_db
def test_attempts_that_are_refused_lead_to_what_is_said_of_accounting() -> None:
    cluster = make_cluster()
    make_job(run=make_run(cluster=cluster), job_id="1")
    result = calls_of(cluster, Scripted())[WORDS[Operation.ATTEMPTS]]
    assert result.state is State.ATTENTION
    assert "accounting" in result.remedy
