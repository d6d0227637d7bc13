from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from recovery.models.access import Role, Scope
from recovery.pipeline import audit_chain, audit_export
from tests.access.people import make_person
from tests.api.conftest import Api, with_token
from tests.audit.conftest import break_in
from tests.factories import ago, make_event, make_token


@pytest.fixture
def api(admin: User) -> Api:
    return with_token(make_token(user=admin))


def test_events_are_filtered_the_newest_first(api: Api) -> None:
    first = make_event(verb="policy.saved", actor_name="mira", request_id="a" * 32)
    second = make_event(verb="cluster.paused", actor_name="jonas", at=ago(86_400))
    assert [row["id"] for row in api.get("events").rows] == [second.pk, first.pk]
    for query in ("actor=MIR", "verb=policy", f"since={ago(20_000):%Y-%m-%dT%H:%M:%SZ}", "request_id=" + "a" * 32):
        assert [row["id"] for row in api.get(f"events?{query}").rows] == [first.pk], query
    assert api.get("events?nonsense=1").status == 400


def test_the_state_of_the_chain_is_told(api: Api) -> None:
    events = [make_event() for _ in range(3)]
    audit_chain.verify(now=ago(60))
    state = api.get("audit").body
    assert (state["sealed_id"], state["verified_id"], state["bad_id"]) == (events[2].pk, events[2].pk, None)
    assert state["anchor"].startswith(f"{events[2].pk}:")
    break_in("DELETE FROM recovery_event WHERE id = %s", events[1].pk)
    audit_chain.verify(now=ago(0))
    assert api.get("audit").body["bad_id"] == events[1].pk


def test_exports_of_a_bounded_size_follow_each_other(api: Api) -> None:
    events = [make_event() for _ in range(5)]
    first = api.get("audit/export?limit=3").body
    second = api.get(f"audit/export?after={events[2].pk}").body
    _, end, broken = audit_export.verify_lines(first.splitlines())
    start, last, broken_too = audit_export.verify_lines(second.splitlines())
    assert (broken, broken_too) == (None, None)
    assert end == start
    assert (end.id, last.id) == (events[2].pk, events[4].pk)


def test_a_broken_trail_is_not_exported(api: Api) -> None:
    events = [make_event() for _ in range(3)]
    audit_chain.verify(now=ago(60))
    break_in("DELETE FROM recovery_event WHERE id = %s", events[1].pk)
    answer = api.get("audit/export")
    assert answer.status == 400
    assert f"broken at event {events[1].pk}" in answer.error["fields"]["after"][0]


@pytest.mark.parametrize("query", ["after=-1", "after=x", "limit=0", "limit=10001", "since=1"])
def test_a_wrong_question_is_refused(query: str, api: Api) -> None:
    assert api.get(f"audit/export?{query}").status == 400


def test_the_whole_trail_is_for_who_may_see_everything(db: None) -> None:
    within = with_token(make_token(user=make_person(Role.ADMIN, Scope.ACCOUNT, "nlp")))
    assert within.get("audit/export").status == 403
