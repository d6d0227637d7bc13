from __future__ import annotations

import pytest
from django.test import Client
from django.urls import URLPattern

from dashboard.urls import urlpatterns
from recovery.models import Cluster, Examination, Incident, PolicyVersion, PushToken, Recommendation
from recovery.models.access import Role, Scope
from tests.access.people import make_person
from tests.dashboard.conftest import HTMX, Question, text_of
from tests.factories import make_node, make_outbreak, make_policy

PAGES = [
    "/",
    "/incidents/",
    "/incidents/{incident}/",
    "/incidents/{incident}/evidence/0/",
    "/diagnose/",
    "/approvals/",
    "/runs/",
    "/runs/{run}/",
    "/runs/{run}/chart.json",
    "/jobs/{job}/",
    "/jobs/{job}/chart.json",
    "/nodes/",
    "/nodes/{node}/",
    "/outbreaks/{outbreak}/",
    "/reports/",
    "/clusters/",
    "/clusters/{cluster}/",
    "/policies/",
    "/policies/{policy}/",
    "/policies/{policy}/yaml/",
    "/policies/why/",
    "/policies/scorecard/",
    "/audit/",
    "/admin/",
    "/shell/",
    "/search/",
    "/confirm/",
]
POLICY_FORMS = [
    "/policies/edit/",
    "/policies/advanced/",
    "/policies/log-pattern/",
    "/policies/rule/",
    "/policies/replay/",
]
# what changes something → the least role that may
CHANGES = {
    "/recommendations/{recommendation}/approve/": "approver",
    "/recommendations/{recommendation}/reject/": "approver",
    "/incidents/{incident}/close/": "operator",
    "/incidents/{incident}/propose/": "operator",
    "/actions/{action}/undo/": "operator",
    "/actions/{action}/withdraw/": "approver",
    "/runs/{run}/take-over/": "operator",
    "/runs/{run}/give-back/": "operator",
    "/incidents/{incident}/snooze/": "operator",
    "/outbreaks/{outbreak}/approve/": "approver",
    "/automation/stop/": "operator",
    "/automation/arm/": "admin",
    "/outbreaks/{outbreak}/end/": "operator",
    "/nodes/{node}/suspect/": "operator",
    "/suspects/{suspect}/remove/": "operator",
    "/clusters/{cluster}/examine/": "operator",
    "/clusters/{cluster}/pause/": "operator",
    "/clusters/{cluster}/push-tokens/make/": "operator",
    "/push-tokens/{token}/revoke/": "operator",
    "/clusters/{cluster}/arm/": "admin",
    "/admin/roles/give/": "admin",
    "/admin/accounts/{account}/unlock/": "admin",
    "/admin/roles/{role}/take/": "admin",
    "/channels/make/": "admin",
    "/channels/{channel}/change/": "admin",
    "/channels/{channel}/renew/": "admin",
    "/channels/{channel}/remove/": "admin",
    "/channels/{channel}/test/": "admin",
    "/deliveries/{delivery}/again/": "admin",
    "/policies/edit/": "admin",
    "/policies/advanced/": "admin",
    "/policies/log-pattern/": "admin",
    "/policies/rule/": "admin",
    "/policies/replay/": "admin",
    "/promotions/{promotion}/accept/": "admin",
    "/promotions/{promotion}/reject/": "admin",
}
ROLES = ["viewer", "operator", "approver", "admin"]
OPEN = {
    "/login/",
    "/login/provider/",
    "/login/provider/callback/",
    "/logout/",
    "/live/",
    "/preferences/",
    "/clusters/{cluster}/push-tokens/",
    "/notifications/",
    "/client/recovery_desk_client.py",
}  # their own tests


@pytest.fixture
def numbers(question: Question) -> dict[str, int]:
    attempt = question.incident.attempt
    return {
        "incident": question.incident.pk,
        "recommendation": question.recommendation.pk,
        "run": question.incident.run_id,
        "job": attempt.job_id,
        "cluster": question.incident.run.cluster_id,
        "policy": make_policy().number,
        "token": 1,
        "channel": 1,
        "delivery": 1,
        "role": 1,
        "account": 1,
        "node": make_node(cluster=question.incident.run.cluster).pk,
        "outbreak": make_outbreak(incidents=[question.incident]).pk,
        "suspect": 1,
        "action": 1,
        "promotion": 1,
    }


def test_every_address_stands_in_one_of_these_tables() -> None:
    def shape(path: str) -> str:
        return "/".join("*" if part[:1] in "<{" else part for part in path.split("/"))

    def address(pattern: URLPattern) -> str:
        return "/" + str(pattern.pattern)

    named = [pattern for pattern in urlpatterns if pattern.name]
    assert len(named) == len(urlpatterns) - 1  # the last one answers every unknown address
    known = {shape(path) for path in [*PAGES, *CHANGES, *POLICY_FORMS, *OPEN]}
    assert {shape(address(pattern)).replace("/0/", "/*/") for pattern in named} == {
        path.replace("/0/", "/*/") for path in known
    }


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("role", ROLES)
def test_every_role_sees_every_page(path: str, role: str, clients: dict[str, Client], numbers: dict[str, int]) -> None:
    response = clients[role].get(path.format(**numbers), headers=HTMX if "evidence" in path else {})
    assert response.status_code == 200


@pytest.mark.parametrize("path", [*PAGES, *POLICY_FORMS])
def test_nobody_sees_anything_without_a_log_in(path: str, clients: dict[str, Client], numbers: dict[str, int]) -> None:
    address = path.format(**numbers)
    response = clients["anonymous"].get(address)
    assert response.status_code == 302
    assert response.headers["Location"] == f"/login/?next={address}"


@pytest.mark.parametrize("path", [*PAGES, *POLICY_FORMS])
def test_an_account_without_a_role_sees_nothing_and_learns_who_can_change_that(
    path: str, clients: dict[str, Client], numbers: dict[str, int], question: Question
) -> None:
    response = clients["outsider"].get(path.format(**numbers))
    assert response.status_code == 403
    page = text_of(response)
    assert "outsider may not " in page
    assert "<strong>admin</strong>" in page
    assert question.incident.run.name not in page
    assert question.incident.run.cluster.name not in page


@pytest.mark.parametrize("path", POLICY_FORMS)
@pytest.mark.parametrize("role", ROLES)
def test_only_administrators_open_the_policy_forms(path: str, role: str, clients: dict[str, Client]) -> None:
    assert clients[role].get(path).status_code == (200 if role == "admin" else 403)


@pytest.mark.parametrize("path", [*POLICY_FORMS, "/notifications/"])
def test_what_is_of_the_whole_site_is_not_begun_with_a_role_for_a_part(path: str, question: Question) -> None:
    person = make_person(Role.ADMIN, Scope.CLUSTER, cluster=question.incident.run.cluster)
    client = Client()
    client.force_login(person)
    assert client.get(path).status_code == 403
    page = text_of(client.get("/policies/"))
    assert not [form for form in POLICY_FORMS if f'href="{form}"' in page]


TOO_LITTLE = [
    (path, who) for path, least in CHANGES.items() for who in ["anonymous", "outsider", *ROLES[: ROLES.index(least)]]
]


@pytest.mark.parametrize(("path", "who"), TOO_LITTLE)
def test_nobody_changes_what_their_role_does_not_allow(
    path: str, who: str, clients: dict[str, Client], numbers: dict[str, int]
) -> None:
    before = _stored()
    response = clients[who].post(path.format(**numbers), {"reason": "because", "rules": "{}", "outcome": "false_alarm"})
    assert response.status_code == (302 if who == "anonymous" else 403)
    assert _stored() == before


def _stored() -> list[object]:
    return [
        list(Incident.objects.values_list("state", "outcome")),
        list(Recommendation.objects.values_list("pk", "decision")),
        list(Cluster.objects.values_list("paused_at")),
        list(Examination.objects.values_list("next_look_at")),
        PolicyVersion.objects.count(),
        PushToken.objects.count(),
    ]


@pytest.mark.parametrize("path", CHANGES)
def test_nothing_is_changed_by_following_a_link(path: str, clients: dict[str, Client], numbers: dict[str, int]) -> None:
    before = _stored()
    response = clients["admin"].get(path.format(**numbers))
    assert response.status_code == (200 if path in POLICY_FORMS else 405)
    assert _stored() == before


def test_a_text_that_no_database_keeps_is_refused(clients: dict[str, Client], numbers: dict[str, int]) -> None:
    before = _stored()
    not_there = ("{token}", "{channel}", "{delivery}", "{role}", "{account}", "{suspect}", "{action}", "{promotion}")
    for path in CHANGES:
        if any(name in path for name in not_there):
            continue
        given = {"reason": "be\0cause", "comment": "\0", "hash": "x"}
        assert clients["admin"].post(path.format(**numbers), given).status_code == 400, path
    assert _stored() == before


def test_nor_is_it_looked_for(clients: dict[str, Client], numbers: dict[str, int]) -> None:
    for path in ("/search/?q=a%00b", "/audit/?actor=%00", "/incidents/?show=%00", "/nodes/?q=%00"):
        assert clients["admin"].get(path).status_code == 400


@pytest.mark.parametrize("path", CHANGES)
def test_a_form_from_elsewhere_is_refused(path: str, clients: dict[str, Client], numbers: dict[str, int]) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = clients["admin"].cookies
    response = strict.post(path.format(**numbers), {"reason": "because"})
    assert response.status_code == 403
    assert "Nothing was changed: the form was too old." in text_of(response)


def test_a_part_of_a_page_sends_a_logged_out_reader_to_the_log_in(client: Client, db: None) -> None:
    response = client.get("/?part=needs", headers=HTMX)
    assert response.status_code == 401
    assert response.headers["HX-Refresh"] == "true"


def test_a_closed_account_is_logged_out_of_everything(clients: dict[str, Client], viewer: object) -> None:
    viewer.is_active = False  # type: ignore[attr-defined]
    viewer.save()  # type: ignore[attr-defined]
    assert clients["viewer"].get("/").status_code == 302


def test_without_an_administrator_the_refusal_says_so(clients: dict[str, Client], admin: object) -> None:
    admin.memberships.all().delete()  # type: ignore[attr-defined]
    page = text_of(clients["outsider"].get("/"))
    assert "No account holds the role of an administrator yet." in page
