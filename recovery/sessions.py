"""Sessions of the pages, in Django's own table: how long one lasts, and when it asks for the password again.

A session keeps three moments, in seconds since 1970: `began` (the log-in), `seen` (the last page that a person opened
or sent) and `confirmed` (the password was given).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth import SESSION_KEY, user_logged_in
from django.contrib.auth.models import User
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import SessionBase
from django.contrib.sessions.models import Session
from django.utils import timezone

SEEN_PRECISION_S = 60  # reading pages must not write at each of them


class SessionStore(db.SessionStore):
    """One that is over, by its age or by how long nobody touched it, is as if it had never been."""

    def load(self) -> dict[str, Any]:
        return self._unless_over(super().load())

    async def aload(self) -> dict[str, Any]:
        return self._unless_over(await super().aload())

    def _unless_over(self, data: dict[str, Any]) -> dict[str, Any]:
        if SESSION_KEY not in data or not is_over(data, now=timezone.now()):
            return data
        self._session_key = None
        return {}

    @classmethod
    def get_model_class(cls) -> type[Session]:
        return Session


def is_over(data: dict[str, Any], *, now: datetime) -> bool:
    age_s, idle_s = (now.timestamp() - data.get(moment, 0.0) for moment in ("began", "seen"))
    return bool(age_s >= settings.SESSION_COOKIE_AGE or idle_s >= settings.SESSION_IDLE_S)


def begin(request: Any, **_: Any) -> None:
    """A receiver of Django's signal that somebody logged in, in whichever way."""
    now = timezone.now().timestamp()
    request.session.update({"began": now, "seen": now, "confirmed": now})


user_logged_in.connect(begin, dispatch_uid="recovery.sessions.begin")


def touch(session: SessionBase, *, now: datetime) -> None:
    """A person did something: what a page fetches by itself does not count."""
    if now.timestamp() - session.get("seen", 0.0) >= SEEN_PRECISION_S:
        session["seen"] = now.timestamp()


def confirm(session: SessionBase, *, now: datetime) -> None:
    session["confirmed"] = now.timestamp()


def asks_again(session: SessionBase, user: User, *, now: datetime) -> bool:
    """Whether the password was given too long ago for what is sensitive; an account without one can't be asked."""
    return user.has_usable_password() and now.timestamp() - session.get("confirmed", 0.0) >= settings.ASK_AGAIN_S


def end_all(user: User, *, now: datetime) -> None:
    """End every session of an account. Their content alone says whose they are; a site has few that live."""
    for session in Session.objects.filter(expire_date__gt=now).iterator():
        if session.get_decoded().get(SESSION_KEY) == str(user.pk):
            session.delete()
