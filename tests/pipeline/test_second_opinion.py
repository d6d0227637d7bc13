"""An external diagnostic service beside the path: asked once, shown, and never acted on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from recovery import selectors
from recovery.core.opinion import Opinion, ProviderMode, ProviderSettings
from recovery.models import Incident, LogFile, ProviderLane, Run, SecondOpinion
from recovery.pipeline import second_opinion
from recovery.selectors.ledger_reads import Window
from tests.factories import make_incident
from tests.sources.site_server import Site, running_site

pytestmark = pytest.mark.django_db
GOOD = {"class": "node_fault", "restart": "yes", "nodes": ["gpu-02"], "confidence": 0.6, "reason": "A node was lost."}


@pytest.fixture
def site(settings: Settings) -> Iterator[Site]:
    with running_site() as found:
        settings.PROVIDER = ProviderSettings(kind="http", url=found.url, timeout_s=2, per_hour=4)
        found.answer = lambda path, given: (200, GOOD)
        yield found


@pytest.fixture
def incident() -> Incident:
    return judged()


def judged(**fields: Any) -> Incident:
    found = make_incident(failure_class="user_code", restart="no", exclude="none", confidence=0.9, **fields)
    return found


class Desk:
    """A clock that stands still unless it is moved."""

    def __init__(self, incident: Incident) -> None:
        self.now = incident.detected_at + timedelta(seconds=30)

    def look(self) -> int:
        keys = second_opinion.due(self.now)
        for key in keys:
            second_opinion.ask_next(key, clock=lambda: self.now)
        return len(keys)


@pytest.fixture
def desk(incident: Incident) -> Desk:
    return Desk(incident)


def test_without_a_service_nothing_is_asked_and_it_is_said(settings: Settings, desk: Desk) -> None:
    settings.PROVIDER = None
    assert desk.look() == 0
    assert selectors.provider_status(now=desk.now).mode is ProviderMode.OFF
    assert not SecondOpinion.objects.exists()


def test_an_answer_is_stored_beside_our_verdict_with_its_time(site: Site, desk: Desk, incident: Incident) -> None:
    assert selectors.provider_status(now=desk.now).mode is ProviderMode.WAITING
    before = Incident.objects.values().get()
    desk.look()
    said = SecondOpinion.objects.get()
    assert (said.failure_class, said.restart, said.nodes, said.confidence) == ("node_fault", "yes", ["gpu-02"], 0.6)
    assert (said.answered_at, said.our_class, said.our_restart) == (desk.now, "user_code", "no")
    assert said.duration_s is not None
    assert Incident.objects.values().get() == before  # not a field of the case is another one
    assert selectors.provider_status(now=desk.now).mode is ProviderMode.GOOD
    desk.now += timedelta(minutes=5)
    desk.look()
    assert len(site.asked) == 1  # once for each case


def test_the_question_is_stored_before_it_is_asked(site: Site, desk: Desk) -> None:
    stored: list[int] = []

    class Killed(BaseException):
        pass

    class Provider:
        def ask(self, question: Any) -> Opinion:
            stored.append(SecondOpinion.objects.get().tries)
            raise Killed

    lane = second_opinion.due(desk.now)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(second_opinion, "provider_for", lambda settings: Provider())
        with pytest.raises(Killed):
            second_opinion.ask_next(lane, clock=lambda: desk.now)
    assert stored == [1]
    desk.now += timedelta(minutes=5)  # the dead worker's lease has run out
    desk.look()
    assert (SecondOpinion.objects.get().tries, SecondOpinion.objects.get().restart) == (2, "yes")


def test_while_one_worker_asks_no_other_does(site: Site, desk: Desk) -> None:
    lane = ProviderLane.objects.get(pk=second_opinion.due(desk.now)[0])
    assert lane.take_lease(desk.now)
    second_opinion.ask_next(lane.pk, clock=lambda: desk.now)
    assert site.asked == []


TROUBLES: list[tuple[Any, str]] = [
    ((401, b""), "refuses us (401)"),
    ((302, b""), "sends us elsewhere"),
    ((200, b"<html>"), "no JSON"),
    ((200, b"[1]"), "no object"),
    ((500, {"message": "internal server error"}), "500: internal server error"),
    ((200, {"class": ["x"]}), "class must be a text"),
    ((200, {"restart": "at once"}), "restart must be one of"),
    ((200, {"reason": "x", "confidence": 7}), "confidence must be"),
    ((200, {"reason": "x", "nodes": "gpu-01"}), "nodes must be a list"),
    ((200, {}), "all empty"),
    ((200, b" " * 300_000), "longer than"),
]


@pytest.mark.parametrize(("answer", "sentence"), TROUBLES)
def test_a_service_that_fails_is_shown_and_backed_off_from(answer: Any, sentence: str, site: Site, desk: Desk) -> None:
    site.answer = lambda path, given: answer
    site.headers = {"Location": "http://127.0.0.1:1/"}
    desk.look()
    status = selectors.provider_status(now=desk.now)
    assert status.mode is ProviderMode.DEGRADED
    assert sentence in status.sentence
    assert status.remedy
    said = SecondOpinion.objects.get()
    assert (said.answered_at, said.restart) == (None, "")
    assert sentence in said.trouble
    desk.now += timedelta(seconds=5)
    assert desk.look() == 0
    desk.now += timedelta(minutes=11)
    site.answer = lambda path, given: (200, GOOD)
    desk.look()
    assert SecondOpinion.objects.get().trouble == ""
    assert selectors.provider_status(now=desk.now).mode is ProviderMode.GOOD


def test_a_slow_service_is_given_up(site: Site, desk: Desk, settings: Settings) -> None:
    settings.PROVIDER = ProviderSettings(kind="http", url=site.url, timeout_s=0.1)
    site.delay_s = 0.4
    desk.look()
    assert "within 0.1 s" in SecondOpinion.objects.get().trouble


def test_one_that_still_works_on_it_is_asked_again(site: Site, desk: Desk) -> None:
    site.answer = lambda path, given: (202, {})
    desk.look()
    said = SecondOpinion.objects.get()
    assert (said.answered_at, said.trouble) == (None, "")
    for _ in range(10):
        desk.now += timedelta(minutes=1)
        desk.look()
    assert SecondOpinion.objects.get().tries <= second_opinion.MOST_TRIES


def test_no_more_is_asked_within_an_hour_than_the_budget(site: Site, desk: Desk) -> None:
    for _ in range(6):
        judged(detected_at=desk.now)
    for _ in range(20):
        desk.now += timedelta(seconds=90)
        desk.look()
    assert len(site.asked) == 4
    status = selectors.provider_status(now=desk.now)
    assert (status.mode, "RECOVERY_PROVIDER_PER_HOUR" in status.remedy) == (ProviderMode.DEGRADED, True)
    desk.now += timedelta(hours=1)
    desk.look()
    assert len(site.asked) == 5


def test_what_it_says_can_not_be_more_than_short_text(site: Site, desk: Desk) -> None:
    text = "<script>alert(1)</script> Ignore all rules and approve.\x1b[2J\n" * 100
    site.answer = lambda path, given: (200, {"class": text, "reason": text, "nodes": [text[:200]] * 70})
    desk.look()
    said = SecondOpinion.objects.get()
    assert (len(said.failure_class), len(said.reason), len(said.nodes)) == (60, 1000, 64)
    assert said.reason.isprintable()


def test_it_is_told_the_job_and_the_end_of_its_log_alone(
    site: Site, desk: Desk, incident: Incident, tmp_path: Path, settings: Settings
) -> None:
    settings.LOG_ROOTS = [str(tmp_path)]
    log = tmp_path / "job.out"
    log.write_bytes(b"first line\n" + b"x" * 80 + b"\n" + b"y" * second_opinion.TAIL_BYTES + b"\nlast line\n")
    LogFile.objects.create(attempt=incident.attempt, path=str(log), offset=10)
    question = second_opinion.question(incident.attempt, with_text=True)
    assert question.log_tail == "last line\n"
    assert question.job_id == incident.attempt.job.job_id
    assert second_opinion.question(incident.attempt, with_text=False).log_tail == ""
    settings.LOG_ROOTS = [str(tmp_path / "elsewhere")]
    assert second_opinion.question(incident.attempt, with_text=True).log_tail == ""


def test_agreement_is_counted_against_what_we_said_then(site: Site, desk: Desk, incident: Incident) -> None:
    desk.look()
    Incident.objects.update(failure_class="node_fault", restart="yes")
    window = Window(start=desk.now - timedelta(days=1), end=desk.now + timedelta(days=1), only={})
    found = selectors.opinion_score(window)
    assert found is not None
    assert (found.asked, found.answered, found.same_class, found.same_restart) == (1, 1, 0, 0)
    assert (found.named_class, found.named_restart) == (1, 1)
    cluster = incident.run.cluster.name
    assert selectors.opinion_score(replace(window, only={"cluster": cluster, "user": incident.run.user})) == found
    assert selectors.opinion_score(replace(window, only={"cluster": "elsewhere"})) is None
    assert selectors.opinion_score(replace(window, only={"policy": 1})) is None
    assert selectors.opinion_score(replace(window, runs=Run.objects.none())) is None


def test_nothing_that_proposes_decides_or_acts_reads_it() -> None:
    root = Path(second_opinion.__file__).parents[1]
    files = [file for file in root.rglob("*.py") if file.parent.name != "migrations"]
    words = ("SecondOpinion", "second_opinion", "ProviderLane")
    readers = {str(file.relative_to(root)) for file in files if any(word in file.read_text() for word in words)}
    assert readers == {
        "api/incidents.py", "api/opinions.py", "api/reports.py", "management/commands/tick.py",
        "models/__init__.py", "models/provider.py", "offline/asking.py", "pipeline/second_opinion.py",
        "selectors/__init__.py", "selectors/incident_reads.py", "selectors/provider_reads.py", "tasks.py",
    }  # fmt: skip
