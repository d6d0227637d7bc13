from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from dashboard.reads.runs import LOGS
from recovery.core.lifecycle import IncidentState
from recovery.core.types import CheckpointState, JobState, NodeState, Phase
from recovery.models import NodeEvent, Outlook, Run
from tests.dashboard.conftest import HTMX, Question, text_of
from tests.factories import (
    ago,
    make_attempt,
    make_checkpoint,
    make_cluster,
    make_incident,
    make_job,
    make_log_file,
    make_node,
    make_run,
)

pytestmark = pytest.mark.django_db
Read = Callable[[str], str]


# --- runs


def test_active_runs_are_those_that_run_wait_or_have_an_open_incident(read: Read) -> None:
    make_attempt(job=make_job(run=make_run(name="runs-now")))
    make_attempt(job=make_job(run=make_run(name="waits-now"), state=JobState.PENDING), state=JobState.PENDING)
    make_attempt(job=make_job(run=make_run(name="is-over"), state=JobState.COMPLETED), state=JobState.COMPLETED)
    failed = make_attempt(job=make_job(run=make_run(name="has-failed"), state=JobState.FAILED), state=JobState.FAILED)
    make_incident(attempt=failed)
    page = read("/runs/")
    assert all(name in page for name in ("runs-now", "waits-now", "has-failed"))
    assert "is-over" not in page
    assert "is-over" in read("/runs/?show=all")
    assert "is-over" not in read("/runs/?show=nonsense")


def test_a_run_shows_where_it_stands(read: Read) -> None:
    run = make_run(name="esm-3b")
    make_attempt(job=make_job(run=run), phase=Phase.EVALUATING, last_step=900)
    make_checkpoint(run=run, step=840)
    make_checkpoint(run=run, step=880, state=CheckpointState.TORN)
    page = read("/runs/")
    assert "Evaluating" in page
    assert ">900<" in page
    assert ">840<" in page
    assert ">880<" not in page  # only a complete one counts


@pytest.mark.parametrize(("show", "said"), [("active", "No run is active."), ("all", "make demo")])
def test_an_empty_list_of_runs_says_what_would_be_here(show: str, said: str, read: Read) -> None:
    assert said in read(f"/runs/?show={show}")


def test_a_run_shows_its_attempts_over_all_its_jobs(read: Read) -> None:
    run = make_run()
    first = make_job(run=run, state=JobState.CANCELLED, first_submitted_at=ago(9000))
    make_attempt(job=first, state=JobState.CANCELLED, cancelled_by="mira", submitted_at=ago(9000))
    second = make_job(run=run)
    make_attempt(job=second, restored_step=840)
    make_attempt(job=second, number=1, fresh_start=True, submitted_at=ago(10))
    page = read(f"/runs/{run.pk}/")
    assert "by mira" in page
    assert ">840<" in page
    assert "from scratch" in page
    assert page.count(f"/jobs/{second.pk}/") >= 2


def test_a_blind_attempt_is_called_neither_healthy_nor_hung(read: Read) -> None:
    attempt = make_attempt(blind_reason="No progress format matched.", blind_remedy="Name the log in the comment.")
    page = read(f"/runs/{attempt.job.run_id}/")
    assert "Blind: No progress format matched." in page
    assert "Name the log in the comment." in page
    assert "neither healthy nor hung" in page


def test_a_broken_comment_is_shown_to_its_owner(read: Read) -> None:
    attempt = make_attempt(job=make_job(comment="{broken", comment_error="It counts as absent. It is no JSON."))
    page = read(f"/jobs/{attempt.job_id}/")
    assert "The job's comment has a mistake.</strong> It counts as absent. It is no JSON." in page
    assert "{broken" in page


def test_a_vanished_job_says_that_its_end_is_unknown(read: Read) -> None:
    attempt = make_attempt(job=make_job(vanished_at=ago(60)))
    assert "The scheduler stopped knowing the job" in read(f"/jobs/{attempt.job_id}/")


def test_an_open_incident_stands_on_top_of_its_run(read: Read, question: Question) -> None:
    page = read(f"/runs/{question.incident.run_id}/")
    assert page.index(question.incident.headline) < page.index('class="chart"')
    assert "Needs a decision" in page


def test_checkpoints_say_what_would_be_restored_and_why_others_would_not(read: Read) -> None:
    run = make_run()
    make_attempt(job=make_job(run=run))
    make_checkpoint(run=run, step=800)
    make_checkpoint(run=run, step=840)
    make_checkpoint(run=run, step=880, state=CheckpointState.TORN, detail="rank 3's shard is empty", size_bytes=None)
    rows = read(f"/runs/{run.pk}/").split('id="checkpoints-title"')[1].split("<tr")[2:]
    assert [("would be restored" in row) for row in rows[:3]] == [False, True, False]
    assert "rank 3&#x27;s shard is empty" in rows[0]
    assert "unknown" in rows[0]


def test_what_threatens_the_next_checkpoint_stands_on_top_of_the_run(read: Read) -> None:
    run = make_run()
    make_attempt(job=make_job(run=run))
    make_checkpoint(run=run, step=800)
    warning, soon = "The next save needs 210 GB, 80 GB are free.", timezone.now() + timedelta(minutes=5)
    outlook = Outlook.objects.create(
        run=run, next_step=840, next_at=soon, needs_bytes=210_000_000_000, free_bytes=80_000_000_000, keeps=2,
        space_warning=warning, space_remedy="Make room.", rotation_warning="Step 800 is the last.", checked_at=ago(3),
    )  # fmt: skip
    page = read(f"/runs/{run.pk}/")
    assert warning in page.split('id="checkpoints-title"')[0]
    assert "Make room." in page
    assert "Step 800 is the last." in page
    assert "Next save expected: step 840" in page
    assert "Rotation keeps 2." in page
    assert warning in read("/runs/")
    overview = read("/")
    assert warning in overview.split("<h1>")[0]
    assert "Checkpoints of 1 run are in danger." in overview
    outlook.delete()
    assert "Nothing needs you." in read("/")
    assert "Next save expected" not in read(f"/runs/{run.pk}/")


def test_a_run_without_checkpoints_says_where_they_are_looked_for(read: Read) -> None:
    run = make_run(checkpoint_dir="/ckpt/llama")
    page = f"/runs/{run.pk}/"
    assert "It was not looked into yet." in read(page)
    attempt = make_attempt(job=make_job(run=run), read_at=ago(1))
    assert 'We look in <span class="mono">/ckpt/llama</span>. It has none so far.' in read(page)
    attempt.places = {"folder": "/ckpt/llama lies outside. Add it to RECOVERY_CHECKPOINT_ROOTS."}
    attempt.save(update_fields=["places"])
    assert "/ckpt/llama</span>. /ckpt/llama lies outside. Add it to RECOVERY_CHECKPOINT_ROOTS." in read(page)
    assert "none so far" not in read(page)
    assert "checkpoint_dir" in read(f"/runs/{make_run(checkpoint_dir='').pk}/")


def test_a_job_shows_the_schedulers_word_and_how_old_it_is(read: Read) -> None:
    job = make_job(state=JobState.PENDING, state_reason="BeginTime", excluded_nodes=["gpu-17"], requeueable=False)
    make_log_file(attempt=make_attempt(job=job, state=JobState.PENDING), error="Permission denied.")
    page = read(f"/jobs/{job.pk}/")
    assert "Slurm says" in page
    assert "BeginTime" in page
    assert "gpu-17" in page
    assert "--no-requeue" in page
    assert "Permission denied." in page


@pytest.mark.parametrize(("listed", "seen"), [(True, "seen 3 s ago"), (False, "seen 20 m ago")])
def test_a_job_whose_record_is_the_same_for_long_was_seen_with_the_last_picture(
    read: Read, listed: bool, seen: str
) -> None:
    cluster = make_cluster(seen_at=ago(3))
    job = make_job(run=make_run(cluster=cluster), state=JobState.RUNNING, seen_at=ago(1200), listed=listed)
    make_attempt(job=job)
    assert seen in " ".join(strip_tags(read(f"/jobs/{job.pk}/")).split())


@pytest.mark.parametrize("path", ["/runs/999/", "/jobs/999/", "/runs/999/chart.json", "/jobs/999/chart.json"])
def test_what_never_was_is_not_found(path: str, as_viewer: Client) -> None:
    assert as_viewer.get(path).status_code == 404


@pytest.mark.parametrize("part", ["head", "attempts", "cases", "checkpoints"])
def test_each_part_of_a_run_can_be_had_alone(part: str, as_viewer: Client, question: Question) -> None:
    response = as_viewer.get(f"/runs/{question.incident.run_id}/", {"part": part}, headers=HTMX)
    assert response.status_code == 200
    assert "<html" not in text_of(response)


def test_a_long_list_of_runs_is_paged(read: Read) -> None:
    cluster = make_cluster()
    Run.objects.bulk_create(
        Run(cluster=cluster, key=f"k{i}", name=f"run {i}", user="mira", created_at=timezone.now() - timedelta(days=i))
        for i in range(51)
    )
    assert "1–50 of 51" in read("/runs/?show=all")


# --- nodes


def test_nodes_with_a_trouble_come_first(read: Read) -> None:
    cluster = make_cluster()
    for name, state in [("gpu-01", "up"), ("gpu-02", "drained"), ("gpu-03", "down"), ("gpu-04", "draining")]:
        make_node(cluster=cluster, name=name, state=state)
    page = read("/nodes/")
    places = [page.index(f">{name}</a></strong>") for name in ("gpu-03", "gpu-02", "gpu-04", "gpu-01")]
    assert places == sorted(places)


def test_a_node_shows_state_reason_since_and_what_runs_on_it(read: Read) -> None:
    cluster = make_cluster()
    make_node(
        cluster=cluster, name="gpu-02", state=NodeState.DRAINING, raw_state="MIXED+DRAIN", reason="GPU 3 ECC",
        reason_by="root", reason_at=ago(300),
    )  # fmt: skip
    make_node(cluster=make_cluster(), name="gpu-02")
    run = make_run(cluster=cluster, name="esm-3b")
    make_attempt(job=make_job(run=run), nodes=["gpu-01", "gpu-02"])
    page = read("/nodes/")
    assert "MIXED+DRAIN" in page
    assert "GPU 3 ECC" in page
    assert "root" in page
    assert page.count("esm-3b") == 1  # the node of that name on the other cluster runs nothing


def test_nodes_filter_by_state_and_name(read: Read) -> None:
    cluster = make_cluster()
    make_node(cluster=cluster, name="gpu-01")
    make_node(cluster=cluster, name="gpu-02", state=NodeState.DOWN)
    assert "gpu-01<" not in read("/nodes/?state=down")
    assert "gpu-02<" not in read("/nodes/?name=01")
    assert "No such node." in read("/nodes/?name=zzz")
    assert "gpu-01<" in read("/nodes/?state=nonsense")


def test_the_latest_changes_of_nodes_say_what_when_and_by_whom(read: Read) -> None:
    cluster = make_cluster()
    fields = {"cluster": cluster, "at": ago(300), "seen_at": ago(290)}
    NodeEvent.objects.create(node="gpu-01", old="up", new="down", raw_state="DOWN*", reason="Not responding", **fields)
    NodeEvent.objects.create(node="gpu-02", old="up", new="", **fields)
    page = read("/nodes/")
    assert page.index("<strong>gpu-02<") < page.index("<strong>gpu-01<")
    assert "DOWN*" in page
    assert "Not responding" in page
    assert "no longer listed" in page
    assert "<strong>gpu-02<" not in read("/nodes/?name=01")
    assert "No change was seen of such a node." in read("/nodes/?name=zzz")


@pytest.mark.parametrize("path", ["/nodes/", "/runs/?show=all"])
def test_what_was_seen_long_ago_stays_and_is_marked(path: str, read: Read) -> None:
    cluster = make_cluster(name="alpha", error="squeue: no answer within 10 s")
    make_node(cluster=cluster, name="gpu-01")
    make_run(cluster=cluster, name="esm-3b")
    page = read(path)
    assert "What is shown of <strong>alpha</strong> was seen" in page
    assert "gpu-01" in page or "esm-3b" in page


@pytest.mark.parametrize("path", ["/nodes/", "/runs/"])
def test_of_what_was_never_seen_no_age_is_told(path: str, read: Read) -> None:
    make_cluster(name="alpha", seen_at=None, error="squeue: no answer within 10 s")
    page = read(path)
    assert "<strong>alpha</strong> was never seen, so nothing of it is shown." in page
    assert "was seen <" not in page


def test_without_nodes_the_page_says_how_to_find_out_why(read: Read) -> None:
    assert "python manage.py doctor" in read("/nodes/")


def test_an_incident_in_each_state_is_on_its_runs_page(read: Read) -> None:
    run = make_run()
    attempt = make_attempt(job=make_job(run=run, state=JobState.FAILED), state=JobState.FAILED)
    make_incident(attempt=attempt, state=IncidentState.CLOSED, headline="an old case.")
    assert "an old case." in read(f"/runs/{run.pk}/")
    assert "an old case." in read(f"/jobs/{attempt.job_id}/")


def test_why_the_folder_of_checkpoints_can_not_be_judged_stands_above_them(read: Read) -> None:
    run = make_run()
    make_checkpoint(run=run, step=20)
    make_attempt(job=make_job(run=run), places={"folder": "Its file system may not be mounted."})
    assert '<p class="body">Its file system may not be mounted.</p>' in read(f"/runs/{run.pk}/")


def test_a_checkpoint_by_word_is_shown_where_it_was_said_to_be(read: Read) -> None:
    run = make_run()
    make_checkpoint(run=run, step=20, path="#step-20")
    make_checkpoint(run=run, step=40, path="/ckpt/llama#step-40")
    page = read(f"/runs/{run.pk}/")
    assert "#step-" not in page
    assert '<td class="mono full">not told</td>' in page
    assert '<td class="mono full">/ckpt/llama</td>' in page


def test_files_beside_the_log_are_told_apart_and_all_are_counted(read: Read) -> None:
    attempt = make_attempt()
    page = f"/runs/{attempt.job.run_id}/"
    make_log_file(attempt=attempt, path="/logs/1.out", inode=1, line=1)
    make_log_file(attempt=attempt, path="metrics:/logs/m.csv", grew_at=None, line=0, error="It does not exist.")
    shown = read(page)
    assert 'Log of the newest attempt: <span class="mono">/logs/1.out</span>, 1 line read' in shown
    assert 'Beside its log: <span class="mono">/logs/m.csv</span>, 0 lines read. ' in shown
    assert "metrics:" not in shown
    assert "followed" not in shown
    for rank in range(LOGS):
        make_log_file(attempt=attempt, path=f"/logs/rank{rank}.out", inode=2 + rank)
    assert "2 more are followed" in read(page)
    assert "It does not exist." in read(page)


def test_what_rotation_removed_is_folded_and_what_somebody_removed_is_not(read: Read) -> None:
    run = make_run()
    for step in (20, 40, 60):
        make_checkpoint(run=run, step=step, path=f"/c/step-{step}", state=CheckpointState.MISSING)
    make_checkpoint(run=run, step=80, path="/c/step-80")
    page = read(f"/runs/{run.pk}/")
    shown, _, folded = page.partition("<summary>3 older ones were removed since: step 20 to 60</summary>")
    assert "/c/step-80" in shown
    assert "/c/step-60" not in shown
    assert all(f"/c/step-{step}" in folded for step in (20, 40, 60))
    make_checkpoint(run=run, step=100, path="/c/step-100", state=CheckpointState.MISSING)
    assert "/c/step-100" in read(f"/runs/{run.pk}/").partition("<summary>3 older")[0]
    run.checkpoints.filter(step=80).delete()
    assert "removed since: step" not in read(f"/runs/{run.pk}/")
