"""The product itself: database, broker, workers, time zone, and the folders that it may read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

from recovery import selectors
from recovery.celery import app
from recovery.core.opinion import ProviderMode
from recovery.core.speech import duration
from recovery.core.words import PROVIDER_WORDS
from recovery.doctor.results import Group, Result, State
from recovery.doctor.sign_on import examine_sign_on
from recovery.models import Upkeep
from recovery.selectors import audit_reads

BROKER_TIMEOUT_S = 3
UPKEEP_LATE = timedelta(hours=1)  # it is due every minute
AUDIT_LATE = timedelta(hours=3)  # a round begins every hour


def examine_installation(*, now: datetime, ask_broker: bool) -> Iterator[Result]:
    """What others stand on first. `ask_broker`: may take seconds where the broker is away, so no page asks it."""
    data = database(now)
    yield data
    if ask_broker:
        yield broker(now)
    if data.state is State.GOOD:
        yield workers(now)
        yield tables(now)
        yield audit_trail(now)
        yield provider(now)
        if ask_broker:
            yield from examine_sign_on(now=now)
    yield time_zone(now)


def _result(what: str, detail: str, *, at: datetime, remedy: str = "", state: State | None = None) -> Result:
    state = state or (State.BROKEN if remedy else State.GOOD)
    return Result(group=Group.INSTALLATION, what=what, detail=detail, remedy=remedy, state=state, at=at)


def database(now: datetime) -> Result:
    what = f"database ({connection.vendor})"
    try:
        executor = MigrationExecutor(connection)
    except DatabaseError as error:
        return _result(what, first_line(error), remedy="Check DATABASE_URL, and that the server runs.", at=now)
    waiting = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    if waiting:
        detail = f"{waiting} migrations are not applied"
        return _result(what, detail, remedy="Run `python manage.py migrate`.", at=now)
    return _result(what, "answers, all migrations are applied", at=now)


def broker(now: datetime) -> Result:
    what = f"broker ({broker_setting()})"
    trouble = broker_folder_trouble()
    if trouble:
        return _result(what, trouble, remedy="Make that folder, or correct REDIS_URL.", at=now)
    if broker_folder():
        return _result(what, "can be written", at=now)
    with app.connection_for_write(connect_timeout=BROKER_TIMEOUT_S) as link:
        try:
            link.ensure_connection(max_retries=1, timeout=BROKER_TIMEOUT_S)
        except Exception as error:  # noqa: BLE001 - each transport has errors of its own
            remedy = "Check REDIS_URL, and that Redis runs. Nothing is lost meanwhile, but nothing is looked at either."
            return _result(what, first_line(error), remedy=remedy, at=now)
    return _result(what, "answers", at=now)


def broker_folder() -> str:
    """The folder that REDIS_URL=filesystem:///FOLDER names; "" where it names a Redis."""
    return str(app.conf.broker_transport_options.get("data_folder_in", ""))


def broker_folder_trouble() -> str:
    """Why no message can pass through the broker's folder; "" where it can, or there is none. Kombu makes no folder."""
    path = broker_folder()
    if not path:
        return ""
    if not Path(path).is_dir():
        return f"there is no folder {path} here"
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return f"user id {os.geteuid()} can't read and write the folder {path}"
    return ""


def broker_setting() -> str:
    """REDIS_URL as people may see it: without user, password and options."""
    path = broker_folder()
    if path:
        return f"filesystem://{path}"
    parts = urlsplit(app.conf.broker_write_url or app.conf.broker_url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def workers(now: datetime) -> Result:
    """Nothing records a worker's pulse: that no work is overdue is what it does for us."""
    what = "workers and beat"
    overdue_s = selectors.overdue_s(now=now)
    looked_at = max((c.tried_at for c in selectors.clusters().filter(enabled=True) if c.tried_at), default=None)
    last = f"; the last look at a cluster was {duration((now - looked_at).total_seconds())} ago" if looked_at else ""
    limit_s = selectors.overdue_limit_s()
    if overdue_s > limit_s and looked_at and (now - looked_at).total_seconds() <= limit_s:
        detail = f"work is overdue for {duration(overdue_s)}, but somebody is at it{last}"
        remedy = "Just after a start this passes by itself; where it stays so, start a further worker."
        return _result(what, detail, remedy=remedy, state=State.ATTENTION, at=now)
    if overdue_s > limit_s:
        remedy = "Start a worker and beat (docs/operations.md, “What runs”): until then nothing is looked at."
        return _result(what, f"work is overdue for {duration(overdue_s)}{last}", remedy=remedy, at=now)
    if not last:
        detail = "nothing is due and no cluster was looked at yet, so nothing tells whether they run"
        return _result(what, detail, state=State.NOT_TRIED, at=now)
    return _result(what, f"nothing is overdue{last}", at=now)


def tables(now: datetime) -> Result:
    """Whether what is stored is rolled up and cleared: without it nothing is lost, but the tables only grow."""
    what, row = "upkeep of the tables", Upkeep.objects.first()
    last = f"last done {duration((now - row.at).total_seconds())} ago" if row and row.at else "was not done yet"
    if row is not None and row.error:
        remedy = "It is tried again within minutes; the worker's log has the whole error (docs/storage.md)."
        return _result(what, f"failed: {row.error}; {last}", remedy=remedy, at=now)
    if row is None or row.at is None:
        return _result(what, last, state=State.NOT_TRIED, at=now)
    if now - row.at > UPKEEP_LATE:
        remedy = "Start a worker and beat (docs/operations.md, “What runs”); where they run, start a further worker."
        return _result(what, last, remedy=remedy, state=State.ATTENTION, at=now)
    return _result(what, last, at=now)


def audit_trail(now: datetime) -> Result:
    """What the last round over the chain found, whether rounds are made, and whether the database guards the rows."""
    what, chain = "audit trail", audit_reads.audit_chain()
    unguarded = _guards().missing(connection)
    if chain.bad_id is not None:
        remedy = "Compare with an export or a backup; docs/audit.md says what is found and what is not."
        return _result(what, f"broken at event {chain.bad_id}. {chain.bad_reason}", remedy=remedy, at=now)
    if unguarded:
        remedy = "Run `python manage.py migrate`, then `python manage.py verify_audit`; find out who removed them."
        return _result(what, f"the triggers of {', '.join(unguarded)} are missing", remedy=remedy, at=now)
    if chain.verified_at is None:
        return _result(what, "was not verified yet", state=State.NOT_TRIED, at=now)
    last = f"whole up to event {chain.verified_id}, {duration((now - chain.verified_at).total_seconds())} ago"
    if now - chain.verified_at > AUDIT_LATE:
        remedy = "Start a worker and beat, or run `python manage.py verify_audit`."
        return _result(what, last, remedy=remedy, state=State.ATTENTION, at=now)
    return _result(what, last, at=now)


def _guards() -> Any:
    return import_module("recovery.migrations.0002_append_only_events")


def provider(now: datetime) -> Result:
    """Whose rules verdicts rest on. Nothing here asks the service: a worker does, and keeps what came of it."""
    status = selectors.provider_status(now=now)
    words = PROVIDER_WORDS[status.mode]
    last = f"; it last answered {duration((now - status.good_at).total_seconds())} ago" if status.good_at else ""
    detail = f"{words.label.lower()}. {status.sentence.rstrip('.')}{last}"
    return _result("diagnosis", detail, remedy=status.remedy, state=_PROVIDER_STATES[status.mode], at=now)


_PROVIDER_STATES = {
    ProviderMode.OFF: State.GOOD, ProviderMode.GOOD: State.GOOD, ProviderMode.WAITING: State.NOT_TRIED,
    ProviderMode.DEGRADED: State.ATTENTION,
}  # fmt: skip


def time_zone(now: datetime) -> Result:
    """Trainers print the local time of their node, mostly without a zone; this machine's is a good guess of theirs."""
    zone = settings.LOG_TIME_ZONE
    ours, read_as = now.astimezone().utcoffset(), now.astimezone(ZoneInfo(zone)).utcoffset()
    if ours == read_as:
        return _result("time zone", f"times in logs without a zone are read as {zone}, as this machine's clock", at=now)
    detail = f"times in logs without a zone are read as {zone}, but this machine's clock shows {now.astimezone():%Z}"
    remedy = "Where trainers print local time, set RECOVERY_LOG_TIME_ZONE to the cluster's zone, as Europe/Paris."
    return _result("time zone", detail, remedy=remedy, state=State.ATTENTION, at=now)


def roots(now: datetime) -> Iterator[Result]:
    """The folders below which job files are read."""
    for root in settings.LOG_ROOTS:
        yield folder("log root", Path(root), setting="RECOVERY_LOG_ROOTS", at=now)
    for root in settings.CHECKPOINT_ROOTS:
        yield folder("checkpoint root", Path(root), setting="RECOVERY_CHECKPOINT_ROOTS", at=now)


def folder(what: str, path: Path, *, setting: str, at: datetime) -> Result:
    detail, remedy = "can be read", ""
    if not path.is_dir():
        detail, remedy = "is no folder here", f"Mount it on this machine, or correct {setting}."
    elif not os.access(path, os.R_OK | os.X_OK):
        detail = "can't be read"
        remedy = f"Let user id {os.geteuid()} read it (group or ACL); what it can't read is shown as blind."
    state = State.BROKEN if remedy else State.GOOD
    return Result(group=Group.FILES, what=f"{what} {path}", detail=detail, remedy=remedy, state=state, at=at)


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
