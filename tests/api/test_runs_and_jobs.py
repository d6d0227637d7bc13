from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from recovery.core.types import CheckpointState, JobState, Phase
from recovery.models import Outlook
from tests.api.conftest import Api
from tests.factories import (
    ago,
    make_attempt,
    make_checkpoint,
    make_cluster,
    make_incident,
    make_job,
    make_log_file,
    make_run,
    make_samples,
)

Ask = Callable[[str], Api]

pytestmark = pytest.mark.django_db


def ids(api: Api, path: str) -> list[int]:
    return [row["id"] for row in api.get(path).rows]


# --- runs


def test_a_run_tells_where_it_stands(api: Ask) -> None:
    incident = make_incident()
    run = incident.run
    make_checkpoint(run=run, step=840)
    body = api("viewer").get(f"runs/{run.pk}").body
    assert (body["name"], body["user"], body["cluster"]["name"]) == (run.name, "mira", run.cluster.name)
    assert (body["state"], body["last_step"], body["checkpoint_step"]) == ("failed", 852, 840)
    assert body["open_incident_id"] == incident.pk


def test_a_run_that_nothing_is_known_of(api: Ask) -> None:
    body = api("viewer").get(f"runs/{make_run().pk}").body
    assert [body[name] for name in ("state", "phase", "last_step", "checkpoint_step", "open_incident_id")] == [None] * 5


def test_runs_can_be_chosen(api: Ask) -> None:
    alps = make_run(cluster=make_cluster(name="alps"), name="vit", user="noor")
    make_attempt(job=make_job(run=alps))
    failed = make_incident().run
    viewer = api("viewer")
    for query in ("cluster=alps", "name=vit", "user=noor", "state=running", "open_incident=false"):
        assert ids(viewer, f"runs?{query}") == [alps.pk], query
    assert ids(viewer, "runs?open_incident=true") == [failed.pk]
    assert set(ids(viewer, "runs?state=running&state=failed")) == {alps.pk, failed.pk}


# --- jobs


def test_a_job_tells_what_slurm_said_and_when(api: Ask) -> None:
    job = make_job(state_reason="NonZeroExitCode", held=True, excluded_nodes=["gpu-02"], options={"mode": "auto"})
    attempt = make_attempt(job=job)
    body = api("viewer").get(f"jobs/{job.pk}").body
    assert (body["id"], body["job_id"]) == (job.pk, job.job_id)
    assert (body["state"], body["state_reason"], body["held"]) == ("running", "NonZeroExitCode", True)
    assert (body["excluded_nodes"], body["options"], body["gpus"]) == (["gpu-02"], {"mode": "auto"}, 64)
    assert body["attempts"] == [attempt.pk]
    assert body["seen_at"]


def test_a_job_of_unknown_state_tells_since_when_and_why(api: Ask) -> None:
    job = make_job(state="unknown", vanished_at=ago(60), unknown_reason="Slurm no longer lists it.", features="h100")
    body = api("viewer").get(f"jobs/{job.pk}").body
    assert (body["state"], body["unknown_reason"], body["features"]) == ("unknown", "Slurm no longer lists it.", "h100")
    assert body["vanished_at"]


def test_a_reused_job_id_names_two_jobs(api: Ask) -> None:
    run = make_run()
    old = make_job(run=run, job_id="4711", first_submitted_at=ago(900_000))
    new = make_job(run=run, job_id="4711")
    assert ids(api("viewer"), "jobs?job_id=4711") == [new.pk, old.pk]


def test_jobs_can_be_chosen(api: Ask) -> None:
    wanted = make_job(run=make_run(cluster=make_cluster(name="alps"), user="noor"), state=JobState.PENDING)
    make_job()
    viewer = api("viewer")
    for query in ("state=pending", "cluster=alps", f"run={wanted.run_id}", "user=noor"):
        assert ids(viewer, f"jobs?{query}") == [wanted.pk], query


# --- attempts


def test_an_attempt_tells_what_was_seen_and_what_was_read(api: Ask) -> None:
    log = make_log_file(error="permission denied")
    body = api("viewer").get(f"attempts/{log.attempt_id}").body
    assert (body["state"], body["phase"], body["last_step"]) == ("running", "training", 852)
    assert body["job"]["job_id"] == log.attempt.job.job_id
    assert body["logs"] == [
        {
            "path": log.path,
            "offset": 120_000,
            "line": 1841,
            "grew_at": body["logs"][0]["grew_at"],
            "error": "permission denied",
        }
    ]


def test_blind_is_told_with_reason_and_remedy(api: Ask) -> None:
    words: dict[str, Any] = {"blind_reason": "The log can't be read.", "blind_remedy": "Give our account read access."}
    blind = make_attempt(**words)
    over = make_attempt(state=JobState.FAILED, **words)
    well = make_attempt()
    viewer = api("viewer")
    body = viewer.get(f"attempts/{blind.pk}").body
    assert (body["blind"], body["blind_reason"], body["blind_remedy"]) == (True, *words.values())
    assert viewer.get(f"attempts/{over.pk}").body["blind"] is False
    assert ids(viewer, "attempts?blind=true") == [blind.pk]
    assert set(ids(viewer, "attempts?blind=false")) == {over.pk, well.pk}


def test_attempts_can_be_chosen(api: Ask) -> None:
    run = make_run(cluster=make_cluster(name="alps"))
    wanted = make_attempt(job=make_job(run=run), phase=Phase.SAVING, state=JobState.COMPLETING)
    make_attempt()
    viewer = api("viewer")
    for query in ("state=completing", "phase=saving", f"job={wanted.job_id}", f"run={run.pk}", "cluster=alps"):
        assert ids(viewer, f"attempts?{query}") == [wanted.pk], query


# --- checkpoints


def test_checkpoints_come_by_step_with_their_state(api: Ask) -> None:
    run = make_run()
    torn = make_checkpoint(run=run, step=860, state=CheckpointState.TORN, detail="a shard is missing")
    complete = make_checkpoint(run=run, step=840)
    make_checkpoint()
    viewer = api("viewer")
    assert ids(viewer, f"checkpoints?run={run.pk}") == [complete.pk, torn.pk]
    assert ids(viewer, "checkpoints?state=torn") == [torn.pk]
    [row] = viewer.get("checkpoints?state=torn").rows
    assert (row["detail"], row["completed_at"], row["run"]["id"]) == ("a shard is missing", None, run.pk)


# --- samples


def test_samples_of_an_attempt_and_of_its_run(api: Ask) -> None:
    attempt = make_attempt()
    make_samples(attempt=attempt, count=3)
    for path in (f"attempts/{attempt.pk}/samples", f"runs/{attempt.job.run_id}/samples"):
        rows = api("viewer").get(path).body
        assert [(row["attempt_id"], row["rank"], row["step"]) for row in rows] == [
            (attempt.pk, -1, step) for step in (1, 2, 3)
        ]
        assert rows[0]["throughput"] == 410.0


def test_samples_are_thinned_to_what_is_asked_for(api: Ask) -> None:
    attempt = make_attempt()
    samples = make_samples(attempt=attempt, count=100)
    path = f"attempts/{attempt.pk}/samples"
    viewer = api("viewer")
    assert len(viewer.get(f"{path}?max_points=10").body) <= 10
    since, until = quote(samples[10].at.isoformat()), quote(samples[12].at.isoformat())
    assert [row["step"] for row in viewer.get(f"{path}?since={since}&until={until}").body] == [11, 12, 13]
    assert viewer.get(f"{path}?rank=5").body == []


def test_a_loss_that_is_no_number_is_null(api: Ask) -> None:
    attempt = make_attempt()
    make_samples(attempt=attempt, count=1, loss=float("inf"), throughput=None)
    [row] = api("viewer").get(f"attempts/{attempt.pk}/samples").body
    assert (row["loss"], row["throughput"]) == (None, None)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("max_points=1", "max_points"),
        ("max_points=5001", "max_points"),
        ("max_points=all", "max_points"),
        ("rank=-2", "rank"),
        ("rank=99999999999999999999", "rank"),
        ("since=yesterday", "since"),
        ("points=5", "points"),
    ],
)
@pytest.mark.parametrize("noun", ["attempts", "runs"])
def test_a_wrong_wish_is_refused_by_name(api: Ask, noun: str, query: str, field: str) -> None:
    attempt = make_attempt()
    pk = attempt.pk if noun == "attempts" else attempt.job.run_id
    answer = api("viewer").get(f"{noun}/{pk}/samples?{query}")
    assert (answer.status, list(answer.error["fields"])) == (400, [field])


# --- all of them


@pytest.mark.parametrize(
    ("path", "noun"),
    [
        ("runs/404", "run"),
        ("runs/404/samples", "run"),
        ("jobs/404", "job"),
        ("attempts/404", "attempt"),
        ("attempts/404/samples", "attempt"),
    ],
)
def test_what_is_not_there_is_said_by_name(api: Ask, path: str, noun: str) -> None:
    answer = api("viewer").get(path)
    assert (answer.status, answer.error["message"]) == (404, f"There is no {noun} 404.")


@pytest.mark.parametrize("path", ["runs", "jobs", "attempts", "attempts?blind=true", "checkpoints", "clusters"])
def test_a_longer_list_needs_no_more_queries(api: Ask, path: str, django_assert_max_num_queries: Any) -> None:
    def fill() -> None:
        attempt = make_attempt(blind_reason="the log can't be read")
        make_checkpoint(run=attempt.job.run)

    viewer = api("viewer")
    fill()
    with django_assert_max_num_queries(10) as few:
        viewer.get(path)
    for _ in range(4):
        fill()
    with django_assert_max_num_queries(len(few)):
        assert len(viewer.get(path).rows) == 5


def test_a_run_tells_what_lies_ahead_of_its_checkpoints(api: Ask) -> None:
    run, other = make_run(), make_run()
    Outlook.objects.create(run=run, needs_bytes=210, keeps=2, space_warning="No room.", checked_at=ago(3))
    rows = {row["id"]: row["outlook"] for row in api("viewer").get("runs").rows}
    assert rows[other.pk] is None
    assert (rows[run.pk]["needs_bytes"], rows[run.pk]["keeps"], rows[run.pk]["space_warning"]) == (210, 2, "No room.")
    assert rows[run.pk]["next_at"] is None
    assert [row["id"] for row in api("viewer").get("runs?warned=true").rows] == [run.pk]
    assert [row["id"] for row in api("viewer").get("runs?warned=false").rows] == [other.pk]
