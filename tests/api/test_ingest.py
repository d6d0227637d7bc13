"""Pushing: who may, what is taken, what is refused by name, and that nothing comes twice."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recovery.access import Permission, actor_for
from recovery.api import push_tokens
from recovery.core.pushed import Wrong, read_row, signals_of
from recovery.core.types import SignalKind
from recovery.models import Attempt, Cluster, Job, PushBatch, PushSender, PushToken
from recovery.pipeline import measure, push
from tests.api.conftest import Answer, Api, with_token
from tests.factories import make_attempt, make_cluster, make_job, make_token

pytestmark = pytest.mark.django_db

Ask = Callable[[str], Api]


@pytest.fixture
def attempt() -> Attempt:
    return make_attempt(number=0, job=make_job(job_id="4711", user="alice"))


def token_for(cluster: Cluster, admin: User, **reach: Any) -> str:
    _, text = push_tokens.make(actor=actor_for(admin), name="a script", cluster=cluster, now=timezone.now(), **reach)
    return text


@pytest.fixture
def pusher(attempt: Attempt, admin: User) -> Api:
    return with_token(token_for(attempt.job.cluster, admin))


def batch(*rows: Any, **fields: Any) -> dict[str, Any]:
    return {"batch": "b1", "job": "4711", "restart": 0, "rows": list(rows), **fields}


def send(api: Api, *rows: Any, **fields: Any) -> Answer:
    return api.post("ingest", batch(*rows, **fields))


# --- what is taken ---------------------------------------------------------------------------------------------------


def test_good_rows_are_kept_until_ingest_reads_them(pusher: Api, attempt: Attempt) -> None:
    answer = send(pusher, {"step": 1, "loss": 2.5}, {"kind": "save_durable", "step": 1, "path": "/ckpt"})
    assert (answer.status, answer.body) == (200, {"accepted": 2, "again": False, "refused": []})
    stored = PushBatch.objects.get()
    assert (stored.attempt, stored.count, stored.read_at) == (attempt, 2, None)
    assert [row["kind"] for row in stored.rows] == ["progress", "save_durable"]


def test_a_batch_sent_twice_is_stored_once(pusher: Api) -> None:
    send(pusher, {"step": 1})
    answer = send(pusher, {"step": 1})
    assert answer.body == {"accepted": 1, "again": True, "refused": []}
    assert PushBatch.objects.count() == 1


def test_a_batch_that_was_read_long_ago_is_still_known(pusher: Api, attempt: Attempt) -> None:
    send(pusher, {"step": 1})
    push.read_pushed(attempt, now=timezone.now()).done()
    assert send(pusher, {"step": 1}).body["again"] is True
    assert not push.unread(attempt).exists()


def test_a_row_that_comes_again_in_another_batch_has_the_same_key(attempt: Attempt) -> None:
    now = timezone.now()
    row = {"kind": "save_started", "step": 7, "at": 1768137600.5}
    first, second = (read_row(row, index=0, received_at=now + timedelta(seconds=late)) for late in (0, 9))
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    [one], [two] = list(signals_of(first, line=1)), list(signals_of(second, line=5000))
    assert (one.file, one.offset, one.rule) == (two.file, two.offset, two.rule)


def test_a_bad_row_is_named_and_the_good_ones_stay(pusher: Api) -> None:
    answer = send(pusher, {"step": 1}, {"step": -4}, {"kind": "teleport"}, {"step": 2, "at": "yesterday"}, 7)
    assert answer.status == 200
    assert answer.body["accepted"] == 1
    assert [(each["index"], each["field"]) for each in answer.body["refused"]] == [
        (1, "step"), (2, "kind"), (3, "at"), (4, ""),
    ]  # fmt: skip
    assert PushBatch.objects.get().count == 1


def test_a_batch_without_one_good_row_is_refused_with_the_fields(pusher: Api) -> None:
    answer = send(pusher, {"step": "three"})
    assert answer.status == 400
    assert list(answer.error["fields"]) == ["rows.0.step"]
    assert not PushBatch.objects.exists()


def test_an_empty_batch_tells_that_the_sender_lives(pusher: Api, attempt: Attempt) -> None:
    assert send(pusher, dropped=3).body["accepted"] == 0
    sender = PushSender.objects.get(attempt=attempt)
    assert (sender.progressed_at, sender.dropped) == (None, 3)
    assert not PushBatch.objects.exists()


def test_a_time_in_the_future_is_not_believed() -> None:
    now = timezone.now()
    row = read_row({"step": 1, "at": (now + timedelta(hours=5)).isoformat()}, index=0, received_at=now)
    assert isinstance(row, dict)
    assert row["at"] == now.isoformat()


def test_a_whole_number_is_one_however_it_is_written() -> None:
    row = read_row({"step": 120.0, "rank": 3.0}, index=0, received_at=timezone.now())
    assert isinstance(row, dict)
    assert (row["step"], row["rank"]) == (120, 3)
    for wrong in (120.5, float("inf"), float("nan"), -1.0, 1e300):
        assert isinstance(read_row({"step": wrong}, index=0, received_at=timezone.now()), Wrong)


def test_not_a_number_is_no_number() -> None:
    row = read_row(
        {"step": 1, "loss": "nan", "throughput": 1e999, "tokens": -1e101}, index=0, received_at=timezone.now()
    )
    assert isinstance(row, dict)
    assert set(row) == {"kind", "at", "step"}


def test_a_pushed_traceback_is_read_as_a_log_is() -> None:
    text = "Traceback (most recent call last):\nRuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    row = read_row({"kind": "failure", "text": text, "rank": 3}, index=0, received_at=timezone.now())
    assert isinstance(row, dict)
    found = list(signals_of(row, line=10))
    assert {signal.kind for signal in found} == {SignalKind.FAILURE}
    assert "cuda.ecc_uncorrectable" in {signal.rule for signal in found}
    assert {signal.rank for signal in found} == {3}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
ROWS = VALUES | st.dictionaries(
    st.sampled_from(["kind", "at", "step", "rank", "loss", "tokens", "path", "text", "phase", "other"]),
    VALUES | st.sampled_from(["progress", "failure", "phase", "saving", "2026-01-31T12:00:00Z"]),
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(row=ROWS)
def test_no_row_breaks_the_reader_and_what_is_taken_can_be_stored(row: Any) -> None:
    found = read_row(row, index=3, received_at=timezone.now())
    if isinstance(found, dict):
        text = json.dumps(found, allow_nan=False)
        assert "\\u0000" not in text
        assert len(text.encode()) < 200_000
        assert list(signals_of(json.loads(text), line=1)) is not None
    else:
        assert found.index == 3
        assert found.message


# --- who may ---------------------------------------------------------------------------------------------------------


def test_without_a_push_token_there_is_no_way_in(attempt: Attempt, api: Ask, admin: User) -> None:
    assert Api(Client()).post("ingest", batch()).status == 401
    assert api("admin").post("ingest", batch()).status == 401
    assert with_token(make_token(user=admin)).post("ingest", batch()).status == 401
    assert with_token("rdp_0000000000_wrong").post("ingest", batch()).error["code"] == "authentication_failed"


def test_a_push_token_opens_nothing_else(pusher: Api) -> None:
    for path in ("incidents", "me", "push-tokens", "openapi.json"):
        assert pusher.get(path).status == 401


def test_a_token_of_a_job_pushes_for_that_submission_alone(attempt: Attempt, admin: User) -> None:
    other = make_attempt(number=0, job=make_job(job_id="4712", cluster=attempt.job.cluster))
    again = make_job(
        job_id="4711",
        cluster=attempt.job.cluster,
        first_submitted_at=attempt.job.first_submitted_at + timedelta(days=9),
    )
    make_attempt(number=0, job=again)
    pusher = with_token(token_for(attempt.job.cluster, admin, job=attempt.job))
    assert send(pusher, {"step": 1}, job=other.job.job_id).error["code"] == "wrong_job"
    assert send(pusher, {"step": 1}).status == 200
    assert PushBatch.objects.get().attempt == attempt  # and not the later submission with the same id


def test_a_token_of_a_user_pushes_for_their_jobs_alone(attempt: Attempt, admin: User) -> None:
    make_attempt(number=0, job=make_job(job_id="4712", cluster=attempt.job.cluster, user="bob"))
    pusher = with_token(token_for(attempt.job.cluster, admin, user="alice"))
    assert send(pusher, {"step": 1}).status == 200
    refused = send(pusher, {"step": 1}, job="4712")
    assert (refused.status, refused.error["code"]) == (403, "wrong_job")
    assert "jobs of alice" in refused.error["message"]


def test_a_token_of_another_cluster_knows_no_such_job(attempt: Attempt, admin: User) -> None:
    pusher = with_token(token_for(make_cluster(name="elsewhere"), admin))
    assert send(pusher, {"step": 1}).error["code"] == "unknown_job"


def test_a_revoked_and_an_expired_token_are_refused(attempt: Attempt, admin: User, pusher: Api) -> None:
    token = PushToken.objects.get()
    push_tokens.revoke(token_id=token.pk, actor=actor_for(admin), now=timezone.now())
    assert "was revoked" in send(pusher, {"step": 1}).error["message"]
    PushToken.objects.update(revoked_at=None, expires_at=timezone.now() - timedelta(seconds=1))
    assert "expired" in send(pusher, {"step": 1}).error["message"]


def test_the_last_use_is_kept(pusher: Api) -> None:
    send(pusher, {"step": 1})
    assert PushToken.objects.get().used_at is not None


# --- refusals that say when to come again ----------------------------------------------------------------------------


def test_an_unknown_job_or_attempt_may_come_soon(pusher: Api) -> None:
    for fields, code in (({"job": "9999"}, "unknown_job"), ({"restart": 5}, "unknown_attempt")):
        answer = send(pusher, {"step": 1}, **fields)
        assert (answer.status, answer.error["code"], answer.headers["Retry-After"]) == (404, code, "10")


def test_for_an_attempt_that_is_over_nothing_more_is_taken(pusher: Api, attempt: Attempt) -> None:
    Attempt.objects.filter(pk=attempt.pk).update(closed_at=timezone.now())
    answer = send(pusher, {"step": 1})
    assert (answer.status, answer.error["code"]) == (409, "attempt_over")


def test_what_workers_have_not_read_is_back_pressure(
    pusher: Api, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "MOST_UNREAD_OF_ATTEMPT", 2)
    for name in ("a", "b"):
        assert send(pusher, {"step": 1}, batch=name).status == 200
    answer = send(pusher, {"step": 1}, batch="c")
    assert (answer.status, answer.error["code"], answer.headers["Retry-After"]) == (429, "too_many", "10")
    push.read_pushed(attempt, now=timezone.now()).done()
    assert send(pusher, {"step": 1}, batch="c").status == 200
    monkeypatch.setattr(push, "MOST_UNREAD", 1)
    assert send(pusher, {"step": 1}, batch="d").headers["Retry-After"] == "30"


def test_what_an_attempt_left_unread_holds_up_no_other(
    pusher: Api, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert send(pusher, {"step": 1}, batch="left").status == 200
    monkeypatch.setattr(push, "MOST_UNREAD", 1)
    assert send(pusher, {"step": 2}, batch="waits").status == 429
    left = make_attempt(job=make_job(cluster=attempt.job.cluster, job_id="77"), closed_at=timezone.now())
    attempt.pushed.update(attempt=left)
    assert measure.waiting() == 0
    assert send(pusher, {"step": 2}, batch="waits").status == 200


def test_each_token_has_a_ceiling_of_its_own(pusher: Api, attempt: Attempt, admin: User, settings: Any) -> None:
    settings.PUSH_RATE = "2/min"
    cache.clear()
    assert [send(pusher).status for _ in range(3)] == [200, 200, 429]
    assert int(send(pusher).headers["Retry-After"]) > 0
    assert send(with_token(token_for(attempt.job.cluster, admin))).status == 200


def test_limits_are_named(pusher: Api) -> None:
    rows = [{"step": step} for step in range(push.MOST_ROWS + 1)]
    answer = send(pusher, *rows)
    assert (answer.status, answer.error["code"]) == (413, "too_large")
    assert str(push.MOST_ROWS) in answer.error["message"]
    answer = send(pusher, {"kind": "failure", "text": "x" * 1_100_000})
    assert (answer.status, answer.error["code"]) == (413, "too_large")
    assert "1024 kB" in answer.error["message"]


def test_a_batch_costs_few_questions_however_many_rows(pusher: Api, django_assert_max_num_queries: Any) -> None:
    send(pusher, {"step": 0}, batch="first")
    with django_assert_max_num_queries(11):
        assert send(pusher, *({"step": step} for step in range(500)), batch="second").status == 200


# --- tokens over the API ---------------------------------------------------------------------------------------------


def test_a_push_token_is_made_shown_once_and_revoked(api: Ask, attempt: Attempt) -> None:
    made = api("operator").post(
        "push-tokens", {"name": "nightly", "cluster": attempt.job.cluster.name, "user": "alice"}
    )
    assert made.status == 201
    assert made.body["reach"] == f"jobs of alice on {attempt.job.cluster.name}"
    assert send(with_token(made.body["token"]), {"step": 1}).status == 200
    [row] = api("operator").get("push-tokens").rows
    assert "token" not in row
    assert row["used_at"] is not None
    assert api("operator").ask("delete", f"push-tokens/{row['id']}").body["revoked_at"] is not None
    assert send(with_token(made.body["token"]), {"step": 1}).status == 401


def test_a_token_request_that_makes_no_sense_is_refused_by_field(api: Ask, attempt: Attempt) -> None:
    name = attempt.job.cluster.name
    for wrong, field in (
        ({"cluster": "nowhere"}, "cluster"),
        ({"job": 10**9}, "job"),
        ({"job": attempt.job_id, "user": "alice"}, "user"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at"),
        ({"name": "   "}, "name"),
    ):
        answer = api("operator").post("push-tokens", {"name": "x", "cluster": name, **wrong})
        assert (answer.status, list(answer.error["fields"])) == (400, [field]), answer.body


def test_an_api_token_makes_no_push_token(admin: User, attempt: Attempt) -> None:
    asker = with_token(make_token(user=admin, scopes=list(Permission)))
    assert asker.post("push-tokens", {"name": "x", "cluster": attempt.job.cluster.name}).status == 403


def test_the_secret_is_stored_nowhere(attempt: Attempt, admin: User) -> None:
    text = token_for(attempt.job.cluster, admin, job=Job.objects.get())
    secret = text.split("_", 2)[2]  # may hold further underscores
    assert all(secret not in str(value) for value in PushToken.objects.values_list().get())
