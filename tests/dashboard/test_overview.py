from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from recovery.core.lifecycle import IncidentState
from recovery.core.types import JobState, NodeState, Phase
from recovery.models import Cluster, Job
from tests.dashboard.conftest import HTMX, Question, make_question, text_of
from tests.factories import (
    ago,
    make_attempt,
    make_cluster,
    make_incident,
    make_job,
    make_node,
    make_policy,
    make_recommendation,
    make_run,
)

pytestmark = pytest.mark.django_db
Read = Callable[[str], str]
S = IncidentState


def section(page: str, title: str) -> str:
    """The part of the page below that heading."""
    return page.split(f'id="{title}-title"')[1].split("</section>")[0]


def test_an_empty_installation_says_what_would_be_here(read: Read) -> None:
    page = read("/")
    assert "No cluster is configured yet." in page
    assert "Nothing needs you." in page
    assert "No job is running." in page
    assert "make demo" in page
    assert "Every running attempt can be observed." in page


def test_the_headline_says_how_many_and_what_waiting_costs(read: Read) -> None:
    make_question()
    make_question()
    assert "<h1>2 incidents need a person. 128 GPUs idle: 2.1 GPU-hours a minute.</h1>" in read("/")


def test_what_another_cluster_has_stands_idle_nowhere(read: Read) -> None:
    question = make_question()
    Job.objects.filter(attempts__incidents=question.incident).update(state=JobState.REVOKED)
    assert "<h1>1 incident needs a person.</h1>" in read("/")


def test_the_headline_is_calm_when_nothing_needs_anybody(read: Read) -> None:
    make_incident(state=S.WATCHING)
    assert "<h1>Nothing needs you. 1 incident open, being followed.</h1>" in read("/")


@pytest.mark.parametrize(
    ("clusters", "why"),
    [
        ([{"error": "no answer"}, {}], "no live picture of lab-a"),
        ([{"error": "no answer"}, {"seen_at": ago(3600)}, {}], "no live picture of 2 of 3 clusters"),
        ([{"error": "no answer"}, {"seen_at": None}, {"enabled": False}], "no live picture of 2 of 2 clusters"),
        ([{"enabled": False}], "every cluster is switched off"),
    ],
)
def test_where_a_cluster_is_not_seen_nothing_is_only_known_not_to_need_anybody(
    clusters: list[dict[str, object]], why: str, read: Read
) -> None:
    for letter, fields in zip("abc", clusters, strict=False):
        make_cluster(name=f"lab-{letter}", **fields)
    page = read("/")
    assert f"<h1>Nothing is known to need you: {why}.</h1>" in page
    assert f"Nothing is known to be blind: {why}." in section(page, "blind")
    assert "No job is known to run." in section(page, "running")
    assert "Nothing needs you." not in page


def test_the_headline_tells_of_silent_clusters_beside_what_needs_a_person(read: Read) -> None:
    make_question(cluster=make_cluster(name="alpha", error="no answer"))
    assert "GPU-hours a minute. No live picture of alpha.</h1>" in read("/")


def test_the_dearest_wait_comes_first_then_the_longest(read: Read) -> None:
    for name, idle, since in [("cheap", 8, 900), ("dear", 512, 60), ("older", 8, 5000)]:
        incident = make_incident(headline=f"{name}.", detected_at=ago(since))
        make_recommendation(incident=incident, gpus_idle=idle)
    needs = section(read("/"), "needs")
    assert needs.index("dear.") < needs.index("older.") < needs.index("cheap.")


def test_what_needs_a_person_is_told_apart_from_what_is_followed(read: Read) -> None:
    make_incident(state=S.NEEDS_PERSON, headline="from scratch.", alarm="Stop the job.")
    make_incident(state=S.RESTORING, headline="restoring.")
    make_incident(state=S.CLOSED, headline="over.")
    page = read("/")
    assert "Stop the job." in section(page, "needs")
    assert "restoring." in section(page, "following")
    assert "over." not in page


def test_what_runs_shows_phase_step_and_age_of_progress(read: Read) -> None:
    make_attempt(job=make_job(run=make_run(name="esm-3b")), phase=Phase.SAVING, last_step=12_480)
    make_attempt(state=JobState.PENDING, started_at=None)
    running = section(read("/"), "running")
    assert "esm-3b" in running
    assert "Saving" in running
    assert "12\u202f480" in running
    assert 'data-as="age"' in running
    assert running.count("data-href") == 1


def test_what_runs_and_what_is_blind_names_its_cluster_where_there_are_several(read: Read) -> None:
    alpha = make_cluster(name="alpha")
    make_attempt(job=make_job(run=make_run(cluster=alpha, user="mira")), blind_reason="The log can't be read.")
    make_attempt(job=make_job(run=make_run(cluster=alpha), vanished_at=ago(60)))
    assert " on alpha" not in read("/")
    make_cluster(name="beta")
    page = read("/")
    assert section(page, "running").count(" on alpha") == 2
    assert section(page, "blind").count(" on alpha") == 2


def test_a_cluster_that_is_switched_off_is_quiet_unless_it_is_chosen(as_viewer: Client) -> None:
    off = make_cluster(name="beta", enabled=False)
    make_attempt(job=make_job(run=make_run(cluster=off, name="old-run")), blind_reason="The log can't be read.")
    make_attempt(job=make_job(run=make_run(cluster=off, name="lost-run"), vanished_at=ago(60)))
    make_cluster(name="alpha")
    page = text_of(as_viewer.get("/"))
    assert "<h1>Nothing needs you.</h1>" in page
    for part in ("running", "blind", "pictures"):
        assert not any(word in section(page, part) for word in ("old-run", "lost-run", ">beta<"))
    assert "clusters that are switched off are not listed here" in section(page, "running")
    assert "Switched off" in text_of(as_viewer.get("/clusters/"))
    choose(as_viewer, cluster="beta")
    page = text_of(as_viewer.get("/"))
    assert "old-run" in section(page, "running")
    assert "nothing asks it" in section(page, "pictures")
    assert "tone-muted" in section(page, "pictures")
    assert "tone-warning" not in section(page, "pictures")


def test_where_every_cluster_is_switched_off_their_page_is_named(read: Read) -> None:
    make_cluster(enabled=False)
    assert 'Every cluster is switched off. <a href="/clusters/">' in section(read("/"), "pictures")


def test_of_a_cluster_that_was_never_seen_nothing_is_counted(read: Read) -> None:
    cluster = make_cluster(seen_at=None, tried_at=None)
    pictures = section(read("/"), "pictures")
    assert "check that a worker and beat are running" in pictures
    assert "jobs and nodes unknown" in pictures
    for path in ("/", "/clusters/", f"/clusters/{cluster.pk}/"):
        page = read(path)
        assert "unknown" in page
        assert "0 of 0" not in page
        assert "0 running" not in page


def test_an_attempt_that_hangs_is_not_called_training(read: Read) -> None:
    attempt = make_attempt(phase=Phase.TRAINING)
    incident = make_incident(attempt=attempt, kind="hang")
    running = section(read("/"), "running")
    assert "Training" not in running
    assert "Hang" in running
    assert f"/incidents/{incident.pk}/" in running


def test_no_step_yet_is_said_and_not_a_dash(read: Read) -> None:
    make_attempt(phase=Phase.FIRST_STEP, last_step=None, last_progress_at=None)
    assert section(read("/"), "running").count("none yet") == 2


def test_what_is_blind_has_its_reason_and_remedy(read: Read) -> None:
    make_attempt(blind_reason="The log can't be read.", blind_remedy="Let the workers' group read it.")
    page = read("/")
    assert "The log can&#x27;t be read." in section(page, "blind")
    assert "Let the workers&#x27; group read it." in section(page, "blind")
    assert "Blind" in section(page, "running")  # and is not called training there


def test_a_job_that_the_scheduler_forgot_is_unknown_and_shown(read: Read) -> None:
    make_attempt(job=make_job(vanished_at=ago(60)))
    assert "how it ended is unknown" in section(read("/"), "blind")


@pytest.mark.parametrize(
    ("fields", "word", "cause"),
    [
        ({}, "Live", ""),
        ({"seen_at": ago(3600)}, "Stale", "Nobody asked the scheduler lately"),
        ({"error": "squeue: no answer within 10 s"}, "No answer", "squeue: no answer within 10 s"),
    ],
)
def test_the_age_of_each_picture_is_said_with_its_cause(
    fields: dict[str, object], word: str, cause: str, read: Read
) -> None:
    cluster = make_cluster(**fields)
    make_node(cluster=cluster, state=NodeState.DOWN)
    make_node(cluster=cluster)
    pictures = section(read("/"), "pictures")
    assert word in pictures
    assert cause in pictures
    assert "1 of 2 nodes up" in pictures


def test_the_worst_picture_stands_in_the_top_bar(read: Read) -> None:
    make_cluster(name="good")
    make_cluster(name="bad", error="no answer")
    top = read("/").split('id="picture-state"')[1].split("</summary>")[0]
    assert "No answer" in top
    assert "bad" in top


def test_the_top_bar_counts_the_silent_clusters_of_those_that_are_asked(read: Read) -> None:
    make_cluster()
    for _ in range(2):
        make_cluster(error="no answer")
        make_cluster(enabled=False)
    top = read("/").split('id="picture-state"')[1].split("</summary>")[0]
    assert "No answer" in top
    assert "2 of 3 clusters" in top
    assert "2 not live" in top


@pytest.mark.parametrize("part", ["head", "needs", "following", "running", "pictures", "blind"])
def test_each_part_can_be_had_alone(part: str, as_viewer: Client, question: Question) -> None:
    response = as_viewer.get("/", {"part": part}, headers=HTMX)
    assert response.status_code == 200
    assert "<html" not in text_of(response)


# --- the shell


def automation(page: str) -> str:
    return page.split('id="automation-state"')[1].split("</summary>")[0]


@pytest.mark.parametrize(
    ("rules", "word"),
    [
        ({"rules": [], "default": {"mode": "observe"}}, "Observing"),
        ({"rules": [{"classes": ["numerics"], "mode": "approve"}], "default": {"mode": "observe"}}, "Asking"),
        ({"rules": [{"classes": ["numerics"], "mode": "auto"}], "default": {"mode": "observe"}}, "Automatic"),
        ({"rules": [], "default": {"mode": "auto"}}, "Automatic"),
    ],
)
def test_the_top_bar_says_how_far_automation_goes(rules: dict[str, object], word: str, read: Read) -> None:
    make_cluster()
    make_policy(rules=rules)
    assert word in automation(read("/"))


def test_without_a_policy_the_top_bar_says_observing(read: Read) -> None:
    assert "Observing" in automation(read("/"))


def test_a_pause_says_who_and_why_on_every_page(read: Read) -> None:
    make_policy(rules={"rules": [], "default": {"mode": "auto"}})
    make_cluster(name="alpha", paused_at=ago(60), paused_by="mira", paused_reason="fabric work")
    for path in ("/", "/nodes/", "/audit/"):
        page = read(path)
        assert "Paused" in automation(page)
        assert "alpha by mira: fabric work" in page


def test_the_rail_counts_what_needs_a_person(read: Read) -> None:
    make_question()
    make_incident(state=S.WATCHING)
    assert 'class="count" title="Incidents that need a person">1<' in read("/nodes/")


def test_the_live_parts_of_the_shell_come_together(as_viewer: Client, question: Question) -> None:
    part = text_of(as_viewer.get("/shell/", headers=HTMX))
    for name in ("needs-person", "automation-state", "picture-state", "picture-menu"):
        assert f'id="{name}" hx-swap-oob="morph"' in part


def test_a_page_names_the_newest_event_that_it_was_made_from(read: Read) -> None:
    assert 'data-live-url="/live/?after=0"' in read("/")


def choose(client: Client, **fields: str) -> str:
    response = client.post("/preferences/", {"next": "/incidents/", **fields})
    assert response.status_code == 302
    return str(response.headers["Location"])


def test_the_chosen_cluster_filters_every_page(as_viewer: Client) -> None:
    make_question(cluster=make_cluster(name="alpha"), headline="on alpha.")
    make_question(cluster=make_cluster(name="beta"), headline="on beta.")
    assert choose(as_viewer, cluster="alpha") == "/incidents/"
    for path in ("/", "/incidents/", "/approvals/"):
        page = text_of(as_viewer.get(path))
        assert "on alpha." in page
        assert "on beta." not in page
    choose(as_viewer, cluster="")
    assert "on beta." in text_of(as_viewer.get("/"))


def test_a_cluster_that_is_gone_is_no_filter(as_viewer: Client) -> None:
    make_question(cluster=make_cluster(name="alpha"), headline="on alpha.")
    choose(as_viewer, cluster="no-such-cluster")
    assert "on alpha." in text_of(as_viewer.get("/"))
    choose(as_viewer, cluster="alpha")
    Cluster.objects.filter(name="alpha").update(name="renamed")
    assert "on alpha." in text_of(as_viewer.get("/"))


@pytest.mark.parametrize(
    "elsewhere", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "", "/\\evil.example"]
)
def test_preferences_lead_back_to_our_own_pages_only(elsewhere: str, as_viewer: Client) -> None:
    assert choose(as_viewer, cluster="", next=elsewhere) == "/"


def test_the_theme_is_kept_and_a_wrong_one_is_not(as_viewer: Client) -> None:
    choose(as_viewer, theme="dark")
    assert 'data-theme="dark"' in text_of(as_viewer.get("/"))
    choose(as_viewer, theme='"><script>')
    assert 'data-theme="dark"' in text_of(as_viewer.get("/"))
    as_viewer.cookies["theme"] = "neon"
    assert 'data-theme="auto"' in text_of(as_viewer.get("/"))
