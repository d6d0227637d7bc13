"""However many rows a page shows, the number of its queries is the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from recovery.core.lifecycle import ActionState, IncidentState
from recovery.core.types import JobState
from recovery.models import Run
from tests.dashboard.conftest import HTMX, Question, make_question
from tests.factories import (
    make_action,
    make_attempt,
    make_checkpoint,
    make_decision,
    make_event,
    make_examination,
    make_finding,
    make_incident,
    make_job,
    make_log_file,
    make_node,
    make_policy,
    make_recommendation,
    make_samples,
    make_signal,
)

CEILING = 40  # for any page (a run: ledger, phases, what was measured); most need half


def grow(question: Question) -> None:
    """One more of everything that any page shows."""
    incident, run = question.incident, question.incident.run
    cluster = run.cluster
    make_question(cluster=cluster)
    make_incident(state=IncidentState.WATCHING)
    closed = make_incident(
        attempt=make_attempt(job=make_job(run=run), state=JobState.FAILED), state=IncidentState.CLOSED
    )
    done = make_recommendation(incident=closed)
    make_decision(recommendation=done)
    make_action(recommendation=done, state=ActionState.CONVERGED)
    attempt = make_attempt(job=make_job(run=run))
    make_attempt(job=make_job(run=run), blind_reason="The log can't be read.")
    make_samples(attempt=attempt, count=5)
    make_log_file(attempt=attempt)
    make_checkpoint(run=run, step=900 + run.checkpoints.count())
    make_node(cluster=cluster)
    make_examination()
    make_policy()
    make_event(incident=incident)
    make_finding(incident=incident)
    make_signal(attempt=incident.attempt)


PAGES = [
    "/",
    "/incidents/?show=all",
    "/approvals/",
    "/incidents/{incident}/",
    "/runs/?show=all",
    "/runs/{run}/",
    "/runs/{run}/chart.json",
    "/jobs/{job}/",
    "/nodes/",
    "/reports/",
    "/reports/?by=failure_class",
    "/clusters/",
    "/clusters/{cluster}/",
    "/policies/",
    "/audit/",
    "/admin/",
    "/search/?q=llama",
]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_makes_as_many_queries_for_many_rows_as_for_few(
    path: str, as_approver: Client, question: Question
) -> None:
    grow(question)
    address = path.format(
        incident=question.incident.pk,
        run=question.incident.run_id,
        job=question.incident.attempt.job_id,
        cluster=question.incident.run.cluster_id,
    )
    few = queries(lambda: as_approver.get(address))
    for _ in range(4):
        grow(question)
    many = queries(lambda: as_approver.get(address))
    assert many == few
    assert many <= CEILING


def test_a_part_asks_nothing_for_the_shell(as_approver: Client, question: Question) -> None:
    whole = queries(lambda: as_approver.get("/audit/"))
    part = queries(lambda: as_approver.get("/audit/?part=rows", headers=HTMX))
    assert part < whole


def test_a_part_of_a_run_reads_no_samples(as_approver: Client, question: Question) -> None:
    path = f"/runs/{question.incident.run_id}/"
    with CaptureQueriesContext(connection) as caught:
        as_approver.get(path, {"part": "head"}, headers=HTMX)
    assert not [query for query in caught if "recovery_sample" in query["sql"]]


def queries(ask: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as caught:
        ask()
    assert Run.objects.exists()
    return len(caught)
