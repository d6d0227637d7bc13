"""The page of push tokens, and the client that everybody may fetch."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from recovery.models import Event, PushToken
from tests.dashboard.conftest import text_of
from tests.factories import make_cluster, make_job

pytestmark = pytest.mark.django_db


def test_a_token_is_made_shown_once_and_revoked(clients: dict[str, Client]) -> None:
    cluster = make_cluster()
    page = f"/clusters/{cluster.pk}/push-tokens/"
    assert "No job can push yet." in text_of(clients["operator"].get(page))
    made = text_of(clients["operator"].post(f"{page}make/", {"name": "alice's jobs", "user": "alice", "days": "30"}))
    found = re.search(r"rdp_[0-9a-f]{10}_[\w-]{20,}", made)
    assert found is not None
    assert f"pushes for jobs of alice on {cluster.name}" in made
    later = text_of(clients["operator"].get(page))
    assert found[0] not in later
    assert "never" in later  # used
    token = PushToken.objects.get()
    assert clients["operator"].post(f"/push-tokens/{token.pk}/revoke/").status_code == 302
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert {"push_token.made", "push_token.revoked"} <= set(Event.objects.values_list("verb", flat=True))


def test_what_was_typed_stays_where_it_is_refused(clients: dict[str, Client]) -> None:
    cluster = make_cluster()
    answer = clients["operator"].post(
        f"/clusters/{cluster.pk}/push-tokens/make/", {"name": "nightly", "job": "99", "days": "9"}
    )
    assert answer.status_code == 422
    assert "No job 99 was seen" in text_of(answer)
    assert 'value="nightly"' in text_of(answer)
    assert not PushToken.objects.exists()


def test_a_token_for_one_job_is_for_its_newest_submission(clients: dict[str, Client]) -> None:
    job = make_job(job_id="4711")
    clients["operator"].post(
        f"/clusters/{job.cluster_id}/push-tokens/make/", {"name": "one", "job": "4711", "days": "9"}
    )
    assert PushToken.objects.get().job == job


@pytest.mark.parametrize(("who", "status"), [("viewer", 403), ("outsider", 403), ("operator", 200), ("admin", 200)])
def test_the_page_is_for_those_who_may_make_tokens(who: str, status: int, clients: dict[str, Client]) -> None:
    assert clients[who].get(f"/clusters/{make_cluster().pk}/push-tokens/").status_code == status


def test_everybody_may_fetch_the_client(client: Client) -> None:
    answer = client.get("/client/recovery_desk_client.py")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/x-python")
    compile(answer.content, "recovery_desk_client.py", "exec")
