"""The pages of clusters, and what the doctor found there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from dashboard.templatetags.desk import code_spans, opened
from recovery import tasks
from recovery.access import Actor, Forbidden, Permission
from recovery.core.types import JobState, NodeState
from recovery.doctor import stored
from recovery.doctor.scheduler import requeue_delay
from recovery.models import Cluster, Examination
from recovery.slurm.base import RightsLevel
from tests.dashboard.conftest import text_of
from tests.factories import ago, make_cluster, make_examination, make_job, make_node, make_run
from tests.workshop.scripted import Scripted

pytestmark = pytest.mark.django_db


def now() -> datetime:
    return datetime.now(UTC)


def actor_with(permission: Permission) -> Actor:
    return Actor(kind="user", name="ada", user_id=None, permissions=frozenset({permission}))


def examine(cluster: Cluster, client: Scripted) -> None:
    stored.examine_and_store(cluster.pk, client_for=lambda _: client, clock=now)


# --- what is stored


def test_a_new_cluster_is_due_at_once_and_then_every_few_minutes() -> None:
    cluster = make_cluster()
    assert stored.due(now()) == [cluster.pk]
    examine(cluster, Scripted())
    assert stored.due(now()) == []
    assert stored.due(now() + stored.EVERY) == [cluster.pk]


def test_a_cluster_without_jobs_is_examined_more_often_until_it_has_one() -> None:
    """What can be tried on a job alone waits for the first one, and nobody should wait for minutes after it."""
    cluster = make_cluster()
    examine(cluster, Scripted())
    assert stored.due(now() + stored.WITHOUT_JOBS) == [cluster.pk]
    make_job(run=make_run(cluster=cluster))
    Examination.objects.update(next_look_at=now())
    examine(cluster, Scripted())
    assert stored.due(now() + stored.WITHOUT_JOBS) == []
    assert stored.due(now() + stored.EVERY) == [cluster.pk]


def test_however_often_it_is_asked_for_slurm_is_asked_once() -> None:
    """Each press of the button, and each POST, sends a message of its own."""
    cluster, client = make_cluster(), Scripted()
    for _ in range(20):
        stored.ask_again(cluster, actor=actor_with(Permission.OPERATE), now=now())
    examine(cluster, client)
    once = len(client.asked)
    for _ in range(20):
        examine(cluster, client)
    assert len(client.asked) == once > 0


def test_a_cluster_that_is_switched_off_is_not_examined() -> None:
    make_examination(cluster=make_cluster(enabled=False), next_look_at=ago(10))
    make_cluster(enabled=False)
    assert stored.due(now()) == []


def test_two_workers_examine_a_cluster_once() -> None:
    cluster = make_cluster()
    stored.due(now())
    Examination.objects.update(leased_until=ago(-60))
    client = Scripted()
    examine(cluster, client)
    assert client.asked == []


def test_what_was_found_comes_back_as_it_was_stored() -> None:
    cluster = make_cluster()
    stored.due(now())
    examine(cluster, Scripted(RightsLevel.OPERATOR))
    cluster = Cluster.objects.get(pk=cluster.pk)
    report = stored.report_on(cluster, now=now())
    assert report.at is not None
    assert now() - report.at < timedelta(minutes=1)
    assert report.attention >= 2  # nodes are for administrators
    assert [result.as_json() for result in report.results] == cluster.examination.results


def test_the_tick_wakes_a_worker_for_each_cluster_that_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = make_cluster(next_look_at=None)
    make_examination()
    woken: list[int] = []
    monkeypatch.setattr(tasks.examine_cluster, "apply_async", lambda keys, **_: woken.extend(keys))
    for also_due in (tasks.keep_tables, tasks.keep_audit_chain):
        monkeypatch.setattr(also_due, "apply_async", lambda keys, **_: None)
    tasks.tick()
    assert woken == [cluster.pk]


def test_a_worker_examines_with_the_clusters_own_client(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Scripted()
    monkeypatch.setattr(tasks, "client_of", lambda cluster: client)
    cluster = make_cluster(next_look_at=None)
    stored.due(now())
    tasks.examine_cluster(cluster.pk)
    assert client.asked[0] == "health"
    assert Examination.objects.get().results


def test_without_a_broker_a_press_of_the_button_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(keys: tuple[int], **options: object) -> None:
        raise OSError("Connection refused")

    monkeypatch.setattr(tasks.examine_cluster, "apply_async", away)
    cluster = make_cluster()
    make_examination(cluster=cluster)
    stored.ask_again(cluster, actor=actor_with(Permission.OPERATE), now=now())
    tasks.wake_examination(cluster.pk)
    assert stored.due(now()) == [cluster.pk]


def test_whoever_may_not_operate_asks_for_no_examination() -> None:
    with pytest.raises(Forbidden):
        stored.ask_again(make_cluster(), actor=actor_with(Permission.VIEW), now=now())
    assert not Examination.objects.exists()


# --- the pages


def test_the_list_says_how_fresh_each_picture_is_and_what_is_there(read: Callable[[str], str]) -> None:
    cluster = make_cluster(name="gpu", seen_at=ago(900), error="squeue: no answer within 10 s")
    make_job(run=make_run(cluster=cluster))
    make_job(run=make_run(cluster=cluster), state=JobState.PENDING)
    make_node(cluster=cluster)
    make_node(cluster=cluster, state=NodeState.DOWN)
    make_examination(cluster=cluster)
    page = read("/clusters/")
    for words in ("No answer", "squeue: no answer within 10 s", "1 running, 1 queued", "1 of 2 up", "1 down"):
        assert words in page
    assert "1 broken, 1 to look at." in page


def test_a_page_without_a_cluster_says_how_to_add_one(read: Callable[[str], str]) -> None:
    assert "set_cluster --help" in read("/clusters/")


def test_operators_see_what_was_found_and_viewers_that_something_was(
    as_viewer: Client, clients: dict[str, Client]
) -> None:
    cluster = make_cluster()
    make_examination(cluster=cluster)
    operator = text_of(clients["operator"].get(f"/clusters/{cluster.pk}/"))
    viewer = text_of(as_viewer.get(f"/clusters/{cluster.pk}/"))
    assert "It is broken" in operator
    assert "Mend it." in operator
    assert "Examine now" in operator
    assert "Mend it." not in viewer
    assert "Examine now" not in viewer
    assert "1 broken, 1 to look at." in viewer


def test_a_cluster_that_nobody_examined_yet_says_so(clients: dict[str, Client]) -> None:
    cluster = make_cluster()
    assert "Not examined yet" in text_of(clients["operator"].get(f"/clusters/{cluster.pk}/"))
    assert clients["operator"].get("/clusters/4711/").status_code == 404


def test_a_cluster_that_is_switched_off_is_not_said_to_be_asked(clients: dict[str, Client]) -> None:
    cluster = make_cluster(enabled=False)
    page = text_of(clients["operator"].get(f"/clusters/{cluster.pk}/"))
    assert "switched off is not examined" in page
    assert "Examine now" not in page
    assert "asked every" not in page


def test_examine_now_makes_it_due_and_wakes_a_worker(
    clients: dict[str, Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make_cluster()
    make_examination(cluster=cluster)
    woken: list[int] = []
    monkeypatch.setattr("dashboard.views.clusters.wake_examination", woken.append)
    response = clients["operator"].post(f"/clusters/{cluster.pk}/examine/", follow=True)
    assert "is examined now" in text_of(response)
    assert "Another look is due" in text_of(response)
    assert stored.due(now()) == [cluster.pk]
    assert woken == [cluster.pk]


def test_pages_show_no_option_of_a_cluster(clients: dict[str, Client]) -> None:
    cluster = make_cluster(options={"token": "very-secret-token"})
    stored.due(now())
    examine(cluster, Scripted())
    for path in ("/clusters/", f"/clusters/{cluster.pk}/", "/admin/", "/"):
        assert "very-secret-token" not in text_of(clients["admin"].get(path))


def test_no_page_asks_slurm(clients: dict[str, Client], monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(cluster: Cluster) -> None:
        raise AssertionError("a page asked Slurm")

    monkeypatch.setattr("recovery.tasks.client_of", asked)
    monkeypatch.setattr("recovery.tasks.client_for", asked)
    cluster = make_cluster()
    make_examination(cluster=cluster)
    for path in ("/clusters/", f"/clusters/{cluster.pk}/"):
        assert clients["admin"].get(path).status_code == 200


def test_the_rail_leads_to_the_clusters_and_lights_up_there(read: Callable[[str], str]) -> None:
    cluster = make_cluster()
    assert '<a href="/clusters/">' in read("/nodes/").split('class="rail"')[1].split("</nav>")[0]
    for path in ("/clusters/", f"/clusters/{cluster.pk}/"):
        rail = read(path).split('class="rail"')[1].split("narrow-only")[0]
        assert '<a href="/clusters/" aria-current="page">' in rail
        assert rail.count("aria-current") == 1


def test_a_cluster_says_what_reads_and_what_acts(read: Callable[[str], str]) -> None:
    both = make_cluster(backend="rest", options={"acts_by": "cli"})
    for path in ("/clusters/", f"/clusters/{both.pk}/"):
        assert "slurmrestd to read, Slurm commands to act" in read(path)
    alone = make_cluster(backend="rest", options={})
    assert "<dd>slurmrestd</dd>" in read(f"/clusters/{alone.pk}/")


@pytest.mark.parametrize(
    ("fields", "min_job_age_s", "told"),
    [
        ({"backend": "rest", "options": {}}, None, False),
        ({"backend": "rest", "options": {}}, 300.0, True),  # slurmrestd tells it from v0.0.45 on
        ({"backend": "rest", "options": {"acts_by": "cli"}}, None, True),
        ({"backend": "cli", "options": {}}, None, True),
    ],
)
def test_a_requeue_delay_that_no_one_told_is_said_to_be_a_default(
    fields: dict[str, object], min_job_age_s: float | None, told: bool, read: Callable[[str], str]
) -> None:
    cluster = make_cluster(**fields)
    health = replace(Scripted().health(), min_job_age_s=min_job_age_s)
    make_examination(cluster=cluster, results=[requeue_delay(health, at=now()).as_json()])
    page = read(f"/clusters/{cluster.pk}/")
    assert "a requeued job waits 2\u00a0m\u00a01\u00a0s at least" in page
    assert ("at least, if Slurm's default holds" in page) is not told


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ("can't be told: no answer", "Can't be told: no answer"),
        ("tried: 3 jobs", "Tried: 3 jobs"),
        ("scontrol show config: no answer", "scontrol show config: no answer"),
        ("job_comment is not stored", "job_comment is not stored"),
        ("/usr/bin/squeue: no answer", "/usr/bin/squeue: no answer"),
        ("", ""),
    ],
)
def test_a_sentence_opens_with_a_capital_and_a_name_stays_as_it_is_typed(found: str, shown: str) -> None:
    assert opened(found) == shown


def test_what_is_code_in_a_remedy_is_shown_as_code_and_nothing_else_is_obeyed() -> None:
    assert code_spans("Run `migrate <x>`; then <b>.") == "Run <code>migrate &lt;x&gt;</code>; then &lt;b&gt;."
