"""NVRx's attribution service: the shapes of its releases, and none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from recovery.core.opinion import PROVIDER_KINDS, Opinion, ProviderSettings, Question, same_class, same_restart
from recovery.providers.base import NotYet
from recovery.providers.nvrx import Nvrx, opinion_of
from recovery.providers.registry import PROVIDERS
from recovery.sources.http_get import Trouble
from tests.sources.site_server import Site, running_site

ASKED = Question(job_id="7", user="ana", log_path="/logs/7.out")
ITEM = {
    "raw_text": "STOP - DONT RESTART IMMEDIATE\nno",
    "auto_resume": "STOP - DONT RESTART IMMEDIATE",
    "auto_resume_explanation": "The same error would come again.",
    "attribution_text": "A missing key in the data loader of rank 3.",
    "checkpoint_saved_flag": 0,
    "action": "STOP",
    "primary_issues": ["DATA LOADER ERROR"],
}
DONE = {"status": "completed", "result": {"module": "log_analyzer", "result": [ITEM]}, "wl_restart": 0}


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as found:
        yield found


def asking(site: Site, *answers: tuple[int, Any]) -> Nvrx:
    """The first answer is to POST /logs, the second to GET /logs."""
    left = list(answers)
    site.answer = lambda path, given: left.pop(0)
    return Nvrx(ProviderSettings(kind="nvrx", url=site.url, timeout_s=2))


SUBMITTED = (200, {"submitted": True, "normalized_path": "/logs/7.out", "mode": "pending"})


def test_the_log_is_handed_over_by_its_path_and_asked_for_without_waiting(site: Site) -> None:
    said = asking(site, SUBMITTED, (200, {**DONE, "recommendation": {"action": "STOP"}})).ask(ASKED)
    assert said == Opinion(
        failure_class="DATA LOADER ERROR", restart="no", reason="A missing key in the data loader of rank 3."
    )
    assert [(path, given) for path, given, _ in site.asked][1] == (
        "/logs", {"log_path": "/logs/7.out", "wait": "false"},
    )  # fmt: skip


@pytest.mark.parametrize("status", ["pending", "in_flight"])
def test_an_analysis_under_way_is_no_answer_yet(site: Site, status: str) -> None:
    with pytest.raises(NotYet):
        asking(site, SUBMITTED, (200, {"status": status, "result": {}})).ask(ASKED)


@pytest.mark.parametrize("action", ["UNKNOWN", "TIMEOUT", ""])
def test_no_conclusion_is_no_opinion(site: Site, action: str) -> None:
    body = {"status": "completed", "result": {"result": []}, "recommendation": {"action": action}}
    with pytest.raises(Trouble, match="no conclusion"):
        asking(site, SUBMITTED, (200, body)).ask(ASKED)


def test_a_refused_path_is_said_in_its_words(site: Site) -> None:
    refused = (403, {"error_code": "outside_root", "message": "path is outside the allowed root"})
    with pytest.raises(Trouble) as raised:
        asking(site, refused).ask(ASKED)
    assert "403" in raised.value.sentence


def test_a_job_without_a_log_is_not_asked_about(site: Site) -> None:
    with pytest.raises(Trouble, match="writes no log"):
        asking(site).ask(Question(job_id="7"))
    assert site.asked == []


OLDER = "RESTART IMMEDIATE\nA link failed.\n\nAttribution: The network of one node.\n\nfalse"


@pytest.mark.parametrize(
    ("body", "restart", "reason"),
    [
        ({"status": "completed", "result": {"result": [[OLDER, 1.0]]}}, "yes", "The network of one node."),
        ({"status": "completed", "result": {"result": [OLDER]}}, "yes", "The network of one node."),
        (DONE, "no", "A missing key in the data loader of rank 3."),
        ({**DONE, "recommendation": {"action": "CONTINUE"}}, "yes", "A missing key in the data loader of rank 3."),
        ({"result": {"result": "ERRORS NOT FOUND\nnothing"}}, "", "nothing"),
    ],
)
def test_each_release_is_understood(body: dict[str, Any], restart: str, reason: str) -> None:
    said = opinion_of(body)
    assert said is not None
    assert (said.restart, said.reason) == (restart, reason)


@pytest.mark.parametrize(
    "result",
    [None, 7, [], [[]], {"result": {"result": 3}}, {"result": [None]}, {"result": [{"action": 7}]}],
)
def test_what_makes_no_sense_says_nothing(result: Any) -> None:
    assert opinion_of({"status": "completed", "result": result}) is None


def test_every_word_of_the_setting_has_its_service() -> None:
    assert set(PROVIDERS) == set(PROVIDER_KINDS)


@pytest.mark.parametrize(
    ("said", "ours", "same"),
    [
        ("yes", "once", True),
        ("yes", "after_change", False),
        ("no", "no", True),
        ("no", "yes", False),
        ("", "yes", None),
    ],
)
def test_what_counts_as_agreement(said: str, ours: str, same: bool | None) -> None:
    assert same_restart(said, ours) is same
    assert same_class(said, "user_code") is (None if said == "" else False)
