"""Every row of the API says how old the picture is that it rests on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from recovery.core.types import FindingKind
from recovery.models import Cluster
from tests.api.conftest import Api
from tests.dashboard.conftest import make_question
from tests.factories import ago, make_attempt, make_incident

Ask = Callable[[str], Api]

LISTS = ["jobs", "attempts", "runs", "incidents", "recommendations"]


@pytest.mark.django_db
@pytest.mark.parametrize("path", LISTS)
def test_each_row_tells_its_clusters_age_and_that_it_is_stale(path: str, api: Ask) -> None:
    make_question()
    fresh = api("viewer").get(path).rows[0]["cluster"]
    assert fresh["stale"] is False
    assert fresh["seen_at"]
    Cluster.objects.update(error="squeue: no answer within 10 s")
    assert api("viewer").get(path).rows[0]["cluster"]["stale"] is True
    Cluster.objects.update(error="", seen_at=None)
    never = api("viewer").get(path).rows[0]["cluster"]
    assert (never["seen_at"], never["stale"]) == (None, True)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("incidents", "needs_person"),
        ("incidents", "open"),
        ("recommendations", "undecided"),
        ("recommendations", "current"),
        ("attempts", "blind"),
        ("runs", "open_incident"),
    ],
)
def test_a_flag_that_is_neither_true_nor_false_is_refused_by_name(path: str, name: str, api: Ask) -> None:
    for word in ("maybe", "2", "yes please", "null"):
        answer = api("viewer").get(f"{path}?{name}={word}")
        assert answer.status == 400
        assert answer.error["fields"] == {name: ["Give true or false."]}
    for word in ("true", "false", "True", "1", "0", ""):
        assert api("viewer").get(f"{path}?{name}={word}").status == 200


@pytest.mark.django_db
def test_a_run_tells_what_is_wrong_with_its_newest_attempt_and_not_with_an_older_one(api: Ask) -> None:
    attempt = make_attempt()
    make_incident(attempt=attempt, kind=FindingKind.HANG)
    path = f"runs/{attempt.job.run_id}"
    assert api("viewer").get(path).body["finding"] == "hang"
    make_attempt(job=attempt.job, number=1, submitted_at=ago(0))
    assert api("viewer").get(path).body["finding"] is None
