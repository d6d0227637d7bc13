from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from dashboard import charts
from dashboard.reads import chart_data
from recovery.core.lifecycle import IncidentState
from recovery.core.types import CheckpointState, JobState
from recovery.models import Attempt, Run
from tests.dashboard.conftest import text_of
from tests.factories import (
    ago,
    make_attempt,
    make_checkpoint,
    make_incident,
    make_job,
    make_log_file,
    make_run,
    make_samples,
)

pytestmark = pytest.mark.django_db
Traces = dict[str, list[dict[str, Any]]]


@pytest.fixture
def run() -> Run:
    """Crashed at step 50, restored step 40, trains at step 70."""
    run = make_run(name="llama")
    job = make_job(run=run, restart_count=1, submitted_at=ago(1000))
    first = make_attempt(
        job=job, number=0, state=JobState.REQUEUED, submitted_at=ago(3000), started_at=ago(2900), ended_at=ago(1200),
        first_step=1, last_step=50,
    )  # fmt: skip
    second = make_attempt(
        job=job, number=1, submitted_at=ago(1000), started_at=ago(900), first_step=41, last_step=70, restored_step=40
    )
    make_samples(attempt=first, count=50, last_at=ago(1210), every_s=30)
    make_samples(attempt=second, count=30, first_step=41, last_at=ago(10), every_s=25)
    make_checkpoint(run=run, step=20, first_seen_at=ago(2100), completed_at=ago(2090))
    make_checkpoint(run=run, step=40, first_seen_at=ago(1500), completed_at=ago(1490))
    make_checkpoint(run=run, step=45, first_seen_at=ago(1350), state=CheckpointState.TORN)
    make_checkpoint(run=run, step=60, first_seen_at=ago(300), state=CheckpointState.ANNOUNCED)
    make_incident(
        attempt=first, state=IncidentState.AWAITING_CHECKPOINT, failed_at=ago(1205), detected_at=ago(1200),
        recommended_at=ago(1196), acted_at=ago(1000), restored_at=ago(880), new_attempt=second,
    )  # fmt: skip
    return run


def data_of(run: Run, **wishes: Any) -> chart_data.RunData:
    return chart_data.of_run(run.pk, **{"width": 1000, "incident_id": None, "now": timezone.now(), **wishes})


def drawn(data: chart_data.RunData, *, width: int = 1000) -> dict[str, Any]:
    return dict(json.loads(charts.run_figure(data, theme="light", width=width).to_json()))


def by_name(figure: dict[str, Any]) -> Traces:
    found: Traces = {}
    for trace in figure["data"]:
        found.setdefault(trace["name"], []).append(trace)
    return found


def test_there_is_one_line_per_attempt_in_one_colour(run: Run) -> None:
    lines = by_name(drawn(data_of(run)))["step"]
    assert [line["y"][-1] for line in lines] == [50, 70]
    assert {line["line"]["color"] for line in lines} == {charts.PALETTE["light"]["accent"]}
    assert [line["showlegend"] for line in lines] == [True, False]


def test_a_restore_is_a_visible_drop(run: Run) -> None:
    (drop,) = by_name(drawn(data_of(run)))["steps lost"]
    assert drop["y"] == [50, 40]
    assert drop["x"][0] == drop["x"][1]
    assert "10 steps lost" in drop["hovertemplate"]


def test_checkpoints_show_their_state_by_shape(run: Run) -> None:
    traces = by_name(drawn(data_of(run)))
    assert traces["checkpoint, complete"][0]["y"] == [20, 40]
    assert traces["checkpoint, complete"][0]["marker"]["symbol"] == "triangle-up"
    assert traces["checkpoint, announced"][0]["marker"]["symbol"] == "triangle-up-open"
    assert traces["checkpoint, torn"][0]["marker"]["symbol"] == "x"


def test_each_moment_is_a_line_down_through_everything_and_a_mark_on_top(run: Run) -> None:
    figure = drawn(data_of(run))
    traces = by_name(figure)
    names = ["detected", "recommended", "acted", "restored"]
    assert all(len(traces[name][0]["x"]) == 1 for name in names)
    assert "next checkpoint" not in traces
    lines = [shape for shape in figure["layout"]["shapes"] if shape["type"] == "line"]
    assert [line["x0"] for line in lines] == [traces[name][0]["x"][0] for name in names]
    assert len({traces[name][0]["y"][0] for name in names}) == len(names)  # seconds apart, yet none hides another
    assert len({traces[name][0]["marker"]["symbol"] for name in names}) == len(names)


def test_waiting_and_standing_still_are_stretches_with_a_label(run: Run) -> None:
    figure = drawn(data_of(run), width=4000)
    texts = [note["text"].replace("\xa0", " ") for note in figure["layout"]["annotations"]]
    assert "queued 1 m 40 s" in texts
    assert "standing still 3 m 25 s" in texts
    assert [s for s in figure["layout"]["shapes"] if s["type"] == "rect"]


@pytest.mark.parametrize(("reason", "label"), [("", "start-up"), ("The log can't be read.", "no step seen")])
def test_what_nobody_could_see_is_not_called_a_start(reason: str, label: str) -> None:
    attempt = make_attempt(blind_reason=reason, last_step=None, first_step=None)
    [note] = drawn(data_of(attempt.job.run), width=4000)["layout"]["annotations"]
    assert note["text"].startswith(label)


def test_a_label_that_does_not_fit_is_left_out(run: Run) -> None:
    assert "annotations" not in drawn(data_of(run), width=240)["layout"]


def test_throughput_and_loss_stand_below_on_the_same_time(run: Run) -> None:
    figure = drawn(data_of(run))
    traces = by_name(figure)
    assert {trace["yaxis"] for trace in traces["throughput"]} == {"y2"}
    assert {trace["yaxis"] for trace in traces["loss"]} == {"y3"}
    assert all("xaxis" not in trace for trace in figure["data"])  # all on the one time axis
    layout = figure["layout"]
    assert layout["hovermode"] == "x unified"
    assert layout["yaxis3"]["domain"][1] < layout["yaxis2"]["domain"][0] < layout["yaxis"]["domain"][0]


def test_a_trainer_that_tells_only_steps_gets_one_panel() -> None:
    attempt = make_attempt()
    make_samples(attempt=attempt, count=5, loss=None, throughput=None)
    layout = drawn(data_of(attempt.job.run))["layout"]
    assert "yaxis2" not in layout
    assert layout["yaxis"]["title"]["text"] == "step"


def test_no_colour_map_or_default_theme_is_sent_along(run: Run) -> None:
    assert len(charts.run_figure(data_of(run), theme="dark", width=1000).to_json()) < 30_000


def test_a_long_run_is_as_many_points_as_the_chart_has_pixels() -> None:
    attempt = make_attempt()
    make_samples(attempt=attempt, count=3000, every_s=2)
    data = data_of(attempt.job.run, width=300)
    assert 200 < len(data.samples) <= 302
    assert data.samples[-1][1].step == 3000  # the last one is never thinned away


@pytest.mark.parametrize(
    ("text", "pixels"), [("800", 800), ("", 1000), ("abc", 1000), ("1", 240), ("99999", 4000), ("9" * 30, 1000)]
)
def test_a_wrong_width_counts_as_a_usual_one(text: str, pixels: int) -> None:
    assert chart_data.width_of(text) == pixels


def test_the_time_around_an_incident_can_be_had_alone(run: Run) -> None:
    run.incidents.update(closed_at=ago(1000))
    incident = run.incidents.get()
    data = data_of(run, incident_id=incident.pk)
    assert data.start == incident.failed_at - timedelta(minutes=5)
    assert incident.closed_at is not None
    assert data.end == incident.closed_at + timedelta(minutes=5)
    assert min(sample.at for _, sample in data.samples) >= data.start


def test_a_young_run_begins_at_its_own_beginning() -> None:
    attempt = make_attempt(started_at=ago(120), submitted_at=ago(130))
    incident = make_incident(attempt=attempt, failed_at=ago(60))
    data = data_of(attempt.job.run, incident_id=incident.pk)
    assert data.start == Attempt.objects.get(pk=attempt.pk).started_at


def test_an_incident_of_another_run_is_not_shown_here(run: Run, as_viewer: Client) -> None:
    other = make_incident()
    assert as_viewer.get(f"/runs/{run.pk}/chart.json?incident={other.pk}").status_code == 404


def test_a_run_that_ended_long_ago_ends_there() -> None:
    attempt = make_attempt(state=JobState.COMPLETED, started_at=ago(90_000), ended_at=ago(80_000))
    assert data_of(attempt.job.run).end == Attempt.objects.get(pk=attempt.pk).ended_at


def test_a_run_without_attempts_or_steps_draws_an_empty_chart() -> None:
    empty = data_of(make_run())
    assert charts.headline(empty) == "No step was seen yet."
    assert drawn(empty)["data"] == []
    queued = make_attempt(state=JobState.PENDING, started_at=None, first_step=None, last_step=None)
    assert charts.headline(data_of(queued.job.run)) == "No step was seen yet."


def test_a_chart_without_a_step_says_what_was_looked_for(as_viewer: Client) -> None:
    attempt = make_attempt(started_at=ago(900), first_step=None, last_step=None)
    incident, run = make_incident(attempt=attempt), attempt.job.run
    make_log_file(attempt=attempt, path="/logs/llama.out", line=412)
    said = "Lines with progress were looked for in /logs/llama.out (412 lines read). Print progress in a known format"
    told = as_viewer.get(f"/runs/{run.pk}/chart.json?incident={incident.pk}").json()
    assert list(told) == ["empty"]
    assert f"No step was read in this time. {said}" in told["empty"]
    for page in (f"/incidents/{incident.pk}/", f"/runs/{run.pk}/", f"/jobs/{attempt.job_id}/"):
        text = text_of(as_viewer.get(page))
        assert 'data-state="empty" role="group"' in text, page
        assert said in text
    Attempt.objects.filter(pk=attempt.pk).update(blind_reason="The log can't be read.", blind_remedy="Let us read it.")
    assert (
        charts.nothing_to_draw(data_of(run)) == "No step was read in this time. The log can't be read. Let us read it."
    )


def test_a_chart_without_a_step_tells_those_that_are_elsewhere() -> None:
    attempt = make_attempt(started_at=ago(900), last_step=1840)
    assert "The last of this attempt is step 1\u202f840." in charts.nothing_to_draw(data_of(attempt.job.run))
    queued = make_attempt(state=JobState.PENDING, started_at=None)
    assert "No attempt had started" in charts.nothing_to_draw(data_of(queued.job.run))
    make_checkpoint(run=attempt.job.run, step=20, first_seen_at=ago(300))
    assert charts.nothing_to_draw(data_of(attempt.job.run)) == ""


def test_the_title_says_what_to_see(run: Run) -> None:
    assert charts.headline(data_of(run)) == "Step 70 after 2 attempts; a restart repeated 10 steps."
    attempt = make_attempt(last_step=1234)
    title = charts.headline(data_of(attempt.job.run))
    assert title == "Step 1\u202f234 after 1 attempt; no step was repeated."


def test_a_job_shows_its_own_attempts_only(run: Run) -> None:
    other = make_job(run=run)
    make_samples(attempt=make_attempt(job=other, number=5), count=9)
    data = chart_data.of_job(other.pk, width=1000, incident_id=None, now=timezone.now())
    assert [a.attempt.number for a in data.attempts] == [5]
    assert len(data.samples) == 9


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_answer_is_a_figure_in_the_theme_asked_for(theme: str, run: Run, as_viewer: Client) -> None:
    response = as_viewer.get(f"/runs/{run.pk}/chart.json", {"width": "700", "theme": theme})
    figure = json.loads(response.content)
    assert figure["data"][0]["line"]["color"] == charts.PALETTE[theme]["accent"]


@pytest.mark.parametrize("query", ["theme=neon", "incident=abc", "width=-3", "incident=" + "9" * 40])
def test_a_wrong_wish_is_no_error(query: str, run: Run, as_viewer: Client) -> None:
    assert as_viewer.get(f"/runs/{run.pk}/chart.json?{query}").status_code == 200


def test_the_table_twin_has_the_same_moments_and_steps(run: Run, read: Callable[[str], str]) -> None:
    page = read(f"/runs/{run.pk}/")
    assert "Step 70 after 2 attempts; a restart repeated 10 steps." in page
    assert "The figures as a table" in page
    assert page.count("<td>Recommended</td>") == 1
    assert '<td class="num">70</td>' in page
