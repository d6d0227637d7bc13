"""An old picture is never shown as a fresh one, wherever something of the cluster stands; pages agree on a hang."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from recovery.core.lifecycle import IncidentState
from recovery.core.types import FindingKind, JobState, NodeState, Phase
from recovery.models import Cluster
from tests.dashboard.conftest import HTMX, Question, make_question, text_of
from tests.factories import ago, make_attempt, make_cluster, make_incident, make_job, make_node, make_run

pytestmark = pytest.mark.django_db

# page → its live part, where it has one that shows rows of clusters
PAGES = {
    "/": ("needs", "following", "running"),
    "/incidents/?show=all": ("rows",),
    "/incidents/{incident}/": ("story", "decide"),
    "/approvals/": ("queue",),
    "/runs/?show=all": ("rows",),
    "/runs/{run}/": ("head",),
    "/jobs/{job}/": ("head",),
    "/nodes/": ("rows",),
    "/clusters/": ("rows",),
    "/clusters/{cluster}/": ("head",),
    "/search/?q=llama": (),
    "/admin/": (),
}


@pytest.fixture
def numbers(question: Question) -> dict[str, int]:
    cluster = question.incident.run.cluster
    run = make_run(cluster=cluster, name="llama-7b")
    make_attempt(job=make_job(run=run))
    make_incident(attempt=make_attempt(job=make_job(run=make_run(cluster=cluster))), state=IncidentState.WATCHING)
    make_node(cluster=cluster, state=NodeState.UP)
    return {
        "incident": question.incident.pk,
        "run": question.incident.run_id,
        "job": question.incident.attempt.job_id,
        "cluster": cluster.pk,
    }


def without_shell(page: str) -> str:
    return page[page.index("<main") :]


@pytest.mark.parametrize(
    ("trouble", "word"),
    [
        ({"error": "squeue: no answer within 10 s"}, "No answer"),
        ({"seen_at": ago(600)}, "Stale"),
        ({"enabled": False}, "Switched off"),
    ],
    ids=["no answer", "old", "switched off"],
)
@pytest.mark.parametrize("path", PAGES)
def test_every_page_and_every_part_marks_what_is_old(
    path: str, trouble: dict[str, object], word: str, as_viewer: Client, numbers: dict[str, int]
) -> None:
    address = path.format(**numbers)
    fresh = without_shell(text_of(as_viewer.get(address)))
    Cluster.objects.update(**trouble)
    page = without_shell(text_of(as_viewer.get(address)))
    told = (word, "was seen", "is not live", "that are switched off")
    assert any(each in page and each not in fresh for each in told)
    for part in PAGES[path]:
        html = text_of(as_viewer.get(address, {"part": part}, headers=HTMX))
        assert any(each in html for each in told), part


def test_of_two_clusters_only_the_rows_of_the_silent_one_are_marked(read: Callable[[str], str]) -> None:
    make_attempt(job=make_job(run=make_run(cluster=make_cluster(name="alpha"), name="fresh-run")))
    silent = make_cluster(name="beta", error="squeue: no answer within 10 s")
    make_attempt(job=make_job(run=make_run(cluster=silent, name="old-run")))
    rows = {name: row for row in read("/runs/").split("<tr") for name in ("fresh-run", "old-run") if name in row}
    assert "No answer" in rows["old-run"]
    assert "No answer" not in rows["fresh-run"]


@pytest.mark.parametrize("path", ["/", "/runs/", "/runs/{run}/", "/jobs/{job}/"])
def test_a_job_whose_incident_says_hang_is_nowhere_called_training(path: str, read: Callable[[str], str]) -> None:
    attempt = make_attempt()
    address = path.format(run=attempt.job.run_id, job=attempt.job_id)
    assert ">Training" in read(address).replace("</span>Training", ">Training")
    make_incident(attempt=attempt, kind=FindingKind.HANG, state=IncidentState.WATCHING)
    page = read(address)
    assert "</span>Hang" in page
    assert "</span>Training" not in page


def test_a_restarted_run_trains_although_its_incident_is_open(read: Callable[[str], str]) -> None:
    attempt = make_attempt()
    make_incident(attempt=attempt, kind=FindingKind.HANG, state=IncidentState.WATCHING)
    make_attempt(job=attempt.job, number=1, submitted_at=ago(0), started_at=ago(0))
    for address in ("/runs/", f"/runs/{attempt.job.run_id}/"):
        page = read(address)
        assert "</span>Training" in page
        assert "</span>Hang" not in page


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("path", ["/", "/runs/", "/runs/{run}/", "/jobs/{job}/"])
def test_a_blind_attempt_is_called_blind_everywhere(path: str, hangs: bool, read: Callable[[str], str]) -> None:
    attempt = make_attempt(blind_reason="The log can't be read.", phase=Phase.STARTING)
    if hangs:
        make_incident(attempt=attempt, kind=FindingKind.HANG, state=IncidentState.WATCHING)
    page = read(path.format(run=attempt.job.run_id, job=attempt.job_id))
    assert "</span>Starting" not in page
    assert "</span>Hang" not in page
    assert "</span>Blind" in page


def test_an_attempt_that_ended_blind_is_called_as_slurm_says(read: Callable[[str], str]) -> None:
    attempt = make_attempt(blind_reason="The log can't be read.", state=JobState.FAILED)
    page = read(f"/runs/{attempt.job.run_id}/")
    assert "</span>Blind" not in page
    assert "</span>Failed" in page


def test_nothing_is_offered_to_be_decided_on_a_cluster_that_is_switched_off(as_approver: Client) -> None:
    question = make_question()
    Cluster.objects.update(enabled=False)
    assert 'type="submit" disabled' in text_of(as_approver.get(question.page))
    answer = as_approver.post(question.approve, {"hash": question.recommendation.hash}, headers=HTMX)
    assert answer.status_code == 409
    assert question.state == "awaiting_decision"


def test_a_list_invites_to_decide_only_where_something_can_be_decided(as_approver: Client, question: Question) -> None:
    assert ">Decide</a>" in text_of(as_approver.get("/"))
    assert "Approve: requeue without gpu-02" in text_of(as_approver.get("/approvals/"))
    Cluster.objects.update(error="squeue: no answer within 10 s")
    page = text_of(as_approver.get("/"))
    assert ">Decide</a>" not in page
    assert ">Read</a>" in page
    queue = text_of(as_approver.get("/approvals/"))
    assert "Approve: requeue without gpu-02" not in queue
    assert "Nothing can be decided until Slurm answers again." in queue
