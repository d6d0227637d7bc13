"""Log-in at the site's own provider or directory: can it be asked, and does each group of the mapping give its role?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.conf import settings

from recovery import oidc
from recovery.doctor.results import Group, Result, State
from recovery.pipeline import accounts
from recovery.pipeline.invalid import Invalid


def examine_sign_on(*, now: datetime) -> Iterator[Result]:
    """Nothing where neither is set. Asks the provider, which may take seconds."""
    if settings.OIDC is not None:
        yield provider(now)
    if settings.GROUP_ROLES:
        yield mapping(now)


def provider(now: datetime) -> Result:
    what = f"single sign-on ({oidc.configured().issuer})"
    try:
        oidc.description()
    except oidc.Unreachable as error:
        remedy = "Check RECOVERY_OIDC_ISSUER and RECOVERY_OIDC_CA_PATH, and that this host reaches it."
        return _result(what, str(error), State.BROKEN, remedy, now)
    if not settings.GROUP_ROLES and not oidc.configured().slurm_user_claim:
        remedy = "Set RECOVERY_GROUP_ROLES: without a role by a group nobody new is let in."
        return _result(what, "describes itself; no group has a role", State.ATTENTION, remedy, now)
    return _result(what, "describes itself; whether it knows this desk shows the first log-in", State.GOOD, "", now)


def mapping(now: datetime) -> Result:
    wrong = []
    for each in settings.GROUP_ROLES:
        try:
            accounts.read_reach(each.scope)
        except Invalid as problem:
            wrong.append(f"{each.group}: {' '.join(problem.errors)}")
    if wrong:
        return _result("roles by group", "; ".join(wrong), State.BROKEN, "Correct RECOVERY_GROUP_ROLES.", now)
    return _result("roles by group", f"{len(settings.GROUP_ROLES)} are given", State.GOOD, "", now)


def _result(what: str, detail: str, state: State, remedy: str, now: datetime) -> Result:
    return Result(group=Group.INSTALLATION, what=what, detail=detail, remedy=remedy, state=state, at=now)
