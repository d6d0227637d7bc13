"""The phases of an attempt, from its start to its end, as its stored samples and signals tell them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from recovery.core.ledger import PhaseSpan, replay_phases, unseen_since
from recovery.core.ledger.spans import to_datetime
from recovery.core.types import Phase, SignalKind
from recovery.models import Attempt, AttemptTrace, BlindSpell, Sample, Signal

SHOWN = 20
MOST_MARKS = 5000  # newest samples and signals beyond the kept trace that are looked at
_KINDS = frozenset(SignalKind) - {SignalKind.PROGRESS, SignalKind.FAILURE}


@dataclass(frozen=True, kw_only=True, slots=True)
class Phases:
    """The spans, oldest first, and for how many seconds each phase lasted in all, in how many spans."""

    spans: tuple[PhaseSpan, ...] = ()
    seconds: tuple[tuple[Phase, float, int], ...] = ()

    @property
    def newest(self) -> list[tuple[PhaseSpan, float | None]]:
        """The last SHOWN of them, newest first, with how long each lasted; None: it still does."""
        shown = self.spans[: -SHOWN - 1 : -1]
        return [(span, None if span.end is None else (span.end - span.start).total_seconds()) for span in shown]

    @property
    def earlier(self) -> int:
        return max(0, len(self.spans) - SHOWN)


def attempt_phases(attempt: Attempt, *, now: datetime) -> Phases:
    """At most four queries. Nothing where it has not started; *unknown* where, or since, nobody could read it."""
    if attempt.started_at is None:
        return Phases()
    if attempt.read_at is None:
        span = PhaseSpan(attempt=attempt.pk, phase=Phase.UNKNOWN, start=attempt.started_at, end=attempt.ended_at)
        return _counted((span,), now)
    marks = _marks(attempt)
    spans = replay_phases(attempt.pk, started_at=attempt.started_at, ended_at=attempt.ended_at, marks=marks)
    if attempt.blind_reason:
        spans = unseen_since(spans, _blind_at(attempt, attempt.started_at))
    return _counted(spans, now)


def _blind_at(attempt: Attempt, started_at: datetime) -> datetime:
    open_spell = BlindSpell.objects.filter(attempt=attempt, ended_at=None).values_list("started_at", flat=True).first()
    return open_spell or attempt.last_progress_at or started_at


def _marks(attempt: Attempt) -> set[tuple[datetime, SignalKind]]:
    """What the ledger's trace keeps, thinned, and what came since."""
    trace = AttemptTrace.objects.filter(attempt=attempt).first()
    samples, signals = Sample.objects.filter(attempt=attempt), Signal.objects.filter(attempt=attempt, kind__in=_KINDS)
    marks: set[tuple[datetime, SignalKind]] = set()
    if trace is not None:
        # kept before anybody had reported, it does not know whose reports count
        rank = {} if trace.rank is None else {"rank": trace.rank}
        samples = samples.filter(**rank, at__gte=to_datetime(trace.until_us))
        signals = signals.filter(at__gte=to_datetime(trace.until_us))
        marks |= {(to_datetime(int(at)), SignalKind.PROGRESS) for at, _ in trace.marks}
        marks |= {(to_datetime(int(at)), SignalKind(kind)) for at, kind, _ in trace.signals}
    marks |= {(at, SignalKind.PROGRESS) for at in samples.order_by("-at").values_list("at", flat=True)[:MOST_MARKS]}
    newest = signals.order_by("-at", "-pk").values_list("at", "kind")[:MOST_MARKS]
    return marks | {(at, SignalKind(kind)) for at, kind in newest}


def _counted(spans: tuple[PhaseSpan, ...], now: datetime) -> Phases:
    found: dict[Phase, tuple[float, int]] = {}
    for span in spans:
        seconds, count = found.get(span.phase, (0.0, 0))
        lasted = ((span.end or now) - span.start).total_seconds()
        found[span.phase] = seconds + max(0.0, lasted), count + 1
    return Phases(spans=spans, seconds=tuple((phase, *found[phase]) for phase in Phase if phase in found))
