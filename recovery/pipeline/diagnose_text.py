"""The verdict on a log that somebody pasted or sent: judged as by `manage.py diagnose`, and nothing is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recovery.core.opinion import printable
from recovery.core.types import Diagnosis
from recovery.evaluation import verdict_on
from recovery.offline.logs import TextLog
from recovery.offline.record import JobRecordError, OfflineJob
from recovery.pipeline.facts import limits

MOST_BYTES = 2_000_000  # of all logs together; judging them takes about a second
MOST_LOGS = 32
NAME_CHARS = 120


def text_log(name: str, data: bytes) -> TextLog:
    """`name` is only shown: no file of that name is ever opened."""
    return TextLog(name=printable(name, NAME_CHARS) or "log", data=data)


def diagnose_text(logs: Sequence[TextLog], record: Mapping[str, Any]) -> Diagnosis:
    """Raises JobRecordError, which names the field."""
    given = dict(record)
    events, checkpoints = given.pop("node_events", []), given.pop("checkpoints", [])
    if not isinstance(events, list) or not isinstance(checkpoints, list):
        raise JobRecordError("node_events and checkpoints must be lists")
    return verdict_on(OfflineJob.read(given, node_events=events, checkpoints=checkpoints), logs, limits())
