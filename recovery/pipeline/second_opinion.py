"""Beside the path: asks an external diagnostic service about cases that have a verdict, and stores what it says.

One question at a time, under the lease of the service's lane; no case waits for it. The row of a question is stored
before the service is asked. Nothing that proposes, decides or acts reads what comes back.
"""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q, QuerySet

from recovery.core.opinion import Question
from recovery.models import Attempt, Incident, LogFile, ProviderLane, SecondOpinion
from recovery.models.progress import METRICS_ROW
from recovery.pipeline.leasing import Clock, with_lease
from recovery.providers.base import NotYet, Provider
from recovery.providers.registry import provider_for
from recovery.selectors.provider_reads import asked_within_an_hour
from recovery.sources.beneath import NotThere, Refused, open_file
from recovery.sources.http_get import Trouble

MOST_TRIES = 5  # for one case: what did not come by then does not come
AGAIN = timedelta(seconds=30)  # after a question that got no answer (yet)
LOOKS_BACK = timedelta(hours=6)  # older cases are history
TAIL_BYTES = 64 * 1024
RHYTHM = timedelta(seconds=10)
BACK_OFF, LONGEST = timedelta(seconds=30), timedelta(minutes=10)  # doubled with each failure after the other


def due(now: datetime) -> list[int]:
    """The key of the lane, where it is to be looked at now; [] where no service is set up."""
    if settings.PROVIDER is None:
        return []
    kind = settings.PROVIDER.kind
    ProviderLane.objects.get_or_create(kind=kind, defaults={"next_look_at": now})
    return list(ProviderLane.due(now).filter(kind=kind).values_list("pk", flat=True))


def ask_next(pk: int, *, clock: Clock) -> None:
    """Ask about the newest case that the service has not answered yet."""

    def look(lane: ProviderLane) -> datetime | None:
        if settings.PROVIDER is None or lane.kind != settings.PROVIDER.kind:
            return None
        now = clock()
        incident = waiting(now).first()
        if incident is None:
            return now + RHYTHM
        if asked_within_an_hour(now=now) >= settings.PROVIDER.per_hour:
            return now + LONGEST / 10
        return _ask(lane, incident, provider_for(settings.PROVIDER), clock=clock)

    with_lease(ProviderLane, pk, look, clock=clock)


def waiting(now: datetime) -> QuerySet[Incident]:
    """Cases with a verdict of ours and no answer of the service that may be asked about now, the newest first."""
    answered = Q(second_opinion__answered_at__isnull=False)
    tried = Q(second_opinion__tries__gte=MOST_TRIES) | Q(second_opinion__asked_at__gt=now - AGAIN)
    found = Incident.objects.filter(detected_at__gte=now - LOOKS_BACK).exclude(failure_class="")
    return found.exclude(answered).exclude(tried).order_by("-detected_at", "-pk")


def _ask(lane: ProviderLane, incident: Incident, provider: Provider, *, clock: Clock) -> datetime:
    """When to look at the lane again."""
    opinion = _intend(incident, lane.kind, now=clock())
    begun = time.monotonic()
    try:
        said = provider.ask(question(incident.attempt, with_text=lane.kind != "nvrx"))
    except NotYet:
        _lane_good(lane, now=clock())
        return clock() + timedelta(seconds=1)
    except Trouble as trouble:
        SecondOpinion.objects.filter(pk=opinion.pk).update(
            trouble=trouble.sentence[:300], remedy=trouble.remedy[:300]
        )  # fmt: skip
        return _lane_bad(lane, trouble, now=clock())
    now = clock()
    SecondOpinion.objects.filter(pk=opinion.pk).update(
        answered_at=now, duration_s=round(time.monotonic() - begun, 3), failure_class=said.failure_class,
        restart=said.restart, nodes=list(said.nodes), confidence=said.confidence, reason=said.reason,
        trouble="", remedy="", our_class=incident.failure_class, our_restart=incident.restart,
    )  # fmt: skip
    _lane_good(lane, now=now)
    return now + timedelta(seconds=1)


def _intend(incident: Incident, kind: str, *, now: datetime) -> SecondOpinion:
    opinion, _ = SecondOpinion.objects.get_or_create(
        incident=incident, defaults={"provider": kind, "asked_at": now}
    )  # fmt: skip
    opinion.provider, opinion.asked_at, opinion.tries = kind, now, opinion.tries + 1
    opinion.save(update_fields=["provider", "asked_at", "tries"])
    return opinion


def _lane_good(lane: ProviderLane, *, now: datetime) -> None:
    ProviderLane.objects.filter(pk=lane.pk).update(tried_at=now, good_at=now, trouble="", remedy="", failures=0)


def _lane_bad(lane: ProviderLane, trouble: Trouble, *, now: datetime) -> datetime:
    failures = lane.failures + 1
    ProviderLane.objects.filter(pk=lane.pk).update(
        tried_at=now, trouble=trouble.sentence[:300], remedy=trouble.remedy[:300], failures=failures
    )
    wait: timedelta = min(BACK_OFF * 2 ** min(failures - 1, 6), LONGEST)
    return now + wait


# --- what it is told --------------------------------------------------------------------------------------------------


def question(attempt: Attempt, *, with_text: bool) -> Question:
    job = attempt.job
    log = _log(attempt)
    return Question(
        job_id=job.job_id, user=job.user, name=job.name, cluster=job.cluster.name, state=attempt.state,
        exit_code=attempt.exit_code, restart_count=attempt.number, nodes=tuple(attempt.nodes),
        log_path=log, log_tail=tail(log) if with_text and log else "",
    )  # fmt: skip


def _log(attempt: Attempt) -> str:
    """The log that was read furthest: what went wrong is most likely in it."""
    read = LogFile.objects.filter(attempt=attempt, error="").exclude(path__startswith=METRICS_ROW)
    read = read.order_by("-offset", "path")
    return read.values_list("path", flat=True).first() or ""


def tail(path: str) -> str:
    """The last lines of a log below the roots; "" where it can't be read."""
    try:
        file = open_file(path, roots=settings.LOG_ROOTS, setting="RECOVERY_LOG_ROOTS")
    except (Refused, NotThere):
        return ""
    with os.fdopen(file, "rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - TAIL_BYTES))
        text = stream.read(TAIL_BYTES).decode("utf-8", errors="replace")
    return text if size <= TAIL_BYTES else text.partition("\n")[2]
