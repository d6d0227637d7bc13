"""What tells of an attempt's progress beside its log. A new source is a line here.

`wants` asks for all attempts of a batch at once, in a constant number of queries, which of them a source may have
something to say of; only for those `read` is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from recovery.models import PushSender
from recovery.pipeline.metrics_source import read_metrics, that_measure
from recovery.pipeline.push import read_pushed
from recovery.pipeline.reading import ReadSource

Wants = Callable[[Sequence[int]], set[int]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    read: ReadSource
    wants: Wants


def that_push(keys: Sequence[int]) -> set[int]:
    """Also those that have nothing new: silence of a sender is told too."""
    return set(PushSender.objects.filter(attempt_id__in=keys).values_list("attempt_id", flat=True))


SOURCES: tuple[Source, ...] = (
    Source(read=read_pushed, wants=that_push),
    Source(read=read_metrics, wants=that_measure),
)
