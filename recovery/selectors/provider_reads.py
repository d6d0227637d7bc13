"""The external diagnostic service: how it stands now, what it said of a case, and how often it agreed with us."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Sum

from recovery.core.opinion import ProviderMode, same_class, same_restart
from recovery.models import Incident, ProviderLane, SecondOpinion
from recovery.selectors.ledger_reads import Window

BUDGET_WINDOW = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderStatus:
    mode: ProviderMode
    sentence: str
    remedy: str = ""
    tried_at: datetime | None = None  # of the last question
    good_at: datetime | None = None  # of the last good answer


def provider_status(*, now: datetime) -> ProviderStatus:
    """Two queries where a service is set up, else none."""
    setup = settings.PROVIDER
    if setup is None:
        return ProviderStatus(mode=ProviderMode.OFF, sentence="No external diagnostic service is set up.")
    lane = ProviderLane.objects.filter(kind=setup.kind).first()
    if lane is None or lane.tried_at is None:
        sentence = f"{setup.url} is set up and was not asked yet: it is when a case has a verdict."
        return ProviderStatus(mode=ProviderMode.WAITING, sentence=sentence)
    good = ProviderStatus(
        mode=ProviderMode.GOOD, sentence=f"{setup.url} answers.", tried_at=lane.tried_at, good_at=lane.good_at
    )
    if lane.trouble:
        return replace(good, mode=ProviderMode.DEGRADED, sentence=lane.trouble, remedy=lane.remedy)
    if asked_within_an_hour(now=now) >= setup.per_hour:
        sentence = f"The {setup.per_hour} questions that may be asked within an hour are used up."
        remedy = "Raise RECOVERY_PROVIDER_PER_HOUR if the service can bear it."
        return replace(good, mode=ProviderMode.DEGRADED, sentence=sentence, remedy=remedy)
    return good


def asked_within_an_hour(*, now: datetime) -> int:
    """Never too few: every try of a case that was asked about within the hour counts."""
    recent = SecondOpinion.objects.filter(asked_at__gt=now - BUDGET_WINDOW)
    return recent.aggregate(tries=Sum("tries"))["tries"] or 0


def second_opinion(incident: Incident) -> SecondOpinion | None:
    return SecondOpinion.objects.filter(incident=incident).first()


@dataclass(frozen=True, kw_only=True, slots=True)
class OpinionScore:
    """What the service said against what we said at that moment. Counts of cases; figures of our own are elsewhere."""

    asked: int
    answered: int
    named_class: int  # of the answered
    same_class: int
    named_restart: int
    same_restart: int


# a filter of reports → how it is reached from an opinion; a policy's has no meaning here
_ONLY = {
    "cluster": "incident__run__cluster__name", "user": "incident__run__user", "run": "incident__run_id",
    "account": "incident__attempt__job__account", "partition": "incident__attempt__job__partition",
    "qos": "incident__attempt__job__qos",
}  # fmt: skip


def opinion_score(window: Window) -> OpinionScore | None:
    """Over the cases that were asked about in the window; None where none was, or a policy filters. One query."""
    if set(window.only) - set(_ONLY):
        return None
    found = SecondOpinion.objects.filter(asked_at__gte=window.start, asked_at__lt=window.end)
    found = found.filter(**{_ONLY[name]: value for name, value in window.only.items()})
    if window.runs is not None:
        found = found.filter(incident__run__in=window.runs)
    counted = _counted(found)
    return counted if counted.asked else None


def _counted(opinions: Iterable[SecondOpinion]) -> OpinionScore:
    rows = list(opinions)
    answered = [row for row in rows if row.answered_at is not None]
    classes = [same_class(row.failure_class, row.our_class) for row in answered]
    restarts = [same_restart(row.restart, row.our_restart) for row in answered]
    return OpinionScore(
        asked=len(rows),
        answered=len(answered),
        named_class=sum(each is not None for each in classes),
        same_class=sum(each is True for each in classes),
        named_restart=sum(each is not None for each in restarts),
        same_restart=sum(each is True for each in restarts),
    )
