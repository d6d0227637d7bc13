from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.conf import settings
from django.test import Client

from recovery.models import Cluster, Event
from recovery.pipeline import audit_chain
from tests.audit.conftest import break_in
from tests.dashboard.conftest import Question, text_of
from tests.factories import ago, make_attempt, make_cluster, make_event, make_job, make_node, make_run

pytestmark = pytest.mark.django_db
Read = Callable[[str], str]


# --- audit


def test_the_newest_change_comes_first_in_words(read: Read, question: Question) -> None:
    make_event(incident=question.incident, verb="incident.detected", new="detected")
    make_event(incident=question.incident, verb="action.called", subject_kind="action", new="called")
    make_event(incident=question.incident, verb="action.call_begun.requeue_hold", subject_kind="action")
    make_event(verb="policy.saved", subject_kind="policy", subject_id="3", actor_name="admin")
    make_event(verb="something.quite_new", subject_kind="cluster", subject_id="4", actor_kind="token")
    page = read("/audit/")
    words = ["Something quite new", "Saved a policy", "Call begun: requeue hold", "Action called", "Detected"]
    places = [page.index(word, page.index("<tbody>")) for word in words]
    assert places == sorted(places)
    assert "by token" in page
    assert f"/incidents/{question.incident.pk}/" in page


def test_the_trail_is_paged_by_id_so_that_a_page_stays_the_same(read: Read) -> None:
    events = [make_event(reason=f"reason {number}.") for number in range(101)]
    page = read("/audit/")
    assert "reason 100." in page
    assert "reason 0." not in page
    older = f"before={events[1].pk}"
    assert older in page
    make_event(reason="one more.")
    assert "reason 0." in read(f"/audit/?{older}")
    assert "Newest" in read(f"/audit/?{older}")


def test_every_subject_that_the_code_records_can_be_chosen(read: Read) -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (settings.BASE_DIR / "recovery").rglob("*.py"))
    recorded = set(re.findall(r'subject_kind="(\w+)"', code))
    assert {"desk", "run", "channel", "outbreak"} <= recorded
    assert recorded <= set(re.findall(r'<option value="(\w+)"', read("/audit/")))


def test_the_trail_filters_by_subject_and_actor(read: Read) -> None:
    make_event(reason="first.", actor_name="mira", subject_kind="cluster")
    make_event(reason="second.", actor_name="jonas")
    assert "second." not in read("/audit/?subject=cluster")
    assert "first." not in read("/audit/?actor=jonas")
    assert "No such event." in read("/audit/?actor=nobody")


@pytest.mark.parametrize("query", ["before=abc", "before=-1", "subject=nonsense", "before=" + "9" * 40])
def test_a_wrong_filter_is_no_filter(query: str, read: Read) -> None:
    make_event(reason="a change.")
    assert "a change." in read(f"/audit/?{query}")


def test_an_empty_trail_says_what_would_be_here(read: Read) -> None:
    assert "Nothing was changed yet." in read("/audit/")


# --- automation and administration


def test_an_operator_pauses_automation_from_every_page(clients: dict[str, Client]) -> None:
    cluster = make_cluster(name="alpha")
    client = clients["operator"]
    assert f"/clusters/{cluster.pk}/pause/" in text_of(client.get("/nodes/"))
    response = client.post(f"/clusters/{cluster.pk}/pause/", {"reason": "fabric work", "next": "/nodes/"}, follow=True)
    assert response.redirect_chain == [("/nodes/", 302)]
    assert "Automation is paused on alpha" in text_of(response)
    cluster.refresh_from_db()
    assert (cluster.paused_by, cluster.paused_reason) == ("operator", "fabric work")
    assert Event.objects.latest("id").verb == "cluster.paused"


def test_only_an_administrator_arms_it_again(clients: dict[str, Client]) -> None:
    cluster = make_cluster(name="alpha", paused_at=ago(60), paused_by="mira", paused_reason="fabric work")
    assert "A policy administrator or an administrator arms it again." in text_of(clients["operator"].get("/admin/"))
    response = clients["admin"].post(f"/clusters/{cluster.pk}/arm/", {"reason": "done"}, follow=True)
    assert "Automation is armed again on alpha" in text_of(response)
    assert Cluster.objects.get().paused_at is None


@pytest.mark.parametrize("verb", ["pause", "arm"])
def test_a_switch_without_a_reason_does_nothing_and_says_why(verb: str, as_admin: Client) -> None:
    cluster = make_cluster(paused_at=ago(60) if verb == "arm" else None)
    response = as_admin.post(f"/clusters/{cluster.pk}/{verb}/", {"reason": "  "})
    assert response.status_code == 422
    assert "reason: say why" in text_of(response)
    assert (Cluster.objects.get().paused_at is None) == (verb == "pause")


def test_a_cluster_that_never_was_can_not_be_paused(as_admin: Client) -> None:
    assert as_admin.post("/clusters/999/pause/", {"reason": "x"}).status_code == 404


def test_a_viewer_is_offered_no_switch(read: Read) -> None:
    make_cluster()
    assert "/pause/" not in read("/admin/")


def test_the_page_names_people_roles_and_what_they_may(read: Read) -> None:
    page = read("/admin/")
    assert "<strong>approver</strong>" in page
    assert "outsider" not in page
    assert "pause automation and close cases by hand" in page
    assert "No cluster is configured." in page


# --- search


def test_one_hit_opens_at_once(as_viewer: Client) -> None:
    run = make_run(name="esm-3b")
    job = make_job(run=run, job_id="4711")
    node = make_node(name="gpu-77")
    assert as_viewer.get("/search/?q=ESM").headers["Location"] == f"/runs/{run.pk}/"
    assert as_viewer.get("/search/?q=4711").headers["Location"] == f"/jobs/{job.pk}/"
    assert as_viewer.get("/search/?q=gpu-77").headers["Location"] == f"/nodes/?name={node.name}"


def test_an_incident_is_found_by_its_number(as_viewer: Client, question: Question) -> None:
    response = as_viewer.get(f"/search/?q=%23{question.incident.pk}")
    assert response.headers["Location"] == question.page


def test_a_reused_job_id_shows_both_jobs(read: Read) -> None:
    run = make_run()
    make_job(run=run, job_id="4711", first_submitted_at=ago(90_000))
    make_attempt(job=make_job(run=run, job_id="4711"))
    assert read("/search/?q=4711").count("job 4711 of") == 2


def test_a_user_finds_all_their_runs(read: Read) -> None:
    make_run(name="one", user="kim")
    make_run(name="two", user="kim")
    page = read("/search/?q=kim")
    assert "2 found" in page
    assert "one" in page
    assert "two" in page


@pytest.mark.parametrize("words", ["zzz", "%25", "_", "9" * 50, "'; DROP TABLE"])
def test_nothing_found_says_what_search_knows(words: str, read: Read) -> None:
    make_run(name="abc", user="abc")
    assert "Search knows names of runs and nodes" in read(f"/search/?q={words}")


def test_an_empty_question_offers_the_box(read: Read) -> None:
    assert 'name="q"' in read("/search/")


def test_the_trail_is_searched_by_what_incident_time_words_and_request(read: Read, question: Question) -> None:
    make_event(reason="first.", verb="policy.saved", request_id="a" * 32, origin="10.0.0.7")
    make_event(reason="second.", incident=question.incident)
    make_event(reason="third.", at=ago(3 * 86_400))
    day = f"{ago(3 * 86_400):%Y-%m-%d}"
    for query, found in {
        "verb=policy": "first.",
        f"incident={question.incident.pk}": "second.",
        f"since={day}&until={day}": "third.",
        "text=cond": "second.",
        "text=" + "a" * 32: "first.",
        "text=10.0.0.7": "first.",
    }.items():
        page = read(f"/audit/?{query}")
        assert [text for text in ("first.", "second.", "third.") if text in page] == [found], query
    assert "from 10.0.0.7" in read("/audit/")


def test_the_page_says_up_to_where_the_trail_was_verified_and_names_the_first_bad_row(read: Read) -> None:
    assert "Not verified yet" in read("/audit/")
    events = [make_event() for _ in range(3)]
    audit_chain.verify(now=ago(120))
    assert f"Verified up to event {events[2].pk}, <time" in read("/audit/")
    break_in("UPDATE recovery_event SET reason = 'another' WHERE id = %s", events[1].pk)
    audit_chain.verify(now=ago(0))
    page = read("/audit/")
    assert f"event {events[1].pk} is the first bad row" in page
    assert f"up to event {events[2].pk} it was whole" in page
