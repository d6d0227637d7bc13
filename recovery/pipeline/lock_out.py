"""Lock-out: who fails to log in too often in a row waits, longer each time, by name and by address.

Names are counted whether there is such an account or not, and answered alike: nobody learns which accounts there are.
A try is counted before its password is looked at, so a thousand at once are no more tries than one after the other.

A browser in which somebody logged in with a name before is *known* for it, and is counted by itself: whoever knows an
administrator's name, or shares an address with one, could keep the administrator out for as long as they like.
"""

from __future__ import annotations

import ipaddress
import unicodedata
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils.crypto import salted_hmac

from recovery import audit
from recovery.access import EVERYTHING, SYSTEM, Actor, Permission, require
from recovery.models import LogInTries

ADDRESS_FACTOR = 4  # many people may come from one address
LONGEST_S = 3600
FORGOTTEN_AFTER = timedelta(days=1)  # without another failure


def begin(name: str, address: str, *, known: str = "", now: datetime) -> datetime | None:
    """Count a try, as one that fails until `succeeded`; where the name or the address is locked, count nothing.

    `known`: what tells this browser, or session, from others that are known for the name; "" for a stranger.
    Returns until when it is locked; None: the password may be looked at.
    """
    with transaction.atomic():
        rows = _rows(name, address, known, now=now)
        locks = [row.locked_until for row in rows if row.locked_until is not None and row.locked_until > now]
        if locks:
            return max(locks)
        for row in rows:
            of_address = row.pk == _address_key(address)
            _count(row, after=int(settings.LOCK_AFTER) * (ADDRESS_FACTOR if of_address else 1), now=now)
    return None


def succeeded(name: str, address: str, *, known: str = "") -> None:
    """The name begins anew; the address only gets this try back, else one account of one's own would free it.

    A known browser changes nothing of what strangers have tried.
    """
    with transaction.atomic():
        if known:
            LogInTries.objects.filter(pk=_known_key(name, known)).delete()
            return
        LogInTries.objects.filter(pk=_name_key(name)).delete()
        row = LogInTries.objects.select_for_update().filter(pk=_address_key(address)).first()
        if row is not None:
            row.failures = max(row.failures - 1, 0)
            row.locked_until = None
            row.save(update_fields=["failures", "locked_until"])


def failed(name: str, address: str, *, known: str = "", now: datetime) -> None:
    """Write down what this try has locked."""
    with transaction.atomic():
        for row in LogInTries.objects.filter(pk__in=_keys(name, address, known), locked_until__gt=now):
            what = "address" if row.pk == _address_key(address) else "browser" if known else "name"
            audit.record(
                "account.locked", actor=SYSTEM, at=now, subject_kind="account",
                subject_id=row.user_id or "unknown", new=f"{row.locked_until:%Y-%m-%dT%H:%M:%SZ}",
                reason=f"{row.failures} tries to log in failed with one {what}",
            )  # fmt: skip


def unlock(user: User, *, actor: Actor, now: datetime) -> bool:
    """Let an account try again at once; whether it was locked or near to it. Raises Forbidden."""
    require(actor, Permission.ACCOUNT_MANAGE, EVERYTHING)
    with transaction.atomic():
        rows = LogInTries.objects.filter(Q(pk=_name_key(user.get_username())) | Q(user=user))
        found = rows.delete()[0] > 0
        if found:
            audit.record("account.unlocked", actor=actor, at=now, subject_kind="account", subject_id=user.pk,
                         reason=f"Account {user.get_username()}")  # fmt: skip
    return found


def locked_accounts(*, now: datetime) -> list[LogInTries]:
    """Those of accounts; the longest first."""
    rows = LogInTries.objects.select_related("user").filter(locked_until__gt=now, user__isnull=False)
    longest: dict[int | None, LogInTries] = {}
    for row in rows.order_by("-locked_until", "pk"):
        longest.setdefault(row.user_id, row)
    return list(longest.values())


def forget(*, now: datetime) -> int:
    return LogInTries.objects.filter(last_at__lt=now - FORGOTTEN_AFTER).delete()[0]


def _rows(name: str, address: str, known: str, *, now: datetime) -> list[LogInTries]:
    """Locked in the order of their keys: two tries at once must not wait for each other."""
    user = User.objects.filter(username=name).first()
    keys = _keys(name, address, known)
    for key in keys:
        of = None if key == _address_key(address) else user
        LogInTries.objects.get_or_create(pk=key, defaults={"last_at": now, "user": of})
    return list(LogInTries.objects.select_for_update().filter(pk__in=keys).order_by("pk"))


def _count(row: LogInTries, *, after: int, now: datetime) -> None:
    row.failures = 1 if now - row.last_at > FORGOTTEN_AFTER else row.failures + 1
    row.last_at = now
    beyond = row.failures - after
    # Past a dozen doublings it is the longest anyway; the power of a large number must not be computed.
    wait_s = min(settings.LOCK_S * 2 ** min(beyond, 12), LONGEST_S) if beyond >= 0 else 0.0
    row.locked_until = now + timedelta(seconds=wait_s) if wait_s else None
    row.save()


def _keys(name: str, address: str, known: str) -> list[str]:
    if known:
        return [_known_key(name, known)]
    return sorted(key for key in (_name_key(name), _address_key(address)) if key)


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def _name_key(name: str) -> str:
    return _key("name", _plain(name))


def _known_key(name: str, known: str) -> str:
    return _key("known", f"{known}:{_plain(name)}")


def _address_key(address: str) -> str:
    """Of an IPv6 address its network of 64 bits, which one customer has alone; "" where none is known."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return _key("address", address) if address else ""
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is None:
        return _key("address", str(ipaddress.ip_network((found, 64), strict=False)))
    return _key("address", str(getattr(found, "ipv4_mapped", None) or found))


def name_of_browser(name: str) -> str:
    """Under what a browser remembers that somebody logged in with that name: it tells nobody the name."""
    return _name_key(name)


def _key(kind: str, text: str) -> str:
    """By the secret key: people type their password as their name."""
    return salted_hmac("recovery.lock_out", f"{kind}:{text}", algorithm="sha256").hexdigest()
