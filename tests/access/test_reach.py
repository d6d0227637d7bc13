"""Every address and every list, asked by people whose role is for something else: there is nothing there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client

from dashboard.live import Change, fetch_since, may_hear
from dashboard.urls import urlpatterns as dashboard_urls
from recovery.access import Forbidden, Permission, actor_for
from recovery.api.base import Row
from recovery.api.urls import urlpatterns as api_urls
from recovery.models import Cluster, Event, Incident, Membership, Node, Outbreak, Outlook, PushToken, Suspect
from recovery.models.access import Role, Scope
from recovery.selectors.scope import reach
from tests.access.people import Case, make_case, make_person
from tests.api.conftest import Api, with_token
from tests.api.test_who_may import ROUTES, view_of
from tests.dashboard.test_who_may import CHANGES, PAGES
from tests.factories import (
    ago,
    make_action,
    make_checkpoint,
    make_cluster,
    make_event,
    make_node,
    make_outbreak,
    make_suspect,
    make_token,
)

NOT_BY_SCOPE = ("tokens/<int:pk>",)  # one's own alone, whatever the role
GLOBAL = ("/policies/{policy}/", "/policies/{policy}/yaml/")  # one policy for all


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A case on a cluster on which the people of these tests have nothing, and everything that hangs on it."""

    case: Case
    rows: dict[str, Model]

    @property
    def secrets(self) -> set[str]:
        incident = self.case.incident
        return {incident.run.name, incident.run.cluster.name, incident.headline}


@pytest.fixture
def foreign(db: None) -> Foreign:
    cluster = make_cluster(name="verysecret")
    case = make_case(cluster=cluster, user="eve", partition="secretpart", account="secretacc")
    incident = case.incident
    make_checkpoint(run=incident.run, step=840)
    make_event(incident=incident, reason=incident.headline)
    rows: dict[str, Model] = {
        "incident": incident, "incidents": incident, "run": incident.run, "runs": incident.run, "job": case.job,
        "jobs": case.job, "attempts": incident.attempt, "recommendation": case.recommendation,
        "recommendations": case.recommendation, "cluster": cluster, "clusters": cluster,
        "node": make_node(cluster=cluster), "action": make_action(recommendation=case.recommendation),
        "outbreak": make_outbreak(incidents=[incident]),
    }  # fmt: skip
    rows |= {"actions": rows["action"], "outbreaks": rows["outbreak"]}
    return Foreign(case=case, rows=rows)


@pytest.fixture
def elsewhere(db: None) -> User:
    """An administrator, of another cluster."""
    return make_person(Role.ADMIN, Scope.CLUSTER, cluster=make_cluster(name="own"))


@pytest.fixture
def browser_of(elsewhere: User) -> Client:
    client = Client()
    client.force_login(elsewhere)
    return client


def addresses(foreign: Foreign, templates: list[str]) -> list[str]:
    """Those that name something which the fixture has made."""
    found = []
    for template in templates:
        key = re.search(r"{(\w+)}", template)
        if key and key[1] in foreign.rows:
            found.append(template.format(**{key[1]: foreign.rows[key[1]].pk}))
    return found


def test_each_address_that_names_a_row_says_of_what_it_is() -> None:
    """Else nobody asks whether that row may be seen."""
    # one's own alone; roles and accounts are of the whole site
    own = {"tokens/<int:pk>", "admin/roles/<int:pk>/take/", "admin/accounts/<int:pk>/unlock/"}
    for pattern in dashboard_urls:
        if "<int:pk>" in (route := str(pattern.pattern)) and route not in own:
            assert vars(pattern.callback).get("of") is not None, route
    for pattern in api_urls:
        if "<int:pk>" in (route := str(pattern.pattern)) and route not in own:
            view = view_of(pattern)
            assert issubclass(view, Row) or view.of is not None, route  # type: ignore[attr-defined]


def test_the_details_of_health_are_of_what_is_seen(foreign: Foreign, elsewhere: User) -> None:
    Cluster.objects.update(seen_at=ago(86_400))
    details = with_token(make_token(user=elsewhere)).get("health/details").body
    assert "own" in str(details)
    assert "verysecret" not in str(details)
    assert details["needs_person"] == 0


def test_no_page_of_something_foreign_is_there(foreign: Foreign, browser_of: Client) -> None:
    asked = addresses(foreign, PAGES)
    assert len(asked) >= 9
    for address in asked:
        answer = browser_of.get(address)
        assert answer.status_code == 404, address
        assert not [secret for secret in foreign.secrets if secret in answer.content.decode()], address


def test_nothing_foreign_can_be_changed(foreign: Foreign, browser_of: Client) -> None:
    before = Event.objects.count()
    asked = addresses(foreign, list(CHANGES))
    assert len(asked) >= 10
    for address in asked:
        answer = browser_of.post(address, {"reason": "because", "outcome": "false_alarm", "why": "so"})
        assert answer.status_code == 404, address
    assert Event.objects.count() == before


def test_no_list_and_no_search_tells_of_something_foreign(foreign: Foreign, browser_of: Client) -> None:
    incident = foreign.case.incident
    lists = [page for page in PAGES if "{" not in page] + [
        "/incidents/?show=all", "/runs/?show=all", f"/search/?q={incident.run.name}", f"/search/?q={incident.pk}",
        "/search/?q=eve", "/reports/?days=90", f"/audit/?incident={incident.pk}",
    ]  # fmt: skip
    for address in lists:
        answer = browser_of.get(address, follow=True)
        assert answer.status_code == 200, address
        typed = {incident.run.name} if incident.run.name in address else set()  # it is said back
        page = answer.content.decode()
        assert not [secret for secret in foreign.secrets - typed if secret in page], address


def test_no_address_of_the_api_tells_of_something_foreign(foreign: Foreign, elsewhere: User) -> None:
    api = with_token(make_token(user=elsewhere))
    asked = 0
    for method, route, _ in ROUTES:
        kind = route.split("/")[0]
        if "<int:pk>" in route and route not in NOT_BY_SCOPE and kind in foreign.rows:
            answer = api.ask(method, route.replace("<int:pk>", str(foreign.rows[kind].pk)), _body(method))
            assert (answer.status, answer.error["code"]) == (404, "not_found"), route
            asked += 1
        elif method == "GET" and "<int:pk>" not in route and route not in ("openapi.json", "audit/export"):
            answer = api.get(route)
            assert answer.status == 200, route
            assert not [secret for secret in foreign.secrets if secret in str(answer.body)], route
    assert asked >= 15


def test_no_refusal_tells_of_something_foreign(foreign: Foreign, elsewhere: User) -> None:
    """Neither the names of clusters that are not seen, nor that there is one of a name that was guessed."""
    api = with_token(make_token(user=elsewhere))
    lists = [route for method, route, _ in ROUTES if method == "GET" and api.get(f"{route}?cluster=own").status == 200]
    lists = [route for route in lists if api.get(f"{route}?cluster=nowhere").status == 400]  # others take no cluster
    assert {"runs", "jobs", "incidents", "recommendations", "suspects", "reports", "reports.csv"} <= set(lists)
    for route in lists:
        nowhere, guessed = (api.get(f"{route}?cluster={name}") for name in ("nowhere", "verysecret"))
        assert (nowhere.status, guessed.status) == (400, 400), route
        assert nowhere.body == guessed.body, route
        assert "choose from: own." in str(nowhere.body), route


def test_no_push_token_is_made_for_something_foreign_nor_told_of_it(foreign: Foreign, elsewhere: User) -> None:
    browser = Client()
    browser.force_login(elsewhere)
    asked: list[dict[str, Any]] = [{"cluster": "verysecret"}, {"cluster": "own", "job": foreign.case.job.pk}]
    unknown: list[dict[str, Any]] = [{"cluster": "nowhere"}, {"cluster": "own", "job": 10**6}]
    for there, missing in zip(asked, unknown, strict=True):
        answers = [Api(browser).post("push-tokens", {"name": "x", **given}) for given in (there, missing)]
        assert [answer.status for answer in answers] == [400, 400]
        said = [re.sub(r"verysecret|nowhere|\d+", "N", str(answer.body)) for answer in answers]
        assert said[0] == said[1]


def test_a_row_that_is_seen_by_one_role_is_not_changed_by_another(foreign: Foreign, elsewhere: User) -> None:
    """An operator of their own cluster, a viewer of this one."""
    Membership.objects.create(user=elsewhere, role=Role.VIEWER, scope=Scope.CLUSTER, cluster=foreign.case.job.cluster)
    actor = actor_for(elsewhere)
    for model in (Outbreak, Node, Suspect, PushToken, Incident, Cluster):
        row = next((row for row in foreign.rows.values() if isinstance(row, model)), None) or _more(model, foreign)
        reach(model, row.pk, actor)
        for permission in (Permission.OPERATE, Permission.DECIDE):
            with pytest.raises(Forbidden, match="here: the role is"):
                reach(model, row.pk, actor, permission)


def _more(model: type[Model], foreign: Foreign) -> Model:
    cluster = foreign.case.job.cluster
    if model is Suspect:
        return make_suspect(cluster=cluster)
    return PushToken.objects.create(
        cluster=cluster, name="x", prefix="x", digest="x", created_at=ago(1), expires_at=ago(-1)
    )


def _body(method: str) -> dict[str, str] | None:
    return {} if method == "POST" else None


def test_who_sees_it_but_may_not_is_told_so(foreign: Foreign, elsewhere: User) -> None:
    Membership.objects.create(user=elsewhere, role=Role.VIEWER, scope=Scope.ACCOUNT, name="secretacc")
    api = with_token(make_token(user=elsewhere))
    pk = foreign.case.recommendation.pk
    assert api.get(f"recommendations/{pk}").status == 200
    answer = api.post(f"recommendations/{pk}/approve", {"hash": "0" * 64})
    assert (answer.status, answer.error["code"]) == (403, "forbidden")
    assert "here: the role is" in answer.error["message"]


def test_a_token_reaches_no_further_than_its_owner(foreign: Foreign, elsewhere: User) -> None:
    assert with_token(make_token(user=elsewhere)).get("incidents").rows == []
    browser = Client()
    browser.force_login(elsewhere)
    assert Api(browser).get("incidents").rows == []


# --- the live stream -------------------------------------------------------------------------------------------------


def test_the_stream_tells_nobody_of_incidents_that_they_may_not_see(foreign: Foreign, elsewhere: User) -> None:
    own = make_event(incident=make_case(cluster=Cluster.objects.get(name="own")).incident)
    for kind in ("account", "job", "attempt"):
        make_event(subject_kind=kind)
    make_event(subject_kind="cluster", subject_id=str(foreign.case.job.cluster_id))
    policy = make_event(subject_kind="policy")
    actor = actor_for(elsewhere)
    heard = [change.id for change in fetch_since(0, 100) if may_hear(actor, change)]
    assert heard == [own.pk, policy.pk]


def test_a_viewer_of_everything_hears_everything_but_log_ins(foreign: Foreign, viewer: User, admin: User) -> None:
    make_event(subject_kind="account")
    changes = fetch_since(0, 100)
    assert [c.kind for c in changes if not may_hear(actor_for(viewer), c)] == ["account"]
    assert all(may_hear(actor_for(admin), change) for change in changes)


def test_an_incident_that_is_gone_is_told_to_nobody_within_a_scope(elsewhere: User) -> None:
    change = Change(id=1, kind="incident", subject="7", incident=7, verb="incident.acting")
    assert not may_hear(actor_for(elsewhere), change)


# --- a training user -------------------------------------------------------------------------------------------------


def test_a_training_user_sees_own_runs_alone(foreign: Foreign) -> None:
    own = make_case(cluster=foreign.case.job.cluster, user="mira")
    client = Client()
    client.force_login(make_person(Role.OWNER, Scope.USER, "mira"))
    assert client.get(f"/runs/{own.incident.run_id}/").status_code == 200
    assert client.get(f"/incidents/{own.incident.pk}/").status_code == 200
    assert client.get(f"/runs/{foreign.case.incident.run_id}/").status_code == 404
    for case in (own, foreign.case):  # what is about to fail is told of one's own runs, too
        name = case.incident.run.name
        Outlook.objects.create(run=case.incident.run, rotation_warning=f"{name}: rotated away", checked_at=ago(3))
    page = client.get("/").content.decode()
    assert f"{own.incident.run.name}: rotated away" in page
    assert foreign.case.incident.run.name not in page
    assert client.post(f"/incidents/{own.incident.pk}/close/", {"reason": "x"}).status_code == 403
