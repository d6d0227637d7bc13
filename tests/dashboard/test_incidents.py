from __future__ import annotations

from collections.abc import Callable
from html import unescape

import pytest
from django.test import Client

from recovery.core.lifecycle import INCIDENT_WORDS, IncidentState
from recovery.core.types import ActionKind, FailureClass, Outcome
from recovery.core.words import OUTCOME_WORDS
from recovery.models import Incident
from tests.dashboard.conftest import HTMX, Question, make_question, text_of
from tests.factories import (
    make_attempt,
    make_event,
    make_finding,
    make_incident,
    make_log_file,
    make_recommendation,
    make_signal,
)

S = IncidentState
Read = Callable[[str], str]
pytestmark = pytest.mark.django_db


def give_evidence(incident: Incident, *lines: dict[str, object]) -> None:
    incident.diagnosis = {**incident.diagnosis, "evidence": list(lines)}
    incident.save()


def test_the_list_begins_with_what_is_open(read: Read) -> None:
    make_incident(headline="llama stopped: ECC.")
    make_incident(state=S.CLOSED, headline="vit stopped: NaN.")
    assert "llama stopped: ECC." in read("/incidents/")
    assert "vit stopped: NaN." not in read("/incidents/")


@pytest.mark.parametrize(
    ("show", "shown"),
    [("person", {1, 2}), ("open", {1, 2, 3}), ("closed", {4}), ("all", {1, 2, 3, 4}), ("nonsense", {1, 2, 3})],
)
def test_the_list_filters_by_who_is_needed(show: str, shown: set[int], read: Read) -> None:
    for number, state in enumerate((S.AWAITING_DECISION, S.NEEDS_PERSON, S.WATCHING, S.CLOSED), start=1):
        make_incident(state=state, headline=f"headline {number}.")
    page = read(f"/incidents/?show={show}")
    assert {number for number in range(1, 5) if f"headline {number}." in page} == shown


def test_the_list_filters_by_failure_class(read: Read) -> None:
    make_incident(headline="first.", failure_class=FailureClass.NUMERICS)
    make_incident(headline="second.", failure_class=FailureClass.PREEMPTION)
    page = read("/incidents/?class=numerics")
    assert "first." in page
    assert "second." not in page
    assert "second." in read("/incidents/?class=no-such-class")


def test_a_long_list_is_paged_and_keeps_its_filter(read: Read) -> None:
    for _ in range(51):
        make_incident(state=S.CLOSED)
    page = read("/incidents/?show=closed")
    assert "1–50 of 51" in page
    assert "?show=closed&amp;page=2" in page
    assert "51–51 of 51" in read("/incidents/?show=closed&page=2")
    assert "51–51 of 51" in read("/incidents/?show=closed&page=999")


@pytest.mark.parametrize(
    ("show", "said"),
    [
        ("person", "Nothing needs a person."),
        ("open", "No incident is open."),
        ("closed", "There was no incident yet."),
        ("all", "make demo"),
    ],
)
def test_an_empty_list_says_what_would_be_here(show: str, said: str, read: Read) -> None:
    assert said in read(f"/incidents/?show={show}")


@pytest.mark.parametrize("state", [s for s in IncidentState if s is not S.CLOSED])
def test_every_state_has_its_page_with_its_word_and_sentence(state: IncidentState, read: Read) -> None:
    incident = make_incident(state=state, alarm="Not as expected." if state is S.NEEDS_PERSON else "")
    if state not in (S.DETECTED, S.DIAGNOSED):
        make_recommendation(incident=incident)
    page = read(f"/incidents/{incident.pk}/")
    assert INCIDENT_WORDS[state].label in page
    assert INCIDENT_WORDS[state].sentence in unescape(page)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_is_said_in_its_own_word(outcome: Outcome, read: Read) -> None:
    incident = make_incident(state=S.CLOSED, outcome=outcome, outcome_reason="This is why.")
    page = read(f"/incidents/{incident.pk}/")
    assert f"<strong>{OUTCOME_WORDS[outcome].label}.</strong> This is why." in page
    assert "success" not in page.lower()


def test_an_outcome_is_not_said_twice(read: Read) -> None:
    reason = "Recovered: restored at step 840, and checkpoint 860 is complete."
    incident = make_incident(state=S.CLOSED, outcome_reason=reason)
    page = read(f"/incidents/{incident.pk}/")
    assert "<strong>Recovered.</strong> Restored at step 840, and checkpoint 860 is complete." in page


def test_an_alarm_stands_above_everything(read: Read) -> None:
    incident = make_incident(state=S.NEEDS_PERSON, alarm="Restarted from scratch: step 840 was expected.")
    page = read(f"/incidents/{incident.pk}/")
    assert page.index("Restarted from scratch: step 840 was expected.") < page.index('class="timeline"')


def test_a_look_that_failed_is_shown_with_what_still_holds(read: Read) -> None:
    incident = make_incident(error="SlurmUnreachable: squeue gave no answer")
    page = read(f"/incidents/{incident.pk}/")
    assert "The last look at this case failed." in page
    assert "squeue gave no answer" in page
    assert "Nothing was done because of it" in page


def test_the_evidence_names_its_file_and_line_and_where_it_began(read: Read, question: Question) -> None:
    page = read(question.page)
    line = question.incident.diagnosis["evidence"][0]
    assert f"{line['source']}:{line['line']}" in page
    assert line["text"] in page
    assert "where it began" in page
    assert "rank 13" in page
    assert "confidence 97 %" in page
    assert "What was looked for" in page
    assert "read to its end" in page


def test_what_slurm_said_is_told_apart_from_what_we_conclude(read: Read) -> None:
    incident = make_incident()
    give_evidence(incident, {"text": "FAILED, exit code 1", "source": "scheduler", "role": "confirmation"})
    page = read(f"/incidents/{incident.pk}/")
    assert "Slurm says" in page
    assert "We conclude" in page


def test_an_evidence_line_opens_in_its_surroundings(as_viewer: Client) -> None:
    attempt = make_attempt()
    log = attempt.job.stdout
    incident = make_incident(attempt=attempt)
    give_evidence(incident, {"text": "the cause", "source": log, "line": 1841, "role": "cause"})
    for line, text in [(1700, "before"), (1841, "the cause"), (1850, "after")]:
        make_signal(attempt=attempt, file=log, line=line, offset=line * 80, text=text)
    make_signal(attempt=make_attempt(), file=log, line=1842, text="of another attempt")
    make_log_file(attempt=attempt, line=1870)
    part = text_of(as_viewer.get(f"/incidents/{incident.pk}/evidence/0/", headers=HTMX))
    assert part.index("before") < part.index("the cause") < part.index("after")
    assert '<li class="this"><span>1841</span>' in part
    assert "of another attempt" not in part
    assert "1\u202f870 read" in part


def test_an_evidence_line_without_stored_surroundings_says_where_the_log_is(
    as_viewer: Client, question: Question
) -> None:
    part = text_of(as_viewer.get(f"{question.page}evidence/0/", headers=HTMX))
    line = question.incident.diagnosis["evidence"][0]
    assert f"{line['source']}:{line['line']}" in part
    assert as_viewer.get(f"{question.page}evidence/7/").status_code == 404
    assert as_viewer.get("/incidents/999/evidence/0/").status_code == 404


def test_a_recommendation_to_do_nothing_offers_no_approval(as_approver: Client) -> None:
    incident = make_incident(state=S.WATCHING, restart="after_change")
    make_recommendation(
        incident=incident, action=ActionKind.NOTHING, operations=[], headline="Do not restart: fix train.py first."
    )
    page = text_of(as_approver.get(f"/incidents/{incident.pk}/"))
    assert "Do not restart: fix train.py first." in page
    assert "Approve:" not in page
    assert "Restart only after a person changed something" in page


def test_the_page_shows_history_findings_and_every_event(read: Read) -> None:
    question = make_question()
    run = question.incident.run
    old = make_incident(attempt=make_attempt(job=question.incident.attempt.job, number=7), state=S.CLOSED)
    elsewhere = make_incident(headline="another run on gpu-02.")
    elsewhere.run.cluster = run.cluster
    elsewhere.run.save()
    make_finding(incident=question.incident, reason="Slurm says: FAILED.")
    make_event(incident=question.incident, actor_name="mira", reason="looked at it")
    page = read(question.page)
    assert f"/incidents/{old.pk}/" in page
    assert "another run on gpu-02." in page
    assert "Slurm says: FAILED." in page
    assert "looked at it" in page


@pytest.mark.parametrize("part", ["story", "why", "decide", "history", "events"])
def test_each_part_can_be_had_alone(part: str, as_viewer: Client, question: Question) -> None:
    response = as_viewer.get(question.page, {"part": part}, headers=HTMX)
    assert response.status_code == 200
    assert "<html" not in text_of(response)


def test_a_part_asked_for_by_a_person_is_the_whole_page(as_viewer: Client, question: Question) -> None:
    assert "<html" in text_of(as_viewer.get(question.page, {"part": "story"}))


def test_an_incident_that_never_was_is_not_found(as_viewer: Client) -> None:
    response = as_viewer.get("/incidents/999/")
    assert response.status_code == 404
    assert "There is no incident 999." in text_of(response)
    assert 'class="rail"' in text_of(response)


def test_approvals_put_the_most_expensive_wait_first(read: Read) -> None:
    cheap, dear = make_question(headline="cheap."), make_question(headline="dear.")
    make_incident(state=S.NEEDS_PERSON, headline="no decision.")
    type(cheap.recommendation).objects.filter(pk=cheap.recommendation.pk).update(gpus_idle=8)
    type(dear.recommendation).objects.filter(pk=dear.recommendation.pk).update(gpus_idle=512)
    page = read("/approvals/")
    assert page.index("dear.") < page.index("cheap.")
    assert "512 GPUs idle: 8.5 GPU-hours a minute." in page
    assert "no decision." not in page


def test_an_empty_queue_says_what_would_be_here(read: Read) -> None:
    assert "Nothing waits for a decision." in read("/approvals/")


def test_the_small_timeline_is_read_out_as_words(read: Read, question: Question) -> None:
    assert (
        'aria-label="Detected: done; Recommended: done; Acted: waiting for a decision; '
        'Restored: not yet; Next checkpoint: not yet"' in read("/incidents/")
    )


def test_only_who_may_decide_is_asked_to(as_viewer: Client, as_approver: Client, question: Question) -> None:
    for reader, asked in ((as_viewer, False), (as_approver, True)):
        page = reader.get("/approvals/").content.decode()
        assert question.page in page
        assert "○ an approver" in page
        assert (question.approve in page, question.reject in page, "Snooze…" in page) == (asked, asked, asked)
