"""Reports: windows, groups, filters, CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from pytest_django import DjangoAssertNumQueries

from recovery.core.ledger import Category
from recovery.core.lifecycle import IncidentState
from recovery.core.types import JobState
from recovery.models import Incident
from recovery.pipeline import account
from tests.api.conftest import Api
from tests.docs import pages
from tests.factories import ago, make_attempt, make_cluster, make_incident, make_job, make_run

Ask = Callable[[str], Api]

pytestmark = pytest.mark.django_db


def a_case(**run: Any) -> Incident:
    """A run of 64 GPUs that trained two hours and stopped eight minutes ago; its ledger is kept."""
    attempt = make_attempt(job=make_job(run=make_run(**run), state=JobState.FAILED), state=JobState.FAILED)
    incident = make_incident(state=IncidentState.AWAITING_DECISION, attempt=attempt)
    account.keep_run(attempt.job.run_id, now=ago(0))
    return incident


def ask(api: Api, **query: object) -> Any:
    answer = api.get("reports?" + urlencode(query))
    assert answer.status == 200, answer.body
    return answer.body


def test_the_categories_of_a_line_sum_to_its_wall_time(api: Ask) -> None:
    incident = a_case()
    (line,) = ask(api("viewer"), by="run")["lines"]
    assert line["key"] == str(incident.run_id)
    assert line["label"] == incident.run.name
    assert set(line["seconds"]) == set(Category)
    assert sum(line["seconds"].values()) == pytest.approx(line["wall_s"])
    assert sum(line["gpu_hours"].values()) == pytest.approx(line["held_gpu_hours"])
    assert line["goodput"] + sum(line["badput"].values()) == pytest.approx(1)
    assert line["interruptions"] == 1
    assert line["clocks"]["detect"]["count"] == 1
    assert line["clocks"]["restore"] is None
    assert line["decision_gpu_hours"] == pytest.approx(64 * line["decision_wait_s"] / 3600)


@pytest.mark.parametrize("by", ["cluster", "user", "account", "partition", "qos", "policy", "day"])
def test_whatever_it_is_grouped_by_the_total_is_the_same(by: str, api: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    a_case(user="mira")
    a_case(user="noor")
    now = ago(0)  # a case that waits costs more at each moment
    monkeypatch.setattr("django.utils.timezone.now", lambda: now)
    until = ago(60).isoformat()
    total = ask(api("viewer"), by="run", until=until)["total"]
    assert ask(api("viewer"), by=by, until=until)["total"] == {**total, "key": None, "label": "all"}


def test_adjacent_windows_add_up_to_the_one_that_holds_both(api: Ask) -> None:
    a_case()
    start, middle, end = ago(5000), ago(3003.25), ago(17)

    def wall(since: datetime, until: datetime) -> dict[str, float]:
        found = ask(api("viewer"), by="run", since=since.isoformat(), until=until.isoformat())
        seconds: dict[str, float] = found["total"]["seconds"]
        return seconds

    whole, first, second = wall(start, end), wall(start, middle), wall(middle, end)
    assert sum(whole.values()) == pytest.approx((end - start).total_seconds(), abs=1e-5)
    assert {name: first[name] + second[name] for name in whole} == pytest.approx(whole)


def test_filters_leave_out_the_others(api: Ask) -> None:
    mine, other = a_case(user="mira"), a_case(user="noor")
    assert [line["key"] for line in ask(api("viewer"), by="run", user="mira")["lines"]] == [str(mine.run_id)]
    assert [line["key"] for line in ask(api("viewer"), by="user", run=other.run_id)["lines"]] == ["noor"]
    assert ask(api("viewer"), by="user", partition="nowhere")["lines"] == []


def test_failure_classes_are_told_of_incidents_only(api: Ask) -> None:
    a_case()
    (line,) = ask(api("viewer"), by="failure_class")["lines"]
    assert (line["key"], line["interruptions"], line["wall_s"]) == ("gpu_hardware", 1, 0)
    assert line["effective_training_time_ratio"] is None
    assert line["decision_wait_s"] > 0


def test_at_most_so_many_lines_are_given_and_the_total_has_all(api: Ask) -> None:
    for _ in range(3):
        a_case()
    found = ask(api("viewer"), by="run", limit=1)
    assert (len(found["lines"]), found["groups"], found["total"]["interruptions"]) == (1, 3, 3)


@pytest.mark.parametrize(
    "query",
    [
        "by=colour", "since=yesterday", "since=2026-01-02T00:00Z&until=2026-01-01T00:00Z", "limit=0", "limit=501",
        "colour=red", "run=-1", "run=99999999999999999999", "since=0001-01-01T00:00Z",
    ],
)  # fmt: skip
def test_what_can_not_be_asked_is_refused_by_name(query: str, api: Ask) -> None:
    answer = api("viewer").get(f"reports?{query}")
    assert (answer.status, answer.error["code"]) == (400, "invalid")
    assert answer.error["fields"]


def test_a_window_without_anything_is_empty_and_divides_by_nothing(api: Ask) -> None:
    a_case()
    found = ask(api("viewer"), by="run", since="2020-01-01T00:00Z", until="2020-02-01T00:00Z")
    assert (found["groups"], found["lines"]) == (0, [])
    total = found["total"]
    assert (total["wall_s"], total["goodput"], total["badput"]) == (0, None, {})


def test_the_number_of_queries_does_not_grow(api: Ask, django_assert_max_num_queries: DjangoAssertNumQueries) -> None:
    a_case()
    viewer = api("viewer")
    ask(viewer, by="run")
    with django_assert_max_num_queries(30) as few:
        ask(viewer, by="run", since=ago(3600).isoformat())
    for _ in range(5):
        a_case()
    with django_assert_max_num_queries(len(few)):
        assert ask(viewer, by="run", since=ago(3600).isoformat())["groups"] == 6


def test_the_csv_says_the_same_and_computes_nothing(api: Ask) -> None:
    incident = a_case(name="=HYPERLINK(1)")
    answer = api("viewer").get("reports.csv?by=run")
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert 'filename="recovery-desk-by-run.csv"' in answer.headers["Content-Disposition"]
    line, total = list(csv.DictReader(io.StringIO(answer.body)))
    assert (line["group"], line["label"]) == (str(incident.run_id), "'=HYPERLINK(1)")
    seconds = sum(float(line[f"{category}_seconds"]) for category in Category)
    assert seconds == pytest.approx(float(line["wall_s"]))
    assert total["label"] == "all"
    assert line["restore_mean_s"] == ""


def test_the_ledger_of_one_run_is_told_without_a_gap(api: Ask) -> None:
    incident = a_case()
    body = api("viewer").get(f"runs/{incident.run_id}/ledger").body
    assert body["run"]["name"] == incident.run.name
    assert body["pieces"][0]["category"] == "queue_wait"
    assert all(a["end"] == b["start"] for a, b in zip(body["pieces"], body["pieces"][1:], strict=False))
    length = sum(
        (datetime.fromisoformat(p["end"]) - datetime.fromisoformat(p["start"])) / timedelta(seconds=1)
        for p in body["pieces"]
    )
    assert length == pytest.approx(body["figures"]["wall_s"], abs=2)


def test_a_run_whose_ledger_was_not_kept_yet_says_so(api: Ask) -> None:
    body = api("viewer").get(f"runs/{make_run().pk}/ledger").body
    assert (body["kept_at"], body["pieces"], body["figures"]["wall_s"]) == (None, [], 0)


def test_what_the_guide_asks_is_answered(api: Ask) -> None:
    incident = a_case()
    make_cluster(name="hal")
    page = pages.read("docs/ledger.md")
    asked = re.findall(r"https://desk\.example\.org/api/v1/([^\"]+)", page)
    assert len(asked) == 3
    for address in asked:
        assert api("viewer").get(address.replace("runs/1/", f"runs/{incident.run_id}/")).status == 200
