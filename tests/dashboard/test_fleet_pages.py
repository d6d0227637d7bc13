"""An outbreak is told once, unfolds its incidents, and each of these is decided by itself; a node has its own page."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from playwright.sync_api import expect

from recovery.core.lifecycle import IncidentState
from recovery.models import Event, Incident, Suspect
from tests.browser import PHONE, WIDE, Visitor
from tests.dashboard.conftest import text_of
from tests.dashboard.test_browser import barriers
from tests.factories import (
    ago,
    make_cluster,
    make_incident,
    make_node,
    make_outbreak,
    make_run,
    make_strike,
    make_suspect,
)


def outbreak_of(count: int) -> tuple[list[Incident], int]:
    cluster = make_cluster(name="alpha")
    rows = [
        make_incident(run=make_run(cluster=cluster, name=f"run-{number}"), state=IncidentState.AWAITING_DECISION)
        for number in range(count)
    ]
    return rows, make_outbreak(incidents=rows, runs=count).pk


@pytest.mark.django_db
def test_the_list_of_incidents_tells_an_outbreak_once_and_its_incidents_below(clients: dict[str, Client]) -> None:
    rows, pk = outbreak_of(3)
    alone = make_incident(state=IncidentState.AWAITING_DECISION)
    page = clients["viewer"].get("/incidents/").content.decode()
    assert page.count(f'href="/outbreaks/{pk}/"') == 1
    parent, first = page.index(f'href="/outbreaks/{pk}/"'), page.index(f'data-href="/incidents/{rows[2].pk}/"')
    assert parent < first
    assert page.count('class="child"') == 3
    assert f'data-href="/incidents/{alone.pk}/"' in page


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/incidents/", "/", "/outbreaks/{pk}/", "/nodes/"])
def test_however_large_an_outbreak_is_a_page_asks_the_same_number_of_questions(
    path: str, clients: dict[str, Client]
) -> None:
    def asked(pk: int) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert clients["viewer"].get(path.format(pk=pk)).status_code == 200
        return len(queries)

    rows, pk = outbreak_of(3)
    make_suspect(cluster=rows[0].run.cluster, node=make_node(cluster=rows[0].run.cluster).name)
    asked(pk)
    few = asked(pk)
    cluster = rows[0].run.cluster
    more = [make_incident(run=make_run(cluster=cluster), state=IncidentState.AWAITING_DECISION) for _ in range(5)]
    Incident.objects.filter(pk__in=[row.pk for row in more]).update(outbreak=pk)
    for _ in range(4):
        make_suspect(cluster=cluster, node=make_node(cluster=cluster).name)
    assert asked(pk) == few


@pytest.mark.django_db
def test_the_overview_says_on_top_that_an_outbreak_is_open_and_no_more_when_it_is_over(
    clients: dict[str, Client],
) -> None:
    _, pk = outbreak_of(3)
    page = clients["viewer"].get("/").content.decode()
    assert page.index("3 runs failed within 20 s") < page.index("<h1>")
    clients["operator"].post(f"/outbreaks/{pk}/end/", {"reason": "two accidents"})
    assert "3 runs failed within 20 s" not in clients["viewer"].get("/").content.decode()
    over = text_of(clients["viewer"].get(f"/outbreaks/{pk}/"))
    assert "two accidents" in over
    assert Event.objects.filter(verb="outbreak.closed", actor_name="operator").count() == 1


@pytest.mark.django_db
def test_an_outbreak_ends_for_a_reason_only(clients: dict[str, Client]) -> None:
    _, pk = outbreak_of(3)
    answer = clients["operator"].post(f"/outbreaks/{pk}/end/", {"reason": " "})
    assert answer.status_code == 422
    assert "Give a reason" in text_of(answer)


@pytest.mark.django_db
def test_a_node_shows_its_strikes_and_goes_on_and_off_the_list(clients: dict[str, Client]) -> None:
    incident = make_incident()
    strike = make_strike(incident=incident, elsewhere=True)
    node = make_node(cluster=incident.run.cluster, name=strike.node, switch="leaf-3")
    page = text_of(clients["viewer"].get(f"/nodes/{node.pk}/"))
    assert "switch leaf-3" in page
    assert "A GPU fell off the bus (gpu-02)." in page
    assert "the kernel" in page
    assert "elsewhere" in page
    clients["operator"].post(f"/nodes/{node.pk}/suspect/", {"reason": "ticket 4711", "days": "3"})
    held = Suspect.objects.get()
    assert (held.added_by, held.reason) == ("operator", "ticket 4711")
    assert "ticket 4711" in text_of(clients["viewer"].get("/nodes/"))
    clients["operator"].post(f"/suspects/{held.pk}/remove/", {"reason": "new GPU"})
    page = text_of(clients["viewer"].get(f"/nodes/{node.pk}/"))
    assert "new GPU" in page
    assert "forgiven" in page


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"reason": "", "days": "3"}, "reason: say why"),
        ({"reason": "x", "days": "0"}, "days: give a number of days"),
        ({"reason": "x", "days": "later"}, "days: give a number of days"),
    ],
)
def test_what_is_wrong_with_a_form_is_said_on_it(given: dict[str, str], said: str, clients: dict[str, Client]) -> None:
    node = make_node()
    answer = clients["operator"].post(f"/nodes/{node.pk}/suspect/", given)
    assert answer.status_code == 422
    assert said in text_of(answer)
    assert not Suspect.objects.exists()


@pytest.mark.browser
@pytest.mark.django_db(transaction=True)
def test_an_outbreak_folds_its_incidents_away_in_a_browser_wide_and_narrow(visit: Visitor, operator: User) -> None:
    rows, pk = outbreak_of(3)
    cluster = rows[0].run.cluster
    make_strike(incident=rows[0])
    make_strike(incident=make_incident(run=make_run(cluster=cluster), failed_at=ago(90_000)), elsewhere=True)
    make_suspect(cluster=cluster)
    node = make_node(cluster=cluster, name="gpu-02", switch="leaf-3")
    for size, theme in ((WIDE, "light"), (PHONE, "dark")):
        page = visit(operator, theme=theme, size=size)
        page.goto("/incidents/")
        expect(page.locator("tr.child")).to_have_count(3)
        expect(page.locator("tr.child").first).to_be_visible()
        page.locator("tr.parent summary").click()
        expect(page.locator("tr.child").first).to_be_hidden()
        page.locator("tr.parent summary").click()
        for path in ("/", "/incidents/", f"/outbreaks/{pk}/", f"/nodes/{node.pk}/", "/nodes/"):
            page.goto(path)
            assert not barriers(page), path
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, size)
